/* SPDX-License-Identifier: Apache-2.0
 *
 * What can happen to a partition. Time, randomness and the number of the batch come with the input;
 * the core has no other source of them. All bytes are borrowed during the step.
 */
#ifndef CORE_INPUT_H
#define CORE_INPUT_H

#include "core/event_entity.h"
#include "core/record.h"

/* kind, handler's file */
#define INPUTS(X)                                                                                  \
    X(CLIENT_START, from_client)                                                                   \
    X(CLIENT_RAISE, from_client)                                                                   \
    X(CLIENT_TERMINATE, from_client)                                                               \
    X(CLIENT_SUSPEND, from_client)                                                                 \
    X(CLIENT_RESUME, from_client)                                                                  \
    X(CLIENT_REWIND, from_client)                                                                  \
    X(CLIENT_RESTART, from_client)                                                                 \
    X(CLIENT_PURGE, from_client)                                                                   \
    X(CLIENT_RESUBMIT, from_client)                                                                \
    X(CLIENT_SIGNAL, entity_inbox)                                                                 \
    X(CLIENT_IMPORT, from_import)                                                                  \
    X(WORKER_TAKE, from_worker)                                                                    \
    X(WORKER_TURN_DONE, from_worker)                                                               \
    X(WORKER_TASK_DONE, from_worker)                                                               \
    X(WORKER_ENTITY_DONE, entity_work)                                                             \
    X(WORKER_ABANDON, from_worker)                                                                 \
    X(WORKER_RENEW, from_worker)                                                                   \
    X(CLOCK_TICK, from_clock)                                                                      \
    X(PARTITION_MESSAGE, from_partition)                                                           \
    X(PARTITION_ACK, from_partition)                                                               \
    X(BACKLOG_ADMIT, from_backlog)                                                                 \
    X(BACKLOG_CARRY, from_backlog)                                                                 \
    X(SOURCE_POSITION, sources)

enum input_kind {
#define X(kind, file) INPUT_##kind,
    INPUTS(X)
#undef X
};
const char *input_name(enum input_kind kind);

enum work_kind { WORK_TURN, WORK_TASK, WORK_ENTITY };
#define WORK_KINDS_N 3

/* Names one dispatch of one piece of work: what a completion token says. */
struct work_ref {
    enum work_kind kind;
    uint32_t partition;
    uint32_t epoch; /* of the owner that dispatched it */
    struct bytes key;
    uint8_t execution_id[EXECUTION_ID_SIZE];
    int32_t task_id;  /* WORK_TASK */
    uint32_t attempt; /* failures before this dispatch */
    uint64_t base;    /* WORK_TURN, WORK_ENTITY: turns or batches committed before it */
    uint32_t inbox_n; /* WORK_TURN: messages that were given; WORK_ENTITY: operations */
    int64_t
        started_ns; /* WORK_TURN: the orchestrator's clock that was given; WORK_TASK: when it was
                           scheduled */
};

/* What to do when a started id exists. Two generations of clients mean two different things. */
enum reuse {
    REUSE_DEFAULT,   /* terminal ones are replaced, others are E_EXISTS */
    REUSE_REPLACE,   /* statuses in mask are replaced (running ones terminated first), others are
                        E_EXISTS; E_INVALID when the mask has a running one without TERMINATED */
    REUSE_TERMINATE, /* the same as older clients mean it: the mask need not have TERMINATED */
    REUSE_IGNORE,    /* statuses in mask: OK and nothing happens, others E_EXISTS */
    REUSE_NEVER,     /* E_EXISTS */
};

/* Where a message stands in what it came from (a stream, say), of those that belong to one
 * partition. The last position that was taken is durable in the same frame as what the message
 * started: so each is taken once, whatever crashes. */
struct input_position {
    struct bytes source; /* empty = none */
    uint64_t position;   /* larger than that of all before it; not larger than the last one: OK, it
                            was taken before, nothing happens and the answer says "duplicate" */
    uint64_t after;      /* the one before it; not the last one taken: E_STALE, one is missing */
};

