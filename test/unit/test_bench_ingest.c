/* SPDX-License-Identifier: Apache-2.0
 *
 * The pure parts of `norn bench ingest`: when a request is due, and where an answer ends.
 */
#include "base/clock.h"
#include "cmd/bench_ingest.h"
#include "test/lib/test.h"

static struct bytes text(const char *t) { return bytes_of_text(t); }

/* A request's time comes from its number alone, through all phases. */
TEST(a_plan_tells_the_time_of_each_request)
{
    struct ingest_plan plan = {
        .phases = {{10, 2 * NS_PER_S}, {100, NS_PER_S}, {10, 2 * NS_PER_S}},
        .phases_n = 3,
    };
    EXPECT_EQ(140, ingest_plan_count(&plan));
    EXPECT_EQ(5 * NS_PER_S, ingest_plan_length_ns(&plan));
    EXPECT_EQ(0, ingest_plan_due_ns(&plan, 0));
    EXPECT_EQ(NS_PER_S / 10, ingest_plan_due_ns(&plan, 1));
    EXPECT_EQ(2 * NS_PER_S, ingest_plan_due_ns(&plan, 20));
    EXPECT_EQ(2 * NS_PER_S + NS_PER_S / 100, ingest_plan_due_ns(&plan, 21));
    EXPECT_EQ(3 * NS_PER_S, ingest_plan_due_ns(&plan, 120));
    EXPECT_EQ(5 * NS_PER_S - NS_PER_S / 10, ingest_plan_due_ns(&plan, 139));
}

TEST(a_plan_knows_the_phase_of_a_time)
{
    struct ingest_plan plan = {
        .phases = {{10, 2 * NS_PER_S}, {100, NS_PER_S}, {10, 2 * NS_PER_S}},
        .phases_n = 3,
    };
    EXPECT_EQ(0, ingest_plan_phase(&plan, 0));
    EXPECT_EQ(0, ingest_plan_phase(&plan, 2 * NS_PER_S - 1));
    EXPECT_EQ(1, ingest_plan_phase(&plan, 2 * NS_PER_S));
    EXPECT_EQ(2, ingest_plan_phase(&plan, 3 * NS_PER_S));
    EXPECT_EQ(2, ingest_plan_phase(&plan, 90 * NS_PER_S));
    EXPECT_EQ(3 * NS_PER_S, ingest_plan_phase_start_ns(&plan, 2));
}

/* Whatever piece of it has come, an answer is partial until its last byte. */
static void expect_whole_at_its_end(const char *whole, unsigned status, const char *body)
{
    struct ingest_answer answer;
    struct buffer got;
    size_t size = strlen(whole);
    for (size_t n = 0; n < size; n++)
        EXPECT_EQ(INGEST_PARTIAL, ingest_answer_read(bytes_make(whole, n), &answer));
    EXPECT_EQ(INGEST_WHOLE, ingest_answer_read(text(whole), &answer));
    EXPECT_EQ(size, answer.size);
    EXPECT_EQ(status, answer.status);
    buffer_init(&got, mem_process());
    ingest_answer_body(&answer, &got);
    EXPECT_EQ(strlen(body), got.len);
    EXPECT(bytes_equal(buffer_view(&got), text(body)));
    buffer_release(&got);
}

TEST(an_answer_ends_where_its_length_says)
{
    expect_whole_at_its_end("HTTP/1.1 201 Created\r\nContent-Length: 3\r\n\r\nabc", 201, "abc");
    expect_whole_at_its_end("HTTP/1.1 429 Too Many Requests\r\ncontent-length:0\r\n\r\n", 429, "");
    expect_whole_at_its_end("HTTP/1.1 204 No Content\r\nDate: x\r\n\r\n", 204, "");
}

TEST(a_chunked_answer_ends_with_its_last_chunk)
{
    expect_whole_at_its_end("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                            "3\r\nabc\r\n0a\r\n0123456789\r\n0\r\n\r\n",
                            200, "abc0123456789");
    expect_whole_at_its_end("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 200,
                            "");
}

TEST(the_next_answer_begins_behind_it)
{
    struct ingest_answer answer;
    static const char two[] = "HTTP/1.1 201 Created\r\nConnection: keep-alive\r\n"
                              "Content-Length: 2\r\n\r\n{}HTTP/1.1 200 OK\r\n"
                              "Connection: close\r\nContent-Length: 0\r\n\r\n";
    EXPECT_EQ(INGEST_WHOLE, ingest_answer_read(text(two), &answer));
    EXPECT(!answer.is_last);
    EXPECT_EQ(INGEST_WHOLE, ingest_answer_read(text(two + answer.size), &answer));
    EXPECT_EQ(200, answer.status);
    EXPECT(answer.is_last);
}

TEST(what_is_no_answer_is_broken)
{
    struct ingest_answer answer;
    EXPECT_EQ(INGEST_BROKEN, ingest_answer_read(text("GET / HTTP/1.1\r\n\r\n"), &answer));
    EXPECT_EQ(INGEST_BROKEN, ingest_answer_read(text("HTTP/1.1 2x1 Created\r\n\r\n"), &answer));
    EXPECT_EQ(INGEST_BROKEN,
              ingest_answer_read(text("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                                      "zz\r\n"),
                                 &answer));
}
