/* SPDX-License-Identifier: Apache-2.0
 *
 * What is special about the SQLite archive: keys, formats, damage, leftovers of a crash. What every
 * archive must do is in test/conformance/test_archive.c.
 */
#include "test/unit/archive_kit.h"

#include <unistd.h>

/* The archive outlives the process: rows, snapshots, partition states, counts and the LSN. */
TEST(everything_is_there_after_reopening)
{
    struct fixture f;
    struct archive_partition partition = {7, BYTES_LITERAL("timers and outbox")};
    struct archive_batch batch = {.partitions = &partition, .partitions_n = 1, .applied_lsn = 900};

    fixture_init(&f);
    EXPECT_STATUS(OK, put_rows(&f, 0, 300, 1500));
    remove_rows(&f, 100, 150, 1);
    EXPECT_STATUS(OK, archive_apply(f.archive, &batch));
    struct archive_stats before = stats_of(&f);
    for (int i = 0; i < 3; i++) {
        fixture_reopen(&f);
        EXPECT_EQ(900, lsn_of(&f));
        EXPECT_EQ(250, count_all(&f));
        EXPECT_EQ(250, stats_of(&f).rows);
        EXPECT_EQ(250, stats_of(&f).rows_terminal);
        EXPECT_EQ(before.blob_live, stats_of(&f).blob_live);
        expect_rows(&f, 0, 100, 7, 1500);
        expect_rows(&f, 150, 300, 7, 1500);
        expect_absent(&f, 120);
    }
    f.lsn = 900;
    EXPECT_STATUS(OK, put_rows(&f, 1000, 10, 1500));
    expect_rows(&f, 1000, 1010, 1, 1500);
    fixture_release(&f);
}

/* For ids of 3 bytes. */
static enum status take_id(void *user, const struct archive_row *row)
{
    EXPECT_EQ(3, row->id.len);
    memcpy(user, row->id.ptr, 3);
    return OK;
}

/* An id is bytes to us and text to SQL. Every byte value, NUL, quotes and what is not UTF-8 must
 * come back, and lists must be in the order of the bytes, as in every other archive. */
TEST(ids_of_any_bytes_come_back_in_order)
{
    struct fixture f;
    struct archive_row row;
    static const char *const texts[] = {"it's",
                                        "\"double\"",
                                        "%",
                                        "_",
                                        "a;DROP TABLE instances",
                                        "Zürich",
                                        "日本",
                                        "\xf0\x9f\x92\xa9",
                                        "a b",
                                        "\\",
                                        "--"};

    fixture_init(&f);
    for (int byte = 0; byte < 256; byte++) {
        uint8_t *id = arena_alloc(&f.arena, 3);
        EXPECT(id != NULL);
        id[0] = 'x';
        id[1] = (uint8_t)byte;
        id[2] = 'y';
        row = make_row(&f, 0, 100);
        row.id = bytes_make(id, 3);
        EXPECT_STATUS(OK, put_row(&f, &row));
        expect_row(&f, &row);
    }
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        row = make_row(&f, 1, 100);
        row.id = bytes_of_text(texts[i]);
        EXPECT_STATUS(OK, put_row(&f, &row));
        expect_row(&f, &row);
    }
    /* All 256 have the same time, so the order is by id alone; page through it one by one. */
    struct archive_query query = {.hub = HUB, .limit = 1, .to_ms = CREATED_MS + 1};
    for (int byte = 0; byte < 256; byte++) {
        uint8_t expected[3] = {'x', (uint8_t)byte, 'y'};
        uint8_t id[3] = {0};
        EXPECT_STATUS(OK, archive_query(f.archive, &query, take_id, id));
        EXPECT_BYTES(bytes_make(expected, 3), bytes_make(id, 3));
        query.has_after = true;
        query.after_ms = CREATED_MS;
        query.after_id = arena_copy(&f.arena, bytes_make(id, 3));
    }
    size_t n = 0;
    EXPECT_STATUS(OK, archive_query(f.archive, &query, count_row, &n));
    EXPECT_EQ(0, n);
    fixture_release(&f);
}

