/* SPDX-License-Identifier: Apache-2.0
 *
 * History events and orchestrator actions as the core sees them. The bytes of an event are those of
 * the protocol's HistoryEvent: they go from the journal to an SDK as they are, unknown fields
 * included. The core reads only what it decides on.
 *
 * event_codec.c and event_entity_codec.c alone know protobuf here.
 */
#ifndef CORE_EVENT_H
#define CORE_EVENT_H

#include "base/bytes.h"
#include "base/status.h"

struct arena;

/* kind, field number in HistoryEvent (it is on disk: append, never renumber), name */
#define EVENTS(X)                                                                                  \
    X(EXECUTION_STARTED, 3, "ExecutionStarted")                                                    \
    X(EXECUTION_COMPLETED, 4, "ExecutionCompleted")                                                \
    X(EXECUTION_TERMINATED, 5, "ExecutionTerminated")                                              \
    X(TASK_SCHEDULED, 6, "TaskScheduled")                                                          \
    X(TASK_COMPLETED, 7, "TaskCompleted")                                                          \
    X(TASK_FAILED, 8, "TaskFailed")                                                                \
    X(CHILD_CREATED, 9, "SubOrchestrationInstanceCreated")                                         \
    X(CHILD_COMPLETED, 10, "SubOrchestrationInstanceCompleted")                                    \
    X(CHILD_FAILED, 11, "SubOrchestrationInstanceFailed")                                          \
    X(TIMER_CREATED, 12, "TimerCreated")                                                           \
    X(TIMER_FIRED, 13, "TimerFired")                                                               \
    X(ORCHESTRATOR_STARTED, 14, "OrchestratorStarted")                                             \
    X(ORCHESTRATOR_COMPLETED, 15, "OrchestratorCompleted")                                         \
    X(EVENT_SENT, 16, "EventSent")                                                                 \
    X(EVENT_RAISED, 17, "EventRaised")                                                             \
    X(GENERIC, 18, "GenericEvent")                                                                 \
    X(HISTORY_STATE, 19, "HistoryState")                                                           \
    X(CONTINUE_AS_NEW, 20, "ContinueAsNew")                                                        \
    X(EXECUTION_SUSPENDED, 21, "ExecutionSuspended")                                               \
    X(EXECUTION_RESUMED, 22, "ExecutionResumed")                                                   \
    X(ENTITY_SIGNALED, 23, "EntityOperationSignaled")                                              \
    X(ENTITY_CALLED, 24, "EntityOperationCalled")                                                  \
    X(ENTITY_COMPLETED, 25, "EntityOperationCompleted")                                            \
    X(ENTITY_FAILED, 26, "EntityOperationFailed")                                                  \
    X(ENTITY_LOCK_REQUESTED, 27, "EntityLockRequested")                                            \
    X(ENTITY_LOCK_GRANTED, 28, "EntityLockGranted")                                                \
    X(ENTITY_UNLOCK_SENT, 29, "EntityUnlockSent")                                                  \
    X(EXECUTION_REWOUND, 30, "ExecutionRewound")

enum event_kind {
    EVENT_UNKNOWN = 0, /* written by a newer program: kept, not understood */
#define X(kind, number, name) EVENT_##kind = number,
    EVENTS(X)
#undef X
};

/* "TaskScheduled"; static. */
const char *event_name(enum event_kind kind);

/* The numbers of OrchestrationStatus in the protocol. */
enum orchestration_status {
    STATUS_RUNNING = 0,
    STATUS_COMPLETED = 1,
    STATUS_CONTINUED_AS_NEW = 2,
    STATUS_FAILED = 3,
    STATUS_CANCELED = 4,
    STATUS_TERMINATED = 5,
    STATUS_PENDING = 6,
    STATUS_SUSPENDED = 7,
};
/* "COMPLETED"; static. */
const char *orchestration_status_name(enum orchestration_status status);

/* A string that may be absent, which is not the same as empty. */
struct maybe {
    struct bytes value;
    bool has;
};
#define MAYBE_NONE ((struct maybe){{NULL, 0}, false})
static inline struct maybe maybe_some(struct bytes value) { return (struct maybe){value, true}; }

/* A list of byte strings in one: for each, varint length and bytes. For the entries of a tags map,
 * and for lists of events. */
struct strings {
    struct bytes packed;
};
/* Gives the next string of r (a reader over packed); false at the end or on damage. */
bool strings_next(struct reader *r, struct bytes *out);
void strings_add(struct buffer *packed, struct bytes value);
/* How many there are. */
uint32_t strings_count(struct bytes packed);

