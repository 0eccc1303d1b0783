/* SPDX-License-Identifier: Apache-2.0
 *
 * The fleet: workers that attach to every shard, run the programs of sim_programs.c, and misbehave
 * as the faults say.
 */
#ifndef TEST_SIM_SIM_WORKER_H
#define TEST_SIM_SIM_WORKER_H

#include "test/sim/sim_world.h"

struct node;

struct fleet *fleet_new(struct world *w);
void fleet_free(struct fleet *f);
void fleet_start(struct fleet *f);
void fleet_heal(struct fleet *f);
/* A process of this shard is there: workers will come. */
void fleet_node_up(struct fleet *f, struct node *n);
/* It is gone, and with it all streams. */
void fleet_node_gone(struct fleet *f, struct node *n);
void fleet_crash_one(struct fleet *f);
void fleet_cut_one(struct fleet *f);

#endif
