/* SPDX-License-Identifier: Apache-2.0
 *
 * Every known attack on an HTTP/2 or gRPC server, by a peer that writes its frames by hand. Each
 * test says what bounds memory and time, how the connection ends, and which counter tells of it; a
 * healthy connection beside the attacker is never disturbed. And the other side: what honest
 * clients do in great numbers does not end their connection.
 */
#include "net/state.h"
#include "test/unit/net_world.h"

#define CALM NGHTTP2_ENHANCE_YOUR_CALM
#define FRAMES_N 100000
#define PIECE_SIZE (64 * 1024) /* what a socket gives at once */
#define MEMORY_MAX (2 * 1024 * 1024)
#define CPU_S_MAX 5 /* for 100,000 frames, under the sanitizers of a busy machine */

static struct world w;
static struct world healthy;
static int64_t cpu_ns;

static void begin_with(bool is_trusted)
{
    world_init(&w);
    world_init(&healthy);
    world_greet(&healthy);
    world_connect(&w, is_trusted);
    put_greeting(&w.in);
    put_settings_ack(&w.in);
    EXPECT_STATUS(OK, world_say(&w));
    (void)world_trace(&w);
    w.mem.used_max = w.mem.used;
    cpu_ns = clock_cpu_ns();
}

static void begin(void) { begin_with(true); }

static void finish(void)
{
    EXPECT(w.mem.used_max < MEMORY_MAX);
    EXPECT((clock_cpu_ns() - cpu_ns) / NS_PER_S < CPU_S_MAX);
    put_request(&healthy.in, 1, "/t/echo", "still here");
    EXPECT_STATUS(OK, world_say(&healthy));
    EXPECT(strstr(world_trace(&healthy), "grpc-status=0") != NULL);
    world_release(&healthy);
    world_release(&w);
}

/* The connection has ended with this code, counted once, after our farewell was pulled. */
static void expect_ended(uint32_t code, const uint64_t *counter)
{
    world_read(&w);
    EXPECT_EQ(1, w.goaways_n);
    EXPECT_EQ(code, w.goaway_code);
    EXPECT_EQ(1, *counter);
    EXPECT(conn_is_over(w.conn));
    EXPECT_STATUS(E_CLOSED, conn_feed(w.conn, w.now_ns, BYTES_LITERAL("x")));
}

/* Sends the piece so often, in pieces of a socket; answers how many times until it was cut. The
 * attacker reads (or not). */
static unsigned repeat(struct bytes piece, unsigned n, bool is_reading)
{
    struct buffer b;
    buffer_init(&b, mem_process());
    unsigned per_feed = (unsigned)(PIECE_SIZE / piece.len) + 1;
    for (unsigned i = 0; i < per_feed; i++) buffer_append_bytes(&b, piece);
    unsigned sent_n = 0;
    enum status status = OK;
    while (sent_n < n && status == OK) {
        status = conn_feed(w.conn, w.now_ns, buffer_view(&b));
        if (is_reading) world_read(&w);
        sent_n += per_feed;
    }
    buffer_release(&b);
    return sent_n;
}

/* Sends what the function writes for stream 1, 3, 5, ... */
static unsigned repeat_streams(void (*put)(struct buffer *b, uint32_t stream), unsigned n,
                               bool is_reading)
{
    uint32_t stream = 1;
    unsigned sent_n = 0;
    enum status status = OK;
    while (sent_n < n && status == OK) {
        while (w.in.len < PIECE_SIZE) {
            put(&w.in, stream);
            stream += 2;
            sent_n++;
        }
        status = conn_feed(w.conn, w.now_ns, buffer_view(&w.in));
        buffer_clear(&w.in);
        if (is_reading) world_read(&w);
    }
    return sent_n;
}

/* ---- resets ---- */

static void put_rapid_reset(struct buffer *b, uint32_t stream)
{
    put_request(b, stream, "/t/hold", "x");
    put_frame_u32(b, NGHTTP2_RST_STREAM, stream, NGHTTP2_CANCEL);
}

/* CVE-2023-44487. */
TEST(rapid_reset)
{
    begin();
    unsigned sent_n = repeat_streams(put_rapid_reset, 1000000, true);
    EXPECT(sent_n < 3000);
    expect_ended(CALM, &w.counters.resets_flood);
    EXPECT(w.calls_n <= 1001);
    EXPECT(w.calls_n - w.closed_n <= 1); /* the one whose reset was one too many */
    finish();
}

/* A stranger may do a fifth of it. */
TEST(rapid_reset_by_a_stranger)
{
    begin_with(false);
    (void)repeat_streams(put_rapid_reset, 1000000, true);
    expect_ended(CALM, &w.counters.resets_flood);
    EXPECT(w.calls_n <= 201);
    finish();
}

/* Handlers that do not end keep their slots: resetting makes no room for more of them. */
TEST(rapid_reset_against_slow_handlers)
{
    begin();
    w.is_finish_in_closed = false;
    for (uint32_t i = 0; i < 500; i++) put_rapid_reset(&w.in, 2 * i + 1);
    EXPECT_STATUS(OK, world_say(&w));
    EXPECT_EQ(100, w.held_n);
    EXPECT_EQ(400, w.counters.streams_refused);
    EXPECT_EQ(400, w.resets_n);
    EXPECT_EQ(NGHTTP2_REFUSED_STREAM, w.last_reset_code);
    world_finish_held(&w);
    put_request(&w.in, 1001, "/t/echo", "x");
    EXPECT_STATUS(OK, world_say(&w));
    EXPECT(strstr(world_trace(&w), "1001 end grpc-status=0") != NULL);
    finish();
}

