/* SPDX-License-Identifier: Apache-2.0
 *
 * The bell of an engine: see struct engine_bell in link.h.
 */
#define _GNU_SOURCE /* pthread_setname_np, sem_clockwait */
#include "lib/link_engine.h"

#include "base/clock.h"

#include <errno.h>
#include <stdatomic.h>
#include <time.h>

/* So few are woken on the spot: to wake the bell's thread would cost as much. */
#define ON_THE_SPOT_N 2

void engine_asker_init(struct engine_asker *asker)
{
    (void)sem_init(&asker->answered, 0, 0);
    list_node_init(&asker->node);
    atomic_store(&asker->is_woken, false);
}

void engine_asker_release(struct engine_asker *asker) { (void)sem_destroy(&asker->answered); }

void engine_asker_wait(struct engine_asker *asker)
{
    while (sem_wait(&asker->answered) != 0) continue; /* a signal came */
    assert(atomic_load(&asker->is_woken));
}

bool engine_asker_wait_for(struct engine_asker *asker, int64_t wait_ms)
{
    int64_t at_ns = clock_mono_ns();
    int failed;

    at_ns = wait_ms > (INT64_MAX - at_ns) / NS_PER_MS ? INT64_MAX : at_ns + wait_ms * NS_PER_MS;
    struct timespec at = {.tv_sec = at_ns / NS_PER_S, .tv_nsec = at_ns % NS_PER_S};
    do {
        failed = sem_clockwait(&asker->answered, CLOCK_MONOTONIC, &at);
    } while (failed != 0 && errno == EINTR);
    if (failed != 0) return false;
    assert(atomic_load(&asker->is_woken));
    return true;
}

static void wake_answered(struct engine_bell *bell, int64_t timeout_ns)
{
    struct list answered;
    struct list *node;

    list_init(&answered);
    (void)queue_take_all(&bell->answered, &answered, timeout_ns);
    while ((node = list_pop_front(&answered)) != NULL) {
        struct engine_asker *asker = container_of(node, struct engine_asker, node);
        atomic_store(&asker->is_woken, true);
        (void)sem_post(&asker->answered); /* and it is gone */
    }
}

static void *run(void *user)
{
    struct engine_bell *bell = user;

    (void)pthread_setname_np(pthread_self(), "norn-bell");
    while (!queue_is_closed(&bell->answered)) wake_answered(bell, -1);
    return NULL;
}

enum status engine_bell_init(struct engine_bell *bell)
{
    (void)pthread_mutex_init(&bell->mutex, NULL);
    list_init(&bell->ports);
    bell->running = NULL;
    queue_init(&bell->answered, SIZE_MAX); /* as many as there are threads that wait */
    atomic_store(&bell->answered_n, 0);
    if (pthread_create(&bell->thread, NULL, run, bell) == 0) return OK;
    queue_release(&bell->answered);
    (void)pthread_mutex_destroy(&bell->mutex);
    return E_UNAVAILABLE;
}

void engine_bell_release(struct engine_bell *bell)
{
    assert(list_is_empty(&bell->ports));
    queue_close(&bell->answered);
    (void)pthread_join(bell->thread, NULL);
    queue_release(&bell->answered);
    (void)pthread_mutex_destroy(&bell->mutex);
}

void engine_bell_answered(struct engine_bell *bell, struct engine_asker *asker)
{
    bool is_taken = queue_push_quietly(&bell->answered, &asker->node);

    assert(is_taken); /* the engine is closed before its bell */
    atomic_fetch_add(&bell->answered_n, 1);
}

void engine_bell_ring(void *user)
{
    struct engine_bell *bell = user;
    size_t answered_n = atomic_exchange(&bell->answered_n, 0);

    (void)pthread_mutex_lock(&bell->mutex);
    for (struct list *n = list_first(&bell->ports); n != NULL; n = list_next(&bell->ports, n)) {
        engine_port_told(n);
    }
    (void)pthread_mutex_unlock(&bell->mutex);
    if (answered_n > ON_THE_SPOT_N)
        queue_wake(&bell->answered);
    else if (answered_n > 0)
        wake_answered(bell, 0);
}
