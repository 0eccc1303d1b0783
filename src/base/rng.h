/* SPDX-License-Identifier: Apache-2.0
 *
 * Reproducible random numbers (xoshiro256**, seeded by splitmix64). Not for secrets: see random.h.
 */
#ifndef BASE_RNG_H
#define BASE_RNG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rng {
    uint64_t state[4];
};

void rng_init(struct rng *r, uint64_t seed);
uint64_t rng_u64(struct rng *r);
/* Uniform in 0 .. bound-1; bound > 0. */
uint64_t rng_below(struct rng *r, uint64_t bound);
/* Uniform in low .. high, both included. */
int64_t rng_between(struct rng *r, int64_t low, int64_t high);
/* True in `per_mille` of 1000 cases. */
bool rng_chance(struct rng *r, uint32_t per_mille);
void rng_fill(struct rng *r, void *ptr, size_t len);

#endif
