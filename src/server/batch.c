/* SPDX-License-Identifier: Apache-2.0
 *
 * A call that names many instances becomes one request for each, some dozens of them at once: the
 * engine makes them durable together. When its peer goes away, no more are begun.
 */
#include "server/state.h"

#include <stdio.h>

#define WINDOW_N 64u

struct batch *batch_new(struct service *s, struct grpc_call *call, const struct batch_ops *ops,
                        struct bytes message)
{
    struct bytes hub;

    if (!call_hub(s, call, &hub)) return NULL;
    struct batch *batch = mem_take_zero(s->mem, sizeof *batch);
    if (batch == NULL) {
        call_fail_busy(s, call);
        return NULL;
    }
    batch->service = s;
    batch->call = call;
    batch->ops = ops;
    batch->mem = s->mem;
    arena_init(&batch->arena, s->mem, 512);
    buffer_init(&batch->ids, s->mem);
    buffer_init(&batch->reply, s->mem);
    batch->hub = arena_copy(&batch->arena, hub);
    batch->message = arena_copy(&batch->arena, message);
    if (batch->hub.len != hub.len || batch->message.len != message.len) batch->status = E_NOMEM;
    list_push_back(&s->batches, &batch->node);
    return batch;
}

void batch_add(struct batch *batch, const struct pb_field *instance_batch)
{
    struct pb_reader r = pb_sub(instance_batch);
    struct pb_field field;

    while (pb_next(&r, &field)) {
        if (field.number == 1) strings_add(&batch->ids, field.bytes);
    }
    if (batch->ids.failed) batch->status = E_NOMEM;
}

static void batch_end(struct batch *batch)
{
    list_remove(&batch->node);
    if (batch->status == OK && batch->reply.failed) batch->status = E_NOMEM;
    if (batch->status == OK) {
        batch->ops->end(batch);
    } else {
        call_fail(batch->service, batch->call, grpc_code_of(batch->status), "%s",
                  batch->text[0] != '\0' ? batch->text : status_text(batch->status));
    }
    buffer_release(&batch->ids);
    buffer_release(&batch->reply);
    arena_release(&batch->arena);
    mem_give(batch->mem, batch, sizeof *batch);
}

static bool batch_go_on(struct batch *batch);

static void on_one(struct errand *errand)
{
    struct batch *batch = errand->user;
    const struct request *request = &errand->request;
    enum status status = batch->ops->one(batch, request, key_id(request->key));

    if (status != OK && batch->status == OK) {
        batch->status = status;
        (void)snprintf(batch->text, sizeof batch->text, "%s", request->text);
    }
    errand_free(errand);
    assert(batch->pending_n > 0);
    batch->pending_n--;
    (void)batch_go_on(batch); /* stuck: tried again at the next tick */
}

/* False: not now. */
static bool post_one(struct batch *batch, struct bytes id)
{
    struct errand *errand = errand_new(batch->service->desk, batch->ops->kind, NULL);

    if (errand == NULL) return false;
    errand->user = batch;
    errand->done = on_one;
    errand->request.key = key_make(&errand->arena, batch->hub, id);
    batch->ops->prepare(batch, &errand->request);
    if (errand->request.key.ptr == NULL || !errand_post(errand, -1)) {
        errand_free(errand);
        return false;
    }
    batch->pending_n++;
    return true;
}

static bool has_next(const struct batch *batch)
{
    return batch->status == OK && batch->next < batch->ids.len && !grpc_is_closed(batch->call);
}

/* False: it is stuck. It may be gone otherwise. */
static bool batch_go_on(struct batch *batch)
{
    batch->is_stuck = false;
    while (has_next(batch) && batch->pending_n < WINDOW_N) {
        struct reader r =
            reader_make(bytes_make(batch->ids.ptr + batch->next, batch->ids.len - batch->next));
        struct bytes id;
        bool is_there = strings_next(&r, &id);
        assert(is_there);
        if (!post_one(batch, id)) {
            batch->is_stuck = true;
            break;
        }
        batch->next = batch->ids.len - reader_left(&r);
    }
    if (batch->is_stuck) return false;
    if (batch->pending_n == 0 && !has_next(batch)) batch_end(batch);
    return true;
}

void batch_run(struct batch *batch) { (void)batch_go_on(batch); }

bool batches_retry(struct service *s)
{
    bool is_all_taken = true;
    struct list *next;

    for (struct list *node = list_first(&s->batches); node != NULL; node = next) {
        struct batch *batch = container_of(node, struct batch, node);
        next = list_next(&s->batches, node);
        if (!batch->is_stuck) continue;
        if (s->is_draining) batch->status = E_UNAVAILABLE;
        if (!batch_go_on(batch)) is_all_taken = false;
    }
    return is_all_taken;
}
