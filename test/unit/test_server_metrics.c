/* SPDX-License-Identifier: Apache-2.0
 *
 * The page of metrics as text. That it is well formed is proved against a running server by
 * test/e2e/test_server; here: that every counter is on it, with its own value.
 */
#include "server/metrics.h"

#include "base/mem.h"
#include "test/lib/test.h"

#include <stdio.h>

static struct host_stats host; /* static: its histograms are large */
static struct buffer page;

static void write_page(const struct metrics *metrics)
{
    buffer_init(&page, mem_process());
    metrics_write(&page, metrics);
    buffer_u8(&page, '\0');
    EXPECT(!page.failed);
}

static bool has_line(const char *line)
{
    size_t len = strlen(line);

    for (const char *at = (const char *)page.ptr; (at = strstr(at, line)) != NULL; at += len) {
        if (at > (const char *)page.ptr && at[-1] == '\n' && at[len] == '\n') return true;
    }
    return false;
}

static void expect_value(const char *name, uint64_t value)
{
    char text[200];

    (void)snprintf(text, sizeof text, "%s %llu", name, (unsigned long long)value);
    test_note("%s", text);
    EXPECT(has_line(text));
}

/* Each counter gets a value that no other has: one that is left out or mixed up is seen. */
TEST(every_counter_of_the_network_is_there)
{
    struct net_counters net;
    struct metrics metrics = {.net = &net};
    uint64_t value = 1000;

#define X(name, help) net.name = value++;
    NET_COUNTERS(X)
#undef X
    write_page(&metrics);
    value = 1000;
#define X(name, help)                                                                              \
    if (strcmp(#name, "bytes_in") == 0)                                                            \
        expect_value("norn_net_received_bytes_total", value++);                                    \
    else if (strcmp(#name, "bytes_out") == 0)                                                      \
        expect_value("norn_net_sent_bytes_total", value++);                                        \
    else                                                                                           \
        expect_value("norn_net_" #name "_total", value++);
    NET_COUNTERS(X)
#undef X
    buffer_release(&page);
}

TEST(every_method_is_there)
{
    struct net_counters net = {0};
    struct metrics metrics = {.net = &net};
    size_t n = sizeof metrics.service.calls_by_rpc / sizeof metrics.service.calls_by_rpc[0];

    for (size_t i = 0; i < n; i++) metrics.service.calls_by_rpc[i] = 7000 + i;
    write_page(&metrics);
    expect_value("norn_calls_total{method=\"Hello\"}", 7000);
    for (size_t i = 0; i < n; i++) {
        char name[100];
        EXPECT(service_rpc_name((unsigned)i)[0] != '\0');
        (void)snprintf(name, sizeof name, "norn_calls_total{method=\"%s\"}",
                       service_rpc_name((unsigned)i));
        expect_value(name, 7000 + i);
    }
    buffer_release(&page);
}

TEST(the_engine_is_there_when_it_answered)
{
    struct net_counters net = {0};
    struct metrics metrics = {.net = &net, .connections_n = 3, .is_draining = true};

    metrics.process.cpu_ns = 1500000001;
    write_page(&metrics);
    expect_value("norn_engine_up", 0);
    expect_value("norn_net_connections", 3);
    expect_value("norn_draining", 1);
    EXPECT(has_line("norn_process_cpu_seconds_total 1.500000001"));
    EXPECT(strstr((const char *)page.ptr, "norn_engine_turns_total") == NULL);
    buffer_release(&page);

    host.core.turns = 12;
    host.is_disk_full = true;
    host.recovery_ns = 2050000000;
    host.gauges.ready[WORK_TASK] = 9;
    histogram_add(&host.commit_ns, 300000);
    histogram_add(&host.commit_ns, 700000);
    histogram_add(&host.commit_ns, 9000000000);
    metrics.host = &host;
    write_page(&metrics);
    expect_value("norn_engine_up", 1);
    expect_value("norn_engine_turns_total", 12);
    expect_value("norn_engine_disk_full", 1);
    expect_value("norn_engine_work_ready{kind=\"activity\"}", 9);
    EXPECT(has_line("norn_engine_recovery_seconds 2.050000000"));
    EXPECT(has_line("norn_engine_commit_seconds_bucket{le=\"0.000100000\"} 0"));
    EXPECT(has_line("norn_engine_commit_seconds_bucket{le=\"0.000500000\"} 1"));
    EXPECT(has_line("norn_engine_commit_seconds_bucket{le=\"0.001000000\"} 2"));
    EXPECT(has_line("norn_engine_commit_seconds_bucket{le=\"2.500000000\"} 2"));
    EXPECT(has_line("norn_engine_commit_seconds_bucket{le=\"+Inf\"} 3"));
    EXPECT(has_line("norn_engine_commit_seconds_sum 9.001000000"));
    EXPECT(has_line("norn_engine_commit_seconds_count 3"));
    buffer_release(&page);
}
