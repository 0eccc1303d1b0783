/* SPDX-License-Identifier: Apache-2.0
 *
 * One HTTP/1.1 connection: requests one after the other. What a peer sends ahead waits until the
 * present request is answered, and while the peer does not take the answers that are there; beyond
 * a limit we stop reading (h1_wants_read).
 *
 *      waiting ──first byte──> head ──empty line──> body ──all of it──> busy ──answer──> waiting
 *
 * The exchange that a service sees is this object. It outlives its connection while it is busy.
 */
#include "net/h1.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "net/h1_head.h"
#include "net/state.h"

#define AHEAD_SIZE_MAX (64 * 1024)
#define OUT_SIZE_MAX (256 * 1024) /* of answers; then the next request waits */
#define KEPT_SIZE_MAX (64 * 1024) /* of a buffer between two requests */

enum h1_phase { H1_WAITING, H1_HEAD, H1_BODY, H1_BUSY };

struct h1 {
    struct conn *conn; /* NULL once the connection is gone */
    struct mem *mem;
    const struct conn_limits *limits;
    struct net_counters *counters;
    const struct http_service *service;
    void *user;

    enum h1_phase phase;
    bool is_last; /* the connection ends with this answer */
    bool is_over; /* nothing more is read */
    int64_t now_ns;
    int64_t since_ns;    /* the phase */
    int64_t body_due_ns; /* until when more of the body must have come */
    size_t unfinished;   /* of `in`: counted in *unfinished_all */
    size_t *unfinished_all;
    struct buffer in; /* what came and belongs to no complete request */
    struct head_search search;
    bool is_empty_line_over; /* before the head; there was one, or there will be none */
    struct head head;
    size_t head_size;
    struct buffer request; /* head and body of the request that is busy */
    struct buffer out;
};

/* What a service holds is the connection itself: there is one exchange at a time. */
static struct h1 *h1_of(struct http_exchange *e) { return (struct h1 *)(void *)e; }
static const struct h1 *const_h1_of(const struct http_exchange *e)
{
    return (const struct h1 *)(const void *)e;
}

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
    h1->unfinished_all = options->unfinished_size;
    h1->now_ns = h1->since_ns = now_ns;
    buffer_init(&h1->in, h1->mem);
    buffer_init(&h1->request, h1->mem);
    buffer_init(&h1->out, h1->mem);
    *out = h1;
    return OK;
}

static void destroy(struct h1 *h1)
{
    buffer_release(&h1->in);
    buffer_release(&h1->request);
    buffer_release(&h1->out);
    mem_give(h1->mem, h1, sizeof *h1);
}

/* Keeps the figure of what unfinished bodies hold. */
static void count_unfinished(struct h1 *h1)
{
    size_t size = h1->phase == H1_BODY ? h1->in.len : 0;

    *h1->unfinished_all += size - h1->unfinished;
    h1->unfinished = size;
}

void h1_free(struct h1 *h1, int64_t now_ns)
{
    h1->now_ns = now_ns;
    buffer_release(&h1->in);
    count_unfinished(h1);
    h1->conn = NULL;
    if (h1->phase != H1_BUSY) {
        destroy(h1);
        return;
    }
    /* The handler may answer inside, which frees it. */
    h1->service->closed(h1->service->user, (struct http_exchange *)h1);
}

static void set_phase(struct h1 *h1, enum h1_phase phase)
{
    h1->phase = phase;
    h1->since_ns = h1->now_ns;
}

/* ---- answers ---- */

static const char *reason_of(unsigned status)
{
    switch (status) {
    case 200: return "OK";
    case 201: return "Created";
    case 202: return "Accepted";
    case 204: return "No Content";
    case 304: return "Not Modified";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 409: return "Conflict";
    case 413: return "Content Too Large";
    case 417: return "Expectation Failed";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 503: return "Service Unavailable";
    case 504: return "Gateway Timeout";
    case 505: return "HTTP Version Not Supported";
    default: return "Status";
    }
}

