/* SPDX-License-Identifier: Apache-2.0
 *
 * The Supervisor's ladder: complete-by, retries, the extended wait, the last resort, and what
 * becomes of late answers. S5 S6 S8 S13 S15
 */
#include "test/lib/partition.h"
#include "test/lib/test.h"

#define COMPLETE_BY_MS 10000

static struct policy ladder(enum last_resort resort)
{
    return (struct policy){
        .complete_by_ms = COMPLETE_BY_MS,
        .first_threshold = 2,
        .retry_delay_ms = 100,
        .retry_delay_max_ms = 1000,
        .second_threshold = 3,
        .extended_ms = 60000,
        .last_resort = resort,
        .retries_failures = true,
    };
}

static struct kit *kit_with_step(struct policy policy)
{
    struct kit *k = kit_new(1, 1);
    kit_policy(k, "t", policy);
    kit_start(k, "hub/a", "o", NULL);
    KIT_TURN(k, "o", act_task(1, "t", "arg"));
    return k;
}

static const char *next_fresh(struct kit *k)
{
    return kit_fresh(k, kit_must(kit_take_turn(k, "o")));
}

static uint64_t late_n(struct kit *k) { return core_stats(kit_core(k, "hub/a"))->late_answers; }

/* A worker is told by when to answer, and everybody can see it. S5 S8 */
TEST(a_step_has_a_complete_by_time)
{
    struct kit *k = kit_with_step(ladder(RESORT_FAIL));
    const struct effect_work *task = kit_must(kit_take_task(k, "t"));
    EXPECT_EQ(kit_now_ms(k) + COMPLETE_BY_MS, task->complete_by_ms);
    EXPECT_EQ(task->complete_by_ms, core_wake_at_ms(kit_core(k, "hub/a")));
    kit_tick_by(k, COMPLETE_BY_MS - 1);
    EXPECT_TEXT("1 t PROCESSING 0\n", kit_tasks(k, "hub/a"));
    EXPECT_STATUS(OK, kit_task_done(k, task, "in time"));
    kit_tick_by(k, COMPLETE_BY_MS);
    EXPECT_TEXT("1 OrchestratorStarted\n2 TaskCompleted of #1 in time\n", next_fresh(k));
    kit_free(k);
}

/* Down the whole ladder: again, again with twice the delay, again after the extended wait, given
 * up. S6 S15 */
TEST(the_ladder_ends_in_failure)
{
    struct kit *k = kit_with_step(ladder(RESORT_FAIL));
    const int64_t waits_ms[] = {100, 200, 60000};
    for (int n = 0; n < 4; n++) {
        const struct effect_work *task = kit_must(kit_take_task(k, "t"));
        EXPECT_EQ(n, task->ref.attempt);
        if (n == 2) { /* the lease is volatile, the count is not */
            kit_crash(k, 0);
            kit_tick_by(k, 0);
            EXPECT_EQ(n, kit_must(kit_take_task(k, "t"))->ref.attempt);
        }
        kit_tick_by(k, COMPLETE_BY_MS);
        if (n == 3) break;
        EXPECT(kit_take_task(k, "t") == NULL);
        EXPECT_EQ(kit_now_ms(k) + waits_ms[n], core_wake_at_ms(kit_core(k, "hub/a")));
        kit_tick_by(k, waits_ms[n] - 1);
        EXPECT(kit_take_task(k, "t") == NULL);
        kit_tick_by(k, 1);
    }
    EXPECT_TEXT("1 OrchestratorStarted\n2 TaskFailed of #1 CompleteByExceeded given up after 4 "
                "attempts: no answer before the complete-by time (final)\n",
                next_fresh(k));
    kit_free(k);
}

/* Or in a parked step with an alert; the operator resubmits it and it is tried once more. Failures
 * are never forgotten: the count also tells dispatches apart, and a worker of an earlier one must
 * not be believed. S13 S20 */
