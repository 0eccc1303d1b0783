/* SPDX-License-Identifier: Apache-2.0
 *
 * A pairing heap: each node has a list of children none of which is before it. Joining two heaps is
 * one comparison, and the work is done when the smallest is taken: its children are joined in pairs
 * from left to right, then the pairs from right to left, which is what makes it O(log n) amortised.
 *
 * Why not an array: it would have to grow, and a push that can fail cannot be undone in mid-step.
 * No recursion: a heap may be as deep as it has nodes.
 *
 * Links: `prev` is the left sibling, or the parent for a first child. Hence x is a first child
 * exactly when x->prev->child == x.
 */
#include "base/heap.h"

#include "base/assert.h"

#include <stddef.h>

void heap_init(struct heap *h)
{
    h->root = NULL;
    h->n = 0;
}

void heap_node_init(struct heap_node *node) { *node = (struct heap_node){0}; }

static bool is_before(const struct heap_node *a, const struct heap_node *b)
{
    if (a->key != b->key) return a->key < b->key;
    assert(a->order != b->order);
    return a->order < b->order;
}

/* Joins two roots (without siblings) and answers the one that is now above. */
static struct heap_node *join(struct heap_node *a, struct heap_node *b)
{
    if (a == NULL) return b;
    if (b == NULL) return a;
    assert(a->prev == NULL);
    assert(b->prev == NULL);

    struct heap_node *above = is_before(a, b) ? a : b;
    struct heap_node *below = above == a ? b : a;
    below->prev = above;
    below->next = above->child;
    if (below->next != NULL) below->next->prev = below;
    above->child = below;
    return above;
}

/* Cuts the first sibling off *rest and makes it a root; NULL when there is none. */
static struct heap_node *cut_first(struct heap_node **rest)
{
    struct heap_node *first = *rest;

    if (first == NULL) return NULL;
    *rest = first->next;
    first->next = NULL;
    first->prev = NULL;
    return first;
}

/* Makes one heap of a list of siblings. */
static struct heap_node *join_siblings(struct heap_node *first)
{
    struct heap_node *pairs = NULL; /* newest pair first, linked by next */
    struct heap_node *whole = NULL;

    while (first != NULL) {
        struct heap_node *left = cut_first(&first);
        struct heap_node *pair = join(left, cut_first(&first));
        pair->next = pairs;
        pairs = pair;
    }
    while (pairs != NULL) whole = join(whole, cut_first(&pairs));
    return whole;
}

void heap_push(struct heap *h, struct heap_node *node)
{
    assert(!node->is_linked);
    node->child = NULL;
    node->next = NULL;
    node->prev = NULL;
    node->is_linked = true;
    h->root = join(h->root, node);
    h->n++;
}

struct heap_node *heap_min(const struct heap *h) { return h->root; }

struct heap_node *heap_pop(struct heap *h)
{
    struct heap_node *min = h->root;

    if (min != NULL) heap_remove(h, min);
    return min;
}

/* Takes a node that is not a root, with all below it, out of its parent's list. */
static void cut(struct heap_node *node)
{
    if (node->prev->child == node) {
        node->prev->child = node->next;
    } else {
        assert(node->prev->next == node);
        node->prev->next = node->next;
    }
    if (node->next != NULL) node->next->prev = node->prev;
    node->next = NULL;
    node->prev = NULL;
}

void heap_remove(struct heap *h, struct heap_node *node)
{
    assert(node->is_linked);
    assert(h->n > 0);

    struct heap_node *below = join_siblings(node->child);
    if (node == h->root) {
        h->root = below;
    } else {
        assert(node->prev != NULL); /* a second root would be of another heap */
        cut(node);
        h->root = join(h->root, below);
    }
    node->child = NULL;
    node->is_linked = false;
    h->n--;
    assert((h->n == 0) == (h->root == NULL));
}
