/* SPDX-License-Identifier: Apache-2.0
 *
 * HTTP/2 frames written by hand, valid or not: for peers that say what no library would.
 */
#ifndef TEST_LIB_FRAMES_H
#define TEST_LIB_FRAMES_H

#include "base/bytes.h"
#include "base/mem.h"

#include <nghttp2/nghttp2.h>

#define END_STREAM 1
#define END_HEADERS 4
#define PADDED 8

static inline void put_frame(struct buffer *b, uint8_t type, uint8_t flags, uint32_t stream,
                             struct bytes payload)
{
    const uint8_t head[9] = {(uint8_t)(payload.len >> 16),
                             (uint8_t)(payload.len >> 8),
                             (uint8_t)payload.len,
                             type,
                             flags,
                             (uint8_t)(stream >> 24),
                             (uint8_t)(stream >> 16),
                             (uint8_t)(stream >> 8),
                             (uint8_t)stream};
    buffer_append(b, head, sizeof head);
    buffer_append_bytes(b, payload);
}

static inline void put_u32(struct buffer *b, uint32_t value)
{
    for (int i = 3; i >= 0; i--) buffer_u8(b, (uint8_t)(value >> (8 * i)));
}

static inline void put_frame_u32(struct buffer *b, uint8_t type, uint32_t stream, uint32_t value)
{
    const uint8_t payload[4] = {(uint8_t)(value >> 24), (uint8_t)(value >> 16),
                                (uint8_t)(value >> 8), (uint8_t)value};
    put_frame(b, type, 0, stream, bytes_make(payload, 4));
}

/* A number of HPACK with a prefix of so many bits; the bits above it are in `first`. */
static inline void put_hpack_number(struct buffer *b, uint8_t first, int bits, size_t value)
{
    size_t most = ((size_t)1 << bits) - 1;
    if (value < most) {
        buffer_u8(b, (uint8_t)(first | value));
        return;
    }
    buffer_u8(b, (uint8_t)(first | most));
    for (value -= most; value >= 128; value >>= 7) buffer_u8(b, (uint8_t)(value | 128));
    buffer_u8(b, (uint8_t)value);
}

/* A header without table and Huffman. */
static inline void put_header(struct buffer *b, const char *name, struct bytes value)
{
    buffer_u8(b, 0);
    put_hpack_number(b, 0, 7, strlen(name));
    buffer_append_bytes(b, bytes_of_text(name));
    put_hpack_number(b, 0, 7, value.len);
    buffer_append_bytes(b, value);
}

static inline void put_request_headers(struct buffer *b, const char *path)
{
    put_header(b, ":method", BYTES_LITERAL("POST"));
    put_header(b, ":scheme", BYTES_LITERAL("http"));
    put_header(b, ":path", bytes_of_text(path));
    put_header(b, ":authority", BYTES_LITERAL("norn"));
    put_header(b, "content-type", BYTES_LITERAL("application/grpc"));
    put_header(b, "te", BYTES_LITERAL("trailers"));
}

/* HEADERS of a gRPC request; extra: more of the header block, or nothing. */
static inline void put_head(struct buffer *b, uint32_t stream, const char *path, uint8_t flags,
                            struct bytes extra)
{
    struct buffer block;
    buffer_init(&block, mem_process());
    put_request_headers(&block, path);
    buffer_append_bytes(&block, extra);
    put_frame(b, NGHTTP2_HEADERS, flags, stream, buffer_view(&block));
    buffer_release(&block);
}

/* DATA with one gRPC message. */
static inline void put_message(struct buffer *b, uint32_t stream, const char *text)
{
    struct buffer data;
    buffer_init(&data, mem_process());
    buffer_u8(&data, 0);
    put_u32(&data, (uint32_t)strlen(text));
    buffer_append_bytes(&data, bytes_of_text(text));
    put_frame(b, NGHTTP2_DATA, END_STREAM, stream, buffer_view(&data));
    buffer_release(&data);
}

static inline void put_request(struct buffer *b, uint32_t stream, const char *path,
                               const char *text)
{
    put_head(b, stream, path, END_HEADERS, BYTES_NONE);
    put_message(b, stream, text);
}

static inline void put_greeting(struct buffer *b)
{
    buffer_append(b, NGHTTP2_CLIENT_MAGIC, NGHTTP2_CLIENT_MAGIC_LEN);
    put_frame(b, NGHTTP2_SETTINGS, 0, 0, BYTES_NONE);
}

static inline void put_settings_ack(struct buffer *b)
{
    put_frame(b, NGHTTP2_SETTINGS, NGHTTP2_FLAG_ACK, 0, BYTES_NONE);
}

#endif
