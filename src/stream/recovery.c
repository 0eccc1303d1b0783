/* SPDX-License-Identifier: Apache-2.0
 *
 * What was: the snapshot, the segments that belong to it, and the frames behind it. Messages of
 * those frames are taken from the journal, also when a segment has them already: its end is cut
 * where the snapshot says, so that it does not matter how far the writing had come.
 */
#include "stream/state.h"

#include "base/crc32c.h"
#include "base/log.h"

#include <inttypes.h>
#include <stdio.h>

#define SNAPSHOT_HEAD_SIZE 32u
#define SNAPSHOT_VERSION 1u
#define SNAPSHOT_SIZE_MAX ((size_t)1 << 30)
static const uint8_t magic[8] = {'N', 'O', 'R', 'N', 'S', 'N', 'A', 'P'};

/* ---- the snapshot's file ---- */

void streams_write_snapshot(struct streams *s, uint64_t lsn, struct buffer *out)
{
    buffer_append(out, magic, sizeof magic);
    buffer_u32(out, SNAPSHOT_VERSION);
    buffer_u32(out, 0);
    buffer_u64(out, lsn);
    buffer_u64(out, (uint64_t)s->now_ns);
    stream_core_snapshot(&s->core, out);
    if (out->failed) return;
    store_u32(out->ptr + 12, crc32c(0, out->ptr + 16, out->len - 16));
}

static enum status read_head(struct bytes file, uint64_t *lsn, int64_t *time_ns)
{
    if (file.len < SNAPSHOT_HEAD_SIZE || memcmp(file.ptr, magic, sizeof magic) != 0) {
        return E_CORRUPT;
    }
    if (load_u32(file.ptr + 12) != crc32c(0, file.ptr + 16, file.len - 16)) return E_CORRUPT;
    if (load_u32(file.ptr + 8) != SNAPSHOT_VERSION) return E_VERSION;
    *lsn = load_u64(file.ptr + 16);
    *time_ns = (int64_t)load_u64(file.ptr + 24);
    return OK;
}

enum status stream_snapshot_read(struct io *io, struct mem *mem, struct stream_core *core,
                                 struct stream_snapshot_head *out)
{
    struct buffer file;

    buffer_init(&file, mem);
    enum status status = io_read_file(io, STREAM_SNAPSHOT_PATH, SNAPSHOT_SIZE_MAX, &file);
    if (status == OK) status = read_head(buffer_view(&file), &out->lsn, &out->time_ns);
    if (status == OK) {
        out->size = file.len;
        status = stream_core_restore(
            core, bytes_make(file.ptr + SNAPSHOT_HEAD_SIZE, file.len - SNAPSHOT_HEAD_SIZE));
    }
    buffer_release(&file);
    return status;
}

static enum status read_snapshot(struct streams *s, char *damage, struct stream_snapshot_head *out)
{
    enum status status = stream_snapshot_read(s->io, &s->own, &s->core, out);

    if (status == E_CORRUPT || status == E_VERSION) {
        (void)snprintf(damage, STREAMS_DAMAGE_SIZE, "the snapshot of the streams: %s",
                       status_text(status));
    }
    s->mover.snapshot_size = out->size;
    return status == E_NOT_FOUND ? OK : status;
}

/* ---- segments ---- */

static void doom_segment(struct streams *s, uint32_t stream, uint32_t partition, uint64_t first)
{
    struct stream_doomed doomed = {stream, partition, first};

    buffer_append(&s->mover.doomed, &doomed, sizeof doomed);
}

static enum status on_file(void *user, const char *name)
{
    struct streams *s = user;
    uint32_t stream;
    uint32_t index;
    struct stream_segment segment = {0};

    if (!stream_segment_parse(name, &stream, &index, &segment.first)) return OK;
    struct stream_partition *partition = stream_core_partition(&s->core, stream, index);
    if (partition == NULL || segment.first >= partition->next) {
        doom_segment(s, stream, index, segment.first);
        return OK;
    }
    enum status status = streams_need_segments(s, partition);
    return status != OK ? status : stream_segments_insert(partition->segments, &segment);
}

