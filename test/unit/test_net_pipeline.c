/* SPDX-License-Identifier: Apache-2.0
 *
 * Several requests of one HTTP/1.1 connection under way at once: their answers come in the order of
 * the requests, whenever and however the service makes them; and a peer that has ended its side
 * still gets them all.
 */
#include "base/rng.h"
#include "test/unit/net_world.h"

#define EXCHANGES_N_MAX 256

static struct world w;

/* Requests that the service has; NULL once it is ended. */
static struct http_exchange *held[EXCHANGES_N_MAX];
static size_t held_n;
static unsigned closed_n;
static unsigned half_closed_n;
static unsigned writable_n;
static bool is_ending_half_closed;

static void on_request(void *user, struct http_exchange *e)
{
    (void)user;
    EXPECT(held_n < EXCHANGES_N_MAX);
    held[held_n++] = e;
}

static size_t index_of(const struct http_exchange *e)
{
    size_t n = 0;
    while (n < held_n && held[n] != e) n++;
    EXPECT(n < held_n);
    return n;
}

/* The path is the answer. */
static void answer(size_t n)
{
    struct http_exchange *e = held[n];
    EXPECT(e != NULL);
    held[n] = NULL;
    if (http_user(e) != NULL)
        http_finish(e, true);
    else
        http_answer(e, 200, NULL, http_path(e));
}

static void on_writable(void *user, struct http_exchange *e)
{
    (void)user;
    (void)index_of(e);
    writable_n++;
}

static void on_closed(void *user, struct http_exchange *e)
{
    (void)user;
    closed_n++;
    EXPECT(http_is_closed(e));
    answer(index_of(e));
}

static void on_half_closed(void *user, struct http_exchange *e)
{
    (void)user;
    half_closed_n++;
    if (is_ending_half_closed) answer(index_of(e));
}

static bool is_beside(void *user, const struct http_exchange *before,
                      const struct http_exchange *next)
{
    (void)user;
    return bytes_equal(http_method(before), http_method(next));
}

static void begin(void)
{
    world_init(&w);
    w.http = (struct http_service){.user = &w,
                                   .request = on_request,
                                   .writable = on_writable,
                                   .closed = on_closed,
                                   .half_closed = on_half_closed,
                                   .is_beside = is_beside};
    held_n = 0;
    closed_n = half_closed_n = writable_n = 0;
    is_ending_half_closed = false;
    world_connect(&w, true);
}

/* What came since the last call. */
static const char *told(void)
{
    static char text[64 * 1024];
    world_pull(&w);
    size_t size = w.out.len < sizeof text - 1 ? w.out.len : sizeof text - 1;
    if (size > 0) memcpy(text, w.out.ptr, size);
    text[size] = 0;
    buffer_clear(&w.out);
    return text;
}

static const char *say(const char *text)
{
    (void)conn_feed(w.conn, w.now_ns, bytes_of_text(text));
    return told();
}

#define GET(path) "GET " path " HTTP/1.1\r\nHost: x\r\n\r\n"
#define PUT(path) "PUT " path " HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi"
#define ANSWER(size, text) "HTTP/1.1 200 OK\r\ncontent-length: " size "\r\n\r\n" text
#define LAST_ANSWER(size, text)                                                                    \
    "HTTP/1.1 200 OK\r\ncontent-length: " size "\r\nconnection: close\r\n\r\n" text

/* All that came in one read are given at once, and answered in their order. */
TEST(answers_come_in_the_order_of_the_requests)
{
    begin();
    EXPECT_TEXT("", say(PUT("/1") PUT("/2") PUT("/3") PUT("/4")));
    EXPECT_EQ(4, held_n);
    EXPECT_BYTES(BYTES_LITERAL("hi"), http_body(held[2]));
    EXPECT_BYTES(BYTES_LITERAL("x"), http_header(held[2], "host"));
    answer(2);
    answer(1);
    EXPECT_TEXT("", told());
    answer(0);
    EXPECT_TEXT(ANSWER("2", "/1") ANSWER("2", "/2") ANSWER("2", "/3"), told());
    EXPECT_TEXT("", say(PUT("/5")));
    answer(4);
    EXPECT_TEXT("", told());
    answer(3);
    EXPECT_TEXT(ANSWER("2", "/4") ANSWER("2", "/5"), told());
    world_release(&w);
}

