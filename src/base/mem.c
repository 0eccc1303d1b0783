/* SPDX-License-Identifier: Apache-2.0
 *
 * Counted memory over malloc, with a reserve.
 *
 * The reserve is a list of blocks, newest first. Only the newest is taken from, by moving a mark
 * forward, and only when malloc, the limit or the test hook refused. What was taken keeps its block
 * alive, so:
 *   - the newest block starts over when nothing of it is in use any more;
 *   - an older one, replaced because too little of it was left, is freed then.
 * Hence every block but the newest is in use, and without any shortage there is one untouched
 * block.
 */
#include "base/mem.h"

#include "base/assert.h"
#include "base/poison.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct mem_reserve_block {
    struct mem_reserve_block *older;
    size_t size;   /* of data */
    size_t mark;   /* data before it was taken */
    size_t live_n; /* takes not given back */
    _Alignas(MEM_ALIGNMENT) uint8_t data[];
};

_Static_assert(MEM_ALIGNMENT >= _Alignof(max_align_t), "aligned for any type");

static size_t round_up(size_t size)
{
    return (size + MEM_ALIGNMENT - 1) & ~(size_t)(MEM_ALIGNMENT - 1);
}

void mem_init(struct mem *m, size_t limit) { *m = (struct mem){.limit = limit}; }

static void block_free(struct mem_reserve_block *b)
{
    assert(b->live_n == 0);
    unpoison(b->data, b->size);
    free(b);
}

void mem_release(struct mem *m)
{
    assert(m->used == 0);
    if (m->reserve == NULL) return;
    assert(m->reserve->older == NULL);
    block_free(m->reserve);
    m->reserve = NULL;
}

/* Whoever counts it down from 1 fails; then it stays 0. */
static bool is_any_time_to_fail(struct mem *m)
{
    uint64_t at = atomic_load(m->fail_any_at);

    while (at > 0 && !atomic_compare_exchange_weak(m->fail_any_at, &at, at - 1)) continue;
    return at == 1;
}

static bool is_time_to_fail(struct mem *m)
{
    if (m->fail_any_at != NULL && is_any_time_to_fail(m)) return true;
    if (m->fail_at == 0) return false;
    if (m->fail_at > 1) {
        m->fail_at--;
        return false;
    }
    if (!m->fail_forever) m->fail_at = 0;
    return true;
}

static bool is_within_limit(const struct mem *m, size_t more)
{
    if (more == 0) return true;
    return m->used <= m->limit && more <= m->limit - m->used;
}

static struct mem_reserve_block *block_new(size_t size)
{
    struct mem_reserve_block *b = malloc(sizeof *b + size);

    if (b == NULL) return NULL;
    b->older = NULL;
    b->size = size;
    b->mark = 0;
    b->live_n = 0;
    /* Touched now: memory the system only promised would be missing when it is needed. */
    memset(b->data, 0, size);
    poison(b->data, size);
    return b;
}

bool mem_reserve(struct mem *m, size_t size)
{
    if (size > SIZE_MAX / 2) return false;
    size = round_up(size);

    struct mem_reserve_block *newest = m->reserve;
    if (size == 0) return true;
    if (newest != NULL && newest->size - newest->mark >= size) return true;

    if (is_time_to_fail(m) || !is_within_limit(m, size)) return false;
    struct mem_reserve_block *b = block_new(size);
    if (b == NULL) return false;
    if (newest != NULL && newest->live_n == 0) {
        b->older = newest->older;
        block_free(newest);
    } else {
        b->older = newest;
    }
    m->reserve = b;
    return true;
}

/* The block that ptr was taken from; NULL when that was malloc. */
static struct mem_reserve_block *block_of(const struct mem *m, const void *ptr)
{
    struct mem_reserve_block *b = m->reserve;

    while (b != NULL && (uintptr_t)ptr - (uintptr_t)b->data >= b->size) b = b->older;
    return b;
}

static void block_give(struct mem *m, struct mem_reserve_block *b, void *ptr, size_t size)
{
    assert(b->live_n > 0);
    poison(ptr, size);
    if (--b->live_n > 0) return;
    if (b == m->reserve) {
        b->mark = 0;
        return;
    }

    struct mem_reserve_block **link = &m->reserve;
    while (*link != b) link = &(*link)->older;
    *link = b->older;
    block_free(b);
}

