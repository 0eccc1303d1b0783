/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams that are opened to be thrown away: by the peer, by us because it made us, and more of
 * them than there is room for.
 */
#include "test/e2e/attacks/attack.h"

#define CONNECTIONS_N 20
#define PAIRS_N 1000000 /* in all, if nobody stops it */
#define PIECE_SIZE (64 * 1024)

typedef void put_fn(struct buffer *b, uint32_t stream);

/* Sends pairs until it is cut; answers how many. */
static uint64_t send_until_cut(struct peer *p, put_fn *put, uint64_t pairs_n)
{
    uint64_t sent_n = 0;

    while (sent_n < pairs_n) {
        while (p->out.len < PIECE_SIZE) {
            put(&p->out, p->stream);
            p->stream += 2;
            sent_n++;
        }
        if (!peer_send(p, SEND_MS)) break;
    }
    return sent_n;
}

static void put_call(struct buffer *b, uint32_t stream)
{
    put_request(b, stream, SERVICE "WaitForInstanceStart", "\x0a\x01i");
}

static void put_rapid_reset(struct buffer *b, uint32_t stream)
{
    put_call(b, stream);
    put_frame_u32(b, NGHTTP2_RST_STREAM, stream, NGHTTP2_CANCEL);
}

/* CVE-2023-44487. Each connection is cut after about a thousand, and the attacker comes again. */
TEST(rapid_reset)
{
    uint64_t pairs_n = 0;

    attack_begin("rapid reset", NULL);
    for (unsigned i = 1; i <= CONNECTIONS_N; i++) {
        struct peer p;
        peer_greet(&p, 0);
        uint64_t sent_n = send_until_cut(&p, put_rapid_reset, PAIRS_N / CONNECTIONS_N);
        EXPECT(sent_n < 20000); /* what is in the sockets' buffers when it is cut */
        pairs_n += sent_n;
        expect_cut(&p, CALM, "resets_flood", i);
        peer_close(&p);
    }
    attack_measure(pairs_n * 3, (struct attack_bounds){0});
    EXPECT(target_counter("calls") < CONNECTIONS_N * 1200 + 100000);
    attack_end();
}

/* ---- CVE-2025-8671: the peer makes us reset ---- */

static void put_zero_increment(struct buffer *b, uint32_t stream)
{
    put_call(b, stream);
    put_frame_u32(b, NGHTTP2_WINDOW_UPDATE, stream, 0);
}

static void put_window_overflow(struct buffer *b, uint32_t stream)
{
    put_call(b, stream);
    put_frame_u32(b, NGHTTP2_WINDOW_UPDATE, stream, 0x7fffffff);
}

static void put_data_after_end(struct buffer *b, uint32_t stream)
{
    put_call(b, stream);
    put_frame(b, NGHTTP2_DATA, 0, stream, BYTES_LITERAL("more"));
}

static void put_headers_after_end(struct buffer *b, uint32_t stream)
{
    put_call(b, stream);
    put_head(b, stream, SERVICE "Hello", END_HEADERS | END_STREAM, BYTES_NONE);
}

static void put_long_priority(struct buffer *b, uint32_t stream)
{
    put_call(b, stream);
    put_frame(b, NGHTTP2_PRIORITY, 0, stream, BYTES_LITERAL("sixsix"));
}

static void put_self_dependency(struct buffer *b, uint32_t stream)
{
    const uint8_t payload[5] = {(uint8_t)(stream >> 24), (uint8_t)(stream >> 16),
                                (uint8_t)(stream >> 8), (uint8_t)stream, 0};

    put_call(b, stream);
    put_frame(b, NGHTTP2_PRIORITY, 0, stream, bytes_make(payload, sizeof payload));
}

static void put_bad_header(struct buffer *b, uint32_t stream)
{
    struct buffer extra;

    buffer_init(&extra, mem_process());
    put_header(&extra, "Upper", BYTES_LITERAL("x"));
    put_head(b, stream, SERVICE "Hello", END_HEADERS, buffer_view(&extra));
    buffer_release(&extra);
}

static void put_wrong_length(struct buffer *b, uint32_t stream)
{
    struct buffer extra;

    buffer_init(&extra, mem_process());
    put_header(&extra, "content-length", BYTES_LITERAL("3"));
    put_head(b, stream, SERVICE "Hello", END_HEADERS, buffer_view(&extra));
    put_message(b, stream, "longer than three");
    buffer_release(&extra);
}

static uint64_t ends_n(void)
{
    return target_counter("provoked_flood") + target_counter("http2_malformed") +
           target_counter("control_flood");
}

TEST(made_you_reset)
{
    static const struct {
        const char *name;
        put_fn *put;
    } cases[] = {
        {"zero increment", put_zero_increment}, {"window overflow", put_window_overflow},
        {"data after end", put_data_after_end}, {"headers after end", put_headers_after_end},
        {"long priority", put_long_priority},   {"self dependency", put_self_dependency},
        {"bad header", put_bad_header},         {"wrong length", put_wrong_length},
    };
    uint64_t pairs_n = 0;

    attack_begin("made you reset", NULL);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct peer p;
        test_note("made you reset: %s", cases[i].name);
        uint64_t before_n = ends_n();
        peer_greet(&p, 0);
        uint64_t sent_n = send_until_cut(&p, cases[i].put, 100000);
        EXPECT(sent_n < 20000);
        pairs_n += sent_n;
        EXPECT(peer_await_end(&p, END_MS));
        EXPECT_EQ(1, p.goaways_n);
        EXPECT(p.goaway_code != NGHTTP2_NO_ERROR);
        EXPECT_EQ(before_n + 1, ends_n());
        peer_close(&p);
    }
    attack_measure(pairs_n * 3, (struct attack_bounds){0});
    attack_end();
}

/* ---- more streams than there is room for ---- */

/* Who has acknowledged our limit of 100 and opens another stream has broken a rule: what is above
 * it is refused, and one that goes on is cut. The 100 inside go on. */
TEST(stream_exhaustion)
{
    static const char *const words[] = {"--calls-max", "100", NULL};
    struct peer p;

    attack_begin("stream exhaustion", words);
    peer_greet(&p, 0);
    for (int i = 0; i < 101; i++) {
        put_call(&p.out, p.stream);
        p.stream += 2;
    }
    EXPECT(peer_send(&p, SEND_MS));
    while (p.resets_n == 0 && p.goaways_n == 0) EXPECT(peer_read(&p, END_MS) || p.goaways_n > 0);
    EXPECT_EQ(1, target_counter("streams_refused"));
    uint64_t sent_n = 101 + send_until_cut(&p, put_call, 100000);
    EXPECT(sent_n < 20000);
    EXPECT(peer_await_end(&p, END_MS));
    EXPECT_EQ(1, p.goaways_n);
    EXPECT(target_counter("streams_refused") >= 1);
    peer_close(&p);
    attack_measure(sent_n * 2, (struct attack_bounds){0});
    attack_end();
}
