/* SPDX-License-Identifier: Apache-2.0
 *
 * The JSON writer: exact text for every kind of value, and valid JSON from any bytes.
 */
#include "base/mem.h"
#include "test/lib/test.h"
#include "wire/json.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>

/* A writer and its buffer. */
struct page {
    struct buffer buffer;
    struct json json;
};

static struct json *page_init(struct page *p)
{
    buffer_init(&p->buffer, mem_process());
    json_init(&p->json, &p->buffer);
    return &p->json;
}

/* Compares what was written, which must be complete, and releases it. */
static void page_expect(struct page *p, const char *expected)
{
    EXPECT(p->json.is_done);
    EXPECT_BYTES(bytes_of_text(expected), buffer_view(&p->buffer));
    buffer_release(&p->buffer);
}

static void expect_string(struct bytes text, const char *expected)
{
    struct page p;

    json_bytes(page_init(&p), text);
    page_expect(&p, expected);
}

static void expect_double(double value, const char *expected)
{
    struct page p;

    json_double(page_init(&p), value);
    page_expect(&p, expected);
}

/* Commas stand between items and nowhere else, at every level. */
TEST(objects_and_arrays)
{
    struct page p;
    struct json *j = page_init(&p);

    json_object_begin(j);
    json_key(j, "a");
    json_int64(j, -1);
    json_key(j, "list");
    json_array_begin(j);
    json_uint64(j, 1);
    json_array_begin(j);
    json_array_end(j);
    json_object_begin(j);
    json_object_end(j);
    json_bool(j, true);
    json_bool(j, false);
    json_null(j);
    json_array_end(j);
    json_key_bytes(j, BYTES_LITERAL("o"));
    json_object_begin(j);
    json_key(j, "k");
    json_text(j, "v");
    json_object_end(j);
    json_key(j, "z");
    json_double(j, 20.5);
    json_object_end(j);
    page_expect(&p, "{\"a\":-1,\"list\":[1,[],{},true,false,null],\"o\":{\"k\":\"v\"},\"z\":20.5}");
}

/* A level that is opened again after it was closed starts without a comma. */
TEST(siblings_do_not_inherit_commas)
{
    struct page p;
    struct json *j = page_init(&p);

    json_array_begin(j);
    for (int i = 0; i < 3; i++) {
        json_array_begin(j);
        json_int64(j, i);
        json_int64(j, i);
        json_array_end(j);
    }
    json_array_end(j);
    page_expect(&p, "[[0,0],[1,1],[2,2]]");
}

/* The deepest nesting allowed. */
TEST(nests_to_the_limit)
{
    char expected[2 * JSON_DEPTH_MAX + 1] = {0};
    struct page p;
    struct json *j = page_init(&p);

    memset(expected, '[', JSON_DEPTH_MAX);
    memset(expected + JSON_DEPTH_MAX, ']', JSON_DEPTH_MAX);
    for (int i = 0; i < JSON_DEPTH_MAX; i++) json_array_begin(j);
    for (int i = 0; i < JSON_DEPTH_MAX; i++) json_array_end(j);
    page_expect(&p, expected);
}

/* What JSON demands is escaped, everything else is left as it is. */
TEST(escapes_what_it_must)
{
    expect_string(BYTES_NONE, "\"\"");
    expect_string(BYTES_LITERAL("plain"), "\"plain\"");
    expect_string(BYTES_LITERAL("\"q\"\\/"), "\"\\\"q\\\"\\\\/\"");
    expect_string(BYTES_LITERAL("\b\f\n\r\t"), "\"\\b\\f\\n\\r\\t\"");
    expect_string(BYTES_LITERAL("a\0b\x01\x1f\x7f"), "\"a\\u0000b\\u0001\\u001f\x7f\"");
    expect_string(BYTES_LITERAL("\nx\n"), "\"\\nx\\n\"");
}

/* Well-formed UTF-8 passes, at the edges of every length. */
TEST(keeps_utf8)
{
    const char *text = "\xc2\x80\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf"
                       "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf";
    struct page p;

    json_array_begin(page_init(&p));
    json_text(&p.json, text);
    json_array_end(&p.json);
    EXPECT_EQ(strlen(text) + 4, p.buffer.len);
    EXPECT(memcmp(p.buffer.ptr + 2, text, strlen(text)) == 0);
    buffer_release(&p.buffer);
}

#define FFFD "\xef\xbf\xbd"

/* Each maximal part of a broken sequence is one U+FFFD; what follows it is not swallowed. */
TEST(replaces_what_is_not_utf8)
{
    expect_string(BYTES_LITERAL("a\xffz"), "\"a" FFFD "z\"");
    expect_string(BYTES_LITERAL("\x80"), "\"" FFFD "\"");
    expect_string(BYTES_LITERAL("\xc0\x80"), "\"" FFFD FFFD "\"");          /* overlong */
    expect_string(BYTES_LITERAL("\xed\xa0\x80"), "\"" FFFD FFFD FFFD "\""); /* a surrogate */
    expect_string(BYTES_LITERAL("\xf4\x90\x80\x80"), "\"" FFFD FFFD FFFD FFFD "\"");
    expect_string(BYTES_LITERAL("\xe2\x82"), "\"" FFFD "\""); /* cut off at the end */
    expect_string(BYTES_LITERAL("\xe2\x82\""), "\"" FFFD "\\\"\"");
    expect_string(BYTES_LITERAL("\xf0\x9f\x98z"), "\"" FFFD "z\"");
    expect_string(BYTES_LITERAL("\xf0\x9f\xe2\x82\xac"), "\"" FFFD "\xe2\x82\xac\"");
}

