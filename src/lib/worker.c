/* SPDX-License-Identifier: Apache-2.0
 *
 * See worker.h.
 */
#include "lib/worker.h"

#include "lib/memory.h"
#include "lib/options.h"

#include <stdatomic.h>

#define THREADS_DEFAULT 4u
#define STACK_SIZE_DEFAULT ((size_t)64 << 10)
#define STACK_SIZE_MAX ((size_t)64 << 20)
#define HOT_MAX_DEFAULT 10000u
/* Turns take microseconds: so many keep the thread busy while the engine makes others durable. */
#define TURNS_MAX 4096u

/* ---- opening and registering ---- */

static bool read_options(struct norn_worker *w, const struct norn_worker_options *given)
{
    struct norn_worker_options options = NORN_WORKER_OPTIONS;

    if (!options_read(&options, sizeof options, given)) return false;
    w->threads_n = options.threads > 0 ? options.threads : THREADS_DEFAULT;
    w->stack_size = options.stack_size > 0 ? options.stack_size : STACK_SIZE_DEFAULT;
    w->hot_max = options.hot_max > 0 ? options.hot_max : HOT_MAX_DEFAULT;
    w->lines = (struct journal_lines){.log = options.log, .user = options.user};
    return true;
}

/* Open workers: what they use must not be closed before them. */
static void count(norn_client *client, int more)
{
    atomic_fetch_add(&client->workers_n, (uint32_t)more);
    if (client->engine != NULL) atomic_fetch_add(&client->engine->workers_n, (uint32_t)more);
}

norn_status norn_worker_open(norn_client *client, const struct norn_worker_options *options,
                             norn_worker **worker)
{
    if (client == NULL) return NORN_E_INVALID;
    if (worker == NULL) return client_refuse(client, "worker is NULL");
    struct norn_worker *w =
        memory_new(sizeof(struct norn_worker), offsetof(struct norn_worker, mem));
    if (w == NULL) return client_answer(client, E_NOMEM, NULL);
    w->client = client;
    count(client, 1);
    registry_init(&w->registry, &w->mem);
    norn_status status = NORN_OK;
    if (!read_options(w, options)) {
        status = client_refuse(client, OPTIONS_WITHOUT_SIZE);
    } else if (w->threads_n > POOL_THREADS_MAX || w->stack_size > STACK_SIZE_MAX) {
        status = client_answer(client, E_LIMIT,
                               "a worker has at most 1024 threads, and stacks of 64 MiB");
    }
    if (status == NORN_OK)
        *worker = w;
    else
        norn_worker_close(w);
    return status;
}

static norn_status add(norn_worker *worker, const struct function *function)
{
    if (worker == NULL) return NORN_E_INVALID;
    if (worker->is_started) return NORN_E_PRECONDITION;
    return status_for_user(registry_add(&worker->registry, function));
}

norn_status norn_orchestrator(norn_worker *worker, const char *name, const char *version,
                              norn_orchestrator_fn *fn, void *user)
{
    struct function function = {
        .kind = WORK_TURN,
        .code = {.name = name, .version = version, .fn = fn, .user = user},
    };
    return fn == NULL ? NORN_E_INVALID : add(worker, &function);
}

norn_status norn_activity_add(norn_worker *worker, const char *name, uint32_t concurrency,
                              norn_activity_fn *fn, void *user)
{
    struct function function = {
        .kind = WORK_TASK,
        .code = {.name = name},
        .activity = fn,
        .user = user,
        .concurrency = concurrency,
    };
    return fn == NULL ? NORN_E_INVALID : add(worker, &function);
}

norn_status norn_entity_add(norn_worker *worker, const char *name, norn_entity_fn *fn, void *user)
{
    struct function function = {
        .kind = WORK_ENTITY,
        .code = {.name = name},
        .entity = fn,
        .user = user,
    };
    return fn == NULL ? NORN_E_INVALID : add(worker, &function);
}

/* ---- running ---- */

static void deliver(void *user, struct link_work *work)
{
    struct norn_worker *w = user;

    if (work->kind == WORK_TURN)
        turns_push(&w->turns, work);
    else
        pool_push(&w->pool, work);
}

static void delivered(void *user)
{
    struct norn_worker *w = user;

    turns_wake(&w->turns);
    pool_wake(&w->pool);
}

static void describe(struct norn_worker *w)
{
    struct link_worker *to = &w->link_worker;

    *to = (struct link_worker){.deliver = deliver, .delivered = delivered, .user = w};
    for (size_t kind = 0; kind < WORK_KINDS_N; kind++) {
        to->names[kind] = w->registry.names[kind];
        to->names_n[kind] = w->registry.names_n[kind];
    }
    to->credits[WORK_TURN] = to->credits_max[WORK_TURN] = TURNS_MAX;
    to->credits[WORK_TASK] = pool_window_first(w->threads_n);
    to->credits_max[WORK_TASK] = POOL_WINDOW_MAX;
    to->credits[WORK_ENTITY] = to->credits_max[WORK_ENTITY] = POOL_ENTITIES_MAX;
}

static void stop(struct norn_worker *w)
{
    turns_halt(&w->turns); /* before it is detached: a past that is asked for is still delivered */
    if (w->port != NULL) link_detach(w->port);
    watch_stop(w);
    turns_stop(&w->turns);
    pool_stop(&w->pool);
    if (w->port != NULL) link_port_free(w->port);
    w->port = NULL;
}

norn_status norn_worker_start(norn_worker *worker)
{
    if (worker == NULL) return NORN_E_INVALID;
    struct norn_worker *w = worker;
    if (w->is_started) return NORN_E_PRECONDITION;
    enum status status = registry_close(&w->registry);
    if (status != OK) return status_for_user(status);
    w->is_started = true;
    status = turns_start(&w->turns, &w->registry, &w->lines, w->stack_size, w->hot_max);
    if (status == OK) status = pool_start(&w->pool, &w->registry, &w->lines, w->threads_n);
    if (status == OK) status = watch_start(w);
    describe(w);
    if (status == OK) status = link_attach(w->client->link, &w->link_worker, &w->port);
    if (status == OK) return NORN_OK;
    stop(w);
    w->is_started = false;
    return status_for_user(status);
}

void norn_worker_close(norn_worker *worker)
{
    if (worker == NULL) return;
    if (coroutine_is_any_running()) {
        client_misuse("norn_worker_close() within an orchestrator");
    }
    if (worker->is_started) stop(worker);
    count(worker->client, -1);
    registry_release(&worker->registry);
    memory_free(worker, sizeof *worker, offsetof(struct norn_worker, mem));
}
