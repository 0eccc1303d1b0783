/* SPDX-License-Identifier: Apache-2.0
 *
 * The journal on files: a list of segments (journal_segment.h) of which the last is open, and a
 * spare.
 *
 *   append:  frame assembled once ──> one write ──> one fdatasync
 *   full:    spare gets its header and its name and becomes the open segment; a new spare is made
 *   trim:    oldest segments unlinked one by one, each durably, so that a crash cannot leave a hole
 *
 * Invariants: the open segment is the last of the list. position is that of the frame to come; it
 * changes only after that frame is durable. Trimmed segments are not used again: they hold old
 * frames, and recovery is simpler where everything behind the last frame is zero.
 */
#include "store/journal.h"

#include "base/assert.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/io.h"
#include "store/journal_frame.h"
#include "store/journal_recover.h"
#include "store/journal_segment.h"

#include <stdio.h>

/* A frame buffer larger than this is given back after use. */
#define FRAME_BUFFER_KEEP ((size_t)4 << 20)
#define DIRECTORY_SIZE_MAX 96

_Static_assert(DIRECTORY_SIZE_MAX + 1 + SEGMENT_NAME_SIZE <= SEGMENT_PATH_SIZE, "paths fit");

struct journal_file {
    struct journal journal;
    struct io *io;
    struct mem *mem;
    char directory[DIRECTORY_SIZE_MAX];
    uint64_t segment_size;

    struct segment_list segments;
    struct segment active; /* the last of segments; no file before the first append */
    struct segment spare;
    struct journal_position position;
    struct buffer frame; /* the one being written */
};

static const struct journal_ops file_ops;

static struct journal_file *file_of(struct journal *j)
{
    assert(j->ops == &file_ops);
    return container_of(j, struct journal_file, journal);
}

static void check(const struct journal_file *f)
{
    assert(f->position.next_lsn > 0);
    assert((f->active.file != NULL) == (f->segments.n > 0));
    assert(f->segments.n <= f->segments.capacity);
    assert((f->spare.file != NULL) == (f->spare.size > 0));
    assert(f->spare.at == 0);
    if (f->segments.n == 0) return;

    const struct segment_entry *last = &f->segments.entries[f->segments.n - 1];
    assert(last->first_lsn <= f->position.next_lsn);
    assert(last->size == f->active.size);
    assert(f->active.at <= f->active.size);
    /* The open segment has no frame exactly as long as the next one would be its first. */
    assert((f->active.at == SEGMENT_HEADER_SIZE) == (last->first_lsn == f->position.next_lsn));
}

/* No spare is a state to live with (has_spare tells it), not an error: the next call tries
 * again. */
static void try_make_spare(struct journal_file *f)
{
    if (f->spare.file != NULL) return;
    (void)segment_make_spare(f->io, f->directory, f->segment_size, &f->spare);
}

static enum status file_replay(struct journal *j, uint64_t after_lsn, journal_replay_fn *fn,
                               void *user, struct journal_report *report)
{
    struct journal_file *f = file_of(j);
    assert(f->segments.n == 0);
    assert(f->active.file == NULL);
    struct recovery r = {
        .io = f->io,
        .mem = f->mem,
        .directory = f->directory,
        .after_lsn = after_lsn,
        .fn = fn,
        .user = user,
        .report = report,
    };
    enum status status = recovery_read(&r);
    if (status == OK) status = recovery_repair(&r, &f->active);
    if (status != OK) {
        segment_list_release(&r.segments);
        return status;
    }
    f->segments = r.segments;
    f->position = r.position;
    if (report->missing_bytes > 0) {
        log_warn(
            "%s: a file was cut: %llu bytes that were reserved for it are missing, and what was "
            "acknowledged may be; the journal ends with frame %llu",
            f->directory, (unsigned long long)report->missing_bytes,
            (unsigned long long)report->last_lsn);
    }
    if (report->truncated_bytes > 0) {
        log_warn(
            "%s ends with frame %llu; %llu bytes behind it were no whole frame and are cut off, "
            "as after a crash",
            f->directory, (unsigned long long)report->last_lsn,
            (unsigned long long)report->truncated_bytes);
    }
    assert(f->position.next_lsn == report->last_lsn + 1);
    assert(f->position.epoch == report->last_epoch);
    assert(f->position.time_ns == report->last_time_ns);
    try_make_spare(f);
    check(f);
    return OK;
}

/* Size of a segment whose first frame has this size. */
static uint64_t size_for(const struct journal_file *f, uint64_t frame_size)
{
    assert(frame_size >= FRAME_HEADER_SIZE);
    uint64_t need = SEGMENT_HEADER_SIZE + frame_size;
    return need > f->segment_size ? need : f->segment_size;
}

