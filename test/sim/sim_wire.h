/* SPDX-License-Identifier: Apache-2.0
 *
 * A client's way to the server over gRPC: the requests of a port become calls on one connection,
 * what is answered becomes an answer again. So clients and the checks of what they are told are the
 * same on both ways.
 *
 *      OK, and codes that say what was decided      OUTCOME_ANSWER
 *      no connection                                OUTCOME_REFUSED
 *      UNAVAILABLE, DEADLINE_EXCEEDED, cancelled    OUTCOME_UNKNOWN
 */
#ifndef TEST_SIM_SIM_WIRE_H
#define TEST_SIM_SIM_WIRE_H

#include "test/sim/sim_world.h"

struct call;
struct wire;

/* hub outlives it. */
struct wire *wire_new(struct world *w, struct bytes hub);
/* Its links are gone. */
void wire_free(struct wire *wire);
/* Whether this request has an RPC that means the same. */
bool wire_has_rpc(const struct wire *wire, const struct call *call);
/* call_return() follows. */
void wire_send(struct wire *wire, struct call *call, int64_t patience_ns);
/* The caller gives up: its fate is unknown. */
void wire_cancel(struct call *call);

#endif
