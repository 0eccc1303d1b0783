/* SPDX-License-Identifier: Apache-2.0
 *
 * What every archive must do, run over each of them. To add one, add its line to `backends`. The
 * archive in memory is the reference: after any sequence of batches all of them must tell the same.
 */
#include "base/mem.h"
#include "base/rng.h"
#include "store/archive.h"
#include "store/io.h"
#include "store/store_fault.h"
#include "store/store_mem.h"
#include "test/lib/test.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

/* Where an archive lives while it is closed. */
struct place {
    struct mem mem;   /* of the archive */
    const char *root; /* of io */
    struct io *io;
    struct store_mem *store;
};

struct backend {
    const char *name;
    void (*prepare)(struct place *p);
    enum status (*open)(struct place *p, struct archive **out);
};

/* ---- the backends ---- */

static void prepare_mem(struct place *p) { EXPECT_STATUS(OK, store_mem_new(&p->mem, &p->store)); }

static enum status open_mem(struct place *p, struct archive **out)
{
    return archive_mem_open(p->store, out);
}

/* Passes everything through until it is told to fail. */
static enum status open_fault(struct place *p, struct archive **out)
{
    struct archive *inner;
    enum status status = archive_mem_open(p->store, &inner);
    return status != OK ? status : archive_fault_open(inner, out);
}

static void prepare_sqlite(struct place *p)
{
    p->root = test_directory();
    EXPECT_STATUS(OK, io_posix_open(p->root, &p->io));
}

static enum status open_sqlite(struct place *p, struct archive **out)
{
    struct archive_sqlite_options options = {
        .root = p->root,
        .directory = "archive",
        .segment_size = 4096, /* small, so that maintenance has segments to rewrite and unlink */
        .mem = &p->mem,
    };
    return archive_sqlite_open(p->io, &options, out);
}

static const struct backend backends[] = {
    {"in memory", prepare_mem, open_mem},
    {"faults around the one in memory", prepare_mem, open_fault},
    {"SQLite", prepare_sqlite, open_sqlite},
    /* the next backend: one line here */
};

static const struct backend *backend_now;

static void place_init(struct place *p, const struct backend *backend)
{
    *p = (struct place){0};
    mem_init(&p->mem, SIZE_MAX);
    backend->prepare(p);
}

static void place_release(struct place *p)
{
    if (p->store != NULL) store_mem_free(p->store);
    if (p->io != NULL) p->io->ops->release(p->io);
    mem_release(&p->mem);
}

static void each_backend(void (*body)(struct place *p))
{
    for (size_t i = 0; i < sizeof backends / sizeof backends[0]; i++) {
        struct place p;
        backend_now = &backends[i];
        test_note("archive: %s", backends[i].name);
        place_init(&p, backend_now);
        body(&p);
        place_release(&p);
    }
}

static struct archive *open_archive(struct place *p)
{
    struct archive *a;
    EXPECT_STATUS(OK, backend_now->open(p, &a));
    return a;
}

static struct archive *reopen(struct place *p, struct archive *a)
{
    archive_close(a);
    return open_archive(p);
}

/* ---- rows ---- */

static struct bytes text(const char *s) { return bytes_of_text(s); }

static struct archive_row sleeping(const char *id, int64_t created_ms, int64_t wake_ms)
{
    return (struct archive_row){.hub = text("hub"),
                                .id = text(id),
                                .version = 1,
                                .status = 0,
                                .name = text("ship"),
                                .created_ms = created_ms,
                                .updated_ms = created_ms,
                                .completed_ms = ARCHIVE_NO_TIME,
                                .wake_ms = wake_ms,
                                .snapshot = text(id)};
}

static struct archive_row finished(const char *id, int64_t created_ms, int64_t completed_ms)
{
    struct archive_row row = sleeping(id, created_ms, ARCHIVE_NO_TIME);
    row.status = 1;
    row.is_terminal = true;
    row.completed_ms = completed_ms;
    return row;
}

static enum status put(struct archive *a, struct archive_row row, bool is_new)
{
    uint64_t lsn;
    EXPECT_STATUS(OK, archive_applied_lsn(a, &lsn));
    struct archive_put one = {.row = row, .is_new = is_new};
    return archive_apply(
        a, &(struct archive_batch){.puts = &one, .puts_n = 1, .applied_lsn = lsn + 1});
}

static void put_new(struct archive *a, struct archive_row row)
{
    EXPECT_STATUS(OK, put(a, row, true));
}

static void remove_one(struct archive *a, const char *id)
{
    uint64_t lsn;
    EXPECT_STATUS(OK, archive_applied_lsn(a, &lsn));
    struct archive_key key = {text("hub"), text(id)};
    EXPECT_STATUS(OK,
                  archive_apply(a, &(struct archive_batch){
                                       .removes = &key, .removes_n = 1, .applied_lsn = lsn + 1}));
}

/* ---- what an archive tells, as text ---- */

