/* SPDX-License-Identifier: Apache-2.0 */
#include "base/rng.h"

#include "test/lib/test.h"

/* The published first outputs of xoshiro256** from the state 1, 2, 3, 4: it is that generator. */
TEST(outputs_are_those_of_xoshiro256starstar)
{
    const uint64_t expected[] = {
        UINT64_C(11520),
        UINT64_C(0),
        UINT64_C(1509978240),
        UINT64_C(1215971899390074240),
        UINT64_C(1216172134540287360),
        UINT64_C(607988272756665600),
        UINT64_C(16172922978634559625),
        UINT64_C(8476171486693032832),
    };
    struct rng r = {{1, 2, 3, 4}};

    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        test_note("output %zu", i);
        EXPECT_EQ(expected[i], rng_u64(&r));
    }
}

/* The published first outputs of splitmix64 from 0: a kept seed must mean the same for ever. */
TEST(a_seed_is_spread_by_splitmix64)
{
    struct rng r;

    rng_init(&r, 0);
    EXPECT_EQ(UINT64_C(0xe220a8397b1dcdaf), r.state[0]);
    EXPECT_EQ(UINT64_C(0x6e789e6aa1b965f4), r.state[1]);
    EXPECT_EQ(UINT64_C(0x06c45d188009454f), r.state[2]);
    EXPECT_EQ(UINT64_C(0xf88bb8a8724c81ec), r.state[3]);
}

/* A failing seed must fail again; its neighbour must be another run. */
TEST(the_seed_decides_the_sequence)
{
    struct rng a;
    struct rng b;
    struct rng other;

    rng_init(&a, 17);
    rng_init(&b, 17);
    rng_init(&other, 18);
    for (int i = 0; i < 100; i++) {
        uint64_t value = rng_u64(&a);
        EXPECT_EQ(value, rng_u64(&b));
        EXPECT(value != rng_u64(&other));
    }
}

/* Each of 10 results must come up about as often: 100,000 draws, five standard deviations. */
TEST(below_is_uniform_and_in_range)
{
    struct rng r;
    unsigned seen[10] = {0};

    rng_init(&r, 1);
    for (int i = 0; i < 100000; i++) {
        uint64_t value = rng_below(&r, 10);
        EXPECT(value < 10);
        seen[value]++;
    }
    for (size_t i = 0; i < 10; i++) {
        test_note("value %zu came %u times", i, seen[i]);
        EXPECT(seen[i] > 10000 - 475);
        EXPECT(seen[i] < 10000 + 475);
    }
}

/* Taking a remainder alone would make the lower half twice as likely as the rest at this bound. */
TEST(below_has_no_bias_at_a_large_bound)
{
    const uint64_t bound = UINT64_C(3) << 62;
    struct rng r;
    int low_n = 0;

    rng_init(&r, 2);
    for (int i = 0; i < 30000; i++) low_n += rng_below(&r, bound) < bound / 3;
    test_note("%d of 30000 in the lowest third", low_n);
    EXPECT(low_n > 9600);
    EXPECT(low_n < 10400);
}

/* Both ends are included, negative numbers too, and the widest range does not overflow. */
TEST(between_reaches_both_ends)
{
    struct rng r;
    bool has_low = false;
    bool has_high = false;

    rng_init(&r, 3);
    for (int i = 0; i < 1000; i++) {
        int64_t value = rng_between(&r, -2, 2);
        EXPECT(value >= -2);
        EXPECT(value <= 2);
        has_low = has_low || value == -2;
        has_high = has_high || value == 2;
    }
    EXPECT(has_low);
    EXPECT(has_high);
    EXPECT_EQ(7, rng_between(&r, 7, 7));

    int negative_n = 0;
    for (int i = 0; i < 1000; i++) negative_n += rng_between(&r, INT64_MIN, INT64_MAX) < 0;
    EXPECT(negative_n > 400);
    EXPECT(negative_n < 600);
}

/* A fault with chance 0 never happens, with 1000 always, and between in proportion. */
TEST(chance_is_per_mille)
{
    struct rng r;
    int n = 0;

    rng_init(&r, 4);
    for (int i = 0; i < 1000; i++) {
        EXPECT(!rng_chance(&r, 0));
        EXPECT(rng_chance(&r, 1000));
    }
    for (int i = 0; i < 100000; i++) n += rng_chance(&r, 250);
    test_note("%d of 100000", n);
    EXPECT(n > 24300);
    EXPECT(n < 25700);
}

/* A fill is the same sequence as the words, cut off at the length and not beyond. */
TEST(fill_writes_the_sequence_and_no_more)
{
    struct rng a;
    struct rng b;
    uint8_t filled[12] = {0};
    uint8_t words[16];

    rng_init(&a, 5);
    rng_init(&b, 5);
    rng_fill(&a, filled, 11);
    store_u64(words, rng_u64(&b));
    store_u64(words + 8, rng_u64(&b));
    EXPECT_BYTES(bytes_make(words, 11), bytes_make(filled, 11));
    EXPECT_EQ(0, filled[11]);
}
