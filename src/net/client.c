/* SPDX-License-Identifier: Apache-2.0
 *
 * See client.h. nghttp2 keeps the streams; a call is found through its stream's user pointer, which
 * is cleared the moment a call ends or is cancelled, so that frames which still arrive for it find
 * nobody. nghttp2 itself holds back what is beyond the peer's number of streams.
 *
 * Who ends a call: end_call(), and nobody else. It takes the call out of everything before on_end
 * runs, so that the callback may do as it likes.
 */
#include "net/client.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/mem.h"
#include "net/pool.h"

#include <nghttp2/nghttp2.h>
#include <stdio.h>

#define PREFIX_SIZE 5u
#define HEADER_SIZE_MAX 255u
#define POOL_WAITING_SIZE ((size_t)256 << 10)
#define TIMEOUT_MS_MAX INT64_C(99999999) /* eight digits */

struct client_call {
    struct list node; /* in client.calls */
    struct heap_node deadline;
    struct client *client;
    struct client_request request; /* message and hub are not kept */
    int32_t stream_id;
    bool is_busy;   /* its on_message runs: whoever ends it leaves the memory to deliver() */
    bool is_gone;   /* ended or cancelled while busy */
    bool is_closed; /* nghttp2 has no stream of it any more */
    /* the answer */
    bool has_code;
    enum grpc_code code;
    uint32_t http_status;
    char *text;           /* CLIENT_TEXT_SIZE, or NULL = none */
    struct buffer answer; /* prefix and message as far as they came; empty between messages */
    /* the request: prefix and message */
    size_t sent_size;
    size_t size;
    uint8_t bytes[];
};

struct client {
    struct client_options options;
    nghttp2_session *session;
    nghttp2_mem hooks;
    struct pool pool;
    struct list calls;
    struct heap deadlines;
    uint64_t order; /* of deadlines */
    uint32_t calls_n;
    bool is_inside; /* nghttp2 is at work: no feed, pull, tick */
    bool is_lost;
    bool is_closing;  /* GOAWAY came */
    int64_t heard_ns; /* last bytes */
    int64_t ping_ns;  /* an unanswered PING was sent; 0 = none */
    char authority[HEADER_SIZE_MAX + 1];
    char user_agent[HEADER_SIZE_MAX + 1];
    char hub[HEADER_SIZE_MAX + 1];
    char worker_id[HEADER_SIZE_MAX + 1];
};

/* ---- memory of nghttp2 and of the calls ---- */

static void *take_block(size_t size, void *user) { return pool_take(user, size); }

static void give_block(void *ptr, void *user) { pool_give(user, ptr); }

static void *take_zero_block(size_t n, size_t size, void *user)
{
    size_t all = 0;
    return __builtin_mul_overflow(n, size, &all) ? NULL : pool_take_zero(user, all);
}

static void *resize_block(void *ptr, size_t size, void *user)
{
    return pool_resize(user, ptr, size);
}

/* ---- the end of a call ---- */

static void free_call(struct client_call *call)
{
    struct pool *pool = &call->client->pool;
    buffer_release(&call->answer);
    pool_give(pool, call->text);
    pool_give(pool, call);
}

/* Nothing finds it any more. The memory stays for the callback. */
static void unlink_call(struct client_call *call)
{
    struct client *c = call->client;
    list_remove(&call->node);
    if (call->deadline.is_linked) heap_remove(&c->deadlines, &call->deadline);
    assert(c->calls_n > 0);
    c->calls_n--;
    if (call->is_closed) return;
    call->is_closed = true;
    (void)nghttp2_session_set_stream_user_data(c->session, call->stream_id, NULL);
    /* without memory for it the stream stays until the peer ends it: nobody waits for it here */
    (void)nghttp2_submit_rst_stream(c->session, NGHTTP2_FLAG_NONE, call->stream_id, NGHTTP2_CANCEL);
}

static void end_call(struct client_call *call, enum grpc_code code, const char *text)
{
    unlink_call(call);
    if (call->request.on_end != NULL) call->request.on_end(call->request.user, call, code, text);
    call->is_gone = true;
    if (!call->is_busy) free_call(call);
}

