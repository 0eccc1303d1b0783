/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory for a library that frees without telling the size (nghttp2): each block carries its size
 * in front, and small blocks wait in free lists by size class, because a request takes and gives
 * back some twenty of them. What waits is bounded and counted as used. One thread.
 */
#ifndef NET_POOL_H
#define NET_POOL_H

#include "base/list.h"

struct mem;
struct pool_block;

#define POOL_CLASSES_N 7 /* 64, 128, ... 4096 bytes, with the size in front */

struct pool {
    struct mem *mem; /* outlives the pool */
    struct pool_block *waiting[POOL_CLASSES_N];
    size_t waiting_size;
    size_t waiting_size_max;
    struct list kept; /* see pool_keep() */
    size_t kept_n;
    void (*kept_free)(struct list *node);
};

void pool_init(struct pool *p, struct mem *mem, size_t waiting_size_max);
/* Every block must have been given back. */
void pool_release(struct pool *p);
/* NULL without memory. */
void *pool_take(struct pool *p, size_t size);
void *pool_take_zero(struct pool *p, size_t size);
/* ptr may be NULL. */
void pool_give(struct pool *p, void *ptr);
/* Like realloc. */
void *pool_resize(struct pool *p, void *ptr, size_t size);

/* Objects that are put away with the memory they own, for who needs the next one: all of one kind,
 * told by their node. They are not the pool's blocks; `free` is for those that are left when the
 * pool is released. False: there are POOL_KEPT_N_MAX already, the object stays the caller's. */
#define POOL_KEPT_N_MAX 256
bool pool_keep(struct pool *p, struct list *node, void (*free)(struct list *node));
/* NULL: there is none. */
struct list *pool_take_kept(struct pool *p);

#endif
