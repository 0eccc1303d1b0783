/* SPDX-License-Identifier: Apache-2.0 */
#include "base/nearest.h"
#include "test/lib/test.h"

static unsigned distance(const char *a, const char *b)
{
    return edit_distance(bytes_of_text(a), bytes_of_text(b));
}

TEST(letters_that_differ_are_counted)
{
    EXPECT_EQ(0, distance("abc", "abc"));
    EXPECT_EQ(0, distance("aBc", "AbC"));
    EXPECT_EQ(1, distance("abc", "abcd"));
    EXPECT_EQ(1, distance("abc", "ab"));
    EXPECT_EQ(1, distance("abc", "axc"));
    EXPECT_EQ(2, distance("input", "inptu"));
    EXPECT_EQ(3, distance("", "abc"));
    EXPECT_EQ(12, distance("aaaaaaaaaaaa", "bbbbbbbbbbbb"));
}

TEST(what_is_too_long_is_far_from_everything)
{
    uint8_t longest[NEAREST_SIZE_MAX + 1];

    memset(longest, 'a', sizeof longest);
    struct bytes beyond = bytes_make(longest, sizeof longest);
    struct bytes within = bytes_make(longest, sizeof longest - 1);
    EXPECT_EQ(0, edit_distance(within, within));
    EXPECT_EQ(DISTANCE_FAR, edit_distance(beyond, within));
    EXPECT_EQ(DISTANCE_FAR, edit_distance(within, beyond));
}

TEST(the_nearest_is_found_or_nothing)
{
    struct nearest n;

    nearest_init(&n, BYTES_LITERAL("nmae"));
    nearest_offer(&n, BYTES_LITERAL("input"));
    EXPECT_EQ(0, n.best.len);
    nearest_offer(&n, BYTES_LITERAL("name"));
    nearest_offer(&n, BYTES_LITERAL("version"));
    EXPECT(bytes_equal(n.best, BYTES_LITERAL("name")));
}
