/* SPDX-License-Identifier: Apache-2.0
 *
 * A request over HTTP/2 that is not gRPC: from its headers to the service of HTTP, and what the
 * service does with it. It shares slots, queues, windows and time-outs with the calls of gRPC.
 *
 * Its body stays until the exchange ends, and is counted so long among the bytes of unfinished
 * requests: a hundred streams whose handlers wait must not hold a hundred large bodies.
 */
#include "net/state.h"

#include "base/assert.h"
#include "base/clock.h"
#include "net/h1_head.h"

static const struct exchange_ops h2_exchange_ops;

static struct grpc_call *call_of(struct http_exchange *e)
{
    return container_of(e, struct grpc_call, http);
}

static struct bytes find_field(const struct grpc_call *call, const char *name)
{
    struct bytes rest = buffer_view(&call->text);
    struct bytes wanted = bytes_of_text(name);
    struct bytes found;
    struct bytes value;

    while (request_next_field(&rest, &found, &value)) {
        if (bytes_equal(found, wanted)) return value;
    }
    return BYTES_NONE;
}

/* ---- the request ---- */

void http_refuse(struct grpc_call *call, enum http_refusal why)
{
    struct buffer body;

    call->is_http = true;
    request_give_up(call);
    buffer_init(&body, call->mem);
    const char *type = exchange_refuse(&call->http, call->h2->http, why, &body);
    bool is_head = bytes_equal(find_field(call, ":method"), BYTES_LITERAL("HEAD"));
    bool is_sent = body.len > 0 && !is_head && call_make_room(call, body.len) == OK;
    size_t length = is_sent || is_head ? body.len : 0;
    if (answer_http_headers(call, http_refusal_status(why), type, length, is_sent) != OK)
        answer_reset(call, NGHTTP2_INTERNAL_ERROR);
    else if (is_sent)
        call_enqueue(call, buffer_view(&body));
    buffer_release(&body);
    call->is_ended = true;
    exchange_end(&call->http);
}

/* REFUSAL_NONE, or why it is refused. nghttp2 has seen to it that there is one path and one method,
 * and holds the body to its content-length. */
static enum http_refusal check_head(struct grpc_call *call, uint64_t *size)
{
    struct http_exchange *e = &call->http;
    struct bytes length = find_field(call, "content-length");
    struct bytes expect = find_field(call, "expect");

    if (call->text.failed) return REFUSAL_CROWDED;
    e->method = call->is_post ? BYTES_LITERAL("POST") : find_field(call, ":method");
    if (!head_split_target(find_field(call, ":path"), &e->path, &e->query)) return REFUSAL_BAD_PATH;
    if (length.len > 0 && !head_parse_size(length, size)) return REFUSAL_BAD_LENGTH;
    if (*size > call->h2->limits->message_size_max) return REFUSAL_LARGE_BODY;
    if (expect.len > 0 && !head_is_word(expect, "100-continue")) return REFUSAL_BAD_EXPECTATION;
    if (expect.len > 0 && !call->is_received) answer_continue(call);
    return REFUSAL_NONE;
}

void http_headers_done(struct grpc_call *call)
{
    uint64_t size = 0;

    call->is_http = true;
    call->deadline_ns = INT64_MAX; /* grpc-timeout is for gRPC */
    enum http_refusal refusal = check_head(call, &size);
    if (refusal != REFUSAL_NONE) {
        if (refusal != REFUSAL_CROWDED && refusal != REFUSAL_LARGE_BODY)
            call->h2->counters->http_malformed++;
        http_refuse(call, refusal);
        return;
    }
    request_set_phase(call, REQUEST_MESSAGE);
    call->message_size = (uint32_t)size;
    request_widen_window(call, (size_t)size);
}

void http_data(struct grpc_call *call, struct bytes data)
{
    if (call->phase != REQUEST_MESSAGE) return;
    if (data.len > call->h2->limits->message_size_max - call->message.len)
        http_refuse(call, REFUSAL_LARGE_BODY);
    else if (request_take_bytes(call, data) != OK)
        http_refuse(call, REFUSAL_CROWDED);
}

void http_end(struct grpc_call *call)
{
    struct h2 *h2 = call->h2;
    struct http_exchange *e = &call->http;

    request_set_phase(call, REQUEST_OVER);
    h2->counters->pages++;
    call->is_handled = true;
    e->ops = &h2_exchange_ops;
    e->is_trusted = h2->is_trusted;
    e->peer = h2->peer;
    e->body = buffer_view(&call->message);
    exchange_open(e);
    h2->http->request(h2->http->user, e);
    /* Still there: its stream is open as long as nghttp2 is telling us about it. */
    assert(call->is_stream_open);
}

/* ---- the exchange ---- */

static bool is_streaming(const struct grpc_call *call)
{
    return call->is_http && call->http.is_begun && !call->is_ended;
}

