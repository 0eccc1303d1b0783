/* SPDX-License-Identifier: Apache-2.0
 *
 * The host over stores in memory: durability before answers, recovery at every point, requests in
 * their order, messages, memory, the end. What becomes of instances in the archive is in
 * test_host_archive.c, full disks in test_host_disk.c.
 */
#include "test/unit/host_world.h"

#define MINUTE_MS INT64_C(60000)

/* The whole way: start, three steps by a worker, completion, in the order of the history. */
TEST(orchestration_runs_to_its_end)
{
    struct world w;
    struct ask history;
    world_init(&w);
    world_open(&w);
    EXPECT_STATUS(OK, world_start(&w, "a", "seq3"));
    expect_completed(&w, "a", "done");
    ask_init(&history, &w, REQUEST_HISTORY, "a");
    ask_run(&history);
    EXPECT_EQ(1, history.counts[EVENT_EXECUTION_STARTED]);
    EXPECT_EQ(3, history.counts[EVENT_TASK_SCHEDULED]);
    EXPECT_EQ(3, history.counts[EVENT_TASK_COMPLETED]);
    EXPECT_EQ(1, history.counts[EVENT_EXECUTION_COMPLETED]);
    EXPECT_EQ(7, w.delivered_n); /* four turns, three steps */
    world_release(&w);
}

/* Nobody may hear of what a crash could still undo: neither who started it, nor who only looks, nor
 * a worker. */
TEST(nothing_is_told_before_it_is_durable)
{
    struct world w;
    struct ask start, get;
    world_init(&w);
    world_open(&w);
    w.is_held[LANE_COMMIT] = true;
    ask_init(&start, &w, REQUEST_START, "a");
    start.request.start.name = BYTES_LITERAL("seq1");
    ask_run(&start);
    ask_init(&get, &w, REQUEST_GET, "a");
    ask_run(&get);
    EXPECT(!start.is_done);
    EXPECT(!get.is_done);
    EXPECT_EQ(0, w.delivered_n);

    w.is_held[LANE_COMMIT] = false;
    world_pump(&w);
    EXPECT(start.is_done);
    EXPECT_STATUS(OK, start.request.status);
    EXPECT(get.is_done);
    EXPECT(get.has_view);
    EXPECT_EQ(STATUS_PENDING, get.status); /* as it was when it was asked */
    world_release(&w);
}

/* Who is told nothing has its memory back at once; what it asked becomes durable like all else. */
TEST(what_nobody_is_told_of_is_done_at_once)
{
    struct world w;
    struct ask start, raise, get;
    world_init(&w);
    world_open(&w);
    w.holds_work = true;
    ask_init(&start, &w, REQUEST_START, "a");
    start.request.start.name = BYTES_LITERAL("seq1");
    ask_run(&start);
    world_pump(&w);
    EXPECT(start.is_done);

    w.is_held[LANE_COMMIT] = true;
    ask_init(&raise, &w, REQUEST_RAISE, "a");
    raise.request.client.name = BYTES_LITERAL("event");
    raise.request.is_untold = true;
    ask_run(&raise);
    EXPECT(raise.is_done);
    EXPECT_STATUS(OK, raise.request.status);
    ask_init(&get, &w, REQUEST_GET, "a");
    ask_run(&get);
    EXPECT(!get.is_done);

    w.is_held[LANE_COMMIT] = false;
    world_pump(&w);
    EXPECT(get.is_done);
    world_release(&w);
}

/* What is asked while a frame is on its way goes into the next one: one frame for all of it. */
TEST(a_frame_carries_everything_that_came_meanwhile)
{
    struct world w;
    static struct ask starts[20];
    char id[16];
    world_init(&w);
    world_open(&w);
    w.holds_work = true;
    w.is_held[LANE_COMMIT] = true;
    for (int i = 0; i < 20; i++) {
        (void)snprintf(id, sizeof id, "i%d", i);
        ask_init(&starts[i], &w, REQUEST_START, id);
        starts[i].request.start.name = BYTES_LITERAL("seq1");
        ask_run(&starts[i]);
    }
    w.is_held[LANE_COMMIT] = false;
    world_pump(&w);
    for (int i = 0; i < 20; i++) EXPECT(starts[i].is_done);
    EXPECT_EQ(2, world_stats(&w).frames);
    world_release(&w);
}

