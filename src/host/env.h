/* SPDX-License-Identifier: Apache-2.0
 *
 * What a host asks of the world: time, randomness, and somebody who does slow work elsewhere. In
 * production these are the system's clocks and threads (env_threads.c); in the simulator a virtual
 * clock and a scheduler that decides by its seed when a job runs, and whether the process still
 * exists afterwards.
 */
#ifndef HOST_ENV_H
#define HOST_ENV_H

#include "base/list.h"
#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

struct env;
struct job;

/* Jobs of one lane run one after the other, in the order submitted; lanes run beside each other. */
enum env_lane {
    LANE_COMMIT,  /* journal */
    LANE_ARCHIVE, /* archive, writing */
    LANE_READ,    /* archive, reading; the journal too, for instances that wait in it */
    LANE_BACKLOG, /* journal, reading */
    LANES_N,
};

/* Owned by the submitter, alive until done() was called. */
struct job {
    struct list node;
    void (*run)(struct job *job);  /* elsewhere: touches nothing but the job and the store */
    void (*done)(struct job *job); /* on the host's thread, after run() */
};

struct env_ops {
    int64_t (*wall_ns)(struct env *env);
    int64_t (*mono_ns)(struct env *env);
    void (*random)(struct env *env, void *ptr, size_t len);
    void (*submit)(struct env *env, enum env_lane lane, struct job *job);
    /* The store failed in a way that forbids every further acknowledgement: does not return in
     * production (the process stops, with the reason in the log); the simulator ends this
     * process. */
    void (*fatal)(struct env *env, enum status status, const char *what);
};

struct env {
    const struct env_ops *ops;
};

#endif
