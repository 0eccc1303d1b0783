/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine's clock: never goes back, follows the wall clock, and converges to it after it was set
 * back. Pure: the two readings are given by the caller, so that tests and the simulator own time.
 *
 * While the wall clock is behind what was already told, time goes on at 9/10 of the monotonic speed
 * until the wall clock has caught up: timers go on, and nothing fires before its time by this
 * clock.
 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S INT64_C(1000000000)

struct clock {
    int64_t now_ns;  /* last time told, since 1970 */
    int64_t mono_ns; /* monotonic reading that belongs to it */
};

/* start_ns: the latest time known from durable data, or 0. */
void clock_init(struct clock *c, int64_t start_ns, int64_t wall_ns, int64_t mono_ns);
/* Both readings taken now. Answers a time >= every earlier answer. */
int64_t clock_advance(struct clock *c, int64_t wall_ns, int64_t mono_ns);

/* The system's clocks. Not for core/. */
int64_t clock_wall_ns(void);
int64_t clock_mono_ns(void);
/* CPU time of the whole process. */
int64_t clock_cpu_ns(void);
/* CPU time of this thread. */
int64_t clock_thread_cpu_ns(void);

#endif
