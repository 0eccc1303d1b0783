/* SPDX-License-Identifier: Apache-2.0
 *
 * Rewind, restart and purge: how what has ended begins again, or is gone. D11
 */
#include "core/replies.h"
#include "test/lib/partition.h"
#include "test/lib/test.h"

/* ---- rewind ---- */

/* After a failed activity: the failure and its schedule are forgotten, what had succeeded stays,
 * and the orchestrator schedules the failed step anew. */
TEST(rewinding_after_a_failed_activity)
{
    struct kit *k = kit_new(1, 1);
    struct instance_view before;
    struct instance_view view;
    kit_start(k, "hub/a", "o", "in");
    KIT_TURN(k, "o", act_task(1, "good", NULL));
    kit_task_done(k, kit_must(kit_take_task(k, "good")), "ok");
    KIT_TURN(k, "o", act_task(2, "bad", NULL));
    kit_task_failed(k, kit_must(kit_take_task(k, "bad")), "no", false);
    KIT_TURN(k, "o", act_fail(3, "because of 2"));
    EXPECT_TEXT("FAILED", kit_status(k, "hub/a"));
    EXPECT(kit_view(k, "hub/a", &before));

    EXPECT_STATUS(OK, kit_rewind(k, "hub/a", "mended"));
    EXPECT(kit_view(k, "hub/a", &view));
    EXPECT_EQ(STATUS_RUNNING, view.status);
    EXPECT(memcmp(before.execution_id, view.execution_id, EXECUTION_ID_SIZE) != 0);
    EXPECT(!view.failure.has);
    EXPECT_EQ(0, view.completed_ns);
    EXPECT_HISTORY(k, "hub/a",
                   "1 OrchestratorStarted\n2 ExecutionStarted o in\n3 TaskScheduled #1 good\n"
                   "4 OrchestratorStarted\n5 TaskCompleted of #1 ok\n6 OrchestratorStarted\n"
                   "7 ExecutionRewound mended\n");
    kit_crash(k, 0);
    EXPECT(!kit_evict(k, "hub/a")); /* it has a turn to do */
    const struct effect_work *turn = kit_must(kit_take_turn(k, "o"));
    EXPECT_TEXT("1 OrchestratorStarted\n", kit_fresh(k, turn));
    /* some SDKs fail on ExecutionRewound: it is not for workers */
    EXPECT_TEXT("1 OrchestratorStarted\n2 ExecutionStarted o in\n3 TaskScheduled #1 good\n"
                "4 OrchestratorStarted\n5 TaskCompleted of #1 ok\n6 OrchestratorStarted\n",
                kit_past(k, turn));
    KIT_ANSWER(k, turn, act_task(2, "bad", NULL)); /* the same id again is right here */
    kit_task_done(k, kit_must(kit_take_task(k, "bad")), "now good");
    KIT_TURN(k, "o", act_complete(3, "all good"));
    EXPECT_TEXT("COMPLETED", kit_status(k, "hub/a"));
    kit_free(k);
}

/* Where the orchestrator tried again under the same id, only the last failure is forgotten: the
 * earlier ones were no end, and what came after them rests on them. */
