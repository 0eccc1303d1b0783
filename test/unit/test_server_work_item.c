/* SPDX-License-Identifier: Apache-2.0
 *
 * The bytes of work items, against what the SDKs' own generated code writes; and what a worker asks
 * for.
 */
#include "base/mem.h"
#include "server/work_item.h"
#include "server/work_wish.h"
#include "test/lib/test.h"
#include "wire/message.h"
#include "wire/pb.h"

static const uint64_t mac_key[2] = {1, 2};
static const struct work_recipe recipe = {
    .mac_key = mac_key,
    .message_size_max = 100000,
    .history_size_max = 1000,
};

static struct work_ref ref_of(enum work_kind kind, const char *key)
{
    struct work_ref ref = {.kind = kind, .key = bytes_of_text(key), .task_id = 1};

    EXPECT(execution_id_parse(BYTES_LITERAL("0123456789abcdef0123456789abcdef"), ref.execution_id));
    return ref;
}

/* The message without its completion token, which must be a good one for this work. */
static struct bytes without_token(const struct parcel *parcel)
{
    struct pb_reader r = pb_reader_make(buffer_view(&parcel->message));
    struct pb_field f;
    struct bytes rest = buffer_view(&parcel->message);
    bool has_token = false;

    EXPECT_STATUS(OK, message_check(&work_item__descriptor, buffer_view(&parcel->message)));
    while (pb_next(&r, &f)) {
        if (f.number != 10) continue;
        struct arena arena;
        struct work_ref ref;
        arena_init(&arena, mem_process(), 512);
        EXPECT_STATUS(OK, token_read(f.bytes, mac_key, &arena, &ref));
        EXPECT_EQ(parcel->ref.kind, ref.kind);
        EXPECT_BYTES(parcel->ref.key, ref.key);
        arena_release(&arena);
        rest.len -= f.raw.len;
        has_token = true;
    }
    EXPECT(has_token);
    return rest;
}

static void add(struct buffer *events, const char *hex) { strings_add(events, test_hex(hex)); }

#define ORCHESTRATOR_STARTED "08ffffffffffffffffff01120c0880e2cfaa061080cab5ee017200"
#define EXECUTION_STARTED                                                                          \
    "08ffffffffffffffffff01120c0880e2cfaa061080cab5ee011a400a1045315f48656c6c6f53657175656e636522" \
    "2c0a06696e73742d3112220a203031323334353637383961626364656630313233343536373839616263646566"

TEST(a_first_turn_is_what_the_sdks_expect)
{
    struct buffer fresh;
    struct effect_work work = {.ref = ref_of(WORK_TURN, "default/inst-1")};

    buffer_init(&fresh, mem_process());
    add(&fresh, ORCHESTRATOR_STARTED);
    add(&fresh, EXECUTION_STARTED);
    work.fresh = buffer_view(&fresh);
    struct parcel *parcel = work_item_pack(&recipe, NULL, &work);
    EXPECT_BYTES(test_hex("0aaa01" /* four bytes of entityParameters more than the vector */
                          "0a06696e73742d31"
                          "12220a203031323334353637383961626364656630313233343536373839616263646566"
                          "221b" ORCHESTRATOR_STARTED "225b" EXECUTION_STARTED "2a020a00"),
                 without_token(parcel));
    EXPECT(!parcel->is_streamed);
    parcel_free(parcel);
    buffer_release(&fresh);
}

static void never_ring(void *user) { (void)user; }

/* Parcels are used again with their memory by the shard that made them, as empty as new ones; what
 * is too large, or too many, is not kept. */
TEST(parcels_are_used_again)
{
    static struct parcel *parcels[300];
    struct mem mem;
    struct desk *desk;
    struct effect_work work = {.ref = ref_of(WORK_ENTITY, "default/@e@1")};
    mem_init(&mem, SIZE_MAX);
    struct desk_options options = {.mem = &mem, .engine = {.shards_n = 2, .ring = never_ring}};
    EXPECT_STATUS(OK, desk_new(&options, &desk));
    struct work_recipe used = recipe;
    used.desk = desk;

    work.ref.partition = 3;
    work.history_n = 7;
    struct parcel *first = work_item_pack(&used, NULL, &work);
    size_t len = first->message.len;
    first->message.failed = true;
    first->is_streamed = true;
    parcel_free(first);
    work.ref.partition = 2;
    struct parcel *other = work_item_pack(&used, NULL, &work);
    EXPECT(other != first);
    work.ref.partition = 1;
    work.history_n = 0;
    struct parcel *again = work_item_pack(&used, NULL, &work);
    EXPECT(again == first);
    EXPECT_EQ(len, again->message.len);
    EXPECT(!again->message.failed);
    EXPECT(!again->is_streamed);
    EXPECT_EQ(0, again->history_n);
    (void)without_token(again);
    parcel_free(other);

    static uint8_t state[50000];
    memset(state, 's', sizeof state);
    parcel_free(again);
    work.state = maybe_some(bytes_make(state, sizeof state));
    parcel_free(work_item_pack(&used, NULL, &work));
    work.state = (struct maybe){0};
    parcels[0] = work_item_pack(&used, NULL, &work);
    EXPECT(parcels[0]->message.size < sizeof state);

    for (size_t n = 1; n < 300; n++) parcels[n] = work_item_pack(&used, NULL, &work);
    for (size_t n = 0; n < 300; n++) parcel_free(parcels[n]);
    desk_free(desk); /* the others are gone already: the leak checker would tell */
    EXPECT_EQ(0, mem.used);
    mem_release(&mem);
}

