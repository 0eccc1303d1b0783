/* SPDX-License-Identifier: Apache-2.0
 *
 * See pb.h. Reading advances a local pointer and stores it back once per field; the one-byte
 * varint, by far the most frequent, is tried first.
 */
#include "wire/pb.h"

#include "base/assert.h"

/* The seven low bits of each byte, side by side. */
static uint64_t squeeze(uint64_t word)
{
    word = (word & UINT64_C(0x007f007f007f007f)) | (word & UINT64_C(0x7f007f007f007f00)) >> 1;
    word = (word & UINT64_C(0x00003fff00003fff)) | (word & UINT64_C(0x3fff00003fff0000)) >> 2;
    return (word & UINT64_C(0x000000000fffffff)) | (word & UINT64_C(0x0fffffff00000000)) >> 4;
}

/* Times and negative numbers have five and ten bytes: with eight of them at hand they are read as a
 * word. At least ten bytes are there. */
static const uint8_t *varint_read_word(const uint8_t *at, size_t size_max, uint64_t *out)
{
    const uint64_t word = load_u64(at);
    const uint64_t ends = ~word & UINT64_C(0x8080808080808080);

    if (ends != 0) {
        const size_t size = (size_t)__builtin_ctzll(ends) / 8 + 1;
        if (size > size_max) return NULL;
        *out = squeeze(word & (UINT64_MAX >> (64 - 8 * size)));
        return at + size;
    }
    if (size_max < PB_VARINT_SIZE_MAX) return NULL;
    *out = squeeze(word) | (uint64_t)(at[8] & 0x7f) << 56;
    if (at[8] < 0x80) return at + 9;
    if (at[9] > 1) return NULL;
    *out |= (uint64_t)at[9] << 63;
    return at + 10;
}

const uint8_t *pb_long_varint(const uint8_t *at, const uint8_t *end, size_t size_max, uint64_t *out)
{
    uint64_t value = 0;
    unsigned shift = 0;

    if (end - at >= PB_VARINT_SIZE_MAX) return varint_read_word(at, size_max, out);
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

bool pb_next(struct pb_reader *r, struct pb_field *out) { return pb_next_inline(r, out); }

bool pb_next_packed(struct pb_reader *r, uint64_t *out)
{
    if (r->at == r->end) return false;
    const uint8_t *at = pb_varint_read(r->at, r->end, PB_VARINT_SIZE_MAX, out);
    if (at == NULL) return pb_fail(r);
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

    while (pb_next_inline(&r, &f)) {
        if (f.number != 1) continue;
        if (f.wire != PB_LEN) return false;
        value = f.bytes;
    }
    if (r.failed) return false;
    *out = value;
    return true;
}

bool pb_is_repeated(struct bytes message, const struct pb_field *field)
{
    struct pb_reader r = pb_reader_make(message);
    struct pb_field other;

    while (pb_next(&r, &other) && other.raw.ptr < field->raw.ptr) {
        if (other.number == field->number) return true;
    }
    return false;
}

bool pb_get_timestamp(const struct pb_field *field, int64_t *seconds, int32_t *nanos)
{
    struct pb_reader r = pb_sub(field);
    int64_t whole = 0;
    int32_t part = 0;
    struct pb_field f;

    while (pb_next_inline(&r, &f)) {
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
    if (!buffer_reserve(b, 1 + 1 + PB_VARINT_SIZE_MAX + 1 + PB_PREFIX_SIZE_MAX)) return;
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
    static const uint8_t zeros[PB_PREFIX_SIZE_MAX];
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
