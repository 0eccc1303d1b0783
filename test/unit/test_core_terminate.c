/* SPDX-License-Identifier: Apache-2.0
 *
 * Terminate: by the engine alone, at once, in every state, through whole trees. D11 L5
 */
#include "test/lib/partition.h"
#include "test/lib/test.h"

#include <stdio.h>

static void expect_terminated(struct kit *k, const char *key, const char *output)
{
    struct instance_view view;
    EXPECT(kit_view(k, key, &view));
    EXPECT_EQ(STATUS_TERMINATED, view.status);
    EXPECT_TEXT(output, kit_maybe(k, view.output));
    EXPECT(!view.failure.has);
}

/* A pending instance ends without ever having run; its history tells the story. */
TEST(terminating_a_pending_instance)
{
    struct kit *k = kit_new(1, 1);
    kit_start(k, "hub/a", "o", "in");
    EXPECT_STATUS(OK, kit_terminate(k, "hub/a", "\"stop\"", false));
    expect_terminated(k, "hub/a", "\"stop\"");
    EXPECT_HISTORY(k, "hub/a",
                   "1 OrchestratorStarted\n2 ExecutionStarted o in\n"
                   "3 ExecutionTerminated \"stop\"\n4 ExecutionCompleted TERMINATED \"stop\"\n");
    EXPECT(kit_take_turn(k, "o") == NULL);
    kit_free(k);
}

/* A running one: its tasks, timers and unread messages are given up. */
TEST(terminating_a_running_instance)
{
    struct kit *k = kit_new(1, 1);
    kit_start(k, "hub/a", "o", NULL);
    KIT_TURN(k, "o", act_task(1, "t", NULL), act_task(2, "t", NULL),
             act_timer(3, KIT_START_MS + 1000));
    const struct effect_work *task = kit_must(kit_take_task(k, "t"));
    kit_raise(k, "hub/a", "e", NULL);
    kit_terminate(k, "hub/a", NULL, false);
    expect_terminated(k, "hub/a", "(none)");
    EXPECT(kit_take_task(k, "t") == NULL);
    EXPECT_EQ(INT64_MAX, core_wake_at_ms(kit_core(k, "hub/a")));
    EXPECT_STATUS(OK, kit_task_done(k, task, "late"));
    EXPECT_EQ(0, k->records_n);
    EXPECT(kit_evict(k, "hub/a"));
    kit_free(k);
}

/* Suspended: terminal wins over suspended. */
TEST(terminating_a_suspended_instance)
{
    struct kit *k = kit_new(1, 1);
    kit_start(k, "hub/a", "o", NULL);
    kit_answer(k, kit_must(kit_take_turn(k, "o")), NULL, 0);
    kit_suspend(k, "hub/a", NULL);
    kit_terminate(k, "hub/a", "x", false);
    expect_terminated(k, "hub/a", "x");
    kit_crash(k, 0);
    expect_terminated(k, "hub/a", "x");
    kit_free(k);
}

/* While a worker has the turn: its answer comes too late. */
TEST(terminating_a_leased_instance)
{
    struct kit *k = kit_new(1, 1);
    kit_start(k, "hub/a", "o", NULL);
    const struct effect_work *turn = kit_must(kit_take_turn(k, "o"));
    kit_terminate(k, "hub/a", "x", false);
    EXPECT_STATUS(OK, KIT_ANSWER(k, turn, act_complete(1, "late")));
    EXPECT_EQ(0, k->records_n);
    EXPECT_STATUS(OK, kit_abandon(k, turn, NULL));
    expect_terminated(k, "hub/a", "x");
    kit_free(k);
}

/* A poisoned one: it ends what no worker can end. */
TEST(terminating_a_parked_instance)
{
    struct kit *k = kit_new(1, 1);
    kit_start(k, "hub/a", "o", NULL);
    for (int n = 0; n < 20; n++) {
        kit_abandon(k, kit_must(kit_take_turn(k, "o")), NULL);
        kit_tick_by(k, 60000);
    }
    kit_terminate(k, "hub/a", "x", false);
    expect_terminated(k, "hub/a", "x");
    EXPECT_STATUS(OK, kit_resume(k, "hub/a", NULL));
    EXPECT_EQ(0, k->records_n);
    kit_free(k);
}

