/* SPDX-License-Identifier: Apache-2.0
 *
 * Open items: what an execution has begun and that has not answered. No two of an execution
 * have the same id at once; the map of all open items is keyed by instance and id.
 */
#include "core/state.h"

#include "base/planted.h"

_Static_assert(sizeof((struct item *)0)->item_key == sizeof(uint64_t) + sizeof(uint32_t),
               "an item's key is the number of its instance and its id");

/* Longer than the key of any other item, so that the two cannot be the same. */
#define CALL_KEY_HEAD 13

static struct bytes call_key(const struct instance *i, struct bytes request_id, struct arena *arena)
{
    uint8_t *key = arena_alloc_zero(arena, CALL_KEY_HEAD + request_id.len);
    assert(key != NULL);
    store_u64(key, i->number);
    if (request_id.len > 0) memcpy(key + CALL_KEY_HEAD, request_id.ptr, request_id.len);
    return bytes_make(key, CALL_KEY_HEAD + request_id.len);
}

struct item *call_find(const struct instance *i, struct bytes request_id)
{
    struct map_node *node = map_find(&i->core->open, call_key(i, request_id, &i->core->temporary));
    if (node == NULL) return NULL;
    struct item *item = container_of(node, struct item, node);
    assert(item->instance == i);
    assert(item->kind == ITEM_CALL);
    return item;
}

static void item_set_key(struct item *item, uint64_t number, int32_t id)
{
    store_u64(item->item_key, number);
    store_u32(item->item_key + 8, (uint32_t)id);
    item->node.key = bytes_make(item->item_key, sizeof item->item_key);
}

/* Detached items of earlier executions are not in the map: their ids may be used again. In the list
 * they stand before those of the present execution, as if they had never been away: a reloaded
 * instance is the same as one that stayed. */
static void item_insert(struct item *item)
{
    struct instance *i = item->instance;
    struct list *where = &i->items;
    assert(item->kind == ITEM_TASK || !item->is_detached); /* only tasks outlive their execution */
    assert(!list_is_linked(&item->of_instance));
    assert(!i->is_entity);
    if (item->is_detached) {
        where = i->items.next;
        while (where != &i->items && container_of(where, struct item, of_instance)->is_detached) {
            where = where->next;
        }
    }
    list_insert_before(&item->of_instance, where);
    i->items_n++;
    if (item->is_detached) return;
    if (item->kind == ITEM_CALL)
        item->node.key = call_key(i, event_entity_id(event_bytes(item->created)), &i->arena);
    else
        item_set_key(item, i->number, item->id);
    map_insert(&i->core->open, &item->node);
}

static struct item *item_new(struct instance *i, enum item_kind kind, const struct event *created,
                             const uint8_t execution_id[EXECUTION_ID_SIZE])
{
    struct list *used = list_pop_front(&i->items_free);
    struct item *item = used != NULL ? container_of(used, struct item, of_instance)
                                     : arena_alloc(&i->arena, sizeof *item);
    assert(item != NULL);
    assert((kind == ITEM_TASK) == (created->kind == EVENT_TASK_SCHEDULED));
    assert((kind == ITEM_TIMER) == (created->kind == EVENT_TIMER_CREATED));
    assert((kind == ITEM_CHILD) == (created->kind == EVENT_CHILD_CREATED));
    assert((kind == ITEM_CALL) == (created->kind == EVENT_ENTITY_CALLED));
    *item = (struct item){.instance = i, .kind = kind, .id = created->id, .created = created};
    heap_node_init(&item->due.node);
    memcpy(item->execution_id, execution_id, EXECUTION_ID_SIZE);
    return item;
}

struct item *item_open_detached(struct instance *i, const struct event *created,
                                const uint8_t execution_id[EXECUTION_ID_SIZE])
{
    struct item *item = item_new(i, ITEM_TASK, created, execution_id);
    item->is_detached = true;
    item_insert(item);
    return item;
}

struct item *item_open(struct instance *i, enum item_kind kind, const struct event *created)
{
    assert(!instance_is_terminal(i));
    if (kind == ITEM_CALL) {
        /* the same call twice at once: one answer is for both */
        struct item *open = call_find(i, event_entity_id(event_bytes(created)));
        if (open != NULL) return open;
    }
    struct item *item = item_new(i, kind, created, i->execution_id);
    item_insert(item);

    if (kind == ITEM_TIMER) {
        int64_t fire_at_ms = 0;
        enum status status = event_fire_at_decode(event_bytes(created), &fire_at_ms);
        assert(status == OK);
        if (planted("timer_early")) fire_at_ms -= 2;
        due_set(i->core, &item->due, DUE_TIMER, fire_at_ms);
    }
    return item;
}

/* Of a few it is found sooner in their list than by a hash of the key. */
#define FEW_ITEMS_N 4u

