/* SPDX-License-Identifier: Apache-2.0
 *
 * What is special about the SQLite archive; what every archive must do is in
 * test/conformance/test_archive.c. On a real directory, because SQLite does its own input and
 * output; the io of the segments goes through a wrapper that can refuse.
 */
#include "test/lib/test.h"

#include "base/assert.h"
#include "base/list.h"
#include "base/log.h"
#include "base/rng.h"
#include "store/archive_sqlite.h"
#include "store/io.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define HUB BYTES_LITERAL("default")
#define DIRECTORY "archive"
#define SEGMENT_SIZE ((uint64_t)64 << 10)
#define CREATED_MS INT64_C(1760000000000)

/* --- an io that refuses on demand --- */

struct refusing_io {
    struct io io;
    struct io *inner;
    enum status write_answer;    /* not OK: instead of writing */
    enum status datasync_answer; /* likewise */
};

static struct refusing_io *refusing_of(struct io *io)
{
    return container_of(io, struct refusing_io, io);
}

static enum status refusing_open(struct io *io, const char *path, enum io_open how,
                                 struct io_file **out)
{
    struct io *inner = refusing_of(io)->inner;
    return inner->ops->open(inner, path, how, out);
}

static void refusing_close(struct io *io, struct io_file *file)
{
    struct io *inner = refusing_of(io)->inner;
    inner->ops->close(inner, file);
}

static enum status refusing_read(struct io *io, struct io_file *file, uint64_t offset, void *ptr,
                                 size_t len, size_t *got)
{
    struct io *inner = refusing_of(io)->inner;
    return inner->ops->read(inner, file, offset, ptr, len, got);
}

static enum status refusing_write(struct io *io, struct io_file *file, uint64_t offset,
                                  const void *ptr, size_t len)
{
    struct refusing_io *r = refusing_of(io);
    if (r->write_answer != OK) return r->write_answer;
    return r->inner->ops->write(r->inner, file, offset, ptr, len);
}

static enum status refusing_datasync(struct io *io, struct io_file *file)
{
    struct refusing_io *r = refusing_of(io);
    if (r->datasync_answer != OK) return r->datasync_answer;
    return r->inner->ops->datasync(r->inner, file);
}

static enum status refusing_truncate(struct io *io, struct io_file *file, uint64_t size)
{
    struct io *inner = refusing_of(io)->inner;
    return inner->ops->truncate(inner, file, size);
}

static enum status refusing_size(struct io *io, struct io_file *file, uint64_t *out)
{
    struct io *inner = refusing_of(io)->inner;
    return inner->ops->size(inner, file, out);
}

static enum status refusing_unlink(struct io *io, const char *path)
{
    struct io *inner = refusing_of(io)->inner;
    return inner->ops->unlink(inner, path);
}

static enum status refusing_make_directory(struct io *io, const char *path)
{
    struct io *inner = refusing_of(io)->inner;
    return inner->ops->make_directory(inner, path);
}

static enum status refusing_sync_directory(struct io *io, const char *path)
{
    struct io *inner = refusing_of(io)->inner;
    return inner->ops->sync_directory(inner, path);
}

static enum status refusing_list(struct io *io, const char *path, io_list_fn *fn, void *user)
{
    struct io *inner = refusing_of(io)->inner;
    return inner->ops->list(inner, path, fn, user);
}

/* What the archive does not use (allocate, rename, lock, space, release) is not there. */
static const struct io_ops refusing_ops = {
    .name = "refusing",
    .open = refusing_open,
    .close = refusing_close,
    .read = refusing_read,
    .write = refusing_write,
    .datasync = refusing_datasync,
    .truncate = refusing_truncate,
    .size = refusing_size,
    .unlink = refusing_unlink,
    .make_directory = refusing_make_directory,
    .sync_directory = refusing_sync_directory,
    .list = refusing_list,
};

/* --- fixture --- */

struct fixture {
    char root[256];
    struct refusing_io io;
    struct archive *archive;
    struct arena arena;
    uint64_t lsn;
};

static enum status fixture_try_open(struct fixture *f)
{
    struct archive_sqlite_options options = {
        .root = f->root,
        .directory = DIRECTORY,
        .segment_size = SEGMENT_SIZE,
        .mem = mem_process(),
    };
    return archive_sqlite_open(&f->io.io, &options, &f->archive);
}

