/* SPDX-License-Identifier: Apache-2.0
 *
 * A message as it is kept, in the journal, in memory and in segments alike: one form, so that
 * moving it is copying it. Numbers are little endian:
 *
 *   u32 size of all   u32 CRC32C of what follows   u64 offset   i64 time, ns   u8 kind
 *   u16 0 = no key, else its size + 1   key   value
 */
#ifndef STREAM_MESSAGE_H
#define STREAM_MESSAGE_H

#include "base/bytes.h"
#include "base/status.h"

/* It is on disk: append, never renumber. */
enum stream_value_kind {
    STREAM_VALUE_JSON,  /* a JSON text */
    STREAM_VALUE_BYTES, /* anything */
};

struct stream_message {
    uint64_t offset; /* in its partition */
    int64_t time_ns; /* engine time of its append */
    enum stream_value_kind kind;
    bool has_key;
    struct bytes key;   /* borrowed from where it was read */
    struct bytes value; /* the same */
};

#define STREAM_MESSAGE_HEAD_SIZE 27u

size_t stream_message_size(const struct stream_message *message);
void stream_message_write(struct buffer *to, const struct stream_message *message);
/* The message at the start of `from`; *size is what it takes. E_NOT_FOUND: `from` is too short, and
 * *size says how much is needed to know more. E_CORRUPT: these bytes are no message. */
enum status stream_message_read(struct bytes from, struct stream_message *out, size_t *size);

/* Which of n readers (or partitions) it falls to: by its key, without one by its offset. The same
 * for ever: readers on different machines rely on it. */
uint32_t stream_hash_share(bool has_key, struct bytes key, uint64_t offset, uint32_t n);

#endif