static bool has_body(unsigned status) { return status >= 200 && status != 204 && status != 304; }

static void write_answer(struct h1 *h1, unsigned status, const char *type, struct bytes body,
                         bool is_head)
{
    buffer_format(&h1->out, "HTTP/1.1 %u %s\r\n", status, reason_of(status));
    if (has_body(status)) {
        if (body.len > 0) buffer_format(&h1->out, "content-type: %.200s\r\n", type);
        buffer_format(&h1->out, "content-length: %zu\r\n", body.len);
    }
    buffer_format(&h1->out, h1->is_last ? "connection: close\r\n\r\n" : "\r\n");
    if (has_body(status) && !is_head) buffer_append_bytes(&h1->out, body);
    if (h1->is_last) h1->is_over = true;
    if (h1->out.failed) {
        /* Half an answer would be taken for a whole one: none at all. */
        buffer_release(&h1->out);
        h1->is_over = true;
        h1->counters->out_of_memory++;
    }
}

/* The request cannot be understood or taken: where the next one would start is not known either. */
static void refuse(struct h1 *h1, unsigned status)
{
    if (status != 413 && status != 503) h1->counters->http_malformed++;
    h1->is_last = true;
    write_answer(h1, status, "text/plain", bytes_of_text(reason_of(status)), false);
    buffer_release(&h1->in);
}

/* ---- requests ---- */

static void begin_head(struct h1 *h1)
{
    set_phase(h1, H1_HEAD);
    h1->search = (struct head_search){0, 0};
    h1->is_empty_line_over = false;
}

/* One empty line before a request is allowed and means nothing. False: it may be half of one. */
static bool skip_empty_line(struct h1 *h1)
{
    struct buffer *in = &h1->in;

    if (h1->is_empty_line_over) return true;
    if (in->len == 1 && in->ptr[0] == '\r') return false;
    h1->is_empty_line_over = true;
    if (in->len < 2 || memcmp(in->ptr, "\r\n", 2) != 0) return true;
    memmove(in->ptr, in->ptr + 2, in->len - 2);
    in->len -= 2;
    return true;
}

/* False: more must come, or it was refused. */
static bool read_head(struct h1 *h1)
{
    if (!skip_empty_line(h1)) return false;
    unsigned refusal = head_find(&h1->search, buffer_view(&h1->in), &h1->head_size);
    if (refusal == 0 && h1->head_size == 0) return false;
    if (refusal == 0) refusal = head_parse(bytes_make(h1->in.ptr, h1->head_size), &h1->head);
    if (refusal == 0 && h1->head.body_size > h1->limits->message_size_max) refusal = 413;
    if (refusal != 0) {
        refuse(h1, refusal);
        return false;
    }
    set_phase(h1, H1_BODY);
    h1->body_due_ns = h1->now_ns + h1->limits->body_ms * NS_PER_MS;
    bool is_body_awaited = h1->in.len < h1->head_size + h1->head.body_size;
    if (h1->head.is_continue_expected && is_body_awaited)
        buffer_append_bytes(&h1->out, BYTES_LITERAL("HTTP/1.1 100 Continue\r\n\r\n"));
    return true;
}

static bool read_body(struct h1 *h1)
{
    size_t size = h1->head_size + (size_t)h1->head.body_size;

    if (h1->in.len < size) return false;
    if (h1->in.len == size) {
        struct buffer empty = h1->request;
        h1->request = h1->in;
        h1->in = empty;
        buffer_clear(&h1->in);
    } else {
        buffer_append(&h1->request, h1->in.ptr, size);
        memmove(h1->in.ptr, h1->in.ptr + size, h1->in.len - size);
        h1->in.len -= size;
    }
    if (h1->request.failed) {
        refuse(h1, 503);
        return false;
    }
    return true;
}

static void give_to_service(struct h1 *h1)
{
    set_phase(h1, H1_BUSY);
    h1->counters->pages++;
    if (h1->head.is_close) h1->is_last = true;
    h1->user = NULL;
    h1->service->request(h1->service->user, (struct http_exchange *)h1);
}

