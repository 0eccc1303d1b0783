/* SPDX-License-Identifier: Apache-2.0
 *
 * Policies of the engine under the kit's clock: users see theirs at work in no time.
 */
#include "lib_world.h"

#include "norn_test.h"

#define HOUR_MS INT64_C(3600000)

static norn_status call_step(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                             void *user)
{
    (void)user;
    return norn_call(ctx, "Step", input, NULL, output);
}

static norn_test *open_test(const struct norn_policy *policy)
{
    norn_test *test = NULL;
    EXPECT_NORN(NORN_OK, norn_test_new(&test));
    EXPECT_NORN(NORN_OK, norn_orchestrator(norn_test_worker(test), "Main", NULL, call_step, NULL));
    EXPECT_NORN(NORN_OK, norn_test_policies(test, policy, 1));
    return test;
}

static norn_status keep_step(void *user, const struct norn_step *step)
{
    *(struct norn_step *)user = *step;
    return NORN_OK;
}

/* The only open step of the first instance, which must be so. */
static struct norn_step expect_step(norn_test *test, enum norn_process process, uint32_t failures)
{
    struct norn_step step = {.process = (enum norn_process)99};
    EXPECT_NORN(NORN_OK, norn_steps(norn_test_client(test), "test-1", keep_step, &step));
    EXPECT_EQ(process, step.process);
    EXPECT_EQ(failures, step.failures);
    return step;
}

static void expect_output(const char *output, const struct norn_info *info)
{
    EXPECT_EQ(NORN_COMPLETED, info->state);
    EXPECT_TEXT(output, info->output.ptr != NULL ? (const char *)info->output.ptr : "(none)");
}

static struct norn_policy ladder(void)
{
    struct norn_policy policy = NORN_POLICY;
    policy.activity = "step"; /* case does not count */
    policy.retries_failures = true;
    policy.first_threshold = 2;
    policy.retry_delay_ms = 1000;
    policy.second_threshold = 3;
    policy.extended_wait_ms = HOUR_MS;
    policy.last_resort = NORN_RESORT_PARK;
    return policy;
}

static const struct norn_test_reply fails_four_times[] = {
    {.failure_type = "Down"}, {.failure_type = "Down"}, {.failure_type = "Down"},
    {.failure_type = "Down"}, {.output = {"up", 2}},
};

static norn_status climb(norn_test *test, void *user)
{
    const struct norn_info *info = NULL;
    (void)user;
    EXPECT_NORN(NORN_OK, norn_test_activity(test, "Step", fails_four_times, 5));
    EXPECT_NORN(NORN_OK, norn_test_run(test, "Main", NORN_NONE, &info));
    struct norn_step step = expect_step(test, NORN_STEP_WAITING, 1);
    int64_t began_ms = step.retry_at_ms - 1000;
    EXPECT_NORN(NORN_OK, norn_test_skip(test, 998, &info));
    EXPECT_EQ(1, expect_step(test, NORN_STEP_WAITING, 1).failures);
    EXPECT_NORN(NORN_OK, norn_test_skip(test, 2, &info));
    step = expect_step(test, NORN_STEP_WAITING, 2);
    EXPECT(step.retry_at_ms >= began_ms + 1000 + 2000); /* the delay has doubled */
    EXPECT(step.retry_at_ms <= began_ms + 1000 + 2000 + 2);
    EXPECT_NORN(NORN_OK, norn_test_skip(test, 2000, &info));
    step = expect_step(test, NORN_STEP_WAITING, 3);
    EXPECT(step.retry_at_ms >= began_ms + 3000 + HOUR_MS); /* the extended wait */
    EXPECT_NORN(NORN_OK, norn_test_skip(test, HOUR_MS, &info));
    step = expect_step(test, NORN_STEP_ERROR, 4);
    EXPECT_EQ(0, step.locked_by);
    EXPECT_NORN(NORN_OK, norn_test_skip(test, 1000 * HOUR_MS, &info));
    EXPECT_EQ(NORN_RUNNING, info->state); /* nobody but an operator helps it on */
    norn_client *client = norn_test_client(test);
    EXPECT_NORN(NORN_OK, norn_control(client, info->id, NORN_RESUBMIT, NORN_NONE));
    EXPECT_NORN(NORN_OK, norn_test_skip(test, 0, &info));
    expect_output("up", info);
    EXPECT_TEXT("call Step\n", norn_test_calls(test)); /* it asked once */
    return NORN_OK;
}

