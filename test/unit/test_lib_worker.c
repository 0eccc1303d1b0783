/* SPDX-License-Identifier: Apache-2.0
 *
 * Activities, their threads and limits; what a worker does when it goes; what a client sees.
 */
#include "lib_world.h"

#include "base/clock.h"
#include "lib/worker.h"

#include <stdatomic.h>

static _Atomic int running_n, running_max, done_n;
static atomic_bool is_held; /* slow ones do not end */

static norn_status slow(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                        void *user)
{
    int n = atomic_fetch_add(&running_n, 1) + 1;
    int max = atomic_load(&running_max);
    (void)ctx;
    (void)input;
    (void)user;
    while (n > max && !atomic_compare_exchange_weak(&running_max, &max, n)) continue;
    do world_pause();
    while (is_held);
    atomic_fetch_sub(&running_n, 1);
    atomic_fetch_add(&done_n, 1);
    *output = norn_text("slow");
    return NORN_OK;
}

static norn_status quick(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                         void *user)
{
    (void)ctx;
    (void)user;
    *output = input;
    return NORN_OK;
}

static norn_status twenty(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                          void *user)
{
    norn_task *tasks[20];
    (void)input;
    (void)output;
    for (int n = 0; n < 20; n++) {
        norn_status status =
            norn_begin_call(ctx, NORN_ACTIVITY, user, norn_text("x"), NULL, &tasks[n]);
        if (status != NORN_OK) return status;
    }
    return norn_when_all(ctx, tasks, 20);
}

static void begin(struct world *w, uint32_t threads, uint32_t concurrency)
{
    static char slow_name[] = "slow", quick_name[] = "quick";
    atomic_store(&running_max, 0);
    atomic_store(&done_n, 0);
    is_held = false;
    world_open(w);
    w->worker->threads_n = threads;
    EXPECT_NORN(NORN_OK, norn_orchestrator(w->worker, "slow", NULL, twenty, slow_name));
    EXPECT_NORN(NORN_OK, norn_orchestrator(w->worker, "quick", NULL, twenty, quick_name));
    EXPECT_NORN(NORN_OK, norn_activity_add(w->worker, "slow", concurrency, slow, NULL));
    EXPECT_NORN(NORN_OK, norn_activity_add(w->worker, "quick", 0, quick, NULL));
    world_start(w);
}

static void expect_done(struct world *w, const char *id)
{
    struct norn_info *info = world_wait(w, id);
    EXPECT_EQ(NORN_COMPLETED, info->state);
    norn_info_free(info);
}

TEST(an_activity_runs_no_more_often_at_once_than_it_may)
{
    struct world w;
    begin(&w, 6, 2);
    is_held = true;
    world_begin(&w, "slow", "s", NULL);
    world_begin(&w, "quick", "q", NULL);
    expect_done(&w, "q"); /* not behind the slow ones */
    EXPECT_EQ(0, done_n);
    is_held = false;
    expect_done(&w, "s");
    EXPECT_EQ(20, done_n);
    EXPECT_EQ(2, running_max);
    world_close(&w);
}

TEST(without_a_limit_all_threads_are_used)
{
    struct world w;
    begin(&w, 5, 0);
    is_held = true;
    world_begin(&w, "slow", "s", NULL);
    for (int n = 0; n < 4000 && running_max < 5; n++) world_pause();
    is_held = false;
    expect_done(&w, "s");
    EXPECT_EQ(5, running_max);
    world_close(&w);
}

