/* SPDX-License-Identifier: Apache-2.0
 *
 * The API when something ends early: peers that go away, the server that stops, memory that is
 * short, an engine that is full. Nothing is answered twice, nothing is left over (the kit expects
 * that no memory is).
 */
#include "test/lib/rested.h"
#include "test/lib/test.h"

#include <stdio.h>
#include <string.h>

static struct rested world;

static struct line *open_world(void)
{
    rested_init(&world);
    rested_open(&world, test_directory(), true);
    return rested_line(&world);
}

/* One request of each kind, good ones. */
static const struct {
    const char *method;
    const char *path;
    const char *headers;
    const char *body;
} requests[] = {
    {"PUT", "/v1/instances/a", NULL, "{\"name\":\"wait\",\"input\":1,\"tags\":{\"x\":\"y\"}}"},
    {"PUT", "/v1/instances/a", NULL, "{\"name\":\"wait\",\"input\":1}"},
    {"PUT", "/v1/instances/a", "Prefer: wait=20\r\n", "{\"name\":\"wait\",\"input\":1}"},
    {"POST", "/v1/instances", NULL, "{\"name\":\"d\\u006fne\",\"replyTo\":\"http://a/\"}"},
    {"POST", "/v1/instances:batch", "", "{\"name\":\"wait\",\"id\":\"b\"}\n{\n{\"name\":\"x\"}"},
    {"GET", "/v1/instances/a", NULL, NULL},
    {"GET", "/v1/instances/a", "Prefer: wait=20\r\n", NULL},
    {"GET", "/v1/instances?limit=1&name=wait", NULL, NULL},
    {"GET", "/v1/instances:count", NULL, NULL},
    {"GET", "/v1/instances/a/history", NULL, NULL},
    {"GET", "/v1/instances/a/children", NULL, NULL},
    {"POST", "/v1/instances/a/events/%67o", NULL, "{}"},
    {"POST", "/v1/instances/a/suspend", NULL, "{\"reason\":\"x\"}"},
    {"POST", "/v1/instances/a/resume", NULL, NULL},
    {"POST", "/v1/instances/a/restart", NULL, "{\"newId\":true}"},
    {"POST", "/v1/instances:purge", NULL, "{\"name\":\"done\",\"dryRun\":true}"},
    {"POST", "/v1/instances:purge", NULL, "{\"name\":\"done\"}"},
    {"POST", "/v1/entities/e/k/op", NULL, "1"},
    {"GET", "/v1/entities/e/k", NULL, NULL},
    {"GET", "/v1/entities?name=e", NULL, NULL},
    {"GET", "/v1/stats", NULL, NULL},
    {"GET", "/v1/instances/a/why", NULL, NULL},
    {"GET", "/v1/alerts?limit=3", NULL, NULL},
    {"POST", "/v1/agents/x/poll", NULL, "{\"wait\":\"1ms\",\"worker\":\"w\"}"},
    {"GET", "/openapi.json", NULL, NULL},
    {"DELETE", "/v1/instances/nothing", NULL, NULL},
    {"GET", "/v1/nothing", NULL, NULL},
};
#define REQUESTS_N (sizeof requests / sizeof requests[0])

static void send(struct line *line, size_t n)
{
    rested_send(line, requests[n].method, requests[n].path, requests[n].headers, requests[n].body);
}

/* The answer of an exchange whose peer is gone goes nowhere, and everything is freed. */
TEST(peers_that_go_away_leave_nothing)
{
    rested_init(&world);
    rested_open(&world, test_directory(), true);

    for (size_t n = 0; n < REQUESTS_N; n++) {
        struct line *line = rested_line(&world);
        send(line, n);
        rested_hang_up(line);
        rested_turn(&world);
        rested_renew(&world);
    }
    rested_close(&world);
}

/* A wait whose peer is gone is cancelled: the instance may never end. */
TEST(a_wait_is_cancelled_when_its_peer_is_gone)
{
    struct line *line = open_world();
    struct front_stats stats;

    send(line, 2);
    for (unsigned n = 0; n < 50; n++) rested_turn(&world);
    rested_hang_up(line);
    for (unsigned n = 0; n < 2000 && !rest_is_quiet(world.rest); n++) {
        struct line *other = world.lines_n == 1 ? rested_line(&world) : &world.lines[1];
        EXPECT_EQ(200, rested_ask(other, "GET", "/v1/instances", NULL, NULL));
    }
    EXPECT(rest_is_quiet(world.rest));
    rest_stats(world.rest, &stats);
    EXPECT_EQ(0, stats.open_n);
    rested_close(&world);
}

/* The same when the engine does not take the CANCEL at first. */
TEST(a_cancel_that_is_not_taken_is_tried_again)
{
    struct line *line = open_world();
    struct line *other = rested_line(&world);

    EXPECT_EQ(201, rested_ask(line, "PUT", "/v1/instances/a", NULL, "{\"name\":\"wait\"}"));
    send(line, 6);
    world.served.refuse_every = 1;
    rested_hang_up(line);
    rested_turn(&world);
    EXPECT(!rest_is_quiet(world.rest));
    world.served.refuse_every = 0;
    for (unsigned n = 0; n < 2000 && !rest_is_quiet(world.rest); n++) {
        EXPECT_EQ(404, rested_ask(other, "GET", "/v1/instances/x", NULL, NULL));
    }
    EXPECT(rest_is_quiet(world.rest));
    rested_close(&world);
}

