/* SPDX-License-Identifier: Apache-2.0
 *
 * Slowloris: thousands of connections that are never done. All forms at once, since each of them
 * only waits.
 */
#include "test/e2e/attacks/attack.h"

#include "base/clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define SOCKETS_N_MAX 10000
#define FORMS_N 5
#define GONE_MS 16000 /* headers and bodies have 10 s, the greeting 5 s */

static size_t sockets_n(void)
{
    struct rlimit limit;

    EXPECT_EQ(0, getrlimit(RLIMIT_NOFILE, &limit));
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_cur > SOCKETS_N_MAX + 500 ? SOCKETS_N_MAX : (size_t)limit.rlim_cur - 500;
}

/* What each form says before it falls silent, or dribbles. */
static void put_form(struct buffer *b, size_t form)
{
    buffer_clear(b);
    switch (form) {
    case 0: break; /* nothing at all */
    case 1: buffer_append_bytes(b, BYTES_LITERAL("GET / HTTP/1.1\r\nHost: x\r\nX: ")); break;
    case 2: buffer_append(b, NGHTTP2_CLIENT_MAGIC, NGHTTP2_CLIENT_MAGIC_LEN); break;
    case 3:
        put_greeting(b);
        put_settings_ack(b);
        put_head(b, 1, SERVICE "Hello", 0, BYTES_NONE); /* headers that do not end */
        break;
    case 4:
        put_greeting(b);
        put_settings_ack(b);
        put_head(b, 1, SERVICE "StartInstance", END_HEADERS, BYTES_NONE);
        put_frame(b, NGHTTP2_DATA, 0, 1, test_hex("0000100000")); /* a megabyte is promised */
        break;
    }
}

static void put_dribble(struct buffer *b, size_t form)
{
    buffer_clear(b);
    if (form == 1) buffer_u8(b, 'x');
    if (form == 4) put_frame(b, NGHTTP2_DATA, 0, 1, BYTES_LITERAL("x"));
}

TEST(slowloris)
{
    static const char *const words[] = {"--connections-max", "12000", NULL};
    static int fds[SOCKETS_N_MAX];
    struct buffer b;
    size_t n = sockets_n();

    attack_begin("slowloris", words);
    buffer_init(&b, mem_process());
    for (size_t i = 0; i < n; i++) {
        fds[i] = target_dial(0);
        put_form(&b, i % FORMS_N);
        if (b.len > 0) EXPECT_EQ(b.len, send(fds[i], b.ptr, b.len, MSG_NOSIGNAL));
    }
    int64_t begun_ns = clock_mono_ns();
    int64_t full_rss = target_rss();
    printf("# %zu sockets open\n", n);
    /* Some send a byte now and then: that is not enough. */
    while (target_counter("slow_request") < n) {
        if (clock_mono_ns() - begun_ns > GONE_MS * NS_PER_MS)
            test_fail(__FILE__, __LINE__, "%llu of %zu are gone",
                      (unsigned long long)target_counter("slow_request"), n);
        for (size_t i = 0; i < n; i++) {
            put_dribble(&b, i % FORMS_N);
            if (b.len > 0) (void)send(fds[i], b.ptr, b.len, MSG_NOSIGNAL | MSG_DONTWAIT);
        }
        (void)usleep(500000);
    }
    for (size_t i = 0; i < n; i++) close(fds[i]);
    buffer_release(&b);
    /* What a connection holds, and then all of it is given back or used again. */
    attack_measure(
        n * 40, (struct attack_bounds){.rss_max = (int64_t)n * 16 * 1024 * (IS_SANITIZED ? 4 : 1),
                                       .cpu_ns_max = 8 * NS_PER_S});
    EXPECT(full_rss > 0);
    attack_end();
}

/* Megabytes come fast, and then nothing: there is an end to what unfinished requests may hold. */
TEST(unfinished_bodies)
{
    enum { STREAMS_N = 64, SIZE = 8 * 1024 * 1024 };
    struct peer p;
    uint8_t *body = calloc(1, SIZE);
    uint64_t sent_size = 0;

    attack_begin("unfinished bodies", NULL);
    EXPECT(body != NULL);
    body[1] = 0x00;
    body[2] = 0xff; /* almost 16 MiB are promised */
    peer_greet(&p, 0);
    int64_t rss = target_rss();
    int64_t rss_max = 0;
    unsigned refused_n = 0;
    for (int i = 0; i < STREAMS_N && !p.is_over; i++, p.stream += 2) {
        put_head(&p.out, p.stream, SERVICE "StartInstance", END_HEADERS, BYTES_NONE);
        (void)peer_send(&p, SEND_MS);
        if (!peer_send_data(&p, p.stream, bytes_make(body, SIZE), false)) refused_n++;
        sent_size += SIZE;
        int64_t grown = target_rss() - rss;
        if (grown > rss_max) rss_max = grown;
    }
    free(body);
    printf("# %u of %d refused, rss %+.0f MiB at most\n", refused_n, STREAMS_N,
           (double)rss_max / 1048576.0);
    EXPECT(refused_n > 0);
    EXPECT_EQ(refused_n, target_counter("requests_too_large"));
    EXPECT(rss_max < INT64_C(160) * 1048576 * (IS_SANITIZED ? 2 : 1));
    /* That they are cut for their silence is part of slowloris. What they held is given back. */
    peer_close(&p);
    (void)usleep(200000);
    attack_measure(sent_size / 16384, (struct attack_bounds){.cpu_ns_max = 3 * NS_PER_S});
    attack_end();
}
