/* SPDX-License-Identifier: Apache-2.0
 *
 * Priority queue whose nodes live inside the queued objects (a pairing heap): insertion allocates
 * nothing and cannot fail. Ties are broken by `order`, so that equal keys come out in the order
 * their owner chose and never by address.
 */
#ifndef BASE_HEAP_H
#define BASE_HEAP_H

#include <stdbool.h>
#include <stdint.h>

struct heap_node {
    int64_t key;    /* smallest first */
    uint64_t order; /* then smallest order first; unique among equal keys */
    struct heap_node *child;
    struct heap_node *next; /* sibling */
    struct heap_node *prev; /* sibling, or parent of the first child; NULL at the root */
    bool is_linked;
};

struct heap {
    struct heap_node *root;
    uint64_t n;
};

void heap_init(struct heap *h);
void heap_node_init(struct heap_node *node);
/* key and order are set by the caller before. */
void heap_push(struct heap *h, struct heap_node *node);
/* NULL when empty. */
struct heap_node *heap_min(const struct heap *h);
struct heap_node *heap_pop(struct heap *h);
/* node must be in h. */
void heap_remove(struct heap *h, struct heap_node *node);

#endif
