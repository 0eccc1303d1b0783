/* SPDX-License-Identifier: Apache-2.0
 *
 * What the run time needs of an engine, wherever it is. Two backends: link_engine.c, the engine in
 * this process, and link_remote.c, a server over gRPC. Nothing above this header knows which. (The
 * kit for tests has a third, kit_link.c, for clients only.)
 *
 *      client.c   ──start, get, raise, ...──────────────> link          (any thread; waits)
 *      worker     <──deliver()── port <────────────────── link          (the link's threads)
 *                 ──link_answer / abandon / fetch───────> link          (any thread; never waits)
 *
 * A port is one worker's place at a link. A piece of work is `struct link_work`: it comes with
 * deliver(), belongs to the worker, and goes back with exactly one of link_answer() and
 * link_abandon(). Its arena carries everything it points to, what came and what is answered, so it
 * may change threads freely; one thread at a time.
 */
#ifndef LIB_LINK_H
#define LIB_LINK_H

#include "base/arena.h"
#include "base/list.h"
#include "base/mem.h"
#include "base/queue.h"
#include "core/core.h"
#include "host/request.h"

#include <pthread.h>

#define LINK_ID_SIZE 257
#define LINK_JOBS_MAX 256u
#define LINK_WHY_SIZE 200

struct link;
struct link_port;

/* ---- work ---- */

struct link_work {
    struct list node;       /* the holder's */
    int64_t queued_ns;      /* likewise */
    struct link_port *port; /* where it came from */
    struct mem mem;         /* of the arena: the work changes threads */
    struct arena arena;     /* everything below is in it */
    enum work_kind kind;
    /* OK; of a turn that link_fetch() was asked for: E_NOT_FOUND when the instance is not there any
     * more or has moved on, or why its history cannot be had. Then it is only to be given back. */
    enum status status;
    /* Of an engine in this process; NULL otherwise. was_lost: a process before this one died in it;
     * it is only to be given back, and that is counted. */
    struct running *running;
    const struct work_ref *ref;
    bool was_lost;
    struct bytes id; /* of the instance, without hub; of an entity "@name@key" */
    uint8_t execution_id[EXECUTION_ID_SIZE];
    struct bytes name;    /* of the orchestrator, activity or entity */
    struct maybe version; /* WORK_TURN, WORK_TASK (the effective one) */

    int64_t now_ms; /* what norn_now() says in a task or entity; 0: the machine's clock */

    /* ---- WORK_TURN ---- */
    bool has_past;
    /* Strings of events that came before, all that the history had then; link_fetch() brings
     * them. */
    struct bytes past;
    /* ExecutionRewound and other events that are not for workers were left out: without having seen
     * one, it is not known whether the history was rewound. */
    bool is_past_filtered;
    struct bytes fresh; /* strings of events; OrchestratorStarted first */
    /* Committed events before this turn; 0: its first turn, there is no past. */
    uint64_t history_n;
    /* How far the execution had come: an orchestration kept from an earlier turn is good only when
     * this is the number that link_next_base() said then. */
    uint64_t base;

    /* ---- WORK_TASK ---- */
    int32_t task_id;
    uint32_t failures; /* dispatches of this task that failed before */
    /* The raw TaskScheduled that `input` and `tags` are still to be read from, by who runs the
     * task; empty: they are there. */
    struct bytes scheduled;
    struct maybe input;
    struct bytes tags;      /* strings: raw map entries */
    int64_t complete_by_ms; /* 0 = none */

    /* ---- WORK_ENTITY: its operations are in `fresh` ---- */
    struct maybe state;

    /* ---- the answer, filled in before link_answer() ---- */
    struct orchestrator_answer answer; /* WORK_TURN */
    struct maybe result;               /* WORK_TASK */
    struct maybe failure;              /* WORK_TASK: raw TaskFailureDetails; wins over result */
    struct entity_answer entity;       /* WORK_ENTITY */
    bool is_credit_kept;               /* its credit does not come back: less will be out at once */
};

/* ---- a worker's port ---- */

/* One orchestrator, activity or entity (name in lower case) that the worker has. */
struct link_name {
    struct bytes name;
    const struct bytes *versions; /* "" = without version */
    size_t versions_n;            /* 0 = any */
};

/* All of it stays as it is until link_detach() has returned. */
struct link_worker {
    /* By work_kind. A kind without names gets nothing of that kind. */
    const struct link_name *names[WORK_KINDS_N];
    size_t names_n[WORK_KINDS_N];
    /* So much may be out at once: now, and with all that link_credit() ever adds. The credit of a
     * piece of work comes back when it goes back. */
    uint32_t credits[WORK_KINDS_N];
    uint32_t credits_max[WORK_KINDS_N];
    /* On a thread of the link's; must not wait. The work is the worker's from now on. */
    void (*deliver)(void *user, struct link_work *work);
    /* On the same thread, after one or more deliveries: a good time to wake who shall do them. */
    void (*delivered)(void *user);
    void *user;
};

