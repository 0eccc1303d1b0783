/* SPDX-License-Identifier: Apache-2.0
 *
 * The kit for users' tests: that it tells the truth about good orchestrators, and the truth about
 * broken ones.
 */
#include "lib/memory.h"
#include "lib_world.h"

#include "norn_test.h"

#include <fcntl.h>
#include <semaphore.h>
#include <unistd.h>

#define HOUR_MS INT64_C(3600000)
#define HISTORY_SIZE 20000

static norn_test *open_test(void)
{
    norn_test *test = NULL;
    EXPECT_NORN(NORN_OK, norn_test_new(&test));
    return test;
}

static void add(norn_test *test, const char *name, norn_orchestrator_fn *fn, void *user)
{
    EXPECT_NORN(NORN_OK, norn_orchestrator(norn_test_worker(test), name, NULL, fn, user));
}

static void answers(norn_test *test, const char *name, const char *output)
{
    struct norn_test_reply reply = {.output = norn_text(output)};
    EXPECT_NORN(NORN_OK, norn_test_activity(test, name, &reply, 1));
}

static void expect_output(const char *output, const struct norn_info *info)
{
    if (info->state != NORN_COMPLETED)
        test_fail(__FILE__, __LINE__, "state %d, %s: %s", (int)info->state, info->failure.type,
                  info->failure.message);
    EXPECT_TEXT(output, info->output.ptr != NULL ? (const char *)info->output.ptr : "(none)");
}

static void expect_part(const char *part, const char *whole)
{
    if (strstr(whole, part) == NULL)
        test_fail(__FILE__, __LINE__, "no \"%s\" in \"%s\"", part, whole);
}

/* ---- orchestrators ---- */

/* Two calls in a row; the answer of the last. */
static norn_status two_steps(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                             void *user)
{
    (void)user;
    norn_status status = norn_call(ctx, "First", input, NULL, output);
    return status == NORN_OK ? norn_call(ctx, "Second", *output, NULL, output) : status;
}

static norn_status with_retry(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                              void *user)
{
    struct norn_retry retry = NORN_RETRY;
    struct norn_call_options options = NORN_CALL_OPTIONS;
    (void)user;
    retry.attempts = 3;
    retry.first_delay_ms = 1000;
    retry.factor = 2;
    options.retry = &retry;
    return norn_call(ctx, "Flaky", input, &options, output);
}

static norn_status approval(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                            void *user)
{
    struct norn_bytes data = NORN_NONE;
    (void)input;
    (void)user;
    norn_status status = norn_wait_event(ctx, "approved", 24 * HOUR_MS, &data);
    if (status == NORN_E_TIMEOUT) {
        *output = norn_text("too late");
        return NORN_OK;
    }
    *output = data;
    return status;
}

static norn_status saga(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                        void *user)
{
    (void)user;
    norn_status status = norn_call(ctx, "BookHotel", input, NULL, NULL);
    if (status == NORN_OK) status = norn_compensate(ctx, "CancelHotel", input, NULL);
    if (status == NORN_OK) status = norn_call(ctx, "BookFlight", input, NULL, NULL);
    if (status == NORN_OK) status = norn_compensate(ctx, "CancelFlight", input, NULL);
    return status == NORN_OK ? norn_call(ctx, "Pay", input, NULL, output) : status;
}

/* The larger of an answer and an hour: who is first? */
static norn_status race(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                        void *user)
{
    norn_task *tasks[2];
    size_t first = 0;
    (void)user;
    norn_status status = norn_begin_call(ctx, NORN_ACTIVITY, "Slow", input, NULL, &tasks[0]);
    if (status == NORN_OK) status = norn_begin_timer(ctx, HOUR_MS, &tasks[1]);
    if (status == NORN_OK) status = norn_when_any(ctx, tasks, 2, &first);
    *output = norn_text(first == 0 ? "answer" : "timer");
    return status;
}

