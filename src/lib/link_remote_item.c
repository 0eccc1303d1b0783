/* SPDX-License-Identifier: Apache-2.0
 *
 * A server's WorkItem becomes a piece of work: everything is copied into its arena, events as the
 * strings that the rest of the library reads. Nothing here trusts the bytes.
 */
#include "lib/link_remote.h"

#include "core/entity_id.h"
#include "wire/pb.h"

static bool copy(struct arena *arena, struct bytes value, struct bytes *out)
{
    *out = arena_copy(arena, value);
    return out->len == value.len;
}

/* A StringValue. */
static enum status copy_maybe(struct arena *arena, const struct pb_field *field, struct maybe *out)
{
    struct bytes value;

    if (!pb_get_string_value(field, &value)) return E_INVALID;
    out->has = true;
    return copy(arena, value, &out->value) ? OK : E_NOMEM;
}

/* Ours are 32 hex digits. Another server's may be any text: two hashes of it tell executions apart
 * as well. */
static void read_execution(struct bytes text, uint8_t out[EXECUTION_ID_SIZE])
{
    if (execution_id_parse(text, out)) return;
    store_u64(out, bytes_hash(text));
    store_u64(out + 8, ~bytes_hash(bytes_make(out, 8)) ^ text.len);
}

/* ---- a turn ---- */

/* As core/from_worker.c leaves them out of work items: so that the number of past events is the
 * same, however they come. */
static bool is_for_workers(struct bytes event)
{
    struct event_head head;

    if (event_peek(event, &head) != OK) return false;
    return head.kind != EVENT_UNKNOWN && head.kind != EVENT_GENERIC &&
           head.kind != EVENT_EXECUTION_REWOUND && head.kind != EVENT_EXECUTION_COMPLETED &&
           head.kind != EVENT_CONTINUE_AS_NEW && head.kind != EVENT_HISTORY_STATE;
}

/* Name and version are in ExecutionStarted alone. */
static bool find_started(struct bytes events, struct link_work *work)
{
    struct reader r = reader_make(events);
    struct event_started started;
    struct event_head head;
    struct bytes event;

    while (strings_next(&r, &event)) {
        if (event_peek(event, &head) != OK || head.kind != EVENT_EXECUTION_STARTED) continue;
        if (event_started_decode(event, &work->arena, &started) != OK) return false;
        work->name = started.name;
        work->version = started.version;
        return true;
    }
    return false;
}

static enum status read_past(struct bytes message, uint32_t number, struct link_work *work)
{
    enum status status = remote_pack(message, number, is_for_workers, &work->arena, &work->past);

    if (status != OK) return status;
    uint64_t n = strings_count(work->past);
    work->has_past = true;
    /* 0: the server does not tell how many there are */
    work->is_past_filtered = n > 0 && work->history_n != n;
    work->history_n = n;
    work->base = n;
    return find_started(work->past, work) || find_started(work->fresh, work) ? OK : E_INVALID;
}

/* OrchestratorRequest {1 instanceId, 2 executionId, 3 pastEvents, 4 newEvents,
 * 6 requiresHistoryStreaming, 1000 historyCount} */
static enum status read_turn(struct bytes body, struct link_work *work, bool *is_streamed)
{
    struct pb_reader r = pb_reader_make(body);
    struct pb_field f;
    struct bytes text;

    while (pb_next(&r, &f)) {
        if (f.number == 1 && !copy(&work->arena, f.bytes, &work->id)) return E_NOMEM;
        if (f.number == 2) {
            if (!pb_get_string_value(&f, &text)) return E_INVALID;
            read_execution(text, work->execution_id);
        }
        if (f.number == 6) *is_streamed = pb_bool(&f);
        if (f.number == 1000) work->history_n = f.value;
    }
    if (r.failed) return E_INVALID;
    enum status status = remote_pack(body, 4, is_for_workers, &work->arena, &work->fresh);
    if (status != OK || *is_streamed) return status;
    return read_past(body, 3, work);
}

/* HistoryChunk {1 events} */
enum status remote_read_past(struct bytes chunks, struct remote_work *work)
{
    return read_past(chunks, 1, &work->work);
}

/* ---- a task ---- */

