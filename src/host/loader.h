/* SPDX-License-Identifier: Apache-2.0
 *
 * What the host reads from the archive, beside everything else: instances that a request or message
 * needs in memory (loads), instances that somebody only wants to see, sleepers whose time comes
 * near, and one page of a list. All of it goes in one job at a time; what comes meanwhile is in the
 * next one. An instance whose start waits in the journal is read from there, and admitted out of
 * turn when it is needed in memory.
 *
 * The archive is read while the host goes on, so what was read may be old when it arrives. Two
 * facts make it safe: an instance that is not in memory changes only through a load, and loads are
 * made here alone; and what left memory while the job was under way is remembered (`left`), and its
 * rows in the answer do not count.
 */
#ifndef HOST_LOADER_H
#define HOST_LOADER_H

#include "base/map.h"
#include "base/mem.h"
#include "host/env.h"
#include "host/filter.h"
#include "host/frames.h"
#include "host/request.h"
#include "store/archive.h"

struct host;
struct query;

#define READ_LOADS_N 256u /* per job */
#define READ_LOOKS_N 64u
#define READ_DUE_N 500u
#define PARKED_N_MAX 100000u /* requests that wait for a load; beyond: E_UNAVAILABLE */

/* One instance that is wanted in memory. */
struct load {
    struct map_node node;
    struct list wanted; /* in loader.wanted until it is in the job */
    struct list parked; /* requests, in the order they came */
    uint32_t index;     /* of its partition */
    enum status status;
    struct archive_row row; /* in the job's arena */
    /* One that waits in the journal and has the same hash. */
    bool has_waiting;
    struct queued waiting;
    uint64_t checked_order; /* those up to here are others */
    struct bytes record;    /* in the job's arena; empty: it is another's */
    enum status record_status;
    size_t size; /* of the allocation, the key behind the struct */
};

/* A request that only wants to see. */
struct look {
    struct request *request;
    bool is_cancelled; /* a WAIT that is not wanted any more; the lane may still read its key */
    enum status status;
    struct archive_row row; /* in the job's arena */
    bool has_waiting;       /* as in struct load, as are the next three */
    struct queued waiting;
    struct bytes record;
    enum status record_status;
};

struct due_row {
    struct due_row *next;
    struct archive_row row; /* in the job's arena; hub, id, partition, wake and snapshot only */
};

/* The job: written by the host before it is submitted, by the lane while it runs, read by the host
 * after. */
struct read_job {
    struct job job;
    struct archive *archive;
    struct frames frames;
    struct mem mem;
    struct arena arena; /* of what was read; reset after it was used */
    struct load *loads[READ_LOADS_N];
    uint32_t loads_n;
    struct look looks[READ_LOOKS_N];
    uint32_t looks_n;
    bool has_due;
    int64_t due_before_ms;
    bool has_due_after;
    struct archive_row due_after; /* bytes in loader.due_key */
    struct due_row *due_first;
    struct due_row **due_last;
    uint32_t due_n;
    enum status due_status;
    struct query *query; /* one page of it is read */
};

struct loader {
    struct map loads; /* by key, also those in the job */
    struct list wanted;
    uint32_t parked_n;
    struct list looks;   /* requests, by node */
    struct filter waits; /* addresses of the WAITs among them, also of those in the job */
    struct read_job job;
    bool is_under_way; /* from submission until its answer was used */
    bool is_done;
    struct filter left;            /* hashes of what left memory while the job is under way */
    uint64_t absent[READ_LOADS_N]; /* hashes of keys that the archive was found not to have */
    uint32_t absent_n;             /* forgotten when the archive changes */
    /* Keys of which nothing waits although something with their hash does: the last ones seen. */
    struct stranger {
        uint64_t key_hash;
        uint64_t order; /* those up to here are others */
    } strangers[READ_LOADS_N];
    uint32_t strangers_next;
    /* Every row with wake_ms <= covered_ms is in memory. */
    int64_t covered_ms;
    int64_t due_target_ms; /* while the pages of one sweep are read */
    struct buffer due_key; /* hub and id of the last row of the previous page */
    int64_t due_retry_ns;
    uint64_t loaded;
};

/* E_NOMEM. */
enum status loader_init(struct host *h);
void loader_release(struct host *h);

/* The instance is in memory, or certainly nowhere: an input that names it may be stepped. */
bool loader_is_at_hand(const struct host *h, uint32_t index, struct bytes key);
/* It is not in memory, nobody is bringing it there, and a start that waits may be its own. */
bool loader_may_wait(const struct host *h, uint32_t index, struct bytes key);
/* Not in memory: whether archive or backlog may have it. */
bool loader_may_have(const struct host *h, struct bytes key);
/* Brings it into memory; the request (NULL: nobody) goes on (request_run) when it is there.
 * E_UNAVAILABLE (too many wait), E_NOMEM: the request is still the caller's. */
enum status loader_load(struct host *h, uint32_t index, struct bytes key, struct request *request);
/* Reads it without loading it, for GET, HISTORY, CHILDREN and WAIT; and for WHY and what else is
 * told by the record of a start that waits, which is not admitted for it. */
void loader_look(struct host *h, struct request *request);
/* Ends a WAIT that is parked here, at once or, while it is being read, when that is over; it is
 * answered E_TIMEOUT. False: it will not end at once. `wait` is compared, never read. */
bool loader_cancel(struct host *h, const struct request *wait);
/* An instance has left memory: the archive has it as it was. */
void loader_left(struct host *h, uint64_t hash);

/* Uses what the finished job has read. */
void loader_finish(struct host *h);
/* Submits the next job, when there is something to read. */
void loader_turn(struct host *h);
/* When loader_turn has something to do that nobody asks for; engine time. */
int64_t loader_wake_ns(const struct host *h);
bool loader_is_quiet(const struct host *h);
/* Moves the requests that wait here to `to`. */
void loader_give_up(struct host *h, struct list *to);

#endif
