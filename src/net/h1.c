/* SPDX-License-Identifier: Apache-2.0
 *
 * One HTTP/1.1 connection: requests one after the other. What a peer sends ahead waits until the
 * present request is answered, and while the peer does not take the answers that are there; beyond
 * a limit we stop reading (h1_wants_read).
 *
 *      waiting ──first byte──> head ──empty line──> body ──all of it──> busy ──answer──> waiting
 *
 * The exchange that a service sees is part of this object, which outlives its connection while it
 * is busy. A request that comes alone is not copied: its buffer is kept as it is, and the next
 * request comes into another.
 */
#include "net/h1.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/mem.h"
#include "net/h1_state.h"
#include "net/state.h"

#include <stdio.h>

#define AHEAD_SIZE_MAX (64 * 1024)
#define OUT_SIZE_MAX (256 * 1024) /* of answers; then the next request waits */
#define KEPT_SIZE_MAX (64 * 1024) /* of a buffer between two requests */

static const struct exchange_ops h1_exchange_ops;

/* The exchange is the first member, so that one that is const can be turned as well. */
static struct h1 *h1_of(struct http_exchange *e) { return container_of(e, struct h1, exchange); }

enum status h1_new(const struct conn_options *options, struct conn *conn, int64_t now_ns,
                   struct h1 **out)
{
    struct h1 *h1 = mem_take_zero(options->mem, sizeof *h1);

    if (h1 == NULL) return E_NOMEM;
    h1->conn = conn;
    h1->mem = options->mem;
    h1->limits = options->limits;
    h1->counters = options->counters;
    h1->service = options->http;
    h1->date = options->date;
    h1->unfinished_all = options->unfinished_size;
    h1->now_ns = h1->since_ns = now_ns;
    h1->exchange.ops = &h1_exchange_ops;
    h1->exchange.is_trusted = options->is_trusted;
    (void)snprintf(h1->peer, sizeof h1->peer, "%s", options->peer);
    h1->exchange.peer = h1->peer;
    buffer_init(&h1->exchange.fields, h1->mem);
    buffer_init(&h1->in, h1->mem);
    buffer_init(&h1->request, h1->mem);
    buffer_init(&h1->out, h1->mem);
    *out = h1;
    return OK;
}

static void destroy(struct h1 *h1)
{
    buffer_release(&h1->exchange.fields);
    buffer_release(&h1->in);
    buffer_release(&h1->request);
    buffer_release(&h1->out);
    mem_give(h1->mem, h1, sizeof *h1);
}

static size_t came(const struct h1 *h1) { return h1->in.len - h1->in_at; }

/* Keeps the figure of what requests hold: those that are coming, and those at work. */
static void count_held(struct h1 *h1)
{
    size_t size = h1->request.len;

    if (h1->phase == H1_BODY) size += came(h1);
    *h1->unfinished_all += size - h1->held;
    h1->held = size;
}

static void forget_input(struct h1 *h1)
{
    buffer_release(&h1->in);
    h1->in_at = 0;
}

void h1_free(struct h1 *h1, int64_t now_ns)
{
    h1->now_ns = now_ns;
    /* The figure may be gone before a handler that is still at work. */
    *h1->unfinished_all -= h1->held;
    h1->held = 0;
    h1->conn = NULL;
    if (h1->phase != H1_BUSY) {
        destroy(h1);
        return;
    }
    forget_input(h1);
    buffer_release(&h1->out);
    h1->exchange.is_closed = true;
    /* The handler may end the exchange inside, which frees it. */
    h1->service->closed(h1->service->user, &h1->exchange);
}

static void set_phase(struct h1 *h1, enum h1_phase phase)
{
    h1->phase = phase;
    h1->since_ns = h1->now_ns;
}

/* ---- requests ---- */

static void begin_head(struct h1 *h1)
{
    set_phase(h1, H1_HEAD);
    h1->search = (struct head_search){0, 0};
    h1->is_empty_line_over = false;
}

/* The request cannot be understood or taken: where the next one would start is not known either. */
static void refuse(struct h1 *h1, unsigned status)
{
    if (status != 413 && status != 503) h1->counters->http_malformed++;
    h1->is_last = true;
    h1->exchange.is_head = false;
    h1_write_answer(h1, status, "text/plain", bytes_of_text(http_status_reason(status)));
    forget_input(h1);
}

/* One empty line before a request is allowed and means nothing. False: it may be half of one. */
static bool skip_empty_line(struct h1 *h1)
{
    const uint8_t *at = h1->in.ptr + h1->in_at;

    if (h1->is_empty_line_over) return true;
    if (came(h1) == 1 && at[0] == '\r') return false;
    h1->is_empty_line_over = true;
    if (came(h1) >= 2 && memcmp(at, "\r\n", 2) == 0) h1->in_at += 2;
    return true;
}

