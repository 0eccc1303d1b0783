/* SPDX-License-Identifier: Apache-2.0
 *
 * The Durable Task service: the 29 calls of TaskHubSidecarService, answered by the engine behind
 * the desk; and 3 of our own, norn.v1.Supervision. Everything here runs on the network's thread. It
 * has no socket and no clock of its own, so that the simulator drives the same code.
 */
#ifndef SERVER_SERVICE_H
#define SERVER_SERVICE_H

#include "net/grpc.h"
#include "server/desk.h"

struct service;

struct service_options {
    struct mem *mem; /* of the network's thread */
    struct desk_engine engine;
    size_t errands_n_max;
    size_t message_size_max;  /* work items beyond it are streamed, or their instance is parked */
    size_t history_size_max;  /* past events beyond it are streamed to workers that can */
    int64_t ping_ms;          /* HealthPing on an idle work stream */
    int64_t grace_ms;         /* until work of a lost stream is offered again */
    uint32_t workers_n_max;   /* work streams at once; RESOURCE_EXHAUSTED beyond */
    uint32_t in_flight_n_max; /* per stream and kind, for workers that give no limit */
    uint64_t seed;            /* of ids that are made here; 0: from the system */
};
void service_options_init(struct service_options *options);

/* E_NOMEM. now_ns: monotonic, as in all calls. */
enum status service_new(const struct service_options *options, int64_t now_ns,
                        struct service **out);
/* The engine is closed, and nothing else was called since (a bell could post to it); no call is
 * open any more. */
void service_free(struct service *s);

const struct grpc_service *service_grpc(const struct service *s);
/* Before calls reach it in a turn of the loop, and before service_bell. */
void service_set_now(struct service *s, int64_t now_ns);
/* The desk's bell was rung. */
void service_bell(struct service *s);
/* Health pings, grace delays. Answers when to call again, as now_ns; INT64_MAX = not before
 * something comes. */
int64_t service_tick(struct service *s);
/* Ends work streams with UNAVAILABLE, gives their work back at once, answers waiting calls
 * UNAVAILABLE and refuses new ones. Over when service_is_quiet(). */
void service_drain(struct service *s);
bool service_is_quiet(const struct service *s);

/* For /metrics and tests. */
struct service_stats {
    uint64_t calls; /* begun, by rpc in the order of RPCS and OWN_RPCS */
    uint64_t calls_by_rpc[32];
    uint64_t failed; /* finished with another code than OK */
    uint64_t work_items;
    uint64_t health_pings;
    uint64_t stale_answers; /* tokens that could not be read; stale ones the engine counts */
    uint64_t work_lost;     /* given back because a stream was gone */
    uint64_t work_streamed;
    uint64_t work_parked;
    uint64_t chunks;    /* parts of chunked completions */
    uint32_t workers_n; /* work streams now */
    uint32_t leases_n;  /* work items given and not answered */
    uint32_t waiting_n; /* WaitForInstance* calls now */
};
void service_stats(const struct service *s, struct service_stats *out);
/* One open work stream. */
struct service_worker {
    uint32_t id;                 /* as LockedBy shows it, in the first shard */
    const struct worker *worker; /* hub and filters */
    uint32_t in_flight[WORK_KINDS_N];
    int64_t opened_ns; /* monotonic */
};
typedef void service_worker_fn(void *user, const struct service_worker *worker);
/* Oldest first; borrowed during the call. */
void service_each_worker(const struct service *s, service_worker_fn *fn, void *user);
/* The name of the nth RPC; static. */
const char *service_rpc_name(unsigned n);

#endif