TEST(rewinding_after_tries_under_one_id)
{
    struct kit *k = kit_new(2, 1);
    kit_start(k, "hub/a", "o", "in");
    KIT_TURN(k, "o", act_task(1, "t", NULL), act_child(2, "c", "child", NULL));
    kit_task_failed(k, kit_must(kit_take_task(k, "t")), "first", false);
    KIT_TURN(k, "o", act_task(1, "t", NULL));
    kit_task_failed(k, kit_must(kit_take_task(k, "t")), "second", false);
    KIT_TURN(k, "o", act_timer(3, 0));
    KIT_TURN(k, "c", act_fail(1, "first"));
    kit_tick_by(k, 1000);
    KIT_TURN(k, "o", act_child(2, "c", "child", NULL));
    KIT_TURN(k, "c", act_fail(1, "second"));
    KIT_TURN(k, "o", act_fail(4, "enough"));
    EXPECT_TEXT("FAILED", kit_status(k, "hub/a"));

    EXPECT_STATUS(OK, kit_rewind(k, "hub/a", NULL));
    EXPECT_TEXT("RUNNING", kit_status(k, "hub/child"));
    kit_crash(k, 0);
    kit_crash(k, 1);
    KIT_TURN(k, "c", act_complete(1, "good"));
    const struct effect_work *turn = kit_must(kit_take_turn(k, "o"));
    EXPECT_TEXT("1 OrchestratorStarted\n2 ExecutionStarted o in\n3 TaskScheduled #1 t\n"
                "4 SubOrchestrationInstanceCreated #2 child c\n5 OrchestratorStarted\n"
                "6 TaskFailed of #1 TestError first\n7 TaskScheduled #1 t\n"
                "8 OrchestratorStarted\n9 TaskFailed of #1 TestError second\n"
                "10 TimerCreated #3 at 0000\n11 OrchestratorStarted\n"
                "12 SubOrchestrationInstanceFailed of #2 E first\n13 TimerFired of #3 at 0000\n"
                "14 SubOrchestrationInstanceCreated #2 child c\n15 OrchestratorStarted\n",
                kit_past(k, turn));
    KIT_ANSWER(k, turn, act_complete(4, "all good"));
    EXPECT_TEXT("COMPLETED", kit_status(k, "hub/a"));
    kit_free(k);
}

/* What the orchestrator went on from stays: attempts that were repeated, failures that it handled.
 * Only the last attempt is made again, and what was decided after its failure is taken back. */
TEST(rewinding_keeps_the_failures_that_were_no_end)
{
    struct kit *k = kit_new(1, 1);
    kit_start(k, "hub/a", "o", NULL);
    KIT_TURN(k, "o", act_task(1, "t", NULL));
    kit_task_failed(k, kit_must(kit_take_task(k, "t")), "busy", false);
    KIT_TURN(k, "o", act_timer(2, 0));
    kit_tick_by(k, 1000);
    KIT_TURN(k, "o", act_task(3, "t", NULL));
    kit_task_failed(k, kit_must(kit_take_task(k, "t")), "busy", false);
    KIT_TURN(k, "o", act_event(4, "nobody", "gone", NULL), act_fail(5, "busy"));

    EXPECT_STATUS(OK, kit_rewind(k, "hub/a", NULL));
    EXPECT_HISTORY(k, "hub/a",
                   "1 OrchestratorStarted\n2 ExecutionStarted o\n3 TaskScheduled #1 t\n"
                   "4 OrchestratorStarted\n5 TaskFailed of #1 TestError busy\n"
                   "6 TimerCreated #2 at 0000\n7 OrchestratorStarted\n"
                   "8 TimerFired of #2 at 0000\n9 OrchestratorStarted\n10 ExecutionRewound\n");
    kit_crash(k, 0);
    KIT_TURN(k, "o", act_task(3, "t", NULL));
    kit_task_done(k, kit_must(kit_take_task(k, "t")), "good");
    KIT_TURN(k, "o", act_complete(4, "all good"));
    EXPECT_TEXT("COMPLETED", kit_status(k, "hub/a"));
    kit_free(k);
}

/* One branch fails while another goes on, and the end names the failure: in the words of an SDK,
 * with some of its own before. Where it names none, what was decided later may rest on it. */
static void side_by_side(const char *end, const char *history)
{
    struct kit *k = kit_new(1, 1);
    kit_start(k, "hub/a", "o", NULL);
    KIT_TURN(k, "o", act_task(1, "bad", NULL), act_task(2, "good", NULL));
    kit_task_failed(k, kit_must(kit_take_task(k, "bad")), "no", false);
    kit_answer(k, kit_must(kit_take_turn(k, "o")), NULL, 0);
    kit_task_done(k, kit_must(kit_take_task(k, "good")), "1");
    KIT_TURN(k, "o", act_task(3, "good", NULL));
    kit_task_done(k, kit_must(kit_take_task(k, "good")), "2");
    KIT_TURN(k, "o", act_fail(4, end));
    EXPECT_STATUS(OK, kit_rewind(k, "hub/a", NULL));
    EXPECT_HISTORY(k, "hub/a", history);
    kit_free(k);
}

