/* SPDX-License-Identifier: Apache-2.0
 *
 * Feeds: sources of messages, each of which starts one instance, as bound streams do. A feed sends
 * its messages in order for each partition of the engine, with their positions, and asks how far it
 * has come whenever it has forgotten. Some come twice, too late or too early; some start nothing;
 * some name an instance that is there already.
 *
 * S34: every position is taken once, after the one before it, never back, and in the same frame as
 * what its message starts.
 */
#ifndef TEST_SIM_SIM_FEED_H
#define TEST_SIM_SIM_FEED_H

#include "core/record.h"
#include "test/sim/sim_world.h"

struct feeds;
struct node;
struct request;

struct feeds *feeds_new(struct world *w);
void feeds_free(struct feeds *f);
void feeds_start(struct feeds *f);
/* No new messages. */
void feeds_drain(struct feeds *f);
/* Every message was taken, and its feed knows. */
bool feeds_are_finished(const struct feeds *f);
_Noreturn void feeds_report_unfinished(struct feeds *f);
/* A durable record of a partition, before it is applied. is_start: it is the first of an execution,
 * or puts one off for the first time. */
void feeds_see_record(struct feeds *f, uint32_t partition, const struct record *record,
                      bool is_start);
/* All records of a frame were seen. */
void feeds_see_frame_end(struct feeds *f);
/* A host is about to answer: what it says of positions is durable. */
void feeds_check_answer(struct node *n, const struct request *request);
void feeds_check_end(struct feeds *f);
/* Messages that were taken. */
uint64_t feeds_taken_n(const struct feeds *f);

#endif