static void fixture_init(struct fixture *f)
{
    *f = (struct fixture){.io.io.ops = &refusing_ops};
    log_setup(LOG_ERROR + 1, LOG_TEXT); /* damage is made on purpose here */
    (void)snprintf(f->root, sizeof f->root, "%s", test_directory());
    arena_init(&f->arena, mem_process(), 4096);
    EXPECT_STATUS(OK, io_posix_open(f->root, &f->io.inner));
    EXPECT_STATUS(OK, fixture_try_open(f));
}

static void fixture_release(struct fixture *f)
{
    if (f->archive != NULL) archive_close(f->archive);
    arena_release(&f->arena);
    f->io.inner->ops->release(f->io.inner);
}

static void fixture_close(struct fixture *f)
{
    archive_close(f->archive);
    f->archive = NULL;
}

static void fixture_reopen(struct fixture *f)
{
    fixture_close(f);
    EXPECT_STATUS(OK, fixture_try_open(f));
}

static struct archive_sqlite *inside(struct fixture *f) { return archive_sqlite_of(f->archive); }

/* --- rows --- */

/* Bytes that depend on the seed and compress somewhat. Lives until the arena is reset. */
static struct bytes make_blob(struct fixture *f, uint64_t seed, size_t len)
{
    struct rng rng;
    uint8_t *ptr = arena_alloc(&f->arena, len + 8);

    EXPECT(ptr != NULL);
    rng_init(&rng, seed);
    for (size_t i = 0; i < len; i += 8) store_u64(ptr + i, i % 16 == 0 ? rng_u64(&rng) : seed);
    return bytes_make(ptr, len);
}

static struct archive_row make_row(struct fixture *f, uint64_t number, size_t snapshot_len)
{
    char id[32];
    (void)snprintf(id, sizeof id, "order-%06d", (int)number);
    return (struct archive_row){
        .hub = HUB,
        .id = bytes_make(arena_text(&f->arena, bytes_of_text(id)), strlen(id)),
        .partition = (uint32_t)(number % 32),
        .version = number + 1,
        .status = 1,
        .is_terminal = true,
        .name = BYTES_LITERAL("ProcessOrder"),
        .created_ms = CREATED_MS + (int64_t)number,
        .updated_ms = CREATED_MS + (int64_t)number + 500,
        .completed_ms = CREATED_MS + (int64_t)number + 500,
        .wake_ms = ARCHIVE_NO_TIME,
        .snapshot = make_blob(f, number + 1, snapshot_len),
    };
}

static enum status put_rows(struct fixture *f, uint64_t first, size_t n, size_t snapshot_len)
{
    struct archive_put *puts = arena_alloc(&f->arena, n * sizeof *puts);

    EXPECT(puts != NULL);
    for (size_t i = 0; i < n; i++)
        puts[i] = (struct archive_put){make_row(f, first + i, snapshot_len), .is_new = true};
    struct archive_batch batch = {.puts = puts, .puts_n = n, .applied_lsn = ++f->lsn};
    return archive_apply(f->archive, &batch);
}

static enum status put_row(struct fixture *f, const struct archive_row *row)
{
    struct archive_put put = {.row = *row};
    struct archive_batch batch = {.puts = &put, .puts_n = 1, .applied_lsn = ++f->lsn};
    return archive_apply(f->archive, &batch);
}

/* Removes first, first + step, ... below end. */
static void remove_rows(struct fixture *f, uint64_t first, uint64_t end, uint64_t step)
{
    size_t n = 0;
    struct archive_key *keys = arena_alloc(&f->arena, (end - first) * sizeof *keys);

    EXPECT(keys != NULL);
    for (uint64_t i = first; i < end; i += step)
        keys[n++] = (struct archive_key){HUB, make_row(f, i, 0).id};
    struct archive_batch batch = {.removes = keys, .removes_n = n, .applied_lsn = ++f->lsn};
    EXPECT_STATUS(OK, archive_apply(f->archive, &batch));
}

static enum status get(struct fixture *f, struct bytes id, struct archive_row *out)
{
    return archive_get(f->archive, (struct archive_key){HUB, id}, true, &f->arena, out);
}

static void expect_row(struct fixture *f, const struct archive_row *expected)
{
    struct archive_row got;

    EXPECT_STATUS(OK, get(f, expected->id, &got));
    EXPECT_BYTES(expected->id, got.id);
    EXPECT_EQ(expected->version, got.version);
    EXPECT_EQ(expected->status, got.status);
    EXPECT_EQ(expected->completed_ms, got.completed_ms);
    EXPECT_EQ(expected->wake_ms, got.wake_ms);
    EXPECT(bytes_equal(expected->snapshot, got.snapshot));
}