TEST(the_ladder_ends_with_an_operator)
{
    struct kit *k = kit_with_step(ladder(RESORT_PARK));
    const struct effect_work *first = NULL;
    for (int n = 0; n < 4; n++) {
        EXPECT_EQ(0, k->alerts.len);
        const struct effect_work *dispatch = kit_must(kit_take_task(k, "t"));
        if (n == 0) first = dispatch;
        kit_tick_by(k, COMPLETE_BY_MS);
        kit_tick_by(k, 60000);
    }
    EXPECT_TEXT(
        "hub/a step 1 waits for an operator after 4 failures: no answer before the complete-by "
        "time\n",
        kit_bytes(k, buffer_view(&k->alerts)));
    EXPECT_EQ(1, core_stats(kit_core(k, "hub/a"))->alerts);
    EXPECT_TEXT("1 t ERROR 4\n", kit_tasks(k, "hub/a"));
    EXPECT_TEXT(
        "RUNNING: step 1 waits for an operator: no answer before the complete-by time; resubmit "
        "it when the cause is mended",
        kit_why(k, "hub/a"));
    EXPECT(kit_take_task(k, "t") == NULL);
    EXPECT(!kit_evict(k, "hub/a")); /* it stays, to be found */
    EXPECT_TEXT("1 t ERROR 4\n", kit_tasks(k, "hub/a"));
    EXPECT_STATUS(OK, kit_resubmit(k, "hub/a", 1));
    const struct effect_work *task = kit_must(kit_take_task(k, "t"));
    EXPECT_EQ(4, task->ref.attempt);
    kit_task_done(k, first, "stale");
    EXPECT(kit_take_turn(k, "o") == NULL);
    EXPECT_STATUS(E_PRECONDITION, kit_resubmit(k, "hub/a", 1)); /* it does not wait now */
    EXPECT_STATUS(E_PRECONDITION, kit_resubmit(k, "hub/a", 2));
    kit_task_done(k, task, "mended");
    EXPECT_TEXT("1 OrchestratorStarted\n2 TaskCompleted of #1 mended\n", next_fresh(k));
    kit_free(k);
}

/* An operator need not wait for the extended period. */
TEST(a_waiting_step_can_be_resubmitted)
{
    struct kit *k = kit_with_step(ladder(RESORT_FAIL));
    kit_abandon(k, kit_must(kit_take_task(k, "t")), "no");
    EXPECT_TEXT("1 t WAITING 1\n", kit_tasks(k, "hub/a"));
    EXPECT_STATUS(OK, kit_resubmit(k, "hub/a", 1));
    EXPECT(kit_take_task(k, "t") != NULL);
    EXPECT_EQ(0, core_wake_at_ms(kit_core(k, "hub/a")) < kit_now_ms(k));
    kit_free(k);
}

/* Failures that a worker reports go down the ladder when the policy says so. I9 */
TEST(reported_failures_are_retried)
{
    struct kit *k = kit_with_step(ladder(RESORT_FAIL));
    for (int n = 0; n < 3; n++) {
        kit_task_failed(k, kit_must(kit_take_task(k, "t")), "busy", false);
        EXPECT(kit_take_turn(k, "o") == NULL);
        kit_tick_by(k, 60000);
    }
    kit_task_failed(k, kit_must(kit_take_task(k, "t")), "still busy", false);
    EXPECT_TEXT("1 OrchestratorStarted\n"
                "2 TaskFailed of #1 StepFailed given up after 4 attempts: still busy (final)\n",
                next_fresh(k));
    kit_free(k);
}

/* What a worker calls final is not repeated: it fails, or waits for the operator, at once. S13 */
TEST(final_failures_are_not_retried)
{
    struct kit *k = kit_with_step(ladder(RESORT_FAIL));
    kit_task_failed(k, kit_must(kit_take_task(k, "t")), "bad request", true);
    EXPECT_TEXT("1 OrchestratorStarted\n"
                "2 TaskFailed of #1 StepFailed given up after 1 attempts: bad request (final)\n",
                next_fresh(k));
    kit_free(k);
    k = kit_with_step(ladder(RESORT_PARK));
    kit_task_failed(k, kit_must(kit_take_task(k, "t")), "bad request", true);
    EXPECT_TEXT("1 t ERROR 1\n", kit_tasks(k, "hub/a"));
    EXPECT(k->alerts.len > 0);
    kit_free(k);
}

/* Exactly one of Supervisor and worker wins, whichever comes first. S15 S20 */
TEST(supervisor_and_worker_do_not_both_win)
{
    struct kit *k = kit_with_step(ladder(RESORT_FAIL));
    const struct effect_work *task = kit_must(kit_take_task(k, "t"));
    kit_tick_to(k, task->complete_by_ms - 1);
    kit_task_done(k, task, "worker"); /* first */
    kit_tick_to(k, task->complete_by_ms);
    EXPECT_TEXT("1 OrchestratorStarted\n2 TaskCompleted of #1 worker\n", next_fresh(k));
    kit_free(k);

    k = kit_with_step(ladder(RESORT_FAIL));
    task = kit_must(kit_take_task(k, "t"));
    kit_tick_to(k, task->complete_by_ms); /* the Supervisor was first */
    EXPECT_STATUS(OK, kit_task_done(k, task, "worker"));
    EXPECT_TEXT("1 t WAITING 1\n", kit_tasks(k, "hub/a"));
    EXPECT(kit_take_turn(k, "o") == NULL);
    kit_free(k);
}