TEST(rewinding_a_branch_beside_others)
{
    side_by_side("Task 'bad' (#1) failed: no",
                 "1 OrchestratorStarted\n2 ExecutionStarted o\n3 TaskScheduled #2 good\n"
                 "4 OrchestratorStarted\n5 OrchestratorStarted\n6 TaskCompleted of #2 1\n"
                 "7 TaskScheduled #3 good\n8 OrchestratorStarted\n9 TaskCompleted of #3 2\n"
                 "10 ExecutionRewound\n");
    side_by_side("of its own",
                 "1 OrchestratorStarted\n2 ExecutionStarted o\n3 TaskScheduled #1 bad\n"
                 "4 TaskScheduled #2 good\n5 OrchestratorStarted\n"
                 "6 TaskFailed of #1 TestError no\n7 OrchestratorStarted\n"
                 "8 TaskCompleted of #2 1\n9 TaskScheduled #3 good\n10 OrchestratorStarted\n"
                 "11 TaskCompleted of #3 2\n12 ExecutionRewound\n");
}

/* The worker sees the new execution id in ExecutionStarted too: ids of children are made from
 * it. */
TEST(rewinding_changes_the_execution_id_in_the_history)
{
    struct kit *k = kit_new(1, 1);
    struct event_started started;
    struct bytes event = BYTES_NONE;
    kit_start(k, "hub/a", "o", NULL);
    KIT_TURN(k, "o", act_fail(1, "x"));
    kit_rewind(k, "hub/a", NULL);
    const struct effect_work *turn = kit_must(kit_take_turn(k, "o"));
    struct reader r = reader_make(turn->past);
    EXPECT(strings_next(&r, &event));
    EXPECT(strings_next(&r, &event));
    EXPECT_STATUS(OK, event_started_decode(event, &k->arena, &started));
    EXPECT_BYTES(bytes_make(turn->ref.execution_id, EXECUTION_ID_SIZE),
                 bytes_make(started.execution_id, EXECUTION_ID_SIZE));
    kit_free(k);
}

/* Tasks that were under way when it failed are under way again; answers to the old execution do not
 * count. */
TEST(rewinding_reopens_what_was_open)
{
    struct kit *k = kit_new(1, 1);
    kit_start(k, "hub/a", "o", NULL);
    KIT_TURN(k, "o", act_task(1, "slow", NULL), act_task(2, "bad", NULL),
             act_timer(3, KIT_START_MS + 5000));
    const struct effect_work *slow = kit_must(kit_take_task(k, "slow"));
    kit_task_failed(k, kit_must(kit_take_task(k, "bad")), "no", false);
    KIT_TURN(k, "o", act_fail(4, "x"));
    kit_raise(k, "hub/a", "dropped", NULL);
    kit_rewind(k, "hub/a", NULL);
    EXPECT_STATUS(OK, kit_task_done(k, slow, "of the old execution"));
    EXPECT_EQ(0, k->records_n);
    EXPECT_TEXT("1 slow PENDING 0\n", kit_tasks(k, "hub/a"));
    kit_task_done(k, kit_must(kit_take_task(k, "slow")), "again");
    kit_tick_by(k, 5001);
    EXPECT_TEXT("1 OrchestratorStarted\n2 TaskCompleted of #1 again\n"
                "3 TimerFired of #3 at 1700000005500\n",
                kit_fresh(k, kit_must(kit_take_turn(k, "o"))));
    kit_free(k);
}

/* Only what has failed can be rewound; the answer says what it is, in words that SDKs look for. */
TEST(only_failed_instances_can_be_rewound)
{
    struct kit *k = kit_new(1, 1);
    EXPECT_STATUS(E_NOT_FOUND, kit_rewind(k, "hub/a", NULL));
    kit_start(k, "hub/a", "o", NULL);
    EXPECT_STATUS(E_PRECONDITION, kit_rewind(k, "hub/a", NULL));
    EXPECT_TEXT(
        "precondition: only a failed instance can be rewound; this one is PENDING, which does "
        "not allow it",
        k->text);
    KIT_TURN(k, "o", act_complete(1, NULL));
    EXPECT_STATUS(E_PRECONDITION, kit_rewind(k, "hub/a", NULL));
    EXPECT_EQ(0, k->records_n);
    kit_free(k);
}

