/* SPDX-License-Identifier: Apache-2.0
 *
 * Chunked bodies: what is understood, what is refused, and that it makes no difference in which
 * pieces the bytes come.
 */
#include "base/mem.h"
#include "net/h1_chunk.h"
#include "test/lib/test.h"

#include <stdio.h>

#define SIZE_MAX_OF_BODY 1000

struct outcome {
    unsigned refusal;
    bool is_done;
    size_t taken;
    size_t made;
    uint8_t body[64 * 1024];
};

/* In pieces of that size. */
static void read_in(struct bytes bytes, size_t piece_size, struct outcome *out)
{
    static uint8_t copy[64 * 1024];
    struct chunks chunks;

    *out = (struct outcome){0};
    EXPECT(bytes.len <= sizeof copy);
    memcpy(copy, bytes.ptr, bytes.len);
    chunks_init(&chunks, SIZE_MAX_OF_BODY);
    for (size_t at = 0; at < bytes.len && !chunks_are_done(&chunks);) {
        size_t n = bytes.len - at < piece_size ? bytes.len - at : piece_size;
        size_t taken = 0;
        size_t made = 0;
        enum http_refusal why = chunks_read(&chunks, copy + at, n, &taken, &made);
        out->refusal = why == REFUSAL_NONE ? 0 : http_refusal_status(why);
        if (out->refusal != 0) return;
        memcpy(out->body + out->made, copy + at, made);
        out->made += made;
        out->taken += taken;
        EXPECT(taken == n || chunks_are_done(&chunks));
        at += n;
    }
    out->is_done = chunks_are_done(&chunks);
}

/* In every size of pieces; they must not differ. */
static void read_all_ways(const char *text, struct outcome *whole)
{
    static struct outcome pieces;
    struct bytes bytes = bytes_of_text(text);

    read_in(bytes, bytes.len + 1, whole);
    for (size_t size = 1; size <= bytes.len; size++) {
        test_note("pieces of %zu bytes of %s", size, text);
        read_in(bytes, size, &pieces);
        EXPECT_EQ(whole->refusal, pieces.refusal);
        if (whole->refusal != 0) continue;
        EXPECT_EQ(whole->is_done, pieces.is_done);
        EXPECT_BYTES(bytes_make(whole->body, whole->made), bytes_make(pieces.body, pieces.made));
        if (size == 1) EXPECT_EQ(whole->taken, pieces.taken);
    }
}

TEST(chunks_become_a_body)
{
    static const struct {
        const char *text;
        const char *body;
        size_t left; /* behind the end */
    } cases[] = {
        {"0\r\n\r\n", "", 0},
        {"5\r\nhello\r\n0\r\n\r\n", "hello", 0},
        {"5\r\nhello\r\n1\r\n!\r\n0\r\n\r\nGET /", "hello!", 5},
        {"00000000000000a\r\n0123456789\r\n00\r\n\r\n", "0123456789", 0},
        {"A\r\n0123456789\r\n0\r\n\r\n", "0123456789", 0},
        {"2\r\n\r\n\r\n0\r\n\r\n", "\r\n", 0},
        {"1;a=b;c=\"d e\"\r\nx\r\n0;e\r\n\r\n", "x", 0},
        {"1;a=\"\\\"\\\\;\";b\r\nx\r\n0\r\n\r\n", "x", 0},
        {"1\r\nx\r\n0\r\nA: b\r\nContent-Length: 7\r\nC:\r\n\r\n", "x", 0},
    };
    static struct outcome out;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        test_note("case %zu", i);
        read_all_ways(cases[i].text, &out);
        EXPECT_EQ(0, out.refusal);
        EXPECT(out.is_done);
        EXPECT_BYTES(bytes_of_text(cases[i].body), bytes_make(out.body, out.made));
        EXPECT_EQ(strlen(cases[i].text) - cases[i].left, out.taken);
    }
}

