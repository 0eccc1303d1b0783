/* SPDX-License-Identifier: Apache-2.0 */
#include "base/moment.h"

#include "base/clock.h"
#include "test/lib/test.h"

#include <stdlib.h>
#include <time.h>

#define NOON_S INT64_C(1794744000) /* 2026-11-15T12:00:00Z */
#define FIRST_S INT64_C(-62167219200)
#define LAST_S INT64_C(253402300799)
#define DAY_S INT64_C(86400)

static void expect_parsed(const char *text, int64_t seconds, int32_t nanos)
{
    struct moment m = {0};

    test_note("%s", text);
    EXPECT(moment_parse(bytes_of_text(text), &m));
    EXPECT_EQ(seconds, m.seconds);
    EXPECT_EQ(nanos, m.nanos);
}

static const char *formatted(int64_t seconds, int32_t nanos, int digits_n)
{
    static char text[MOMENT_SIZE];

    size_t len = moment_format((struct moment){seconds, nanos}, digits_n, text);
    EXPECT_EQ(len, strlen(text));
    return text;
}

/* Every day there is, against the C library's calendar, there and back. */
TEST(every_day_of_ten_thousand_years_is_right)
{
    for (int64_t day = FIRST_S / DAY_S; day <= LAST_S / DAY_S; day++) {
        time_t seconds = (time_t)(day * DAY_S);
        struct tm tm;
        if (gmtime_r(&seconds, &tm) == NULL) break;
        struct date date = date_of_days(day);
        if (date.year != tm.tm_year + 1900 || date.month != (unsigned)tm.tm_mon + 1 ||
            date.day != (unsigned)tm.tm_mday || date.weekday != (unsigned)tm.tm_wday) {
            EXPECT_EQ(0, day);
        }
        char text[MOMENT_SIZE];
        struct moment back = {0};
        size_t len = moment_format((struct moment){seconds, 0}, 0, text);
        if (!moment_parse(bytes_make(text, len), &back) || back.seconds != seconds) {
            EXPECT_TEXT("reads back", text);
        }
    }
}

TEST(leap_days_are_where_the_calendar_has_them)
{
    expect_parsed("2024-02-29T23:59:59Z", 1709251199, 0);
    expect_parsed("2000-02-29T00:00:00Z", 951782400, 0);
    expect_parsed("0000-02-29T00:00:00Z", FIRST_S + 59 * DAY_S, 0);
    EXPECT_TEXT("2024-03-01T00:00:00Z", formatted(1709251200, 0, 0));
    EXPECT_TEXT("2100-02-28T23:59:59Z", formatted(4107542399, 0, 0));
    EXPECT_TEXT("2100-03-01T00:00:00Z", formatted(4107542400, 0, 0));

    static const char *const bad[] = {"2023-02-29T00:00:00Z", "1900-02-29T00:00:00Z",
                                      "2100-02-29T00:00:00Z", "2024-02-30T00:00:00Z",
                                      "2026-04-31T00:00:00Z", "2026-11-31T00:00:00Z"};
    struct moment m;
    for (size_t n = 0; n < sizeof bad / sizeof bad[0]; n++) {
        test_note("%s", bad[n]);
        EXPECT(!moment_parse(bytes_of_text(bad[n]), &m));
    }
}

TEST(offsets_are_subtracted)
{
    expect_parsed("2026-11-15T12:00:00Z", NOON_S, 0);
    expect_parsed("2026-11-15t12:00:00z", NOON_S, 0);
    expect_parsed("2026-11-15T13:30:00+01:30", NOON_S, 0);
    expect_parsed("2026-11-15T11:00:00-01:00", NOON_S, 0);
    expect_parsed("2026-11-16T11:59:00+23:59", NOON_S, 0);
    expect_parsed("2026-11-15T12:00:00-00:00", NOON_S, 0);
    expect_parsed("2027-01-01T00:30:00+01:00", 1798759800, 0); /* still 2026 in UTC */
}

