/* SPDX-License-Identifier: Apache-2.0
 *
 * Instances move to the archive and come back: when they have ended, are idle or asleep, after a
 * restart, in time; and the archive fails, lags or memory is full.
 */
#include "test/unit/host_world.h"

#define MINUTE_MS INT64_C(60000)

/* A finished instance is in the archive after archive_every_ms, leaves memory, and can still be
 * seen. */
TEST(finished_instances_move_to_the_archive)
{
    struct world w;
    struct ask history;
    world_init(&w);
    world_open(&w);
    EXPECT_STATUS(OK, world_start(&w, "a", "seq1"));
    world_advance_ms(&w, 2 * w.options.archive_every_ms);
    EXPECT_EQ(0, world_stats(&w).instances_hot);
    EXPECT_EQ(1, world_stats(&w).instances_archived);
    EXPECT(world_stats(&w).lsn_applied == world_stats(&w).lsn_durable);
    expect_completed(&w, "a", "done");
    ask_init(&history, &w, REQUEST_HISTORY, "a");
    ask_run(&history);
    EXPECT_EQ(1, history.counts[EVENT_TASK_COMPLETED]);
    EXPECT_EQ(0, world_stats(&w).instances_hot); /* to look at it is no reason to load it */
    EXPECT_STATUS(
        OK,
        world_start(&w, "a", "seq2")); /* the id may be used again: the old one is loaded first */
    expect_completed(&w, "a", "done");
    EXPECT_EQ(1, world_stats(&w).loaded);
    world_release(&w);
}

/* What is not durable in the journal must not be in the archive: after a crash it would have
 * happened. */
TEST(archive_is_never_ahead_of_the_journal)
{
    struct world w;
    struct ask terminate;
    struct archive_stats stats;
    world_init(&w);
    world_open(&w);
    EXPECT_STATUS(OK, world_start(&w, "a", "wait"));
    w.is_held[LANE_COMMIT] = true;
    ask_init(&terminate, &w, REQUEST_TERMINATE, "a");
    ask_run(&terminate);
    world_advance_ms(&w, 4 * w.options.archive_every_ms);
    EXPECT(!terminate.is_done);
    EXPECT_STATUS(OK, archive_stats(w.archive, &stats));
    EXPECT_EQ(0, stats.rows);
    world_crash(&w);
    world_open(&w);
    EXPECT_EQ(STATUS_RUNNING, world_get(&w, "a").status);
    world_release(&w);
}

/* A round takes all that is dirty, some of it from the open batch, and then more comes into that
 * batch: the position of the round must not pass it, or it would never be replayed. */
TEST(position_does_not_pass_a_batch_that_still_fills)
{
    struct world w;
    struct ask first, second, after;
    world_init(&w);
    world_open(&w);
    EXPECT_STATUS(OK, world_start(&w, "a", "wait"));
    EXPECT_STATUS(OK, world_start(&w, "b", "wait"));
    w.is_held[LANE_COMMIT] = true;
    ask_init(&first, &w, REQUEST_TERMINATE, "a");
    ask_run(&first); /* its frame is on the way */
    ask_init(&second, &w, REQUEST_TERMINATE, "b");
    ask_run(&second); /* in the open batch */
    world_advance_ms(&w, 2 * w.options.archive_every_ms);
    ask_init(&after, &w, REQUEST_START, "after");
    after.request.start.name = BYTES_LITERAL("wait");
    ask_run(&after);
    w.is_held[LANE_COMMIT] = false;
    world_pump(&w);
    EXPECT_EQ(2, world_stats(&w).instances_archived);
    EXPECT(after.is_done);
    EXPECT_STATUS(OK, after.request.status);
    world_crash(&w);
    world_open(&w);
    EXPECT(world_get(&w, "after").has_view);
    world_release(&w);
}

/* The archive keeps what memory gave up, across a restart, without replaying the journal. */
TEST(archived_instances_survive_a_restart)
{
    struct world w;
    world_init(&w);
    world_open(&w);
    EXPECT_STATUS(OK, world_start(&w, "a", "seq1"));
    world_advance_ms(&w, 2 * w.options.archive_every_ms);
    world_crash(&w);
    world_open(&w);
    EXPECT_EQ(0, world_stats(&w).recovered_frames);
    EXPECT_EQ(1, world_stats(&w).instances_archived);
    expect_completed(&w, "a", "done");
    world_release(&w);
}

