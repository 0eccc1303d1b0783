/* SPDX-License-Identifier: Apache-2.0
 *
 * Purges by filter, and by force. Purges of single instances and trees are in test_host_lists.c,
 * those over several shards in test_engine.c.
 */
#include "host/purger.h"
#include "test/unit/host_world.h"

#define FINISHED_N 300 /* more than two waves */

static void start_many(struct world *w, const char *prefix, int n, const char *name)
{
    char id[24];

    for (int i = 0; i < n; i++) {
        (void)snprintf(id, sizeof id, "%s%03d", prefix, i);
        EXPECT_STATUS(OK, world_start(w, id, name));
    }
}

static void where_init(struct ask *a, struct world *w)
{
    ask_init(a, w, REQUEST_PURGE_WHERE, "");
    a->request.purge.query.hub = BYTES_LITERAL("h");
}

static uint32_t where_run(struct ask *a)
{
    ask_run(a);
    EXPECT(a->is_done);
    EXPECT_STATUS(OK, a->request.status);
    return a->request.purged_n;
}

static uint32_t seen_n;
static void count_rows(struct request *r)
{
    EXPECT_STATUS(OK, r->status);
    seen_n = (uint32_t)r->rows_n;
}

/* How many the hub still has. */
static uint32_t rows_n(struct world *w, const char *hub)
{
    struct ask a;

    ask_init(&a, w, REQUEST_QUERY, "");
    a.request.query.hub = bytes_of_text(hub);
    a.request.query.limit = QUERY_LIMIT_MAX;
    a.request.done = count_rows;
    ask_run(&a);
    return seen_n;
}

static void world_init_quick(struct world *w)
{
    world_init(w);
    w->options.check_every_step = false; /* there are hundreds */
    world_open(w);
}

/* All that have ended go, wherever they are; what runs stays. */
TEST(everything_that_has_ended_goes)
{
    struct world w;
    struct ask a;
    world_init_quick(&w);
    start_many(&w, "a", FINISHED_N / 2, "seq1");
    start_many(&w, "r", 3, "wait");
    world_advance_ms(&w, 2 * w.options.idle_evict_ms);
    EXPECT_EQ(0, world_stats(&w).instances_hot);
    start_many(&w, "b", FINISHED_N / 2, "seq1");
    start_many(&w, "s", 2, "wait");
    where_init(&a, &w);
    EXPECT_EQ(FINISHED_N, where_run(&a));
    EXPECT(!a.request.has_more);
    EXPECT_EQ(5, rows_n(&w, "h"));
    EXPECT_EQ(STATUS_RUNNING, world_get(&w, "r001").status);
    world_crash(&w);
    world_open(&w);
    EXPECT_EQ(5, rows_n(&w, "h"));
    where_init(&a, &w);
    EXPECT_EQ(0, where_run(&a));
    world_release(&w);
}

/* Created not before `from`, before `to`, and with one of these statuses. */
TEST(only_what_matches_goes)
{
    struct world w;
    struct ask a;
    int64_t start_ms = WORLD_START_NS / NS_PER_MS;
    world_init_quick(&w);
    for (int i = 0; i < 4; i++) {
        char id[8];
        (void)snprintf(id, sizeof id, "i%d", i);
        EXPECT_STATUS(OK, world_start(&w, id, i == 2 ? "fail" : "seq1"));
        world_advance_ms(&w, 1);
    }
    EXPECT_STATUS(OK, world_start(&w, "i4", "wait"));
    where_init(&a, &w);
    a.request.purge.query.from_ms = start_ms + 1;
    a.request.purge.query.to_ms = start_ms + 2;
    EXPECT_EQ(1, where_run(&a));
    EXPECT(!world_get(&w, "i1").has_view);
    where_init(&a, &w);
    a.request.purge.query.status_mask = 1u << STATUS_FAILED | 1u << STATUS_RUNNING;
    EXPECT_EQ(1, where_run(&a));
    EXPECT(!world_get(&w, "i2").has_view);
    EXPECT(world_get(&w, "i0").has_view);
    EXPECT(world_get(&w, "i3").has_view);
    EXPECT(world_get(&w, "i4").has_view);
    ask_init(&a, &w, REQUEST_PURGE_WHERE, "");
    ask_run(&a);
    EXPECT_STATUS(E_INVALID, a.request.status); /* no hub */
    world_release(&w);
}

/* When the time is over it says how far it came, and that there is more. */
TEST(time_is_limited)
{
    struct world w;
    struct ask a;
    world_init_quick(&w);
    start_many(&w, "a", FINISHED_N, "seq1");
    where_init(&a, &w);
    a.request.purge.timeout_ms = 100;
    w.is_held[LANE_COMMIT] = true;
    ask_run(&a);
    EXPECT(!a.is_done); /* a wave is under way */
    w.now_ns += 100 * NS_PER_MS;
    w.is_held[LANE_COMMIT] = false;
    world_pump(&w);
    EXPECT(a.is_done);
    EXPECT_STATUS(OK, a.request.status);
    EXPECT(a.request.has_more);
    uint32_t purged_n = a.request.purged_n;
    EXPECT(purged_n > 0);
    EXPECT(purged_n < FINISHED_N);
    EXPECT_EQ(FINISHED_N - purged_n, rows_n(&w, "h"));
    where_init(&a, &w);
    a.request.purge.timeout_ms = 100;
    EXPECT_EQ(FINISHED_N - purged_n, where_run(&a));
    EXPECT(!a.request.has_more);
    world_release(&w);
}

