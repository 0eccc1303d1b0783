/* SPDX-License-Identifier: Apache-2.0
 *
 * The invariants that can be seen in a history, a record, an answer or a delivery. Names are those
 * of the table in docs/simulation.md. A check that fails ends the run.
 */
#ifndef TEST_SIM_SIM_CHECK_H
#define TEST_SIM_SIM_CHECK_H

#include "core/core.h"
#include "core/record.h"
#include "test/sim/sim_world.h"

struct node;
struct request;

/* The policies of the simulated steps; for hosts and shadows alike. */
const struct policy *check_policy(void *user, struct bytes name);

/* S4 to S8, S12: the events of one execution; S17: the view is what they say. */
void check_history(struct world *w, struct bytes key, const struct instance_view *view,
                   struct bytes events);
/* S12, S14, S18, S20, S22: a durable record against the instance as it was before in c; NULL:
 * there was none. */
void check_record(struct world *w, const struct core *c, const struct record *record,
                  const struct instance_view *before);
/* S1, S10: an answer is about to leave; what it stands on must be durable. */
void check_answer(struct node *n, const struct request *request);
/* S10: a piece of work leaves. */
void check_delivery(struct node *n, const struct effect_work *work);
/* Every durable instance: its view and its history. */
void check_all_views(struct node *n);

#endif
