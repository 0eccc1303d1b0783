/* SPDX-License-Identifier: Apache-2.0
 *
 * A request from its first header to the service: all of gRPC, and what HTTP shares with it.
 *
 * The message's length is known from its prefix; what is larger than the limit is refused before a
 * byte of memory is taken for it, and the buffer grows with what has really come, so that a lying
 * length costs nothing. Every request of this protocol is exactly one message.
 */
#include "net/state.h"

#include "base/assert.h"
#include "base/clock.h"

#define TEXT_SIZE_MAX_BYTES (3 * HEADER_LIST_SIZE_MAX)
#define TEXT_SIZE_FIRST 250 /* path, hub and user agent of an ordinary request */

static bool is_coming(enum request_phase phase) { return phase != REQUEST_OVER; }

void request_set_phase(struct grpc_call *call, enum request_phase phase)
{
    if (is_coming(call->phase) && !is_coming(phase)) {
        assert(call->h2->coming_n > 0);
        call->h2->coming_n--;
    }
    call->phase = phase;
}

void request_uncount(struct grpc_call *call)
{
    call->h2->unfinished -= call->message_counted;
    *call->h2->unfinished_all -= call->message_counted;
    call->message_counted = 0;
}

void request_drop_message(struct grpc_call *call)
{
    request_uncount(call);
    call_trim(&call->message);
}

/* The layer answers in the service's place. */
static void refuse(struct grpc_call *call, enum grpc_code code, const char *text)
{
    assert(!call->is_handled);
    request_set_phase(call, REQUEST_OVER);
    request_drop_message(call);
    call_clear_deadline(call);
    call_drop_slot(call);
    if (call->is_stream_open) answer_end(call, code, text);
}

static void refuse_malformed(struct grpc_call *call, enum grpc_code code, const char *text)
{
    call->h2->counters->messages_malformed++;
    refuse(call, code, text);
}

void request_give_up(struct grpc_call *call)
{
    request_set_phase(call, REQUEST_OVER);
    request_drop_message(call);
    call_drop_slot(call);
}

void request_refuse_http(struct grpc_call *call, const char *status)
{
    request_give_up(call);
    answer_http(call, status);
}

void request_refuse_oversize(struct grpc_call *call)
{
    struct h2 *h2 = call->h2;

    h2->counters->messages_too_large++;
    h2->service->oversize(h2->service->user, call, call->message_size, buffer_view(&call->message));
    refuse(call, GRPC_RESOURCE_EXHAUSTED, "the message is larger than this server accepts");
}

/* ---- headers ---- */

/* A field that is kept, as two lengths, name and value. */
struct field_sizes {
    uint16_t name;
    uint16_t value;
};
_Static_assert(HEADER_LIST_SIZE_MAX <= UINT16_MAX, "sizes of fields fit");

/* Answers where the value is. */
static struct span keep(struct grpc_call *call, struct bytes name, struct bytes value)
{
    struct buffer *text = &call->text;
    struct field_sizes sizes = {(uint16_t)name.len, (uint16_t)value.len};
    size_t size = sizeof sizes + name.len + value.len;

    if (text->len + size > TEXT_SIZE_MAX_BYTES) return (struct span){0, 0};
    if (text->size == 0 && size < TEXT_SIZE_FIRST) (void)buffer_reserve(text, TEXT_SIZE_FIRST);
    buffer_append(text, &sizes, sizeof sizes);
    buffer_append_bytes(text, name);
    struct span span = {(uint32_t)text->len, (uint32_t)value.len};
    buffer_append_bytes(text, value);
    return span;
}

