/* SPDX-License-Identifier: Apache-2.0
 *
 * xoshiro256** (Blackman and Vigna, 2018). The sequence of a seed never changes: seeds of failed
 * simulations are kept and must fail again the same way.
 */
#include "base/rng.h"

#include "base/assert.h"

#include <string.h>

static uint64_t rotate_left(uint64_t x, unsigned n) { return (x << n) | (x >> (64 - n)); }

/* splitmix64: spreads a seed such as 1 or 2 over all bits, and never yields four zero words in a
 * row, the one state from which xoshiro does not move. */
static uint64_t splitmix64(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

void rng_init(struct rng *r, uint64_t seed)
{
    for (int i = 0; i < 4; i++) r->state[i] = splitmix64(&seed);
}

uint64_t rng_u64(struct rng *r)
{
    uint64_t *s = r->state;
    uint64_t result = rotate_left(s[1] * 5, 7) * 9;
    uint64_t shifted = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= shifted;
    s[3] = rotate_left(s[3], 45);
    return result;
}

uint64_t rng_below(struct rng *r, uint64_t bound)
{
    assert(bound > 0);
    /* 2^64 mod bound values too many: left out, otherwise small results would be more likely. */
    uint64_t excess = (0 - bound) % bound;
    uint64_t value = rng_u64(r);

    while (value < excess) value = rng_u64(r);
    return value % bound;
}

int64_t rng_between(struct rng *r, int64_t low, int64_t high)
{
    assert(low <= high);
    uint64_t span = (uint64_t)high - (uint64_t)low;
    uint64_t above = span == UINT64_MAX ? rng_u64(r) : rng_below(r, span + 1);

    return (int64_t)((uint64_t)low + above);
}

bool rng_chance(struct rng *r, uint32_t per_mille)
{
    assert(per_mille <= 1000);
    return rng_below(r, 1000) < per_mille;
}

void rng_fill(struct rng *r, void *ptr, size_t len)
{
    uint8_t *at = ptr;

    while (len > 0) {
        uint64_t word = rng_u64(r);
        size_t part = len < sizeof word ? len : sizeof word;
        memcpy(at, &word, part);
        at += part;
        len -= part;
    }
}
