/* SPDX-License-Identifier: Apache-2.0
 *
 * norn bench restart: a child process runs the load until enough is finished and is killed with -9
 * in the middle of it; then the time to open its data directory is measured, and that everything
 * under way goes on.
 */
#include "cmd/bench.h"
#include "cmd/bench_report.h"
#include "cmd/command.h"

#include "base/clock.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

struct settings {
    uint64_t finished;
    uint64_t in_flight;
    const char *data;
    bool as_json;
};

static struct bench_load *new_load(const struct settings *s)
{
    struct bench_load *load = mem_take_zero(mem_process(), sizeof *load);
    if (load == NULL) return NULL;
    load->steps = 5;
    load->in_flight = (uint32_t)s->in_flight;
    load->count = UINT64_MAX;
    load->payload = BYTES_LITERAL("\"0123456789abcd\"");
    return load;
}

/* Tells by one byte when enough is finished, and goes on until it is killed. */
static void run_child(const struct settings *s, const char *path, int tell_fd)
{
    struct engine *engine = bench_engine_open(path, 0);
    struct bench_load *load = new_load(s);
    if (engine == NULL || load == NULL || !bench_load_open(load, engine)) _exit(EXIT_CODE_FAILED);
    while (load->finished < s->finished) bench_sleep_ms(10);
    if (write(tell_fd, "x", 1) != 1) _exit(EXIT_CODE_FAILED);
    for (;;) bench_sleep_ms(1000);
}

/* False when the child could not get there. */
static bool load_and_kill(const struct settings *s, const char *path)
{
    int fds[2];
    char byte = 0;
    if (pipe(fds) != 0) return false;
    pid_t child = fork();
    if (child == 0) {
        close(fds[0]);
        run_child(s, path, fds[1]);
    }
    close(fds[1]);
    bool is_there = child > 0 && read(fds[0], &byte, 1) == 1;
    close(fds[0]);
    if (child > 0) {
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
    return is_there;
}

static void report(const struct settings *s, int64_t open_ns, const struct host_stats *opened,
                   uint64_t finished_later, uint64_t rss_bytes)
{
    struct bench_report r;
    struct json *j = &r.json;
    bench_report_begin(&r, "restart");
    put_count(j, "finished", s->finished);
    put_count(j, "in_flight", s->in_flight);
    put_number(j, "open_ms", (double)open_ns / (double)NS_PER_MS);
    put_count(j, "recovered_frames", opened->recovered_frames);
    put_count(j, "instances_hot", opened->instances_hot);
    put_count(j, "instances_archived", opened->instances_archived);
    put_count(j, "finished_after_restart", finished_later);
    put_count(j, "rss_bytes", rss_bytes);
    bench_report_end(&r, s->as_json);
}

/* What was under way at the kill finishes once a worker is there again. */
static int reopen(const struct settings *s, const char *path)
{
    int64_t before_ns = clock_mono_ns();
    struct engine *engine = bench_engine_open(path, 0);
    int64_t open_ns = clock_mono_ns() - before_ns;
    struct bench_load *load = new_load(s);
    struct host_stats opened;
    if (engine == NULL || load == NULL) return EXIT_CODE_FAILED;
    (void)engine_stats(engine, &opened);
    uint64_t rss_bytes = bench_rss_bytes(0);
    load->in_flight = 0;
    load->is_stopping = true;
    if (!bench_load_open(load, engine)) return EXIT_CODE_FAILED;
    bench_wait_archived(engine);
    uint64_t finished = load->finished;
    bench_load_close(load);
    engine_close(engine);
    report(s, open_ns, &opened, finished, rss_bytes);
    bench_load_free(load);
    mem_give(mem_process(), load, sizeof *load);
    return EXIT_CODE_OK;
}

int bench_restart_run(const struct command *command, int argc, char **argv)
{
    struct settings s = {.finished = 1000000, .in_flight = 10000};
    const struct option_spec specs[] = {
        OPTION_NUMBER("finished", "N", "orchestrations finished before the kill", "1000000",
                      &s.finished, 1, 1000000000),
        OPTION_NUMBER("in-flight", "N", "orchestrations under way", "10000", &s.in_flight, 1,
                      BENCH_SLOTS / 2),
        BENCH_OPTIONS(&s.data, &s.as_json),
    };
    int exit_code = EXIT_CODE_OK;
    if (!options_read(command, specs, sizeof specs / sizeof *specs, argc, argv, &exit_code))
        return exit_code;

    struct bench_directory directory;
    if (!bench_directory_open(&directory, s.data)) return EXIT_CODE_FAILED;
    if (load_and_kill(&s, directory.path)) {
        exit_code = reopen(&s, directory.path);
    } else {
        fprintf(stderr, "norn bench restart: the child process did not finish its load\n");
        exit_code = EXIT_CODE_FAILED;
    }
    bench_directory_close(&directory);
    return exit_code;
}
