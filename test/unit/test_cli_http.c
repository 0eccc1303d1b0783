/* SPDX-License-Identifier: Apache-2.0
 *
 * The HTTP client against a peer that says exactly what the test wants, in the pieces it wants.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "cli/http_client.h"
#include "cli/sse.h"
#include "test/lib/test.h"

#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* Answers each request, or each new connection, with the next of these. NULL ends a connection. */
struct peer {
    int listener;
    pthread_t thread;
    const char *const *answers;
    unsigned connections_n;
    unsigned requests_n;
    bool is_slow;    /* byte by byte */
    char last[4096]; /* request */
};

static struct peer peer;
static struct http_client client;

static bool read_request(int fd)
{
    size_t len = 0;

    for (;;) {
        ssize_t n = read(fd, peer.last + len, sizeof peer.last - 1 - len);
        if (n <= 0) return false;
        len += (size_t)n;
        peer.last[len] = '\0';
        const char *end = strstr(peer.last, "\r\n\r\n");
        const char *length = strstr(peer.last, "Content-Length: ");
        size_t body = length == NULL ? 0 : strtoul(length + 16, NULL, 10);
        if (end != NULL && len >= (size_t)(end - peer.last) + 4 + body) return true;
    }
}

static void say(int fd, const char *text)
{
    size_t len = strlen(text);

    for (size_t at = 0; at < len;) {
        ssize_t n = send(fd, text + at, peer.is_slow ? 1 : len - at, MSG_NOSIGNAL);
        if (n <= 0) return;
        at += (size_t)n;
        if (peer.is_slow) (void)poll(NULL, 0, 1);
    }
}

static void *serve(void *unused)
{
    const char *const *answer = peer.answers;

    (void)unused;
    while (*answer != NULL) {
        int fd = accept(peer.listener, NULL, NULL);
        if (fd < 0) return NULL;
        peer.connections_n++;
        while (*answer != NULL && read_request(fd)) {
            peer.requests_n++;
            say(fd, *answer++);
            if (answer[0] != NULL && strcmp(answer[0], "close") == 0) {
                answer++;
                break;
            }
        }
        (void)close(fd);
    }
    return NULL;
}

static void open_peer(const char *const *answers)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof address;
    struct url url;
    char text[64];

    bool is_slow = peer.is_slow;
    memset(&peer, 0, sizeof peer);
    peer.is_slow = is_slow;
    peer.answers = answers;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    peer.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT(bind(peer.listener, (struct sockaddr *)&address, sizeof address) == 0);
    EXPECT(listen(peer.listener, 5) == 0);
    EXPECT(getsockname(peer.listener, (struct sockaddr *)&address, &size) == 0);
    EXPECT(pthread_create(&peer.thread, NULL, serve, NULL) == 0);
    (void)snprintf(text, sizeof text, "http://127.0.0.1:%d/base/", ntohs(address.sin_port));
    EXPECT(url_parse(text, &url) == NULL);
    http_client_init(&client, mem_process(), &url);
}

static void close_peer(void)
{
    http_client_close(&client);
    (void)shutdown(peer.listener, SHUT_RDWR);
    (void)pthread_join(peer.thread, NULL);
    (void)close(peer.listener);
    peer.is_slow = false;
}

static enum status ask(const char *method, const char *body, struct http_reply *reply)
{
    struct http_call call = {
        .method = method, .path = "/x?y=1", .body = bytes_of_text(body), .timeout_ms = 5000};

    return http_client_call(&client, &call, reply);
}

#define OK_HEAD "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"

/* Three answers of three kinds, whole and byte by byte, on one connection. */
static void several_on_one_connection(void)
{
    static const char *const answers[] = {
        OK_HEAD "Content-Length: 7\r\n\r\n{\"a\":1}",
        OK_HEAD
        "transfer-encoding: chunked\r\n\r\n3;x=y\r\nabc\r\nA\r\n0123456789\r\n0\r\nT: v\r\n\r\n",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 Not Found\r\nRetry-After: 7\r\n"
        "Content-Length: 0\r\n\r\n",
        NULL};
    struct http_reply reply;

    open_peer(answers);
    EXPECT_STATUS(OK, ask("GET", "", &reply));
    EXPECT_EQ(200, reply.status);
    EXPECT(reply.is_json);
    EXPECT_BYTES(BYTES_LITERAL("{\"a\":1}"), reply.body);
    EXPECT_STATUS(OK, ask("POST", "{\"b\":2}", &reply));
    EXPECT_BYTES(BYTES_LITERAL("abc0123456789"), reply.body);
    EXPECT(strstr(peer.last, "POST /base/x?y=1 HTTP/1.1\r\n") == peer.last);
    EXPECT(strstr(peer.last, "Content-Type: application/json\r\n") != NULL);
    EXPECT(strstr(peer.last, "\r\n\r\n{\"b\":2}") != NULL);
    EXPECT_STATUS(OK, ask("GET", "", &reply));
    EXPECT_EQ(404, reply.status);
    EXPECT_EQ(7, reply.retry_after_s);
    EXPECT_EQ(0, reply.body.len);
    EXPECT_EQ(1, peer.connections_n);
    close_peer();
}

