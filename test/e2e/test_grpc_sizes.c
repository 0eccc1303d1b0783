/* SPDX-License-Identifier: Apache-2.0
 *
 * Large things over real connections: answers in parts, long histories, and what is larger than the
 * server lets through.
 */
#include "base/mem.h"
#include "test/lib/caller.h"
#include "test/lib/real_server.h"
#include "test/lib/test.h"
#include "wire/pb.h"

#include <stdio.h>

#define SOON_MS 20000
#define CALLERS_MAX 8
#define KIB 1024u
#define MIB (1024u * 1024u)

static struct real_server server;
static struct client_sockets *sockets;
static char data[PATH_MAX];
static struct buffer large;

/* Those of the present test: closed with the world. */
static struct caller *callers[CALLERS_MAX];
static unsigned callers_n;

static void open_world(const char *const *flags)
{
    server = (struct real_server){0};
    callers_n = 0;
    (void)snprintf(data, sizeof data, "%s/data", test_directory());
    real_server_start(&server, data, flags);
    EXPECT_STATUS(OK, client_sockets_open(mem_process(), 64, &sockets));
    buffer_init(&large, mem_process());
}

static void close_world(void)
{
    while (callers_n > 0) caller_close(callers[--callers_n]);
    client_sockets_close(sockets);
    real_server_stop(&server, SOON_MS);
    buffer_release(&large);
}

static void open_caller(struct caller *c)
{
    EXPECT(caller_open(c, sockets, server.address, ""));
    EXPECT(callers_n < CALLERS_MAX);
    callers[callers_n++] = c;
}

static struct taken *await(struct basket *b, uint32_t n)
{
    struct taken *t = basket_await(b, n, SOON_MS);

    if (t == NULL)
        test_fail(__FILE__, __LINE__, "%u of %u pieces of work in %d ms", b->taken_n, n, SOON_MS);
    return t;
}

/* A JSON text of so many bytes. */
static struct bytes text_of(size_t size)
{
    buffer_clear(&large);
    EXPECT(buffer_reserve(&large, size));
    memset(large.ptr, 'x', size);
    large.ptr[0] = large.ptr[size - 1] = '"';
    large.len = size;
    return buffer_view(&large);
}

static int status_of(struct caller *c, const char *id)
{
    struct seen seen;

    EXPECT_EQ(GRPC_OK, caller_get(c, id, &seen));
    EXPECT(seen.exists);
    return seen.status;
}

/* ---- in parts ---- */

static void begin_part(struct caller *c, const struct item *item)
{
    buffer_clear(&c->message);
    pb_put_bytes(&c->message, 1, item->id);
}

static enum grpc_code send_part(struct caller *c, const struct item *item, int32_t index,
                                bool is_partial)
{
    pb_put_bytes(&c->message, 4, item->token);
    if (is_partial) pb_put_varint(&c->message, 8, 1);
    struct pb_mark chunk = pb_begin(&c->message, 9, 4);
    pb_put_plain_int32(&c->message, 1, index);
    pb_end(&c->message, chunk);
    return caller_ask(c, "CompleteOrchestratorTask", buffer_view(&c->message));
}

/* An answer in parts counts as one: nothing of it before its last part, then all of it. */
TEST(an_answer_in_parts_counts_when_it_is_whole)
{
    struct caller c;
    struct basket b;
    uint32_t seen = 0;

    open_world(NULL);
    open_caller(&c);
    EXPECT_EQ(GRPC_OK, caller_start(&c, "a", "flow", BYTES_LITERAL("1")));
    basket_open(&b, &c, BYTES_NONE);
    struct taken *turn = await(&b, 1);
    for (int32_t n = 0; n < 3; n++) {
        begin_part(&c, &turn->item);
        put_task_action(&c.message, 2 * n + 1, "step", text_of(2 * MIB));
        put_task_action(&c.message, 2 * n + 2, "step", BYTES_LITERAL("1"));
        EXPECT_EQ(GRPC_OK, send_part(&c, &turn->item, n, n < 2));
        if (n == 1) EXPECT(basket_await(&b, 2, 200) == NULL);
    }
    for (uint32_t n = 2; n <= 7; n++) {
        const struct item *task = &await(&b, n)->item;
        EXPECT_EQ(WORK_TASK, task->kind);
        EXPECT_EQ(task->task_id % 2 == 1 ? 2 * MIB : 1, task->input.len);
        seen |= 1u << task->task_id;
    }
    EXPECT_EQ(0x7e, seen);
    basket_close(&b);
    close_world();
}

