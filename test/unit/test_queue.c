/* SPDX-License-Identifier: Apache-2.0 */
#include "base/queue.h"

#include "base/clock.h"
#include "test/lib/test.h"

#include <sched.h>

struct item {
    struct list node;
    unsigned sender;
    unsigned number;
};

static struct item make(unsigned number)
{
    struct item item = {.number = number};

    list_node_init(&item.node);
    return item;
}

static unsigned pop_number(struct list *taken)
{
    return container_of(list_pop_front(taken), struct item, node)->number;
}

/* Items come out in the order they went in, all at once, behind what the taker still has. */
TEST(takes_everything_in_order)
{
    struct item items[3] = {make(0), make(1), make(2)};
    struct list taken;
    struct queue q;

    queue_init(&q, 10);
    list_init(&taken);
    EXPECT(queue_push(&q, &items[0].node));
    EXPECT_EQ(1, queue_take_all(&q, &taken, 0));
    EXPECT(queue_push(&q, &items[1].node));
    EXPECT(queue_push(&q, &items[2].node));
    EXPECT_EQ(2, queue_take_all(&q, &taken, -1));
    for (unsigned i = 0; i < 3; i++) EXPECT_EQ(i, pop_number(&taken));
    EXPECT_EQ(0, queue_take_all(&q, &taken, 0));
    queue_release(&q);
}

/* Full is an answer, not a wait: the sender's back-pressure. The refused node stays the
 * sender's. */
TEST(a_full_queue_refuses)
{
    struct item items[3] = {make(0), make(1), make(2)};
    struct list taken;
    struct queue q;

    queue_init(&q, 2);
    list_init(&taken);
    EXPECT(queue_push(&q, &items[0].node));
    EXPECT(queue_push(&q, &items[1].node));
    EXPECT(!queue_push(&q, &items[2].node));
    EXPECT(!list_is_linked(&items[2].node));
    EXPECT_EQ(2, queue_take_all(&q, &taken, 0));
    EXPECT(queue_push(&q, &items[2].node));
    EXPECT_EQ(1, queue_take_all(&q, &taken, 0));
    queue_release(&q);
}

/* What is hidden counts as what is in the queue, but is taken only when it is shown: behind what
 * was pushed meanwhile, and all of it. */
TEST(what_is_hidden_is_taken_together)
{
    struct item items[5] = {make(0), make(1), make(2), make(3), make(4)};
    struct list taken;
    struct queue q;

    queue_init(&q, 4);
    list_init(&taken);
    EXPECT(queue_push_hidden(&q, &items[1].node));
    EXPECT(queue_push_hidden(&q, &items[2].node));
    EXPECT(queue_push(&q, &items[0].node));
    EXPECT_EQ(1, queue_take_all(&q, &taken, -1));
    EXPECT_EQ(0, queue_take_all(&q, &taken, 1));
    EXPECT(queue_push_hidden(&q, &items[3].node));
    EXPECT(queue_push(&q, &items[4].node));
    EXPECT_EQ(1, queue_take_all(&q, &taken, 0));
    queue_show(&q);
    EXPECT_EQ(3, queue_take_all(&q, &taken, -1));
    EXPECT_EQ(0, pop_number(&taken));
    EXPECT_EQ(4, pop_number(&taken));
    for (unsigned i = 1; i <= 3; i++) EXPECT_EQ(i, pop_number(&taken));
    EXPECT(queue_push_hidden(&q, &items[0].node));
    for (unsigned i = 1; i <= 3; i++) EXPECT(queue_push_hidden(&q, &items[i].node));
    EXPECT(!queue_push_hidden(&q, &items[4].node));
    queue_close(&q); /* nothing is forgotten */
    EXPECT_EQ(4, queue_take_all(&q, &taken, -1));
    queue_release(&q);
}

/* After closing, nothing goes in, and what was in can still be taken. */
TEST(a_closed_queue_refuses_and_can_be_emptied)
{
    struct item items[2] = {make(0), make(1)};
    struct list taken;
    struct queue q;

    queue_init(&q, 2);
    list_init(&taken);
    EXPECT(queue_push(&q, &items[0].node));
    EXPECT(!queue_is_closed(&q));
    queue_close(&q);
    EXPECT(queue_is_closed(&q));
    EXPECT(!queue_push(&q, &items[1].node));
    EXPECT_EQ(1, queue_take_all(&q, &taken, -1));
    EXPECT_EQ(0, queue_take_all(&q, &taken, -1)); /* returns at once */
    queue_release(&q);
}

