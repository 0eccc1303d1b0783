/* SPDX-License-Identifier: Apache-2.0
 *
 * See bench_ingest.h: which request is to be sent when. Computed from the number of the request, so
 * that those which the server makes wait need no memory and keep their time.
 */
#include "cmd/bench_ingest.h"

#include "base/assert.h"
#include "base/clock.h"

static uint64_t phase_count(const struct ingest_phase *phase)
{
    return (uint64_t)((double)phase->rate * ((double)phase->length_ns / (double)NS_PER_S));
}

uint64_t ingest_plan_count(const struct ingest_plan *plan)
{
    uint64_t n = 0;
    for (unsigned i = 0; i < plan->phases_n; i++) n += phase_count(&plan->phases[i]);
    return n;
}

int64_t ingest_plan_phase_start_ns(const struct ingest_plan *plan, unsigned phase)
{
    int64_t start_ns = 0;
    for (unsigned i = 0; i < phase; i++) start_ns += plan->phases[i].length_ns;
    return start_ns;
}

int64_t ingest_plan_length_ns(const struct ingest_plan *plan)
{
    return ingest_plan_phase_start_ns(plan, plan->phases_n);
}

int64_t ingest_plan_due_ns(const struct ingest_plan *plan, uint64_t index)
{
    int64_t start_ns = 0;
    for (unsigned i = 0; i < plan->phases_n; i++) {
        const struct ingest_phase *phase = &plan->phases[i];
        uint64_t n = phase_count(phase);
        if (index < n)
            return start_ns + (int64_t)((double)index * (double)NS_PER_S / (double)phase->rate);
        index -= n;
        start_ns += phase->length_ns;
    }
    assert(index == 0); /* one beyond the last: the end */
    return start_ns;
}

unsigned ingest_plan_phase(const struct ingest_plan *plan, int64_t offset_ns)
{
    assert(plan->phases_n > 0);
    unsigned phase = 0;
    while (phase + 1 < plan->phases_n && offset_ns >= ingest_plan_phase_start_ns(plan, phase + 1))
        phase++;
    return phase;
}
