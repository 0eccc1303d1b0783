/* SPDX-License-Identifier: Apache-2.0
 *
 * What the server answers over HTTP/1.1: is it alive, is it ready, which version, what has it
 * counted. Everything on the network's thread.
 */
#ifndef SERVER_PAGES_H
#define SERVER_PAGES_H

#include "net/http.h"
#include "server/metrics.h"
#include "server/vitals.h"

struct pages;

/* What the pages ask of the server around them. */
struct pages_source {
    void *user;
    int64_t (*now_ns)(void *user);
    /* All but `host`. */
    void (*metrics)(void *user, struct metrics *out);
};

struct pages_options {
    struct mem *mem;
    struct vitals *vitals; /* outlives the pages */
    struct pages_source source;
};

/* E_NOMEM. */
enum status pages_new(const struct pages_options *options, struct pages **out);
/* No exchange waits any more: the vitals were freed. */
void pages_free(struct pages *p);
const struct http_service *pages_http(const struct pages *p);

#endif
