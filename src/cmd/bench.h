/* SPDX-License-Identifier: Apache-2.0
 *
 * What the benchmarks share: a data directory, the load, and the figures of machine and disk.
 */
#ifndef CMD_BENCH_H
#define CMD_BENCH_H

#include "base/histogram.h"
#include "base/mem.h"
#include "cmd/local_worker.h"

#include <norn.h>

#include <stdatomic.h>
#include <sys/types.h>

/* The directory for the data: the one given, or a fresh one below the working directory, removed at
 * the end. */
struct bench_directory {
    char path[512];
    bool is_ours;
};
/* False after a message. A given directory must be new or empty. */
bool bench_directory_open(struct bench_directory *d, const char *given);
void bench_directory_close(struct bench_directory *d);

/* The options that all have. */
#define BENCH_OPTIONS(data, as_json)                                                               \
    OPTION_TEXT("data", "DIR", "where; a new directory here, removed afterwards, if not given",    \
                NULL, data),                                                                       \
        OPTION_FLAG("json", "one JSON object", as_json)

/* Bytes allocated for all files below path, without those whose path contains `except`. */
uint64_t bench_disk_bytes(const char *path, const char *except);
/* Resident memory of a process now; 0: of this one. */
uint64_t bench_rss_bytes(pid_t pid);
/* As many open files as the system allows: one for each connection on either side. */
void bench_raise_descriptors(void);
/* write + fdatasync of 4 KiB in path, some hundred times, in microseconds: what the disk itself can
 * do. */
void bench_probe_fsync(const char *path, struct histogram *out);

/* The engine with its own interface, and as a program has it by <norn.h>, with the usual settings
 * (idle_evict_ms 0: that one too). NULL after a message. */
struct engine *bench_engine_open(const char *path, int64_t idle_evict_ms);
norn_engine *bench_library_open(const char *path);

/* ---- the load: instances "b-<number>" of "bench", so many steps each, so many at once ---- */

#define BENCH_SLOTS (1u << 20) /* more than can be in flight */

struct bench_load {
    struct engine *engine;
    uint32_t steps;
    uint32_t in_flight;
    uint64_t count;       /* how many in all; UINT64_MAX = until told to stop */
    struct bytes payload; /* input and result of everything */
    /* of the engine's thread */
    uint64_t started;
    struct list pool;
    struct mem mem;
    int64_t *started_ns;         /* BENCH_SLOTS, by number */
    struct histogram latency_us; /* from the start being posted to the completion being durable */
    int64_t hundred_ns[64];      /* when each 100,000th finished */
    /* read by others */
    _Atomic uint64_t finished;
    _Atomic uint64_t failed; /* starts that were refused for good */
    _Atomic bool is_stopping;
    struct local_worker *worker;
};

/* Attaches a worker and starts the first in_flight; each completion starts another. */
bool bench_load_open(struct bench_load *load, struct engine *engine);
/* Waits until what was started has finished (is_stopping, or count is reached). */
void bench_load_drain(struct bench_load *load);
/* The worker leaves; then close the engine; then free. */
void bench_load_close(struct bench_load *load);
void bench_load_free(struct bench_load *load);

/* Calls fn on the engine's thread and waits until it has returned. */
void bench_on_engine(struct engine *engine, void (*fn)(void *user), void *user);
/* Waits until everything finished is in the archive. */
void bench_wait_archived(struct engine *engine);

/* The next event of strings that says what to do: -1 for ExecutionStarted, else the task or timer
 * that has ended; INT32_MIN when there is none. */
int32_t bench_progress(struct bytes fresh);

void bench_sleep_ms(int64_t ms);

#endif
