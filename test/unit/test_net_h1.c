/* SPDX-License-Identifier: Apache-2.0
 *
 * HTTP/1.1 on one connection in memory: what is understood, what is refused, and that it makes no
 * difference in which pieces the bytes come.
 */
#include "net/h1_head.h"
#include "test/unit/net_world.h"

static struct world w;

static void begin(void)
{
    world_init(&w);
    world_connect(&w, true);
}

static const char *say(const char *text)
{
    (void)conn_feed(w.conn, w.now_ns, bytes_of_text(text));
    world_pull(&w);
    static char answer[4096];
    snprintf(answer, sizeof answer, "%.*s", (int)w.out.len, (const char *)w.out.ptr);
    buffer_clear(&w.out);
    return answer;
}

#define PAGE(size, text)                                                                           \
    "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: " size "\r\n\r\n" text

TEST(a_request_is_answered)
{
    begin();
    EXPECT_TEXT(PAGE("15", "GET /a/b|c=d|e|"),
                say("GET /a/b?c=d HTTP/1.1\r\nHost: x\r\nX-Test:  e \r\n\r\n"));
    EXPECT_TEXT(PAGE("8", "GET /|||"), say("GET / HTTP/1.1\r\nhost: x\r\n\r\n"));
    EXPECT(!conn_is_over(w.conn));
    EXPECT_EQ(2, w.counters.pages);
    world_release(&w);
}

TEST(a_body_is_read)
{
    begin();
    EXPECT_TEXT("", say("POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhel"));
    EXPECT_TEXT(PAGE("15", "POST /x|||hello"), say("lo"));
    world_release(&w);
}

/* It arrives whole, as others do; what stands behind it is the next request. */
TEST(a_chunked_body_is_read)
{
    begin();
    EXPECT_TEXT("",
                say("POST /x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhe"));
    EXPECT_TEXT("", say("llo\r\n1;a\r\n!\r\n0\r\n"));
    EXPECT_TEXT("", say("T: u\r\n"));
    EXPECT_TEXT(PAGE("16", "POST /x|||hello!") PAGE("8", "GET /|||"),
                say("\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n"));
    EXPECT(!conn_is_over(w.conn));
    world_release(&w);
}

