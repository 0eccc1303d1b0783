/* SPDX-License-Identifier: Apache-2.0
 *
 * What is inside of a well-formed HTTP/2 stream: gRPC messages that lie about themselves, and
 * protobuf made to be expensive.
 */
#include "test/e2e/attacks/attack.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>

enum { GRPC_OK_CODE = 0, INVALID = 3, EXHAUSTED = 8, UNIMPLEMENTED = 12, INTERNAL = 13 };

#define RPCS(X)                                                                                    \
    X(Hello)                                                                                       \
    X(StartInstance)                                                                               \
    X(GetInstance)                                                                                 \
    X(RaiseEvent)                                                                                  \
    X(TerminateInstance)                                                                           \
    X(QueryInstances)                                                                              \
    X(ListInstanceIds)                                                                             \
    X(PurgeInstances)                                                                              \
    X(CompleteActivityTask)                                                                        \
    X(CompleteOrchestratorTask)                                                                    \
    X(CompleteEntityTask)                                                                          \
    X(StreamInstanceHistory)                                                                       \
    X(SignalEntity)                                                                                \
    X(QueryEntities)                                                                               \
    X(AbandonTaskActivityWorkItem)

static const char *const rpcs[] = {
#define X(name) #name,
    RPCS(X)
#undef X
};

/* ---- gRPC ---- */

/* Sends this as the whole body of a call. */
static int call_with_body(struct peer *p, const char *body_hex, bool is_end)
{
    uint32_t stream = p->stream;

    p->stream += 2;
    p->grpc_status = NO_STATUS;
    p->end_stream = 0;
    put_head(&p->out, stream, SERVICE "StartInstance", END_HEADERS, BYTES_NONE);
    put_frame(&p->out, NGHTTP2_DATA, is_end ? END_STREAM : 0, stream, test_hex(body_hex));
    (void)peer_send(p, SEND_MS);
    while (p->end_stream != stream) EXPECT(peer_read(p, END_MS));
    return p->grpc_status;
}

/* No memory is taken for what a prefix promises, and the connection goes on. */
TEST(lying_grpc_frames)
{
    static const struct {
        const char *body;
        int code;
        bool is_end;
    } cases[] = {
        {"00ffffffff", EXHAUSTED, true},           /* 4 GiB, and nothing comes */
        {"00fffffff00a0161", EXHAUSTED, true},     /* and three bytes come */
        {"0000ffffff0a0161", INTERNAL, true},      /* 16 MiB - 1: cut short */
        {"0100000003120161", UNIMPLEMENTED, true}, /* compressed */
        {"0100000003120161", UNIMPLEMENTED, false},
        {"ff00000003120161", INTERNAL, true},                 /* flags that do not exist */
        {"00000000030a01610000000003120162", INTERNAL, true}, /* two messages */
        {"0000", INTERNAL, true},                             /* half a prefix */
        {"", INTERNAL, true},                                 /* none */
    };
    enum { CASES_N = sizeof cases / sizeof cases[0], ROUNDS_N = 500 };
    struct peer p;

    attack_begin("lying gRPC frames", NULL);
    peer_greet(&p, 0);
    for (int round = 0; round < ROUNDS_N; round++) {
        for (size_t i = 0; i < CASES_N; i++) {
            test_note("lying gRPC frames: %s", cases[i].body);
            EXPECT_EQ(cases[i].code, call_with_body(&p, cases[i].body, cases[i].is_end));
        }
        put_frame_u32(&p.out, NGHTTP2_WINDOW_UPDATE, 0, 10000);
    }
    EXPECT_EQ(0, peer_call(&p, "Hello", BYTES_NONE));
    EXPECT_EQ(2 * ROUNDS_N, target_counter("messages_too_large"));
    EXPECT_EQ(7 * ROUNDS_N, target_counter("messages_malformed"));
    peer_close(&p);
    attack_measure(2 * CASES_N * ROUNDS_N, (struct attack_bounds){.cpu_ns_max = 3 * NS_PER_S});
    attack_end();
}

/* ---- protobuf ---- */

/* A field with this content around what is there. */
static void wrap(struct buffer *b, uint8_t tag)
{
    struct buffer outer;

    buffer_init(&outer, mem_process());
    buffer_u8(&outer, tag);
    buffer_bytes(&outer, buffer_view(b));
    buffer_release(b);
    *b = outer;
}

/* So many levels of two fields in turn, each inside the other; the innermost is empty. Written from
 * the inside out, so that lengths are known, and then turned around. */
static void put_nested(struct buffer *b, uint8_t outer_tag, uint8_t inner_tag, unsigned levels)
{
    static uint8_t reversed[256 * 1024];
    size_t n = 0;

    for (unsigned i = 0; i < levels; i++) {
        uint8_t length[10];
        size_t length_n = 0;
        size_t value = n;
        do {
            length[length_n++] = (uint8_t)((value & 127) | (value > 127 ? 128 : 0));
            value >>= 7;
        } while (value > 0);
        while (length_n > 0) reversed[n++] = length[--length_n];
        reversed[n++] = i % 2 == 0 ? inner_tag : outer_tag;
    }
    while (n > 0) buffer_u8(b, reversed[--n]);
}

static void put_repeated(struct buffer *b, struct bytes piece, size_t size)
{
    while (b->len + piece.len <= size) buffer_append_bytes(b, piece);
}

#define LEVELS_N 10000
#define SLOW_MS 100 /* worth a line */
#define LARGE_SIZE (15 * 1024 * 1024)

