/* SPDX-License-Identifier: Apache-2.0
 *
 * See peer.h.
 */
#include "test/e2e/attacks/peer.h"

#include "base/clock.h"
#include "test/e2e/attacks/target.h"
#include "test/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define CALL_MS 20000
#define FRAME_SIZE_MAX 16384

/* ---- what it is told ---- */

static uint32_t load_number(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void note_header(struct peer *p, const nghttp2_nv *header)
{
    struct bytes name = bytes_make(header->name, header->namelen);
    char value[16] = "";

    if (header->valuelen >= sizeof value) return;
    memcpy(value, header->value, header->valuelen);
    if (bytes_equal(name, BYTES_LITERAL("grpc-status")))
        p->grpc_status = (int)strtol(value, NULL, 10);
    if (bytes_equal(name, BYTES_LITERAL(":status"))) p->http_status = (int)strtol(value, NULL, 10);
}

static void read_headers(struct peer *p, struct bytes block)
{
    int flags = 0;

    while ((flags & NGHTTP2_HD_INFLATE_FINAL) == 0) {
        nghttp2_nv header;
        flags = 0;
        ssize_t n = nghttp2_hd_inflate_hd2(p->inflater, &header, &flags, block.ptr, block.len, 1);
        EXPECT(n >= 0);
        block = bytes_make(block.ptr + n, block.len - (size_t)n);
        if (flags & NGHTTP2_HD_INFLATE_EMIT) note_header(p, &header);
    }
    nghttp2_hd_inflate_end_headers(p->inflater);
}

static void note_end(struct peer *p, uint32_t stream)
{
    p->ends_n++;
    p->end_stream = stream;
}

static void read_frame(struct peer *p, const uint8_t *head, struct bytes payload)
{
    uint32_t stream = load_number(head + 5);
    bool is_acknowledgement = (head[4] & NGHTTP2_FLAG_ACK) != 0;

    switch (head[3]) {
    case NGHTTP2_DATA:
        p->data_frames_n++;
        p->data_size += payload.len;
        if (head[4] & END_STREAM) note_end(p, stream);
        break;
    case NGHTTP2_HEADERS:
        read_headers(p, payload);
        if (head[4] & END_STREAM) note_end(p, stream);
        break;
    case NGHTTP2_RST_STREAM:
        p->resets_n++;
        p->reset_code = load_number(payload.ptr);
        if (p->reset_code != NGHTTP2_NO_ERROR) note_end(p, stream);
        break;
    case NGHTTP2_GOAWAY:
        p->goaways_n++;
        p->goaway_code = load_number(payload.ptr + 4);
        break;
    case NGHTTP2_WINDOW_UPDATE:
        if (stream == 0) p->window += load_number(payload.ptr);
        if (stream != 0 && stream == p->window_stream) p->stream_window += load_number(payload.ptr);
        break;
    case NGHTTP2_PING:
    case NGHTTP2_SETTINGS: p->acks_n += is_acknowledgement; break;
    default: break;
    }
}

static void read_frames(struct peer *p)
{
    size_t at = 0;

    while (p->in.len - at >= 9) {
        const uint8_t *head = p->in.ptr + at;
        size_t size = (size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2];
        if (p->in.len - at < 9 + size) break;
        read_frame(p, head, bytes_make(head + 9, size));
        at += 9 + size;
    }
    memmove(p->in.ptr, p->in.ptr + at, p->in.len - at);
    p->in.len -= at;
}

/* What the socket has, without waiting. */
static void receive(struct peer *p)
{
    for (;;) {
        EXPECT(buffer_reserve(&p->in, 65536));
        ssize_t n = recv(p->fd, p->in.ptr + p->in.len, 65536, MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN) return;
        if (n < 0) p->is_reset = true;
        if (n <= 0) {
            p->is_over = true;
            return;
        }
        p->in.len += (size_t)n;
        read_frames(p);
    }
}

/* ---- the connection ---- */

void peer_open(struct peer *p, int receive_size)
{
    *p = (struct peer){.is_reading = true, .stream = 1, .grpc_status = NO_STATUS, .window = 65535};
    buffer_init(&p->in, mem_process());
    buffer_init(&p->out, mem_process());
    EXPECT(buffer_reserve(&p->in, 65536));
    EXPECT_EQ(0, nghttp2_hd_inflate_new(&p->inflater));
    p->fd = target_dial(receive_size);
}

void peer_greet(struct peer *p, int receive_size)
{
    peer_open(p, receive_size);
    put_greeting(&p->out);
    put_settings_ack(&p->out);
    EXPECT(peer_send(p, CALL_MS));
    while (p->acks_n == 0) EXPECT(peer_read(p, CALL_MS));
}

void peer_close(struct peer *p)
{
    close(p->fd);
    buffer_release(&p->in);
    buffer_release(&p->out);
    nghttp2_hd_inflate_del(p->inflater);
}

bool peer_send(struct peer *p, int give_up_ms)
{
    size_t at = 0;

    while (at < p->out.len && !p->is_over) {
        struct pollfd wait = {.fd = p->fd,
                              .events = (short)(POLLOUT | (p->is_reading ? POLLIN : 0))};
        if (poll(&wait, 1, give_up_ms) == 0) break;
        if (p->is_reading && (wait.revents & POLLIN)) receive(p);
        if (p->is_over) break;
        ssize_t n = send(p->fd, p->out.ptr + at, p->out.len - at, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN) continue;
        if (n < 0) {
            /* What the server said before it closed can still be there. */
            if (p->is_reading) receive(p);
            p->is_over = true;
            break;
        }
        at += (size_t)n;
    }
    bool is_sent = at == p->out.len;
    buffer_clear(&p->out);
    return is_sent && !p->is_over;
}

bool peer_read(struct peer *p, int within_ms)
{
    struct pollfd wait = {.fd = p->fd, .events = POLLIN};

    if (p->is_over) return false;
    if (poll(&wait, 1, within_ms) == 1) receive(p);
    return !p->is_over;
}

bool peer_await_end(struct peer *p, int within_ms)
{
    int64_t end_ns = clock_mono_ns() + within_ms * NS_PER_MS;

    while (!p->is_over && clock_mono_ns() < end_ns) (void)peer_read(p, 100);
    return p->is_over;
}

/* ---- calls ---- */

static uint32_t put_call_head(struct peer *p, const char *rpc)
{
    char path[128] = SERVICE;
    uint32_t stream = p->stream;

    strncat(path, rpc, sizeof path - strlen(path) - 1);
    p->stream += 2;
    put_head(&p->out, stream, path, END_HEADERS, BYTES_NONE);
    return stream;
}

static void put_prefixed(struct buffer *b, struct bytes message)
{
    buffer_u8(b, 0);
    put_u32(b, (uint32_t)message.len);
    buffer_append_bytes(b, message);
}

uint32_t peer_put_call(struct peer *p, const char *rpc, struct bytes message)
{
    struct buffer body;
    uint32_t stream = put_call_head(p, rpc);

    buffer_init(&body, mem_process());
    put_prefixed(&body, message);
    EXPECT(body.len <= FRAME_SIZE_MAX);
    put_frame(&p->out, NGHTTP2_DATA, END_STREAM, stream, buffer_view(&body));
    buffer_release(&body);
    return stream;
}

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

bool peer_send_data(struct peer *p, uint32_t stream, struct bytes data, bool is_end)
{
    if (p->window_stream != stream) {
        p->window_stream = stream;
        p->stream_window = 65535;
    }
    while (data.len > 0) {
        int64_t room = p->window < p->stream_window ? p->window : p->stream_window;
        if (room <= 0) {
            if (!peer_read(p, CALL_MS) || p->end_stream == stream) return false;
            continue;
        }
        size_t n = least(least(data.len, FRAME_SIZE_MAX), (size_t)room);
        put_frame(&p->out, NGHTTP2_DATA, is_end && n == data.len ? END_STREAM : 0, stream,
                  bytes_make(data.ptr, n));
        data = bytes_make(data.ptr + n, data.len - n);
        p->window -= (int64_t)n;
        p->stream_window -= (int64_t)n;
        if (!peer_send(p, CALL_MS) || p->end_stream == stream) return false;
    }
    return true;
}

int peer_call(struct peer *p, const char *rpc, struct bytes message)
{
    int64_t end_ns = clock_mono_ns() + CALL_MS * NS_PER_MS;
    struct buffer body;
    uint32_t stream = put_call_head(p, rpc);

    p->grpc_status = NO_STATUS;
    p->http_status = 0;
    p->end_stream = 0;
    buffer_init(&body, mem_process());
    put_prefixed(&body, message);
    (void)peer_send(p, CALL_MS);
    (void)peer_send_data(p, stream, buffer_view(&body), true);
    buffer_release(&body);
    while (p->end_stream != stream && !p->is_over) {
        (void)peer_read(p, 100);
        if (clock_mono_ns() > end_ns) test_fail(__FILE__, __LINE__, "%s is not answered", rpc);
    }
    return p->grpc_status;
}
