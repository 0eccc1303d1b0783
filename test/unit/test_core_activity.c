/* SPDX-License-Identifier: Apache-2.0
 *
 * Activities: at least once to the worker, at most once into the history.
 */
#include "test/lib/partition.h"
#include "test/lib/test.h"

static struct kit *kit_with_task(int32_t id)
{
    struct kit *k = kit_new(1, 1);
    kit_start(k, "hub/a", "o", NULL);
    KIT_TURN(k, "o", act_task(id, "t", "arg"));
    return k;
}

static const char *next_fresh(struct kit *k)
{
    return kit_fresh(k, kit_must(kit_take_turn(k, "o")));
}

/* A worker is given the schedule itself; its result wakes the orchestrator. S8 D7 */
TEST(a_result_wakes_the_orchestrator)
{
    struct kit *k = kit_with_task(1);
    EXPECT_TEXT("1 t PENDING 0\n", kit_tasks(k, "hub/a"));
    const struct effect_work *task = kit_must(kit_take_task(k, "t"));
    struct event_scheduled scheduled;
    EXPECT_EQ(1, task->ref.task_id);
    EXPECT_STATUS(OK, event_scheduled_decode(task->scheduled, &k->arena, &scheduled));
    EXPECT_TEXT("arg", kit_maybe(k, scheduled.input));
    EXPECT_TEXT("1 t PROCESSING 0\n", kit_tasks(k, "hub/a"));
    EXPECT(kit_take_task(k, "t") == NULL); /* one worker has it */
    EXPECT_STATUS(OK, kit_task_done(k, task, "res"));
    EXPECT_TEXT("", kit_tasks(k, "hub/a"));
    EXPECT_TEXT("1 OrchestratorStarted\n2 TaskCompleted of #1 res\n", next_fresh(k));
    kit_free(k);
}

/* Id 0 is absent on the wire and an id like any other: some SDKs begin with it. */
TEST(ids_begin_at_zero)
{
    struct kit *k = kit_with_task(0);
    kit_task_done(k, kit_must(kit_take_task(k, "t")), "res");
    EXPECT_TEXT("1 OrchestratorStarted\n2 TaskCompleted of #0 res\n", next_fresh(k));
    kit_free(k);
}

/* No result, an empty result and a result are three things. */
TEST(null_and_empty_results_stay_apart)
{
    struct kit *k = kit_with_task(1);
    kit_task_done(k, kit_must(kit_take_task(k, "t")), NULL);
    EXPECT_TEXT("1 OrchestratorStarted\n2 TaskCompleted of #1\n", next_fresh(k));
    kit_free(k);
    k = kit_with_task(1);
    kit_task_done(k, kit_must(kit_take_task(k, "t")), "");
    EXPECT_TEXT("1 OrchestratorStarted\n2 TaskCompleted of #1 ''\n", next_fresh(k));
    kit_free(k);
}

/* A failure goes to the orchestrator as it is: retries are its own. A failure wins over a result.
 * I9 */
TEST(a_failure_goes_to_the_orchestrator)
{
    struct kit *k = kit_with_task(1);
    kit_task_failed(k, kit_must(kit_take_task(k, "t")), "no luck", false);
    EXPECT_TEXT("1 OrchestratorStarted\n2 TaskFailed of #1 TestError no luck\n", next_fresh(k));
    kit_free(k);

    k = kit_with_task(1);
    struct input in = {.kind = INPUT_WORKER_TASK_DONE};
    in.done.has_ref = true;
    in.done.ref = kit_must(kit_take_task(k, "t"))->ref;
    in.done.result = maybe_text("both");
    in.done.failure = maybe_some(BYTES_LITERAL("\x0a\x01"
                                               "F\x12\x01"
                                               "f"));
    kit_step(k, 0, &in);
    EXPECT_TEXT("1 OrchestratorStarted\n2 TaskFailed of #1 F f\n", next_fresh(k));
    kit_free(k);
}

/* The second answer of a worker, with or without token, changes nothing. S6 */
TEST(a_second_answer_is_dropped)
{
    struct kit *k = kit_with_task(1);
    const struct effect_work *task = kit_must(kit_take_task(k, "t"));
    kit_task_done(k, task, "one");
    EXPECT_STATUS(OK, kit_task_done(k, task, "two"));
    EXPECT_EQ(0, k->records_n);
    EXPECT_STATUS(OK, kit_task_done_plain(k, "hub/a", 1, "three"));
    EXPECT_EQ(0, k->records_n);
    EXPECT_EQ(2, core_stats(kit_core(k, "hub/a"))->stale_answers);
    EXPECT_EQ(1, core_stats(kit_core(k, "hub/a"))->tasks_done);
    kit_free(k);
}