static struct item *find_among_few(const struct instance *i, int32_t id)
{
    for (struct list *n = list_first(&i->items); n != NULL; n = list_next(&i->items, n)) {
        struct item *item = container_of(n, struct item, of_instance);
        if (item->id == id && !item->is_detached && item->kind != ITEM_CALL) return item;
    }
    return NULL;
}

struct item *item_find(const struct instance *i, int32_t id, enum item_kind kind)
{
    uint8_t key[12];
    if (i->items_n <= FEW_ITEMS_N) {
        struct item *item = find_among_few(i, id);
        return item != NULL && item->kind == kind ? item : NULL;
    }
    store_u64(key, i->number);
    store_u32(key + 8, (uint32_t)id);
    struct map_node *node = map_find(&i->core->open, bytes_make(key, sizeof key));
    if (node == NULL) return NULL;
    struct item *item = container_of(node, struct item, node);
    assert(item->instance == i);
    assert(item->id == id);
    assert(!item->is_detached);
    return item->kind == kind ? item : NULL;
}

struct item *task_find(const struct instance *i, const uint8_t execution_id[EXECUTION_ID_SIZE],
                       int32_t id)
{
    if (memcmp(execution_id, i->execution_id, EXECUTION_ID_SIZE) == 0) {
        struct item *item = item_find(i, id, ITEM_TASK);
        if (item != NULL) return item;
    }
    for (struct list *n = list_first(&i->items); n != NULL; n = list_next(&i->items, n)) {
        struct item *item = container_of(n, struct item, of_instance);
        if (item->kind != ITEM_TASK || !item->is_detached || item->id != id) continue;
        if (memcmp(item->execution_id, execution_id, EXECUTION_ID_SIZE) == 0) return item;
    }
    return NULL;
}

static bool is_busy(enum task_state state)
{
    return state == TASK_STATE_QUEUED || state == TASK_STATE_LEASED || state == TASK_STATE_WAITING;
}

void task_set_state(struct item *item, enum task_state state)
{
    struct instance *i = item->instance;
    assert(item->kind == ITEM_TASK);
    assert((state == TASK_STATE_QUEUED) == (item->queue != NULL));
    assert(state != TASK_STATE_LEASED || item->state == TASK_STATE_QUEUED);
    if (is_busy(item->state)) {
        assert(i->busy_n > 0);
        i->busy_n--;
    }
    if (is_busy(state)) i->busy_n++;
    if (item->state == TASK_STATE_PARKED) {
        assert(i->parked_n > 0);
        i->parked_n--;
    }
    if (state == TASK_STATE_PARKED) i->parked_n++;
    item->state = state;
    assert(i->busy_n + i->parked_n <= i->items_n);
}

void item_unqueue(struct item *item)
{
    queue_remove_item(item);
    due_clear(item->instance->core, &item->due);
    item->worker = 0;
    item->complete_by_ms = 0;
}

/* The item may be used for the next one at once: nobody looks at it afterwards. */
void item_close(struct item *item)
{
    struct instance *i = item->instance;
    item_unqueue(item);
    if (item->kind == ITEM_TASK) task_set_state(item, TASK_STATE_NONE);
    if (!item->is_detached) map_remove(&i->core->open, &item->node);
    list_remove(&item->of_instance);
    list_push_front(&i->items_free, &item->of_instance);
    assert(i->items_n > 0);
    i->items_n--;
    assert(i->busy_n <= i->items_n);
}

void item_queue(struct item *item)
{
    assert(item->kind == ITEM_TASK);
    item_unqueue(item);
    queue_add_item(item);
}

void items_end(struct instance *i, bool everything)
{
    struct list *n = list_first(&i->items);
    while (n != NULL) {
        struct item *item = container_of(n, struct item, of_instance);
        n = list_next(&i->items, n);
        if (everything || item->kind != ITEM_TASK || item->state == TASK_STATE_PARKED) {
            item_close(item);
        } else if (!item->is_detached) {
            map_remove(&i->core->open, &item->node);
            item->is_detached = true;
        }
    }
    assert(i->busy_n == i->items_n); /* what is left are tasks on their way */
    assert(!everything || i->items_n == 0);
}

void item_move(struct item *old)
{
    struct instance *i = old->instance;
    assert(old->is_detached);
    struct item *item = arena_alloc(&i->arena, sizeof *item);
    assert(item != NULL);
    *item = *old;
    item->created = event_must(i, event_bytes(old->created));

    list_node_init(&item->of_instance);
    list_insert_before(&item->of_instance, &old->of_instance);
    list_remove(&old->of_instance);
    if (old->queue != NULL) {
        list_node_init(&item->queued);
        list_insert_before(&item->queued, &old->queued);
        list_remove(&old->queued);
    }
    heap_node_init(&item->due.node);
    if (old->due.node.is_linked) {
        int64_t at_ms = old->due.node.key;
        due_clear(i->core, &old->due);
        due_set(i->core, &item->due, old->due.kind, at_ms);
    }
    assert(!list_is_linked(&old->queued)); /* nothing points to the old one any more */
    assert(!old->due.node.is_linked);
}
