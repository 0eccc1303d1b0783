/* SPDX-License-Identifier: Apache-2.0
 *
 * What the SQLite archive does with files that are not what it wrote. SQLite has no checksums, so
 * not every change can be noticed; but none may bring the process down, what is noticed is
 * E_CORRUPT after a line in the log that says what and where, and a snapshot is right or refused.
 *
 * Each case puts the same small archive back, damages one thing behind the archive's back, opens it
 * and does everything with it that can be done.
 */
#include "test/lib/test.h"

#include "base/log.h"
#include "base/rng.h"
#include "store/archive_sqlite.h"
#include "store/io.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define HUB BYTES_LITERAL("default")
#define DIRECTORY "archive"
/* So small that every batch has a segment of its own. */
#define SEGMENT_SIZE ((uint64_t)2048)
#define CREATED_MS INT64_C(1760000000000)
#define WAKE_MS INT64_C(1800000000000)
#define SNAPSHOT_SIZE ((size_t)400)
#define BATCHES_N 4
#define BATCH_ROWS_N 10
#define ROWS_N (BATCHES_N * BATCH_ROWS_N)
#define REMOVED_N 9 /* the first rows: segment 1 is sparse */
#define KEYS_RECENT_MIN 8
#define FILES_MAX 16
#define MAINTAIN_MAX 20

/* --- what can be done with an archive --- */

#define OPERATIONS(X)                                                                              \
    X(OPEN, "open")                                                                                \
    X(LSN, "applied_lsn")                                                                          \
    X(PARTITIONS, "partitions")                                                                    \
    X(HASHES, "hashes")                                                                            \
    X(GET, "get")                                                                                  \
    X(QUERY, "query by creation")                                                                  \
    X(COMPLETED, "query by completion")                                                            \
    X(DUE, "due")                                                                                  \
    X(STATS, "stats")                                                                              \
    X(APPLY, "apply")                                                                              \
    X(MAINTAIN, "maintain")

enum operation {
#define X(name, text) name,
    OPERATIONS(X)
#undef X
};
static const char *const operation_names[] = {
#define X(name, text) text,
    OPERATIONS(X)
#undef X
};

/* What came out of doing all of it. */
struct outcome {
    unsigned corrupt;         /* bit per operation that answered E_CORRUPT */
    const char *unexpected;   /* the first operation with another answer, or NULL */
    enum status status;       /* its answer */
    size_t wrong_snapshots_n; /* of get() */
    size_t absent_n;          /* likewise */
};

static void note(struct outcome *o, enum operation operation, enum status status)
{
    if (status == E_CORRUPT) o->corrupt |= 1U << operation;
    if (status == OK || status == E_CORRUPT || o->unexpected != NULL) return;
    o->unexpected = operation_names[operation];
    o->status = status;
}

/* --- fixture --- */

struct fixture {
    char root[256];
    struct io *io;
    struct archive *archive;
    struct arena arena;
    struct saved_file {
        char name[32];
        struct buffer contents;
    } files[FILES_MAX];
    size_t files_n;
};

static enum status try_open(struct fixture *f)
{
    struct archive_sqlite_options options = {
        .root = f->root,
        .directory = DIRECTORY,
        .segment_size = SEGMENT_SIZE,
        .mem = mem_process(),
    };
    enum status status = archive_sqlite_open(f->io, &options, &f->archive);
    if (status == OK) archive_sqlite_of(f->archive)->writer.keys_recent_min = KEYS_RECENT_MIN;
    return status;
}

static void close_archive(struct fixture *f)
{
    archive_close(f->archive);
    f->archive = NULL;
}

/* Every fourth one sleeps, the others are finished. Lives until the arena is reset. */
static struct archive_row make_row(struct fixture *f, uint64_t number)
{
    struct rng rng;
    char id[32];
    uint8_t *snapshot = arena_alloc(&f->arena, SNAPSHOT_SIZE);
    bool is_asleep = number % 4 == 0;

    rng_init(&rng, number + 1);
    for (size_t i = 0; i < SNAPSHOT_SIZE; i += 8) store_u64(snapshot + i, rng_u64(&rng));
    (void)snprintf(id, sizeof id, "order-%06d", (int)number);
    return (struct archive_row){
        .hub = HUB,
        .id = bytes_make(arena_text(&f->arena, bytes_of_text(id)), strlen(id)),
        .partition = (uint32_t)(number % 32),
        .version = number + 1,
        .status = is_asleep ? 0 : 1,
        .is_terminal = !is_asleep,
        .name = BYTES_LITERAL("ProcessOrder"),
        .tags = BYTES_LITERAL("customer=4711\n"),
        .created_ms = CREATED_MS + (int64_t)number,
        .updated_ms = CREATED_MS + (int64_t)number + 500,
        .completed_ms = is_asleep ? ARCHIVE_NO_TIME : CREATED_MS + (int64_t)number + 500,
        .wake_ms = is_asleep ? WAKE_MS + (int64_t)number : ARCHIVE_NO_TIME,
        .snapshot = bytes_make(snapshot, SNAPSHOT_SIZE),
    };
}

