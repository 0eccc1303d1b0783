/* SPDX-License-Identifier: Apache-2.0
 *
 * Open addressing with linear probing, at most three quarters full. Removal moves the rest of the
 * chain back instead of leaving a mark, so that chains stay as short as if what left had never been
 * there.
 */
#include "host/filter.h"

#include "base/assert.h"
#include "base/mem.h"

#include <string.h>

#define SLOTS_N_MIN 64

void filter_init(struct filter *f, struct mem *mem) { *f = (struct filter){.mem = mem}; }

void filter_release(struct filter *f)
{
    if (f->slots != NULL) mem_give(f->mem, f->slots, f->slots_n * sizeof *f->slots);
    filter_init(f, f->mem);
}

void filter_clear(struct filter *f)
{
    if (f->n > 0 && f->slots != NULL) memset(f->slots, 0, f->slots_n * sizeof *f->slots);
    f->n = 0;
    f->is_blind = false;
}

/* 0 marks a free slot. */
static uint64_t value_of(uint64_t hash) { return hash == 0 ? 1 : hash; }

/* Where a value would be in an empty table. Multiplied, because the low bits of a hash may be
 * poor. */
static size_t home_of(const struct filter *f, uint64_t value)
{
    return (size_t)((value * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & (f->slots_n - 1);
}

static void put(struct filter *f, uint64_t value)
{
    size_t at = home_of(f, value);

    while (f->slots[at] != 0) at = (at + 1) & (f->slots_n - 1);
    f->slots[at] = value;
}

static bool grow(struct filter *f)
{
    uint64_t *old = f->slots;
    size_t old_n = f->slots_n;
    size_t slots_n = old_n == 0 ? SLOTS_N_MIN : old_n * 2;

    uint64_t *slots = mem_take_zero(f->mem, slots_n * sizeof *slots);
    if (slots == NULL) return false;
    f->slots = slots;
    f->slots_n = slots_n;
    for (size_t i = 0; i < old_n; i++) {
        if (old[i] != 0) put(f, old[i]);
    }
    if (old != NULL) mem_give(f->mem, old, old_n * sizeof *old);
    return true;
}

void filter_add(struct filter *f, uint64_t hash)
{
    f->n++;
    if (f->is_blind) return;
    if (f->n > f->slots_n / 4 * 3 && !grow(f)) {
        f->is_blind = true;
        return;
    }
    put(f, value_of(hash));
    assert(f->n < f->slots_n); /* a free slot ends every search */
}

/* The slot of one such value; slots_n when there is none. */
static size_t find(const struct filter *f, uint64_t value)
{
    if (f->slots_n == 0) return 0;
    for (size_t at = home_of(f, value); f->slots[at] != 0; at = (at + 1) & (f->slots_n - 1)) {
        if (f->slots[at] == value) return at;
    }
    return f->slots_n;
}

bool filter_has(const struct filter *f, uint64_t hash)
{
    return f->is_blind || find(f, value_of(hash)) < f->slots_n;
}

/* Closes the gap at `hole`: each later value of the chain whose home is not behind the hole moves
 * into it. */
static void close_gap(struct filter *f, size_t hole)
{
    size_t mask = f->slots_n - 1;

    for (size_t at = (hole + 1) & mask; f->slots[at] != 0; at = (at + 1) & mask) {
        size_t from_home = (at - home_of(f, f->slots[at])) & mask;
        size_t from_hole = (at - hole) & mask;
        if (from_home < from_hole) continue;
        f->slots[hole] = f->slots[at];
        hole = at;
    }
    f->slots[hole] = 0;
}

void filter_remove(struct filter *f, uint64_t hash)
{
    assert(f->n > 0);
    f->n--;
    if (f->is_blind) return;

    size_t at = find(f, value_of(hash));
    assert(at < f->slots_n); /* it was added */
    close_gap(f, at);
}
