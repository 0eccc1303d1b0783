/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing and reading one message. The checksum covers the offset too: a message that stands at
 * another place than its own is found as surely as a damaged one.
 */
#include "stream/message.h"

#include "base/assert.h"
#include "base/crc32c.h"
#include "stream/limits.h"

#define CRC_AT 4u
#define CRC_FROM 8u

size_t stream_message_size(const struct stream_message *message)
{
    return STREAM_MESSAGE_HEAD_SIZE + message->key.len + message->value.len;
}

void stream_message_write(struct buffer *to, const struct stream_message *message)
{
    assert(message->key.len <= STREAM_KEY_SIZE_MAX);
    assert(message->has_key || message->key.len == 0);
    size_t size = stream_message_size(message);
    assert(size <= UINT32_MAX);
    if (!buffer_reserve(to, size)) return;

    uint8_t *at = to->ptr + to->len;
    store_u32(at, (uint32_t)size);
    store_u64(at + 8, message->offset);
    store_u64(at + 16, (uint64_t)message->time_ns);
    at[24] = (uint8_t)message->kind;
    uint16_t key = message->has_key ? (uint16_t)(message->key.len + 1) : 0;
    memcpy(at + 25, &key, sizeof key);
    if (message->key.len > 0) memcpy(at + 27, message->key.ptr, message->key.len);
    if (message->value.len > 0) {
        memcpy(at + 27 + message->key.len, message->value.ptr, message->value.len);
    }
    store_u32(at + CRC_AT, crc32c(0, at + CRC_FROM, size - CRC_FROM));
    to->len += size;
}

enum status stream_message_read(struct bytes from, struct stream_message *out, size_t *size)
{
    *size = STREAM_MESSAGE_HEAD_SIZE;
    if (from.len < STREAM_MESSAGE_HEAD_SIZE) return E_NOT_FOUND;
    const uint8_t *at = from.ptr;
    size_t whole = load_u32(at);
    uint16_t key;
    memcpy(&key, at + 25, sizeof key);
    size_t key_size = key == 0 ? 0 : (size_t)key - 1;
    if (key_size > STREAM_KEY_SIZE_MAX) return E_CORRUPT;
    /* A letter's value has its own head before the message's. */
    if (whole > STREAM_MESSAGE_HEAD_SIZE + STREAM_KEY_SIZE_MAX + 2 * STREAM_VALUE_SIZE_MAX) {
        return E_CORRUPT;
    }
    if (whole < STREAM_MESSAGE_HEAD_SIZE + key_size) return E_CORRUPT;
    *size = whole;
    if (from.len < whole) return E_NOT_FOUND;
    if (load_u32(at + CRC_AT) != crc32c(0, at + CRC_FROM, whole - CRC_FROM)) return E_CORRUPT;
    if (at[24] > STREAM_VALUE_BYTES) return E_CORRUPT;
    *out = (struct stream_message){
        .offset = load_u64(at + 8),
        .time_ns = (int64_t)load_u64(at + 16),
        .kind = (enum stream_value_kind)at[24],
        .has_key = key != 0,
        .key = bytes_make(at + STREAM_MESSAGE_HEAD_SIZE, key_size),
        .value = bytes_make(at + STREAM_MESSAGE_HEAD_SIZE + key_size,
                            whole - STREAM_MESSAGE_HEAD_SIZE - key_size),
    };
    return OK;
}

uint32_t stream_hash_share(bool has_key, struct bytes key, uint64_t offset, uint32_t n)
{
    assert(n > 0);
    return (uint32_t)((has_key ? bytes_hash(key) : offset) % n);
}