/* What the service does not take beside the others waits, and so does all behind it. */
TEST(a_request_of_another_kind_waits)
{
    begin();
    EXPECT_TEXT("", say(PUT("/1") PUT("/2") GET("/3") PUT("/4") GET("/5")));
    EXPECT_EQ(2, held_n);
    answer(0);
    EXPECT_TEXT(ANSWER("2", "/1"), told());
    EXPECT_EQ(2, held_n);
    answer(1);
    EXPECT_TEXT(ANSWER("2", "/2"), told());
    EXPECT_EQ(3, held_n);
    EXPECT_BYTES(BYTES_LITERAL("/3"), http_path(held[2]));
    answer(2);
    EXPECT_TEXT(ANSWER("2", "/3"), told());
    EXPECT_EQ(4, held_n);
    world_release(&w);
    EXPECT_EQ(1, closed_n);
}

/* Without is_beside there is one at a time. */
TEST(a_service_that_says_nothing_gets_one_at_a_time)
{
    begin();
    w.http.is_beside = NULL;
    EXPECT_TEXT("", say(GET("/1") GET("/2")));
    EXPECT_EQ(1, held_n);
    answer(0);
    (void)told();
    EXPECT_EQ(2, held_n);
    world_release(&w);
}

TEST(so_many_are_under_way_and_no_more)
{
    begin();
    for (int n = 0; n < 100; n++) (void)say(PUT("/"));
    EXPECT_EQ(64, held_n);
    EXPECT(conn_wants_read(w.conn)); /* there is room for 64 KiB that wait */
    for (size_t n = 0; n < 100; n++) {
        answer(n);
        EXPECT_TEXT(ANSWER("1", "/"), told());
        EXPECT_EQ(n + 65 < 100 ? n + 65 : 100, held_n);
    }
    world_release(&w);
}

/* A megabyte of requests under way is enough; then we stop reading. */
TEST(their_bytes_are_bounded)
{
    static char body[400 * 1024];
    char head[100];
    begin();
    memset(body, 'a', sizeof body);
    snprintf(head, sizeof head, "PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n\r\n",
             sizeof body);
    for (int n = 0; n < 5; n++) {
        (void)say(head);
        EXPECT_STATUS(OK, conn_feed(w.conn, w.now_ns, bytes_make(body, sizeof body)));
    }
    EXPECT_EQ(3, held_n);
    EXPECT(!conn_wants_read(w.conn));
    answer(0);
    (void)told();
    EXPECT_EQ(4, held_n);
    answer(1);
    answer(2);
    (void)told();
    EXPECT_EQ(5, held_n);
    EXPECT(conn_wants_read(w.conn));
    world_release(&w);
}

/* Answers before their turn count as those that the peer does not take. */
TEST(answers_that_wait_hold_up_the_next_request)
{
    static char large[200 * 1024];
    begin();
    (void)say(GET("/1") GET("/2") GET("/3"));
    EXPECT_EQ(3, held_n);
    for (size_t n = 1; n < 3; n++) {
        http_answer(held[n], 200, NULL, bytes_make(large, sizeof large));
        held[n] = NULL;
    }
    EXPECT_TEXT("", say(GET("/4")));
    EXPECT_EQ(3, held_n);
    answer(0);
    EXPECT(strncmp(told(), ANSWER("2", "/1"), strlen(ANSWER("2", "/1"))) == 0);
    EXPECT_TEXT("", told());
    EXPECT_EQ(4, held_n);
    world_release(&w);
}

