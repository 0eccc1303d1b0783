/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as what an HTTP/2 peer says after its greeting. Fed in one piece, and in pieces of a
 * size that the first byte chooses, they give the same calls; memory stays bounded by what was
 * fed; and with time passing and answers pulled in between, everything is given back at the end.
 */
#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"
#include "net/conn.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define GREETING "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"
#define HELD_N_MAX 128
#define MEMORY_MAX (512 * 1024)
#define MEMORY_PER_BYTE 128 /* a frame of nine bytes can cost an answer of some hundred */

struct run {
    struct mem mem;
    struct conn *conn;
    struct net_counters counters;
    struct grpc_call *held[HELD_N_MAX];
    size_t held_n;
    uint64_t digest;
    uint64_t calls_n;
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

static void on_page(void *user, struct http_exchange *e)
{
    (void)user;
    http_answer(e, 200, "text/plain", BYTES_NONE);
}

static void run(struct run *r, struct bytes bytes, size_t piece_size, bool is_pulling)
{
    struct conn_limits limits;
    struct grpc_service grpc = {.user = r,
                                .call = on_call,
                                .oversize = on_oversize,
                                .writable = on_writable,
                                .closed = on_closed};
    struct http_service http = {.user = r, .request = on_page, .closed = on_page};
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
    limits.message_size_max = 1000;
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
    buffer_clear(&out);
    while (conn_pull(r->conn, now_ns, &out, 1000)) {
    }
    conn_sent(r->conn, now_ns, out.len);
    if (status != OK) assert(conn_is_over(r->conn));
    conn_free(r->conn, now_ns);
    while (r->held_n > 0) grpc_finish(r->held[--r->held_n], GRPC_OK, NULL);
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
    return 0;
}
