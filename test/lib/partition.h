/* SPDX-License-Identifier: Apache-2.0
 *
 * A kit for tests of the core: one or several partitions under a fake clock, with seeded
 * randomness, a little network between them, and words for what clients and workers do.
 *
 * Every step is checked, whatever the test is about:
 *    - each record that the step emitted decodes and encodes to the same bytes;
 *    - a shadow core that only ever applies those records has the same digest as the live one;
 *    - core_check() holds in both;
 *    - every instance goes through snapshot and load into a third core and is the same there
 *      (unless is_thorough was switched off, where there are thousands).
 * A broken promise of these ends the process by an assertion: the kit knows nothing of the harness,
 * so that fuzz targets can use it too.
 *
 * Texts that go in are copied; what comes out lives until kit_free().
 */
#ifndef TEST_LIB_PARTITION_H
#define TEST_LIB_PARTITION_H

#include "base/arena.h"
#include "base/mem.h"
#include "base/rng.h"
#include "core/backlog.h"
#include "core/core.h"

#define KIT_PARTITIONS_MAX 4
#define KIT_POLICIES_MAX 4
/* Time at the beginning: 2023-11-14 22:13:20.5 UTC. */
#define KIT_START_MS INT64_C(1700000000500)
#define KIT_RESEND_MS 1000
#define KIT_HORIZON_MS 60000

/* One READY that nobody has used yet. */
struct kit_ready {
    struct kit_ready *next;
    uint32_t partition;
    enum work_kind kind;
    struct bytes queue;
};

/* A message or an acknowledgement on its way. */
struct kit_parcel {
    struct kit_parcel *next;
    uint32_t to;
    struct input input; /* all but time and randomness */
};

struct kit_partition {
    struct core *live;
    struct core *shadow;
    struct buffer journal;        /* all records so far */
    struct buffer places;         /* where each stands: struct place */
    struct backlog *live_backlog; /* NULL without kit_limits(), as the next */
    struct backlog *shadow_backlog;
    uint32_t epoch;
};

struct kit {
    struct mem mem;      /* of the kit and the shadows */
    struct mem live_mem; /* of the live cores and their outputs: the one that fails */
    struct arena arena;
    struct arena output; /* effects of one step */
    struct buffer records;
    struct rng rng;
    uint32_t partitions_n;
    struct kit_partition partitions[KIT_PARTITIONS_MAX];
    int64_t now_ns;
    uint64_t lsn;
    bool is_thorough;     /* snapshots are checked after each step */
    bool is_held;         /* parcels wait until kit_deliver() */
    uint32_t worker;      /* who takes work */
    bool is_without_past; /* turns are taken without their history */

    struct kit_ready *ready;
    struct kit_parcel *parcels;

    /* of the last step */
    bool has_reply;
    enum status status;
    const char *text;
    bool is_stale;
    uint8_t execution_id[EXECUTION_ID_SIZE];
    const struct effect_work *work;
    bool has_more;
    uint32_t records_n;
    /* of all steps */
    struct buffer statuses; /* "hub/id RUNNING\n" for every STATUS */
    struct buffer alerts;   /* "hub/id text\n" */

    struct {
        struct bytes name;
        struct policy policy;
    } policies[KIT_POLICIES_MAX];
    uint32_t policies_n;
    uint32_t jitter_percent; /* of cores made from now on, by kit_crash() */
    uint64_t parked_n_max;   /* likewise; 0 = the default */

    /* The fail_at-th allocation from now on fails (forever: and all after it, until the step has
     * said E_NOMEM). The kit checks that nothing changed, and repeats the step with memory. */
    uint64_t fail_at;
    bool fail_forever;
    bool has_limits;
    struct backlog_options limits; /* but mem and seed */
    uint32_t nomem_n;              /* steps that said E_NOMEM */
    size_t room;                   /* not 0: a step gets no more memory than this */
};

struct kit *kit_new(uint32_t partitions_n, uint64_t seed);
void kit_free(struct kit *k);
/* For activities of this name, from now on. */
void kit_policy(struct kit *k, const char *name, struct policy policy);

/* Starts wait from now on, where these say so; before the first step. Each partition has a backlog
 * of its own. mem, seed and partitions_n are the kit's. */
void kit_limits(struct kit *k, struct backlog_options limits);
/* Admits what may be, in its turn, of the partition of this key; how many. */
uint32_t kit_admit(struct kit *k, const char *key);
/* The record of one that waits, from the journal; until kit_free(). */
struct bytes kit_waiting_record(struct kit *k, uint32_t partition, const struct queued *waiting);
/* Admits or carries this one, whether it is its turn or not. */
void kit_bring(struct kit *k, enum input_kind kind, const struct queued *waiting);

struct core *kit_core(struct kit *k, const char *key);
uint32_t kit_partition_of(const struct kit *k, struct bytes key);
/* Any input; time, number and randomness are filled in. Effects are kept as above. */
enum status kit_step(struct kit *k, uint32_t partition, struct input *in);

/* The same in the partition of this instance, with a reply; the parcels are delivered. */
enum status kit_step_for(struct kit *k, struct bytes key, struct input *in);

/* ---- clients: the status of the reply; k->text has its words ---- */

