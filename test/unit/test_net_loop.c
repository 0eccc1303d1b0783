/* SPDX-License-Identifier: Apache-2.0
 *
 * The loop with real sockets: the clients are plain sockets in this thread, the loop runs in
 * another. Time-outs are set to fractions of a second; nothing here waits for the defaults.
 */
#include "base/queue.h"
#include "net/loop.h"
#include "test/unit/net_world.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define LARGE_SIZE (2 * 1024 * 1024)
#define HUGE_SIZE (64 * 1024 * 1024)
#define STREAM_SIZE (8 * 1024 * 1024)
#define WAIT_MS 20000 /* until a test gives up; never reached when all is well */

static struct {
    struct mem mem;
    struct conn_limits limits;
    struct loop *loop;
    pthread_t thread;
    uint16_t port;
    atomic_uint commands; /* what the bell shall do */
    atomic_uint bells_n;
    /* What the end of a turn has seen: */
    /* when the last page was asked for, and at the end of that turn */
    _Atomic uint64_t page_bytes_out;
    _Atomic uint64_t turned_bytes_out;
    atomic_bool is_page_new;
    bool is_lazy; /* the stream sends nothing more when it is writable */
    atomic_uint writable_n;
    atomic_uint writable_turned_n;
    atomic_uint drained_n;
    atomic_uint ticks_n;
    atomic_uint stop_signals_n;
    atomic_size_t used_max;
    atomic_uint connections_n;
    struct net_counters counters; /* a copy, by the bell */
    struct loop_timer *timer;
    struct grpc_call *stream; /* /t/stream: as many messages as its peer takes */
    size_t sent_size;
    struct http_exchange *held; /* /hold: answered by the bell */
    size_t page_sent_size; /* /stream: STREAM_SIZE bytes; /endless: as many as its peer takes */
} t;

enum command {
    COMMAND_STOP = 1,
    COMMAND_LOOK = 2,
    COMMAND_DRAIN = 4,
    COMMAND_END_STREAM = 8,
    COMMAND_ANSWER = 16,
};

/* ---- the service, on the loop's thread ---- */

static void pump(struct grpc_call *call)
{
    static uint8_t block[10000];
    while (!grpc_is_full(call)) {
        if (grpc_send(call, bytes_make(block, sizeof block)) != OK) break;
        t.sent_size += sizeof block;
    }
}

static void on_call(void *user, struct grpc_call *call, struct bytes message)
{
    (void)user;
    if (bytes_equal(grpc_path(call), BYTES_LITERAL("/t/stream"))) {
        t.stream = call;
        pump(call);
    } else {
        grpc_answer(call, message);
    }
}

static void on_oversize(void *user, const struct grpc_call *call, uint64_t size, struct bytes start)
{
    (void)user;
    (void)call;
    (void)size;
    (void)start;
}

static void on_writable(void *user, struct grpc_call *call)
{
    (void)user;
    t.writable_n++;
    if (!t.is_lazy) pump(call);
}

static void on_closed(void *user, struct grpc_call *call)
{
    (void)user;
    if (t.stream == call) t.stream = NULL;
    grpc_finish(call, GRPC_CANCELLED, NULL);
}

/* The user of an exchange that has begun is its size. */
static void pump_page(struct http_exchange *e)
{
    static uint8_t block[10000];
    size_t size = (size_t)(uintptr_t)http_user(e);
    while (t.page_sent_size < size && !http_is_full(e)) {
        size_t n = size - t.page_sent_size < sizeof block ? size - t.page_sent_size : sizeof block;
        if (http_send(e, bytes_make(block, n)) != OK) return;
        t.page_sent_size += n;
    }
    if (t.page_sent_size == size) http_finish(e, true);
}

static void begin_page(struct http_exchange *e, size_t size)
{
    http_set_user(e, (void *)(uintptr_t)size);
    http_begin(e, 200, "text/plain");
    pump_page(e);
}

