/* SPDX-License-Identifier: Apache-2.0
 *
 * See metrics.h. Three tables: what the engine counts, what the service counts, and, from its own
 * header, what the network counts.
 */
#include "server/metrics.h"

#include "base/clock.h"
#include "base/histogram.h"
#include "base/text.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define RPCS_COUNTED (sizeof((struct service_stats *)0)->calls_by_rpc / sizeof(uint64_t))

enum metric_type { COUNTER, GAUGE, HISTOGRAM };

static void head(struct buffer *out, const char *name, enum metric_type type, const char *help)
{
    static const char *const words[] = {
        [COUNTER] = "counter", [GAUGE] = "gauge", [HISTOGRAM] = "histogram"};

    buffer_format(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, words[type]);
}

static void integer(struct buffer *out, const char *name, enum metric_type type, uint64_t value,
                    const char *help)
{
    head(out, name, type, help);
    buffer_format(out, "%s %llu\n", name, (unsigned long long)value);
}

/* A value of so many parts of a whole one: nanoseconds as seconds, bytes as bytes. */
static void fraction(struct buffer *out, uint64_t value, uint64_t parts)
{
    buffer_format(out, "%llu", (unsigned long long)(value / parts));
    if (parts > 1) buffer_format(out, ".%09llu", (unsigned long long)(value % parts));
}

static void seconds(struct buffer *out, const char *name, enum metric_type type, uint64_t value_ns,
                    const char *help)
{
    head(out, name, type, help);
    buffer_format(out, "%s ", name);
    fraction(out, value_ns, (uint64_t)NS_PER_S);
    buffer_format(out, "\n");
}

/* bounds: ascending, 0 at the end. */
static void histogram(struct buffer *out, const char *name, const struct histogram *h,
                      const uint64_t *bounds, uint64_t parts, const char *help)
{
    head(out, name, HISTOGRAM, help);
    for (; *bounds != 0; bounds++) {
        buffer_format(out, "%s_bucket{le=\"", name);
        fraction(out, *bounds, parts);
        buffer_format(out, "\"} %llu\n", (unsigned long long)histogram_count_to(h, *bounds));
    }
    buffer_format(out, "%s_bucket{le=\"+Inf\"} %llu\n%s_sum ", name, (unsigned long long)h->n,
                  name);
    fraction(out, h->sum, parts);
    buffer_format(out, "\n%s_count %llu\n", name, (unsigned long long)h->n);
}

/* One gauge with a label for each of several members. */
static void labelled(struct buffer *out, const char *name, const char *label, const char *value,
                     uint64_t number)
{
    buffer_format(out, "%s{%s=\"%s\"} %llu\n", name, label, value, (unsigned long long)number);
}