bool request_next_field(struct bytes *rest, struct bytes *name, struct bytes *value)
{
    struct field_sizes sizes;

    if (rest->len == 0) return false;
    memcpy(&sizes, rest->ptr, sizeof sizes);
    *name = bytes_make(rest->ptr + sizeof sizes, sizes.name);
    *value = bytes_make(name->ptr + name->len, sizes.value);
    size_t size = sizeof sizes + name->len + value->len;
    assert(size <= rest->len);
    *rest = bytes_make(rest->ptr + size, rest->len - size);
    return true;
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

static void take_type(struct grpc_call *call, struct bytes name, struct bytes value)
{
    call->is_grpc_type = is_grpc_type(value);
    call->is_grpc_like = bytes_start_with(value, BYTES_LITERAL("application/grpc"));
    if (!call->is_grpc_type) (void)keep(call, name, value);
}

/* Everything is kept of what may be a request of HTTP; once it is known to be gRPC, only what its
 * service may ask for. */
static void take_other(struct grpc_call *call, struct bytes name, struct bytes value)
{
    static const struct bytes names[] = {
#define X(text) {(const uint8_t *)text, sizeof text - 1},
        KEPT_HEADERS(X)
#undef X
    };

    for (size_t i = 0; i < KEPT_HEADERS_N; i++) {
        if (call->kept[i].len == 0 && bytes_equal(name, names[i])) {
            call->kept[i] = keep(call, name, value);
            return;
        }
    }
    if (!call->is_grpc_type) (void)keep(call, name, value);
}

void request_header(struct grpc_call *call, struct bytes name, struct bytes value)
{
    if (call->phase != REQUEST_HEADERS || name.len == 0) return;
    if (is_text(name, ":path")) {
        call->path = keep(call, name, value);
    } else if (is_text(name, ":method")) {
        call->is_post = is_text(value, "POST");
        if (!call->is_post) (void)keep(call, name, value);
    } else if (is_text(name, ":authority")) {
        (void)keep(call, BYTES_LITERAL("host"), value);
    } else if (is_text(name, "content-type")) {
        take_type(call, name, value);
    } else if (is_text(name, "grpc-timeout")) {
        take_timeout(call, value);
    } else {
        take_other(call, name, value);
    }
}

const char *grpc_peer(const struct grpc_call *call)
{
    return call->h2 == NULL ? "" : call->h2->peer;
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
        if (call->is_grpc_type || call->is_grpc_like)
            request_refuse_http(call, "431");
        else
            http_refuse(call, REFUSAL_LARGE_HEAD);
    } else if (!call->is_grpc_type && !call->is_grpc_like) {
        http_headers_done(call);
    } else if (!call->is_post) {
        request_refuse_http(call, "405");
    } else if (!call->is_grpc_type) {
        request_refuse_http(call, "415");
    } else if (call->is_timeout_malformed) {
        refuse(call, GRPC_INVALID_ARGUMENT, "grpc-timeout is not valid");
    } else if (call->text.failed) {
        refuse(call, GRPC_UNAVAILABLE, "out of memory");
    } else {
        h2->counters->calls++;
        request_set_phase(call, REQUEST_MESSAGE);
        if (call->deadline_ns == INT64_MAX) return;
        call->deadline.key = call->deadline_ns;
        call->deadline.order = (uint64_t)call->stream_id;
        heap_push(&h2->deadlines, &call->deadline);
    }
}

/* ---- message ---- */

/* Without this a peer could only send a window's worth for each round trip. It costs nothing, since
 * the limit of the message is the one that binds. */
void request_widen_window(struct grpc_call *call, size_t wish)
{
    struct h2 *h2 = call->h2;

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
        request_set_phase(call, REQUEST_OVERSIZE);
    else
        request_widen_window(call, (size_t)call->message_size + PREFIX_SIZE);
}

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* Unfinished messages hold so much that this one is not taken as well. */
static bool is_crowded(const struct grpc_call *call)
{
    const struct h2 *h2 = call->h2;
    const struct conn_limits *limits = h2->limits;
    bool is_alone = h2->unfinished == call->message.len;
    bool is_small = call->message_size <= SMALL_SIZE && call->message.len <= SMALL_SIZE;

    if (h2->unfinished > limits->unfinished_size_max && !is_alone) return true;
    return *h2->unfinished_all > limits->unfinished_size_total && !is_small;
}

enum status request_take_bytes(struct grpc_call *call, struct bytes bytes)
{
    struct h2 *h2 = call->h2;
    size_t before = call->message.len;

    buffer_append_bytes(&call->message, bytes);
    size_t more = call->message.len - before;
    call->message_counted += more;
    h2->unfinished += more;
    *h2->unfinished_all += more;
    if (call->message.failed) return E_NOMEM;
    if (!is_crowded(call)) return OK;
    h2->counters->requests_too_large++;
    return E_LIMIT;
}

static void take_bytes(struct grpc_call *call, struct bytes bytes)
{
    enum status status = request_take_bytes(call, bytes);

    if (status == E_NOMEM)
        refuse(call, GRPC_UNAVAILABLE, "out of memory");
    else if (status != OK)
        refuse(call, GRPC_UNAVAILABLE, "too much is being received: try again later");
}

void request_data(struct grpc_call *call, struct bytes data)
{
    const struct h2 *h2 = call->h2;

    call->body_due_ns = conn_body_due_ns(h2->limits, call->body_due_ns, h2->now_ns, data.len);
    if (call->is_http) {
        http_data(call, data);
        return;
    }
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
                if (call->message.len == size) request_refuse_oversize(call);
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

    request_set_phase(call, REQUEST_OVER);
    call->is_handled = true;
    service->call(service->user, call, buffer_view(&call->message));
    /* Still there: its stream is open as long as nghttp2 is telling us about it. */
    assert(call->is_stream_open);
    request_drop_message(call);
}

void request_end(struct grpc_call *call)
{
    call->is_received = true;
    switch (call->phase) {
    case REQUEST_HEADERS: break;
    case REQUEST_MESSAGE:
        if (call->is_http)
            http_end(call);
        else if (call->prefix_n == 0)
            refuse_malformed(call, GRPC_INTERNAL, "no message");
        else if (call->prefix_n < PREFIX_SIZE || call->message.len < call->message_size)
            refuse_malformed(call, GRPC_INTERNAL, "the message is cut short");
        else
            give_to_service(call);
        break;
    case REQUEST_OVERSIZE: request_refuse_oversize(call); break;
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
