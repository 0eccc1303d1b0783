/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables of the SQLite archive. People query them: what is here is described in
 * docs/archive-schema.md, and a change of either is a change of both.
 *
 * One table is for the eyes and for the indexes, the rest is bookkeeping. Why so few indexes: each
 * costs every finished instance an insert. Creation and completion grow with time, so their indexes
 * grow at the end; the only one in random order is the key, and it has a table of its own.
 */
#include "store/archive_sqlite.h"

#include "base/assert.h"
#include "base/log.h"

#include <inttypes.h>

_Static_assert(ARCHIVE_FORMAT_VERSION == 1, "the first line of meta says so too");

static const char meta_sql[] =
    "PRAGMA application_id = 0x4e6f726e;" /* "Norn", for file(1) */
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;"
    "INSERT INTO meta VALUES ('format', 1), ('created_by', 'norn " NORN_VERSION "'),"
    " ('applied_lsn', 0), ('rows', 0), ('rows_terminal', 0);"
    "CREATE TABLE partitions (partition INTEGER PRIMARY KEY, state BLOB NOT NULL) STRICT;"
    "CREATE TABLE segments (segment INTEGER PRIMARY KEY, size INTEGER NOT NULL,"
    " raw_total INTEGER NOT NULL, raw_live INTEGER NOT NULL) STRICT;";

/* The index of sleepers is wide, so that any number of them with the same time can be paged
 * through. */
static const char instances_sql[] =
    "CREATE TABLE instances (seq INTEGER PRIMARY KEY,"
    " hub TEXT NOT NULL, id TEXT NOT NULL, name TEXT NOT NULL, status INTEGER NOT NULL,"
    " created_ms INTEGER NOT NULL, updated_ms INTEGER NOT NULL,"
    " completed_ms INTEGER, wake_ms INTEGER,"
    " partition INTEGER NOT NULL, version INTEGER NOT NULL,"
    " parent_id TEXT, tags TEXT, error TEXT,"
    " blob_segment INTEGER NOT NULL, blob_block INTEGER NOT NULL,"
    " blob_offset INTEGER NOT NULL, blob_length INTEGER NOT NULL) STRICT;"
    "CREATE INDEX instances_created ON instances (hub, created_ms);"
    "CREATE INDEX instances_completed ON instances (hub, completed_ms)"
    " WHERE completed_ms IS NOT NULL;"
    "CREATE INDEX instances_wake ON instances (wake_ms, hub, id) WHERE wake_ms IS NOT NULL;"
    "CREATE TABLE keys (hash INTEGER NOT NULL, seq INTEGER NOT NULL,"
    " PRIMARY KEY (hash, seq)) STRICT, WITHOUT ROWID;"
    "CREATE TABLE keys_recent (hash INTEGER NOT NULL, seq INTEGER NOT NULL,"
    " PRIMARY KEY (hash, seq)) STRICT, WITHOUT ROWID;";

/* Added later: a directory that has none gets it when it is opened, and an older program keeps it
 * in step without knowing. The condition is what the reader's statement says, word for word. */
static const char entities_sql[] =
    "CREATE INDEX IF NOT EXISTS instances_entities ON instances (hub, created_ms)"
    " WHERE id >= '@' AND id < 'A';";

#define ISO_TIME "strftime('%Y-%m-%dT%H:%M:%fZ', "
#define FROM_MS " / 1000.0, 'unixepoch')"

static const char view_sql[] =
    "CREATE TABLE statuses (status INTEGER PRIMARY KEY, name TEXT NOT NULL) STRICT;"
    "INSERT INTO statuses VALUES (0, 'running'), (1, 'completed'), (2, 'continued as new'),"
    " (3, 'failed'), (4, 'canceled'), (5, 'terminated'), (6, 'pending'), (7, 'suspended');"
    "CREATE VIEW orchestrations AS SELECT i.hub, i.id, i.name,"
    " coalesce(s.name, i.status) AS status,"
    " " ISO_TIME "i.created_ms" FROM_MS " AS created,"
    " " ISO_TIME "i.updated_ms" FROM_MS " AS updated,"
    " " ISO_TIME "i.completed_ms" FROM_MS " AS completed,"
    " i.completed_ms - i.created_ms AS duration_ms,"
    " CASE WHEN i.wake_ms > 0 THEN " ISO_TIME "i.wake_ms" FROM_MS " END AS wakes,"
    " i.parent_id, i.tags, i.error, i.blob_length AS snapshot_bytes,"
    " i.partition, i.version, i.created_ms, i.completed_ms, i.seq"
    " FROM instances AS i LEFT JOIN statuses AS s ON s.status = i.status"
    " WHERE NOT (i.id >= '@' AND i.id < 'A');";

#define META_COUNT_SQL "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'meta'"

/* E_NOT_FOUND: nothing is in this database yet. */
static enum status format_of(struct db *db, int64_t *out)
{
    int64_t tables_n = 0;
    int64_t metas_n = 0;

    enum status status = db_integer(db, "SELECT count(*) FROM sqlite_schema", 0, &tables_n);
    if (status != OK) return status;
    if (tables_n == 0) return E_NOT_FOUND;
    status = db_integer(db, META_COUNT_SQL, 0, &metas_n);
    if (status != OK) return status;
    if (metas_n != 1)
        return db_damaged(db, "it has tables, but is no archive of ours: meta is missing");
    return db_integer(db, "SELECT value FROM meta WHERE key = 'format'", 0, out);
}

static enum status expect_format(struct db *db, int64_t format)
{
    if (format == ARCHIVE_FORMAT_VERSION) return OK;
    if (format < ARCHIVE_FORMAT_VERSION)
        return db_damaged(db, "table meta: there is no format %" PRId64, format);
    log_error("archive: %s has format %" PRId64 ", this program knows formats up to %d",
              sqlite3_db_filename(db->connection, "main"), format, ARCHIVE_FORMAT_VERSION);
    return E_VERSION;
}

enum status archive_schema_check(const char *path)
{
    struct db db;
    int64_t format = 0;

    assert(path != NULL);
    enum status status = db_open(&db, path, SQLITE_OPEN_READONLY, "");
    if (status != OK) return status;
    /* Closing must not move the pages of a newer program from the WAL into the database. */
    int code = sqlite3_db_config(db.connection, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    assert(code == SQLITE_OK);
    status = format_of(&db, &format);
    if (status == OK) status = expect_format(&db, format);
    db_close(&db);
    if (status == E_NOT_FOUND) return OK;
    /* The process that made it died before it was in WAL mode, and a reader may not roll that back:
     * there is nothing of ours in it yet. */
    return status == E_PRECONDITION ? OK : status;
}

enum status archive_schema_create(struct db *db)
{
    int64_t format = 0;

    assert(db->connection != NULL);
    enum status status = format_of(db, &format);
    /* Asked again: what is rolled back when a writer opens it may bring tables to light. */
    if (status == OK) {
        status = expect_format(db, format);
        return status == OK ? db_execute(db, entities_sql) : status;
    }
    if (status != E_NOT_FOUND) return status;
    status = db_execute(db, "BEGIN IMMEDIATE");
    if (status == OK) status = db_execute(db, meta_sql);
    if (status == OK) status = db_execute(db, instances_sql);
    if (status == OK) status = db_execute(db, entities_sql);
    if (status == OK) status = db_execute(db, view_sql);
    if (status == OK) status = db_execute(db, "COMMIT");
    assert(status != OK || sqlite3_get_autocommit(db->connection));
    return status; /* a transaction that is left open goes with the connection */
}
