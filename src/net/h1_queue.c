/* SPDX-License-Identifier: Apache-2.0
 *
 * The requests of one HTTP/1.1 connection that are under way, and the order of their answers.
 *
 *      read ──> queue ──service ends it──> first in the queue? ──> out, used again
 *                                              └─ not yet: its answer waits in `early`
 *
 * The first in the queue is never ended: it leaves when it is, and all behind it that are ended
 * leave with it. Requests are used again with their memory, so that an ordinary one takes none.
 */
#include "net/h1_state.h"

#include "base/assert.h"
#include "base/mem.h"
#include "net/state.h"

#define SPARE_N_MAX 8             /* requests kept for the next ones, with their memory */
#define KEPT_SIZE_MAX (64 * 1024) /* of a buffer of the first of them, */
#define KEPT_MORE_SIZE_MAX 4096   /* and of the others */

static const struct exchange_ops h1_exchange_ops;

/* The exchange is the first member, so that one that is const can be turned as well. */
static struct h1_request *request_of(struct http_exchange *e)
{
    return container_of(e, struct h1_request, exchange);
}

static struct h1_request *first_of(const struct h1 *h1)
{
    struct list *node = list_first(&h1->requests);

    return node == NULL ? NULL : container_of(node, struct h1_request, link);
}

/* ---- memory ---- */

struct h1_request *h1_request_new(struct h1 *h1)
{
    struct list *node = list_pop_front(&h1->spare);

    if (node != NULL) {
        h1->spare_n--;
        return container_of(node, struct h1_request, link);
    }
    struct h1_request *r = mem_take_zero(h1->mem, sizeof *r);
    if (r == NULL) return NULL;
    r->h1 = h1;
    r->mem = h1->mem;
    r->exchange.ops = &h1_exchange_ops;
    r->exchange.is_trusted = h1->is_trusted;
    r->exchange.peer = h1->peer;
    buffer_init(&r->exchange.fields, r->mem);
    buffer_init(&r->bytes, r->mem);
    buffer_init(&r->early, r->mem);
    return r;
}

static void destroy(struct h1_request *r)
{
    buffer_release(&r->exchange.fields);
    buffer_release(&r->bytes);
    buffer_release(&r->early);
    mem_give(r->mem, r, sizeof *r);
}

static void trim(struct buffer *b, size_t size_max)
{
    if (b->size > size_max)
        buffer_release(b);
    else
        buffer_clear(b);
}

void h1_request_drop(struct h1_request *r)
{
    struct h1 *h1 = r->h1;
    size_t size_max = h1->spare_n == 0 ? KEPT_SIZE_MAX : KEPT_MORE_SIZE_MAX;

    if (h1->spare_n == SPARE_N_MAX) {
        destroy(r);
        return;
    }
    trim(&r->bytes, size_max);
    trim(&r->early, size_max);
    r->is_last = r->is_chunked = r->is_full_told = r->is_half_told = false;
    r->is_lost = r->is_ended = false;
    list_push_front(&h1->spare, &r->link);
    h1->spare_n++;
}

void h1_spare_free(struct h1 *h1)
{
    struct list *node;

    while ((node = list_pop_front(&h1->spare)) != NULL)
        destroy(container_of(node, struct h1_request, link));
    h1->spare_n = 0;
}

/* ---- the queue ---- */

bool h1_has_room(const struct h1 *h1)
{
    return h1->requests_n < REQUESTS_N_MAX && h1->requests_size < REQUESTS_SIZE_MAX &&
           h1->out.len + h1->early_size < OUT_SIZE_MAX;
}

/* All that are under way are beside the first one, so it can speak for them. */
bool h1_may_join(const struct h1 *h1, const struct h1_request *r)
{
    const struct http_service *service = h1->service;
    const struct h1_request *first = first_of(h1);

    if (first == NULL) return true;
    return service->is_beside != NULL &&
           service->is_beside(service->user, &first->exchange, &r->exchange);
}

void h1_check_over(struct h1 *h1)
{
    if (h1->is_deaf && h1->requests_n == 0) h1->is_over = true;
}

static void push(struct h1 *h1, struct h1_request *r)
{
    list_push_back(&h1->requests, &r->link);
    h1->requests_n++;
    h1->requests_size += r->bytes.len;
    if (r->is_last) h1->is_deaf = true;
}

/* Its turn has come: what it said so far goes out. */
static void begin_turn(struct h1_request *r)
{
    struct h1 *h1 = r->h1;

    assert(h1->early_size >= r->early.len);
    h1->early_size -= r->early.len;
    if (r->is_lost) h1->is_over = true;
    buffer_append_bytes(&h1->out, buffer_view(&r->early));
    buffer_clear(&r->early);
    if (!h1->out.failed) return;
    /* Half an answer would be taken for a whole one: none at all. */
    buffer_release(&h1->out);
    h1->is_over = true;
    h1->counters->out_of_memory++;
}

/* The first is ended: it goes, and all that were only waiting for it. */
static void pop_ended(struct h1 *h1)
{
    struct h1_request *r;

    while (!h1->is_over && (r = first_of(h1)) != NULL && r->is_ended) {
        if (r->is_last) h1->is_over = true;
        list_remove(&r->link);
        h1->requests_n--;
        h1_request_drop(r);
        r = first_of(h1);
        if (r != NULL && !h1->is_over) begin_turn(r);
    }
    if (h1->requests_n > 0) return;
    h1->is_free = true;
    h1_check_over(h1);
}

