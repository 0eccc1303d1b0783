/* SPDX-License-Identifier: Apache-2.0
 *
 * The deterministic half of the streams: what is known of each stream, partition, group, queue and
 * dead letter, and what a request changes of it. No clock, no I/O, no threads: time comes with the
 * request, randomness once at the birth (the key of tokens).
 *
 *   request ──> stream_core_step() ──> records, written and applied one by one (emit)
 *   recovery ──────────────────────> the same records, applied in the same order
 *
 * A step changes nothing but through records, so that memory after a crash is what it was
 * (stream_core_digest() tells). Two things are not remembered on purpose: how far a group has read
 * beyond its checkpoint (`cursor`), and whose turn it is among partitions.
 *
 * Messages themselves: the newest are in two chunks per partition, `frozen` (on its way to a
 * segment) and `active`; older ones are in segments, of which the core knows nothing. What a step
 * finds out about messages it answers as `wants`: stretches that the host fetches from either.
 */
#ifndef STREAM_CORE_H
#define STREAM_CORE_H

#include "base/heap.h"
#include "base/list.h"
#include "base/map.h"
#include "stream/chunk.h"
#include "stream/queue.h"
#include "stream/record.h"
#include "stream/request.h"

struct stream_segments; /* the host's */

struct stream_partition {
    struct stream *stream;
    uint32_t index;
    uint64_t first; /* oldest offset that is still there */
    uint64_t next;  /* of the message that comes next */
    struct stream_chunk frozen;
    struct stream_chunk active; /* begins where frozen ends */
    struct stream_queue *queue; /* NULL: nobody has ever received */
    uint32_t pending_n;         /* of the append under way, to make room before it */
    size_t pending_size;
    /* the host's */
    struct stream_segments *segments; /* NULL: none yet */
    struct list waiting;              /* reads */
    bool is_dirty;                    /* was appended to: wake them */
};

struct stream_position {
    uint64_t checkpoint; /* everything before it is done */
    uint64_t cursor;     /* read up to here; volatile */
    int64_t since_ns;    /* of the last checkpoint; volatile */
};

struct stream_group {
    struct list node; /* of its stream, in the order they came */
    char name[STREAM_NAME_SIZE_MAX + 1];
    struct stream_position *positions; /* of the partitions below positions_n; 0 for the others */
    uint32_t positions_n;
};

struct stream {
    struct map_node by_name;
    uint32_t number; /* never used twice; 0 is the stream of dead letters, which has no name */
    char name[STREAM_NAME_SIZE_MAX + 1];
    struct stream_settings settings;
    struct stream_partition **partitions; /* settings.partitions_n of them */
    struct list groups;
    uint32_t groups_n;
    uint64_t appended_n; /* whose turn it is among partitions, for messages without key; volatile */
    uint32_t receive_at; /* the same for receives */
    /* the host's */
    struct list waiting; /* receives */
    struct list node;    /* gone: in core->gone */
    struct list dirty;   /* in a list of the host's */
    uint32_t bound_n;    /* partitions that the binder knows */
};

struct stream_letter {
    uint64_t id;     /* its first offset in stream 0 */
    uint64_t offset; /* where it is now; STREAM_NO_OFFSET = gone */
    uint32_t stream; /* number of the one it was in */
};
#define STREAM_NO_OFFSET UINT64_MAX

struct stream_core {
    struct mem *mem;
    uint64_t secret[2];
    bool has_secret;
    int64_t now_ns;
    struct stream *streams[STREAMS_N_MAX + 1]; /* by number; [0] is that of dead letters */
    uint32_t streams_n;
    uint32_t number_next;
    uint32_t partitions_n; /* in all */
    struct map by_name;
    struct stream_letter *letters; /* by id, gone ones among them */
    uint32_t letters_n;
    uint32_t letters_room;
    uint32_t letters_live_n;
    struct heap expiry;    /* queues with locks, by the time of the first that may run out */
    struct list dying;     /* queues with messages that were delivered too often */
    struct list gone;      /* deleted streams: for the host, which may still be using them */
    size_t chunks_size;    /* bytes of messages in memory */
    struct buffer *out;    /* records of the step under way */
    struct buffer message; /* being made */
    struct buffer value;   /* the same, of a letter */
};