/* A late answer is not applied, but recorded: somebody may have to undo what it did. S5 S21 */
TEST(a_late_answer_is_recorded)
{
    struct kit *k = kit_with_step(ladder(RESORT_FAIL));
    const struct effect_work *task = kit_must(kit_take_task(k, "t"));
    kit_tick_to(k, task->complete_by_ms);
    EXPECT_STATUS(OK, kit_task_done(k, task, "too late"));
    EXPECT_EQ(1, k->records_n);
    EXPECT_EQ(1, late_n(k));
    EXPECT_STATUS(OK, kit_task_done(k, task, "too late")); /* the same again says nothing new */
    EXPECT_EQ(0, k->records_n);
    kit_tick_by(k, 100);
    EXPECT_STATUS(OK, kit_task_done(k, kit_must(kit_take_task(k, "t")), "in time"));
    EXPECT_TEXT("1 OrchestratorStarted\n2 TaskCompleted of #1 in time\n", next_fresh(k));
    kit_crash(k, 0);
    kit_free(k);
}

/* The late success of a step that was given up is recorded too, also when the orchestration has
 * already ended because of it. S5 S21 */
TEST(a_late_answer_to_a_step_that_was_given_up_is_recorded)
{
    for (int is_ended = 0; is_ended < 2; is_ended++) {
        struct policy policy = ladder(RESORT_FAIL);
        policy.first_threshold = 0;
        policy.second_threshold = 0;
        struct kit *k = kit_with_step(policy);
        const struct effect_work *task = kit_must(kit_take_task(k, "t"));
        kit_tick_to(k, task->complete_by_ms);
        const struct effect_work *turn = kit_must(kit_take_turn(k, "o"));
        if (is_ended) KIT_ANSWER(k, turn, act_fail(2, "t was late"));
        struct instance_view before, after;
        EXPECT(core_view(kit_core(k, "hub/a"), BYTES_LITERAL("hub/a"), &before));
        kit_tick_by(k, 5000);
        EXPECT_STATUS(OK, kit_task_done(k, task, "done after all"));
        EXPECT(core_view(kit_core(k, "hub/a"), BYTES_LITERAL("hub/a"), &after));
        EXPECT_EQ(is_ended, after.updated_ns == before.updated_ns); /* who has ended stays so, A5 */
        EXPECT_EQ(1, k->records_n);
        EXPECT_EQ(1, late_n(k));
        EXPECT_TEXT(is_ended ? "FAILED" : "RUNNING", kit_status(k, "hub/a"));
        kit_free(k);
    }
}

/* Only as many late answers are kept as the limit says. */
TEST(late_answers_are_bounded)
{
    struct policy policy = ladder(RESORT_FAIL);
    policy.first_threshold = 40;
    policy.second_threshold = 40;
    struct kit *k = kit_with_step(policy);
    for (uint64_t n = 1; n <= 30; n++) {
        const struct effect_work *task = kit_must(kit_take_task(k, "t"));
        kit_tick_to(k, task->complete_by_ms);
        kit_task_done(k, task, "late");
        EXPECT_EQ(n, late_n(k));
        kit_tick_by(k, 1000);
    }
    kit_free(k);
}

/* A heartbeat moves the complete-by time; a worker that has lost its lease is told. S6 */
TEST(a_heartbeat_renews_the_lease)
{
    struct kit *k = kit_with_step(ladder(RESORT_FAIL));
    const struct effect_work *task = kit_must(kit_take_task(k, "t"));
    kit_tick_by(k, COMPLETE_BY_MS - 1);
    EXPECT_STATUS(OK, kit_renew(k, task, 5000));
    EXPECT_EQ(kit_now_ms(k) + 5000, core_wake_at_ms(kit_core(k, "hub/a")));
    kit_tick_by(k, 4999);
    EXPECT_TEXT("1 t PROCESSING 0\n", kit_tasks(k, "hub/a"));
    kit_tick_by(k, 1);
    EXPECT_TEXT("1 t WAITING 1\n", kit_tasks(k, "hub/a"));
    EXPECT_STATUS(E_STALE, kit_renew(k, task, 5000));
    kit_free(k);
}

