/* SPDX-License-Identifier: Apache-2.0
 *
 * One HTTP/1.1 connection: the reading of its requests. What a peer sends ahead is read and given
 * to the service as long as that takes it beside the others (h1_queue.c); else it waits until they
 * are answered, as it does while the peer does not take the answers that are there. Beyond a limit
 * we stop reading (h1_wants_read).
 *
 *      waiting ──first byte──> head ──empty line──> body ──all of it──> ready ──┐
 *         ^                                                    under way <──────┤
 *         └─────────────────────────────────────────────────────────────────────┘
 *
 * A request that comes alone is not copied: its buffer is kept as it is, and the next request comes
 * into another. A peer that has ended its side still gets the answers to all that it has sent.
 */
#include "net/h1.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"
#include "net/h1_state.h"
#include "net/state.h"

#include <stdio.h>

#define AHEAD_SIZE_MAX (64 * 1024)
#define KEPT_SIZE_MAX (64 * 1024) /* of the output between two answers */

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
    h1->is_trusted = options->is_trusted;
    h1->unfinished_all = options->unfinished_size;
    h1->now_ns = h1->since_ns = now_ns;
    (void)snprintf(h1->peer, sizeof h1->peer, "%s", options->peer);
    list_init(&h1->requests);
    list_init(&h1->spare);
    buffer_init(&h1->in, h1->mem);
    buffer_init(&h1->out, h1->mem);
    *out = h1;
    return OK;
}

static size_t came(const struct h1 *h1) { return h1->in.len - h1->in_at; }

/* Keeps the figure of what requests hold: those that are coming, and those at work. */
static void count_held(struct h1 *h1)
{
    size_t size = h1->requests_size;

    if (h1->phase == H1_BODY) size += came(h1);
    if (h1->phase == H1_READY) size += h1->next->bytes.len;
    *h1->unfinished_all += size - h1->held;
    h1->held = size;
}

static void forget_input(struct h1 *h1)
{
    buffer_release(&h1->in);
    h1->in_at = 0;
    if (h1->next != NULL) h1_request_drop(h1->next);
    h1->next = NULL;
    h1->phase = H1_WAITING;
}

void h1_free(struct h1 *h1, int64_t now_ns)
{
    h1->now_ns = now_ns;
    /* The figure may be gone before a handler that is still at work. */
    *h1->unfinished_all -= h1->held;
    forget_input(h1);
    buffer_release(&h1->out);
    h1_abandon(h1);
    h1_spare_free(h1);
    mem_give(h1->mem, h1, sizeof *h1);
}

static void set_phase(struct h1 *h1, enum h1_phase phase)
{
    h1->phase = phase;
    h1->since_ns = h1->now_ns;
}

/* ---- requests ---- */

/* False without memory, which is the end: there is not even enough to say so. */
static bool begin_head(struct h1 *h1)
{
    h1->next = h1_request_new(h1);
    if (h1->next == NULL) {
        h1->counters->out_of_memory++;
        h1->is_deaf = true;
        return false;
    }
    set_phase(h1, H1_HEAD);
    h1->search = (struct head_search){0, 0};
    h1->is_empty_line_over = false;
    return true;
}

/* The request cannot be understood or taken: where the next one would start is not known either. */
static void refuse(struct h1 *h1, enum http_refusal why)
{
    struct h1_request *r = h1->next;

    if (why != REFUSAL_LARGE_BODY && why != REFUSAL_CROWDED && why != REFUSAL_TOO_SLOW)
        h1->counters->http_malformed++;
    h1->next = NULL;
    forget_input(h1);
    h1_refuse(h1, r, why);
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
    struct h1_request *r = h1->next;

    if (!skip_empty_line(h1)) return false;
    const uint8_t *at = h1->in.ptr + h1->in_at;
    enum http_refusal refusal = head_find(&h1->search, bytes_make(at, came(h1)), &r->head_size);
    if (refusal == REFUSAL_NONE && r->head_size == 0) return false;
    if (refusal == REFUSAL_NONE) refusal = head_parse(bytes_make(at, r->head_size), &r->head);
    if (refusal == REFUSAL_NONE && r->head.body_size > h1->limits->message_size_max)
        refusal = REFUSAL_LARGE_BODY;
    if (refusal != REFUSAL_NONE) {
        refuse(h1, refusal);
        return false;
    }
    set_phase(h1, H1_BODY);
    h1->body_due_ns = h1->now_ns + h1->limits->body_ms * NS_PER_MS;
    h1->is_continue_due = r->head.is_continue_expected;
    r->body_size = 0;
    if (r->head.is_chunked) chunks_init(&h1->chunks, h1->limits->message_size_max);
    return true;
}

