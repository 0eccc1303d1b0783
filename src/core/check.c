/* SPDX-License-Identifier: Apache-2.0
 *
 * The invariants of a partition, as assertions. The most valuable one is that nothing is orphaned:
 * whatever an instance waits for is held by something that will come back to it.
 */
#include "core/limits.h"
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

/* A task is where its state says. */
static void check_task(const struct item *item)
{
    bool is_due = item->due.node.is_linked;
    assert(item->state != TASK_STATE_NONE);
    assert(item->created->kind == EVENT_TASK_SCHEDULED);
    assert((item->state == TASK_STATE_QUEUED) == (item->queue != NULL));
    assert((item->queue != NULL) == list_is_linked(&item->queued));
    if (item->queue != NULL) assert(item->queue->kind == WORK_TASK);
    if (item->state == TASK_STATE_WAITING) assert(is_due);
    if (item->state == TASK_STATE_WAITING) assert(item->due.kind == DUE_TASK_RETRY);
    if (item->state == TASK_STATE_QUEUED) assert(!is_due);
    if (item->state == TASK_STATE_PARKED) assert(!is_due);
    if (item->state == TASK_STATE_LEASED) assert(item->complete_by_ms == 0 || is_due);
    if (item->state == TASK_STATE_LEASED && is_due) assert(item->due.kind == DUE_COMPLETE_BY);
}

/* Every open item is where something will find it. */
static void check_item(const struct item *item)
{
    const struct core *c = item->instance->core;
    assert(item->id == item->created->id);
    if (!item->is_detached) assert(map_find(&c->open, item->node.key) == &item->node);
    if (item->kind == ITEM_TASK) {
        check_task(item);
        return;
    }
    assert(!item->is_detached);
    assert(item->queue == NULL);
    assert(item->state == TASK_STATE_NONE);
    assert(item->due.node.is_linked == (item->kind == ITEM_TIMER));
    assert(!list_is_linked(&item->queued));
    assert(item->failures == 0);
    if (item->kind == ITEM_TIMER) assert(item->due.kind == DUE_TIMER);
    if (item->kind == ITEM_TIMER) assert(item->created->kind == EVENT_TIMER_CREATED);
    if (item->kind == ITEM_CHILD) assert(item->created->kind == EVENT_CHILD_CREATED);
    if (item->kind == ITEM_CALL) assert(item->created->kind == EVENT_ENTITY_CALLED);
}

static void check_items(const struct instance *i)
{
    uint32_t n = 0;
    uint32_t busy = 0;
    uint32_t parked = 0;
    for (struct list *m = list_first(&i->items); m != NULL; m = list_next(&i->items, m)) {
        const struct item *item = container_of(m, struct item, of_instance);
        check_item(item);
        assert(item->instance == i);
        n++;
        if (item->kind == ITEM_TASK && item->state != TASK_STATE_PARKED) busy++;
        if (item->state == TASK_STATE_PARKED) parked++;
        if (instance_is_terminal(i)) assert(item->is_detached); /* S16 */
    }
    assert(n == i->items_n);
    assert(busy == i->busy_n);
    assert(parked == i->parked_n);
}

/* What only orchestrations have. */
static void check_is_no_orchestration(const struct instance *i)
{
    assert(i->started == NULL);
    assert(i->completed == NULL);
    assert(i->history.n == 0);
    assert(i->items_n == 0);
    assert(i->locks_n == 0);
    assert(i->late_n == 0);
    assert(!i->is_suspended);
    assert(!i->needs_turn);
    assert(!i->has_parent);
    assert(!i->has_reply);
}

/* What only entities have. */
static void check_is_no_entity(const struct instance *i)
{
    assert(!i->state.has);
    assert(i->lock == NULL);
    assert(i->held.n == 0);
    assert(i->delayed == NULL);
    assert(i->delayed_n == 0);
    assert(i->delayed_size == 0);
}

