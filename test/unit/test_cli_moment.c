/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/moment.h"
#include "test/lib/test.h"

#define S INT64_C(1000000000)
#define NOW (INT64_C(1794744000) * S) /* 2026-11-15T12:00:00Z */

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
                {"36525d", INT64_C(3155760000000)}};
    static const char *const bad[] = {"",     "10",  "s",   "10 s",   "-1s",
                                      "1.5s", "10x", "1hm", "36526d", "99999999999999999999s"};
    int64_t ms = 0;

    for (size_t n = 0; n < sizeof good / sizeof good[0]; n++) {
        test_note("%s", good[n].text);
        EXPECT(duration_parse(good[n].text, &ms));
        EXPECT_EQ(good[n].ms, ms);
    }
    ms = 17;
    for (size_t n = 0; n < sizeof bad / sizeof bad[0]; n++) {
        test_note("%s", bad[n]);
        EXPECT(!duration_parse(bad[n], &ms));
        EXPECT_EQ(17, ms);
    }
}

/* What people type: full times with any offset, dates, and how long ago. */
TEST(a_time_is_rfc_3339_a_date_or_so_long_ago)
{
    static const struct {
        const char *text;
        int64_t ns;
    } good[] = {
        {"2026-11-15T12:00:00Z", NOW},
        {"2026-11-15t13:30:00+01:30", NOW},
        {"2026-11-15 11:00:00-01:00", NOW},
        {"2026-11-15T12:00:00.5Z", NOW + S / 2},
        {"2026-11-15T12:00:00.123456789Z", NOW + 123456789},
        {"2026-11-15", NOW - 12 * 3600 * S},
        {"2024-02-29", INT64_C(1709164800) * S},
        {"now", NOW},
        {"2h", NOW - 2 * 3600 * S},
    };
    static const char *const bad[] = {"",
                                      "yesterday",
                                      "2026-13-01",
                                      "2026-02-29",
                                      "2026-11-15T25:00:00Z",
                                      "2026-11-15T12:00:00",
                                      "2026-11-15T12:00Z",
                                      "2026-11-15T12:00:00.Z",
                                      "2026-11-15T12:00:00Zx",
                                      "1969-01-01",
                                      "26-11-15"};
    int64_t ns = 0;

    for (size_t n = 0; n < sizeof good / sizeof good[0]; n++) {
        test_note("%s", good[n].text);
        EXPECT(moment_parse(good[n].text, NOW, false, &ns));
        EXPECT_EQ(good[n].ns, ns);
    }
    for (size_t n = 0; n < sizeof bad / sizeof bad[0]; n++) {
        test_note("%s", bad[n]);
        EXPECT(!moment_parse(bad[n], NOW, false, &ns));
    }
    test_note("%s", "");
    EXPECT(moment_parse("10m", NOW, true, &ns));
    EXPECT_EQ(NOW + 600 * S, ns);
}

/* What is printed can be given back. */
TEST(a_printed_time_reads_back)
{
    static const int64_t times[] = {0, NOW, NOW + 1, NOW + 1000, NOW + 5000000, NOW + S - 1};
    char text[MOMENT_SIZE];
    int64_t ns = 0;

    for (size_t n = 0; n < sizeof times / sizeof times[0]; n++) {
        moment_format(times[n], text);
        test_note("%s", text);
        EXPECT(moment_parse(text, NOW, false, &ns));
        EXPECT_EQ(times[n], ns);
    }
    moment_format(NOW + 5000000, text);
    EXPECT_TEXT("2026-11-15T12:00:00.005Z", text);
}

TEST(times_are_told_relative_to_now)
{
    static const struct {
        int64_t ns;
        const char *text;
    } cases[] = {{NOW, "now"},
                 {NOW - 999000000, "now"},
                 {NOW - 59 * S, "59s ago"},
                 {NOW - 60 * S, "1m ago"},
                 {NOW - 3599 * S, "59m ago"},
                 {NOW - 47 * 3600 * S, "47h ago"},
                 {NOW - 48 * 3600 * S, "2d ago"},
                 {NOW + 90 * S, "in 1m"}};
    char text[MOMENT_SIZE];

    for (size_t n = 0; n < sizeof cases / sizeof cases[0]; n++) {
        moment_format_relative(cases[n].ns, NOW, text);
        EXPECT_TEXT(cases[n].text, text);
    }
}

TEST(durations_and_sizes_have_at_most_two_units)
{
    static const struct {
        int64_t ns;
        const char *text;
    } durations[] = {{850000000, "850ms"},
                     {12340 * S / 1000, "12.3s"},
                     {192 * S, "3m12s"},
                     {7500 * S, "2h05m"},
                     {7 * 86400 * S + 4 * 3600 * S, "7d4h"}};
    static const struct {
        uint64_t size;
        const char *text;
    } sizes[] = {{0, "0 B"},        {1023, "1023 B"},        {1024, "1.0 KiB"},
                 {3482, "3.4 KiB"}, {150 * 1024, "150 KiB"}, {UINT64_MAX, "15.9 EiB"}};
    char text[MOMENT_SIZE];

    for (size_t n = 0; n < sizeof durations / sizeof durations[0]; n++) {
        duration_format(durations[n].ns, text);
        EXPECT_TEXT(durations[n].text, text);
    }
    for (size_t n = 0; n < sizeof sizes / sizeof sizes[0]; n++) {
        size_format(sizes[n].size, text);
        EXPECT_TEXT(sizes[n].text, text);
    }
}