/* Histories of a megabyte and more have a block of their own; one segment may outgrow its size. */
TEST(large_snapshots_come_back)
{
    struct fixture f;

    fixture_init(&f);
    for (uint64_t i = 0; i < 4; i++) EXPECT_STATUS(OK, put_rows(&f, i * 10, 2, (i + 1) << 20));
    fixture_reopen(&f);
    for (uint64_t i = 0; i < 4; i++) expect_rows(&f, i * 10, i * 10 + 2, 1, (i + 1) << 20);
    EXPECT_STATUS(OK, put_rows(&f, 100, 1, 100));
    expect_rows(&f, 100, 101, 1, 100);
    EXPECT(inside(&f)->reader.mem.used < (1u << 20)); /* nothing that large is kept */
    EXPECT(inside(&f)->writer.mem.used < (1u << 20));
    fixture_release(&f);
}

/* A row that is replaced many times, awake and asleep and finished, is one row, with one snapshot
 * alive. */
TEST(replacing_keeps_one_row)
{
    struct fixture f;
    struct archive_row row = {0};

    fixture_init(&f);
    for (uint64_t i = 0; i < 20; i++) {
        row = make_row(&f, 5, 1000 + i);
        row.version = i;
        if (i < 19) {
            row.is_terminal = false;
            row.status = 0;
            row.completed_ms = ARCHIVE_NO_TIME;
            row.wake_ms = i % 3 == 0 ? ARCHIVE_NO_TIME : (int64_t)i;
        }
        EXPECT_STATUS(OK, put_row(&f, &row));
        expect_row(&f, &row);
        size_t due_n = 0;
        EXPECT_STATUS(OK, archive_due(f.archive, 1000, NULL, 10, count_row, &due_n));
        EXPECT_EQ(row.wake_ms == ARCHIVE_NO_TIME ? 0 : 1, due_n);
        EXPECT_EQ(1, stats_of(&f).rows);
        EXPECT_EQ(row.is_terminal ? 1 : 0, stats_of(&f).rows_terminal);
    }
    EXPECT_EQ(1, count_all(&f));
    fixture_close(&f);
    EXPECT_EQ(1,
              sql(&f, "SELECT (SELECT count(*) FROM keys) + (SELECT count(*) FROM keys_recent)"));
    EXPECT_EQ(1019, sql(&f, "SELECT sum(raw_live) FROM segments"));
    EXPECT_STATUS(OK, fixture_try_open(&f));
    fixture_release(&f);
}

static enum status sum_hash(void *user, uint64_t hash)
{
    uint64_t *sum = user;
    *sum += hash;
    return OK;
}

/* Past the limit of keys_recent keys move to the large table; they are found, removed and given as
 * hashes in either, and none is lost on the way. */
TEST(keys_are_found_in_both_tables)
{
    struct fixture f;
    uint64_t expected = 0;
    uint64_t sum = 0;
    uint64_t rows_n = 6000;

    fixture_init(&f);
    inside(&f)->writer.keys_recent_min = 1000;
    for (uint64_t first = 0; first < rows_n; first += 100)
        EXPECT_STATUS(OK, put_rows(&f, first, 100, 0));
    for (uint64_t i = 0; i < rows_n; i++)
        expected += archive_key_hash((struct archive_key){HUB, make_row(&f, i, 0).id});
    EXPECT_STATUS(OK, archive_hashes(f.archive, sum_hash, &sum));
    EXPECT(expected == sum);
    /* The steady state is near the limit, so slices of every part of the range have moved. */
    uint64_t recent_n = inside(&f)->writer.counts.keys_recent;
    EXPECT(recent_n > 500);
    EXPECT(recent_n < 1500);
    EXPECT_EQ(recent_n, sql(&f, "SELECT count(*) FROM keys_recent"));
    EXPECT_EQ(rows_n - recent_n, sql(&f, "SELECT count(*) FROM keys"));
    fixture_reopen(&f);
    expect_rows(&f, 0, rows_n, 7, 0);
    remove_rows(&f, 0, rows_n, 3);
    for (uint64_t i = 0; i < rows_n; i += 3 * 31) expect_absent(&f, i);
    expect_rows(&f, 1, rows_n, 9, 0);
    EXPECT_EQ(rows_n - rows_n / 3, count_all(&f));
    EXPECT_EQ(rows_n - rows_n / 3, sql(&f, "SELECT (SELECT count(*) FROM keys) + "
                                           "(SELECT count(*) FROM keys_recent)"));
    fixture_release(&f);
}