static void expect_rows(struct fixture *f, uint64_t first, uint64_t end, uint64_t step,
                        size_t snapshot_len)
{
    for (uint64_t i = first; i < end; i += step) {
        test_note("row %d", (int)i);
        struct archive_row expected = make_row(f, i, snapshot_len);
        expect_row(f, &expected);
    }
}

static void expect_absent(struct fixture *f, uint64_t number)
{
    struct archive_row got;
    EXPECT_STATUS(E_NOT_FOUND, get(f, make_row(f, number, 0).id, &got));
}

static struct archive_stats stats_of(struct fixture *f)
{
    struct archive_stats stats;
    EXPECT_STATUS(OK, archive_stats(f->archive, &stats));
    return stats;
}

static uint64_t lsn_of(struct fixture *f)
{
    uint64_t lsn;
    EXPECT_STATUS(OK, archive_applied_lsn(f->archive, &lsn));
    return lsn;
}

static enum status count_row(void *user, const struct archive_row *row)
{
    size_t *n = user;
    EXPECT(row->id.len > 0);
    ++*n;
    return OK;
}

static size_t count_all(struct fixture *f)
{
    size_t n = 0;
    struct archive_query query = {.hub = HUB, .limit = UINT32_MAX};
    EXPECT_STATUS(OK, archive_query(f->archive, &query, count_row, &n));
    return n;
}

/* --- files and SQL behind the archive's back --- */

static enum status count_segment(void *user, const char *name)
{
    size_t *n = user;
    if (blob_segment_number(name) > 0) ++*n;
    return OK;
}

static size_t count_segments(struct fixture *f)
{
    size_t n = 0;
    EXPECT_STATUS(OK, f->io.inner->ops->list(f->io.inner, DIRECTORY, count_segment, &n));
    return n;
}

static void read_whole(struct fixture *f, const char *name, struct buffer *out)
{
    char path[64];
    (void)snprintf(path, sizeof path, DIRECTORY "/%s", name);
    buffer_init(out, mem_process());
    enum status status = io_read_file(f->io.inner, path, (size_t)64 << 20, out);
    EXPECT(status == OK || status == E_NOT_FOUND);
}

/* With a connection of its own, as a person would. */
static int64_t sql(struct fixture *f, const char *text)
{
    struct db db;
    char path[300];
    int64_t value = 0;

    (void)snprintf(path, sizeof path, "%s/" DIRECTORY "/archive.db", f->root);
    EXPECT_STATUS(OK, db_open(&db, path, SQLITE_OPEN_READWRITE, ""));
    enum status status = db_integer(&db, text, 0, &value);
    db_close(&db);
    EXPECT_STATUS(OK, status);
    return value;
}

/* Changes a byte of a segment. */
static void damage(struct fixture *f, uint64_t segment, uint64_t offset)
{
    char path[BLOB_PATH_SIZE];
    struct io *io = f->io.inner;
    struct io_file *file;
    uint8_t byte;
    size_t got;

    blob_segment_path(path, DIRECTORY, segment);
    EXPECT_STATUS(OK, io->ops->open(io, path, IO_WRITE, &file));
    EXPECT_STATUS(OK, io->ops->read(io, file, offset, &byte, 1, &got));
    EXPECT_EQ(1, got);
    byte ^= 1;
    EXPECT_STATUS(OK, io->ops->write(io, file, offset, &byte, 1));
    io->ops->close(io, file);
}

/* --- tests --- */

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

static size_t maintain_all(struct fixture *f)
{
    size_t calls_n = 0;
    bool did_something = true;

    while (did_something) {
        EXPECT(calls_n < 1000);
        EXPECT_STATUS(OK, archive_maintain(f->archive, &did_something));
        if (did_something) calls_n++;
    }
    return calls_n;
}

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

/* Reading while another thread writes, replaces, removes and maintains: every answer is a state
 * that was committed, with the snapshot that belongs to it. */
struct race {
    struct fixture *f;
    atomic_bool is_over;
    atomic_uint failures_n;
    uint64_t reads_n;
};

/* All rows of this test have a version that says which snapshot they have. */
static struct archive_row versioned_row(struct fixture *f, uint64_t number, uint64_t version)
{
    struct archive_row row = make_row(f, number, 1500);

