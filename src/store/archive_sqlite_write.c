/* SPDX-License-Identifier: Apache-2.0
 *
 * The frame of every transaction of the SQLite archive, and its account of the blob segments.
 *
 * The order is what makes it safe: blobs are durable before the COMMIT that refers to them, and the
 * size of the segment up to which rows may refer is committed with them, so that after a crash what
 * lies behind that size is known to be nobody's.
 *
 * A failed sync leaves unknown what is on disk, and trying again would "succeed" although the
 * kernel dropped the pages. So any E_IO ends all writing (is_failed), and closing then leaves the
 * WAL alone: the next start replays it. For the same reason checkpoints are made here, where their
 * failure is seen, and not by SQLite on its own.
 */
#include "store/archive_sqlite.h"

#include "base/assert.h"
#include "base/log.h"
#include "store/io.h"

#include <inttypes.h>

#define SEGMENTS_SIZE_MIN 16

/* What holds of each segment. */
static void check_segment(const struct archive_segment *segment)
{
    assert(segment->number > 0);
    assert(segment->size >= BLOB_SEGMENT_HEAD_SIZE);
    assert(segment->raw_live <= segment->raw_total);
}

static struct archive_segment *last_segment(struct archive_writer *w)
{
    assert(w->segments_n > 0);
    struct archive_segment *last = &w->segments[w->segments_n - 1];
    assert(last->number == w->blobs.number);
    return last;
}

/* Makes room for one more. */
static enum status reserve_segment(struct archive_writer *w)
{
    if (w->segments_n < w->segments_size) return OK;
    size_t size = w->segments_size == 0 ? SEGMENTS_SIZE_MIN : w->segments_size * 2;
    size_t each = sizeof *w->segments;
    void *grown = mem_resize(&w->mem, w->segments, w->segments_size * each, size * each);
    if (grown == NULL) return E_NOMEM;
    w->segments = grown;
    w->segments_size = size;
    assert(w->segments_n < w->segments_size);
    return OK;
}

static void append_segment(struct archive_writer *w, struct archive_segment segment)
{
    check_segment(&segment);
    assert(w->segments_n < w->segments_size);
    assert(w->segments_n == 0 || w->segments[w->segments_n - 1].number < segment.number);
    w->segments[w->segments_n++] = segment;
}

static enum status begin_segment(struct archive_writer *w, uint64_t number)
{
    assert(number > 0);
    enum status status = reserve_segment(w);
    if (status == OK) status = blob_writer_create(&w->blobs, number);
    if (status != OK) return status;
    append_segment(w, (struct archive_segment){.number = number, .size = w->blobs.end});
    return OK;
}

enum status archive_begin(struct archive_sqlite *s)
{
    struct archive_writer *w = &s->writer;

    if (w->is_failed) return E_IO;
    assert(sqlite3_get_autocommit(w->db.connection));
    enum status status = db_run(&w->db, WRITER_BEGIN);
    if (status != OK) return status;
    w->counts_before = w->counts;
    arena_reset(&w->scratch);
    /* Only here: within a transaction there is one segment to sync and to rewind. */
    if (w->blobs.end >= s->segment_size) status = begin_segment(w, w->blobs.number + 1);
    blob_writer_mark(&w->blobs);
    if (status != OK) return archive_rollback(s, status);
    assert(!sqlite3_get_autocommit(w->db.connection));
    return OK;
}

static void forget_changes(struct archive_writer *w)
{
    for (size_t i = 0; i < w->segments_n; i++) {
        w->segments[i].raw_added = 0;
        w->segments[i].raw_dropped = 0;
    }
}

enum status archive_rollback(struct archive_sqlite *s, enum status cause)
{
    struct archive_writer *w = &s->writer;

    assert(cause != OK);
    if (cause == E_IO) w->is_failed = true;
    /* SQLite has already rolled back by itself after some errors. */
    if (!sqlite3_get_autocommit(w->db.connection) && db_execute(&w->db, "ROLLBACK") != OK)
        w->is_failed = true;
    /* A COMMIT that failed may still turn out to be durable, and then refers to these blobs: the
     * next start finds out whether they are anybody's. */
    if (!w->is_failed) blob_writer_rewind(&w->blobs);
    forget_changes(w);
    w->counts = w->counts_before;
    assert(w->is_failed || sqlite3_get_autocommit(w->db.connection));
    assert(w->is_failed || w->blobs.end == w->blobs.marked);
    return cause;
}

static struct archive_segment *find_segment(struct archive_writer *w, uint64_t number)
{
    size_t low = 0;
    size_t high = w->segments_n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (w->segments[middle].number < number) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    assert(low <= w->segments_n);
    if (low == w->segments_n || w->segments[low].number != number) return NULL;
    return &w->segments[low];
}

void archive_count_blob(struct archive_writer *w, const struct blob_place *place)
{
    if (place->length == 0) return;
    struct archive_segment *segment = last_segment(w);
    assert(place->segment == segment->number); /* it was written just now */
    assert(place->block >= segment->size);     /* behind all that is committed */
    segment->raw_added += place->length;
}

