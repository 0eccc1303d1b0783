/* SPDX-License-Identifier: Apache-2.0
 *
 * What a service does with a call (grpc.h).
 */
#include "net/state.h"

#include "base/assert.h"
#include "base/mem.h"

#define QUEUE_MOVE_SIZE (64 * 1024) /* so much that was sent is kept before the rest is moved up */

int64_t grpc_deadline_ns(const struct grpc_call *call) { return call->deadline_ns; }

void grpc_set_user(struct grpc_call *call, void *user) { call->user = user; }

void *grpc_user(const struct grpc_call *call) { return call->user; }

bool grpc_is_beside(const struct grpc_call *call, const struct grpc_call *other)
{
    return call->h2 != NULL && call->h2 == other->h2;
}

bool grpc_is_closed(const struct grpc_call *call) { return call->is_closed; }

size_t grpc_queued(const struct grpc_call *call) { return call_queued(call); }

bool grpc_is_full(struct grpc_call *call)
{
    bool is_full = call_is_full(call);

    if (is_full && !call->is_full_told) {
        call->is_full_told = true;
        call->h2->full_told_n++;
    }
    return is_full;
}

static void forget_sent(struct grpc_call *call)
{
    struct buffer *queue = &call->queue;

    if (call->queue_at < QUEUE_MOVE_SIZE || call->queue_at < queue->len / 2) return;
    memmove(queue->ptr, queue->ptr + call->queue_at, call_queued(call));
    queue->len -= call->queue_at;
    call->queue_at = 0;
}

enum status grpc_send(struct grpc_call *call, struct bytes message)
{
    struct h2 *h2 = call->h2;

    assert(call->is_handled);
    if (call->is_closed) return E_CLOSED;
    assert(!call->is_ended);
    if (message.len > UINT32_MAX) return E_NOMEM;
    forget_sent(call);
    if (!buffer_reserve(&call->queue, PREFIX_SIZE + message.len)) {
        call->queue.failed = false; /* nothing was written: what waits is whole */
        return E_NOMEM;
    }
    if (!call->is_begun && answer_begin(call) != OK) return E_NOMEM;

    uint32_t size = (uint32_t)message.len;
    const uint8_t prefix[PREFIX_SIZE] = {0, (uint8_t)(size >> 24), (uint8_t)(size >> 16),
                                         (uint8_t)(size >> 8), (uint8_t)size};
    if (h2->queued == 0) h2->is_fresh = true;
    h2->queued += PREFIX_SIZE + message.len;
    buffer_append(&call->queue, prefix, sizeof prefix);
    buffer_append_bytes(&call->queue, message);
    answer_resume(call);
    conn_wake(h2->conn);
    return OK;
}

void grpc_finish(struct grpc_call *call, enum grpc_code code, const char *text)
{
    struct h2 *h2 = call->h2;

    assert(call->is_handled);
    call->is_handled = false;
    if (h2 == NULL) {
        call_free(call);
        return;
    }
    call_drop_slot(call);
    if (call->deadline.is_linked) heap_remove(&h2->deadlines, &call->deadline);
    if (!call->is_stream_open) {
        call_free(call);
    } else if (!call->is_ended) {
        answer_end(call, code, text);
    }
    conn_wake(h2->conn);
}

/* Requests are small and answers may be large: a peer that asks for hundreds at once and takes none
 * must not fill our memory. One answer alone may have any size. */
static bool is_too_much(const struct grpc_call *call, struct bytes message)
{
    const struct h2 *h2 = call->h2;

    return !call->is_closed && h2->queued > 0 &&
           h2->queued + message.len > h2->limits->answers_size_max;
}

void grpc_answer(struct grpc_call *call, struct bytes message)
{
    if (is_too_much(call, message)) {
        call->h2->counters->answers_too_large++;
        grpc_finish(call, GRPC_UNAVAILABLE, "earlier answers have not been taken yet");
        return;
    }
    enum status status = grpc_send(call, message);

    if (status == E_NOMEM)
        grpc_finish(call, GRPC_UNAVAILABLE, "out of memory");
    else
        grpc_finish(call, GRPC_OK, NULL);
}
