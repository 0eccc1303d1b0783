/* SPDX-License-Identifier: Apache-2.0
 *
 * See pb.h. Reading advances a local pointer and stores it back once per field; the one-byte
 * varint, by far the most frequent, is tried first.
 */
#include "wire/pb.h"

#include "base/assert.h"

#define VARINT_SIZE_MAX 10 /* 64 bits, 7 in each byte */
#define PREFIX_SIZE_MAX 5  /* tags and lengths have 32 bits */

struct pb_reader pb_reader_make(struct bytes b)
{
    if (b.len == 0) return (struct pb_reader){NULL, NULL, false};
    return (struct pb_reader){b.ptr, b.ptr + b.len, false};
}

/* The byte after the varint that begins at `at`, or NULL when it does not end within size_max bytes
 * and before `end`, or does not fit 64 bits. */
static const uint8_t *varint_read_long(const uint8_t *at, const uint8_t *end, size_t size_max,
                                       uint64_t *out)
{
    uint64_t value = 0;
    unsigned shift = 0;

    for (size_t i = 0; i < size_max && at < end; i++, shift += 7) {
        const uint8_t byte = *at++;

        if (shift == 63 && byte > 1) return NULL;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *out = value;
            return at;
        }
    }
    return NULL;
}

static inline const uint8_t *varint_read(const uint8_t *at, const uint8_t *end, size_t size_max,
                                         uint64_t *out)
{
    if (at < end && *at < 0x80) {
        *out = *at;
        return at + 1;
    }
    return varint_read_long(at, end, size_max, out);
}

static const uint8_t *fixed_read(const uint8_t *at, const uint8_t *end, size_t size, uint64_t *out)
{
    if ((size_t)(end - at) < size) return NULL;
    *out = size == 8 ? load_u64(at) : load_u32(at);
    return at + size;
}

static const uint8_t *payload_read(const uint8_t *at, const uint8_t *end, struct bytes *out)
{
    uint64_t len;

    at = varint_read(at, end, PREFIX_SIZE_MAX, &len);
    if (at == NULL || len > (size_t)(end - at) || len > PB_LENGTH_MAX) return NULL;
    *out = bytes_make(at, len);
    return at + len;
}

static bool reader_fail(struct pb_reader *r)
{
    r->failed = true;
    r->at = r->end;
    return false;
}

bool pb_next(struct pb_reader *r, struct pb_field *out)
{
    const uint8_t *const begin = r->at;
    uint64_t tag;

    if (begin == r->end) return false;
    const uint8_t *at = varint_read(begin, r->end, PREFIX_SIZE_MAX, &tag);
    if (at == NULL || tag >> 3 == 0 || tag >> 3 > PB_NUMBER_MAX) return reader_fail(r);

    out->number = (uint32_t)(tag >> 3);
    out->value = 0;
    out->bytes = BYTES_NONE;
    switch (tag & 7) { /* not ours to enumerate: the other three are groups and unassigned */
    case PB_VARINT: at = varint_read(at, r->end, VARINT_SIZE_MAX, &out->value); break;
    case PB_I64: at = fixed_read(at, r->end, 8, &out->value); break;
    case PB_LEN: at = payload_read(at, r->end, &out->bytes); break;
    case PB_I32: at = fixed_read(at, r->end, 4, &out->value); break;
    default: at = NULL; break;
    }
    if (at == NULL) return reader_fail(r);

    out->wire = (enum pb_wire)(tag & 7);
    out->raw = bytes_make(begin, (size_t)(at - begin));
    r->at = at;
    return true;
}

bool pb_next_packed(struct pb_reader *r, uint64_t *out)
{
    if (r->at == r->end) return false;
    const uint8_t *at = varint_read(r->at, r->end, VARINT_SIZE_MAX, out);
    if (at == NULL) return reader_fail(r);
    r->at = at;
    return true;
}

struct pb_reader pb_sub(const struct pb_field *field)
{
    struct pb_reader r = pb_reader_make(field->bytes);

    r.failed = field->wire != PB_LEN;
    return r;
}

bool pb_get_string_value(const struct pb_field *field, struct bytes *out)
{
    struct pb_reader r = pb_sub(field);
    struct bytes value = BYTES_NONE;
    struct pb_field f;

    while (pb_next(&r, &f)) {
        if (f.number != 1) continue;
        if (f.wire != PB_LEN) return false;
        value = f.bytes;
    }
    if (r.failed) return false;
    *out = value;
    return true;
}

bool pb_get_timestamp(const struct pb_field *field, int64_t *seconds, int32_t *nanos)
{
    struct pb_reader r = pb_sub(field);
    int64_t whole = 0;
    int32_t part = 0;
    struct pb_field f;

    while (pb_next(&r, &f)) {
        if (f.number > 2) continue;
        if (f.wire != PB_VARINT) return false;
        if (f.number == 1) whole = (int64_t)f.value;
        if (f.number == 2) part = pb_int32(&f);
    }
    if (r.failed || part < 0 || part >= PB_NANOS_PER_SECOND) return false;
    *seconds = whole;
    *nanos = part;
    return true;
}

