/* SPDX-License-Identifier: Apache-2.0
 *
 * Entities in memory. An entity is an instance without a history: a state, a lock, and three lists
 * of what waits.
 *
 *      inbox     operations and lock requests, first come first served
 *      held      while locked: calls of the holder; only they are given to a worker
 *      delayed   signals that must not come before their time, by time
 *
 * At most one batch of operations is with a worker, and they stay at the front of their list until
 * it has answered: an unlock meanwhile puts `held` before the inbox, nothing else touches a front.
 *
 * A lock request at the front of the inbox is not offered to anybody: locks.c turns it into the
 * lock as soon as nothing stands before it.
 *
 * An entity lives as long as its state, so what it has read must not stay in its arena for ever:
 * now and then what still lives moves to a new one.
 */
#include "core/limits.h"
#include "core/state.h"

#include "base/planted.h"

struct event_list *entity_operations(struct instance *i)
{
    assert(i->is_entity);
    if (planted("ignore_lock") && i->lock != NULL && i->held.n == 0) return &i->inbox;
    return i->lock != NULL ? &i->held : &i->inbox;
}

uint32_t entity_batch_n(const struct instance *i)
{
    const struct event_list *list = entity_operations((struct instance *)i);
    size_t size = 0;
    uint32_t n = 0;
    for (const struct event *e = list->first; e != NULL && n < LIMIT_BATCH_N; e = e->next) {
        if (e->kind == EVENT_ENTITY_LOCK_REQUESTED) break;
        size += e->len;
        if (n > 0 && size > LIMIT_BATCH_SIZE) break;
        n++;
    }
    assert(n <= list->n);
    assert(n > 0 || list->n == 0 || list->first->kind == EVENT_ENTITY_LOCK_REQUESTED);
    return n;
}

bool entity_is_empty(const struct instance *i)
{
    assert(i->is_entity);
    return !i->state.has && i->inbox.n == 0 && i->held.n == 0 && i->delayed_n == 0 &&
           i->lock == NULL;
}

uint32_t entity_backlog_n(const struct instance *i)
{
    assert(i->is_entity);
    return i->inbox.n + i->held.n + i->delayed_n;
}

size_t entity_backlog_size(const struct instance *i)
{
    assert(i->is_entity);
    return i->inbox.size + i->held.size + i->delayed_size;
}

/* ---- the lock ---- */

bool entity_lock_is_due(const struct instance *i)
{
    assert(i->is_entity);
    return i->lock == NULL && !i->is_leased && i->inbox.first != NULL &&
           i->inbox.first->kind == EVENT_ENTITY_LOCK_REQUESTED;
}

static bool is_of(const struct event_entity *a, const struct instance *i)
{
    assert(i->lock != NULL);
    if (!bytes_equal(a->parent, i->lock_parent)) return false;
    return !a->has_parent_execution ||
           memcmp(a->parent_execution, i->lock_execution, EXECUTION_ID_SIZE) == 0;
}

bool entity_lock_set(struct instance *i, const struct event *request)
{
    struct event_entity entity;
    assert(i->lock == NULL);
    if (event_entity_decode(event_bytes(request), &i->core->temporary, &entity) != OK) return false;
    if (entity.kind != EVENT_ENTITY_LOCK_REQUESTED || !entity.has_parent_execution) return false;
    i->lock = request;
    i->lock_section = entity.section;
    i->lock_parent = entity.parent;
    memcpy(i->lock_execution, entity.parent_execution, EXECUTION_ID_SIZE);
    return true;
}

static void entity_lock_clear(struct instance *i)
{
    assert(i->lock != NULL);
    i->lock = NULL;
    i->lock_section = BYTES_NONE;
    i->lock_parent = BYTES_NONE;
    memset(i->lock_execution, 0, EXECUTION_ID_SIZE);
}

bool entity_is_locked_by(const struct instance *i, const struct event_entity *unlock)
{
    return i->lock != NULL && bytes_equal(unlock->section, i->lock_section) && is_of(unlock, i);
}

static bool is_call_of_holder(const struct instance *i, const struct event *event)
{
    struct event_entity entity;
    if (i->lock == NULL || event->kind != EVENT_ENTITY_CALLED) return false;
    enum status status = event_entity_decode(event_bytes(event), &i->core->temporary, &entity);
    assert(status == OK); /* checked when it came */
    return is_of(&entity, i);
}