/* A spare with room for a frame of this size. */
static enum status need_spare(struct journal_file *f, uint64_t size)
{
    if (f->spare.file == NULL) {
        return segment_make_spare(f->io, f->directory, size_for(f, size), &f->spare);
    }
    return segment_extend(f->io, &f->spare, size_for(f, size));
}

/* Begins a new segment. E_NOSPACE and E_NOMEM: nothing has changed. */
static enum status roll(struct journal_file *f, const struct journal_frame *frame, uint64_t size)
{
    if (!segment_list_reserve(&f->segments)) return E_NOMEM;
    enum status status = need_spare(f, size);
    if (status == OK) status = segment_seal(f->io, &f->active);
    if (status != OK) return status;
    assert(f->spare.file != NULL);
    assert(!f->active.is_dirty);

    /* The chain of a journal begins with a number that nobody outside knows and no other journal
     * shares: the nanosecond of its first frame serves. */
    if (f->segments.n == 0) {
        f->position.chain = bytes_hash(bytes_make(&frame->time_ns, sizeof frame->time_ns));
    }
    struct segment_header header = {
        .first_lsn = f->position.next_lsn,
        .chain = f->position.chain,
        .epoch_before = f->position.epoch,
        .time_before_ns = f->position.time_ns,
        .size = f->spare.size,
    };
    status = segment_promote(f->io, f->directory, &f->spare, &header);
    if (status != OK) return status;

    segment_close(f->io, &f->active);
    f->active = f->spare;
    f->spare = (struct segment){0};
    segment_list_add(&f->segments,
                     (struct segment_entry){.first_lsn = header.first_lsn, .size = f->active.size});
    assert(segment_has_room(&f->active, size));
    return OK;
}

/* Room for a frame of this size in the open segment. E_NOSPACE and E_NOMEM: nothing has changed. */
static enum status make_room(struct journal_file *f, const struct journal_frame *frame,
                             uint64_t size)
{
    assert(size % FRAME_ALIGNMENT == 0);
    assert((f->active.file != NULL) == (f->segments.n > 0));
    if (f->active.file == NULL) return roll(f, frame, size);
    if (segment_has_room(&f->active, size)) return OK;
    if (f->active.at > SEGMENT_HEADER_SIZE) return roll(f, frame, size);

    assert(f->segments.entries[f->segments.n - 1].first_lsn == frame->lsn);
    /* Without a frame in it (it was cut short, or the frame it was begun for never came) the next
     * segment would have the same first LSN and so the same name. */
    enum status status = segment_extend(f->io, &f->active, size_for(f, size));
    if (status == OK) f->segments.entries[f->segments.n - 1].size = f->active.size;
    return status;
}

/* Pair of the check at recovery: a frame that we could not read ourselves is never written. Of the
 * header only: the payload's checksum was computed just now. */
static void check_assembled(const struct journal_file *f, const struct journal_frame *frame)
{
    struct frame_header written;
    enum frame_verdict verdict = frame_decode_header(f->frame.ptr, f->active.seed, &written);
    assert(verdict == FRAME_VALID);
    assert(written.lsn == frame->lsn);
    assert(written.chain == f->position.chain);
    assert(written.epoch == frame->epoch);
    assert(written.time_ns == frame->time_ns);
    assert(written.payload_len == frame->payload.len);
}

static enum status assemble(struct journal_file *f, const struct journal_frame *frame)
{
    size_t size = (size_t)frame_size(frame->payload.len);
    struct buffer *b = &f->frame;
    buffer_clear(b);
    if (!buffer_reserve(b, size)) {
        b->failed = false;
        return E_NOMEM;
    }
    frame_encode_header(frame, f->position.chain, f->active.seed, b->ptr);
    b->len = FRAME_HEADER_SIZE;
    buffer_append_bytes(b, frame->payload);
    assert(b->len <= size);
    assert(size - b->len < FRAME_ALIGNMENT);
    memset(b->ptr + b->len, 0, size - b->len);
    b->len = size;
    assert(!b->failed);
    check_assembled(f, frame);
    return OK;
}

static enum status file_append(struct journal *j, const struct journal_frame *frame)
{
    struct journal_file *f = file_of(j);
    assert(frame->lsn == f->position.next_lsn);
    assert(frame->epoch >= f->position.epoch);
    assert(frame->time_ns >= f->position.time_ns);
    uint64_t size = frame_size(frame->payload.len);

    enum status status = make_room(f, frame, size);
    if (status == OK) status = assemble(f, frame);
    if (status != OK) return status;
    assert(f->frame.len == size);

