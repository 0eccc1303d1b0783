/* SPDX-License-Identifier: Apache-2.0
 *
 * Values below 16 have a bucket each. Above, a bucket is named by the position of the value's
 * highest bit and the four bits after it: 60 powers of two with 16 buckets each.
 */
#include "base/histogram.h"

#include "base/assert.h"

#include <string.h>

#define STEPS 16 /* buckets per power of two */
#define STEPS_BITS 4

_Static_assert(1 << STEPS_BITS == STEPS, "steps are addressed by bits");
_Static_assert(HISTOGRAM_BUCKETS == STEPS + (64 - STEPS_BITS) * STEPS, "every value has a bucket");

static unsigned bucket_of(uint64_t value)
{
    if (value < STEPS) return (unsigned)value;

    unsigned shift = 63 - (unsigned)__builtin_clzll(value) - STEPS_BITS;
    return STEPS + shift * STEPS + (unsigned)(value >> shift) % STEPS;
}

/* The largest value in a bucket. */
static uint64_t bucket_last(unsigned bucket)
{
    if (bucket < STEPS) return bucket;

    unsigned shift = (bucket - STEPS) / STEPS;
    uint64_t next = STEPS + bucket % STEPS + 1;
    return (next << shift) - 1; /* of the last bucket: 2^64 - 1, by wrapping */
}

void histogram_init(struct histogram *h) { memset(h, 0, sizeof *h); }

void histogram_add(struct histogram *h, uint64_t value)
{
    h->n++;
    h->sum += value;
    if (value > h->max) h->max = value;
    h->buckets[bucket_of(value)]++;
}

void histogram_merge(struct histogram *into, const struct histogram *from)
{
    into->n += from->n;
    into->sum += from->sum;
    if (from->max > into->max) into->max = from->max;
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) into->buckets[i] += from->buckets[i];
}

uint64_t histogram_at(const struct histogram *h, uint32_t per_mille)
{
    assert(per_mille <= 1000);
    if (h->n == 0) return 0;

    /* How many values lie at or below the answer: rounded up, in two parts that cannot overflow. */
    uint64_t rank = h->n / 1000 * per_mille + (h->n % 1000 * per_mille + 999) / 1000;
    uint64_t seen = 0;
    unsigned bucket = 0;

    if (rank == 0) rank = 1;
    while ((seen += h->buckets[bucket]) < rank) {
        bucket++;
        assert(bucket < HISTOGRAM_BUCKETS);
    }
    uint64_t last = bucket_last(bucket);
    return last < h->max ? last : h->max;
}

uint64_t histogram_count_to(const struct histogram *h, uint64_t value)
{
    unsigned own = bucket_of(value);
    uint64_t count = 0;

    for (unsigned bucket = 0; bucket < own; bucket++) count += h->buckets[bucket];
    return bucket_last(own) == value ? count + h->buckets[own] : count;
}