/* Some SDKs try a step again under the id it had. The new one is its own: answers to the old one,
 * which has the same id and attempt, change nothing. S6 */
TEST(a_failed_step_may_be_scheduled_again_under_its_id)
{
    struct kit *k = kit_with_task(1);
    const struct effect_work *first = kit_must(kit_take_task(k, "t"));
    kit_task_failed(k, first, "no luck", false);
    KIT_TURN(k, "o", act_timer(2, 0));
    kit_tick_by(k, 1000);
    KIT_TURN(k, "o", act_task(1, "t", "arg"));
    EXPECT_TEXT("1 t PENDING 0\n", kit_tasks(k, "hub/a"));
    const struct effect_work *second = kit_must(kit_take_task(k, "t"));
    EXPECT_STATUS(OK, kit_task_done(k, first, "of the first"));
    EXPECT_EQ(0, k->records_n);
    kit_crash(k, 0);
    EXPECT_STATUS(OK, kit_task_done(k, first, "of the first"));
    EXPECT_EQ(0, k->records_n);
    EXPECT_STATUS(OK, kit_task_done(k, second, "res"));
    EXPECT_TEXT("1 OrchestratorStarted\n2 TaskCompleted of #1 res\n", next_fresh(k));
    kit_free(k);
}

/* An answer that the orchestrator has not been given yet keeps the id in use: in the history the
 * answer would stand behind the second step and be taken for its own. */
TEST(an_id_is_not_free_before_its_answer_is_read)
{
    struct kit *k = kit_with_task(1);
    kit_raise(k, "hub/a", "e", NULL);
    const struct effect_work *turn = kit_must(kit_take_turn(k, "o"));
    kit_task_failed(k, kit_must(kit_take_task(k, "t")), "no luck", false);
    KIT_ANSWER(k, turn, act_task(1, "t", "arg"));
    EXPECT_TEXT("FAILED", kit_status(k, "hub/a"));
    kit_free(k);
}

/* Workers that cannot echo tokens name instance and task; that counts for what is leased. */
TEST(answers_without_token_name_instance_and_task)
{
    struct kit *k = kit_with_task(3);
    EXPECT_STATUS(OK, kit_task_done_plain(k, "hub/a", 3, "early"));
    EXPECT_EQ(0, k->records_n); /* nobody has it yet */
    kit_must(kit_take_task(k, "t"));
    EXPECT_STATUS(OK, kit_task_done_plain(k, "hub/a", 4, "other"));
    EXPECT_EQ(0, k->records_n);
    EXPECT_STATUS(OK, kit_task_done_plain(k, "hub/none", 3, "other"));
    EXPECT_EQ(0, k->records_n);
    EXPECT_STATUS(OK, kit_task_done_plain(k, "hub/a", 3, "good"));
    EXPECT_TEXT("1 OrchestratorStarted\n2 TaskCompleted of #3 good\n", next_fresh(k));
    kit_free(k);
}

/* An answer to a dispatch of before the restart is good until the task was given to somebody else.
 * S10 S11 */
TEST(answers_across_a_restart)
{
    struct kit *k = kit_with_task(1);
    const struct effect_work *task = kit_must(kit_take_task(k, "t"));
    kit_crash(k, 0);
    EXPECT_STATUS(OK, kit_task_done(k, task, "good"));
    EXPECT(kit_take_task(k, "t") == NULL);
    EXPECT_TEXT("1 OrchestratorStarted\n2 TaskCompleted of #1 good\n", next_fresh(k));
    kit_free(k);

    k = kit_with_task(1);
    task = kit_must(kit_take_task(k, "t"));
    kit_crash(k, 0);
    const struct effect_work *again = kit_must(kit_take_task(k, "t"));
    EXPECT_STATUS(OK, kit_task_done(k, task, "late"));
    EXPECT_EQ(0, k->records_n);
    EXPECT_STATUS(OK, kit_task_done(k, again, "good"));
    EXPECT_TEXT("1 OrchestratorStarted\n2 TaskCompleted of #1 good\n", next_fresh(k));
    kit_free(k);
}

/* A task that was begun when the orchestration completed may still run; nobody waits for its
 * answer, and the finished instance stays as it is. S18 */
TEST(tasks_of_a_finished_execution_are_detached)
{
    struct kit *k = kit_new(1, 1);
    kit_start(k, "hub/a", "o", NULL);
    KIT_TURN(k, "o", act_task(1, "t", "big"), act_task(2, "u", NULL), act_complete(3, "done"));
    EXPECT_TEXT("COMPLETED", kit_status(k, "hub/a"));
    const char *before = kit_history(k, "hub/a");
    EXPECT(!kit_evict(k, "hub/a")); /* there is work for workers */
    const struct effect_work *task = kit_must(kit_take_task(k, "t"));
    kit_crash(k, 0);
    EXPECT_STATUS(OK, kit_task_done(k, task, "x"));
    EXPECT_EQ(1, k->records_n);
    EXPECT_TEXT("2 u PENDING 0\n", kit_tasks(k, "hub/a"));
    kit_task_failed(k, kit_must(kit_take_task(k, "u")), "y", false);
    EXPECT_TEXT("", kit_tasks(k, "hub/a"));
    EXPECT_HISTORY(k, "hub/a", before);
    EXPECT(kit_evict(k, "hub/a"));
    kit_free(k);
}

