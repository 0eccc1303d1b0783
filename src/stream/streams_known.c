/* SPDX-License-Identifier: Apache-2.0
 *
 * The streams that there are, with their partitions and groups; making, changing and deleting them;
 * appending.
 */
#include "stream/core_state.h"

/* ---- partitions ---- */

static void partition_free(struct stream_core *core, struct stream_partition *partition)
{
    core->chunks_size -= partition->frozen.data.len + partition->active.data.len;
    stream_chunk_release(&partition->frozen);
    stream_chunk_release(&partition->active);
    if (partition->queue != NULL) {
        struct stream_queue *q = partition->queue;
        if (q->expiry.is_linked) heap_remove(&core->expiry, &q->expiry);
        if (list_is_linked(&q->dying)) list_remove(&q->dying);
        stream_queue_free(q);
    }
    mem_give(core->mem, partition, sizeof *partition);
}

static struct stream_partition *partition_new(struct stream_core *core, struct stream *stream,
                                              uint32_t index)
{
    struct stream_partition *partition = mem_take_zero(core->mem, sizeof *partition);
    if (partition == NULL) return NULL;
    partition->stream = stream;
    partition->index = index;
    stream_chunk_init(&partition->frozen, core->mem, 0);
    stream_chunk_init(&partition->active, core->mem, 0);
    list_init(&partition->waiting);
    return partition;
}

enum status stream_grow(struct stream_core *core, struct stream *stream, uint32_t partitions_n)
{
    uint32_t before_n = stream->partitions == NULL ? 0 : stream->settings.partitions_n;

    assert(partitions_n >= before_n);
    if (partitions_n == before_n) return OK;
    struct stream_partition **grown = mem_take(core->mem, partitions_n * sizeof(void *));
    if (grown == NULL) return E_NOMEM;
    if (before_n > 0) memcpy(grown, stream->partitions, before_n * sizeof(void *));
    for (uint32_t i = before_n; i < partitions_n; i++) {
        grown[i] = partition_new(core, stream, i);
        if (grown[i] != NULL) continue;
        while (i-- > before_n) partition_free(core, grown[i]);
        mem_give(core->mem, grown, partitions_n * sizeof(void *));
        return E_NOMEM;
    }
    mem_give(core->mem, stream->partitions, before_n * sizeof(void *));
    stream->partitions = grown;
    core->partitions_n += partitions_n - before_n;
    return OK;
}

/* ---- streams ---- */

struct stream *stream_make(struct stream_core *core, uint32_t number, struct bytes name,
                           const struct stream_settings *settings)
{
    assert(name.len <= STREAM_NAME_SIZE_MAX);
    struct stream *stream = mem_take_zero(core->mem, sizeof *stream);
    if (stream == NULL) return NULL;
    stream->number = number;
    if (name.len > 0) memcpy(stream->name, name.ptr, name.len);
    list_init(&stream->groups);
    list_init(&stream->waiting);
    list_node_init(&stream->node);
    list_node_init(&stream->dirty);
    if (stream_grow(core, stream, settings->partitions_n) != OK) {
        mem_give(core->mem, stream, sizeof *stream);
        return NULL;
    }
    stream->settings = *settings;
    return stream;
}

void stream_destroy(struct stream_core *core, struct stream *stream)
{
    struct list *node;

    for (uint32_t i = 0; i < stream->settings.partitions_n; i++) {
        partition_free(core, stream->partitions[i]);
    }
    mem_give(core->mem, stream->partitions, stream->settings.partitions_n * sizeof(void *));
    while ((node = list_pop_front(&stream->groups)) != NULL) {
        struct stream_group *group = container_of(node, struct stream_group, node);
        mem_give(core->mem, group->positions, group->positions_n * sizeof *group->positions);
        mem_give(core->mem, group, sizeof *group);
    }
    mem_give(core->mem, stream, sizeof *stream);
}

void stream_list(struct stream_core *core, struct stream *stream)
{
    assert(core->streams_n <= STREAMS_N_MAX);
    assert(stream->number > core->streams[core->streams_n - 1]->number);
    core->streams[core->streams_n++] = stream;
    core->number_next = stream->number + 1;
    stream->by_name.key = bytes_of_text(stream->name);
    map_insert(&core->by_name, &stream->by_name);
}

void stream_on_set(struct stream_core *core, struct stream_request *request)
{
    struct stream *stream = stream_core_find(core, request->stream);
    struct stream_record record = {
        .kind = STREAM_RECORD_STREAM_SET,
        .stream = stream == NULL ? core->number_next : stream->number,
        .name = request->stream,
    };

    if (!stream_name_is_valid(request->stream)) {
        (void)stream_refuse(request, E_INVALID,
                            "a stream's name is 1 to 100 letters, digits, '.', '_' and '-'");
        return;
    }
    if (stream == NULL && core->streams_n > STREAMS_N_MAX) {
        (void)stream_refuse(request, E_LIMIT, "there are %u streams already", STREAMS_N_MAX);
        return;
    }
    uint32_t before_n = 0;
    stream_settings_init(&record.settings);
    if (stream != NULL) {
        record.settings = stream->settings;
        before_n = stream->settings.partitions_n;
    }
    request->status = stream_settings_change(&record.settings, &request->set.settings,
                                             request->set.mask, request->text);
    if (request->status != OK) return;
    if (core->partitions_n - before_n + record.settings.partitions_n >
        STREAM_ALL_PARTITIONS_N_MAX) {
        (void)stream_refuse(request, E_LIMIT, "all streams together have %u partitions at most",
                            STREAM_ALL_PARTITIONS_N_MAX);
        return;
    }
    request->set.is_new = stream == NULL;
    request->status = stream_emit(core, &record);
    request->set.settings = record.settings;
}

