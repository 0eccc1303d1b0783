/* SPDX-License-Identifier: Apache-2.0
 *
 * Policies of the engine inside, and what an operator sees of steps. With real time, because the
 * engine's clock is real; no wait is longer than it must be.
 */
#include "test/unit/lib_world.h"

#include <stdatomic.h>

static atomic_uint calls_n;
static atomic_bool is_mended;

static norn_status fail_until_mended(norn_context *ctx, struct norn_bytes input,
                                     struct norn_bytes *output, void *user)
{
    (void)input, (void)user;
    calls_n++;
    if (!is_mended) return norn_fail(ctx, "Down", "not now", false);
    char *text = norn_alloc(ctx, 20);
    if (text == NULL) return NORN_E_NOMEM;
    snprintf(text, 20, "attempt %u", norn_here(ctx)->attempt);
    *output = norn_text(text);
    return NORN_OK;
}

/* Silent at first: its answer comes when nobody waits for it any more. */
static norn_status answer_late_once(norn_context *ctx, struct norn_bytes input,
                                    struct norn_bytes *output, void *user)
{
    (void)input, (void)user;
    if (norn_here(ctx)->attempt == 1) nanosleep(&(struct timespec){.tv_nsec = 600000000}, NULL);
    *output = norn_text(norn_here(ctx)->attempt == 1 ? "late" : "in time");
    return NORN_OK;
}

static norn_status call_step(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                             void *user)
{
    (void)input, (void)user;
    return norn_call(ctx, "Step", NORN_NONE, NULL, output);
}

static norn_status keep_step(void *user, const struct norn_step *step)
{
    *(struct norn_step *)user = *step;
    return NORN_OK;
}

/* Until the only step of the instance is in that state. */
static struct norn_step wait_for_step(struct world *w, const char *id, enum norn_process process)
{
    struct norn_step step = {0};
    for (int n = 0; n < 2000; n++) {
        step = (struct norn_step){.process = (enum norn_process)99};
        EXPECT_NORN(NORN_OK, norn_steps(w->client, id, keep_step, &step));
        if (step.process == process) return step;
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    test_fail(__FILE__, __LINE__, "the step never came to state %d", (int)process);
    return step;
}

static struct norn_policy ladder(const char *activity)
{
    struct norn_policy policy = NORN_POLICY;
    policy.activity = activity;
    policy.retries_failures = true;
    policy.first_threshold = 2;
    policy.retry_delay_ms = 5;
    policy.second_threshold = 3;
    policy.extended_wait_ms = 20;
    policy.last_resort = NORN_RESORT_PARK;
    return policy;
}

static void open_with(struct world *w, const struct norn_policy *policies, size_t n,
                      norn_activity_fn *step)
{
    calls_n = 0;
    is_mended = false;
    world_open_with(w, policies, n);
    EXPECT_NORN(NORN_OK, norn_orchestrator(w->worker, "Main", NULL, call_step, NULL));
    EXPECT_NORN(NORN_OK, norn_activity_add(w->worker, "Step", 0, step, NULL));
    world_start(w);
}

/* Two quick repetitions, one after the extended wait, then an operator: and after the operator said
 * so it is tried again, its failures not forgotten. */
TEST(a_step_that_fails_waits_for_an_operator_in_the_end)
{
    struct norn_policy policies[] = {ladder("other"), ladder("STEP")}; /* case does not count */
    struct world w;
    open_with(&w, policies, 2, fail_until_mended);
    world_begin(&w, "Main", "i", NULL);
    struct norn_step step = wait_for_step(&w, "i", NORN_STEP_ERROR);
    EXPECT_EQ(4, step.failures);
    EXPECT_EQ(0, step.locked_by);
    EXPECT_EQ(4, calls_n);
    is_mended = true;
    EXPECT_NORN(NORN_OK, norn_control(w.client, "i", NORN_RESUBMIT, NORN_NONE));
    world_expect_output(&w, "i", "attempt 5");
    EXPECT_NORN(NORN_OK, norn_steps(w.client, "i", keep_step, &step)); /* none is open */
    EXPECT_NORN(NORN_E_NOT_FOUND, norn_steps(w.client, "nobody", keep_step, &step));
    world_close(&w);
}

/* What the worker holds is seen, and given to somebody when its time is over. */
TEST(a_step_that_is_late_is_tried_again)
{
    struct norn_policy policy = NORN_POLICY; /* of all activities */
    policy.complete_by_ms = 200;
    policy.retry_delay_ms = 1;
    struct world w;
    open_with(&w, &policy, 1, answer_late_once);
    world_begin(&w, "Main", "i", NULL);
    struct norn_step step = wait_for_step(&w, "i", NORN_STEP_PROCESSING);
    EXPECT(step.locked_by > 0);
    EXPECT(step.complete_by_ms > 0);
    EXPECT_EQ(0, step.failures);
    world_expect_output(&w, "i", "in time");
    world_close(&w);
}

/* Without a policy that says so, a failure of the activity is the orchestrator's business. */
TEST(a_failure_is_for_the_orchestrator_unless_a_policy_takes_it)
{
    struct norn_policy policy = ladder("other");
    struct world w;
    open_with(&w, &policy, 1, fail_until_mended);
    world_begin(&w, "Main", "i", NULL);
    struct norn_info *info = world_wait(&w, "i");
    EXPECT_EQ(NORN_FAILED, info->state);
    EXPECT_EQ(1, calls_n);
    norn_info_free(info);
    world_close(&w);
}

static void expect_refused(const struct norn_policy *policies, size_t n)
{
    struct norn_engine_options options = NORN_ENGINE_OPTIONS;
    norn_engine *engine = NULL;
    const char *why = "";
    char directory[300];
    snprintf(directory, sizeof directory, "%s/refused", test_directory());
    options.directory = directory;
    options.policies = policies;
    options.policies_n = n;
    EXPECT_NORN(NORN_E_INVALID, norn_engine_open(&options, &engine, &why));
    EXPECT(strstr(why, "the policies are not valid: ") != NULL);
}

TEST(policies_that_contradict_themselves_are_refused)
{
    struct norn_policy policies[2] = {ladder("a"), ladder("A")};
    expect_refused(policies, 2); /* two for one name */
    expect_refused(NULL, 1);
    policies[0].second_threshold = 1; /* below the first */
    expect_refused(policies, 1);
    policies[0] = ladder("a");
    policies[0].extended_wait_ms = -1;
    expect_refused(policies, 1);
    policies[0] = ladder("");
    expect_refused(policies, 1);
    policies[0] = ladder("a");
    policies[0].size = 0;
    expect_refused(policies, 1);
}
