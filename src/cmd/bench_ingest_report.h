/* SPDX-License-Identifier: Apache-2.0
 *
 * What one run of `norn bench ingest` gave, and its report.
 */
#ifndef CMD_BENCH_INGEST_REPORT_H
#define CMD_BENCH_INGEST_REPORT_H

#include "cmd/bench_ingest.h"

struct ingest_run {
    struct ingest_load load;
    struct ingest_check check;
    bool is_checked;
    bool is_ours; /* the server's process is a child: there are figures of it */
    uint32_t workers_n;
    uint64_t service_ms;
    struct histogram fsync_us;
    int64_t elapsed_ns; /* of the load, until the last answer */
    int64_t server_cpu_ns;
    int64_t crowd_cpu_ns;
    uint64_t crowd_errors;
    uint64_t completed_in_time; /* until the last answer */
    uint64_t completed;
    int64_t drained_ns;    /* after the start: everything acknowledged was completed; 0 = never */
    int64_t backlog_max;   /* -1 = the server does not tell */
    int64_t oldest_age_ms; /* the same */
    uint64_t rss_max;
};

/* To stdout. yardstick may be NULL. */
void ingest_report(const struct ingest_run *run, const struct ingest_run *yardstick, bool as_json);

#endif
