/* SPDX-License-Identifier: Apache-2.0
 *
 * A host runs the partitions of one shard: it takes requests, steps the cores, makes the batch
 * durable with one frame, and only then releases the effects. It owns the journal and the archive
 * while it lives.
 *
 *      host_post() ──> queue ──> host_turn(): core_step() for each ──> one frame ──> LANE_COMMIT
 *                                                                                       │ durable
 *      done(), deliver(), messages  <── effects of that batch released  <───────────────┘
 *
 * While a frame is being made durable the next batch collects: batching comes from load alone. At
 * most one frame is under way. An effect carries the LSN of the batch it was made in (or, when its
 * step wrote nothing, of the newest batch before it), and the one function that releases effects
 * asserts that it is durable.
 *
 * Everything here runs on one thread, except host_post().
 */
#ifndef HOST_HOST_H
#define HOST_HOST_H

#include "base/histogram.h"
#include "host/dispatcher.h"
#include "host/env.h"
#include "host/request.h"
#include "store/archive.h"
#include "store/journal.h"

#include <stdatomic.h>

struct host;

/* Called (on any thread) when a host that waits should call host_turn again. */
typedef void host_wake_fn(void *user);
/* Messages to a partition of another shard: the host's own node, to be posted to that shard's host
 * as MESSAGE or ACK. False: its queue is full; it will be sent again later. Everything borrowed. */
typedef bool host_send_fn(void *user, uint32_t to_partition, const struct effect *effect,
                          uint32_t from_partition);

/* A change of an instance that is durable now, or an alert about one. All borrowed. */
struct host_change {
    struct bytes key;
    int64_t time_ns;
    bool is_alert;
    /* not an alert: */
    enum orchestration_status status;
    struct bytes name; /* of the orchestrator */
    /* an alert: */
    const char *text;
};
/* On the host's thread; must not wait for anything. NULL: all changes of a batch were told. */
typedef void host_changed_fn(void *user, uint32_t shard, const struct host_change *change);

struct host_options {
    uint32_t partitions_n; /* of the whole data directory */
    uint32_t shard;
    uint32_t shards_n;   /* this host has the partitions p with p % shards_n == shard */
    uint64_t mac_key[2]; /* of completion tokens, for whoever writes them */
    struct mem *mem;
    policy_fn *policy; /* NULL: defaults */
    void *policy_user;
    host_wake_fn *wake; /* may be NULL */
    host_send_fn *send; /* NULL with one shard */
    void *user;
    /* On the host's thread, after requests may have been answered or work delivered: who was told
     * something can be woken once for all of it. May be NULL. */
    host_wake_fn *told;
    void *told_user;
    /* Every change of a status and every alert, in the order of their batches, while *is_watched;
     * while not, changes cost nothing. Set and read by any thread; a change is told when it was set
     * before the step that made it. Both NULL: nobody ever watches. */
    const atomic_bool *is_watched;
    host_changed_fn *changed;
    void *changed_user;
    size_t queue_n_max;   /* posted requests; beyond: host_post answers false */
    size_t hot_bytes_max; /* of instances; near it idle ones leave, beyond it starts wait, but for a
                             few of names that a worker serves, which may use a quarter more */
    size_t archive_lag_max;   /* journal bytes not yet archived; beyond it starts are refused */
    size_t batch_bytes_max;   /* records per frame */
    int64_t idle_evict_ms;    /* an idle instance may leave memory after this */
    int64_t archive_every_ms; /* at most so long until a finished instance is in the archive */
    size_t archive_batch_n;   /* instances per archive transaction */
    int64_t horizon_ms;       /* timers due later than this may leave memory with their instance */
    int64_t resend_ms;
    /* Starts that are acknowledged and wait: see core/backlog.h. By shard; 0 = no limit for the
     * first three. */
    uint32_t active_max;
    uint32_t active_max_by_name;
    uint32_t rate_by_name;
    uint64_t backlog_n_max; /* beyond it and the next starts are refused */
    uint64_t backlog_size_max;
    const struct backlog_rule *backlog_rules; /* outlive the host */
    size_t backlog_rules_n;
    uint64_t carry_size_min;    /* journal that only the backlog keeps, before any of it is carried
                                forward; it is more when more waits */
    uint64_t backlog_hash_mask; /* tests: see struct backlog_options */
    uint64_t disk_free_min;     /* bytes; with less, what grows is refused */
    bool check_every_step;      /* core_check() of the stepped partition: tests and simulator */
};
/* Defaults for one shard on a small machine. */
void host_options_init(struct host_options *options);

