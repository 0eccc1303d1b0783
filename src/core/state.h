/* SPDX-License-Identifier: Apache-2.0
 *
 * What a partition remembers. Private to core/; everybody else sees core.h.
 *
 * Durable is what the records say: instances with their history, inbox and counters, the outbox and
 * the positions of other partitions. Volatile, rebuilt after a crash from the durable part: the
 * queues of work, who holds a lease, the heap of due times.
 *
 * Memory: an `instance` and its `open` map entries come from core->mem; all events and items of an
 * instance from its arena, which is dropped as a whole.
 */
#ifndef CORE_STATE_H
#define CORE_STATE_H

#include "base/arena.h"
#include "base/assert.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/map.h"
#include "core/backlog.h"
#include "core/core.h"
#include "core/entity_id.h"
#include "core/event_entity.h"
#include "core/id_set.h"

/* Arena of the instance. */
struct event {
    struct event *next;
    enum event_kind kind;
    int32_t id;
    int32_t ref;
    uint32_t len;
    uint8_t data[];
};

struct event_list {
    struct event *first;
    struct event *last;
    uint32_t n;
    size_t size; /* sum of len */
};

/* What becomes due at a time: in core->due while linked. */
enum due_kind {
    DUE_TIMER,       /* item: fires */
    DUE_START,       /* instance: its scheduled start */
    DUE_TURN_RETRY,  /* instance: its turn may be tried again */
    DUE_TASK_RETRY,  /* item: may be tried again */
    DUE_COMPLETE_BY, /* item: the worker is late */
    DUE_ENTITY,      /* instance: a signal's time has come, or its batch may be tried again */
};
struct due {
    struct heap_node node;
    enum due_kind kind;
};

enum item_kind { ITEM_TASK, ITEM_TIMER, ITEM_CHILD, ITEM_CALL };

/*      QUEUED ──take──> LEASED ──answer──> closed
 *        ^                 │ abandoned, lost, late, failed and to be repeated
 *        │   due           v
 *        └──────────── WAITING ──beyond the second threshold──> PARKED ──resubmit──> QUEUED
 */
enum task_state {
    TASK_STATE_NONE, /* being opened or closed */
    TASK_STATE_QUEUED,
    TASK_STATE_LEASED,
    TASK_STATE_WAITING,
    TASK_STATE_PARKED,
};

/* Something an execution has begun and that has not answered yet: one for each open TaskScheduled,
 * TimerCreated, SubOrchestrationInstanceCreated and EntityOperationCalled. Arena of the
 * instance. */
struct item {
    struct map_node node; /* in core->open, by item_key; ITEM_CALL by instance and request id */
    uint8_t item_key[12]; /* instance number, id */
    struct list of_instance;
    struct instance *instance;
    enum item_kind kind;
    int32_t id;
    const struct event *created;
    struct due due;
    /* ITEM_TASK */
    int64_t scheduled_ns; /* time of `created` once it was asked for; 0 = not yet */
    bool is_detached;     /* of an execution that has ended: its answer is not wanted any more */
    uint8_t execution_id[EXECUTION_ID_SIZE];
    enum task_state state; /* set by task_set_state() only */
    struct list queued;
    struct work_queue *queue;
    uint32_t failures;
    uint32_t worker;
    int64_t retry_at_ms; /* TASK_STATE_PARKED: since when it is */
    int64_t complete_by_ms;
};

/* A late answer, kept for people and for compensation. Arena of the instance. */
struct late {
    struct late *next;
    int32_t task_id;
    uint32_t attempt;
    int64_t time_ns;
    bool is_success;
    struct bytes answer;
};

/* What an instance is counted as, for core_gauges(). */
enum gauge {
    GAUGE_NONE,
    GAUGE_PENDING,
    GAUGE_RUNNING,
    GAUGE_SUSPENDED,
    GAUGE_ENDED,
    GAUGE_PURGED,
    GAUGE_ENTITY,
};
#define GAUGES_N 7

/* A signal that waits for its time. Arena of the instance. */
struct delayed {
    struct delayed *next;
    int64_t at_ms;
    struct event *event;
};

/* An orchestration or an entity (is_entity): see entities.c for what the latter has instead of a
 * history. */
