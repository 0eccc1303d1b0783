/* SPDX-License-Identifier: Apache-2.0
 *
 * Saved histories against today's code. The histories are those of the embedded engine and of the
 * test's own: what norn_history() gives is what norn_test_replay() takes.
 */
#include "base/mem.h"
#include "wire/event_json.h"
#include "lib_world.h"
#include "wire/json_read.h"

#include "norn_test.h"

#define HISTORY_SIZE 20000

struct saved {
    char text[HISTORY_SIZE];
    size_t len;
    const char *between;
};

static norn_status save_event(void *user, struct norn_bytes event)
{
    struct saved *s = user;
    EXPECT(s->len + event.len + 2 < sizeof s->text);
    memcpy(s->text + s->len, event.ptr, event.len);
    s->len += event.len;
    s->len += (size_t)snprintf(s->text + s->len, 3, "%s", s->between);
    return NORN_OK;
}

/* ---- one orchestrator in several states of mind ---- */

enum mind {
    AS_EVER,
    OTHER_ACTIVITY,
    NO_TIMER,
    ONE_MORE_CALL,
    ENDS_EARLY,
    OTHER_RESULT,
    FAILS,
    OTHER_CHILD,
};

/* How often it came behind its first step as if for the first time. */
static int fresh_n;

static norn_status order(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                         void *user)
{
    const enum mind *mind = user;
    struct norn_bytes charged = NORN_NONE;
    norn_status status =
        norn_call(ctx, *mind == OTHER_ACTIVITY ? "Debit" : "Charge", input, NULL, &charged);
    if (!norn_here(ctx)->is_replaying) fresh_n++;
    if (status == NORN_OK && *mind != NO_TIMER) status = norn_sleep(ctx, 1000);
    if (status != NORN_OK || *mind == ENDS_EARLY) return status;
    status = norn_call_child(ctx, *mind == OTHER_CHILD ? "Send" : "Ship", input, NULL, NULL);
    if (status == NORN_OK) status = norn_wait_event(ctx, "received", -1, NULL);
    if (status == NORN_OK && *mind == ONE_MORE_CALL) {
        status = norn_call(ctx, "Thank", NORN_NONE, NULL, NULL);
    }
    *output = *mind == OTHER_RESULT ? norn_text("something else") : charged;
    if (*mind == FAILS) return norn_fail(ctx, "Oops", "today it fails", true);
    return status;
}

static norn_status ship(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                        void *user)
{
    (void)ctx;
    (void)user;
    *output = input;
    return NORN_OK;
}

static norn_test *open_test(enum mind *mind)
{
    static const char *const names[] = {"Charge", "Debit", "Thank"};
    struct norn_test_reply reply = {.output = norn_text("{\"paid\":\"\xe2\x82\xac 5\"}")};
    norn_test *test = NULL;
    EXPECT_NORN(NORN_OK, norn_test_new(&test));
    EXPECT_NORN(NORN_OK, norn_orchestrator(norn_test_worker(test), "Order", NULL, order, mind));
    EXPECT_NORN(NORN_OK, norn_orchestrator(norn_test_worker(test), "Ship", NULL, ship, NULL));
    EXPECT_NORN(NORN_OK, norn_orchestrator(norn_test_worker(test), "Send", NULL, ship, NULL));
    for (size_t n = 0; n < 3; n++) {
        EXPECT_NORN(NORN_OK, norn_test_activity(test, names[n], &reply, 1));
    }
    return test;
}

static void save(norn_test *test, struct saved *s)
{
    s->len = 0;
    if (s->between == NULL) s->between = "\n";
    EXPECT_NORN(NORN_OK, norn_history(norn_test_client(test), "test-1", save_event, s));
}

/* Up to the wait for the event, and to the end. */
static void run_to_wait(norn_test *test)
{
    EXPECT_NORN(NORN_OK, norn_test_run(test, "Order", norn_text("\"7\\n\""), NULL));
    EXPECT_NORN(NORN_OK, norn_test_skip(test, 1000, NULL));
}

