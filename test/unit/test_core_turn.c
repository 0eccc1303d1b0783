/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns of the orchestrator: what a worker is given, which of its answers count, and what they
 * change.
 */
#include "core/limits.h"
#include "test/lib/partition.h"
#include "test/lib/test.h"
#include "wire/message.h"
#include "wire/pb.h"

static struct kit *kit_with_instance(void)
{
    struct kit *k = kit_new(1, 1);
    EXPECT_STATUS(OK, kit_start(k, "hub/a", "o", "in"));
    return k;
}

/* The first turn brings OrchestratorStarted and ExecutionStarted; with its commit the instance
 * runs. */
TEST(the_first_committed_turn_makes_it_running)
{
    struct kit *k = kit_with_instance();
    const struct effect_work *turn = kit_must(kit_take_turn(k, "o"));
    EXPECT_TEXT("1 OrchestratorStarted\n2 ExecutionStarted o in\n", kit_fresh(k, turn));
    EXPECT_TEXT("", kit_past(k, turn));
    EXPECT(turn->has_past);
    EXPECT_TEXT("PENDING", kit_status(k, "hub/a"));
    EXPECT_STATUS(OK, KIT_ANSWER(k, turn, act_task(0, "t", NULL)));
    EXPECT_TEXT("RUNNING", kit_status(k, "hub/a"));
    EXPECT_TEXT("hub/a PENDING\nhub/a RUNNING\n", kit_bytes(k, buffer_view(&k->statuses)));
    kit_free(k);
}

/* A worker that has the history in memory is not sent it again. */
TEST(the_past_is_sent_only_when_wanted)
{
    struct kit *k = kit_with_instance();
    k->is_without_past = true;
    const struct effect_work *turn = kit_must(kit_take_turn(k, "o"));
    EXPECT(!turn->has_past);
    KIT_ANSWER(k, turn, act_task(0, "t", NULL));
    kit_task_done(k, kit_must(kit_take_task(k, "t")), "1");
    turn = kit_must(kit_take_turn(k, "o"));
    EXPECT_EQ(0, turn->past.len);
    EXPECT_EQ(3, turn->history_n);
    KIT_ANSWER(k, turn, act_task(1, "t", NULL));
    kit_task_done(k, kit_must(kit_take_task(k, "t")), "2");
    k->is_without_past = false;
    turn = kit_must(kit_take_turn(k, "o"));
    EXPECT_TEXT("1 OrchestratorStarted\n2 ExecutionStarted o in\n3 TaskScheduled #0 t\n"
                "4 OrchestratorStarted\n5 TaskCompleted of #0 1\n6 TaskScheduled #1 t\n",
                kit_past(k, turn));
    EXPECT_TEXT("1 OrchestratorStarted\n2 TaskCompleted of #1 2\n", kit_fresh(k, turn));
    kit_free(k);
}

/* The orchestrator's clock in the history is the one that the worker was given, not the
 * answer's. */
TEST(the_orchestrators_clock_is_that_of_the_dispatch)
{
    struct kit *k = kit_with_instance();
    const struct effect_work *turn = kit_must(kit_take_turn(k, "o"));
    int64_t given_ns = k->now_ns;
    kit_tick_by(k, 5000);
    KIT_ANSWER(k, turn, act_task(0, "t", NULL));
    struct buffer events;
    struct event_head head;
    struct bytes one;
    buffer_init(&events, &k->mem);
    core_history(kit_core(k, "hub/a"), BYTES_LITERAL("hub/a"), &events);
    struct reader r = reader_make(buffer_view(&events));
    EXPECT(strings_next(&r, &one));
    EXPECT_STATUS(OK, event_head_decode(one, &head));
    EXPECT_EQ(EVENT_ORCHESTRATOR_STARTED, head.kind);
    EXPECT_EQ(given_ns, head.time_ns);
    buffer_release(&events);
    kit_free(k);
}

