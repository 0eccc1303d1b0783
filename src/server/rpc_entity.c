/* SPDX-License-Identifier: Apache-2.0
 *
 * What clients ask about entities: SignalEntity, GetEntity, QueryEntities, CleanEntityStorage. An
 * entity's id is "@name@key"; names are lower case however they are written, keys as given.
 */
#include "core/limits.h"
#include "server/state.h"

/* NULL when it is the id of an entity. */
static const char *id_problem(struct bytes id)
{
    if (id.len > LIMIT_CLIENT_ID_SIZE) {
        return "the entity id has a length of more than 100 bytes: choose a shorter name or key";
    }
    if (id.len < 3 || id.ptr[0] != '@') return "an entity id has the form @name@key";
    const uint8_t *second = memchr(id.ptr + 1, '@', id.len - 1);
    if (second == NULL || second == id.ptr + 1) return "an entity id has the form @name@key";
    return NULL;
}

/* The name part in lower case, in the arena; as given when there is no memory (then the next step
 * finds none either). */
static struct bytes id_normal(struct arena *arena, struct bytes id)
{
    uint8_t *copy = id.len > 0 ? arena_alloc(arena, id.len) : NULL;

    if (copy == NULL) return id;
    bool is_name = true;
    for (size_t n = 0; n < id.len; n++) {
        uint8_t c = id.ptr[n];
        if (n > 0 && c == '@') is_name = false;
        copy[n] = is_name && c >= 'A' && c <= 'Z' ? (uint8_t)(c - 'A' + 'a') : c;
    }
    return bytes_make(copy, id.len);
}

/* ---- SignalEntity ---- */

static const char *read_signal(struct bytes message, struct input_signal *signal, struct bytes *id)
{
    struct pb_reader r = pb_reader_make(message);
    struct pb_field field;

    while (pb_next(&r, &field)) {
        switch (field.number) {
        case 1: *id = field.bytes; break;
        case 2: signal->operation = field.bytes; break;
        case 3: signal->input = read_maybe(&field); break;
        case 4: signal->request_id = field.bytes; break;
        case 5:
            if (!read_time_ms(&field, true, &signal->scheduled_ms))
                return "scheduledTime is not a time";
            signal->has_scheduled = signal->scheduled_ms > 0;
            break;
        case 6: signal->trace = maybe_some(field.bytes); break;
        default: break;
        }
    }
    return id_problem(*id);
}

void rpc_signal_entity(struct service *s, struct grpc_call *call, struct bytes message)
{
    struct bytes hub;
    struct bytes id = BYTES_NONE;
    struct errand *errand =
        call_begin(s, call, REQUEST_SIGNAL, &signal_entity_request__descriptor, &message, &hub);

    if (errand == NULL) return;
    const char *problem = read_signal(message, &errand->request.signal, &id);
    if (problem != NULL)
        errand_refuse(errand, problem);
    else
        call_post(errand, hub, id_normal(&errand->arena, id));
}

/* ---- GetEntity ---- */

/* An entity without state does not exist, whatever waits for it. */
static void encode_entity(struct errand *errand)
{
    const struct instance_view *view = errand->request.view;

    if (errand->request.status != OK || view == NULL || !view->entity_state.has) return;
    pb_put_varint(&errand->reply, 1, 1);
    view_write_entity(&errand->reply, 2, view, errand->flag);
}

void rpc_get_entity(struct service *s, struct grpc_call *call, struct bytes message)
{
    struct pb_field field;
    struct bytes hub;
    struct bytes id = BYTES_NONE;
    struct errand *errand =
        call_begin(s, call, REQUEST_GET, &get_entity_request__descriptor, &message, &hub);

    if (errand == NULL) return;
    struct pb_reader r = pb_reader_make(message);
    while (pb_next(&r, &field)) {
        if (field.number == 1) id = field.bytes;
        if (field.number == 2) errand->flag = pb_bool(&field);
    }
    const char *problem = id_problem(id);
    if (problem != NULL) {
        errand_refuse(errand, problem);
        return;
    }
    errand->encode = encode_entity;
    call_post(errand, hub, id_normal(&errand->arena, id));
}

/* ---- QueryEntities ---- */

static void encode_entities(struct errand *errand) { query_encode_rows(errand, view_write_entity); }

static int32_t read_int32_value(const struct pb_field *wrapper)
{
    struct pb_reader r = pb_sub(wrapper);
    struct pb_field field;
    int32_t value = 0;

    while (pb_next(&r, &field)) {
        if (field.number == 1) value = pb_int32(&field);
    }
    return value;
}

static const char *read_query(struct errand *errand, struct bytes message)
{
    struct request_query *query = &errand->request.query;
    struct pb_reader r = pb_reader_make(message);
    struct pb_field field;

    while (pb_next(&r, &field)) {
        switch (field.number) {
        case 1: query->id_prefix = id_normal(&errand->arena, read_maybe(&field).value); break;
        case 2:
            if (!read_from(&field, query)) return query_bad_time;
            break;
        case 3:
            if (!read_to(&field, query)) return query_bad_time;
            break;
        case 4: query->want_payloads = pb_bool(&field); break;
        case 5: query->want_transient = pb_bool(&field); break;
        case 6: query_set_limit(query, read_int32_value(&field)); break;
        case 7:
            if (!query_set_position(query, &field)) return query_bad_token;
            break;
        default: break;
        }
    }
    return NULL;
}

void rpc_query_entities(struct service *s, struct grpc_call *call, struct bytes message)
{
    struct pb_field field;
    struct bytes hub;
    const char *problem = NULL;
    struct errand *errand =
        call_begin(s, call, REQUEST_QUERY, &query_entities_request__descriptor, &message, &hub);

    if (errand == NULL) return;
    struct request_query *query = &errand->request.query;
    query_set_limit(query, 0);
    struct pb_reader r = pb_reader_make(message);
    while (problem == NULL && pb_next(&r, &field)) {
        if (field.number == 1) problem = read_query(errand, field.bytes);
    }
    if (problem != NULL) {
        errand_refuse(errand, problem);
        return;
    }
    if (query->id_prefix.len == 0) query->id_prefix = BYTES_LITERAL("@");
    query->hub = hub;
    query->entities = true;
    errand->flag = query->want_payloads;
    errand->encode = encode_entities;
    call_post_as_is(errand);
}

/* ---- CleanEntityStorage ---- */

/* There is never anything to clean: the engine removes an entity that has become empty, and frees
 * the locks of an orchestration in the same step that ends it. */
void rpc_clean_entities(struct service *s, struct grpc_call *call, struct bytes message)
{
    struct bytes hub;

    if (!call_check(s, call, &clean_entity_storage_request__descriptor, message)) return;
    if (call_hub(s, call, &hub)) grpc_answer(call, BYTES_NONE);
}
