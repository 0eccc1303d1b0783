/* SPDX-License-Identifier: Apache-2.0
 *
 * One instance over HTTP: looks, events, steering, removal; and who may ask at all.
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

static void start(struct line *line, const char *name, const char *id)
{
    char body[200];

    (void)snprintf(body, sizeof body, "{\"name\":\"%s\",\"id\":\"%s\",\"input\":\"in\"}", name, id);
    EXPECT_EQ(202, rested_ask(line, "POST", "/v1/instances", NULL, body));
}

static void start_and_end(struct line *line, const char *name, const char *id)
{
    char body[200];

    (void)snprintf(body, sizeof body, "{\"name\":\"%s\",\"id\":\"%s\"}", name, id);
    EXPECT_EQ(200, rested_ask(line, "POST", "/v1/instances", "Prefer: wait=20\r\n", body));
}

/* ---- looking ---- */

TEST(an_instance_is_shown_with_what_it_has)
{
    struct line *line = open_world();

    start_and_end(line, "done", "a");
    EXPECT_EQ(200, rested_ask(line, "GET", "/v1/instances/a", NULL, NULL));
    EXPECT(line_has_header(line, "content-type: application/json"));
    EXPECT(strncmp(line_body(line),
                   "{\"id\":\"a\",\"hub\":\"default\",\"name\":\"done\",\"status\":"
                   "\"completed\",\"executionId\":\"",
                   70) == 0);
    EXPECT(line_has(line, "\"output\":\"result\",\"customStatus\":\"fine\""));
    EXPECT(line_has(line, "\"completedAt\":\"20"));
    EXPECT(line_has(line, "\"historyEvents\":"));
    EXPECT(!line_has(line, "\"input\""));
    EXPECT(!line_has(line, "\"failure\""));
    EXPECT_EQ(200, rested_ask(line, "GET", "/v1/instances/a?payloads=false", NULL, NULL));
    EXPECT(!line_has(line, "\"output\""));
    EXPECT_EQ(404, rested_ask(line, "GET", "/v1/instances/b", NULL, NULL));
    EXPECT(line_has(line, "\"detail\":\"there is no instance 'b' in hub 'default'\""));
    EXPECT_EQ(404, rested_ask(line, "GET", "/v1/instances/@a@b", NULL, NULL));
    rested_close(&world);
}

/* HEAD is GET without the body, and with its length. */
TEST(head_has_no_body)
{
    struct line *line = open_world();

    start(line, "wait", "a");
    EXPECT_EQ(200, rested_ask(line, "HEAD", "/v1/instances/a", NULL, NULL));
    EXPECT(line_has_header(line, "etag: \""));
    EXPECT(!line_has_header(line, "content-length: 0\r\n"));
    EXPECT_EQ(0, line->body.len);
    EXPECT_EQ(404, rested_ask(line, "HEAD", "/v1/instances/b", NULL, NULL));
    rested_close(&world);
}

/* The ETag is the version of what is shown: the same until something changes. */
TEST(who_has_it_already_is_not_given_it_again)
{
    struct line *line = open_world();
    char header[200];

    start_and_end(line, "done", "a");
    EXPECT_EQ(200, rested_ask(line, "GET", "/v1/instances/a", NULL, NULL));
    const char *etag = strstr((const char *)line->head.ptr, "etag: ") + 6;
    (void)snprintf(header, sizeof header, "If-None-Match: \"x\", %.*s\r\n",
                   (int)strcspn(etag, "\r"), etag);
    EXPECT_EQ(304, rested_ask(line, "GET", "/v1/instances/a", header, NULL));
    EXPECT_EQ(0, line->body.len);
    EXPECT_EQ(200, rested_ask(line, "GET", "/v1/instances/a?payloads=false", header, NULL));
    EXPECT_EQ(304, rested_ask(line, "GET", "/v1/instances/a", "If-None-Match: *\r\n", NULL));
    EXPECT_EQ(202, rested_ask(line, "POST", "/v1/instances/a/restart", NULL, NULL));
    EXPECT_EQ(200, rested_ask(line, "GET", "/v1/instances/a", header, NULL));
    rested_close(&world);
}

