/* SPDX-License-Identifier: Apache-2.0
 *
 * Replies: who asked to be told, what must be told, and what was. Some starts carry an address
 * (core/replies.h); a worker of the server's own then posts "received" and the end to it, and does
 * so again until it is heard. Here the worker is simulated, its decisions (reply/job.h) are the
 * real ones, and the receiver is deaf now and then.
 *
 * S36: each durable cause sends one reply, in its own frame, and nothing else does; what is posted
 * is what was promised. L13: everything that was promised is heard in the end.
 */
#ifndef TEST_SIM_SIM_REPLY_H
#define TEST_SIM_SIM_REPLY_H

#include "core/core.h"
#include "core/output.h"
#include "test/sim/sim_world.h"

struct receiver;

/* Tags that ask for replies to what this key names; in the arena. */
struct bytes reply_tags(struct arena *arena, struct bytes key);

struct receiver *receiver_new(struct world *w);
void receiver_free(struct receiver *r);
/* A durable record that was just applied. is_start: as in feeds_see_record(); has_ended: the
 * instance had not ended before and has now, and `after` is how. */
void receiver_see_record(struct receiver *r, const struct record *record, bool is_start,
                         bool has_ended, const struct instance_view *after);
/* All records of a frame were seen. */
void receiver_see_frame_end(struct receiver *r);
/* A turn of a reply: posts it, or not yet; the answer is in arena. now_ns: of the server. */
void receiver_turn(struct receiver *r, const struct effect_work *work, int64_t now_ns,
                   struct arena *arena, struct orchestrator_answer *out);
bool is_reply(struct bytes key);
/* Nothing that was promised is still to come. */
bool receiver_has_heard_all(const struct receiver *r);
void receiver_check_end(struct receiver *r);
/* Posts that were heard. */
uint64_t receiver_heard_n(const struct receiver *r);

#endif