static void check_delayed(const struct instance *i)
{
    uint32_t n = 0;
    size_t size = 0;
    for (const struct delayed *d = i->delayed; d != NULL; d = d->next) {
        assert(d->next == NULL || d->at_ms <= d->next->at_ms);
        assert(d->event->kind == EVENT_ENTITY_SIGNALED); /* nothing else can wait for its time */
        n++;
        size += d->event->len;
    }
    assert(n == i->delayed_n);
    assert(size == i->delayed_size);
    if (i->delayed != NULL) assert(i->due.node.is_linked);
    if (i->delayed != NULL) assert(i->due.node.key <= i->delayed->at_ms);
}

static void check_lock(const struct instance *i)
{
    if (i->lock == NULL) {
        assert(i->held.n == 0);
        assert(i->lock_section.len == 0);
        assert(i->lock_parent.len == 0);
        return;
    }
    assert(i->lock->kind == EVENT_ENTITY_LOCK_REQUESTED);
    for (const struct event *e = i->held.first; e != NULL; e = e->next) {
        assert(e->kind == EVENT_ENTITY_CALLED);
    }
}

/* The same for an entity: its operations are offered, leased, or wait for a known reason; a lock
 * request that stands first is due; a signal that waits for its time has it in the heap. */
static void check_entity(const struct instance *i)
{
    const struct event_list *operations = entity_operations((struct instance *)i);
    check_is_no_orchestration(i);
    assert(!i->is_purged);
    check_list(&i->held);
    check_lock(i);
    check_delayed(i);
    assert((i->queue != NULL) == list_is_linked(&i->queued));
    if (i->queue != NULL) assert(i->queue->kind == WORK_ENTITY);
    if (i->queue != NULL) assert(!i->is_leased);
    if (i->is_leased) assert(i->lease_inbox_n <= operations->n);
    if (i->due.node.is_linked) assert(i->due.kind == DUE_ENTITY);
    if (operations->n == 0 || i->is_leased || i->is_poisoned) return;
    assert(i->queue != NULL || i->due.node.is_linked);
}

/* L0: something new to say to the orchestrator is offered, leased, or waits for a known reason. */
static void check_turn(const struct instance *i)
{
    bool has_news = i->inbox.n > 0 || i->needs_turn;
    if (i->is_entity) {
        check_entity(i);
        return;
    }
    check_is_no_entity(i);
    if (instance_is_terminal(i) || i->is_purged) {
        assert(i->queue == NULL);
        assert(!i->is_leased);
        return;
    }
    assert(i->is_entity || i->started != NULL);
    assert((i->queue != NULL) == list_is_linked(&i->queued));
    if (i->queue != NULL) assert(i->queue->kind == WORK_TURN);
    if (i->queue != NULL) assert(!i->due.node.is_linked);
    if (i->due.node.is_linked) assert(i->due.kind == DUE_START || i->due.kind == DUE_TURN_RETRY);
    if (i->is_leased) assert(i->queue == NULL);
    if (i->is_leased) assert(!i->is_suspended);
    if (i->is_leased) assert(!i->is_poisoned);
    if (i->queue != NULL) assert(!i->is_suspended);
    if (i->queue != NULL) assert(!i->is_poisoned);
    if (i->is_leased) assert(i->lease_inbox_n <= i->inbox.n);
    if (i->queue != NULL) assert(has_news);
    if (has_news && !i->is_suspended && !i->is_poisoned && !i->is_leased) {
        assert(i->queue != NULL || i->due.node.is_linked);
    }
}

/* S5: one start, at most one end, nothing after it. */
static void check_ends(const struct instance *i)
{
    assert(status_is_end(i->status) == (i->completed != NULL));
    if (i->completed != NULL) assert(i->completed == i->history.last);
    if (i->completed != NULL) assert(i->completed->kind == EVENT_EXECUTION_COMPLETED);
    if (i->history.first != NULL) assert(i->history.first->kind == EVENT_ORCHESTRATOR_STARTED);
}

