/* SPDX-License-Identifier: Apache-2.0 */
#include "base/siphash.h"

#include "test/lib/test.h"

/* Input 00 01 02 … of each length. The 128 bits are the vectors of SipHash's authors, key 00..0f;
 * the 64 bits those of CPython (3.11, key 0), an implementation of SipHash-1-3 that is not ours. */
struct vector {
    size_t len;
    const char *hash64;
    const char *hash128;
};

static const struct vector vectors[] = {
    {0, NULL, "a3817f04ba25a8e66df67214c7550293"},
    {1, "73e4018e1214a968", "da87c1d86b99af44347659119b22fc45"},
    {2, "69361ec445ac0b01", "8177228da4a45dc7fca38bdef60affe4"},
    {3, "ade0f68e4a9a4c4d", "9c70b60c5267a94e5f33b6b02985ed51"},
    {4, "bd4d3e81983fc47c", "f88164c12d9c8faf7d0f6e7c7bcd5579"},
    {5, "7562f3df6921be5a", "1368875980776f8854527a07690e9627"},
    {6, "db1c4f62875fc2e3", "14eeca338b208613485ea0308fd7a15e"},
    {7, "5a3251c7b08a092f", "a1f1ebbed8dbc153c0b84aa61ff08239"},
    {8, "ea2ebe7ee611d4ea", "3b62a9ba6258f5610f83e264f31497b4"},
    {9, "624312959d7f9275", "264499060ad9baabc47f8b02bb6d71ed"},
    {10, "1d1ab55aa6779faf", "00110dc378146956c95447d3f3d0fbba"},
    {11, "fffc17668bce64fe", "0151c568386b6677a2b4dc6f81e5dc18"},
    {12, "c2e19f0ffbf4baa6", "d626b266905ef35882634df68532c125"},
    {13, "0d8e0f851132cfa0", "9869e247e9c08b10d029934fc4b952f7"},
    {14, "67fefb799304867f", "31fcefac66d7de9c7ec7485fe4494902"},
    {15, "eac991bb25b70ef3", "5493e99933b0a8117e08ec0f97cfc3d9"},
    {16, "b7c5a53384187289", "6ee2a4ca67b054bbfd3315bf85230577"},
    {63, "5973f3e5393e5d38", "5150d1772f50834a503e069a973fbd7c"},
};

static const uint64_t zeros[2];
static const uint64_t key[2] = {UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908)};

/* Every length of the last, partial word occurs: it must be SipHash and nothing like it. */
TEST(hashes_are_those_of_others)
{
    uint8_t input[64];

    for (size_t i = 0; i < sizeof input; i++) input[i] = (uint8_t)i;
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        const struct vector *v = &vectors[i];
        struct bytes data = bytes_make(input, v->len);
        uint8_t out[16];

        test_note("length %zu", v->len);
        store_u64(out, siphash64(zeros, data));
        if (v->hash64 != NULL) EXPECT_BYTES(test_hex(v->hash64), bytes_make(out, 8));
        siphash128(key, data, out);
        EXPECT_BYTES(test_hex(v->hash128), bytes_make(out, 16));
    }
}

/* A borrowed empty value may have no address. */
TEST(no_bytes_at_no_address_can_be_hashed)
{
    EXPECT_EQ(siphash64(key, BYTES_LITERAL("")), siphash64(key, BYTES_NONE));
}

/* Who does not know the key must not be able to predict chains or forge a token. */
TEST(each_half_of_the_key_counts)
{
    const uint64_t others[2][2] = {{key[0] ^ 1, key[1]}, {key[0], key[1] ^ 1}};
    uint64_t hash = siphash64(key, BYTES_LITERAL("order-1"));

    EXPECT(siphash64(others[0], BYTES_LITERAL("order-1")) != hash);
    EXPECT(siphash64(others[1], BYTES_LITERAL("order-1")) != hash);
}
