/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine: one partition as a deterministic state machine. No clock, no I/O, no threads, no
 * memory but what `struct mem` gives.
 *
 *      input ──core_step()──> records (make durable)  +  effects (release once durable)
 *      records ──core_apply()──> the same memory after a crash
 *
 * A core belongs to one thread. Instances that an input names must be in memory before the step, or
 * be known not to exist: the host loads them (core_load) first.
 *
 * Status of an instance:
 *
 *      PENDING ──first turn──> RUNNING ──completion──> COMPLETED | FAILED | TERMINATED | CANCELED
 *         │  ^                  │  ^                        │
 *         v  │ resume    suspend v │                        ├─ purge ──> gone
 *        SUSPENDED             SUSPENDED                    ├─ rewind (FAILED) ──> RUNNING *
 *                                                           └─ start or restart ──> PENDING *
 *                                                              (* a new execution)
 */
#ifndef CORE_CORE_H
#define CORE_CORE_H

#include "core/input.h"
#include "core/output.h"

struct backlog;
struct core;
struct mem;

/* What the Supervisor does about a step that is late, lost or failing. By step name; see
 * supervisor.c. */
enum last_resort {
    RESORT_FAIL, /* the step fails; the orchestrator decides (and undoes) */
    RESORT_PARK, /* the step waits for an operator, with an alert */
};

struct policy {
    int64_t complete_by_ms;   /* after dispatch; 0 = none */
    uint32_t first_threshold; /* failures up to this one: again after the retry delay */
    int64_t retry_delay_ms;   /* doubles with each failure */
    int64_t retry_delay_max_ms;
    uint32_t second_threshold; /* failures up to this one: again after the extended wait */
    int64_t extended_ms;
    enum last_resort last_resort;
    bool retries_failures; /* failures that a worker reports go down the ladder too, unless final */
};

/* Never NULL. name: of the activity. */
typedef const struct policy *policy_fn(void *user, struct bytes name);
/* The defaults: no complete-by, failures go to the orchestrator, a step that was dispatched 20
 * times and never answered fails. */
extern const struct policy policy_default;

struct core_options {
    uint32_t partition;
    uint32_t partitions_n;
    uint32_t epoch;  /* of this owner: larger than every earlier one's */
    struct mem *mem; /* outlives the core */
    uint64_t map_seed[2];
    policy_fn *policy; /* NULL: policy_default for all */
    void *policy_user;
    uint32_t
        jitter_percent; /* retries come up to so much earlier or later than their policy says */
    int64_t resend_ms;  /* unacknowledged messages are sent again after this */
    int64_t horizon_ms; /* an instance that must wake within this stays in memory */
    /* So many that wait for an operator stay in memory, to be listed; 0 = LIMIT_PARKED_N. */
    uint64_t parked_n_max;
    struct backlog *backlog; /* outlives the core; NULL: nothing is counted or put off */
};

/* Counters that only grow; for metrics and for checkers. */
struct core_stats {
    uint64_t started;
    uint64_t finished;
    uint64_t turns;
    uint64_t tasks_done;
    uint64_t timers_fired;
    uint64_t stale_answers;      /* of workers: answered OK and dropped */
    uint64_t late_answers;       /* recorded as late */
    uint64_t dropped_messages;   /* to unknown or finished instances, or of older executions */
    uint64_t duplicate_messages; /* arrived before */
    uint64_t alerts;
    uint64_t entity_batches; /* committed */
};

/* What is in memory now; every instance is in one of the first six. */
struct core_gauges {
    uint64_t pending;
    uint64_t running;
    uint64_t suspended;
    uint64_t ended;
    uint64_t purged;
    uint64_t entities;
    uint64_t parked;              /* wait for an operator; among the others too */
    uint64_t ready[WORK_KINDS_N]; /* work that nobody has taken, by kind */
};

/* E_NOMEM. */
enum status core_new(const struct core_options *options, struct core **out);
void core_free(struct core *c);

/* One step. OK: the input was handled, whatever the answer in its reply. E_NOMEM: nothing has
 * changed. The buffer and the arena of out are of the core's own mem, where the memory for the step
 * is reserved. */
enum status core_step(struct core *c, const struct input *in, struct output *out);

/* It is in memory, a tombstone included. */
bool core_has(const struct core *c, struct bytes key);

/* Hints that a step will soon be about this instance, which bring it into the processor's caches:
 * first core_hash(); a while later, with what it answered, core_prefetch(); right before the step
 * core_expect(), so that the key is not hashed again. */
uint64_t core_hash(const struct core *c, struct bytes key);
void core_prefetch(const struct core *c, uint64_t hash);
void core_expect(const struct core *c, uint64_t hash, struct bytes key);

/* Recovery, before the first step: restores the partition's own state, as core_partition_snapshot
 * gave it; applies records, oldest first; instances are loaded when a record needs them.
 * E_CORRUPT. */