/* The second time nothing happens; unknown ids are an answer. */
TEST(terminating_twice)
{
    struct kit *k = kit_new(1, 1);
    kit_start(k, "hub/a", "o", NULL);
    kit_terminate(k, "hub/a", "first", false);
    EXPECT_STATUS(OK, kit_terminate(k, "hub/a", "second", true));
    EXPECT_EQ(0, k->records_n);
    expect_terminated(k, "hub/a", "first");
    EXPECT_STATUS(E_NOT_FOUND, kit_terminate(k, "hub/b", NULL, false));
    kit_free(k);
}

/* Not recursive: the children go on, and their results are dropped. */
TEST(children_go_on_without_recursion)
{
    struct kit *k = kit_new(2, 1);
    kit_start(k, "hub/a", "o", NULL);
    KIT_TURN(k, "o", act_child(1, "c", "b", NULL));
    kit_terminate(k, "hub/a", NULL, false);
    EXPECT_TEXT("PENDING", kit_status(k, "hub/b"));
    KIT_TURN(k, "c", act_complete(1, "x"));
    EXPECT_TEXT("COMPLETED", kit_status(k, "hub/b"));
    kit_free(k);
}

/* Recursive: the whole tree, over all partitions, also below a child that has already completed. */
TEST(a_whole_tree_is_terminated)
{
    for (uint32_t partitions_n = 1; partitions_n <= 4; partitions_n++) {
        struct kit *k = kit_new(partitions_n, 1);
        kit_start(k, "hub/root", "root", NULL);
        KIT_TURN(k, "root", act_child(1, "mid", "left", NULL), act_child(2, "mid", "right", NULL));
        KIT_TURN(k, "mid", act_child(1, "leaf", "left-1", NULL),
                 act_child(2, "leaf", "left-2", NULL));
        KIT_TURN(k, "mid", act_child(1, "leaf", "right-1", NULL));
        KIT_TURN(k, "leaf", act_complete(1, "done"));
        kit_terminate(k, "hub/left", "x", false); /* its leaves go on */
        EXPECT_STATUS(OK, kit_terminate(k, "hub/root", "all", true));
        expect_terminated(k, "hub/root", "all");
        expect_terminated(k, "hub/left", "x");
        expect_terminated(k, "hub/right", "all");
        int completed = 0;
        const char *leaves[] = {"hub/left-1", "hub/left-2", "hub/right-1"};
        for (size_t n = 0; n < 3; n++) {
            if (strcmp(kit_status(k, leaves[n]), "COMPLETED") == 0)
                completed++;
            else
                expect_terminated(k, leaves[n], "all");
        }
        EXPECT_EQ(1, completed);
        kit_free(k);
    }
}

/* A tree that has ended at its root is still reached below. */
TEST(running_grandchildren_of_a_completed_tree_are_terminated)
{
    struct kit *k = kit_new(2, 1);
    kit_start(k, "hub/root", "root", NULL);
    KIT_TURN(k, "root", act_child(1, "mid", "m", NULL), act_complete(2, NULL));
    KIT_TURN(k, "mid", act_child(1, "leaf", "l", NULL), act_complete(2, NULL));
    EXPECT_TEXT("COMPLETED", kit_status(k, "hub/root"));
    EXPECT_TEXT("COMPLETED", kit_status(k, "hub/m"));
    EXPECT_STATUS(OK, kit_terminate(k, "hub/root", "x", true));
    EXPECT_TEXT("COMPLETED", kit_status(k, "hub/m"));
    expect_terminated(k, "hub/l", "x");
    kit_free(k);
}

/* An id that was used for a child once and is somebody else's now is left alone. */
TEST(only_children_of_this_execution_are_terminated)
{
    struct kit *k = kit_new(1, 1);
    kit_start(k, "hub/root", "root", NULL);
    KIT_TURN(k, "root", act_child(1, "c", "c", NULL));
    KIT_TURN(k, "c", act_complete(1, NULL));
    kit_start(k, "hub/c", "mine", NULL);
    kit_start(k, "hub/taken", "mine", NULL);
    KIT_TURN(k, "root", act_child(2, "c", "taken", NULL));
    kit_terminate(k, "hub/root", NULL, true);
    EXPECT_TEXT("PENDING", kit_status(k, "hub/c"));
    EXPECT_TEXT("PENDING", kit_status(k, "hub/taken"));
    kit_free(k);
}

/* A recursive terminate that overtakes nothing: the child's start is still on its way when its
 * parent ends. */