TEST(answers_that_are_too_much_are_replaced)
{
    static char large[2000];
    begin();
    w.limits.answers_size_max = 3000;
    (void)say(GET("/1") GET("/2") GET("/3"));
    for (size_t n = 1; n < 3; n++) {
        http_add_header(held[n], "x-own", BYTES_LITERAL("a"));
        http_answer(held[n], 200, NULL, bytes_make(large, n == 1 ? 0 : sizeof large));
        held[n] = NULL;
    }
    http_answer(held[0], 200, NULL, bytes_make(large, sizeof large));
    held[0] = NULL;
    const char *text = told();
    EXPECT_EQ(1, w.counters.answers_too_large);
    EXPECT(strstr(text, "HTTP/1.1 503 ") != NULL);
    EXPECT(!conn_is_over(w.conn));
    world_release(&w);
}

/* The refusal has its place behind the answers, and nothing behind it counts. */
TEST(a_bad_request_is_refused_in_its_turn)
{
    begin();
    EXPECT_TEXT("", say(GET("/1") GET("/2") "GET /3 HTTP/1.1\r\n\r\n" GET("/4")));
    EXPECT_EQ(2, held_n);
    EXPECT(!conn_is_over(w.conn));
    EXPECT_TEXT("", say(GET("/5")));
    answer(1);
    EXPECT_TEXT("", told());
    answer(0);
    const char *text = told();
    EXPECT(strncmp(text, ANSWER("2", "/1") ANSWER("2", "/2") "HTTP/1.1 400 ",
                   strlen(ANSWER("2", "/1") ANSWER("2", "/2") "HTTP/1.1 400 ")) == 0);
    EXPECT(strstr(text, "connection: close") != NULL);
    EXPECT(conn_is_over(w.conn));
    EXPECT_EQ(2, held_n);
    world_release(&w);
}

TEST(nothing_counts_behind_the_last_request)
{
    begin();
    EXPECT_TEXT("",
                say(GET("/1") "GET /2 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" GET("/3")));
    EXPECT_EQ(2, held_n);
    answer(1);
    EXPECT(!conn_is_over(w.conn));
    answer(0);
    EXPECT_TEXT(ANSWER("2", "/1") LAST_ANSWER("2", "/2"), told());
    EXPECT(conn_is_over(w.conn));
    world_release(&w);
}

/* What was streamed before its turn comes in one piece, the rest as it is made. */
TEST(streamed_answers_wait_for_their_turn)
{
    begin();
    (void)say(GET("/1") GET("/2") GET("/3"));
    http_set_user(held[1], &w);
    http_begin(held[1], 200, NULL);
    EXPECT_STATUS(OK, http_send(held[1], BYTES_LITERAL("a")));
    EXPECT_EQ(strlen("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n"),
              http_queued(held[1]));
    answer(2);
    EXPECT_TEXT("", told());
    answer(0);
    EXPECT_TEXT(ANSWER("2", "/1") "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n",
                told());
    EXPECT_STATUS(OK, http_send(held[1], BYTES_LITERAL("bc")));
    EXPECT_TEXT("2\r\nbc\r\n", told());
    answer(1);
    EXPECT_TEXT("0\r\n\r\n" ANSWER("2", "/3"), told());
    world_release(&w);
}

/* It may fill its own queue only, and is told when its turn has made room. */
TEST(a_streamed_answer_before_its_turn_is_bounded)
{
    static char block[64 * 1024];
    begin();
    (void)say(GET("/1") GET("/2"));
    http_set_user(held[1], &w);
    http_begin(held[1], 200, NULL);
    int n = 0;
    while (!http_is_full(held[1]) && n < 100) {
        EXPECT_STATUS(OK, http_send(held[1], bytes_make(block, sizeof block)));
        n++;
    }
    EXPECT_EQ(4, n);
    EXPECT(!http_is_full(held[0]));
    EXPECT_TEXT("", told());
    EXPECT_EQ(0, writable_n);
    answer(0);
    (void)told();
    EXPECT_EQ(1, writable_n);
    EXPECT(!http_is_full(held[1]));
    world_release(&w);
}