/* The end of the execution, its output and its failure are what the orchestrator said. */
TEST(completion_sets_output_and_failure)
{
    const enum orchestration_status ends[] = {STATUS_COMPLETED, STATUS_FAILED, STATUS_TERMINATED,
                                              STATUS_CANCELED};
    for (size_t n = 0; n < 4; n++) {
        struct kit *k = kit_with_instance();
        struct action end =
            ends[n] == STATUS_FAILED ? act_fail(1, "broken") : act_complete(1, "out");
        struct instance_view view;
        end.status = ends[n];
        test_note("end %zu", n);
        EXPECT_STATUS(OK, KIT_TURN(k, "o", end));
        EXPECT(kit_view(k, "hub/a", &view));
        EXPECT_EQ(ends[n], view.status);
        EXPECT(view.is_terminal);
        EXPECT_EQ(k->now_ns, view.completed_ns);
        EXPECT_EQ(ends[n] == STATUS_FAILED, view.failure.has);
        EXPECT_TEXT(ends[n] == STATUS_FAILED ? "(none)" : "out", kit_maybe(k, view.output));
        if (view.failure.has) {
            EXPECT_TEXT("broken", kit_bytes(k, failure_message(view.failure.value)));
        }
        EXPECT_EQ(1, core_stats(kit_core(k, "hub/a"))->finished);
        kit_free(k);
    }
}

/* SDKs complete with the action ids -1 (their own failures) and 0: both are good. */
TEST(completions_may_have_any_action_id)
{
    for (int32_t id = -1; id <= 0; id++) {
        struct kit *k = kit_with_instance();
        EXPECT_STATUS(OK, KIT_TURN(k, "o", act_complete(id, "x")));
        EXPECT_TEXT("COMPLETED", kit_status(k, "hub/a"));
        kit_free(k);
    }
}

/* Only the first completion of an answer counts. */
TEST(the_first_completion_counts)
{
    struct kit *k = kit_with_instance();
    KIT_TURN(k, "o", act_complete(1, "first"), act_complete(2, "second"));
    EXPECT_HISTORY(k, "hub/a",
                   "1 OrchestratorStarted\n2 ExecutionStarted o in\n"
                   "3 ExecutionCompleted #1 COMPLETED first\n");
    kit_free(k);
}

/* ---- custom status ---- */

static const char *custom_status(struct kit *k)
{
    struct instance_view view;
    EXPECT(kit_view(k, "hub/a", &view));
    return kit_maybe(k, view.custom_status);
}

static void turn_with_status(struct kit *k, struct maybe status, struct action action)
{
    struct orchestrator_answer answer = {
        .actions = &action, .actions_n = 1, .custom_status = status};
    EXPECT_STATUS(OK, kit_answer_with(k, kit_must(kit_take_turn(k, "o")), &answer));
}

/* Each turn says the whole custom status again: absent and raw empty clear it, a JSON "" is a
 * value. D11 */
TEST(custom_status_is_what_the_last_turn_said)
{
    struct kit *k = kit_with_instance();
    turn_with_status(k, maybe_text("\"one\""), act_task(1, "t", NULL));
    EXPECT_TEXT("\"one\"", custom_status(k));
    kit_raise(k, "hub/a", "e", NULL);
    turn_with_status(k, maybe_text("\"\""), act_task(2, "t", NULL));
    EXPECT_TEXT("\"\"", custom_status(k));
    kit_raise(k, "hub/a", "e", NULL);
    turn_with_status(k, maybe_text(""), act_task(3, "t", NULL));
    EXPECT_TEXT("(none)", custom_status(k));
    kit_raise(k, "hub/a", "e", NULL);
    turn_with_status(k, maybe_text("x"), act_task(4, "t", NULL));
    kit_raise(k, "hub/a", "e", NULL);
    turn_with_status(k, MAYBE_NONE, act_task(5, "t", NULL));
    EXPECT_TEXT("(none)", custom_status(k));
    kit_free(k);
}

/* A new generation keeps its predecessor's custom status until it sets one; then absent clears
 * again. */
TEST(custom_status_is_carried_over_until_set)
{
    struct kit *k = kit_with_instance();
    turn_with_status(k, maybe_text("old"), act_continue(1, NULL));
    EXPECT_TEXT("old", custom_status(k));
    turn_with_status(k, MAYBE_NONE, act_task(1, "t", NULL));
    EXPECT_TEXT("old", custom_status(k));
    kit_raise(k, "hub/a", "e", NULL);
    turn_with_status(k, maybe_text("new"), act_task(2, "t", NULL));
    EXPECT_TEXT("new", custom_status(k));
    kit_raise(k, "hub/a", "e", NULL);
    turn_with_status(k, MAYBE_NONE, act_task(3, "t", NULL));
    EXPECT_TEXT("(none)", custom_status(k));
    kit_free(k);
}

