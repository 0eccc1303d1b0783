/* SPDX-License-Identifier: Apache-2.0
 *
 * What an orchestrator can do, each twice: kept in memory between its turns (hot), and thrown out
 * at every await and made again from its history (cold). The results must be the same.
 */
#include "lib_world.h"

#include "lib/worker.h"

#include <stdatomic.h>

/* ---- activities ---- */

static norn_status echo(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                        void *user)
{
    (void)user;
    *output = joined(ctx, "", input);
    return NORN_OK;
}

static _Atomic int calls_n;
static char remembered[200];

static norn_status remember(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                            void *user)
{
    (void)ctx;
    (void)output;
    (void)user;
    atomic_fetch_add(&calls_n, 1);
    snprintf(remembered, sizeof remembered, "%.*s", (int)input.len, (const char *)input.ptr);
    return NORN_OK;
}

static norn_status decline(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                           void *user)
{
    (void)input;
    (void)output;
    (void)user;
    return norn_fail(ctx, "Declined", "no money", false);
}

/* ---- the two ways to run ---- */

static void begin(struct world *w, bool is_cold, norn_orchestrator_fn *fn)
{
    world_open(w);
    if (is_cold) w->worker->hot_max = 0;
    atomic_store(&calls_n, 0);
    EXPECT_NORN(NORN_OK, norn_orchestrator(w->worker, "main", NULL, fn, NULL));
    EXPECT_NORN(NORN_OK, norn_activity_add(w->worker, "echo", 0, echo, NULL));
    EXPECT_NORN(NORN_OK, norn_activity_add(w->worker, "remember", 0, remember, NULL));
    EXPECT_NORN(NORN_OK, norn_activity_add(w->worker, "decline", 0, decline, NULL));
}

/* Cold ones have replayed, hot ones have not: else the two tests would be one. */
static void end(struct world *w, bool is_cold)
{
    uint64_t replays_n = w->worker->turns.replays_n;
    EXPECT(is_cold ? replays_n > 0 : replays_n == 0);
    world_close(w);
}

