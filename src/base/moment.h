/* SPDX-License-Identifier: Apache-2.0
 *
 * Times as texts (RFC 3339), for the years 0000 to 9999 of the Gregorian calendar. Pure: no clock,
 * no time zones, no locale. The arithmetic is our own, because the C library's asks for the zone of
 * the machine and is slow for what is written a hundred times in a list.
 */
#ifndef BASE_MOMENT_H
#define BASE_MOMENT_H

#include "base/bytes.h"

/* A time since 1970. An int64 of nanoseconds ends in 2262, and histories may name times after it:
 * for some SDKs 9999-12-31 is "never". */
struct moment {
    int64_t seconds;
    int32_t nanos; /* 0 to 999,999,999, before 1970 too: always added */
};

struct moment moment_of_ns(int64_t ns);
struct moment moment_of_ms(int64_t ms);
/* False, and *ns untouched, when it does not fit: before 1677 or after 2262. */
bool moment_to_ns(struct moment m, int64_t *ns);

#define MOMENT_SIZE 31 /* "2026-11-15T12:00:00.123456789Z" and the final NUL */
/* As many digits as it takes, and no point when it takes none. */
#define MOMENT_SHORTEST (-1)

/* In UTC. digits_n: of the fraction, 0 to 9 (what is finer is cut), or MOMENT_SHORTEST. Answers the
 * length without the final NUL; 0, and "", when the year has not four digits. */
size_t moment_format(struct moment m, int digits_n, char out[static MOMENT_SIZE]);
/* "2026-11-15T12:00:00.5Z", or an offset such as +01:30 instead of the Z; t and z are taken too.
 * Digits beyond the ninth are cut. The second 60 is the one after 59: leap seconds are not counted.
 * False, and *out untouched, for everything else and for days that are not in the calendar. */
bool moment_parse(struct bytes text, struct moment *out);

/* The same for nanoseconds since 1970, which always have four digits of year; the shortest text. */
size_t time_format(int64_t ns, char out[static MOMENT_SIZE]);
bool time_parse(struct bytes text, int64_t *ns);

struct date {
    int64_t year;
    unsigned month;   /* 1 to 12 */
    unsigned day;     /* of the month, from 1 */
    unsigned weekday; /* 0: Sunday */
};
/* days: since 1970-01-01, which was a Thursday. */
struct date date_of_days(int64_t days);

#endif
