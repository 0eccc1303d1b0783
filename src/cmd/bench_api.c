/* SPDX-License-Identifier: Apache-2.0
 *
 * See bench_api.h.
 */
#include "cmd/bench_api.h"

#include "base/clock.h"

#include <stdio.h>

static norn_status run_steps(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                             void *user)
{
    const struct bench_api *b = user;
    struct norn_bytes value = input;
    norn_status status = NORN_OK;

    for (uint32_t n = 0; n < b->steps && status == NORN_OK; n++) {
        status = norn_call(ctx, "step", value, NULL, &value);
    }
    *output = value;
    return status;
}

static norn_status do_step(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                           void *user)
{
    (void)ctx;
    (void)user;
    *output = input;
    return NORN_OK;
}

static void note_finished(struct bench_api *b, int64_t took_ns)
{
    int64_t now_ns = clock_mono_ns();
    uint64_t n = atomic_fetch_add(&b->finished, 1) + 1;

    histogram_add(&b->latency_us, (uint64_t)took_ns / 1000);
    if (n % 100000 == 0 && n / 100000 <= 64) b->hundred_ns[n / 100000 - 1] = now_ns;
}

static void note_batch(struct bench_api *b, const struct norn_job *jobs, uint32_t n,
                       int64_t took_ns)
{
    (void)pthread_mutex_lock(&b->mutex);
    for (uint32_t i = 0; i < n; i++) {
        if (jobs[i].status == NORN_OK)
            note_finished(b, took_ns);
        else
            atomic_fetch_add(&b->failed, 1);
    }
    (void)pthread_mutex_unlock(&b->mutex);
}

/* What a job borrows. */
struct lent {
    struct norn_start_options options;
    char id[32];
};

/* How many there are to start, n at most. */
static uint32_t prepare(struct bench_api *b, struct norn_job *jobs, struct lent *own, uint32_t n)
{
    uint64_t number = atomic_fetch_add(&b->started, n);

    for (uint32_t i = 0; i < n; i++, number++) {
        if (number >= b->count) return i;
        (void)snprintf(own[i].id, sizeof own[i].id, "b-%llu", (unsigned long long)number);
        own[i].options = (struct norn_start_options)NORN_START_OPTIONS;
        own[i].options.id = own[i].id;
        jobs[i].name = "bench";
        jobs[i].input = b->payload;
        jobs[i].options = &own[i].options;
    }
    return n;
}

static void run_batches(struct bench_api *b, struct norn_job *jobs, struct lent *own, uint32_t n)
{
    uint32_t begun_n;

    while (!atomic_load(&b->is_stopping) && (begun_n = prepare(b, jobs, own, n)) > 0) {
        int64_t began_ns = clock_mono_ns();
        (void)norn_start_many(b->client, jobs, begun_n);
        (void)norn_wait_many(b->client, jobs, begun_n, -1);
        note_batch(b, jobs, begun_n, clock_mono_ns() - began_ns);
    }
}

static void *run_client(void *user)
{
    struct bench_api *b = user;
    uint32_t index = atomic_fetch_add(&b->shares_n, 1);
    uint32_t n = b->in_flight / b->clients_n + (index < b->in_flight % b->clients_n);
    struct mem mem;

    mem_init(&mem, SIZE_MAX);
    struct norn_job *jobs = mem_take_zero(&mem, n * sizeof *jobs);
    struct lent *own = mem_take_zero(&mem, n * sizeof *own);
    if (jobs != NULL && own != NULL) run_batches(b, jobs, own, n);
    mem_give(&mem, jobs, n * sizeof *jobs);
    mem_give(&mem, own, n * sizeof *own);
    mem_release(&mem);
    return NULL;
}

static bool start_threads(struct bench_api *b)
{
    b->clients_n = b->in_flight < BENCH_CLIENTS_N ? b->in_flight : BENCH_CLIENTS_N;
    while (b->threads_n < b->clients_n &&
           pthread_create(&b->threads[b->threads_n], NULL, run_client, b) == 0) {
        b->threads_n++;
    }
    return b->threads_n == b->clients_n;
}

static norn_status open_all(struct bench_api *b, norn_engine *engine)
{
    struct norn_client_options client = NORN_CLIENT_OPTIONS;
    struct norn_worker_options worker = NORN_WORKER_OPTIONS;

    client.engine = engine;
    client.hub = "bench";
    worker.hot_max = b->in_flight * 2;
    worker.threads = 2;
    norn_status status = norn_client_open(&client, &b->client);
    if (status == NORN_OK) status = norn_worker_open(b->client, &worker, &b->worker);
    if (status == NORN_OK) status = norn_orchestrator(b->worker, "bench", NULL, run_steps, b);
    if (status == NORN_OK) status = norn_activity_add(b->worker, "step", 0, do_step, NULL);
    return status == NORN_OK ? norn_worker_start(b->worker) : status;
}

bool bench_api_open(struct bench_api *b, norn_engine *engine)
{
    histogram_init(&b->latency_us);
    (void)pthread_mutex_init(&b->mutex, NULL);
    norn_status status = open_all(b, engine);
    if (status != NORN_OK) {
        (void)fprintf(stderr, "norn bench engine: %s\n", norn_status_text(status));
        return false;
    }
    if (start_threads(b)) return true;
    (void)fprintf(stderr, "norn bench engine: no more than %u threads\n", b->threads_n);
    return false;
}

void bench_api_drain(struct bench_api *b)
{
    for (uint32_t n = 0; n < b->threads_n; n++) (void)pthread_join(b->threads[n], NULL);
    b->threads_n = 0;
}

void bench_api_close(struct bench_api *b)
{
    norn_worker_close(b->worker);
    norn_client_close(b->client);
    (void)pthread_mutex_destroy(&b->mutex);
}
