/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of HTTP/2 and gRPC share, and nobody else sees.
 *
 *      h2.c         the session: bytes in and out, time-outs, the end
 *      h2_events.c  what nghttp2 tells us; the counting of floods
 *      h2_answer.c  what we submit to nghttp2
 *      call.c       the life of a call, and the queue of its answer
 *      request.c    a call from its first header to the service
 *      grpc.c       grpc.h: what the service does with a call
 *      h2_http.c    a request that is not gRPC: its way to the service of HTTP, and its answer
 *
 * A call lives as long as its stream is open OR its handler is at work. It has a slot from its
 * first header until its handler has finished, or until the layer has answered in its place:
 * resetting a stream does not make room for another handler.
 *
 * nghttp2 forbids to send or receive from within its callbacks, so nothing here does: a service
 * that answers inside of call() only submits, and the bytes are made by h2_pull().
 *
 * What is not gRPC by its content type goes to the service of HTTP instead (http.h). It is a call
 * like the others, with the same slot, queue and limits, and its exchange is part of it.
 */
#ifndef NET_STATE_H
#define NET_STATE_H

#include "base/bytes.h"
#include "base/heap.h"
#include "base/list.h"
#include "net/conn.h"
#include "net/exchange.h"
#include "net/flood.h"
#include "net/pool.h"

#include <nghttp2/nghttp2.h>

#define HEADER_LIST_SIZE_MAX (16 * 1024)   /* answered 431 beyond */
#define HEADER_LIST_SIZE_FLOOD (64 * 1024) /* the connection ends */
#define HEADER_FIELDS_N_MAX 100
#define CONTINUATIONS_N_MAX 8
#define OUTBOUND_ACKS_N_MAX 100
#define OUTBOUND_FRAMES_N_MAX 1000 /* that wait for the peer, besides those of its calls */
#define SETTINGS_N_MAX 32
#define OVERSIZE_START_SIZE 512
#define FRAME_HEAD_SIZE 9
#define WINDOW_RESERVE (16 * 1024) /* of the peer's window: not for calls that stream */
#define PREFIX_SIZE 5              /* of a gRPC message: compressed flag, length */
#define SMALL_SIZE (64 * 1024)     /* a message that is taken though others hold too much */

/* Headers of a request that are kept, besides the path. */
#define KEPT_HEADERS(X)                                                                            \
    X("taskhub")                                                                                   \
    X("user-agent")                                                                                \
    X("x-user-agent")                                                                              \
    X("workerid")                                                                                  \
    X("authorization")                                                                             \
    X("traceparent")
#define X(name) +1
enum { KEPT_HEADERS_N = 0 KEPT_HEADERS(X) };
#undef X

enum request_phase {
    REQUEST_HEADERS,  /* the first header block is coming */
    REQUEST_MESSAGE,  /* the message is coming */
    REQUEST_OVERSIZE, /* it is too large; its first bytes are coming */
    REQUEST_OVER,     /* given to the service, or answered by the layer: what comes is ignored */
};

struct span {
    uint32_t at;
    uint32_t len;
};

struct grpc_call {
    struct h2 *h2; /* NULL once the connection is gone */
    struct mem *mem;
    struct list link; /* h2->calls */
    int32_t stream_id;
    bool is_stream_open;
    bool has_slot;
    void *user;

    enum request_phase phase;
    bool is_received; /* the peer has ended its side */
    bool is_post;
    bool is_grpc_type;
    bool is_grpc_like; /* a content type of gRPC, but not one that we speak */
    bool is_timeout_malformed;
    bool is_http;       /* not gRPC; known when the headers are complete */
    struct buffer text; /* fields of the request that are kept, see request_header() */
    struct span path;
    struct span kept[KEPT_HEADERS_N];
    int64_t begun_ns;
    int64_t deadline_ns;       /* INT64_MAX = none */
    struct heap_node deadline; /* h2->deadlines */
    uint8_t prefix[PREFIX_SIZE];
    uint8_t prefix_n;
    uint32_t message_size; /* by the prefix; of HTTP: by content-length, 0 without */
    int64_t body_due_ns;   /* until when more of the body must have come */
    struct buffer message;
    size_t message_counted; /* of it, in h2->unfinished */

