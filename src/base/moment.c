/* SPDX-License-Identifier: Apache-2.0
 *
 * See moment.h. Days become a date, and back, by counting from a first of March: so the leap day is
 * the last day of its year, and of its four, hundred and four hundred years.
 */
#include "base/moment.h"

#include "base/assert.h"
#include "base/clock.h"

#define DAY_S INT64_C(86400)
#define DAYS_TO_1970 719468           /* from 0000-03-01 */
#define ERA_DAYS 146097               /* 400 years */
#define FIRST_S INT64_C(-62167219200) /* 0000-01-01T00:00:00Z */
#define LAST_S INT64_C(253402300799)  /* 9999-12-31T23:59:59Z */

/* Rounds down, also below 0. */
static int64_t divide(int64_t value, int64_t by, int64_t *rest)
{
    int64_t quotient = value / by;

    *rest = value % by;
    if (*rest >= 0) return quotient;
    *rest += by;
    return quotient - 1;
}

struct moment moment_of_ns(int64_t ns)
{
    int64_t nanos;
    int64_t seconds = divide(ns, NS_PER_S, &nanos);

    return (struct moment){seconds, (int32_t)nanos};
}

struct moment moment_of_ms(int64_t ms)
{
    int64_t rest_ms;
    int64_t seconds = divide(ms, 1000, &rest_ms);

    return (struct moment){seconds, (int32_t)(rest_ms * NS_PER_MS)};
}

bool moment_to_ns(struct moment m, int64_t *ns)
{
    int64_t nanos = m.nanos;
    int64_t sum;

    assert(nanos >= 0 && nanos < NS_PER_S);
    if (m.seconds < 0) { /* both from the same side of 0: only their sum can be too far from it */
        m.seconds++;
        nanos -= NS_PER_S;
    }
    if (__builtin_mul_overflow(m.seconds, NS_PER_S, &sum)) return false;
    if (__builtin_add_overflow(sum, nanos, &sum)) return false;
    *ns = sum;
    return true;
}

/* ---- the calendar ---- */

struct date date_of_days(int64_t days)
{
    int64_t day, weekday;
    int64_t era = divide(days + DAYS_TO_1970, ERA_DAYS, &day);
    int64_t year = (day - day / 1460 + day / 36524 - day / 146096) / 365;

    day -= 365 * year + year / 4 - year / 100;
    int64_t month = (5 * day + 2) / 153; /* from March */
    day -= (153 * month + 2) / 5;
    month = month < 10 ? month + 3 : month - 9;
    (void)divide(days + 4, 7, &weekday);
    return (struct date){.year = 400 * era + year + (month <= 2 ? 1 : 0),
                         .month = (unsigned)month,
                         .day = (unsigned)day + 1,
                         .weekday = (unsigned)weekday};
}

/* Years from 0. */
static int64_t days_of_date(int64_t year, int64_t month, int64_t day)
{
    int64_t march_year = 400 + (month <= 2 ? year - 1 : year); /* never below 0 */
    int64_t march_month = month > 2 ? month - 3 : month + 9;

    return 365 * march_year + march_year / 4 - march_year / 100 + march_year / 400 +
           (153 * march_month + 2) / 5 + day - 1 - ERA_DAYS - DAYS_TO_1970;
}

static bool is_date(int64_t year, int64_t month, int64_t day)
{
    static const uint8_t days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);

    if (month < 1 || month > 12) return false;
    return day >= 1 && day <= days[month - 1] + (month == 2 && is_leap ? 1 : 0);
}

/* ---- writing ---- */

/* Followed by after, unless it is NUL. */
static char *put_digits(char *to, uint64_t value, int digits_n, char after)
{
    for (int n = digits_n; n > 0; n--) {
        to[n - 1] = (char)('0' + value % 10);
        value /= 10;
    }
    assert(value == 0);
    to[digits_n] = after;
    return to + digits_n + (after == '\0' ? 0 : 1);
}

static char *put_fraction(char *to, int32_t nanos, int digits_n)
{
    bool is_shortest = digits_n == MOMENT_SHORTEST;

    if (digits_n == 0 || (is_shortest && nanos == 0)) return to;
    *to++ = '.';
    (void)put_digits(to, (uint64_t)nanos, 9, '\0');
    to += is_shortest ? 9 : digits_n;
    while (is_shortest && to[-1] == '0') to--;
    return to;
}

