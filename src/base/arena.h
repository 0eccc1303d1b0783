/* SPDX-License-Identifier: Apache-2.0
 *
 * Many small objects with one lifetime: allocated one by one, freed together. Chunks come from a
 * `struct mem` and double in size up to 1 MiB; when memory is short, a chunk is as small as the
 * object that needs it. Under ASan, what is not allocated or was reset is poisoned.
 */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include "base/bytes.h"
#include "base/poison.h"

struct mem;
struct arena_chunk;

struct arena {
    struct mem *mem;
    struct arena_chunk *chunks; /* newest first */
    struct arena_chunk *spare;  /* emptied by a reset, used again before new ones are taken */
    uint8_t *at;
    uint8_t *end;
    size_t chunk_size_next;
    size_t size; /* bytes held in chunks: what this arena costs */
};

/* Takes no memory before the first allocation. chunk_size: the first chunk's, e.g. 512. */
void arena_init(struct arena *a, struct mem *mem, size_t chunk_size);
/* Frees everything; the arena can be used again. */
void arena_release(struct arena *a);
/* Forgets every allocation and keeps the chunks for the next use; of a large arena (beyond 8 MiB)
 * only the largest one. */
void arena_reset(struct arena *a);

/* Aligned to 8 bytes; NULL without memory. Lives until reset or release. */
void *arena_alloc_slowly(struct arena *a, size_t size);
static inline void *arena_alloc(struct arena *a, size_t size)
{
    size_t rounded = (size + 7) & ~(size_t)7;

    /* the usual case; no size, or no room: the rest */
    if (rounded - 1 >= (size_t)(a->end - a->at)) return arena_alloc_slowly(a, size);
    uint8_t *object = a->at;
    a->at += rounded;
    unpoison(object, size);
    return object;
}
void *arena_alloc_zero(struct arena *a, size_t size);
/* A copy in the arena; empty (ptr NULL) without memory, and for an empty value, which most of those
 * are that may be absent. */
struct bytes arena_copy_some(struct arena *a, struct bytes b);
static inline struct bytes arena_copy(struct arena *a, struct bytes b)
{
    return b.len == 0 ? BYTES_NONE : arena_copy_some(a, b);
}
/* A copy with a final NUL; NULL without memory. */
char *arena_text(struct arena *a, struct bytes b);

#endif