/* Nothing is lost and nothing fails: the next worker goes on with it. */
TEST(a_worker_that_goes_gives_back_what_it_has_not_begun)
{
    struct world w;
    begin(&w, 2, 0);
    world_begin(&w, "slow", "s", NULL);
    world_begin(&w, "quick", "q", NULL);
    world_pause();
    world_close_worker(&w);
    EXPECT(atomic_load(&done_n) < 20);
    EXPECT_EQ(0, running_n); /* what ran was waited for */
    world_open_worker(&w);
    static char slow_name[] = "slow", quick_name[] = "quick";
    EXPECT_NORN(NORN_OK, norn_orchestrator(w.worker, "slow", NULL, twenty, slow_name));
    EXPECT_NORN(NORN_OK, norn_orchestrator(w.worker, "quick", NULL, twenty, quick_name));
    EXPECT_NORN(NORN_OK, norn_activity_add(w.worker, "slow", 0, slow, NULL));
    EXPECT_NORN(NORN_OK, norn_activity_add(w.worker, "quick", 0, quick, NULL));
    world_start(&w);
    expect_done(&w, "s");
    expect_done(&w, "q");
    EXPECT_EQ(20, done_n); /* none twice: it was given back before it began */
    world_close(&w);
}

/* Many at once, from several client threads, with fewer places for hot ones than instances: the
 * threads meet everywhere they can. */
static struct world *shared;
static void *start_many(void *user)
{
    const char *prefix = user;
    for (int n = 0; n < 40; n++) {
        char id[64];
        struct norn_start_options start = NORN_START_OPTIONS;
        snprintf(id, sizeof id, "%s-%d", prefix, n);
        start.id = id;
        if (norn_start(shared->client, "quick", NORN_NONE, &start, NULL) != NORN_OK) return user;
        if (n % 4 == 0 && norn_get(shared->client, id, WAIT_MS, NULL) != NORN_OK) return user;
    }
    return NULL;
}

TEST(many_threads_start_and_wait_at_once)
{
    static char names[4][8] = {"a", "b", "c", "d"};
    pthread_t threads[4];
    struct world w;
    begin(&w, 4, 0);
    shared = &w;
    for (int n = 0; n < 4; n++)
        EXPECT_EQ(0, pthread_create(&threads[n], NULL, start_many, names[n]));
    for (int n = 0; n < 4; n++) {
        void *failed;
        pthread_join(threads[n], &failed);
        EXPECT(failed == NULL);
    }
    for (int n = 0; n < 40; n++) {
        for (int i = 0; i < 4; i++) {
            char id[64];
            snprintf(id, sizeof id, "%s-%d", names[i], n);
            expect_done(&w, id);
        }
    }
    world_close(&w);
}

/* ---- what an activity is told ---- */

static norn_status beats(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                         void *user)
{
    const struct norn_here *here = norn_here(ctx);
    char text[200];
    (void)input;
    (void)user;
    if (norn_call(ctx, "x", NORN_NONE, NULL, NULL) != NORN_E_UNSUPPORTED) return NORN_E_INVALID;
    if (norn_here(ctx)->is_replaying) return NORN_E_INVALID;
    norn_log(ctx, "beating %d", 7);
    norn_status status = norn_heartbeat(ctx, 1000);
    snprintf(text, sizeof text, "%s %s %u %s", here->id, here->name, here->attempt,
             norn_status_text(status));
    *output = joined(ctx, text, NORN_NONE);
    return NORN_OK;
}

static norn_status once(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                        void *user)
{
    (void)input;
    (void)user;
    if (norn_heartbeat(ctx, 1) != NORN_E_UNSUPPORTED) return NORN_E_INVALID;
    if (norn_here(ctx)->stack_used_max < 100) return NORN_E_INVALID;
    if (norn_here(ctx)->stack_used_max > 64 << 10) return NORN_E_INVALID;
    return norn_call(ctx, "beats", NORN_NONE, NULL, output);
}

TEST(an_activity_knows_where_it_runs_and_can_ask_for_time)
{
    struct world w;
    world_open(&w);
    EXPECT_NORN(NORN_OK, norn_orchestrator(w.worker, "once", NULL, once, NULL));
    EXPECT_NORN(NORN_OK, norn_activity_add(w.worker, "beats", 0, beats, NULL));
    world_start(&w);
    world_begin(&w, "once", "i", NULL);
    world_expect_output(&w, "i", "i beats 1 NORN_OK: done");
    EXPECT(world_has_line(&w, "beating 7"));
    world_close(&w);
}

