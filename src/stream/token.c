/* SPDX-License-Identifier: Apache-2.0
 *
 * See token.h.
 */
#include "stream/token.h"

#include "base/siphash.h"

#define PLAIN_SIZE 20u
_Static_assert(PLAIN_SIZE + sizeof((struct stream_token *)0)->mac == STREAM_TOKEN_SIZE, "layout");

static void write_plain(const struct stream_token *token, uint8_t out[PLAIN_SIZE])
{
    store_u32(out, token->stream);
    store_u32(out + 4, token->partition);
    store_u64(out + 8, token->offset);
    store_u32(out + 16, token->delivery);
}

void stream_token_sign(struct stream_token *token, const uint64_t key[2])
{
    uint8_t plain[PLAIN_SIZE];

    write_plain(token, plain);
    siphash128(key, bytes_make(plain, sizeof plain), token->mac);
}

bool stream_token_is_signed(const struct stream_token *token, const uint64_t key[2])
{
    struct stream_token right = *token;
    uint8_t difference = 0;

    stream_token_sign(&right, key);
    /* As long for a wrong first byte as for a wrong last one. */
    for (size_t i = 0; i < sizeof right.mac; i++) difference |= right.mac[i] ^ token->mac[i];
    return difference == 0;
}

void stream_token_text(const struct stream_token *token, char *out)
{
    static const char digits[] = "0123456789abcdef";
    uint8_t raw[STREAM_TOKEN_SIZE];

    write_plain(token, raw);
    memcpy(raw + PLAIN_SIZE, token->mac, sizeof token->mac);
    for (size_t i = 0; i < sizeof raw; i++) {
        out[2 * i] = digits[raw[i] >> 4];
        out[2 * i + 1] = digits[raw[i] & 15];
    }
}

static int digit_of(uint8_t c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
}

bool stream_token_parse(struct bytes text, struct stream_token *out)
{
    uint8_t raw[STREAM_TOKEN_SIZE];

    if (text.len != STREAM_TOKEN_TEXT_SIZE) return false;
    for (size_t i = 0; i < sizeof raw; i++) {
        int high = digit_of(text.ptr[2 * i]);
        int low = digit_of(text.ptr[2 * i + 1]);
        if (high < 0 || low < 0) return false;
        raw[i] = (uint8_t)(high << 4 | low);
    }
    *out = (struct stream_token){
        .stream = load_u32(raw),
        .partition = load_u32(raw + 4),
        .offset = load_u64(raw + 8),
        .delivery = load_u32(raw + 16),
    };
    memcpy(out->mac, raw + PLAIN_SIZE, sizeof out->mac);
    return true;
}
