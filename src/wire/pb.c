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
    const struct bytes b = field->bytes;
    if (b.len >= 2 && b.ptr[0] == (1 << 3 | PB_LEN) && b.ptr[1] < 0x80 && b.ptr[1] == b.len - 2) {
        *out = bytes_make(b.ptr + 2, b.len - 2); /* nothing but a short value, as it is mostly */
        return true;
    }

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

/* Both parts with five bytes and nothing else, as most times of today; all else is false. */
static bool timestamp_of_today(struct bytes b, int64_t *seconds, int32_t *nanos)
{
    const uint64_t five = UINT64_C(0xffffffffff);

    if (b.len != 12 || b.ptr[0] != (1 << 3 | PB_VARINT) || b.ptr[6] != (2 << 3 | PB_VARINT))
        return false;
    const uint64_t whole = load_u64(b.ptr + 1) & five;
    const uint64_t part = load_u64(b.ptr + 4) >> 24;
    const uint64_t go_on = UINT64_C(0x80808080); /* in each byte but the last */
    if ((whole & UINT64_C(0x8080808080)) != go_on || (part & UINT64_C(0x8080808080)) != go_on)
        return false;
    *seconds = (int64_t)squeeze(whole);
    const uint64_t value = squeeze(part);
    if (value >= PB_NANOS_PER_SECOND) return false;
    *nanos = (int32_t)value;
    return true;
}

bool pb_get_timestamp(const struct pb_field *field, int64_t *seconds, int32_t *nanos)
{
    if (field->wire == PB_LEN && timestamp_of_today(field->bytes, seconds, nanos)) return true;

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
    tag_put(b, number, PB_VARINT);
    if (!buffer_reserve(b, PB_VARINT_SIZE_MAX)) return;
    b->len = (size_t)(pb_store_int32(b->ptr + b->len, value) - b->ptr);
}

/* One check of the room for tag, length and value, where the first two have one byte each. */
void pb_put_bytes(struct buffer *b, uint32_t number, struct bytes value)
{
    if (number < 16 && value.len < 0x80 && buffer_reserve(b, 2 + value.len)) {
        assert(number >= 1);
        uint8_t *at = b->ptr + b->len;
        at[0] = (uint8_t)(number << 3 | PB_LEN);
        at[1] = (uint8_t)value.len;
        if (value.len > 0) memcpy(at + 2, value.ptr, value.len);
        b->len += 2 + value.len;
        return;
    }
    assert(value.len <= PB_LENGTH_MAX);
    tag_put(b, number, PB_LEN);
    buffer_bytes(b, value);
}

void pb_put_string_value(struct buffer *b, uint32_t number, struct bytes value, bool is_present)
{
    if (!is_present) return;
    if (number < 16 && value.len > 0 && value.len < 0x7e && buffer_reserve(b, 4 + value.len)) {
        assert(number >= 1);
        uint8_t *at = b->ptr + b->len;
        at[0] = (uint8_t)(number << 3 | PB_LEN);
        at[1] = (uint8_t)(2 + value.len);
        at[2] = 1 << 3 | PB_LEN;
        at[3] = (uint8_t)value.len;
        memcpy(at + 4, value.ptr, value.len);
        b->len += 4 + value.len;
        return;
    }
    assert(value.len <= PB_LENGTH_MAX);
    tag_put(b, number, PB_LEN);
    if (value.len == 0) {
        buffer_u8(b, 0);
        return;
    }
    buffer_varint(b, 1 + varint_size(value.len) + value.len);
    pb_put_bytes(b, 1, value);
}

void pb_put_timestamp_parts(struct buffer *b, uint32_t number, int64_t seconds, int32_t nanos)
{
    assert(nanos >= 0);
    assert(nanos < PB_NANOS_PER_SECOND);
    tag_put(b, number, PB_LEN);
    if (!buffer_reserve(b, PB_TIMESTAMP_ROOM)) return;
    b->len = (size_t)(pb_store_timestamp(b->ptr + b->len, seconds, nanos) - b->ptr);
}

void pb_put_timestamp(struct buffer *b, uint32_t number, int64_t ns)
{
    int64_t seconds;
    int32_t nanos;

    pb_timestamp_split(ns, &seconds, &nanos);
    pb_put_timestamp_parts(b, number, seconds, nanos);
}

struct pb_mark pb_begin(struct buffer *b, uint32_t number, size_t size_hint)
{
    const size_t hint = size_hint <= PB_LENGTH_MAX ? size_hint : PB_LENGTH_MAX;
    const size_t room = varint_size(hint);

    tag_put(b, number, PB_LEN);
    if (buffer_reserve(b, PB_PREFIX_SIZE_MAX)) {
        memset(b->ptr + b->len, 0, PB_PREFIX_SIZE_MAX); /* of a size that the compiler knows */
        b->len += room;
    }
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

    if (room == 1 && mark.room == 1) { /* as it mostly is */
        b->ptr[mark.start - 1] = (uint8_t)len;
        return;
    }
    if (room > mark.room && !buffer_reserve(b, room - mark.room)) return;
    uint8_t *const at = b->ptr + mark.start - mark.room;
    if (room != mark.room) memmove(at + room, at + mark.room, len);
    for (size_t i = 0; i < room; i++) {
        const uint8_t more = i + 1 < room ? 0x80 : 0;
        at[i] = (uint8_t)((len >> (7 * i) & 0x7f) | more);
    }
    b->len = b->len - mark.room + room;
}
