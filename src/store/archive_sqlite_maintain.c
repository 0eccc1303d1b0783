/* SPDX-License-Identifier: Apache-2.0
 *
 * maintain(): gives disk space back. A segment that no row refers to is unlinked. One of which less
 * than a quarter is alive is rewritten: a stretch of its blocks per call is walked, each blob whose
 * owner still refers to it is appended to the segment being written, and when the end is reached
 * nothing refers to the old one any more.
 *
 * A crash at any point is harmless: moving is one transaction per call, and the row of a segment
 * goes before its file, so that a file without a row is what archive_segments_load() removes.
 */
#include "store/archive_sqlite.h"

#include "base/assert.h"
#include "base/log.h"
#include "store/io.h"

#include <inttypes.h>

/* A blob of a block, with its place. */
struct moved {
    int64_t seq;
    struct blob_place place;
};

/* The place that the row refers to now. E_NOT_FOUND when there is no such row. */
static enum status place_of(struct archive_writer *w, int64_t seq, struct blob_place *out)
{
    struct db *db = &w->db;
    enum db_row row;

    db_bind_integer(db, WRITER_PLACE, 1, seq);
    enum status status = db_step(db, WRITER_PLACE, &row);
    if (status == OK && row == DB_DONE) status = E_NOT_FOUND;
    if (status == OK && !archive_place_at(db, WRITER_PLACE, 0, out))
        status = db_damaged(db, "table instances: the place of row %" PRId64 " cannot be", seq);
    db_reset(db, WRITER_PLACE);
    return status;
}

static bool is_same_place(const struct blob_place *a, const struct blob_place *b)
{
    return a->segment == b->segment && a->block == b->block && a->offset == b->offset &&
           a->length == b->length;
}

static enum status move_blob(struct archive_writer *w, const struct moved *moved)
{
    struct db *db = &w->db;
    struct bytes blob;
    struct blob_place to;

    enum status status = blob_reader_get(&w->mover, &moved->place, &blob);
    if (status == OK) status = blob_writer_add(&w->blobs, (uint64_t)moved->seq, blob, &to);
    if (status == OK) archive_count_blob(w, &to);
    if (status == OK) status = archive_uncount_blob(w, moved->place.segment, moved->place.length);
    if (status != OK) return status;

    assert(to.length == moved->place.length);
    assert(to.segment != moved->place.segment); /* else it would never be empty */
    db_bind_integer(db, WRITER_MOVE, 1, moved->seq);
    db_bind_integer(db, WRITER_MOVE, 2, (int64_t)to.segment);
    db_bind_integer(db, WRITER_MOVE, 3, (int64_t)to.block);
    db_bind_integer(db, WRITER_MOVE, 4, to.offset);
    db_bind_integer(db, WRITER_MOVE, 5, to.length);
    status = db_run(db, WRITER_MOVE);
    if (status != OK || db_has_changed_one(db)) return status;
    return db_damaged(db, "table instances: row %" PRId64 " cannot be written", moved->seq);
}

static enum status table_damaged(const struct blob_block *block)
{
    log_error("archive: segment %" PRIu64 ", offset %" PRIu64 ": the table of the block is wrong",
              block->segment, block->offset);
    return E_CORRUPT;
}

/* The blobs of a block in an array that outlives the block's bytes. */
static enum status read_table(struct archive_writer *w, const struct blob_block *block,
                              struct moved **out)
{
    struct reader reader = reader_make(block->table);
    uint64_t offset = 0;

    assert(block->segment == w->moving);
    assert(block->raw_size > 0);
    if (block->blobs_n == 0 || block->blobs_n > block->table.len) return table_damaged(block);
    struct moved *moved = arena_alloc(&w->scratch, block->blobs_n * sizeof *moved);
    if (moved == NULL) return E_NOMEM;
    for (uint32_t i = 0; i < block->blobs_n; i++) {
        uint64_t owner = reader_varint(&reader);
        uint64_t length = reader_varint(&reader);
        if (owner > INT64_MAX || length > block->raw_size - offset) return table_damaged(block);
        moved[i] = (struct moved){
            .seq = (int64_t)owner,
            .place = {block->segment, block->offset, (uint32_t)offset, (uint32_t)length},
        };
        offset += length;
        assert(offset <= block->raw_size);
    }
    if (!reader_is_done(&reader) || offset != block->raw_size) return table_damaged(block);
    *out = moved;
    return OK;
}

static enum status move_block(struct archive_writer *w, const struct blob_block *block)
{
    struct moved *moved;

    enum status status = read_table(w, block, &moved);
    for (uint32_t i = 0; status == OK && i < block->blobs_n; i++) {
        struct blob_place now = {0};
        status = place_of(w, moved[i].seq, &now);
        if (status == E_NOT_FOUND) {
            status = OK; /* removed since; its number may even belong to another row now */
        } else if (status == OK && is_same_place(&now, &moved[i].place)) {
            status = move_blob(w, &moved[i]);
        }
    }
    assert(status != E_NOT_FOUND);
    return status;
}

