/* SPDX-License-Identifier: Apache-2.0
 *
 * The nth allocation of the server's side fails, for n = 1, 2, 3, ...: whatever it was for, the
 * work is done in the end, because clients and workers try again and nothing is kept for ever by
 * who cannot do it. B16-B31
 */
#include "test/lib/hands.h"
#include "test/lib/test.h"
#include "wire/pb.h"

#include <stdio.h>

#define COMPLETED 1

static struct served world;

/* A connection that still works; a new one when the last is lost. */
static struct link *link_at_hand(struct link *link)
{
    if (link != NULL && !conn_is_over(link->conn) && !client_is_closing(link->client)) return link;
    if (link != NULL) served_unlink(link);
    for (int n = 0; n < 10; n++) {
        struct conn *conn;
        struct conn_options options = {
            .mem = &world.mem,
            .limits = &world.limits,
            .counters = &world.counters,
            .grpc = service_grpc(world.service),
            .http = &world.http,
        };
        if (conn_new(&options, served_now_ns(&world), &conn) != OK) continue; /* refused: again */
        conn_free(conn, served_now_ns(&world));
        break;
    }
    return served_link(&world, NULL);
}

/* Asks until there is an answer; a lost connection is one. */
static enum grpc_code ask(struct link **link, const char *rpc, struct bytes message,
                          struct answer *a)
{
    answer_release(a);
    answer_init(a);
    *link = link_at_hand(*link);
    served_begin(*link, rpc, message, 0, a);
    for (int n = 0; !a->is_over; n++) {
        served_linger_ms(&world, 1);
        if (a->is_over) break;
        if (conn_is_over((*link)->conn)) client_lose((*link)->client, "lost");
        if (n > 5000) test_fail(__FILE__, __LINE__, "%s: no answer", rpc);
    }
    return a->code;
}

static int status_in(const struct answer *a)
{
    struct pb_reader r = pb_reader_make(buffer_view(&a->message));
    struct pb_field f;
    struct pb_field g;

    while (pb_next(&r, &f)) {
        if (f.number != 2) continue;
        struct pb_reader sub = pb_sub(&f);
        while (pb_next(&sub, &g)) {
            if (g.number == 4) return pb_int32(&g);
        }
    }
    return 0;
}

/* A turn that schedules one task, the task, and the end; by a worker that is not easily
 * discouraged. */
static void answer_work(struct link **link, const struct work *work, struct answer *a)
{
    struct buffer b;

    buffer_init(&b, mem_process());
    pb_put_bytes(&b, 1, work->id);
    if (work->kind == WORK_TASK) {
        pb_put_int32(&b, 2, work->task_id);
        pb_put_bytes(&b, 5, work->token);
    } else {
        if (work->past_n == 0)
            put_schedule(&b, 1, "t", NULL, BYTES_NONE);
        else
            put_finish(&b, 2, BYTES_NONE);
        pb_put_bytes(&b, 4, work->token);
    }
    for (int n = 0; n < 3; n++) {
        enum grpc_code code =
            ask(link, work->kind == WORK_TASK ? "CompleteActivityTask" : "CompleteOrchestratorTask",
                buffer_view(&b), a);
        if (code == GRPC_OK) break;
    }
    buffer_release(&b);
}

/* False when nothing failed any more: there were fewer than nth allocations. */
static bool survives(uint64_t nth)
{
    struct link *link = NULL;
    struct hand hand = {0};
    struct answer a;
    bool has_hand = false;
    unsigned seen_n = 0;
    bool is_done = false;

    served_init(&world);
    served_open(&world, test_directory(), 1, false);
    answer_init(&a);
    link = served_link(&world, NULL);
    served_turn(&world);
    world.mem.fail_at = nth;
    struct bytes create = test_hex("0a01611201" /* instanceId "a", name "o" */
                                   "6f");
    enum grpc_code code;
    do {
        code = ask(&link, "StartInstance", create, &a);
    } while (code != GRPC_OK && code != GRPC_ALREADY_EXISTS);
    for (int n = 0; !is_done; n++) {
        EXPECT(n < 3000);
        link = link_at_hand(link);
        if (has_hand && (hand.call == NULL || hand.link != link)) {
            hand.call = hand.link == link ? hand.call : NULL;
            hand_close(&hand);
            has_hand = false;
        }
        if (!has_hand) {
            hand_open(&hand, link, BYTES_NONE);
            has_hand = true;
            seen_n = 0;
        }
        served_linger_ms(&world, 2);
        if (seen_n < hand.work_n) answer_work(&link, hand.work[seen_n++], &a);
        if (n % 10 == 9) served_advance_ms(&world, 1000);
        if (ask(&link, "GetInstance", test_hex("0a0161"), &a) == GRPC_OK)
            is_done = status_in(&a) == COMPLETED;
    }
    bool has_failed = world.mem.fail_at == 0;
    world.mem.fail_at = 0;
    hand.call = hand.link->conn == NULL ? NULL : hand.call;
    hand_close(&hand);
    answer_release(&a);
    served_close(&world);
    return has_failed;
}

TEST(no_failed_allocation_loses_work)
{
    uint64_t nth = 1;

    for (; nth < 500; nth++) {
        test_note("allocation %llu fails", (unsigned long long)nth);
        if (!survives(nth)) break;
    }
    test_note("%llu allocations", (unsigned long long)nth);
    EXPECT(nth > 20);
    EXPECT(nth < 500);
}
