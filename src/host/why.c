/* SPDX-License-Identifier: Apache-2.0
 *
 * Why an instance is where it is: what the core says about it, and whether some worker is there for
 * it, which only the dispatcher knows. A sleeping instance is brought into memory for the answer:
 * it leaves again like any other, and there is one way to look instead of two.
 *
 * The answer lives in the open batch: what it shows may not be durable yet.
 */
#include "base/text.h"
#include "host/rows.h"
#include "host/state.h"

#include <stdio.h>

#define WAITING_WORDS_SIZE 300

/* The lists of one answer: counted first, then filled in. */
struct listing {
    const struct host *h;
    struct arena *arena;
    struct why_task *tasks; /* NULL while counting */
    size_t tasks_n;
    struct wait_view *waits;
    size_t waits_n;
    bool has_more;
};

static enum status keep(struct arena *arena, struct bytes *value)
{
    size_t len = value->len;

    *value = arena_copy(arena, *value);
    return value->len == len ? OK : E_NOMEM;
}

static enum status count_task(void *user, const struct task_view *view)
{
    struct listing *l = user;

    (void)view;
    l->has_more = l->has_more || l->tasks_n == WHY_LIST_MAX;
    if (l->tasks_n == WHY_LIST_MAX) return E_LIMIT;
    l->tasks_n++;
    return OK;
}

static enum status count_wait(void *user, const struct wait_view *view)
{
    struct listing *l = user;

    (void)view;
    l->has_more = l->has_more || l->waits_n == WHY_LIST_MAX;
    if (l->waits_n == WHY_LIST_MAX) return E_LIMIT;
    l->waits_n++;
    return OK;
}

static enum status add_task(void *user, const struct task_view *view)
{
    struct listing *l = user;

    if (l->tasks_n == WHY_LIST_MAX) return E_LIMIT;
    struct why_task *task = &l->tasks[l->tasks_n];
    task->task = *view;
    task->is_unserved =
        view->queue.len > 0 && !dispatcher_is_served(&l->h->dispatcher, view->queue);
    task->task.queue = BYTES_NONE;
    if (view->process == TASK_PROCESSING)
        task->locked_by = dispatcher_name(&l->h->dispatcher, view->locked_by);
    enum status status = keep(l->arena, &task->task.name);
    if (status == OK) status = keep(l->arena, &task->locked_by);
    if (status == OK) l->tasks_n++;
    return status;
}

static enum status add_wait(void *user, const struct wait_view *view)
{
    struct listing *l = user;

    if (l->waits_n == WHY_LIST_MAX) return E_LIMIT;
    l->waits[l->waits_n] = *view;
    enum status status = keep(l->arena, &l->waits[l->waits_n].instance);
    if (status == OK) l->waits_n++;
    return status;
}

static enum status list_items(const struct core *c, struct bytes key, struct listing *l)
{
    enum status status = core_tasks(c, key, count_task, l);
    if (status == OK || status == E_LIMIT) status = core_waits(c, key, count_wait, l);
    if (status != OK && status != E_LIMIT) return status;
    l->tasks = arena_alloc_zero(l->arena, l->tasks_n * sizeof *l->tasks + 1);
    l->waits = arena_alloc_zero(l->arena, l->waits_n * sizeof *l->waits + 1);
    if (l->tasks == NULL || l->waits == NULL) return E_NOMEM;
    l->tasks_n = 0;
    l->waits_n = 0;
    status = core_tasks(c, key, add_task, l);
    if (status == OK || status == E_LIMIT) status = core_waits(c, key, add_wait, l);
    return status == E_LIMIT ? OK : status;
}

/* The name of a queue that nobody serves; empty when somebody does, or there is no queue. */
static struct bytes unserved_name(const struct host *h, struct bytes queue)
{
    enum work_kind kind;
    struct bytes hub, name, version;

    if (queue.len == 0 || dispatcher_is_served(&h->dispatcher, queue)) return BYTES_NONE;
    return queue_key_read(queue, &kind, &hub, &name, &version) ? name : BYTES_NONE;
}

static enum status fill_words(struct host *h, const struct core *c, struct bytes key,
                              struct why *why)
{
    struct buffer reason;

    buffer_init(&reason, &h->own);
    (void)core_why(c, key, &reason);
    why->reason = buffer_view(&reason);
    enum status status = reason.failed ? E_NOMEM : keep(&h->open->arena, &why->reason);
    buffer_release(&reason);
    why->last_error = core_last_error(c, key);
    if (status == OK) status = keep(&h->open->arena, &why->last_error);
    return status;
}

