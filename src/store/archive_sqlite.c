/* SPDX-License-Identifier: Apache-2.0
 *
 * The archive in a SQLite database and blob segments beside it: open, close, and the small
 * questions. See archive_sqlite.h for the whole.
 */
#include "store/archive_sqlite.h"

#include "base/assert.h"
#include "base/list.h"
#include "base/log.h"
#include "store/io.h"

#include <inttypes.h>
#include <stdio.h>

#define DATABASE_NAME "archive.db"
#define DATABASE_PATH_SIZE 4096
#define DATABASE_HEAD_WRITE_VERSION 18 /* offset in SQLite's file format */
#define DATABASE_WRITE_VERSION_MAX 2   /* WAL */
#define SCRATCH_CHUNK_SIZE ((size_t)64 << 10)

#define TEXT_OF(x) #x
#define TEXT_OF_VALUE(x) TEXT_OF(x)

/* FULL: a COMMIT is durable. The WAL is cut to this size after a transaction that was large. */
static const char writer_setup[] = "PRAGMA page_size = 4096;"
                                   "PRAGMA journal_mode = WAL;"
                                   "PRAGMA synchronous = FULL;"
                                   "PRAGMA journal_size_limit = 67108864;"
                                   "PRAGMA cell_size_check = ON;"
                                   "PRAGMA cache_size = -" TEXT_OF_VALUE(ARCHIVE_WRITER_CACHE_KIB);
static const char reader_setup[] = "PRAGMA query_only = ON;"
                                   "PRAGMA cell_size_check = ON;"
                                   "PRAGMA cache_size = -" TEXT_OF_VALUE(ARCHIVE_READER_CACHE_KIB);

static const char *const writer_sql[] = {
#define X(name, sql) sql,
    WRITER_STATEMENTS(X)
#undef X
};
static const char *const reader_sql[] = {
#define X(name, sql) sql,
    READER_STATEMENTS(X)
#undef X
};
_Static_assert(sizeof writer_sql / sizeof writer_sql[0] == WRITER_STATEMENTS_N, "one each");
_Static_assert(sizeof reader_sql / sizeof reader_sql[0] == READER_STATEMENTS_N, "one each");

static const struct archive_ops sqlite_ops;

struct archive_sqlite *archive_sqlite_of(struct archive *a)
{
    assert(a != NULL);
    assert(a->ops == &sqlite_ops);
    return container_of(a, struct archive_sqlite, archive);
}

bool archive_place_at(struct db *db, int statement, int column, struct blob_place *out)
{
    sqlite3_stmt *prepared = db->statements[statement];
    int64_t segment = sqlite3_column_int64(prepared, column);
    int64_t block = sqlite3_column_int64(prepared, column + 1);
    int64_t offset = sqlite3_column_int64(prepared, column + 2);
    int64_t length = sqlite3_column_int64(prepared, column + 3);

    assert(column + 4 <= sqlite3_column_count(prepared));
    if (segment < 0 || block < 0 || offset < 0 || length < 0) return false;
    if (offset > (int64_t)BLOB_SIZE_MAX || length > (int64_t)BLOB_SIZE_MAX) return false;
    if ((segment > 0) != (length > 0)) return false;
    *out = (struct blob_place){
        .segment = (uint64_t)segment,
        .block = (uint64_t)block,
        .offset = (uint32_t)offset,
        .length = (uint32_t)length,
    };
    return true;
}

static enum status sqlite_applied_lsn(struct archive *a, uint64_t *out)
{
    struct db *db = &archive_sqlite_of(a)->reader.db;
    enum db_row row;

    enum status status = db_step(db, READER_LSN, &row);
    int64_t lsn = -1;
    if (status == OK && row == DB_ROW) lsn = sqlite3_column_int64(db->statements[READER_LSN], 0);
    if (status == OK && lsn < 0) status = db_damaged(db, "table meta: there is no applied_lsn");
    if (status == OK) *out = (uint64_t)lsn;
    db_reset(db, READER_LSN);
    return status;
}

static enum status sqlite_partitions(struct archive *a, archive_partition_fn *fn, void *user)
{
    struct db *db = &archive_sqlite_of(a)->reader.db;
    sqlite3_stmt *statement = db->statements[READER_PARTITIONS];
    enum db_row row;
    enum status status;

