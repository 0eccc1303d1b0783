/* SPDX-License-Identifier: Apache-2.0
 *
 * What a service sees of HTTP requests (http.h), over HTTP/1.1 and HTTP/2 alike; and what is
 * peculiar to requests over HTTP/2 that are not gRPC.
 */
#include "net/date.h"
#include "net/exchange.h"
#include "test/unit/net_world.h"

static struct world w;

/* ---- a peer of HTTP/2 ---- */

struct field {
    const char *name;
    const char *value;
};
#define NO_FIELDS ((struct field[]){{NULL, NULL}})

static void put_page(uint32_t stream, const char *method, const char *path, uint8_t flags,
                     const struct field *fields)
{
    struct buffer block;
    buffer_init(&block, mem_process());
    put_header(&block, ":method", bytes_of_text(method));
    put_header(&block, ":scheme", BYTES_LITERAL("http"));
    if (path != NULL) put_header(&block, ":path", bytes_of_text(path));
    put_header(&block, ":authority", BYTES_LITERAL("norn:1"));
    for (; fields->name != NULL; fields++)
        put_header(&block, fields->name, bytes_of_text(fields->value));
    put_frame(&w.in, NGHTTP2_HEADERS, END_HEADERS | flags, stream, buffer_view(&block));
    buffer_release(&block);
}

static void put_data(uint32_t stream, const char *text, uint8_t flags)
{
    put_frame(&w.in, NGHTTP2_DATA, flags, stream, bytes_of_text(text));
}

/* What was said, and the data that came with it. */
static const char *heard(void)
{
    static char text[9000];
    (void)world_say(&w);
    snprintf(text, sizeof text, "%s%.*s", world_trace(&w), (int)w.data.len,
             w.data.len > 0 ? (const char *)w.data.ptr : "");
    buffer_clear(&w.data);
    return text;
}

static void begin_h2(void)
{
    world_init(&w);
    world_greet(&w);
}

#define PAGE_OK(stream, size)                                                                      \
    stream " headers :status=200 content-type=text/plain content-length=" size "\n"

/* ---- both protocols ---- */

/* A request for a page that the service holds; the connection has nothing else. */
static void begin_held(int version, const char *method)
{
    char text[200];
    if (version == 2) {
        begin_h2();
        put_page(1, method, "/hold/a?b=c", END_STREAM, (struct field[]){{"x-test", "d"}, {0}});
        EXPECT_TEXT("", heard());
    } else {
        world_init(&w);
        world_connect(&w, true);
        snprintf(text, sizeof text, "%s /hold/a?b=c HTTP/1.1\r\nHost: norn:1\r\nX-Test: d\r\n\r\n",
                 method);
        EXPECT_STATUS(OK, conn_feed(w.conn, w.now_ns, bytes_of_text(text)));
    }
    EXPECT_EQ(1, w.pages_n);
    EXPECT(w.exchange != NULL);
}

/* Everything that was sent, as one text: frames or bytes. */
static const char *told(int version)
{
    static char text[9000];
    if (version == 2) return heard();
    world_pull(&w);
    snprintf(text, sizeof text, "%.*s", (int)w.out.len,
             w.out.len > 0 ? (const char *)w.out.ptr : "");
    buffer_clear(&w.out);
    return text;
}

TEST(a_service_sees_the_request)
{
    for (int version = 1; version <= 2; version++) {
        test_note("HTTP/%d", version);
        begin_held(version, "DELETE");
        EXPECT_BYTES(BYTES_LITERAL("DELETE"), http_method(w.exchange));
        EXPECT_BYTES(BYTES_LITERAL("/hold/a"), http_path(w.exchange));
        EXPECT_BYTES(BYTES_LITERAL("b=c"), http_query(w.exchange));
        EXPECT_BYTES(BYTES_LITERAL("d"), http_header(w.exchange, "x-test"));
        EXPECT_BYTES(BYTES_LITERAL("norn:1"), http_header(w.exchange, "host"));
        EXPECT_EQ(0, http_header(w.exchange, "x-tes").len);
        EXPECT_EQ(0, http_header(w.exchange, "x-test-2").len);
        EXPECT_EQ(0, http_body(w.exchange).len);
        EXPECT(http_is_trusted(w.exchange));
        EXPECT(http_user(w.exchange) == NULL);
        EXPECT(!http_is_closed(w.exchange));
        EXPECT_EQ(1, w.counters.pages);
        world_release(&w);
    }
}

TEST(a_peer_from_elsewhere_is_not_trusted)
{
    world_init(&w);
    world_connect(&w, false);
    EXPECT_STATUS(OK, conn_feed(w.conn, w.now_ns, BYTES_LITERAL("GET /hold HTTP/1.0\r\n\r\n")));
    EXPECT(!http_is_trusted(w.exchange));
    world_release(&w);
    world_init(&w);
    world_connect(&w, false);
    put_greeting(&w.in);
    put_page(1, "GET", "/hold", END_STREAM, NO_FIELDS);
    EXPECT_STATUS(OK, world_say(&w));
    EXPECT(!http_is_trusted(w.exchange));
    world_release(&w);
}