/* The answer is written. */
static void end(struct h1_request *r)
{
    struct h1 *h1 = r->h1;

    r->is_ended = true;
    h1->requests_size -= r->bytes.len;
    trim(&r->bytes, KEPT_SIZE_MAX);
    pop_ended(h1);
}

void h1_give_to_service(struct h1 *h1, struct h1_request *r)
{
    h1->counters->pages++;
    if (r->head.is_close || h1->is_draining) r->is_last = true;
    push(h1, r);
    exchange_open(&r->exchange);
    h1->service->request(h1->service->user, &r->exchange);
    if (h1->is_input_over) h1_tell_half_closed(h1);
}

/* The layer's own words in the place of the service's. */
static void write_refusal(struct h1_request *r, enum http_refusal why)
{
    struct h1 *h1 = r->h1;
    struct buffer body;

    buffer_init(&body, h1->mem);
    const char *type = exchange_refuse(&r->exchange, h1->service, why, &body);
    h1_write_answer(r, http_refusal_status(why), type, buffer_view(&body));
    buffer_release(&body);
}

void h1_refuse(struct h1 *h1, struct h1_request *r, enum http_refusal why)
{
    r->is_last = true;
    r->exchange.is_head = false;
    buffer_clear(&r->bytes);
    push(h1, r);
    write_refusal(r, why);
    exchange_end(&r->exchange);
    end(r);
}

void h1_tell_writable(struct h1 *h1)
{
    struct h1_request *r = first_of(h1);

    if (r == NULL || !r->is_full_told) return;
    if (h1->out.len > h1->limits->stream_queue_size / 2) return;
    r->is_full_told = false;
    h1->service->writable(h1->service->user, &r->exchange);
}

/* Whoever is told may end, and others leave the queue with it: so each time from its start. */
void h1_tell_half_closed(struct h1 *h1)
{
    struct list *node = list_first(&h1->requests);

    if (h1->service->half_closed == NULL) return;
    while (node != NULL) {
        struct h1_request *r = container_of(node, struct h1_request, link);
        if (r->is_ended || r->is_half_told) {
            node = list_next(&h1->requests, node);
            continue;
        }
        r->is_half_told = true;
        h1->service->half_closed(h1->service->user, &r->exchange);
        node = list_first(&h1->requests);
    }
}

void h1_abandon(struct h1 *h1)
{
    const struct http_service *service = h1->service;
    struct list left;
    struct list *node;

    list_init(&left);
    list_splice_back(&left, &h1->requests);
    for (node = list_first(&left); node != NULL; node = list_next(&left, node))
        container_of(node, struct h1_request, link)->h1 = NULL;
    while ((node = list_pop_front(&left)) != NULL) {
        struct h1_request *r = container_of(node, struct h1_request, link);
        if (r->is_ended) {
            destroy(r);
            continue;
        }
        buffer_release(&r->early);
        r->exchange.is_closed = true;
        service->closed(service->user, &r->exchange); /* it may be ended inside, which frees it */
    }
}

/* ---- the exchange ---- */

static struct bytes exchange_header(const struct http_exchange *e, const char *name)
{
    const struct h1_request *r = (const struct h1_request *)(const void *)e;

    return head_field_value(&r->head, buffer_view(&r->bytes), name);
}

/* The service has done its part. */
static void end_exchange(struct h1_request *r)
{
    struct h1 *h1 = r->h1;

    exchange_end(&r->exchange);
    if (h1 == NULL) {
        destroy(r);
        return;
    }
    end(r);
    conn_wake(h1->conn);
}

/* Requests are small and answers may be large: a peer that asks for many at once and takes none
 * must not fill our memory. One answer alone may have any size. */
static bool is_too_much(const struct h1 *h1, size_t size)
{
    size_t waiting = h1->out.len + h1->early_size;

    return waiting > 0 && waiting + size > h1->limits->answers_size_max;
}

static void exchange_answer(struct http_exchange *e, unsigned status, const char *type,
                            struct bytes body)
{
    struct h1_request *r = request_of(e);

    if (r->h1 != NULL && is_too_much(r->h1, body.len)) {
        r->h1->counters->answers_too_large++;
        write_refusal(r, REFUSAL_UNTAKEN);
    } else if (r->h1 != NULL) {
        h1_write_answer(r, status, type, body);
    }
    end_exchange(r);
}

static void exchange_begin(struct http_exchange *e, unsigned status, const char *type)
{
    struct h1_request *r = request_of(e);

    h1_write_begin(r, status, type);
    conn_wake(r->h1->conn);
}

static enum status exchange_send(struct http_exchange *e, struct bytes bytes)
{
    struct h1_request *r = request_of(e);

    /* closed() comes with the end of the connection */
    if (r->h1->is_over || r->is_lost) return E_CLOSED;
    enum status status = h1_write_part(r, bytes);
    if (status == OK) conn_wake(r->h1->conn);
    return status;
}

static size_t exchange_queued(const struct http_exchange *e)
{
    const struct h1_request *r = (const struct h1_request *)(const void *)e;

    return h1_is_first(r) ? r->h1->out.len : r->early.len;
}

static bool exchange_is_full(struct http_exchange *e)
{
    struct h1_request *r = request_of(e);
    bool is_full = exchange_queued(e) >= r->h1->limits->stream_queue_size;

    if (is_full) r->is_full_told = true;
    return is_full;
}

static void exchange_finish(struct http_exchange *e, bool is_whole)
{
    struct h1_request *r = request_of(e);

    if (r->h1 != NULL) h1_write_end(r, is_whole);
    end_exchange(r);
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
