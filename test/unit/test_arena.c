/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"

#include "base/mem.h"
#include "base/poison.h"
#include "base/rng.h"
#include "test/lib/test.h"

/* Objects of all sizes, alive together, must be aligned and not overlap. */
TEST(objects_are_aligned_and_apart)
{
    enum { OBJECTS_N = 500 };
    static uint8_t *objects[OBJECTS_N];
    static size_t sizes[OBJECTS_N];
    struct mem mem;
    struct arena a;
    struct rng r;

    rng_init(&r, 1);
    mem_init(&mem, SIZE_MAX);
    arena_init(&a, &mem, 64);
    for (size_t i = 0; i < OBJECTS_N; i++) {
        sizes[i] = (size_t)rng_below(&r, rng_chance(&r, 20) ? 5000 : 50);
        objects[i] = arena_alloc(&a, sizes[i]);
        EXPECT(objects[i] != NULL);
        EXPECT_EQ(0, (uintptr_t)objects[i] % 8);
        memset(objects[i], (int)(i % 251), sizes[i]);
    }
    for (size_t i = 0; i < OBJECTS_N; i++) {
        test_note("object %zu", i);
        for (size_t at = 0; at < sizes[i]; at++) EXPECT_EQ(i % 251, objects[i][at]);
    }
    arena_release(&a);
    mem_release(&mem);
}

/* An instance that needs nothing costs nothing, and what it costs is what mem counted. */
TEST(takes_no_memory_before_the_first_object)
{
    struct mem mem;
    struct arena a;

    mem_init(&mem, SIZE_MAX);
    arena_init(&a, &mem, 512);
    arena_reset(&a);
    EXPECT_EQ(0, mem.used);
    EXPECT(arena_alloc(&a, 1) != NULL);
    EXPECT_EQ(512, mem.used);
    EXPECT_EQ(512, a.size);
    for (int i = 0; i < 1000; i++) EXPECT(arena_alloc(&a, 100) != NULL);
    EXPECT_EQ(mem.used, a.size);
    arena_release(&a);
    EXPECT_EQ(0, mem.used);
    EXPECT_EQ(0, a.size);
    mem_release(&mem);
}

/* Chunks double: 100 KB in objects of 100 bytes needs ten chunks or so, not a thousand. */
TEST(chunks_double)
{
    struct mem mem;
    struct arena a;

    mem_init(&mem, SIZE_MAX);
    arena_init(&a, &mem, 512);
    mem.fail_at = 1000;
    for (int i = 0; i < 1000; i++) EXPECT(arena_alloc(&a, 100) != NULL);
    test_note("%u chunks", 1000 - (unsigned)mem.fail_at);
    EXPECT(1000 - mem.fail_at >= 7);
    EXPECT(1000 - mem.fail_at <= 9);
    arena_release(&a);
    mem_release(&mem);
}

/* A batch arena is reset thousands of times a second: its chunks must serve again, the largest
 * first. */
TEST(reset_keeps_the_chunks)
{
    struct mem mem;
    struct arena a;

    mem_init(&mem, SIZE_MAX);
    arena_init(&a, &mem, 64);
    EXPECT(arena_alloc(&a, 30) != NULL);
    void *large = arena_alloc(&a, 9000);
    EXPECT(arena_alloc(&a, 1000) != NULL);
    size_t size = a.size;
    arena_reset(&a);
    EXPECT_EQ(size, a.size);
    EXPECT_EQ(a.size, mem.used);
    mem.fail_at = 1;
    mem.fail_forever = true;
    EXPECT(arena_alloc(&a, 9000) == large);
    EXPECT(arena_alloc(&a, 30) != NULL);
    EXPECT(arena_alloc(&a, 9000) == NULL); /* no chunk is left that has so much room */
    mem.fail_at = 0;
    mem.fail_forever = false;
    arena_release(&a);
    EXPECT_EQ(0, mem.used);
    EXPECT(arena_alloc(&a, 100) != NULL); /* usable after release, too */
    arena_release(&a);
    mem_release(&mem);
}