/* ---- clients ---- */

struct link_start {
    struct bytes name;
    struct maybe input;
    struct bytes id; /* empty: a new one is made */
    struct maybe version;
    int64_t start_at_ms; /* 0 = now */
    enum reuse reuse;    /* with REUSE_IGNORE: of every status */
    struct bytes tags;   /* strings: raw map entries */
};

/* One of many that are started, and then waited for, together. */
struct link_job {
    struct link_start start; /* link_start_many() */
    char *id;                /* LINK_ID_SIZE: link_start_many() fills it in */
    enum status status;      /* of the last call */
};

enum link_verb {
    LINK_TERMINATE,
    LINK_SUSPEND,
    LINK_RESUME,
    LINK_REWIND,
    LINK_RESTART,
    LINK_PURGE,
    LINK_RESUBMIT,
};

/* Called while the asker waits, perhaps on another thread; everything borrowed during the call.
 * view->key: only what key_id() makes of it is meant. Anything but OK stops, and is answered. */
typedef enum status link_view_fn(void *user, const struct instance_view *view);
typedef enum status link_step_fn(void *user, const struct task_view *step);
/* Strings of events, in order, in as many calls as it takes. */
typedef enum status link_events_fn(void *user, struct bytes events);

/* ---- backends ---- */

/* The functions below say what each means; why (LINK_WHY_SIZE): a sentence when it is not OK, ""
 * when there is nothing to add to the status. */
struct link_ops {
    const char *name;
    void (*close)(struct link *link);

    enum status (*start)(struct link *link, const struct link_start *start, char *id, char *why);
    void (*start_many)(struct link *link, struct link_job *jobs, size_t n);
    enum status (*get)(struct link *link, struct bytes id, int64_t wait_ms, link_view_fn *fn,
                       void *user, char *why);
    void (*wait_many)(struct link *link, struct link_job *jobs, size_t n, int64_t wait_ms);
    enum status (*raise)(struct link *link, struct bytes id, struct bytes event, struct maybe data,
                         char *why);
    enum status (*control)(struct link *link, struct bytes id, enum link_verb verb,
                           struct maybe data, char *why);
    enum status (*history)(struct link *link, struct bytes id, link_events_fn *fn, void *user,
                           char *why);
    enum status (*steps)(struct link *link, struct bytes id, link_step_fn *fn, void *user,
                         char *why);
    enum status (*list)(struct link *link, const struct request_query *query, struct buffer *cursor,
                        link_view_fn *fn, void *user, char *why);

    enum status (*attach)(struct link *link, const struct link_worker *worker,
                          struct link_port **port);
    void (*credit)(struct link_port *port, enum work_kind kind, uint32_t n);
    void (*detach)(struct link_port *port);
    void (*free_port)(struct link_port *port);
    void (*answer)(struct link_work *work);
    void (*abandon)(struct link_work *work, bool is_unsent, const char *reason);
    void (*fetch)(struct link_work *work);
    enum status (*renew)(struct link_work *work, int64_t extend_ms);
    void (*flush)(struct link_port *port);
};

/* The first member of a backend's own struct. */
struct link {
    const struct link_ops *ops;
    /* What `base` counts: events of the history (then every turn comes with its past), or turns. */
    bool has_event_bases;
};

struct link_port {
    struct link *link;
    const struct link_worker *worker;
};

/* ---- clients' verbs: any thread; each waits for its answer. E_UNAVAILABLE: try again. ---- */

/* Durable when OK. id (LINK_ID_SIZE): may be NULL. E_EXISTS, E_INVALID, E_LIMIT. */
enum status link_start(struct link *link, const struct link_start *start, char *id, char *why);
/* The same for up to LINK_JOBS_MAX at once; the caller waits once. Those whose status is OK are
 * started, and have their own status then. */
void link_start_many(struct link *link, struct link_job *jobs, size_t n);
/* Until all whose status is OK have ended, at most so long (< 0: for ever). Then E_TIMEOUT is the
 * status of those that have not. E_NOT_FOUND. */
void link_wait_many(struct link *link, struct link_job *jobs, size_t n, int64_t wait_ms);
/* wait_ms 0: as it is now; else until it has ended, at most so long (< 0: for ever; E_TIMEOUT).
 * E_NOT_FOUND. With OK fn was called once (it may be NULL). An entity cannot be waited for. */
enum status link_get(struct link *link, struct bytes id, int64_t wait_ms, link_view_fn *fn,
                     void *user, char *why);
/* An event; to "@name@key" an operation. E_NOT_FOUND (not of entities). */
enum status link_raise(struct link *link, struct bytes id, struct bytes event, struct maybe data,
                       char *why);
/* E_NOT_FOUND, E_PRECONDITION. */
enum status link_control(struct link *link, struct bytes id, enum link_verb verb, struct maybe data,
                         char *why);
