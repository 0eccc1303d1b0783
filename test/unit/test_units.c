/* SPDX-License-Identifier: Apache-2.0 */
#include "base/units.h"

#include "test/lib/test.h"

#include <stdlib.h>

/* A unit that is left out would be guessed, and guessed wrong. */
TEST(a_duration_has_its_unit)
{
    static const struct {
        const char *text;
        int64_t ms;
    } good[] = {{"0ms", 0},
                {"250ms", 250},
                {"10s", 10000},
                {"5m", 300000},
                {"2h", 7200000},
                {"7d", 604800000},
                {"1_000s", 1000000},
                {"007s", 7000},
                {"9223372036854775807ms", INT64_MAX},
                {"106751991167d", INT64_C(106751991167) * MS_PER_DAY}};
    static const char *const bad[] = {"",
                                      "10",
                                      "s",
                                      "10 s",
                                      " 10s",
                                      "10s ",
                                      "-1s",
                                      "+1s",
                                      "1.5s",
                                      "10x",
                                      "10S",
                                      "1hm",
                                      "1s5m",
                                      "0x1s",
                                      "1_s",
                                      "9223372036854775808ms",
                                      "106751991168d",
                                      "99999999999999999999s",
                                      "999999999999999999d",
                                      "18446744073709551616ms"};
    int64_t ms = 0;

    for (size_t n = 0; n < sizeof good / sizeof good[0]; n++) {
        test_note("%s", good[n].text);
        EXPECT(duration_parse(bytes_of_text(good[n].text), &ms));
        EXPECT_EQ(good[n].ms, ms);
    }
    ms = 17;
    for (size_t n = 0; n < sizeof bad / sizeof bad[0]; n++) {
        test_note("%s", bad[n]);
        EXPECT(!duration_parse(bytes_of_text(bad[n]), &ms));
        EXPECT_EQ(17, ms);
    }
    EXPECT(!duration_parse(BYTES_NONE, &ms));
    EXPECT(!duration_parse(BYTES_LITERAL("1s\0"), &ms));
}

/* A text ends where it ends, whatever stands behind it. */
TEST(no_byte_after_the_text_is_read)
{
    static const char text[] = "1_234";
    uint64_t value;

    for (size_t len = 1; len < sizeof text; len++) {
        char *copy = malloc(len); /* of exactly its size, for the sanitizer */
        EXPECT(copy != NULL);
        memcpy(copy, text, len);
        EXPECT_EQ(text[len - 1] != '_', size_parse(bytes_make(copy, len), &value));
        free(copy);
    }
}

TEST(a_size_may_have_a_unit)
{
    static const struct {
        const char *text;
        uint64_t size;
    } good[] = {{"0", 0},
                {"17", 17},
                {"17B", 17},
                {"1_000", 1000},
                {"64KiB", 65536},
                {"16MiB", 16 << 20},
                {"1GiB", UINT64_C(1) << 30},
                {"2TiB", UINT64_C(2) << 40},
                {"18446744073709551615", UINT64_MAX},
                {"18014398509481983KiB", UINT64_MAX - 1023}};
    static const char *const bad[] = {"",       "KiB", "B",    "64KB",
                                      "64 KiB", "-1",  "1_",   "_1",
                                      "1__0",   "64k", "64BB", "18014398509481984KiB"};
    uint64_t size = 0;

    for (size_t n = 0; n < sizeof good / sizeof good[0]; n++) {
        test_note("%s", good[n].text);
        EXPECT(size_parse(bytes_of_text(good[n].text), &size));
        EXPECT_EQ(good[n].size, size);
    }
    size = 17;
    for (size_t n = 0; n < sizeof bad / sizeof bad[0]; n++) {
        test_note("%s", bad[n]);
        EXPECT(!size_parse(bytes_of_text(bad[n]), &size));
        EXPECT_EQ(17, size);
    }
}

/* A value that wraps around would be a small one. */
TEST(counts_too_large_are_refused)
{
    uint64_t value = 7;

    EXPECT(!count_parse(BYTES_LITERAL("18446744073709551616"), &value));
    EXPECT(!count_parse(BYTES_LITERAL("99999999999999999999999"), &value));
    EXPECT(!count_parse(BYTES_LITERAL("7KiB"), &value));
    EXPECT(!count_parse(BYTES_LITERAL("7B"), &value));
    EXPECT_EQ(7, value);
    EXPECT(count_parse(BYTES_LITERAL("18446744073709551615"), &value));
    EXPECT_EQ(UINT64_MAX, value);
}

