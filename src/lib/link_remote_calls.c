/* SPDX-License-Identifier: Apache-2.0
 *
 * Clients' verbs as calls to a server. The asker writes the message and reads the answer on its own
 * thread, with memory of its own; the loop only carries them. So a callback may take its time, and
 * use the link itself.
 */
#include "lib/link_remote.h"

#include "base/clock.h"
#include "base/random.h"
#include "core/entity_id.h"
#include "lib/memory.h"
#include "wire/pb.h"

#include <stdio.h>

#define PATH(name) "/TaskHubSidecarService/" name
#define OWN_PATH(name) "/norn.v1.Supervision/" name

static void call_init(struct remote_call *call, const char *path, char *why)
{
    *call = (struct remote_call){
        .ask = ASK_CALL,
        .path = path,
        .deadline_ns = INT64_MAX,
        .why = why,
    };
    memory_init(&call->mem);
    buffer_init(&call->request, &call->mem);
    buffer_init(&call->answer, &call->mem);
}

static void call_release(struct remote_call *call)
{
    buffer_release(&call->request);
    buffer_release(&call->answer);
    mem_release(&call->mem);
}

static enum status call_ask(struct remote *r, struct remote_call *call)
{
    if (call->request.failed) return E_NOMEM;
    enum status status = remote_ask(r, call);
    return status == OK && call->answer.failed ? E_NOMEM : status;
}

static void put_maybe(struct buffer *b, uint32_t number, struct maybe value)
{
    pb_put_string_value(b, number, value.value, value.has);
}

/* The request is released with the call; the answer says nothing. */
static enum status call_finish(struct remote *r, struct remote_call *call)
{
    enum status status = call_ask(r, call);

    call_release(call);
    return status;
}

/* The request was good: what cannot be read is the answer. */
static enum status unreadable(struct remote_call *call, enum status status)
{
    if (status != E_INVALID) return status;
    (void)snprintf(call->why, LINK_WHY_SIZE, "the server's answer cannot be read");
    return E_IO;
}

/* ---- start ---- */

/* 32 hex digits, as the engine in this process makes them. */
static void make_id(char *id)
{
    uint8_t random[16];

    random_fill(random, sizeof random);
    for (size_t n = 0; n < sizeof random; n++) (void)snprintf(id + 2 * n, 3, "%02x", random[n]);
}

/* "0123abcd-..." with 36 characters and a final NUL: some servers want the form of a GUID. */
static void make_guid(char guid[37])
{
    uint8_t x[16];

    random_fill(x, sizeof x);
    (void)snprintf(guid, 37, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
                   x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7], x[8], x[9], x[10], x[11], x[12],
                   x[13], x[14], x[15]);
}

/* OrchestrationIdReusePolicy {1 replaceableStatus, 2 action}: absent, an ended one is replaced;
 * empty, nothing is. With an action the list says to which statuses it applies. */
static void put_reuse(struct buffer *b, enum reuse reuse)
{
    static const uint8_t all[] = {STATUS_RUNNING,  STATUS_COMPLETED,  STATUS_FAILED,
                                  STATUS_CANCELED, STATUS_TERMINATED, STATUS_PENDING,
                                  STATUS_SUSPENDED};
    const uint64_t ignore = 1;

    if (reuse == REUSE_DEFAULT) return;
    struct pb_mark policy = pb_begin(b, 6, 16);
    if (reuse == REUSE_IGNORE) {
        pb_put_bytes(b, 1, bytes_make(all, sizeof all)); /* packed: each is one byte */
        pb_put_varint(b, 2, ignore);
    }
    pb_end(b, policy);
}

/* CreateInstanceRequest {1 instanceId, 2 name, 3 version, 4 input, 5 scheduledStartTimestamp,
 * 6 orchestrationIdReusePolicy, 8 tags} */