/* In the list of the archiver that its state wants. */
static void check_lists(const struct instance *i)
{
    bool is_finished = instance_is_terminal(i) || i->is_purged;
    bool is_listed = list_is_linked(&i->parked);
    bool is_idle = !i->is_purged && !instance_has_work(i);
    assert((i->dirty_lsn != 0) == list_is_linked(&i->dirty));
    if (i->dirty_lsn != 0) assert(i->is_in_finished == is_finished);
    assert(is_idle == list_is_linked(&i->idle));
    if (is_listed) assert(instance_is_parked(i));
    if (i->is_archived) assert(i->archived_seq <= i->seq);
}

static void check_late(const struct instance *i)
{
    uint32_t n = 0;
    for (const struct late *late = i->late_first; late != NULL; late = late->next) n++;
    assert(n == i->late_n);
    assert(n <= LIMIT_LATE_N);
}

void instance_check(const struct instance *i)
{
    const struct core *c = i->core;
    assert(i->number > 0);
    assert(map_find(&c->instances, i->key) == &i->node);
    assert(i->number <= c->numbers);
    assert(i->seq <= c->seq);
    check_late(i);
    assert(i->counted_as == instance_gauge(i));
    if (c->backlog != NULL) {
        bool is_active = instance_is_active(i);
        assert((i->active != NULL) == is_active);
        if (is_active) assert(bytes_equal(i->active->name, i->name));
    }
    check_list(&i->history);
    check_list(&i->inbox);
    check_items(i);
    check_turn(i);
    check_ends(i);
    check_lists(i);
}

/* Who is in a queue knows it. */
static void check_member(const struct work_queue *q, const struct list *member)
{
    if (q->kind == WORK_TASK) {
        const struct item *item = container_of(member, struct item, queued);
        assert(item->queue == q);
        assert(item->kind == ITEM_TASK);
        assert(item->state == TASK_STATE_QUEUED);
        return;
    }
    const struct instance *i = container_of(member, struct instance, queued);
    assert(i->queue == q);
    assert(i->is_entity == (q->kind == WORK_ENTITY));
    assert(!i->is_leased);
}

static void check_queues(const struct core *c)
{
    size_t n = 0;
    for (struct list *m = list_first(&c->all_queues); m != NULL; m = list_next(&c->all_queues, m)) {
        const struct work_queue *q = container_of(m, struct work_queue, all);
        size_t members = 0;
        assert(map_find(&c->queues, q->key) == &q->node);
        for (struct list *l = list_first(&q->members); l != NULL; l = list_next(&q->members, l)) {
            check_member(q, l);
            members++;
        }
        assert(members == q->n);
        n++;
    }
    assert(n == c->queues.n);
    for (size_t kind = 0; kind < WORK_KINDS_N; kind++) {
        const struct work_queue *recent = c->recent_queues[kind];
        if (recent == NULL) continue;
        assert(recent->kind == kind);
        assert(map_find(&c->queues, recent->key) == &recent->node); /* it has not been freed */
    }
}

/* Numbers grow from the oldest letter on, and none is beyond the last one given. */
static void check_outbox(const struct core *c)
{
    uint32_t n = 0;
    for (uint32_t p = 0; p < c->options.partitions_n; p++) {
        const struct peer *peer = &c->peers[p];
        const struct letter *last = NULL;
        for (const struct letter *l = peer->first; l != NULL; l = l->next) {
            assert(last == NULL || last->seq < l->seq);
            assert(l->seq > 0);
            assert(l->target.len > 0);
            assert(l->size >= sizeof *l + l->target.len + l->execution.len + l->event.len);
            last = l;
            n++;
        }
        assert(last == peer->last);
        assert(last == NULL || last->seq <= peer->sent_seq);
    }
    assert(n == c->letters_n);
}

static void check_sources(const struct core *c)
{
    size_t n = 0;
    for (struct list *m = list_first(&c->all_sources); m != NULL;
         m = list_next(&c->all_sources, m)) {
        const struct source *source = container_of(m, struct source, all);
        assert(map_find(&c->sources, source->name) == &source->node);
        assert(source->name.len > 0);
        assert(source->name.len <= LIMIT_SOURCE_NAME_SIZE);
        assert(source->position > 0);
        n++;
    }
    assert(n == c->sources.n);
    assert(n <= LIMIT_SOURCES_N);
}