enum status core_partition_load(struct core *c, struct bytes snapshot);
/* Skips what is known already. */
enum status core_apply(struct core *c, struct place place, const struct record *record);
/* What waits is in no snapshot: of frames that are older than everything else that is needed, only
 * what they say of it counts. The first such frame; UINT64_MAX = none. After
 * core_partition_load(). */
uint64_t core_waiting_lsn(const struct core *c);
/* Applies only that. E_CORRUPT, E_NOMEM. */
enum status core_apply_waiting(struct core *c, struct place place, const struct record *record);
/* Before core_resume, when the owner's epoch is known. */
void core_set_epoch(struct core *c, uint32_t epoch);
/* After recovery: effects for everything that was not finished (work, messages). */
void core_resume(struct core *c, int64_t now_ns, struct output *out);

/* The partition's own state (outbox, positions, counters of sequence numbers); appended. Taken for
 * archiving: it is not dirty any more until it changes. */
void core_partition_snapshot(struct core *c, struct buffer *out);
bool core_partition_is_dirty(const struct core *c);

/* ---- one instance, for people and the archive; everything borrowed until the next step ---- */

struct instance_view {
    struct bytes key;
    uint8_t execution_id[EXECUTION_ID_SIZE];
    uint64_t seq; /* of its last record: larger is newer */
    enum orchestration_status status;
    bool is_terminal;
    bool is_purged; /* a tombstone: the archive must remove it */
    struct bytes name;
    struct maybe version;
    struct maybe input;
    struct maybe output;
    struct maybe failure; /* raw TaskFailureDetails */
    struct maybe custom_status;
    struct bytes parent_id;
    struct bytes tags; /* strings: raw map entries */
    int64_t created_ns;
    int64_t updated_ns;
    int64_t completed_ns; /* 0 while not terminal */
    int64_t scheduled_ms; /* 0 = none */
    uint32_t history_n;
    size_t history_size;
    uint32_t inbox_n;
    int64_t wake_ms;  /* when it must be in memory: 0 = now, INT64_MAX = when a message comes */
    bool is_archived; /* the archive has a row of it, perhaps an older one */
    bool is_parked;   /* it waits for an operator; false of an archived one, unless its turn does */
    /* An entity: its id begins with '@'. Status, name, input, output and so on say nothing then. */
    bool is_entity;
    /* None: it does not exist, but is locked or has a backlog. Present but empty in a list that was
     * asked for without payloads. */
    struct maybe entity_state;
    struct bytes locked_by; /* id of the orchestration; empty = not locked */
    uint32_t backlog_n;     /* operations and lock requests that wait, scheduled ones included */
};
/* False when it is not in memory. */
bool core_view(const struct core *c, struct bytes key, struct instance_view *out);
/* Every instance in memory, oldest in memory first. Anything but OK stops. */
typedef enum status core_view_fn(void *user, const struct instance_view *view);
enum status core_each(const struct core *c, core_view_fn *fn, void *user);
size_t core_instances_n(const struct core *c);

/* One of its open steps, as an operator wants to see it (S8). */
enum task_process { TASK_PENDING, TASK_PROCESSING, TASK_WAITING, TASK_ERROR };
struct task_view {
    int32_t task_id;
    struct bytes name;
    enum task_process process;
    uint32_t locked_by;     /* worker, while TASK_PROCESSING */
    int64_t complete_by_ms; /* 0 = none */
    uint32_t failures;
    int64_t retry_at_ms; /* while TASK_WAITING */
    uint32_t attempts_n; /* its policy allows so many */
    struct bytes queue;  /* while TASK_PENDING: as in EFFECT_READY */
};
typedef enum status core_task_fn(void *user, const struct task_view *view);
enum status core_tasks(const struct core *c, struct bytes key, core_task_fn *fn, void *user);
/* What else it waits for. */
enum wait_kind { WAIT_TIMER, WAIT_CHILD, WAIT_ENTITY };
struct wait_view {
    enum wait_kind kind;
    int32_t id;            /* of the action */
    int64_t fire_at_ms;    /* WAIT_TIMER */
    struct bytes instance; /* id of the child or entity */
};
typedef enum status core_wait_fn(void *user, const struct wait_view *view);
enum status core_waits(const struct core *c, struct bytes key, core_wait_fn *fn, void *user);
/* The queue its turn (or batch of operations) stands in, as in EFFECT_READY; empty when it is in
 * none. */
struct bytes core_turn_queue(const struct core *c, struct bytes key);
/* What went wrong last, as words: of a turn or task that is tried again or was parked; else the
 * failure it ended with, or the last one in its history. Empty when nothing did. */