static norn_status parent(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                          void *user)
{
    (void)user;
    norn_status status = norn_call_child(ctx, "Child", input, NULL, output);
    if (status == NORN_OK) status = norn_send_event(ctx, "@Counter@a", "add", norn_text("5"));
    if (status == NORN_OK) {
        status = norn_lock(ctx, (const char *const[]){"@counter@a", "@counter@b", NULL});
    }
    if (status == NORN_OK) {
        status = norn_call_entity(ctx, "@counter@a", "get", NORN_NONE, output);
    }
    return status == NORN_OK ? norn_lock(ctx, NULL) : status;
}

static int64_t entity_now_ms;

static norn_status counter(norn_context *ctx, const char *operation, struct norn_bytes input,
                           struct norn_bytes *output, void *user)
{
    (void)user;
    entity_now_ms = norn_now(ctx);
    if (strcmp(operation, "add") == 0) return norn_set_state(ctx, input);
    *output = norn_here(ctx)->state;
    return NORN_OK;
}

/* Eternal: one look every minute, a new execution for each. */
static norn_status monitor(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                           void *user)
{
    (void)output;
    (void)user;
    norn_status status = norn_call(ctx, "Look", input, NULL, NULL);
    if (status == NORN_OK) status = norn_sleep(ctx, 60000);
    return status == NORN_OK ? norn_continue_as_new(ctx, norn_text("again")) : status;
}

/* ---- the engine under the test's clock ---- */

TEST(activities_answer_as_they_were_told_and_calls_are_listed)
{
    norn_test *test = open_test();
    const struct norn_info *info = NULL;
    add(test, "Two", two_steps, NULL);
    answers(test, "First", "one");
    answers(test, "Second", "two");
    EXPECT_NORN(NORN_OK, norn_test_run(test, "Two", norn_text("zero"), &info));
    EXPECT_TEXT("test-1", info->id);
    expect_output("two", info);
    EXPECT_TEXT("call First zero\ncall Second one\n", norn_test_calls(test));
    EXPECT_NORN(NORN_OK, norn_test_run(test, "Two", NORN_NONE, &info));
    EXPECT_TEXT("test-2", info->id);
    EXPECT_TEXT("call First zero\ncall Second one\ncall First\ncall Second one\n",
                norn_test_calls(test));
    norn_test_free(test);
}

/* Retries wait for their delays by the test's clock, not before and not after. */
TEST(a_failing_activity_is_tried_again_when_time_is_skipped)
{
    norn_test *test = open_test();
    const struct norn_info *info = NULL;
    struct norn_test_reply replies[] = {
        {.failure_type = "Busy", .failure_message = "no"},
        {.failure_type = "Busy"},
        {.output = norn_text("yes")},
    };
    add(test, "Retry", with_retry, NULL);
    EXPECT_NORN(NORN_OK, norn_test_activity(test, "Flaky", replies, 3));
    EXPECT_NORN(NORN_OK, norn_test_run(test, "Retry", norn_text("7"), &info));
    EXPECT_EQ(NORN_RUNNING, info->state);
    EXPECT_NORN(NORN_OK, norn_test_skip(test, 999, NULL));
    EXPECT_TEXT("call Flaky 7\ntimer 1000\n", norn_test_calls(test));
    EXPECT_NORN(NORN_OK, norn_test_skip(test, 1, NULL));
    EXPECT_TEXT("call Flaky 7\ntimer 1000\ncall Flaky 7\ntimer 2000\n", norn_test_calls(test));
    EXPECT_NORN(NORN_OK, norn_test_skip(test, 2000, &info));
    expect_output("yes", info);
    EXPECT_EQ(3000 + 2, info->updated_ms - info->created_ms);
    norn_test_free(test);
}

TEST(a_final_failure_is_not_tried_again)
{
    norn_test *test = open_test();
    const struct norn_info *info = NULL;
    struct norn_test_reply reply = {
        .failure_type = "Gone", .failure_message = "for good", .is_final = true};
    add(test, "Retry", with_retry, NULL);
    EXPECT_NORN(NORN_OK, norn_test_activity(test, "Flaky", &reply, 1));
    EXPECT_NORN(NORN_OK, norn_test_run(test, "Retry", NORN_NONE, &info));
    EXPECT_EQ(NORN_FAILED, info->state);
    EXPECT_TEXT("Gone", info->failure.type);
    EXPECT_TEXT("for good", info->failure.message);
    EXPECT_TEXT("call Flaky\n", norn_test_calls(test));
    norn_test_free(test);
}