struct instance {
    /* ---- what every step looks at: fetched ahead, see core_prefetch() ---- */
    struct map_node node; /* in core->instances, by key */
    struct list all;      /* in core->all */
    struct list dirty;    /* in core->dirty or core->finished, while dirty */
    struct list idle;     /* in core->idle, while without work and not purged */
    struct list parked;   /* in core->parked, while it waits for an operator: see parked.c */
    struct core *core;
    uint64_t number;  /* unique in this process */
    struct bytes key; /* owned, from core->mem */
    struct arena arena;

    /* durable */
    uint64_t seq; /* of the last record applied */
    uint8_t execution_id[EXECUTION_ID_SIZE];
    enum orchestration_status status; /* SUSPENDED is told by is_suspended */
    bool is_suspended;
    bool is_purged;
    bool is_entity;
    bool needs_turn;        /* a turn is due although the inbox is empty (after a rewind) */
    bool is_status_carried; /* custom status of the previous generation, none set yet */
    bool is_poisoned;       /* parked: turns are not offered */
    struct event_list history;
    struct event_list inbox;
    uint64_t turns;      /* committed; also every other change of the history, and every time it was
                          unparked: base of a turn */
    uint32_t failures;   /* of the present turn */
    int64_t retry_at_ms; /* of the present turn; while parked: since when it is */
    int64_t start_at_ms;
    int64_t updated_ns;
    struct maybe custom_status;
    struct maybe trace;

    /* folded from the events */
    const struct event *started; /* ExecutionStarted; in inbox or history */
    struct bytes name;           /* these two from it, borrowed from its bytes */
    struct maybe version;
    bool has_parent;
    bool has_tags;
    bool has_reply;                /* somebody wants to be told of its progress: replies.h */
    uint32_t locks_n;              /* EntityLockRequested in the history */
    int32_t id_max;                /* largest id of an action in the history; -1 = none */
    const struct event *completed; /* ExecutionCompleted, when terminal */
    struct list items;
    struct list items_free; /* closed ones, for the next to be opened: they are in the arena */
    uint32_t items_n;
    uint32_t busy_n;   /* tasks that are queued, leased or waiting for their next try */
    uint32_t parked_n; /* tasks that wait for an operator */

    /* volatile */
    struct due due; /* scheduled start or retry of the turn; next signal of an entity */
    struct list queued;
    struct work_queue *queue;
    bool is_leased;
    uint32_t worker;
    uint32_t lease_inbox_n;
    int64_t lease_started_ns;
    uint64_t dirty_lsn;    /* batch of the oldest record not taken for archiving yet; 0 = clean */
    bool is_in_finished;   /* which list `dirty` is in */
    bool is_archived;      /* the archive has a row of it */
    uint64_t archived_seq; /* as of this record */
    int64_t touched_ms;
    enum gauge counted_as;       /* set by instance_sort() only, as is the next */
    struct backlog_name *active; /* counted there; NULL = it is not active, or nobody counts */

    /* ---- the rest; created_ns is the first of it ---- */
    int64_t created_ns;
    int64_t completed_ns;
    struct maybe input;         /* from `started`, borrowed, as is the next */
    struct event_parent parent; /* has_parent */
    /* Why its turn or one of its tasks failed last, or was parked. In error_room or, as it was
     * loaded, elsewhere in the arena. */
    struct bytes last_error;
    uint8_t *error_room; /* LIMIT_REASON_SIZE; NULL before the first error since it was loaded */
    struct late *late_first;
    uint32_t late_n;

    /* durable, of an entity */
    struct maybe state;
    struct event_list held;  /* calls of the holder, while locked */
    struct delayed *delayed; /* by time */
    uint32_t delayed_n;
    size_t delayed_size;
    const struct event *lock;  /* the EntityLockRequested that has it; NULL = not locked */
    struct bytes lock_section; /* these three from it, borrowed */
    struct bytes lock_parent;
    uint8_t lock_execution[EXECUTION_ID_SIZE];
};

/* Work of one kind and name that waits for a worker. */
struct work_queue {
    struct map_node node; /* in core->queues, by key */
    struct bytes key;     /* owned */
    enum work_kind kind;
    struct bytes hub; /* these three in the key */
    struct bytes name;
    struct bytes version;
    struct list all;     /* in core->all_queues */
    struct list members; /* item.queued or instance.queued */
    size_t n;
};