enum bomb { DEEP, DEEP_PROPERTIES, REPEATED, LONG_VARINT, LONG_TAG, BAD_UTF8, SAME_KEYS, BOMBS_N };

static const char *put_bomb(struct buffer *b, enum bomb bomb)
{
    buffer_clear(b);
    switch (bomb) {
    case DEEP: put_nested(b, 0x22, 0x22, LEVELS_N); return "failures inside of failures";
    case DEEP_PROPERTIES: /* Value.list_value and ListValue.values, in a property of a failure */
        put_nested(b, 0x32, 0x0a, LEVELS_N);
        wrap(b, 0x12);
        wrap(b, 0x32);
        wrap(b, 0x22);
        return "values inside of values";
    case REPEATED: put_repeated(b, BYTES_LITERAL("\x12\x00"), LARGE_SIZE); return "many empties";
    case LONG_VARINT:
        buffer_append_bytes(b, test_hex("08ffffffffffffffffffffff01"));
        return "a number of twelve bytes";
    case LONG_TAG:
        buffer_append_bytes(b, test_hex("ffffffffffffffffffffff01"));
        return "a tag of twelve bytes";
    case BAD_UTF8: buffer_append_bytes(b, test_hex("0a03eda080")); return "half a surrogate";
    case SAME_KEYS:
        put_repeated(b, BYTES_LITERAL("\x42\x06\x0a\x01k\x12\x01v"), 512 * 1024);
        return "one key many times";
    case BOMBS_N: break;
    }
    return "";
}

/* Every bomb to every call: whatever it says, it is answered soon, and nothing is left of it. Bombs
 * that the type of the call knows are refused. */
TEST(protobuf_bombs)
{
    struct buffer bomb;
    struct peer p;
    uint64_t calls_n = 0;

    attack_begin("protobuf bombs", NULL);
    buffer_init(&bomb, mem_process());
    peer_greet(&p, 0);
    for (int kind = 0; kind < BOMBS_N; kind++) {
        const char *name = put_bomb(&bomb, (enum bomb)kind);
        for (size_t i = 0; i < sizeof rpcs / sizeof rpcs[0]; i++) {
            test_note("%s to %s", name, rpcs[i]);
            int64_t begun_ns = clock_mono_ns();
            int code = peer_call(&p, rpcs[i], buffer_view(&bomb));
            EXPECT(code != NO_STATUS);
            int64_t took_ms = (clock_mono_ns() - begun_ns) / NS_PER_MS;
            if (took_ms >= SLOW_MS)
                printf("# %s to %s: code %d in %lld ms\n", name, rpcs[i], code, (long long)took_ms);
            EXPECT(clock_mono_ns() - begun_ns < (IS_SANITIZED ? 10 : 2) * NS_PER_S);
            /* Malformed for everybody, whether the field is known or not. */
            bool is_malformed = kind == LONG_VARINT || kind == LONG_TAG;
            if (is_malformed) EXPECT_EQ(INVALID, code);
            put_frame_u32(&p.out, NGHTTP2_WINDOW_UPDATE, 0, 65535);
            calls_n++;
        }
    }
    test_note("%s", "");
    put_bomb(&bomb, DEEP);
    int code = peer_call(&p, "CompleteActivityTask", buffer_view(&bomb));
    EXPECT(code == INVALID || code == EXHAUSTED);
    put_bomb(&bomb, DEEP_PROPERTIES);
    code = peer_call(&p, "CompleteActivityTask", buffer_view(&bomb));
    EXPECT(code == INVALID || code == EXHAUSTED);
    put_bomb(&bomb, BAD_UTF8);
    EXPECT_EQ(INVALID, peer_call(&p, "StartInstance", buffer_view(&bomb)));
    EXPECT_EQ(INVALID, peer_call(&p, "RaiseEvent", buffer_view(&bomb)));
    put_bomb(&bomb, REPEATED); /* seven million actions */
    code = peer_call(&p, "CompleteOrchestratorTask", buffer_view(&bomb));
    EXPECT(code == INVALID || code == EXHAUSTED);
    EXPECT_EQ(0, peer_call(&p, "Hello", BYTES_NONE));
    peer_close(&p);
    buffer_release(&bomb);
    attack_measure(calls_n,
                   (struct attack_bounds){.rss_max = INT64_C(64) * 1048576 * (IS_SANITIZED ? 4 : 1),
                                          .cpu_ns_max = 5 * NS_PER_S});
    attack_end();
}

/* A map with the same key many times is a map with one entry: the last counts. */
TEST(equal_map_keys)
{
    struct buffer message;
    struct peer p;

    attack_begin("equal map keys", NULL);
    buffer_init(&message, mem_process());
    buffer_append_bytes(&message, BYTES_LITERAL("\x0a\x01i\x12\x01n"));
    put_repeated(&message, BYTES_LITERAL("\x42\x06\x0a\x01k\x12\x01v"), 4000);
    peer_greet(&p, 0);
    int code = peer_call(&p, "StartInstance", buffer_view(&message));
    EXPECT(code == GRPC_OK_CODE || code == INVALID || code == EXHAUSTED);
    printf("# 500 entries with one key: code %d\n", code);
    EXPECT_EQ(0, peer_call(&p, "GetInstance", BYTES_LITERAL("\x0a\x01i")));
    peer_close(&p);
    buffer_release(&message);
    attack_measure(4, (struct attack_bounds){0});
    attack_end();
}
