/* SPDX-License-Identifier: Apache-2.0
 *
 * The load of the engine benchmarks: orchestrations of no-op steps, a fixed number at once.
 * Everything but the first starts happens on the engine's thread, in answers: a completion that is
 * durable starts the next one.
 */
#include "cmd/bench.h"

#include "base/clock.h"
#include "base/mem.h"

#include <stdio.h>

struct starter {
    struct list node;
    struct bench_load *load;
    struct request request;
    uint64_t number;
    char key[48];
};

int32_t bench_progress(struct bytes fresh)
{
    struct reader r = reader_make(fresh);
    struct bytes one;
    int32_t progress = INT32_MIN;
    while (strings_next(&r, &one)) {
        struct event_head head;
        if (event_peek(one, &head) != OK) continue;
        if (head.kind == EVENT_EXECUTION_STARTED) progress = -1;
        if (head.ref >= 0) progress = head.ref;
    }
    return progress;
}

static void turn(void *user, const struct effect_work *work, struct local_turn *out)
{
    struct bench_load *load = user;
    int32_t done = bench_progress(work->fresh);
    if (done == INT32_MIN) return;
    struct action *a = &out->actions[out->actions_n++];
    *a = (struct action){.id = done + 1, .input = maybe_some(load->payload)};
    if (done + 1 < (int32_t)load->steps) {
        a->kind = ACTION_SCHEDULE_TASK;
        a->name = BYTES_LITERAL("step");
    } else {
        a->kind = ACTION_COMPLETE;
        a->status = STATUS_COMPLETED;
    }
}

static void start_next(struct bench_load *load);

static void start_done(struct request *request)
{
    struct starter *starter = container_of(request, struct starter, request);
    struct bench_load *load = starter->load;
    enum status status = request->status;
    list_push_front(&load->pool, &starter->node);
    if (status == OK) return;
    /* pushed back: counted, and another one is tried when something has finished */
    load->failed++;
    if (status != E_LIMIT && status != E_UNAVAILABLE && status != E_CLOSED) {
        fprintf(stderr, "norn bench: a start failed: %s %s\n", status_name(status), request->text);
    }
}

static struct starter *starter_take(struct bench_load *load)
{
    struct list *node = list_pop_front(&load->pool);
    if (node != NULL) return container_of(node, struct starter, node);
    struct starter *starter = mem_take_zero(&load->mem, sizeof *starter);
    assert(starter != NULL);
    starter->load = load;
    return starter;
}

static void start_next(struct bench_load *load)
{
    if (load->is_stopping || load->started >= load->count) return;
    struct starter *starter = starter_take(load);
    starter->number = load->started++;
    int len = snprintf(starter->key, sizeof starter->key, "bench/b-%llu",
                       (unsigned long long)starter->number);
    starter->request = (struct request){.kind = REQUEST_START, .done = start_done};
    starter->request.key = bytes_make(starter->key, (size_t)len);
    starter->request.start.name = BYTES_LITERAL("bench");
    starter->request.start.input = maybe_some(load->payload);
    load->started_ns[starter->number % BENCH_SLOTS] = clock_mono_ns();
    if (!engine_post(load->engine, &starter->request)) {
        starter->request.status = E_UNAVAILABLE;
        start_done(&starter->request);
    }
}

static void finished(void *user, struct bytes key)
{
    struct bench_load *load = user;
    uint64_t number = 0;
    for (size_t n = sizeof "bench/b-" - 1; n < key.len; n++)
        number = number * 10 + key.ptr[n] - '0';
    int64_t now_ns = clock_mono_ns();
    int64_t took_ns = now_ns - load->started_ns[number % BENCH_SLOTS];
    histogram_add(&load->latency_us, (uint64_t)took_ns / 1000);
    uint64_t n = ++load->finished;
    if (n % 100000 == 0 && n / 100000 <= 64) load->hundred_ns[n / 100000 - 1] = now_ns;
    start_next(load);
}

/* The first starts come from the engine's own thread, as all others: no lock is needed anywhere. */
static void first_starts(void *user)
{
    struct bench_load *load = user;
    for (uint32_t n = 0; n < load->in_flight; n++) start_next(load);
}

bool bench_load_open(struct bench_load *load, struct engine *engine)
{
    load->engine = engine;
    mem_init(&load->mem, SIZE_MAX);
    list_init(&load->pool);
    histogram_init(&load->latency_us);
    load->started_ns = mem_take_zero(&load->mem, BENCH_SLOTS * sizeof *load->started_ns);
    if (load->started_ns == NULL) return false;
    struct local_program program = {
        .hub = BYTES_LITERAL("bench"),
        .turn = turn,
        .finished = finished,
        .user = load,
    };
    if (local_worker_open(engine, &program, &load->worker) != OK) return false;
    bench_on_engine(engine, first_starts, load);
    return true;
}

void bench_load_drain(struct bench_load *load)
{
    while (load->finished + load->failed < load->started) bench_sleep_ms(5);
}

void bench_load_close(struct bench_load *load) { local_worker_close(load->worker); }

void bench_load_free(struct bench_load *load)
{
    local_worker_free(load->worker);
    for (struct list *n = list_pop_front(&load->pool); n != NULL; n = list_pop_front(&load->pool)) {
        mem_give(&load->mem, container_of(n, struct starter, node), sizeof(struct starter));
    }
    mem_give(&load->mem, load->started_ns, BENCH_SLOTS * sizeof *load->started_ns);
    mem_release(&load->mem);
}
