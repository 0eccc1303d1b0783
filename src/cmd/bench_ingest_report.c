/* SPDX-License-Identifier: Apache-2.0
 *
 * See bench_ingest_report.h. The names of the fields are explained in docs/benchmarks.md.
 */
#include "cmd/bench_ingest_report.h"

#include "base/clock.h"
#include "cmd/bench.h"
#include "cmd/bench_report.h"

#include <stdio.h>

/* null for what is not known. */
static void put_known(struct json *j, const char *key, bool is_known, uint64_t value)
{
    json_key(j, key);
    if (is_known)
        json_uint64(j, value);
    else
        json_null(j);
}

static double seconds(int64_t ns) { return (double)ns / (double)NS_PER_S; }

static double acked_per_s(const struct ingest_run *run, unsigned phase)
{
    const struct ingest_load *load = &run->load;
    return (double)load->figures[phase].acked_in_time /
           seconds(load->settings.plan.phases[phase].length_ns);
}

/* ---- parts ---- */

static void put_phase(struct json *j, const struct ingest_run *run, unsigned phase,
                      const char *prefix)
{
    char key[64];
    const struct ingest_figures *f = &run->load.figures[phase];
    snprintf(key, sizeof key, "%sacked_per_s", prefix);
    put_number(j, key, acked_per_s(run, phase));
    snprintf(key, sizeof key, "%sp50_ms", prefix);
    put_number(j, key, ms_at(&f->latency_us, 500));
    snprintf(key, sizeof key, "%sp99_ms", prefix);
    put_number(j, key, ms_at(&f->latency_us, 990));
    snprintf(key, sizeof key, "%sp999_ms", prefix);
    put_number(j, key, ms_at(&f->latency_us, 999));
    snprintf(key, sizeof key, "%smax_ms", prefix);
    put_number(j, key, (double)f->latency_us.max / 1000);
    snprintf(key, sizeof key, "%ssent_late_p99_ms", prefix);
    put_number(j, key, ms_at(&f->late_us, 990));
}

static void put_settings(struct json *j, const struct ingest_settings *s)
{
    uint64_t starts_n = s->batch == 0 ? 1 : s->batch;
    put_known(j, "rate", !s->is_flat_out, s->plan.phases[0].rate * starts_n);
    if (s->plan.phases_n > 1) {
        put_count(j, "spike_rate", s->plan.phases[1].rate * starts_n);
        put_number(j, "spike_seconds", seconds(s->plan.phases[1].length_ns));
    }
    put_number(j, "seconds", seconds(s->plan.phases[0].length_ns));
    put_count(j, "connections", s->connections);
    put_count(j, "depth", s->depth);
    put_count(j, "batch", s->batch);
    put_count(j, "body_bytes", s->body_bytes);
}

static void put_errors(struct json *j, const struct ingest_load *load)
{
    char key[32];
    put_count(j, "errors", load->errors);
    json_key(j, "errors_by_status");
    json_object_begin(j);
    for (unsigned n = 0; n < INGEST_STATUSES; n++) {
        if (load->by_status[n] == 0) continue;
        snprintf(key, sizeof key, "%u", n);
        put_count(j, key, load->by_status[n]);
    }
    if (load->disconnected > 0) put_count(j, "disconnected", load->disconnected);
    if (load->unanswered > 0) put_count(j, "unanswered", load->unanswered);
    if (load->unsent > 0) put_count(j, "unsent", load->unsent);
    json_object_end(j);
}

static void put_completions(struct json *j, const struct ingest_run *run)
{
    int64_t length_ns = ingest_plan_length_ns(&run->load.settings.plan);
    bool is_drained = run->drained_ns > 0;
    put_count(j, "workers", run->workers_n);
    put_count(j, "service_ms", run->service_ms);
    json_key(j, "completed_per_s");
    if (run->workers_n == 0) {
        json_null(j);
        return;
    }
    json_double(j, (double)run->completed_in_time / seconds(run->elapsed_ns));
    put_count(j, "completed", run->completed);
    put_known(j, "drained_after_ms", is_drained,
              run->drained_ns > length_ns ? (uint64_t)(run->drained_ns - length_ns) / 1000000 : 0);
    put_count(j, "worker_errors", run->crowd_errors);
}