/* ---- open steps, embedded and of a server ---- */

static atomic_int beats_end; /* the status that ended it; -1: not yet */
static atomic_bool may_end;

/* Goes on until it may end, or nobody wants its answer any more. */
static norn_status beats_on(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                            void *user)
{
    norn_status status = NORN_OK;
    (void)input, (void)output, (void)user;
    while (status == NORN_OK && !may_end) {
        world_pause();
        status = norn_heartbeat(ctx, INT64_MAX);
    }
    beats_end = (int)status;
    return status;
}

static norn_status two_steps(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                             void *user)
{
    norn_task *tasks[2];
    (void)input, (void)output, (void)user;
    norn_status status =
        norn_begin_call(ctx, NORN_ACTIVITY, "beats_on", NORN_NONE, NULL, &tasks[0]);
    if (status == NORN_OK)
        status = norn_begin_call(ctx, NORN_ACTIVITY, "nobody's", NORN_NONE, NULL, &tasks[1]);
    return status == NORN_OK ? norn_when_all(ctx, tasks, 2) : status;
}

static void open_two_steps(struct world *w)
{
    world_open(w);
    beats_end = -1;
    may_end = false;
    EXPECT_NORN(NORN_OK, norn_orchestrator(w->worker, "two_steps", NULL, two_steps, NULL));
    EXPECT_NORN(NORN_OK, norn_activity_add(w->worker, "beats_on", 0, beats_on, NULL));
    world_start(w);
    world_begin(w, "two_steps", "i", NULL);
}

struct seen_steps {
    struct norn_step steps[2];
    char names[2][20];
    size_t n;
};

static norn_status see_step(void *user, const struct norn_step *step)
{
    struct seen_steps *seen = user;
    if (seen->n == 2) return NORN_E_LIMIT;
    seen->steps[seen->n] = *step;
    snprintf(seen->names[seen->n], sizeof seen->names[seen->n], "%s", step->name);
    seen->n++;
    return NORN_OK;
}

static norn_status see_no_more(void *user, const struct norn_step *step)
{
    (void)user, (void)step;
    return NORN_E_CANCELLED;
}

/* What waits and why is an operator's first question, wherever the engine is. */
TEST(an_operator_sees_open_steps)
{
    struct world w;
    struct seen_steps seen;
    open_two_steps(&w);
    do {
        world_pause();
        seen.n = 0;
        EXPECT_NORN(NORN_OK, norn_steps(w.client, "i", see_step, &seen));
    } while (seen.n == 0 || seen.steps[0].process == NORN_STEP_PENDING);
    EXPECT_EQ(2, seen.n);
    EXPECT_TEXT("beats_on", seen.names[0]);
    EXPECT_EQ(NORN_STEP_PROCESSING, seen.steps[0].process);
    EXPECT(seen.steps[0].locked_by > 0);
    EXPECT_EQ(0, seen.steps[0].complete_by_ms); /* no policy sets an end */
    EXPECT_EQ(0, seen.steps[0].failures);
    EXPECT_TEXT("nobody's", seen.names[1]);
    EXPECT_EQ(NORN_STEP_PENDING, seen.steps[1].process);
    EXPECT_EQ(0, seen.steps[1].locked_by);
    EXPECT_NORN(NORN_E_CANCELLED, norn_steps(w.client, "i", see_no_more, NULL));
    EXPECT_NORN(NORN_E_NOT_FOUND, norn_steps(w.client, "nobody", see_step, &seen));
    EXPECT_NORN(NORN_E_PRECONDITION, norn_control(w.client, "i", NORN_RESUBMIT, NORN_NONE));
    EXPECT(norn_client_error(w.client)[0] != '\0');
    EXPECT_NORN(NORN_E_NOT_FOUND, norn_control(w.client, "nobody", NORN_RESUBMIT, NORN_NONE));
    may_end = true;
    world_close(&w);
    EXPECT_EQ(NORN_OK, beats_end);
}

