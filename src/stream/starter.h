/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the messages of a bound stream go: something that starts one instance for each.
 */
#ifndef STREAM_STARTER_H
#define STREAM_STARTER_H

#include "base/list.h"
#include "base/bytes.h"
#include "base/status.h"

struct stream_starter;

/* Made by the streams; everything in it stays until it was given back. */
struct stream_start {
    struct list node; /* the starter's */
    struct stream_starter *starter;
    struct bytes hub;
    struct bytes workflow;
    struct bytes id;    /* the message's key */
    struct bytes input; /* its value, a JSON text */
    /* "<stream number>/<partition>"; the position is the offset + 1, and `after` that of the
     * message before it that went to the same part (see part_of) of the starter, 0 for none. */
    char source[32];
    uint64_t position;
    uint64_t after;
    /* ---- the answer ---- */
    enum status status;
    char text[160];
};

/* OK: it is started, durably, or was before. E_EXISTS: another instance has this id. E_INVALID,
 * E_LIMIT with is_final: it can never be started. E_STALE: one before it (`after`) is missing.
 * Anything else: not now. */
struct stream_starter {
    void *user;
    /* How many parts there are, each with its own order, and which one an instance falls to. */
    uint32_t parts_n;
    uint32_t (*part_of)(void *user, struct bytes hub, struct bytes id);
    /* Takes it; gives it back by stream_start_done(), from any thread. False: not now. */
    bool (*start)(void *user, struct stream_start *start);
};

/* From any thread, once for every start() that answered true. */
void stream_start_done(struct stream_start *start);

#endif
