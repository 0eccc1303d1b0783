/* SPDX-License-Identifier: Apache-2.0
 *
 * The trace hash and the wrapped core_step(); see sim_trace.c.
 */
#ifndef TEST_SIM_SIM_TRACE_H
#define TEST_SIM_SIM_TRACE_H

#include "test/sim/sim_world.h"

/* A frame became durable. */
void trace_frame(struct world *w, uint32_t shard, uint64_t lsn, uint64_t payload_hash);

#endif
