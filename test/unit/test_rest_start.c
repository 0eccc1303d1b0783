/* SPDX-License-Identifier: Apache-2.0
 *
 * Starting instances over HTTP: PUT is idempotent, POST does what `reuse` says, a batch answers
 * line by line.
 */
#include "test/lib/rested.h"
#include "test/lib/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct rested world;

static struct line *open_world(void)
{
    rested_init(&world);
    rested_open(&world, test_directory(), true);
    return rested_line(&world);
}

/* Repeating a PUT is harmless: the second one finds what the first did. */
TEST(put_starts_once_and_says_so_again)
{
    struct line *line = open_world();
    const char *body = "{\"name\":\"wait\",\"version\":\"1.2\",\"input\":{\"a\" : [1]}}";
    char first[256], second[256];

    EXPECT_EQ(201, rested_ask(line, "PUT", "/v1/instances/order-7", NULL, body));
    EXPECT(line_has(line, "\"id\":\"order-7\""));
    EXPECT(line_value(line, "executionId", first));
    EXPECT_EQ(200, rested_ask(line, "PUT", "/v1/instances/order-7", NULL, body));
    EXPECT(line_value(line, "executionId", second));
    EXPECT_TEXT(first, second);
    rested_close(&world);
}

/* Another name, version or input under the same id is somebody's mistake: nothing is replaced. */
TEST(put_of_something_else_is_refused)
{
    struct line *line = open_world();
    const char *others[] = {
        "{\"name\":\"done\",\"version\":\"1\",\"input\":1}",
        "{\"name\":\"wait\",\"version\":\"2\",\"input\":1}",
        "{\"name\":\"wait\",\"input\":1}",
        "{\"name\":\"wait\",\"version\":\"1\",\"input\":2}",
        "{\"name\":\"wait\",\"version\":\"1\"}",
    };

    EXPECT_EQ(201, rested_ask(line, "PUT", "/v1/instances/x", NULL,
                              "{\"name\":\"wait\",\"version\":\"1\",\"input\":1}"));
    for (size_t n = 0; n < sizeof others / sizeof others[0]; n++) {
        EXPECT_EQ(409, rested_ask(line, "PUT", "/v1/instances/x", NULL, others[n]));
        EXPECT(line_has(line, "\"code\":\"instance-differs\""));
        EXPECT(line_has_header(line, "content-type: application/problem+json"));
    }
    EXPECT_EQ(200, rested_ask(line, "PUT", "/v1/instances/x", NULL,
                              "{\"name\":\"wait\",\"version\":\"1\",\"input\":1,\"id\":\"x\"}"));
    rested_close(&world);
}

/* One that has ended is found as well: its id is not free for another. */
TEST(put_of_one_that_has_ended_finds_it)
{
    struct line *line = open_world();

    EXPECT_EQ(201, rested_ask(line, "PUT", "/v1/instances/x", "Prefer: wait=20\r\n",
                              "{\"name\":\"done\"}"));
    EXPECT(line_has(line, "\"status\":\"completed\""));
    EXPECT(line_has(line, "\"output\":\"result\""));
    EXPECT(line_has_header(line, "preference-applied: wait=20"));
    EXPECT_EQ(200, rested_ask(line, "PUT", "/v1/instances/x", NULL, "{\"name\":\"done\"}"));
    rested_close(&world);
}

TEST(post_makes_an_id_and_says_where_it_is)
{
    struct line *line = open_world();
    char id[256], path[300];

    EXPECT_EQ(202,
              rested_ask(line, "POST", "/v1/instances?hub=other", NULL, "{\"name\":\"wait\"}"));
    EXPECT(line_value(line, "id", id));
    EXPECT_EQ(32, strlen(id));
    (void)snprintf(path, sizeof path, "location: /v1/instances/%s?hub=other\r\n", id);
    EXPECT(line_has_header(line, path));
    (void)snprintf(path, sizeof path, "/v1/instances/%s?hub=other", id);
    EXPECT_EQ(200, rested_ask(line, "GET", path, NULL, NULL));
    (void)snprintf(path, sizeof path, "/v1/instances/%s", id);
    EXPECT_EQ(404, rested_ask(line, "GET", path, NULL, NULL)); /* hubs are apart */
    rested_close(&world);
}