/* Cut off in its turn: those behind it hear that the peer is gone. */
TEST(an_answer_that_is_cut_off_ends_the_connection_in_its_turn)
{
    begin();
    (void)say(GET("/1") GET("/2") GET("/3"));
    http_begin(held[1], 200, NULL);
    http_finish(held[1], false);
    held[1] = NULL;
    EXPECT(!conn_is_over(w.conn));
    answer(0);
    EXPECT_TEXT(ANSWER("2", "/1") "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", told());
    EXPECT(conn_is_over(w.conn));
    EXPECT_EQ(0, closed_n);
    world_release(&w);
    EXPECT_EQ(1, closed_n);
}

TEST(all_that_are_under_way_hear_that_the_peer_is_gone)
{
    begin();
    (void)say(GET("/1") GET("/2") GET("/3") "GET /4");
    answer(1);
    world_release(&w); /* and gives everything back */
    EXPECT_EQ(2, closed_n);
}

TEST(a_draining_connection_answers_all_that_are_under_way)
{
    begin();
    (void)say(GET("/1") GET("/2") PUT("/3"));
    conn_drain(w.conn, w.now_ns);
    answer(1);
    answer(0);
    EXPECT_TEXT(ANSWER("2", "/1") LAST_ANSWER("2", "/2"), told());
    EXPECT(conn_is_over(w.conn));
    EXPECT_EQ(2, held_n);
    world_release(&w);
}

/* "100 Continue" belongs to its request, so it comes behind the answers before it. */
TEST(who_waits_to_go_on_is_told_in_its_turn)
{
    begin();
    EXPECT_TEXT("", say(PUT("/1") "PUT /2 HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n"
                                  "Expect: 100-continue\r\n\r\n"));
    answer(0);
    EXPECT_TEXT(ANSWER("2", "/1") "HTTP/1.1 100 Continue\r\n\r\n", told());
    EXPECT_TEXT("", say("a"));
    answer(1);
    EXPECT_TEXT(ANSWER("2", "/2"), told());
    world_release(&w);
}

/* Half a request behind one that takes an hour has its own time when that is answered. */
TEST(time_counts_when_nothing_is_under_way)
{
    begin();
    (void)say(PUT("/1") "PUT /2 HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n");
    world_wait_ms(&w, 3600 * 1000);
    EXPECT(!conn_is_over(w.conn));
    answer(0);
    (void)told();
    world_wait_ms(&w, 9000);
    EXPECT_EQ(0, w.counters.slow_request);
    world_wait_ms(&w, 2000);
    EXPECT_EQ(1, w.counters.slow_request);
    (void)told();
    EXPECT(conn_is_over(w.conn));
    world_release(&w);
}

/* ---- half-closed ---- */

TEST(a_half_closed_peer_gets_all_its_answers)
{
    begin();
    (void)say(PUT("/1") PUT("/2") GET("/3"));
    EXPECT(conn_end_input(w.conn, w.now_ns));
    EXPECT(!conn_wants_read(w.conn));
    EXPECT_EQ(2, half_closed_n);
    EXPECT(!conn_is_over(w.conn));
    answer(0);
    answer(1);
    EXPECT_TEXT(ANSWER("2", "/1") ANSWER("2", "/2"), told());
    EXPECT(!conn_is_over(w.conn));
    EXPECT_EQ(3, held_n); /* it waited, and is still to be answered */
    EXPECT_EQ(3, half_closed_n);
    answer(2);
    EXPECT_TEXT(ANSWER("2", "/3"), told());
    EXPECT(conn_is_over(w.conn));
    EXPECT_EQ(0, closed_n);
    world_release(&w);
}