/* A tree p -> c -> g whose leaf has failed, so that all three have failed. */
static struct kit *kit_with_failed_tree(void)
{
    struct kit *k = kit_new(3, 1);
    kit_start(k, "hub/p", "parent", NULL);
    KIT_TURN(k, "parent", act_child(1, "child", "c", "arg"));
    KIT_TURN(k, "child", act_child(1, "grandchild", "g", NULL));
    KIT_TURN(k, "grandchild", act_task(1, "t", NULL));
    kit_task_failed(k, kit_must(kit_take_task(k, "t")), "no", false);
    KIT_TURN(k, "grandchild", act_fail(2, "g"));
    KIT_TURN(k, "child", act_fail(2, "c"));
    KIT_TURN(k, "parent", act_fail(2, "p"));
    EXPECT_TEXT("FAILED", kit_status(k, "hub/p"));
    return k;
}

/* Failed children are rewound with their parent, and theirs with them; the step that failed is the
 * only one that runs again, and its success goes all the way up. */
TEST(rewinding_a_tree)
{
    struct kit *k = kit_with_failed_tree();
    EXPECT_STATUS(OK, kit_rewind(k, "hub/p", "r"));
    EXPECT_TEXT("RUNNING", kit_status(k, "hub/p"));
    EXPECT_TEXT("RUNNING", kit_status(k, "hub/c"));
    EXPECT_TEXT("RUNNING", kit_status(k, "hub/g"));
    EXPECT(kit_take_turn(k, "parent") == NULL); /* they wait for their children */
    EXPECT(kit_take_turn(k, "child") == NULL);
    for (uint32_t p = 0; p < 3; p++) kit_crash(k, p);
    KIT_TURN(k, "grandchild", act_task(1, "t", NULL));
    kit_task_done(k, kit_must(kit_take_task(k, "t")), "ok");
    KIT_TURN(k, "grandchild", act_complete(2, "g"));
    KIT_TURN(k, "child", act_complete(2, "c"));
    EXPECT_TEXT("1 OrchestratorStarted\n2 SubOrchestrationInstanceCompleted of #1 c\n",
                kit_fresh(k, kit_must(kit_take_turn(k, "parent"))));
    kit_free(k);
}

/* A parent whose child has done one thing and undone it, with this custom status at the end. */
static struct kit *kit_with_undone_child(const char *custom_status)
{
    struct kit *k = kit_new(3, 1);
    static const uint8_t undo[] = "\x0e\x0a\x09" TAG_UNDO "\x12\x01"
                                  "1";
    kit_start(k, "hub/p", "parent", NULL);
    KIT_TURN(k, "parent", act_child(1, "child", "c", "arg"));
    KIT_TURN(k, "child", act_task(1, "do", NULL));
    kit_task_done(k, kit_must(kit_take_task(k, "do")), "done");
    struct action action = act_task(2, "undo", NULL);
    action.tags = bytes_make(undo, sizeof undo - 1);
    KIT_TURN(k, "child", action);
    kit_task_done(k, kit_must(kit_take_task(k, "undo")), "undone");
    action = act_fail(3, "c");
    struct orchestrator_answer answer = {
        .actions = &action,
        .actions_n = 1,
        .custom_status = maybe_text(custom_status),
    };
    EXPECT_STATUS(OK, kit_answer_with(k, kit_must(kit_take_turn(k, "child")), &answer));
    KIT_TURN(k, "parent", act_fail(2, "p"));
    EXPECT_TEXT("FAILED", kit_status(k, "hub/p"));
    EXPECT_STATUS(E_PRECONDITION, kit_rewind(k, "hub/c", NULL));
    EXPECT(strstr(k->text, "its compensations have run") != NULL);
    return k;
}

/* Nothing of what the child did is left: it does it again, from its beginning, and its parent goes
 * on from there. */