/* Each of these is read differently by some reader that may stand in front of us. */
TEST(what_is_not_strictly_chunked_is_refused)
{
    static const struct {
        unsigned refusal;
        const char *text;
    } cases[] = {
        {400, "\r\n"},
        {400, ";a\r\n"},
        {400, "x\r\n"},
        {400, "0x5\r\n"},
        {400, "+5\r\n"},
        {400, "-5\r\n"},
        {400, " 5\r\n"},
        {400, "5 \r\n"},
        {400, "5 ;a\r\n"},
        {400, "5\t\r\n"},
        {400, "5\n"},
        {400, "5\r5"},
        {400, "5\r\r\n"},
        {400, "00000000000000005\r\n"},
        {400, "1\r\nxy\r\n"},
        {400, "1\r\nx\n"},
        {400, "1\r\nx\r1"},
        {400, "1\r\nx0\r\n"},
        {400, "1;a\n"},
        {400, "1;\x01\r\n"},
        {400, "1;a\rb\r\n"},
        {400, "1;\r\n"},
        {400, "1; a\r\n"},
        {400, "1;a b\r\n"},
        {400, "1;a=\r\n"},
        {400, "1;a==b\r\n"},
        {400, "1;a=b=c\r\n"},
        {400, "1;=b\r\n"},
        {400, "1;a;;b\r\n"},
        {400, "1;\"a\"\r\n"},
        {400, "1;a=\"b\r\n"},
        {400, "1;a=\"b\\\r\n"},
        {400, "1;a=\"b\"c\r\n"},
        {400, "0\r\nA : b\r\n"},
        {400, "0\r\n A: b\r\n"},
        {400, "0\r\nA: b\r\n c\r\n"},
        {400, "0\r\nA\r\n"},
        {400, "0\r\n: b\r\n"},
        {400, "0\r\nA: \x7f\r\n"},
        {400, "0\r\nA: b\n"},
        {400, "0\r\n\n"},
        {400, "0\r\n\rx"},
        {413, "3e9\r\n"},
        {413, "ffffffffffffffff\r\n"},
    };
    static struct outcome out;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        test_note("case %zu", i);
        read_all_ways(cases[i].text, &out);
        EXPECT_EQ(cases[i].refusal, out.refusal);
    }
}

static struct buffer text;

static void put(const char *part, size_t n)
{
    for (size_t i = 0; i < n; i++) buffer_append_bytes(&text, bytes_of_text(part));
}

/* What means nothing to us costs its sender more than us: all extensions of a body together. */
TEST(extensions_are_bounded)
{
    static struct outcome out;
    buffer_init(&text, mem_process());
    for (size_t more = 0; more < 2; more++) {
        buffer_clear(&text);
        put("1;", 1);
        put("a", CHUNK_EXTENSIONS_SIZE_MAX / 2 - 1);
        put("\r\nx\r\n1;", 1);
        put("a", CHUNK_EXTENSIONS_SIZE_MAX / 2 - 1 + more);
        put("\r\nx\r\n0\r\n\r\n", 1);
        read_in(buffer_view(&text), text.len, &out);
        EXPECT_EQ(more == 0 ? 0 : 400, out.refusal);
    }
    buffer_release(&text);
}

TEST(trailers_are_bounded)
{
    static struct outcome out;
    buffer_init(&text, mem_process());
    for (size_t more = 0; more < 2; more++) {
        buffer_clear(&text);
        put("0\r\n", 1);
        put("a:b\r\n", CHUNK_TRAILERS_SIZE_MAX / 4 + more);
        put("\r\n", 1);
        read_in(buffer_view(&text), text.len, &out);
        EXPECT_EQ(more == 0 ? 0 : 431, out.refusal);
    }
    buffer_release(&text);
}

/* The limit is that of the whole body, however it is cut. */
TEST(the_size_of_a_body_is_bounded)
{
    static struct outcome out;
    buffer_init(&text, mem_process());
    for (size_t more = 0; more < 2; more++) {
        buffer_clear(&text);
        put("1\r\nx\r\n", SIZE_MAX_OF_BODY + more);
        put("0\r\n\r\n", 1);
        read_in(buffer_view(&text), text.len, &out);
        EXPECT_EQ(more == 0 ? 0 : 413, out.refusal);
        if (more == 0) EXPECT_EQ(SIZE_MAX_OF_BODY, out.made);
    }
    buffer_release(&text);
}