/* Segments with nothing from `first` on. */
static void drop_old(struct streams *s, struct stream_partition *partition)
{
    struct stream_segments *segments = partition->segments;

    while (segments != NULL && segments->n > 0) {
        uint64_t end = segments->items[0].end;
        if (end > partition->first) return;
        doom_segment(s, partition->stream->number, partition->index, segments->items[0].first);
        stream_segments_drop_oldest(segments);
    }
}

static enum status complain(const struct stream_partition *partition, const char *what,
                            uint64_t offset, char *damage)
{
    (void)snprintf(damage, STREAMS_DAMAGE_SIZE,
                   "stream '%s', partition %" PRIu32 ": %s, offset %" PRIu64,
                   partition->stream->name, partition->index, what, offset);
    return E_CORRUPT;
}

static void note_damage(struct stream_segments *segments, uint64_t offset)
{
    segments->is_damaged = true;
    segments->damaged_at = offset;
}

static enum status read_heads(struct streams *s, struct stream_partition *partition)
{
    struct stream_segments *segments = partition->segments;

    segments->size = 0;
    for (uint32_t i = segments->n; i-- > 0;) {
        struct stream_segment *segment = &segments->items[i];
        struct stream_segment_head head = {0};
        enum status status =
            stream_segment_read_head(s->io, partition->stream->number, partition->index,
                                     segment->first, &head, &segment->size);
        if (status == E_CORRUPT) note_damage(segments, segment->first);
        if (status != OK && status != E_CORRUPT) return status;
        segment->first_time_ns = head.first_time_ns;
        segment->last_time_ns =
            i + 1 < segments->n ? segments->items[i + 1].first_time_ns : head.first_time_ns;
        segments->size += segment->size;
    }
    return OK;
}

/* The last one is cut where the snapshot's messages end. */
static enum status cut_last(struct streams *s, struct stream_partition *partition,
                            struct buffer *buffer)
{
    struct stream_segments *segments = partition->segments;
    struct stream_segment *last = &segments->items[segments->n - 1];
    struct stream_scan scan;
    uint32_t number = partition->stream->number;

    enum status status = stream_segment_scan(s->io, number, partition->index, last->first,
                                             partition->next, buffer, &s->own, &last->marks, &scan);
    if (status != OK) return status;
    if (scan.end != partition->next) {
        note_damage(segments, scan.end);
        return OK;
    }
    last->is_marked = true;
    last->last_time_ns = scan.last_time_ns;
    if (scan.position == last->size) return OK;
    segments->size -= last->size - scan.position;
    last->size = scan.position;
    return stream_segment_cut(s->io, number, partition->index, last->first, scan.position);
}

/* What the snapshot says, compared with what is there. Segments may be missing: those of streams
 * that were deleted, and of messages that were dropped, since the snapshot. */
static enum status fit_partition(struct streams *s, struct stream_partition *partition,
                                 struct buffer *buffer)
{
    struct stream_segments *segments = partition->segments;

    for (uint32_t i = 0; segments != NULL && i < segments->n; i++) {
        segments->items[i].end =
            i + 1 < segments->n ? segments->items[i + 1].first : partition->next;
    }
    drop_old(s, partition);
    if (segments == NULL || segments->n == 0) return OK;
    enum status status = read_heads(s, partition);
    if (status == OK) status = cut_last(s, partition, buffer);
    if (segments->is_damaged) s->is_damaged = true;
    return status;
}

/* After the last frame: now all that the partition says it has must be there. */
static enum status check_partition(struct streams *s, struct stream_partition *partition,
                                   char *damage)
{
    drop_old(s, partition);
    const struct stream_segments *segments = partition->segments;
    if (partition->first == partition->next) return OK;
    if (segments != NULL && segments->is_damaged && segments->damaged_at >= partition->first) {
        return complain(partition, "messages are missing or damaged", segments->damaged_at, damage);
    }
    uint64_t there_from = partition->frozen.n > 0 ? partition->frozen.base : partition->active.base;
    if (segments != NULL && segments->n > 0) there_from = segments->items[0].first;
    if (there_from > partition->first) {
        return complain(partition, "a segment is missing", partition->first, damage);
    }
    return OK;
}