static void on_page_writable(void *user, struct http_exchange *e)
{
    (void)user;
    pump_page(e);
}

static void on_page(void *user, struct http_exchange *e)
{
    static const uint8_t zeros[HUGE_SIZE];
    struct bytes body = BYTES_LITERAL("page\n");
    (void)user;
    t.page_bytes_out = loop_counters(t.loop)->bytes_out;
    t.is_page_new = true;
    if (bytes_equal(http_path(e), BYTES_LITERAL("/large"))) body = bytes_make(zeros, LARGE_SIZE);
    if (bytes_equal(http_path(e), BYTES_LITERAL("/huge"))) body = bytes_make(zeros, HUGE_SIZE);
    if (bytes_equal(http_path(e), BYTES_LITERAL("/stream")))
        begin_page(e, STREAM_SIZE);
    else if (bytes_equal(http_path(e), BYTES_LITERAL("/endless")))
        begin_page(e, SIZE_MAX);
    else if (bytes_equal(http_path(e), BYTES_LITERAL("/hold")))
        t.held = e;
    else
        http_answer(e, 200, "text/plain", body);
}

static void on_page_closed(void *user, struct http_exchange *e)
{
    (void)user;
    if (t.held == e) t.held = NULL;
    if (http_user(e) != NULL)
        http_finish(e, false);
    else
        http_answer(e, 200, "", BYTES_NONE);
}

static void on_drained(void *user)
{
    (void)user;
    t.drained_n++;
}

static void on_bell(void *user)
{
    (void)user;
    unsigned commands = atomic_exchange(&t.commands, 0);
    if (commands & COMMAND_END_STREAM && t.stream != NULL) {
        grpc_finish(t.stream, GRPC_OK, NULL);
        t.stream = NULL;
    }
    if (commands & COMMAND_ANSWER && t.held != NULL) {
        http_answer(t.held, 200, "text/plain", BYTES_LITERAL("held\n"));
        t.held = NULL;
    }
    if (commands & COMMAND_DRAIN) loop_drain(t.loop, on_drained);
    if (commands & COMMAND_STOP) loop_stop(t.loop);
    t.counters = *loop_counters(t.loop);
    t.connections_n = loop_connections_n(t.loop);
    t.used_max = t.mem.used_max;
    t.bells_n++;
}

static void on_turned(void *user)
{
    (void)user;
    t.writable_turned_n = t.writable_n;
    if (t.is_page_new) t.turned_bytes_out = loop_counters(t.loop)->bytes_out;
    t.is_page_new = false;
}

static void on_stop_signal(void *user, int number, unsigned count)
{
    (void)user;
    EXPECT_EQ(SIGTERM, number);
    t.stop_signals_n = count;
}

/* ---- starting and stopping ---- */

static void *run(void *user)
{
    loop_run(user);
    return NULL;
}

static void settle_ms(long ms)
{
    const struct timespec pause = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&pause, NULL);
}

static void ring(unsigned commands)
{
    unsigned before = t.bells_n;
    atomic_fetch_or(&t.commands, commands);
    loop_ring(t.loop);
    for (int i = 0; i < WAIT_MS && t.bells_n == before; i++) settle_ms(1);
    EXPECT(t.bells_n != before);
}

#define EXPECT_SOON(condition)                                                                     \
    do {                                                                                           \
        for (int soon_ms = 0; soon_ms < WAIT_MS && !(ring(0), (condition)); soon_ms += 5)          \
            settle_ms(5);                                                                          \
        EXPECT(condition);                                                                         \
    } while (0)

static void init(void)
{
    memset(&t, 0, sizeof t);
    mem_init(&t.mem, SIZE_MAX);
    conn_limits_init(&t.limits);
}