#define TEST_BOTH(name)                                                                            \
    static void name(bool is_cold);                                                                \
    TEST(name##_hot) { name(false); }                                                              \
    TEST(name##_cold) { name(true); }                                                              \
    static void name(bool is_cold)

static norn_status text_out(norn_context *ctx, const char *text, struct norn_bytes *output)
{
    *output = joined(ctx, text, NORN_NONE);
    return output->ptr != NULL ? NORN_OK : NORN_E_NOMEM;
}

/* ---- calls ---- */

static norn_status sequence(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                            void *user)
{
    (void)user;
    struct norn_bytes text = input;
    for (int n = 0; n < 5; n++) {
        norn_status status = norn_call(ctx, "echo", joined(ctx, "+", text), NULL, &text);
        if (status != NORN_OK) return status;
    }
    *output = text;
    return NORN_OK;
}

TEST_BOTH(a_sequence_goes_on_with_each_result)
{
    struct world w;
    begin(&w, is_cold, sequence);
    world_start(&w);
    world_begin(&w, "main", "i", "x");
    world_expect_output(&w, "i", "+++++x");
    end(&w, is_cold);
}

#define FAN_N 50
static norn_status fan_out(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                           void *user)
{
    norn_task *tasks[FAN_N];
    char text[FAN_N + 1] = {0};
    (void)input;
    (void)user;
    for (int n = 0; n < FAN_N; n++) {
        char letter[2] = {(char)('A' + n % 26), 0};
        norn_status status =
            norn_begin_call(ctx, NORN_ACTIVITY, "echo", norn_text(letter), NULL, &tasks[n]);
        if (status != NORN_OK) return status;
    }
    norn_status status = norn_when_all(ctx, tasks, FAN_N);
    if (status != NORN_OK) return status;
    for (int n = 0; n < FAN_N; n++) {
        struct norn_bytes one;
        status = norn_await(ctx, tasks[n], &one);
        if (status != NORN_OK || one.len != 1) return NORN_E_INVALID;
        text[n] = *(const char *)one.ptr;
    }
    return text_out(ctx, text, output);
}

TEST_BOTH(all_of_many_calls_answer_each_its_own)
{
    struct world w;
    begin(&w, is_cold, fan_out);
    world_start(&w);
    world_begin(&w, "main", "i", NULL);
    world_expect_output(&w, "i", "ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFGHIJKLMNOPQRSTUVWX");
    end(&w, is_cold);
}

static norn_status passes_on(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                             void *user)
{
    (void)input;
    (void)user;
    norn_status status = norn_call(ctx, "echo", norn_text("a"), NULL, NULL);
    if (status != NORN_OK) return status;
    return norn_call(ctx, "decline", NORN_NONE, NULL, output);
}

TEST_BOTH(a_failure_that_is_passed_on_is_the_failure_of_the_instance)
{
    struct world w;
    begin(&w, is_cold, passes_on);
    world_start(&w);
    world_begin(&w, "main", "i", NULL);
    world_expect_failure(&w, "i", "Declined", "no money");
    end(&w, is_cold);
}

/* Some of many fail: the first of them in the order of the list is what is told. */
static norn_status some_fail(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                             void *user)
{
    norn_task *tasks[3];
    (void)input;
    (void)user;
    (void)norn_begin_call(ctx, NORN_ACTIVITY, "echo", norn_text("a"), NULL, &tasks[0]);
    (void)norn_begin_call(ctx, NORN_ACTIVITY, "decline", NORN_NONE, NULL, &tasks[1]);
    (void)norn_begin_call(ctx, NORN_ACTIVITY, "echo", norn_text("c"), NULL, &tasks[2]);
    if (norn_when_all(ctx, tasks, 3) != NORN_E_FAILED) return NORN_E_INVALID;
    if (strcmp(norn_here(ctx)->failure.message, "no money") != 0) return NORN_E_INVALID;
    return norn_await(ctx, tasks[2], output);
}

TEST_BOTH(what_fails_among_many_is_told_after_all_have_ended)
{
    struct world w;
    begin(&w, is_cold, some_fail);
    world_start(&w);
    world_begin(&w, "main", "i", NULL);
    world_expect_output(&w, "i", "c");
    end(&w, is_cold);
}

/* ---- timers ---- */

static norn_status race(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                        void *user)
{
    norn_task *tasks[3];
    size_t first = 9;
    (void)input;
    (void)user;
    (void)norn_begin_timer(ctx, 3600000, &tasks[0]);
    (void)norn_begin_timer(ctx, 20, &tasks[1]);
    (void)norn_begin_timer(ctx, 7200000, &tasks[2]);
    norn_status status = norn_when_any(ctx, tasks, 3, &first);
    if (status != NORN_OK || first != 1) return NORN_E_INVALID;
    /* again and again the same */
    if (norn_when_any(ctx, tasks, 3, &first) != NORN_OK || first != 1) return NORN_E_INVALID;
    if (norn_cancel(ctx, tasks[0]) != NORN_OK) return NORN_E_INVALID;
    if (norn_await(ctx, tasks[0], NULL) != NORN_E_CANCELLED) return NORN_E_INVALID;
    /* what has ended stays as it is */
    if (norn_cancel(ctx, tasks[1]) != NORN_OK) return NORN_E_INVALID;
    if (norn_await(ctx, tasks[1], NULL) != NORN_OK) return NORN_E_INVALID;
    /* among several that have ended: the one that ended first */
    norn_task *ended[3] = {tasks[2], tasks[0], tasks[1]};
    if (norn_cancel(ctx, tasks[2]) != NORN_OK) return NORN_E_INVALID;
    if (norn_when_any(ctx, ended, 3, &first) != NORN_OK || first != 2) return NORN_E_INVALID;
    if (norn_when_any(ctx, ended, 2, &first) != NORN_OK || first != 1) return NORN_E_INVALID;
    return norn_call(ctx, "echo", norn_text("second"), NULL, output);
}

TEST_BOTH(the_first_of_timers_wins_and_a_cancelled_one_says_so)
{
    struct world w;
    begin(&w, is_cold, race);
    world_start(&w);
    world_begin(&w, "main", "i", NULL);
    world_expect_output(&w, "i", "second");
    end(&w, is_cold);
}

static norn_status sleeps(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                          void *user)
{
    char text[32];
    int64_t began_ms = norn_now(ctx);
    (void)input;
    (void)user;
    norn_status status = norn_sleep(ctx, 30);
    if (status != NORN_OK) return status;
    status = norn_sleep(ctx, 0);
    if (status != NORN_OK) return status;
    snprintf(text, sizeof text, "%s", norn_now(ctx) - began_ms >= 30 ? "slept" : "early");
    return text_out(ctx, text, output);
}

TEST_BOTH(sleeping_takes_its_time_by_the_orchestrators_clock)
{
    struct world w;
    begin(&w, is_cold, sleeps);
    world_start(&w);
    world_begin(&w, "main", "i", NULL);
    world_expect_output(&w, "i", "slept");
    end(&w, is_cold);
}

/* ---- events ---- */

static norn_status two_events(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                              void *user)
{
    struct norn_bytes a, b, c;
    (void)input;
    (void)user;
    norn_status status = norn_wait_event(ctx, "first", -1, &a);
    if (status == NORN_OK) status = norn_wait_event(ctx, "SECOND", WAIT_MS, &b);
    if (status == NORN_OK) status = norn_wait_event(ctx, "first", 0, &c);
    if (status != NORN_OK) return status;
    char text[100];
    snprintf(text, sizeof text, "%.*s %.*s %.*s", (int)a.len, (const char *)a.ptr, (int)b.len,
             (const char *)b.ptr, (int)c.len, (const char *)c.ptr);
    return text_out(ctx, text, output);
}

/* The order in which they come is not the order in which they are waited for. */
TEST_BOTH(events_are_kept_until_somebody_waits_for_them)
{
    struct world w;
    begin(&w, is_cold, two_events);
    world_begin(&w, "main", "i", NULL);
    EXPECT_NORN(NORN_OK, norn_raise(w.client, "i", "second", norn_text("2")));
    world_start(&w);
    EXPECT_NORN(NORN_OK, norn_raise(w.client, "i", "other", norn_text("?")));
    world_pause();
    EXPECT_NORN(NORN_OK, norn_raise(w.client, "i", "first", norn_text("1")));
    EXPECT_NORN(NORN_OK, norn_raise(w.client, "i", "First", norn_text("3")));
    struct norn_info *info = world_wait(&w, "i");
    /* the second "first" may come a turn too late: then the look without waiting finds nothing */
    if (info->state == NORN_COMPLETED)
        EXPECT_TEXT("1 2 3", (const char *)info->output.ptr);
    else
        EXPECT_TEXT("NORN_E_TIMEOUT", info->failure.type);
    norn_info_free(info);
    world_close(&w);
}

static norn_status event_or_timeout(norn_context *ctx, struct norn_bytes input,
                                    struct norn_bytes *output, void *user)
{
    struct norn_bytes data;
    (void)input;
    (void)user;
    if (norn_wait_event(ctx, "approval", 20, &data) != NORN_E_TIMEOUT) return NORN_E_INVALID;
    norn_status status = norn_wait_event(ctx, "approval", -1, &data);
    if (status != NORN_OK) return status;
    return norn_call(ctx, "echo", data, NULL, output);
}

TEST_BOTH(waiting_for_an_event_ends_with_its_time)
{
    struct world w;
    begin(&w, is_cold, event_or_timeout);
    world_start(&w);
    world_begin(&w, "main", "i", NULL);
    EXPECT_NORN(NORN_E_TIMEOUT, norn_get(w.client, "i", 100, NULL));
    EXPECT_NORN(NORN_OK, norn_raise(w.client, "i", "approval", norn_text("yes")));
    world_expect_output(&w, "i", "yes");
    end(&w, is_cold);
}

static norn_status rounds(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                          void *user)
{
    struct norn_bytes data;
    (void)user;
    norn_status status = norn_wait_event(ctx, "item", -1, &data);
    if (status != NORN_OK) return status;
    struct norn_bytes all = joined(ctx, "", input);
    char *text = norn_alloc(ctx, all.len + data.len + 1);
    if (text == NULL) return NORN_E_NOMEM;
    if (all.len > 0) memcpy(text, all.ptr, all.len);
    memcpy(text + all.len, data.ptr, data.len);
    struct norn_bytes next = {text, all.len + data.len};
    if (next.len < 5) return norn_continue_as_new(ctx, next);
    *output = next;
    return NORN_OK;
}

/* Five events at once: each execution reads one, the others go with it into the next. */
TEST_BOTH(events_that_nobody_read_are_kept_when_it_continues_as_new)
{
    struct world w;
    begin(&w, is_cold, rounds);
    world_begin(&w, "main", "i", "");
    for (int n = 0; n < 5; n++) {
        char data[2] = {(char)('a' + n), 0};
        EXPECT_NORN(NORN_OK, norn_raise(w.client, "i", "item", norn_text(data)));
    }
    world_start(&w);
    world_expect_output(&w, "i", "abcde");
    world_close(&w);
}

/* ---- children, versions ---- */

static norn_status child(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                         void *user)
{
    const struct norn_here *here = norn_here(ctx);
    (void)input;
    char text[100];
    if (strcmp(user, "fails") == 0) return norn_fail(ctx, "Broken", "child says no", false);
    snprintf(text, sizeof text, "%s of %s", (const char *)user,
             here->version != NULL ? here->version : "none");
    return text_out(ctx, text, output);
}

static norn_status parent(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                          void *user)
{
    struct norn_call_options options = NORN_CALL_OPTIONS;
    struct norn_bytes a, b, c;
    char text[300];
    (void)input;
    (void)user;
    norn_status status = norn_call_child(ctx, "child", NORN_NONE, NULL, &a);
    if (status != NORN_OK) return status;
    options.version = "2";
    options.id = "named-child";
    status = norn_call_child(ctx, "child", NORN_NONE, &options, &b);
    if (status != NORN_OK) return status;
    options.version = "3";
    options.id = NULL;
    status = norn_call_child(ctx, "child", NORN_NONE, &options, &c);
    if (status != NORN_OK) return status;
    if (norn_call_child(ctx, "failing", NORN_NONE, NULL, NULL) != NORN_E_FAILED)
        return NORN_E_INVALID;
    snprintf(text, sizeof text, "%.*s; %.*s; %.*s; %s", (int)a.len, (const char *)a.ptr, (int)b.len,
             (const char *)b.ptr, (int)c.len, (const char *)c.ptr, norn_here(ctx)->failure.message);
    return text_out(ctx, text, output);
}

/* A child has the version of its caller unless told otherwise; a version that nobody has goes to
 * the function without one. */
TEST_BOTH(children_answer_and_know_their_version)
{
    static char plain[] = "plain", second[] = "second", fails[] = "fails";
    struct world w;
    struct norn_start_options start = NORN_START_OPTIONS;
    begin(&w, is_cold, parent);
    EXPECT_NORN(NORN_OK, norn_orchestrator(w.worker, "child", NULL, child, plain));
    EXPECT_NORN(NORN_OK, norn_orchestrator(w.worker, "child", "2", child, second));
    EXPECT_NORN(NORN_E_EXISTS, norn_orchestrator(w.worker, "child", "2", child, second));
    EXPECT_NORN(NORN_OK, norn_orchestrator(w.worker, "failing", NULL, child, fails));
    world_start(&w);
    start.id = "i";
    start.version = "1";
    EXPECT_NORN(NORN_OK, norn_start(w.client, "main", NORN_NONE, &start, NULL));
    world_expect_output(&w, "i", "plain of 1; second of 2; plain of 3; child says no");
    struct norn_info *info = world_wait(&w, "named-child");
    EXPECT_TEXT("2", info->version);
    norn_info_free(info);
    end(&w, is_cold);
}

/* ---- entities ---- */

static norn_status counter(norn_context *ctx, const char *operation, struct norn_bytes input,
                           struct norn_bytes *output, void *user)
{
    int value = 0;
    char text[32];
    (void)user;
    struct norn_bytes state = norn_here(ctx)->state;
    if (state.ptr != NULL) sscanf(state.ptr, "%d", &value);
    if (strcmp(operation, "add") == 0) {
        int more = 0;
        sscanf(input.ptr, "%d", &more);
        value += more;
        snprintf(text, sizeof text, "%d", value);
        if (norn_set_state(ctx, norn_text(text)) != NORN_OK) return NORN_E_NOMEM;
        if (value > 100) return norn_fail(ctx, "TooMuch", "more than 100", true);
    } else if (strcmp(operation, "tell") == 0) {
        return norn_send_event(ctx, "@counter@other", "add", norn_text("7"));
    }
    snprintf(text, sizeof text, "%d", value);
    return text_out(ctx, text, output);
}

static norn_status counts(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                          void *user)
{
    static const char *const both[] = {"@counter@one", "@counter@two", NULL};
    struct norn_bytes a, b;
    (void)input;
    (void)user;
    norn_status status = norn_lock(ctx, both);
    if (status != NORN_OK) return status;
    if (norn_lock(ctx, both) != NORN_E_PRECONDITION) return NORN_E_INVALID;
    status = norn_call_entity(ctx, "@counter@one", "add", norn_text("5"), &a);
    if (status != NORN_OK) return status;
    status = norn_call_entity(ctx, "@Counter@two", "add", norn_text("6"), &b);
    if (status != NORN_OK) return status;
    status = norn_lock(ctx, NULL);
    if (status != NORN_OK) return status;
    if (norn_lock(ctx, NULL) != NORN_E_PRECONDITION) return NORN_E_INVALID;
    if (norn_call_entity(ctx, "@counter@one", "add", norn_text("96"), NULL) != NORN_E_FAILED)
        return NORN_E_INVALID;
    if (strcmp(norn_here(ctx)->failure.type, "TooMuch") != 0) return NORN_E_INVALID;
    status = norn_send_event(ctx, "@counter@one", "tell", NORN_NONE);
    if (status != NORN_OK) return status;
    status = norn_call_entity(ctx, "@counter@one", "get", NORN_NONE, &a);
    if (status != NORN_OK) return status;
    char text[64];
    snprintf(text, sizeof text, "%.*s %.*s", (int)a.len, (const char *)a.ptr, (int)b.len,
             (const char *)b.ptr);
    return text_out(ctx, text, output);
}

/* A failed operation changes nothing: 101 was set, 5 is what stays. */
TEST_BOTH(entities_are_called_locked_and_signalled)
{
    struct world w;
    begin(&w, is_cold, counts);
    EXPECT_NORN(NORN_OK, norn_entity_add(w.worker, "Counter", counter, NULL));
    world_start(&w);
    world_begin(&w, "main", "i", NULL);
    world_expect_output(&w, "i", "5 6");
    /* the signal that the entity sent */
    struct norn_info *info = NULL;
    for (int n = 0; n < 2000; n++) {
        if (norn_get(w.client, "@counter@other", 0, &info) == NORN_OK && info->output.ptr != NULL)
            break;
        norn_info_free(info);
        info = NULL;
        world_pause();
    }
    EXPECT(info != NULL);
    EXPECT_TEXT("7", (const char *)info->output.ptr);
    EXPECT_TEXT("@counter@other", info->id);
    norn_info_free(info);
    end(&w, is_cold);
}

static norn_status sender(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                          void *user)
{
    (void)input;
    (void)user;
    norn_status status = norn_send_event(ctx, "receiver", "ping", norn_text("pong"));
    if (status != NORN_OK) return status;
    return norn_call(ctx, "echo", norn_text("sent"), NULL, output);
}

TEST_BOTH(an_event_reaches_another_instance)
{
    struct world w;
    begin(&w, is_cold, sender);
    EXPECT_NORN(NORN_OK, norn_orchestrator(w.worker, "receiver", NULL, event_or_timeout, NULL));
    EXPECT_NORN(NORN_OK, norn_orchestrator(w.worker, "two", NULL, two_events, NULL));
    world_start(&w);
    world_begin(&w, "receiver", "receiver", NULL);
    world_begin(&w, "main", "i", NULL);
    world_expect_output(&w, "i", "sent");
    EXPECT_NORN(NORN_OK, norn_raise(w.client, "receiver", "approval", norn_text("x")));
    (void)norn_get(w.client, "receiver", WAIT_MS, NULL);
    world_close(&w);
}

/* ---- chance, status, memory ---- */

static norn_status chance(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                          void *user)
{
    char uuid[NORN_UUID_SIZE];
    char text[200];
    (void)input;
    (void)user;
    norn_uuid(ctx, uuid);
    snprintf(text, sizeof text, "%s %llu %lld", uuid, (unsigned long long)norn_random(ctx),
             (long long)norn_now(ctx));
    norn_status status = norn_call(ctx, "remember", norn_text(text), NULL, NULL);
    if (status == NORN_OK) status = norn_sleep(ctx, 5);
    if (status == NORN_OK) status = norn_call(ctx, "echo", NORN_NONE, NULL, NULL);
    return status == NORN_OK ? text_out(ctx, text, output) : status;
}

TEST_BOTH(chance_and_time_are_the_same_at_every_replay)
{
    struct world w;
    begin(&w, is_cold, chance);
    world_start(&w);
    world_begin(&w, "main", "i", NULL);
    struct norn_info *info = world_wait(&w, "i");
    EXPECT_EQ(NORN_COMPLETED, info->state);
    EXPECT_TEXT(remembered, (const char *)info->output.ptr);
    EXPECT_EQ('4', remembered[14]);
    EXPECT_EQ(1, calls_n);
    norn_info_free(info);
    end(&w, is_cold);
}

static norn_status tells_status(norn_context *ctx, struct norn_bytes input,
                                struct norn_bytes *output, void *user)
{
    (void)input;
    (void)output;
    (void)user;
    (void)norn_set_status(ctx, norn_text("\"begun\""));
    norn_log(ctx, "begun %s", norn_here(ctx)->id);
    norn_status status = norn_sleep(ctx, 1);
    if (status == NORN_OK) status = norn_sleep(ctx, 1);
    if (status == NORN_OK) status = norn_wait_event(ctx, "go", -1, NULL);
    (void)norn_set_status(ctx, norn_text("\"done\""));
    return status;
}

static size_t count_of(const char *text, const char *part)
{
    size_t n = 0;
    while ((text = strstr(text, part)) != NULL) {
        text += strlen(part);
        n++;
    }
    return n;
}

TEST_BOTH(a_status_stays_until_it_changes_and_a_line_is_written_once)
{
    struct world w;
    struct norn_info *info = NULL;
    begin(&w, is_cold, tells_status);
    world_start(&w);
    world_begin(&w, "main", "i", NULL);
    EXPECT_NORN(NORN_E_TIMEOUT, norn_get(w.client, "i", 100, NULL));
    EXPECT_NORN(NORN_OK, norn_get(w.client, "i", 0, &info));
    EXPECT_EQ(NORN_RUNNING, info->state);
    EXPECT_TEXT("\"begun\"", (const char *)info->custom_status.ptr);
    norn_info_free(info);
    EXPECT_NORN(NORN_OK, norn_raise(w.client, "i", "go", NORN_NONE));
    info = world_wait(&w, "i");
    EXPECT_TEXT("\"done\"", (const char *)info->custom_status.ptr);
    norn_info_free(info);
    EXPECT_EQ(1, count_of(w.lines, "begun i\n"));
    end(&w, is_cold);
}
