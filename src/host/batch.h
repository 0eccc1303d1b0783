/* SPDX-License-Identifier: Apache-2.0
 *
 * What one frame makes durable, and what waits for it. The steps of a turn write their records into
 * the open batch; while its frame is on the way to the disk, another batch is the open one.
 *
 * Payload of a frame, it is on disk: sections, each the partition (varint), the length (4 bytes)
 * and records of that partition, in the order they were decided. An empty payload only carries the
 * epoch.
 */
#ifndef HOST_BATCH_H
#define HOST_BATCH_H

#include "core/core.h"
#include "host/env.h"

struct effect_list {
    struct effect *first;
    struct effect **last;
};

struct batch {
    uint64_t lsn; /* its frame will have, when it gets one */
    struct buffer payload;
    struct arena arena;          /* effects and answers, until they are released */
    size_t arena_kept;           /* its size when it was empty: the chunk that a reset keeps */
    struct output out;           /* of the present step; its effects are moved away after it */
    struct effect_list *effects; /* by index of the partition in its host */
    uint32_t partitions_n;
    size_t effects_n;
    struct list replies; /* requests with their answers */
    /* The open section; section_head == section_body when there is none. */
    uint32_t section_partition;
    size_t section_head;
    size_t section_body;
};

/* step_mem: of payload and arena, which the core fills and has reserved room for. own: the rest.
 * E_NOMEM. */
enum status batch_init(struct batch *b, struct mem *step_mem, struct mem *own,
                       uint32_t partitions_n);
/* Replies must have been taken out. */
void batch_release(struct batch *b, struct mem *own);
/* Empty again, for the frame with this number. */
void batch_reset(struct batch *b, uint64_t lsn);

bool batch_has_records(const struct batch *b);
/* Neither records nor anything to release. */
bool batch_is_empty(const struct batch *b);
/* It has so many bytes of records, or four times as many of effects and answers. */
bool batch_is_full(const struct batch *b, size_t bytes_max);
/* Bytes of memory it holds. */
size_t batch_memory(const struct batch *b);

/* The records that follow are of this partition. False without memory. */
bool batch_section(struct batch *b, uint32_t partition);
/* The payload is complete. */
void batch_seal(struct batch *b);
void batch_add_effect(struct batch *b, uint32_t index, struct effect *effect);

/* The next section of a payload. False at the end and on damage (r->failed). */
bool frame_next_section(struct reader *r, uint32_t *partition, struct bytes *records);

#endif
