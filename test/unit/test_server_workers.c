/* SPDX-License-Identifier: Apache-2.0
 *
 * Work streams, leases and answers, with a real engine and real connections.
 */
#include "test/lib/hands.h"
#include "test/lib/test.h"
#include "wire/pb.h"

#include <poll.h>
#include <stdio.h>

#define RUNNING 0
#define COMPLETED 1
#define TERMINATED 5
#define PENDING 6

#define ROUNDS_N 20

static struct served world;

/* Failures that the engine has counted before it gave this. */
static uint32_t attempt_of(const struct work *work)
{
    struct arena arena;
    struct work_ref ref;

    arena_init(&arena, mem_process(), 512);
    EXPECT_STATUS(OK, token_read(work->token, engine_mac_key(world.engine), &arena, &ref));
    arena_release(&arena);
    return ref.attempt;
}

/* ---- what is sent, and answered ---- */

/* Two turns and one activity, with everything the SDKs look at. */
TEST(work_goes_to_the_worker_and_its_answers_count)
{
    struct link *link = served_start(&world);
    struct hand hand;

    hand_open(&hand, link, BYTES_NONE);
    link_start(link, "a", "o", BYTES_LITERAL("\"x\""));
    struct work *turn = hand_await(&hand, 1);
    EXPECT_EQ(WORK_TURN, turn->kind);
    EXPECT_BYTES(BYTES_LITERAL("a"), turn->id);
    EXPECT_EQ(32, turn->execution_id.len);
    EXPECT_EQ(0, turn->past_n);
    EXPECT_EQ(2, turn->fresh_n);
    EXPECT(turn->has_entity_parameters);
    EXPECT(!turn->is_streamed);
    EXPECT(turn->token.len > 0);
    EXPECT_EQ(1, served_stats(&world).leases_n);
    EXPECT_EQ(GRPC_OK, hand_schedule(link, turn, 0, "t", false));

    struct work *task = hand_await(&hand, 2);
    EXPECT_EQ(WORK_TASK, task->kind);
    EXPECT_BYTES(BYTES_LITERAL("a"), task->id);
    EXPECT_BYTES(turn->execution_id, task->execution_id);
    EXPECT_BYTES(BYTES_LITERAL("t"), task->name);
    EXPECT_BYTES(BYTES_LITERAL("\"in\""), task->input.value);
    EXPECT_EQ(0, task->task_id);
    EXPECT_EQ(GRPC_OK, hand_finish_task(link, task, false));

    turn = hand_await(&hand, 3);
    EXPECT_EQ(3, turn->past_n);
    EXPECT_EQ(2, turn->fresh_n);
    EXPECT_EQ(RUNNING, link_status(link, "a"));
    EXPECT_EQ(GRPC_OK, hand_finish(link, turn, false));
    EXPECT_EQ(COMPLETED, link_status(link, "a"));
    EXPECT_EQ(0, served_stats(&world).leases_n);
    EXPECT_EQ(3, served_stats(&world).work_items);
    hand_close(&hand);
    served_close(&world);
}

/* Go and older JavaScript workers never echo a token. */
TEST(a_worker_without_tokens_is_known_by_instance_and_task)
{
    struct link *link = served_start(&world);
    struct hand hand;

    hand_open(&hand, link, BYTES_NONE);
    link_start(link, "a", "o", BYTES_NONE);
    EXPECT_EQ(GRPC_OK, hand_schedule(link, hand_await(&hand, 1), 7, "t", true));
    struct work *task = hand_await(&hand, 2);
    EXPECT_EQ(7, task->task_id);
    EXPECT_EQ(GRPC_OK, hand_finish_task(link, task, true));
    EXPECT_EQ(GRPC_OK, hand_finish(link, hand_await(&hand, 3), true));
    EXPECT_EQ(COMPLETED, link_status(link, "a"));
    EXPECT_EQ(0, served_stats(&world).leases_n);
    hand_close(&hand);
    served_close(&world);
}

/* An instance that began again has a step with the same number as one that is still worked on. Each
 * answer is for the work of its own worker: otherwise the new step would get the old result, and
 * the old work would count for its stream for ever. */