TEST(an_event_or_its_time_out)
{
    norn_test *test = open_test();
    const struct norn_info *info = NULL;
    add(test, "Approval", approval, NULL);
    EXPECT_NORN(NORN_E_PRECONDITION, norn_test_raise(test, "approved", NORN_NONE, NULL));
    EXPECT_NORN(NORN_OK, norn_test_run(test, "Approval", NORN_NONE, &info));
    EXPECT_EQ(NORN_RUNNING, info->state);
    EXPECT_NORN(NORN_OK, norn_test_raise(test, "approved", norn_text("by me"), &info));
    expect_output("by me", info);
    EXPECT_NORN(NORN_OK, norn_test_run(test, "Approval", NORN_NONE, NULL));
    EXPECT_NORN(NORN_OK, norn_test_skip(test, 24 * HOUR_MS - 1, &info));
    EXPECT_EQ(NORN_RUNNING, info->state);
    EXPECT_NORN(NORN_OK, norn_test_skip(test, 1, &info));
    expect_output("too late", info);
    norn_test_free(test);
}

TEST(a_saga_undoes_in_reverse_order)
{
    norn_test *test = open_test();
    const struct norn_info *info = NULL;
    struct norn_test_reply declined = {.failure_type = "Declined", .is_final = true};
    add(test, "Saga", saga, NULL);
    answers(test, "BookHotel", NULL);
    answers(test, "BookFlight", NULL);
    answers(test, "CancelHotel", NULL);
    answers(test, "CancelFlight", NULL);
    EXPECT_NORN(NORN_OK, norn_test_activity(test, "Pay", &declined, 1));
    EXPECT_NORN(NORN_OK, norn_test_run(test, "Saga", norn_text("9"), &info));
    EXPECT_TEXT("Declined", info->failure.type);
    EXPECT_TEXT("call BookHotel 9\ncall BookFlight 9\ncall Pay 9\ncall CancelFlight 9\n"
                "call CancelHotel 9\n",
                norn_test_calls(test));
    norn_test_free(test);
}

/* An activity takes its time by the test's clock, or never answers. */
TEST(slow_and_silent_activities)
{
    norn_test *test = open_test();
    const struct norn_info *info = NULL;
    struct norn_test_reply replies[] = {{.delay_ms = HOUR_MS - 1}, {.delay_ms = -1}};
    add(test, "Race", race, NULL);
    EXPECT_NORN(NORN_OK, norn_test_activity(test, "Slow", replies, 2));
    EXPECT_NORN(NORN_OK, norn_test_run(test, "Race", NORN_NONE, NULL));
    EXPECT_NORN(NORN_OK, norn_test_skip(test, HOUR_MS - 2, &info));
    EXPECT_EQ(NORN_RUNNING, info->state);
    EXPECT_NORN(NORN_OK, norn_test_skip(test, 1, &info));
    expect_output("answer", info);
    EXPECT_NORN(NORN_OK, norn_test_run(test, "Race", NORN_NONE, NULL));
    EXPECT_NORN(NORN_OK, norn_test_skip(test, HOUR_MS, &info));
    expect_output("timer", info);
    norn_test_free(test);
}

/* Two at once; the answer of the one that is first. */
static norn_status first_of_two(norn_context *ctx, struct norn_bytes input,
                                struct norn_bytes *output, void *user)
{
    norn_task *tasks[2];
    size_t first = 0;
    (void)user;
    norn_status status = norn_begin_call(ctx, NORN_ACTIVITY, "Slow", input, NULL, &tasks[0]);
    if (status == NORN_OK) {
        status = norn_begin_call(ctx, NORN_ACTIVITY, "Slow", input, NULL, &tasks[1]);
    }
    if (status == NORN_OK) status = norn_when_any(ctx, tasks, 2, &first);
    return status == NORN_OK ? norn_await(ctx, tasks[first], output) : status;
}

