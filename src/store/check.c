/* SPDX-License-Identifier: Apache-2.0
 *
 * See check.h.
 */
#include "store/check.h"

#include "base/assert.h"
#include "store/archive_sqlite.h"
#include "store/io.h"
#include "store/journal_recover.h"

#include <stdio.h>

#define PATH_SIZE 4096

struct checking {
    struct io *io;
    const char *directory;
    struct db db;
    struct blob_reader blobs;
    struct archive_report *report;
};

static enum status damaged(struct archive_report *report, const char *what)
{
    assert(what != NULL);
    if (report->damage[0] == '\0') (void)snprintf(report->damage, CHECK_DAMAGE_SIZE, "%s", what);
    assert(report->damage[0] != '\0');
    return E_CORRUPT;
}

/* ---- the database ---- */

enum check_statement { CHECK_INTEGRITY, CHECK_SEGMENTS, CHECK_PLACES, CHECK_STATEMENTS_N };

static const char *const statements[CHECK_STATEMENTS_N] = {
    [CHECK_INTEGRITY] = "PRAGMA integrity_check(1)",
    [CHECK_SEGMENTS] = "SELECT segment, size FROM segments ORDER BY segment",
    /* in the order of the files, so that each block is unpacked once */
    [CHECK_PLACES] = ("SELECT blob_segment, blob_block, blob_offset, blob_length FROM instances"
                      " ORDER BY blob_segment, blob_block"),
};

static enum status check_integrity(struct checking *c)
{
    enum db_row row = DB_DONE;

    assert(c->report->damage[0] == '\0');
    enum status status = db_step(&c->db, CHECK_INTEGRITY, &row);
    if (status == OK && row == DB_ROW) {
        struct bytes answer = db_bytes(&c->db, CHECK_INTEGRITY, 0);
        if (!bytes_equal(answer, BYTES_LITERAL("ok"))) {
            (void)snprintf(c->report->damage, CHECK_DAMAGE_SIZE, "%s/archive.db: %.*s",
                           c->directory, (int)answer.len, (const char *)answer.ptr);
            status = E_CORRUPT;
        }
    }
    db_reset(&c->db, CHECK_INTEGRITY);
    return status;
}

static enum status check_numbers(struct checking *c)
{
    int64_t version = 0;
    int64_t lsn = 0;
    int64_t rows = 0;
    int64_t counted = 0;

    enum status status =
        db_integer(&c->db, "SELECT value FROM meta WHERE key = 'format'", 0, &version);
    if (status == OK && version > ARCHIVE_FORMAT_VERSION) return E_VERSION;
    if (status == OK)
        status = db_integer(&c->db, "SELECT value FROM meta WHERE key = 'applied_lsn'", -1, &lsn);
    if (status == OK)
        status = db_integer(&c->db, "SELECT value FROM meta WHERE key = 'rows'", -1, &rows);
    if (status == OK) status = db_integer(&c->db, "SELECT count(*) FROM instances", 0, &counted);
    if (status != OK) return status;
    if (lsn < 0 || rows != counted)
        return damaged(c->report, "the archive's account of itself is wrong");
    c->report->applied_lsn = (uint64_t)lsn;
    c->report->rows_n = (uint64_t)counted;
    return OK;
}

/* ---- the segments ---- */

/* Every block that the table knows of: is it there, is its checksum right? */
static enum status check_segment(struct checking *c, uint64_t segment, uint64_t size)
{
    uint64_t at = BLOB_SEGMENT_HEAD_SIZE;

    assert(segment > 0);
    enum status status = blob_segment_check(c->io, c->directory, segment, size);
    while (status == OK && at < size) {
        struct blob_block block;
        status = blob_reader_block(&c->blobs, segment, at, &block);
        if (status != OK) break;
        assert(block.next > at);
        at = block.next;
        c->report->blocks_n++;
    }
    if (status == E_CORRUPT) {
        (void)snprintf(c->report->damage, CHECK_DAMAGE_SIZE,
                       "%s/%08llu.blobs: damaged at offset %llu", c->directory,
                       (unsigned long long)segment, (unsigned long long)at);
    }
    return status;
}

static enum status check_segments(struct checking *c)
{
    enum db_row row = DB_DONE;
    enum status status;