/* What was decoded is all that is kept, so chunks of one byte do not take six. */
TEST(a_body_in_small_chunks_takes_no_more_than_its_size)
{
    begin();
    (void)say("PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 100 * 1000; i++)
        EXPECT_STATUS(OK, conn_feed(w.conn, w.now_ns, BYTES_LITERAL("1\r\nx\r\n")));
    EXPECT(w.mem.used < 300 * 1000);
    w.is_page_held = true;
    (void)say("0\r\n\r\n");
    EXPECT_EQ(100 * 1000, http_body(w.exchange).len);
    world_answer_page(&w, w.exchange);
    world_release(&w);
}

/* What all requests hold is bounded, and a handler that has a large one holds it too. */
TEST(bodies_of_all_connections_are_bounded)
{
    static const uint8_t zeros[300 * 1024];
    size_t unfinished = 0;
    struct conn *first;
    world_init(&w);
    w.limits.unfinished_size_total = 500 * 1024;
    w.unfinished = &unfinished;
    world_connect(&w, true);
    (void)say("PUT /hold HTTP/1.1\r\nHost: x\r\nContent-Length: 307200\r\n\r\n");
    (void)conn_feed(w.conn, w.now_ns, bytes_make(zeros, sizeof zeros));
    EXPECT_EQ(1, w.pages_n);
    EXPECT(unfinished >= sizeof zeros);
    first = w.conn;
    world_connect(&w, true);
    (void)say("PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4b000\r\n");
    EXPECT_STATUS(E_CLOSED, conn_feed(w.conn, w.now_ns, bytes_make(zeros, sizeof zeros)));
    EXPECT(strstr(say(""), "HTTP/1.1 503 ") != NULL);
    EXPECT_EQ(1, w.counters.requests_too_large);
    conn_free(w.conn, w.now_ns);
    w.conn = first;
    http_answer(w.exchange, 200, NULL, BYTES_NONE);
    (void)say("");
    EXPECT_EQ(0, unfinished);
    (void)say("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 307200\r\n\r\nabc");
    EXPECT(unfinished > 0);
    conn_free(w.conn, w.now_ns); /* half of a body goes with its connection */
    w.conn = NULL;
    EXPECT_EQ(0, unfinished);
    world_release(&w);
}

/* One at a time: the second is not seen before the first is answered. */
TEST(requests_sent_ahead_wait)
{
    begin();
    w.is_page_held = true;
    EXPECT_TEXT("", say("GET /1 HTTP/1.1\r\nHost: x\r\n\r\nGET /2 HTTP/1.1\r\nHost: x\r\n\r\n"));
    EXPECT_EQ(1, w.pages_n);
    w.is_page_held = false;
    world_answer_page(&w, w.exchange);
    EXPECT_TEXT(PAGE("9", "GET /1|||") PAGE("9", "GET /2|||"), say(""));
    EXPECT_EQ(2, w.pages_n);
    world_release(&w);
}

/* A peer that sends on and on is not read any more until its first request is answered. */
TEST(what_is_sent_ahead_is_bounded)
{
    begin();
    w.is_page_held = true;
    (void)say("GET /1 HTTP/1.1\r\nHost: x\r\n\r\n");
    size_t sent = 0;
    while (conn_wants_read(w.conn)) {
        (void)say("GET /2 HTTP/1.1\r\nHost: x\r\n\r\n");
        sent += 27;
        EXPECT(sent < 100 * 1024);
    }
    EXPECT(w.mem.used < 256 * 1024);
    w.is_page_held = false;
    world_answer_page(&w, w.exchange);
    (void)say("");
    EXPECT(conn_wants_read(w.conn));
    EXPECT_EQ(1 + sent / 27, w.pages_n);
    world_release(&w);
}

/* Pages are asked for in few bytes and not read: what is kept for the peer is bounded, then we stop
 * reading, and go on where we stopped when it reads. */
TEST(answers_that_are_not_taken_are_bounded)
{
    static char text[100 * 1024];
    enum { N = 40000 };
    const char *request = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    size_t n = 0;
    unsigned sent_n = 0;
    begin();
    while (n + strlen(request) < sizeof text) {
        memcpy(text + n, request, strlen(request));
        n += strlen(request);
    }
    while (conn_wants_read(w.conn) && sent_n < N) {
        EXPECT_STATUS(OK, conn_feed(w.conn, w.now_ns, bytes_make(text, n)));
        sent_n += (unsigned)(n / strlen(request));
    }
    EXPECT(sent_n < N);
    EXPECT(w.mem.used < 1024 * 1024);
    world_wait_ms(&w, 1000); /* not idle, not slow: it waits for the peer */
    EXPECT(!conn_is_over(w.conn));
    world_pull(&w);
    EXPECT_EQ(sent_n, w.pages_n);
    EXPECT(conn_wants_read(w.conn));
    world_release(&w);
}

/* A body that stops: what came before buys no time. */
TEST(a_body_that_stops_is_closed)
{
    static const uint8_t zeros[500 * 1024];
    begin();
    (void)say("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n");
    EXPECT_STATUS(OK, conn_feed(w.conn, w.now_ns, bytes_make(zeros, sizeof zeros)));
    world_wait_ms(&w, 9999);
    EXPECT(!conn_is_over(w.conn));
    world_wait_ms(&w, 1);
    EXPECT(strncmp(say(""), "HTTP/1.1 408 ", 13) == 0);
    EXPECT(conn_is_over(w.conn));
    EXPECT_EQ(0, w.counters.http_malformed);
    EXPECT_EQ(1, w.counters.slow_request);
    world_release(&w);
}

TEST(head_has_no_body)
{
    begin();
    EXPECT_TEXT("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 9\r\n\r\n",
                say("HEAD / HTTP/1.1\r\nHost: x\r\n\r\n"));
    world_release(&w);
}

TEST(close_is_honoured)
{
    begin();
    EXPECT_TEXT("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 8\r\n"
                "connection: close\r\n\r\nGET /|||",
                say("GET / HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Close\r\n\r\nGET /"));
    EXPECT(conn_is_over(w.conn));
    world_release(&w);
}

TEST(http_1_0_is_answered_and_closed)
{
    begin();
    EXPECT(strstr(say("GET / HTTP/1.0\r\n\r\n"), "connection: close") != NULL);
    EXPECT(conn_is_over(w.conn));
    world_release(&w);
}

TEST(a_peer_that_waits_for_continue_gets_it)
{
    begin();
    EXPECT_TEXT("HTTP/1.1 100 Continue\r\n\r\n",
                say("PUT /x HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
                    "Content-Length: 2\r\n\r\n"));
    EXPECT_TEXT(PAGE("11", "PUT /x|||ab"), say("ab"));
    world_release(&w);
}

/* With chunks as well; not in HTTP/1.0; and not when the body is there, or is refused. */
TEST(continue_is_said_when_it_is_waited_for)
{
    begin();
    EXPECT_TEXT("HTTP/1.1 100 Continue\r\n\r\n",
                say("PUT /x HTTP/1.1\r\nHost: x\r\nExpect: 100-Continue\r\n"
                    "Transfer-Encoding: chunked\r\n\r\n"));
    EXPECT_TEXT("", say("2\r\na"));
    EXPECT_TEXT(PAGE("11", "PUT /x|||ab"), say("b\r\n0\r\n\r\n"));
    EXPECT_TEXT(PAGE("11", "PUT /x|||ab"), say("PUT /x HTTP/1.1\r\nHost: x\r\nExpect: "
                                               "100-continue\r\nContent-Length: 2\r\n\r\nab"));
    EXPECT(strstr(say("PUT /x HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
                      "Content-Length: 100000000\r\n\r\n"),
                  "HTTP/1.1 413 ") != NULL);
    world_release(&w);
    begin();
    EXPECT(strstr(say("PUT /x HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
                      "Transfer-Encoding: chunked\r\n\r\nx"),
                  "100 Continue") == NULL);
    EXPECT(conn_is_over(w.conn));
    world_release(&w);
    begin();
    EXPECT_TEXT("", say("PUT /x HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"));
    world_release(&w);
}

/* Answers come in the order of the requests, whoever is slow. */
TEST(pipelined_requests_are_answered_in_order)
{
    begin();
    (void)say("GET /hold HTTP/1.1\r\nHost: x\r\n\r\nGET /2 HTTP/1.1\r\nHost: x\r\n\r\n"
              "PUT /3 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n"
              "HEAD /4 HTTP/1.1\r\nHost: x\r\n\r\nGET /5 HTTP/1.1\r\nHost: x\r\n\r\n");
    world_begin_page(&w, "text/plain");
    EXPECT_STATUS(OK, http_send(w.exchange, BYTES_LITERAL("one")));
    EXPECT_TEXT("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ntransfer-encoding: chunked\r\n\r\n"
                "3\r\none\r\n",
                say(""));
    EXPECT_EQ(1, w.pages_n);
    http_finish(w.exchange, true);
    EXPECT_TEXT("0\r\n\r\n" PAGE("9", "GET /2|||") PAGE("10", "PUT /3|||x") PAGE("10", "")
                    PAGE("9", "GET /5|||"),
                say(""));
    world_release(&w);
}

/* The upgrade to HTTP/2 is not taken: it would be a second way in. */
TEST(an_upgrade_is_ignored)
{
    begin();
    EXPECT_TEXT(PAGE("8", "GET /|||"),
                say("GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\n"
                    "Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n"));
    EXPECT(!conn_is_over(w.conn));
    world_release(&w);
}

#define GET "GET / HTTP/1.1\r\n"
#define HOST "Host: x\r\n"
#define CHUNKED "Transfer-Encoding: chunked\r\n\r\n"

static const struct {
    unsigned status; /* 0 = answered */
    const char *text;
} heads[] = {
    {200, GET HOST "\r\n"},
    {200, "\r\n" GET HOST "\r\n"},
    {200, "GET http://x/y HTTP/1.1\r\n" HOST "\r\n"},
    {200, "OPTIONS * HTTP/1.1\r\n" HOST "\r\n"},
    {200, GET HOST "A:\r\nB: \x80\xff\r\n\r\n"},
    {400, "\r\n\r\n" GET HOST "\r\n"},
    {400, "GET / HTTP/1.1\n"},
    {400, GET "Host: x\n"},
    {400, GET "Host: x\rA: b\r\n\r\n"},
    {400, GET HOST "A: b\rC: d\r\n\r\n"},
    {400, GET "\r\n"},
    {400, GET HOST HOST "\r\n"},
    {400, GET HOST "A: b\r\n c\r\n\r\n"},
    {400, GET HOST "A : b\r\n\r\n"},
    {400, GET HOST " A: b\r\n\r\n"},
    {400, GET HOST ": b\r\n\r\n"},
    {400, GET HOST "A\r\n\r\n"},
    {400, GET HOST "A(: b\r\n\r\n"},
    {400, GET HOST "A: \x01\r\n\r\n"},
    {400, GET HOST "A: \x7f\r\n\r\n"},
    {400, "GET  / HTTP/1.1\r\n" HOST "\r\n"},
    {400, "GET / HTTP/1.1 \r\n" HOST "\r\n"},
    {400, "GET /\r\n\r\n"},
    {400, "GET /a b HTTP/1.1\r\n" HOST "\r\n"},
    {400, "GET a HTTP/1.1\r\n" HOST "\r\n"},
    {400, "GET /#x HTTP/1.1\r\n" HOST "\r\n"},
    {400, "GET /\xc3\xa4 HTTP/1.1\r\n" HOST "\r\n"},
    {400, "G@T / HTTP/1.1\r\n" HOST "\r\n"},
    {400, "GET / http/1.1\r\n" HOST "\r\n"},
    {400, "GET / HTTP/1.11\r\n" HOST "\r\n"},
    {505, "GET / HTTP/2.0\r\n" HOST "\r\n"},
    {505, "GET / HTTP/0.9\r\n" HOST "\r\n"},
    {505, "GET / HTTP/1.2\r\n" HOST "\r\n"},
    {400, GET HOST "Content-Length: 1\r\nContent-Length: 1\r\n\r\n"},
    {400, GET HOST "Content-Length: 1, 1\r\n\r\n"},
    {400, GET HOST "Content-Length: +1\r\n\r\n"},
    {400, GET HOST "Content-Length: 0x1\r\n\r\n"},
    {400, GET HOST "Content-Length: \r\n\r\n"},
    {400, GET HOST "Content-Length: 9999999999999999999\r\n\r\n"},
    {400, GET HOST "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"},
    {400, GET HOST "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n"},
    {400, "GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"},
    {400, GET HOST "Transfer-Encoding: gzip, chunked\r\n\r\n"},
    {400, GET HOST "Transfer-Encoding: chunked, chunked\r\n\r\n"},
    {400, GET HOST "Transfer-Encoding: identity\r\n\r\n"},
    {400, GET HOST "Transfer-Encoding: \r\n\r\n"},
    {400, GET HOST "Transfer-Encoding: xchunked\r\n\r\n"},
    {400, GET HOST "Transfer-Encoding:\x0b chunked\r\n\r\n"},
    {400, GET HOST "Transfer-Encoding : chunked\r\n\r\n"},
    {400, GET HOST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"},
    {400, GET HOST "Transfer-Encoding: \r\n chunked\r\n\r\n"},
    {200, GET HOST "Transfer-Encoding: Chunked\r\n\r\n0\r\n\r\n"},
    {400, GET HOST CHUNKED "x\r\n\r\n"},
    {400, GET HOST CHUNKED "\r\n\r\n"},
    {400, GET HOST CHUNKED "0\n\n"},
    {413, GET HOST CHUNKED "100001\r\n"},
    {413, GET HOST CHUNKED "ffffffffffffffff\r\n"},
    {400, GET "Host: a b\r\n\r\n"},
    {400, GET "Host: a/b\r\n\r\n"},
    {200, GET "Host: [::1]:80\r\n\r\n"},
    {200, GET "Host:\r\n\r\n"},
    {413, GET HOST "Content-Length: 1048577\r\n\r\n"},
    {417, GET HOST "Expect: tea\r\n\r\n"},
    {400, "\x16\x03\x01\x02"}, /* TLS */
    {505, "PRI * HTTP/2.0\r\n\r\nXX"},
};

/* Each that is refused ends the connection: where the next request starts is not known. */
TEST(what_is_not_strictly_http_is_refused)
{
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        char expected[32];
        test_note("case %zu: %s", i, heads[i].text);
        begin();
        snprintf(expected, sizeof expected, "HTTP/1.1 %u ", heads[i].status);
        const char *answer = say(heads[i].text);
        EXPECT_BYTES(bytes_of_text(expected), bytes_make(answer, strlen(expected)));
        EXPECT_EQ(heads[i].status != 200, conn_is_over(w.conn));
        EXPECT_EQ(heads[i].status == 200, w.pages_n);
        EXPECT_EQ(heads[i].status != 200 && heads[i].status != 413, w.counters.http_malformed);
        world_release(&w);
    }
}

/* A peer of 1.0 knows no chunks: its body ends with the connection. */
TEST(a_streamed_answer_to_http_1_0_ends_with_the_connection)
{
    begin();
    (void)say("GET /hold HTTP/1.0\r\n\r\n");
    world_begin_page(&w, "text/plain");
    EXPECT_STATUS(OK, http_send(w.exchange, BYTES_LITERAL("one")));
    EXPECT_STATUS(OK, http_send(w.exchange, BYTES_LITERAL("two")));
    EXPECT(!conn_is_over(w.conn));
    http_finish(w.exchange, true);
    EXPECT_TEXT("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\nonetwo",
                say(""));
    EXPECT(conn_is_over(w.conn));
    world_release(&w);
}

/* Cut off: no last chunk, and the connection ends, so that nobody takes it for whole. */
TEST(a_streamed_answer_that_is_cut_off_has_no_last_chunk)
{
    begin();
    (void)say("GET /hold HTTP/1.1\r\nHost: x\r\n\r\n");
    world_begin_page(&w, NULL);
    EXPECT_STATUS(OK, http_send(w.exchange, BYTES_LITERAL("0123456789abcdef")));
    EXPECT_STATUS(OK, http_send(w.exchange, BYTES_NONE)); /* would be the end */
    http_finish(w.exchange, false);
    EXPECT_TEXT("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n10\r\n0123456789abcdef\r\n",
                say(""));
    EXPECT(conn_is_over(w.conn));
    world_release(&w);
}

/* The end of the connection, which was asked for, comes after the end of the body. */
TEST(a_streamed_answer_may_be_the_last)
{
    begin();
    (void)say("GET /hold HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    world_begin_page(&w, NULL);
    EXPECT_TEXT("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n",
                say(""));
    EXPECT(!conn_is_over(w.conn));
    http_finish(w.exchange, true);
    EXPECT(!conn_is_over(w.conn));
    EXPECT_TEXT("0\r\n\r\n", say(""));
    EXPECT(conn_is_over(w.conn));
    world_release(&w);
}

static void put_long_head(size_t size)
{
    const char *start = "GET / HTTP/1.1\r\nHost: x\r\nA: ";
    buffer_append_bytes(&w.in, bytes_of_text(start));
    while (w.in.len < size - 4) buffer_u8(&w.in, 'a');
    buffer_append_bytes(&w.in, BYTES_LITERAL("\r\n\r\n"));
}

/* 8 KiB are allowed, and one more byte is not. */
TEST(a_long_head_is_refused)
{
    for (size_t more = 0; more < 2; more++) {
        begin();
        put_long_head(HEAD_SIZE_MAX + more);
        (void)conn_feed(w.conn, w.now_ns, buffer_view(&w.in));
        world_pull(&w);
        const char *expected = more == 0 ? "HTTP/1.1 200 " : "HTTP/1.1 431 ";
        EXPECT_BYTES(bytes_of_text(expected), bytes_make(w.out.ptr, strlen(expected)));
        world_release(&w);
    }
}

TEST(too_many_fields_are_refused)
{
    for (int more = 0; more < 2; more++) {
        begin();
        buffer_append_bytes(&w.in, BYTES_LITERAL(GET HOST));
        for (int i = 0; i < 63 + more; i++) buffer_append_bytes(&w.in, BYTES_LITERAL("A: b\r\n"));
        buffer_append_bytes(&w.in, BYTES_LITERAL("\r\n"));
        (void)conn_feed(w.conn, w.now_ns, buffer_view(&w.in));
        world_pull(&w);
        const char *expected = more == 0 ? "HTTP/1.1 200 " : "HTTP/1.1 431 ";
        EXPECT_BYTES(bytes_of_text(expected), bytes_make(w.out.ptr, strlen(expected)));
        world_release(&w);
    }
}

/* Every way to cut four requests in two gives the same answers. */
TEST(pieces_make_no_difference)
{
    static const char text[] = "\r\nGET /1 HTTP/1.1\r\nHost: x\r\nX-Test: a\r\n\r\n"
                               "POST /2?q HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n\r\nab"
                               "PUT /2 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                               "2;x\r\nab\r\n1\r\nc\r\n0\r\nA: b\r\n\r\n"
                               "GET /3 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    uint64_t digest = 0;
    for (size_t cut = 0; cut < sizeof text; cut++) {
        test_note("cut at %zu", cut);
        begin();
        (void)conn_feed(w.conn, w.now_ns, bytes_make(text, cut));
        (void)conn_feed(w.conn, w.now_ns, bytes_make(text + cut, sizeof text - 1 - cut));
        world_pull(&w);
        EXPECT_EQ(4, w.pages_n);
        EXPECT(conn_is_over(w.conn));
        if (cut == 0) digest = w.digest;
        EXPECT(digest == w.digest);
        world_release(&w);
    }
}

/* Slowloris: a head that comes byte by byte has ten seconds in all. */
TEST(a_slow_head_is_closed)
{
    begin();
    int seconds = 0;
    (void)say("G");
    while (!conn_is_over(w.conn) && seconds < 60) {
        world_wait_ms(&w, 1000);
        (void)say("a");
        seconds++;
    }
    EXPECT_EQ(10, seconds);
    EXPECT_EQ(1, w.counters.slow_request);
    world_release(&w);
}

/* Chunks that say little pay for little time. */
TEST(a_slow_chunked_body_is_closed)
{
    begin();
    (void)say("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
    int seconds = 0;
    while (!conn_is_over(w.conn) && seconds < 60) {
        (void)say("1\r\na\r\n");
        world_wait_ms(&w, 1000);
        world_pull(&w);
        seconds++;
    }
    EXPECT_EQ(11, seconds);
    EXPECT_EQ(1, w.counters.slow_request);
    world_release(&w);
}

TEST(a_slow_body_is_closed)
{
    begin();
    (void)say("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n");
    int seconds = 0;
    while (!conn_is_over(w.conn) && seconds < 60) {
        (void)say("0123456789");
        world_wait_ms(&w, 1000);
        world_pull(&w);
        seconds++;
    }
    EXPECT_EQ(11, seconds);
    EXPECT_EQ(1, w.counters.slow_request);
    world_release(&w);
}

TEST(an_idle_connection_is_closed)
{
    begin();
    (void)say("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    world_wait_ms(&w, 299999);
    EXPECT(!conn_is_over(w.conn));
    world_wait_ms(&w, 1);
    EXPECT(conn_is_over(w.conn));
    EXPECT_EQ(1, w.counters.idle_closed);
    world_release(&w);
}

/* A handler may take its time, and may answer when nobody is there any more. */
TEST(an_exchange_outlives_its_connection)
{
    begin();
    w.is_page_held = true;
    (void)say("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    world_wait_ms(&w, 3600 * 1000);
    EXPECT(!conn_is_over(w.conn));
    conn_free(w.conn, w.now_ns);
    w.conn = NULL;
    EXPECT_EQ(1, w.closed_n);
    world_release(&w);
}

TEST(a_draining_connection_ends_after_its_answer)
{
    begin();
    w.is_page_held = true;
    (void)say("GET / HTTP/1.1\r\nHost: x\r\n\r\nGET /2 HTTP/1.1\r\nHost: x\r\n\r\n");
    conn_drain(w.conn, w.now_ns);
    EXPECT(!conn_is_over(w.conn));
    world_answer_page(&w, w.exchange);
    EXPECT(strstr(say(""), "connection: close") != NULL);
    EXPECT(conn_is_over(w.conn));
    EXPECT_EQ(1, w.pages_n);
    world_release(&w);
}

TEST(an_idle_connection_drains_at_once)
{
    begin();
    (void)say("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    conn_drain(w.conn, w.now_ns);
    EXPECT(conn_is_over(w.conn));
    world_release(&w);
}

static void stream_a_little(void)
{
    static const uint8_t zeros[3000];
    http_add_header(w.exchange, "x-long", bytes_make("0123456789", 10));
    world_begin_page(&w, "text/plain");
    enum status status = http_send(w.exchange, bytes_make(zeros, sizeof zeros));
    EXPECT(status == OK || status == E_NOMEM || status == E_CLOSED);
    http_finish(w.exchange, true);
}

/* Whichever allocation fails: no leak, no half answer. */
TEST(every_failed_allocation_is_survived)
{
    for (uint64_t n = 1; n < 100; n++) {
        test_note("allocation %llu", (unsigned long long)n);
        world_init(&w);
        struct conn_options options = {.mem = &w.mem,
                                       .limits = &w.limits,
                                       .counters = &w.counters,
                                       .grpc = &w.grpc,
                                       .http = &w.http};
        w.mem.fail_at = n;
        if (conn_new(&options, w.now_ns, &w.conn) == OK) {
            (void)say("GET /1 HTTP/1.1\r\nHost: x\r\n\r\nGET /2 HTTP/1.1\r\nHost: x\r\n\r\n");
            (void)say("PUT /3 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n");
            (void)say("0\r\n\r\nGET /hold HTTP/1.1\r\nHost: x\r\n\r\nGET /4 HTTP/1.1\r\nHo");
            if (w.exchange != NULL) stream_a_little();
            (void)say("st: x\r\n\r\n");
        }
        bool is_reached = w.mem.fail_at == 0;
        w.mem.fail_at = 0;
        world_release(&w);
        if (!is_reached) return;
    }
    test_fail(__FILE__, __LINE__, "there is no end of allocations");
}
