/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages out of memory and journal into segments.
 *
 *   idle ──a frame is sealed, and much is in memory or in the journal──> frozen: chunks set aside,
 *     ▲                                                 │    and, for the journal, a snapshot made
 *     │                                                 │ the frame is durable
 *     └── segments take the chunks; the journal <── busy: segments of the past unlinked, chunks
 *         is trimmed up to the snapshot's frame         written and synced, the snapshot after them
 *
 * A snapshot is of exactly the frames up to its LSN, and is written after every message of those
 * frames is in a segment: recovery needs it and the frames behind it, and nothing else.
 */
#include "stream/state.h"

#include "base/log.h"

#define RETRY_NS NS_PER_S
#define PROBE_NS (NS_PER_S / 2)
/* So that a segment can be given up when its newest message is old. */
#define SEGMENTS_PER_RETENTION 8

/* ---- the lanes ---- */

static struct bytes chunk_bytes(const struct stream_move *move)
{
    return buffer_view(&move->partition->frozen.data);
}

static enum status write_moves(struct io *io, const struct buffer *moves)
{
    const struct stream_move *move = (const struct stream_move *)(const void *)moves->ptr;
    size_t n = moves->len / sizeof *move;
    bool is_made = false;

    for (size_t i = 0; i < n; i++) {
        enum status status = stream_segment_write(io, &move[i].head, move[i].position,
                                                  chunk_bytes(&move[i]), &is_made);
        if (status != OK) return status;
    }
    return is_made ? io->ops->sync_directory(io, STREAM_SEGMENT_DIRECTORY) : OK;
}

static enum status unlink_doomed(struct io *io, const struct buffer *doomed)
{
    const struct stream_doomed *at = (const struct stream_doomed *)(const void *)doomed->ptr;
    size_t n = doomed->len / sizeof *at;
    char path[STREAM_PATH_SIZE];

    for (size_t i = 0; i < n; i++) {
        stream_segment_path(path, at[i].stream, at[i].partition, at[i].first);
        enum status status = io->ops->unlink(io, path);
        if (status != OK && status != E_NOT_FOUND) return status;
    }
    return OK; /* what comes back after a crash is removed by recovery */
}

static void run(struct job *job)
{
    struct stream_mover *m = container_of(job, struct stream_mover, job);

    /* First: on a full disk it makes the room for the rest. */
    m->status = unlink_doomed(m->io, &m->doomed);
    if (m->status == OK) m->status = write_moves(m->io, &m->moves);
    if (m->status == OK && m->snapshot.len > 0) {
        m->status = io_write_file(m->io, ".", STREAM_SNAPSHOT_PATH, buffer_view(&m->snapshot));
    }
    m->disk_free = journal_space(m->journal);
}

static void done(struct job *job) { container_of(job, struct stream_mover, job)->is_done = true; }

static void run_trim(struct job *job)
{
    struct stream_mover *m = container_of(job, struct stream_mover, trim_job);
    /* What stays for lack of luck goes with the next trim. */
    (void)journal_trim(m->journal, m->trim_lsn);
    journal_usage(m->journal, &m->trim_journal_size, &m->trim_has_spare);
    m->trim_disk_free = journal_space(m->journal);
}

static void done_trim(struct job *job)
{
    container_of(job, struct stream_mover, trim_job)->is_trim_done = true;
}

void streams_mover_init(struct streams *s)
{
    struct stream_mover *m = &s->mover;

    m->job = (struct job){.run = run, .done = done};
    m->trim_job = (struct job){.run = run_trim, .done = done_trim};
    m->io = s->io;
    m->journal = s->journal;
    buffer_init(&m->moves, &s->own);
    buffer_init(&m->snapshot, &s->own);
    buffer_init(&m->doomed, &s->own);
    buffer_init(&m->doomed_next, &s->own);
}

void streams_mover_release(struct streams *s)
{
    buffer_release(&s->mover.moves);
    buffer_release(&s->mover.snapshot);
    buffer_release(&s->mover.doomed);
    buffer_release(&s->mover.doomed_next);
}

/* ---- setting aside ---- */

