/* SPDX-License-Identifier: Apache-2.0
 *
 * Latencies in buckets of 1/16 of their power of two: percentiles at most 1/16 too
 * high, fixed size, no memory.
 */
#ifndef BASE_HISTOGRAM_H
#define BASE_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_BUCKETS 976

struct histogram {
    uint64_t n;
    uint64_t max;
    uint64_t sum;
    uint64_t buckets[HISTOGRAM_BUCKETS];
};

void histogram_init(struct histogram *h);
void histogram_add(struct histogram *h, uint64_t value);
void histogram_merge(struct histogram *into, const struct histogram *from);
/* The value at or below which per_mille of 1000 lie: the upper edge of its bucket, or max when
 * that is less; 0 when empty. */
uint64_t histogram_at(const struct histogram *h, uint32_t per_mille);
/* How many are certainly at or below value: those of its own bucket only when value is its last. */
uint64_t histogram_count_to(const struct histogram *h, uint64_t value);

#endif
