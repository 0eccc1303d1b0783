/* SPDX-License-Identifier: Apache-2.0
 *
 * What we submit to nghttp2 for a call: headers, messages, trailers. The three frames of a small
 * answer leave in one pull. Names and values that never change are not copied.
 *
 * Bytes of messages go from the queue of the call straight into the output (NO_COPY): they are
 * copied once when the service sends them and once when they leave.
 */
#include "net/state.h"

#include "base/assert.h"

#define CODE_TEXT_SIZE_MAX 4096

#define STATIC_FLAGS (NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE)

/* Both are static. nghttp2 does not write through them. */
static nghttp2_nv static_header(const char *name, const char *value)
{
    return (nghttp2_nv){.name = (uint8_t *)(uintptr_t)name,
                        .value = (uint8_t *)(uintptr_t)value,
                        .namelen = strlen(name),
                        .valuelen = strlen(value),
                        .flags = STATIC_FLAGS};
}

/* Texts differ from call to call: in the peer's table they would only push out what comes again. */
static nghttp2_nv text_header(struct bytes value)
{
    nghttp2_nv header = static_header("grpc-message", "");

    header.value = (uint8_t *)(uintptr_t)value.ptr;
    header.valuelen = value.len;
    header.flags = NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_INDEX;
    return header;
}

static size_t trailers_of(const struct grpc_call *call, nghttp2_nv *headers)
{
    size_t n = 0;

    headers[n++] = static_header("grpc-status", grpc_code_digits(call->code));
    if (call->code_text.len > 0) headers[n++] = text_header(buffer_view(&call->code_text));
    return n;
}

/* nghttp2 only fails here without memory; then the stream cannot be answered any more. */
static void check_submitted(struct grpc_call *call, int result)
{
    if (result != 0) answer_reset(call, NGHTTP2_INTERNAL_ERROR);
}

/* What a call that goes on may take of the connection's window. A worker that is busy leaves its
 * stream unread, and what it has not read fills the window of its connection: without a reserve the
 * short answer to its next call could not reach it, and it would wait for ever. */
static size_t room_for_stream(nghttp2_session *session)
{
    int32_t window = nghttp2_session_get_remote_window_size(session);

    return window > WINDOW_RESERVE ? (size_t)(window - WINDOW_RESERVE) : 0;
}