/* A server that stops answers those that wait with what is known, and refuses the others. */
TEST(a_drain_answers_everybody)
{
    struct line *line = open_world();
    struct line *other = rested_line(&world);

    EXPECT_EQ(201, rested_ask(line, "PUT", "/v1/instances/a", NULL, "{\"name\":\"wait\"}"));
    send(line, 6);
    EXPECT(!line->is_over);
    rest_drain(world.rest);
    EXPECT_EQ(200, rested_await(line));
    EXPECT(line_has(line, "\"id\":\"a\""));
    EXPECT_EQ(503, rested_ask(other, "GET", "/v1/instances/a", NULL, NULL));
    EXPECT(line_has(other, "\"code\":\"draining\""));
    EXPECT(line_has_header(other, "retry-after: 5\r\n"));
    EXPECT(rest_is_quiet(world.rest));
    rested_close(&world);
}

/* An engine that takes nothing: everybody is told, or waits and is served later. */
TEST(a_full_engine_is_told)
{
    struct line *line = open_world();

    for (size_t n = 0; n < REQUESTS_N; n++) {
        if (strstr(requests[n].path, ":batch") != NULL) continue; /* has its own test */
        world.served.refuse_every = 1;
        send(line, n);
        unsigned status = rested_await_long(line);
        world.served.refuse_every = 0;
        bool is_without_engine = strcmp(requests[n].path, "/openapi.json") == 0 ||
                                 strcmp(requests[n].path, "/v1/nothing") == 0;
        if (!is_without_engine && status != 503) EXPECT_TEXT("503", requests[n].path);
        if (!is_without_engine) EXPECT(line_has_header(line, "retry-after: "));
    }
    rested_close(&world);
}

/* As many errands as may be: the next is told to come again. */
TEST(too_much_under_way_is_told)
{
    rested_init(&world);
    world.options.errands_n_max = 1;
    rested_open(&world, test_directory(), true);
    struct line *line = rested_line(&world);
    struct line *other = rested_line(&world);

    EXPECT_EQ(201, rested_ask(line, "PUT", "/v1/instances/a", NULL, "{\"name\":\"wait\"}"));
    send(line, 6);
    EXPECT_EQ(503, rested_ask(other, "GET", "/v1/instances/a", NULL, NULL));
    EXPECT(line_has(other, "\"code\":\"too-busy\""));
    EXPECT(line_has_header(other, "retry-after: 1\r\n"));
    rested_close(&world);
}

/* Whichever allocation fails: an answer, or the end of the connection, and nothing is left over. */
TEST(memory_that_is_short_is_survived)
{
    rested_init(&world);
    rested_open(&world, test_directory(), true);
    for (size_t n = 0; n < REQUESTS_N; n++) {
        bool has_failed = true;
        for (uint64_t fail_at = 1; has_failed && fail_at < 100; fail_at++) {
            struct line *line = rested_line(&world);
            world.mem.fail_at = fail_at;
            send(line, n);
            unsigned status = rested_await_long(line);
            has_failed = world.mem.fail_at == 0;
            world.mem.fail_at = 0;
            EXPECT(line->is_cut || status >= 200);
            rested_renew(&world);
        }
    }
    rested_close(&world);
}

/* A reader that is slow does not make the server keep its whole answer. */
TEST(a_batch_waits_for_a_slow_reader)
{
    struct line *line = open_world();
    struct buffer body;

    buffer_init(&body, mem_process());
    for (unsigned n = 0; n < 9000; n++) {
        buffer_append_bytes(&body, BYTES_LITERAL("{\"nothing\":1}\n"));
    }
    buffer_u8(&body, '\0');
    line->is_deaf = true;
    rested_send(line, "POST", "/v1/instances:batch", "", (const char *)body.ptr);
    EXPECT(world.mem.used < 1900000); /* its answers alone are that long */
    line->is_deaf = false;
    EXPECT_EQ(200, rested_await(line));
    EXPECT(line_has(line, "{\"line\":9000,"));
    buffer_release(&body);
    rested_close(&world);
}

/* Only who is on this machine may have files written there. */
TEST(a_backup_is_refused_to_other_machines)
{
    struct line *line = open_world();

    EXPECT_EQ(400, rested_ask(line, "POST", "/v1/backup", NULL, "{\"path\":\"here\"}"));
    EXPECT_EQ(400, rested_ask(line, "POST", "/v1/backup", NULL, "{\"path\":\"/a\\u0000b\"}"));
    world.is_stranger = true;
    line = rested_line(&world);
    EXPECT_EQ(403, rested_ask(line, "POST", "/v1/backup", NULL, "{\"path\":\"/there\"}"));
    EXPECT(line_has(line, "forbidden"));
    world.is_stranger = false;
    rested_close(&world);
}
