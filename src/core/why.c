/* SPDX-License-Identifier: Apache-2.0
 *
 * Why an instance is where it is, in words, and its open steps: what an operator asks first.
 */
#include "core/state.h"

#include "base/text.h"

static uint32_t count_items(const struct instance *i, enum item_kind kind)
{
    uint32_t n = 0;
    for (struct list *m = list_first(&i->items); m != NULL; m = list_next(&i->items, m)) {
        if (container_of(m, struct item, of_instance)->kind == kind) n++;
    }
    return n;
}

static const struct item *parked_item(const struct instance *i)
{
    for (struct list *m = list_first(&i->items); m != NULL; m = list_next(&i->items, m)) {
        const struct item *item = container_of(m, struct item, of_instance);
        if (item->kind == ITEM_TASK && item->state == TASK_STATE_PARKED) return item;
    }
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
    buffer_format(out, "entity %s state: ", i->state.has ? "with" : "without");
    if (i->is_poisoned) {
        buffer_format(out, "parked: %.*s; resume it when the cause is mended",
                      (int)i->park_reason.len, (const char *)i->park_reason.ptr);
    } else if (i->is_leased) {
        buffer_format(out, "%u operations run on worker %u", i->lease_inbox_n, i->worker);
    } else if (i->queue != NULL) {
        buffer_format(out, "%u operations wait for a worker", entity_batch_n(i));
    } else if (entity_batch_n(i) > 0) {
        buffer_format(out, "its batch failed %u times and is tried again at %lld ms", i->failures,
                      (long long)i->retry_at_ms);
    } else {
        buffer_format(out, "nothing to do");
    }
    if (i->lock != NULL) {
        buffer_format(out, "; locked by %.*s, %u others wait", (int)i->lock_parent.len,
                      (const char *)i->lock_parent.ptr, i->inbox.n);
    }
    if (i->delayed != NULL) {
        buffer_format(out, "; %u signals wait for their time, the first at %lld ms", i->delayed_n,
                      (long long)i->delayed->at_ms);
    }
}

static void why_open(const struct instance *i, struct buffer *out)
{
    const struct item *parked = parked_item(i);
    if (parked != NULL) {
        buffer_format(out,
                      "step %d waits for an operator: %.*s; resubmit it when the cause is mended",
                      parked->id, (int)i->park_reason.len, (const char *)i->park_reason.ptr);
        return;
    }
    uint32_t tasks = count_items(i, ITEM_TASK);
    uint32_t timers = count_items(i, ITEM_TIMER);
    uint32_t children = count_items(i, ITEM_CHILD);
    uint32_t calls = count_items(i, ITEM_CALL);
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
    buffer_format(out, "waits for %u activities, %u timers, %u sub-orchestrations", tasks, timers,
                  children);
    if (calls > 0) buffer_format(out, ", %u entity calls", calls);
    int64_t wake_ms = instance_wake_ms(i);
    if (wake_ms != 0 && wake_ms != INT64_MAX)
        buffer_format(out, "; next timer at %lld ms", (long long)wake_ms);
}

static void why_turn(const struct instance *i, struct buffer *out)
{
    assert(!instance_is_terminal(i));
    assert(!i->is_suspended);
    if (i->is_leased) {
        buffer_format(out, "its orchestrator runs on worker %u with %u new events", i->worker,
                      i->lease_inbox_n);
    } else if (i->due.node.is_linked && i->due.kind == DUE_START) {
        buffer_format(out, "starts at %lld ms", (long long)i->start_at_ms);
    } else if (i->due.node.is_linked) {
        buffer_format(out, "its turn failed %u times and is tried again at %lld ms", i->failures,
                      (long long)i->retry_at_ms);
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
                      (int)i->park_reason.len, (const char *)i->park_reason.ptr);
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
        };
        enum status status = fn(user, &view);
        if (status != OK) return status;
    }
    return OK;
}
