/* SPDX-License-Identifier: Apache-2.0
 *
 * Events into instances. An instance's state is a fold of its history and inbox: what is open,
 * whether it is suspended, what it ended with. The same functions run when something happens, when
 * a record is applied after a crash, and (fold_reopen) when a snapshot is loaded.
 */
#include "core/replies.h"
#include "core/state.h"

_Static_assert(_Alignof(struct event) <= 8, "arenas align to 8 bytes");

struct event *event_new(struct instance *i, struct bytes data)
{
    struct event_head head;
    if (event_peek(data, &head) != OK || data.len > UINT32_MAX) return NULL;
    struct event *event = arena_alloc(&i->arena, sizeof *event + data.len);
    assert(event != NULL); /* reserved before the step */
    event->next = NULL;
    event->kind = head.kind;
    event->id = head.id;
    event->ref = head.ref;
    event->len = (uint32_t)data.len;
    if (data.len > 0) memcpy(event->data, data.ptr, data.len);
    return event;
}

struct event *event_must(struct instance *i, struct bytes data)
{
    struct event *event = event_new(i, data);
    assert(event != NULL);
    return event;
}

void event_list_add(struct event_list *list, struct event *event)
{
    assert(event->next == NULL);
    assert((list->last == NULL) == (list->n == 0));
    if (list->last == NULL)
        list->first = event;
    else
        list->last->next = event;
    list->last = event;
    list->n++;
    list->size += event->len;
}

struct event *event_list_pop(struct event_list *list)
{
    struct event *event = list->first;
    assert(event != NULL);
    assert(list->n > 0);
    assert(list->size >= event->len);
    list->first = event->next;
    if (list->first == NULL) list->last = NULL;
    list->n--;
    list->size -= event->len;
    event->next = NULL;
    assert((list->first == NULL) == (list->n == 0));
    return event;
}

bool instance_set_started(struct instance *i, const struct event *event)
{
    struct event_started started;
    assert(event->kind == EVENT_EXECUTION_STARTED);
    if (event_started_decode(event_bytes(event), &i->core->temporary, &started) != OK) return false;
    i->started = event;
    i->name = started.name;
    i->version = started.version;
    i->input = started.input;
    i->has_tags = started.tags.len > 0;
    i->has_parent = started.has_parent;
    i->parent = started.parent;
    /* what a child does is its parent's business */
    i->has_reply = !started.has_parent && started.tags.len > 0 &&
                   tags_find(started.tags, BYTES_LITERAL(REPLY_TO_TAG)).has;
    return true;
}

/* The item that a completion answers; NULL for other events. */
static struct item *answered_item(const struct instance *i, const struct event *event)
{
    if (event->kind == EVENT_TASK_COMPLETED || event->kind == EVENT_TASK_FAILED) {
        return item_find(i, event->ref, ITEM_TASK);
    }
    if (event->kind == EVENT_TIMER_FIRED) return item_find(i, event->ref, ITEM_TIMER);
    if (event->kind == EVENT_CHILD_COMPLETED || event->kind == EVENT_CHILD_FAILED) {
        return item_find(i, event->ref, ITEM_CHILD);
    }
    if (event->kind == EVENT_ENTITY_COMPLETED || event->kind == EVENT_ENTITY_FAILED) {
        return call_find(i, event_entity_id(event_bytes(event)));
    }
    return NULL;
}

static bool has_id_of_item(const struct item *item)
{
    return !item->is_detached && item->kind != ITEM_CALL;
}

bool event_answers(const struct event *answer, const struct event *created)
{
    if (answer->ref != created->id) return false;
    if (answer->kind == EVENT_TASK_COMPLETED || answer->kind == EVENT_TASK_FAILED)
        return created->kind == EVENT_TASK_SCHEDULED;
    if (answer->kind == EVENT_TIMER_FIRED) return created->kind == EVENT_TIMER_CREATED;
    if (answer->kind == EVENT_CHILD_COMPLETED || answer->kind == EVENT_CHILD_FAILED)
        return created->kind == EVENT_CHILD_CREATED;
    return false;
}

/* An answer that has come but was not given to the orchestrator yet keeps its id in use: in the
 * history it will stand behind what the turn adds. */
void ids_in_use(const struct instance *i, uint32_t consumed_n, size_t more_n, struct id_set *set)
{
    size_t open_n = 0;
    assert(consumed_n <= i->inbox.n);
    for (struct list *n = list_first(&i->items); n != NULL; n = list_next(&i->items, n)) {
        if (has_id_of_item(container_of(n, struct item, of_instance))) open_n++;
    }
    assert(open_n <= i->history.n); /* each was opened by an event of this execution */
    id_set_init(set, &i->core->temporary, open_n + i->inbox.n + more_n);
    for (struct list *n = list_first(&i->items); n != NULL; n = list_next(&i->items, n)) {
        const struct item *item = container_of(n, struct item, of_instance);
        if (has_id_of_item(item)) (void)id_set_add(set, item->id);
    }
    const struct event *e = i->inbox.first;
    for (uint32_t n = 0; e != NULL; e = e->next, n++) {
        if (n >= consumed_n && e->ref >= 0) (void)id_set_add(set, e->ref);
    }
}

