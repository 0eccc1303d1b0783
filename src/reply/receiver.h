/* SPDX-License-Identifier: Apache-2.0
 *
 * Receivers of replies: hosts by name and port, each with the jobs that are under way to it and
 * those that wait. Decides who may go, so that no receiver holds up another. Pure but for memory.
 *
 *      hears        up to RECEIVER_ACTIVE_MAX under way, RECEIVER_WAITING_MAX wait behind them
 *      has failed   one under way and nobody waits: the others come back later by their timers
 */
#ifndef REPLY_RECEIVER_H
#define REPLY_RECEIVER_H

#include "reply/job.h"

#define RECEIVER_ACTIVE_MAX 8u
#define RECEIVER_WAITING_MAX 128u
#define RECEIVER_NAME_SIZE 272 /* host, colon, port */
/* Beyond it the one that was idle for longest is forgotten; when none is idle, jobs come back
 * later. */
#define RECEIVERS_MAX 1024u
#define RECEIVERS_ACTIVE_MAX 256u

struct receiver {
    struct list node; /* most recently used last */
    char name[RECEIVER_NAME_SIZE];
    uint32_t active_n;
    uint32_t waiting_n;
    struct list waiting;
    bool has_failed; /* the last answer was none */
};

struct receivers {
    struct mem *mem;
    struct list all;
    uint32_t all_n;
    uint32_t active_n;
};

enum receiver_turn {
    RECEIVER_GO,    /* it is under way now */
    RECEIVER_WAIT,  /* it was kept; receivers_next() gives it back */
    RECEIVER_LATER, /* it is the caller's again: too much for this receiver */
};

void receivers_init(struct receivers *r, struct mem *mem);
/* All jobs are back. */
void receivers_release(struct receivers *r);
/* name: cut when it is too long. Sets job->receiver unless LATER. */
enum receiver_turn receivers_add(struct receivers *r, struct reply_job *job, const char *name);
/* One that was under way is done. Those that waited for a receiver that fails are moved to
 * `refused`. */
void receivers_done(struct receivers *r, struct reply_job *job, bool is_heard,
                    struct list *refused);
/* The next that may go now, and is under way from now on; NULL = none. */
struct reply_job *receivers_next(struct receivers *r);
/* Everything that waits, moved to `to`. */
void receivers_clear(struct receivers *r, struct list *to);

#endif