static void add_headers(void)
{
    http_add_header(w.exchange, "retry-after", BYTES_LITERAL("7"));
    http_add_header(w.exchange, "location", BYTES_LITERAL(" /a b:c\t"));
    http_add_header(w.exchange, "x-bad", BYTES_LITERAL("a\r\nset-cookie: b"));
    http_add_header(w.exchange, "x-nul", BYTES_LITERAL("a\0b"));
    http_add_header(w.exchange, "x-empty", BYTES_NONE);
}

/* A value that would end its line, and so begin a field or an answer of its own, is dropped. */
TEST(an_answer_has_fields)
{
    for (int version = 1; version <= 2; version++) {
        test_note("HTTP/%d", version);
        begin_held(version, "GET");
        add_headers();
        http_answer(w.exchange, 429, "text/plain", BYTES_LITERAL("wait"));
        if (version == 1)
            EXPECT_TEXT("HTTP/1.1 429 Too Many Requests\r\ncontent-type: text/plain\r\n"
                        "content-length: 4\r\nretry-after: 7\r\nlocation: /a b:c\r\nx-empty: \r\n"
                        "\r\nwait",
                        told(1));
        else
            EXPECT_TEXT("1 headers :status=429 content-type=text/plain content-length=4 "
                        "retry-after=7 location=/a b:c x-empty=\n1 data 4 end\nwait",
                        told(2));
        world_release(&w);
    }
}

/* They belong to one answer, and are bounded: what is too much is left out. */
TEST(fields_of_an_answer_are_bounded_and_forgotten)
{
    static char value[ANSWER_FIELDS_SIZE_MAX];
    memset(value, 'a', sizeof value);
    for (int version = 1; version <= 2; version++) {
        test_note("HTTP/%d", version);
        begin_held(version, "GET");
        http_add_header(w.exchange, "x-long", bytes_make(value, sizeof value));
        for (int i = 0; i < 50; i++) http_add_header(w.exchange, "x-n", BYTES_LITERAL("1"));
        http_answer(w.exchange, 204, NULL, BYTES_NONE);
        const char *answer = told(version);
        int n = 0;
        EXPECT(strstr(answer, "x-long") == NULL);
        for (const char *at = answer; (at = strstr(at, "x-n")) != NULL; at++) n++;
        EXPECT_EQ(ANSWER_FIELDS_N_MAX, n);
        if (version == 1) {
            (void)conn_feed(w.conn, w.now_ns, BYTES_LITERAL("GET / HTTP/1.1\r\nhost: x\r\n\r\n"));
        } else {
            put_page(3, "GET", "/", END_STREAM, NO_FIELDS);
        }
        EXPECT(strstr(told(version), "x-n") == NULL);
        world_release(&w);
    }
}

/* Its length is told, its body is not sent. */
TEST(head_is_answered_without_a_body)
{
    for (int version = 1; version <= 2; version++) {
        test_note("HTTP/%d", version);
        begin_held(version, "HEAD");
        http_answer(w.exchange, 200, "text/plain", BYTES_LITERAL("hello"));
        if (version == 1)
            EXPECT_TEXT("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 5\r\n\r\n",
                        told(1));
        else
            EXPECT_TEXT("1 end :status=200 content-type=text/plain content-length=5\n", told(2));
        world_release(&w);

        begin_held(version, "HEAD");
        world_begin_page(&w, "text/plain");
        EXPECT_STATUS(OK, http_send(w.exchange, BYTES_LITERAL("hello")));
        EXPECT_EQ(0, w.closed_n);
        const char *begun = told(version);
        EXPECT(strstr(begun, "hello") == NULL);
        EXPECT_EQ(0, w.closed_n);
        http_finish(w.exchange, true);
        EXPECT_TEXT(version == 1 ? "" : "1 data 0 end\n", told(version));
        EXPECT(!conn_is_over(w.conn));
        world_release(&w);
    }
}

/* 204 and 304 have neither a body nor a length nor a type, whatever the service gives. */
TEST(some_statuses_have_no_body)
{
    for (unsigned status = 204; status <= 304; status += 100) {
        char expected[100];
        begin_held(1, "GET");
        http_answer(w.exchange, status, "text/plain", BYTES_LITERAL("hello"));
        snprintf(expected, sizeof expected, "HTTP/1.1 %u %s\r\n\r\n", status,
                 status == 204 ? "No Content" : "Not Modified");
        EXPECT_TEXT(expected, told(1));
        world_release(&w);
        begin_held(2, "GET");
        http_answer(w.exchange, status, "text/plain", BYTES_LITERAL("hello"));
        snprintf(expected, sizeof expected, "1 end :status=%u\n", status);
        EXPECT_TEXT(expected, told(2));
        world_release(&w);
    }
}

