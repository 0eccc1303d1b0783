/* SPDX-License-Identifier: Apache-2.0
 *
 * The entities of the simulation, and what must be true of them. There are a few for each hub,
 * which everybody uses at once:
 *
 *      @log@0 … @log@3    remember all that was done to them, so that each batch can be checked
 *                         against the state it comes with
 *      @brief@0           forgets everything: it is made and removed again and again
 *
 * Operations of a log, their input, and what is checked:
 *
 *      note v             a client's value: at the end, acknowledged ones are there once
 *      pass v             signals "note v" to the next log
 *      add sender n       of an orchestration: each sender's numbers come one by one, none twice,
 *                         none missing
 *      enter who          of a critical section: nobody else is in one
 *      leave who          the same who entered
 */
#ifndef TEST_SIM_SIM_ENTITY_H
#define TEST_SIM_SIM_ENTITY_H

#include "core/core.h"
#include "test/sim/sim_world.h"

#define LOGS_N 4

/* A signal as its client remembers it. */
struct note {
    int64_t value;
    uint32_t client;
    uint32_t hub;
    bool is_delayed; /* scheduled, or passed on by another entity: in no order */
    bool is_acked;
    bool is_refused; /* certainly never arrived */
    bool is_doubled;
};

struct ledger;
struct ledger *ledger_new(struct world *w);
void ledger_free(struct ledger *l);
/* NULL when there are enough. Lives as long as the ledger. */
struct note *ledger_note(struct ledger *l, uint32_t client, uint32_t hub);
/* Every note against the durable states. */
void ledger_check_end(struct ledger *l);

/* What a worker answers. operations: strings. Everything in arena. */
void entity_run(struct world *w, struct bytes key, struct maybe state, struct bytes operations,
                struct arena *arena, struct entity_answer *out);
/* An entity that has something to do or is locked, though nothing is left to happen. */
bool entity_is_busy(const struct instance_view *view);

#endif
