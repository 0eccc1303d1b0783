/* SPDX-License-Identifier: Apache-2.0
 *
 * See blocked.h.
 */
#define _GNU_SOURCE /* RUSAGE_THREAD */
#include "lib/blocked.h"

#include "base/clock.h"

#include <sys/resource.h>

#define LONG_NS (50 * NS_PER_MS)
#define CPU_PART 10 /* a tenth of the time at most: it did not compute */

void blocked_begin(struct blocked_probe *probe)
{
    struct rusage usage = {0};

    (void)getrusage(RUSAGE_THREAD, &usage);
    probe->cpu_ns = clock_thread_cpu_ns();
    probe->waits_n = usage.ru_nvcsw;
}

void blocked_end(struct blocked_probe *probe, const struct orchestration *o, int64_t began_ns)
{
    int64_t took_ns = clock_mono_ns() - began_ns;
    struct blocked_probe before = *probe;

    if (took_ns < LONG_NS) return;
    blocked_begin(probe);
    int64_t cpu_ns = probe->cpu_ns - before.cpu_ns;
    if (cpu_ns > took_ns / CPU_PART || probe->waits_n == before.waits_n) return;
    lines_write(
        o->env->lines,
        "orchestrator '%s' was blocked: a turn of instance %s took %lld ms, of which %lld on "
        "the CPU. If it waited for something that is not Norn's (a file, a lock, sleep), all "
        "others waited with it: let an activity do that",
        o->code->name, o->context.here.id, (long long)(took_ns / NS_PER_MS),
        (long long)(cpu_ns / NS_PER_MS));
}
