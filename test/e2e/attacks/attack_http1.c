/* SPDX-License-Identifier: Apache-2.0
 *
 * HTTP/1.1 that two readers could understand differently, and what is not HTTP at all.
 */
#include "test/e2e/attacks/attack.h"

#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

/* Says this and reads to the end, or for as long as is usual; the first line of the answer is in
 * `answer`, and whether the server closed is told. */
static bool exchange(struct bytes request, char *answer, size_t size)
{
    char more[4096];
    size_t n = 0;
    int fd = target_dial(0);
    bool is_closed = false;

    (void)send(fd, request.ptr, request.len, MSG_NOSIGNAL);
    for (;;) {
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        if (poll(&wait, 1, n == 0 ? END_MS : 300) != 1) break;
        ssize_t got = recv(fd, more, sizeof more, 0);
        is_closed = got <= 0;
        if (is_closed) break;
        size_t room = size - 1 - n;
        size_t kept = (size_t)got < room ? (size_t)got : room;
        memcpy(answer + n, more, kept);
        n += kept;
    }
    close(fd);
    answer[n] = 0;
    return is_closed;
}

#define HOST "Host: x\r\n"
#define SECOND "GET /healthz HTTP/1.1\r\n" HOST "\r\n"

/* Each is refused with 400 and the connection closed, so that what follows it is never read as a
 * request. */