/* A directory of a newer program is refused and not a byte of it is changed. */
TEST(newer_format_is_refused_untouched)
{
    struct fixture f;
    struct buffer before, after;

    fixture_init(&f);
    EXPECT_STATUS(OK, put_rows(&f, 0, 10, 500));
    fixture_close(&f);
    (void)sql(&f, "UPDATE meta SET value = 2 WHERE key = 'format'");
    read_whole(&f, "archive.db", &before);
    EXPECT_STATUS(E_VERSION, fixture_try_open(&f));
    read_whole(&f, "archive.db", &after);
    EXPECT(before.len > 0);
    EXPECT(bytes_equal(buffer_view(&before), buffer_view(&after)));
    EXPECT_EQ(1, count_segments(&f));
    buffer_release(&before);
    buffer_release(&after);

    (void)sql(&f, "UPDATE meta SET value = 1 WHERE key = 'format'");
    EXPECT_STATUS(OK, fixture_try_open(&f));
    expect_rows(&f, 0, 10, 1, 500);
    fixture_release(&f);
}

/* Nor is a database that is not ours, or not one at all. */
TEST(foreign_database_is_refused)
{
    struct fixture f;
    char path[300];

    fixture_init(&f);
    fixture_close(&f);
    (void)sql(&f, "DROP TABLE meta");
    EXPECT_STATUS(E_CORRUPT, fixture_try_open(&f));
    (void)snprintf(path, sizeof path, "%s/" DIRECTORY "/archive.db", f.root);
    FILE *file = fopen(path, "w");
    EXPECT(file != NULL);
    EXPECT(fputs("These are not the tables you are looking for.", file) >= 0);
    EXPECT_EQ(0, fclose(file));
    EXPECT_STATUS(E_CORRUPT, fixture_try_open(&f));
    fixture_release(&f);
}

/* A damaged block costs the snapshots in it and nothing else. */
TEST(damaged_block_is_reported)
{
    struct fixture f;
    struct archive_row got;
    struct archive_key key = {HUB, BYTES_LITERAL("order-000000")};

    fixture_init(&f);
    EXPECT_STATUS(OK, put_rows(&f, 0, 100, 1000));
    damage(&f, 1, BLOB_SEGMENT_HEAD_SIZE + BLOB_BLOCK_HEAD_SIZE + 100);
    EXPECT_STATUS(E_CORRUPT, get(&f, key.id, &got));
    EXPECT_STATUS(OK, archive_get(f.archive, key, false, &f.arena, &got));
    expect_rows(&f, 50, 100, 1, 1000);
    size_t n = 0;
    struct archive_query query = {.hub = HUB, .limit = 1000, .want_snapshot = true};
    EXPECT_STATUS(E_CORRUPT, archive_query(f.archive, &query, count_row, &n));
    EXPECT_EQ(0, n);
    damage(&f, 1, BLOB_SEGMENT_HEAD_SIZE + BLOB_BLOCK_HEAD_SIZE + 100); /* and back */
    EXPECT_STATUS(OK, archive_query(f.archive, &query, count_row, &n));
    EXPECT_EQ(100, n);
    fixture_release(&f);
}