/* A batch that is full goes on its way before more is taken; however small the bound, everything
 * gets its turn. */
TEST(small_batches_do_all_the_work)
{
    struct world w;
    static struct ask starts[20];
    char id[16];
    world_init(&w);
    w.options.batch_bytes_max = 1;
    world_open(&w);
    for (int i = 0; i < 20; i++) {
        (void)snprintf(id, sizeof id, "i%d", i);
        ask_init(&starts[i], &w, REQUEST_START, id);
        starts[i].request.start.name = BYTES_LITERAL("seq2");
        ask_post(&starts[i]);
    }
    world_pump(&w);
    EXPECT(world_stats(&w).frames >= 20 * 6);
    for (int i = 0; i < 20; i++) {
        EXPECT(starts[i].is_done);
        (void)snprintf(id, sizeof id, "i%d", i);
        expect_completed(&w, id, "done");
    }
    world_release(&w);
}

/* One step of the host or of a lane at a time, so that a crash can come between any two. */
static bool run_steps(struct world *w, int steps_n)
{
    for (int n = 0; n < steps_n; n++) {
        int64_t wait_ns = host_turn(w->host);
        if (n + 1 >= steps_n) return true;
        n++;
        if (!world_run_job(w) && wait_ns > 0) return false;
    }
    return true;
}

/* Wherever the process ends, after a restart an acknowledged start runs to its end, and no step is
 * lost or recorded twice. The archive is written all the while, so that its rounds are cut off
 * too. */
TEST(crash_at_every_point_loses_nothing)
{
    bool is_cut_off = true;

    for (int steps_n = 1; is_cut_off; steps_n++) {
        struct world w;
        struct ask start, history;
        test_note("crash after %d steps", steps_n);
        world_init(&w);
        w.options.archive_every_ms = 0;
        w.options.archive_batch_n = 1;
        world_open(&w);
        ask_init(&start, &w, REQUEST_START, "a");
        start.request.start.name = BYTES_LITERAL("seq2");
        ask_post(&start);
        is_cut_off = run_steps(&w, steps_n);
        bool is_acknowledged = start.is_done && start.request.status == OK;
        world_crash(&w);
        world_open(&w);
        world_pump(&w);
        struct ask got = world_get(&w, "a");
        EXPECT(got.has_view || !is_acknowledged);
        if (got.has_view) {
            EXPECT_EQ(STATUS_COMPLETED, got.status);
            ask_init(&history, &w, REQUEST_HISTORY, "a");
            ask_run(&history);
            EXPECT_EQ(2, history.counts[EVENT_TASK_SCHEDULED]);
            EXPECT_EQ(2, history.counts[EVENT_TASK_COMPLETED]);
            EXPECT_EQ(1, history.counts[EVENT_EXECUTION_COMPLETED]);
        }
        world_release(&w);
        EXPECT(steps_n < 1000);
    }
}

/* Requests for an instance that is being loaded are done in the order they came; others do not wait
 * for it. */