static void put_start(struct buffer *b, const struct link_start *start, const char *id)
{
    struct reader tags = reader_make(start->tags);
    struct bytes tag;

    pb_put_bytes(b, 1, bytes_of_text(id));
    pb_put_bytes(b, 2, start->name);
    put_maybe(b, 3, start->version);
    put_maybe(b, 4, start->input);
    if (start->start_at_ms != 0) {
        int64_t ms = start->start_at_ms < 0 ? 0 : start->start_at_ms;
        pb_put_timestamp_parts(b, 5, ms / 1000, (int32_t)(ms % 1000) * 1000000);
    }
    put_reuse(b, start->reuse);
    while (strings_next(&tags, &tag)) pb_put_bytes(b, 8, tag);
}

enum status remote_start(struct link *link, const struct link_start *start, char *id, char *why)
{
    struct remote_call call;
    char made[LINK_ID_SIZE];
    bool is_made = start->id.len == 0;

    if (start->reuse == REUSE_REPLACE || start->reuse == REUSE_TERMINATE) return E_UNSUPPORTED;
    if (is_made) {
        make_id(made);
    } else {
        memcpy(made, start->id.ptr, start->id.len);
        made[start->id.len] = '\0';
    }
    call_init(&call, PATH("StartInstance"), why);
    put_start(&call.request, start, made);
    /* Nobody else has an id that was made here: who finds it there was here before. The same holds
     * when an existing one is to be left alone. */
    call.is_repeatable = is_made || start->reuse == REUSE_IGNORE;
    enum status status = call_ask(remote_of(link), &call);
    if (status == E_EXISTS && is_made && call.begun_n > 1) status = OK;
    call_release(&call);
    if (status == OK) (void)snprintf(id, LINK_ID_SIZE, "%s", made);
    return status;
}

/* ---- get and wait ---- */

typedef enum status read_fn(struct bytes message, struct arena *arena, struct instance_view *out);

/* GetInstanceResponse, GetEntityResponse {1 exists, 2 the state} */
static enum status give_one(struct remote_call *call, read_fn *read, link_view_fn *fn, void *user)
{
    struct pb_reader r = pb_reader_make(buffer_view(&call->answer));
    struct pb_field f;
    struct bytes state = BYTES_NONE;
    struct instance_view view;
    struct arena arena;
    bool exists = false;

    while (pb_next(&r, &f)) {
        if (f.number == 1) exists = pb_bool(&f);
        if (f.number == 2) state = f.bytes;
    }
    if (r.failed) return unreadable(call, E_INVALID);
    if (!exists) return E_NOT_FOUND;
    if (fn == NULL) return OK;
    arena_init(&arena, &call->mem, 512);
    enum status status = unreadable(call, read(state, &arena, &view));
    if (status == OK) status = fn(user, &view);
    arena_release(&arena);
    return status;
}

enum status remote_get(struct link *link, struct bytes id, int64_t wait_ms, link_view_fn *fn,
                       void *user, char *why)
{
    struct remote_call call;
    bool is_entity = id_is_entity(id);

    if (wait_ms != 0 && is_entity) return E_INVALID;
    call_init(&call,
              is_entity      ? PATH("GetEntity")
              : wait_ms == 0 ? PATH("GetInstance")
                             : PATH("WaitForInstanceCompletion"),
              why);
    pb_put_bytes(&call.request, 1, id);
    pb_put_varint(&call.request, 2, 1); /* with its payloads */
    call.is_repeatable = true;
    call.is_wait = wait_ms != 0;
    if (wait_ms > 0 && wait_ms < INT64_MAX / NS_PER_MS / 2) {
        call.deadline_ns = clock_mono_ns() + wait_ms * NS_PER_MS;
    }
    enum status status = call_ask(remote_of(link), &call);
    if (status == OK) {
        status = give_one(&call, is_entity ? remote_read_entity : remote_read_state, fn, user);
    }
    call_release(&call);
    return status;
}

/* ---- events and verbs ---- */

