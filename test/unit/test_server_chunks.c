/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers in parts: nothing of them counts before all of it is there.
 */
#include "test/lib/hands.h"
#include "test/lib/test.h"
#include "wire/pb.h"

#define PENDING 6
#define COMPLETED 1

static struct served world;

/* A part with one action: a task with this id, or the completion (id 0). index < 0: none is
 * given. */
static enum grpc_code send_part(struct link *link, const struct work *turn, int32_t index,
                                bool is_partial, int32_t id, size_t input_size)
{
    struct buffer b;
    struct buffer input;

    buffer_init(&b, mem_process());
    buffer_init(&input, mem_process());
    for (size_t n = 0; n < input_size; n++) buffer_u8(&input, 'x');
    pb_put_bytes(&b, 1, turn->id);
    if (id > 0)
        put_schedule(&b, id, "t", NULL, buffer_view(&input));
    else
        put_finish(&b, 99, BYTES_LITERAL("1"));
    pb_put_string_value(&b, 3, BYTES_LITERAL("\"status\""), true);
    pb_put_bytes(&b, 4, turn->token);
    if (is_partial) pb_put_varint(&b, 8, 1);
    if (index >= 0) {
        struct pb_mark mark = pb_begin(&b, 9, 4);
        pb_put_plain_int32(&b, 1, index);
        pb_end(&b, mark);
    }
    EXPECT(!b.failed);
    enum grpc_code code = link_ask(link, "CompleteOrchestratorTask", buffer_view(&b), NULL);
    buffer_release(&b);
    buffer_release(&input);
    return code;
}

TEST(parts_are_one_answer)
{
    struct link *link = served_start(&world);
    struct hand hand;

    hand_open(&hand, link, BYTES_NONE);
    link_start(link, "a", "o", BYTES_NONE);
    struct work *turn = hand_await(&hand, 1);
    EXPECT_EQ(GRPC_OK, send_part(link, turn, 0, true, 1, 10));
    EXPECT_EQ(GRPC_OK, send_part(link, turn, 1, true, 2, 10));
    EXPECT_EQ(GRPC_OK, send_part(link, turn, 1, true, 2, 10)); /* repeated: its answer was lost */
    EXPECT_EQ(GRPC_OK, send_part(link, turn, 0, true, 1, 10));
    served_linger_ms(&world, 20);
    EXPECT_EQ(1, hand.work_n);
    EXPECT_EQ(PENDING, link_status(link, "a"));
    EXPECT_EQ(1, served_stats(&world).leases_n);
    EXPECT_EQ(GRPC_OK, send_part(link, turn, 2, false, 3, 10));
    EXPECT_EQ(3, served_stats(&world).chunks);
    (void)hand_await(&hand, 4);
    for (unsigned n = 1; n < 4; n++) EXPECT_EQ(WORK_TASK, hand.work[n]->kind);
    EXPECT_EQ(GRPC_OK, send_part(link, turn, 2, false, 3, 10)); /* again: stale */
    served_linger_ms(&world, 20);
    EXPECT_EQ(4, hand.work_n);
    EXPECT_EQ(3, served_stats(&world).leases_n);
    hand_close(&hand);
    served_close(&world);
}

/* Nobody can use an answer with a hole: it is refused, and the work offered again. */
TEST(a_missing_part_is_refused)
{
    struct link *link = served_start(&world);
    struct hand hand;

    hand_open(&hand, link, BYTES_NONE);
    link_start(link, "a", "o", BYTES_NONE);
    struct work *turn = hand_await(&hand, 1);
    EXPECT_EQ(GRPC_OK, send_part(link, turn, 0, true, 1, 10));
    EXPECT_EQ(GRPC_INVALID_ARGUMENT, send_part(link, turn, 2, false, 0, 10));
    turn = hand_await(&hand, 2);
    EXPECT_EQ(WORK_TURN, turn->kind);
    EXPECT_EQ(GRPC_OK, send_part(link, turn, -1, false, 0, 10)); /* whole */
    EXPECT_EQ(COMPLETED, link_status(link, "a"));
    hand_close(&hand);
    served_close(&world);
}

/* A whole answer does not wait for parts that came before it. */
TEST(a_whole_answer_replaces_parts)
{
    struct link *link = served_start(&world);
    struct hand hand;

    hand_open(&hand, link, BYTES_NONE);
    link_start(link, "a", "o", BYTES_NONE);
    struct work *turn = hand_await(&hand, 1);
    EXPECT_EQ(GRPC_OK, send_part(link, turn, -1, true, 1, 10));
    EXPECT_EQ(GRPC_OK, send_part(link, turn, -1, true, 2, 10)); /* without an index: the next */
    EXPECT_EQ(GRPC_OK, send_part(link, turn, -1, false, 0, 10));
    EXPECT_EQ(COMPLETED, link_status(link, "a"));
    served_linger_ms(&world, 20);
    EXPECT_EQ(1, hand.work_n);
    hand_close(&hand);
    served_close(&world);
}

/* Parts are memory that a worker makes us keep: bounded, and gone with the lease. */
TEST(parts_beyond_the_limit_park_the_work)
{
    struct link *link = served_start(&world);
    struct hand hand;
    const size_t part_size = (size_t)12 << 20;
    int32_t index = 0;

    hand_open(&hand, link, BYTES_NONE);
    link_start(link, "a", "o", BYTES_NONE);
    struct work *turn = hand_await(&hand, 1);
    size_t before = world.mem.used;
    for (; index < 5; index++)
        EXPECT_EQ(GRPC_OK, send_part(link, turn, index, true, index + 1, part_size));
    EXPECT_EQ(GRPC_RESOURCE_EXHAUSTED, send_part(link, turn, index, true, index + 1, part_size));
    EXPECT_EQ(1, served_stats(&world).work_parked);
    EXPECT_EQ(0, served_stats(&world).leases_n);
    test_note("%zu bytes before, %zu after", before, world.mem.used);
    EXPECT(world.mem.used < before + ((size_t)1 << 20));
    served_linger_ms(&world, 300);
    EXPECT_EQ(1, hand.work_n);
    hand_close(&hand);
    served_close(&world);
}

TEST(parts_go_with_a_lost_worker)
{
    struct link *link = served_start(&world);
    struct hand hand;
    struct hand other;

    hand_open(&hand, link, BYTES_NONE);
    link_start(link, "a", "o", BYTES_NONE);
    struct work *turn = hand_await(&hand, 1);
    size_t before = world.mem.used;
    EXPECT_EQ(GRPC_OK, send_part(link, turn, 0, true, 1, (size_t)4 << 20));
    EXPECT(world.mem.used > before + ((size_t)4 << 20));
    hand_cancel(&hand);
    EXPECT_EQ(GRPC_OK, send_part(link, turn, 1, true, 2, 10)); /* within the grace delay */
    hand_open(&other, link, BYTES_NONE);
    served_advance_ms(&world, 5001);
    struct work *again = hand_await(&other, 1);
    EXPECT(world.mem.used < before + ((size_t)1 << 20));
    EXPECT_EQ(GRPC_OK, send_part(link, turn, 2, false, 3, 10)); /* nobody's any more */
    served_linger_ms(&world, 20);
    EXPECT_EQ(1, other.work_n);
    EXPECT_EQ(GRPC_OK, hand_finish(link, again, false));
    EXPECT_EQ(COMPLETED, link_status(link, "a"));
    hand_close(&hand);
    hand_close(&other);
    served_close(&world);
}
