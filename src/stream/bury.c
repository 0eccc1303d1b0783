/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages of queues that were delivered too often become dead letters, one after the other: each
 * is read, and written as a letter in the same frame that says it is done.
 */
#include "stream/state.h"

void streams_bury_turn(struct streams *s)
{
    struct list *node = list_first(&s->core.dying);
    uint64_t offset;

    if (node == NULL || s->is_burying || s->now_ns < s->bury_ns) return;
    struct stream_queue *q = container_of(node, struct stream_queue, dying);
    bool is_found = stream_queue_lowest(q, STREAM_ENTRY_DYING, &offset);
    assert(is_found);
    stream_request_again(&s->bury);
    s->bury.bury.number = q->partition->stream->number;
    s->bury.bury.partition = q->partition->index;
    s->bury.bury.offset = offset;
    s->bury.bury.is_queued = true;
    s->bury.bury.reason =
        BYTES_LITERAL("delivered as often as maxDeliveries allows, never completed");
    s->is_burying = true;
    s->under_way_n++;
    streams_run(s, &s->bury);
}