static struct archive_key key_of(struct fixture *f, uint64_t number)
{
    return (struct archive_key){HUB, make_row(f, number).id};
}

static enum status save_file(void *user, const char *name)
{
    struct fixture *f = user;
    struct saved_file *file = &f->files[f->files_n++];
    char path[64];

    EXPECT(f->files_n <= FILES_MAX);
    (void)snprintf(file->name, sizeof file->name, "%s", name);
    (void)snprintf(path, sizeof path, DIRECTORY "/%s", name);
    buffer_init(&file->contents, mem_process());
    return io_read_file(f->io, path, (size_t)1 << 20, &file->contents);
}

/* The archive that is damaged: BATCHES_N segments, keys in both tables, states of two partitions,
 * and removed rows, so that there is something to maintain (unless everything shall be alive). */
static void fixture_init(struct fixture *f, bool is_all_alive)
{
    struct archive_put puts[BATCH_ROWS_N];
    struct archive_key removes[REMOVED_N];
    struct archive_partition partitions[] = {{3, BYTES_LITERAL("timers")},
                                             {7, BYTES_LITERAL("outbox")}};

    *f = (struct fixture){0};
    log_setup(LOG_ERROR + 1, LOG_TEXT); /* damage is made on purpose here */
    (void)snprintf(f->root, sizeof f->root, "%s", test_directory());
    arena_init(&f->arena, mem_process(), 4096);
    EXPECT_STATUS(OK, io_posix_open(f->root, &f->io));
    EXPECT_STATUS(OK, try_open(f));
    for (uint64_t i = 0; i < REMOVED_N; i++) removes[i] = key_of(f, i);
    for (uint64_t i = 0; i < BATCHES_N; i++) {
        bool is_last = i == BATCHES_N - 1;
        for (uint64_t j = 0; j < BATCH_ROWS_N; j++)
            puts[j] = (struct archive_put){make_row(f, i * BATCH_ROWS_N + j), .is_new = true};
        struct archive_batch batch = {
            .puts = puts,
            .puts_n = BATCH_ROWS_N,
            .removes = removes,
            .removes_n = is_last && !is_all_alive ? REMOVED_N : 0,
            .partitions = partitions,
            .partitions_n = 2,
            .applied_lsn = i + 1,
        };
        EXPECT_STATUS(OK, archive_apply(f->archive, &batch));
    }
    EXPECT_EQ(BATCHES_N, archive_sqlite_of(f->archive)->writer.segments_n);
    close_archive(f);
    EXPECT_STATUS(OK, f->io->ops->list(f->io, DIRECTORY, save_file, f));
    EXPECT_EQ(1 + BATCHES_N, f->files_n); /* closed cleanly: no WAL is left */
}

static void fixture_release(struct fixture *f)
{
    for (size_t i = 0; i < f->files_n; i++) buffer_release(&f->files[i].contents);
    arena_release(&f->arena);
    f->io->ops->release(f->io);
}

static struct saved_file *file_of(struct fixture *f, const char *name)
{
    size_t i = 0;
    while (i < f->files_n && strcmp(f->files[i].name, name) != 0) i++;
    EXPECT(i < f->files_n);
    return &f->files[i];
}

static enum status unlink_file(void *user, const char *name)
{
    struct fixture *f = user;
    char path[64];
    (void)snprintf(path, sizeof path, DIRECTORY "/%s", name);
    return f->io->ops->unlink(f->io, path);
}

/* Puts the files back as they were saved. */
static void restore(struct fixture *f)
{
    EXPECT_STATUS(OK, f->io->ops->list(f->io, DIRECTORY, unlink_file, f));
    for (size_t i = 0; i < f->files_n; i++) {
        struct buffer *contents = &f->files[i].contents;
        struct io_file *file;
        char path[64];
        (void)snprintf(path, sizeof path, DIRECTORY "/%s", f->files[i].name);
        EXPECT_STATUS(OK, f->io->ops->open(f->io, path, IO_CREATE, &file));
        EXPECT_STATUS(OK, f->io->ops->write(f->io, file, 0, contents->ptr, contents->len));
        f->io->ops->close(f->io, file);
    }
    arena_reset(&f->arena);
}

/* --- doing everything --- */

static enum status accept_partition(void *user, const struct archive_partition *partition)
{
    (void)user;
    (void)partition;
    return OK;
}

static enum status accept_hash(void *user, uint64_t hash)
{
    (void)user;
    (void)hash;
    return OK;
}

