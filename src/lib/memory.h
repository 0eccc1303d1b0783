/* SPDX-License-Identifier: Apache-2.0
 *
 * The library's memory. A mem belongs to one thread, and here much changes threads: so an object
 * that does carries its own mem, which goes with it. Without memory every function of the library
 * answers a status; a test fails the nth take of all these mems together to see it.
 */
#ifndef LIB_MEMORY_H
#define LIB_MEMORY_H

#include "base/mem.h"

/* Without limit of its own: what there can be of it is bounded by credits and hot_max. */
void memory_init(struct mem *m);

/* Test hook, 0 = off: counts down over all mems of the library; at 1 that take fails. */
extern _Atomic uint64_t memory_fail_at;

/* An object in a mem of its own, zeroed; NULL without memory. own: where in the object its mem
 * is. */
void *memory_new(size_t size, size_t own);
void memory_free(void *object, size_t size, size_t own);

#endif
