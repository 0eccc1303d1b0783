/* SPDX-License-Identifier: Apache-2.0 */
#include "base/random.h"

#include "test/lib/test.h"

/* Two ids must never be equal: 32 equal or zero bytes do not happen by chance. */
TEST(two_fills_differ)
{
    uint8_t a[32] = {0};
    uint8_t b[32] = {0};
    uint8_t zero[32] = {0};

    random_fill(a, sizeof a);
    random_fill(b, sizeof b);
    EXPECT(memcmp(a, b, sizeof a) != 0);
    EXPECT(memcmp(a, zero, sizeof a) != 0);
}

/* Only what was asked for is written: keys lie beside other fields. */
TEST(nothing_beyond_the_length_is_written)
{
    uint8_t bytes[18] = {0};

    random_fill(bytes + 1, 0);
    EXPECT_EQ(0, bytes[1]);
    random_fill(bytes + 1, 16);
    EXPECT_EQ(0, bytes[0]);
    EXPECT_EQ(0, bytes[17]);
}

/* The system may answer a large request in parts; each part of the result must be filled. */
TEST(a_large_request_is_filled_to_the_end)
{
    static uint8_t large[1 << 20];
    uint8_t zero[32] = {0};

    random_fill(large, sizeof large);
    for (size_t i = 0; i < sizeof large; i += sizeof zero) {
        EXPECT(memcmp(large + i, zero, sizeof zero) != 0);
    }
}
