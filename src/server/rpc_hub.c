/* SPDX-License-Identifier: Apache-2.0
 *
 * What concerns a whole hub, or many instances of it without asking their workers: CreateTaskHub,
 * DeleteTaskHub, SkipGracefulOrchestrationTerminations. A hub exists by being named, so to create
 * one is nothing, and to delete one is to purge what is in it, running or not.
 */
#include "server/state.h"

static void hub_clear(struct service *s, struct grpc_call *call,
                      const ProtobufCMessageDescriptor *type, struct bytes message)
{
    struct bytes hub;
    struct errand *errand = call_begin(s, call, REQUEST_PURGE_WHERE, type, &message, &hub);

    if (errand == NULL) return;
    errand->request.purge.query.hub = hub;
    errand->request.purge.is_forced = true;
    call_post_as_is(errand);
}

void rpc_create_hub(struct service *s, struct grpc_call *call, struct bytes message)
{
    struct pb_field field;
    struct bytes hub;
    bool recreate = false;

    if (!call_check(s, call, &create_task_hub_request__descriptor, message)) return;
    struct pb_reader r = pb_reader_make(message);
    while (pb_next(&r, &field)) {
        if (field.number == 1) recreate = pb_bool(&field);
    }
    if (recreate) {
        hub_clear(s, call, &create_task_hub_request__descriptor, message);
    } else if (call_hub(s, call, &hub)) {
        grpc_answer(call, BYTES_NONE);
    }
}

void rpc_delete_hub(struct service *s, struct grpc_call *call, struct bytes message)
{
    hub_clear(s, call, &delete_task_hub_request__descriptor, message);
}

/* ---- SkipGracefulOrchestrationTerminations ---- */

/* Termination never waits for a worker here, so "not gracefully" is what it always is. */
static void prepare_terminate(struct batch *batch, struct request *request)
{
    request->client.data = batch->data;
}

static enum status on_one_terminated(struct batch *batch, const struct request *request,
                                     struct bytes id)
{
    if (request->status == E_NOT_FOUND || request->status == E_INVALID) {
        pb_put_bytes(&batch->reply, 1, id);
        return OK;
    }
    return request->status;
}

static void on_all_terminated(struct batch *batch)
{
    grpc_answer(batch->call, buffer_view(&batch->reply));
}

static const struct batch_ops terminate_ops = {
    .kind = REQUEST_TERMINATE,
    .prepare = prepare_terminate,
    .one = on_one_terminated,
    .end = on_all_terminated,
};

void rpc_skip_graceful(struct service *s, struct grpc_call *call, struct bytes message)
{
    struct pb_field field;

    if (!call_check(s, call, &skip_graceful_orchestration_terminations_request__descriptor,
                    message)) {
        return;
    }
    struct batch *batch = batch_new(s, call, &terminate_ops, message);
    if (batch == NULL) return;
    struct pb_reader r = pb_reader_make(batch->message);
    while (pb_next(&r, &field)) {
        if (field.number == 1) batch_add(batch, &field);
        if (field.number == 2) batch->data = read_maybe(&field);
    }
    batch_run(batch);
}