/* A segment that is missing or too short is found when the archive is opened, not weeks later. */
TEST(missing_segment_is_refused)
{
    struct fixture f;
    char path[300];

    fixture_init(&f);
    for (uint64_t i = 0; i < 6; i++) EXPECT_STATUS(OK, put_rows(&f, i * 100, 100, 1000));
    EXPECT(count_segments(&f) >= 3);
    fixture_close(&f);
    (void)snprintf(path, sizeof path, "%s/" DIRECTORY "/00000001.blobs", f.root);
    EXPECT_EQ(0, truncate(path, 1000));
    EXPECT_STATUS(E_CORRUPT, fixture_try_open(&f));
    EXPECT_EQ(0, unlink(path));
    EXPECT_STATUS(E_CORRUPT, fixture_try_open(&f));
    fixture_release(&f);
}

/* What a crash leaves in the directory: a segment without row, bytes behind the end of the last.
 * Both go away, and what is written next is found. */
TEST(leftovers_of_a_crash_are_removed)
{
    struct fixture f;
    char path[300];

    fixture_init(&f);
    EXPECT_STATUS(OK, put_rows(&f, 0, 20, 1000));
    uint64_t end = inside(&f)->writer.blobs.end;
    fixture_close(&f);
    (void)snprintf(path, sizeof path, "%s/" DIRECTORY "/00000002.blobs", f.root);
    FILE *file = fopen(path, "w");
    EXPECT(file != NULL);
    EXPECT(fputs("begun", file) >= 0);
    EXPECT_EQ(0, fclose(file));
    (void)snprintf(path, sizeof path, "%s/" DIRECTORY "/00000001.blobs", f.root);
    EXPECT_EQ(0, truncate(path, (off_t)end + 333));

    EXPECT_STATUS(OK, fixture_try_open(&f));
    EXPECT_EQ(1, count_segments(&f));
    EXPECT_EQ(end, inside(&f)->writer.blobs.end);
    for (uint64_t i = 1; i < 6; i++) EXPECT_STATUS(OK, put_rows(&f, i * 100, 100, 1000));
    fixture_reopen(&f);
    expect_rows(&f, 0, 20, 1, 1000);
    for (uint64_t i = 1; i < 6; i++) expect_rows(&f, i * 100, i * 100 + 100, 9, 1000);
    fixture_release(&f);
}

/* The view is what people read: words and dates, as docs/archive-schema.md promises. */
TEST(view_is_for_people)
{
    struct fixture f;

    fixture_init(&f);
    struct archive_row row = make_row(&f, 3, 100);
    row.tags = BYTES_LITERAL("color=red\n");
    row.error = BYTES_LITERAL("card refused");
    row.status = 3;
    EXPECT_STATUS(OK, put_row(&f, &row));
    row = make_row(&f, 4, 100);
    row.is_terminal = false;
    row.status = 0;
    row.completed_ms = ARCHIVE_NO_TIME;
    row.wake_ms = CREATED_MS + 86400000;
    EXPECT_STATUS(OK, put_row(&f, &row));
    EXPECT_EQ(1, sql(&f, "SELECT count(*) FROM orchestrations WHERE hub = 'default'"
                         " AND id = 'order-000003' AND name = 'ProcessOrder' AND status = 'failed'"
                         " AND created = '2025-10-09T08:53:20.003Z'"
                         " AND completed = '2025-10-09T08:53:20.503Z' AND duration_ms = 500"
                         " AND wakes IS NULL AND tags = 'color=red' || char(10)"
                         " AND error = 'card refused' AND snapshot_bytes = 100"));
    EXPECT_EQ(1, sql(&f, "SELECT count(*) FROM orchestrations WHERE id = 'order-000004'"
                         " AND status = 'running' AND completed IS NULL AND parent_id IS NULL"
                         " AND wakes = '2025-10-10T08:53:20.000Z'"));
    fixture_release(&f);
}
