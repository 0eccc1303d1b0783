/* SPDX-License-Identifier: Apache-2.0
 *
 * See client_socket.h. What a client has to send is pulled into its own buffer once per turn and
 * written with one call; what the socket did not take stays there and the socket is polled for
 * writing.
 */
#include "net/client_socket.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#define PULL_SIZE ((size_t)256 << 10)
#define READ_SIZE ((size_t)256 << 10)
#define HOST_SIZE 256

struct connection {
    struct list node;
    struct client *client;
    int fd;            /* -1 = lost */
    struct buffer out; /* pulled and not yet written, from out_sent on */
    size_t out_sent;
    int64_t due_ns; /* of client_tick() */
};

struct client_sockets {
    struct mem *mem;
    struct list connections;
    uint32_t connections_n;
    uint32_t connections_n_max;
    int64_t now_ns;
    int watched_fd;
    struct pollfd *polls; /* connections_n_max in the order of the list, and the watched one */
    uint8_t *read_buffer;
};

enum status client_sockets_open(struct mem *mem, uint32_t connections_n_max,
                                struct client_sockets **out)
{
    assert(connections_n_max > 0);
    struct client_sockets *s = mem_take_zero(mem, sizeof *s);
    if (s == NULL) return E_NOMEM;
    s->mem = mem;
    s->connections_n_max = connections_n_max;
    s->now_ns = clock_mono_ns();
    s->watched_fd = -1;
    list_init(&s->connections);
    s->polls = mem_take(mem, ((size_t)connections_n_max + 1) * sizeof *s->polls);
    s->read_buffer = mem_take(mem, READ_SIZE);
    if (s->polls == NULL || s->read_buffer == NULL) {
        client_sockets_close(s);
        return E_NOMEM;
    }
    *out = s;
    return OK;
}

static struct connection *connection_at(struct list *node)
{
    return container_of(node, struct connection, node);
}

static void close_connection(struct client_sockets *s, struct connection *connection)
{
    client_free(connection->client);
    if (connection->fd >= 0) close(connection->fd);
    buffer_release(&connection->out);
    if (list_is_linked(&connection->node)) {
        list_remove(&connection->node);
        s->connections_n--;
    }
    mem_give(s->mem, connection, sizeof *connection);
}

void client_sockets_close(struct client_sockets *s)
{
    if (s == NULL) return;
    for (struct list *n = list_first(&s->connections); n != NULL; n = list_first(&s->connections)) {
        close_connection(s, connection_at(n));
    }
    mem_give(s->mem, s->polls, ((size_t)s->connections_n_max + 1) * sizeof *s->polls);
    mem_give(s->mem, s->read_buffer, READ_SIZE);
    mem_give(s->mem, s, sizeof *s);
}

/* ---- connecting ---- */

/* "host:port" or "[host]:port" in two texts. */
static bool split_address(const char *address, char host[HOST_SIZE], char port[8])
{
    const char *colon = strrchr(address, ':');
    if (colon == NULL || strlen(colon + 1) == 0 || strlen(colon + 1) >= 8) return false;
    if (strspn(colon + 1, "0123456789") != strlen(colon + 1)) return false;
    const char *start = address;
    const char *end = colon;
    if (*start == '[') {
        start++;
        end--;
        if (end <= start || *end != ']') return false;
    } else if (memchr(start, ':', (size_t)(end - start)) != NULL) {
        return false; /* an IPv6 address needs its brackets */
    }
    if (end == start || end - start >= HOST_SIZE) return false;
    snprintf(host, HOST_SIZE, "%.*s", (int)(end - start), start);
    snprintf(port, 8, "%s", colon + 1);
    return true;
}

/* Connects to one of the addresses of a name. *fd is the caller's on OK. */
static enum status connect_one(const struct addrinfo *info, int64_t timeout_ms, int *out)
{
    int error = 0;
    socklen_t size = sizeof error;
    int one = 1;
    int fd = socket(info->ai_family, info->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC,
                    info->ai_protocol);
    if (fd < 0) return E_IO;
    enum status status = OK;
    if (connect(fd, info->ai_addr, info->ai_addrlen) != 0) {
        struct pollfd poller = {.fd = fd, .events = POLLOUT};
        if (errno != EINPROGRESS)
            status = E_UNAVAILABLE;
        else if (poll(&poller, 1, (int)timeout_ms) <= 0)
            status = E_TIMEOUT;
        else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0)
            status = E_UNAVAILABLE;
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one); /* a wish */
    if (status == OK)
        *out = fd;
    else
        close(fd);
    return status;
}

