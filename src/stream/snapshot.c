/* SPDX-License-Identifier: Apache-2.0
 *
 * All that is remembered as bytes, and back. Of messages only where they begin and end: they are in
 * segments by the time a snapshot counts.
 */
#include "stream/core_state.h"

#define SNAPSHOT_VERSION 1u

/* ---- writing ---- */

static void write_queue(struct buffer *out, const struct stream_queue *q)
{
    buffer_u8(out, q != NULL);
    if (q == NULL) return;
    buffer_varint(out, q->base);
    buffer_varint(out, q->high - q->base);
    for (uint64_t offset = q->base; offset < q->high; offset++) {
        const struct stream_entry *entry = stream_queue_entry(q, offset);
        buffer_u8(out, (uint8_t)entry->state);
        buffer_varint(out, entry->deliveries);
        if (entry->state == STREAM_ENTRY_LOCKED) buffer_signed(out, entry->until_ns);
    }
}

static void write_stream(struct buffer *out, const struct stream *stream)
{
    buffer_varint(out, stream->number);
    buffer_bytes(out, bytes_of_text(stream->name));
    stream_settings_write(out, &stream->settings);
    for (uint32_t i = 0; i < stream->settings.partitions_n; i++) {
        const struct stream_partition *partition = stream->partitions[i];
        buffer_varint(out, partition->first);
        buffer_varint(out, partition->next - partition->first);
        write_queue(out, partition->queue);
    }
    buffer_varint(out, stream->groups_n);
    for (struct list *at = list_first(&stream->groups); at != NULL;
         at = list_next(&stream->groups, at)) {
        const struct stream_group *group = container_of(at, struct stream_group, node);
        buffer_bytes(out, bytes_of_text(group->name));
        buffer_varint(out, group->positions_n);
        for (uint32_t i = 0; i < group->positions_n; i++) {
            buffer_varint(out, group->positions[i].checkpoint);
        }
    }
}

void stream_core_snapshot(const struct stream_core *core, struct buffer *out)
{
    buffer_u8(out, SNAPSHOT_VERSION);
    buffer_u8(out, core->has_secret);
    buffer_append(out, core->secret, sizeof core->secret);
    buffer_varint(out, core->number_next);
    buffer_varint(out, core->streams_n);
    for (uint32_t i = 0; i < core->streams_n; i++) write_stream(out, core->streams[i]);
    buffer_varint(out, core->letters_live_n);
    for (uint32_t i = 0; i < core->letters_n; i++) {
        const struct stream_letter *letter = &core->letters[i];
        if (letter->offset == STREAM_NO_OFFSET) continue;
        buffer_varint(out, letter->id);
        buffer_varint(out, letter->offset - letter->id);
        buffer_varint(out, letter->stream);
    }
}

enum status stream_core_digest(const struct stream_core *core, uint64_t *out)
{
    struct buffer bytes;

    buffer_init(&bytes, core->mem);
    stream_core_snapshot(core, &bytes);
    enum status status = bytes.failed ? E_NOMEM : OK;
    if (status == OK) *out = bytes_hash(buffer_view(&bytes));
    buffer_release(&bytes);
    return status;
}

/* ---- reading ---- */

static enum status read_entries(struct reader *from, struct stream_queue *q, uint64_t n,
                                int64_t *first_until_ns)
{
    if (n > STREAM_QUEUE_WINDOW) return E_CORRUPT;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t offset = q->high;
        enum status status = stream_queue_make_room(q);
        if (status != OK) return status == E_LIMIT ? E_CORRUPT : status;
        uint8_t state = reader_u8(from);
        uint64_t deliveries = reader_varint(from);
        if (from->failed || state > STREAM_ENTRY_DONE || deliveries > UINT32_MAX) return E_CORRUPT;
        if (offset == q->base && state == STREAM_ENTRY_DONE) return E_CORRUPT;
        stream_queue_push(q);
        struct stream_entry *entry = stream_queue_entry(q, offset);
        entry->deliveries = (uint32_t)deliveries;
        if (state == STREAM_ENTRY_LOCKED) {
            entry->until_ns = reader_signed(from);
            if (entry->until_ns < *first_until_ns) *first_until_ns = entry->until_ns;
        }
        if (state != STREAM_ENTRY_AVAILABLE) {
            stream_queue_set(q, offset, (enum stream_entry_state)state);
        }
    }
    return OK;
}

static enum status read_queue(struct stream_core *core, struct reader *from,
                              struct stream_partition *partition)
{
    int64_t first_until_ns = INT64_MAX;

