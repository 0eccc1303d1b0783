/* SPDX-License-Identifier: Apache-2.0
 *
 * The heap of due times: timers, scheduled starts, retries and complete-by times. Equal times come
 * out in the order they were set.
 */
#include "core/state.h"

void due_set(struct core *c, struct due *due, enum due_kind kind, int64_t at_ms)
{
    assert(due->node.order <= c->orders); /* of this heap, or of none yet */
    if (due->node.is_linked) heap_remove(&c->due, &due->node);
    due->kind = kind;
    due->node.key = at_ms;
    due->node.order = ++c->orders;
    heap_push(&c->due, &due->node);
}

void due_clear(struct core *c, struct due *due)
{
    if (!due->node.is_linked) return;
    assert(due->node.order > 0); /* given by due_set() */
    assert(c->due.n > 0);
    heap_remove(&c->due, &due->node);
}