static void run_to_end(norn_test *test)
{
    const struct norn_info *info = NULL;
    run_to_wait(test);
    EXPECT_NORN(NORN_OK, norn_test_raise(test, "received", NORN_NONE, &info));
    EXPECT(info->state != NORN_RUNNING);
}

static norn_status replay(norn_test *test, const struct saved *s)
{
    return norn_test_replay(test, (struct norn_bytes){s->text, s->len});
}

static void expect_same(norn_test *test, const struct saved *s)
{
    if (replay(test, s) != NORN_OK) {
        test_fail(__FILE__, __LINE__, "%s\n%s", norn_test_error(test), s->text);
    }
    EXPECT_TEXT("", norn_test_error(test));
}

static void expect_different(norn_test *test, const struct saved *s, const char *sentence)
{
    EXPECT_NORN(NORN_E_FAILED, replay(test, s));
    EXPECT_TEXT(sentence, norn_test_error(test));
}

#define WHO "; orchestrator 'Order', version none"

/* ---- tests ---- */

TEST(the_same_code_does_what_its_history_says)
{
    enum mind mind = AS_EVER;
    norn_test *test = open_test(&mind);
    struct saved s = {0};
    EXPECT_NORN(NORN_OK, norn_test_run(test, "Order", norn_text("1"), NULL));
    save(test, &s); /* in the middle of a wait for a timer */
    expect_same(test, &s);
    EXPECT_NORN(NORN_OK, norn_test_skip(test, 1000, NULL));
    save(test, &s); /* for an event */
    expect_same(test, &s);
    EXPECT_NORN(NORN_OK, norn_test_raise(test, "received", NORN_NONE, NULL));
    save(test, &s); /* ended */
    fresh_n = 0;
    expect_same(test, &s);
    EXPECT_EQ(0, fresh_n);
    s = (struct saved){.between = ",\n", .len = 0};
    save(test, &s); /* as the inside of an array */
    expect_same(test, &s);
    norn_test_free(test);
}

TEST(changed_code_is_told_with_the_event)
{
    enum mind mind = AS_EVER;
    norn_test *test = open_test(&mind);
    struct saved s = {0};
    run_to_end(test);
    save(test, &s);
    mind = OTHER_ACTIVITY;
    expect_different(test, &s,
                     "expected TaskScheduled 'Charge', got TaskScheduled 'Debit', at event 3 of "
                     "the history" WHO);
    mind = NO_TIMER;
    expect_different(test, &s,
                     "expected TimerCreated, got SubOrchestrationInstanceCreated 'Ship', at event "
                     "6 of the history" WHO);
    mind = OTHER_CHILD;
    expect_different(test, &s,
                     "expected SubOrchestrationInstanceCreated 'Ship', got "
                     "SubOrchestrationInstanceCreated 'Send', at event 9 of the history" WHO);
    mind = AS_EVER;
    expect_same(test, &s);
    norn_test_free(test);
}

/* What a turn decides at its end is not in any past: it must be compared all the same. */
TEST(a_changed_end_is_told)
{
    enum mind mind = AS_EVER;
    norn_test *test = open_test(&mind);
    struct saved s = {0};
    run_to_end(test);
    save(test, &s);
    mind = ONE_MORE_CALL;
    expect_different(test, &s,
                     "expected nothing, got TaskScheduled 'Thank', at the end of the history" WHO);
    mind = OTHER_RESULT;
    expect_different(test, &s,
                     "expected the end COMPLETED {\"paid\":\"\xe2\x82\xac 5\"}, got the end "
                     "COMPLETED something else, at the end of the history" WHO);
    mind = FAILS;
    expect_different(test, &s,
                     "expected the end COMPLETED {\"paid\":\"\xe2\x82\xac 5\"}, got the end FAILED "
                     "Oops, at the end of the history" WHO);
    norn_test_free(test);
}

