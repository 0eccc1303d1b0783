/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks of powers of two that know their size. Under ASan what waits is poisoned.
 */
#include "net/pool.h"

#include "base/assert.h"
#include "base/mem.h"
#include "base/poison.h"

#include <stdint.h>
#include <string.h>

#define CLASS_SIZE_MIN 64

struct pool_block {
    size_t size; /* of all of it, as it was taken */
    struct pool_block *next;
    _Alignas(MEM_ALIGNMENT) unsigned char data[];
};

void pool_init(struct pool *p, struct mem *mem, size_t waiting_size_max)
{
    *p = (struct pool){.mem = mem, .waiting_size_max = waiting_size_max};
    list_init(&p->kept);
}

void pool_release(struct pool *p)
{
    struct list *node;

    while ((node = pool_take_kept(p)) != NULL) p->kept_free(node);
    for (int i = 0; i < POOL_CLASSES_N; i++) {
        struct pool_block *b;
        while ((b = p->waiting[i]) != NULL) {
            p->waiting[i] = b->next;
            unpoison(b->data, b->size - sizeof *b);
            mem_give(p->mem, b, b->size);
        }
    }
    p->waiting_size = 0;
}

bool pool_keep(struct pool *p, struct list *node, void (*free)(struct list *node))
{
    assert(p->kept_n == 0 || p->kept_free == free);
    if (p->kept_n == POOL_KEPT_N_MAX) return false;
    p->kept_free = free;
    list_push_front(&p->kept, node); /* the last one is still in the cache */
    p->kept_n++;
    return true;
}

struct list *pool_take_kept(struct pool *p)
{
    struct list *node = list_pop_front(&p->kept);

    if (node != NULL) p->kept_n--;
    return node;
}

/* POOL_CLASSES_N: none is as large. */
static int class_of(size_t whole)
{
    int class = 0;
    for (size_t size = CLASS_SIZE_MIN; class < POOL_CLASSES_N && size < whole; size *= 2) class ++;
    return class;
}

void *pool_take(struct pool *p, size_t size)
{
    if (size > SIZE_MAX / 2) return NULL;
    if (size == 0) size = 1; /* the library takes NULL for a lack of memory */
    size_t whole = sizeof(struct pool_block) + size;
    int class = class_of(whole);
    if (class < POOL_CLASSES_N) whole = (size_t)CLASS_SIZE_MIN << class;

    struct pool_block *b = class < POOL_CLASSES_N ? p->waiting[class] : NULL;
    if (b != NULL) {
        p->waiting[class] = b->next;
        p->waiting_size -= whole;
        unpoison(b->data, whole - sizeof *b);
        return b->data;
    }
    b = mem_take(p->mem, whole);
    if (b == NULL) return NULL;
    b->size = whole;
    return b->data;
}

void *pool_take_zero(struct pool *p, size_t size)
{
    void *taken = pool_take(p, size);

    if (taken != NULL) memset(taken, 0, size);
    return taken;
}

static struct pool_block *block_of(void *ptr)
{
    return (struct pool_block *)(void *)((unsigned char *)ptr - sizeof(struct pool_block));
}

void pool_give(struct pool *p, void *ptr)
{
    if (ptr == NULL) return;

    struct pool_block *b = block_of(ptr);
    int class = class_of(b->size);
    if (class == POOL_CLASSES_N || p->waiting_size + b->size > p->waiting_size_max) {
        mem_give(p->mem, b, b->size);
        return;
    }
    assert(b->size == (size_t)CLASS_SIZE_MIN << class);
    poison(b->data, b->size - sizeof *b);
    b->next = p->waiting[class];
    p->waiting[class] = b;
    p->waiting_size += b->size;
}

void *pool_resize(struct pool *p, void *ptr, size_t size)
{
    if (ptr == NULL) return pool_take(p, size);

    size_t had = block_of(ptr)->size - sizeof(struct pool_block);
    if (size > 0 && size <= had) return ptr;
    void *taken = pool_take(p, size);
    if (taken == NULL) return NULL;
    memcpy(taken, ptr, had < size ? had : size);
    pool_give(p, ptr);
    return taken;
}
