/* SPDX-License-Identifier: Apache-2.0
 *
 * Entities: made by their first message, one batch at a time, first come first served, every
 * operation applied once, gone when nothing of them is left.
 */
#include "test/lib/entity_kit.h"
#include "test/lib/test.h"

#include "core/limits.h"

#include <stdio.h>

#define COUNTER "hub/@counter@a"

static const struct effect_work *batch(struct kit *k)
{
    return kit_must(kit_take_entity(k, "counter"));
}

/* Clients need not create an entity: the first signal does. */
TEST(a_signal_makes_an_entity)
{
    struct kit *k = kit_new(1, 1);
    EXPECT_STATUS(OK, kit_signal(k, COUNTER, "add", "1"));
    EXPECT_TEXT("state (none), backlog 1", kit_entity(k, COUNTER));
    const struct effect_work *work = batch(k);
    EXPECT_TEXT("add ", kit_operations(k, work));
    EXPECT_TEXT("counter", kit_bytes(k, work->name));
    EXPECT(!work->state.has);
    EXPECT_STATUS(OK, KIT_DONE(k, work, "1", "x"));
    EXPECT_TEXT("state 1", kit_entity(k, COUNTER));
    EXPECT(kit_take_entity(k, "counter") == NULL);
    kit_free(k);
}

/* The whole point of an entity: no two operations at once, and what comes meanwhile waits. */
TEST(one_batch_at_a_time_in_order)
{
    struct kit *k = kit_new(1, 1);
    kit_signal(k, COUNTER, "one", NULL);
    kit_signal(k, COUNTER, "two", NULL);
    const struct effect_work *work = batch(k);
    EXPECT_TEXT("one two ", kit_operations(k, work));
    kit_signal(k, COUNTER, "three", NULL);
    EXPECT(kit_take_entity(k, "counter") == NULL);
    EXPECT_TEXT("state (none), backlog 3", kit_entity(k, COUNTER));
    KIT_DONE(k, work, "2", "", "");
    work = batch(k);
    EXPECT_TEXT("three ", kit_operations(k, work));
    EXPECT_TEXT("2", kit_maybe(k, work->state));
    kit_free(k);
}

/* A worker that is shutting down answers what it has done; the rest comes again, before what came
 * later. */
TEST(operations_without_a_result_come_again_first)
{
    struct kit *k = kit_new(1, 1);
    kit_signal(k, COUNTER, "one", NULL);
    kit_signal(k, COUNTER, "two", NULL);
    kit_signal(k, COUNTER, "three", NULL);
    const struct effect_work *work = batch(k);
    kit_signal(k, COUNTER, "four", NULL);
    KIT_DONE(k, work, "1", "");
    EXPECT_TEXT("two three four ", kit_operations(k, batch(k)));
    kit_free(k);
}

/* More than a batch may hold: the rest is the next one. */
TEST(a_batch_is_limited_in_number_and_size)
{
    struct kit *k = kit_new(1, 1);
    static char large[700 << 10];
    k->is_thorough = false;
    memset(large, 'x', sizeof large - 1);
    for (uint32_t n = 0; n < LIMIT_BATCH_N + 1; n++) kit_signal(k, COUNTER, "a", NULL);
    EXPECT_EQ(LIMIT_BATCH_N, batch(k)->ref.inbox_n);
    kit_signal(k, "hub/@counter@b", "a", large);
    kit_signal(k, "hub/@counter@b", "b", large);
    EXPECT_TEXT("a ", kit_operations(k, batch(k)));
    kit_free(k);
}