/* Turns of the engine itself (suspend) know no custom status: they neither set nor clear it. */
TEST(suspending_leaves_the_custom_status_alone)
{
    struct kit *k = kit_with_instance();
    turn_with_status(k, maybe_text("old"), act_continue(1, NULL));
    turn_with_status(k, MAYBE_NONE, act_task(1, "t", NULL));
    kit_suspend(k, "hub/a", NULL);
    EXPECT_TEXT("old", custom_status(k));
    kit_resume(k, "hub/a", NULL);
    turn_with_status(k, MAYBE_NONE, act_task(2, "t", NULL));
    EXPECT_TEXT("old", custom_status(k)); /* still nothing was set in this generation */
    kit_terminate(k, "hub/a", NULL, false);
    EXPECT_TEXT("old", custom_status(k));
    kit_free(k);
}

/* The trace context of one answer is given to the next turn, and stays until another comes. */
TEST(the_trace_context_comes_back)
{
    struct kit *k = kit_with_instance();
    struct action task = act_task(1, "t", NULL);
    struct orchestrator_answer answer = {
        .actions = &task, .actions_n = 1, .trace = maybe_some(BYTES_LITERAL("\x0a\x01x"))};
    const struct effect_work *turn = kit_must(kit_take_turn(k, "o"));
    EXPECT(!turn->trace.has);
    kit_answer_with(k, turn, &answer);
    for (int n = 0; n < 2; n++) {
        kit_raise(k, "hub/a", "e", NULL);
        turn = kit_must(kit_take_turn(k, "o"));
        EXPECT(turn->trace.has);
        EXPECT_BYTES(BYTES_LITERAL("\x0a\x01x"), turn->trace.value);
        kit_answer(k, turn, NULL, 0);
    }
    kit_free(k);
}

/* ---- which answers count ---- */

/* The same answer twice: the second is answered OK, and changes nothing. S12 */
TEST(a_second_answer_is_dropped)
{
    struct kit *k = kit_with_instance();
    const struct effect_work *turn = kit_must(kit_take_turn(k, "o"));
    KIT_ANSWER(k, turn, act_task(1, "t", NULL));
    EXPECT_STATUS(OK, KIT_ANSWER(k, turn, act_task(1, "t", NULL)));
    EXPECT_EQ(0, k->records_n);
    EXPECT_EQ(1, core_stats(kit_core(k, "hub/a"))->stale_answers);
    kit_free(k);
}

/* Work that never reached its worker is as if it had not been taken: no failure, no record, no
 * delay. */
TEST(a_turn_that_was_not_sent_is_offered_again_at_once)
{
    struct kit *k = kit_with_instance();
    for (int n = 0; n < 30; n++) { /* more often than failures are allowed */
        const struct effect_work *turn = kit_must(kit_take_turn(k, "o"));
        EXPECT_EQ(0, turn->ref.attempt);
        EXPECT_STATUS(OK, kit_return(k, turn));
        EXPECT_EQ(0, k->records_n);
        EXPECT_STATUS(OK, kit_return(k, turn)); /* nobody has it now */
    }
    const struct effect_work *turn = kit_must(kit_take_turn(k, "o"));
    EXPECT_STATUS(OK, KIT_ANSWER(k, turn, act_complete(1, NULL)));
    EXPECT(k->records_n > 0);
    kit_free(k);
}

/* An answer to a dispatch that was given up does not count, also when nobody has the turn again
 * yet. S12 S20 */
TEST(an_answer_after_abandoning_is_dropped)
{
    struct kit *k = kit_with_instance();
    const struct effect_work *turn = kit_must(kit_take_turn(k, "o"));
    EXPECT_STATUS(OK, kit_abandon(k, turn, NULL));
    EXPECT_STATUS(OK, KIT_ANSWER(k, turn, act_complete(1, NULL)));
    EXPECT_EQ(0, k->records_n);
    kit_tick_by(k, 1000);
    const struct effect_work *again = kit_must(kit_take_turn(k, "o"));
    EXPECT_STATUS(OK, KIT_ANSWER(k, turn, act_complete(1, "first")));
    EXPECT_EQ(0, k->records_n);
    EXPECT_STATUS(OK, KIT_ANSWER(k, again, act_complete(1, "second")));
    EXPECT_HISTORY(k, "hub/a",
                   "1 OrchestratorStarted\n2 ExecutionStarted o in\n"
                   "3 ExecutionCompleted #1 COMPLETED second\n");
    kit_free(k);
}

