/* SPDX-License-Identifier: Apache-2.0
 *
 * Suspend and resume: nothing is emitted while suspended, nothing is lost, and the order of arrival
 * is kept. S23 D11
 */
#include "test/lib/partition.h"
#include "test/lib/test.h"

static struct kit *kit_with_waiting_instance(void)
{
    struct kit *k = kit_new(1, 1);
    kit_start(k, "hub/a", "o", NULL);
    kit_answer(k, kit_must(kit_take_turn(k, "o")), NULL, 0);
    return k;
}

static const char *next_fresh(struct kit *k)
{
    return kit_fresh(k, kit_must(kit_take_turn(k, "o")));
}

/* Suspending shows at once, without a worker, and stands in the history. */
TEST(suspending_needs_no_worker)
{
    struct kit *k = kit_with_waiting_instance();
    EXPECT_STATUS(OK, kit_suspend(k, "hub/a", "why"));
    EXPECT_TEXT("SUSPENDED", kit_status(k, "hub/a"));
    EXPECT_HISTORY(k, "hub/a",
                   "1 OrchestratorStarted\n2 ExecutionStarted o\n3 OrchestratorStarted\n"
                   "4 ExecutionSuspended why\n");
    kit_crash(k, 0);
    EXPECT_TEXT("SUSPENDED", kit_status(k, "hub/a"));
    EXPECT_STATUS(OK, kit_resume(k, "hub/a", NULL));
    EXPECT_TEXT("RUNNING", kit_status(k, "hub/a"));
    EXPECT_TEXT("hub/a PENDING\nhub/a RUNNING\nhub/a SUSPENDED\nhub/a RUNNING\n",
                kit_bytes(k, buffer_view(&k->statuses)));
    EXPECT_TEXT("1 OrchestratorStarted\n2 ExecutionResumed\n", next_fresh(k));
    kit_free(k);
}

/* Both are idempotent, and harmless where they make no sense. */
TEST(suspend_and_resume_are_idempotent)
{
    struct kit *k = kit_with_waiting_instance();
    EXPECT_STATUS(OK, kit_resume(k, "hub/a", NULL));
    EXPECT_EQ(0, k->records_n);
    kit_suspend(k, "hub/a", NULL);
    EXPECT_STATUS(OK, kit_suspend(k, "hub/a", NULL));
    EXPECT_EQ(0, k->records_n);
    kit_terminate(k, "hub/a", NULL, false);
    EXPECT_STATUS(OK, kit_suspend(k, "hub/a", NULL));
    EXPECT_EQ(0, k->records_n);
    EXPECT_STATUS(OK, kit_resume(k, "hub/a", NULL));
    EXPECT_EQ(0, k->records_n);
    EXPECT_TEXT("TERMINATED", kit_status(k, "hub/a"));
    EXPECT_STATUS(E_NOT_FOUND, kit_suspend(k, "hub/b", NULL));
    EXPECT_STATUS(E_NOT_FOUND, kit_resume(k, "hub/b", NULL));
    kit_free(k);
}

/* Suspended before its first turn: nothing runs until resume, then the orchestrator sees it all in
 * order. */
TEST(suspending_a_pending_instance)
{
    struct kit *k = kit_new(1, 1);
    kit_start(k, "hub/a", "o", NULL);
    kit_suspend(k, "hub/a", "s");
    EXPECT_TEXT("SUSPENDED", kit_status(k, "hub/a"));
    EXPECT(kit_take_turn(k, "o") == NULL);
    kit_raise(k, "hub/a", "e", NULL);
    kit_resume(k, "hub/a", "r");
    EXPECT_TEXT("PENDING", kit_status(k, "hub/a"));
    EXPECT_TEXT(
        "1 OrchestratorStarted\n2 ExecutionStarted o\n3 ExecutionSuspended s\n4 EventRaised e\n"
        "5 ExecutionResumed r\n",
        next_fresh(k));
    kit_free(k);
}

/* Pairs of suspend and resume between two turns are all told, in their order. */
TEST(several_pairs_in_one_batch)
{
    struct kit *k = kit_with_waiting_instance();
    kit_suspend(k, "hub/a", "1");
    kit_resume(k, "hub/a", "2");
    kit_raise(k, "hub/a", "e", NULL);
    kit_suspend(k, "hub/a", "3");
    EXPECT_TEXT("SUSPENDED", kit_status(k, "hub/a"));
    EXPECT(kit_take_turn(k, "o") == NULL);
    kit_resume(k, "hub/a", "4");
    EXPECT_TEXT(
        "1 OrchestratorStarted\n2 ExecutionResumed 2\n3 EventRaised e\n4 ExecutionSuspended 3\n"
        "5 ExecutionResumed 4\n",
        next_fresh(k));
    kit_free(k);
}

