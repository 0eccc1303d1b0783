/* SPDX-License-Identifier: Apache-2.0
 *
 * Competing consumers of one partition: what is known of each message between the first one that
 * is not done and the newest one delivered.
 *
 *   new ──DELIVERED──> locked ──DONE──> done (forgotten once all before it are done)
 *                      │  ▲ RENEWED: locked longer
 *             RELEASED │  │ DELIVERED
 *                      ▼  │
 *                   available          (abandoned, or the lock ran out)
 *                      locked ──DYING──> dying ──DONE──> done: a dead letter now
 *
 * Locks survive a restart: an entry keeps its time, and a late answer is judged by it as before.
 */
#ifndef STREAM_QUEUE_H
#define STREAM_QUEUE_H

#include "base/bytes.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/status.h"

struct mem;
struct stream_partition;

enum stream_entry_state {
    STREAM_ENTRY_AVAILABLE,
    STREAM_ENTRY_LOCKED,
    STREAM_ENTRY_DYING,
    STREAM_ENTRY_DONE,
};

struct stream_entry {
    int64_t until_ns; /* LOCKED */
    uint32_t deliveries;
    enum stream_entry_state state;
};

struct stream_queue {
    struct stream_partition *partition;
    struct mem *mem;
    uint64_t base; /* everything before it is done */
    uint64_t high; /* everything from it on was never delivered */
    struct stream_entry *ring;
    uint32_t ring_n;         /* power of two, at least high - base; 0 at first */
    uint32_t counts[4];      /* by state */
    uint64_t available_from; /* no available one is before it */
    struct heap_node expiry; /* linked while there are locked ones: key = the first may run out */
    struct list dying;       /* linked while there are dying ones */
};

enum status stream_queue_new(struct mem *mem, struct stream_partition *partition, uint64_t base,
                             struct stream_queue **out);
void stream_queue_free(struct stream_queue *q);
/* NULL: before base, or never delivered. */
struct stream_entry *stream_queue_entry(const struct stream_queue *q, uint64_t offset);
/* The lowest one of this state; false: none. */
bool stream_queue_lowest(struct stream_queue *q, enum stream_entry_state state, uint64_t *out);
/* Room for one more. E_LIMIT: the window is full. E_NOMEM. */
enum status stream_queue_make_room(struct stream_queue *q);
/* An entry for the message at high, which becomes available; there is room. */
void stream_queue_push(struct stream_queue *q);
/* The one setter of an entry's state. Moves base over what is done. */
void stream_queue_set(struct stream_queue *q, uint64_t offset, enum stream_entry_state state);
/* When the first lock runs out; INT64_MAX without locks. */
int64_t stream_queue_first_expiry(const struct stream_queue *q);

#endif
