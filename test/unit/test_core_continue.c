/* SPDX-License-Identifier: Apache-2.0
 *
 * Continue-as-new: a new generation with a new execution id, nothing of the old one lost that was
 * meant for others or for the instance, and nothing of it applied that was meant for the old
 * execution. D8
 */
#include "test/lib/partition.h"
#include "test/lib/test.h"

static struct kit *kit_with_instance(void)
{
    struct kit *k = kit_new(1, 1);
    struct input_start start = {.key = BYTES_LITERAL("hub/a"),
                                .name = BYTES_LITERAL("o"),
                                .version = maybe_text("1"),
                                .input = maybe_text("one"),
                                .tags = BYTES_LITERAL("\x06\x0a\x01k\x12\x01v")};
    EXPECT_STATUS(OK, kit_start_with(k, start));
    return k;
}

/* The next generation has the new input and the old name, version and tags; its history begins
 * anew. */
TEST(a_generation_begins_with_the_new_input)
{
    struct kit *k = kit_with_instance();
    struct instance_view before;
    struct instance_view view;
    EXPECT(kit_view(k, "hub/a", &before));
    int64_t created_ns = before.created_ns;
    kit_tick_by(k, 5000);
    KIT_TURN(k, "o", act_continue(1, "two"));
    EXPECT(kit_view(k, "hub/a", &view));
    EXPECT(memcmp(before.execution_id, view.execution_id, EXECUTION_ID_SIZE) != 0);
    EXPECT_EQ(STATUS_RUNNING, view.status);
    EXPECT_EQ(created_ns, view.created_ns);
    EXPECT_TEXT("two", kit_maybe(k, view.input));
    EXPECT_TEXT("1", kit_maybe(k, view.version));
    EXPECT_BYTES(BYTES_LITERAL("\x06\x0a\x01k\x12\x01v"), view.tags);
    EXPECT_EQ(0, view.history_n);
    const struct effect_work *turn = kit_must(kit_take_turn(k, "o"));
    EXPECT_TEXT("", kit_past(k, turn));
    EXPECT_TEXT("1 OrchestratorStarted\n2 ExecutionStarted o two\n", kit_fresh(k, turn));
    KIT_ANSWER(k, turn, act_complete(1, "end"));
    EXPECT_HISTORY(k, "hub/a",
                   "1 OrchestratorStarted\n2 ExecutionStarted o two\n"
                   "3 ExecutionCompleted #1 COMPLETED end\n");
    kit_free(k);
}

/* A new version may be given; absent keeps the old one. No input is no input. */
TEST(a_generation_may_have_a_new_version)
{
    struct kit *k = kit_with_instance();
    struct instance_view view;
    struct action next = act_continue(1, NULL);
    next.new_version = maybe_text("2");
    KIT_TURN(k, "o", next);
    EXPECT(kit_view(k, "hub/a", &view));
    EXPECT_TEXT("2", kit_maybe(k, view.version));
    EXPECT_TEXT("(none)", kit_maybe(k, view.input));
    kit_free(k);
}

/* Every other action of the same answer is honoured, wherever it stands. An event to itself is for
 * the new generation: that is how one SDK keeps unread events. */
TEST(every_other_action_is_honoured)
{
    struct kit *k = kit_with_instance();
    kit_start(k, "hub/b", "other", NULL);
    KIT_TURN(k, "o", act_event(1, "b", "hi", "b"), act_continue(2, "two"), act_task(3, "t", NULL),
             act_child(4, "c", "child", NULL), act_event(5, "a", "hi", "me"),
             act_terminate(6, "b", "over", false), act_timer(7, KIT_START_MS));
    EXPECT_TEXT("1 OrchestratorStarted\n2 ExecutionStarted o two\n3 EventRaised hi me\n",
                kit_fresh(k, kit_must(kit_take_turn(k, "o"))));
    EXPECT_TEXT("PENDING", kit_status(k, "hub/child"));
    EXPECT(kit_take_task(k, "t") != NULL);
    EXPECT_HISTORY(k, "hub/b",
                   "1 OrchestratorStarted\n2 ExecutionStarted other\n"
                   "3 ExecutionTerminated over\n4 ExecutionCompleted TERMINATED over\n");
    kit_tick_by(k, 1000);
    EXPECT_EQ(0, core_stats(kit_core(k, "hub/a"))->timers_fired);
    kit_free(k);
}

/* Results of the old generation that have arrived and were not read do not reach the new one.
 * S15 */
