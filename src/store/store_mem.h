/* SPDX-License-Identifier: Apache-2.0
 *
 * Journal and archive in memory: the reference that the conformance suite compares the others with,
 * and the store of tests and of the simulator's archive. The contents belong to a `struct
 * store_mem`, which outlives journal and archive, as a disk outlives the process that uses it.
 */
#ifndef STORE_STORE_MEM_H
#define STORE_STORE_MEM_H

#include "store/archive.h"
#include "store/journal.h"

enum status store_mem_new(struct mem *mem, struct store_mem **out);
void store_mem_free(struct store_mem *store);

#endif
