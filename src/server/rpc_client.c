/* SPDX-License-Identifier: Apache-2.0
 *
 * What clients ask about one orchestration: Hello, Start, Get, Raise, Terminate, Suspend, Resume,
 * Rewind, Restart. What an id, a name or a status allows is decided by the engine; here is only
 * what the protocol means.
 */
#include "server/state.h"

void rpc_hello(struct service *s, struct grpc_call *call, struct bytes message)
{
    if (!call_check(s, call, &google__protobuf__empty__descriptor, message)) return;
    grpc_answer(call, BYTES_NONE);
}

/* ---- start ---- */

/* Two generations of clients share this shape (see durable_task.proto): with an action, the list
 * says to which statuses it applies; without, which may be replaced. */
static bool read_reuse(const struct pb_field *policy, struct input_start *start)
{
    struct pb_reader r = pb_sub(policy);
    struct pb_field field;
    uint64_t action = 0;

    start->reuse_mask = 0;
    while (pb_next(&r, &field)) {
        if (field.number == 1 && !read_statuses(&field, &start->reuse_mask)) return false;
        if (field.number == 2) action = field.value;
    }
    if (action > CREATE_ORCHESTRATION_ACTION__TERMINATE) return false;
    start->reuse = action == CREATE_ORCHESTRATION_ACTION__IGNORE      ? REUSE_IGNORE
                   : action == CREATE_ORCHESTRATION_ACTION__TERMINATE ? REUSE_TERMINATE
                                                                      : REUSE_REPLACE;
    return true;
}

/* What is wrong with it, NULL when nothing is. The tags are collected in s->scratch. */
static const char *read_start(struct service *s, struct bytes message, struct input_start *start,
                              struct bytes *id)
{
    struct pb_reader r = pb_reader_make(message);
    struct pb_field field;

    buffer_clear(&s->scratch);
    while (pb_next(&r, &field)) {
        switch (field.number) {
        case 1: *id = field.bytes; break;
        case 2: start->name = field.bytes; break;
        case 3: start->version = read_maybe(&field); break;
        case 4: start->input = read_maybe(&field); break;
        case 5:
            /* rounded up: never early; the past, 1970 in one SDK, is now */
            if (!read_time_ms(&field, true, &start->scheduled_ms))
                return "scheduledStartTimestamp is not a time";
            start->has_scheduled = true;
            break;
        case 6:
            if (!read_reuse(&field, start))
                return "orchestrationIdReusePolicy has an unknown status or action";
            break;
        case 8: strings_add(&s->scratch, field.bytes); break;
        case 9: start->trace = maybe_some(field.bytes); break;
        default: break; /* unknown, or of no use here */
        }
    }
    return NULL;
}

void rpc_start(struct service *s, struct grpc_call *call, struct bytes message)
{
    struct bytes hub;
    struct bytes id = BYTES_NONE;
    char fresh[FRESH_ID_SIZE];
    struct errand *errand =
        call_begin(s, call, REQUEST_START, &create_instance_request__descriptor, &message, &hub);

    if (errand == NULL) return;
    struct input_start *start = &errand->request.start;
    const char *problem = read_start(s, message, start, &id);
    if (problem != NULL) {
        call_fail(s, call, GRPC_INVALID_ARGUMENT, "%s", problem);
        errand_free(errand);
        return;
    }
    start->tags = arena_copy(&errand->arena, buffer_view(&s->scratch));
    if (s->scratch.failed || start->tags.len != s->scratch.len) {
        call_fail_busy(s, call);
        errand_free(errand);
        return;
    }
    if (id.len == 0) {
        fresh_id(s, fresh);
        id = bytes_make(fresh, sizeof fresh);
    }
    pb_put_plain_bytes(&errand->reply, 1, id); /* what is answered when the engine agrees */
    call_post(errand, hub, id);
}

/* ---- look and steer ---- */

struct errand *call_begin_get(struct service *s, struct grpc_call *call, enum request_kind kind,
                              struct bytes message, struct bytes *hub, struct bytes *id)
{
    struct pb_field field;
    struct errand *errand =
        call_begin(s, call, kind, &get_instance_request__descriptor, &message, hub);

    if (errand == NULL) return NULL;
    *id = BYTES_NONE;
    struct pb_reader r = pb_reader_make(message);
    while (pb_next(&r, &field)) {
        if (field.number == 1) *id = field.bytes;
        if (field.number == 2) errand->flag = pb_bool(&field);
    }
    if (is_entity_id(*id)) {
        grpc_answer(call, BYTES_NONE); /* exists = false */
        errand_free(errand);
        return NULL;
    }
    errand->encode = encode_get_instance;
    return errand;
}

void rpc_get(struct service *s, struct grpc_call *call, struct bytes message)
{
    struct bytes hub;
    struct bytes id;
    struct errand *errand = call_begin_get(s, call, REQUEST_GET, message, &hub, &id);

    if (errand != NULL) call_post(errand, hub, id);
}