TEST(answers_by_length_and_by_chunks_share_a_connection) { several_on_one_connection(); }

TEST(it_does_not_matter_in_which_pieces_an_answer_comes)
{
    peer.is_slow = true;
    several_on_one_connection();
}

TEST(a_body_until_the_end_of_the_connection_is_whole)
{
    static const char *const answers[] = {"HTTP/1.1 200 OK\r\n\r\nall of it", "close",
                                          OK_HEAD "Content-Length: 2\r\n\r\n{}", NULL};
    struct http_reply reply;

    open_peer(answers);
    EXPECT_STATUS(OK, ask("GET", "", &reply));
    EXPECT_BYTES(BYTES_LITERAL("all of it"), reply.body);
    EXPECT_STATUS(OK, ask("POST", "{}", &reply));
    EXPECT_EQ(2, peer.connections_n);
    close_peer();
}

/* A server may close a kept connection at any time: reading again is harmless. */
TEST(a_closed_kept_connection_is_made_anew)
{
    static const char *const answers[] = {OK_HEAD "Content-Length: 2\r\n\r\n{}", "close",
                                          OK_HEAD "Content-Length: 2\r\n\r\n[]", NULL};
    struct http_reply reply;

    open_peer(answers);
    EXPECT_STATUS(OK, ask("GET", "", &reply));
    EXPECT_STATUS(OK, ask("GET", "", &reply));
    EXPECT_BYTES(BYTES_LITERAL("[]"), reply.body);
    EXPECT_EQ(2, peer.connections_n);
    close_peer();
}

/* What changes something may have been done before the connection broke: only the user may repeat
 * it. */
TEST(what_was_sent_on_a_dying_connection_is_repeated_only_when_that_is_harmless)
{
    static const char *const answers[] = {OK_HEAD "Content-Length: 2\r\n\r\n{}",
                                          "",
                                          "close",
                                          OK_HEAD "Content-Length: 2\r\n\r\n[]",
                                          "",
                                          "close",
                                          NULL};
    struct http_reply reply;

    open_peer(answers);
    EXPECT_STATUS(OK, ask("GET", "", &reply));
    EXPECT_STATUS(OK, ask("GET", "", &reply)); /* heard, not answered: asked again */
    EXPECT_BYTES(BYTES_LITERAL("[]"), reply.body);
    EXPECT_EQ(3, peer.requests_n);
    EXPECT_STATUS(E_CLOSED, ask("POST", "{}", &reply));
    EXPECT_EQ(4, peer.requests_n);
    close_peer();
}

TEST(a_connection_that_was_said_to_end_is_not_used_again)
{
    static const char *const answers[] = {
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}",
        OK_HEAD "Content-Length: 2\r\n\r\n[]", NULL};
    struct http_reply reply;

    open_peer(answers);
    EXPECT_STATUS(OK, ask("POST", "1", &reply));
    EXPECT_STATUS(OK, ask("POST", "2", &reply));
    EXPECT_EQ(2, peer.connections_n);
    close_peer();
}

/* Half an answer must never be taken for a whole one. */
TEST(a_torn_answer_is_an_error)
{
    static const char *const torn[] = {OK_HEAD "Content-Length: 10\r\n\r\n{\"a\"",
                                       OK_HEAD "Transfer-Encoding: chunked\r\n\r\n3\r\nab",
                                       OK_HEAD "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n",
                                       "HTTP/1.1 200 OK\r\nContent-"};
    struct http_reply reply;

    for (size_t n = 0; n < sizeof torn / sizeof torn[0]; n++) {
        const char *const answers[] = {torn[n], "close", NULL};
        test_note("%zu", n);
        open_peer(answers);
        EXPECT_STATUS(E_CLOSED, ask("POST", "{}", &reply));
        close_peer();
    }
}