/* The task of an older generation and one of the present with the same id are two tasks. S15 */
TEST(tasks_of_an_older_generation_are_detached)
{
    struct kit *k = kit_new(1, 1);
    kit_start(k, "hub/a", "o", NULL);
    KIT_TURN(k, "o", act_task(1, "t", "old"), act_continue(2, NULL));
    KIT_TURN(k, "o", act_task(1, "t", "new"));
    EXPECT_TEXT("1 t PENDING 0\n1 t PENDING 0\n", kit_tasks(k, "hub/a"));
    const struct effect_work *old = kit_must(kit_take_task(k, "t"));
    const struct effect_work *new = kit_must(kit_take_task(k, "t"));
    EXPECT(memcmp(old->ref.execution_id, new->ref.execution_id, EXECUTION_ID_SIZE) != 0);
    EXPECT_STATUS(OK, kit_task_done(k, old, "of the old"));
    EXPECT(kit_take_turn(k, "o") == NULL);
    EXPECT_STATUS(OK, kit_task_done(k, new, "of the new"));
    EXPECT_TEXT("1 OrchestratorStarted\n2 TaskCompleted of #1 of the new\n", next_fresh(k));
    kit_free(k);
}

/* Detached tasks, tried before or not, are the same after a reload, and stand in the same order.
 * D3 */
TEST(detached_tasks_survive_snapshot_and_order)
{
    struct kit *k = kit_new(1, 1);
    kit_start(k, "hub/a", "o", NULL);
    KIT_TURN(k, "o", act_task(1, "t", "1"), act_task(2, "t", "2"), act_continue(3, NULL));
    KIT_TURN(k, "o", act_task(1, "t", "3"), act_task(2, "t", "4"));
    for (int n = 0; n < 4; n++) kit_abandon(k, kit_must(kit_take_task(k, "t")), "no");
    EXPECT_TEXT("1 t WAITING 1\n2 t WAITING 1\n1 t WAITING 1\n2 t WAITING 1\n",
                kit_tasks(k, "hub/a"));
    kit_raise(k, "hub/a", "e", NULL);
    KIT_TURN(k, "o", act_continue(3, NULL));
    EXPECT_TEXT("1 t WAITING 1\n2 t WAITING 1\n1 t WAITING 1\n2 t WAITING 1\n",
                kit_tasks(k, "hub/a"));
    kit_crash(k, 0);
    kit_tick_by(k, 200);
    EXPECT_TEXT("1 t PENDING 1\n2 t PENDING 1\n1 t PENDING 1\n2 t PENDING 1\n",
                kit_tasks(k, "hub/a"));
    kit_free(k);
}

/* Given back twenty times without an answer, the step fails with the count and the last reason.
 * S6 */
TEST(a_task_that_nobody_answers_fails_after_twenty_attempts)
{
    struct kit *k = kit_with_task(1);
    for (int n = 1; n <= 20; n++) {
        test_note("attempt %d", n);
        const struct effect_work *task = kit_must(kit_take_task(k, "t"));
        EXPECT_EQ(n - 1, task->ref.attempt);
        EXPECT_STATUS(OK, kit_abandon(k, task, n == 20 ? NULL : "refused"));
        EXPECT_STATUS(OK, kit_task_done(k, task, "too late")); /* fenced at once */
        if (n < 20) EXPECT(kit_take_task(k, "t") == NULL);
        if (n == 10) kit_crash(k, 0);
        kit_tick_by(k, 60000);
    }
    EXPECT_TEXT("1 OrchestratorStarted\n"
                "2 TaskFailed of #1 TaskAbandoned given up after 20 attempts: the worker was lost "
                "(final)\n",
                next_fresh(k));
    kit_free(k);
}

/* Back-off doubles from 200 ms up to a minute. S16 */
TEST(the_back_off_of_a_task_doubles)
{
    struct kit *k = kit_with_task(1);
    int64_t delay_ms = 200;
    for (int n = 0; n < 12; n++) {
        kit_abandon(k, kit_must(kit_take_task(k, "t")), "no");
        EXPECT_EQ(kit_now_ms(k) + delay_ms, core_wake_at_ms(kit_core(k, "hub/a")));
        kit_tick_by(k, delay_ms - 1);
        EXPECT(kit_take_task(k, "t") == NULL);
        kit_tick_by(k, 1);
        delay_ms = delay_ms * 2 < 60000 ? delay_ms * 2 : 60000;
    }
    kit_free(k);
}