/* A message on its way to another instance. From core->mem. */
struct letter {
    struct letter *next;
    uint64_t seq;
    enum message_kind kind;
    struct bytes target; /* these three behind the struct */
    struct bytes execution;
    struct bytes event;
    size_t size; /* of the allocation */
};

/* What this partition keeps of another one (or of itself: all messages take the same way). */
struct peer {
    uint64_t sent_seq;     /* last number given */
    uint64_t received_seq; /* last number that arrived from there */
    struct letter *first;  /* not acknowledged, oldest first */
    struct letter *last;
    int64_t resend_at_ms; /* while first != NULL */
};

/* Something that messages come from. From core->mem. */
struct source {
    struct map_node node;
    struct list all;
    struct bytes name; /* behind the struct */
    uint64_t position; /* the last one taken */
};

struct core {
    struct core_options options;
    struct mem *mem;
    int64_t now_ns;
    uint64_t seq;                 /* of the last record */
    uint64_t partition_seq;       /* of the last partition record applied */
    uint64_t snapshot_seq;        /* seq when the partition's state was last taken for archiving */
    uint64_t partition_dirty_lsn; /* oldest batch with partition records not archived; 0 = clean */
    uint64_t numbers;             /* of instances */
    uint64_t orders;              /* of due times */
    bool is_recovering;           /* no effects, no volatile state */
    uint64_t lsn;                 /* of the present step */
    struct place place;           /* of the record being applied */
    uint64_t waiting_lsn;         /* of the snapshot that was loaded: see core_waiting_lsn() */

    struct map instances;
    struct map open;
    struct map queues;
    struct work_queue *recent_queues[WORK_KINDS_N]; /* last used; names come in runs. NULL = none */
    struct list all;
    struct list all_queues;
    struct list dirty;    /* not terminal, by dirty_lsn */
    struct list finished; /* terminal or purged, and dirty */
    size_t finished_n;
    struct list idle;   /* by touched_ms */
    struct list parked; /* what waits for an operator and therefore stays in memory */
    uint64_t parked_n;
    size_t instances_n;
    struct heap due;
    struct peer *peers; /* partitions_n */
    struct map sources;
    struct list all_sources;
    struct backlog *backlog; /* shared; NULL = nothing is put off */
    uint32_t letters_n;
    struct core_stats stats;
    uint64_t gauges[GAUGES_N]; /* instances, by counted_as */

    /* the present step */
    const struct input *in;
    struct output *out; /* NULL while recovering */
    uint32_t ids_made;
    struct buffer scratch;  /* an event being written */
    struct buffer scratch2; /* the same inside apply() and queues */
    struct buffer events;   /* strings of events for a record */
    struct arena temporary; /* decoded views; reset by each step */
};

/* ---- instances.c ---- */
struct instance *instance_find(const struct core *c, struct bytes key);
/* Not a tombstone. */
struct instance *instance_find_live(const struct core *c, struct bytes key);
struct instance *instance_new(struct core *c, struct bytes key);
/* Frees its contents and forgets everything but key and archive state. */
void instance_clear(struct instance *i);
/* Out of memory for good. */
void instance_drop(struct instance *i);
bool instance_is_terminal(const struct instance *i);
/* One of the four that an execution can end with. */
bool status_is_end(enum orchestration_status status);
enum orchestration_status instance_status(const struct instance *i);
/* Has something that only memory can go on with: ready, leased, queued or waiting work. */
bool instance_has_work(const struct instance *i);
int64_t instance_wake_ms(const struct instance *i);
/* Called after every change: marks dirty, moves between the lists. */
void instance_touched(struct instance *i);
/* Into or out of the list of idle ones, as its state wants; and counted as what it is. */
void instance_sort(struct instance *i);
enum gauge instance_gauge(const struct instance *i);
/* Counts for the limits of the backlog: by what it was last counted as. Replies do not: a receiver
 * that does not hear must not keep others from being started. */
bool instance_is_active(const struct instance *i);
void instance_view(const struct instance *i, struct arena *arena, struct instance_view *out);
void instance_check(const struct instance *i);
bool instance_has_started(const struct instance *i); /* ExecutionStarted is in its history */

/* ---- parked.c ---- */
bool instance_is_parked(const struct instance *i);
/* Into or out of the list of those that stay in memory for an operator; by instance_sort(). */
void parked_sort(struct instance *i);
/* Remembers why something failed; of reserved memory. */
void instance_set_error(struct instance *i, struct bytes reason);

