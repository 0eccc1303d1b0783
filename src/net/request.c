/* SPDX-License-Identifier: Apache-2.0
 *
 * A gRPC call from its first header to the service, and the life of a call.
 *
 * The message's length is known from its prefix; what is larger than the limit is refused before a
 * byte of memory is taken for it, and the buffer grows with what has really come, so that a lying
 * length costs nothing. Every request of this protocol is exactly one message.
 */
#include "net/state.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"

#define TEXT_SIZE_MAX_BYTES (2 * HEADER_LIST_SIZE_MAX)
#define KEPT_SIZE_MAX 1024  /* of each buffer of a call that is over, or waits */
#define TEXT_SIZE_FIRST 200 /* path, hub and user agent of an ordinary request */

static bool is_coming(enum request_phase phase) { return phase != REQUEST_OVER; }

static void set_phase(struct grpc_call *call, enum request_phase phase)
{
    if (is_coming(call->phase) && !is_coming(phase)) {
        assert(call->h2->coming_n > 0);
        call->h2->coming_n--;
    }
    call->phase = phase;
}

/* A call takes four pieces of memory, and hundreds of them come at once: those that are over keep
 * theirs for the next. */
static struct grpc_call *call_take(struct h2 *h2)
{
    struct list *node = pool_take_kept(h2->pool);

    if (node == NULL) {
        struct grpc_call *call = mem_take_zero(h2->mem, sizeof *call);
        if (call == NULL) return NULL;
        call->mem = h2->mem;
        buffer_init(&call->text, h2->mem);
        buffer_init(&call->message, h2->mem);
        buffer_init(&call->code_text, h2->mem);
        buffer_init(&call->queue, h2->mem);
        return call;
    }
    struct grpc_call *call = container_of(node, struct grpc_call, link);
    assert(call->mem == h2->mem);
    *call = (struct grpc_call){.mem = call->mem,
                               .text = call->text,
                               .message = call->message,
                               .code_text = call->code_text,
                               .queue = call->queue};
    return call;
}

static void call_destroy(struct list *node)
{
    struct grpc_call *call = container_of(node, struct grpc_call, link);

    buffer_release(&call->text);
    buffer_release(&call->message);
    buffer_release(&call->code_text);
    buffer_release(&call->queue);
    mem_give(call->mem, call, sizeof *call);
}

void call_trim(struct buffer *buffer)
{
    if (buffer->size > KEPT_SIZE_MAX)
        buffer_release(buffer);
    else
        buffer_clear(buffer);
}

struct grpc_call *call_new(struct h2 *h2, int32_t stream_id)
{
    struct grpc_call *call = call_take(h2);

    if (call == NULL) return NULL;
    call->h2 = h2;
    call->stream_id = stream_id;
    call->is_stream_open = true;
    call->has_slot = true;
    call->phase = REQUEST_HEADERS;
    call->begun_ns = h2->now_ns;
    call->body_due_ns = h2->now_ns + h2->limits->body_ms * NS_PER_MS;
    call->deadline_ns = INT64_MAX;
    heap_node_init(&call->deadline);
    list_push_back(&h2->calls, &call->link);
    h2->calls_n++;
    h2->slots_n++;
    h2->streams_n++;
    h2->coming_n++;
    h2->idle_ns = 0;
    return call;
}

static void clear_deadline(struct grpc_call *call)
{
    if (call->deadline.is_linked) heap_remove(&call->h2->deadlines, &call->deadline);
}

void call_drop_slot(struct grpc_call *call)
{
    if (!call->has_slot) return;
    assert(call->h2->slots_n > 0);
    call->h2->slots_n--;
    call->has_slot = false;
}

static void drop_message(struct grpc_call *call)
{
    call->h2->unfinished -= call->message.len;
    *call->h2->unfinished_all -= call->message.len;
    call_trim(&call->message);
}

