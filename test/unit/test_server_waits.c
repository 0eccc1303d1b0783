/* SPDX-License-Identifier: Apache-2.0
 *
 * WaitForInstanceStart and WaitForInstanceCompletion: they are woken, they end with their caller,
 * and many of them cost little.
 */
#include "server/state.h"
#include "test/lib/asking.h"

#include <stdio.h>

static void begin_wait(struct asker *a, struct link *link, const char *rpc, const char *id,
                       int64_t timeout_ms, struct answer *answer)
{
    struct buffer *b = ask_new(a);
    put_text(b, 1, id);
    pb_put_varint(b, 2, 1);
    answer_init(answer);
    served_begin(link, rpc, buffer_view(b), timeout_ms, answer);
    served_turn(&a->served);
}

static uint32_t waiting_n(struct asker *a)
{
    struct service_stats stats;
    service_stats(a->served.service, &stats);
    return stats.waiting_n;
}

/* Until the engine has given everything back. */
static void settle(struct asker *a)
{
    (void)ask_new(a);
    while (desk_errands_n(a->served.service->desk) > 0) ASK(a, "Hello", GRPC_OK);
}

TEST(a_wait_for_the_start_ends_before_one_for_the_end)
{
    struct asker a;
    struct answer start;
    struct answer end;
    asker_init(&a, 1);
    START(&a, "w", "wait", "5");
    begin_wait(&a, a.link, "WaitForInstanceCompletion", "w", 0, &end);
    begin_wait(&a, a.link, "WaitForInstanceStart", "w", 0, &start);
    served_await(&start);
    EXPECT_EQ(GRPC_OK, start.code);
    EXPECT(!end.is_over);
    EXPECT_EQ(1, waiting_n(&a));
    STEER(&a, "TerminateInstance", "w", "\"x\"", GRPC_OK);
    served_await(&end);
    EXPECT_EQ(GRPC_OK, end.code);
    ProtobufCMessage *message = NULL;
    EXPECT_STATUS(OK, message_decode(&get_instance_response__descriptor, buffer_view(&end.message),
                                     &a.arena, &message));
    GetInstanceResponse *got = (GetInstanceResponse *)message;
    EXPECT(got->exists);
    EXPECT_TEXT("\"x\"", got->orchestration_state->output->value);
    EXPECT_EQ(0, waiting_n(&a));
    answer_release(&start);
    answer_release(&end);
    asker_release(&a);
}

/* An instance that nobody runs does not start: the wait ends by its deadline, and the engine
 * forgets it. */
TEST(a_deadline_ends_a_wait_and_leaves_nothing)
{
    struct asker a;
    struct answer wait;
    asker_init(&a, 1);
    START(&a, "p", "nobody", NULL);
    begin_wait(&a, a.link, "WaitForInstanceStart", "p", 1000, &wait);
    EXPECT_EQ(1, waiting_n(&a));
    served_advance_ms(&a.served, 1001);
    served_await(&wait);
    EXPECT_EQ(GRPC_DEADLINE_EXCEEDED, wait.code);
    EXPECT_EQ(0, waiting_n(&a));
    settle(&a);
    EXPECT(list_is_empty(&a.served.service->waiting));
    answer_release(&wait);
    asker_release(&a);
}

TEST(a_cancelled_wait_and_a_lost_connection_leave_nothing)
{
    struct asker a;
    struct answer cancelled;
    struct answer lost;
    asker_init(&a, 2);
    START(&a, "p", "nobody", NULL);
    START(&a, "q", "nobody", NULL);
    struct link *other = served_link(&a.served, NULL);
    begin_wait(&a, a.link, "WaitForInstanceStart", "p", 0, &cancelled);
    begin_wait(&a, other, "WaitForInstanceCompletion", "q", 0, &lost);
    EXPECT_EQ(2, waiting_n(&a));
    client_cancel(cancelled.call);
    served_turn(&a.served);
    EXPECT_EQ(1, waiting_n(&a));
    served_unlink(other);
    EXPECT_EQ(0, waiting_n(&a));
    settle(&a);
    EXPECT(!cancelled.is_over);
    answer_release(&cancelled);
    answer_release(&lost);
    asker_release(&a);
}

/* The answer and the cancellation may cross each other: whatever comes first, the errand is freed
 * once. */
TEST(a_wait_that_is_answered_while_it_is_cancelled_ends_once)
{
    struct asker a;
    struct answer wait;
    asker_init(&a, 1);
    for (unsigned n = 0; n < 30; n++) {
        char id[20];
        (void)snprintf(id, sizeof id, "i%u", n);
        START(&a, id, "wait", NULL);
        begin_wait(&a, a.link, "WaitForInstanceCompletion", id, 0, &wait);
        struct answer end;
        struct buffer *b = ask_new(&a);
        put_text(b, 1, id);
        answer_init(&end);
        served_begin(a.link, "TerminateInstance", buffer_view(b), 0, &end);
        client_cancel(wait.call);
        served_await(&end);
        EXPECT_EQ(GRPC_OK, end.code);
        answer_release(&end);
        answer_release(&wait);
    }
    settle(&a);
    asker_release(&a);
}

