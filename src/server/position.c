/* SPDX-License-Identifier: Apache-2.0
 *
 * Continuation tokens: the time and id of the last row a client was given, in hex. A list goes on
 * behind that place whatever came or went meanwhile, so a token needs no memory here and stays good
 * over a restart. It is opaque to clients; a forged one gives a list that begins elsewhere, which
 * its forger could have had by asking.
 */
#include "core/limits.h"
#include "server/state.h"

#define VERSION_DIGIT 'a' /* never only digits: one SDK reads "0" as the end of a list */

void position_write(struct buffer *out, int64_t time_ms, struct bytes id)
{
    static const char digits[] = "0123456789abcdef";
    uint64_t time = (uint64_t)time_ms;

    buffer_u8(out, VERSION_DIGIT);
    for (int shift = 60; shift >= 0; shift -= 4) {
        buffer_u8(out, (uint8_t)digits[(time >> shift) & 15]);
    }
    for (size_t n = 0; n < id.len; n++) {
        buffer_u8(out, (uint8_t)digits[id.ptr[n] >> 4]);
        buffer_u8(out, (uint8_t)digits[id.ptr[n] & 15]);
    }
}

static int digit_value(uint8_t c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
}

#define TIME_DIGITS 16
#define ID_AT (1 + TIME_DIGITS)

bool position_read(struct bytes text, struct arena *arena, int64_t *time_ms, struct bytes *id)
{
    uint64_t time = 0;

    if (text.len < ID_AT + 2 || (text.len - ID_AT) % 2 != 0) return false;
    if (text.len > ID_AT + 2 * LIMIT_ID_SIZE || text.ptr[0] != VERSION_DIGIT) return false;
    for (size_t n = 1; n < text.len; n++) {
        if (digit_value(text.ptr[n]) < 0) return false;
    }
    for (size_t n = 1; n < ID_AT; n++) time = time << 4 | (uint64_t)digit_value(text.ptr[n]);
    size_t size = (text.len - ID_AT) / 2;
    uint8_t *bytes = arena_alloc(arena, size);
    if (bytes == NULL) return false;
    for (size_t n = 0; n < size; n++) {
        const uint8_t *at = text.ptr + ID_AT + 2 * n;
        bytes[n] = (uint8_t)(digit_value(at[0]) << 4 | digit_value(at[1]));
    }
    *time_ms = (int64_t)time;
    *id = bytes_make(bytes, size);
    return true;
}
