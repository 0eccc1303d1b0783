/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading the SQLite archive: one row, lists, sleepers, hashes.
 *
 * SQL does what an index or a number decides; what is about bytes (prefix, tag, part of the error)
 * is decided here, because SQL functions on text stop at a NUL and change their mind about what is
 * not UTF-8. The indexes are by time alone, and are walked in both directions: SQLite sorts rows of
 * the same millisecond by id as it goes, so that a list streams.
 *
 * Callbacks run while a statement is open and `reading` is held: they must not call the archive.
 */
#define _GNU_SOURCE /* memmem */
#include "store/archive_sqlite.h"

#include "base/assert.h"

#define TEXT_LOGGED 100 /* bytes of a hub or id that go to the log */

static void reading_begin(struct archive_sqlite *s)
{
    int error = pthread_mutex_lock(&s->reading);
    assert(error == 0); /* else a callback has called the archive */
}

static void reading_end(struct archive_sqlite *s)
{
    int error = pthread_mutex_unlock(&s->reading);
    assert(error == 0);
}

static int64_t integer_at(struct archive_reader *r, int statement, enum archive_column column)
{
    assert(column <= COLUMN_LENGTH);
    assert(column != COLUMN_COMPLETED); /* these two may be NULL: time_at() */
    assert(column != COLUMN_WAKE);
    return sqlite3_column_int64(r->db.statements[statement], (int)column);
}

static int64_t time_at(struct archive_reader *r, int statement, enum archive_column column)
{
    sqlite3_stmt *prepared = r->db.statements[statement];

    assert(column == COLUMN_COMPLETED || column == COLUMN_WAKE);
    if (sqlite3_column_type(prepared, (int)column) == SQLITE_NULL) return ARCHIVE_NO_TIME;
    return sqlite3_column_int64(prepared, (int)column);
}

/* The beginning of a hub or id, for the log. */
static const char *text_of(struct bytes b, int *len)
{
    *len = b.len < TEXT_LOGGED ? (int)b.len : TEXT_LOGGED;
    assert(*len >= 0);
    assert((size_t)*len <= b.len);
    return b.len == 0 ? "" : (const char *)b.ptr;
}

static enum status row_damaged(struct archive_reader *r, const struct archive_row *row,
                               const char *what)
{
    int hub_len;
    int id_len;
    const char *hub = text_of(row->hub, &hub_len);
    const char *id = text_of(row->id, &id_len);

    assert(what != NULL);
    return db_damaged(&r->db, "table instances: hub \"%.*s\", id \"%.*s\": %s", hub_len, hub,
                      id_len, id, what);
}

/* Who reads a row relies on what archive_apply() demands of one. Borrowed until the next step. */
static enum status row_at(struct archive_reader *r, int statement, struct archive_row *out)
{
    struct db *db = &r->db;
    int64_t completed_ms = time_at(r, statement, COLUMN_COMPLETED);
    int64_t partition = integer_at(r, statement, COLUMN_PARTITION);
    int64_t status = integer_at(r, statement, COLUMN_STATUS);

    assert(sqlite3_column_count(db->statements[statement]) == COLUMN_LENGTH + 1);
    *out = (struct archive_row){
        .hub = db_bytes(db, statement, COLUMN_HUB),
        .id = db_bytes(db, statement, COLUMN_ID),
        .partition = (uint32_t)partition,
        .version = (uint64_t)integer_at(r, statement, COLUMN_VERSION),
        .status = (int32_t)status,
        .is_terminal = completed_ms != ARCHIVE_NO_TIME,
        .name = db_bytes(db, statement, COLUMN_NAME),
        .tags = db_bytes(db, statement, COLUMN_TAGS),
        .parent_id = db_bytes(db, statement, COLUMN_PARENT),
        .error = db_bytes(db, statement, COLUMN_ERROR),
        .created_ms = integer_at(r, statement, COLUMN_CREATED),
        .updated_ms = integer_at(r, statement, COLUMN_UPDATED),
        .completed_ms = completed_ms,
        .wake_ms = time_at(r, statement, COLUMN_WAKE),
    };
    if (out->hub.len == 0) return row_damaged(r, out, "the hub is empty");
    if (out->id.len == 0) return row_damaged(r, out, "the id is empty");
    if (status < 0 || status >= 32) return row_damaged(r, out, "the status cannot be");
    if (partition < 0 || partition > UINT32_MAX)
        return row_damaged(r, out, "the partition cannot be");
    return OK;
}

/* Borrowed until the next snapshot. */
static enum status snapshot_at(struct archive_reader *r, int statement, struct archive_row *row)
{
    struct blob_place place;

