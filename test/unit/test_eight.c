/* SPDX-License-Identifier: Apache-2.0 */
#include "base/eight.h"

#include "base/bytes.h"
#include "base/rng.h"
#include "test/lib/test.h"

static bool has_below(const uint8_t *bytes, unsigned limit)
{
    for (int n = 0; n < 8; n++) {
        if (bytes[n] < limit) return true;
    }
    return false;
}

static bool has(const uint8_t *bytes, unsigned byte) { return memchr(bytes, (int)byte, 8) != NULL; }

static void compare(const uint8_t *bytes)
{
    static const uint8_t limits[] = {1, 0x20, 0x21, 0x7f, 0x80};
    static const uint8_t wanted[] = {0, 1, '"', '%', '\\', 0x7e, 0x7f, 0x80, 0xff};
    uint64_t word = load_u64(bytes);

    for (size_t n = 0; n < sizeof limits; n++)
        EXPECT_EQ(has_below(bytes, limits[n]), eight_below(word, limits[n]) != 0);
    for (size_t n = 0; n < sizeof wanted; n++)
        EXPECT_EQ(has(bytes, wanted[n]), eight_equal(word, wanted[n]) != 0);
    bool is_ascii = true;
    for (int n = 0; n < 8; n++) is_ascii = is_ascii && bytes[n] < 0x80;
    EXPECT_EQ(!is_ascii, eight_not_ascii(word) != 0);
}

/* Every byte in every place, among neighbours that are larger, equal or smaller. */
TEST(a_word_is_as_its_bytes)
{
    static const uint8_t others[] = {0, 1, 0x1f, 0x20, 'a', 0x7f, 0x80, 0xff};
    uint8_t bytes[8];

    for (size_t other = 0; other < sizeof others; other++) {
        for (unsigned byte = 0; byte < 256; byte++) {
            for (int place = 0; place < 8; place++) {
                memset(bytes, others[other], sizeof bytes);
                bytes[place] = (uint8_t)byte;
                compare(bytes);
            }
        }
    }
}

TEST(random_words_are_as_their_bytes)
{
    struct rng rng;
    uint8_t bytes[8];

    rng_init(&rng, 1);
    for (int n = 0; n < 20000; n++) {
        rng_fill(&rng, bytes, sizeof bytes);
        compare(bytes);
    }
}
