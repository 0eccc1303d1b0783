/* SPDX-License-Identifier: Apache-2.0
 *
 * apply(): one batch of the archiver becomes one transaction. In this order, so that each table is
 * touched in its own order:
 *
 *      removes ─> rows of puts that replace are found ─> snapshots to blocks ─> rows ─> keys ─>
 * commit
 */
#include "store/archive_sqlite.h"

#include "base/assert.h"

#include <inttypes.h>

/* What is known of a put besides the put itself. */
struct pending {
    uint64_t hash;
    int64_t seq;
    bool exists;
    struct blob_place place;
};

/* A row that is there. */
struct found {
    int64_t seq;
    bool is_terminal;
    struct blob_place place;
};

/* E_NOT_FOUND when there is no such row, E_CORRUPT when it is not one of ours. */
static enum status find(struct archive_writer *w, struct archive_key key, uint64_t hash,
                        struct found *out)
{
    struct db *db = &w->db;
    sqlite3_stmt *statement = db->statements[WRITER_FIND];
    enum db_row row;

    assert(!sqlite3_get_autocommit(db->connection)); /* what is found must not change */
    db_bind_integer(db, WRITER_FIND, 1, (int64_t)hash);
    db_bind_text(db, WRITER_FIND, 2, key.hub);
    db_bind_text(db, WRITER_FIND, 3, key.id);
    enum status status = db_step(db, WRITER_FIND, &row);
    if (status == OK && row == DB_DONE) status = E_NOT_FOUND;
    if (status == OK) {
        struct found found = {
            .seq = sqlite3_column_int64(statement, 0),
            .is_terminal = sqlite3_column_int(statement, 1) != 0,
        };
        if (found.seq <= 0 || !archive_place_at(db, WRITER_FIND, 2, &found.place)) {
            status = db_damaged(db, "table instances: row %" PRId64 " or its place cannot be",
                                found.seq);
        }
        if (status == OK) *out = found;
    }
    db_reset(db, WRITER_FIND);
    return status;
}

/* The account without this row: it is removed or replaced. */
static enum status uncount(struct archive_writer *w, const struct found *found)
{
    struct archive_counts *counts = &w->counts;

    assert(found->seq > 0);
    if (counts->rows == 0 || (found->is_terminal && counts->rows_terminal == 0))
        return db_damaged(&w->db, "table meta: there are more rows than it says");
    counts->rows--;
    if (found->is_terminal) counts->rows_terminal--;
    return archive_uncount_blob(w, found->place.segment, found->place.length);
}

static enum status remove_row(struct archive_writer *w, struct archive_key key)
{
    struct found found;
    uint64_t hash = archive_key_hash(key);

    enum status status = find(w, key, hash, &found);
    if (status == E_NOT_FOUND) return OK;
    if (status == OK) status = uncount(w, &found);
    if (status != OK) return status;
    db_bind_integer(&w->db, WRITER_DELETE, 1, found.seq);
    status = db_run(&w->db, WRITER_DELETE);
    if (status != OK) return status;
    if (!db_has_changed_one(&w->db))
        return db_damaged(&w->db, "table instances: row %" PRId64 " cannot be removed", found.seq);
    return archive_keys_remove(w, (struct archive_key_entry){.hash = hash, .seq = found.seq});
}

/* Which row it goes to: the one that is there, or the next number. */
static enum status locate(struct archive_writer *w, const struct archive_put *put,
                          struct pending *pending)
{
    struct archive_key key = {.hub = put->row.hub, .id = put->row.id};
    struct found found;

    assert(put->row.is_terminal == (put->row.completed_ms != ARCHIVE_NO_TIME));
    *pending = (struct pending){.hash = archive_key_hash(key)};
    if (!put->is_new) {
        enum status status = find(w, key, pending->hash, &found);
        if (status != OK && status != E_NOT_FOUND) return status;
        pending->exists = status == OK;
    }
    if (pending->exists) {
        pending->seq = found.seq;
        return uncount(w, &found);
    }
    assert(w->counts.seq_last >= w->counts_before.seq_last);
    pending->seq = ++w->counts.seq_last;
    assert(pending->seq > 0);
    return OK;
}

static enum status write_snapshots(struct archive_writer *w, const struct archive_batch *batch,
                                   struct pending *pending)
{
    for (size_t i = 0; i < batch->puts_n; i++) {
        assert(pending[i].seq > 0);
        enum status status = blob_writer_add(&w->blobs, (uint64_t)pending[i].seq,
                                             batch->puts[i].row.snapshot, &pending[i].place);
        if (status != OK) return status;
        archive_count_blob(w, &pending[i].place);
    }
    return OK;
}

static void bind_time(struct db *db, int statement, int column, int64_t time_ms)
{
    assert(column > 0);
    if (time_ms == ARCHIVE_NO_TIME) {
        db_bind_null(db, statement, column);
    } else {
        db_bind_integer(db, statement, column, time_ms);
    }
}

#define ROW_PARAMETERS_N (COLUMN_LENGTH + 2) /* all columns, and the number of the row */