/* Again at once, again later, then an operator: the whole ladder in a few steps of the clock. */
TEST(a_step_climbs_the_ladder_of_its_policy)
{
    struct norn_policy policy = ladder();
    norn_test *test = open_test(&policy);
    EXPECT_NORN(NORN_OK, climb(test, NULL));
    EXPECT_NORN(NORN_OK, norn_test_crash_everywhere(test, climb, NULL));
    norn_test_free(test);
}

/* The last resort of an engine that parks nothing is to tell the orchestrator. */
TEST(a_step_fails_after_its_last_attempt)
{
    struct norn_policy policy = ladder();
    const struct norn_info *info = NULL;
    policy.last_resort = NORN_RESORT_FAIL;
    norn_test *test = open_test(&policy);
    EXPECT_NORN(NORN_OK, norn_test_activity(test, "Step", fails_four_times, 5));
    EXPECT_NORN(NORN_OK, norn_test_run(test, "Main", NORN_NONE, &info));
    EXPECT_NORN(NORN_OK, norn_test_skip(test, 2 * HOUR_MS, &info));
    EXPECT_EQ(NORN_FAILED, info->state);
    EXPECT_TEXT("StepFailed", info->failure.type);
    EXPECT(strstr(info->failure.message, "4") != NULL); /* so often */
    norn_test_free(test);
}

static norn_status pay_and_fail(norn_context *ctx, struct norn_bytes input,
                                struct norn_bytes *output, void *user)
{
    (void)output, (void)user;
    norn_status status = norn_call(ctx, "Book", input, NULL, NULL);
    if (status == NORN_OK) status = norn_compensate(ctx, "Unbook", input, NULL);
    if (status == NORN_OK) status = norn_call(ctx, "Pay", input, NULL, NULL);
    if (status == NORN_OK) status = norn_compensate(ctx, "Step", input, NULL);
    return status == NORN_OK ? norn_fail(ctx, "SoldOut", "no room", true) : status;
}

/* What is left to undo is not given up: it waits for an operator, and then goes on. S11 */
TEST(an_undoing_that_keeps_failing_waits_for_an_operator)
{
    struct norn_policy policy = ladder();
    struct norn_test_reply ok = {.output = {"ok", 2}};
    const struct norn_info *info = NULL;
    norn_test *test = open_test(&policy);
    norn_worker *worker = norn_test_worker(test);
    EXPECT_NORN(NORN_OK, norn_orchestrator(worker, "Trip", NULL, pay_and_fail, NULL));
    EXPECT_NORN(NORN_OK, norn_test_activity(test, "Step", fails_four_times, 5));
    EXPECT_NORN(NORN_OK, norn_test_activity(test, "Book", &ok, 1));
    EXPECT_NORN(NORN_OK, norn_test_activity(test, "Unbook", &ok, 1));
    EXPECT_NORN(NORN_OK, norn_test_activity(test, "Pay", &ok, 1));
    EXPECT_NORN(NORN_OK, norn_test_run(test, "Trip", norn_text("7"), &info));
    EXPECT_NORN(NORN_OK, norn_test_skip(test, 2 * HOUR_MS, &info));
    EXPECT_EQ(NORN_RUNNING, info->state);
    (void)expect_step(test, NORN_STEP_ERROR, 4);
    EXPECT_TEXT("call Book 7\ncall Pay 7\ncall Step 7\n", norn_test_calls(test));
    norn_client *client = norn_test_client(test);
    EXPECT_NORN(NORN_OK, norn_control(client, info->id, NORN_RESUBMIT, NORN_NONE));
    EXPECT_NORN(NORN_OK, norn_test_skip(test, 0, &info));
    EXPECT_EQ(NORN_FAILED, info->state);
    EXPECT_TEXT("SoldOut", info->failure.type);
    EXPECT_TEXT("\"compensated\"", (const char *)info->custom_status.ptr);
    EXPECT_TEXT("call Book 7\ncall Pay 7\ncall Step 7\ncall Unbook 7\n", norn_test_calls(test));
    norn_test_free(test);
}

/* ---- complete-by ---- */

static norn_status say_attempt(norn_context *ctx, struct norn_bytes input,
                               struct norn_bytes *output, void *user)
{
    const int64_t *extend_ms = user;
    char *text = norn_alloc(ctx, 64);
    (void)input;
    if (text == NULL) return NORN_E_NOMEM;
    if (extend_ms != NULL) EXPECT_NORN(NORN_OK, norn_heartbeat(ctx, *extend_ms));
    snprintf(text, 64, "attempt %u", norn_here(ctx)->attempt);
    *output = norn_text(text);
    return NORN_OK;
}

static struct norn_policy five_seconds(void)
{
    struct norn_policy policy = NORN_POLICY; /* of all activities */
    policy.complete_by_ms = 5000;
    policy.retry_delay_ms = 1000;
    return policy;
}