enum status link_history(struct link *link, struct bytes id, link_events_fn *fn, void *user,
                         char *why);
/* Its open steps. E_NOT_FOUND; E_UNSUPPORTED: the server is not norn. */
enum status link_steps(struct link *link, struct bytes id, link_step_fn *fn, void *user, char *why);
/* One page, oldest first. query: hub and after are the link's; limit is that of the page. cursor:
 * empty for the first page; then where the next one begins, empty again when there is none. */
enum status link_list(struct link *link, const struct request_query *query, struct buffer *cursor,
                      link_view_fn *fn, void *user, char *why);
/* Its ports are freed. */
void link_close(struct link *link);

/* ---- workers' verbs ---- */

/* From now on work is delivered. E_NOMEM, E_UNAVAILABLE. */
enum status link_attach(struct link *link, const struct link_worker *worker,
                        struct link_port **port);
/* Nobody is in link_fetch(), now or later. Waits. Afterwards nothing is delivered any more (what
 * link_fetch() was asked for has been, too); what the worker holds it can answer or abandon. */
void link_detach(struct link_port *port);
/* After link_detach() and when all work went back: waits until the answers have been taken. */
void link_port_free(struct link_port *port);
/* Any thread. So many more pieces of that kind may be out at once. */
void link_credit(struct link_port *port, enum work_kind kind, uint32_t n);

/* Any thread, but not within deliver(). May not be seen before link_flush(). The work is gone. An
 * answer that comes too late is dropped by the engine; a lost connection makes the engine give the
 * work to somebody again. */
void link_answer(struct link_work *work);
/* Gives it back. is_unsent: nobody has begun it; offered again at once, and no failure is counted.
 * reason: copied. */
void link_abandon(struct link_work *work, bool is_unsent, const char *reason);
/* A turn whose past is wanted (has_past is false, history_n > 0): it comes again by deliver(), with
 * its past or with a status. */
void link_fetch(struct link_work *work);
/* What was answered and abandoned goes out now. */
void link_flush(struct link_port *port);
/* A task: the lease lasts extend_ms from now (LIMIT_EXTEND_MS at most). Waits. E_STALE: lost, the
 * answer will not count. E_UNSUPPORTED: there is no such thing here (a server that is not norn). */
enum status link_renew(struct link_work *work, int64_t extend_ms);

/* The base that the next turn must have for an orchestration kept after this turn: events_n the
 * turn added to its history. */
static inline uint64_t link_next_base(const struct link_work *work, uint64_t events_n)
{
    return work->base + (work->port->link->has_event_bases ? events_n : 1);
}

/* ---- for backends ---- */

/* Asks the engine that one step (-1: the orchestrator itself) is tried again. E_PRECONDITION: it is
 * not parked. */
typedef enum status link_resubmit_fn(struct link *link, void *user, int32_t task_id, char *why);
/* LINK_RESUBMIT of an instance: which step is parked its caller does not say, so all are asked that
 * are open. OK when one of them was parked. */
enum status link_resubmit(struct link *link, struct bytes id, link_resubmit_fn *one, void *user,
                          char *why);

/* Zeroed, with an arena ready in its own mem. It must not move. */
void link_work_init(struct link_work *work);
void link_work_release(struct link_work *work);
/* As after link_work_init(), but the arena keeps its memory. */
void link_work_reset(struct link_work *work);

/* start_many and wait_many of a backend that asks for one after the other. */
void link_start_each(struct link *link, struct link_job *jobs, size_t n);
void link_wait_each(struct link *link, struct link_job *jobs, size_t n, int64_t wait_ms);

/* ---- the two backends ---- */

struct engine;
struct running;

/* Who is told after the engine has answered or delivered something: the ports of all links to one
 * engine, and clients that wait. It is the engine's `told` hook: told = engine_bell_ring, told_user
 * = the bell. To wake a thread costs more than to answer it: when many clients have been answered,
 * a thread of the bell's wakes them, and the engine goes on. */
struct engine_bell {
    pthread_mutex_t mutex;
    struct list ports;
    struct queue answered; /* clients to be woken, see link_engine.c */
    _Atomic size_t answered_n;
    pthread_t thread;
    struct running *running; /* what its workers run, see running.h; NULL: not noted */
};
/* E_UNAVAILABLE: no more threads. */
enum status engine_bell_init(struct engine_bell *bell);
void engine_bell_release(struct engine_bell *bell);
void engine_bell_ring(void *bell);

/* hub: copied. Engine and bell outlive the link. E_NOMEM, E_INVALID (hub). */
enum status link_engine_open(struct engine *engine, struct engine_bell *bell, struct bytes hub,
                             struct link **out);
/* address "host:port". Does not wait for the connection: calls answer E_UNAVAILABLE while there is
 * none. E_NOMEM, E_INVALID. */
enum status link_remote_open(const char *address, struct bytes hub, struct link **out);

#endif
