/* SPDX-License-Identifier: Apache-2.0
 *
 * The dispatcher alone, with queues of work that only exist as numbers here.
 */
#include "host/dispatcher.h"

#include "base/mem.h"
#include "test/lib/test.h"

#include <stdio.h>

#define PARTITIONS_N 3

static void deliver_nothing(struct worker *worker, const struct effect_work *work)
{
    (void)worker;
    (void)work;
}

struct bench {
    struct mem mem;
    struct dispatcher d;
    struct buffer key;
};

static void bench_init(struct bench *b)
{
    mem_init(&b->mem, SIZE_MAX);
    dispatcher_init(&b->d, &b->mem, PARTITIONS_N, (const uint64_t[]){1, 2});
    buffer_init(&b->key, &b->mem);
}

static void bench_release(struct bench *b)
{
    dispatcher_release(&b->d);
    buffer_release(&b->key);
    mem_release(&b->mem);
}

/* As the core writes it. */
static struct bytes key_of(struct bench *b, enum work_kind kind, const char *hub, const char *name,
                           const char *version)
{
    buffer_clear(&b->key);
    buffer_u8(&b->key, (uint8_t)kind);
    buffer_bytes(&b->key, bytes_of_text(hub));
    buffer_bytes(&b->key, bytes_of_text(name));
    buffer_bytes(&b->key, bytes_of_text(version));
    return buffer_view(&b->key);
}

static void ready(struct bench *b, uint32_t partition, enum work_kind kind, const char *name)
{
    EXPECT(dispatcher_ready(&b->d, partition, kind, key_of(b, kind, "hub", name, "")));
}

static struct worker worker_make(uint32_t turns, uint32_t tasks)
{
    return (struct worker){
        .hub = BYTES_LITERAL("hub"),
        .deliver = deliver_nothing,
        .turns_credit = turns,
        .tasks_credit = tasks,
    };
}

/* Takes once and finds work; NULL when there is nothing to take. */
static struct worker *take(struct bench *b, struct dispatch *out)
{
    if (!dispatcher_next(&b->d, out)) return NULL;
    dispatcher_taken(&b->d, out, true);
    return out->worker;
}

/* Work that nobody may have now stays, and is taken as soon as a worker with credit comes. */
TEST(work_waits_for_a_worker)
{
    struct bench b;
    struct dispatch got;
    bench_init(&b);
    ready(&b, 1, WORK_TASK, "pay");
    EXPECT(take(&b, &got) == NULL);

    struct worker w = worker_make(0, 1);
    EXPECT_STATUS(OK, dispatcher_attach(&b.d, &w));
    EXPECT(take(&b, &got) == &w);
    EXPECT_EQ(1, got.partition);
    EXPECT_EQ(WORK_TASK, got.kind);
    EXPECT_EQ(0, w.tasks_credit);
    EXPECT(take(&b, &got) == NULL);
    bench_release(&b);
}

/* Credit is the promise to a worker that it is not given more than it asked for. */
TEST(credit_is_never_exceeded)
{
    struct bench b;
    struct dispatch got;
    bench_init(&b);
    struct worker w = worker_make(2, 0);
    EXPECT_STATUS(OK, dispatcher_attach(&b.d, &w));
    for (int i = 0; i < 5; i++) ready(&b, 0, WORK_TURN, "order");
    EXPECT(take(&b, &got) == &w);
    EXPECT(take(&b, &got) == &w);
    EXPECT(take(&b, &got) == NULL);
    EXPECT_STATUS(OK, dispatcher_credit(&b.d, &w, 1, 0, 0));
    EXPECT(take(&b, &got) == &w);
    EXPECT(take(&b, &got) == NULL);
    bench_release(&b);
}

/* No worker, name or partition waits behind a busy one: each kind of turn goes round. */
TEST(everybody_gets_a_turn)
{
    struct bench b;
    struct dispatch got;
    bench_init(&b);
    struct worker w1 = worker_make(0, 10);
    struct worker w2 = worker_make(0, 10);
    EXPECT_STATUS(OK, dispatcher_attach(&b.d, &w1));
    EXPECT_STATUS(OK, dispatcher_attach(&b.d, &w2));
    for (int i = 0; i < 6; i++) ready(&b, 0, WORK_TASK, "busy");
    ready(&b, 2, WORK_TASK, "busy");
    ready(&b, 1, WORK_TASK, "rare");

    EXPECT(take(&b, &got) == &w1);
    EXPECT_EQ(0, got.partition);
    EXPECT(take(&b, &got) == &w2); /* another queue, another worker */
    EXPECT_EQ(1, got.partition);
    EXPECT(take(&b, &got) == &w1);
    EXPECT_EQ(2, got.partition); /* the other partition of the busy queue */
    EXPECT(take(&b, &got) == &w2);
    EXPECT_EQ(0, got.partition);
    bench_release(&b);
}