TEST(parked_requests_keep_their_order)
{
    struct world w;
    struct ask suspend, raise, resume, terminate;
    world_init(&w);
    world_open(&w);
    EXPECT_STATUS(OK, world_start(&w, "a", "wait"));
    world_advance_ms(&w, 2 * w.options.idle_evict_ms);
    EXPECT_EQ(0, world_stats(&w).instances_hot);
    w.is_held[LANE_READ] = true;
    w.order = 0;
    ask_init(&suspend, &w, REQUEST_SUSPEND, "a");
    ask_run(&suspend);
    ask_init(&raise, &w, REQUEST_RAISE, "a");
    raise.request.client.name = BYTES_LITERAL("go");
    ask_run(&raise);
    ask_init(&resume, &w, REQUEST_RESUME, "a");
    ask_run(&resume);
    ask_init(&terminate, &w, REQUEST_TERMINATE, "a");
    terminate.request.client.data = maybe_some(BYTES_LITERAL("stopped"));
    ask_run(&terminate);
    EXPECT_STATUS(OK, world_start(&w, "b", "seq1"));
    EXPECT(!suspend.is_done);

    w.is_held[LANE_READ] = false;
    world_pump(&w);
    EXPECT_EQ(2, suspend.order); /* "b" was the first */
    EXPECT_EQ(3, raise.order);
    EXPECT_EQ(4, resume.order);
    EXPECT_EQ(5, terminate.order);
    struct ask got = world_get(&w, "a");
    EXPECT_EQ(STATUS_TERMINATED, got.status);
    EXPECT_TEXT("stopped", got.output);
    world_release(&w);
}

/* Waiting is answered by the change, with what is durable then; by what is there already; or at
 * once when there is no such instance. */
TEST(waits_are_answered)
{
    struct world w;
    struct ask finished, started, unknown, archived;
    world_init(&w);
    world_open(&w);
    w.holds_work = true;
    EXPECT_STATUS(OK, world_start(&w, "a", "seq1"));
    ask_init(&finished, &w, REQUEST_WAIT, "a");
    finished.request.wait.until_finished = true;
    ask_run(&finished);
    ask_init(&started, &w, REQUEST_WAIT, "a");
    ask_run(&started);
    EXPECT(!finished.is_done);
    EXPECT(!started.is_done);
    world_answer(&w); /* the first turn */
    EXPECT(started.is_done);
    EXPECT_EQ(STATUS_RUNNING, started.status);
    EXPECT(!finished.is_done);
    w.holds_work = false;
    world_answer(&w);
    EXPECT(finished.is_done);
    EXPECT_EQ(STATUS_COMPLETED, finished.status);
    EXPECT_TEXT("done", finished.output);

    ask_init(&unknown, &w, REQUEST_WAIT, "nobody");
    unknown.request.wait.until_finished = true;
    ask_run(&unknown);
    EXPECT(unknown.is_done);
    EXPECT(!unknown.has_view);

    world_advance_ms(&w, 2 * w.options.archive_every_ms);
    EXPECT_EQ(0, world_stats(&w).instances_hot);
    ask_init(&archived, &w, REQUEST_WAIT, "a");
    archived.request.wait.until_finished = true;
    ask_run(&archived);
    EXPECT(archived.is_done);
    EXPECT_EQ(STATUS_COMPLETED, archived.status);
    world_release(&w);
}

/* Who waits for a sleeper that is not in memory hears of it when it has come back and finished. */
TEST(wait_for_a_sleeper)
{
    struct world w;
    struct ask wait;
    world_init(&w);
    world_open(&w);
    EXPECT_STATUS(OK, world_start(&w, "a", "nap"));
    world_advance_ms(&w, MINUTE_MS);
    EXPECT_EQ(0, world_stats(&w).instances_hot);
    ask_init(&wait, &w, REQUEST_WAIT, "a");
    wait.request.wait.until_finished = true;
    ask_run(&wait);
    EXPECT(!wait.is_done);
    world_advance_ms(&w, NAP_MS);
    EXPECT(wait.is_done);
    EXPECT_TEXT("woken", wait.output);
    world_release(&w);
}

/* A child's result finds its parent, though the parent left memory while it waited. */
TEST(message_brings_its_target_back)
{
    struct world w;
    world_init(&w);
    world_open(&w);
    EXPECT_STATUS(OK, world_start(&w, "p", "parent"));
    expect_completed(&w, "p", "child done");

    w.holds_work = true;
    EXPECT_STATUS(OK, world_start(&w, "q", "parent"));
    world_answer_turns(&w); /* q has created its child, whose first turn is held */
    world_answer_turns(&w); /* the child has scheduled its step, which is held */
    world_advance_ms(&w, 2 * w.options.idle_evict_ms);
    EXPECT_EQ(1, world_stats(&w).instances_hot);
    w.holds_work = false;
    world_answer(&w);
    expect_completed(&w, "q", "child done");
    world_release(&w);
}