TEST(request_smuggling)
{
    static const struct {
        const char *name;
        const char *request;
    } cases[] = {
        {"both lengths", "POST / HTTP/1.1\r\n" HOST
                         "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nX"},
        {"both lengths, other order",
         "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n"},
        {"two lengths",
         "POST / HTTP/1.1\r\n" HOST "Content-Length: 0\r\nContent-Length: 44\r\n\r\n"},
        {"the same length twice",
         "POST / HTTP/1.1\r\n" HOST "Content-Length: 0\r\nContent-Length: 0\r\n\r\n"},
        {"a list of lengths", "POST / HTTP/1.1\r\n" HOST "Content-Length: 0, 44\r\n\r\n"},
        {"a signed length", "POST / HTTP/1.1\r\n" HOST "Content-Length: +0\r\n\r\n"},
        {"a hexadecimal length", "POST / HTTP/1.1\r\n" HOST "Content-Length: 0x0\r\n\r\n"},
        {"a folded line", "GET / HTTP/1.1\r\n" HOST "X: a\r\n b\r\n\r\n"},
        {"line feeds alone", "GET / HTTP/1.1\nHost: x\n\n"},
        {"one line feed alone", "GET / HTTP/1.1\r\nHost: x\nX: y\r\n\r\n"},
        {"a carriage return alone", "GET / HTTP/1.1\r\nHost: x\rX: y\r\n\r\n"},
        {"space before the colon", "GET / HTTP/1.1\r\nHost : x\r\n\r\n"},
        {"no name", "GET / HTTP/1.1\r\n" HOST ": y\r\n\r\n"},
        {"a NUL", NULL},
        {"two hosts", "GET / HTTP/1.1\r\n" HOST HOST "\r\n"},
        {"no host", "GET / HTTP/1.1\r\n\r\n"},
        {"two spaces", "GET  / HTTP/1.1\r\n" HOST "\r\n"},
        {"another coding",
         "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"},
        {"two codings", "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n"
                        "Transfer-Encoding: identity\r\n\r\n0\r\n\r\n"},
        {"chunks in HTTP/1.0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
    };
    enum { CASES_N = sizeof cases / sizeof cases[0] };
    char answer[1024];

    attack_begin("request smuggling", NULL);
    for (size_t i = 0; i < CASES_N; i++) {
        struct buffer b;
        test_note("request smuggling: %s", cases[i].name);
        buffer_init(&b, mem_process());
        if (cases[i].request != NULL)
            buffer_append_bytes(&b, bytes_of_text(cases[i].request));
        else
            buffer_append_bytes(&b, BYTES_LITERAL("GET / HTTP/1.1\r\nHost: x\0y\r\n\r\n"));
        buffer_append_bytes(&b, BYTES_LITERAL(SECOND));
        EXPECT(exchange(buffer_view(&b), answer, sizeof answer));
        EXPECT(strstr(answer, "HTTP/1.1 400") == answer);
        EXPECT(strstr(answer + 1, "HTTP/1.1 ") == NULL); /* one answer */
        buffer_release(&b);
    }
    EXPECT_EQ(CASES_N, target_counter("http_malformed"));
    attack_measure(CASES_N, (struct attack_bounds){0});
    attack_end();
}

/* Upgrade is not followed: the request is answered as HTTP/1.1, and stays that. */
TEST(h2c_upgrade_is_ignored)
{
    char answer[4096];

    attack_begin("h2c upgrade", NULL);
    (void)exchange(BYTES_LITERAL("GET /healthz HTTP/1.1\r\n" HOST "Connection: Upgrade, "
                                 "HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"
                                 "\r\n" SECOND),
                   answer, sizeof answer);
    EXPECT(strstr(answer, "HTTP/1.1 200") == answer);
    EXPECT(strstr(answer, "101") == NULL);
    EXPECT(strstr(answer + 1, "HTTP/1.1 200") != NULL);
    attack_measure(2, (struct attack_bounds){0});
    attack_end();
}

/* A chunked body is read as it is meant or not at all; what follows one that is refused is never
 * read as a request. */
TEST(chunks_that_are_read_differently)
{
    static const struct {
        const char *chunks;
        const char *answer;
    } cases[] = {
        {"5\nhello\r\n0\r\n\r\n", "HTTP/1.1 400"},
        {"5\r\nhello\n0\r\n\r\n", "HTTP/1.1 400"},
        {"5;a\nhello\r\n0\r\n\r\n", "HTTP/1.1 400"},
        {"5 \r\nhello\r\n0\r\n\r\n", "HTTP/1.1 400"},
        {"0x5\r\nhello\r\n0\r\n\r\n", "HTTP/1.1 400"},
        {"+5\r\nhello\r\n0\r\n\r\n", "HTTP/1.1 400"},
        {"6\r\nhello\r\n0\r\n\r\n", "HTTP/1.1 400"},
        {"4\r\nhello\r\n0\r\n\r\n", "HTTP/1.1 400"},
        {"00000000000000005\r\nhello\r\n0\r\n\r\n", "HTTP/1.1 400"},
        {"0\r\nA : b\r\n\r\n", "HTTP/1.1 400"},
        {"0\r\nA: b\r\n c\r\n\r\n", "HTTP/1.1 400"},
        {"0\r\n\n", "HTTP/1.1 400"},
        {"fffffffffffffff0\r\n", "HTTP/1.1 413"},
    };
    enum { CASES_N = sizeof cases / sizeof cases[0] };
    char answer[1024];

    attack_begin("chunks", NULL);
    for (size_t i = 0; i < CASES_N; i++) {
        char request[512];
        test_note("chunks: case %zu", i);
        (void)snprintf(request, sizeof request,
                       "POST /x HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n%s" SECOND,
                       cases[i].chunks);
        EXPECT(exchange(bytes_of_text(request), answer, sizeof answer));
        EXPECT(strstr(answer, cases[i].answer) == answer);
        EXPECT(strstr(answer + 1, "HTTP/1.1 ") == NULL); /* one answer */
    }
    EXPECT_EQ(CASES_N - 1, target_counter("http_malformed"));
    attack_measure(CASES_N, (struct attack_bounds){0});
    attack_end();
}

static void put_garbage(struct buffer *b, int kind)
{
    buffer_clear(b);
    switch (kind) {
    case 0:
        for (int i = 0; i < 1000; i++) buffer_u8(b, 0);
        break;
    case 1:
        for (int i = 0; i < 70000; i++) buffer_u8(b, 0xff);
        break;
    case 2: buffer_append_bytes(b, BYTES_LITERAL("SSH-2.0-x\r\n\r\n")); break;
    case 3: buffer_append_bytes(b, BYTES_LITERAL("PRI * HTTP/2.0\r\n\r\nSM\r\n\rX")); break;
    case 4:
        buffer_append(b, NGHTTP2_CLIENT_MAGIC, NGHTTP2_CLIENT_MAGIC_LEN);
        for (int i = 0; i < 1000; i++) buffer_u8(b, 0xff);
        break;
    case 5:
        buffer_append_bytes(b, BYTES_LITERAL("GET / HTTP/1.1\r\n"));
        for (int i = 0; i < 5000; i++) buffer_append_bytes(b, BYTES_LITERAL("A: b\r\n"));
        break;
    }
}

TEST(garbage)
{
    struct buffer b;
    char answer[1024];

    attack_begin("garbage", NULL);
    buffer_init(&b, mem_process());
    for (int i = 0; i < 600; i++) {
        put_garbage(&b, i % 6);
        EXPECT(exchange(buffer_view(&b), answer, sizeof answer));
    }
    buffer_release(&b);
    attack_measure(600, (struct attack_bounds){0});
    attack_end();
}

/* A client that is set to TLS: a plain answer that its library recognises, a counter, and one line
 * in the log for the person who wonders, not one for each try. */
TEST(tls_on_the_plain_port)
{
    char answer[1024];
    const struct bytes hello =
        test_hex("16030100c8010000c40303000102030405060708090a0b0c0d0e0f10111213"
                 "1415161718191a1b1c1d1e1f2000");

    attack_begin("tls hello", NULL);
    for (int i = 0; i < 200; i++) {
        EXPECT(exchange(hello, answer, sizeof answer));
        EXPECT(strstr(answer, "HTTP/1.1 400") == answer);
    }
    EXPECT_EQ(200, target_counter("tls_refused"));
    EXPECT_EQ(1, target_log_lines("TLS"));
    attack_measure(200, (struct attack_bounds){0});
    attack_end();
}

/* ---- who can reach it ---- */

/* Without TLS and authentication only this machine is let in, unless somebody says otherwise. */
TEST(only_loopback_without_a_word)
{
    static const char *const addresses[] = {"0.0.0.0:0", "[::]:0", "192.0.2.1:0",
                                            "127.0.0.1:0,0.0.0.0:0", "example.org:0"};
    char err[4096];

    for (size_t i = 0; i < sizeof addresses / sizeof addresses[0]; i++) {
        char data[512];
        test_note("--listen %s", addresses[i]);
        (void)snprintf(data, sizeof data, "%s/data", test_directory());
        const char *const words[] = {"--listen", addresses[i], "--data", data, NULL};
        EXPECT_EQ(78, target_run(words, err, sizeof err));
        EXPECT(strstr(err, "--insecure") != NULL);
    }
    /* Said so, it starts and warns. */
    static const char *const words[] = {"--listen", "127.0.0.1:0,0.0.0.0:0", "--insecure", NULL};
    attack_begin("listens beyond this machine", words);
    EXPECT_EQ(1, target_log_lines("without TLS and authentication"));
    attack_measure(1, (struct attack_bounds){0});
    attack_end();
}