#define EXECUTION_ID_SIZE 16
#define EXECUTION_TEXT_SIZE (2 * EXECUTION_ID_SIZE) /* 32 lower-case hex digits */
void execution_id_text(const uint8_t id[EXECUTION_ID_SIZE], char out[EXECUTION_TEXT_SIZE]);
/* False unless it is exactly 32 hex digits. */
bool execution_id_parse(struct bytes text, uint8_t id[EXECUTION_ID_SIZE]);

/* What the core decides on; decoded from the bytes of one event. */
struct event_head {
    enum event_kind kind;
    int32_t id;         /* eventId: the action's id, or -1 */
    int32_t ref;        /* taskScheduledId or timerId of completions, else -1 */
    int64_t time_ns;    /* time stamp; 0 when absent */
    struct bytes body;  /* of the oneof field; borrowed from the event */
    struct bytes stamp; /* the time stamp as it came; likewise */
};
/* E_INVALID when it is not a HistoryEvent. */
enum status event_head_decode(struct bytes event, struct event_head *out);
/* The same without the time, which costs more than all the rest: time_ns stays 0 … */
enum status event_peek(struct bytes event, struct event_head *out);
/* … until it is wanted. E_INVALID when it is no time. */
enum status event_stamp_decode(struct event_head *head);

/* Only its kind; EVENT_UNKNOWN when it is not a HistoryEvent. */
enum event_kind event_kind_of(struct bytes event);

/* Milliseconds, rounded up, so that nothing is early; far ones stay far. */
int64_t event_timestamp_ms(int64_t seconds, int32_t nanos);

struct event_parent {
    int32_t task_id;
    struct bytes instance_id;
    uint8_t execution_id[EXECUTION_ID_SIZE];
    bool has_execution_id;
    struct maybe name;
    struct maybe version;
};

/* ExecutionStarted. Bytes borrowed from the event (or from who fills it in for writing). */
struct event_started {
    struct bytes name;
    struct maybe version;
    struct maybe input;
    struct bytes instance_id;
    uint8_t execution_id[EXECUTION_ID_SIZE];
    bool has_parent;
    struct event_parent parent;
    bool has_scheduled;
    int64_t scheduled_ms; /* rounded up: never early */
    struct maybe trace;   /* TraceContext, raw */
    struct bytes tags;    /* strings: raw map entries */
};
enum status event_started_decode(struct bytes event, struct arena *arena,
                                 struct event_started *out);
void event_started_write(struct buffer *out, int64_t now_ns, const struct event_started *started);

/* A tag of a step that undoes another one, after its orchestrator has failed. */
#define TAG_UNDO "norn.undo"
/* Whether the entries of a tags map (strings) have one of that name. */
bool tags_have(struct bytes tags, struct bytes name);

/* TaskScheduled and SubOrchestrationInstanceCreated. */
struct event_scheduled {
    struct bytes name;
    struct maybe version;
    struct maybe input;
    struct bytes instance_id; /* of the child */
    struct maybe trace;
    struct bytes tags;
};
enum status event_scheduled_decode(struct bytes event, struct arena *arena,
                                   struct event_scheduled *out);
/* Only these two, of a TaskScheduled. */
enum status event_scheduled_name(struct bytes event, struct bytes *name, struct maybe *version);

/* ExecutionCompleted. failure is a raw TaskFailureDetails. */
struct event_completed {
    enum orchestration_status status;
    struct maybe result;
    struct maybe failure;
};
enum status event_completed_decode(struct bytes event, struct event_completed *out);

/* ExecutionTerminated; both untouched when it is not one. */
void event_terminated_decode(struct bytes event, struct maybe *input, bool *recurse);

/* TimerCreated: the first millisecond after its time, clamped to what int64_t can hold. */
enum status event_fire_at_decode(struct bytes event, int64_t *fire_at_ms);

/* One orchestrator action. Everything borrowed from the worker's answer or its arena. */
enum action_kind {
    ACTION_SCHEDULE_TASK = 2,
    ACTION_CREATE_CHILD = 3,
    ACTION_CREATE_TIMER = 4,
    ACTION_SEND_EVENT = 5,
    ACTION_COMPLETE = 6,
    ACTION_TERMINATE = 7,
    ACTION_SEND_ENTITY_MESSAGE = 8,
    ACTION_REWIND = 9,
};

