/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs that use the library wrongly, or at its limits: they get a status, a failure or a line
 * that says what is wrong, and never a crash or silence.
 */
#include "lib_world.h"

#include <stdatomic.h>

#define BIG_SIZE ((size_t)10 << 20)

static _Atomic int undone_n;
static _Atomic int probed[20];
static norn_context *_Atomic other_ctx;
static norn_task *_Atomic other_task;

static norn_status undo(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                        void *user)
{
    (void)ctx;
    (void)input;
    (void)output;
    (void)user;
    atomic_fetch_add(&undone_n, 1);
    return NORN_OK;
}

static norn_status fail(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                        void *user)
{
    (void)input;
    (void)output;
    (void)user;
    return norn_fail(ctx, "Flaky", "not now", false);
}

static norn_status big(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                       void *user)
{
    (void)input;
    (void)user;
    char *bytes = norn_alloc(ctx, BIG_SIZE);
    if (bytes == NULL) return NORN_E_NOMEM;
    memset(bytes, 'x', BIG_SIZE);
    *output = (struct norn_bytes){bytes, BIG_SIZE};
    return NORN_OK;
}

/* One call for each way; what it answers is in probed[]. */
static norn_status ask_wrongly(norn_context *ctx, struct norn_bytes input,
                               struct norn_bytes *output, void *user)
{
    static char long_name[300];
    static char much[((size_t)16 << 20) + 1];
    struct norn_bytes too_much = {much, sizeof much};
    struct norn_call_options sizeless = {0};
    struct norn_retry no_size = {0};
    struct norn_call_options with_retry = NORN_CALL_OPTIONS;
    struct norn_call_options bad_id = NORN_CALL_OPTIONS;
    int n = 0;
    (void)user;
    memset(much, 'm', sizeof much);
    memset(long_name, 'n', sizeof long_name - 1);
    with_retry.retry = &no_size;
    bad_id.id = long_name;
    norn_status undo_status = norn_compensate(ctx, "Undo", input, NULL);
    if (undo_status != NORN_OK) return undo_status;
    probed[n++] = norn_call(ctx, long_name, input, NULL, NULL);
    probed[n++] = norn_call(ctx, "Fail", too_much, NULL, NULL);
    probed[n++] = norn_call(ctx, "Fail", input, &sizeless, NULL);
    probed[n++] = norn_call(ctx, "Fail", input, &with_retry, NULL);
    probed[n++] = norn_call_child(ctx, "X", input, &bad_id, NULL);
    probed[n++] = norn_send_event(ctx, long_name, "e", input);
    probed[n++] = norn_set_status(ctx, too_much);
    probed[n++] = norn_continue_as_new(ctx, too_much);
    probed[n++] = norn_compensate(ctx, long_name, input, NULL);
    probed[n++] = norn_alloc(ctx, SIZE_MAX / 2) == NULL ? NORN_E_LIMIT : NORN_OK;
    *output = too_much; /* and this one is found when the function has returned */
    return NORN_OK;
}

/* What the engine would refuse is a status for the function, which then can undo. (S19) */
TEST(what_is_too_long_or_too_large_is_a_status_and_what_was_done_is_undone)
{
    static const norn_status expected[] = {
        NORN_E_INVALID, NORN_E_LIMIT, NORN_E_INVALID, NORN_E_INVALID, NORN_E_INVALID,
        NORN_E_INVALID, NORN_E_LIMIT, NORN_E_LIMIT,   NORN_E_INVALID, NORN_E_LIMIT,
    };
    struct world w;
    world_open(&w);
    EXPECT_NORN(NORN_OK, norn_orchestrator(w.worker, "Ask", NULL, ask_wrongly, NULL));
    EXPECT_NORN(NORN_OK, norn_activity_add(w.worker, "Fail", 0, fail, NULL));
    EXPECT_NORN(NORN_OK, norn_activity_add(w.worker, "Undo", 0, undo, NULL));
    world_start(&w);
    atomic_store(&undone_n, 0);
    world_begin(&w, "Ask", "i", "1");
    world_expect_failure(&w, "i", "ResultTooLarge", "the result has more than 16 MiB");
    for (size_t n = 0; n < sizeof expected / sizeof *expected; n++) {
        if (probed[n] != (int)expected[n])
            test_fail(__FILE__, __LINE__, "call %zu: %s", n, norn_status_text(probed[n]));
    }
    EXPECT_EQ(1, atomic_load(&undone_n));
    world_close(&w);
}