    assert(fn != NULL);
    while ((status = db_step(db, READER_PARTITIONS, &row)) == OK && row == DB_ROW) {
        int64_t number = sqlite3_column_int64(statement, 0);
        if (number < 0 || number > UINT32_MAX) {
            status = db_damaged(db, "table partitions: there is no partition %" PRId64, number);
            break;
        }
        struct archive_partition partition = {
            .partition = (uint32_t)number,
            .state = db_bytes(db, READER_PARTITIONS, 1),
        };
        status = fn(user, &partition);
        if (status != OK) break;
    }
    db_reset(db, READER_PARTITIONS);
    return status;
}

/* Asked of SQLite's own handles: opening and closing one of its files ourselves would drop its
 * locks. */
static uint64_t size_of_file(struct db *db, int which)
{
    sqlite3_file *file = NULL;
    sqlite3_int64 size = 0;

    assert(which == SQLITE_FCNTL_FILE_POINTER || which == SQLITE_FCNTL_JOURNAL_POINTER);
    int code = sqlite3_file_control(db->connection, "main", which, &file);
    if (code != SQLITE_OK || file == NULL || file->pMethods == NULL) return 0;
    if (file->pMethods->xFileSize(file, &size) != SQLITE_OK) return 0;
    assert(size >= 0);
    return (uint64_t)size;
}

static enum status sqlite_stats(struct archive *a, struct archive_stats *out)
{
    struct db *db = &archive_sqlite_of(a)->reader.db;
    sqlite3_stmt *statement = db->statements[READER_STATS];
    enum db_row row;

    enum status status = db_step(db, READER_STATS, &row);
    assert(status != OK || row == DB_ROW); /* a SELECT without FROM */
    int64_t values[4] = {0};
    for (int i = 0; status == OK && i < 4; i++) {
        values[i] = sqlite3_column_int64(statement, i);
        if (values[i] < 0) status = db_damaged(db, "table meta or segments: a count is negative");
    }
    if (status == OK) {
        struct archive_stats stats = {
            .rows = (uint64_t)values[0],
            .rows_terminal = (uint64_t)values[1],
            .blob_bytes = (uint64_t)values[2],
            .blob_live = (uint64_t)values[3],
        };
        stats.bytes = stats.blob_bytes + size_of_file(db, SQLITE_FCNTL_FILE_POINTER) +
                      size_of_file(db, SQLITE_FCNTL_JOURNAL_POINTER);
        *out = stats;
    }
    db_reset(db, READER_STATS);
    return status;
}

/* The last connection that is closed moves the WAL into the database and removes it; but after a
 * failed sync the WAL is the only copy that can be trusted. */
