/* SPDX-License-Identifier: Apache-2.0
 *
 * norn bench grpc: workflows over real connections, from a client through the server to a worker
 * and back, every acknowledgement after fdatasync.
 *
 * The phases: memory of the idle server; with many idle workers; short workflows one at a time;
 * then the load, of which the first half second is not counted. The server's CPU time is read from
 * its process clock around the counted part, so everything it does is in the figure: HTTP/2, the
 * engine, the disk, starts and waits as well as work items.
 */
#include "cmd/bench.h"
#include "cmd/bench_report.h"
#include "cmd/bench_grpc.h"
#include "cmd/command.h"

#include "base/clock.h"

#include <stdio.h>

#define STEPS 5u
#define LOW_STEPS 3u
#define LOW_MS 2000
#define WARM_UP_MS 500
#define SETTLE_MS 500
#define DRAIN_MS 30000
#define WORKERS_MAX 64u

struct settings {
    uint64_t duration;
    uint64_t in_flight;
    uint64_t workers;
    uint64_t idle_workers;
    const char *hub;
    const char *server;
    const char *data;
    bool as_json;
};

struct figures {
    struct histogram fsync_us;
    struct histogram low_us;
    struct histogram latency_us;
    uint64_t rss_idle;
    uint64_t rss_idle_workers;
    uint64_t rss_load;
    int64_t elapsed_ns;
    int64_t server_cpu_ns;
    int64_t own_cpu_ns;
    uint64_t finished;
    uint64_t work_items;
    uint64_t failed; /* workflows and completions */
};

struct bench {
    const struct settings *settings;
    struct figures *figures;
    struct bench_server *server;
    struct client_sockets *sockets;
    struct bench_worker *workers; /* settings->workers */
};

static void turn_for_ms(struct bench *b, int64_t ms)
{
    int64_t end_ns = clock_mono_ns() + ms * NS_PER_MS;
    for (int64_t now_ns = clock_mono_ns(); now_ns < end_ns; now_ns = clock_mono_ns()) {
        client_sockets_turn(b->sockets, (end_ns - now_ns) / NS_PER_MS + 1);
    }
}

static uint64_t work_items(const struct bench *b)
{
    uint64_t n = 0;
    for (uint64_t i = 0; i < b->settings->workers; i++) {
        n += b->workers[i].turns + b->workers[i].tasks;
    }
    return n;
}

/* Something went wrong that makes the figures worthless: says it and answers true. */
static bool has_failed(struct bench *b, const struct bench_flows *flows)
{
    uint64_t errors = 0;
    for (uint64_t i = 0; i < b->settings->workers; i++) {
        errors += b->workers[i].errors;
        if (b->workers[i].errors > 0)
            fprintf(stderr, "norn bench grpc: worker: %s\n", b->workers[i].text);
    }
    if (flows->failed > 0) {
        fprintf(stderr, "norn bench grpc: %llu workflows failed, the last one: %s\n",
                (unsigned long long)flows->failed, flows->text);
    }
    b->figures->failed += errors + flows->failed;
    return errors + flows->failed > 0;
}

/* Ends what was started; false when it does not end. */
static bool drain(struct bench *b, struct bench_flows *flows)
{
    int64_t end_ns = clock_mono_ns() + DRAIN_MS * NS_PER_MS;
    flows->is_stopping = true;
    while (flows->active > 0 && clock_mono_ns() < end_ns) client_sockets_turn(b->sockets, 100);
    if (flows->active == 0) return true;
    fprintf(stderr, "norn bench grpc: %llu workflows have not ended after %d s\n",
            (unsigned long long)flows->active, DRAIN_MS / 1000);
    return false;
}

/* ---- the phases ---- */

static bool measure_idle_workers(struct bench *b)
{
    uint64_t n = b->settings->idle_workers;
    if (n == 0) return true;
    struct bench_worker *idle = mem_take_zero(mem_process(), n * sizeof *idle);
    bool is_open = idle != NULL;
    for (uint64_t i = 0; i < n && is_open; i++) {
        is_open = bench_worker_open(&idle[i], b->sockets, b->server->address, "norn-bench-idle");
    }
    if (is_open) {
        turn_for_ms(b, SETTLE_MS);
        b->figures->rss_idle_workers = bench_server_rss_bytes(b->server);
        for (uint64_t i = 0; i < n && is_open; i++) {
            is_open = idle[i].errors == 0;
            if (!is_open) fprintf(stderr, "norn bench grpc: idle worker: %s\n", idle[i].text);
        }
    }
    for (uint64_t i = 0; i < n && idle != NULL; i++) bench_worker_close(&idle[i]);
    if (idle != NULL) mem_give(mem_process(), idle, n * sizeof *idle);
    return is_open;
}

