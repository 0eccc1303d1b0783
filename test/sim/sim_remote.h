/* SPDX-License-Identifier: Apache-2.0
 *
 * Workers that speak gRPC: GetWorkItems, then Complete* and Abandon* for each item, from whichever
 * connection they have at that time. They run the same programs as the fleet's other workers and
 * misbehave as the same faults say. Some never echo tokens, as older SDKs; those answer only on the
 * connection that the work came on, once.
 */
#ifndef TEST_SIM_SIM_REMOTE_H
#define TEST_SIM_SIM_REMOTE_H

#include "test/sim/sim_world.h"

struct remote;

/* hub outlives it. */
struct remote *remote_new(struct world *w, uint32_t index, struct bytes hub);
/* Its links are gone. */
void remote_free(struct remote *r);
/* Comes up, unless it is, and connects soon. */
void remote_start(struct remote *r);
/* The process is gone with all it held; remote_start() brings it back. */
void remote_crash(struct remote *r);
/* Loses its connections and lives. */
void remote_cut(struct remote *r);

#endif
