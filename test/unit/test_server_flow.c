/* SPDX-License-Identifier: Apache-2.0
 *
 * Who gets which work, and how much of it: filters, limits, shares, sizes, and what a slow or idle
 * worker costs.
 */
#include "test/lib/hands.h"
#include "test/lib/test.h"
#include "wire/pb.h"

#include <stdio.h>

#define RUNNING 0
#define COMPLETED 1
#define PENDING 6

static struct served world;

static struct link *open_world(uint32_t shards_n)
{
    served_open(&world, test_directory(), shards_n, false);
    return served_link(&world, NULL);
}

static void start_many(struct link *link, unsigned n_max, struct bytes input)
{
    static struct answer answers[100];
    struct buffer b;
    char id[16];

    buffer_init(&b, mem_process());
    for (unsigned n = 0; n < n_max;) {
        unsigned begun_n = 0;
        for (; begun_n < 50 && n < n_max; begun_n++, n++) {
            (void)snprintf(id, sizeof id, "i%u", n);
            buffer_clear(&b);
            pb_put_bytes(&b, 1, bytes_of_text(id));
            pb_put_bytes(&b, 2, BYTES_LITERAL("o"));
            pb_put_string_value(&b, 4, input, true);
            answer_init(&answers[begun_n]);
            served_begin(link, "StartInstance", buffer_view(&b), 0, &answers[begun_n]);
        }
        for (unsigned k = 0; k < begun_n; k++) {
            served_await(&answers[k]);
            EXPECT_EQ(GRPC_OK, answers[k].code);
            answer_release(&answers[k]);
        }
    }
    buffer_release(&b);
}

static void start_version(struct link *link, const char *id, const char *name, const char *version)
{
    struct buffer b;

    buffer_init(&b, mem_process());
    pb_put_bytes(&b, 1, bytes_of_text(id));
    pb_put_bytes(&b, 2, bytes_of_text(name));
    pb_put_string_value(&b, 3, bytes_of_text(version), true);
    EXPECT_EQ(GRPC_OK, link_ask(link, "StartInstance", buffer_view(&b), NULL));
    buffer_release(&b);
}

/* ---- filters ---- */

/* A filter for one kind with names, perhaps one version; kind: 1 orchestrations, 2 activities. */
static void put_filter(struct buffer *filters, uint32_t kind, const char *name, const char *version)
{
    struct pb_mark mark = pb_begin(filters, kind, 16);
    pb_put_bytes(filters, 1, bytes_of_text(name));
    if (version != NULL) pb_put_bytes(filters, 2, bytes_of_text(version));
    pb_end(filters, mark);
}

/* With filters, a kind without names gets nothing; without versions, every version fits. */
TEST(filters_choose_by_name_and_version)
{
    struct buffer filters;
    struct buffer wish;
    struct hand turns;
    struct hand tasks;
    struct hand rest;

    served_init(&world);
    struct link *link = open_world(1);
    buffer_init(&filters, mem_process());
    buffer_init(&wish, mem_process());
    put_filter(&filters, 1, "o", "1");
    pb_put_bytes(&wish, 11, buffer_view(&filters));
    hand_open(&turns, link, buffer_view(&wish));
    buffer_clear(&filters);
    buffer_clear(&wish);
    put_filter(&filters, 2, "t", "1");
    put_filter(&filters, 2, "u", "2");
    pb_put_bytes(&wish, 11, buffer_view(&filters));
    hand_open(&tasks, link, buffer_view(&wish));

    start_version(link, "a", "o", "1");
    start_version(link, "b", "o", "2");
    start_version(link, "c", "other", "1");
    struct work *turn = hand_await(&turns, 1);
    EXPECT_BYTES(BYTES_LITERAL("a"), turn->id);
    /* A task without a version has that of its orchestration, but its worker sees none. */
    struct buffer b;
    buffer_init(&b, mem_process());
    pb_put_bytes(&b, 4, turn->token);
    put_schedule(&b, 1, "t", NULL, BYTES_NONE);
    put_schedule(&b, 2, "u", "2", BYTES_NONE);
    put_schedule(&b, 3, "u", "3", BYTES_NONE); /* nobody's */
    EXPECT_EQ(GRPC_OK, link_ask(link, "CompleteOrchestratorTask", buffer_view(&b), NULL));
    (void)hand_await(&tasks, 2);
    served_linger_ms(&world, 30);
    EXPECT_EQ(1, turns.work_n);
    EXPECT_EQ(2, tasks.work_n);
    for (unsigned n = 0; n < 2; n++) {
        const struct work *task = tasks.work[n];
        bool is_t = bytes_equal(task->name, BYTES_LITERAL("t"));
        EXPECT_EQ(is_t ? 1 : 2, task->task_id);
        EXPECT_EQ(!is_t, task->version.has);
        if (!is_t) EXPECT_BYTES(BYTES_LITERAL("2"), task->version.value);
    }
    hand_open(&rest, link, BYTES_NONE); /* no filters: all that is left */
    (void)hand_await(&rest, 3);
    buffer_release(&b);
    buffer_release(&filters);
    buffer_release(&wish);
    hand_close(&turns);
    hand_close(&tasks);
    hand_close(&rest);
    served_close(&world);
}

