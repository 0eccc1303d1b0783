/* SPDX-License-Identifier: Apache-2.0
 *
 * The filter of keys in the archive: its "no" must be certain, whatever came and went.
 */
#include "host/filter.h"

#include "base/mem.h"
#include "base/rng.h"
#include "test/lib/test.h"

/* An empty archive has nothing: every new id must be started without asking the disk. */
TEST(empty_filter_knows_that_it_has_nothing)
{
    struct filter f;
    filter_init(&f, mem_process());
    EXPECT(!filter_has(&f, 0));
    EXPECT(!filter_has(&f, 17));
    EXPECT_EQ(0, f.n);
    filter_release(&f);
}

/* Against a plain array: a key that is there is never denied, and one that is not there is denied
 * but for equal hashes, through many additions, removals and growths. */
TEST(filter_agrees_with_a_plain_list)
{
    enum { KEYS_N = 3000 };
    static bool is_there[KEYS_N];
    static uint64_t hashes[KEYS_N];
    struct filter f;
    struct rng rng;
    size_t n = 0;

    filter_init(&f, mem_process());
    rng_init(&rng, 7);
    for (size_t i = 0; i < KEYS_N; i++) {
        hashes[i] = rng_u64(&rng);
        is_there[i] = false;
    }
    for (int round = 0; round < 40000; round++) {
        size_t i = rng_below(&rng, KEYS_N);
        if (is_there[i]) {
            filter_remove(&f, hashes[i]);
            n--;
        } else {
            filter_add(&f, hashes[i]);
            n++;
        }
        is_there[i] = !is_there[i];
        size_t other = rng_below(&rng, KEYS_N);
        test_note("round %d, key %zu", round, other);
        EXPECT(filter_has(&f, hashes[other]) == is_there[other]);
        EXPECT_EQ((int64_t)n, (int64_t)f.n);
    }
    for (size_t i = 0; i < KEYS_N; i++) EXPECT(filter_has(&f, hashes[i]) == is_there[i]);
    filter_release(&f);
}

/* Two keys may share a hash: purging one must not make the other look new, or it would be started
 * twice. */
TEST(equal_hashes_are_counted)
{
    struct filter f;
    filter_init(&f, mem_process());
    filter_add(&f, 99);
    filter_add(&f, 99);
    filter_add(&f, 0);
    filter_remove(&f, 99);
    EXPECT(filter_has(&f, 99));
    filter_remove(&f, 99);
    EXPECT(!filter_has(&f, 99));
    EXPECT(filter_has(&f, 0));
    filter_release(&f);
}

/* Chains that wrap around the end of the table survive a removal in their middle. */
TEST(removal_keeps_long_chains_together)
{
    struct filter f;
    filter_init(&f, mem_process());
    for (uint64_t i = 1; i <= 48; i++) filter_add(&f, i * UINT64_C(0x9e3779b97f4a7c15));
    for (uint64_t i = 2; i <= 48; i += 2) filter_remove(&f, i * UINT64_C(0x9e3779b97f4a7c15));
    for (uint64_t i = 1; i <= 48; i++) {
        EXPECT(filter_has(&f, i * UINT64_C(0x9e3779b97f4a7c15)) == (i % 2 == 1));
    }
    filter_release(&f);
}

/* Without memory to grow the filter must not forget: it says "perhaps" to everything. */
TEST(filter_without_memory_says_perhaps)
{
    struct mem mem;
    struct filter f;
    mem_init(&mem, 64 * sizeof(uint64_t));
    filter_init(&f, &mem);
    for (uint64_t i = 1; i <= 48; i++) filter_add(&f, i);
    EXPECT(!f.is_blind);
    EXPECT(!filter_has(&f, 1000));
    filter_add(&f, 49);
    EXPECT(f.is_blind);
    EXPECT(filter_has(&f, 49));
    EXPECT(filter_has(&f, 1000));
    filter_remove(&f, 49);
    EXPECT_EQ(48, f.n);
    filter_clear(&f);
    EXPECT(!filter_has(&f, 49));
    filter_release(&f);
    mem_release(&mem);
}