/* An answer counts once, for the batch it names. A4 */
TEST(a_repeated_answer_changes_nothing)
{
    struct kit *k = kit_new(1, 1);
    kit_signal(k, COUNTER, "one", NULL);
    const struct effect_work *work = batch(k);
    kit_signal(k, COUNTER, "two", NULL);
    KIT_DONE(k, work, "1", "");
    uint64_t stale = core_stats(kit_core(k, COUNTER))->stale_answers;
    EXPECT_STATUS(OK, KIT_DONE(k, work, "99", ""));
    EXPECT_EQ(stale + 1, core_stats(kit_core(k, COUNTER))->stale_answers);
    EXPECT_TEXT("state 1, backlog 1", kit_entity(k, COUNTER));
    const struct effect_work *second = batch(k);
    KIT_DONE(k, work, "99", ""); /* of the first, while the second is out */
    EXPECT_TEXT("two ", kit_operations(k, second));
    EXPECT_TEXT("state 1, backlog 1", kit_entity(k, COUNTER));
    KIT_DONE(k, second, "2", "");
    EXPECT_TEXT("state 2", kit_entity(k, COUNTER));
    kit_free(k);
}

/* A worker that cannot echo tokens answers by id. */
TEST(an_answer_without_token_is_for_the_batch_that_is_out)
{
    struct kit *k = kit_new(1, 1);
    kit_signal(k, COUNTER, "one", NULL);
    const struct effect_work *work = batch(k);
    struct entity_result result = {.output = maybe_text("r")};
    struct entity_answer answer = {.results = &result, .results_n = 1, .state = maybe_text("1")};
    EXPECT_STATUS(OK, kit_entity_answer(k, work, false, &answer));
    EXPECT_TEXT("state 1", kit_entity(k, COUNTER));
    answer.state = maybe_text("2");
    EXPECT_STATUS(OK, kit_entity_answer(k, work, false, &answer));
    EXPECT_TEXT("state 1", kit_entity(k, COUNTER));
    kit_free(k);
}

/* The orchestration that calls waits for the answer, and gets it once. */
TEST(a_call_is_answered)
{
    for (uint32_t n = 1; n <= 3; n++) {
        struct kit *k = kit_new(n, 1);
        kit_start(k, "hub/o", "caller", NULL);
        KIT_TURN(k, "caller", act_call(1, "@Counter@a", "r-1", "get"),
                 act_call(2, "@counter@a", "r-2", "get"));
        EXPECT_TEXT("RUNNING: waits for 0 activities, 0 timers, 0 sub-orchestrations, 2 entity "
                    "calls",
                    kit_why(k, "hub/o"));
        const struct effect_work *work = batch(k);
        EXPECT_TEXT("1 EntityOperationCalled r-1 get @Counter@a o\n"
                    "2 EntityOperationCalled r-2 get @counter@a o\n",
                    kit_fresh(k, work));
        KIT_DONE(k, work, "s", "five", "!broken");
        EXPECT_TEXT("1 OrchestratorStarted\n2 EntityOperationCompleted r-1 five\n"
                    "3 EntityOperationFailed r-2 TestError broken\n",
                    kit_fresh(k, kit_must(kit_take_turn(k, "caller"))));
        EXPECT_TEXT("1 OrchestratorStarted\n2 ExecutionStarted caller\n"
                    "3 EntityOperationCalled #1 r-1 get @Counter@a\n"
                    "4 EntityOperationCalled #2 r-2 get @counter@a\n",
                    kit_history(k, "hub/o"));
        kit_free(k);
    }
}

static void answer_again(struct kit *k, const char *request)
{
    struct buffer event;
    struct core *c = kit_core(k, "hub/o");
    struct input in = {.kind = INPUT_PARTITION_MESSAGE};
    struct bytes key = BYTES_LITERAL("hub/o");
    static uint64_t seq;
    (void)c;
    buffer_init(&event, &k->mem);
    event_write_operation_completed(&event, k->now_ns, bytes_of_text(request), maybe_text("again"));
    in.message.from = kit_partition_of(k, key);
    in.message.seq = ++seq;
    in.message.kind = MESSAGE_ENTITY_ANSWER;
    in.message.target = key;
    in.message.event = buffer_view(&event);
    kit_step(k, kit_partition_of(k, key), &in);
    buffer_release(&event);
}

