/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests that wait for a message: a read with its partition, a receive with its stream, all of
 * them by the time they give up. After a turn in which something may have come, they are stepped
 * again.
 */
#include "stream/state.h"

static void unlink_waiting(struct streams *s, struct stream_request *request)
{
    assert(request->is_waiting);
    list_remove(&request->waiting);
    heap_remove(&s->waiting, &request->due);
    request->is_waiting = false;
}

static int64_t wait_ms_of(const struct stream_request *request)
{
    int64_t wait_ms =
        request->kind == STREAM_REQUEST_RECEIVE ? request->receive.wait_ms : request->read.wait_ms;
    return wait_ms > STREAM_WAIT_MS_MAX ? STREAM_WAIT_MS_MAX : wait_ms;
}

void streams_wait(struct streams *s, struct stream_request *request)
{
    struct stream *stream = stream_core_by_number(&s->core, request->number);

    assert(stream != NULL);
    if (request->wait_until_ns == 0) {
        request->wait_until_ns = s->now_ns + wait_ms_of(request) * NS_PER_MS;
    }
    if (request->wait_until_ns <= s->now_ns || s->is_stopping) {
        streams_reply(s, request); /* nothing: an answer too */
        return;
    }
    if (s->waiting.n >= s->options.waiting_n_max) {
        request->status = E_UNAVAILABLE;
        streams_reply(s, request);
        return;
    }
    request->is_waiting = true;
    request->due.key = request->wait_until_ns;
    request->due.order = ++s->waits_n;
    heap_push(&s->waiting, &request->due);
    if (request->kind == STREAM_REQUEST_RECEIVE)
        list_push_back(&stream->waiting, &request->waiting);
    else
        list_push_back(&stream->partitions[request->read.partition]->waiting, &request->waiting);
}

void streams_mark_dirty(struct streams *s, uint32_t number)
{
    struct stream *stream = stream_core_by_number(&s->core, number);

    if (stream == NULL || list_is_linked(&stream->dirty)) return;
    list_push_back(&s->dirty, &stream->dirty);
}

/* Steps those of a list again, each once; at the first receive that gets nothing, the others would
 * get nothing either. */
static void wake_list(struct streams *s, struct list *waiting, bool is_receive)
{
    struct list again;
    struct list *node;

    list_init(&again);
    list_splice_back(&again, waiting);
    while ((node = list_first(&again)) != NULL) {
        struct stream_request *request = container_of(node, struct stream_request, waiting);
        unlink_waiting(s, request);
        streams_run(s, request);
        if (is_receive && request->is_waiting) {
            /* It is the last of `waiting` now, and was the first. */
            list_remove(&request->waiting);
            list_push_front(&again, &request->waiting);
            break;
        }
    }
    list_splice_back(&again, waiting);
    list_splice_back(waiting, &again);
}

void streams_wake_dirty(struct streams *s)
{
    struct list *node;

    while ((node = list_pop_front(&s->dirty)) != NULL) {
        struct stream *stream = container_of(node, struct stream, dirty);
        for (uint32_t i = 0; i < stream->settings.partitions_n; i++) {
            struct stream_partition *partition = stream->partitions[i];
            if (list_is_empty(&partition->waiting)) continue;
            wake_list(s, &partition->waiting, false);
        }
        if (!list_is_empty(&stream->waiting)) wake_list(s, &stream->waiting, true);
    }
}

void streams_waits_expire(struct streams *s, bool is_all)
{
    struct heap_node *node;

    while ((node = heap_min(&s->waiting)) != NULL && (is_all || node->key <= s->now_ns)) {
        struct stream_request *request = container_of(node, struct stream_request, due);
        unlink_waiting(s, request);
        request->status = is_all ? E_CLOSED : OK;
        streams_reply(s, request);
    }
}

static bool cancel_in(struct streams *s, struct list *waiting, const struct stream_request *which)
{
    for (struct list *at = list_first(waiting); at != NULL; at = list_next(waiting, at)) {
        struct stream_request *request = container_of(at, struct stream_request, waiting);
        if (request != which) continue;
        unlink_waiting(s, request);
        request->status = E_TIMEOUT;
        streams_reply(s, request);
        return true;
    }
    return false;
}

void streams_cancel(struct streams *s, struct stream_request *request)
{
    struct stream *stream = stream_core_find(&s->core, request->stream);
    const struct stream_request *which = request->cancel.request;
    bool is_found = stream != NULL && cancel_in(s, &stream->waiting, which);

    for (uint32_t i = 0; stream != NULL && !is_found && i < stream->settings.partitions_n; i++) {
        is_found = cancel_in(s, &stream->partitions[i]->waiting, which);
    }
    request->status = is_found ? OK : E_NOT_FOUND;
}

static void forget_list(struct streams *s, struct list *waiting)
{
    struct list *node;

    while ((node = list_first(waiting)) != NULL) {
        struct stream_request *request = container_of(node, struct stream_request, waiting);
        unlink_waiting(s, request);
        request->status = E_NOT_FOUND;
        streams_reply(s, request);
    }
}

void streams_waits_forget(struct streams *s, struct stream *stream)
{
    forget_list(s, &stream->waiting);
    for (uint32_t i = 0; i < stream->settings.partitions_n; i++) {
        forget_list(s, &stream->partitions[i]->waiting);
    }
}
