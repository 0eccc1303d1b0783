/* SPDX-License-Identifier: Apache-2.0
 *
 * The SQLite archive gives space back, and goes on after full disks, failed syncs, missing memory
 * and locks of others, or stops for good where it must.
 */
#include "test/unit/archive_kit.h"

#include <unistd.h>

/* Retention gives the disk back: a segment that nothing refers to is unlinked. */
TEST(empty_segments_are_unlinked)
{
    struct fixture f;

    fixture_init(&f);
    for (uint64_t i = 0; i < 8; i++) EXPECT_STATUS(OK, put_rows(&f, i * 100, 100, 1000));
    size_t before_n = count_segments(&f);
    EXPECT(before_n >= 4);
    EXPECT_EQ(0, maintain_all(&f));
    remove_rows(&f, 0, 800, 1);
    uint64_t bytes_before = stats_of(&f).blob_bytes;
    EXPECT(maintain_all(&f) >= before_n - 1);
    EXPECT_EQ(1, count_segments(&f)); /* the one being written */
    EXPECT(stats_of(&f).blob_bytes * 3 < bytes_before);
    EXPECT_EQ(0, stats_of(&f).blob_live);
    fixture_reopen(&f);
    EXPECT_STATUS(OK, put_rows(&f, 1000, 10, 1000));
    expect_rows(&f, 1000, 1010, 1, 1000);
    fixture_release(&f);
}

/* One instance in six kept: the living move together, the old files go, nothing is lost, also after
 * a restart in the middle. */
TEST(sparse_segments_are_rewritten)
{
    struct fixture f;

    fixture_init(&f);
    for (uint64_t i = 0; i < 10; i++) EXPECT_STATUS(OK, put_rows(&f, i * 100, 100, 1000));
    size_t before_n = count_segments(&f);
    for (uint64_t i = 1; i < 6; i++) remove_rows(&f, i, 1000, 6);
    uint64_t live = stats_of(&f).blob_live;
    bool did_something;
    EXPECT_STATUS(OK, archive_maintain(f.archive, &did_something));
    EXPECT(did_something);
    fixture_reopen(&f);
    expect_rows(&f, 0, 1000, 6, 1000);
    EXPECT(maintain_all(&f) > 0);
    expect_rows(&f, 0, 1000, 6, 1000);
    EXPECT(count_segments(&f) * 2 < before_n);
    EXPECT(stats_of(&f).blob_live < live * 5 / 4);
    EXPECT(stats_of(&f).blob_live > live / 2);
    EXPECT_EQ(167, count_all(&f));
    fixture_reopen(&f);
    expect_rows(&f, 0, 1000, 6, 1000);
    fixture_release(&f);
}

/* A block that cannot be read stops the rewriting of its segment, not of the others, and the
 * segment stays for people to look at. */
TEST(damaged_segment_is_left_alone)
{
    struct fixture f;
    bool did_something;

    fixture_init(&f);
    for (uint64_t i = 0; i < 10; i++) EXPECT_STATUS(OK, put_rows(&f, i * 100, 100, 1000));
    for (uint64_t i = 1; i < 6; i++) remove_rows(&f, i, 1000, 6);
    damage(&f, 1, BLOB_SEGMENT_HEAD_SIZE + BLOB_BLOCK_HEAD_SIZE + 100);
    size_t before_n = count_segments(&f);
    EXPECT_STATUS(E_CORRUPT, archive_maintain(f.archive, &did_something));
    EXPECT(!did_something);
    EXPECT(maintain_all(&f) > 0);
    EXPECT(count_segments(&f) < before_n);
    EXPECT_EQ(0, access(f.root, F_OK));
    EXPECT_EQ(1, sql(&f, "SELECT count(*) FROM segments WHERE segment = 1"));
    EXPECT_EQ(167, count_all(&f));
    fixture_release(&f);
}

/* maintain() from within a callback of the reader, at the worst moment: the view of the rows that
 * is being read refers to the segment that could be unlinked. */
struct intruder {
    struct fixture *f;
    size_t rows_n;
    bool is_done;
};

static enum status intrude(void *user, const struct archive_row *row)
{
    struct intruder *intruder = user;
    bool did_something = true;

    intruder->rows_n++;
    EXPECT_EQ(1000, row->snapshot.len);
    if (intruder->is_done) return OK;
    intruder->is_done = true;
    remove_rows(intruder->f, 0, 400, 1);
    EXPECT_STATUS(OK, archive_maintain(intruder->f->archive, &did_something));
    EXPECT(!did_something);
    return OK;
}

TEST(segment_being_read_is_not_unlinked)
{
    struct fixture f;
    struct intruder intruder = {.f = &f};
    struct archive_query query = {.hub = HUB, .limit = 1000, .want_snapshot = true};

    fixture_init(&f);
    for (uint64_t i = 0; i < 4; i++) EXPECT_STATUS(OK, put_rows(&f, i * 100, 100, 1000));
    EXPECT_STATUS(OK, archive_query(f.archive, &query, intrude, &intruder));
    EXPECT_EQ(400, intruder.rows_n); /* the view is of when the reading began */
    EXPECT_EQ(0, count_all(&f));
    EXPECT(maintain_all(&f) > 0);
    EXPECT_EQ(1, count_segments(&f));
    fixture_release(&f);
}

