/* SPDX-License-Identifier: Apache-2.0
 *
 * What a page of a list costs in the SQLite archive: what is on it, not what there is. In either
 * direction an index is walked from the position on, and no more is sorted than the rows of one
 * millisecond.
 */
#include "test/lib/test.h"

#include "store/archive_sqlite.h"
#include "store/io.h"

#include <stdio.h>

#define HUB BYTES_LITERAL("default")
#define DIRECTORY "archive"
#define CREATED_MS INT64_C(1760000000000)
#define BATCH_N 500u
#define PAGE_N 50u

struct fixture {
    struct mem mem;
    struct arena arena;
    struct io *io;
    struct archive *archive;
    const char *root;
    uint64_t lsn;
};

static void fixture_init(struct fixture *f)
{
    *f = (struct fixture){.root = test_directory()};
    mem_init(&f->mem, SIZE_MAX);
    arena_init(&f->arena, &f->mem, 4096);
    EXPECT_STATUS(OK, io_posix_open(f->root, &f->io));
    struct archive_sqlite_options options = {
        .root = f->root, .directory = DIRECTORY, .segment_size = 1 << 20, .mem = &f->mem};
    EXPECT_STATUS(OK, archive_sqlite_open(f->io, &options, &f->archive));
}

static void fixture_release(struct fixture *f)
{
    archive_close(f->archive);
    f->io->ops->release(f->io);
    arena_release(&f->arena);
    mem_release(&f->mem);
}

static void put_rows(struct fixture *f, uint64_t first, uint64_t n)
{
    struct archive_put puts[BATCH_N];
    char ids[BATCH_N][24];

    EXPECT(n <= BATCH_N);
    for (uint64_t i = 0; i < n; i++) {
        int64_t time_ms = CREATED_MS + (int64_t)(first + i) / 3; /* some share theirs */
        (void)snprintf(ids[i], sizeof ids[i], "order-%08llu", (unsigned long long)(first + i));
        puts[i] = (struct archive_put){
            .row = {.hub = HUB,
                    .id = bytes_of_text(ids[i]),
                    .version = 1,
                    .status = 1,
                    .is_terminal = true,
                    .name = BYTES_LITERAL("ship"),
                    .created_ms = time_ms,
                    .updated_ms = time_ms,
                    .completed_ms = time_ms,
                    .wake_ms = ARCHIVE_NO_TIME,
                    .snapshot = BYTES_LITERAL("history")},
            .is_new = true,
        };
    }
    struct archive_batch batch = {.puts = puts, .puts_n = n, .applied_lsn = ++f->lsn};
    EXPECT_STATUS(OK, archive_apply(f->archive, &batch));
}

/* "SEARCH ...\n" for each step of its plan. */
static void explain(struct fixture *f, const char *sql, char *out, size_t size)
{
    char path[400];
    char text[2000];
    sqlite3 *connection;
    sqlite3_stmt *plan;

    (void)snprintf(path, sizeof path, "%s/" DIRECTORY "/archive.db", f->root);
    EXPECT_EQ(SQLITE_OK, sqlite3_open_v2(path, &connection, SQLITE_OPEN_READONLY, NULL));
    (void)snprintf(text, sizeof text, "EXPLAIN QUERY PLAN %s", sql);
    EXPECT_EQ(SQLITE_OK, sqlite3_prepare_v2(connection, text, -1, &plan, NULL));
    out[0] = '\0';
    while (sqlite3_step(plan) == SQLITE_ROW) {
        size_t len = strlen(out);
        (void)snprintf(out + len, size - len, "%s\n", (const char *)sqlite3_column_text(plan, 3));
    }
    (void)sqlite3_finalize(plan);
    (void)sqlite3_close(connection);
}

TEST(lists_walk_their_index)
{
    static const char created[] = "instances_created (hub=? AND created_ms>? AND created_ms<?)";
    static const char completed[] =
        "instances_completed (hub=? AND completed_ms>? AND completed_ms<?)";
    static const char *const sql[] = {
#define X(name, text) [name] = text,
        READER_STATEMENTS(X)
#undef X
    };
    static const struct {
        enum reader_statement statement;
        const char *index;
    } cases[] = {
        {READER_BY_CREATION, created},
        {READER_BY_CREATION_BACK, created},
        {READER_BY_COMPLETION, completed},
        {READER_BY_COMPLETION_BACK, completed},
    };
    struct fixture f;
    char plan[1000];

    fixture_init(&f);
    put_rows(&f, 0, 10);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        explain(&f, sql[cases[i].statement], plan, sizeof plan);
        test_note("%s", plan);
        EXPECT(strstr(plan, cases[i].index) != NULL);
        EXPECT(strstr(plan, "TEMP B-TREE FOR ORDER BY") == NULL);
        EXPECT(strstr(plan, "SCAN") == NULL);
    }
    test_note("%s", "");
    fixture_release(&f);
}

static enum status count_row(void *user, const struct archive_row *row)
{
    uint32_t *n = user;

    (void)row;
    ++*n;
    return OK;
}

/* Of SQLite's machine. position < 0: the first page. */
static int steps_of_page(struct fixture *f, int64_t position, bool newest_first)
{
    enum reader_statement name = newest_first ? READER_BY_CREATION_BACK : READER_BY_CREATION;
    sqlite3_stmt *statement = archive_sqlite_of(f->archive)->reader.db.statements[name];
    uint32_t n = 0;
    char id[24];
    struct archive_query query = {.hub = HUB, .limit = PAGE_N, .newest_first = newest_first};

    if (position >= 0) {
        (void)snprintf(id, sizeof id, "order-%08lld", (long long)position);
        query.has_after = true;
        query.after_ms = CREATED_MS + position / 3;
        query.after_id = bytes_of_text(id);
    }
    (void)sqlite3_stmt_status(statement, SQLITE_STMTSTATUS_VM_STEP, 1);
    EXPECT_STATUS(OK, archive_query(f->archive, &query, count_row, &n));
    EXPECT_EQ(PAGE_N, n);
    return sqlite3_stmt_status(statement, SQLITE_STMTSTATUS_VM_STEP, 1);
}

/* The first page and one from the middle, both ways, of few rows and of a hundred times as many. */
TEST(a_page_of_many_costs_no_more)
{
    enum { FEW = BATCH_N, MANY = 100 * BATCH_N };
    struct fixture f;

    fixture_init(&f);
    put_rows(&f, 0, BATCH_N);
    int few[4] = {steps_of_page(&f, -1, true), steps_of_page(&f, FEW / 2, true),
                  steps_of_page(&f, -1, false), steps_of_page(&f, FEW / 2, false)};
    for (uint64_t n = BATCH_N; n < MANY; n += BATCH_N) put_rows(&f, n, BATCH_N);
    int many[4] = {steps_of_page(&f, -1, true), steps_of_page(&f, MANY / 2, true),
                   steps_of_page(&f, -1, false), steps_of_page(&f, MANY / 2, false)};
    for (size_t i = 0; i < 4; i++) {
        test_note("%d steps of few, %d of many", few[i], many[i]);
        EXPECT(few[i] > 0);
        EXPECT(many[i] < few[i] + few[i] / 4);
    }
    test_note("%s", "");
    fixture_release(&f);
}