static void put_process(struct json *j, const struct ingest_run *run)
{
    double elapsed = (double)run->elapsed_ns / 100;
    put_number(j, "generator_cpu_percent", (double)run->load.cpu_ns / elapsed);
    put_known(j, "rss_max_bytes", run->is_ours, run->rss_max);
    if (!run->is_ours) return;
    double acked = run->load.acked == 0 ? 1 : (double)run->load.acked;
    put_number(j, "server_cpu_percent", (double)run->server_cpu_ns / elapsed);
    put_number(j, "server_cpu_us_per_start", (double)run->server_cpu_ns / 1000 / acked);
    if (run->workers_n > 0)
        put_number(j, "worker_cpu_percent", (double)run->crowd_cpu_ns / elapsed);
    put_fsync(j, &run->fsync_us);
}

/* What the run can show of the goals; a goal that its settings cannot show is left away. */
static void put_targets(struct json *j, const struct ingest_run *run,
                        const struct ingest_run *yardstick)
{
    const struct ingest_load *load = &run->load;
    const struct ingest_plan *plan = &load->settings.plan;
    uint64_t starts_n = load->settings.batch == 0 ? 1 : load->settings.batch;
    double rate = (double)(plan->phases[0].rate * starts_n);
    if (load->settings.is_flat_out) {
        put_target(j, "target_50000_per_s", acked_per_s(run, 0) >= 50000);
        if (yardstick != NULL)
            put_target(j, "target_half_of_yardstick",
                       acked_per_s(run, 0) * 2 >= acked_per_s(yardstick, 0));
    } else if (rate >= 10000) {
        put_target(j, "target_10000_per_s", acked_per_s(run, 0) >= 0.995 * rate);
        put_target(j, "target_p99_50_ms", histogram_at(&load->figures[0].latency_us, 990) < 50000);
        if (run->workers_n > 0)
            put_target(j, "target_completed_10000_per_s",
                       (double)run->completed_in_time / seconds(run->elapsed_ns) >= 9950);
    }
    if (plan->phases_n > 1 && plan->phases[1].rate * starts_n >= 50000) {
        put_target(j, "target_spike_p99_500_ms",
                   histogram_at(&load->figures[1].latency_us, 990) < 500000);
        put_target(j, "target_no_error", load->errors == 0);
    }
    if (run->is_checked) put_target(j, "target_none_lost", run->check.lost == 0);
    if (run->backlog_max >= 1000000)
        put_target(j, "target_256_mib", run->rss_max < (uint64_t)256 << 20);
}

static void put_yardstick(struct json *j, const struct ingest_run *run,
                          const struct ingest_run *yardstick)
{
    double bare = acked_per_s(yardstick, 0);
    put_phase(j, yardstick, 0, "yardstick_");
    put_count(j, "yardstick_errors", yardstick->load.errors);
    put_number(j, "ratio", bare > 0 ? acked_per_s(run, 0) / bare : 0);
}

void ingest_report(const struct ingest_run *run, const struct ingest_run *yardstick, bool as_json)
{
    struct bench_report r;
    struct json *j = &r.json;
    const struct ingest_load *load = &run->load;
    const struct ingest_plan *plan = &load->settings.plan;
    bench_report_begin(&r, "ingest");
    put_settings(j, &load->settings);
    put_count(j, "starts", load->starts);
    put_count(j, "acked", load->acked);
    put_phase(j, run, 0, "");
    if (plan->phases_n > 1) {
        put_phase(j, run, 1, "spike_");
        put_phase(j, run, 2, "after_");
        int64_t spike_end_ns = ingest_plan_phase_start_ns(plan, 2);
        put_count(j, "recovery_ms", (uint64_t)(load->recovered_ns - spike_end_ns) / 1000000);
    }
    put_errors(j, load);
    put_known(j, "lost", run->is_checked, run->check.lost);
    put_known(j, "unlisted", run->is_checked && run->check.is_listed, run->check.unlisted);
    put_completions(j, run);
    put_known(j, "backlog_max", run->backlog_max >= 0, (uint64_t)run->backlog_max);
    put_known(j, "oldest_age_ms", run->oldest_age_ms >= 0, (uint64_t)run->oldest_age_ms);
    put_process(j, run);
    if (yardstick != NULL) put_yardstick(j, run, yardstick);
    put_targets(j, run, yardstick);
    bench_report_end(&r, as_json);
}
