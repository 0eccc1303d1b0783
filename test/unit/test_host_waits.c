/* SPDX-License-Identifier: Apache-2.0
 *
 * Waits that are cancelled, wherever they are when it happens: in memory, parked with the archive,
 * or already answered and gone.
 */
#include "base/clock.h"
#include "host/waiters.h"
#include "test/unit/host_world.h"

#include <stdlib.h>

static void wait_init(struct ask *a, struct world *w, const char *id)
{
    ask_init(a, w, REQUEST_WAIT, id);
    a->request.wait.until_finished = true;
}

static enum status cancel(struct world *w, const char *id, const struct request *wait)
{
    struct ask a;

    ask_init(&a, w, REQUEST_CANCEL, id);
    a.request.cancelled = wait;
    ask_run(&a);
    EXPECT(a.is_done);
    return a.request.status;
}

static void raise_go(struct world *w, const char *id)
{
    struct ask a;

    ask_init(&a, w, REQUEST_RAISE, id);
    a.request.client.name = BYTES_LITERAL("go");
    ask_run(&a);
    EXPECT_STATUS(OK, a.request.status);
}

/* Who does not want to wait any longer is answered, before the one who said so; the others go on
 * waiting, also when it was the first of them, whose key was everybody's. */
TEST(a_cancelled_wait_ends_alone)
{
    struct world w;
    struct ask waits[3], stop;
    world_init(&w);
    world_open(&w);
    EXPECT_STATUS(OK, world_start(&w, "a", "wait"));
    for (int i = 0; i < 3; i++) {
        wait_init(&waits[i], &w, "a");
        ask_run(&waits[i]);
    }
    EXPECT_EQ(3, world_stats(&w).waiters);
    w.order = 0;
    ask_init(&stop, &w, REQUEST_CANCEL, "a");
    stop.request.cancelled = &waits[0].request;
    ask_run(&stop);
    EXPECT_STATUS(OK, stop.request.status);
    EXPECT_STATUS(E_TIMEOUT, waits[0].request.status);
    EXPECT_EQ(1, waits[0].order);
    EXPECT_EQ(2, stop.order);
    memset(waits[0].key, 'x', sizeof waits[0].key); /* its maker's again */
    EXPECT_EQ(2, world_stats(&w).waiters);

    EXPECT_STATUS(OK, cancel(&w, "a", &waits[2].request));
    EXPECT_STATUS(E_TIMEOUT, waits[2].request.status);
    raise_go(&w, "a");
    EXPECT(waits[1].is_done);
    EXPECT_STATUS(OK, waits[1].request.status);
    EXPECT_TEXT("went", waits[1].output);
    EXPECT_EQ(0, world_stats(&w).waiters);
    world_release(&w);
}

/* A wait that was answered may be gone: its place is compared and never looked at. */
TEST(cancelling_what_was_answered)
{
    struct world w;
    struct ask other;
    world_init(&w);
    world_open(&w);
    EXPECT_STATUS(OK, world_start(&w, "a", "wait"));
    EXPECT_STATUS(OK, world_start(&w, "b", "wait"));
    struct ask *gone = malloc(sizeof *gone);
    assert(gone != NULL);
    wait_init(gone, &w, "a");
    ask_run(gone);
    wait_init(&other, &w, "a");
    ask_run(&other);
    EXPECT_STATUS(OK, cancel(&w, "a", &gone->request));
    uintptr_t address = (uintptr_t)gone;
    free(gone);
    const struct ask *freed = (const struct ask *)address;
    EXPECT_STATUS(E_NOT_FOUND, cancel(&w, "a", &freed->request));
    EXPECT_STATUS(E_NOT_FOUND, cancel(&w, "b", &other.request)); /* another instance's */
    EXPECT_STATUS(E_NOT_FOUND, cancel(&w, "nobody", &other.request));
    EXPECT(!other.is_done);
    raise_go(&w, "a");
    EXPECT(other.is_done);
    EXPECT_STATUS(E_NOT_FOUND, cancel(&w, "a", &other.request));
    EXPECT_STATUS(E_INVALID, cancel(&w, "", &other.request));
    world_release(&w);
}

/* While the archive is read for it, its key is in use: it ends when that is over, instead of
 * waiting. One that is not being read yet ends at once. */
