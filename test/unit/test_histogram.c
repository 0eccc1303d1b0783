/* SPDX-License-Identifier: Apache-2.0 */
#include "base/histogram.h"

#include "base/rng.h"
#include "test/lib/test.h"

/* Static: too large for a comfortable stack frame. */
static struct histogram histogram;
static struct histogram other;

/* Before the first value there is nothing to say. */
TEST(empty_answers_zero)
{
    histogram_init(&histogram);
    EXPECT_EQ(0, histogram_at(&histogram, 500));
    EXPECT_EQ(0, histogram_at(&histogram, 1000));
}

/* Small values have a bucket each, so their percentiles are exact. */
TEST(small_values_are_exact)
{
    histogram_init(&histogram);
    for (uint64_t v = 1; v <= 10; v++) histogram_add(&histogram, v);
    EXPECT_EQ(1, histogram_at(&histogram, 0));
    EXPECT_EQ(1, histogram_at(&histogram, 100));
    EXPECT_EQ(2, histogram_at(&histogram, 101));
    EXPECT_EQ(5, histogram_at(&histogram, 500));
    EXPECT_EQ(10, histogram_at(&histogram, 1000));
    EXPECT_EQ(55, histogram.sum);
    EXPECT_EQ(10, histogram.n);
}

/* For every power of two and its neighbours, a median is never too low and at most 1/16 too
 * high. */
TEST(a_percentile_is_at_most_a_sixteenth_too_high)
{
    for (unsigned bit = 0; bit < 64; bit++) {
        for (uint64_t add = 0; add < 3; add++) {
            uint64_t value = (UINT64_C(1) << bit) + add - 1;
            test_note("bit %u, add %u", bit, (unsigned)add);
            histogram_init(&histogram);
            histogram_add(&histogram, value);
            histogram_add(&histogram, UINT64_MAX); /* so that max does not help */
            EXPECT(histogram_at(&histogram, 500) >= value);
            EXPECT(histogram_at(&histogram, 500) - value <= value / 16);
        }
    }
}

/* The largest value is remembered itself, up to the largest there is. */
TEST(the_maximum_is_exact)
{
    histogram_init(&histogram);
    histogram_add(&histogram, 1000001);
    EXPECT_EQ(1000001, histogram_at(&histogram, 1000));
    EXPECT_EQ(1000001, histogram_at(&histogram, 500));
    histogram_add(&histogram, UINT64_MAX);
    EXPECT(histogram_at(&histogram, 1000) == UINT64_MAX);
}

/* Of 1..100,000 each once, p50, p99 and p99.9 are known. */
TEST(percentiles_of_a_uniform_spread)
{
    const uint32_t asked[] = {10, 500, 990, 999};

    histogram_init(&histogram);
    for (uint64_t v = 1; v <= 100000; v++) histogram_add(&histogram, v);
    for (size_t i = 0; i < 4; i++) {
        uint64_t exact = UINT64_C(100) * asked[i];
        uint64_t got = histogram_at(&histogram, asked[i]);
        test_note("per mille %u: %llu", asked[i], (unsigned long long)got);
        EXPECT(got >= exact);
        EXPECT(got <= exact + exact / 16);
    }
}

/* Shards measure apart and report together: merging must equal having measured in one place. */
TEST(merged_is_the_same_as_measured_together)
{
    static struct histogram together;
    struct rng r;

    rng_init(&r, 1);
    histogram_init(&histogram);
    histogram_init(&other);
    histogram_init(&together);
    for (int i = 0; i < 1000; i++) {
        uint64_t value = rng_u64(&r) >> rng_below(&r, 64);
        histogram_add(i % 3 == 0 ? &histogram : &other, value);
        histogram_add(&together, value);
    }
    histogram_merge(&histogram, &other);
    EXPECT_EQ(0, memcmp(&histogram, &together, sizeof together));
}

/* A count up to a value never has what may lie above it, and misses at most that value's bucket. */
TEST(a_count_up_to_a_value_is_never_too_high)
{
    histogram_init(&histogram);
    EXPECT_EQ(0, histogram_count_to(&histogram, 100));
    for (uint64_t v = 1; v <= 1000; v++) histogram_add(&histogram, v);
    EXPECT_EQ(0, histogram_count_to(&histogram, 0));
    EXPECT_EQ(10, histogram_count_to(&histogram, 10));
    EXPECT_EQ(255, histogram_count_to(&histogram, 255)); /* the last of its bucket */
    for (uint64_t v = 1; v <= 2000; v++) {
        uint64_t count = histogram_count_to(&histogram, v);
        test_note("value %u", (unsigned)v);
        EXPECT(count <= v);
        EXPECT(count + v / 16 + 1 >= (v < 1000 ? v : 1000));
    }
    EXPECT_EQ(1000, histogram_count_to(&histogram, UINT64_MAX));
}