void call_free(struct grpc_call *call)
{
    struct h2 *h2 = call->h2;

    assert(!call->is_handled);
    assert(!call->is_stream_open);
    if (h2 == NULL) { /* and its pool may be gone as well */
        call_destroy(&call->link);
        return;
    }
    set_phase(call, REQUEST_OVER);
    call_drop_slot(call);
    clear_deadline(call);
    if (call->is_full_told) h2->full_told_n--;
    h2->calls_n--;
    list_remove(&call->link);
    call_trim(&call->text);
    drop_message(call);
    call_trim(&call->code_text);
    call_trim(&call->queue);
    if (!pool_keep(h2->pool, &call->link, call_destroy)) call_destroy(&call->link);
}

void call_close(struct grpc_call *call)
{
    if (call->is_closed) return;
    call->is_closed = true;
    /* The handler may finish inside: the call is not ours after this. */
    call->h2->service->closed(call->h2->service->user, call);
}

size_t call_queued(const struct grpc_call *call) { return call->queue.len - call->queue_at; }

bool call_is_full(const struct grpc_call *call)
{
    const struct h2 *h2 = call->h2;

    return h2 != NULL && call->is_stream_open &&
           (call_queued(call) >= h2->limits->stream_queue_size ||
            h2->queued >= h2->limits->conn_queue_size);
}

/* The layer answers in the service's place. */
static void refuse(struct grpc_call *call, enum grpc_code code, const char *text)
{
    assert(!call->is_handled);
    set_phase(call, REQUEST_OVER);
    drop_message(call);
    clear_deadline(call);
    call_drop_slot(call);
    if (call->is_stream_open) answer_end(call, code, text);
}

static void refuse_malformed(struct grpc_call *call, enum grpc_code code, const char *text)
{
    call->h2->counters->messages_malformed++;
    refuse(call, code, text);
}

static void refuse_http(struct grpc_call *call, const char *status)
{
    set_phase(call, REQUEST_OVER);
    call_drop_slot(call);
    answer_http(call, status);
}

static void refuse_oversize(struct grpc_call *call)
{
    struct h2 *h2 = call->h2;

    h2->counters->messages_too_large++;
    h2->service->oversize(h2->service->user, call, call->message_size, buffer_view(&call->message));
    refuse(call, GRPC_RESOURCE_EXHAUSTED, "the message is larger than this server accepts");
}

void call_stream_closed(struct grpc_call *call)
{
    struct h2 *h2 = call->h2;

    assert(call->is_stream_open);
    call->is_stream_open = false;
    h2->streams_n--;
    h2->queued -= call_queued(call);
    call_trim(&call->queue);
    call->queue_at = 0;
    if (call->phase == REQUEST_OVERSIZE) refuse_oversize(call);
    if (!call->is_handled) {
        call_free(call);
        return;
    }
    clear_deadline(call);
    if (call->is_full_told) h2->full_told_n--;
    call->is_full_told = false;
    call_close(call);
}

/* ---- headers ---- */

static struct span keep(struct grpc_call *call, struct bytes value)
{
    struct span span = {(uint32_t)call->text.len, (uint32_t)value.len};

    if (call->text.len + value.len > TEXT_SIZE_MAX_BYTES) return (struct span){0, 0};
    if (call->text.size == 0 && value.len < TEXT_SIZE_FIRST)
        (void)buffer_reserve(&call->text, TEXT_SIZE_FIRST);
    buffer_append_bytes(&call->text, value);
    return span;
}

static inline bool is_text(struct bytes value, const char *text)
{
    return bytes_equal(value, bytes_of_text(text));
}

/* application/grpc, application/grpc+proto, either with parameters. */
static bool is_grpc_type(struct bytes value)
{
    const uint8_t *end = memchr(value.ptr, ';', value.len);

    if (end != NULL) value.len = (size_t)(end - value.ptr);
    while (value.len > 0 && value.ptr[value.len - 1] == ' ') value.len--;
    return is_text(value, "application/grpc") || is_text(value, "application/grpc+proto");
}

static void take_timeout(struct grpc_call *call, struct bytes value)
{
    int64_t timeout_ns = 0;

    if (!grpc_parse_timeout(value, &timeout_ns)) {
        call->is_timeout_malformed = true;
    } else if (__builtin_add_overflow(call->h2->now_ns, timeout_ns, &call->deadline_ns)) {
        call->deadline_ns = INT64_MAX;
    }
}

