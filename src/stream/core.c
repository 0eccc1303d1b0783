/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of the core, its look-ups, and the one way its state changes: emit and apply.
 */
#include "stream/core_state.h"

#include <stdarg.h>
#include <stdio.h>

/* ---- life ---- */

enum status stream_core_init(struct stream_core *core, struct mem *mem, const uint64_t seed[2])
{
    struct stream_settings settings;

    *core = (struct stream_core){.mem = mem, .number_next = 1};
    map_init(&core->by_name, mem, seed[0], seed[1]);
    heap_init(&core->expiry);
    list_init(&core->dying);
    list_init(&core->gone);
    buffer_init(&core->message, mem);
    buffer_init(&core->value, mem);
    stream_settings_init(&settings);
    core->streams[0] = stream_make(core, 0, BYTES_NONE, &settings);
    if (core->streams[0] == NULL) return E_NOMEM;
    core->streams_n = 1;
    return OK;
}

void stream_core_reap(struct stream_core *core, struct stream *stream)
{
    list_remove(&stream->node);
    stream_destroy(core, stream);
}

void stream_core_release(struct stream_core *core)
{
    struct list *node;

    for (uint32_t i = 0; i < core->streams_n; i++) stream_destroy(core, core->streams[i]);
    while ((node = list_first(&core->gone)) != NULL) {
        stream_core_reap(core, container_of(node, struct stream, node));
    }
    mem_give(core->mem, core->letters, core->letters_room * sizeof *core->letters);
    buffer_release(&core->message);
    buffer_release(&core->value);
    map_release(&core->by_name);
}

enum status stream_core_born(struct stream_core *core, const uint64_t secret[2], struct buffer *out)
{
    struct stream_record record = {
        .kind = STREAM_RECORD_SECRET,
        .data = bytes_make(secret, sizeof core->secret),
    };

    core->out = out;
    return stream_emit(core, &record);
}

/* ---- looking ---- */

struct stream *stream_core_find(const struct stream_core *core, struct bytes name)
{
    struct map_node *node = map_find(&core->by_name, name);
    return node == NULL ? NULL : container_of(node, struct stream, by_name);
}

