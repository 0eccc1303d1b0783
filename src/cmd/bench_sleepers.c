/* SPDX-License-Identifier: Apache-2.0
 *
 * norn bench sleepers: puts many instances to sleep on timers that are all due at the same moment,
 * so that they leave memory for the archive; restarts; and measures how long it takes to wake and
 * finish them all.
 */
#include "cmd/bench.h"
#include "cmd/bench_report.h"
#include "cmd/command.h"

#include "base/clock.h"

#include <stdio.h>

struct sleepers {
    struct engine *engine;
    uint64_t count;
    uint64_t due_s; /* after the start */
    int64_t due_ns; /* wall clock */
    const char *data;
    bool as_json;
    /* of the engine's thread */
    struct list pool;
    struct mem mem;
    uint64_t started;
    _Atomic uint64_t asleep;
    _Atomic uint64_t awake;
    _Atomic uint64_t in_flight;
};

struct starter {
    struct list node;
    struct sleepers *sleepers;
    struct request request;
    char key[48];
};

#define STARTS_AT_ONCE 2000u

static void turn(void *user, const struct effect_work *work, struct local_turn *out)
{
    struct sleepers *s = user;
    int32_t progress = bench_progress(work->fresh);
    if (progress == INT32_MIN) return;
    struct action *a = &out->actions[out->actions_n++];
    *a = (struct action){.id = progress + 1};
    if (progress == -1) {
        a->kind = ACTION_CREATE_TIMER;
        a->fire_at_s = s->due_ns / NS_PER_S;
        s->asleep++;
    } else {
        a->kind = ACTION_COMPLETE;
        a->status = STATUS_COMPLETED;
    }
}

static void finished(void *user, struct bytes key)
{
    struct sleepers *s = user;
    (void)key;
    s->awake++;
}

static void start_next(struct sleepers *s);

static void start_done(struct request *request)
{
    struct starter *starter = container_of(request, struct starter, request);
    struct sleepers *s = starter->sleepers;
    bool is_refused = request->status != OK;
    list_push_front(&s->pool, &starter->node);
    s->in_flight--;
    if (is_refused)
        s->started--; /* pushed back: the same number again, from the main thread's next nudge */
    else
        start_next(s);
}

static void start_next(struct sleepers *s)
{
    if (s->started >= s->count) return;
    struct list *node = list_pop_front(&s->pool);
    struct starter *starter = node != NULL ? container_of(node, struct starter, node)
                                           : mem_take_zero(&s->mem, sizeof *starter);
    assert(starter != NULL);
    starter->sleepers = s;
    int len = snprintf(starter->key, sizeof starter->key, "bench/s-%llu",
                       (unsigned long long)s->started++);
    starter->request = (struct request){.kind = REQUEST_START, .done = start_done};
    starter->request.key = bytes_make(starter->key, (size_t)len);
    starter->request.start.name = BYTES_LITERAL("sleeper");
    starter->request.start.reuse = REUSE_IGNORE; /* a number that was counted twice starts once */
    starter->request.start.reuse_mask = UINT32_MAX;
    s->in_flight++;
    if (!engine_post(s->engine, &starter->request)) {
        starter->request.status = E_UNAVAILABLE;
        start_done(&starter->request);
    }
}

static void nudge(void *user)
{
    struct sleepers *s = user;
    while (s->in_flight < STARTS_AT_ONCE && s->started < s->count) start_next(s);
}

static enum status attach(struct sleepers *s, struct local_worker **worker)
{
    struct local_program program = {
        .hub = BYTES_LITERAL("bench"),
        .turn = turn,
        .finished = finished,
        .user = s,
    };
    return local_worker_open(s->engine, &program, worker);
}

static void fall_asleep(struct sleepers *s, bool is_quiet)
{
    int64_t last_ns = clock_mono_ns();
    while (s->asleep < s->count) {
        bench_on_engine(s->engine, nudge, s);
        bench_sleep_ms(20);
        if (!is_quiet && clock_mono_ns() - last_ns > 5 * NS_PER_S) {
            last_ns = clock_mono_ns();
            fprintf(stderr, "asleep: %llu of %llu\n", (unsigned long long)s->asleep,
                    (unsigned long long)s->count);
        }
    }
    bench_wait_archived(s->engine);
}

struct figures {
    double asleep_s;
    uint64_t hot;
    uint64_t rss_bytes;
    uint64_t disk_bytes;
    double restart_ms;
    uint64_t rss_after_bytes;
    double wake_s;
};