void client_cancel(struct client_call *call)
{
    assert(!call->is_gone);
    unlink_call(call);
    call->is_gone = true;
    if (!call->is_busy) free_call(call);
}

void client_lose(struct client *c, const char *text)
{
    c->is_lost = true; /* first: what the callbacks begin is refused */
    for (struct list *n = list_first(&c->calls); n != NULL; n = list_first(&c->calls)) {
        end_call(container_of(n, struct client_call, node), GRPC_UNAVAILABLE, text);
    }
}

/* ---- what nghttp2 tells ---- */

static struct client_call *find_call(nghttp2_session *session, int32_t stream_id)
{
    return stream_id == 0 ? NULL : nghttp2_session_get_stream_user_data(session, stream_id);
}

/* Percent-encoding undone; what is not one stays as it is. */
static void decode_text(char *out, struct bytes value)
{
    static const char digits[] = "0123456789abcdef0123456789ABCDEF";
    size_t len = 0;
    for (size_t n = 0; n < value.len && len + 1 < CLIENT_TEXT_SIZE; n++) {
        uint8_t byte = value.ptr[n];
        if (byte == '%' && n + 2 < value.len) {
            const char *high = memchr(digits, value.ptr[n + 1], sizeof digits - 1);
            const char *low = memchr(digits, value.ptr[n + 2], sizeof digits - 1);
            if (high != NULL && low != NULL) {
                byte = (uint8_t)(((high - digits) & 15) << 4 | ((low - digits) & 15));
                n += 2;
            }
        }
        out[len++] = byte == '\0' ? ' ' : (char)byte;
    }
    out[len] = '\0';
}

/* 0 to 99,999; more is not one of ours. */
static uint32_t small_number(struct bytes value)
{
    uint32_t number = 0;
    if (value.len == 0 || value.len > 5) return UINT32_MAX;
    for (size_t n = 0; n < value.len; n++) {
        if (value.ptr[n] < '0' || value.ptr[n] > '9') return UINT32_MAX;
        number = number * 10 + (uint32_t)(value.ptr[n] - '0');
    }
    return number;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_size, const uint8_t *value, size_t value_size, uint8_t flags,
                     void *user)
{
    (void)flags;
    (void)user;
    struct client_call *call = find_call(session, frame->hd.stream_id);
    if (call == NULL) return 0;
    struct bytes key = bytes_make(name, name_size);
    struct bytes text = bytes_make(value, value_size);
    if (bytes_equal(key, BYTES_LITERAL("grpc-status"))) {
        uint32_t code = small_number(text);
        call->has_code = true;
        call->code = code <= GRPC_UNAUTHENTICATED ? (enum grpc_code)code : GRPC_UNKNOWN;
    } else if (bytes_equal(key, BYTES_LITERAL(":status"))) {
        call->http_status = small_number(text);
    } else if (bytes_equal(key, BYTES_LITERAL("grpc-message"))) {
        if (call->text == NULL) call->text = pool_take(&call->client->pool, CLIENT_TEXT_SIZE);
        if (call->text != NULL) decode_text(call->text, text);
    }
    return 0;
}

static enum grpc_code code_of_http(uint32_t status)
{
    switch (status) {
    case 400: return GRPC_INTERNAL;
    case 401: return GRPC_UNAUTHENTICATED;
    case 403: return GRPC_PERMISSION_DENIED;
    case 404: return GRPC_UNIMPLEMENTED;
    case 429:
    case 502:
    case 503:
    case 504: return GRPC_UNAVAILABLE;
    default: return GRPC_UNKNOWN;
    }
}

static enum grpc_code code_of_reset(uint32_t error)
{
    switch (error) {
    case NGHTTP2_REFUSED_STREAM: return GRPC_UNAVAILABLE;
    case NGHTTP2_CANCEL: return GRPC_CANCELLED;
    case NGHTTP2_ENHANCE_YOUR_CALM: return GRPC_RESOURCE_EXHAUSTED;
    case NGHTTP2_INADEQUATE_SECURITY: return GRPC_PERMISSION_DENIED;
    default: return GRPC_INTERNAL;
    }
}

