/* SPDX-License-Identifier: Apache-2.0
 *
 * The archive: instances that are finished, asleep, or hot but older than the journal should have
 * to remember. Narrow searchable rows, one per instance; the snapshot of the instance (its history
 * and everything else the core keeps of it) beside them, compressed.
 *
 * What the archive holds is a fold of a journal prefix, or newer: after a crash the journal is
 * replayed from applied_lsn+1 on, and each record is applied only when its version is newer than
 * the row's.
 *
 * One thread calls apply() and maintain(); another one may call everything else at the same time.
 */
#ifndef STORE_ARCHIVE_H
#define STORE_ARCHIVE_H

#include "base/arena.h"
#include "base/status.h"

struct io;
struct mem;
struct archive;
struct store_mem;

#define ARCHIVE_NO_TIME INT64_MAX

/* One instance. All bytes are borrowed during the call they are given to. */
struct archive_row {
    struct bytes hub;
    struct bytes id; /* unique within the hub */
    uint32_t partition;
    uint64_t version; /* the core's count of changes: larger is newer */
    int32_t status;   /* OrchestrationStatus of the protocol */
    bool is_terminal;
    struct bytes name;      /* of the orchestrator */
    struct bytes tags;      /* "key=value\n" for each, for searching; may be empty */
    struct bytes parent_id; /* empty for none */
    struct bytes error;     /* beginning of the error text, for searching; empty for none */
    int64_t created_ms;
    int64_t updated_ms;
    int64_t completed_ms;  /* ARCHIVE_NO_TIME while not terminal */
    int64_t wake_ms;       /* when it must be in memory again; 0 = at start (has work);
                                ARCHIVE_NO_TIME = only when a message comes (most terminal ones) */
    struct bytes snapshot; /* uncompressed */
};

struct archive_put {
    struct archive_row row;
    bool is_new; /* the archive has no row of this hub and id: allows a plain insert */
};

struct archive_key {
    struct bytes hub;
    struct bytes id;
};

/* State of a partition that belongs to no instance: opaque. */
struct archive_partition {
    uint32_t partition;
    struct bytes state;
};

/* All of it is durable on OK, or none. */
struct archive_batch {
    const struct archive_put *puts; /* no key twice */
    size_t puts_n;
    const struct archive_key *removes; /* absent ones are no error; no key is also in puts */
    size_t removes_n;
    const struct archive_partition *partitions; /* replaces the state of these */
    size_t partitions_n;
    uint64_t applied_lsn; /* never decreases */
};

/* Rows by (created_ms, id), or (completed_ms, id) when by_completion: ascending, or descending with
 * newest_first. A zeroed query asks for every row of the hub "" (none): set hub. */
struct archive_query {
    struct bytes hub;
    uint32_t status_mask; /* bit n = status n; 0 = any */
    bool terminal_only;
    bool by_completion; /* implies terminal_only */
    int64_t from_ms;    /* of the ordering time, inclusive */
    int64_t to_ms;      /* exclusive; 0 = no bound */
    struct bytes id_prefix;
    struct bytes name;       /* exact; empty = any */
    struct bytes tag;        /* see archive_tag_is(); empty = any */
    struct bytes error_part; /* substring; empty = any */
    bool newest_first;       /* not with entities */
    /* Only rows after this position in the order that is asked for, when has_after. */
    bool has_after;
    int64_t after_ms;
    struct bytes after_id;
    uint32_t limit; /* > 0 */
    bool want_snapshot;
    /* Only rows whose id begins with '@' (else: only the others), by (created_ms, id); from_ms and
     * to_ms are then of updated_ms, and status_mask, terminal_only, by_completion, name, tag and
     * error_part say nothing. */
    bool entities;
    bool want_transient; /* entities: those of ARCHIVE_STATUS_TRANSIENT too */
};
/* Of an entity without state: PENDING. */
#define ARCHIVE_STATUS_TRANSIENT 6

/* row borrowed during the call; snapshot empty unless asked for. Anything but OK stops. A callback
 * must not call the archive. */
