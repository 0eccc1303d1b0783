/* SPDX-License-Identifier: Apache-2.0
 *
 * Open addressing with linear probing. The multiplier spreads ids in a row, which is how they come;
 * a worker that chooses colliding ones can make a search longer, but not by more than its own
 * answer is long.
 */
#include "core/id_set.h"

#include "base/assert.h"

#define SPREAD 0x9e3779b1u

void id_set_init(struct id_set *set, struct arena *arena, size_t n)
{
    assert(n < SIZE_MAX / 64); /* or the loop would not end */
    set->slots_n = 16;
    while (set->slots_n <= 2 * n) set->slots_n *= 2;
    set->slots = arena_alloc(arena, set->slots_n * sizeof *set->slots);
    assert(set->slots != NULL); /* reserved before the step */
    for (size_t i = 0; i < set->slots_n; i++) set->slots[i] = -1;
}

bool id_set_add(struct id_set *set, int32_t id)
{
    assert(id >= 0);
    assert((set->slots_n & (set->slots_n - 1)) == 0);
    size_t at = (uint32_t)id * SPREAD & (set->slots_n - 1);
    for (size_t probes = 0; set->slots[at] != -1; probes++) {
        assert(probes < set->slots_n); /* no more than were promised: there is a free one */
        if (set->slots[at] == id) return false;
        at = (at + 1) & (set->slots_n - 1);
    }
    set->slots[at] = id;
    return true;
}
