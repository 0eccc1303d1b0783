/* SPDX-License-Identifier: Apache-2.0
 *
 * Peers that ask for much and read little: CVE-2019-9511 and 9517, over HTTP/2 and over HTTP/1.1.
 */
#include "test/e2e/attacks/attack.h"

#include "base/clock.h"

#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#define INSTANCES_N 10000
#define STARTS_AT_ONCE 500
#define INPUT_SIZE 1000

/* StartInstance of "i-<number>" with an input of about a kilobyte. */
static struct bytes start_message(unsigned number)
{
    static char message[2 * INPUT_SIZE];
    char id[16];
    int id_size = snprintf(id, sizeof id, "i-%u", number);
    int n = snprintf(message, sizeof message, "\x0a%c%s\x12\x04test\x22%c%c\x0a%c%c", id_size, id,
                     (char)((INPUT_SIZE + 3) % 128 | 128), (INPUT_SIZE + 3) / 128,
                     (char)(INPUT_SIZE % 128 | 128), INPUT_SIZE / 128);

    memset(message + n, 'x', INPUT_SIZE);
    return bytes_make(message, (size_t)n + INPUT_SIZE);
}

static void start_many(void)
{
    struct peer p;
    unsigned number = 0;

    peer_greet(&p, 0);
    while (number < INSTANCES_N) {
        unsigned before_n = p.ends_n;
        for (int i = 0; i < STARTS_AT_ONCE; i++, number++)
            (void)peer_put_call(&p, "StartInstance", start_message(number));
        put_frame_u32(&p.out, NGHTTP2_WINDOW_UPDATE, 0, 65535);
        EXPECT(peer_send(&p, SEND_MS));
        while (p.ends_n - before_n < STARTS_AT_ONCE) EXPECT(peer_read(&p, SEND_MS));
        EXPECT_EQ(0, p.grpc_status);
    }
    peer_close(&p);
}

/* Ten thousand work items wait for a worker whose window lets one byte pass at a time. What is
 * queued for it is bounded, whatever waits behind. */
TEST(data_dribble_with_10000_work_items)
{
    struct peer p;
    uint64_t frames_n = 0;

    attack_begin("data dribble", NULL);
    start_many();
    attack_begin_again();
    peer_open(&p, 0);
    buffer_append(&p.out, NGHTTP2_CLIENT_MAGIC, NGHTTP2_CLIENT_MAGIC_LEN);
    put_frame(&p.out, NGHTTP2_SETTINGS, 0, 0, test_hex("000400000001")); /* initial window: 1 */
    put_settings_ack(&p.out);
    uint32_t stream = peer_put_call(&p, "GetWorkItems", BYTES_NONE);
    EXPECT(peer_send(&p, SEND_MS));
    while (p.data_size == 0) EXPECT(peer_read(&p, END_MS));
    for (; frames_n < 20000; frames_n += 100) {
        for (int i = 0; i < 100; i++) put_frame_u32(&p.out, NGHTTP2_WINDOW_UPDATE, stream, 1);
        EXPECT(peer_send(&p, SEND_MS));
        (void)peer_read(&p, 10);
    }
    uint64_t queued_max = 4 * 1024 * 1024;
    EXPECT(p.data_size > 1000);
    EXPECT(p.data_size <= 20001);
    attack_measure(
        frames_n + p.data_frames_n,
        (struct attack_bounds){.rss_max = (int64_t)(IS_SANITIZED ? 20 : 4) * (int64_t)queued_max});
    /* An honest worker beside it is served. */
    struct peer honest;
    peer_greet(&honest, 0);
    put_frame_u32(&honest.out, NGHTTP2_WINDOW_UPDATE, 0, 0x7fff0000);
    (void)peer_put_call(&honest, "GetWorkItems", BYTES_NONE);
    EXPECT(peer_send(&honest, SEND_MS));
    while (honest.data_size < 1000) EXPECT(peer_read(&honest, END_MS));
    peer_close(&honest);
    peer_close(&p);
    attack_end();
}

/* Windows are open, but the socket is not read: the kernel's buffers fill. */
TEST(a_worker_that_does_not_read)
{
    struct peer p;

    attack_begin("worker does not read", NULL);
    start_many();
    attack_begin_again();
    peer_open(&p, 4096);
    p.is_reading = false;
    buffer_append(&p.out, NGHTTP2_CLIENT_MAGIC, NGHTTP2_CLIENT_MAGIC_LEN);
    put_frame(&p.out, NGHTTP2_SETTINGS, 0, 0, test_hex("00047fff0000"));
    put_settings_ack(&p.out);
    put_frame_u32(&p.out, NGHTTP2_WINDOW_UPDATE, 0, 0x7fff0000);
    (void)peer_put_call(&p, "GetWorkItems", BYTES_NONE);
    EXPECT(peer_send(&p, SEND_MS));
    (void)usleep(1500000);
    attack_measure(10, (struct attack_bounds){.cpu_ns_max = NS_PER_S});
    peer_close(&p);
    attack_end();
}

/* Pages of ten kilobytes are asked for in forty bytes, and never read. */
TEST(pages_that_nobody_reads)
{
    static const char request[] = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\n"
                                  "Host: x\r\n\r\n";
    struct peer p;
    uint64_t sent_n = 0;

    attack_begin("pages unread", NULL);
    peer_open(&p, 4096);
    p.is_reading = false;
    for (bool is_open = true; is_open && sent_n < 2000000; sent_n += 1000) {
        for (int i = 0; i < 1000; i++) buffer_append(&p.out, request, sizeof request - 1);
        is_open = peer_send(&p, 1500);
    }
    /* All but the first are in the kernel's buffers: the server stopped reading. */
    EXPECT(sent_n < 2000000);
    uint64_t read_size = target_counter("received_bytes");
    EXPECT(read_size < 4 * 1024 * 1024);
    EXPECT(target_counter("pages") < 5000);
    attack_measure(sent_n * 2, (struct attack_bounds){.cpu_ns_max = 2 * NS_PER_S});
    peer_close(&p);
    attack_end();
}

/* Answers that are much larger than their requests, asked for all at once and not taken: 128 MiB of
 * them are kept. The healthy client waits behind them in the engine, for as long as it takes to
 * make them. */
TEST(answers_that_nobody_takes)
{
    enum { CALLS_N = 300 };
    struct peer p;

    attack_begin("answers not taken", NULL);
    attack_start_large();
    attack_begin_again();
    peer_open(&p, 0);
    buffer_append(&p.out, NGHTTP2_CLIENT_MAGIC, NGHTTP2_CLIENT_MAGIC_LEN);
    put_frame(&p.out, NGHTTP2_SETTINGS, 0, 0, test_hex("000400000000")); /* no window at all */
    put_settings_ack(&p.out);
    for (int i = 0; i < CALLS_N; i++)
        (void)peer_put_call(&p, "GetInstance", BYTES_LITERAL("\x0a\x01i\x10\x01"));
    EXPECT(peer_send(&p, SEND_MS));
    int64_t end_ns = clock_mono_ns() + 2 * NS_PER_S;
    while (clock_mono_ns() < end_ns) (void)peer_read(&p, 100);
    EXPECT(target_counter("answers_too_large") > 100);
    attack_measure(CALLS_N * 2, (struct attack_bounds){.healthy_ms_worst = 14000,
                                                       .cpu_ns_max = 3 * NS_PER_S,
                                                       .rss_max = INT64_C(200) * 1048576 *
                                                                  (IS_SANITIZED ? 3 : 1)});
    peer_close(&p);
    attack_end();
}
