/* SPDX-License-Identifier: Apache-2.0
 *
 * What the SQLite archive costs: CPU per archived instance while it grows, bytes on disk, and the
 * time of each question. Prints one JSON object. CPU time of the process is the main figure,
 * because it does not depend on who else uses the machine; wall time is beside it where disk
 * matters.
 *
 *      bench_archive [--rows N] [--batch N] [--sleepers N] [--purge N] DIRECTORY
 *
 * DIRECTORY is made and must be absent or empty. The instances are like those of a five step
 * orchestration: 18 events with names, times, ids and small JSON payloads, 1.5 KiB in all.
 */
#include "base/arena.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/histogram.h"
#include "base/mem.h"
#include "base/rng.h"
#include "store/archive.h"
#include "store/io.h"

#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define STEPS 5
#define GETS 5000
#define SEGMENT_SIZE ((uint64_t)64 << 20)
#define START_MS INT64_C(1760000000000)
#define ID_SIZE 37
#define QUERY_PAGE 100
#define DUE_PAGE 1000
#define REMOVE_BATCH 20000
#define NOSPACE_RETRIES 100

struct bench {
    const char *root;
    uint64_t rows_n;
    uint64_t batch_n;
    uint64_t sleepers_n;
    uint64_t purge_n;
    struct io *io;
    struct archive *archive;
    struct rng rng;
    struct arena arena; /* of one batch */
    uint64_t lsn;
    uint64_t snapshot_bytes;
    uint64_t nospace_n;
};

static void check(enum status status, const char *what)
{
    if (status == OK) return;
    fprintf(stderr, "bench_archive: %s: %s\n", what, status_text(status));
    exit(1);
}

static double us(int64_t ns) { return (double)ns / 1e3; }
static double ms(int64_t ns) { return (double)ns / 1e6; }

