/* SPDX-License-Identifier: Apache-2.0 */
#include "store/journal_frame.h"

#include "base/crc32c.h"
#include "test/lib/test.h"

#define SEED 0x12345678U
#define CHAIN UINT64_C(0x1122334455667788)
#define CRC_AT (FRAME_HEADER_SIZE - 4)

static const struct journal_frame example = {
    .lsn = 7, .epoch = 3, .time_ns = 1000000001, .payload = {(const uint8_t *)"hello", 5}};

static void encode_example(uint8_t *out) { frame_encode_header(&example, CHAIN, SEED, out); }

/* As a program of another version would have sealed it. */
static void seal(uint8_t *header) { store_u32(header + CRC_AT, crc32c(SEED, header, CRC_AT)); }

/* Journals on disk outlive the program that wrote them: the layout is a promise. */
TEST(the_layout_is_fixed)
{
    uint8_t header[FRAME_HEADER_SIZE];
    encode_example(header);
    EXPECT_BYTES(test_hex("4e46524d"         /* NFRM */
                          "01000100"         /* version 1, kind 1 */
                          "0700000000000000" /* LSN */
                          "01ca9a3b00000000" /* time */
                          "8877665544332211" /* chain */
                          "03000000"         /* epoch */
                          "05000000"),       /* length */
                 bytes_make(header, 40));
    EXPECT_EQ(crc32c_portable(0, "hello", 5), load_u32(header + 40));
    EXPECT_EQ(crc32c_portable(SEED, header, CRC_AT), load_u32(header + CRC_AT));
}

/* Reading is the reverse of writing, field by field. */
TEST(a_header_comes_back)
{
    uint8_t bytes[FRAME_HEADER_SIZE];
    struct frame_header header;
    encode_example(bytes);
    EXPECT_EQ(FRAME_VALID, frame_decode_header(bytes, SEED, &header));
    EXPECT_EQ(7, header.lsn);
    EXPECT_EQ(3, header.epoch);
    EXPECT_EQ(1000000001, header.time_ns);
    EXPECT(header.chain == CHAIN);
    EXPECT_EQ(5, header.payload_len);
    EXPECT(frame_holds(&header, example.payload));
}

/* Negative times and the largest numbers are nothing special. */
TEST(extreme_values_come_back)
{
    struct journal_frame frame = {
        .lsn = JOURNAL_LSN_MAX, .epoch = UINT32_MAX, .time_ns = INT64_MIN};
    uint8_t bytes[FRAME_HEADER_SIZE];
    struct frame_header header;
    frame_encode_header(&frame, UINT64_MAX, UINT32_MAX, bytes);
    EXPECT_EQ(FRAME_VALID, frame_decode_header(bytes, UINT32_MAX, &header));
    EXPECT(header.lsn == JOURNAL_LSN_MAX);
    EXPECT(header.epoch == UINT32_MAX);
    EXPECT(header.time_ns == INT64_MIN);
    EXPECT_EQ(0, header.payload_len);
    EXPECT(frame_holds(&header, BYTES_NONE));
}

/* One wrong bit anywhere in the header is noticed, and a wrong magic is no frame at all. */
TEST(every_flipped_bit_of_a_header_is_noticed)
{
    for (size_t bit = 0; bit < FRAME_HEADER_SIZE * 8; bit++) {
        uint8_t bytes[FRAME_HEADER_SIZE];
        struct frame_header header;
        encode_example(bytes);
        bytes[bit / 8] ^= (uint8_t)(1U << bit % 8);
        test_note("bit %zu", bit);
        EXPECT_EQ(bit < 32 ? FRAME_ABSENT : FRAME_DAMAGED,
                  frame_decode_header(bytes, SEED, &header));
    }
}

TEST(every_flipped_bit_of_a_payload_is_noticed)
{
    uint8_t bytes[FRAME_HEADER_SIZE];
    struct frame_header header;
    encode_example(bytes);
    EXPECT_EQ(FRAME_VALID, frame_decode_header(bytes, SEED, &header));
    for (size_t bit = 0; bit < 5 * 8; bit++) {
        uint8_t payload[5];
        memcpy(payload, "hello", 5);
        payload[bit / 8] ^= (uint8_t)(1U << bit % 8);
        test_note("bit %zu", bit);
        EXPECT(!frame_holds(&header, bytes_make(payload, 5)));
    }
}

