/* SPDX-License-Identifier: Apache-2.0
 *
 * What there is to know of a stream, as the answer of an INFO request has it.
 */
#ifndef STREAM_INFO_H
#define STREAM_INFO_H

#include "stream/settings.h"

struct stream_info {
    struct bytes name;
    struct stream_settings settings;
    uint32_t groups_n;  /* without "queue" and "workflow"; 0 in the answer for all streams */
    uint64_t letters_n; /* dead letters of it; 0 in the answer for all streams */
    struct reader partitions;
    struct reader groups;
};

struct stream_partition_info {
    uint64_t first;
    uint64_t next;
    uint64_t size; /* bytes in segments and memory */
    bool has_queue;
    uint64_t queue_position; /* everything before it is done */
    uint64_t queue_locked_n;
    uint64_t queue_waiting_n; /* that could be received */
    uint64_t queue_dying_n;
};

struct stream_group_info {
    struct bytes name;
    struct reader positions; /* varints, one for each partition */
};

/* The next stream of the answer; false at the end. Bytes are borrowed from it. */
bool stream_info_next(struct reader *at, struct stream_info *out);
bool stream_info_next_partition(struct stream_info *info, struct stream_partition_info *out);
bool stream_info_next_group(struct stream_info *info, struct stream_group_info *out);

#endif
