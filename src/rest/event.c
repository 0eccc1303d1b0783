/* SPDX-License-Identifier: Apache-2.0
 *
 * A history event as JSON. The bytes are walked with the protocol's description of it, so that
 * every field is shown under its own name in camel case; what the event is about stands beside
 * eventId, type and time, and not one level below. Payloads are JSON, not texts of JSON.
 */
#include "rest/state.h"

#include "wire/message.h"
#include "wire/pb.h"

#define LEVELS_MAX 24u

static void put_message(struct json *j, const ProtobufCMessageDescriptor *type, struct bytes bytes,
                        unsigned level);

static struct bytes camel_case(const char *name, char out[64])
{
    size_t n = 0;
    bool is_next = false;

    for (; *name != '\0' && n < 64; name++) {
        if (*name == '_') {
            is_next = true;
            continue;
        }
        out[n++] = is_next && *name >= 'a' && *name <= 'z' ? (char)(*name - 'a' + 'A') : *name;
        is_next = false;
    }
    return bytes_make(out, n);
}

/* Fields whose text is what somebody's program gave as JSON. */
static bool is_payload(const char *name)
{
    static const char *const names[] = {"input", "result", "data", "output", "reason"};

    for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) {
        if (strcmp(name, names[n]) == 0) return true;
    }
    return false;
}

static bool is_type(const ProtobufCMessageDescriptor *type, const char *name)
{
    return strcmp(type->name, name) == 0;
}

static void put_time(struct json *j, const struct pb_field *field)
{
    int64_t seconds = 0;
    int32_t nanos = 0;

    if (pb_get_timestamp(field, &seconds, &nanos))
        write_time(j, pb_timestamp_ns(seconds, nanos));
    else
        json_null(j);
}

static void put_nested(struct json *j, const ProtobufCFieldDescriptor *d,
                       const struct pb_field *field, unsigned level)
{
    const ProtobufCMessageDescriptor *type = d->descriptor;
    struct bytes text;

    if (is_type(type, "google.protobuf.Timestamp")) {
        put_time(j, field);
    } else if (is_type(type, "google.protobuf.StringValue")) {
        if (!pb_get_string_value(field, &text))
            json_null(j);
        else if (is_payload(d->name))
            write_payload(j, text);
        else
            json_bytes(j, text);
    } else if (strcmp(d->name, "failure_details") == 0) {
        write_failure(j, field->bytes);
    } else {
        put_message(j, type, field->bytes, level);
    }
}

static void put_enum(struct json *j, const ProtobufCEnumDescriptor *type, int32_t value)
{
    const ProtobufCEnumValue *known = protobuf_c_enum_descriptor_get_value(type, value);

    if (known != NULL)
        json_text(j, known->name);
    else
        json_int64(j, value);
}

static void put_value(struct json *j, const ProtobufCFieldDescriptor *d,
                      const struct pb_field *field, unsigned level)
{
    if (d->type == PROTOBUF_C_TYPE_MESSAGE)
        put_nested(j, d, field, level);
    else if (d->type == PROTOBUF_C_TYPE_STRING || d->type == PROTOBUF_C_TYPE_BYTES)
        json_bytes(j, field->bytes);
    else if (d->type == PROTOBUF_C_TYPE_BOOL)
        json_bool(j, pb_bool(field));
    else if (d->type == PROTOBUF_C_TYPE_ENUM)
        put_enum(j, d->descriptor, pb_int32(field));
    else if (d->type == PROTOBUF_C_TYPE_INT32)
        json_int64(j, pb_int32(field));
    else
        json_int64(j, (int64_t)field->value);
}

/* One entry of a map of texts. */
static void put_entry(struct json *j, const struct pb_field *entry)
{
    struct pb_reader r = pb_sub(entry);
    struct pb_field field;
    struct bytes key = BYTES_NONE;
    struct bytes value = BYTES_NONE;

    while (pb_next(&r, &field)) {
        if (field.number == 1) key = field.bytes;
        if (field.number == 2) value = field.bytes;
    }
    json_key_bytes(j, key);
    json_bytes(j, value);
}

/* All with this number, from the first on. A map is an object. */
static void put_repeated(struct json *j, const ProtobufCFieldDescriptor *d, struct bytes bytes,
                         unsigned level)
{
    struct pb_reader r = pb_reader_make(bytes);
    struct pb_field field;

    if (strcmp(d->name, "tags") == 0) {
        json_object_begin(j);
        while (pb_next(&r, &field)) {
            if (field.number == d->id) put_entry(j, &field);
        }
        json_object_end(j);
        return;
    }
    json_array_begin(j);
    while (pb_next(&r, &field)) {
        if (field.number == d->id) put_value(j, d, &field, level);
    }
    json_array_end(j);
}

/* The status of an end, in the words of the API. */
static bool put_status(struct json *j, const ProtobufCFieldDescriptor *d,
                       const struct pb_field *field)
{
    if (d->type != PROTOBUF_C_TYPE_ENUM || strcmp(d->name, "orchestration_status") != 0) {
        return false;
    }
    json_key(j, "status");
    json_text(j, status_word((enum orchestration_status)pb_int32(field)));
    return true;
}

static void put_fields(struct json *j, const ProtobufCMessageDescriptor *type, struct bytes bytes,
                       unsigned level)
{
    struct pb_reader r = pb_reader_make(bytes);
    struct pb_field field;
    char key[64];

    while (pb_next(&r, &field)) {
        const ProtobufCFieldDescriptor *d =
            protobuf_c_message_descriptor_get_field(type, field.number);
        if (d == NULL || pb_is_repeated(bytes, &field) || put_status(j, d, &field)) continue;
        bool is_failure = strcmp(d->name, "failure_details") == 0;
        json_key_bytes(j, camel_case(is_failure ? "failure" : d->name, key));
        if (d->label == PROTOBUF_C_LABEL_REPEATED)
            put_repeated(j, d, bytes, level);
        else
            put_value(j, d, &field, level);
    }
}

static void put_message(struct json *j, const ProtobufCMessageDescriptor *type, struct bytes bytes,
                        unsigned level)
{
    json_object_begin(j);
    if (level < LEVELS_MAX) put_fields(j, type, bytes, level + 1);
    json_object_end(j);
}

void write_event(struct json *j, struct bytes event)
{
    const ProtobufCMessageDescriptor *type = &history_event__descriptor;
    struct pb_reader r = pb_reader_make(event);
    const ProtobufCFieldDescriptor *about = NULL;
    struct pb_field field, time = {0}, body = {0};
    int32_t id = 0;
    char name[64];

    while (pb_next(&r, &field)) {
        if (field.number == 1) {
            id = pb_int32(&field);
        } else if (field.number == 2) {
            time = field;
        } else if (about == NULL) {
            about = protobuf_c_message_descriptor_get_field(type, field.number);
            body = field;
        }
    }
    json_object_begin(j);
    json_key(j, "eventId");
    json_int64(j, id);
    json_key(j, "type");
    json_bytes(j, about == NULL ? BYTES_LITERAL("unknown") : camel_case(about->name, name));
    json_key(j, "time");
    put_time(j, &time);
    if (about != NULL && about->type == PROTOBUF_C_TYPE_MESSAGE) {
        put_fields(j, about->descriptor, body.bytes, 1);
    }
    json_object_end(j);
}
