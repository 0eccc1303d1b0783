/* SPDX-License-Identifier: Apache-2.0
 *
 * What the journal of the streams remembers. A frame's payload is a row of records; a request's
 * records are always in one frame.
 */
#ifndef STREAM_RECORD_H
#define STREAM_RECORD_H

#include "stream/message.h"
#include "stream/settings.h"

/* name, number (it is on disk: append, never renumber) */
#define STREAM_RECORDS(X)                                                                          \
    X(SECRET, 1)     /* data: the key of tokens */                                                 \
    X(STREAM_SET, 2) /* name, settings: made or changed */                                         \
    X(STREAM_GONE, 3)                                                                              \
    X(APPENDED, 4)     /* partition, data: the message; of stream 0: a dead letter */              \
    X(CHECKPOINT, 5)   /* name: group, partition, offset */                                        \
    X(GROUP_GONE, 6)   /* name: group */                                                           \
    X(DELIVERED, 7)    /* partition, offset, until_ns */                                           \
    X(RENEWED, 8)      /* partition, offset, until_ns */                                           \
    X(RELEASED, 9)     /* partition, offset: given back; may be delivered again */                 \
    X(DYING, 10)       /* partition, offset: was delivered too often */                            \
    X(DONE, 11)        /* partition, offset */                                                     \
    X(TRIMMED, 12)     /* partition, offset: what is before it is gone */                          \
    X(LETTER_GONE, 13) /* offset: the letter's id */                                               \
    X(RETURNED, 14)    /* partition, offset: the delivery did not take place */

enum stream_record_kind {
#define X(name, number) STREAM_RECORD_##name = number,
    STREAM_RECORDS(X)
#undef X
};

struct stream_record {
    enum stream_record_kind kind;
    uint32_t stream; /* number */
    uint32_t partition;
    uint64_t offset;
    int64_t until_ns;
    struct bytes name;
    struct bytes data;
    struct stream_settings settings;
};

/* The most that a record of a name and settings takes beside its data. */
#define STREAM_RECORD_SIZE_MAX 700u

void stream_record_write(struct buffer *to, const struct stream_record *record);
/* False: damaged, or of a kind that a newer program wrote. Bytes are borrowed from what is read. */
bool stream_record_read(struct reader *from, struct stream_record *out);

#endif
