/* SPDX-License-Identifier: Apache-2.0
 *
 * What a worker says to a server, as the protocol's messages. The fields are those that
 * core/event_codec.c reads on the other side.
 */
#include "lib/link_remote.h"

#include "wire/pb.h"

#define CAPABILITY_HISTORY_STREAMING 1
#define CAPABILITY_NORN 1000

static void put_maybe(struct buffer *b, uint32_t number, struct maybe value)
{
    pb_put_string_value(b, number, value.value, value.has);
}

/* A message that is there already. */
static void put_raw(struct buffer *b, uint32_t number, struct maybe message)
{
    if (message.has) pb_put_bytes(b, number, message.value);
}

static void put_strings(struct buffer *b, uint32_t number, struct bytes packed)
{
    struct reader r = reader_make(packed);
    struct bytes value;

    while (strings_next(&r, &value)) pb_put_bytes(b, number, value);
}

/* ---- a turn ---- */

/* ScheduleTaskAction {1 name, 2 version, 3 input, 4 tags, 5 trace} */
static void put_task(struct buffer *b, const struct action *a)
{
    pb_put_plain_bytes(b, 1, a->name);
    put_maybe(b, 2, a->version);
    put_maybe(b, 3, a->input);
    put_strings(b, 4, a->tags);
    put_raw(b, 5, a->trace);
}

/* CreateSubOrchestrationAction {1 instanceId, 2 name, 3 version, 4 input, 5 trace, 6 tags} */
static void put_child(struct buffer *b, const struct action *a)
{
    pb_put_plain_bytes(b, 1, a->instance_id);
    pb_put_plain_bytes(b, 2, a->name);
    put_maybe(b, 3, a->version);
    put_maybe(b, 4, a->input);
    put_raw(b, 5, a->trace);
    put_strings(b, 6, a->tags);
}

/* SendEventAction {1 instance {1 instanceId}, 2 name, 3 data} */
static void put_event(struct buffer *b, const struct action *a)
{
    struct pb_mark instance = pb_begin(b, 1, a->instance_id.len + 2);

    pb_put_plain_bytes(b, 1, a->instance_id);
    pb_end(b, instance);
    pb_put_plain_bytes(b, 2, a->name);
    put_maybe(b, 3, a->input);
}

/* CompleteOrchestrationAction {1 orchestrationStatus, 2 result, 4 newVersion, 5 carryoverEvents,
 * 6 failureDetails} */
static void put_complete(struct buffer *b, const struct action *a)
{
    pb_put_plain_int32(b, 1, (int32_t)a->status);
    put_maybe(b, 2, a->input);
    put_maybe(b, 4, a->new_version);
    put_strings(b, 5, a->carryover);
    put_raw(b, 6, a->failure);
}

/* TerminateOrchestrationAction {1 instanceId, 2 reason, 3 recurse} */
static void put_terminate(struct buffer *b, const struct action *a)
{
    pb_put_plain_bytes(b, 1, a->instance_id);
    put_maybe(b, 2, a->input);
    pb_put_plain_varint(b, 3, a->recurse ? 1 : 0);
}

/* SendEntityMessageAction {1 signaled, 2 called, 3 lock requested, 4 unlock sent} */
static void put_entity_message(struct buffer *b, const struct action *a)
{
    uint32_t number = a->entity_event == EVENT_ENTITY_SIGNALED         ? 1
                      : a->entity_event == EVENT_ENTITY_CALLED         ? 2
                      : a->entity_event == EVENT_ENTITY_LOCK_REQUESTED ? 3
                                                                       : 4;

    assert(number != 4 || a->entity_event == EVENT_ENTITY_UNLOCK_SENT);
    pb_put_bytes(b, number, a->entity_body);
}

static void put_action_body(struct buffer *b, const struct action *a)
{
    switch (a->kind) {
    case ACTION_SCHEDULE_TASK: put_task(b, a); return;
    case ACTION_CREATE_CHILD: put_child(b, a); return;
    case ACTION_CREATE_TIMER: pb_put_timestamp_parts(b, 1, a->fire_at_s, a->fire_at_ns); return;
    case ACTION_SEND_EVENT: put_event(b, a); return;
    case ACTION_COMPLETE: put_complete(b, a); return;
    case ACTION_TERMINATE: put_terminate(b, a); return;
    case ACTION_SEND_ENTITY_MESSAGE: put_entity_message(b, a); return;
    case ACTION_REWIND: return;
    }
    unreachable("no such action");
}

static size_t size_about(const struct action *a)
{
    return a->name.len + a->version.value.len + a->input.value.len + a->instance_id.len +
           a->tags.len + a->failure.value.len + a->carryover.len + a->entity_body.len + 16;
}