enum status remote_raise(struct link *link, struct bytes id, struct bytes event, struct maybe data,
                         char *why)
{
    struct remote_call call;
    char request_id[37];
    bool is_entity = id_is_entity(id);

    call_init(&call, is_entity ? PATH("SignalEntity") : PATH("RaiseEvent"), why);
    pb_put_bytes(&call.request, 1, id);
    pb_put_bytes(&call.request, 2, event);
    put_maybe(&call.request, 3, data);
    if (is_entity) {
        make_guid(request_id);
        pb_put_bytes(&call.request, 4, bytes_of_text(request_id));
    }
    return call_finish(remote_of(link), &call);
}

/* TerminateRequest, SuspendRequest, ResumeRequest, RewindInstanceRequest {1 instanceId, 2 text} */
static enum status steer(struct remote *r, const char *path, struct bytes id, struct maybe data,
                         char *why)
{
    struct remote_call call;

    call_init(&call, path, why);
    pb_put_bytes(&call.request, 1, id);
    put_maybe(&call.request, 2, data);
    return call_finish(r, &call);
}

/* RestartInstanceRequest {1 instanceId}: again under its own id. */
static enum status restart(struct remote *r, struct bytes id, char *why)
{
    return steer(r, PATH("RestartInstance"), id, MAYBE_NONE, why);
}

/* PurgeInstancesRequest {1 instanceId}; PurgeInstancesResponse {1 deletedInstanceCount}. None is no
 * error there: why not, another look tells. */
static enum status purge(struct link *link, struct bytes id, char *why)
{
    struct remote_call call;
    struct pb_field f;
    int32_t purged_n = 0;

    call_init(&call, PATH("PurgeInstances"), why);
    pb_put_bytes(&call.request, 1, id);
    enum status status = call_ask(remote_of(link), &call);
    struct pb_reader r = pb_reader_make(buffer_view(&call.answer));
    while (status == OK && pb_next(&r, &f)) {
        if (f.number == 1) purged_n = pb_int32(&f);
    }
    call_release(&call);
    if (status != OK || purged_n > 0) return status;
    status = remote_get(link, id, 0, NULL, NULL, why);
    return status == OK ? E_PRECONDITION : status;
}

/* The server does not know a method of our own service. */
static enum status foreign(enum status status, const char *lack, char *why)
{
    if (status == E_UNSUPPORTED) {
        (void)snprintf(why, LINK_WHY_SIZE, "this server has no %s: it is not norn, or too old",
                       lack);
    }
    return status;
}

/* ResubmitStepRequest {1 instance_id, 2 task_id}. user: the id. */
static enum status resubmit_one(struct link *link, void *user, int32_t task_id, char *why)
{
    const struct bytes *id = user;
    struct remote_call call;

    call_init(&call, OWN_PATH("ResubmitStep"), why);
    pb_put_bytes(&call.request, 1, *id);
    pb_put_plain_int32(&call.request, 2, task_id);
    return foreign(call_finish(remote_of(link), &call), "parked steps", why);
}

enum status remote_control(struct link *link, struct bytes id, enum link_verb verb,
                           struct maybe data, char *why)
{
    struct remote *r = remote_of(link);

    switch (verb) {
    case LINK_TERMINATE: return steer(r, PATH("TerminateInstance"), id, data, why);
    case LINK_SUSPEND: return steer(r, PATH("SuspendInstance"), id, data, why);
    case LINK_RESUME: return steer(r, PATH("ResumeInstance"), id, data, why);
    case LINK_REWIND: return steer(r, PATH("RewindInstance"), id, data, why);
    case LINK_RESTART: return restart(r, id, why);
    case LINK_PURGE: return purge(link, id, why);
    case LINK_RESUBMIT: return link_resubmit(link, id, resubmit_one, &id, why);
    }
    unreachable("no such verb");
}

/* ---- history ---- */

