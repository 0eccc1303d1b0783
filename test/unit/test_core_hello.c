/* SPDX-License-Identifier: Apache-2.0
 *
 * E1_HelloSequence, the first example of the Durable Task world: three activities one after the
 * other. Its history is compared row by row with what the SDKs' own tests expect, and its events
 * byte by byte with what the SDKs' own code writes.
 */
#include "base/clock.h"
#include "test/lib/partition.h"
#include "test/lib/test.h"
#include "wire/pb.h"

#define KEY "hub/inst-1"
#define RESULT "[\"Hello Tokyo!\",\"Hello Seattle!\",\"Hello London!\"]"

static void run_hello(struct kit *k)
{
    static const char *const cities[] = {"\"Tokyo\"", "\"Seattle\"", "\"London\""};
    static const char *const greetings[] = {"\"Hello Tokyo!\"", "\"Hello Seattle!\"",
                                            "\"Hello London!\""};
    EXPECT_STATUS(OK, kit_start(k, KEY, "E1_HelloSequence", NULL));
    for (int32_t n = 0; n < 3; n++) {
        EXPECT_STATUS(OK, KIT_TURN(k, "E1_HelloSequence", act_task(n + 1, "hello", cities[n])));
        EXPECT_STATUS(OK, kit_task_done(k, kit_must(kit_take_task(k, "hello")), greetings[n]));
    }
    EXPECT_STATUS(OK, KIT_TURN(k, "E1_HelloSequence", act_complete(4, RESULT)));
}

/* The stored history is exactly the twelve rows that every SDK of the gRPC family expects. D1
 * D11 */
TEST(hello_sequence_has_the_golden_history)
{
    struct kit *k = kit_new(1, 1);
    run_hello(k);
    EXPECT_TEXT("COMPLETED", kit_status(k, KEY));
    EXPECT_GOLDEN("e1_hello_sequence.txt", bytes_of_text(kit_history(k, KEY)));
    EXPECT(kit_take_turn(k, "E1_HelloSequence") == NULL);
    kit_free(k);
}

/* The same after a crash between any two steps: nothing is lost, nothing is done twice. S10 D4 */
TEST(hello_sequence_survives_a_crash_after_every_step)
{
    struct kit *k = kit_new(1, 1);
    EXPECT_STATUS(OK, kit_start(k, KEY, "E1_HelloSequence", NULL));
    kit_crash(k, 0);
    for (int32_t n = 1; n <= 3; n++) {
        EXPECT_STATUS(OK, KIT_TURN(k, "E1_HelloSequence", act_task(n, "hello", "x")));
        kit_crash(k, 0);
        EXPECT_STATUS(OK, kit_task_done(k, kit_must(kit_take_task(k, "hello")), "y"));
        kit_crash(k, 0);
    }
    EXPECT_STATUS(OK, KIT_TURN(k, "E1_HelloSequence", act_complete(4, "z")));
    kit_crash(k, 0);
    EXPECT_TEXT("COMPLETED", kit_status(k, KEY));
    struct instance_view view;
    EXPECT(kit_view(k, KEY, &view));
    EXPECT_EQ(12, view.history_n);
    kit_free(k);
}

/* The n-th stored event, counted from 1. */
static struct bytes stored_event(struct kit *k, uint32_t row)
{
    struct buffer packed;
    struct bytes one = BYTES_NONE;
    buffer_init(&packed, &k->mem);
    EXPECT(core_history(kit_core(k, KEY), BYTES_LITERAL(KEY), &packed));
    struct reader r = reader_make(buffer_view(&packed));
    while (row-- > 0) EXPECT(strings_next(&r, &one));
    one = arena_copy(&k->arena, one);
    buffer_release(&packed);
    return one;
}

/* What is on our disk is byte for byte what the JavaScript SDK's own code writes for these events,
 * so that history can go from disk to wire as it is. */
TEST(stored_events_are_the_bytes_of_the_wire)
{
    struct kit *k = kit_new(1, 1);
    run_hello(k);
    EXPECT_BYTES(test_hex("08ffffffffffffffffff01120c0880e2cfaa061080cab5ee017200"),
                 stored_event(k, 1));
    EXPECT_BYTES(
        test_hex("0801120c0880e2cfaa061080cab5ee0132120a0568656c6c6f1a090a0722546f6b796f22"),
        stored_event(k, 3));
    EXPECT_BYTES(test_hex("08ffffffffffffffffff01120c0880e2cfaa061080cab5ee013a14080112100a0e2248"
                          "656c6c6f20546f6b796f2122"),
                 stored_event(k, 5));
    kit_free(k);
}