/* Parts that were there when the server died are gone: the work is offered again, whole. */
TEST(half_an_answer_is_forgotten_by_a_restart)
{
    struct caller c;
    struct basket b;

    open_world(NULL);
    open_caller(&c);
    EXPECT_EQ(GRPC_OK, caller_start(&c, "a", "flow", BYTES_LITERAL("1")));
    basket_open(&b, &c, BYTES_NONE);
    struct taken *turn = await(&b, 1);
    begin_part(&c, &turn->item);
    put_task_action(&c.message, 1, "step", BYTES_LITERAL("1"));
    EXPECT_EQ(GRPC_OK, send_part(&c, &turn->item, 0, true));
    real_server_kill(&server);
    basket_close(&b);
    caller_close(&c);
    real_server_start(&server, data, NULL);
    open_caller(&c);
    basket_open(&b, &c, BYTES_NONE);
    turn = await(&b, 1);
    EXPECT_EQ(0, turn->item.past_n);
    EXPECT_EQ(GRPC_OK, caller_end_turn(&c, &turn->item, BYTES_LITERAL("\"end\"")));
    EXPECT_EQ(STATUS_COMPLETED, status_of(&c, "a"));
    basket_close(&b);
    close_world();
}

/* ---- long histories ---- */

/* One turn that orders an activity with a large input, and the activity's end. */
static void grow_history(struct caller *c, struct basket *b, uint32_t n, int32_t id, size_t size)
{
    struct taken *turn = await(b, n);

    EXPECT_EQ(WORK_TURN, turn->item.kind);
    EXPECT_EQ(GRPC_OK, caller_order_task(c, &turn->item, id, "step", text_of(size)));
    struct taken *task = await(b, n + 1);
    EXPECT_EQ(WORK_TASK, task->item.kind);
    EXPECT_EQ(size, task->item.input.len);
    EXPECT_EQ(GRPC_OK, caller_end_task(c, &task->item, BYTES_LITERAL("1")));
}

static uint32_t streamed_events_n(struct caller *c, const struct item *turn)
{
    struct pb_field f;
    uint32_t events_n = 0;

    buffer_clear(&c->message);
    pb_put_bytes(&c->message, 1, turn->id);
    pb_put_string_value(&c->message, 2, turn->execution_id, true);
    pb_put_varint(&c->message, 3, 1);
    EXPECT_EQ(GRPC_OK, caller_ask(c, "StreamInstanceHistory", buffer_view(&c->message)));
    struct pb_reader r = pb_reader_make(buffer_view(&c->answer));
    while (pb_next(&r, &f)) {
        if (f.number == 1) events_n++;
    }
    EXPECT(!r.failed);
    return events_n;
}

/* A history of more than 1 MiB is not sent with each turn to a worker that can fetch it; one that
 * cannot gets all of it; after a restart both are the same. */
TEST(a_long_history_is_fetched_by_workers_that_can)
{
    struct caller can, cannot;
    struct basket b;

    open_world(NULL);
    open_caller(&can);
    EXPECT_EQ(GRPC_OK, caller_start(&can, "a", "flow", BYTES_LITERAL("1")));
    basket_open(&b, &can, test_hex("5001")); /* HISTORY_STREAMING */
    for (uint32_t n = 0; n < 4; n++) grow_history(&can, &b, 1 + 2 * n, (int32_t)n + 1, 400 * KIB);
    for (int life = 0; life < 2; life++) {
        struct taken *turn = await(&b, life == 0 ? 9 : 1);
        EXPECT(turn->item.is_streamed);
        EXPECT_EQ(0, turn->item.past_n);
        /* OrchestratorStarted, ExecutionStarted, 4 TaskScheduled, 3 times OrchestratorStarted and
         * TaskCompleted */
        EXPECT_EQ(12, streamed_events_n(&can, &turn->item));
        if (life == 1) break;
        real_server_kill(&server);
        basket_close(&b);
        caller_close(&can);
        real_server_start(&server, data, NULL);
        open_caller(&can);
        basket_open(&b, &can, test_hex("5001"));
    }
    /* that one goes away without a word; another, which cannot fetch, has its work */
    basket_close(&b);
    caller_close(&can);
    open_caller(&cannot);
    basket_open(&b, &cannot, BYTES_NONE);
    struct taken *turn = await(&b, 1);
    EXPECT(!turn->item.is_streamed);
    EXPECT_EQ(12, turn->item.past_n);
    EXPECT_EQ(GRPC_OK, caller_end_turn(&cannot, &turn->item, BYTES_LITERAL("\"end\"")));
    EXPECT_EQ(STATUS_COMPLETED, status_of(&cannot, "a"));
    basket_close(&b);
    close_world();
}

