/* SPDX-License-Identifier: Apache-2.0
 *
 * Completion tokens: a work reference as text that only this data directory can have written. Base
 * 64 (URL alphabet, no padding) of the fields and their SipHash-2-4-128 under a secret key.
 */
#include "core/core.h"

#include "base/assert.h"
#include "base/siphash.h"
#include "core/limits.h"

#define TOKEN_VERSION 1
#define TOKEN_SIZE_MAX ((size_t)1024)
#define MAC_SIZE 16
#define VARINT_SIZE_MAX ((size_t)10)
#define KEY_SIZE_MAX (LIMIT_HUB_SIZE + 1 + LIMIT_ID_SIZE)
/* Version and kind, seven varints (the key's length is one), execution, time, key, MAC. */
#define RAW_SIZE_MAX                                                                               \
    (2 + 7 * VARINT_SIZE_MAX + EXECUTION_ID_SIZE + sizeof(uint64_t) + KEY_SIZE_MAX + MAC_SIZE)

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
_Static_assert(sizeof alphabet == 64 + 1, "six bits a character");
_Static_assert(MAC_SIZE == 16, "siphash128() fills it");
_Static_assert((RAW_SIZE_MAX + 2) / 3 * 4 <= TOKEN_SIZE_MAX, "what was written can be read");

/* The alphabet the other way round: what a character stands for, marked; 0 = not one of them. */
#define DIGIT 0x80
#define D(value) (DIGIT | (value))
static const uint8_t digits[256] = {
    ['A'] = D(0),  ['B'] = D(1),  ['C'] = D(2),  ['D'] = D(3),  ['E'] = D(4),  ['F'] = D(5),
    ['G'] = D(6),  ['H'] = D(7),  ['I'] = D(8),  ['J'] = D(9),  ['K'] = D(10), ['L'] = D(11),
    ['M'] = D(12), ['N'] = D(13), ['O'] = D(14), ['P'] = D(15), ['Q'] = D(16), ['R'] = D(17),
    ['S'] = D(18), ['T'] = D(19), ['U'] = D(20), ['V'] = D(21), ['W'] = D(22), ['X'] = D(23),
    ['Y'] = D(24), ['Z'] = D(25), ['a'] = D(26), ['b'] = D(27), ['c'] = D(28), ['d'] = D(29),
    ['e'] = D(30), ['f'] = D(31), ['g'] = D(32), ['h'] = D(33), ['i'] = D(34), ['j'] = D(35),
    ['k'] = D(36), ['l'] = D(37), ['m'] = D(38), ['n'] = D(39), ['o'] = D(40), ['p'] = D(41),
    ['q'] = D(42), ['r'] = D(43), ['s'] = D(44), ['t'] = D(45), ['u'] = D(46), ['v'] = D(47),
    ['w'] = D(48), ['x'] = D(49), ['y'] = D(50), ['z'] = D(51), ['0'] = D(52), ['1'] = D(53),
    ['2'] = D(54), ['3'] = D(55), ['4'] = D(56), ['5'] = D(57), ['6'] = D(58), ['7'] = D(59),
    ['8'] = D(60), ['9'] = D(61), ['-'] = D(62), ['_'] = D(63),
};
#undef D

static void base64_write(struct buffer *out, struct bytes data)
{
    if (!buffer_reserve(out, (data.len + 2) / 3 * 4)) return;
    const uint8_t *from = data.ptr;
    uint8_t *to = out->ptr + out->len;
    size_t left = data.len;
    for (; left >= 3; left -= 3, from += 3, to += 4) {
        uint32_t bits = (uint32_t)from[0] << 16 | (uint32_t)from[1] << 8 | from[2];
        to[0] = (uint8_t)alphabet[bits >> 18];
        to[1] = (uint8_t)alphabet[bits >> 12 & 63];
        to[2] = (uint8_t)alphabet[bits >> 6 & 63];
        to[3] = (uint8_t)alphabet[bits & 63];
    }
    if (left > 0) {
        uint32_t bits = (uint32_t)from[0] << 16 | (left == 2 ? (uint32_t)from[1] << 8 : 0);
        *to++ = (uint8_t)alphabet[bits >> 18];
        *to++ = (uint8_t)alphabet[bits >> 12 & 63];
        if (left == 2) *to++ = (uint8_t)alphabet[bits >> 6 & 63];
    }
    assert((size_t)(to - out->ptr) - out->len <= TOKEN_SIZE_MAX);
    out->len = (size_t)(to - out->ptr);
    assert(out->len <= out->size);
}

/* The last two or three characters; what is left over of their bits must be as it was written: one
 * token has one text. */
