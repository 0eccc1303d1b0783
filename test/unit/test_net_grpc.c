/* SPDX-License-Identifier: Apache-2.0
 *
 * gRPC calls over one HTTP/2 connection in memory: what a service sees and what a peer is told.
 */
#include "test/unit/net_world.h"

#define OK_HEADERS ":status=200 content-type=application/grpc"

static struct world w;

/* One message in, one out: headers, data and trailers in one pull. */
TEST(a_call_is_answered)
{
    world_init(&w);
    world_greet(&w);
    put_request(&w.in, 1, "/t/echo", "hello");
    EXPECT_STATUS(OK, world_say(&w));
    EXPECT_TEXT("1 headers " OK_HEADERS "\n1 data 10\n1 end grpc-status=0\n", world_trace(&w));
    EXPECT_TEXT("/t/echo", w.path);
    EXPECT_EQ(1, w.calls_n);
    EXPECT_EQ(1, w.counters.calls);
    world_release(&w);
}

/* An empty message is a message. */
TEST(an_empty_message_is_answered)
{
    world_init(&w);
    world_greet(&w);
    put_request(&w.in, 1, "/t/echo", "");
    EXPECT_STATUS(OK, world_say(&w));
    EXPECT_TEXT("1 headers " OK_HEADERS "\n1 data 5\n1 end grpc-status=0\n", world_trace(&w));
    world_release(&w);
}

/* Some clients end a request with an empty frame of its own. */
TEST(an_empty_last_frame_ends_a_request)
{
    world_init(&w);
    world_greet(&w);
    put_head(&w.in, 1, "/t/echo", END_HEADERS, BYTES_NONE);
    put_frame(&w.in, NGHTTP2_DATA, 0, 1, test_hex("0000000001"));
    put_frame(&w.in, NGHTTP2_DATA, 0, 1, test_hex("41"));
    EXPECT_STATUS(OK, world_say(&w));
    EXPECT_EQ(0, w.calls_n);
    put_frame(&w.in, NGHTTP2_DATA, END_STREAM, 1, BYTES_NONE);
    EXPECT_STATUS(OK, world_say(&w));
    EXPECT_TEXT("1 headers " OK_HEADERS "\n1 data 6\n1 end grpc-status=0\n", world_trace(&w));
    world_release(&w);
}

/* An error is trailers only, and only what must be is percent-encoded: SDKs match on the text. */
TEST(an_error_is_trailers_only)
{
    world_init(&w);
    world_greet(&w);
    put_request(&w.in, 1, "/t/fail", "x");
    EXPECT_STATUS(OK, world_say(&w));
    EXPECT_TEXT("1 end " OK_HEADERS " grpc-status=5 grpc-message=100%25 gone: \"x\"%0A%C3%A4\n",
                world_trace(&w));
    world_release(&w);
}

TEST(headers_of_a_request_are_kept)
{
    struct buffer extra;
    world_init(&w);
    world_greet(&w);
    buffer_init(&extra, mem_process());
    put_header(&extra, "other", BYTES_LITERAL("x"));
    put_header(&extra, "taskhub", BYTES_LITERAL("north"));
    put_head(&w.in, 1, "/t/echo", END_HEADERS, buffer_view(&extra));
    put_message(&w.in, 1, "x");
    EXPECT_STATUS(OK, world_say(&w));
    EXPECT_TEXT("north", w.header);
    buffer_release(&extra);
    world_release(&w);
}

/* The memory of a call that is over is used for the next one, and nothing else of it. */
TEST(a_call_knows_nothing_of_the_one_before)
{
    struct buffer extra;
    static char large[5000];
    world_init(&w);
    world_greet(&w);
    buffer_init(&extra, mem_process());
    put_header(&extra, "taskhub", BYTES_LITERAL("north"));
    put_header(&extra, "grpc-timeout", BYTES_LITERAL("1S"));
    put_head(&w.in, 1, "/t/fail", END_HEADERS, buffer_view(&extra));
    memset(large, 'x', sizeof large - 1);
    put_message(&w.in, 1, large);
    EXPECT_STATUS(OK, world_say(&w));
    (void)world_trace(&w);
    EXPECT_TEXT("north", w.header);
    size_t used = w.mem.used;
    for (uint32_t stream = 3; stream < 100; stream += 2) {
        put_request(&w.in, stream, "/t/echo", "x");
        EXPECT_STATUS(OK, world_say(&w));
        char expected[200];
        (void)snprintf(expected, sizeof expected,
                       "%u headers " OK_HEADERS "\n%u data 6\n%u end grpc-status=0\n", stream,
                       stream, stream);
        EXPECT_TEXT(expected, world_trace(&w));
        EXPECT_TEXT("", w.header);
        EXPECT_EQ(1, w.message_size);
    }
    EXPECT(w.mem.used <= used + 1000); /* none of the 49 has left anything */
    w.now_ns += 10 * NS_PER_S;         /* nor has the deadline of the first one stayed */
    (void)conn_tick(w.conn, w.now_ns);
    EXPECT_EQ(0, w.counters.deadlines);
    buffer_release(&extra);
    world_release(&w);
}

