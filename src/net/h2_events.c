/* SPDX-License-Identifier: Apache-2.0
 *
 * What nghttp2 tells us. Every frame is counted where its head is read, so that a frame that
 * nghttp2 ignores or refuses counts as well.
 *
 * None of these returns an error: a connection that has done too much is ended (h2_end), and what
 * nghttp2 still tells about it is ignored.
 */
#include "net/state.h"

#include "base/assert.h"

#define FIELD_OVERHEAD 32 /* by definition of SETTINGS_MAX_HEADER_LIST_SIZE */

static struct grpc_call *call_of(nghttp2_session *session, int32_t stream_id)
{
    return nghttp2_session_get_stream_user_data(session, stream_id);
}

static void count_flood(struct h2 *h2, enum flood_kind kind, uint64_t *counter)
{
    if (!flood_take(&h2->flood, kind, h2->now_ns)) h2_end(h2, NGHTTP2_ENHANCE_YOUR_CALM, counter);
}

static void begin_header_block(struct h2 *h2)
{
    h2->continuations_n = 0;
    h2->header_fields_n = 0;
    h2->header_list_size = 0;
}

static int on_begin_frame(nghttp2_session *session, const nghttp2_frame_hd *head, void *user)
{
    struct h2 *h2 = user;
    struct net_counters *counters = h2->counters;

    (void)session;
    if (h2->is_ending) return 0;
    switch (head->type) {
    case NGHTTP2_DATA:
        if (head->length == 0 && (head->flags & NGHTTP2_FLAG_END_STREAM) == 0)
            count_flood(h2, FLOOD_EMPTY_DATA, &counters->empty_frame_flood);
        break;
    case NGHTTP2_HEADERS: begin_header_block(h2); break;
    case NGHTTP2_CONTINUATION:
        if (++h2->continuations_n > CONTINUATIONS_N_MAX)
            h2_end(h2, NGHTTP2_ENHANCE_YOUR_CALM, &counters->header_flood);
        break;
    case NGHTTP2_RST_STREAM: count_flood(h2, FLOOD_RESET, &counters->resets_flood); break;
    case NGHTTP2_WINDOW_UPDATE: break; /* costs us less than it costs the peer */
    default: count_flood(h2, FLOOD_CONTROL, &counters->control_flood); break;
    }
    return 0;
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct h2 *h2 = user;
    const struct conn_limits *limits = h2->limits;

    if (h2->is_ending || frame->headers.cat != NGHTTP2_HCAT_REQUEST) return 0;
    bool is_full = h2->slots_n >= limits->calls_n_max;
    /* Answers may be larger than the queue: who streams asks first, the others are refused only
     * when the peer lets several of them lie. */
    bool is_clogged = h2->queued > limits->conn_queue_size + 2 * limits->message_size_max;
    struct grpc_call *call = NULL;
    if (!is_full && !is_clogged) call = call_new(h2, frame->hd.stream_id);
    if (call == NULL) {
        if (is_clogged)
            h2->counters->answers_too_large++;
        else
            h2->counters->streams_refused++;
        (void)nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id,
                                        NGHTTP2_REFUSED_STREAM);
        return 0;
    }
    (void)nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, call);
    return 0;
}

/* True while the field is to be looked at. */
static bool count_field(struct h2 *h2, size_t name_size, size_t value_size)
{
    if (h2->is_ending) return false;
    h2->header_fields_n++;
    h2->header_list_size += name_size + value_size + FIELD_OVERHEAD;
    if (h2->header_list_size > HEADER_LIST_SIZE_FLOOD) {
        h2_end(h2, NGHTTP2_ENHANCE_YOUR_CALM, &h2->counters->header_flood);
        return false;
    }
    return h2->header_list_size <= HEADER_LIST_SIZE_MAX &&
           h2->header_fields_n <= HEADER_FIELDS_N_MAX;
}

/* A connection that ends need not hear the rest of its header block: a byte of it may stand for
 * four thousand. */
static int after_refused_field(const struct h2 *h2)
{
    return h2->is_ending ? NGHTTP2_ERR_PAUSE : 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_size, const uint8_t *value, size_t value_size, uint8_t flags,
                     void *user)
{
    (void)flags;
    if (!count_field(user, name_size, value_size)) return after_refused_field(user);
    struct grpc_call *call = call_of(session, frame->hd.stream_id);
    if (call != NULL)
        request_header(call, bytes_make(name, name_size), bytes_make(value, value_size));
    return 0;
}

/* A field that HTTP/2 does not allow: nghttp2 would pass over it in silence. */
static int on_invalid_header(nghttp2_session *session, const nghttp2_frame *frame,
                             const uint8_t *name, size_t name_size, const uint8_t *value,
                             size_t value_size, uint8_t flags, void *user)
{
    (void)session;
    (void)frame;
    (void)name;
    (void)value;
    (void)flags;
    if (!count_field(user, name_size, value_size)) return after_refused_field(user);
    return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; /* resets the stream */
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream_id, const uint8_t *data,
                   size_t size, void *user)
{
    struct h2 *h2 = user;
    struct grpc_call *call = call_of(session, stream_id);

    (void)flags;
    if (call != NULL && !h2->is_ending) request_data(call, bytes_make(data, size));
    return 0;
}