static void add_text(struct buffer *out, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void add_text(struct buffer *out, const char *format, ...)
{
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    EXPECT(length >= 0 && (size_t)length < sizeof line);
    buffer_append(out, line, (size_t)length);
}

#define TEXT_OF(b) (int)(b).len, (const char *)((b).len > 0 ? (b).ptr : (const uint8_t *)"")

static enum status add_id(void *user, const struct archive_row *row)
{
    add_text(user, "%.*s ", TEXT_OF(row->id));
    return OK;
}

static enum status add_row(void *user, const struct archive_row *row)
{
    add_text(user,
             "%.*s/%.*s partition %" PRIu32 " version %" PRIu64 " status %d terminal %d name %.*s "
             "parent %.*s error %.*s created %" PRId64 " updated %" PRId64 " completed %" PRId64
             " wake %" PRId64 " snapshot %.*s tags %.*s\n",
             TEXT_OF(row->hub), TEXT_OF(row->id), row->partition, row->version, (int)row->status,
             row->is_terminal, TEXT_OF(row->name), TEXT_OF(row->parent_id), TEXT_OF(row->error),
             row->created_ms, row->updated_ms, row->completed_ms, row->wake_ms,
             TEXT_OF(row->snapshot), TEXT_OF(row->tags));
    return OK;
}

/* "a b c " of what the query gives; lives until the next call. */
static const char *ids_of(struct archive *a, struct archive_query query)
{
    static uint8_t ids[4096];
    struct buffer out;
    buffer_init(&out, mem_process());
    if (query.hub.len == 0) query.hub = text("hub");
    if (query.limit == 0) query.limit = 1000;
    EXPECT_STATUS(OK, archive_query(a, &query, add_id, &out));
    EXPECT(out.len < sizeof ids);
    if (out.len > 0) memcpy(ids, out.ptr, out.len);
    ids[out.len] = 0;
    buffer_release(&out);
    return (const char *)ids;
}

static enum status add_partition(void *user, const struct archive_partition *partition)
{
    add_text(user, "partition %" PRIu32 " %.*s\n", partition->partition, TEXT_OF(partition->state));
    return OK;
}

static enum status sum_hash(void *user, uint64_t hash)
{
    uint64_t *sum = user;
    *sum += hash;
    return OK;
}

/* Everything an archive knows of the hubs "hub" and "other". */
static void dump(struct archive *a, struct buffer *out)
{
    uint64_t lsn;
    uint64_t hashes = 0;
    struct archive_stats stats;
    struct archive_query query = {.hub = text("hub"), .limit = 100000, .want_snapshot = true};
    EXPECT_STATUS(OK, archive_applied_lsn(a, &lsn));
    EXPECT_STATUS(OK, archive_hashes(a, sum_hash, &hashes));
    EXPECT_STATUS(OK, archive_stats(a, &stats));
    add_text(out, "applied %" PRIu64 " hashes %" PRIx64 " rows %" PRIu64 " terminal %" PRIu64 "\n",
             lsn, hashes, stats.rows, stats.rows_terminal);
    EXPECT_STATUS(OK, archive_partitions(a, add_partition, out));
    EXPECT_STATUS(OK, archive_query(a, &query, add_row, out));
    query.by_completion = true;
    EXPECT_STATUS(OK, archive_query(a, &query, add_row, out));
    query.newest_first = true;
    EXPECT_STATUS(OK, archive_query(a, &query, add_row, out));
    query.by_completion = false;
    EXPECT_STATUS(OK, archive_query(a, &query, add_row, out));
    query = (struct archive_query){.hub = text("other"), .limit = 100000};
    EXPECT_STATUS(OK, archive_query(a, &query, add_row, out));
    EXPECT_STATUS(OK, archive_due(a, INT64_MAX - 1, NULL, 100000, add_row, out));
}

static void expect_same(struct archive *expected, struct archive *got)
{
    struct buffer x;
    struct buffer y;
    buffer_init(&x, mem_process());
    buffer_init(&y, mem_process());
    dump(expected, &x);
    dump(got, &y);
    buffer_u8(&x, 0);
    buffer_u8(&y, 0);
    EXPECT_TEXT((const char *)x.ptr, (const char *)y.ptr);
    buffer_release(&x);
    buffer_release(&y);
}

/* ---- the suite ---- */

static void empty_body(struct place *p)
{
    struct archive *a = open_archive(p);
    struct archive_stats stats;
    struct arena arena;
    struct archive_row row;
    uint64_t lsn = 1;
    arena_init(&arena, mem_process(), 256);
    EXPECT_STATUS(OK, archive_applied_lsn(a, &lsn));
    EXPECT_EQ(0, lsn);
    EXPECT_TEXT("", ids_of(a, (struct archive_query){0}));
    EXPECT_STATUS(E_NOT_FOUND,
                  archive_get(a, (struct archive_key){text("hub"), text("x")}, true, &arena, &row));
    EXPECT_STATUS(OK, archive_stats(a, &stats));
    EXPECT_EQ(0, stats.rows);
    archive_close(a);
    arena_release(&arena);
}

/* A first start. */
TEST(an_empty_archive_is_empty) { each_backend(empty_body); }

static void get_body(struct place *p)
{
    struct archive *a = open_archive(p);
    struct archive_row row = {.hub = text("hub"),
                              .id = text("order-1"),
                              .partition = 7,
                              .version = (uint64_t)1 << 40,
                              .status = 3,
                              .is_terminal = true,
                              .name = text("ship"),
                              .tags = text("city=Oslo\nteam=blue\n"),
                              .parent_id = text("order-0"),
                              .error = text("no such street"),
                              .created_ms = 1,
                              .updated_ms = 2,
                              .completed_ms = 3,
                              .wake_ms = ARCHIVE_NO_TIME,
                              .snapshot = bytes_make("\0\1\2snap\0", 8)};
    put_new(a, row);
    a = reopen(p, a);

    struct arena arena;
    struct archive_row got;
    struct archive_key key = {text("hub"), text("order-1")};
    arena_init(&arena, mem_process(), 256);
    EXPECT_STATUS(OK, archive_get(a, key, true, &arena, &got));
    archive_close(a); /* the row is the arena's */
    EXPECT_BYTES(row.hub, got.hub);
    EXPECT_BYTES(row.id, got.id);
    EXPECT_EQ(7, got.partition);
    EXPECT(got.version == (uint64_t)1 << 40);
    EXPECT_EQ(3, got.status);
    EXPECT(got.is_terminal);
    EXPECT_BYTES(row.name, got.name);
    EXPECT_BYTES(row.tags, got.tags);
    EXPECT_BYTES(row.parent_id, got.parent_id);
    EXPECT_BYTES(row.error, got.error);
    EXPECT_EQ(1, got.created_ms);
    EXPECT_EQ(2, got.updated_ms);
    EXPECT_EQ(3, got.completed_ms);
    EXPECT_EQ(ARCHIVE_NO_TIME, got.wake_ms);
    EXPECT_BYTES(row.snapshot, got.snapshot);

    a = open_archive(p);
    EXPECT_STATUS(OK, archive_get(a, key, false, &arena, &got));
    EXPECT_EQ(0, got.snapshot.len);
    EXPECT_EQ(7, got.partition);
    archive_close(a);
    arena_release(&arena);
}

/* Every field of an instance survives a restart; the snapshot is given when it is asked for. */
TEST(a_row_comes_back_as_it_was) { each_backend(get_body); }

static void replace_body(struct place *p)
{
    struct archive *a = open_archive(p);
    put_new(a, sleeping("a", 10, 500));
    put_new(a, sleeping("b", 20, 600));
    struct archive_row row = finished("a", 10, 900);
    row.version = 2;
    EXPECT_STATUS(OK, put(a, row, false));
    EXPECT_STATUS(OK, put(a, sleeping("c", 30, 700), false)); /* is_new is only a hint */
    EXPECT_TEXT("a b c ", ids_of(a, (struct archive_query){0}));
    EXPECT_TEXT("a ", ids_of(a, (struct archive_query){.terminal_only = true}));
    remove_one(a, "b");
    remove_one(a, "b");
    remove_one(a, "never");
    a = reopen(p, a);
    EXPECT_TEXT("a c ", ids_of(a, (struct archive_query){0}));
    remove_one(a, "a");
    EXPECT_TEXT("", ids_of(a, (struct archive_query){.terminal_only = true}));
    archive_close(a);
}

/* One row per instance, the newest; what is removed is gone, and removing it again is no error. */
TEST(rows_are_replaced_and_removed) { each_backend(replace_body); }

static void hubs_body(struct place *p)
{
    struct archive *a = open_archive(p);
    struct archive_row other = sleeping("a", 10, 500);
    other.hub = text("other");
    put_new(a, sleeping("a", 10, 500));
    put_new(a, other);
    EXPECT_TEXT("a ", ids_of(a, (struct archive_query){0}));
    remove_one(a, "a");
    EXPECT_TEXT("", ids_of(a, (struct archive_query){0}));
    EXPECT_TEXT("a ", ids_of(a, (struct archive_query){.hub = text("other")}));
    archive_close(a);
}

/* Two hubs on one server must not see each other's instances. */
TEST(hubs_are_apart) { each_backend(hubs_body); }

static void batch_body(struct place *p)
{
    struct archive *a = open_archive(p);
    put_new(a, sleeping("old", 1, 1));
    struct archive_put puts[] = {{sleeping("x", 1, 1), true}, {finished("y", 2, 2), true}};
    struct archive_key removes[] = {{text("hub"), text("old")}};
    struct archive_partition partitions[] = {{3, text("three")}, {1, text("one")}};
    struct archive_batch batch = {.puts = puts,
                                  .puts_n = 2,
                                  .removes = removes,
                                  .removes_n = 1,
                                  .partitions = partitions,
                                  .partitions_n = 2,
                                  .applied_lsn = 100};
    EXPECT_STATUS(OK, archive_apply(a, &batch));
    struct archive_partition again[] = {{3, text("THREE and more")}};
    EXPECT_STATUS(OK, archive_apply(a, &(struct archive_batch){.partitions = again,
                                                               .partitions_n = 1,
                                                               .applied_lsn = 100}));
    a = reopen(p, a);
    uint64_t lsn;
    EXPECT_STATUS(OK, archive_applied_lsn(a, &lsn));
    EXPECT_EQ(100, lsn);
    EXPECT_TEXT("x y ", ids_of(a, (struct archive_query){0}));
    struct buffer out;
    buffer_init(&out, mem_process());
    EXPECT_STATUS(OK, archive_partitions(a, add_partition, &out));
    EXPECT_BYTES(BYTES_LITERAL("partition 1 one\npartition 3 THREE and more\n"), buffer_view(&out));
    buffer_release(&out);
    archive_close(a);
}

/* Rows, removals, partition states and the LSN belong together and survive together. */
TEST(a_batch_is_applied_as_a_whole) { each_backend(batch_body); }

static struct archive *fill_for_queries(struct place *p)
{
    struct archive *a = open_archive(p);
    put_new(a, finished("d", 40, 900));
    put_new(a, sleeping("b", 20, 300));
    put_new(a, sleeping("c2", 30, 100));
    put_new(a, finished("a", 10, 800));
    struct archive_row row = finished("c1", 30, 800);
    row.status = 3;
    row.name = text("pay");
    row.tags = text("city=Oslo\nteam=blue\n");
    row.error = text("no such street");
    put_new(a, row);
    return a;
}

static void order_body(struct place *p)
{
    struct archive *a = fill_for_queries(p);
    EXPECT_TEXT("a b c1 c2 d ", ids_of(a, (struct archive_query){0}));
    EXPECT_TEXT("a c1 d ", ids_of(a, (struct archive_query){.by_completion = true}));
    EXPECT_TEXT("a b ", ids_of(a, (struct archive_query){.limit = 2}));
    EXPECT_TEXT("b c1 c2 ", ids_of(a, (struct archive_query){.from_ms = 20, .to_ms = 40}));
    EXPECT_TEXT("a c1 ", ids_of(a, (struct archive_query){.by_completion = true, .to_ms = 900}));
    archive_close(a);
}

static void newest_body(struct place *p)
{
    struct archive *a = fill_for_queries(p);
    struct archive_query query = {.newest_first = true};
    EXPECT_TEXT("d c2 c1 b a ", ids_of(a, query));
    query.limit = 3;
    EXPECT_TEXT("d c2 c1 ", ids_of(a, query));
    query = (struct archive_query){.newest_first = true, .from_ms = 20, .to_ms = 40};
    EXPECT_TEXT("c2 c1 b ", ids_of(a, query));
    query.has_after = true;
    query.after_ms = 30;
    query.after_id = text("c2");
    EXPECT_TEXT("c1 b ", ids_of(a, query));
    query.after_id = text("c1");
    EXPECT_TEXT("b ", ids_of(a, query));
    query.after_id = text("a"); /* before the first of its time: none of it is left */
    EXPECT_TEXT("b ", ids_of(a, query));
    query.after_ms = 31;
    EXPECT_TEXT("c2 c1 b ", ids_of(a, query));
    query.after_ms = 99; /* beyond the bound, which is nearer */
    EXPECT_TEXT("c2 c1 b ", ids_of(a, query));
    query.after_ms = INT64_MAX;
    EXPECT_TEXT("c2 c1 b ", ids_of(a, query));
    query.after_ms = INT64_MIN;
    EXPECT_TEXT("", ids_of(a, query));
    query = (struct archive_query){.newest_first = true, .by_completion = true};
    EXPECT_TEXT("d c1 a ", ids_of(a, query));
    query.has_after = true;
    query.after_ms = 800;
    query.after_id = text("c1");
    EXPECT_TEXT("a ", ids_of(a, query));
    query = (struct archive_query){.newest_first = true, .name = text("pay")};
    EXPECT_TEXT("c1 ", ids_of(a, query));
    archive_close(a);
}

/* The same rows from the other end, and what is behind a position is then what is older. */
TEST(queries_go_backwards) { each_backend(newest_body); }

/* Oldest first, ties by id, times inclusive at the beginning and exclusive at the end. */
TEST(queries_are_ordered_and_bounded) { each_backend(order_body); }

static void paging_body(struct place *p)
{
    struct archive *a = fill_for_queries(p);
    struct archive_query query = {.has_after = true, .after_ms = 30, .after_id = text("c1")};
    EXPECT_TEXT("c2 d ", ids_of(a, query));
    query.after_id = text("c");
    EXPECT_TEXT("c1 c2 d ", ids_of(a, query));
    query.after_id = text("z");
    EXPECT_TEXT("d ", ids_of(a, query));
    query.after_ms = INT64_MIN;
    query.after_id = BYTES_NONE;
    EXPECT_TEXT("a b c1 c2 d ", ids_of(a, query));
    query = (struct archive_query){
        .by_completion = true, .has_after = true, .after_ms = 800, .after_id = text("a")};
    EXPECT_TEXT("c1 d ", ids_of(a, query));
    archive_close(a);
}

/* A page begins behind the last row of the one before, whether that row is still there or not. */
TEST(queries_go_on_after_a_position) { each_backend(paging_body); }

static void filter_body(struct place *p)
{
    struct archive *a = fill_for_queries(p);
    EXPECT_TEXT("c1 ", ids_of(a, (struct archive_query){.status_mask = 1U << 3}));
    EXPECT_TEXT("b c1 c2 ", ids_of(a, (struct archive_query){.status_mask = 1U << 3 | 1U}));
    EXPECT_TEXT("c1 c2 ", ids_of(a, (struct archive_query){.id_prefix = text("c")}));
    EXPECT_TEXT("", ids_of(a, (struct archive_query){.id_prefix = text("c%")}));
    EXPECT_TEXT("c1 ", ids_of(a, (struct archive_query){.name = text("pay")}));
    EXPECT_TEXT("", ids_of(a, (struct archive_query){.name = text("pa")}));
    EXPECT_TEXT("c1 ", ids_of(a, (struct archive_query){.tag = text("team=blue")}));
    EXPECT_TEXT("c1 ", ids_of(a, (struct archive_query){.tag = text("city=Oslo")}));
    EXPECT_TEXT("", ids_of(a, (struct archive_query){.tag = text("team=blu")}));
    EXPECT_TEXT("", ids_of(a, (struct archive_query){.tag = text("eam=blue")}));
    EXPECT_TEXT("c1 ", ids_of(a, (struct archive_query){.tag = text("team")}));
    EXPECT_TEXT("c1 ", ids_of(a, (struct archive_query){.tag = text("city")}));
    EXPECT_TEXT("", ids_of(a, (struct archive_query){.tag = text("tea")}));
    EXPECT_TEXT("", ids_of(a, (struct archive_query){.tag = text("eam")}));
    EXPECT_TEXT("", ids_of(a, (struct archive_query){.tag = text("blue")}));
    EXPECT_TEXT("", ids_of(a, (struct archive_query){.tag = text("team=")}));
    EXPECT_TEXT("c1 ", ids_of(a, (struct archive_query){.error_part = text("such")}));
    EXPECT_TEXT("", ids_of(a, (struct archive_query){.error_part = text("SUCH_")}));
    EXPECT_TEXT("", ids_of(a, (struct archive_query){.name = text("pay"), .from_ms = 31}));
    archive_close(a);
}

/* Each filter alone, its near misses, and the characters that mean something in SQL. */
TEST(queries_filter) { each_backend(filter_body); }

static void put_entity(struct archive *a, const char *id, int64_t created_ms, int64_t updated_ms,
                       int32_t status)
{
    struct archive_row row = sleeping(id, created_ms, ARCHIVE_NO_TIME);
    row.updated_ms = updated_ms;
    row.status = status;
    put_new(a, row);
}

static void entities_body(struct place *p)
{
    struct archive *a = fill_for_queries(p);
    put_entity(a, "@b@1", 25, 100, 0);
    put_entity(a, "@a@2", 15, 300, 0);
    put_entity(a, "@a@1", 15, 200, ARCHIVE_STATUS_TRANSIENT);
    put_entity(a, "A", 16, 300, 0); /* no entity, and next to them in the order of bytes */
    put_entity(a, "?", 17, 300, 0);
    EXPECT_TEXT("a A ? b c1 c2 d ", ids_of(a, (struct archive_query){0}));
    EXPECT_TEXT("", ids_of(a, (struct archive_query){.id_prefix = text("@")}));
    EXPECT_TEXT("@a@2 @b@1 ", ids_of(a, (struct archive_query){.entities = true}));
    struct archive_query query = {.entities = true, .want_transient = true};
    EXPECT_TEXT("@a@1 @a@2 @b@1 ", ids_of(a, query));
    query.from_ms = 200;
    EXPECT_TEXT("@a@1 @a@2 ", ids_of(a, query));
    query.to_ms = 300;
    EXPECT_TEXT("@a@1 ", ids_of(a, query));
    query = (struct archive_query){.entities = true, .want_transient = true, .limit = 2};
    EXPECT_TEXT("@a@1 @a@2 ", ids_of(a, query));
    query.has_after = true;
    query.after_ms = 15;
    query.after_id = text("@a@1");
    EXPECT_TEXT("@a@2 @b@1 ", ids_of(a, query));
    query.id_prefix = text("@b@");
    EXPECT_TEXT("@b@1 ", ids_of(a, query));
    archive_close(a);
}

/* Never in a list of orchestrations; by creation, but asked for by their last change. */
TEST(entities_are_listed_apart) { each_backend(entities_body); }

static enum status expect_snapshot(void *user, const struct archive_row *row)
{
    const bool *is_wanted = user;
    EXPECT_BYTES(*is_wanted ? row->id : BYTES_NONE, row->snapshot);
    return OK;
}

static void snapshot_body(struct place *p)
{
    struct archive *a = fill_for_queries(p);
    bool is_wanted = false;
    struct archive_query query = {.hub = text("hub"), .limit = 10};
    EXPECT_STATUS(OK, archive_query(a, &query, expect_snapshot, &is_wanted));
    is_wanted = query.want_snapshot = true;
    EXPECT_STATUS(OK, archive_query(a, &query, expect_snapshot, &is_wanted));
    EXPECT_STATUS(OK, archive_due(a, 10000, NULL, 10, expect_snapshot, &is_wanted));
    archive_close(a);
}

/* A list of a million instances must not read a million histories. */
TEST(snapshots_are_given_when_asked_for) { each_backend(snapshot_body); }

static void expect_due(struct archive *a, int64_t before_ms, const struct archive_row *after,
                       uint32_t limit, const char *expected)
{
    struct buffer out;
    buffer_init(&out, mem_process());
    EXPECT_STATUS(OK, archive_due(a, before_ms, after, limit, add_id, &out));
    buffer_u8(&out, 0);
    EXPECT_TEXT(expected, (const char *)out.ptr);
    buffer_release(&out);
}

static void due_body(struct place *p)
{
    struct archive *a = open_archive(p);
    struct archive_row other = sleeping("a", 1, 200);
    other.hub = text("other");
    put_new(a, other);
    put_new(a, sleeping("b", 4, 200));
    put_new(a, sleeping("a", 5, 200));
    put_new(a, sleeping("late", 3, 201));
    put_new(a, sleeping("now", 2, 0));
    put_new(a, sleeping("never", 1, ARCHIVE_NO_TIME));
    put_new(a, finished("done", 1, 5));
    struct archive_row working = finished("busy", 1, 5);
    working.wake_ms = 0;
    put_new(a, working);
    expect_due(a, 200, NULL, 100, "busy now a b a ");
    expect_due(a, 199, NULL, 100, "busy now ");
    expect_due(a, -1, NULL, 100, "");
    expect_due(a, 1000, NULL, 3, "busy now a ");
    struct archive_row after = sleeping("a", 0, 200);
    expect_due(a, 1000, &after, 100, "b a late ");
    after.hub = text("other");
    expect_due(a, 1000, &after, 100, "late ");
    archive_close(a);
}

/* Timers of sleeping instances fire from here: in order, none twice over pages, none forgotten,
 * over all hubs; of finished ones only what still has work (activities that nobody waits for). */
TEST(due_rows_come_in_order) { each_backend(due_body); }

static void hashes_body(struct place *p)
{
    struct archive *a = fill_for_queries(p);
    uint64_t sum = 0;
    EXPECT_STATUS(OK, archive_hashes(a, sum_hash, &sum));
    static const char *const ids[] = {"a", "b", "c1", "c2", "d"};
    uint64_t expected = 0;
    for (size_t i = 0; i < 5; i++) {
        expected += archive_key_hash((struct archive_key){text("hub"), text(ids[i])});
    }
    EXPECT(expected == sum);
    archive_close(a);
}

/* The host keeps these in a filter: a row without its hash would be started a second time. */
TEST(every_row_has_its_hash) { each_backend(hashes_body); }

/* Hub and id must not run into each other. */
TEST(keys_that_look_alike_have_different_hashes)
{
    uint64_t one = archive_key_hash((struct archive_key){text("ab"), text("c")});
    EXPECT(one != archive_key_hash((struct archive_key){text("a"), text("bc")}));
    EXPECT(one != archive_key_hash((struct archive_key){text("c"), text("ab")}));
    EXPECT(one == archive_key_hash((struct archive_key){text("ab"), text("c")}));
}

static enum status stop_row(void *user, const struct archive_row *row)
{
    int *n = user;
    EXPECT(row->id.len > 0);
    return ++*n == 2 ? E_UNSUPPORTED : OK;
}

static enum status stop_hash(void *user, uint64_t hash)
{
    (void)hash;
    int *n = user;
    return ++*n == 2 ? E_UNSUPPORTED : OK;
}

static void stop_body(struct place *p)
{
    struct archive *a = fill_for_queries(p);
    struct archive_query query = {.hub = text("hub"), .limit = 10};
    int n = 0;
    EXPECT_STATUS(E_UNSUPPORTED, archive_query(a, &query, stop_row, &n));
    EXPECT_EQ(2, n);
    n = 0;
    EXPECT_STATUS(E_UNSUPPORTED, archive_due(a, 10000, NULL, 10, stop_row, &n));
    EXPECT_EQ(2, n);
    n = 0;
    EXPECT_STATUS(E_UNSUPPORTED, archive_hashes(a, stop_hash, &n));
    EXPECT_EQ(2, n);
    EXPECT_TEXT("a b c1 c2 d ", ids_of(a, (struct archive_query){0})); /* nothing is left open */
    archive_close(a);
}

/* A caller with enough, or with trouble, ends a listing; the archive goes on. */
TEST(a_callback_can_stop_a_listing) { each_backend(stop_body); }

/* ---- against the reference ---- */

#define MODEL_IDS 40

static struct archive_row random_row(struct rng *rng, char *id, size_t size)
{
    (void)snprintf(id, size, "id-%d", (int)rng_below(rng, MODEL_IDS));
    int64_t created_ms = (int64_t)rng_below(rng, 50);
    bool is_terminal = rng_chance(rng, 500);
    struct archive_row row = is_terminal ? finished(id, created_ms, (int64_t)rng_below(rng, 50))
                                         : sleeping(id, created_ms, (int64_t)rng_below(rng, 50));
    if (rng_chance(rng, 100)) row.hub = text("other");
    row.version = rng_below(rng, 1000);
    row.partition = (uint32_t)rng_below(rng, 4);
    if (rng_chance(rng, 500)) row.error = text("trouble");
    if (rng_chance(rng, 500)) row.tags = text("k=v\n");
    return row;
}

/* One random batch, the same to both. */
static void apply_random(struct rng *rng, uint64_t lsn, struct archive *a, struct archive *b)
{
    struct archive_put puts[4];
    struct archive_key removes[2];
    char ids[6][16];
    size_t puts_n = 0;
    size_t removes_n = 0;
    for (size_t i = 0; i < 6; i++) {
        struct archive_row row = random_row(rng, ids[i], sizeof ids[i]);
        bool is_twice = false;
        for (size_t k = 0; k < i; k++) is_twice = is_twice || strcmp(ids[i], ids[k]) == 0;
        if (is_twice) continue; /* no key twice in a batch */
        if (i < 4)
            puts[puts_n++] = (struct archive_put){.row = row, .is_new = false};
        else
            removes[removes_n++] = (struct archive_key){row.hub, row.id};
    }
    struct archive_partition partition = {(uint32_t)rng_below(rng, 3), text(ids[0])};
    struct archive_batch batch = {.puts = puts,
                                  .puts_n = puts_n,
                                  .removes = removes,
                                  .removes_n = removes_n,
                                  .partitions = &partition,
                                  .partitions_n = 1,
                                  .applied_lsn = lsn};
    EXPECT_STATUS(OK, archive_apply(a, &batch));
    EXPECT_STATUS(OK, archive_apply(b, &batch));
}

static void model_body(struct place *p)
{
    struct place reference;
    struct archive *expected;
    struct rng rng;
    place_init(&reference, &backends[0]);
    EXPECT_STATUS(OK, open_mem(&reference, &expected));
    struct archive *a = open_archive(p);
    rng_init(&rng, 5);
    for (uint64_t lsn = 1; lsn <= 120; lsn++) {
        apply_random(&rng, lsn, expected, a);
        if (rng_chance(&rng, 100)) a = reopen(p, a);
        bool did_something;
        if (rng_chance(&rng, 100)) EXPECT_STATUS(OK, archive_maintain(a, &did_something));
        if (lsn % 10 == 0) expect_same(expected, a);
    }
    archive_close(a);
    archive_close(expected);
    place_release(&reference);
}

/* After any batches, restarts and maintenance an archive tells what the reference tells. */
TEST(any_batches_give_what_the_reference_gives) { each_backend(model_body); }

static void maintain_body(struct place *p)
{
    struct archive *a = fill_for_queries(p);
    remove_one(a, "b");
    bool did_something = true;
    for (int i = 0; did_something; i++) {
        EXPECT(i < 100);
        EXPECT_STATUS(OK, archive_maintain(a, &did_something));
    }
    EXPECT_TEXT("a c1 c2 d ", ids_of(a, (struct archive_query){0}));
    struct archive_stats stats;
    EXPECT_STATUS(OK, archive_stats(a, &stats));
    EXPECT_EQ(4, stats.rows);
    EXPECT_EQ(3, stats.rows_terminal);
    EXPECT(stats.blob_live <= stats.blob_bytes);
    archive_close(a);
}

/* Maintenance comes to an end and changes nothing that can be asked for. */
TEST(maintenance_ends) { each_backend(maintain_body); }

/* ---- without memory ---- */

static void memory_body(struct place *p)
{
    struct place reference;
    struct archive *expected;
    place_init(&reference, &backends[0]);
    EXPECT_STATUS(OK, open_mem(&reference, &expected));
    struct archive *a = open_archive(p);
    char ids[30][8];
    struct archive_put puts[30];
    for (size_t i = 0; i < 30; i++) {
        (void)snprintf(ids[i], sizeof ids[i], "n%zu", i);
        puts[i] = (struct archive_put){.row = sleeping(ids[i], (int64_t)i, 5), .is_new = true};
    }
    struct archive_partition partition = {1, text("state")};
    struct archive_batch batch = {
        .puts = puts, .puts_n = 30, .partitions = &partition, .partitions_n = 1, .applied_lsn = 9};
    enum status status = E_NOMEM;
    for (uint64_t n = 1; status != OK; n++) {
        EXPECT(n < 10000);
        p->mem.fail_at = n;
        status = archive_apply(a, &batch);
        if (status != OK) EXPECT_STATUS(E_NOMEM, status);
        p->mem.fail_at = 0;
        if (status != OK) expect_same(expected, a); /* still empty */
    }
    EXPECT_STATUS(OK, archive_apply(expected, &batch));
    expect_same(expected, a);
    archive_close(a);
    archive_close(expected);
    place_release(&reference);
}

/* Whichever allocation fails: all of the batch or none, and the same batch succeeds later. */
TEST(a_batch_without_memory_changes_nothing) { each_backend(memory_body); }

/* ---- a reader beside the writer ---- */

struct reader_thread {
    struct archive *archive;
    atomic_bool is_over;
    uint64_t rounds;
    bool has_seen_half;
};

struct pair {
    uint64_t version[2];
    size_t n;
};

static enum status see_pair(void *user, const struct archive_row *row)
{
    struct pair *pair = user;
    if (pair->n < 2) pair->version[pair->n] = row->version;
    pair->n++;
    return OK;
}

static void *read_pairs(void *user)
{
    struct reader_thread *r = user;
    struct archive_query query = {.hub = text("hub"), .limit = 10};
    while (!atomic_load(&r->is_over)) {
        struct pair pair = {0};
        if (archive_query(r->archive, &query, see_pair, &pair) != OK) r->has_seen_half = true;
        if (pair.n != 2 || pair.version[0] != pair.version[1]) r->has_seen_half = true;
        r->rounds++;
    }
    return NULL;
}

static void put_pair(struct archive *a, uint64_t version, bool is_new)
{
    struct archive_put puts[] = {{sleeping("a", 1, 1), is_new}, {sleeping("b", 2, 2), is_new}};
    puts[0].row.version = puts[1].row.version = version;
    EXPECT_STATUS(OK, archive_apply(a, &(struct archive_batch){
                                           .puts = puts, .puts_n = 2, .applied_lsn = version}));
}

static void threads_body(struct place *p)
{
    struct reader_thread r = {.archive = open_archive(p)};
    put_pair(r.archive, 1, true);
    pthread_t thread;
    EXPECT_EQ(0, pthread_create(&thread, NULL, read_pairs, &r));
    for (uint64_t version = 2; version <= 150; version++) put_pair(r.archive, version, false);
    atomic_store(&r.is_over, true);
    EXPECT_EQ(0, pthread_join(thread, NULL));
    EXPECT(!r.has_seen_half);
    archive_close(r.archive);
}

/* The reader beside the writer sees all of a batch or nothing of it. */
TEST(a_reader_sees_whole_batches) { each_backend(threads_body); }

/* ---- the archive that fails ---- */

/* Every call can be made to fail, once or for ever, and does nothing then: what tests of the host
 * rely on. */
TEST(the_nth_call_fails_as_told)
{
    struct place p;
    backend_now = &backends[1];
    place_init(&p, backend_now);
    struct archive *a = open_archive(&p);
    uint64_t lsn;
    archive_fault_at(a, 2, E_NOSPACE, false);
    EXPECT_STATUS(OK, archive_applied_lsn(a, &lsn));
    struct archive_put one = {.row = sleeping("a", 1, 1), .is_new = true};
    struct archive_batch batch = {.puts = &one, .puts_n = 1, .applied_lsn = 1};
    EXPECT_STATUS(E_NOSPACE, archive_apply(a, &batch));
    EXPECT_TEXT("", ids_of(a, (struct archive_query){0}));
    EXPECT_STATUS(OK, archive_apply(a, &batch));
    EXPECT_TEXT("a ", ids_of(a, (struct archive_query){0}));

    archive_fault_at(a, 1, E_IO, true);
    bool did_something;
    uint64_t sum = 0;
    struct archive_stats stats;
    struct archive_query query = {.hub = text("hub"), .limit = 1};
    struct buffer out;
    buffer_init(&out, mem_process());
    EXPECT_STATUS(E_IO, archive_applied_lsn(a, &lsn));
    EXPECT_STATUS(E_IO, archive_maintain(a, &did_something));
    EXPECT_STATUS(E_IO, archive_hashes(a, sum_hash, &sum));
    EXPECT_STATUS(E_IO, archive_partitions(a, add_partition, &out));
    EXPECT_STATUS(E_IO, archive_query(a, &query, add_id, &out));
    EXPECT_STATUS(E_IO, archive_due(a, 9, NULL, 1, add_id, &out));
    EXPECT_STATUS(E_IO, archive_stats(a, &stats));
    EXPECT_EQ(0, out.len);
    archive_fault_at(a, 0, OK, false);
    EXPECT_TEXT("a ", ids_of(a, (struct archive_query){0}));
    buffer_release(&out);
    archive_close(a);
    place_release(&p);
}
