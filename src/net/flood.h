/* SPDX-License-Identifier: Apache-2.0
 *
 * What one peer may do how often, as token buckets. Each kind of cheap frame that makes us work has
 * one; an empty bucket ends the connection. No clock: time is given.
 *
 * Some tokens are earned: honest clients measure the bandwidth with a PING for about every DATA
 * frame they receive, so each frame of an answer that we send pays for one.
 */
#ifndef NET_FLOOD_H
#define NET_FLOOD_H

#include <stdbool.h>
#include <stdint.h>

/* kind, burst, tokens per second. The resets are set by the limits of the connection. */
#define FLOODS(X)                                                                                  \
    X(RESET, 1000, 100)     /* RST_STREAM received */                                              \
    X(PROVOKED, 1000, 100)  /* RST_STREAM sent by us, invalid frames received */                   \
    X(CONTROL, 1000, 100)   /* PING, SETTINGS, PRIORITY */                                         \
    X(EMPTY_DATA, 100, 100) /* DATA with nothing in it and no end */

enum flood_kind {
#define X(name, burst, per_s) FLOOD_##name,
    FLOODS(X)
#undef X
        FLOODS_N
};

struct bucket {
    uint32_t tokens;
    uint32_t burst;
    uint32_t per_s;
    int64_t filled_ns; /* up to here time has been turned into tokens */
};

struct flood {
    struct bucket buckets[FLOODS_N];
};

void flood_init(struct flood *f, uint32_t resets_burst, uint32_t resets_per_s, int64_t now_ns);
/* False when the bucket is empty: too many. */
bool flood_take(struct flood *f, enum flood_kind kind, int64_t now_ns);
void flood_earn(struct flood *f, enum flood_kind kind);

#endif
