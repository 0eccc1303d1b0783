/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of HTTP/1.1 share, and nobody else sees.
 *
 *      h1.c         the connection: bytes in and out, requests, time-outs
 *      h1_answer.c  the bytes of answers
 *      h1_head.c    the strict reading of a head; h1_chunk.c of a chunked body
 */
#ifndef NET_H1_STATE_H
#define NET_H1_STATE_H

#include "net/conn.h"
#include "net/exchange.h"
#include "net/h1_chunk.h"
#include "net/h1_head.h"

enum h1_phase { H1_WAITING, H1_HEAD, H1_BODY, H1_BUSY };

struct h1 {
    struct http_exchange exchange; /* there is one at a time */
    struct conn *conn;             /* NULL once the connection is gone */
    struct mem *mem;
    const struct conn_limits *limits;
    struct net_counters *counters;
    const struct http_service *service;
    const char *date; /* see conn.h */
    char peer[PEER_SIZE];

    enum h1_phase phase;
    bool is_last;         /* the connection ends with this answer */
    bool is_over;         /* nothing more is read */
    bool is_chunked;      /* the answer that has begun */
    bool is_full_told;    /* http_is_full() answered true: writable() is owed */
    bool is_continue_due; /* the peer waits with its body until it is told to go on */
    int64_t now_ns;
    int64_t since_ns;    /* the phase */
    int64_t body_due_ns; /* until when more of the body must have come */
    size_t held;         /* of `in` and `request`: counted in *unfinished_all */
    size_t *unfinished_all;
    struct buffer in; /* what came and belongs to no complete request, from in_at on */
    size_t in_at;
    struct head_search search;
    bool is_empty_line_over; /* before the head; there was one, or there will be none */
    struct head head;
    size_t head_size;
    size_t body_size; /* of a chunked body: decoded so far, and right behind the head */
    struct chunks chunks;
    struct buffer request; /* head and body of the request that is busy */
    struct buffer out;
};

/* The whole answer of the layer or the service. type: NULL = none. */
void h1_write_answer(struct h1 *h1, unsigned status, const char *type, struct bytes body);
/* The head of an answer whose length is not known. */
void h1_write_begin(struct h1 *h1, unsigned status, const char *type);
/* E_NOMEM: nothing was written. */
enum status h1_write_part(struct h1 *h1, struct bytes part);
void h1_write_end(struct h1 *h1, bool is_whole);

#endif
