/* SPDX-License-Identifier: Apache-2.0
 *
 * What operators and agents ask the API: why, alerts, workers, events as they come, and work for
 * agents that speak plain HTTP. S3 S4 S8 S13
 */
#include "rest/state.h"
#include "test/lib/rested.h"
#include "test/lib/test.h"
#include "test/unit/host_programs.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- a worker for the programs of host_programs.h ---- */

static struct rested world;
static struct worker programs[SERVED_SHARDS_MAX];

struct turn {
    struct request request;
    struct orchestrator_answer answer;
    struct arena arena;
    struct mem mem;
    uint8_t key[400];
};

static void on_turn_done(struct request *request)
{
    struct turn *turn = container_of(request, struct turn, request);

    arena_release(&turn->arena);
    mem_release(&turn->mem);
    free(turn);
}

static void deliver(struct worker *worker, const struct effect_work *work)
{
    struct turn *turn = calloc(1, sizeof *turn);

    (void)worker;
    assert(turn != NULL);
    mem_init(&turn->mem, SIZE_MAX);
    arena_init(&turn->arena, &turn->mem, 1024);
    memcpy(turn->key, work->ref.key.ptr, work->ref.key.len);
    turn->request = (struct request){.kind = REQUEST_TURN_DONE, .done = on_turn_done};
    turn->request.key = bytes_make(turn->key, work->ref.key.len);
    program_answer(work, &turn->arena, &turn->answer);
    turn->request.worker_done = (struct input_worker_done){.has_ref = true, .ref = work->ref};
    turn->request.worker_done.ref.key = turn->request.key;
    turn->request.worker_done.answer = &turn->answer;
    if (!engine_post(world.served.engine, &turn->request)) on_turn_done(&turn->request);
}

static struct worker_filter names[3];

static struct line *open_world(uint32_t shards_n)
{
    rested_init(&world);
    world.shards_n = shards_n;
    rested_open(&world, test_directory(), true);
    names[0].name = BYTES_LITERAL("seq1");
    names[1].name = BYTES_LITERAL("seq2");
    names[2].name = BYTES_LITERAL("nap");
    for (uint32_t n = 0; n < shards_n; n++) {
        struct request attach = {.kind = REQUEST_WORKER_ATTACH};
        programs[n] = (struct worker){
            .hub = BYTES_LITERAL("default"),
            .deliver = deliver,
            .has_filters = true,
            .turn_filters = names,
            .turn_filters_n = 3,
            .wants_history = true,
            .turns_credit = UINT32_MAX,
        };
        attach.worker.worker = &programs[n];
        EXPECT_STATUS(OK, engine_call_to(world.served.engine, n, &attach));
    }
    return rested_line(&world);
}

static void start(struct line *line, const char *id, const char *name)
{
    char path[100], body[100];

    (void)snprintf(path, sizeof path, "/v1/instances/%s", id);
    (void)snprintf(body, sizeof body, "{\"name\":\"%s\"}", name);
    EXPECT_EQ(201, rested_ask(line, "PUT", path, NULL, body));
}

/* Until the answer so far has this. */
static void await_part(struct line *line, const char *part)
{
    int64_t until_ns = clock_mono_ns() + 20 * NS_PER_S;

    while (line->body.len == 0 || !line_has(line, part)) {
        struct pollfd wait = {.fd = world.served.bell_fd, .events = POLLIN};
        (void)poll(&wait, 1, 5);
        rested_turn(&world);
        if (clock_mono_ns() > until_ns)
            test_fail(__FILE__, __LINE__, "\"%s\" did not come, but %s", part, line_body(line));
    }
}

/* Until the engine has answered what it was asked. */
static void await_quiet(void)
{
    for (int n = 0; n < 20; n++) {
        struct pollfd wait = {.fd = world.served.bell_fd, .events = POLLIN};
        (void)poll(&wait, 1, 5);
        rested_turn(&world);
    }
}

/* Asks until the answer has this. */
static void await_answer(struct line *line, const char *path, const char *part)
{
    int64_t until_ns = clock_mono_ns() + 20 * NS_PER_S;

    do {
        EXPECT_EQ(200, rested_ask(line, "GET", path, NULL, NULL));
        if (clock_mono_ns() > until_ns)
            test_fail(__FILE__, __LINE__, "\"%s\" did not come, but %s", part, line_body(line));
    } while (!line_has(line, part));
}

static void await_why(struct line *line, const char *id, const char *part)
{
    char path[100];

    (void)snprintf(path, sizeof path, "/v1/instances/%s/why", id);
    await_answer(line, path, part);
}

