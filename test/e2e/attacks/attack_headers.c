/* SPDX-License-Identifier: Apache-2.0
 *
 * Header blocks that never end, or that grow when they are unpacked.
 */
#include "test/e2e/attacks/attack.h"

#define TRIES_N 20
#define BLOCK_SIZE (100 * 1024)
#define PIECE_SIZE 16000

/* CVE-2024-27316: eight CONTINUATIONs are taken, the ninth ends the connection. */
TEST(continuation_flood)
{
    struct buffer block;
    uint64_t frames_n = 0;

    attack_begin("continuation flood", NULL);
    buffer_init(&block, mem_process());
    put_header(&block, "x-long", BYTES_LITERAL("AAAA"));
    for (unsigned i = 1; i <= TRIES_N; i++) {
        struct peer p;
        peer_greet(&p, 0);
        put_head(&p.out, 1, SERVICE "Hello", 0, BYTES_NONE);
        bool is_open = true;
        for (unsigned sent_n = 0; is_open && sent_n < 300000; sent_n += 1000) {
            for (int n = 0; n < 1000; n++)
                put_frame(&p.out, NGHTTP2_CONTINUATION, 0, 1, buffer_view(&block));
            is_open = peer_send(&p, SEND_MS);
            frames_n += 1000;
        }
        expect_cut(&p, CALM, "header_flood", i);
        peer_close(&p);
    }
    buffer_release(&block);
    attack_measure(frames_n, (struct attack_bounds){0});
    attack_end();
}

/* Sends one request whose block is this, in as many frames as it needs. */
static void send_block(struct peer *p, struct bytes block)
{
    bool is_one = block.len <= PIECE_SIZE;

    put_head(&p->out, p->stream, SERVICE "Hello", is_one ? END_HEADERS : 0,
             bytes_make(block.ptr, is_one ? block.len : PIECE_SIZE));
    for (size_t at = PIECE_SIZE; at < block.len; at += PIECE_SIZE) {
        bool is_last = block.len - at <= PIECE_SIZE;
        put_frame(&p->out, NGHTTP2_CONTINUATION, is_last ? END_HEADERS : 0, p->stream,
                  bytes_make(block.ptr + at, is_last ? block.len - at : PIECE_SIZE));
    }
    p->stream += 2;
    (void)peer_send(p, SEND_MS);
}

/* A value of almost 4 KiB goes into the table, then one byte each stands for it: a million bytes
 * would be four gigabytes. */
TEST(hpack_bomb)
{
    struct buffer block;
    uint64_t sent_size = 0;

    attack_begin("hpack bomb", NULL);
    buffer_init(&block, mem_process());
    buffer_u8(&block, 0x40);
    put_hpack_number(&block, 0, 7, 1);
    buffer_u8(&block, 'x');
    put_hpack_number(&block, 0, 7, 4000);
    for (int i = 0; i < 4000; i++) buffer_u8(&block, 'a');
    while (block.len < BLOCK_SIZE) buffer_u8(&block, 0x80 | 62);
    for (unsigned i = 1; i <= TRIES_N; i++) {
        struct peer p;
        peer_greet(&p, 0);
        send_block(&p, buffer_view(&block));
        sent_size += block.len;
        expect_cut(&p, CALM, "header_flood", i);
        peer_close(&p);
    }
    buffer_release(&block);
    attack_measure(sent_size, (struct attack_bounds){.cpu_ns_max = 150000000});
    attack_end();
}

/* Five bits for each letter, over several frames. */
TEST(endless_huffman_headers)
{
    static const uint8_t eight[5] = {0x18, 0xc6, 0x31, 0x8c, 0x63};
    struct buffer block;

    attack_begin("endless huffman", NULL);
    buffer_init(&block, mem_process());
    while (block.len < BLOCK_SIZE) {
        buffer_u8(&block, 0);
        put_hpack_number(&block, 0, 7, 1);
        buffer_u8(&block, 'x');
        put_hpack_number(&block, 0x80, 7, 1500 * sizeof eight);
        for (int i = 0; i < 1500; i++) buffer_append(&block, eight, sizeof eight);
    }
    for (unsigned i = 1; i <= TRIES_N; i++) {
        struct peer p;
        peer_greet(&p, 0);
        send_block(&p, buffer_view(&block));
        expect_cut(&p, CALM, "header_flood", i);
        peer_close(&p);
    }
    buffer_release(&block);
    attack_measure(TRIES_N * 8, (struct attack_bounds){0});
    attack_end();
}

/* Above 16 KiB, or above a hundred fields, one request is refused and the next one is not. */
TEST(long_header_lists)
{
    struct peer p;
    struct buffer block;

    attack_begin("long header lists", NULL);
    buffer_init(&block, mem_process());
    peer_greet(&p, 0);
    for (int i = 0; i < 101; i++) put_header(&block, "x", BYTES_NONE);
    for (int i = 0; i < 100; i++) {
        p.http_status = 0;
        send_block(&p, buffer_view(&block));
        while (p.http_status == 0) EXPECT(peer_read(&p, END_MS));
        EXPECT_EQ(431, p.http_status);
    }
    EXPECT_EQ(0, peer_call(&p, "Hello", BYTES_NONE));
    EXPECT_EQ(100, target_counter("header_list_too_large"));
    peer_close(&p);
    buffer_release(&block);
    attack_measure(200, (struct attack_bounds){0});
    attack_end();
}