/* ended (default), never, always, ignore. */
TEST(post_reuses_an_id_as_it_is_told)
{
    struct line *line = open_world();
    const char *path = "/v1/instances";
    char first[256], second[256];

    EXPECT_EQ(202, rested_ask(line, "POST", path, NULL, "{\"name\":\"wait\",\"id\":\"a\"}"));
    EXPECT(line_value(line, "executionId", first));
    EXPECT_EQ(409, rested_ask(line, "POST", path, NULL, "{\"name\":\"wait\",\"id\":\"a\"}"));
    EXPECT(line_has(line, "\"code\":\"instance-exists\""));
    EXPECT_EQ(409, rested_ask(line, "POST", path, NULL,
                              "{\"name\":\"wait\",\"id\":\"a\",\"reuse\":\"never\"}"));
    EXPECT_EQ(200, rested_ask(line, "POST", path, NULL,
                              "{\"name\":\"other\",\"id\":\"a\",\"reuse\":\"ignore\"}"));
    EXPECT(line_value(line, "executionId", second));
    EXPECT_TEXT(first, second);
    EXPECT_EQ(202, rested_ask(line, "POST", path, NULL,
                              "{\"name\":\"wait\",\"id\":\"a\",\"reuse\":\"always\"}"));
    EXPECT(line_value(line, "executionId", second));
    EXPECT(strcmp(first, second) != 0);
    EXPECT_EQ(202, rested_ask(line, "POST", "/v1/instances/a/terminate", NULL, NULL));
    EXPECT_EQ(202, rested_ask(line, "POST", path, NULL,
                              "{\"name\":\"wait\",\"id\":\"a\",\"reuse\":\"ended\"}"));
    EXPECT_EQ(409, rested_ask(line, "POST", path, NULL,
                              "{\"name\":\"wait\",\"id\":\"a\",\"reuse\":\"never\"}"));
    rested_close(&world);
}

/* Everything that was sent is shown again, the input byte for byte. */
TEST(what_was_sent_is_shown)
{
    struct line *line = open_world();

    EXPECT_EQ(202, rested_ask(line, "POST", "/v1/instances", NULL,
                              "{\"id\":\"\\u00e4 b\",\"name\":\"w\\u0061it\",\"version\":\"7\","
                              "\"input\": {\"x\" :1e2, \"y\":\"\\u00e4\"} ,"
                              "\"tags\":{\"customer\":\"4\\\"2\",\"b\":\"\"},"
                              "\"scheduledAt\":\"2100-01-01T01:00:00.5+01:00\","
                              "\"replyTo\":\"https://shop.example/hook?a=b\","
                              "\"correlationId\":\"c-1\"}"));
    EXPECT(line_has_header(line, "location: /v1/instances/%C3%A4%20b\r\n"));
    EXPECT_EQ(200, rested_ask(line, "GET", "/v1/instances/%c3%a4%20b", NULL, NULL));
    EXPECT(line_has(line, "\"name\":\"wait\",\"version\":\"7\",\"status\":\"pending\""));
    EXPECT(line_has(line, "\"input\":{\"x\" :1e2, \"y\":\"\\u00e4\"},"));
    EXPECT(line_has(line, "\"tags\":{\"customer\":\"4\\\"2\",\"b\":\"\"}"));
    EXPECT(line_has(line, "\"scheduledAt\":\"2100-01-01T00:00:00.5Z\""));
    EXPECT(line_has(line, "\"replyTo\":\"https://shop.example/hook?a=b\""));
    EXPECT(line_has(line, "\"correlationId\":\"c-1\""));
    EXPECT(!line_has(line, "norn."));
    rested_close(&world);
}

/* The last time that can be kept is shown as it was given, in a list as well. */
TEST(a_start_may_wait_until_the_end_of_time)
{
    struct line *line = open_world();

    EXPECT_EQ(201, rested_ask(line, "PUT", "/v1/instances/late", NULL,
                              "{\"name\":\"wait\",\"scheduledAt\":\"2262-04-11T23:47:16.854Z\"}"));
    EXPECT_EQ(200, rested_ask(line, "GET", "/v1/instances", NULL, NULL));
    EXPECT(line_has(line, "\"scheduledAt\":\"2262-04-11T23:47:16.854Z\""));
    rested_close(&world);
}

static void expect_bad(struct line *line, const char *body, const char *part)
{
    EXPECT_EQ(400, rested_ask(line, "POST", "/v1/instances", NULL, body));
    EXPECT(line_has(line, "\"code\":\"bad-json\""));
    if (!line_has(line, part)) EXPECT_TEXT(part, line_body(line));
}

