/* SPDX-License-Identifier: Apache-2.0
 *
 * See hold.h.
 */
#define _GNU_SOURCE /* pthread_cond_clockwait */
#include "host/hold.h"

#include "base/assert.h"

#include <errno.h>
#include <time.h>

/* A round of the archive may be under way, or segments being rewritten. */
#define READY_NS (60 * NS_PER_S)
/* One frame; longer only while the disk is full. */
#define STILL_NS (10 * NS_PER_S)

void hold_init(struct hold *h, void (*wake)(void *user), void *wake_user)
{
    *h = (struct hold){.wake = wake, .wake_user = wake_user};
    pthread_mutex_init(&h->mutex, NULL);
    pthread_cond_init(&h->changed, NULL);
}

void hold_release(struct hold *h)
{
    pthread_cond_destroy(&h->changed);
    pthread_mutex_destroy(&h->mutex);
}

/* False: it was not in this phase. */
static bool change(struct hold *h, enum hold_phase from, enum hold_phase to, uint64_t lsn)
{
    pthread_mutex_lock(&h->mutex);
    bool is_changed = hold_phase(h) == from;
    if (is_changed) {
        if (to == HOLD_STILL) h->lsn = lsn;
        if (to == HOLD_ASKED) h->until_ns = 0;
        atomic_store_explicit(&h->phase, (int)to, memory_order_release);
        pthread_cond_broadcast(&h->changed);
    }
    pthread_mutex_unlock(&h->mutex);
    return is_changed;
}

static enum hold_phase drop(struct hold *h)
{
    pthread_mutex_lock(&h->mutex);
    enum hold_phase phase = hold_phase(h);
    atomic_store_explicit(&h->phase, (int)HOLD_NONE, memory_order_release);
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->mutex);
    return phase;
}

/* ---- what is held ---- */

void hold_ready(struct hold *h) { (void)change(h, HOLD_ASKED, HOLD_READY, 0); }
void hold_still(struct hold *h, uint64_t lsn) { (void)change(h, HOLD_PAUSING, HOLD_STILL, lsn); }

void hold_watch(struct hold *h, bool is_stopping, int64_t mono_ns)
{
    if (hold_phase(h) == HOLD_NONE) return;
    pthread_mutex_lock(&h->mutex);
    if (h->until_ns == 0) h->until_ns = mono_ns + HOLD_TIME_NS;
    bool is_over = is_stopping || mono_ns > h->until_ns;
    pthread_mutex_unlock(&h->mutex);
    if (is_over) (void)drop(h);
}

/* ---- the owner ---- */

static void wake(struct hold *h)
{
    if (h->wake != NULL) h->wake(h->wake_user);
}

static enum status wait_for(struct hold *h, enum hold_phase phase, int64_t until_ns)
{
    struct timespec until = {.tv_sec = until_ns / NS_PER_S, .tv_nsec = until_ns % NS_PER_S};
    int failed = 0;

    pthread_mutex_lock(&h->mutex);
    while (hold_phase(h) != phase && hold_phase(h) != HOLD_NONE && failed == 0) {
        failed = pthread_cond_clockwait(&h->changed, &h->mutex, CLOCK_MONOTONIC, &until);
    }
    enum hold_phase now = hold_phase(h);
    pthread_mutex_unlock(&h->mutex);
    if (now == phase) return OK;
    return now == HOLD_NONE ? E_CLOSED : E_TIMEOUT;
}

static enum status wait_for_all(struct hold *const *holds, size_t n, enum hold_phase phase,
                                int64_t time_ns)
{
    int64_t until_ns = clock_mono_ns() + time_ns;

    for (size_t i = 0; i < n; i++) {
        enum status status = wait_for(holds[i], phase, until_ns);
        if (status != OK) return status;
    }
    return OK;
}

enum status hold_all(struct hold *const *holds, size_t n)
{
    enum status status = OK;
    size_t asked_n = 0;

    for (; asked_n < n && status == OK; asked_n++) {
        if (!change(holds[asked_n], HOLD_NONE, HOLD_ASKED, 0)) {
            status = E_BUSY;
            break;
        }
        wake(holds[asked_n]);
    }
    if (status == OK) status = wait_for_all(holds, n, HOLD_READY, READY_NS);
    for (size_t i = 0; i < n && status == OK; i++) {
        (void)change(holds[i], HOLD_READY, HOLD_PAUSING, 0);
        wake(holds[i]);
    }
    if (status == OK) status = wait_for_all(holds, n, HOLD_STILL, STILL_NS);
    for (size_t i = 0; i < asked_n && status != OK; i++) (void)hold_end(holds[i]);
    return status;
}

void hold_go_on(struct hold *const *holds, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        (void)change(holds[i], HOLD_STILL, HOLD_HELD, 0);
        wake(holds[i]);
    }
}

bool hold_end(struct hold *h)
{
    enum hold_phase phase = drop(h);

    wake(h);
    return phase == HOLD_HELD;
}
