/* SPDX-License-Identifier: Apache-2.0
 *
 * See bench_ingest.h: one connection that asks and waits.
 */
#define _GNU_SOURCE /* memmem */
#include "cmd/bench_ingest.h"

#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define READ_SIZE 65536u
#define WAIT_S 30

/* ---- the address ---- */

bool ingest_target_find(struct ingest_target *target, const char *text)
{
    static const char scheme[] = "http://";
    char host[128];
    struct addrinfo *found = NULL;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    if (strncmp(text, scheme, sizeof scheme - 1) == 0) text += sizeof scheme - 1;
    snprintf(target->text, sizeof target->text, "%.*s", (int)strcspn(text, "/"), text);
    const char *colon = strrchr(target->text, ':');
    size_t len = colon == NULL ? 0 : (size_t)(colon - target->text);
    const char *start = target->text;
    if (len > 2 && start[0] == '[' && start[len - 1] == ']') {
        start++;
        len -= 2;
    }
    snprintf(host, sizeof host, "%.*s", (int)len, start);
    int code = len == 0 ? EAI_NONAME : getaddrinfo(host, colon + 1, &hints, &found);
    if (code != 0) {
        fprintf(stderr, "norn bench ingest: %s: %s; give HOST:PORT\n", text, gai_strerror(code));
        return false;
    }
    memcpy(&target->address, found->ai_addr, found->ai_addrlen);
    target->address_size = found->ai_addrlen;
    freeaddrinfo(found);
    return true;
}

int ingest_connect(const struct ingest_target *target)
{
    int on = 1;
    int fd = socket(target->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return -1;
    if (connect(fd, (const struct sockaddr *)&target->address, target->address_size) != 0) {
        int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
}

/* ---- asking ---- */

void ingest_reader_init(struct ingest_reader *reader, const struct ingest_target *target,
                        struct mem *mem)
{
    *reader = (struct ingest_reader){.target = target, .fd = -1};
    buffer_init(&reader->in, mem);
    buffer_init(&reader->body, mem);
}

static void reader_disconnect(struct ingest_reader *reader)
{
    if (reader->fd >= 0) close(reader->fd);
    reader->fd = -1;
    buffer_clear(&reader->in);
}

void ingest_reader_release(struct ingest_reader *reader)
{
    reader_disconnect(reader);
    buffer_release(&reader->in);
    buffer_release(&reader->body);
}

static bool reader_connect(struct ingest_reader *reader)
{
    struct timeval wait = {.tv_sec = WAIT_S};
    if (reader->fd >= 0) return true;
    reader->fd = ingest_connect(reader->target);
    if (reader->fd < 0) return false;
    (void)fcntl(reader->fd, F_SETFL, 0);
    return setsockopt(reader->fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait) == 0 &&
           setsockopt(reader->fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait) == 0;
}

bool ingest_send(struct ingest_reader *reader, struct bytes requests)
{
    if (!reader_connect(reader)) return false;
    for (size_t at = 0; at < requests.len;) {
        ssize_t n = send(reader->fd, requests.ptr + at, requests.len - at, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) {
            reader_disconnect(reader);
            return false;
        }
        at += (size_t)n;
    }
    return true;
}

unsigned ingest_receive(struct ingest_reader *reader)
{
    struct ingest_answer answer;
    enum ingest_answer_state state = INGEST_PARTIAL;
    for (;;) {
        state = ingest_answer_read(buffer_view(&reader->in), &answer);
        if (state != INGEST_PARTIAL) break;
        if (!buffer_reserve(&reader->in, READ_SIZE)) break;
        ssize_t n = recv(reader->fd, reader->in.ptr + reader->in.len, READ_SIZE, 0);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        reader->in.len += (size_t)n;
    }
    buffer_clear(&reader->body);
    if (state != INGEST_WHOLE) {
        reader_disconnect(reader);
        return 0;
    }
    ingest_answer_body(&answer, &reader->body);
    memmove(reader->in.ptr, reader->in.ptr + answer.size, reader->in.len - answer.size);
    reader->in.len -= answer.size;
    if (answer.is_last) reader_disconnect(reader);
    return answer.status;
}

unsigned ingest_get(struct ingest_reader *reader, const char *path)
{
    char request[2048];
    int n = snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path,
                     reader->target->text);
    if (n < 0 || (size_t)n >= sizeof request) return 0;
    if (!ingest_send(reader, bytes_make(request, (size_t)n))) return 0;
    return ingest_receive(reader);
}

/* ---- the backlog ---- */

/* The number behind a metric without labels; -1 when it is not there. */
static double metric(const struct buffer *text, const char *name)
{
    char line[128];
    int n = snprintf(line, sizeof line, "\n%s ", name);
    const char *at = memmem(text->ptr, text->len, line, (size_t)n);
    return at == NULL ? -1 : strtod(at + n, NULL);
}

struct ingest_backlog ingest_ask_backlog(struct ingest_reader *reader)
{
    struct ingest_backlog backlog = {.waiting_n = -1, .oldest_age_ms = -1};
    if (ingest_get(reader, "/metrics") != 200) return backlog;
    buffer_u8(&reader->body, '\0'); /* numbers at the end of the text stop here */
    double waiting = metric(&reader->body, "norn_engine_backlog_starts");
    double age_ms = metric(&reader->body, "norn_engine_backlog_oldest_age_milliseconds");
    if (waiting >= 0) backlog.waiting_n = (int64_t)waiting;
    if (age_ms >= 0) backlog.oldest_age_ms = (int64_t)age_ms;
    return backlog;
}