TEST(an_activity_is_what_the_sdks_expect)
{
    struct effect_work work = {
        .ref = ref_of(WORK_TASK, "default/inst-1"),
        .scheduled = test_hex("0801120c0880e2cfaa061080cab5ee0132120a0568656c6c6f1a090a0722546f6b79"
                              "6f22"),
        .version = maybe_some(BYTES_LITERAL("effective")), /* not what the SDK is to see */
    };
    struct parcel *parcel = work_item_pack(&recipe, NULL, &work);
    EXPECT_BYTES(
        test_hex("12420a0568656c6c6f1a090a0722546f6b796f22222c0a06696e73742d3112220a2030313233343"
                 "5363738396162636465663031323334353637383961626364656628"
                 "01"),
        without_token(parcel));
    parcel_free(parcel);
}

/* TaskScheduled and ActivityRequest number trace and tags differently. */
TEST(an_activity_keeps_version_trace_and_tags)
{
    struct effect_work work = {.ref = ref_of(WORK_TASK, "h/i")};
    struct buffer event;

    buffer_init(&event, mem_process());
    pb_put_int32(&event, 1, 1);
    pb_put_timestamp(&event, 2, 1);
    struct pb_mark mark = pb_begin(&event, 6, 64);
    pb_put_bytes(&event, 1, BYTES_LITERAL("t"));
    pb_put_string_value(&event, 2, BYTES_LITERAL("v"), true);
    pb_put_string_value(&event, 3, BYTES_NONE, true);
    pb_put_bytes(&event, 4, test_hex("0a0170"));       /* traceParent "p" */
    pb_put_bytes(&event, 5, test_hex("0a016b120176")); /* k = v */
    pb_put_bytes(&event, 5, test_hex("0a016c120177")); /* l = w */
    pb_end(&event, mark);
    work.scheduled = buffer_view(&event);
    struct parcel *parcel = work_item_pack(&recipe, NULL, &work);
    EXPECT_BYTES(
        test_hex(
            "124a"
            "0a0174"
            "12030a0176"
            "1a00"
            "22270a016912220a203031323334353637383961626364656630313233343536373839616263646566"
            "2801"
            "32030a0170"
            "3a060a016b120176"
            "3a060a016c120177"),
        without_token(parcel));
    parcel_free(parcel);
    buffer_release(&event);
}

TEST(an_entity_is_what_the_sdks_expect)
{
    struct buffer fresh;
    struct effect_work work = {.ref = ref_of(WORK_ENTITY, "default/@counter@k1")};

    buffer_init(&fresh, mem_process());
    add(&fresh,
        "08ffffffffffffffffff01120c0880e2cfaa061080cab5ee01ba01300a2431313131313131312d323232322d33"
        "3333332d343434342d353535353535353535353535120361646422030a0131");
    work.fresh = buffer_view(&fresh);
    struct parcel *parcel = work_item_pack(&recipe, NULL, &work);
    EXPECT_BYTES(
        test_hex(
            "2a7d0a0b40636f756e746572406b31122030313233343536373839616263646566303132333435363"
            "738396162636465"
            "66224c08ffffffffffffffffff01120c0880e2cfaa061080cab5ee01ba01300a2431313131313131312"
            "d323232322d333333332d343434342d353535353535353535353535120361646422030a0131"),
        without_token(parcel));
    parcel_free(parcel);
    work.state = maybe_some(BYTES_NONE); /* an empty state is a state */
    parcel = work_item_pack(&recipe, NULL, &work);
    EXPECT_EQ(0x7f, parcel->message.ptr[1]);
    parcel_free(parcel);
    buffer_release(&fresh);
}

/* Past events go with the turn, or are left out when the worker fetches them; what fits no message
 * has none. */
