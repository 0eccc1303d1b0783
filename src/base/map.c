/* SPDX-License-Identifier: Apache-2.0
 *
 * Chained hash table. It doubles when there are more nodes than slots; when that finds no memory,
 * the next insertion tries again and meanwhile chains are longer. The table never shrinks: a
 * partition that was once full will be again. A map of one node needs no table at all.
 */
#include "base/map.h"

#include "base/assert.h"
#include "base/mem.h"
#include "base/siphash.h"

#define SLOTS_N_MIN 16

void map_init(struct map *m, struct mem *mem, uint64_t seed0, uint64_t seed1)
{
    *m = (struct map){.mem = mem, .slots_n = 1, .seed = {seed0, seed1}};
}

void map_release(struct map *m)
{
    if (m->slots != NULL) mem_give(m->mem, m->slots, m->slots_n * sizeof *m->slots);
    map_init(m, m->mem, m->seed[0], m->seed[1]);
}

/* The slot of a hash: where its chain begins. */
static struct map_node **slot_of(struct map *m, uint64_t hash)
{
    return m->slots == NULL ? &m->only_slot : &m->slots[hash & (m->slots_n - 1)];
}

static struct map_node *find(const struct map *m, uint64_t hash, struct bytes key)
{
    const struct map_node *node =
        m->slots == NULL ? m->only_slot : m->slots[hash & (m->slots_n - 1)];

    while (node != NULL && !(node->hash == hash && bytes_equal(node->key, key))) node = node->next;
    return (struct map_node *)node;
}

struct map_node *map_search(const struct map *m, struct bytes key)
{
    if (m->n == 0) return NULL;
    return map_find_hashed(m, siphash64(m->seed, key), key);
}

uint64_t map_hash(const struct map *m, struct bytes key) { return siphash64(m->seed, key); }

struct map_node *map_find_hashed(const struct map *m, uint64_t hash, struct bytes key)
{
    if (m->n == 0) return NULL;
    struct map_node *node = find(m, hash, key);
    if (node != NULL) ((struct map *)m)->recent = node; /* a map belongs to one thread */
    return node;
}

const struct map_node *map_likely(const struct map *m, uint64_t hash)
{
    if (m->slots == NULL) return m->only_slot;
    return m->slots[hash & (m->slots_n - 1)];
}

void map_prefetch(const struct map *m, uint64_t hash)
{
    if (m->slots != NULL) __builtin_prefetch(&m->slots[hash & (m->slots_n - 1)]);
}

static void put(struct map *m, struct map_node *node)
{
    struct map_node **slot = slot_of(m, node->hash);

    node->next = *slot;
    *slot = node;
}

static void put_chain(struct map *m, struct map_node *node)
{
    while (node != NULL) {
        struct map_node *next = node->next;
        put(m, node);
        node = next;
    }
}

/* Leaves everything as it was when there is no memory. */
static void grow(struct map *m)
{
    struct map_node **old = m->slots;
    size_t old_n = m->slots_n;
    size_t slots_n = old == NULL ? SLOTS_N_MIN : old_n * 2;
    size_t size = slots_n * sizeof *old;

    /* Never from the reserve: that is for what a step cannot do without. */
    struct map_node **slots = mem_take_optional(m->mem, size);
    if (slots == NULL) return;
    memset(slots, 0, size);

    m->slots = slots;
    m->slots_n = slots_n;
    if (old == NULL) {
        put_chain(m, m->only_slot);
        m->only_slot = NULL;
        return;
    }
    for (size_t i = 0; i < old_n; i++) put_chain(m, old[i]);
    mem_give(m->mem, old, old_n * sizeof *old);
}

void map_insert(struct map *m, struct map_node *node)
{
    map_insert_hashed(m, siphash64(m->seed, node->key), node);
}

void map_insert_hashed(struct map *m, uint64_t hash, struct map_node *node)
{
    node->hash = hash;
    assert(find(m, node->hash, node->key) == NULL);

    if (m->n >= m->slots_n) grow(m);
    put(m, node);
    m->recent = node;
    m->n++;
}

void map_remove(struct map *m, struct map_node *node)
{
    struct map_node **link = slot_of(m, node->hash);

    while (*link != node) {
        assert(*link != NULL); /* otherwise the node is not in this map */
        link = &(*link)->next;
    }
    *link = node->next;
    node->next = NULL;
    if (m->recent == node) m->recent = NULL;
    assert(m->n > 0);
    m->n--;
}