void fold_message(struct instance *i, struct event *event)
{
    assert(!i->is_entity);
    assert(i->completed == NULL); /* who has ended is sent nothing */
    assert(i->started != NULL);
    struct item *item = answered_item(i, event);
    if (item != NULL) item_close(item);
    if (event->kind == EVENT_EXECUTION_SUSPENDED) {
        i->is_suspended = true;
        /* a turn that is with a worker counts no more: it is given anew after the resume */
        i->is_leased = false;
        i->worker = 0;
        i->turns++;
    }
    if (event->kind == EVENT_EXECUTION_RESUMED) i->is_suspended = false;
    event_list_add(&i->inbox, event);
}

static void fold_completed(struct instance *i, const struct event *event)
{
    struct event_completed completed;
    enum status status = event_completed_decode(event_bytes(event), &completed);
    assert(status == OK); /* of our own making */
    assert(status_is_end(completed.status));
    assert(i->completed == NULL);
    assert(event == i->history.last);
    i->completed = event;
    i->status = completed.status;
    i->is_suspended = false;
    items_end(i, completed.status == STATUS_TERMINATED);
}

void fold_history(struct instance *i, struct event *event)
{
    assert(!i->is_entity);
    assert(i->completed == NULL); /* S5: nothing after the end */
    event_list_add(&i->history, event);
    if (event->id > i->id_max) i->id_max = event->id;
    if (event->kind == EVENT_TASK_SCHEDULED) {
        struct item *item = item_open(i, ITEM_TASK, event);
        /* written in this very step: what scheduled_ns() would read from it */
        if (i->core->out != NULL) item->scheduled_ns = i->core->now_ns;
        item_queue(item);
    } else if (event->kind == EVENT_TIMER_CREATED) {
        item_open(i, ITEM_TIMER, event);
    } else if (event->kind == EVENT_CHILD_CREATED) {
        item_open(i, ITEM_CHILD, event);
    } else if (event->kind == EVENT_ENTITY_CALLED) {
        item_open(i, ITEM_CALL, event);
    } else if (event->kind == EVENT_ENTITY_LOCK_REQUESTED) {
        i->locks_n++;
    } else if (event->kind == EVENT_EXECUTION_SUSPENDED) {
        i->is_suspended = true;
    } else if (event->kind == EVENT_EXECUTION_COMPLETED) {
        fold_completed(i, event);
    }
}

void fold_consume(struct instance *i, uint32_t n)
{
    uint32_t all_n = i->history.n + i->inbox.n;
    assert(n <= i->inbox.n);
    assert(i->completed == NULL);
    while (n-- > 0) {
        struct event *event = event_list_pop(&i->inbox);
        event_list_add(&i->history, event);
    }
    assert(i->history.n + i->inbox.n == all_n); /* they have only moved */
}

static void reopen(struct instance *i, const struct event *event)
{
    struct item *item = answered_item(i, event);
    if (item != NULL) item_close(item);
    if (event->kind == EVENT_TASK_SCHEDULED) item_open(i, ITEM_TASK, event);
    if (event->kind == EVENT_TIMER_CREATED) item_open(i, ITEM_TIMER, event);
    if (event->kind == EVENT_CHILD_CREATED) item_open(i, ITEM_CHILD, event);
    if (event->kind == EVENT_ENTITY_CALLED) item_open(i, ITEM_CALL, event);
}

void fold_reopen(struct instance *i)
{
    assert(i->items_n == 0);
    i->id_max = -1;
    i->locks_n = 0;
    for (const struct event *e = i->history.first; e != NULL; e = e->next) {
        if (e->id > i->id_max) i->id_max = e->id;
        if (e->kind == EVENT_ENTITY_LOCK_REQUESTED) i->locks_n++;
        if (i->completed == NULL) reopen(i, e);
    }
    if (i->completed != NULL) return;
    for (const struct event *e = i->inbox.first; e != NULL; e = e->next) reopen(i, e);
    for (struct list *n = list_first(&i->items); n != NULL; n = list_next(&i->items, n)) {
        struct item *item = container_of(n, struct item, of_instance);
        if (item->kind == ITEM_TASK && !item->is_detached) item_queue(item);
    }
}

/* What a new generation takes over: what was sent to the instance, not to the execution. */
static bool survives_generation(const struct event *event)
{
    return event->kind == EVENT_EVENT_RAISED || event->kind == EVENT_EXECUTION_SUSPENDED ||
           event->kind == EVENT_EXECUTION_RESUMED;
}

static struct maybe maybe_copy(struct arena *arena, struct maybe value)
{
    if (value.has) value.value = copy_must(arena, value.value);
    return value;
}

