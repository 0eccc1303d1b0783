/* SPDX-License-Identifier: Apache-2.0
 *
 * What is asked of a host: by clients (the public verbs), by workers (answers), by other shards
 * (messages).
 *
 * A request belongs to who made it. From host_post() until done() it must stay as it is, with
 * everything it borrows. done() is called exactly once, on the host's thread, after everything the
 * answer stands on is durable. The answer's bytes are borrowed during done(). Only who does nothing
 * with the answer but to use the request's memory again may have it before (is_untold).
 */
#ifndef HOST_REQUEST_H
#define HOST_REQUEST_H

#include "base/list.h"
#include "core/backlog.h"
#include "core/core.h"

/* kind, whether it needs the instance `key` in memory before the step */
#define REQUESTS(X)                                                                                \
    X(START, true)                                                                                 \
    X(RAISE, true)                                                                                 \
    X(TERMINATE, true)                                                                             \
    X(SUSPEND, true)                                                                               \
    X(RESUME, true)                                                                                \
    X(REWIND, true)                                                                                \
    X(RESTART, true)                                                                               \
    X(PURGE, true)                                                                                 \
    X(RESUBMIT, true)                                                                              \
    X(SIGNAL, true)                                                                                \
    X(IMPORT, true)                                                                                \
    X(TURN_DONE, true)                                                                             \
    X(TASK_DONE, true)                                                                             \
    X(ENTITY_DONE, true)                                                                           \
    X(ABANDON, true)                                                                               \
    X(RENEW, true)                                                                                 \
    X(MESSAGE, true)                                                                               \
    X(ACK, false)                                                                                  \
    X(GET, false)                                                                                  \
    X(HISTORY, false)                                                                              \
    X(CHILDREN, false)                                                                             \
    X(WHY, true)                                                                                   \
    X(ALERTS, false)                                                                               \
    X(WAIT, false)                                                                                 \
    X(CANCEL, false)                                                                               \
    X(PURGE_WHERE, false)                                                                          \
    X(QUERY, false)                                                                                \
    X(WORKER_ATTACH, false)                                                                        \
    X(WORKER_CREDIT, false)                                                                        \
    X(WORKER_DETACH, false)                                                                        \
    X(STATS, false)                                                                                \
    X(POSITION, false)                                                                             \
    X(SOURCE, false)                                                                               \
    X(BACKLOG, false)

enum request_kind {
#define X(kind, needs_instance) REQUEST_##kind,
    REQUESTS(X)
#undef X
};

struct host_stats;
struct request;
struct worker;
typedef void request_done_fn(struct request *request);

/* Filters, order and position of a list; see struct archive_query, which has the same meaning. */
struct request_query {
    struct bytes hub;
    uint32_t status_mask;
    bool terminal_only;
    bool by_completion;
    int64_t from_ms;
    int64_t to_ms;
    struct bytes id_prefix;
    struct bytes name;
    struct bytes tag;
    struct bytes error_part;
    bool newest_first; /* by (time, id), descending; not with entities */
    bool has_after;
    int64_t after_ms;
    struct bytes after_id;
    uint32_t limit;     /* 1 to QUERY_LIMIT_MAX; clamped */
    bool want_payloads; /* input, output and custom status too */
    /* Only what the archive finds without reading the instance: no failure, version, tags and
     * execution id of an archived one, and its times in whole milliseconds. */
    bool want_keys;
    /* Entities instead of orchestrations (never both). id_prefix is then "@name@..." or "@";
     * from_ms and to_ms are of the last change, the order and after_ms of the creation, which a
     * view has; status_mask, terminal_only, by_completion, name, tag and error_part say nothing. */
    bool entities;
    bool want_transient; /* entities: those without state too */
    /* Only those that wait for an operator, which are in memory (LIMIT_PARKED_N of them): the
     * archive is not read. */
    bool want_parked;
};
#define QUERY_LIMIT_MAX 1000u
#define BACKLOG_NAMES_N_MAX 100u

/* Why an instance is where it is. At most WHY_LIST_MAX of each list. */
#define WHY_LIST_MAX 1000u
struct why_task {
    struct task_view task;
    struct bytes locked_by; /* what people call the worker that has it; empty: not known */
    bool is_unserved;       /* it waits for a worker, and none that is attached takes it */
};
struct why {
    struct bytes reason; /* one line */
    bool is_parked;      /* it waits for an operator */
    struct bytes last_error;
    const struct why_task *tasks; /* open steps */
    size_t tasks_n;
    const struct wait_view *waits; /* timers, children, calls of entities */
    size_t waits_n;
    bool has_more; /* there are more of either */
    /* The orchestrator, activity or entity that has work of this instance, and that no attached
     * worker takes; empty when there is none. */
    struct bytes worker_name;
};

/* A list of what waits for an operator, longest waiting first; of all hubs when hub is empty. */
struct request_alerts {
    struct bytes hub;
    bool has_after; /* only what comes after this one, which was the last of the page before */
    int64_t after_ms;
    struct bytes after_key;
    int32_t after_task_id;
    uint32_t limit; /* 1 to QUERY_LIMIT_MAX; clamped */
};

/* In the order of use: what every request touches stands together at the front, long texts and
 * lists at the end. Thousands are in flight at once, and each cache line of each costs a visit to
 * memory. */
