/* SPDX-License-Identifier: Apache-2.0
 *
 * Times and durations as texts. The arithmetic of the calendar is our own: the library's knows time
 * zones, and is slow for what is written a hundred times in a list.
 */
#include "rest/state.h"

#include "base/clock.h"

#define DAY_S INT64_C(86400)

/* Days since 1970-01-01 of a day in the proleptic Gregorian calendar. Years begin in March here, so
 * that the leap day is the last one. */
static int64_t days_of(int64_t year, unsigned month, unsigned day)
{
    int64_t y = month <= 2 ? year - 1 : year;
    int64_t era = (y >= 0 ? y : y - 399) / 400;
    int64_t year_of_era = y - era * 400;
    int64_t month_of_year = month > 2 ? month - 3 : month + 9;
    int64_t day_of_year = (153 * month_of_year + 2) / 5 + day - 1;
    int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;

    return era * 146097 + day_of_era - 719468;
}

static void date_of(int64_t days, int64_t *year, unsigned *month, unsigned *day)
{
    int64_t z = days + 719468;
    int64_t era = (z >= 0 ? z : z - 146096) / 146097;
    int64_t day_of_era = z - era * 146097;
    int64_t year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t m = (5 * day_of_year + 2) / 153;

    *day = (unsigned)(day_of_year - (153 * m + 2) / 5 + 1);
    *month = (unsigned)(m < 10 ? m + 3 : m - 9);
    *year = year_of_era + era * 400 + (*month <= 2 ? 1 : 0);
}

/* ---- writing ---- */

static char *put_digits(char *to, uint64_t value, unsigned digits_n)
{
    for (unsigned n = digits_n; n > 0; n--) {
        to[n - 1] = (char)('0' + value % 10);
        value /= 10;
    }
    return to + digits_n;
}

size_t time_text(int64_t ns, char out[TIME_TEXT_SIZE])
{
    int64_t seconds = ns / NS_PER_S;
    int64_t nanos = ns % NS_PER_S;
    int64_t year;
    unsigned month, day;

    if (nanos < 0) {
        seconds--;
        nanos += NS_PER_S;
    }
    int64_t days = seconds / DAY_S;
    int64_t of_day = seconds % DAY_S;
    if (of_day < 0) {
        days--;
        of_day += DAY_S;
    }
    date_of(days, &year, &month, &day);
    char *to = put_digits(out, (uint64_t)year, 4); /* an int64 of ns ends in 2262 */
    *to++ = '-';
    to = put_digits(to, month, 2);
    *to++ = '-';
    to = put_digits(to, day, 2);
    *to++ = 'T';
    to = put_digits(to, (uint64_t)of_day / 3600, 2);
    *to++ = ':';
    to = put_digits(to, (uint64_t)of_day / 60 % 60, 2);
    *to++ = ':';
    to = put_digits(to, (uint64_t)of_day % 60, 2);
    if (nanos != 0) {
        *to++ = '.';
        to = put_digits(to, (uint64_t)nanos, 9);
        while (to[-1] == '0') to--;
    }
    *to++ = 'Z';
    return (size_t)(to - out);
}

void write_time(struct json *j, int64_t ns)
{
    char text[TIME_TEXT_SIZE];
    size_t len = time_text(ns, text);

    json_bytes(j, bytes_make(text, len));
}

void write_time_of(struct json *j, const char *key, int64_t ns)
{
    json_key(j, key);
    write_time(j, ns);
}

/* ---- reading ---- */

/* So many digits, then (unless it is 0) this character. */
static bool take_digits(struct bytes *text, unsigned digits_n, char after, int64_t *out)
{
    int64_t value = 0;
    size_t size = digits_n + (after != '\0' ? 1u : 0u);

    if (text->len < size) return false;
    for (unsigned n = 0; n < digits_n; n++) {
        uint8_t c = text->ptr[n];
        if (c < '0' || c > '9') return false;
        value = value * 10 + (c - '0');
    }
    if (after != '\0' && (text->ptr[digits_n] | 0x20) != (after | 0x20)) return false;
    *out = value;
    *text = bytes_make(text->ptr + size, text->len - size);
    return true;
}