static norn_status retry_far(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                             void *user)
{
    struct norn_call_options options = NORN_CALL_OPTIONS;
    struct norn_retry retry = NORN_RETRY;
    (void)user;
    retry.attempts = 3;
    retry.first_delay_ms = INT64_MAX;
    retry.factor = 1e300;
    options.retry = &retry;
    return norn_call(ctx, "Fail", input, &options, output);
}

TEST(a_retry_in_the_far_future_waits)
{
    struct world w;
    struct norn_info *info = NULL;
    world_open(&w);
    EXPECT_NORN(NORN_OK, norn_orchestrator(w.worker, "Far", NULL, retry_far, NULL));
    EXPECT_NORN(NORN_OK, norn_activity_add(w.worker, "Fail", 0, fail, NULL));
    world_start(&w);
    world_begin(&w, "Far", "i", "1");
    EXPECT_NORN(NORN_E_TIMEOUT, norn_get(w.client, "i", 300, &info));
    EXPECT_TEXT("the time to wait is over", norn_client_error(w.client));
    world_close(&w);
}

static norn_status absent(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                          void *user)
{
    (void)ctx;
    (void)input;
    (void)user;
    *output = (struct norn_bytes){NULL, 5};
    return NORN_OK;
}

TEST(a_payload_without_bytes_is_absent_whatever_its_length_says)
{
    struct world w;
    world_open(&w);
    EXPECT_NORN(NORN_OK, norn_orchestrator(w.worker, "Absent", NULL, absent, NULL));
    world_start(&w);
    world_begin(&w, "Absent", "i", NULL);
    world_expect_output(&w, "i", "(none)");
    world_close(&w);
}

static norn_status call_big(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                            void *user)
{
    (void)user;
    norn_status status = norn_call(ctx, "Big", input, NULL, NULL);
    *output = norn_text("big");
    return status;
}

/* The memory of a piece of work that was large is given back, and the account of it stays right. */
TEST(a_worker_that_had_large_work_can_be_closed)
{
    struct world w;
    world_open(&w);
    EXPECT_NORN(NORN_OK, norn_orchestrator(w.worker, "Call", NULL, call_big, NULL));
    EXPECT_NORN(NORN_OK, norn_activity_add(w.worker, "Big", 0, big, NULL));
    world_start(&w);
    world_begin(&w, "Call", "i", NULL);
    world_expect_output(&w, "i", "big");
    world_begin(&w, "Call", "j", NULL);
    world_expect_output(&w, "j", "big");
    world_close(&w);
}

/* Shows its context and its task to the thief, and waits. */
static norn_status victim(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                          void *user)
{
    norn_task *task;
    (void)input;
    (void)output;
    (void)user;
    norn_status status = norn_begin_event(ctx, "go", &task);
    if (status != NORN_OK) return status;
    atomic_store(&other_task, task);
    atomic_store(&other_ctx, ctx);
    return norn_await(ctx, task, NULL);
}

static norn_status thief(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                         void *user)
{
    norn_task *tasks[1] = {atomic_load(&other_task)};
    size_t index;
    (void)input;
    (void)user;
    bool is_refused = norn_await(ctx, tasks[0], NULL) == NORN_E_INVALID &&
                      norn_when_all(ctx, tasks, 1) == NORN_E_INVALID &&
                      norn_when_any(ctx, tasks, 1, &index) == NORN_E_INVALID &&
                      norn_cancel(ctx, tasks[0]) == NORN_E_INVALID &&
                      norn_sleep(atomic_load(&other_ctx), 1) == NORN_E_INVALID &&
                      norn_send_event(atomic_load(&other_ctx), "x", "e", input) == NORN_E_INVALID;
    *output = norn_text(is_refused ? "refused" : "taken");
    return NORN_OK;
}

