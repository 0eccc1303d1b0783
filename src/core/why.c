/* SPDX-License-Identifier: Apache-2.0
 *
 * Why an instance is where it is, in words, its open steps and what else it waits for: what an
 * operator asks first.
 */
#include "core/state.h"

#include "base/text.h"

static uint32_t count_items(const struct instance *i, enum item_kind kind)
{
    uint32_t n = 0;
    for (struct list *m = list_first(&i->items); m != NULL; m = list_next(&i->items, m)) {
        if (container_of(m, struct item, of_instance)->kind == kind) n++;
    }
    assert(n <= i->items_n);
    return n;
}

static const struct item *parked_item(const struct instance *i)
{
    for (struct list *m = list_first(&i->items); m != NULL; m = list_next(&i->items, m)) {
        const struct item *item = container_of(m, struct item, of_instance);
        if (item->kind == ITEM_TASK && item->state == TASK_STATE_PARKED) return item;
    }
    assert(i->parked_n == 0);
    return NULL;
}

/* A lock that was asked for and not granted. */
static const struct event *open_lock(const struct instance *i)
{
    if (i->locks_n == 0) return NULL;
    for (const struct event *e = i->history.first; e != NULL; e = e->next) {
        if (e->kind != EVENT_ENTITY_LOCK_REQUESTED) continue;
        if (!locks_is_granted(i, event_entity_id(event_bytes(e)))) return e;
    }
    return NULL;
}

static void why_entity(const struct instance *i, struct buffer *out)
{
    assert(i->is_entity);
    assert(!i->is_leased || i->lease_inbox_n > 0);
    assert(i->queue == NULL || entity_batch_n(i) > 0);
    buffer_format(out, "entity %s state: ", i->state.has ? "with" : "without");
    if (i->is_poisoned) {
        buffer_format(out, "parked: %.*s; resume it when the cause is mended",
                      (int)i->last_error.len, (const char *)i->last_error.ptr);
    } else if (i->is_leased) {
        buffer_format(out, "%u operations run on worker %u", i->lease_inbox_n, i->worker);
    } else if (i->queue != NULL) {
        buffer_format(out, "%u operations wait for a worker", entity_batch_n(i));
    } else if (entity_batch_n(i) > 0) {
        buffer_format(out, "its batch failed %u times and is tried again at ", i->failures);
        buffer_time(out, i->retry_at_ms);
    } else {
        buffer_format(out, "nothing to do");
    }
    if (i->lock != NULL) {
        buffer_format(out, "; locked by %.*s, %u others wait", (int)i->lock_parent.len,
                      (const char *)i->lock_parent.ptr, i->inbox.n);
    }
    if (i->delayed != NULL) {
        buffer_format(out, "; %u signals wait for their time, the first at ", i->delayed_n);
        buffer_time(out, i->delayed->at_ms);
    }
}

static uint32_t attempts_of(const struct item *item)
{
    const struct policy *policy = policy_of(item);
    assert(item->kind == ITEM_TASK);
    uint32_t first = policy->first_threshold;
    return (first > policy->second_threshold ? first : policy->second_threshold) + 1;
}

/* The one that failed most often; NULL without tasks. */
static const struct item *worst_task(const struct instance *i)
{
    const struct item *worst = NULL;
    for (struct list *m = list_first(&i->items); m != NULL; m = list_next(&i->items, m)) {
        const struct item *item = container_of(m, struct item, of_instance);
        if (item->kind != ITEM_TASK) continue;
        if (worst == NULL || item->failures > worst->failures) worst = item;
    }
    return worst;
}

static int64_t next_timer_ms(const struct instance *i)
{
    int64_t at_ms = INT64_MAX;
    for (struct list *m = list_first(&i->items); m != NULL; m = list_next(&i->items, m)) {
        const struct item *item = container_of(m, struct item, of_instance);
        assert(item->kind != ITEM_TIMER || item->due.node.is_linked);
        if (item->kind == ITEM_TIMER && item->due.node.key < at_ms) at_ms = item->due.node.key;
    }
    return at_ms;
}