/* A look may wait for the end, too. */
TEST(a_look_waits_for_the_end_or_the_time)
{
    struct line *line = open_world();
    struct line *other = rested_line(&world);

    start(line, "wait", "a");
    rested_send(line, "GET", "/v1/instances/a", "Prefer: wait=30\r\n", NULL);
    EXPECT_EQ(202, rested_ask(other, "POST", "/v1/instances/a/terminate", NULL,
                              "{\"reason\":{\"why\":1}}"));
    EXPECT_EQ(200, rested_await(line));
    EXPECT(line_has(line, "\"status\":\"terminated\""));
    EXPECT(line_has(line, "\"output\":{\"why\":1}"));
    EXPECT_EQ(404, rested_ask(line, "GET", "/v1/instances/b", "Prefer: wait=30\r\n", NULL));
    start(line, "wait", "c");
    rested_send(line, "GET", "/v1/instances/c", "Prefer: wait=2\r\n", NULL);
    EXPECT(!line->is_over);
    EXPECT_EQ(200, rested_await_long(line));
    rested_close(&world);
}

TEST(children_are_listed)
{
    struct line *line = open_world();

    EXPECT_EQ(202, rested_ask(line, "POST", "/v1/instances", NULL,
                              "{\"name\":\"parent\",\"id\":\"p\",\"input\":7}"));
    for (unsigned n = 0; n < 2000; n++) {
        EXPECT_EQ(200, rested_ask(line, "GET", "/v1/instances/p/children", NULL, NULL));
        if (line_has(line, "7")) break;
    }
    EXPECT_TEXT("{\"items\":[\"7\"]}", line_body(line));
    for (unsigned n = 0; n < 2000; n++) {
        if (rested_ask(line, "GET", "/v1/instances/7", NULL, NULL) == 200) break;
    }
    EXPECT(line_has(line, "\"parentId\":\"p\""));
    EXPECT_EQ(404, rested_ask(line, "GET", "/v1/instances/q/children", NULL, NULL));
    rested_close(&world);
}

/* ---- steering ---- */

TEST(an_instance_is_suspended_and_resumed)
{
    struct line *line = open_world();

    start(line, "nobodys", "a");
    EXPECT_EQ(202,
              rested_ask(line, "POST", "/v1/instances/a/suspend", NULL, "{\"reason\":\"lunch\"}"));
    EXPECT_TEXT("{\"id\":\"a\"}", line_body(line));
    EXPECT_EQ(200, rested_ask(line, "GET", "/v1/instances/a", NULL, NULL));
    EXPECT(line_has(line, "\"status\":\"suspended\""));
    EXPECT_EQ(202, rested_ask(line, "POST", "/v1/instances/a/resume", NULL, NULL));
    EXPECT_EQ(200, rested_ask(line, "GET", "/v1/instances/a", NULL, NULL));
    EXPECT(line_has(line, "\"status\":\"pending\""));
    EXPECT_EQ(404, rested_ask(line, "POST", "/v1/instances/b/suspend", NULL, NULL));
    EXPECT_EQ(404, rested_ask(line, "POST", "/v1/instances/@a@b/suspend", NULL, NULL));
    EXPECT_EQ(400, rested_ask(line, "POST", "/v1/instances/a/suspend", NULL, "{\"reason\":7}"));
    EXPECT_EQ(400, rested_ask(line, "POST", "/v1/instances/a/suspend", NULL, "{\"recurse\":true}"));
    rested_close(&world);
}

/* Only what failed can go on from its failure. */
TEST(rewind_is_for_failed_ones)
{
    struct line *line = open_world();

    start(line, "wait", "a");
    EXPECT_EQ(409, rested_ask(line, "POST", "/v1/instances/a/rewind", NULL, NULL));
    EXPECT(line_has(line, "\"code\":\"wrong-state\""));
    start_and_end(line, "fail", "b");
    EXPECT_EQ(202,
              rested_ask(line, "POST", "/v1/instances/b/rewind", NULL, "{\"reason\":\"mended\"}"));
    rested_close(&world);
}