TEST(rewinding_with_a_child_that_has_undone)
{
    struct kit *k = kit_with_undone_child(REPLY_COMPENSATED);
    struct instance_view view;
    EXPECT_STATUS(OK, kit_rewind(k, "hub/p", NULL));
    for (uint32_t p = 0; p < 3; p++) kit_crash(k, p);
    EXPECT(kit_view(k, "hub/c", &view));
    EXPECT_EQ(STATUS_PENDING, view.status);
    EXPECT_TEXT("arg", kit_maybe(k, view.input));
    EXPECT(!view.custom_status.has);
    KIT_TURN(k, "child", act_task(1, "do", NULL));
    kit_task_done(k, kit_must(kit_take_task(k, "do")), "done");
    KIT_TURN(k, "child", act_complete(2, "anew"));
    EXPECT_TEXT("1 OrchestratorStarted\n2 SubOrchestrationInstanceCompleted of #1 anew\n",
                kit_fresh(k, kit_must(kit_take_turn(k, "parent"))));
    kit_free(k);
}

/* What is half undone a machine must neither continue nor do again; its parent is told so. Once a
 * person has seen to it, a purge and another rewind begin it anew. */
TEST(rewinding_with_a_child_that_has_half_undone)
{
    struct kit *k = kit_with_undone_child(NULL);
    EXPECT_STATUS(OK, kit_rewind(k, "hub/p", NULL));
    EXPECT_TEXT("FAILED", kit_status(k, "hub/c"));
    for (uint32_t p = 0; p < 3; p++) kit_crash(k, p);
    const struct effect_work *turn = kit_must(kit_take_turn(k, "parent"));
    EXPECT_TEXT("1 OrchestratorStarted\n2 SubOrchestrationInstanceFailed of #1 HalfUndone this "
                "child was not rewound: not all of its compensations worked; see to what they "
                "left, purge it, and rewind its parent again (final)\n",
                kit_fresh(k, turn));
    KIT_ANSWER(k, turn, act_fail(2, "p"));
    EXPECT_STATUS(OK, kit_purge(k, "hub/c"));
    EXPECT_STATUS(OK, kit_rewind(k, "hub/p", NULL));
    KIT_TURN(k, "child", act_complete(1, "anew"));
    EXPECT_TEXT("1 OrchestratorStarted\n2 SubOrchestrationInstanceCompleted of #1 anew\n",
                kit_fresh(k, kit_must(kit_take_turn(k, "parent"))));
    kit_free(k);
}

/* A child that was purged meanwhile starts anew, with its old input. */
TEST(rewinding_with_a_purged_child)
{
    struct kit *k = kit_with_failed_tree();
    struct instance_view view;
    EXPECT_STATUS(OK, kit_purge(k, "hub/c"));
    kit_rewind(k, "hub/p", NULL);
    EXPECT(kit_view(k, "hub/c", &view));
    EXPECT_EQ(STATUS_PENDING, view.status);
    EXPECT_TEXT("arg", kit_maybe(k, view.input));
    KIT_TURN(k, "child", act_complete(1, "anew"));
    EXPECT_TEXT("1 OrchestratorStarted\n2 SubOrchestrationInstanceCompleted of #1 anew\n",
                kit_fresh(k, kit_must(kit_take_turn(k, "parent"))));
    kit_free(k);
}

/* A child that still runs, or was started and never ran, answers the parent's new execution. */
TEST(rewinding_with_a_running_child)
{
    for (int is_started = 0; is_started < 2; is_started++) {
        struct kit *k = kit_new(2, 1);
        kit_start(k, "hub/p", "parent", NULL);
        KIT_TURN(k, "parent", act_child(1, "child", "c", NULL), act_task(2, "t", NULL));
        if (is_started) KIT_TURN(k, "child", act_timer(1, KIT_START_MS + 100000));
        kit_task_failed(k, kit_must(kit_take_task(k, "t")), "no", false);
        KIT_TURN(k, "parent", act_fail(3, "x"));
        kit_rewind(k, "hub/p", NULL);
        kit_tick_by(k, 100001);
        KIT_TURN(k, "child", act_complete(2, "r"));
        EXPECT_TEXT("1 OrchestratorStarted\n2 SubOrchestrationInstanceCompleted of #1 r\n",
                    kit_fresh(k, kit_must(kit_take_turn(k, "parent"))));
        kit_free(k);
    }
}