static enum status connect_socket(const char *address, int64_t timeout_ms, int *fd, char *text)
{
    char host[HOST_SIZE];
    char port[8];
    struct addrinfo *found = NULL;
    struct addrinfo wish = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};

    if (!split_address(address, host, port)) {
        snprintf(text, CLIENT_SOCKET_TEXT_SIZE, "\"%s\" is not an address: use HOST:PORT", address);
        return E_INVALID;
    }
    int failed = getaddrinfo(host, port, &wish, &found);
    if (failed != 0) {
        snprintf(text, CLIENT_SOCKET_TEXT_SIZE, "%s: %s", address, gai_strerror(failed));
        return failed == EAI_MEMORY ? E_NOMEM : E_UNAVAILABLE;
    }
    enum status status = E_UNAVAILABLE;
    for (const struct addrinfo *i = found; i != NULL && status != OK; i = i->ai_next) {
        status = connect_one(i, timeout_ms, fd);
    }
    freeaddrinfo(found);
    if (status != OK)
        snprintf(text, CLIENT_SOCKET_TEXT_SIZE, "%s: %s", address,
                 status == E_TIMEOUT       ? "no answer in time"
                 : status == E_UNAVAILABLE ? "nobody listens there"
                                           : strerror(errno));
    return status;
}

enum status client_sockets_connect(struct client_sockets *s, const struct client_options *options,
                                   const char *address, int64_t timeout_ms, struct client **out,
                                   char *text)
{
    text[0] = '\0';
    if (s->connections_n == s->connections_n_max) return E_LIMIT;
    int fd = -1;
    enum status status = connect_socket(address, timeout_ms, &fd, text);
    if (status != OK) return status;

    struct connection *connection = mem_take_zero(s->mem, sizeof *connection);
    if (connection == NULL) {
        close(fd);
        return E_NOMEM;
    }
    s->now_ns = clock_mono_ns();
    list_node_init(&connection->node);
    buffer_init(&connection->out, s->mem);
    connection->fd = fd;
    struct client_options complete = *options;
    complete.authority = bytes_of_text(address);
    status = client_new(&complete, s->now_ns, &connection->client);
    if (status != OK) {
        close_connection(s, connection);
        return status;
    }
    list_push_back(&s->connections, &connection->node);
    s->connections_n++;
    *out = connection->client;
    return OK;
}

void client_sockets_disconnect(struct client_sockets *s, struct client *client)
{
    for (struct list *n = list_first(&s->connections); n != NULL;
         n = list_next(&s->connections, n)) {
        if (connection_at(n)->client != client) continue;
        close_connection(s, connection_at(n));
        return;
    }
    unreachable("a client of another loop");
}

void client_sockets_watch(struct client_sockets *s, int fd) { s->watched_fd = fd; }

/* ---- a turn ---- */

static void lose(struct connection *connection, const char *text)
{
    close(connection->fd);
    connection->fd = -1;
    buffer_clear(&connection->out);
    connection->out_sent = 0;
    client_lose(connection->client, text);
}

/* Writes until nothing waits or the socket is full. */
static void send_all(struct connection *connection)
{
    struct buffer *out = &connection->out;
    while (connection->fd >= 0) {
        if (connection->out_sent == out->len) {
            buffer_clear(out);
            connection->out_sent = 0;
            if (!client_pull(connection->client, out, PULL_SIZE)) break;
        }
        ssize_t size = send(connection->fd, out->ptr + connection->out_sent,
                            out->len - connection->out_sent, MSG_NOSIGNAL);
        if (size >= 0) {
            connection->out_sent += (size_t)size;
        } else if (errno == EAGAIN) {
            return;
        } else if (errno != EINTR) {
            lose(connection, strerror(errno));
        }
    }
    if (connection->fd >= 0 && client_is_over(connection->client))
        lose(connection, "the connection is closed");
}

/* Reads once or, when that filled the buffer, again; a peer that never stops does not keep the
 * others waiting. */
