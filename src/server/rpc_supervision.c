/* SPDX-License-Identifier: Apache-2.0
 *
 * What the Durable Task protocol has no words for, as our own service (wire/norn.proto): ListSteps,
 * ResubmitStep, RenewTask.
 */
#include "core/limits.h"
#include "server/state.h"

#define STEP_SIZE_ABOUT 64

/* ---- steps ---- */

static uint64_t state_of(enum task_process process)
{
    switch (process) {
    case TASK_PENDING: return NORN__V1__STEP_STATE__PENDING;
    case TASK_PROCESSING: return NORN__V1__STEP_STATE__PROCESSING;
    case TASK_WAITING: return NORN__V1__STEP_STATE__WAITING;
    case TASK_ERROR: return NORN__V1__STEP_STATE__ERROR;
    }
    unreachable("no such state of a step");
}

static void put_time_ms(struct buffer *b, uint32_t number, int64_t ms)
{
    if (ms > 0) pb_put_timestamp_parts(b, number, ms / 1000, (int32_t)(ms % 1000) * 1000000);
}

/* On the host's thread. */
static void encode_steps(struct errand *errand)
{
    const struct why *why = errand->request.why;

    if (errand->request.status == OK && why == NULL) errand->request.status = E_NOT_FOUND;
    if (errand->request.status != OK) return;
    for (size_t n = 0; n < why->tasks_n; n++) {
        const struct task_view *task = &why->tasks[n].task;
        struct pb_mark step = pb_begin(&errand->reply, 1, task->name.len + STEP_SIZE_ABOUT);
        pb_put_plain_int32(&errand->reply, 1, task->task_id);
        pb_put_plain_bytes(&errand->reply, 2, task->name);
        pb_put_plain_varint(&errand->reply, 3, state_of(task->process));
        pb_put_plain_varint(&errand->reply, 4, task->locked_by);
        put_time_ms(&errand->reply, 5, task->complete_by_ms);
        pb_put_plain_varint(&errand->reply, 6, task->failures);
        put_time_ms(&errand->reply, 7, task->retry_at_ms);
        pb_end(&errand->reply, step);
    }
}

void rpc_list_steps(struct service *s, struct grpc_call *call, struct bytes message)
{
    struct pb_field field;
    struct bytes hub;
    struct bytes id = BYTES_NONE;
    struct errand *errand =
        call_begin(s, call, REQUEST_WHY, &norn__v1__list_steps_request__descriptor, &message, &hub);

    if (errand == NULL) return;
    struct pb_reader r = pb_reader_make(message);
    while (pb_next(&r, &field)) {
        if (field.number == 1) id = field.bytes;
    }
    errand->encode = encode_steps;
    call_post(errand, hub, id);
}

void rpc_resubmit_step(struct service *s, struct grpc_call *call, struct bytes message)
{
    struct pb_field field;
    struct bytes hub;
    struct bytes id = BYTES_NONE;
    struct errand *errand = call_begin(
        s, call, REQUEST_RESUBMIT, &norn__v1__resubmit_step_request__descriptor, &message, &hub);

    if (errand == NULL) return;
    struct pb_reader r = pb_reader_make(message);
    while (pb_next(&r, &field)) {
        if (field.number == 1) id = field.bytes;
        if (field.number == 2) errand->request.client.task_id = pb_int32(&field);
    }
    call_post(errand, hub, id);
}

/* ---- leases ---- */

static void answer_lost(struct grpc_call *call)
{
    static const uint8_t is_lost[] = {1 << 3 | PB_VARINT, 1};

    if (call != NULL) grpc_answer(call, bytes_make(is_lost, sizeof is_lost));
}

static void on_renewed(struct errand *errand)
{
    if (errand->request.status != E_STALE) {
        errand_answer(errand);
        return;
    }
    answer_lost(errand->call);
    errand_free(errand);
}

void rpc_renew_task(struct service *s, struct grpc_call *call, struct bytes message)
{
    struct pb_field field;
    struct bytes hub;
    struct bytes token = BYTES_NONE;
    struct errand *errand = call_begin(s, call, REQUEST_RENEW,
                                       &norn__v1__renew_task_request__descriptor, &message, &hub);

    if (errand == NULL) return;
    struct request *request = &errand->request;
    struct pb_reader r = pb_reader_make(message);
    while (pb_next(&r, &field)) {
        if (field.number == 1) token = field.bytes;
        if (field.number == 2) request->lease.extend_ms = (int64_t)field.value;
    }
    if (request->lease.extend_ms < 0) {
        errand_refuse(errand, "extend_ms must not be negative");
        return;
    }
    if (request->lease.extend_ms > LIMIT_EXTEND_MS) request->lease.extend_ms = LIMIT_EXTEND_MS;
    struct work_ref *ref = &request->lease.ref;
    enum status status = token_read(token, desk_engine(s->desk)->mac_key, &errand->arena, ref);
    if (status == E_NOMEM) {
        call_fail_busy(s, call);
        errand_free(errand);
        return;
    }
    if (status != OK || ref->kind != WORK_TASK || !bytes_equal(key_hub(ref->key), hub)) {
        answer_lost(call); /* as an answer with such a token would be: dropped */
        errand_free(errand);
        return;
    }
    request->key = ref->key;
    errand->done = on_renewed;
    call_post_as_is(errand);
}