/* What is not understood is refused, with its place. */
TEST(a_body_that_is_wrong_is_refused_with_the_reason)
{
    struct line *line = open_world();

    expect_bad(line, "", "no body");
    expect_bad(line, "nonsense", "an object should be here (at byte 0)");
    expect_bad(line, "[]", "an object should be here");
    expect_bad(line, "{}", "'name' is missing");
    expect_bad(line, "{\"name\":null}", "'name' is missing");
    expect_bad(line, "{\"name\":7}", "'name' must be a text (at byte 8)");
    expect_bad(line, "{\"name\":\"a\",\"nmae\":1}", "did you mean 'name'? (at byte 12)");
    expect_bad(line, "{\"name\":\"a\",\"zzzzzzzzzz\":1}", "there is no field 'zzzzzzzzzz' here (");
    expect_bad(line, "{\"name\":\"a\",\"name\":\"b\"}", "twice (at byte 12)");
    expect_bad(line, "{\"name\":\"a\",\"input\":{\"x\":}}", "a value should be here (at byte 25)");
    expect_bad(line, "{\"name\":\"a\"} x", "more behind the object");
    expect_bad(line, "{\"name\":\"a\",}", "a string should begin here");
    expect_bad(line, "{\"name\":\"\\ud800\"}", "surrogate");
    expect_bad(line, "{\"name\":\"\\u0000\"}", "NUL");
    expect_bad(line, "{\"name\":\"\xff\"}", "not UTF-8 (at byte 9)");
    expect_bad(line, "{\"name\":\"a\",\"tags\":{\"x\":1}}", "'x' must be a text");
    expect_bad(line, "{\"name\":\"a\",\"tags\":[]}", "'tags' must be an object");
    expect_bad(line, "{\"name\":\"a\",\"tags\":{\"norn.x\":\"1\"}}", "norn.");
    expect_bad(line, "{\"name\":\"a\",\"tags\":{\"x\":\"1\",\"x\":\"2\"}}", "twice");
    expect_bad(line, "{\"name\":\"a\",\"scheduledAt\":\"tomorrow\"}", "'scheduledAt'");
    expect_bad(line, "{\"name\":\"a\",\"scheduledAt\":\"2262-04-11T23:47:16.854775807Z\"}",
               "'scheduledAt' must not be after 2262");
    expect_bad(line, "{\"name\":\"a\",\"scheduledAt\":\"2262-04-11T23:47:16.854000001Z\"}",
               "'scheduledAt' must not be after 2262");
    expect_bad(line, "{\"name\":\"a\",\"reuse\":\"maybe\"}", "'reuse'");
    expect_bad(line, "{\"name\":\"a\",\"replyTo\":\"ftp://x\"}", "'replyTo'");
    expect_bad(line, "{\"name\":\"a\",\"replyTo\":\"/x\"}", "'replyTo'");
    expect_bad(line, "{\"name\":\"a\",\"replyTo\":\"http://a:b@x/\"}", "'replyTo'");
    EXPECT_EQ(400, rested_ask(line, "PUT", "/v1/instances/x", NULL,
                              "{\"name\":\"a\",\"reuse\":\"ended\"}"));
    EXPECT_EQ(400,
              rested_ask(line, "PUT", "/v1/instances/x", NULL, "{\"name\":\"a\",\"id\":\"y\"}"));
    /* what only the engine knows */
    EXPECT_EQ(400, rested_ask(line, "PUT", "/v1/instances/a%2fb", NULL, "{\"name\":\"a\"}"));
    EXPECT(line_has(line, "must not have any of"));
    EXPECT_EQ(400, rested_ask(line, "PUT", "/v1/instances/@a@b", NULL, "{\"name\":\"a\"}"));
    EXPECT_EQ(200, rested_ask(line, "GET", "/v1/instances:count", NULL, NULL));
    EXPECT_TEXT("{\"count\":0,\"isExact\":true}", line_body(line));
    rested_close(&world);
}

/* A payload above what the engine takes is told so before it is tried. */
TEST(an_input_above_the_limit_is_too_large)
{
    struct line *line = open_world();
    size_t size = ((size_t)16 << 20) + 100;
    char *body = malloc(size + 64);

    EXPECT(body != NULL);
    world.served.limits.message_size_max = (size_t)20 << 20;
    size_t len = (size_t)snprintf(body, 64, "{\"name\":\"wait\",\"input\":\"");
    memset(body + len, 'x', size);
    memcpy(body + len + size, "\"}", 3);
    EXPECT_EQ(413, rested_ask(line, "POST", "/v1/instances", NULL, body));
    EXPECT(line_has(line, "\"code\":\"too-large\""));
    free(body);
    rested_close(&world);
}