/* The events that carry an execution id, or a time of their own, are the wire's bytes too. */
TEST(written_events_are_the_bytes_of_the_wire)
{
    struct mem mem;
    struct buffer out;
    mem_init(&mem, SIZE_MAX);
    buffer_init(&out, &mem);
    int64_t now_ns = KIT_START_MS * NS_PER_MS;

    struct event_started started = {.name = BYTES_LITERAL("E1_HelloSequence"),
                                    .instance_id = BYTES_LITERAL("inst-1")};
    EXPECT(execution_id_parse(BYTES_LITERAL("0123456789abcdef0123456789abcdef"),
                              started.execution_id));
    event_started_write(&out, now_ns, &started);
    EXPECT_BYTES(test_hex("08ffffffffffffffffff01120c0880e2cfaa061080cab5ee011a400a1045315f48656c6c"
                          "6f53657175656e6365222c0a06696e73742d3112220a2030313233343536373839616263"
                          "6465663031323334353637383961626364656"
                          "6"),
                 buffer_view(&out));

    struct buffer created;
    buffer_init(&created, &mem);
    struct action timer = act_timer(2, (KIT_START_MS / 1000 + 1) * 1000);
    event_write_timer_created(&created, now_ns, &timer);
    buffer_clear(&out);
    event_write_timer_fired(&out, now_ns, 2, buffer_view(&created));
    EXPECT_BYTES(test_hex("08ffffffffffffffffff01120c0880e2cfaa061080cab5ee016a0a0a060881e2cfaa06"
                          "1002"),
                 buffer_view(&out));
    buffer_release(&created);
    buffer_release(&out);
    mem_release(&mem);
}

/* A worker's answer as the JavaScript SDK sends it becomes the action that it means. */
TEST(answers_of_the_javascript_sdk_are_understood)
{
    struct mem mem;
    struct arena arena;
    struct orchestrator_answer answer;
    mem_init(&mem, SIZE_MAX);
    arena_init(&arena, &mem, 512);
    EXPECT_STATUS(OK,
                  orchestrator_answer_decode(
                      test_hex("0a06696e73742d311216080112120a0568656c6c6f1a090a0722546f6b796f22"
                               "2205746f6b2d30"),
                      &arena, &answer));
    EXPECT_EQ(1, answer.actions_n);
    EXPECT_EQ(ACTION_SCHEDULE_TASK, answer.actions[0].kind);
    EXPECT_EQ(1, answer.actions[0].id);
    EXPECT_BYTES(BYTES_LITERAL("hello"), answer.actions[0].name);
    EXPECT_BYTES(BYTES_LITERAL("\"Tokyo\""), answer.actions[0].input.value);
    EXPECT(!answer.actions[0].version.has);
    EXPECT(!answer.custom_status.has);

    EXPECT_STATUS(OK,
                  orchestrator_answer_decode(
                      test_hex("0a06696e73742d31123b08043237080112330a315b2248656c6c6f20546f6b796f"
                               "21222c2248656c6c6f2053656174746c6521222c2248656c6c6f204c6f6e646f6e"
                               "21225d2205746f6b2d39"),
                      &arena, &answer));
    EXPECT_EQ(1, answer.actions_n);
    EXPECT_EQ(ACTION_COMPLETE, answer.actions[0].kind);
    EXPECT_EQ(STATUS_COMPLETED, answer.actions[0].status);
    EXPECT_BYTES(BYTES_LITERAL(RESULT), answer.actions[0].input.value);
    arena_release(&arena);
    mem_release(&mem);
}

/* One action with these fields, as a worker writes it. */
static void put_action(struct buffer *response, uint32_t kind, int32_t id, struct bytes body)
{
    struct pb_mark action = pb_begin(response, 2, body.len + 8);
    pb_put_int32(response, 1, id);
    pb_put_bytes(response, kind, body);
    pb_end(response, action);
}

static void put_text(struct buffer *b, uint32_t number, const char *text)
{
    pb_put_string_value(b, number, bytes_of_text(text), true);
}

