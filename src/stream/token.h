/* SPDX-License-Identifier: Apache-2.0
 *
 * The token of a delivery of a queue's message: which one, which delivery, and a MAC, so that
 * nobody but who received it can answer it. As text it is 2 * STREAM_TOKEN_SIZE hex digits.
 */
#ifndef STREAM_TOKEN_H
#define STREAM_TOKEN_H

#include "base/bytes.h"

struct stream_token {
    uint32_t stream; /* number */
    uint32_t partition;
    uint64_t offset;
    uint32_t delivery;
    uint8_t mac[16];
};

#define STREAM_TOKEN_SIZE 36u
#define STREAM_TOKEN_TEXT_SIZE (2 * STREAM_TOKEN_SIZE)

void stream_token_sign(struct stream_token *token, const uint64_t key[2]);
bool stream_token_is_signed(const struct stream_token *token, const uint64_t key[2]);
/* Exactly STREAM_TOKEN_TEXT_SIZE characters, no NUL. */
void stream_token_text(const struct stream_token *token, char *out);
/* False: this is no token. */
bool stream_token_parse(struct bytes text, struct stream_token *out);

#endif