/* The peer's own word counts, a reset behind it or not. */
static int on_stream_close(nghttp2_session *session, int32_t stream_id, uint32_t error, void *user)
{
    (void)user;
    char text[96];
    struct client_call *call = find_call(session, stream_id);
    if (call == NULL) return 0;
    call->is_closed = true;
    if (call->has_code && (call->code != GRPC_OK || call->answer.len == 0)) {
        end_call(call, call->code, call->text == NULL ? "" : call->text);
    } else if (call->has_code) {
        end_call(call, GRPC_INTERNAL, "the answer ends within a message");
    } else if (error != NGHTTP2_NO_ERROR) {
        snprintf(text, sizeof text, "the peer reset the call: %s", nghttp2_http2_strerror(error));
        end_call(call, code_of_reset(error), text);
    } else if (call->http_status != 0 && call->http_status != 200) {
        snprintf(text, sizeof text, "HTTP status %u without a gRPC status", call->http_status);
        end_call(call, code_of_http(call->http_status), text);
    } else {
        end_call(call, GRPC_INTERNAL, "the answer ends without a gRPC status");
    }
    return 0;
}

/* False: the call is gone. */
static bool deliver(struct client_call *call, struct bytes message)
{
    if (call->request.on_message == NULL) return true;
    call->is_busy = true;
    call->request.on_message(call->request.user, call, message);
    call->is_busy = false;
    if (!call->is_gone) return true;
    free_call(call);
    return false;
}

/* The size that a prefix tells; false, and the call has ended, when it is not acceptable. */
static bool check_prefix(struct client_call *call, const uint8_t *prefix, size_t *size)
{
    *size = (size_t)prefix[1] << 24 | (size_t)prefix[2] << 16 | (size_t)prefix[3] << 8 | prefix[4];
    if (prefix[0] != 0) {
        end_call(call, GRPC_INTERNAL, "the answer is compressed though nobody asked for it");
        return false;
    }
    if (*size <= call->client->options.message_size_max) return true;
    end_call(call, GRPC_RESOURCE_EXHAUSTED, "the answer is larger than this client takes");
    return false;
}

/* Takes what belongs to the message at the front of *chunk, delivers it when it is whole. A message
 * that lies within the chunk is not copied. False: the call is gone. */
static bool take_message(struct client_call *call, struct bytes *chunk)
{
    size_t size = 0;
    struct buffer *answer = &call->answer;
    if (answer->len == 0 && chunk->len >= PREFIX_SIZE) {
        if (!check_prefix(call, chunk->ptr, &size)) return false;
        if (chunk->len - PREFIX_SIZE >= size) {
            struct bytes message = bytes_make(chunk->ptr + PREFIX_SIZE, size);
            *chunk = bytes_make(message.ptr + size, chunk->len - PREFIX_SIZE - size);
            return deliver(call, message);
        }
    }
    size_t whole = PREFIX_SIZE;
    if (answer->len >= PREFIX_SIZE) {
        if (!check_prefix(call, answer->ptr, &size)) return false;
        whole += size;
    }
    size_t more = whole - answer->len;
    if (more > chunk->len) more = chunk->len;
    buffer_append(answer, chunk->ptr, more);
    *chunk = bytes_make(chunk->ptr + more, chunk->len - more);
    if (answer->failed) {
        end_call(call, GRPC_RESOURCE_EXHAUSTED, "no memory for the answer");
        return false;
    }
    if (answer->len < PREFIX_SIZE) return true;
    if (!check_prefix(call, answer->ptr, &size)) return false;
    if (answer->len < PREFIX_SIZE + size) return true;
    if (!deliver(call, bytes_make(answer->ptr + PREFIX_SIZE, size))) return false;
    buffer_clear(answer);
    return true;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream_id, const uint8_t *data,
                   size_t size, void *user)
{
    (void)flags;
    (void)user;
    struct client_call *call = find_call(session, stream_id);
    if (call == NULL) return 0;
    if (call->http_status != 200) return 0; /* a page of somebody who does not speak gRPC */
    struct bytes chunk = bytes_make(data, size);
    while (chunk.len > 0) {
        if (!take_message(call, &chunk)) return 0;
    }
    return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    (void)session;
    struct client *c = user;
    if (frame->hd.type == NGHTTP2_GOAWAY) c->is_closing = true;
    return 0;
}