enum status streams_need_segments(struct streams *s, struct stream_partition *partition)
{
    if (partition->segments != NULL) return OK;
    return stream_segments_new(&s->own, &partition->segments);
}

static bool is_closed(const struct streams *s, const struct stream_partition *partition,
                      const struct stream_segment *segment)
{
    int64_t retention_ms = partition->stream->settings.retention_ms;

    if (segment->size >= s->options.segment_size) return true;
    return retention_ms > 0 &&
           s->now_ns - segment->first_time_ns > retention_ms * NS_PER_MS / SEGMENTS_PER_RETENTION;
}

/* Where the active chunk of the partition will go. E_NOMEM: it stays where it is. */
static enum status plan_move(struct streams *s, struct stream_partition *partition)
{
    struct stream_message first;
    size_t size;
    struct stream_move move = {
        .partition = partition,
        .position = STREAM_SEGMENT_HEADER_SIZE,
        .is_new = true,
        .head = {.stream = partition->stream->number, .partition = partition->index},
    };

    assert(partition->frozen.n == 0);
    enum status status = streams_need_segments(s, partition);
    if (status == OK) status = stream_segments_make_room(partition->segments);
    if (status != OK) return status;
    status = stream_message_read(buffer_view(&partition->active.data), &first, &size);
    assert(status == OK);
    assert(first.offset == partition->active.base);
    move.head.first = first.offset;
    move.head.first_time_ns = first.time_ns;
    const struct stream_segments *segments = partition->segments;
    if (segments->n > 0 && !is_closed(s, partition, &segments->items[segments->n - 1])) {
        const struct stream_segment *last = &segments->items[segments->n - 1];
        assert(last->end == first.offset);
        move.is_new = false;
        move.position = last->size;
        move.head.first = last->first;
        move.head.first_time_ns = last->first_time_ns;
    }
    buffer_append(&s->mover.moves, &move, sizeof move);
    if (s->mover.moves.failed) {
        s->mover.moves.failed = false;
        return E_NOMEM;
    }
    stream_chunk_release(&partition->frozen);
    partition->frozen = partition->active;
    stream_chunk_init(&partition->active, &s->own, stream_chunk_end(&partition->frozen));
    return OK;
}

/* E_NOMEM: some stay. */
static enum status freeze(struct streams *s)
{
    enum status status = OK;

    buffer_clear(&s->mover.moves);
    for (uint32_t i = 0; i < s->core.streams_n; i++) {
        struct stream *stream = s->core.streams[i];
        for (uint32_t p = 0; p < stream->settings.partitions_n; p++) {
            if (stream->partitions[p]->active.n == 0) continue;
            enum status this = plan_move(s, stream->partitions[p]);
            if (this != OK) status = this;
        }
    }
    return status;
}

void streams_mover_sealed(struct streams *s, uint64_t lsn, size_t size)
{
    struct stream_mover *m = &s->mover;

    m->size_since += size;
    if (m->state != STREAM_MOVER_IDLE || m->is_trimming) return;
    /* Not so often that snapshots are most of what is written. */
    bool is_time = m->size_since > s->options.snapshot_every_size &&
                   m->size_since > 4 * (uint64_t)m->snapshot_size;
    if (s->core.chunks_size < s->options.flush_size && !is_time) return;
    enum status status = freeze(s);
    buffer_clear(&m->snapshot);
    if (is_time && status == OK) {
        streams_write_snapshot(s, lsn, &m->snapshot);
        if (m->snapshot.failed) buffer_clear(&m->snapshot);
        if (m->snapshot.len > 0) {
            m->size_since = 0;
            m->snapshot_size = m->snapshot.len;
        }
    }
    m->lsn = lsn;
    m->state = STREAM_MOVER_FROZEN;
}

void streams_doom(struct streams *s, const struct stream_partition *partition, uint64_t first)
{
    struct stream_mover *m = &s->mover;
    struct stream_doomed doomed = {partition->stream->number, partition->index, first};

    buffer_append(&m->doomed_next, &doomed, sizeof doomed);
    m->doomed_next.failed = false; /* without memory the next start removes it */
    m->doomed_lsn = streams_newest_lsn(s);
}

/* ---- what was written ---- */

