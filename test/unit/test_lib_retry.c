/* SPDX-License-Identifier: Apache-2.0
 *
 * Repeating what failed, and undoing what was done.
 */
#include "lib_world.h"

#include "lib/worker.h"

#include <stdatomic.h>

/* ---- what the activities saw ---- */

static pthread_mutex_t seen_mutex = PTHREAD_MUTEX_INITIALIZER;
static char seen[1000]; /* one word each */
static char keys[20][80];
static _Atomic uint32_t tries_n;
static uint32_t fails_until; /* so many times it fails */
static bool is_final;

static void note(const char *word)
{
    pthread_mutex_lock(&seen_mutex);
    size_t len = strlen(seen);
    snprintf(seen + len, sizeof seen - len, "%s%s", len > 0 ? " " : "", word);
    pthread_mutex_unlock(&seen_mutex);
}

static norn_status flaky(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                         void *user)
{
    const struct norn_here *here = norn_here(ctx);
    uint32_t n = atomic_fetch_add(&tries_n, 1);
    char word[64];
    (void)input;
    (void)user;
    snprintf(word, sizeof word, "%u", here->attempt);
    note(word);
    if (n < 20) snprintf(keys[n], sizeof keys[n], "%s", here->idempotency_key);
    if (n < fails_until) return norn_fail(ctx, "Flaky", "not now", is_final);
    *output = norn_text("done");
    return NORN_OK;
}

static norn_status step(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                        void *user)
{
    (void)ctx;
    (void)user;
    note(input.ptr);
    *output = norn_text("ok");
    return NORN_OK;
}

/* Fails for ever with the input that says so, once with "once...". */
static norn_status undo(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                        void *user)
{
    static _Atomic int once_n;
    (void)output;
    (void)user;
    note(input.ptr);
    if (strcmp(input.ptr, "undo-never") == 0) return norn_fail(ctx, "Stuck", "cannot undo", false);
    if (strcmp(input.ptr, "undo-once") == 0 && atomic_fetch_add(&once_n, 1) % 2 == 0)
        return norn_fail(ctx, "Later", "not yet", false);
    return NORN_OK;
}

/* ---- retries ---- */

static struct norn_retry policy;

static norn_status retries(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                           void *user)
{
    struct norn_call_options options = NORN_CALL_OPTIONS;
    (void)input;
    (void)user;
    options.retry = &policy;
    return norn_call(ctx, "flaky", NORN_NONE, &options, output);
}

static norn_status fails_child(norn_context *ctx, struct norn_bytes input,
                               struct norn_bytes *output, void *user)
{
    (void)input;
    (void)output;
    (void)user;
    if (!norn_here(ctx)->is_replaying) atomic_fetch_add(&tries_n, 1);
    return norn_fail(ctx, "Flaky", "child", false);
}

static norn_status retries_child(norn_context *ctx, struct norn_bytes input,
                                 struct norn_bytes *output, void *user)
{
    struct norn_call_options options = NORN_CALL_OPTIONS;
    (void)input;
    (void)user;
    options.retry = &policy;
    return norn_call_child(ctx, "child", NORN_NONE, &options, output);
}

static void reset(void)
{
    seen[0] = '\0';
    memset(keys, 0, sizeof keys);
    atomic_store(&tries_n, 0);
    fails_until = 0;
    is_final = false;
    policy = (struct norn_retry)NORN_RETRY;
}

static void begin(struct world *w, bool is_cold, norn_orchestrator_fn *fn)
{
    world_open(w);
    if (is_cold) w->worker->hot_max = 0;
    EXPECT_NORN(NORN_OK, norn_orchestrator(w->worker, "main", NULL, fn, NULL));
    EXPECT_NORN(NORN_OK, norn_orchestrator(w->worker, "child", NULL, fails_child, NULL));
    EXPECT_NORN(NORN_OK, norn_activity_add(w->worker, "flaky", 0, flaky, NULL));
    EXPECT_NORN(NORN_OK, norn_activity_add(w->worker, "step", 0, step, NULL));
    EXPECT_NORN(NORN_OK, norn_activity_add(w->worker, "undo", 0, undo, NULL));
    world_start(w);
}

