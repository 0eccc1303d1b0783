/* SPDX-License-Identifier: Apache-2.0
 *
 * See stream_json.h.
 */
#include "rest/stream_json.h"

/* ---- writing ---- */

static void write_base64(struct json *j, struct bytes value)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t size = (value.len + 2) / 3 * 4;

    /* Written in place, between quotes: none of the digits needs an escape. */
    json_raw(j, BYTES_LITERAL("\""));
    if (buffer_reserve(j->out, size + 1)) {
        for (size_t i = 0; i < value.len; i += 3) {
            uint32_t bits = (uint32_t)value.ptr[i] << 16;
            if (i + 1 < value.len) bits |= (uint32_t)value.ptr[i + 1] << 8;
            if (i + 2 < value.len) bits |= value.ptr[i + 2];
            buffer_u8(j->out, (uint8_t)digits[bits >> 18]);
            buffer_u8(j->out, (uint8_t)digits[bits >> 12 & 63]);
            buffer_u8(j->out, i + 1 < value.len ? (uint8_t)digits[bits >> 6 & 63] : '=');
            buffer_u8(j->out, i + 2 < value.len ? (uint8_t)digits[bits & 63] : '=');
        }
        buffer_u8(j->out, '"');
    }
}

void write_message_value(struct json *j, enum stream_value_kind kind, struct bytes value)
{
    if (kind == STREAM_VALUE_JSON) {
        json_key(j, "value");
        write_payload(j, value);
        return;
    }
    json_key(j, "base64");
    write_base64(j, value);
}

void write_number_of(struct json *j, const char *key, uint64_t value)
{
    json_key(j, key);
    json_uint64(j, value);
}

void write_message_fields(struct json *j, const struct stream_message *message)
{
    write_number_of(j, "offset", message->offset);
    write_time_of(j, "time", message->time_ns);
    if (message->has_key) {
        json_key(j, "key");
        json_bytes(j, message->key);
    }
    write_message_value(j, message->kind, message->value);
}

void write_messages(struct json *j, const struct stream_request *request)
{
    struct reader at = reader_make(buffer_view(&request->answer));
    struct stream_message message;

    json_key(j, "items");
    json_array_begin(j);
    while (stream_answer_next(&at, &message)) {
        json_object_begin(j);
        write_message_fields(j, &message);
        json_object_end(j);
    }
    json_array_end(j);
}

/* ---- reading ---- */

bool ask_path_number(struct ask *ask, unsigned n, const char *what, uint64_t max, uint64_t *out)
{
    if (decimal_parse(ask->path[n], max, out)) return true;
    ask_problem(ask, PROBLEM_BAD_REQUEST, NULL, "the %s in the path must be a number", what);
    return false;
}

bool body_is_empty(struct ask *ask)
{
    struct body_field none;
    struct body_value nothing;

    return body_read(ask, ask_body(ask), &ask->arena, &none, 0, &nothing);
}

bool field_duration_ms(struct ask *ask, const char *name, const struct body_value *value,
                       int64_t max_ms, int64_t *out)
{
    int64_t ms;

    if (!value->has) return true;
    if (!duration_parse(value->text, &ms) || ms > max_ms) {
        ask_problem(ask, PROBLEM_BAD_REQUEST, NULL,
                    "'%s' must be a duration like 250ms, 10s, 5m or 2h, at most %lld ms", name,
                    (long long)max_ms);
        return false;
    }
    *out = ms;
    return true;
}

bool body_count(struct ask *ask, const char *name, const struct body_value *value, int64_t min,
                int64_t max, int64_t *out)
{
    if (!value->has) return true;
    if (value->number < min || value->number > max) {
        ask_problem(ask, PROBLEM_BAD_REQUEST, NULL, "'%s' must be %lld to %lld", name,
                    (long long)min, (long long)max);
        return false;
    }
    *out = value->number;
    return true;
}

/* ---- errands ---- */

struct stream_errand *ask_stream_errand(struct ask *ask, enum stream_request_kind kind)
{
    struct stream_errand *errand = stream_errand_new(ask->rest, ask, kind);

    if (errand == NULL) return NULL;
    errand->request.stream = stream_errand_copy(errand, ask->path[0]);
    if (errand->request.stream.len > 0) return errand;
    ask_busy(ask);
    stream_errand_end(errand);
    return NULL;
}

void stream_errand_read_done(struct stream_errand *errand)
{
    struct json j;

    if (!stream_errand_is_good(errand)) return;
    json_init(&j, &errand->ask->text);
    json_object_begin(&j);
    write_messages(&j, &errand->request);
    write_number_of(&j, "next", errand->request.next);
    if (errand->request.kind == STREAM_REQUEST_GROUP_READ) {
        write_number_of(&j, "position", errand->request.position);
    }
    json_object_end(&j);
    stream_errand_json(errand, 200);
}
