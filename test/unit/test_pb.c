/* SPDX-License-Identifier: Apache-2.0
 *
 * The hand-written protobuf reader and writer: exact bytes, and nothing accepted that is malformed.
 */
#include "base/mem.h"
#include "test/lib/test.h"
#include "wire/pb.h"

#include <sys/mman.h>

static struct bytes text(const char *t) { return bytes_of_text(t); }

/* The first field of the bytes; the test fails when there is none. */
static struct pb_field first_field(const char *hex)
{
    struct pb_reader r = pb_reader_make(test_hex(hex));
    struct pb_field field;

    EXPECT(pb_next(&r, &field));
    return field;
}

/* Reads everything; true when it was well-formed. */
static bool is_well_formed(struct bytes bytes)
{
    struct pb_reader r = pb_reader_make(bytes);
    struct pb_field field;

    while (pb_next(&r, &field)) {
        EXPECT(field.raw.len > 0);
    }
    EXPECT(!pb_next(&r, &field)); /* the end stays the end */
    return !r.failed;
}

/* All four wire types come out with number, value and raw bytes. */
TEST(reads_every_wire_type)
{
    struct pb_reader r = pb_reader_make(test_hex("0896011100000000000000401203616263"
                                                 "1d0100000080010a"));
    struct pb_field f;

    EXPECT(pb_next(&r, &f));
    EXPECT_EQ(1, f.number);
    EXPECT_EQ(PB_VARINT, f.wire);
    EXPECT_EQ(150, f.value);
    EXPECT_BYTES(test_hex("089601"), f.raw);

    EXPECT(pb_next(&r, &f));
    EXPECT_EQ(2, f.number);
    EXPECT_EQ(PB_I64, f.wire);
    EXPECT_EQ(0x4000000000000000, f.value);

    EXPECT(pb_next(&r, &f));
    EXPECT_EQ(2, f.number);
    EXPECT_EQ(PB_LEN, f.wire);
    EXPECT_BYTES(text("abc"), f.bytes);
    EXPECT_EQ(0, f.value);
    EXPECT_BYTES(test_hex("1203616263"), f.raw);

    EXPECT(pb_next(&r, &f));
    EXPECT_EQ(3, f.number);
    EXPECT_EQ(PB_I32, f.wire);
    EXPECT_EQ(1, f.value);
    EXPECT_EQ(0, f.bytes.len);

    EXPECT(pb_next(&r, &f));
    EXPECT_EQ(16, f.number);
    EXPECT_EQ(10, f.value);

    EXPECT(!pb_next(&r, &f));
    EXPECT(!r.failed);
}

/* No bytes are a valid message without fields. */
TEST(reads_the_empty_message) { EXPECT(is_well_formed(BYTES_NONE)); }

/* What a hostile peer can write is refused, and the reader stays at its end. */
TEST(refuses_malformed_bytes)
{
    static const char *const bad[] = {
        "08",                       /* a tag without its value */
        "0880",                     /* a varint that does not end */
        "08ffffffffffffffffff7f",   /* 10 bytes, but more than 64 bits */
        "088080808080808080808000", /* 11 bytes */
        "0a",                       /* no length */
        "0a0261",                   /* a length beyond the end */
        "0affffffff0f",             /* 4 GiB */
        "0a8080808008",             /* exactly 2 GiB */
        "0a81808080800061",         /* a length in 6 bytes */
        "09000000",                 /* 8 bytes announced */
        "0d0000",                   /* 4 bytes announced */
        "0b0c",                     /* a group */
        "0c",                       /* the end of one */
        "0e00",                     /* a wire type that is not assigned */
        "0f00",                     /* nor is this one */
        "0000",                     /* field number 0 */
        "80800000",                 /* the same, hidden in a longer tag */
        "80808080800000",           /* a tag in 6 bytes */
        "808080801000",             /* field number 2^29 */
    };

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        test_note("%s", bad[i]);
        EXPECT(!is_well_formed(test_hex(bad[i])));
    }
}

/* The limits themselves are still inside. */
TEST(accepts_the_limits)
{
    struct pb_field f = first_field("08ffffffffffffffffff01");
    EXPECT(f.value == UINT64_MAX);
    EXPECT_EQ(-1, pb_int32(&f));

    f = first_field("f8ffffff0f00"); /* field number 2^29-1 */
    EXPECT_EQ(PB_NUMBER_MAX, f.number);

    f = first_field("0a818080800061"); /* a length in 5 bytes */
    EXPECT_BYTES(text("a"), f.bytes);
}