/* Messages to a partition stay in line behind one whose target is loaded, and none is lost or sent
 * in vain. */
TEST(messages_wait_in_line)
{
    struct world w;
    char id[16];
    world_init(&w);
    w.options.partitions_n = 1;
    world_open(&w);
    w.holds_work = true;
    for (int i = 0; i < 6; i++) {
        (void)snprintf(id, sizeof id, "p%d", i);
        EXPECT_STATUS(OK, world_start(&w, id, "parent"));
        world_answer_turns(&w); /* it has created its child */
        world_answer_turns(&w); /* which has scheduled its step */
        /* the parents of the first three leave memory */
        if (i == 2) world_advance_ms(&w, 2 * w.options.idle_evict_ms);
    }
    EXPECT_EQ(9, world_stats(&w).instances_hot);
    uint64_t loaded = world_stats(&w).loaded;
    w.holds_work = false;
    world_answer(&w);
    for (int i = 0; i < 6; i++) {
        (void)snprintf(id, sizeof id, "p%d", i);
        expect_completed(&w, id, "child done");
    }
    EXPECT_EQ(3, (int64_t)(world_stats(&w).loaded - loaded));
    EXPECT_EQ(0, world_stats(&w).core.dropped_messages);
    EXPECT_EQ(0, world_stats(&w).core.duplicate_messages);
    world_release(&w);
}

/* Work that was on its way to a worker that left is given to another one. */
TEST(work_of_a_lost_worker_is_given_again)
{
    struct world w;
    struct ask start, detach;
    world_init(&w);
    world_open(&w);
    w.is_held[LANE_COMMIT] = true;
    ask_init(&start, &w, REQUEST_START, "a");
    start.request.start.name = BYTES_LITERAL("seq1");
    ask_run(&start); /* its first turn is taken for the worker, and waits for the frame */
    ask_init(&detach, &w, REQUEST_WORKER_DETACH, "worker");
    detach.request.worker.worker = &w.worker;
    ask_run(&detach);
    EXPECT(detach.is_done);
    w.is_held[LANE_COMMIT] = false;
    world_pump(&w);
    EXPECT_EQ(0, w.delivered_n);
    world_attach(&w);
    world_advance_ms(&w, 10 * MINUTE_MS);
    expect_completed(&w, "a", "done");
    world_release(&w);
}

/* A request whose step finds no memory is refused and changes nothing: the same again is as if
 * new. */
TEST(no_memory_refuses_and_changes_nothing)
{
    struct world w;
    int refused_n = 0;
    world_init(&w);
    world_open(&w);
    for (uint64_t nth = 1; nth < 20; nth++) {
        test_note("allocation %llu fails", (unsigned long long)nth);
        w.mem.fail_at = nth;
        w.mem.fail_forever = true;
        enum status status = world_start(&w, "a", "wait");
        w.mem.fail_at = 0;
        w.mem.fail_forever = false;
        if (status == OK) break;
        EXPECT_STATUS(E_NOMEM, status);
        EXPECT(!world_get(&w, "a").has_view);
        refused_n++;
    }
    if (!world_get(&w, "a").has_view) EXPECT_STATUS(OK, world_start(&w, "a", "wait"));
    world_advance_ms(&w, 1000);
    EXPECT(refused_n > 0);
    EXPECT_EQ(STATUS_RUNNING, world_get(&w, "a").status);
    world_release(&w);
}

/* A clean end: what was asked is done, what has finished is archived, and nobody can ask any
 * more. */