/* ".123": as nanoseconds; what is finer is cut. */
static bool take_fraction(struct bytes *text, int64_t *nanos)
{
    size_t n = 1;
    int64_t unit = NS_PER_S;

    *nanos = 0;
    if (text->len == 0 || text->ptr[0] != '.') return true;
    for (; n < text->len && text->ptr[n] >= '0' && text->ptr[n] <= '9'; n++) {
        unit /= 10;
        *nanos += unit * (text->ptr[n] - '0');
    }
    if (n == 1) return false;
    *text = bytes_make(text->ptr + n, text->len - n);
    return true;
}

/* "Z" or "+01:00"; all of the rest. */
static bool take_zone(struct bytes text, int64_t *seconds)
{
    int64_t hours, minutes;

    *seconds = 0;
    if (text.len == 1 && (text.ptr[0] == 'Z' || text.ptr[0] == 'z')) return true;
    if (text.len != 6 || (text.ptr[0] != '+' && text.ptr[0] != '-')) return false;
    bool is_behind = text.ptr[0] == '-';
    text = bytes_make(text.ptr + 1, text.len - 1);
    if (!take_digits(&text, 2, ':', &hours) || !take_digits(&text, 2, '\0', &minutes)) return false;
    if (hours > 23 || minutes > 59) return false;
    *seconds = (hours * 60 + minutes) * 60 * (is_behind ? -1 : 1);
    return true;
}

static int64_t days_in_month(int64_t year, int64_t month)
{
    static const uint8_t days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);

    return days[month - 1] + (month == 2 && is_leap ? 1 : 0);
}

bool time_read(struct bytes text, int64_t *ns)
{
    int64_t year, month, day, hour, minute, second, nanos, zone_s;

    if (!take_digits(&text, 4, '-', &year) || !take_digits(&text, 2, '-', &month) ||
        !take_digits(&text, 2, 'T', &day) || !take_digits(&text, 2, ':', &hour) ||
        !take_digits(&text, 2, ':', &minute) || !take_digits(&text, 2, '\0', &second) ||
        !take_fraction(&text, &nanos) || !take_zone(text, &zone_s)) {
        return false;
    }
    if (month < 1 || month > 12 || day < 1 || day > days_in_month(year, month)) return false;
    if (hour > 23 || minute > 59 || second > 60) return false;
    int64_t seconds = days_of(year, (unsigned)month, (unsigned)day) * DAY_S + hour * 3600 +
                      minute * 60 + second - zone_s;
    return !__builtin_mul_overflow(seconds, NS_PER_S, ns) &&
           !__builtin_add_overflow(*ns, nanos, ns);
}

bool duration_read_bytes(struct bytes text, int64_t *ms)
{
    static const struct {
        const char *unit;
        int64_t ms;
    } units[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000}};
    int64_t value = 0;
    size_t n = 0;

    for (; n < text.len && text.ptr[n] >= '0' && text.ptr[n] <= '9'; n++) {
        if (__builtin_mul_overflow(value, 10, &value)) return false;
        if (__builtin_add_overflow(value, text.ptr[n] - '0', &value)) return false;
    }
    if (n == 0) return false;
    struct bytes unit = bytes_make(text.ptr + n, text.len - n);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (!bytes_equal(unit, bytes_of_text(units[i].unit))) continue;
        return !__builtin_mul_overflow(value, units[i].ms, ms);
    }
    return false;
}

bool time_or_ago_read(struct bytes text, int64_t wall_ns, int64_t *ns)
{
    int64_t ms, ago_ns;

    if (time_read(text, ns)) return true;
    if (!duration_read_bytes(text, &ms) || __builtin_mul_overflow(ms, NS_PER_MS, &ago_ns)) {
        return false;
    }
    return !__builtin_sub_overflow(wall_ns, ago_ns, ns);
}
