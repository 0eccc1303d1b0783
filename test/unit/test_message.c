/* SPDX-License-Identifier: Apache-2.0
 *
 * Decoding into the generated types: faithful for what is valid, a status for everything else.
 */
#include "base/arena.h"
#include "base/mem.h"
#include "test/lib/test.h"
#include "wire/message.h"
#include "wire/pb.h"

/* One decoded message with everything it needs; released by shelf_release(). */
struct shelf {
    struct mem mem;
    struct arena arena;
    struct buffer buffer;
};

static void shelf_init(struct shelf *s)
{
    mem_init(&s->mem, SIZE_MAX);
    arena_init(&s->arena, &s->mem, 512);
    buffer_init(&s->buffer, &s->mem);
}

static void shelf_release(struct shelf *s)
{
    buffer_release(&s->buffer);
    arena_release(&s->arena);
    mem_release(&s->mem);
}

static enum status decode_status(const ProtobufCMessageDescriptor *type, struct bytes bytes)
{
    struct shelf s;
    ProtobufCMessage *message = NULL;

    shelf_init(&s);
    const enum status status = message_decode(type, bytes, &s.arena, &message);
    EXPECT_EQ(status == OK, message != NULL);
    const enum status checked =
        message_check(type, bytes); /* the same, with room for more fields */
    EXPECT(status == checked || status == E_NOMEM || (status == E_LIMIT && checked == OK));
    shelf_release(&s);
    return status;
}

/* Decodes `hex`, encodes it again and compares with `expected_hex`. */
static void expect_encoded(const ProtobufCMessageDescriptor *type, const char *hex,
                           const char *expected_hex)
{
    struct shelf s;
    ProtobufCMessage *message;

    shelf_init(&s);
    EXPECT_STATUS(OK, message_decode(type, test_hex(hex), &s.arena, &message));
    EXPECT_STATUS(OK, message_encode(message, &s.buffer));
    EXPECT_BYTES(test_hex(expected_hex), buffer_view(&s.buffer));
    shelf_release(&s);
}

#define START "0a06696e73742d31121045315f48656c6c6f53657175656e636522002a00"

/* A message is its own: the bytes it came from may go away. */
TEST(decoded_message_borrows_nothing)
{
    struct shelf s;
    ProtobufCMessage *message;
    uint8_t copy[64];
    const struct bytes bytes = test_hex(START);

    shelf_init(&s);
    EXPECT(bytes.len <= sizeof copy);
    memcpy(copy, bytes.ptr, bytes.len);
    EXPECT_STATUS(OK, message_decode(&create_instance_request__descriptor,
                                     bytes_make(copy, bytes.len), &s.arena, &message));
    memset(copy, 0xff, sizeof copy);
    const CreateInstanceRequest *request = (const CreateInstanceRequest *)message;
    EXPECT_TEXT("inst-1", request->instance_id);
    EXPECT_TEXT("E1_HelloSequence", request->name);
    EXPECT(request->version == NULL);
    EXPECT(request->input != NULL);
    EXPECT_TEXT("", request->input->value);
    shelf_release(&s);
}

/* What a newer SDK sends and we do not know is given back, at every level, of every wire type. */
TEST(unknown_fields_survive)
{
    const char *hex = "a00601"               /* 100: varint 1 */
                      "0a0169"               /* instance_id "i" */
                      "a9060102030405060708" /* 101: fixed64 */
                      "22089801050a01781000" /* input "x" between 19: 5 and 2: 0 */
                      "b20603ff00fe"         /* 102: bytes that are no UTF-8 */
                      "42080a016b1201761809" /* tag k=v with 3: 9 */
                      "bd0601020304"         /* 103: fixed32 */
                      "a00602"               /* 100 again: 2 */
                      "b206810061";          /* 102 with a length in two bytes */
    const char *expected = "0a0169"          /* the known fields first, in their order */
                           "22080a01789801051000"
                           "42080a016b1201761809"
                           "a00601" /* then the others as they came */
                           "a9060102030405060708"
                           "b20603ff00fe"
                           "bd0601020304"
                           "a00602"
                           "b206810061";

    expect_encoded(&create_instance_request__descriptor, hex, expected);
}

/* A chain of failures, each inside the one before, `levels` messages in all. */
static void put_failure_chain(struct buffer *b, int levels)
{
    if (levels == 1) return;
    const struct pb_mark mark = pb_begin(b, 4, 0);
    put_failure_chain(b, levels - 1);
    pb_end(b, mark);
}