    if (!archive_place_at(&r->db, statement, COLUMN_SEGMENT, &place))
        return row_damaged(r, row, "the place of the snapshot cannot be");
    enum status status = blob_reader_get(&r->blobs, &place, &row->snapshot);
    assert(status != OK || row->snapshot.len == place.length);
    return status;
}

static bool copy_bytes(struct arena *arena, struct bytes *b)
{
    size_t len = b->len;

    *b = arena_copy(arena, *b);
    assert(b->len == len || b->len == 0);
    return b->len == len;
}

static enum status copy_row(struct arena *arena, struct archive_row *row)
{
    struct bytes *all[] = {&row->hub,       &row->id,    &row->name,    &row->tags,
                           &row->parent_id, &row->error, &row->snapshot};

    assert(arena != NULL);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (!copy_bytes(arena, all[i])) return E_NOMEM;
    }
    return OK;
}

enum status archive_sqlite_get(struct archive *a, struct archive_key key, bool want_snapshot,
                               struct arena *arena, struct archive_row *out)
{
    struct archive_sqlite *s = archive_sqlite_of(a);
    struct archive_reader *r = &s->reader;
    enum db_row found;

    reading_begin(s);
    db_bind_integer(&r->db, READER_GET, 1, (int64_t)archive_key_hash(key));
    db_bind_text(&r->db, READER_GET, 2, key.hub);
    db_bind_text(&r->db, READER_GET, 3, key.id);
    enum status status = db_step(&r->db, READER_GET, &found);
    if (status == OK && found == DB_DONE) status = E_NOT_FOUND;
    if (status == OK) {
        struct archive_row row;
        status = row_at(r, READER_GET, &row);
        if (status == OK && want_snapshot) status = snapshot_at(r, READER_GET, &row);
        if (status == OK) status = copy_row(arena, &row);
        if (status == OK) *out = row;
    }
    db_reset(&r->db, READER_GET);
    reading_end(s);
    return status;
}

static bool contains(struct bytes whole, struct bytes part)
{
    if (part.len == 0) return true;
    return whole.len >= part.len && memmem(whole.ptr, whole.len, part.ptr, part.len) != NULL;
}

/* tags is "key=value\n" for each. */
static bool has_tag(struct bytes tags, struct bytes tag)
{
    assert(tag.len > 0);
    while (tags.len > 0) {
        const uint8_t *end = memchr(tags.ptr, '\n', tags.len);
        size_t len = end == NULL ? tags.len : (size_t)(end - tags.ptr);
        if (archive_tag_is(bytes_make(tags.ptr, len), tag)) return true;
        if (end == NULL) return false;
        assert(len < tags.len);
        tags = bytes_make(end + 1, tags.len - len - 1);
    }
    return false;
}

static bool is_wanted(const struct archive_query *query, const struct archive_row *row)
{
    assert(row->id.len > 0); /* row_at() refuses others */
    bool is_entity = row->id.ptr[0] == '@';

    if (is_entity != query->entities || !bytes_start_with(row->id, query->id_prefix)) return false;
    if (is_entity) return true;
    if (query->tag.len > 0 && !has_tag(row->tags, query->tag)) return false;
    return contains(row->error, query->error_part);
}

/* No row comes from before the position. Who asks page by page relies on it to come to an end. */
static bool is_in_order(const struct archive_query *query, const struct archive_row *row)
{
    int64_t at_ms = query->by_completion ? row->completed_ms : row->created_ms;

    assert(row->id.len > 0);
    if (!query->entities && at_ms < query->from_ms) return false;
    if (!query->has_after) return true;
    if (at_ms != query->after_ms) return (at_ms < query->after_ms) == query->newest_first;
    int order = bytes_compare(row->id, query->after_id);
    return query->newest_first ? order < 0 : order > 0;
}

static void bind_entities(struct db *db, const struct archive_query *query)
{
    assert(query->limit > 0);
    assert(query->entities);
    db_bind_text(db, READER_ENTITIES, 1, query->hub);
    db_bind_integer(db, READER_ENTITIES, 2, query->has_after ? query->after_ms : INT64_MIN);
    db_bind_integer(db, READER_ENTITIES, 3, query->from_ms);
    db_bind_integer(db, READER_ENTITIES, 4, query->to_ms == 0 ? INT64_MAX : query->to_ms);
    db_bind_integer(db, READER_ENTITIES, 5, query->want_transient);
    if (query->has_after) db_bind_text(db, READER_ENTITIES, 6, query->after_id);
}