static void start(uint32_t connections_n_max)
{
    static const struct grpc_service grpc = {
        .call = on_call, .oversize = on_oversize, .writable = on_writable, .closed = on_closed};
    static const struct http_service http = {
        .request = on_page, .writable = on_page_writable, .closed = on_page_closed};
    const struct loop_options options = {.mem = &t.mem,
                                         .limits = &t.limits,
                                         .grpc = &grpc,
                                         .http = &http,
                                         .connections_n_max = connections_n_max,
                                         .bell = on_bell,
                                         .turned = on_turned,
                                         .stop_signal = on_stop_signal};
    char text[200] = "";
    EXPECT_STATUS(OK, loop_new(&options, &t.loop));
    EXPECT_STATUS(OK, loop_listen(t.loop, "127.0.0.1:0", text));
    const char *colon = strrchr(loop_address(t.loop), ':');
    t.port = (uint16_t)strtoul(colon + 1, NULL, 10);
    EXPECT(t.port != 0);
    EXPECT_EQ(0, pthread_create(&t.thread, NULL, run, t.loop));
}

static void stop(void)
{
    ring(COMMAND_STOP);
    EXPECT_EQ(0, pthread_join(t.thread, NULL));
    loop_timer_free(t.timer);
    loop_free(t.loop);
    EXPECT_EQ(0, t.mem.used);
    mem_release(&t.mem);
}

/* ---- clients ---- */

static int dial(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(t.port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT(fd >= 0);
    EXPECT_EQ(0, connect(fd, (struct sockaddr *)&address, sizeof address));
    return fd;
}

static void send_all(int fd, struct bytes bytes)
{
    while (bytes.len > 0) {
        ssize_t n = send(fd, bytes.ptr, bytes.len, MSG_NOSIGNAL);
        EXPECT(n > 0);
        bytes = bytes_make(bytes.ptr + n, bytes.len - (size_t)n);
    }
}

/* The next bytes; 0 at the end of the connection. */
static size_t receive(int fd, void *to, size_t size)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    EXPECT_EQ(1, poll(&p, 1, WAIT_MS));
    ssize_t n = recv(fd, to, size, 0);
    return n < 0 ? 0 : (size_t)n;
}

static size_t receive_all(int fd)
{
    static uint8_t block[65536];
    size_t size = 0;
    size_t n;
    while ((n = receive(fd, block, sizeof block)) > 0) size += n;
    return size;
}

static void expect_page(int fd)
{
    char text[1000];
    size_t n = 0;
    send_all(fd, BYTES_LITERAL("GET / HTTP/1.1\r\nHost: x\r\n\r\n"));
    while (n < 5 || memcmp(text + n - 5, "page\n", 5) != 0) {
        size_t more = receive(fd, text + n, sizeof text - n);
        EXPECT(more > 0);
        n += more;
    }
}

/* ---- tests ---- */

TEST(pages_are_served)
{
    init();
    start(10);
    int fd = dial();
    for (int i = 0; i < 100; i++) expect_page(fd);
    close(fd);
    EXPECT_SOON(t.connections_n == 0);
    EXPECT_EQ(100, t.counters.pages);
    EXPECT_EQ(1, t.counters.connections);
    stop();
}

/* A client that ends its side has asked all it wants, and still gets every byte of the answers:
 * more than the kernel takes at once, those that are made later, and then the end. */
TEST(a_half_closed_client_gets_its_answers)
{
    static const char requests[] = "GET /huge HTTP/1.1\r\nHost: x\r\n\r\n"
                                   "GET /hold HTTP/1.1\r\nHost: x\r\n\r\n";
    static char text[65536];
    init();
    start(10);
    int fd = dial();
    send_all(fd, BYTES_LITERAL(requests));
    EXPECT_EQ(0, shutdown(fd, SHUT_WR));
    size_t size = 0;
    while (size < HUGE_SIZE) {
        size_t more = receive(fd, text, sizeof text);
        EXPECT(more > 0);
        size += more;
    }
    EXPECT_SOON(t.held != NULL);
    EXPECT_EQ(1, t.connections_n);
    ring(COMMAND_ANSWER);
    size = 0;
    size_t n;
    while ((n = receive(fd, text + size, sizeof text - 1 - size)) > 0) size += n;
    text[size] = 0;
    EXPECT(strstr(text, "\r\n\r\nheld\n") != NULL);
    EXPECT_SOON(t.connections_n == 0);
    close(fd);
    stop();
}

