/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts that were acknowledged and are not admitted yet, and the counts that decide about it. All
 * cores of a host share one backlog, on one thread.
 *
 * A waiting start is a record in the journal (QUEUED). Memory has one cache line of it: a hash of
 * its key, where the record stands, and its place in the line of its name. So a million of them are
 * some 70 MB, whatever their inputs are. The host reads the record back when the start's turn has
 * come, or when somebody asks for this very instance, and steps the core with it (ADMIT); the
 * ADMITTED record takes it out of here.
 *
 *      START ──room──> CREATED                          (nothing of its name waits)
 *        └──no room──> QUEUED ──turn comes──> ADMITTED
 *                        └─its segment gets old─> QUEUED again, further on: the same order
 *
 * Who is who: a start is known by its `order`, a time in ns that no other waiting start of the host
 * has; it is also the time of its creation. A hash may be that of another key: who finds one reads
 * the record and compares.
 *
 * Order: by name, first come, first admitted; names take turns. What is counted as active is an
 * orchestration in memory that is neither ended nor suspended and has work: a turn or a step that
 * somebody is to do. What waits for a timer, an event or a child has none, and only the memory for
 * instances bounds it. Children, restarts, messages and starts for later are counted and never held
 * back: an operation that was admitted can finish.
 */
#ifndef CORE_BACKLOG_H
#define CORE_BACKLOG_H

#include "base/bytes.h"
#include "base/list.h"
#include "base/map.h"
#include "base/status.h"

struct backlog;
struct mem;

/* Limits of one name in place of the general ones. */
struct backlog_rule {
    struct bytes name;
    bool has_active_max;
    uint32_t active_max;
    bool has_rate;
    uint32_t rate; /* 0 = none */
};

struct backlog_options {
    struct mem *mem; /* that of the cores */
    uint32_t partitions_n;
    uint64_t seed[2];
    uint32_t active_max; /* in all; 0 = no limit, as with the next two */
    uint32_t active_max_by_name;
    uint32_t rate_by_name;            /* admitted per second */
    uint64_t waiting_max;             /* starts; beyond: E_LIMIT, as with the next */
    uint64_t size_max;                /* bytes of their records */
    const struct backlog_rule *rules; /* they and their names outlive the backlog */
    size_t rules_n;
    /* Some worker takes orchestrations of this name; NULL = nobody does. */
    bool (*is_served)(void *user, struct bytes name);
    void *user;
    uint64_t hash_mask; /* tests: only these bits of a hash count; 0 = all */
};

/* One of them, for the host. */
struct queued {
    uint64_t order;  /* the time of its creation, ns */
    uint64_t lsn;    /* its record: in this frame, */
    uint32_t offset; /* at this place in the payload, */
    uint32_t size;   /* of this size */
    uint32_t partition;
};

/* E_NOMEM. */
enum status backlog_new(const struct backlog_options *options, struct backlog **out);
/* After its cores. */
void backlog_free(struct backlog *b);

uint64_t backlog_n(const struct backlog *b);
/* Bytes of their records, and of memory. */
uint64_t backlog_size(const struct backlog *b);
size_t backlog_memory(const struct backlog *b);
uint64_t backlog_active_n(const struct backlog *b);
/* How many were put off since the beginning, and how many of those were admitted. */
uint64_t backlog_deferred_n(const struct backlog *b);
uint64_t backlog_admitted_n(const struct backlog *b);
/* The creation of the one that has waited longest; 0 = none waits. */
uint64_t backlog_oldest_order(const struct backlog *b);

uint64_t backlog_hash(const struct backlog *b, struct bytes key);
/* Of those with this hash, the oldest whose order is larger. False when there is none. */
bool backlog_find(const struct backlog *b, uint64_t hash, uint64_t after_order, struct queued *out);
/* Where this one stands now. False: it does not wait any more. */
bool backlog_get(const struct backlog *b, uint64_t hash, uint64_t order, struct queued *out);

/* While something is full, starts wait, all but a few of names that a worker serves: or work that
 * nobody does would keep all other work from being done. */