TEST(an_answer_is_streamed)
{
    for (int version = 1; version <= 2; version++) {
        test_note("HTTP/%d", version);
        begin_held(version, "GET");
        http_add_header(w.exchange, "cache-control", BYTES_LITERAL("no-store"));
        world_begin_page(&w, "text/event-stream");
        EXPECT_TEXT(version == 1 ? "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
                                   "transfer-encoding: chunked\r\ncache-control: no-store\r\n\r\n"
                                 : "1 headers :status=200 content-type=text/event-stream "
                                   "cache-control=no-store\n",
                    told(version));
        EXPECT_STATUS(OK, http_send(w.exchange, BYTES_LITERAL("one")));
        EXPECT_STATUS(OK, http_send(w.exchange, BYTES_LITERAL("two!")));
        EXPECT(http_queued(w.exchange) >= 7);
        EXPECT_TEXT(version == 1 ? "3\r\none\r\n4\r\ntwo!\r\n" : "1 data 7\nonetwo!",
                    told(version));
        EXPECT_EQ(0, http_queued(w.exchange));
        http_finish(w.exchange, true);
        EXPECT_TEXT(version == 1 ? "0\r\n\r\n" : "1 data 0 end\n", told(version));
        EXPECT(!conn_is_over(w.conn));
        EXPECT_EQ(0, w.closed_n);
        world_release(&w);
    }
}

/* An open exchange is not idle, however long nothing is said; its peer reads, it need not ask. */
TEST(an_open_exchange_is_not_idle)
{
    for (int version = 1; version <= 2; version++) {
        test_note("HTTP/%d", version);
        begin_held(version, "GET");
        world_begin_page(&w, "text/event-stream");
        for (int i = 0; i < 2 * 3600 / 15; i++) {
            EXPECT_STATUS(OK, http_send(w.exchange, BYTES_LITERAL(":\n\n")));
            (void)told(version);
            world_wait_ms(&w, 15 * 1000);
            if (version == 2)
                put_frame(&w.in, NGHTTP2_PING, NGHTTP2_FLAG_ACK, 0, BYTES_LITERAL("01234567"));
            if (version == 2) (void)heard();
        }
        EXPECT(!conn_is_over(w.conn));
        EXPECT_EQ(0, w.closed_n);
        world_release(&w);
    }
}

/* Who streams asks first, waits, and is told once when there is room. */
TEST(a_full_exchange_becomes_writable)
{
    static const uint8_t zeros[16 * 1024];
    for (int version = 1; version <= 2; version++) {
        test_note("HTTP/%d", version);
        begin_held(version, "GET");
        world_begin_page(&w, "text/plain");
        size_t sent = 0;
        while (!http_is_full(w.exchange)) {
            EXPECT_STATUS(OK, http_send(w.exchange, bytes_make(zeros, sizeof zeros)));
            sent += sizeof zeros;
            EXPECT(sent < 1024 * 1024);
        }
        EXPECT(sent >= w.limits.stream_queue_size);
        EXPECT(http_queued(w.exchange) >= sent);
        EXPECT_EQ(0, w.page_writable_n);
        for (int i = 0; i < 10 && w.page_writable_n == 0; i++) {
            (void)told(version);
            if (version == 2) put_frame_u32(&w.in, NGHTTP2_WINDOW_UPDATE, 0, 60000);
            if (version == 2) put_frame_u32(&w.in, NGHTTP2_WINDOW_UPDATE, 1, 60000);
        }
        EXPECT_EQ(1, w.page_writable_n);
        EXPECT(!http_is_full(w.exchange));
        EXPECT_STATUS(OK, http_send(w.exchange, BYTES_LITERAL("more")));
        (void)told(version);
        EXPECT_EQ(1, w.page_writable_n);
        world_release(&w);
    }
}

/* The peer goes: the service hears it, what it sends reaches nobody, and what it was asked stays
 * until it ends the exchange. */
TEST(an_exchange_outlives_its_connection)
{
    for (int version = 1; version <= 2; version++) {
        for (int is_begun = 0; is_begun <= 1; is_begun++) {
            test_note("HTTP/%d %s", version, is_begun ? "begun" : "");
            begin_held(version, "GET");
            w.is_page_kept = true;
            if (is_begun) world_begin_page(&w, "text/plain");
            if (is_begun) EXPECT_STATUS(OK, http_send(w.exchange, BYTES_LITERAL("unheard")));
            conn_free(w.conn, w.now_ns);
            w.conn = NULL;
            EXPECT_EQ(1, w.closed_n);
            EXPECT(http_is_closed(w.exchange));
            EXPECT(!http_is_full(w.exchange));
            EXPECT_EQ(0, http_queued(w.exchange));
            EXPECT_BYTES(BYTES_LITERAL("/hold/a"), http_path(w.exchange));
            EXPECT_BYTES(BYTES_LITERAL("d"), http_header(w.exchange, "x-test"));
            if (is_begun) EXPECT_STATUS(E_CLOSED, http_send(w.exchange, BYTES_LITERAL("x")));
            world_end_page(w.exchange);
            world_release(&w);
        }
    }
}