TEST(an_answer_without_token_is_for_what_came_on_its_connection)
{
    struct link *link = served_start(&world);
    struct link *link_of_other = served_link(&world, NULL);
    struct hand hand;
    struct hand other;

    hand_open(&hand, link, BYTES_LITERAL("\x10\x01")); /* one activity at once */
    link_start(link, "a", "o", BYTES_NONE);
    EXPECT_EQ(GRPC_OK, hand_schedule(link, hand_await(&hand, 1), 7, "t", true));
    struct work *task = hand_await(&hand, 2);
    EXPECT_EQ(GRPC_OK, link_ask(link, "TerminateInstance",
                                BYTES_LITERAL("\x0a\x01"
                                              "a"),
                                NULL));
    HAND_UNTIL(&world, link_status(link, "a") == TERMINATED);
    link_start(link, "a", "o", BYTES_NONE);
    EXPECT_EQ(GRPC_OK, hand_schedule(link, hand_await(&hand, 3), 7, "t", true));
    hand_open(&other, link_of_other, BYTES_NONE);
    struct work *again = hand_await(&other, 1);
    EXPECT_EQ(WORK_TASK, again->kind);
    EXPECT_EQ(2, served_stats(&world).leases_n);

    EXPECT_EQ(GRPC_OK, hand_finish_task(link, task, true));
    served_linger_ms(&world, 20);
    EXPECT_EQ(1, served_stats(&world).leases_n);
    EXPECT_EQ(4, hand.work_n + other.work_n); /* no turn: nobody waits for that any more */
    EXPECT_EQ(GRPC_OK, hand_finish_task(link_of_other, again, true));
    HAND_UNTIL(&world, hand.work_n + other.work_n == 5);
    struct hand *has = hand.work_n == 4 ? &hand : &other;
    EXPECT_EQ(GRPC_OK, hand_finish(has->link, has->work[has->work_n - 1], true));
    EXPECT_EQ(COMPLETED, link_status(link, "a"));
    EXPECT_EQ(0, served_stats(&world).leases_n);
    hand_close(&hand);
    hand_close(&other);
    served_close(&world);
}

/* Equal ids in two hubs are two instances, and a token of one is nothing in the other. */
TEST(hubs_do_not_meet)
{
    struct link *one = served_start(&world);
    struct link *two = served_link(&world, "second");
    struct hand first;
    struct hand second;

    hand_open(&first, one, BYTES_NONE);
    hand_open(&second, two, BYTES_NONE);
    link_start(one, "a", "o", BYTES_NONE);
    struct work *turn = hand_await(&first, 1);
    served_linger_ms(&world, 20);
    EXPECT_EQ(0, second.work_n);
    link_start(two, "a", "o", BYTES_NONE);
    struct work *other = hand_await(&second, 1);

    EXPECT_EQ(GRPC_OK, hand_finish(two, turn, false)); /* said OK, and dropped */
    EXPECT_EQ(1, served_stats(&world).stale_answers);
    EXPECT_EQ(PENDING, link_status(one, "a"));
    EXPECT_EQ(PENDING, link_status(two, "a"));
    EXPECT_EQ(GRPC_OK, hand_finish(two, other, true));
    EXPECT_EQ(PENDING, link_status(one, "a"));
    EXPECT_EQ(COMPLETED, link_status(two, "a"));
    EXPECT_EQ(GRPC_OK, hand_finish(one, turn, false));
    EXPECT_EQ(COMPLETED, link_status(one, "a"));
    hand_close(&first);
    hand_close(&second);
    served_close(&world);
}

