/* SPDX-License-Identifier: Apache-2.0
 *
 * HTTP requests as a service sees them, over HTTP/1.1 and HTTP/2 alike. Everything on the
 * connection's thread.
 *
 *      complete request ──> service->request() ──> http_answer()                  the usual way
 *                                              └─> http_begin() http_send()* http_finish()
 *                     │                                          a body that is made as it goes
 *                     └─ service->closed(): the peer is gone. Nothing that is sent reaches anybody
 *                        any more; the handler still has to end the exchange.
 *
 * An exchange lives until http_answer() or http_finish(). Chunked bodies of requests arrive whole,
 * as others do; `Expect: 100-continue` is answered by the layer when the request's head is good.
 */
#ifndef NET_HTTP_H
#define NET_HTTP_H

#include "base/bytes.h"
#include "base/status.h"
#include "net/refusal.h"

struct http_exchange;

struct http_service {
    void *user;
    /* The request is complete. May be answered at once, or later from the same thread. */
    void (*request)(void *user, struct http_exchange *exchange);
    /* It was full (http_is_full) and has room again. Never called, and may be NULL, for who does
     * not ask. */
    void (*writable)(void *user, struct http_exchange *exchange);
    /* The peer is gone. The handler still has to end the exchange. */
    void (*closed)(void *user, struct http_exchange *exchange);
    /* The peer has ended its side of the connection (HTTP/1.1). It may wait for the answer, or be
     * gone without a word, which looks the same: who waits for something that it would take from
     * others answers with nothing instead. May end the exchange. NULL: nobody cares. */
    void (*half_closed)(void *user, struct http_exchange *exchange);
    /* Whether `next` may be handled while `before`, which came before it on the same HTTP/1.1
     * connection, is not answered yet. Answers go out in the order of the requests whatever it
     * says. Has to be an equivalence: those beside the same are beside each other. NULL: never. */
    bool (*is_beside)(void *user, const struct http_exchange *before,
                      const struct http_exchange *next);
    /* The layer refuses a request: writes what its peer is told, and answers the media type
     * (static). NULL: it is told the reason, as text. */
    const char *(*refusal)(void *user, enum http_refusal why, struct buffer *body);
};

/* "GET"; valid while the exchange lives, as all below. */
struct bytes http_method(const struct http_exchange *exchange);
/* "/v1/instances", as it was sent, without the query. */
struct bytes http_path(const struct http_exchange *exchange);
/* What stands after the '?'; empty when there is nothing. */
struct bytes http_query(const struct http_exchange *exchange);
/* By lower-case name; empty when it was not sent. "host" is HTTP/2's :authority too. */
struct bytes http_header(const struct http_exchange *exchange, const char *name);
struct bytes http_body(const struct http_exchange *exchange);
/* The peer is on this machine. */
bool http_is_trusted(const struct http_exchange *exchange);
/* Its address, "127.0.0.1:40112"; "" when it is not known, or the peer is gone. */
const char *http_peer(const struct http_exchange *exchange);
void http_set_user(struct http_exchange *exchange, void *user);
void *http_user(const struct http_exchange *exchange);

/* A field of the answer, before http_answer() or http_begin(). Both are copied. name in lower case
 * ("retry-after"), static or not; not content-type, content-length, date or a field of the
 * connection: these are the layer's. A value that could not stand in a header (control characters)
 * is dropped, and so is what is beyond 32 fields or 8 KiB of one answer. */
void http_add_header(struct http_exchange *exchange, const char *name, struct bytes value);

/* type: media type; NULL = none (204, 304). body is copied. The end of the exchange. The answer to
 * a HEAD request goes without its body, and with its length. */
void http_answer(struct http_exchange *exchange, unsigned status, const char *type,
                 struct bytes body);

/* A body whose length is not known yet: chunked in HTTP/1.1, DATA frames in HTTP/2. */
void http_begin(struct http_exchange *exchange, unsigned status, const char *type);
/* Copied. E_CLOSED: the peer is gone (nothing happened). E_NOMEM. It is queued even when the
 * exchange is full: who streams asks first. */
enum status http_send(struct http_exchange *exchange, struct bytes part);
/* More waits for the peer than one exchange, or its connection, may keep: wait for writable(). */
bool http_is_full(struct http_exchange *exchange);
/* Bytes that wait for this peer. */
size_t http_queued(const struct http_exchange *exchange);
bool http_is_closed(const struct http_exchange *exchange);
/* The end of a begun body. is_whole false: cut off, so that the peer can tell (but for one of
 * HTTP/1.0, which cannot). */
void http_finish(struct http_exchange *exchange, bool is_whole);

#endif
