/* SPDX-License-Identifier: Apache-2.0
 *
 * The JSON reader: what the standard has is read, what it does not have is refused.
 */
#include "base/mem.h"
#include "base/text.h"
#include "test/lib/test.h"
#include "wire/json_read.h"

static struct json_reader reader_of(const char *text)
{
    return json_reader_make(bytes_of_text(text));
}

TEST(an_object_is_read_item_by_item)
{
    struct json_reader r = reader_of(" { \"a\" : 1 , \"b\":[true,false,null, -7 ], \"c\":{} } ");
    struct buffer key;
    int64_t number = 0;
    bool flag = false;
    buffer_init(&key, mem_process());
    EXPECT_EQ(JSON_OBJECT, json_peek(&r));
    EXPECT(json_read_begin(&r));
    EXPECT(json_read_item(&r));
    EXPECT(json_read_key(&r, &key));
    EXPECT_BYTES(BYTES_LITERAL("a"), buffer_view(&key));
    EXPECT(json_read_int64(&r, &number));
    EXPECT_EQ(1, number);
    EXPECT(json_read_item(&r));
    EXPECT(json_read_key(&r, &key));
    EXPECT_EQ(JSON_ARRAY, json_peek(&r));
    EXPECT(json_read_begin(&r));
    EXPECT(json_read_item(&r));
    EXPECT(json_read_bool(&r, &flag));
    EXPECT(flag);
    EXPECT(json_read_item(&r));
    EXPECT(json_read_bool(&r, &flag));
    EXPECT(!flag);
    EXPECT(json_read_item(&r));
    EXPECT(json_read_null(&r));
    EXPECT(json_read_item(&r));
    EXPECT(json_read_int64(&r, &number));
    EXPECT_EQ(-7, number);
    EXPECT(!json_read_item(&r));
    EXPECT(json_read_item(&r));
    EXPECT(json_read_key(&r, &key));
    EXPECT_BYTES(BYTES_LITERAL("c"), buffer_view(&key));
    EXPECT(json_read_begin(&r));
    EXPECT(!json_read_item(&r));
    EXPECT(!json_read_item(&r));
    EXPECT(!r.failed);
    EXPECT_EQ(0, r.depth);
    EXPECT_EQ(JSON_NONE, json_peek(&r));
    buffer_release(&key);
}

static void expect_string(const char *json, const char *expected)
{
    struct json_reader r = reader_of(json);
    struct buffer text;
    test_note("%s", json);
    buffer_init(&text, mem_process());
    bool is_read = json_read_string(&r, &text);
    EXPECT_EQ(expected != NULL, is_read);
    EXPECT_EQ(expected == NULL, r.failed);
    if (expected != NULL) EXPECT_BYTES(bytes_of_text(expected), buffer_view(&text));
    buffer_release(&text);
}

TEST(strings_are_unescaped)
{
    expect_string("\"\"", "");
    expect_string("\"a\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "a\"\\/\b\f\n\r\t");
    expect_string("\"\\u0041\\u00e9\\u20AC\"", "A\xc3\xa9\xe2\x82\xac");
    expect_string("\"\\ud83d\\ude00\"", "\xf0\x9f\x98\x80");
    expect_string("\"\xf0\x9f\x98\x80\"", "\xf0\x9f\x98\x80");
    expect_string("\"\\ud83d\"", NULL);
    expect_string("\"\\ude00\\ud83d\"", NULL);
    expect_string("\"\\ud83dx\"", NULL);
    expect_string("\"\\ud83d\\u0041\"", NULL);
    expect_string("\"\\u12\"", NULL);
    expect_string("\"\\u12g4\"", NULL);
    expect_string("\"\\x\"", NULL);
    expect_string("\"\\", NULL);
    expect_string("\"a", NULL);
    expect_string("\"a\nb\"", NULL);
    expect_string("\"\xff\"", NULL);
    expect_string("a", NULL);
}

static void expect_number(const char *json, bool is_whole, int64_t expected)
{
    struct json_reader r = reader_of(json);
    int64_t number = 0;
    test_note("%s", json);
    EXPECT_EQ(is_whole, json_read_int64(&r, &number));
    EXPECT_EQ(!is_whole, r.failed);
    EXPECT_EQ(expected, number);
}

