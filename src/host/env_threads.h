/* SPDX-License-Identifier: Apache-2.0
 *
 * The world of a host in production: the system's clocks and randomness, and a thread for each
 * lane. The host's own thread is whoever calls env_threads_run().
 */
#ifndef HOST_ENV_THREADS_H
#define HOST_ENV_THREADS_H

#include "host/env.h"

struct env_threads;
struct host;
struct mem;

/* Starts the lanes. name: short, for the threads' names ("shard-0"). mem is only used in new and
 * free. E_NOMEM. */
enum status env_threads_new(struct mem *mem, const char *name, struct env_threads **out);
/* Ends the lanes; jobs that have not begun are forgotten, and so are finished ones that nobody has
 * asked for. No env_threads_run() may be under way. */
void env_threads_free(struct env_threads *e);
struct env *env_threads_env(struct env_threads *e);

/* What is turned: a host, or another engine of the same kind. All on the thread that runs it. */
struct env_turns {
    void *user;
    int64_t (*turn)(void *user); /* as host_turn() */
    void (*stop)(void *user);
    bool (*is_quiet)(void *user);
};
void env_threads_run_turns(struct env_threads *e, const struct env_turns *turns);
/* Turns the host until env_threads_stop() was called and the host is quiet. */
void env_threads_run(struct env_threads *e, struct host *host);
/* From any thread: makes a waiting env_threads_run() turn the host. A host_wake_fn, user is the
 * env_threads. */
void env_threads_wake(void *user);
/* From any thread: env_threads_run() stops the host (host_stop) and ends when it is quiet. */
void env_threads_stop(struct env_threads *e);

#endif
