/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside of the SQLite archive; for archive_sqlite*.c and their tests. The interface is archive.h,
 * the tables are described for people in docs/archive-schema.md.
 *
 *      apply()  ─> snapshots ─> blob segments ─> datasync ─┐
 *                  rows, keys, segments, meta ─> SQLite ────┴─> COMMIT (durable)
 *
 * Two halves, each used by one thread: the writer (apply, maintain) and the reader (all the rest),
 * each with a connection, memory and open files of its own. They meet in SQLite's WAL and in one
 * mutex: the reader holds `reading` while it follows rows into segments, so that the writer does
 * not unlink a segment that an older view of the rows still refers to.
 */
#ifndef STORE_ARCHIVE_SQLITE_H
#define STORE_ARCHIVE_SQLITE_H

#include "base/mem.h"
#include "store/archive.h"
#include "store/archive_segments.h"
#include "store/archive_sqlite_db.h"

#include <pthread.h>

#define ARCHIVE_FORMAT_VERSION 1

/* SQLite's page caches, in KiB; with the caches of blocks all that grows with use. */
#define ARCHIVE_WRITER_CACHE_KIB 24576
#define ARCHIVE_READER_CACHE_KIB 8192
/* Pages in the WAL before they are copied into the database (16 MiB). */
#define ARCHIVE_CHECKPOINT_PAGES 4096

/* A segment with less than 1/4 of its bytes alive is rewritten, this much of the file per call. */
#define ARCHIVE_SPARSE_DIVISOR 4
#define ARCHIVE_MOVE_BYTES ((uint64_t)4 << 20)

/* New keys collect in the small table keys_recent before they go to the large one in the order of
 * their hashes, many to a page; see archive_sqlite_keys.c. */
#define ARCHIVE_KEYS_RECENT_MIN 65536
#define ARCHIVE_KEYS_RECENT_DIVISOR 24

/* Numbers in the database that we go on counting from are smaller, or it is damaged: so the sum of
 * two of them fits a column. */
#define ARCHIVE_NUMBER_MAX (INT64_MAX / 2)

/* What all SELECTs of whole rows begin with; enum archive_column names the same, in this order. */
#define ARCHIVE_COLUMNS                                                                            \
    "i.hub, i.id, i.name, i.status, i.created_ms, i.updated_ms, i.completed_ms, i.wake_ms,"        \
    " i.partition, i.version, i.parent_id, i.tags, i.error,"                                       \
    " i.blob_segment, i.blob_block, i.blob_offset, i.blob_length"

enum archive_column {
    COLUMN_HUB,
    COLUMN_ID,
    COLUMN_NAME,
    COLUMN_STATUS,
    COLUMN_CREATED,
    COLUMN_UPDATED,
    COLUMN_COMPLETED,
    COLUMN_WAKE,
    COLUMN_PARTITION,
    COLUMN_VERSION,
    COLUMN_PARENT,
    COLUMN_TAGS,
    COLUMN_ERROR,
    COLUMN_SEGMENT, /* the last four are a struct blob_place */
    COLUMN_BLOCK,
    COLUMN_OFFSET,
    COLUMN_LENGTH,
};

/* Both places of a key. */
#define ARCHIVE_KEYS_BY_HASH                                                                       \
    "(SELECT seq FROM keys_recent WHERE hash = ?1"                                                 \
    " UNION ALL SELECT seq FROM keys WHERE hash = ?1)"

/* Several rows in one statement where there are so many: each statement opens and closes the table
 * and all its indexes, which costs as much as the rows themselves. The parameters of a row follow
 * those of the row before. */
#define ARCHIVE_MANY_N 8u
#define INSERT_ROWS                                                                                \
    "INSERT INTO instances (hub, id, name, status, created_ms, updated_ms, completed_ms, wake_ms," \
    " partition, version, parent_id, tags, error, blob_segment, blob_block, blob_offset,"          \
    " blob_length, seq) VALUES "
#define ROW_VALUES "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
#define INSERT_KEYS "INSERT INTO keys_recent (hash, seq) VALUES "