/* A part for which there is no memory is told, and nothing of it is sent; what follows is whole. */
TEST(a_part_without_memory_is_told)
{
    static const uint8_t zeros[100 * 1024];
    for (int version = 1; version <= 2; version++) {
        test_note("HTTP/%d", version);
        begin_held(version, "GET");
        world_begin_page(&w, "text/plain");
        (void)told(version);
        EXPECT_STATUS(OK, http_send(w.exchange, BYTES_LITERAL("one")));
        w.mem.fail_at = 1;
        EXPECT_STATUS(E_NOMEM, http_send(w.exchange, bytes_make(zeros, sizeof zeros)));
        EXPECT_EQ(0, w.mem.fail_at);
        EXPECT_STATUS(OK, http_send(w.exchange, BYTES_LITERAL("two")));
        http_finish(w.exchange, true);
        EXPECT_TEXT(version == 1 ? "3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n" : "1 data 6 end\nonetwo",
                    told(version));
        world_release(&w);
    }
}

/* An answer without one of its fields would be another answer. */
TEST(a_field_without_memory_is_no_answer)
{
    for (int version = 1; version <= 2; version++) {
        test_note("HTTP/%d", version);
        begin_held(version, "GET");
        w.mem.fail_at = 1;
        http_add_header(w.exchange, "location", BYTES_LITERAL("/a"));
        EXPECT_EQ(0, w.mem.fail_at);
        http_answer(w.exchange, 201, "text/plain", BYTES_LITERAL("made"));
        EXPECT_TEXT(version == 1 ? "" : "1 end :status=503 content-length=0\n", told(version));
        EXPECT_EQ(version == 1, conn_is_over(w.conn));
        world_release(&w);
    }
}

/* And may still begin, without harm. */
TEST(an_answer_may_begin_when_the_peer_is_gone)
{
    for (int version = 1; version <= 2; version++) {
        begin_held(version, "GET");
        w.is_page_kept = true;
        conn_free(w.conn, w.now_ns);
        w.conn = NULL;
        http_add_header(w.exchange, "etag", BYTES_LITERAL("\"1\""));
        http_begin(w.exchange, 200, "text/plain");
        EXPECT_STATUS(E_CLOSED, http_send(w.exchange, BYTES_LITERAL("x")));
        http_finish(w.exchange, true);
        world_release(&w);
    }
}

/* A stream that is open keeps a draining connection; its service ends it. */
TEST(a_draining_connection_waits_for_its_streams)
{
    for (int version = 1; version <= 2; version++) {
        test_note("HTTP/%d", version);
        begin_held(version, "GET");
        world_begin_page(&w, "text/plain");
        conn_drain(w.conn, w.now_ns);
        (void)told(version);
        EXPECT(!conn_is_over(w.conn));
        EXPECT_STATUS(OK, http_send(w.exchange, BYTES_LITERAL("last")));
        http_finish(w.exchange, true);
        EXPECT(strstr(told(version), "last") != NULL);
        EXPECT(conn_is_over(w.conn));
        world_release(&w);
    }
}

/* ---- stalled readers ---- */

/* The kernel takes nothing any more: the connection ends, and the service is told. */
TEST(a_stalled_reader_of_http_1_is_closed)
{
    begin_held(1, "GET");
    world_begin_page(&w, "text/event-stream");
    EXPECT_STATUS(OK, http_send(w.exchange, BYTES_LITERAL("one")));
    while (conn_pull(w.conn, w.now_ns, &w.out, 1000)) {
    } /* and nothing leaves */
    world_wait_ms(&w, 29999);
    EXPECT(!conn_is_dead(w.conn));
    world_wait_ms(&w, 1);
    EXPECT(conn_is_dead(w.conn));
    EXPECT_EQ(1, w.counters.stalled);
    conn_free(w.conn, w.now_ns);
    w.conn = NULL;
    EXPECT_EQ(1, w.closed_n);
    world_release(&w);
}

/* Its window is closed: that stream ends, others go on. As long as some of it goes, it is slow and
 * not stalled. */
