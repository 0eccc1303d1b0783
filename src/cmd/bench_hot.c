/* SPDX-License-Identifier: Apache-2.0
 *
 * norn bench hot: how much memory orchestrators take that wait, ready to go on: each with a part of
 * its stack in use. More of them than may be hot: the others must take none. Some are woken then,
 * and must find what they left on their stacks.
 */
#include "cmd/bench.h"
#include "cmd/bench_report.h"
#include "cmd/bench_resume.h"
#include "cmd/command.h"

#include "base/clock.h"
#include "base/mem.h"

#include <norn.h>

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define BATCH_N 1000u
#define FRAME_SIZE 1024u
#define FRAME_MAX 12288u
#define WAIT_STEP_MS 20

struct hot_bench {
    uint64_t count;
    uint64_t hot_max;
    uint64_t stack;
    uint64_t frame;
    uint64_t wake;
    const char *data;
    bool as_json;
    norn_client *client;
    norn_worker *worker;
    _Atomic uint64_t waiting_n;
    uint64_t right_n; /* of those that were woken */
    int64_t started_ns;
    int64_t woken_ns;
    uint64_t rss_before;
    uint64_t rss_hot;
};

/* As many frames of a KiB as it takes; each must be what it was after the wait. */
__attribute__((noinline)) static norn_status wait_at(norn_context *ctx, struct hot_bench *b,
                                                     unsigned char seed, uint64_t depth)
{
    volatile unsigned char own[FRAME_SIZE];
    norn_status status = NORN_OK;

    for (size_t n = 0; n < sizeof own; n++) own[n] = (unsigned char)(seed + n);
    if (depth > 1) {
        status = wait_at(ctx, b, (unsigned char)(seed + 1), depth - 1);
    } else {
        if (!norn_here(ctx)->is_replaying) atomic_fetch_add(&b->waiting_n, 1);
        status = norn_wait_event(ctx, "go", -1, NULL);
    }
    for (size_t n = 0; n < sizeof own; n++) {
        if (own[n] != (unsigned char)(seed + n)) return NORN_E_CORRUPT;
    }
    return status;
}

static norn_status wait_hot(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                            void *user)
{
    struct hot_bench *b = user;
    unsigned char seed = (unsigned char)strtoul(norn_here(ctx)->id + 2, NULL, 10);

    (void)input;
    *output = norn_text("\"here\"");
    return wait_at(ctx, b, seed, (b->frame + FRAME_SIZE - 1) / FRAME_SIZE);
}

static bool open_all(struct hot_bench *b, norn_engine *engine)
{
    struct norn_client_options client = NORN_CLIENT_OPTIONS;
    struct norn_worker_options worker = NORN_WORKER_OPTIONS;

    client.engine = engine;
    worker.hot_max = (uint32_t)b->hot_max;
    worker.stack_size = b->stack;
    worker.threads = 1;
    return norn_client_open(&client, &b->client) == NORN_OK &&
           norn_worker_open(b->client, &worker, &b->worker) == NORN_OK &&
           norn_orchestrator(b->worker, "hot", NULL, wait_hot, b) == NORN_OK &&
           norn_worker_start(b->worker) == NORN_OK;
}

/* ---- starting and waking ---- */

struct lent {
    struct norn_start_options options;
    char id[24];
};

static bool start_batch(struct hot_bench *b, uint64_t first, uint32_t n)
{
    static struct norn_job jobs[BATCH_N];
    static struct lent own[BATCH_N];

    for (uint32_t i = 0; i < n; i++) {
        (void)snprintf(own[i].id, sizeof own[i].id, "h-%llu", (unsigned long long)(first + i));
        own[i].options = (struct norn_start_options)NORN_START_OPTIONS;
        own[i].options.id = own[i].id;
        jobs[i] = (struct norn_job){.name = "hot", .options = &own[i].options};
    }
    norn_status status = norn_start_many(b->client, jobs, n);
    while (status == NORN_E_LIMIT) { /* the engine makes room: idle instances leave its memory */
        uint32_t left_n = 0;
        bench_sleep_ms(WAIT_STEP_MS);
        for (uint32_t i = 0; i < n; i++) {
            if (jobs[i].status != NORN_OK) jobs[left_n++] = jobs[i];
        }
        n = left_n;
        status = norn_start_many(b->client, jobs, n);
    }
    return status == NORN_OK;
}

static bool start_all(struct hot_bench *b)
{
    for (uint64_t n = 0; n < b->count; n += BATCH_N) {
        uint64_t left = b->count - n;
        if (!start_batch(b, n, left < BATCH_N ? (uint32_t)left : BATCH_N)) return false;
    }
    while (b->waiting_n < b->count) bench_sleep_ms(WAIT_STEP_MS);
    return true;
}

