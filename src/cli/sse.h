/* SPDX-License-Identifier: Apache-2.0
 *
 * Server-sent events out of a body as it comes.
 */
#ifndef CLI_SSE_H
#define CLI_SSE_H

#include "cli/http_client.h"

/* Borrowed until the next call. */
struct sse_event {
    const char *id;    /* the last one given; "" when there was none */
    const char *event; /* "message" unless it says otherwise */
    struct bytes data;
};

struct sse_reader {
    struct http_client *client;
    struct buffer text; /* received, from `at` on not yet read */
    size_t at;
    struct buffer data; /* of the event being read */
    char id[128];
    char event[64];
    bool is_given; /* the event in data is complete and was told */
    bool is_end;
};

/* After http_client_begin(). */
void sse_init(struct sse_reader *r, struct http_client *client);
void sse_release(struct sse_reader *r);
/* E_CLOSED: the stream has ended. E_TIMEOUT after timeout_ms without anything; others as
 * http_client_read(). E_LIMIT: an event of more than 64 MiB. */
enum status sse_next(struct sse_reader *r, struct sse_event *out, int64_t timeout_ms);

#endif