/* The segment takes over what the chunk had. */
static void settle(struct streams *s, const struct stream_move *move)
{
    struct stream_partition *partition = move->partition;
    struct stream_chunk *chunk = &partition->frozen;
    struct stream_segments *segments = partition->segments;
    struct stream_segment *segment;
    struct stream_message message;
    size_t size;

    if (move->is_new) {
        segment = stream_segments_push(segments);
        segment->first = move->head.first;
        segment->first_time_ns = move->head.first_time_ns;
        segment->size = STREAM_SEGMENT_HEADER_SIZE;
        segment->is_marked = true;
        segments->size += STREAM_SEGMENT_HEADER_SIZE;
    } else {
        segment = &segments->items[segments->n - 1];
    }
    assert(segment->size == move->position);
    for (uint32_t i = 0; i < chunk->n; i++) {
        uint32_t start = load_u32(chunk->starts.ptr + i * sizeof(uint32_t));
        /* Times never go back: that of the newest is enough but for marks. */
        bool is_needed =
            i + 1 == chunk->n || segment->marks.n == 0 ||
            move->position + start - segment->marks.items[segment->marks.n - 1].position >=
                STREAM_MARK_EVERY;
        if (!is_needed) continue;
        struct bytes raw = bytes_make(chunk->data.ptr + start, chunk->data.len - start);
        enum status status = stream_message_read(raw, &message, &size);
        assert(status == OK);
        if (segment->is_marked) {
            stream_marks_note(&s->own, &segment->marks, message.offset, move->position + start,
                              message.time_ns);
        }
        segment->last_time_ns = message.time_ns;
    }
    segment->end = stream_chunk_end(chunk);
    segment->size += chunk->data.len;
    segments->size += chunk->data.len;
    s->core.chunks_size -= chunk->data.len;
    stream_chunk_release(chunk);
    chunk->base = segment->end;
}

static void settle_all(struct streams *s)
{
    const struct stream_move *move = (const struct stream_move *)(void *)s->mover.moves.ptr;
    size_t n = s->mover.moves.len / sizeof *move;

    for (size_t i = 0; i < n; i++) settle(s, &move[i]);
    buffer_clear(&s->mover.moves);
}

static void finish_trim(struct streams *s)
{
    struct stream_mover *m = &s->mover;

    m->is_trimming = m->is_trim_done = false;
    s->journal_size = m->trim_journal_size;
    s->has_spare = m->trim_has_spare;
    s->disk_free = m->trim_disk_free;
}

/* Also looks at the disk: while it is low, appends are refused, and perhaps nothing else comes that
 * would make the journal try for a spare segment. */
static void trim(struct streams *s)
{
    struct stream_mover *m = &s->mover;
    bool is_probe = !s->is_stopping && streams_is_disk_low(s) && s->now_ns >= s->probe_ns;

    if (m->is_trimming || (!m->is_trim_owed && !is_probe)) return;
    m->is_trim_owed = false;
    m->trim_lsn = m->snapshot_lsn;
    m->is_trimming = true;
    m->is_trim_done = false;
    s->probe_ns = s->now_ns + PROBE_NS;
    s->env->ops->submit(s->env, LANE_COMMIT, &m->trim_job);
}

static void finish(struct streams *s)
{
    struct stream_mover *m = &s->mover;

    s->disk_free = m->disk_free;
    if (m->status == E_NOSPACE || m->status == E_NOMEM) {
        m->state = STREAM_MOVER_RETRY;
        m->retry_ns = s->now_ns + RETRY_NS;
        return;
    }
    if (m->status != OK) {
        streams_fatal(s, m->status, "the segments of the streams cannot be written");
        return;
    }
    settle_all(s);
    m->state = STREAM_MOVER_IDLE;
    buffer_clear(&m->doomed);
    if (m->snapshot.len == 0) return;
    buffer_release(&m->snapshot);
    m->snapshot_lsn = m->lsn;
    m->is_trim_owed = true;
}

static void submit(struct streams *s)
{
    s->mover.is_done = false;
    s->mover.state = STREAM_MOVER_BUSY;
    s->env->ops->submit(s->env, LANE_ARCHIVE, &s->mover.job);
}

