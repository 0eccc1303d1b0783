/* SPDX-License-Identifier: Apache-2.0
 *
 * Looking at eight bytes at once, as one word (load_u64): for what reads a lot of text in which
 * little is special. Each answers a word that is not 0 exactly when some byte of it is what is
 * asked for; which one it is, the caller finds byte by byte.
 *
 * A byte minus what is looked for borrows into its top bit exactly when it is smaller (or zero); a
 * wrong alarm can only stand after a right one.
 */
#ifndef BASE_EIGHT_H
#define BASE_EIGHT_H

#include <stdint.h>

#define EIGHT_ONES UINT64_C(0x0101010101010101)
#define EIGHT_TOPS (EIGHT_ONES * 0x80)

/* limit <= 0x80 */
static inline uint64_t eight_below(uint64_t word, uint8_t limit)
{
    return (word - EIGHT_ONES * limit) & ~word & EIGHT_TOPS;
}

static inline uint64_t eight_equal(uint64_t word, uint8_t byte)
{
    return eight_below(word ^ EIGHT_ONES * byte, 1);
}

/* 0x80 or more: not ASCII. */
static inline uint64_t eight_not_ascii(uint64_t word) { return word & EIGHT_TOPS; }

#endif
