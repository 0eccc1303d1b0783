/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"

#include "base/poison.h"
#include "base/rng.h"
#include "test/lib/test.h"

/* Fails everything from now on that was not reserved. */
static void exhaust(struct mem *m)
{
    m->fail_at = 1;
    m->fail_forever = true;
}

/* A figure to report is right only when every take and give is in it. */
TEST(counts_what_is_taken)
{
    struct mem m;

    mem_init(&m, SIZE_MAX);
    void *a = mem_take(&m, 100);
    void *b = mem_take_zero(&m, 50);
    EXPECT_EQ(150, m.used);
    b = mem_resize(&m, b, 50, 500);
    EXPECT_EQ(600, m.used);
    b = mem_resize(&m, b, 500, 5);
    EXPECT_EQ(105, m.used);
    mem_give(&m, a, 100);
    mem_give(&m, NULL, 77);
    EXPECT_EQ(5, m.used);
    EXPECT_EQ(600, m.used_max);
    mem_give(&m, b, 5);
    EXPECT_EQ(0, m.used);
    mem_release(&m);
}

/* Zeroed memory is zero, also where something else was before. */
TEST(take_zero_is_zero_by_malloc_and_by_reserve)
{
    const uint8_t zero[64] = {0};

    for (int is_reserved = 0; is_reserved < 2; is_reserved++) {
        struct mem m;
        mem_init(&m, SIZE_MAX);
        EXPECT(mem_reserve(&m, 64));
        if (is_reserved) exhaust(&m);
        uint8_t *p = mem_take(&m, 64);
        memset(p, 0xee, 64);
        mem_give(&m, p, 64);
        p = mem_take_zero(&m, 64);
        EXPECT_BYTES(bytes_make(zero, 64), bytes_make(p, 64));
        mem_give(&m, p, 64);
        mem_release(&m);
    }
}

/* A limit refuses the take that would pass it, and that one only. */
TEST(the_limit_is_exact)
{
    struct mem m;

    mem_init(&m, 100);
    void *a = mem_take(&m, 60);
    EXPECT(a != NULL);
    EXPECT(mem_take(&m, 41) == NULL);
    EXPECT(mem_take_optional(&m, 41) == NULL);
    EXPECT(mem_resize(&m, a, 60, 101) == NULL);
    EXPECT(mem_take(&m, SIZE_MAX) == NULL);
    EXPECT_EQ(60, m.used);
    void *b = mem_take(&m, 40);
    EXPECT(b != NULL);
    a = mem_resize(&m, a, 60, 10);
    EXPECT(a != NULL);
    EXPECT_EQ(50, m.used);
    mem_give(&m, a, 10);
    mem_give(&m, b, 40);
    mem_release(&m);
}

/* Tests of other parts count on exactly the nth take failing, and on nothing else changing. */
TEST(the_nth_take_fails)
{
    struct mem m;

    mem_init(&m, SIZE_MAX);
    m.fail_at = 3;
    void *a = mem_take(&m, 10);
    void *b = mem_take(&m, 10);
    EXPECT(a != NULL);
    EXPECT(b != NULL);
    EXPECT(mem_resize(&m, b, 10, 20) == NULL);
    b = mem_resize(&m, b, 10, 20);
    EXPECT(b != NULL);
    m.fail_at = 1;
    m.fail_forever = true;
    EXPECT(mem_take(&m, 10) == NULL);
    EXPECT(mem_take_optional(&m, 10) == NULL);
    EXPECT(!mem_reserve(&m, 10));
    EXPECT_EQ(30, m.used);
    mem_give(&m, a, 10);
    mem_give(&m, b, 20);
    mem_release(&m);
}

/* The promise to the core: what was reserved can be taken, in any sizes, whatever the system
 * says. */
TEST(reserved_bytes_can_be_taken_without_memory)
{
    enum { TAKES_N = 64 };
    uint8_t *taken[TAKES_N];
    size_t sizes[TAKES_N];

    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct mem m;
        struct rng r;
        size_t total = 0;

        test_note("seed %llu", (unsigned long long)seed);
        rng_init(&r, seed);
        mem_init(&m, SIZE_MAX);
        for (size_t i = 0; i < TAKES_N; i++) {
            sizes[i] = 1 + (size_t)rng_below(&r, 200);
            total += (sizes[i] + MEM_ALIGNMENT - 1) / MEM_ALIGNMENT * MEM_ALIGNMENT;
        }
        EXPECT(mem_reserve(&m, total));
        exhaust(&m);
        for (size_t i = 0; i < TAKES_N; i++) {
            taken[i] = mem_take(&m, sizes[i]);
            EXPECT(taken[i] != NULL);
            EXPECT_EQ(0, (uintptr_t)taken[i] % MEM_ALIGNMENT);
            memset(taken[i], (int)i, sizes[i]);
        }
        EXPECT(mem_take(&m, 1) == NULL);
        for (size_t i = 0; i < TAKES_N; i++) {
            for (size_t at = 0; at < sizes[i]; at++) EXPECT_EQ(i, taken[i][at]);
            mem_give(&m, taken[i], sizes[i]);
        }
        EXPECT_EQ(0, m.used);
        mem_release(&m);
    }
}