TEST(unread_results_of_the_old_generation_are_dropped)
{
    struct kit *k = kit_with_instance();
    KIT_TURN(k, "o", act_task(1, "t", NULL), act_timer(2, KIT_START_MS + 1000),
             act_child(3, "c", "child", NULL));
    kit_raise(k, "hub/a", "wake", NULL);
    const struct effect_work *turn = kit_must(kit_take_turn(k, "o"));
    kit_task_done(k, kit_must(kit_take_task(k, "t")), "r");
    kit_tick_by(k, 1000);
    KIT_TURN(k, "c", act_complete(1, "r"));
    kit_raise(k, "hub/a", "mine", NULL);
    KIT_ANSWER(k, turn, act_continue(4, "two"));
    EXPECT_TEXT("1 OrchestratorStarted\n2 ExecutionStarted o two\n3 EventRaised mine\n",
                kit_fresh(k, kit_must(kit_take_turn(k, "o"))));
    kit_free(k);
}

/* Suspend and resume that were not read yet belong to the instance, not to its execution. */
TEST(unread_control_crosses_generations)
{
    struct kit *k = kit_with_instance();
    kit_suspend(k, "hub/a", "s");
    kit_resume(k, "hub/a", "r");
    const struct effect_work *turn = kit_must(kit_take_turn(k, "o"));
    kit_raise(k, "hub/a", "e", NULL);
    KIT_ANSWER(k, turn, act_continue(1, "two"));
    turn = kit_must(kit_take_turn(k, "o"));
    EXPECT_TEXT("1 OrchestratorStarted\n2 ExecutionStarted o two\n3 EventRaised e\n",
                kit_fresh(k, turn));
    kit_suspend(k, "hub/a", "s2");
    EXPECT_TEXT("SUSPENDED", kit_status(k, "hub/a"));
    kit_resume(k, "hub/a", "r2");
    EXPECT_TEXT("1 OrchestratorStarted\n2 ExecutionStarted o two\n3 EventRaised e\n"
                "4 ExecutionSuspended s2\n5 ExecutionResumed r2\n",
                kit_fresh(k, kit_must(kit_take_turn(k, "o"))));
    kit_free(k);
}

/* Memory of the old generation goes with it: a thousand generations cost no more than a few. D8 */
TEST(generations_do_not_pile_up)
{
    struct kit *k = kit_with_instance();
    size_t used = 0;
    k->is_thorough = false;
    for (int n = 0; n < 1000; n++) {
        KIT_TURN(k, "o", act_event(1, "a", "e", "0123456789"), act_continue(2, "in"));
        if (n == 100) used = k->live_mem.used;
    }
    EXPECT(k->live_mem.used <= used + 1024);
    kit_free(k);
}

/* A step that waits for an operator is given up with its generation, and leaves nothing of itself
 * behind. */
TEST(a_parked_step_ends_with_its_generation)
{
    struct kit *k = kit_with_instance();
    kit_policy(k, "t", (struct policy){.last_resort = RESORT_PARK, .retries_failures = true});
    KIT_TURN(k, "o", act_task(1, "t", NULL), act_task(2, "t", NULL));
    kit_task_failed(k, kit_must(kit_take_task(k, "t")), "no way", true);
    EXPECT_STATUS(OK, kit_resubmit(k, "hub/a", 1));
    kit_raise(k, "hub/a", "e", NULL);
    KIT_TURN(k, "o", act_continue(3, NULL));
    EXPECT_TEXT("RUNNING: 1 new events wait for a worker of \"o\"", kit_why(k, "hub/a"));
    kit_crash(k, 0);
    kit_free(k);
}

/* A child that continues as new is still its parent's child, and its result is the last
 * generation's. */
TEST(a_continued_child_answers_its_parent)
{
    struct kit *k = kit_new(2, 1);
    kit_start(k, "hub/p", "parent", NULL);
    KIT_TURN(k, "parent", act_child(1, "c", "child", NULL));
    KIT_TURN(k, "c", act_continue(1, "again"));
    EXPECT(kit_take_turn(k, "parent") == NULL);
    KIT_TURN(k, "c", act_complete(1, "at last"));
    EXPECT_TEXT("1 OrchestratorStarted\n2 SubOrchestrationInstanceCompleted of #1 at last\n",
                kit_fresh(k, kit_must(kit_take_turn(k, "parent"))));
    kit_free(k);
}
