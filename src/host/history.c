/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers about the events of one instance: a part of its history, or the ids of its children. A
 * history may have 128 MiB, so it is given in parts; whoever reads them names the execution, which
 * is what keeps the parts of one history together: within an execution events are only appended.
 *
 * The answer lives in the open batch: what it shows may not be durable yet.
 */
#include "host/rows.h"
#include "host/state.h"

#include <stdio.h>

static void refuse_memory(struct host *h, struct request *request)
{
    request_refuse(h, request, E_NOMEM, "out of memory: try again later");
}

/* False, and answered, when the request names another execution. */
static bool is_wanted_execution(struct host *h, struct request *request,
                                const uint8_t execution_id[EXECUTION_ID_SIZE])
{
    uint8_t wanted[EXECUTION_ID_SIZE];

    if (!request->history.execution_id.has) return true;
    if (execution_id_parse(request->history.execution_id.value, wanted) &&
        memcmp(wanted, execution_id, sizeof wanted) == 0) {
        return true;
    }
    request->status = E_NOT_FOUND;
    request->events = BYTES_NONE;
    (void)snprintf(request->text, sizeof request->text,
                   "the instance has no execution with this id, or not any more");
    request_answer(h, request);
    return false;
}

static void answer(struct host *h, struct request *request, struct bytes events, bool has_more)
{
    request->events = arena_copy(&h->open->arena, events);
    if (request->events.len != events.len) {
        request->events = BYTES_NONE;
        refuse_memory(h, request);
        return;
    }
    request->has_more = has_more;
    request->status = OK;
    request_answer(h, request);
}

void history_see_hot(struct host *h, struct request *request, uint32_t index,
                     const struct instance_view *view)
{
    struct buffer events;
    bool has_more = false;

    if (!is_wanted_execution(h, request, view->execution_id)) return;
    buffer_init(&events, &h->own);
    (void)core_history_part(h->cores[index], request->key, request->history.skip_n,
                            request->history.size_max, &events, &has_more);
    if (events.failed)
        refuse_memory(h, request);
    else
        answer(h, request, buffer_view(&events), has_more);
    buffer_release(&events);
}

/* As core_history_part(), of strings, which become those of the part. E_CORRUPT. */
static enum status cut_part(struct bytes *events, uint32_t skip_n, size_t size_max, bool *has_more)
{
    struct reader r = reader_make(*events);
    struct bytes one;

    while (skip_n > 0 && strings_next(&r, &one)) skip_n--;
    const uint8_t *from = r.at;
    const uint8_t *to = from;
    while (strings_next(&r, &one)) {
        if (size_max > 0 && (size_t)(r.at - from) > size_max && to > from) break;
        to = r.at;
    }
    if (r.failed) return E_CORRUPT;
    *has_more = to < events->ptr + events->len;
    *events = bytes_make(from, (size_t)(to - from));
    return OK;
}

void history_see_archived(struct host *h, struct request *request, struct bytes snapshot)
{
    uint8_t execution_id[EXECUTION_ID_SIZE];
    struct bytes events;
    bool has_more = false;

    enum status status = snapshot_execution(snapshot, execution_id);
    if (status == OK) status = snapshot_history(snapshot, &events);
    if (status == OK && !is_wanted_execution(h, request, execution_id)) return;
    if (status == OK && events.len > 0) {
        status = cut_part(&events, request->history.skip_n, request->history.size_max, &has_more);
    }
    if (status != OK)
        request_refuse(h, request, status, "the archived instance cannot be read");
    else
        answer(h, request, events, has_more);
}

/* ---- children ---- */

static void answer_children(struct host *h, struct request *request, const struct buffer *ids,
                            const struct instance_view *view)
{
    struct arena *arena = &h->open->arena;
    struct instance_view *copy = arena_alloc(arena, sizeof *copy);

    if (ids->failed || copy == NULL || view_copy(view, false, arena, copy) != OK) {
        refuse_memory(h, request);
        return;
    }
    request->view = copy;
    answer(h, request, buffer_view(ids), false);
}

void children_see_hot(struct host *h, struct request *request, uint32_t index,
                      const struct instance_view *view)
{
    struct buffer ids;

    buffer_init(&ids, &h->own);
    (void)core_children(h->cores[index], request->key, &ids);
    answer_children(h, request, &ids, view);
    buffer_release(&ids);
}

void children_see_archived(struct host *h, struct request *request, struct bytes snapshot,
                           const struct instance_view *view)
{
    struct buffer ids;

    buffer_init(&ids, &h->own);
    enum status status = snapshot_children(snapshot, &h->open->arena, &ids);
    if (status == OK || status == E_NOMEM)
        answer_children(h, request, &ids, view);
    else
        request_refuse(h, request, status, "the archived instance cannot be read");
    buffer_release(&ids);
}

/* ---- of one that has not begun ---- */

void history_see_waiting(struct host *h, struct request *request, const struct instance_view *view)
{
    struct buffer none;

    buffer_init(&none, &h->own);
    if (request->kind == REQUEST_CHILDREN)
        answer_children(h, request, &none, view);
    else if (is_wanted_execution(h, request, view->execution_id))
        answer(h, request, BYTES_NONE, false);
    buffer_release(&none);
}