TEST(whole_numbers_are_read_and_others_refused)
{
    expect_number("0", true, 0);
    expect_number("-0", true, 0);
    expect_number("9223372036854775807", true, INT64_MAX);
    expect_number("-9223372036854775808", true, INT64_MIN);
    expect_number("9223372036854775808", false, 0);
    expect_number("-9223372036854775809", false, 0);
    expect_number("01", false, 0);
    expect_number("-", false, 0);
    expect_number("+1", false, 0);
    expect_number("1.5", false, 0);
    expect_number("1e3", false, 0);
    expect_number("\"1\"", false, 0);
}

static void expect_skip(const char *json, bool is_whole, const char *rest)
{
    struct json_reader r = reader_of(json);
    test_note("%s", json);
    EXPECT_EQ(is_whole, json_skip(&r));
    EXPECT_EQ(!is_whole, r.failed);
    if (is_whole) EXPECT_BYTES(bytes_of_text(rest), bytes_make(r.at, (size_t)(r.end - r.at)));
}

TEST(any_value_is_skipped)
{
    expect_skip("1 2", true, " 2");
    expect_skip("-1.5e+10,", true, ",");
    expect_skip("\"a\\\"b\"x", true, "x");
    expect_skip("[[],[[1,{\"a\":[null]}]],{}] true", true, " true");
    expect_skip("{\"a\":{\"b\":\"}\"},\"c\":[false]}!", true, "!");
    expect_skip("", false, NULL);
    expect_skip("[1,]", false, NULL);
    expect_skip("[1 2]", false, NULL);
    expect_skip("{\"a\"}", false, NULL);
    expect_skip("{\"a\":1,}", false, NULL);
    expect_skip("{1:2}", false, NULL);
    expect_skip("[1", false, NULL);
    expect_skip("{\"a\":", false, NULL);
    expect_skip("\"a", false, NULL);
    expect_skip("1.", false, NULL);
    expect_skip("1e", false, NULL);
    expect_skip("01", false, NULL);
    expect_skip("-", false, NULL);
    expect_skip("nul", false, NULL);
    expect_skip("]", false, NULL);
}

/* Beyond 64 levels objects are told from arrays as well, and commas are minded. */
TEST(what_is_deep_is_read)
{
    struct buffer text;
    struct json_reader r;

    buffer_init(&text, mem_process());
    for (int n = 0; n < 100; n++) buffer_format(&text, "[1,{\"a\":2,\"b\":");
    buffer_format(&text, "[]");
    for (int n = 0; n < 100; n++) buffer_format(&text, "},3]");
    r = json_reader_make(buffer_view(&text));
    EXPECT(json_skip(&r));
    EXPECT(r.at == r.end);
    buffer_clear(&text);
    for (int n = 0; n < 100; n++) buffer_format(&text, "[");
    buffer_format(&text, "1 2");
    for (int n = 0; n < 100; n++) buffer_format(&text, "]");
    r = json_reader_make(buffer_view(&text));
    EXPECT(!json_skip(&r));
    buffer_release(&text);
}

/* Depth is bounded, so that who recurses with the reader is. */
TEST(too_deep_is_refused)
{
    char text[2 * JSON_READ_DEPTH_MAX + 3];
    struct json_reader r;
    memset(text, '[', JSON_READ_DEPTH_MAX);
    memset(text + JSON_READ_DEPTH_MAX, ']', JSON_READ_DEPTH_MAX);
    r = json_reader_make(bytes_make(text, 2 * JSON_READ_DEPTH_MAX));
    EXPECT(json_skip(&r));
    memset(text, '[', JSON_READ_DEPTH_MAX + 1);
    memset(text + JSON_READ_DEPTH_MAX + 1, ']', JSON_READ_DEPTH_MAX + 1);
    r = json_reader_make(bytes_make(text, 2 * JSON_READ_DEPTH_MAX + 2));
    EXPECT(!json_skip(&r));
}
