/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts that read texts: JSON, times, durations, percent escapes.
 */
#include "base/clock.h"
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
        char *copy = malloc(len > 0 ? len : 1); /* of exactly its size */
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

/* A duration counts back from now; what the calendar or the clock cannot hold is refused. */
TEST(a_time_may_be_told_as_so_long_ago)
{
    const int64_t now_ns = INT64_C(1794744000) * NS_PER_S;
    int64_t ns = 0;

    EXPECT(time_or_ago_read(BYTES_LITERAL("2026-11-15T12:00:00.5Z"), 0, &ns));
    EXPECT_EQ(now_ns + NS_PER_S / 2, ns);
    EXPECT(time_or_ago_read(BYTES_LITERAL("250ms"), now_ns, &ns));
    EXPECT_EQ(now_ns - 250 * NS_PER_MS, ns);
    EXPECT(time_or_ago_read(BYTES_LITERAL("7d"), now_ns, &ns));
    EXPECT_EQ(now_ns - 7 * 86400 * NS_PER_S, ns);
    EXPECT(!time_or_ago_read(BYTES_LITERAL("10"), now_ns, &ns));
    EXPECT(!time_or_ago_read(BYTES_LITERAL("now"), now_ns, &ns));
    EXPECT(!time_or_ago_read(BYTES_LITERAL("2026-11-15"), now_ns, &ns));
    EXPECT(!time_or_ago_read(BYTES_LITERAL("9999-12-31T00:00:00Z"), now_ns, &ns));
    EXPECT(!time_or_ago_read(BYTES_LITERAL("9223372036855ms"), now_ns, &ns));
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
