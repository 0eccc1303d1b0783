/* SPDX-License-Identifier: Apache-2.0
 *
 * Small frames that make a server work: each kind until the connection is cut, by a peer that reads
 * what it is told and by one that does not.
 */
#include "test/e2e/attacks/attack.h"

#include "base/clock.h"

#include <stdio.h>
#include <unistd.h>

#define FRAMES_N 1000000
#define PIECE_SIZE (64 * 1024)

/* Repeats the frames until it is cut; answers how many it sent. */
static uint64_t repeat(struct peer *p, struct bytes frame, uint64_t frames_n)
{
    uint64_t sent_n = 0;

    while (sent_n < frames_n) {
        while (p->out.len < PIECE_SIZE) {
            buffer_append_bytes(&p->out, frame);
            sent_n++;
        }
        if (!peer_send(p, 3000)) break;
    }
    return sent_n;
}

TEST(control_frame_floods)
{
    static const struct {
        const char *name;
        uint8_t type;
        const char *payload;
        uint32_t stream;
    } cases[] = {
        {"ping", NGHTTP2_PING, "3132333435363738", 0},
        {"settings", NGHTTP2_SETTINGS, "000300000064", 0},
        {"empty settings", NGHTTP2_SETTINGS, "", 0},
        {"priority", NGHTTP2_PRIORITY, "0000000310", 1},
    };
    struct buffer frame;
    uint64_t frames_n = 0;
    uint64_t cuts_n = 0;

    attack_begin("control floods", NULL);
    buffer_init(&frame, mem_process());
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (int is_reading = 0; is_reading < 2; is_reading++) {
            struct peer p;
            test_note("flood: %s, the attacker reads: %d", cases[i].name, is_reading);
            buffer_clear(&frame);
            put_frame(&frame, cases[i].type, 0, cases[i].stream, test_hex(cases[i].payload));
            peer_greet(&p, 0);
            p.is_reading = is_reading == 1;
            uint64_t sent_n = repeat(&p, buffer_view(&frame), FRAMES_N);
            /* Of one that does not read, the kernel keeps megabytes before it notices. */
            EXPECT(sent_n < FRAMES_N / 2 || is_reading == 0);
            frames_n += sent_n;
            EXPECT(peer_await_end(&p, END_MS));
            EXPECT_EQ(++cuts_n, target_counter("control_flood"));
            /* Who has not read may have lost our last words with its own. */
            EXPECT(p.goaways_n == 1 || !p.is_reading);
            EXPECT(p.goaways_n == 0 || p.goaway_code == CALM);
            peer_close(&p);
        }
    }
    buffer_release(&frame);
    attack_measure(frames_n, (struct attack_bounds){0});
    attack_end();
}

/* CVE-2019-9518; padding does not make a frame less empty. */
TEST(empty_frames)
{
    struct buffer frame;
    uint64_t frames_n = 0;

    attack_begin("empty frames", NULL);
    buffer_init(&frame, mem_process());
    for (uint64_t i = 1; i <= 2; i++) {
        struct peer p;
        buffer_clear(&frame);
        if (i == 1)
            put_frame(&frame, NGHTTP2_DATA, 0, 1, BYTES_NONE);
        else
            put_frame(&frame, NGHTTP2_DATA, PADDED, 1, test_hex("0400000000"));
        peer_greet(&p, 0);
        put_head(&p.out, 1, SERVICE "Hello", END_HEADERS, BYTES_NONE);
        frames_n += repeat(&p, buffer_view(&frame), FRAMES_N);
        expect_cut(&p, CALM, "empty_frame_flood", i);
        peer_close(&p);
    }
    buffer_release(&frame);
    attack_measure(frames_n, (struct attack_bounds){0});
    attack_end();
}

/* Frames that cost the sender more than us are not counted, and cost no memory and little time. */
TEST(window_updates)
{
    struct buffer frame;
    struct peer p;

    attack_begin("window updates", NULL);
    buffer_init(&frame, mem_process());
    put_frame_u32(&frame, NGHTTP2_WINDOW_UPDATE, 0, 1);
    peer_greet(&p, 0);
    uint64_t sent_n = repeat(&p, buffer_view(&frame), 500000);
    EXPECT(sent_n >= 500000);
    EXPECT_EQ(0, peer_call(&p, "Hello", BYTES_NONE));
    peer_close(&p);
    buffer_release(&frame);
    attack_measure(sent_n, (struct attack_bounds){0});
    attack_end();
}

/* The attacker lets answers fill all buffers on the way, and then makes us want to say more: PING,
 * whose acknowledgements wait. It is cut and, since it does not take even our farewell, forgotten
 * within seconds. */
TEST(ping_flood_by_who_never_reads)
{
    struct buffer frame;
    struct peer p;

    attack_begin("ping, never reads", NULL);
    attack_start_large();
    peer_open(&p, 4096);
    p.is_reading = false;
    buffer_append(&p.out, NGHTTP2_CLIENT_MAGIC, NGHTTP2_CLIENT_MAGIC_LEN);
    put_frame(&p.out, NGHTTP2_SETTINGS, 0, 0, test_hex("00047fff0000"));
    put_settings_ack(&p.out);
    put_frame_u32(&p.out, NGHTTP2_WINDOW_UPDATE, 0, 0x7fff0000);
    for (int i = 0; i < 10; i++)
        (void)peer_put_call(&p, "GetInstance", BYTES_LITERAL("\x0a\x01i\x10\x01"));
    EXPECT(peer_send(&p, SEND_MS));
    (void)usleep(500000); /* the answers have filled the buffers */
    EXPECT_EQ(0, target_counter("control_flood"));
    buffer_init(&frame, mem_process());
    put_frame(&frame, NGHTTP2_PING, 0, 0, BYTES_LITERAL("12345678"));
    int64_t begun_ns = clock_mono_ns();
    uint64_t sent_n = repeat(&p, buffer_view(&frame), 5000);
    /* Without its reading: only the healthy client and the one that asks are left. */
    while (target_sample("norn_net_connections") > 2) {
        EXPECT(clock_mono_ns() - begun_ns < 8 * NS_PER_S);
        (void)usleep(50000);
    }
    printf("# gone %.1f s after the first ping\n",
           (double)(clock_mono_ns() - begun_ns) / (double)NS_PER_S);
    EXPECT_EQ(1, target_counter("control_flood"));
    peer_close(&p);
    buffer_release(&frame);
    attack_measure(sent_n, (struct attack_bounds){.rss_max = INT64_C(40) * 1024 * 1024 *
                                                             (IS_SANITIZED ? 4 : 1)});
    attack_end();
}
