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