/* What says that it is gRPC and cannot be is answered by HTTP. The rest is in test_net_http. */
TEST(other_kinds_of_grpc_are_refused_by_http)
{
    static const char *const cases[][3] = {
        {"GET", "application/grpc", "405"},
        {"POST", "application/grpc-web", "415"},
        {"POST", "application/grpc+json", "415"},
    };
    struct buffer block;
    char expected[40];
    world_init(&w);
    world_greet(&w);
    buffer_init(&block, mem_process());
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        buffer_clear(&block);
        put_header(&block, ":method", bytes_of_text(cases[i][0]));
        put_header(&block, ":scheme", BYTES_LITERAL("http"));
        put_header(&block, ":path", BYTES_LITERAL("/t/echo"));
        put_header(&block, ":authority", BYTES_LITERAL("norn"));
        put_header(&block, "content-type", bytes_of_text(cases[i][1]));
        put_frame(&w.in, NGHTTP2_HEADERS, END_HEADERS | END_STREAM, 2 * i + 1, buffer_view(&block));
        EXPECT_STATUS(OK, world_say(&w));
        snprintf(expected, sizeof expected, "%u end :status=%s\n", 2 * i + 1, cases[i][2]);
        EXPECT_TEXT(expected, world_trace(&w));
    }
    EXPECT_EQ(0, w.calls_n);
    EXPECT_EQ(0, w.pages_n);
    buffer_release(&block);
    world_release(&w);
}

/* Each on a stream of its own; the connection goes on. */
TEST(malformed_messages_are_refused)
{
    static const struct {
        const char *data;
        const char *answer;
    } cases[] = {
        {"", "grpc-status=13 grpc-message=no message"},
        {"000000", "grpc-status=13 grpc-message=the message is cut short"},
        {"000000000541", "grpc-status=13 grpc-message=the message is cut short"},
        {"00000000014142", "grpc-status=13 grpc-message=more than one message"},
        {"000000000141000000000141", "grpc-status=13 grpc-message=more than one message"},
        {"010000000141", "grpc-status=12 grpc-message=compressed messages are not supported"},
        {"020000000141", "grpc-status=13 grpc-message=the message's flags are not valid"},
    };
    world_init(&w);
    world_greet(&w);
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char expected[256];
        uint32_t stream = 2 * i + 1;
        test_note("%s", cases[i].data);
        put_head(&w.in, stream, "/t/echo", END_HEADERS, BYTES_NONE);
        put_frame(&w.in, NGHTTP2_DATA, END_STREAM, stream, test_hex(cases[i].data));
        EXPECT_STATUS(OK, world_say(&w));
        snprintf(expected, sizeof expected, "%u end " OK_HEADERS " %s\n", stream, cases[i].answer);
        EXPECT_TEXT(expected, world_trace(&w));
    }
    EXPECT_EQ(0, w.calls_n);
    EXPECT_EQ(sizeof cases / sizeof cases[0], w.counters.messages_malformed);
    world_release(&w);
}

