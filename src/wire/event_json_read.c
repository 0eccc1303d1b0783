/* SPDX-License-Identifier: Apache-2.0
 *
 * A history event from JSON: the mirror of event_json.c, with the same description of a
 * HistoryEvent. The order of the fields is kept, so that what one wrote the other makes the same
 * bytes of.
 */
#include "wire/event_json.h"

#include "base/moment.h"
#include "wire/json_read.h"
#include "wire/message.h"
#include "wire/pb.h"

/* One reading. The texts are used up before the next is read, so one buffer does for all. */
struct reading {
    struct json_reader *json;
    struct buffer *out;
    struct buffer text;
};

static bool read_message(struct reading *r, const ProtobufCMessageDescriptor *type);

/* "task_scheduled" is "taskScheduled". */
static bool is_key(struct bytes key, const char *name)
{
    size_t n = 0;
    bool is_next = false;

    for (; *name != '\0'; name++) {
        if (*name == '_') {
            is_next = true;
            continue;
        }
        char c = is_next && *name >= 'a' && *name <= 'z' ? (char)(*name - 'a' + 'A') : *name;
        is_next = false;
        if (n == key.len || key.ptr[n++] != (uint8_t)c) return false;
    }
    return n == key.len;
}

static const ProtobufCFieldDescriptor *find_field(const ProtobufCMessageDescriptor *type,
                                                  struct bytes key)
{
    for (unsigned n = 0; n < type->n_fields; n++) {
        if (is_key(key, type->fields[n].name)) return &type->fields[n];
    }
    return NULL;
}

static bool is_type(const ProtobufCMessageDescriptor *type, const char *name)
{
    return strcmp(type->name, name) == 0;
}

/* ---- values ---- */

static bool read_text(struct reading *r) { return json_read_string(r->json, &r->text); }

static bool read_nested(struct reading *r, const ProtobufCFieldDescriptor *d)
{
    const ProtobufCMessageDescriptor *type = d->descriptor;
    struct moment time;

    if (json_peek(r->json) == JSON_NULL) return json_read_null(r->json);
    if (is_type(type, "google.protobuf.Timestamp")) {
        if (!read_text(r) || !moment_parse(buffer_view(&r->text), &time)) return false;
        pb_put_timestamp_parts(r->out, d->id, time.seconds, time.nanos);
        return true;
    }
    if (is_type(type, "google.protobuf.StringValue")) {
        if (!read_text(r)) return false;
        pb_put_string_value(r->out, d->id, buffer_view(&r->text), true);
        return true;
    }
    struct pb_mark mark = pb_begin(r->out, d->id, 0);
    bool is_read = read_message(r, type);
    pb_end(r->out, mark);
    return is_read;
}

static bool read_enum(struct reading *r, const ProtobufCFieldDescriptor *d)
{
    const ProtobufCEnumDescriptor *type = d->descriptor;
    int64_t value = 0;

    if (json_peek(r->json) == JSON_NUMBER) {
        if (!json_read_int64(r->json, &value)) return false;
    } else {
        if (!read_text(r)) return false;
        buffer_u8(&r->text, 0);
        if (r->text.failed) return false;
        const ProtobufCEnumValue *known =
            protobuf_c_enum_descriptor_get_value_by_name(type, (const char *)r->text.ptr);
        if (known == NULL) return false;
        value = known->value;
    }
    pb_put_int32(r->out, d->id, (int32_t)value);
    return true;
}

/* The bits, whatever they mean: so they were written. */
static bool read_number(struct reading *r, const ProtobufCFieldDescriptor *d)
{
    int64_t value = 0;

    if (!json_read_int64(r->json, &value)) return false;
    if (d->type == PROTOBUF_C_TYPE_DOUBLE || d->type == PROTOBUF_C_TYPE_FIXED64 ||
        d->type == PROTOBUF_C_TYPE_SFIXED64) {
        buffer_varint(r->out, (uint64_t)d->id << 3 | PB_I64);
        buffer_u64(r->out, (uint64_t)value);
    } else if (d->type == PROTOBUF_C_TYPE_FLOAT || d->type == PROTOBUF_C_TYPE_FIXED32 ||
               d->type == PROTOBUF_C_TYPE_SFIXED32) {
        buffer_varint(r->out, (uint64_t)d->id << 3 | PB_I32);
        buffer_u32(r->out, (uint32_t)value);
    } else {
        pb_put_varint(r->out, d->id, (uint64_t)value);
    }
    return true;
}

