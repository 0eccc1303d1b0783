/* SPDX-License-Identifier: Apache-2.0
 *
 * What the passing of time brings: timers, scheduled starts, retries, late workers, messages to
 * send again. A tick handles a bounded number of things, so that a million due timers do not hold
 * up everything else.
 */
#include "core/limits.h"
#include "core/state.h"

static void timer_fires(struct item *item)
{
    struct instance *i = item->instance;
    struct core *c = i->core;
    assert(item->kind == ITEM_TIMER);
    assert(item->due.node.key <= now_ms(c)); /* never early */
    assert(item->id == item->created->id);
    buffer_clear(&c->scratch);
    event_write_timer_fired(&c->scratch, c->now_ns, item->id, event_bytes(item->created));
    assert(!c->scratch.failed);
    c->stats.timers_fired++;
    message_add(i, buffer_view(&c->scratch));
}

static void worker_is_late(struct item *item)
{
    assert(item->kind == ITEM_TASK);
    assert(item->state == TASK_STATE_LEASED);
    supervise(item, GIVEN_UP_LATE, BYTES_LITERAL("no answer before the complete-by time"), false);
}

static void fall_due(struct due *due)
{
    struct item *item = container_of(due, struct item, due);
    struct instance *instance = container_of(due, struct instance, due);
    assert(!due->node.is_linked);
    switch (due->kind) {
    case DUE_TIMER: timer_fires(item); break;
    case DUE_START:
    case DUE_TURN_RETRY:
        assert(instance->queue == NULL);
        assert(!instance->is_leased);
        turn_schedule(instance);
        instance_sort(instance);
        break;
    case DUE_TASK_RETRY:
        assert(item->state == TASK_STATE_WAITING);
        queue_add_item(item);
        instance_sort(item->instance);
        break;
    case DUE_COMPLETE_BY: worker_is_late(item); break;
    case DUE_ENTITY: on_entity_due(instance); break;
    }
}

void on_clock_tick(struct core *c, const struct input *in)
{
    (void)in;
    uint32_t n = 0;
    struct heap_node *node = heap_min(&c->due);
    while (node != NULL && node->key <= now_ms(c) && n < LIMIT_TICK_N) {
        heap_pop(&c->due);
        fall_due(container_of(node, struct due, node));
        node = heap_min(&c->due);
        n++;
    }
    c->out->has_more = node != NULL && node->key <= now_ms(c);
    assert(!c->out->has_more || n == LIMIT_TICK_N);
    outbox_resend(c, false);
}
