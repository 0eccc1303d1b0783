/* SPDX-License-Identifier: Apache-2.0
 *
 * Bound streams: each message starts one instance, whatever crashes, with a starter that is slow,
 * refuses, and answers out of order.
 */
#include "base/clock.h"
#include "base/log.h"
#include "host/hold.h"
#include "test/lib/stream_world.h"
#include "test/lib/test.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define PARTS_N 3u
#define SOURCES_N 2u
#define STARTED_MAX 1000u
#define ASKED_MAX 2000u

/* What survives a crash of the engine: instances, and how far each part has come. */
static struct engine {
    struct stream_starter starter;
    struct rng *rng;
    struct stream_start *asked[ASKED_MAX]; /* not answered yet */
    struct stream_positions *learning[SOURCES_N];
    uint32_t asked_n;
    char started[STARTED_MAX][16]; /* ids */
    uint32_t started_n;
    uint64_t positions[SOURCES_N][PARTS_N];
    uint32_t refuse_per_mille;
    char never[16]; /* an id that is always E_EXISTS */
    char stuck[16]; /* an id that is always "not now" */
} engine;

static struct stream_world w;

static uint32_t part_of(void *user, struct bytes hub, struct bytes id)
{
    (void)user;
    EXPECT_BYTES(BYTES_LITERAL("default"), hub);
    return (uint32_t)(bytes_hash(id) % PARTS_N);
}

static bool start(void *user, struct stream_start *start)
{
    (void)user;
    if (engine.asked_n == ASKED_MAX || rng_chance(engine.rng, engine.refuse_per_mille))
        return false;
    engine.asked[engine.asked_n++] = start;
    return true;
}

static uint32_t source_of(const char *source)
{
    unsigned stream;
    unsigned partition;

    EXPECT(sscanf(source, "%*x/%u/%u", &stream, &partition) == 2);
    EXPECT(partition < SOURCES_N);
    return partition;
}

static bool learn(void *user, struct stream_positions *positions)
{
    (void)user;
    engine.learning[source_of(positions->source)] = positions;
    return true;
}

/* As the engine's core does it. */
static enum status take(const struct stream_start *start)
{
    uint64_t *last =
        &engine.positions[source_of(start->source)][part_of(NULL, start->hub, start->id)];
    char id[16];

    EXPECT(start->id.len < sizeof id);
    memcpy(id, start->id.ptr, start->id.len);
    id[start->id.len] = '\0';
    if (start->position <= *last) return OK;
    if (start->after != *last) return E_STALE;
    if (strcmp(id, engine.never) == 0) return E_EXISTS;
    if (strcmp(id, engine.stuck) == 0 || rng_chance(engine.rng, engine.refuse_per_mille)) {
        return E_UNAVAILABLE;
    }
    EXPECT(engine.started_n < STARTED_MAX);
    for (uint32_t i = 0; i < engine.started_n; i++) EXPECT(strcmp(engine.started[i], id) != 0);
    memcpy(engine.started[engine.started_n++], id, sizeof id);
    *last = start->position;
    return OK;
}

/* The oldest of one part is taken; the answers come back in that order too. False: idle. */
static bool engine_step(void)
{
    for (uint32_t i = 0; i < SOURCES_N; i++) {
        struct stream_positions *positions = engine.learning[i];
        if (positions == NULL) continue;
        engine.learning[i] = NULL;
        for (uint32_t k = 0; k < PARTS_N; k++) positions->positions[k] = engine.positions[i][k];
        positions->status = OK;
        stream_positions_done(positions);
        return true;
    }
    if (engine.asked_n == 0) return false;
    uint32_t part = (uint32_t)rng_below(engine.rng, PARTS_N);
    for (uint32_t i = 0; i < engine.asked_n; i++) {
        struct stream_start *start = engine.asked[i];
        if (part_of(NULL, start->hub, start->id) != part) continue;
        engine.asked_n--;
        memmove(engine.asked + i, engine.asked + i + 1,
                (engine.asked_n - i) * sizeof(engine.asked[0]));
        start->status = take(start);
        (void)snprintf(start->text, sizeof start->text, "another instance has this id");
        stream_start_done(start);
        return true;
    }
    return true;
}

static void run_both(uint32_t steps_n)
{
    for (uint32_t i = 0; i < steps_n && !w.is_fatal; i++) {
        (void)stream_world_step(&w);
        if (rng_chance(engine.rng, 500)) (void)engine_step();
        if (rng_chance(engine.rng, 100)) w.wall_ns += 2 * NS_PER_MS;
    }
}

