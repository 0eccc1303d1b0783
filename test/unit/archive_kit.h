/* SPDX-License-Identifier: Apache-2.0
 *
 * A SQLite archive in a real directory, because SQLite does its own input and output; the io of the
 * segments goes through a wrapper that can refuse.
 */
#ifndef TEST_UNIT_ARCHIVE_KIT_H
#define TEST_UNIT_ARCHIVE_KIT_H

#include "base/assert.h"
#include "base/list.h"
#include "base/log.h"
#include "base/rng.h"
#include "store/archive_sqlite.h"
#include "store/io.h"
#include "test/lib/test.h"

#include <stdio.h>

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

static inline struct refusing_io *refusing_of(struct io *io)
{
    return container_of(io, struct refusing_io, io);
}

static inline enum status refusing_open(struct io *io, const char *path, enum io_open how,
                                        struct io_file **out)
{
    struct io *inner = refusing_of(io)->inner;
    return inner->ops->open(inner, path, how, out);
}

static inline void refusing_close(struct io *io, struct io_file *file)
{
    struct io *inner = refusing_of(io)->inner;
    inner->ops->close(inner, file);
}

static inline enum status refusing_read(struct io *io, struct io_file *file, uint64_t offset,
                                        void *ptr, size_t len, size_t *got)
{
    struct io *inner = refusing_of(io)->inner;
    return inner->ops->read(inner, file, offset, ptr, len, got);
}

static inline enum status refusing_write(struct io *io, struct io_file *file, uint64_t offset,
                                         const void *ptr, size_t len)
{
    struct refusing_io *r = refusing_of(io);
    if (r->write_answer != OK) return r->write_answer;
    return r->inner->ops->write(r->inner, file, offset, ptr, len);
}

static inline enum status refusing_datasync(struct io *io, struct io_file *file)
{
    struct refusing_io *r = refusing_of(io);
    if (r->datasync_answer != OK) return r->datasync_answer;
    return r->inner->ops->datasync(r->inner, file);
}

static inline enum status refusing_truncate(struct io *io, struct io_file *file, uint64_t size)
{
    struct io *inner = refusing_of(io)->inner;
    return inner->ops->truncate(inner, file, size);
}

static inline enum status refusing_size(struct io *io, struct io_file *file, uint64_t *out)
{
    struct io *inner = refusing_of(io)->inner;
    return inner->ops->size(inner, file, out);
}

static inline enum status refusing_unlink(struct io *io, const char *path)
{
    struct io *inner = refusing_of(io)->inner;
    return inner->ops->unlink(inner, path);
}

static inline enum status refusing_make_directory(struct io *io, const char *path)
{
    struct io *inner = refusing_of(io)->inner;
    return inner->ops->make_directory(inner, path);
}

static inline enum status refusing_sync_directory(struct io *io, const char *path)
{
    struct io *inner = refusing_of(io)->inner;
    return inner->ops->sync_directory(inner, path);
}

static inline enum status refusing_list(struct io *io, const char *path, io_list_fn *fn, void *user)
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

static inline enum status fixture_try_open(struct fixture *f)
{
    struct archive_sqlite_options options = {
        .root = f->root,
        .directory = DIRECTORY,
        .segment_size = SEGMENT_SIZE,
        .mem = mem_process(),
    };
    return archive_sqlite_open(&f->io.io, &options, &f->archive);
}

static inline void fixture_init(struct fixture *f)
{
    *f = (struct fixture){.io.io.ops = &refusing_ops};
    log_setup(LOG_ERROR + 1, LOG_TEXT); /* damage is made on purpose here */
    (void)snprintf(f->root, sizeof f->root, "%s", test_directory());
    arena_init(&f->arena, mem_process(), 4096);
    EXPECT_STATUS(OK, io_posix_open(f->root, &f->io.inner));
    EXPECT_STATUS(OK, fixture_try_open(f));
}

static inline void fixture_release(struct fixture *f)
{
    if (f->archive != NULL) archive_close(f->archive);
    arena_release(&f->arena);
    f->io.inner->ops->release(f->io.inner);
}

static inline void fixture_close(struct fixture *f)
{
    archive_close(f->archive);
    f->archive = NULL;
}

static inline void fixture_reopen(struct fixture *f)
{
    fixture_close(f);
    EXPECT_STATUS(OK, fixture_try_open(f));
}

static inline struct archive_sqlite *inside(struct fixture *f)
{
    return archive_sqlite_of(f->archive);
}

/* --- rows --- */