struct bytes core_last_error(const struct core *c, struct bytes key);
/* Why it is where it is, in words, as one line; appended. False when it is not in memory. */
bool core_why(const struct core *c, struct bytes key, struct buffer *out);

/* What waits for an operator. */
#define PARKED_TURN (-1)
struct parked_view {
    struct bytes key;
    int32_t task_id;   /* PARKED_TURN: the orchestrator's turn, or an entity's batch */
    struct bytes name; /* of the activity, orchestrator or entity */
    struct bytes text; /* why */
    int64_t since_ms;
};
typedef enum status core_parked_fn(void *user, const struct parked_view *view);
/* Each, in no particular order. Anything but OK stops. */
enum status core_parked(const struct core *c, core_parked_fn *fn, void *user);

/* Its history, as strings of events, appended. False when it is not in memory. */
bool core_history(const struct core *c, struct bytes key, struct buffer *out);
/* A part of it: without the first skip_n events, as many as fit into size_max bytes, but at least
 * one when there is one; size_max 0 = all. *has_more: there are others behind them. */
bool core_history_part(const struct core *c, struct bytes key, uint32_t skip_n, size_t size_max,
                       struct buffer *out, bool *has_more);
/* Ids of the children it created in this execution, as strings, appended. */
bool core_children(const struct core *c, struct bytes key, struct buffer *out);

/* All of an instance as bytes; appended. False when it is not in memory. */
bool core_snapshot(const struct core *c, struct bytes key, struct buffer *out);
/* From such bytes into memory: as an archived, clean instance. E_CORRUPT, E_NOMEM, E_EXISTS (it is
 * in memory). Effects: work that is ready. out NULL during recovery (core_resume emits them
 * later). */
enum status core_load(struct core *c, struct bytes snapshot, struct output *out);
/* Reads a snapshot without a core: the view borrows from snapshot and arena. */
enum status snapshot_view(struct bytes snapshot, struct arena *arena, struct instance_view *out);
/* Its history as strings, borrowed from snapshot. */
enum status snapshot_history(struct bytes snapshot, struct bytes *events);
/* Which execution it is of. */
enum status snapshot_execution(struct bytes snapshot, uint8_t out[EXECUTION_ID_SIZE]);
/* As core_children(). */
enum status snapshot_children(struct bytes snapshot, struct arena *arena, struct buffer *out);

/* A waiting start as an instance that is pending. Reads a QUEUED record; the view borrows from it
 * and the arena. E_CORRUPT. */
enum status queued_view(struct bytes record, struct arena *arena, struct instance_view *out);

/* The last position taken of a source; 0 = none. */
uint64_t core_source_position(const struct core *c, struct bytes source);

/* ---- archiving and eviction ---- */

/* The oldest batch whose records are still needed from the journal: of instances and partition
 * state that changed since they were last taken for archiving. UINT64_MAX when nothing is dirty. */
uint64_t core_dirty_lsn(const struct core *c);
/* How many finished or purged ones wait to be archived. */
size_t core_finished_n(const struct core *c);
/* Takes up to n_max instances for archiving: finished and purged ones first, then those dirty since
 * upto_lsn or before, then up to idle_n that have been idle since idle_ms (engine time) or before
 * and could leave memory. Idle ones that the archive has as they are leave at once and are not
 * among them. They are not dirty any more until they change again, so the caller must bring them
 * into the archive, however long it takes. Keys borrowed until next step. */
size_t core_archive_pick(struct core *c, uint64_t upto_lsn, size_t idle_n, int64_t idle_ms,
                         struct bytes *keys, size_t n_max);
/* The archive has it durably as of seq (a purged one: has removed it). When nothing changed since,
 * and it has no work and is finished, purged or (may_evict) has none before the horizon, it leaves
 * memory: true. */
bool core_archived(struct core *c, struct bytes key, uint64_t seq, bool is_removed, bool may_evict);
uint64_t core_seq(const struct core *c);

/* When the next timer, lease or resend is due; INT64_MAX = nothing. */
int64_t core_wake_at_ms(const struct core *c);
const struct core_stats *core_stats(const struct core *c);
/* Cheap: does not visit the instances. */
void core_gauges(const struct core *c, struct core_gauges *out);
int64_t core_now_ns(const struct core *c);

/* ---- invariants ---- */

/* Asserts every invariant of the partition, the no-orphan predicate among them. Visits
 * everything. */
void core_check(const struct core *c);
/* The same number for the same durable state, whatever the order things were loaded in. */
uint64_t core_digest(const struct core *c);

/* ---- completion tokens (token.c) ---- */

/* Text for the wire; appended. */
void token_write(struct buffer *out, const uint64_t mac_key[2], const struct work_ref *ref);
/* Bytes of out in arena. E_INVALID for anything that this key did not write. */
enum status token_read(struct bytes token, const uint64_t mac_key[2], struct arena *arena,
                       struct work_ref *out);

#endif