TEST(what_belongs_to_another_instance_is_refused)
{
    struct world w;
    world_open(&w);
    EXPECT_NORN(NORN_OK, norn_orchestrator(w.worker, "Victim", NULL, victim, NULL));
    EXPECT_NORN(NORN_OK, norn_orchestrator(w.worker, "Thief", NULL, thief, NULL));
    world_start(&w);
    world_begin(&w, "Victim", "v", NULL);
    while (atomic_load(&other_ctx) == NULL) world_pause();
    world_begin(&w, "Thief", "t", NULL);
    world_expect_output(&w, "t", "refused");
    EXPECT_NORN(NORN_OK, norn_raise(w.client, "v", "go", NORN_NONE));
    norn_info_free(world_wait(&w, "v"));
    world_close(&w);
}

static norn_status call_unknown(norn_context *ctx, struct norn_bytes input,
                                struct norn_bytes *output, void *user)
{
    (void)user;
    return norn_call(ctx, "Fial", input, NULL, output);
}

/* A wrong name would wait for ever in silence. */
TEST(a_call_of_what_the_worker_does_not_have_is_said_once)
{
    struct world w;
    world_open(&w);
    EXPECT_NORN(NORN_OK, norn_orchestrator(w.worker, "Main", NULL, call_unknown, NULL));
    EXPECT_NORN(NORN_OK, norn_activity_add(w.worker, "Fail", 0, fail, NULL));
    world_start(&w);
    world_begin(&w, "Main", "i", NULL);
    world_begin(&w, "Main", "j", NULL);
    while (!world_has_line(&w, "activity 'Fial' is called")) world_pause();
    EXPECT(world_has_line(&w, "did you mean 'Fail'?"));
    world_pause();
    pthread_mutex_lock(&w.mutex);
    const char *first = strstr(w.lines, "'Fial'");
    EXPECT(strstr(first + 1, "'Fial'") == NULL);
    pthread_mutex_unlock(&w.mutex);
    world_close(&w);
}

/* {0} instead of the initialiser: everything in it would be lost without a word. */
TEST(options_without_a_size_are_refused)
{
    struct world w;
    struct norn_start_options start = {0};
    struct norn_worker_options worker = {0};
    struct norn_engine_options engine = {0};
    struct norn_client_options client = {0};
    struct norn_query query = {0};
    norn_worker *no_worker = NULL;
    norn_engine *no_engine = NULL;
    norn_client *no_client = NULL;
    const char *why = "";
    world_open(&w);
    start.id = "order-7";
    EXPECT_NORN(NORN_E_INVALID, norn_start(w.client, "X", NORN_NONE, &start, NULL));
    EXPECT(strstr(norn_client_error(w.client), "NORN_START_OPTIONS") != NULL);
    EXPECT_NORN(NORN_E_INVALID, norn_worker_open(w.client, &worker, &no_worker));
    EXPECT(strstr(norn_client_error(w.client), "no size") != NULL);
    EXPECT_NORN(NORN_E_INVALID, norn_list(w.client, &query, (norn_query_fn *)1, NULL));
    client.address = "127.0.0.1:1";
    EXPECT_NORN(NORN_E_INVALID, norn_client_open(&client, &no_client));
    engine.directory = "x";
    EXPECT_NORN(NORN_E_INVALID, norn_engine_open(&engine, &no_engine, &why));
    EXPECT(strstr(why, "no size") != NULL);
    world_close(&w);
}

static void expect_no_engine(const struct norn_engine_options *options, norn_status expected,
                             const char *part)
{
    norn_engine *engine = NULL;
    const char *why = "";
    EXPECT_NORN(expected, norn_engine_open(options, &engine, &why));
    if (strstr(why, part) == NULL) test_fail(__FILE__, __LINE__, "no '%s' in: %s", part, why);
}