/* A turn is with one worker at a time. */
TEST(two_workers_do_not_get_the_same_turn)
{
    struct kit *k = kit_with_instance();
    EXPECT(kit_take_turn(k, "o") != NULL);
    k->worker = 2;
    kit_raise(k, "hub/a", "e", NULL);
    EXPECT(kit_take_turn(k, "o") == NULL);
    kit_free(k);
}

/* What arrives during a turn is not lost: it is the next turn. */
TEST(messages_during_a_turn_make_the_next_one)
{
    struct kit *k = kit_with_instance();
    const struct effect_work *turn = kit_must(kit_take_turn(k, "o"));
    kit_raise(k, "hub/a", "early", "1");
    KIT_ANSWER(k, turn, act_task(1, "t", NULL));
    turn = kit_must(kit_take_turn(k, "o"));
    EXPECT_TEXT("1 OrchestratorStarted\n2 EventRaised early 1\n", kit_fresh(k, turn));
    kit_free(k);
}

/* SDKs that cannot echo tokens name the instance alone: good while somebody has the turn. */
TEST(answers_without_token_are_for_the_present_lease)
{
    struct kit *k = kit_with_instance();
    struct action end = act_complete(1, "x");
    EXPECT_STATUS(OK, kit_answer_plain(k, "hub/a", &end, 1));
    EXPECT_EQ(0, k->records_n); /* nobody has it */
    kit_must(kit_take_turn(k, "o"));
    kit_raise(k, "hub/a", "e", NULL);
    EXPECT_STATUS(OK, kit_answer_plain(k, "hub/a", &end, 1));
    EXPECT_TEXT("COMPLETED", kit_status(k, "hub/a"));
    struct instance_view view;
    EXPECT(kit_view(k, "hub/a", &view));
    EXPECT_EQ(3, view.history_n); /* the event came after the dispatch */
    EXPECT_STATUS(OK, kit_answer_plain(k, "hub/a", &end, 1));
    EXPECT_STATUS(OK, kit_answer_plain(k, "hub/unknown", &end, 1));
    kit_free(k);
}

/* After a restart of the engine, a worker that goes on and answers is right: nobody else has the
 * turn. S10 */
TEST(an_answer_across_a_restart_counts)
{
    struct kit *k = kit_with_instance();
    const struct effect_work *turn = kit_must(kit_take_turn(k, "o"));
    kit_crash(k, 0);
    EXPECT_STATUS(OK, KIT_ANSWER(k, turn, act_complete(1, "x")));
    EXPECT_TEXT("COMPLETED", kit_status(k, "hub/a"));
    EXPECT(kit_take_turn(k, "o") == NULL);
    kit_free(k);
}

/* But not when it was given at a time that is still to come: the clock of the owner before was
 * ahead, and the orchestrator's time must not go back. S4 */
TEST(an_answer_from_the_future_is_dropped)
{
    struct kit *k = kit_with_instance();
    struct effect_work turn = *kit_must(kit_take_turn(k, "o"));
    kit_crash(k, 0);
    turn.ref.started_ns += 3600 * INT64_C(1000000000);
    EXPECT_STATUS(OK, KIT_ANSWER(k, &turn, act_complete(1, "x")));
    EXPECT_TEXT("PENDING", kit_status(k, "hub/a"));
    EXPECT(kit_take_turn(k, "o") != NULL);
    kit_free(k);
}

/* But not once the turn was given to somebody else. S11 S12 */
TEST(an_answer_of_the_previous_epoch_is_dropped_after_the_next_dispatch)
{
    struct kit *k = kit_with_instance();
    const struct effect_work *before = kit_must(kit_take_turn(k, "o"));
    kit_crash(k, 0);
    const struct effect_work *after = kit_must(kit_take_turn(k, "o"));
    EXPECT_EQ(before->ref.epoch + 1, after->ref.epoch);
    EXPECT_STATUS(OK, KIT_ANSWER(k, before, act_complete(1, "before")));
    EXPECT_EQ(0, k->records_n);
    EXPECT_STATUS(OK, KIT_ANSWER(k, after, act_complete(1, "after")));
    EXPECT_TEXT("COMPLETED", kit_status(k, "hub/a"));
    kit_free(k);
}