/* A child that ended after its parent had failed says so again. */
TEST(rewinding_with_a_child_that_has_ended_meanwhile)
{
    const bool is_terminated[] = {false, true};
    for (size_t n = 0; n < 2; n++) {
        struct kit *k = kit_new(2, 1);
        kit_start(k, "hub/p", "parent", NULL);
        KIT_TURN(k, "parent", act_child(1, "child", "c", NULL), act_fail(2, "x"));
        if (is_terminated[n])
            kit_terminate(k, "hub/c", NULL, false);
        else
            KIT_TURN(k, "child", act_complete(1, "r"));
        kit_rewind(k, "hub/p", NULL);
        const char *fresh = kit_fresh(k, kit_must(kit_take_turn(k, "parent")));
        EXPECT(strstr(fresh, is_terminated[n]
                                 ? "2 SubOrchestrationInstanceFailed of #1"
                                 : "2 SubOrchestrationInstanceCompleted of #1 r") != NULL);
        kit_free(k);
    }
}

/* The child's id is somebody else's now: the parent is told instead of waiting for a stranger. */
TEST(rewinding_when_the_childs_id_was_taken)
{
    struct kit *k = kit_with_failed_tree();
    kit_start(k, "hub/c", "stranger", "mine"); /* over the failed one */
    kit_rewind(k, "hub/p", NULL);
    const char *fresh = kit_fresh(k, kit_must(kit_take_turn(k, "parent")));
    EXPECT(strstr(fresh, "OrchestrationAlreadyExists") != NULL);
    struct instance_view view;
    EXPECT(kit_view(k, "hub/c", &view));
    EXPECT_TEXT("mine", kit_maybe(k, view.input));
    kit_free(k);
}

/* Rewinding a child on its own keeps its parent's link; the parent that has ended does not care. */
TEST(rewinding_only_the_child)
{
    struct kit *k = kit_with_failed_tree();
    EXPECT_STATUS(OK, kit_rewind(k, "hub/g", NULL));
    KIT_TURN(k, "grandchild", act_complete(2, "late"));
    EXPECT_TEXT("COMPLETED", kit_status(k, "hub/g"));
    EXPECT_TEXT("FAILED", kit_status(k, "hub/c"));
    kit_free(k);
}

/* It can fail and be rewound again and again. */
TEST(rewinding_again_and_again)
{
    struct kit *k = kit_new(1, 1);
    kit_start(k, "hub/a", "o", NULL);
    KIT_TURN(k, "o", act_task(1, "t", NULL));
    for (int n = 0; n < 5; n++) {
        kit_task_failed(k, kit_must(kit_take_task(k, "t")), "no", false);
        KIT_TURN(k, "o", act_fail(2, "x"));
        EXPECT_STATUS(OK, kit_rewind(k, "hub/a", NULL));
        KIT_TURN(k, "o", act_task(1, "t", NULL));
    }
    kit_task_done(k, kit_must(kit_take_task(k, "t")), "ok");
    KIT_TURN(k, "o", act_complete(2, NULL));
    EXPECT_TEXT("COMPLETED", kit_status(k, "hub/a"));
    kit_free(k);
}

/* ---- restart ---- */

/* A restart is a new execution with the old name, version, input and tags, and without parent. */
TEST(restarting_begins_anew)
{
    struct kit *k = kit_new(1, 1);
    struct instance_view view;
    kit_start(k, "hub/p", "parent", NULL);
    struct action child = act_child(1, "child", "c", "arg");
    child.version = maybe_text("2");
    KIT_TURN(k, "parent", child);
    EXPECT_STATUS(E_PRECONDITION, kit_restart(k, "hub/c"));
    KIT_TURN(k, "child", act_complete(1, "first"));
    KIT_TURN(k, "parent", act_complete(2, NULL));
    EXPECT_STATUS(OK, kit_restart(k, "hub/c"));
    EXPECT(kit_view(k, "hub/c", &view));
    EXPECT_EQ(STATUS_PENDING, view.status);
    EXPECT_TEXT("arg", kit_maybe(k, view.input));
    EXPECT_TEXT("2", kit_maybe(k, view.version));
    EXPECT_EQ(0, view.parent_id.len);
    EXPECT_EQ(0, view.history_n);
    KIT_TURN(k, "child", act_complete(1, "second"));
    EXPECT_EQ(0, core_stats(kit_core(k, "hub/p"))->dropped_messages); /* nobody was told */
    EXPECT_STATUS(E_NOT_FOUND, kit_restart(k, "hub/x"));
    kit_free(k);
}

