/* SPDX-License-Identifier: Apache-2.0
 *
 * The yardstick of `norn bench ingest`: the least that a server of durable starts must do, and no
 * engine. One thread: epoll, read what has come, find the requests in it, append each to a file,
 * ONE fdatasync for all of the turn, answer. Nothing else could be left away, so the rate it
 * reaches on a machine is what that machine allows, and the engine is measured against it.
 *
 *      bare_loop --data FILE [--listen 127.0.0.1:PORT] [--lose N]
 *
 * It understands what the generator sends: PUT /v1/instances/{id}, POST /v1/instances:batch and GET
 * /v1/instances/{id}; the last one reads the file back, so an id that is found was written.
 * --lose N answers for every Nth start without writing it: a loss for tests to notice.
 */
#define _GNU_SOURCE /* fallocate, memmem, accept4 */
#include "base/bytes.h"
#include "base/clock.h"
#include "base/mem.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECTIONS_MAX 4096
#define EVENTS_MAX 512
#define READ_SIZE 65536u
#define REQUEST_SIZE_MAX (16u << 20)
#define PREALLOCATE_SIZE ((off_t)64 << 20)

static const char created[] = "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\n"
                              "Content-Length: 2\r\n\r\n{}";
static const char found[] = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                            "Content-Length: 2\r\n\r\n{}";
static const char missing[] = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";

struct peer {
    int fd;
    bool is_open;
    bool has_answer; /* in the list of this turn */
    struct buffer in;
    struct buffer out;
};

struct loop {
    int epoll_fd;
    int listen_fd;
    int file_fd;
    off_t file_size;      /* written */
    off_t file_allocated; /* room on disk */
    struct buffer turn;   /* records of this turn */
    uint64_t starts_n;
    uint64_t lose_every; /* 0 = never */
    struct peer peers[CONNECTIONS_MAX];
    struct peer *answered[CONNECTIONS_MAX];
    size_t answered_n;
    /* what the file has, read back for GET: hashes of ids, open addressing, 0 = free */
    uint64_t *index;
    size_t index_size; /* slots, a power of two */
    size_t index_n;
    off_t index_end;
};

