/* SPDX-License-Identifier: Apache-2.0
 *
 * norn-sim: runs the engine in a simulated world, one world per seed.
 *
 *      norn-sim --seed S [--seconds N] [--seeds K] [--log none|short|full] [--calm]
 *               [--check-determinism] [--bug NAME] [--list-bugs]
 *
 * Ends with 0 (all seeds passed), 127 (crash or assertion), 128 (liveness), 129 (safety), 3 (ran
 * out of budget), 2 (usage). A failure prints one line that repeats it.
 */
#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/planted.h"
#include "test/sim/sim_bugs.h"
#include "test/sim/sim_feed.h"
#include "test/sim/sim_import.h"
#include "test/sim/sim_node.h"
#include "test/sim/sim_reply.h"
#include "test/sim/sim_world.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct arguments {
    uint64_t seed;
    uint64_t seeds_n;
    int64_t seconds;
    enum sim_log log;
    bool is_calm;
    bool check_determinism;
    bool is_quiet; /* one line per seed */
};

#ifdef NORN_PLANTED_BUGS
const char *planted_name;

bool planted(const char *name) { return planted_name != NULL && strcmp(planted_name, name) == 0; }
#endif

/* The sanitizers' way of saying "crash". */
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "exitcode=127"; }
const char *__ubsan_default_options(void);
const char *__ubsan_default_options(void) { return "exitcode=127:print_stacktrace=1"; }

/* ---- crashes ---- */

static void failure_line(char *line, unsigned long size)
{
    struct world *w = sim_current;

    if (w == NULL) return;
    (void)snprintf(line, size,
                   "FAIL assertion seed=%llu tick=%llu time=%.6f : make sim SEED=%llu SECONDS=%lld",
                   (unsigned long long)w->options.seed, (unsigned long long)w->moments_n,
                   (double)w->now_ns / 1e9, (unsigned long long)w->options.seed,
                   (long long)(w->options.load_ms / 1000));
}

static void on_signal(int number)
{
    (void)number;
    _exit(SIM_EXIT_CRASH);
}

/* ---- one seed ---- */

static void print_figures(const struct world *w, double cpu_s)
{
    const struct trace *t = &w->trace;
    uint64_t faults = 0;
    uint64_t kinds = 0;

    for (int i = 0; i < SIM_FAULTS_N; i++) {
        faults += w->faults_n[i];
        if (w->faults_n[i] > 0) kinds++;
    }
    printf("seed=%llu ok time=%.1fs events=%llu events/min=%.0f commits=%llu crashes=%llu "
           "comparisons=%llu faults=%llu kinds=%llu moments=%llu hash=%016llx cpu=%.2fs\n",
           (unsigned long long)w->options.seed, (double)w->now_ns / 1e9,
           (unsigned long long)t->steps_n, cpu_s > 0 ? (double)t->steps_n * 60 / cpu_s : 0,
           (unsigned long long)t->frames_n, (unsigned long long)w->crashes_n,
           (unsigned long long)w->checks_n, (unsigned long long)faults, (unsigned long long)kinds,
           (unsigned long long)w->moments_n, (unsigned long long)t->hash, cpu_s);
}

static void print_counters(const struct world *w)
{
    struct core_stats core = {0};
    uint64_t evicted = 0;
    uint64_t loaded = 0;
    uint64_t deferred = 0;
    uint64_t carried = 0;

    printf("injected:");
    for (int i = 0; i < SIM_FAULTS_N; i++) {
        if (w->options.fault_rate[i] == 0) continue;
        printf(" %s=%llu", sim_fault_name((enum sim_fault)i), (unsigned long long)w->faults_n[i]);
    }
    printf("\nsteps:");
    for (int i = INPUT_CLIENT_START; i <= INPUT_SOURCE_POSITION; i++) {
        printf(" %s=%llu", input_name((enum input_kind)i), (unsigned long long)w->trace.input_n[i]);
    }
    for (uint32_t i = 0; i < w->options.shards_n; i++) {
        const struct host_stats *stats = &w->nodes[i]->dead_stats;
        evicted += stats->evicted;
        loaded += stats->loaded;
        deferred += stats->deferred;
        carried += stats->carried;
        core.stale_answers += stats->core.stale_answers;
        core.late_answers += stats->core.late_answers;
        core.duplicate_messages += stats->core.duplicate_messages;
    }
    struct host_stats last;
    host_stats(w->nodes[0]->host, &last);
    printf("\nmemory=%llu evicted=%llu loaded=%llu stale_answers=%llu late_answers=%llu "
           "duplicate_messages=%llu deferred=%llu carried=%llu\n",
           (unsigned long long)last.mem_used, (unsigned long long)evicted,
           (unsigned long long)loaded, (unsigned long long)core.stale_answers,
           (unsigned long long)core.late_answers, (unsigned long long)core.duplicate_messages,
           (unsigned long long)deferred, (unsigned long long)carried);
    printf("fed=%llu imported=%llu replies=%llu\n", (unsigned long long)feeds_taken_n(w->feeds),
           (unsigned long long)mover_imported_n(w->mover),
           (unsigned long long)receiver_heard_n(w->receiver));
}

struct total {
    uint64_t steps;
    uint64_t crashes;
    uint64_t comparisons;
    double sim_s;
    uint64_t faults_n[SIM_FAULTS_N];
};