int64_t pb_timestamp_ns(int64_t seconds, int32_t nanos)
{
    int64_t ns;

    assert(nanos >= 0);
    assert(nanos < PB_NANOS_PER_SECOND);
    if (seconds < 0) { /* from the next second backwards: the earliest times fit only this way */
        seconds += 1;
        nanos -= PB_NANOS_PER_SECOND;
    }
    if (__builtin_mul_overflow(seconds, PB_NANOS_PER_SECOND, &ns) ||
        __builtin_add_overflow(ns, nanos, &ns)) {
        return seconds < 0 ? INT64_MIN : INT64_MAX;
    }
    return ns;
}

static void tag_put(struct buffer *b, uint32_t number, enum pb_wire wire)
{
    assert(number >= 1);
    assert(number <= PB_NUMBER_MAX);
    buffer_varint(b, (uint64_t)number << 3 | (uint64_t)wire);
}

void pb_put_varint(struct buffer *b, uint32_t number, uint64_t value)
{
    tag_put(b, number, PB_VARINT);
    buffer_varint(b, value);
}

void pb_put_int32(struct buffer *b, uint32_t number, int32_t value)
{
    pb_put_varint(b, number, (uint64_t)(int64_t)value);
}

void pb_put_bytes(struct buffer *b, uint32_t number, struct bytes value)
{
    assert(value.len <= PB_LENGTH_MAX);
    tag_put(b, number, PB_LEN);
    buffer_bytes(b, value);
}

void pb_put_string_value(struct buffer *b, uint32_t number, struct bytes value, bool is_present)
{
    if (!is_present) return;
    assert(value.len <= PB_LENGTH_MAX);
    tag_put(b, number, PB_LEN);
    if (value.len == 0) {
        buffer_u8(b, 0);
        return;
    }
    buffer_varint(b, 1 + varint_size(value.len) + value.len);
    pb_put_bytes(b, 1, value);
}

static uint8_t *varint_store(uint8_t *at, uint64_t value)
{
    while (value >= 0x80) {
        *at++ = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    *at++ = (uint8_t)value;
    return at;
}

/* By hand: every event has one. At most 17 bytes, so that the length is one byte. */
void pb_put_timestamp_parts(struct buffer *b, uint32_t number, int64_t seconds, int32_t nanos)
{
    assert(nanos >= 0);
    assert(nanos < PB_NANOS_PER_SECOND);
    tag_put(b, number, PB_LEN);
    if (!buffer_reserve(b, 1 + 1 + VARINT_SIZE_MAX + 1 + PREFIX_SIZE_MAX)) return;
    uint8_t *const length = b->ptr + b->len;
    uint8_t *at = length + 1;
    if (seconds != 0) {
        *at++ = 1 << 3 | PB_VARINT;
        at = varint_store(at, (uint64_t)seconds);
    }
    if (nanos != 0) {
        *at++ = 2 << 3 | PB_VARINT;
        at = varint_store(at, (uint64_t)nanos);
    }
    *length = (uint8_t)(at - length - 1);
    b->len = (size_t)(at - b->ptr);
}

void pb_put_timestamp(struct buffer *b, uint32_t number, int64_t ns)
{
    int64_t seconds = ns / PB_NANOS_PER_SECOND;
    int64_t nanos = ns % PB_NANOS_PER_SECOND;

    if (nanos < 0) { /* nanos count forwards, before 1970 too */
        seconds -= 1;
        nanos += PB_NANOS_PER_SECOND;
    }
    pb_put_timestamp_parts(b, number, seconds, (int32_t)nanos);
}

struct pb_mark pb_begin(struct buffer *b, uint32_t number, size_t size_hint)
{
    static const uint8_t zeros[PREFIX_SIZE_MAX];
    const size_t hint = size_hint <= PB_LENGTH_MAX ? size_hint : PB_LENGTH_MAX;
    const size_t room = varint_size(hint);

    tag_put(b, number, PB_LEN);
    buffer_append(b, zeros, room);
    return (struct pb_mark){b->len, room};
}

void pb_end(struct buffer *b, struct pb_mark mark)
{
    if (b->failed) return; /* the bytes after the mark may not be there */
    assert(mark.start >= mark.room);
    assert(mark.start <= b->len);
    const size_t len = b->len - mark.start;
    assert(len <= PB_LENGTH_MAX);
    const size_t room = varint_size(len);

    if (room > mark.room && !buffer_reserve(b, room - mark.room)) return;
    uint8_t *const at = b->ptr + mark.start - mark.room;
    if (room != mark.room) memmove(at + room, at + mark.room, len);
    for (size_t i = 0; i < room; i++) {
        const uint8_t more = i + 1 < room ? 0x80 : 0;
        at[i] = (uint8_t)((len >> (7 * i) & 0x7f) | more);
    }
    b->len = b->len - mark.room + room;
}
