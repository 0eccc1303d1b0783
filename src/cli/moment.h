/* SPDX-License-Identifier: Apache-2.0
 *
 * Times and durations as people write and read them.
 */
#ifndef CLI_MOMENT_H
#define CLI_MOMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* "250ms", "10s", "5m", "2h", "7d"; the unit must be there. False, and *out_ms untouched,
 * otherwise; also when it is more than 100 years. */
bool duration_parse(const char *text, int64_t *out_ms);

/* RFC 3339 ("2026-11-15T12:00:00.5Z", with any offset), "2026-11-15", "now", or a duration, which
 * means so long before now_ns (is_ahead: after it). Nanoseconds since 1970. */
bool moment_parse(const char *text, int64_t now_ns, bool is_ahead, int64_t *out_ns);

#define MOMENT_SIZE 40
/* "2026-11-15T12:00:00.123Z": as many digits as it takes, in threes. */
void moment_format(int64_t time_ns, char out[static MOMENT_SIZE]);
/* "12s ago", "in 3m", "now": one unit, rounded down. */
void moment_format_relative(int64_t time_ns, int64_t now_ns, char out[static MOMENT_SIZE]);
/* "850ms", "12.3s", "3m12s", "2h05m", "7d4h": two units at most. */
void duration_format(int64_t duration_ns, char out[static MOMENT_SIZE]);
/* "512 B", "3.4 KiB", "1.2 GiB". */
void size_format(uint64_t size, char out[static MOMENT_SIZE]);

#endif