/* Renewing what has no complete-by time is good, what one does not have is not. */
TEST(renewing_without_complete_by)
{
    struct kit *k = kit_new(1, 1);
    kit_start(k, "hub/a", "o", NULL);
    KIT_TURN(k, "o", act_task(1, "plain", NULL));
    const struct effect_work *task = kit_must(kit_take_task(k, "plain"));
    EXPECT_STATUS(OK, kit_renew(k, task, 1000));
    EXPECT_EQ(INT64_MAX, core_wake_at_ms(kit_core(k, "hub/a")));
    struct effect_work other = *task;
    other.ref.task_id = 5;
    EXPECT_STATUS(E_STALE, kit_renew(k, &other, 1000));
    other.ref.key = BYTES_LITERAL("hub/none");
    EXPECT_STATUS(E_STALE, kit_renew(k, &other, 1000));
    other = *task;
    other.ref.kind = WORK_TURN;
    EXPECT_STATUS(E_STALE, kit_renew(k, &other, 1000));
    kit_free(k);
}

/* Reasons are cut to their limit, but never inside a character: they end up in protocol strings,
 * which every SDK refuses to read when they are not UTF-8. */
TEST(reasons_stay_utf8_when_they_are_cut)
{
    for (size_t shift = 0; shift < 3; shift++) {
        char message[90];
        struct policy policy = ladder(RESORT_FAIL);
        struct kit *k = kit_with_step(policy);
        struct buffer failure;
        memset(message, 'x', shift);
        message[shift] = '\0';
        buffer_init(&failure, &k->mem);
        buffer_append_bytes(&failure, bytes_of_text(message));
        for (int n = 0; n < 200; n++) buffer_append(&failure, "\xe2\x82\xac", 3);
        buffer_u8(&failure, 0);
        kit_task_failed(k, kit_must(kit_take_task(k, "t")), (const char *)failure.ptr, true);
        const struct effect_work *turn = kit_must(kit_take_turn(k, "o"));
        EXPECT(bytes_is_utf8(bytes_of_text(kit_fresh(k, turn))));
        EXPECT(strlen(kit_fresh(k, turn)) > 250);
        buffer_release(&failure);
        kit_free(k);
    }
}

/* A detached step is given up without telling anybody: there is nobody to tell. */
TEST(detached_steps_are_given_up_silently)
{
    struct policy policy = ladder(RESORT_PARK);
    policy.first_threshold = 0;
    policy.second_threshold = 0;
    struct kit *k = kit_with_step(policy);
    kit_terminate(k, "hub/a", NULL, false);
    kit_start(k, "hub/a", "o", NULL);
    KIT_TURN(k, "o", act_task(1, "t", NULL), act_complete(2, "x"));
    kit_must(kit_take_task(k, "t"));
    kit_tick_by(k, COMPLETE_BY_MS);
    EXPECT_TEXT("", kit_tasks(k, "hub/a"));
    EXPECT_EQ(0, k->alerts.len);
    EXPECT(kit_evict(k, "hub/a"));
    kit_free(k);
}

/* ---- jitter ---- */

#define STEPS_N 40
static int64_t seen_at_ms[STEPS_N];
static uint32_t seen_n;

static enum status see_retry(void *user, const struct task_view *view)
{
    (void)user;
    EXPECT(seen_n < STEPS_N);
    EXPECT_EQ(TASK_WAITING, view->process);
    seen_at_ms[seen_n++] = view->retry_at_ms;
    return OK;
}

/* Steps that were lost together do not come back together, but around the time that the policy
 * says; when is decided once, whatever happens then. */