/* Bytes that depend on the seed and compress somewhat. Lives until the arena is reset. */
static inline struct bytes make_blob(struct fixture *f, uint64_t seed, size_t len)
{
    struct rng rng;
    uint8_t *ptr = arena_alloc(&f->arena, len + 8);

    EXPECT(ptr != NULL);
    rng_init(&rng, seed);
    for (size_t i = 0; i < len; i += 8) store_u64(ptr + i, i % 16 == 0 ? rng_u64(&rng) : seed);
    return bytes_make(ptr, len);
}

static inline struct archive_row make_row(struct fixture *f, uint64_t number, size_t snapshot_len)
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

static inline enum status put_rows(struct fixture *f, uint64_t first, size_t n, size_t snapshot_len)
{
    struct archive_put *puts = arena_alloc(&f->arena, n * sizeof *puts);

    EXPECT(puts != NULL);
    for (size_t i = 0; i < n; i++)
        puts[i] = (struct archive_put){make_row(f, first + i, snapshot_len), .is_new = true};
    struct archive_batch batch = {.puts = puts, .puts_n = n, .applied_lsn = ++f->lsn};
    return archive_apply(f->archive, &batch);
}

static inline enum status put_row(struct fixture *f, const struct archive_row *row)
{
    struct archive_put put = {.row = *row};
    struct archive_batch batch = {.puts = &put, .puts_n = 1, .applied_lsn = ++f->lsn};
    return archive_apply(f->archive, &batch);
}

/* Removes first, first + step, ... below end. */
static inline void remove_rows(struct fixture *f, uint64_t first, uint64_t end, uint64_t step)
{
    size_t n = 0;
    struct archive_key *keys = arena_alloc(&f->arena, (end - first) * sizeof *keys);

    EXPECT(keys != NULL);
    for (uint64_t i = first; i < end; i += step)
        keys[n++] = (struct archive_key){HUB, make_row(f, i, 0).id};
    struct archive_batch batch = {.removes = keys, .removes_n = n, .applied_lsn = ++f->lsn};
    EXPECT_STATUS(OK, archive_apply(f->archive, &batch));
}

static inline enum status get(struct fixture *f, struct bytes id, struct archive_row *out)
{
    return archive_get(f->archive, (struct archive_key){HUB, id}, true, &f->arena, out);
}

static inline void expect_row(struct fixture *f, const struct archive_row *expected)
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

static inline void expect_rows(struct fixture *f, uint64_t first, uint64_t end, uint64_t step,
                               size_t snapshot_len)
{
    for (uint64_t i = first; i < end; i += step) {
        test_note("row %d", (int)i);
        struct archive_row expected = make_row(f, i, snapshot_len);
        expect_row(f, &expected);
    }
}

static inline void expect_absent(struct fixture *f, uint64_t number)
{
    struct archive_row got;
    EXPECT_STATUS(E_NOT_FOUND, get(f, make_row(f, number, 0).id, &got));
}

static inline struct archive_stats stats_of(struct fixture *f)
{
    struct archive_stats stats;
    EXPECT_STATUS(OK, archive_stats(f->archive, &stats));
    return stats;
}

static inline uint64_t lsn_of(struct fixture *f)
{
    uint64_t lsn;
    EXPECT_STATUS(OK, archive_applied_lsn(f->archive, &lsn));
    return lsn;
}

static inline enum status count_row(void *user, const struct archive_row *row)
{
    size_t *n = user;
    EXPECT(row->id.len > 0);
    ++*n;
    return OK;
}

static inline size_t count_all(struct fixture *f)
{
    size_t n = 0;
    struct archive_query query = {.hub = HUB, .limit = UINT32_MAX};
    EXPECT_STATUS(OK, archive_query(f->archive, &query, count_row, &n));
    return n;
}

/* --- files and SQL behind the archive's back --- */

static inline enum status count_segment(void *user, const char *name)
{
    size_t *n = user;
    if (blob_segment_number(name) > 0) ++*n;
    return OK;
}

static inline size_t count_segments(struct fixture *f)
{
    size_t n = 0;
    EXPECT_STATUS(OK, f->io.inner->ops->list(f->io.inner, DIRECTORY, count_segment, &n));
    return n;
}

static inline void read_whole(struct fixture *f, const char *name, struct buffer *out)
{
    char path[64];
    (void)snprintf(path, sizeof path, DIRECTORY "/%s", name);
    buffer_init(out, mem_process());
    enum status status = io_read_file(f->io.inner, path, (size_t)64 << 20, out);
    EXPECT(status == OK || status == E_NOT_FOUND);
}

/* With a connection of its own, as a person would. */
static inline int64_t sql(struct fixture *f, const char *text)
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
static inline void damage(struct fixture *f, uint64_t segment, uint64_t offset)
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

/* Until there is nothing left to do; answers how many calls did something. */
static inline size_t maintain_all(struct fixture *f)
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

#endif