/* Whoever sends it: an answer to nothing that is open is dropped, and counted. */
TEST(an_answer_that_nobody_waits_for_is_dropped)
{
    struct kit *k = kit_new(1, 1);
    struct instance_view view;
    kit_start(k, "hub/o", "caller", NULL);
    KIT_TURN(k, "caller", act_complete(1, NULL));
    kit_start(k, "hub/o", "caller", NULL);
    k->is_held = true; /* so that the numbers of messages are ours */
    KIT_TURN(k, "caller", act_timer(1, KIT_START_MS + 1000));
    uint64_t dropped = core_stats(kit_core(k, "hub/o"))->dropped_messages;
    answer_again(k, "unknown");
    EXPECT_EQ(dropped + 1, core_stats(kit_core(k, "hub/o"))->dropped_messages);
    EXPECT(kit_view(k, "hub/o", &view));
    EXPECT_EQ(0, view.inbox_n);
    kit_free(k);
}

/* A new generation must not read the answers of the last one. */
TEST(an_answer_to_an_earlier_execution_is_dropped)
{
    struct kit *k = kit_new(2, 1);
    kit_start(k, "hub/o", "caller", NULL);
    KIT_TURN(k, "caller", act_call(1, "@counter@a", "r-1", "get"), act_continue(2, NULL));
    KIT_DONE(k, batch(k), "s", "five");
    EXPECT_TEXT("1 OrchestratorStarted\n2 ExecutionStarted caller\n",
                kit_fresh(k, kit_must(kit_take_turn(k, "caller"))));
    kit_free(k);
}

/* Time passes for an entity too, in memory, in the archive and across a crash. */
TEST(a_scheduled_signal_waits_for_its_time)
{
    struct kit *k = kit_new(1, 1);
    int64_t at = KIT_START_MS + 3600000;
    kit_signal_at(k, COUNTER, "late", at);
    kit_signal_at(k, COUNTER, "early", KIT_START_MS + 1000);
    kit_signal(k, COUNTER, "now", NULL);
    EXPECT_TEXT("now ", kit_operations(k, batch(k)));
    kit_tick_to(k, KIT_START_MS + 1000);
    kit_crash(k, 0);
    EXPECT_TEXT("now early ", kit_operations(k, batch(k)));
    kit_crash(k, 0);
    KIT_DONE(k, batch(k), "s", "", "");
    EXPECT(kit_evict(k, COUNTER));
    struct instance_view view;
    EXPECT(kit_view(k, COUNTER, &view));
    EXPECT_EQ(at, view.wake_ms);
    kit_tick_to(k, at - 1);
    EXPECT(kit_take_entity(k, "counter") == NULL);
    EXPECT_TEXT("state s, backlog 1", kit_entity(k, COUNTER));
    kit_tick_to(k, at);
    EXPECT_TEXT("late ", kit_operations(k, batch(k)));
    kit_free(k);
}

/* More than are handled at once: all come, in order. */
TEST(many_signals_of_the_same_time_all_come)
{
    struct kit *k = kit_new(1, 1);
    uint32_t n = 0;
    k->is_thorough = false;
    for (; n < LIMIT_BATCH_N + 50; n++) kit_signal_at(k, COUNTER, "x", KIT_START_MS + 1000);
    kit_tick_to(k, KIT_START_MS + 1000);
    EXPECT_TEXT("state (none), backlog 150", kit_entity(k, COUNTER));
    EXPECT_EQ(LIMIT_BATCH_N, batch(k)->ref.inbox_n);
    EXPECT(strstr(kit_why(k, COUNTER), "wait for their time") == NULL);
    kit_free(k);
}

/* A time that has passed is now. */
TEST(a_signal_for_the_past_is_for_now)
{
    struct kit *k = kit_new(1, 1);
    kit_signal_at(k, COUNTER, "past", 0);
    EXPECT_TEXT("past ", kit_operations(k, batch(k)));
    kit_free(k);
}

/* Nothing is left of it that anybody could ask for. */
TEST(an_entity_without_state_and_backlog_is_gone)
{
    struct kit *k = kit_new(1, 1);
    kit_signal(k, COUNTER, "delete", NULL);
    KIT_DONE(k, batch(k), NULL, "");
    EXPECT_TEXT("none", kit_entity(k, COUNTER));
    kit_signal(k, COUNTER, "add", NULL);
    const struct effect_work *work = batch(k);
    EXPECT(!work->state.has);
    KIT_DONE(k, work, "1", "");
    EXPECT_TEXT("state 1", kit_entity(k, COUNTER));
    kit_free(k);
}