TEST(retries_come_apart)
{
    struct kit *k = kit_new(1, 7);
    struct action actions[STEPS_N];
    struct policy policy = ladder(RESORT_FAIL);
    int64_t decided_ms[STEPS_N];
    uint32_t same_n = 0;
    policy.retry_delay_ms = 1000;
    kit_policy(k, "t", policy);
    k->jitter_percent = 20;
    kit_crash(k, 0); /* a core that has it */
    kit_start(k, "hub/a", "o", NULL);
    for (int n = 0; n < STEPS_N; n++) actions[n] = act_task(n, "t", "arg");
    kit_answer(k, kit_must(kit_take_turn(k, "o")), actions, STEPS_N);
    for (int n = 0; n < STEPS_N; n++) kit_must(kit_take_task(k, "t"));
    kit_tick_by(k, COMPLETE_BY_MS); /* all of them in one step */

    seen_n = 0;
    EXPECT_STATUS(OK, core_tasks(kit_core(k, "hub/a"), BYTES_LITERAL("hub/a"), see_retry, NULL));
    EXPECT_EQ(STEPS_N, seen_n);
    for (int n = 0; n < STEPS_N; n++) {
        int64_t delay_ms = seen_at_ms[n] - kit_now_ms(k);
        EXPECT(delay_ms >= 800);
        EXPECT(delay_ms <= 1200);
        if (n > 0 && seen_at_ms[n] == seen_at_ms[n - 1]) same_n++;
        decided_ms[n] = seen_at_ms[n];
    }
    EXPECT(same_n < STEPS_N / 4);
    kit_crash(k, 0);
    seen_n = 0;
    EXPECT_STATUS(OK, core_tasks(kit_core(k, "hub/a"), BYTES_LITERAL("hub/a"), see_retry, NULL));
    EXPECT(memcmp(decided_ms, seen_at_ms, sizeof decided_ms) == 0);
    kit_free(k);
}

/* ---- parked by whoever gives the work ---- */

/* What no worker can do is not tried again: it waits for an operator at once, with the reason. */
TEST(a_step_that_cannot_be_done_is_parked)
{
    struct kit *k = kit_with_step(ladder(RESORT_FAIL));
    const struct effect_work *task = kit_must(kit_take_task(k, "t"));
    EXPECT_STATUS(OK, kit_park(k, task, "its input is too large"));
    EXPECT_TEXT("hub/a step 1 waits for an operator after 1 failures: its input is too large\n",
                kit_bytes(k, buffer_view(&k->alerts)));
    EXPECT_TEXT("1 t ERROR 1\n", kit_tasks(k, "hub/a"));
    EXPECT(strstr(kit_why(k, "hub/a"), "its input is too large") != NULL);
    kit_crash(k, 0);
    kit_tick_by(k, 100 * COMPLETE_BY_MS);
    EXPECT(kit_take_task(k, "t") == NULL);
    EXPECT(strstr(kit_why(k, "hub/a"), "its input is too large") != NULL);

    EXPECT_STATUS(OK, kit_resubmit(k, "hub/a", 1));
    const struct effect_work *again = kit_must(kit_take_task(k, "t"));
    kit_park(k, task, "stale"); /* of the first dispatch: says nothing about this one */
    EXPECT_TEXT("1 t PROCESSING 1\n", kit_tasks(k, "hub/a"));
    EXPECT_STATUS(OK, kit_task_done(k, again, "ok"));
    EXPECT_TEXT("1 OrchestratorStarted\n2 TaskCompleted of #1 ok\n", next_fresh(k));
    kit_free(k);
}

/* The same dispatch, had it been made by the owner with this epoch. */
static const struct effect_work *work_as_of(struct kit *k, const struct effect_work *work,
                                            uint32_t epoch)
{
    struct effect_work *other = arena_alloc(&k->arena, sizeof *other);
    EXPECT(other != NULL);
    *other = *work;
    other->ref.epoch = epoch;
    return other;
}

/* The same for a turn: its instance is parked, and what comes meanwhile waits with it. */
TEST(a_turn_that_cannot_be_done_is_parked)
{
    struct kit *k = kit_new(1, 1);
    kit_start(k, "hub/a", "o", NULL);
    const struct effect_work *turn = kit_must(kit_take_turn(k, "o"));
    EXPECT_STATUS(E_PRECONDITION, kit_resubmit(k, "hub/a", 0)); /* nothing waits for an operator */
    EXPECT_STATUS(OK, kit_park(k, turn, "its events are too large"));
    EXPECT(strstr(kit_bytes(k, buffer_view(&k->alerts)), "its events are too large") != NULL);
    EXPECT(strstr(kit_why(k, "hub/a"), "parked: its events are too large") != NULL);
    kit_raise(k, "hub/a", "go", NULL);
    kit_tick_by(k, 100 * COMPLETE_BY_MS);
    EXPECT(kit_take_turn(k, "o") == NULL);
    EXPECT_STATUS(OK, KIT_ANSWER(k, turn, act_complete(0, "too late")));
    EXPECT_TEXT("PENDING", kit_status(k, "hub/a"));
    kit_crash(k, 0);
    kit_tick_by(k, 0);
    EXPECT(kit_take_turn(k, "o") == NULL);

    EXPECT_STATUS(OK, kit_resubmit(k, "hub/a", 0));
    const struct effect_work *again = kit_must(kit_take_turn(k, "o"));
    turn = work_as_of(k, turn, again->ref.epoch);
    EXPECT_STATUS(OK, KIT_ANSWER(k, turn, act_complete(0, "still too late")));
    EXPECT_TEXT("PENDING", kit_status(k, "hub/a"));
    EXPECT_STATUS(OK, KIT_ANSWER(k, again, act_complete(0, "done")));
    EXPECT_TEXT("COMPLETED", kit_status(k, "hub/a"));
    size_t alerts_len = k->alerts.len;
    kit_park(k, turn, "stale");
    EXPECT_EQ(alerts_len, k->alerts.len);
    kit_free(k);
}