/* Nor when the answer had been committed before the crash. S12 */
TEST(an_answer_that_was_committed_before_the_crash_is_dropped)
{
    struct kit *k = kit_with_instance();
    const struct effect_work *turn = kit_must(kit_take_turn(k, "o"));
    KIT_ANSWER(k, turn, act_task(1, "t", NULL));
    kit_crash(k, 0);
    EXPECT_STATUS(OK, KIT_ANSWER(k, turn, act_task(1, "t", NULL)));
    EXPECT_EQ(0, k->records_n);
    kit_free(k);
}

/* An answer of an execution that was replaced is never applied to its successor. S15 */
TEST(an_answer_of_an_older_execution_is_dropped)
{
    struct kit *k = kit_with_instance();
    const struct effect_work *turn = kit_must(kit_take_turn(k, "o"));
    kit_terminate(k, "hub/a", NULL, false);
    kit_start(k, "hub/a", "o", "again");
    const struct effect_work *next = kit_must(kit_take_turn(k, "o"));
    EXPECT_STATUS(OK, KIT_ANSWER(k, turn, act_complete(1, "old")));
    EXPECT_EQ(0, k->records_n);
    EXPECT_TEXT("PENDING", kit_status(k, "hub/a"));
    KIT_ANSWER(k, next, act_complete(1, "new"));
    EXPECT_TEXT("COMPLETED", kit_status(k, "hub/a"));
    kit_free(k);
}

/* ---- answers that make no sense ---- */

static void expect_invalid_answer(struct action *actions, uint32_t n, const char *says)
{
    struct kit *k = kit_with_instance();
    struct instance_view view;
    KIT_TURN(k, "o", act_task(1, "t", NULL));
    kit_raise(k, "hub/a", "e", NULL);
    EXPECT_STATUS(OK, kit_answer(k, kit_must(kit_take_turn(k, "o")), actions, n));
    EXPECT(kit_view(k, "hub/a", &view));
    EXPECT_EQ(STATUS_FAILED, view.status);
    const char *message = kit_bytes(k, failure_message(view.failure.value));
    if (strstr(message, says) == NULL) test_fail(__FILE__, __LINE__, "got: %s", message);
    kit_free(k);
}

/* An answer that the engine cannot take fails the instance with the reason; it never stops the
 * engine. */
TEST(senseless_answers_fail_the_instance)
{
    static char long_id[260];
    memset(long_id, 'i', 257);
    struct action same_again = act_task(1, "t", NULL);
    expect_invalid_answer(&same_again, 1, "still in use");
    struct action negative = act_timer(-5, 0);
    expect_invalid_answer(&negative, 1, "negative id");
    struct action twice[] = {act_task(5, "t", NULL), act_timer(4, 0), act_child(5, "c", "x", NULL)};
    expect_invalid_answer(twice, 3, "still in use");
    struct action nameless = act_task(2, "", NULL);
    expect_invalid_answer(&nameless, 1, "no valid name");
    struct action not_text = act_child(2, "\xff", "c", NULL);
    expect_invalid_answer(&not_text, 1, "no valid name");
    struct action long_child = act_child(2, "c", long_id, NULL);
    expect_invalid_answer(&long_child, 1, "instance id");
    struct action long_target = act_event(2, long_id, "e", NULL);
    expect_invalid_answer(&long_target, 1, "instance id");
    struct action long_victim = act_terminate(2, long_id, NULL, false);
    expect_invalid_answer(&long_victim, 1, "instance id");
    struct action no_end = act_complete(2, NULL);
    no_end.status = STATUS_SUSPENDED;
    expect_invalid_answer(&no_end, 1, "no end");
    struct action entity = {.kind = ACTION_SEND_ENTITY_MESSAGE, .id = 2};
    expect_invalid_answer(&entity, 1, "is no message for an entity");
}

/* A payload beyond the limit fails the instance: refusing the answer would leave it stuck for
 * ever. */
