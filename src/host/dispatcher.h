/* SPDX-License-Identifier: Apache-2.0
 *
 * Workers and what they are given. The cores keep the queues of work, one for each (hub, kind,
 * name, version); the dispatcher knows which partitions have work in which queue and which workers
 * want what, and takes from the cores in turn, so that no partition, name or worker waits behind a
 * busy one.
 *
 * What the dispatcher counts is what the cores announced (EFFECT_READY): never less than what they
 * have, and sometimes more, because work can vanish (its instance ended). A take that finds nothing
 * corrects it.
 *
 *      a queue is   EMPTY ──announced──> OFFERED ──no fitting worker has credit──> STARVED
 *                     ^                     │  ^                                     │ credit comes
 *                     └──── all taken ──────┘  │                                     │
 *                                              ├─────────────────────────────────────┘
 *                                              └─ a fitting one attaches ── UNSERVED (none fits)
 */
#ifndef HOST_DISPATCHER_H
#define HOST_DISPATCHER_H

#include "base/arena.h"
#include "base/list.h"
#include "base/map.h"
#include "core/output.h"

struct worker;

/* On the host's thread, after the work is durable; everything in work is borrowed during the call.
 * The worker answers with a request TURN_DONE, TASK_DONE, ENTITY_DONE or ABANDON that carries
 * work->ref. */
typedef void worker_deliver_fn(struct worker *worker, const struct effect_work *work);

/* One name, and the versions of it; versions_n 0 = any. */
struct worker_filter {
    struct bytes name;
    const struct bytes *versions;
    size_t versions_n;
};

/* Belongs to who made it, and stays where it is from ATTACH until DETACH is done or the host is
 * closed. Its owner gives back what it holds (ABANDON, is_lost) once DETACH is done: until then
 * more may be delivered. What was on its way to it then, the host gives back. */
struct worker {
    /* Set by the owner before REQUEST_WORKER_ATTACH and unchanged until REQUEST_WORKER_DETACH is
     * done. */
    struct bytes hub;
    struct bytes name; /* for people; may be empty. Cut after WORKER_NAME_SIZE_MAX */
    worker_deliver_fn *deliver;
    void *user;
    bool has_filters; /* then a kind with an empty list gets nothing of that kind */
    const struct worker_filter *turn_filters;
    size_t turn_filters_n;
    const struct worker_filter *task_filters;
    size_t task_filters_n;
    const struct worker_filter *entity_filters; /* names in lower case; versions say nothing */
    size_t entity_filters_n;
    /* Past events with every turn; else it keeps them, or asks for them (REQUEST_HISTORY). */
    bool wants_history;
    /* How much it may be given now; grows by REQUEST_WORKER_CREDIT, shrinks when work is taken for
     * it. */
    uint32_t turns_credit;
    uint32_t tasks_credit;
    uint32_t entities_credit;

    /* The dispatcher's; zeroed by the owner before the first ATTACH. */
    struct list node;                 /* in workers */
    struct list hungry[WORK_KINDS_N]; /* in hungry, by work_kind, while it has credit */
    struct map_node by_id;
    uint32_t id; /* never 0; unique while the process lives; LockedBy of what it was given */
    bool is_attached;
    bool has_taken; /* it was given something */
};

#define WORKER_NAME_SIZE_MAX 100u
/* Names of workers that have gone, and may still hold what they were given (an agent's poll ends
 * when it is answered): so many, the oldest is forgotten. */
#define WORKERS_GONE_N 4096u
struct workers_gone;

/* Fields are private to dispatcher.c. */
struct dispatcher {
    struct mem *mem;
    uint32_t partitions_n;
    uint32_t ids;
    struct list workers;    /* attached, oldest first */
    struct map workers_map; /* by id */
    struct worker *found;   /* the last one that was looked for: mostly it is the next one too */
    struct list hungry[WORK_KINDS_N];  /* workers with credit, by work_kind, next one first */
    struct map queues;                 /* by queue key */
    struct list offered[WORK_KINDS_N]; /* queues, by work_kind, next one first */
    struct list starved[WORK_KINDS_N];
    struct list unserved[WORK_KINDS_N];
    struct list empty;
    struct workers_gone *gone; /* NULL: none yet, or no memory for it */
};

/* One take to make: what for whom from which partition. */
struct dispatch {
    struct worker *worker;
    struct work_queue_ready *queue;
    uint32_t partition;
    enum work_kind kind;
    struct bytes queue_key; /* borrowed until dispatcher_taken() */
};

/* partitions_n: partitions are numbered 0 to partitions_n - 1 here. */
void dispatcher_init(struct dispatcher *d, struct mem *mem, uint32_t partitions_n,
                     const uint64_t seed[2]);
/* Attached workers are forgotten. */
void dispatcher_release(struct dispatcher *d);

/* E_EXISTS: it is attached. */
enum status dispatcher_attach(struct dispatcher *d, struct worker *worker);
/* E_NOT_FOUND: it is not attached. */
enum status dispatcher_detach(struct dispatcher *d, struct worker *worker);
enum status dispatcher_credit(struct dispatcher *d, struct worker *worker, uint32_t turns,
                              uint32_t tasks, uint32_t entities);
/* Attached. */
size_t dispatcher_workers_n(const struct dispatcher *d);
/* Some attached worker takes what is in this queue. */
bool dispatcher_is_served(const struct dispatcher *d, struct bytes queue_key);
/* Some attached worker takes work of this kind and name, in whatever hub and version. */
bool dispatcher_serves(const struct dispatcher *d, enum work_kind kind, struct bytes name);
/* NULL when it is gone. */
struct worker *dispatcher_find(struct dispatcher *d, uint32_t id);

/* What people call it, also when it has gone lately; borrowed until something changes. Empty: it
 * has no name, or it is not known any more. */
struct bytes dispatcher_name(const struct dispatcher *d, uint32_t id);
/* "billing-7 at 10.0.0.7:40112": of what it calls itself and of its address, either of which may be
 * empty. In arena; empty without memory. */
struct bytes worker_name_make(struct arena *arena, struct bytes own_name, const char *address);

/* One more piece of work. False without memory: then nobody would ever be given it. */
bool dispatcher_ready(struct dispatcher *d, uint32_t partition, enum work_kind kind,
                      struct bytes queue_key);
/* The next take; false when there is none now. To be followed by dispatcher_taken(). */
bool dispatcher_next(struct dispatcher *d, struct dispatch *out);
/* got: there was work. */
void dispatcher_taken(struct dispatcher *d, const struct dispatch *dispatch, bool got);

/* Parses a queue key as in EFFECT_READY; false when it is none. All borrowed from key. */
bool queue_key_read(struct bytes key, enum work_kind *kind, struct bytes *hub, struct bytes *name,
                    struct bytes *version);

#endif