/* A request that waited for its turn and cannot be sent any more, after GOAWAY for one. */
static int on_frame_not_sent(nghttp2_session *session, const nghttp2_frame *frame, int error,
                             void *user)
{
    struct client *c = user;
    if (frame->hd.type != NGHTTP2_HEADERS) return 0;
    for (struct list *n = list_first(&c->calls); n != NULL; n = list_next(&c->calls, n)) {
        struct client_call *call = container_of(n, struct client_call, node);
        if (call->stream_id != frame->hd.stream_id) continue;
        /* some failures leave a stream behind, which nghttp2 closes after this */
        (void)nghttp2_session_set_stream_user_data(session, call->stream_id, NULL);
        call->is_closed = true;
        end_call(call, GRPC_UNAVAILABLE, nghttp2_strerror(error));
        break;
    }
    return 0;
}

static ssize_t read_request(nghttp2_session *session, int32_t stream_id, uint8_t *out, size_t size,
                            uint32_t *flags, nghttp2_data_source *source, void *user)
{
    (void)source;
    (void)user;
    struct client_call *call = find_call(session, stream_id);
    if (call == NULL) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; /* cancelled: a reset follows */
    size_t left = call->size - call->sent_size;
    if (size > left) size = left;
    memcpy(out, call->bytes + call->sent_size, size);
    call->sent_size += size;
    if (call->sent_size == call->size) *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)size;
}

/* ---- the client ---- */

void client_options_init(struct client_options *options, struct mem *mem)
{
    *options = (struct client_options){
        .mem = mem,
        .authority = BYTES_LITERAL("localhost"),
        .calls_n_max = 10000,
        .message_size_max = (size_t)64 << 20,
        .stream_window = 1u << 20,
        .conn_window = 16u << 20,
        .ping_ms = 30000,
        .ping_answer_ms = 20000,
    };
}

static bool copy_header(char *out, struct bytes value)
{
    if (value.len > HEADER_SIZE_MAX) return false;
    if (value.len > 0) memcpy(out, value.ptr, value.len);
    out[value.len] = '\0';
    return true;
}

static int make_session(struct client *c)
{
    nghttp2_session_callbacks *callbacks = NULL;
    nghttp2_option *option = NULL;
    int failed = nghttp2_session_callbacks_new(&callbacks);
    if (failed == 0) failed = nghttp2_option_new(&option);
    if (failed == 0) {
        nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
        nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
        nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
        nghttp2_session_callbacks_set_on_frame_not_send_callback(callbacks, on_frame_not_sent);
        nghttp2_option_set_no_closed_streams(option, 1);
        c->hooks = (nghttp2_mem){
            .mem_user_data = &c->pool,
            .malloc = take_block,
            .free = give_block,
            .calloc = take_zero_block,
            .realloc = resize_block,
        };
        failed = nghttp2_session_client_new3(&c->session, callbacks, c, option, &c->hooks);
    }
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    return failed;
}

enum status client_new(const struct client_options *options, int64_t now_ns, struct client **out)
{
    struct client *c = mem_take_zero(options->mem, sizeof *c);
    if (c == NULL) return E_NOMEM;
    enum status status = E_INVALID;
    struct bytes user_agent = options->user_agent;
    if (user_agent.len == 0) user_agent = BYTES_LITERAL("norn-c/" NORN_VERSION);
    c->options = *options;
    c->heard_ns = now_ns;
    list_init(&c->calls);
    heap_init(&c->deadlines);
    pool_init(&c->pool, options->mem, POOL_WAITING_SIZE);
    if (!copy_header(c->authority, options->authority) || !copy_header(c->hub, options->hub) ||
        !copy_header(c->user_agent, user_agent) || !copy_header(c->worker_id, options->worker_id))
        goto refused;

    status = E_NOMEM;
    nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, options->stream_window},
    };
    if (make_session(c) != 0) goto refused;
    if (nghttp2_submit_settings(c->session, NGHTTP2_FLAG_NONE, settings, 2) != 0) goto refused;
    if (nghttp2_session_set_local_window_size(c->session, NGHTTP2_FLAG_NONE, 0,
                                              (int32_t)options->conn_window) != 0)
        goto refused;
    *out = c;
    return OK;