/* An engine that takes nothing: what it had to cancel is tried again until it does. */
static bool is_full;
static bool (*real_post)(void *user, struct request *request);
static bool choosy_post(void *user, struct request *request)
{
    return !is_full && real_post(user, request);
}

TEST(a_cancellation_that_the_engine_does_not_take_is_tried_again)
{
    struct asker a;
    struct answer wait;
    asker_init(&a, 1);
    struct desk_engine *engine =
        (struct desk_engine *)(uintptr_t)desk_engine(a.served.service->desk);
    real_post = engine->post;
    engine->post = choosy_post;
    is_full = false;
    START(&a, "p", "nobody", NULL);
    begin_wait(&a, a.link, "WaitForInstanceStart", "p", 0, &wait);
    is_full = true;
    client_cancel(wait.call);
    served_turn(&a.served);
    EXPECT(!list_is_empty(&a.served.service->uncancelled));
    EXPECT_EQ(0, waiting_n(&a));
    EXPECT(service_tick(a.served.service) < served_now_ns(&a.served) + (int64_t)1000000000);
    struct buffer *b = ask_new(&a);
    put_text(b, 1, "p");
    ASK(&a, "GetInstance", GRPC_UNAVAILABLE);
    EXPECT(strstr(a.answer.text, "busy") != NULL);
    ASK(&a, "WaitForInstanceStart", GRPC_UNAVAILABLE);
    is_full = false;
    settle(&a);
    EXPECT(list_is_empty(&a.served.service->uncancelled));
    answer_release(&wait);
    asker_release(&a);
}

TEST(beyond_the_limit_of_requests_under_way_calls_are_refused)
{
    struct asker a;
    struct answer waits[5];
    served_init(&a.served);
    a.served.options.errands_n_max = 4;
    asker_open(&a, 1);
    START(&a, "p", "nobody", NULL);
    for (unsigned n = 0; n < 5; n++) {
        begin_wait(&a, a.link, "WaitForInstanceStart", "p", 0, &waits[n]);
    }
    served_await(&waits[4]);
    EXPECT_EQ(GRPC_UNAVAILABLE, waits[4].code);
    EXPECT_EQ(4, waiting_n(&a));
    /* room again: the cancellation itself is not refused */
    client_cancel(waits[0].call);
    served_turn(&a.served);
    while (desk_errands_n(a.served.service->desk) > 3) served_turn(&a.served);
    EXPECT(GET(&a, "p")->exists);
    for (unsigned n = 0; n < 5; n++) answer_release(&waits[n]);
    asker_release(&a);
}

/* ---- many ---- */

#define MANY_N 10000u
#define LINKS_N 4u

static size_t memory_of_waits(const struct asker *a)
{
    size_t size = a->served.mem.used;
    const struct list *head = &a->served.service->waiting;
    for (struct list *node = list_first(head); node != NULL; node = list_next(head, node)) {
        size += container_of(node, struct errand, of_user)->mem.used;
    }
    return size;
}

/* A dashboard or a load test has thousands of waiting calls on a few connections. */
TEST(ten_thousand_waiting_calls_cost_little_and_all_are_answered)
{
    struct asker a;
    struct answer *waits = mem_take_zero(mem_process(), MANY_N * sizeof *waits);
    struct link *links[LINKS_N];
    served_init(&a.served);
    a.served.limits.calls_n_max = MANY_N;
    asker_open(&a, 1);
    START(&a, "one-and-only-instance-with-a-name", "wait", NULL);
    for (unsigned n = 0; n < LINKS_N; n++) links[n] = served_link(&a.served, NULL);
    served_turn(&a.served);
    size_t before = memory_of_waits(&a);
    struct buffer *b = ask_new(&a);
    put_text(b, 1, "one-and-only-instance-with-a-name");
    for (unsigned n = 0; n < MANY_N; n++) {
        answer_init(&waits[n]);
        served_begin(links[n % LINKS_N], "WaitForInstanceCompletion", buffer_view(b), 0, &waits[n]);
        if (n % 100 == 99) served_turn(&a.served);
    }
    served_turn(&a.served);
    EXPECT_EQ(MANY_N, waiting_n(&a));
    size_t each = (memory_of_waits(&a) - before) / MANY_N;
    test_note("%zu bytes for each", each);
    EXPECT(each <= 2500);
    EXPECT(each >= sizeof(struct errand)); /* else the count is wrong */
    /* some of them go away, the others are answered */
    for (unsigned n = 0; n < 1000; n++) client_cancel(waits[n].call);
    served_turn(&a.served);
    EXPECT_EQ(MANY_N - 1000, waiting_n(&a));
    STEER(&a, "TerminateInstance", "one-and-only-instance-with-a-name", NULL, GRPC_OK);
    for (unsigned n = 1000; n < MANY_N; n++) {
        served_await(&waits[n]);
        EXPECT_EQ(GRPC_OK, waits[n].code);
    }
    settle(&a);
    for (unsigned n = 0; n < MANY_N; n++) answer_release(&waits[n]);
    mem_give(mem_process(), waits, MANY_N * sizeof *waits);
    asker_release(&a);
}
