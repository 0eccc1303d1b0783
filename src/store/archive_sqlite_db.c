/* SPDX-License-Identifier: Apache-2.0
 *
 * A SQLite connection with its prepared statements.
 */
#include "store/archive_sqlite_db.h"

#include "base/assert.h"
#include "base/log.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>

/* For people who write to the database with a shell of their own: we wait this long for them. */
#define BUSY_TIMEOUT_MS 10000

#define DAMAGE_SIZE_MAX 512

static const char *name_of(struct db *db)
{
    const char *path = db->connection == NULL ? NULL : sqlite3_db_filename(db->connection, "main");
    return path == NULL ? "database" : path;
}

enum status db_damaged(struct db *db, const char *format, ...)
{
    char text[DAMAGE_SIZE_MAX];
    va_list arguments;

    assert(format != NULL);
    va_start(arguments, format);
    int size = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    assert(size > 0);
    log_error("archive: %s: %s", name_of(db), text);
    return E_CORRUPT;
}

enum status db_status(struct db *db, int code)
{
    assert(code != SQLITE_ROW);
    switch (code & 0xff) {
    case SQLITE_OK:
    case SQLITE_DONE: return OK;
    case SQLITE_NOMEM: return E_NOMEM;
    case SQLITE_FULL: return E_NOSPACE;
    case SQLITE_BUSY:
    case SQLITE_LOCKED: return E_BUSY;
    case SQLITE_READONLY:
        if (code == SQLITE_READONLY_ROLLBACK) return E_PRECONDITION;
        break;
    case SQLITE_IOERR:
        /* The shared memory file grows by other means than the rest, with its own error code. */
        if (db->connection != NULL && sqlite3_system_errno(db->connection) == ENOSPC &&
            code != SQLITE_IOERR_FSYNC)
            return E_NOSPACE;
        break;
    default: break;
    }
    const char *text =
        db->connection == NULL ? sqlite3_errstr(code) : sqlite3_errmsg(db->connection);
    log_error("archive: %s: SQLite answered %d: %s", name_of(db), code, text);
    switch (code & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_ERROR:      /* our statements are right, so the tables are not ours */
    case SQLITE_SCHEMA:     /* likewise */
    case SQLITE_TOOBIG:     /* the claimed size of a value */
    case SQLITE_CONSTRAINT: /* a key that we know to be new is there already */
    case SQLITE_MISMATCH: return E_CORRUPT;
    default: return E_IO;
    }
}

enum status db_open(struct db *db, const char *path, int flags, const char *setup)
{
    assert(path != NULL);
    assert(setup != NULL);
    assert(sqlite3_threadsafe() != 0); /* two connections, two threads */
    *db = (struct db){0};
    int code = sqlite3_open_v2(path, &db->connection, flags | SQLITE_OPEN_NOMUTEX, NULL);
    enum status status = db_status(db, code);
    if (status == OK) {
        sqlite3_extended_result_codes(db->connection, 1);
        sqlite3_busy_timeout(db->connection, BUSY_TIMEOUT_MS);
        status = db_execute(db, setup);
    }
    if (status != OK) db_close(db);
    return status;
}

enum status db_prepare(struct db *db, const char *const *sql, size_t n)
{
    assert(db->connection != NULL);
    assert(n <= DB_STATEMENTS_MAX);
    for (size_t i = 0; i < n; i++) {
        assert(db->statements[i] == NULL);
        int code = sqlite3_prepare_v3(db->connection, sql[i], -1, SQLITE_PREPARE_PERSISTENT,
                                      &db->statements[i], NULL);
        if (code != SQLITE_OK) return db_status(db, code);
        assert(db->statements[i] != NULL); /* else the text holds no statement */
    }
    return OK;
}

void db_close(struct db *db)
{
    for (size_t i = 0; i < DB_STATEMENTS_MAX; i++) sqlite3_finalize(db->statements[i]);
    int code = sqlite3_close(db->connection);
    assert(code == SQLITE_OK); /* nothing of it is in use any more */
    *db = (struct db){0};
}

enum status db_execute(struct db *db, const char *sql)
{
    assert(db->connection != NULL);
    assert(sql != NULL);
    return db_status(db, sqlite3_exec(db->connection, sql, NULL, NULL, NULL));
}