/* With a backlog it stays, so that what waits is not lost. */
TEST(an_entity_that_was_deleted_with_a_backlog_stays)
{
    struct kit *k = kit_new(1, 1);
    kit_signal(k, COUNTER, "delete", NULL);
    kit_signal_at(k, COUNTER, "later", KIT_START_MS + 5000);
    KIT_DONE(k, batch(k), NULL, "");
    EXPECT_TEXT("state (none), backlog 1", kit_entity(k, COUNTER));
    kit_free(k);
}

/* The whole batch failed: again, later and later, and in the end an operator is asked. */
TEST(a_batch_that_fails_is_tried_again_and_parked_in_the_end)
{
    struct kit *k = kit_new(1, 1);
    struct entity_answer failed = {.failure = maybe_some(BYTES_LITERAL("\x12\x03oom"))};
    kit_signal(k, COUNTER, "add", NULL);
    for (int n = 0; n < 20; n++) {
        const struct effect_work *work = batch(k);
        EXPECT_STATUS(OK, n % 2 == 0 ? kit_entity_answer(k, work, true, &failed)
                                     : kit_abandon(k, work, "busy"));
        EXPECT(kit_take_entity(k, "counter") == NULL);
        kit_tick_by(k, 60000);
    }
    EXPECT(kit_take_entity(k, "counter") == NULL);
    EXPECT_TEXT("entity without state: parked: busy; resume it when the cause is mended",
                kit_why(k, COUNTER));
    EXPECT_STATUS(OK, kit_resume(k, COUNTER, NULL));
    EXPECT_TEXT("add ", kit_operations(k, batch(k)));
    kit_free(k);
}

/* Wrong answers are failures of the worker, not of the entity. */
TEST(an_answer_that_cannot_be_is_a_failed_batch)
{
    struct kit *k = kit_new(1, 1);
    struct entity_result result = {.output = MAYBE_NONE};
    struct entity_action actions[] = {
        {.kind = ENTITY_ACTION_SIGNAL, .instance_id = BYTES_LITERAL("nobody")},
        {.kind = ENTITY_ACTION_START,
         .instance_id = BYTES_LITERAL("@x@y"),
         .name = BYTES_LITERAL("o")},
        {.kind = ENTITY_ACTION_START},
    };
    for (uint32_t n = 0; n < 5; n++) {
        kit_signal(k, COUNTER, "add", NULL);
        struct entity_answer answer = {
            .results = &result, .results_n = 1, .state = maybe_text("1")};
        if (n < 3) answer.actions = &actions[n];
        if (n < 3) answer.actions_n = 1;
        if (n == 3) answer.results_n = 0;
        if (n == 4) answer.requires_state = true;
        EXPECT_STATUS(OK, kit_entity_answer(k, batch(k), true, &answer));
        EXPECT(kit_take_entity(k, "counter") == NULL);
        kit_tick_by(k, 60000);
        const struct effect_work *work = batch(k);
        EXPECT_EQ(1, work->ref.attempt);
        KIT_DONE(k, work, NULL, "");
        EXPECT_TEXT("none", kit_entity(k, COUNTER));
    }
    kit_free(k);
}