/* Beyond the limit as well: a step that was let in ends. */
TEST(reserved_bytes_can_be_taken_beyond_the_limit)
{
    struct mem m;

    mem_init(&m, 100);
    EXPECT(mem_reserve(&m, 64));
    void *a = mem_take(&m, 100);
    void *b = mem_take(&m, 64);
    EXPECT(a != NULL);
    EXPECT(b != NULL);
    EXPECT_EQ(164, m.used);
    EXPECT(mem_take(&m, 1) == NULL);
    mem_give(&m, a, 100);
    mem_give(&m, b, 64);
    mem_release(&m);
}

/* Otherwise a partition at its limit would pass it again with every step. */
TEST(at_the_limit_the_next_reserve_waits_for_the_block)
{
    struct mem m;

    mem_init(&m, 100);
    EXPECT(mem_reserve(&m, 64));
    void *a = mem_take(&m, 100);
    EXPECT(mem_reserve(&m, 64));
    void *b = mem_take(&m, 10);
    EXPECT(b != NULL);
    EXPECT(!mem_reserve(&m, 64));
    EXPECT(mem_reserve(&m, 48)); /* as much is left of the block */
    mem_give(&m, b, 10);
    EXPECT(mem_reserve(&m, 64));
    mem_give(&m, a, 100);
    mem_release(&m);
}

/* In ordinary operation the block is set aside and stays whole. */
TEST(the_reserve_is_not_touched_while_there_is_memory)
{
    struct mem m;

    mem_init(&m, SIZE_MAX);
    EXPECT(mem_reserve(&m, 64));
    void *a = mem_take(&m, 64);
    exhaust(&m);
    void *b = mem_take(&m, 64);
    EXPECT(a != NULL);
    EXPECT(b != NULL);
    mem_give(&m, a, 64);
    mem_give(&m, b, 64);
    mem_release(&m);
}

/* What one can do without must not eat what others were promised. */
TEST(an_optional_take_leaves_the_reserve_alone)
{
    struct mem m;

    mem_init(&m, SIZE_MAX);
    EXPECT(mem_reserve(&m, 64));
    exhaust(&m);
    EXPECT(mem_take_optional(&m, 16) == NULL);
    void *a = mem_take(&m, 64);
    EXPECT(a != NULL);
    mem_give(&m, a, 64);
    mem_release(&m);
}

/* A block that still holds something is replaced, and freed with the last of it (or ASan tells). */
TEST(a_replaced_block_lives_as_long_as_something_in_it)
{
    struct mem m;

    mem_init(&m, SIZE_MAX);
    EXPECT(mem_reserve(&m, 64));
    m.fail_at = 1;
    char *a = mem_take(&m, 40);
    memset(a, 'a', 40);
    EXPECT(mem_reserve(&m, 64));
    m.fail_at = 1;
    char *b = mem_take(&m, 64);
    memset(b, 'b', 64);
    EXPECT(mem_reserve(&m, 1000));
    exhaust(&m);
    char *c = mem_take(&m, 1000);
    memset(c, 'c', 1000);

    mem_give(&m, b, 64); /* the one in the middle first */
    EXPECT_EQ('a', a[39]);
    EXPECT_EQ('c', c[0]);
    mem_give(&m, a, 40);
    EXPECT_EQ('c', c[999]);
    mem_give(&m, c, 1000);
    EXPECT(mem_reserve(
        &m, 1000)); /* the newest starts over: no new block, for which there is no memory */
    mem_release(&m);
}

/* Replacing an unused block must not lose the older ones behind it, which are in use. */
TEST(an_unused_block_is_replaced_and_older_ones_stay_known)
{
    struct mem m;

    mem_init(&m, SIZE_MAX);
    EXPECT(mem_reserve(&m, 64));
    m.fail_at = 1;
    void *a = mem_take(&m, 64);
    EXPECT(a != NULL);
    EXPECT(mem_reserve(&m, 64));
    EXPECT(mem_reserve(&m, 128));
    mem_give(&m, a, 64); /* free() would refuse it, if its block were forgotten */
    EXPECT_EQ(0, m.used);
    mem_release(&m);
}

