/* SPDX-License-Identifier: Apache-2.0
 *
 * Orchestrations between two turns, ready to go on. The one that was used longest ago leaves when
 * there are too many: its next turn makes it again from its history. Belongs to the thread of
 * turns.
 */
#ifndef LIB_HOT_H
#define LIB_HOT_H

#include "lib/orchestration.h"

struct hot {
    const struct link_work *expected; /* hot_expect(); NULL = none */
    uint64_t expected_hash;
    struct map by_id;
    struct list used; /* most recently first */
    size_t n_max;
};

void hot_init(struct hot *hot, struct mem *mem, size_t n_max);
/* Frees all of them. */
void hot_release(struct hot *hot);

/* Hints that this work comes next: with thousands of orchestrations, what it needs is in no cache.
 * First the one, and when that has had time to arrive, the other. */
void hot_expect(struct hot *hot, const struct link_work *work);
void hot_fetch(const struct hot *hot);
/* It is not taken after all. */
void hot_expect_none(struct hot *hot);

/* The one that can go on with this turn: the caller's from now on. NULL: there is none. One that
 * belongs to another execution or may have missed a turn is freed. */
struct orchestration *hot_take(struct hot *hot, const struct link_work *work);
/* Keeps it; perhaps another one leaves. base_next: see link_next_base(). */
void hot_put(struct hot *hot, struct orchestration *o, uint64_t base_next);
size_t hot_n(const struct hot *hot);

#endif