    uint64_t chain_after = frame_chain_after(f->frame.ptr);
    status = segment_append(f->io, &f->active, &f->frame);
    if (f->frame.size > FRAME_BUFFER_KEEP) buffer_release(&f->frame);
    if (status != OK) return status;

    f->position = (struct journal_position){
        .next_lsn = frame->lsn + 1,
        .chain = chain_after,
        .epoch = frame->epoch,
        .time_ns = frame->time_ns,
    };
    try_make_spare(f);
    check(f);
    return OK;
}

/* Whether every frame of the oldest segment is at or before upto_lsn and there is a segment after
 * it. */
static bool is_oldest_done(const struct journal_file *f, uint64_t upto_lsn)
{
    assert(upto_lsn < f->position.next_lsn);
    return f->segments.n > 1 && f->segments.entries[1].first_lsn <= upto_lsn + 1;
}

static enum status file_trim(struct journal *j, uint64_t upto_lsn)
{
    struct journal_file *f = file_of(j);
    while (is_oldest_done(f, upto_lsn)) {
        assert(f->segments.entries[0].first_lsn <= upto_lsn);
        char path[SEGMENT_PATH_SIZE];
        segment_path(f->directory, f->segments.entries[0].first_lsn, path);
        enum status status = f->io->ops->unlink(f->io, path);
        if (status != OK) return status;
        segment_list_remove_first(&f->segments);
        /* Before the next one goes: a directory that remembers the removal of a later segment and
         * not of this one would look damaged. */
        status = f->io->ops->sync_directory(f->io, f->directory);
        if (status != OK) {
            j->is_failed = true;
            return E_IO;
        }
    }
    try_make_spare(f);
    check(f);
    return OK;
}

static void file_usage(struct journal *j, uint64_t *bytes, bool *has_spare)
{
    const struct journal_file *f = file_of(j);
    *bytes = f->spare.size;
    for (size_t i = 0; i < f->segments.n; i++) *bytes += f->segments.entries[i].size;
    assert(*bytes >= f->active.size);
    *has_spare = f->spare.file != NULL;
}

static uint64_t file_space(struct journal *j)
{
    const struct journal_file *f = file_of(j);
    uint64_t free_bytes = 0;
    return f->io->ops->space(f->io, &free_bytes) == OK ? free_bytes : UINT64_MAX;
}

static enum status file_open_reader(struct journal *j, struct mem *mem, struct journal_reader **out)
{
    const struct journal_file *f = file_of(j);
    return journal_file_reader(f->io, f->directory, mem, out);
}

static void file_close(struct journal *j)
{
    struct journal_file *f = file_of(j);
    segment_close(f->io, &f->active);
    segment_close(f->io, &f->spare);
    segment_list_release(&f->segments);
    buffer_release(&f->frame);
    mem_give(f->mem, f, sizeof *f);
}

static const struct journal_ops file_ops = {
    .name = "file",
    .replay = file_replay,
    .append = file_append,
    .trim = file_trim,
    .usage = file_usage,
    .space = file_space,
    .open_reader = file_open_reader,
    .close = file_close,
};

/* Makes the directory, and its name durable: without it every segment in it would be lost. */
static enum status prepare_directory(struct io *io, const char *directory)
{
    enum status status = io->ops->make_directory(io, directory);
    if (status != OK) return status;

    char parent[DIRECTORY_SIZE_MAX];
    int length = snprintf(parent, sizeof parent, "%s", directory);
    assert(length > 0);
    assert((size_t)length < sizeof parent);
    char *slash = strrchr(parent, '/');
    if (slash == NULL) return io->ops->sync_directory(io, ".");
    *slash = 0;
    return io->ops->sync_directory(io, parent);
}

enum status journal_file_open(struct io *io, const struct journal_file_options *options,
                              struct journal **out)
{
    assert(options->mem != NULL);
    assert(options->segment_size >= SEGMENT_HEADER_SIZE + FRAME_HEADER_SIZE);
    assert(options->directory[0] != 0);
    assert(strlen(options->directory) < DIRECTORY_SIZE_MAX);

    enum status status = prepare_directory(io, options->directory);
    if (status != OK) return status;
    struct journal_file *f = mem_take_zero(options->mem, sizeof *f);
    if (f == NULL) return E_NOMEM;
    f->journal.ops = &file_ops;
    f->io = io;
    f->mem = options->mem;
    f->segment_size = options->segment_size;
    f->segments.mem = options->mem;
    f->position.next_lsn = 1;
    memcpy(f->directory, options->directory, strlen(options->directory) + 1);
    buffer_init(&f->frame, options->mem);
    *out = &f->journal;
    return OK;
}
