/* SPDX-License-Identifier: Apache-2.0
 *
 * The crowd: clients that start instances, raise events, suspend, terminate, rewind, purge, read
 * and list, each remembering what was acknowledged, refused, or is unknown. A client owns its
 * instances: nobody else sends to them, so what it remembers is all there is to know.
 */
#ifndef TEST_SIM_SIM_CLIENT_H
#define TEST_SIM_SIM_CLIENT_H

#include "test/sim/sim_world.h"

struct crowd *crowd_new(struct world *w);
void crowd_free(struct crowd *c);
void crowd_start(struct crowd *c);
/* No new instances; every client sees its own to their end. */
void crowd_drain(struct crowd *c);
bool crowd_is_finished(struct crowd *c);
_Noreturn void crowd_report_unfinished(struct crowd *c);
/* Everything the clients remember against everything that is durable. */
void crowd_check_end(struct crowd *c);
/* A worker has answered nonsense for this instance: its end, and that of its ancestors, is open. */
void crowd_taint(struct crowd *c, struct bytes key);
/* No worker finished its turn, twenty times: it waits for an operator (or does not any more). */
void crowd_park(struct crowd *c, struct bytes key, bool is_parked);
/* It runs with a history that was made by an execution which had ended. */
bool crowd_was_rewound(struct crowd *c, struct bytes key);
/* Nonsense was answered for this very instance. */
bool crowd_is_tainted(const struct crowd *c, struct bytes key);
/* The server has answered this event with OK and a sentence that it was dropped. */
void crowd_drop(struct crowd *c, struct bytes key, struct bytes value);
struct bytes crowd_hub(uint32_t index);
/* The key of any instance that a client has started; empty when there is none. */
struct bytes crowd_draw_key(struct crowd *c, struct rng *rng);

#endif