/* ---- fold.c: events into instances ---- */
/* Copies data to the arena. NULL when it is not an event. */
struct event *event_new(struct instance *i, struct bytes data);
/* The same for bytes of our own making or already checked: cannot fail. */
struct event *event_must(struct instance *i, struct bytes data);
/* Remembers what ExecutionStarted says. False when it is damaged. */
bool instance_set_started(struct instance *i, const struct event *event);
void event_list_add(struct event_list *list, struct event *event);
/* The first one; there must be one. */
struct event *event_list_pop(struct event_list *list);
/* The TaskScheduled, TimerCreated or SubOrchestrationInstanceCreated that a completion is for. An
 * id may be used again afterwards; of several, the last before the answer is meant. */
bool event_answers(const struct event *answer, const struct event *created);
/* The ids that a turn which reads consumed_n messages may not use, with room for more_n; core's
 * temporary arena. */
void ids_in_use(const struct instance *i, uint32_t consumed_n, size_t more_n, struct id_set *set);
/* To the inbox, with what its arrival means (an open item is answered, suspended, resumed). */
void fold_message(struct instance *i, struct event *event);
/* To the history, with what it begins or ends. */
void fold_history(struct instance *i, struct event *event);
/* The first n messages of the inbox become history. */
void fold_consume(struct instance *i, uint32_t n);
/* Opens the items of the history that nothing in history or inbox has answered. */
void fold_reopen(struct instance *i);
void instance_continue(struct instance *i, const struct record *record);
void instance_rewind(struct instance *i, const struct record *record);

/* rewind.c: what it takes out of the history of an instance that has failed. Calls of entities that
 * were open are made again, too, and locks that were not granted are asked for again; what is
 * answered in the inbox will still be read. */
#define REWIND_TAKEN_N 16
struct rewind {
    const struct event_list *history;
    const struct event_list *inbox;
    const struct event
        *last_turn;            /* the beginning of the turn that ended it; NULL: there is none */
    const struct event *cause; /* the failure that the end names, or NULL */
    bool is_last_turn;         /* what is asked about now stands there */
    /* Failures that it takes, and so what the last turn decided. Nearly always they are few: then
     * the tasks of a large history need not each be looked for in all of it. */
    uint32_t taken_n;
    const struct event *taken[REWIND_TAKEN_N];
};
struct rewind rewind_make(const struct event_list *history, const struct event_list *inbox);
/* To be asked about every event of the history, in order. */
bool rewind_keeps(struct rewind *r, const struct event *e);
/* The parent was rewound: its new execution is the one to tell. */
void instance_relink(struct instance *i, const struct record *record);

/* ---- reserve.c: memory, before anything changes; false without ---- */
bool reserve_step(struct core *c, const struct input *in, struct output *out);
bool reserve_apply(struct core *c, const struct record *record);
bool reserve_load(struct core *c, size_t size);

/* ---- valid.c: what comes from the disk ---- */
/* hub '/' id */
bool key_is_valid(struct bytes key);
/* It can be applied to i (NULL: not in memory). Uses c->temporary, of reserved memory. */
bool record_is_valid(struct core *c, const struct instance *i, const struct record *record);
/* Of the strings of a whole history, as far as import_problem() has read it. */
struct imported {
    bool has_start;
    bool has_end;                 /* ExecutionCompleted is there, and nothing after it */
    struct event_started started; /* borrowed, and in c->temporary */
    int64_t created_ns;
    int64_t completed_ns;
    enum orchestration_status status;
};
/* Why they cannot be the history of an instance; NULL when they can, whether it has ended or not.
 * Uses c->temporary, of reserved memory. */
const char *import_problem(struct core *c, struct bytes events, struct imported *out);
/* Status, history and inbox of a snapshot agree; before anything is folded from them. */
bool loaded_is_valid(struct core *c, const struct instance *i);
bool loaded_entity_is_valid(struct core *c, const struct instance *i);
bool task_event_is_valid(struct core *c, struct bytes event);

