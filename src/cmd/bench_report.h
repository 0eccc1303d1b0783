/* SPDX-License-Identifier: Apache-2.0
 *
 * What a benchmark found, as one flat object: JSON for programs, lines for people.
 */
#ifndef CMD_BENCH_REPORT_H
#define CMD_BENCH_REPORT_H

#include "base/histogram.h"
#include "wire/json.h"

struct bench_report {
    struct buffer text;
    struct json json;
};

/* Begins with its name: "benchmark": "engine". */
void bench_report_begin(struct bench_report *r, const char *name);
/* Prints and releases it. */
void bench_report_end(struct bench_report *r, bool as_json);

void put_count(struct json *j, const char *key, uint64_t value);
void put_number(struct json *j, const char *key, double value);
/* "reached" or "missed": a goal that the benchmark has. */
void put_target(struct json *j, const char *key, bool is_reached);
/* The disk itself, as bench_probe_fsync() found it. */
void put_fsync(struct json *j, const struct histogram *fsync_us);

/* Of a histogram of microseconds. */
double ms_at(const struct histogram *us, uint32_t per_mille);

#endif