static bool read_value(struct reading *r, const ProtobufCFieldDescriptor *d)
{
    bool flag = false;

    if (d->type == PROTOBUF_C_TYPE_MESSAGE) return read_nested(r, d);
    if (d->type == PROTOBUF_C_TYPE_ENUM) return read_enum(r, d);
    if (d->type == PROTOBUF_C_TYPE_BOOL) {
        if (!json_read_bool(r->json, &flag)) return false;
        pb_put_varint(r->out, d->id, flag);
        return true;
    }
    if (d->type == PROTOBUF_C_TYPE_STRING || d->type == PROTOBUF_C_TYPE_BYTES) {
        if (!read_text(r)) return false;
        pb_put_bytes(r->out, d->id, buffer_view(&r->text));
        return true;
    }
    return read_number(r, d);
}

static bool is_map(const ProtobufCFieldDescriptor *d)
{
    if (d->type != PROTOBUF_C_TYPE_MESSAGE) return false;
    const ProtobufCMessageDescriptor *type = d->descriptor;
    return type->n_fields == 2 && strcmp(type->fields[0].name, "key") == 0 &&
           type->fields[0].type == PROTOBUF_C_TYPE_STRING &&
           strcmp(type->fields[1].name, "value") == 0 &&
           type->fields[1].type == PROTOBUF_C_TYPE_STRING;
}

/* Tags, as the HTTP API shows them: {"name":"text"}. */
static bool read_map(struct reading *r, const ProtobufCFieldDescriptor *d)
{
    if (!json_read_begin(r->json)) return false;
    while (json_read_item(r->json)) {
        struct pb_mark mark = pb_begin(r->out, d->id, 0);
        bool is_read = json_read_key(r->json, &r->text);
        pb_put_bytes(r->out, 1, buffer_view(&r->text));
        is_read = is_read && read_text(r);
        pb_put_bytes(r->out, 2, buffer_view(&r->text));
        pb_end(r->out, mark);
        if (!is_read) return false;
    }
    return !r->json->failed;
}

static bool read_repeated(struct reading *r, const ProtobufCFieldDescriptor *d)
{
    if (json_peek(r->json) == JSON_OBJECT && is_map(d)) return read_map(r, d);
    if (json_peek(r->json) != JSON_ARRAY || !json_read_begin(r->json)) return false;
    while (json_read_item(r->json)) {
        if (!read_value(r, d)) return false;
    }
    return !r->json->failed;
}

/* The reader bounds the depth. */
static bool read_message(struct reading *r, const ProtobufCMessageDescriptor *type)
{
    if (json_peek(r->json) != JSON_OBJECT || !json_read_begin(r->json)) return false;
    while (json_read_item(r->json)) {
        if (!json_read_key(r->json, &r->text)) return false;
        const ProtobufCFieldDescriptor *d = find_field(type, buffer_view(&r->text));
        bool is_read = d == NULL                               ? json_skip(r->json)
                       : d->label == PROTOBUF_C_LABEL_REPEATED ? read_repeated(r, d)
                                                               : read_value(r, d);
        if (!is_read) return false;
    }
    return !r->json->failed;
}

enum status event_json_read(struct json_reader *json, struct buffer *out)
{
    struct reading r = {.json = json, .out = out};
    size_t start = out->len;

    buffer_init(&r.text, out->mem);
    bool is_read = read_message(&r, &history_event__descriptor);
    bool is_full = r.text.failed || out->failed;
    buffer_release(&r.text);
    if (is_full) return E_NOMEM;
    if (!is_read) return E_INVALID;
    return message_check(&history_event__descriptor,
                         bytes_make(out->ptr + start, out->len - start));
}