/* Nothing is added to the answer any more. */
static void end_answer(struct grpc_call *call)
{
    if (is_streaming(call) && call->h2 != NULL) call->h2->http_begun_n--;
    call->is_ended = true;
}

static void end_exchange(struct grpc_call *call)
{
    exchange_end(&call->http);
    if (call->h2 != NULL) request_drop_message(call);
    call_handled(call);
}

void http_close(struct grpc_call *call)
{
    const struct http_service *service = call->h2->http;

    end_answer(call);
    call->http.is_closed = true;
    service->closed(service->user, &call->http);
}

static struct bytes exchange_header(const struct http_exchange *e, const char *name)
{
    return find_field(call_of((struct http_exchange *)(uintptr_t)e), name);
}

/* The service's answer cannot be kept: one without a body takes its place, since words would wait
 * behind the answers that the peer does not take. */
static void answer_without(struct grpc_call *call)
{
    buffer_clear(&call->http.fields);
    if (answer_http_headers(call, 503, NULL, 0, false) != OK)
        answer_reset(call, NGHTTP2_INTERNAL_ERROR);
}

static void submit_answer(struct grpc_call *call, unsigned status, const char *type,
                          struct bytes body)
{
    bool has_body = http_status_has_body(status);
    bool is_sent = has_body && body.len > 0 && !call->http.is_head;

    if (is_sent && call_is_too_much(call, body.len)) {
        call->h2->counters->answers_too_large++;
        answer_without(call);
        return;
    }
    if (call->http.fields.failed || (is_sent && call_make_room(call, body.len) != OK) ||
        answer_http_headers(call, status, has_body ? type : NULL, has_body ? body.len : UINT64_MAX,
                            is_sent) != OK) {
        answer_without(call);
        return;
    }
    if (is_sent) call_enqueue(call, body);
}

static void exchange_answer(struct http_exchange *e, unsigned status, const char *type,
                            struct bytes body)
{
    struct grpc_call *call = call_of(e);

    if (!call->is_closed) {
        submit_answer(call, status, type, body);
        end_answer(call);
    }
    end_exchange(call);
}

/* The answer to HEAD has its end where that of GET has it: its stream stays open until then. */
static void exchange_begin(struct http_exchange *e, unsigned status, const char *type)
{
    struct grpc_call *call = call_of(e);

    call->h2->http_begun_n++;
    if (e->fields.failed || answer_http_headers(call, status, type, UINT64_MAX, true) != OK)
        answer_reset(call, NGHTTP2_INTERNAL_ERROR);
    conn_wake(call->h2->conn);
}

static enum status exchange_send(struct http_exchange *e, struct bytes part)
{
    struct grpc_call *call = call_of(e);

    if (call_make_room(call, part.len) != OK) return E_NOMEM;
    call_enqueue(call, part);
    answer_resume(call);
    conn_wake(call->h2->conn);
    return OK;
}

static bool exchange_is_full(struct http_exchange *e) { return call_tell_full(call_of(e)); }

static size_t exchange_queued(const struct http_exchange *e)
{
    return call_queued(call_of((struct http_exchange *)(uintptr_t)e));
}

static void exchange_finish(struct http_exchange *e, bool is_whole)
{
    struct grpc_call *call = call_of(e);

    if (!call->is_closed) {
        end_answer(call);
        if (is_whole)
            answer_resume(call);
        else
            answer_reset(call, NGHTTP2_INTERNAL_ERROR);
    }
    end_exchange(call);
}

static const struct exchange_ops h2_exchange_ops = {
    .header = exchange_header,
    .answer = exchange_answer,
    .begin = exchange_begin,
    .send = exchange_send,
    .is_full = exchange_is_full,
    .queued = exchange_queued,
    .finish = exchange_finish,
};

/* ---- time ---- */

/* Nobody who follows a stream lets it lie; a worker of gRPC may. Only that stream ends. */
int64_t http_tick(struct h2 *h2)
{
    int64_t next_ns = INT64_MAX;

    if (h2->http_begun_n == 0) return next_ns;
    for (struct list *n = list_first(&h2->calls); n != NULL; n = list_next(&h2->calls, n)) {
        struct grpc_call *call = container_of(n, struct grpc_call, link);
        if (!is_streaming(call) || call_queued(call) == 0) continue;
        if (call->waits_ns == 0) call->waits_ns = h2->now_ns;
        int64_t due_ns = call->waits_ns + h2->limits->stall_ms * NS_PER_MS;
        if (due_ns <= h2->now_ns) {
            h2->counters->stalled++;
            call->waits_ns = INT64_MAX / 2; /* once */
            answer_reset(call, NGHTTP2_CANCEL);
            conn_wake(h2->conn);
            continue;
        }
        if (due_ns < next_ns) next_ns = due_ns;
    }
    return next_ns;
}
