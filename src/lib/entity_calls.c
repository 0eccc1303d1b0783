/* SPDX-License-Identifier: Apache-2.0
 *
 * Entities as an orchestrator uses them: calls, signals, critical sections; and events to other
 * instances. An entity answers with the id of the request, so that id says which action it was: the
 * last four bytes of the GUID are the action's id, the others those of the execution.
 */
#include "lib/checks.h"
#include "lib/orchestration.h"

#include "core/entity_id.h"
#include "core/limits.h"
#include "wire/pb.h"

#include <stdio.h>

void request_id_write(const struct orchestration *o, int32_t id, char out[NORN_UUID_SIZE])
{
    const uint8_t *e = o->execution_id;

    (void)snprintf(out, NORN_UUID_SIZE, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%08x",
                   e[0], e[1], e[2], e[3], e[4], e[5], e[6], e[7], e[8], e[9], e[10], e[11],
                   (uint32_t)id);
}

int32_t request_id_read(struct bytes text)
{
    uint32_t id = 0;

    if (text.len != NORN_UUID_SIZE - 1) return -1;
    for (size_t n = text.len - 8; n < text.len; n++) {
        uint8_t c = text.ptr[n];
        if (c >= '0' && c <= '9')
            id = id << 4 | (uint32_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            id = id << 4 | (uint32_t)(c - 'a' + 10);
        else
            return -1;
    }
    return id > INT32_MAX ? -1 : (int32_t)id;
}

/* ---- messages ---- */

struct message {
    enum event_kind kind;
    struct bytes target;
    struct bytes operation;
    struct maybe input;
    struct bytes lock_set; /* strings */
    const char *section;   /* NULL: made from the action */
};

static void put_body(struct buffer *b, const struct orchestration *o, const struct message *m,
                     const char *request_id)
{
    char execution[EXECUTION_TEXT_SIZE];
    struct bytes parent = bytes_of_text(o->context.here.id);
    struct reader r = reader_make(m->lock_set);
    struct bytes one;

    pb_put_bytes(b, 1, bytes_of_text(request_id));
    if (m->kind == EVENT_ENTITY_LOCK_REQUESTED) {
        while (strings_next(&r, &one)) pb_put_bytes(b, 2, one);
        pb_put_string_value(b, 4, parent, true);
    } else if (m->kind == EVENT_ENTITY_UNLOCK_SENT) {
        pb_put_string_value(b, 2, parent, true);
        pb_put_string_value(b, 3, m->target, true);
    } else {
        pb_put_bytes(b, 2, m->operation);
        pb_put_string_value(b, 4, m->input.value, m->input.has);
        if (m->kind == EVENT_ENTITY_CALLED) {
            execution_id_text(o->execution_id, execution);
            pb_put_string_value(b, 5, parent, true);
            pb_put_string_value(b, 6, bytes_make(execution, sizeof execution), true);
        }
        pb_put_string_value(b, m->kind == EVENT_ENTITY_CALLED ? 7 : 5, m->target, true);
    }
}

static norn_status send_message(struct orchestration *o, const struct message *m,
                                struct norn_task *task)
{
    char request_id[NORN_UUID_SIZE];
    struct buffer body;

    struct action *action = decide(o, ACTION_SEND_ENTITY_MESSAGE, task);
    if (action == NULL) return NORN_E_NOMEM;
    request_id_write(o, action->id, request_id);
    if (task != NULL) task->id = action->id;
    buffer_init(&body, o->env->mem);
    put_body(&body, o, m, m->section != NULL ? m->section : request_id);
    action->entity_event = m->kind;
    action->entity_body = arena_copy(&o->arena, buffer_view(&body));
    bool is_copied = !body.failed && action->entity_body.len == body.len;
    buffer_release(&body);
    if (is_copied) return NORN_OK;
    o->context.is_out_of_memory = true;
    return NORN_E_NOMEM;
}

static bool is_entity(const char *id)
{
    return id != NULL && entity_id_problem(bytes_of_text(id), LIMIT_ID_SIZE) == NULL;
}

norn_status norn_call_entity(norn_context *ctx, const char *id, const char *operation,
                             struct norn_bytes input, struct norn_bytes *output)
{
    norn_status status = orchestration_check(ctx);

    if (status != NORN_OK) return status;
    if (!is_entity(id) || !name_is_valid(operation)) return NORN_E_INVALID;
    if ((status = payload_check(input)) != NORN_OK) return status;
    struct orchestration *o = orchestration_of(ctx);
    struct norn_task *task = task_new(o, TASK_ENTITY);
    if (task == NULL) return NORN_E_NOMEM;
    struct message message = {
        .kind = EVENT_ENTITY_CALLED,
        .target = bytes_of_text(id),
        .operation = bytes_of_text(operation),
        .input = maybe_of(input),
    };
    status = send_message(o, &message, task);
    return status == NORN_OK ? norn_await(ctx, task, output) : status;
}

norn_status orchestration_send(struct orchestration *o, const char *id, const char *event,
                               struct norn_bytes data)
{
    if (id[0] == '@') {
        if (!is_entity(id)) return NORN_E_INVALID;
        struct message message = {
            .kind = EVENT_ENTITY_SIGNALED,
            .target = bytes_of_text(id),
            .operation = bytes_of_text(event),
            .input = maybe_of(data),
        };
        return send_message(o, &message, NULL);
    }
    struct action *action = decide(o, ACTION_SEND_EVENT, NULL);
    if (action == NULL) return NORN_E_NOMEM;
    char *id_copy = context_text(&o->context, bytes_of_text(id));
    char *event_copy = context_text(&o->context, bytes_of_text(event));
    if (id_copy == NULL || event_copy == NULL) return NORN_E_NOMEM;
    action->instance_id = bytes_of_text(id_copy);
    action->name = bytes_of_text(event_copy);
    return context_copy(&o->context, maybe_of(data), &action->input) ? NORN_OK : NORN_E_NOMEM;
}

/* ---- critical sections ---- */

static norn_status read_locks(struct orchestration *o, const char *const *entities)
{
    struct buffer set;
    size_t n = 0;

    buffer_init(&set, o->env->mem);
    for (; entities[n] != NULL && is_entity(entities[n]); n++) {
        strings_add(&set, bytes_of_text(entities[n]));
    }
    norn_status status = NORN_OK;
    if (n == 0 || n > LIMIT_LOCK_SET_N || entities[n] != NULL) status = NORN_E_INVALID;
    o->locked = arena_copy(&o->arena, buffer_view(&set));
    if (status == NORN_OK && (set.failed || o->locked.len != set.len)) {
        o->context.is_out_of_memory = true;
        status = NORN_E_NOMEM;
    }
    buffer_release(&set);
    return status;
}

static norn_status unlock(struct orchestration *o)
{
    norn_status status = NORN_OK;

    if (!o->has_section) return NORN_E_PRECONDITION;
    struct reader r = reader_make(o->locked);
    struct bytes one;
    while (status == NORN_OK && strings_next(&r, &one)) {
        struct message message = {
            .kind = EVENT_ENTITY_UNLOCK_SENT,
            .target = one,
            .section = o->section,
        };
        status = send_message(o, &message, NULL);
    }
    o->has_section = false;
    return status;
}

norn_status norn_lock(norn_context *ctx, const char *const *entities)
{
    norn_status status = orchestration_check(ctx);

    if (status != NORN_OK) return status;
    struct orchestration *o = orchestration_of(ctx);
    if (entities == NULL) return unlock(o);
    if (o->has_section) return NORN_E_PRECONDITION;
    status = read_locks(o, entities);
    if (status != NORN_OK) return status;
    struct norn_task *task = task_new(o, TASK_LOCK);
    if (task == NULL) return NORN_E_NOMEM;
    struct message message = {.kind = EVENT_ENTITY_LOCK_REQUESTED, .lock_set = o->locked};
    status = send_message(o, &message, task);
    if (status != NORN_OK) return status;
    request_id_write(o, task->id, o->section);
    o->has_section = true;
    return norn_await(ctx, task, NULL);
}