TEST(a_half_closed_client_without_a_request_is_closed)
{
    init();
    start(10);
    int fd = dial();
    EXPECT_EQ(0, shutdown(fd, SHUT_WR));
    EXPECT_EQ(0, receive_all(fd));
    close(fd);
    fd = dial();
    expect_page(fd);
    EXPECT_EQ(0, shutdown(fd, SHUT_WR));
    EXPECT_EQ(0, receive_all(fd));
    close(fd);
    EXPECT_SOON(t.connections_n == 0);
    stop();
}

/* Gone for good looks the same at first: the next bytes for it tell. */
TEST(a_client_that_is_gone_during_a_stream_is_closed)
{
    init();
    start(10);
    int fd = dial();
    send_all(fd, BYTES_LITERAL("GET /endless HTTP/1.1\r\nHost: x\r\n\r\n"));
    char byte;
    EXPECT_EQ(1, receive(fd, &byte, 1));
    close(fd);
    EXPECT_SOON(t.connections_n == 0);
    stop();
}

/* The end of a turn is told before anything is written: others can begin meanwhile. */
TEST(a_turn_is_told_before_the_answers_leave)
{
    init();
    start(10);
    int fd = dial();
    for (int i = 0; i < 20; i++) {
        expect_page(fd);
        ring(COMMAND_LOOK);
        EXPECT(!t.is_page_new);
        EXPECT_EQ(t.page_bytes_out, t.turned_bytes_out);
    }
    close(fd);
    EXPECT_SOON(t.connections_n == 0);
    stop();
}

