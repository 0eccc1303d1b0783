/* SPDX-License-Identifier: Apache-2.0
 *
 * See memory.h.
 */
#include "lib/memory.h"

#include "base/assert.h"

#include <string.h>

_Atomic uint64_t memory_fail_at;

void memory_init(struct mem *m)
{
    mem_init(m, SIZE_MAX);
    m->fail_any_at = &memory_fail_at;
}

void *memory_new(size_t size, size_t own)
{
    struct mem mem;

    assert(own + sizeof mem <= size);
    memory_init(&mem);
    uint8_t *object = mem_take_zero(&mem, size);
    if (object != NULL) memcpy(object + own, &mem, sizeof mem);
    return object;
}

void memory_free(void *object, size_t size, size_t own)
{
    struct mem mem;

    memcpy(&mem, (uint8_t *)object + own, sizeof mem);
    mem_give(&mem, object, size);
    mem_release(&mem);
}