/* A reserve that cannot be had changes nothing: the smaller one of before is still there. */
TEST(a_failed_reserve_keeps_the_old_block)
{
    struct mem m;

    mem_init(&m, SIZE_MAX);
    EXPECT(mem_reserve(&m, 64));
    exhaust(&m);
    EXPECT(!mem_reserve(&m, 65));
    EXPECT(!mem_reserve(&m, SIZE_MAX));
    EXPECT(mem_reserve(&m, 64));
    void *a = mem_take(&m, 64);
    EXPECT(a != NULL);
    mem_give(&m, a, 64);
    mem_release(&m);
}

/* A block moves from malloc to the reserve and back with its contents, as memory goes and comes. */
TEST(resize_keeps_the_contents_across_the_reserve)
{
    struct mem m;

    mem_init(&m, SIZE_MAX);
    EXPECT(mem_reserve(&m, 256));
    char *p = mem_take(&m, 10);
    memcpy(p, "012345678", 10);
    m.fail_at = 1;
    p = mem_resize(&m, p, 10, 100); /* into the reserve */
    EXPECT_TEXT("012345678", p);
    m.fail_at = 1;
    p = mem_resize(&m, p, 100,
                   250); /* as its newest take it grows in place: 100 + 250 do not fit */
    EXPECT(p != NULL);
    EXPECT_TEXT("012345678", p);
    m.fail_at = 1;
    EXPECT(mem_resize(&m, p, 250, 257) == NULL);
    EXPECT_TEXT("012345678", p);
    p = mem_resize(&m, p, 250, 1000); /* out of it */
    EXPECT_TEXT("012345678", p);
    EXPECT_EQ(1000, m.used);
    m.fail_at = 1;
    char *q = mem_take(&m, 256); /* and all of it is free again */
    EXPECT(q != NULL);
    mem_give(&m, p, 1000);
    mem_give(&m, q, 256);
    mem_release(&m);
}

/* Growth ahead of need is for good times: from the reserve, only what is needed. */
TEST(grow_takes_its_wish_or_the_least)
{
    struct mem m;
    size_t size = 0;

    mem_init(&m, 1000);
    EXPECT(mem_reserve(&m, 64));
    void *a = mem_grow(&m, NULL, 0, 32, 500, &size);
    EXPECT(a != NULL);
    EXPECT_EQ(500, size);
    void *b = mem_grow(&m, NULL, 0, 32, 501, &size); /* the limit is in the way of the wish */
    EXPECT(b != NULL);
    EXPECT_EQ(32, size);
    exhaust(&m);
    void *c = mem_grow(&m, NULL, 0, 48, 64, &size);
    EXPECT(c != NULL);
    EXPECT_EQ(48, size);
    EXPECT_EQ(580, m.used);
    EXPECT(mem_grow(&m, NULL, 0, 17, 17, &size) == NULL);
    EXPECT_EQ(48, size);
    mem_give(&m, a, 500);
    mem_give(&m, b, 32);
    mem_give(&m, c, 48);
    mem_release(&m);
}

static void release_with_something_out(void)
{
    struct mem m;

    mem_init(&m, SIZE_MAX);
    (void)mem_take(&m, 1);
    mem_release(&m);
}

static void give_more_than_was_taken(void)
{
    struct mem m;

    mem_init(&m, SIZE_MAX);
    mem_give(&m, mem_take(&m, 1), 2);
}

/* A count that went wrong is noticed where it went wrong. */
TEST(misuse_stops_the_process)
{
    EXPECT_ABORT("m->used == 0", release_with_something_out);
    EXPECT_ABORT("m->used >= old_size", give_more_than_was_taken);
}

/* There is one, and it has no limit. */
TEST(the_process_has_a_mem)
{
    size_t used = mem_process()->used;

    void *p = mem_take(mem_process(), 1 << 20);
    EXPECT(p != NULL);
    EXPECT_EQ(used + (1 << 20), mem_process()->used);
    mem_give(mem_process(), p, 1 << 20);
}

/* Memory from the reserve is guarded like that from malloc: before the take and after the give. */
TEST(the_reserve_is_poisoned_where_nothing_is_taken)
{
#ifdef POISON_IS_ON
    struct mem m;

    mem_init(&m, SIZE_MAX);
    EXPECT(mem_reserve(&m, 64));
    exhaust(&m);
    uint8_t *p = mem_take(&m, 13);
    EXPECT(!__asan_address_is_poisoned(p + 12));
    EXPECT(__asan_address_is_poisoned(p + 13));
    mem_give(&m, p, 13);
    EXPECT(__asan_address_is_poisoned(p));
    mem_release(&m);
#else
    test_skip("built without AddressSanitizer");
#endif
}
