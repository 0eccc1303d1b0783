/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as what an HTTP/1.1 peer says. Fed in one piece, and in pieces of sizes that the first
 * byte chooses, they give the same requests and the same answers, byte for byte, whether these are
 * given at once or later, whole or streamed, one at a time or many at once; an answer is never more
 * than one for each request; a peer that ends its side gets them all; memory stays bounded;
 * everything is given back at the end.
 */
#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"
#include "net/conn.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MEMORY_MAX (256 * 1024)
#define MEMORY_PER_BYTE 64
#define HELD_N_MAX 64
#define MESSAGE_SIZE_MAX 1000

struct run {
    struct mem mem;
    struct net_counters counters;
    struct buffer out;
    struct http_exchange *held[HELD_N_MAX]; /* answered later */
    size_t held_n;
    bool is_backwards; /* the newest first */
    uint64_t requests_n;
    uint64_t digest;
};

static void digest(struct run *r, struct bytes b)
{
    r->digest = (r->digest ^ bytes_hash(b)) * UINT64_C(0x9e3779b97f4a7c15) + b.len;
}

/* What the peer sent comes back in a field: it must not be able to begin another. */
static void answer(struct run *r, struct http_exchange *e)
{
    http_add_header(e, "x-back", http_header(e, "x-test"));
    http_add_header(e, "x-query", http_query(e));
    if (r->requests_n % 2 == 0) {
        http_answer(e, 200, "text/plain", http_body(e));
        return;
    }
    http_begin(e, 200, "text/plain");
    enum status status = http_send(e, http_body(e));
    assert(status == OK);
    status = http_send(e, http_path(e));
    assert(status == OK);
    http_finish(e, r->requests_n % 9 != 0);
}

static void on_request(void *user, struct http_exchange *e)
{
    struct run *r = user;
    struct bytes path = http_path(e);
    assert(http_method(e).len > 0);
    assert(path.len > 0);
    assert(path.ptr[0] == '/' || bytes_equal(path, BYTES_LITERAL("*")));
    assert(http_body(e).len <= MESSAGE_SIZE_MAX);
    digest(r, http_method(e));
    digest(r, path);
    digest(r, http_query(e));
    digest(r, http_header(e, "host"));
    digest(r, http_header(e, "x-test"));
    digest(r, http_body(e));
    if (++r->requests_n % 3 == 1) {
        answer(r, e);
        return;
    }
    assert(r->held_n < HELD_N_MAX);
    r->held[r->held_n++] = e;
    if (r->requests_n % 2 == 0) return;
    http_set_user(e, r); /* it has begun */
    http_begin(e, 200, "text/plain");
    enum status status = http_send(e, path);
    assert(status == OK);
}

static void end_one(struct run *r, size_t n)
{
    struct http_exchange *e = r->held[n];
    memmove(r->held + n, r->held + n + 1, (--r->held_n - n) * sizeof r->held[0]);
    if (http_user(e) != NULL)
        http_finish(e, true);
    else
        http_answer(e, 204, NULL, BYTES_NONE);
}

static void on_closed(void *user, struct http_exchange *e)
{
    struct run *r = user;
    size_t n = 0;
    while (n < r->held_n && r->held[n] != e) n++;
    assert(n < r->held_n);
    assert(http_is_closed(e));
    end_one(r, n);
}

static void on_half_closed(void *user, struct http_exchange *e)
{
    (void)user;
    assert(!http_is_closed(e));
}

/* GET beside GET, POST beside POST. */
static bool is_beside(void *user, const struct http_exchange *before,
                      const struct http_exchange *next)
{
    (void)user;
    return bytes_equal(http_method(before), http_method(next));
}

static void on_writable(void *user, struct http_exchange *e)
{
    (void)user;
    (void)e;
    unreachable("nobody asked whether it is full");
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

/* seed 0: in one piece. */
static void run(struct run *r, struct bytes bytes, uint32_t seed)
{
    struct conn_limits limits;
    struct grpc_service grpc = {.user = r,
                                .call = on_call,
                                .oversize = on_oversize,
                                .writable = on_call_event,
                                .closed = on_call_event};
    struct http_service http = {.user = r,
                                .request = on_request,
                                .writable = on_writable,
                                .closed = on_closed,
                                .half_closed = on_half_closed,
                                .is_beside = is_beside};
    struct conn_options options = {
        .mem = &r->mem, .limits = &limits, .counters = &r->counters, .grpc = &grpc, .http = &http};
    struct conn *c = NULL;
    size_t size = bytes.len;

    *r = (struct run){.is_backwards = seed % 2 == 1};
    mem_init(&r->mem, SIZE_MAX);
    buffer_init(&r->out, mem_process());
    conn_limits_init(&limits);
    limits.message_size_max = MESSAGE_SIZE_MAX;
    enum status status = conn_new(&options, NS_PER_S, &c);
    assert(status == OK);
    while (bytes.len > 0) {
        size_t n = bytes.len;
        if (seed != 0) {
            seed = seed * 1664525 + 1013904223;
            size_t piece_size = 1 + (seed >> 16) % ((seed >> 28) + 1);
            if (piece_size < n) n = piece_size;
        }
        (void)conn_feed(c, NS_PER_S, bytes_make(bytes.ptr, n));
        bytes = bytes_make(bytes.ptr + n, bytes.len - n);
    }
    bool is_known = conn_end_input(c, NS_PER_S);
    /* What waits behind a held request comes when it is answered. */
    while (r->held_n > 0) {
        end_one(r, r->is_backwards ? r->held_n - 1 : 0);
        pull(r, c);
    }
    pull(r, c);
    assert(!is_known || conn_is_over(c));
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
    run(&whole, bytes, 0);
    run(&pieces, bytes, (uint32_t)data[0] + 1);
    forget_continue(&whole.out);
    forget_continue(&pieces.out);
    assert(whole.digest == pieces.digest);
    assert(whole.requests_n == pieces.requests_n);
    assert(bytes_equal(buffer_view(&whole.out), buffer_view(&pieces.out)));
    buffer_release(&whole.out);
    buffer_release(&pieces.out);
    return 0;
}