TEST(a_stalled_reader_of_http_2_is_reset)
{
    static const uint8_t zeros[100 * 1024];
    begin_held(2, "GET");
    world_begin_page(&w, "text/event-stream");
    EXPECT_STATUS(OK, http_send(w.exchange, bytes_make(zeros, sizeof zeros)));
    (void)heard();
    for (int i = 0; i < 5; i++) {
        world_wait_ms(&w, 29000);
        put_frame_u32(&w.in, NGHTTP2_WINDOW_UPDATE, 0, 10);
        put_frame_u32(&w.in, NGHTTP2_WINDOW_UPDATE, 1, 10);
        (void)heard();
        (void)conn_tick(w.conn, w.now_ns);
    }
    EXPECT_EQ(0, w.counters.stalled);
    world_wait_ms(&w, 29999);
    EXPECT_EQ(0, w.counters.stalled);
    world_wait_ms(&w, 1);
    EXPECT_EQ(1, w.counters.stalled);
    EXPECT_TEXT("1 reset 8\n", heard());
    EXPECT_EQ(1, w.closed_n);
    put_page(3, "GET", "/", END_STREAM, NO_FIELDS);
    EXPECT_TEXT(PAGE_OK("3", "8") "3 data 8 end\nGET /|||", heard());
    world_release(&w);
}

/* One that has everything that there is may be silent. */
TEST(a_reader_that_has_everything_is_not_stalled)
{
    begin_held(2, "GET");
    world_begin_page(&w, "text/event-stream");
    EXPECT_STATUS(OK, http_send(w.exchange, BYTES_LITERAL("one")));
    (void)heard();
    world_wait_ms(&w, 29000);
    put_frame(&w.in, NGHTTP2_PING, NGHTTP2_FLAG_ACK, 0, BYTES_LITERAL("01234567"));
    (void)heard();
    world_wait_ms(&w, 29000);
    EXPECT_EQ(0, w.counters.stalled);
    EXPECT(!conn_is_over(w.conn));
    world_release(&w);
}

/* ---- HTTP/2 ---- */

TEST(a_request_over_http_2_is_answered)
{
    begin_h2();
    put_page(1, "GET", "/a?b", END_STREAM, (struct field[]){{"x-test", "c"}, {0}});
    EXPECT_TEXT(PAGE_OK("1", "11") "1 data 11 end\nGET /a|b|c|", heard());
    put_page(3, "PUT", "/d", 0, (struct field[]){{"content-type", "application/json"}, {0}});
    put_data(3, "{\"a\"", 0);
    EXPECT_TEXT("", heard());
    put_data(3, ":1}", END_STREAM);
    EXPECT_TEXT(PAGE_OK("3", "16") "3 data 16 end\nPUT /d|||{\"a\":1}", heard());
    put_page(5, "POST", "/e", END_STREAM, NO_FIELDS); /* no content type at all */
    EXPECT_TEXT(PAGE_OK("5", "10") "5 data 10 end\nPOST /e|||", heard());
    EXPECT_EQ(3, w.counters.pages);
    EXPECT_EQ(0, w.counters.calls);
    world_release(&w);
}

/* On one connection, in any order. */
TEST(grpc_and_http_share_a_connection)
{
    begin_h2();
    put_request(&w.in, 1, "/t/hold", "x");
    put_page(3, "GET", "/hold", END_STREAM, NO_FIELDS);
    put_request(&w.in, 5, "/t/echo", "y");
    put_page(7, "GET", "/", END_STREAM, NO_FIELDS);
    (void)heard();
    EXPECT_EQ(2, w.calls_n);
    EXPECT_EQ(2, w.pages_n);
    world_answer_page(&w, w.exchange);
    EXPECT_TEXT(PAGE_OK("3", "12") "3 data 12 end\nGET /hold|||", heard());
    world_finish_held(&w);
    EXPECT_TEXT("1 end :status=200 content-type=application/grpc grpc-status=0\n", heard());
    world_release(&w);
}

/* The layer's refusals say why; the connection goes on. */
TEST(http_2_requests_that_are_refused)
{
    static const struct {
        const char *method;
        const char *path;
        struct field field;
        const char *answer;
    } cases[] = {
        {"GET", "/#a", {0}, "%u headers :status=400 "},
        {"GET", "/\xc3\xa4", {0}, "%u headers :status=400 "},
        {"OPTIONS", "*", {0}, "%u headers :status=200 "},
        {"GET", "/", {"expect", "tea"}, "%u headers :status=417 "},
        {"PUT", "/", {"content-length", "1048577"}, "%u headers :status=413 "},
        {"PUT", "/", {"content-length", "1x"}, "%u reset 1\n"},
        {"PUT", "/", {"transfer-encoding", "chunked"}, "%u reset 1\n"},
        {"GET", "/", {"connection", "close"}, "%u reset 1\n"},
        {"GET", "/", {"te", "gzip"}, "%u reset 1\n"},
        {"GET", "a", {0}, "%u reset 1\n"},
        {"GET", "", {0}, "%u reset 1\n"},
        {"GET", NULL, {0}, "%u reset 1\n"},
        {"GET", "/", {"X-Upper", "a"}, "%u reset 1\n"},
    };
    begin_h2();
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char expected[100];
        uint32_t stream = 2 * i + 1;
        bool has_body = cases[i].method[0] == 'P';
        test_note("case %u", i);
        put_page(stream, cases[i].method, cases[i].path, has_body ? 0 : END_STREAM,
                 (struct field[]){cases[i].field, {0}});
        const char *answer = heard();
        snprintf(expected, sizeof expected, cases[i].answer, stream, stream);
        EXPECT(strncmp(answer, expected, strlen(expected)) == 0);
        EXPECT(!conn_is_over(w.conn));
    }
    EXPECT_EQ(1, w.pages_n);
    world_release(&w);
}