    row.version = version;
    row.snapshot = make_blob(f, number * 1000 + version, 1500);
    row.is_terminal = version % 2 == 0;
    row.status = row.is_terminal ? 1 : 0;
    row.completed_ms = row.is_terminal ? row.updated_ms : ARCHIVE_NO_TIME;
    row.wake_ms = row.is_terminal ? ARCHIVE_NO_TIME : 1;
    return row;
}

static enum status check_versioned(void *user, const struct archive_row *row)
{
    struct race *race = user;
    uint64_t first;

    race->reads_n++;
    if (row->snapshot.len != 1500) return E_CORRUPT;
    memcpy(&first, row->snapshot.ptr + 8, sizeof first);
    uint64_t number = (uint64_t)(row->created_ms - CREATED_MS);
    return first == number * 1000 + row->version ? OK : E_CORRUPT;
}

static void *read_all_the_time(void *user)
{
    struct race *race = user;
    struct archive *a = race->f->archive;
    struct archive_query query = {.hub = HUB, .limit = 1000, .want_snapshot = true};
    struct arena arena;

    struct mem mem;
    mem_init(&mem, SIZE_MAX);
    arena_init(&arena, &mem, 4096);
    while (!atomic_load(&race->is_over)) {
        struct archive_row row;
        uint64_t lsn;
        struct archive_key key = {HUB, BYTES_LITERAL("order-000007")};
        arena_reset(&arena);
        enum status status = archive_get(a, key, true, &arena, &row);
        if (status == OK) status = check_versioned(race, &row);
        if (status != OK && status != E_NOT_FOUND) atomic_fetch_add(&race->failures_n, 1);
        if (archive_query(a, &query, check_versioned, race) != OK ||
            archive_due(a, 10, NULL, 1000, check_versioned, race) != OK ||
            archive_applied_lsn(a, &lsn) != OK)
            atomic_fetch_add(&race->failures_n, 1);
    }
    arena_release(&arena);
    mem_release(&mem);
    return NULL;
}

TEST(reader_and_writer_at_the_same_time)
{
    struct fixture f;
    struct race race = {.f = &f};
    pthread_t reader;

    fixture_init(&f);
    EXPECT_EQ(0, pthread_create(&reader, NULL, read_all_the_time, &race));
    for (uint64_t round = 0; round < 60; round++) {
        struct archive_put puts[40];
        struct archive_key removed[10];
        arena_reset(&f.arena);
        for (uint64_t i = 0; i < 40; i++)
            puts[i] =
                (struct archive_put){versioned_row(&f, (round + i) % 100, round), .is_new = false};
        for (uint64_t i = 0; i < 10; i++)
            removed[i] = (struct archive_key){HUB, make_row(&f, (round + 50 + i) % 100, 0).id};
        struct archive_batch batch = {.puts = puts,
                                      .puts_n = 40,
                                      .removes = removed,
                                      .removes_n = 10,
                                      .applied_lsn = ++f.lsn};
        EXPECT_STATUS(OK, archive_apply(f.archive, &batch));
        bool did_something;
        EXPECT_STATUS(OK, archive_maintain(f.archive, &did_something));
    }
    atomic_store(&race.is_over, true);
    EXPECT_EQ(0, pthread_join(reader, NULL));
    EXPECT_EQ(0, atomic_load(&race.failures_n));
    EXPECT(race.reads_n > 0);
    (void)maintain_all(&f);
    EXPECT(count_segments(&f) < 10);
    fixture_release(&f);
}

/* kill -9 at a random moment of an endless loop of apply() and maintain(). Batch n puts the row n,
 * replaces the row n - 10, removes the row n - 20 and sets the LSN n, so that the LSN says exactly
 * which rows must be there. What was acknowledged through the pipe is there. */
static void child_loop(struct fixture *f, int acknowledge_fd)
{
    for (uint64_t n = lsn_of(f) + 1;; n++) {
        struct archive_row old = make_row(f, n - 10, 900);
        struct archive_put puts[2] = {{make_row(f, n, 1200), true}, {old, false}};
        struct archive_key removed = {HUB, make_row(f, n - 20, 0).id};
        struct archive_batch batch = {.puts = puts,
                                      .puts_n = n > 10 ? 2 : 1,
                                      .removes = &removed,
                                      .removes_n = n > 20 ? 1 : 0,
                                      .applied_lsn = n};
        bool did_something;
        if (archive_apply(f->archive, &batch) != OK) _exit(1);
        if (write(acknowledge_fd, &n, sizeof n) != (ssize_t)sizeof n) _exit(1);
        if (archive_maintain(f->archive, &did_something) != OK) _exit(1);
        arena_reset(&f->arena);
    }
}