/* A worker can do nothing about an answer that nobody waits for: it is OK, and changes nothing. */
TEST(stale_and_garbage_tokens_are_ok_and_dropped)
{
    struct link *link = served_start(&world);
    struct hand hand;

    hand_open(&hand, link, BYTES_NONE);
    link_start(link, "a", "o", BYTES_NONE);
    struct work *turn = hand_await(&hand, 1);
    EXPECT_EQ(GRPC_OK, hand_finish_with_token(link, "a", BYTES_LITERAL("garbage")));
    uint8_t forged[1000];
    memcpy(forged, turn->token.ptr, turn->token.len);
    forged[5] = forged[5] == 'A' ? 'B' : 'A';
    EXPECT_EQ(GRPC_OK, hand_finish_with_token(link, "a", bytes_make(forged, turn->token.len)));
    EXPECT_EQ(2, served_stats(&world).stale_answers);
    /* a turn's token at another door */
    struct work task = *turn;
    EXPECT_EQ(GRPC_OK, hand_finish_task(link, &task, false));
    task.kind = WORK_TASK;
    EXPECT_EQ(GRPC_OK, hand_abandon(link, &task));
    EXPECT_EQ(4, served_stats(&world).stale_answers);
    EXPECT_EQ(PENDING, link_status(link, "a"));
    EXPECT_EQ(GRPC_OK, hand_finish(link, turn, false));
    EXPECT_EQ(GRPC_OK, hand_finish(link, turn, false)); /* again */
    EXPECT_EQ(GRPC_OK, hand_finish(link, turn, true));
    EXPECT_EQ(COMPLETED, link_status(link, "a"));
    struct work unknown = {.id = BYTES_LITERAL("nobody")};
    EXPECT_EQ(GRPC_OK, hand_finish(link, &unknown, true));
    EXPECT_EQ(GRPC_OK, hand_finish_task(link, &unknown, true));
    hand_close(&hand);
    served_close(&world);
}

/* What cannot be read is refused, and its work does not stay with a worker that only logs that. */
TEST(a_malformed_answer_is_refused_and_its_work_offered_again)
{
    struct link *link = served_start(&world);
    struct hand hand;
    struct buffer b;
    char text[CLIENT_TEXT_SIZE];

    hand_open(&hand, link, BYTES_NONE);
    EXPECT_EQ(GRPC_INVALID_ARGUMENT, link_ask(link, "CompleteOrchestratorTask", BYTES_NONE, text));
    EXPECT(strstr(text, "completionToken") != NULL);
    EXPECT_EQ(GRPC_INVALID_ARGUMENT, link_ask(link, "CompleteEntityTask", BYTES_NONE, text));
    link_start(link, "a", "o", BYTES_NONE);
    struct work *turn = hand_await(&hand, 1);
    buffer_init(&b, mem_process());
    pb_put_bytes(&b, 4, turn->token);
    pb_put_bytes(&b, 2, test_hex("0801")); /* an action that does nothing */
    EXPECT_EQ(GRPC_INVALID_ARGUMENT,
              link_ask(link, "CompleteOrchestratorTask", buffer_view(&b), text));
    EXPECT(strstr(text, "action") != NULL);
    struct work *again = hand_await(&hand, 2);
    buffer_clear(&b);
    pb_put_bytes(&b, 4, again->token);
    pb_put_string_value(&b, 3, test_hex("ff"), true); /* not UTF-8 */
    EXPECT_EQ(GRPC_INVALID_ARGUMENT,
              link_ask(link, "CompleteOrchestratorTask", buffer_view(&b), text));
    EXPECT_EQ(GRPC_OK, hand_finish(link, hand_await(&hand, 3), false));
    EXPECT_EQ(COMPLETED, link_status(link, "a"));
    buffer_release(&b);
    hand_close(&hand);
    served_close(&world);
}

/* ---- streams that end ---- */

/* SDKs cancel the stream first, and then finish what they have. */
TEST(an_answer_after_the_stream_is_gone_counts)
{
    struct link *link = served_start(&world);
    struct hand hand;
    struct hand other;

    hand_open(&hand, link, BYTES_NONE);
    link_start(link, "a", "o", BYTES_NONE);
    struct work *turn = hand_await(&hand, 1);
    hand_cancel(&hand);
    hand_open(&other, link, BYTES_NONE);
    served_advance_ms(&world, 4900);
    served_linger_ms(&world, 20);
    EXPECT_EQ(0, other.work_n);
    EXPECT_EQ(GRPC_OK, hand_finish(link, turn, false));
    EXPECT_EQ(COMPLETED, link_status(link, "a"));
    EXPECT_EQ(0, served_stats(&world).leases_n);
    EXPECT_EQ(0, served_stats(&world).work_lost);
    hand_close(&hand);
    hand_close(&other);
    served_close(&world);
}