TEST(the_quicker_of_two_activities_is_first)
{
    norn_test *test = open_test();
    const struct norn_info *info = NULL;
    struct norn_test_reply replies[] = {{.output = norn_text("slow"), .delay_ms = 2 * HOUR_MS},
                                        {.output = norn_text("quick"), .delay_ms = HOUR_MS}};
    add(test, "First", first_of_two, NULL);
    EXPECT_NORN(NORN_OK, norn_test_activity(test, "Slow", replies, 2));
    EXPECT_NORN(NORN_OK, norn_test_run(test, "First", NORN_NONE, NULL));
    EXPECT_NORN(NORN_OK, norn_test_skip(test, HOUR_MS - 1, &info));
    EXPECT_EQ(NORN_RUNNING, info->state);
    EXPECT_NORN(NORN_OK, norn_test_skip(test, 1, &info));
    expect_output("quick", info);
    EXPECT_NORN(NORN_OK, norn_test_skip(test, HOUR_MS, &info)); /* the other comes too late */
    expect_output("quick", info);
    norn_test_free(test);
}

TEST(children_and_entities_run_for_real)
{
    norn_test *test = open_test();
    const struct norn_info *info = NULL;
    struct norn_info *state = NULL;
    add(test, "Parent", parent, NULL);
    add(test, "Child", two_steps, NULL);
    EXPECT_NORN(NORN_OK, norn_entity_add(norn_test_worker(test), "Counter", counter, NULL));
    answers(test, "First", "1");
    answers(test, "Second", "2");
    EXPECT_NORN(NORN_OK, norn_test_run(test, "Parent", norn_text("x"), &info));
    expect_output("5", info);
    EXPECT_TEXT("child Child x\ncall First x\ncall Second 1\nsignal @Counter@a add 5\n"
                "lock @counter@a @counter@b\nask @counter@a get\nunlock @counter@a\n"
                "unlock @counter@b\n",
                norn_test_calls(test));
    EXPECT_NORN(NORN_OK, norn_get(norn_test_client(test), "@counter@a", 0, &state));
    EXPECT_TEXT("5", (const char *)state->output.ptr);
    EXPECT_EQ(info->created_ms, entity_now_ms);
    norn_info_free(state);
    norn_test_free(test);
}

TEST(an_eternal_orchestration_goes_round_as_often_as_its_time_allows)
{
    norn_test *test = open_test();
    const struct norn_info *info = NULL;
    add(test, "Monitor", monitor, NULL);
    answers(test, "Look", NULL);
    EXPECT_NORN(NORN_OK, norn_test_run(test, "Monitor", norn_text("first"), NULL));
    EXPECT_NORN(NORN_OK, norn_test_skip(test, 60000, NULL));
    EXPECT_NORN(NORN_OK, norn_test_skip(test, 60000, &info));
    EXPECT_EQ(NORN_RUNNING, info->state);
    EXPECT_TEXT("call Look first\ntimer 60000\ncontinue again\n"
                "call Look again\ntimer 60000\ncontinue again\ncall Look again\ntimer 60000\n",
                norn_test_calls(test));
    norn_test_free(test);
}

static norn_status restless(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                            void *user)
{
    (void)input;
    (void)output;
    (void)user;
    return norn_continue_as_new(ctx, NORN_NONE);
}

/* A test that hangs tells nothing. */
TEST(an_orchestration_that_never_rests_is_reported)
{
    norn_test *test = open_test();
    add(test, "Restless", restless, NULL);
    EXPECT_NORN(NORN_E_LIMIT, norn_test_run(test, "Restless", NORN_NONE, NULL));
    expect_part("does not come to rest", norn_test_error(test));
    norn_test_free(test);
}

