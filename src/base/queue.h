/* SPDX-License-Identifier: Apache-2.0
 *
 * Bounded queue between threads: many may push, one takes. The only way threads exchange anything.
 */
#ifndef BASE_QUEUE_H
#define BASE_QUEUE_H

#include "base/list.h"

#include <pthread.h>
#include <stdint.h>

struct queue {
    pthread_mutex_t mutex;
    pthread_cond_t filled;
    struct list items;
    struct list hidden; /* not seen by the taker yet */
    size_t hidden_n;
    size_t n; /* of both */
    size_t n_max;
    bool is_closed;
    bool is_woken;
};

void queue_init(struct queue *q, size_t n_max);
/* Must be empty. */
void queue_release(struct queue *q);
/* False when full or closed: the node stays the caller's. */
bool queue_push(struct queue *q, struct list *node);
/* The same without waking the taker: for who pushes many, and then calls queue_wake() once. */
bool queue_push_quietly(struct queue *q, struct list *node);
/* The same, and the taker does not get it before queue_show(): so that all that belongs together is
 * taken together. */
bool queue_push_hidden(struct queue *q, struct list *node);
/* What was pushed hidden, by whomever, stands behind the rest from now on. Wakes nobody. */
void queue_show(struct queue *q);
/* Moves everything to the end of `to` (a list head). Waits until there is something, the queue
 * is closed or woken, or timeout_ns (< 0: for ever, 0: not at all) is over. Answers how many
 * were moved. */
size_t queue_take_all(struct queue *q, struct list *to, int64_t timeout_ns);
/* Makes a waiting taker return; without one, the next take does not wait. */
void queue_wake(struct queue *q);
/* No push succeeds any more; a waiting taker returns. Nothing is hidden from now on. */
void queue_close(struct queue *q);
bool queue_is_closed(struct queue *q);

#endif
