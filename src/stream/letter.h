/* SPDX-License-Identifier: Apache-2.0
 *
 * A dead letter: a message that its consumer could not do anything with, and why. It is kept as a
 * message of stream 0 (same key, a value that begins with the fields below), so that it lives in
 * chunks and segments like every other.
 */
#ifndef STREAM_LETTER_H
#define STREAM_LETTER_H

#include "stream/message.h"

struct stream_letter_content {
    uint64_t id;
    uint32_t stream; /* number and place of the message that it was */
    uint32_t partition;
    uint64_t offset;
    uint32_t deliveries; /* 0: of a bound workflow */
    int64_t time_ns;     /* of the message */
    struct bytes reason;
    enum stream_value_kind kind;
    struct bytes value;
};

/* The most that the fields take beside reason and value. */
#define STREAM_LETTER_HEAD_SIZE_MAX 80u

void stream_letter_write(struct buffer *to, const struct stream_letter_content *letter);
/* value: of the message in stream 0. False: damaged. Bytes are borrowed from it. */
bool stream_letter_read(struct bytes value, struct stream_letter_content *out);

#endif