/* What operations ask for happens with the new state or not at all. */
TEST(an_entity_signals_others_and_starts_orchestrations)
{
    struct kit *k = kit_new(3, 1);
    struct entity_result result = {.output = MAYBE_NONE};
    struct entity_action actions[] = {
        {.kind = ENTITY_ACTION_SIGNAL,
         .instance_id = BYTES_LITERAL("@Other@B"),
         .name = BYTES_LITERAL("poke")},
        {.kind = ENTITY_ACTION_SIGNAL,
         .instance_id = BYTES_LITERAL("@other@B"),
         .name = BYTES_LITERAL("later"),
         .has_scheduled = true,
         .scheduled_ms = KIT_START_MS + 5000},
        {.kind = ENTITY_ACTION_START,
         .instance_id = BYTES_LITERAL("job"),
         .name = BYTES_LITERAL("work"),
         .input = {BYTES_LITERAL("in"), true}},
        {.kind = ENTITY_ACTION_START,
         .name = BYTES_LITERAL("nameless"),
         .has_scheduled = true,
         .scheduled_ms = KIT_START_MS + 7000},
        {.kind = ENTITY_ACTION_START,
         .instance_id = BYTES_LITERAL("job"),
         .name = BYTES_LITERAL("twice")},
    };
    struct entity_answer answer = {.results = &result,
                                   .results_n = 1,
                                   .actions = actions,
                                   .actions_n = 5,
                                   .state = maybe_text("1")};
    kit_signal(k, COUNTER, "go", NULL);
    EXPECT_STATUS(OK, kit_entity_answer(k, batch(k), true, &answer));
    EXPECT_TEXT("poke ", kit_operations(k, kit_must(kit_take_entity(k, "other"))));
    EXPECT_TEXT("state (none), backlog 2", kit_entity(k, "hub/@other@B"));
    EXPECT_TEXT("1 OrchestratorStarted\n2 ExecutionStarted work in\n",
                kit_fresh(k, kit_must(kit_take_turn(k, "work"))));
    EXPECT(kit_take_turn(k, "twice") == NULL); /* the id runs */
    EXPECT(kit_take_turn(k, "nameless") == NULL);
    kit_tick_to(k, KIT_START_MS + 7000);
    EXPECT(kit_take_turn(k, "nameless") != NULL);
    kit_free(k);
}

/* Orders at the edge, with words. */
TEST(what_cannot_be_signalled_is_refused)
{
    struct kit *k = kit_new(1, 1);
    char long_id[128] = "hub/@counter@";
    memset(long_id + 13, 'x', 100);
    EXPECT_STATUS(E_INVALID, kit_signal(k, long_id, "add", NULL));
    EXPECT(strstr(k->text, "length") != NULL);
    EXPECT_STATUS(E_INVALID, kit_signal(k, "hub/counter", "add", NULL));
    EXPECT_STATUS(E_INVALID, kit_signal(k, "hub/@counter", "add", NULL));
    EXPECT_STATUS(E_INVALID, kit_signal(k, "hub/@@a", "add", NULL));
    EXPECT_STATUS(E_INVALID, kit_signal(k, "hub/@Counter@a", "add", NULL));
    EXPECT_STATUS(OK, kit_signal(k, "hub/@counter@A/b", "add", NULL));
    EXPECT_STATUS(E_INVALID, kit_start(k, "hub/@counter@a", "o", NULL));
    kit_free(k);
}

/* What is for orchestrations does not touch an entity. */
TEST(an_entity_is_no_orchestration)
{
    struct kit *k = kit_new(1, 1);
    kit_signal(k, COUNTER, "add", NULL);
    EXPECT_STATUS(E_INVALID, kit_raise(k, COUNTER, "e", NULL));
    EXPECT_STATUS(E_INVALID, kit_terminate(k, COUNTER, NULL, false));
    EXPECT_STATUS(E_INVALID, kit_suspend(k, COUNTER, NULL));
    EXPECT_STATUS(E_INVALID, kit_rewind(k, COUNTER, NULL));
    EXPECT_STATUS(E_PRECONDITION, kit_resubmit(k, COUNTER, 1));
    EXPECT_STATUS(E_PRECONDITION, kit_restart(k, COUNTER));
    EXPECT_STATUS(E_PRECONDITION, kit_purge(k, COUNTER));
    kit_start(k, "hub/o", "sender", NULL);
    KIT_TURN(k, "sender", act_event(1, "@counter@a", "op", NULL),
             act_terminate(2, "@counter@a", NULL, true));
    EXPECT_TEXT("state (none), backlog 1", kit_entity(k, COUNTER));
    kit_raise(k, "hub/o", "go on", NULL);
    KIT_TURN(k, "sender", act_child(3, "child", "@counter@a", NULL));
    EXPECT_TEXT("FAILED", kit_status(k, "hub/o"));
    EXPECT_TEXT("state (none), backlog 1", kit_entity(k, COUNTER));
    kit_free(k);
}