static void expect_state_of(struct fixture *f, uint64_t lsn)
{
    uint64_t first = lsn > 20 ? lsn - 19 : 1;

    EXPECT_EQ(lsn - first + 1, count_all(f));
    EXPECT_EQ(lsn - first + 1, stats_of(f).rows);
    for (uint64_t i = first; i <= lsn; i++) {
        struct archive_row expected = make_row(f, i, i + 10 <= lsn ? 900 : 1200);
        expect_row(f, &expected);
    }
}

TEST(killed_process_loses_nothing_acknowledged)
{
    struct fixture f;
    struct rng rng;

    fixture_init(&f);
    rng_init(&rng, 17);
    for (int round = 0; round < 12; round++) {
        int pipe_fds[2];
        uint64_t acknowledged = 0, n = 0;
        uint64_t wanted = rng_below(&rng, 60) + 1;

        test_note("round %d", round);
        fixture_close(&f);
        EXPECT_EQ(0, pipe(pipe_fds));
        pid_t child = fork();
        EXPECT(child >= 0);
        if (child == 0) {
            (void)close(pipe_fds[0]);
            if (fixture_try_open(&f) != OK) _exit(1);
            child_loop(&f, pipe_fds[1]);
        }
        (void)close(pipe_fds[1]);
        for (uint64_t i = 0; i < wanted; i++) {
            EXPECT_EQ((int)sizeof n, read(pipe_fds[0], &n, sizeof n));
            acknowledged = n;
        }
        EXPECT_EQ(0, kill(child, SIGKILL));
        while (read(pipe_fds[0], &n, sizeof n) == (ssize_t)sizeof n) acknowledged = n;
        (void)close(pipe_fds[0]);
        int result;
        EXPECT_EQ(child, waitpid(child, &result, 0));
        EXPECT(WIFSIGNALED(result));

        EXPECT_STATUS(OK, fixture_try_open(&f));
        uint64_t lsn = lsn_of(&f);
        EXPECT(lsn >= acknowledged);
        EXPECT(lsn <= acknowledged + 1);
        expect_state_of(&f, lsn);
        arena_reset(&f.arena);
    }
    fixture_release(&f);
}

/* The first transaction of a new database as SQLite makes it before there is a WAL, up to a moment
 * in the middle: its rollback journal is on the disk, and pages are in the database. */
static void child_first_transaction(const struct fixture *f)
{
    struct db db;
    char path[300];

    (void)snprintf(path, sizeof path, "%s/" DIRECTORY "/archive.db", f->root);
    const char setup[] = "PRAGMA journal_mode = DELETE; PRAGMA cache_size = 1; BEGIN";
    if (db_open(&db, path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, setup) != OK) _exit(1);
    enum status status = db_execute(&db, "CREATE TABLE begun (x)");
    if (status == OK) {
        status = db_execute(&db, "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n "
                                 "WHERE i < 200) INSERT INTO begun SELECT zeroblob(3000) FROM n");
    }
    _exit(status == OK ? 0 : 1); /* as if it were killed: nothing is rolled back */
}

/* A process that dies in its very first transaction leaves a database that a reader may not repair:
 * the next one opens it all the same, and begins anew. */
TEST(directory_killed_in_its_first_transaction_opens)
{
    static const char *const names[] = {"archive.db", "archive.db-wal", "archive.db-shm",
                                        "00000001.blobs"};
    struct fixture f;
    struct buffer journal;
    char path[300];
    int result;

    fixture_init(&f);
    fixture_close(&f);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        (void)snprintf(path, sizeof path, "%s/" DIRECTORY "/%s", f.root, names[i]);
        (void)unlink(path);
    }
    pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0) child_first_transaction(&f);
    EXPECT_EQ(child, waitpid(child, &result, 0));
    EXPECT_EQ(0, result);
    read_whole(&f, "archive.db-journal", &journal);
    EXPECT(journal.len > 0); /* or this test would prove nothing */
    buffer_release(&journal);

    EXPECT_STATUS(OK, fixture_try_open(&f));
    EXPECT_STATUS(OK, put_rows(&f, 0, 10, 500));
    fixture_reopen(&f);
    expect_rows(&f, 0, 10, 1, 500);
    fixture_release(&f);
}