/* ---- entities.c ---- */
/* The list whose front is given to a worker. */
struct event_list *entity_operations(struct instance *i);
/* How many operations are the next batch; 0 = nothing to do now. */
uint32_t entity_batch_n(const struct instance *i);
/* Nothing of it is left that anybody could ask for. */
bool entity_is_empty(const struct instance *i);
uint32_t entity_backlog_n(const struct instance *i);
size_t entity_backlog_size(const struct instance *i);
/* A lock request stands first, and nobody has the entity. */
bool entity_lock_is_due(const struct instance *i);
/* Remembers what the request says. False when it is damaged. */
bool entity_lock_set(struct instance *i, const struct event *request);
bool entity_is_locked_by(const struct instance *i, const struct event_entity *unlock);
/* The lock request of the same section that waits; NULL = none. */
const struct event *entity_request_of(const struct instance *i, const struct event_entity *unlock);
/* Apply the records of the same names. */
void entity_create(struct instance *i, const struct record *record);
void entity_message(struct instance *i, const struct record *record);
void entity_batch(struct instance *i, const struct record *record);
void entity_lock(struct instance *i);
void entity_unlock(struct instance *i, const struct record *record);
void entity_due(struct instance *i, uint32_t n);
void entity_delay(struct instance *i, struct event *event, int64_t at_ms);
/* Memory that entity_batch() takes for moving what lives; 0 when it does not move. */
size_t entity_move_size(const struct instance *i);
void entity_schedule(struct instance *i);

/* ---- entity_inbox.c ---- */
/* It may come to the entity of this id. */
bool entity_event_is_sound(struct core *c, struct bytes id, struct bytes event,
                           struct event_entity *out);
/* A GUID as text; until the end of the step. */
struct bytes new_request_id(struct core *c);
void on_entity_message(struct core *c, const struct input *in);
void on_entity_answer(struct core *c, const struct input *in);
/* Its time has come: signals that waited, or the next try. */
void on_entity_due(struct instance *i);

/* ---- entity_work.c ---- */
void entity_take(struct instance *i, struct effect_work *work);
/* The dispatch is the present one. */
bool entity_matches(const struct instance *i, const struct work_ref *ref);

/* ---- locks.c ---- */
/* Sorted, none twice, names in lower case; appended. False when it is empty, too large, or has an
 * id that is none. */
bool lock_set_normal(struct core *c, struct bytes set, struct buffer *out);
/* The member after this one (empty: it is the last). False when id is no member. */
bool lock_set_next(struct bytes set, struct bytes id, struct bytes *next);
/* An orchestration asks for a set, or unlocks one of it. */
void locks_ask(struct instance *i, struct bytes section, struct bytes set);
void locks_unlock(struct instance *i, struct bytes section, struct bytes target);
/* The execution ends: releases all that it has asked for and not unlocked. While its history is
 * there. */
void locks_release(struct instance *i);
bool locks_is_granted(const struct instance *i, struct bytes section);
/* The history says that it has some entity locked. */
bool locks_are_held(const struct instance *i);
/* After a rewind: what the history says is locked was released when it failed. */
void locks_ask_again(struct instance *i);
void on_lock_granted(struct core *c, const struct input *in);
/* After every change of an entity: a lock request at the front becomes the lock, and an entity of
 * which nothing is left goes. */
void entity_settle(struct instance *i);
/* The request (its event) goes on to the next entity of its set, or back as a grant. */
void lock_pass_on(struct instance *i, struct bytes event);

/* ---- items.c ---- */
/* A call of an entity that is open, by its request id. */
struct item *call_find(const struct instance *i, struct bytes request_id);
struct item *item_open(struct instance *i, enum item_kind kind, const struct event *created);
/* A task that an ended execution left behind. */
struct item *item_open_detached(struct instance *i, const struct event *created,
                                const uint8_t execution_id[EXECUTION_ID_SIZE]);
struct item *item_find(const struct instance *i, int32_t id, enum item_kind kind);
/* A task of the present execution, or one that an ended execution left behind. */
struct item *task_find(const struct instance *i, const uint8_t execution_id[EXECUTION_ID_SIZE],
                       int32_t id);
void item_close(struct item *item);
/* Ends what an ended execution had begun: timers and children are forgotten, tasks that were
 * scheduled still run, but nobody waits for them; all go with `everything`. */
void items_end(struct instance *i, bool everything);
/* A copy in the instance's present arena takes the place of one in an arena that is about to go. */
void item_move(struct item *item);
void task_set_state(struct item *item, enum task_state state);
void item_queue(struct item *item);
/* Out of its queue, lease and heap. */
void item_unqueue(struct item *item);