/* A large purge keeps nobody waiting: what is asked meanwhile is answered meanwhile, and a frame
 * takes a whole wave. */
TEST(others_go_on_between)
{
    struct world w;
    struct ask a, start;
    world_init_quick(&w);
    start_many(&w, "a", FINISHED_N, "seq1");
    w.order = 0;
    uint64_t frames = world_stats(&w).frames;
    where_init(&a, &w);
    w.is_held[LANE_COMMIT] = true;
    ask_run(&a);
    ask_init(&start, &w, REQUEST_START, "new");
    start.request.start.name = BYTES_LITERAL("wait");
    ask_run(&start);
    w.is_held[LANE_COMMIT] = false;
    world_pump(&w);
    EXPECT_EQ(1, start.order);
    EXPECT_EQ(2, a.order);
    EXPECT_EQ(FINISHED_N, a.request.purged_n);
    EXPECT(world_stats(&w).frames - frames < 10);
    world_release(&w);
}

/* With their descendants, which are counted; a tree of which something runs stays whole. */
TEST(trees_go_as_a_whole)
{
    struct world w;
    struct ask a, terminate;
    world_init_quick(&w);
    start_many(&w, "p", 4, "parent");
    world_advance_ms(&w, 2 * w.options.idle_evict_ms);
    w.holds_work = true;
    EXPECT_STATUS(OK, world_start(&w, "q", "parent"));
    world_answer_turns(&w);
    world_answer_turns(&w); /* the child's step is held */
    ask_init(&terminate, &w, REQUEST_TERMINATE, "q");
    ask_run(&terminate);
    where_init(&a, &w);
    a.request.purge.recurse = true;
    EXPECT_EQ(8, where_run(&a));
    EXPECT_EQ(2, rows_n(&w, "h"));
    EXPECT(world_get(&w, "q").has_view);
    EXPECT(world_get(&w, "q-c").has_view);
    world_release(&w);
}

/* What is spared is passed over: more of it than a page has does not keep the purge busy for
 * ever, and what is behind it still goes. */
TEST(what_is_spared_is_passed_over)
{
    struct world w;
    struct ask a, terminate;
    char id[16];
    world_init_quick(&w);
    start_many(&w, "p", 150, "lonely"); /* their children wait */
    for (int i = 0; i < 150; i++) {
        (void)snprintf(id, sizeof id, "p%03d", i);
        ask_init(&terminate, &w, REQUEST_TERMINATE, id);
        ask_run(&terminate);
        EXPECT_STATUS(OK, terminate.request.status);
    }
    world_advance_ms(&w, 1);
    start_many(&w, "z", 3, "seq1");
    where_init(&a, &w);
    a.request.purge.recurse = true;
    EXPECT_EQ(3, where_run(&a));
    EXPECT_EQ(300, rows_n(&w, "h"));
    world_release(&w);
}

/* The end of a hub: everything goes, what runs too, and whoever waited for it hears that it is
 * gone. Other hubs do not notice. */
TEST(a_hub_ends_by_force)
{
    struct world w;
    struct ask a, wait, other, late;
    world_init_quick(&w);
    start_many(&w, "a", 3, "seq1");
    start_many(&w, "r", 150, "wait");
    ask_init(&other, &w, REQUEST_START, "");
    other.request.key = BYTES_LITERAL("other/a");
    other.request.start.name = BYTES_LITERAL("wait");
    ask_run(&other);
    world_advance_ms(&w, 2 * w.options.idle_evict_ms);
    w.holds_work = true;
    start_many(&w, "s", 3, "seq2");
    ask_init(&wait, &w, REQUEST_WAIT, "s001");
    wait.request.wait.until_finished = true;
    ask_run(&wait);
    EXPECT(!wait.is_done);
    where_init(&a, &w);
    a.request.purge.is_forced = true;
    EXPECT_EQ(156, where_run(&a));
    EXPECT(!a.request.has_more);
    EXPECT(wait.is_done);
    EXPECT_STATUS(OK, wait.request.status);
    EXPECT(!wait.has_view);
    EXPECT_EQ(0, rows_n(&w, "h"));
    EXPECT_EQ(1, rows_n(&w, "other"));
    world_answer(&w); /* turns of what is gone: stale, and nothing comes back by them */
    EXPECT_EQ(0, rows_n(&w, "h"));
    ask_init(&late, &w, REQUEST_PURGE, "s001");
    late.request.client.is_forced = true;
    ask_run(&late);
    EXPECT_STATUS(E_NOT_FOUND, late.request.status);
    world_release(&w);
}

