/* SPDX-License-Identifier: Apache-2.0
 *
 * norn bench ingest: durable starts over HTTP/1.1, at a rate that does not depend on the server
 * (open loop), with a spike in the middle, or flat out; singly or in batches; with or without
 * workers that complete every instance. Afterwards every acknowledged id is read back.
 *
 * With --yardstick the same load first goes to a bare loop that does no more than any durable
 * server must (test/bench/bare_loop.c), so that the figures can be read on any machine.
 */
#include "cmd/bench_ingest.h"

#include "base/clock.h"
#include "cmd/bench.h"
#include "cmd/bench_ingest_report.h"
#include "cmd/command.h"

#include <stdio.h>
#include <stdlib.h>

#define WATCH_MS 50
#define ASK_EVERY_MS 500
#define DRAIN_STILL_MS 10000 /* workers that make no progress for so long have nothing more to do */

struct options {
    uint64_t rate;
    uint64_t duration;
    uint64_t connections;
    uint64_t depth;
    uint64_t batch;
    uint64_t body_bytes;
    uint64_t workers;
    uint64_t service_ms;
    const char *spike;
    const char *hub;
    const char *server;
    const char *yardstick;
    const char *data;
    bool is_flat_out;
    bool is_unchecked;
    bool as_json;
};

/* ---- one run against one server ---- */

/* Looks at the server while the load lasts. */
static void watch(struct ingest_load *load, const struct bench_server *server,
                  struct ingest_reader *reader, struct ingest_run *run)
{
    int64_t ask_ns = 0;
    while (!load->is_done) {
        uint64_t rss = bench_server_rss_bytes(server);
        if (rss > run->rss_max) run->rss_max = rss;
        if (clock_mono_ns() >= ask_ns) {
            struct ingest_backlog now = ingest_ask_backlog(reader);
            if (now.waiting_n > run->backlog_max) run->backlog_max = now.waiting_n;
            if (now.oldest_age_ms > run->oldest_age_ms) run->oldest_age_ms = now.oldest_age_ms;
            ask_ns = clock_mono_ns() + ASK_EVERY_MS * NS_PER_MS;
        }
        bench_sleep_ms(WATCH_MS);
    }
}

/* Until everything that was acknowledged is completed, or nothing moves any more. */
static void drain(const struct ingest_load *load, struct ingest_crowd *crowd,
                  const struct bench_server *server, struct ingest_run *run)
{
    int64_t still_ms = 0;
    uint64_t before = crowd->completed;
    while (crowd->completed < load->acked && still_ms < DRAIN_STILL_MS) {
        bench_sleep_ms(WATCH_MS);
        uint64_t rss = bench_server_rss_bytes(server);
        if (rss > run->rss_max) run->rss_max = rss;
        still_ms = crowd->completed > before ? 0 : still_ms + WATCH_MS;
        before = crowd->completed;
    }
    run->completed = crowd->completed;
    if (run->completed >= load->acked) run->drained_ns = clock_mono_ns() - load->start_ns;
}

