/* SPDX-License-Identifier: Apache-2.0
 *
 * One HTTP/2 connection: its session, its time-outs and its end.
 *
 * nghttp2 1.52 limits the CONTINUATION frames, the acknowledgements that wait and the entries of
 * SETTINGS; what else a hostile peer can do is counted by us (h2_events.c). Its own limit of resets
 * looks at the system's clock, so it is set out of reach and ours, on the given time, decides.
 */
#include "net/h2.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"
#include "net/state.h"

#include <stdio.h>

#define FEED_SIZE_MAX (16 * 1024) /* between two looks at the frames that wait in nghttp2 */
#define OWN_POOL_SIZE (32 * 1024)
#define NO_LIMIT UINT32_MAX
#define STRANGER_DIVISOR 5 /* a peer that is not trusted may reset so much less */

static void *hook_malloc(size_t size, void *user) { return pool_take(user, size); }
static void hook_free(void *ptr, void *user) { pool_give(user, ptr); }
static void *hook_realloc(void *ptr, size_t size, void *user)
{
    return pool_resize(user, ptr, size);
}
static void *hook_calloc(size_t n, size_t size, void *user)
{
    size_t whole;

    return __builtin_mul_overflow(n, size, &whole) ? NULL : pool_take_zero(user, whole);
}

/* ---- the beginning ---- */

static nghttp2_option *options_new(void)
{
    nghttp2_option *option = NULL;

    if (nghttp2_option_new(&option) != 0) return NULL;
    nghttp2_option_set_stream_reset_rate_limit(option, NO_LIMIT, NO_LIMIT);
    nghttp2_option_set_max_continuations(option, CONTINUATIONS_N_MAX);
    nghttp2_option_set_max_outbound_ack(option, OUTBOUND_ACKS_N_MAX);
    nghttp2_option_set_max_settings(option, SETTINGS_N_MAX);
    nghttp2_option_set_max_deflate_dynamic_table_size(option, 4096);
    nghttp2_option_set_no_closed_streams(option, 1);
    return option;
}

static bool session_new(struct h2 *h2)
{
    nghttp2_session_callbacks *callbacks = h2_callbacks_new();
    nghttp2_option *option = options_new();
    bool is_made =
        callbacks != NULL && option != NULL &&
        nghttp2_session_server_new3(&h2->session, callbacks, h2, option, &h2->hooks) == 0;

    nghttp2_session_callbacks_del(callbacks);
    nghttp2_option_del(option);
    return is_made;
}

static bool greet(struct h2 *h2)
{
    const struct conn_limits *limits = h2->limits;
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, limits->calls_n_max},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, limits->stream_window},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HEADER_LIST_SIZE_MAX},
        {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
    };
    size_t settings_n = sizeof settings / sizeof settings[0];

    return nghttp2_submit_settings(h2->session, NGHTTP2_FLAG_NONE, settings, settings_n) == 0 &&
           nghttp2_session_set_local_window_size(h2->session, NGHTTP2_FLAG_NONE, 0,
                                                 (int32_t)limits->conn_window) == 0;
}

enum status h2_new(const struct conn_options *options, struct conn *conn, int64_t now_ns,
                   struct h2 **out)
{
    struct h2 *h2 = mem_take_zero(options->mem, sizeof *h2);
    const struct conn_limits *limits = options->limits;
    uint32_t divisor = options->is_trusted ? 1 : STRANGER_DIVISOR;

    if (h2 == NULL) return E_NOMEM;
    h2->conn = conn;
    h2->mem = options->mem;
    h2->limits = limits;
    h2->counters = options->counters;
    h2->service = options->grpc;
    h2->http = options->http;
    h2->date = options->date;
    h2->is_trusted = options->is_trusted;
    (void)snprintf(h2->peer, sizeof h2->peer, "%s", options->peer);
    h2->unfinished_all = options->unfinished_size;
    h2->now_ns = h2->born_ns = h2->received_ns = h2->pinged_ns = now_ns;
    pool_init(&h2->own_pool, options->mem, OWN_POOL_SIZE);
    h2->pool = options->pool != NULL ? options->pool : &h2->own_pool;
    h2->hooks = (nghttp2_mem){.mem_user_data = h2->pool,
                              .malloc = hook_malloc,
                              .free = hook_free,
                              .calloc = hook_calloc,
                              .realloc = hook_realloc};
    list_init(&h2->calls);
    heap_init(&h2->deadlines);
    buffer_init(&h2->last_words, options->mem);
    flood_init(&h2->flood, limits->resets_burst / divisor, limits->resets_per_s / divisor, now_ns);
    if (!session_new(h2) || !greet(h2)) {
        h2_free(h2, now_ns);
        return E_NOMEM;
    }
    *out = h2;
    return OK;
}

