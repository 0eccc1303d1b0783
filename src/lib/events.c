/* SPDX-License-Identifier: Apache-2.0
 *
 * Events from outside. Each goes to the one that has waited longest for its name, or is kept until
 * somebody does. Names are compared without regard to the case of ASCII letters, as in every other
 * language of the protocol.
 */
#include "lib/orchestration.h"

#include "wire/pb.h"

#include <strings.h>

static bool is_same_name(struct bytes a, struct bytes b)
{
    return a.len == b.len &&
           (a.len == 0 || strncasecmp((const char *)a.ptr, (const char *)b.ptr, a.len) == 0);
}

static struct norn_task *waiting_for(struct orchestration *o, struct bytes name)
{
    for (struct list *n = list_first(&o->event_waits); n != NULL;
         n = list_next(&o->event_waits, n)) {
        struct norn_task *task = container_of(n, struct norn_task, awaiting);
        if (is_same_name(task->event, name)) return task;
    }
    return NULL;
}

static void keep(struct orchestration *o, struct bytes event, struct bytes name, struct maybe data)
{
    struct unread_event *unread = arena_alloc_zero(&o->arena, sizeof *unread);
    struct bytes copy = arena_copy(&o->arena, event);

    if (unread == NULL || copy.len != event.len) {
        o->context.is_out_of_memory = true;
        return;
    }
    /* name and data lie in the event; the same places of the copy */
    unread->event = copy;
    unread->name = bytes_make(name.len > 0 ? copy.ptr + (name.ptr - event.ptr) : NULL, name.len);
    unread->data = data;
    if (data.value.len > 0) unread->data.value.ptr = copy.ptr + (data.value.ptr - event.ptr);
    list_push_back(&o->unread, &unread->node);
}

void event_arrived(struct orchestration *o, struct bytes event, struct bytes body)
{
    struct pb_reader r = pb_reader_make(body);
    struct pb_field f;
    struct bytes name = BYTES_NONE;
    struct maybe data = MAYBE_NONE;

    while (pb_next(&r, &f)) {
        if (f.number == 1) name = f.bytes;
        if (f.number == 2) data.has = pb_get_string_value(&f, &data.value);
    }
    struct norn_task *task = o->is_ended ? NULL : waiting_for(o, name);
    if (task == NULL) {
        keep(o, event, name, data);
        return;
    }
    if (!context_copy(&o->context, data, &task->output)) return;
    list_remove(&task->awaiting);
    task_end(o, task, NORN_OK);
}

static struct unread_event *unread_find(struct orchestration *o, struct bytes name)
{
    for (struct list *n = list_first(&o->unread); n != NULL; n = list_next(&o->unread, n)) {
        struct unread_event *unread = container_of(n, struct unread_event, node);
        if (is_same_name(unread->name, name)) return unread;
    }
    return NULL;
}

norn_status norn_begin_event(norn_context *ctx, const char *name, norn_task **task)
{
    norn_status status = orchestration_check(ctx);

    if (status != NORN_OK) return status;
    if (name == NULL || name[0] == '\0' || task == NULL) return NORN_E_INVALID;
    struct orchestration *o = orchestration_of(ctx);
    struct norn_task *made = task_new(o, TASK_EVENT);
    char *copy = context_text(ctx, bytes_of_text(name));
    if (made == NULL || copy == NULL) return NORN_E_NOMEM;
    made->event = bytes_of_text(copy);
    struct unread_event *unread = unread_find(o, made->event);
    if (unread != NULL) {
        list_remove(&unread->node);
        if (!context_copy(ctx, unread->data, &made->output)) return NORN_E_NOMEM;
        task_end(o, made, NORN_OK);
    } else {
        list_push_back(&o->event_waits, &made->awaiting);
    }
    *task = made;
    return NORN_OK;
}

/* Nothing is decided when the event is there already, or when nobody wants to wait: that, too, is
 * the same at every replay, because what has come is. */
norn_status norn_wait_event(norn_context *ctx, const char *name, int64_t timeout_ms,
                            struct norn_bytes *data)
{
    norn_task *tasks[2];
    size_t first = 0;
    norn_status status = norn_begin_event(ctx, name, &tasks[0]);

    if (status != NORN_OK) return status;
    if (tasks[0]->is_ended || timeout_ms < 0) return norn_await(ctx, tasks[0], data);
    if (timeout_ms > 0) {
        status = norn_begin_timer(ctx, timeout_ms, &tasks[1]);
        if (status == NORN_OK) status = norn_when_any(ctx, tasks, 2, &first);
        if (status != NORN_OK) return status;
        if (first == 0) {
            (void)norn_cancel(ctx, tasks[1]);
            return norn_await(ctx, tasks[0], data);
        }
    }
    (void)norn_cancel(ctx, tasks[0]);
    return NORN_E_TIMEOUT;
}