/* Work that nobody waits for any more ends early when it asks. */
TEST(an_activity_of_an_ended_instance_learns_it_by_its_heartbeat)
{
    struct world w;
    struct seen_steps seen = {0};
    open_two_steps(&w);
    while (seen.n == 0 || seen.steps[0].process == NORN_STEP_PENDING) {
        world_pause();
        seen.n = 0;
        EXPECT_NORN(NORN_OK, norn_steps(w.client, "i", see_step, &seen));
    }
    EXPECT_EQ(-1, beats_end);
    EXPECT_NORN(NORN_OK, norn_control(w.client, "i", NORN_TERMINATE, NORN_NONE));
    for (int n = 0; n < 4000 && beats_end == -1; n++) world_pause();
    EXPECT_EQ(NORN_E_CANCELLED, beats_end);
    may_end = true;
    world_close(&w);
}

/* ---- answers that do not count ---- */

static _Atomic bool is_inside, may_leave;

static norn_status held(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                        void *user)
{
    (void)input;
    (void)user;
    atomic_store(&is_inside, true);
    while (!atomic_load(&may_leave)) world_pause();
    return norn_call(ctx, "quick", norn_text("counted"), NULL, output);
}

/* The turn's answer is dropped, because the instance was suspended meanwhile. The kept program is
 * then one turn ahead of its history: it must not be used. */
TEST(a_kept_orchestration_that_is_ahead_of_its_history_is_made_again)
{
    struct world w;
    world_open(&w);
    atomic_store(&is_inside, false);
    atomic_store(&may_leave, false);
    EXPECT_NORN(NORN_OK, norn_orchestrator(w.worker, "held", NULL, held, NULL));
    EXPECT_NORN(NORN_OK, norn_activity_add(w.worker, "quick", 0, quick, NULL));
    world_start(&w);
    world_begin(&w, "held", "i", NULL);
    while (!atomic_load(&is_inside)) world_pause();
    EXPECT_NORN(NORN_OK, norn_control(w.client, "i", NORN_SUSPEND, NORN_NONE));
    atomic_store(&may_leave, true);
    EXPECT_NORN(NORN_E_TIMEOUT, norn_get(w.client, "i", 100, NULL));
    EXPECT_NORN(NORN_OK, norn_control(w.client, "i", NORN_RESUME, NORN_NONE));
    world_expect_output(&w, "i", "counted");
    world_close(&w);
}

/* ---- the watchdog ---- */

static norn_status blocks(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                          void *user)
{
    struct timespec time = {.tv_sec = 1, .tv_nsec = 400000000};
    (void)ctx;
    (void)input;
    (void)output;
    (void)user;
    nanosleep(&time, NULL);
    return NORN_OK;
}

static norn_status sleeps(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                          void *user)
{
    (void)ctx, (void)input, (void)output, (void)user;
    nanosleep(&(struct timespec){.tv_nsec = 120000000}, NULL);
    return NORN_OK;
}

static norn_status computes(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                            void *user)
{
    (void)ctx, (void)input, (void)output, (void)user;
    int64_t until_ns = clock_thread_cpu_ns() + 120 * NS_PER_MS;
    while (clock_thread_cpu_ns() < until_ns) continue;
    return NORN_OK;
}

/* A tenth of a second is too short for the watchdog, and too long for everybody else. To compute so
 * long is unwise, but it is not to block. */
TEST(a_short_wait_outside_of_norn_is_reported_and_work_is_not)
{
    struct world w;
    world_open(&w);
    EXPECT_NORN(NORN_OK, norn_orchestrator(w.worker, "sleeper", NULL, sleeps, NULL));
    EXPECT_NORN(NORN_OK, norn_orchestrator(w.worker, "worker", NULL, computes, NULL));
    world_start(&w);
    world_begin(&w, "worker", "w", NULL);
    expect_done(&w, "w");
    EXPECT(!world_has_line(&w, "was blocked"));
    world_begin(&w, "sleeper", "s", NULL);
    expect_done(&w, "s");
    EXPECT(world_has_line(&w, "orchestrator 'sleeper' was blocked: a turn of instance s took 1"));
    world_close(&w);
}

