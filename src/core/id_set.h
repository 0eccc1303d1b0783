/* SPDX-License-Identifier: Apache-2.0
 *
 * A set of action ids, to find one that is used twice at once, in time that does not depend on how
 * a worker chose them.
 */
#ifndef CORE_ID_SET_H
#define CORE_ID_SET_H

#include "base/arena.h"

struct id_set {
    int32_t *slots; /* -1 = free; ids are not negative */
    size_t slots_n; /* power of two, more than twice the ids */
};

/* For up to n ids, in arena: 8 to 16 bytes for each. */
void id_set_init(struct id_set *set, struct arena *arena, size_t n);
/* False when it was there before. */
bool id_set_add(struct id_set *set, int32_t id);

#endif
