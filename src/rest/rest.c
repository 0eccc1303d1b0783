/* SPDX-License-Identifier: Apache-2.0
 *
 * The API as the network and the server see it: who may ask at all, which handler it is, and what
 * those that wait are told.
 */
#include "rest/agents.h"
#include "rest/backup.h"
#include "rest/changes.h"

#include "rest/stream_desk.h"

#include "base/clock.h"
#include "base/random.h"

#define RETRY_NS ((int64_t)10 * 1000 * 1000) /* what the engine did not take is tried again */

/* ---- who may ask ---- */

static struct bytes without_port(struct bytes host)
{
    if (host.len > 0 && host.ptr[0] == '[') {
        const uint8_t *end = memchr(host.ptr, ']', host.len);
        return end == NULL ? host : bytes_make(host.ptr, (size_t)(end - host.ptr) + 1);
    }
    const uint8_t *colon = host.len == 0 ? NULL : memchr(host.ptr, ':', host.len);
    return colon == NULL ? host : bytes_make(host.ptr, (size_t)(colon - host.ptr));
}

static bool has_end(struct bytes text, struct bytes end)
{
    return text.len >= end.len &&
           bytes_equal(bytes_make(text.ptr + text.len - end.len, end.len), end);
}

/* A page that some site on the Internet gave to a browser of this machine may have a name that
 * leads here (DNS rebinding); it cannot have one of these. */
static bool is_own_name(struct bytes host)
{
    struct bytes name = without_port(host);

    if (name.len == 0 || memchr(name.ptr, '.', name.len) == NULL) return true;
    if (bytes_start_with(name, BYTES_LITERAL("127."))) {
        for (size_t n = 0; n < name.len; n++) {
            if (name.ptr[n] != '.' && (name.ptr[n] < '0' || name.ptr[n] > '9')) return false;
        }
        return true;
    }
    return has_end(name, BYTES_LITERAL(".localhost"));
}

static bool is_same_origin(struct bytes origin, struct bytes host)
{
    struct bytes prefix = BYTES_LITERAL("http://");

    if (!bytes_start_with(origin, prefix)) return false;
    return bytes_equal(bytes_make(origin.ptr + prefix.len, origin.len - prefix.len), host);
}

static bool is_reading(struct bytes method)
{
    return bytes_equal(method, BYTES_LITERAL("GET")) || bytes_equal(method, BYTES_LITERAL("HEAD"));
}

/* False: answered. */
static bool check_sender(struct ask *ask)
{
    struct bytes host = http_header(ask->exchange, "host");
    struct bytes origin = http_header(ask->exchange, "origin");

    if (!ask->rest->options.is_insecure && !is_own_name(host)) {
        ask_problem(ask, PROBLEM_WRONG_HOST, "use localhost or 127.0.0.1",
                    "this server is for this machine only, and not known as '%.*s'",
                    (int)(host.len < 100 ? host.len : 100), (const char *)host.ptr);
        return false;
    }
    if (origin.len > 0 && !is_reading(http_method(ask->exchange)) &&
        !is_same_origin(origin, host)) {
        ask_problem(ask, PROBLEM_FORBIDDEN, NULL,
                    "pages of other sites ('%.*s') may not change anything here",
                    (int)(origin.len < 100 ? origin.len : 100), (const char *)origin.ptr);
        return false;
    }
    return true;
}

/* ---- what the network tells ---- */

static bool is_ours(struct bytes path)
{
    return bytes_start_with(path, BYTES_LITERAL("/v1")) ||
           bytes_equal(path, BYTES_LITERAL("/openapi.json"));
}

static void on_request(void *user, struct http_exchange *exchange)
{
    struct rest *r = user;
    struct ask *ask = ask_new(r, exchange);

    if (ask == NULL) {
        exchange_busy(exchange);
        return;
    }
    r->stats.requests++;
    http_set_user(exchange, ask);
    if (!check_sender(ask)) return;
    if (!is_ours(http_path(exchange))) {
        ask_hand_over(ask);
        r->options.pages->request(r->options.pages->user, exchange);
        return;
    }
    if (!router_find(ask)) return;
    if (r->is_draining && (ask->route->flags & ROUTE_WHILE_DRAINING) == 0) {
        ask_problem(ask, PROBLEM_DRAINING, "try again in a moment", "the server is shutting down");
        return;
    }
    ask->route->handler(ask);
}

