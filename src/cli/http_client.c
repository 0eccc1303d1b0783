/* SPDX-License-Identifier: Apache-2.0
 *
 * See http_client.h. The connection itself: connecting, sending, receiving, each until the
 * deadline. How answers are read is in http_answer.c.
 */
#include "cli/http_client.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "cli/http_answer.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#define RECEIVE_SIZE ((size_t)64 << 10)

void http_client_init(struct http_client *c, struct mem *mem, const struct url *url)
{
    *c = (struct http_client){.mem = mem, .url = *url, .fd = -1};
    buffer_init(&c->in, mem);
}

static void disconnect(struct http_client *c)
{
    if (c->fd >= 0) (void)close(c->fd);
    c->fd = -1;
    c->is_used = false;
    buffer_clear(&c->in);
    c->at = 0;
}

void http_client_close(struct http_client *c)
{
    disconnect(c);
    buffer_release(&c->in);
}

/* ---- waiting ---- */

static enum status failed(struct http_client *c, enum status status, const char *what,
                          const char *why)
{
    (void)snprintf(c->error, sizeof c->error, "%s%s%s", what, why[0] == '\0' ? "" : ": ", why);
    return status;
}

/* Until the socket is ready or the time is over. */
static enum status wait_ready(struct http_client *c, short events)
{
    struct pollfd poller = {.fd = c->fd, .events = events};

    for (;;) {
        int64_t left_ms = (c->deadline_ns - clock_mono_ns() + NS_PER_MS - 1) / NS_PER_MS;
        if (left_ms <= 0) break;
        int n = poll(&poller, 1, left_ms > 3600000 ? 3600000 : (int)left_ms);
        if (n > 0) return OK;
        if (n < 0 && errno != EINTR) return failed(c, E_CLOSED, "poll", strerror(errno));
    }
    return failed(c, E_TIMEOUT, "the server has not answered in time", "");
}

/* ---- connecting ---- */

static enum status connect_one(struct http_client *c, const struct addrinfo *address)
{
    int error = 0;
    socklen_t size = sizeof error;
    int on = 1;

    c->fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (c->fd < 0) return failed(c, E_UNAVAILABLE, "no socket", strerror(errno));
    if (connect(c->fd, address->ai_addr, address->ai_addrlen) != 0) {
        if (errno != EINPROGRESS) error = errno;
        enum status status = error != 0 ? OK : wait_ready(c, POLLOUT);
        if (status != OK) return status;
        if (error == 0 && getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
            error = errno;
    }
    if (error != 0) return failed(c, E_UNAVAILABLE, "cannot connect", strerror(error));
    (void)setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return OK;
}

static enum status connect_any(struct http_client *c)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    enum status status = E_UNAVAILABLE;

    int error = getaddrinfo(c->url.host, c->url.port, &hints, &list);
    if (error != 0) return failed(c, E_UNAVAILABLE, c->url.host, gai_strerror(error));
    for (struct addrinfo *a = list; a != NULL && status != OK; a = a->ai_next) {
        disconnect(c);
        status = connect_one(c, a);
        if (status == E_TIMEOUT) break;
    }
    freeaddrinfo(list);
    if (status != OK) disconnect(c);
    return status;
}

/* ---- bytes ---- */

static enum status send_all(struct http_client *c, struct bytes bytes)
{
    while (bytes.len > 0) {
        ssize_t n = send(c->fd, bytes.ptr, bytes.len, MSG_NOSIGNAL);
        if (n > 0) {
            bytes.ptr += n;
            bytes.len -= (size_t)n;
        } else if (errno == EAGAIN || errno == EINTR) {
            enum status status = wait_ready(c, POLLOUT);
            if (status != OK) return status;
        } else if (errno == EPIPE || errno == ECONNRESET) {
            return OK; /* the answer that says why may be there already */
        } else {
            return failed(c, E_CLOSED, "sending failed", strerror(errno));
        }
    }
    return OK;
}

