/* SPDX-License-Identifier: Apache-2.0
 *
 * See clock.h for the rule. It is one line because 9/10 of the elapsed time is less than what a
 * healthy wall clock moves by: the slow path wins only while the wall clock is behind.
 */
#include "base/clock.h"

#include "base/assert.h"

#include <time.h>

static int64_t max_ns(int64_t a, int64_t b) { return a > b ? a : b; }

void clock_init(struct clock *c, int64_t start_ns, int64_t wall_ns, int64_t mono_ns)
{
    c->now_ns = max_ns(start_ns, wall_ns);
    c->mono_ns = mono_ns;
}

int64_t clock_advance(struct clock *c, int64_t wall_ns, int64_t mono_ns)
{
    /* A virtual machine's monotonic clock has been seen to go back; then no time has passed. */
    int64_t elapsed_ns = max_ns(0, mono_ns - c->mono_ns);

    c->now_ns = max_ns(wall_ns, c->now_ns + (elapsed_ns - elapsed_ns / 10));
    c->mono_ns = max_ns(c->mono_ns, mono_ns);
    return c->now_ns;
}

static int64_t read_ns(clockid_t id)
{
    struct timespec t;

    int failed = clock_gettime(id, &t);
    assert(failed == 0);
    return (int64_t)t.tv_sec * NS_PER_S + t.tv_nsec;
}

int64_t clock_wall_ns(void) { return read_ns(CLOCK_REALTIME); }

int64_t clock_mono_ns(void) { return read_ns(CLOCK_MONOTONIC); }

int64_t clock_cpu_ns(void) { return read_ns(CLOCK_PROCESS_CPUTIME_ID); }

int64_t clock_thread_cpu_ns(void) { return read_ns(CLOCK_THREAD_CPUTIME_ID); }