/* name, SQL */
#define WRITER_STATEMENTS(X)                                                                       \
    X(WRITER_BEGIN, "BEGIN IMMEDIATE")                                                             \
    X(WRITER_COMMIT, "COMMIT")                                                                     \
    X(WRITER_FIND, "SELECT i.seq, i.completed_ms IS NOT NULL,"                                     \
                   " i.blob_segment, i.blob_block, i.blob_offset, i.blob_length"                   \
                   " FROM " ARCHIVE_KEYS_BY_HASH " AS k CROSS JOIN instances AS i"                 \
                   " ON i.seq = k.seq WHERE i.id = ?3 AND i.hub = ?2")                             \
    X(WRITER_INSERT, INSERT_ROWS ROW_VALUES)                                                       \
    X(WRITER_INSERT_MANY,                                                                          \
      INSERT_ROWS ROW_VALUES "," ROW_VALUES "," ROW_VALUES "," ROW_VALUES "," ROW_VALUES           \
                             "," ROW_VALUES "," ROW_VALUES "," ROW_VALUES)                         \
    X(WRITER_UPDATE, "UPDATE instances SET hub = ?1, id = ?2, name = ?3, status = ?4,"             \
                     " created_ms = ?5, updated_ms = ?6, completed_ms = ?7, wake_ms = ?8,"         \
                     " partition = ?9, version = ?10, parent_id = ?11, tags = ?12, error = ?13,"   \
                     " blob_segment = ?14, blob_block = ?15, blob_offset = ?16,"                   \
                     " blob_length = ?17 WHERE seq = ?18")                                         \
    X(WRITER_DELETE, "DELETE FROM instances WHERE seq = ?1")                                       \
    X(WRITER_KEY_ADD, INSERT_KEYS "(?, ?)")                                                        \
    X(WRITER_KEY_ADD_MANY, INSERT_KEYS "(?, ?), (?, ?), (?, ?), (?, ?), (?, ?), (?, ?), (?, ?),"   \
                                       " (?, ?)")                                                  \
    X(WRITER_KEY_REMOVE_RECENT, "DELETE FROM keys_recent WHERE hash = ?1 AND seq = ?2")            \
    X(WRITER_KEY_REMOVE, "DELETE FROM keys WHERE hash = ?1 AND seq = ?2")                          \
    X(WRITER_KEYS_COPY, "INSERT INTO keys (hash, seq) SELECT hash, seq FROM keys_recent"           \
                        " WHERE hash BETWEEN ?1 AND ?2 ORDER BY hash, seq")                        \
    X(WRITER_KEYS_CUT, "DELETE FROM keys_recent WHERE hash BETWEEN ?1 AND ?2")                     \
    X(WRITER_PARTITION, "INSERT INTO partitions (partition, state) VALUES (?1, ?2)"                \
                        " ON CONFLICT (partition) DO UPDATE SET state = excluded.state")           \
    X(WRITER_META, "UPDATE meta SET value = ?2 WHERE key = ?1")                                    \
    X(WRITER_SEGMENTS, "SELECT segment, size, raw_total, raw_live FROM segments ORDER BY segment") \
    X(WRITER_SEGMENT_PUT, "INSERT INTO segments (segment, size, raw_total, raw_live)"              \
                          " VALUES (?1, ?2, ?3, ?4) ON CONFLICT (segment) DO UPDATE SET"           \
                          " size = excluded.size, raw_total = excluded.raw_total,"                 \
                          " raw_live = excluded.raw_live")                                         \
    X(WRITER_SEGMENT_DROP, "DELETE FROM segments WHERE segment = ?1")                              \
    X(WRITER_IS_REFERRED, "SELECT EXISTS (SELECT 1 FROM instances WHERE blob_segment = ?1)")       \
    X(WRITER_PLACE, "SELECT blob_segment, blob_block, blob_offset, blob_length FROM instances"     \
                    " WHERE seq = ?1")                                                             \
    X(WRITER_MOVE, "UPDATE instances SET blob_segment = ?2, blob_block = ?3, blob_offset = ?4,"    \
                   " blob_length = ?5 WHERE seq = ?1")

/* The conditions that both orders of a query have in common; ?3 to ?7 as bind_query() says. */
#define READER_QUERY_FILTER                                                                        \
    " AND (?5 = 0 OR ((?5 >> i.status) & 1)) AND (?6 IS NULL OR i.name = ?6)"