/* A worker that says nothing loses the step when its time is over, and what it says later is not
 * heard. */
TEST(a_step_that_is_late_is_given_to_another)
{
    struct norn_policy policy = five_seconds();
    struct norn_test_reply replies[] = {{.output = {"late", 4}, .delay_ms = 5500},
                                        {.fn = say_attempt, .delay_ms = 1000}};
    const struct norn_info *info = NULL;
    norn_test *test = open_test(&policy);
    EXPECT_NORN(NORN_OK, norn_test_activity(test, "Step", replies, 2));
    EXPECT_NORN(NORN_OK, norn_test_run(test, "Main", NORN_NONE, &info));
    struct norn_step step = expect_step(test, NORN_STEP_PROCESSING, 0);
    EXPECT(step.locked_by > 0);
    EXPECT(step.complete_by_ms > 0);
    EXPECT_NORN(NORN_OK, norn_test_skip(test, 5100, &info));
    EXPECT_EQ(0, expect_step(test, NORN_STEP_WAITING, 1).locked_by);
    EXPECT_NORN(NORN_OK, norn_test_skip(test, 500, &info)); /* the late answer has come */
    EXPECT_EQ(0, expect_step(test, NORN_STEP_WAITING, 1).locked_by);
    EXPECT_NORN(NORN_OK, norn_test_skip(test, 2000, &info));
    expect_output("attempt 2", info);
    norn_test_free(test);
}

/* Who says that it is still at work keeps it. */
TEST(a_heartbeat_keeps_the_step)
{
    struct norn_policy policy = five_seconds();
    int64_t extend_ms = 60000;
    struct norn_test_reply reply = {.fn = say_attempt, .user = &extend_ms, .delay_ms = 50000};
    const struct norn_info *info = NULL;
    norn_test *test = open_test(&policy);
    EXPECT_NORN(NORN_OK, norn_test_activity(test, "Step", &reply, 1));
    EXPECT_NORN(NORN_OK, norn_test_run(test, "Main", NORN_NONE, &info));
    EXPECT_NORN(NORN_OK, norn_test_skip(test, 49000, &info));
    EXPECT_EQ(0, expect_step(test, NORN_STEP_PROCESSING, 0).failures);
    EXPECT_NORN(NORN_OK, norn_test_skip(test, 1000, &info));
    expect_output("attempt 1", info);
    norn_test_free(test);
}

/* ---- what is refused ---- */

/* Those that were good stay. */
TEST(a_policy_that_cannot_be_is_refused_with_a_sentence)
{
    struct norn_policy policy = ladder();
    const struct norn_info *info = NULL;
    norn_test *test = open_test(&policy);
    policy.second_threshold = 1; /* below the first */
    EXPECT_NORN(NORN_E_INVALID, norn_test_policies(test, &policy, 1));
    EXPECT(strstr(norn_test_error(test), "second_threshold") != NULL);
    EXPECT_NORN(NORN_E_INVALID, norn_test_policies(test, NULL, 1));
    EXPECT_NORN(NORN_E_INVALID, norn_test_policies(NULL, &policy, 1));
    EXPECT_NORN(NORN_OK, norn_test_activity(test, "Step", fails_four_times, 5));
    EXPECT_NORN(NORN_OK, norn_test_run(test, "Main", NORN_NONE, &info));
    (void)expect_step(test, NORN_STEP_WAITING, 1);
    EXPECT_NORN(NORN_OK, norn_test_policies(test, NULL, 0)); /* from now on none has one */
    EXPECT_NORN(NORN_OK, norn_test_skip(test, 1000, &info));
    EXPECT_EQ(NORN_FAILED, info->state);
    norn_test_free(test);
}

/* Times as good as for ever are no arithmetic trap. */
TEST(a_policy_may_wait_for_ever)
{
    struct norn_policy policy = ladder();
    struct norn_test_reply fails = {.failure_type = "Down"};
    const struct norn_info *info = NULL;
    policy.complete_by_ms = INT64_MAX;
    policy.retry_delay_ms = INT64_MAX;
    policy.retry_delay_max_ms = INT64_MAX;
    policy.extended_wait_ms = INT64_MAX;
    norn_test *test = open_test(&policy);
    EXPECT_NORN(NORN_OK, norn_test_activity(test, "Step", &fails, 1));
    EXPECT_NORN(NORN_OK, norn_test_run(test, "Main", NORN_NONE, &info));
    EXPECT_NORN(NORN_OK, norn_test_skip(test, 1000 * HOUR_MS, &info));
    (void)expect_step(test, NORN_STEP_WAITING, 1);
    norn_test_free(test);
}