/* An offset may lead out of the four digits: a time all the same, only without a text. */
TEST(an_offset_may_lead_beyond_the_last_year)
{
    char text[MOMENT_SIZE] = "before";

    expect_parsed("9999-12-31T23:59:59-00:01", LAST_S + 60, 0);
    expect_parsed("0000-01-01T00:00:00+00:01", FIRST_S - 60, 0);
    EXPECT_EQ(0, moment_format((struct moment){LAST_S + 1, 0}, 3, text));
    EXPECT_TEXT("", text);
    EXPECT_EQ(0, moment_format((struct moment){FIRST_S - 1, 0}, 3, text));
    EXPECT_EQ(0, moment_format((struct moment){INT64_MAX, 999999999}, 9, text));
    EXPECT_EQ(0, moment_format((struct moment){INT64_MIN, 0}, 9, text));
    EXPECT_TEXT("9999-12-31T23:59:59.999999999Z", formatted(LAST_S, 999999999, 9));
    EXPECT_TEXT("0000-01-01T00:00:00.000Z", formatted(FIRST_S, 0, 3));
}

TEST(a_fraction_has_the_digits_asked_for)
{
    EXPECT_TEXT("2026-11-15T12:00:00Z", formatted(NOON_S, 999999999, 0));
    EXPECT_TEXT("2026-11-15T12:00:00.9Z", formatted(NOON_S, 999999999, 1));
    EXPECT_TEXT("2026-11-15T12:00:00.005Z", formatted(NOON_S, 5999999, 3)); /* cut */
    EXPECT_TEXT("2026-11-15T12:00:00.000000001Z", formatted(NOON_S, 1, 9));
    EXPECT_TEXT("2026-11-15T12:00:00.000000000Z", formatted(NOON_S, 0, 9));
    EXPECT_TEXT("2026-11-15T12:00:00Z", formatted(NOON_S, 0, MOMENT_SHORTEST));
    EXPECT_TEXT("2026-11-15T12:00:00.5Z", formatted(NOON_S, 500000000, MOMENT_SHORTEST));
    EXPECT_TEXT("2026-11-15T12:00:00.00001Z", formatted(NOON_S, 10000, MOMENT_SHORTEST));
    EXPECT_TEXT("1969-12-31T23:59:59.25Z", formatted(-1, 250000000, MOMENT_SHORTEST));
}

TEST(a_fraction_is_read_to_the_nanosecond)
{
    expect_parsed("2026-11-15T12:00:00.5Z", NOON_S, 500000000);
    expect_parsed("2026-11-15T12:00:00.000000001Z", NOON_S, 1);
    expect_parsed("2026-11-15T12:00:00.1234567899Z", NOON_S, 123456789); /* cut, not rounded */
    expect_parsed("2026-11-15T12:00:00.99999999999999999999999999999999Z", NOON_S, 999999999);
    expect_parsed("2026-11-15T12:00:00.25+00:00", NOON_S, 250000000);
    expect_parsed("1969-12-31T23:59:59.25Z", -1, 250000000);
}

TEST(a_leap_second_is_the_second_after)
{
    expect_parsed("2016-12-31T23:59:60Z", 1483228800, 0);
    expect_parsed("2016-12-31T23:59:60.5Z", 1483228800, 500000000);
}