static int statement_of(const struct archive_query *query)
{
    if (query->entities) return READER_ENTITIES;
    if (query->by_completion)
        return query->newest_first ? READER_BY_COMPLETION_BACK : READER_BY_COMPLETION;
    return query->newest_first ? READER_BY_CREATION_BACK : READER_BY_CREATION;
}

/* The position takes the place of the bound that the list begins at, unless that is nearer. */
static void bind_query(struct db *db, int statement, const struct archive_query *query)
{
    int64_t from_ms = query->from_ms;
    int64_t to_ms = query->to_ms == 0 ? INT64_MAX : query->to_ms;
    bool is_after = query->has_after &&
                    (query->newest_first ? query->after_ms < to_ms : query->after_ms >= from_ms);

    assert(query->limit > 0);
    assert(statement == statement_of(query));
    assert(!query->entities);
    if (is_after && query->newest_first) to_ms = query->after_ms + 1;
    if (is_after && !query->newest_first) from_ms = query->after_ms;
    db_bind_text(db, statement, 1, query->hub);
    db_bind_integer(db, statement, 2, from_ms);
    db_bind_integer(db, statement, 3, to_ms);
    db_bind_integer(db, statement, 4, query->terminal_only);
    db_bind_integer(db, statement, 5, query->status_mask);
    if (query->name.len > 0) db_bind_text(db, statement, 6, query->name);
    /* Unbound is NULL: no position to be after, or one that is before the bound anyway. */
    if (is_after) db_bind_text(db, statement, 7, query->after_id);
}

enum status archive_sqlite_query(struct archive *a, const struct archive_query *query,
                                 archive_row_fn *fn, void *user)
{
    struct archive_sqlite *s = archive_sqlite_of(a);
    struct archive_reader *r = &s->reader;
    int statement = statement_of(query);
    uint32_t given_n = 0;
    enum db_row found;
    enum status status;

    assert(fn != NULL);
    reading_begin(s);
    if (query->entities)
        bind_entities(&r->db, query);
    else
        bind_query(&r->db, statement, query);
    while ((status = db_step(&r->db, statement, &found)) == OK && found == DB_ROW) {
        struct archive_row row;
        status = row_at(r, statement, &row);
        if (status != OK) break;
        if (!is_in_order(query, &row)) {
            status = row_damaged(r, &row, "the index is not in order");
            break;
        }
        if (!is_wanted(query, &row)) continue;
        if (query->want_snapshot) status = snapshot_at(r, statement, &row);
        if (status == OK) status = fn(user, &row);
        if (status != OK || ++given_n == query->limit) break;
    }
    assert(given_n <= query->limit);
    db_reset(&r->db, statement);
    reading_end(s);
    return status;
}

enum status archive_sqlite_due(struct archive *a, int64_t before_ms,
                               const struct archive_row *after, uint32_t limit, archive_row_fn *fn,
                               void *user)
{
    struct archive_sqlite *s = archive_sqlite_of(a);
    struct archive_reader *r = &s->reader;
    enum db_row found;
    enum status status;

    assert(fn != NULL);
    assert(limit > 0);
    reading_begin(s);
    db_bind_integer(&r->db, READER_DUE, 1, before_ms);
    db_bind_integer(&r->db, READER_DUE, 2, after == NULL ? INT64_MIN : after->wake_ms);
    db_bind_text(&r->db, READER_DUE, 3, after == NULL ? BYTES_NONE : after->hub);
    db_bind_text(&r->db, READER_DUE, 4, after == NULL ? BYTES_NONE : after->id);
    db_bind_integer(&r->db, READER_DUE, 5, limit);
    while ((status = db_step(&r->db, READER_DUE, &found)) == OK && found == DB_ROW) {
        struct archive_row row;
        status = row_at(r, READER_DUE, &row);
        if (status == OK && row.wake_ms > before_ms)
            status = row_damaged(r, &row, "the index of the sleepers is wrong");
        if (status == OK) status = snapshot_at(r, READER_DUE, &row);
        if (status == OK) status = fn(user, &row);
        if (status != OK) break;
    }
    db_reset(&r->db, READER_DUE);
    reading_end(s);
    return status;
}

enum status archive_sqlite_hashes(struct archive *a, archive_hash_fn *fn, void *user)
{
    struct archive_reader *r = &archive_sqlite_of(a)->reader;
    sqlite3_stmt *statement = r->db.statements[READER_HASHES];
    enum db_row found;
    enum status status;

    assert(fn != NULL);
    while ((status = db_step(&r->db, READER_HASHES, &found)) == OK && found == DB_ROW) {
        status = fn(user, (uint64_t)sqlite3_column_int64(statement, 0));
        if (status != OK) break;
    }
    db_reset(&r->db, READER_HASHES);
    return status;
}
