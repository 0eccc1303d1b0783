/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files behind partition.h share.
 */
#ifndef TEST_LIB_PARTITION_PARTS_H
#define TEST_LIB_PARTITION_PARTS_H

#include "test/lib/partition.h"

/* NULL without limits. */
struct backlog *kit_backlog_make(struct kit *k, struct mem *mem);
struct core *kit_core_make(struct kit *k, uint32_t partition, struct mem *mem,
                           struct backlog *backlog);
/* A copy that lives as long as the kit. */
struct bytes kit_keep(struct kit *k, struct bytes value);
void *kit_keep_object(struct kit *k, size_t size);
/* All records there were, as recovery does it; only_waiting: only what they say of starts that
 * wait, from this frame on. */
void kit_apply_journal(struct core *c, const struct kit_partition *part, bool only_waiting,
                       uint64_t from_lsn);
/* The step that was just made keeps the promises. */
void kit_check_step(struct kit *k, uint32_t p, uint32_t records_n);

#endif
