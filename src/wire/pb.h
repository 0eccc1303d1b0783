/* SPDX-License-Identifier: Apache-2.0
 *
 * Protobuf by hand: a pull reader and a writer that never allocate. The hot path (history events,
 * work items, worker answers) touches a handful of fields in bytes that are otherwise passed on as
 * they are; the generated types of message.h would copy every one of them.
 *
 * The reader trusts nothing: a varint has at most 10 bytes and fits 64 bits, a tag or a length has
 * at most 5, a length ends inside the message and below 2 GiB, a field number is 1 to 2^29-1, and
 * groups are refused. It answers no more than that: UTF-8 and nesting are checked by
 * message_check().
 *
 * Nested messages are written in place: pb_begin() leaves room for the length, pb_end() fills it
 * in, and moves the contents only when the length needed another number of bytes than was left. A
 * rough size hint makes that rare; without one, the usual small message has a one-byte length
 * anyway. The other way, computing every size first, needs a second function for each message and
 * visits the data twice.
 */
#ifndef WIRE_PB_H
#define WIRE_PB_H

#include "base/bytes.h"

enum pb_wire {
    PB_VARINT = 0,
    PB_I64 = 1,
    PB_LEN = 2,
    PB_I32 = 5,
};

#define PB_NUMBER_MAX ((1u << 29) - 1)
#define PB_LENGTH_MAX ((size_t)INT32_MAX)
#define PB_NANOS_PER_SECOND 1000000000

/* ---- reading ---- */

struct pb_field {
    uint32_t number;
    enum pb_wire wire;
    uint64_t value;     /* PB_VARINT, PB_I64, PB_I32: the bits; otherwise 0 */
    struct bytes bytes; /* PB_LEN: the payload; otherwise none. Borrowed from what is read */
    struct bytes raw;   /* tag and all, as it came: what to append to pass the field on */
};

struct pb_reader {
    const uint8_t *at;
    const uint8_t *end;
    bool failed; /* malformed; stays, and pb_next() answers false from then on */
};

/* Borrows b for as long as the reader and its fields are used. */
static inline struct pb_reader pb_reader_make(struct bytes b)
{
    if (b.len == 0) return (struct pb_reader){NULL, NULL, false};
    return (struct pb_reader){b.ptr, b.ptr + b.len, false};
}

/* The next field. False at the end and on malformed bytes (`failed`); *out is then undefined. */
bool pb_next(struct pb_reader *r, struct pb_field *out);
/* True when a field of this number stands before this one in its message. */
bool pb_is_repeated(struct bytes message, const struct pb_field *field);

/* ---- the same, inline: for the few readers that every step goes through. What of the field they
 * do not look at is never written. ---- */

#define PB_VARINT_SIZE_MAX 10 /* 64 bits, 7 in each byte */
#define PB_PREFIX_SIZE_MAX 5  /* tags and lengths have 32 bits */

/* The byte after the varint that begins at `at`, or NULL when it does not end within size_max bytes
 * and before `end`, or does not fit 64 bits. */
const uint8_t *pb_long_varint(const uint8_t *at, const uint8_t *end, size_t size_max,
                              uint64_t *out);

static inline const uint8_t *pb_varint_read(const uint8_t *at, const uint8_t *end, size_t size_max,
                                            uint64_t *out)
{
    if (at < end && at[0] < 0x80) {
        *out = at[0];
        return at + 1;
    }
    if (end - at >= 2 && at[1] < 0x80) { /* as the tags of most kinds of event */
        *out = (uint64_t)(at[0] & 0x7f) | (uint64_t)at[1] << 7;
        return at + 2;
    }
    return pb_long_varint(at, end, size_max, out);
}

static inline const uint8_t *pb_fixed_read(const uint8_t *at, const uint8_t *end, size_t size,
                                           uint64_t *out)
{
    if ((size_t)(end - at) < size) return NULL;
    *out = size == 8 ? load_u64(at) : load_u32(at);
    return at + size;
}

static inline const uint8_t *pb_payload_read(const uint8_t *at, const uint8_t *end,
                                             struct bytes *out)
{
    uint64_t len;