TEST(an_orchestrator_that_blocks_is_reported_by_name)
{
    struct world w;
    world_open(&w);
    EXPECT_NORN(NORN_OK, norn_orchestrator(w.worker, "blocker", NULL, blocks, NULL));
    world_start(&w);
    world_begin(&w, "blocker", "i", NULL);
    expect_done(&w, "i");
    EXPECT(world_has_line(&w, "orchestrator 'blocker' has run for 1"));
    world_close(&w);
}

/* ---- clients ---- */

static norn_status waits(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                         void *user)
{
    (void)input;
    (void)user;
    return norn_wait_event(ctx, "go", -1, output);
}

static norn_status count_rows(void *user, const struct norn_info *info)
{
    int *n = user;
    if (strncmp(info->id, "l-", 2) != 0) return NORN_E_INVALID;
    (*n)++;
    return *n == 7 ? NORN_E_CANCELLED : NORN_OK;
}

static norn_status keep_events(void *user, struct norn_bytes event)
{
    char *text = user;
    size_t len = strlen(text);
    snprintf(text + len, 4000 - len, "%.*s\n", (int)event.len, (const char *)event.ptr);
    return NORN_OK;
}

TEST(a_client_steers_instances)
{
    struct world w;
    struct norn_info *info = NULL;
    struct norn_start_options start = NORN_START_OPTIONS;
    const char *tags[] = {"colour", "red", NULL};
    char id[NORN_ID_SIZE];
    world_open(&w);
    EXPECT_NORN(NORN_OK, norn_orchestrator(w.worker, "waits", NULL, waits, NULL));
    world_start(&w);
    EXPECT_NORN(NORN_E_NOT_FOUND, norn_get(w.client, "nobody", 0, &info));
    EXPECT(norn_client_error(w.client)[0] != '\0');
    EXPECT_NORN(NORN_E_NOT_FOUND, norn_get(w.client, "nobody", 10, NULL));
    EXPECT_NORN(NORN_E_NOT_FOUND, norn_raise(w.client, "nobody", "go", NORN_NONE));
    EXPECT_NORN(NORN_E_NOT_FOUND, norn_control(w.client, "nobody", NORN_TERMINATE, NORN_NONE));
    EXPECT_NORN(NORN_E_INVALID, norn_start(w.client, "", NORN_NONE, NULL, NULL));
    /* a made id */
    start.tags = tags;
    EXPECT_NORN(NORN_OK, norn_start(w.client, "waits", norn_text("in"), &start, id));
    EXPECT_TEXT("", norn_client_error(w.client));
    EXPECT_EQ(32, strlen(id));
    /* reuse */
    start.id = id;
    EXPECT_NORN(NORN_E_EXISTS, norn_start(w.client, "waits", NORN_NONE, &start, NULL));
    start.reuse = NORN_REUSE_KEEP;
    EXPECT_NORN(NORN_OK, norn_start(w.client, "waits", NORN_NONE, &start, NULL));
    /* suspended ones do not go on */
    EXPECT_NORN(NORN_OK, norn_control(w.client, id, NORN_SUSPEND, norn_text("lunch")));
    EXPECT_NORN(NORN_OK, norn_raise(w.client, id, "go", norn_text("out")));
    EXPECT_NORN(NORN_E_TIMEOUT, norn_get(w.client, id, 50, NULL));
    EXPECT_NORN(NORN_OK, norn_get(w.client, id, 0, &info));
    EXPECT_EQ(NORN_SUSPENDED, info->state);
    EXPECT_TEXT("in", (const char *)info->input.ptr);
    norn_info_free(info);
    EXPECT_NORN(NORN_E_PRECONDITION, norn_control(w.client, id, NORN_PURGE, NORN_NONE));
    EXPECT_NORN(NORN_OK, norn_control(w.client, id, NORN_RESUME, NORN_NONE));
    world_expect_output(&w, id, "out");
    /* its history */
    char text[4000] = "";
    EXPECT_NORN(NORN_OK, norn_history(w.client, id, keep_events, text));
    EXPECT(strstr(text, "\"executionStarted\":{\"name\":\"waits\"") != NULL);
    EXPECT(strstr(text, "\"eventRaised\":{\"name\":\"go\",\"input\":\"out\"}") != NULL);
    EXPECT(strstr(text, "\"tags\":[{\"key\":\"colour\",\"value\":\"red\"}]") != NULL);
    EXPECT(strstr(text, "\"executionSuspended\":{\"input\":\"lunch\"}") != NULL);
    EXPECT_NORN(NORN_OK, norn_control(w.client, id, NORN_PURGE, NORN_NONE));
    EXPECT_NORN(NORN_E_NOT_FOUND, norn_get(w.client, id, 0, &info));
    /* terminated, begun again */
    world_begin(&w, "waits", "t", NULL);
    EXPECT_NORN(NORN_OK, norn_control(w.client, "t", NORN_TERMINATE, norn_text("enough")));
    info = world_wait(&w, "t");
    EXPECT_EQ(NORN_TERMINATED, info->state);
    EXPECT_TEXT("enough", (const char *)info->output.ptr);
    norn_info_free(info);
    EXPECT_NORN(NORN_OK, norn_control(w.client, "t", NORN_RESTART, NORN_NONE));
    EXPECT_NORN(NORN_OK, norn_raise(w.client, "t", "go", norn_text("again")));
    world_expect_output(&w, "t", "again");
    world_close(&w);
}

