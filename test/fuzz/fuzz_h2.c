/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as what an HTTP/2 peer says after its greeting. Fed in one piece, and in pieces of a
 * size that the first byte chooses, they give the same calls of gRPC and the same requests of HTTP;
 * memory stays bounded by what was fed; and with time passing and answers pulled in between,
 * everything is given back at the end.
 */
#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"
#include "net/conn.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define GREETING "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"
#define HELD_N_MAX 128
#define MESSAGE_SIZE_MAX 1000
#define MEMORY_MAX (512 * 1024)
#define MEMORY_PER_BYTE 128 /* a frame of nine bytes can cost an answer of some hundred */

struct run {
    struct mem mem;
    struct conn *conn;
    struct net_counters counters;
    struct grpc_call *held[HELD_N_MAX];
    size_t held_n;
    struct http_exchange *pages[HELD_N_MAX]; /* those with a user have begun */
    size_t pages_held_n;
    uint64_t digest;
    uint64_t calls_n;
    uint64_t pages_n;
};

static void digest(struct run *r, struct bytes b)
{
    r->digest = (r->digest ^ bytes_hash(b)) * UINT64_C(0x9e3779b97f4a7c15) + b.len;
}

/* What happens to a call depends on the length of its path. */
static void on_call(void *user, struct grpc_call *call, struct bytes message)
{
    struct run *r = user;
    struct bytes path = grpc_path(call);
    r->calls_n++;
    digest(r, path);
    digest(r, message);
    digest(r, grpc_header(call, "taskhub"));
    if (path.len % 3 == 0) {
        grpc_answer(call, message);
    } else if (path.len % 3 == 1 && r->held_n < HELD_N_MAX) {
        enum status status = grpc_send(call, message);
        assert(status == OK);
        (void)grpc_is_full(call);
        r->held[r->held_n++] = call;
    } else {
        grpc_finish(call, GRPC_INTERNAL, "100%\n");
    }
}

static void on_oversize(void *user, const struct grpc_call *call, uint64_t size, struct bytes start)
{
    (void)call;
    digest(user, bytes_make(&size, sizeof size));
    digest(user, start);
}

static void on_writable(void *user, struct grpc_call *call)
{
    (void)user;
    assert(!grpc_is_closed(call));
}

static void on_closed(void *user, struct grpc_call *call)
{
    (void)user;
    assert(grpc_is_closed(call)); /* still held: finished at the end */
}

/* The same for a request of HTTP. */
static void on_page(void *user, struct http_exchange *e)
{
    struct run *r = user;
    struct bytes path = http_path(e);
    r->pages_n++;
    assert(http_method(e).len > 0);
    assert(path.len > 0);
    assert(http_body(e).len <= MESSAGE_SIZE_MAX);
    digest(r, http_method(e));
    digest(r, path);
    digest(r, http_query(e));
    digest(r, http_header(e, "host"));
    digest(r, http_header(e, "content-type"));
    digest(r, http_body(e));
    http_add_header(e, "x-back", http_query(e));
    if (path.len % 4 == 0 || r->pages_held_n == HELD_N_MAX) {
        http_answer(e, 200, "text/plain", path);
        return;
    }
    if (path.len % 4 > 1) {
        http_set_user(e, r);
        http_begin(e, 200, "text/plain");
        enum status status = http_send(e, path);
        assert(status == OK);
        (void)http_is_full(e);
    }
    if (path.len % 4 == 3)
        http_finish(e, http_query(e).len > 0);
    else
        r->pages[r->pages_held_n++] = e;
}

static void on_page_event(void *user, struct http_exchange *e)
{
    (void)user;
    (void)e; /* still held: ended at the end */
}

static void end_pages(struct run *r)
{
    while (r->pages_held_n > 0) {
        struct http_exchange *e = r->pages[--r->pages_held_n];
        digest(r, http_path(e)); /* it is there as long as the exchange */
        if (http_user(e) != NULL)
            http_finish(e, true);
        else
            http_answer(e, 201, "text/plain", http_body(e));
    }
}

static void run(struct run *r, struct bytes bytes, size_t piece_size, bool is_pulling)
{
    struct conn_limits limits;
    struct grpc_service grpc = {.user = r,
                                .call = on_call,
                                .oversize = on_oversize,
                                .writable = on_writable,
                                .closed = on_closed};
    struct http_service http = {
        .user = r, .request = on_page, .writable = on_page_event, .closed = on_page_event};
    struct conn_options options = {.mem = &r->mem,
                                   .limits = &limits,
                                   .counters = &r->counters,
                                   .grpc = &grpc,
                                   .http = &http,
                                   .is_trusted = true};
    struct buffer out;
    int64_t now_ns = NS_PER_S;
    size_t size = bytes.len;

    *r = (struct run){.held_n = 0};
    mem_init(&r->mem, SIZE_MAX);
    buffer_init(&out, mem_process());
    conn_limits_init(&limits);
    limits.message_size_max = MESSAGE_SIZE_MAX;
    enum status status = conn_new(&options, now_ns, &r->conn);
    assert(status == OK);
    status = conn_feed(r->conn, now_ns, BYTES_LITERAL(GREETING));
    assert(status == OK);
    while (bytes.len > 0 && status == OK) {
        size_t n = bytes.len < piece_size ? bytes.len : piece_size;
        status = conn_feed(r->conn, now_ns, bytes_make(bytes.ptr, n));
        bytes = bytes_make(bytes.ptr + n, bytes.len - n);
        if (!is_pulling) continue;
        now_ns += NS_PER_S / 4;
        int64_t next_ns = conn_tick(r->conn, now_ns);
        assert(next_ns > now_ns);
        buffer_clear(&out);
        while (conn_pull(r->conn, now_ns, &out, 1000)) {
        }
        conn_sent(r->conn, now_ns, out.len);
    }
    assert(r->mem.used_max < MEMORY_MAX + size * MEMORY_PER_BYTE);
    while (is_pulling && r->held_n > 0) grpc_finish(r->held[--r->held_n], GRPC_OK, NULL);
    if (is_pulling) end_pages(r);
    buffer_clear(&out);
    while (conn_pull(r->conn, now_ns, &out, 1000)) {
    }
    conn_sent(r->conn, now_ns, out.len);
    if (status != OK) assert(conn_is_over(r->conn));
    conn_free(r->conn, now_ns);
    while (r->held_n > 0) grpc_finish(r->held[--r->held_n], GRPC_OK, NULL);
    end_pages(r);
    buffer_release(&out);
    mem_release(&r->mem); /* asserts that nothing is left */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct run whole;
    static struct run pieces;
    static struct run lively;

    if (size == 0) return 0;
    struct bytes bytes = bytes_make(data + 1, size - 1);
    size_t piece_size = (size_t)data[0] + 1;
    run(&whole, bytes, size, false);
    run(&pieces, bytes, piece_size, false);
    run(&lively, bytes, piece_size, true);
    assert(whole.digest == pieces.digest);
    assert(whole.calls_n == pieces.calls_n);
    assert(whole.pages_n == pieces.pages_n);
    return 0;
}