/* ---- larger than what is let through ---- */

static const char *const narrow[] = {"--message-size-max", "64KiB", NULL};

/* After a restart with room enough it is still there, and not lost. */
static void expect_there_after_restart(struct caller *c, const char *id)
{
    caller_close(c);
    real_server_stop(&server, SOON_MS);
    real_server_start(&server, data, NULL);
    open_caller(c);
    EXPECT_EQ(STATUS_RUNNING, status_of(c, id));
}

/* An activity's answer that is too large is refused; the work is not lost and not tried for ever,
 * but waits for an operator, and says why. */
TEST(an_answer_too_large_waits_for_an_operator)
{
    struct caller c;
    struct basket b;

    open_world(narrow);
    open_caller(&c);
    EXPECT_EQ(GRPC_OK, caller_start(&c, "a", "flow", BYTES_LITERAL("1")));
    basket_open(&b, &c, BYTES_NONE);
    struct taken *turn = await(&b, 1);
    EXPECT_EQ(GRPC_OK, caller_order_task(&c, &turn->item, 1, "step", BYTES_LITERAL("1")));
    struct taken *task = await(&b, 2);
    EXPECT_EQ(GRPC_RESOURCE_EXHAUSTED, caller_end_task(&c, &task->item, text_of(100 * KIB)));
    EXPECT(basket_await(&b, 3, 500) == NULL); /* nobody gets it again */
    EXPECT_EQ(STATUS_RUNNING, status_of(&c, "a"));
    EXPECT_EQ(1, (int64_t)real_server_metric(&server, "norn_work_parked_total"));
    EXPECT(real_server_has_logged(&server, "larger than the limit of 65536"));
    basket_close(&b);
    expect_there_after_restart(&c, "a");
    close_world();
}

/* A turn whose message would be too large for any worker, likewise. */
TEST(a_turn_too_large_waits_for_an_operator)
{
    struct caller c;
    struct basket b;

    open_world(narrow);
    open_caller(&c);
    EXPECT_EQ(GRPC_OK, caller_start(&c, "a", "flow", BYTES_LITERAL("1")));
    basket_open(&b, &c, BYTES_NONE);
    grow_history(&c, &b, 1, 1, 40 * KIB);
    grow_history(&c, &b, 3, 2, 40 * KIB);
    EXPECT(basket_await(&b, 5, 500) == NULL);
    EXPECT_EQ(STATUS_RUNNING, status_of(&c, "a"));
    EXPECT_EQ(1, (int64_t)real_server_metric(&server, "norn_work_parked_total"));
    EXPECT(real_server_has_logged(&server, "more than the limit of 65536"));
    basket_close(&b);
    expect_there_after_restart(&c, "a");
    close_world();
}

/* What a client sends or would be sent beyond the limit is refused, and everybody else goes on. */
TEST(clients_are_refused_what_is_too_large)
{
    struct caller c;
    struct seen seen;

    open_world(narrow);
    open_caller(&c);
    EXPECT_EQ(GRPC_RESOURCE_EXHAUSTED, caller_start(&c, "big", "flow", text_of(100 * KIB)));
    EXPECT_EQ(GRPC_OK, caller_get(&c, "big", &seen));
    EXPECT(!seen.exists);
    EXPECT_EQ(GRPC_OK, caller_start(&c, "a", "flow", text_of(60 * KIB)));
    EXPECT_EQ(STATUS_PENDING, status_of(&c, "a"));
    close_world();
}