/* Whatever three bytes a text has, the result is UTF-8 without control characters. */
TEST(any_bytes_give_valid_text)
{
    static const uint8_t edges[] = {0x00, 0x1f, 0x22, 0x5c, 0x7f, 0x80, 0x8f, 0x90,
                                    0x9f, 0xa0, 0xbf, 0xc0, 0xc1, 0xc2, 0xdf, 0xe0,
                                    0xed, 0xef, 0xf0, 0xf4, 0xf5, 0xff};
    const size_t n = sizeof edges;
    struct buffer b;

    buffer_init(&b, mem_process());
    for (size_t i = 0; i < n * n * n; i++) {
        const uint8_t text[3] = {edges[i % n], edges[i / n % n], edges[i / n / n]};
        struct json j;

        test_note("%02x %02x %02x", text[0], text[1], text[2]);
        buffer_clear(&b);
        json_init(&j, &b);
        json_bytes(&j, bytes_make(text, sizeof text));
        EXPECT(bytes_is_utf8(buffer_view(&b)));
        for (size_t k = 0; k < b.len; k++) EXPECT(b.ptr[k] >= 0x20);
    }
    buffer_release(&b);
}

/* Integers to their limits. */
TEST(integers)
{
    struct page p;
    struct json *j = page_init(&p);

    json_array_begin(j);
    json_int64(j, INT64_MIN);
    json_int64(j, INT64_MAX);
    json_int64(j, 0);
    json_uint64(j, UINT64_MAX);
    json_array_end(j);
    page_expect(&p, "[-9223372036854775808,9223372036854775807,0,18446744073709551615]");
}

/* As few digits as say the same number. */
TEST(doubles_are_short)
{
    expect_double(0, "0");
    expect_double(-0.0, "-0");
    expect_double(5, "5");
    expect_double(0.1, "0.1");
    expect_double(20.5, "20.5");
    expect_double(-1.25e-7, "-1.25e-07");
    expect_double(1e300, "1e+300");
    expect_double(0.1 + 0.2, "0.30000000000000004");
    expect_double(1.0 / 3, "0.3333333333333333");
    expect_double(9007199254740993.0, "9007199254740992");
    expect_double(DBL_MAX, "1.7976931348623157e+308");
    expect_double(INFINITY, "null");
    expect_double(-INFINITY, "null");
    expect_double(NAN, "null");
}

/* They read back to the same number, bit for bit. */
TEST(doubles_round_trip)
{
    static const double values[] = {DBL_MIN, 5e-324,         DBL_EPSILON,
                                    1e23,    123456.789e-50, 2.0 / 3,
                                    4.35,    1e15 + 0.3,     1700000000.123456};
    struct buffer b;

    buffer_init(&b, mem_process());
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        struct json j;

        buffer_clear(&b);
        json_init(&j, &b);
        json_double(&j, values[i]);
        buffer_u8(&b, 0);
        test_note("%s", (const char *)b.ptr);
        EXPECT(strtod((const char *)b.ptr, NULL) == values[i]);
    }
    buffer_release(&b);
}

/* A program that embeds us may have chosen a locale with a decimal comma. */
TEST(doubles_ignore_the_locale)
{
    static const char *const names[] = {"de_DE.UTF-8", "de_DE", "fr_FR.UTF-8", "pt_BR.UTF-8"};
    const char *found = NULL;

    for (size_t i = 0; found == NULL && i < sizeof names / sizeof names[0]; i++) {
        found = setlocale(LC_NUMERIC, names[i]);
    }
    if (found == NULL) test_skip("no locale with a decimal comma on this machine");
    struct page p;
    json_double(page_init(&p), 20.5);
    (void)setlocale(LC_NUMERIC, "C");
    page_expect(&p, "20.5");
}

/* Without memory the buffer says so, wherever it runs out. */
TEST(survives_every_failed_allocation)
{
    uint64_t n = 1;

    for (;; n++) {
        struct mem mem;
        struct buffer b;
        struct json j;

        EXPECT(n < 1000);
        mem_init(&mem, SIZE_MAX);
        mem.fail_at = n;
        buffer_init(&b, &mem);
        json_init(&j, &b);
        json_array_begin(&j);
        for (int i = 0; i < 200; i++) json_text(&j, "some \"text\" that grows the buffer");
        json_array_end(&j);
        const bool failed = b.failed;
        buffer_release(&b);
        mem_release(&mem);
        if (!failed) break;
    }
    EXPECT(n > 1);
}