void request_header(struct grpc_call *call, struct bytes name, struct bytes value)
{
    static const struct bytes names[] = {
#define X(text) {(const uint8_t *)text, sizeof text - 1},
        KEPT_HEADERS(X)
#undef X
    };

    if (call->phase != REQUEST_HEADERS || name.len == 0) return;
    if (is_text(name, ":path")) {
        call->path = keep(call, value);
    } else if (is_text(name, ":method")) {
        call->is_post = is_text(value, "POST");
    } else if (is_text(name, "content-type")) {
        call->is_grpc_type = is_grpc_type(value);
    } else if (is_text(name, "grpc-timeout")) {
        take_timeout(call, value);
    } else {
        for (size_t i = 0; i < KEPT_HEADERS_N; i++) {
            if (call->kept[i].len == 0 && bytes_equal(name, names[i])) {
                call->kept[i] = keep(call, value);
                break;
            }
        }
    }
}

struct bytes grpc_header(const struct grpc_call *call, const char *name)
{
    static const char *const names[] = {
#define X(text) text,
        KEPT_HEADERS(X)
#undef X
    };

    for (size_t i = 0; i < KEPT_HEADERS_N; i++) {
        if (strcmp(names[i], name) != 0) continue;
        if (call->kept[i].len == 0) return BYTES_NONE;
        return bytes_make(call->text.ptr + call->kept[i].at, call->kept[i].len);
    }
    return BYTES_NONE;
}

struct bytes grpc_path(const struct grpc_call *call)
{
    if (call->path.len == 0) return BYTES_NONE;
    return bytes_make(call->text.ptr + call->path.at, call->path.len);
}

void request_headers_done(struct grpc_call *call)
{
    struct h2 *h2 = call->h2;

    if (call->phase != REQUEST_HEADERS) return; /* trailers of a request mean nothing to us */
    if (h2->header_list_size > HEADER_LIST_SIZE_MAX || h2->header_fields_n > HEADER_FIELDS_N_MAX) {
        h2->counters->header_list_too_large++;
        refuse_http(call, "431");
    } else if (!call->is_post) {
        refuse_http(call, "405");
    } else if (!call->is_grpc_type) {
        refuse_http(call, "415");
    } else if (call->is_timeout_malformed) {
        refuse(call, GRPC_INVALID_ARGUMENT, "grpc-timeout is not valid");
    } else if (call->text.failed) {
        refuse(call, GRPC_UNAVAILABLE, "out of memory");
    } else {
        h2->counters->calls++;
        set_phase(call, REQUEST_MESSAGE);
        if (call->deadline_ns == INT64_MAX) return;
        call->deadline.key = call->deadline_ns;
        call->deadline.order = (uint64_t)call->stream_id;
        heap_push(&h2->deadlines, &call->deadline);
    }
}

/* ---- message ---- */

/* A large message may come at full speed: without this a peer could only send a window's worth for
 * each round trip. It costs nothing, since the limit of the message is the one that binds. */
static void widen_window(struct grpc_call *call)
{
    struct h2 *h2 = call->h2;
    size_t wish = (size_t)call->message_size + PREFIX_SIZE;

    if (wish <= h2->limits->stream_window) return;
    if (wish > h2->limits->conn_window) wish = h2->limits->conn_window;
    if (wish <= h2->limits->stream_window) return;
    (void)nghttp2_session_set_local_window_size(h2->session, NGHTTP2_FLAG_NONE, call->stream_id,
                                                (int32_t)wish);
}

