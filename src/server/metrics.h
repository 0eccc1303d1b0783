/* SPDX-License-Identifier: Apache-2.0
 *
 * /metrics: every counter of the server in the Prometheus text format. The names are a promise:
 * they begin with norn_ and have their unit at the end (before _total of a counter).
 */
#ifndef SERVER_METRICS_H
#define SERVER_METRICS_H

#include "base/bytes.h"
#include "host/host.h"
#include "net/conn.h"
#include "reply/reply.h"
#include "server/front.h"
#include "server/process.h"
#include "server/service.h"

struct metrics {
    const struct net_counters *net;
    uint32_t connections_n;
    struct service_stats service;
    struct front_stats front;
    struct reply_stats reply;
    const struct host_stats *host; /* NULL: the engine did not answer */
    struct process_stats process;
    bool is_draining;
};

/* Appends the whole page. */
void metrics_write(struct buffer *out, const struct metrics *metrics);

#endif