static void report(const struct sleepers *s, const struct figures *f)
{
    struct bench_report r;
    struct json *j = &r.json;
    bench_report_begin(&r, "sleepers");
    put_count(j, "count", s->count);
    put_number(j, "asleep_s", f->asleep_s);
    put_count(j, "hot_when_asleep", f->hot);
    put_count(j, "rss_bytes", f->rss_bytes);
    put_count(j, "disk_bytes", f->disk_bytes);
    put_number(j, "restart_ms", f->restart_ms);
    put_count(j, "rss_after_restart_bytes", f->rss_after_bytes);
    put_count(j, "woken", s->awake);
    put_number(j, "wake_s", f->wake_s);
    bench_report_end(&r, s->as_json);
}

static bool sleep_phase(struct sleepers *s, const char *path, struct figures *f)
{
    struct local_worker *worker = NULL;
    struct host_stats stats;
    s->engine = bench_engine_open(path, 1000);
    if (s->engine == NULL || attach(s, &worker) != OK) return false;
    int64_t start_ns = clock_mono_ns();
    fall_asleep(s, s->as_json);
    f->asleep_s = (double)(clock_mono_ns() - start_ns) / (double)NS_PER_S;
    (void)engine_stats(s->engine, &stats);
    f->hot = stats.instances_hot;
    f->rss_bytes = bench_rss_bytes(0);
    local_worker_close(worker);
    engine_close(s->engine);
    local_worker_free(worker);
    f->disk_bytes = bench_disk_bytes(path, "/journal");
    return true;
}

static bool wake_phase(struct sleepers *s, const char *path, struct figures *f)
{
    struct local_worker *worker = NULL;
    int64_t start_ns = clock_mono_ns();
    s->engine = bench_engine_open(path, 1000);
    f->restart_ms = (double)(clock_mono_ns() - start_ns) / (double)NS_PER_MS;
    if (s->engine == NULL || attach(s, &worker) != OK) return false;
    f->rss_after_bytes = bench_rss_bytes(0);
    while (clock_wall_ns() < s->due_ns) bench_sleep_ms(10);
    uint64_t awake = 0;
    int64_t moved_ns = clock_mono_ns();
    /* as long as something still wakes up */
    while (s->awake < s->count && clock_mono_ns() - moved_ns < 60 * NS_PER_S) {
        if (s->awake > awake) moved_ns = clock_mono_ns();
        awake = s->awake;
        bench_sleep_ms(10);
    }
    f->wake_s = (double)(clock_wall_ns() - s->due_ns) / (double)NS_PER_S;
    local_worker_close(worker);
    engine_close(s->engine);
    local_worker_free(worker);
    return true;
}

int bench_sleepers_run(const struct command *command, int argc, char **argv)
{
    struct sleepers s = {.count = 1000000};
    const struct option_spec specs[] = {
        OPTION_NUMBER("count", "N", "instances", "1000000", &s.count, 1, 100000000),
        OPTION_NUMBER("due", "SECONDS", "when all are due, after the start", "COUNT / 8000 + 65",
                      &s.due_s, 1, 1000000),
        BENCH_OPTIONS(&s.data, &s.as_json),
    };
    int exit_code = EXIT_CODE_OK;
    if (!options_read(command, specs, sizeof specs / sizeof *specs, argc, argv, &exit_code))
        return exit_code;

    struct bench_directory directory;
    struct figures figures = {0};
    if (!bench_directory_open(&directory, s.data)) return EXIT_CODE_FAILED;
    mem_init(&s.mem, SIZE_MAX);
    list_init(&s.pool);
    /* what is due within a minute stays in memory: all must sleep before that */
    if (s.due_s == 0) s.due_s = s.count / 8000 + 65;
    s.due_ns = clock_wall_ns() + (int64_t)s.due_s * NS_PER_S;
    bool is_done =
        sleep_phase(&s, directory.path, &figures) && wake_phase(&s, directory.path, &figures);
    if (is_done) report(&s, &figures);
    for (struct list *n = list_pop_front(&s.pool); n != NULL; n = list_pop_front(&s.pool)) {
        mem_give(&s.mem, container_of(n, struct starter, node), sizeof(struct starter));
    }
    mem_release(&s.mem);
    bench_directory_close(&directory);
    return is_done && s.awake == s.count ? EXIT_CODE_OK : EXIT_CODE_FAILED;
}