size_t moment_format(struct moment m, int digits_n, char out[static MOMENT_SIZE])
{
    int64_t second;

    assert(m.nanos >= 0 && m.nanos < NS_PER_S);
    assert(digits_n >= MOMENT_SHORTEST && digits_n <= 9);
    out[0] = '\0';
    if (m.seconds < FIRST_S || m.seconds > LAST_S) return 0;
    struct date date = date_of_days(divide(m.seconds, DAY_S, &second));
    char *to = put_digits(out, (uint64_t)date.year, 4, '-');
    to = put_digits(to, date.month, 2, '-');
    to = put_digits(to, date.day, 2, 'T');
    to = put_digits(to, (uint64_t)second / 3600, 2, ':');
    to = put_digits(to, (uint64_t)second / 60 % 60, 2, ':');
    to = put_digits(to, (uint64_t)second % 60, 2, '\0');
    to = put_fraction(to, m.nanos, digits_n);
    *to++ = 'Z';
    *to = '\0';
    return (size_t)(to - out);
}

size_t time_format(int64_t ns, char out[static MOMENT_SIZE])
{
    return moment_format(moment_of_ns(ns), MOMENT_SHORTEST, out);
}

/* ---- reading ---- */

static void skip(struct bytes *text, size_t n) { *text = bytes_make(text->ptr + n, text->len - n); }

static bool is_digit(uint8_t c) { return c >= '0' && c <= '9'; }

/* So many digits, then one of these bytes (unless there is none to choose from). */
static bool take_digits(struct bytes *text, size_t digits_n, const char *after, int64_t *out)
{
    size_t size = digits_n + (after[0] == '\0' ? 0 : 1);

    *out = 0;
    if (text->len < size) return false;
    for (size_t n = 0; n < digits_n; n++) {
        if (!is_digit(text->ptr[n])) return false;
        *out = *out * 10 + (text->ptr[n] - '0');
    }
    if (size > digits_n && memchr(after, text->ptr[digits_n], strlen(after)) == NULL) return false;
    skip(text, size);
    return true;
}

/* ".123" or nothing. */
static bool take_fraction(struct bytes *text, int64_t *nanos)
{
    int64_t unit = NS_PER_S;
    size_t n = 1;

    *nanos = 0;
    if (text->len == 0 || text->ptr[0] != '.') return true;
    for (; n < text->len && is_digit(text->ptr[n]); n++) {
        unit /= 10;
        *nanos += unit * (text->ptr[n] - '0');
    }
    skip(text, n);
    return n > 1;
}

/* "Z" or "+01:00", and nothing after it. */
static bool take_offset(struct bytes text, int64_t *seconds)
{
    int64_t hours, minutes;

    *seconds = 0;
    if (text.len == 1) return text.ptr[0] == 'Z' || text.ptr[0] == 'z';
    if (text.len != 6 || (text.ptr[0] != '+' && text.ptr[0] != '-')) return false;
    bool is_behind = text.ptr[0] == '-';
    skip(&text, 1);
    if (!take_digits(&text, 2, ":", &hours) || !take_digits(&text, 2, "", &minutes)) return false;
    *seconds = (hours * 60 + minutes) * (is_behind ? -60 : 60);
    return hours <= 23 && minutes <= 59;
}

bool moment_parse(struct bytes text, struct moment *out)
{
    int64_t year, month, day, hour, minute, second, nanos, offset_s;

    if (!take_digits(&text, 4, "-", &year) || !take_digits(&text, 2, "-", &month) ||
        !take_digits(&text, 2, "Tt", &day) || !take_digits(&text, 2, ":", &hour) ||
        !take_digits(&text, 2, ":", &minute) || !take_digits(&text, 2, "", &second) ||
        !take_fraction(&text, &nanos) || !take_offset(text, &offset_s)) {
        return false;
    }
    if (!is_date(year, month, day) || hour > 23 || minute > 59 || second > 60) return false;
    out->seconds =
        days_of_date(year, month, day) * DAY_S + hour * 3600 + minute * 60 + second - offset_s;
    out->nanos = (int32_t)nanos;
    return true;
}

bool time_parse(struct bytes text, int64_t *ns)
{
    struct moment m;

    return moment_parse(text, &m) && moment_to_ns(m, ns);
}
