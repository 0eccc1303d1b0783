/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of HTTP/1.1 share, and nobody else sees.
 *
 *      h1.c         the connection: bytes in and out, reading requests, time-outs
 *      h1_queue.c   the requests that are under way, and the order of their answers
 *      h1_answer.c  the bytes of answers
 *      h1_head.c    the strict reading of a head; h1_chunk.c of a chunked body
 *
 * Several requests of one connection may be under way (http_service.beside), and their answers go
 * out in the order of the requests: the first in the queue writes to the connection's output, the
 * others into a buffer of their own until it is their turn.
 */
#ifndef NET_H1_STATE_H
#define NET_H1_STATE_H

#include "base/list.h"
#include "net/conn.h"
#include "net/exchange.h"
#include "net/h1_chunk.h"
#include "net/h1_head.h"

#define REQUESTS_N_MAX 64               /* under way on one connection */
#define REQUESTS_SIZE_MAX (1024 * 1024) /* of them: beyond, the next one waits */
#define OUT_SIZE_MAX (256 * 1024)       /* of answers; then the next request waits */

enum h1_phase {
    H1_WAITING, /* for the first byte of a request */
    H1_HEAD,
    H1_BODY,
    H1_READY, /* complete, and waits for those before it */
};

/* A request that the service has, or whose answer waits for its turn. It outlives its connection
 * until the service has ended it. */
struct h1_request {
    struct http_exchange exchange; /* first, see request_of() */
    struct h1 *h1;                 /* NULL once the connection is gone */
    struct mem *mem;
    struct list link; /* h1->requests or h1->spare */
    struct head head;
    size_t head_size;
    size_t body_size;    /* of a chunked body: decoded so far, and right behind the head */
    struct buffer bytes; /* head and body */
    struct buffer early; /* of its answer: what was written before its turn */
    bool is_last;        /* the connection ends with this answer */
    bool is_chunked;     /* the answer that has begun */
    bool is_full_told;   /* http_is_full() answered true: writable() is owed */
    bool is_half_told;   /* half_closed() was called */
    bool is_lost;        /* there was no memory for its answer: the connection ends before it */
    bool is_ended;       /* the service has done its part */
};

struct h1 {
    struct conn *conn;
    struct mem *mem;
    const struct conn_limits *limits;
    struct net_counters *counters;
    const struct http_service *service;
    const char *date; /* see conn.h */
    char peer[PEER_SIZE];
    bool is_trusted;

    enum h1_phase phase;  /* of `next` */
    bool is_draining;     /* the request that is coming, or the newest one, is the last */
    bool is_input_over;   /* the peer has ended its side */
    bool is_deaf;         /* nothing more is read; answers may still come */
    bool is_over;         /* nor do they */
    bool is_continue_due; /* the peer waits with its body until it is told to go on */
    bool is_free;         /* the last request was answered since the last look at the clock */
    int64_t now_ns;
    int64_t since_ns;    /* the phase */
    int64_t body_due_ns; /* until when more of the body must have come */
    size_t held;         /* of `in` and the requests: counted in *unfinished_all */
    size_t *unfinished_all;
    struct buffer in; /* what came and belongs to no complete request, from in_at on */
    size_t in_at;
    size_t ignored_size; /* came when nothing more was read */
    struct head_search search;
    bool is_empty_line_over; /* before the head; there was one, or there will be none */
    struct chunks chunks;
    struct h1_request *next; /* is being read; NULL between two requests */

    struct list requests; /* oldest first */
    uint32_t requests_n;
    size_t requests_size; /* bytes of those that are not ended */
    size_t early_size;    /* bytes of answers before their turn */
    struct list spare;    /* to be used again, with their memory */
    uint32_t spare_n;
    struct buffer out;
};

/* ---- h1_queue.c ---- */

/* NULL without memory. */
struct h1_request *h1_request_new(struct h1 *h1);
/* It was never under way. */
void h1_request_drop(struct h1_request *r);
void h1_spare_free(struct h1 *h1);
/* One more may be under way, as far as limits go. */
bool h1_has_room(const struct h1 *h1);
/* The service takes it beside those that are under way. */
bool h1_may_join(const struct h1 *h1, const struct h1_request *r);
/* Under way from now on; the service has it, and may have ended it on return. */
void h1_give_to_service(struct h1 *h1, struct h1_request *r);
/* The layer's own answer takes the request's place, and the connection ends with it. */
void h1_refuse(struct h1 *h1, struct h1_request *r, enum http_refusal why);
/* The peer has ended its side: tells those that are under way. */
void h1_tell_half_closed(struct h1 *h1);
/* Room was made in the output. */
void h1_tell_writable(struct h1 *h1);
/* The connection is gone: every request under way is told, and lives on until it is ended. */
void h1_abandon(struct h1 *h1);
/* It is over when nothing is read any more and no answer is missing. */
void h1_check_over(struct h1 *h1);

/* ---- h1_answer.c: into the output, or before its turn ---- */

/* The request's turn has come: its answer goes straight to the peer. */
static inline bool h1_is_first(const struct h1_request *r)
{
    return list_first(&r->h1->requests) == &r->link;
}
/* The whole answer of the layer or the service. type: NULL = none. */
void h1_write_answer(struct h1_request *r, unsigned status, const char *type, struct bytes body);
/* The head of an answer whose length is not known. */
void h1_write_begin(struct h1_request *r, unsigned status, const char *type);
/* E_NOMEM: nothing was written. */
enum status h1_write_part(struct h1_request *r, struct bytes part);
void h1_write_end(struct h1_request *r, bool is_whole);

#endif