/* An idle instance leaves memory, and an event brings it back where it was. */
TEST(idle_instance_leaves_and_an_event_brings_it_back)
{
    struct world w;
    struct ask raise;
    world_init(&w);
    world_open(&w);
    EXPECT_STATUS(OK, world_start(&w, "a", "wait"));
    EXPECT_EQ(1, world_stats(&w).instances_hot);
    world_advance_ms(&w, 2 * w.options.idle_evict_ms);
    EXPECT_EQ(0, world_stats(&w).instances_hot);
    EXPECT_EQ(STATUS_RUNNING, world_get(&w, "a").status);

    ask_init(&raise, &w, REQUEST_RAISE, "a");
    raise.request.client.name = BYTES_LITERAL("go");
    ask_run(&raise);
    EXPECT(raise.is_done);
    EXPECT_STATUS(OK, raise.request.status);
    expect_completed(&w, "a", "went");
    EXPECT_EQ(1, world_stats(&w).loaded);
    world_release(&w);
}

/* A sleeper is not in memory for most of its sleep, comes back before its time, and wakes on
 * time. */
TEST(sleeper_comes_back_in_time)
{
    struct world w;
    world_init(&w);
    world_open(&w);
    EXPECT_STATUS(OK, world_start(&w, "a", "nap"));
    world_advance_ms(&w, 30 * MINUTE_MS);
    EXPECT_EQ(0, world_stats(&w).instances_hot);
    world_advance_ms(&w, 30 * MINUTE_MS - 10);
    EXPECT_EQ(1, world_stats(&w).instances_hot);
    EXPECT_EQ(STATUS_RUNNING, world_get(&w, "a").status);
    world_advance_ms(&w, 11);
    expect_completed(&w, "a", "woken");
    world_release(&w);
}

/* A sleeper whose time came while the process was down wakes when it is up again. */
TEST(sleeper_wakes_after_a_restart)
{
    struct world w;
    world_init(&w);
    world_open(&w);
    EXPECT_STATUS(OK, world_start(&w, "late", "nap"));
    world_advance_ms(&w, 5 * MINUTE_MS);
    EXPECT_STATUS(OK, world_start(&w, "later", "nap"));
    world_advance_ms(&w, 5 * MINUTE_MS);
    EXPECT_EQ(0, world_stats(&w).instances_hot);
    world_crash(&w);
    w.now_ns += 51 * MINUTE_MS * NS_PER_MS;
    world_open(&w);
    world_pump(&w);
    expect_completed(&w, "late", "woken");
    EXPECT_EQ(STATUS_RUNNING, world_get(&w, "later").status);
    world_advance_ms(&w, 5 * MINUTE_MS);
    expect_completed(&w, "later", "woken");
    world_release(&w);
}

/* The archive may fail for a while: nothing waits for it, nothing is lost, and it catches up. */
TEST(failing_archive_catches_up)
{
    struct world w;
    world_init(&w);
    world_open(&w);
    archive_fault_at(w.archive, 1, E_IO, true);
    EXPECT_STATUS(OK, world_start(&w, "a", "seq1"));
    world_advance_ms(&w, 5000);
    EXPECT_STATUS(OK, world_start(&w, "b", "seq1"));
    expect_completed(&w, "a", "done");
    expect_completed(&w, "b", "done");
    EXPECT_EQ(0, world_stats(&w).instances_archived);
    EXPECT_EQ(2, world_stats(&w).instances_hot);

    archive_fault_at(w.archive, 0, OK, false);
    world_advance_ms(&w, 70000);
    EXPECT_EQ(2, world_stats(&w).instances_archived);
    EXPECT_EQ(0, world_stats(&w).instances_hot);
    world_release(&w);
}

/* An archive that failed for good stays closed until it is opened again: the process ends, and the
 * next one finds all in the journal. A full disk is waited for as long as it takes. */