/* Every instance is counted once. */
static void check_gauges(const struct core *c)
{
    uint64_t counted[GAUGES_N] = {0};
    for (struct list *m = list_first(&c->all); m != NULL; m = list_next(&c->all, m)) {
        counted[container_of(m, struct instance, all)->counted_as]++;
    }
    for (size_t n = 0; n < GAUGES_N; n++) assert(counted[n] == c->gauges[n]);
    assert(c->gauges[GAUGE_NONE] == 0);
}

/* The archiver's lists: by age what goes on, in any order what does not. */
static void check_dirty(const struct core *c)
{
    uint64_t lsn = 0;
    size_t finished = 0;
    for (struct list *m = list_first(&c->finished); m != NULL; m = list_next(&c->finished, m)) {
        const struct instance *i = container_of(m, struct instance, dirty);
        assert(i->is_in_finished);
        assert(i->dirty_lsn > 0);
        finished++;
    }
    assert(finished == c->finished_n);
    for (struct list *m = list_first(&c->dirty); m != NULL; m = list_next(&c->dirty, m)) {
        const struct instance *i = container_of(m, struct instance, dirty);
        assert(!i->is_in_finished);
        assert(i->dirty_lsn >= lsn);
        lsn = i->dirty_lsn;
    }
}

/* Each that has nothing to do is in the list once. */
static void check_idle(const struct core *c)
{
    size_t listed = 0;
    size_t linked = 0;
    for (struct list *m = list_first(&c->idle); m != NULL; m = list_next(&c->idle, m)) {
        assert(!container_of(m, struct instance, idle)->is_purged);
        listed++;
    }
    for (struct list *m = list_first(&c->all); m != NULL; m = list_next(&c->all, m)) {
        if (list_is_linked(&container_of(m, struct instance, all)->idle)) linked++;
    }
    assert(listed == linked);
}

/* What only grows has not overtaken what it follows. */
static void check_numbers(const struct core *c)
{
    assert(c->partition_seq <= c->seq);
    assert(c->snapshot_seq <= c->seq);
    assert(c->seq <= RECORD_SEQ_MAX);
    assert(c->numbers >= c->instances_n);
    assert(c->parked_n <= c->options.parked_n_max);
}

/* What is in the map of open items and in the heap is in the list of its instance, and nothing else
 * is: each was found from there, so the numbers must agree. */
static void check_reached(const struct core *c)
{
    size_t open = 0;
    uint64_t due = 0;
    for (struct list *m = list_first(&c->all); m != NULL; m = list_next(&c->all, m)) {
        const struct instance *i = container_of(m, struct instance, all);
        if (i->due.node.is_linked) due++;
        for (struct list *l = list_first(&i->items); l != NULL; l = list_next(&i->items, l)) {
            const struct item *item = container_of(l, struct item, of_instance);
            if (!item->is_detached) open++;
            if (item->due.node.is_linked) due++;
        }
    }
    assert(open == c->open.n);
    assert(due == c->due.n);
}

void core_check(const struct core *c)
{
    size_t n = 0;
    uint64_t parked = 0;
    for (struct list *m = list_first(&c->all); m != NULL; m = list_next(&c->all, m)) {
        instance_check(container_of(m, struct instance, all));
        n++;
    }
    assert(n == c->instances_n);
    assert(n == c->instances.n);
    for (struct list *m = list_first(&c->parked); m != NULL; m = list_next(&c->parked, m)) parked++;
    assert(parked == c->parked_n);
    check_idle(c);
    check_numbers(c);
    check_gauges(c);
    check_dirty(c);
    check_sources(c);
    check_queues(c);
    check_outbox(c);
    check_reached(c);
    if (c->backlog != NULL) backlog_check(c->backlog);
}
