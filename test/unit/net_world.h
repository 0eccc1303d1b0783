/* SPDX-License-Identifier: Apache-2.0
 *
 * A connection in memory with a peer that can say anything: frames are written by hand here, valid
 * or not, and what the connection sends is read back frame by frame into a trace:
 *
 *      1 headers :status=200 content-type=application/grpc
 *      1 data 10
 *      1 end grpc-status=0
 *      3 reset 7
 *      goaway 11
 *
 * The service of gRPC does what the path says: /t/echo, /t/hold (until the test ends it), /t/fail.
 * That of HTTP says what it understood, or keeps the exchange for the test (is_page_held, or a path
 * that starts with /hold).
 */
#ifndef TEST_UNIT_NET_WORLD_H
#define TEST_UNIT_NET_WORLD_H

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "net/conn.h"
#include "test/lib/frames.h"
#include "test/lib/test.h"

#include <nghttp2/nghttp2.h>
#include <stdio.h>

#define HELD_N_MAX 4096
#define WORLD_START_NS (1000 * NS_PER_S)

struct world {
    struct mem mem;
    struct conn_limits limits;
    struct net_counters counters;
    struct grpc_service grpc;
    struct http_service http;
    struct conn *conn;
    size_t *unfinished; /* of all connections, or NULL */
    const char *date;   /* or NULL */
    int64_t now_ns;
    struct buffer in;  /* what the peer is about to say */
    struct buffer out; /* what it was told and has not read */
    struct buffer trace;
    struct buffer data; /* of DATA frames that it has read */
    nghttp2_hd_inflater *inflater;

    struct grpc_call *held[HELD_N_MAX];
    size_t held_n;
    unsigned calls_n;
    unsigned closed_n;
    unsigned writable_n;
    unsigned oversize_n;
    uint64_t oversize_size;
    size_t oversize_start_size;
    bool is_finish_in_closed;
    char path[64];
    char header[64];
    size_t message_size;
    uint64_t digest; /* of all requests, in their order */

    struct http_exchange *exchange; /* of the last page that was not answered at once */
    bool is_page_held;
    bool is_page_kept; /* closed() leaves it to the test */
    unsigned pages_n;
    unsigned page_writable_n;

    unsigned resets_n;
    unsigned goaways_n;
    unsigned pings_n; /* not acknowledgements */
    unsigned acks_n;
    uint32_t goaway_code;
    uint64_t stream_grants; /* bytes of WINDOW_UPDATE for streams */
    uint32_t last_reset_code;
};

/* ---- the service ---- */

static inline void world_digest(struct world *w, struct bytes b)
{
    w->digest = (w->digest ^ bytes_hash(b)) * UINT64_C(0x9e3779b97f4a7c15) + b.len;
}

static inline void world_on_call(void *user, struct grpc_call *call, struct bytes message)
{
    struct world *w = user;
    struct bytes path = grpc_path(call);
    w->calls_n++;
    w->message_size = message.len;
    snprintf(w->path, sizeof w->path, "%.*s", (int)path.len, (const char *)path.ptr);
    struct bytes header = grpc_header(call, "taskhub");
    snprintf(w->header, sizeof w->header, "%.*s", (int)header.len, (const char *)header.ptr);
    world_digest(w, path);
    world_digest(w, message);
    if (bytes_equal(path, BYTES_LITERAL("/t/echo"))) {
        grpc_answer(call, message);
    } else if (bytes_equal(path, BYTES_LITERAL("/t/hold")) && w->held_n < HELD_N_MAX) {
        w->held[w->held_n++] = call;
    } else {
        grpc_finish(call, GRPC_NOT_FOUND, "100% gone: \"x\"\n\xc3\xa4");
    }
}

static inline void world_on_oversize(void *user, const struct grpc_call *call, uint64_t size,
                                     struct bytes start)
{
    struct world *w = user;
    (void)call;
    w->oversize_n++;
    w->oversize_size = size;
    w->oversize_start_size = start.len;
    world_digest(w, start);
}

static inline void world_on_writable(void *user, struct grpc_call *call)
{
    struct world *w = user;
    (void)call;
    w->writable_n++;
}

static inline void world_forget(struct world *w, const struct grpc_call *call)
{
    for (size_t i = 0; i < w->held_n; i++) {
        if (w->held[i] == call) w->held[i] = w->held[--w->held_n];
    }
}