static struct bytes part(const struct h1_request *r, struct head_span span)
{
    return bytes_make(r->bytes.ptr + span.at, span.len);
}

/* The first `size` bytes that came are the request; `taken` bytes are gone with it. */
static bool take_request(struct h1 *h1, size_t size, size_t taken)
{
    struct h1_request *r = h1->next;
    struct http_exchange *e = &r->exchange;

    assert(r->bytes.len == 0);
    if (h1->in_at == 0 && h1->in.len == taken) {
        struct buffer empty = r->bytes;
        r->bytes = h1->in;
        r->bytes.len = size;
        h1->in = empty;
    } else {
        buffer_append(&r->bytes, h1->in.ptr + h1->in_at, size);
        h1->in_at += taken;
    }
    if (r->bytes.failed) {
        refuse(h1, REFUSAL_CROWDED);
        return false;
    }
    e->method = part(r, r->head.method);
    e->path = part(r, r->head.path);
    e->query = part(r, r->head.query);
    e->body = bytes_make(r->bytes.ptr + r->head_size, r->body_size);
    set_phase(h1, H1_READY);
    return true;
}

/* What was decoded stands behind the head, and what came since behind that. */
static bool read_chunks(struct h1 *h1)
{
    struct h1_request *r = h1->next;
    size_t at = h1->in_at + r->head_size + r->body_size;
    size_t taken = 0;
    size_t made = 0;
    enum http_refusal refusal =
        chunks_read(&h1->chunks, h1->in.ptr + at, h1->in.len - at, &taken, &made);

    if (refusal != REFUSAL_NONE) {
        refuse(h1, refusal);
        return false;
    }
    size_t size_before = r->head_size + r->body_size;
    r->body_size += made;
    if (chunks_are_done(&h1->chunks))
        return take_request(h1, r->head_size + r->body_size, size_before + taken);
    assert(at + taken == h1->in.len);
    h1->in.len = at + made;
    return false;
}

static bool read_body(struct h1 *h1)
{
    struct h1_request *r = h1->next;

    if (r->head.is_chunked) return read_chunks(h1);
    r->body_size = (size_t)r->head.body_size;
    size_t size = r->head_size + r->body_size;
    return came(h1) >= size && take_request(h1, size, size);
}

/* It has its place between the answers, as all that we say. */
static void send_continue(struct h1 *h1)
{
    if (h1->phase != H1_BODY || !h1->is_continue_due || h1->requests_n > 0) return;
    h1->is_continue_due = false;
    buffer_append_bytes(&h1->out, BYTES_LITERAL("HTTP/1.1 100 Continue\r\n\r\n"));
}

/* As far as the bytes that came go. False: more must come, or it was refused. */
static bool read_next(struct h1 *h1)
{
    if (h1->phase == H1_WAITING) {
        if (came(h1) == 0) return false;
        if (!begin_head(h1)) return false;
    }
    if (h1->phase == H1_HEAD && !read_head(h1)) return false;
    return h1->phase == H1_READY || read_body(h1);
}

/* The peer has ended its side, and all that it sent before was read. */
static void end_input(struct h1 *h1)
{
    if (h1->phase == H1_HEAD || h1->phase == H1_BODY) refuse(h1, REFUSAL_CUT_SHORT);
    h1->is_deaf = true;
}

/* Goes on as far as it can. Requests that are answered inside of request() come one after the
 * other in this loop, not one inside the other. */
static void advance(struct h1 *h1)
{
    while (!h1->is_deaf && !h1->is_over && h1_has_room(h1)) {
        if (!read_next(h1)) {
            send_continue(h1);
            if (h1->is_input_over && !h1->is_deaf) end_input(h1);
            break;
        }
        struct h1_request *r = h1->next;
        if (!h1_may_join(h1, r)) break;
        h1->next = NULL;
        set_phase(h1, H1_WAITING);
        h1_give_to_service(h1, r);
    }
    if (h1->is_deaf) forget_input(h1);
    h1_check_over(h1);
    count_held(h1);
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
    h1->is_deaf = true;
}

