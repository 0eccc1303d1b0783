/* SPDX-License-Identifier: Apache-2.0
 *
 * Counted memory. Every long-lived allocation of the engine goes through a `struct mem`, so that
 * each has a limit and a figure to report, and so that a test can fail the nth allocation.
 *
 * Why a reserve: the core must not fail half way through a step. The host calls mem_reserve()
 * before the step; from then on, takes up to that many bytes in all succeed, from a block set
 * aside, even when the system has no memory left. In ordinary operation the block is never touched.
 *
 * A mem belongs to one thread.
 */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mem_reserve_block;

struct mem {
    size_t used;     /* bytes taken and not given back */
    size_t used_max; /* high-water mark */
    size_t limit;    /* takes beyond it fail unless reserved; SIZE_MAX = none */
    /* Test hook: when not 0, counts down at each take; at 1 the system has no memory for this take,
     * which then fails unless it was reserved. A mem_reserve that needs a new block counts too. */
    uint64_t fail_at;
    bool fail_forever; /* once fail_at was reached, everything after fails too */
    /* The same hook, counted over all that share it, on whatever threads; NULL = none. */
    _Atomic uint64_t *fail_any_at;
    struct mem_reserve_block *reserve; /* newest first; see mem.c */
};

void mem_init(struct mem *m, size_t limit);
/* Everything must have been given back (asserted), the reserve is freed. */
void mem_release(struct mem *m);

/* From now on takes of `size` bytes in all cannot fail, beyond the limit or not (until the next
 * call of mem_reserve). A take counts with its size rounded up to MEM_ALIGNMENT, a resize with its
 * new size. False, and nothing promised, when that cannot be had. No new block is set aside beyond
 * the limit, only what is left of the old one can be promised again: so the limit is passed by one
 * block at most. */
#define MEM_ALIGNMENT 16
bool mem_reserve(struct mem *m, size_t size);

/* size > 0. NULL when there is neither memory nor reserve. Aligned for any type. Contents
 * undefined. */
void *mem_take(struct mem *m, size_t size);
void *mem_take_zero(struct mem *m, size_t size);
/* Never from the reserve: for what the caller can do without, such as a larger table. */
void *mem_take_optional(struct mem *m, size_t size);
/* size as it was taken; ptr may be NULL (then size is ignored). */
void mem_give(struct mem *m, void *ptr, size_t size);
/* Like realloc with both sizes; NULL leaves the old block as it was. */
void *mem_resize(struct mem *m, void *ptr, size_t old_size, size_t new_size);
/* Like mem_resize to `wish` bytes, for what grows ahead of its need; content with `least` (<= wish)
 * when memory is short, and from the reserve never more than that. *new_size says which it was. */
void *mem_grow(struct mem *m, void *ptr, size_t old_size, size_t least, size_t wish,
               size_t *new_size);

/* A process-wide mem without limit, for the main thread of tools and tests that need no count of
 * their own. */
struct mem *mem_process(void);

#endif
