/* SPDX-License-Identifier: Apache-2.0 */
#include "base/crc32c.h"

#include "base/rng.h"
#include "test/lib/test.h"

/* The definition, bit by bit: slow and too short to be wrong. */
static uint32_t crc32c_by_bits(const uint8_t *at, size_t len)
{
    uint32_t crc = UINT32_MAX;

    for (size_t i = 0; i < len; i++) {
        crc ^= at[i];
        for (int bit = 0; bit < 8; bit++) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78U : 0);
    }
    return ~crc;
}

/* The values of RFC 3720, B.4, and the usual check value: files must be readable by other tools. */
TEST(known_values)
{
    uint8_t bytes[32];

    EXPECT_EQ(0xe3069283U, crc32c(0, "123456789", 9));
    EXPECT_EQ(0, crc32c(0, "", 0));
    memset(bytes, 0, sizeof bytes);
    EXPECT_EQ(0x8a9136aaU, crc32c(0, bytes, sizeof bytes));
    memset(bytes, 0xff, sizeof bytes);
    EXPECT_EQ(0x62a8ab43U, crc32c(0, bytes, sizeof bytes));
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)i;
    EXPECT_EQ(0x46dd794eU, crc32c(0, bytes, sizeof bytes));
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(31 - i);
    EXPECT_EQ(0x113fdb5cU, crc32c(0, bytes, sizeof bytes));
}

/* A directory moves between machines with and without the instruction: both ways must agree, at
 * every length and alignment, and both with the definition. */
TEST(both_ways_agree_with_the_definition)
{
    uint8_t bytes[96];
    struct rng r;

    rng_init(&r, 1);
    rng_fill(&r, bytes, sizeof bytes);
    for (size_t from = 0; from < 9; from++) {
        for (size_t len = 0; from + len <= sizeof bytes; len++) {
            test_note("from %zu, length %zu", from, len);
            uint32_t expected = crc32c_by_bits(bytes + from, len);
            EXPECT_EQ(expected, crc32c(0, bytes + from, len));
            EXPECT_EQ(expected, crc32c_portable(0, bytes + from, len));
        }
    }
}

/* A frame is summed in the pieces it is made of. */
TEST(parts_give_the_sum_of_the_whole)
{
    const char text[] = "what has been, what is, what shall be";
    size_t len = sizeof text - 1;
    uint32_t whole = crc32c(0, text, len);

    for (size_t cut = 0; cut <= len; cut++) {
        test_note("cut at %zu", cut);
        EXPECT_EQ(whole, crc32c(crc32c(0, text, cut), text + cut, len - cut));
        EXPECT_EQ(whole, crc32c_portable(crc32c_portable(0, text, cut), text + cut, len - cut));
    }
}

/* What the checksum is for: no single flipped bit goes unnoticed. */
TEST(every_flipped_bit_changes_the_sum)
{
    uint8_t bytes[40];
    struct rng r;

    rng_init(&r, 2);
    rng_fill(&r, bytes, sizeof bytes);
    uint32_t intact = crc32c(0, bytes, sizeof bytes);
    for (size_t bit = 0; bit < sizeof bytes * 8; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1U << bit % 8);
        test_note("bit %zu", bit);
        EXPECT(crc32c(0, bytes, sizeof bytes) != intact);
        bytes[bit / 8] ^= (uint8_t)(1U << bit % 8);
    }
}
