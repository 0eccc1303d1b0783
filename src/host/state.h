/* SPDX-License-Identifier: Apache-2.0
 *
 * A host from inside. Private to host/; everybody else sees host.h.
 *
 * Memory: what the cores take while stepping (instances, records, effects) comes from options.mem,
 * whose use is what hot_bytes_max bounds; everything else from `own`.
 */
#ifndef HOST_STATE_H
#define HOST_STATE_H

#include "base/clock.h"
#include "base/mem.h"
#include "base/queue.h"
#include "base/rng.h"
#include "core/backlog.h"
#include "host/admission.h"
#include "host/archiver.h"
#include "host/batch.h"
#include "host/filter.h"
#include "host/hold.h"
#include "host/host.h"
#include "host/messages.h"
#include "host/purge.h"
#include "host/purger.h"
#include "host/queries.h"
#include "host/loader.h"
#include "host/waiters.h"

#include <stdatomic.h>

struct commit {
    struct job job;
    struct journal *journal;
    struct journal_frame frame;
    /* The lane's, until the job is done. */
    enum status status;
    uint64_t bytes;
    bool has_spare;
    uint64_t disk_free;
    /* The host's. */
    uint64_t order;      /* of the newest start that waits in the frame or before it */
    struct batch *batch; /* being made durable; NULL = none */
    bool is_done;
    int64_t retry_ns;     /* the disk was full, or memory: try again then; 0 = it is on its way */
    bool is_memory_short; /* the last try failed for that */
    int64_t submitted_ns; /* monotonic; the first try */
    struct histogram latency_ns;
    struct histogram frame_size;
};

/* The request that was looked ahead for. */
struct ahead {
    const struct request *request; /* NULL = none, or nothing could be found out */
    uint32_t index;
    uint64_t hash;
};

struct host {
    struct env *env;
    struct journal *journal;
    struct archive *archive;
    struct host_options options;
    struct mem own;
    uint64_t seed[2];

    struct core **cores; /* by index: partition = shard + index * shards_n */
    uint32_t cores_n;
    uint32_t epoch;
    struct clock clock;
    int64_t now_ns; /* of this turn */
    struct rng rng; /* seeded by env: ids must be unlike each other, not secret */

    struct queue posted;         /* from any thread */
    atomic_bool is_wake_pending; /* somebody has posted since the queue was last taken */
    atomic_bool is_wake_owed;    /* somebody has posted quietly: host_wake() is to come */
    struct list taken;           /* requests out of the queue, not run yet */
    struct ahead ahead;          /* for the first in `taken` */
    struct ahead present;        /* the same for the request that is being run */
    struct list refused;         /* answers that stand on nothing durable */
    uint64_t requests_n;
    uint64_t steps_n; /* number of the last request that was stepped */

    struct batch batches[2];
    struct batch *open;
    struct commit commit;
    uint64_t lsn_durable;
    uint64_t order_durable; /* starts that wait, up to this order, are durable */
    uint64_t lsn_applied;
    uint64_t
        lsn_kept; /* frames up to here may go: the archive has them, and nothing in them waits */

    struct filter filter; /* what the archive may have */
    struct dispatcher dispatcher;
    struct waiters waiters;
    struct messages messages;
    struct loader loader;
    struct queries queries;
    struct archiver archiver;
    struct purger purger;
    struct backlog *backlog;
    struct admission admission;
    struct hold hold; /* for backups */
    bool is_holding;  /* something is full: starts wait, */
    enum hold_reason { HOLD_REASON_NONE, HOLD_REASON_MEMORY, HOLD_REASON_ARCHIVE } hold_reason;
    int64_t hold_logged_ns; /* that memory is full was last said then */
    size_t scratch_size;    /* of the cores, which is no instance's: when this turn began */

    /* Alerts are logged at most ALERT_LOGS_N times in ALERT_LOGS_NS. */
    int64_t alert_period_ns; /* when the present period began */
    uint32_t alerts_logged_n;
    uint64_t alerts_unlogged_n;
    bool has_told; /* a change, since the last feed_flush() */

    int64_t tick_retry_ns; /* no ticks before: memory was short */
    bool is_stopping;
    bool is_dead; /* the store failed: nothing is done or answered any more */
    bool is_disk_full;
    bool has_spare;     /* the journal's next segment is allocated */
    uint64_t disk_free; /* bytes, when the journal last looked */
    uint64_t journal_bytes;
    uint64_t frames;
    uint64_t frame_bytes;
    int64_t recovery_ns;
    uint64_t recovered_frames;
};

