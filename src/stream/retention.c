/* SPDX-License-Identifier: Apache-2.0
 *
 * What is too old or too much, by whole segments. What the queue or the bound workflow is not
 * through with stays, whatever the settings say: it is work, not history. Dead letters go when
 * nobody needs them any more.
 */
#include "stream/state.h"

static bool is_over(const struct streams *s, const struct stream_partition *partition)
{
    const struct stream_settings *settings = &partition->stream->settings;
    const struct stream_segments *segments = partition->segments;
    const struct stream_segment *oldest = &segments->items[0];

    if (settings->retention_ms > 0 &&
        s->now_ns - oldest->last_time_ns > settings->retention_ms * NS_PER_MS) {
        return true;
    }
    return settings->retention_size > 0 &&
           segments->size - oldest->size >= settings->retention_size;
}

static void trim(struct streams *s, struct stream_partition *partition, uint64_t keep_from)
{
    struct stream_segments *segments = partition->segments;
    bool is_letters = partition->stream->number == 0;
    /* The mover has plans with the last segment until it is through. */
    uint32_t kept_n = s->mover.state == STREAM_MOVER_IDLE ? 0 : 1;

    while (segments != NULL && segments->n > kept_n) {
        uint64_t end = segments->items[0].end;
        if (end > keep_from || (!is_letters && !is_over(s, partition))) return;
        if (stream_core_trim(&s->core, partition, end, &s->open->payload) != OK) return;
        streams_doom(s, partition, segments->items[0].first);
        stream_segments_drop_oldest(segments);
    }
}

static void count_segments(struct streams *s)
{
    uint64_t size = 0;

    for (uint32_t i = 0; i < s->core.streams_n; i++) {
        const struct stream *stream = s->core.streams[i];
        for (uint32_t p = 0; p < stream->settings.partitions_n; p++) {
            const struct stream_segments *segments = stream->partitions[p]->segments;
            if (segments != NULL) size += segments->size;
        }
    }
    s->counts.segments_size = size;
}

void streams_retention_turn(struct streams *s)
{
    if (s->now_ns < s->retention_ns) return;
    s->retention_ns = s->now_ns + s->options.retention_every_ms * NS_PER_MS;
    count_segments(s);
    struct stream_partition *letters = s->core.streams[0]->partitions[0];
    if (letters->segments != NULL && letters->segments->n > 0) {
        trim(s, letters, stream_core_letters_first(&s->core));
    }
    for (uint32_t i = 1; i < s->core.streams_n; i++) {
        struct stream *stream = s->core.streams[i];
        if (stream->settings.retention_ms == 0 && stream->settings.retention_size == 0) continue;
        for (uint32_t p = 0; p < stream->settings.partitions_n; p++) {
            struct stream_partition *partition = stream->partitions[p];
            trim(s, partition, stream_unfinished(stream, partition));
        }
    }
}