/* A frame from another segment, or one that a client made up, has another seed. */
TEST(a_frame_of_another_segment_is_refused)
{
    uint8_t bytes[FRAME_HEADER_SIZE];
    struct frame_header header;
    encode_example(bytes);
    EXPECT_EQ(FRAME_DAMAGED, frame_decode_header(bytes, SEED + 1, &header));
}

/* A newer version or kind is told from damage, so that an old program says "newer" and writes
 * nothing. */
TEST(a_newer_version_and_an_unknown_kind_are_told_apart_from_damage)
{
    uint8_t bytes[FRAME_HEADER_SIZE];
    struct frame_header header;
    encode_example(bytes);
    bytes[4] = 2;
    EXPECT_EQ(FRAME_DAMAGED, frame_decode_header(bytes, SEED, &header));
    seal(bytes);
    EXPECT_EQ(FRAME_NEWER, frame_decode_header(bytes, SEED, &header));
    encode_example(bytes);
    bytes[6] = 2;
    seal(bytes);
    EXPECT_EQ(FRAME_NEWER, frame_decode_header(bytes, SEED, &header));
}

/* A checksum proves what was written, not that it makes sense. */
TEST(values_out_of_range_are_damage_even_when_sealed)
{
    uint8_t bytes[FRAME_HEADER_SIZE];
    struct frame_header header;
    encode_example(bytes);
    store_u64(bytes + 8, 0);
    seal(bytes);
    EXPECT_EQ(FRAME_DAMAGED, frame_decode_header(bytes, SEED, &header));
    EXPECT(!frame_guess_header(bytes, &header));
    store_u64(bytes + 8, JOURNAL_LSN_MAX + 1);
    seal(bytes);
    EXPECT_EQ(FRAME_DAMAGED, frame_decode_header(bytes, SEED, &header));
    encode_example(bytes);
    store_u32(bytes + 36, (uint32_t)JOURNAL_FRAME_SIZE_MAX + 1);
    seal(bytes);
    EXPECT_EQ(FRAME_DAMAGED, frame_decode_header(bytes, SEED, &header));
    EXPECT(!frame_guess_header(bytes, &header));
}

/* Zeros are what is behind the last frame: never a frame, with whatever seed. */
TEST(zeros_are_no_frame)
{
    static const uint8_t zeros[FRAME_HEADER_SIZE];
    struct frame_header header;
    EXPECT_EQ(FRAME_ABSENT, frame_decode_header(zeros, 0, &header));
    EXPECT(!frame_guess_header(zeros, &header));
}

/* Without the seed, a frame is still recognised by its payload: a lost segment header hides
 * nothing. */
TEST(a_frame_is_recognised_without_its_seed)
{
    uint8_t bytes[FRAME_HEADER_SIZE];
    struct frame_header header;
    encode_example(bytes);
    EXPECT(frame_guess_header(bytes, &header));
    EXPECT_EQ(7, header.lsn);
    EXPECT(frame_holds(&header, example.payload));
}

/* Frames stay aligned, so that a search for them can take steps of 8. */
TEST(sizes_are_rounded_up_to_8)
{
    EXPECT_EQ(48, frame_size(0));
    EXPECT_EQ(56, frame_size(1));
    EXPECT_EQ(56, frame_size(8));
    EXPECT_EQ(64, frame_size(9));
    EXPECT_EQ(48 + ((int64_t)256 << 20), frame_size(JOURNAL_FRAME_SIZE_MAX));
}

/* The chain depends on payload, LSN and everything before: no frame can be exchanged for
 * another. */
TEST(the_chain_depends_on_every_field)
{
    uint8_t bytes[FRAME_HEADER_SIZE];
    encode_example(bytes);
    uint64_t chain = frame_chain_after(bytes);

    struct journal_frame other = example;
    other.payload = BYTES_LITERAL("hellp");
    frame_encode_header(&other, CHAIN, SEED, bytes);
    EXPECT(frame_chain_after(bytes) != chain);
    frame_encode_header(&example, CHAIN + 1, SEED, bytes);
    EXPECT(frame_chain_after(bytes) != chain);
    encode_example(bytes);
    EXPECT(frame_chain_after(bytes) == chain);
}