/* ---- the end ---- */

void h2_end(struct h2 *h2, uint32_t error_code, uint64_t *counter)
{
    if (h2->is_ending) return;
    h2->is_ending = true;
    (*counter)++;
    (void)nghttp2_session_terminate_session(h2->session, error_code);
    conn_wake(h2->conn);
}

/* nghttp2 cannot go on: we say farewell in its place. */
static void break_off(struct h2 *h2, uint32_t error_code, uint64_t *counter)
{
    uint8_t goaway[17] = {0, 0, 8, NGHTTP2_GOAWAY, 0, 0, 0, 0, 0};
    uint32_t last_id = (uint32_t)nghttp2_session_get_last_proc_stream_id(h2->session);

    for (int i = 0; i < 4; i++) {
        goaway[9 + i] = (uint8_t)(last_id >> (24 - 8 * i));
        goaway[13 + i] = (uint8_t)(error_code >> (24 - 8 * i));
    }
    if (!h2->is_ending) (*counter)++;
    h2->is_ending = true;
    h2->is_broken = true;
    buffer_append(&h2->last_words, goaway, sizeof goaway);
}

static void break_by_error(struct h2 *h2, int error)
{
    struct net_counters *counters = h2->counters;

    if (error == NGHTTP2_ERR_FLOODED)
        break_off(h2, NGHTTP2_ENHANCE_YOUR_CALM, &counters->control_flood);
    else if (error == NGHTTP2_ERR_TOO_MANY_CONTINUATIONS)
        break_off(h2, NGHTTP2_ENHANCE_YOUR_CALM, &counters->header_flood);
    else if (error == NGHTTP2_ERR_NOMEM || error == NGHTTP2_ERR_CALLBACK_FAILURE)
        break_off(h2, NGHTTP2_INTERNAL_ERROR, &counters->out_of_memory);
    else
        break_off(h2, NGHTTP2_PROTOCOL_ERROR, &counters->http2_malformed);
}

/* Every call is told, then cut off from the connection; those without a handler go. */
static void let_calls_go(struct h2 *h2)
{
    struct list *node;

    while ((node = list_first(&h2->calls)) != NULL) {
        struct grpc_call *call = container_of(node, struct grpc_call, link);
        if (call->is_stream_open) {
            call_stream_closed(call);
        } else {
            assert(call->is_handled);
            assert(call->is_closed);
            call_drop_slot(call);
            request_uncount(call);
            call->h2 = NULL;
            list_remove(&call->link);
            h2->calls_n--;
        }
    }
}

void h2_free(struct h2 *h2, int64_t now_ns)
{
    h2->now_ns = now_ns;
    h2->is_ending = true;
    let_calls_go(h2);
    assert(h2->queued == 0);
    assert(h2->slots_n == 0);
    assert(h2->coming_n == 0);
    assert(h2->http_begun_n == 0);
    assert(h2->unfinished == 0);
    assert(h2->streams_n == 0);
    nghttp2_session_del(h2->session);
    pool_release(&h2->own_pool);
    buffer_release(&h2->last_words);
    mem_give(h2->mem, h2, sizeof *h2);
}

bool h2_wants_read(const struct h2 *h2) { return !h2->is_ending; }

bool h2_is_ending(const struct h2 *h2) { return h2->is_ending; }

bool h2_is_over(const struct h2 *h2)
{
    if (h2->is_broken) return h2->last_words.len == 0;
    if (h2->is_ending) return nghttp2_session_want_write(h2->session) == 0;
    return h2->is_draining && h2->calls_n == 0 && nghttp2_session_want_write(h2->session) == 0;
}

void h2_drain(struct h2 *h2, int64_t now_ns)
{
    h2->now_ns = now_ns;
    if (h2->is_draining || h2->is_ending) return;
    h2->is_draining = true;
    (void)nghttp2_submit_goaway(h2->session, NGHTTP2_FLAG_NONE,
                                nghttp2_session_get_last_proc_stream_id(h2->session),
                                NGHTTP2_NO_ERROR, NULL, 0);
    conn_wake(h2->conn);
}

