/* SPDX-License-Identifier: Apache-2.0
 *
 * See message.h. The check recurses once per level of nesting and is bounded by MESSAGE_DEPTH_MAX;
 * with it passed, protobuf-c recurses no deeper and can fail for want of memory only.
 */
#include "wire/message.h"

#include "base/arena.h"
#include "base/assert.h"
#include "wire/pb.h"

/* ---- checking ---- */

struct check {
    size_t fields_n;
    size_t fields_max;
    size_t depth;
};

static enum status check_message(struct check *c, const ProtobufCMessageDescriptor *type,
                                 struct bytes bytes);

static bool count_field(struct check *c) { return ++c->fields_n <= c->fields_max; }

static enum pb_wire wire_of(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_BOOL:
    case PROTOBUF_C_TYPE_ENUM: return PB_VARINT;
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_FLOAT: return PB_I32;
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE: return PB_I64;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE: return PB_LEN;
    }
    unreachable("a protobuf type outside its enum");
}

static bool text_is_valid(struct bytes text)
{
    if (text.len == 0) return true;
    return memchr(text.ptr, 0, text.len) == NULL && bytes_is_utf8(text);
}

/* Our protocol packs enums only; a packed field of fixed numbers would need its own walk. */
static enum status check_packed(struct check *c, const struct pb_field *field)
{
    struct pb_reader r = pb_sub(field);
    uint64_t value;

    while (pb_next_packed(&r, &value)) {
        if (!count_field(c)) return E_LIMIT;
    }
    return r.failed ? E_INVALID : OK;
}

static enum status check_known(struct check *c, const ProtobufCFieldDescriptor *type,
                               const struct pb_field *field)
{
    const enum pb_wire wire = wire_of(type->type);
    const bool is_repeated = type->label == PROTOBUF_C_LABEL_REPEATED;

    if (is_repeated && wire == PB_VARINT && field->wire == PB_LEN) return check_packed(c, field);
    if (field->wire != wire) return E_INVALID;
    if (type->type == PROTOBUF_C_TYPE_STRING) return text_is_valid(field->bytes) ? OK : E_INVALID;
    if (type->type == PROTOBUF_C_TYPE_MESSAGE) {
        return check_message(c, (const ProtobufCMessageDescriptor *)type->descriptor, field->bytes);
    }
    return OK;
}

/* Remembers in `seen`, a bit per field of `type`, which singular submessages were there; false when
 * this is one of them. */
static bool is_first(const ProtobufCMessageDescriptor *type, const ProtobufCFieldDescriptor *known,
                     uint64_t *seen)
{
    const bool is_singular_message =
        known->type == PROTOBUF_C_TYPE_MESSAGE && known->label != PROTOBUF_C_LABEL_REPEATED;
    const size_t index = (size_t)(known - type->fields);

    if (!is_singular_message) return true;
    assert(index < 64);
    const uint64_t bit = (uint64_t)1 << index;
    if ((*seen & bit) != 0) return false;
    *seen |= bit;
    return true;
}

static enum status check_fields(struct check *c, const ProtobufCMessageDescriptor *type,
                                struct bytes bytes)
{
    struct pb_reader r = pb_reader_make(bytes);
    struct pb_field field;
    uint64_t seen = 0;

    while (pb_next(&r, &field)) {
        if (!count_field(c)) return E_LIMIT;
        const ProtobufCFieldDescriptor *known =
            protobuf_c_message_descriptor_get_field(type, field.number);
        if (known == NULL) continue;
        if (!is_first(type, known, &seen)) return E_INVALID;
        const enum status status = check_known(c, known, &field);
        if (status != OK) return status;
    }
    return r.failed ? E_INVALID : OK;
}

static enum status check_message(struct check *c, const ProtobufCMessageDescriptor *type,
                                 struct bytes bytes)
{
    if (c->depth == MESSAGE_DEPTH_MAX) return E_LIMIT;
    c->depth++;
    const enum status status = check_fields(c, type, bytes);
    c->depth--;
    return status;
}

static enum status check_within(const ProtobufCMessageDescriptor *type, struct bytes bytes,
                                size_t fields_max)
{
    struct check c = {.fields_max = fields_max};

    if (bytes.len > PB_LENGTH_MAX) return E_LIMIT;
    return check_message(&c, type, bytes);
}

enum status message_check(const ProtobufCMessageDescriptor *type, struct bytes bytes)
{
    return check_within(type, bytes, MESSAGE_CHECK_FIELDS_MAX);
}

/* ---- decoding ---- */

/* The arena as protobuf-c sees it. Remembers which of the two ways out of memory was taken. */
struct budget {
    struct arena *arena;
    size_t left;
    enum status status;
};

static void *budget_alloc(void *user, size_t size)
{
    struct budget *budget = user;

    if (size > budget->left) {
        budget->status = E_LIMIT;
        return NULL;
    }
    void *ptr = arena_alloc(budget->arena, size);
    if (ptr == NULL) {
        budget->status = E_NOMEM;
        return NULL;
    }
    budget->left -= size;
    return ptr;
}

/* What protobuf-c gives back early (its tables for a message of more than 16 fields, and everything
 * when it fails) stays in the arena until the whole is freed. */
static void budget_free(void *user, void *ptr)
{
    (void)user;
    (void)ptr;
}

enum status message_decode_within(const ProtobufCMessageDescriptor *type, struct bytes bytes,
                                  struct arena *arena, size_t memory_max, ProtobufCMessage **out)
{
    struct budget budget = {arena, memory_max, OK};
    ProtobufCAllocator allocator = {budget_alloc, budget_free, &budget};

    const enum status status = check_within(type, bytes, MESSAGE_FIELDS_MAX);
    if (status != OK) return status;

    const uint8_t *ptr = bytes.len != 0 ? bytes.ptr : (const uint8_t *)"";
    ProtobufCMessage *message = protobuf_c_message_unpack(type, &allocator, bytes.len, ptr);
    if (message == NULL) return budget.status != OK ? budget.status : E_INVALID;
    *out = message;
    return OK;
}

enum status message_decode(const ProtobufCMessageDescriptor *type, struct bytes bytes,
                           struct arena *arena, ProtobufCMessage **out)
{
    return message_decode_within(type, bytes, arena, MESSAGE_MEMORY_MAX, out);
}

/* ---- encoding ---- */

enum status message_encode(const ProtobufCMessage *message, struct buffer *b)
{
    const size_t size = protobuf_c_message_get_packed_size(message);

    if (b->failed || !buffer_reserve(b, size)) return E_NOMEM;
    if (size == 0) return OK;
    const size_t written = protobuf_c_message_pack(message, b->ptr + b->len);
    assert(written == size);
    b->len += size;
    return OK;
}