static const char *say_why(void *user, enum http_refusal why, struct buffer *body)
{
    (void)user;
    buffer_format(body, "%u %s", http_refusal_status(why), http_refusal_text(why));
    return "application/x-why";
}

/* The service has the words; what it says of each is tested where they are. */
TEST(a_service_says_why_something_is_refused)
{
    static const char want_1[] = "HTTP/1.1 417 Expectation Failed\r\n"
                                 "content-type: application/x-why\r\ncontent-length: 42\r\n"
                                 "connection: close\r\n\r\n"
                                 "417 the Expect field is not '100-continue'";
    world_init(&w);
    w.http.refusal = say_why;
    world_connect(&w, true);
    (void)conn_feed(w.conn, w.now_ns,
                    BYTES_LITERAL("GET / HTTP/1.1\r\nHost: x\r\nExpect: tea\r\n\r\n"));
    EXPECT_TEXT(want_1, told(1));
    EXPECT(conn_is_over(w.conn));
    world_release(&w);

    begin_h2();
    w.http.refusal = say_why;
    put_page(1, "GET", "/", END_STREAM, (struct field[]){{"expect", "tea"}, {0}});
    EXPECT_TEXT("1 headers :status=417 content-type=application/x-why content-length=42\n"
                "1 data 42 end\n417 the Expect field is not '100-continue'",
                heard());
    put_page(3, "HEAD", "/", END_STREAM, (struct field[]){{"expect", "tea"}, {0}});
    EXPECT_TEXT("3 end :status=417 content-type=application/x-why content-length=42\n", heard());
    EXPECT_EQ(0, w.pages_n);
    world_release(&w);
}

/* Without memory for the words there is at least the status, and nothing is lost. */
TEST(a_refusal_without_memory_has_no_words)
{
    for (uint64_t n = 1; n < 100; n++) {
        test_note("allocation %llu", (unsigned long long)n);
        begin_h2();
        w.http.refusal = say_why;
        w.mem.fail_at = n;
        put_page(1, "GET", "/", END_STREAM, (struct field[]){{"expect", "tea"}, {0}});
        (void)heard();
        bool is_reached = w.mem.fail_at == 0;
        w.mem.fail_at = 0;
        world_release(&w);
        if (!is_reached) return;
    }
    test_fail(__FILE__, __LINE__, "there is no end of allocations");
}

/* CONNECT has no path. */
TEST(connect_is_refused)
{
    struct buffer block;
    begin_h2();
    buffer_init(&block, mem_process());
    put_header(&block, ":method", BYTES_LITERAL("CONNECT"));
    put_header(&block, ":authority", BYTES_LITERAL("x:1"));
    put_frame(&w.in, NGHTTP2_HEADERS, END_HEADERS | END_STREAM, 1, buffer_view(&block));
    EXPECT_TEXT("1 headers :status=400 content-type=text/plain content-length=11\n"
                "1 data 11 end\nBad Request",
                heard());
    buffer_release(&block);
    world_release(&w);
}

/* nghttp2 holds the body to what was promised: the service never sees one that differs. */
TEST(a_body_that_is_not_what_was_promised_is_reset)
{
    begin_h2();
    put_page(1, "PUT", "/", 0, (struct field[]){{"content-length", "3"}, {0}});
    put_data(1, "ab", END_STREAM);
    EXPECT_TEXT("1 reset 1\n", heard());
    put_page(3, "PUT", "/", 0, (struct field[]){{"content-length", "3"}, {0}});
    put_data(3, "abcd", 0);
    EXPECT_TEXT("3 reset 1\n", heard());
    EXPECT_EQ(0, w.pages_n);
    put_page(5, "PUT", "/", 0, (struct field[]){{"content-length", "3"}, {0}});
    put_data(5, "abc", END_STREAM);
    EXPECT(strstr(heard(), "PUT /|||abc") != NULL);
    world_release(&w);
}

