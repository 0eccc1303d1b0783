/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as what an HTTP/1.1 peer says. Fed in one piece, and in pieces of a size that the first
 * byte chooses, they give the same requests and the same answers, byte for byte; an answer is never
 * more than one for each request; memory stays bounded; everything is given back at the end.
 */
#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"
#include "net/conn.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MEMORY_MAX (64 * 1024)
#define MEMORY_PER_BYTE 64

struct run {
    struct mem mem;
    struct net_counters counters;
    struct buffer out;
    struct http_exchange *held; /* every third request is answered later */
    uint64_t requests_n;
    uint64_t digest;
};

static void digest(struct run *r, struct bytes b)
{
    r->digest = (r->digest ^ bytes_hash(b)) * UINT64_C(0x9e3779b97f4a7c15) + b.len;
}

static void on_request(void *user, struct http_exchange *e)
{
    struct run *r = user;
    struct bytes path = http_path(e);
    assert(r->held == NULL); /* one at a time */
    assert(http_method(e).len > 0);
    assert(path.len > 0);
    assert(path.ptr[0] == '/' || bytes_equal(path, BYTES_LITERAL("*")));
    digest(r, http_method(e));
    digest(r, path);
    digest(r, http_query(e));
    digest(r, http_header(e, "host"));
    digest(r, http_body(e));
    if (++r->requests_n % 3 == 0)
        r->held = e;
    else
        http_answer(e, 200, "text/plain", http_body(e));
}

static void on_closed(void *user, struct http_exchange *e)
{
    struct run *r = user;
    assert(r->held == e);
    r->held = NULL;
    http_answer(e, 200, "", BYTES_NONE);
}

static void on_call(void *user, struct grpc_call *call, struct bytes message)
{
    (void)user;
    (void)message;
    grpc_finish(call, GRPC_OK, NULL);
}

static void on_oversize(void *user, const struct grpc_call *call, uint64_t size, struct bytes start)
{
    (void)user;
    (void)call;
    (void)size;
    (void)start;
}

static void on_call_event(void *user, struct grpc_call *call)
{
    (void)user;
    (void)call;
}

static void pull(struct run *r, struct conn *c)
{
    size_t start = r->out.len;
    while (conn_pull(c, NS_PER_S, &r->out, 1000)) {
    }
    conn_sent(c, NS_PER_S, r->out.len - start);
}

static void run(struct run *r, struct bytes bytes, size_t piece_size)
{
    struct conn_limits limits;
    struct grpc_service grpc = {.user = r,
                                .call = on_call,
                                .oversize = on_oversize,
                                .writable = on_call_event,
                                .closed = on_call_event};
    struct http_service http = {.user = r, .request = on_request, .closed = on_closed};
    struct conn_options options = {
        .mem = &r->mem, .limits = &limits, .counters = &r->counters, .grpc = &grpc, .http = &http};
    struct conn *c = NULL;
    size_t size = bytes.len;

    *r = (struct run){.held = NULL};
    mem_init(&r->mem, SIZE_MAX);
    buffer_init(&r->out, mem_process());
    conn_limits_init(&limits);
    limits.message_size_max = 1000;
    enum status status = conn_new(&options, NS_PER_S, &c);
    assert(status == OK);
    while (bytes.len > 0) {
        size_t n = bytes.len < piece_size ? bytes.len : piece_size;
        (void)conn_feed(c, NS_PER_S, bytes_make(bytes.ptr, n));
        bytes = bytes_make(bytes.ptr + n, bytes.len - n);
    }
    /* What waits behind a held request comes when it is answered. */
    for (struct http_exchange *e; (e = r->held) != NULL;) {
        r->held = NULL;
        http_answer(e, 204, "", BYTES_NONE);
        pull(r, c);
    }
    pull(r, c);
    assert(r->mem.used_max < MEMORY_MAX + size * MEMORY_PER_BYTE);
    assert(conn_tick(c, NS_PER_S) > NS_PER_S);
    conn_free(c, NS_PER_S);
    mem_release(&r->mem);
}

/* Whether a peer is asked to go on depends on how much of its body is there already. */
static void forget_continue(struct buffer *b)
{
    struct bytes text = BYTES_LITERAL("HTTP/1.1 100 Continue\r\n\r\n");
    for (size_t at = 0; at + text.len <= b->len;) {
        if (memcmp(b->ptr + at, text.ptr, text.len) != 0) {
            at++;
            continue;
        }
        memmove(b->ptr + at, b->ptr + at + text.len, b->len - at - text.len);
        b->len -= text.len;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct run whole;
    static struct run pieces;

    if (size == 0 || (size > 3 && memcmp(data + 1, "PRI", 3) == 0)) return 0;
    struct bytes bytes = bytes_make(data + 1, size - 1);
    run(&whole, bytes, size);
    run(&pieces, bytes, (size_t)data[0] % 16 + 1);
    forget_continue(&whole.out);
    forget_continue(&pieces.out);
    assert(whole.digest == pieces.digest);
    assert(whole.requests_n == pieces.requests_n);
    assert(bytes_equal(buffer_view(&whole.out), buffer_view(&pieces.out)));
    buffer_release(&whole.out);
    buffer_release(&pieces.out);
    return 0;
}
