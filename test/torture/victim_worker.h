/* SPDX-License-Identifier: Apache-2.0
 *
 * The victim's worker: runs the programs of the simulator (test/sim/sim_programs.h) on threads of
 * its own, from their whole history at every turn, so that nothing it knows can be lost with the
 * process. Each activity leaves a line "<instance> <execution> <task>" in the file of side effects
 * before it answers.
 */
#ifndef TEST_TORTURE_VICTIM_WORKER_H
#define TEST_TORTURE_VICTIM_WORKER_H

#include "host/engine.h"

struct victim_worker;

/* complain: told what must never be, from any thread. effects_fd: opened for appending. Exits when
 * it cannot. */
struct victim_worker *victim_worker_open(struct engine *engine, int effects_fd,
                                         void (*complain)(const char *text));
/* Answers what it has been given, and leaves: before engine_close(). */
void victim_worker_close(struct victim_worker *w);
/* After engine_close(). */
void victim_worker_free(struct victim_worker *w);

#endif
