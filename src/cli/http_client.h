/* SPDX-License-Identifier: Apache-2.0
 *
 * A small HTTP/1.1 client: one connection, one request at a time, blocking with time-outs. The
 * connection is kept for the next request. Answers come whole, or part by part for streams of
 * events.
 *
 * Belongs to one thread.
 */
#ifndef CLI_HTTP_CLIENT_H
#define CLI_HTTP_CLIENT_H

#include "base/bytes.h"
#include "base/status.h"
#include "cli/url.h"

/* Longer heads are refused. */
#define HTTP_HEAD_SIZE_MAX ((size_t)64 << 10)
/* Longer answers are refused. */
#define HTTP_BODY_SIZE_MAX ((size_t)1 << 30)

struct http_client {
    struct mem *mem;
    struct url url;
    int fd;       /* -1: not connected */
    bool is_used; /* a request was answered on this connection */
    int64_t deadline_ns;
    struct buffer in; /* received and not yet read, from `at` on */
    size_t at;
    /* of the present answer's body */
    enum { BODY_NONE, BODY_LENGTH, BODY_CHUNKED, BODY_UNTIL_CLOSE } body;
    uint64_t left; /* of the body, or of the chunk */
    bool is_chunk_open;
    bool is_last;    /* the connection ends with this answer */
    char error[320]; /* of the last failure, for people */
};

struct http_call {
    const char *method;
    const char *path;    /* with parameters, encoded; the url's base goes before it */
    const char *type;    /* of the body; NULL = application/json */
    const char *headers; /* more lines, each with \r\n; NULL = none */
    struct bytes body;
    int64_t timeout_ms; /* of the whole call */
};

struct http_reply {
    unsigned status;
    unsigned retry_after_s; /* 0: not said */
    bool is_json;           /* application/json, problem+json, x-ndjson */
    bool is_events;         /* text/event-stream */
    struct bytes body;      /* whole; borrowed until the next call of this client */
};

void http_client_init(struct http_client *c, struct mem *mem, const struct url *url);
void http_client_close(struct http_client *c);

/* OK whatever the status of the answer is. E_UNAVAILABLE: nobody answers there. E_TIMEOUT.
 * E_CLOSED: the connection broke before the answer was whole; what was asked may have been done.
 * E_CORRUPT: the answer is not HTTP. E_LIMIT, E_NOMEM. c->error says what, for people. */
enum status http_client_call(struct http_client *c, const struct http_call *call,
                             struct http_reply *out);

/* The same, only the head of the answer; then read the body part by part. */
enum status http_client_begin(struct http_client *c, const struct http_call *call,
                              struct http_reply *out);
/* Appends what is there of the body, at least one byte; nothing and OK at its end (*is_end). Waits
 * at most timeout_ms: E_TIMEOUT then, and one may go on reading. */
enum status http_client_read(struct http_client *c, struct buffer *out, bool *is_end,
                             int64_t timeout_ms);

#endif