/* A length of 4 GiB takes no memory, the service sees the start, the rest need not be sent. */
TEST(an_oversized_message_is_refused_before_it_comes)
{
    struct buffer data;
    world_init(&w);
    world_greet(&w);
    size_t before = w.mem.used;
    w.mem.used_max = before;
    buffer_init(&data, mem_process());
    buffer_append_bytes(&data, test_hex("00ffffffff"));
    for (int i = 0; i < 511; i++) buffer_u8(&data, 'x');
    put_head(&w.in, 1, "/t/echo", END_HEADERS, BYTES_NONE);
    put_frame(&w.in, NGHTTP2_DATA, 0, 1, buffer_view(&data));
    EXPECT_STATUS(OK, world_say(&w));
    EXPECT_TEXT("", world_trace(&w));
    put_frame(&w.in, NGHTTP2_DATA, 0, 1, test_hex("7878"));
    EXPECT_STATUS(OK, world_say(&w));
    EXPECT_TEXT("1 end " OK_HEADERS " grpc-status=8 grpc-message=the message is larger than this "
                "server accepts\n1 reset 0\n",
                world_trace(&w));
    EXPECT_EQ(1, w.oversize_n);
    EXPECT_EQ(UINT32_MAX, w.oversize_size);
    EXPECT_EQ(512, w.oversize_start_size);
    EXPECT(w.mem.used_max - before < 16 * 1024);
    EXPECT_EQ(0, w.calls_n);
    EXPECT_EQ(1, w.counters.messages_too_large);
    buffer_release(&data);
    world_release(&w);
}

/* The limit itself is allowed, one more is not. */
TEST(the_size_limit_is_exact)
{
    world_init(&w);
    w.limits.message_size_max = 3;
    world_greet(&w);
    put_request(&w.in, 1, "/t/echo", "abc");
    put_request(&w.in, 3, "/t/echo", "abcd");
    EXPECT_STATUS(OK, world_say(&w));
    EXPECT_EQ(1, w.calls_n);
    EXPECT_EQ(1, w.oversize_n);
    EXPECT_EQ(4, w.oversize_start_size);
    world_release(&w);
}

/* A peer that resets in the middle of a message that is too large has still said who it is. */
TEST(an_oversized_message_that_is_cut_off_is_told)
{
    world_init(&w);
    world_greet(&w);
    put_head(&w.in, 1, "/t/echo", END_HEADERS, BYTES_NONE);
    put_frame(&w.in, NGHTTP2_DATA, 0, 1, test_hex("00ffffffff4142"));
    put_frame_u32(&w.in, NGHTTP2_RST_STREAM, 1, NGHTTP2_CANCEL);
    EXPECT_STATUS(OK, world_say(&w));
    EXPECT_EQ(1, w.oversize_n);
    EXPECT_EQ(2, w.oversize_start_size);
    world_release(&w);
}

/* The buffer grows with what comes, not with what is promised. */
TEST(a_promised_length_takes_no_memory)
{
    world_init(&w);
    world_greet(&w);
    put_head(&w.in, 1, "/t/echo", END_HEADERS, BYTES_NONE);
    put_frame(&w.in, NGHTTP2_DATA, 0, 1, test_hex("0000100000aabb")); /* 1 MiB */
    size_t before = w.mem.used;
    EXPECT_STATUS(OK, world_say(&w));
    EXPECT(w.mem.used - before < 16 * 1024);
    world_release(&w);
}

static void put_timeout_request(uint32_t stream, const char *timeout)
{
    struct buffer extra;
    buffer_init(&extra, mem_process());
    put_header(&extra, "grpc-timeout", bytes_of_text(timeout));
    put_head(&w.in, stream, "/t/hold", END_HEADERS, buffer_view(&extra));
    put_message(&w.in, stream, "x");
    buffer_release(&extra);
}

/* The layer answers, the handler is told, and its slot is its own until it has finished. */
TEST(a_deadline_is_answered_by_the_layer)
{
    world_init(&w);
    w.is_finish_in_closed = false;
    world_greet(&w);
    put_timeout_request(1, "100m");
    EXPECT_STATUS(OK, world_say(&w));
    EXPECT_EQ(1, w.held_n);
    EXPECT_EQ(w.now_ns + 100 * NS_PER_MS, grpc_deadline_ns(w.held[0]));
    world_wait_ms(&w, 99);
    EXPECT_EQ(0, w.closed_n);
    world_wait_ms(&w, 1);
    EXPECT_EQ(1, w.closed_n);
    world_read(&w);
    EXPECT_TEXT("1 end " OK_HEADERS " grpc-status=4 grpc-message=deadline exceeded\n",
                world_trace(&w));
    EXPECT_STATUS(E_CLOSED, grpc_send(w.held[0], BYTES_LITERAL("late")));
    world_finish_held(&w);
    world_read(&w);
    EXPECT_TEXT("", world_trace(&w));
    world_release(&w);
}

