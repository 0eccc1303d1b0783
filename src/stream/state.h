/* SPDX-License-Identifier: Apache-2.0
 *
 * The streams from inside. Private to stream/.
 */
#ifndef STREAM_STATE_H
#define STREAM_STATE_H

#include "base/clock.h"
#include "base/mem.h"
#include "base/queue.h"
#include "host/hold.h"
#include "stream/core.h"
#include "stream/segment.h"
#include "stream/streams.h"

#include <stdatomic.h>

/* What one frame makes durable, and who is answered then. */
struct stream_batch {
    uint64_t lsn; /* of its frame, if it has records */
    struct buffer payload;
    struct list replies;
};

struct stream_commit {
    struct job job;
    struct journal *journal;
    struct journal_frame frame;
    /* what the lane answers: not to be looked at while it has the job */
    enum status status;
    uint64_t journal_size;
    bool has_spare;
    uint64_t disk_free;
    struct stream_batch *batch; /* on its way; NULL = none */
    bool is_done;
    int64_t retry_ns; /* the disk was full; 0 = on its way */
};

/* Segments are read one stretch at a time, for one request after the other. */
struct stream_reading {
    struct job job;
    struct list queue;              /* requests */
    struct stream_request *request; /* the one at work; NULL = none */
    struct io *io;
    bool is_done;
    /* of the stretch */
    uint32_t stream;
    uint32_t partition;
    uint64_t first;
    uint64_t end; /* of the segment */
    uint64_t position;
    bool is_scan; /* for marks: the whole segment */
    struct buffer buffer;
    size_t got;
    enum status status;
    struct mem mem; /* of the marks: the lane's, then ours */
    struct stream_marks marks;
    struct buffer scan_buffer;
};

/* One partition's way into its segment. */
struct stream_move {
    struct stream_partition *partition;
    struct stream_segment_head head;
    uint64_t position;
    bool is_new;
};

/* A segment to unlink. */
struct stream_doomed {
    uint32_t stream;
    uint32_t partition;
    uint64_t first;
};

enum stream_mover_state {
    STREAM_MOVER_IDLE,
    STREAM_MOVER_FROZEN, /* waits for its frame */
    STREAM_MOVER_BUSY,
    STREAM_MOVER_RETRY, /* the disk was full */
};

struct stream_mover {
    struct job job;
    struct job trim_job;
    enum stream_mover_state state;
    bool is_done;
    bool is_trimming;
    bool is_trim_done;
    struct io *io;
    struct journal *journal;
    uint64_t lsn; /* of what was frozen */
    int64_t retry_ns;
    struct buffer moves;    /* struct stream_move */
    struct buffer snapshot; /* empty: none this time */
    struct buffer doomed;   /* struct stream_doomed, being unlinked */
    struct buffer doomed_next;
    uint64_t doomed_lsn; /* of the newest in doomed_next */
    enum status status;
    uint64_t disk_free;    /* after it, as trim_disk_free after a trim */
    uint64_t snapshot_lsn; /* of the last one since the start */
    bool is_trim_owed;
    uint64_t trim_lsn; /* the lane's */
    uint64_t trim_journal_size;
    bool trim_has_spare;
    uint64_t trim_disk_free;
    uint64_t size_since;  /* of frames since the last snapshot */
    size_t snapshot_size; /* of the last one */
};

struct stream_binder;

struct streams {
    struct env *env;
    struct io *io;
    struct journal *journal;
    struct streams_options options;
    struct mem own;
    struct stream_core core;
    struct clock clock;
    int64_t now_ns;
    uint32_t epoch;

    struct queue posted;
    atomic_size_t in_flight_size;
    atomic_bool is_refusing;
    struct list taken;
    struct stream_batch batches[2];
    struct stream_batch *open;
    struct stream_commit commit;
    uint64_t lsn_durable;
    bool is_disk_full;
    bool has_spare; /* as the next two: when a lane last looked */
    uint64_t journal_size;
    uint64_t disk_free; /* UINT64_MAX = not known */
    int64_t probe_ns;   /* the disk is low: look again then */
    bool is_damaged;    /* recovery: something is, perhaps without harm */
    bool is_stopping;
    bool is_dead;

