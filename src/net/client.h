/* SPDX-License-Identifier: Apache-2.0
 *
 * The other side of grpc.h: the client of one HTTP/2 connection without a socket. Bytes in, bytes
 * out, time as a number; client_socket.h brings the bytes, tests do it themselves.
 *
 *      client_begin() ──> message()* ──> end()          the peer's code, or ours
 *             └─ client_cancel(): neither is called any more
 *
 * Unary calls and server streams look the same: a request of one message, any number of answers, a
 * code. end() is called exactly once for every call that was begun and not cancelled, also when the
 * connection is lost (UNAVAILABLE) or the client is freed (CANCELLED); the call is gone when it
 * returns. Callbacks may begin and cancel calls, their own included; they may not feed, pull, tick
 * or free the client.
 *
 * A peer announces how many calls it takes at once (usually 100). What is begun beyond waits here,
 * in order, up to calls_n_max; its deadline runs from client_begin().
 *
 * A client belongs to one thread.
 */
#ifndef NET_CLIENT_H
#define NET_CLIENT_H

#include "base/bytes.h"
#include "base/status.h"
#include "net/grpc.h"

struct mem;
struct client;
struct client_call;

/* Texts longer than this are cut, with the final NUL. */
#define CLIENT_TEXT_SIZE 1024

struct client_options {
    struct mem *mem;         /* outlives the client */
    struct bytes authority;  /* "127.0.0.1:4001"; copied as all below, up to 255 bytes each */
    struct bytes user_agent; /* empty = "norn-c/<version>" */
    struct bytes hub;        /* header taskhub of every call; empty = not sent */
    struct bytes worker_id;  /* header workerid, likewise */
    uint32_t calls_n_max;    /* begun and not ended; client_begin() answers E_LIMIT beyond */
    size_t message_size_max; /* of an answer; the call ends with RESOURCE_EXHAUSTED beyond */
    uint32_t stream_window;  /* what the peer may send on a call before we have read it */
    uint32_t conn_window;    /* the same for all calls */
    int64_t ping_ms;         /* PING when nothing came for so long though calls are open; 0 = no */
    int64_t ping_answer_ms;  /* and how long its answer may take before the connection is lost */
};
/* Defaults: 10,000 calls, 64 MiB messages, windows of 1 MiB and 16 MiB, PING after 30 s, 20 s. */
void client_options_init(struct client_options *options, struct mem *mem);

/* message: borrowed during the call. */
typedef void client_message_fn(void *user, struct client_call *call, struct bytes message);
/* text: for people, "" = none; borrowed during the call. */
typedef void client_end_fn(void *user, struct client_call *call, enum grpc_code code,
                           const char *text);

struct client_request {
    const char *path;              /* "/TaskHubSidecarService/Hello"; outlives the call */
    struct bytes message;          /* copied */
    struct bytes hub;              /* header taskhub of this call instead of the client's; copied */
    int64_t timeout_ms;            /* sent as grpc-timeout and held here too; 0 = none */
    client_message_fn *on_message; /* NULL = answers are dropped */
    client_end_fn *on_end;         /* NULL = nobody wants to know */
    void *user;
};

/* E_NOMEM. E_INVALID: a header longer than 255 bytes. */
enum status client_new(const struct client_options *options, int64_t now_ns, struct client **out);
/* Open calls end with CANCELLED. NULL is fine. */
void client_free(struct client *c);

/* *out may be NULL when the call will not be cancelled. E_LIMIT: calls_n_max. E_CLOSED: the
 * connection is lost or the peer takes no new calls. E_INVALID: a timeout below 0, a hub longer
 * than 255 bytes. E_NOMEM. */
enum status client_begin(struct client *c, int64_t now_ns, const struct client_request *request,
                         struct client_call **out);
/* Resets the call at the peer; no callback of it is called any more. */
void client_cancel(struct client_call *call);
/* The client of a call, and the calls that are open. */
struct client *client_of(const struct client_call *call);
uint32_t client_calls_n(const struct client *c);

/* Bytes from the peer, in any pieces. E_CLOSED: the connection is of no use any more, all its calls
 * have ended; send what client_pull() still gives, then close. */
enum status client_feed(struct client *c, int64_t now_ns, struct bytes bytes);
/* Appends up to about size_max bytes that are to be sent; false when there are none. A peer that
 * broke the protocol is told so here; then its calls end, and client_is_over(). */
bool client_pull(struct client *c, struct buffer *out, size_t size_max);
/* Deadlines and PING. Answers when to call again, as now_ns; INT64_MAX = not before something
 * comes or is begun. */
int64_t client_tick(struct client *c, int64_t now_ns);
/* The transport broke: open calls end with UNAVAILABLE and this text. */
void client_lose(struct client *c, const char *text);
/* Lost, or said goodbye to with its last call ended: nothing more will come of it. */
bool client_is_over(const struct client *c);
/* The peer takes no new calls (GOAWAY) or the connection is lost. */
bool client_is_closing(const struct client *c);

#endif
