/* SPDX-License-Identifier: Apache-2.0
 *
 * Events are stored as the bytes of HistoryEvents and go out as they are: what is written here is
 * what stands around them.
 *
 *      WorkItem: 1 orchestratorRequest, 2 activityRequest, 5 entityRequestV2, 10 completionToken
 */
#include "server/work_item.h"

#include "base/assert.h"
#include "wire/pb.h"

/* Ids, token, tags and lengths beside the events. */
#define FRAME_SIZE ((size_t)1024)

/* A Duration of nothing in field 1, the reorder window. Some workers follow it without looking
 * whether it is there. */
static const uint8_t entity_parameters[] = {0x0a, 0x00};

static void put_events(struct buffer *b, uint32_t number, struct bytes packed)
{
    struct reader r = reader_make(packed);
    struct bytes event;

    while (strings_next(&r, &event)) pb_put_bytes(b, number, event);
}

static struct bytes execution_text(const struct work_ref *ref, char text[EXECUTION_TEXT_SIZE])
{
    execution_id_text(ref->execution_id, text);
    return bytes_make(text, EXECUTION_TEXT_SIZE);
}

/* OrchestratorRequest: 1 instanceId, 2 executionId, 3 pastEvents, 4 newEvents, 5 entityParameters,
 * 6 requiresHistoryStreaming, 8 orchestrationTraceContext */
static void put_turn(struct buffer *b, const struct effect_work *work, bool is_streamed)
{
    char execution[EXECUTION_TEXT_SIZE];
    size_t past_size = is_streamed ? 0 : work->past.len;

    struct pb_mark mark = pb_begin(b, 1, past_size + work->fresh.len + 64);
    pb_put_plain_bytes(b, 1, key_id(work->ref.key));
    pb_put_string_value(b, 2, execution_text(&work->ref, execution), true);
    if (!is_streamed) put_events(b, 3, work->past);
    put_events(b, 4, work->fresh);
    pb_put_bytes(b, 5, bytes_make(entity_parameters, sizeof entity_parameters));
    if (is_streamed) pb_put_varint(b, 6, 1);
    if (work->trace.has) pb_put_bytes(b, 8, work->trace.value);
    pb_end(b, mark);
}

/* ActivityRequest: 1 name, 2 version, 3 input, 4 orchestrationInstance, 5 taskId,
 * 6 parentTraceContext, 7 tags. TaskScheduled has the same first three fields, then
 * 4 parentTraceContext, 5 tags. The version is the one that was asked for, not the effective one by
 * which the worker was chosen. */
static void put_task(struct buffer *b, const struct effect_work *work)
{
    struct event_head head;
    char execution[EXECUTION_TEXT_SIZE];
    struct pb_field f;

    enum status status = event_peek(work->scheduled, &head);
    assert(status == OK); /* checked when the action came */
    struct pb_mark mark = pb_begin(b, 2, head.body.len + 64);
    struct pb_reader r = pb_reader_make(head.body);
    while (pb_next(&r, &f)) {
        if (f.number <= 3) buffer_append_bytes(b, f.raw);
    }
    struct pb_mark instance = pb_begin(b, 4, 64);
    pb_put_plain_bytes(b, 1, key_id(work->ref.key));
    pb_put_string_value(b, 2, execution_text(&work->ref, execution), true);
    pb_end(b, instance);
    pb_put_plain_int32(b, 5, work->ref.task_id);
    r = pb_reader_make(head.body);
    while (pb_next(&r, &f)) {
        if (f.number == 4 || f.number == 5) pb_put_bytes(b, f.number + 2, f.bytes);
    }
    pb_end(b, mark);
}

/* EntityRequest: 1 instanceId, 2 executionId, 3 entityState, 4 operationRequests */
static void put_entity(struct buffer *b, const struct effect_work *work)
{
    char execution[EXECUTION_TEXT_SIZE];

    struct pb_mark mark = pb_begin(b, 5, work->state.value.len + work->fresh.len + 64);
    pb_put_plain_bytes(b, 1, key_id(work->ref.key));
    pb_put_plain_bytes(b, 2, execution_text(&work->ref, execution));
    pb_put_string_value(b, 3, work->state.value, work->state.has);
    put_events(b, 4, work->fresh);
    pb_end(b, mark);
}

static void put_work(struct buffer *b, const struct effect_work *work, bool is_streamed)
{
    switch (work->ref.kind) {
    case WORK_TURN: put_turn(b, work, is_streamed); return;
    case WORK_TASK: put_task(b, work); return;
    case WORK_ENTITY: put_entity(b, work); return;
    }
    unreachable("no such kind of work");
}

static void put_token(struct buffer *b, const struct work_recipe *recipe,
                      const struct work_ref *ref)
{
    struct pb_mark mark = pb_begin(b, 10, 200);

    token_write(b, recipe->mac_key, ref);
    pb_end(b, mark);
}

/* One byte for the tag of each event is not counted: there are some 20 or more in an event. */
static uint64_t size_of(const struct effect_work *work, bool is_streamed)
{
    uint64_t size = work->fresh.len + work->scheduled.len + work->state.value.len +
                    work->trace.value.len + FRAME_SIZE;

    return is_streamed ? size : size + work->past.len + work->past.len / 16;
}

struct parcel *work_item_pack(const struct work_recipe *recipe, struct worker *worker,
                              const struct effect_work *work)
{
    struct parcel *parcel = parcel_new(recipe->desk, work->ref.partition);

    if (parcel == NULL) return NULL;
    parcel->worker = worker;
    parcel->ref = work->ref;
    parcel->ref.key = arena_copy(&parcel->arena, work->ref.key);
    if (parcel->ref.key.len != work->ref.key.len) {
        parcel_free(parcel);
        return NULL;
    }
    parcel->history_n = work->history_n;
    parcel->is_streamed = recipe->can_stream && work->past.len > recipe->history_size_max;
    parcel->size_full = size_of(work, false);
    uint64_t size = size_of(work, parcel->is_streamed);
    if (size - FRAME_SIZE > recipe->message_size_max) return parcel;

    struct buffer *b = &parcel->message;
    (void)buffer_reserve(b, (size_t)size);
    put_work(b, work, parcel->is_streamed);
    put_token(b, recipe, &work->ref);
    if (b->failed || b->len <= recipe->message_size_max) return parcel;
    parcel->size_full = b->len;
    buffer_clear(b);
    return parcel;
}
