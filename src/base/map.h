/* SPDX-License-Identifier: Apache-2.0
 *
 * Hash map whose nodes live inside the mapped objects. Keys are bytes that the object owns.
 * Insertion cannot fail: when the table cannot grow, chains get longer. There is no iteration on
 * purpose: its order would depend on the seed; who needs an order keeps a list or a heap beside the
 * map.
 */
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include "base/bytes.h"

struct mem;

struct map_node {
    struct map_node *next;
    uint64_t hash;
    struct bytes key; /* owned by the containing object, unchanged while mapped */
};

struct map {
    struct mem *mem;
    struct map_node *recent;    /* last one found or inserted: most look-ups come in runs */
    struct map_node **slots;    /* NULL until a second node came, or no memory for it */
    struct map_node *only_slot; /* the one chain while there is no table */
    size_t slots_n;             /* power of two; 1 without a table */
    size_t n;
    uint64_t seed[2]; /* keys come from outside: SipHash with a secret keeps chains short */
};

void map_init(struct map *m, struct mem *mem, uint64_t seed0, uint64_t seed1);
/* Frees the table; the objects are the caller's. */
void map_release(struct map *m);
/* The slow way of map_find(). */
struct map_node *map_search(const struct map *m, struct bytes key);
/* NULL when absent. */
static inline struct map_node *map_find(const struct map *m, struct bytes key)
{
    if (m->recent != NULL && bytes_equal(m->recent->key, key)) return m->recent;
    return map_search(m, key);
}
/* For who needs the same key more than once: the hash that the others take. */
uint64_t map_hash(const struct map *m, struct bytes key);
struct map_node *map_find_hashed(const struct map *m, uint64_t hash, struct bytes key);
/* For fetching ahead: where map_find_hashed() will look first (may be another node, or NULL), and
 * before that the table itself. */
const struct map_node *map_likely(const struct map *m, uint64_t hash);
void map_prefetch(const struct map *m, uint64_t hash);
/* node->key is set by the caller; no equal key may be present (asserted). */
void map_insert(struct map *m, struct map_node *node);
void map_insert_hashed(struct map *m, uint64_t hash, struct map_node *node);
/* node must be present. */
void map_remove(struct map *m, struct map_node *node);

#endif