struct request {
    struct list node; /* the host's, while it has the request */
    request_done_fn *done;
    void *user;
    struct bytes key; /* of the instance; of worker's answers that of the reference */
    enum request_kind kind;
    /* A worker's answer of which nobody is told anything: done() as soon as it was taken, while its
     * memory is still in the cache. Whether it becomes durable is then not known to anybody. */
    bool is_untold;

    /* ---- the answer ---- */
    enum status status;
    bool is_stale; /* a worker's answer or ABANDON: OK, but too late: nothing was changed */
    uint8_t execution_id[EXECUTION_ID_SIZE]; /* START, RESTART, IMPORT */
    /* the host's own, from post to done */
    uint64_t number;
    void *host_state;

    /* ---- what is asked ---- */
    union {
        struct input_start start; /* its key is ignored */
        struct {                  /* RAISE, TERMINATE, SUSPEND, RESUME, REWIND, PURGE, RESUBMIT */
            struct bytes name;
            struct maybe data; /* IMPORT too: strings, its events */
            bool recurse;      /* TERMINATE, PURGE */
            bool is_forced;    /* PURGE: also one that has not finished, or an entity */
            int32_t task_id;
        } client;
        struct input_signal signal; /* SIGNAL; its key is ignored. The request's own must have the
                                       entity's name in lower case: see entity_id_lower() */
        struct input_worker_done worker_done; /* TURN_DONE, TASK_DONE, ENTITY_DONE */
        struct {                              /* ABANDON, RENEW */
            struct work_ref ref;
            bool is_lost;
            /* ABANDON: it never reached the worker: offered again at once, and no failure is
             * counted. */
            bool is_unsent;
            /* ABANDON: this cannot be done by any worker (its messages are too large, say): the
             * turn or task is parked with the reason, until an operator resubmits it. */
            bool is_parked;
            struct bytes reason;
            int64_t extend_ms; /* RENEW: complete-by from now */
            bool is_limit;     /* RENEW: one is set also where the policy has none */
        } lease;
        struct { /* MESSAGE, ACK: from another shard */
            uint32_t from;
            uint32_t to;
            uint64_t seq;
            enum message_kind kind;
            struct bytes execution;
            struct bytes event;
        } message;
        struct {
            bool until_finished; /* WAIT: else until started */
        } wait;
        /* CANCEL of a WAIT with the same key. When it still waits it is answered E_TIMEOUT, before
         * this request's own done(); E_NOT_FOUND otherwise: then it was answered already, or soon
         * is. `wait` is compared, never read: it may be gone. Who uses its place for another WAIT
         * of the same key waits for this one's done() first. */
        const struct request *cancelled;
        struct {                       /* HISTORY: a part of it */
            uint32_t skip_n;           /* events */
            size_t size_max;           /* bytes of `events`; at least one event is given; 0 = all */
            struct maybe execution_id; /* text; another one now: E_NOT_FOUND */
        } history;
        struct request_query query; /* QUERY */
        struct request_alerts alerts;
        /* PURGE_WHERE: all that match, finished ones only. What does not want to go (with recurse:
         * a descendant runs) is passed over. has_more when time was short. purged_n counts whatever
         * the status is: E_UNAVAILABLE (too many of these, or the host stops) and all others may
         * come after a part was purged. */
        struct {
            struct request_query query; /* after, limit and want_payloads are the host's */
            int64_t timeout_ms;         /* 0 = none */
            bool recurse;
            bool is_forced; /* running ones and entities too: the end of a hub */
        } purge;
        struct { /* WORKER_*: the worker is the requester's, see dispatcher.h */
            struct worker *worker;
            uint32_t turns; /* CREDIT: so many more may be given */
            uint32_t tasks;
            uint32_t entities;
        } worker;
        struct host_stats *stats; /* STATS: filled in before done() */
        /* POSITION: a message of a source, for this partition, that starts nothing: only its
         * position is taken. As START, with text "duplicate", or E_STALE. */
        struct {
            struct input_position at;
            uint32_t partition;
        } position;
        /* SOURCE: how far it was taken. positions has a place for each partition of the data
         * directory; those of this shard are filled in before done(), durable ones. */
        struct {
            struct bytes name;
            uint64_t *positions;
        } source;
        /* BACKLOG: the names of which most waits, then those of which most is active. names: filled
         * in before done(), n of them; their bytes are borrowed during done(). */
        struct {
            struct backlog_name_view *names;
            size_t n_max; /* at most BACKLOG_NAMES_N_MAX */
            size_t n;
        } backlog;
    };

    /* ---- the rest of the answer ---- */
    char text[200]; /* for people; "" when there is nothing to add */
    /* GET, WAIT, CHILDREN and WHY (without payloads): NULL when there is no such instance */
    const struct instance_view *view;
    /* HISTORY: strings of events; has_more: there are others. CHILDREN: strings, the ids of all
     * that its present execution has started. */
    struct bytes events;
    const struct instance_view *rows; /* QUERY */
    size_t rows_n;
    const struct why *why; /* WHY, beside its view; NULL when there is no such instance */
    const struct parked_view *parked; /* ALERTS; has_more */
    size_t parked_n;
    bool has_more; /* QUERY: ask again after the last row; there is one, perhaps fewer than limit */
    uint32_t purged_n; /* PURGE, with recurse all of the tree; PURGE_WHERE */
};

#endif