static bool open_workers(struct bench *b)
{
    for (uint64_t i = 0; i < b->settings->workers; i++) {
        if (!bench_worker_open(&b->workers[i], b->sockets, b->server->address, b->settings->hub))
            return false;
    }
    return true;
}

static bool measure_one_at_a_time(struct bench *b)
{
    struct bench_flows flows = {.steps = LOW_STEPS, .in_flight = 1};
    bool is_good = bench_flows_open(&flows, b->sockets, b->server->address, b->settings->hub);
    if (is_good) {
        turn_for_ms(b, LOW_MS / 10);
        flows.is_counting = true;
        turn_for_ms(b, LOW_MS);
        is_good = drain(b, &flows) && !has_failed(b, &flows);
        b->figures->low_us = flows.latency_us;
    }
    bench_flows_close(&flows);
    return is_good;
}

static void count_load(struct bench *b, struct bench_flows *flows)
{
    struct figures *f = b->figures;
    int64_t server_cpu_ns = bench_server_cpu_ns(b->server);
    int64_t own_cpu_ns = clock_cpu_ns();
    uint64_t items = work_items(b);
    int64_t start_ns = clock_mono_ns();
    int64_t end_ns = start_ns + (int64_t)b->settings->duration * NS_PER_S;
    flows->is_counting = true;
    while (clock_mono_ns() < end_ns && flows->active > 0) client_sockets_turn(b->sockets, 10);
    f->elapsed_ns = clock_mono_ns() - start_ns;
    f->server_cpu_ns = bench_server_cpu_ns(b->server) - server_cpu_ns;
    f->own_cpu_ns = clock_cpu_ns() - own_cpu_ns;
    f->work_items = work_items(b) - items;
    f->finished = flows->finished;
    f->rss_load = bench_server_rss_bytes(b->server);
    flows->is_counting = false;
}

static bool measure_load(struct bench *b)
{
    struct bench_flows flows = {.steps = STEPS, .in_flight = (uint32_t)b->settings->in_flight};
    bool is_good = bench_flows_open(&flows, b->sockets, b->server->address, b->settings->hub);
    if (is_good) {
        turn_for_ms(b, WARM_UP_MS);
        count_load(b, &flows);
        is_good = drain(b, &flows);
        is_good = !has_failed(b, &flows) && is_good;
        b->figures->latency_us = flows.latency_us;
    }
    bench_flows_close(&flows);
    return is_good;
}

/* ---- the report ---- */

static void put_process(struct json *j, const struct settings *s, const struct figures *f)
{
    double items = f->work_items == 0 ? 1 : (double)f->work_items;
    double cpu_us = (double)f->server_cpu_ns / 1000 / items;
    put_number(j, "engine_cpu_us_per_work_item", cpu_us);
    put_number(j, "engine_cores", (double)f->server_cpu_ns / (double)f->elapsed_ns);
    put_count(j, "rss_idle_bytes", f->rss_idle);
    put_count(j, "rss_load_bytes", f->rss_load);
    put_target(j, "target_cpu_25_us_per_work_item", cpu_us <= 25);
    put_target(j, "target_idle_20_mib", f->rss_idle < 20 << 20);
    if (s->idle_workers == 0) return;
    put_count(j, "idle_workers", s->idle_workers);
    put_count(j, "rss_idle_workers_bytes", f->rss_idle_workers);
    if (s->idle_workers >= 1000)
        put_target(j, "target_1000_workers_100_mib", f->rss_idle_workers < 100 << 20);
}