/* Deadlines on long waits: a hundred cancelled calls each second for an hour. */
TEST(honest_cancels_are_fine)
{
    uint32_t stream = 1;
    begin();
    for (int second = 0; second < 360; second++) {
        for (int i = 0; i < 100; i++, stream += 2) put_rapid_reset(&w.in, stream);
        EXPECT_STATUS(OK, world_say(&w));
        w.now_ns += NS_PER_S;
    }
    /* And a burst of a thousand at once after a pause. */
    w.now_ns += 20 * NS_PER_S;
    for (int i = 0; i < 1000; i++, stream += 2) put_rapid_reset(&w.in, stream);
    EXPECT_STATUS(OK, world_say(&w));
    EXPECT_EQ(37000, w.calls_n);
    finish();
}

/* ---- resets that we are made to send: CVE-2025-8671 ---- */

static void put_zero_increment(struct buffer *b, uint32_t stream)
{
    put_request(b, stream, "/t/hold", "x");
    put_frame_u32(b, NGHTTP2_WINDOW_UPDATE, stream, 0);
}

static void put_window_overflow(struct buffer *b, uint32_t stream)
{
    put_request(b, stream, "/t/hold", "x");
    put_frame_u32(b, NGHTTP2_WINDOW_UPDATE, stream, 0x7fffffff);
}

static void put_data_after_end(struct buffer *b, uint32_t stream)
{
    put_request(b, stream, "/t/hold", "x");
    put_frame(b, NGHTTP2_DATA, 0, stream, BYTES_LITERAL("more"));
}

static void put_headers_after_end(struct buffer *b, uint32_t stream)
{
    put_request(b, stream, "/t/hold", "x");
    put_head(b, stream, "/t/hold", END_HEADERS | END_STREAM, BYTES_NONE);
}

static void put_long_priority(struct buffer *b, uint32_t stream)
{
    put_request(b, stream, "/t/hold", "x");
    put_frame(b, NGHTTP2_PRIORITY, 0, stream, BYTES_LITERAL("sixsix"));
}

static void put_self_dependency(struct buffer *b, uint32_t stream)
{
    uint8_t payload[5] = {(uint8_t)(stream >> 24), (uint8_t)(stream >> 16), (uint8_t)(stream >> 8),
                          (uint8_t)stream, 0};
    put_request(b, stream, "/t/hold", "x");
    put_frame(b, NGHTTP2_PRIORITY, 0, stream, bytes_make(payload, 5));
}

static void put_bad_header(struct buffer *b, uint32_t stream)
{
    struct buffer extra;
    buffer_init(&extra, mem_process());
    put_header(&extra, "Upper", BYTES_LITERAL("x"));
    put_head(b, stream, "/t/hold", END_HEADERS, buffer_view(&extra));
    buffer_release(&extra);
}

static void put_wrong_length(struct buffer *b, uint32_t stream)
{
    struct buffer extra;
    buffer_init(&extra, mem_process());
    put_header(&extra, "content-length", BYTES_LITERAL("3"));
    put_head(b, stream, "/t/hold", END_HEADERS, buffer_view(&extra));
    put_message(b, stream, "longer than three");
    buffer_release(&extra);
}

/* A field that HTTP/2 does not allow ends its request, not only itself. */
TEST(a_bad_header_resets_its_stream)
{
    begin();
    put_bad_header(&w.in, 1);
    put_message(&w.in, 1, "x");
    struct buffer extra;
    buffer_init(&extra, mem_process());
    put_header(&extra, "x", BYTES_LITERAL("\x01"));
    put_head(&w.in, 3, "/t/echo", END_HEADERS, buffer_view(&extra));
    put_message(&w.in, 3, "x");
    EXPECT_STATUS(OK, world_say(&w));
    EXPECT_TEXT("1 reset 1\n3 reset 1\n", world_trace(&w));
    EXPECT_EQ(0, w.calls_n);
    buffer_release(&extra);
    finish();
}