enum status archive_uncount_blob(struct archive_writer *w, uint64_t segment, uint64_t length)
{
    assert(length <= BLOB_SIZE_MAX);
    if (length == 0) return OK;
    struct archive_segment *found = find_segment(w, segment);
    if (found == NULL || found->raw_live + found->raw_added < found->raw_dropped + length) {
        return db_damaged(&w->db, "table segments: segment %" PRIu64 " has more alive than that",
                          segment);
    }
    found->raw_dropped += length;
    assert(found->raw_live + found->raw_added >= found->raw_dropped);
    return OK;
}

static bool is_changed(const struct archive_segment *segment)
{
    return segment->raw_added > 0 || segment->raw_dropped > 0;
}

/* The segment as it will be when the transaction is done. */
static struct archive_segment with_changes(const struct archive_segment *segment)
{
    struct archive_segment changed = *segment;

    check_segment(segment);
    changed.raw_total += segment->raw_added;
    changed.raw_live = segment->raw_live + segment->raw_added - segment->raw_dropped;
    changed.raw_added = 0;
    changed.raw_dropped = 0;
    return changed;
}

static enum status write_segments(struct archive_writer *w)
{
    struct db *db = &w->db;

    for (size_t i = 0; i < w->segments_n; i++) {
        if (!is_changed(&w->segments[i])) continue;
        struct archive_segment changed = with_changes(&w->segments[i]);
        uint64_t size = changed.number == w->blobs.number ? w->blobs.end : changed.size;
        assert(size >= changed.size);
        assert(changed.number <= w->blobs.number);
        db_bind_integer(db, WRITER_SEGMENT_PUT, 1, (int64_t)changed.number);
        db_bind_integer(db, WRITER_SEGMENT_PUT, 2, (int64_t)size);
        db_bind_integer(db, WRITER_SEGMENT_PUT, 3, (int64_t)changed.raw_total);
        db_bind_integer(db, WRITER_SEGMENT_PUT, 4, (int64_t)changed.raw_live);
        enum status status = db_run(db, WRITER_SEGMENT_PUT);
        if (status != OK) return status;
    }
    return OK;
}

static enum status write_meta(struct archive_writer *w, const char *key, uint64_t value)
{
    assert(value <= INT64_MAX);
    db_bind_text(&w->db, WRITER_META, 1, bytes_of_text(key));
    db_bind_integer(&w->db, WRITER_META, 2, (int64_t)value);
    enum status status = db_run(&w->db, WRITER_META);
    if (status != OK || db_has_changed_one(&w->db)) return status;
    return db_damaged(&w->db, "table meta: %s cannot be written", key);
}

static enum status write_counts(struct archive_writer *w)
{
    if (w->counts.rows_terminal > w->counts.rows)
        return db_damaged(&w->db, "table meta: there are more rows than it says");
    enum status status = write_meta(w, "applied_lsn", w->counts.applied_lsn);
    if (status == OK) status = write_meta(w, "rows", w->counts.rows);
    if (status == OK) status = write_meta(w, "rows_terminal", w->counts.rows_terminal);
    return status;
}

