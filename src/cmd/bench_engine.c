/* SPDX-License-Identifier: Apache-2.0
 *
 * norn bench engine: orchestrations of no-op steps through the library with its embedded engine,
 * every acknowledgement after fdatasync.
 */
#include "cmd/bench.h"
#include "cmd/bench_report.h"
#include "cmd/bench_api.h"
#include "cmd/bench_resume.h"
#include "cmd/command.h"

#include "base/clock.h"
#include "base/mem.h"
#include "lib/client.h"

#include <stdio.h>

struct settings {
    uint64_t steps;
    uint64_t in_flight;
    uint64_t payload;
    uint64_t duration;
    uint64_t count;
    const char *data;
    bool as_json;
};

struct figures {
    int64_t elapsed_ns;
    int64_t cpu_ns;
    uint64_t finished;
    uint64_t rss_bytes;
    uint64_t disk_bytes;
    int64_t archived_ns; /* until everything finished was in the archive, after the load */
    struct host_stats stats;
    struct histogram fsync_us;
    struct bench_resume resume;
};

/* Completions per second of each 100,000: shows a slow-down where there is one. */
static void put_hundreds(struct json *j, const struct bench_api *load, int64_t start_ns)
{
    json_key(j, "per_s_of_each_100000");
    json_array_begin(j);
    for (size_t n = 0; n < 64 && load->hundred_ns[n] != 0; n++) {
        int64_t before_ns = n == 0 ? start_ns : load->hundred_ns[n - 1];
        json_uint64(
            j, (uint64_t)(100000.0 * (double)NS_PER_S / (double)(load->hundred_ns[n] - before_ns)));
    }
    json_array_end(j);
}

static void report(const struct settings *s, const struct bench_api *load, const struct figures *f,
                   int64_t start_ns)
{
    struct bench_report r;
    struct json *j = &r.json;
    double seconds = (double)f->elapsed_ns / (double)NS_PER_S;
    double n = f->finished == 0 ? 1 : (double)f->finished;

    bench_report_begin(&r, "engine");
    put_count(j, "steps", s->steps);
    put_count(j, "in_flight", s->in_flight);
    put_count(j, "client_threads", load->clients_n);
    put_count(j, "payload_bytes", s->payload);
    put_number(j, "seconds", seconds);
    put_count(j, "orchestrations", f->finished);
    put_count(j, "refused_starts", load->failed);
    put_number(j, "orchestrations_per_s", (double)f->finished / seconds);
    /* start, then a turn for it and for each step */
    put_number(j, "checkpoints_per_s", (double)f->finished * (double)(s->steps + 2) / seconds);
    put_number(j, "p50_ms", (double)histogram_at(&load->latency_us, 500) / 1000);
    put_number(j, "p99_ms", (double)histogram_at(&load->latency_us, 990) / 1000);
    put_fsync(j, &f->fsync_us);
    put_count(j, "rss_bytes", f->rss_bytes);
    put_number(j, "disk_bytes_per_orchestration", (double)f->disk_bytes / n);
    put_number(j, "cpu_us_per_orchestration", (double)f->cpu_ns / 1000 / n);
    put_number(j, "journal_bytes_per_orchestration", (double)f->stats.frame_bytes / n);
    put_number(j, "frames_per_s", (double)f->stats.frames / seconds);
    put_number(j, "archived_after_ms", (double)f->archived_ns / (double)NS_PER_MS);
    put_number(j, "resume_us", f->resume.resume_us);
    put_number(j, "replay_10k_ms", f->resume.replay_10k_ms);
    put_hundreds(j, load, start_ns);
    bench_report_end(&r, s->as_json);
}

static void run_load(const struct settings *s, struct bench_api *load, struct figures *f,
                     int64_t start_ns)
{
    int64_t end_ns = start_ns + (int64_t)s->duration * NS_PER_S;
    while (load->finished < load->count && (s->count > 0 || clock_mono_ns() < end_ns)) {
        bench_sleep_ms(20);
    }
    f->elapsed_ns = clock_mono_ns() - start_ns;
    f->finished = load->finished;
    f->rss_bytes = bench_rss_bytes(0);
}

static int measure(const struct settings *s, norn_engine *engine, const char *path,
                   struct figures *f)
{
    static uint8_t payload[1 << 20];
    struct bench_api *load = mem_take_zero(mem_process(), sizeof *load);
    if (load == NULL) return EXIT_CODE_FAILED;
    memset(payload, 'x', sizeof payload);
    payload[0] = '"';
    if (s->payload > 1) payload[s->payload - 1] = '"';
    load->steps = (uint32_t)s->steps;
    load->in_flight = (uint32_t)s->in_flight;
    load->count = s->count > 0 ? s->count : UINT64_MAX;
    load->payload = (struct norn_bytes){payload, s->payload};

    int64_t cpu_ns = clock_cpu_ns();
    int64_t start_ns = clock_mono_ns();
    if (!bench_api_open(load, engine)) return EXIT_CODE_FAILED;
    run_load(s, load, f, start_ns);
    load->is_stopping = true;
    bench_api_drain(load);
    int64_t drained_ns = clock_mono_ns();
    bench_wait_archived(engine->engine);
    f->archived_ns = clock_mono_ns() - drained_ns;
    /* all that was started has been finished and archived by now: its whole price */
    f->cpu_ns =
        (int64_t)((double)(clock_cpu_ns() - cpu_ns) * (double)f->finished / (double)load->finished);
    (void)engine_stats(engine->engine, &f->stats);
    bench_api_close(load);
    norn_engine_close(engine);
    f->disk_bytes = (uint64_t)((double)bench_disk_bytes(path, "/journal") * (double)f->finished /
                               (double)load->finished);
    report(s, load, f, start_ns);
    mem_give(mem_process(), load, sizeof *load);
    return EXIT_CODE_OK;
}

int bench_engine_run(const struct command *command, int argc, char **argv)
{
    struct settings s = {.steps = 5, .in_flight = 1000, .payload = 16, .duration = 10};
    const struct option_spec specs[] = {
        OPTION_NUMBER("steps", "N", "activities in a row", "5", &s.steps, 1, 10000),
        OPTION_NUMBER("in-flight", "N", "orchestrations at once, in batches of 16 threads", "1000",
                      &s.in_flight, 1, BENCH_IN_FLIGHT_MAX),
        OPTION_NUMBER("payload", "BYTES", "input and result of each step", "16", &s.payload, 2,
                      1 << 20),
        OPTION_NUMBER("duration", "SECONDS", "how long", "10", &s.duration, 1, 86400),
        OPTION_NUMBER("count", "N", "so many instead of a time", NULL, &s.count, 1, UINT64_MAX / 2),
        BENCH_OPTIONS(&s.data, &s.as_json),
    };
    int exit_code = EXIT_CODE_OK;
    if (!options_read(command, specs, sizeof specs / sizeof *specs, argc, argv, &exit_code))
        return exit_code;

    struct bench_directory directory;
    struct figures figures = {0};
    if (!bench_directory_open(&directory, s.data)) return EXIT_CODE_FAILED;
    bench_probe_fsync(directory.path, &figures.fsync_us);
    (void)bench_resume_measure(&figures.resume);
    norn_engine *engine = bench_library_open(directory.path);
    exit_code = engine == NULL ? EXIT_CODE_FAILED : measure(&s, engine, directory.path, &figures);
    bench_directory_close(&directory);
    return exit_code;
}
