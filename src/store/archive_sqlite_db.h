/* SPDX-License-Identifier: Apache-2.0
 *
 * A SQLite connection with its prepared statements, and SQLite's answers as our statuses. Nothing
 * here knows the schema.
 *
 * Text is bound and read as bytes: SQLite stores TEXT in a UTF-8 database as it was given and
 * compares it byte by byte, so that bytes which are not UTF-8 come back unchanged and in the order
 * of bytes_compare().
 */
#ifndef STORE_ARCHIVE_SQLITE_DB_H
#define STORE_ARCHIVE_SQLITE_DB_H

#include "base/bytes.h"
#include "base/status.h"

#include <sqlite3.h>

#define DB_STATEMENTS_MAX 32

/* Belongs to one thread at a time. */
struct db {
    sqlite3 *connection;
    sqlite3_stmt *statements[DB_STATEMENTS_MAX];
};

/* How db_step() ended when it is OK. */
enum db_row { DB_DONE, DB_ROW };

/* flags: SQLITE_OPEN_…; setup: statements to run at once. On failure everything is released. */
enum status db_open(struct db *db, const char *path, int flags, const char *setup);
/* sql[0 .. n-1] become the statements 0 .. n-1. */
enum status db_prepare(struct db *db, const char *const *sql, size_t n);
void db_close(struct db *db);

/* Runs one or more statements without answer. */
enum status db_execute(struct db *db, const char *sql);
/* The first column of the first row of a statement, or `absent`. */
enum status db_integer(struct db *db, const char *sql, int64_t absent, int64_t *out);

/* Binding: column from 1 on. A statement keeps borrowed bytes until db_reset(). */
void db_bind_integer(struct db *db, int statement, int column, int64_t value);
void db_bind_text(struct db *db, int statement, int column, struct bytes value);
/* NULL when empty. */
void db_bind_text_or_null(struct db *db, int statement, int column, struct bytes value);
void db_bind_blob(struct db *db, int statement, int column, struct bytes value);
void db_bind_null(struct db *db, int statement, int column);

/* E_IO, E_NOSPACE, E_CORRUPT, E_NOMEM, E_BUSY. */
enum status db_step(struct db *db, int statement, enum db_row *out);
/* Ends the statement and forgets what was bound. */
void db_reset(struct db *db, int statement);
/* A statement without answer, from binding to reset. */
enum status db_run(struct db *db, int statement);

/* Column from 0 on; borrowed until the next step or reset. NULL is empty. */
struct bytes db_bytes(struct db *db, int statement, int column);

/* The last statement run has changed exactly one row. */
bool db_has_changed_one(struct db *db);
bool db_has_changed(struct db *db, size_t n);

/* What the answer of SQLite means. Logs what is not the caller's business to understand. */
enum status db_status(struct db *db, int code);
/* For what SQLite cannot see: logs the file and what is wrong in it ("table meta: ..."), and
 * answers E_CORRUPT. */
__attribute__((format(printf, 2, 3))) enum status db_damaged(struct db *db, const char *format,
                                                             ...);

#endif