struct row {
    uint32_t attempts, fails;
    const char *seen;
    bool succeeds;
};
/* attempts allowed, failures before success, attempts seen */
static const struct row rows[] = {
    {0, 0, "1", true},   {0, 1, "1", false},   {1, 0, "1", true},       {1, 1, "1", false},
    {2, 1, "1 2", true}, {2, 2, "1 2", false}, {5, 3, "1 2 3 4", true}, {5, 9, "1 2 3 4 5", false},
};

static void table(bool is_cold)
{
    struct world w;
    begin(&w, is_cold, retries);
    for (size_t n = 0; n < sizeof rows / sizeof *rows; n++) {
        char id[32];
        reset();
        test_note("row %zu", n);
        snprintf(id, sizeof id, "r-%zu", n);
        policy.attempts = rows[n].attempts;
        policy.first_delay_ms = n % 2 == 0 ? 0 : 3; /* with and without timers */
        policy.factor = 2;
        policy.jitter = 0.5;
        fails_until = rows[n].fails;
        world_begin(&w, "main", id, NULL);
        if (rows[n].succeeds)
            world_expect_output(&w, id, "done");
        else
            world_expect_failure(&w, id, "Flaky", "not now");
        EXPECT_TEXT(rows[n].seen, seen);
        for (uint32_t k = 1; k < tries_n; k++) EXPECT_TEXT(keys[0], keys[k]);
        EXPECT(keys[0][0] != '\0');
    }
    test_note("%s", "");
    world_close(&w);
}

TEST(retries_are_as_many_as_the_policy_says_hot) { table(false); }
TEST(retries_are_as_many_as_the_policy_says_cold) { table(true); }

TEST(a_final_failure_is_not_repeated)
{
    static const char *const types[] = {"Other", "Flaky", NULL};
    struct world w;
    begin(&w, false, retries);
    reset();
    policy.attempts = 5;
    fails_until = 9;
    is_final = true;
    world_begin(&w, "main", "a", NULL);
    world_expect_failure(&w, "a", "Flaky", NULL);
    EXPECT_TEXT("1", seen);
    reset();
    policy.attempts = 5;
    policy.final_types = types;
    fails_until = 9;
    world_begin(&w, "main", "b", NULL);
    world_expect_failure(&w, "b", "Flaky", NULL);
    EXPECT_TEXT("1", seen);
    world_close(&w);
}

/* The third attempt would begin after 20 + 40 ms. */
TEST(no_attempt_begins_after_the_total_time)
{
    struct world w;
    begin(&w, true, retries);
    reset();
    policy.attempts = 9;
    policy.first_delay_ms = 20;
    policy.factor = 2;
    policy.total_ms = 50;
    fails_until = 9;
    world_begin(&w, "main", "a", NULL);
    world_expect_failure(&w, "a", "Flaky", NULL);
    EXPECT(strcmp(seen, "1 2") == 0 || strcmp(seen, "1") == 0);
    world_close(&w);
}

TEST(children_are_repeated_too)
{
    struct world w;
    begin(&w, false, retries_child);
    reset();
    policy.attempts = 3;
    policy.first_delay_ms = 1;
    world_begin(&w, "main", "a", NULL);
    world_expect_failure(&w, "a", "Flaky", "child");
    EXPECT_EQ(3, tries_n);
    world_close(&w);
}

/* ---- rewind ---- */

static norn_status handles(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                           void *user)
{
    (void)input;
    (void)user;
    if (norn_call(ctx, "flaky", NORN_NONE, NULL, NULL) != NORN_E_FAILED) return NORN_E_INVALID;
    norn_status status = norn_call(ctx, "step", norn_text("step"), NULL, NULL);
    return status == NORN_OK ? norn_call(ctx, "flaky", NORN_NONE, NULL, output) : status;
}