static enum status fill(struct host *h, uint32_t index, const struct instance_view *view,
                        struct why *why)
{
    const struct core *c = h->cores[index];
    struct listing l = {.h = h, .arena = &h->open->arena};

    enum status status = list_items(c, view->key, &l);
    if (status != OK) return status;
    why->tasks = l.tasks;
    why->tasks_n = l.tasks_n;
    why->waits = l.waits;
    why->waits_n = l.waits_n;
    why->has_more = l.has_more;
    why->is_parked = view->is_parked;
    why->worker_name = unserved_name(h, core_turn_queue(c, view->key));
    for (size_t n = 0; n < l.tasks_n && why->worker_name.len == 0; n++) {
        if (l.tasks[n].is_unserved) why->worker_name = l.tasks[n].task.name;
    }
    status = keep(l.arena, &why->worker_name);
    return status == OK ? fill_words(h, c, view->key, why) : status;
}

void why_run(struct host *h, struct request *request, uint32_t index)
{
    struct arena *arena = &h->open->arena;
    struct instance_view view;

    request->view = NULL;
    request->why = NULL;
    if (loader_may_wait(h, index, request->key)) {
        loader_look(h, request); /* to ask is not to admit */
        return;
    }
    if (!loader_is_at_hand(h, index, request->key)) {
        enum status status = loader_load(h, index, request->key, request);
        if (status != OK) request_refuse(h, request, status, "too much waits for the archive");
        return;
    }
    request->status = OK;
    if (!host_view(h, index, request->key, &view)) {
        request_answer(h, request);
        return;
    }
    struct instance_view *copy = arena_alloc(arena, sizeof *copy);
    struct why *why = arena_alloc_zero(arena, sizeof *why);
    enum status status = copy == NULL || why == NULL ? E_NOMEM : OK;
    if (status == OK) status = view_copy(&view, false, arena, copy);
    if (status == OK) status = fill(h, index, copy, why);
    if (status != OK) {
        request_refuse(h, request, status, "the instance cannot be shown: %s", status_text(status));
        return;
    }
    request->view = copy;
    request->why = why;
    request_answer(h, request);
}

/* How many of its name are before it, about, and how many are at work. */
static enum status waiting_words(struct host *h, const struct instance_view *view, struct why *why)
{
    struct backlog_name_view name;
    char text[WAITING_WORDS_SIZE];

    if (!backlog_name(h->backlog, view->name, &name)) name = (struct backlog_name_view){0};
    unsigned long long active_n = name.active_n;
    unsigned long long waiting_n = name.waiting_n;
    if (h->hold_reason == HOLD_REASON_MEMORY) {
        bool is_served = dispatcher_serves(&h->dispatcher, WORK_TURN, view->name);
        (void)snprintf(text, sizeof text,
                       "its start waits to be admitted: the memory for instances is used up "
                       "(store.hot_memory_max), %s: %llu of its name are at work, %llu wait",
                       is_served ? "so only a few of each name come in"
                                 : "and no connected worker serves its name",
                       active_n, waiting_n);
    } else if (h->hold_reason == HOLD_REASON_ARCHIVE) {
        (void)snprintf(text, sizeof text,
                       "its start waits to be admitted: the archive is too far behind "
                       "(store.archive_lag_max); %llu of its name wait",
                       waiting_n);
    } else {
        (void)snprintf(text, sizeof text,
                       "its start waits to be admitted: %llu of its name are at work, %llu wait "
                       "(see the limits in [ingest])",
                       active_n, waiting_n);
    }
    why->reason = bytes_of_text(text);
    return keep(&h->open->arena, &why->reason);
}

void why_see_waiting(struct host *h, struct request *request, const struct instance_view *view)
{
    struct arena *arena = &h->open->arena;
    struct instance_view *copy = arena_alloc(arena, sizeof *copy);
    struct why *why = arena_alloc_zero(arena, sizeof *why);

    enum status status = copy == NULL || why == NULL ? E_NOMEM : OK;
    if (status == OK) status = view_copy(view, false, arena, copy);
    if (status == OK) status = waiting_words(h, view, why);
    if (status != OK) {
        request_refuse(h, request, status, "the instance cannot be shown: %s", status_text(status));
        return;
    }
    request->status = OK;
    request->view = copy;
    request->why = why;
    request_answer(h, request);
}
