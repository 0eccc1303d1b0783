/* SPDX-License-Identifier: Apache-2.0
 *
 * The shadow of a shard: cores that know nothing but the durable frames, from the first one on,
 * applied in order the moment each becomes durable. What was acknowledged must be in it; what is
 * recovered from archive and journal tail must equal it.
 */
#ifndef TEST_SIM_SIM_SHADOW_H
#define TEST_SIM_SIM_SHADOW_H

#include "core/core.h"
#include "store/archive.h"
#include "test/sim/sim_world.h"

struct shadow;
struct host;

struct shadow *shadow_new(struct world *w, uint32_t shard);
void shadow_free(struct shadow *s);

/* The host tries to make this frame durable. */
void shadow_attempt(struct shadow *s, uint64_t lsn, struct bytes payload);
/* The frame is durable: told by append, or found by replay. The same one may come again. */
void shadow_frame(struct shadow *s, uint64_t lsn, struct bytes payload);
/* Replay has ended with this last frame. */
void shadow_replayed(struct shadow *s, uint64_t last_lsn);
uint64_t shadow_lsn(const struct shadow *s);

/* False when there is no such instance, or it is purged. */
bool shadow_view(struct shadow *s, struct bytes key, struct instance_view *out);
/* Its start was put off and is not admitted yet. */
bool shadow_waits(struct shadow *s, struct bytes key);
uint64_t shadow_waiting_n(const struct shadow *s);
/* There is or was such an instance, or it waits. */
bool shadow_knows(struct shadow *s, struct bytes key);
/* How far messages of a source were taken. */
uint64_t shadow_position(const struct shadow *s, uint32_t partition, struct bytes source);
bool shadow_history(struct shadow *s, struct bytes key, struct buffer *out);
/* A row that the archive is about to store must not be ahead of the frames. */
void shadow_check_row(struct shadow *s, struct bytes key, const struct archive_row *row);
/* Memory and archive together equal the fold: call only when everything the host knows is
 * durable. */
void shadow_compare(struct shadow *s, struct host *h, struct archive *a);
/* Every instance that is not purged. */
void shadow_each(struct shadow *s, core_view_fn *fn, void *user);

#endif