TEST(what_nobody_has_is_reported_by_name)
{
    norn_test *test = open_test();
    add(test, "Two", two_steps, NULL);
    EXPECT_NORN(NORN_E_NOT_FOUND, norn_test_run(test, "Three", NORN_NONE, NULL));
    EXPECT_TEXT("orchestrator 'Three' is not registered", norn_test_error(test));
    EXPECT_NORN(NORN_E_NOT_FOUND, norn_test_run(test, "Two", NORN_NONE, NULL));
    expect_part("activity 'First' is not registered", norn_test_error(test));
    answers(test, "First", "1");
    answers(test, "Second", "2");
    EXPECT_NORN(NORN_OK, norn_test_run(test, "Two", NORN_NONE, NULL));
    EXPECT_TEXT("", norn_test_error(test));
    norn_test_free(test);
}

struct seen {
    norn_test *test;
    uint32_t attempts;
    int64_t now_ms;
    norn_status nested;
};

static norn_status look_around(norn_context *ctx, struct norn_bytes input,
                               struct norn_bytes *output, void *user)
{
    struct seen *seen = user;
    seen->attempts = norn_here(ctx)->attempt;
    seen->now_ms = norn_now(ctx);
    seen->nested = norn_test_skip(seen->test, 1, NULL);
    EXPECT_NORN(NORN_OK, norn_heartbeat(ctx, 1000));
    EXPECT_NORN(NORN_OK, norn_raise(norn_test_client(seen->test), "nobody", "e", NORN_NONE) ==
                                 NORN_E_NOT_FOUND
                             ? NORN_OK
                             : NORN_E_FAILED);
    *output = joined(ctx, "saw ", input);
    return NORN_OK;
}

/* A function can stand in for an activity, registered or not; the test itself is not for it. */
TEST(a_function_answers_for_an_activity)
{
    norn_test *test = open_test();
    const struct norn_info *info = NULL;
    struct seen seen = {.test = test};
    struct norn_test_reply replies[] = {{.failure_type = "Busy"},
                                        {.fn = look_around, .user = &seen}};
    add(test, "Retry", with_retry, NULL);
    EXPECT_NORN(NORN_OK, norn_activity_add(norn_test_worker(test), "Flaky", 0, look_around, NULL));
    EXPECT_NORN(NORN_OK, norn_test_activity(test, "Flaky", replies, 2));
    EXPECT_NORN(NORN_OK, norn_test_run(test, "Retry", norn_text("it"), NULL));
    EXPECT_NORN(NORN_OK, norn_test_skip(test, 1000, &info));
    expect_output("saw it", info);
    EXPECT_EQ(2, seen.attempts);
    EXPECT_EQ(1000 + 1, seen.now_ms - info->created_ms);
    EXPECT_EQ(NORN_E_PRECONDITION, seen.nested);
    norn_test_free(test);
}

static norn_status count_info(void *user, const struct norn_info *info)
{
    (void)info;
    ++*(int *)user;
    return NORN_OK;
}

/* All that a client can, on the test's engine. */
TEST(the_client_of_a_test_does_what_clients_do)
{
    norn_test *test = open_test();
    norn_client *client = norn_test_client(test);
    struct norn_query query = NORN_QUERY;
    struct norn_info *info = NULL;
    char id[NORN_ID_SIZE];
    int n = 0;
    add(test, "Approval", approval, NULL);
    EXPECT_NORN(NORN_OK, norn_start(client, "Approval", NORN_NONE, NULL, id));
    EXPECT_NORN(NORN_E_TIMEOUT, norn_get(client, id, HOUR_MS, NULL));
    EXPECT_NORN(NORN_OK, norn_control(client, id, NORN_SUSPEND, NORN_NONE));
    EXPECT_NORN(NORN_OK, norn_raise(client, id, "approved", norn_text("y")));
    EXPECT_NORN(NORN_OK, norn_get(client, id, 0, &info));
    EXPECT_EQ(NORN_SUSPENDED, info->state);
    norn_info_free(info);
    EXPECT_NORN(NORN_OK, norn_control(client, id, NORN_RESUME, NORN_NONE));
    EXPECT_NORN(NORN_OK, norn_get(client, id, 0, &info));
    expect_output("y", info);
    norn_info_free(info);
    EXPECT_NORN(NORN_OK, norn_start(client, "Approval", NORN_NONE, NULL, id));
    EXPECT_NORN(NORN_OK, norn_get(client, id, -1, &info)); /* a day, by the test's clock */
    expect_output("too late", info);
    norn_info_free(info);
    EXPECT_NORN(NORN_OK, norn_list(client, NULL, count_info, &n));
    EXPECT_EQ(2, n);
    query.states = 1u << NORN_RUNNING;
    EXPECT_NORN(NORN_OK, norn_list(client, &query, count_info, &n));
    EXPECT_EQ(2, n);
    EXPECT_NORN(NORN_OK, norn_control(client, id, NORN_PURGE, NORN_NONE));
    EXPECT_NORN(NORN_E_NOT_FOUND, norn_get(client, id, 0, &info));
    EXPECT_NORN(NORN_E_UNSUPPORTED, norn_worker_start(norn_test_worker(test)));
    norn_test_free(test);
}

