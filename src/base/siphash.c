/* SPDX-License-Identifier: Apache-2.0
 *
 * SipHash (Aumasson and Bernstein, 2012). SipHash-2-4: two rounds per word of input, four at the
 * end; SipHash-1-3: one, and three. The 128 bit variant differs in two constants and draws a second
 * word.
 *
 * The state goes from function to function by value, so that it stays in registers.
 */
#include "base/siphash.h"

struct state {
    uint64_t v0;
    uint64_t v1;
    uint64_t v2;
    uint64_t v3;
};

static inline uint64_t rotate_left(uint64_t x, unsigned n) { return (x << n) | (x >> (64 - n)); }

static inline struct state mix(struct state s)
{
    s.v0 += s.v1;
    s.v2 += s.v3;
    s.v1 = rotate_left(s.v1, 13) ^ s.v0;
    s.v3 = rotate_left(s.v3, 16) ^ s.v2;
    s.v0 = rotate_left(s.v0, 32);
    s.v2 += s.v1;
    s.v0 += s.v3;
    s.v1 = rotate_left(s.v1, 17) ^ s.v2;
    s.v3 = rotate_left(s.v3, 21) ^ s.v0;
    s.v2 = rotate_left(s.v2, 32);
    return s;
}

static inline struct state absorb_word(struct state s, uint64_t word)
{
    s.v3 ^= word;
    s = mix(mix(s));
    s.v0 ^= word;
    return s;
}

static inline struct state init(const uint64_t key[2])
{
    return (struct state){
        .v0 = key[0] ^ UINT64_C(0x736f6d6570736575),
        .v1 = key[1] ^ UINT64_C(0x646f72616e646f6d),
        .v2 = key[0] ^ UINT64_C(0x6c7967656e657261),
        .v3 = key[1] ^ UINT64_C(0x7465646279746573),
    };
}

/* The last word holds what is left of the input and, in its top byte, the length. */
static inline uint64_t last_word(struct bytes data)
{
    size_t left = data.len & 7;
    uint64_t word = (uint64_t)data.len << 56;

    if (data.len > 8 && left > 0) {
        return word | load_u64(data.ptr + data.len - 8) >> (8 * (8 - left));
    }
    for (size_t i = 0; i < left; i++) {
        word |= (uint64_t)data.ptr[data.len - left + i] << (8 * i);
    }
    return word;
}

static inline struct state absorb(struct state s, struct bytes data)
{
    size_t whole = data.len & ~(size_t)7;

    for (size_t i = 0; i < whole; i += 8) s = absorb_word(s, load_u64(data.ptr + i));
    return absorb_word(s, last_word(data));
}

static inline struct state end(struct state s) { return mix(mix(mix(mix(s)))); }

static inline uint64_t draw(struct state s) { return s.v0 ^ s.v1 ^ s.v2 ^ s.v3; }

uint64_t siphash64(const uint64_t key[2], struct bytes data)
{
    struct state s = init(key);
    size_t whole = data.len & ~(size_t)7;

    for (size_t i = 0; i < whole; i += 8) {
        uint64_t word = load_u64(data.ptr + i);
        s.v3 ^= word;
        s = mix(s);
        s.v0 ^= word;
    }
    uint64_t word = last_word(data);
    s.v3 ^= word;
    s = mix(s);
    s.v0 ^= word;
    s.v2 ^= 0xff;
    return draw(mix(mix(mix(s))));
}

void siphash128(const uint64_t key[2], struct bytes data, uint8_t out[16])
{
    struct state s = init(key);

    s.v1 ^= 0xee;
    s = absorb(s, data);
    s.v2 ^= 0xee;
    s = end(s);
    store_u64(out, draw(s));
    s.v1 ^= 0xdd;
    store_u64(out + 8, draw(end(s)));
}