/* The trace hash of the run. */
static uint64_t run_seed(const struct arguments *a, uint64_t seed, struct total *total)
{
    struct sim_options options;
    int64_t start_ns = clock_cpu_ns();

    sim_options_draw(&options, seed, a->seconds * 1000, a->is_calm);
    if (!a->is_quiet) sim_options_print(&options);
    struct world *w = world_new(&options, a->log);
    world_run(w);
    print_figures(w, (double)(clock_cpu_ns() - start_ns) / 1e9);
    if (!a->is_quiet) print_counters(w);
    (void)fflush(stdout);
    uint64_t hash = w->trace.hash;
    total->steps += w->trace.steps_n;
    total->crashes += w->crashes_n;
    total->comparisons += w->checks_n;
    total->sim_s += (double)w->now_ns / 1e9;
    for (int i = 0; i < SIM_FAULTS_N; i++) total->faults_n[i] += w->faults_n[i];
    world_free(w);
    return hash;
}

static void check_determinism(const struct arguments *a, uint64_t seed, uint64_t hash)
{
    struct total ignored = {0};
    uint64_t again = run_seed(a, seed, &ignored);

    if (again == hash) return;
    printf("FAIL determinism seed=%llu hash=%016llx and %016llx : norn-sim --check-determinism "
           "--seed %llu --seconds %lld\n",
           (unsigned long long)seed, (unsigned long long)hash, (unsigned long long)again,
           (unsigned long long)seed, (long long)a->seconds);
    exit(SIM_EXIT_SAFETY);
}

static void print_total(const struct arguments *a, const struct total *total, double cpu_s)
{
    printf("%llu seeds ok: %.1f simulated days, %llu events, %.0f events/min, %llu crashes, %llu "
           "comparisons\ninjected:",
           (unsigned long long)a->seeds_n, total->sim_s / 86400, (unsigned long long)total->steps,
           (double)total->steps * 60 / cpu_s, (unsigned long long)total->crashes,
           (unsigned long long)total->comparisons);
    for (int i = 0; i < SIM_FAULTS_N; i++) {
        printf(" %s=%llu", sim_fault_name((enum sim_fault)i),
               (unsigned long long)total->faults_n[i]);
    }
    printf("\n");
}

/* ---- arguments ---- */

static _Noreturn void usage(const char *why)
{
    fprintf(stderr,
            "norn-sim: %s\nusage: norn-sim --seed S [--seconds N] [--seeds K] "
            "[--log none|short|full] [--calm] [--check-determinism] [--bug NAME] [--list-bugs]\n",
            why);
    exit(SIM_EXIT_USAGE);
}

static uint64_t parse_number(const char *text)
{
    char *end = NULL;

    errno = 0;
    unsigned long long value = strtoull(text, &end, 0);
    if (errno != 0 || end == text || *end != '\0') usage("not a number");
    return value;
}

static enum sim_log parse_log(const char *text)
{
    if (strcmp(text, "none") == 0) return SIM_LOG_NONE;
    if (strcmp(text, "short") == 0) return SIM_LOG_SHORT;
    if (strcmp(text, "full") == 0) return SIM_LOG_FULL;
    usage("--log takes none, short or full");
}

static const char *const bugs[] = {
#define X(name, text) #name,
    PLANTED_BUGS(X)
#undef X
};

static _Noreturn void list_bugs(void)
{
    for (size_t i = 0; i < sizeof bugs / sizeof bugs[0]; i++) printf("%s\n", bugs[i]);
    exit(SIM_EXIT_OK);
}

static void set_bug(const char *name)
{
#ifdef NORN_PLANTED_BUGS
    for (size_t i = 0; i < sizeof bugs / sizeof bugs[0]; i++) {
        if (strcmp(bugs[i], name) == 0) planted_name = bugs[i];
    }
    if (planted_name == NULL) usage("there is no such bug: see --list-bugs");
#else
    (void)name;
    usage("--bug needs norn-sim-planted");
#endif
}

static void parse(int argc, char **argv, struct arguments *a)
{
    *a = (struct arguments){.seed = 1, .seeds_n = 1, .seconds = 60};
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i];
        if (strcmp(name, "--calm") == 0) {
            a->is_calm = true;
            continue;
        }
        if (strcmp(name, "--check-determinism") == 0) {
            a->check_determinism = true;
            continue;
        }
        if (strcmp(name, "--list-bugs") == 0) list_bugs();
        if (i + 1 == argc) usage("an option wants a value, or is unknown");
        const char *value = argv[++i];
        if (strcmp(name, "--seed") == 0)
            a->seed = parse_number(value);
        else if (strcmp(name, "--seeds") == 0)
            a->seeds_n = parse_number(value);
        else if (strcmp(name, "--seconds") == 0)
            a->seconds = (int64_t)parse_number(value);
        else if (strcmp(name, "--log") == 0)
            a->log = parse_log(value);
        else if (strcmp(name, "--bug") == 0)
            set_bug(value);
        else
            usage("unknown option");
    }
    if (a->seeds_n == 0 || a->seconds <= 0 || a->seconds > 1000000) usage("out of range");
    a->is_quiet = a->seeds_n > 1;
}

int main(int argc, char **argv)
{
    struct arguments a;
    struct total total = {0};

    parse(argc, argv, &a);
    /* What the engine warns about is what the faults do: only errors of the simulator itself
     * matter. */
    log_setup(a.log == SIM_LOG_NONE ? (enum log_level)(LOG_ERROR + 1) : LOG_INFO, LOG_TEXT);
    assert_set_context(failure_line);
    (void)signal(SIGABRT, on_signal);
    int64_t start_ns = clock_cpu_ns();
    for (uint64_t i = 0; i < a.seeds_n; i++) {
        uint64_t hash = run_seed(&a, a.seed + i, &total);
        if (a.check_determinism) check_determinism(&a, a.seed + i, hash);
    }
    if (a.seeds_n > 1) print_total(&a, &total, (double)(clock_cpu_ns() - start_ns) / 1e9);
    return SIM_EXIT_OK;
}