/* 2 GiB are refused even where they are there: a length must fit the int of other parsers. */
TEST(refuses_a_length_of_2_gib)
{
    const size_t size = (size_t)3 << 30;
    uint8_t *huge = mmap(NULL, size, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (huge == MAP_FAILED) test_skip("no address space for 3 GiB");
    memcpy(huge, "\x0a\x80\x80\x80\x80\x08", 6); /* 2^31 */
    struct pb_reader r = pb_reader_make(bytes_make(huge, size));
    struct pb_field f;
    EXPECT(!pb_next(&r, &f));
    EXPECT(r.failed);

    memcpy(huge, "\x0a\xff\xff\xff\xff\x07", 6); /* one less */
    r = pb_reader_make(bytes_make(huge, size));
    EXPECT(pb_next(&r, &f));
    EXPECT_EQ(PB_LENGTH_MAX, f.bytes.len);
    (void)munmap(huge, size);
}

/* Every strict prefix of a message ends inside a field or between two: never a read past the end
 * (ASan watches), and in between it is malformed. */
TEST(every_prefix_is_safe)
{
    const struct bytes whole = test_hex("0801120c0880e2cfaa061080cab5ee0132120a0568656c6c6f1a090a07"
                                        "22546f6b796f22");
    const size_t boundaries[] = {0, 2, 16, 36};
    size_t next = 0;

    EXPECT_EQ(36, whole.len);
    for (size_t len = 0; len <= whole.len; len++) {
        test_note("prefix of %zu bytes", len);
        const bool is_boundary = len == boundaries[next];
        uint8_t copy[36];
        memcpy(copy + sizeof copy - len, whole.ptr, len); /* ends where the array ends */
        EXPECT_EQ(is_boundary, is_well_formed(bytes_make(copy + sizeof copy - len, len)));
        if (is_boundary) next++;
    }
    EXPECT_EQ(4, next);
}

/* Nested messages are read in place; what is no message cannot be entered. */
TEST(reads_nested_messages)
{
    struct pb_field f = first_field("1206080110021803");
    struct pb_reader r = pb_sub(&f);
    struct pb_field inner;
    uint64_t sum = 0;

    while (pb_next(&r, &inner)) sum += inner.number * inner.value;
    EXPECT(!r.failed);
    EXPECT_EQ(1 * 1 + 2 * 2 + 3 * 3, sum);

    f = first_field("0801");
    r = pb_sub(&f);
    EXPECT(r.failed);
    EXPECT(!pb_next(&r, &inner));
}

/* A packed field is a run of varints; a broken one fails. */
TEST(reads_packed_numbers)
{
    struct pb_field f = first_field("0a0400018001");
    struct pb_reader r = pb_sub(&f);
    uint64_t value;
    uint64_t sum = 0;

    while (pb_next_packed(&r, &value)) sum = sum * 1000 + value;
    EXPECT(!r.failed);
    EXPECT_EQ(1128, sum);

    f = first_field("0a0180");
    r = pb_sub(&f);
    EXPECT(!pb_next_packed(&r, &value));
    EXPECT(r.failed);
}

/* Absent, present and empty, present: the wrapper tells them apart in both directions. */
TEST(string_value_keeps_null_and_empty_apart)
{
    struct buffer b;
    struct bytes value = text("not touched");

    buffer_init(&b, mem_process());
    pb_put_string_value(&b, 3, text("ignored"), false);
    EXPECT_EQ(0, b.len);
    pb_put_string_value(&b, 3, BYTES_NONE, true);
    EXPECT_BYTES(test_hex("1a00"), buffer_view(&b));
    pb_put_string_value(&b, 3, text("ab"), true);
    EXPECT_BYTES(test_hex("1a001a040a026162"), buffer_view(&b));
    buffer_release(&b);

    struct pb_field f = first_field("0801");
    EXPECT(!pb_get_string_value(&f, &value)); /* no message */
    f = first_field("1a020801");
    EXPECT(!pb_get_string_value(&f, &value)); /* field 1 is no text */
    f = first_field("1a020a05");
    EXPECT(!pb_get_string_value(&f, &value)); /* malformed */
    EXPECT_BYTES(text("not touched"), value);
    f = first_field("1a00");
    EXPECT(pb_get_string_value(&f, &value));
    EXPECT_EQ(0, value.len);
    f = first_field("1a0610010a026162");
    EXPECT(pb_get_string_value(&f, &value)); /* an unknown field beside it does no harm */
    EXPECT_BYTES(text("ab"), value);
}

/* The length of a long wrapper has two bytes, at two levels. */
TEST(string_value_of_200_bytes)
{
    char long_text[201] = {0};
    struct buffer b;
    struct bytes value;
    struct pb_field f;

    memset(long_text, 'x', 200);
    buffer_init(&b, mem_process());
    pb_put_string_value(&b, 1, text(long_text), true);
    EXPECT_EQ(3 + 3 + 200, b.len);
    struct pb_reader r = pb_reader_make(buffer_view(&b));
    EXPECT(pb_next(&r, &f));
    EXPECT(pb_get_string_value(&f, &value));
    EXPECT_BYTES(text(long_text), value);
    buffer_release(&b);
}

/* Scalars as every other serializer writes them: plain zeros are absent, -1 has ten bytes. */
TEST(writes_scalars)
{
    struct buffer b;

    buffer_init(&b, mem_process());
    pb_put_varint(&b, 1, 0);
    pb_put_int32(&b, 1, -1);
    pb_put_int32(&b, 2, 300);
    pb_put_bytes(&b, 16, text("hi"));
    EXPECT_BYTES(test_hex("080008ffffffffffffffffff0110ac028201026869"), buffer_view(&b));

    buffer_clear(&b);
    pb_put_plain_varint(&b, 1, 0);
    pb_put_plain_int32(&b, 2, 0);
    pb_put_plain_bytes(&b, 3, BYTES_NONE);
    EXPECT_EQ(0, b.len);
    pb_put_plain_varint(&b, 1, 1);
    pb_put_plain_int32(&b, 2, INT32_MIN);
    pb_put_plain_bytes(&b, 3, text("x"));
    EXPECT_BYTES(test_hex("08011080808080f8ffffffff011a0178"), buffer_view(&b));
    buffer_release(&b);
}

/* The vector of the protocol, and times before 1970: nanos count forwards. */
TEST(timestamps_round_trip)
{
    static const struct {
        int64_t ns;
        const char *hex;
    } cases[] = {
        {1700000000500000000, "120c0880e2cfaa061080cab5ee01"},
        {0, "1200"},
        {1, "12021001"},
        {-1, "121108ffffffffffffffffff0110ff93ebdc03"},
        {-PB_NANOS_PER_SECOND, "120b08ffffffffffffffffff01"},
        {INT64_MAX, "120c0884fa85ae2210ffafcb9703"},
        {INT64_MIN, "121008fb85fad1ddffffffff011080e49f45"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct buffer b;
        int64_t seconds;
        int32_t nanos;

        test_note("%s", cases[i].hex);
        buffer_init(&b, mem_process());
        pb_put_timestamp(&b, 2, cases[i].ns);
        EXPECT_BYTES(test_hex(cases[i].hex), buffer_view(&b));
        const struct pb_field f = first_field(cases[i].hex);
        EXPECT(pb_get_timestamp(&f, &seconds, &nanos));
        EXPECT_EQ(cases[i].ns, pb_timestamp_ns(seconds, nanos));
        buffer_release(&b);
    }
}

/* The year 9999 stays in the far future and the year 1 in the past, instead of wrapping around. */
TEST(timestamps_beyond_the_range_saturate)
{
    EXPECT_EQ(INT64_MAX, pb_timestamp_ns(253402300799, 999999999));
    EXPECT_EQ(INT64_MAX, pb_timestamp_ns(9223372036, 854775808));
    EXPECT_EQ(INT64_MIN, pb_timestamp_ns(-62135596800, 0));
    EXPECT_EQ(INT64_MIN, pb_timestamp_ns(-9223372037, 145224191));
    EXPECT_EQ(INT64_MIN, pb_timestamp_ns(INT64_MIN, 0));
    EXPECT_EQ(INT64_MAX, pb_timestamp_ns(INT64_MAX, 999999999));
}

/* Nanos outside a second, or fields of the wrong type, are no timestamp. */
TEST(refuses_bad_timestamps)
{
    static const char *const bad[] = {
        "1206108094ebdc03", /* 1,000,000,000 */
        "120b10ffffffffffffffffff01", "12020a00", "1201", "0801",
    };
    int64_t seconds;
    int32_t nanos;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct pb_reader r = pb_reader_make(test_hex(bad[i]));
        struct pb_field f;

        test_note("%s", bad[i]);
        EXPECT(!pb_next(&r, &f) || !pb_get_timestamp(&f, &seconds, &nanos));
    }
}

/* A nested message of any length has the shortest length prefix, whatever the hint was. */
TEST(nesting_fills_in_the_length)
{
    static const size_t sizes[] = {0, 1, 125, 126, 127, 128, 129, 16383, 16384, 16385, 40000};
    static const size_t hints[] = {0, 127, 128, 16384, SIZE_MAX};
    static uint8_t payload[40000];

    for (size_t i = 0; i < sizeof payload; i++) payload[i] = (uint8_t)(i * 7);
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        for (size_t h = 0; h < sizeof hints / sizeof hints[0]; h++) {
            struct buffer nested;
            struct buffer flat;

            test_note("%zu bytes, hint %zu", sizes[s], hints[h]);
            buffer_init(&nested, mem_process());
            buffer_init(&flat, mem_process());
            pb_put_varint(&nested, 1, 5);
            const struct pb_mark mark = pb_begin(&nested, 2, hints[h]);
            buffer_append(&nested, payload, sizes[s]);
            pb_end(&nested, mark);
            pb_put_varint(&nested, 3, 6);

            pb_put_varint(&flat, 1, 5);
            pb_put_bytes(&flat, 2, bytes_make(payload, sizes[s]));
            pb_put_varint(&flat, 3, 6);
            EXPECT_BYTES(buffer_view(&flat), buffer_view(&nested));
            buffer_release(&nested);
            buffer_release(&flat);
        }
    }
}

