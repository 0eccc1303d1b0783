/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether an orchestrator waited for something that is not Norn's: a file, a lock, sleep(). Its
 * turn took long by the clock on the wall and next to nothing by that of the CPU, and the thread
 * gave the CPU up by itself: one that was only displaced by others did not.
 */
#ifndef LIB_BLOCKED_H
#define LIB_BLOCKED_H

#include "lib/orchestration.h"

/* What a thread has used by now. */
struct blocked_probe {
    int64_t cpu_ns;
    long waits_n; /* how often it gave the CPU up */
};

/* On the thread itself; a system call. */
void blocked_begin(struct blocked_probe *probe);
/* After a turn of o that began at began_ns, by clock_mono_ns(). The probe was begun then or shortly
 * before. Writes a line when it blocked, and begins the probe again after every long turn. */
void blocked_end(struct blocked_probe *probe, const struct orchestration *o, int64_t began_ns);

#endif
