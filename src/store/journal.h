/* SPDX-License-Identifier: Apache-2.0
 *
 * The journal: a list of frames, each durable before the next is begun, each known by its LSN (1,
 * 2, 3 ... without gap). A frame is what one turn of the host committed: opaque records, the epoch
 * of the owner and the engine's time. What a frame contains is the host's affair.
 *
 * A journal belongs to one thread at a time.
 *
 *   append ──> frame durable ──> ... ──> archive has all up to LSN n ──> trim(n): segments unlinked
 */
#ifndef STORE_JOURNAL_H
#define STORE_JOURNAL_H

#include "base/bytes.h"
#include "base/status.h"

struct io;
struct mem;
struct journal;

/* Reads single frames beside the thread that appends. It belongs to one thread; several may be
 * open. Closed before its journal. */
struct journal_reader;
struct journal_reader_ops {
    /* The payload, appended. The frame must be durable, and not be trimmed meanwhile: E_NOT_FOUND
     * when it is not there, E_CORRUPT, E_IO, E_NOMEM. */
    enum status (*read)(struct journal_reader *r, uint64_t lsn, struct buffer *out);
    void (*close)(struct journal_reader *r);
};
struct journal_reader {
    const struct journal_reader_ops *ops;
};

struct journal_frame {
    uint64_t lsn;
    uint32_t epoch;  /* of the owner that wrote it; never decreases */
    int64_t time_ns; /* engine time of the commit; never decreases */
    struct bytes payload;
};

/* payload borrowed during the call. Anything but OK stops the replay and is its answer. */
typedef enum status journal_replay_fn(void *user, const struct journal_frame *frame);

/* What replay found; filled also when it answers E_CORRUPT or E_VERSION. */
struct journal_report {
    uint64_t frames_n;   /* given to the callback */
    uint64_t first_lsn;  /* oldest present, 0 when there is none */
    uint64_t last_lsn;   /* newest there has been, also when it was trimmed; 0 when none */
    uint32_t last_epoch; /* of that frame, as is the time */
    int64_t last_time_ns;
    uint64_t truncated_bytes; /* torn tail that was cut off */
    uint64_t missing_bytes;   /* that were reserved: no crash takes them, somebody cut a file */
    /* For people, when the journal is refused: which file, which offset, what is wrong, what to
     * do. */
    char damage[320];
};

struct journal_ops {
    const char *name;
    /* Once, before the first append: validates everything that is there, gives every frame with
     * lsn > after_lsn to fn, oldest first, and cuts off a torn tail. E_CORRUPT: damage that is not
     * a torn tail, a gap before after_lsn+1, or an end before after_lsn: nothing was changed on
     * disk. E_VERSION: written by a newer program: nothing was changed. After any failure the
     * journal can only be closed. */
    enum status (*replay)(struct journal *j, uint64_t after_lsn, journal_replay_fn *fn, void *user,
                          struct journal_report *report);
    /* Durable on OK. frame->lsn must be the last one + 1. E_NOSPACE, E_NOMEM: nothing was appended
     * and the same call may be made again later (should the process end before, recovery may find
     * the frame or not, as with any append that was not answered). E_STALE: the epoch is lower than
     * the last one. E_LIMIT: beyond JOURNAL_FRAME_SIZE_MAX. E_IO: the outcome is unknown and the
     * process must stop acknowledging (the journal refuses every later call with E_IO). */
    enum status (*append)(struct journal *j, const struct journal_frame *frame);
    /* Frames up to lsn are not needed any more. Removes what can be removed; never the last
     * segment. */
    enum status (*trim)(struct journal *j, uint64_t upto_lsn);
    /* Bytes on disk; and whether the segment that comes next is already allocated (false = the disk
     * is nearly full: stop taking work that grows). */
    void (*usage)(struct journal *j, uint64_t *bytes, bool *has_spare);
    /* Bytes still free on its disk; UINT64_MAX when that is not known. */
    uint64_t (*space)(struct journal *j);
    /* For another thread; see struct journal_reader. mem: of that thread. E_NOMEM. */
    enum status (*open_reader)(struct journal *j, struct mem *mem, struct journal_reader **out);
    void (*close)(struct journal *j);
};

struct journal {
    const struct journal_ops *ops;
    uint64_t last_lsn; /* kept by the wrappers below, as are the next three */
    uint32_t last_epoch;
    int64_t last_time_ns;
    bool is_replayed;
    bool is_failed;
};

/* What is common to all backends is checked here, once. */
enum status journal_replay(struct journal *j, uint64_t after_lsn, journal_replay_fn *fn, void *user,
                           struct journal_report *report);
enum status journal_append(struct journal *j, const struct journal_frame *frame);
enum status journal_trim(struct journal *j, uint64_t upto_lsn);
void journal_usage(struct journal *j, uint64_t *bytes, bool *has_spare);
uint64_t journal_space(struct journal *j);
enum status journal_open_reader(struct journal *j, struct mem *mem, struct journal_reader **out);
void journal_close(struct journal *j);
enum status journal_reader_read(struct journal_reader *r, uint64_t lsn, struct buffer *out);
void journal_reader_close(struct journal_reader *r);

struct journal_file_options {
    const char *directory; /* below the io's root, e.g. "journal"; made when absent */
    uint64_t segment_size; /* bytes allocated per segment, e.g. 64 MiB; more for one larger frame */
    struct mem *mem;       /* used by the thread that uses the journal, and by no other */
};
/* io outlives the journal. */
enum status journal_file_open(struct io *io, const struct journal_file_options *options,
                              struct journal **out);

/* The reader of such a journal (journal_reader.c). E_NOMEM. */
enum status journal_file_reader(struct io *io, const char *directory, struct mem *mem,
                                struct journal_reader **out);

/* In memory, the reference of the conformance suite (store_mem.c). The frames outlive close() in
 * `struct store_mem`, as those of a file outlive the process. */
struct store_mem;
enum status journal_mem_open(struct store_mem *store, struct journal **out);

/* Writes every call and its answer to `line` (store_trace.c); closes `inner` with itself. */
typedef void store_trace_fn(void *user, const char *line);
enum status journal_trace_open(struct journal *inner, store_trace_fn *line, void *user,
                               struct journal **out);

#define JOURNAL_FRAME_SIZE_MAX ((size_t)256 << 20)
#define JOURNAL_FORMAT_VERSION 1
/* Fits a signed 64-bit column; a larger one on disk is damage. */
#define JOURNAL_LSN_MAX ((uint64_t)INT64_MAX)

#endif
