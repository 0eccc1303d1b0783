/* SPDX-License-Identifier: Apache-2.0
 *
 * See letter.h.
 */
#include "stream/letter.h"

void stream_letter_write(struct buffer *to, const struct stream_letter_content *letter)
{
    buffer_varint(to, letter->id);
    buffer_varint(to, letter->stream);
    buffer_varint(to, letter->partition);
    buffer_varint(to, letter->offset);
    buffer_varint(to, letter->deliveries);
    buffer_signed(to, letter->time_ns);
    buffer_bytes(to, letter->reason);
    buffer_u8(to, (uint8_t)letter->kind);
    buffer_append_bytes(to, letter->value);
}

bool stream_letter_read(struct bytes value, struct stream_letter_content *out)
{
    struct reader r = reader_make(value);
    struct stream_letter_content letter = {0};

    letter.id = reader_varint(&r);
    letter.stream = (uint32_t)reader_varint(&r);
    letter.partition = (uint32_t)reader_varint(&r);
    letter.offset = reader_varint(&r);
    letter.deliveries = (uint32_t)reader_varint(&r);
    letter.time_ns = reader_signed(&r);
    letter.reason = reader_bytes(&r);
    uint8_t kind = reader_u8(&r);
    letter.kind = (enum stream_value_kind)kind;
    letter.value = reader_take(&r, reader_left(&r));
    if (r.failed || kind > STREAM_VALUE_BYTES) return false;
    *out = letter;
    return true;
}