TEST(what_is_not_http_is_said_so)
{
    static const char *const wrong[] = {"SSH-2.0-OpenSSH\r\n",
                                        "HTTP/1.1 abc\r\n\r\n",
                                        OK_HEAD "Content-Length: x\r\n\r\n",
                                        OK_HEAD "nocolon\r\n\r\n",
                                        OK_HEAD "Transfer-Encoding: gzip\r\n\r\n",
                                        OK_HEAD "Transfer-Encoding: chunked\r\n\r\nzz\r\n",
                                        OK_HEAD "Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n"};
    struct http_reply reply;

    for (size_t n = 0; n < sizeof wrong / sizeof wrong[0]; n++) {
        const char *const answers[] = {wrong[n], "close", NULL};
        test_note("%zu", n);
        open_peer(answers);
        EXPECT_STATUS(E_CORRUPT, ask("GET", "", &reply));
        EXPECT(client.error[0] != '\0');
        close_peer();
    }
}

TEST(silence_is_a_time_out)
{
    static const char *const answers[] = {"HTTP/1.1 200 OK\r\n", "never sent", NULL};
    struct http_call call = {.method = "GET", .path = "/", .timeout_ms = 50};
    struct http_reply reply;

    open_peer(answers);
    int64_t begun_ns = clock_mono_ns();
    EXPECT_STATUS(E_TIMEOUT, http_client_call(&client, &call, &reply));
    EXPECT(clock_mono_ns() - begun_ns < 4 * NS_PER_S);
    close_peer();
}

TEST(nobody_there_is_unavailable)
{
    struct url url;
    struct http_reply reply;

    EXPECT(url_parse("http://127.0.0.1:1", &url) == NULL);
    http_client_init(&client, mem_process(), &url);
    EXPECT_STATUS(E_UNAVAILABLE, ask("GET", "", &reply));
    EXPECT(strstr(client.error, "refused") != NULL);
    http_client_close(&client);
}

TEST(events_come_one_by_one)
{
    static const char *const answers[] = {
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n: hello\n\n"
        "id: 7\nevent: history\n"
        "data: {\"a\":\ndata: 1}\n\ndata:x\r\n\r\nevent: end\n\nid: 9\ndata: torn",
        "close", NULL};
    struct http_call call = {.method = "GET", .path = "/", .timeout_ms = 5000};
    struct http_reply reply;
    struct sse_reader reader;
    struct sse_event event;

    peer.is_slow = true;
    open_peer(answers);
    EXPECT_STATUS(OK, http_client_begin(&client, &call, &reply));
    sse_init(&reader, &client);
    EXPECT_STATUS(OK, sse_next(&reader, &event, 5000));
    EXPECT_TEXT("7", event.id);
    EXPECT_TEXT("history", event.event);
    EXPECT_BYTES(BYTES_LITERAL("{\"a\":\n1}"), event.data);
    EXPECT_STATUS(OK, sse_next(&reader, &event, 5000));
    EXPECT_TEXT("message", event.event);
    EXPECT_TEXT("7", event.id);
    EXPECT_BYTES(BYTES_LITERAL("x"), event.data);
    EXPECT_STATUS(OK, sse_next(&reader, &event, 5000));
    EXPECT_TEXT("end", event.event);
    EXPECT_STATUS(E_CLOSED, sse_next(&reader, &event, 5000));
    sse_release(&reader);
    close_peer();
}

TEST(addresses_of_servers)
{
    struct url url;

    EXPECT(url_parse("norn.example", &url) == NULL);
    EXPECT_TEXT("norn.example", url.host);
    EXPECT_TEXT("4001", url.port);
    EXPECT_TEXT("", url.base);
    EXPECT(url_parse("http://[::1]:80/a/b/", &url) == NULL);
    EXPECT_TEXT("::1", url.host);
    EXPECT_TEXT("80", url.port);
    EXPECT_TEXT("/a/b", url.base);
    static const char *const wrong[] = {"https://x",      "ftp://x",    "http://",
                                        "http://:80",     "http://x:",  "http://x:y",
                                        "http://[::1",    "http://u@x", "http://x/?a=1",
                                        "http://x:123456"};
    for (size_t n = 0; n < sizeof wrong / sizeof wrong[0]; n++) {
        test_note("%s", wrong[n]);
        EXPECT(url_parse(wrong[n], &url) != NULL);
    }
}

/* An id may hold anything: what it holds must not become a part of the path. */
TEST(parts_of_paths_are_encoded)
{
    struct buffer out;

    buffer_init(&out, mem_process());
    url_encode(&out, BYTES_LITERAL("a/b?c=d&e %\xc3\xa9~"));
    url_encode(&out, BYTES_LITERAL(".."));
    url_encode(&out, BYTES_LITERAL("a.b"));
    EXPECT_BYTES(BYTES_LITERAL("a%2Fb%3Fc%3Dd%26e%20%25%C3%A9~%2E%2Ea.b"), buffer_view(&out));
    buffer_release(&out);
}