TEST(an_end_where_the_history_goes_on_is_told)
{
    enum mind mind = AS_EVER;
    norn_test *test = open_test(&mind);
    struct saved s = {0};
    run_to_wait(test);
    save(test, &s);
    mind = ENDS_EARLY;
    expect_different(test, &s,
                     "expected SubOrchestrationInstanceCreated 'Ship', got the end of the "
                     "orchestrator, at event 9 of the history" WHO);
    norn_test_free(test);
}

/* The other way round: it had ended, and today it waits. */
TEST(a_wait_where_the_history_ends_is_told)
{
    enum mind mind = ENDS_EARLY;
    norn_test *test = open_test(&mind);
    struct saved s = {0};
    EXPECT_NORN(NORN_OK, norn_test_run(test, "Order", norn_text("1"), NULL));
    EXPECT_NORN(NORN_OK, norn_test_skip(test, 1000, NULL));
    save(test, &s);
    expect_same(test, &s);
    mind = AS_EVER;
    expect_different(test, &s,
                     "expected nothing, got SubOrchestrationInstanceCreated 'Ship', at the end of "
                     "the history" WHO);
    norn_test_free(test);
}

/* A failure is the same when its type is: messages are for people. */
TEST(a_failed_history_is_replayed)
{
    enum mind mind = FAILS;
    norn_test *test = open_test(&mind);
    struct saved s = {0};
    run_to_end(test);
    save(test, &s);
    expect_same(test, &s);
    mind = AS_EVER;
    expect_different(test, &s,
                     "expected the end FAILED Oops, got the end COMPLETED {\"paid\":\"\xe2\x82\xac "
                     "5\"}, at the end of the history" WHO);
    norn_test_free(test);
}

/* Somebody ended it from outside, wherever it was: that is no fault of the code. */
TEST(a_terminated_history_is_replayed)
{
    enum mind mind = AS_EVER;
    norn_test *test = open_test(&mind);
    struct saved s = {0};
    run_to_wait(test);
    EXPECT_NORN(NORN_OK,
                norn_control(norn_test_client(test), "test-1", NORN_TERMINATE, norn_text("x")));
    save(test, &s);
    EXPECT(strstr(s.text, "executionTerminated") != NULL);
    expect_same(test, &s);
    mind = OTHER_ACTIVITY;
    EXPECT_NORN(NORN_E_FAILED, replay(test, &s));
    norn_test_free(test);
}

/* The engine writes turns of its own then: they are no steps of the orchestrator. */
TEST(a_suspended_and_resumed_history_is_replayed)
{
    enum mind mind = AS_EVER;
    norn_test *test = open_test(&mind);
    norn_client *client = norn_test_client(test);
    struct saved s = {0};
    run_to_wait(test);
    EXPECT_NORN(NORN_OK, norn_control(client, "test-1", NORN_SUSPEND, norn_text("wait")));
    save(test, &s);
    expect_same(test, &s);
    EXPECT_NORN(NORN_OK, norn_raise(client, "test-1", "received", NORN_NONE));
    EXPECT_NORN(NORN_OK, norn_control(client, "test-1", NORN_RESUME, NORN_NONE));
    save(test, &s);
    EXPECT(strstr(s.text, "ORCHESTRATION_STATUS_COMPLETED") != NULL);
    expect_same(test, &s);
    mind = OTHER_RESULT;
    EXPECT_NORN(NORN_E_FAILED, replay(test, &s));
    norn_test_free(test);
}