void instance_continue(struct instance *i, const struct record *record)
{
    struct arena old = i->arena;
    struct event_list inbox = i->inbox;

    assert(!instance_is_terminal(i));
    assert(!i->is_entity);
    assert(!i->is_purged);
    items_end(i, false);
    arena_init(&i->arena, i->core->mem, 512);
    list_init(&i->items_free);
    i->history = (struct event_list){0};
    i->inbox = (struct event_list){0};
    i->id_max = -1;
    i->locks_n = 0;
    i->late_first = NULL;
    i->late_n = 0;
    i->trace = MAYBE_NONE;
    i->error_room = NULL;
    i->last_error = BYTES_NONE; /* of a step that has ended with its execution */
    i->custom_status = maybe_copy(&i->arena, i->custom_status);
    i->is_status_carried = i->custom_status.has;
    memcpy(i->execution_id, record->execution_id, EXECUTION_ID_SIZE);

    struct list *n = list_first(&i->items);
    while (n != NULL) {
        struct item *item = container_of(n, struct item, of_instance);
        n = list_next(&i->items, n);
        item_move(item);
    }
    struct event *started = event_must(i, record->event);
    bool is_read = instance_set_started(i, started);
    assert(is_read);
    event_list_add(&i->inbox, started);
    struct reader carried = reader_make(record->events);
    struct bytes one;
    while (strings_next(&carried, &one)) event_list_add(&i->inbox, event_must(i, one));
    for (const struct event *e = inbox.first; e != NULL; e = e->next) {
        if (survives_generation(e)) event_list_add(&i->inbox, event_must(i, event_bytes(e)));
    }
    arena_release(&old);
    assert(i->history.n == 0);
    assert(!instance_has_started(i)); /* its start is unread, before all that was carried over */
}

/* ExecutionStarted again, with another execution of itself and perhaps of its parent. */
static struct event *restarted(struct instance *i, const struct event *event,
                               const uint8_t *execution_id, struct bytes parent_execution)
{
    struct core *c = i->core;
    assert(event->kind == EVENT_EXECUTION_STARTED);
    const uint8_t *parent = parent_execution.len == EXECUTION_ID_SIZE ? parent_execution.ptr : NULL;
    buffer_clear(&c->scratch2);
    enum status status = event_started_rewrite(&c->scratch2, event_bytes(event), &c->temporary,
                                               execution_id, parent);
    assert(status == OK);
    assert(!c->scratch2.failed);
    return event_must(i, buffer_view(&c->scratch2));
}

void instance_rewind(struct instance *i, const struct record *record)
{
    struct event_list history = i->history;

    assert(instance_is_terminal(i));
    assert(!i->is_leased);
    assert(!i->is_entity);
    struct rewind rewind = rewind_make(&history, &i->inbox);
    items_end(i, true);
    i->history = (struct event_list){0};
    memcpy(i->execution_id, record->execution_id, EXECUTION_ID_SIZE);
    for (struct event *e = history.first, *next = NULL; e != NULL; e = next) {
        next = e->next;
        if (!rewind_keeps(&rewind, e)) continue;
        struct event *kept = e;
        if (e->kind == EVENT_EXECUTION_STARTED) {
            kept = restarted(i, e, record->execution_id, record->peer_execution);
            bool is_read = instance_set_started(i, kept);
            assert(is_read);
        } else {
            kept = event_must(i, event_bytes(e)); /* the old list is still being searched */
        }
        event_list_add(&i->history, kept);
    }
    event_list_add(&i->history, event_must(i, record->event));
    assert(i->history.n <= history.n); /* its end is gone, at least, and the rewind came */
    assert(i->started != NULL);
    i->completed = NULL;
    i->completed_ns = 0;
    i->status = STATUS_RUNNING;
    i->custom_status = MAYBE_NONE;
    i->failures = 0;
    i->retry_at_ms = 0;
    i->needs_turn = true;
    fold_reopen(i);
    /* children are rewound with it, and wake it when they have ended */
    for (struct list *n = list_first(&i->items); n != NULL; n = list_next(&i->items, n)) {
        if (container_of(n, struct item, of_instance)->kind == ITEM_CHILD) i->needs_turn = false;
    }
    /* and so do its locks, when it has them again */
    if (locks_are_held(i)) i->needs_turn = false;
}

void instance_relink(struct instance *i, const struct record *record)
{
    struct event *event = restarted(i, i->started, i->execution_id, record->peer_execution);
    struct event_list *lists[] = {&i->history, &i->inbox};
    for (size_t n = 0; n < 2; n++) {
        struct event **at = &lists[n]->first;
        while (*at != NULL && *at != i->started) at = &(*at)->next;
        if (*at == NULL) continue;
        assert(lists[n]->size >= (*at)->len);
        event->next = (*at)->next;
        if (lists[n]->last == *at) lists[n]->last = event;
        lists[n]->size += event->len;
        lists[n]->size -= (*at)->len;
        *at = event;
        bool is_read = instance_set_started(i, event);
        assert(is_read);
        assert(i->started == event);
        return;
    }
    unreachable("ExecutionStarted is neither in the history nor in the inbox");
}