void stream_on_delete(struct stream_core *core, struct stream_request *request)
{
    struct stream *stream = stream_of_request(core, request);
    if (stream == NULL) return;
    struct stream_record record = {.kind = STREAM_RECORD_STREAM_GONE, .stream = stream->number};
    request->status = stream_emit(core, &record);
}

/* ---- appending ---- */

struct stream_partition *stream_choose_partition(struct stream *stream, bool has_key,
                                                 struct bytes key)
{
    uint32_t n = stream->settings.partitions_n;

    return stream->partitions[stream_hash_share(has_key, key, stream->appended_n++, n)];
}

enum status stream_make_room(struct stream_core *core, struct stream_partition *partition,
                             size_t size)
{
    if (!stream_chunk_reserve(&partition->active, 1, size)) return E_NOMEM;
    bool has_room = buffer_reserve(core->out, 2 * STREAM_RECORD_SIZE_MAX + size) &&
                    buffer_reserve(&core->message, size);
    core->out->failed = core->message.failed = false;
    return has_room ? OK : E_NOMEM;
}

uint64_t stream_append_message(struct stream_core *core, struct stream_partition *partition,
                               const struct stream_message *message)
{
    struct stream_message at_end = *message;

    at_end.offset = partition->next;
    buffer_clear(&core->message);
    stream_message_write(&core->message, &at_end);
    assert(!core->message.failed);
    struct stream_record record = {
        .kind = STREAM_RECORD_APPENDED,
        .stream = partition->stream->number,
        .partition = partition->index,
        .data = buffer_view(&core->message),
    };
    enum status status = stream_emit(core, &record);
    assert(status == OK); /* room was made */
    return at_end.offset;
}

/* Chooses the partition of each message, and counts what each partition is to take. */
static enum status choose_partitions(struct stream *stream, struct stream_request *request,
                                     size_t *size)
{
    for (uint32_t i = 0; i < request->append.n; i++) {
        struct stream_append *item = &request->append.items[i];
        if (item->key.len > STREAM_KEY_SIZE_MAX) {
            return stream_refuse(request, E_INVALID, "message %u: a key is at most %u bytes", i + 1,
                                 STREAM_KEY_SIZE_MAX);
        }
        if (item->value.len > STREAM_VALUE_SIZE_MAX) {
            return stream_refuse(request, E_LIMIT, "message %u: a value is at most 1 MiB", i + 1);
        }
        if (item->partition >= (int64_t)stream->settings.partitions_n) {
            return stream_refuse(request, E_NOT_FOUND, "stream '%s' has no partition %lld",
                                 stream->name, (long long)item->partition);
        }
        *size += STREAM_RECORD_SIZE_MAX + item->key.len + item->value.len;
        if (*size > STREAM_APPEND_SIZE_MAX + (size_t)request->append.n * STREAM_RECORD_SIZE_MAX) {
            return stream_refuse(request, E_LIMIT, "an append is at most 32 MiB in all");
        }
        item->at_partition = item->partition >= 0
                                 ? (uint32_t)item->partition
                                 : stream_choose_partition(stream, item->has_key, item->key)->index;
    }
    return OK;
}

/* So that what follows cannot fail half way. */
static enum status make_room_for_all(struct stream_core *core, struct stream *stream,
                                     const struct stream_request *request, size_t size)
{
    enum status status = OK;

    for (uint32_t i = 0; i < request->append.n; i++) {
        const struct stream_append *item = &request->append.items[i];
        struct stream_partition *partition = stream->partitions[item->at_partition];
        partition->pending_n++;
        partition->pending_size += STREAM_MESSAGE_HEAD_SIZE + item->key.len + item->value.len;
    }
    for (uint32_t i = 0; i < request->append.n; i++) {
        const struct stream_append *item = &request->append.items[i];
        struct stream_partition *partition = stream->partitions[item->at_partition];
        if (partition->pending_n == 0) continue;
        if (!stream_chunk_reserve(&partition->active, partition->pending_n,
                                  partition->pending_size)) {
            status = E_NOMEM;
        }
        partition->pending_n = 0;
        partition->pending_size = 0;
    }
    if (!buffer_reserve(core->out, size)) status = E_NOMEM;
    core->out->failed = false;
    return status;
}

void stream_on_append(struct stream_core *core, struct stream_request *request)
{
    struct stream *stream = stream_of_request(core, request);
    size_t size = STREAM_RECORD_SIZE_MAX;

    if (stream == NULL) return;
    if (request->append.n == 0 || request->append.n > STREAM_APPEND_N_MAX) {
        (void)stream_refuse(request, E_INVALID, "an append has 1 to %u messages",
                            STREAM_APPEND_N_MAX);
        return;
    }
    request->status = choose_partitions(stream, request, &size);
    if (request->status == OK) request->status = make_room_for_all(core, stream, request, size);
    if (request->status == OK &&
        !buffer_reserve(&core->message,
                        STREAM_MESSAGE_HEAD_SIZE + STREAM_KEY_SIZE_MAX + STREAM_VALUE_SIZE_MAX)) {
        core->message.failed = false;
        request->status = E_NOMEM;
    }
    if (request->status != OK) return;
    for (uint32_t i = 0; i < request->append.n; i++) {
        struct stream_append *item = &request->append.items[i];
        struct stream_message message = {
            .time_ns = core->now_ns,
            .kind = item->kind,
            .has_key = item->has_key,
            .key = item->key,
            .value = item->value,
        };
        item->at_offset =
            stream_append_message(core, stream->partitions[item->at_partition], &message);
    }
}