TEST(a_large_answer_is_whole)
{
    init();
    start(10);
    int fd = dial();
    send_all(fd, BYTES_LITERAL("GET /large HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
    settle_ms(50); /* the kernel's buffers are full by now */
    EXPECT(receive_all(fd) > 2 * 1024 * 1024);
    close(fd);
    stop();
}

/* Beyond the limit they are accepted and closed; those inside are not disturbed. */
TEST(too_many_connections_are_refused)
{
    char byte;
    init();
    start(2);
    int first = dial();
    expect_page(first);
    int second = dial();
    expect_page(second);
    int third = dial();
    EXPECT_EQ(0, receive(third, &byte, 1));
    expect_page(first);
    EXPECT_SOON(t.counters.connections_refused == 1);
    close(third);
    close(second);
    EXPECT_SOON(t.connections_n == 1);
    third = dial();
    expect_page(third);
    close(third);
    close(first);
    stop();
}

/* Our last words arrive though the peer is still sending. */
TEST(a_refusal_is_read_by_who_still_sends)
{
    static uint8_t block[200 * 1024];
    char text[20] = "";
    init();
    start(10);
    int fd = dial();
    send_all(fd, BYTES_LITERAL("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n"));
    send_all(fd, bytes_make(block, sizeof block));
    EXPECT_EQ(12, receive(fd, text, 12));
    EXPECT_TEXT("HTTP/1.1 413", text);
    close(fd);
    stop();
}

/* Nor is it cut off: the connection ends in order, and what it still sends is taken for a moment.
 * After that moment it is closed, whether the peer has ended its side or not. */
TEST(who_still_sends_is_not_reset)
{
    static uint8_t block[64 * 1024];
    char text[1000];
    size_t n = 0;
    ssize_t more;
    init();
    start(10);
    int fd = dial();
    send_all(fd, BYTES_LITERAL("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n"));
    while ((more = recv(fd, text + n, sizeof text - n, 0)) > 0) n += (size_t)more;
    EXPECT_EQ(0, more); /* the end, not an error */
    for (int i = 0; i < 3; i++) {
        EXPECT_EQ(sizeof block, send(fd, block, sizeof block, MSG_NOSIGNAL));
        settle_ms(20); /* a reset would have come by now */
    }
    EXPECT_EQ(0, recv(fd, text, sizeof text, 0));
    EXPECT_SOON(t.connections_n == 0);
    close(fd);
    stop();
}

/* Slowloris: hundreds that dribble do not keep others out, and are gone after the time-out. */
TEST(slow_requests_are_closed)
{
    int fds[300];
    init();
    t.limits.header_ms = 300;
    start(400);
    for (int i = 0; i < 300; i++) {
        fds[i] = dial();
        send_all(fds[i], BYTES_LITERAL("GET / HTTP/1.1\r\nHost: x\r\n"));
    }
    int honest = dial();
    expect_page(honest);
    EXPECT_SOON(t.counters.slow_request == 300);
    EXPECT_SOON(t.connections_n == 1);
    expect_page(honest);
    for (int i = 0; i < 300; i++) close(fds[i]);
    close(honest);
    stop();
}

/* Thousands that say nothing: little memory each, others are served, then they are closed. */
TEST(idle_sockets_cost_little)
{
    struct rlimit limit;
    static int fds[10000];
    EXPECT_EQ(0, getrlimit(RLIMIT_NOFILE, &limit));
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    size_t n = limit.rlim_cur > 21000 ? 10000 : (size_t)(limit.rlim_cur - 200) / 2;
    init();
    t.limits.preface_ms = 8000;
    start(20000);
    for (size_t i = 0; i < n; i++) fds[i] = dial();
    EXPECT_SOON(t.connections_n == n);
    EXPECT(t.used_max < n * 2048 + 1024 * 1024);
    int honest = dial();
    expect_page(honest);
    EXPECT_SOON(t.counters.slow_request == n);
    expect_page(honest);
    for (size_t i = 0; i < n; i++) close(fds[i]);
    close(honest);
    stop();
}

/* No descriptor left: newcomers are closed, and later ones are served again. */
TEST(out_of_descriptors)
{
    struct rlimit limit;
    static int fds[200];
    int n = 0;
    init();
    start(1000);
    int first = dial();
    expect_page(first);
    EXPECT_EQ(0, getrlimit(RLIMIT_NOFILE, &limit));
    rlim_t before = limit.rlim_cur;
    /* Both ends are in this process: the client's take the last ones first. */
    int highest = dup(first);
    close(highest);
    limit.rlim_cur = (rlim_t)highest + 21;
    EXPECT_EQ(0, setrlimit(RLIMIT_NOFILE, &limit));
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(t.port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    while (n < 200) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0) break;
        EXPECT_EQ(0, connect(fd, (struct sockaddr *)&address, sizeof address));
        fds[n++] = fd;
        settle_ms(5);
    }
    EXPECT(n < 200);
    char byte;
    EXPECT_EQ(0, receive(fds[n - 1], &byte, 1)); /* closed at once, not left in the queue */
    expect_page(first);
    for (int i = 0; i < n; i++) close(fds[i]);
    limit.rlim_cur = before;
    EXPECT_EQ(0, setrlimit(RLIMIT_NOFILE, &limit));
    EXPECT_SOON(t.connections_n == 1);
    int again = dial();
    expect_page(again);
    close(again);
    close(first);
    stop();
}

static int dial_stream(void)
{
    struct buffer b;
    buffer_init(&b, mem_process());
    put_greeting(&b);
    put_settings_ack(&b);
    put_frame_u32(&b, NGHTTP2_WINDOW_UPDATE, 0, 0x7fff0000);
    put_request(&b, 1, "/t/stream", "x");
    put_frame_u32(&b, NGHTTP2_WINDOW_UPDATE, 1, 0x7fff0000);
    int fd = dial();
    send_all(fd, buffer_view(&b));
    buffer_release(&b);
    return fd;
}

/* What a handler does while the loop writes is followed by the end of a turn as well, before the
 * loop waits: nothing else comes here that could make up for it. */
TEST(a_turn_is_told_before_the_loop_waits)
{
    init();
    t.is_lazy = true;
    start(10);
    int fd = dial_stream();
    for (int ms = 0; ms < WAIT_MS && t.writable_n == 0; ms++) settle_ms(1);
    settle_ms(50);
    EXPECT(t.writable_n > 0);
    EXPECT_EQ(t.writable_n, t.writable_turned_n);
    close(fd);
    stop();
}

/* A reader that never reads: what waits for it is bounded, and it is closed in the end. */
TEST(a_peer_that_does_not_read_is_closed)
{
    init();
    t.limits.stall_ms = 500;
    start(10);
    int fd = dial_stream();
    int honest = dial();
    EXPECT_SOON(t.counters.calls == 1);
    expect_page(honest);
    EXPECT_SOON(t.counters.stalled == 1);
    EXPECT(t.used_max < 4 * 1024 * 1024);
    EXPECT_SOON(t.connections_n == 1);
    expect_page(honest);
    close(honest);
    close(fd);
    stop();
}

/* A reader that is slow, but reads: it is not cut, and what it reads is whole frames. */
TEST(a_slow_reader_is_not_cut)
{
    static uint8_t block[256 * 1024];
    init();
    t.limits.stall_ms = 500;
    start(10);
    int fd = dial_stream();
    for (int i = 0; i < 30; i++) {
        EXPECT(receive(fd, block, sizeof block) > 0);
        settle_ms(50);
    }
    ring(0);
    EXPECT_EQ(0, t.counters.stalled);
    EXPECT(t.used_max < 4 * 1024 * 1024);
    close(fd);
    stop();
}

/* One large answer that is written for longer than the time for a stall, but is read all the time:
 * the part that has left counts, not only the whole. */
TEST(a_large_answer_to_a_slow_reader_is_whole)
{
    static uint8_t block[512 * 1024];
    size_t size = 0;
    size_t n;
    init();
    t.limits.stall_ms = 500;
    start(10);
    int fd = dial();
    send_all(fd, BYTES_LITERAL("GET /huge HTTP/1.1\r\nHost: x\r\n\r\n"));
    while (size < HUGE_SIZE && (n = receive(fd, block, sizeof block)) > 0) {
        size += n;
        settle_ms(15);
    }
    EXPECT(size >= HUGE_SIZE);
    ring(0);
    EXPECT_EQ(0, t.counters.stalled);
    close(fd);
    stop();
}

/* A body that is made as it goes: what waits for its reader is bounded, and it is whole. It
 * has a date. */
TEST(a_streamed_page_to_a_slow_reader_is_whole)
{
    static uint8_t block[256 * 1024];
    char head[400];
    size_t size = 0;
    size_t n = 0;
    init();
    t.limits.stall_ms = 5000; /* a busy machine must not be taken for a stalled reader */
    start(10);
    int fd = dial();
    send_all(fd, BYTES_LITERAL("GET /stream HTTP/1.0\r\n\r\n"));
    while (n < sizeof head - 1) {
        size_t more = receive(fd, head + n, sizeof head - 1 - n);
        EXPECT(more > 0);
        n += more;
    }
    head[n] = 0;
    const char *end = strstr(head, "\r\n\r\n");
    EXPECT(end != NULL);
    EXPECT(strstr(head, " GMT\r\n") != NULL);
    size = n - (size_t)(end + 4 - head);
    while ((n = receive(fd, block, sizeof block)) > 0) {
        size += n;
        settle_ms(10);
    }
    EXPECT_EQ(STREAM_SIZE, size);
    ring(0);
    EXPECT_EQ(0, t.counters.stalled);
    EXPECT(t.used_max < 4 * 1024 * 1024);
    close(fd);
    stop();
}

/* A reader of a stream that stops: what waits for it is bounded, and it is closed in the end. One
 * that has nothing to read may be silent for longer than an idle connection. */
TEST(a_reader_of_a_page_that_stops_is_closed)
{
    init();
    t.limits.stall_ms = 500;
    t.limits.idle_ms = 100;
    start(10);
    int fd = dial();
    send_all(fd, BYTES_LITERAL("GET /endless HTTP/1.1\r\nHost: x\r\n\r\n"));
    EXPECT_SOON(t.counters.pages == 1);
    EXPECT_SOON(t.counters.stalled == 1);
    EXPECT_EQ(0, t.counters.idle_closed);
    EXPECT(t.used_max < 4 * 1024 * 1024);
    EXPECT_SOON(t.connections_n == 0);
    close(fd);
    stop();
}

/* A drain tells who is connected, waits for the calls, and says when the last one is gone. */
TEST(a_drain_ends_with_the_last_call)
{
    init();
    start(10);
    int fd = dial_stream();
    int idle = dial();
    expect_page(idle);
    EXPECT_SOON(t.counters.calls == 1);
    ring(COMMAND_DRAIN);
    EXPECT_EQ(0, receive_all(idle));
    EXPECT_EQ(0, t.drained_n);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(t.port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int late = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(-1, connect(late, (struct sockaddr *)&address, sizeof address));
    close(late);
    ring(COMMAND_END_STREAM);
    EXPECT(receive_all(fd) > 256 * 1024);
    close(fd);
    close(idle);
    EXPECT_SOON(t.drained_n == 1);
    stop();
}

static void on_tick(void *user)
{
    (void)user;
    if (++t.ticks_n < 5) loop_timer_set(t.timer, 20);
}

TEST(a_timer_calls_once_for_each_setting)
{
    init();
    start(10);
    ring(COMMAND_STOP);
    EXPECT_EQ(0, pthread_join(t.thread, NULL));
    EXPECT_STATUS(OK, loop_timer_new(t.loop, on_tick, NULL, &t.timer));
    struct loop_timer *other = NULL;
    EXPECT_STATUS(OK, loop_timer_new(t.loop, on_tick, NULL, &other));
    loop_timer_set(other, 10);
    loop_timer_clear(other);
    int64_t before_ns = clock_mono_ns();
    loop_timer_set(t.timer, 20);
    EXPECT_EQ(0, pthread_create(&t.thread, NULL, run, t.loop));
    EXPECT_SOON(t.ticks_n == 5);
    EXPECT(clock_mono_ns() - before_ns >= 100 * NS_PER_MS);
    settle_ms(50);
    EXPECT_EQ(5, t.ticks_n);
    ring(COMMAND_STOP);
    EXPECT_EQ(0, pthread_join(t.thread, NULL));
    loop_timer_free(other);
    EXPECT_EQ(0, pthread_create(&t.thread, NULL, run, t.loop));
    stop();
}

TEST(signals_are_counted)
{
    init();
    start(10);
    EXPECT_EQ(0, kill(getpid(), SIGTERM));
    EXPECT_SOON(t.stop_signals_n == 1);
    EXPECT_EQ(0, kill(getpid(), SIGTERM));
    EXPECT_SOON(t.stop_signals_n == 2);
    stop();
}

/* Two cannot have the same address, and the sentence says which. */
TEST(an_address_in_use_is_told)
{
    char address[100];
    char text[200] = "";
    struct loop *other = NULL;
    struct mem mem;
    init();
    start(10);
    mem_init(&mem, SIZE_MAX);
    const struct loop_options options = {.mem = &mem, .limits = &t.limits};
    EXPECT_STATUS(OK, loop_new(&options, &other));
    EXPECT_TEXT("", loop_address(other));
    snprintf(address, sizeof address, "%s", loop_address(t.loop));
    EXPECT_STATUS(E_BUSY, loop_listen(other, address, text));
    EXPECT(strstr(text, address) != NULL);
    EXPECT_STATUS(E_INVALID, loop_listen(other, "nowhere", text));
    EXPECT_STATUS(OK, loop_listen(other, "localhost:0", text));
    loop_free(other);
    mem_release(&mem);
    stop();
}