/* OrchestratorAction {1 id, then the kind's number} */
static void put_action(struct buffer *b, const struct action *a)
{
    size_t size = size_about(a);
    struct pb_mark action = pb_begin(b, 2, size + 8);

    pb_put_plain_int32(b, 1, a->id);
    struct pb_mark body = pb_begin(b, (uint32_t)a->kind, size);
    put_action_body(b, a);
    pb_end(b, body);
    pb_end(b, action);
}

/* isPartial and chunkIndex, at the end of each part: the server puts them one behind the other. */
static void end_part(struct buffer *b, struct remote_work *work, bool is_last)
{
    pb_put_varint(b, 8, is_last ? 0 : 1);
    struct pb_mark index = pb_begin(b, 9, 8);
    pb_put_plain_varint(b, 1, work->parts_n);
    pb_end(b, index);
    if (!is_last) work->part_ends[work->parts_n++] = b->len;
}

/* What names the work is in every part. */
static void begin_part(struct buffer *b, const struct remote_work *work)
{
    pb_put_plain_bytes(b, 1, work->work.id);
    pb_put_plain_bytes(b, 4, work->token);
}

/* Before more of this size: begins another part when this one would be too large with it. */
static void make_room(struct buffer *b, struct remote_work *work, size_t size)
{
    size_t began = work->parts_n > 0 ? work->part_ends[work->parts_n - 1] : 0;

    if (b->len - began + size <= REMOTE_PART_SIZE) return;
    if (b->len - began < 1024) return; /* it has next to nothing: one large action is one part */
    if (work->parts_n == REMOTE_PARTS_MAX - 1) return; /* the server says that it is too much */
    end_part(b, work, false);
    begin_part(b, work);
}

/* OrchestratorResponse {1 instanceId, 2 actions, 3 customStatus, 4 completionToken, 6 trace,
 * 8 isPartial, 9 chunkIndex {1}} */
static void write_turn(struct buffer *b, struct remote_work *work)
{
    const struct orchestrator_answer *answer = &work->work.answer;

    begin_part(b, work);
    for (uint32_t n = 0; n < answer->actions_n; n++) {
        make_room(b, work, size_about(&answer->actions[n]));
        put_action(b, &answer->actions[n]);
    }
    make_room(b, work, answer->custom_status.value.len);
    put_maybe(b, 3, answer->custom_status);
    put_raw(b, 6, answer->trace);
    if (work->parts_n > 0) end_part(b, work, true);
}

/* ---- a task ---- */

/* ActivityResponse {1 instanceId, 2 taskId, 3 result, 4 failureDetails, 5 completionToken} */
static void write_task(struct buffer *b, const struct remote_work *work)
{
    const struct link_work *w = &work->work;

    pb_put_plain_bytes(b, 1, w->id);
    pb_put_plain_int32(b, 2, w->task_id);
    if (w->failure.has)
        put_raw(b, 4, w->failure);
    else
        put_maybe(b, 3, w->result);
    pb_put_plain_bytes(b, 5, work->token);
}

/* ---- an entity ---- */

/* OperationResult {1 success {1 result}, 2 failure {1 failureDetails}} */
static void put_result(struct buffer *b, const struct entity_result *result)
{
    size_t size = result->output.value.len + result->failure.len + 8;
    struct pb_mark outer = pb_begin(b, 1, size + 8);
    struct pb_mark inner = pb_begin(b, result->is_failure ? 2 : 1, size);

    if (result->is_failure)
        pb_put_bytes(b, 1, result->failure);
    else
        put_maybe(b, 1, result->output);
    pb_end(b, inner);
    pb_end(b, outer);
}

static void put_scheduled(struct buffer *b, uint32_t number, const struct entity_action *a)
{
    if (a->has_scheduled) pb_put_timestamp(b, number, a->scheduled_ms * 1000000);
}

/* OperationAction {1 id, 2 sendSignal {1 instanceId, 2 name, 3 input, 4 scheduledTime, 6 trace},
 * 3 startNewOrchestration {1 instanceId, 2 name, 3 version, 4 input, 5 scheduledTime, 7 trace}} */
static void put_entity_action(struct buffer *b, const struct entity_action *a)
{
    size_t size = a->instance_id.len + a->name.len + a->input.value.len + 24;
    struct pb_mark outer = pb_begin(b, 2, size + 8);
    struct pb_mark inner = pb_begin(b, (uint32_t)a->kind, size);

    pb_put_plain_bytes(b, 1, a->instance_id);
    pb_put_plain_bytes(b, 2, a->name);
    switch (a->kind) {
    case ENTITY_ACTION_SIGNAL:
        put_maybe(b, 3, a->input);
        put_scheduled(b, 4, a);
        put_raw(b, 6, a->trace);
        break;
    case ENTITY_ACTION_START:
        put_maybe(b, 3, a->version);
        put_maybe(b, 4, a->input);
        put_scheduled(b, 5, a);
        put_raw(b, 7, a->trace);
        break;
    }
    pb_end(b, inner);
    pb_end(b, outer);
}