_Noreturn static void die(const char *what)
{
    fprintf(stderr, "bare_loop: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* ---- the file: records of u32 size of the rest, u32 size of the id, id, body ---- */

static void append_start(struct loop *loop, struct bytes id, struct bytes body)
{
    loop->starts_n++;
    if (loop->lose_every > 0 && loop->starts_n % loop->lose_every == 0) return;
    buffer_u32(&loop->turn, (uint32_t)(4 + id.len + body.len));
    buffer_u32(&loop->turn, (uint32_t)id.len);
    buffer_append_bytes(&loop->turn, id);
    buffer_append_bytes(&loop->turn, body);
}

static void commit(struct loop *loop)
{
    if (loop->turn.failed) die("memory");
    if (loop->turn.len == 0) return;
    if (loop->file_size + (off_t)loop->turn.len > loop->file_allocated) {
        off_t more = PREALLOCATE_SIZE + (off_t)loop->turn.len;
        if (fallocate(loop->file_fd, 0, loop->file_allocated, more) != 0) die("fallocate");
        loop->file_allocated += more;
    }
    for (size_t at = 0; at < loop->turn.len;) {
        ssize_t n = pwrite(loop->file_fd, loop->turn.ptr + at, loop->turn.len - at,
                           loop->file_size + (off_t)at);
        if (n < 0) die("write");
        at += (size_t)n;
    }
    if (fdatasync(loop->file_fd) != 0) die("fdatasync");
    loop->file_size += (off_t)loop->turn.len;
    buffer_clear(&loop->turn);
}

static void index_put(struct loop *loop, uint64_t hash)
{
    if (loop->index_n * 2 >= loop->index_size) {
        uint64_t *old = loop->index;
        size_t old_size = loop->index_size;
        loop->index_size = old_size == 0 ? 1024 : old_size * 2;
        loop->index = mem_take_zero(mem_process(), loop->index_size * sizeof *loop->index);
        if (loop->index == NULL) die("memory");
        loop->index_n = 0;
        for (size_t n = 0; n < old_size; n++) {
            if (old[n] != 0) index_put(loop, old[n]);
        }
        mem_give(mem_process(), old, old_size * sizeof *old);
    }
    size_t slot = hash & (loop->index_size - 1);
    while (loop->index[slot] != 0) slot = (slot + 1) & (loop->index_size - 1);
    loop->index[slot] = hash;
    loop->index_n++;
}

/* Reads what was written since the last time. */
static void index_refresh(struct loop *loop)
{
    uint8_t head[8];
    uint8_t id[1024];
    while (loop->index_end < loop->file_size) {
        if (pread(loop->file_fd, head, sizeof head, loop->index_end) != sizeof head) die("read");
        size_t id_size = load_u32(head + 4);
        if (id_size > sizeof id) die("a long id");
        if (pread(loop->file_fd, id, id_size, loop->index_end + 8) != (ssize_t)id_size) die("read");
        index_put(loop, bytes_hash(bytes_make(id, id_size)) | 1);
        loop->index_end += 4 + (off_t)load_u32(head);
    }
}

static bool is_written(struct loop *loop, struct bytes id)
{
    uint64_t hash = bytes_hash(id) | 1;
    index_refresh(loop);
    if (loop->index_size == 0) return false;
    for (size_t slot = hash & (loop->index_size - 1); loop->index[slot] != 0;
         slot = (slot + 1) & (loop->index_size - 1)) {
        if (loop->index[slot] == hash) return true;
    }
    return false;
}

/* ---- requests ---- */

/* Between `before` and the next of the characters `ends`; empty when it is not there. */
static struct bytes between(struct bytes text, const char *before, const char *ends)
{
    const uint8_t *at = memmem(text.ptr, text.len, before, strlen(before));
    if (at == NULL) return BYTES_NONE;
    at += strlen(before);
    const uint8_t *end = at;
    while (end < text.ptr + text.len && strchr(ends, *end) == NULL) end++;
    return bytes_make(at, (size_t)(end - at));
}

static void answer(struct peer *peer, const char *text)
{
    buffer_append(&peer->out, text, strlen(text));
}

static void answer_batch(struct loop *loop, struct peer *peer, struct bytes body)
{
    char line[300];
    struct buffer lines;
    buffer_init(&lines, mem_process());
    unsigned number = 0;
    while (body.len > 0) {
        const uint8_t *end = memchr(body.ptr, '\n', body.len);
        size_t len = end == NULL ? body.len : (size_t)(end - body.ptr);
        struct bytes start = bytes_make(body.ptr, len);
        struct bytes id = between(start, "\"id\":\"", "\"");
        append_start(loop, id, start);
        int n = snprintf(line, sizeof line, "{\"line\":%u,\"id\":\"%.*s\",\"status\":202}\n",
                         ++number, (int)(id.len > 200 ? 200 : id.len), (const char *)id.ptr);
        buffer_append(&lines, line, (size_t)n);
        body = bytes_make(body.ptr + len + (end != NULL), body.len - len - (end != NULL));
    }
    int n = snprintf(line, sizeof line,
                     "HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\n"
                     "Content-Length: %zu\r\n\r\n",
                     lines.len);
    buffer_append(&peer->out, line, (size_t)n);
    buffer_append_bytes(&peer->out, buffer_view(&lines));
    buffer_release(&lines);
}

static void serve(struct loop *loop, struct peer *peer, struct bytes head, struct bytes body)
{
    struct bytes id = between(head, " /v1/instances/", "? /");
    if (bytes_start_with(head, BYTES_LITERAL("POST /v1/instances:batch"))) {
        answer_batch(loop, peer, body);
    } else if (bytes_start_with(head, BYTES_LITERAL("PUT /v1/instances/")) && id.len > 0) {
        append_start(loop, id, body);
        answer(peer, created);
    } else if (bytes_start_with(head, BYTES_LITERAL("GET /v1/instances/")) && id.len > 0) {
        answer(peer, is_written(loop, id) ? found : missing);
    } else {
        answer(peer, missing);
    }
}

/* Size of the body of a request with this head; false when it says none that can be. */
static bool body_size(struct bytes head, size_t *out)
{
    *out = 0;
    for (const uint8_t *at = head.ptr; at < head.ptr + head.len;) {
        const uint8_t *end = memchr(at, '\n', (size_t)(head.ptr + head.len - at));
        if (end == NULL) return true;
        static const char name[] = "content-length:";
        if (end - at > (ptrdiff_t)sizeof name &&
            strncasecmp((const char *)at, name, sizeof name - 1) == 0) {
            *out = strtoul((const char *)at + sizeof name - 1, NULL, 10);
            return *out <= REQUEST_SIZE_MAX;
        }
        at = end + 1;
    }
    return true;
}

/* Serves all complete requests; false when the peer is to be closed. */
static bool serve_all(struct loop *loop, struct peer *peer)
{
    size_t at = 0;
    while (at < peer->in.len) {
        const uint8_t *start = peer->in.ptr + at;
        size_t left = peer->in.len - at;
        const uint8_t *end = memmem(start, left, "\r\n\r\n", 4);
        if (end == NULL) break;
        size_t head_size = (size_t)(end + 4 - start);
        size_t size = 0;
        if (!body_size(bytes_make(start, head_size), &size)) return false;
        if (left - head_size < size) break;
        serve(loop, peer, bytes_make(start, head_size), bytes_make(start + head_size, size));
        at += head_size + size;
    }
    if (at > 0) memmove(peer->in.ptr, peer->in.ptr + at, peer->in.len - at);
    peer->in.len -= at;
    return peer->in.len <= REQUEST_SIZE_MAX;
}

/* ---- sockets ---- */

static void close_peer(struct peer *peer)
{
    close(peer->fd);
    buffer_release(&peer->in);
    buffer_release(&peer->out);
    peer->is_open = false;
}

static void on_readable(struct loop *loop, struct peer *peer)
{
    if (!buffer_reserve(&peer->in, READ_SIZE)) die("memory");
    ssize_t n = recv(peer->fd, peer->in.ptr + peer->in.len, READ_SIZE, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n > 0) peer->in.len += (size_t)n;
    if (n <= 0 || !serve_all(loop, peer)) {
        close_peer(peer);
        return;
    }
    if (peer->out.len > 0 && !peer->has_answer) {
        peer->has_answer = true;
        loop->answered[loop->answered_n++] = peer;
    }
}

static void on_connections(struct loop *loop)
{
    int on = 1;
    for (int fd; (fd = accept4(loop->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0;) {
        if (fd >= CONNECTIONS_MAX) {
            close(fd);
            continue;
        }
        struct peer *peer = &loop->peers[fd];
        *peer = (struct peer){.fd = fd, .is_open = true};
        buffer_init(&peer->in, mem_process());
        buffer_init(&peer->out, mem_process());
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
        if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) die("epoll_ctl");
    }
}

/* What does not fit in the socket is waited for: the generator reads all the time. */
static void send_answers(struct peer *peer)
{
    peer->has_answer = false;
    for (size_t at = 0; at < peer->out.len && peer->is_open;) {
        ssize_t n = send(peer->fd, peer->out.ptr + at, peer->out.len - at, MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN) usleep(100);
        if (n < 0 && errno != EAGAIN && errno != EINTR) {
            close_peer(peer);
            return;
        }
        if (n > 0) at += (size_t)n;
    }
    buffer_clear(&peer->out);
}

static void turn(struct loop *loop)
{
    struct epoll_event events[EVENTS_MAX];
    int n = epoll_wait(loop->epoll_fd, events, EVENTS_MAX, -1);
    for (int i = 0; i < n; i++) {
        if (events[i].data.fd == loop->listen_fd)
            on_connections(loop);
        else
            on_readable(loop, &loop->peers[events[i].data.fd]);
    }
    commit(loop);
    for (size_t i = 0; i < loop->answered_n; i++) {
        if (loop->answered[i]->is_open) send_answers(loop->answered[i]);
    }
    loop->answered_n = 0;
}

static void listen_on(struct loop *loop, const char *address)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof in;
    const char *colon = strrchr(address, ':');
    in.sin_port = htons((uint16_t)strtoul(colon == NULL ? "0" : colon + 1, NULL, 10));
    loop->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int on = 1;
    (void)setsockopt(loop->listen_fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(loop->listen_fd, (struct sockaddr *)&in, sizeof in) != 0 ||
        listen(loop->listen_fd, 1024) != 0 ||
        getsockname(loop->listen_fd, (struct sockaddr *)&in, &size) != 0)
        die(address);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = loop->listen_fd};
    if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, loop->listen_fd, &event) != 0) die("epoll_ctl");
    printf("bare_loop ready on 127.0.0.1:%u, pid %d\n", ntohs(in.sin_port), (int)getpid());
    fflush(stdout);
}

static void end(int number)
{
    (void)number;
    _exit(0);
}

int main(int argc, char **argv)
{
    static struct loop loop;
    const char *listen_text = "127.0.0.1:0";
    const char *file = NULL;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--data") == 0) file = argv[i + 1];
        if (strcmp(argv[i], "--listen") == 0) listen_text = argv[i + 1];
        if (strcmp(argv[i], "--lose") == 0) loop.lose_every = strtoul(argv[i + 1], NULL, 10);
    }
    if (file == NULL) {
        fputs("usage: bare_loop --data FILE [--listen 127.0.0.1:PORT] [--lose N]\n", stderr);
        return 2;
    }
    signal(SIGTERM, end);
    loop.file_fd = open(file, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (loop.file_fd < 0) die(file);
    loop.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    buffer_init(&loop.turn, mem_process());
    listen_on(&loop, listen_text);
    for (;;) turn(&loop);
}
