/* SPDX-License-Identifier: Apache-2.0
 *
 * The limits of streams and queues. What is answered at each stands beside it.
 */
#ifndef STREAM_LIMITS_H
#define STREAM_LIMITS_H

#include <stddef.h>
#include <stdint.h>

#define STREAM_NAME_SIZE_MAX 100u               /* E_INVALID */
#define STREAM_WORKFLOW_SIZE_MAX 200u           /* E_INVALID */
#define STREAM_KEY_SIZE_MAX 256u                /* E_INVALID */
#define STREAM_VALUE_SIZE_MAX ((size_t)1 << 20) /* E_LIMIT */
#define STREAM_REASON_SIZE_MAX 500u             /* longer ones are cut */

#define STREAMS_N_MAX 1000u                       /* E_LIMIT */
#define STREAM_PARTITIONS_N_MAX 1024u             /* of one stream; E_INVALID */
#define STREAM_ALL_PARTITIONS_N_MAX 16384u        /* of all streams; E_LIMIT */
#define STREAM_GROUPS_N_MAX 100u                  /* of one stream; E_LIMIT */
#define STREAM_APPEND_N_MAX 10000u                /* messages of one append; E_INVALID */
#define STREAM_APPEND_SIZE_MAX ((size_t)32 << 20) /* bytes of one append; E_LIMIT */
#define STREAM_READ_N_MAX 1000u                   /* messages of one read; clamped */
#define STREAM_READ_SIZE_MAX ((size_t)4 << 20) /* a read stops there, with one message at least */

/* Messages between the first one that is not done and the newest one delivered, for each
 * partition of a queue: beyond it, nothing new is received until some are done. */
#define STREAM_QUEUE_WINDOW 65536u
/* Then a message that should go there stays where it is, and its consumer stops. */
#define STREAM_LETTERS_N_MAX 1000000u
#define STREAM_DELIVERIES_MAX 1000u
#define STREAM_LOCK_MS_MAX (INT64_C(24) * 3600 * 1000)
#define STREAM_WAIT_MS_MAX INT64_C(60000)

#endif