struct stream *stream_core_by_number(const struct stream_core *core, uint32_t number)
{
    uint32_t low = 0;
    uint32_t high = core->streams_n;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (core->streams[middle]->number == number) return core->streams[middle];
        if (core->streams[middle]->number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

struct stream_partition *stream_core_partition(const struct stream_core *core, uint32_t number,
                                               uint32_t partition)
{
    struct stream *stream = stream_core_by_number(core, number);

    if (stream == NULL || partition >= stream->settings.partitions_n) return NULL;
    return stream->partitions[partition];
}

uint64_t stream_unfinished(const struct stream *stream, const struct stream_partition *partition)
{
    uint64_t end = partition->next;

    if (partition->queue != NULL && partition->queue->base < end) end = partition->queue->base;
    if (stream->settings.workflow[0] != '\0') {
        struct stream_group *group =
            stream_find_group(stream, BYTES_LITERAL(STREAM_GROUP_WORKFLOW));
        uint64_t position = partition->first;
        if (group != NULL) position = stream_group_position(group, partition);
        if (position < end) end = position;
    }
    return end;
}

/* ---- answers ---- */

enum status stream_refuse(struct stream_request *request, enum status status, const char *format,
                          ...)
{
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(request->text, sizeof request->text, format, arguments);
    va_end(arguments);
    request->status = status;
    return status;
}

struct stream *stream_of_request(struct stream_core *core, struct stream_request *request)
{
    struct stream *stream = stream_core_find(core, request->stream);

    if (stream == NULL) {
        (void)stream_refuse(request, E_NOT_FOUND, "there is no stream '%.*s'",
                            (int)(request->stream.len < 100 ? request->stream.len : 100),
                            (const char *)request->stream.ptr);
        return NULL;
    }
    request->number = stream->number;
    return stream;
}

struct stream_partition *stream_partition_of_request(struct stream_core *core,
                                                     struct stream_request *request,
                                                     uint32_t partition)
{
    struct stream *stream = stream_of_request(core, request);
    if (stream == NULL) return NULL;
    if (partition >= stream->settings.partitions_n) {
        (void)stream_refuse(request, E_NOT_FOUND, "stream '%s' has no partition %u", stream->name,
                            partition);
        return NULL;
    }
    return stream->partitions[partition];
}

enum status stream_want(struct stream_request *request, const struct stream_want *want)
{
    size_t len = request->wants.len;

    buffer_append(&request->wants, want, sizeof *want);
    if (!request->wants.failed) return OK;
    request->wants.failed = false;
    request->wants.len = len;
    request->status = E_NOMEM;
    return E_NOMEM;
}

/* ---- emit and apply ---- */

enum status stream_emit(struct stream_core *core, const struct stream_record *record)
{
    size_t len = core->out->len;

    if (!buffer_reserve(core->out, STREAM_RECORD_SIZE_MAX + record->data.len)) {
        core->out->failed = false;
        return E_NOMEM;
    }
    enum status status = stream_core_apply(core, record);
    assert(status == OK || status == E_NOMEM); /* a handler emits what fits the state */
    if (status != OK) return status;
    stream_record_write(core->out, record);
    assert(!core->out->failed);
    assert(core->out->len - len <= STREAM_RECORD_SIZE_MAX + record->data.len);
    return OK;
}

enum status stream_emit_about(struct stream_core *core, enum stream_record_kind kind,
                              const struct stream_partition *partition, uint64_t offset,
                              int64_t until_ns)
{
    struct stream_record record = {
        .kind = kind,
        .stream = partition->stream->number,
        .partition = partition->index,
        .offset = offset,
        .until_ns = until_ns,
    };

    return stream_emit(core, &record);
}

static enum status apply_secret(struct stream_core *core, const struct stream_record *record)
{
    if (record->data.len != sizeof core->secret) return E_CORRUPT;
    memcpy(core->secret, record->data.ptr, sizeof core->secret);
    core->has_secret = true;
    return OK;
}

static enum status apply_stream_set(struct stream_core *core, const struct stream_record *record)
{
    struct stream *stream = stream_core_by_number(core, record->stream);

    if (record->stream == 0) return E_CORRUPT;
    if (stream != NULL) {
        if (record->settings.partitions_n < stream->settings.partitions_n) return E_CORRUPT;
        enum status status = stream_grow(core, stream, record->settings.partitions_n);
        if (status != OK) return status;
        stream->settings = record->settings;
        return OK;
    }
    if (record->stream < core->number_next || core->streams_n > STREAMS_N_MAX) return E_CORRUPT;
    if (!stream_name_is_valid(record->name)) return E_CORRUPT;
    if (stream_core_find(core, record->name) != NULL) return E_CORRUPT;
    stream = stream_make(core, record->stream, record->name, &record->settings);
    if (stream == NULL) return E_NOMEM;
    stream_list(core, stream);
    return OK;
}

static enum status apply_stream_gone(struct stream_core *core, const struct stream_record *record)
{
    struct stream *stream = stream_core_by_number(core, record->stream);

    if (stream == NULL || stream->number == 0) return E_CORRUPT;
    for (uint32_t i = 0; i < stream->settings.partitions_n; i++) {
        struct stream_queue *q = stream->partitions[i]->queue;
        if (q == NULL) continue;
        if (q->expiry.is_linked) heap_remove(&core->expiry, &q->expiry);
        if (list_is_linked(&q->dying)) list_remove(&q->dying);
    }
    uint32_t at = 0;
    while (core->streams[at] != stream) at++;
    core->streams_n--;
    memmove(core->streams + at, core->streams + at + 1,
            (core->streams_n - at) * sizeof core->streams[0]);
    map_remove(&core->by_name, &stream->by_name);
    stream_letters_forget_stream(core, stream->number);
    core->partitions_n -= stream->settings.partitions_n;
    list_push_back(&core->gone, &stream->node);
    return OK;
}

static enum status apply_appended(struct stream_core *core, const struct stream_record *record)
{
    struct stream_partition *partition =
        stream_core_partition(core, record->stream, record->partition);
    struct stream_message message;
    size_t size;

    if (partition == NULL) return E_CORRUPT;
    if (stream_message_read(record->data, &message, &size) != OK) return E_CORRUPT;
    if (size != record->data.len || message.offset != partition->next) return E_CORRUPT;
    if (!stream_chunk_reserve(&partition->active, 1, size)) return E_NOMEM;
    if (record->stream == 0) {
        enum status status = stream_letters_add(core, &message);
        if (status != OK) return status;
    }
    enum status status = stream_chunk_push(&partition->active, record->data);
    assert(status == OK);
    core->chunks_size += size;
    partition->next++;
    return OK;
}

static enum status apply_checkpoint(struct stream_core *core, const struct stream_record *record)
{
    struct stream_partition *partition =
        stream_core_partition(core, record->stream, record->partition);

    if (partition == NULL || record->offset > partition->next) return E_CORRUPT;
    if (!stream_name_is_valid(record->name)) return E_CORRUPT;
    return stream_group_set(core, partition->stream, record->name, record->partition,
                            record->offset);
}

static enum status apply_group_gone(struct stream_core *core, const struct stream_record *record)
{
    struct stream *stream = stream_core_by_number(core, record->stream);
    struct stream_group *group = stream == NULL ? NULL : stream_find_group(stream, record->name);

    if (group == NULL) return E_CORRUPT;
    list_remove(&group->node);
    stream->groups_n--;
    mem_give(core->mem, group->positions, group->positions_n * sizeof *group->positions);
    mem_give(core->mem, group, sizeof *group);
    return OK;
}

static enum status apply_trimmed(struct stream_core *core, const struct stream_record *record)
{
    struct stream_partition *partition =
        stream_core_partition(core, record->stream, record->partition);

    if (partition == NULL || record->offset > partition->next) return E_CORRUPT;
    if (record->offset < partition->first) return E_CORRUPT;
    partition->first = record->offset;
    return OK;
}

enum status stream_core_apply(struct stream_core *core, const struct stream_record *record)
{
    switch (record->kind) {
    case STREAM_RECORD_SECRET: return apply_secret(core, record);
    case STREAM_RECORD_STREAM_SET: return apply_stream_set(core, record);
    case STREAM_RECORD_STREAM_GONE: return apply_stream_gone(core, record);
    case STREAM_RECORD_APPENDED: return apply_appended(core, record);
    case STREAM_RECORD_CHECKPOINT: return apply_checkpoint(core, record);
    case STREAM_RECORD_GROUP_GONE: return apply_group_gone(core, record);
    case STREAM_RECORD_DELIVERED:
    case STREAM_RECORD_RENEWED:
    case STREAM_RECORD_RELEASED:
    case STREAM_RECORD_RETURNED:
    case STREAM_RECORD_DYING:
    case STREAM_RECORD_DONE: return stream_apply_queue(core, record);
    case STREAM_RECORD_TRIMMED: return apply_trimmed(core, record);
    case STREAM_RECORD_LETTER_GONE:
        if (stream_core_letter(core, record->offset) == NULL) return E_CORRUPT;
        stream_letters_forget(core, record->offset);
        return OK;
    }
    return E_CORRUPT;
}

/* ---- the step ---- */

enum status stream_core_trim(struct stream_core *core, struct stream_partition *partition,
                             uint64_t first, struct buffer *out)
{
    assert(first <= partition->next);
    core->out = out;
    if (first <= partition->first) return OK;
    return stream_emit_about(core, STREAM_RECORD_TRIMMED, partition, first, 0);
}

bool stream_core_step(struct stream_core *core, struct stream_request *request, int64_t now_ns,
                      struct buffer *out)
{
    assert(now_ns >= core->now_ns);
    core->now_ns = now_ns;
    core->out = out;
    switch (request->kind) {
    case STREAM_REQUEST_SET: stream_on_set(core, request); return true;
    case STREAM_REQUEST_DELETE: stream_on_delete(core, request); return true;
    case STREAM_REQUEST_APPEND: stream_on_append(core, request); return true;
    case STREAM_REQUEST_READ: return stream_on_read(core, request);
    case STREAM_REQUEST_GROUP_READ: return stream_on_group_read(core, request);
    case STREAM_REQUEST_CHECKPOINT: stream_on_checkpoint(core, request); return true;
    case STREAM_REQUEST_SEEK: stream_on_seek(core, request); return true;
    case STREAM_REQUEST_GROUP_DELETE: stream_on_group_delete(core, request); return true;
    case STREAM_REQUEST_RECEIVE: return stream_on_receive(core, request);
    case STREAM_REQUEST_COMPLETE:
    case STREAM_REQUEST_ABANDON:
    case STREAM_REQUEST_RENEW: stream_on_lock(core, request); return true;
    case STREAM_REQUEST_DEAD_LETTER: stream_on_dead_letter(core, request); return true;
    case STREAM_REQUEST_LETTERS: stream_on_letters(core, request); return true;
    case STREAM_REQUEST_LETTER: stream_on_letter(core, request); return true;
    case STREAM_REQUEST_LETTER_EDIT:
    case STREAM_REQUEST_LETTER_RESUBMIT: stream_on_letter_change(core, request); return true;
    case STREAM_REQUEST_LETTER_DISCARD: stream_on_letter_discard(core, request); return true;
    case STREAM_REQUEST_BURY: stream_on_bury(core, request); return true;
    case STREAM_REQUEST_INFO:
    case STREAM_REQUEST_CANCEL:
    case STREAM_REQUEST_STATS: break;
    }
    unreachable("answered by the host");
}