/* Moves what is alive in the next stretch of the segment. *end: where the stretch ends. */
static enum status move_stretch(struct archive_sqlite *s, const struct archive_segment *segment,
                                uint64_t *end)
{
    struct archive_writer *w = &s->writer;
    uint64_t at = w->moving_at;
    uint64_t stop = at + ARCHIVE_MOVE_BYTES;

    enum status status = archive_begin(s);
    if (status != OK) return status;
    assert(segment->number == w->moving);
    assert(segment->number < w->blobs.number);
    assert(at >= BLOB_SEGMENT_HEAD_SIZE);
    while (status == OK && at < segment->size && at < stop) {
        struct blob_block block;
        status = blob_reader_block(&w->mover, segment->number, at, &block);
        if (status == OK) status = move_block(w, &block);
        assert(status != OK || block.next > at);
        if (status == OK) at = block.next;
    }
    if (status != OK) return archive_rollback(s, status);
    *end = at;
    return archive_commit(s);
}

static enum status rewrite(struct archive_sqlite *s, size_t index)
{
    struct archive_writer *w = &s->writer;
    uint64_t number = w->segments[index].number;
    uint64_t size = w->segments[index].size;
    uint64_t end = 0;

    assert(index + 1 < w->segments_n); /* the last one is being written */
    assert(!w->segments[index].is_damaged);
    if (w->moving != number) {
        w->moving = number;
        w->moving_at = BLOB_SEGMENT_HEAD_SIZE;
    }
    struct archive_segment segment = w->segments[index]; /* the array may move */
    enum status status = move_stretch(s, &segment, &end);
    assert(w->segments[index].number == number);
    /* Everything was walked and something is still referred to: table or file is wrong. */
    if (status == OK && end >= size && w->segments[index].raw_live > 0)
        status = db_damaged(&w->db, "table segments: segment %" PRIu64 " has less alive than that",
                            number);
    if (status == E_CORRUPT) {
        log_error("archive: segment %" PRIu64 " cannot be rewritten and stays as it is", number);
        w->segments[index].is_damaged = true;
        w->moving = 0;
    }
    if (status != OK) return status;
    assert(end > w->moving_at);
    w->moving_at = end;
    return OK;
}

static enum status drop(struct archive_sqlite *s, size_t index)
{
    struct archive_writer *w = &s->writer;
    uint64_t number = w->segments[index].number;
    char path[BLOB_PATH_SIZE];

    assert(w->segments[index].raw_live == 0);
    assert(number < w->blobs.number);
    enum status status = archive_begin(s);
    if (status != OK) return status;
    db_bind_integer(&w->db, WRITER_SEGMENT_DROP, 1, (int64_t)number);
    status = db_run(&w->db, WRITER_SEGMENT_DROP);
    if (status != OK) return archive_rollback(s, status);
    status = archive_commit(s);
    if (status != OK) return status;

    archive_segments_drop(w, index);
    blob_reader_forget(&w->mover, number);
    blob_reader_forget(&s->reader.blobs, number);
    blob_segment_path(path, s->directory, number);
    status = s->io->ops->unlink(s->io, path);
    return status == E_NOT_FOUND ? OK : status; /* then somebody else did it */
}

/* Without waiting: the reader may be in the middle of a long list. */
static enum status drop_unless_reading(struct archive_sqlite *s, size_t index, bool *did_something)
{
    if (pthread_mutex_trylock(&s->reading) != 0) return OK;
    enum status status = drop(s, index);
    int error = pthread_mutex_unlock(&s->reading);
    assert(error == 0);
    *did_something = status == OK;
    return status;
}

static bool is_sparse(const struct archive_segment *segment)
{
    assert(segment->raw_live <= segment->raw_total);
    return segment->raw_live < segment->raw_total / ARCHIVE_SPARSE_DIVISOR;
}

enum status archive_sqlite_maintain(struct archive *a, bool *did_something)
{
    struct archive_sqlite *s = archive_sqlite_of(a);
    struct archive_writer *w = &s->writer;

    *did_something = false;
    assert(w->segments_n > 0);
    size_t closed_n = w->segments_n - 1;
    for (size_t i = 0; i < closed_n; i++) {
        if (w->segments[i].raw_live == 0) return drop_unless_reading(s, i, did_something);
    }
    for (size_t i = 0; i < closed_n; i++) {
        if (w->segments[i].is_damaged || !is_sparse(&w->segments[i])) continue;
        enum status status = rewrite(s, i);
        *did_something = status == OK;
        return status;
    }
    assert(!*did_something);
    return OK;
}