/* Reads every byte, so that a sanitizer sees whether they are there. */
static enum status accept_row(void *user, const struct archive_row *row)
{
    uint64_t *sum = user;
    *sum += bytes_hash(row->hub) + bytes_hash(row->id) + bytes_hash(row->name);
    *sum += bytes_hash(row->tags) + bytes_hash(row->error) + bytes_hash(row->snapshot);
    return OK;
}

static void get_all(struct fixture *f, struct outcome *o)
{
    for (uint64_t i = 0; i < ROWS_N; i++) {
        struct archive_row expected = make_row(f, i);
        struct archive_row got;
        enum status status =
            archive_get(f->archive, (struct archive_key){HUB, expected.id}, true, &f->arena, &got);
        if (status == E_NOT_FOUND) {
            o->absent_n++;
            continue;
        }
        note(o, GET, status);
        if (status == OK && !bytes_equal(expected.snapshot, got.snapshot)) o->wrong_snapshots_n++;
    }
}

static void read_everything(struct fixture *f, struct outcome *o)
{
    struct archive *a = f->archive;
    struct archive_query query = {.hub = HUB, .limit = UINT32_MAX, .want_snapshot = true};
    struct archive_stats stats;
    uint64_t sum = 0;

    note(o, PARTITIONS, archive_partitions(a, accept_partition, NULL));
    note(o, HASHES, archive_hashes(a, accept_hash, NULL));
    get_all(f, o);
    note(o, QUERY, archive_query(a, &query, accept_row, &sum));
    query.has_after = true;
    query.after_ms = CREATED_MS + 25;
    query.after_id = make_row(f, 25).id;
    note(o, QUERY, archive_query(a, &query, accept_row, &sum));
    query.by_completion = true;
    query.has_after = false;
    note(o, COMPLETED, archive_query(a, &query, accept_row, &sum));
    note(o, DUE, archive_due(a, WAKE_MS + ROWS_N, NULL, 100, accept_row, &sum));
    struct archive_row after = make_row(f, 20);
    note(o, DUE, archive_due(a, WAKE_MS + ROWS_N, &after, 100, accept_row, &sum));
    note(o, STATS, archive_stats(a, &stats));
}

/* Replaces, adds and removes: two sleepers among them, so that wrong counts meet. */
static void write_everything(struct fixture *f, struct outcome *o)
{
    uint64_t lsn = 0;
    enum status status = archive_applied_lsn(f->archive, &lsn);
    note(o, LSN, status);
    if (status != OK) return;
    struct archive_put puts[] = {{.row = make_row(f, 24)},
                                 {.row = make_row(f, 25)},
                                 {.row = make_row(f, 1001), .is_new = true}};
    struct archive_key removes[] = {key_of(f, 20), key_of(f, 2000)};
    struct archive_partition partition = {7, BYTES_LITERAL("newer")};
    struct archive_batch batch = {
        .puts = puts,
        .puts_n = 3,
        .removes = removes,
        .removes_n = 2,
        .partitions = &partition,
        .partitions_n = 1,
        .applied_lsn = lsn + 1,
    };
    note(o, APPLY, archive_apply(f->archive, &batch));
}

static void maintain(struct fixture *f, struct outcome *o)
{
    bool did_something = true;
    for (int i = 0; did_something && i < MAINTAIN_MAX; i++) {
        enum status status = archive_maintain(f->archive, &did_something);
        note(o, MAINTAIN, status);
        if (status != OK) return;
    }
}

static struct outcome exercise(struct fixture *f, bool is_writing)
{
    struct outcome o = {0};

    enum status status = try_open(f);
    note(&o, OPEN, status);
    if (status != OK) return o;
    read_everything(f, &o);
    if (!is_writing) {
        close_archive(f);
        return o;
    }
    write_everything(f, &o);
    maintain(f, &o);
    read_everything(f, &o);
    close_archive(f);
    return o;
}

/* --- damage by SQL --- */

#define SCHEMA_IS_WRITABLE "PRAGMA writable_schema = ON;"
#define SLEEPER " WHERE id = 'order-000024'"
#define ROOT_OF(name) "(SELECT rootpage FROM sqlite_schema WHERE name = '" name "')"
#define BIT(operation) (1U << (operation))
#define READERS (BIT(GET) | BIT(QUERY))

/* Up to three scripts, each with a connection of its own; then which operations must answer
 * E_CORRUPT (0: none can know), and what the log must say of it. */
struct sql_damage {
    const char *sql[3];
    unsigned corrupt;
    const char *says;
};

