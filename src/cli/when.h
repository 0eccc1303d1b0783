/* SPDX-License-Identifier: Apache-2.0
 *
 * Times as people at a terminal give and read them: as such, or seen from now.
 */
#ifndef CLI_WHEN_H
#define CLI_WHEN_H

#include <stdbool.h>
#include <stdint.h>

/* RFC 3339 (also with a space between day and hour), "2026-11-15" for its first moment in UTC,
 * "now", or a duration, which means so long before now_ns (is_ahead: after it). Nanoseconds since
 * 1970; false for others and for what is before 1970. */
bool when_parse(const char *text, int64_t now_ns, bool is_ahead, int64_t *out_ns);

#define WHEN_SIZE 32
/* "12s ago", "in 3m", "now": one unit, rounded down. */
void when_format(int64_t time_ns, int64_t now_ns, char out[static WHEN_SIZE]);

#endif