TEST(a_child_that_is_still_being_created_is_terminated)
{
    struct kit *k = kit_new(2, 1);
    k->is_held = true;
    kit_start(k, "hub/a", "o", NULL);
    KIT_TURN(k, "o", act_child(1, "c", "b", NULL), act_child(2, "c", "d", NULL));
    kit_terminate(k, "hub/a", "x", true);
    kit_deliver(k);
    expect_terminated(k, "hub/b", "x");
    expect_terminated(k, "hub/d", "x");
    kit_free(k);
}

/* An orchestrator can ask for the end of another instance. */
TEST(an_orchestrator_terminates_another)
{
    struct kit *k = kit_new(2, 1);
    kit_start(k, "hub/a", "o", NULL);
    kit_start(k, "hub/b", "victim", NULL);
    KIT_TURN(k, "victim", act_child(1, "c", "child", NULL));
    KIT_TURN(k, "o", act_terminate(1, "b", "sorry", true), act_terminate(2, "nobody", NULL, false),
             act_terminate(3, "", NULL, false));
    expect_terminated(k, "hub/b", "sorry");
    expect_terminated(k, "hub/child", "sorry");
    EXPECT_HISTORY(k, "hub/a", "1 OrchestratorStarted\n2 ExecutionStarted o\n");
    kit_free(k);
}

/* ---- purging what has not ended ---- */

/* By force: its parent hears that it was terminated, and nothing that it had begun counts any
 * more. */
TEST(a_forced_purge_ends_it_first)
{
    struct kit *k = kit_new(1, 1);
    struct instance_view view;
    kit_start(k, "hub/p", "parent", NULL);
    KIT_TURN(k, "parent", act_child(1, "child", "c", NULL));
    KIT_TURN(k, "child", act_task(1, "t", NULL));
    const struct effect_work *task = kit_must(kit_take_task(k, "t"));
    kit_raise(k, "hub/c", "go", NULL);
    const struct effect_work *turn = kit_must(kit_take_turn(k, "child"));
    EXPECT_STATUS(E_PRECONDITION, kit_purge(k, "hub/c"));
    EXPECT_STATUS(OK, kit_purge_forced(k, "hub/c"));
    EXPECT_TEXT("none", kit_status(k, "hub/c"));
    EXPECT_STATUS(E_NOT_FOUND, kit_purge_forced(k, "hub/c"));
    EXPECT_STATUS(OK, kit_task_done(k, task, "too late"));
    EXPECT_STATUS(OK, KIT_ANSWER(k, turn, act_complete(2, "too late")));
    kit_crash(k, 0);
    kit_tick_by(k, 0);
    EXPECT(!kit_view(k, "hub/c", &view) || view.is_purged);
    EXPECT(kit_take_task(k, "t") == NULL);
    EXPECT(kit_take_turn(k, "child") == NULL);
    EXPECT(strstr(kit_fresh(k, kit_must(kit_take_turn(k, "parent"))), "SubOrchestration") != NULL);
    kit_free(k);
}

/* Counts for metrics follow every change, and say the same after a crash. */
TEST(gauges_count_what_is_there)
{
    struct kit *k = kit_new(1, 1);
    struct core_gauges g;
    const char *const keys[] = {"hub/a", "hub/b", "hub/c", "hub/d", "hub/e"};
    for (int n = 0; n < 5; n++) kit_start(k, keys[n], "o", NULL);
    KIT_TURN(k, "o", act_task(1, "t", NULL));  /* a runs */
    KIT_TURN(k, "o", act_complete(1, "done")); /* b has ended */
    kit_suspend(k, "hub/c", "later");
    kit_purge_forced(k, "hub/d");
    for (int round = 0; round < 2; round++) {
        test_note("round %d", round);
        core_gauges(kit_core(k, "hub/a"), &g);
        EXPECT_EQ(1, g.pending);
        EXPECT_EQ(1, g.running);
        EXPECT_EQ(1, g.suspended);
        EXPECT_EQ(1, g.ended);
        EXPECT_EQ(1, g.purged);
        EXPECT_EQ(1, g.ready[WORK_TURN]);
        EXPECT_EQ(1, g.ready[WORK_TASK]);
        kit_crash(k, 0);
        kit_tick_by(k, 0);
    }
    EXPECT(kit_evict(k, "hub/b"));
    kit_take_task(k, "t");
    core_gauges(kit_core(k, "hub/a"), &g);
    EXPECT_EQ(1, g.ended); /* it has come back */
    EXPECT_EQ(0, g.ready[WORK_TASK]);
    kit_free(k);
}