TEST(an_engine_that_cannot_be_opened_says_why)
{
    struct norn_engine_options options = NORN_ENGINE_OPTIONS;
    char path[300];
    expect_no_engine(NULL, NORN_E_INVALID, "NULL");
    expect_no_engine(&options, NORN_E_INVALID, "no directory");
    options.directory = "";
    expect_no_engine(&options, NORN_E_INVALID, "no directory");
    snprintf(path, sizeof path, "%s/a/b", test_directory());
    options.directory = path;
    expect_no_engine(&options, NORN_E_IO, "No such file or directory");
    snprintf(path, sizeof path, "%s/file", test_directory());
    FILE *file = fopen(path, "w");
    EXPECT(file != NULL);
    fclose(file);
    expect_no_engine(&options, NORN_E_IO, "Not a directory");
    snprintf(path, sizeof path, "%s/d", test_directory());
    options.partitions = 1000000;
    expect_no_engine(&options, NORN_E_INVALID, "partitions");
}

TEST(the_sentence_is_that_of_the_last_call)
{
    struct world w;
    struct norn_info *info = NULL;
    world_open(&w);
    EXPECT_NORN(NORN_E_NOT_FOUND, norn_get(w.client, "nobody", 0, &info));
    EXPECT_NORN(NORN_E_INVALID, norn_start(w.client, NULL, NORN_NONE, NULL, NULL));
    EXPECT_TEXT("the name is NULL", norn_client_error(w.client));
    EXPECT_NORN(NORN_E_INVALID, norn_control(w.client, "i", (enum norn_verb)99, NORN_NONE));
    EXPECT_TEXT("no such verb", norn_client_error(w.client));
    EXPECT_NORN(NORN_E_INVALID, norn_start_many(w.client, NULL, 3));
    EXPECT_TEXT("jobs is NULL, n is not 0", norn_client_error(w.client));
    world_close(&w);
}

/* The least memory is enough for one after the other. */
TEST(little_memory_is_slow_and_not_the_end)
{
    struct world w = {.options = NORN_WORKER_OPTIONS};
    struct norn_engine_options engine = NORN_ENGINE_OPTIONS;
    struct norn_client_options client = NORN_CLIENT_OPTIONS;
    char id[20];
    pthread_mutex_init(&w.mutex, NULL);
    snprintf(w.directory, sizeof w.directory, "%s/data", test_directory());
    engine.directory = w.directory;
    engine.memory_max = 10000;
    EXPECT_NORN(NORN_OK, norn_engine_open(&engine, &w.engine, NULL));
    client.engine = w.engine;
    EXPECT_NORN(NORN_OK, norn_client_open(&client, &w.client));
    for (int n = 0; n < 300; n++) {
        snprintf(id, sizeof id, "i%d", n);
        world_begin(&w, "Absent", id, "1");
    }
    world_open_worker(&w);
    EXPECT_NORN(NORN_OK, norn_orchestrator(w.worker, "Absent", NULL, absent, NULL));
    world_start(&w);
    for (int n = 0; n < 300; n++) {
        snprintf(id, sizeof id, "i%d", n);
        world_expect_output(&w, id, "(none)");
    }
    world_close(&w);
}

static norn_status five(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                        void *user)
{
    (void)user;
    for (int n = 0; n < 5; n++) {
        norn_status status = norn_call(ctx, "Undo", input, NULL, output);
        if (status != NORN_OK) return status;
    }
    return NORN_OK;
}

/* With one hot orchestration at most nearly every turn asks for its past: closing the worker must
 * wait for that, however it falls. */
TEST(a_worker_can_be_closed_while_it_asks_for_the_past)
{
    struct world w;
    char id[20];
    world_open(&w);
    world_close_worker(&w);
    w.options.hot_max = 1;
    for (int n = 0; n < 200; n++) {
        snprintf(id, sizeof id, "i%d", n);
        world_begin(&w, "Five", id, "1");
    }
    for (int round = 0; round < 40; round++) {
        world_open_worker(&w);
        EXPECT_NORN(NORN_OK, norn_orchestrator(w.worker, "Five", NULL, five, NULL));
        EXPECT_NORN(NORN_OK, norn_activity_add(w.worker, "Undo", 0, undo, NULL));
        world_start(&w);
        if (round == 39) break;
        struct timespec time = {.tv_nsec = 300000 * (round % 10)};
        nanosleep(&time, NULL);
        world_close_worker(&w);
    }
    for (int n = 0; n < 200; n++) {
        snprintf(id, sizeof id, "i%d", n);
        world_expect_output(&w, id, "(none)");
    }
    world_close(&w);
}