/* ---- crashes ---- */

static norn_status run_order(norn_test *test, void *user)
{
    const char *name = user;
    const struct norn_info *info = NULL;
    norn_status status = norn_test_run(test, name, norn_text("1"), NULL);
    if (status == NORN_OK) status = norn_test_raise(test, "approved", norn_text("ok"), NULL);
    if (status == NORN_OK) status = norn_test_skip(test, 30 * 24 * HOUR_MS, &info);
    return status;
}

static void script_all(norn_test *test)
{
    static const char *const names[] = {"First",       "Second",       "BookHotel", "BookFlight",
                                        "CancelHotel", "CancelFlight", "Look"};
    struct norn_test_reply flaky[] = {{.failure_type = "Busy"}, {.output = norn_text("fine")}};
    struct norn_test_reply declined = {.failure_type = "Declined", .is_final = true};
    struct norn_test_reply slow = {.delay_ms = 2 * HOUR_MS};
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) answers(test, names[n], "1");
    EXPECT_NORN(NORN_OK, norn_test_activity(test, "Flaky", flaky, 2));
    EXPECT_NORN(NORN_OK, norn_test_activity(test, "Pay", &declined, 1));
    EXPECT_NORN(NORN_OK, norn_test_activity(test, "Slow", &slow, 1));
    add(test, "Child", two_steps, NULL);
    EXPECT_NORN(NORN_OK, norn_entity_add(norn_test_worker(test), "Counter", counter, NULL));
}

TEST(good_orchestrators_stand_a_crash_everywhere)
{
    static const struct {
        const char *name;
        norn_orchestrator_fn *fn;
    } good[] = {{"Two", two_steps}, {"Retry", with_retry}, {"Approval", approval},
                {"Saga", saga},     {"Race", race},        {"Parent", parent}};
    norn_test *test = open_test();
    script_all(test);
    for (size_t n = 0; n < sizeof good / sizeof *good; n++) {
        test_note("%s", good[n].name);
        add(test, good[n].name, good[n].fn, NULL);
        norn_status status =
            norn_test_crash_everywhere(test, run_order, (void *)(uintptr_t)good[n].name);
        if (status != NORN_OK) test_fail(__FILE__, __LINE__, "%s", norn_test_error(test));
    }
    norn_test_free(test);
}

/* Broken: what it calls depends on a variable that outlives a replay. */
static norn_status forgetful(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                             void *user)
{
    int *runs = user;
    bool is_first = (*runs)++ == 0;
    norn_status status = norn_call(ctx, "First", input, NULL, output);
    if (status == NORN_OK) status = norn_call(ctx, is_first ? "Second" : "Look", input, NULL, NULL);
    return status == NORN_OK ? norn_call(ctx, "Look", input, NULL, output) : status;
}

static norn_status run_forgetful(norn_test *test, void *user)
{
    *(int *)user = 0;
    return norn_test_run(test, "Forgetful", norn_text("1"), NULL);
}

