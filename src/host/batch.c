/* SPDX-License-Identifier: Apache-2.0
 *
 * The length of a section is filled in when the next one begins: so records are written once, where
 * they stay, and steps of the same partition in a row share a section.
 */
#include "host/batch.h"

#include "base/assert.h"
#include "base/mem.h"

#define SECTION_HEAD_SIZE_MAX 14 /* varint and length */
#define ARENA_CHUNK_SIZE ((size_t)64 << 10)
#define KEPT_SIZE_MAX ((size_t)4 << 20) /* of records, and of effects; a large payload's goes */

enum status batch_init(struct batch *b, struct mem *step_mem, struct mem *own,
                       uint32_t partitions_n)
{
    *b = (struct batch){.partitions_n = partitions_n};
    buffer_init(&b->payload, step_mem);
    arena_init(&b->arena, step_mem, ARENA_CHUNK_SIZE);
    list_init(&b->replies);
    b->effects = mem_take_zero(own, partitions_n * sizeof *b->effects);
    if (b->effects == NULL) return E_NOMEM;
    batch_reset(b, 0);
    return OK;
}

void batch_release(struct batch *b, struct mem *own)
{
    if (b->partitions_n == 0) return; /* never initialised */
    assert(list_is_empty(&b->replies));
    buffer_release(&b->payload);
    arena_release(&b->arena);
    mem_give(own, b->effects, b->partitions_n * sizeof *b->effects);
    b->partitions_n = 0;
}

void batch_reset(struct batch *b, uint64_t lsn)
{
    assert(list_is_empty(&b->replies));
    b->lsn = lsn;
    buffer_clear(&b->payload);
    if (b->payload.size > KEPT_SIZE_MAX) buffer_release(&b->payload);
    arena_reset(&b->arena);
    if (b->arena.size > KEPT_SIZE_MAX) arena_release(&b->arena);
    b->arena_kept = b->arena.size;
    output_init(&b->out, &b->payload, &b->arena);
    for (uint32_t i = 0; i < b->partitions_n; i++) {
        b->effects[i].first = NULL;
        b->effects[i].last = &b->effects[i].first;
    }
    b->effects_n = 0;
    b->section_head = 0;
    b->section_body = 0;
}

bool batch_has_records(const struct batch *b) { return b->out.records_n > 0; }

bool batch_is_empty(const struct batch *b)
{
    return !batch_has_records(b) && b->effects_n == 0 && list_is_empty(&b->replies);
}

bool batch_is_full(const struct batch *b, size_t bytes_max)
{
    return b->payload.len >= bytes_max || (b->arena.size - b->arena_kept) / 4 >= bytes_max;
}

size_t batch_memory(const struct batch *b) { return b->arena.size + b->payload.size; }

static void close_section(struct batch *b)
{
    if (b->section_body == b->section_head) return;
    size_t len = b->payload.len - b->section_body;
    assert(len <= UINT32_MAX);
    if (len == 0) {
        b->payload.len = b->section_head; /* its steps changed nothing */
    } else {
        store_u32(b->payload.ptr + b->section_body - sizeof(uint32_t), (uint32_t)len);
    }
    b->section_head = b->section_body = 0;
}

bool batch_section(struct batch *b, uint32_t partition)
{
    if (b->section_body != b->section_head && b->section_partition == partition) return true;
    close_section(b);
    if (!buffer_reserve(&b->payload, SECTION_HEAD_SIZE_MAX)) {
        b->payload.failed = false; /* nothing was written */
        return false;
    }
    b->section_partition = partition;
    b->section_head = b->payload.len;
    buffer_varint(&b->payload, partition);
    buffer_u32(&b->payload, 0);
    b->section_body = b->payload.len;
    return true;
}

void batch_seal(struct batch *b)
{
    close_section(b);
    assert(!b->payload.failed);
    assert(batch_has_records(b) == (b->payload.len > 0));
}

void batch_add_effect(struct batch *b, uint32_t index, struct effect *effect)
{
    assert(index < b->partitions_n);
    struct effect_list *list = &b->effects[index];

    effect->next = NULL;
    *list->last = effect;
    list->last = &effect->next;
    b->effects_n++;
}

bool frame_next_section(struct reader *r, uint32_t *partition, struct bytes *records)
{
    if (reader_left(r) == 0) return false;
    uint64_t number = reader_varint(r);
    uint32_t len = reader_u32(r);
    *records = reader_take(r, len);
    if (number > UINT32_MAX || len == 0) r->failed = true;
    *partition = (uint32_t)number;
    return !r->failed;
}