/* A parked turn and a parked step of one instance: one resubmission of the step mends both. */
TEST(a_parked_instance_with_a_parked_step)
{
    struct kit *k = kit_with_step(ladder(RESORT_FAIL));
    kit_park(k, kit_must(kit_take_task(k, "t")), "cannot be sent");
    kit_raise(k, "hub/a", "go", NULL);
    kit_park(k, kit_must(kit_take_turn(k, "o")), "cannot be sent either");
    EXPECT_STATUS(OK, kit_resubmit(k, "hub/a", 1));
    EXPECT(kit_take_turn(k, "o") != NULL);
    EXPECT(kit_take_task(k, "t") != NULL);
    kit_free(k);
}

/* Nobody waits for a step of an ended execution: it is not parked, it is over. */
TEST(a_detached_step_is_not_parked)
{
    struct kit *k = kit_with_step(ladder(RESORT_PARK));
    const struct effect_work *task = kit_must(kit_take_task(k, "t"));
    kit_terminate(k, "hub/a", "stop", false);
    EXPECT_STATUS(OK, kit_park(k, task, "cannot be sent"));
    EXPECT_TEXT("", kit_tasks(k, "hub/a"));
    EXPECT_EQ(0, k->alerts.len);
    kit_free(k);
}

/* A worker that may vanish without a word gets a limit of its own, whatever the policy says. */
TEST(a_lease_is_a_limit_where_the_policy_has_none)
{
    struct kit *k = kit_with_step(policy_default);
    const struct effect_work *task = kit_must(kit_take_task(k, "t"));
    EXPECT_EQ(0, task->complete_by_ms);
    EXPECT_STATUS(OK, kit_renew(k, task, 1000)); /* nothing to extend */
    kit_tick_by(k, 5000);
    EXPECT_TEXT("1 t PROCESSING 0\n", kit_tasks(k, "hub/a"));
    EXPECT_STATUS(OK, kit_renew_limit(k, task, 1000));
    kit_tick_by(k, 999);
    EXPECT_STATUS(OK, kit_renew_limit(k, task, 1000)); /* it is alive */
    kit_tick_by(k, 999);
    EXPECT_TEXT("1 t PROCESSING 0\n", kit_tasks(k, "hub/a"));
    kit_tick_by(k, 1);
    EXPECT_TEXT("1 t WAITING 1\n", kit_tasks(k, "hub/a"));
    EXPECT_STATUS(E_STALE, kit_renew_limit(k, task, 1000));
    kit_free(k);
}

/* Who answers too late is told so, although nothing is wrong with the answer. */
TEST(late_workers_are_told)
{
    struct kit *k = kit_with_step(ladder(RESORT_FAIL));
    const struct effect_work *task = kit_must(kit_take_task(k, "t"));
    EXPECT_STATUS(OK, kit_abandon(k, task, "later"));
    EXPECT(!k->is_stale);
    EXPECT_STATUS(OK, kit_abandon(k, task, "again"));
    EXPECT(k->is_stale);
    EXPECT_STATUS(OK, kit_task_done(k, task, "after all"));
    EXPECT(k->is_stale);
    kit_tick_by(k, 1000);
    task = kit_must(kit_take_task(k, "t"));
    EXPECT_STATUS(OK, kit_task_done(k, task, "done"));
    EXPECT(!k->is_stale);
    EXPECT_STATUS(OK, kit_task_done(k, task, "done"));
    EXPECT(k->is_stale);
    kit_free(k);
}
