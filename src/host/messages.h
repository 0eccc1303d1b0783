/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages between partitions, on the side of the receiver. A core takes the messages of another
 * one only in the order of their numbers; so when the target of one must first be loaded, those
 * after it wait behind it in the partition's line, while their own targets are loaded already. What
 * finds no room is dropped: the sender's core sends it again until it is acknowledged.
 */
#ifndef HOST_MESSAGES_H
#define HOST_MESSAGES_H

#include "base/list.h"
#include "core/core.h"

struct host;

#define PARCELS_N_MAX 100000u
#define PARCELS_SIZE_MAX ((size_t)64 << 20)

struct message {
    uint32_t from;
    uint64_t seq;
    enum message_kind kind;
    struct bytes target;
    struct bytes execution;
    struct bytes event;
};

struct messages {
    struct list *lines; /* of parcels, by index of the partition */
    uint32_t lines_n;
    uint32_t parcels_n;
    size_t parcels_size;
};

/* E_NOMEM. */
enum status messages_init(struct host *h);
void messages_release(struct host *h);
/* Stepped now, or kept (copied), or dropped. */
void messages_arrive(struct host *h, uint32_t index, const struct message *message);
/* Steps what has become possible. */
void messages_go_on(struct host *h);
/* The target cannot be read: its messages are dropped. */
void messages_drop(struct host *h, uint32_t index, struct bytes target);

#endif