/* ---- bytes ---- */

/* Headers and trailers of every call it may have are owed to the peer, and wait when it writes all
 * its requests before it reads; what is beyond, it provoked. */
static size_t outbound_frames_n_max(const struct h2 *h2)
{
    return OUTBOUND_FRAMES_N_MAX + 2 * (size_t)h2->limits->calls_n_max;
}

enum status h2_feed(struct h2 *h2, int64_t now_ns, struct bytes bytes)
{
    h2->now_ns = now_ns;
    h2->received_ns = now_ns;
    h2->is_ping_out = false;
    while (bytes.len > 0 && !h2->is_ending) {
        size_t n = bytes.len < FEED_SIZE_MAX ? bytes.len : FEED_SIZE_MAX;
        ssize_t taken = nghttp2_session_mem_recv(h2->session, bytes.ptr, n);
        if (taken < 0) {
            break_by_error(h2, (int)taken);
            break;
        }
        bytes = bytes_make(bytes.ptr + n, bytes.len - n);
        if (nghttp2_session_get_outbound_queue_size(h2->session) > outbound_frames_n_max(h2))
            h2_end(h2, NGHTTP2_ENHANCE_YOUR_CALM, &h2->counters->provoked_flood);
    }
    return h2->is_ending ? E_CLOSED : OK;
}

/* Who was told that it is full and has room again. A handler may finish any call, so the list is
 * looked at from its start after each. */
static void tell_writable(struct h2 *h2)
{
    struct list *node = list_first(&h2->calls);

    while (node != NULL && h2->full_told_n > 0) {
        struct grpc_call *call = container_of(node, struct grpc_call, link);
        node = list_next(&h2->calls, node);
        if (!call->is_full_told || call_is_full(call)) continue;
        if (call_queued(call) > h2->limits->stream_queue_size / 2) continue;
        call->is_full_told = false;
        h2->full_told_n--;
        if (!call->is_handled) continue;
        if (call->is_http)
            h2->http->writable(h2->http->user, &call->http);
        else
            h2->service->writable(h2->service->user, call);
        node = list_first(&h2->calls);
    }
}

static void pull_session(struct h2 *h2, struct buffer *out, size_t size_max)
{
    h2->out = out;
    h2->out_size_max = out->len + size_max;
    while (out->len < h2->out_size_max) {
        const uint8_t *data = NULL;
        ssize_t n = nghttp2_session_mem_send(h2->session, &data);
        if (n < 0) break_by_error(h2, (int)n);
        if (n <= 0) break;
        buffer_append(out, data, (size_t)n);
        if (out->failed) {
            break_by_error(h2, NGHTTP2_ERR_NOMEM);
            break;
        }
    }
    h2->out = NULL;
}

bool h2_pull(struct h2 *h2, int64_t now_ns, struct buffer *out, size_t size_max)
{
    size_t start = out->len;

    h2->now_ns = now_ns;
    if (h2->is_fresh) h2->moved_ns = now_ns;
    h2->is_fresh = false;
    if (!h2->is_broken) pull_session(h2, out, size_max);
    if (h2->is_broken) {
        buffer_append_bytes(out, buffer_view(&h2->last_words));
        buffer_clear(&h2->last_words);
    } else if (!h2->is_ending && h2->calls_n == 0 && nghttp2_session_want_read(h2->session) == 0 &&
               nghttp2_session_want_write(h2->session) == 0) {
        h2->is_ending = true; /* GOAWAY was said and the last stream is closed */
    }
    tell_writable(h2);
    return out->len > start;
}

/* ---- time ---- */

static int64_t after_ms(int64_t from_ns, int64_t ms) { return from_ns + ms * NS_PER_MS; }

/* When a request that is still coming is too slow. */
static int64_t slow_ns(const struct h2 *h2, const struct grpc_call *call)
{
    const struct conn_limits *limits = h2->limits;

    if (call->phase == REQUEST_HEADERS) return after_ms(call->begun_ns, limits->header_ms);
    return call->body_due_ns;
}

