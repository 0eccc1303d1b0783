/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts that read texts: JSON, times, durations, percent escapes.
 */
#include "rest/scan.h"
#include "rest/state.h"
#include "test/lib/test.h"

#include <stdlib.h>

static const char *problem_of(const char *text)
{
    struct bytes raw;
    size_t offset;

    return json_check(bytes_of_text(text), &raw, &offset);
}

TEST(json_is_taken)
{
    static const char *const good[] = {
        "1",
        "-0",
        "0.5",
        "1e9",
        "1E+2",
        "12.5e-3",
        "true",
        "false",
        "null",
        "\"\"",
        "\"a\\n\\u00e4\"",
        "[]",
        "{}",
        " [ 1 , [ ] , { } ] ",
        "{\"a\":{\"b\":[1,2,{\"c\":null}]},\"d\":\"\"}",
        "[[[[[[]]]]]]",
        "\"\xc3\xa4\"",
        "[{},[],{\"a\":[]}]",
        "\"\\ud800\"",
    };

    for (size_t n = 0; n < sizeof good / sizeof good[0]; n++) {
        const char *problem = problem_of(good[n]);
        if (problem != NULL) EXPECT_TEXT(good[n], problem);
    }
}

/* As RFC 8259 has it, and no more: what is taken here goes to others as JSON. */
TEST(what_is_not_json_is_refused)
{
    static const char *const bad[] = {
        "",
        " ",
        "01",
        "-",
        "1.",
        ".5",
        "1e",
        "+1",
        "tru",
        "nul",
        "NaN",
        "\"",
        "\"\\\"",
        "\"\\x\"",
        "\"\\u12g4\"",
        "\"\\u12\"",
        "\"\n\"",
        "[",
        "]",
        "[1",
        "[1,]",
        "[,1]",
        "[1 2]",
        "{",
        "}",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{a:1}",
        "{\"a\":1]",
        "[1}",
        "1 2",
        "'a'",
        "\xff",
        "\"\xc0\x80\"",
        "{\"a\":1 \"b\":2}",
        "{1:2}",
        "[\"a\":1]",
        ("\xef\xbb\xbf"
         "1"),
        "/**/1",
    };

    for (size_t n = 0; n < sizeof bad / sizeof bad[0]; n++) {
        if (problem_of(bad[n]) == NULL) EXPECT_TEXT("refused", bad[n]);
    }
}

/* Every byte at every place of a long string: eight are looked at together. */
TEST(strings_end_where_they_should)
{
    for (size_t at = 0; at < 20; at++) {
        for (unsigned c = 0; c < 256; c++) {
            char text[32];
            struct bytes raw;
            size_t offset;
            memset(text, 'x', sizeof text);
            text[0] = '"';
            text[21] = '"';
            text[1 + at] = (char)c;
            bool is_right = c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
            const char *problem = json_check(bytes_make(text, 22), &raw, &offset);
            if (c == '\\') continue; /* an escape or not, by what follows */
            EXPECT_EQ(is_right, problem == NULL);
            if (!is_right) EXPECT_EQ(c == '"' ? at + 2 : at + 1, offset);
        }
    }
}

TEST(only_so_much_nesting_is_taken)
{
    char text[2 * SCAN_DEPTH_MAX + 3];

    memset(text, '[', SCAN_DEPTH_MAX);
    memset(text + SCAN_DEPTH_MAX, ']', SCAN_DEPTH_MAX);
    text[2 * SCAN_DEPTH_MAX] = '\0';
    EXPECT(problem_of(text) == NULL);
    memset(text, '[', SCAN_DEPTH_MAX + 1);
    memset(text + SCAN_DEPTH_MAX + 1, ']', SCAN_DEPTH_MAX + 1);
    text[2 * SCAN_DEPTH_MAX + 2] = '\0';
    EXPECT_TEXT("this is nested too deeply", problem_of(text));
}

/* Cut anywhere, or with any byte changed, nothing is read beyond the end: the sanitizers see it. */
TEST(damaged_texts_are_survived)
{
    static const char text[] = "{\"name\":\"a\\u00e4\",\"input\":[1.5e3,{\"x\":null}],\"tags\":{}}";
    static const struct body_field fields[] = {
        {"name", BODY_TEXT}, {"input", BODY_ANY}, {"tags", BODY_OBJECT}};
    struct body_value values[3];
    struct body_error error;
    struct arena arena;

    arena_init(&arena, mem_process(), 512);
    EXPECT(body_parse(bytes_of_text(text), &arena, fields, 3, values, &error));
    EXPECT_BYTES(bytes_of_text("[1.5e3,{\"x\":null}]"), values[1].raw);
    EXPECT_BYTES(bytes_of_text("a\xc3\xa4"), values[0].text);
    for (size_t len = 0; len < sizeof text - 1; len++) {
        char *copy = malloc(len + 1); /* of exactly its size */
        EXPECT(copy != NULL);
        memcpy(copy, text, len);
        EXPECT(!body_parse(bytes_make(copy, len), &arena, fields, 3, values, &error));
        for (unsigned c = 0; c < 256 && len > 0; c++) {
            copy[len - 1] = (char)c;
            (void)body_parse(bytes_make(copy, len), &arena, fields, 3, values, &error);
        }
        free(copy);
    }
    arena_release(&arena);
}