TEST(too_many_filters_are_refused)
{
    struct buffer filters;
    struct buffer wish;
    char text[CLIENT_TEXT_SIZE];

    served_init(&world);
    struct link *link = open_world(1);
    buffer_init(&filters, mem_process());
    buffer_init(&wish, mem_process());
    for (unsigned n = 0; n < 10001; n++) put_filter(&filters, 1, "o", NULL);
    pb_put_bytes(&wish, 11, buffer_view(&filters));
    EXPECT_EQ(GRPC_INVALID_ARGUMENT, link_ask(link, "GetWorkItems", buffer_view(&wish), text));
    EXPECT_EQ(GRPC_INVALID_ARGUMENT, link_ask(link, "GetWorkItems", test_hex("5a05"), text));
    EXPECT_EQ(0, served_stats(&world).workers_n);
    buffer_release(&filters);
    buffer_release(&wish);
    served_close(&world);
}

/* ---- limits and shares ---- */

static uint32_t attempt_of(const struct work *work)
{
    struct arena arena;
    struct work_ref ref;

    arena_init(&arena, mem_process(), 512);
    EXPECT_STATUS(OK, token_read(work->token, engine_mac_key(world.engine), &arena, &ref));
    arena_release(&arena);
    return ref.attempt;
}

/* The limit is for the stream, wherever the work lies, and reaching it delays nothing else. */
static void finish_all_with_limit(uint32_t shards_n, unsigned limit)
{
    struct hand hand;
    uint8_t wish[] = {0x08, (uint8_t)limit};
    unsigned done_n = 0;

    served_init(&world);
    struct link *link = open_world(shards_n);
    start_many(link, 40, BYTES_NONE);
    hand_open(&hand, link, bytes_make(wish, sizeof wish));
    while (done_n < 40) {
        unsigned most = done_n + limit < 40 ? done_n + limit : 40;
        (void)hand_await(&hand, most);
        served_linger_ms(&world, 3);
        EXPECT_EQ(most, hand.work_n);
        EXPECT_EQ(most - done_n, served_stats(&world).leases_n);
        EXPECT_EQ(0, attempt_of(hand.work[done_n]));
        EXPECT_EQ(GRPC_OK, hand_finish(link, hand.work[done_n], false));
        done_n++;
    }
    hand_close(&hand);
    served_close(&world);
}

TEST(a_worker_never_has_more_than_it_asked_for)
{
    finish_all_with_limit(1, 3);
    finish_all_with_limit(4, 1);
    finish_all_with_limit(4, 7);
}

TEST(a_worker_without_a_limit_has_that_of_the_server)
{
    struct hand hand;

    served_init(&world);
    world.options.in_flight_n_max = 5;
    struct link *link = open_world(1);
    start_many(link, 20, BYTES_NONE);
    hand_open(&hand, link, test_hex("086408")); /* not a message: refused */
    served_turn(&world);
    EXPECT(hand.call == NULL);
    hand_close(&hand);
    hand_open(&hand, link, test_hex("08641064")); /* 100 of each: more than the server gives */
    (void)hand_await(&hand, 5);
    served_linger_ms(&world, 20);
    EXPECT_EQ(5, hand.work_n);
    hand_close(&hand);
    served_close(&world);
}

TEST(workers_get_even_shares)
{
    struct hand hands[10];

    served_init(&world);
    struct link *link = open_world(2);
    for (unsigned n = 0; n < 10; n++) hand_open(&hands[n], link, BYTES_NONE);
    served_linger_ms(&world, 20);
    start_many(link, 300, BYTES_NONE);
    HAND_UNTIL(&world, served_stats(&world).work_items == 300);
    served_turn(&world);
    for (unsigned n = 0; n < 10; n++) {
        test_note("worker %u has %u", n, hands[n].work_n);
        EXPECT(hands[n].work_n >= 20);
        EXPECT(hands[n].work_n <= 45);
    }
    for (unsigned n = 0; n < 10; n++) hand_close(&hands[n]);
    served_close(&world);
}