enum status db_integer(struct db *db, const char *sql, int64_t absent, int64_t *out)
{
    sqlite3_stmt *statement = NULL;

    assert(db->connection != NULL);
    int code = sqlite3_prepare_v2(db->connection, sql, -1, &statement, NULL);
    if (code != SQLITE_OK) return db_status(db, code);
    assert(statement != NULL);
    code = sqlite3_step(statement);
    int64_t value = absent;
    if (code == SQLITE_ROW) {
        if (sqlite3_column_type(statement, 0) != SQLITE_NULL)
            value = sqlite3_column_int64(statement, 0);
        code = SQLITE_DONE;
    }
    enum status status = db_status(db, code);
    sqlite3_finalize(statement);
    if (status == OK) *out = value;
    return status;
}

static sqlite3_stmt *statement_of(struct db *db, int statement)
{
    assert(statement >= 0);
    assert(statement < DB_STATEMENTS_MAX);
    assert(db->statements[statement] != NULL);
    return db->statements[statement];
}

/* Binding fails only for a wrong index or a statement that is running: our own mistakes. Bytes are
 * not copied, so that no memory is needed. */
void db_bind_integer(struct db *db, int statement, int column, int64_t value)
{
    int code = sqlite3_bind_int64(statement_of(db, statement), column, value);
    assert(code == SQLITE_OK);
}

void db_bind_text(struct db *db, int statement, int column, struct bytes value)
{
    assert(value.len <= INT_MAX);
    assert(value.ptr != NULL || value.len == 0);
    /* A null pointer would be bound as NULL. */
    const char *text = value.len == 0 ? "" : (const char *)value.ptr;
    int code =
        sqlite3_bind_text(statement_of(db, statement), column, text, (int)value.len, SQLITE_STATIC);
    assert(code == SQLITE_OK);
}

void db_bind_text_or_null(struct db *db, int statement, int column, struct bytes value)
{
    if (value.len == 0) {
        db_bind_null(db, statement, column);
    } else {
        db_bind_text(db, statement, column, value);
    }
}

void db_bind_blob(struct db *db, int statement, int column, struct bytes value)
{
    assert(value.len <= INT_MAX);
    assert(value.ptr != NULL || value.len == 0);
    const void *blob = value.len == 0 ? "" : (const void *)value.ptr;
    int code =
        sqlite3_bind_blob(statement_of(db, statement), column, blob, (int)value.len, SQLITE_STATIC);
    assert(code == SQLITE_OK);
}

void db_bind_null(struct db *db, int statement, int column)
{
    int code = sqlite3_bind_null(statement_of(db, statement), column);
    assert(code == SQLITE_OK);
}

enum status db_step(struct db *db, int statement, enum db_row *out)
{
    int code = sqlite3_step(statement_of(db, statement));

    assert(code != SQLITE_MISUSE);
    assert(code != SQLITE_OK); /* a row, the end, or an error */
    *out = code == SQLITE_ROW ? DB_ROW : DB_DONE;
    return code == SQLITE_ROW ? OK : db_status(db, code);
}

void db_reset(struct db *db, int statement)
{
    sqlite3_stmt *prepared = statement_of(db, statement);

    /* The answer repeats that of the step, which was handled there. */
    (void)sqlite3_reset(prepared);
    assert(!sqlite3_stmt_busy(prepared));
    (void)sqlite3_clear_bindings(prepared);
}

enum status db_run(struct db *db, int statement)
{
    enum db_row row;
    enum status status = db_step(db, statement, &row);

    assert(status != OK || row == DB_DONE);
    db_reset(db, statement);
    return status;
}

bool db_has_changed(struct db *db, size_t n)
{
    assert(db->connection != NULL);
    return (uint64_t)sqlite3_changes64(db->connection) == n;
}

bool db_has_changed_one(struct db *db) { return db_has_changed(db, 1); }

struct bytes db_bytes(struct db *db, int statement, int column)
{
    sqlite3_stmt *prepared = statement_of(db, statement);
    assert(column >= 0);
    assert(column < sqlite3_column_count(prepared));
    const void *ptr = sqlite3_column_blob(prepared, column);
    int len = sqlite3_column_bytes(prepared, column);

    assert(len >= 0);
    return ptr == NULL ? BYTES_NONE : bytes_make(ptr, (size_t)len);
}
