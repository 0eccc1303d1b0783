/* SPDX-License-Identifier: Apache-2.0
 *
 * Completion tokens: text that comes back exactly, and that nobody else can write.
 */
#include "test/lib/partition.h"
#include "test/lib/test.h"

static const uint64_t mac_key[2] = {0x0123456789abcdef, 0xfedcba9876543210};

static struct work_ref sample(void)
{
    struct work_ref ref = {
        .kind = WORK_TASK,
        .partition = 31,
        .epoch = 7,
        .key = BYTES_LITERAL("hub/order-17"),
        .task_id = 42,
        .attempt = 3,
        .base = 1000000,
        .inbox_n = 5,
        .started_ns = INT64_C(1700000000500000000),
    };
    memset(ref.execution_id, 0xa5, EXECUTION_ID_SIZE);
    return ref;
}

static void expect_same(const struct work_ref *a, const struct work_ref *b)
{
    EXPECT_EQ(a->kind, b->kind);
    EXPECT_EQ(a->partition, b->partition);
    EXPECT_EQ(a->epoch, b->epoch);
    EXPECT_BYTES(a->key, b->key);
    EXPECT_BYTES(bytes_make(a->execution_id, EXECUTION_ID_SIZE),
                 bytes_make(b->execution_id, EXECUTION_ID_SIZE));
    EXPECT_EQ(a->task_id, b->task_id);
    EXPECT_EQ(a->attempt, b->attempt);
    EXPECT_EQ(a->base, b->base);
    EXPECT_EQ(a->inbox_n, b->inbox_n);
    EXPECT_EQ(a->started_ns, b->started_ns);
}

struct fixture {
    struct mem mem;
    struct arena arena;
    struct buffer token;
};

static void setup(struct fixture *f)
{
    mem_init(&f->mem, SIZE_MAX);
    arena_init(&f->arena, &f->mem, 512);
    buffer_init(&f->token, &f->mem);
}

static void teardown(struct fixture *f)
{
    buffer_release(&f->token);
    arena_release(&f->arena);
    mem_release(&f->mem);
}

/* Every field survives, at its edges too. */
TEST(a_token_comes_back_exactly)
{
    struct work_ref cases[4] = {sample(), sample(), sample(), sample()};
    cases[1].kind = WORK_TURN;
    cases[1].task_id = -1;
    cases[2].task_id = INT32_MIN;
    cases[2].partition = UINT32_MAX;
    cases[2].epoch = UINT32_MAX;
    cases[2].attempt = UINT32_MAX;
    cases[2].base = UINT64_MAX;
    cases[2].inbox_n = UINT32_MAX;
    cases[2].started_ns = INT64_MIN;
    cases[3].key = BYTES_LITERAL("/");
    cases[3].task_id = 0;
    for (size_t n = 0; n < 4; n++) {
        struct fixture f;
        struct work_ref ref;
        setup(&f);
        token_write(&f.token, mac_key, &cases[n]);
        for (size_t i = 0; i < f.token.len; i++) {
            EXPECT(f.token.ptr[i] > 0x20);
            EXPECT(f.token.ptr[i] < 0x7f);
        }
        EXPECT_STATUS(OK, token_read(buffer_view(&f.token), mac_key, &f.arena, &ref));
        expect_same(&cases[n], &ref);
        teardown(&f);
    }
}

