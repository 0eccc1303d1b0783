/* SPDX-License-Identifier: Apache-2.0
 *
 * Brings instances into the archive, in rounds: what has finished or was purged, what has been
 * dirty for so long that it keeps old journal segments alive, and what is idle and could leave
 * memory.
 *
 *      IDLE ──picked──> BUILT ──the frames it stands on are durable──> RUNNING ──> DONE ──> IDLE
 *                         ^                                               │ failed
 *                         └──────────────── some time later ──────────────┘
 *
 * A round is never given up: what was picked is not dirty for the core any more. A full disk or a
 * lock is waited for; when reading and writing fail for good (ten times over half a minute) the
 * process ends, because the archive stays closed after such a failure and only opening it again
 * may help. The archive is never ahead of the journal, and says up to which frame it has
 * everything (applied_lsn).
 */
#ifndef HOST_ARCHIVER_H
#define HOST_ARCHIVER_H

#include "base/arena.h"
#include "host/env.h"
#include "store/archive.h"

struct host;
struct instance_view;

enum round_state { ROUND_IDLE, ROUND_BUILT, ROUND_RUNNING, ROUND_DONE };

/* One instance of a round. */
struct round_entry {
    uint32_t index;   /* of its partition */
    struct bytes key; /* in the round's arena */
    uint64_t hash;
    uint64_t seq; /* as of which it was taken */
    bool is_purged;
    bool had_row; /* the archive had a row of it before */
    bool may_evict;
};

/* Where the journal was how long: to know how many bytes a frame is behind. */
#define LAG_MARKS_N 256u
struct lag_mark {
    uint64_t lsn;
    uint64_t bytes; /* journal bytes up to this frame, since the host was opened */
};

struct archiver {
    enum round_state state;
    struct job job;
    struct archive *archive;
    struct arena arena;
    struct buffer snapshots;
    struct round_entry *entries;
    struct archive_put *puts;
    struct archive_key *removes;
    struct archive_partition *partitions;
    size_t entries_n;
    size_t entries_max;
    struct archive_batch batch;
    uint64_t needs_lsn; /* durable before the round may run */
    uint64_t kept_lsn;  /* lsn_kept of the host after it */
    enum status status;
    uint32_t failures_n;
    int64_t failing_since_ns; /* the first of these failures */
    int64_t retry_ns;
    int64_t next_ns;       /* next round at the latest */
    bool waits_for_loader; /* idle ones shall leave as soon as no read job is under way */
    bool is_given_up;      /* while stopping: the archive does not work */
    bool was_full;         /* the last round had no room for more: the next follows at once */

    struct job maintain_job;
    bool is_maintaining;
    bool did_something;
    enum status maintain_status;
    int64_t maintain_ns;

    struct job trim_job;
    struct journal *journal;
    bool is_trimming;
    uint64_t trimmed_lsn;
    uint64_t trim_lsn;
    uint64_t trim_bytes; /* what the journal has after it */
    bool trim_has_spare;
    uint64_t trim_disk_free;
    int64_t probe_ns; /* while the journal has no spare segment: when to ask again */

    uint64_t bytes;                     /* of all frames so far */
    struct lag_mark marks[LAG_MARKS_N]; /* ring, oldest first */
    uint32_t marks_first;
    uint32_t marks_n;
    uint64_t evicted;
};

/* E_NOMEM. */
enum status archiver_init(struct host *h);
void archiver_release(struct host *h);
/* A frame is in the journal. */
void archiver_frame(struct host *h, uint64_t lsn, size_t size);
/* Journal bytes that the archive does not have yet, about. */
uint64_t archiver_lag(const struct host *h);
/* Memory is so full that idle instances should leave. */
bool archiver_is_tight(const struct host *h);

/* After a round has run. */
void archiver_finish(struct host *h);
/* Begins a round when it is time, submits one that may run, maintains, trims. */
void archiver_turn(struct host *h);
/* When archiver_turn should be called; engine time. */
int64_t archiver_wake_ns(const struct host *h);
/* Its files are at rest, and stay so while the host is held. */
bool archiver_is_still(const struct host *h);
/* Nothing under way, and (while stopping) nothing finished left to archive. */
bool archiver_is_quiet(const struct host *h);

#endif