/* name, SQL */
#define READER_STATEMENTS(X)                                                                       \
    X(READER_LSN, "SELECT value FROM meta WHERE key = 'applied_lsn'")                              \
    X(READER_PARTITIONS, "SELECT partition, state FROM partitions ORDER BY partition")             \
    X(READER_HASHES, "SELECT hash FROM keys_recent UNION ALL SELECT hash FROM keys")               \
    X(READER_GET, "SELECT " ARCHIVE_COLUMNS " FROM " ARCHIVE_KEYS_BY_HASH " AS k"                  \
                  " CROSS JOIN instances AS i ON i.seq = k.seq WHERE i.id = ?3 AND i.hub = ?2")    \
    X(READER_BY_CREATION, "SELECT " ARCHIVE_COLUMNS " FROM instances AS i"                         \
                          " INDEXED BY instances_created WHERE i.hub = ?1 AND i.created_ms >= ?2"  \
                          " AND i.created_ms < ?3"                                                 \
                          " AND (?4 = 0 OR i.completed_ms IS NOT NULL)" READER_QUERY_FILTER        \
                          " AND (?7 IS NULL OR i.created_ms > ?2 OR i.id > ?7)"                    \
                          " ORDER BY i.created_ms, i.id")                                          \
    X(READER_BY_COMPLETION, "SELECT " ARCHIVE_COLUMNS " FROM instances AS i"                       \
                            " INDEXED BY instances_completed WHERE i.hub = ?1"                     \
                            " AND i.completed_ms >= ?2"                                            \
                            " AND i.completed_ms < ?3" READER_QUERY_FILTER                         \
                            " AND (?7 IS NULL OR i.completed_ms > ?2 OR i.id > ?7)"                \
                            " ORDER BY i.completed_ms, i.id")                                      \
    X(READER_BY_CREATION_BACK,                                                                     \
      "SELECT " ARCHIVE_COLUMNS " FROM instances AS i INDEXED BY instances_created"                \
      " WHERE i.hub = ?1 AND i.created_ms >= ?2 AND i.created_ms < ?3"                             \
      " AND (?4 = 0 OR i.completed_ms IS NOT NULL)" READER_QUERY_FILTER                            \
      " AND (?7 IS NULL OR i.created_ms < ?3 - 1 OR i.id < ?7)"                                    \
      " ORDER BY i.created_ms DESC, i.id DESC")                                                    \
    X(READER_BY_COMPLETION_BACK,                                                                   \
      "SELECT " ARCHIVE_COLUMNS " FROM instances AS i INDEXED BY instances_completed"              \
      " WHERE i.hub = ?1 AND i.completed_ms >= ?2 AND i.completed_ms < ?3" READER_QUERY_FILTER     \
      " AND (?7 IS NULL OR i.completed_ms < ?3 - 1 OR i.id < ?7)"                                  \
      " ORDER BY i.completed_ms DESC, i.id DESC")                                                  \
    X(READER_ENTITIES, "SELECT " ARCHIVE_COLUMNS " FROM instances AS i"                            \
                       " INDEXED BY instances_entities WHERE i.hub = ?1 AND i.created_ms >= ?2"    \
                       " AND i.id >= '@' AND i.id < 'A'"                                           \
                       " AND i.updated_ms >= ?3 AND i.updated_ms < ?4 AND (?5 OR i.status <> 6)"   \
                       " AND (?6 IS NULL OR i.created_ms > ?2 OR i.id > ?6)"                       \
                       " ORDER BY i.created_ms, i.id")                                             \
    X(READER_DUE, "SELECT " ARCHIVE_COLUMNS " FROM instances AS i INDEXED BY instances_wake"       \
                  " WHERE i.wake_ms <= ?1 AND (i.wake_ms, i.hub, i.id) > (?2, ?3, ?4)"             \
                  " ORDER BY i.wake_ms, i.hub, i.id LIMIT ?5")                                     \
    X(READER_STATS, "SELECT (SELECT value FROM meta WHERE key = 'rows'),"                          \
                    " (SELECT value FROM meta WHERE key = 'rows_terminal'),"                       \
                    " (SELECT total(size) FROM segments),"                                         \
                    " (SELECT total(1.0 * size * raw_live / max(raw_total, 1)) FROM segments)")

enum writer_statement {
#define X(name, sql) name,
    WRITER_STATEMENTS(X)
#undef X
        WRITER_STATEMENTS_N
};

enum reader_statement {
#define X(name, sql) name,
    READER_STATEMENTS(X)
#undef X
        READER_STATEMENTS_N
};
_Static_assert((int)WRITER_STATEMENTS_N <= DB_STATEMENTS_MAX, "there is room for all");
_Static_assert((int)READER_STATEMENTS_N <= DB_STATEMENTS_MAX, "there is room for all");

/* A row of the table segments, and what the transaction under way changes of it. */
struct archive_segment {
    uint64_t number;
    uint64_t size;        /* bytes of the file that rows may refer to */
    uint64_t raw_total;   /* uncompressed bytes written to it */
    uint64_t raw_live;    /* of them still referred to */
    uint64_t raw_added;   /* by the transaction under way */
    uint64_t raw_dropped; /* likewise */
    bool is_damaged;      /* a block could not be read: left as it is, for people to look at */
};

