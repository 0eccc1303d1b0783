/* SPDX-License-Identifier: Apache-2.0
 *
 * See local_worker.h. Every piece of work is a `struct errand`: a request with room for what it
 * borrows. They are made and given back on the engine's thread alone (one shard), so their pool
 * needs no lock.
 */
#include "cmd/local_worker.h"

#include "base/mem.h"
#include "base/queue.h"

#include <pthread.h>

struct errand {
    struct list node;
    struct local_worker *worker;
    struct request request;
    struct orchestrator_answer answer;
    struct local_turn turn;
    bool is_last;          /* completes its instance */
    struct buffer storage; /* key, event, payloads that the request borrows */
};

/* How much it has at once, and how much of that comes back together. */
#define CREDIT_N 16384u
#define CREDIT_BACK_N 1024u

struct local_worker {
    struct engine *engine;
    struct local_program program;
    struct worker worker;
    struct mem mem;      /* of the engine's thread */
    struct mem task_mem; /* of the worker's own thread */
    struct list pool;
    struct request credit; /* gives credit back */
    bool is_crediting;
    uint32_t turns_back; /* answered since */
    uint32_t tasks_back;
    struct queue tasks;
    pthread_t thread;
};

static struct errand *errand_take(struct local_worker *w)
{
    struct list *node = list_pop_front(&w->pool);
    if (node != NULL) return container_of(node, struct errand, node);
    struct errand *errand = mem_take_zero(&w->mem, sizeof *errand);
    if (errand == NULL) return NULL;
    errand->worker = w;
    buffer_init(&errand->storage, &w->mem);
    return errand;
}

static void credit_done(struct request *request);

static void give_credit_back(struct local_worker *w)
{
    if (w->is_crediting || w->turns_back + w->tasks_back < CREDIT_BACK_N) return;
    w->credit = (struct request){.kind = REQUEST_WORKER_CREDIT, .done = credit_done, .user = w};
    w->credit.worker.worker = &w->worker;
    w->credit.worker.turns = w->turns_back;
    w->credit.worker.tasks = w->tasks_back;
    if (!engine_post(w->engine, &w->credit)) return; /* with the next errand */
    w->is_crediting = true;
    w->turns_back = 0;
    w->tasks_back = 0;
}

static void credit_done(struct request *request)
{
    struct local_worker *w = request->user;
    w->is_crediting = false;
    give_credit_back(w);
}

static void errand_done(struct request *request)
{
    struct errand *errand = container_of(request, struct errand, request);
    struct local_worker *w = errand->worker;
    if (request->kind == REQUEST_TURN_DONE)
        w->turns_back++;
    else
        w->tasks_back++;
    give_credit_back(w);
    if (errand->is_last && w->program.finished != NULL) {
        w->program.finished(w->program.user, request->key);
    }
    errand->is_last = false;
    list_push_front(&w->pool, &errand->node);
}

/* The engine's queue is longer than all credit: a post can only fail when the engine closes. */
static void errand_post(struct errand *errand)
{
    if (!engine_post(errand->worker->engine, &errand->request)) errand_done(&errand->request);
}

/* The bytes of work are borrowed during the delivery only: what is needed later is copied. */
static bool errand_prepare(struct errand *errand, const struct effect_work *work,
                           enum request_kind kind)
{
    struct buffer *storage = &errand->storage;
    buffer_clear(storage);
    buffer_append_bytes(storage, work->ref.key);
    buffer_append_bytes(storage, kind == REQUEST_TURN_DONE ? work->fresh : work->scheduled);
    if (storage->failed) return false;
    struct request *request = &errand->request;
    /* only what is asked: clearing all of it would cost more than the rest of the errand */
    request->kind = kind;
    request->done = errand_done;
    request->key = bytes_make(storage->ptr, work->ref.key.len);
    request->worker_done = (struct input_worker_done){.has_ref = true, .ref = work->ref};
    request->worker_done.ref.key = request->key;
    return true;
}

