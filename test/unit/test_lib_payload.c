/* SPDX-License-Identifier: Apache-2.0
 *
 * What payloads may be (UTF-8, at most 16 MiB, followed by a NUL), and other values at their edges.
 */
#include "lib_world.h"

#include <stdatomic.h>

static const struct norn_bytes not_utf8 = {"\xff\xfe", 2};

static struct norn_bytes too_large(void)
{
    static char bytes[((size_t)16 << 20) + 1];
    memset(bytes, 'x', sizeof bytes);
    return (struct norn_bytes){bytes, sizeof bytes};
}

/* ---- UTF-8 ---- */

static norn_status give_bytes(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                              void *user)
{
    (void)ctx, (void)input, (void)user;
    *output = not_utf8;
    return NORN_OK;
}

static norn_status say_bytes(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                             void *user)
{
    (void)input, (void)output, (void)user;
    return norn_fail(ctx, "Bad", "broken \xff here", false);
}

/* What the activity failed with is its own failure; then its calls with such bytes. */
static norn_status passes_bytes(norn_context *ctx, struct norn_bytes input,
                                struct norn_bytes *output, void *user)
{
    (void)user;
    if (norn_call(ctx, "Give", input, NULL, NULL) != NORN_E_FAILED) return NORN_E_CLOSED;
    if (strcmp(norn_here(ctx)->failure.type, "ResultNotUtf8") != 0) return NORN_E_FAILED;
    if (norn_call(ctx, "Say", input, NULL, NULL) != NORN_E_FAILED) return NORN_E_CLOSED;
    if (strcmp(norn_here(ctx)->failure.message, "broken ? here") != 0) return NORN_E_FAILED;
    if (norn_call(ctx, "Give", not_utf8, NULL, NULL) != NORN_E_INVALID) return NORN_E_CLOSED;
    if (norn_set_status(ctx, not_utf8) != NORN_E_INVALID) return NORN_E_CLOSED;
    if (norn_send_event(ctx, "x", "e", not_utf8) != NORN_E_INVALID) return NORN_E_CLOSED;
    if (norn_continue_as_new(ctx, not_utf8) != NORN_E_INVALID) return NORN_E_CLOSED;
    *output = not_utf8;
    return NORN_OK;
}

static norn_status count_events(void *user, struct norn_bytes event)
{
    EXPECT_EQ(0, ((const char *)event.ptr)[event.len]);
    EXPECT_EQ(event.len, strlen(event.ptr));
    ++*(int *)user;
    return NORN_OK;
}

TEST(payloads_are_utf8)
{
    struct world w;
    int events_n = 0;
    world_open(&w);
    EXPECT_NORN(NORN_OK, norn_orchestrator(w.worker, "Pass", NULL, passes_bytes, NULL));
    EXPECT_NORN(NORN_OK, norn_activity_add(w.worker, "Give", 0, give_bytes, NULL));
    EXPECT_NORN(NORN_OK, norn_activity_add(w.worker, "Say", 0, say_bytes, NULL));
    world_start(&w);
    EXPECT_NORN(NORN_E_INVALID, norn_start(w.client, "Pass", not_utf8, NULL, NULL));
    EXPECT_TEXT("the input is not UTF-8", norn_client_error(w.client));
    struct norn_job job = {.name = "Pass", .input = not_utf8};
    EXPECT_NORN(NORN_E_INVALID, norn_start_many(w.client, &job, 1));
    world_begin(&w, "Pass", "i", "1");
    EXPECT_NORN(NORN_E_INVALID, norn_raise(w.client, "i", "e", not_utf8));
    EXPECT_NORN(NORN_E_INVALID, norn_control(w.client, "i", NORN_TERMINATE, not_utf8));
    world_expect_failure(&w, "i", "ResultNotUtf8", "the result is not UTF-8");
    EXPECT_NORN(NORN_OK, norn_history(w.client, "i", count_events, &events_n));
    EXPECT(events_n > 4);
    world_close(&w);
}

/* ---- entities ---- */

static _Atomic int operations_n;

static norn_status entity(norn_context *ctx, const char *operation, struct norn_bytes input,
                          struct norn_bytes *output, void *user)
{
    (void)input, (void)user;
    atomic_fetch_add(&operations_n, 1);
    if (strcmp(operation, "set") == 0) return norn_set_state(ctx, norn_text("small"));
    if (strcmp(operation, "large") == 0) return norn_set_state(ctx, too_large());
    if (strcmp(operation, "bytes") == 0) return norn_set_state(ctx, not_utf8);
    *output = strcmp(operation, "answer") == 0 ? too_large() : norn_here(ctx)->state;
    return NORN_OK;
}