/* Nesting ends at the limit; far beyond it the stack is not touched either. */
TEST(nesting_is_limited)
{
    struct buffer b;

    buffer_init(&b, mem_process());
    put_failure_chain(&b, MESSAGE_DEPTH_MAX);
    EXPECT_STATUS(OK, decode_status(&task_failure_details__descriptor, buffer_view(&b)));
    buffer_clear(&b);
    put_failure_chain(&b, MESSAGE_DEPTH_MAX + 1);
    EXPECT_STATUS(E_LIMIT, decode_status(&task_failure_details__descriptor, buffer_view(&b)));
    buffer_clear(&b);
    put_failure_chain(&b, 1000);
    EXPECT_STATUS(E_LIMIT, decode_status(&task_failure_details__descriptor, buffer_view(&b)));
    buffer_release(&b);
}

/* Fields are counted wherever they are: unknown, nested, or elements of a packed field. */
TEST(fields_are_limited)
{
    struct buffer b;
    static uint8_t ones[MESSAGE_FIELDS_MAX];

    buffer_init(&b, mem_process());
    for (size_t i = 0; i < MESSAGE_FIELDS_MAX; i++) pb_put_varint(&b, 9, i & 1);
    EXPECT_STATUS(OK, decode_status(&get_instance_request__descriptor, buffer_view(&b)));
    pb_put_varint(&b, 9, 0);
    EXPECT_STATUS(E_LIMIT, decode_status(&get_instance_request__descriptor, buffer_view(&b)));

    buffer_clear(&b);
    for (size_t i = 0; i < MESSAGE_FIELDS_MAX / 2; i++) {
        pb_put_bytes(&b, 1, BYTES_LITERAL("\x08\x07")); /* an event with its id: two fields */
    }
    EXPECT_STATUS(OK, decode_status(&history_chunk__descriptor, buffer_view(&b)));
    pb_put_bytes(&b, 1, BYTES_NONE);
    EXPECT_STATUS(E_LIMIT, decode_status(&history_chunk__descriptor, buffer_view(&b)));

    buffer_clear(&b);
    memset(ones, 1, sizeof ones);
    pb_put_bytes(&b, 1, bytes_make(ones, sizeof ones - 1));
    EXPECT_STATUS(OK, decode_status(&list_instance_ids_request__descriptor, buffer_view(&b)));
    pb_put_varint(&b, 4, 1);
    EXPECT_STATUS(E_LIMIT, decode_status(&list_instance_ids_request__descriptor, buffer_view(&b)));
    buffer_release(&b);
}

/* Checking costs time only, so it goes further than decoding: as far as an answer with as many
 * actions as the core takes, each with all that it may say. */
TEST(fields_are_limited_when_checked_too)
{
    struct buffer b;

    buffer_init(&b, mem_process());
    for (size_t i = 0; i < MESSAGE_CHECK_FIELDS_MAX; i++) pb_put_varint(&b, 9, i & 1);
    EXPECT_STATUS(OK, message_check(&get_instance_request__descriptor, buffer_view(&b)));
    EXPECT_STATUS(E_LIMIT, decode_status(&get_instance_request__descriptor, buffer_view(&b)));
    pb_put_varint(&b, 9, 0);
    EXPECT_STATUS(E_LIMIT, message_check(&get_instance_request__descriptor, buffer_view(&b)));
    buffer_release(&b);
}

/* Text fields are UTF-8 without NUL; the same bytes in an unknown field are nobody's business. */
TEST(text_must_be_utf8)
{
    static const char *const bad[] = {
        "0a01ff",   "0a02c080",   "0a03eda080", "0a04f4908080",
        "0a02e282", "0a03610062", "0a0100",     "1a030a01ff", /* in a wrapper */
    };

    expect_encoded(&raise_event_request__descriptor, "0a04f09f9880", "0a04f09f9880");
    expect_encoded(&raise_event_request__descriptor, "a20602ff00", "a20602ff00");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        test_note("%s", bad[i]);
        EXPECT_STATUS(E_INVALID, decode_status(&raise_event_request__descriptor, test_hex(bad[i])));
    }
}

/* A known field of another wire type is refused: protobuf-c would fail, or read a bool from it. */
TEST(wire_types_must_match)
{
    static const char *const bad[] = {
        "0801",               /* instance_id as a number */
        "12020801",           /* get_inputs_and_outputs as a message */
        "1501000000",         /* as a fixed32 */
        "110100000000000000", /* as a fixed64 */
    };

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        test_note("%s", bad[i]);
        EXPECT_STATUS(E_INVALID,
                      decode_status(&get_instance_request__descriptor, test_hex(bad[i])));
    }
    /* A packed field must not be a submessage, nor its elements anything but varints. */
    EXPECT_STATUS(E_INVALID,
                  decode_status(&list_instance_ids_request__descriptor, test_hex("0a0180")));
    EXPECT_STATUS(E_INVALID,
                  decode_status(&list_instance_ids_request__descriptor, test_hex("0d01000000")));
}