TEST(cancelling_while_the_archive_is_read)
{
    struct world w;
    struct ask first, second, third;
    world_init(&w);
    world_open(&w);
    EXPECT_STATUS(OK, world_start(&w, "a", "wait"));
    world_advance_ms(&w, 2 * w.options.idle_evict_ms);
    EXPECT_EQ(0, world_stats(&w).instances_hot);
    w.is_held[LANE_READ] = true;
    wait_init(&first, &w, "a");
    ask_run(&first);
    wait_init(&second, &w, "a");
    ask_run(&second);
    wait_init(&third, &w, "a");
    ask_run(&third);
    EXPECT_EQ(3, world_stats(&w).parked);
    EXPECT_STATUS(E_NOT_FOUND, cancel(&w, "a", &first.request)); /* soon */
    EXPECT(!first.is_done);
    EXPECT_STATUS(OK, cancel(&w, "a", &second.request));
    EXPECT(second.is_done);
    EXPECT_STATUS(E_TIMEOUT, second.request.status);
    EXPECT_EQ(2, world_stats(&w).parked);

    w.is_held[LANE_READ] = false;
    world_pump(&w);
    EXPECT(first.is_done);
    EXPECT_STATUS(E_TIMEOUT, first.request.status);
    EXPECT(!third.is_done);
    EXPECT_EQ(1, world_stats(&w).waiters);
    EXPECT_EQ(0, world_stats(&w).parked);
    raise_go(&w, "a");
    EXPECT(third.is_done);
    world_release(&w);
}

#define MANY 20000

static uint32_t timeouts_n;
static void count_timeout(struct request *r)
{
    if (r->status == E_TIMEOUT) timeouts_n++;
}
static uint32_t cancels_n;
static void count_cancel(struct request *r)
{
    if (r->status == OK) cancels_n++;
}

static void make_many(struct request *requests, enum request_kind kind, request_done_fn *done)
{
    for (uint32_t i = 0; i < MANY; i++) {
        requests[i] = (struct request){.kind = kind, .done = done, .key = BYTES_LITERAL("h/a")};
    }
}

/* Thousands of clients of one instance that lose patience one by one cost no more than they are:
 * the last is found as fast as the first, in memory as before the archive. */
TEST(thousands_are_cancelled_in_no_time)
{
    struct world w;
    struct request *waits = calloc(MANY, sizeof *waits);
    struct request *cancels = calloc(MANY, sizeof *cancels);
    assert(waits != NULL && cancels != NULL);
    for (int is_parked = 0; is_parked < 2; is_parked++) {
        test_note("parked: %d", is_parked);
        world_init(&w);
        world_open(&w);
        EXPECT_STATUS(OK, world_start(&w, "a", "wait"));
        if (is_parked == 1) world_advance_ms(&w, 2 * w.options.idle_evict_ms);
        w.is_held[LANE_READ] = true;
        make_many(waits, REQUEST_WAIT, count_timeout);
        make_many(cancels, REQUEST_CANCEL, count_cancel);
        for (uint32_t i = 0; i < MANY; i++) {
            waits[i].wait.until_finished = true;
            EXPECT(host_post(w.host, &waits[i]));
        }
        world_pump(&w);
        timeouts_n = cancels_n = 0;
        int64_t before_ns = clock_cpu_ns();
        for (uint32_t i = 0; i < MANY; i++) {
            cancels[i].cancelled = &waits[MANY - 1 - i]; /* a search from the front finds it last */
            EXPECT(host_post(w.host, &cancels[i]));
        }
        world_pump(&w);
        w.is_held[LANE_READ] = false;
        world_pump(&w);
        EXPECT(clock_cpu_ns() - before_ns < NS_PER_S);
        EXPECT_EQ(MANY, timeouts_n);
        EXPECT(cancels_n > MANY - 100); /* but for those being read */
        EXPECT_EQ(0, world_stats(&w).waiters);
        EXPECT_EQ(0, world_stats(&w).parked);
        world_release(&w);
    }
    free(waits);
    free(cancels);
}

/* Without memory for the addresses the right one is still found, only slower. */
TEST(waiters_without_memory_for_addresses)
{
    enum { N = 200 };
    struct mem mem;
    struct waiters waiters;
    struct request requests[N], stranger = {0};
    struct list rest;
    const uint64_t seed[2] = {1, 2};
    mem_init(&mem, 1000); /* an entry and a first table, not a second one */
    waiters_init(&waiters, &mem, seed);
    list_init(&rest);
    for (int i = 0; i < N; i++) {
        requests[i] = (struct request){.kind = REQUEST_WAIT, .key = BYTES_LITERAL("h/a")};
        EXPECT_STATUS(OK, waiters_add(&waiters, &requests[i]));
    }
    EXPECT(waiters.addresses.is_blind);
    EXPECT(!waiters_remove(&waiters, BYTES_LITERAL("h/a"), &stranger));
    EXPECT(waiters_remove(&waiters, BYTES_LITERAL("h/a"), &requests[7]));
    EXPECT(!waiters_remove(&waiters, BYTES_LITERAL("h/a"), &requests[7]));
    waiters_take(&waiters, BYTES_LITERAL("h/a"), true, &rest);
    EXPECT_EQ(0, waiters.n);
    EXPECT(!waiters.addresses.is_blind);
    uint32_t rest_n = 0;
    while (list_pop_front(&rest) != NULL) rest_n++;
    EXPECT_EQ(N - 1, rest_n);
    waiters_release(&waiters);
    mem_release(&mem);
}
