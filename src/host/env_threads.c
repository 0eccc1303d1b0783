/* SPDX-License-Identifier: Apache-2.0
 *
 * Lanes are threads with a queue each; finished jobs come back through one queue, on which the
 * host's thread also waits for everything else.
 */
#define _GNU_SOURCE /* pthread_setname_np */
#include "host/env_threads.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/queue.h"
#include "base/random.h"
#include "host/host.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#define FATAL_EXIT_CODE 74 /* EX_IOERR of sysexits.h */

struct lane {
    struct queue jobs;
    struct queue *finished;
    pthread_t thread;
};

struct env_threads {
    struct env env;
    struct mem *mem;
    struct queue finished; /* jobs that have run */
    struct lane lanes[LANES_N];
    int lanes_n; /* that run */
    atomic_bool is_stopping;
};

static const char *const lane_names[LANES_N] = {
    [LANE_COMMIT] = "commit",
    [LANE_ARCHIVE] = "archive",
    [LANE_READ] = "read",
    [LANE_BACKLOG] = "backlog",
};

static struct env_threads *of(struct env *env)
{
    return container_of(env, struct env_threads, env);
}

static int64_t wall_ns(struct env *env)
{
    (void)env;
    return clock_wall_ns();
}

static int64_t mono_ns(struct env *env)
{
    (void)env;
    return clock_mono_ns();
}

static void fill_random(struct env *env, void *ptr, size_t len)
{
    (void)env;
    random_fill(ptr, len);
}

static void submit(struct env *env, enum env_lane lane, struct job *job)
{
    list_node_init(&job->node);
    bool is_pushed = queue_push(&of(env)->lanes[lane].jobs, &job->node);
    assert(is_pushed); /* the lanes end after the host */
}

static void fatal(struct env *env, enum status status, const char *what)
{
    (void)env;
    log_error("%s (%s): the process stops; after a restart it goes on from what is durable", what,
              status_text(status));
    _exit(FATAL_EXIT_CODE);
}

static const struct env_ops ops = {
    .wall_ns = wall_ns,
    .mono_ns = mono_ns,
    .random = fill_random,
    .submit = submit,
    .fatal = fatal,
};

static void *lane_main(void *user)
{
    struct lane *lane = user;
    struct list jobs;
    struct list *node;

    list_init(&jobs);
    while (queue_take_all(&lane->jobs, &jobs, -1) > 0 || !queue_is_closed(&lane->jobs)) {
        while ((node = list_pop_front(&jobs)) != NULL) {
            struct job *job = container_of(node, struct job, node);
            job->run(job);
            bool is_pushed = queue_push(lane->finished, &job->node);
            assert(is_pushed);
        }
    }
    return NULL;
}

/* E_NOMEM: there is no such thread. */
static enum status lane_start(struct env_threads *e, enum env_lane which, const char *name)
{
    struct lane *lane = &e->lanes[which];
    char title[16]; /* the most that the system keeps */

    queue_init(&lane->jobs, SIZE_MAX);
    lane->finished = &e->finished;
    if (pthread_create(&lane->thread, NULL, lane_main, lane) != 0) {
        queue_release(&lane->jobs);
        return E_NOMEM;
    }
    (void)snprintf(title, sizeof title, "%s-%s", lane_names[which], name);
    (void)pthread_setname_np(lane->thread, title);
    e->lanes_n++;
    return OK;
}

enum status env_threads_new(struct mem *mem, const char *name, struct env_threads **out)
{
    struct env_threads *e = mem_take_zero(mem, sizeof *e);
    if (e == NULL) return E_NOMEM;
    e->env.ops = &ops;
    e->mem = mem;
    queue_init(&e->finished, SIZE_MAX);
    for (int lane = 0; lane < LANES_N; lane++) {
        enum status status = lane_start(e, (enum env_lane)lane, name);
        if (status == OK) continue;
        env_threads_free(e);
        return status;
    }
    *out = e;
    return OK;
}

void env_threads_free(struct env_threads *e)
{
    struct list forgotten;

    list_init(&forgotten);
    for (int i = 0; i < e->lanes_n; i++) {
        struct lane *lane = &e->lanes[i];
        (void)queue_take_all(&lane->jobs, &forgotten, 0);
        queue_close(&lane->jobs);
        int failed = pthread_join(lane->thread, NULL);
        assert(failed == 0);
        queue_release(&lane->jobs);
    }
    (void)queue_take_all(&e->finished, &forgotten, 0);
    queue_release(&e->finished);
    mem_give(e->mem, e, sizeof *e);
}

struct env *env_threads_env(struct env_threads *e) { return &e->env; }

void env_threads_wake(void *user)
{
    struct env_threads *e = user;

    queue_wake(&e->finished);
}

void env_threads_stop(struct env_threads *e)
{
    atomic_store(&e->is_stopping, true);
    queue_wake(&e->finished);
}

void env_threads_run_turns(struct env_threads *e, const struct env_turns *turns)
{
    struct list finished;
    struct list *node;
    bool is_stopped = false;

    list_init(&finished);
    for (;;) {
        if (!is_stopped && atomic_load(&e->is_stopping)) {
            turns->stop(turns->user);
            is_stopped = true;
        }
        int64_t wait_ns = turns->turn(turns->user);
        if (is_stopped && turns->is_quiet(turns->user)) return;
        (void)queue_take_all(&e->finished, &finished, wait_ns == INT64_MAX ? -1 : wait_ns);
        while ((node = list_pop_front(&finished)) != NULL) {
            struct job *job = container_of(node, struct job, node);
            job->done(job);
        }
    }
}

static int64_t turn_host(void *user) { return host_turn(user); }
static void stop_host(void *user) { host_stop(user); }
static bool is_host_quiet(void *user) { return host_is_quiet(user); }

void env_threads_run(struct env_threads *e, struct host *host)
{
    struct env_turns turns = {
        .user = host,
        .turn = turn_host,
        .stop = stop_host,
        .is_quiet = is_host_quiet,
    };

    env_threads_run_turns(e, &turns);
}