    bool is_handled;   /* the service has it and has not finished */
    bool is_closed;    /* the service was told, or need not be: nothing reaches the peer any more */
    bool is_begun;     /* the headers of the answer are submitted */
    bool is_deferred;  /* nghttp2 waits for nghttp2_session_resume_data() */
    bool is_ended;     /* code and text are known */
    bool is_full_told; /* grpc_is_full() answered true: writable() is owed */
    enum grpc_code code;
    struct buffer code_text; /* percent-encoded */
    struct buffer queue;     /* of the answer; what was sent is before queue_at */
    size_t queue_at;

    struct http_exchange http; /* when is_http */
    int64_t waits_ns; /* of a streamed answer of HTTP: since when bytes wait and none goes; or 0 */
};

struct h2 {
    struct conn *conn;
    struct mem *mem;
    const struct conn_limits *limits;
    struct net_counters *counters;
    const struct grpc_service *service;
    const struct http_service *http;
    const char *date; /* see conn.h */
    bool is_trusted;
    char peer[PEER_SIZE];
    struct pool own_pool;
    struct pool *pool;
    nghttp2_mem hooks; /* nghttp2 keeps a copy; its user is pool */
    nghttp2_session *session;

    int64_t now_ns; /* of the call into h2 that is running */
    struct flood flood;
    struct list calls;
    struct heap deadlines;  /* of calls with one that is not over */
    uint32_t calls_n;       /* in `calls` */
    uint32_t slots_n;       /* calls with has_slot */
    uint32_t streams_n;     /* calls with is_stream_open */
    uint32_t coming_n;      /* calls in REQUEST_HEADERS, _MESSAGE or _OVERSIZE */
    size_t queued;          /* bytes in the queues of all calls */
    uint32_t http_begun_n;  /* streamed answers of HTTP that have begun and have not ended */
    size_t unfinished;      /* bytes of messages that are not complete, and of HTTP at work */
    size_t *unfinished_all; /* the same of all connections of the thread */
    uint32_t full_told_n;   /* calls with is_full_told */
    bool is_window_short;   /* a call that streams waits for the connection's window */
    /* Of the header block that is coming, whether its stream has a call or not. */
    unsigned continuations_n;
    uint32_t header_fields_n;
    size_t header_list_size; /* name + value + 32 each */

    bool is_greeted;          /* the peer's SETTINGS have come */
    bool is_draining;         /* GOAWAY is submitted; present calls go on */
    bool is_ending;           /* it is over when what is queued in nghttp2 has left */
    bool is_broken;           /* nghttp2 must not be called any more */
    struct buffer last_words; /* a GOAWAY of our own when nghttp2 is broken */

    int64_t born_ns;
    int64_t received_ns; /* last byte */
    int64_t idle_ns;     /* since when there is no call; 0 = there is one, or not known yet */
    int64_t pinged_ns;   /* our last PING */
    bool is_ping_out;    /* and nothing came since */
    int64_t moved_ns;    /* last time that flow control let bytes of an answer go */
    bool is_fresh;       /* the first bytes were queued since the last pull: moved_ns is older */

    struct buffer *out; /* during h2_pull() */
    size_t out_size_max;
};

/* conn.c */
void conn_wake(struct conn *c);
/* The time until which a body is waited for, after so many bytes of it have come. */
int64_t conn_body_due_ns(const struct conn_limits *limits, int64_t due_ns, int64_t now_ns,
                         size_t size);

/* h2.c: ends the connection; the reason's counter is counted once. */
void h2_end(struct h2 *h2, uint32_t error_code, uint64_t *counter);

/* h2_events.c: everything nghttp2 shall call. NULL without memory. */
nghttp2_session_callbacks *h2_callbacks_new(void);

/* h2_answer.c */
/* The headers of an answer with messages. */
enum status answer_begin(struct grpc_call *call);
/* Something was put into the queue. */
void answer_resume(struct grpc_call *call);
/* The connection's window has grown: calls that waited for it go on. */
void answer_resume_all(struct h2 *h2);
/* The code, after what is queued; trailers only when nothing was sent. */
void answer_end(struct grpc_call *call, enum grpc_code code, const char *text);
/* An answer of HTTP without body, for what is not quite gRPC. status: "415", static. */
void answer_http(struct grpc_call *call, const char *status);
/* The headers of an answer of HTTP: status, type (or NULL), the exchange's own fields, and the
 * length of the body unless it is UINT64_MAX. has_body: what is in the queue follows. */