TEST(stop_finishes_and_archives)
{
    struct world w;
    struct ask late;
    world_init(&w);
    world_open(&w);
    EXPECT_STATUS(OK, world_start(&w, "a", "seq1"));
    EXPECT(!host_is_quiet(w.host));
    host_stop(w.host);
    ask_init(&late, &w, REQUEST_START, "b");
    EXPECT(!host_post(w.host, &late.request));
    world_pump(&w);
    EXPECT(host_is_quiet(w.host));
    EXPECT_EQ(1, world_stats(&w).instances_archived);
    world_crash(&w);
    world_open(&w);
    EXPECT_EQ(0, world_stats(&w).instances_hot);
    expect_completed(&w, "a", "done");
    world_release(&w);
}

/* What still waits when the host closes is answered, so that its maker can let go of it. */
TEST(close_answers_everybody)
{
    struct world w;
    struct ask wait, start;
    world_init(&w);
    world_open(&w);
    EXPECT_STATUS(OK, world_start(&w, "a", "wait"));
    ask_init(&wait, &w, REQUEST_WAIT, "a");
    wait.request.wait.until_finished = true;
    ask_run(&wait);
    ask_init(&start, &w, REQUEST_START, "b");
    start.request.start.name = BYTES_LITERAL("seq1");
    ask_post(&start);
    world_crash(&w);
    EXPECT(wait.is_done);
    EXPECT_STATUS(E_CLOSED, wait.request.status);
    EXPECT(start.is_done);
    EXPECT_STATUS(E_CLOSED, start.request.status);
    world_release(&w);
}

/* Beyond queue_n_max a request is refused at once, instead of growing memory. */
TEST(queue_is_bounded)
{
    struct world w;
    static struct ask asks[4];
    world_init(&w);
    w.options.queue_n_max = 3;
    world_open(&w);
    for (int i = 0; i < 4; i++) {
        ask_init(&asks[i], &w, REQUEST_GET, "a");
        EXPECT(host_post(w.host, &asks[i].request) == (i < 3));
    }
    world_pump(&w);
    EXPECT(asks[2].is_done);
    EXPECT(!asks[3].is_done);
    world_release(&w);
}

struct waker {
    struct host *host;
    unsigned wakes_n;
    unsigned told_n;
    const struct ask *ask;
    bool was_done; /* ask, when it was told */
};

static void count_wake(void *user) { ((struct waker *)user)->wakes_n++; }

static void count_told(void *user)
{
    struct waker *waker = user;
    waker->told_n++;
    if (waker->ask != NULL) waker->was_done = waker->ask->is_done;
}

/* Who posts many wakes the host once, behind the last of them; until then it sees none of them. */
TEST(quiet_posts_wake_once)
{
    struct world w;
    static struct ask asks[4];
    struct waker waker = {0};
    world_init(&w);
    w.options.wake = count_wake;
    w.options.user = &waker;
    world_open(&w);
    world_pump(&w);
    waker.wakes_n = 0;
    for (int i = 0; i < 3; i++) {
        ask_init(&asks[i], &w, REQUEST_GET, "a");
        EXPECT(host_post_quietly(w.host, &asks[i].request));
    }
    EXPECT_EQ(0, waker.wakes_n);
    host_wake(w.host);
    host_wake(w.host);
    EXPECT_EQ(1, waker.wakes_n);
    world_pump(&w);
    for (int i = 0; i < 3; i++) EXPECT(asks[i].is_done);

    ask_init(&asks[3], &w, REQUEST_GET, "a");
    EXPECT(host_post_quietly(w.host, &asks[3].request));
    world_pump(&w);
    EXPECT(!asks[3].is_done);
    host_wake(w.host);
    EXPECT_EQ(2, waker.wakes_n);
    world_pump(&w);
    EXPECT(asks[3].is_done);
    host_wake(w.host);
    EXPECT_EQ(2, waker.wakes_n);
    world_release(&w);
}

