/* SPDX-License-Identifier: Apache-2.0
 *
 * What a turn of a waiting orchestrator costs in the library alone: taken from among the hot ones,
 * its stack copied back, the events applied, its stack copied out, put back. And what it costs to
 * make one again from a history of 10,000 events. On this thread, by its CPU clock, without an
 * engine.
 */
#ifndef CMD_BENCH_RESUME_H
#define CMD_BENCH_RESUME_H

#include <stdbool.h>

struct bench_resume {
    double resume_us;
    double replay_10k_ms; /* the best of a few: others use the caches too */
};

/* False without memory. */
bool bench_resume_measure(struct bench_resume *out);

#endif
