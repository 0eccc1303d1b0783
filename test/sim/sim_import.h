/* SPDX-License-Identifier: Apache-2.0
 *
 * An operator who moves instances: reads the history of one, stores it under another key, reads it
 * back, and removes some again.
 *
 * S35: an imported history equals the exported one, event by event, save the id in its start; what
 * had not ended is refused; what an execution made can always be imported.
 */
#ifndef TEST_SIM_SIM_IMPORT_H
#define TEST_SIM_SIM_IMPORT_H

#include "core/core.h"
#include "test/sim/sim_world.h"

struct mover;

struct mover *mover_new(struct world *w);
void mover_free(struct mover *m);
void mover_start(struct mover *m);
/* Not many more. */
void mover_drain(struct mover *m);
/* What was begun is done. */
bool mover_is_finished(const struct mover *m);
/* A durable record, before it is applied. */
void mover_see_record(struct mover *m, const struct record *record);
void mover_check_end(struct mover *m);
uint64_t mover_imported_n(const struct mover *m);

#endif