static norn_status calls_entity(norn_context *ctx, struct norn_bytes input,
                                struct norn_bytes *output, void *user)
{
    static const struct {
        const char *operation, *failure;
    } rows[] = {
        {"set", NULL},
        {"large", "NORN_E_LIMIT"},
        {"bytes", "NORN_E_INVALID"},
        {"answer", "ResultTooLarge"},
    };
    (void)input, (void)user;
    for (size_t n = 0; n < sizeof rows / sizeof *rows; n++) {
        norn_status status = norn_call_entity(ctx, "@e@1", rows[n].operation, NORN_NONE, NULL);
        if (rows[n].failure == NULL && status == NORN_OK) continue;
        if (status != NORN_E_FAILED) return NORN_E_CLOSED;
        if (strcmp(norn_here(ctx)->failure.type, rows[n].failure) != 0) return NORN_E_FAILED;
    }
    return norn_call_entity(ctx, "@e@1", "get", NORN_NONE, output);
}

/* It fails that operation, once, and those after it go on. */
TEST(a_state_that_cannot_be_kept_fails_the_operation)
{
    struct world w;
    atomic_store(&operations_n, 0);
    world_open(&w);
    EXPECT_NORN(NORN_OK, norn_orchestrator(w.worker, "Call", NULL, calls_entity, NULL));
    EXPECT_NORN(NORN_OK, norn_entity_add(w.worker, "e", entity, NULL));
    world_start(&w);
    world_begin(&w, "Call", "i", NULL);
    world_expect_output(&w, "i", "small");
    EXPECT_EQ(5, atomic_load(&operations_n));
    world_close(&w);
}

/* ---- chance ---- */

#define UUIDS_N 100000u

static uint64_t drawn[4][UUIDS_N];

static norn_status draw(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                        void *user)
{
    (void)output, (void)user;
    uint64_t *out = drawn[((const char *)input.ptr)[0] - '0'];
    for (size_t n = 0; n < UUIDS_N; n++) out[n] = norn_random(ctx);
    return NORN_OK;
}

static norn_status draws(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                         void *user)
{
    static const char *const numbers[] = {"0", "1", "2", "3"};
    norn_task *tasks[4];
    (void)input, (void)output, (void)user;
    for (size_t n = 0; n < 4; n++) {
        norn_status status =
            norn_begin_call(ctx, NORN_ACTIVITY, "Draw", norn_text(numbers[n]), NULL, &tasks[n]);
        if (status != NORN_OK) return status;
    }
    return norn_when_all(ctx, tasks, 4);
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Activities at once make identifiers of it. */
TEST(chance_in_activities_is_never_the_same_twice)
{
    struct world w;
    world_open(&w);
    EXPECT_NORN(NORN_OK, norn_orchestrator(w.worker, "Draws", NULL, draws, NULL));
    EXPECT_NORN(NORN_OK, norn_activity_add(w.worker, "Draw", 0, draw, NULL));
    world_start(&w);
    world_begin(&w, "Draws", "i", NULL);
    world_expect_output(&w, "i", "(none)");
    uint64_t *all = &drawn[0][0];
    qsort(all, sizeof drawn / sizeof *all, sizeof *all, compare);
    for (size_t n = 1; n < sizeof drawn / sizeof *all; n++) EXPECT(all[n - 1] != all[n]);
    world_close(&w);
}

/* ---- times ---- */

TEST(what_nobody_can_mean_is_refused)
{
    static const int64_t bad[] = {-1, INT64_MIN, INT64_MAX, INT64_MAX / 1000000 + 1};
    struct norn_start_options options = NORN_START_OPTIONS;
    struct world w;
    world_open(&w);
    for (size_t n = 0; n < sizeof bad / sizeof *bad; n++) {
        options.start_at_ms = bad[n];
        EXPECT_NORN(NORN_E_INVALID, norn_start(w.client, "o", NORN_NONE, &options, NULL));
        EXPECT(strstr(norn_client_error(w.client), "2262") != NULL);
    }
    options.start_at_ms = INT64_MAX / 1000000;
    options.reuse = (enum norn_reuse)77;
    EXPECT_NORN(NORN_E_INVALID, norn_start(w.client, "o", NORN_NONE, &options, NULL));
    options.reuse = NORN_REUSE_ENDED;
    options.id = "i";
    EXPECT_NORN(NORN_OK, norn_start(w.client, "o", NORN_NONE, &options, NULL));
    EXPECT_NORN(NORN_E_LIMIT, norn_control(w.client, "i", NORN_TERMINATE, too_large()));
    world_close(&w);
}

/* Whether it has ended nobody knows: that is no time-out. */
TEST(waiting_for_a_server_that_is_not_there_says_so)
{
    struct norn_client_options options = NORN_CLIENT_OPTIONS;
    norn_client *client = NULL;
    options.address = "127.0.0.1:1";
    EXPECT_NORN(NORN_OK, norn_client_open(&options, &client));
    EXPECT_NORN(NORN_E_UNAVAILABLE, norn_get(client, "i", 300, NULL));
    EXPECT(strstr(norn_client_error(client), "127.0.0.1:1") != NULL);
    norn_client_close(client);
}
