/* SPDX-License-Identifier: Apache-2.0
 *
 * Comparing, hashing, writing and reading bytes.
 */
#include "base/bytes.h"

#include "base/assert.h"
#include "base/eight.h"
#include "base/mem.h"

#define BUFFER_SIZE_MIN 64
#define VARINT_SIZE_MAX 10

int bytes_compare(struct bytes a, struct bytes b)
{
    size_t common = a.len < b.len ? a.len : b.len;
    int order = common == 0 ? 0 : memcmp(a.ptr, b.ptr, common);

    if (order != 0) return order;
    return (a.len > b.len) - (a.len < b.len);
}

bool bytes_start_with(struct bytes whole, struct bytes prefix)
{
    return prefix.len <= whole.len && bytes_equal(bytes_make(whole.ptr, prefix.len), prefix);
}

/* ---- hash: on disk, must never change (the test holds values of it) ---- */

#define HASH_A UINT64_C(0x9e3779b97f4a7c15) /* odd, bits well spread: parts of the golden ratio … */
#define HASH_B UINT64_C(0xd6e8feb86659fd93) /* … and a multiplier known to mix well */

/* For a given hash every word leads to another result, and for a given word every hash does:
 * nothing is lost before the end. */
static uint64_t hash_word(uint64_t hash, uint64_t word)
{
    word *= HASH_A;
    word ^= word >> 32;
    word *= HASH_B;
    hash ^= word;
    return ((hash << 27) | (hash >> 37)) * HASH_A + HASH_B;
}

/* The len & 7 bytes at the end as a word, padded with zeros: without a copy of unknown length. */
static uint64_t load_tail(const uint8_t *ptr, size_t len)
{
    size_t left = len & 7;
    uint64_t word = 0;

    if (len >= 8) return load_u64(ptr + len - 8) >> (8 * (8 - left));
    for (size_t i = 0; i < left; i++) word |= (uint64_t)ptr[i] << (8 * i);
    return word;
}

uint64_t bytes_hash(struct bytes b)
{
    /* With the length in it, zeros at the end count although the last word is padded with zeros. */
    uint64_t hash = (b.len + 1) * HASH_B;
    size_t whole = b.len & ~(size_t)7;

    for (size_t i = 0; i < whole; i += 8) hash = hash_word(hash, load_u64(b.ptr + i));
    if (whole < b.len) {
        hash = hash_word(hash, load_tail(b.ptr, b.len));
    }

    hash ^= hash >> 32;
    hash *= HASH_B;
    hash ^= hash >> 29;
    hash *= HASH_A;
    return hash ^ (hash >> 32);
}

/* ---- UTF-8 ---- */

static bool is_between(uint8_t byte, uint8_t low, uint8_t high)
{
    return low <= byte && byte <= high;
}

/* After four of the first bytes the range of the second is narrower: without overlong forms (E0,
 * F0), surrogates (ED) and what is beyond U+10FFFF (F4). */
static bool is_second_byte(uint8_t first, uint8_t second)
{
    switch (first) {
    case 0xe0: return is_between(second, 0xa0, 0xbf);
    case 0xed: return is_between(second, 0x80, 0x9f);
    case 0xf0: return is_between(second, 0x90, 0xbf);
    case 0xf4: return is_between(second, 0x80, 0x8f);
    default: return is_between(second, 0x80, 0xbf);
    }
}

static size_t size_by_first_byte(uint8_t first)
{
    if (first < 0x80) return 1;
    if (is_between(first, 0xc2, 0xdf)) return 2;
    if (is_between(first, 0xe0, 0xef)) return 3;
    if (is_between(first, 0xf0, 0xf4)) return 4;
    return 0;
}

size_t bytes_character_size(struct bytes b)
{
    if (b.len == 0) return 0;

    size_t size = size_by_first_byte(b.ptr[0]);
    if (size > b.len) return 0;
    if (size > 1 && !is_second_byte(b.ptr[0], b.ptr[1])) return 0;
    for (size_t i = 2; i < size; i++) {
        if (!is_between(b.ptr[i], 0x80, 0xbf)) return 0;
    }
    return size;
}

bool bytes_is_utf8(struct bytes b)
{
    size_t at = 0;

    while (at < b.len) {
        /* Most text is ASCII: eight characters at once. */
        if (b.len - at >= 8 && eight_not_ascii(load_u64(b.ptr + at)) == 0) {
            at += 8;
            continue;
        }
        size_t size = bytes_character_size(bytes_make(b.ptr + at, b.len - at));
        if (size == 0) return false;
        at += size;
    }
    return true;
}

/* ---- buffer ---- */

void buffer_init(struct buffer *b, struct mem *mem) { *b = (struct buffer){.mem = mem}; }