/* member of host_stats, type, name, help */
#define HOST_METRICS(X)                                                                            \
    X(core.started, COUNTER, "instances_started_total", "Instances started since the start")       \
    X(core.finished, COUNTER, "instances_finished_total", "Instances that came to their end")      \
    X(core.turns, COUNTER, "turns_total", "Orchestrator turns completed")                          \
    X(core.tasks_done, COUNTER, "activities_completed_total", "Activities answered")               \
    X(core.timers_fired, COUNTER, "timers_fired_total", "Timers fired")                            \
    X(core.stale_answers, COUNTER, "stale_answers_total",                                          \
      "Answers of workers to work that was given up or answered already, dropped")                 \
    X(core.late_answers, COUNTER, "late_answers_total", "Answers recorded as late")                \
    X(core.dropped_messages, COUNTER, "dropped_messages_total",                                    \
      "Messages to instances that are unknown, finished or of an older execution")                 \
    X(core.duplicate_messages, COUNTER, "duplicate_messages_total",                                \
      "Messages between partitions that had arrived before")                                       \
    X(core.alerts, COUNTER, "alerts_total", "Alerts of the supervisor")                            \
    X(requests, COUNTER, "requests_total", "Requests taken by the engine")                         \
    X(frames, COUNTER, "journal_frames_total", "Journal frames made durable")                      \
    X(frame_bytes, COUNTER, "journal_written_bytes_total", "Bytes of those frames")                \
    X(evicted, COUNTER, "instances_evicted_total", "Idle instances that left memory")              \
    X(loaded, COUNTER, "instances_loaded_total", "Instances that came back into memory")           \
    X(recovered_frames, COUNTER, "recovered_frames_total", "Journal frames read at the start")     \
    X(instances_hot, GAUGE, "instances_in_memory", "Instances in memory")                          \
    X(instances_archived, GAUGE, "instances_archived", "Instances in the archive")                 \
    X(gauges.parked, GAUGE, "instances_parked", "Instances that wait for an operator")             \
    X(waiters, GAUGE, "waiting_requests", "Requests that wait for a change of an instance")        \
    X(parked, GAUGE, "loading_requests", "Requests that wait for the archive")                     \
    X(workers, GAUGE, "workers_attached", "Workers the engine knows, per shard")                   \
    X(mem_used, GAUGE, "memory_used_bytes", "Memory of the engine's own")                          \
    X(journal_bytes, GAUGE, "journal_size_bytes", "Size of the journal on disk")                   \
    X(lsn_durable, GAUGE, "journal_durable_position", "Position of the newest durable frame")      \
    X(lsn_applied, GAUGE, "archive_applied_position", "Journal position archived so far")          \
    X(is_disk_full, GAUGE, "disk_full", "1 while the disk is full and changes are refused")        \
    X(active, GAUGE, "instances_active", "Orchestrations at work in memory")                       \
    X(backlog, GAUGE, "backlog_starts", "Acknowledged starts that wait in the journal")            \
    X(backlog_size, GAUGE, "backlog_size_bytes", "Bytes of those starts in the journal")           \
    X(backlog_age_ms, GAUGE, "backlog_oldest_age_milliseconds",                                    \
      "How long the oldest of those starts has waited")                                            \
    X(is_held, GAUGE, "backlog_held",                                                              \
      "1 while memory or archive are full and only few starts are admitted")                       \
    X(deferred, COUNTER, "starts_deferred_total", "Starts that had to wait")                       \
    X(admitted, COUNTER, "starts_admitted_total", "Starts that had waited and were admitted")      \
    X(carried, COUNTER, "starts_carried_total",                                                    \
      "Times that a waiting start was carried forward in the journal")

static const uint64_t commit_bounds_ns[] = {
    100000,   250000,    500000,    1000000,   2500000,    5000000,     10000000, 25000000,
    50000000, 100000000, 250000000, 500000000, 1000000000, 2500000000u, 0};
static const uint64_t frame_bounds[] = {256,       1 << 10, 4 << 10, 16 << 10, 64 << 10,
                                        256 << 10, 1 << 20, 4 << 20, 0};

static void write_gauges(struct buffer *out, const struct core_gauges *g)
{
    head(out, "norn_engine_instances", GAUGE, "Instances in memory, by state");
    labelled(out, "norn_engine_instances", "state", "pending", g->pending);
    labelled(out, "norn_engine_instances", "state", "running", g->running);
    labelled(out, "norn_engine_instances", "state", "suspended", g->suspended);
    labelled(out, "norn_engine_instances", "state", "ended", g->ended);
    labelled(out, "norn_engine_instances", "state", "purged", g->purged);
    labelled(out, "norn_engine_instances", "state", "entity", g->entities);
    head(out, "norn_engine_work_ready", GAUGE, "Work that no worker has taken yet, by kind");
    labelled(out, "norn_engine_work_ready", "kind", "orchestration", g->ready[WORK_TURN]);
    labelled(out, "norn_engine_work_ready", "kind", "activity", g->ready[WORK_TASK]);
    labelled(out, "norn_engine_work_ready", "kind", "entity", g->ready[WORK_ENTITY]);
}