/* A deadline holds for a request that does not come to its end, too. */
TEST(a_deadline_passes_before_the_message_has_come)
{
    struct buffer extra;
    world_init(&w);
    world_greet(&w);
    buffer_init(&extra, mem_process());
    put_header(&extra, "grpc-timeout", BYTES_LITERAL("1S"));
    put_head(&w.in, 1, "/t/hold", END_HEADERS, buffer_view(&extra));
    EXPECT_STATUS(OK, world_say(&w));
    world_wait_ms(&w, 1000);
    world_read(&w);
    EXPECT_TEXT("1 end " OK_HEADERS " grpc-status=4 grpc-message=deadline exceeded\n1 reset 0\n",
                world_trace(&w));
    EXPECT_EQ(0, w.closed_n);
    buffer_release(&extra);
    world_release(&w);
}

TEST(timeouts_are_parsed)
{
    static const struct {
        const char *text;
        int64_t ns; /* -1: not valid */
    } cases[] = {{"1H", 3600 * NS_PER_S},
                 {"2M", 120 * NS_PER_S},
                 {"3S", 3 * NS_PER_S},
                 {"4m", 4 * NS_PER_MS},
                 {"5u", 5000},
                 {"99999999n", 99999999},
                 {"00000001S", NS_PER_S},
                 {"123456789S", -1},
                 {"S", -1},
                 {"1", -1},
                 {"-1S", -1},
                 {"1.5S", -1},
                 {"1s", -1},
                 {"1 S", -1}};
    world_init(&w);
    world_greet(&w);
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        test_note("%s", cases[i].text);
        size_t held_n = w.held_n;
        put_timeout_request(2 * i + 1, cases[i].text);
        EXPECT_STATUS(OK, world_say(&w));
        EXPECT_EQ(cases[i].ns < 0 ? held_n : held_n + 1, w.held_n);
        if (cases[i].ns < 0)
            EXPECT(strstr(world_trace(&w), "grpc-status=3") != NULL);
        else
            EXPECT_EQ(w.now_ns + cases[i].ns, grpc_deadline_ns(w.held[held_n]));
    }
    world_release(&w);
}

/* The longest time-out is longer than the clock: never. */
TEST(a_timeout_beyond_the_clock_is_none)
{
    world_init(&w);
    world_greet(&w);
    put_timeout_request(1, "99999999H");
    EXPECT_STATUS(OK, world_say(&w));
    EXPECT_EQ(INT64_MAX, grpc_deadline_ns(w.held[0]));
    world_release(&w);
}

TEST(a_cancelled_call_is_told)
{
    world_init(&w);
    world_greet(&w);
    put_request(&w.in, 1, "/t/hold", "x");
    put_frame_u32(&w.in, NGHTTP2_RST_STREAM, 1, NGHTTP2_CANCEL);
    EXPECT_STATUS(OK, world_say(&w));
    EXPECT_EQ(1, w.closed_n);
    EXPECT_EQ(0, w.held_n);
    world_release(&w);
}

/* The connection goes while handlers are at work: they are told, and may finish much later. */
TEST(a_call_outlives_its_connection)
{
    world_init(&w);
    w.is_finish_in_closed = false;
    world_greet(&w);
    put_request(&w.in, 1, "/t/hold", "x");
    put_request(&w.in, 3, "/t/hold", "x");
    EXPECT_STATUS(OK, world_say(&w));
    conn_free(w.conn, w.now_ns);
    w.conn = NULL;
    EXPECT_EQ(2, w.closed_n);
    EXPECT_BYTES(BYTES_LITERAL("/t/hold"), grpc_path(w.held[1]));
    EXPECT_STATUS(E_CLOSED, grpc_send(w.held[1], BYTES_LITERAL("late")));
    EXPECT(!grpc_is_full(w.held[1]));
    world_finish_held(&w);
    world_release(&w);
}