/* All that changes with a transaction and has to go back with it. */
struct archive_counts {
    uint64_t rows;
    uint64_t rows_terminal;
    uint64_t keys_recent; /* rows of that table */
    uint64_t applied_lsn;
    int64_t seq_last;
};

struct archive_writer {
    struct db db;
    struct mem mem;       /* its own: a struct mem belongs to one thread */
    struct arena scratch; /* of one transaction */
    struct blob_writer blobs;
    struct blob_reader mover;
    struct archive_segment *segments; /* by number; the last one is being written */
    size_t segments_n;
    size_t segments_size; /* room */
    struct archive_counts counts;
    struct archive_counts counts_before; /* of the transaction under way */
    uint64_t keys_recent_min;            /* ARCHIVE_KEYS_RECENT_MIN, less in tests */
    uint64_t drain_from; /* next hash to leave keys_recent, as unsigned rank; see *_keys.c */
    uint64_t moving;     /* segment being rewritten, or 0 */
    uint64_t moving_at;  /* offset of the next block of it */
    int wal_pages;       /* after the last commit */
    bool is_failed;      /* an outcome is unknown: every later call answers E_IO */
};

struct archive_reader {
    struct db db;
    struct mem mem;
    struct blob_reader blobs;
};

struct archive_sqlite {
    struct archive archive;
    struct io *io;
    struct mem *mem; /* of the caller; only for this struct and its texts */
    char *directory; /* below the io's root */
    uint64_t segment_size;
    struct archive_writer writer;
    struct archive_reader reader;
    pthread_mutex_t reading; /* held by the reader while it follows rows into segments */
};

struct archive_sqlite *archive_sqlite_of(struct archive *a);

/* The place in four columns from `column` on. False when they are none. */
bool archive_place_at(struct db *db, int statement, int column, struct blob_place *out);

/* The first bytes of the database, which SQLite would misjudge; path: for people. Before it is
 * opened. E_NOT_FOUND, E_CORRUPT (logged), E_IO. */
enum status archive_head_check(struct io *io, const char *directory, const char *path);
/* archive_sqlite_schema.c: the tables. E_VERSION: made by a newer program; nothing was changed. */
enum status archive_schema_check(const char *path);
enum status archive_schema_create(struct db *db);

/* archive_sqlite_write.c: the frame of every transaction, and the account of the segments. */

/* Takes the write lock and makes sure that the segment being written has room. On OK the caller
 * ends it by archive_commit() or archive_rollback(). */
enum status archive_begin(struct archive_sqlite *s);
/* Durable on OK; rolled back otherwise. */
enum status archive_commit(struct archive_sqlite *s);
/* Nothing of the transaction has happened. Answers `cause`; E_IO makes the archive refuse every
 * later transaction. */
enum status archive_rollback(struct archive_sqlite *s, enum status cause);
/* The blob at place, just written, is referred to from now on; one of this length in this segment
 * no longer is (E_CORRUPT when there cannot be one). */
void archive_count_blob(struct archive_writer *w, const struct blob_place *place);
enum status archive_uncount_blob(struct archive_writer *w, uint64_t segment, uint64_t length);
/* Reads the table; resumes or begins the last segment; removes files that are not in the table.
 * E_CORRUPT (and nothing is removed) when rows refer to such a file. */
enum status archive_segments_load(struct archive_sqlite *s);
/* Forgets a segment whose row is gone. */
void archive_segments_drop(struct archive_writer *w, size_t index);

/* archive_sqlite_keys.c: from hub and id to the row. */

/* A key and the row it leads to. */
struct archive_key_entry {
    uint64_t hash;
    int64_t seq;
};
/* Adds them (and sorts them in place), then moves the excess from keys_recent to keys. */
enum status archive_keys_add(struct archive_writer *w, struct archive_key_entry *entries, size_t n);
enum status archive_keys_remove(struct archive_writer *w, struct archive_key_entry entry);

/* archive_sqlite_{apply,maintain,query}.c: as archive_ops says. */
enum status archive_sqlite_apply(struct archive *a, const struct archive_batch *batch);
enum status archive_sqlite_maintain(struct archive *a, bool *did_something);
enum status archive_sqlite_hashes(struct archive *a, archive_hash_fn *fn, void *user);
enum status archive_sqlite_get(struct archive *a, struct archive_key key, bool want_snapshot,
                               struct arena *arena, struct archive_row *out);
enum status archive_sqlite_query(struct archive *a, const struct archive_query *query,
                                 archive_row_fn *fn, void *user);
enum status archive_sqlite_due(struct archive *a, int64_t before_ms,
                               const struct archive_row *after, uint32_t limit, archive_row_fn *fn,
                               void *user);

#endif