static bool base64_read_rest(const uint8_t *from, size_t left, uint8_t *to)
{
    assert(left > 0);
    assert(left < 4);
    uint8_t first = digits[from[0]];
    uint8_t second = left > 1 ? digits[from[1]] : 0; /* one alone is never written */
    uint8_t third = left > 2 ? digits[from[2]] : DIGIT;
    if ((first & second & third & DIGIT) == 0) return false;
    uint32_t bits = (first & 63u) << 12 | (second & 63u) << 6 | (third & 63u);
    to[0] = (uint8_t)(bits >> 10);
    if (left == 2) return (bits & 0x3ff) == 0;
    to[1] = (uint8_t)(bits >> 2);
    return (bits & 3) == 0;
}

/* Into out, which has room for three quarters of text. */
static bool base64_read(struct bytes text, uint8_t *out, size_t *len)
{
    const uint8_t *from = text.ptr;
    uint8_t *to = out;
    size_t left = text.len;
    for (; left >= 4; left -= 4, from += 4, to += 3) {
        uint8_t a = digits[from[0]];
        uint8_t b = digits[from[1]];
        uint8_t c = digits[from[2]];
        uint8_t d = digits[from[3]];
        if ((a & b & c & d & DIGIT) == 0) return false;
        uint32_t bits = (a & 63u) << 18 | (b & 63u) << 12 | (c & 63u) << 6 | (d & 63u);
        to[0] = (uint8_t)(bits >> 16);
        to[1] = (uint8_t)(bits >> 8);
        to[2] = (uint8_t)bits;
    }
    if (left > 0) {
        if (!base64_read_rest(from, left, to)) return false;
        to += left - 1;
    }
    *len = (size_t)(to - out);
    assert(*len <= text.len / 4 * 3 + text.len % 4);
    return true;
}

void token_write(struct buffer *out, const uint64_t mac_key[2], const struct work_ref *ref)
{
    uint8_t room[RAW_SIZE_MAX];
    uint8_t mac[MAC_SIZE];
    struct buffer raw = {.ptr = room, .size = sizeof room}; /* large enough: it never grows */

    assert(ref->key.len <= KEY_SIZE_MAX);
    assert((unsigned)ref->kind < WORK_KINDS_N);
    buffer_u8(&raw, TOKEN_VERSION);
    buffer_u8(&raw, (uint8_t)ref->kind);
    buffer_varint(&raw, ref->partition);
    buffer_varint(&raw, ref->epoch);
    buffer_append(&raw, ref->execution_id, EXECUTION_ID_SIZE);
    buffer_varint(&raw, (uint32_t)ref->task_id);
    buffer_varint(&raw, ref->attempt);
    buffer_varint(&raw, ref->base);
    buffer_varint(&raw, ref->inbox_n);
    buffer_u64(&raw, (uint64_t)ref->started_ns);
    buffer_bytes(&raw, ref->key);
    siphash128(mac_key, buffer_view(&raw), mac);
    buffer_append(&raw, mac, sizeof mac);
    assert(raw.ptr == room);
    base64_write(out, buffer_view(&raw));
}

/* Takes the same time wherever the difference is. */
static bool mac_equal(const uint8_t *a, const uint8_t *b)
{
    unsigned difference = 0;
    for (size_t n = 0; n < MAC_SIZE; n++) difference |= (unsigned)(a[n] ^ b[n]);
    return difference == 0;
}

enum status token_read(struct bytes token, const uint64_t mac_key[2], struct arena *arena,
                       struct work_ref *out)
{
    uint8_t mac[MAC_SIZE];
    size_t len = 0;
    if (token.len > TOKEN_SIZE_MAX) return E_INVALID;
    uint8_t *raw = arena_alloc(arena, token.len + 1);
    if (raw == NULL) return E_NOMEM;
    if (!base64_read(token, raw, &len) || len < MAC_SIZE) return E_INVALID;
    struct bytes signed_part = bytes_make(raw, len - MAC_SIZE);
    siphash128(mac_key, signed_part, mac);
    if (!mac_equal(mac, raw + signed_part.len)) return E_INVALID;

    struct reader r = reader_make(signed_part);
    struct work_ref ref = {0};
    if (reader_u8(&r) != TOKEN_VERSION) return E_INVALID;
    ref.kind = (enum work_kind)reader_u8(&r);
    ref.partition = (uint32_t)reader_varint(&r);
    ref.epoch = (uint32_t)reader_varint(&r);
    struct bytes execution = reader_take(&r, EXECUTION_ID_SIZE);
    ref.task_id = (int32_t)(uint32_t)reader_varint(&r);
    ref.attempt = (uint32_t)reader_varint(&r);
    ref.base = reader_varint(&r);
    ref.inbox_n = (uint32_t)reader_varint(&r);
    ref.started_ns = (int64_t)reader_u64(&r);
    ref.key = reader_bytes(&r);
    if (!reader_is_done(&r)) return E_INVALID;
    assert(execution.len == EXECUTION_ID_SIZE);
    memcpy(ref.execution_id, execution.ptr, EXECUTION_ID_SIZE);
    *out = ref;
    return OK;
}