/* Streams that were deleted: nobody uses them while the mover is idle and nothing is read (a read
 * looks its partition up by number). */
static void reap_gone(struct streams *s)
{
    struct list *node;

    while ((node = list_first(&s->core.gone)) != NULL) {
        struct stream *stream = container_of(node, struct stream, node);
        for (uint32_t p = 0; p < stream->settings.partitions_n; p++) {
            struct stream_partition *partition = stream->partitions[p];
            struct stream_segments *segments = partition->segments;
            if (segments == NULL) continue;
            for (uint32_t i = 0; i < segments->n; i++) {
                streams_doom(s, partition, segments->items[i].first);
            }
            stream_segments_free(segments);
            partition->segments = NULL;
        }
        stream_core_reap(&s->core, stream);
    }
}

/* The disk was full, and streams were deleted meanwhile: what they had in memory needs no room any
 * more. The snapshot still speaks of it, and their end may not be durable yet: it is made anew. */
static void give_up_gone(struct streams *s)
{
    struct stream_mover *m = &s->mover;
    struct stream_move *move = (struct stream_move *)(void *)m->moves.ptr;
    size_t n = m->moves.len / sizeof *move;
    size_t kept_n = 0;

    for (size_t i = 0; i < n; i++) {
        const struct stream_segment_head *head = &move[i].head;
        if (stream_core_partition(&s->core, head->stream, head->partition) != NULL)
            move[kept_n++] = move[i];
        else if (move[i].is_new)
            streams_doom(s, move[i].partition, head->first); /* a part of it may be written */
    }
    m->moves.len = kept_n * sizeof *move;
    if (kept_n == n || m->snapshot.len == 0) return;
    buffer_release(&m->snapshot);
    m->size_since += s->options.snapshot_every_size + 1;
}

void streams_mover_turn(struct streams *s)
{
    struct stream_mover *m = &s->mover;

    if (m->is_trim_done) finish_trim(s);
    if (m->is_done) {
        m->is_done = false;
        finish(s);
        if (s->is_dead) return;
    }
    if (hold_phase(&s->hold) != HOLD_NONE) return;
    trim(s);
    if (m->state == STREAM_MOVER_IDLE) {
        if (!list_is_empty(&s->core.gone)) reap_gone(s);
        if (m->doomed_next.len == 0 || m->doomed_lsn > s->lsn_durable) return;
        buffer_clear(&m->moves);
        buffer_clear(&m->snapshot);
        m->lsn = s->lsn_durable;
        m->state = STREAM_MOVER_FROZEN;
    }
    bool is_retry = m->state == STREAM_MOVER_RETRY && s->now_ns >= m->retry_ns;
    if (is_retry && !list_is_empty(&s->core.gone)) {
        give_up_gone(s);
        reap_gone(s);
    }
    if (!is_retry && (m->state != STREAM_MOVER_FROZEN || m->lsn > s->lsn_durable)) return;
    if (m->doomed_next.len > 0 && m->doomed_lsn <= s->lsn_durable) {
        buffer_append_bytes(&m->doomed, buffer_view(&m->doomed_next));
        m->doomed.failed = false; /* without memory the next start removes them */
        buffer_clear(&m->doomed_next);
    }
    submit(s);
}

/* As if nothing had been set aside. Nothing came since. */
static void unfreeze_all(struct streams *s)
{
    const struct stream_move *move = (const struct stream_move *)(void *)s->mover.moves.ptr;
    size_t n = s->mover.moves.len / sizeof *move;

    for (size_t i = 0; i < n; i++) {
        struct stream_partition *partition = move[i].partition;
        assert(partition->active.n == 0);
        stream_chunk_release(&partition->active);
        partition->active = partition->frozen;
        stream_chunk_init(&partition->frozen, &s->own, partition->active.base);
    }
    buffer_clear(&s->mover.moves);
}

enum status streams_move_now(struct streams *s)
{
    enum status status = freeze(s);
    if (status == OK) status = write_moves(s->io, &s->mover.moves);
    if (status == OK) settle_all(s);
    if (status == E_NOSPACE) unfreeze_all(s);
    return status;
}