/* Not one bit of the text can be changed, whatever its length leaves unused in the last digit. */
TEST(every_flipped_bit_is_refused)
{
    static const char *const keys[] = {"hub/order-17", "hub/order-171", "hub/order-1717"};
    for (size_t n = 0; n < 3; n++) {
        struct fixture f;
        struct work_ref whole = sample();
        struct work_ref ref;
        setup(&f);
        whole.key = bytes_of_text(keys[n]);
        token_write(&f.token, mac_key, &whole);
        for (size_t bit = 0; bit < 8 * f.token.len; bit++) {
            test_note("key %zu, bit %zu of %zu", n, bit, 8 * f.token.len);
            f.token.ptr[bit / 8] ^= (uint8_t)(1u << bit % 8);
            EXPECT_STATUS(E_INVALID, token_read(buffer_view(&f.token), mac_key, &f.arena, &ref));
            f.token.ptr[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
        EXPECT_STATUS(OK, token_read(buffer_view(&f.token), mac_key, &f.arena, &ref));
        teardown(&f);
    }
}

/* Cut, extended, empty, much too long: refused. */
TEST(other_lengths_are_refused)
{
    struct fixture f;
    struct work_ref whole = sample();
    struct work_ref ref;
    setup(&f);
    token_write(&f.token, mac_key, &whole);
    for (size_t len = 0; len < f.token.len; len++) {
        EXPECT_STATUS(E_INVALID, token_read(bytes_make(f.token.ptr, len), mac_key, &f.arena, &ref));
    }
    buffer_u8(&f.token, 'A');
    EXPECT_STATUS(E_INVALID, token_read(buffer_view(&f.token), mac_key, &f.arena, &ref));
    while (f.token.len < 2000) buffer_u8(&f.token, 'A');
    EXPECT_STATUS(E_INVALID, token_read(buffer_view(&f.token), mac_key, &f.arena, &ref));
    teardown(&f);
}

/* A token that a worker was given before the server was replaced by a newer one still counts after
 * it: the text does not change. One for each length of the last group of characters. */
TEST(the_text_of_a_token_never_changes)
{
    static const struct {
        const char *key;
        const char *text;
    } cases[] = {
        {"hub/order-17", "AQEfB6WlpaWlpaWlpaWlpaWlpaUqA8CEPQUAZfdT_pyXFwxodWIvb3JkZXItMTfA_wjm5EoDi"
                         "Hc8Tr3Bl2LI"},
        {"hub/order-171", "AQEfB6WlpaWlpaWlpaWlpaWlpaUqA8CEPQUAZfdT_pyXFw1odWIvb3JkZXItMTcxxGLOyHAc"
                          "Kyh3Cp9tHNIkLA"},
        {"hub/order-1717", "AQEfB6WlpaWlpaWlpaWlpaWlpaUqA8CEPQUAZfdT_pyXFw5odWIvb3JkZXItMTcxNztZ9eG"
                           "B6IJbLNi3HYomDH8"},
    };
    for (size_t n = 0; n < 3; n++) {
        struct fixture f;
        struct work_ref ref = sample();
        setup(&f);
        ref.key = bytes_of_text(cases[n].key);
        token_write(&f.token, mac_key, &ref);
        EXPECT_BYTES(bytes_of_text(cases[n].text), buffer_view(&f.token));
        teardown(&f);
    }
}

/* Characters beside the alphabet are refused wherever they stand: none of them is taken for one of
 * ours, be it the first, the last, or what another alphabet of base 64 has in its place. */
TEST(every_other_character_is_refused)
{
    static const uint8_t others[] = {'+', '/', '=', '!', '@', '[', '`', '{', 0, 0xff};
    for (unsigned n = 0; n < 240; n++) {
        struct fixture f;
        struct work_ref whole = sample();
        struct work_ref ref;
        setup(&f);
        whole.key = bytes_make("hub/order-1717", 12 + n % 3);
        whole.task_id = (int32_t)n; /* another MAC: every character is somewhere */
        token_write(&f.token, mac_key, &whole);
        for (size_t at = 0; at < f.token.len; at++) {
            uint8_t right = f.token.ptr[at];
            for (size_t c = 0; c < sizeof others; c++) {
                test_note("token %u, character %u at %zu of %zu", n, others[c], at, f.token.len);
                f.token.ptr[at] = others[c];
                EXPECT_STATUS(E_INVALID,
                              token_read(buffer_view(&f.token), mac_key, &f.arena, &ref));
            }
            f.token.ptr[at] = right;
            arena_reset(&f.arena);
        }
        teardown(&f);
    }
}

/* Another data directory's key: refused, for either half of the key. */
TEST(another_key_is_refused)
{
    struct fixture f;
    struct work_ref whole = sample();
    struct work_ref ref;
    setup(&f);
    token_write(&f.token, mac_key, &whole);
    for (int half = 0; half < 2; half++) {
        uint64_t other[2] = {mac_key[0], mac_key[1]};
        other[half] ^= 1;
        EXPECT_STATUS(E_INVALID, token_read(buffer_view(&f.token), other, &f.arena, &ref));
    }
    teardown(&f);
}

/* The longest key that there is fits. */
TEST(the_longest_key_fits)
{
    struct fixture f;
    static char key[64 + 1 + 256];
    struct work_ref whole = sample();
    struct work_ref ref;
    memset(key, 'k', sizeof key);
    key[64] = '/';
    whole.key = bytes_make(key, sizeof key);
    setup(&f);
    token_write(&f.token, mac_key, &whole);
    EXPECT_STATUS(OK, token_read(buffer_view(&f.token), mac_key, &f.arena, &ref));
    expect_same(&whole, &ref);
    teardown(&f);
}

/* Without memory: a status, and a buffer that says that it failed. */
TEST(tokens_without_memory)
{
    struct fixture f;
    struct work_ref whole = sample();
    struct work_ref ref;
    setup(&f);
    f.mem.fail_at = 1;
    token_write(&f.token, mac_key, &whole);
    EXPECT(f.token.failed);
    buffer_clear(&f.token);
    token_write(&f.token, mac_key, &whole);
    f.mem.fail_at = 1;
    EXPECT_STATUS(E_NOMEM, token_read(buffer_view(&f.token), mac_key, &f.arena, &ref));
    teardown(&f);
}

/* The token of one instance completes no other, in this hub or another: the reference names all of
 * it. S24 */
TEST(a_token_is_for_one_instance)
{
    struct kit *k = kit_new(1, 1);
    struct buffer token;
    struct work_ref ref;
    buffer_init(&token, &k->mem);
    kit_start(k, "one/a", "o", NULL);
    kit_start(k, "two/a", "o", NULL);
    const struct effect_work *first = kit_must(kit_take_turn(k, "o"));
    const struct effect_work *second = kit_must(kit_take_turn(k, "o"));
    token_write(&token, mac_key, &first->ref);
    EXPECT_STATUS(OK, token_read(buffer_view(&token), mac_key, &k->arena, &ref));
    struct effect_work mixed = *first;
    mixed.ref = ref;
    mixed.ref.key = second->ref.key; /* only a forger could do this */
    KIT_ANSWER(k, &mixed, act_complete(1, NULL));
    EXPECT_EQ(0, k->records_n);
    mixed.ref = ref;
    KIT_ANSWER(k, &mixed, act_complete(1, NULL));
    EXPECT_TEXT("COMPLETED", kit_status(k, "one/a"));
    EXPECT_TEXT("PENDING", kit_status(k, "two/a"));
    buffer_release(&token);
    kit_free(k);
}