static unsigned poll_for(struct line *line, const char *body)
{
    return rested_ask(line, "POST", "/v1/agents/step/poll", NULL, body);
}

/* POST /v1/work/{token of the last answer of `from`}/verb */
static unsigned tell(struct line *line, const char *token, const char *verb, const char *body)
{
    char path[600];

    (void)snprintf(path, sizeof path, "/v1/work/%s/%s", token, verb);
    return rested_ask(line, "POST", path, NULL, body);
}

/* ---- why ---- */

TEST(why_tells_what_it_waits_for)
{
    struct line *line = open_world(1);
    EXPECT_EQ(404, rested_ask(line, "GET", "/v1/instances/none/why", NULL, NULL));
    EXPECT(line_has(line, "instance-not-found"));
    start(line, "a", "seq1");
    await_why(line, "a", "\"worker\":\"step\"");
    EXPECT(line_has(line, "\"status\":\"running\",\"reason\":\"RUNNING: waits for step 0"));
    EXPECT(line_has(line,
                    "\"tasks\":[{\"taskId\":0,\"name\":\"step\",\"state\":\"Pending\","
                    "\"lockedBy\":null,\"workerId\":null,\"completeBy\":null,\"failureCount\":0,"
                    "\"retryAt\":null,\"attempts\":20}]"));
    start(line, "b", "nap");
    await_why(line, "b", "\"timers\":[{\"timerId\":0,\"fireAt\":\"2");
    EXPECT(line_has(line, "\"isParked\":false"));
    start(line, "c", "nobody");
    await_why(line, "c", "\"worker\":\"nobody\"");
    EXPECT_EQ(405, rested_ask(line, "POST", "/v1/instances/a/why", NULL, "{}"));
    rested_close(&world);
}

/* ---- agents ---- */

/* A step goes out with a token and comes back with a result; which is the instance's. S3 */
TEST(an_agent_does_a_step)
{
    char token[256], key[256], again[256];
    struct line *line = open_world(1);
    struct line *other = rested_line(&world);
    start(line, "a", "seq1");
    EXPECT_EQ(200, poll_for(line, "{\"wait\":\"20s\",\"lease\":\"60s\",\"worker\":\"w-1\"}"));
    EXPECT(line_value(line, "token", token));
    EXPECT(line_value(line, "idempotencyKey", key));
    EXPECT(line_has(line, "\"name\":\"step\",\"instanceId\":\"a\",\"taskId\":0"));
    EXPECT(line_has(line, "\"attempt\":1"));
    EXPECT(line_has(line, "\"completeBy\":\"2"));
    /* The poll has ended, and the worker's name is known all the same. S8 */
    await_why(other, "a",
              "\"state\":\"Processing\",\"lockedBy\":\"w-1 at " RESTED_PEER "\",\"workerId\":");
    EXPECT(!line_has(other, "\"workerId\":null"));
    EXPECT(line_has(other, "\"completeBy\":\"2"));

    EXPECT_EQ(200, tell(line, token, "renew", "{\"lease\":\"5m\"}"));
    EXPECT(line_has(line, "completeBy"));
    EXPECT_EQ(200, tell(line, token, "abandon", NULL)); /* somebody else may try */
    EXPECT_EQ(409, tell(line, token, "renew", NULL));
    EXPECT(line_has(line, "lease-lost"));
    EXPECT_EQ(409, tell(line, token, "complete", "1"));
    EXPECT_EQ(409, tell(line, token, "fail", "{\"message\":\"x\"}"));
    EXPECT_EQ(409, tell(line, token, "abandon", "{\"reason\":\"y\"}"));

    EXPECT_EQ(200, poll_for(line, NULL));
    EXPECT(line_has(line, "\"attempt\":2"));
    await_why(other, "a", "\"lockedBy\":\"" RESTED_PEER "\"");
    EXPECT(line_value(line, "token", token));
    EXPECT(line_value(line, "idempotencyKey", again));
    EXPECT_TEXT(key, again);
    EXPECT_EQ(200, tell(line, token, "complete", " {\"n\": 1} "));
    EXPECT_TEXT("{}", line_body(line));
    EXPECT_EQ(409, tell(line, token, "complete", " {\"n\": 2} "));
    EXPECT_EQ(200, rested_ask(line, "GET", "/v1/instances/a", "Prefer: wait=20\r\n", NULL));
    EXPECT(line_has(line, "\"status\":\"completed\""));
    EXPECT_EQ(200, rested_ask(line, "GET", "/v1/instances/a/history", NULL, NULL));
    EXPECT(line_has(line, "\"result\":{\"n\": 1}"));
    rested_close(&world);
}