/* step 3 "charge": attempt 3 of 20, ... */
static void why_step(const struct item *item, struct buffer *out)
{
    struct event_scheduled scheduled = {0};
    assert(item->kind == ITEM_TASK);
    (void)event_scheduled_decode(event_bytes(item->created), &item->instance->core->temporary,
                                 &scheduled);
    buffer_format(out, "step %d \"%.*s\": attempt %u of %u", item->id, (int)scheduled.name.len,
                  (const char *)scheduled.name.ptr, item->failures + 1, attempts_of(item));
    if (item->state == TASK_STATE_LEASED) {
        buffer_format(out, " runs on worker %u", item->worker);
        if (item->complete_by_ms != 0) {
            buffer_format(out, " until ");
            buffer_time(out, item->complete_by_ms);
        }
    } else if (item->state == TASK_STATE_WAITING) {
        buffer_format(out, ", next try at ");
        buffer_time(out, item->retry_at_ms);
    } else {
        buffer_format(out, " waits for a worker");
    }
}

static void why_open(const struct instance *i, struct buffer *out)
{
    const struct item *parked = parked_item(i);
    assert(i->queue == NULL); /* see core_why() */
    assert(!i->is_leased);
    if (parked != NULL) {
        buffer_format(out,
                      "step %d waits for an operator: %.*s; resubmit it when the cause is mended",
                      parked->id, (int)i->last_error.len, (const char *)i->last_error.ptr);
        return;
    }
    uint32_t tasks = count_items(i, ITEM_TASK);
    uint32_t timers = count_items(i, ITEM_TIMER);
    uint32_t children = count_items(i, ITEM_CHILD);
    uint32_t calls = count_items(i, ITEM_CALL);
    assert(tasks + timers + children + calls == i->items_n);
    const struct event *lock = open_lock(i);
    if (lock != NULL) {
        struct bytes section = event_entity_id(event_bytes(lock));
        buffer_format(out, "waits for the locks of critical section %.*s", (int)section.len,
                      (const char *)section.ptr);
        return;
    }
    if (tasks + timers + children + calls == 0) {
        buffer_format(out, "waits for an external event: nothing is under way");
        return;
    }
    if (tasks == 1 && timers + children + calls == 0) {
        buffer_format(out, "waits for ");
        why_step(worst_task(i), out);
        return;
    }
    buffer_format(out, "waits for %u activities, %u timers, %u sub-orchestrations", tasks, timers,
                  children);
    if (calls > 0) buffer_format(out, ", %u entity calls", calls);
    int64_t fire_at_ms = next_timer_ms(i);
    if (fire_at_ms != INT64_MAX) {
        buffer_format(out, "; next timer at ");
        buffer_time(out, fire_at_ms);
    }
    const struct item *worst = worst_task(i);
    if (worst == NULL || worst->failures == 0) return;
    buffer_format(out, "; ");
    why_step(worst, out);
}

static void why_turn(const struct instance *i, struct buffer *out)
{
    assert(!instance_is_terminal(i));
    assert(!i->is_suspended);
    assert(!i->is_poisoned);
    assert(i->is_leased || i->queue != NULL || i->due.node.is_linked);
    if (i->is_leased) {
        buffer_format(out, "its orchestrator runs on worker %u with %u new events", i->worker,
                      i->lease_inbox_n);
    } else if (i->due.node.is_linked && i->due.kind == DUE_START) {
        assert(i->start_at_ms == i->due.node.key);
        buffer_format(out, "starts at ");
        buffer_time(out, i->start_at_ms);
    } else if (i->due.node.is_linked) {
        buffer_format(out, "its turn failed %u times and is tried again at ", i->failures);
        buffer_time(out, i->retry_at_ms);
    } else {
        buffer_format(out, "%u new events wait for a worker of \"%.*s\"", i->inbox.n,
                      (int)i->name.len, (const char *)i->name.ptr);
    }
}

bool core_why(const struct core *c, struct bytes key, struct buffer *out)
{
    const struct instance *i = instance_find_live(c, key);
    if (i == NULL) return false;
    if (i->is_entity) {
        why_entity(i, out);
        return true;
    }
    buffer_format(out, "%s: ", orchestration_status_name(instance_status(i)));
    if (instance_is_terminal(i)) {
        buffer_format(out, "it has ended; %u messages were left unread", i->inbox.n);
    } else if (i->is_poisoned) {
        buffer_format(out, "parked: %.*s; resume it when the cause is mended",
                      (int)i->last_error.len, (const char *)i->last_error.ptr);
    } else if (i->is_suspended) {
        buffer_format(out, "suspended with %u messages waiting; resume it to go on", i->inbox.n);
    } else if (i->is_leased || i->queue != NULL || i->due.node.is_linked) {
        why_turn(i, out);
    } else {
        why_open(i, out);
    }
    return true;
}

