/* SPDX-License-Identifier: Apache-2.0
 *
 * The HTTP API (docs/reference/http-api.md): requests in JSON, answered by the engine behind a desk
 * of its own. Everything here runs on the network's thread. It has no socket and no clock of its
 * own but the wall's, for times that are relative.
 */
#ifndef REST_REST_H
#define REST_REST_H

#include "server/front.h"

struct rest;

/* E_NOMEM. now_ns: monotonic, as in all calls. */
enum status rest_new(const struct front_options *options, int64_t now_ns, struct rest **out);
/* Ends the thread of the streams. */
void rest_close(struct rest *r);
/* The engine is closed; no exchange is open any more. */
void rest_free(struct rest *r);

const struct http_service *rest_http(const struct rest *r);
void rest_set_now(struct rest *r, int64_t now_ns);
/* The desk's bell was rung. */
void rest_bell(struct rest *r);
/* Waits whose time is over. Answers when to call again. */
int64_t rest_tick(struct rest *r);
/* Waiting requests are answered at once, new ones with 503. Over when rest_is_quiet(). */
void rest_drain(struct rest *r);
bool rest_is_quiet(const struct rest *r);
void rest_stats(const struct rest *r, struct front_stats *out);

/* All of the above, for the server. */
extern const struct front_ops rest_front;

/* For tests of the document: the nth route as method and pattern; false beyond the last. */
bool rest_route(unsigned n, const char **method, const char **pattern, const char **operation);
/* The OpenAPI document; static. */
struct bytes rest_openapi(void);

#endif
