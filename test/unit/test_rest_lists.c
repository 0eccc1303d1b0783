/* SPDX-License-Identifier: Apache-2.0
 *
 * Many instances over HTTP: lists, counts, purges, histories; entities and figures.
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

static void start(struct line *line, const char *name, const char *id, bool to_the_end)
{
    char body[200];

    (void)snprintf(body, sizeof body, "{\"name\":\"%s\",\"id\":\"%s\",\"tags\":{\"t\":\"%s\"}}",
                   name, id, id);
    (void)rested_ask(line, "POST", "/v1/instances", to_the_end ? "Prefer: wait=20\r\n" : NULL,
                     body);
    EXPECT_EQ(to_the_end ? 200 : 202, line->status);
}

/* 3 that wait, 2 that failed, 1 that completed. */
static void start_some(struct line *line)
{
    start(line, "nobodys", "w-1", false);
    start(line, "nobodys", "w-2", false);
    start(line, "nobodys", "w-3", false);
    start(line, "fail", "f-1", true);
    start(line, "fail", "f-2", true);
    start(line, "done", "d-1", true);
}

static void expect_count(struct line *line, const char *query, const char *body)
{
    char path[200];

    (void)snprintf(path, sizeof path, "/v1/instances:count?%s", query);
    EXPECT_EQ(200, rested_ask(line, "GET", path, NULL, NULL));
    EXPECT_TEXT(body, line_body(line));
}

TEST(filters_choose)
{
    struct line *line = open_world();

    start_some(line);
    expect_count(line, "", "{\"count\":6,\"isExact\":true}");
    expect_count(line, "status=failed,completed", "{\"count\":3,\"isExact\":true}");
    expect_count(line, "name=nobodys", "{\"count\":3,\"isExact\":true}");
    expect_count(line, "idPrefix=f-", "{\"count\":2,\"isExact\":true}");
    expect_count(line, "tag=t", "{\"count\":6,\"isExact\":true}");
    expect_count(line, "tag=w-2", "{\"count\":0,\"isExact\":true}");
    expect_count(line, "tag=t%3Dw-2", "{\"count\":1,\"isExact\":true}");
    expect_count(line, "error=went", "{\"count\":2,\"isExact\":true}");
    expect_count(line, "from=1h", "{\"count\":6,\"isExact\":true}");
    expect_count(line, "to=1h", "{\"count\":0,\"isExact\":true}");
    expect_count(line, "to=1969-01-01T00:00:00Z", "{\"count\":0,\"isExact\":true}");
    expect_count(line, "completedFrom=1h", "{\"count\":3,\"isExact\":true}");
    expect_count(line, "completedFrom=1h&status=completed", "{\"count\":1,\"isExact\":true}");
    expect_count(line, "hub=other", "{\"count\":0,\"isExact\":true}");
    expect_count(line, "limit=4", "{\"count\":4,\"isExact\":false}");
    rested_close(&world);
}

TEST(wrong_filters_are_refused)
{
    struct line *line = open_world();
    static const char *const bad[] = {
        "status=finished",
        "status=completed,",
        "from=yesterday",
        "limit=0",
        "limit=1001",
        "limit=x",
        "cursor=x",
        "cursor=k12",
        "from=1h&from=2h",
        "from=1h&completedFrom=1h",
        "states=failed",
        "payloads=maybe",
        "order=up",
        "cursor=kzzzzzzzzzzzzzzzz61",
        "order=newest&cursor=k000000000000000061",
        "cursor=n000000000000000061",
        "order=oldest&cursor=n000000000000000061",
    };
    char path[200];

    for (size_t n = 0; n < sizeof bad / sizeof bad[0]; n++) {
        (void)snprintf(path, sizeof path, "/v1/instances?%s", bad[n]);
        unsigned status = rested_ask(line, "GET", path, NULL, NULL);
        if (n == 1) continue; /* a comma at the end is harmless */
        if (status != 400) EXPECT_TEXT("refused", bad[n]);
        EXPECT(line_has(line, "\"code\":\"bad-parameter\""));
    }
    rested_close(&world);
}

