/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of a call, and the queue of its answer.
 */
#include "net/state.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"

#define KEPT_SIZE_MAX 1024          /* of each buffer of a call that is over, or waits */
#define QUEUE_MOVE_SIZE (64 * 1024) /* so much that was sent is kept before the rest is moved up */

/* A call takes several pieces of memory, and hundreds of them come at once: those that are over
 * keep theirs for the next. */
static struct grpc_call *call_take(struct h2 *h2)
{
    struct list *node = pool_take_kept(h2->pool);

    if (node == NULL) {
        struct grpc_call *call = mem_take_zero(h2->mem, sizeof *call);
        if (call == NULL) return NULL;
        call->mem = h2->mem;
        buffer_init(&call->text, h2->mem);
        buffer_init(&call->message, h2->mem);
        buffer_init(&call->code_text, h2->mem);
        buffer_init(&call->queue, h2->mem);
        buffer_init(&call->http.fields, h2->mem);
        return call;
    }
    struct grpc_call *call = container_of(node, struct grpc_call, link);
    assert(call->mem == h2->mem);
    *call = (struct grpc_call){.mem = call->mem,
                               .text = call->text,
                               .message = call->message,
                               .code_text = call->code_text,
                               .queue = call->queue,
                               .http.fields = call->http.fields};
    return call;
}

static void call_destroy(struct list *node)
{
    struct grpc_call *call = container_of(node, struct grpc_call, link);

    buffer_release(&call->text);
    buffer_release(&call->message);
    buffer_release(&call->code_text);
    buffer_release(&call->queue);
    buffer_release(&call->http.fields);
    mem_give(call->mem, call, sizeof *call);
}

void call_trim(struct buffer *buffer)
{
    if (buffer->size > KEPT_SIZE_MAX)
        buffer_release(buffer);
    else
        buffer_clear(buffer);
}

struct grpc_call *call_new(struct h2 *h2, int32_t stream_id)
{
    struct grpc_call *call = call_take(h2);

    if (call == NULL) return NULL;
    call->h2 = h2;
    call->stream_id = stream_id;
    call->is_stream_open = true;
    call->has_slot = true;
    call->phase = REQUEST_HEADERS;
    call->begun_ns = h2->now_ns;
    call->body_due_ns = h2->now_ns + h2->limits->body_ms * NS_PER_MS;
    call->deadline_ns = INT64_MAX;
    heap_node_init(&call->deadline);
    list_push_back(&h2->calls, &call->link);
    h2->calls_n++;
    h2->slots_n++;
    h2->streams_n++;
    h2->coming_n++;
    h2->idle_ns = 0;
    return call;
}

void call_clear_deadline(struct grpc_call *call)
{
    if (call->deadline.is_linked) heap_remove(&call->h2->deadlines, &call->deadline);
}

void call_drop_slot(struct grpc_call *call)
{
    if (!call->has_slot) return;
    assert(call->h2->slots_n > 0);
    call->h2->slots_n--;
    call->has_slot = false;
}

void call_free(struct grpc_call *call)
{
    struct h2 *h2 = call->h2;

    assert(!call->is_handled);
    assert(!call->is_stream_open);
    if (h2 == NULL) { /* and its pool may be gone as well */
        call_destroy(&call->link);
        return;
    }
    request_set_phase(call, REQUEST_OVER);
    call_drop_slot(call);
    call_clear_deadline(call);
    if (call->is_full_told) h2->full_told_n--;
    h2->calls_n--;
    list_remove(&call->link);
    call_trim(&call->text);
    request_drop_message(call);
    call_trim(&call->code_text);
    call_trim(&call->queue);
    call_trim(&call->http.fields);
    if (!pool_keep(h2->pool, &call->link, call_destroy)) call_destroy(&call->link);
}

void call_close(struct grpc_call *call)
{
    if (call->is_closed) return;
    call->is_closed = true;
    /* The handler may finish inside: the call is not ours after this. */
    if (call->is_http)
        http_close(call);
    else
        call->h2->service->closed(call->h2->service->user, call);
}

void call_stream_closed(struct grpc_call *call)
{
    struct h2 *h2 = call->h2;

    assert(call->is_stream_open);
    call->is_stream_open = false;
    h2->streams_n--;
    h2->queued -= call_queued(call);
    call_trim(&call->queue);
    call->queue_at = 0;
    if (call->phase == REQUEST_OVERSIZE) request_refuse_oversize(call);
    if (!call->is_handled) {
        call_free(call);
        return;
    }
    call_clear_deadline(call);
    if (call->is_full_told) h2->full_told_n--;
    call->is_full_told = false;
    call_close(call);
}

void call_handled(struct grpc_call *call)
{
    struct h2 *h2 = call->h2;

    assert(call->is_handled);
    call->is_handled = false;
    if (h2 == NULL) {
        call_free(call);
        return;
    }
    call_drop_slot(call);
    call_clear_deadline(call);
    if (!call->is_stream_open) call_free(call);
    conn_wake(h2->conn);
}

/* ---- the queue of the answer ---- */

size_t call_queued(const struct grpc_call *call) { return call->queue.len - call->queue_at; }

bool call_is_full(const struct grpc_call *call)
{
    const struct h2 *h2 = call->h2;

    return h2 != NULL && call->is_stream_open &&
           (call_queued(call) >= h2->limits->stream_queue_size ||
            h2->queued >= h2->limits->conn_queue_size);
}

bool call_tell_full(struct grpc_call *call)
{
    bool is_full = call_is_full(call);

    if (is_full && !call->is_full_told) {
        call->is_full_told = true;
        call->h2->full_told_n++;
    }
    return is_full;
}

bool call_is_too_much(const struct grpc_call *call, size_t size)
{
    const struct h2 *h2 = call->h2;

    return !call->is_closed && h2->queued > 0 && h2->queued + size > h2->limits->answers_size_max;
}

static void forget_sent(struct grpc_call *call)
{
    struct buffer *queue = &call->queue;

    if (call->queue_at < QUEUE_MOVE_SIZE || call->queue_at < queue->len / 2) return;
    memmove(queue->ptr, queue->ptr + call->queue_at, call_queued(call));
    queue->len -= call->queue_at;
    call->queue_at = 0;
}

enum status call_make_room(struct grpc_call *call, size_t size)
{
    forget_sent(call);
    if (buffer_reserve(&call->queue, size)) return OK;
    call->queue.failed = false; /* nothing was written: what waits is whole */
    return E_NOMEM;
}

void call_enqueue(struct grpc_call *call, struct bytes bytes)
{
    struct h2 *h2 = call->h2;

    if (h2->queued == 0) h2->is_fresh = true;
    h2->queued += bytes.len;
    buffer_append_bytes(&call->queue, bytes);
    assert(!call->queue.failed);
}
