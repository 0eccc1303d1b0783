/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers in parts, as workers send them that are above the size one message may have. Nothing of
 * them is used before the last part is there; until then they belong to the lease, and go with it.
 */
#include "server/work.h"

static enum status chunks_of(struct service *s, struct lease *lease)
{
    if (lease->chunks != NULL) return OK;
    lease->chunks = mem_take_zero(s->mem, sizeof *lease->chunks);
    if (lease->chunks == NULL) return E_NOMEM;
    buffer_init(&lease->chunks->bytes, s->mem);
    return OK;
}

/* What the buffer holds, used or not, is what it costs. */
static void count(struct service *s, struct work_chunks *chunks)
{
    s->workers.chunks_size -= chunks->size_counted;
    chunks->size_counted = chunks->bytes.size;
    s->workers.chunks_size += chunks->size_counted;
}

enum status chunks_add(struct service *s, struct lease *lease, int32_t index, struct bytes part)
{
    int32_t next = lease->chunks == NULL ? 0 : lease->chunks->next;
    size_t size = lease->chunks == NULL ? 0 : lease->chunks->bytes.len;

    if (index < next) return E_EXISTS;
    if (index > next) return E_INVALID;
    if (part.len > CHUNKS_SIZE_MAX - size) return E_LIMIT;
    if (s->workers.chunks_size + part.len > CHUNKS_SIZE_ALL_MAX) return E_BUSY;
    if (chunks_of(s, lease) != OK) return E_NOMEM;
    struct work_chunks *chunks = lease->chunks;
    buffer_append_bytes(&chunks->bytes, part);
    count(s, chunks);
    if (chunks->bytes.failed) {
        chunks->bytes.failed = false; /* what was there is as it was: the part can come again */
        return E_NOMEM;
    }
    chunks->last_size = part.len;
    chunks->next++;
    s->stats.chunks++;
    return OK;
}

struct work_chunks *chunks_take(struct lease *lease)
{
    struct work_chunks *chunks = lease->chunks;

    lease->chunks = NULL;
    return chunks;
}

void chunks_return(struct service *s, struct lease *lease, struct work_chunks *chunks)
{
    if (chunks == NULL || lease == NULL || lease->chunks != NULL) {
        chunks_free(s, chunks);
        return;
    }
    assert(chunks->next > 0);
    assert(chunks->bytes.len >= chunks->last_size);
    chunks->bytes.len -= chunks->last_size;
    chunks->last_size = 0;
    chunks->next--;
    lease->chunks = chunks;
}

void chunks_free(struct service *s, struct work_chunks *chunks)
{
    if (chunks == NULL) return;
    assert(s->workers.chunks_size >= chunks->size_counted);
    s->workers.chunks_size -= chunks->size_counted;
    buffer_release(&chunks->bytes);
    mem_give(s->mem, chunks, sizeof *chunks);
}