/* A history event written by hand, two levels deep, is the protocol's own byte sequence. */
TEST(writes_a_history_event)
{
    struct buffer b;

    buffer_init(&b, mem_process());
    pb_put_plain_int32(&b, 1, -1);
    pb_put_timestamp_parts(&b, 2, 1700000000, 500000000);
    const struct pb_mark fired = pb_begin(&b, 13, 0);
    pb_put_timestamp_parts(&b, 1, 1700000001, 0);
    pb_put_plain_int32(&b, 2, 2);
    pb_end(&b, fired);
    EXPECT_BYTES(test_hex("08ffffffffffffffffff01120c0880e2cfaa061080cab5ee016a0a0a060881e2cfaa06"
                          "1002"),
                 buffer_view(&b));
    buffer_release(&b);
}

/* Each allocation in turn fails: the buffer says so, and nothing is written outside it. */
TEST(survives_every_failed_allocation)
{
    uint8_t payload[300] = {0};

    for (uint64_t n = 1;; n++) {
        struct mem mem;
        struct buffer b;

        test_note("allocation %d", (int)n);
        EXPECT(n < 100);
        mem_init(&mem, SIZE_MAX);
        mem.fail_at = n;
        mem.fail_forever = true;
        buffer_init(&b, &mem);
        const struct pb_mark outer = pb_begin(&b, 1, 0);
        const struct pb_mark inner = pb_begin(&b, 2, 0);
        pb_put_bytes(&b, 1, bytes_make(payload, sizeof payload));
        pb_put_timestamp(&b, 2, 1);
        pb_end(&b, inner);
        pb_end(&b, outer);
        const bool failed = b.failed;
        const size_t len = b.len;
        buffer_release(&b);
        mem_release(&mem);
        if (!failed) {
            EXPECT_EQ(3 + 3 + 3 + 300 + 4, len);
            EXPECT(n > 1);
            break;
        }
    }
}