static void on_writable(void *user, struct http_exchange *exchange)
{
    struct ask *ask = http_user(exchange);

    (void)user;
    if (ask != NULL && ask->ops != NULL) ask->ops->writable(ask);
}

static void on_closed(void *user, struct http_exchange *exchange)
{
    struct rest *r = user;
    struct ask *ask = http_user(exchange);

    if (ask == NULL) {
        r->options.pages->closed(r->options.pages->user, exchange);
        return;
    }
    ask->is_closed = true;
    if (ask->ops != NULL) ask->ops->closed(ask);
}

static void on_half_closed(void *user, struct http_exchange *exchange)
{
    struct ask *ask = http_user(exchange);

    (void)user;
    if (ask != NULL && ask->ops != NULL) ask->ops->half_closed(ask);
}

/* PUT /v1/instances/{id} and POST /v1/instances. */
static bool is_start(const struct http_exchange *exchange)
{
    const struct bytes all = BYTES_LITERAL("/v1/instances");
    struct bytes path = http_path(exchange);
    struct bytes method = http_method(exchange);

    if (bytes_equal(method, BYTES_LITERAL("POST"))) return bytes_equal(path, all);
    if (!bytes_equal(method, BYTES_LITERAL("PUT"))) return false;
    if (path.len <= all.len || !bytes_start_with(path, all) || path.ptr[all.len] != '/')
        return false;
    return memchr(path.ptr + all.len + 1, '/', path.len - all.len - 1) == NULL;
}

/* What only looks may be answered in any order (RFC 9112, 9.3.2), and starts are stepped in the
 * order in which they came: an instance has its place in one queue. But a look waits for the starts
 * before it, and they for it: who sends both one after the other expects to see the first. */
static bool is_beside(void *user, const struct http_exchange *before,
                      const struct http_exchange *next)
{
    (void)user;
    if (is_reading(http_method(before))) return is_reading(http_method(next));
    return is_start(before) && is_start(next);
}

/* ---- time and the end ---- */

void rest_set_now(struct rest *r, int64_t now_ns) { r->now_ns = now_ns; }
int64_t rest_wall_ns(void) { return clock_wall_ns(); }
void rest_bell(struct rest *r)
{
    desk_collect(r->desk);
    if (r->streams != NULL) stream_desk_collect(r->streams);
    changes_collect(r->changes);
    backups_collect(r->backups);
}

int64_t rest_tick(struct rest *r)
{
    struct heap_node *node;

    while ((node = heap_min(&r->times)) != NULL && node->key <= r->now_ns) {
        struct ask *ask = container_of(node, struct ask, time);
        ask_set_time(ask, HEAP_NEVER);
        assert(ask->ops != NULL);
        ask->ops->time(ask);
    }
    int64_t next_ns = node == NULL ? INT64_MAX : node->key;
    int64_t changes_ns = changes_tick(r->changes, r->now_ns);
    if (changes_ns < next_ns) next_ns = changes_ns;
    bool is_done = wait_cancels_retry(r);
    is_done = agents_retry(r->agents) && is_done;
    if (!is_done && r->now_ns + RETRY_NS < next_ns) next_ns = r->now_ns + RETRY_NS;
    return next_ns;
}

void rest_drain(struct rest *r)
{
    struct list *next;

    r->is_draining = true;
    backups_cancel(r->backups);
    if (r->streams != NULL) stream_desk_stop(r->streams);
    for (struct list *node = list_first(&r->asks); node != NULL; node = next) {
        struct ask *ask = container_of(node, struct ask, node);
        next = list_next(&r->asks, node);
        if (!ask->is_answered && ask->ops != NULL) ask->ops->drain(ask);
    }
}

bool rest_is_quiet(const struct rest *r)
{
    /* The streams end first: they post to the engine. */
    if (r->streams != NULL && !stream_desk_is_over(r->streams)) return false;
    if (r->streams != NULL && stream_desk_errands_n(r->streams) > 0) return false;
    if (!backups_are_quiet(r->backups)) return false;
    return list_is_empty(&r->asks) && desk_errands_n(r->desk) == 0 && agents_are_quiet(r->agents);
}

void rest_stats(const struct rest *r, struct front_stats *out)
{
    *out = r->stats;
    if (r->streams != NULL) stream_desk_stats(r->streams, &out->streams);
}