static inline void world_on_closed(void *user, struct grpc_call *call)
{
    struct world *w = user;
    w->closed_n++;
    EXPECT(grpc_is_closed(call));
    if (!w->is_finish_in_closed) return;
    world_forget(w, call);
    grpc_finish(call, GRPC_CANCELLED, NULL);
}

/* The answer says what was understood. */
static inline void world_answer_page(struct world *w, struct http_exchange *e)
{
    struct buffer b;
    buffer_init(&b, &w->mem);
    buffer_append_bytes(&b, http_method(e));
    buffer_u8(&b, ' ');
    buffer_append_bytes(&b, http_path(e));
    buffer_u8(&b, '|');
    buffer_append_bytes(&b, http_query(e));
    buffer_u8(&b, '|');
    buffer_append_bytes(&b, http_header(e, "x-test"));
    buffer_u8(&b, '|');
    buffer_append_bytes(&b, http_body(e));
    world_digest(w, buffer_view(&b));
    http_answer(e, 200, "text/plain", buffer_view(&b));
    buffer_release(&b);
}

static inline void world_on_page(void *user, struct http_exchange *e)
{
    struct world *w = user;
    w->pages_n++;
    if (w->is_page_held || bytes_start_with(http_path(e), BYTES_LITERAL("/hold")))
        w->exchange = e;
    else
        world_answer_page(w, e);
}

static inline void world_on_page_writable(void *user, struct http_exchange *e)
{
    struct world *w = user;
    (void)e;
    w->page_writable_n++;
}

/* A streamed answer, whose service knows that it has begun. */
static inline void world_begin_page(struct world *w, const char *type)
{
    http_set_user(w->exchange, w);
    http_begin(w->exchange, 200, type);
}

static inline void world_end_page(struct http_exchange *e)
{
    if (http_user(e) != NULL)
        http_finish(e, true);
    else
        http_answer(e, 200, NULL, BYTES_NONE);
}

static inline void world_on_page_closed(void *user, struct http_exchange *e)
{
    struct world *w = user;
    w->closed_n++;
    EXPECT(http_is_closed(e));
    if (w->is_page_kept) return;
    w->exchange = NULL;
    world_end_page(e);
}

/* ---- the connection ---- */

static inline void world_connect(struct world *w, bool is_trusted)
{
    struct conn_options options = {.mem = &w->mem,
                                   .limits = &w->limits,
                                   .counters = &w->counters,
                                   .grpc = &w->grpc,
                                   .http = &w->http,
                                   .unfinished_size = w->unfinished,
                                   .date = w->date,
                                   .is_trusted = is_trusted};
    EXPECT_STATUS(OK, conn_new(&options, w->now_ns, &w->conn));
}

static inline void world_init(struct world *w)
{
    memset(w, 0, sizeof *w);
    mem_init(&w->mem, SIZE_MAX);
    conn_limits_init(&w->limits);
    w->limits.message_size_max = 1024 * 1024;
    w->now_ns = WORLD_START_NS;
    w->is_finish_in_closed = true;
    w->grpc = (struct grpc_service){.user = w,
                                    .call = world_on_call,
                                    .oversize = world_on_oversize,
                                    .writable = world_on_writable,
                                    .closed = world_on_closed};
    w->http = (struct http_service){.user = w,
                                    .request = world_on_page,
                                    .writable = world_on_page_writable,
                                    .closed = world_on_page_closed};
    buffer_init(&w->in, mem_process());
    buffer_init(&w->out, mem_process());
    buffer_init(&w->trace, mem_process());
    buffer_init(&w->data, mem_process());
    EXPECT_EQ(0, nghttp2_hd_inflate_new(&w->inflater));
}

static inline void world_finish_held(struct world *w)
{
    while (w->held_n > 0) grpc_finish(w->held[--w->held_n], GRPC_OK, NULL);
}

/* Everything must be given back. */
static inline void world_release(struct world *w)
{
    if (w->conn != NULL) conn_free(w->conn, w->now_ns);
    w->conn = NULL;
    world_finish_held(w);
    EXPECT_EQ(0, w->mem.used);
    mem_release(&w->mem);
    buffer_release(&w->in);
    buffer_release(&w->out);
    buffer_release(&w->trace);
    buffer_release(&w->data);
    nghttp2_hd_inflate_del(w->inflater);
}

/* ---- what it reads ---- */