static void open_both(uint64_t seed)
{
    stream_world_init(&w, seed);
    memset(&engine, 0, sizeof engine);
    engine.rng = &w.rng;
    engine.starter = (struct stream_starter){
        .parts_n = PARTS_N,
        .part_of = part_of,
        .start = start,
        .learn = learn,
    };
    w.options.starter = &engine.starter;
    w.options.bound_window_n = 16;
    w.options.checkpoint_n = 10;
    EXPECT_STATUS(OK, stream_world_open(&w));
}

static void crash_both(bool is_power)
{
    stream_world_crash(&w, is_power);
    engine.asked_n = 0;
    memset(engine.learning, 0, sizeof engine.learning);
    enum status status = stream_world_open(&w);
    test_note("%s", w.damage);
    EXPECT_STATUS(OK, status);
}

static void bind(const char *workflow)
{
    struct stream_call call;

    stream_call_init(&call, STREAM_REQUEST_SET, "s");
    call.request.set.settings.partitions_n = SOURCES_N;
    (void)snprintf(call.request.set.settings.workflow, sizeof call.request.set.settings.workflow,
                   "%s", workflow);
    call.request.set.mask = STREAM_SET_PARTITIONS | STREAM_SET_WORKFLOW;
    EXPECT_STATUS(OK, stream_call_run(&w, &call));
    stream_call_release(&call);
}

static uint32_t letters_n(void)
{
    struct stream_call call;

    stream_call_init(&call, STREAM_REQUEST_LETTERS, "s");
    call.request.letter.limit = 1000;
    EXPECT_STATUS(OK, stream_call_run(&w, &call));
    uint32_t n = call.request.items_n;
    stream_call_release(&call);
    return n;
}

TEST(each_message_starts_one_instance)
{
    char id[16];

    open_both(1);
    bind("ship");
    for (int i = 0; i < 100; i++) {
        (void)snprintf(id, sizeof id, "order-%d", i);
        EXPECT_STATUS(OK, stream_world_append(&w, "s", id, "{}", -1, NULL));
    }
    run_both(4000);
    EXPECT_EQ(100, engine.started_n);
    EXPECT_EQ(0, letters_n());
    crash_both(true);
    run_both(2000);
    EXPECT_EQ(100, engine.started_n);
    stream_world_release(&w);
}

/* Without key, not JSON, or an id that is taken: a dead letter each, once, and nobody waits. */
TEST(what_cannot_start_anything_becomes_a_dead_letter)
{
    char id[16];

    open_both(2);
    (void)snprintf(engine.never, sizeof engine.never, "order-7");
    bind("ship");
    for (int i = 0; i < 50; i++) {
        (void)snprintf(id, sizeof id, "order-%d", i);
        EXPECT_STATUS(OK, stream_world_append(&w, "s", i % 10 == 3 ? NULL : id, "{}", -1, NULL));
    }
    run_both(4000);
    EXPECT_EQ(44, engine.started_n);
    EXPECT_EQ(6, letters_n());
    crash_both(true);
    run_both(2000);
    EXPECT_EQ(6, letters_n());
    stream_world_release(&w);
}

/* One that must wait stops its part up to the window, and no other part. I7, I8 */
TEST(one_that_must_wait_delays_only_its_part)
{
    char id[16];

    open_both(3);
    (void)snprintf(engine.stuck, sizeof engine.stuck, "order-0");
    w.options.bound_window_n = 64;
    crash_both(false);
    bind("ship");
    for (int i = 0; i < 60; i++) {
        (void)snprintf(id, sizeof id, "order-%d", i);
        EXPECT_STATUS(OK, stream_world_append(&w, "s", id, "{}", 0, NULL));
    }
    run_both(3000);
    uint32_t others_n = 0;
    for (int i = 0; i < 60; i++) {
        (void)snprintf(id, sizeof id, "order-%d", i);
        if (bytes_hash(bytes_of_text(id)) % PARTS_N !=
            bytes_hash(BYTES_LITERAL("order-0")) % PARTS_N) {
            others_n++;
        }
    }
    EXPECT_EQ(others_n, engine.started_n);
    engine.stuck[0] = '\0';
    w.wall_ns += 10 * NS_PER_S;
    run_both(3000);
    EXPECT_EQ(60, engine.started_n);
    stream_world_release(&w);
}

