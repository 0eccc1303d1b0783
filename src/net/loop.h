/* SPDX-License-Identifier: Apache-2.0
 *
 * The loop of one thread: sockets, timers, and a bell that other threads ring. libuv is known in
 * loop.c only.
 */
#ifndef NET_LOOP_H
#define NET_LOOP_H

#include "net/conn.h"

struct loop;
struct loop_timer;

struct loop_options {
    struct mem *mem;
    const struct conn_limits *limits;
    const struct grpc_service *grpc;
    const struct http_service *http;
    uint32_t connections_n_max;
    /* The bell was rung: on the loop's thread, once for any number of rings. */
    void (*bell)(void *user);
    /* SIGTERM or SIGINT came: the first, the second, ... On the loop's thread. */
    void (*stop_signal)(void *user, int signal, unsigned count);
    void (*reload_signal)(void *user); /* SIGHUP */
    void (*dump_signal)(void *user);   /* SIGUSR1 */
    void *user;
};

/* E_NOMEM, E_IO. */
enum status loop_new(const struct loop_options *options, struct loop **out);
void loop_free(struct loop *l);

/* address: "127.0.0.1:4001", "[::1]:4001", "localhost:4001", port 0 = any. E_INVALID: not an
 * address. E_BUSY: somebody listens there. E_IO. text (size 200): what happened, for people. */
enum status loop_listen(struct loop *l, const char *address, char *text);
/* A socket that already listens (socket activation). */
enum status loop_listen_fd(struct loop *l, int fd);
/* The address of the first listener, with the port it really has; "" when there is none. */
const char *loop_address(const struct loop *l);

/* Runs until loop_stop(). */
void loop_run(struct loop *l);
void loop_stop(struct loop *l);
/* From any thread. */
void loop_ring(struct loop *l);
/* No new connections or calls; `drained` is called when the last connection is gone. */
void loop_drain(struct loop *l, void (*drained)(void *user));

int64_t loop_now_ns(const struct loop *l); /* monotonic; of this turn */
uint32_t loop_connections_n(const struct loop *l);
const struct net_counters *loop_counters(const struct loop *l);

/* A timer that calls fn once; set again from within for a repeated one. On the loop's thread. */
typedef void loop_timer_fn(void *user);
enum status loop_timer_new(struct loop *l, loop_timer_fn *fn, void *user, struct loop_timer **out);
void loop_timer_set(struct loop_timer *t, int64_t after_ms);
void loop_timer_clear(struct loop_timer *t);
void loop_timer_free(struct loop_timer *t);

#endif