/* Malformed bytes inside a submessage are malformed bytes. */
TEST(malformed_bytes_are_refused)
{
    static const char *const bad[] = {"0a", "0a05", "1a020a05", "1a0180", "08", "1b1c", "0000"};

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        test_note("%s", bad[i]);
        EXPECT_STATUS(E_INVALID, decode_status(&raise_event_request__descriptor, test_hex(bad[i])));
    }
}

/* protobuf-c's merge of a submessage that comes twice loses fields: it never gets that far. */
TEST(submessages_come_once)
{
    EXPECT_STATUS(E_INVALID, decode_status(&raise_event_request__descriptor,
                                           test_hex("1a030a01611a030a0162")));
    /* the same member of a oneof */
    EXPECT_STATUS(E_INVALID, decode_status(&history_event__descriptor, test_hex("72007200")));
    /* repeated ones may, of course */
    expect_encoded(&history_chunk__descriptor, "0a0208010a020802", "0a0208010a020802");
}

/* As in the standard, the last value of a plain field and the last member of a oneof count. */
TEST(the_last_value_counts)
{
    expect_encoded(&get_instance_request__descriptor, "0a016110010a01621000", "0a0162");
    expect_encoded(&history_event__descriptor, "72007a00", "7a00");
    expect_encoded(&history_event__descriptor, "7a007200", "7200");
    /* members of different kinds in one union: text, message, text */
    expect_encoded(&purge_instances_request__descriptor, "0a016122030a0178", "22030a0178");
    expect_encoded(&purge_instances_request__descriptor, "22030a01780a0161", "0a0161");
    /* number, text, bool, list of a property value */
    expect_encoded(&google__protobuf__value__descriptor, "11000000000000f03f1a01782001", "2001");
    expect_encoded(&google__protobuf__value__descriptor, "20013200", "3200");
    expect_encoded(&google__protobuf__value__descriptor, "32000800", "0800");
}

/* Statuses may come packed (every SDK today) or one by one, and mixed. */
TEST(packed_and_unpacked_are_the_same)
{
    expect_encoded(&list_instance_ids_request__descriptor, "0a03010305", "0a03010305");
    expect_encoded(&list_instance_ids_request__descriptor, "080108030805", "0a03010305");
    expect_encoded(&list_instance_ids_request__descriptor, "0a0201030805", "0a03010305");
    expect_encoded(&list_instance_ids_request__descriptor, "0a00", "");
}

/* Both meanings of the reuse policy can be read: statuses alone, and statuses with an action. */
TEST(reuse_policy_has_both_meanings)
{
    struct shelf s;
    ProtobufCMessage *message;

    shelf_init(&s);
    EXPECT_STATUS(OK, message_decode(&create_instance_request__descriptor, test_hex("32040a020103"),
                                     &s.arena, &message));
    const OrchestrationIdReusePolicy *policy =
        ((const CreateInstanceRequest *)message)->orchestration_id_reuse_policy;
    EXPECT(policy != NULL);
    EXPECT_EQ(2, policy->n_replaceable_status);
    EXPECT_EQ(ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_COMPLETED, policy->replaceable_status[0]);
    EXPECT_EQ(ORCHESTRATION_STATUS__ORCHESTRATION_STATUS_FAILED, policy->replaceable_status[1]);
    EXPECT_EQ(CREATE_ORCHESTRATION_ACTION__ERROR, policy->action);

    EXPECT_STATUS(OK, message_decode(&create_instance_request__descriptor,
                                     test_hex("32050a01001002"), &s.arena, &message));
    policy = ((const CreateInstanceRequest *)message)->orchestration_id_reuse_policy;
    EXPECT_EQ(1, policy->n_replaceable_status);
    EXPECT_EQ(CREATE_ORCHESTRATION_ACTION__TERMINATE, policy->action);
    shelf_release(&s);
}

/* An enum value of a newer protocol is kept as its number. */
TEST(enums_are_open)
{
    expect_encoded(&execution_completed_event__descriptor, "08e707", "08e707");
    expect_encoded(&get_work_items_request__descriptor, "520363e707", "520363e707");
}

/* A worker's answer that touches every way protobuf-c allocates: submessages, a table beyond 16
 * fields, repeated fields, text, unknown fields, a map, a oneof set twice. */
static void put_rich_answer(struct buffer *b)
{
    for (int i = 0; i < 20; i++) {
        const struct pb_mark action = pb_begin(b, 2, 0);
        pb_put_plain_int32(b, 1, i);
        const struct pb_mark task = pb_begin(b, 2, 0);
        pb_put_bytes(b, 1, BYTES_LITERAL("hello"));
        pb_put_string_value(b, 3, BYTES_LITERAL("\"Tokyo\""), true);
        const struct pb_mark tag = pb_begin(b, 4, 0);
        pb_put_bytes(b, 1, BYTES_LITERAL("k"));
        pb_put_bytes(b, 2, BYTES_LITERAL("v"));
        pb_end(b, tag);
        pb_end(b, task);
        pb_put_bytes(b, 4, BYTES_NONE);
        pb_put_varint(b, 77, 5);
        pb_end(b, action);
    }
    pb_put_string_value(b, 3, BYTES_LITERAL("status"), true);
    pb_put_bytes(b, 4, BYTES_LITERAL("token"));
    pb_put_bytes(b, 99, BYTES_LITERAL("\xff"));
}

