/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages of one partition that are in the journal and not yet in a segment: their bytes one after
 * the other as a segment has them, and where each begins. A few bytes per message beside the
 * message; how many there are in all is bounded by who fills them.
 */
#ifndef STREAM_CHUNK_H
#define STREAM_CHUNK_H

#include "stream/message.h"

struct stream_chunk {
    uint64_t base; /* offset of the first message */
    uint32_t n;
    struct buffer data;
    struct buffer starts; /* n times u32: where in data */
};

void stream_chunk_init(struct stream_chunk *c, struct mem *mem, uint64_t base);
void stream_chunk_release(struct stream_chunk *c);
/* Room for so many more messages of so many bytes in all: then the pushes cannot fail. */
bool stream_chunk_reserve(struct stream_chunk *c, uint32_t n, size_t size);
/* message: as stream_message_write() made it; it is the one that comes next. E_NOMEM. */
enum status stream_chunk_push(struct stream_chunk *c, struct bytes message);

static inline uint64_t stream_chunk_end(const struct stream_chunk *c) { return c->base + c->n; }
static inline bool stream_chunk_has(const struct stream_chunk *c, uint64_t offset)
{
    return offset >= c->base && offset - c->base < c->n;
}
/* The bytes from this message (which must be there) to the end of the chunk; valid until the next
 * push. */
struct bytes stream_chunk_from(const struct stream_chunk *c, uint64_t offset);

#endif