/* A failure that may be tried again, or not, is the orchestrator's to decide. */
TEST(an_agent_fails_a_step)
{
    char token[256];
    struct line *line = open_world(1);
    start(line, "a", "seq1");
    EXPECT_EQ(200, poll_for(line, NULL));
    EXPECT(line_value(line, "token", token));
    EXPECT_EQ(400, tell(line, token, "fail", "{\"kind\":\"x\"}"));
    EXPECT_EQ(200, tell(line, token, "fail",
                        "{\"type\":\"OutOfStock\",\"message\":\"none left\",\"retryable\":false}"));
    await_answer(line, "/v1/instances/a/history", "taskFailed"); /* once a turn has read it */
    EXPECT(line_has(line, "OutOfStock"));
    EXPECT(line_has(line, "none left"));
    rested_close(&world);
}

TEST(polls_that_are_wrong_are_refused)
{
    static const char *const bodies[] = {
        "{\"max\":0}",        "{\"max\":101}",     "{\"wait\":\"2h\"}",
        "{\"wait\":5}",       "{\"lease\":\"x\"}", "{\"lease\":\"0s\"}",
        "{\"lease\":\"2d\"}", "{\"maxx\":1}",      "[]"};
    struct line *line = open_world(1);
    for (size_t n = 0; n < sizeof bodies / sizeof bodies[0]; n++) {
        test_note("%s", bodies[n]);
        EXPECT_EQ(400, poll_for(line, bodies[n]));
    }
    EXPECT_EQ(400, rested_ask(line, "POST", "/v1/work/abc/complete", NULL, "1"));
    EXPECT(line_has(line, "not a token"));
    EXPECT_EQ(400, rested_ask(line, "POST", "/v1/work/abc/complete", NULL, "{"));
    EXPECT_EQ(400, rested_ask(line, "POST", "/v1/work/abc/renew", NULL, "{\"lease\":\"0s\"}"));
    rested_close(&world);
}

/* A poll waits for work, and no longer than it said. */
TEST(a_poll_waits)
{
    struct line *line = open_world(1);
    struct line *other = rested_line(&world);
    rested_send(line, "POST", "/v1/agents/step/poll", NULL, "{\"wait\":\"10s\"}");
    EXPECT_EQ(200, rested_ask(other, "GET", "/v1/workers", NULL, NULL));
    EXPECT(line_has(other, "\"kind\":\"http\",\"hub\":\"default\",\"worker\":\"" RESTED_PEER
                           "\",\"names\":[\"step\"]"));
    EXPECT_EQ(0, line->status);
    rested_advance_ms(&world, 9000);
    EXPECT_EQ(0, line->status);
    rested_advance_ms(&world, 1001);
    EXPECT_EQ(200, rested_await(line));
    EXPECT_TEXT("{\"items\":[]}", line_body(line));
    EXPECT_EQ(200, rested_ask(other, "GET", "/v1/workers", NULL, NULL));
    EXPECT_TEXT("{\"items\":[]}", line_body(other));

    rested_send(line, "POST", "/v1/agents/step/poll", NULL, "{\"wait\":\"10s\"}");
    start(other, "a", "seq1");
    EXPECT_EQ(200, rested_await(line));
    EXPECT(line_has(line, "\"instanceId\":\"a\""));
    rested_close(&world);
}

/* Several at once; and no more than were asked for. */
TEST(a_poll_takes_several)
{
    struct line *line = open_world(2);
    struct line *other = rested_line(&world);
    char id[8];
    for (int n = 0; n < 12; n++) {
        (void)snprintf(id, sizeof id, "i%d", n);
        start(other, id, "seq1");
    }
    int taken_n = 0;
    for (int polls_n = 0; taken_n < 12; polls_n++) {
        EXPECT(polls_n < 12);
        EXPECT_EQ(200, poll_for(line, "{\"max\":5,\"wait\":\"20s\"}"));
        int n = 0;
        for (const char *at = line_body(line); (at = strstr(at, "\"token\"")) != NULL; at++) n++;
        EXPECT(n >= 1);
        EXPECT(n <= 5);
        taken_n += n;
    }
    EXPECT_EQ(12, taken_n);
    rested_close(&world);
}