static void prefix_done(struct grpc_call *call)
{
    const uint8_t *p = call->prefix;

    if (p[0] == 1) {
        refuse_malformed(call, GRPC_UNIMPLEMENTED, "compressed messages are not supported");
        return;
    }
    if (p[0] != 0) {
        refuse_malformed(call, GRPC_INTERNAL, "the message's flags are not valid");
        return;
    }
    call->message_size =
        (uint32_t)p[1] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 8 | (uint32_t)p[4];
    if (call->message_size > call->h2->limits->message_size_max)
        set_phase(call, REQUEST_OVERSIZE);
    else
        widen_window(call);
}

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* Unfinished messages hold so much that this one is not taken as well. */
static bool is_crowded(const struct grpc_call *call)
{
    const struct h2 *h2 = call->h2;
    const struct conn_limits *limits = h2->limits;
    bool is_alone = h2->unfinished == call->message.len;

    if (h2->unfinished > limits->unfinished_size_max && !is_alone) return true;
    return *h2->unfinished_all > limits->unfinished_size_total && call->message_size > SMALL_SIZE;
}

static void take_bytes(struct grpc_call *call, struct bytes bytes)
{
    struct h2 *h2 = call->h2;
    size_t before = call->message.len;

    buffer_append_bytes(&call->message, bytes);
    h2->unfinished += call->message.len - before;
    *h2->unfinished_all += call->message.len - before;
    if (call->message.failed) {
        refuse(call, GRPC_UNAVAILABLE, "out of memory");
    } else if (is_crowded(call)) {
        h2->counters->requests_too_large++;
        refuse(call, GRPC_UNAVAILABLE, "too much is being received: try again later");
    }
}

void request_data(struct grpc_call *call, struct bytes data)
{
    const struct h2 *h2 = call->h2;

    call->body_due_ns = conn_body_due_ns(h2->limits, call->body_due_ns, h2->now_ns, data.len);
    while (data.len > 0 && call->phase != REQUEST_OVER) {
        size_t n;
        if (call->prefix_n < PREFIX_SIZE) {
            n = least(PREFIX_SIZE - call->prefix_n, data.len);
            memcpy(call->prefix + call->prefix_n, data.ptr, n);
            call->prefix_n = (uint8_t)(call->prefix_n + n);
            if (call->prefix_n == PREFIX_SIZE) prefix_done(call);
        } else {
            size_t size = call->message_size;
            if (call->phase == REQUEST_OVERSIZE) size = least(size, OVERSIZE_START_SIZE);
            n = least(size - call->message.len, data.len);
            take_bytes(call, bytes_make(data.ptr, n));
            if (call->phase == REQUEST_OVER) {
                break; /* refused */
            } else if (call->phase == REQUEST_OVERSIZE) {
                if (call->message.len == size) refuse_oversize(call);
            } else if (n == 0) {
                refuse_malformed(call, GRPC_INTERNAL, "more than one message");
            }
        }
        data = bytes_make(data.ptr + n, data.len - n);
    }
}

static void give_to_service(struct grpc_call *call)
{
    const struct grpc_service *service = call->h2->service;

    set_phase(call, REQUEST_OVER);
    call->is_handled = true;
    service->call(service->user, call, buffer_view(&call->message));
    /* Still there: its stream is open as long as nghttp2 is telling us about it. */
    assert(call->is_stream_open);
    drop_message(call);
}

void request_end(struct grpc_call *call)
{
    call->is_received = true;
    switch (call->phase) {
    case REQUEST_HEADERS: break;
    case REQUEST_MESSAGE:
        if (call->prefix_n == 0)
            refuse_malformed(call, GRPC_INTERNAL, "no message");
        else if (call->prefix_n < PREFIX_SIZE || call->message.len < call->message_size)
            refuse_malformed(call, GRPC_INTERNAL, "the message is cut short");
        else
            give_to_service(call);
        break;
    case REQUEST_OVERSIZE: refuse_oversize(call); break;
    case REQUEST_OVER: break;
    }
}

void request_expire(struct grpc_call *call)
{
    call->h2->counters->deadlines++;
    conn_wake(call->h2->conn);
    if (call->is_handled) {
        if (!call->is_ended) answer_end(call, GRPC_DEADLINE_EXCEEDED, "deadline exceeded");
        call_close(call);
    } else if (call->phase != REQUEST_OVER) {
        refuse(call, GRPC_DEADLINE_EXCEEDED, "deadline exceeded");
    }
}