/* The last ones, which are hot, and as many of the first, which are not if there were too many. */
static bool wake_some(struct hot_bench *b)
{
    uint64_t wake_n = b->wake < b->count ? b->wake : b->count;

    for (uint64_t n = 0; n < wake_n; n++) {
        char id[24];
        uint64_t number = n % 2 == 0 ? b->count - 1 - n / 2 : n / 2;
        (void)snprintf(id, sizeof id, "h-%llu", (unsigned long long)number);
        struct norn_info *info = NULL;
        if (norn_raise(b->client, id, "go", NORN_NONE) != NORN_OK) return false;
        if (norn_get(b->client, id, -1, &info) != NORN_OK) return false;
        if (info->state == NORN_COMPLETED) b->right_n++;
        norn_info_free(info);
    }
    return b->right_n == wake_n;
}

static bool measure(struct hot_bench *b, norn_engine *engine)
{
    int64_t began_ns = clock_mono_ns();

    b->rss_before = bench_rss_bytes(0);
    if (!open_all(b, engine) || !start_all(b)) return false;
    b->started_ns = clock_mono_ns() - began_ns;
    b->rss_hot = bench_rss_bytes(0);
    began_ns = clock_mono_ns();
    bool is_right = wake_some(b);
    b->woken_ns = clock_mono_ns() - began_ns;
    return is_right;
}

static void report(const struct hot_bench *b, const struct bench_resume *resume)
{
    struct bench_report r;
    struct json *j = &r.json;
    uint64_t hot_n = b->count < b->hot_max ? b->count : b->hot_max;

    bench_report_begin(&r, "hot");
    put_count(j, "instances", b->count);
    put_count(j, "hot_max", b->hot_max);
    put_count(j, "stack_bytes", b->stack);
    put_count(j, "frame_bytes", b->frame);
    put_count(j, "rss_bytes", b->rss_hot);
    put_number(j, "rss_bytes_per_hot", (double)(b->rss_hot - b->rss_before) / (double)hot_n);
    put_number(j, "starts_per_s", (double)b->count * (double)NS_PER_S / (double)b->started_ns);
    put_count(j, "woken", b->right_n);
    put_number(j, "woken_ms_each",
               b->right_n == 0 ? 0 : (double)b->woken_ns / (double)NS_PER_MS / (double)b->right_n);
    put_number(j, "resume_us", resume->resume_us);
    put_number(j, "replay_10k_ms", resume->replay_10k_ms);
    bench_report_end(&r, b->as_json);
}

static int run(struct hot_bench *b, const char *directory)
{
    struct bench_resume resume = {0};

    if (!bench_resume_measure(&resume)) return EXIT_CODE_FAILED;
    norn_engine *engine = bench_library_open(directory);
    if (engine == NULL) return EXIT_CODE_FAILED;
    bool is_right = measure(b, engine);
    if (is_right)
        report(b, &resume);
    else
        fprintf(stderr, "norn bench hot: an instance is not what it should be: %s\n",
                norn_client_error(b->client));
    norn_worker_close(b->worker);
    norn_client_close(b->client);
    norn_engine_close(engine);
    return is_right ? EXIT_CODE_OK : EXIT_CODE_FAILED;
}

int bench_hot_run(const struct command *command, int argc, char **argv)
{
    struct hot_bench b = {
        .count = 100000, .hot_max = 100000, .stack = 16384, .frame = 1024, .wake = 1000};
    const struct option_spec specs[] = {
        OPTION_NUMBER("count", "N", "orchestrators that wait", "100000", &b.count, 1, 100000000),
        OPTION_NUMBER("hot-max", "N", "so many of them ready to go on", "100000", &b.hot_max, 1,
                      10000000),
        OPTION_NUMBER("stack", "BYTES", "of each", "16384", &b.stack, 16384, 1 << 20),
        OPTION_NUMBER("frame", "BYTES", "of it in use, rounded up to 1024", "1024", &b.frame, 1,
                      FRAME_MAX),
        OPTION_NUMBER("wake", "N", "so many are woken in the end", "1000", &b.wake, 0, 1000000),
        BENCH_OPTIONS(&b.data, &b.as_json),
    };
    int exit_code = EXIT_CODE_OK;
    if (!options_read(command, specs, sizeof specs / sizeof *specs, argc, argv, &exit_code))
        return exit_code;

    struct bench_directory directory;
    if (!bench_directory_open(&directory, b.data)) return EXIT_CODE_FAILED;
    exit_code = run(&b, directory.path);
    bench_directory_close(&directory);
    return exit_code;
}
