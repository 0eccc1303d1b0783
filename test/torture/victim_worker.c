/* SPDX-License-Identifier: Apache-2.0
 *
 * A piece of work becomes an errand: with memory of its own, so that it can go from the engine's
 * thread to ours and back without a lock.
 */
#include "test/torture/victim_worker.h"

#include "base/assert.h"
#include "base/mem.h"
#include "base/queue.h"
#include "test/sim/sim_programs.h"
#include "test/torture/victim_text.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

struct errand {
    struct list node;
    struct victim_worker *worker;
    struct mem mem;
    struct arena arena;
    struct request request;
    struct effect_work work; /* bytes in the arena */
    struct turn_result result;
};

/* One thread for each kind of work: a long fan of activities does not hold up the turns. */
struct lane {
    struct queue errands;
    pthread_t thread;
};

struct victim_worker {
    struct engine *engine;
    struct worker worker;
    struct lane turns;
    struct lane tasks;
    int effects_fd;
    void (*complain)(const char *text);
};

static void errand_free(struct errand *e)
{
    arena_release(&e->arena);
    mem_release(&e->mem);
    free(e);
}

static void errand_done(struct request *request)
{
    errand_free(container_of(request, struct errand, request));
}

static struct errand *errand_new(struct victim_worker *w, const struct effect_work *work)
{
    struct errand *e = calloc(1, sizeof *e);
    assert(e != NULL);
    e->worker = w;
    mem_init(&e->mem, SIZE_MAX);
    arena_init(&e->arena, &e->mem, 1024);
    e->work = *work;
    e->work.ref.key = arena_copy(&e->arena, work->ref.key);
    e->work.name = arena_copy(&e->arena, work->name);
    e->work.past = arena_copy(&e->arena, work->past);
    e->work.fresh = arena_copy(&e->arena, work->fresh);
    e->work.scheduled = arena_copy(&e->arena, work->scheduled);
    return e;
}

static void deliver(struct worker *worker, const struct effect_work *work)
{
    struct victim_worker *w = worker->user;
    struct errand *e = errand_new(w, work);
    struct lane *lane = work->ref.kind == WORK_TURN ? &w->turns : &w->tasks;

    bool is_pushed = queue_push(&lane->errands, &e->node);
    assert(is_pushed); /* the lanes close after the worker has left */
}

/* The engine's queue may be full for a moment; it does not close before we have left. */
static void errand_post(struct errand *e, enum request_kind kind)
{
    e->request.kind = kind;
    e->request.done = errand_done;
    e->request.key = e->work.ref.key;
    e->request.worker_done.has_ref = true;
    e->request.worker_done.ref = e->work.ref;
    while (!engine_post(e->worker->engine, &e->request)) {
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

static void run_turn(struct errand *e)
{
    struct turn turn = {
        .name = e->work.name,
        .instance_id = key_id(e->work.ref.key),
        .past = e->work.past,
        .fresh = e->work.fresh,
    };
    program_turn(&turn, &e->arena, &e->result);
    if (e->result.mismatch != NULL) {
        struct bytes id = turn.instance_id;
        char text[256];
        (void)snprintf(text, sizeof text, "%.*s has an impossible history: %s", (int)id.len,
                       (const char *)id.ptr, e->result.mismatch);
        e->worker->complain(text);
    }
    e->request.worker_done.answer = &e->result.answer;
    errand_post(e, REQUEST_TURN_DONE);
}

static void leave_effect(const struct errand *e)
{
    const struct work_ref *ref = &e->work.ref;
    struct bytes id = key_id(ref->key);
    char execution[EXECUTION_TEXT_SIZE];
    char line[512];

    execution_id_text(ref->execution_id, execution);
    int len = snprintf(line, sizeof line, "%.*s %.*s %d\n", (int)id.len, (const char *)id.ptr,
                       EXECUTION_TEXT_SIZE, execution, ref->task_id);
    assert(len > 0 && (size_t)len < sizeof line);
    ssize_t written = write(e->worker->effects_fd, line, (size_t)len); /* at once: O_APPEND */
    assert(written == len);
}

static void run_task(struct errand *e)
{
    struct event_scheduled scheduled;
    struct task_result result;

    leave_effect(e);
    enum status status = event_scheduled_decode(e->work.scheduled, &e->arena, &scheduled);
    assert(status == OK);
    program_task(scheduled.name, scheduled.input.value, e->work.ref.attempt, false, &e->arena,
                 &result);
    e->request.worker_done.result = result.result;
    e->request.worker_done.failure = result.failure;
    errand_post(e, REQUEST_TASK_DONE);
}

static void *run_lane(void *user)
{
    struct lane *lane = user;
    struct list taken;
    bool is_last = false;

    list_init(&taken);
    while (!is_last) {
        is_last = queue_is_closed(&lane->errands); /* before the take: nothing comes after it */
        (void)queue_take_all(&lane->errands, &taken, is_last ? 0 : -1);
        for (struct list *n = list_pop_front(&taken); n != NULL; n = list_pop_front(&taken)) {
            struct errand *e = container_of(n, struct errand, node);
            if (e->work.ref.kind == WORK_TURN)
                run_turn(e);
            else
                run_task(e);
        }
    }
    return NULL;
}

static void lane_open(struct lane *lane)
{
    queue_init(&lane->errands, SIZE_MAX);
    int failed = pthread_create(&lane->thread, NULL, run_lane, lane);
    assert(failed == 0);
}

static void lane_close(struct lane *lane)
{
    queue_close(&lane->errands);
    (void)pthread_join(lane->thread, NULL);
    queue_release(&lane->errands);
}

static void call_done(struct request *request) { (void)sem_post(request->user); }

/* WORKER_ATTACH and WORKER_DETACH, until done. */
static void call(struct victim_worker *w, enum request_kind kind)
{
    sem_t is_done;
    struct request request = {.kind = kind, .done = call_done, .user = &is_done};

    request.worker.worker = &w->worker;
    (void)sem_init(&is_done, 0, 0);
    bool is_posted = engine_post(w->engine, &request);
    assert(is_posted);
    while (sem_wait(&is_done) != 0) {
    }
    assert(request.status == OK);
    (void)sem_destroy(&is_done);
}

struct victim_worker *victim_worker_open(struct engine *engine, int effects_fd,
                                         void (*complain)(const char *text))
{
    struct victim_worker *w = calloc(1, sizeof *w);
    assert(w != NULL);
    w->engine = engine;
    w->effects_fd = effects_fd;
    w->complain = complain;
    w->worker = (struct worker){
        .hub = BYTES_LITERAL(VICTIM_HUB),
        .deliver = deliver,
        .user = w,
        .wants_history = true,
        .turns_credit = UINT32_MAX / 2, /* more than a life can use */
        .tasks_credit = UINT32_MAX / 2,
    };
    lane_open(&w->turns);
    lane_open(&w->tasks);
    call(w, REQUEST_WORKER_ATTACH);
    return w;
}

void victim_worker_close(struct victim_worker *w)
{
    call(w, REQUEST_WORKER_DETACH);
    lane_close(&w->turns);
    lane_close(&w->tasks);
}

void victim_worker_free(struct victim_worker *w) { free(w); }