static void write_host(struct buffer *out, const struct host_stats *h)
{
    integer(out, "norn_engine_up", GAUGE, h != NULL, "1 when the engine answered in time");
    if (h == NULL) return;
#define X(member, type, name, help) integer(out, "norn_engine_" name, type, h->member, help);
    HOST_METRICS(X)
#undef X
    seconds(out, "norn_engine_recovery_seconds", GAUGE, (uint64_t)h->recovery_ns,
            "How long recovery took at the start");
    write_gauges(out, &h->gauges);
    histogram(out, "norn_engine_commit_seconds", &h->commit_ns, commit_bounds_ns,
              (uint64_t)NS_PER_S, "From handing a journal frame over until it is durable");
    histogram(out, "norn_engine_frame_bytes", &h->frame_size, frame_bounds, 1,
              "Bytes of records in a journal frame");
}

/* member of service_stats, type, name, help */
#define SERVICE_METRICS(X)                                                                         \
    X(failed, COUNTER, "calls_failed_total", "Calls answered with another code than OK")           \
    X(work_items, COUNTER, "work_items_total", "Work items sent to workers")                       \
    X(health_pings, COUNTER, "health_pings_total", "Pings sent on idle work streams")              \
    X(stale_answers, COUNTER, "unreadable_tokens_total", "Completion tokens that are not ours")    \
    X(work_lost, COUNTER, "work_lost_total", "Work given back because its stream was gone")        \
    X(work_streamed, COUNTER, "work_streamed_total", "Turns whose past events were streamed")      \
    X(work_parked, COUNTER, "work_parked_total", "Work parked because it is too large to send")    \
    X(chunks, COUNTER, "completion_chunks_total", "Parts of completions that came in parts")       \
    X(workers_n, GAUGE, "workers", "Work streams open now")                                        \
    X(leases_n, GAUGE, "work_items_in_flight", "Work items sent and not answered")                 \
    X(waiting_n, GAUGE, "waiting_calls", "Calls that wait for an instance now")

static void write_service(struct buffer *out, const struct service_stats *s)
{
    head(out, "norn_calls_total", COUNTER, "gRPC calls begun, by method");
    for (unsigned n = 0; n < RPCS_COUNTED; n++) {
        buffer_format(out, "norn_calls_total{method=\"%s\"} %llu\n", service_rpc_name(n),
                      (unsigned long long)s->calls_by_rpc[n]);
    }
#define X(member, type, name, help) integer(out, "norn_" name, type, s->member, help);
    SERVICE_METRICS(X)
#undef X
}

/* member of front_stream_stats, type, name, help */
#define STREAM_METRICS(X)                                                                          \
    X(streams_n, GAUGE, "streams", "Streams there are")                                            \
    X(appended_n, COUNTER, "messages_appended_total", "Messages appended")                         \
    X(appended_size, COUNTER, "appended_bytes_total", "Bytes of keys and values appended")         \
    X(read_n, COUNTER, "messages_read_total", "Messages given to readers")                         \
    X(delivered_n, COUNTER, "messages_delivered_total", "Messages given to consumers of queues")   \
    X(completed_n, COUNTER, "messages_completed_total", "Messages that consumers have completed")  \
    X(started_n, COUNTER, "instances_started_total", "Instances started by bound streams")         \
    X(frames_n, COUNTER, "frames_total", "Frames committed by the streams")                        \
    X(letters_n, GAUGE, "dead_letters", "Dead letters there are")                                  \
    X(waiting_n, GAUGE, "waiting_reads", "Reads and receives that wait for a message")             \
    X(memory_size, GAUGE, "memory_bytes", "Messages in memory")                                    \
    X(journal_size, GAUGE, "journal_bytes", "Journal of the streams on disk")                      \
    X(segments_size, GAUGE, "segment_bytes", "Segments of the streams on disk")