/* Starts that came together are in one frame, whatever the host does while they come. I2 */
TEST(what_is_posted_quietly_is_in_one_frame)
{
    struct world w;
    static struct ask asks[8];
    struct host_stats before;
    struct host_stats after;
    char damage[400];
    world_init(&w);
    EXPECT_STATUS(OK, world_try_open(&w, damage)); /* nobody works */
    world_pump(&w);
    host_stats(w.host, &before);
    for (int i = 0; i < 8; i++) {
        char id[8];
        snprintf(id, sizeof id, "many-%d", i);
        ask_init(&asks[i], &w, REQUEST_START, id);
        asks[i].request.start.name = BYTES_LITERAL("hello");
        EXPECT(host_post_quietly(w.host, &asks[i].request));
        world_pump(&w);
    }
    host_wake(w.host);
    world_pump(&w);
    for (int i = 0; i < 8; i++) {
        EXPECT(asks[i].is_done);
        EXPECT_STATUS(OK, asks[i].request.status);
    }
    host_stats(w.host, &after);
    EXPECT_EQ(before.frames + 1, after.frames);
    world_release(&w);
}

/* A host that stops still answers what came quietly, though nobody woke it any more. */
TEST(stop_sees_quiet_posts)
{
    struct world w;
    struct ask get;
    world_init(&w);
    world_open(&w);
    world_pump(&w);
    ask_init(&get, &w, REQUEST_GET, "a");
    EXPECT(host_post_quietly(w.host, &get.request));
    host_stop(w.host);
    EXPECT(!host_is_quiet(w.host));
    world_pump(&w);
    EXPECT(get.is_done);
    EXPECT(host_is_quiet(w.host));
    world_release(&w);
}

/* `told` comes after the answers of a turn, those that stand on nothing durable included, so that a
 * wake which waits for it is never too early. */
TEST(told_follows_the_answers)
{
    struct world w;
    struct ask asks[2];
    struct waker waker = {0};
    world_init(&w);
    w.options.told = count_told;
    w.options.told_user = &waker;
    world_open(&w);
    EXPECT_STATUS(OK, world_start(&w, "a", "seq1"));
    world_pump(&w);
    ask_init(&asks[0], &w, REQUEST_GET, "a");
    ask_init(&asks[1], &w, REQUEST_GET, "a");
    asks[1].request.key = BYTES_LITERAL("nothing"); /* refused */
    for (int i = 0; i < 2; i++) {
        waker = (struct waker){.ask = &asks[i]};
        ask_post(&asks[i]);
        EXPECT_EQ(0, waker.told_n);
        (void)host_turn(w.host);
        EXPECT(asks[i].is_done);
        EXPECT(waker.was_done);
    }
    world_release(&w);
}

/* A request that names no instance, or none that could exist, is told so and reaches no core. */
TEST(wrong_keys_are_refused)
{
    static const char *const keys[] = {"", "nohub", "/id", "hub/"};
    struct world w;
    struct ask a;
    world_init(&w);
    world_open(&w);
    for (size_t i = 0; i < 4; i++) {
        test_note("key '%s'", keys[i]);
        ask_init(&a, &w, REQUEST_GET, "x");
        a.request.key = bytes_of_text(keys[i]);
        ask_run(&a);
        EXPECT(a.is_done);
        EXPECT_STATUS(E_INVALID, a.request.status);
    }
    world_release(&w);
}

static enum status skip_frame(void *user, const struct journal_frame *frame)
{
    (void)user;
    (void)frame;
    return OK;
}

/* Bytes that are no records, in a frame with a good checksum, are refused with the number of the
 * frame. */