    if (reader_u8(from) == 0) return OK;
    uint64_t base = reader_varint(from);
    uint64_t n = reader_varint(from);
    if (from->failed || base > partition->next || n > partition->next - base) return E_CORRUPT;
    enum status status = stream_queue_new(core->mem, partition, base, &partition->queue);
    if (status != OK) return status;
    struct stream_queue *q = partition->queue;
    status = read_entries(from, q, n, &first_until_ns);
    if (q->counts[STREAM_ENTRY_LOCKED] > 0) {
        q->expiry.key = first_until_ns;
        q->expiry.order = (uint64_t)partition->stream->number << 32 | (uint64_t)partition->index;
        heap_push(&core->expiry, &q->expiry);
    }
    stream_queue_relink(core, q);
    return status;
}

static enum status read_groups(struct stream_core *core, struct reader *from, struct stream *stream)
{
    uint64_t groups_n = reader_varint(from);

    if (groups_n > STREAM_GROUPS_N_MAX + 2) return E_CORRUPT;
    for (uint64_t i = 0; i < groups_n; i++) {
        struct bytes name = reader_bytes(from);
        uint64_t positions_n = reader_varint(from);
        if (from->failed || !stream_name_is_valid(name)) return E_CORRUPT;
        if (positions_n < 1 || positions_n > stream->settings.partitions_n) return E_CORRUPT;
        for (uint32_t p = 0; p < positions_n; p++) {
            uint64_t position = reader_varint(from);
            if (position > stream->partitions[p]->next) return E_CORRUPT;
            enum status status = stream_group_set(core, stream, name, p, position);
            if (status != OK) return status;
        }
    }
    return from->failed ? E_CORRUPT : OK;
}

static enum status read_stream(struct stream_core *core, struct reader *from, bool is_letters)
{
    struct stream_settings settings;
    uint64_t number = reader_varint(from);
    struct bytes name = reader_bytes(from);

    if (!stream_settings_read(from, &settings)) return E_CORRUPT;
    struct stream *stream = core->streams[0];
    if (is_letters) {
        if (number != 0 || settings.partitions_n != 1) return E_CORRUPT;
    } else {
        if (!stream_name_is_valid(name) || number >= core->number_next) return E_CORRUPT;
        if (number <= core->streams[core->streams_n - 1]->number) return E_CORRUPT;
        if (stream_core_find(core, name) != NULL) return E_CORRUPT;
        uint32_t number_next = core->number_next;
        stream = stream_make(core, (uint32_t)number, name, &settings);
        if (stream == NULL) return E_NOMEM;
        stream_list(core, stream);
        core->number_next = number_next;
    }
    for (uint32_t i = 0; i < settings.partitions_n; i++) {
        struct stream_partition *partition = stream->partitions[i];
        partition->first = reader_varint(from);
        partition->next = partition->first + reader_varint(from);
        if (from->failed || partition->next < partition->first) return E_CORRUPT;
        partition->active.base = partition->frozen.base = partition->next;
        enum status status = read_queue(core, from, partition);
        if (status != OK) return status;
    }
    return read_groups(core, from, stream);
}

static enum status read_letters(struct stream_core *core, struct reader *from)
{
    uint64_t n = reader_varint(from);
    uint64_t end = core->streams[0]->partitions[0]->next;

    if (n > STREAM_LETTERS_N_MAX) return E_CORRUPT;
    for (uint64_t i = 0; i < n; i++) {
        struct stream_letter letter = {.id = reader_varint(from)};
        letter.offset = letter.id + reader_varint(from);
        letter.stream = (uint32_t)reader_varint(from);
        if (from->failed || letter.offset < letter.id || letter.offset >= end) return E_CORRUPT;
        if (i > 0 && letter.id <= core->letters[core->letters_n - 1].id) return E_CORRUPT;
        if (stream_core_by_number(core, letter.stream) == NULL) return E_CORRUPT;
        enum status status = stream_letters_make_room(core);
        if (status != OK) return status;
        core->letters[core->letters_n++] = letter;
        core->letters_live_n++;
    }
    return OK;
}

enum status stream_core_restore(struct stream_core *core, struct bytes snapshot)
{
    struct reader from = reader_make(snapshot);

    assert(core->streams_n == 1);
    assert(core->letters_n == 0);
    if (reader_u8(&from) != SNAPSHOT_VERSION) return from.failed ? E_CORRUPT : E_VERSION;
    core->has_secret = reader_u8(&from) != 0;
    struct bytes secret = reader_take(&from, sizeof core->secret);
    if (from.failed) return E_CORRUPT;
    memcpy(core->secret, secret.ptr, sizeof core->secret);
    uint64_t number_next = reader_varint(&from);
    uint64_t streams_n = reader_varint(&from);
    if (from.failed || number_next > UINT32_MAX || number_next < 1) return E_CORRUPT;
    if (streams_n < 1 || streams_n > STREAMS_N_MAX + 1) return E_CORRUPT;
    core->number_next = (uint32_t)number_next;
    for (uint64_t i = 0; i < streams_n; i++) {
        enum status status = read_stream(core, &from, i == 0);
        if (status != OK) return status;
    }
    enum status status = read_letters(core, &from);
    if (status != OK) return status;
    return reader_is_done(&from) ? OK : E_CORRUPT;
}