/* Newest first, while others are started: each once, those that came later not at all. */
#define IDS_N 6u

/* Adds the first three letters of the ids of a page, but for those that came late: they may have
 * the millisecond of one that is still to be listed. */
static void add_ids(struct line *line, char (*ids)[4], size_t *n)
{
    for (const char *at = line_body(line); (at = strstr(at, "{\"id\":\"")) != NULL; at += 7) {
        if (strncmp(at + 7, "late", 4) == 0) continue;
        EXPECT(*n < IDS_N);
        (void)snprintf(ids[(*n)++], sizeof *ids, "%.3s", at + 7);
    }
}

/* Exactly as forwards, the other way round, also where two were made in the same millisecond. */
TEST(pages_go_backwards)
{
    struct line *line = open_world();
    char path[400] = "/v1/instances?limit=2&order=newest";
    char next[256];
    char id[32];
    char forwards[IDS_N][4], backwards[IDS_N][4];
    size_t forwards_n = 0, backwards_n = 0;

    start_some(line);
    EXPECT_EQ(200, rested_ask(line, "GET", "/v1/instances?order=oldest", NULL, NULL));
    add_ids(line, forwards, &forwards_n);
    EXPECT_EQ(IDS_N, forwards_n);
    for (int page = 0;; page++) {
        EXPECT_EQ(200, rested_ask(line, "GET", path, NULL, NULL));
        bool has_more = line_value(line, "next", next);
        add_ids(line, backwards, &backwards_n);
        if (!has_more) break;
        EXPECT(next[0] == 'n');
        (void)snprintf(id, sizeof id, "late-%d", page);
        start(line, "nobodys", id, false);
        (void)snprintf(path, sizeof path, "/v1/instances?order=newest&limit=2&cursor=%s", next);
    }
    EXPECT_EQ(IDS_N, backwards_n);
    for (size_t n = 0; n < IDS_N; n++) EXPECT_TEXT(forwards[IDS_N - 1 - n], backwards[n]);
    rested_close(&world);
}

/* Pages give every instance once, whatever the size of a page. */
TEST(pages_fit_together)
{
    struct line *line = open_world();
    char path[400] = "/v1/instances?limit=2";
    char next[256];
    unsigned pages_n = 0;
    bool is_seen[6] = {0};
    static const char *const ids[] = {"w-1", "w-2", "w-3", "f-1", "f-2", "d-1"};

    start_some(line);
    for (bool has_more = true; has_more; pages_n++) {
        EXPECT_EQ(200, rested_ask(line, "GET", path, NULL, NULL));
        for (size_t n = 0; n < 6; n++) {
            char wanted[32];
            (void)snprintf(wanted, sizeof wanted, "{\"id\":\"%s\"", ids[n]);
            if (!line_has(line, wanted)) continue;
            EXPECT(!is_seen[n]);
            is_seen[n] = true;
        }
        has_more = line_value(line, "next", next);
        (void)snprintf(path, sizeof path, "/v1/instances?limit=2&cursor=%s", next);
    }
    EXPECT_EQ(3, pages_n);
    for (size_t n = 0; n < 6; n++) EXPECT(is_seen[n]);
    EXPECT_EQ(200, rested_ask(line, "GET", "/v1/instances?idPrefix=d&payloads=true", NULL, NULL));
    EXPECT(line_has(line, "\"output\":\"result\""));
    EXPECT_EQ(200, rested_ask(line, "GET", "/v1/instances?idPrefix=d", NULL, NULL));
    EXPECT(!line_has(line, "\"output\""));
    rested_close(&world);
}

