/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams, queues and dead letters as a service: runs the core (core.h) over a journal and segment
 * files. One thread turns it (streams_turn()); requests come from any.
 *
 *   posted ──> step ──> frame durable ──> messages fetched ──> done()
 *                          │
 *                          └─ when much is in memory: chunks ──> segments, snapshot, trim
 *
 * Nothing is answered before the frame it stands on is durable. A frame holds all that came while
 * the one before it was being written (group commit).
 */
#ifndef STREAM_STREAMS_H
#define STREAM_STREAMS_H

#include "host/env.h"
#include "store/io.h"
#include "store/journal.h"
#include "stream/request.h"
#include "stream/starter.h"

struct streams;

typedef void streams_wake_fn(void *user);

struct streams_options {
    struct mem *mem;        /* used in open and close, and in between by the thread that turns */
    size_t queue_n_max;     /* requests posted and not begun; beyond: streams_post() is false */
    size_t in_flight_max;   /* bytes of appends that are not answered; the same */
    size_t waiting_n_max;   /* reads and receives that wait; beyond: E_UNAVAILABLE */
    size_t batch_size_max;  /* a frame ends when it is larger */
    size_t flush_size;      /* bytes of messages in memory that are worth writing to segments */
    size_t chunks_size_max; /* beyond: appends are E_UNAVAILABLE until some were written */
    uint64_t snapshot_every_size; /* bytes of journal between snapshots */
    uint64_t segment_size;        /* a segment is closed when it is larger */
    /* Appends are E_NOSPACE with less, and with less than this and what is in memory together:
     * segments must have room for it. */
    uint64_t disk_free_min;
    int64_t retention_every_ms;   /* how often old segments are looked for */
    /* Bound streams: where their messages go; NULL = they wait. */
    struct stream_starter *starter;
    uint32_t bound_window_n; /* starts in flight of each partition */
    uint32_t checkpoint_n;   /* of bound streams: after so many messages ... */
    int64_t checkpoint_ms;   /* ... or so much time */
    streams_wake_fn *wake;   /* a request was posted: turn soon; from any thread. NULL = none */
    void *wake_user;
};
void streams_options_init(struct streams_options *options);

#define STREAMS_DAMAGE_SIZE 400

/* io: on the directory of the streams; journal: fresh from open. Both are outlived by the caller's
 * io, and the journal belongs to the streams from now on, also on failure. E_CORRUPT, E_VERSION
 * (damage says what, STREAMS_DAMAGE_SIZE bytes), E_IO, E_NOMEM, E_NOSPACE. */
enum status streams_open(struct env *env, struct io *io, struct journal *journal,
                         const struct streams_options *options, char *damage, struct streams **out);
/* Everything that is still under way is answered E_CLOSED. Jobs must have come back
 * (streams_is_quiet()), or never will. */
void streams_close(struct streams *s);

/* Does what there is to do. Answers how long it may be left alone, ns; INT64_MAX = until woken. */
int64_t streams_turn(struct streams *s);
/* What is posted from now on is refused; those that wait are answered E_CLOSED. */
void streams_stop(struct streams *s);
/* After the last turn: what was posted too late is answered E_CLOSED. */
void streams_refuse_posted(struct streams *s);
/* Nothing under way. */
bool streams_is_quiet(const struct streams *s);

/* From any thread. False: too much under way, or stopped; the request stays the caller's. */
bool streams_post(struct streams *s, struct stream_request *request);

/* For who copies the files of the streams while they run: see host/hold.h. While it is asked for,
 * until it goes on, no message starts an instance. */
struct hold;
struct hold *streams_hold(struct streams *s);
/* Copies all of `streams/`: the frames up to this one, and the files, which are held. */
struct copy;
enum status streams_copy(struct copy *c, uint64_t lsn);

struct stream_stats {
    uint64_t streams_n;
    uint64_t appended_n; /* since the start, as all counts are */
    uint64_t appended_size;
    uint64_t read_n;
    uint64_t delivered_n;
    uint64_t completed_n;
    uint64_t letters_n;   /* there are now */
    uint64_t waiting_n;   /* reads and receives */
    uint64_t memory_size; /* messages in memory */
    uint64_t journal_size;
    uint64_t segments_size;
    uint64_t frames_n;
    uint64_t started_n; /* by bound streams */
    bool is_disk_low;
};
/* From any thread, at any time. */
void streams_stats(struct streams *s, struct stream_stats *out);

/* For tests: the digest of the core. */
enum status streams_digest(struct streams *s, uint64_t *out);

#endif