static int64_t tick_coming(struct h2 *h2)
{
    int64_t next_ns = INT64_MAX;

    if (h2->coming_n == 0) return next_ns;
    for (struct list *n = list_first(&h2->calls); n != NULL; n = list_next(&h2->calls, n)) {
        struct grpc_call *call = container_of(n, struct grpc_call, link);
        if (call->phase == REQUEST_OVER) continue;
        int64_t due_ns = slow_ns(h2, call);
        if (due_ns <= h2->now_ns) {
            h2_end(h2, NGHTTP2_ENHANCE_YOUR_CALM, &h2->counters->slow_request);
            return INT64_MAX;
        }
        if (due_ns < next_ns) next_ns = due_ns;
    }
    return next_ns;
}

static int64_t tick_deadlines(struct h2 *h2)
{
    struct heap_node *node;

    while ((node = heap_min(&h2->deadlines)) != NULL && node->key <= h2->now_ns) {
        heap_pop(&h2->deadlines);
        request_expire(container_of(node, struct grpc_call, deadline));
    }
    return node == NULL ? INT64_MAX : node->key;
}

static int64_t tick_idle(struct h2 *h2)
{
    if (h2->idle_ns == 0) h2->idle_ns = h2->now_ns;
    int64_t due_ns = after_ms(h2->idle_ns, h2->limits->idle_ms);
    if (due_ns > h2->now_ns) return due_ns;
    h2_end(h2, NGHTTP2_NO_ERROR, &h2->counters->idle_closed);
    return INT64_MAX;
}

/* Any byte that came is a sign of life: a PING is only sent, and only missed, in silence. */
static int64_t tick_ping(struct h2 *h2)
{
    const struct conn_limits *limits = h2->limits;

    if (h2->is_ping_out) {
        int64_t due_ns = after_ms(h2->pinged_ns, limits->ping_answer_ms);
        if (due_ns > h2->now_ns) return due_ns;
        h2_end(h2, NGHTTP2_NO_ERROR, &h2->counters->ping_unanswered);
        return INT64_MAX;
    }
    int64_t last_ns = h2->received_ns > h2->pinged_ns ? h2->received_ns : h2->pinged_ns;
    int64_t due_ns = after_ms(last_ns, limits->ping_ms);
    if (due_ns > h2->now_ns) return due_ns;
    (void)nghttp2_submit_ping(h2->session, NGHTTP2_FLAG_NONE, NULL);
    h2->is_ping_out = true;
    h2->pinged_ns = h2->now_ns;
    conn_wake(h2->conn);
    return after_ms(h2->now_ns, limits->ping_answer_ms);
}

static bool has_ended_waiting(const struct h2 *h2)
{
    for (struct list *n = list_first(&h2->calls); n != NULL; n = list_next(&h2->calls, n)) {
        const struct grpc_call *call = container_of(n, struct grpc_call, link);
        if (call->is_ended && call_queued(call) > 0) return true;
    }
    return false;
}

/* The peer's windows are closed. A worker that is busy may let its work items wait as long as it
 * likes; but nobody who asked for one answer lets it lie. */
static int64_t tick_stall(struct h2 *h2)
{
    if (h2->queued == 0 || h2->is_fresh) return INT64_MAX;
    int64_t due_ns = after_ms(h2->moved_ns, h2->limits->stall_ms);
    if (due_ns > h2->now_ns) return due_ns;
    if (!has_ended_waiting(h2)) return after_ms(h2->now_ns, h2->limits->stall_ms);
    h2_end(h2, NGHTTP2_ENHANCE_YOUR_CALM, &h2->counters->stalled);
    return INT64_MAX;
}

static int64_t earlier(int64_t a_ns, int64_t b_ns) { return a_ns < b_ns ? a_ns : b_ns; }

int64_t h2_tick(struct h2 *h2, int64_t now_ns)
{
    h2->now_ns = now_ns;
    if (h2->is_ending) return INT64_MAX;

    int64_t next_ns = tick_deadlines(h2);
    if (!h2->is_greeted) {
        int64_t due_ns = after_ms(h2->born_ns, h2->limits->preface_ms);
        if (due_ns <= now_ns) h2_end(h2, NGHTTP2_ENHANCE_YOUR_CALM, &h2->counters->slow_request);
        next_ns = earlier(next_ns, due_ns);
    }
    next_ns = earlier(next_ns, tick_coming(h2));
    next_ns = earlier(next_ns, tick_stall(h2));
    next_ns = earlier(next_ns, http_tick(h2));
    next_ns = earlier(next_ns, h2->calls_n == 0 ? tick_idle(h2) : tick_ping(h2));
    return h2->is_ending ? INT64_MAX : next_ns;
}