/* OrchestrationInstance {1 instanceId, 2 executionId} */
static enum status read_instance(const struct pb_field *field, struct link_work *work)
{
    struct pb_reader r = pb_sub(field);
    struct pb_field f;
    struct bytes text;

    while (pb_next(&r, &f)) {
        if (f.number == 1 && !copy(&work->arena, f.bytes, &work->id)) return E_NOMEM;
        if (f.number != 2) continue;
        if (!pb_get_string_value(&f, &text)) return E_INVALID;
        read_execution(text, work->execution_id);
    }
    return r.failed ? E_INVALID : OK;
}

/* ActivityRequest {1 name, 2 version, 3 input, 4 orchestrationInstance, 5 taskId, 7 tags,
 * 1000 failureCount, 1001 completeByMs} */
static enum status read_task(struct bytes body, struct link_work *work)
{
    struct pb_reader r = pb_reader_make(body);
    struct pb_field f;
    enum status status = OK;

    while (status == OK && pb_next(&r, &f)) {
        switch (f.number) {
        case 1: status = copy(&work->arena, f.bytes, &work->name) ? OK : E_NOMEM; break;
        case 2: status = copy_maybe(&work->arena, &f, &work->version); break;
        case 3: status = copy_maybe(&work->arena, &f, &work->input); break;
        case 4: status = read_instance(&f, work); break;
        case 5: work->task_id = pb_int32(&f); break;
        case 1000: work->failures = (uint32_t)pb_int32(&f); break;
        case 1001: work->complete_by_ms = (int64_t)f.value; break;
        default: break;
        }
    }
    if (r.failed) return E_INVALID;
    return status == OK ? remote_pack(body, 7, NULL, &work->arena, &work->tags) : status;
}

/* ---- an entity ---- */

/* EntityRequest {1 instanceId, 2 executionId, 3 entityState, 4 operationRequests} */
static enum status read_entity(struct bytes body, struct link_work *work)
{
    struct pb_reader r = pb_reader_make(body);
    struct pb_field f;
    enum status status = OK;

    while (status == OK && pb_next(&r, &f)) {
        if (f.number == 1 && !copy(&work->arena, f.bytes, &work->id)) status = E_NOMEM;
        if (f.number == 2) read_execution(f.bytes, work->execution_id);
        if (f.number == 3) status = copy_maybe(&work->arena, &f, &work->state);
    }
    if (r.failed) return E_INVALID;
    if (status != OK) return status;
    work->name = entity_id_name(work->id);
    return remote_pack(body, 4, NULL, &work->arena, &work->fresh);
}

/* ---- all ---- */

/* AbandonXRequest {1 completionToken}, in the arena: giving back must not need memory. */
static enum status prepare_give_up(struct remote_work *work)
{
    struct bytes token = work->token;
    size_t size = 1 + varint_size(token.len) + token.len;
    uint8_t *message = arena_alloc(&work->work.arena, size);

    if (message == NULL) return E_NOMEM;
    message[0] = 0x0a;
    (void)remote_pack_one(message + 1, token);
    work->give_up = bytes_make(message, size);
    return OK;
}

/* WorkItem {1 orchestratorRequest, 2 activityRequest, 5 entityRequestV2, 10 completionToken} */
enum status remote_read_item(struct bytes message, struct remote_work *work, bool *is_streamed)
{
    struct link_work *w = &work->work;
    struct pb_reader r = pb_reader_make(message);
    struct pb_field f;
    struct pb_field body = {0};

    *is_streamed = false;
    while (pb_next(&r, &f)) {
        if (f.number == 1 || f.number == 2 || f.number == 5) body = f;
        if (f.number == 10 && !copy(&w->arena, f.bytes, &work->token)) return E_NOMEM;
    }
    if (r.failed) return E_INVALID;
    if (body.number == 0) return E_NOT_FOUND;
    w->kind = body.number == 1 ? WORK_TURN : body.number == 2 ? WORK_TASK : WORK_ENTITY;
    enum status status = prepare_give_up(work);
    if (status != OK) return status;
    switch (w->kind) {
    case WORK_TURN: return read_turn(body.bytes, w, is_streamed);
    case WORK_TASK: return read_task(body.bytes, w);
    case WORK_ENTITY: return read_entity(body.bytes, w);
    }
    unreachable("no such kind of work");
}
