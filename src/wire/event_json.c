/* SPDX-License-Identifier: Apache-2.0
 *
 * See event_json.h. The bytes are walked with the protocol's description of a HistoryEvent, so that
 * every field is shown under its own name, in lowerCamelCase as everywhere in JSON. Fields that are
 * not in the description are left out.
 */
#include "wire/event_json.h"

#include "base/moment.h"
#include "wire/json.h"
#include "wire/message.h"
#include "wire/pb.h"

static void put_message(struct json *j, const ProtobufCMessageDescriptor *type, struct bytes bytes);

static void put_key(struct json *j, const char *name)
{
    char key[64];
    size_t n = 0;
    bool is_next = false;

    for (; *name != '\0' && n + 1 < sizeof key; name++) {
        if (*name == '_') {
            is_next = true;
            continue;
        }
        key[n++] = is_next && *name >= 'a' && *name <= 'z' ? (char)(*name - 'a' + 'A') : *name;
        is_next = false;
    }
    json_key_bytes(j, bytes_make(key, n));
}

static void put_time(struct json *j, const struct pb_field *f)
{
    struct moment time;
    char text[MOMENT_SIZE];

    if (pb_get_timestamp(f, &time.seconds, &time.nanos) && moment_format(time, 9, text) > 0)
        json_text(j, text);
    else
        json_null(j);
}

static bool is_type(const ProtobufCMessageDescriptor *type, const char *name)
{
    return strcmp(type->name, name) == 0;
}

static void put_nested(struct json *j, const ProtobufCMessageDescriptor *type,
                       const struct pb_field *f)
{
    struct bytes text;

    if (is_type(type, "google.protobuf.Timestamp")) {
        put_time(j, f);
    } else if (is_type(type, "google.protobuf.StringValue")) {
        if (pb_get_string_value(f, &text))
            json_bytes(j, text);
        else
            json_null(j);
    } else {
        put_message(j, type, f->bytes);
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

static void put_value(struct json *j, const ProtobufCFieldDescriptor *d, const struct pb_field *f)
{
    if (d->type == PROTOBUF_C_TYPE_MESSAGE)
        put_nested(j, d->descriptor, f);
    else if (d->type == PROTOBUF_C_TYPE_STRING || d->type == PROTOBUF_C_TYPE_BYTES)
        json_bytes(j, f->bytes);
    else if (d->type == PROTOBUF_C_TYPE_BOOL)
        json_bool(j, pb_bool(f));
    else if (d->type == PROTOBUF_C_TYPE_ENUM)
        put_enum(j, d->descriptor, pb_int32(f));
    else if (d->type == PROTOBUF_C_TYPE_INT32)
        json_int64(j, pb_int32(f));
    else
        json_int64(j, (int64_t)f->value);
}

/* All with this number, from the first on. */
static void put_repeated(struct json *j, const ProtobufCFieldDescriptor *d, struct bytes bytes)
{
    struct pb_reader r = pb_reader_make(bytes);
    struct pb_field f;

    json_array_begin(j);
    while (pb_next(&r, &f)) {
        if (f.number == d->id) put_value(j, d, &f);
    }
    json_array_end(j);
}

static void put_message(struct json *j, const ProtobufCMessageDescriptor *type, struct bytes bytes)
{
    struct pb_reader r = pb_reader_make(bytes);
    struct pb_field f;

    json_object_begin(j);
    while (pb_next(&r, &f)) {
        const ProtobufCFieldDescriptor *d = protobuf_c_message_descriptor_get_field(type, f.number);
        if (d == NULL || pb_is_repeated(bytes, &f)) continue;
        put_key(j, d->name);
        if (d->label == PROTOBUF_C_LABEL_REPEATED)
            put_repeated(j, d, bytes);
        else
            put_value(j, d, &f);
    }
    json_object_end(j);
}

/* The check bounds the depth: what passed it can be walked. */
enum status event_json_write(struct bytes event, struct buffer *out)
{
    struct json j;

    enum status status = message_check(&history_event__descriptor, event);
    if (status != OK) return status;
    json_init(&j, out);
    put_message(&j, &history_event__descriptor, event);
    return out->failed ? E_NOMEM : OK;
}
