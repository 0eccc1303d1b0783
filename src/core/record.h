/* SPDX-License-Identifier: Apache-2.0
 *
 * Records: what the core decided, one by one. A step emits records; each is applied to the core's
 * memory at once and stands in the batch that the host makes durable. Recovery applies the same
 * records again, so memory after a crash is what it was, by construction.
 *
 * Records are of two families with guards of their own. Instance records change one instance and
 * carry its key; one is skipped when the instance (as the archive had it) already has this sequence
 * number or a later one. Partition records change what belongs to no instance; one is skipped when
 * the partition's state has it.
 *
 * QUEUED is of neither: it carries a key, and there is no instance yet. What waits (backlog.h) is
 * in no snapshot: it is read from the journal from the oldest one on, each QUEUED until its
 * ADMITTED.
 */
#ifndef CORE_RECORD_H
#define CORE_RECORD_H

#include "core/event.h"

/* kind, number (it is on disk: append, never renumber), name */
#define RECORDS(X)                                                                                 \
    X(CREATED, 1, "created")                                                                       \
    X(MESSAGE, 2, "message")                                                                       \
    X(TURN, 3, "turn")                                                                             \
    X(CONTINUED, 4, "continued")                                                                   \
    X(TURN_FAILED, 5, "turn_failed")                                                               \
    X(TASK_TRIED, 6, "task_tried")                                                                 \
    X(TASK_CLOSED, 7, "task_closed")                                                               \
    X(LATE, 8, "late")                                                                             \
    X(REWOUND, 9, "rewound")                                                                       \
    X(PARKED, 10, "parked")                                                                        \
    X(UNPARKED, 11, "unparked")                                                                    \
    X(PURGED, 12, "purged")                                                                        \
    X(RELINKED, 13, "relinked")                                                                    \
    X(ENTITY_CREATED, 14, "entity_created")                                                        \
    X(ENTITY_MESSAGE, 15, "entity_message")                                                        \
    X(ENTITY_BATCH, 16, "entity_batch")                                                            \
    X(ENTITY_LOCKED, 17, "entity_locked")                                                          \
    X(ENTITY_UNLOCKED, 18, "entity_unlocked")                                                      \
    X(ENTITY_DUE, 19, "entity_due")                                                                \
    X(WOKEN, 20, "woken")                                                                          \
    X(QUEUED, 21, "queued")                                                                        \
    X(ADMITTED, 22, "admitted")                                                                    \
    X(IMPORTED, 23, "imported")                                                                    \
    X(SEND, 32, "send")                                                                            \
    X(SENT, 33, "sent")                                                                            \
    X(RECEIVED, 34, "received")                                                                    \
    X(SOURCE, 35, "source")

enum record_kind {
#define X(kind, number, name) RECORD_##kind = number,
    RECORDS(X)
#undef X
};
const char *record_name(enum record_kind kind);
/* The first number of the partition family. */
#define RECORD_PARTITION_FIRST 32

/* Messages between instances, which may live in different partitions. Numbers are on disk. */
enum message_kind {
    MESSAGE_START_CHILD = 1,   /* event: ExecutionStarted with parent */
    MESSAGE_CHILD_DONE = 2,    /* event: SubOrchestrationInstanceCompleted or Failed */
    MESSAGE_EVENT = 3,         /* event: EventRaised */
    MESSAGE_TERMINATE = 4,     /* event: ExecutionTerminated */
    MESSAGE_REWIND_CHILD = 5,  /* event: ExecutionStarted with the parent's new execution */
    MESSAGE_ENTITY = 6,        /* to an entity: event: one of the four of event_entity.h */
    MESSAGE_ENTITY_ANSWER = 7, /* event: EntityOperationCompleted or Failed */
    MESSAGE_LOCK_GRANTED = 8,  /* event: the EntityLockRequested that has come to its end */
    MESSAGE_START = 9,         /* event: ExecutionStarted without parent */
};

/* How a task that was tried and not answered goes on. Numbers are on disk. */
enum task_next {
    TASK_NEXT_RETRY = 0,    /* again at retry_at_ms */
    TASK_NEXT_EXTENDED = 1, /* the same after the Supervisor's extended wait */
    TASK_NEXT_PARKED = 2,   /* waits for an operator */
};

struct record {
    enum record_kind kind;
    uint64_t seq;     /* unique and increasing within the partition */
    struct bytes key; /* hub '/' id; instance family only */
    int64_t now_ns;   /* time of the decision */

    /* CREATED, ENTITY_CREATED, CONTINUED, REWOUND: the new one. TASK_TRIED, TASK_CLOSED: the
     * task's. */
    uint8_t execution_id[EXECUTION_ID_SIZE];
    struct bytes event;  /* CREATED, CONTINUED: ExecutionStarted. MESSAGE: the message. SEND: the
                            payload. LATE: the late answer. REWOUND: ExecutionRewound.
                            ENTITY_MESSAGE: the message. ENTITY_UNLOCKED: EntityUnlockSent. */
    int64_t start_at_ms; /* CREATED, ENTITY_MESSAGE: 0, or not before */
    /* QUEUED, ADMITTED: when it was asked for; no other waiting start has the same. QUEUED: name of
     * the orchestrator, execution_id and event as in CREATED, as in ADMITTED. */
    uint64_t order;
    struct bytes name;

    /* TURN and CONTINUED */
    int64_t started_ns;  /* TURN: OrchestratorStarted */
    uint32_t consumed_n; /* inbox messages that become history. ENTITY_BATCH: operations that are
                            done. ENTITY_DUE: signals whose time has come */
    bool is_engine;      /* TURN: made by the engine itself, not by a worker */
    struct bytes events; /* TURN: strings, new events. CONTINUED: strings, carried over.
                            IMPORTED: strings, the whole history */
    struct maybe custom_status; /* ENTITY_BATCH: the new state */
    struct maybe trace;

    /* TURN_FAILED, TASK_TRIED, TASK_CLOSED, LATE */
    int32_t task_id;
    uint32_t failures;
    int64_t retry_at_ms;
    enum task_next next;
    bool is_success;     /* LATE */
    struct bytes reason; /* TURN_FAILED, TASK_TRIED, PARKED */

    /* SEND, SENT, RECEIVED */
    uint32_t peer;        /* partition */
    uint64_t message_seq; /* SENT: all up to this one */
    enum message_kind message;
    struct bytes target;         /* SEND: key of the receiver */
    struct bytes peer_execution; /* SEND: execution the receiver must have, or empty. REWOUND,
                                    RELINKED: the parent's new execution, or empty */
    /* SOURCE */
    struct bytes source;
    uint64_t position;
};

/* Where a record stands: the frame, and the bytes of its payload. */
struct place {
    uint64_t lsn;
    uint32_t offset;
    uint32_t size;
};

/* Sequence numbers beyond it are damage: no partition lives so long. */
#define RECORD_SEQ_MAX (UINT64_MAX / 2)

void record_encode(struct buffer *out, const struct record *record);
/* Bytes borrowed from the reader's. E_CORRUPT. */
enum status record_decode(struct reader *in, struct record *out);

#endif