static void deliver_turn(struct local_worker *w, struct errand *errand,
                         const struct effect_work *work)
{
    struct effect_work copy = *work;
    copy.fresh = bytes_make(errand->storage.ptr + work->ref.key.len, work->fresh.len);
    errand->turn.actions_n = 0;
    w->program.turn(w->program.user, &copy, &errand->turn);
    for (uint32_t n = 0; n < errand->turn.actions_n; n++) {
        const struct action *a = &errand->turn.actions[n];
        if (a->kind == ACTION_COMPLETE && a->status != STATUS_CONTINUED_AS_NEW)
            errand->is_last = true;
    }
    errand->answer = (struct orchestrator_answer){
        .actions = errand->turn.actions,
        .actions_n = errand->turn.actions_n,
    };
    errand->request.worker_done.answer = &errand->answer;
    errand_post(errand);
}

static void deliver(struct worker *worker, const struct effect_work *work)
{
    struct local_worker *w = worker->user;
    bool is_turn = work->ref.kind == WORK_TURN;
    struct errand *errand = errand_take(w);
    bool is_ready = errand != NULL &&
                    errand_prepare(errand, work, is_turn ? REQUEST_TURN_DONE : REQUEST_TASK_DONE);
    assert(is_ready); /* a benchmark without memory has nothing to measure */
    /* each delivery gives its credit back: this worker takes all there is */
    if (is_turn)
        worker->turns_credit++;
    else
        worker->tasks_credit++;
    if (is_turn) {
        deliver_turn(w, errand, work);
    } else if (!queue_push(&w->tasks, &errand->node)) {
        errand_done(&errand->request);
    }
}

static void run_task(struct local_worker *w, struct errand *errand)
{
    struct event_scheduled scheduled;
    struct arena arena;
    arena_init(&arena, &w->task_mem, 512);
    struct bytes event = bytes_make(errand->storage.ptr + errand->request.key.len,
                                    errand->storage.len - errand->request.key.len);
    enum status status = event_scheduled_decode(event, &arena, &scheduled);
    assert(status == OK);
    errand->request.worker_done.result =
        w->program.task == NULL ? scheduled.input
                                : w->program.task(w->program.user, scheduled.name, scheduled.input);
    arena_release(&arena);
    errand_post(errand);
}

static void *run_tasks(void *user)
{
    struct local_worker *w = user;
    struct list taken;
    list_init(&taken);
    while (!queue_is_closed(&w->tasks)) {
        queue_take_all(&w->tasks, &taken, -1);
        for (struct list *n = list_pop_front(&taken); n != NULL; n = list_pop_front(&taken)) {
            run_task(w, container_of(n, struct errand, node));
        }
    }
    return NULL;
}

enum status local_worker_open(struct engine *engine, const struct local_program *program,
                              struct local_worker **out)
{
    struct local_worker *w = mem_take_zero(mem_process(), sizeof *w);
    if (w == NULL) return E_NOMEM;
    w->engine = engine;
    w->program = *program;
    mem_init(&w->mem, SIZE_MAX);
    mem_init(&w->task_mem, SIZE_MAX);
    list_init(&w->pool);
    queue_init(&w->tasks, SIZE_MAX);
    w->worker = (struct worker){
        .hub = program->hub,
        .deliver = deliver,
        .user = w,
        .turns_credit = CREDIT_N,
        .tasks_credit = CREDIT_N,
    };
    struct request attach = {.kind = REQUEST_WORKER_ATTACH};
    attach.worker.worker = &w->worker;
    int failed = pthread_create(&w->thread, NULL, run_tasks, w);
    assert(failed == 0);
    enum status status = engine_call(engine, &attach);
    *out = w;
    return status;
}

void local_worker_close(struct local_worker *w)
{
    struct request detach = {.kind = REQUEST_WORKER_DETACH};
    struct list left;
    detach.worker.worker = &w->worker;
    (void)engine_call(w->engine, &detach);
    queue_close(&w->tasks);
    pthread_join(w->thread, NULL);
    list_init(&left);
    queue_take_all(&w->tasks, &left, 0);
    for (struct list *n = list_pop_front(&left); n != NULL; n = list_pop_front(&left)) {
        list_push_front(&w->pool, n);
    }
    queue_release(&w->tasks);
}

void local_worker_free(struct local_worker *w)
{
    for (struct list *n = list_pop_front(&w->pool); n != NULL; n = list_pop_front(&w->pool)) {
        struct errand *errand = container_of(n, struct errand, node);
        buffer_release(&errand->storage);
        mem_give(&w->mem, errand, sizeof *errand);
    }
    mem_release(&w->mem);
    mem_release(&w->task_mem);
    mem_give(mem_process(), w, sizeof *w);
}