TEST(an_orchestrator_that_depends_on_a_variable_is_found)
{
    norn_test *test = open_test();
    int runs = 0;
    script_all(test);
    add(test, "Forgetful", forgetful, &runs);
    EXPECT_NORN(NORN_E_FAILED, norn_test_crash_everywhere(test, run_forgetful, &runs));
    expect_part("after a crash before turn 2 of 4", norn_test_error(test));
    expect_part("call Second 1", norn_test_error(test));
    norn_test_free(test);
}

/* The same, found by the run time at the turn after: the decision is in the history already. */
static norn_status forgetful_late(norn_context *ctx, struct norn_bytes input,
                                  struct norn_bytes *output, void *user)
{
    int *runs = user;
    bool is_first = (*runs)++ == 0;
    norn_status status = norn_call(ctx, is_first ? "First" : "Second", input, NULL, output);
    return status == NORN_OK ? norn_call(ctx, "Look", input, NULL, output) : status;
}

TEST(a_difference_from_the_history_is_told_with_its_event)
{
    norn_test *test = open_test();
    int runs = 0;
    script_all(test);
    add(test, "Forgetful", forgetful_late, &runs);
    EXPECT_NORN(NORN_E_FAILED, norn_test_crash_everywhere(test, run_forgetful, &runs));
    expect_part("expected \"test-1 is COMPLETED 1\"", norn_test_error(test));
    expect_part("NonDeterminism: expected TaskScheduled 'First', got TaskScheduled 'Second', at "
                "event 3",
                norn_test_error(test));
    norn_test_free(test);
}

/* Only its result is different: the history has nothing of that. */
static norn_status counting(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                            void *user)
{
    int *runs = user;
    char *text = norn_alloc(ctx, 20);
    (*runs)++;
    norn_status status = norn_call(ctx, "First", input, NULL, NULL);
    if (text == NULL) return NORN_E_NOMEM;
    snprintf(text, 20, "%d", *runs);
    *output = norn_text(text);
    return status;
}

TEST(a_different_result_is_found)
{
    norn_test *test = open_test();
    int runs = 0;
    script_all(test);
    add(test, "Forgetful", counting, &runs);
    EXPECT_NORN(NORN_E_FAILED, norn_test_crash_everywhere(test, run_forgetful, &runs));
    EXPECT_TEXT("after a crash before turn 2 of 2: expected \"test-1 is COMPLETED 1\", got "
                "\"test-1 is COMPLETED 2\"",
                norn_test_error(test));
    norn_test_free(test);
}

static norn_status run_unreset(norn_test *test, void *user)
{
    (void)user;
    return norn_test_run(test, "Forgetful", norn_text("1"), NULL);
}

/* A scenario that does not begin anew itself must not be blamed on a crash. */
TEST(a_scenario_that_differs_by_itself_is_told_apart)
{
    norn_test *test = open_test();
    int runs = 0;
    script_all(test);
    add(test, "Forgetful", counting, &runs);
    EXPECT_NORN(NORN_E_FAILED, norn_test_crash_everywhere(test, run_unreset, NULL));
    expect_part("without any crash, the second time", norn_test_error(test));
    norn_test_free(test);
}

static norn_status fail_at_once(norn_test *test, void *user)
{
    (void)test;
    (void)user;
    return NORN_E_INVALID;
}

TEST(the_scenarios_own_failure_is_answered)
{
    norn_test *test = open_test();
    EXPECT_NORN(NORN_E_INVALID, norn_test_crash_everywhere(test, fail_at_once, NULL));
    norn_test_free(test);
}

/* ---- memory ---- */

static norn_status add_text(void *user, struct norn_bytes event)
{
    char *text = user;
    size_t len = strlen(text);
    snprintf(text + len, HISTORY_SIZE - len, "%.*s\n", (int)event.len, (const char *)event.ptr);
    return NORN_OK;
}

