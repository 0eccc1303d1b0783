/* SPDX-License-Identifier: Apache-2.0
 *
 * A mutex, a condition and a list. The taker gets everything at once, so that the mutex is taken
 * once per turn of the taker's loop and not once per item.
 */
#include "base/queue.h"

#include "base/clock.h"

#include <errno.h>
#include <time.h>

static void lock(struct queue *q)
{
    int failed = pthread_mutex_lock(&q->mutex);
    assert(failed == 0);
}

static void unlock(struct queue *q)
{
    int failed = pthread_mutex_unlock(&q->mutex);
    assert(failed == 0);
}

/* With one taker, one signal is enough. */
static void signal_taker(struct queue *q)
{
    int failed = pthread_cond_signal(&q->filled);
    assert(failed == 0);
}

void queue_init(struct queue *q, size_t n_max)
{
    pthread_condattr_t attributes;

    assert(n_max > 0);
    list_init(&q->items);
    list_init(&q->hidden);
    q->hidden_n = 0;
    q->n = 0;
    q->n_max = n_max;
    q->is_closed = false;
    q->is_woken = false;

    int failed = pthread_mutex_init(&q->mutex, NULL);
    assert(failed == 0);
    failed = pthread_condattr_init(&attributes);
    assert(failed == 0);
    /* The wall clock may be set while we wait. */
    failed = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    assert(failed == 0);
    failed = pthread_cond_init(&q->filled, &attributes);
    assert(failed == 0);
    failed = pthread_condattr_destroy(&attributes);
    assert(failed == 0);
}

void queue_release(struct queue *q)
{
    assert(q->n == 0);
    assert(list_is_empty(&q->items));
    assert(list_is_empty(&q->hidden));
    int failed = pthread_cond_destroy(&q->filled);
    assert(failed == 0);
    failed = pthread_mutex_destroy(&q->mutex);
    assert(failed == 0);
}

enum push_kind { PUSH_LOUD, PUSH_QUIET, PUSH_HIDDEN };

static bool push(struct queue *q, struct list *node, enum push_kind kind)
{
    lock(q);
    bool is_taken = !q->is_closed && q->n < q->n_max;
    if (is_taken) {
        list_push_back(kind == PUSH_HIDDEN ? &q->hidden : &q->items, node);
        q->n++;
        if (kind == PUSH_HIDDEN) q->hidden_n++;
        if (kind == PUSH_LOUD) signal_taker(q);
    }
    unlock(q);
    return is_taken;
}

bool queue_push(struct queue *q, struct list *node) { return push(q, node, PUSH_LOUD); }
bool queue_push_quietly(struct queue *q, struct list *node) { return push(q, node, PUSH_QUIET); }
bool queue_push_hidden(struct queue *q, struct list *node) { return push(q, node, PUSH_HIDDEN); }

/* Under the mutex. */
static void show(struct queue *q)
{
    list_splice_back(&q->items, &q->hidden);
    q->hidden_n = 0;
}

void queue_show(struct queue *q)
{
    lock(q);
    show(q);
    unlock(q);
}

static struct timespec deadline_after(int64_t timeout_ns)
{
    int64_t now_ns = clock_mono_ns();
    int64_t at_ns = timeout_ns > INT64_MAX - now_ns ? INT64_MAX : now_ns + timeout_ns;

    return (struct timespec){.tv_sec = at_ns / NS_PER_S, .tv_nsec = at_ns % NS_PER_S};
}

/* Under the mutex. */
static void wait_for_something(struct queue *q, int64_t timeout_ns)
{
    struct timespec deadline = {0};
    int failed = 0;

    if (timeout_ns == 0) return;
    if (timeout_ns > 0) deadline = deadline_after(timeout_ns);

    while (q->n == q->hidden_n && !q->is_closed && !q->is_woken && failed != ETIMEDOUT) {
        failed = timeout_ns < 0 ? pthread_cond_wait(&q->filled, &q->mutex)
                                : pthread_cond_timedwait(&q->filled, &q->mutex, &deadline);
        assert(failed == 0 || failed == ETIMEDOUT);
    }
}

size_t queue_take_all(struct queue *q, struct list *to, int64_t timeout_ns)
{
    lock(q);
    wait_for_something(q, timeout_ns);
    size_t n = q->n - q->hidden_n;
    list_splice_back(to, &q->items);
    q->n = q->hidden_n;
    q->is_woken = false;
    unlock(q);
    return n;
}

void queue_wake(struct queue *q)
{
    lock(q);
    q->is_woken = true;
    signal_taker(q);
    unlock(q);
}

void queue_close(struct queue *q)
{
    lock(q);
    q->is_closed = true;
    show(q);
    signal_taker(q);
    unlock(q);
}

bool queue_is_closed(struct queue *q)
{
    lock(q);
    bool is_closed = q->is_closed;
    unlock(q);
    return is_closed;
}