/* ---- partitions ---- */
static inline uint32_t host_partition(const struct host *h, uint32_t index)
{
    return h->options.shard + index * h->options.shards_n;
}
static inline bool host_has_partition(const struct host *h, uint32_t partition)
{
    return partition % h->options.shards_n == h->options.shard;
}
static inline uint32_t host_index(const struct host *h, uint32_t partition)
{
    assert(host_has_partition(h, partition));
    return partition / h->options.shards_n;
}
/* Of a key whose partition this host has. */
static inline uint32_t host_index_of(const struct host *h, struct bytes key)
{
    return host_index(h, partition_of(key, h->options.partitions_n));
}
/* In memory, and not a tombstone. Borrowed until the next step. */
static inline bool host_view(const struct host *h, uint32_t index, struct bytes key,
                             struct instance_view *out)
{
    return core_view(h->cores[index], key, out) && !out->is_purged;
}
/* Bytes of instances in memory, about. */
size_t host_hot_bytes(const struct host *h);
/* What they may be for work that somebody does, also while work that nobody does fills them. */
static inline size_t host_hot_reserve_max(const struct host *h)
{
    return h->options.hot_bytes_max + h->options.hot_bytes_max / 4;
}
/* The disk is so full that nothing may grow. */
bool host_is_disk_low(const struct host *h);
/* No more steps into the open batch before it is on its way. */
bool host_is_full(const struct host *h);
/* The store has failed, or memory for something that must not be forgotten: the end of this
 * process. */
void host_fatal(struct host *h, enum status status, const char *what);

/* ---- ahead.c ---- */
/* For the request that will be run next, the first in `taken`: before the present one is run. */
void ahead_begin(struct host *h);
/* After it was run. */
void ahead_go_on(struct host *h);
/* The index of the request's partition, when it was looked ahead for: its key is complete, and the
 * partition is here. Its instance will be found at once. */
bool ahead_index(const struct host *h, const struct request *request, uint32_t *index);

/* ---- step.c ---- */
/* Steps a core within the open batch. Fills in time, LSN and randomness. request: the one that is
 * answered by this step, or NULL. E_NOMEM: nothing has changed. */
enum status host_step(struct host *h, uint32_t index, struct input *in, struct request *request);
/* After something else than a step has given effects to the open batch: core_load, core_resume. */
void host_collect(struct host *h, uint32_t index, struct request *request);
/* Gives work to workers, as long as there is both. */
void host_dispatch(struct host *h);
/* Timers, leases and resends that are due. */
void host_tick(struct host *h);
/* Brings the clock of every core up to now: a core that had nothing to do does not know how late it
 * is. Before it is asked what may leave memory. False without memory. */
bool host_tell_time(struct host *h);

/* ---- requests.c ---- */
/* A hub and an id, neither of them empty, and not too long. */
bool key_fits(struct bytes key);
/* Does what the request asks, or parks it until it can be done. */
void request_run(struct host *h, struct request *request);
/* Answered when everything up to now is durable; status and text are set. */
void request_answer(struct host *h, struct request *request);
#define WAIT_OVER "the time to wait is over"
/* Answered in this turn: the answer stands on nothing durable. */
__attribute__((format(printf, 4, 5))) void request_refuse(struct host *h, struct request *request,
                                                          enum status status, const char *format,
                                                          ...);
/* Answers a GET, HISTORY, CHILDREN or WAIT from what was read of the archive; snapshot borrowed
 * during the call. */
void request_see(struct host *h, struct request *request, struct bytes snapshot);
/* The same of an instance that waits in the journal, by its record. */
void request_see_waiting(struct host *h, struct request *request, struct bytes record);
/* The status of an instance has changed in this step: wakes who waits for it. */
void requests_notify(struct host *h, uint32_t index, struct bytes key);

/* ---- history.c: HISTORY and CHILDREN, of an instance in memory or read from the archive ---- */
void history_see_hot(struct host *h, struct request *request, uint32_t index,
                     const struct instance_view *view);
void history_see_waiting(struct host *h, struct request *request, const struct instance_view *view);
void history_see_archived(struct host *h, struct request *request, struct bytes snapshot);
void children_see_hot(struct host *h, struct request *request, uint32_t index,
                      const struct instance_view *view);
void children_see_archived(struct host *h, struct request *request, struct bytes snapshot,
                           const struct instance_view *view);

/* ---- why.c: WHY, of an instance in memory ---- */
void why_run(struct host *h, struct request *request, uint32_t index);
void why_see_waiting(struct host *h, struct request *request, const struct instance_view *view);

/* ---- alerts.c: ALERTS ---- */
void alerts_run(struct host *h, struct request *request);

/* ---- feed.c: changes, for who watches ---- */
/* An effect STATUS was made. True when it is to be kept until it is durable: somebody watches. */
bool feed_wants(struct host *h, uint32_t index, struct effect *effect);
/* It is durable. */
void feed_status(struct host *h, const struct effect *effect);
/* The same of an alert, which is also logged. */
void feed_alert(struct host *h, const struct effect *effect);
/* After all effects of a batch. */
void feed_flush(struct host *h);

/* ---- commit.c ---- */
/* After the job: the batch is durable and released, or tried again later. */
void commit_finish(struct host *h);
/* Sends the open batch on its way, or releases it when it has no records. True when something was
 * released, which may have brought new work. */
bool commit_turn(struct host *h);
/* Answers what stands on nothing durable. */
void commit_release_refused(struct host *h);
/* Up to which frame the state of memory now stands on; not all of them are durable yet. */
uint64_t commit_newest_lsn(const struct host *h);
/* The newest frame was appended by recovery. */
void commit_begin(struct host *h, uint64_t lsn);

/* ---- recovery.c ---- */
enum status recovery_run(struct host *h, char *damage, size_t damage_size);

#endif
