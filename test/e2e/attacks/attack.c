/* SPDX-License-Identifier: Apache-2.0
 *
 * See attack.h. The healthy client is a thread with a plain socket: one call after the other, a
 * short pause between them, each to the engine and back.
 */
#include "test/e2e/attacks/attack.h"

#include "base/clock.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SAMPLES_N_MAX 100000
#define USUAL_MS 300
#define PAUSE_NS (500 * 1000)
#define ANSWER_MS 15000 /* when a call counts as not answered */
#define MIB (1024.0 * 1024.0)
#define P99_MS_MAX (IS_SANITIZED ? 2000 : 500)
#define RSS_MAX ((IS_SANITIZED ? 96 : 16) * INT64_C(1048576))
#define SLOWNESS (IS_SANITIZED ? 20 : 1) /* of a sanitized server, in CPU time */

static struct {
    char name[64];
    pthread_t thread;
    bool is_running;
    atomic_bool is_stopping;
    atomic_int problem; /* line of this file; 0 = none */
    int fd;
    struct buffer request; /* HEADERS and DATA; the thread sets their stream */
    int64_t samples[SAMPLES_N_MAX];
    atomic_size_t samples_n;
    double usual_ms;
    int64_t cpu_ns;
    int64_t rss;
} a;

/* ---- the healthy client ---- */

static bool receive_all(int fd, uint8_t *to, size_t size)
{
    struct pollfd wait = {.fd = fd, .events = POLLIN};

    while (size > 0) {
        if (poll(&wait, 1, ANSWER_MS) != 1) return false;
        ssize_t n = recv(fd, to, size, 0);
        if (n <= 0) return false;
        to += n;
        size -= (size_t)n;
    }
    return true;
}

/* Reads frames until the stream is ended with trailers. */
static bool await_answer(int fd, uint32_t stream)
{
    uint8_t head[9];
    uint8_t payload[16384];

    for (;;) {
        if (!receive_all(fd, head, sizeof head)) return false;
        size_t size = (size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2];
        if (size > sizeof payload || !receive_all(fd, payload, size)) return false;
        uint32_t id =
            (uint32_t)head[5] << 24 | (uint32_t)head[6] << 16 | (uint32_t)head[7] << 8 | head[8];
        if (head[3] == NGHTTP2_GOAWAY) return false;
        if (id != stream) continue;
        if (head[3] == NGHTTP2_RST_STREAM) return false;
        if (head[4] & END_STREAM) return head[3] == NGHTTP2_HEADERS;
    }
}

static void set_stream(uint8_t *frame, uint32_t stream)
{
    for (int i = 0; i < 4; i++) frame[5 + i] = (uint8_t)(stream >> (24 - 8 * i));
}

static int ask_once(uint32_t stream)
{
    size_t head_size = 9 + ((size_t)a.request.ptr[1] << 8 | a.request.ptr[2]);
    int64_t begun_ns = clock_mono_ns();

    set_stream(a.request.ptr, stream);
    set_stream(a.request.ptr + head_size, stream);
    if (send(a.fd, a.request.ptr, a.request.len, MSG_NOSIGNAL) != (ssize_t)a.request.len)
        return __LINE__;
    if (!await_answer(a.fd, stream)) return __LINE__;
    size_t n = a.samples_n;
    if (n < SAMPLES_N_MAX) {
        a.samples[n] = clock_mono_ns() - begun_ns;
        a.samples_n = n + 1;
    }
    return 0;
}

static void *ask(void *user)
{
    const struct timespec pause = {0, PAUSE_NS};

    for (uint32_t stream = 1; !a.is_stopping && a.problem == 0; stream += 2) {
        a.problem = ask_once(stream);
        nanosleep(&pause, NULL);
    }
    return user;
}

static void start_healthy(void)
{
    struct buffer b;

    a.is_stopping = false;
    a.problem = 0;
    a.samples_n = 0;
    a.fd = target_dial(0);
    buffer_init(&b, mem_process());
    put_greeting(&b);
    put_settings_ack(&b);
    put_frame_u32(&b, NGHTTP2_WINDOW_UPDATE, 0, 0x7fff0000);
    EXPECT_EQ(b.len, send(a.fd, b.ptr, b.len, MSG_NOSIGNAL));
    buffer_release(&b);
    buffer_init(&a.request, mem_process());
    put_request(&a.request, 1, SERVICE "GetInstance", "\x0a\x06nobody");
    EXPECT_EQ(0, pthread_create(&a.thread, NULL, ask, NULL));
    a.is_running = true;
}