    while ((status = db_step(&c->db, CHECK_SEGMENTS, &row)) == OK && row == DB_ROW) {
        sqlite3_stmt *statement = c->db.statements[CHECK_SEGMENTS];
        int64_t segment = sqlite3_column_int64(statement, 0);
        int64_t size = sqlite3_column_int64(statement, 1);
        if (segment <= 0 || size < 0) {
            status = damaged(c->report, "the archive's table of segments is wrong");
            break;
        }
        status = check_segment(c, (uint64_t)segment, (uint64_t)size);
        if (status != OK) break;
        c->report->segments_n++;
        c->report->bytes += (uint64_t)size;
    }
    db_reset(&c->db, CHECK_SEGMENTS);
    return status;
}

/* Every row leads to its snapshot: unpacks what the checksums only guard. */
static enum status check_places(struct checking *c)
{
    enum db_row row = DB_DONE;
    enum status status;

    while ((status = db_step(&c->db, CHECK_PLACES, &row)) == OK && row == DB_ROW) {
        struct blob_place place;
        struct bytes blob;
        if (!archive_place_at(&c->db, CHECK_PLACES, 0, &place)) {
            status = damaged(c->report, "a row of the archive leads nowhere");
            break;
        }
        if (place.length == 0) continue;
        status = blob_reader_get(&c->blobs, &place, &blob);
        assert(status != OK || blob.len == place.length);
        if (status == E_CORRUPT) {
            (void)snprintf(c->report->damage, CHECK_DAMAGE_SIZE,
                           "%s/%08llu.blobs: the block at offset %llu cannot be unpacked",
                           c->directory, (unsigned long long)place.segment,
                           (unsigned long long)place.block);
        }
        if (status != OK) break;
    }
    db_reset(&c->db, CHECK_PLACES);
    return status;
}

static enum status is_there(struct io *io, const char *path)
{
    struct io_file *file = NULL;

    enum status status = io->ops->open(io, path, IO_READ, &file);
    assert(status != OK || file != NULL);
    if (status == OK) io->ops->close(io, file);
    return status;
}

enum status archive_check(struct io *io, const char *root, const char *directory, struct mem *mem,
                          struct archive_report *report)
{
    struct checking c = {.io = io, .directory = directory, .report = report};
    char path[PATH_SIZE];

    assert(root != NULL);
    assert(directory != NULL);
    *report = (struct archive_report){0};
    (void)snprintf(path, sizeof path, "%s/archive.db", directory);
    enum status status = is_there(io, path);
    if (status == E_NOT_FOUND) return OK;
    if (status == OK) status = blob_reader_init(&c.blobs, io, directory, mem);
    if (status != OK) return status;
    (void)snprintf(path, sizeof path, "%s/%s/archive.db", root, directory);
    status = archive_head_check(io, directory, path); /* as who opens it to use it does */
    if (status == OK)
        status = db_open(&c.db, path, SQLITE_OPEN_READONLY, "PRAGMA cell_size_check = ON;");
    if (status == OK) {
        status = db_prepare(&c.db, statements, CHECK_STATEMENTS_N);
        if (status == OK) status = check_integrity(&c);
        if (status == OK) status = check_numbers(&c);
        if (status == OK) status = check_segments(&c);
        if (status == OK) status = check_places(&c);
        db_close(&c.db);
    }
    blob_reader_release(&c.blobs);
    if (status != OK && report->damage[0] == '\0')
        (void)snprintf(report->damage, CHECK_DAMAGE_SIZE, "%s/archive.db: %s", directory,
                       status_text(status));
    return status;
}

/* ---- the journal ---- */

static enum status count_frame(void *user, const struct journal_frame *frame)
{
    (void)user;
    assert(frame->lsn > 0);
    return OK;
}

enum status journal_check_frames(struct io *io, const char *directory, uint64_t after_lsn,
                                 struct mem *mem, journal_replay_fn *fn, void *user,
                                 struct journal_report *report)
{
    struct recovery r = {.io = io,
                         .mem = mem,
                         .directory = directory,
                         .after_lsn = after_lsn,
                         .fn = fn,
                         .user = user,
                         .report = report};

    assert(directory != NULL);
    *report = (struct journal_report){0};
    r.segments.mem = mem;
    enum status status = recovery_read(&r);
    if (status == OK && r.tail_end > r.at) report->truncated_bytes = r.tail_end - r.at;
    segment_list_release(&r.segments);
    assert(status != OK || report->damage[0] == '\0');
    return status;
}

enum status journal_check(struct io *io, const char *directory, uint64_t after_lsn, struct mem *mem,
                          struct journal_report *report)
{
    return journal_check_frames(io, directory, after_lsn, mem, count_frame, NULL, report);
}