/* ---- queues.c ---- */
/* hub, kind, name and version as one key; appended. Effective version of a task: its own or else
 * that of the orchestration. */
void queue_key(struct buffer *out, enum work_kind kind, struct bytes hub, struct bytes name,
               struct bytes version);
void queue_add_item(struct item *item);
void queue_add_turn(struct instance *i);
void queue_remove_item(struct item *item);
void queue_remove_turn(struct instance *i);
struct work_queue *queue_find(const struct core *c, enum work_kind kind, struct bytes key);
/* READY for every member: after recovery. */
void queues_announce(struct core *c);
/* Frees the empty ones that were kept. */
void queues_release(struct core *c);
/* Puts the instance's turn into its queue, or out, as its state wants. */
void turn_schedule(struct instance *i);

/* ---- due.c (heap of due times) ---- */
void due_set(struct core *c, struct due *due, enum due_kind kind, int64_t at_ms);
void due_clear(struct core *c, struct due *due);

/* ---- outbox.c ---- */
/* Emits the SEND record (and its effect). */
void outbox_send(struct core *c, enum message_kind kind, struct bytes target,
                 struct bytes execution, struct bytes event);
void outbox_apply(struct core *c, const struct record *record);
void outbox_release(struct core *c);
/* Sends what is unacknowledged again; `everything` after recovery, else what is due. */
void outbox_resend(struct core *c, bool everything);
/* Bytes that the next outbox_resend() may copy, about. */
size_t outbox_resend_size(const struct core *c);
int64_t outbox_wake_ms(const struct core *c);
void outbox_snapshot(const struct core *c, struct buffer *out);
enum status outbox_load(struct core *c, struct reader *in);

/* ---- sources.c ---- */
/* The message may be taken. Else it has been answered. */
bool source_admits(struct core *c, const struct input_position *at);
/* It is taken: emits the record. */
void source_take(struct core *c, const struct input_position *at);
void source_apply(struct core *c, const struct record *record);
bool source_record_is_valid(const struct core *c, const struct record *record);
void sources_release(struct core *c);
void sources_snapshot(const struct core *c, struct buffer *out);
enum status sources_load(struct core *c, struct reader *in);
void on_source_position(struct core *c, const struct input *in);

/* ---- from_backlog.c ---- */
/* Puts the start off; it is answered. */
void backlog_defer(struct core *c, struct bytes key, struct event_started *started);
void queued_apply(struct core *c, const struct record *record);
/* It waits no more, if it did. */
void admitted_apply(struct core *c, const struct record *record);
/* The record of the start that waits, of in->waiting; false when there is none. Borrowed. */
bool waiting_read(const struct core *c, const struct input *in, struct record *out);
/* The instance is in memory from now on. */
struct instance *waiting_admit(struct core *c, const struct record *queued);
/* As reply_instance(). */
void reply_waiting(struct core *c, const struct record *queued);
void on_backlog_admit(struct core *c, const struct input *in);
void on_backlog_carry(struct core *c, const struct input *in);

/* ---- emit.c: records and effects of the present step ---- */
/* Fills in seq and time, applies and encodes it. */
void emit(struct core *c, struct record *record);
void apply(struct core *c, const struct record *record);
struct effect *effect_new(struct core *c, enum effect_kind kind);
void reply(struct core *c, enum status status, const char *text);
/* OK with is_stale. */
void reply_too_late(struct core *c, const char *text);
void reply_instance(struct core *c, const struct instance *i);
/* The longest beginning of at most size_max bytes that is UTF-8: reasons become strings of the
 * protocol, which must be. Borrowed from text. */
struct bytes text_cut(struct bytes text, size_t size_max);
/* Text in the output's arena; cut when it is longer than a few hundred bytes. */
__attribute__((format(printf, 2, 3))) const char *step_text(struct core *c, const char *format,
                                                            ...);
void new_execution_id(struct core *c, uint8_t out[EXECUTION_ID_SIZE]);
/* Another number for each call, from the randomness of the step's input. */
uint64_t step_random(struct core *c);
void alert(struct core *c, const struct instance *i, const char *text);
int64_t now_ms(const struct core *c);

/* ---- ending.c: ends of executions, whoever decides them ---- */
/* Releases its locks and tells the parent, when there is one. After the completion is in the
 * history. */