/* It is looked at until it ends, whatever it says behind its last request; but not for ever. */
TEST(a_peer_is_watched_behind_its_last_request)
{
    static char more[64 * 1024];
    begin();
    (void)say("PUT /1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    EXPECT(conn_wants_read(w.conn));
    (void)say(GET("/2"));
    EXPECT(conn_wants_read(w.conn));
    EXPECT_STATUS(OK, conn_feed(w.conn, w.now_ns, bytes_make(more, sizeof more)));
    EXPECT(!conn_wants_read(w.conn));
    EXPECT(conn_end_input(w.conn, w.now_ns));
    EXPECT_EQ(1, half_closed_n);
    answer(0);
    EXPECT_TEXT(LAST_ANSWER("2", "/1"), told());
    EXPECT(conn_is_over(w.conn));
    world_release(&w);
}

TEST(a_half_closed_peer_without_a_request_is_closed)
{
    begin();
    EXPECT(!conn_end_input(w.conn, w.now_ns)); /* it has not even begun */
    world_release(&w);
    begin();
    (void)say(PUT("/1"));
    answer(0);
    (void)told();
    EXPECT(conn_end_input(w.conn, w.now_ns));
    EXPECT_TEXT("", told());
    EXPECT(conn_is_over(w.conn));
    world_release(&w);
}

/* Whoever is told may answer at once, whatever is before and behind it. */
TEST(a_service_may_answer_when_it_hears_of_it)
{
    begin();
    is_ending_half_closed = true;
    (void)say(PUT("/1") PUT("/2") GET("/3") GET("/4"));
    EXPECT(conn_end_input(w.conn, w.now_ns));
    EXPECT_TEXT(ANSWER("2", "/1") ANSWER("2", "/2") ANSWER("2", "/3") ANSWER("2", "/4"), told());
    EXPECT_EQ(4, half_closed_n);
    EXPECT(conn_is_over(w.conn));
    world_release(&w);
}

TEST(a_request_that_is_cut_short_is_refused)
{
    static const char *const starts[] = {
        "G",
        "GET / HTTP/1.1\r\nHost: x\r\n\r",
        "PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\na",
        ("PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked"
         "\r\n\r\n1\r\na\r\n0\r\n"),
    };
    for (size_t n = 0; n < sizeof starts / sizeof starts[0]; n++) {
        begin();
        (void)say(PUT("/1"));
        (void)say(starts[n]);
        EXPECT(conn_end_input(w.conn, w.now_ns));
        EXPECT_TEXT("", told());
        answer(0);
        const char *text = told();
        EXPECT(strncmp(text, ANSWER("2", "/1") "HTTP/1.1 400 ",
                       strlen(ANSWER("2", "/1") "HTTP/1.1 400 ")) == 0);
        EXPECT(conn_is_over(w.conn));
        EXPECT_EQ(1, held_n);
        world_release(&w);
    }
}

/* The peer does not take its answers: it is not waited for longer than others. */
TEST(a_half_closed_peer_that_takes_nothing_is_closed)
{
    begin();
    (void)say(PUT("/1"));
    EXPECT(conn_end_input(w.conn, w.now_ns));
    answer(0);
    struct buffer out;
    buffer_init(&out, mem_process());
    EXPECT(conn_pull(w.conn, w.now_ns, &out, 1000));
    buffer_release(&out);
    world_wait_ms(&w, 31 * 1000);
    EXPECT(conn_is_dead(w.conn));
    world_release(&w);
}

/* ---- in any order ---- */

static void put_numbered(struct buffer *b, int n)
{
    buffer_format(b, "%s /%d HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%.*s",
                  n % 7 == 3 ? "GET" : "PUT", n, n % 5, n % 5, "abcde");
}

/* Ends some request that is held, whole or as a stream. */
static void answer_some(struct rng *rng)
{
    size_t n = rng_below(rng, held_n);
    while (held[n] == NULL) n = (n + 1) % held_n;
    struct http_exchange *e = held[n];
    struct bytes path = http_path(e);
    uint32_t number = 0;
    for (size_t i = 1; i < path.len; i++) number = number * 10 + path.ptr[i] - '0';
    if (number % 3 != 0) {
        answer(n);
        return;
    }
    if (http_user(e) == NULL) {
        http_set_user(e, &w);
        http_begin(e, 200, NULL);
        EXPECT_STATUS(OK, http_send(e, path));
    } else {
        answer(n);
    }
}

static bool is_something_held(void)
{
    for (size_t n = 0; n < held_n; n++) {
        if (held[n] != NULL) return true;
    }
    return false;
}

/* Forty requests in random pieces, answered in a random order, over and over: the bytes are always
 * those of one after the other. */
TEST(any_order_gives_the_same_bytes)
{
    struct buffer in;
    struct buffer expected;
    buffer_init(&in, mem_process());
    buffer_init(&expected, mem_process());
    for (int n = 0; n < 40; n++) put_numbered(&in, n);
    for (uint64_t seed = 0; seed < 300; seed++) {
        test_note("seed %llu", (unsigned long long)seed);
        struct rng rng;
        rng_init(&rng, seed);
        begin();
        bool is_one = seed == 0; /* at a time */
        if (is_one) w.http.is_beside = NULL;
        size_t at = 0;
        while (!conn_is_over(w.conn)) {
            if (at < in.len && (!is_something_held() || rng_below(&rng, 2) == 0)) {
                size_t size = 1 + rng_below(&rng, 200);
                if (size > in.len - at) size = in.len - at;
                EXPECT_STATUS(OK, conn_feed(w.conn, w.now_ns, bytes_make(in.ptr + at, size)));
                at += size;
                if (at == in.len) EXPECT(conn_end_input(w.conn, w.now_ns));
            } else if (is_something_held()) {
                answer_some(&rng);
            }
            if (!is_something_held() || rng_below(&rng, 3) == 0) world_pull(&w);
        }
        EXPECT_EQ(40, held_n);
        if (is_one) buffer_append_bytes(&expected, buffer_view(&w.out));
        EXPECT_BYTES(buffer_view(&expected), buffer_view(&w.out));
        world_release(&w);
    }
    buffer_release(&in);
    buffer_release(&expected);
}

static void skip(const char **text, const char *part)
{
    if (strncmp(*text, part, strlen(part)) == 0) *text += strlen(part);
}

/* Nothing but whole answers in their order, and a refusal at the end. */
static bool is_whole(const char *text)
{
    const char *stream = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    skip(&text, ANSWER("2", "/1"));
    if (strncmp(text, stream, strlen(stream)) == 0) {
        text += strlen(stream);
        skip(&text, "a\r\n0123456789\r\n"); /* refused for want of memory, and its maker goes on */
        if (strncmp(text, "0\r\n\r\n", 5) != 0) return false;
        text += 5;
    }
    skip(&text, ANSWER("2", "/3"));
    return text[0] == 0 || strncmp(text, "HTTP/1.1 503 ", 13) == 0 ||
           strncmp(text, "HTTP/1.1 400 ", 13) == 0;
}

/* Whichever allocation fails: no leak, and what comes are whole answers in their order. */
TEST(every_failed_allocation_is_survived)
{
    for (uint64_t n = 1; n < 200; n++) {
        test_note("allocation %llu", (unsigned long long)n);
        begin();
        w.mem.fail_at = n;
        (void)say(PUT("/1") PUT("/2") PUT("/3") "PUT /4");
        if (held_n > 1) {
            http_set_user(held[1], &w);
            http_begin(held[1], 200, NULL);
            (void)http_send(held[1], BYTES_LITERAL("0123456789"));
        }
        (void)conn_end_input(w.conn, w.now_ns);
        for (size_t i = held_n; i > 0; i--) answer(i - 1);
        const char *text = told();
        bool is_reached = w.mem.fail_at == 0;
        w.mem.fail_at = 0;
        EXPECT(is_whole(text));
        EXPECT(conn_is_over(w.conn));
        world_release(&w);
        if (!is_reached) return;
    }
    test_fail(__FILE__, __LINE__, "there is no end of allocations");
}