static bool run_load(const struct ingest_settings *settings, const struct bench_server *server,
                     const struct options *o, struct ingest_run *run)
{
    struct ingest_target target;
    struct ingest_crowd crowd;
    struct ingest_reader reader;
    struct mem mem; /* mem_process() is the crowd's while it works */
    run->backlog_max = run->oldest_age_ms = -1;
    if (!ingest_target_find(&target, server->address)) return false;
    if (!ingest_crowd_start(&crowd, target.text, settings->hub, run->workers_n,
                            (int64_t)run->service_ms * NS_PER_MS)) {
        ingest_crowd_stop(&crowd);
        return false;
    }
    bool is_good = ingest_load_start(&run->load, settings, &target);
    mem_init(&mem, SIZE_MAX);
    ingest_reader_init(&reader, &target, &mem);
    if (is_good) {
        int64_t server_cpu_ns = bench_server_cpu_ns(server);
        watch(&run->load, server, &reader, run);
        ingest_load_wait(&run->load);
        run->elapsed_ns = clock_mono_ns() - run->load.start_ns;
        run->server_cpu_ns = bench_server_cpu_ns(server) - server_cpu_ns;
        run->completed_in_time = crowd.completed;
        if (run->workers_n > 0) drain(&run->load, &crowd, server, run);
    }
    ingest_crowd_stop(&crowd);
    run->crowd_cpu_ns = crowd.cpu_ns;
    run->crowd_errors = crowd.errors;
    if (crowd.errors > 0) fprintf(stderr, "norn bench ingest: worker: %s\n", crowd.text);
    if (is_good && !o->is_unchecked) {
        is_good = ingest_check_run(&run->load, &reader, &run->check);
        run->is_checked = is_good;
    }
    ingest_reader_release(&reader);
    mem_release(&mem);
    return is_good;
}

/* program NULL: this one's server; or the one that runs already. */
static bool run_server(const struct ingest_settings *settings, const struct options *o,
                       const char *program, struct ingest_run *run)
{
    struct bench_directory directory = {0};
    struct bench_server server = {0};
    char data[600];
    bool is_ours = program != NULL || o->server == NULL;
    if (is_ours) {
        if (!bench_directory_open(&directory, o->data)) return false;
        bench_probe_fsync(directory.path, &run->fsync_us);
        snprintf(data, sizeof data, "%s/data", directory.path);
        if (!bench_server_start_other(&server, program, data)) {
            bench_directory_close(&directory);
            return false;
        }
    } else {
        snprintf(server.address, sizeof server.address, "%s", o->server);
    }
    bool is_good = run_load(settings, &server, o, run);
    is_good = bench_server_stop(&server) && is_good;
    if (is_ours) bench_directory_close(&directory);
    run->is_ours = is_ours;
    return is_good;
}

/* ---- the whole ---- */

/* "50000:10". */
static bool read_spike(const char *text, struct ingest_phase *out)
{
    char *end = NULL;
    unsigned long long rate = strtoull(text, &end, 10);
    unsigned long long seconds = *end == ':' ? strtoull(end + 1, &end, 10) : 0;
    if (*end != '\0' || rate == 0 || rate > 10000000 || seconds == 0 || seconds > 3600) {
        fprintf(stderr, "norn bench ingest: --spike %s: give RATE:SECONDS, for example 50000:10\n",
                text);
        return false;
    }
    *out = (struct ingest_phase){.rate = rate, .length_ns = (int64_t)seconds * NS_PER_S};
    return true;
}

/* Requests instead of starts, one for each full batch. */
static bool make_plan(const struct options *o, struct ingest_plan *plan)
{
    uint64_t starts_n = o->batch == 0 ? 1 : o->batch;
    struct ingest_phase steady = {.rate = o->rate, .length_ns = (int64_t)o->duration * NS_PER_S};
    plan->phases[0] = plan->phases[2] = steady;
    plan->phases_n = 1;
    if (o->spike != NULL) {
        if (!read_spike(o->spike, &plan->phases[1])) return false;
        plan->phases_n = 3;
    }
    for (unsigned n = 0; n < plan->phases_n; n++) {
        plan->phases[n].rate /= starts_n;
        if (plan->phases[n].rate == 0) plan->phases[n].rate = 1;
    }
    if (!o->is_flat_out && ingest_plan_count(plan) * starts_n > INGEST_STARTS_MAX) {
        fprintf(stderr, "norn bench ingest: more than %llu starts; make it shorter\n",
                (unsigned long long)INGEST_STARTS_MAX);
        return false;
    }
    return true;
}

