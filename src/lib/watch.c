/* SPDX-License-Identifier: Apache-2.0
 *
 * Looks at a worker a few times a second. An orchestrator that has kept the thread of turns for
 * more than a second is doing something it must not: it sleeps, reads, or computes too much, and
 * all others wait for it. Nobody can stop it, but somebody can say its name.
 */
#define _GNU_SOURCE /* pthread_setname_np */
#include "lib/worker.h"

#include "base/clock.h"

#include <stdatomic.h>
#include <time.h>

#define EVERY_MS 200
#define TOO_LONG_NS NS_PER_S

static void look(struct norn_worker *w, int64_t *reported_ns)
{
    const struct orchestrator *code =
        atomic_load_explicit(&w->turns.code_now, memory_order_acquire);
    int64_t began_ns = atomic_load_explicit(&w->turns.began_ns, memory_order_relaxed);
    int64_t took_ns = clock_mono_ns() - began_ns;

    pool_flush(&w->pool);
    if (code == NULL || began_ns == *reported_ns || took_ns < TOO_LONG_NS) return;
    *reported_ns = began_ns;
    lines_write(&w->lines,
                "orchestrator '%s' has run for %lld ms without waiting: it must not block, and all "
                "others wait for it",
                code->name, (long long)(took_ns / NS_PER_MS));
}

static void *run(void *user)
{
    struct norn_worker *w = user;
    int64_t reported_ns = 0;

    (void)pthread_setname_np(pthread_self(), "norn-watch");
    (void)pthread_mutex_lock(&w->watch.mutex);
    while (!w->watch.is_ending) {
        int64_t at_ns = clock_mono_ns() + EVERY_MS * NS_PER_MS;
        struct timespec at = {.tv_sec = at_ns / NS_PER_S, .tv_nsec = at_ns % NS_PER_S};
        (void)pthread_cond_timedwait(&w->watch.ended, &w->watch.mutex, &at);
        if (w->watch.is_ending) break;
        (void)pthread_mutex_unlock(&w->watch.mutex);
        look(w, &reported_ns);
        (void)pthread_mutex_lock(&w->watch.mutex);
    }
    (void)pthread_mutex_unlock(&w->watch.mutex);
    return NULL;
}

enum status watch_start(struct norn_worker *w)
{
    pthread_condattr_t attributes;

    (void)pthread_mutex_init(&w->watch.mutex, NULL);
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&w->watch.ended, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    if (pthread_create(&w->watch.thread, NULL, run, w) != 0) return E_UNAVAILABLE;
    w->watch.is_running = true;
    return OK;
}

void watch_stop(struct norn_worker *w)
{
    if (!w->watch.is_running) return;
    (void)pthread_mutex_lock(&w->watch.mutex);
    w->watch.is_ending = true;
    (void)pthread_cond_signal(&w->watch.ended);
    (void)pthread_mutex_unlock(&w->watch.mutex);
    (void)pthread_join(w->watch.thread, NULL);
    (void)pthread_cond_destroy(&w->watch.ended);
    (void)pthread_mutex_destroy(&w->watch.mutex);
    w->watch.is_running = false;
}