/* StreamInstanceHistoryRequest {1 instanceId}; HistoryChunk {1 events} */
enum status remote_history(struct link *link, struct bytes id, link_events_fn *fn, void *user,
                           char *why)
{
    struct remote_call call;
    struct bytes events;
    struct arena arena;

    call_init(&call, PATH("StreamInstanceHistory"), why);
    pb_put_bytes(&call.request, 1, id);
    call.is_repeatable = true;
    enum status status = call_ask(remote_of(link), &call);
    arena_init(&arena, &call.mem, 512);
    if (status == OK) {
        status = remote_pack(buffer_view(&call.answer), 1, NULL, &arena, &events);
        status = unreadable(&call, status);
    }
    if (status == OK && events.len > 0) status = fn(user, events);
    arena_release(&arena);
    call_release(&call);
    return status;
}

/* ---- lists ---- */

static void put_time_ms(struct buffer *b, uint32_t number, int64_t ms)
{
    if (ms > 0) pb_put_timestamp_parts(b, number, ms / 1000, (int32_t)(ms % 1000) * 1000000);
}

/* InstanceQuery {1 runtimeStatus, 2 createdTimeFrom, 3 createdTimeTo, 5 maxInstanceCount,
 * 6 continuationToken, 7 instanceIdPrefix, 8 fetchInputsAndOutputs} */
static void put_query(struct buffer *b, const struct request_query *q, struct bytes token)
{
    struct pb_mark mark = pb_begin(b, 1, 64 + token.len);

    for (uint32_t status = 0; status <= STATUS_SUSPENDED; status++) {
        if ((q->status_mask >> status & 1) != 0) pb_put_varint(b, 1, status);
    }
    put_time_ms(b, 2, q->from_ms);
    if (q->to_ms < INT64_MAX) put_time_ms(b, 3, q->to_ms);
    pb_put_plain_int32(b, 5, (int32_t)(q->limit > QUERY_LIMIT_MAX ? QUERY_LIMIT_MAX : q->limit));
    pb_put_string_value(b, 6, token, token.len > 0);
    pb_put_string_value(b, 7, q->id_prefix, q->id_prefix.len > 0);
    pb_put_plain_varint(b, 8, q->want_payloads ? 1 : 0);
    pb_end(b, mark);
}

/* EntityQuery {1 instanceIdStartsWith, 2 lastModifiedFrom, 3 lastModifiedTo, 4 includeState,
 * 5 includeTransient, 6 pageSize, 7 continuationToken} */
static void put_entity_query(struct buffer *b, const struct request_query *q, struct bytes token)
{
    struct pb_mark mark = pb_begin(b, 1, 64 + token.len);

    pb_put_string_value(b, 1, q->id_prefix, q->id_prefix.len > 0);
    put_time_ms(b, 2, q->from_ms);
    if (q->to_ms < INT64_MAX) put_time_ms(b, 3, q->to_ms);
    pb_put_plain_varint(b, 4, q->want_payloads ? 1 : 0);
    pb_put_plain_varint(b, 5, q->want_transient ? 1 : 0);
    struct pb_mark size = pb_begin(b, 6, 4);
    pb_put_plain_int32(b, 1, (int32_t)(q->limit > QUERY_LIMIT_MAX ? QUERY_LIMIT_MAX : q->limit));
    pb_end(b, size);
    pb_put_string_value(b, 7, token, token.len > 0);
    pb_end(b, mark);
}

/* The protocol has no filter for these. */
static bool matches(const struct request_query *q, const struct instance_view *view)
{
    if (q->entities) return true;
    if (q->name.len > 0 && !bytes_equal(q->name, view->name)) return false;
    return !q->terminal_only || view->is_terminal;
}