/* Prefer: wait answers when the instance has ended, or with what is known when the time is over. */
TEST(a_start_waits_for_the_end_or_the_time)
{
    struct line *line = open_world();

    EXPECT_EQ(200, rested_ask(line, "POST", "/v1/instances", "Prefer: respond-async, wait=20\r\n",
                              "{\"name\":\"fail\"}"));
    EXPECT(line_has(line, "\"status\":\"failed\""));
    EXPECT(line_has(line, "\"failure\":{\"type\":\"Bad\",\"message\":\"it went\"}"));
    rested_send(line, "POST", "/v1/instances", "Prefer: wait=5\r\n",
                "{\"name\":\"wait\",\"id\":\"w\"}");
    rested_turn(&world);
    EXPECT(!line->is_over);
    EXPECT_EQ(202, rested_await_long(line));
    EXPECT(line_has(line, "\"id\":\"w\""));
    EXPECT(line_has_header(line, "preference-applied: wait=5"));
    rested_close(&world);
}

/* ---- batches ---- */

/* Every line has its own answer, in the order of the lines, and none stops the others. Empty ones
 * have none, and count. */
TEST(a_batch_answers_each_line_in_order)
{
    struct line *line = open_world();
    const char *type = "Content-Type: application/x-ndjson\r\n";

    EXPECT_EQ(200, rested_ask(line, "POST", "/v1/instances:batch", type,
                              "{\"name\":\"wait\",\"id\":\"a\"}\n"
                              "nonsense\r\n"
                              "\n"
                              "{\"name\":\"wait\",\"id\":\"a\"}\n"
                              "{\"name\":\"wait\",\"id\":\"a\",\"reuse\":\"ignore\"}\n"
                              "{\"name\":\"wait\",\"id\":\"b\"}"));
    EXPECT(line_has_header(line, "content-type: application/x-ndjson"));
    EXPECT(strncmp(line_body(line),
                   "{\"line\":1,\"id\":\"a\",\"status\":202}\n{\"line\":2,\"problem\":"
                   "{\"type\":\"urn:norn:error:bad-json\"",
                   80) == 0);
    EXPECT(line_has(line, "\n{\"line\":4,\"id\":\"a\",\"problem\":{\"type\":\"urn:norn:error:"
                          "instance-exists\""));
    EXPECT(line_has(line, "\n{\"line\":5,\"id\":\"a\",\"status\":200}\n"
                          "{\"line\":6,\"id\":\"b\",\"status\":202}\n"));
    rested_close(&world);
}

/* More lines than are under way at once, and an engine that does not always take them. */
TEST(a_large_batch_goes_through_a_full_engine)
{
    struct line *line = open_world();
    struct buffer body;
    char text[80];

    buffer_init(&body, mem_process());
    for (unsigned n = 0; n < 2500; n++) {
        (void)snprintf(text, sizeof text, "{\"name\":\"x\",\"id\":\"i-%u\"}\n", n);
        buffer_append_bytes(&body, bytes_of_text(text));
    }
    buffer_u8(&body, '\0');
    world.served.refuse_every = 7;
    EXPECT_EQ(200, rested_ask(line, "POST", "/v1/instances:batch",
                              "Content-Type: application/x-ndjson\r\n", (const char *)body.ptr));
    world.served.refuse_every = 0;
    const char *at = line_body(line);
    for (unsigned n = 0; n < 2500; n++) {
        int size =
            snprintf(text, sizeof text, "{\"line\":%u,\"id\":\"i-%u\",\"status\":202}\n", n + 1, n);
        EXPECT(strncmp(at, text, (size_t)size) == 0);
        at += size;
    }
    EXPECT_TEXT("", at);
    EXPECT_EQ(200, rested_ask(line, "GET", "/v1/instances:count", NULL, NULL));
    EXPECT_TEXT("{\"count\":2500,\"isExact\":true}", line_body(line));
    buffer_release(&body);
    rested_close(&world);
}

TEST(a_batch_that_is_none_is_refused)
{
    struct line *line = open_world();

    EXPECT_EQ(400, rested_ask(line, "POST", "/v1/instances:batch", "", ""));
    EXPECT_EQ(400, rested_ask(line, "POST", "/v1/instances:batch", "", "\n\r\n\n"));
    EXPECT_EQ(415, rested_ask(line, "POST", "/v1/instances:batch", "Content-Type: text/csv\r\n",
                              "{\"name\":\"wait\"}\n"));
    EXPECT_EQ(405, rested_ask(line, "GET", "/v1/instances:batch", NULL, NULL));
    EXPECT(line_has_header(line, "allow: POST\r\n"));
    rested_close(&world);
}