/* A worker is given only names and versions that it said it has, and nothing of other hubs. */
TEST(filters_decide)
{
    struct bench b;
    struct dispatch got;
    bench_init(&b);
    const struct bytes versions[] = {BYTES_LITERAL("1.0"), BYTES_LITERAL("1.1")};
    const struct worker_filter filters[] = {{.name = BYTES_LITERAL("pay")},
                                            {BYTES_LITERAL("ship"), versions, 2}};
    struct worker w = worker_make(10, 10);
    w.has_filters = true;
    w.task_filters = filters;
    w.task_filters_n = 2;
    EXPECT_STATUS(OK, dispatcher_attach(&b.d, &w));

    ready(&b, 0, WORK_TURN, "pay"); /* no turns at all are in its filters */
    ready(&b, 0, WORK_TASK, "bill");
    EXPECT(dispatcher_ready(&b.d, 0, WORK_TASK, key_of(&b, WORK_TASK, "hub", "ship", "2.0")));
    EXPECT(dispatcher_ready(&b.d, 0, WORK_TASK, key_of(&b, WORK_TASK, "other", "pay", "")));
    EXPECT(take(&b, &got) == NULL);

    EXPECT(dispatcher_ready(&b.d, 1, WORK_TASK, key_of(&b, WORK_TASK, "hub", "ship", "1.1")));
    EXPECT(dispatcher_ready(&b.d, 2, WORK_TASK, key_of(&b, WORK_TASK, "hub", "pay", "9")));
    EXPECT(take(&b, &got) == &w);
    EXPECT_EQ(1, got.partition);
    EXPECT(take(&b, &got) == &w);
    EXPECT_EQ(2, got.partition);
    EXPECT(take(&b, &got) == NULL);

    struct worker any = worker_make(10, 10);
    any.hub = BYTES_LITERAL("other");
    EXPECT_STATUS(OK, dispatcher_attach(&b.d, &any));
    EXPECT(take(&b, &got) == &any);
    EXPECT(take(&b, &got) == NULL);
    bench_release(&b);
}

/* Work vanishes when its instance ends: a take that finds none must not be repeated for ever, nor
 * cost credit. */
TEST(vanished_work_is_forgotten)
{
    struct bench b;
    struct dispatch got;
    bench_init(&b);
    struct worker w = worker_make(0, 1);
    EXPECT_STATUS(OK, dispatcher_attach(&b.d, &w));
    for (int i = 0; i < 3; i++) ready(&b, 0, WORK_TASK, "pay");
    ready(&b, 1, WORK_TASK, "pay");
    EXPECT(dispatcher_next(&b.d, &got));
    EXPECT_EQ(0, got.partition);
    dispatcher_taken(&b.d, &got, false);
    EXPECT_EQ(1, w.tasks_credit);
    EXPECT(take(&b, &got) == &w);
    EXPECT_EQ(1, got.partition);
    EXPECT_STATUS(OK, dispatcher_credit(&b.d, &w, 0, 1, 0));
    EXPECT(take(&b, &got) == NULL);
    bench_release(&b);
}

/* A worker that has left is given nothing, and is not found by the number that work on its way
 * carries. */
TEST(detached_worker_is_gone)
{
    struct bench b;
    struct dispatch got;
    bench_init(&b);
    struct worker w = worker_make(5, 5);
    EXPECT_STATUS(OK, dispatcher_attach(&b.d, &w));
    EXPECT_STATUS(E_EXISTS, dispatcher_attach(&b.d, &w));
    uint32_t id = w.id;
    EXPECT(id != 0);
    EXPECT(dispatcher_find(&b.d, id) == &w);
    EXPECT_STATUS(OK, dispatcher_detach(&b.d, &w));
    EXPECT_STATUS(E_NOT_FOUND, dispatcher_detach(&b.d, &w));
    EXPECT_STATUS(E_NOT_FOUND, dispatcher_credit(&b.d, &w, 1, 1, 0));
    EXPECT(dispatcher_find(&b.d, id) == NULL);
    ready(&b, 0, WORK_TURN, "order");
    EXPECT(take(&b, &got) == NULL);

    EXPECT_STATUS(OK, dispatcher_attach(&b.d, &w));
    EXPECT(w.id != id); /* answers to the old one must not be taken for the new one's */
    EXPECT(take(&b, &got) == &w);
    bench_release(&b);
}

/* Names come from clients: queues that are empty must not be kept without end. */
TEST(empty_queues_are_bounded)
{
    struct bench b;
    struct dispatch got;
    char name[32];
    bench_init(&b);
    struct worker w = worker_make(0, UINT32_MAX);
    EXPECT_STATUS(OK, dispatcher_attach(&b.d, &w));
    for (int i = 0; i < 5000; i++) {
        (void)snprintf(name, sizeof name, "name-%d", i);
        ready(&b, 0, WORK_TASK, name);
        EXPECT(take(&b, &got) == &w);
    }
    EXPECT(b.d.queues.n <= 1100);
    bench_release(&b);
}

/* Without memory for a new queue the caller must know: that work would never be given to
 * anybody. */