TEST(past_events_are_sent_streamed_or_too_large)
{
    struct buffer past;
    struct buffer fresh;
    struct work_recipe streaming = recipe;
    struct effect_work work = {.ref = ref_of(WORK_TURN, "h/i"), .has_past = true, .history_n = 60};

    streaming.can_stream = true;
    buffer_init(&past, mem_process());
    buffer_init(&fresh, mem_process());
    for (int n = 0; n < 60; n++) add(&past, ORCHESTRATOR_STARTED);
    add(&fresh, ORCHESTRATOR_STARTED);
    work.past = buffer_view(&past);
    work.fresh = buffer_view(&fresh);
    struct parcel *parcel = work_item_pack(&recipe, NULL, &work);
    EXPECT(!parcel->is_streamed);
    EXPECT(without_token(parcel).len > past.len);
    parcel_free(parcel);
    parcel = work_item_pack(&streaming, NULL, &work);
    EXPECT(parcel->is_streamed);
    EXPECT(without_token(parcel).len < 200);
    EXPECT_EQ(60, parcel->history_n);
    EXPECT(parcel->size_full > past.len);
    parcel_free(parcel);

    while (past.len < 100000) add(&past, ORCHESTRATOR_STARTED);
    work.past = buffer_view(&past);
    parcel = work_item_pack(&recipe, NULL, &work);
    EXPECT_EQ(0, parcel->message.len);
    EXPECT(!parcel->message.failed);
    EXPECT(parcel->size_full > 100000);
    parcel_free(parcel);
    parcel = work_item_pack(&streaming, NULL, &work);
    EXPECT(parcel->message.len > 0);
    parcel_free(parcel);
    buffer_release(&past);
    buffer_release(&fresh);
}

TEST(a_worker_says_what_it_wants)
{
    struct work_wish wish;
    struct arena arena;
    struct buffer filters;
    struct buffer b;

    arena_init(&arena, mem_process(), 512);
    EXPECT_STATUS(OK, work_wish_read(BYTES_NONE, &arena, &wish));
    for (int kind = 0; kind < WORK_KINDS_N; kind++) EXPECT_EQ(0, wish.limit[kind]);
    EXPECT(!wish.can_stream);
    EXPECT(!wish.has_filters);

    buffer_init(&filters, mem_process());
    pb_put_bytes(&filters, 1,
                 test_hex("0a024f6e" /* On */
                          "120131"
                          "1200"));                      /* versions "1" and "" */
    pb_put_bytes(&filters, 3, test_hex("0a04436e5472")); /* CnTr */
    pb_put_bytes(&filters, 3, test_hex("0a0178"));
    buffer_init(&b, mem_process());
    pb_put_int32(&b, 1, 5);
    pb_put_int32(&b, 2, -1); /* nonsense: as if it were not there */
    pb_put_int32(&b, 3, 7);
    pb_put_bytes(&b, 10, test_hex("0301"));
    pb_put_bytes(&b, 11, buffer_view(&filters));
    EXPECT_STATUS(OK, work_wish_read(buffer_view(&b), &arena, &wish));
    EXPECT_EQ(5, wish.limit[WORK_TURN]);
    EXPECT_EQ(0, wish.limit[WORK_TASK]);
    EXPECT_EQ(7, wish.limit[WORK_ENTITY]);
    EXPECT(wish.can_stream);
    EXPECT(wish.has_filters);
    EXPECT_EQ(1, wish.filters_n[WORK_TURN]);
    EXPECT_EQ(0, wish.filters_n[WORK_TASK]);
    EXPECT_EQ(2, wish.filters_n[WORK_ENTITY]);
    EXPECT_BYTES(BYTES_LITERAL("On"), wish.filters[WORK_TURN][0].name);
    EXPECT_EQ(2, wish.filters[WORK_TURN][0].versions_n);
    EXPECT_BYTES(BYTES_LITERAL("1"), wish.filters[WORK_TURN][0].versions[0]);
    EXPECT_BYTES(BYTES_NONE, wish.filters[WORK_TURN][0].versions[1]);
    EXPECT_BYTES(BYTES_LITERAL("cntr"), wish.filters[WORK_ENTITY][0].name);
    EXPECT_BYTES(BYTES_LITERAL("x"), wish.filters[WORK_ENTITY][1].name);

    buffer_clear(&b);
    pb_put_varint(&b, 10, 3);
    pb_put_varint(&b, 10, 1); /* not packed */
    EXPECT_STATUS(OK, work_wish_read(buffer_view(&b), &arena, &wish));
    EXPECT(wish.can_stream);
    buffer_clear(&b);
    pb_put_varint(&b, 10, 2);
    pb_put_bytes(&b, 11, BYTES_NONE); /* filters for nothing: it gets nothing */
    EXPECT_STATUS(OK, work_wish_read(buffer_view(&b), &arena, &wish));
    EXPECT(!wish.can_stream);
    EXPECT(wish.has_filters);
    buffer_release(&b);
    buffer_release(&filters);
    arena_release(&arena);
}