enum status h1_feed(struct h1 *h1, int64_t now_ns, struct bytes bytes)
{
    h1->now_ns = now_ns;
    if (h1->is_over) return E_CLOSED;
    if (h1->is_deaf) {
        h1->ignored_size += bytes.len;
        return OK;
    }
    append_input(h1, bytes);
    if (h1->phase == H1_BODY)
        h1->body_due_ns = conn_body_due_ns(h1->limits, h1->body_due_ns, now_ns, bytes.len);
    advance(h1);
    if (h1->phase == H1_BODY && h1->held > SMALL_SIZE &&
        *h1->unfinished_all > h1->limits->unfinished_size_total) {
        h1->counters->requests_too_large++;
        refuse(h1, REFUSAL_CROWDED);
        count_held(h1);
    }
    return h1->is_over ? E_CLOSED : OK;
}

void h1_end_input(struct h1 *h1, int64_t now_ns)
{
    h1->now_ns = now_ns;
    h1->is_input_over = true;
    advance(h1);
    h1_tell_half_closed(h1);
    count_held(h1);
}

bool h1_wants_read(const struct h1 *h1)
{
    bool is_waiting = h1->phase == H1_READY || !h1_has_room(h1);

    if (h1->is_over || h1->is_input_over) return false;
    /* What comes means nothing, but its end does: the peer may go away. */
    if (h1->is_deaf) return h1->ignored_size < AHEAD_SIZE_MAX;
    return !is_waiting || came(h1) < AHEAD_SIZE_MAX;
}

bool h1_pull(struct h1 *h1, struct buffer *out)
{
    /* An answer that came outside of h1_feed() makes room for the next request. */
    advance(h1);
    if (h1->out.len == 0) return false;
    buffer_append_bytes(out, buffer_view(&h1->out));
    buffer_clear(&h1->out);
    if (h1->out.size > KEPT_SIZE_MAX) buffer_release(&h1->out);
    h1_tell_writable(h1);
    return true;
}

bool h1_is_ending(const struct h1 *h1) { return h1->is_over; }

bool h1_is_over(const struct h1 *h1) { return h1->is_over && h1->out.len == 0; }

void h1_drain(struct h1 *h1)
{
    struct list *newest = list_last(&h1->requests);
    bool is_coming = h1->phase == H1_BODY || h1->phase == H1_READY;

    h1->is_draining = true;
    /* Half a head is no request yet: who sends it may stay silent for as long as header_ms. */
    if (is_coming && newest == NULL) return;
    h1->is_deaf = true;
    if (newest != NULL) container_of(newest, struct h1_request, link)->is_last = true;
    advance(h1);
}

int64_t h1_tick(struct h1 *h1, int64_t now_ns)
{
    const struct conn_limits *limits = h1->limits;
    int64_t after_ms = 0;
    uint64_t *counter = &h1->counters->slow_request;

    h1->now_ns = now_ns;
    /* While requests are under way, or answers wait (then the peer's reading is watched), the next
     * request has time. */
    if (h1->is_over || h1->requests_n > 0 || h1->out.len >= OUT_SIZE_MAX) return INT64_MAX;
    if (h1->is_free) {
        h1->is_free = false;
        h1->since_ns = now_ns;
        h1->body_due_ns = now_ns + limits->body_ms * NS_PER_MS;
    }
    switch (h1->phase) {
    case H1_WAITING:
        after_ms = limits->idle_ms;
        counter = &h1->counters->idle_closed;
        break;
    case H1_HEAD: after_ms = limits->header_ms; break;
    case H1_BODY: break;
    case H1_READY: return INT64_MAX;
    }
    int64_t due_ns = h1->since_ns + after_ms * NS_PER_MS;
    if (h1->phase == H1_BODY) due_ns = h1->body_due_ns;
    if (due_ns > now_ns) return due_ns;
    (*counter)++;
    if (h1->phase == H1_WAITING)
        h1->is_over = true;
    else
        refuse(h1, REFUSAL_TOO_SLOW);
    conn_wake(h1->conn);
    return INT64_MAX;
}