TEST(damaged_payload_is_refused)
{
    static const uint8_t payload[] = {1, 3, 0, 0, 0, 0xff, 0xff, 0xff};
    struct world w;
    struct journal *journal;
    struct journal_report report;
    char damage[400], expected[40];
    world_init(&w);
    world_open(&w);
    EXPECT_STATUS(OK, world_start(&w, "a", "wait"));
    world_crash(&w);

    EXPECT_STATUS(OK, journal_mem_open(w.store, &journal));
    EXPECT_STATUS(OK, journal_replay(journal, 0, skip_frame, NULL, &report));
    struct journal_frame frame = {
        .lsn = report.last_lsn + 1,
        .epoch = report.last_epoch,
        .time_ns = report.last_time_ns,
        .payload = bytes_make(payload, sizeof payload),
    };
    EXPECT_STATUS(OK, journal_append(journal, &frame));
    journal_close(journal);

    EXPECT_STATUS(E_CORRUPT, world_try_open(&w, damage));
    w.host = NULL;
    (void)snprintf(expected, sizeof expected, "frame %llu", (unsigned long long)frame.lsn);
    EXPECT(strstr(damage, expected) != NULL);
    world_release(&w);
}

/* Work that the worker's side cannot hand on (it is larger than a message may be) is parked with
 * the reason, instead of being given to the next worker, until an operator says otherwise. */
TEST(work_that_cannot_be_given_is_parked)
{
    struct world w;
    struct ask park, resubmit;
    world_init(&w);
    world_open(&w);
    w.holds_work = true;
    EXPECT_STATUS(OK, world_start(&w, "a", "seq1"));
    struct errand *e = container_of(list_pop_front(&w.errands), struct errand, held);
    ask_init(&park, &w, REQUEST_ABANDON, "a");
    park.request.lease.ref = e->request.worker_done.ref;
    park.request.lease.is_parked = true;
    park.request.lease.reason = BYTES_LITERAL("larger than a message");
    ask_run(&park);
    EXPECT_STATUS(OK, park.request.status);
    EXPECT_EQ(1, world_stats(&w).core.alerts);
    EXPECT_EQ(1, w.delivered_n);
    world_advance_ms(&w, MINUTE_MS);
    EXPECT_EQ(1, w.delivered_n);
    errand_post(e); /* the worker answers all the same: too late */
    world_pump(&w);
    EXPECT_EQ(STATUS_PENDING, world_get(&w, "a").status);
    w.holds_work = false;
    ask_init(&resubmit, &w, REQUEST_RESUBMIT, "a");
    ask_run(&resubmit);
    EXPECT_STATUS(OK, resubmit.request.status);
    expect_completed(&w, "a", "done");
    world_release(&w);
}

/* What a dashboard wants to know of the present. */
TEST(gauges_of_a_host)
{
    struct world w;
    world_init(&w);
    world_open(&w);
    w.holds_work = true;
    EXPECT_STATUS(OK, world_start(&w, "a", "seq1"));
    EXPECT_STATUS(OK, world_start(&w, "b", "wait"));
    struct host_stats stats = world_stats(&w);
    EXPECT_EQ(2, stats.gauges.pending);
    EXPECT_EQ(0, stats.gauges.ready[WORK_TURN]); /* the worker has them */
    EXPECT_EQ(1, stats.workers);
    EXPECT_EQ(stats.frames, stats.commit_ns.n);
    EXPECT_EQ(stats.frame_bytes, stats.frame_size.sum);
    w.is_held[LANE_COMMIT] = true;
    struct ask start;
    ask_init(&start, &w, REQUEST_START, "c");
    start.request.start.name = BYTES_LITERAL("seq1");
    ask_run(&start);
    w.now_ns += 7 * NS_PER_MS;
    w.is_held[LANE_COMMIT] = false;
    world_pump(&w);
    stats = world_stats(&w);
    EXPECT(stats.commit_ns.max == 7 * NS_PER_MS);
    EXPECT_EQ(3, stats.gauges.pending);
    w.holds_work = false;
    world_answer(&w);
    stats = world_stats(&w);
    EXPECT_EQ(1, stats.gauges.running);
    EXPECT_EQ(2, stats.gauges.ended);
    world_advance_ms(&w, 2 * w.options.archive_every_ms);
    EXPECT_EQ(0, world_stats(&w).gauges.ended);
    world_release(&w);
}
