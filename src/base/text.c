/* SPDX-License-Identifier: Apache-2.0
 *
 * See text.h.
 */
#include "base/text.h"

#include "base/assert.h"
#include "base/moment.h"

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

void buffer_time(struct buffer *b, int64_t time_ms)
{
    char text[MOMENT_SIZE];
    size_t len = time_ms < 0 ? 0 : moment_format(moment_of_ms(time_ms), 3, text);

    if (len > 0)
        buffer_append(b, text, len);
    else
        buffer_format(b, "%lld ms", (long long)time_ms);
}
