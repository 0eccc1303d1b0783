/* SPDX-License-Identifier: Apache-2.0
 *
 * The disk is full, nearly full, or the journal cannot be written any more.
 */
#include "test/unit/host_world.h"

/* On a full disk nothing is lost and nothing is told; what would grow is refused in words; and when
 * there is space again everything goes on. */
TEST(full_disk_waits_and_goes_on)
{
    struct world w;
    struct ask start, refused;
    world_init(&w);
    world_open(&w);
    w.append_status = E_NOSPACE;
    ask_init(&start, &w, REQUEST_START, "a");
    start.request.start.name = BYTES_LITERAL("seq1");
    ask_run(&start);
    EXPECT(!start.is_done);
    EXPECT(world_stats(&w).is_disk_full);
    EXPECT_STATUS(E_NOSPACE, world_start(&w, "b", "seq1"));
    ask_init(&refused, &w, REQUEST_RAISE, "a");
    refused.request.client.name = BYTES_LITERAL("go");
    ask_run(&refused);
    EXPECT(refused.is_done);
    EXPECT_STATUS(E_NOSPACE, refused.request.status);
    EXPECT(strstr(refused.request.text, "disk is full") != NULL);
    world_advance_ms(&w, 1000);
    EXPECT(!start.is_done);

    w.append_status = OK;
    world_advance_ms(&w, 300);
    EXPECT(start.is_done);
    EXPECT_STATUS(OK, start.request.status);
    EXPECT(!world_stats(&w).is_disk_full);
    expect_completed(&w, "a", "done");
    EXPECT_STATUS(OK, world_start(&w, "b", "seq1"));
    world_release(&w);
}

/* Without memory for a frame it waits too, and says nothing of the disk. */
TEST(no_memory_is_no_full_disk)
{
    struct world w;
    struct ask start;
    world_init(&w);
    world_open(&w);
    w.append_status = E_NOMEM;
    ask_init(&start, &w, REQUEST_START, "a");
    start.request.start.name = BYTES_LITERAL("seq1");
    ask_run(&start);
    EXPECT(!start.is_done);
    EXPECT(!world_stats(&w).is_disk_full);
    w.append_status = OK;
    world_advance_ms(&w, 300);
    EXPECT(start.is_done);
    EXPECT_STATUS(OK, start.request.status);
    expect_completed(&w, "a", "done");
    world_release(&w);
}

/* Before the disk is full, when no next segment could be allocated, new work is refused and old
 * work goes on. */
TEST(nearly_full_disk_refuses_new_work_only)
{
    struct world w;
    world_init(&w);
    world_open(&w);
    w.holds_work = true;
    EXPECT_STATUS(OK, world_start(&w, "a", "seq1"));
    w.has_spare = false;
    w.holds_work = false;
    world_answer(&w);
    expect_completed(&w, "a", "done");
    EXPECT_STATUS(E_NOSPACE, world_start(&w, "b", "seq1"));
    w.has_spare = true;
    world_advance_ms(&w, 2000); /* nothing is written meanwhile: the host looks by itself */
    EXPECT_STATUS(OK, world_start(&w, "b", "seq1"));
    world_release(&w);
}

/* A journal that cannot be written ends the process, and nobody is told anything any more (A8). */
TEST(failed_journal_is_the_end)
{
    struct world w;
    struct ask start, get;
    world_init(&w);
    world_open(&w);
    w.append_status = E_IO;
    ask_init(&start, &w, REQUEST_START, "a");
    start.request.start.name = BYTES_LITERAL("seq1");
    ask_run(&start);
    EXPECT(w.was_fatal);
    EXPECT(!start.is_done);
    ask_init(&get, &w, REQUEST_GET, "a");
    ask_post(&get);
    EXPECT(host_turn(w.host) == INT64_MAX);
    EXPECT(!get.is_done);
    world_crash(&w);
    EXPECT_STATUS(E_CLOSED, start.request.status);
    w.append_status = OK;
    world_open(&w);
    EXPECT(!world_get(&w, "a").has_view);
    world_release(&w);
}