/* Work that never reached its worker is as if it had not been taken. */
TEST(a_task_that_was_not_sent_is_offered_again_at_once)
{
    struct kit *k = kit_with_task(1);
    for (int n = 0; n < 30; n++) { /* more often than failures are allowed */
        const struct effect_work *task = kit_must(kit_take_task(k, "t"));
        EXPECT_EQ(0, task->ref.attempt);
        EXPECT_STATUS(OK, kit_return(k, task));
        EXPECT_EQ(0, k->records_n);
    }
    EXPECT_STATUS(OK, kit_task_done(k, kit_must(kit_take_task(k, "t")), "1"));
    EXPECT(k->records_n > 0);
    kit_free(k);
}

/* Abandoning what one does not have changes nothing. */
TEST(abandoning_twice_or_wrongly_is_harmless)
{
    struct kit *k = kit_with_task(1);
    const struct effect_work *task = kit_must(kit_take_task(k, "t"));
    kit_abandon(k, task, "no");
    EXPECT_STATUS(OK, kit_abandon(k, task, "no"));
    EXPECT_EQ(0, k->records_n);
    struct effect_work wrong = *task;
    wrong.ref.task_id = 9;
    EXPECT_STATUS(OK, kit_abandon(k, &wrong, "no"));
    wrong = *task;
    wrong.ref.key = BYTES_LITERAL("hub/none");
    EXPECT_STATUS(OK, kit_abandon(k, &wrong, "no"));
    EXPECT_EQ(0, k->records_n);
    kit_free(k);
}

/* Suspension holds the orchestrator, not its activities. */
TEST(tasks_go_on_while_suspended)
{
    struct kit *k = kit_with_task(1);
    kit_suspend(k, "hub/a", NULL);
    EXPECT_STATUS(OK, kit_task_done(k, kit_must(kit_take_task(k, "t")), "x"));
    EXPECT(kit_take_turn(k, "o") == NULL);
    kit_resume(k, "hub/a", NULL);
    EXPECT_TEXT("1 OrchestratorStarted\n2 TaskCompleted of #1 x\n3 ExecutionResumed\n",
                next_fresh(k));
    kit_free(k);
}

/* A result that is too large to store fails the step with the reason, and is not lost in
 * silence. */
TEST(a_result_beyond_the_limit_fails_the_step)
{
    struct kit *k = kit_with_task(1);
    k->is_thorough = false;
    size_t size = ((size_t)16 << 20) + 1;
    char *result = mem_take_zero(&k->mem, size);
    struct input in = {.kind = INPUT_WORKER_TASK_DONE};
    in.done.has_ref = true;
    in.done.ref = kit_must(kit_take_task(k, "t"))->ref;
    in.done.result = maybe_some(bytes_make(result, size));
    kit_step(k, 0, &in);
    EXPECT_TEXT("1 OrchestratorStarted\n"
                "2 TaskFailed of #1 ResultTooLarge the result is larger than 16 MiB (final)\n",
                next_fresh(k));
    mem_give(&k->mem, result, size);
    kit_free(k);
}

/* An activity without a version of its own is for workers of the orchestration's version. */
TEST(the_version_of_a_task_is_its_own_or_the_orchestrations)
{
    struct kit *k = kit_new(1, 1);
    struct input_start start = {
        .key = BYTES_LITERAL("hub/a"), .name = BYTES_LITERAL("o"), .version = maybe_text("7")};
    struct action own = act_task(2, "t", NULL);
    struct buffer queue;
    own.version = maybe_text("8");
    kit_start_with(k, start);
    KIT_TURN(k, "o", act_task(1, "t", NULL), own);
    buffer_init(&queue, &k->mem);
    for (const char *version = "7"; version != NULL; version = *version == '7' ? "8" : NULL) {
        buffer_clear(&queue);
        buffer_u8(&queue, WORK_TASK);
        buffer_bytes(&queue, BYTES_LITERAL("hub"));
        buffer_bytes(&queue, BYTES_LITERAL("t"));
        buffer_bytes(&queue, bytes_of_text(version));
        struct input in = {.kind = INPUT_WORKER_TAKE};
        in.take.kind = WORK_TASK;
        in.take.queue = buffer_view(&queue);
        kit_step(k, 0, &in);
        EXPECT_EQ(*version == '7' ? 1 : 2, kit_must(k->work)->ref.task_id);
        kit_step(k, 0, &in);
        EXPECT(k->work == NULL);
    }
    buffer_release(&queue);
    kit_free(k);
}