static const struct sql_damage meta_damage[] = {
    {{"UPDATE meta SET value = -1 WHERE key = 'rows'"}, BIT(OPEN), "table meta"},
    {{"UPDATE meta SET value = 'many' WHERE key = 'rows'"}, BIT(OPEN), "table meta"},
    {{"UPDATE meta SET value = 9223372036854775807 WHERE key = 'rows'"}, BIT(OPEN), "table meta"},
    {{"UPDATE meta SET value = 99 WHERE key = 'rows_terminal'"}, BIT(OPEN), "table meta"},
    {{"UPDATE meta SET value = NULL WHERE key = 'rows_terminal'"}, BIT(OPEN), "table meta"},
    {{"UPDATE meta SET value = 9223372036854775807 WHERE key = 'applied_lsn'"},
     BIT(OPEN),
     "table meta"},
    {{"DELETE FROM meta WHERE key = 'applied_lsn'"}, BIT(OPEN), "table meta"},
    {{"UPDATE meta SET value = 0 WHERE key = 'format'"}, BIT(OPEN), "format"},
    {{"DELETE FROM meta"}, BIT(OPEN), "format"},
    {{"ALTER TABLE meta RENAME COLUMN value TO worth"}, BIT(OPEN), "no such column"},
    {{SCHEMA_IS_WRITABLE "DELETE FROM sqlite_schema WHERE name = 'meta'"}, BIT(OPEN), "meta"},
    /* Too few rows in the account: seen when more of them go, or more finished than there are. */
    {{"UPDATE meta SET value = 2 WHERE key IN ('rows', 'rows_terminal')"}, BIT(APPLY), "rows"},
    {{"UPDATE meta SET value = 0 WHERE key IN ('rows', 'rows_terminal')"}, BIT(APPLY), "rows"},
    /* Other things may have that name. */
    {{"CREATE TRIGGER meta AFTER INSERT ON partitions BEGIN SELECT 1; END"}, 0, NULL},
    {{"UPDATE partitions SET partition = -1 WHERE partition = 3"}, BIT(PARTITIONS), "partition -1"},
    {{"UPDATE partitions SET partition = 4294967296 WHERE partition = 3"},
     BIT(PARTITIONS),
     "partition 4294967296"},
    {{"DROP TABLE partitions"}, BIT(OPEN), "no such table"},
};

static const struct sql_damage segments_damage[] = {
    {{"UPDATE segments SET segment = -1 WHERE segment = 1"}, BIT(OPEN), "segment -1"},
    {{"UPDATE segments SET segment = 0 WHERE segment = 1"}, BIT(OPEN), "segment 0"},
    {{"UPDATE segments SET segment = 9223372036854775807 WHERE segment = 4"},
     BIT(OPEN),
     "segment 9223372036854775807"},
    {{"UPDATE segments SET segment = 9 WHERE segment = 4"}, BIT(OPEN), "00000009.blobs"},
    {{"UPDATE segments SET raw_live = raw_total + 1 WHERE segment = 2"}, BIT(OPEN), "segment 2"},
    {{"UPDATE segments SET raw_live = -1 WHERE segment = 2"}, BIT(OPEN), "segment 2"},
    {{"UPDATE segments SET raw_live = -2, raw_total = -1 WHERE segment = 2"},
     BIT(OPEN),
     "segment 2"},
    {{"UPDATE segments SET raw_total = 9223372036854775807 WHERE segment = 4"},
     BIT(OPEN),
     "segment 4"},
    {{"UPDATE segments SET size = -1 WHERE segment = 2"}, BIT(OPEN), "segment 2"},
    {{"UPDATE segments SET size = 3 WHERE segment = 2"}, BIT(OPEN), "segment 2"},
    {{"UPDATE segments SET size = size + 1 WHERE segment = 2"}, BIT(OPEN), "00000002.blobs"},
    {{"UPDATE segments SET size = 4611686018427387903 WHERE segment = 4"},
     BIT(OPEN),
     "00000004.blobs"},
    /* A segment that rows refer to is not taken for the rest of a crash, and not removed. */
    {{"DELETE FROM segments WHERE segment = 2"}, BIT(OPEN), "segment 2"},
    {{"DELETE FROM segments WHERE segment = 4"}, BIT(OPEN), "segment 4"},
    {{"DELETE FROM segments"}, BIT(OPEN), "segment"},
    {{"DROP TABLE segments"}, BIT(OPEN), "no such table"},
    /* Less or more is alive than the account says: seen when what is alive has moved. */
    {{"UPDATE segments SET raw_live = 1 WHERE segment = 1"}, BIT(MAINTAIN), "segment 1"},
    {{"UPDATE segments SET raw_live = raw_live + 1 WHERE segment = 1"}, BIT(MAINTAIN), "segment 1"},
    {{"UPDATE segments SET size = 24 WHERE segment = 1"}, BIT(MAINTAIN), "segment 1"},
    {{"UPDATE segments SET size = 30 WHERE segment = 1"}, 0, NULL},
    {{"UPDATE segments SET raw_live = 1 WHERE segment = 3"}, BIT(APPLY), "segment 3"},
};

