/* SPDX-License-Identifier: Apache-2.0 */
#include "base/bytes.h"

#include "base/mem.h"
#include "base/rng.h"
#include "test/lib/test.h"

#include <stdio.h>

/* Listings are in this order, and pages continue by it: it must be total and by unsigned value. */
TEST(compare_orders_by_value_then_length)
{
    const struct bytes ordered[] = {
        BYTES_NONE,
        BYTES_LITERAL("\0"),
        BYTES_LITERAL("\0\0"),
        BYTES_LITERAL("a"),
        BYTES_LITERAL("ab"),
        BYTES_LITERAL("b"),
        BYTES_LITERAL("\x7f"),
        BYTES_LITERAL("\x80"),
        BYTES_LITERAL("\xff"),
    };

    for (int i = 0; i < 9; i++) {
        for (int k = 0; k < 9; k++) {
            int order = bytes_compare(ordered[i], ordered[k]);
            test_note("%d and %d", i, k);
            EXPECT_EQ((i > k) - (i < k), (order > 0) - (order < 0));
            EXPECT_EQ(i == k, bytes_equal(ordered[i], ordered[k]));
        }
    }
}

/* Filters by prefix: everything starts with nothing, and nothing starts with more than itself. */
TEST(start_with)
{
    EXPECT(bytes_start_with(BYTES_LITERAL("order-1"), BYTES_LITERAL("order")));
    EXPECT(bytes_start_with(BYTES_LITERAL("order"), BYTES_LITERAL("order")));
    EXPECT(bytes_start_with(BYTES_LITERAL("order"), BYTES_NONE));
    EXPECT(bytes_start_with(BYTES_NONE, BYTES_NONE));
    EXPECT(!bytes_start_with(BYTES_LITERAL("orde"), BYTES_LITERAL("order")));
    EXPECT(!bytes_start_with(BYTES_LITERAL("Order-1"), BYTES_LITERAL("order")));
    EXPECT(!bytes_start_with(BYTES_NONE, BYTES_LITERAL("o")));
}

/* These values decide in which partition an instance lies on disk. If this test fails, the hash is
 * wrong, not the test. */
TEST(hash_is_the_same_for_ever)
{
    EXPECT_EQ(UINT64_C(0xaaafd869a0d3b605), bytes_hash(BYTES_LITERAL("")));
    EXPECT_EQ(UINT64_C(0x13af998a5925c34a), bytes_hash(BYTES_LITERAL("a")));
    EXPECT_EQ(UINT64_C(0xc03ef1209118d57d), bytes_hash(BYTES_LITERAL("abc")));
    EXPECT_EQ(UINT64_C(0x43459e2655994c31), bytes_hash(BYTES_LITERAL("order-1")));
    EXPECT_EQ(UINT64_C(0x782616ce07439418), bytes_hash(BYTES_LITERAL("order-2")));
    EXPECT_EQ(UINT64_C(0xcd3ca30a864d45a4), bytes_hash(BYTES_LITERAL("12345678")));
    EXPECT_EQ(UINT64_C(0x17d59d80ce99667c), bytes_hash(BYTES_LITERAL("123456789")));
    EXPECT_EQ(UINT64_C(0x303c140fb3e2379d),
              bytes_hash(
                  BYTES_LITERAL("The three Norns know what has been, what is and what shall be.")));
    EXPECT_EQ(bytes_hash(BYTES_LITERAL("")), bytes_hash(BYTES_NONE));
}

/* Every bit of a key must change every bit of the hash in about half of all cases; otherwise
 * keys that differ in one digit meet in one partition. */
TEST(hash_spreads_every_bit)
{
    enum { KEYS_N = 400, LEN = 21 };
    struct rng r;

    rng_init(&r, 1);
    for (size_t bit = 0; bit < LEN * 8; bit++) {
        unsigned changed_n[64] = {0};
        for (int i = 0; i < KEYS_N; i++) {
            uint8_t key[LEN];
            rng_fill(&r, key, LEN);
            uint64_t before = bytes_hash(bytes_make(key, LEN));
            key[bit / 8] ^= (uint8_t)(1U << bit % 8);
            uint64_t changed = before ^ bytes_hash(bytes_make(key, LEN));
            for (unsigned out = 0; out < 64; out++) {
                changed_n[out] += (unsigned)(changed >> out) & 1;
            }
        }
        for (unsigned out = 0; out < 64; out++) {
            test_note("key bit %zu, hash bit %u: %u of 400", bit, out, changed_n[out]);
            EXPECT(changed_n[out] > 145); /* five and a half standard deviations */
            EXPECT(changed_n[out] < 255);
        }
    }
}