enum backlog_hold {
    BACKLOG_FREE,
    BACKLOG_SERVED, /* up to 16 active of each served name */
    BACKLOG_SINGLE, /* one of a served name of which none is active; a pick gives one in all */
    BACKLOG_ALL,    /* every start waits */
};
void backlog_hold(struct backlog *b, enum backlog_hold hold);
/* Workers have come or gone: what they serve is asked again. */
void backlog_workers_changed(struct backlog *b);
/* The next ones to admit, of those whose record is in this frame or an earlier one, as many as the
 * limits allow; the caller admits them before it asks again. */
size_t backlog_pick(struct backlog *b, int64_t now_ns, uint64_t upto_lsn, struct queued *out,
                    size_t n_max);
/* When a rate lets the next one through; INT64_MAX when none waits for that. */
int64_t backlog_wake_ns(const struct backlog *b, int64_t now_ns);

/* The frame of the oldest record that is needed; UINT64_MAX = none. */
uint64_t backlog_lsn(const struct backlog *b);
/* The same of one partition. Visits those before it. */
uint64_t backlog_partition_lsn(const struct backlog *b, uint32_t partition);
/* Those whose records are the oldest, up to and with this frame: to be carried forward. */
size_t backlog_oldest(const struct backlog *b, uint64_t upto_lsn, struct queued *out, size_t n_max);

/* In the order of their creation, after this one: for lists. newest_first: in the other order,
 * those before it. name empty: of all names. *n of them, at most n_max. Visits those that come
 * before them. E_NOMEM. */
enum status backlog_list(const struct backlog *b, uint64_t after_order, bool newest_first,
                         struct bytes name, struct queued *out, size_t n_max, size_t *n);
/* The largest order so far. */
uint64_t backlog_last_order(const struct backlog *b);

struct backlog_name_view {
    struct bytes name; /* borrowed until something changes */
    uint64_t active_n;
    uint64_t waiting_n;
    uint64_t oldest_order; /* 0 = none waits */
};
/* The names of which most wait, then those of which most are active. */
size_t backlog_names(const struct backlog *b, struct backlog_name_view *out, size_t n_max);

/* One of them. False when nothing of it is active or waits. */
bool backlog_name(const struct backlog *b, struct bytes name, struct backlog_name_view *out);

/* After recovery: the lines are put into their order. */
void backlog_sort(struct backlog *b);
void backlog_check(const struct backlog *b);

/* ---- for the core ---- */

/* A name with active or waiting instances. */
struct backlog_name {
    struct map_node node;
    struct list all;
    struct list line;    /* in backlog.lines, while some wait */
    struct bytes name;   /* behind the struct */
    uint32_t active_max; /* 0 = no limit, as with the rate */
    uint32_t rate;
    uint64_t active_n;
    uint64_t waiting_n;
    uint32_t first; /* entries, by order */
    uint32_t last;
    bool is_sorted;
    bool is_served;     /* as it was found */
    uint32_t served_at; /* when the workers had changed so often; 0 = never */
    int64_t rate_at_ns; /* the rate is used up until then */
    uint64_t picked_n;  /* during one pick, */
    uint32_t pick_next; /* which goes on here */
};

/* Room for one more: afterwards backlog_add() cannot fail. False without memory. */
bool backlog_reserve(struct backlog *b);
/* It may be admitted at once. */
bool backlog_admits(const struct backlog *b, struct bytes name, int64_t now_ns);
/* NULL, or why none of this size can be put off. */
const char *backlog_problem(const struct backlog *b, struct bytes name, size_t size);
/* One is admitted, directly or in its turn: counts for the rate. */
void backlog_took(struct backlog *b, struct bytes name, int64_t now_ns);
/* A new order, not before now. */
uint64_t backlog_new_order(const struct backlog *b, int64_t now_ns);
/* It waits; or, when it does already, its record is here now. */
void backlog_add(struct backlog *b, uint64_t hash, const struct queued *waiting, struct bytes name);
/* False when it does not wait. */
bool backlog_remove(struct backlog *b, uint64_t hash, uint64_t order);
/* All of a partition, whose core goes. */
void backlog_drop(struct backlog *b, uint32_t partition);
/* An instance of this name becomes active, or is none any more. */
struct backlog_name *backlog_enter(struct backlog *b, struct bytes name);
void backlog_leave(struct backlog *b, struct backlog_name *name);
/* A number for what waits in a partition, whatever the process. */
uint64_t backlog_digest(const struct backlog *b, uint32_t partition);

#endif
