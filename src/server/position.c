/* SPDX-License-Identifier: Apache-2.0
 *
 * Continuation tokens: the time and id of the last row a client was given. A list goes on behind
 * that place whatever came or went meanwhile, so a token needs no memory here and stays good over a
 * restart. Clients should not look into it, but one SDK's test does: it wants to find the id. A
 * forged one gives a list that begins elsewhere, which its forger could have had by asking.
 */
#include "core/limits.h"
#include "server/state.h"

#define VERSION_DIGIT 'a' /* never only digits: one SDK reads "0" as the end of a list */
#define TIME_DIGITS 16
#define ID_AT (1 + TIME_DIGITS)

void position_write(struct buffer *out, int64_t time_ms, struct bytes id)
{
    static const char digits[] = "0123456789abcdef";
    uint64_t time = (uint64_t)time_ms;

    buffer_u8(out, VERSION_DIGIT);
    for (int shift = 60; shift >= 0; shift -= 4) {
        buffer_u8(out, (uint8_t)digits[(time >> shift) & 15]);
    }
    buffer_append_bytes(out, id);
}

static int digit_value(uint8_t c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
}

bool position_read(struct bytes text, int64_t *time_ms, struct bytes *id)
{
    uint64_t time = 0;

    if (text.len <= ID_AT || text.len > ID_AT + LIMIT_ID_SIZE) return false;
    if (text.ptr[0] != VERSION_DIGIT) return false;
    for (size_t n = 1; n < ID_AT; n++) {
        int digit = digit_value(text.ptr[n]);
        if (digit < 0) return false;
        time = time << 4 | (uint64_t)digit;
    }
    *time_ms = (int64_t)time;
    *id = bytes_make(text.ptr + ID_AT, text.len - ID_AT);
    return true;
}