/* Opens: recovers from archive and journal (both belong to the host from now on, also on failure),
 * bumps the epoch durably, and resumes what was under way. Recovery runs on the calling thread,
 * without env jobs. E_CORRUPT, E_VERSION, E_IO, E_NOMEM; `damage` (size 400) says what and where,
 * for people. */
enum status host_open(struct env *env, struct journal *journal, struct archive *archive,
                      const struct host_options *options, char *damage, struct host **out);
/* Nothing may be posted any more. Requests still inside are answered E_CLOSED. Does not wait for
 * jobs under way: call host_stop() and turn until host_is_quiet() before, for a clean end. */
void host_close(struct host *h);

/* From any thread. False when the queue is full or the host is closed: the request stays the
 * caller's, answer its maker with E_UNAVAILABLE. */
bool host_post(struct host *h, struct request *request);
/* The same, but the host does not see it until host_wake(): for who posts many in a row. They are
 * then taken together, and so are in one frame but for its limit; a host that saw the first at once
 * would work, and wait for the disk, before the second comes. */
bool host_post_quietly(struct host *h, struct request *request);
/* From any thread: shows the host all that was posted quietly, and wakes it. */
void host_wake(struct host *h);

/* Does all there is to do now. Call after host_post (wake), after a job is done, and at the time it
 * answers: when (engine clock of env mono) it must be called again at the latest, in ns from now;
 * INT64_MAX = not before something comes. */
int64_t host_turn(struct host *h);

/* Refuses new work from now on (E_UNAVAILABLE), finishes what is in the queue, archives everything
 * that is finished. Then host_is_quiet() becomes true. */
void host_stop(struct host *h);
bool host_is_quiet(const struct host *h);

/* For who copies the files of this host while it runs: see hold.h. */
struct hold;
struct hold *host_hold(struct host *h);

struct host_stats {
    struct core_stats core;      /* sum of its partitions */
    struct core_gauges gauges;   /* likewise */
    uint64_t waiters;            /* WAITs that wait for a change */
    uint64_t parked;             /* requests that wait for the archive */
    uint64_t workers;            /* attached */
    struct histogram commit_ns;  /* from handing a frame over until it is known to be durable */
    struct histogram frame_size; /* bytes of records in one frame */
    uint64_t lsn_durable;
    uint64_t lsn_applied; /* archived up to */
    uint64_t frames;
    uint64_t frame_bytes;
    uint64_t requests;
    uint64_t instances_hot;
    uint64_t instances_archived; /* rows in the archive */
    uint64_t evicted;
    uint64_t loaded;
    uint64_t mem_used;
    uint64_t journal_bytes;
    bool is_disk_full;
    uint64_t disk_free;      /* bytes; UINT64_MAX = not known */
    uint64_t active;         /* orchestrations at work in memory */
    uint64_t backlog;        /* starts that wait */
    uint64_t backlog_size;   /* bytes of their records */
    uint64_t backlog_age_ms; /* of the one that has waited longest */
    uint64_t deferred;       /* starts that had to wait, since the host was opened */
    uint64_t admitted;       /* of those */
    uint64_t carried;        /* times that one was carried forward */
    bool is_held;            /* few starts are admitted: something is full, */
    const char *held_by;     /* which this setting bounds; NULL = nothing is */
    int64_t recovery_ns;     /* how long host_open took */
    uint64_t recovered_frames;
};
void host_stats(const struct host *h, struct host_stats *out);
/* What sums begin with. */
#define HOST_STATS_NONE ((struct host_stats){.disk_free = UINT64_MAX})
/* Adds those of another shard: counts are summed, times the longest, space the
 * least, LSNs those of the first. */
void host_stats_add(struct host_stats *sum, const struct host_stats *one);

/* For tests: the partition's core; the number of a key's partition. */
struct core *host_core(struct host *h, uint32_t partition);
uint32_t partition_of(struct bytes key, uint32_t partitions_n);
/* core_check() of every partition, and what holds between them and the host. */
void host_check(const struct host *h);

#endif