static int run(const struct options *o)
{
    static struct ingest_run yardstick;
    static struct ingest_run server;
    struct ingest_settings settings = {
        .is_flat_out = o->is_flat_out,
        .connections = (uint32_t)o->connections,
        .depth = (uint32_t)o->depth,
        .batch = (uint32_t)o->batch,
        .body_bytes = (uint32_t)o->body_bytes,
        .hub = o->hub,
        .name = BENCH_NAME,
    };
    if (!make_plan(o, &settings.plan)) return EXIT_CODE_USAGE;
    bench_raise_descriptors();
    bool has_yardstick = o->yardstick != NULL;
    if (has_yardstick && !run_server(&settings, o, o->yardstick, &yardstick))
        return EXIT_CODE_FAILED;
    server.workers_n = (uint32_t)o->workers;
    server.service_ms = o->service_ms;
    bool is_good = run_server(&settings, o, NULL, &server);
    if (is_good) {
        ingest_report(&server, has_yardstick ? &yardstick : NULL, o->as_json);
        is_good = server.load.acked > 0 && server.check.lost == 0;
    }
    if (server.load.text[0] != '\0')
        fprintf(stderr, "norn bench ingest: the first error: %s\n", server.load.text);
    if (has_yardstick) ingest_load_free(&yardstick.load);
    if (server.load.acked_bits != NULL) ingest_load_free(&server.load);
    return is_good ? EXIT_CODE_OK : EXIT_CODE_FAILED;
}

int bench_ingest_run(const struct command *command, int argc, char **argv)
{
    struct options o = {.rate = 10000,
                        .duration = 10,
                        .connections = 512,
                        .depth = 1,
                        .body_bytes = 300,
                        .hub = "norn-bench"};
    const struct option_spec specs[] = {
        OPTION_NUMBER("rate", "N", "starts per second, sent whether or not the server keeps up",
                      "10000", &o.rate, 1, 10000000),
        OPTION_TEXT("spike", "RATE:SECONDS",
                    "then so many for so long, then --duration at --rate again", NULL, &o.spike),
        OPTION_FLAG("max", "flat out: each answer is followed by the next request at once",
                    &o.is_flat_out),
        OPTION_NUMBER("duration", "SECONDS", "how long the load lasts", "10", &o.duration, 1,
                      86400),
        OPTION_NUMBER("connections", "N", "kept open", "512", &o.connections, 1,
                      INGEST_CONNECTIONS_MAX),
        OPTION_NUMBER("depth", "N", "requests under way on one connection (pipelining)", "1",
                      &o.depth, 1, INGEST_DEPTH_MAX),
        OPTION_NUMBER("batch", "N", "starts in one request, through instances:batch; 0 = singly",
                      "0", &o.batch, 0, INGEST_BATCH_MAX),
        OPTION_NUMBER("body-bytes", "N", "size of a start", "300", &o.body_bytes, 1, 1 << 20),
        OPTION_NUMBER("workers", "N", "connected workers that complete every instance at once", "0",
                      &o.workers, 0, INGEST_WORKERS_MAX),
        OPTION_NUMBER(
            "service-ms", "N",
            "with --workers: each instance has one step, of a mock service that takes so long", "0",
            &o.service_ms, 0, 600000),
        OPTION_TEXT(
            "hub", "NAME",
            "task hub; its orchestrations are completed by --workers, so take one of its own",
            "norn-bench", &o.hub),
        OPTION_TEXT("server", "URL", "measure a server that runs already instead of an own one",
                    NULL, &o.server),
        OPTION_TEXT("yardstick", "PROGRAM", "the same load on this bare loop first, and compare",
                    NULL, &o.yardstick),
        OPTION_FLAG("no-verify", "do not read the ids back afterwards", &o.is_unchecked),
        BENCH_OPTIONS(&o.data, &o.as_json),
    };
    int exit_code = EXIT_CODE_OK;
    if (!options_read(command, specs, sizeof specs / sizeof *specs, argc, argv, &exit_code))
        return exit_code;
    return run(&o);
}
