/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/when.h"
#include "test/lib/test.h"

#define S INT64_C(1000000000)
#define NOW (INT64_C(1794744000) * S) /* 2026-11-15T12:00:00Z */

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
        EXPECT(when_parse(good[n].text, NOW, false, &ns));
        EXPECT_EQ(good[n].ns, ns);
    }
    for (size_t n = 0; n < sizeof bad / sizeof bad[0]; n++) {
        test_note("%s", bad[n]);
        EXPECT(!when_parse(bad[n], NOW, false, &ns));
    }
    test_note("%s", "");
    EXPECT(when_parse("10m", NOW, true, &ns));
    EXPECT_EQ(NOW + 600 * S, ns);
}

/* Beyond what nanoseconds can count there is no time to answer. */
TEST(so_long_ago_or_ahead_has_an_end)
{
    int64_t ns = 17;

    EXPECT(!when_parse("36525d", NOW, false, &ns)); /* before 1970 */
    EXPECT(!when_parse("106751991167d", NOW, false, &ns));
    EXPECT(!when_parse("106751991167d", NOW, true, &ns));
    EXPECT(!when_parse("106751d", NOW, true, &ns));
    EXPECT(!when_parse("2263-01-01", NOW, true, &ns));
    EXPECT_EQ(17, ns);
    EXPECT(when_parse("36525d", NOW, true, &ns));
    EXPECT_EQ(NOW + INT64_C(36525) * 24 * 3600 * S, ns);
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
    char text[WHEN_SIZE];

    for (size_t n = 0; n < sizeof cases / sizeof cases[0]; n++) {
        when_format(cases[n].ns, NOW, text);
        EXPECT_TEXT(cases[n].text, text);
    }
}