void rest_fresh_id(struct rest *r, char out[FRESH_ID_SIZE])
{
    uint8_t id[EXECUTION_ID_SIZE];

    rng_fill(&r->rng, id, sizeof id);
    execution_id_text(id, out);
}
_Static_assert(FRESH_ID_SIZE == EXECUTION_TEXT_SIZE, "both are 16 bytes in hex");

/* ---- from birth to death ---- */

static void on_parcel(void *user, struct parcel *parcel)
{
    struct rest *r = user;

    agents_parcel(r->agents, parcel);
}

enum status rest_new(const struct front_options *options, int64_t now_ns, struct rest **out)
{
    struct rest *r = mem_take_zero(options->mem, sizeof *r);

    if (r == NULL) return E_NOMEM;
    r->options = *options;
    r->mem = options->mem;
    r->now_ns = now_ns;
    r->http = (struct http_service){
        .user = r,
        .request = on_request,
        .writable = on_writable,
        .closed = on_closed,
        .half_closed = on_half_closed,
        .is_beside = is_beside,
        .refusal = problem_of_refusal,
    };
    list_init(&r->asks);
    list_init(&r->spare);
    list_init(&r->uncancelled);
    heap_init(&r->times);
    random_fill(r->rng.state, sizeof r->rng.state); /* ids of two processes must not meet */
    struct desk_options desk = {
        .mem = r->mem,
        .engine = options->desk_engine,
        .errands_n_max = options->errands_n_max,
        .parcel = on_parcel,
        .user = r,
    };
    enum status status = router_init(r);
    if (status == OK) status = changes_new(r, &r->changes);
    if (status == OK) status = agents_new(r, &r->agents);
    if (status == OK) status = desk_new(&desk, &r->desk);
    if (status == OK && (r->backups = backups_new(r)) == NULL) status = E_NOMEM;
    if (status == OK && options->directory != NULL && options->wake != NULL) {
        status = stream_desk_new(options, &r->streams);
    }
    if (status != OK) {
        if (r->agents != NULL) agents_free(r->agents);
        if (r->backups != NULL) backups_free(r->backups);
        if (r->changes != NULL) changes_free(r->changes);
        if (r->desk != NULL) desk_free(r->desk);
        arena_release(&r->routes);
        mem_give(r->mem, r, sizeof *r);
        return status;
    }
    *out = r;
    return OK;
}

void rest_free(struct rest *r)
{
    struct list *node;

    rest_close(r);
    rest_bell(r); /* what the engine answered while it was closed */
    assert(list_is_empty(&r->asks));
    while ((node = list_pop_front(&r->spare)) != NULL) {
        ask_destroy(container_of(node, struct ask, node));
    }
    agents_free(r->agents);
    changes_free(r->changes);
    backups_free(r->backups);
    desk_free(r->desk);
    if (r->streams != NULL) stream_desk_free(r->streams);
    arena_release(&r->routes);
    mem_give(r->mem, r, sizeof *r);
}

void rest_close(struct rest *r)
{
    backups_join(r->backups);
    if (r->streams != NULL) stream_desk_join(r->streams);
}

const struct http_service *rest_http(const struct rest *r) { return &r->http; }

/* ---- for the server ---- */

static enum status front_make(const struct front_options *options, int64_t now_ns, void **out)
{
    struct rest *r;
    enum status status = rest_new(options, now_ns, &r);

    if (status == OK) *out = r;
    return status;
}

static void front_close(void *front) { rest_close(front); }
static void front_free(void *front) { rest_free(front); }
static const struct http_service *front_http(const void *front) { return rest_http(front); }
static void front_set_now(void *front, int64_t now_ns) { rest_set_now(front, now_ns); }
static void front_bell(void *front) { rest_bell(front); }
static int64_t front_tick(void *front) { return rest_tick(front); }
static void front_drain(void *front) { rest_drain(front); }
static bool front_is_quiet(const void *front) { return rest_is_quiet(front); }
static void front_stats(const void *front, struct front_stats *out) { rest_stats(front, out); }

const struct front_ops rest_front = {
    .make = front_make,
    .close = front_close,
    .free = front_free,
    .http = front_http,
    .set_now = front_set_now,
    .bell = front_bell,
    .tick = front_tick,
    .drain = front_drain,
    .is_quiet = front_is_quiet,
    .stats = front_stats,
};