/* False: more must come, or it was refused. */
static bool read_head(struct h1 *h1)
{
    if (!skip_empty_line(h1)) return false;
    const uint8_t *at = h1->in.ptr + h1->in_at;
    unsigned refusal = head_find(&h1->search, bytes_make(at, came(h1)), &h1->head_size);
    if (refusal == 0 && h1->head_size == 0) return false;
    if (refusal == 0) refusal = head_parse(bytes_make(at, h1->head_size), &h1->head);
    if (refusal == 0 && h1->head.body_size > h1->limits->message_size_max) refusal = 413;
    if (refusal != 0) {
        refuse(h1, refusal);
        return false;
    }
    set_phase(h1, H1_BODY);
    h1->body_due_ns = h1->now_ns + h1->limits->body_ms * NS_PER_MS;
    h1->is_continue_due = h1->head.is_continue_expected;
    h1->body_size = 0;
    chunks_init(&h1->chunks, h1->limits->message_size_max);
    return true;
}

/* The first `size` bytes that came are the request; `taken` bytes are gone with it. */
static bool take_request(struct h1 *h1, size_t size, size_t taken)
{
    if (h1->in_at == 0 && h1->in.len == taken) {
        struct buffer empty = h1->request;
        h1->request = h1->in;
        h1->request.len = size;
        h1->in = empty;
        assert(h1->in.len == 0);
    } else {
        buffer_append(&h1->request, h1->in.ptr + h1->in_at, size);
        h1->in_at += taken;
    }
    if (!h1->request.failed) return true;
    buffer_clear(&h1->request);
    refuse(h1, 503);
    return false;
}

/* What was decoded stands behind the head, and what came since behind that. */
static bool read_chunks(struct h1 *h1)
{
    size_t at = h1->in_at + h1->head_size + h1->body_size;
    size_t taken = 0;
    size_t made = 0;
    unsigned refusal = chunks_read(&h1->chunks, h1->in.ptr + at, h1->in.len - at, &taken, &made);

    if (refusal != 0) {
        refuse(h1, refusal);
        return false;
    }
    size_t size_before = h1->head_size + h1->body_size;
    h1->body_size += made;
    if (chunks_are_done(&h1->chunks))
        return take_request(h1, h1->head_size + h1->body_size, size_before + taken);
    assert(at + taken == h1->in.len);
    h1->in.len = at + made;
    return false;
}

static bool read_body(struct h1 *h1)
{
    if (h1->head.is_chunked) return read_chunks(h1);
    h1->body_size = (size_t)h1->head.body_size;
    size_t size = h1->head_size + h1->body_size;
    return came(h1) >= size && take_request(h1, size, size);
}

static struct bytes part(const struct h1 *h1, struct head_span span)
{
    return bytes_make(h1->request.ptr + span.at, span.len);
}

static void give_to_service(struct h1 *h1)
{
    struct http_exchange *e = &h1->exchange;

    set_phase(h1, H1_BUSY);
    h1->counters->pages++;
    if (h1->head.is_close) h1->is_last = true;
    h1->is_full_told = false;
    e->method = part(h1, h1->head.method);
    e->path = part(h1, h1->head.path);
    e->query = part(h1, h1->head.query);
    e->body = bytes_make(h1->request.ptr + h1->head_size, h1->body_size);
    exchange_open(e);
    h1->service->request(h1->service->user, e);
}

static void send_continue(struct h1 *h1)
{
    if (!h1->is_continue_due || h1->is_over) return;
    h1->is_continue_due = false;
    buffer_append_bytes(&h1->out, BYTES_LITERAL("HTTP/1.1 100 Continue\r\n\r\n"));
}

/* Goes on as far as it can. Requests that are answered inside of request() come one after the
 * other in this loop, not one inside the other. */
static void advance(struct h1 *h1)
{
    while (!h1->is_over && h1->phase != H1_BUSY && h1->out.len < OUT_SIZE_MAX) {
        if (h1->phase == H1_WAITING) {
            if (came(h1) == 0) return;
            begin_head(h1);
        }
        if (h1->phase == H1_HEAD && !read_head(h1)) return;
        if (!read_body(h1)) {
            send_continue(h1);
            return;
        }
        give_to_service(h1);
    }
}

/* Moves what is left up to the start, once for all requests that came together. */
static void append_input(struct h1 *h1, struct bytes bytes)
{
    if (h1->in_at > 0) {
        size_t left = came(h1);
        if (left > 0) memmove(h1->in.ptr, h1->in.ptr + h1->in_at, left);
        h1->in.len = left;
        h1->in_at = 0;
    }
    buffer_append_bytes(&h1->in, bytes);
    if (!h1->in.failed) return;
    h1->counters->out_of_memory++;
    h1->is_over = true;
}

enum status h1_feed(struct h1 *h1, int64_t now_ns, struct bytes bytes)
{
    h1->now_ns = now_ns;
    if (h1->is_over) return E_CLOSED;
    append_input(h1, bytes);
    if (h1->phase == H1_BODY)
        h1->body_due_ns = conn_body_due_ns(h1->limits, h1->body_due_ns, now_ns, bytes.len);
    advance(h1);
    count_held(h1);
    if (!h1->is_over && h1->phase == H1_BODY && h1->held > SMALL_SIZE &&
        *h1->unfinished_all > h1->limits->unfinished_size_total) {
        h1->counters->requests_too_large++;
        refuse(h1, 503);
        count_held(h1);
    }
    return h1->is_over ? E_CLOSED : OK;
}

