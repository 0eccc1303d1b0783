/* SPDX-License-Identifier: Apache-2.0
 *
 * Which fields a record of each kind has, in one place for writing and reading.
 */
#include "stream/record.h"

#include "base/assert.h"

enum field {
    PARTITION = 1,
    OFFSET = 2,
    UNTIL = 4,
    NAME = 8,
    DATA = 16,
    SETTINGS = 32,
};

/* -1: no such kind. */
static int fields_of(unsigned kind)
{
    switch (kind) {
    case STREAM_RECORD_SECRET: return DATA;
    case STREAM_RECORD_STREAM_SET: return NAME | SETTINGS;
    case STREAM_RECORD_STREAM_GONE: return 0;
    case STREAM_RECORD_APPENDED: return PARTITION | DATA;
    case STREAM_RECORD_CHECKPOINT: return NAME | PARTITION | OFFSET;
    case STREAM_RECORD_GROUP_GONE: return NAME;
    case STREAM_RECORD_DELIVERED:
    case STREAM_RECORD_RENEWED: return PARTITION | OFFSET | UNTIL;
    case STREAM_RECORD_RELEASED:
    case STREAM_RECORD_RETURNED:
    case STREAM_RECORD_DYING:
    case STREAM_RECORD_DONE:
    case STREAM_RECORD_TRIMMED: return PARTITION | OFFSET;
    case STREAM_RECORD_LETTER_GONE: return OFFSET;
    }
    return -1;
}

void stream_record_write(struct buffer *to, const struct stream_record *record)
{
    int fields = fields_of(record->kind);

    assert(fields >= 0);
    buffer_u8(to, (uint8_t)record->kind);
    buffer_varint(to, record->stream);
    if ((fields & PARTITION) != 0) buffer_varint(to, record->partition);
    if ((fields & OFFSET) != 0) buffer_varint(to, record->offset);
    if ((fields & UNTIL) != 0) buffer_signed(to, record->until_ns);
    if ((fields & NAME) != 0) buffer_bytes(to, record->name);
    if ((fields & SETTINGS) != 0) stream_settings_write(to, &record->settings);
    if ((fields & DATA) != 0) buffer_bytes(to, record->data);
}

bool stream_record_read(struct reader *from, struct stream_record *out)
{
    unsigned kind = reader_u8(from);
    int fields = fields_of(kind);
    if (fields < 0) return false;

    *out = (struct stream_record){.kind = (enum stream_record_kind)kind};
    uint64_t stream = reader_varint(from);
    uint64_t partition = (fields & PARTITION) != 0 ? reader_varint(from) : 0;
    if (stream > UINT32_MAX || partition > UINT32_MAX) return false;
    out->stream = (uint32_t)stream;
    out->partition = (uint32_t)partition;
    if ((fields & OFFSET) != 0) out->offset = reader_varint(from);
    if ((fields & UNTIL) != 0) out->until_ns = reader_signed(from);
    if ((fields & NAME) != 0) out->name = reader_bytes(from);
    if ((fields & SETTINGS) != 0 && !stream_settings_read(from, &out->settings)) return false;
    if ((fields & DATA) != 0) out->data = reader_bytes(from);
    return !from->failed;
}