static bool is_request_of(struct core *c, const struct event *event,
                          const struct event_entity *unlock)
{
    struct event_entity request;
    if (event->kind != EVENT_ENTITY_LOCK_REQUESTED) return false;
    enum status status = event_entity_decode(event_bytes(event), &c->temporary, &request);
    assert(status == OK);
    return bytes_equal(request.section, unlock->section) &&
           bytes_equal(request.parent, unlock->parent) &&
           (!unlock->has_parent_execution ||
            memcmp(request.parent_execution, unlock->parent_execution, EXECUTION_ID_SIZE) == 0);
}

const struct event *entity_request_of(const struct instance *i, const struct event_entity *unlock)
{
    for (const struct event *e = i->inbox.first; e != NULL; e = e->next) {
        if (is_request_of(i->core, e, unlock)) return e;
    }
    return NULL;
}

/* ---- applying ---- */

void entity_create(struct instance *i, const struct record *record)
{
    assert(i->inbox.n == 0);
    assert(i->history.n == 0);
    assert(i->delayed == NULL);
    assert(i->lock == NULL);
    assert(!i->state.has);
    i->is_entity = true;
    i->status = STATUS_RUNNING; /* says nothing, but is no end */
    i->created_ns = record->now_ns;
    memcpy(i->execution_id, record->execution_id, EXECUTION_ID_SIZE);
}

void entity_delay(struct instance *i, struct event *event, int64_t at_ms)
{
    struct delayed *delayed = arena_alloc_zero(&i->arena, sizeof *delayed);
    assert(delayed != NULL);
    delayed->event = event;
    delayed->at_ms = at_ms;
    struct delayed **at = &i->delayed;
    while (*at != NULL && (*at)->at_ms <= at_ms) at = &(*at)->next;
    delayed->next = *at;
    *at = delayed;
    assert(delayed->next == NULL || delayed->next->at_ms > at_ms); /* equal ones as they came */
    i->delayed_n++;
    i->delayed_size += event->len;
}

void entity_message(struct instance *i, const struct record *record)
{
    struct event *event = event_must(i, record->event);
    uint32_t backlog_n = entity_backlog_n(i);
    if (record->start_at_ms != 0)
        entity_delay(i, event, record->start_at_ms);
    else
        event_list_add(is_call_of_holder(i, event) ? &i->held : &i->inbox, event);
    assert(entity_backlog_n(i) == backlog_n + 1);
}

void entity_lock(struct instance *i)
{
    assert(entity_lock_is_due(i));
    assert(i->held.n == 0);
    struct event *request = event_list_pop(&i->inbox);
    uint32_t rest_n = i->inbox.n;
    bool is_set = entity_lock_set(i, request);
    assert(is_set); /* checked when it came */
    /* what the holder called before it had the lock */
    struct event_list rest = i->inbox;
    i->inbox = (struct event_list){0};
    while (rest.n > 0) {
        struct event *e = event_list_pop(&rest);
        event_list_add(is_call_of_holder(i, e) ? &i->held : &i->inbox, e);
    }
    assert(i->inbox.n + i->held.n == rest_n);
}

static void events_move(struct event_list *to, struct event_list *from)
{
    uint32_t n = to->n + from->n;
    while (from->n > 0) event_list_add(to, event_list_pop(from));
    assert(to->n == n);
}

void entity_unlock(struct instance *i, const struct record *record)
{
    struct event_entity unlock;
    enum status status = event_entity_decode(record->event, &i->core->temporary, &unlock);
    assert(status == OK);
    if (entity_is_locked_by(i, &unlock)) {
        struct event_list rest = i->inbox;
        entity_lock_clear(i);
        i->inbox = i->held;
        i->held = (struct event_list){0};
        events_move(&i->inbox, &rest);
        assert(!i->is_leased || i->lease_inbox_n <= i->inbox.n); /* what is out stands first */
    }
    assert(!entity_is_locked_by(i, &unlock));
    struct event_list all = i->inbox;
    uint32_t all_n = all.n;
    i->inbox = (struct event_list){0};
    while (all.n > 0) {
        struct event *e = event_list_pop(&all);
        if (!is_request_of(i->core, e, &unlock)) event_list_add(&i->inbox, e);
    }
    assert(i->inbox.n <= all_n);
    assert(i->lock != NULL || i->held.n == 0);
}

void entity_due(struct instance *i, uint32_t n)
{
    uint32_t backlog_n = entity_backlog_n(i);
    assert(n <= i->delayed_n);
    for (; n > 0; n--) {
        struct delayed *first = i->delayed;
        i->delayed = first->next;
        i->delayed_n--;
        i->delayed_size -= first->event->len;
        event_list_add(&i->inbox, first->event);
    }
    assert((i->delayed == NULL) == (i->delayed_n == 0));
    assert((i->delayed_size == 0) == (i->delayed_n == 0));
    assert(entity_backlog_n(i) == backlog_n); /* they have only moved */
}