static void stop_healthy(void)
{
    if (!a.is_running) return;
    a.is_stopping = true;
    EXPECT_EQ(0, pthread_join(a.thread, NULL));
    a.is_running = false;
    buffer_release(&a.request);
    close(a.fd);
}

static int compare(const void *x, const void *y)
{
    int64_t l = *(const int64_t *)x;
    int64_t r = *(const int64_t *)y;

    return (l > r) - (l < r);
}

static double quantile_ms(double q)
{
    size_t n = a.samples_n;

    EXPECT(n > 0);
    qsort(a.samples, n, sizeof a.samples[0], compare);
    size_t at = (size_t)(q * (double)n);
    return (double)a.samples[at < n ? at : n - 1] / (double)NS_PER_MS;
}

static void wait_ms(long ms)
{
    const struct timespec pause = {ms / 1000, ms % 1000 * NS_PER_MS};

    nanosleep(&pause, NULL);
}

/* ---- the attack ---- */

void attack_begin(const char *name, const char *const *extra)
{
    stop_healthy(); /* of a test that failed */
    (void)snprintf(a.name, sizeof a.name, "%s", name);
    test_note("%s", name);
    target_start(extra);
    start_healthy();
    wait_ms(USUAL_MS);
    stop_healthy();
    EXPECT_EQ(0, a.problem);
    a.usual_ms = quantile_ms(0.99);
    start_healthy();
    attack_begin_again();
}

void attack_begin_again(void)
{
    a.cpu_ns = target_cpu_ns();
    a.rss = target_rss();
}

void attack_start_large(void)
{
    static uint8_t message[1024 * 1024];
    struct buffer b;
    struct peer p;

    memset(message, 'x', sizeof message);
    buffer_init(&b, mem_process());
    buffer_append_bytes(&b, BYTES_LITERAL("\x0a\x01i\x12\x01n\x22"));
    buffer_varint(&b, sizeof message);
    buffer_u8(&b, 0x0a);
    buffer_varint(&b, sizeof message - 4);
    buffer_append(&b, message, sizeof message - 4);
    peer_greet(&p, 0);
    EXPECT_EQ(0, peer_call(&p, "StartInstance", buffer_view(&b)));
    peer_close(&p);
    buffer_release(&b);
}

void attack_measure(uint64_t frames_n, struct attack_bounds bounds)
{
    int64_t cpu_ns = target_cpu_ns() - a.cpu_ns;
    int64_t rss = target_rss() - a.rss;

    /* An attack may be over sooner than one call of the healthy client. */
    for (int i = 0; i < ANSWER_MS && a.samples_n < 20 && a.problem == 0; i++) wait_ms(1);
    stop_healthy();
    if (a.problem != 0)
        test_fail(__FILE__, a.problem, "%s: the healthy client was disturbed", a.name);
    double p99_ms = quantile_ms(0.99);
    double worst_ms = quantile_ms(1);
    printf("# %s: %llu frames, cpu %.2f s, rss %+.1f MiB, p99 %.2f -> %.2f ms, worst %.1f ms\n",
           a.name, (unsigned long long)frames_n, (double)cpu_ns / (double)NS_PER_S,
           (double)rss / MIB, a.usual_ms, p99_ms, worst_ms);
    (void)fflush(stdout);
    int64_t rss_max = bounds.rss_max > 0 ? bounds.rss_max : RSS_MAX;
    int64_t cpu_max = bounds.cpu_ns_max;
    if (cpu_max == 0) cpu_max = (int64_t)(frames_n / 100000 + 1) * NS_PER_S;
    int64_t ms_max = bounds.healthy_ms_worst > 0 ? bounds.healthy_ms_worst : P99_MS_MAX;
    EXPECT(rss < rss_max);
    EXPECT(cpu_ns < cpu_max * SLOWNESS);
    EXPECT(p99_ms < (double)ms_max);
}

void attack_end(void) { target_stop(); }

void expect_cut(struct peer *p, uint32_t code, const char *counter, uint64_t n)
{
    EXPECT(peer_await_end(p, END_MS));
    EXPECT_EQ(1, p->goaways_n);
    EXPECT_EQ(code, p->goaway_code);
    EXPECT_EQ(n, target_counter(counter));
}
