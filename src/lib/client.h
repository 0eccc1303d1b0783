/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine and the client behind the public header, and what an info is made of.
 */
#ifndef LIB_CLIENT_H
#define LIB_CLIENT_H

#include "lib/link.h"
#include "lib/policies.h"
#include "lib/running.h"

#include <norn.h>

struct norn_engine {
    struct mem mem; /* its own */
    struct engine *engine;
    struct engine_bell bell;
    struct policies policies;
    struct running running;
    _Atomic uint32_t workers_n; /* of its clients */
};

struct norn_client {
    struct mem mem; /* its own */
    struct link *link;
    struct norn_engine *engine; /* NULL: it is none in this process */
    _Atomic uint32_t workers_n;
};

/* What would end in a crash without a word: says what the program did wrong, and aborts. */
_Noreturn void client_misuse(const char *what);

/* What a verb answers: the status for the user; its sentence (why, or that of the status) stays
 * with the thread, for norn_client_error(). */
norn_status client_answer(const struct norn_client *client, enum status status, const char *why);
/* NORN_E_INVALID, and why. */
norn_status client_refuse(const struct norn_client *client, const char *why);
/* Options (NULL: the defaults) as the link takes them, all but the name and input. tags: raw map
 * entries are added there and not yet pointed to; entry: scratch. E_NOMEM, E_INVALID. */
enum status client_read_start(const struct norn_start_options *given, struct buffer *tags,
                              struct buffer *entry, struct link_start *start);

/* A copy of the view, to be freed with norn_info_free(); NULL without memory. */
struct norn_info *info_new(const struct instance_view *view);
/* Infos in a list; the node of each. */
struct list *info_node(struct norn_info *info);
struct norn_info *info_of_node(struct list *node);

/* What is wrong when client_read_start() answers E_INVALID. */
#define START_OPTIONS_INVALID                                                                      \
    "the options have no size (begin with NORN_START_OPTIONS), a tag has a name and no value, "    \
    "there is no such reuse, or start_at_ms is below 0 or after the year 2262"

#endif