TEST(an_event_is_raised)
{
    struct line *line = open_world();

    start(line, "nobodys", "a");
    EXPECT_EQ(202, rested_ask(line, "POST", "/v1/instances/a/events/go", NULL, " {\"x\": 1} "));
    EXPECT_EQ(202, rested_ask(line, "POST", "/v1/instances/a/events/go%20on", NULL, NULL));
    EXPECT_EQ(400, rested_ask(line, "POST", "/v1/instances/a/events/go", NULL, "{\"x\":"));
    EXPECT(line_has(line, "(at byte 5)"));
    EXPECT_EQ(415, rested_ask(line, "POST", "/v1/instances/a/events/go",
                              "Content-Type: text/plain\r\n", "1"));
    EXPECT_EQ(404, rested_ask(line, "POST", "/v1/instances/b/events/go", NULL, "1"));
    /* nobody will ever read it: who sent it hears so */
    start_and_end(line, "done", "c");
    EXPECT_EQ(409, rested_ask(line, "POST", "/v1/instances/c/events/go", NULL, "1"));
    EXPECT(line_has(line, "dropped"));
    rested_close(&world);
}

TEST(an_instance_is_restarted)
{
    struct line *line = open_world();
    char id[256];

    start(line, "wait", "a");
    EXPECT_EQ(409, rested_ask(line, "POST", "/v1/instances/a/restart", NULL, NULL));
    EXPECT_EQ(202, rested_ask(line, "POST", "/v1/instances/a/restart", NULL, "{\"newId\":true}"));
    EXPECT(line_value(line, "id", id));
    EXPECT(strcmp(id, "a") != 0);
    char path[300];
    (void)snprintf(path, sizeof path, "/v1/instances/%s", id);
    EXPECT_EQ(200, rested_ask(line, "GET", path, NULL, NULL));
    EXPECT(line_has(line, "\"name\":\"wait\""));
    EXPECT(line_has(line, "\"input\":\"in\""));
    EXPECT_EQ(404, rested_ask(line, "POST", "/v1/instances/b/restart", NULL, NULL));
    EXPECT_EQ(404, rested_ask(line, "POST", "/v1/instances/b/restart", NULL, "{\"newId\":true}"));
    rested_close(&world);
}

TEST(an_instance_is_purged)
{
    struct line *line = open_world();

    start(line, "wait", "a");
    EXPECT_EQ(409, rested_ask(line, "DELETE", "/v1/instances/a", NULL, NULL));
    EXPECT(line_has(line, "\"code\":\"wrong-state\""));
    EXPECT_EQ(400, rested_ask(line, "DELETE", "/v1/instances/a?force=yes", NULL, NULL));
    EXPECT_EQ(200, rested_ask(line, "DELETE", "/v1/instances/a?force=true", NULL, NULL));
    EXPECT_TEXT("{\"purged\":1}", line_body(line));
    EXPECT_EQ(404, rested_ask(line, "DELETE", "/v1/instances/a", NULL, NULL));
    rested_close(&world);
}

TEST(a_step_that_is_not_parked_cannot_be_resubmitted)
{
    struct line *line = open_world();

    start(line, "wait", "a");
    EXPECT_EQ(409, rested_ask(line, "POST", "/v1/instances/a/tasks/3/resubmit", NULL, NULL));
    EXPECT_EQ(409, rested_ask(line, "POST", "/v1/instances/a/tasks/-/resubmit", NULL, NULL));
    EXPECT_EQ(400, rested_ask(line, "POST", "/v1/instances/a/tasks/x/resubmit", NULL, NULL));
    EXPECT_EQ(400,
              rested_ask(line, "POST", "/v1/instances/a/tasks/9999999999/resubmit", NULL, NULL));
    EXPECT_EQ(404, rested_ask(line, "POST", "/v1/instances/b/tasks/3/resubmit", NULL, NULL));
    rested_close(&world);
}

/* ---- paths, parameters, senders ---- */

