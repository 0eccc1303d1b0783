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

    (void)pthread_mutex_lock(&b->mutex);
    histogram_add(&b->latency_us, (uint64_t)took_ns / 1000);
    if (n % 100000 == 0 && n / 100000 <= 64) b->hundred_ns[n / 100000 - 1] = now_ns;
    (void)pthread_mutex_unlock(&b->mutex);
}

static void *run_client(void *user)
{
    struct bench_api *b = user;
    struct norn_start_options options = NORN_START_OPTIONS;
    char id[32];

    options.id = id;
    while (!atomic_load(&b->is_stopping)) {
        uint64_t number = atomic_fetch_add(&b->started, 1);
        if (number >= b->count) break;
        int64_t began_ns = clock_mono_ns();
        (void)snprintf(id, sizeof id, "b-%llu", (unsigned long long)number);
        norn_status status = norn_start(b->client, "bench", b->payload, &options, NULL);
        if (status == NORN_OK) status = norn_wait(b->client, id, -1, NULL);
        if (status == NORN_OK)
            note_finished(b, clock_mono_ns() - began_ns);
        else
            atomic_fetch_add(&b->failed, 1);
    }
    return NULL;
}

static bool start_threads(struct bench_api *b)
{
    pthread_attr_t attributes;

    b->threads = mem_take(&b->mem, b->in_flight * sizeof *b->threads);
    if (b->threads == NULL) return false;
    (void)pthread_attr_init(&attributes);
    (void)pthread_attr_setstacksize(&attributes, (size_t)64 << 10);
    while (b->threads_n < b->in_flight &&
           pthread_create(&b->threads[b->threads_n], &attributes, run_client, b) == 0) {
        b->threads_n++;
    }
    (void)pthread_attr_destroy(&attributes);
    return b->threads_n == b->in_flight;
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
    mem_init(&b->mem, SIZE_MAX);
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
    mem_give(&b->mem, b->threads, b->in_flight * sizeof *b->threads);
    mem_release(&b->mem);
    (void)pthread_mutex_destroy(&b->mutex);
}