TEST(a_payload_beyond_the_limit_fails_the_instance)
{
    struct mem *mem = mem_process();
    size_t size = ((size_t)16 << 20) + 1;
    char *payload = mem_take_zero(mem, size);
    struct action large = act_complete(2, NULL);
    large.input = maybe_some(bytes_make(payload, size));
    expect_invalid_answer(&large, 1, "16 MiB");
    mem_give(mem, payload, size);
}

/* More than the limits of one answer or one history fails the instance with what to do about it. */
TEST(too_many_actions_and_too_long_histories_fail_the_instance)
{
    enum { N = 100001 };
    struct action *actions = mem_take(mem_process(), N * sizeof *actions);
    struct instance_view view;
    struct kit *k = kit_with_instance();
    k->is_thorough = false;
    for (int32_t n = 0; n < N; n++) actions[n] = act_event(n, "", "e", NULL);
    kit_answer(k, kit_must(kit_take_turn(k, "o")), actions, N);
    EXPECT(kit_view(k, "hub/a", &view));
    EXPECT_TEXT("more than 100,000 actions in one turn",
                kit_bytes(k, failure_message(view.failure.value)));

    kit_start(k, "hub/a", "o", NULL);
    kit_answer(k, kit_must(kit_take_turn(k, "o")), actions, N - 1);
    EXPECT_TEXT("RUNNING", kit_status(k, "hub/a"));
    kit_raise(k, "hub/a", "e", NULL);
    kit_answer(k, kit_must(kit_take_turn(k, "o")), actions, N - 1);
    EXPECT(kit_view(k, "hub/a", &view));
    EXPECT_TEXT("the history has more than 200,000 events or 128 MiB: use continue-as-new",
                kit_bytes(k, failure_message(view.failure.value)));
    kit_free(k);
    mem_give(mem_process(), actions, N * sizeof *actions);
}

/* OrchestratorAction as a worker writes it. */
static void put_schedule(struct buffer *b, int32_t id)
{
    struct pb_mark action = pb_begin(b, 2, 100);
    pb_put_plain_int32(b, 1, id);
    struct pb_mark schedule = pb_begin(b, 2, 80);
    pb_put_bytes(b, 1, BYTES_LITERAL("t"));
    pb_put_bytes(b, 2, BYTES_LITERAL("\x0a\x01v"));
    pb_put_bytes(b, 3, BYTES_LITERAL("\x0a\x02in"));
    pb_put_bytes(b, 4, BYTES_LITERAL("\x0a\x01k\x12\x01x"));
    pb_put_bytes(b, 4, BYTES_LITERAL("\x0a\x01l\x12\x01y"));
    pb_put_bytes(b, 5, BYTES_LITERAL("\x0a\x01p\x12\x01s\x1a\x03\x0a\x01q"));
    pb_end(b, schedule);
    pb_end(b, action);
}

/* The wire's limits let pass what the core takes: as many actions as there may be, each with all
 * that it may say and a few tags. */
TEST(the_largest_answer_passes_the_wire)
{
    struct buffer b;
    struct arena arena;
    struct orchestrator_answer answer;
    buffer_init(&b, mem_process());
    arena_init(&arena, mem_process(), 4096);
    for (int32_t n = 0; n < (int32_t)LIMIT_ACTIONS_N; n++) put_schedule(&b, n + 1);
    EXPECT_STATUS(OK, message_check(&orchestrator_response__descriptor, buffer_view(&b)));
    EXPECT_STATUS(OK, orchestrator_answer_decode(buffer_view(&b), &arena, &answer));
    EXPECT_EQ(LIMIT_ACTIONS_N, answer.actions_n);
    put_schedule(&b, 0);
    EXPECT_STATUS(E_LIMIT, orchestrator_answer_decode(buffer_view(&b), &arena, &answer));
    arena_release(&arena);
    buffer_release(&b);
}

/* Ids may come in any order, with gaps, and zero is an id like any other. */
TEST(action_ids_may_come_in_any_order)
{
    struct kit *k = kit_with_instance();
    KIT_TURN(k, "o", act_task(7, "t", NULL), act_task(0, "t", NULL), act_timer(3, 0));
    EXPECT_TEXT("RUNNING", kit_status(k, "hub/a"));
    EXPECT_TEXT("7 t PENDING 0\n0 t PENDING 0\n", kit_tasks(k, "hub/a"));
    kit_free(k);
}