TEST(lists_come_in_pages_and_stop_when_told)
{
    struct world w;
    struct norn_query query = NORN_QUERY;
    int n = 0;
    world_open(&w);
    EXPECT_NORN(NORN_OK, norn_orchestrator(w.worker, "waits", NULL, waits, NULL));
    world_start(&w);
    for (int i = 0; i < 250; i++) {
        char id[32];
        snprintf(id, sizeof id, "l-%d", i);
        world_begin(&w, "waits", id, NULL);
    }
    world_begin(&w, "waits", "other", NULL);
    query.id_prefix = "l-";
    n = 100;
    EXPECT_NORN(NORN_OK, norn_list(w.client, &query, count_rows, &n));
    EXPECT_EQ(350, n);
    n = 100;
    query.limit = 210;
    EXPECT_NORN(NORN_OK, norn_list(w.client, &query, count_rows, &n));
    EXPECT_EQ(310, n);
    n = 0;
    EXPECT_NORN(NORN_E_CANCELLED, norn_list(w.client, &query, count_rows, &n));
    EXPECT_EQ(7, n);
    query.states = 1u << NORN_COMPLETED;
    n = 0;
    EXPECT_NORN(NORN_OK, norn_list(w.client, &query, count_rows, &n));
    EXPECT_EQ(0, n);
    world_close(&w);
}

TEST(an_engine_is_opened_once_and_says_why_not)
{
    struct world w;
    norn_engine *second = NULL;
    norn_client *client = NULL;
    const char *why = NULL;
    struct norn_engine_options options = NORN_ENGINE_OPTIONS;
    struct norn_client_options none = NORN_CLIENT_OPTIONS;
    world_open(&w);
    options.directory = w.directory;
    EXPECT_NORN(NORN_E_BUSY, norn_engine_open(&options, &second, &why));
    EXPECT(strstr(why, "in use by another process") != NULL);
    EXPECT_NORN(NORN_E_INVALID, norn_engine_open(NULL, &second, NULL));
    EXPECT_NORN(NORN_E_INVALID, norn_client_open(&none, &client));
    EXPECT_TEXT("NORN_E_BUSY: another process has the directory", norn_status_text(NORN_E_BUSY));
    EXPECT_TEXT("NORN_E_UNKNOWN: this is no status of this version",
                norn_status_text((norn_status)99));
    world_close(&w);
}