refused:
    nghttp2_session_del(c->session);
    pool_release(&c->pool);
    mem_give(options->mem, c, sizeof *c);
    return status;
}

void client_free(struct client *c)
{
    if (c == NULL) return;
    assert(!c->is_inside);
    c->is_lost = true;
    for (struct list *n = list_first(&c->calls); n != NULL; n = list_first(&c->calls)) {
        end_call(container_of(n, struct client_call, node), GRPC_CANCELLED,
                 "the client was closed");
    }
    nghttp2_session_del(c->session);
    pool_release(&c->pool);
    mem_give(c->options.mem, c, sizeof *c);
}

/* ---- a call ---- */

/* The constant part of a header outlives the session or, for a path, the call. */
static nghttp2_nv header(const char *name, const char *value)
{
    return (nghttp2_nv){
        .name = (uint8_t *)(uintptr_t)name,
        .value = (uint8_t *)(uintptr_t)value,
        .namelen = strlen(name),
        .valuelen = strlen(value),
        .flags = NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE,
    };
}

static nghttp2_nv copied_header(const char *name, struct bytes value)
{
    nghttp2_nv nv = header(name, "");
    nv.value = (uint8_t *)(uintptr_t)value.ptr;
    nv.valuelen = value.len;
    nv.flags = NGHTTP2_NV_FLAG_NO_COPY_NAME;
    return nv;
}

static int32_t submit(struct client *c, struct client_call *call, struct bytes hub)
{
    char timeout[24];
    nghttp2_nv headers[10] = {
        header(":method", "POST"),
        header(":scheme", "http"),
        header(":path", call->request.path),
        header(":authority", c->authority),
        header("te", "trailers"),
        header("content-type", "application/grpc"),
        header("user-agent", c->user_agent),
    };
    size_t n = 7;
    if (hub.len > 0)
        headers[n++] = copied_header("taskhub", hub);
    else if (c->hub[0] != '\0')
        headers[n++] = header("taskhub", c->hub);
    if (c->worker_id[0] != '\0') headers[n++] = header("workerid", c->worker_id);
    if (call->request.timeout_ms > 0) {
        int64_t ms = call->request.timeout_ms;
        if (ms <= TIMEOUT_MS_MAX)
            snprintf(timeout, sizeof timeout, "%lldm", (long long)ms);
        else
            snprintf(timeout, sizeof timeout, "%lldS",
                     (long long)(ms / 1000 > TIMEOUT_MS_MAX ? TIMEOUT_MS_MAX : ms / 1000));
        headers[n++] = copied_header("grpc-timeout", bytes_of_text(timeout));
    }
    nghttp2_data_provider provider = {.source.ptr = NULL, .read_callback = read_request};
    return nghttp2_submit_request(c->session, NULL, headers, n, &provider, call);
}

enum status client_begin(struct client *c, int64_t now_ns, const struct client_request *request,
                         struct client_call **out)
{
    if (c->is_lost || c->is_closing) return E_CLOSED;
    if (c->calls_n >= c->options.calls_n_max) return E_LIMIT;
    if (request->timeout_ms < 0 || request->hub.len > HEADER_SIZE_MAX) return E_INVALID;
    if (request->message.len > UINT32_MAX - PREFIX_SIZE) return E_LIMIT;
    size_t size = request->message.len + PREFIX_SIZE;
    struct client_call *call = pool_take(&c->pool, sizeof *call + size);
    if (call == NULL) return E_NOMEM;
    *call = (struct client_call){.client = c, .request = *request, .size = size};
    call->request.message = BYTES_NONE;
    call->request.hub = BYTES_NONE;
    list_node_init(&call->node);
    heap_node_init(&call->deadline);
    buffer_init(&call->answer, c->options.mem);
    call->bytes[0] = 0;
    for (size_t n = 0; n < 4; n++) {
        call->bytes[1 + n] = (uint8_t)(request->message.len >> (24 - 8 * n));
    }
    if (request->message.len > 0)
        memcpy(call->bytes + PREFIX_SIZE, request->message.ptr, request->message.len);