/* Negative and positive numbers: what is written in one go is what the varint says. */
TEST(numbers_are_written_as_their_varint)
{
    struct mem mem;
    mem_init(&mem, SIZE_MAX);
    for (unsigned n = 0; n < 32; n++) {
        for (int32_t near = -2; near <= 2; near++) {
            for (int sign = -1; sign <= 1; sign += 2) {
                int32_t value = (int32_t)((uint32_t)sign * (UINT32_C(1) << n) + (uint32_t)near);
                struct buffer written, expected;
                buffer_init(&written, &mem);
                buffer_init(&expected, &mem);
                pb_put_int32(&written, 1, value);
                buffer_varint(&expected, 1 << 3 | PB_VARINT);
                buffer_varint(&expected, (uint64_t)(int64_t)value);
                EXPECT_BYTES(buffer_view(&expected), buffer_view(&written));
                buffer_release(&written);
                buffer_release(&expected);
            }
        }
    }
    mem_release(&mem);
}

/* Times whose parts have any number of bytes are written as nested varints, and read back. */
TEST(times_of_every_size)
{
    struct mem mem;
    mem_init(&mem, SIZE_MAX);
    for (unsigned s = 0; s < 63; s++) {
        for (unsigned n = 0; n <= 30; n++) {
            int64_t seconds = (INT64_C(1) << s) - (n % 2);
            int32_t nanos = n == 30 ? 999999999 : (INT32_C(1) << n) - (int32_t)(s % 2);
            struct buffer written, expected;
            buffer_init(&written, &mem);
            buffer_init(&expected, &mem);
            pb_put_timestamp_parts(&written, 17, seconds, nanos);
            const struct pb_mark m = pb_begin(&expected, 17, 0);
            pb_put_plain_varint(&expected, 1, (uint64_t)seconds);
            pb_put_plain_varint(&expected, 2, (uint64_t)nanos);
            pb_end(&expected, m);
            EXPECT_BYTES(buffer_view(&expected), buffer_view(&written));

            struct pb_reader r = pb_reader_make(buffer_view(&written));
            struct pb_field field;
            int64_t seconds_read = -1;
            int32_t nanos_read = -1;
            EXPECT(pb_next(&r, &field));
            EXPECT(pb_get_timestamp(&field, &seconds_read, &nanos_read));
            EXPECT_EQ(seconds, seconds_read);
            EXPECT_EQ(nanos, nanos_read);
            buffer_release(&written);
            buffer_release(&expected);
        }
    }
    mem_release(&mem);
}