/* One huge batch must not hold its memory for ever. */
TEST(reset_of_a_large_arena_keeps_one_chunk)
{
    struct mem mem;
    struct arena a;

    mem_init(&mem, SIZE_MAX);
    arena_init(&a, &mem, 64);
    for (int i = 0; i < 20; i++) EXPECT(arena_alloc(&a, (size_t)1 << 20) != NULL);
    EXPECT(a.size > (size_t)20 << 20);
    arena_reset(&a);
    EXPECT(a.size < (size_t)3 << 20);
    EXPECT_EQ(a.size, mem.used);
    arena_release(&a);
    mem_release(&mem);
}

/* Without memory the answer is NULL, and the arena goes on working with what it has. */
TEST(no_memory_is_an_answer)
{
    struct mem mem;
    struct arena a;

    mem_init(&mem, 600);
    arena_init(&a, &mem, 512);
    EXPECT(arena_alloc(&a, 400) != NULL);
    EXPECT(arena_alloc(&a, 400) == NULL);
    EXPECT(arena_alloc_zero(&a, 400) == NULL);
    EXPECT(arena_copy(&a, bytes_make("", 400)).ptr == NULL);
    EXPECT(arena_text(&a, bytes_make("", 400)) == NULL);
    EXPECT(arena_alloc(&a, SIZE_MAX) == NULL);
    EXPECT(arena_text(&a, bytes_make("", SIZE_MAX)) == NULL);
    EXPECT(arena_alloc(&a, 90) != NULL);
    arena_release(&a);
    mem_release(&mem);
}

/* A large next chunk must not use up what the step's other takes were promised. */
TEST(from_the_reserve_a_chunk_is_as_small_as_its_object)
{
    struct mem mem;
    struct arena a;

    mem_init(&mem, SIZE_MAX);
    arena_init(&a, &mem, 4096);
    EXPECT(mem_reserve(&mem, 5000));
    mem.fail_at = 1;
    mem.fail_forever = true;
    EXPECT(arena_alloc(&a, 100) != NULL);
    EXPECT(a.size <= 128);
    void *rest = mem_take(&mem, 4800);
    EXPECT(rest != NULL);
    mem_give(&mem, rest, 4800);
    arena_release(&a);
    mem_release(&mem);
}

/* Copies have the contents and an address of their own; text ends with NUL. */
TEST(copies_are_copies)
{
    struct arena a;
    char source[] = "norn";

    arena_init(&a, mem_process(), 64);
    struct bytes copy = arena_copy(&a, bytes_of_text(source));
    char *text = arena_text(&a, bytes_of_text(source));
    source[0] = 'x';
    EXPECT_BYTES(BYTES_LITERAL("norn"), copy);
    EXPECT_TEXT("norn", text);
    EXPECT_TEXT("", arena_text(&a, BYTES_NONE));
    EXPECT(arena_copy(&a, BYTES_NONE).ptr == NULL);
    arena_release(&a);
}

/* Zeroed means zeroed, also where objects of before the reset were. */
TEST(alloc_zero_is_zero_after_reset)
{
    const uint8_t zero[48] = {0};
    struct arena a;

    arena_init(&a, mem_process(), 128);
    memset(arena_alloc(&a, 48), 0xff, 48);
    arena_reset(&a);
    EXPECT_BYTES(bytes_make(zero, 48), bytes_make(arena_alloc_zero(&a, 48), 48));
    arena_release(&a);
}

/* A borrow that outlives its batch must be found by the sanitizer, as a use after free would be. */
TEST(what_was_reset_is_poisoned)
{
#ifdef POISON_IS_ON
    struct arena a;

    arena_init(&a, mem_process(), 128);
    uint8_t *object = arena_alloc(&a, 13);
    EXPECT(!__asan_address_is_poisoned(object));
    EXPECT(!__asan_address_is_poisoned(object + 12));
    EXPECT(__asan_address_is_poisoned(object + 13)); /* nor may anything be touched beyond it */
    arena_reset(&a);
    EXPECT(__asan_address_is_poisoned(object));
    arena_release(&a);
#else
    test_skip("built without AddressSanitizer");
#endif
}
