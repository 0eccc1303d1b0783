/* SPDX-License-Identifier: Apache-2.0
 *
 * What this process costs, as the system counts it.
 */
#ifndef SERVER_PROCESS_H
#define SERVER_PROCESS_H

#include <stdint.h>

struct process_stats {
    uint64_t resident_bytes;
    uint64_t cpu_ns;
    uint64_t fds_n;
    uint64_t fds_n_max;
    int64_t started_s; /* since 1970 */
};

/* At the start of the process: remembers when that was. */
void process_start(void);
/* What cannot be found out is 0. */
void process_stats(struct process_stats *out);

#endif