/* A turn that is under way when the instance is suspended does not count, and comes again after
 * resume: an answer that is dropped must not take the turn with it. L0 */
TEST(suspending_during_a_turn)
{
    struct kit *k = kit_with_waiting_instance();
    kit_raise(k, "hub/a", "e", NULL);
    const struct effect_work *turn = kit_must(kit_take_turn(k, "o"));
    kit_suspend(k, "hub/a", "s");
    EXPECT_STATUS(OK, KIT_ANSWER(k, turn, act_complete(1, NULL)));
    EXPECT_EQ(0, k->records_n);
    EXPECT_TEXT("SUSPENDED", kit_status(k, "hub/a"));
    kit_resume(k, "hub/a", "r");
    EXPECT_TEXT("1 OrchestratorStarted\n2 EventRaised e\n3 ExecutionResumed r\n", next_fresh(k));
    kit_free(k);
}

/* The same for the very first turn, where the suspend waits behind ExecutionStarted. L0 */
TEST(suspending_during_the_first_turn)
{
    struct kit *k = kit_new(1, 1);
    kit_start(k, "hub/a", "o", NULL);
    const struct effect_work *turn = kit_must(kit_take_turn(k, "o"));
    kit_suspend(k, "hub/a", "s");
    EXPECT_STATUS(OK, KIT_ANSWER(k, turn, act_complete(1, NULL)));
    EXPECT_EQ(0, k->records_n);
    kit_resume(k, "hub/a", "r");
    const struct effect_work *next = kit_must(kit_take_turn(k, "o"));
    EXPECT_STATUS(OK, KIT_ANSWER(k, turn, act_complete(1, "old")));
    EXPECT_EQ(0, k->records_n); /* it is the other worker's turn now */
    EXPECT_TEXT("1 OrchestratorStarted\n2 ExecutionStarted o\n3 ExecutionSuspended s\n"
                "4 ExecutionResumed r\n",
                kit_fresh(k, next));
    KIT_ANSWER(k, next, act_complete(1, "new"));
    EXPECT_TEXT("COMPLETED", kit_status(k, "hub/a"));
    kit_free(k);
}

/* And for a turn that was given an unread resume. L0 */
TEST(suspending_again_during_the_turn_of_the_resume)
{
    struct kit *k = kit_with_waiting_instance();
    kit_suspend(k, "hub/a", "1");
    kit_resume(k, "hub/a", "2");
    const struct effect_work *turn = kit_must(kit_take_turn(k, "o"));
    kit_suspend(k, "hub/a", "3");
    EXPECT_TEXT("SUSPENDED", kit_status(k, "hub/a"));
    KIT_ANSWER(k, turn, act_complete(1, NULL));
    EXPECT_TEXT("SUSPENDED", kit_status(k, "hub/a"));
    kit_abandon(k, turn, NULL);
    kit_resume(k, "hub/a", "4");
    EXPECT_TEXT("1 OrchestratorStarted\n2 ExecutionResumed 2\n3 ExecutionSuspended 3\n"
                "4 ExecutionResumed 4\n",
                next_fresh(k));
    kit_free(k);
}

/* A scheduled start that falls due while suspended begins on resume; resumed before, it waits
 * on. */
TEST(suspending_a_scheduled_start)
{
    for (int is_early = 0; is_early < 2; is_early++) {
        struct kit *k = kit_new(1, 1);
        struct input_start start = {.key = BYTES_LITERAL("hub/a"),
                                    .name = BYTES_LITERAL("o"),
                                    .has_scheduled = true,
                                    .scheduled_ms = KIT_START_MS + 1000};
        kit_start_with(k, start);
        kit_suspend(k, "hub/a", NULL);
        kit_tick_by(k, is_early ? 500 : 2000);
        kit_resume(k, "hub/a", NULL);
        EXPECT_EQ(is_early, kit_take_turn(k, "o") == NULL);
        kit_tick_by(k, 500);
        if (is_early) EXPECT(kit_take_turn(k, "o") != NULL);
        kit_free(k);
    }
}

/* A suspended instance can leave memory; its timers and messages bring it back. D3 */
TEST(a_suspended_instance_can_be_evicted)
{
    struct kit *k = kit_with_waiting_instance();
    kit_suspend(k, "hub/a", NULL);
    kit_raise(k, "hub/a", "e", NULL);
    EXPECT(kit_evict(k, "hub/a"));
    EXPECT_TEXT("SUSPENDED", kit_status(k, "hub/a"));
    kit_resume(k, "hub/a", NULL);
    EXPECT_TEXT("1 OrchestratorStarted\n2 EventRaised e\n3 ExecutionResumed\n", next_fresh(k));
    kit_free(k);
}