static void rewinds(norn_orchestrator_fn *fn, int64_t delay_ms, uint32_t fails,
                    const char *expected)
{
    for (int is_cold = 0; is_cold < 2; is_cold++) {
        const char *id = is_cold ? "cold" : "hot";
        struct world w;
        begin(&w, is_cold, fn);
        reset();
        policy.attempts = 3;
        policy.first_delay_ms = delay_ms;
        fails_until = fails;
        world_begin(&w, "main", id, NULL);
        world_expect_failure(&w, id, "Flaky", "not now");
        EXPECT_NORN(NORN_OK, norn_control(w.client, id, NORN_REWIND, norn_text("mended")));
        world_expect_output(&w, id, "done");
        EXPECT_TEXT(expected, seen);
        world_close(&w);
    }
}

/* The last attempt is made again; those before it stay as they were. */
TEST(what_was_repeated_is_rewound_without_delay) { rewinds(retries, 0, 3, "1 2 3 3"); }
TEST(what_was_repeated_is_rewound_with_delay) { rewinds(retries, 3, 3, "1 2 3 3"); }
/* What it went on from has happened, and is not done again. */
TEST(what_was_handled_stays_when_it_is_rewound) { rewinds(handles, 0, 2, "1 step 1 1"); }

/* ---- compensation ---- */

static norn_status saga(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                        void *user)
{
    struct norn_call_options options = NORN_CALL_OPTIONS;
    struct norn_retry retry = NORN_RETRY;
    norn_status status;
    (void)output;
    (void)user;
    retry.attempts = 3;
    retry.first_delay_ms = 1;
    options.retry = &retry;
    if ((status = norn_call(ctx, "step", norn_text("flight"), NULL, NULL)) != NORN_OK)
        return status;
    (void)norn_compensate(ctx, "undo", norn_text("undo-flight"), NULL);
    if ((status = norn_call(ctx, "step", norn_text("hotel"), NULL, NULL)) != NORN_OK) return status;
    if (input.len == 5) return norn_fail(ctx, "NoMoney", "early", false);
    (void)norn_compensate(ctx, "undo", norn_text("undo-never"), &options);
    (void)norn_compensate(ctx, "undo", norn_text("undo-once"), &options);
    if ((status = norn_call(ctx, "step", norn_text("car"), NULL, NULL)) != NORN_OK) return status;
    (void)norn_compensate(ctx, "undo", norn_text("undo-car"), NULL);
    if (input.len > 0) return norn_fail(ctx, "NoMoney", "the card was refused", false);
    return NORN_OK;
}

static void undoes(bool is_cold)
{
    struct world w;
    begin(&w, is_cold, saga);
    reset();
    world_begin(&w, "main", "a", "fail");
    world_expect_failure(&w, "a", "NoMoney", "the card was refused");
    EXPECT_TEXT("flight hotel car undo-car undo-once undo-once undo-never undo-never undo-never "
                "undo-flight",
                seen);
    EXPECT(world_has_line(&w, "compensation 'undo' failed: Stuck: cannot undo"));
    struct norn_info *info = world_wait(&w, "a");
    EXPECT_EQ(0, info->custom_status.len); /* not all of it was undone */
    norn_info_free(info);
    world_begin(&w, "main", "c", "early");
    info = world_wait(&w, "c");
    EXPECT_EQ(NORN_FAILED, info->state);
    EXPECT_BYTES(BYTES_LITERAL("\"compensated\""),
                 bytes_make(info->custom_status.ptr, info->custom_status.len));
    norn_info_free(info);
    reset();
    world_begin(&w, "main", "b", "");
    info = world_wait(&w, "b");
    EXPECT_EQ(NORN_COMPLETED, info->state);
    EXPECT_EQ(0, info->custom_status.len);
    EXPECT_TEXT("flight hotel car", seen);
    norn_info_free(info);
    world_close(&w);
}

/* Newest first; one that fails for good does not stop the others. S19 */
TEST(what_was_done_is_undone_in_the_reverse_order_hot) { undoes(false); }
TEST(what_was_done_is_undone_in_the_reverse_order_cold) { undoes(true); }
