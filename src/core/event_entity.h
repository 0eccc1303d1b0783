/* SPDX-License-Identifier: Apache-2.0
 *
 * Entities in the protocol's bytes: messages to them, their answers, and what their workers say.
 *
 * Four events travel to an entity: EntityOperationSignaled, EntityOperationCalled,
 * EntityLockRequested and EntityUnlockSent. An orchestration keeps in its history what its worker
 * wrote; what the entity gets also says which execution it comes from, because an answer or a lock
 * belongs to an execution, not to an id that may begin again. Two of the events have no field for
 * it: there it stands in one of our own, which no worker ever sees.
 */
#ifndef CORE_EVENT_ENTITY_H
#define CORE_EVENT_ENTITY_H

#include "core/event.h"

/* One of the four. Bytes borrowed from the event, lock_set in the arena. */
struct event_entity {
    enum event_kind kind;
    struct bytes request_id; /* of an operation */
    struct bytes operation;
    struct bytes section; /* of a lock request or unlock: criticalSectionId */
    bool has_scheduled;
    int64_t scheduled_ms; /* of a signal; rounded up: never early */
    struct bytes target;  /* id of the entity; a lock request has none */
    struct bytes parent;  /* id of the orchestration; a signal has none */
    bool has_parent_execution;
    uint8_t parent_execution[EXECUTION_ID_SIZE];
    struct bytes lock_set; /* strings: ids of entities */
};
/* E_INVALID when it is none of the four. */
enum status event_entity_decode(struct bytes event, struct arena *arena, struct event_entity *out);
/* The same from the body alone, as it stands in an action. */
enum status entity_body_decode(enum event_kind kind, struct bytes body, struct arena *arena,
                               struct event_entity *out);

/* requestId or criticalSectionId, whichever an event about entities has; empty for others.
 * Borrowed. */
struct bytes event_entity_id(struct bytes event);

/* ---- writers: append the bytes of one HistoryEvent ---- */

/* Into the history of the orchestration, as its worker wrote it. */
void event_write_entity(struct buffer *out, int64_t now_ns, int32_t id, enum event_kind kind,
                        struct bytes body);
/* To the entity: an operation of an orchestration. Its parent and execution are what the engine
 * knows, whatever the worker wrote; execution NULL: of a signal, which has neither. */
void event_write_operation(struct buffer *out, int64_t now_ns, enum event_kind kind,
                           struct bytes body, struct bytes parent,
                           const uint8_t execution[EXECUTION_ID_SIZE]);
struct signal {
    struct bytes request_id;
    struct bytes operation;
    struct maybe input;
    struct bytes target;
    bool has_scheduled;
    int64_t scheduled_ms;
};
void event_write_signal(struct buffer *out, int64_t now_ns, const struct signal *signal);
/* lock_set: strings, sorted, none twice. */
void event_write_lock_request(struct buffer *out, int64_t now_ns, struct bytes section,
                              struct bytes lock_set, struct bytes parent,
                              const uint8_t execution[EXECUTION_ID_SIZE]);
void event_write_unlock(struct buffer *out, int64_t now_ns, struct bytes section,
                        struct bytes target, struct bytes parent,
                        const uint8_t execution[EXECUTION_ID_SIZE]);
/* To the orchestration. failure: raw TaskFailureDetails. */
void event_write_operation_completed(struct buffer *out, int64_t now_ns, struct bytes request_id,
                                     struct maybe output);
void event_write_operation_failed(struct buffer *out, int64_t now_ns, struct bytes request_id,
                                  struct bytes failure);
void event_write_lock_granted(struct buffer *out, int64_t now_ns, struct bytes section);

/* ---- what an entity's worker answers: EntityBatchResult ---- */

struct entity_result {
    bool is_failure;
    struct maybe output;
    struct bytes failure; /* raw TaskFailureDetails */
};

enum entity_action_kind {
    ENTITY_ACTION_SIGNAL = 2,
    ENTITY_ACTION_START = 3,
};

struct entity_action {
    enum entity_action_kind kind;
    struct bytes instance_id; /* START: may be empty */
    struct bytes name;        /* of the operation or the orchestrator */
    struct maybe version;     /* START */
    struct maybe input;
    bool has_scheduled;
    int64_t scheduled_ms;
    struct maybe trace; /* raw TraceContext */
};

/* All borrowed from the answer's bytes or its arena. */
struct entity_answer {
    const struct entity_result *results; /* by operation; fewer: the rest was not begun */
    uint32_t results_n;
    const struct entity_action *actions;
    uint32_t actions_n;
    struct maybe state;   /* none: deleted */
    struct maybe failure; /* raw TaskFailureDetails: the whole batch has failed */
    bool requires_state;  /* the worker has lost it: to be given again */
};

#endif