/* Goes on as far as it can. Requests that are answered inside of request() come one after the
 * other in this loop, not one inside the other. */
static void advance(struct h1 *h1)
{
    while (!h1->is_over && h1->phase != H1_BUSY && h1->out.len < OUT_SIZE_MAX) {
        if (h1->phase == H1_WAITING) {
            if (h1->in.len == 0) return;
            begin_head(h1);
        }
        if (h1->phase == H1_HEAD && !read_head(h1)) return;
        if (!read_body(h1)) return;
        give_to_service(h1);
    }
}

enum status h1_feed(struct h1 *h1, int64_t now_ns, struct bytes bytes)
{
    h1->now_ns = now_ns;
    if (h1->is_over) return E_CLOSED;
    buffer_append_bytes(&h1->in, bytes);
    if (h1->in.failed) {
        h1->counters->out_of_memory++;
        h1->is_over = true;
    }
    if (h1->phase == H1_BODY)
        h1->body_due_ns = conn_body_due_ns(h1->limits, h1->body_due_ns, now_ns, bytes.len);
    advance(h1);
    count_unfinished(h1);
    if (!h1->is_over && h1->unfinished > SMALL_SIZE &&
        *h1->unfinished_all > h1->limits->unfinished_size_total) {
        h1->counters->requests_too_large++;
        refuse(h1, 503);
        count_unfinished(h1);
    }
    return h1->is_over ? E_CLOSED : OK;
}

bool h1_wants_read(const struct h1 *h1)
{
    bool is_waiting = h1->phase == H1_BUSY || h1->out.len >= OUT_SIZE_MAX;

    return !h1->is_over && (!is_waiting || h1->in.len < AHEAD_SIZE_MAX);
}

bool h1_pull(struct h1 *h1, struct buffer *out)
{
    /* An answer that came outside of h1_feed() makes room for the next request. */
    advance(h1);
    count_unfinished(h1);
    if (h1->out.len == 0) return false;
    buffer_append_bytes(out, buffer_view(&h1->out));
    buffer_clear(&h1->out);
    if (h1->out.size > KEPT_SIZE_MAX) buffer_release(&h1->out);
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

/* ---- http.h ---- */

static struct bytes part(const struct http_exchange *e, struct head_span span)
{
    return bytes_make(const_h1_of(e)->request.ptr + span.at, span.len);
}

struct bytes http_method(const struct http_exchange *e)
{
    return part(e, const_h1_of(e)->head.method);
}

struct bytes http_path(const struct http_exchange *e) { return part(e, const_h1_of(e)->head.path); }

struct bytes http_query(const struct http_exchange *e)
{
    return part(e, const_h1_of(e)->head.query);
}

struct bytes http_header(const struct http_exchange *e, const char *name)
{
    const struct h1 *h1 = const_h1_of(e);

    return head_field_value(&h1->head, buffer_view(&h1->request), name);
}

struct bytes http_body(const struct http_exchange *e)
{
    const struct h1 *h1 = const_h1_of(e);

    return bytes_make(h1->request.ptr + h1->head_size, (size_t)h1->head.body_size);
}

void http_set_user(struct http_exchange *e, void *user) { h1_of(e)->user = user; }

void *http_user(const struct http_exchange *e) { return const_h1_of(e)->user; }

void http_answer(struct http_exchange *e, unsigned status, const char *type, struct bytes body)
{
    struct h1 *h1 = h1_of(e);

    assert(h1->phase == H1_BUSY);
    if (h1->conn == NULL) {
        destroy(h1);
        return;
    }
    bool is_head = bytes_equal(http_method(e), BYTES_LITERAL("HEAD"));
    write_answer(h1, status, type, body, is_head);
    buffer_clear(&h1->request);
    if (h1->request.size > KEPT_SIZE_MAX) buffer_release(&h1->request);
    set_phase(h1, H1_WAITING);
    conn_wake(h1->conn);
}