/* What failed was taken out of it and done again. */
TEST(a_rewound_history_is_replayed)
{
    enum mind mind = AS_EVER;
    norn_test *test = open_test(&mind);
    struct norn_test_reply replies[] = {{.failure_type = "Busy", .failure_message = "no"},
                                        {.output = norn_text("paid")}};
    struct saved s = {0};
    EXPECT_NORN(NORN_OK, norn_test_activity(test, "Charge", replies, 2));
    EXPECT_NORN(NORN_OK, norn_test_run(test, "Order", norn_text("1"), NULL));
    save(test, &s);
    EXPECT(strstr(s.text, "ORCHESTRATION_STATUS_FAILED") != NULL);
    expect_same(test, &s);
    EXPECT_NORN(NORN_OK,
                norn_control(norn_test_client(test), "test-1", NORN_REWIND, norn_text("mended")));
    save(test, &s);
    expect_same(test, &s);
    EXPECT_NORN(NORN_OK, norn_test_skip(test, 1000, NULL));
    EXPECT_NORN(NORN_OK, norn_test_raise(test, "received", NORN_NONE, NULL));
    save(test, &s);
    EXPECT(strstr(s.text, "ORCHESTRATION_STATUS_COMPLETED") != NULL);
    expect_same(test, &s);
    norn_test_free(test);
}

static void expect_round_trip(const char *json)
{
    struct json_reader r = json_reader_make(bytes_of_text(json));
    struct buffer event;
    struct buffer again;
    test_note("%s", json);
    buffer_init(&event, mem_process());
    buffer_init(&again, mem_process());
    EXPECT_STATUS(OK, event_json_read(&r, &event));
    EXPECT_STATUS(OK, event_json_write(buffer_view(&event), &again));
    EXPECT_BYTES(bytes_of_text(json), buffer_view(&again));
    buffer_release(&event);
    buffer_release(&again);
}

/* Every kind of field: what was written is read, and written again as it was. */
TEST(an_event_survives_the_way_through_json)
{
    expect_round_trip("{\"eventId\":-1,\"timestamp\":\"2026-11-15T10:20:30.000000789Z\","
                      "\"orchestratorStarted\":{}}");
    expect_round_trip(
        "{\"eventId\":3,\"timestamp\":\"1969-12-31T23:59:59.500000000Z\","
        "\"taskScheduled\":{\"name\":\"A\\n\",\"version\":\"\",\"input\":\"\\\"x\\\"\","
        "\"tags\":[{\"key\":\"a\",\"value\":\"1\"},{\"key\":\"b\",\"value\":\"2\"}]}}");
    expect_round_trip(
        "{\"timerFired\":{\"fireAt\":\"2026-02-28T00:00:00.000000000Z\",\"timerId\":7}}");
    /* Beyond what nanoseconds can count. */
    expect_round_trip(
        "{\"timerFired\":{\"fireAt\":\"9999-12-31T23:59:59.999999999Z\",\"timerId\":7}}");
    expect_round_trip("{\"executionCompleted\":{\"orchestrationStatus\":"
                      "\"ORCHESTRATION_STATUS_FAILED\",\"failureDetails\":{\"errorType\":\"T\","
                      "\"errorMessage\":\"\xe2\x82\xac\",\"innerFailure\":{\"errorType\":\"U\"},"
                      "\"isNonRetriable\":true}}}");
}

/* A day that the calendar does not have must not silently be another one. */
TEST(an_event_with_a_day_that_is_none_is_refused)
{
    struct json_reader r = json_reader_make(
        bytes_of_text("{\"timerFired\":{\"fireAt\":\"2026-02-31T00:00:00Z\",\"timerId\":7}}"));
    struct buffer event;
    buffer_init(&event, mem_process());
    EXPECT(event_json_read(&r, &event) != OK);
    buffer_release(&event);
}

/* A newer program's field does not hide the ones we know. */
TEST(an_unknown_field_is_passed_over)
{
    enum mind mind = AS_EVER;
    norn_test *test = open_test(&mind);
    struct saved s = {0};
    run_to_end(test);
    s.len = (size_t)snprintf(s.text, sizeof s.text,
                             "{\"novelty\":[{\"a\":[1.5e3,null]}],\"genericEvent\":{}}");
    s.between = "\n";
    EXPECT_NORN(NORN_OK, norn_history(norn_test_client(test), "test-1", save_event, &s));
    expect_same(test, &s);
    norn_test_free(test);
}