/* Whatever is not exactly a time; and nothing of it is left behind. */
TEST(what_is_not_a_time_is_refused)
{
    static const char *const bad[] = {
        "",
        "now",
        "Z",
        "2026-11-15",
        "2026-11-15T12:00Z",
        "2026-11-15T12:00:00",
        "2026-11-15 12:00:00Z",
        "2026-11-15T12:00:00.Z",
        "2026-11-15T12:00:00,5Z",
        "2026-11-15T12:00:00.5",
        "2026-11-15T12:00:00.-5Z",
        "2026-11-15T12:00:00Zx",
        "2026-11-15T12:00:00ZZ",
        " 2026-11-15T12:00:00Z",
        "2026-11-15T12:00:00Z ",
        "2026-11-15T12:00:00+1:00",
        "2026-11-15T12:00:00+01",
        "2026-11-15T12:00:00+0100",
        "2026-11-15T12:00:00+01:00Z",
        "2026-11-15T12:00:00+24:00",
        "2026-11-15T12:00:00+01:60",
        "2026-11-15T12:00:00 01:00",
        "26-11-15T12:00:00Z",
        "+2026-11-15T12:00:00Z",
        "12026-11-15T12:00:00Z",
        "2026-00-15T12:00:00Z",
        "2026-13-15T12:00:00Z",
        "2026-11-00T12:00:00Z",
        "2026-11-15T24:00:00Z",
        "2026-11-15T12:60:00Z",
        "2026-11-15T12:00:61Z",
        "2026-1-15T12:00:00Z",
        "2026/11/15T12:00:00Z",
        "2026-11-15T1a:00:00Z",
        "2026-11-15T-1:00:00Z",
    };
    struct moment m = {17, 18};
    int64_t ns = 19;

    for (size_t n = 0; n < sizeof bad / sizeof bad[0]; n++) {
        test_note("%s", bad[n]);
        EXPECT(!moment_parse(bytes_of_text(bad[n]), &m));
        EXPECT(!time_parse(bytes_of_text(bad[n]), &ns));
    }
    EXPECT_EQ(17, m.seconds);
    EXPECT_EQ(18, m.nanos);
    EXPECT_EQ(19, ns);
    EXPECT(!moment_parse(BYTES_NONE, &m));
    EXPECT(!moment_parse(BYTES_LITERAL("2026-11-15T12:00:00\0Z"), &m));
    EXPECT(!moment_parse(BYTES_LITERAL("2026-11-15\0"
                                       "12:00:00Z"),
                         &m));
}

/* A text ends where it ends, whatever stands behind it. */
TEST(no_byte_after_the_text_is_read)
{
    static const char text[] = "2026-11-15T13:30:00.123+01:30";
    struct moment m;

    for (size_t len = 0; len < sizeof text - 1; len++) {
        char *copy = malloc(len > 0 ? len : 1); /* of exactly its size, for the sanitizer */
        EXPECT(copy != NULL);
        memcpy(copy, text, len);
        EXPECT(!moment_parse(bytes_make(copy, len), &m));
        free(copy);
    }
}

TEST(nanoseconds_reach_to_both_ends)
{
    static const int64_t times[] = {INT64_MIN, INT64_MIN + 1, -NS_PER_S - 1, -NS_PER_S, -1, 0,
                                    1,         INT64_MAX};
    char text[MOMENT_SIZE];

    for (size_t n = 0; n < sizeof times / sizeof times[0]; n++) {
        int64_t back = 0;
        size_t len = time_format(times[n], text);
        test_note("%s", text);
        EXPECT(time_parse(bytes_make(text, len), &back));
        EXPECT_EQ(times[n], back);
    }
    EXPECT_BYTES(BYTES_LITERAL("2262-04-11T23:47:16.854775807Z"),
                 bytes_make(text, time_format(INT64_MAX, text)));
    EXPECT_BYTES(BYTES_LITERAL("1677-09-21T00:12:43.145224192Z"),
                 bytes_make(text, time_format(INT64_MIN, text)));
}

TEST(what_does_not_fit_nanoseconds_is_refused)
{
    static const char *const beyond[] = {"2262-04-11T23:47:16.854775808Z",
                                         "1677-09-21T00:12:43.145224191Z", "9999-12-31T00:00:00Z",
                                         "0001-01-01T00:00:00Z"};
    int64_t ns = 7;

    for (size_t n = 0; n < sizeof beyond / sizeof beyond[0]; n++) {
        struct moment m;
        test_note("%s", beyond[n]);
        EXPECT(moment_parse(bytes_of_text(beyond[n]), &m));
        EXPECT(!time_parse(bytes_of_text(beyond[n]), &ns));
    }
    EXPECT(!moment_to_ns((struct moment){INT64_MAX, 0}, &ns));
    EXPECT(!moment_to_ns((struct moment){INT64_MIN, 999999999}, &ns));
    EXPECT_EQ(7, ns);
}

TEST(milliseconds_before_1970_round_down)
{
    struct moment m = moment_of_ms(-1);

    EXPECT_EQ(-1, m.seconds);
    EXPECT_EQ(999000000, m.nanos);
    m = moment_of_ms(INT64_MIN);
    EXPECT_EQ(INT64_MIN / 1000 - 1, m.seconds);
    m = moment_of_ns(-1);
    EXPECT_EQ(-1, m.seconds);
    EXPECT_EQ(999999999, m.nanos);
}