    struct stream_reading reading;
    struct stream_mover mover;
    struct heap waiting;        /* by the time they give up */
    uint64_t waits_n;           /* how many ever: their order */
    struct list dirty;          /* streams that somebody may wait for */
    struct stream_request bury; /* of a queue's dying messages, one at a time */
    bool is_burying;
    bool is_full_told;
    int64_t bury_ns; /* not before */
    int64_t retention_ns;
    struct stream_binder *binder; /* NULL without starter */
    struct hold hold;             /* for backups */

    uint64_t under_way_n; /* requests taken and not answered */
    struct stream_stats counts;
    pthread_mutex_t stats_mutex; /* of `told` */
    struct stream_stats told;
};

void streams_fatal(struct streams *s, enum status status, const char *what);
/* Steps it, or begins what comes before the step. */
void streams_run(struct streams *s, struct stream_request *request);
/* What grows is refused: there is not enough room for it, and for all that is still to be written
 * of what is there. */
bool streams_is_disk_low(const struct streams *s);
/* With the open batch. */
void streams_reply(struct streams *s, struct stream_request *request);
/* Now. */
void streams_done(struct streams *s, struct stream_request *request);

/* commit.c */
void streams_commit_begin(struct streams *s, uint64_t lsn);
bool streams_commit_turn(struct streams *s);
void streams_commit_finish(struct streams *s);
uint64_t streams_newest_lsn(const struct streams *s);

/* reads.c: what is in `wants` into `answer`, then what comes after it. */
void streams_read(struct streams *s, struct stream_request *request);
void streams_reads_turn(struct streams *s);
enum status streams_reads_init(struct streams *s);
void streams_reads_release(struct streams *s);

/* waits.c */
void streams_wait(struct streams *s, struct stream_request *request);
void streams_wake_dirty(struct streams *s);
void streams_waits_expire(struct streams *s, bool is_all);
void streams_cancel(struct streams *s, struct stream_request *request);
void streams_mark_dirty(struct streams *s, uint32_t number);
/* Of a stream that was deleted. */
void streams_waits_forget(struct streams *s, struct stream *stream);

/* mover.c */
void streams_mover_init(struct streams *s);
void streams_mover_release(struct streams *s);
/* A batch is sealed as this frame: memory is exactly what the frames up to it say. */
void streams_mover_sealed(struct streams *s, uint64_t lsn, size_t size);
void streams_mover_turn(struct streams *s);
void streams_doom(struct streams *s, const struct stream_partition *partition, uint64_t first);
/* Everything in memory to segments, in this thread: recovery. E_NOSPACE: it stays in memory. */
enum status streams_move_now(struct streams *s);
/* E_NOMEM; NULL segments are made. */
enum status streams_need_segments(struct streams *s, struct stream_partition *partition);

/* retention.c */
void streams_retention_turn(struct streams *s);

/* bury.c */
void streams_bury_turn(struct streams *s);

/* info.c */
void streams_info(struct streams *s, struct stream_request *request);
void streams_tell_stats(struct streams *s);

/* recovery.c */
enum status streams_recover(struct streams *s, char *damage);
#define STREAM_SNAPSHOT_PATH "snapshot"
/* Head of the snapshot's file: magic, version, LSN, time, CRC of what follows; then the core's. */
void streams_write_snapshot(struct streams *s, uint64_t lsn, struct buffer *out);
struct stream_snapshot_head {
    uint64_t lsn;
    int64_t time_ns;
    size_t size; /* of the file */
};
/* Into a fresh core. E_NOT_FOUND: there is none, and *out is untouched. E_CORRUPT, E_VERSION, E_IO,
 * E_NOMEM. */
enum status stream_snapshot_read(struct io *io, struct mem *mem, struct stream_core *core,
                                 struct stream_snapshot_head *out);

/* binder.c */
enum status streams_binder_init(struct streams *s);
void streams_binder_release(struct streams *s);
void streams_binder_turn(struct streams *s);
/* When it wants to be called next. */
int64_t streams_binder_next_ns(const struct streams *s);
void streams_binder_stop(struct streams *s);
bool streams_binder_is_quiet(const struct streams *s);
/* A start is under way. */
bool streams_binder_has_sent(const struct streams *s);
void streams_binder_forget(struct streams *s, uint32_t number);

#endif
