/* SPDX-License-Identifier: Apache-2.0
 *
 * The SQLite archive is read while it is written, and its process is killed.
 */
#include "test/unit/archive_kit.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

/* Reading while another thread writes, replaces, removes and maintains: every answer is a state
 * that was committed, with the snapshot that belongs to it. */
struct race {
    struct fixture *f;
    atomic_bool is_over;
    atomic_uint failures_n;
    uint64_t reads_n;
};

/* All rows of this test have a version that says which snapshot they have. */
static struct archive_row versioned_row(struct fixture *f, uint64_t number, uint64_t version)
{
    struct archive_row row = make_row(f, number, 1500);

    row.version = version;
    row.snapshot = make_blob(f, number * 1000 + version, 1500);
    row.is_terminal = version % 2 == 0;
    row.status = row.is_terminal ? 1 : 0;
    row.completed_ms = row.is_terminal ? row.updated_ms : ARCHIVE_NO_TIME;
    row.wake_ms = row.is_terminal ? ARCHIVE_NO_TIME : 1;
    return row;
}

static enum status check_versioned(void *user, const struct archive_row *row)
{
    struct race *race = user;
    uint64_t first;

    race->reads_n++;
    if (row->snapshot.len != 1500) return E_CORRUPT;
    memcpy(&first, row->snapshot.ptr + 8, sizeof first);
    uint64_t number = (uint64_t)(row->created_ms - CREATED_MS);
    return first == number * 1000 + row->version ? OK : E_CORRUPT;
}

static void *read_all_the_time(void *user)
{
    struct race *race = user;
    struct archive *a = race->f->archive;
    struct archive_query query = {.hub = HUB, .limit = 1000, .want_snapshot = true};
    struct arena arena;

    struct mem mem;
    mem_init(&mem, SIZE_MAX);
    arena_init(&arena, &mem, 4096);
    while (!atomic_load(&race->is_over)) {
        struct archive_row row;
        uint64_t lsn;
        struct archive_key key = {HUB, BYTES_LITERAL("order-000007")};
        arena_reset(&arena);
        enum status status = archive_get(a, key, true, &arena, &row);
        if (status == OK) status = check_versioned(race, &row);
        if (status != OK && status != E_NOT_FOUND) atomic_fetch_add(&race->failures_n, 1);
        if (archive_query(a, &query, check_versioned, race) != OK ||
            archive_due(a, 10, NULL, 1000, check_versioned, race) != OK ||
            archive_applied_lsn(a, &lsn) != OK)
            atomic_fetch_add(&race->failures_n, 1);
    }
    arena_release(&arena);
    mem_release(&mem);
    return NULL;
}

TEST(reader_and_writer_at_the_same_time)
{
    struct fixture f;
    struct race race = {.f = &f};
    pthread_t reader;

    fixture_init(&f);
    EXPECT_EQ(0, pthread_create(&reader, NULL, read_all_the_time, &race));
    for (uint64_t round = 0; round < 60; round++) {
        struct archive_put puts[40];
        struct archive_key removed[10];
        arena_reset(&f.arena);
        for (uint64_t i = 0; i < 40; i++)
            puts[i] =
                (struct archive_put){versioned_row(&f, (round + i) % 100, round), .is_new = false};
        for (uint64_t i = 0; i < 10; i++)
            removed[i] = (struct archive_key){HUB, make_row(&f, (round + 50 + i) % 100, 0).id};
        struct archive_batch batch = {.puts = puts,
                                      .puts_n = 40,
                                      .removes = removed,
                                      .removes_n = 10,
                                      .applied_lsn = ++f.lsn};
        EXPECT_STATUS(OK, archive_apply(f.archive, &batch));
        bool did_something;
        EXPECT_STATUS(OK, archive_maintain(f.archive, &did_something));
    }
    atomic_store(&race.is_over, true);
    EXPECT_EQ(0, pthread_join(reader, NULL));
    EXPECT_EQ(0, atomic_load(&race.failures_n));
    EXPECT(race.reads_n > 0);
    (void)maintain_all(&f);
    EXPECT(count_segments(&f) < 10);
    fixture_release(&f);
}

/* kill -9 at a random moment of an endless loop of apply() and maintain(). Batch n puts the row n,
 * replaces the row n - 10, removes the row n - 20 and sets the LSN n, so that the LSN says exactly
 * which rows must be there. What was acknowledged through the pipe is there. */
