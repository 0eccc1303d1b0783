/* SPDX-License-Identifier: Apache-2.0
 *
 * One connection without a socket: bytes in, bytes out, time as a number. The loop (loop.h) brings
 * the bytes in production, the simulator and the tests do it themselves.
 *
 *      socket ──conn_feed()──> HTTP/2 ──> gRPC calls  ──> service (grpc.h)
 *             <──conn_pull()──        └─> HTTP/1.1    ──> pages   (http.h)
 *
 * The first bytes tell which protocol it is. A connection belongs to one thread.
 */
#ifndef NET_CONN_H
#define NET_CONN_H

#include "base/bytes.h"
#include "base/status.h"
#include "net/grpc.h"
#include "net/http.h"

struct mem;
struct pool;
struct conn;

struct conn_limits {
    size_t message_size_max;  /* of one gRPC message from the peer; RESOURCE_EXHAUSTED beyond */
    uint32_t calls_n_max;     /* handlers at work per connection; REFUSED_STREAM beyond */
    size_t stream_queue_size; /* bytes of answers waiting per call: grpc_is_full() beyond */
    size_t conn_queue_size;   /* the same for all calls of the connection */
    size_t answers_size_max;  /* of single answers waiting on a connection; UNAVAILABLE beyond */
    uint32_t stream_window;   /* flow control: what a peer may send before we have read it */
    uint32_t conn_window;
    int64_t preface_ms;  /* until the first bytes have told the protocol */
    int64_t header_ms;   /* until a request's headers are complete */
    int64_t body_ms;     /* until its body is complete; each byte of it pays for more time, */
    uint32_t body_per_s; /* but never for more than body_ms from when it came */
    /* Bytes of requests that are not complete: of one connection, and of all that share the
     * figure (conn_options). UNAVAILABLE beyond. A request that is alone on its connection is
     * refused by the second only, and a small one (64 KiB) by the first only. */
    size_t unfinished_size_max;
    size_t unfinished_size_total;
    int64_t idle_ms;        /* without a call */
    int64_t ping_ms;        /* our PING on an HTTP/2 connection that has calls */
    int64_t ping_answer_ms; /* and how long its answer may take */
    int64_t stall_ms;       /* the peer reads nothing though there is something to read */
    uint32_t resets_burst;  /* RST_STREAM received */
    uint32_t resets_per_s;
};
/* Defaults. */
void conn_limits_init(struct conn_limits *limits);

/* What was counted, for /metrics: one for each row of the attack table, and the ordinary ones.
 * name, help */
#define NET_COUNTERS(X)                                                                            \
    X(connections, "connections accepted")                                                         \
    X(connections_refused, "connections closed at once: too many")                                 \
    X(calls, "gRPC calls begun")                                                                   \
    X(pages, "HTTP requests that are not gRPC")                                                    \
    X(bytes_in, "bytes received")                                                                  \
    X(bytes_out, "bytes sent")                                                                     \
    X(resets_flood, "connections closed: too many RST_STREAM received")                            \
    X(provoked_flood, "connections closed: provoked too many resets or invalid frames")            \
    X(header_list_too_large, "requests refused: header list above 16 KiB or 100 fields")           \
    X(header_flood, "connections closed: header list above 64 KiB or too many CONTINUATION")       \
    X(control_flood, "connections closed: too many PING, SETTINGS or PRIORITY")                    \
    X(empty_frame_flood, "connections closed: too many empty DATA frames")                         \
    X(streams_refused, "streams refused: too many at once")                                        \
    X(stalled, "connections closed: the peer does not read")                                       \
    X(slow_request, "connections closed: preface, headers or body too slow")                       \
    X(idle_closed, "connections closed: idle")                                                     \
    X(ping_unanswered, "connections closed: PING not answered")                                    \
    X(messages_too_large, "gRPC messages refused: above the size limit")                           \
    X(messages_malformed, "gRPC messages refused: compressed, cut short or more than one")         \
    X(requests_too_large, "requests refused: too many bytes of unfinished ones")                   \
    X(tls_refused, "connections that began with TLS, which is not spoken here")                    \
    X(http_malformed, "HTTP/1.1 requests refused: not valid")                                      \
    X(http2_malformed, "connections closed: HTTP/2 not valid")                                     \
    X(answers_too_large, "calls refused: too many answers that the peer does not take")            \
    X(deadlines, "gRPC calls whose deadline passed")                                               \
    X(out_of_memory, "connections closed: out of memory")

struct net_counters {
#define X(name, help) uint64_t name;
    NET_COUNTERS(X)
#undef X
};

#define PEER_SIZE 64 /* "[::1]:4001" and its NUL */

struct conn_options {
    struct mem *mem;
    const struct conn_limits *limits; /* outlives the connection */
    struct net_counters *counters;    /* likewise */
    const struct grpc_service *grpc;
    const struct http_service *http;
    struct pool *pool; /* pool.h; shared by the connections of a thread. NULL: one of its own */
    /* Bytes of requests that are not complete, of all connections of a thread; outlives them. NULL:
     * of this one. */
    size_t *unfinished_size;
    /* What time it is, as HTTP writes it ("Sun, 15 Nov 2026 12:00:00 GMT"); the owner keeps it
     * right, and outlives the connection. NULL: answers have no date. */
    const char *date;
    bool is_trusted; /* the peer is on this machine */
    /* Its address, "127.0.0.1:40112", or "" when it is not known; copied. NULL is "". */
    const char *peer;
};

/* E_NOMEM. */
enum status conn_new(const struct conn_options *options, int64_t now_ns, struct conn **out);
/* The transport is gone: every open call is told (closed). Calls whose handlers have not finished
 * keep what they need; the rest is freed now. */
void conn_free(struct conn *c, int64_t now_ns);

/* Bytes from the peer, in any pieces. E_CLOSED: send what conn_pull() still gives, then close. */
enum status conn_feed(struct conn *c, int64_t now_ns, struct bytes bytes);
/* The peer has ended its side, nothing more comes from it. True: answers to what it has sent are
 * still to be pulled; close when it is over. False: close at once. */
bool conn_end_input(struct conn *c, int64_t now_ns);
/* Appends up to about size_max bytes that are to be sent; false when there are none. */
bool conn_pull(struct conn *c, int64_t now_ns, struct buffer *out, size_t size_max);
/* So many of the bytes pulled have left this process: tells a stalled peer from a slow one. */
void conn_sent(struct conn *c, int64_t now_ns, size_t size);
/* False: it keeps as many bytes as it may until a request has been answered, or it is ending; do
 * not read from the peer until a wake. What is fed nevertheless is taken. */
bool conn_wants_read(const struct conn *c);
/* Nothing more will come of it: close after sending. */
bool conn_is_over(const struct conn *c);
/* The peer does not even take its last bytes: close at once, whatever waits. */
bool conn_is_dead(const struct conn *c);
/* Time-outs. Answers when to call again, as now_ns; INT64_MAX = not before something comes. */
int64_t conn_tick(struct conn *c, int64_t now_ns);
/* No new calls (GOAWAY); it is over when the present ones have finished. */
void conn_drain(struct conn *c, int64_t now_ns);
/* Something may be pulled that was not there before, because a handler sent or finished, or
 * because of a time-out. Set by the loop. */
typedef void conn_wake_fn(void *user, struct conn *c);
void conn_on_wake(struct conn *c, conn_wake_fn *wake, void *user);

#endif
