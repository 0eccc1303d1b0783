/* SPDX-License-Identifier: Apache-2.0
 *
 * Queues of work that waits for a worker: one for each hub, kind, name and version, first come
 * first served. Volatile: after a crash they are filled again from the instances.
 */
#include "core/state.h"

#include "base/mem.h"
#include "base/planted.h"

void queue_key(struct buffer *out, enum work_kind kind, struct bytes hub, struct bytes name,
               struct bytes version)
{
    buffer_u8(out, (uint8_t)kind);
    buffer_bytes(out, hub);
    buffer_bytes(out, name);
    buffer_bytes(out, version);
}

struct work_queue *queue_find(const struct core *c, enum work_kind kind, struct bytes key)
{
    assert((unsigned)kind < WORK_KINDS_N);
    struct work_queue *recent = c->recent_queues[kind];
    if (recent != NULL && bytes_equal(recent->key, key)) return recent;
    struct map_node *node = map_find(&c->queues, key);
    return node == NULL ? NULL : container_of(node, struct work_queue, node);
}

static void queue_set_key(struct work_queue *q, struct bytes key)
{
    memcpy(q + 1, key.ptr, key.len);
    q->key = bytes_make(q + 1, key.len);
    q->node.key = q->key;
    struct reader r = reader_make(q->key);
    uint8_t kind = reader_u8(&r);
    assert(kind == q->kind);
    q->hub = reader_bytes(&r);
    q->name = reader_bytes(&r);
    q->version = reader_bytes(&r);
    assert(reader_is_done(&r));
}

static struct work_queue *queue_obtain(struct core *c, enum work_kind kind, struct bytes key)
{
    struct work_queue *q = queue_find(c, kind, key);
    assert(key.len > 0);
    assert(q == NULL || q->kind == kind);
    if (q != NULL) return q;
    q = mem_take_zero(c->mem, sizeof *q + key.len);
    assert(q != NULL);
    q->kind = kind;
    queue_set_key(q, key);
    list_init(&q->members);
    list_push_back(&c->all_queues, &q->all);
    map_insert(&c->queues, &q->node);
    return q;
}

static void queue_free(struct core *c, struct work_queue *q)
{
    assert(q->n == 0);
    assert(list_is_empty(&q->members));
    if (c->recent_queues[q->kind] == q) c->recent_queues[q->kind] = NULL;
    map_remove(&c->queues, &q->node);
    list_remove(&q->all);
    mem_give(c->mem, q, sizeof *q + q->key.len);
}

void queues_release(struct core *c)
{
    while (!list_is_empty(&c->all_queues)) {
        queue_free(c, container_of(list_first(&c->all_queues), struct work_queue, all));
    }
    assert(c->queues.n == 0);
}

/* A few empty queues are kept: names come back. */
#define EMPTY_QUEUES_MAX 1024u

static void queue_release_if_empty(struct core *c, struct work_queue *q)
{
    assert((q->n == 0) == list_is_empty(&q->members));
    if (q->n > 0 || c->queues.n <= EMPTY_QUEUES_MAX) return;
    queue_free(c, q);
}

static void announce(struct core *c, const struct work_queue *q)
{
    assert(q->n > 0);
    if (c->out == NULL) return;
    struct effect *e = effect_new(c, EFFECT_READY);
    e->ready.kind = q->kind;
    e->ready.queue = copy_must(c->out->arena, q->key);
}

/* The hub of an instance's key is all before the slash. */
static bool is_of_hub(struct bytes key, struct bytes hub)
{
    return key.len > hub.len && key.ptr[hub.len] == '/' && bytes_start_with(key, hub);
}

/* Mostly the last one of its kind: then its key need not be written to be compared. */
static struct work_queue *queue_of(struct core *c, enum work_kind kind, const struct instance *i,
                                   struct bytes name, struct bytes version)
{
    struct work_queue *q = c->recent_queues[kind];
    if (q != NULL && bytes_equal(q->name, name) && bytes_equal(q->version, version) &&
        is_of_hub(i->key, q->hub)) {
        return q;
    }
    buffer_clear(&c->scratch2);
    queue_key(&c->scratch2, kind, key_hub(i->key), name, version);
    assert(!c->scratch2.failed);
    q = queue_obtain(c, kind, buffer_view(&c->scratch2));
    c->recent_queues[kind] = q;
    return q;
}

