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
#include "lib/unknown.h"

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
    _Atomic bool is_halting;
    struct unknown unknown;
    bool is_stack_told;
    int64_t no_memory_ns; /* when that was last said; 0 = never */
    /* For the watchdog: what runs now and since when; NULL = nothing. */
    _Atomic(const struct orchestrator *) code_now;
    _Atomic int64_t began_ns;
    _Atomic uint64_t replays_n; /* turns that began with their past: for tests and figures */
    _Atomic uint64_t turns_n;
};

/* E_NOMEM, E_UNAVAILABLE (no more threads). */
enum status turns_start(struct turns *t, const struct registry *registry,
                        const struct journal_lines *lines, size_t stack_size, size_t hot_max);
/* Ends the thread: from now on nobody asks for the past of a turn. What is still pushed waits. */
void turns_halt(struct turns *t);
/* After that, and when nothing is pushed any more: gives back what waits. */
void turns_stop(struct turns *t);

/* Any thread. turns_wake() is to follow. */
void turns_push(struct turns *t, struct link_work *work);
void turns_wake(struct turns *t);

#endif