TEST(too_many_streams_are_refused)
{
    struct hand hands[3];

    served_init(&world);
    world.options.workers_n_max = 2;
    struct link *link = open_world(1);
    for (unsigned n = 0; n < 3; n++) hand_open(&hands[n], link, BYTES_NONE);
    served_turn(&world);
    EXPECT(hands[2].call == NULL);
    EXPECT_EQ(GRPC_RESOURCE_EXHAUSTED, hands[2].code);
    EXPECT_EQ(2, served_stats(&world).workers_n);
    hand_close(&hands[0]);
    hand_close(&hands[2]);
    hand_open(&hands[2], link, BYTES_NONE);
    served_linger_ms(&world, 10);
    EXPECT(hands[2].call != NULL);
    hand_close(&hands[1]);
    hand_close(&hands[2]);
    served_close(&world);
}

/* ---- what workers cost ---- */

/* A worker that does not read gets a window of work and no more; the rest stays in the engine,
 * where others can have it. */
TEST(a_slow_reader_costs_little_memory)
{
    static uint8_t input[4000];
    struct hand hand;

    served_init(&world);
    struct link *link = open_world(1);
    struct link *slow = served_link(&world, NULL);
    memset(input, '7', sizeof input);
    hand_open(&hand, slow, BYTES_NONE);
    served_linger_ms(&world, 5);
    slow->is_deaf = true;
    size_t before = world.mem.used;
    start_many(link, 2000, bytes_make(input, sizeof input));
    served_linger_ms(&world, 50);
    size_t cost = world.mem.used - before;
    unsigned given_n = served_stats(&world).leases_n;
    test_note("%zu bytes for %u pieces", cost, given_n);
    EXPECT(given_n > 0);
    EXPECT(given_n < 200);
    EXPECT(cost < ((size_t)1 << 20));
    slow->is_deaf = false;
    (void)hand_await(&hand, 2000);
    hand_close(&hand);
    served_close(&world);
}

TEST(a_thousand_idle_workers_cost_little_memory)
{
    static struct hand hands[1000];
    struct link *links[10];

    served_init(&world);
    struct link *link = open_world(1);
    for (unsigned n = 0; n < 10; n++) links[n] = served_link(&world, NULL);
    served_turn(&world);
    size_t before = world.mem.used;
    for (unsigned n = 0; n < 1000; n++) hand_open(&hands[n], links[n % 10], BYTES_NONE);
    HAND_UNTIL(&world, served_stats(&world).workers_n == 1000);
    served_linger_ms(&world, 50);
    size_t cost = (world.mem.used - before) / 1000;
    test_note("%zu bytes each", cost);
    EXPECT(cost < 8192);
    start_many(link, 100, BYTES_NONE); /* and they do work */
    HAND_UNTIL(&world, served_stats(&world).work_items == 100);
    for (unsigned n = 0; n < 10; n++) served_unlink(links[n]);
    served_linger_ms(&world, 20);
    for (unsigned n = 0; n < 1000; n++) hand_close(&hands[n]);
    served_close(&world);
}

/* ---- sizes ---- */

/* The instance "a" with a history of some `size` bytes, and its next turn on the way. */
static void grow(struct link *link, struct hand *hand, size_t size)
{
    struct buffer b;
    struct buffer input;

    buffer_init(&b, mem_process());
    buffer_init(&input, mem_process());
    for (size_t n = 0; n < size; n++) buffer_u8(&input, 'x');
    link_start(link, "a", "o", BYTES_NONE);
    pb_put_bytes(&b, 4, hand_await(hand, 1)->token);
    put_schedule(&b, 1, "t", NULL, buffer_view(&input));
    EXPECT_EQ(GRPC_OK, link_ask(link, "CompleteOrchestratorTask", buffer_view(&b), NULL));
    buffer_release(&b);
    buffer_release(&input);
}