/* Counting goes page by page, through more than one. */
TEST(a_count_goes_over_many_pages)
{
    struct line *line = open_world();
    struct buffer body;
    char text[80];

    buffer_init(&body, mem_process());
    for (unsigned n = 0; n < 2100; n++) {
        (void)snprintf(text, sizeof text, "{\"name\":\"x\",\"id\":\"i-%u\"}\n", n);
        buffer_append_bytes(&body, bytes_of_text(text));
    }
    buffer_u8(&body, '\0');
    EXPECT_EQ(200, rested_ask(line, "POST", "/v1/instances:batch", "", (const char *)body.ptr));
    expect_count(line, "", "{\"count\":2100,\"isExact\":true}");
    expect_count(line, "limit=1500", "{\"count\":1500,\"isExact\":false}");
    expect_count(line, "limit=2100", "{\"count\":2100,\"isExact\":true}");
    buffer_release(&body);
    rested_close(&world);
}

/* ---- purges ---- */

TEST(a_purge_removes_what_matches_and_has_ended)
{
    struct line *line = open_world();
    const char *path = "/v1/instances:purge";

    start_some(line);
    EXPECT_EQ(400, rested_ask(line, "POST", path, NULL, NULL));
    EXPECT_EQ(400, rested_ask(line, "POST", path, NULL, "{}"));
    EXPECT_EQ(400, rested_ask(line, "POST", path, NULL, "{\"recurse\":true}"));
    EXPECT_EQ(400, rested_ask(line, "POST", path, NULL, "{\"name\":\"\"}"));
    EXPECT_EQ(400,
              rested_ask(line, "POST", path, NULL, "{\"status\":\"failed\",\"timeout\":\"x\"}"));
    EXPECT_EQ(400, rested_ask(line, "POST", path, NULL, "{\"state\":\"failed\"}"));
    EXPECT_EQ(200, rested_ask(line, "POST", path, NULL, "{\"status\":\"failed\",\"dryRun\":true}"));
    EXPECT_TEXT("{\"matches\":2,\"isExact\":true,\"sample\":[\"f-1\",\"f-2\"]}", line_body(line));
    EXPECT_EQ(200, rested_ask(line, "POST", path, NULL, "{\"idPrefix\":\"w-\",\"dryRun\":true}"));
    EXPECT_TEXT("{\"matches\":0,\"isExact\":true,\"sample\":[]}", line_body(line));
    EXPECT_EQ(200, rested_ask(line, "POST", path, NULL, "{\"idPrefix\":\"w-\"}"));
    EXPECT_TEXT("{\"purged\":0,\"isComplete\":true}", line_body(line));
    EXPECT_EQ(200, rested_ask(line, "POST", path, NULL,
                              "{\"status\":\"failed\",\"timeout\":\"30s\",\"recurse\":true}"));
    EXPECT_TEXT("{\"purged\":2,\"isComplete\":true}", line_body(line));
    expect_count(line, "", "{\"count\":4,\"isExact\":true}");
    EXPECT_EQ(200, rested_ask(line, "POST", path, NULL, "{\"from\":\"1h\"}"));
    EXPECT_TEXT("{\"purged\":1,\"isComplete\":true}", line_body(line));
    rested_close(&world);
}

/* ---- histories ---- */