TEST(a_body_without_a_length_is_bounded)
{
    static char zeros[16000 + 1];
    memset(zeros, '0', sizeof zeros - 1);
    begin_h2();
    w.limits.message_size_max = 40000;
    put_page(1, "PUT", "/", 0, NO_FIELDS);
    put_data(1, zeros, 0);
    put_data(1, zeros, 0);
    EXPECT_TEXT("", heard());
    put_data(1, zeros, 0);
    EXPECT_TEXT("1 headers :status=413 content-type=text/plain content-length=17\n"
                "1 data 17 end\n1 reset 0\nContent Too Large",
                heard());
    EXPECT_EQ(0, w.pages_n);
    world_release(&w);
}

TEST(continue_is_said_over_http_2)
{
    begin_h2();
    put_page(1, "PUT", "/", 0, (struct field[]){{"expect", "100-continue"}, {0}});
    EXPECT_TEXT("1 headers :status=100\n", heard());
    put_data(1, "a", END_STREAM);
    EXPECT_TEXT(PAGE_OK("1", "9") "1 data 9 end\nPUT /|||a", heard());
    put_page(3, "GET", "/", END_STREAM, (struct field[]){{"expect", "100-continue"}, {0}});
    EXPECT_TEXT(PAGE_OK("3", "8") "3 data 8 end\nGET /|||", heard());
    world_release(&w);
}

/* The peer resets one stream: its service is told, and its slot is free when it has ended. */
TEST(a_reset_exchange_is_told_and_keeps_its_slot)
{
    begin_h2();
    w.limits.calls_n_max = 1;
    w.is_page_kept = true;
    put_page(1, "GET", "/hold", END_STREAM, NO_FIELDS);
    EXPECT_TEXT("", heard());
    put_frame_u32(&w.in, NGHTTP2_RST_STREAM, 1, NGHTTP2_CANCEL);
    EXPECT_TEXT("", heard());
    EXPECT_EQ(1, w.closed_n);
    put_page(3, "GET", "/", END_STREAM, NO_FIELDS);
    EXPECT_TEXT("3 reset 7\n", heard());
    http_answer(w.exchange, 200, NULL, BYTES_NONE);
    put_page(5, "GET", "/", END_STREAM, NO_FIELDS);
    EXPECT(strstr(heard(), "5 data 8 end") != NULL);
    world_release(&w);
}

/* Cut off is a reset, and no end. */
TEST(a_streamed_answer_that_is_cut_off_is_reset)
{
    begin_held(2, "GET");
    world_begin_page(&w, "text/plain");
    EXPECT_STATUS(OK, http_send(w.exchange, BYTES_LITERAL("one")));
    (void)heard();
    http_finish(w.exchange, false);
    EXPECT_TEXT("1 reset 2\n", heard());
    EXPECT_EQ(0, w.closed_n);
    world_release(&w);
}

/* Bodies that handlers hold are counted like those that are coming. */
TEST(bodies_at_work_are_bounded)
{
    static char zeros[16000 + 1];
    memset(zeros, '0', sizeof zeros - 1);
    begin_h2();
    w.limits.unfinished_size_max = 40000;
    w.is_page_kept = true;
    struct http_exchange *held[2];
    for (uint32_t i = 0; i < 2; i++) {
        put_page(2 * i + 1, "PUT", "/hold", 0, NO_FIELDS);
        put_data(2 * i + 1, zeros, END_STREAM);
        EXPECT_TEXT("", heard());
        held[i] = w.exchange;
        EXPECT_EQ(16000, http_body(held[i]).len);
    }
    put_page(5, "PUT", "/hold", 0, NO_FIELDS);
    put_data(5, zeros, 0);
    EXPECT_TEXT("5 headers :status=503 content-type=text/plain content-length=19 retry-after=1\n"
                "5 data 19 end\n5 reset 0\nService Unavailable",
                heard());
    EXPECT_EQ(1, w.counters.requests_too_large);
    EXPECT_EQ(2, w.pages_n);
    http_answer(held[0], 204, NULL, BYTES_NONE);
    (void)heard();
    put_page(7, "PUT", "/", 0, NO_FIELDS);
    put_data(7, zeros, END_STREAM);
    EXPECT(strstr(heard(), "7 headers :status=200") != NULL);
    conn_free(w.conn, w.now_ns); /* one is still at work, and has its body */
    w.conn = NULL;
    EXPECT_EQ(16000, http_body(held[1]).len);
    EXPECT_EQ('0', http_body(held[1]).ptr[15999]);
    http_answer(held[1], 204, NULL, BYTES_NONE);
    world_release(&w);
}

/* A body is needed no more when its exchange has ended, though its answer still waits. */
TEST(a_body_is_dropped_when_it_is_answered)
{
    static const uint8_t zeros[100 * 1024];
    size_t unfinished = 0;
    world_init(&w);
    w.unfinished = &unfinished;
    world_greet(&w);
    put_page(1, "PUT", "/hold", 0, NO_FIELDS);
    put_data(1, "0123456789", END_STREAM);
    (void)heard();
    EXPECT_EQ(10, unfinished);
    http_answer(w.exchange, 200, "text/plain", bytes_make(zeros, sizeof zeros));
    EXPECT_EQ(0, unfinished);
    world_release(&w);
}