/* key: of the hash table. E_NOMEM. */
enum status stream_core_init(struct stream_core *core, struct mem *mem, const uint64_t seed[2]);
/* Everything, also streams in `gone`, except what is the host's in them. */
void stream_core_release(struct stream_core *core);

/* First step of a new journal. E_NOMEM. */
enum status stream_core_born(struct stream_core *core, const uint64_t secret[2],
                             struct buffer *out);

/* What must be read before the step (the message that becomes a letter, the letter that is changed)
 * is put into `wants`, and true answered: the host reads it into `answer`, sets is_read, and steps.
 * Also true with a status that is not OK: it is answered already. */
bool stream_core_prepare(struct stream_core *core, struct stream_request *request, int64_t now_ns);
/* Fills in the answer, and appends records to `out`, all of them or (status not OK) none. now_ns
 * never goes back. True: answered (perhaps with wants to follow). False: nothing to answer yet, the
 * request may wait. */
bool stream_core_step(struct stream_core *core, struct stream_request *request, int64_t now_ns,
                      struct buffer *out);
/* Locks that have run out, at most about 1,000: true when there are others. */
bool stream_core_tick(struct stream_core *core, int64_t now_ns, struct buffer *out);
/* The host's: a message of a receive could not be given to who asked: as if it had never been
 * delivered. */
void stream_core_return(struct stream_core *core, const struct stream_want *want,
                        struct buffer *out);
/* The host's: what is before `first` is to go. */
enum status stream_core_trim(struct stream_core *core, struct stream_partition *partition,
                             uint64_t first, struct buffer *out);
/* The host's: the position of a bound workflow. */
enum status stream_core_bound(struct stream_core *core, struct stream *stream, uint32_t partition,
                              uint64_t offset, struct buffer *out);

/* The host is through with one of `gone`, and has taken what is its own out of it. */
void stream_core_reap(struct stream_core *core, struct stream *stream);

/* Recovery: E_CORRUPT when it cannot follow what was applied before, E_NOMEM. */
enum status stream_core_apply(struct stream_core *core, const struct stream_record *record);
/* Everything that is remembered, messages excepted. */
void stream_core_snapshot(const struct stream_core *core, struct buffer *out);
/* Into a fresh core. E_CORRUPT, E_VERSION, E_NOMEM. */
enum status stream_core_restore(struct stream_core *core, struct bytes snapshot);
/* Of all that is remembered; equal states have equal digests. E_NOMEM: *out untouched. */
enum status stream_core_digest(const struct stream_core *core, uint64_t *out);

/* ---- looking ---- */

struct stream *stream_core_find(const struct stream_core *core, struct bytes name);
struct stream *stream_core_by_number(const struct stream_core *core, uint32_t number);
/* NULL: no such stream or partition. */
struct stream_partition *stream_core_partition(const struct stream_core *core, uint32_t number,
                                               uint32_t partition);
struct stream_group *stream_find_group(const struct stream *stream, struct bytes name);
/* Where the group stands; at the first one when it never was here. */
uint64_t stream_group_position(const struct stream_group *group,
                               const struct stream_partition *partition);
/* NULL: no such letter. */
struct stream_letter *stream_core_letter(const struct stream_core *core, uint64_t id);
/* The oldest offset of stream 0 that a letter is at; its end without any. */
uint64_t stream_core_letters_first(const struct stream_core *core);
/* What retention must leave: the first message that the queue or the bound workflow is not through
 * with. */
uint64_t stream_unfinished(const struct stream *stream, const struct stream_partition *partition);

#define STREAM_GROUP_QUEUE "queue"
#define STREAM_GROUP_WORKFLOW "workflow"

#endif