/* Work that was on its way to an agent that hung up goes to the next one, and was no attempt. */
TEST(work_of_a_poll_that_hung_up_is_not_lost)
{
    struct line *line = open_world(1);
    for (int n = 0; n < 5; n++) {
        struct line *gone = rested_line(&world);
        rested_send(gone, "POST", "/v1/agents/step/poll", NULL, "{\"wait\":\"20s\"}");
        if (n == 0) start(line, "a", "seq1");
        rested_hang_up(gone);
        rested_turn(&world);
    }
    EXPECT_EQ(200, poll_for(line, "{\"wait\":\"20s\"}"));
    EXPECT(line_has(line, "\"instanceId\":\"a\""));
    EXPECT(line_has(line, "\"attempt\":1"));
    rested_close(&world);
}

/* An agent that takes work and is never heard of again loses it when its lease is over. S4 */
TEST(a_lease_that_is_over_goes_to_somebody_else)
{
    char token[256];
    struct line *line = open_world(1);
    start(line, "a", "seq1");
    EXPECT_EQ(200, poll_for(line, "{\"lease\":\"50ms\"}"));
    EXPECT(line_value(line, "token", token));
    EXPECT_EQ(200, poll_for(line, "{\"wait\":\"20s\"}"));
    EXPECT(line_has(line, "\"attempt\":2"));
    EXPECT_EQ(409, tell(line, token, "complete", "1"));
    rested_close(&world);
}

/* Polls end when the server stops, and what they were given is not lost: it is the engine's. */
TEST(polls_end_when_the_server_stops)
{
    struct line *line = open_world(1);
    rested_send(line, "POST", "/v1/agents/step/poll", NULL, "{\"wait\":\"20s\"}");
    rest_drain(world.rest);
    EXPECT_EQ(200, rested_await(line));
    EXPECT_TEXT("{\"items\":[]}", line_body(line));
    rested_close(&world);
}

/* An engine that refuses every second request only makes it slower. */
TEST(an_engine_that_is_full_does_not_lose_work)
{
    struct line *line = open_world(1);
    start(line, "a", "seq1");
    world.served.refuse_every = 2;
    bool has_come = false;
    for (int n = 0; n < 50 && !has_come; n++) {
        unsigned status = poll_for(line, "{\"wait\":\"200ms\"}");
        has_come = status == 200 && line_has(line, "\"instanceId\":\"a\"");
        rested_advance_ms(&world, 50);
    }
    EXPECT(has_come);
    world.served.refuse_every = 0;
    rested_close(&world);
}

/* Whichever allocation fails on the way: the step is there for the next poll, or this one has
 * it. */
TEST(memory_that_is_short_loses_no_work)
{
    struct line *line = open_world(1);
    char token[256], id[8];
    bool has_failed = true;
    for (uint64_t fail_at = 1; has_failed && fail_at < 100; fail_at++) {
        (void)snprintf(id, sizeof id, "i%d", (int)fail_at);
        test_note("allocation %d", (int)fail_at);
        start(line, id, "seq1");
        struct line *short_line = rested_line(&world);
        world.mem.fail_at = fail_at;
        rested_send(short_line, "POST", "/v1/agents/step/poll", NULL,
                    "{\"wait\":\"2s\",\"lease\":\"100ms\"}");
        (void)rested_await_long(short_line);
        has_failed = world.mem.fail_at == 0;
        world.mem.fail_at = 0;
        rested_renew(&world);
        line = rested_line(&world);
        EXPECT_EQ(200, poll_for(line, "{\"wait\":\"20s\"}"));
        EXPECT(line_value(line, "token", token));
        EXPECT_EQ(200, tell(line, token, "complete", "1"));
    }
    EXPECT(!has_failed);
    rested_close(&world);
}

/* ---- alerts ---- */

