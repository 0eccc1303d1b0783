/* SPDX-License-Identifier: Apache-2.0
 *
 * How executions end and begin again without their orchestrator: terminate, fail for a reason of
 * the engine, rewind; and telling the parent, whoever ended the child.
 *
 * The engine's own turns need no worker: they work when none is connected, and end what no worker
 * can end.
 */
#include "core/limits.h"
#include "core/state.h"

void message_add(struct instance *i, struct bytes event)
{
    struct record record = {.kind = RECORD_MESSAGE, .key = i->key, .event = event};
    assert(!instance_is_terminal(i));
    assert(event.len > 0);
    assert(!i->core->scratch.failed); /* where most are written */
    emit(i->core, &record);
}

struct bytes sibling_key(struct core *c, struct bytes key, struct bytes id)
{
    struct bytes hub = key_hub(key);
    uint8_t *other = arena_alloc(&c->temporary, hub.len + 1 + id.len);
    assert(other != NULL);
    memcpy(other, hub.ptr, hub.len);
    other[hub.len] = '/';
    if (id.len > 0) memcpy(other + hub.len + 1, id.ptr, id.len);
    return bytes_make(other, hub.len + 1 + id.len);
}

/* A turn of the engine itself: these events, and ExecutionStarted before them when it was still
 * unread. */
static void engine_turn(struct instance *i, struct bytes events)
{
    struct record record = {
        .kind = RECORD_TURN,
        .key = i->key,
        .started_ns = i->core->now_ns,
        .consumed_n = instance_has_started(i) ? 0 : 1,
        .is_engine = true,
        .events = events,
    };
    assert(!instance_is_terminal(i));
    assert(record.consumed_n <= i->inbox.n);
    assert(events.len > 0);
    assert(!i->is_entity);
    emit(i->core, &record);
    assert(instance_has_started(i));
    assert(!i->is_leased); /* what a worker has of it is stale */
}

static struct bytes packed_event(struct core *c, struct buffer *event)
{
    assert(!event->failed);
    buffer_clear(&c->events);
    strings_add(&c->events, buffer_view(event));
    assert(!c->events.failed);
    return buffer_view(&c->events);
}

void ending_suspend(struct instance *i, struct maybe reason)
{
    struct core *c = i->core;
    assert(instance_has_started(i)); /* else the suspension is a message, read after the start */
    assert(!i->is_suspended);
    buffer_clear(&c->scratch);
    event_write_suspended(&c->scratch, c->now_ns, reason);
    engine_turn(i, packed_event(c, &c->scratch));
    assert(i->is_suspended);
}

static void child_result_write(struct buffer *out, const struct instance *i)
{
    struct event_completed completed;
    enum status status = event_completed_decode(event_bytes(i->completed), &completed);
    assert(status == OK);
    assert(status_is_end(completed.status));
    assert(i->has_parent);
    int64_t now_ns = i->core->now_ns;
    if (completed.status == STATUS_COMPLETED) {
        event_write_child_completed(out, now_ns, i->parent.task_id, completed.result);
    } else if (completed.failure.has) {
        event_write_child_failed(out, now_ns, i->parent.task_id, completed.failure.value);
    } else {
        struct buffer failure;
        buffer_init(&failure, out->mem);
        failure_write(&failure, "SubOrchestrationTerminated",
                      BYTES_LITERAL("the sub-orchestration was terminated"), false);
        assert(!failure.failed);
        event_write_child_failed(out, now_ns, i->parent.task_id, buffer_view(&failure));
        buffer_release(&failure);
    }
}

void ending_tell_parent(struct instance *i)
{
    struct core *c = i->core;
    assert(instance_is_terminal(i));
    if (!i->has_parent) return;
    buffer_clear(&c->scratch);
    child_result_write(&c->scratch, i);
    assert(!c->scratch.failed);
    struct bytes execution = BYTES_NONE;
    if (i->parent.has_execution_id) {
        execution = bytes_make(i->parent.execution_id, EXECUTION_ID_SIZE);
    }
    outbox_send(c, MESSAGE_CHILD_DONE, sibling_key(c, i->key, i->parent.instance_id), execution,
                buffer_view(&c->scratch));
}

void ending_finish(struct instance *i)
{
    assert(instance_is_terminal(i));
    assert(!i->is_purged);
    locks_release(i);
    ending_tell_parent(i);
    replies_ended(i);
}

void ending_terminate_children(struct instance *i, struct maybe output)
{
    struct core *c = i->core;
    for (const struct event *e = i->history.first; e != NULL; e = e->next) {
        struct event_scheduled child;
        if (e->kind != EVENT_CHILD_CREATED) continue;
        enum status status = event_scheduled_decode(event_bytes(e), &c->temporary, &child);
        assert(status == OK);
        buffer_clear(&c->scratch);
        event_write_terminated(&c->scratch, c->now_ns, output, true);
        assert(!c->scratch.failed);
        outbox_send(c, MESSAGE_TERMINATE, sibling_key(c, i->key, child.instance_id),
                    bytes_make(i->execution_id, EXECUTION_ID_SIZE), buffer_view(&c->scratch));
    }
}