/* ---- memory ---- */

#define KEEP_SIZE ((size_t)8 << 10) /* of an arena that is not worth the trouble */

static size_t live_size(const struct instance *i)
{
    size_t n = entity_backlog_n(i) + (size_t)1;
    return i->state.value.len + entity_backlog_size(i) + i->last_error.len +
           (i->lock == NULL ? 0 : i->lock->len) +
           n * (sizeof(struct event) + sizeof(struct delayed) + 16);
}

size_t entity_move_size(const struct instance *i)
{
    return i->arena.size > KEEP_SIZE + 4 * live_size(i) ? 2 * live_size(i) + 4096 : 0;
}

static void list_move(struct instance *i, struct event_list *list)
{
    struct event_list old = *list;
    *list = (struct event_list){0};
    for (const struct event *e = old.first; e != NULL; e = e->next) {
        event_list_add(list, event_must(i, event_bytes(e)));
    }
    assert(list->n == old.n);
    assert(list->size == old.size);
}

static void entity_move(struct instance *i)
{
    struct arena old = i->arena;
    const struct delayed *delayed = i->delayed;
    const struct event *lock = i->lock;
    uint32_t backlog_n = entity_backlog_n(i);
    size_t backlog_size = entity_backlog_size(i);

    arena_init(&i->arena, i->core->mem, 512);
    if (i->state.has) i->state.value = copy_must(&i->arena, i->state.value);
    i->last_error = copy_must(&i->arena, i->last_error);
    i->error_room = NULL;
    list_move(i, &i->inbox);
    list_move(i, &i->held);
    i->delayed = NULL;
    i->delayed_n = 0;
    i->delayed_size = 0;
    for (; delayed != NULL; delayed = delayed->next) {
        entity_delay(i, event_must(i, event_bytes(delayed->event)), delayed->at_ms);
    }
    if (lock != NULL) {
        entity_lock_clear(i);
        bool is_set = entity_lock_set(i, event_must(i, event_bytes(lock)));
        assert(is_set);
    }
    assert((i->lock != NULL) == (lock != NULL));
    assert(entity_backlog_n(i) == backlog_n);
    assert(entity_backlog_size(i) == backlog_size);
    assert(i->arena.size < old.size); /* or it would move again at once */
    arena_release(&old);
}

void entity_batch(struct instance *i, const struct record *record)
{
    struct event_list *operations = entity_operations(i);
    assert(record->consumed_n <= operations->n);
    for (uint32_t n = 0; n < record->consumed_n; n++) {
        assert(operations->first->kind != EVENT_ENTITY_LOCK_REQUESTED);
        (void)event_list_pop(operations);
    }
    const struct maybe *state = &record->custom_status;
    if (!state->has)
        i->state = MAYBE_NONE;
    else if (!i->state.has || !bytes_equal(i->state.value, state->value))
        i->state = maybe_some(copy_must(&i->arena, state->value));
    i->turns++;
    i->is_leased = false;
    i->worker = 0;
    i->failures = 0;
    i->retry_at_ms = 0;
    i->core->stats.entity_batches++;
    if (entity_move_size(i) > 0) entity_move(i);
}

/* ---- time ---- */

/* Asked with every message: only the front is looked at. */
static bool batch_is_wanted(const struct instance *i)
{
    if (i->is_leased || i->is_poisoned) return false;
    const struct event *first = entity_operations((struct instance *)i)->first;
    return first != NULL && first->kind != EVENT_ENTITY_LOCK_REQUESTED;
}

/* In the queue, or due for the next try, or neither; and due when a signal's time comes. */
void entity_schedule(struct instance *i)
{
    struct core *c = i->core;
    int64_t due_ms = i->delayed == NULL ? INT64_MAX : i->delayed->at_ms;
    bool is_wanted = batch_is_wanted(i);

    due_clear(c, &i->due);
    /* Its lock is taken in the same step; after a recovery that ended in between, by the clock. */
    if (entity_lock_is_due(i)) due_ms = now_ms(c);
    if (is_wanted && i->retry_at_ms <= now_ms(c)) {
        if (i->queue == NULL) queue_add_turn(i);
    } else {
        queue_remove_turn(i);
        if (is_wanted && i->retry_at_ms < due_ms) due_ms = i->retry_at_ms;
    }
    if (due_ms != INT64_MAX) due_set(c, &i->due, DUE_ENTITY, due_ms);
    assert((i->queue != NULL) == (is_wanted && i->retry_at_ms <= now_ms(c)));
    assert(i->delayed == NULL || i->due.node.is_linked);
    assert(!is_wanted || i->queue != NULL || i->due.node.is_linked);
}