/* `nth`: its place among the rows of the statement, 0 = first. */
static void bind_row(struct db *db, int to, size_t nth, const struct archive_row *row,
                     const struct pending *pending)
{
    int first = 1 + (int)nth * ROW_PARAMETERS_N;

    assert(pending->seq > 0);
    assert(pending->place.length == row->snapshot.len);
    assert((pending->place.segment > 0) == (row->snapshot.len > 0));
    db_bind_text(db, to, first + COLUMN_HUB, row->hub);
    db_bind_text(db, to, first + COLUMN_ID, row->id);
    db_bind_text(db, to, first + COLUMN_NAME, row->name);
    db_bind_integer(db, to, first + COLUMN_STATUS, row->status);
    db_bind_integer(db, to, first + COLUMN_CREATED, row->created_ms);
    db_bind_integer(db, to, first + COLUMN_UPDATED, row->updated_ms);
    bind_time(db, to, first + COLUMN_COMPLETED, row->completed_ms);
    bind_time(db, to, first + COLUMN_WAKE, row->wake_ms);
    db_bind_integer(db, to, first + COLUMN_PARTITION, row->partition);
    db_bind_integer(db, to, first + COLUMN_VERSION, (int64_t)row->version);
    db_bind_text_or_null(db, to, first + COLUMN_PARENT, row->parent_id);
    db_bind_text_or_null(db, to, first + COLUMN_TAGS, row->tags);
    db_bind_text_or_null(db, to, first + COLUMN_ERROR, row->error);
    db_bind_integer(db, to, first + COLUMN_SEGMENT, (int64_t)pending->place.segment);
    db_bind_integer(db, to, first + COLUMN_BLOCK, (int64_t)pending->place.block);
    db_bind_integer(db, to, first + COLUMN_OFFSET, pending->place.offset);
    db_bind_integer(db, to, first + COLUMN_LENGTH, pending->place.length);
    db_bind_integer(db, to, first + COLUMN_LENGTH + 1, pending->seq);
}

/* n rows with one statement: one, or as many as it has. */
static enum status write_some(struct archive_writer *w, int to, const struct archive_put *puts,
                              const struct pending *pending, size_t n)
{
    struct db *db = &w->db;

    for (size_t i = 0; i < n; i++) bind_row(db, to, i, &puts[i].row, &pending[i]);
    enum status status = db_run(db, to);
    if (status != OK) return status;
    if (!db_has_changed(db, n))
        return db_damaged(db, "table instances: row %" PRId64 " cannot be written", pending->seq);
    w->counts.rows += n;
    for (size_t i = 0; i < n; i++) {
        if (puts[i].row.is_terminal) w->counts.rows_terminal++;
    }
    return OK;
}

/* How many the next statement is for, and which it is. */
static size_t choose_statement(const struct pending *pending, size_t n, int *to)
{
    size_t new_n = 0;

    assert(n > 0);
    while (new_n < ARCHIVE_MANY_N && new_n < n && !pending[new_n].exists) new_n++;
    *to = new_n == 0 ? WRITER_UPDATE : new_n < ARCHIVE_MANY_N ? WRITER_INSERT : WRITER_INSERT_MANY;
    return new_n < ARCHIVE_MANY_N ? 1 : new_n;
}

static enum status write_rows(struct archive_writer *w, const struct archive_batch *batch,
                              const struct pending *pending, struct archive_key_entry *new_keys)
{
    size_t new_n = 0;

    for (size_t i = 0; i < batch->puts_n;) {
        int to;
        size_t n = choose_statement(&pending[i], batch->puts_n - i, &to);
        enum status status = write_some(w, to, &batch->puts[i], &pending[i], n);
        if (status != OK) return status;
        for (; n > 0; n--, i++) {
            if (pending[i].exists) continue;
            assert(pending[i].seq > w->counts_before.seq_last);
            new_keys[new_n++] =
                (struct archive_key_entry){.hash = pending[i].hash, .seq = pending[i].seq};
        }
    }
    assert(new_n <= batch->puts_n);
    return archive_keys_add(w, new_keys, new_n);
}

static enum status apply_puts(struct archive_writer *w, const struct archive_batch *batch)
{
    if (batch->puts_n == 0) return OK;
    assert(batch->puts != NULL);
    struct pending *pending = arena_alloc(&w->scratch, batch->puts_n * sizeof *pending);
    struct archive_key_entry *new_keys = arena_alloc(&w->scratch, batch->puts_n * sizeof *new_keys);
    if (pending == NULL || new_keys == NULL) return E_NOMEM;

    enum status status = OK;
    for (size_t i = 0; status == OK && i < batch->puts_n; i++)
        status = locate(w, &batch->puts[i], &pending[i]);
    if (status == OK) status = write_snapshots(w, batch, pending);
    if (status == OK) status = write_rows(w, batch, pending, new_keys);
    return status;
}

static enum status apply_partitions(struct archive_writer *w, const struct archive_batch *batch)
{
    for (size_t i = 0; i < batch->partitions_n; i++) {
        assert(batch->partitions != NULL);
        db_bind_integer(&w->db, WRITER_PARTITION, 1, batch->partitions[i].partition);
        db_bind_blob(&w->db, WRITER_PARTITION, 2, batch->partitions[i].state);
        enum status status = db_run(&w->db, WRITER_PARTITION);
        if (status != OK) return status;
    }
    return OK;
}

enum status archive_sqlite_apply(struct archive *a, const struct archive_batch *batch)
{
    struct archive_sqlite *s = archive_sqlite_of(a);
    struct archive_writer *w = &s->writer;

    assert(batch->applied_lsn >= w->counts.applied_lsn);
    assert(w->segments_n > 0);
    enum status status = archive_begin(s);
    if (status != OK) return status;
    for (size_t i = 0; status == OK && i < batch->removes_n; i++)
        status = remove_row(w, batch->removes[i]);
    if (status == OK) status = apply_puts(w, batch);
    if (status == OK) status = apply_partitions(w, batch);
    w->counts.applied_lsn = batch->applied_lsn;
    return status == OK ? archive_commit(s) : archive_rollback(s, status);
}