static enum task_process process_of(enum task_state state)
{
    switch (state) {
    case TASK_STATE_LEASED: return TASK_PROCESSING;
    case TASK_STATE_WAITING: return TASK_WAITING;
    case TASK_STATE_PARKED: return TASK_ERROR;
    case TASK_STATE_QUEUED: return TASK_PENDING;
    case TASK_STATE_NONE: break;
    }
    unreachable("an open task is in some state");
}

enum status core_tasks(const struct core *c, struct bytes key, core_task_fn *fn, void *user)
{
    const struct instance *i = instance_find_live(c, key);
    if (i == NULL) return E_NOT_FOUND;
    for (struct list *m = list_first(&i->items); m != NULL; m = list_next(&i->items, m)) {
        const struct item *item = container_of(m, struct item, of_instance);
        struct event_scheduled scheduled;
        if (item->kind != ITEM_TASK) continue;
        if (event_scheduled_decode(event_bytes(item->created), (struct arena *)&c->temporary,
                                   &scheduled) != OK) {
            return E_CORRUPT;
        }
        struct task_view view = {
            .task_id = item->id,
            .name = scheduled.name,
            .process = process_of(item->state),
            .locked_by = item->worker,
            .complete_by_ms = item->complete_by_ms,
            .failures = item->failures,
            .retry_at_ms = item->state == TASK_STATE_WAITING ? item->retry_at_ms : 0,
            .attempts_n = attempts_of(item),
            .queue = item->queue == NULL ? BYTES_NONE : item->queue->key,
        };
        enum status status = fn(user, &view);
        if (status != OK) return status;
    }
    return OK;
}

static enum status tell_wait(const struct item *item, core_wait_fn *fn, void *user)
{
    struct arena *arena = &item->instance->core->temporary;
    struct wait_view view = {.kind = WAIT_TIMER, .id = item->id};
    struct event_scheduled child;
    struct event_entity call;
    enum status status = OK;
    assert(item->kind != ITEM_TASK);
    if (item->kind == ITEM_TIMER) {
        assert(item->due.kind == DUE_TIMER);
        view.fire_at_ms = item->due.node.key;
    } else if (item->kind == ITEM_CHILD) {
        status = event_scheduled_decode(event_bytes(item->created), arena, &child);
        if (status != OK) return status;
        view.kind = WAIT_CHILD;
        view.instance = child.instance_id;
    } else {
        assert(item->kind == ITEM_CALL);
        status = event_entity_decode(event_bytes(item->created), arena, &call);
        if (status != OK) return status;
        view.kind = WAIT_ENTITY;
        view.instance = call.target;
    }
    return fn(user, &view);
}

enum status core_waits(const struct core *c, struct bytes key, core_wait_fn *fn, void *user)
{
    const struct instance *i = instance_find_live(c, key);
    enum status status = OK;
    if (i == NULL) return E_NOT_FOUND;
    for (struct list *m = list_first(&i->items); m != NULL && status == OK;
         m = list_next(&i->items, m)) {
        const struct item *item = container_of(m, struct item, of_instance);
        if (item->kind != ITEM_TASK) status = tell_wait(item, fn, user);
    }
    return status;
}

struct bytes core_turn_queue(const struct core *c, struct bytes key)
{
    const struct instance *i = instance_find_live(c, key);
    return i == NULL || i->queue == NULL ? BYTES_NONE : i->queue->key;
}

/* Something is tried again, or waits for an operator. */
static bool is_failing(const struct instance *i)
{
    const struct item *worst = worst_task(i);
    assert(!instance_is_terminal(i));
    assert(worst != NULL || i->parked_n == 0);
    return instance_is_parked(i) || i->failures > 0 || (worst != NULL && worst->failures > 0);
}

static struct bytes last_failure(const struct event_list *list)
{
    const struct event *last = NULL;
    for (const struct event *e = list->first; e != NULL; e = e->next) {
        if (e->kind == EVENT_TASK_FAILED || e->kind == EVENT_CHILD_FAILED) last = e;
    }
    return last == NULL ? BYTES_NONE : event_failure_message(event_bytes(last));
}

struct bytes core_last_error(const struct core *c, struct bytes key)
{
    const struct instance *i = instance_find_live(c, key);
    struct event_completed completed;
    if (i == NULL) return BYTES_NONE;
    if (!instance_is_terminal(i)) {
        struct bytes unread = last_failure(&i->inbox);
        if (is_failing(i)) return i->last_error;
        return unread.len > 0 ? unread : last_failure(&i->history);
    }
    if (event_completed_decode(event_bytes(i->completed), &completed) != OK) return BYTES_NONE;
    return completed.failure.has ? failure_message(completed.failure.value) : BYTES_NONE;
}
