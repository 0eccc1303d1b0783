/* SPDX-License-Identifier: Apache-2.0
 *
 * The invariants of a partition, as assertions. The most valuable one is that nothing is orphaned: whatever an
 * instance waits for is held by something that will come back to it.
 */
#include "core/state.h"

static void check_list(const struct event_list *list)
{
    uint32_t n = 0;
    size_t size = 0;
    const struct event *last = NULL;
    for (const struct event *e = list->first; e != NULL; e = e->next) {
        n++;
        size += e->len;
        last = e;
    }
    assert(n == list->n);
    assert(size == list->size);
    assert(last == list->last);
}

/* Every open item is where something will find it. */
static void check_item(const struct item *item)
{
    const struct core *c = item->instance->core;
    if (item->kind == ITEM_TIMER) assert(item->due.node.is_linked);
    if (!item->is_detached) assert(map_find(&c->open, item->node.key) == &item->node);
    if (item->kind != ITEM_TASK) {
        assert(!item->is_detached);
        assert(item->queue == NULL);
        return;
    }
    assert(item->state != TASK_STATE_NONE);
    assert((item->state == TASK_STATE_QUEUED) == (item->queue != NULL));
    if (item->state == TASK_STATE_WAITING) assert(item->due.node.is_linked);
    if (item->state == TASK_STATE_QUEUED) assert(!item->due.node.is_linked);
    if (item->state == TASK_STATE_LEASED) assert(item->complete_by_ms == 0 || item->due.node.is_linked);
}

static void check_items(const struct instance *i)
{
    uint32_t n = 0;
    uint32_t busy = 0;
    for (struct list *m = list_first(&i->items); m != NULL; m = list_next(&i->items, m)) {
        const struct item *item = container_of(m, struct item, of_instance);
        check_item(item);
        assert(item->instance == i);
        n++;
        if (item->kind == ITEM_TASK && item->state != TASK_STATE_PARKED) busy++;
        if (instance_is_terminal(i)) assert(item->is_detached); /* S16 */
    }
    assert(n == i->items_n);
    assert(busy == i->busy_n);
}

/* L0: something new to say to the orchestrator is offered, leased, or waits for a known reason. */
static void check_turn(const struct instance *i)
{
    bool has_news = i->inbox.n > 0 || i->needs_turn;
    if (instance_is_terminal(i) || i->is_purged) {
        assert(i->queue == NULL);
        assert(!i->is_leased);
        return;
    }
    assert(i->started != NULL);
    if (i->is_leased) assert(i->queue == NULL);
    if (i->is_leased) assert(i->lease_inbox_n <= i->inbox.n);
    if (i->queue != NULL) assert(has_news);
    if (has_news && !i->is_suspended && !i->is_poisoned && !i->is_leased) {
        assert(i->queue != NULL || i->due.node.is_linked);
    }
}

/* S5: one start, at most one end, nothing after it. */
static void check_ends(const struct instance *i)
{
    if (i->completed != NULL) assert(i->completed == i->history.last);
    if (i->completed != NULL) assert(i->completed->kind == EVENT_EXECUTION_COMPLETED);
    if (i->history.first != NULL) assert(i->history.first->kind == EVENT_ORCHESTRATOR_STARTED);
}

void instance_check(const struct instance *i)
{
    const struct core *c = i->core;
    assert(i->number <= c->numbers);
    assert((i->dirty_lsn != 0) == list_is_linked(&i->dirty));
    assert(i->seq <= c->seq);
    check_list(&i->history);
    check_list(&i->inbox);
    check_items(i);
    check_turn(i);
    check_ends(i);
    bool is_idle = !i->is_purged && !instance_has_work(i);
    assert(is_idle == list_is_linked(&i->idle));
}

void core_check(const struct core *c)
{
    size_t n = 0;
    size_t finished = 0;
    uint64_t lsn = 0;
    for (struct list *m = list_first(&c->all); m != NULL; m = list_next(&c->all, m)) {
        instance_check(container_of(m, struct instance, all));
        n++;
    }
    assert(n == c->instances_n);
    for (struct list *m = list_first(&c->finished); m != NULL; m = list_next(&c->finished, m)) finished++;
    assert(finished == c->finished_n);
    for (struct list *m = list_first(&c->dirty); m != NULL; m = list_next(&c->dirty, m)) {
        const struct instance *i = container_of(m, struct instance, dirty);
        assert(i->dirty_lsn >= lsn);
        lsn = i->dirty_lsn;
    }
}