    call->stream_id = submit(c, call, request->hub);
    if (call->stream_id < 0) {
        enum status status = call->stream_id == NGHTTP2_ERR_NOMEM ? E_NOMEM : E_CLOSED;
        free_call(call);
        return status;
    }
    if (c->calls_n == 0) c->heard_ns = now_ns; /* silence counts from here */
    c->calls_n++;
    list_push_back(&c->calls, &call->node);
    if (request->timeout_ms > 0 &&
        !__builtin_mul_overflow(request->timeout_ms, NS_PER_MS, &call->deadline.key) &&
        !__builtin_add_overflow(call->deadline.key, now_ns, &call->deadline.key)) {
        call->deadline.order = c->order++;
        heap_push(&c->deadlines, &call->deadline);
    }
    if (out != NULL) *out = call;
    return OK;
}

struct client *client_of(const struct client_call *call) { return call->client; }

uint32_t client_calls_n(const struct client *c) { return c->calls_n; }

/* ---- bytes and time ---- */

enum status client_feed(struct client *c, int64_t now_ns, struct bytes bytes)
{
    assert(!c->is_inside);
    if (c->is_lost) return E_CLOSED;
    c->heard_ns = now_ns;
    c->ping_ns = 0; /* whatever came, somebody is there */
    c->is_inside = true;
    ssize_t taken = nghttp2_session_mem_recv(c->session, bytes.ptr, bytes.len);
    c->is_inside = false;
    if (taken < 0) client_lose(c, nghttp2_strerror((int)taken));
    if (client_is_over(c)) client_lose(c, "the peer closed the connection");
    return c->is_lost ? E_CLOSED : OK;
}

bool client_pull(struct client *c, struct buffer *out, size_t size_max)
{
    assert(!c->is_inside);
    size_t before = out->len;
    c->is_inside = true;
    ssize_t size = 0;
    while (out->len - before < size_max) {
        const uint8_t *bytes = NULL;
        size = nghttp2_session_mem_send(c->session, &bytes);
        if (size <= 0) break;
        buffer_append(out, bytes, (size_t)size);
    }
    c->is_inside = false;
    /* bytes that are lost here would be a hole in the stream */
    if (size < 0) client_lose(c, nghttp2_strerror((int)size));
    if (out->failed) client_lose(c, "no memory to send");
    if (client_is_over(c)) client_lose(c, "the connection is closed");
    return out->len > before;
}

/* When the connection's own timer is due; INT64_MAX = never. */
static int64_t ping_due_ns(const struct client *c)
{
    if (c->options.ping_ms == 0 || c->calls_n == 0) return INT64_MAX;
    if (c->ping_ns != 0) return c->ping_ns + c->options.ping_answer_ms * NS_PER_MS;
    return c->heard_ns + c->options.ping_ms * NS_PER_MS;
}

int64_t client_tick(struct client *c, int64_t now_ns)
{
    assert(!c->is_inside);
    if (c->is_lost) return INT64_MAX;
    for (struct heap_node *n = heap_min(&c->deadlines); n != NULL && n->key <= now_ns;
         n = heap_min(&c->deadlines)) {
        end_call(container_of(n, struct client_call, deadline), GRPC_DEADLINE_EXCEEDED,
                 "the deadline has passed");
    }
    if (ping_due_ns(c) <= now_ns) {
        if (c->ping_ns != 0) {
            client_lose(c, "the peer does not answer");
            return INT64_MAX;
        }
        if (nghttp2_submit_ping(c->session, NGHTTP2_FLAG_NONE, NULL) == 0) c->ping_ns = now_ns;
    }
    int64_t due_ns = ping_due_ns(c);
    const struct heap_node *first = heap_min(&c->deadlines);
    return first != NULL && first->key < due_ns ? first->key : due_ns;
}

bool client_is_over(const struct client *c)
{
    return c->is_lost || (nghttp2_session_want_read(c->session) == 0 &&
                          nghttp2_session_want_write(c->session) == 0);
}

bool client_is_closing(const struct client *c) { return c->is_lost || c->is_closing; }