/* After the grace delay another worker gets it, and the first one's answer is too late. */
TEST(work_of_a_lost_stream_is_offered_again)
{
    struct link *link = served_start(&world);
    struct hand hand;
    struct hand other;

    hand_open(&hand, link, BYTES_NONE);
    link_start(link, "a", "o", BYTES_NONE);
    EXPECT_EQ(GRPC_OK, hand_schedule(link, hand_await(&hand, 1), 1, "t", false));
    struct work *task = hand_await(&hand, 2);
    hand_cancel(&hand);
    EXPECT_EQ(0, served_stats(&world).workers_n);
    served_advance_ms(&world, 5001);
    EXPECT_EQ(1, served_stats(&world).work_lost);
    hand_open(&other, link, BYTES_NONE);
    struct work *again = hand_await(&other, 1);
    EXPECT_EQ(WORK_TASK, again->kind);
    EXPECT(!bytes_equal(task->token, again->token));
    EXPECT_EQ(GRPC_OK, hand_finish_task(link, task, false));
    served_linger_ms(&world, 20);
    EXPECT_EQ(1, other.work_n); /* no turn: the answer was dropped */
    EXPECT_EQ(1, served_stats(&world).leases_n);
    EXPECT_EQ(GRPC_OK, hand_finish_task(link, again, false));
    EXPECT_EQ(GRPC_OK, hand_finish(link, hand_await(&other, 2), false));
    EXPECT_EQ(COMPLETED, link_status(link, "a"));
    hand_close(&hand);
    hand_close(&other);
    served_close(&world);
}

/* A connection that breaks is as good as a stream that is cancelled. */
TEST(a_lost_connection_gives_its_work_back)
{
    struct link *link = served_start(&world);
    struct link *doomed = served_link(&world, NULL);
    struct hand hand;
    struct hand other;

    hand_open(&hand, doomed, BYTES_NONE);
    link_start(link, "a", "o", BYTES_NONE);
    (void)hand_await(&hand, 1);
    served_unlink(doomed);
    hand_open(&other, link, BYTES_NONE);
    served_advance_ms(&world, 5001);
    EXPECT_EQ(GRPC_OK, hand_finish(link, hand_await(&other, 1), false));
    EXPECT_EQ(COMPLETED, link_status(link, "a"));
    hand_close(&hand);
    hand_close(&other);
    served_close(&world);
}

/* Work on its way to a stream that is gone never reached anybody: no failure is counted, and the
 * next one gets it at once. */
TEST(work_that_was_never_sent_is_not_a_failure)
{
    struct link *link = served_start(&world);
    struct hand hand;
    struct hand other;
    struct answer started[ROUNDS_N];
    char id[16];

    for (unsigned n = 0; n < ROUNDS_N; n++) {
        struct link *doomed = served_link(&world, NULL);
        hand_open(&hand, doomed, BYTES_NONE);
        served_linger_ms(&world, 5);
        struct buffer b;
        buffer_init(&b, mem_process());
        (void)snprintf(id, sizeof id, "a%u", n);
        pb_put_bytes(&b, 1, bytes_of_text(id));
        pb_put_bytes(&b, 2, BYTES_LITERAL("o"));
        answer_init(&started[n]);
        served_begin(link, "StartInstance", buffer_view(&b), 0, &started[n]);
        served_turn(&world);
        buffer_release(&b);
        (void)poll(NULL, 0, 20); /* the work is on its way, and nobody looks */
        served_unlink(doomed);
        hand_close(&hand);
    }
    served_linger_ms(&world, 20);
    for (unsigned n = 0; n < ROUNDS_N; n++) {
        served_await(&started[n]);
        EXPECT_EQ(GRPC_OK, started[n].code);
        answer_release(&started[n]);
    }
    EXPECT_EQ(0, served_stats(&world).work_lost);
    unsigned kept_n = served_stats(&world).leases_n; /* those that were sent all the same */
    EXPECT(kept_n < ROUNDS_N);
    hand_open(&other, link, BYTES_NONE);
    (void)hand_await(&other, ROUNDS_N - kept_n);
    for (unsigned n = 0; n < ROUNDS_N - kept_n; n++) EXPECT_EQ(0, attempt_of(other.work[n]));
    hand_close(&other);
    served_close(&world);
}

/* The end of the server: streams end so that every SDK connects again, and the work that is under
 * way may still be answered. */
