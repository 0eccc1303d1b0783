/* SPDX-License-Identifier: Apache-2.0
 *
 * See text.h.
 */
#include "base/text.h"

#include "base/assert.h"

#include <stdio.h>

__attribute__((format(printf, 2, 0))) static struct bytes format_line(char line[TEXT_SIZE_MAX],
                                                                      const char *format,
                                                                      va_list arguments)
{
    int n = vsnprintf(line, TEXT_SIZE_MAX, format, arguments);
    assert(n >= 0);
    return bytes_make(line, (size_t)n < TEXT_SIZE_MAX ? (size_t)n : TEXT_SIZE_MAX - 1);
}

void buffer_format(struct buffer *b, const char *format, ...)
{
    char line[TEXT_SIZE_MAX];
    va_list arguments;

    va_start(arguments, format);
    buffer_append_bytes(b, format_line(line, format, arguments));
    va_end(arguments);
}

char *arena_format(struct arena *a, const char *format, va_list arguments)
{
    char line[TEXT_SIZE_MAX];

    return arena_text(a, format_line(line, format, arguments));
}

#define MS_PER_DAY INT64_C(86400000)
#define DAYS_PER_ERA 146097 /* 400 years */

/* By the calendar of eras of 400 years that begin in March: the leap day is the last of a year. */
void buffer_time(struct buffer *b, int64_t time_ms)
{
    if (time_ms < 0 || time_ms > INT64_C(253402300799999)) {
        buffer_format(b, "%lld ms", (long long)time_ms);
        return;
    }
    int days = (int)(time_ms / MS_PER_DAY) + 719468; /* since 0000-03-01 */
    int ms = (int)(time_ms % MS_PER_DAY);
    int era = days / DAYS_PER_ERA;
    int day = days % DAYS_PER_ERA;
    int year = (day - day / 1460 + day / 36524 - day / 146096) / 365;
    day -= 365 * year + year / 4 - year / 100;
    int month = (5 * day + 2) / 153; /* March is 0 */
    day -= (153 * month + 2) / 5;
    month = month < 10 ? month + 3 : month - 9;
    year += 400 * era + (month <= 2 ? 1 : 0);
    buffer_format(b, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", year, month, day + 1, ms / 3600000,
                  ms / 60000 % 60, ms / 1000 % 60, ms % 1000);
}