/* What a protocol sends is digits only, and never more than there is room for. */
TEST(a_decimal_is_digits_up_to_its_limit)
{
    static const char *const bad[] = {"",    "-1",  "+1",  " 1",    "1 ",
                                      "1_0", "0x1", "1.0", "65536", "a"};
    uint64_t value = 7;

    for (size_t n = 0; n < sizeof bad / sizeof bad[0]; n++) {
        test_note("%s", bad[n]);
        EXPECT(!decimal_parse(bytes_of_text(bad[n]), 65535, &value));
    }
    EXPECT(!decimal_parse(BYTES_NONE, 1, &value));
    EXPECT(!decimal_parse(BYTES_LITERAL("18446744073709551616"), UINT64_MAX, &value));
    EXPECT_EQ(7, value);
    EXPECT(decimal_parse(BYTES_LITERAL("65535"), 65535, &value));
    EXPECT_EQ(65535, value);
    EXPECT(decimal_parse(BYTES_LITERAL("18446744073709551615"), UINT64_MAX, &value));
    EXPECT_EQ(UINT64_MAX, value);
}

/* Settings are shown as they could have been written. */
TEST(what_is_formatted_reads_back)
{
    static const struct {
        int64_t ms;
        const char *text;
    } durations[] = {{0, "0ms"},
                     {1, "1ms"},
                     {999, "999ms"},
                     {1000, "1s"},
                     {1500, "1500ms"},
                     {90000, "90s"},
                     {3600000, "1h"},
                     {5400000, "90m"},
                     {86400000, "1d"},
                     {129600000, "36h"},
                     {INT64_MAX, "9223372036854775807ms"}};
    static const struct {
        uint64_t size;
        const char *text;
    } sizes[] = {{0, "0B"},
                 {1, "1"},
                 {1023, "1023"},
                 {1024, "1KiB"},
                 {1536, "1536"},
                 {3 << 20, "3MiB"},
                 {1 << 30, "1GiB"},
                 {UINT64_C(1) << 62, "4194304TiB"},
                 {UINT64_MAX, "18446744073709551615"}};
    char text[UNITS_SIZE];

    for (size_t n = 0; n < sizeof durations / sizeof durations[0]; n++) {
        int64_t ms = -1;
        duration_format(durations[n].ms, text);
        EXPECT_TEXT(durations[n].text, text);
        EXPECT(duration_parse(bytes_of_text(text), &ms));
        EXPECT_EQ(durations[n].ms, ms);
    }
    for (size_t n = 0; n < sizeof sizes / sizeof sizes[0]; n++) {
        uint64_t size = 17;
        size_format(sizes[n].size, text);
        EXPECT_TEXT(sizes[n].text, text);
        EXPECT(size_parse(bytes_of_text(text), &size));
        EXPECT_EQ(sizes[n].size, size);
    }
}

TEST(descriptions_have_at_most_two_units)
{
    static const struct {
        int64_t ms;
        const char *text;
    } durations[] = {{-5, "-5ms"},        {0, "0ms"},         {850, "850ms"},
                     {12340, "12.3s"},    {59999, "59.9s"},   {192000, "3m12s"},
                     {3599999, "59m59s"}, {7500000, "2h05m"}, {86399999, "23h59m"},
                     {619200000, "7d4h"}};
    static const struct {
        uint64_t size;
        const char *text;
    } sizes[] = {{0, "0 B"},        {1023, "1023 B"},        {1024, "1.0 KiB"},
                 {3482, "3.4 KiB"}, {150 * 1024, "150 KiB"}, {UINT64_MAX, "15.9 EiB"}};
    char text[UNITS_SIZE];

    for (size_t n = 0; n < sizeof durations / sizeof durations[0]; n++) {
        duration_describe(durations[n].ms, text);
        EXPECT_TEXT(durations[n].text, text);
    }
    for (size_t n = 0; n < sizeof sizes / sizeof sizes[0]; n++) {
        size_describe(sizes[n].size, text);
        EXPECT_TEXT(sizes[n].text, text);
    }
}
