/* SPDX-License-Identifier: Apache-2.0 */
#include "base/map.h"

#include "base/mem.h"
#include "base/rng.h"
#include "test/lib/test.h"

#include <stdio.h>

#define ITEMS_N 3000

struct item {
    struct map_node node;
    bool is_in;
    char name[16];
};

static struct item items[ITEMS_N];

static void items_init(void)
{
    for (size_t i = 0; i < ITEMS_N; i++) {
        struct item *item = &items[i];
        *item = (struct item){0};
        (void)snprintf(item->name, sizeof item->name, "order-%zu", i);
        item->node.key = bytes_of_text(item->name);
    }
}

/* Every item is found exactly when it is in, and as itself. */
static void expect_all_found(const struct map *m)
{
    size_t n = 0;

    for (size_t i = 0; i < ITEMS_N; i++) {
        struct map_node *found = map_find(m, bytes_of_text(items[i].name));
        test_note("item %zu", i);
        EXPECT(found == (items[i].is_in ? &items[i].node : NULL));
        n += items[i].is_in;
    }
    EXPECT_EQ(n, m->n);
}

static void insert_all(struct map *m)
{
    for (size_t i = 0; i < ITEMS_N; i++) {
        map_insert(m, &items[i].node);
        items[i].is_in = true;
    }
}

/* Insertions and removals in any order, through several growths of the table. */
TEST(finds_what_is_in_and_nothing_else)
{
    struct mem mem;
    struct map m;
    struct rng r;

    items_init();
    rng_init(&r, 1);
    mem_init(&mem, SIZE_MAX);
    map_init(&m, &mem, 1, 2);
    expect_all_found(&m);
    for (int i = 0; i < 20000; i++) {
        struct item *item = &items[rng_below(&r, ITEMS_N)];
        if (item->is_in) {
            map_remove(&m, &item->node);
        } else {
            map_insert(&m, &item->node);
        }
        item->is_in = !item->is_in;
    }
    expect_all_found(&m);
    EXPECT(m.slots_n >= m.n / 2);
    map_release(&m);
    EXPECT_EQ(0, mem.used);
    mem_release(&mem);
}

/* An insertion in mid-step must succeed: without any table at first, and at each growth that
 * fails. */
TEST(works_without_memory)
{
    struct mem mem;
    struct map m;

    for (uint64_t fail_at = 1; fail_at <= 10; fail_at++) {
        items_init();
        mem_init(&mem, SIZE_MAX);
        mem.fail_at = fail_at;
        mem.fail_forever = true;
        map_init(&m, &mem, 1, 2);
        insert_all(&m);
        expect_all_found(&m);
        map_remove(&m, &items[7].node);
        items[7].is_in = false;
        expect_all_found(&m);
        map_release(&m);
        EXPECT_EQ(0, mem.used);
        mem_release(&mem);
    }
}

/* When memory is back, the table catches up with its nodes. */
TEST(grows_when_memory_is_back)
{
    struct mem mem;
    struct map m;

    items_init();
    mem_init(&mem, SIZE_MAX);
    mem.fail_at = 1;
    mem.fail_forever = true;
    map_init(&m, &mem, 1, 2);
    for (size_t i = 0; i < 1000; i++) map_insert(&m, &items[i].node);
    EXPECT_EQ(1, m.slots_n);
    mem.fail_at = 0;
    for (size_t i = 1000; i < 1010; i++) map_insert(&m, &items[i].node);
    EXPECT(m.slots_n >= m.n);
    for (size_t i = 0; i < 1010; i++) items[i].is_in = true;
    expect_all_found(&m);
    map_release(&m);
    mem_release(&mem);
}

/* A larger table is a comfort: it must not eat what a step was promised. */
TEST(growth_leaves_the_reserve_alone)
{
    struct mem mem;
    struct map m;

    items_init();
    mem_init(&mem, SIZE_MAX);
    EXPECT(mem_reserve(&mem, 1024));
    mem.fail_at = 1;
    mem.fail_forever = true;
    map_init(&m, &mem, 1, 2);
    insert_all(&m);
    void *promised = mem_take(&mem, 1024);
    EXPECT(promised != NULL);
    mem_give(&mem, promised, 1024);
    map_release(&m);
    mem_release(&mem);
}

/* Keys are bytes: empty, with NUL, and one the start of another are all different. */
TEST(keys_are_bytes)
{
    struct map_node nodes[4] = {
        {.key = BYTES_NONE},
        {.key = BYTES_LITERAL("\0")},
        {.key = BYTES_LITERAL("\0\0")},
        {.key = BYTES_LITERAL("\0a")},
    };
    struct map m;

    map_init(&m, mem_process(), 3, 4);
    for (size_t i = 0; i < 4; i++) map_insert(&m, &nodes[i]);
    for (size_t i = 0; i < 4; i++) EXPECT(map_find(&m, nodes[i].key) == &nodes[i]);
    EXPECT(map_find(&m, BYTES_LITERAL("a")) == NULL);
    EXPECT(map_find(&m, BYTES_LITERAL("")) == &nodes[0]);
    map_release(&m);
}

/* Who has the hash already gets the same answers. */
TEST(a_hash_can_be_carried)
{
    struct map_node nodes[100] = {0};
    char keys[100][8];
    struct map m;

    map_init(&m, mem_process(), 5, 6);
    EXPECT(map_find_hashed(&m, 0, BYTES_LITERAL("a")) == NULL);
    for (size_t i = 0; i < 100; i++) {
        (void)snprintf(keys[i], sizeof keys[i], "%zu", i);
        nodes[i].key = bytes_of_text(keys[i]);
        uint64_t hash = map_hash(&m, nodes[i].key);
        EXPECT(map_find_hashed(&m, hash, nodes[i].key) == NULL);
        map_insert_hashed(&m, hash, &nodes[i]);
    }
    for (size_t i = 0; i < 100; i++) {
        uint64_t hash = map_hash(&m, nodes[i].key);
        EXPECT_EQ(hash, nodes[i].hash);
        EXPECT(map_find_hashed(&m, hash, nodes[i].key) == &nodes[i]);
        EXPECT(map_find(&m, nodes[99 - i].key) == &nodes[99 - i]);
        EXPECT(map_find_hashed(&m, hash, BYTES_LITERAL("x")) == NULL);
    }
    map_release(&m);
}

static void insert_equal_keys(void)
{
    struct map_node a = {.key = BYTES_LITERAL("same")};
    struct map_node b = {.key = BYTES_LITERAL("same")};
    struct map m;

    map_init(&m, mem_process(), 1, 2);
    map_insert(&m, &a);
    map_insert(&m, &b);
}

static void remove_absent(void)
{
    struct map_node a = {.key = BYTES_LITERAL("a")};
    struct map m;

    map_init(&m, mem_process(), 1, 2);
    map_remove(&m, &a);
}

/* Two objects of one id would be two truths. */
TEST(misuse_stops_the_process)
{
    EXPECT_ABORT("== NULL", insert_equal_keys);
    EXPECT_ABORT("*link != NULL", remove_absent);
}