/* Wherever the cap on memory strikes, the answer is E_LIMIT and nothing is damaged. */
TEST(memory_is_limited)
{
    struct buffer b;
    size_t limit = 0;

    buffer_init(&b, mem_process());
    put_rich_answer(&b);
    for (;; limit++) {
        struct shelf s;
        ProtobufCMessage *message = NULL;

        test_note("limit %zu", limit);
        EXPECT(limit < 100000);
        shelf_init(&s);
        const enum status status = message_decode_within(
            &orchestrator_response__descriptor, buffer_view(&b), &s.arena, limit, &message);
        shelf_release(&s);
        if (status == OK) break;
        EXPECT_STATUS(E_LIMIT, status);
        EXPECT(message == NULL);
    }
    /* What was allowed at last is the sum of all parts, not the largest of them. */
    EXPECT(limit > 20 * (sizeof(OrchestratorAction) + sizeof(ScheduleTaskAction)));
    buffer_release(&b);
}

/* Each allocation of memory in turn fails: E_NOMEM, and everything can be released. */
TEST(survives_every_failed_allocation)
{
    struct buffer b;
    uint64_t n = 1;

    buffer_init(&b, mem_process());
    put_rich_answer(&b);
    for (;; n++) {
        struct shelf s;
        ProtobufCMessage *message = NULL;

        test_note("allocation %d", (int)n);
        EXPECT(n < 1000);
        shelf_init(&s);
        s.mem.fail_at = n;
        enum status status =
            message_decode(&orchestrator_response__descriptor, buffer_view(&b), &s.arena, &message);
        EXPECT_EQ(status == OK, message != NULL);
        if (status == OK) status = message_encode(message, &s.buffer);
        if (status != OK) EXPECT_EQ(0, s.buffer.len);
        shelf_release(&s);
        if (status == OK) break;
        EXPECT_STATUS(E_NOMEM, status);
    }
    EXPECT(n > 2);
    buffer_release(&b);
}

/* Encoding appends, and what was there before stays. */
TEST(encode_appends)
{
    struct shelf s;
    CreateInstanceResponse response = CREATE_INSTANCE_RESPONSE__INIT;

    shelf_init(&s);
    buffer_append(&s.buffer, "abc", 3);
    EXPECT_STATUS(OK, message_encode(&response.base, &s.buffer));
    response.instance_id = "x";
    EXPECT_STATUS(OK, message_encode(&response.base, &s.buffer));
    EXPECT_BYTES(test_hex("6162630a0178"), buffer_view(&s.buffer));
    shelf_release(&s);
}

/* Every single-bit error in a rich message is refused, or decodes to something that encodes and
 * decodes to itself; protobuf-c never fails on what the check let pass. */
TEST(every_flipped_bit_is_safe)
{
    struct buffer b;
    size_t refused_n = 0;

    buffer_init(&b, mem_process());
    put_rich_answer(&b);
    const size_t bits_n = b.len * 8;
    for (size_t bit = 0; bit < bits_n; bit++) {
        struct shelf s;
        ProtobufCMessage *message;

        test_note("bit %zu", bit);
        b.ptr[bit / 8] ^= (uint8_t)(1u << (bit % 8));
        shelf_init(&s);
        const enum status check =
            message_check(&orchestrator_response__descriptor, buffer_view(&b));
        const enum status status =
            message_decode(&orchestrator_response__descriptor, buffer_view(&b), &s.arena, &message);
        EXPECT_STATUS(check, status);
        if (status == OK) {
            EXPECT_STATUS(OK, message_encode(message, &s.buffer));
            const size_t len = s.buffer.len;
            EXPECT_STATUS(OK, message_decode(&orchestrator_response__descriptor,
                                             buffer_view(&s.buffer), &s.arena, &message));
            EXPECT_STATUS(OK, message_encode(message, &s.buffer));
            EXPECT_BYTES(bytes_make(s.buffer.ptr, len),
                         bytes_make(s.buffer.ptr + len, s.buffer.len - len));
        } else {
            refused_n++;
        }
        shelf_release(&s);
        b.ptr[bit / 8] ^= (uint8_t)(1u << (bit % 8));
    }
    EXPECT(refused_n > bits_n / 10);
    EXPECT(refused_n < bits_n);
    buffer_release(&b);
}