/* Ids that people choose, counted up, must fill 32 partitions evenly (10,000 in each: ± 5
 * sigma). */
TEST(hash_spreads_counted_names_over_partitions)
{
    unsigned seen[32] = {0};

    for (unsigned i = 0; i < 320000; i++) {
        char name[24];
        int len = snprintf(name, sizeof name, "order-%u", i);
        seen[bytes_hash(bytes_make(name, (size_t)len)) % 32]++;
    }
    for (unsigned i = 0; i < 32; i++) {
        test_note("partition %u has %u", i, seen[i]);
        EXPECT(seen[i] > 9500);
        EXPECT(seen[i] < 10500);
    }
}

/* Zeros at the end count, and no length is taken for another. */
TEST(hash_tells_lengths_apart)
{
    const uint8_t zeros[40] = {0};

    for (size_t a = 0; a < sizeof zeros; a++) {
        for (size_t b = 0; b < a; b++) {
            EXPECT(bytes_hash(bytes_make(zeros, a)) != bytes_hash(bytes_make(zeros, b)));
        }
    }
}

struct utf8_case {
    const char *hex;
    bool is_valid;
    const char *why;
};

static const struct utf8_case utf8_cases[] = {
    {"", true, "nothing"},
    {"00", true, "NUL is a character"},
    {"7f", true, "the last of one byte"},
    {"80", false, "a continuation alone"},
    {"bf", false, "a continuation alone"},
    {"c080", false, "NUL overlong"},
    {"c1bf", false, "7f overlong"},
    {"c280", true, "the first of two bytes"},
    {"dfbf", true, "the last of two bytes"},
    {"c2", false, "cut off"},
    {"c241", false, "no continuation"},
    {"c2c0", false, "no continuation"},
    {"e0a080", true, "the first of three bytes"},
    {"e09fbf", false, "overlong"},
    {"e0a0", false, "cut off"},
    {"ecbfbf", true, "before the surrogates' row"},
    {"ed9fbf", true, "U+D7FF, the last before the surrogates"},
    {"eda080", false, "U+D800, the first surrogate"},
    {"edbfbf", false, "U+DFFF, the last surrogate"},
    {"ee8080", true, "U+E000, the first after the surrogates"},
    {"efbfbf", true, "the last of three bytes"},
    {"e28241", false, "third byte no continuation"},
    {"e282ac", true, "the euro sign"},
    {"f0908080", true, "the first of four bytes"},
    {"f08fbfbf", false, "overlong"},
    {"f09080", false, "cut off"},
    {"f48fbfbf", true, "U+10FFFF, the last of all"},
    {"f4908080", false, "U+110000"},
    {"f5808080", false, "no such first byte"},
    {"ff", false, "no such byte"},
    {"fe", false, "no such byte"},
    {"f09f8c80", true, "a cyclone"},
    {"f09f8c41", false, "fourth byte no continuation"},
    {"f09f4180", false, "third byte no continuation"},
};

/* Names travel to SDKs that refuse malformed text: all the edges, alone and at each place in
 * text. */
TEST(utf8_is_well_formed_or_refused)
{
    for (size_t i = 0; i < sizeof utf8_cases / sizeof utf8_cases[0]; i++) {
        const struct utf8_case *c = &utf8_cases[i];
        struct bytes b = test_hex(c->hex);

        for (size_t before = 0; before <= 17; before++) {
            uint8_t text[40];
            memset(text, 'x', sizeof text);
            if (b.len > 0) memcpy(text + before, b.ptr, b.len);
            test_note("%s: %s, after %zu bytes", c->hex, c->why, before);
            EXPECT_EQ(c->is_valid, bytes_is_utf8(bytes_make(text, before + b.len)));
            EXPECT_EQ(c->is_valid, bytes_is_utf8(bytes_make(text, before + b.len + 9)));
        }
        size_t size = b.len == 0 || !c->is_valid ? 0 : b.len;
        EXPECT_EQ(size, bytes_character_size(b));
    }
    EXPECT(bytes_is_utf8(BYTES_NONE));
}