typedef enum status archive_row_fn(void *user, const struct archive_row *row);
typedef enum status archive_partition_fn(void *user, const struct archive_partition *partition);
/* A 64-bit value per row that archive_key_hash() also gives for its hub and id. */
typedef enum status archive_hash_fn(void *user, uint64_t hash);

struct archive_stats {
    uint64_t rows;
    uint64_t rows_terminal;
    uint64_t bytes;      /* on disk, everything */
    uint64_t blob_bytes; /* in segments */
    uint64_t blob_live;  /* of them still referred to */
};

struct archive_ops {
    const char *name;
    enum status (*apply)(struct archive *a, const struct archive_batch *batch);
    /* Gives back space: unlinks segments nothing refers to, rewrites sparse ones. Bounded work per
     * call; *did_something false when there is nothing left to do now. */
    enum status (*maintain)(struct archive *a, bool *did_something);

    enum status (*applied_lsn)(struct archive *a, uint64_t *out);
    enum status (*partitions)(struct archive *a, archive_partition_fn *fn, void *user);
    enum status (*hashes)(struct archive *a, archive_hash_fn *fn, void *user);
    /* E_NOT_FOUND. The row and its snapshot (when wanted) are copied to arena. */
    enum status (*get)(struct archive *a, struct archive_key key, bool want_snapshot,
                       struct arena *arena, struct archive_row *out);
    enum status (*query)(struct archive *a, const struct archive_query *query, archive_row_fn *fn,
                         void *user);
    /* Rows (of any status) with wake_ms <= before_ms, by (wake_ms, hub, id), with snapshots, at
     * most limit, after the position (after_wake_ms, after key) when after is not NULL. */
    enum status (*due)(struct archive *a, int64_t before_ms, const struct archive_row *after,
                       uint32_t limit, archive_row_fn *fn, void *user);
    enum status (*stats)(struct archive *a, struct archive_stats *out);
    void (*close)(struct archive *a);
};

struct archive {
    const struct archive_ops *ops;
};

/* What is common to all backends is checked in these wrappers, once. Every function answers OK,
 * E_IO, E_NOSPACE, E_CORRUPT, E_NOMEM, E_BUSY (somebody else has locked the database for long), or
 * what a callback answered. After E_NOSPACE, E_NOMEM or E_BUSY of apply() nothing has changed and
 * the same call may be made again; after E_IO the outcome is unknown and no later one succeeds. */
enum status archive_apply(struct archive *a, const struct archive_batch *batch);
enum status archive_maintain(struct archive *a, bool *did_something);
enum status archive_applied_lsn(struct archive *a, uint64_t *out);
enum status archive_partitions(struct archive *a, archive_partition_fn *fn, void *user);
enum status archive_hashes(struct archive *a, archive_hash_fn *fn, void *user);
enum status archive_get(struct archive *a, struct archive_key key, bool want_snapshot,
                        struct arena *arena, struct archive_row *out);
enum status archive_query(struct archive *a, const struct archive_query *query, archive_row_fn *fn,
                          void *user);
enum status archive_due(struct archive *a, int64_t before_ms, const struct archive_row *after,
                        uint32_t limit, archive_row_fn *fn, void *user);
enum status archive_stats(struct archive *a, struct archive_stats *out);
void archive_close(struct archive *a);

/* The same for every backend and for ever. */
uint64_t archive_key_hash(struct archive_key key);
/* Whether a tag, "key=value", is the one that is asked for: "key=value" itself, or "key" with
 * whatever value. */
bool archive_tag_is(struct bytes tag, struct bytes wanted);

struct archive_sqlite_options {
    const char *root;      /* directory of the io, for SQLite's own files */
    const char *directory; /* below it, e.g. "archive"; made when absent */
    uint64_t segment_size; /* of the blob segments, e.g. 64 MiB */
    struct mem *mem;
};
/* io outlives the archive. E_VERSION: made by a newer program, nothing was changed. */
enum status archive_sqlite_open(struct io *io, const struct archive_sqlite_options *options,
                                struct archive **out);
/* In memory, the reference (store_mem.c). */
enum status archive_mem_open(struct store_mem *store, struct archive **out);

#endif
