/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of `norn bench grpc` share: a server process, workers, and clients that start
 * workflows and wait for them, all over real connections. Workers and clients run in one loop on
 * one thread, because they share the machine's cores with what they measure.
 *
 * The workflow is the orchestration BENCH_NAME: as many calls of the activity BENCH_STEP in a row
 * as its input says ("5").
 */
#ifndef CMD_BENCH_GRPC_H
#define CMD_BENCH_GRPC_H

#include "base/histogram.h"
#include "base/list.h"
#include "net/client_socket.h"

#include <sys/types.h>

#define BENCH_NAME "norn_bench"
#define BENCH_STEP "norn_bench_step"

/* ---- the server process ---- */

struct bench_server {
    char address[128];
    pid_t pid; /* 0 = a server that somebody else runs: no figures of its process */
    int ready_fd;
};

/* Starts this program as a server on a free port and waits for its ready line; its log goes to the
 * file <data>.log. False after a message. */
bool bench_server_start(struct bench_server *server, const char *data);
/* Another program that takes the same options --data and --listen and prints such a line. */
bool bench_server_start_other(struct bench_server *server, const char *program, const char *data);
/* SIGTERM, and waits for its end; false after a message when that took more than 20 s or its exit
 * code is not 0. */
bool bench_server_stop(struct bench_server *server);
/* CPU time since it began, and resident memory now; 0 when it is not ours. */
int64_t bench_server_cpu_ns(const struct bench_server *server);
uint64_t bench_server_rss_bytes(const struct bench_server *server);

/* ---- workers ---- */

struct bench_worker {
    struct client_sockets *sockets;
    struct client *client;
    struct client_call *stream;
    struct buffer message; /* the answer being written */
    bool ends_at_once;     /* every orchestration, whatever it is, ends in its first turn; */
    int64_t service_ns;    /* or, when not 0, after one step that a service takes so long for */
    struct list answers;   /* struct bench_answer: of that service, by time */
    uint64_t ended;        /* orchestrations whose completion was acknowledged */
    uint64_t turns;        /* completions acknowledged */
    uint64_t tasks;
    uint64_t errors;             /* completions refused, items not understood, the stream's end */
    char text[CLIENT_TEXT_SIZE]; /* of the last error */
};

/* Connects and asks for work items of this hub ("" = the default one). False after a message. */
bool bench_worker_open(struct bench_worker *worker, struct client_sockets *sockets,
                       const char *address, const char *hub);
/* Sends what the service has answered meanwhile. Milliseconds until the next is due, at most
 * most_ms. */
int bench_worker_serve(struct bench_worker *worker, int most_ms);
/* Leaves: cancels the stream and closes the connection. Nothing happens when it is not open. */
void bench_worker_close(struct bench_worker *worker);

/* ---- workflows ---- */

/* So many at once over one connection: a server takes about 100 calls at a time. */
#define BENCH_SLOTS_PER_CONNECTION 90u

struct bench_flow;

struct bench_flows {
    struct client_sockets *sockets;
    uint32_t steps;
    uint32_t in_flight;
    char prefix[48];  /* of the instance ids: another for each run */
    bool is_stopping; /* nothing new is started */
    bool is_counting; /* what ends is counted and its latency kept */
    uint64_t started;
    uint64_t active;   /* started and not ended */
    uint64_t finished; /* counted */
    uint64_t failed;   /* not COMPLETED, or a call that failed */
    struct histogram latency_us;
    struct buffer message;
    struct bench_flow *slots; /* in_flight */
    struct client **clients;
    uint32_t clients_n;
    char text[CLIENT_TEXT_SIZE]; /* of the last failure */
};

/* Connects and starts the first in_flight; each end starts another. False after a message. */
bool bench_flows_open(struct bench_flows *flows, struct client_sockets *sockets,
                      const char *address, const char *hub);
void bench_flows_close(struct bench_flows *flows);

#endif
