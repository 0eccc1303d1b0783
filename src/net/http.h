/* SPDX-License-Identifier: Apache-2.0
 *
 * HTTP/1.1 requests as a service sees them. Everything on the connection's thread. An exchange
 * lives until http_answer().
 */
#ifndef NET_HTTP_H
#define NET_HTTP_H

#include "base/bytes.h"
#include "base/status.h"

struct http_exchange;

struct http_service {
    void *user;
    /* The request is complete. May be answered at once, or later from the same thread. */
    void (*request)(void *user, struct http_exchange *exchange);
    /* The peer is gone. The handler still has to call http_answer(). */
    void (*closed)(void *user, struct http_exchange *exchange);
};

/* "GET"; valid while the exchange lives, as all below. */
struct bytes http_method(const struct http_exchange *exchange);
/* "/v1/instances", as it was sent, without the query. */
struct bytes http_path(const struct http_exchange *exchange);
/* What stands after the '?'; empty when there is nothing. */
struct bytes http_query(const struct http_exchange *exchange);
/* By lower-case name; empty when it was not sent. */
struct bytes http_header(const struct http_exchange *exchange, const char *name);
struct bytes http_body(const struct http_exchange *exchange);
void http_set_user(struct http_exchange *exchange, void *user);
void *http_user(const struct http_exchange *exchange);

/* type: media type. body is copied. The end of the exchange. */
void http_answer(struct http_exchange *exchange, unsigned status, const char *type,
                 struct bytes body);

#endif
