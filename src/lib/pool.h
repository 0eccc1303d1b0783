/* SPDX-License-Identifier: Apache-2.0
 *
 * The threads on which activities and entities run. Each takes one piece of work at a time, so that
 * none waits behind a slow one while a thread is free. Work of a function that runs as often as it
 * may waits with the function and not in the way of others.
 *
 * How much the pool has at once follows the load: more when the threads run out of work though all
 * that is allowed was out, less when work has to wait long, because then somebody else could do it.
 */
#ifndef LIB_POOL_H
#define LIB_POOL_H

#include "lib/registry.h"

#define POOL_THREADS_MAX 1024u
#define POOL_WINDOW_MAX 4096u
#define POOL_ENTITIES_MAX 256u

struct pool {
    const struct registry *registry;
    struct journal_lines lines;
    struct mem mem; /* of who starts and stops it */
    pthread_t *threads;
    uint32_t threads_n;
    uint32_t running_threads_n;

    pthread_mutex_t mutex; /* of all below */
    pthread_cond_t filled;
    struct list ready; /* link_work, oldest first */
    size_t ready_n;
    uint32_t idle_n;   /* threads that wait */
    uint32_t window;   /* tasks that may be out */
    uint32_t tasks_n;  /* tasks that are here, running ones too */
    bool is_saturated; /* all that may be out was */
    bool is_closed;
    struct link_port *port;    /* of the last work that came */
    _Atomic uint32_t unsent_n; /* answers that may not have gone out */
};

/* How much may be out at first. */
uint32_t pool_window_first(uint32_t threads_n);
/* E_NOMEM, E_UNAVAILABLE (no more threads). */
enum status pool_start(struct pool *p, const struct registry *registry,
                       const struct journal_lines *lines, uint32_t threads_n);
/* Waits for what runs, gives back the rest. Nothing is pushed any more. */
void pool_stop(struct pool *p);

/* Any thread. pool_wake() is to follow. */
void pool_push(struct pool *p, struct link_work *work);
void pool_wake(struct pool *p);
/* From time to time: answers that were held back go out, whatever the threads do. */
void pool_flush(struct pool *p);

/* activity.c, entity.c: runs it and fills in its answer. False without memory: give it back. */
bool activity_run(const struct function *f, struct link_work *work,
                  const struct journal_lines *lines);
bool entity_run(const struct function *f, struct link_work *work,
                const struct journal_lines *lines);

#endif