    at = pb_varint_read(at, end, PB_PREFIX_SIZE_MAX, &len);
    if (at == NULL || len > (size_t)(end - at) || len > PB_LENGTH_MAX) return NULL;
    *out = bytes_make(at, len);
    return at + len;
}

/* The rare ones: fixed sizes; groups and what is unassigned, which are refused. */
static inline const uint8_t *pb_other_read(const uint8_t *at, const uint8_t *end, uint64_t wire,
                                           uint64_t *out)
{
    if (wire == PB_I64) return pb_fixed_read(at, end, 8, out);
    return wire == PB_I32 ? pb_fixed_read(at, end, 4, out) : NULL;
}

static inline bool pb_fail(struct pb_reader *r)
{
    r->failed = true;
    r->at = r->end;
    return false;
}

static inline bool pb_next_inline(struct pb_reader *r, struct pb_field *out)
{
    const uint8_t *const begin = r->at;
    uint64_t tag;

    if (begin == r->end) return false;
    const uint8_t *at = pb_varint_read(begin, r->end, PB_PREFIX_SIZE_MAX, &tag);
    if (at == NULL || tag >> 3 == 0 || tag >> 3 > PB_NUMBER_MAX) return pb_fail(r);

    out->number = (uint32_t)(tag >> 3);
    out->value = 0;
    out->bytes = BYTES_NONE;
    if ((tag & 7) == PB_LEN)
        at = pb_payload_read(at, r->end, &out->bytes);
    else if ((tag & 7) == PB_VARINT)
        at = pb_varint_read(at, r->end, PB_VARINT_SIZE_MAX, &out->value);
    else
        at = pb_other_read(at, r->end, tag & 7, &out->value);
    if (at == NULL) return pb_fail(r);

    out->wire = (enum pb_wire)(tag & 7);
    out->raw = bytes_make(begin, (size_t)(at - begin));
    r->at = at;
    return true;
}

/* One varint of a packed field. False at the end and on malformed bytes (`failed`). */
bool pb_next_packed(struct pb_reader *r, uint64_t *out);

/* A reader over a nested message; failed from the start unless the field is PB_LEN. */
struct pb_reader pb_sub(const struct pb_field *field);

/* Like every parser: an int32 keeps the low 32 bits, a bool is true for everything but 0. */
static inline int32_t pb_int32(const struct pb_field *field)
{
    return (int32_t)(uint32_t)field->value;
}
static inline bool pb_bool(const struct pb_field *field) { return field->value != 0; }

/* The contents of a StringValue (or BytesValue). False when the field is not one. Borrowed. */
bool pb_get_string_value(const struct pb_field *field, struct bytes *out);

/* A Timestamp. False when the field is not one or nanos are not 0 to 999,999,999. */
bool pb_get_timestamp(const struct pb_field *field, int64_t *seconds, int32_t *nanos);

/* Nanoseconds since 1970. The years 1677 to 2262 fit; what is beyond is the first or last of them,
 * so that "never" (often the year 9999) stays in the far future. */
int64_t pb_timestamp_ns(int64_t seconds, int32_t nanos);

/* ---- writing: appends to b; without memory b->failed, checked once at the end ---- */

/* These write the field whatever its value. */
void pb_put_varint(struct buffer *b, uint32_t number, uint64_t value);
/* A negative value takes 10 bytes, as everywhere. */
void pb_put_int32(struct buffer *b, uint32_t number, int32_t value);
/* bytes, string, or an encoded message. */
void pb_put_bytes(struct buffer *b, uint32_t number, struct bytes value);

/* A plain field (no presence) is absent when it is zero or empty. */
static inline void pb_put_plain_varint(struct buffer *b, uint32_t number, uint64_t value)
{
    if (value != 0) pb_put_varint(b, number, value);
}
static inline void pb_put_plain_int32(struct buffer *b, uint32_t number, int32_t value)
{
    if (value != 0) pb_put_int32(b, number, value);
}
static inline void pb_put_plain_bytes(struct buffer *b, uint32_t number, struct bytes value)
{
    if (value.len != 0) pb_put_bytes(b, number, value);
}