/* An empty answer is an orchestrator that waits for an event. */
TEST(an_empty_answer_waits)
{
    struct kit *k = kit_with_instance();
    EXPECT_STATUS(OK, kit_answer(k, kit_must(kit_take_turn(k, "o")), NULL, 0));
    EXPECT_TEXT("RUNNING", kit_status(k, "hub/a"));
    EXPECT(kit_take_turn(k, "o") == NULL);
    kit_free(k);
}

/* ---- work that comes back ---- */

/* A turn that was given back is offered again after a delay that doubles. */
TEST(an_abandoned_turn_comes_back_later)
{
    struct kit *k = kit_with_instance();
    int64_t delay_ms = 200;
    for (int n = 0; n < 5; n++) {
        EXPECT_STATUS(OK, kit_abandon(k, kit_must(kit_take_turn(k, "o")), "version mismatch"));
        kit_tick_by(k, delay_ms - 1);
        EXPECT(kit_take_turn(k, "o") == NULL);
        if (n == 2) kit_crash(k, 0); /* the wait and the count survive */
        EXPECT(kit_take_turn(k, "o") == NULL);
        kit_tick_by(k, 1);
        delay_ms *= 2;
    }
    EXPECT(kit_take_turn(k, "o") != NULL);
    kit_free(k);
}

/* A turn that no worker finishes is poison: after twenty attempts it is parked, with an alert, and
 * resume gives it another chance. S13 */
TEST(a_poisoned_turn_is_parked_after_twenty_attempts)
{
    struct kit *k = kit_with_instance();
    for (int n = 1; n <= 20; n++) {
        test_note("attempt %d", n);
        EXPECT_EQ(0, k->alerts.len);
        kit_abandon(k, kit_must(kit_take_turn(k, "o")), "crashed");
        kit_tick_by(k, 60000);
    }
    EXPECT(kit_take_turn(k, "o") == NULL);
    EXPECT_TEXT("hub/a parked after 20 turns that no worker finished: crashed\n",
                kit_bytes(k, buffer_view(&k->alerts)));
    EXPECT_TEXT("PENDING: parked: crashed; resume it when the cause is mended",
                kit_why(k, "hub/a"));
    kit_crash(k, 0);
    kit_raise(k, "hub/a", "e", NULL);
    EXPECT(kit_take_turn(k, "o") == NULL);
    EXPECT(!kit_evict(k, "hub/a")); /* it stays, to be found */
    EXPECT_STATUS(OK, kit_resume(k, "hub/a", NULL));
    EXPECT_STATUS(OK, KIT_TURN(k, "o", act_complete(1, NULL)));
    EXPECT_TEXT("COMPLETED", kit_status(k, "hub/a"));
    kit_free(k);
}

/* Good turns forget the failures before them. */
TEST(a_committed_turn_resets_the_count)
{
    struct kit *k = kit_with_instance();
    for (int n = 0; n < 19; n++) {
        kit_abandon(k, kit_must(kit_take_turn(k, "o")), NULL);
        kit_tick_by(k, 60000);
    }
    kit_answer(k, kit_must(kit_take_turn(k, "o")), NULL, 0);
    kit_raise(k, "hub/a", "e", NULL);
    kit_abandon(k, kit_must(kit_take_turn(k, "o")), NULL);
    EXPECT_EQ(0, k->alerts.len);
    kit_tick_by(k, 200);
    EXPECT(kit_take_turn(k, "o") != NULL);
    kit_free(k);
}

/* Work of different names, versions and hubs waits in different queues, first come first served.
 * S3 */
TEST(queues_are_first_come_first_served)
{
    struct kit *k = kit_new(1, 1);
    kit_start(k, "hub/1", "o", NULL);
    kit_start(k, "hub/2", "other", NULL);
    kit_start(k, "hub/3", "o", NULL);
    EXPECT_TEXT("hub/1", kit_bytes(k, kit_must(kit_take_turn(k, "o"))->ref.key));
    EXPECT_TEXT("hub/3", kit_bytes(k, kit_must(kit_take_turn(k, "o"))->ref.key));
    EXPECT(kit_take_turn(k, "o") == NULL);
    EXPECT_TEXT("hub/2", kit_bytes(k, kit_must(kit_take_turn(k, "other"))->ref.key));
    kit_free(k);
}