/* A second of five bytes and nanos of five bytes that are too many: refused as all others. */
TEST(refuses_a_time_of_the_usual_size_with_too_many_nanos)
{
    const struct pb_field last = first_field("0a0c08808080800110ff93ebdc03");
    const struct pb_field beyond = first_field("0a0c088080808001108094ebdc03");
    int64_t seconds = 0;
    int32_t nanos = 0;

    EXPECT(pb_get_timestamp(&last, &seconds, &nanos));
    EXPECT_EQ(999999999, nanos);
    EXPECT_EQ(INT64_C(1) << 28, seconds);
    EXPECT(!pb_get_timestamp(&beyond, &seconds, &nanos));
}

/* Around the sizes where tags and lengths grow: written in one go it is what the pieces are. */
TEST(values_of_every_size_are_written_alike)
{
    static const uint32_t numbers[] = {1, 15, 16, 2047, 2048};
    static const size_t sizes[] = {0, 1, 2, 123, 124, 125, 126, 127, 128, 129, 300};
    uint8_t payload[300];
    struct mem mem;

    memset(payload, 'p', sizeof payload);
    mem_init(&mem, SIZE_MAX);
    for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++) {
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            const struct bytes value = bytes_make(payload, sizes[s]);
            struct buffer written, expected;
            buffer_init(&written, &mem);
            buffer_init(&expected, &mem);
            pb_put_bytes(&written, numbers[n], value);
            pb_put_string_value(&written, numbers[n], value, true);
            buffer_varint(&expected, (uint64_t)numbers[n] << 3 | PB_LEN);
            buffer_varint(&expected, value.len);
            buffer_append_bytes(&expected, value);
            const struct pb_mark m = pb_begin(&expected, numbers[n], 0);
            if (value.len > 0) {
                buffer_u8(&expected, 1 << 3 | PB_LEN);
                buffer_varint(&expected, value.len);
                buffer_append_bytes(&expected, value);
            }
            pb_end(&expected, m);
            EXPECT_BYTES(buffer_view(&expected), buffer_view(&written));

            struct pb_reader r = pb_reader_make(buffer_view(&written));
            struct pb_field field;
            struct bytes read = BYTES_NONE;
            EXPECT(pb_next(&r, &field));
            EXPECT(pb_next(&r, &field));
            EXPECT(pb_get_string_value(&field, &read));
            EXPECT_BYTES(value, read);
            buffer_release(&written);
            buffer_release(&expected);
        }
    }
    mem_release(&mem);
}

/* A StringValue may have more than its value, and that twice: the last one counts. */
TEST(string_value_with_more_than_its_value)
{
    const struct pb_field more = first_field("0a050a01611005");
    const struct pb_field twice = first_field("0a060a01610a0162");
    const struct pb_field cut = first_field("0a020a01");
    struct bytes value = BYTES_NONE;

    EXPECT(pb_get_string_value(&more, &value));
    EXPECT_BYTES(text("a"), value);
    EXPECT(pb_get_string_value(&twice, &value));
    EXPECT_BYTES(text("b"), value);
    EXPECT(!pb_get_string_value(&cut, &value));
}