/* A scheduled instance that is restarted does not wait for its old time. */
TEST(restarting_does_not_schedule_again)
{
    struct kit *k = kit_new(1, 1);
    struct input_start start = {.key = BYTES_LITERAL("hub/a"),
                                .name = BYTES_LITERAL("o"),
                                .has_scheduled = true,
                                .scheduled_ms = KIT_START_MS + 100000};
    kit_start_with(k, start);
    kit_terminate(k, "hub/a", NULL, false);
    kit_restart(k, "hub/a");
    EXPECT(kit_take_turn(k, "o") != NULL);
    kit_free(k);
}

/* ---- purge ---- */

/* A purged instance is gone for everybody; only what has ended can be purged. S22 */
TEST(purging)
{
    struct kit *k = kit_new(1, 1);
    struct instance_view view;
    EXPECT_STATUS(E_NOT_FOUND, kit_purge(k, "hub/a"));
    kit_start(k, "hub/a", "o", NULL);
    EXPECT_STATUS(E_PRECONDITION, kit_purge(k, "hub/a"));
    KIT_TURN(k, "o", act_task(1, "t", NULL), act_complete(2, NULL));
    const struct effect_work *task = kit_must(kit_take_task(k, "t"));
    EXPECT_STATUS(OK, kit_purge(k, "hub/a"));
    EXPECT(!kit_view(k, "hub/a", &view));
    EXPECT_HISTORY(k, "hub/a", "");
    EXPECT_TEXT("", kit_why(k, "hub/a"));
    EXPECT_STATUS(E_NOT_FOUND, kit_purge(k, "hub/a"));
    EXPECT_STATUS(E_NOT_FOUND, kit_raise(k, "hub/a", "e", NULL));
    EXPECT_STATUS(E_NOT_FOUND, kit_terminate(k, "hub/a", NULL, true));
    EXPECT_STATUS(E_NOT_FOUND, kit_rewind(k, "hub/a", NULL));
    EXPECT_STATUS(E_NOT_FOUND, kit_restart(k, "hub/a"));
    EXPECT_STATUS(E_NOT_FOUND, kit_resubmit(k, "hub/a", 1));
    EXPECT_STATUS(OK, kit_task_done(k, task, "late"));
    EXPECT_EQ(0, k->records_n);
    kit_crash(k, 0);
    EXPECT(!kit_view(k, "hub/a", &view));
    kit_free(k);
}

/* Nobody is woken with a status that the instance never had. */
TEST(purging_is_no_change_of_status)
{
    struct kit *k = kit_new(1, 1);
    kit_start(k, "hub/a", "o", NULL);
    KIT_TURN(k, "o", act_complete(1, NULL));
    kit_purge(k, "hub/a");
    EXPECT_TEXT("hub/a PENDING\nhub/a COMPLETED\n", kit_bytes(k, buffer_view(&k->statuses)));
    kit_free(k);
}

/* The tombstone keeps the id free: a new instance takes its place, and is told from the old one. */
TEST(a_purged_id_can_be_used_again)
{
    struct kit *k = kit_new(1, 1);
    struct instance_view view;
    kit_start(k, "hub/a", "o", "old");
    kit_raise(k, "hub/a", "e", "old");
    kit_terminate(k, "hub/a", NULL, false);
    kit_purge(k, "hub/a");
    struct input_start start = {.key = BYTES_LITERAL("hub/a"),
                                .name = BYTES_LITERAL("o"),
                                .input = maybe_text("new"),
                                .reuse = REUSE_NEVER};
    EXPECT_STATUS(OK, kit_start_with(k, start));
    EXPECT(kit_view(k, "hub/a", &view));
    EXPECT_TEXT("new", kit_maybe(k, view.input));
    EXPECT_EQ(1, view.inbox_n);
    kit_crash(k, 0);
    EXPECT_TEXT("1 OrchestratorStarted\n2 ExecutionStarted o new\n",
                kit_fresh(k, kit_must(kit_take_turn(k, "o"))));
    kit_free(k);
}