static enum status for_all(struct streams *s, struct buffer *buffer, char *damage, bool is_after)
{
    for (uint32_t i = 0; i < s->core.streams_n; i++) {
        struct stream *stream = s->core.streams[i];
        for (uint32_t p = 0; p < stream->settings.partitions_n; p++) {
            struct stream_partition *partition = stream->partitions[p];
            enum status status = is_after ? check_partition(s, partition, damage)
                                          : fit_partition(s, partition, buffer);
            if (status != OK) return status;
        }
    }
    return OK;
}

static enum status fit_segments(struct streams *s, char *damage)
{
    struct buffer buffer;

    enum status status = s->io->ops->make_directory(s->io, STREAM_SEGMENT_DIRECTORY);
    if (status == OK) status = s->io->ops->sync_directory(s->io, ".");
    if (status == OK) status = s->io->ops->list(s->io, STREAM_SEGMENT_DIRECTORY, on_file, s);
    if (status != OK) return status;
    buffer_init(&buffer, &s->own);
    status = for_all(s, &buffer, damage, false);
    buffer_release(&buffer);
    return status;
}

/* What belongs to nothing any more. */
static enum status unlink_doomed(struct streams *s)
{
    struct buffer *doomed = &s->mover.doomed;
    const struct stream_doomed *at = (const struct stream_doomed *)(void *)doomed->ptr;
    size_t n = doomed->len / sizeof *at;
    char path[STREAM_PATH_SIZE];

    if (doomed->failed) return E_NOMEM;
    for (size_t i = 0; i < n; i++) {
        stream_segment_path(path, at[i].stream, at[i].partition, at[i].first);
        enum status status = s->io->ops->unlink(s->io, path);
        if (status != OK && status != E_NOT_FOUND) return status;
    }
    buffer_clear(doomed);
    return OK;
}

/* ---- frames ---- */

struct replay {
    struct streams *s;
    char *damage;
    bool is_disk_full;
};

static enum status on_frame(void *user, const struct journal_frame *frame)
{
    struct replay *replay = user;
    struct streams *s = replay->s;
    struct reader from = reader_make(frame->payload);
    struct stream_record record;

    while (reader_left(&from) > 0) {
        enum status status =
            stream_record_read(&from, &record) ? stream_core_apply(&s->core, &record) : E_CORRUPT;
        if (status == E_CORRUPT) {
            (void)snprintf(replay->damage, STREAMS_DAMAGE_SIZE,
                           "frame %" PRIu64 " of the streams' journal cannot be applied",
                           frame->lsn);
        }
        if (status != OK) return status;
    }
    s->mover.size_since += frame->payload.len;
    /* Nothing is written before it is known that all is well. */
    if (s->core.chunks_size < s->options.flush_size || s->is_damaged) return OK;
    if (replay->is_disk_full) return OK;
    enum status status = streams_move_now(s);
    if (status != E_NOSPACE) return status;
    /* Only who is running can make room. What stays in memory is not more than the journal has. */
    log_warn("streams: the disk is full: messages stay in memory until there is space again");
    replay->is_disk_full = true;
    return OK;
}

enum status streams_recover(struct streams *s, char *damage)
{
    struct stream_snapshot_head head = {0};
    struct journal_report report = {0};
    struct replay replay = {.s = s, .damage = damage};

    enum status status = read_snapshot(s, damage, &head);
    if (status == OK) status = fit_segments(s, damage);
    if (status == OK) status = unlink_doomed(s);
    if (status == OK) {
        status = journal_replay(s->journal, head.lsn, on_frame, &replay, &report);
        if (status != OK && damage[0] == '\0') {
            (void)snprintf(damage, STREAMS_DAMAGE_SIZE, "%s", report.damage);
        }
    }
    if (status == OK) status = for_all(s, NULL, damage, true);
    if (status == OK) status = unlink_doomed(s);
    if (status != OK) return status;
    int64_t time_ns = report.last_time_ns > head.time_ns ? report.last_time_ns : head.time_ns;
    clock_init(&s->clock, time_ns, s->env->ops->wall_ns(s->env), s->env->ops->mono_ns(s->env));
    s->now_ns = s->clock.now_ns;
    s->core.now_ns = s->now_ns;
    s->epoch = report.last_epoch + 1;
    streams_commit_begin(s, report.last_lsn > head.lsn ? report.last_lsn : head.lsn);
    return OK;
}