/* EntityBatchResult {1 results, 2 actions, 3 entityState, 4 failureDetails, 5 completionToken,
 * 7 requiresState} */
static void write_entity(struct buffer *b, const struct remote_work *work)
{
    const struct entity_answer *answer = &work->work.entity;

    for (uint32_t n = 0; n < answer->results_n; n++) put_result(b, &answer->results[n]);
    for (uint32_t n = 0; n < answer->actions_n; n++) put_entity_action(b, &answer->actions[n]);
    put_maybe(b, 3, answer->state);
    put_raw(b, 4, answer->failure);
    pb_put_plain_bytes(b, 5, work->token);
    pb_put_plain_varint(b, 7, answer->requires_state ? 1 : 0);
}

static void write_answer(struct remote_work *work)
{
    switch (work->work.kind) {
    case WORK_TURN:
        work->path = "/TaskHubSidecarService/CompleteOrchestratorTask";
        write_turn(&work->message, work);
        return;
    case WORK_TASK:
        work->path = "/TaskHubSidecarService/CompleteActivityTask";
        write_task(&work->message, work);
        return;
    case WORK_ENTITY:
        work->path = "/TaskHubSidecarService/CompleteEntityTask";
        write_entity(&work->message, work);
        return;
    }
    unreachable("no such kind of work");
}

void remote_write_answer(struct remote_work *work)
{
    work->parts_n = 0;
    work->part = 0;
    write_answer(work);
    work->part_ends[work->parts_n++] = work->message.len;
}

const char *remote_give_up_path(enum work_kind kind)
{
    switch (kind) {
    case WORK_TURN: return "/TaskHubSidecarService/AbandonTaskOrchestratorWorkItem";
    case WORK_TASK: return "/TaskHubSidecarService/AbandonTaskActivityWorkItem";
    case WORK_ENTITY: return "/TaskHubSidecarService/AbandonTaskEntityWorkItem";
    }
    unreachable("no such kind of work");
}

/* ---- what else it asks for ---- */

/* StreamInstanceHistoryRequest {1 instanceId, 2 executionId, 3 forWorkItemProcessing} */
void remote_write_fetch(struct buffer *b, const struct link_work *work)
{
    char execution[EXECUTION_TEXT_SIZE];

    execution_id_text(work->execution_id, execution);
    pb_put_plain_bytes(b, 1, work->id);
    pb_put_string_value(b, 2, bytes_make(execution, sizeof execution), true);
    pb_put_varint(b, 3, 1);
}

/* {1 name, 2 versions}; entities have no versions */
static void put_name(struct buffer *b, enum work_kind kind, const struct link_name *name)
{
    struct pb_mark mark = pb_begin(b, (uint32_t)kind + 1, name->name.len + 16);

    pb_put_plain_bytes(b, 1, name->name);
    for (size_t n = 0; n < name->versions_n && kind != WORK_ENTITY; n++) {
        pb_put_bytes(b, 2, name->versions[n]); /* "" too: without version */
    }
    pb_end(b, mark);
}

/* The server cannot be told later that there is more or less credit. To ask for all that there may
 * ever be would keep work here, unbegun, which another worker could do; so it is this much when the
 * credit begins with less. */
#define OUT_N_ENOUGH 256u

static uint32_t out_n_max(const struct link_worker *worker, size_t kind)
{
    uint32_t n = worker->credits[kind] > OUT_N_ENOUGH ? worker->credits[kind] : OUT_N_ENOUGH;

    if (n > worker->credits_max[kind]) n = worker->credits_max[kind];
    return n > INT32_MAX ? INT32_MAX : n;
}

/* GetWorkItemsRequest {1 to 3 how many at once, 10 capabilities, 11 workItemFilters}. A number of 0
 * would be no limit: a kind that gets nothing is kept away by having no names. */
void remote_write_wish(struct buffer *b, const struct link_worker *worker)
{
    for (uint32_t kind = 0; kind < WORK_KINDS_N; kind++) {
        pb_put_plain_varint(b, kind + 1, out_n_max(worker, kind));
    }
    pb_put_varint(b, 10, CAPABILITY_HISTORY_STREAMING);
    pb_put_varint(b, 10, CAPABILITY_NORN);
    struct pb_mark filters = pb_begin(b, 11, 256);
    for (uint32_t kind = 0; kind < WORK_KINDS_N; kind++) {
        if (worker->credits_max[kind] == 0) continue;
        for (size_t n = 0; n < worker->names_n[kind]; n++) {
            put_name(b, (enum work_kind)kind, &worker->names[kind][n]);
        }
    }
    pb_end(b, filters);
}