TEST(draining_ends_streams_and_takes_answers)
{
    struct link *link = served_start(&world);
    struct hand hand;

    hand_open(&hand, link, BYTES_NONE);
    link_start(link, "a", "o", BYTES_NONE);
    struct work *turn = hand_await(&hand, 1);
    service_drain(world.service);
    served_turn(&world);
    EXPECT(hand.call == NULL);
    EXPECT_EQ(GRPC_UNAVAILABLE, hand.code);
    EXPECT_EQ(GRPC_OK, hand_finish(link, turn, false));
    EXPECT_EQ(GRPC_UNAVAILABLE, link_ask(link, "GetWorkItems", BYTES_NONE, NULL));
    HAND_UNTIL(&world, service_is_quiet(world.service));
    EXPECT_EQ(0, served_stats(&world).work_lost);
    hand_close(&hand);
    served_close(&world);
}

/* ---- an engine that is full ---- */

/* Attaching, credit, answers, detaching, giving back: what is not taken is tried again. */
static void work_with_refusals(unsigned refuse_every)
{
    struct link *link = served_start(&world);
    struct hand hand;
    struct hand other;
    char id[16];

    test_note("every %u. request is refused", refuse_every);
    for (unsigned n = 0; n < ROUNDS_N; n++) {
        (void)snprintf(id, sizeof id, "a%u", n);
        link_start(link, id, "o", BYTES_NONE);
    }
    world.refuse_every = refuse_every;
    hand_open(&hand, link, test_hex("0804")); /* 4 at once */
    for (unsigned n = 0; n < ROUNDS_N / 2; n++) {
        EXPECT_EQ(GRPC_OK, hand_finish(link, hand_await(&hand, n + 1), false));
    }
    (void)hand_await(&hand, ROUNDS_N / 2 + 4);
    EXPECT_EQ(GRPC_OK, hand_abandon(link, hand.work[ROUNDS_N / 2]));
    hand_cancel(&hand);
    hand_open(&other, link, test_hex("0803"));
    served_advance_ms(&world, 5001);
    for (unsigned n = 0; n < ROUNDS_N / 2; n++) {
        EXPECT_EQ(GRPC_OK, hand_finish(link, hand_await(&other, n + 1), false));
    }
    hand_cancel(&other);
    service_drain(world.service);
    HAND_UNTIL(&world, service_is_quiet(world.service));
    world.refuse_every = 0;
    EXPECT_EQ(0, served_stats(&world).leases_n);
    hand_close(&hand);
    hand_close(&other);
    served_close(&world);
}

TEST(what_the_engine_does_not_take_is_tried_again)
{
    work_with_refusals(2);
    work_with_refusals(3);
    work_with_refusals(5);
}

/* A turn whose answer the engine could not take for so long that its worker was told. */
static struct work *answer_in_vain(struct link *link, struct hand *hand)
{
    struct answer a;
    struct buffer b;

    hand_open(hand, link, BYTES_NONE);
    link_start(link, "a", "o", BYTES_NONE);
    struct work *turn = hand_await(hand, 1);
    world.refuse_every = 1;
    buffer_init(&b, mem_process());
    put_finish(&b, 1, BYTES_NONE);
    pb_put_bytes(&b, 4, turn->token);
    answer_init(&a);
    served_begin(link, "CompleteOrchestratorTask", buffer_view(&b), 0, &a);
    served_linger_ms(&world, 60);
    EXPECT(!a.is_over);
    served_advance_ms(&world, 5001);
    served_turn(&world);
    EXPECT(a.is_over);
    EXPECT_EQ(GRPC_UNAVAILABLE, a.code);
    EXPECT_EQ(1, served_stats(&world).leases_n);
    world.refuse_every = 0;
    answer_release(&a);
    buffer_release(&b);
    return turn;
}

/* The worker is told in the end, and may answer again within the grace delay. */
TEST(an_answer_that_cannot_be_taken_is_refused_after_a_while)
{
    struct link *link = served_start(&world);
    struct hand hand;

    struct work *turn = answer_in_vain(link, &hand);
    EXPECT_EQ(GRPC_OK, hand_finish(link, turn, false));
    EXPECT_EQ(COMPLETED, link_status(link, "a"));
    EXPECT_EQ(0, served_stats(&world).leases_n);
    hand_close(&hand);
    served_close(&world);
}

/* Most workers only log that: then somebody else does it, or the same worker again. */
TEST(an_answer_refused_and_not_sent_again_is_offered_again)
{
    struct link *link = served_start(&world);
    struct hand hand;

    struct work *turn = answer_in_vain(link, &hand);
    served_advance_ms(&world, 5001);
    EXPECT_EQ(GRPC_OK, hand_finish(link, hand_await(&hand, 2), false));
    EXPECT_EQ(COMPLETED, link_status(link, "a"));
    EXPECT_EQ(GRPC_OK, hand_finish(link, turn, false)); /* too late, and no harm */
    EXPECT_EQ(0, served_stats(&world).leases_n);
    hand_close(&hand);
    served_close(&world);
}

