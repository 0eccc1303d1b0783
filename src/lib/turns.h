/* SPDX-License-Identifier: Apache-2.0
 *
 * The thread on which orchestrators run. It takes all turns that have come, runs one after the
 * other, and lets their answers go out together.
 */
#ifndef LIB_TURNS_H
#define LIB_TURNS_H

#include "base/queue.h"
#include "lib/hot.h"
#include "lib/registry.h"

struct turns {
    const struct registry *registry;
    struct journal_lines lines;
    struct mem mem; /* of its thread */
    struct coroutine_stack *stack;
    struct orchestration_env env;
    struct hot hot;
    struct queue queue; /* of link_work */
    pthread_t thread;
    bool is_running;
    /* For the watchdog: what runs now and since when; NULL = nothing. */
    _Atomic(const struct orchestrator *) code_now;
    _Atomic int64_t began_ns;
    _Atomic uint64_t replays_n; /* turns that began with their past: for tests and figures */
    _Atomic uint64_t turns_n;
};

/* E_NOMEM, E_UNAVAILABLE (no more threads). */
enum status turns_start(struct turns *t, const struct registry *registry,
                        const struct journal_lines *lines, size_t stack_size, size_t hot_max);
/* Gives back what has not begun, and ends the thread. Nothing is pushed any more. */
void turns_stop(struct turns *t);

/* Any thread. turns_wake() is to follow. */
void turns_push(struct turns *t, struct link_work *work);
void turns_wake(struct turns *t);

#endif