static void post_to_orchestration(struct errand *errand, struct bytes hub, struct bytes id)
{
    if (!is_entity_id(id)) {
        call_post(errand, hub, id);
        return;
    }
    call_fail(errand_service(errand), errand->call, GRPC_NOT_FOUND,
              "there is no such instance: ids that begin with '@' are entities");
    errand_free(errand);
}

void rpc_raise(struct service *s, struct grpc_call *call, struct bytes message)
{
    struct pb_field field;
    struct bytes hub;
    struct bytes id = BYTES_NONE;
    struct errand *errand =
        call_begin(s, call, REQUEST_RAISE, &raise_event_request__descriptor, &message, &hub);

    if (errand == NULL) return;
    struct pb_reader r = pb_reader_make(message);
    while (pb_next(&r, &field)) {
        if (field.number == 1) id = field.bytes;
        if (field.number == 2) errand->request.client.name = field.bytes;
        if (field.number == 3) errand->request.client.data = read_maybe(&field);
    }
    post_to_orchestration(errand, hub, id);
}

/* TerminateRequest, SuspendRequest, ResumeRequest, RewindInstanceRequest: id, text, and recursive
 * for the first. */
static void steer(struct service *s, struct grpc_call *call, enum request_kind kind,
                  const ProtobufCMessageDescriptor *type, struct bytes message)
{
    struct pb_field field;
    struct bytes hub;
    struct bytes id = BYTES_NONE;
    struct errand *errand = call_begin(s, call, kind, type, &message, &hub);

    if (errand == NULL) return;
    struct pb_reader r = pb_reader_make(message);
    while (pb_next(&r, &field)) {
        if (field.number == 1) id = field.bytes;
        if (field.number == 2) errand->request.client.data = read_maybe(&field);
        if (field.number == 3 && kind == REQUEST_TERMINATE)
            errand->request.client.recurse = pb_bool(&field);
    }
    post_to_orchestration(errand, hub, id);
}

void rpc_terminate(struct service *s, struct grpc_call *call, struct bytes message)
{
    steer(s, call, REQUEST_TERMINATE, &terminate_request__descriptor, message);
}

void rpc_suspend(struct service *s, struct grpc_call *call, struct bytes message)
{
    steer(s, call, REQUEST_SUSPEND, &suspend_request__descriptor, message);
}

void rpc_resume(struct service *s, struct grpc_call *call, struct bytes message)
{
    steer(s, call, REQUEST_RESUME, &resume_request__descriptor, message);
}

void rpc_rewind(struct service *s, struct grpc_call *call, struct bytes message)
{
    steer(s, call, REQUEST_REWIND, &rewind_instance_request__descriptor, message);
}

/* ---- restart ---- */

/* With a new id it is a start with what the old one was started with, which may be running. */
static void encode_origin(struct errand *errand)
{
    const struct instance_view *view = errand->request.view;

    if (errand->request.status != OK || view == NULL) return;
    errand->number = 1; /* it exists */
    if (!start_of_view(&errand->arena, view, errand->user)) errand->request.status = E_NOMEM;
}

static void on_origin(struct errand *errand)
{
    struct service *s = errand_service(errand);
    char fresh[FRESH_ID_SIZE];

    if (errand->request.status != OK || errand->number == 0) {
        if (errand->request.status == OK) errand->request.status = E_NOT_FOUND;
        call_fail_request(s, errand->call, &errand->request);
        errand_free(errand);
        return;
    }
    struct bytes hub = key_hub(errand->request.key);
    fresh_id(s, fresh);
    errand->request.kind = REQUEST_START;
    errand->request.start = *(const struct input_start *)errand->user;
    errand->encode = NULL;
    errand->done = errand_answer;
    pb_put_plain_bytes(&errand->reply, 1, bytes_make(fresh, sizeof fresh));
    call_post(errand, hub, bytes_make(fresh, sizeof fresh));
}

void rpc_restart(struct service *s, struct grpc_call *call, struct bytes message)
{
    struct pb_field field;
    struct bytes hub;
    struct bytes id = BYTES_NONE;
    bool has_new_id = false;
    struct errand *errand =
        call_begin(s, call, REQUEST_RESTART, &restart_instance_request__descriptor, &message, &hub);

    if (errand == NULL) return;
    struct pb_reader r = pb_reader_make(message);
    while (pb_next(&r, &field)) {
        if (field.number == 1) id = field.bytes;
        if (field.number == 2) has_new_id = pb_bool(&field);
    }
    if (has_new_id) {
        errand->request.kind = REQUEST_GET;
        errand->user = arena_alloc_zero(&errand->arena, sizeof(struct input_start));
        errand->encode = encode_origin;
        errand->done = on_origin;
        if (errand->user == NULL) {
            call_fail_busy(s, call);
            errand_free(errand);
            return;
        }
    } else {
        pb_put_plain_bytes(&errand->reply, 1, id);
    }
    post_to_orchestration(errand, hub, id);
}