bool h1_wants_read(const struct h1 *h1)
{
    bool is_waiting = h1->phase == H1_BUSY || h1->out.len >= OUT_SIZE_MAX;

    return !h1->is_over && (!is_waiting || came(h1) < AHEAD_SIZE_MAX);
}

static void tell_writable(struct h1 *h1)
{
    if (!h1->is_full_told || h1->out.len > h1->limits->stream_queue_size / 2) return;
    h1->is_full_told = false;
    if (h1->phase == H1_BUSY) h1->service->writable(h1->service->user, &h1->exchange);
}

bool h1_pull(struct h1 *h1, struct buffer *out)
{
    /* An answer that came outside of h1_feed() makes room for the next request. */
    advance(h1);
    count_held(h1);
    if (h1->out.len == 0) return false;
    buffer_append_bytes(out, buffer_view(&h1->out));
    buffer_clear(&h1->out);
    if (h1->out.size > KEPT_SIZE_MAX) buffer_release(&h1->out);
    tell_writable(h1);
    return true;
}

bool h1_is_ending(const struct h1 *h1) { return h1->is_over; }

bool h1_is_over(const struct h1 *h1) { return h1->is_over && h1->out.len == 0; }

void h1_drain(struct h1 *h1)
{
    h1->is_last = true;
    /* Half a head is no request yet: who sends it may stay silent for as long as header_ms. */
    if (h1->phase == H1_WAITING || h1->phase == H1_HEAD) h1->is_over = true;
}

int64_t h1_tick(struct h1 *h1, int64_t now_ns)
{
    const struct conn_limits *limits = h1->limits;
    int64_t after_ms = 0;
    uint64_t *counter = &h1->counters->slow_request;

    h1->now_ns = now_ns;
    /* While answers wait the peer's reading is watched, and nothing else. */
    if (h1->is_over || h1->out.len >= OUT_SIZE_MAX) return INT64_MAX;
    switch (h1->phase) {
    case H1_WAITING:
        after_ms = limits->idle_ms;
        counter = &h1->counters->idle_closed;
        break;
    case H1_HEAD: after_ms = limits->header_ms; break;
    case H1_BODY: break;
    case H1_BUSY: return INT64_MAX;
    }
    int64_t due_ns = h1->since_ns + after_ms * NS_PER_MS;
    if (h1->phase == H1_BODY) due_ns = h1->body_due_ns;
    if (due_ns > now_ns) return due_ns;
    (*counter)++;
    h1->is_over = true;
    conn_wake(h1->conn);
    return INT64_MAX;
}

/* ---- the exchange ---- */

static struct bytes exchange_header(const struct http_exchange *e, const char *name)
{
    const struct h1 *h1 = (const struct h1 *)(const void *)e;

    return head_field_value(&h1->head, buffer_view(&h1->request), name);
}

/* The service has done its part. */
static void end_exchange(struct h1 *h1)
{
    assert(h1->phase == H1_BUSY);
    exchange_end(&h1->exchange);
    if (h1->conn == NULL) {
        destroy(h1);
        return;
    }
    buffer_clear(&h1->request);
    if (h1->request.size > KEPT_SIZE_MAX) buffer_release(&h1->request);
    set_phase(h1, H1_WAITING);
    conn_wake(h1->conn);
}

static void exchange_answer(struct http_exchange *e, unsigned status, const char *type,
                            struct bytes body)
{
    struct h1 *h1 = h1_of(e);

    if (h1->conn != NULL) h1_write_answer(h1, status, type, body);
    end_exchange(h1);
}

static void exchange_begin(struct http_exchange *e, unsigned status, const char *type)
{
    struct h1 *h1 = h1_of(e);

    h1_write_begin(h1, status, type);
    conn_wake(h1->conn);
}

static enum status exchange_send(struct http_exchange *e, struct bytes bytes)
{
    struct h1 *h1 = h1_of(e);

    if (h1->is_over) return E_CLOSED; /* for want of memory; closed() comes with the end */
    enum status status = h1_write_part(h1, bytes);
    if (status == OK) conn_wake(h1->conn);
    return status;
}

static bool exchange_is_full(struct http_exchange *e)
{
    struct h1 *h1 = h1_of(e);
    bool is_full = h1->out.len >= h1->limits->stream_queue_size;

    if (is_full) h1->is_full_told = true;
    return is_full;
}

static size_t exchange_queued(const struct http_exchange *e)
{
    return ((const struct h1 *)(const void *)e)->out.len;
}

static void exchange_finish(struct http_exchange *e, bool is_whole)
{
    struct h1 *h1 = h1_of(e);

    if (h1->conn != NULL) h1_write_end(h1, is_whole);
    end_exchange(h1);
}

static const struct exchange_ops h1_exchange_ops = {
    .header = exchange_header,
    .answer = exchange_answer,
    .begin = exchange_begin,
    .send = exchange_send,
    .is_full = exchange_is_full,
    .queued = exchange_queued,
    .finish = exchange_finish,
};
