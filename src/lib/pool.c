/* SPDX-License-Identifier: Apache-2.0
 *
 * See pool.h.
 */
#define _GNU_SOURCE /* pthread_setname_np */
#include "lib/pool.h"

#include "base/clock.h"
#include "base/prefetch.h"
#include "lib/memory.h"
#include "lib/running.h"

#include <stdatomic.h>

/* Work that waits longer than this is more than we should have. */
#define WAIT_LONG_NS (100 * NS_PER_MS)
/* A function that takes longer does not run before held back answers have gone out. */
#define SLOW_NS (NS_PER_MS / 10)
#define HELD_BACK_N 32u
#define FETCHED_SIZE offsetof(struct link_work, state) /* what a task is told */

static void lock(struct pool *p) { (void)pthread_mutex_lock(&p->mutex); }
static void unlock(struct pool *p) { (void)pthread_mutex_unlock(&p->mutex); }

uint32_t pool_window_first(uint32_t threads_n)
{
    uint32_t window = threads_n * 4;

    if (window < 16) window = 16;
    return window < POOL_WINDOW_MAX ? window : POOL_WINDOW_MAX;
}

/* ---- choosing: under the mutex ---- */

static bool is_full(const struct function *f)
{
    return f != NULL && f->concurrency > 0 && f->running_n >= f->concurrency;
}

static struct link_work *choose(struct pool *p, struct function **function)
{
    struct list *node;

    while ((node = list_pop_front(&p->ready)) != NULL) {
        struct link_work *work = container_of(node, struct link_work, node);
        struct function *f = registry_find(p->registry, work->kind, work->name, work->version);
        p->ready_n--;
        if (is_full(f)) {
            list_push_back(&f->waiting, node);
            continue;
        }
        if (f != NULL) f->running_n++;
        *function = f;
        /* The next was written by another core: fetched while this one is done. (Where there is
         * none it is the head of the list.) */
        prefetch(p->ready.next, FETCHED_SIZE);
        return work;
    }
    return NULL;
}

static void function_left(struct pool *p, struct function *f)
{
    if (f == NULL) return;
    assert(f->running_n > 0);
    f->running_n--;
    struct list *node = list_pop_front(&f->waiting);
    if (node == NULL) return;
    list_push_front(&p->ready, node);
    p->ready_n++;
}

/* ---- how much to have: under the mutex ---- */

/* The threads have run out of work. How many more may be out. */
static uint32_t window_grow(struct pool *p)
{
    uint32_t more = p->window;

    if (!p->is_saturated || p->window >= POOL_WINDOW_MAX) return 0;
    if (more > POOL_WINDOW_MAX - p->window) more = POOL_WINDOW_MAX - p->window;
    p->is_saturated = false;
    p->window += more;
    return more;
}

static void window_shrink(struct pool *p, struct link_work *work)
{
    if (work->kind != WORK_TASK || p->window <= pool_window_first(p->threads_n)) return;
    if (clock_mono_ns() - work->queued_ns < WAIT_LONG_NS) return;
    work->is_credit_kept = true;
    p->window--;
}

/* ---- running ---- */

static void flush(struct pool *p, struct link_port *port)
{
    if (atomic_exchange(&p->unsent_n, 0) > 0) link_flush(port);
}

static void run_work(struct pool *p, struct function *f, struct link_work *work)
{
    struct link_port *port = work->port;
    bool is_done = false;

    if (f == NULL) {
        link_abandon(work, false, "this worker has no function of that name");
        link_flush(port);
        return;
    }
    if (work->was_lost) {
        link_abandon(work, false, RUNNING_LOST);
        link_flush(port);
        return;
    }
    if (atomic_load_explicit(&f->is_slow, memory_order_relaxed)) flush(p, port);
    struct running_slot *slot = running_begin(work->running, work->ref);
    int64_t began_ns = clock_mono_ns();
    if (work->status == OK) {
        is_done = work->kind == WORK_TASK ? activity_run(f, work, &p->lines)
                                          : entity_run(f, work, &p->lines);
    }
    running_end(slot);
    bool is_slow = clock_mono_ns() - began_ns > SLOW_NS;
    if (is_slow != atomic_load_explicit(&f->is_slow, memory_order_relaxed)) {
        atomic_store_explicit(&f->is_slow, is_slow, memory_order_relaxed);
    }
    if (is_done)
        link_answer(work);
    else
        link_abandon(work, false, "the worker is out of memory");
    if (atomic_fetch_add(&p->unsent_n, 1) + 1 >= HELD_BACK_N || is_slow) flush(p, port);
}

