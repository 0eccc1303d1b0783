/* SPDX-License-Identifier: Apache-2.0
 *
 * PurgeInstances: by id, by a list of ids, or by a filter. What does not exist or has not ended is
 * not counted, and is no error: whoever asks wants it gone, and looks at the count.
 */
#include "server/state.h"

#include "base/units.h"

#define NS_PER_MS 1000000
#define TIMEOUT_MAX_S ((int64_t)1 << 40)

static void put_answer(struct buffer *reply, uint32_t n, bool is_complete)
{
    pb_put_plain_int32(reply, 1, n > INT32_MAX ? INT32_MAX : (int32_t)n);
    struct pb_mark mark = pb_begin(reply, 2, 2);
    pb_put_plain_varint(reply, 1, is_complete ? 1 : 0);
    pb_end(reply, mark);
}

/* ---- one ---- */

static void on_purged(struct errand *errand)
{
    struct request *request = &errand->request;
    uint32_t n = request->status == OK ? request->purged_n : 0;

    if (request->status == E_NOT_FOUND || request->status == E_PRECONDITION) request->status = OK;
    put_answer(&errand->reply, n, true);
    errand_answer(errand);
}

static void purge_one(struct service *s, struct grpc_call *call, struct bytes message)
{
    struct pb_field field;
    struct bytes hub;
    struct bytes id = BYTES_NONE;
    struct errand *errand =
        call_begin(s, call, REQUEST_PURGE, &purge_instances_request__descriptor, &message, &hub);

    if (errand == NULL) return;
    struct pb_reader r = pb_reader_make(message);
    while (pb_next(&r, &field)) {
        if (field.number == 1) id = field.bytes;
        if (field.number == 3) errand->request.client.recurse = pb_bool(&field);
    }
    errand->done = on_purged;
    call_post(errand, hub, id);
}

/* ---- some ---- */

static void prepare_purge(struct batch *batch, struct request *request)
{
    request->client.recurse = batch->flag;
}

static enum status on_one_purged(struct batch *batch, const struct request *request,
                                 struct bytes id)
{
    (void)id;
    if (request->status == OK) batch->counted_n += request->purged_n;
    if (request->status == E_NOT_FOUND || request->status == E_PRECONDITION) return OK;
    return request->status == E_INVALID ? OK : request->status; /* no such id can exist */
}

static void on_all_purged(struct batch *batch)
{
    put_answer(&batch->reply, batch->counted_n, true);
    grpc_answer(batch->call, buffer_view(&batch->reply));
}

static const struct batch_ops purge_ops = {
    .kind = REQUEST_PURGE,
    .prepare = prepare_purge,
    .one = on_one_purged,
    .end = on_all_purged,
};

static void purge_some(struct service *s, struct grpc_call *call, struct bytes message)
{
    struct pb_field field;
    struct batch *batch = batch_new(s, call, &purge_ops, message);

    if (batch == NULL) return;
    struct pb_reader r = pb_reader_make(batch->message);
    while (pb_next(&r, &field)) {
        if (field.number == 3) batch->flag = pb_bool(&field);
        if (field.number == 4) batch_add(batch, &field);
    }
    batch_run(batch);
}

/* ---- all that match ---- */

static void on_filter_purged(struct errand *errand)
{
    put_answer(&errand->reply, errand->request.purged_n, !errand->request.has_more);
    errand_answer(errand);
}

/* A Duration; at least 1 ms, because 0 is none. */
static int64_t read_duration_ms(const struct pb_field *duration)
{
    struct pb_reader r = pb_sub(duration);
    struct pb_field field;
    int64_t seconds = 0;
    int64_t nanos = 0;

    while (pb_next(&r, &field)) {
        if (field.number == 1) seconds = (int64_t)field.value;
        if (field.number == 2) nanos = pb_int32(&field);
    }
    if (seconds > TIMEOUT_MAX_S) seconds = TIMEOUT_MAX_S;
    if (seconds < 0 || nanos < 0) return 1;
    int64_t ms = seconds * MS_PER_S + nanos / NS_PER_MS;
    return ms > 0 ? ms : 1;
}

static const char *read_filter(const struct pb_field *filter, struct request *request)
{
    struct pb_reader r = pb_sub(filter);
    struct pb_field field;

    while (pb_next(&r, &field)) {
        switch (field.number) {
        case 1:
            if (!read_from(&field, &request->purge.query)) return query_bad_time;
            break;
        case 2:
            if (!read_to(&field, &request->purge.query)) return query_bad_time;
            break;
        case 3:
            if (!read_statuses(&field, &request->purge.query.status_mask))
                return "the filter names an unknown status";
            break;
        case 4: request->purge.timeout_ms = read_duration_ms(&field); break;
        default: break;
        }
    }
    return NULL;
}

static void purge_where(struct service *s, struct grpc_call *call, struct bytes message)
{
    struct pb_field field;
    struct bytes hub;
    const char *problem = NULL;
    struct errand *errand = call_begin(s, call, REQUEST_PURGE_WHERE,
                                       &purge_instances_request__descriptor, &message, &hub);

    if (errand == NULL) return;
    struct pb_reader r = pb_reader_make(message);
    while (problem == NULL && pb_next(&r, &field)) {
        if (field.number == 2) problem = read_filter(&field, &errand->request);
        if (field.number == 3) errand->request.purge.recurse = pb_bool(&field);
    }
    if (problem != NULL) {
        errand_refuse(errand, problem);
        return;
    }
    errand->request.purge.query.hub = hub;
    errand->request.purge.query.terminal_only = true;
    errand->done = on_filter_purged;
    call_post_as_is(errand);
}

void rpc_purge(struct service *s, struct grpc_call *call, struct bytes message)
{
    struct pb_field field;
    uint32_t which = 0; /* of a oneof: the last counts */

    if (!call_check(s, call, &purge_instances_request__descriptor, message)) return;
    struct pb_reader r = pb_reader_make(message);
    while (pb_next(&r, &field)) {
        if (field.number == 1 || field.number == 2 || field.number == 4) which = field.number;
    }
    if (which == 1)
        purge_one(s, call, message);
    else if (which == 2)
        purge_where(s, call, message);
    else if (which == 4)
        purge_some(s, call, message);
    else
        call_fail(s, call, GRPC_INVALID_ARGUMENT,
                  "name what is to be purged: an instance id, a batch of ids, or a filter");
}