static void receive(struct client_sockets *s, struct connection *connection)
{
    for (int n = 0; n < 4 && connection->fd >= 0; n++) {
        ssize_t size = recv(connection->fd, s->read_buffer, READ_SIZE, 0);
        if (size < 0 && errno == EINTR) continue;
        if (size < 0 && errno == EAGAIN) return;
        if (size < 0) {
            lose(connection, strerror(errno));
        } else if (size == 0) {
            lose(connection, "the peer closed the connection");
        } else {
            struct bytes bytes = bytes_make(s->read_buffer, (size_t)size);
            (void)client_feed(connection->client, s->now_ns, bytes); /* send_all() sees it */
            if ((size_t)size < READ_SIZE) return;
        }
    }
}

static void send_and_tick(struct client_sockets *s)
{
    for (struct list *n = list_first(&s->connections); n != NULL;
         n = list_next(&s->connections, n)) {
        struct connection *connection = connection_at(n);
        if (connection->fd < 0) continue;
        connection->due_ns = client_tick(connection->client, s->now_ns);
        send_all(connection);
    }
}

void client_sockets_turn(struct client_sockets *s, int64_t timeout_ms)
{
    uint32_t polls_n = 0;
    s->now_ns = clock_mono_ns();
    send_and_tick(s);
    int64_t due_ns = s->now_ns + timeout_ms * NS_PER_MS;
    for (struct list *n = list_first(&s->connections); n != NULL;
         n = list_next(&s->connections, n)) {
        struct connection *connection = connection_at(n);
        bool is_waiting = connection->out_sent < connection->out.len;
        s->polls[polls_n++] = (struct pollfd){
            .fd = connection->fd, /* a negative one is passed over */
            .events = (short)(is_waiting ? POLLIN | POLLOUT : POLLIN),
        };
        if (connection->fd >= 0 && connection->due_ns < due_ns) due_ns = connection->due_ns;
    }
    s->polls[polls_n++] = (struct pollfd){.fd = s->watched_fd, .events = POLLIN};
    int64_t wait_ms = due_ns <= s->now_ns ? 0 : (due_ns - s->now_ns + NS_PER_MS - 1) / NS_PER_MS;
    if (wait_ms > INT32_MAX) wait_ms = INT32_MAX;
    int ready = poll(s->polls, polls_n, (int)wait_ms);
    s->now_ns = clock_mono_ns();

    uint32_t index = 0;
    for (struct list *n = list_first(&s->connections); n != NULL && ready > 0;
         n = list_next(&s->connections, n), index++) {
        if (s->polls[index].revents == 0) continue;
        if ((s->polls[index].revents & (POLLIN | POLLERR | POLLHUP)) != 0)
            receive(s, connection_at(n));
    }
    send_and_tick(s);
}

enum status client_sockets_until(struct client_sockets *s, bool (*is_done)(void *user), void *user,
                                 int64_t timeout_ms)
{
    int64_t end_ns = clock_mono_ns() + timeout_ms * NS_PER_MS;
    while (!is_done(user)) {
        int64_t left_ns = end_ns - clock_mono_ns();
        if (left_ns <= 0) return E_TIMEOUT;
        client_sockets_turn(s, left_ns / NS_PER_MS + 1);
    }
    return OK;
}

int64_t client_sockets_now_ns(const struct client_sockets *s) { return s->now_ns; }

/* ---- one call, waited for ---- */

struct question {
    struct buffer *answer;
    enum grpc_code code;
    bool is_done;
    char *text;
};

static void question_message(void *user, struct client_call *call, struct bytes message)
{
    struct question *question = user;
    (void)call;
    buffer_append_bytes(question->answer, message);
}

static void question_end(void *user, struct client_call *call, enum grpc_code code,
                         const char *text)
{
    struct question *question = user;
    (void)call;
    question->code = code;
    question->is_done = true;
    snprintf(question->text, CLIENT_TEXT_SIZE, "%s", text);
}

static bool question_is_done(void *user) { return ((struct question *)user)->is_done; }

enum status client_sockets_ask(struct client_sockets *s, struct client *client,
                               const struct client_request *request, struct buffer *answer,
                               enum grpc_code *code, char *text)
{
    struct question question = {.answer = answer, .text = text};
    struct client_request complete = *request;
    complete.on_message = question_message;
    complete.on_end = question_end;
    complete.user = &question;
    text[0] = '\0';
    s->now_ns = clock_mono_ns();
    enum status status = client_begin(client, s->now_ns, &complete, NULL);
    if (status != OK) return status;
    /* the call's own deadline, PING and the end of the connection all end it */
    while (client_sockets_until(s, question_is_done, &question, 60000) != OK) continue;
    if (answer->failed) return E_NOMEM;
    *code = question.code;
    return OK;
}
