/* SPDX-License-Identifier: Apache-2.0
 *
 * What the two halves of the embedded backend share: link_engine.c for clients, link_engine_port.c
 * for workers.
 */
#ifndef LIB_LINK_ENGINE_H
#define LIB_LINK_ENGINE_H

#include "core/limits.h"
#include "host/engine.h"
#include "lib/link.h"

#include <semaphore.h>

struct engine_link {
    struct link link; /* first */
    struct mem mem;   /* its own */
    struct engine *engine;
    struct engine_bell *bell;
    char hub[LIMIT_HUB_SIZE];
    size_t hub_len;
};

static inline struct engine_link *engine_link_of(struct link *link)
{
    return container_of(link, struct engine_link, link);
}

/* hub '/' id, on the asker's stack. */
struct link_key {
    uint8_t bytes[LIMIT_HUB_SIZE + 1 + LIMIT_ID_SIZE];
    size_t len;
};

/* False: the id is too long. */
bool engine_key_make(const struct engine_link *l, struct bytes id, struct link_key *key);
static inline struct bytes engine_key_view(const struct link_key *key)
{
    return bytes_make(key->bytes, key->len);
}
/* The id that a start asks for or, when it asks for none, a new one; made: LINK_ID_SIZE. */
void engine_start_id(const struct link_start *start, char *made);
/* The request's key is the caller's. */
struct input_start engine_start_input(const struct link_start *start);

/* A client that waits for an answer. A semaphore and no condition: the one who waits is woken once,
 * and does not meet at a mutex who wakes it. */
struct engine_asker {
    struct list node; /* in bell.answered */
    sem_t answered;
    _Atomic bool is_woken; /* what was written before is seen by who waited */
};
void engine_asker_init(struct engine_asker *asker);
void engine_asker_release(struct engine_asker *asker);
void engine_asker_wait(struct engine_asker *asker);
/* False: the time is over, and it is still to be waited for. */
bool engine_asker_wait_for(struct engine_asker *asker, int64_t wait_ms);
/* On the host's thread: it is woken at the next ring, or soon after. */
void engine_bell_answered(struct engine_bell *bell, struct engine_asker *asker);

/* node: of a port, in bell.ports. Tells its worker what was delivered since. */
void engine_port_told(struct list *node);

void engine_start_many(struct link *link, struct link_job *jobs, size_t n);
void engine_wait_many(struct link *link, struct link_job *jobs, size_t n, int64_t wait_ms);

enum status engine_port_attach(struct link *link, const struct link_worker *worker,
                               struct link_port **port);
void engine_port_detach(struct link_port *port);
void engine_port_free(struct link_port *port);
void engine_port_credit(struct link_port *port, enum work_kind kind, uint32_t n);
void engine_port_flush(struct link_port *port);
void engine_work_answer(struct link_work *work);
void engine_work_abandon(struct link_work *work, bool is_unsent, const char *reason);
void engine_work_fetch(struct link_work *work);
enum status engine_work_renew(struct link_work *work, int64_t extend_ms);

#endif