/* An answer with every field of every action that the core uses. */
static void put_every_action(struct buffer *response)
{
    struct buffer body;
    buffer_init(&body, response->mem);
    pb_put_bytes(response, 1, BYTES_LITERAL("inst-1"));

    pb_put_bytes(&body, 1, BYTES_LITERAL("task")); /* scheduleTask */
    put_text(&body, 2, "v1");
    put_text(&body, 3, "in");
    pb_put_bytes(&body, 4, BYTES_LITERAL("tag1"));
    pb_put_bytes(&body, 5, BYTES_LITERAL("trace"));
    pb_put_bytes(&body, 4, BYTES_LITERAL("tag2"));
    put_action(response, 2, 1, buffer_view(&body));

    buffer_clear(&body); /* createSubOrchestration */
    pb_put_bytes(&body, 1, BYTES_LITERAL("child-1"));
    pb_put_bytes(&body, 2, BYTES_LITERAL("child"));
    put_text(&body, 3, "v2");
    put_text(&body, 4, "");
    pb_put_bytes(&body, 5, BYTES_LITERAL("trace"));
    pb_put_bytes(&body, 6, BYTES_LITERAL("tag"));
    put_action(response, 3, 2, buffer_view(&body));

    buffer_clear(&body); /* createTimer */
    pb_put_timestamp_parts(&body, 1, 1700000000, 5);
    put_action(response, 4, 3, buffer_view(&body));

    buffer_clear(&body); /* sendEvent */
    struct pb_mark target = pb_begin(&body, 1, 10);
    pb_put_bytes(&body, 1, BYTES_LITERAL("other"));
    pb_end(&body, target);
    pb_put_bytes(&body, 2, BYTES_LITERAL("hello"));
    put_text(&body, 3, "data");
    put_action(response, 5, 4, buffer_view(&body));

    buffer_clear(&body); /* terminateOrchestration */
    pb_put_bytes(&body, 1, BYTES_LITERAL("victim"));
    put_text(&body, 2, "why");
    pb_put_varint(&body, 3, 1);
    put_action(response, 7, 5, buffer_view(&body));

    buffer_clear(&body); /* completeOrchestration */
    pb_put_varint(&body, 1, STATUS_CONTINUED_AS_NEW);
    put_text(&body, 2, "next");
    put_text(&body, 4, "v3");
    pb_put_bytes(&body, 5, BYTES_LITERAL("event"));
    pb_put_bytes(&body, 6, BYTES_LITERAL("failure"));
    put_action(response, 6, -1, buffer_view(&body));
    put_action(response, 8, 7, BYTES_NONE); /* sendEntityMessage, rewindOrchestration */
    put_action(response, 9, 8, BYTES_NONE);
    put_text(response, 3, "custom");
    pb_put_bytes(response, 6, BYTES_LITERAL("context"));
    buffer_release(&body);
}

/* Every field of every action that the core uses is read from where the protocol has it. */
TEST(every_action_is_read_from_the_wire)
{
    struct mem mem;
    struct arena arena;
    struct buffer response;
    struct orchestrator_answer answer;
    mem_init(&mem, SIZE_MAX);
    arena_init(&arena, &mem, 512);
    buffer_init(&response, &mem);
    put_every_action(&response);
    EXPECT_STATUS(OK, orchestrator_answer_decode(buffer_view(&response), &arena, &answer));
    EXPECT_EQ(8, answer.actions_n);
    EXPECT_BYTES(BYTES_LITERAL("custom"), answer.custom_status.value);
    EXPECT_BYTES(BYTES_LITERAL("context"), answer.trace.value);
    const struct action *a = answer.actions;
    EXPECT_EQ(ACTION_SCHEDULE_TASK, a[0].kind);
    EXPECT_BYTES(BYTES_LITERAL("v1"), a[0].version.value);
    EXPECT_BYTES(BYTES_LITERAL("trace"), a[0].trace.value);
    EXPECT_BYTES(BYTES_LITERAL("\x04tag1\x04tag2"), a[0].tags);
    EXPECT_EQ(ACTION_CREATE_CHILD, a[1].kind);
    EXPECT_BYTES(BYTES_LITERAL("child-1"), a[1].instance_id);
    EXPECT_BYTES(BYTES_LITERAL("child"), a[1].name);
    EXPECT_BYTES(BYTES_LITERAL("v2"), a[1].version.value);
    EXPECT(a[1].input.has);
    EXPECT_EQ(0, a[1].input.value.len);
    EXPECT_BYTES(BYTES_LITERAL("trace"), a[1].trace.value);
    EXPECT_BYTES(BYTES_LITERAL("\x03tag"), a[1].tags);
    EXPECT_EQ(ACTION_CREATE_TIMER, a[2].kind);
    EXPECT_EQ(1700000000, a[2].fire_at_s);
    EXPECT_EQ(5, a[2].fire_at_ns);
    EXPECT_EQ(ACTION_SEND_EVENT, a[3].kind);
    EXPECT_BYTES(BYTES_LITERAL("other"), a[3].instance_id);
    EXPECT_BYTES(BYTES_LITERAL("hello"), a[3].name);
    EXPECT_BYTES(BYTES_LITERAL("data"), a[3].input.value);
    EXPECT_EQ(ACTION_TERMINATE, a[4].kind);
    EXPECT_BYTES(BYTES_LITERAL("victim"), a[4].instance_id);
    EXPECT_BYTES(BYTES_LITERAL("why"), a[4].input.value);
    EXPECT(a[4].recurse);
    EXPECT_EQ(ACTION_COMPLETE, a[5].kind);
    EXPECT_EQ(-1, a[5].id);
    EXPECT_EQ(STATUS_CONTINUED_AS_NEW, a[5].status);
    EXPECT_BYTES(BYTES_LITERAL("next"), a[5].input.value);
    EXPECT_BYTES(BYTES_LITERAL("v3"), a[5].new_version.value);
    EXPECT_BYTES(BYTES_LITERAL("\x05"
                               "event"),
                 a[5].carryover);
    EXPECT_BYTES(BYTES_LITERAL("failure"), a[5].failure.value);
    EXPECT_EQ(ACTION_SEND_ENTITY_MESSAGE, a[6].kind);
    EXPECT_EQ(ACTION_REWIND, a[7].kind);
    buffer_release(&response);
    arena_release(&arena);
    mem_release(&mem);
}