enum status http_client_receive(struct http_client *c, bool *is_end)
{
    *is_end = false;
    if (c->at > 0) {
        memmove(c->in.ptr, c->in.ptr + c->at, c->in.len - c->at);
        c->in.len -= c->at;
        c->at = 0;
    }
    if (!buffer_reserve(&c->in, RECEIVE_SIZE)) return failed(c, E_NOMEM, "out of memory", "");
    for (;;) {
        ssize_t n = recv(c->fd, c->in.ptr + c->in.len, RECEIVE_SIZE, 0);
        if (n > 0) c->in.len += (size_t)n;
        *is_end = n == 0;
        if (n >= 0) return OK;
        if (errno != EAGAIN && errno != EINTR)
            return failed(c, E_CLOSED, "the connection broke", strerror(errno));
        enum status status = wait_ready(c, POLLIN);
        if (status != OK) return status;
    }
}

/* ---- a call ---- */

/* A kept connection that the server has closed, or on which it says something unasked. */
static bool is_stale(const struct http_client *c)
{
    struct pollfd poller = {.fd = c->fd, .events = POLLIN};

    return c->at < c->in.len || poll(&poller, 1, 0) != 0;
}

static enum status send_request(struct http_client *c, const struct http_call *call)
{
    struct buffer head;
    bool is_v6 = strchr(c->url.host, ':') != NULL;

    buffer_init(&head, c->mem);
    buffer_append_bytes(&head, bytes_of_text(call->method));
    buffer_u8(&head, ' ');
    buffer_append_bytes(&head, bytes_of_text(c->url.base));
    buffer_append_bytes(&head, bytes_of_text(call->path));
    buffer_format(&head, " HTTP/1.1\r\nHost: %s%s%s:%s\r\nUser-Agent: norn/" NORN_VERSION "\r\n",
                  is_v6 ? "[" : "", c->url.host, is_v6 ? "]" : "", c->url.port);
    if (call->body.len > 0 || strcmp(call->method, "GET") != 0)
        buffer_format(&head, "Content-Length: %zu\r\n", call->body.len);
    if (call->body.len > 0)
        buffer_format(&head, "Content-Type: %s\r\n",
                      call->type == NULL ? "application/json" : call->type);
    if (call->headers != NULL) buffer_append_bytes(&head, bytes_of_text(call->headers));
    buffer_append(&head, "\r\n", 2);
    /* small bodies go in one packet with the head */
    bool is_small = call->body.len < RECEIVE_SIZE;
    if (is_small) buffer_append_bytes(&head, call->body);
    enum status status =
        head.failed ? failed(c, E_NOMEM, "out of memory", "") : send_all(c, buffer_view(&head));
    buffer_release(&head);
    if (status == OK && !is_small) status = send_all(c, call->body);
    return status;
}

static enum status ask(struct http_client *c, const struct http_call *call, struct http_reply *out)
{
    enum status status = OK;

    if (c->fd >= 0 && (c->is_last || c->body != BODY_NONE || is_stale(c))) disconnect(c);
    if (c->fd < 0) status = connect_any(c);
    if (status == OK) status = send_request(c, call);
    if (status == OK) status = http_answer_head(c, out);
    if (status != OK) disconnect(c);
    return status;
}

/* Asking twice changes nothing. */
static bool is_repeatable(const char *method)
{
    return strcmp(method, "GET") == 0 || strcmp(method, "PUT") == 0;
}

enum status http_client_begin(struct http_client *c, const struct http_call *call,
                              struct http_reply *out)
{
    bool is_kept = c->fd >= 0 && c->is_used;

    c->error[0] = '\0';
    c->deadline_ns = clock_mono_ns() + call->timeout_ms * NS_PER_MS;
    *out = (struct http_reply){0};
    enum status status = ask(c, call, out);
    /* the server may close a kept connection at any time; once more on a fresh one */
    if (status == E_CLOSED && is_kept && is_repeatable(call->method)) status = ask(c, call, out);
    return status;
}

enum status http_client_read(struct http_client *c, struct buffer *out, bool *is_end,
                             int64_t timeout_ms)
{
    c->deadline_ns = clock_mono_ns() + timeout_ms * NS_PER_MS;
    enum status status = http_answer_part(c, out, is_end);
    if (status != OK && status != E_TIMEOUT) disconnect(c);
    return status;
}

enum status http_client_call(struct http_client *c, const struct http_call *call,
                             struct http_reply *out)
{
    enum status status = http_client_begin(c, call, out);
    if (status != OK) return status;
    status = http_answer_whole(c, &out->body);
    if (status != OK) disconnect(c);
    return status;
}