static norn_status whole_test(void)
{
    static char history[HISTORY_SIZE];
    norn_test *test = NULL;
    struct norn_test_reply reply = {.output = norn_text("1")};
    norn_status status = norn_test_new(&test);
    if (status != NORN_OK) return status;
    norn_worker *worker = norn_test_worker(test);
    status = norn_orchestrator(worker, "Parent", NULL, parent, NULL);
    if (status == NORN_OK) status = norn_orchestrator(worker, "Child", NULL, two_steps, NULL);
    if (status == NORN_OK) status = norn_entity_add(worker, "Counter", counter, NULL);
    if (status == NORN_OK) status = norn_test_activity(test, "First", &reply, 1);
    if (status == NORN_OK) status = norn_test_activity(test, "Second", &reply, 1);
    if (status == NORN_OK) status = norn_test_run(test, "Parent", NORN_NONE, NULL);
    history[0] = '\0';
    if (status == NORN_OK) {
        status = norn_history(norn_test_client(test), "test-1", add_text, history);
    }
    if (status == NORN_OK) status = norn_test_replay(test, norn_text(history));
    /* done without that memory, and not done by halves */
    if (status == NORN_OK) EXPECT(strstr(history, "ORCHESTRATION_STATUS_COMPLETED") != NULL);
    if (status == NORN_OK) expect_part("unlock @counter@b\n", norn_test_calls(test));
    norn_test_free(test);
    return status;
}

/* Some can be done without: then all is well. */
TEST(out_of_memory_at_any_allocation_is_a_status)
{
    bool has_failed = true;
    uint64_t n = 0;
    uint64_t nomem_n = 0;
    while (has_failed) {
        test_note("allocation %llu", (unsigned long long)++n);
        memory_fail_at = n;
        norn_status status = whole_test();
        has_failed = memory_fail_at == 0;
        memory_fail_at = 0;
        if (status != NORN_OK) EXPECT_NORN(NORN_E_NOMEM, status);
        if (!has_failed) EXPECT_NORN(NORN_OK, status);
        if (status == NORN_E_NOMEM) nomem_n++;
    }
    EXPECT(nomem_n > 100);
}

/* ---- threads ---- */

static pthread_t started_thread;
static sem_t thread_may_end;

static void *wait_for_end(void *user)
{
    (void)user;
    while (sem_wait(&thread_may_end) != 0) continue;
    return NULL;
}

static norn_status starts_thread(norn_context *ctx, struct norn_bytes input,
                                 struct norn_bytes *output, void *user)
{
    (void)ctx, (void)input, (void)output, (void)user;
    return pthread_create(&started_thread, NULL, wait_for_end, NULL) == 0 ? NORN_OK : NORN_E_FAILED;
}

/* What a run says to stderr. */
static void read_lines_of(norn_test *test, const char *name, char *lines, size_t size)
{
    char path[400];
    snprintf(path, sizeof path, "%s/lines", test_directory());
    int before = dup(STDERR_FILENO);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    EXPECT(before >= 0);
    EXPECT(fd >= 0);
    (void)dup2(fd, STDERR_FILENO);
    norn_status status = norn_test_run(test, name, NORN_NONE, NULL);
    (void)fflush(stderr);
    (void)dup2(before, STDERR_FILENO);
    close(before);
    ssize_t len = pread(fd, lines, size - 1, 0);
    close(fd);
    EXPECT_NORN(NORN_OK, status);
    lines[len > 0 ? len : 0] = '\0';
}

/* At replay it would be started again, and nobody would know which answer is whose. D10 */
TEST(a_thread_that_an_orchestrator_starts_is_reported)
{
    char lines[1000];
    norn_test *test = open_test();
    (void)sem_init(&thread_may_end, 0, 0);
    add(test, "Starter", starts_thread, NULL);
    add(test, "TwoSteps", two_steps, NULL);
    answers(test, "First", "1");
    answers(test, "Second", "2");
    read_lines_of(test, "TwoSteps", lines, sizeof lines);
    EXPECT_TEXT("", lines);
    read_lines_of(test, "Starter", lines, sizeof lines);
    expect_part("orchestrator 'Starter' started a thread", lines);
    (void)sem_post(&thread_may_end);
    EXPECT(pthread_join(started_thread, NULL) == 0);
    (void)sem_destroy(&thread_may_end);
    norn_test_free(test);
}
