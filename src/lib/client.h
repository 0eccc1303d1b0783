/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine and the client behind the public header, and what an info is made of.
 */
#ifndef LIB_CLIENT_H
#define LIB_CLIENT_H

#include "lib/link.h"

#include <norn.h>

struct norn_engine {
    struct mem mem; /* its own */
    struct engine *engine;
    struct engine_bell bell;
};

struct norn_client {
    struct mem mem; /* its own */
    struct link *link;
};

/* A copy of the view, to be freed with norn_info_free(); NULL without memory. */
struct norn_info *info_new(const struct instance_view *view);
/* Infos in a list; the node of each. */
struct list *info_node(struct norn_info *info);
struct norn_info *info_of_node(struct list *node);

#endif