/* A wake before the wait is not lost, and counts once. */
TEST(a_wake_is_remembered_once)
{
    struct list taken;
    struct queue q;

    queue_init(&q, 1);
    list_init(&taken);
    queue_wake(&q);
    EXPECT_EQ(0, queue_take_all(&q, &taken, -1)); /* would wait for ever if it were lost */
    EXPECT(!q.is_woken);
    queue_release(&q);
}

/* The taker is woken for the next timer by this: not before its time, and it does come back. */
TEST(a_wait_ends_with_its_timeout)
{
    struct list taken;
    struct queue q;

    queue_init(&q, 1);
    list_init(&taken);
    int64_t start_ns = clock_mono_ns();
    EXPECT_EQ(0, queue_take_all(&q, &taken, 2 * NS_PER_MS));
    EXPECT(clock_mono_ns() - start_ns >= 2 * NS_PER_MS);
    queue_wake(&q);
    EXPECT_EQ(0, queue_take_all(&q, &taken, INT64_MAX)); /* no overflow of the deadline */
    queue_release(&q);
}

/* ---- with threads ---- */

#define SENDERS_N 4
#define ITEMS_N 5000

static struct queue shared;
static struct item sent[SENDERS_N][ITEMS_N];

static void *send_all(void *user)
{
    struct item *items = user;

    for (unsigned i = 0; i < ITEMS_N; i++) {
        while (!queue_push(&shared, &items[i].node)) sched_yield();
    }
    return NULL;
}

static void start_senders(pthread_t threads[SENDERS_N])
{
    for (unsigned s = 0; s < SENDERS_N; s++) {
        for (unsigned i = 0; i < ITEMS_N; i++) {
            sent[s][i] = make(i);
            sent[s][i].sender = s;
        }
        EXPECT_EQ(0, pthread_create(&threads[s], NULL, send_all, sent[s]));
    }
}

/* Four threads push against a small bound: each item arrives once, each sender's in its order. */
TEST(nothing_is_lost_between_threads)
{
    pthread_t threads[SENDERS_N];
    unsigned next[SENDERS_N] = {0};
    size_t total = 0;
    struct list taken;

    queue_init(&shared, 64);
    list_init(&taken);
    start_senders(threads);
    while (total < (size_t)SENDERS_N * ITEMS_N) {
        size_t n = queue_take_all(&shared, &taken, -1);
        EXPECT(n > 0);
        EXPECT(n <= 64);
        total += n;
        for (; n > 0; n--) {
            struct item *item = container_of(list_pop_front(&taken), struct item, node);
            EXPECT_EQ(next[item->sender], item->number);
            next[item->sender]++;
        }
        EXPECT(list_is_empty(&taken));
    }
    for (unsigned s = 0; s < SENDERS_N; s++) EXPECT_EQ(0, pthread_join(threads[s], NULL));
    queue_release(&shared);
}

static void *close_shared(void *user)
{
    (void)user;
    queue_close(&shared);
    return NULL;
}

static void *wake_shared(void *user)
{
    (void)user;
    queue_wake(&shared);
    return NULL;
}

/* A taker that waits for ever must come back to end its thread; it hangs here if it does not. */
TEST(close_and_wake_end_a_wait)
{
    struct list taken;
    pthread_t thread;

    list_init(&taken);
    for (int i = 0; i < 50; i++) {
        queue_init(&shared, 1);
        EXPECT_EQ(0, pthread_create(&thread, NULL, i % 2 == 0 ? wake_shared : close_shared, NULL));
        EXPECT_EQ(0, queue_take_all(&shared, &taken, -1));
        EXPECT_EQ(0, pthread_join(thread, NULL));
        queue_release(&shared);
    }
}

static void release_with_an_item(void)
{
    struct item item = make(0);
    struct queue q;

    queue_init(&q, 1);
    (void)queue_push(&q, &item.node);
    queue_release(&q);
}

/* An item forgotten in a queue is a request that is never answered. */
TEST(misuse_stops_the_process) { EXPECT_ABORT("q->n == 0", release_with_an_item); }