void ending_terminate(struct instance *i, struct maybe output, bool recurse)
{
    struct core *c = i->core;
    struct event_completed completed = {.status = STATUS_TERMINATED, .result = output};
    assert(!instance_is_terminal(i));

    buffer_clear(&c->events);
    buffer_clear(&c->scratch);
    event_write_terminated(&c->scratch, c->now_ns, output, recurse);
    strings_add(&c->events, buffer_view(&c->scratch));
    buffer_clear(&c->scratch);
    event_write_execution_completed(&c->scratch, c->now_ns, -1, &completed);
    strings_add(&c->events, buffer_view(&c->scratch));
    assert(!c->events.failed);
    engine_turn(i, buffer_view(&c->events));
    assert(i->status == STATUS_TERMINATED);
    if (recurse) ending_terminate_children(i, output);
    ending_finish(i);
}

void ending_fail(struct instance *i, const char *type, const char *text)
{
    struct core *c = i->core;
    struct buffer failure;
    assert(!instance_is_terminal(i));

    buffer_init(&failure, c->mem);
    failure_write(&failure, type, bytes_of_text(text), true);
    assert(!failure.failed);
    struct event_completed completed = {
        .status = STATUS_FAILED,
        .failure = maybe_some(buffer_view(&failure)),
    };
    buffer_clear(&c->scratch);
    event_write_execution_completed(&c->scratch, c->now_ns, -1, &completed);
    engine_turn(i, packed_event(c, &c->scratch));
    assert(i->status == STATUS_FAILED);
    buffer_release(&failure);
    ending_finish(i);
}

/* The start of a child: what its creation says, with the parent's present execution. */
void child_started_write(struct buffer *out, const struct instance *parent,
                         const struct event_scheduled *child, int32_t task_id)
{
    struct core *c = parent->core;
    assert(parent->started != NULL);
    assert(task_id >= 0);
    struct event_started started = {
        .name = child->name,
        .version = child->version,
        .input = child->input,
        .instance_id = child->instance_id,
        .has_parent = true,
        .trace = child->trace,
        .tags = child->tags,
    };
    new_execution_id(c, started.execution_id);
    started.parent = (struct event_parent){
        .task_id = task_id,
        .instance_id = key_id(parent->key),
        .has_execution_id = true,
        .name = maybe_some(parent->name),
        .version = parent->version,
    };
    memcpy(started.parent.execution_id, parent->execution_id, EXECUTION_ID_SIZE);
    event_started_write(out, c->now_ns, &started);
}

static void rewind_children(struct instance *i)
{
    struct core *c = i->core;
    for (struct list *n = list_first(&i->items); n != NULL; n = list_next(&i->items, n)) {
        const struct item *item = container_of(n, struct item, of_instance);
        struct event_scheduled child;
        if (item->kind != ITEM_CHILD) continue;
        assert(item->created->kind == EVENT_CHILD_CREATED);
        enum status status =
            event_scheduled_decode(event_bytes(item->created), &c->temporary, &child);
        assert(status == OK);
        buffer_clear(&c->scratch);
        child_started_write(&c->scratch, i, &child, item->id);
        assert(!c->scratch.failed);
        outbox_send(c, MESSAGE_REWIND_CHILD, sibling_key(c, i->key, child.instance_id), BYTES_NONE,
                    buffer_view(&c->scratch));
    }
}

bool ending_has_undone(const struct instance *i)
{
    for (const struct event *e = i->history.first; e != NULL; e = e->next) {
        struct event_scheduled scheduled;
        if (e->kind != EVENT_TASK_SCHEDULED) continue;
        if (event_scheduled_decode(event_bytes(e), &i->core->temporary, &scheduled) != OK) continue;
        if (tags_have(scheduled.tags, BYTES_LITERAL(TAG_UNDO))) return true;
    }
    return false;
}

void ending_rewind(struct instance *i, struct maybe reason, struct bytes parent_execution)
{
    struct core *c = i->core;
    struct record record = {
        .kind = RECORD_REWOUND,
        .key = i->key,
        .peer_execution = parent_execution,
    };
    assert(i->status == STATUS_FAILED);
    assert(parent_execution.len == 0 || parent_execution.len == EXECUTION_ID_SIZE);
    new_execution_id(c, record.execution_id);
    buffer_clear(&c->scratch);
    event_write_rewound(&c->scratch, c->now_ns, reason);
    assert(!c->scratch.failed);
    record.event = buffer_view(&c->scratch);
    emit(c, &record);
    assert(!instance_is_terminal(i));
    assert(i->status == STATUS_RUNNING);
    rewind_children(i);
    locks_ask_again(i);
}
