/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"
#include "cli/print.h"
#include "cli/value.h"
#include "test/lib/test.h"

static struct arena arena;

static struct value parse(const char *text)
{
    arena_release(&arena);
    arena_init(&arena, mem_process(), 256);
    return value_parse(bytes_of_text(text), NULL);
}

/* Payloads are the user's: they come out byte for byte, spaces and long numbers included. */
TEST(a_member_is_the_text_that_was_there)
{
    struct value v = parse(" {\"a\": {\"b\" : [1, 2.50,\"x\"]}, \"n\":12345678901234567890 } ");

    EXPECT_EQ(JSON_OBJECT, v.type);
    EXPECT_TEXT("[1, 2.50,\"x\"]", value_text(&arena, value_member(v, "a.b")));
    EXPECT_TEXT("12345678901234567890", member_text(&arena, v, "n"));
    EXPECT_EQ(JSON_NONE, value_member(v, "a.c").type);
    EXPECT_EQ(JSON_NONE, value_member(v, "n.x").type);
    EXPECT_EQ(3, value_count(value_member(v, "a.b")));
    arena_release(&arena);
}

TEST(a_string_is_its_text_and_null_is_nothing)
{
    struct value v = parse("{\"s\":\"a\\n\\u00e9\",\"z\":null,\"t\":true,\"f\":false,\"i\":-5}");

    EXPECT_TEXT("a\n\xc3\xa9", member_text(&arena, v, "s"));
    EXPECT_TEXT("", member_text(&arena, v, "z"));
    EXPECT_TEXT("", member_text(&arena, v, "absent"));
    EXPECT(member_is_true(v, "t"));
    EXPECT(!member_is_true(v, "f"));
    EXPECT_EQ(-5, member_int64(v, "i", 9));
    EXPECT_EQ(9, member_int64(v, "s", 9));
    arena_release(&arena);
}

/* The user is told where their JSON stops to be JSON. */
TEST(what_is_not_one_value_is_refused_with_its_place)
{
    static const struct {
        const char *text;
        size_t at;
    } bad[] = {{"", 0}, {"hello", 0}, {"{\"a\":}", 5}, {"1 2", 2}, {"[1,", 3}, {"{\"a\" 1}", 5}};
    size_t at;

    for (size_t n = 0; n < sizeof bad / sizeof bad[0]; n++) {
        test_note("%s", bad[n].text);
        at = 99;
        EXPECT_EQ(JSON_NONE, value_parse(bytes_of_text(bad[n].text), &at).type);
        EXPECT_EQ(bad[n].at, at);
    }
}

TEST(members_come_in_their_order)
{
    struct value v = parse("{\"b\":1,\"a\":[true],\"\":{}}");
    struct value_cursor cursor = value_begin(v);
    static const char *const keys[] = {"b", "a", ""};

    for (size_t n = 0; n < 3; n++) {
        EXPECT(value_next(&cursor, &arena));
        EXPECT_TEXT(keys[n], cursor.key);
    }
    EXPECT(!value_next(&cursor, &arena));
    EXPECT(!value_next(&cursor, &arena));
    cursor = value_begin(parse("7"));
    EXPECT(!value_next(&cursor, &arena));
    arena_release(&arena);
}

TEST(pretty_json_is_the_same_json)
{
    struct buffer out;

    buffer_init(&out, mem_process());
    json_pretty(&out, parse("{\"a\":[1,{\"b\":\"x\\ny\"}],\"e\":{},\"f\":[]}"), 0);
    buffer_u8(&out, '\0');
    EXPECT_TEXT("{\n  \"a\": [\n    1,\n    {\n      \"b\": \"x\\ny\"\n    }\n  ],\n"
                "  \"e\": {},\n  \"f\": []\n}",
                (const char *)out.ptr);
    buffer_release(&out);
    arena_release(&arena);
}