static uint64_t resident_bytes(void)
{
    unsigned long size = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");

    if (file == NULL) return 0;
    if (fscanf(file, "%lu %lu", &size, &resident) != 2) resident = 0;
    (void)fclose(file);
    return (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* --- instances --- */

/* A random UUID of its own number, so that any instance can be named again. */
static void make_id(char id[static ID_SIZE], uint64_t number)
{
    struct rng rng;

    rng_init(&rng, number);
    uint64_t a = rng_u64(&rng);
    uint64_t b = rng_u64(&rng);
    (void)snprintf(id, ID_SIZE, "%08x-%04x-4%03x-%04x-%012" PRIx64, (uint32_t)a,
                   (uint32_t)(a >> 32) & 0xffff, (uint32_t)(a >> 48) & 0xfff,
                   (uint32_t)(b >> 48) | 0x8000, b & UINT64_C(0xffffffffffff));
}

static void put_text(struct buffer *b, uint8_t field, const char *text)
{
    buffer_u8(b, (uint8_t)(field << 3 | 2));
    buffer_bytes(b, bytes_of_text(text));
}

/* As a HistoryEvent is encoded: id, timestamp, one of the kinds. */
static void put_event(struct buffer *b, uint32_t id, uint8_t kind, int64_t time_ns,
                      struct bytes body)
{
    uint64_t nanos = (uint64_t)(time_ns % NS_PER_S);
    uint64_t seconds = (uint64_t)(time_ns / NS_PER_S);
    size_t time_size = 2 + varint_size(seconds) + varint_size(nanos);

    buffer_u8(b, 0x08);
    buffer_varint(b, id);
    buffer_u8(b, 0x12);
    buffer_varint(b, time_size);
    buffer_u8(b, 0x08);
    buffer_varint(b, seconds);
    buffer_u8(b, 0x10);
    buffer_varint(b, nanos);
    buffer_u8(b, (uint8_t)(kind << 3 | 2));
    buffer_bytes(b, body);
}

static void put_step(struct bench *bench, struct buffer *out, struct buffer *body, uint32_t step,
                     int64_t *time_ns)
{
    static const char *const names[STEPS] = {"ReserveStock", "ChargePayment", "PrintLabel",
                                             "NotifyWarehouse", "SendConfirmation"};
    char text[160];
    uint64_t order = rng_below(&bench->rng, 1000000);

    *time_ns += rng_between(&bench->rng, 200000, 3000000);
    put_event(out, UINT32_MAX, 12, *time_ns, BYTES_NONE);
    buffer_clear(body);
    put_text(body, 1, names[step]);
    (void)snprintf(text, sizeof text,
                   "{\"orderId\":%" PRIu64 ",\"attempt\":1,\"key\":\"%08" PRIx64
                   "\",\"tenant\":\"north\"}",
                   order, rng_u64(&bench->rng) & 0xffffffff);
    put_text(body, 3, text);
    put_event(out, step, 4, *time_ns, buffer_view(body));

    *time_ns += rng_between(&bench->rng, 500000, 20000000);
    buffer_clear(body);
    buffer_u8(body, 0x08);
    buffer_varint(body, step);
    (void)snprintf(text, sizeof text,
                   "{\"orderId\":%" PRIu64 ",\"state\":\"done\",\"reference\":\"%016" PRIx64
                   "\",\"warnings\":[]}",
                   order, rng_u64(&bench->rng));
    put_text(body, 2, text);
    put_event(out, UINT32_MAX, 5, *time_ns, buffer_view(body));
}

/* The history of a finished five step orchestration. */
static struct bytes make_snapshot(struct bench *bench, const char *id, int64_t created_ms)
{
    struct buffer out, body;
    char input[240];
    int64_t time_ns = created_ms * NS_PER_MS;

    buffer_init(&out, mem_process());
    buffer_init(&body, mem_process());
    put_event(&out, UINT32_MAX, 12, time_ns, BYTES_NONE);
    put_text(&body, 1, "ProcessOrderOrchestrator");
    (void)snprintf(input, sizeof input,
                   "{\"customer\":\"customer-%05" PRIu64 "\",\"lines\":[{\"sku\":\"A-%04" PRIu64
                   "\",\"count\":%" PRIu64 "}],\"currency\":\"EUR\",\"channel\":\"web\","
                   "\"delivery\":\"standard\"}",
                   rng_below(&bench->rng, 100000), rng_below(&bench->rng, 10000),
                   rng_below(&bench->rng, 9) + 1);
    put_text(&body, 3, input);
    put_text(&body, 4, id);
    put_event(&out, UINT32_MAX, 3, time_ns, buffer_view(&body));
    for (uint32_t step = 0; step < STEPS; step++) put_step(bench, &out, &body, step, &time_ns);
    buffer_clear(&body);
    put_text(&body, 2, "{\"result\":\"shipped\"}");
    put_event(&out, STEPS, 5, time_ns, buffer_view(&body));

    assert(!out.failed);
    struct bytes copy = arena_copy(&bench->arena, buffer_view(&out));
    buffer_release(&out);
    buffer_release(&body);
    return copy;
}

/* wake_ms ARCHIVE_NO_TIME: finished. */
static struct archive_row make_row(struct bench *bench, uint64_t number, int64_t wake_ms)
{
    char id[ID_SIZE];
    bool is_terminal = wake_ms == ARCHIVE_NO_TIME;
    int64_t completed_ms = START_MS + (int64_t)number / 20;
    int64_t created_ms = completed_ms - rng_between(&bench->rng, 20, 2000);

    make_id(id, number);
    struct bytes snapshot = make_snapshot(bench, id, created_ms);
    bench->snapshot_bytes += snapshot.len;
    return (struct archive_row){
        .hub = BYTES_LITERAL("default"),
        .id = arena_copy(&bench->arena, bytes_of_text(id)),
        .partition = (uint32_t)(number % 32),
        .version = 18,
        .status = is_terminal ? 1 : 0,
        .is_terminal = is_terminal,
        .name = BYTES_LITERAL("ProcessOrderOrchestrator"),
        .created_ms = created_ms,
        .updated_ms = completed_ms,
        .completed_ms = is_terminal ? completed_ms : ARCHIVE_NO_TIME,
        .wake_ms = wake_ms,
        .snapshot = snapshot,
    };
}

/* Some file systems answer ENOSPC for a moment, until what was freed or written is on disk. As the
 * archiver does, the same call is made again; how often is printed. */
static void apply(struct bench *bench, const struct archive_batch *batch)
{
    enum status status = archive_apply(bench->archive, batch);

    for (int i = 0; status == E_NOSPACE && i < NOSPACE_RETRIES; i++) {
        bench->nospace_n++;
        sync();
        status = archive_apply(bench->archive, batch);
    }
    check(status, "apply");
}

/* Makes and applies one batch. Answers the CPU time of the applying alone. */
static int64_t apply_rows(struct bench *bench, uint64_t first, uint64_t n, bool are_asleep,
                          bool is_new)
{
    arena_reset(&bench->arena);
    struct archive_put *puts = arena_alloc(&bench->arena, n * sizeof *puts);
    assert(puts != NULL);
    for (uint64_t i = 0; i < n; i++) {
        int64_t wake_ms = START_MS + rng_between(&bench->rng, 0, 86400000);
        puts[i].row = make_row(bench, first + i, are_asleep ? wake_ms : ARCHIVE_NO_TIME);
        puts[i].is_new = is_new;
    }
    struct archive_batch batch = {.puts = puts, .puts_n = n, .applied_lsn = ++bench->lsn};
    int64_t before_ns = clock_cpu_ns();
    apply(bench, &batch);
    return clock_cpu_ns() - before_ns;
}

/* --- phases; each prints its part of the object --- */

static void open_archive(struct bench *bench)
{
    struct archive_sqlite_options options = {
        .root = bench->root,
        .directory = "archive",
        .segment_size = SEGMENT_SIZE,
        .mem = mem_process(),
    };
    check(archive_sqlite_open(bench->io, &options, &bench->archive), "open");
}

static void bench_growth(struct bench *bench)
{
    uint64_t part = bench->rows_n / 10;
    int64_t cpu_all_ns = 0;

    printf("  \"apply_cpu_us_per_row\": [");
    for (uint64_t tenth = 0; tenth < 10; tenth++) {
        int64_t cpu_ns = 0;
        for (uint64_t done = 0; done < part; done += bench->batch_n) {
            uint64_t n = part - done < bench->batch_n ? part - done : bench->batch_n;
            cpu_ns += apply_rows(bench, tenth * part + done, n, false, true);
        }
        printf("%s%.2f", tenth == 0 ? "" : ", ", us(cpu_ns) / (double)part);
        (void)fflush(stdout);
        cpu_all_ns += cpu_ns;
    }
    printf("],\n  \"apply_cpu_us_per_row_mean\": %.2f,\n", us(cpu_all_ns) / (double)bench->rows_n);
}

static void bench_size(struct bench *bench)
{
    struct archive_stats stats;

    arena_release(&bench->arena); /* the batch is ours, not the archive's */
    (void)malloc_trim(0);
    check(archive_stats(bench->archive, &stats), "stats");
    assert(stats.rows == bench->rows_n / 10 * 10);
    double rows = (double)stats.rows;
    printf("  \"snapshot_bytes_per_row\": %.0f,\n", (double)bench->snapshot_bytes / rows);
    printf("  \"disk_bytes_per_row\": %.0f,\n", (double)stats.bytes / rows);
    printf("  \"blob_bytes_per_row\": %.0f,\n", (double)stats.blob_bytes / rows);
    printf("  \"rss_bytes_after_growth\": %" PRIu64 ",\n", resident_bytes());
}

static void bench_open(struct bench *bench)
{
    int64_t before_ns = clock_mono_ns();
    archive_close(bench->archive);
    int64_t closed_ns = clock_mono_ns();
    open_archive(bench);
    printf("  \"close_ms\": %.2f,\n  \"open_ms\": %.2f,\n", ms(closed_ns - before_ns),
           ms(clock_mono_ns() - closed_ns));
}

static void bench_get(struct bench *bench, bool want_snapshot)
{
    struct histogram times;

    histogram_init(&times);
    int64_t cpu_ns = clock_cpu_ns();
    for (int i = 0; i < GETS; i++) {
        char id[ID_SIZE];
        struct archive_row row;
        make_id(id, rng_below(&bench->rng, bench->rows_n / 10 * 10));
        struct archive_key key = {BYTES_LITERAL("default"), bytes_of_text(id)};
        arena_reset(&bench->arena);
        int64_t before_ns = clock_mono_ns();
        check(archive_get(bench->archive, key, want_snapshot, &bench->arena, &row), "get");
        histogram_add(&times, (uint64_t)(clock_mono_ns() - before_ns));
    }
    cpu_ns = clock_cpu_ns() - cpu_ns;
    printf("  \"%s\": {\"cpu_us\": %.1f, \"p50_us\": %.1f, \"p99_us\": %.1f},\n",
           want_snapshot ? "get_with_snapshot" : "get", us(cpu_ns) / GETS,
           us((int64_t)histogram_at(&times, 500)), us((int64_t)histogram_at(&times, 990)));
}

static enum status count_hash(void *user, uint64_t hash)
{
    uint64_t *sum = user;
    *sum += hash & 1;
    return OK;
}

static void bench_hashes(struct bench *bench)
{
    uint64_t odd_n = 0;
    int64_t before_ns = clock_cpu_ns();

    check(archive_hashes(bench->archive, count_hash, &odd_n), "hashes");
    printf("  \"hashes_cpu_ms\": %.1f,\n", ms(clock_cpu_ns() - before_ns));
    assert(bench->rows_n < 1000 || odd_n > bench->rows_n / 3);
}

/* What paging needs: the position of the last row. */
struct page {
    uint64_t n;
    int64_t time_ms;
    struct bytes hub;
    struct bytes id;
    char id_text[64];
};

static enum status count_row(void *user, const struct archive_row *row)
{
    struct page *page = user;

    assert(row->id.len < sizeof page->id_text);
    page->n++;
    page->time_ms = row->is_terminal ? row->created_ms : row->wake_ms;
    memcpy(page->id_text, row->id.ptr, row->id.len);
    page->id = bytes_make(page->id_text, row->id.len);
    return OK;
}

static void bench_query(struct bench *bench)
{
    struct page page = {0};
    struct archive_query query = {.hub = BYTES_LITERAL("default"), .limit = QUERY_PAGE};
    int64_t before_ns = clock_cpu_ns();
    int pages_n = 0;

    for (; pages_n < 100; pages_n++) {
        uint64_t n_before = page.n;
        check(archive_query(bench->archive, &query, count_row, &page), "query");
        if (page.n - n_before < QUERY_PAGE) break;
        query.has_after = true;
        query.after_ms = page.time_ms;
        query.after_id = page.id;
    }
    printf("  \"query_page_of_100_cpu_us\": %.0f,\n",
           us(clock_cpu_ns() - before_ns) / (pages_n + 1));
    query =
        (struct archive_query){.hub = BYTES_LITERAL("default"), .limit = 1, .status_mask = 1 << 3};
    page = (struct page){0};
    before_ns = clock_cpu_ns();
    check(archive_query(bench->archive, &query, count_row, &page), "query");
    printf("  \"query_without_match_cpu_ms\": %.0f,\n", ms(clock_cpu_ns() - before_ns));
}

static void bench_sleepers(struct bench *bench)
{
    uint64_t first = bench->rows_n;
    int64_t cpu_ns = 0;
    struct page page = {0};
    struct archive_row after = {.hub = BYTES_LITERAL("default")};

    for (uint64_t done = 0; done < bench->sleepers_n; done += bench->batch_n) {
        uint64_t n = bench->sleepers_n - done;
        cpu_ns +=
            apply_rows(bench, first + done, n < bench->batch_n ? n : bench->batch_n, true, true);
    }
    printf("  \"sleep_cpu_us_per_row\": %.2f,\n", us(cpu_ns) / (double)bench->sleepers_n);

    int64_t before_ns = clock_cpu_ns();
    while (page.n < bench->sleepers_n) {
        uint64_t n_before = page.n;
        check(archive_due(bench->archive, INT64_MAX - 1, n_before == 0 ? NULL : &after, DUE_PAGE,
                          count_row, &page),
              "due");
        assert(page.n > n_before);
        after.wake_ms = page.time_ms;
        after.id = page.id;
    }
    printf("  \"due_random_order_cpu_us_per_row\": %.2f,\n",
           us(clock_cpu_ns() - before_ns) / (double)bench->sleepers_n);

    cpu_ns = 0;
    for (uint64_t done = 0; done < bench->sleepers_n; done += bench->batch_n) {
        uint64_t n = bench->sleepers_n - done;
        cpu_ns +=
            apply_rows(bench, first + done, n < bench->batch_n ? n : bench->batch_n, false, false);
    }
    printf("  \"finish_sleeper_cpu_us_per_row\": %.2f,\n", us(cpu_ns) / (double)bench->sleepers_n);
}

static void bench_purge(struct bench *bench)
{
    uint64_t done = 0;
    int64_t cpu_ns = 0;
    int64_t wall_ns = 0;

    while (done < bench->purge_n) {
        arena_reset(&bench->arena);
        struct archive_key *keys = arena_alloc(&bench->arena, REMOVE_BATCH * sizeof *keys);
        assert(keys != NULL);
        for (uint64_t i = 0; i < REMOVE_BATCH; i++) {
            char id[ID_SIZE];
            make_id(id, done + i);
            keys[i] = (struct archive_key){BYTES_LITERAL("default"),
                                           arena_copy(&bench->arena, bytes_of_text(id))};
        }
        struct archive_batch batch = {
            .removes = keys, .removes_n = REMOVE_BATCH, .applied_lsn = ++bench->lsn};
        int64_t cpu_before_ns = clock_cpu_ns();
        int64_t wall_before_ns = clock_mono_ns();
        apply(bench, &batch);
        cpu_ns += clock_cpu_ns() - cpu_before_ns;
        wall_ns += clock_mono_ns() - wall_before_ns;
        done += REMOVE_BATCH;
    }
    printf("  \"purge\": {\"rows\": %" PRIu64 ", \"cpu_ms\": %.0f, \"wall_ms\": %.0f},\n", done,
           ms(cpu_ns), ms(wall_ns));
}

static void bench_maintain(struct bench *bench)
{
    int64_t before_ns = clock_cpu_ns();
    int64_t longest_ns = 0;
    int calls_n = 0;
    bool did_something = true;

    for (; did_something; calls_n++) {
        int64_t call_ns = clock_mono_ns();
        check(archive_maintain(bench->archive, &did_something), "maintain");
        call_ns = clock_mono_ns() - call_ns;
        if (call_ns > longest_ns) longest_ns = call_ns;
    }
    printf("  \"maintain\": {\"calls\": %d, \"cpu_ms\": %.0f, \"longest_ms\": %.0f},\n", calls_n,
           ms(clock_cpu_ns() - before_ns), ms(longest_ns));
    printf("  \"disk_full_retries\": %" PRIu64 ",\n", bench->nospace_n);
    printf("  \"rss_bytes_at_end\": %" PRIu64 "\n}\n", resident_bytes());
}

static uint64_t number_of(const char *text)
{
    char *end;
    unsigned long long value = strtoull(text, &end, 10);

    if (*end == '\0' && value > 0) return value;
    fprintf(stderr, "bench_archive: '%s' is not a number above 0\n", text);
    exit(2);
}

static void read_options(struct bench *bench, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        uint64_t *value = NULL;
        if (strcmp(argv[i], "--rows") == 0) value = &bench->rows_n;
        if (strcmp(argv[i], "--batch") == 0) value = &bench->batch_n;
        if (strcmp(argv[i], "--sleepers") == 0) value = &bench->sleepers_n;
        if (strcmp(argv[i], "--purge") == 0) value = &bench->purge_n;
        if (value != NULL && i + 1 < argc) {
            *value = number_of(argv[++i]);
        } else {
            bench->root = argv[i];
        }
    }
    if (bench->root != NULL && bench->root[0] != '-' && bench->rows_n >= 10) return;
    fprintf(stderr, "usage: bench_archive [--rows N] [--batch N] [--sleepers N] [--purge N] "
                    "DIRECTORY\n");
    exit(2);
}

int main(int argc, char **argv)
{
    struct bench bench = {
        .rows_n = 1000000, .batch_n = 20000, .sleepers_n = 100000, .purge_n = 100000};

    read_options(&bench, argc, argv);
    rng_init(&bench.rng, 1);
    arena_init(&bench.arena, mem_process(), (size_t)1 << 20);
    check(io_posix_open(bench.root, &bench.io), "directory");
    open_archive(&bench);

    printf("{\n  \"rows\": %" PRIu64 ",\n  \"batch\": %" PRIu64 ",\n", bench.rows_n, bench.batch_n);
    printf("  \"rss_bytes_at_start\": %" PRIu64 ",\n", resident_bytes());
    bench_growth(&bench);
    bench_size(&bench);
    bench_open(&bench);
    bench_get(&bench, false);
    bench_get(&bench, true);
    bench_hashes(&bench);
    bench_query(&bench);
    bench_sleepers(&bench);
    bench_purge(&bench);
    bench_maintain(&bench);

    archive_close(bench.archive);
    arena_release(&bench.arena);
    bench.io->ops->release(bench.io);
    return 0;
}