/* Answers that are not taken: the next one is 503 and small. */
TEST(answers_over_http_2_are_bounded)
{
    static const uint8_t zeros[200 * 1024];
    begin_h2();
    w.limits.answers_size_max = 250 * 1024;
    put_page(1, "GET", "/hold", END_STREAM, NO_FIELDS);
    (void)heard();
    http_answer(w.exchange, 200, "text/plain", bytes_make(zeros, sizeof zeros));
    (void)heard();
    put_page(3, "GET", "/hold", END_STREAM, NO_FIELDS);
    (void)heard();
    http_add_header(w.exchange, "etag", BYTES_LITERAL("\"1\""));
    http_answer(w.exchange, 200, "text/plain", bytes_make(zeros, sizeof zeros));
    EXPECT_TEXT("3 end :status=503 content-length=0\n", heard());
    EXPECT_EQ(1, w.counters.answers_too_large);
    world_release(&w);
}

/* A slow body over HTTP/2 ends the connection, as a slow message does. */
TEST(a_slow_body_over_http_2_is_closed)
{
    begin_h2();
    put_page(1, "PUT", "/", 0, NO_FIELDS);
    int seconds = 0;
    while (!conn_is_over(w.conn) && seconds < 60) {
        put_data(1, "a", 0);
        (void)heard();
        world_wait_ms(&w, 1000);
        (void)heard();
        seconds++;
    }
    EXPECT_EQ(10, seconds);
    EXPECT_EQ(1, w.counters.slow_request);
    world_release(&w);
}

/* A large body may come at full speed when its length is known. */
TEST(a_known_length_widens_the_window)
{
    begin_h2();
    put_page(1, "PUT", "/", 0, (struct field[]){{"content-length", "500000"}, {0}});
    (void)heard();
    EXPECT_EQ(500000 - 64 * 1024, w.stream_grants);
    world_release(&w);
}

TEST(an_answer_is_dated)
{
    char date[DATE_SIZE];
    date_format(784111777, date);
    EXPECT_TEXT("Sun, 06 Nov 1994 08:49:37 GMT", date);
    date_format(0, date);
    EXPECT_TEXT("Thu, 01 Jan 1970 00:00:00 GMT", date);
    date_format(951782399, date);
    EXPECT_TEXT("Mon, 28 Feb 2000 23:59:59 GMT", date);
    date_format(951782400, date);
    EXPECT_TEXT("Tue, 29 Feb 2000 00:00:00 GMT", date);
    date_format(4107542400, date);
    EXPECT_TEXT("Mon, 01 Mar 2100 00:00:00 GMT", date);
    date_format(INT64_MAX, date);
    EXPECT_TEXT("Fri, 31 Dec 9999 23:59:59 GMT", date);
    date_format(-1, date);
    EXPECT_TEXT("Thu, 01 Jan 1970 00:00:00 GMT", date);
    for (int version = 1; version <= 2; version++) {
        world_init(&w);
        w.date = date;
        world_connect(&w, true);
        if (version == 2) {
            put_greeting(&w.in);
            put_page(1, "GET", "/", END_STREAM, NO_FIELDS);
            EXPECT(strstr(heard(), " date=Thu, 01 Jan 1970 00:00:00 GMT\n") != NULL);
        } else {
            (void)conn_feed(w.conn, w.now_ns, BYTES_LITERAL("GET / HTTP/1.0\r\n\r\n"));
            EXPECT(strstr(told(1), "\r\ndate: Thu, 01 Jan 1970 00:00:00 GMT\r\n") != NULL);
        }
        world_release(&w);
    }
}

/* Whichever allocation fails: no leak, and the service can end what it has. */
TEST(every_failed_allocation_is_survived)
{
    for (uint64_t n = 1; n < 300; n++) {
        test_note("allocation %llu", (unsigned long long)n);
        begin_h2();
        w.mem.fail_at = n;
        put_page(1, "PUT", "/a", 0, (struct field[]){{"x-test", "0123456789"}, {0}});
        put_data(1, "0123456789", END_STREAM);
        put_page(3, "GET", "/hold", END_STREAM, NO_FIELDS);
        (void)heard();
        if (w.exchange != NULL) {
            http_add_header(w.exchange, "x-long", BYTES_LITERAL("0123456789"));
            world_begin_page(&w, "text/plain");
            (void)http_send(w.exchange, BYTES_LITERAL("0123456789"));
            (void)heard();
        }
        if (w.exchange != NULL) http_finish(w.exchange, true);
        (void)heard();
        bool is_reached = w.mem.fail_at == 0;
        w.mem.fail_at = 0;
        world_release(&w);
        if (!is_reached) return;
    }
    test_fail(__FILE__, __LINE__, "there is no end of allocations");
}
