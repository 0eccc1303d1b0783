/* SPDX-License-Identifier: Apache-2.0
 *
 * See chunk.h.
 */
#include "stream/chunk.h"

#include "base/assert.h"

void stream_chunk_init(struct stream_chunk *c, struct mem *mem, uint64_t base)
{
    *c = (struct stream_chunk){.base = base};
    buffer_init(&c->data, mem);
    buffer_init(&c->starts, mem);
}

void stream_chunk_release(struct stream_chunk *c)
{
    buffer_release(&c->data);
    buffer_release(&c->starts);
    c->n = 0;
}

bool stream_chunk_reserve(struct stream_chunk *c, uint32_t n, size_t size)
{
    bool has_room = c->data.len + size <= UINT32_MAX;

    has_room = has_room && buffer_reserve(&c->data, size);
    has_room = has_room && buffer_reserve(&c->starts, n * sizeof(uint32_t));
    c->data.failed = c->starts.failed = false; /* nothing was appended: it is as it was */
    return has_room;
}

enum status stream_chunk_push(struct stream_chunk *c, struct bytes message)
{
    assert(message.len >= STREAM_MESSAGE_HEAD_SIZE);
    assert(c->starts.len == c->n * sizeof(uint32_t));
    if (!stream_chunk_reserve(c, 1, message.len)) return E_NOMEM;
    buffer_u32(&c->starts, (uint32_t)c->data.len);
    buffer_append_bytes(&c->data, message);
    assert(!c->data.failed);
    assert(!c->starts.failed);
    c->n++;
    return OK;
}

struct bytes stream_chunk_from(const struct stream_chunk *c, uint64_t offset)
{
    assert(stream_chunk_has(c, offset));
    uint32_t start = load_u32(c->starts.ptr + (offset - c->base) * sizeof(uint32_t));
    return bytes_make(c->data.ptr + start, c->data.len - start);
}