TEST(no_memory_for_a_queue_is_told)
{
    struct bench b;
    bench_init(&b);
    struct bytes key = key_of(&b, WORK_TASK, "hub", "pay", "");
    b.mem.fail_at = 1;
    EXPECT(!dispatcher_ready(&b.d, 0, WORK_TASK, key));
    EXPECT(dispatcher_ready(&b.d, 0, WORK_TASK, key));
    bench_release(&b);
}

/* Entities are offered by name alone, and to those who asked for that name. */
TEST(entities_have_filters_and_credit_of_their_own)
{
    struct bench b;
    struct dispatch got;
    struct worker_filter versions = {.name = BYTES_LITERAL("counter")};
    struct bytes one = BYTES_LITERAL("1.0");
    bench_init(&b);
    versions.versions = &one; /* say nothing here */
    versions.versions_n = 1;
    struct worker w = {.hub = BYTES_LITERAL("hub"),
                       .deliver = deliver_nothing,
                       .has_filters = true,
                       .entity_filters = &versions,
                       .entity_filters_n = 1,
                       .turns_credit = 9,
                       .tasks_credit = 9};
    EXPECT_STATUS(OK, dispatcher_attach(&b.d, &w));
    ready(&b, 0, WORK_ENTITY, "counter");
    ready(&b, 0, WORK_ENTITY, "other");
    ready(&b, 0, WORK_TASK, "counter");
    EXPECT(!dispatcher_next(&b.d, &got));
    EXPECT_STATUS(OK, dispatcher_credit(&b.d, &w, 0, 0, 1));
    EXPECT(dispatcher_next(&b.d, &got));
    EXPECT_EQ(WORK_ENTITY, got.kind);
    dispatcher_taken(&b.d, &got, true);
    EXPECT_EQ(0, w.entities_credit);
    EXPECT_STATUS(OK, dispatcher_credit(&b.d, &w, 0, 0, 1));
    EXPECT(!dispatcher_next(&b.d, &got)); /* nobody wants the others */
    bench_release(&b);
}

/* Gives the worker one step. */
static void give_step(struct bench *b)
{
    struct dispatch dispatch;

    ready(b, 0, WORK_TASK, "n");
    EXPECT(dispatcher_next(&b->d, &dispatch));
    dispatcher_taken(&b->d, &dispatch, true);
}

/* LockedBy is a name as long as somebody may ask: a poll ends when it is answered, and its step is
 * being worked on. Who was given nothing is forgotten, and so is the oldest of very many. S8 */
TEST(names_outlive_their_workers)
{
    struct bench b;
    char name[32];
    uint32_t first_id = 0;

    bench_init(&b);
    for (uint32_t n = 0; n < WORKERS_GONE_N + 10; n++) {
        struct worker idle = worker_make(0, 0);
        struct worker worker = worker_make(0, 1);
        (void)snprintf(name, sizeof name, "w-%u", n);
        idle.name = worker.name = bytes_of_text(name);
        EXPECT_STATUS(OK, dispatcher_attach(&b.d, &idle));
        EXPECT_STATUS(OK, dispatcher_attach(&b.d, &worker));
        give_step(&b);
        EXPECT_BYTES(bytes_of_text(name), dispatcher_name(&b.d, worker.id));
        EXPECT_STATUS(OK, dispatcher_detach(&b.d, &idle));
        EXPECT_STATUS(OK, dispatcher_detach(&b.d, &worker));
        EXPECT_BYTES(bytes_of_text(name), dispatcher_name(&b.d, worker.id));
        EXPECT_BYTES(BYTES_NONE, dispatcher_name(&b.d, idle.id));
        if (n == 0) first_id = worker.id;
        if (n == 9) EXPECT_BYTES(BYTES_LITERAL("w-0"), dispatcher_name(&b.d, first_id));
    }
    EXPECT_BYTES(BYTES_NONE, dispatcher_name(&b.d, first_id));
    EXPECT_BYTES(BYTES_NONE, dispatcher_name(&b.d, 0));
    bench_release(&b);
}

TEST(a_name_is_what_it_is_called_and_where_it_is)
{
    struct bench b;
    struct arena arena;
    char large[300];

    bench_init(&b);
    arena_init(&arena, &b.mem, 256);
    EXPECT_BYTES(BYTES_LITERAL("w at [::1]:5"),
                 worker_name_make(&arena, BYTES_LITERAL("w"), "[::1]:5"));
    EXPECT_BYTES(BYTES_LITERAL("w"), worker_name_make(&arena, BYTES_LITERAL("w"), ""));
    EXPECT_BYTES(BYTES_LITERAL("[::1]:5"), worker_name_make(&arena, BYTES_NONE, "[::1]:5"));
    EXPECT_BYTES(BYTES_NONE, worker_name_make(&arena, BYTES_NONE, ""));
    memset(large, 'x', sizeof large);
    struct bytes cut = worker_name_make(&arena, bytes_make(large, sizeof large), "[::1]:5");
    EXPECT_EQ(WORKER_NAME_SIZE_MAX, cut.len);
    EXPECT_BYTES(BYTES_LITERAL("xx at [::1]:5"), bytes_make(cut.ptr + cut.len - 13, 13));
    arena_release(&arena);
    bench_release(&b);
}
