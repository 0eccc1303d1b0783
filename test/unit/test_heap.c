/* SPDX-License-Identifier: Apache-2.0 */
#include "base/heap.h"

#include "base/rng.h"
#include "test/lib/test.h"

#define NODES_N 300

static struct heap_node make(int64_t key, uint64_t order)
{
    struct heap_node node;

    heap_node_init(&node);
    node.key = key;
    node.order = order;
    return node;
}

/* Timers come out by due time, those due together in the order given, never by address. */
TEST(comes_out_by_key_then_by_order)
{
    struct heap_node nodes[] = {make(5, 1), make(-3, 9), make(5, 0), make(0, 2), make(-3, 8)};
    const size_t expected[] = {4, 1, 3, 2, 0};
    struct heap h;

    heap_init(&h);
    for (size_t i = 0; i < 5; i++) heap_push(&h, &nodes[i]);
    for (size_t i = 0; i < 5; i++) {
        EXPECT(heap_min(&h) == &nodes[expected[i]]);
        EXPECT(heap_pop(&h) == &nodes[expected[i]]);
        EXPECT(!nodes[expected[i]].is_linked);
    }
    EXPECT_EQ(0, h.n);
}

/* Extremes must not overflow in a comparison. */
TEST(extreme_keys_are_ordered)
{
    struct heap_node last = make(INT64_MAX, 0);
    struct heap_node first = make(INT64_MIN, UINT64_MAX);
    struct heap h;

    heap_init(&h);
    EXPECT(heap_min(&h) == NULL);
    EXPECT(heap_pop(&h) == NULL);
    heap_push(&h, &last);
    heap_push(&h, &first);
    EXPECT(heap_pop(&h) == &first);
    EXPECT(heap_pop(&h) == &last);
}

/* The reference: looks at every node that is in. */
static struct heap_node *smallest(struct heap_node *nodes, uint64_t *n)
{
    struct heap_node *best = NULL;

    *n = 0;
    for (size_t i = 0; i < NODES_N; i++) {
        struct heap_node *node = &nodes[i];
        if (!node->is_linked) continue;
        ++*n;
        bool is_better = best == NULL || node->key < best->key ||
                         (node->key == best->key && node->order < best->order);
        if (is_better) best = node;
    }
    return best;
}

static void do_something(struct heap *h, struct heap_node *nodes, struct rng *r, uint64_t step)
{
    struct heap_node *node = &nodes[rng_below(r, NODES_N)];

    if (rng_chance(r, 300)) {
        (void)heap_pop(h);
    } else if (node->is_linked) {
        heap_remove(h, node);
    } else {
        node->key = rng_between(r, 0, 50); /* few keys: many ties */
        node->order = step;
        heap_push(h, node);
    }
}

/* Pushes, pops and removals from anywhere, in any order, must agree with a search of all nodes. */
TEST(agrees_with_a_sorted_reference)
{
    static struct heap_node nodes[NODES_N];

    for (uint64_t seed = 1; seed <= 5; seed++) {
        struct rng r;
        struct heap h;

        rng_init(&r, seed);
        heap_init(&h);
        for (size_t i = 0; i < NODES_N; i++) heap_node_init(&nodes[i]);
        for (uint64_t step = 0; step < 4000; step++) {
            uint64_t n;
            test_note("seed %llu, step %llu", (unsigned long long)seed, (unsigned long long)step);
            do_something(&h, nodes, &r, step);
            EXPECT(heap_min(&h) == smallest(nodes, &n));
            EXPECT_EQ(n, h.n);
        }
        for (uint64_t n = h.n; n > 0; n--) {
            uint64_t left_n;
            struct heap_node *expected = smallest(nodes, &left_n);
            EXPECT(heap_pop(&h) == expected);
        }
        EXPECT(heap_min(&h) == NULL);
    }
}

/* Descending pushes make a chain as deep as there are nodes, ascending ones a root as wide: neither
 * may need stack, and all must come out sorted. */
TEST(a_million_nodes_in_the_worst_shapes)
{
    enum { MANY_N = 1000000 };
    static struct heap_node nodes[MANY_N];

    for (int is_descending = 0; is_descending < 2; is_descending++) {
        struct heap h;
        heap_init(&h);
        for (int64_t i = 0; i < MANY_N; i++) {
            nodes[i] = make(is_descending ? -i : i, 0);
            heap_push(&h, &nodes[i]);
        }
        int64_t last_key = INT64_MIN;
        for (struct heap_node *node = heap_pop(&h); node != NULL; node = heap_pop(&h)) {
            EXPECT(node->key > last_key);
            last_key = node->key;
        }
        EXPECT_EQ(0, h.n);
    }
}

static void push_twice(void)
{
    struct heap_node node = make(1, 1);
    struct heap h;

    heap_init(&h);
    heap_push(&h, &node);
    heap_push(&h, &node);
}

static void push_equals(void)
{
    struct heap_node a = make(1, 1);
    struct heap_node b = make(1, 1);
    struct heap h;

    heap_init(&h);
    heap_push(&h, &a);
    heap_push(&h, &b);
}

static void remove_unlinked(void)
{
    struct heap_node node = make(1, 1);
    struct heap h;

    heap_init(&h);
    heap_remove(&h, &node);
}

/* Two nodes without an order between them would make a run depend on addresses. */
TEST(misuse_stops_the_process)
{
    EXPECT_ABORT("!node->is_linked", push_twice);
    EXPECT_ABORT("a->order != b->order", push_equals);
    EXPECT_ABORT("node->is_linked", remove_unlinked);
}
