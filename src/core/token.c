/* SPDX-License-Identifier: Apache-2.0
 *
 * Completion tokens: a work reference as text that only this data directory can have written. Base
 * 64 (URL alphabet, no padding) of the fields and their SipHash-2-4-128 under a secret key.
 */
#include "core/core.h"

#include "base/assert.h"
#include "base/siphash.h"

#define TOKEN_VERSION 1
#define TOKEN_SIZE_MAX ((size_t)1024)
#define MAC_SIZE 16

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
_Static_assert(sizeof alphabet == 64 + 1, "six bits a character");
_Static_assert(MAC_SIZE == 16, "siphash128() fills it");

static void base64_write(struct buffer *out, struct bytes data)
{
    uint32_t bits = 0;
    unsigned bits_n = 0;
    for (size_t n = 0; n < data.len; n++) {
        bits = bits << 8 | data.ptr[n];
        bits_n += 8;
        while (bits_n >= 6) {
            bits_n -= 6;
            buffer_u8(out, (uint8_t)alphabet[bits >> bits_n & 63]);
        }
    }
    assert(bits_n < 6);
    if (bits_n > 0) buffer_u8(out, (uint8_t)alphabet[bits << (6 - bits_n) & 63]);
}

static int base64_digit(uint8_t c)
{
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    if (c == '-') return 62;
    return c == '_' ? 63 : -1;
}

/* Into out, which has room for three quarters of text. */
static bool base64_read(struct bytes text, uint8_t *out, size_t *len)
{
    uint32_t bits = 0;
    unsigned bits_n = 0;
    *len = 0;
    for (size_t n = 0; n < text.len; n++) {
        int digit = base64_digit(text.ptr[n]);
        if (digit < 0) return false;
        bits = bits << 6 | (uint32_t)digit;
        bits_n += 6;
        if (bits_n < 8) continue;
        bits_n -= 8;
        out[(*len)++] = (uint8_t)(bits >> bits_n);
    }
    assert(*len <= text.len / 4 * 3 + text.len % 4);
    /* what is left over must be as it was written: one token has one text */
    return bits_n < 6 && (bits & ((1u << bits_n) - 1)) == 0;
}

void token_write(struct buffer *out, const uint64_t mac_key[2], const struct work_ref *ref)
{
    struct buffer raw;
    uint8_t mac[MAC_SIZE];

    buffer_init(&raw, out->mem);
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
    if (raw.failed)
        out->failed = true;
    else
        base64_write(out, buffer_view(&raw));
    buffer_release(&raw);
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