/* A StringValue: nothing when not present; present and empty is the tag and a zero length. */
void pb_put_string_value(struct buffer *b, uint32_t number, struct bytes value, bool is_present);

/* A Timestamp message, present even for 1970. nanos: 0 to 999,999,999, asserted. */
void pb_put_timestamp_parts(struct buffer *b, uint32_t number, int64_t seconds, int32_t nanos);
void pb_put_timestamp(struct buffer *b, uint32_t number, int64_t ns);

/* ---- the same into memory that is there, for the few writers that every step goes through. Each
 * answers where to go on. ---- */

static inline uint8_t *pb_store_varint(uint8_t *at, uint64_t value)
{
    while (value >= 0x80) {
        *at++ = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    *at++ = (uint8_t)value;
    return at;
}

static inline uint8_t *pb_store_tag(uint8_t *at, uint32_t number, enum pb_wire wire)
{
    return pb_store_varint(at, (uint64_t)number << 3 | (uint64_t)wire);
}

/* Ten bytes when it is negative, of which the last five are always the same: most events have the
 * id -1. */
static inline uint8_t *pb_store_int32(uint8_t *at, int32_t value)
{
    if (value >= 0) return pb_store_varint(at, (uint64_t)value);
    store_u32(at, (uint32_t)((value & 0x7f) | (value & 0x3f80) << 1 | (value & 0x1fc000) << 2) |
                      ((uint32_t)value & 0xfe00000) << 3 | UINT32_C(0x80808080));
    at[4] = (uint8_t)((uint32_t)value >> 28 | 0xf0);
    store_u32(at + 5, UINT32_C(0xffffffff));
    at[9] = 1;
    return at + PB_VARINT_SIZE_MAX;
}

/* Without a loop for five bytes, the usual size of both parts of a time. Room: eight bytes more
 * than the value takes. */
static inline uint8_t *pb_store_time(uint8_t *at, uint64_t value)
{
    if (value >> 28 == 0 || value >> 35 != 0) return pb_store_varint(at, value);
    uint64_t word = (value & 0x7f) | (value & 0x3f80) << 1 | (value & 0x1fc000) << 2 |
                    (value & 0xfe00000) << 3 | (value & UINT64_C(0x7f0000000)) << 4;
    store_u64(at, word | UINT32_C(0x80808080));
    return at + 5;
}

/* A Timestamp with its length, which is one byte: at most 17 follow. */
#define PB_TIMESTAMP_ROOM (1 + 1 + PB_VARINT_SIZE_MAX + 1 + PB_PREFIX_SIZE_MAX + 8)
static inline uint8_t *pb_store_timestamp(uint8_t *at, int64_t seconds, int32_t nanos)
{
    uint8_t *const length = at++;
    if (seconds != 0) {
        *at++ = 1 << 3 | PB_VARINT;
        at = pb_store_time(at, (uint64_t)seconds);
    }
    if (nanos != 0) {
        *at++ = 2 << 3 | PB_VARINT;
        at = pb_store_time(at, (uint64_t)nanos);
    }
    *length = (uint8_t)(at - length - 1);
    return at;
}

/* Nanoseconds since 1970 as a Timestamp has them. */
static inline void pb_timestamp_split(int64_t ns, int64_t *seconds, int32_t *nanos)
{
    *seconds = ns / PB_NANOS_PER_SECOND;
    *nanos = (int32_t)(ns % PB_NANOS_PER_SECOND);
    if (*nanos < 0) { /* nanos count forwards, before 1970 too */
        *seconds -= 1;
        *nanos += PB_NANOS_PER_SECOND;
    }
}

/* Where an open nested message began; lives on the stack of its writer. */
struct pb_mark {
    size_t start; /* offset of its first content byte, after the room for the length */
    size_t room;  /* bytes left for the length */
};

/* size_hint: about how long the contents will be; a wrong one costs a memmove, nothing else. */
struct pb_mark pb_begin(struct buffer *b, uint32_t number, size_t size_hint);
/* Marks are closed in the reverse order of their opening. */
void pb_end(struct buffer *b, struct pb_mark mark);

#endif
