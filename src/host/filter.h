/* SPDX-License-Identifier: Apache-2.0
 *
 * Which keys the archive may have: one 64-bit hash for each row (archive_key_hash), in memory, so
 * that a new id is known to be new without asking the disk. "No" is certain; "yes" means: look.
 *
 * A multiset: rows whose hashes are equal are there as often, so that removing one keeps the
 * others.
 */
#ifndef HOST_FILTER_H
#define HOST_FILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mem;

struct filter {
    struct mem *mem;
    uint64_t *slots; /* open addressing; 0 = free */
    size_t slots_n;  /* power of two, or 0 */
    size_t n;        /* rows: added and not removed */
    bool is_blind;   /* could not grow: answers "perhaps" to everything until it is cleared */
};

/* Takes no memory before the first addition. mem outlives the filter. */
void filter_init(struct filter *f, struct mem *mem);
void filter_release(struct filter *f);
/* Forgets everything and keeps the memory. */
void filter_clear(struct filter *f);

/* Cannot fail: without memory to grow, the filter becomes blind. */
void filter_add(struct filter *f, uint64_t hash);
/* Removes one of that hash, which must have been added. */
void filter_remove(struct filter *f, uint64_t hash);
/* False: certainly not among those added. */
bool filter_has(const struct filter *f, uint64_t hash);

#endif