TEST(alerts_are_listed_page_by_page)
{
    struct line *line = open_world(2);
    char token[256], id[8], path[900];
    EXPECT_EQ(200, rested_ask(line, "GET", "/v1/alerts", NULL, NULL));
    EXPECT_TEXT("{\"items\":[]}", line_body(line));
    for (int n = 0; n < 3; n++) {
        (void)snprintf(id, sizeof id, "i%d", n);
        start(line, id, "seq1");
        EXPECT_EQ(200, poll_for(line, "{\"wait\":\"20s\"}"));
        EXPECT(line_value(line, "token", token));
        struct arena arena;
        struct request park = {.kind = REQUEST_ABANDON};
        arena_init(&arena, mem_process(), 512);
        EXPECT_STATUS(OK, token_read(bytes_of_text(token), engine_mac_key(world.served.engine),
                                     &arena, &park.lease.ref));
        park.key = park.lease.ref.key;
        park.lease.is_parked = true;
        park.lease.reason = BYTES_LITERAL("no printer");
        EXPECT_STATUS(OK, engine_call(world.served.engine, &park));
        arena_release(&arena);
    }
    EXPECT_EQ(200, rested_ask(line, "GET", "/v1/alerts?limit=2", NULL, NULL));
    EXPECT(line_has(line, "\"id\":\"i0\",\"hub\":\"default\",\"taskId\":0,\"name\":\"step\","
                          "\"text\":\"no printer\",\"since\":\"2"));
    EXPECT(line_has(line, "\"id\":\"i1\""));
    EXPECT(!line_has(line, "\"id\":\"i2\""));
    char cursor[256];
    EXPECT(line_value(line, "next", cursor));
    (void)snprintf(path, sizeof path, "/v1/alerts?limit=2&cursor=%s", cursor);
    EXPECT_EQ(200, rested_ask(line, "GET", path, NULL, NULL));
    EXPECT(line_has(line, "\"id\":\"i2\""));
    EXPECT(!line_has(line, "\"id\":\"i1\""));
    EXPECT(!line_has(line, "next"));
    EXPECT_EQ(400, rested_ask(line, "GET", "/v1/alerts?cursor=xyz", NULL, NULL));
    EXPECT_EQ(200, rested_ask(line, "GET", "/v1/alerts?hub=other", NULL, NULL));
    EXPECT_TEXT("{\"items\":[]}", line_body(line));
    EXPECT_EQ(202, rested_ask(line, "POST", "/v1/instances/i0/tasks/0/resubmit", NULL, NULL));
    EXPECT_EQ(200, rested_ask(line, "GET", "/v1/alerts", NULL, NULL));
    EXPECT(!line_has(line, "\"id\":\"i0\""));
    rested_close(&world);
}

/* ---- events ---- */

/* Every change of the hub, once, with the filters that were asked for. */
TEST(changes_are_streamed)
{
    struct line *all = open_world(1);
    struct line *some = rested_line(&world);
    struct line *line = rested_line(&world);
    rested_send(all, "GET", "/v1/events", NULL, NULL);
    rested_send(some, "GET", "/v1/events?idPrefix=b&status=completed,failed", NULL, NULL);
    EXPECT_EQ(200, all->status);
    EXPECT(line_has_header(all, "content-type: text/event-stream"));
    start(line, "a", "done");
    EXPECT_EQ(201,
              rested_ask(line, "PUT", "/v1/instances/other?hub=h2", NULL, "{\"name\":\"done\"}"));
    start(line, "b1", "done");
    await_part(some, "\"id\":\"b1\"");
    EXPECT(line_has(some, "event: instance\ndata: {\"id\":\"b1\",\"hub\":\"default\","
                          "\"name\":\"done\",\"status\":\"completed\",\"time\":\"2"));
    EXPECT(!line_has(some, "\"id\":\"a\""));
    EXPECT(!line_has(some, "pending"));
    await_part(all, "\"id\":\"b1\",\"hub\":\"default\",\"name\":\"done\",\"status\":\"completed\"");
    EXPECT(
        line_has(all, "\"id\":\"a\",\"hub\":\"default\",\"name\":\"done\",\"status\":\"pending\""));
    EXPECT(!line_has(all, "\"id\":\"other\"")); /* in another hub */
    EXPECT(!all->is_over);
    size_t before = all->body.len;
    rested_advance_ms(&world, 15001);
    EXPECT(all->body.len > before);
    EXPECT_TEXT(":\n\n", line_body(all) + before);
    EXPECT_EQ(400, rested_ask(line, "GET", "/v1/events?status=dead", NULL, NULL));
    EXPECT_EQ(200, rested_ask(line, "HEAD", "/v1/events", NULL, NULL));
    rest_drain(world.rest);
    rested_turn(&world);
    EXPECT(all->is_over);
    rested_close(&world);
}

/* The id of the last event in what came. */
static void last_id(const struct line *line, char out[64])
{
    const char *at = line_body(line);
    const char *last = NULL;

    while ((at = strstr(at, "id: ")) != NULL) {
        last = at;
        at += 4;
    }
    EXPECT(last != NULL);
    (void)snprintf(out, 64, "%.*s", (int)strcspn(last + 4, "\n"), last + 4);
}

