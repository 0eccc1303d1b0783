/* SPDX-License-Identifier: Apache-2.0
 *
 * Formatted text into memory that is counted. For sentences to people; never on a hot path.
 */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include "base/arena.h"

#include <stdarg.h>

/* Longer texts are cut. */
#define TEXT_SIZE_MAX 512

__attribute__((format(printf, 2, 3))) void buffer_format(struct buffer *b, const char *format, ...);
/* A time since 1970 as RFC 3339 in UTC with milliseconds, "2026-11-15T12:00:00.123Z". Years beyond
 * 9999 or before 1970: the number of milliseconds. */
void buffer_time(struct buffer *b, int64_t time_ms);
/* With a final NUL; NULL without memory. */
__attribute__((format(printf, 2, 0))) char *arena_format(struct arena *a, const char *format,
                                                         va_list arguments);

#endif