/* By which counter each ends: some are errors of the connection at once. */
TEST(made_you_reset)
{
    static const struct {
        const char *name;
        void (*put)(struct buffer *b, uint32_t stream);
        bool is_at_once;
    } cases[] = {
        {"zero increment", put_zero_increment, false},
        {"window overflow", put_window_overflow, false},
        {"data after end", put_data_after_end, true},
        {"headers after end", put_headers_after_end, true},
        {"long priority", put_long_priority, true},
        {"self dependency", put_self_dependency, false},
        {"bad header", put_bad_header, false},
        {"wrong length", put_wrong_length, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (int is_reading = 0; is_reading < 2; is_reading++) {
            test_note("%s, the attacker reads: %d", cases[i].name, is_reading);
            begin();
            w.is_finish_in_closed = false; /* the costly kind of handler */
            unsigned sent_n = repeat_streams(cases[i].put, FRAMES_N, is_reading == 1);
            /* Of one that does not read nothing is known before it does, but nothing grows. */
            EXPECT(sent_n < FRAMES_N || is_reading == 0);
            world_read(&w);
            EXPECT_EQ(1, w.goaways_n);
            EXPECT(conn_is_over(w.conn));
            EXPECT(w.held_n <= 100); /* never more handlers than slots */
            uint64_t ends_n =
                w.counters.provoked_flood + w.counters.http2_malformed + w.counters.control_flood;
            EXPECT_EQ(1, ends_n);
            if (cases[i].is_at_once) EXPECT_EQ(1, w.counters.http2_malformed);
            finish();
        }
    }
}

/* ---- headers ---- */

/* A request in HEADERS and n CONTINUATIONs. */
static void put_continued(struct buffer *b, uint32_t stream, unsigned n)
{
    put_head(b, stream, "/t/echo", 0, BYTES_NONE);
    for (unsigned i = 0; i < n; i++)
        put_frame(b, NGHTTP2_CONTINUATION, i + 1 == n ? END_HEADERS : 0, stream, BYTES_NONE);
    put_message(b, stream, "x");
}

/* CVE-2024-27316. */
TEST(eight_continuations_are_fine_and_nine_are_not)
{
    begin();
    put_continued(&w.in, 1, 8);
    EXPECT_STATUS(OK, world_say(&w));
    EXPECT_EQ(1, w.calls_n);
    put_continued(&w.in, 3, 9);
    EXPECT_STATUS(E_CLOSED, world_say(&w));
    EXPECT_EQ(1, w.calls_n);
    expect_ended(CALM, &w.counters.header_flood);
    finish();
}

TEST(endless_continuations)
{
    struct buffer piece;
    begin();
    buffer_init(&piece, mem_process());
    put_header(&piece, "x-long", bytes_make(test_hex("41414141").ptr, 4));
    put_head(&w.in, 1, "/t/echo", 0, BYTES_NONE);
    EXPECT_STATUS(OK, world_say(&w));
    put_frame(&w.in, NGHTTP2_CONTINUATION, 0, 1, buffer_view(&piece));
    struct buffer frame = w.in;
    buffer_init(&w.in, mem_process());
    unsigned sent_n = repeat(buffer_view(&frame), FRAMES_N, true);
    EXPECT(sent_n < 5000);
    expect_ended(CALM, &w.counters.header_flood);
    buffer_release(&piece);
    buffer_release(&frame);
    finish();
}

/* A value of n letters 'a', Huffman-coded: five bits each. */
static void put_huffman(struct buffer *b, size_t n)
{
    static const uint8_t eight[5] = {0x18, 0xc6, 0x31, 0x8c, 0x63};
    buffer_u8(b, 0);
    put_hpack_number(b, 0, 7, 1);
    buffer_u8(b, 'x');
    put_hpack_number(b, 0x80, 7, n / 8 * 5);
    for (size_t i = 0; i < n / 8; i++) buffer_append(b, eight, 5);
}

/* Above 16 KiB a request is refused, above 64 KiB the connection is. */
TEST(long_headers)
{
    struct buffer extra;
    begin();
    buffer_init(&extra, mem_process());
    put_huffman(&extra, 8 * 2000);
    put_head(&w.in, 1, "/t/echo", END_HEADERS, buffer_view(&extra));
    put_message(&w.in, 1, "x");
    EXPECT_STATUS(OK, world_say(&w));
    EXPECT_EQ(1, w.calls_n);
    put_huffman(&extra, 8 * 2000);
    EXPECT(extra.len > 16384); /* two frames */
    put_head(&w.in, 3, "/t/echo", 0, bytes_make(extra.ptr, 16000));
    put_frame(&w.in, NGHTTP2_CONTINUATION, END_HEADERS, 3,
              bytes_make(extra.ptr + 16000, extra.len - 16000));
    put_message(&w.in, 3, "x");
    (void)world_trace(&w);
    EXPECT_STATUS(OK, world_say(&w));
    EXPECT_TEXT("3 end :status=431\n", world_trace(&w));
    EXPECT_EQ(1, w.counters.header_list_too_large);
    EXPECT_EQ(1, w.calls_n);
    buffer_release(&extra);
    finish();
}

/* Endless Huffman strings over eight CONTINUATIONs of 16 KiB. */
TEST(endless_huffman_headers)
{
    struct buffer extra;
    begin();
    buffer_init(&extra, mem_process());
    while (extra.len < 100 * 1024) put_huffman(&extra, 8 * 1500);
    put_head(&w.in, 1, "/t/echo", 0, bytes_make(extra.ptr, 16000));
    for (size_t i = 1; i < 7; i++)
        put_frame(&w.in, NGHTTP2_CONTINUATION, 0, 1, bytes_make(extra.ptr + i * 16000, 16000));
    EXPECT_STATUS(E_CLOSED, world_say(&w));
    expect_ended(CALM, &w.counters.header_flood);
    EXPECT_EQ(0, w.calls_n);
    buffer_release(&extra);
    finish();
}

/* A value of almost 4 KiB goes into the table, then one byte each stands for it. */
TEST(hpack_bomb)
{
    struct buffer extra;
    begin();
    buffer_init(&extra, mem_process());
    buffer_u8(&extra, 0x40);
    put_hpack_number(&extra, 0, 7, 1);
    buffer_u8(&extra, 'x');
    put_hpack_number(&extra, 0, 7, 4000);
    for (int i = 0; i < 4000; i++) buffer_u8(&extra, 'a');
    for (int i = 0; i < 10000; i++) buffer_u8(&extra, 0x80 | 62);
    put_head(&w.in, 1, "/t/echo", END_HEADERS, buffer_view(&extra));
    put_message(&w.in, 1, "x");
    EXPECT_STATUS(E_CLOSED, world_say(&w));
    expect_ended(CALM, &w.counters.header_flood);
    EXPECT_EQ(0, w.calls_n);
    buffer_release(&extra);
    finish();
}

/* The same in requests that are refused before anybody looks at their headers: each block is
 * bounded by its frames, and the refusals are counted. */
TEST(hpack_bomb_in_refused_streams)
{
    struct buffer extra;
    world_init(&w);
    world_init(&healthy);
    world_greet(&healthy);
    cpu_ns = clock_cpu_ns();
    world_connect(&w, true);
    put_greeting(&w.in); /* and never acknowledges our limit */
    for (uint32_t i = 0; i < 100; i++) put_request(&w.in, 2 * i + 1, "/t/hold", "x");
    EXPECT_STATUS(OK, world_say(&w));
    buffer_init(&extra, mem_process());
    for (int i = 0; i < 10000; i++) buffer_u8(&extra, 0x80 | 2);
    unsigned sent_n = 0;
    for (uint32_t stream = 201; sent_n < FRAMES_N && !conn_is_over(w.conn); stream += 2, sent_n++) {
        put_head(&w.in, stream, "/t/echo", END_HEADERS, buffer_view(&extra));
        (void)world_say(&w);
    }
    EXPECT(sent_n <= 1000);
    expect_ended(CALM, &w.counters.provoked_flood);
    EXPECT_EQ(100, w.calls_n);
    buffer_release(&extra);
    finish();
}

/* CVE-2019-9516 and too many fields: a hundred are allowed. */
TEST(too_many_header_fields)
{
    struct buffer extra;
    begin();
    buffer_init(&extra, mem_process());
    for (int i = 0; i < 94; i++) put_header(&extra, "x", BYTES_NONE);
    put_head(&w.in, 1, "/t/echo", END_HEADERS, buffer_view(&extra));
    put_message(&w.in, 1, "x");
    put_header(&extra, "x", BYTES_NONE);
    put_head(&w.in, 3, "/t/echo", END_HEADERS, buffer_view(&extra));
    put_message(&w.in, 3, "x");
    EXPECT_STATUS(OK, world_say(&w));
    EXPECT_EQ(1, w.calls_n);
    EXPECT(strstr(world_trace(&w), "3 end :status=431") != NULL);
    buffer_release(&extra);
    finish();
}

/* ---- control frames ---- */

TEST(ping_flood)
{
    struct buffer frame;
    for (int is_reading = 0; is_reading < 2; is_reading++) {
        begin();
        buffer_init(&frame, mem_process());
        put_frame(&frame, NGHTTP2_PING, 0, 0, BYTES_LITERAL("12345678"));
        unsigned sent_n = repeat(buffer_view(&frame), 1000000, is_reading == 1);
        EXPECT(sent_n < 10000);
        expect_ended(CALM, &w.counters.control_flood);
        buffer_release(&frame);
        finish();
    }
}

TEST(settings_flood)
{
    struct buffer frame;
    for (int is_reading = 0; is_reading < 2; is_reading++) {
        begin();
        buffer_init(&frame, mem_process());
        put_frame(&frame, NGHTTP2_SETTINGS, 0, 0, test_hex("000300000064"));
        unsigned sent_n = repeat(buffer_view(&frame), 1000000, is_reading == 1);
        EXPECT(sent_n < 10000);
        expect_ended(CALM, &w.counters.control_flood);
        buffer_release(&frame);
        finish();
    }
}

/* 33 entries in one frame. */
TEST(settings_with_too_many_entries)
{
    struct buffer payload;
    begin();
    buffer_init(&payload, mem_process());
    for (int i = 0; i < 33; i++) buffer_append_bytes(&payload, test_hex("000300000064"));
    put_frame(&w.in, NGHTTP2_SETTINGS, 0, 0, buffer_view(&payload));
    (void)world_say(&w);
    EXPECT_EQ(1, w.goaways_n);
    EXPECT_EQ(CALM, w.goaway_code);
    EXPECT(conn_is_over(w.conn));
    buffer_release(&payload);
    finish();
}

/* CVE-2019-9513. */
TEST(priority_flood)
{
    struct buffer frame;
    begin();
    buffer_init(&frame, mem_process());
    put_frame(&frame, NGHTTP2_PRIORITY, 0, 1, test_hex("0000000310"));
    put_frame(&frame, NGHTTP2_PRIORITY, 0, 3, test_hex("0000000110"));
    unsigned sent_n = repeat(buffer_view(&frame), 1000000, true);
    EXPECT(sent_n < 5000);
    expect_ended(CALM, &w.counters.control_flood);
    buffer_release(&frame);
    finish();
}

/* What costs the peer more than us: nothing grows, and it is not cut. */
TEST(floods_that_cost_us_nothing)
{
    struct buffer frame;
    for (int is_unknown = 0; is_unknown < 2; is_unknown++) {
        begin();
        buffer_init(&frame, mem_process());
        if (is_unknown)
            put_frame(&frame, 0xbe, 0, 0, BYTES_LITERAL("x"));
        else
            put_frame_u32(&frame, NGHTTP2_WINDOW_UPDATE, 0, 1);
        size_t before = w.mem.used;
        EXPECT(repeat(buffer_view(&frame), FRAMES_N, true) >= FRAMES_N);
        EXPECT_EQ(before, w.mem.used);
        buffer_release(&frame);
        finish();
    }
}

/* A keepalive every ten seconds for a day; and a PING for each answer, to measure the bandwidth. */
TEST(honest_pings_are_fine)
{
    uint32_t stream = 1;
    begin();
    for (int i = 0; i < 8640; i++) {
        put_frame(&w.in, NGHTTP2_PING, 0, 0, BYTES_LITERAL("12345678"));
        EXPECT_STATUS(OK, world_say(&w));
        w.now_ns += 10 * NS_PER_S;
    }
    put_frame_u32(&w.in, NGHTTP2_WINDOW_UPDATE, 0, 1 << 20);
    for (int i = 0; i < 20000; i++, stream += 2) {
        put_request(&w.in, stream, "/t/echo", "x");
        put_frame(&w.in, NGHTTP2_PING, 0, 0, BYTES_LITERAL("12345678"));
        EXPECT_STATUS(OK, world_say(&w));
    }
    EXPECT_EQ(28640, w.acks_n);
    EXPECT_EQ(20000, w.calls_n);
    finish();
}

/* ---- data ---- */

/* CVE-2019-9518; padding does not make a frame less empty. */
TEST(empty_data_flood)
{
    for (int is_padded = 0; is_padded < 2; is_padded++) {
        struct buffer frame;
        begin();
        buffer_init(&frame, mem_process());
        put_head(&w.in, 1, "/t/echo", END_HEADERS, BYTES_NONE);
        EXPECT_STATUS(OK, world_say(&w));
        if (is_padded)
            put_frame(&frame, NGHTTP2_DATA, PADDED, 1, test_hex("0300000000"));
        else
            put_frame(&frame, NGHTTP2_DATA, 0, 1, BYTES_NONE);
        if (is_padded) frame.ptr[9] = 4;
        unsigned sent_n = repeat(buffer_view(&frame), FRAMES_N, true);
        EXPECT(sent_n < 10000);
        expect_ended(CALM, &w.counters.empty_frame_flood);
        buffer_release(&frame);
        finish();
    }
}

/* ---- streams ---- */

/* Before a peer can know our limit it is refused softly; gRPC clients try again. */
TEST(the_stream_above_the_limit_is_refused)
{
    world_init(&w);
    world_init(&healthy);
    world_greet(&healthy);
    world_connect(&w, true);
    put_greeting(&w.in);
    for (uint32_t i = 0; i < 150; i++) put_request(&w.in, 2 * i + 1, "/t/hold", "x");
    EXPECT_STATUS(OK, world_say(&w));
    EXPECT_EQ(100, w.held_n);
    EXPECT_EQ(50, w.resets_n);
    EXPECT_EQ(NGHTTP2_REFUSED_STREAM, w.last_reset_code);
    EXPECT_EQ(50, w.counters.streams_refused);
    world_finish_held(&w);
    world_read(&w);
    put_settings_ack(&w.in);
    put_request(&w.in, 301, "/t/echo", "x");
    EXPECT_STATUS(OK, world_say(&w));
    EXPECT(strstr(world_trace(&w), "301 end grpc-status=0") != NULL);
    finish();
}

/* Who knows it and does it nevertheless is refused too, and never has more than its slots. */
TEST(the_stream_above_the_known_limit_is_refused)
{
    begin();
    for (uint32_t i = 0; i < 101; i++) put_request(&w.in, 2 * i + 1, "/t/hold", "x");
    (void)world_say(&w);
    EXPECT_EQ(100, w.calls_n);
    EXPECT_EQ(1, w.counters.streams_refused);
    finish();
}

/* ---- the peer does not read ---- */

/* Answers that nobody takes: bounded, and the connection ends after the time for a stall. */
TEST(answers_that_nobody_takes)
{
    static char text[64 * 1024];
    memset(text, 'x', sizeof text - 1);
    begin();
    w.limits.message_size_max = 128 * 1024;
    put_frame(&w.in, NGHTTP2_SETTINGS, 0, 0, test_hex("000400000000")); /* window 0 */
    for (uint32_t i = 0; i < 300; i++) {
        uint32_t stream = 2 * i + 1;
        struct buffer data;
        buffer_init(&data, mem_process());
        buffer_u8(&data, 0);
        put_u32(&data, sizeof text - 1);
        buffer_append_bytes(&data, bytes_of_text(text));
        put_head(&w.in, stream, "/t/echo", END_HEADERS, BYTES_NONE);
        for (size_t at = 0; at < data.len; at += 16384)
            put_frame(&w.in, NGHTTP2_DATA, at + 16384 >= data.len ? END_STREAM : 0, stream,
                      bytes_make(data.ptr + at, data.len - at < 16384 ? data.len - at : 16384));
        buffer_release(&data);
        if (world_say(&w) != OK) break;
    }
    EXPECT(w.counters.answers_too_large > 0);
    EXPECT(w.mem.used < 3 * 1024 * 1024);
    world_wait_ms(&w, 29 * 1000);
    EXPECT_EQ(0, w.counters.stalled);
    world_wait_ms(&w, 2 * 1000);
    expect_ended(CALM, &w.counters.stalled);
    w.mem.used_max = 0;
    finish();
}

/* Hundreds of calls at once whose answers come together: what is kept for the peer is bounded, and
 * one answer alone is never refused. */
TEST(answers_that_come_together)
{
    static uint8_t large[64 * 1024];
    begin();
    w.limits.answers_size_max = 256 * 1024;
    put_frame(&w.in, NGHTTP2_SETTINGS, 0, 0, test_hex("000400000000")); /* window 0 */
    for (uint32_t i = 0; i < 50; i++) put_request(&w.in, 2 * i + 1, "/t/hold", "x");
    EXPECT_STATUS(OK, world_say(&w));
    EXPECT_EQ(50, w.held_n);
    while (w.held_n > 0) grpc_answer(w.held[--w.held_n], bytes_make(large, sizeof large));
    EXPECT_EQ(47, w.counters.answers_too_large);
    EXPECT(w.mem.used < 1024 * 1024);
    world_read(&w);
    EXPECT(strstr(world_trace(&w), "grpc-status=14") != NULL);
    finish();
    begin();
    w.limits.answers_size_max = 1024;
    put_request(&w.in, 1, "/t/hold", "x");
    EXPECT_STATUS(OK, world_say(&w));
    grpc_answer(w.held[--w.held_n], bytes_make(large, sizeof large));
    EXPECT_EQ(0, w.counters.answers_too_large);
    finish();
}

/* A worker that is busy may leave its work items unread for hours, as long as it is alive. */
TEST(a_busy_worker_is_not_stalled)
{
    static uint8_t block[100 * 1024];
    begin();
    put_request(&w.in, 1, "/t/hold", "x");
    EXPECT_STATUS(OK, world_say(&w));
    EXPECT_STATUS(OK, grpc_send(w.held[0], bytes_make(block, sizeof block)));
    world_read(&w);
    for (int i = 0; i < 400; i++) { /* more than three hours */
        world_wait_ms(&w, 30 * 1000);
        world_read(&w);
        put_frame(&w.in, NGHTTP2_PING, NGHTTP2_FLAG_ACK, 0, BYTES_LITERAL("\0\0\0\0\0\0\0\0"));
        EXPECT_STATUS(OK, world_say(&w));
    }
    EXPECT(w.pings_n > 300);
    EXPECT(!conn_is_over(w.conn));
    finish();
}

/* What was pulled does not leave: the socket's buffer is full. */
TEST(a_peer_that_takes_no_bytes_is_closed)
{
    begin();
    world_wait_ms(&w, 60 * 1000); /* an earlier pause does not count */
    put_request(&w.in, 1, "/t/echo", "x");
    EXPECT_STATUS(OK, conn_feed(w.conn, w.now_ns, buffer_view(&w.in)));
    buffer_clear(&w.in);
    EXPECT(conn_pull(w.conn, w.now_ns, &w.out, 1000));
    world_wait_ms(&w, 1000);
    EXPECT(!conn_is_dead(w.conn));
    conn_sent(w.conn, w.now_ns, 1);
    world_wait_ms(&w, 29 * 1000);
    conn_sent(w.conn, w.now_ns, 1); /* slow, not stalled */
    world_wait_ms(&w, 29 * 1000);
    EXPECT(!conn_is_over(w.conn));
    world_wait_ms(&w, 1000);
    EXPECT(conn_is_over(w.conn));
    EXPECT(conn_is_dead(w.conn));
    EXPECT_EQ(1, w.counters.stalled);
    buffer_clear(&w.out);
    finish();
}

/* Nobody waits half a minute for an attacker to take our farewell. */
TEST(a_farewell_that_nobody_takes)
{
    struct buffer frame;
    begin();
    buffer_init(&frame, mem_process());
    put_frame(&frame, NGHTTP2_PING, 0, 0, BYTES_LITERAL("12345678"));
    (void)repeat(buffer_view(&frame), FRAMES_N, false);
    while (conn_pull(w.conn, w.now_ns, &w.out, 1000)) {
    }
    EXPECT(conn_is_over(w.conn));
    world_wait_ms(&w, 999);
    EXPECT(!conn_is_dead(w.conn));
    world_wait_ms(&w, 1);
    EXPECT(conn_is_dead(w.conn));
    buffer_clear(&w.out);
    buffer_release(&frame);
    finish();
}

/* Nor does it help that there is more to tell than the farewell: here acknowledgements wait behind
 * answers that the peer has not taken. */
TEST(a_farewell_behind_other_bytes_that_nobody_takes)
{
    struct buffer frame;
    begin();
    put_request(&w.in, 1, "/t/echo", "x");
    EXPECT_STATUS(OK, conn_feed(w.conn, w.now_ns, buffer_view(&w.in)));
    buffer_clear(&w.in);
    EXPECT(conn_pull(w.conn, w.now_ns, &w.out, 1)); /* and the socket takes nothing of it */
    world_wait_ms(&w, 500);
    EXPECT(!conn_is_dead(w.conn));
    buffer_init(&frame, mem_process());
    put_frame(&frame, NGHTTP2_PING, 0, 0, BYTES_LITERAL("12345678"));
    (void)repeat(buffer_view(&frame), FRAMES_N, false);
    EXPECT_EQ(1, w.counters.control_flood);
    EXPECT(!conn_is_over(w.conn));
    world_wait_ms(&w, 500);
    EXPECT(conn_is_dead(w.conn));
    EXPECT_EQ(1, w.counters.stalled);
    buffer_clear(&w.out);
    buffer_release(&frame);
    finish();
}

/* ---- slow ---- */

TEST(slow_preface)
{
    world_init(&w);
    world_connect(&w, true);
    EXPECT_STATUS(OK, conn_feed(w.conn, w.now_ns, BYTES_LITERAL("PRI * H")));
    world_wait_ms(&w, 4999);
    EXPECT(!conn_is_over(w.conn));
    world_wait_ms(&w, 1);
    EXPECT(conn_is_over(w.conn));
    EXPECT_EQ(1, w.counters.slow_request);
    world_release(&w);
}

/* The greeting of HTTP/2 is the magic and the SETTINGS. */
TEST(slow_greeting)
{
    world_init(&w);
    world_connect(&w, true);
    EXPECT_STATUS(OK, conn_feed(w.conn, w.now_ns,
                                bytes_make(NGHTTP2_CLIENT_MAGIC, NGHTTP2_CLIENT_MAGIC_LEN)));
    world_wait_ms(&w, 5000);
    expect_ended(CALM, &w.counters.slow_request);
    world_release(&w);
}

TEST(slow_headers)
{
    begin();
    put_head(&w.in, 1, "/t/echo", 0, BYTES_NONE);
    EXPECT_STATUS(OK, world_say(&w));
    world_wait_ms(&w, 9999);
    EXPECT(!conn_is_over(w.conn));
    world_wait_ms(&w, 1);
    expect_ended(CALM, &w.counters.slow_request);
    finish();
}

/* 100 bytes each second are too few; 1,100 are enough. */
TEST(slow_body)
{
    static const uint8_t zeros[1100];
    for (int is_honest = 0; is_honest < 2; is_honest++) {
        begin();
        put_head(&w.in, 1, "/t/echo", END_HEADERS, BYTES_NONE);
        put_frame(&w.in, NGHTTP2_DATA, 0, 1, test_hex("00000fffff"));
        EXPECT_STATUS(OK, world_say(&w));
        int seconds = 0;
        while (seconds < 60) {
            put_frame(&w.in, NGHTTP2_DATA, 0, 1, bytes_make(zeros, is_honest ? 1100 : 100));
            if (world_say(&w) != OK) break;
            world_wait_ms(&w, 1000);
            seconds++;
        }
        EXPECT_EQ(is_honest ? 60 : 11, seconds);
        if (!is_honest) expect_ended(CALM, &w.counters.slow_request);
        finish();
    }
}

/* What was sent fast buys no more than the ten seconds that everybody has. */
TEST(a_body_that_stops)
{
    static const uint8_t zeros[16384];
    begin();
    put_head(&w.in, 1, "/t/echo", END_HEADERS, BYTES_NONE);
    put_frame(&w.in, NGHTTP2_DATA, 0, 1, test_hex("00000fffff"));
    for (int i = 0; i < 60; i++) {
        put_frame(&w.in, NGHTTP2_DATA, 0, 1, bytes_make(zeros, sizeof zeros));
        EXPECT_STATUS(OK, world_say(&w));
    }
    world_wait_ms(&w, 9999);
    EXPECT(!conn_is_over(w.conn));
    world_wait_ms(&w, 1);
    expect_ended(CALM, &w.counters.slow_request);
    finish();
}

/* A request of so many bytes without its end. */
static void say_unfinished(uint32_t stream, size_t size)
{
    static const uint8_t zeros[16384];
    put_head(&w.in, stream, "/t/echo", END_HEADERS, BYTES_NONE);
    put_frame(&w.in, NGHTTP2_DATA, 0, stream, test_hex("00000fffff"));
    for (size_t at = 0; at < size; at += sizeof zeros) {
        put_frame(&w.in, NGHTTP2_DATA, 0, stream, bytes_make(zeros, sizeof zeros));
        EXPECT_STATUS(OK, world_say(&w));
    }
}

/* Many requests that are never finished: one alone may be as large as it likes, together they have
 * a limit, and who is refused may come again. */
TEST(unfinished_bodies_of_a_connection)
{
    begin();
    w.limits.unfinished_size_max = 256 * 1024;
    say_unfinished(1, 512 * 1024);
    EXPECT_EQ(0, w.counters.requests_too_large);
    put_frame_u32(&w.in, NGHTTP2_RST_STREAM, 1, NGHTTP2_CANCEL);
    EXPECT_STATUS(OK, world_say(&w));
    (void)world_trace(&w);
    for (uint32_t i = 0; i < 3; i++) say_unfinished(2 * i + 3, 112 * 1024);
    EXPECT_EQ(1, w.counters.requests_too_large);
    EXPECT(strstr(world_trace(&w), "7 end :status=200 content-type=application/grpc "
                                   "grpc-status=14") != NULL);
    EXPECT(w.mem.used < 1024 * 1024);
    put_frame_u32(&w.in, NGHTTP2_RST_STREAM, 3, NGHTTP2_CANCEL);
    put_frame_u32(&w.in, NGHTTP2_RST_STREAM, 5, NGHTTP2_CANCEL);
    say_unfinished(9, 200 * 1024);
    EXPECT_EQ(1, w.counters.requests_too_large);
    finish();
}

/* The same of all connections together; what is small still passes. */
TEST(unfinished_bodies_of_all_connections)
{
    size_t all = 0;
    begin();
    conn_free(w.conn, w.now_ns);
    const struct conn_options options = {.mem = &w.mem,
                                         .limits = &w.limits,
                                         .counters = &w.counters,
                                         .grpc = &w.grpc,
                                         .http = &w.http,
                                         .unfinished_size = &all,
                                         .is_trusted = true};
    struct conn *other = NULL;
    EXPECT_STATUS(OK, conn_new(&options, w.now_ns, &w.conn));
    EXPECT_STATUS(OK, conn_new(&options, w.now_ns, &other));
    put_greeting(&w.in);
    put_settings_ack(&w.in);
    say_unfinished(1, 240 * 1024);
    EXPECT_EQ(240 * 1024, all);

    /* HTTP/1.1 counts and is counted. */
    static const uint8_t zeros[100 * 1024];
    const struct bytes head =
        BYTES_LITERAL("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n");
    EXPECT_STATUS(OK, conn_feed(other, w.now_ns, head));
    EXPECT_STATUS(OK, conn_feed(other, w.now_ns, bytes_make(zeros, sizeof zeros)));
    EXPECT_EQ(240 * 1024 + head.len + sizeof zeros, all);
    conn_free(other, w.now_ns);
    EXPECT_EQ(240 * 1024, all);
    w.limits.unfinished_size_total = 240 * 1024 - 1;
    EXPECT_STATUS(OK, conn_new(&options, w.now_ns, &other));
    EXPECT_STATUS(OK, conn_feed(other, w.now_ns, head));
    EXPECT_STATUS(E_CLOSED, conn_feed(other, w.now_ns, bytes_make(zeros, sizeof zeros)));
    EXPECT_EQ(1, w.counters.requests_too_large);
    conn_free(other, w.now_ns);

    put_request(&w.in, 3, "/t/echo", "small");
    EXPECT_STATUS(OK, world_say(&w));
    EXPECT(strstr(world_trace(&w), "3 end grpc-status=0") != NULL);
    conn_free(w.conn, w.now_ns);
    w.conn = NULL;
    EXPECT_EQ(0, all);
    finish();
}

TEST(idle_connections_are_closed)
{
    begin();
    world_wait_ms(&w, 299999);
    EXPECT(!conn_is_over(w.conn));
    world_wait_ms(&w, 1);
    expect_ended(NGHTTP2_NO_ERROR, &w.counters.idle_closed);
    finish();
}

/* A call makes it wait for ever, if the peer answers our PING. */
TEST(a_peer_that_is_gone_is_noticed)
{
    begin();
    put_request(&w.in, 1, "/t/hold", "x");
    EXPECT_STATUS(OK, world_say(&w));
    world_wait_ms(&w, 30 * 1000);
    world_read(&w);
    EXPECT_EQ(1, w.pings_n);
    put_frame(&w.in, NGHTTP2_PING, NGHTTP2_FLAG_ACK, 0, BYTES_LITERAL("\0\0\0\0\0\0\0\0"));
    EXPECT_STATUS(OK, world_say(&w));
    world_wait_ms(&w, 30 * 1000);
    world_read(&w);
    EXPECT_EQ(2, w.pings_n);
    world_wait_ms(&w, 19999);
    EXPECT(!conn_is_over(w.conn));
    world_wait_ms(&w, 1);
    expect_ended(NGHTTP2_NO_ERROR, &w.counters.ping_unanswered);
    finish();
}

/* ---- nonsense ---- */

TEST(lying_frame_lengths)
{
    begin();
    buffer_append_bytes(&w.in, test_hex("ffffff000000000001")); /* DATA of 16 MiB */
    EXPECT_STATUS(E_CLOSED,
                  world_say(&w) == OK ? conn_feed(w.conn, w.now_ns, BYTES_LITERAL("x")) : E_CLOSED);
    EXPECT_EQ(NGHTTP2_FRAME_SIZE_ERROR, w.goaway_code);
    EXPECT_EQ(1, w.counters.http2_malformed);
    finish();
}

TEST(no_settings_after_the_magic)
{
    world_init(&w);
    world_connect(&w, true);
    buffer_append(&w.in, NGHTTP2_CLIENT_MAGIC, NGHTTP2_CLIENT_MAGIC_LEN);
    put_request(&w.in, 1, "/t/echo", "x");
    (void)world_say(&w);
    EXPECT(conn_is_over(w.conn));
    EXPECT_EQ(0, w.calls_n);
    EXPECT_EQ(1, w.counters.http2_malformed);
    world_release(&w);
}

/* A client that is set to TLS is told in a way that its library understands, and counted. */
TEST(tls_is_counted_and_refused)
{
    begin();
    conn_free(w.conn, w.now_ns);
    world_connect(&w, true);
    EXPECT_STATUS(E_CLOSED, conn_feed(w.conn, w.now_ns, test_hex("160301007a010000760303")));
    world_pull(&w);
    EXPECT(bytes_start_with(buffer_view(&w.out), BYTES_LITERAL("HTTP/1.1 400 ")));
    EXPECT_EQ(1, w.counters.tls_refused);
    buffer_clear(&w.out);
    finish();
}