/* A disk that is full when a segment is written: nothing has changed, and later the same works. */
TEST(full_disk_of_segments_can_be_tried_again)
{
    struct fixture f;

    fixture_init(&f);
    EXPECT_STATUS(OK, put_rows(&f, 0, 50, 1000));
    struct archive_stats before = stats_of(&f);
    uint64_t lsn = lsn_of(&f);
    f.io.write_answer = E_NOSPACE;
    for (int i = 0; i < 3; i++) EXPECT_STATUS(E_NOSPACE, put_rows(&f, 50, 100, 1000));
    EXPECT_EQ(before.rows, stats_of(&f).rows);
    EXPECT_EQ(before.blob_bytes, stats_of(&f).blob_bytes);
    EXPECT_EQ(lsn, lsn_of(&f));
    expect_absent(&f, 60);
    remove_rows(&f, 0, 5, 1); /* making room must work without room for blobs */
    f.io.write_answer = OK;
    EXPECT_STATUS(OK, put_rows(&f, 50, 100, 1000));
    expect_rows(&f, 5, 150, 3, 1000);
    fixture_reopen(&f);
    expect_rows(&f, 5, 150, 3, 1000);
    fixture_release(&f);
}

/* The same when it is the database that cannot grow, at whatever page that happens. */
TEST(full_disk_of_database_can_be_tried_again)
{
    struct fixture f;

    fixture_init(&f);
    EXPECT_STATUS(OK, put_rows(&f, 0, 50, 1000));
    struct db *db = &inside(&f)->writer.db;
    int64_t pages_n = 0;
    EXPECT_STATUS(OK, db_integer(db, "PRAGMA page_count", 0, &pages_n));
    bool is_refused = true;
    for (int more = 0; is_refused; more++) {
        char text[64];
        EXPECT(more < 200);
        test_note("%d pages more", more);
        (void)snprintf(text, sizeof text, "PRAGMA max_page_count = %d", (int)pages_n + more);
        int64_t answer;
        EXPECT_STATUS(OK, db_integer(db, text, 0, &answer));
        enum status status = put_rows(&f, 50, 400, 100);
        is_refused = status == E_NOSPACE;
        if (!is_refused) break;
        EXPECT_EQ(50, stats_of(&f).rows);
        expect_absent(&f, 60);
    }
    EXPECT_EQ(450, stats_of(&f).rows);
    expect_rows(&f, 50, 450, 7, 100);
    fixture_reopen(&f);
    expect_rows(&f, 0, 50, 7, 1000);
    expect_rows(&f, 50, 450, 7, 100);
    fixture_release(&f);
}

/* After a failed sync nobody knows what is on disk: no further write is answered with OK before a
 * restart, and the restart finds the last state that was acknowledged. */
TEST(failed_sync_ends_all_writing)
{
    struct fixture f;
    bool did_something;

    fixture_init(&f);
    EXPECT_STATUS(OK, put_rows(&f, 0, 50, 1000));
    uint64_t lsn = lsn_of(&f);
    f.io.datasync_answer = E_NOSPACE; /* the cause does not matter */
    EXPECT_STATUS(E_IO, put_rows(&f, 50, 50, 1000));
    f.io.datasync_answer = OK;
    EXPECT_STATUS(E_IO, put_rows(&f, 50, 50, 1000));
    EXPECT_STATUS(E_IO, put_rows(&f, 100, 1, 0));
    EXPECT_STATUS(OK,
                  archive_maintain(f.archive, &did_something)); /* nothing to do, nothing done */
    expect_rows(&f, 0, 50, 1, 1000);                            /* reading goes on */
    fixture_reopen(&f);
    EXPECT_EQ(lsn, lsn_of(&f));
    EXPECT_EQ(50, count_all(&f));
    EXPECT_STATUS(OK, put_rows(&f, 50, 50, 1000));
    expect_rows(&f, 0, 100, 1, 1000);
    fixture_release(&f);
}

/* Without memory at any point of apply(): nothing has changed and the same call works. */
TEST(every_missing_allocation_is_survived)
{
    struct fixture f;
    bool is_done = false;

    fixture_init(&f);
    for (uint64_t nth = 1; !is_done; nth++) {
        test_note("allocation %d", (int)nth);
        EXPECT(nth < 200);
        fixture_reopen(&f); /* buffers are kept, so each time anew */
        uint64_t rows = stats_of(&f).rows;
        struct mem *mem = &inside(&f)->writer.mem;
        mem->fail_at = nth;
        enum status status = put_rows(&f, nth * 100, 30, 1000);
        is_done = mem->fail_at != 0;
        mem->fail_at = 0;
        EXPECT_STATUS(is_done ? OK : E_NOMEM, status);
        if (status == OK) continue;
        EXPECT_EQ(rows, stats_of(&f).rows);
        EXPECT_STATUS(OK, put_rows(&f, nth * 100, 30, 1000));
        expect_rows(&f, nth * 100, nth * 100 + 30, 10, 1000);
    }
    fixture_release(&f);
}

/* A person with a transaction of their own makes us wait, then E_BUSY; nothing is half done. */
TEST(foreign_write_lock_is_busy)
{
    struct fixture f;
    struct db person;
    char path[300];

    fixture_init(&f);
    (void)sqlite3_busy_timeout(inside(&f)->writer.db.connection, 0); /* no need to wait here */
    (void)snprintf(path, sizeof path, "%s/" DIRECTORY "/archive.db", f.root);
    EXPECT_STATUS(OK, db_open(&person, path, SQLITE_OPEN_READWRITE, "BEGIN IMMEDIATE"));
    EXPECT_STATUS(E_BUSY, put_rows(&f, 0, 10, 100));
    EXPECT_EQ(0, count_all(&f));
    EXPECT_STATUS(OK, db_execute(&person, "ROLLBACK"));
    db_close(&person);
    EXPECT_STATUS(OK, put_rows(&f, 0, 10, 100));
    expect_rows(&f, 0, 10, 1, 100);
    fixture_release(&f);
}