/* Waits for work; NULL: the pool is closed. Enters and leaves with the mutex. */
static struct link_work *wait_for_work(struct pool *p, struct function **f)
{
    struct link_work *work;

    while (!p->is_closed && (work = choose(p, f)) == NULL) {
        struct link_port *port = p->port;
        uint32_t more = window_grow(p);
        if (port != NULL && (more > 0 || atomic_load(&p->unsent_n) > 0)) {
            unlock(p);
            flush(p, port);
            link_credit(port, WORK_TASK, more);
            lock(p);
            continue;
        }
        p->idle_n++;
        (void)pthread_cond_wait(&p->filled, &p->mutex);
        p->idle_n--;
    }
    return p->is_closed ? NULL : work;
}

static void *run(void *user)
{
    struct pool *p = user;
    struct function *f = NULL;
    struct link_work *work;

    (void)pthread_setname_np(pthread_self(), "norn-pool");
    lock(p);
    while ((work = wait_for_work(p, &f)) != NULL) {
        bool is_task = work->kind == WORK_TASK;
        window_shrink(p, work);
        if (is_task) p->tasks_n--;
        unlock(p);
        run_work(p, f, work);
        lock(p);
        function_left(p, f);
    }
    unlock(p);
    return NULL;
}

/* ---- life ---- */

static void init_sync(struct pool *p)
{
    (void)pthread_mutex_init(&p->mutex, NULL);
    (void)pthread_cond_init(&p->filled, NULL);
    list_init(&p->ready);
}

enum status pool_start(struct pool *p, const struct registry *registry,
                       const struct journal_lines *lines, uint32_t threads_n)
{
    assert(threads_n > 0);
    assert(threads_n <= POOL_THREADS_MAX);
    p->registry = registry;
    p->lines = *lines;
    p->threads_n = threads_n;
    p->window = pool_window_first(threads_n);
    memory_init(&p->mem);
    p->threads = mem_take(&p->mem, threads_n * sizeof *p->threads);
    if (p->threads == NULL) return E_NOMEM;
    init_sync(p);
    for (uint32_t n = 0; n < threads_n; n++) {
        if (pthread_create(&p->threads[n], NULL, run, p) != 0) {
            pool_stop(p);
            return E_UNAVAILABLE;
        }
        p->running_threads_n++;
    }
    return OK;
}

static void give_back_all(struct list *works)
{
    struct list *node;

    while ((node = list_pop_front(works)) != NULL) {
        link_abandon(container_of(node, struct link_work, node), true, "the worker is closing");
    }
}

void pool_stop(struct pool *p)
{
    if (p->threads == NULL) return;
    lock(p);
    p->is_closed = true;
    (void)pthread_cond_broadcast(&p->filled);
    unlock(p);
    for (uint32_t n = 0; n < p->running_threads_n; n++) (void)pthread_join(p->threads[n], NULL);
    give_back_all(&p->ready);
    for (size_t n = 0; n < p->registry->n; n++) give_back_all(&p->registry->functions[n]->waiting);
    (void)pthread_cond_destroy(&p->filled);
    (void)pthread_mutex_destroy(&p->mutex);
    mem_give(&p->mem, p->threads, p->threads_n * sizeof *p->threads);
    mem_release(&p->mem);
    p->threads = NULL;
}

void pool_push(struct pool *p, struct link_work *work)
{
    work->queued_ns = clock_mono_ns();
    lock(p);
    list_push_back(&p->ready, &work->node);
    p->ready_n++;
    p->port = work->port;
    if (work->kind == WORK_TASK && ++p->tasks_n >= p->window / 2) p->is_saturated = true;
    unlock(p);
}

void pool_wake(struct pool *p)
{
    lock(p);
    size_t n = p->ready_n < p->idle_n ? p->ready_n : p->idle_n;
    while (n-- > 0) (void)pthread_cond_signal(&p->filled);
    unlock(p);
}

void pool_flush(struct pool *p)
{
    lock(p);
    struct link_port *port = p->port;
    unlock(p);
    if (port != NULL) flush(p, port);
}
