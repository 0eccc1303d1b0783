/* SPDX-License-Identifier: Apache-2.0
 *
 * A worker inside the process, for the demonstration and the benchmarks: orchestrator turns run at
 * once on the engine's thread (they only decide), activities on a thread of their own, as in the C
 * library.
 */
#ifndef CMD_LOCAL_WORKER_H
#define CMD_LOCAL_WORKER_H

#include "host/engine.h"

struct local_worker;

/* What an orchestrator decides in one turn; one action is enough here. */
#define LOCAL_ACTIONS_MAX 1
struct local_turn {
    struct action actions[LOCAL_ACTIONS_MAX];
    uint32_t actions_n;
};

struct local_program {
    struct bytes hub;
    /* Fills in the actions. What they point to must outlive the turn: static, in the work, or the
     * user's. */
    void (*turn)(void *user, const struct effect_work *work, struct local_turn *turn);
    /* The result; NULL = echo the input. On the worker's thread. */
    struct maybe (*task)(void *user, struct bytes name, struct maybe input);
    /* The completion of this instance is durable; on the engine's thread. May be NULL. */
    void (*finished)(void *user, struct bytes key);
    void *user;
};

/* Attaches to the engine. E_NOMEM, E_UNAVAILABLE. program is copied. */
enum status local_worker_open(struct engine *engine, const struct local_program *program,
                              struct local_worker **out);
/* Detaches: before engine_close(). What it was given and did not answer, nobody answers. */
void local_worker_close(struct local_worker *w);
/* After engine_close(): until then the engine may still answer its requests. */
void local_worker_free(struct local_worker *w);

#endif