struct action {
    enum action_kind kind;
    int32_t id;
    struct bytes name;        /* task, child, event */
    struct maybe version;     /* task, child */
    struct maybe input;       /* task, child, event; result of complete; reason of terminate */
    struct bytes instance_id; /* child (may be empty), event's target, terminate's target */
    struct maybe trace;       /* raw TraceContext */
    struct bytes tags;        /* strings: raw map entries */
    int64_t fire_at_s;        /* timer */
    int32_t fire_at_ns;
    enum orchestration_status status; /* complete */
    struct maybe failure;             /* complete: raw TaskFailureDetails */
    struct maybe new_version;         /* complete, continued as new */
    struct bytes carryover;           /* complete, continued as new: strings, raw HistoryEvents */
    bool recurse;                     /* terminate */
    enum event_kind entity_event;     /* entity message: which of the four, see event_entity.h */
    struct bytes entity_body;         /* entity message: the body of that event */
};

/* The answer of an orchestrator worker. */
struct orchestrator_answer {
    struct action *actions;
    uint32_t actions_n;
    struct maybe custom_status;
    struct maybe trace; /* raw OrchestrationTraceContext */
};
/* From the bytes of an OrchestratorResponse (the fields that the core wants). Bytes borrowed from
 * `response`, arrays in arena. E_INVALID, E_LIMIT (too many actions), E_NOMEM. */
enum status orchestrator_answer_decode(struct bytes response, struct arena *arena,
                                       struct orchestrator_answer *out);

/* The answer of an entity worker: see event_entity.h. */
struct entity_answer;
/* From the bytes of an EntityBatchResult. Bytes borrowed from `result`, the struct and its arrays
 * in arena. E_INVALID, E_LIMIT (too many results or actions), E_NOMEM. */
enum status entity_answer_decode(struct bytes result, struct arena *arena,
                                 const struct entity_answer **out);

/* Writers: append the bytes of one HistoryEvent. Times since 1970. */
void event_write_orchestrator_started(struct buffer *out, int64_t now_ns);
void event_write_task_scheduled(struct buffer *out, int64_t now_ns, const struct action *action);
void event_write_child_created(struct buffer *out, int64_t now_ns, const struct action *action);
void event_write_timer_created(struct buffer *out, int64_t now_ns, const struct action *action);
void event_write_event_sent(struct buffer *out, int64_t now_ns, const struct action *action);
void event_write_execution_completed(struct buffer *out, int64_t now_ns, int32_t id,
                                     const struct event_completed *completed);
void event_write_terminated(struct buffer *out, int64_t now_ns, struct maybe input, bool recurse);
void event_write_suspended(struct buffer *out, int64_t now_ns, struct maybe reason);
void event_write_resumed(struct buffer *out, int64_t now_ns, struct maybe reason);
void event_write_raised(struct buffer *out, int64_t now_ns, struct bytes name, struct maybe input);
void event_write_task_completed(struct buffer *out, int64_t now_ns, int32_t task_id,
                                struct maybe result);
void event_write_task_failed(struct buffer *out, int64_t now_ns, int32_t task_id,
                             struct bytes failure);
void event_write_timer_fired(struct buffer *out, int64_t now_ns, int32_t timer_id,
                             struct bytes timer_created_event);
void event_write_child_completed(struct buffer *out, int64_t now_ns, int32_t task_id,
                                 struct maybe result);
void event_write_child_failed(struct buffer *out, int64_t now_ns, int32_t task_id,
                              struct bytes failure);
void event_write_rewound(struct buffer *out, int64_t now_ns, struct maybe reason);
/* ExecutionStarted of `event`, which is not in `out`, again with another execution id (and parent
 * execution, when given). */
enum status event_started_rewrite(struct buffer *out, struct bytes event, struct arena *arena,
                                  const uint8_t execution_id[EXECUTION_ID_SIZE],
                                  const uint8_t *parent_execution_id);
/* The errorType of a TaskFailed or SubOrchestrationInstanceFailed; empty when there is none.
 * Borrowed. */
struct bytes event_failure_type(struct bytes event);
/* The same of its errorMessage. */
struct bytes event_failure_message(struct bytes event);
/* TaskFailureDetails. */
void failure_write(struct buffer *out, const char *type, struct bytes message, bool is_final);
/* Its errorMessage, for searching; empty when there is none. Borrowed. */
struct bytes failure_message(struct bytes failure);
/* Its isNonRetriable. */
bool failure_is_final(struct bytes failure);

#endif