static void report(const struct settings *s, const struct figures *f)
{
    struct bench_report r;
    struct json *j = &r.json;
    double seconds = (double)f->elapsed_ns / (double)NS_PER_S;
    double items = f->work_items == 0 ? 1 : (double)f->work_items;

    bench_report_begin(&r, "grpc");
    put_count(j, "steps", STEPS);
    put_count(j, "in_flight", s->in_flight);
    put_count(j, "workers", s->workers);
    put_number(j, "seconds", seconds);
    put_count(j, "workflows", f->finished);
    put_count(j, "failed", f->failed);
    put_number(j, "workflows_per_s", (double)f->finished / seconds);
    put_number(j, "work_items_per_s", (double)f->work_items / seconds);
    put_number(j, "p50_ms", ms_at(&f->latency_us, 500));
    put_number(j, "p90_ms", ms_at(&f->latency_us, 900));
    put_number(j, "p99_ms", ms_at(&f->latency_us, 990));
    put_count(j, "one_at_a_time_steps", LOW_STEPS);
    put_number(j, "one_at_a_time_p50_ms", ms_at(&f->low_us, 500));
    put_number(j, "one_at_a_time_p99_ms", ms_at(&f->low_us, 990));
    put_number(j, "load_cpu_us_per_work_item", (double)f->own_cpu_ns / 1000 / items);
    put_target(j, "target_3000_workflows_per_s", (double)f->finished / seconds >= 3000);
    put_target(j, "target_one_at_a_time_p50_5_ms", histogram_at(&f->low_us, 500) < 5000);
    if (s->server == NULL) {
        put_process(j, s, f);
        put_fsync(j, &f->fsync_us);
    }
    bench_report_end(&r, s->as_json);
}

/* ---- the whole ---- */

static bool measure(struct bench *b)
{
    uint32_t connections_n = (uint32_t)(b->settings->idle_workers + b->settings->workers +
                                        b->settings->in_flight / BENCH_SLOTS_PER_CONNECTION + 2);
    if (client_sockets_open(mem_process(), connections_n, &b->sockets) != OK) return false;
    turn_for_ms(b, SETTLE_MS);
    b->figures->rss_idle = bench_server_rss_bytes(b->server);
    bool is_good =
        measure_idle_workers(b) && open_workers(b) && measure_one_at_a_time(b) && measure_load(b);
    for (uint64_t i = 0; i < b->settings->workers; i++) bench_worker_close(&b->workers[i]);
    client_sockets_close(b->sockets);
    return is_good;
}

static int run(const struct settings *s)
{
    static struct bench_worker workers[WORKERS_MAX];
    static struct figures figures;
    struct bench_directory directory = {0};
    struct bench_server server = {0};
    char data[600];
    struct bench b = {.settings = s, .figures = &figures, .server = &server, .workers = workers};

    bench_raise_descriptors();
    if (s->server == NULL) {
        if (!bench_directory_open(&directory, s->data)) return EXIT_CODE_FAILED;
        bench_probe_fsync(directory.path, &figures.fsync_us);
        snprintf(data, sizeof data, "%s/data", directory.path);
        if (!bench_server_start(&server, data)) {
            bench_directory_close(&directory);
            return EXIT_CODE_FAILED;
        }
    } else {
        snprintf(server.address, sizeof server.address, "%s", s->server);
    }
    bool is_good = measure(&b);
    is_good = bench_server_stop(&server) && is_good;
    if (s->server == NULL) bench_directory_close(&directory);
    if (is_good) report(s, &figures);
    return is_good ? EXIT_CODE_OK : EXIT_CODE_FAILED;
}

int bench_grpc_run(const struct command *command, int argc, char **argv)
{
    struct settings s = {.duration = 10, .in_flight = 360, .workers = 2, .hub = "norn-bench"};
    const struct option_spec specs[] = {
        OPTION_NUMBER("duration", "SECONDS", "how long the load lasts", "10", &s.duration, 1,
                      86400),
        OPTION_NUMBER("in-flight", "N", "workflows at once", "360", &s.in_flight, 1, 100000),
        OPTION_NUMBER("workers", "N", "connected workers that share the work", "2", &s.workers, 1,
                      WORKERS_MAX),
        OPTION_NUMBER(
            "idle-workers", "N",
            "measure the server's memory with so many more workers that have nothing to do", NULL,
            &s.idle_workers, 0, 20000),
        OPTION_TEXT("hub", "NAME", "task hub", "norn-bench", &s.hub),
        OPTION_TEXT("server", "ADDRESS", "measure a server that runs already instead of an own one",
                    NULL, &s.server),
        BENCH_OPTIONS(&s.data, &s.as_json),
    };
    int exit_code = EXIT_CODE_OK;
    if (!options_read(command, specs, sizeof specs / sizeof *specs, argc, argv, &exit_code))
        return exit_code;
    return run(&s);
}
