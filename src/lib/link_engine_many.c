/* SPDX-License-Identifier: Apache-2.0
 *
 * Many starts or waits of one client at once: all requests are posted, the engine is woken once,
 * and whoever answers the last of them wakes the client.
 */
#include "lib/link_engine.h"

#include "base/clock.h"
#include "core/entity_id.h"
#include "lib/memory.h"

#include <stdatomic.h>
#include <time.h>

struct crowd;

struct one {
    struct request request;
    struct crowd *crowd;
    struct link_job *job;
    struct link_key key;
    _Atomic bool is_answered;
};

struct crowd {
    struct engine_link *link;
    struct mem mem;
    struct engine_asker asker;
    struct one *ones;
    size_t n;
    _Atomic size_t left_n; /* requests without answer, and one for who posts them */
};

static bool crowd_init(struct crowd *c, struct engine_link *link, size_t n)
{
    *c = (struct crowd){.link = link, .n = n};
    memory_init(&c->mem);
    c->ones = mem_take(&c->mem, n * sizeof *c->ones);
    engine_asker_init(&c->asker);
    atomic_store(&c->left_n, 1);
    return c->ones != NULL;
}

static void crowd_release(struct crowd *c)
{
    engine_asker_release(&c->asker);
    mem_give(&c->mem, c->ones, c->n * sizeof *c->ones);
    mem_release(&c->mem);
}

/* On a host's thread. After the last one the crowd is gone as soon as its client is woken. */
static void one_done(struct request *request)
{
    struct one *one = container_of(request, struct one, request);
    struct crowd *c = one->crowd;

    one->job->status = request->status;
    if (request->kind == REQUEST_WAIT && request->status == OK && request->view == NULL) {
        one->job->status = E_NOT_FOUND;
    }
    atomic_store(&one->is_answered, true);
    if (atomic_fetch_sub(&c->left_n, 1) == 1) engine_bell_answered(c->link->bell, &c->asker);
}

/* The rest of the request is filled in already. */
static void one_post(struct crowd *c, struct one *one)
{
    one->request.done = one_done;
    one->request.key = engine_key_view(&one->key);
    atomic_fetch_add(&c->left_n, 1);
    atomic_store(&one->is_answered, false);
    if (engine_post_quietly(c->link->engine, &one->request)) return;
    atomic_fetch_sub(&c->left_n, 1);
    atomic_store(&one->is_answered, true);
    one->job->status = E_UNAVAILABLE;
}

static void one_begin(struct crowd *c, struct link_job *job, size_t n, enum request_kind kind)
{
    struct one *one = &c->ones[n];

    /* not the key: clearing it would cost more than the rest */
    one->request = (struct request){.kind = kind};
    one->crowd = c;
    one->job = job;
    atomic_store(&one->is_answered, true);
}

/* True: all have been posted, and answered already. */
static bool crowd_posted(struct crowd *c)
{
    engine_wake(c->link->engine);
    return atomic_fetch_sub(&c->left_n, 1) == 1;
}

static void fail_all(struct link_job *jobs, size_t n, enum status status)
{
    for (size_t i = 0; i < n; i++) {
        if (jobs[i].status == OK) jobs[i].status = status;
    }
}

void engine_start_many(struct link *link, struct link_job *jobs, size_t n)
{
    struct crowd c;

    if (!crowd_init(&c, engine_link_of(link), n)) {
        fail_all(jobs, n, E_NOMEM);
        crowd_release(&c);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        one_begin(&c, &jobs[i], i, REQUEST_START);
        if (jobs[i].status != OK) continue;
        engine_start_id(&jobs[i].start, jobs[i].id);
        if (!engine_key_make(c.link, bytes_of_text(jobs[i].id), &c.ones[i].key)) {
            jobs[i].status = E_INVALID;
            continue;
        }
        c.ones[i].request.start = engine_start_input(&jobs[i].start);
        one_post(&c, &c.ones[i]);
    }
    if (!crowd_posted(&c)) engine_asker_wait(&c.asker);
    crowd_release(&c);
}

/* Those that still wait are answered E_TIMEOUT. */
static void crowd_cancel(struct crowd *c)
{
    for (size_t i = 0; i < c->n; i++) {
        struct one *one = &c->ones[i];
        if (atomic_load(&one->is_answered)) continue;
        struct request request = {.kind = REQUEST_CANCEL, .key = engine_key_view(&one->key)};
        struct timespec pause = {.tv_nsec = NS_PER_MS};
        request.cancelled = &one->request;
        while (engine_call(c->link->engine, &request) == E_UNAVAILABLE) {
            if (atomic_load(&one->is_answered)) break;
            (void)nanosleep(&pause, NULL); /* the engine's queue is full */
        }
    }
    engine_asker_wait(&c->asker);
}

void engine_wait_many(struct link *link, struct link_job *jobs, size_t n, int64_t wait_ms)
{
    struct crowd c;

    if (!crowd_init(&c, engine_link_of(link), n)) {
        fail_all(jobs, n, E_NOMEM);
        crowd_release(&c);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        struct bytes id = bytes_of_text(jobs[i].id);
        one_begin(&c, &jobs[i], i, REQUEST_WAIT);
        if (jobs[i].status != OK) continue;
        if (id_is_entity(id) || !engine_key_make(c.link, id, &c.ones[i].key)) {
            jobs[i].status = id_is_entity(id) ? E_INVALID : E_NOT_FOUND;
            continue;
        }
        c.ones[i].request.wait.until_finished = true;
        one_post(&c, &c.ones[i]);
    }
    if (!crowd_posted(&c)) {
        if (wait_ms < 0)
            engine_asker_wait(&c.asker);
        else if (!engine_asker_wait_for(&c.asker, wait_ms))
            crowd_cancel(&c);
    }
    crowd_release(&c);
}