static void child_loop(struct fixture *f, int acknowledge_fd)
{
    for (uint64_t n = lsn_of(f) + 1;; n++) {
        struct archive_row old = make_row(f, n - 10, 900);
        struct archive_put puts[2] = {{make_row(f, n, 1200), true}, {old, false}};
        struct archive_key removed = {HUB, make_row(f, n - 20, 0).id};
        struct archive_batch batch = {.puts = puts,
                                      .puts_n = n > 10 ? 2 : 1,
                                      .removes = &removed,
                                      .removes_n = n > 20 ? 1 : 0,
                                      .applied_lsn = n};
        bool did_something;
        if (archive_apply(f->archive, &batch) != OK) _exit(1);
        if (write(acknowledge_fd, &n, sizeof n) != (ssize_t)sizeof n) _exit(1);
        if (archive_maintain(f->archive, &did_something) != OK) _exit(1);
        arena_reset(&f->arena);
    }
}

static void expect_state_of(struct fixture *f, uint64_t lsn)
{
    uint64_t first = lsn > 20 ? lsn - 19 : 1;

    EXPECT_EQ(lsn - first + 1, count_all(f));
    EXPECT_EQ(lsn - first + 1, stats_of(f).rows);
    for (uint64_t i = first; i <= lsn; i++) {
        struct archive_row expected = make_row(f, i, i + 10 <= lsn ? 900 : 1200);
        expect_row(f, &expected);
    }
}

TEST(killed_process_loses_nothing_acknowledged)
{
    struct fixture f;
    struct rng rng;

    fixture_init(&f);
    rng_init(&rng, 17);
    for (int round = 0; round < 12; round++) {
        int pipe_fds[2];
        uint64_t acknowledged = 0, n = 0;
        uint64_t wanted = rng_below(&rng, 60) + 1;

        test_note("round %d", round);
        fixture_close(&f);
        EXPECT_EQ(0, pipe(pipe_fds));
        pid_t child = fork();
        EXPECT(child >= 0);
        if (child == 0) {
            (void)close(pipe_fds[0]);
            if (fixture_try_open(&f) != OK) _exit(1);
            child_loop(&f, pipe_fds[1]);
        }
        (void)close(pipe_fds[1]);
        for (uint64_t i = 0; i < wanted; i++) {
            EXPECT_EQ((int)sizeof n, read(pipe_fds[0], &n, sizeof n));
            acknowledged = n;
        }
        EXPECT_EQ(0, kill(child, SIGKILL));
        while (read(pipe_fds[0], &n, sizeof n) == (ssize_t)sizeof n) acknowledged = n;
        (void)close(pipe_fds[0]);
        int result;
        EXPECT_EQ(child, waitpid(child, &result, 0));
        EXPECT(WIFSIGNALED(result));

        EXPECT_STATUS(OK, fixture_try_open(&f));
        uint64_t lsn = lsn_of(&f);
        EXPECT(lsn >= acknowledged);
        EXPECT(lsn <= acknowledged + 1);
        expect_state_of(&f, lsn);
        arena_reset(&f.arena);
    }
    fixture_release(&f);
}

/* The first transaction of a new database as SQLite makes it before there is a WAL, up to a moment
 * in the middle: its rollback journal is on the disk, and pages are in the database. */
static void child_first_transaction(const struct fixture *f)
{
    struct db db;
    char path[300];

    (void)snprintf(path, sizeof path, "%s/" DIRECTORY "/archive.db", f->root);
    const char setup[] = "PRAGMA journal_mode = DELETE; PRAGMA cache_size = 1; BEGIN";
    if (db_open(&db, path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, setup) != OK) _exit(1);
    enum status status = db_execute(&db, "CREATE TABLE begun (x)");
    if (status == OK) {
        status = db_execute(&db, "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n "
                                 "WHERE i < 200) INSERT INTO begun SELECT zeroblob(3000) FROM n");
    }
    _exit(status == OK ? 0 : 1); /* as if it were killed: nothing is rolled back */
}

/* A process that dies in its very first transaction leaves a database that a reader may not repair:
 * the next one opens it all the same, and begins anew. */
TEST(directory_killed_in_its_first_transaction_opens)
{
    static const char *const names[] = {"archive.db", "archive.db-wal", "archive.db-shm",
                                        "00000001.blobs"};
    struct fixture f;
    struct buffer journal;
    char path[300];
    int result;

    fixture_init(&f);
    fixture_close(&f);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        (void)snprintf(path, sizeof path, "%s/" DIRECTORY "/%s", f.root, names[i]);
        (void)unlink(path);
    }
    pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0) child_first_transaction(&f);
    EXPECT_EQ(child, waitpid(child, &result, 0));
    EXPECT_EQ(0, result);
    read_whole(&f, "archive.db-journal", &journal);
    EXPECT(journal.len > 0); /* or this test would prove nothing */
    buffer_release(&journal);

    EXPECT_STATUS(OK, fixture_try_open(&f));
    EXPECT_STATUS(OK, put_rows(&f, 0, 10, 500));
    fixture_reopen(&f);
    expect_rows(&f, 0, 10, 1, 500);
    fixture_release(&f);
}
