/* SPDX-License-Identifier: Apache-2.0
 *
 * The bugs that norn-sim-planted can switch on (base/planted.h), each at one place of the engine.
 * The simulator must find every one of them: see find_planted_bugs.
 */
#ifndef TEST_SIM_SIM_BUGS_H
#define TEST_SIM_SIM_BUGS_H

/* name, what is wrong then */
#define PLANTED_BUGS(X)                                                                            \
    X(ack_before_durable, "answers leave when the frame is submitted, not when it is durable")     \
    X(no_datasync, "a frame is written and not synced")                                            \
    X(skip_crc, "recovery takes a torn frame for a whole one")                                     \
    X(timer_early, "timers fire one millisecond early")                                            \
    X(drop_carried_event, "continue-as-new forgets one carried event")                             \
    X(skip_execution_check, "the result of a child is taken by another execution of its parent")   \
    X(skip_attempt_check, "the answer to an earlier attempt of a step is taken")                   \
    X(skip_base_check, "the answer to an earlier turn is taken")                                   \
    X(skip_dedup, "a message between partitions is taken twice")                                   \
    X(lose_outbox, "the partition's snapshot has no outbox")                                       \
    X(archive_ahead, "instances are archived before their frame is durable")                       \
    X(forget_inbox, "an instance is loaded without its unread messages")                           \
    X(purge_in_memory, "a purge removes nothing from the archive")                                 \
    X(ladder_off_by_one, "the Supervisor tries once too often")                                    \
    X(suspended_goes_on, "a suspended instance is given turns")                                    \
    X(lost_sleeper, "the archive does not know when a sleeping instance must wake")                \
    X(no_filter, "what is archived is not noted in the filter of what the archive may have")       \
    X(skip_batch_check, "the answer to an earlier batch of an entity is taken")                    \
    X(repeat_operation, "the last operation of a batch stays in the entity's queue")               \
    X(keep_locks, "the end of an execution does not release its locks")                            \
    X(keep_late_grant, "a lock that is granted to an ended execution is not given back")           \
    X(ignore_lock, "a locked entity is given everybody's operations")                              \
    X(forget_lost_work, "the work of a lost stream is not offered again")                          \
    X(ignore_work_limit, "a worker is given more than it asked for")                               \
    X(keep_credit, "an answered piece of work still counts for its stream")                        \
    X(ignore_token, "an answer is for the newest dispatch of its task, whatever its token says")   \
    X(trim_waiting, "the journal is trimmed past a start that waits in it")                        \
    X(carry_forgets, "a start that is carried forward is not remembered")                          \
    X(forget_waiting, "recovery does not bring back what waits")                                   \
    X(ok_before_durable, "a gRPC call is answered when the engine has taken it")                   \
    X(source_twice, "a message that was taken is taken again")                                     \
    X(source_gap, "a message is taken before the one before it")                                   \
    X(source_alone, "the position of a message is taken although its start is refused")            \
    X(import_drops, "an imported history has no results of its tasks")                             \
    X(import_untagged, "the start of an imported history has no tags")                             \
    X(reply_skipped, "who asked to be told is not told of a termination")                          \
    X(reply_of_refused, "who asked to be told is told of a start that was refused")                \
    X(reply_unheard, "a reply that nobody heard is not posted again")

#endif
