/* SPDX-License-Identifier: Apache-2.0
 *
 * The nemesis strikes the world at random intervals: kills, pauses, cuts, sets clocks. Faults that
 * belong to a single operation (a lost request, a failed write) are decided where that operation
 * is.
 */
#ifndef TEST_SIM_SIM_NEMESIS_H
#define TEST_SIM_SIM_NEMESIS_H

#include "test/sim/sim_world.h"

struct nemesis *nemesis_new(struct world *w);
void nemesis_free(struct nemesis *n);
void nemesis_start(struct nemesis *n);
/* Takes back what lasts: full disks, cuts, pauses, drifting clocks. */
void nemesis_heal(struct nemesis *n);

#endif