/* QueryInstancesResponse, QueryEntitiesResponse {1 states, 2 continuationToken} */
static enum status give_page(struct remote_call *call, const struct request_query *q,
                             struct buffer *cursor, link_view_fn *fn, void *user)
{
    read_fn *read = q->entities ? remote_read_entity : remote_read_state;
    struct pb_reader r = pb_reader_make(buffer_view(&call->answer));
    struct pb_field f;
    struct instance_view view;
    struct bytes token = BYTES_NONE;
    struct arena arena;
    enum status status = OK;

    arena_init(&arena, &call->mem, 512);
    while (status == OK && pb_next(&r, &f)) {
        if (f.number == 2 && !pb_get_string_value(&f, &token)) status = unreadable(call, E_INVALID);
        if (f.number != 1) continue;
        arena_reset(&arena);
        status = unreadable(call, read(f.bytes, &arena, &view));
        if (status == OK && matches(q, &view)) status = fn(user, &view);
    }
    arena_release(&arena);
    if (status == OK && r.failed) status = unreadable(call, E_INVALID);
    if (status != OK) return status;
    buffer_clear(cursor);
    buffer_append_bytes(cursor, token);
    return cursor->failed ? E_NOMEM : OK;
}

enum status remote_list(struct link *link, const struct request_query *query, struct buffer *cursor,
                        link_view_fn *fn, void *user, char *why)
{
    struct remote_call call;

    if (query->by_completion || query->tag.len > 0 || query->error_part.len > 0) {
        return E_UNSUPPORTED;
    }
    call_init(&call, query->entities ? PATH("QueryEntities") : PATH("QueryInstances"), why);
    if (query->entities)
        put_entity_query(&call.request, query, buffer_view(cursor));
    else
        put_query(&call.request, query, buffer_view(cursor));
    call.is_repeatable = true;
    enum status status = call_ask(remote_of(link), &call);
    if (status == OK) status = give_page(&call, query, cursor, fn, user);
    call_release(&call);
    return status;
}

/* ---- steps ---- */

/* ListStepsRequest {1 instance_id}; ListStepsResponse {1 steps} */
enum status remote_steps(struct link *link, struct bytes id, link_step_fn *fn, void *user,
                         char *why)
{
    struct remote_call call;
    struct task_view view;
    struct pb_field f;

    call_init(&call, OWN_PATH("ListSteps"), why);
    pb_put_bytes(&call.request, 1, id);
    call.is_repeatable = true;
    enum status status = foreign(call_ask(remote_of(link), &call), "list of steps", why);
    struct pb_reader r = pb_reader_make(buffer_view(&call.answer));
    while (status == OK && pb_next(&r, &f)) {
        if (f.number != 1) continue;
        status = unreadable(&call, remote_read_step(f.bytes, &view));
        if (status == OK) status = fn(user, &view);
    }
    if (status == OK && r.failed) status = unreadable(&call, E_INVALID);
    call_release(&call);
    return status;
}

/* RenewTaskRequest {1 completion_token, 2 extend_ms}; RenewTaskResponse {1 is_lost}. Without
 * connection nobody is to wait for one in the middle of his work. */
enum status remote_renew(struct link_work *work, int64_t extend_ms)
{
    struct remote *r = remote_of(work->port->link);
    char why[LINK_WHY_SIZE];
    struct remote_call call;
    struct pb_field f;
    bool is_lost = false;

    if (!atomic_load(&r->is_connected)) return E_UNAVAILABLE;
    call_init(&call, OWN_PATH("RenewTask"), why);
    pb_put_bytes(&call.request, 1, remote_work_of(work)->token);
    pb_put_varint(&call.request, 2, (uint64_t)extend_ms);
    enum status status = call_ask(r, &call);
    struct pb_reader reader = pb_reader_make(buffer_view(&call.answer));
    while (status == OK && pb_next(&reader, &f)) {
        if (f.number == 1) is_lost = pb_bool(&f);
    }
    if (status == OK && reader.failed) status = E_IO;
    call_release(&call);
    return status == OK && is_lost ? E_STALE : status;
}
