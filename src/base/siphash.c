/* SPDX-License-Identifier: Apache-2.0
 *
 * SipHash-2-4 (Aumasson and Bernstein, 2012): two rounds per word of input, four at the end. The
 * 128 bit variant differs in two constants and draws a second word.
 */
#include "base/siphash.h"

static uint64_t rotate_left(uint64_t x, unsigned n) { return (x << n) | (x >> (64 - n)); }

static void mix(uint64_t v[4], int rounds)
{
    for (int i = 0; i < rounds; i++) {
        v[0] += v[1];
        v[2] += v[3];
        v[1] = rotate_left(v[1], 13) ^ v[0];
        v[3] = rotate_left(v[3], 16) ^ v[2];
        v[0] = rotate_left(v[0], 32);
        v[2] += v[1];
        v[0] += v[3];
        v[1] = rotate_left(v[1], 17) ^ v[2];
        v[3] = rotate_left(v[3], 21) ^ v[0];
        v[2] = rotate_left(v[2], 32);
    }
}

static void absorb_word(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    mix(v, 2);
    v[0] ^= word;
}

static void init(uint64_t v[4], const uint64_t key[2])
{
    v[0] = key[0] ^ UINT64_C(0x736f6d6570736575);
    v[1] = key[1] ^ UINT64_C(0x646f72616e646f6d);
    v[2] = key[0] ^ UINT64_C(0x6c7967656e657261);
    v[3] = key[1] ^ UINT64_C(0x7465646279746573);
}

static void absorb(uint64_t v[4], struct bytes data)
{
    size_t whole = data.len & ~(size_t)7;
    size_t left = data.len - whole;
    uint8_t last[8] = {0};

    for (size_t i = 0; i < whole; i += 8) absorb_word(v, load_u64(data.ptr + i));

    /* The last word holds what is left of the input and, in its top byte, the length. */
    if (left > 0) memcpy(last, data.ptr + whole, left);
    last[7] = (uint8_t)data.len;
    absorb_word(v, load_u64(last));
}

static uint64_t draw(uint64_t v[4])
{
    mix(v, 4);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

uint64_t siphash64(const uint64_t key[2], struct bytes data)
{
    uint64_t v[4];

    init(v, key);
    absorb(v, data);
    v[2] ^= 0xff;
    return draw(v);
}

void siphash128(const uint64_t key[2], struct bytes data, uint8_t out[16])
{
    uint64_t v[4];

    init(v, key);
    v[1] ^= 0xee;
    absorb(v, data);
    v[2] ^= 0xee;
    store_u64(out, draw(v));
    v[1] ^= 0xdd;
    store_u64(out + 8, draw(v));
}
