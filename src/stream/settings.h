/* SPDX-License-Identifier: Apache-2.0
 *
 * What a stream can be told.
 */
#ifndef STREAM_SETTINGS_H
#define STREAM_SETTINGS_H

#include "base/bytes.h"
#include "base/status.h"
#include "stream/limits.h"

struct stream_settings {
    uint32_t partitions_n;   /* can only grow */
    int64_t retention_ms;    /* 0 = kept for ever */
    uint64_t retention_size; /* bytes of a partition; 0 = any */
    uint32_t deliveries_max; /* of a queue's message, then it is a dead letter */
    int64_t lock_ms;         /* of a queue's message, when a receive says none */
    char workflow[STREAM_WORKFLOW_SIZE_MAX + 1]; /* bound to it; "" = not */
    char hub[STREAM_NAME_SIZE_MAX + 1];          /* of the instances it starts */
};

/* Which of them a request gives. */
enum stream_setting {
    STREAM_SET_PARTITIONS = 1,
    STREAM_SET_RETENTION = 2,
    STREAM_SET_RETENTION_SIZE = 4,
    STREAM_SET_DELIVERIES = 8,
    STREAM_SET_LOCK = 16,
    STREAM_SET_WORKFLOW = 32,
    STREAM_SET_HUB = 64,
};

/* One partition, kept for ever, 10 deliveries, locks of 30 s, not bound, hub "default". */
void stream_settings_init(struct stream_settings *settings);
/* Takes those in `mask` over from `wish`. E_INVALID, with words (at most 160 bytes): nothing was
 * changed. */
enum status stream_settings_change(struct stream_settings *settings,
                                   const struct stream_settings *wish, uint32_t mask, char *text);
void stream_settings_write(struct buffer *to, const struct stream_settings *settings);
/* False: these bytes are no settings. */
bool stream_settings_read(struct reader *from, struct stream_settings *out);

/* Letters, digits, '.', '_' and '-', 1 to STREAM_NAME_SIZE_MAX of them, the first a letter or
 * digit. */
bool stream_name_is_valid(struct bytes name);

#endif