/* How much of the queue goes into the next DATA frame; the bytes are taken by send_data(). */
static ssize_t read_queue(nghttp2_session *session, int32_t stream_id, uint8_t *to, size_t length,
                          uint32_t *flags, nghttp2_data_source *source, void *user)
{
    struct grpc_call *call = source->ptr;
    size_t waiting = call_queued(call);
    size_t n = waiting < length ? waiting : length;

    (void)to;
    (void)user;
    if (n > 0 && !call->is_ended) {
        size_t room = room_for_stream(session);
        if (n > room) n = room;
        if (n == 0) call->h2->is_window_short = true;
    }
    if (n == 0 && !call->is_ended) {
        call->is_deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    if (n > 0) *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    if (n == waiting && call->is_ended && call->is_http) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    } else if (n == waiting && call->is_ended) {
        nghttp2_nv trailers[2];
        size_t trailers_n = trailers_of(call, trailers);
        *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
        if (nghttp2_submit_trailer(session, stream_id, trailers, trailers_n) != 0)
            return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    return (ssize_t)n;
}

enum status answer_begin(struct grpc_call *call)
{
    const nghttp2_nv headers[] = {static_header(":status", "200"),
                                  static_header("content-type", "application/grpc")};
    nghttp2_data_provider provider = {.source.ptr = call, .read_callback = read_queue};

    assert(!call->is_begun);
    if (nghttp2_submit_response(call->h2->session, call->stream_id, headers, 2, &provider) != 0)
        return E_NOMEM;
    call->is_begun = true;
    return OK;
}

void answer_resume(struct grpc_call *call)
{
    if (!call->is_deferred) return;
    call->is_deferred = false;
    check_submitted(call, nghttp2_session_resume_data(call->h2->session, call->stream_id));
}

void answer_resume_all(struct h2 *h2)
{
    if (!h2->is_window_short) return;
    h2->is_window_short = false;
    for (struct list *n = list_first(&h2->calls); n != NULL; n = list_next(&h2->calls, n)) {
        struct grpc_call *call = container_of(n, struct grpc_call, link);
        if (call->is_stream_open && call_queued(call) > 0) answer_resume(call);
    }
}

void answer_end(struct grpc_call *call, enum grpc_code code, const char *text)
{
    assert(!call->is_ended);
    call->is_ended = true;
    call->code = code;
    if (text != NULL) grpc_encode_text(text, &call->code_text);
    if (call->code_text.len > CODE_TEXT_SIZE_MAX) call->code_text.len = CODE_TEXT_SIZE_MAX;
    if (call->is_begun) {
        answer_resume(call);
        return;
    }

    nghttp2_nv headers[4] = {static_header(":status", "200"),
                             static_header("content-type", "application/grpc")};
    size_t headers_n = 2 + trailers_of(call, headers + 2);
    call->is_begun = true;
    check_submitted(call, nghttp2_submit_response(call->h2->session, call->stream_id, headers,
                                                  headers_n, NULL));
}

void answer_http(struct grpc_call *call, const char *status)
{
    const nghttp2_nv headers[] = {static_header(":status", status)};

    assert(!call->is_begun);
    call->is_ended = true;
    call->is_begun = true;
    check_submitted(call,
                    nghttp2_submit_response(call->h2->session, call->stream_id, headers, 1, NULL));
}

/* Copied by nghttp2. Values of answers differ: in the peer's table they would only push out what
 * comes again. */
static nghttp2_nv copied_header(struct bytes name, struct bytes value)
{
    return (nghttp2_nv){.name = (uint8_t *)(uintptr_t)name.ptr,
                        .value = (uint8_t *)(uintptr_t)value.ptr,
                        .namelen = name.len,
                        .valuelen = value.len,
                        .flags = NGHTTP2_NV_FLAG_NO_INDEX};
}

enum status answer_http_headers(struct grpc_call *call, unsigned status, const char *type,
                                uint64_t length, bool has_body)
{
    const nghttp2_data_provider provider = {.source.ptr = call, .read_callback = read_queue};
    nghttp2_nv headers[4 + ANSWER_FIELDS_N_MAX];
    char status_text[DIGITS_SIZE];
    char length_text[DIGITS_SIZE];
    size_t n = 0;
    struct bytes rest = buffer_view(&call->http.fields);
    struct bytes name;
    struct bytes value;

    assert(!call->is_begun);
    headers[n++] = copied_header(BYTES_LITERAL(":status"),
                                 bytes_make(status_text, http_digits(status, status_text)));
    headers[0].flags = NGHTTP2_NV_FLAG_NONE;
    if (type != NULL) {
        headers[n] = copied_header(BYTES_LITERAL("content-type"), bytes_of_text(type));
        headers[n++].flags = NGHTTP2_NV_FLAG_NONE; /* there are few of them */
    }
    if (length != UINT64_MAX)
        headers[n++] = copied_header(BYTES_LITERAL("content-length"),
                                     bytes_make(length_text, http_digits(length, length_text)));
    if (call->h2->date != NULL)
        headers[n++] = copied_header(BYTES_LITERAL("date"), bytes_of_text(call->h2->date));
    while (exchange_next_field(&rest, &name, &value)) {
        assert(n < sizeof headers / sizeof headers[0]);
        headers[n++] = copied_header(name, value);
    }
    if (nghttp2_submit_response(call->h2->session, call->stream_id, headers, n,
                                has_body ? &provider : NULL) != 0)
        return E_NOMEM;
    call->is_begun = true;
    return OK;
}

void answer_continue(struct grpc_call *call)
{
    const nghttp2_nv headers[] = {static_header(":status", "100")};

    if (nghttp2_submit_headers(call->h2->session, NGHTTP2_FLAG_NONE, call->stream_id, NULL, headers,
                               1, NULL) < 0)
        answer_reset(call, NGHTTP2_INTERNAL_ERROR);
}

void answer_reset(struct grpc_call *call, uint32_t error_code)
{
    (void)nghttp2_submit_rst_stream(call->h2->session, NGHTTP2_FLAG_NONE, call->stream_id,
                                    error_code);
}