/* ---- restart ---- */

/* The worker goes on while the server restarts: its answer counts, as long as nobody else was given
 * the work. */
TEST(an_answer_to_the_server_before_counts_after_a_restart)
{
    struct link *link = served_start(&world);
    char directory[512];
    struct hand hand;
    uint8_t token[1000];

    (void)snprintf(directory, sizeof directory, "%s/engine", test_directory());
    served_close(&world);
    served_init(&world);
    served_open(&world, directory, 1, false);
    link = served_link(&world, NULL);
    hand_open(&hand, link, BYTES_NONE);
    link_start(link, "a", "o", BYTES_NONE);
    link_start(link, "b", "o", BYTES_NONE);
    (void)hand_await(&hand, 2);
    struct work *turn = hand.work[0];
    bool is_a = bytes_equal(turn->id, BYTES_LITERAL("a"));
    size_t size = turn->token.len;
    memcpy(token, turn->token.ptr, size);
    service_drain(world.service);
    hand_close(&hand);
    served_close(&world);

    served_init(&world);
    served_open(&world, directory, 1, false);
    link = served_link(&world, NULL);
    EXPECT_EQ(GRPC_OK, hand_finish_with_token(link, is_a ? "a" : "b", bytes_make(token, size)));
    EXPECT_EQ(COMPLETED, link_status(link, is_a ? "a" : "b"));
    hand_open(&hand, link, BYTES_NONE);
    struct work *other = hand_await(&hand, 1);
    EXPECT_BYTES(is_a ? BYTES_LITERAL("b") : BYTES_LITERAL("a"), other->id);
    EXPECT_EQ(GRPC_OK, hand_finish(link, other, false));
    hand_close(&hand);
    served_close(&world);
}

/* ---- pings ---- */

/* Some SDKs take a stream for dead after 120 s of silence. */
TEST(an_idle_stream_gets_a_health_ping)
{
    struct link *link = served_start(&world);
    struct hand hand;

    hand_open(&hand, link, BYTES_NONE);
    served_advance_ms(&world, 20000);
    link_start(link, "a", "o", BYTES_NONE);
    (void)hand_await(&hand, 1); /* a message: the time begins again */
    served_advance_ms(&world, 20000);
    EXPECT_EQ(0, hand.pings_n);
    served_advance_ms(&world, 10001);
    EXPECT_EQ(1, hand.pings_n);
    served_advance_ms(&world, 29000);
    EXPECT_EQ(1, hand.pings_n);
    served_advance_ms(&world, 1001);
    EXPECT_EQ(2, hand.pings_n);
    EXPECT_EQ(2, served_stats(&world).health_pings);
    hand_close(&hand);
    served_close(&world);
}

/* ---- abandon ---- */

/* A worker that refuses its work gets something else to do for a while; another one takes it. */
TEST(abandoned_work_goes_to_another_stream)
{
    struct link *link = served_start(&world);
    struct hand hand;
    struct hand other;

    hand_open(&hand, link, BYTES_NONE);
    hand_open(&other, link, BYTES_NONE);
    link_start(link, "a", "o", BYTES_NONE);
    HAND_UNTIL(&world, hand.work_n + other.work_n == 1);
    struct hand *has = hand.work_n == 1 ? &hand : &other;
    struct hand *next = has == &hand ? &other : &hand;
    EXPECT_EQ(GRPC_OK, hand_abandon(link, has->work[0]));
    EXPECT_EQ(0, served_stats(&world).leases_n);
    served_linger_ms(&world, 50);
    EXPECT_EQ(1, hand.work_n + other.work_n); /* not at once */
    struct work *turn = hand_await(next, 1);
    EXPECT_EQ(GRPC_OK, hand_abandon(link, has->work[0])); /* again: nothing */
    EXPECT_EQ(GRPC_OK, hand_finish(link, turn, false));
    EXPECT_EQ(COMPLETED, link_status(link, "a"));
    hand_close(&hand);
    hand_close(&other);
    served_close(&world);
}