static const struct sql_damage instances_damage[] = {
    {{"UPDATE instances SET seq = 9223372036854775807 WHERE seq = 40"}, BIT(OPEN), "row"},
    {{"UPDATE instances SET seq = -5" SLEEPER ";"
      "UPDATE keys SET seq = -5 WHERE seq = 25; UPDATE keys_recent SET seq = -5 WHERE seq = 25"},
     BIT(APPLY),
     "row -5"},
    {{"UPDATE instances SET blob_segment = -1" SLEEPER}, READERS, "order-000024"},
    {{"UPDATE instances SET blob_segment = 0" SLEEPER}, READERS, "order-000024"},
    {{"UPDATE instances SET blob_segment = 77" SLEEPER}, READERS, "00000077.blobs"},
    {{"UPDATE instances SET blob_segment = 9223372036854775807" SLEEPER}, READERS, "blobs"},
    {{"UPDATE instances SET blob_block = -1" SLEEPER}, READERS, "order-000024"},
    {{"UPDATE instances SET blob_block = 1152921504606846976" SLEEPER}, READERS, "00000003.blobs"},
    {{"UPDATE instances SET blob_block = 9223372036854775807" SLEEPER}, READERS, "00000003.blobs"},
    {{"UPDATE instances SET blob_block = blob_block + 1" SLEEPER}, READERS, "00000003.blobs"},
    {{"UPDATE instances SET blob_offset = blob_offset + 4294967296" SLEEPER},
     READERS,
     "order-000024"},
    {{"UPDATE instances SET blob_offset = -1" SLEEPER}, READERS, "order-000024"},
    {{"UPDATE instances SET blob_offset = 1000000" SLEEPER}, READERS, "00000003.blobs"},
    {{"UPDATE instances SET blob_length = blob_length + 4294967296" SLEEPER},
     READERS | BIT(APPLY),
     "order-000024"},
    {{"UPDATE instances SET blob_length = -1" SLEEPER}, READERS | BIT(APPLY), "order-000024"},
    {{"UPDATE instances SET blob_length = 1000000" SLEEPER},
     READERS | BIT(APPLY),
     "00000003.blobs"},
    {{"UPDATE instances SET blob_length = 0" SLEEPER}, READERS, "order-000024"},
    {{"UPDATE instances SET blob_length = -1, blob_segment = 1 WHERE id = 'order-000009'"},
     READERS,
     "order-000009"},
    {{"UPDATE instances SET status = 99" SLEEPER}, READERS | BIT(DUE), "order-000024"},
    {{"UPDATE instances SET status = 4294967297" SLEEPER}, READERS | BIT(DUE), "order-000024"},
    {{"UPDATE instances SET status = -1" SLEEPER}, READERS | BIT(DUE), "order-000024"},
    {{"UPDATE instances SET partition = -1" SLEEPER}, READERS | BIT(DUE), "order-000024"},
    {{"UPDATE instances SET partition = 4294967296" SLEEPER}, READERS, "order-000024"},
    {{"UPDATE instances SET id = ''" SLEEPER}, BIT(QUERY) | BIT(DUE), "id is empty"},
    {{"UPDATE instances SET hub = ''" SLEEPER}, BIT(DUE), "hub is empty"},
    {{"UPDATE instances SET completed_ms = NULL"}, 0, NULL},
    {{"UPDATE instances SET completed_ms = 9223372036854775807" SLEEPER}, 0, NULL},
    {{"DELETE FROM instances"}, BIT(MAINTAIN), "segment 1"},
    {{"DROP TABLE instances"}, BIT(OPEN), "no such table"},
    {{"DROP INDEX instances_wake"}, BIT(OPEN), "no such index"},
    {{"CREATE TRIGGER t BEFORE DELETE ON instances BEGIN SELECT RAISE(IGNORE); END"},
     BIT(APPLY),
     "row 21"},
    {{"CREATE TRIGGER t BEFORE UPDATE ON instances BEGIN SELECT RAISE(IGNORE); END"},
     BIT(APPLY) | BIT(MAINTAIN),
     "row 25"},
    {{"CREATE TRIGGER t BEFORE INSERT ON instances BEGIN SELECT RAISE(IGNORE); END"},
     BIT(APPLY),
     "row 41"},
    {{"CREATE TRIGGER t BEFORE UPDATE ON meta BEGIN SELECT RAISE(IGNORE); END"},
     BIT(APPLY),
     "table meta"},
};

static const struct sql_damage keys_damage[] = {
    /* Rows that no key leads to are not there for get(). */
    {{"DELETE FROM keys; DELETE FROM keys_recent"}, 0, NULL},
    {{"UPDATE keys SET seq = seq + 1; UPDATE keys_recent SET seq = seq + 1"}, 0, NULL},
    {{"UPDATE keys SET seq = 9223372036854775807 - seq"}, 0, NULL},
    {{"INSERT INTO keys_recent SELECT * FROM keys"}, BIT(APPLY), "UNIQUE"},
    {{"CREATE TRIGGER t BEFORE DELETE ON keys BEGIN SELECT RAISE(IGNORE); END;"
      "CREATE TRIGGER u BEFORE DELETE ON keys_recent BEGIN SELECT RAISE(IGNORE); END"},
     BIT(APPLY),
     "row 21"},
    {{"DROP TABLE keys_recent"}, BIT(OPEN), "no such table"},
};