struct input_start {
    struct bytes key;
    struct bytes name;
    struct maybe version;
    struct maybe input;
    struct maybe trace; /* raw TraceContext */
    struct bytes tags;  /* strings: raw map entries */
    bool has_scheduled;
    int64_t scheduled_ms; /* past = now */
    enum reuse reuse;
    uint32_t reuse_mask; /* bit n = status n */
    /* Empty, or the start is a message of this source: see struct input_position. */
    struct input_position at;
};

/* An operation for an entity that nobody waits for. The entity exists from its first one on. */
struct input_signal {
    struct bytes key; /* hub '/' "@name@key"; the name in lower case: see entity_id_lower() */
    struct bytes operation;
    struct maybe input;
    struct bytes request_id; /* a GUID; empty: the core makes one */
    struct maybe trace;      /* raw TraceContext */
    bool has_scheduled;
    int64_t scheduled_ms; /* past = now */
};

struct input_worker_done {
    bool has_ref; /* false: a worker that cannot echo tokens; then key (and task_id) tell */
    struct work_ref ref;
    struct bytes key;
    int32_t task_id;
    const struct orchestrator_answer *answer; /* WORKER_TURN_DONE */
    struct maybe result;                      /* WORKER_TASK_DONE */
    struct maybe failure;                     /* raw TaskFailureDetails; wins over result */
    const struct entity_answer *entity;       /* WORKER_ENTITY_DONE */
};

struct input {
    enum input_kind kind;
    int64_t now_ns;     /* not before the previous input's */
    uint64_t lsn;       /* of the batch this step's records will be in */
    uint64_t random[2]; /* fresh for every input */
    uint64_t request;   /* echoed in the reply; 0 = no reply wanted */
    /* CLIENT_*, when the start of the instance waits: its QUEUED record. What can be answered by it
     * is, and the start waits on. Only for START, RESUME, REWIND, RESTART, RESUBMIT, IMPORT, and a
     * PURGE that is not forced: for others it is admitted first. */
    struct bytes waiting;
    union {
        struct input_start start;
        struct input_signal signal;
        struct {
            struct bytes key;
            struct bytes name; /* CLIENT_RAISE */
            struct maybe data; /* RAISE: input; TERMINATE: output; SUSPEND, RESUME, REWIND: reason;
                                IMPORT: strings, all events of an execution that has ended */
            bool recurse;      /* CLIENT_TERMINATE */
            bool is_forced;    /* CLIENT_PURGE: one that has not ended is terminated first */
            int32_t task_id;   /* CLIENT_RESUBMIT */
        } client;
        struct {
            enum work_kind kind;
            struct bytes queue; /* as in EFFECT_READY */
            uint32_t worker;    /* opaque, shown as LockedBy */
            bool want_history;  /* WORK_TURN: past events too (false: the worker has them) */
        } take;
        struct input_worker_done done;
        struct {
            struct work_ref ref;
            bool is_lost; /* the worker is gone, rather than refusing */
            /* WORKER_ABANDON: it never reached the worker: offered again at once, and no failure is
             * counted. Nobody can have its token. */
            bool is_unsent;
            bool is_parked; /* WORKER_ABANDON: no worker can do it: it waits for an operator */
            struct bytes reason;
            int64_t extend_ms; /* WORKER_RENEW: complete-by from now */
            bool is_limit;     /* WORKER_RENEW: one is set also where the policy has none */
        } lease;
        struct {
            uint32_t from;
            uint64_t seq;
            enum message_kind kind;
            struct bytes target;
            struct bytes execution; /* the receiver must have it; empty = any */
            struct bytes event;
        } message;
        struct {
            uint32_t from;
            uint64_t seq; /* all up to this one have arrived durably */
        } ack;
        struct bytes record;            /* BACKLOG_*: the QUEUED record, as the journal has it */
        struct input_position position; /* SOURCE_POSITION: the message starts nothing */
    };
};

/* The key of an instance: hub '/' id. Hubs have no '/'. */
struct bytes key_hub(struct bytes key);
struct bytes key_id(struct bytes key);

#endif