void ending_finish(struct instance *i);
void ending_tell_parent(struct instance *i);
void ending_terminate(struct instance *i, struct maybe output, bool recurse);
/* To every child it ever created, finished ones too: they may have running children. */
void ending_terminate_children(struct instance *i, struct maybe output);
/* Fails the instance in place of its orchestrator. */
void ending_fail(struct instance *i, const char *type, const char *text);
void ending_rewind(struct instance *i, struct maybe reason, struct bytes parent_execution);
/* What it did before its failure has been undone since, or partly: it has nothing to go on from. */
bool ending_has_undone(const struct instance *i);
void ending_suspend(struct instance *i, struct maybe reason);
void message_add(struct instance *i, struct bytes event);
/* The key of another id in the hub of `key`; until the end of the step. */
struct bytes sibling_key(struct core *c, struct bytes key, struct bytes id);
/* The ExecutionStarted of a child, with the parent's present execution. */
void child_started_write(struct buffer *out, const struct instance *parent,
                         const struct event_scheduled *child, int32_t task_id);

/* ---- replies.c: see replies.h ---- */
/* It was acknowledged: created, or put off. */
void replies_received(struct core *c, struct bytes key, const struct event_started *started);
/* It has ended. A reply itself, once it was heard, goes without a trace. */
void replies_ended(struct instance *i);
bool instance_is_reply(const struct instance *i);
/* Memory for one of these with an output of this size. */
size_t replies_size(size_t output_size);

/* ---- supervisor.c ---- */
const struct policy *policy_of(const struct item *item);
/* The same by its TaskScheduled. */
const struct policy *policy_of_event(const struct core *c, const struct event *event);
/* Why a step may have been given up, as errorType of its TaskFailed. */
#define GIVEN_UP_LATE "CompleteByExceeded"
#define GIVEN_UP_ABANDONED "TaskAbandoned"
/* The step was lost, late, refused or has failed: decides what comes next and records it. */
void supervise(struct item *item, const char *type, struct bytes why, bool is_final);
void supervise_turn(struct instance *i, struct bytes why);
/* No worker can do it: past the ladder at once. One that nobody waits for any more is given up. */
void park_task(struct item *item, const char *type, struct bytes why);
void park_turn(struct instance *i, struct bytes why);

/* ---- handlers, one for each sender ---- */
void on_client_start(struct core *c, const struct input *in);
void on_client_raise(struct core *c, const struct input *in);
void on_client_terminate(struct core *c, const struct input *in);
void on_client_suspend(struct core *c, const struct input *in);
void on_client_resume(struct core *c, const struct input *in);
void on_client_rewind(struct core *c, const struct input *in);
void on_client_restart(struct core *c, const struct input *in);
void on_client_purge(struct core *c, const struct input *in);
void on_client_resubmit(struct core *c, const struct input *in);
void on_client_signal(struct core *c, const struct input *in);
void on_client_import(struct core *c, const struct input *in);
/* What is wrong with an id or a name that a client has chosen; NULL when nothing is. */
const char *client_id_problem(struct bytes id);
const char *client_name_problem(struct bytes name);
void on_worker_take(struct core *c, const struct input *in);
void on_worker_turn_done(struct core *c, const struct input *in);
void on_worker_task_done(struct core *c, const struct input *in);
void on_worker_entity_done(struct core *c, const struct input *in);
/* OK, but the answer came too late. */
void reply_stale(struct core *c);
/* The first n events that workers may see, as strings in the output's arena, after `before` when it
 * is not empty. */
struct bytes pack_events(struct core *c, struct bytes before, const struct event *e, uint32_t n);
void on_worker_abandon(struct core *c, const struct input *in);
void on_worker_renew(struct core *c, const struct input *in);
void on_clock_tick(struct core *c, const struct input *in);
void on_partition_message(struct core *c, const struct input *in);
void on_partition_ack(struct core *c, const struct input *in);

/* A copy of which the memory was reserved before the step: cannot fail. */
static inline struct bytes copy_must(struct arena *arena, struct bytes value)
{
    struct bytes copy = arena_copy(arena, value);
    assert(copy.len == value.len);
    return copy;
}

static inline struct bytes event_bytes(const struct event *event)
{
    return bytes_make(event->data, event->len);
}

#endif