/* Trees that belong to something else. */
static const struct sql_damage tree_damage[] = {
    {{SCHEMA_IS_WRITABLE "UPDATE sqlite_schema SET rootpage = " ROOT_OF(
         "instances_created") " WHERE name = 'instances_wake'"},
     0,
     NULL},
    {{SCHEMA_IS_WRITABLE "UPDATE sqlite_schema SET rootpage = " ROOT_OF(
         "instances_wake") " WHERE name = 'instances_created'"},
     0,
     NULL},
    {{SCHEMA_IS_WRITABLE
      "UPDATE sqlite_schema SET rootpage = " ROOT_OF("keys") " WHERE name = 'keys_recent'"},
     0,
     NULL},
    {{SCHEMA_IS_WRITABLE
      "UPDATE sqlite_schema SET rootpage = " ROOT_OF("segments") " WHERE name = 'instances'"},
     0,
     NULL},
    {{SCHEMA_IS_WRITABLE
      "UPDATE sqlite_schema SET rootpage = " ROOT_OF("instances") " WHERE name = 'segments'"},
     BIT(OPEN),
     "segment"},
    {{SCHEMA_IS_WRITABLE
      "UPDATE sqlite_schema SET rootpage = " ROOT_OF("meta") " WHERE name = 'keys'"},
     0,
     NULL},
    /* The index of the sleepers is hidden while their times change. */
    {{SCHEMA_IS_WRITABLE
      "CREATE TABLE hidden AS SELECT * FROM sqlite_schema WHERE name = 'instances_wake';"
      "DELETE FROM sqlite_schema WHERE name = 'instances_wake'",
      "UPDATE instances SET wake_ms = 9223372036854775806" SLEEPER,
      SCHEMA_IS_WRITABLE "INSERT INTO sqlite_schema SELECT * FROM hidden; DROP TABLE hidden"},
     0,
     NULL},
    {{SCHEMA_IS_WRITABLE
      "CREATE TABLE hidden AS SELECT * FROM sqlite_schema WHERE name = 'instances_wake';"
      "DELETE FROM sqlite_schema WHERE name = 'instances_wake'",
      "DELETE FROM instances" SLEEPER,
      SCHEMA_IS_WRITABLE "INSERT INTO sqlite_schema SELECT * FROM hidden; DROP TABLE hidden"},
     0,
     NULL},
};

/* As a stranger would. */
static void run_sql(struct fixture *f, const char *sql)
{
    sqlite3 *connection;
    char path[300];

    (void)snprintf(path, sizeof path, "%s/" DIRECTORY "/archive.db", f->root);
    EXPECT_EQ(SQLITE_OK, sqlite3_open(path, &connection));
    int code = sqlite3_exec(connection, sql, NULL, NULL, NULL);
    test_note("%s: %s", sql, sqlite3_errmsg(connection));
    EXPECT_EQ(SQLITE_OK, code);
    EXPECT_EQ(SQLITE_OK, sqlite3_close(connection));
}

/* In a child process, which answers on the pipes; its stderr is the log. */
static _Noreturn void exercise_in_child(struct fixture *f, int log_fd, int outcome_fd)
{
    (void)dup2(log_fd, STDERR_FILENO);
    log_setup(LOG_ERROR, LOG_TEXT);
    struct outcome o = exercise(f, true);
    ssize_t written = write(outcome_fd, &o, sizeof o);
    _exit(written == (ssize_t)sizeof o ? 0 : 1);
}

static void read_to_end(int fd, struct buffer *out)
{
    char chunk[4096];
    ssize_t n;
    while ((n = read(fd, chunk, sizeof chunk)) > 0) buffer_append(out, chunk, (size_t)n);
    buffer_append(out, "", 1);
    EXPECT(!out->failed);
}

/* *log: with NUL. */
static struct outcome exercise_apart(struct fixture *f, struct buffer *log)
{
    struct outcome o = {0};
    int log_pipe[2];
    int outcome_pipe[2];
    int status = 0;

    EXPECT_EQ(0, pipe(log_pipe));
    EXPECT_EQ(0, pipe(outcome_pipe));
    pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0) exercise_in_child(f, log_pipe[1], outcome_pipe[1]);
    (void)close(log_pipe[1]);
    (void)close(outcome_pipe[1]);
    read_to_end(log_pipe[0], log);
    ssize_t got = read(outcome_pipe[0], &o, sizeof o);
    (void)close(log_pipe[0]);
    (void)close(outcome_pipe[0]);
    EXPECT_EQ(child, waitpid(child, &status, 0));
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        test_fail(__FILE__, __LINE__, "the process ended: %s", (const char *)log->ptr);
    EXPECT_EQ(sizeof o, got);
    return o;
}