/* What is written is what is read, and the layout on disk is little endian. */
TEST(a_reader_reads_what_a_buffer_wrote)
{
    struct mem mem;
    struct buffer b;

    mem_init(&mem, SIZE_MAX);
    buffer_init(&b, &mem);
    buffer_u8(&b, 0x01);
    buffer_u32(&b, 0x05040302);
    buffer_u64(&b, UINT64_C(0x0d0c0b0a09080706));
    buffer_varint(&b, 300);
    buffer_bytes(&b, BYTES_LITERAL("abc"));
    buffer_bytes(&b, BYTES_NONE);
    buffer_append(&b, NULL, 0);
    buffer_append_bytes(&b, BYTES_LITERAL("z"));
    EXPECT(!b.failed);
    EXPECT_BYTES(test_hex("0102030405060708090a0b0c0dac0203616263007a"), buffer_view(&b));

    struct reader r = reader_make(buffer_view(&b));
    EXPECT_EQ(0x01, reader_u8(&r));
    EXPECT_EQ(0x05040302, reader_u32(&r));
    EXPECT_EQ(INT64_C(0x0d0c0b0a09080706), reader_u64(&r));
    EXPECT_EQ(300, reader_varint(&r));
    EXPECT_BYTES(BYTES_LITERAL("abc"), reader_bytes(&r));
    EXPECT_BYTES(BYTES_NONE, reader_bytes(&r));
    EXPECT(!reader_is_done(&r));
    EXPECT_EQ(1, reader_left(&r));
    EXPECT_BYTES(BYTES_LITERAL("z"), reader_take(&r, 1));
    EXPECT(reader_is_done(&r));
    buffer_release(&b);
    mem_release(&mem);
}

/* At every number of bits a varint has the size it says, and comes back. */
TEST(varints_of_every_size)
{
    struct buffer b;

    buffer_init(&b, mem_process());
    for (unsigned bits = 0; bits <= 64; bits++) {
        uint64_t value = bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
        test_note("%u bits", bits);
        buffer_clear(&b);
        buffer_varint(&b, value);
        EXPECT_EQ(b.len, varint_size(value));
        EXPECT_EQ(bits == 0 ? 1 : (bits + 6) / 7, b.len);
        struct reader r = reader_make(buffer_view(&b));
        EXPECT_EQ(value, reader_varint(&r));
        EXPECT(reader_is_done(&r));
    }
    buffer_release(&b);
}

/* Damaged or hostile bytes: too long for 64 bits, not the shortest, or cut off. */
TEST(bad_varints_are_refused)
{
    const char *bad[] = {
        "",
        "80",
        "8000",
        "ff00",
        "80808000",
        "ffffffffffffffffff02",
        "ffffffffffffffffffff",
        "ffffffffffffffffff8101",
        "808080808080808080808001",
    };

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct reader r = reader_make(test_hex(bad[i]));
        test_note("%s", bad[i]);
        EXPECT_EQ(0, reader_varint(&r));
        EXPECT(r.failed);
        EXPECT(!reader_is_done(&r));
    }
}

/* A reader is checked once at the end: after a failure nothing more is read, and loops end. */
TEST(a_failed_reader_stays_failed_at_the_end)
{
    struct reader r = reader_make(BYTES_LITERAL("\x05"
                                                "abcd\x01\x02\x03\x04\x05\x06\x07\x08"));

    (void)reader_take(&r, 10);
    EXPECT_EQ(0, reader_u32(&r)); /* three bytes are left */
    EXPECT(r.failed);
    EXPECT_EQ(0, reader_left(&r));
    EXPECT_EQ(0, reader_u8(&r));
    EXPECT_EQ(0, reader_u64(&r));
    EXPECT_EQ(0, reader_varint(&r));
    EXPECT_EQ(0, reader_bytes(&r).len);
    EXPECT(!reader_is_done(&r));

    r = reader_make(BYTES_LITERAL("\x05"
                                  "abcd")); /* says five, has four */
    EXPECT(reader_bytes(&r).ptr == NULL);
    EXPECT(r.failed);
    r = reader_make(test_hex("ffffffffffffffffff01")); /* a length near 2^64 must not wrap */
    EXPECT(reader_bytes(&r).ptr == NULL);
    EXPECT(r.failed);
    r = reader_make(BYTES_NONE);
    EXPECT(reader_is_done(&r));
    EXPECT_EQ(0, reader_u8(&r));
    EXPECT(r.failed);
}

/* The nth growth fails: the buffer says so, ignores what follows, keeps its start, and leaks
 * nothing. */