/* input NULL: absent. */
enum status kit_start(struct kit *k, const char *key, const char *name, const char *input);
enum status kit_start_with(struct kit *k, struct input_start start);
enum status kit_raise(struct kit *k, const char *key, const char *name, const char *data);
enum status kit_terminate(struct kit *k, const char *key, const char *output, bool recurse);
enum status kit_suspend(struct kit *k, const char *key, const char *reason);
enum status kit_resume(struct kit *k, const char *key, const char *reason);
enum status kit_rewind(struct kit *k, const char *key, const char *reason);
enum status kit_restart(struct kit *k, const char *key);
enum status kit_purge(struct kit *k, const char *key);
enum status kit_purge_forced(struct kit *k, const char *key);
enum status kit_resubmit(struct kit *k, const char *key, int32_t task_id);

/* ---- workers ---- */

/* The next work that was announced for this name; NULL when there is none. */
const struct effect_work *kit_take(struct kit *k, enum work_kind kind, const char *name);
const struct effect_work *kit_take_turn(struct kit *k, const char *name);
const struct effect_work *kit_take_task(struct kit *k, const char *name);
enum status kit_answer(struct kit *k, const struct effect_work *work, const struct action *actions,
                       uint32_t actions_n);
enum status kit_answer_with(struct kit *k, const struct effect_work *work,
                            const struct orchestrator_answer *answer);
#define KIT_ANSWER(k, work, ...)                                                                   \
    kit_answer(k, work, (struct action[]){__VA_ARGS__},                                            \
               sizeof((struct action[]){__VA_ARGS__}) / sizeof(struct action))
/* Takes the next turn of this name, which must be there, and answers it. */
#define KIT_TURN(k, name, ...) KIT_ANSWER(k, kit_must(kit_take_turn(k, name)), __VA_ARGS__)
const struct effect_work *kit_must(const struct effect_work *work);
enum status kit_task_done(struct kit *k, const struct effect_work *work, const char *result);
enum status kit_task_failed(struct kit *k, const struct effect_work *work, const char *message,
                            bool is_final);
/* As a worker that cannot echo tokens. */
enum status kit_answer_plain(struct kit *k, const char *key, const struct action *actions,
                             uint32_t actions_n);
enum status kit_task_done_plain(struct kit *k, const char *key, int32_t task_id,
                                const char *result);
enum status kit_abandon(struct kit *k, const struct effect_work *work, const char *reason);
/* It never reached the worker. */
enum status kit_return(struct kit *k, const struct effect_work *work);
/* The same with is_parked. */
enum status kit_park(struct kit *k, const struct effect_work *work, const char *reason);
enum status kit_renew(struct kit *k, const struct effect_work *work, int64_t extend_ms);
/* The same with is_limit. */
enum status kit_renew_limit(struct kit *k, const struct effect_work *work, int64_t extend_ms);

/* Actions. NULL texts are absent. */
struct action act_task(int32_t id, const char *name, const char *input);
struct action act_timer(int32_t id, int64_t fire_at_ms);
struct action act_child(int32_t id, const char *name, const char *instance_id, const char *input);
struct action act_event(int32_t id, const char *target, const char *name, const char *input);
struct action act_complete(int32_t id, const char *result);
struct action act_fail(int32_t id, const char *message);
struct action act_continue(int32_t id, const char *input);
struct action act_terminate(int32_t id, const char *target, const char *reason, bool recurse);
struct maybe maybe_text(const char *text);

/* ---- time ---- */

/* Ticks at every due time up to this one, and at it. */
void kit_tick_to(struct kit *k, int64_t now_ms);
/* The same from the present time on. */
void kit_tick_by(struct kit *k, int64_t ms);
/* One tick of every partition at this very time, once: k->has_more says whether that was all. */
void kit_tick_once(struct kit *k, int64_t now_ns);
int64_t kit_now_ms(const struct kit *k);

/* ---- the network between partitions ---- */

/* Until nothing is on its way; done after every call of the above unless is_held. */
void kit_deliver(struct kit *k);
uint32_t kit_parcels_n(const struct kit *k);
/* The n-th parcel on its way: delivers it, out of turn if need be. */
void kit_deliver_at(struct kit *k, uint32_t n);
void kit_drop_at(struct kit *k, uint32_t n);
void kit_duplicate_at(struct kit *k, uint32_t n);

/* ---- crashes ---- */

/* The process is gone: the partition comes back from its journal, with the next epoch. */
void kit_crash(struct kit *k, uint32_t partition);
/* Out of memory into a snapshot and back, as the archive does it; false when it may not leave. */
bool kit_evict(struct kit *k, const char *key);

/* ---- looking ---- */

bool kit_view(struct kit *k, const char *key, struct instance_view *out);
/* "RUNNING"; "none" when it is not there. */
const char *kit_status(struct kit *k, const char *key);
const char *kit_why(struct kit *k, const char *key);
/* One line for each event; see history_text.h. "" when it is not there. */
const char *kit_history(struct kit *k, const char *key);
/* The same of the events that a turn was given. */
const char *kit_fresh(struct kit *k, const struct effect_work *work);
const char *kit_past(struct kit *k, const struct effect_work *work);
/* "id name PROCESSING failures" for each open step. */
const char *kit_tasks(struct kit *k, const char *key);
/* "hub/id task name since text" for each that waits for an operator; since the kit's beginning. */
const char *kit_parked(struct kit *k, uint32_t partition);
/* "timer id time", "child id instance" or "entity id instance" for each. */
const char *kit_waits(struct kit *k, const char *key);
const char *kit_last_error(struct kit *k, const char *key);
/* What an absent or present value looks like in a test: "(none)" or its text. */
const char *kit_maybe(struct kit *k, struct maybe value);
const char *kit_bytes(struct kit *k, struct bytes value);

#define EXPECT_HISTORY(k, key, text) EXPECT_TEXT(text, kit_history(k, key))

#endif