static void expect_damage_survived(struct fixture *f, const struct sql_damage *damage)
{
    struct buffer log;

    restore(f);
    for (size_t i = 0; i < 3 && damage->sql[i] != NULL; i++) run_sql(f, damage->sql[i]);
    buffer_init(&log, mem_process());
    test_note("%s", damage->sql[0]);
    struct outcome o = exercise_apart(f, &log);
    const char *text = (const char *)log.ptr;
    test_note("%s: corrupt %x; log: %s", damage->sql[0], o.corrupt, text);
    if (o.unexpected != NULL)
        test_fail(__FILE__, __LINE__, "%s answers %s", o.unexpected, status_name(o.status));
    EXPECT_EQ(damage->corrupt, o.corrupt & damage->corrupt);
    EXPECT((o.corrupt != 0) == (text[0] != '\0'));
    if (damage->says != NULL) EXPECT(strstr(text, damage->says) != NULL);
    test_note("%s", "");
    buffer_release(&log);
}

static void expect_all_survived(const struct sql_damage *damage, size_t n)
{
    struct fixture f;

    fixture_init(&f, false);
    for (size_t i = 0; i < n; i++) expect_damage_survived(&f, &damage[i]);
    fixture_release(&f);
}

#define EXPECT_ALL_SURVIVED(damage) expect_all_survived(damage, sizeof damage / sizeof damage[0])

/* A test that damages nothing must find nothing: all the others rely on it. */
TEST(undamaged_archive_is_sound)
{
    struct fixture f;

    fixture_init(&f, false);
    restore(&f);
    struct outcome o = exercise(&f, true);
    EXPECT_EQ(0, o.corrupt);
    EXPECT(o.unexpected == NULL);
    EXPECT_EQ(0, o.wrong_snapshots_n);
    EXPECT_EQ(2 * REMOVED_N + 1, o.absent_n); /* read twice, and one removed in between */
    fixture_release(&f);
}

/* Counts, positions and names of the tables are checked before anything is derived from them. */
TEST(damaged_meta_is_survived) { EXPECT_ALL_SURVIVED(meta_damage); }

/* The account of the segments decides what is overwritten, cut off and unlinked. */
TEST(damaged_segments_table_is_survived) { EXPECT_ALL_SURVIVED(segments_damage); }

/* A row is right or refused: what it says of itself goes to the engine, and where its snapshot is
 * becomes offsets in files and in memory. */
TEST(damaged_rows_are_survived) { EXPECT_ALL_SURVIVED(instances_damage); }

/* Keys and rows can disagree in both directions. */
TEST(damaged_keys_are_survived) { EXPECT_ALL_SURVIVED(keys_damage); }

/* SQLite believes its trees: what it finds there need not be ordered, unique or of the type of the
 * column. */
TEST(exchanged_trees_are_survived) { EXPECT_ALL_SURVIVED(tree_damage); }

static enum status count_name(void *user, const char *name)
{
    size_t *n = user;
    if (blob_segment_number(name) > 0) ++*n;
    return OK;
}

/* A lost row of the table of segments must not become a lost segment: people can still mend it. */
TEST(segment_without_row_is_kept_while_referred_to)
{
    struct fixture f;
    size_t segments_n = 0;

    fixture_init(&f, false);
    restore(&f);
    run_sql(&f, "DELETE FROM segments");
    EXPECT_STATUS(E_CORRUPT, try_open(&f));
    EXPECT_STATUS(OK, f.io->ops->list(f.io, DIRECTORY, count_name, &segments_n));
    EXPECT_EQ(BATCHES_N, segments_n);
    fixture_release(&f);
}

/* --- damage of bytes --- */

/* Changes a bit of a saved file, puts all files back and undoes the change. */
static void flip(struct fixture *f, struct saved_file *file, size_t at, unsigned bit)
{
    test_note("%s, byte %d, bit %d", file->name, (int)at, (int)bit);
    file->contents.ptr[at] ^= (uint8_t)(1U << bit);
    restore(f);
    file->contents.ptr[at] ^= (uint8_t)(1U << bit);
}

/* A byte that is not free space, from a random place on. */
static size_t some_used_byte(struct rng *rng, const struct buffer *contents)
{
    size_t at = (size_t)(rng_u64(rng) % contents->len);
    while (contents->ptr[at] == 0) at = (at + 1) % contents->len;
    return at;
}

#define FLIPS_N 200

/* Whatever bit of the database is wrong, nothing worse happens than E_CORRUPT. (The number of the
 * format may also become that of a newer program.) */
