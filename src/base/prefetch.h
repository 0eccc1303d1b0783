/* SPDX-License-Identifier: Apache-2.0
 *
 * Hints for the processor: memory that will be needed soon. Any address is fine, also one that is
 * not ours any more; nothing is read.
 */
#ifndef BASE_PREFETCH_H
#define BASE_PREFETCH_H

#include <stddef.h>

#define CACHE_LINE_SIZE ((size_t)64)

/* The lines that begin at `object`. A processor has about a dozen such requests under way at once:
 * what goes beyond waits for those before. */
static inline void prefetch(const void *object, size_t size)
{
    const char *at = object;

    for (size_t n = 0; n < size; n += CACHE_LINE_SIZE) __builtin_prefetch(at + n);
}

#endif