/* Who comes back with the last id gets what came meanwhile, or is told that there is a gap. */
TEST(a_stream_can_be_resumed)
{
    struct line *first = open_world(1);
    struct line *line = rested_line(&world);
    char id[64], headers[128];
    rested_send(first, "GET", "/v1/events", NULL, NULL);
    last_id(first, id); /* there is one before the first event */
    rested_hang_up(first);
    start(line, "a", "done");
    EXPECT_EQ(200, rested_ask(line, "GET", "/v1/instances/a", "Prefer: wait=20\r\n", NULL));
    struct line *again = rested_line(&world);
    (void)snprintf(headers, sizeof headers, "Last-Event-ID: %s\r\n", id);
    rested_send(again, "GET", "/v1/events", headers, NULL);
    await_part(again, "\"status\":\"completed\"");
    EXPECT(line_has(again, "\"status\":\"pending\""));
    EXPECT(!line_has(again, "event: gap"));
    last_id(again, id);
    rested_hang_up(again);

    rested_advance_ms(&world, 61000); /* nobody reads: nothing is collected any more */
    start(line, "b", "done");
    EXPECT_EQ(200, rested_ask(line, "GET", "/v1/instances/b", "Prefer: wait=20\r\n", NULL));
    again = rested_line(&world);
    (void)snprintf(headers, sizeof headers, "Last-Event-ID: %s\r\n", id);
    rested_send(again, "GET", "/v1/events", headers, NULL);
    await_part(again, "event: gap");
    start(line, "c", "done");
    await_part(again, "\"id\":\"c\"");
    EXPECT(!line_has(again, "\"id\":\"b\""));
    struct line *other = rested_line(&world);
    rested_send(other, "GET", "/v1/events", "Last-Event-ID: 12-7\r\n", NULL);
    await_part(other, "event: gap");
    rested_close(&world);
}

/* As a host would tell it; of a shard that there is not, so that no host's thread is in the way. */
static void pretend(int from, int to)
{
    char key[40];

    for (int n = from; n < to; n++) {
        (void)snprintf(key, sizeof key, "default/x%d", n);
        struct host_change change = {
            .key = bytes_of_text(key),
            .time_ns = NS_PER_S,
            .status = STATUS_RUNNING,
            .name = BYTES_LITERAL("o"),
        };
        feed_changed(world.options.feed, 9, &change);
        if (n % 100 == 99) feed_changed(world.options.feed, 9, NULL);
        if (n % 1000 == 999) rested_turn(&world);
    }
}

/* x0, x1, ... each once and in this order, up to one before `to`. */
static void expect_in_order(const struct line *line, int from, int to)
{
    const char *at = line_body(line);
    char part[40];

    for (int n = from; n < to; n++) {
        (void)snprintf(part, sizeof part, "\"id\":\"x%d\"", n);
        const char *next = strstr(at, "\"id\":\"x");
        if (next == NULL || strncmp(next, part, strlen(part)) != 0)
            test_fail(__FILE__, __LINE__, "not %s, but %.20s", part, next == NULL ? "" : next);
        at = next + 1;
    }
    EXPECT(strstr(at, "\"id\":\"x") == NULL);
}

/* Readers share what is written for them; where each began does not matter, nor who else reads. */
TEST(readers_who_began_at_different_places_miss_nothing)
{
    struct line *first = open_world(1);
    struct line *second = rested_line(&world);
    struct line *third = rested_line(&world);
    struct line *elsewhere = rested_line(&world);
    char id[64], headers[128];
    rested_send(first, "GET", "/v1/events", NULL, NULL);
    pretend(0, 100);
    rested_turn(&world);
    rested_send(second, "GET", "/v1/events", NULL, NULL);
    rested_send(elsewhere, "GET", "/v1/events?hub=h2", NULL, NULL);
    pretend(100, 130);
    feed_changed(world.options.feed, 9, NULL);
    await_part(first, "\"id\":\"x129\"");
    last_id(first, id);
    rested_hang_up(first);
    pretend(130, 5000);
    (void)snprintf(headers, sizeof headers, "Last-Event-ID: %s\r\n", id);
    rested_send(third, "GET", "/v1/events", headers, NULL);
    await_part(third, "\"id\":\"x4999\"");
    await_part(second, "\"id\":\"x4999\"");
    expect_in_order(second, 100, 5000);
    expect_in_order(third, 130, 5000);
    EXPECT(!line_has(second, "event: gap"));
    EXPECT(!line_has(third, "event: gap"));
    EXPECT(!line_has(elsewhere, "event: instance"));
    rested_close(&world);
}

