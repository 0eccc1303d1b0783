/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing and reading of what there is to know; the counts.
 */
#include "stream/core_state.h"
#include "stream/info.h"
#include "stream/state.h"

/* ---- writing ---- */

static void write_partition(struct buffer *out, const struct stream_partition *partition)
{
    const struct stream_queue *q = partition->queue;
    uint64_t size = partition->frozen.data.len + partition->active.data.len;

    if (partition->segments != NULL) size += partition->segments->size;
    buffer_varint(out, partition->first);
    buffer_varint(out, partition->next);
    buffer_varint(out, size);
    buffer_u8(out, q != NULL);
    if (q == NULL) return;
    buffer_varint(out, q->base);
    buffer_varint(out, q->counts[STREAM_ENTRY_LOCKED]);
    buffer_varint(out, q->counts[STREAM_ENTRY_AVAILABLE] + (partition->next - q->high));
    buffer_varint(out, q->counts[STREAM_ENTRY_DYING]);
}

static uint64_t count_letters(const struct stream_core *core, const struct stream *stream)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < core->letters_n; i++) {
        const struct stream_letter *letter = &core->letters[i];
        if (letter->stream == stream->number && letter->offset != STREAM_NO_OFFSET) n++;
    }
    return n;
}

static void write_stream(struct streams *s, struct buffer *out, const struct stream *stream,
                         bool is_short, struct buffer *scratch)
{
    buffer_bytes(out, bytes_of_text(stream->name));
    stream_settings_write(out, &stream->settings);
    buffer_varint(out, is_short ? 0 : stream->groups_n);
    buffer_varint(out, is_short ? 0 : count_letters(&s->core, stream));
    buffer_clear(scratch);
    for (uint32_t p = 0; p < stream->settings.partitions_n; p++) {
        write_partition(scratch, stream->partitions[p]);
    }
    buffer_bytes(out, buffer_view(scratch));
    if (scratch->failed) out->failed = true;
    buffer_clear(scratch);
    for (struct list *at = is_short ? NULL : list_first(&stream->groups); at != NULL;
         at = list_next(&stream->groups, at)) {
        const struct stream_group *group = container_of(at, struct stream_group, node);
        struct buffer positions;
        buffer_init(&positions, scratch->mem);
        buffer_bytes(scratch, bytes_of_text(group->name));
        for (uint32_t p = 0; p < stream->settings.partitions_n; p++) {
            buffer_varint(&positions, stream_group_position(group, stream->partitions[p]));
        }
        buffer_bytes(scratch, buffer_view(&positions));
        if (positions.failed) out->failed = true;
        buffer_release(&positions);
    }
    buffer_bytes(out, buffer_view(scratch));
    if (scratch->failed) out->failed = true;
}

void streams_info(struct streams *s, struct stream_request *request)
{
    struct buffer scratch;

    buffer_init(&scratch, &request->mem);
    if (request->stream.len > 0) {
        struct stream *stream = stream_of_request(&s->core, request);
        if (stream != NULL) {
            write_stream(s, &request->answer, stream, false, &scratch);
            request->items_n = 1;
        }
    } else {
        for (uint32_t i = 1; i < s->core.streams_n; i++) {
            write_stream(s, &request->answer, s->core.streams[i], true, &scratch);
        }
        request->items_n = s->core.streams_n - 1;
    }
    if (request->answer.failed) {
        buffer_clear(&request->answer);
        request->items_n = 0;
        request->status = E_NOMEM;
    }
    buffer_release(&scratch);
}

/* ---- reading ---- */

bool stream_info_next(struct reader *at, struct stream_info *out)
{
    if (reader_left(at) == 0) return false;
    out->name = reader_bytes(at);
    bool is_right = stream_settings_read(at, &out->settings);
    out->groups_n = (uint32_t)reader_varint(at);
    out->letters_n = reader_varint(at);
    out->partitions = reader_make(reader_bytes(at));
    out->groups = reader_make(reader_bytes(at));
    return is_right && !at->failed;
}

bool stream_info_next_partition(struct stream_info *info, struct stream_partition_info *out)
{
    struct reader *at = &info->partitions;

    if (reader_left(at) == 0) return false;
    *out = (struct stream_partition_info){0};
    out->first = reader_varint(at);
    out->next = reader_varint(at);
    out->size = reader_varint(at);
    out->has_queue = reader_u8(at) != 0;
    if (!out->has_queue) return !at->failed;
    out->queue_position = reader_varint(at);
    out->queue_locked_n = reader_varint(at);
    out->queue_waiting_n = reader_varint(at);
    out->queue_dying_n = reader_varint(at);
    return !at->failed;
}

bool stream_info_next_group(struct stream_info *info, struct stream_group_info *out)
{
    if (reader_left(&info->groups) == 0) return false;
    out->name = reader_bytes(&info->groups);
    out->positions = reader_make(reader_bytes(&info->groups));
    return !info->groups.failed;
}

/* ---- counts ---- */

void streams_tell_stats(struct streams *s)
{
    struct stream_stats *c = &s->counts;

    c->streams_n = s->core.streams_n - 1;
    c->letters_n = s->core.letters_live_n;
    c->waiting_n = s->waiting.n;
    c->memory_size = s->core.chunks_size;
    c->journal_size = s->journal_size;
    c->is_disk_low = streams_is_disk_low(s);
    pthread_mutex_lock(&s->stats_mutex);
    s->told = *c;
    pthread_mutex_unlock(&s->stats_mutex);
}

void streams_stats(struct streams *s, struct stream_stats *out)
{
    pthread_mutex_lock(&s->stats_mutex);
    *out = s->told;
    pthread_mutex_unlock(&s->stats_mutex);
}