/* A stream of messages is held back by the peer's window, and its handler hears when to go on. */
TEST(a_full_call_becomes_writable)
{
    static uint8_t block[16 * 1024];
    unsigned sent_n = 0;
    world_init(&w);
    world_greet(&w);
    put_request(&w.in, 1, "/t/hold", "x");
    EXPECT_STATUS(OK, world_say(&w));
    struct grpc_call *call = w.held[0];
    while (!grpc_is_full(call)) {
        EXPECT_STATUS(OK, grpc_send(call, bytes_make(block, sizeof block)));
        sent_n++;
    }
    EXPECT_EQ(16, sent_n); /* 256 KiB */
    world_read(&w);
    EXPECT_EQ(0, w.writable_n); /* only a window's worth has left */
    EXPECT_EQ(16 * (5 + sizeof block) - (65535 - 16384), grpc_queued(call));
    put_frame_u32(&w.in, NGHTTP2_WINDOW_UPDATE, 0, 1 << 20);
    put_frame_u32(&w.in, NGHTTP2_WINDOW_UPDATE, 1, 1 << 20);
    EXPECT_STATUS(OK, world_say(&w));
    EXPECT_EQ(1, w.writable_n);
    EXPECT_EQ(0, grpc_queued(call));
    EXPECT(!grpc_is_full(call));
    (void)world_trace(&w);
    world_finish_held(&w);
    world_read(&w);
    EXPECT_TEXT("1 end grpc-status=0\n", world_trace(&w));
    world_release(&w);
}

/* Five calls of a fifth each fill the connection, and all that asked are told. */
TEST(a_full_connection_makes_every_call_full)
{
    static uint8_t block[200 * 1024];
    world_init(&w);
    world_greet(&w);
    for (uint32_t i = 0; i < 7; i++) put_request(&w.in, 2 * i + 1, "/t/hold", "x");
    EXPECT_STATUS(OK, world_say(&w));
    for (int i = 0; i < 6; i++)
        EXPECT_STATUS(OK, grpc_send(w.held[i], bytes_make(block, sizeof block)));
    EXPECT(grpc_is_full(w.held[0]));
    EXPECT(grpc_is_full(w.held[6])); /* has sent nothing itself */
    put_frame_u32(&w.in, NGHTTP2_WINDOW_UPDATE, 0, 1 << 24);
    for (uint32_t i = 0; i < 7; i++)
        put_frame_u32(&w.in, NGHTTP2_WINDOW_UPDATE, 2 * i + 1, 1 << 20);
    EXPECT_STATUS(OK, world_say(&w));
    EXPECT_EQ(2, w.writable_n);
    world_release(&w);
}

/* A worker that leaves its stream unread still gets the answers to its other calls. */
TEST(a_stream_leaves_room_for_answers)
{
    static uint8_t block[100 * 1024];
    world_init(&w);
    world_greet(&w);
    put_request(&w.in, 1, "/t/hold", "x");
    put_frame_u32(&w.in, NGHTTP2_WINDOW_UPDATE, 1, 1 << 20); /* of the stream only */
    EXPECT_STATUS(OK, world_say(&w));
    EXPECT_STATUS(OK, grpc_send(w.held[0], bytes_make(block, sizeof block)));
    world_read(&w);
    EXPECT(grpc_queued(w.held[0]) > 0);
    (void)world_trace(&w);
    put_request(&w.in, 3, "/t/echo", "hello");
    EXPECT_STATUS(OK, world_say(&w));
    EXPECT_TEXT("3 headers " OK_HEADERS "\n3 data 10\n3 end grpc-status=0\n", world_trace(&w));
    put_frame_u32(&w.in, NGHTTP2_WINDOW_UPDATE, 0, 1 << 20);
    EXPECT_STATUS(OK, world_say(&w));
    EXPECT_EQ(0, grpc_queued(w.held[0]));
    world_release(&w);
}

/* Messages keep their order and bytes over windows, frames and a queue that moves. */
TEST(a_long_stream_is_whole)
{
    uint8_t message[1000];
    uint64_t got = 0;
    world_init(&w);
    world_greet(&w);
    put_request(&w.in, 1, "/t/hold", "x");
    EXPECT_STATUS(OK, world_say(&w));
    for (int i = 0; i < 3000; i++) {
        memset(message, i, sizeof message);
        EXPECT_STATUS(OK, grpc_send(w.held[0], bytes_make(message, sizeof message)));
        if (i % 7 == 0) {
            put_frame_u32(&w.in, NGHTTP2_WINDOW_UPDATE, 0, 6500);
            put_frame_u32(&w.in, NGHTTP2_WINDOW_UPDATE, 1, 6500);
            EXPECT_STATUS(OK, conn_feed(w.conn, w.now_ns, buffer_view(&w.in)));
            buffer_clear(&w.in);
        }
        world_pull(&w);
    }
    world_finish_held(&w);
    put_frame_u32(&w.in, NGHTTP2_WINDOW_UPDATE, 0, 1 << 24);
    put_frame_u32(&w.in, NGHTTP2_WINDOW_UPDATE, 1, 1 << 24);
    EXPECT_STATUS(OK, conn_feed(w.conn, w.now_ns, buffer_view(&w.in)));
    world_pull(&w);
    for (size_t at = 0; at < w.out.len;) {
        const uint8_t *head = w.out.ptr + at;
        size_t size = (size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2];
        for (size_t i = 0; head[3] == NGHTTP2_DATA && i < size; i++, got++) {
            uint64_t offset = got % 1005;
            if (offset >= 5 && head[9 + i] != (uint8_t)(got / 1005))
                test_fail(__FILE__, __LINE__, "byte %llu", (unsigned long long)got);
        }
        at += 9 + size;
    }
    EXPECT_EQ(3000 * 1005, got);
    buffer_clear(&w.out);
    buffer_clear(&w.in);
    world_release(&w);
}

