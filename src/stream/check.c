/* SPDX-License-Identifier: Apache-2.0
 *
 * See check.h. The way of recovery (recovery.c) with nothing repaired on it, and with every message
 * of every segment read, where recovery reads only the last segment of each partition.
 *
 * A partition's `frozen` chunk stays empty here: its base is where the snapshot's messages end, so
 * what is before it must be in segments and what is behind it was in the frames.
 */
#include "stream/check.h"

#include "base/assert.h"
#include "base/mem.h"
#include "store/check.h"
#include "store/io.h"
#include "stream/state.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#define JOURNAL_DIRECTORY "journal"
#define CHUNKS_SIZE_MAX ((size_t)1 << 20)

struct checking {
    struct io *io;
    struct mem *mem;
    struct stream_core core;
    struct buffer buffer; /* for reading */
    streams_damage_fn *fn;
    void *user;
    struct streams_report *report;
    enum status status; /* of the first damage */
};

__attribute__((format(printf, 4, 5))) static void complain(struct checking *c,
                                                           enum streams_part part,
                                                           enum status status, const char *format,
                                                           ...)
{
    char what[STREAMS_DAMAGE_SIZE];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    if (c->status == OK) c->status = status;
    c->fn(c->user, part, what);
}

/* ---- the snapshot ---- */

static void check_snapshot(struct checking *c)
{
    struct stream_snapshot_head head = {0};

    enum status status = stream_snapshot_read(c->io, c->mem, &c->core, &head);
    if (status == E_NOT_FOUND) return;
    c->report->has_snapshot = true;
    c->report->snapshot_lsn = head.lsn;
    if (status != OK) {
        complain(c, STREAMS_SNAPSHOT, status, "%s: %s", STREAM_SNAPSHOT_PATH, status_text(status));
    }
}

/* ---- what segments there are ---- */

static enum status on_file(void *user, const char *name)
{
    struct checking *c = user;
    uint32_t stream;
    uint32_t index;
    struct stream_segment segment = {0};

    if (!stream_segment_parse(name, &stream, &index, &segment.first)) return OK;
    struct stream_partition *partition = stream_core_partition(&c->core, stream, index);
    if (partition == NULL || segment.first >= partition->next) {
        c->report->obsolete_n++;
        return OK;
    }
    enum status status = OK;
    if (partition->segments == NULL) status = stream_segments_new(c->mem, &partition->segments);
    return status != OK ? status : stream_segments_insert(partition->segments, &segment);
}

/* While the core is as the snapshot says. */
static void list_segments(struct checking *c)
{
    enum status status = c->io->ops->list(c->io, STREAM_SEGMENT_DIRECTORY, on_file, c);

    /* Without the directory there is no file in it, which each partition complains about. */
    if (status == OK || status == E_NOT_FOUND) return;
    complain(c, STREAMS_SEGMENTS, status, "%s: %s", STREAM_SEGMENT_DIRECTORY, status_text(status));
}

/* ---- frames ---- */

/* The messages of frames were checked when they were applied, and are not needed again. */
static void forget_messages(struct checking *c)
{
    for (uint32_t i = 0; i < c->core.streams_n; i++) {
        struct stream *stream = c->core.streams[i];
        for (uint32_t p = 0; p < stream->settings.partitions_n; p++) {
            struct stream_chunk *active = &stream->partitions[p]->active;
            uint64_t end = stream_chunk_end(active);
            if (active->n == 0) continue;
            stream_chunk_release(active);
            stream_chunk_init(active, c->mem, end);
        }
    }
    c->core.chunks_size = 0;
}

static enum status on_frame(void *user, const struct journal_frame *frame)
{
    struct checking *c = user;
    struct reader from = reader_make(frame->payload);
    struct stream_record record;

    while (reader_left(&from) > 0) {
        enum status status =
            stream_record_read(&from, &record) ? stream_core_apply(&c->core, &record) : E_CORRUPT;
        if (status == OK) continue;
        struct journal_report *report = &c->report->journal;
        (void)snprintf(report->damage, sizeof report->damage,
                       "%s: frame %" PRIu64 ", byte %zu of its records: %s", JOURNAL_DIRECTORY,
                       frame->lsn, frame->payload.len - reader_left(&from), status_text(status));
        return status;
    }
    if (c->core.chunks_size > CHUNKS_SIZE_MAX) forget_messages(c);
    return OK;
}

static void check_journal(struct checking *c)
{
    struct journal_report *report = &c->report->journal;

    c->report->has_journal_read = true;
    enum status status = journal_check_frames(c->io, JOURNAL_DIRECTORY, c->report->snapshot_lsn,
                                              c->mem, on_frame, c, report);
    if (status == OK) return;
    if (report->damage[0] != '\0')
        complain(c, STREAMS_JOURNAL, status, "%s", report->damage);
    else
        complain(c, STREAMS_JOURNAL, status, "%s: %s", JOURNAL_DIRECTORY, status_text(status));
}

/* ---- segments ---- */

/* Whether a segment is what it should be; false, and it is complained about. */
static bool check_head(struct checking *c, const struct stream_partition *partition,
                       struct stream_segment *segment, const char *path)
{
    struct stream_segment_head head;
    struct stream_scan first = {0};

