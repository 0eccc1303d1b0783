/* SPDX-License-Identifier: Apache-2.0 */
#include "base/siphash.h"

#include "test/lib/test.h"

/* The vectors of SipHash's authors: key 00..0f, input 00 01 02 … of each length. */
struct vector {
    size_t len;
    const char *hash64;
    const char *hash128;
};

static const struct vector vectors[] = {
    {0, "310e0edd47db6f72", "a3817f04ba25a8e66df67214c7550293"},
    {1, "fd67dc93c539f874", "da87c1d86b99af44347659119b22fc45"},
    {2, "5a4fa9d909806c0d", "8177228da4a45dc7fca38bdef60affe4"},
    {3, "2d7efbd796666785", "9c70b60c5267a94e5f33b6b02985ed51"},
    {4, "b7877127e09427cf", "f88164c12d9c8faf7d0f6e7c7bcd5579"},
    {5, "8da699cd64557618", "1368875980776f8854527a07690e9627"},
    {6, "cee3fe586e46c9cb", "14eeca338b208613485ea0308fd7a15e"},
    {7, "37d1018bf50002ab", "a1f1ebbed8dbc153c0b84aa61ff08239"},
    {8, "6224939a79f5f593", "3b62a9ba6258f5610f83e264f31497b4"},
    {9, "b0e4a90bdf82009e", "264499060ad9baabc47f8b02bb6d71ed"},
    {10, "f3b9dd94c5bb5d7a", "00110dc378146956c95447d3f3d0fbba"},
    {11, "a7ad6b22462fb3f4", "0151c568386b6677a2b4dc6f81e5dc18"},
    {12, "fbe50e86bc8f1e75", "d626b266905ef35882634df68532c125"},
    {13, "903d84c02756ea14", "9869e247e9c08b10d029934fc4b952f7"},
    {14, "eef27a8e90ca23f7", "31fcefac66d7de9c7ec7485fe4494902"},
    {15, "e545be4961ca29a1", "5493e99933b0a8117e08ec0f97cfc3d9"},
    {16, "db9bc2577fcc2a3f", "6ee2a4ca67b054bbfd3315bf85230577"},
    {63, "724506eb4c328a95", "5150d1772f50834a503e069a973fbd7c"},
};

static const uint64_t key[2] = {UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908)};

/* Every length of the last, partial word occurs: it must be SipHash-2-4 and nothing like it. */
TEST(hashes_are_those_of_the_authors)
{
    uint8_t input[64];

    for (size_t i = 0; i < sizeof input; i++) input[i] = (uint8_t)i;
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        const struct vector *v = &vectors[i];
        struct bytes data = bytes_make(input, v->len);
        uint8_t out[16];

        test_note("length %zu", v->len);
        store_u64(out, siphash64(key, data));
        EXPECT_BYTES(test_hex(v->hash64), bytes_make(out, 8));
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
