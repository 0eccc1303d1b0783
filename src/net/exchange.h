/* SPDX-License-Identifier: Apache-2.0
 *
 * What an HTTP/1.1 request and one over HTTP/2 have in common: http.c is the contract of http.h
 * over this, and the two protocols differ in the operations. Each embeds it in its own object, so
 * an exchange costs no memory of its own.
 *
 *      idle ──request complete──> open ──http_answer()───────────────────> idle
 *                                   └──http_begin()──> begun ──http_finish()──┘
 */
#ifndef NET_EXCHANGE_H
#define NET_EXCHANGE_H

#include "base/bytes.h"
#include "net/http.h"

/* Of the fields that a service adds to one answer; beyond they are dropped. */
#define ANSWER_FIELDS_SIZE_MAX (8 * 1024)
#define ANSWER_FIELDS_N_MAX 32

/* What http.c has checked before: the exchange is open, its answer has or has not begun, the peer
 * is there (send, is_full). answer() and finish() end the exchange: the object may be gone then. */
struct exchange_ops {
    struct bytes (*header)(const struct http_exchange *exchange, const char *name);
    void (*answer)(struct http_exchange *exchange, unsigned status, const char *type,
                   struct bytes body);
    void (*begin)(struct http_exchange *exchange, unsigned status, const char *type);
    enum status (*send)(struct http_exchange *exchange, struct bytes part);
    bool (*is_full)(struct http_exchange *exchange);
    size_t (*queued)(const struct http_exchange *exchange);
    void (*finish)(struct http_exchange *exchange, bool is_whole);
};

struct http_exchange {
    const struct exchange_ops *ops;
    /* Of the request; they point into memory of the protocol that stays while it is open. */
    struct bytes method;
    struct bytes path;
    struct bytes query;
    struct bytes body;
    struct buffer fields; /* of the answer, as HTTP/1.1 writes them: "name: value\r\n" */
    uint32_t fields_n;
    void *user;
    bool is_open;   /* the service has it */
    bool is_begun;  /* http_begin() */
    bool is_closed; /* the peer is gone */
    bool is_head;   /* the answer has no body */
    bool is_trusted;
    const char *peer; /* of its connection, while that is there */
};

/* Given to the service next. The request's parts are set by the caller. */
void exchange_open(struct http_exchange *exchange);
/* Ended: it holds nothing of its answer any more. */
void exchange_end(struct http_exchange *exchange);

/* The answer to come is a refusal of the layer: writes the body, which may be empty without memory,
 * and the fields that go with it; answers the type. */
const char *exchange_refuse(struct http_exchange *exchange, const struct http_service *service,
                            enum http_refusal why, struct buffer *body);

/* The next of the fields that were added, from *rest, which moves on. False: there is none. */
bool exchange_next_field(struct bytes *rest, struct bytes *name, struct bytes *value);

/* Whether an answer of this status has a body at all (RFC 9110: not 1xx, 204, 304). */
bool http_status_has_body(unsigned status);

/* number, reason of RFC 9110 (and 6585) */
#define HTTP_STATUSES(X)                                                                           \
    X(200, "OK")                                                                                   \
    X(201, "Created")                                                                              \
    X(202, "Accepted")                                                                             \
    X(204, "No Content")                                                                           \
    X(207, "Multi-Status")                                                                         \
    X(301, "Moved Permanently")                                                                    \
    X(302, "Found")                                                                                \
    X(303, "See Other")                                                                            \
    X(304, "Not Modified")                                                                         \
    X(307, "Temporary Redirect")                                                                   \
    X(308, "Permanent Redirect")                                                                   \
    X(400, "Bad Request")                                                                          \
    X(401, "Unauthorized")                                                                         \
    X(403, "Forbidden")                                                                            \
    X(404, "Not Found")                                                                            \
    X(405, "Method Not Allowed")                                                                   \
    X(406, "Not Acceptable")                                                                       \
    X(408, "Request Timeout")                                                                      \
    X(409, "Conflict")                                                                             \
    X(410, "Gone")                                                                                 \
    X(411, "Length Required")                                                                      \
    X(412, "Precondition Failed")                                                                  \
    X(413, "Content Too Large")                                                                    \
    X(414, "URI Too Long")                                                                         \
    X(415, "Unsupported Media Type")                                                               \
    X(417, "Expectation Failed")                                                                   \
    X(421, "Misdirected Request")                                                                  \
    X(422, "Unprocessable Content")                                                                \
    X(428, "Precondition Required")                                                                \
    X(429, "Too Many Requests")                                                                    \
    X(431, "Request Header Fields Too Large")                                                      \
    X(500, "Internal Server Error")                                                                \
    X(501, "Not Implemented")                                                                      \
    X(503, "Service Unavailable")                                                                  \
    X(504, "Gateway Timeout")                                                                      \
    X(505, "HTTP Version Not Supported")                                                           \
    X(507, "Insufficient Storage")

/* Static; "Status" for one that has no name here. */
const char *http_status_reason(unsigned status);

/* Decimal digits; no NUL. Answers how many. */
#define DIGITS_SIZE 20
size_t http_digits(uint64_t value, char out[DIGITS_SIZE]);

#endif