/* A large message comes at full speed: its window grows when its length is known. */
TEST(a_large_message_widens_its_window)
{
    static uint8_t frame[16384];
    world_init(&w);
    world_greet(&w);
    put_head(&w.in, 1, "/t/echo", END_HEADERS, BYTES_NONE);
    memcpy(frame, "\x00\x00\x0f\xff\xfb", 5); /* 1 MiB less the prefix */
    for (int i = 0; i < 64; i++) {
        put_frame(&w.in, NGHTTP2_DATA, i == 63 ? END_STREAM : 0, 1,
                  bytes_make(frame, sizeof frame));
        EXPECT_STATUS(OK, world_say(&w));
        if (i == 0) EXPECT_EQ((1 << 20) - (64 << 10), w.stream_grants);
    }
    EXPECT_EQ(1, w.calls_n);
    EXPECT_EQ((1 << 20) - 5, w.message_size);
    world_release(&w);
}

/* No memory for an answer: the service hears it, and what was sent before stays whole. */
TEST(no_memory_for_a_message_is_told)
{
    static uint8_t block[100 * 1024];
    world_init(&w);
    world_greet(&w);
    put_request(&w.in, 1, "/t/hold", "x");
    EXPECT_STATUS(OK, world_say(&w));
    EXPECT_STATUS(OK, grpc_send(w.held[0], BYTES_LITERAL("whole")));
    w.mem.limit = w.mem.used + 10 * 1024;
    EXPECT_STATUS(E_NOMEM, grpc_send(w.held[0], bytes_make(block, sizeof block)));
    w.mem.limit = SIZE_MAX;
    EXPECT_STATUS(OK, grpc_send(w.held[0], BYTES_LITERAL("again")));
    world_finish_held(&w);
    world_read(&w);
    EXPECT_TEXT("1 headers " OK_HEADERS "\n1 data 20\n1 end grpc-status=0\n", world_trace(&w));
    world_release(&w);
}

/* Whichever allocation fails: no leak, no crash, and the connection answers or ends. */
TEST(every_failed_allocation_is_survived)
{
    for (uint64_t n = 1; n < 2000; n++) {
        test_note("allocation %llu", (unsigned long long)n);
        world_init(&w);
        struct conn_options options = {.mem = &w.mem,
                                       .limits = &w.limits,
                                       .counters = &w.counters,
                                       .grpc = &w.grpc,
                                       .http = &w.http};
        w.mem.fail_at = n;
        if (conn_new(&options, w.now_ns, &w.conn) == OK) {
            put_greeting(&w.in);
            put_request(&w.in, 1, "/t/echo", "hello");
            put_request(&w.in, 3, "/t/fail", "hello");
            put_request(&w.in, 5, "/t/hold", "hello");
            (void)conn_feed(w.conn, w.now_ns, buffer_view(&w.in));
            world_pull(&w);
            buffer_clear(&w.out);
        }
        bool is_reached = w.mem.fail_at == 0;
        w.mem.fail_at = 0;
        world_release(&w);
        if (!is_reached) return;
    }
    test_fail(__FILE__, __LINE__, "there is no end of allocations");
}

TEST(codes_have_names)
{
    EXPECT_TEXT("OK", grpc_code_name(GRPC_OK));
    EXPECT_TEXT("UNAUTHENTICATED", grpc_code_name(GRPC_UNAUTHENTICATED));
}