TEST(a_buffer_without_memory_remembers_it)
{
    for (uint64_t fail_at = 1; fail_at <= 5; fail_at++) {
        struct mem mem;
        struct buffer b;

        test_note("fail_at %u", (unsigned)fail_at);
        mem_init(&mem, SIZE_MAX);
        mem.fail_at = fail_at;
        buffer_init(&b, &mem);
        for (unsigned i = 0; i < 2000; i++) buffer_u8(&b, (uint8_t)i);
        EXPECT(b.failed);
        EXPECT(b.len < 2000);
        EXPECT(!buffer_reserve(&b, 1));
        for (size_t i = 0; i < b.len; i++) EXPECT_EQ((uint8_t)i, b.ptr[i]);
        buffer_clear(&b);
        buffer_u8(&b, 7);
        EXPECT(!b.failed);
        EXPECT_BYTES(BYTES_LITERAL("\7"), buffer_view(&b));
        buffer_release(&b);
        EXPECT_EQ(0, mem.used);
        mem_release(&mem);
    }
}

/* A length that cannot be is a failure and not a small allocation by overflow. */
TEST(a_buffer_refuses_impossible_sizes)
{
    struct buffer b;

    buffer_init(&b, mem_process());
    buffer_u8(&b, 1);
    EXPECT(!buffer_reserve(&b, SIZE_MAX));
    EXPECT(b.failed);
    buffer_release(&b);
}

/* Room that was reserved is there: appends into it take no memory. */
TEST(reserved_room_needs_no_memory)
{
    struct mem mem;
    struct buffer b;

    mem_init(&mem, SIZE_MAX);
    buffer_init(&b, &mem);
    EXPECT(buffer_reserve(&b, 1000));
    mem.fail_at = 1;
    for (int i = 0; i < 1000; i++) buffer_u8(&b, 1);
    EXPECT(!b.failed);
    buffer_clear(&b);
    for (int i = 0; i < 1000; i++) buffer_u8(&b, 2);
    EXPECT(!b.failed);
    EXPECT_EQ(1, mem.fail_at);
    buffer_release(&b);
    mem_release(&mem);
}

/* Signed numbers come back exactly, at their ends too, and small negative ones take one byte. */
TEST(signed_numbers_come_back)
{
    static const int64_t values[] = {0, -1, 1, -64, 63, INT64_MIN, INT64_MAX};
    struct buffer b;

    buffer_init(&b, mem_process());
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        buffer_clear(&b);
        buffer_signed(&b, values[i]);
        struct reader r = reader_make(buffer_view(&b));
        EXPECT_EQ(values[i], reader_signed(&r));
        EXPECT(reader_is_done(&r));
        if (i < 5) EXPECT_EQ(1, b.len);
    }
    buffer_release(&b);
}

/* A long number is written as a word where there is room for one, and byte by byte where there is
 * not: what is read must be the same, and what stood behind it before does not count. */
TEST(numbers_of_every_length_are_written_the_same_with_and_without_room)
{
    struct mem mem;
    mem_init(&mem, SIZE_MAX);
    for (unsigned bits = 0; bits < 64; bits++) {
        for (int n = -1; n <= 1; n++) {
            uint64_t value = (UINT64_C(1) << bits) + (uint64_t)(int64_t)n;
            uint8_t slow[10];
            size_t size = 0;
            for (uint64_t left = value; size == 0 || left > 0; left >>= 7)
                slow[size++] = (uint8_t)((left & 0x7f) | (left >= 0x80 ? 0x80 : 0));
            for (size_t before = 0; before < 64; before++) { /* the first allocation has 64 bytes */
                struct buffer b;
                buffer_init(&b, &mem);
                for (size_t i = 0; i < before; i++) buffer_u8(&b, 0xff);
                buffer_varint(&b, value);
                EXPECT_EQ(before + size, b.len);
                EXPECT_BYTES(bytes_make(slow, size), bytes_make(b.ptr + before, size));
                buffer_release(&b);
            }
        }
    }
    mem_release(&mem);
}

/* Every byte counts, whatever the length. */
TEST(equal_compares_every_byte)
{
    uint8_t a[41], b[41];
    memset(a, 'x', sizeof a);
    memset(b, 'x', sizeof b);
    for (size_t len = 0; len <= 40; len++) {
        EXPECT(bytes_equal(bytes_make(a, len), bytes_make(b, len)));
        EXPECT(!bytes_equal(bytes_make(a, len), bytes_make(b, len + 1)));
        for (size_t at = 0; at <= 40; at++) {
            b[at] = 'y';
            EXPECT_EQ(at >= len, bytes_equal(bytes_make(a, len), bytes_make(b, len)));
            b[at] = 'x';
        }
    }
    EXPECT(bytes_equal(BYTES_NONE, bytes_make(a, 0)));
}