/* ---- times ---- */

static void expect_time(const char *text, int64_t seconds, int64_t nanos)
{
    int64_t ns = 0;

    EXPECT(time_read(bytes_of_text(text), &ns));
    EXPECT_EQ(seconds * 1000000000 + nanos, ns);
}

TEST(times_are_read_and_written)
{
    char text[TIME_TEXT_SIZE];

    expect_time("1970-01-01T00:00:00Z", 0, 0);
    expect_time("2026-11-15T12:00:00.123456789Z", 1794744000, 123456789);
    expect_time("2024-02-29T23:59:59.5z", 1709251199, 500000000);
    expect_time("2026-11-15T13:00:00+01:00", 1794744000, 0);
    expect_time("1969-12-31T23:59:59.25Z", -1, 250000000);
    expect_time("2026-11-15T12:00:00.1234567899Z", 1794744000, 123456789);
    EXPECT_BYTES(bytes_of_text("2026-11-15T12:00:00.123456789Z"),
                 bytes_make(text, time_text(INT64_C(1794744000123456789), text)));
    EXPECT_BYTES(bytes_of_text("2024-02-29T23:59:59.5Z"),
                 bytes_make(text, time_text(INT64_C(1709251199500000000), text)));
    EXPECT_BYTES(bytes_of_text("1969-12-31T23:59:59.25Z"),
                 bytes_make(text, time_text(-750000000, text)));
    for (int64_t day = -20000; day < 60000; day++) {
        int64_t ns = day * 86400 * 1000000000 + 1, back;
        EXPECT(time_read(bytes_make(text, time_text(ns, text)), &back));
        EXPECT_EQ(ns, back);
    }
}

TEST(what_is_not_a_time_is_refused)
{
    static const char *const bad[] = {
        "",
        "2026-11-15",
        "2026-11-15T12:00:00",
        "2026-13-15T12:00:00Z",
        "2026-02-29T12:00:00Z",
        "2026-11-15T24:00:00Z",
        "2026-11-15T12:60:00Z",
        "2026-11-15T12:00:00.Z",
        "2026-11-15T12:00:00+1:00",
        "2026-11-15T12:00:00Zx",
        "26-11-15T12:00:00Z",
        "now",
        "2026-11-15 12:00:00Z",
        "2026-00-15T12:00:00Z",
        "2026-11-00T12:00:00Z",
        "9999-12-31T00:00:00Z",
        "0001-01-01T00:00:00Z",
    };
    int64_t ns;

    for (size_t n = 0; n < sizeof bad / sizeof bad[0]; n++) {
        if (time_read(bytes_of_text(bad[n]), &ns)) EXPECT_TEXT("refused", bad[n]);
    }
}

TEST(durations_need_a_unit)
{
    int64_t ms = 0;

    EXPECT(duration_read_bytes(BYTES_LITERAL("250ms"), &ms) && ms == 250);
    EXPECT(duration_read_bytes(BYTES_LITERAL("10s"), &ms) && ms == 10000);
    EXPECT(duration_read_bytes(BYTES_LITERAL("7d"), &ms) && ms == 604800000);
    EXPECT(!duration_read_bytes(BYTES_LITERAL("10"), &ms));
    EXPECT(!duration_read_bytes(BYTES_LITERAL("s"), &ms));
    EXPECT(!duration_read_bytes(BYTES_LITERAL("1.5s"), &ms));
    EXPECT(!duration_read_bytes(BYTES_LITERAL("99999999999999999999s"), &ms));
    EXPECT(!duration_read_bytes(BYTES_LITERAL("999999999999999d"), &ms));
}

/* ---- escapes and names ---- */

TEST(escapes_of_urls_are_strict)
{
    static const char *const bad[] = {"%", "a%2", "%zz", "%00", "%ff", "a%", "\xff"};
    struct arena arena;
    struct bytes out;

    arena_init(&arena, mem_process(), 64);
    EXPECT(percent_decode(&arena, BYTES_LITERAL("a%2Fb%20%C3%A4"), false, &out));
    EXPECT_BYTES(bytes_of_text("a/b \xc3\xa4"), out);
    EXPECT(percent_decode(&arena, BYTES_LITERAL("a+b"), false, &out));
    EXPECT_BYTES(bytes_of_text("a+b"), out);
    EXPECT(percent_decode(&arena, BYTES_LITERAL("a+b%2b"), true, &out));
    EXPECT_BYTES(bytes_of_text("a b+"), out);
    for (size_t n = 0; n < sizeof bad / sizeof bad[0]; n++) {
        EXPECT(!percent_decode(&arena, bytes_of_text(bad[n]), false, &out));
    }
    arena_release(&arena);
}