TEST(what_there_is_not_is_told)
{
    struct line *line = open_world();

    EXPECT_EQ(404, rested_ask(line, "GET", "/v1/nothing", NULL, NULL));
    EXPECT(line_has(line, "\"code\":\"route-not-found\""));
    EXPECT_EQ(404, rested_ask(line, "GET", "/v1/instances/", NULL, NULL));
    EXPECT_EQ(404, rested_ask(line, "GET", "/v1/instances/a/", NULL, NULL));
    EXPECT_EQ(404, rested_ask(line, "GET", "/v1", NULL, NULL));
    EXPECT_EQ(405, rested_ask(line, "PATCH", "/v1/instances/a", NULL, NULL));
    EXPECT(line_has_header(line, "allow: GET, HEAD, PUT, DELETE\r\n"));
    EXPECT_EQ(405, rested_ask(line, "DELETE", "/v1/instances", NULL, NULL));
    EXPECT_EQ(400, rested_ask(line, "GET", "/v1/instances/%zz", NULL, NULL));
    EXPECT_EQ(400, rested_ask(line, "GET", "/v1/instances/a%00b", NULL, NULL));
    EXPECT_EQ(404, rested_ask(line, "GET", "/v1/instances/a%2fb", NULL, NULL));
    EXPECT(line_has(line, "'a/b'"));
    EXPECT_EQ(400, rested_ask(line, "GET", "/v1/instances/a?payload=true", NULL, NULL));
    EXPECT(line_has(line, "did you mean 'payloads'?"));
    EXPECT_EQ(400, rested_ask(line, "GET", "/v1/instances/a?payloads=1", NULL, NULL));
    EXPECT_EQ(400, rested_ask(line, "GET", "/v1/instances/a?hub=a&hub=b", NULL, NULL));
    EXPECT_EQ(400, rested_ask(line, "GET", "/v1/instances/a?hub=a/b", NULL, NULL));
    EXPECT_EQ(400, rested_ask(line, "GET", "/v1/instances/a?hub=", NULL, NULL));
    EXPECT_EQ(400, rested_ask(line, "GET", "/v1/instances/a?payloads=%f", NULL, NULL));
    EXPECT_EQ(0, world.pages_n);
    EXPECT_EQ(200, rested_ask(line, "GET", "/healthz", NULL, NULL)); /* not ours */
    EXPECT_EQ(1, world.pages_n);
    rested_close(&world);
}

/* A page of the Internet in a browser of this machine must not reach the server under a name of its
 * own, nor change anything from another origin. */
TEST(pages_of_others_cannot_use_it)
{
    struct line *line = open_world();

    EXPECT_EQ(421, rested_ask(line, "GET", "/v1/instances", "Host: evil.example\r\n", NULL));
    EXPECT_EQ(421,
              rested_ask(line, "GET", "/v1/instances", "Host: 127.evil.example:4001\r\n", NULL));
    EXPECT_EQ(421, rested_ask(line, "GET", "/healthz", "Host: evil.example\r\n", NULL));
    EXPECT_EQ(200, rested_ask(line, "GET", "/v1/instances", "Host: 127.0.0.1:4001\r\n", NULL));
    EXPECT_EQ(200, rested_ask(line, "GET", "/v1/instances", "Host: [::1]:4001\r\n", NULL));
    EXPECT_EQ(200, rested_ask(line, "GET", "/v1/instances", "Host: norn.localhost\r\n", NULL));
    EXPECT_EQ(403, rested_ask(line, "POST", "/v1/instances", "Origin: http://evil.example\r\n",
                              "{\"name\":\"a\"}"));
    EXPECT_EQ(403,
              rested_ask(line, "POST", "/v1/instances", "Origin: null\r\n", "{\"name\":\"a\"}"));
    EXPECT_EQ(202, rested_ask(line, "POST", "/v1/instances", "Origin: http://localhost\r\n",
                              "{\"name\":\"a\"}"));
    EXPECT_EQ(200,
              rested_ask(line, "GET", "/v1/instances", "Origin: http://evil.example\r\n", NULL));
    rested_close(&world);
}

TEST(a_server_for_others_has_any_name)
{
    rested_init(&world);
    world.options.is_insecure = true;
    rested_open(&world, test_directory(), false);
    struct line *line = rested_line(&world);

    EXPECT_EQ(200, rested_ask(line, "GET", "/v1/instances", "Host: norn.example\r\n", NULL));
    rested_close(&world);
}
