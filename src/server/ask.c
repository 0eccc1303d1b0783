/* SPDX-License-Identifier: Apache-2.0
 *
 * What the handlers of client calls have in common: the message is checked once, copied once into
 * the errand that carries the request, and read there by pb.h.
 */
#include "base/planted.h"
#include "server/state.h"

bool call_check(struct service *s, struct grpc_call *call, const ProtobufCMessageDescriptor *type,
                struct bytes message)
{
    enum status status = message_check(type, message);

    if (status == OK) return true;
    call_fail(s, call, grpc_code_of(status),
              status == E_LIMIT ? "the request has too many fields or levels for a %s"
                                : "the request is not a valid %s: its bytes are malformed, or a "
                                  "text is not UTF-8 or has a NUL character",
              type->short_name);
    return false;
}

struct errand *call_begin(struct service *s, struct grpc_call *call, enum request_kind kind,
                          const ProtobufCMessageDescriptor *type, struct bytes *message,
                          struct bytes *hub)
{
    if (!call_check(s, call, type, *message)) return NULL;
    if (!call_hub(s, call, hub)) return NULL;
    struct errand *errand = errand_new(s->desk, kind, call);
    if (errand == NULL) {
        call_fail_busy(s, call);
        return NULL;
    }
    struct bytes copy = arena_copy(&errand->arena, *message);
    struct bytes name = arena_copy(&errand->arena, *hub);
    if (copy.len != message->len || name.len != hub->len) {
        call_fail_busy(s, call);
        errand_free(errand);
        return NULL;
    }
    *message = copy;
    *hub = name;
    errand->done = errand_answer;
    return errand;
}

void call_post_as_is(struct errand *errand)
{
    if (errand_post(errand, -1)) {
        if (planted("ok_before_durable") && errand->request.kind <= REQUEST_RAISE) {
            grpc_answer(errand->call, buffer_view(&errand->reply));
            errand->call = NULL;
        }
        return;
    }
    call_fail_busy(errand_service(errand), errand->call);
    errand_free(errand);
}

void call_post(struct errand *errand, struct bytes hub, struct bytes id)
{
    errand->request.key = key_make(&errand->arena, hub, id);
    if (errand->request.key.ptr == NULL) {
        call_fail_busy(errand_service(errand), errand->call);
        errand_free(errand);
        return;
    }
    call_post_as_is(errand);
}

/* ---- parts of messages ---- */

#define NS_PER_MS 1000000
#define STATUS_MAX 31 /* of the mask's bits */

struct maybe read_maybe(const struct pb_field *field)
{
    struct maybe value = {.has = true};

    return pb_get_string_value(field, &value.value) ? value : MAYBE_NONE;
}

bool read_time_ms(const struct pb_field *field, bool is_rounded_up, int64_t *ms)
{
    int64_t seconds;
    int32_t nanos;

    if (!pb_get_timestamp(field, &seconds, &nanos)) return false;
    int64_t ns = pb_timestamp_ns(seconds, nanos);
    int64_t rest = ns % NS_PER_MS;
    *ms = ns / NS_PER_MS;
    if (is_rounded_up && rest > 0 && *ms < INT64_MAX / NS_PER_MS) ++*ms;
    if (!is_rounded_up && rest < 0) --*ms;
    return true;
}

bool read_statuses(const struct pb_field *field, uint32_t *mask)
{
    if (field->wire == PB_VARINT) {
        if (field->value > STATUS_MAX) return false;
        *mask |= 1u << field->value;
        return true;
    }
    struct pb_reader packed = pb_reader_make(field->bytes);
    uint64_t status;
    while (pb_next_packed(&packed, &status)) {
        if (status > STATUS_MAX) return false;
        *mask |= 1u << status;
    }
    return true;
}

bool read_from(const struct pb_field *field, struct request_query *query)
{
    return read_time_ms(field, false, &query->from_ms);
}

bool read_to(const struct pb_field *field, struct request_query *query)
{
    if (!read_time_ms(field, true, &query->to_ms)) return false;
    if (query->to_ms < 1) query->to_ms = 1; /* 0 would be no bound; nothing is that old */
    return true;
}

void fresh_id(struct service *s, char out[FRESH_ID_SIZE])
{
    uint8_t id[EXECUTION_ID_SIZE];

    rng_fill(&s->rng, id, sizeof id);
    execution_id_text(id, out);
}
_Static_assert(FRESH_ID_SIZE == EXECUTION_TEXT_SIZE, "both are 16 bytes in hex");