static size_t queued_for_all(void)
{
    size_t size = 0;

    for (struct list *n = list_first(&world.rest->asks); n != NULL;
         n = list_next(&world.rest->asks, n)) {
        const struct ask *ask = container_of(n, struct ask, node);
        if (!ask->is_answered) size += http_queued(ask->exchange);
    }
    return size;
}

/* What is written for all readers in one go has a limit: other work comes in between. */
TEST(readers_have_a_share_of_the_time)
{
    struct line *lines[6] = {open_world(1)};
    for (int n = 1; n < 6; n++) lines[n] = rested_line(&world);
    for (int n = 0; n < 6; n++) rested_send(lines[n], "GET", "/v1/events", NULL, NULL);
    rested_turn(&world);
    for (int n = 0; n < 20; n++) pretend(n * 1000, n * 1000 + 999); /* without a turn */
    feed_changed(world.options.feed, 9, NULL);
    rest_set_now(world.rest, served_now_ns(&world.served));
    rest_bell(world.rest);
    EXPECT(queued_for_all() > 100000);
    EXPECT(queued_for_all() < 1u << 20); /* all together could keep half as much again */
    size_t first = queued_for_all();
    rest_bell(world.rest); /* nothing new, and no time has passed */
    (void)rest_tick(world.rest);
    EXPECT_EQ(first, queued_for_all());
    for (int n = 0; n < 6; n++) await_part(lines[n], "\"id\":\"x19998\"");
    rested_close(&world);
}

/* Who does not read costs no more than a connection may; when it reads again it hears of the gap,
 * and of everything after it. */
TEST(a_slow_reader_has_a_gap)
{
    struct line *slow = open_world(1);
    struct line *fast = rested_line(&world);
    rested_send(slow, "GET", "/v1/events", NULL, NULL);
    rested_send(fast, "GET", "/v1/events?idPrefix=x99", NULL, NULL);
    pretend(0, 1000);
    slow->is_deaf = true;
    pretend(1000, 100000);
    size_t used = world.mem.used;
    pretend(100000, 300000);
    EXPECT(world.mem.used < used + (1u << 20));
    await_part(fast, "\"id\":\"x99999\"");
    int n = 0;
    for (const char *at = line_body(fast); (at = strstr(at, "event: instance")) != NULL; at++) n++;
    EXPECT_EQ(1 + 10 + 100 + 1000, n);
    EXPECT(!line_has(fast, "event: gap"));
    slow->is_deaf = false;
    await_part(slow, "event: gap");
    EXPECT(line_has(slow, "\"id\":\"x999\""));
    EXPECT(!line_has(slow, "\"id\":\"x299999\""));
    pretend(300000, 300100);
    await_part(slow, "\"id\":\"x300099\"");
    rested_close(&world);
}

/* One alert on a page of its own. */
static void pretend_alert(const char *text)
{
    struct host_change change = {.key = BYTES_LITERAL("default/a"), .is_alert = true, .text = text};

    feed_changed(world.options.feed, 9, &change);
    feed_changed(world.options.feed, 9, NULL);
}

/* What is dropped was read already: then it is no gap. */
TEST(old_changes_go_when_they_were_read)
{
    static char text[60000];
    struct line *line = open_world(1);
    rested_send(line, "GET", "/v1/events", NULL, NULL);
    memset(text, 'a', sizeof text - 1);
    pretend_alert(text);
    await_part(line, "event: alert");
    for (int n = 0; n < 69; n++) pretend_alert(text); /* together too much by the first one */
    pretend_alert("the last");
    await_part(line, "the last");
    EXPECT(!line_has(line, "event: gap"));
    rested_close(&world);
}

/* What comes faster than it can be taken is a gap too, not memory. */
TEST(a_feed_that_is_too_fast_has_a_gap)
{
    struct line *line = open_world(1);
    rested_send(line, "GET", "/v1/events", NULL, NULL);
    for (int n = 0; n < 10000; n++) pretend_alert("one of many");
    await_part(line, "event: gap");
    pretend_alert("the last");
    await_part(line, "event: alert\ndata: {\"id\":\"a\",\"hub\":\"default\",\"text\":\"the last\"");
    rested_close(&world);
}

/* ---- the history of one ---- */