/* Gives back without counting. */
static void give(struct mem *m, void *ptr, size_t size)
{
    struct mem_reserve_block *b = block_of(m, ptr);

    if (b != NULL) {
        block_give(m, b, ptr, size);
    } else {
        free(ptr);
    }
}

/* Copies what both have to `to` and gives `from` back; answers `to`, of which NULL is no memory. */
static void *move(struct mem *m, void *to, size_t to_size, void *from, size_t from_size)
{
    if (to == NULL || from == NULL) return to;
    memcpy(to, from, from_size < to_size ? from_size : to_size);
    give(m, from, from_size);
    return to;
}

static void *resize_by_malloc(struct mem *m, void *ptr, size_t old_size, size_t new_size)
{
    if (!is_within_limit(m, new_size > old_size ? new_size - old_size : 0)) return NULL;
    if (block_of(m, ptr) == NULL) return realloc(ptr, new_size);
    return move(m, malloc(new_size), new_size, ptr, old_size);
}

/* The newest take grows where it is, so that a growing buffer does not use up the reserve. */
static bool resize_in_place(struct mem_reserve_block *b, void *ptr, size_t old_size,
                            size_t new_size)
{
    uint8_t *at = ptr;

    if (at == NULL || at + round_up(old_size) != b->data + b->mark) return false;
    size_t offset = (size_t)(at - b->data);
    if (b->size - offset < round_up(new_size)) return false;

    poison(at, old_size);
    unpoison(at, new_size);
    b->mark = offset + round_up(new_size);
    return true;
}

static void *resize_by_reserve(struct mem *m, void *ptr, size_t old_size, size_t new_size)
{
    struct mem_reserve_block *b = m->reserve;

    if (b == NULL || new_size > b->size) return NULL;
    if (block_of(m, ptr) == b && resize_in_place(b, ptr, old_size, new_size)) return ptr;

    size_t size = round_up(new_size);
    if (b->size - b->mark < size) return NULL;
    uint8_t *taken = b->data + b->mark;
    b->mark += size;
    b->live_n++;
    unpoison(taken, new_size);
    return move(m, taken, new_size, ptr, old_size);
}

static void count(struct mem *m, size_t old_size, size_t new_size)
{
    assert(m->used >= old_size);
    m->used = m->used - old_size + new_size;
    if (m->used > m->used_max) m->used_max = m->used;
}

void *mem_grow(struct mem *m, void *ptr, size_t old_size, size_t least, size_t wish,
               size_t *new_size)
{
    void *grown = NULL;
    size_t size = wish;

    assert(least > 0);
    assert(least <= wish);
    assert((ptr == NULL) == (old_size == 0));

    if (!is_time_to_fail(m)) {
        grown = resize_by_malloc(m, ptr, old_size, wish);
        if (grown == NULL && least < wish) {
            size = least;
            grown = resize_by_malloc(m, ptr, old_size, least);
        }
    }
    if (grown == NULL) {
        size = least;
        grown = resize_by_reserve(m, ptr, old_size, least);
    }
    if (grown == NULL) return NULL;

    count(m, old_size, size);
    *new_size = size;
    return grown;
}

void *mem_resize(struct mem *m, void *ptr, size_t old_size, size_t new_size)
{
    return mem_grow(m, ptr, old_size, new_size, new_size, &new_size);
}

void *mem_take(struct mem *m, size_t size) { return mem_resize(m, NULL, 0, size); }

void *mem_take_zero(struct mem *m, size_t size)
{
    void *taken = mem_take(m, size);

    if (taken != NULL) memset(taken, 0, size);
    return taken;
}

void *mem_take_optional(struct mem *m, size_t size)
{
    assert(size > 0);
    if (is_time_to_fail(m)) return NULL;

    void *taken = resize_by_malloc(m, NULL, 0, size);
    if (taken != NULL) count(m, 0, size);
    return taken;
}

void mem_give(struct mem *m, void *ptr, size_t size)
{
    if (ptr == NULL) return;
    count(m, size, 0);
    give(m, ptr, size);
}

struct mem *mem_process(void)
{
    static struct mem process = {.limit = SIZE_MAX};

    return &process;
}