/* Crashes and refusals in every phase; instances are the engine's, and survive. */
TEST(bound_streams_start_each_once_under_any_crash)
{
    const char *seeds = getenv("SEEDS");
    uint64_t n = seeds == NULL ? 60 : strtoull(seeds, NULL, 10);

    log_set_level((enum log_level)(LOG_ERROR + 1));
    for (uint64_t seed = 1; seed <= n; seed++) {
        char id[16];
        uint32_t bad_n = 0;
        uint32_t sent_n = 0;
        test_note("seed %llu", (unsigned long long)seed);
        open_both(seed);
        engine.refuse_per_mille = (uint32_t)rng_below(&w.rng, 300);
        bind("ship");
        for (int i = 0; i < 60; i++) {
            bool is_bad = rng_chance(&w.rng, 100);
            (void)snprintf(id, sizeof id, "order-%d", i);
            EXPECT_STATUS(OK, stream_world_append(&w, "s", is_bad ? NULL : id, "{}",
                                                  (int64_t)rng_below(&w.rng, SOURCES_N), NULL));
            if (is_bad)
                bad_n++;
            else
                sent_n++;
            run_both((uint32_t)rng_below(&w.rng, 40));
            if (rng_chance(&w.rng, 60)) crash_both(rng_chance(&w.rng, 500));
        }
        for (int i = 0; i < 200 && engine.started_n < sent_n; i++) {
            w.wall_ns += NS_PER_S;
            run_both(200);
        }
        EXPECT_EQ(sent_n, engine.started_n);
        w.wall_ns += 5 * NS_PER_S;
        run_both(300);
        EXPECT_EQ(bad_n, letters_n());
        stream_world_release(&w);
    }
}

static atomic_bool is_still;

static void *hold_streams(void *user)
{
    struct hold *hold = user;

    EXPECT_STATUS(OK, hold_all(&hold, 1));
    atomic_store(&is_still, true);
    return NULL;
}

static void append_many(const char *prefix, int n)
{
    static char value[1200];
    char id[16];

    memset(value, '7', sizeof value - 1);
    for (int i = 0; i < n; i++) {
        (void)snprintf(id, sizeof id, "%s-%d", prefix, i);
        EXPECT_STATUS(OK, stream_world_append(&w, "s", id, value, -1, NULL));
    }
}

/* Of messages that are not in segments. */
static uint64_t memory_size(void)
{
    struct stream_stats stats;

    streams_stats(w.s, &stats);
    return stats.memory_size;
}

/* A copy has the frames up to the LSN and the files: no start may be on its way at that moment, and
 * the files stay as they are until the end, while messages are taken as always. */
TEST(what_is_held_starts_nothing_until_it_goes_on_and_moves_nothing_until_the_end)
{
    pthread_t owner;

    open_both(7);
    bind("ship");
    append_many("before", 20);
    for (int n = 0; n < 10000 && engine.asked_n == 0; n++) {
        (void)stream_world_step(&w);
        for (uint32_t i = 0; i < SOURCES_N; i++) {
            if (engine.learning[i] != NULL) (void)engine_step();
        }
    }
    EXPECT(engine.asked_n > 0);
    struct hold *hold = streams_hold(w.s);
    atomic_store(&is_still, false);
    EXPECT_EQ(0, pthread_create(&owner, NULL, hold_streams, hold));
    while (hold_phase(hold) == HOLD_NONE) (void)sched_yield();
    for (int n = 0; n < 500; n++) (void)stream_world_step(&w);
    EXPECT(engine.asked_n > 0); /* nobody has answered them */
    EXPECT_EQ(HOLD_ASKED, hold_phase(hold));
    for (int n = 0; n < 1000000 && !atomic_load(&is_still); n++) run_both(1);
    EXPECT_EQ(0, pthread_join(owner, NULL));
    EXPECT_EQ(0, engine.asked_n);
    EXPECT(hold->lsn > 0);
    uint32_t started_n = engine.started_n;
    append_many("during", 200);
    run_both(2000);
    EXPECT_EQ(started_n, engine.started_n);
    uint64_t size = memory_size();
    EXPECT(size > 200 * 1200);
    hold_go_on(&hold, 1);
    run_both(20000);
    EXPECT_EQ(220, engine.started_n);
    EXPECT_EQ(size, memory_size());
    EXPECT(hold_end(hold));
    append_many("after", 100);
    run_both(10000);
    EXPECT_EQ(320, engine.started_n);
    EXPECT(memory_size() < size);
    EXPECT(!hold_end(hold));
    stream_world_release(&w);
}

/* The owner may be gone: what is held does not wait for ever. */
TEST(a_hold_ends_by_itself)
{
    pthread_t owner;

    open_both(8);
    struct hold *hold = streams_hold(w.s);
    atomic_store(&is_still, false);
    EXPECT_EQ(0, pthread_create(&owner, NULL, hold_streams, hold));
    for (int n = 0; n < 1000000 && !atomic_load(&is_still); n++) run_both(1);
    EXPECT_EQ(0, pthread_join(owner, NULL));
    hold_go_on(&hold, 1);
    run_both(100);
    EXPECT_EQ(HOLD_HELD, hold_phase(hold));
    hold_watch(hold, false, INT64_MAX);
    EXPECT(!hold_end(hold));
    stream_world_release(&w);
}