    enum status status = stream_segment_read_head(
        c->io, partition->stream->number, partition->index, segment->first, &head, &segment->size);
    if (status == OK) {
        status =
            stream_segment_scan(c->io, partition->stream->number, partition->index, segment->first,
                                segment->first + 1, &c->buffer, NULL, NULL, &first);
        bool is_there = first.end > segment->first;
        /* A message that is not there is complained about with the others. */
        if (status == OK && is_there && first.last_time_ns != head.first_time_ns) {
            status = E_CORRUPT;
        }
    }
    if (status != OK) {
        complain(c, STREAMS_SEGMENTS, status, "%s: its header, at offset 0: %s", path,
                 status_text(status));
    }
    return status == OK;
}

/* Every message of it up to its end; behind that only the last one may have something, which was
 * written after the snapshot and is cut off. */
static void check_segment(struct checking *c, const struct stream_partition *partition,
                          struct stream_segment *segment, bool is_last)
{
    const struct stream *stream = partition->stream;
    char path[STREAM_PATH_SIZE];
    struct stream_scan scan = {0};

    stream_segment_path(path, stream->number, partition->index, segment->first);
    if (!check_head(c, partition, segment, path)) return;
    enum status status =
        stream_segment_scan(c->io, stream->number, partition->index, segment->first, segment->end,
                            &c->buffer, NULL, NULL, &scan);
    if (status != OK) {
        complain(c, STREAMS_SEGMENTS, status, "%s: %s", path, status_text(status));
        return;
    }
    if (scan.end < segment->end) {
        complain(c, STREAMS_SEGMENTS, E_CORRUPT,
                 "%s: %s at offset %" PRIu64 ", message %" PRIu64 " of partition %" PRIu32
                 " of stream '%s' (it should have all up to %" PRIu64 ")",
                 path, scan.position == segment->size ? "cut off" : "damaged", scan.position,
                 scan.end, partition->index, stream->name, segment->end - 1);
        return;
    }
    if (!is_last && scan.position != segment->size) {
        complain(c, STREAMS_SEGMENTS, E_CORRUPT,
                 "%s: goes on at offset %" PRIu64 ", where its last message ends", path,
                 scan.position);
        return;
    }
    c->report->segments_n++;
    c->report->messages_n += segment->end - segment->first;
    c->report->bytes += scan.position;
}

static void check_partition(struct checking *c, struct stream_partition *partition)
{
    struct stream_segments *segments = partition->segments;
    uint64_t end = partition->frozen.base;
    uint64_t there_from = end;
    uint32_t n = segments == NULL ? 0 : segments->n;

    for (uint32_t i = 0; i < n; i++) {
        struct stream_segment *segment = &segments->items[i];
        segment->end = i + 1 < n ? segment[1].first : end;
        if (segment->end <= partition->first) {
            c->report->obsolete_n++;
            continue;
        }
        if (segment->first < there_from) there_from = segment->first;
        check_segment(c, partition, segment, i + 1 == n);
    }
    if (partition->first >= end || there_from <= partition->first) return;
    complain(c, STREAMS_SEGMENTS, E_CORRUPT,
             "%s: a file is missing: messages %" PRIu64 " to %" PRIu64 " of partition %" PRIu32
             " of stream '%s'",
             STREAM_SEGMENT_DIRECTORY, partition->first, there_from - 1, partition->index,
             partition->stream->name);
}

static void check_segments(struct checking *c)
{
    const struct stream_core *core = &c->core;
    const struct stream_partition *letters = core->streams[0]->partitions[0];

    c->report->has_segments_read = true;
    c->report->streams_n = core->streams_n - 1; /* that of dead letters is nobody's */
    c->report->letters_n = core->letters_live_n;
    for (uint32_t i = 0; i < core->streams_n; i++) {
        const struct stream *stream = core->streams[i];
        c->report->groups_n += stream->groups_n;
        for (uint32_t p = 0; p < stream->settings.partitions_n; p++) {
            check_partition(c, stream->partitions[p]);
        }
    }
    if (stream_core_letters_first(core) < letters->first) {
        complain(c, STREAMS_SEGMENTS, E_CORRUPT,
                 "%s: the dead letter at %" PRIu64 " is not there any more, the first is %" PRIu64,
                 STREAM_SEGMENT_DIRECTORY, stream_core_letters_first(core), letters->first);
    }
}

/* ---- all of it ---- */

static void free_segments(struct stream *stream)
{
    for (uint32_t p = 0; p < stream->settings.partitions_n; p++) {
        struct stream_partition *partition = stream->partitions[p];
        if (partition->segments != NULL) stream_segments_free(partition->segments);
        partition->segments = NULL;
    }
}

static void release(struct checking *c)
{
    for (uint32_t i = 0; i < c->core.streams_n; i++) free_segments(c->core.streams[i]);
    for (struct list *at = list_first(&c->core.gone); at != NULL;
         at = list_next(&c->core.gone, at)) {
        free_segments(container_of(at, struct stream, node));
    }
    stream_core_release(&c->core);
    buffer_release(&c->buffer);
}

enum status streams_check(struct io *io, struct mem *mem, streams_damage_fn *fn, void *user,
                          struct streams_report *report)
{
    struct checking c = {.io = io, .mem = mem, .fn = fn, .user = user, .report = report};
    const uint64_t seed[2] = {0, 0}; /* names that collide on purpose cost time, no more */

    *report = (struct streams_report){0};
    enum status status = stream_core_init(&c.core, mem, seed);
    if (status != OK) return status;
    buffer_init(&c.buffer, mem);
    check_snapshot(&c);
    if (c.status == OK) list_segments(&c);
    if (c.status == OK) check_journal(&c);
    if (c.status == OK) check_segments(&c);
    release(&c);
    return c.status;
}