void queue_add_item(struct item *item)
{
    struct instance *i = item->instance;
    struct core *c = i->core;
    struct bytes name;
    struct maybe version;
    assert(item->kind == ITEM_TASK);
    assert(item->queue == NULL);
    assert(!item->due.node.is_linked);

    enum status status = event_scheduled_name(event_bytes(item->created), &name, &version);
    assert(status == OK); /* checked when the action came */
    item->queue = queue_of(c, WORK_TASK, i, name, version.has ? version.value : i->version.value);
    task_set_state(item, TASK_STATE_QUEUED);
    list_push_back(&item->queue->members, &item->queued);
    item->queue->n++;
    announce(c, item->queue);
}

void queue_remove_item(struct item *item)
{
    if (item->queue == NULL) return;
    struct work_queue *q = item->queue;
    assert(item->state == TASK_STATE_QUEUED);
    assert(q->kind == WORK_TASK);
    assert(q->n > 0);
    list_remove(&item->queued);
    item->queue = NULL;
    q->n--;
    queue_release_if_empty(item->instance->core, q);
}

void queue_add_turn(struct instance *i)
{
    struct core *c = i->core;
    assert(i->queue == NULL);
    assert(!i->is_leased);
    assert(!i->due.node.is_linked);
    if (i->is_entity) {
        i->queue = queue_of(c, WORK_ENTITY, i, entity_id_name(key_id(i->key)), BYTES_NONE);
    } else {
        assert(i->started != NULL);
        i->queue = queue_of(c, WORK_TURN, i, i->name, i->version.value);
    }
    list_push_back(&i->queue->members, &i->queued);
    i->queue->n++;
    announce(c, i->queue);
}

void queue_remove_turn(struct instance *i)
{
    if (i->queue == NULL) return;
    struct work_queue *q = i->queue;
    assert(q->kind == (i->is_entity ? WORK_ENTITY : WORK_TURN));
    assert(q->n > 0);
    list_remove(&i->queued);
    i->queue = NULL;
    q->n--;
    queue_release_if_empty(i->core, q);
}

/* A turn is offered when there is something new, nothing forbids it, and nobody has it. */
static bool turn_is_wanted(const struct instance *i)
{
    bool is_held = i->is_suspended && !planted("suspended_goes_on");
    if (instance_is_terminal(i) || i->is_purged || is_held || i->is_poisoned) return false;
    if (i->inbox.n == 0 && !i->needs_turn) return false;
    return !i->is_leased;
}

void turn_schedule(struct instance *i)
{
    struct core *c = i->core;
    int64_t not_before = i->start_at_ms > i->retry_at_ms ? i->start_at_ms : i->retry_at_ms;

    if (i->is_entity) {
        entity_schedule(i);
        return;
    }
    if (!turn_is_wanted(i)) { /* what makes it wanted comes back here */
        queue_remove_turn(i);
        due_clear(c, &i->due);
        return;
    }
    if (not_before > now_ms(c)) {
        queue_remove_turn(i);
        due_set(c, &i->due, i->start_at_ms >= i->retry_at_ms ? DUE_START : DUE_TURN_RETRY,
                not_before);
        return;
    }
    due_clear(c, &i->due);
    if (i->queue == NULL) queue_add_turn(i);
    assert(i->queue != NULL);
    assert(!i->due.node.is_linked);
}

/* The order of instances in memory, not that of the map: it is the same after every recovery. */
void queues_announce(struct core *c)
{
    assert(c->out != NULL);
    for (struct list *n = list_first(&c->all); n != NULL; n = list_next(&c->all, n)) {
        struct instance *i = container_of(n, struct instance, all);
        if (i->queue != NULL) announce(c, i->queue);
        for (struct list *m = list_first(&i->items); m != NULL; m = list_next(&i->items, m)) {
            const struct item *item = container_of(m, struct item, of_instance);
            if (item->queue != NULL) announce(c, item->queue);
        }
    }
}