TEST(a_history_is_shown_in_pages)
{
    struct line *line = open_world();
    char next[256], path[400];

    EXPECT_EQ(200, rested_ask(line, "POST", "/v1/instances", "Prefer: wait=20\r\n",
                              "{\"name\":\"done\",\"id\":\"a\",\"input\":{\"x\":1},"
                              "\"tags\":{\"k\":\"v\"}}"));
    EXPECT_EQ(200, rested_ask(line, "GET", "/v1/instances/a/history", NULL, NULL));
    EXPECT(
        line_has(line, "{\"items\":[{\"eventId\":-1,\"type\":\"orchestratorStarted\",\"time\":"));
    EXPECT(line_has(line, "\"type\":\"executionStarted\""));
    EXPECT(line_has(line, "\"name\":\"done\",\"input\":{\"x\":1},"));
    EXPECT(line_has(line, "\"tags\":{\"k\":\"v\"}"));
    EXPECT(line_has(line, "\"status\":\"completed\",\"result\":\"result\"}"));
    EXPECT(!line_value(line, "next", next));
    EXPECT_EQ(200, rested_ask(line, "GET", "/v1/instances/a/history?limit=2", NULL, NULL));
    EXPECT(!line_has(line, "executionCompleted"));
    EXPECT(line_value(line, "next", next));
    (void)snprintf(path, sizeof path, "/v1/instances/a/history?cursor=%s", next);
    EXPECT_EQ(200, rested_ask(line, "GET", path, NULL, NULL));
    EXPECT(!line_has(line, "executionStarted"));
    EXPECT(line_has(line, "executionCompleted"));
    /* it began again: the rest is of another history */
    EXPECT_EQ(202, rested_ask(line, "POST", "/v1/instances/a/restart", NULL, NULL));
    EXPECT_EQ(404, rested_ask(line, "GET", path, NULL, NULL));
    EXPECT(line_has(line, "began again"));
    EXPECT_EQ(404, rested_ask(line, "GET", "/v1/instances/b/history", NULL, NULL));
    EXPECT_EQ(400, rested_ask(line, "GET", "/v1/instances/a/history?cursor=x", NULL, NULL));
    EXPECT_EQ(400, rested_ask(line, "GET", "/v1/instances/a/history?cursor=1.x", NULL, NULL));
    rested_close(&world);
}

TEST(a_failure_is_shown_in_the_history)
{
    struct line *line = open_world();

    start(line, "fail", "a", true);
    EXPECT_EQ(200, rested_ask(line, "GET", "/v1/instances/a/history", NULL, NULL));
    EXPECT(line_has(line, "\"status\":\"failed\",\"failure\":{\"type\":\"Bad\",\"message\":"
                          "\"it went\"}"));
    rested_close(&world);
}

/* ---- entities ---- */

TEST(entities_are_signaled_and_listed)
{
    struct line *line = open_world();

    EXPECT_EQ(202, rested_ask(line, "POST", "/v1/entities/Counter/a%2Fb/add", NULL, "5"));
    EXPECT_TEXT("{\"id\":\"@counter@a/b\"}", line_body(line));
    EXPECT_EQ(202, rested_ask(line, "POST", "/v1/entities/counter/c/reset", NULL, NULL));
    EXPECT_EQ(400, rested_ask(line, "POST", "/v1/entities/counter/c/add", NULL, "{"));
    EXPECT_EQ(400, rested_ask(line, "POST", "/v1/entities/a%40b/c/add", NULL, "1"));
    /* it has no state yet: nobody has run it */
    EXPECT_EQ(404, rested_ask(line, "GET", "/v1/entities/counter/c", NULL, NULL));
    EXPECT(line_has(line, "\"code\":\"entity-not-found\""));
    EXPECT_EQ(200, rested_ask(line, "GET", "/v1/entities?name=Counter&from=1h", NULL, NULL));
    EXPECT_TEXT("{\"items\":[]}", line_body(line));
    EXPECT_EQ(400, rested_ask(line, "GET", "/v1/entities?from=x", NULL, NULL));
    EXPECT_EQ(400, rested_ask(line, "GET", "/v1/entities?status=failed", NULL, NULL));
    rested_close(&world);
}

/* ---- figures ---- */

TEST(stats_tell_what_was_counted)
{
    struct line *line = open_world();

    start_some(line);
    EXPECT_EQ(200, rested_ask(line, "GET", "/v1/stats", NULL, NULL));
    EXPECT(line_has(line, "\"started\":6,\"finished\":3,"));
    EXPECT(line_has(line, "\"pending\":3,"));
    EXPECT(line_has(line, "\"httpAnswers\":{\"2xx\":6,"));
    rested_close(&world);
}