TEST(flipped_bits_of_the_database_are_survived)
{
    struct fixture f;
    struct rng rng;
    size_t noticed_n = 0;

    fixture_init(&f, false);
    rng_init(&rng, 1);
    struct saved_file *file = file_of(&f, "archive.db");
    for (size_t i = 0; i < 100 + FLIPS_N; i++) {
        /* All of SQLite's head, then anywhere. */
        size_t at = i < 100 ? i : some_used_byte(&rng, &file->contents);
        flip(&f, file, at, (unsigned)(rng_u64(&rng) % 8));
        struct outcome o = exercise(&f, true);
        if (o.unexpected != NULL && o.status != E_VERSION)
            test_fail(__FILE__, __LINE__, "%s answers %s", o.unexpected, status_name(o.status));
        if (o.corrupt != 0) noticed_n++;
    }
    EXPECT(noticed_n > 50); /* else the flips miss what matters */
    fixture_release(&f);
}

/* Every byte of a segment that rows refer to counts: a change is always noticed, and never
 * returned. */
TEST(flipped_bits_of_a_segment_are_noticed)
{
    struct fixture f;
    struct rng rng;
    size_t flipped_n = 0;

    fixture_init(&f, true);
    rng_init(&rng, 2);
    struct saved_file *file = file_of(&f, "00000002.blobs");
    size_t step = file->contents.len / FLIPS_N + 1;
    for (size_t at = 0; at < file->contents.len; at += at < 100 ? 1 : step) {
        flip(&f, file, at, (unsigned)(rng_u64(&rng) % 8));
        struct outcome o = exercise(&f, false);
        EXPECT(o.unexpected == NULL);
        EXPECT((o.corrupt & (BIT(OPEN) | BIT(GET))) != 0);
        EXPECT_EQ(0, o.wrong_snapshots_n);
        flipped_n++;
    }
    EXPECT(flipped_n > FLIPS_N / 2);
    fixture_release(&f);
}

/* While a segment is rewritten its damage is noticed too, and nothing of it is lost. */
TEST(flipped_bits_of_a_sparse_segment_are_survived)
{
    struct fixture f;
    struct rng rng;

    fixture_init(&f, false);
    rng_init(&rng, 3);
    struct saved_file *file = file_of(&f, "00000001.blobs");
    for (size_t i = 0; i < 50; i++) {
        size_t at = (size_t)(rng_u64(&rng) % file->contents.len);
        flip(&f, file, at, (unsigned)(rng_u64(&rng) % 8));
        struct outcome o = exercise(&f, true);
        EXPECT(o.unexpected == NULL);
        EXPECT((o.corrupt & (BIT(OPEN) | BIT(MAINTAIN))) != 0);
        EXPECT_EQ(0, o.wrong_snapshots_n);
    }
    fixture_release(&f);
}

/* Replaces the only place where `from` is in the database by `to`, and puts all files back. */
static void patch(struct fixture *f, struct bytes from, struct bytes to)
{
    struct buffer *contents = &file_of(f, "archive.db")->contents;
    size_t found_n = 0;

    EXPECT_EQ(from.len, to.len);
    for (size_t at = 0; at + from.len <= contents->len; at++) {
        if (!bytes_equal(bytes_make(contents->ptr + at, from.len), from)) continue;
        memcpy(contents->ptr + at, to.ptr, to.len);
        found_n++;
    }
    EXPECT_EQ(1, found_n);
    restore(f);
}

/* A time as SQLite stores it (six bytes, big endian), before or behind a text. */
static struct bytes time_and_text(struct fixture *f, const char *before, int64_t time_ms,
                                  const char *behind)
{
    struct buffer b;
    buffer_init(&b, mem_process());
    buffer_append(&b, before, strlen(before));
    for (int shift = 40; shift >= 0; shift -= 8) buffer_u8(&b, (uint8_t)(time_ms >> shift));
    buffer_append(&b, behind, strlen(behind));
    struct bytes copy = arena_copy(&f->arena, buffer_view(&b));
    buffer_release(&b);
    return copy;
}

/* Who asks page by page would never come to an end if an entry out of order led back. */
TEST(index_out_of_order_does_not_lead_back)
{
    struct fixture f;
    uint64_t sum = 0;

    fixture_init(&f, false);
    struct bytes from =
        time_and_text(&f, "default", CREATED_MS + 30, "\x1f"); /* then the number of the row */
    patch(&f, from, time_and_text(&f, "default", CREATED_MS - 1, "\x1f"));
    EXPECT_STATUS(OK, try_open(&f));
    struct archive_query query = {.hub = HUB, .limit = 99, .has_after = true};
    query.after_ms = CREATED_MS + 25;
    query.after_id = make_row(&f, 25).id;
    EXPECT_STATUS(E_CORRUPT, archive_query(f.archive, &query, accept_row, &sum));
    close_archive(&f);
    fixture_release(&f);
}
