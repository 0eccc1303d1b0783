/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists: QueryInstances and ListInstanceIds. A page ends after as many rows as were asked for, or
 * when it is about to outgrow what most clients are willing to receive (4 MB); the token says where
 * the next one begins.
 */
#include "host/rows.h"
#include "server/state.h"

#define PAGE_N_DEFAULT 100u

void query_set_limit(struct request_query *query, int32_t wish)
{
    query->limit = wish <= 0                          ? PAGE_N_DEFAULT
                   : (uint32_t)wish > QUERY_LIMIT_MAX ? QUERY_LIMIT_MAX
                                                      : (uint32_t)wish;
}

bool query_set_position(struct request_query *query, const struct pb_field *field)
{
    struct bytes token = read_maybe(field).value;

    if (token.len == 0) return true;
    query->has_after = true;
    return position_read(token, &query->after_ms, &query->after_id);
}

void errand_refuse(struct errand *errand, const char *problem)
{
    call_fail(errand_service(errand), errand->call, GRPC_INVALID_ARGUMENT, "%s", problem);
    errand_free(errand);
}

const char query_bad_token[] =
    "the continuation token is not one that this server gave: begin again without one";
const char query_bad_time[] = "a time of the filter is not a time";
static const char bad_status[] = "the filter names an unknown status";

void query_put_position(struct errand *errand, size_t n)
{
    const struct request *request = &errand->request;

    if (n == 0 || (n == request->rows_n && !request->has_more)) return;
    const struct instance_view *last = &request->rows[n - 1];
    struct pb_mark mark = pb_begin(&errand->reply, 2, 100);
    struct pb_mark value = pb_begin(&errand->reply, 1, 100);
    position_write(&errand->reply, view_time_ms(last, request->query.by_completion),
                   key_id(last->key));
    pb_end(&errand->reply, value);
    pb_end(&errand->reply, mark);
}

/* ---- QueryInstances ---- */

void query_encode_rows(struct errand *errand, view_write_fn *write)
{
    const struct request *request = &errand->request;
    size_t n = 0;

    if (request->status != OK) return;
    while (n < request->rows_n) {
        size_t before = errand->reply.len;
        write(&errand->reply, 1, &request->rows[n], errand->flag);
        if (n > 0 && errand->reply.len > PAGE_SIZE_MAX) {
            errand->reply.len = before; /* it begins the next page */
            break;
        }
        n++;
    }
    query_put_position(errand, n);
}

static void encode_states(struct errand *errand) { query_encode_rows(errand, view_write_state); }

/* NULL when there is nothing wrong with it. is_other_hub: it names hubs, and not this one. */
static const char *read_query(struct errand *errand, struct bytes message, struct bytes hub,
                              bool *is_other_hub)
{
    struct request_query *query = &errand->request.query;
    struct pb_reader r = pb_reader_make(message);
    struct pb_field field;
    bool names_hubs = false;
    bool names_this = false;

    query_set_limit(query, 0);
    while (pb_next(&r, &field)) {
        switch (field.number) {
        case 1:
            if (!read_statuses(&field, &query->status_mask)) return bad_status;
            break;
        case 2:
            if (!read_from(&field, query)) return query_bad_time;
            break;
        case 3:
            if (!read_to(&field, query)) return query_bad_time;
            break;
        case 4:
            names_hubs = true;
            names_this = names_this || bytes_equal(read_maybe(&field).value, hub);
            break;
        case 5: query_set_limit(query, pb_int32(&field)); break;
        case 6:
            if (!query_set_position(query, &field)) return query_bad_token;
            break;
        case 7: query->id_prefix = read_maybe(&field).value; break;
        case 8: query->want_payloads = pb_bool(&field); break;
        default: break;
        }
    }
    *is_other_hub = names_hubs && !names_this;
    return NULL;
}

void rpc_query(struct service *s, struct grpc_call *call, struct bytes message)
{
    struct pb_field field;
    struct bytes hub;
    const char *problem = NULL;
    bool is_other_hub = false;
    struct errand *errand =
        call_begin(s, call, REQUEST_QUERY, &query_instances_request__descriptor, &message, &hub);

    if (errand == NULL) return;
    query_set_limit(&errand->request.query, 0);
    struct pb_reader r = pb_reader_make(message);
    while (problem == NULL && pb_next(&r, &field)) {
        if (field.number == 1) problem = read_query(errand, field.bytes, hub, &is_other_hub);
    }
    if (problem != NULL) {
        errand_refuse(errand, problem);
        return;
    }
    if (is_other_hub) {
        /* One hub does not show another's instances: to see those, ask there. */
        grpc_answer(call, BYTES_NONE);
        errand_free(errand);
        return;
    }
    errand->request.query.hub = hub;
    errand->flag = errand->request.query.want_payloads;
    errand->encode = encode_states;
    call_post_as_is(errand);
}

/* ---- ListInstanceIds ---- */

static void encode_ids(struct errand *errand)
{
    const struct request *request = &errand->request;

    if (request->status != OK) return;
    for (size_t n = 0; n < request->rows_n; n++) {
        pb_put_bytes(&errand->reply, 1, key_id(request->rows[n].key));
    }
    query_put_position(errand, request->rows_n);
}

static const char *read_list(struct errand *errand, struct bytes message)
{
    struct request_query *query = &errand->request.query;
    struct pb_reader r = pb_reader_make(message);
    struct pb_field field;

    query_set_limit(query, 0);
    while (pb_next(&r, &field)) {
        switch (field.number) {
        case 1:
            if (!read_statuses(&field, &query->status_mask)) return bad_status;
            break;
        case 2:
            if (!read_from(&field, query)) return query_bad_time;
            break;
        case 3:
            if (!read_to(&field, query)) return query_bad_time;
            break;
        case 4: query_set_limit(query, pb_int32(&field)); break;
        case 5:
            if (!query_set_position(query, &field)) return query_bad_token;
            break;
        default: break;
        }
    }
    return NULL;
}

void rpc_list_ids(struct service *s, struct grpc_call *call, struct bytes message)
{
    struct bytes hub;
    struct errand *errand =
        call_begin(s, call, REQUEST_QUERY, &list_instance_ids_request__descriptor, &message, &hub);

    if (errand == NULL) return;
    const char *problem = read_list(errand, message);
    if (problem != NULL) {
        errand_refuse(errand, problem);
        return;
    }
    errand->request.query.hub = hub;
    errand->request.query.terminal_only = true;
    errand->request.query.by_completion = true;
    errand->encode = encode_ids;
    call_post_as_is(errand);
}
