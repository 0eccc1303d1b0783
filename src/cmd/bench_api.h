/* SPDX-License-Identifier: Apache-2.0
 *
 * The load of `norn bench engine`: orchestrations of no-op steps as a user of the library writes
 * them. A few threads start them in batches, and wait for a batch before they start the next: the
 * time of each is until its batch was seen to have ended.
 */
#ifndef CMD_BENCH_API_H
#define CMD_BENCH_API_H

#include "base/histogram.h"
#include "base/mem.h"

#include <norn.h>

#include <pthread.h>
#include <stdatomic.h>

#define BENCH_IN_FLIGHT_MAX 65536u
#define BENCH_CLIENTS_N 16u

struct bench_api {
    /* set by the caller */
    uint32_t steps;
    uint32_t in_flight;
    uint64_t count; /* how many in all; UINT64_MAX = until told to stop */
    struct norn_bytes payload;
    /* the rest is its own */
    norn_client *client;
    norn_worker *worker;
    pthread_t threads[BENCH_CLIENTS_N];
    uint32_t threads_n;
    uint32_t clients_n;    /* so many of them there are to be */
    pthread_mutex_t mutex; /* of the two below */
    struct histogram latency_us;
    int64_t hundred_ns[64];    /* when each 100,000th finished */
    _Atomic uint32_t shares_n; /* threads that know how many are theirs */
    _Atomic uint64_t started;
    _Atomic uint64_t finished;
    _Atomic uint64_t failed;
    _Atomic bool is_stopping;
};

/* Opens client and worker and starts the threads; false after a message. */
bool bench_api_open(struct bench_api *b, norn_engine *engine);
/* Waits for all that was started (is_stopping, or count is reached). */
void bench_api_drain(struct bench_api *b);
void bench_api_close(struct bench_api *b);

#endif