TEST(a_history_is_followed_to_its_end)
{
    char token[256], id[64], headers[128];
    struct line *tail = open_world(1);
    struct line *line = rested_line(&world);
    EXPECT_EQ(404, rested_ask(tail, "GET", "/v1/instances/none/events", NULL, NULL));
    start(line, "a", "seq1");
    rested_send(tail, "GET", "/v1/instances/a/events", NULL, NULL);
    await_part(tail, "taskScheduled");
    EXPECT(line_has(tail, "event: history\ndata: {"));
    EXPECT(line_has(tail, "executionStarted"));
    EXPECT(line_has(tail, "id: 3."));
    EXPECT(!tail->is_over);
    last_id(tail, id);
    EXPECT_EQ(200, poll_for(line, "{\"wait\":\"20s\"}"));
    EXPECT(line_value(line, "token", token));
    for (int n = 0; n < 6; n++) { /* the engine is asked less and less, every 8 s in the end */
        rested_advance_ms(&world, 500 << n);
        await_quiet();
    }
    int64_t begin_ns = clock_mono_ns();
    EXPECT_EQ(200, tell(line, token, "complete", "[1,\n2]"));
    EXPECT_EQ(200, rested_await(tail)); /* by its change of status, not by time */
    EXPECT(clock_mono_ns() - begin_ns < 7 * NS_PER_S);
    EXPECT(line_has(tail, "data: {\"eventId\""));
    EXPECT(line_has(tail, "[1,\ndata: 2]"));
    EXPECT(line_has(tail, "executionCompleted"));
    EXPECT(line_has(tail, "event: end\n"));

    struct line *again = rested_line(&world);
    (void)snprintf(headers, sizeof headers, "Last-Event-ID: %s\r\n", id);
    EXPECT_EQ(200, rested_ask(again, "GET", "/v1/instances/a/events", headers, NULL));
    EXPECT(!line_has(again, "taskScheduled"));
    EXPECT(line_has(again, "taskCompleted"));
    EXPECT(line_has(again, "event: end\n"));
    last_id(again, id);
    (void)snprintf(headers, sizeof headers, "Last-Event-ID: %s\r\n", id);
    EXPECT_EQ(200, rested_ask(again, "GET", "/v1/instances/a/events", headers, NULL));
    EXPECT(!line_has(again, "event: history"));
    EXPECT(line_has(again, "event: end\n"));
    EXPECT_EQ(200,
              rested_ask(again, "GET", "/v1/instances/a/events", "Last-Event-ID: 900\r\n", NULL));
    EXPECT(line_has(again, "executionStarted")); /* no such number: from the beginning */
    rested_close(&world);
}

/* Of those who follow one instance, one asks for all; when it goes, the next does. */
TEST(followers_of_one_instance_ask_once)
{
    char token[256];
    struct line *line = open_world(1);
    struct line *tails[5];
    start(line, "a", "seq1");
    for (int n = 0; n < 5; n++) {
        tails[n] = rested_line(&world);
        rested_send(tails[n], "GET", "/v1/instances/a/events", NULL, NULL);
        await_part(tails[n], "taskScheduled");
    }
    for (int n = 0; n < 6; n++) {
        rested_advance_ms(&world, 8001);
        await_quiet();
    }
    world.served.ahead_ns += 9 * NS_PER_S;
    rest_set_now(world.rest, served_now_ns(&world.served));
    (void)rest_tick(world.rest);
    EXPECT_EQ(1, desk_errands_n(world.rest->desk));
    await_quiet();
    rested_hang_up(tails[4]); /* it came last: it was the one */
    await_quiet();
    world.served.ahead_ns += 9 * NS_PER_S;
    rest_set_now(world.rest, served_now_ns(&world.served));
    (void)rest_tick(world.rest);
    EXPECT_EQ(1, desk_errands_n(world.rest->desk));
    EXPECT_EQ(200, poll_for(line, "{\"wait\":\"20s\"}"));
    EXPECT(line_value(line, "token", token));
    EXPECT_EQ(200, tell(line, token, "complete", "1"));
    for (int n = 0; n < 4; n++) await_part(tails[n], "event: end\n");
    rested_close(&world);
}

/* A history whose reader goes away, or whose server stops, leaves nothing. */
TEST(followers_may_go)
{
    struct line *line = open_world(1);
    start(line, "a", "seq1");
    struct line *gone = rested_line(&world);
    rested_send(gone, "GET", "/v1/instances/a/events", NULL, NULL);
    rested_hang_up(gone);
    struct line *tail = rested_line(&world);
    rested_send(tail, "GET", "/v1/instances/a/events", NULL, NULL);
    await_part(tail, "executionStarted");
    EXPECT_EQ(200, rested_ask(line, "DELETE", "/v1/instances/a?force=true", NULL, NULL));
    await_part(tail, "event: end\n");
    rested_close(&world);
}
