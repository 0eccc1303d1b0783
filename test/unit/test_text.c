/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

#include "base/mem.h"
#include "test/lib/test.h"

#include <stdarg.h>

/* Sentences are appended to what is there. */
TEST(a_sentence_is_appended)
{
    struct buffer b;

    buffer_init(&b, mem_process());
    buffer_format(&b, "%s %d", "step", 7);
    buffer_format(&b, "%s", ", late");
    EXPECT_BYTES(BYTES_LITERAL("step 7, late"), buffer_view(&b));
    buffer_release(&b);
}

__attribute__((format(printf, 2, 3))) static char *formatted(struct arena *a, const char *format,
                                                             ...)
{
    va_list arguments;

    va_start(arguments, format);
    char *text = arena_format(a, format, arguments);
    va_end(arguments);
    return text;
}

/* A text that is too long is cut, not lost and not beyond its end. */
TEST(a_long_text_is_cut)
{
    struct arena a;
    struct mem mem;

    mem_init(&mem, SIZE_MAX);
    arena_init(&a, &mem, 64);
    EXPECT_TEXT("12", formatted(&a, "%d", 12));
    char *text = formatted(&a, "%2000d", 1);
    EXPECT_EQ(TEXT_SIZE_MAX - 1, strlen(text));
    mem.fail_at = 1;
    mem.fail_forever = true;
    EXPECT(formatted(&a, "%2000d", 1) == NULL);
    arena_release(&a);
    mem_release(&mem);
}

static const char *time_text(struct buffer *b, int64_t time_ms)
{
    buffer_clear(b);
    buffer_time(b, time_ms);
    buffer_append(b, "", 1);
    return (const char *)b->ptr;
}

/* Leap days, centuries, both ends of what has four digits, and what is beyond. */
TEST(times_are_written_as_dates)
{
    struct buffer b;

    buffer_init(&b, mem_process());
    EXPECT_TEXT("1970-01-01T00:00:00.000Z", time_text(&b, 0));
    EXPECT_TEXT("2000-02-29T23:59:59.999Z", time_text(&b, INT64_C(951868799999)));
    EXPECT_TEXT("2000-03-01T00:00:00.000Z", time_text(&b, INT64_C(951868800000)));
    EXPECT_TEXT("2023-11-14T22:13:20.500Z", time_text(&b, INT64_C(1700000000500)));
    EXPECT_TEXT("2024-12-31T00:00:00.001Z", time_text(&b, INT64_C(1735603200001)));
    EXPECT_TEXT("2100-02-28T12:00:00.000Z", time_text(&b, INT64_C(4107499200000)));
    EXPECT_TEXT("2100-03-01T00:00:00.000Z", time_text(&b, INT64_C(4107542400000)));
    EXPECT_TEXT("9999-12-31T23:59:59.999Z", time_text(&b, INT64_C(253402300799999)));
    EXPECT_TEXT("253402300800000 ms", time_text(&b, INT64_C(253402300800000)));
    EXPECT_TEXT("-1 ms", time_text(&b, -1));
    buffer_release(&b);
}
