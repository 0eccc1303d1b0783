/* SPDX-License-Identifier: Apache-2.0
 *
 * Chunks in a list, newest first; allocation moves `at` forward in the newest. What is left of a
 * chunk when the next is needed stays unused: at most the size of one object per chunk.
 */
#include "base/arena.h"

#include "base/assert.h"
#include "base/mem.h"
#include "base/poison.h"

#define ALIGNMENT 8
#define KEEP_SIZE_MAX ((size_t)8 << 20)  /* what a reset keeps */
#define CHUNK_SIZE_MAX ((size_t)1 << 20) /* doubling ends here: half a chunk may be waste */

struct arena_chunk {
    struct arena_chunk *older;
    size_t size; /* with this head */
    uint8_t data[];
};

_Static_assert(offsetof(struct arena_chunk, data) % ALIGNMENT == 0, "the first object is aligned");

void arena_init(struct arena *a, struct mem *mem, size_t chunk_size)
{
    assert(chunk_size > sizeof(struct arena_chunk));
    *a = (struct arena){.mem = mem, .chunk_size_next = chunk_size};
}

static void chunk_free(struct arena *a, struct arena_chunk *chunk)
{
    assert(a->size >= chunk->size);
    a->size -= chunk->size;
    unpoison(chunk, chunk->size);
    mem_give(a->mem, chunk, chunk->size);
}

/* Allocation goes on at the start of the newest chunk. */
static void start_chunk(struct arena *a)
{
    struct arena_chunk *chunk = a->chunks;

    a->at = chunk->data;
    a->end = (uint8_t *)chunk + chunk->size;
    poison(a->at, (size_t)(a->end - a->at));
}

static void list_free(struct arena *a, struct arena_chunk *chunk)
{
    while (chunk != NULL) {
        struct arena_chunk *older = chunk->older;
        chunk_free(a, chunk);
        chunk = older;
    }
}

void arena_release(struct arena *a)
{
    list_free(a, a->chunks);
    list_free(a, a->spare);
    a->chunks = NULL;
    a->spare = NULL;
    assert(a->size == 0);
    a->at = NULL;
    a->end = NULL;
}

/* Takes the largest of all chunks out of their list. */
static struct arena_chunk *take_largest(struct arena *a)
{
    struct arena_chunk **largest = &a->chunks;
    for (struct arena_chunk **at = &a->chunks; *at != NULL; at = &(*at)->older) {
        if ((*at)->size > (*largest)->size) largest = at;
    }
    struct arena_chunk *chunk = *largest;
    *largest = chunk->older;
    chunk->older = NULL;
    return chunk;
}

void arena_reset(struct arena *a)
{
    if (a->chunks == NULL) return;
    struct arena_chunk *largest = take_largest(a);
    if (a->size > KEEP_SIZE_MAX) {
        list_free(a, a->chunks);
        list_free(a, a->spare);
        a->spare = NULL;
        assert(a->size == largest->size);
    } else {
        while (a->chunks != NULL) {
            struct arena_chunk *chunk = a->chunks;
            a->chunks = chunk->older;
            chunk->older = a->spare;
            a->spare = chunk;
        }
    }
    a->chunks = largest;
    start_chunk(a);
}

static bool use_spare(struct arena *a, size_t size)
{
    struct arena_chunk *chunk = a->spare;
    if (chunk == NULL || chunk->size < sizeof *chunk + size) return false;
    a->spare = chunk->older;
    chunk->older = a->chunks;
    a->chunks = chunk;
    start_chunk(a);
    return true;
}

static bool add_chunk(struct arena *a, size_t size)
{
    if (use_spare(a, size)) return true;
    size_t least = sizeof(struct arena_chunk) + size;
    size_t wish = least > a->chunk_size_next ? least : a->chunk_size_next;
    size_t got;

    struct arena_chunk *chunk = mem_grow(a->mem, NULL, 0, least, wish, &got);
    if (chunk == NULL) return false;
    chunk->older = a->chunks;
    chunk->size = got;
    a->chunks = chunk;
    a->size += got;
    if (got == wish && a->chunk_size_next < CHUNK_SIZE_MAX) a->chunk_size_next *= 2;
    start_chunk(a);
    return true;
}

void *arena_alloc_slowly(struct arena *a, size_t size)
{
    if (size > SIZE_MAX / 2) return NULL;
    if (size == 0) size = 1; /* an address of its own, so that NULL always means no memory */

    size_t rounded = (size + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
    if (rounded > (size_t)(a->end - a->at) && !add_chunk(a, rounded)) return NULL;

    uint8_t *object = a->at;
    a->at += rounded;
    assert(a->at <= a->end);
    unpoison(object, size);
    return object;
}

void *arena_alloc_zero(struct arena *a, size_t size)
{
    void *object = arena_alloc(a, size);

    if (object != NULL) memset(object, 0, size);
    return object;
}

struct bytes arena_copy_some(struct arena *a, struct bytes b)
{
    assert(b.len > 0);
    void *copy = arena_alloc(a, b.len);
    if (copy == NULL) return BYTES_NONE;
    memcpy(copy, b.ptr, b.len);
    return bytes_make(copy, b.len);
}

char *arena_text(struct arena *a, struct bytes b)
{
    if (b.len == SIZE_MAX) return NULL;

    char *text = arena_alloc(a, b.len + 1);
    if (text == NULL) return NULL;
    if (b.len > 0) memcpy(text, b.ptr, b.len);
    text[b.len] = '\0';
    return text;
}