static void write_streams(struct buffer *out, const struct front_stream_stats *s)
{
    if (!s->is_there) return;
#define X(member, type, name, help) integer(out, "norn_stream_" name, type, s->member, help);
    STREAM_METRICS(X)
#undef X
}

static void write_front(struct buffer *out, const struct front_stats *f)
{
    static const char *const classes[] = {"gone", "1xx", "2xx", "3xx", "4xx", "5xx"};

    integer(out, "norn_http_requests_total", COUNTER, f->requests, "HTTP requests taken");
    head(out, "norn_http_answers_total", COUNTER,
         "HTTP requests answered, by class of status; gone: the peer was not there any more");
    for (size_t n = 0; n < sizeof classes / sizeof classes[0]; n++) {
        if (n == 1) continue; /* no answer is informational */
        buffer_format(out, "norn_http_answers_total{class=\"%s\"} %llu\n", classes[n],
                      (unsigned long long)f->answers[n]);
    }
    integer(out, "norn_http_open", GAUGE, f->open_n, "HTTP requests not answered yet");
    write_streams(out, &f->streams);
}

/* The unit stands before _total. */
static const char *net_name(const char *counter)
{
    if (strcmp(counter, "bytes_in") == 0) return "received_bytes";
    if (strcmp(counter, "bytes_out") == 0) return "sent_bytes";
    return counter;
}

static void net_counter(struct buffer *out, const char *counter, uint64_t value, const char *help)
{
    char name[96], sentence[160];

    (void)snprintf(name, sizeof name, "norn_net_%s_total", net_name(counter));
    /* Its table writes for the middle of a sentence. */
    (void)snprintf(sentence, sizeof sentence, "%s", help);
    if (sentence[0] >= 'a' && sentence[0] <= 'z' && strncmp(sentence, "gRPC", 4) != 0)
        sentence[0] = (char)(sentence[0] - 'a' + 'A');
    integer(out, name, COUNTER, value, sentence);
}

static void write_net(struct buffer *out, const struct net_counters *n)
{
#define X(name, help) net_counter(out, #name, n->name, help);
    NET_COUNTERS(X)
#undef X
}

static void write_process(struct buffer *out, const struct process_stats *p)
{
    integer(out, "norn_process_resident_memory_bytes", GAUGE, p->resident_bytes, "Resident memory");
    seconds(out, "norn_process_cpu_seconds_total", COUNTER, p->cpu_ns, "CPU time used");
    integer(out, "norn_process_open_fds", GAUGE, p->fds_n, "Open file descriptors");
    integer(out, "norn_process_max_fds", GAUGE, p->fds_n_max, "Limit of open file descriptors");
    integer(out, "norn_process_start_time_seconds", GAUGE, (uint64_t)p->started_s,
            "When the process started, since 1970");
}

static void write_reply(struct buffer *out, const struct reply_stats *r)
{
    integer(out, "norn_replies_heard_total", COUNTER, r->heard,
            "Replies that were posted and heard");
    integer(out, "norn_replies_unheard_total", COUNTER, r->unheard,
            "Tries to post a reply that were not heard");
    integer(out, "norn_replies_given_up_total", COUNTER, r->given_up,
            "Replies that nobody heard and that are not tried any more");
}

void metrics_write(struct buffer *out, const struct metrics *metrics)
{
    head(out, "norn_build_info", GAUGE, "The version that runs, as a label");
    buffer_format(out, "norn_build_info{version=\"" NORN_VERSION "\"} 1\n");
    integer(out, "norn_draining", GAUGE, metrics->is_draining, "1 while the server shuts down");
    write_host(out, metrics->host);
    write_service(out, &metrics->service);
    write_front(out, &metrics->front);
    write_reply(out, &metrics->reply);
    integer(out, "norn_net_connections", GAUGE, metrics->connections_n, "Connections open now");
    write_net(out, metrics->net);
    write_process(out, &metrics->process);
}