TEST(what_is_no_history_is_refused)
{
    enum mind mind = AS_EVER;
    norn_test *test = open_test(&mind);
    static const char *const bad[] = {
        "",
        "[]",
        "hello",
        "{",
        "{}",
        "{\"eventId\":\"x\"}",
        "{\"timestamp\":\"yesterday\"}",
        "{\"eventId\":-1,\"orchestratorStarted\":{}}",
        "{\"eventId\":-1,\"orchestratorStarted\":{}} trailing",
    };
    for (size_t n = 0; n < sizeof bad / sizeof *bad; n++) {
        test_note("%s", bad[n]);
        EXPECT_NORN(NORN_E_INVALID, norn_test_replay(test, norn_text(bad[n])));
        EXPECT(norn_test_error(test)[0] != '\0');
    }
    EXPECT_NORN(NORN_E_INVALID, norn_test_replay(test, NORN_NONE));
    norn_test_free(test);
}

/* Every byte of a good history cut off or changed: an answer, never a crash. */
TEST(damaged_histories_are_answered)
{
    enum mind mind = AS_EVER;
    norn_test *test = open_test(&mind);
    struct saved s = {0};
    run_to_end(test);
    save(test, &s);
    for (size_t n = 0; n < s.len; n += 3) {
        (void)norn_test_replay(test, (struct norn_bytes){s.text, n});
        char was = s.text[n];
        s.text[n] = (char)("\"{}[]:,0\\\x01x"[n % 11]);
        (void)replay(test, &s);
        s.text[n] = was;
    }
    expect_same(test, &s);
    norn_test_free(test);
}

TEST(an_orchestrator_that_is_not_there_is_named)
{
    enum mind mind = AS_EVER;
    norn_test *test = open_test(&mind);
    norn_test *empty = NULL;
    struct saved s = {0};
    run_to_end(test);
    save(test, &s);
    EXPECT_NORN(NORN_OK, norn_test_new(&empty));
    EXPECT_NORN(NORN_E_NOT_FOUND, replay(empty, &s));
    EXPECT_TEXT("orchestrator 'Order' is not registered", norn_test_error(empty));
    norn_test_free(empty);
    norn_test_free(test);
}

static norn_status charge(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                          void *user)
{
    (void)ctx;
    (void)user;
    *output = input;
    return NORN_OK;
}

static norn_status lucky(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                         void *user)
{
    char *uuid = norn_alloc(ctx, NORN_UUID_SIZE);
    (void)input;
    (void)user;
    if (uuid == NULL) return NORN_E_NOMEM;
    norn_uuid(ctx, uuid);
    return norn_call(ctx, "Charge", norn_text(uuid), NULL, output);
}

/* A real engine's history, chance and all: its execution id travels with it. */
TEST(the_history_of_an_engine_is_replayed)
{
    struct world w;
    enum mind mind = AS_EVER;
    struct saved s = {.between = "\n"};
    world_open(&w);
    EXPECT_NORN(NORN_OK, norn_orchestrator(w.worker, "Lucky", NULL, lucky, NULL));
    EXPECT_NORN(NORN_OK, norn_activity_add(w.worker, "Charge", 0, charge, NULL));
    world_start(&w);
    world_begin(&w, "Lucky", "l-1", NULL);
    norn_info_free(world_wait(&w, "l-1"));
    EXPECT_NORN(NORN_OK, norn_history(w.client, "l-1", save_event, &s));
    world_close(&w);
    norn_test *test = open_test(&mind);
    EXPECT_NORN(NORN_OK, norn_orchestrator(norn_test_worker(test), "Lucky", NULL, lucky, NULL));
    expect_same(test, &s);
    norn_test_free(test);
}