enum status answer_http_headers(struct grpc_call *call, unsigned status, const char *type,
                                uint64_t length, bool has_body);
/* 100: the peer may send its body. */
void answer_continue(struct grpc_call *call);
/* The end of a stream without an answer. */
void answer_reset(struct grpc_call *call, uint32_t error_code);

/* call.c */
/* NULL without memory. */
struct grpc_call *call_new(struct h2 *h2, int32_t stream_id);
/* Neither stream nor handler any more. */
void call_free(struct grpc_call *call);
/* Empties a buffer of a call that needs it no more; a large one loses its memory. */
void call_trim(struct buffer *buffer);
void call_drop_slot(struct grpc_call *call);
void call_clear_deadline(struct grpc_call *call);
/* The stream is closed: tells the handler, frees what nobody needs. */
void call_stream_closed(struct grpc_call *call);
/* The service's part of it is over though its handler is not: closed() is called. */
void call_close(struct grpc_call *call);
size_t call_queued(const struct grpc_call *call);
bool call_is_full(const struct grpc_call *call);
/* The same, and writable() is owed to who is told. */
bool call_tell_full(struct grpc_call *call);
/* Room for so many bytes of an answer. E_NOMEM: what waits is as it was. */
enum status call_make_room(struct grpc_call *call, size_t size);
/* Into the room that was made. */
void call_enqueue(struct grpc_call *call, struct bytes bytes);
/* Requests are small and answers may be large: a peer that asks for hundreds at once and takes none
 * must not fill our memory. One answer alone may have any size. */
bool call_is_too_much(const struct grpc_call *call, size_t size);
/* The handler has finished: its slot is free, and the call goes when its stream is closed. */
void call_handled(struct grpc_call *call);

/* request.c */
void request_header(struct grpc_call *call, struct bytes name, struct bytes value);
/* A header block is complete (the request's or its trailers). */
void request_headers_done(struct grpc_call *call);
void request_data(struct grpc_call *call, struct bytes data);
/* The peer has ended its side. */
void request_end(struct grpc_call *call);
/* The deadline has passed. */
void request_expire(struct grpc_call *call);
/* The same, for call.c and h2_http.c. */
void request_refuse_oversize(struct grpc_call *call);
void request_set_phase(struct grpc_call *call, enum request_phase phase);
/* The layer answers what looks like gRPC and is none, without a body. status: static. */
void request_refuse_http(struct grpc_call *call, const char *status);
/* The request is over without a service having seen it; the answer is the caller's. */
void request_give_up(struct grpc_call *call);
/* OK, E_NOMEM, or E_LIMIT: unfinished requests hold so much that this one is not taken as well. */
enum status request_take_bytes(struct grpc_call *call, struct bytes bytes);
/* The message is needed no more. */
void request_drop_message(struct grpc_call *call);
/* It is counted no more, though its handler still has it. */
void request_uncount(struct grpc_call *call);
/* A large message may come at full speed. */
void request_widen_window(struct grpc_call *call, size_t wish);
/* The next of the fields that were kept, from *rest, which moves on. */
bool request_next_field(struct bytes *rest, struct bytes *name, struct bytes *value);

/* h2_http.c: what request.c does for gRPC */
void http_headers_done(struct grpc_call *call);
/* The layer answers in the service's place. */
void http_refuse(struct grpc_call *call, enum http_refusal why);
void http_data(struct grpc_call *call, struct bytes data);
void http_end(struct grpc_call *call);
/* The peer is gone. */
void http_close(struct grpc_call *call);
/* Streamed answers that the peer does not take. Answers when to look again. */
int64_t http_tick(struct h2 *h2);

/* grpc_text.c */
/* "10S", "100m": up to eight digits and a unit. False when it is not. */
bool grpc_parse_timeout(struct bytes value, int64_t *timeout_ns);
/* Percent-encodes what may not stand in a header: < 0x20, > 0x7e and '%'. */
void grpc_encode_text(const char *text, struct buffer *out);
/* "0", "1", ... static. */
const char *grpc_code_digits(enum grpc_code code);

#endif