/* Past events beyond a size are fetched by the worker, when it can do that. */
TEST(a_long_history_is_streamed_to_workers_that_can)
{
    struct hand can;
    struct hand cannot;
    struct answer a;
    struct pb_field f;
    unsigned events_n = 0;

    served_init(&world);
    world.options.history_size_max = 4000;
    struct link *link = open_world(1);
    hand_open(&can, link, test_hex("520101"));
    grow(link, &can, 5000);
    EXPECT_EQ(GRPC_OK, hand_finish_task(link, hand_await(&can, 2), false));
    struct work *turn = hand_await(&can, 3);
    EXPECT(turn->is_streamed);
    EXPECT_EQ(0, turn->past_n);
    EXPECT_EQ(2, turn->fresh_n);
    EXPECT_EQ(1, served_stats(&world).work_streamed);

    struct buffer b;
    buffer_init(&b, mem_process());
    pb_put_bytes(&b, 1, BYTES_LITERAL("a"));
    pb_put_string_value(&b, 2, turn->execution_id, true);
    pb_put_varint(&b, 3, 1);
    answer_init(&a);
    served_ask(link, "StreamInstanceHistory", buffer_view(&b), &a);
    EXPECT_EQ(GRPC_OK, a.code);
    struct pb_reader r = pb_reader_make(buffer_view(&a.message));
    while (pb_next(&r, &f)) events_n += f.number == 1 ? 1 : 0;
    EXPECT_EQ(3, events_n); /* OrchestratorStarted, ExecutionStarted, TaskScheduled */
    answer_release(&a);
    buffer_release(&b);

    hand_close(&can);
    hand_open(&cannot, link, BYTES_NONE);
    served_advance_ms(&world, 5001);
    turn = hand_await(&cannot, 1);
    EXPECT(!turn->is_streamed);
    EXPECT_EQ(3, turn->past_n);
    EXPECT_EQ(GRPC_OK, hand_finish(link, turn, false));
    EXPECT_EQ(COMPLETED, link_status(link, "a"));
    hand_close(&cannot);
    served_close(&world);
}

/* What no message can carry is kept for an operator, and said. */
TEST(work_beyond_the_message_size_is_parked)
{
    struct hand hand;

    served_init(&world);
    world.options.message_size_max = 8000;
    struct link *link = open_world(1);
    hand_open(&hand, link, BYTES_NONE);
    grow(link, &hand, 9000); /* an activity whose input is too large */
    HAND_UNTIL(&world, served_stats(&world).work_parked == 1);
    served_linger_ms(&world, 20);
    EXPECT_EQ(1, hand.work_n);
    EXPECT_EQ(0, served_stats(&world).leases_n);
    EXPECT_EQ(RUNNING, link_status(link, "a"));
    /* and a turn: its past events are */
    struct buffer b;
    buffer_init(&b, mem_process());
    pb_put_bytes(&b, 1, BYTES_LITERAL("a"));
    pb_put_bytes(&b, 2, BYTES_LITERAL("e"));
    EXPECT_EQ(GRPC_OK, link_ask(link, "RaiseEvent", buffer_view(&b), NULL));
    HAND_UNTIL(&world, served_stats(&world).work_parked == 2);
    served_linger_ms(&world, 20);
    EXPECT_EQ(1, hand.work_n);
    buffer_release(&b);
    hand_close(&hand);
    served_close(&world);
}

/* An answer that is too large to be read would otherwise be waited for until its worker leaves. */
TEST(an_answer_beyond_the_message_size_parks_its_work)
{
    struct hand hand;
    struct buffer b;
    static uint8_t large[20000];

    served_init(&world);
    world.limits.message_size_max = 10000;
    world.options.message_size_max = 10000;
    struct link *link = open_world(1);
    hand_open(&hand, link, BYTES_NONE);
    link_start(link, "a", "o", BYTES_NONE);
    link_start(link, "b", "o", BYTES_NONE);
    EXPECT_EQ(GRPC_OK, hand_schedule(link, hand_await(&hand, 1), 3, "t", false));
    (void)hand_await(&hand, 3);
    struct work *turn = hand.work[1];
    struct work *task = hand.work[2];
    if (turn->kind == WORK_TASK) turn = hand.work[2], task = hand.work[1];
    EXPECT_EQ(2, served_stats(&world).leases_n);

    memset(large, '1', sizeof large);
    buffer_init(&b, mem_process());
    pb_put_bytes(&b, 1, turn->id);
    put_finish(&b, 1, bytes_make(large, sizeof large));
    pb_put_bytes(&b, 4, turn->token);
    EXPECT_EQ(GRPC_RESOURCE_EXHAUSTED,
              link_ask(link, "CompleteOrchestratorTask", buffer_view(&b), NULL));
    EXPECT_EQ(1, served_stats(&world).work_parked);
    EXPECT_EQ(1, served_stats(&world).leases_n);
    buffer_clear(&b);
    pb_put_bytes(&b, 1, task->id);
    pb_put_int32(&b, 2, task->task_id);
    pb_put_string_value(&b, 3, bytes_make(large, sizeof large), true);
    EXPECT_EQ(GRPC_RESOURCE_EXHAUSTED,
              link_ask(link, "CompleteActivityTask", buffer_view(&b), NULL));
    EXPECT_EQ(2, served_stats(&world).work_parked);
    EXPECT_EQ(0, served_stats(&world).leases_n);
    buffer_release(&b);
    served_linger_ms(&world, 300);
    EXPECT_EQ(3, hand.work_n); /* parked, not offered again */
    hand_close(&hand);
    served_close(&world);
}