/* The commit is durable already; what fails here only decides whether there can be another. */
static void checkpoint(struct archive_writer *w)
{
    if (w->wal_pages < ARCHIVE_CHECKPOINT_PAGES) return;
    int code =
        sqlite3_wal_checkpoint_v2(w->db.connection, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    enum status status = db_status(&w->db, code);
    /* Busy, without space or memory: the pages stay in the WAL and the next commit tries again. */
    if (status == OK || status == E_BUSY || status == E_NOSPACE || status == E_NOMEM) return;
    w->is_failed = true;
}

enum status archive_commit(struct archive_sqlite *s)
{
    struct archive_writer *w = &s->writer;

    assert(!w->is_failed);
    assert(!sqlite3_get_autocommit(w->db.connection));
    assert(w->counts.applied_lsn >= w->counts_before.applied_lsn);
    assert(w->counts.seq_last >= w->counts_before.seq_last);
    enum status status = blob_writer_sync(&w->blobs);
    if (status == OK) status = write_segments(w);
    if (status == OK) status = write_counts(w);
    if (status == OK) status = db_run(&w->db, WRITER_COMMIT);
    if (status != OK) return archive_rollback(s, status);

    assert(sqlite3_get_autocommit(w->db.connection));
    for (size_t i = 0; i < w->segments_n; i++) w->segments[i] = with_changes(&w->segments[i]);
    last_segment(w)->size = w->blobs.end;
    checkpoint(w);
    return OK;
}

void archive_segments_drop(struct archive_writer *w, size_t index)
{
    assert(index + 1 < w->segments_n); /* the last one is being written */
    assert(w->segments[index].raw_live == 0);
    assert(!is_changed(&w->segments[index]));
    memmove(&w->segments[index], &w->segments[index + 1],
            (w->segments_n - index - 1) * sizeof *w->segments);
    w->segments_n--;
}

/* False when the current row of WRITER_SEGMENTS is none that we wrote. */
static bool segment_at(struct archive_writer *w, struct archive_segment *out)
{
    sqlite3_stmt *statement = w->db.statements[WRITER_SEGMENTS];
    int64_t values[4];
    uint64_t last = w->segments_n == 0 ? 0 : w->segments[w->segments_n - 1].number;

    for (int i = 0; i < 4; i++) {
        values[i] = sqlite3_column_int64(statement, i);
        if (values[i] < 0 || values[i] > ARCHIVE_NUMBER_MAX) return false;
    }
    *out = (struct archive_segment){
        .number = (uint64_t)values[0],
        .size = (uint64_t)values[1],
        .raw_total = (uint64_t)values[2],
        .raw_live = (uint64_t)values[3],
    };
    /* SQLite gives rows in the order of its tree, and that can be damaged too. */
    return out->number > last && out->size >= BLOB_SEGMENT_HEAD_SIZE &&
           out->raw_live <= out->raw_total;
}

static enum status read_segments(struct archive_writer *w)
{
    enum db_row row;
    enum status status;
    sqlite3_stmt *statement = w->db.statements[WRITER_SEGMENTS];

    assert(w->segments_n == 0);
    while ((status = db_step(&w->db, WRITER_SEGMENTS, &row)) == OK && row == DB_ROW) {
        struct archive_segment segment;
        if (!segment_at(w, &segment))
            status = db_damaged(&w->db, "table segments: segment %lld cannot be",
                                sqlite3_column_int64(statement, 0));
        if (status == OK) status = reserve_segment(w);
        if (status != OK) break;
        append_segment(w, segment);
    }
    db_reset(&w->db, WRITER_SEGMENTS);
    return status;
}

struct strays {
    struct archive_writer *writer;
    struct buffer numbers;
};

static enum status collect_stray(void *user, const char *name)
{
    struct strays *strays = user;
    uint64_t number = blob_segment_number(name);

    assert(name != NULL);
    if (number == 0 || find_segment(strays->writer, number) != NULL) return OK;
    buffer_u64(&strays->numbers, number);
    return strays->numbers.failed ? E_NOMEM : OK;
}

/* A segment is not in the table, so no row may refer to it. This reads all rows: there is no index,
 * and after a crash there is hardly ever more than one such file. But were it the row of the table
 * that is lost, unlinking would lose the snapshots too. */
static enum status expect_unreferred(struct archive_writer *w, uint64_t number)
{
    enum db_row row;

    assert(find_segment(w, number) == NULL);
    db_bind_integer(&w->db, WRITER_IS_REFERRED, 1, (int64_t)number);
    enum status status = db_step(&w->db, WRITER_IS_REFERRED, &row);
    assert(status != OK || row == DB_ROW); /* EXISTS always answers */
    bool is_referred =
        status == OK && sqlite3_column_int(w->db.statements[WRITER_IS_REFERRED], 0) != 0;
    db_reset(&w->db, WRITER_IS_REFERRED);
    if (!is_referred) return status;
    return db_damaged(&w->db, "table segments: segment %" PRIu64 " is missing, rows refer to it",
                      number);
}

static enum status unlink_all(struct archive_sqlite *s, struct bytes numbers)
{
    struct reader checking = reader_make(numbers);
    struct reader unlinking = reader_make(numbers);
    enum status status = OK;

    while (status == OK && reader_left(&checking) > 0)
        status = expect_unreferred(&s->writer, reader_u64(&checking));
    while (status == OK && reader_left(&unlinking) > 0) {
        char path[BLOB_PATH_SIZE];
        blob_segment_path(path, s->directory, reader_u64(&unlinking));
        status = s->io->ops->unlink(s->io, path);
    }
    assert(!checking.failed);
    assert(!unlinking.failed);
    return status;
}

/* Segments that were begun but never committed, or dropped but not unlinked yet, before a crash. */
static enum status unlink_strays(struct archive_sqlite *s)
{
    struct strays strays = {.writer = &s->writer};

    buffer_init(&strays.numbers, &s->writer.mem);
    enum status status = s->io->ops->list(s->io, s->directory, collect_stray, &strays);
    if (status == OK) status = unlink_all(s, buffer_view(&strays.numbers));
    buffer_release(&strays.numbers);
    return status;
}

enum status archive_segments_load(struct archive_sqlite *s)
{
    struct archive_writer *w = &s->writer;

    assert(w->blobs.file == NULL);
    enum status status = read_segments(w);
    for (size_t i = 0; status == OK && i < w->segments_n; i++)
        status =
            blob_segment_check(s->io, s->directory, w->segments[i].number, w->segments[i].size);
    if (status == OK) status = unlink_strays(s);
    if (status != OK) return status;

    if (w->segments_n == 0) return begin_segment(w, 1);
    const struct archive_segment *last = &w->segments[w->segments_n - 1];
    status = blob_writer_resume(&w->blobs, last->number, last->size);
    assert(status != OK || w->blobs.end == last->size);
    return status;
}