static void keep_wal(struct db *db)
{
    if (db->connection == NULL) return;
    int code = sqlite3_db_config(db->connection, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    assert(code == SQLITE_OK);
}

/* Also for one that was not opened completely. */
static void sqlite_close(struct archive *a)
{
    struct archive_sqlite *s = archive_sqlite_of(a);
    struct archive_writer *w = &s->writer;
    struct archive_reader *r = &s->reader;

    if (w->is_failed) {
        keep_wal(&w->db);
        keep_wal(&r->db);
    }
    db_close(&r->db);
    db_close(&w->db);
    blob_reader_release(&r->blobs);
    blob_reader_release(&w->mover);
    blob_writer_release(&w->blobs);
    arena_release(&w->scratch);
    mem_give(&w->mem, w->segments, w->segments_size * sizeof *w->segments);
    mem_release(&w->mem);
    mem_release(&r->mem);
    int error = pthread_mutex_destroy(&s->reading);
    assert(error == 0);
    mem_give(s->mem, s->directory, strlen(s->directory) + 1);
    mem_give(s->mem, s, sizeof *s);
}

static const struct archive_ops sqlite_ops = {
    .name = "sqlite",
    .apply = archive_sqlite_apply,
    .maintain = archive_sqlite_maintain,
    .applied_lsn = sqlite_applied_lsn,
    .partitions = sqlite_partitions,
    .hashes = archive_sqlite_hashes,
    .get = archive_sqlite_get,
    .query = archive_sqlite_query,
    .due = archive_sqlite_due,
    .stats = sqlite_stats,
    .close = sqlite_close,
};

/* Remembers the size of the WAL, which archive_commit() acts on. Setting a hook also ends SQLite's
 * automatic checkpoints. */
static int remember_wal_pages(void *user, sqlite3 *connection, const char *name, int pages)
{
    struct archive_writer *w = user;

    assert(connection == w->db.connection);
    assert(name != NULL);
    assert(pages >= 0);
    w->wal_pages = pages;
    return SQLITE_OK;
}

/* SQLite goes on in another mode where it cannot have a WAL (file systems without shared memory);
 * then reader and writer would lock each other out. */
static enum status expect_wal(struct db *db)
{
    int64_t is_wal = 0;

    enum status status =
        db_integer(db, "SELECT journal_mode = 'wal' FROM pragma_journal_mode", 0, &is_wal);
    if (status != OK) return status;
    assert(is_wal == 0 || is_wal == 1);
    if (is_wal == 1) return OK;
    log_error("archive: SQLite cannot use a write-ahead log in this directory");
    return E_IO;
}

#define META_SQL(key) "SELECT value FROM meta WHERE key = '" key "'"

/* A number that we go on counting from. */
static enum status load_count(struct db *db, const char *sql, uint64_t *out)
{
    int64_t value = -1;

    assert(sql != NULL);
    enum status status = db_integer(db, sql, -1, &value);
    if (status != OK) return status;
    if (value < 0 || value > ARCHIVE_NUMBER_MAX)
        return db_damaged(db, "table meta: %" PRId64 " is the answer to %s", value, sql);
    *out = (uint64_t)value;
    return OK;
}

static enum status load_counts(struct archive_writer *w)
{
    struct db *db = &w->db;
    struct archive_counts *counts = &w->counts;

    assert(counts->seq_last == 0);
    enum status status = load_count(db, META_SQL("applied_lsn"), &counts->applied_lsn);
    if (status == OK) status = load_count(db, META_SQL("rows"), &counts->rows);
    if (status == OK) status = load_count(db, META_SQL("rows_terminal"), &counts->rows_terminal);
    if (status == OK)
        status = load_count(db, "SELECT count(*) FROM keys_recent", &counts->keys_recent);
    if (status == OK)
        status = db_integer(db, "SELECT max(seq) FROM instances", 0, &counts->seq_last);
    if (status != OK) return status;
    if (counts->rows_terminal > counts->rows)
        return db_damaged(db, "table meta: rows_terminal is larger than rows");
    if (counts->seq_last < 0 || counts->seq_last > ARCHIVE_NUMBER_MAX)
        return db_damaged(db, "table instances: the last row is %" PRId64, counts->seq_last);
    return OK;
}

static enum status open_writer(struct archive_sqlite *s, const char *path)
{
    struct archive_writer *w = &s->writer;
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;

    assert(w->db.connection == NULL);
    enum status status = blob_writer_init(&w->blobs, s->io, s->directory, &w->mem);
    if (status == OK) status = blob_reader_init(&w->mover, s->io, s->directory, &w->mem);
    if (status == OK) status = db_open(&w->db, path, flags, writer_setup);
    if (status != OK) return status;
    (void)sqlite3_wal_hook(w->db.connection, remember_wal_pages, w);
    status = expect_wal(&w->db);
    if (status == OK) status = archive_schema_create(&w->db);
    if (status == OK) status = s->io->ops->sync_directory(s->io, s->directory);
    if (status == OK) status = db_prepare(&w->db, writer_sql, WRITER_STATEMENTS_N);
    if (status == OK) status = load_counts(w);
    if (status == OK) status = archive_segments_load(s);
    assert(status != OK || w->segments_n > 0); /* there is always one to write to */
    return status;
}

static enum status open_reader(struct archive_sqlite *s, const char *path)
{
    struct archive_reader *r = &s->reader;

    assert(r->db.connection == NULL);
    assert(s->writer.db.connection != NULL); /* it makes the tables that are asked here */
    enum status status = blob_reader_init(&r->blobs, s->io, s->directory, &r->mem);
    if (status == OK) status = db_open(&r->db, path, SQLITE_OPEN_READWRITE, reader_setup);
    if (status == OK) status = db_prepare(&r->db, reader_sql, READER_STATEMENTS_N);
    return status;
}

/* SQLite does not write to a file with a newer write version, and answers as if permission were
 * missing: a damaged byte must not look like that. All else in the head it checks itself. */
static enum status check_head(struct io *io, const char *path, struct io_file *file)
{
    uint8_t head[DATABASE_HEAD_WRITE_VERSION + 1];
    size_t got = 0;

    enum status status = io->ops->read(io, file, 0, head, sizeof head, &got);
    if (status != OK) return status;
    assert(got <= sizeof head);
    if (got < sizeof head) return OK; /* nothing is in it yet, or SQLite will say what is wrong */
    if (head[DATABASE_HEAD_WRITE_VERSION] <= DATABASE_WRITE_VERSION_MAX) return OK;
    log_error("archive: %s, offset %d: the write version of SQLite cannot be %d", path,
              DATABASE_HEAD_WRITE_VERSION, head[DATABASE_HEAD_WRITE_VERSION]);
    return E_CORRUPT;
}

enum status archive_head_check(struct io *io, const char *directory, const char *path)
{
    char relative[BLOB_PATH_SIZE];
    struct io_file *file;

    int size = snprintf(relative, sizeof relative, "%s/" DATABASE_NAME, directory);
    assert(size > 0);
    assert((size_t)size < sizeof relative);
    enum status status = io->ops->open(io, relative, IO_READ, &file);
    if (status != OK) return status;
    status = check_head(io, path, file);
    io->ops->close(io, file); /* before SQLite has opened it, so no lock is lost */
    return status;
}

/* Nothing is written before it is known that we understand what is there. */
static enum status check_format(struct archive_sqlite *s, const char *path)
{
    enum status status = archive_head_check(s->io, s->directory, path);

    if (status == E_NOT_FOUND) return OK;
    return status == OK ? archive_schema_check(path) : status;
}

static void init(struct archive_sqlite *s, struct io *io,
                 const struct archive_sqlite_options *options, char *directory)
{
    pthread_mutexattr_t checked;

    assert(io != NULL);
    *s = (struct archive_sqlite){
        .archive.ops = &sqlite_ops,
        .io = io,
        .mem = options->mem,
        .directory = directory,
        .segment_size = options->segment_size,
    };
    mem_init(&s->writer.mem, SIZE_MAX);
    mem_init(&s->reader.mem, SIZE_MAX);
    s->writer.keys_recent_min = ARCHIVE_KEYS_RECENT_MIN;
    arena_init(&s->writer.scratch, &s->writer.mem, SCRATCH_CHUNK_SIZE);
    /* Checked, so that a callback that calls the archive is an assertion and not a deadlock. */
    int error = pthread_mutexattr_init(&checked);
    assert(error == 0);
    error = pthread_mutexattr_settype(&checked, PTHREAD_MUTEX_ERRORCHECK);
    assert(error == 0);
    error = pthread_mutex_init(&s->reading, &checked);
    assert(error == 0);
    (void)pthread_mutexattr_destroy(&checked);
}

static enum status open_all(struct archive_sqlite *s, const char *root)
{
    char path[DATABASE_PATH_SIZE];

    int size = snprintf(path, sizeof path, "%s/%s/" DATABASE_NAME, root, s->directory);
    assert(size > 0);
    if ((size_t)size >= sizeof path) return E_INVALID;
    enum status status = s->io->ops->make_directory(s->io, s->directory);
    if (status == OK) status = s->io->ops->sync_directory(s->io, ".");
    if (status == OK) status = check_format(s, path);
    if (status == OK) status = open_writer(s, path);
    if (status == OK) status = open_reader(s, path);
    return status;
}

enum status archive_sqlite_open(struct io *io, const struct archive_sqlite_options *options,
                                struct archive **out)
{
    size_t directory_size = strlen(options->directory) + 1;

    assert(options->mem != NULL);
    assert(options->root != NULL);
    assert(options->segment_size > 0);
    assert(directory_size > 1);
    struct archive_sqlite *s = mem_take(options->mem, sizeof *s);
    char *directory = mem_take(options->mem, directory_size);
    if (s == NULL || directory == NULL) {
        mem_give(options->mem, s, sizeof *s);
        mem_give(options->mem, directory, directory_size);
        return E_NOMEM;
    }
    memcpy(directory, options->directory, directory_size);
    init(s, io, options, directory);
    enum status status = open_all(s, options->root);
    if (status != OK) {
        sqlite_close(&s->archive);
        return status;
    }
    *out = &s->archive;
    return OK;
}