static inline void trace_headers(struct world *w, uint32_t stream, bool is_end, struct bytes block)
{
    const uint8_t *at = block.ptr;
    size_t left = block.len;
    buffer_format(&w->trace, "%u %s", stream, is_end ? "end" : "headers");
    for (;;) {
        nghttp2_nv header;
        int flags = 0;
        ssize_t n = nghttp2_hd_inflate_hd2(w->inflater, &header, &flags, at, left, 1);
        EXPECT(n >= 0);
        at += n;
        left -= (size_t)n;
        if (flags & NGHTTP2_HD_INFLATE_EMIT)
            buffer_format(&w->trace, " %.*s=%.*s", (int)header.namelen, header.name,
                          (int)header.valuelen, header.value);
        if (flags & NGHTTP2_HD_INFLATE_FINAL) break;
    }
    nghttp2_hd_inflate_end_headers(w->inflater);
    buffer_u8(&w->trace, '\n');
}

static inline uint32_t load_be32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static inline void trace_frame(struct world *w, const uint8_t *head, struct bytes payload)
{
    uint32_t stream = load_be32(head + 5);
    uint8_t flags = head[4];
    switch (head[3]) {
    case NGHTTP2_HEADERS: trace_headers(w, stream, (flags & END_STREAM) != 0, payload); break;
    case NGHTTP2_DATA:
        buffer_append_bytes(&w->data, payload);
        buffer_format(&w->trace, "%u data %zu%s\n", stream, payload.len,
                      (flags & END_STREAM) != 0 ? " end" : "");
        break;
    case NGHTTP2_RST_STREAM:
        w->resets_n++;
        w->last_reset_code = load_be32(payload.ptr);
        buffer_format(&w->trace, "%u reset %u\n", stream, w->last_reset_code);
        break;
    case NGHTTP2_GOAWAY:
        w->goaways_n++;
        w->goaway_code = load_be32(payload.ptr + 4);
        buffer_format(&w->trace, "goaway %u\n", w->goaway_code);
        break;
    case NGHTTP2_WINDOW_UPDATE:
        if (stream != 0) w->stream_grants += load_be32(payload.ptr);
        break;
    case NGHTTP2_PING:
        if (flags & NGHTTP2_FLAG_ACK)
            w->acks_n++;
        else
            w->pings_n++;
        break;
    default: break;
    }
}

/* Takes all that the connection has to send. */
static inline void world_pull(struct world *w)
{
    size_t start = w->out.len;
    while (conn_pull(w->conn, w->now_ns, &w->out, 64 * 1024)) {
    }
    conn_sent(w->conn, w->now_ns, w->out.len - start);
}

/* And reads it as frames. */
static inline void world_read(struct world *w)
{
    world_pull(w);
    size_t at = 0;
    while (at < w->out.len) {
        const uint8_t *head = w->out.ptr + at;
        size_t size = (size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2];
        EXPECT(at + 9 + size <= w->out.len); /* whole frames only */
        if (w->trace.len > 1024 * 1024) buffer_clear(&w->trace);
        if (w->data.len > 4 * 1024 * 1024) buffer_clear(&w->data);
        trace_frame(w, head, bytes_make(head + 9, size));
        at += 9 + size;
    }
    buffer_clear(&w->out);
}

/* Sends what was put, and reads the answers. */
static inline enum status world_say(struct world *w)
{
    enum status status = conn_feed(w->conn, w->now_ns, buffer_view(&w->in));
    buffer_clear(&w->in);
    world_read(w);
    return status;
}

/* What was traced since the last call. */
static inline const char *world_trace(struct world *w)
{
    static char text[8192];
    size_t len = w->trace.len < sizeof text - 1 ? w->trace.len : sizeof text - 1;
    if (len > 0) memcpy(text, w->trace.ptr, len);
    text[len] = 0;
    buffer_clear(&w->trace);
    return text;
}

/* An HTTP/2 connection that has said hello. */
static inline void world_greet(struct world *w)
{
    world_connect(w, true);
    put_greeting(&w->in);
    put_settings_ack(&w->in);
    EXPECT_STATUS(OK, world_say(w));
    (void)world_trace(w);
}

/* Time passes, with time-outs looked at when they are due. */
static inline void world_wait_ms(struct world *w, int64_t ms)
{
    int64_t end_ns = w->now_ns + ms * NS_PER_MS;
    int64_t next_ns;
    while ((next_ns = conn_tick(w->conn, w->now_ns)) < end_ns) {
        EXPECT(next_ns > w->now_ns);
        w->now_ns = next_ns;
    }
    w->now_ns = end_ns;
    (void)conn_tick(w->conn, w->now_ns);
}

#endif