void buffer_release(struct buffer *b)
{
    mem_give(b->mem, b->ptr, b->size);
    buffer_init(b, b->mem);
}

static bool buffer_grow(struct buffer *b, size_t least)
{
    size_t wish = b->size < BUFFER_SIZE_MIN / 2 ? BUFFER_SIZE_MIN : b->size * 2;

    void *ptr = mem_grow(b->mem, b->ptr, b->size, least, wish > least ? wish : least, &b->size);
    if (ptr == NULL) return false;
    b->ptr = ptr;
    return true;
}

bool buffer_make_room(struct buffer *b, size_t more)
{
    assert(b->len <= b->size);
    if (b->failed) return false;
    if (more <= b->size - b->len) return true;
    b->failed = more > SIZE_MAX / 4 || !buffer_grow(b, b->len + more);
    return !b->failed;
}

void buffer_u32(struct buffer *b, uint32_t value) { buffer_append(b, &value, sizeof value); }

void buffer_u64(struct buffer *b, uint64_t value) { buffer_append(b, &value, sizeof value); }

/* The lowest 56 bits, seven in each byte. */
static uint64_t spread(uint64_t value)
{
    value = (value & UINT64_C(0x0fffffff)) | (value & UINT64_C(0x00fffffff0000000)) << 4;
    value = (value & UINT64_C(0x00003fff00003fff)) | (value & UINT64_C(0x0fffc0000fffc000)) << 2;
    return (value & UINT64_C(0x007f007f007f007f)) | (value & UINT64_C(0x3f803f803f803f80)) << 1;
}

/* Written in place, into exactly the room it takes; as a word where a word has room. */
void buffer_long_varint(struct buffer *b, uint64_t value)
{
    const uint64_t go_on = UINT64_C(0x8080808080808080); /* in every byte but the last */
    size_t size = varint_size(value);

    if (!buffer_reserve(b, size)) return;
    uint8_t *at = b->ptr + b->len;
    size_t room = b->size - b->len;
    b->len += size;
    if (size > 8) {
        store_u64(at, spread(value) | go_on);
        value >>= 56;
        at[8] = (uint8_t)(size == 9 ? value : value | 0x80);
        if (size == 10) at[9] = (uint8_t)(value >> 7);
    } else if (room >= 8) {
        store_u64(at, spread(value) | (go_on & ((UINT64_C(1) << (8 * (size - 1))) - 1)));
    } else {
        for (; value >= 0x80; value >>= 7) *at++ = (uint8_t)(value | 0x80);
        *at = (uint8_t)value;
    }
}

void buffer_bytes(struct buffer *b, struct bytes value)
{
    if (value.len >= 0x80) {
        buffer_long_varint(b, value.len);
        buffer_append_bytes(b, value);
        return;
    }
    if (!buffer_reserve(b, 1 + value.len)) return;
    uint8_t *at = b->ptr + b->len;
    *at = (uint8_t)value.len;
    if (value.len > 0) memcpy(at + 1, value.ptr, value.len);
    b->len += 1 + value.len;
}

/* ---- reader ---- */

static void reader_fail(struct reader *r)
{
    r->failed = true;
    r->at = r->end;
}

struct bytes reader_take(struct reader *r, size_t len)
{
    if (len > reader_left(r)) reader_fail(r);
    if (r->failed) return BYTES_NONE;

    struct bytes taken = bytes_make(r->at, len);
    r->at += len;
    return taken;
}

uint8_t reader_u8(struct reader *r)
{
    struct bytes b = reader_take(r, sizeof(uint8_t));

    return b.len == 0 ? 0 : b.ptr[0];
}

uint32_t reader_u32(struct reader *r)
{
    struct bytes b = reader_take(r, sizeof(uint32_t));

    return b.len == 0 ? 0 : load_u32(b.ptr);
}

uint64_t reader_u64(struct reader *r)
{
    struct bytes b = reader_take(r, sizeof(uint64_t));

    return b.len == 0 ? 0 : load_u64(b.ptr);
}

uint64_t reader_long_varint(struct reader *r)
{
    uint64_t value = 0;

    for (unsigned n = 0; n < VARINT_SIZE_MAX && r->at < r->end; n++) {
        uint8_t byte = *r->at++;
        bool is_too_large = n == VARINT_SIZE_MAX - 1 && byte > 1; /* beyond 64 bits */
        bool is_overlong = n > 0 && byte == 0;
        if (is_too_large || is_overlong) break;
        value |= (uint64_t)(byte & 0x7f) << (7 * n);
        if (byte < 0x80) return value;
    }
    reader_fail(r);
    return 0;
}

struct bytes reader_bytes(struct reader *r)
{
    uint64_t len = reader_varint(r);

    return reader_take(r, (size_t)len);
}