TEST(an_archive_that_stays_broken_is_the_end)
{
    struct world w;
    world_init(&w);
    world_open(&w);
    archive_fault_at(w.archive, 1, E_NOSPACE, true);
    EXPECT_STATUS(OK, world_start(&w, "a", "seq1"));
    world_advance_ms(&w, 10 * MINUTE_MS);
    EXPECT(!w.was_fatal);
    archive_fault_at(w.archive, 0, OK, false);
    world_advance_ms(&w, 2 * MINUTE_MS);
    EXPECT_EQ(1, world_stats(&w).instances_archived);

    archive_fault_at(w.archive, 1, E_IO, true);
    EXPECT_STATUS(OK, world_start(&w, "b", "seq1"));
    world_advance_ms(&w, MINUTE_MS); /* long enough, but not often enough */
    EXPECT(!w.was_fatal);
    for (int n = 0; n < 5 * 60 && !w.was_fatal; n++) world_advance_ms(&w, 1000);
    EXPECT(w.was_fatal);
    world_crash(&w);
    world_open(&w);
    expect_completed(&w, "a", "done");
    expect_completed(&w, "b", "done");
    world_release(&w);
}

/* When the archive is too far behind, starts wait in the journal; those that replace something are
 * refused with the name of the limit; the rest goes on. */
TEST(archive_lag_holds_starts_back)
{
    struct world w;
    struct ask start;
    char id[16];
    world_init(&w);
    w.options.archive_lag_max = 20000;
    world_open(&w);
    archive_fault_at(w.archive, 1, E_NOSPACE, true);
    int n = 0;
    for (; n < 200 && world_stats(&w).backlog == 0; n++) {
        (void)snprintf(id, sizeof id, "i%d", n);
        EXPECT_STATUS(OK, world_start(&w, id, "seq1"));
        world_advance_ms(&w, w.options.archive_every_ms);
    }
    EXPECT(n > 2);
    EXPECT(n < 200);
    EXPECT_EQ(STATUS_PENDING, world_get(&w, id).status);
    ask_init(&start, &w, REQUEST_START, "i0");
    start.request.start.name = BYTES_LITERAL("seq1");
    ask_run(&start);
    EXPECT_STATUS(E_LIMIT, start.request.status);
    EXPECT(strstr(start.request.text, "archive_lag_max") != NULL);
    archive_fault_at(w.archive, 0, OK, false);
    world_advance_ms(&w, 70000);
    expect_completed(&w, id, "done");
    EXPECT_STATUS(OK, world_start(&w, "again", "seq1"));
    expect_completed(&w, "again", "done");
    world_release(&w);
}

/* Memory for instances is bounded: idle ones leave before their time, and when none can, starts
 * wait in the journal. */
TEST(hot_bytes_are_bounded)
{
    struct world w;
    char id[16];
    enum status status = OK;
    int n = 0;
    world_init(&w);
    w.options.hot_bytes_max = 1 << 20;
    w.options.check_every_step = false;
    world_open(&w);
    for (; n < 2000; n++) { /* sleepers: more than fit */
        (void)snprintf(id, sizeof id, "s%d", n);
        EXPECT_STATUS(OK, world_start(&w, id, "nap"));
        if (n % 50 == 0) world_advance_ms(&w, w.options.archive_every_ms);
    }
    world_advance_ms(&w, w.options.archive_every_ms);
    EXPECT(world_stats(&w).instances_hot < 1000);
    EXPECT(world_stats(&w).evicted > 1000);

    w.holds_work = true; /* busy ones cannot leave */
    for (n = 0; n < 5000 && status == OK; n++) {
        (void)snprintf(id, sizeof id, "b%d", n);
        status = world_start(&w, id, "seq1");
    }
    EXPECT_STATUS(OK, status);
    EXPECT(world_stats(&w).backlog > 1000);
    EXPECT(world_stats(&w).instances_hot < 4000);
    w.holds_work = false;
    world_answer(&w);
    world_advance_ms(&w, 8 * w.options.archive_every_ms);
    EXPECT_EQ(0, world_stats(&w).backlog);
    expect_completed(&w, id, "done");
    EXPECT_STATUS(OK, world_start(&w, "again", "seq1"));
    world_release(&w);
}
