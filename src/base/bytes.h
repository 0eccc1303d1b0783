/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes with their length: `struct bytes` borrows, `struct buffer` owns and grows.
 *
 * Integers in buffers are little endian or LEB128 varints. A buffer that could not grow remembers
 * it (`failed`) and ignores what follows, so that a writer checks once at the end.
 */
#ifndef BASE_BYTES_H
#define BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct mem;

/* Borrowed; the comment at each use names the owner. ptr may be NULL only when len is 0. */
struct bytes {
    const uint8_t *ptr;
    size_t len;
};

#define BYTES_NONE ((struct bytes){NULL, 0})
#define BYTES_LITERAL(s) ((struct bytes){(const uint8_t *)(s), sizeof(s) - 1})

static inline struct bytes bytes_make(const void *ptr, size_t len)
{
    return (struct bytes){(const uint8_t *)ptr, len};
}

/* Without the final NUL. */
static inline struct bytes bytes_of_text(const char *text)
{
    return bytes_make(text, strlen(text));
}

static inline uint32_t load_u32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}
static inline uint64_t load_u64(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}
static inline void store_u32(uint8_t *p, uint32_t v) { memcpy(p, &v, sizeof v); }
static inline void store_u64(uint8_t *p, uint64_t v) { memcpy(p, &v, sizeof v); }
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the disk format is little endian");

/* Most keys have 8 to 16 bytes: two words that may overlap, where a call would cost more than the
 * comparison. */
static inline bool bytes_equal(struct bytes a, struct bytes b)
{
    if (a.len != b.len) return false;
    if (a.len - 8 <= 8) {
        return load_u64(a.ptr) == load_u64(b.ptr) &&
               load_u64(a.ptr + a.len - 8) == load_u64(b.ptr + b.len - 8);
    }
    return a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0;
}

/* Orders by byte value, a prefix before what it is a prefix of: negative, 0 or positive. */
int bytes_compare(struct bytes a, struct bytes b);
bool bytes_start_with(struct bytes whole, struct bytes prefix);

/* The same on every machine and for ever: it is on disk. Not for tables with hostile keys. */
uint64_t bytes_hash(struct bytes b);

/* True when b is well-formed UTF-8 (no surrogates, nothing overlong). */
bool bytes_is_utf8(struct bytes b);
/* Size of the character at the start of b (1 to 4); 0 when b is empty or not UTF-8 there. */
size_t bytes_character_size(struct bytes b);

struct buffer {
    struct mem *mem; /* where it grows from; outlives the buffer */
    uint8_t *ptr;
    size_t len;
    size_t size;
    bool failed; /* an append found no memory; contents are incomplete */
};

void buffer_init(struct buffer *b, struct mem *mem);
void buffer_release(struct buffer *b);
/* Forgets the contents and a failure, and keeps the memory. */
static inline void buffer_clear(struct buffer *b)
{
    b->len = 0;
    b->failed = false;
}
/* The slow way of buffer_reserve(): grows, or fails. */
bool buffer_make_room(struct buffer *b, size_t more);

/* Makes room for `more` bytes beyond len; false (and failed) without memory. Room grows twofold, so
 * that n appends cost O(n). */
static inline bool buffer_reserve(struct buffer *b, size_t more)
{
    return (!b->failed && more <= b->size - b->len) || buffer_make_room(b, more);
}

/* The appends are inline: a record is written in dozens of pieces of a few bytes. */
static inline void buffer_append(struct buffer *b, const void *ptr, size_t len)
{
    if (len == 0 || !buffer_reserve(b, len)) return;
    memcpy(b->ptr + b->len, ptr, len);
    b->len += len;
}
static inline void buffer_u8(struct buffer *b, uint8_t value)
{
    if (buffer_reserve(b, 1)) b->ptr[b->len++] = value;
}
void buffer_u32(struct buffer *b, uint32_t value);
void buffer_u64(struct buffer *b, uint64_t value);
/* The slow way of buffer_varint(). */
void buffer_long_varint(struct buffer *b, uint64_t value);
static inline void buffer_varint(struct buffer *b, uint64_t value)
{
    if (value < 0x80)
        buffer_u8(b, (uint8_t)value);
    else
        buffer_long_varint(b, value);
}
/* zigzag: small negative numbers are short too */
static inline void buffer_signed(struct buffer *b, int64_t value)
{
    buffer_varint(b, ((uint64_t)value << 1) ^ (uint64_t)(value >> 63));
}
/* varint length, then the bytes */
void buffer_bytes(struct buffer *b, struct bytes value);

static inline void buffer_append_bytes(struct buffer *b, struct bytes value)
{
    buffer_append(b, value.ptr, value.len);
}

static inline struct bytes buffer_view(const struct buffer *b)
{
    return bytes_make(b->ptr, b->len);
}

/* Reads what a buffer wrote. A read past the end or a varint that is not the shortest of its
 * value sets `failed` and moves to the end: it and every later read answer zero or nothing, a
 * loop over what is left ends, and the reader's user checks once. */
struct reader {
    const uint8_t *at;
    const uint8_t *end;
    bool failed;
};

static inline struct reader reader_make(struct bytes b)
{
    static const uint8_t nothing[1];
    const uint8_t *at = b.len == 0 ? nothing : b.ptr; /* no arithmetic with NULL */

    return (struct reader){.at = at, .end = at + b.len};
}
uint8_t reader_u8(struct reader *r);
uint32_t reader_u32(struct reader *r);
uint64_t reader_u64(struct reader *r);
/* The slow way of reader_varint(). */
uint64_t reader_long_varint(struct reader *r);
static inline uint64_t reader_varint(struct reader *r)
{
    return r->at < r->end && *r->at < 0x80 ? *r->at++ : reader_long_varint(r);
}
static inline int64_t reader_signed(struct reader *r)
{
    uint64_t raw = reader_varint(r);
    return (int64_t)(raw >> 1) ^ -(int64_t)(raw & 1);
}
/* Borrowed from what is being read. */
struct bytes reader_bytes(struct reader *r);
struct bytes reader_take(struct reader *r, size_t len);

static inline size_t reader_left(const struct reader *r) { return (size_t)(r->end - r->at); }
/* Everything was read and nothing failed. */
static inline bool reader_is_done(const struct reader *r) { return !r->failed && r->at == r->end; }

/* How many bytes buffer_varint() writes for value (1 to 10). */
static inline size_t varint_size(uint64_t value)
{
    size_t bits = 64 - (size_t)__builtin_clzll(value | 1);

    return (bits * 9 + 64) / 64; /* (bits + 6) / 7 for 1 to 64, without a division */
}

#endif
