/* SPDX-License-Identifier: Apache-2.0
 *
 * A piece of work as the protocol's WorkItem. On the host's thread: there its bytes are at hand,
 * and only there.
 */
#ifndef SERVER_WORK_ITEM_H
#define SERVER_WORK_ITEM_H

#include "server/desk.h"

/* What every item of a stream is made with. Does not change. */
struct work_recipe {
    const uint64_t *mac_key; /* of completion tokens */
    size_t message_size_max;
    size_t history_size_max;
    bool can_stream;   /* the worker can ask for past events (StreamInstanceHistory) */
    struct desk *desk; /* where parcels are used again; NULL = nowhere */
};

/* A parcel with the message. One whose message would be too large has none, and says how large it
 * would be (size_full). message.failed: there was no memory for it. NULL: nor for the parcel. */
struct parcel *work_item_pack(const struct work_recipe *recipe, struct worker *worker,
                              const struct effect_work *work);

#endif