/* By force with descendants: one purge for a tree that runs. */
TEST(a_running_tree_goes_by_force)
{
    struct world w;
    struct ask a;
    world_init(&w);
    world_open(&w);
    w.holds_work = true;
    EXPECT_STATUS(OK, world_start(&w, "p", "parent"));
    world_answer_turns(&w);
    world_answer_turns(&w);
    EXPECT_EQ(2, rows_n(&w, "h"));
    ask_init(&a, &w, REQUEST_PURGE, "p");
    a.request.client.recurse = true;
    a.request.client.is_forced = true;
    ask_run(&a);
    EXPECT_STATUS(OK, a.request.status);
    EXPECT_EQ(2, a.request.purged_n);
    EXPECT_EQ(0, rows_n(&w, "h"));
    w.holds_work = false;
    world_answer(&w);
    EXPECT_EQ(0, rows_n(&w, "h"));
    world_release(&w);
}

static void nothing(struct wave *wave) { (void)wave; }

/* What is about one instance must not hide that the host is closed: after that nothing may be
 * asked. */
TEST(the_heaviest_answer_counts)
{
    const enum status answers[] = {OK, E_PRECONDITION, E_CLOSED, E_NOT_FOUND, E_LIMIT, OK};
    struct wave wave = {.done = nothing};
    struct mem mem;
    uint32_t purged_n = 5;
    char text[200];
    mem_init(&mem, SIZE_MAX);
    EXPECT_STATUS(OK, wave_init(&wave, &mem, 6));
    for (int i = 0; i < 6; i++) {
        wave_add(&wave, BYTES_LITERAL("h/a"), false, false);
        wave.slots[i].request.status = answers[i];
        wave.slots[i].request.purged_n = 2;
        (void)snprintf(wave.slots[i].request.text, sizeof text, "answer %d", i);
    }
    EXPECT_STATUS(E_CLOSED, wave_take(&wave, &purged_n, text, sizeof text));
    EXPECT_EQ(9, purged_n);
    EXPECT_TEXT("answer 2", text);
    EXPECT_EQ(0, wave.n);
    wave_release(&wave, &mem);
    mem_release(&mem);
}

/* So many at once, and no more: each holds memory as long as it lasts. */
TEST(purges_at_once_are_bounded)
{
    struct world w;
    struct ask asks[6];
    uint32_t refused_n = 0;
    world_init_quick(&w);
    start_many(&w, "a", 3, "seq1");
    w.is_held[LANE_COMMIT] = true;
    for (int i = 0; i < 6; i++) {
        where_init(&asks[i], &w);
        ask_post(&asks[i]);
    }
    world_pump(&w);
    w.is_held[LANE_COMMIT] = false;
    world_pump(&w);
    for (int i = 0; i < 6; i++) {
        EXPECT(asks[i].is_done);
        if (asks[i].request.status == E_UNAVAILABLE) refused_n++;
    }
    EXPECT_EQ(2, refused_n);
    where_init(&asks[0], &w);
    EXPECT_EQ(0, where_run(&asks[0]));
    world_release(&w);
}

/* The process may end at any point of it: it is answered once, and after a restart the rest is
 * there to be purged. */
TEST(it_may_be_cut_off_anywhere)
{
    for (int steps_n = 1; steps_n < 60; steps_n++) {
        struct world w;
        struct ask a;
        test_note("after %d steps", steps_n);
        world_init_quick(&w);
        start_many(&w, "a", 140, "seq1");
        world_advance_ms(&w, 2 * w.options.archive_every_ms);
        where_init(&a, &w);
        ask_post(&a);
        for (int n = 0; n < steps_n && !a.is_done; n++) {
            (void)host_turn(w.host);
            if (!a.is_done) (void)world_run_job(&w);
        }
        bool was_done = a.is_done;
        world_crash(&w);
        EXPECT(a.is_done);
        EXPECT_STATUS(was_done ? OK : E_CLOSED, a.request.status);
        world_open(&w);
        uint32_t left_n = rows_n(&w, "h");
        EXPECT(!was_done || left_n == 0);
        where_init(&a, &w);
        EXPECT_EQ(left_n, where_run(&a));
        world_release(&w);
        if (was_done) return;
    }
    test_fail(__FILE__, __LINE__, "it never ended by itself");
}

/* A host that stops does not wait for it: it ends with what it has. */
TEST(stopping_ends_it)
{
    struct world w;
    struct ask a;
    world_init_quick(&w);
    start_many(&w, "a", FINISHED_N, "seq1");
    where_init(&a, &w);
    w.is_held[LANE_COMMIT] = true;
    ask_run(&a);
    host_stop(w.host);
    w.is_held[LANE_COMMIT] = false;
    world_pump(&w);
    EXPECT(a.is_done);
    EXPECT_STATUS(E_UNAVAILABLE, a.request.status);
    EXPECT(a.request.purged_n > 0);
    EXPECT(a.request.purged_n < FINISHED_N);
    EXPECT(host_is_quiet(w.host));
    world_release(&w);
}