static int on_frame_recv(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct h2 *h2 = user;

    if (h2->is_ending) return 0;
    if (frame->hd.type == NGHTTP2_SETTINGS) h2->is_greeted = true;
    if (frame->hd.type == NGHTTP2_WINDOW_UPDATE && frame->hd.stream_id == 0) answer_resume_all(h2);
    if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA) return 0;

    bool is_end = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    if (frame->hd.type == NGHTTP2_DATA && !is_end && frame->hd.length > 0 &&
        frame->hd.length == frame->data.padlen) {
        count_flood(h2, FLOOD_EMPTY_DATA, &h2->counters->empty_frame_flood);
        return 0;
    }
    struct grpc_call *call = call_of(session, frame->hd.stream_id);
    if (call == NULL) return 0;
    if (is_end) call->is_received = true;
    if (frame->hd.type == NGHTTP2_HEADERS) request_headers_done(call);
    if (is_end) request_end(call);
    return 0;
}

static int on_invalid_frame(nghttp2_session *session, const nghttp2_frame *frame, int error,
                            void *user)
{
    struct h2 *h2 = user;
    bool is_request = frame->hd.type == NGHTTP2_HEADERS;

    (void)session;
    if (h2->is_ending) return 0;
    /* Above what we announced: refused while the peer cannot know it yet, then a broken rule. */
    if (is_request && (error == NGHTTP2_ERR_REFUSED_STREAM ||
                       (error == NGHTTP2_ERR_PROTO && h2->streams_n >= h2->limits->calls_n_max)))
        h2->counters->streams_refused++;
    count_flood(h2, FLOOD_PROVOKED, &h2->counters->provoked_flood);
    return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t stream_id, uint32_t error_code,
                           void *user)
{
    struct grpc_call *call = call_of(session, stream_id);

    (void)error_code;
    (void)user;
    if (call == NULL) return 0;
    (void)nghttp2_session_set_stream_user_data(session, stream_id, NULL);
    call_stream_closed(call);
    return 0;
}

static int on_frame_send(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
    struct h2 *h2 = user;

    switch (frame->hd.type) {
    case NGHTTP2_RST_STREAM:
        if (!h2->is_ending) count_flood(h2, FLOOD_PROVOKED, &h2->counters->provoked_flood);
        break;
    case NGHTTP2_GOAWAY:
        if (!h2->is_ending && frame->goaway.error_code != NGHTTP2_NO_ERROR)
            h2_end(h2, frame->goaway.error_code, &h2->counters->http2_malformed);
        break;
    case NGHTTP2_HEADERS:
    case NGHTTP2_DATA: {
        flood_earn(&h2->flood, FLOOD_CONTROL);
        struct grpc_call *call = call_of(session, frame->hd.stream_id);
        bool is_end = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
        /* Answered before all of the request has come: the peer need not send the rest. */
        if (is_end && call != NULL && !call->is_received) answer_reset(call, NGHTTP2_NO_ERROR);
        break;
    }
    default: break;
    }
    return 0;
}

static int on_frame_not_send(nghttp2_session *session, const nghttp2_frame *frame, int error,
                             void *user)
{
    struct grpc_call *call = call_of(session, frame->hd.stream_id);

    (void)error;
    (void)user;
    if (frame->hd.type == NGHTTP2_HEADERS && call != NULL)
        answer_reset(call, NGHTTP2_INTERNAL_ERROR);
    return 0;
}

/* A DATA frame of an answer, straight from its queue. */
static int send_data(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *head,
                     size_t size, nghttp2_data_source *source, void *user)
{
    struct h2 *h2 = user;
    struct grpc_call *call = source->ptr;

    (void)session;
    assert(frame->data.padlen == 0);
    assert(size <= call_queued(call));
    if (h2->out->len >= h2->out_size_max) return NGHTTP2_ERR_WOULDBLOCK;
    if (!buffer_reserve(h2->out, FRAME_HEAD_SIZE + size)) return NGHTTP2_ERR_CALLBACK_FAILURE;
    buffer_append(h2->out, head, FRAME_HEAD_SIZE);
    buffer_append(h2->out, call->queue.ptr + call->queue_at, size);
    call->queue_at += size;
    h2->queued -= size;
    h2->moved_ns = h2->now_ns;
    call->waits_ns = 0;
    if (call_queued(call) == 0) {
        call->queue_at = 0;
        if (call->is_ended)
            call_trim(&call->queue);
        else
            buffer_clear(&call->queue);
    }
    return 0;
}

nghttp2_session_callbacks *h2_callbacks_new(void)
{
    nghttp2_session_callbacks *callbacks = NULL;

    if (nghttp2_session_callbacks_new(&callbacks) != 0) return NULL;
    nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks, on_begin_frame);
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_invalid_header_callback(callbacks, on_invalid_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame_recv);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks, on_invalid_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_send);
    nghttp2_session_callbacks_set_on_frame_not_send_callback(callbacks, on_frame_not_send);
    nghttp2_session_callbacks_set_send_data_callback(callbacks, send_data);
    return callbacks;
}