/* Full: clients are told, callers get a failure, signals of others are counted. */
TEST(a_full_backlog_has_an_answer_for_everybody)
{
    struct kit *k = kit_new(1, 1);
    static char large[10 << 20];
    k->is_thorough = false;
    memset(large, 'x', sizeof large - 1);
    for (int n = 0; n < 3; n++) EXPECT_STATUS(OK, kit_signal(k, COUNTER, "add", large));
    EXPECT_STATUS(E_LIMIT, kit_signal(k, COUNTER, "add", large));
    static char rest[(2 << 20) - 400];
    memset(rest, 'x', sizeof rest - 1);
    EXPECT_STATUS(OK, kit_signal(k, COUNTER, "add", rest));
    kit_start(k, "hub/o", "caller", NULL);
    KIT_TURN(k, "caller",
             act_call(1, "@counter@a",
                      "r-0123456789012345678901234567890123456789012345678901234567890123456789",
                      "add-0123456789012345678901234567890123456789012345678901234567890123456789"
                      "0123456789012345678901234567890123456789012345678901234567890123456789"));
    const char *fresh = kit_fresh(k, kit_must(kit_take_turn(k, "caller")));
    EXPECT(strstr(fresh, "EntityBacklogFull") != NULL);
    kit_free(k);
}

/* What an entity has read does not stay in memory. */
TEST(a_busy_entity_does_not_grow)
{
    struct kit *k = kit_new(1, 1);
    static char input[20000];
    k->is_thorough = false;
    memset(input, 'x', sizeof input - 1);
    size_t used = 0;
    for (int n = 0; n < 300; n++) {
        kit_signal(k, COUNTER, "add", input);
        input[0] = (char)('a' + n % 20);
        KIT_DONE(k, batch(k), input, "");
        if (n == 50) used = k->live_mem.used;
    }
    EXPECT(k->live_mem.used < used + (1 << 20));
    kit_free(k);
}

/* The next owner takes the answer of a worker that was given the batch by the last one. */
TEST(an_answer_across_a_restart_counts_once)
{
    struct kit *k = kit_new(1, 1);
    kit_signal(k, COUNTER, "one", NULL);
    const struct effect_work *work = batch(k);
    kit_crash(k, 0);
    KIT_DONE(k, work, "1", "");
    EXPECT_TEXT("state 1", kit_entity(k, COUNTER));
    kit_signal(k, COUNTER, "two", NULL);
    work = batch(k);
    kit_crash(k, 0);
    const struct effect_work *again = batch(k);
    KIT_DONE(k, work, "99", "");
    EXPECT_TEXT("state 1, backlog 1", kit_entity(k, COUNTER));
    KIT_DONE(k, again, "2", "");
    EXPECT_TEXT("state 2", kit_entity(k, COUNTER));
    kit_free(k);
}

/* A call that failed or was open is made again; one that succeeded stays as it was. */
TEST(a_rewind_calls_again_what_failed)
{
    struct kit *k = kit_new(1, 1);
    kit_start(k, "hub/o", "caller", NULL);
    KIT_TURN(k, "caller", act_call(1, "@counter@a", "r-1", "one"),
             act_call(2, "@counter@a", "r-2", "two"), act_call(3, "@counter@b", "r-3", "three"));
    KIT_DONE(k, batch(k), "s", "fine", "!broken");
    KIT_TURN(k, "caller", act_fail(4, "no"));
    EXPECT_STATUS(OK, kit_rewind(k, "hub/o", "again"));
    EXPECT_TEXT("1 OrchestratorStarted\n2 ExecutionStarted caller\n"
                "3 EntityOperationCalled #1 r-1 one @counter@a\n4 OrchestratorStarted\n"
                "5 EntityOperationCompleted r-1 fine\n6 ExecutionRewound again\n",
                kit_history(k, "hub/o"));
    EXPECT(kit_take_turn(k, "caller") != NULL);
    kit_free(k);
}
