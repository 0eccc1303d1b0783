/* SPDX-License-Identifier: Apache-2.0
 *
 * External events: kept until the orchestrator reads them, in order, each in exactly one execution.
 * S9
 */
#include "test/lib/partition.h"
#include "test/lib/test.h"

#include <stdio.h>

/* Events before the first turn wait behind ExecutionStarted, in their order. D7 */
TEST(events_before_the_start_are_kept)
{
    struct kit *k = kit_new(1, 1);
    kit_start(k, "hub/a", "o", NULL);
    EXPECT_STATUS(OK, kit_raise(k, "hub/a", "x", "1"));
    EXPECT_STATUS(OK, kit_raise(k, "hub/a", "X", ""));
    EXPECT_STATUS(OK, kit_raise(k, "hub/a", "x", NULL));
    EXPECT_TEXT(
        "1 OrchestratorStarted\n2 ExecutionStarted o\n3 EventRaised x 1\n4 EventRaised X ''\n"
        "5 EventRaised x\n",
        kit_fresh(k, kit_must(kit_take_turn(k, "o"))));
    kit_free(k);
}

/* Held while suspended, delivered in arrival order on resume. S23 */
TEST(events_while_suspended_are_held)
{
    struct kit *k = kit_new(1, 1);
    kit_start(k, "hub/a", "o", NULL);
    kit_answer(k, kit_must(kit_take_turn(k, "o")), NULL, 0);
    kit_suspend(k, "hub/a", NULL);
    kit_raise(k, "hub/a", "x", "1");
    kit_raise(k, "hub/a", "x", "2");
    EXPECT(kit_take_turn(k, "o") == NULL);
    kit_crash(k, 0);
    EXPECT(kit_take_turn(k, "o") == NULL);
    kit_resume(k, "hub/a", "go");
    EXPECT_TEXT(
        "1 OrchestratorStarted\n2 EventRaised x 1\n3 EventRaised x 2\n4 ExecutionResumed go\n",
        kit_fresh(k, kit_must(kit_take_turn(k, "o"))));
    kit_free(k);
}

static struct action with_carryover(struct kit *k, struct action action, const char *name,
                                    const char *value, int32_t junk_ref)
{
    struct buffer event;
    struct buffer packed;
    buffer_init(&event, &k->mem);
    buffer_init(&packed, &k->mem);
    event_write_raised(&event, k->now_ns, bytes_of_text(name), maybe_text(value));
    strings_add(&packed, buffer_view(&event));
    if (junk_ref >= 0) {
        buffer_clear(&event);
        event_write_task_completed(&event, k->now_ns, junk_ref, MAYBE_NONE);
        strings_add(&packed, buffer_view(&event));
        strings_add(&packed, BYTES_LITERAL("\xff"));
    }
    action.carryover = arena_copy(&k->arena, buffer_view(&packed));
    buffer_release(&packed);
    buffer_release(&event);
    return action;
}

/* Continue-as-new loses no event: those that the orchestrator gives back come first, then those
 * that it never saw. Nothing but events can be carried. D8 S9 */
TEST(events_cross_continue_as_new)
{
    struct kit *k = kit_new(1, 1);
    kit_start(k, "hub/a", "o", "1");
    kit_raise(k, "hub/a", "seen", "1");
    const struct effect_work *turn = kit_must(kit_take_turn(k, "o"));
    kit_raise(k, "hub/a", "unseen", "2");
    struct action again = with_carryover(k, act_continue(1, "2"), "seen", "1", 7);
    EXPECT_STATUS(OK, KIT_ANSWER(k, turn, again));
    EXPECT_TEXT("1 OrchestratorStarted\n2 ExecutionStarted o 2\n3 EventRaised seen 1\n"
                "4 EventRaised unseen 2\n",
                kit_fresh(k, kit_must(kit_take_turn(k, "o"))));
    kit_free(k);
}

/* Some SDKs write carried events without an event id, which reads as 0. An action with id 0 is
 * still new, also after the instance was out of memory. */
TEST(a_carried_event_does_not_take_an_action_id)
{
    struct kit *k = kit_new(1, 1);
    struct buffer packed;
    struct action again = act_continue(1, NULL);
    kit_start(k, "hub/a", "o", NULL);
    buffer_init(&packed, &k->mem);
    strings_add(&packed,
                BYTES_LITERAL("\x8a\x01\x03\x0a\x01x")); /* {17 eventRaised: {1 name: "x"}} */
    again.carryover = buffer_view(&packed);
    KIT_TURN(k, "o", again);
    kit_answer(k, kit_must(kit_take_turn(k, "o")), NULL, 0);
    EXPECT_HISTORY(k, "hub/a", "1 OrchestratorStarted\n2 ExecutionStarted o\n3 EventRaised #0 x\n");
    EXPECT(kit_evict(k, "hub/a"));
    kit_raise(k, "hub/a", "go", NULL);
    KIT_TURN(k, "o", act_task(0, "t", NULL));
    EXPECT_TEXT("RUNNING", kit_status(k, "hub/a"));
    buffer_release(&packed);
    kit_free(k);
}

/* A newer SDK may know fields that we do not: they come back as they were, from the journal, from
 * the archive and to the worker. */
TEST(unknown_fields_survive)
{
    /* {2 timestamp: {1: 5}, 17 eventRaised: {1 name: "x", 99: 7}, 1000: "new"} */
    struct bytes event =
        BYTES_LITERAL("\x12\x02\x08\x05\x8a\x01\x06\x0a\x01x\x98\x06\x07\xc2\x3e\x03new");
    struct kit *k = kit_new(1, 1);
    struct buffer packed;
    struct action again = act_continue(1, NULL);
    kit_start(k, "hub/a", "o", NULL);
    buffer_init(&packed, &k->mem);
    strings_add(&packed, event);
    again.carryover = buffer_view(&packed);
    KIT_TURN(k, "o", again);
    kit_crash(k, 0);
    kit_answer(k, kit_must(kit_take_turn(k, "o")), NULL, 0);
    EXPECT(kit_evict(k, "hub/a"));
    kit_raise(k, "hub/a", "go", NULL);
    const struct effect_work *turn = kit_must(kit_take_turn(k, "o"));
    struct reader past = reader_make(turn->past);
    struct bytes one = BYTES_NONE;
    for (int n = 0; n < 3; n++) EXPECT(strings_next(&past, &one));
    EXPECT_BYTES(event, one);
    buffer_release(&packed);
    kit_free(k);
}

/* Nobody to tell: unknown ids are an answer, ended instances swallow. */
TEST(events_to_unknown_and_ended_instances)
{
    struct kit *k = kit_new(1, 1);
    EXPECT_STATUS(E_NOT_FOUND, kit_raise(k, "hub/a", "x", NULL));
    kit_start(k, "hub/a", "o", NULL);
    KIT_TURN(k, "o", act_complete(1, NULL));
    EXPECT_STATUS(OK, kit_raise(k, "hub/a", "x", NULL));
    EXPECT_EQ(0, k->records_n);
    EXPECT_EQ(1, core_stats(kit_core(k, "hub/a"))->dropped_messages);
    kit_start(k, "hub/a", "o", NULL); /* and does not keep them for a successor */
    EXPECT_TEXT("1 OrchestratorStarted\n2 ExecutionStarted o\n",
                kit_fresh(k, kit_must(kit_take_turn(k, "o"))));
    kit_free(k);
}

TEST(events_need_a_name)
{
    static char long_name[258];
    struct kit *k = kit_new(1, 1);
    memset(long_name, 'n', 257);
    kit_start(k, "hub/a", "o", NULL);
    EXPECT_STATUS(E_INVALID, kit_raise(k, "hub/a", "", NULL));
    EXPECT_STATUS(E_INVALID, kit_raise(k, "hub/a", long_name, NULL));
    kit_free(k);
}

/* An inbox that nobody reads is bounded, and says so: never silence, never all of the memory. */
TEST(the_inbox_is_bounded)
{
    struct kit *k = kit_new(1, 1);
    k->is_thorough = false;
    kit_start(k, "hub/a", "o", NULL);
    size_t size = (size_t)15 << 20;
    char *large = mem_take(&k->mem, size + 1);
    memset(large, 'x', size);
    large[size] = '\0';
    EXPECT_STATUS(OK, kit_raise(k, "hub/a", "e", large));
    EXPECT_STATUS(OK, kit_raise(k, "hub/a", "e", large));
    EXPECT_STATUS(E_LIMIT, kit_raise(k, "hub/a", "e", large));
    EXPECT_STATUS(OK, kit_raise(k, "hub/a", "e", "small"));
    mem_give(&k->mem, large, size + 1);
    kit_free(k);
}

/* One orchestration sends, another is raised: the sender's history says sent, the receiver's
 * raised. */
TEST(an_event_from_another_orchestration)
{
    for (uint32_t partitions_n = 1; partitions_n <= 4; partitions_n++) {
        struct kit *k = kit_new(partitions_n, 1);
        kit_start(k, "hub/from", "from", NULL);
        kit_start(k, "hub/to", "to", NULL);
        KIT_TURN(k, "from", act_event(0, "to", "hi", "there"), act_event(1, "nobody", "hi", NULL),
                 act_event(2, "", "hi", NULL));
        EXPECT_HISTORY(
            k, "hub/from",
            "1 OrchestratorStarted\n2 ExecutionStarted from\n3 EventSent #0 to hi there\n"
            "4 EventSent #1 nobody hi\n5 EventSent #2 hi\n");
        EXPECT_TEXT("1 OrchestratorStarted\n2 ExecutionStarted to\n3 EventRaised hi there\n",
                    kit_fresh(k, kit_must(kit_take_turn(k, "to"))));
        kit_free(k);
    }
}

static void expect_same_head(struct buffer *event)
{
    static const uint8_t unknown[] = {0xf8, 0x07, 0x01}; /* field 127: read the long way */
    struct event_head plain, other;
    struct mem mem;
    struct buffer longer;

    mem_init(&mem, SIZE_MAX);
    buffer_init(&longer, &mem);
    buffer_append_bytes(&longer, buffer_view(event));
    buffer_append(&longer, unknown, sizeof unknown);
    EXPECT_STATUS(OK, event_peek(buffer_view(event), &plain));
    EXPECT_STATUS(OK, event_peek(buffer_view(&longer), &other));
    EXPECT_EQ(other.kind, plain.kind);
    EXPECT_EQ(other.id, plain.id);
    EXPECT_EQ(other.ref, plain.ref);
    EXPECT_BYTES(other.body, plain.body);
    EXPECT_BYTES(other.stamp, plain.stamp);
    EXPECT_EQ(plain.kind, event_kind_of(buffer_view(event)));
    EXPECT_EQ(plain.kind, event_kind_of(buffer_view(&longer)));
    /* what is cut off says nothing, or less, but nothing else */
    for (size_t len = 0; len < event->len; len++) {
        struct event_head cut;
        if (event_peek(bytes_make(event->ptr, len), &cut) != OK) continue;
        EXPECT(cut.kind == EVENT_UNKNOWN);
    }
    buffer_release(&longer);
    mem_release(&mem);
}

/* Events as the engine writes them have a reader of their own, which says what the other one says:
 * for ids, references and results of every size. */
TEST(short_events_are_read_like_all_others)
{
    /* 2304 has the tag of the time as its second byte */
    static const int32_t ids[] = {0, 1, 127, 128, 300, 2304, INT32_MAX};
    static const size_t sizes[] = {0, 1, 90, 110, 120, 124, 126, 127, 128, 300};
    char text[300];
    struct mem mem;
    struct buffer event;

    memset(text, 't', sizeof text);
    mem_init(&mem, SIZE_MAX);
    buffer_init(&event, &mem);
    event_write_orchestrator_started(&event, INT64_C(1700000000123456789));
    expect_same_head(&event);
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            struct maybe value = maybe_some(bytes_make(text, sizes[s]));
            int64_t now_ns = INT64_C(1700000000123456789) + (int64_t)s * 100000000;
            struct action action = {
                .kind = ACTION_SCHEDULE_TASK,
                .id = ids[i],
                .name = BYTES_LITERAL("step"),
                .input = value,
            };
            buffer_clear(&event);
            event_write_task_scheduled(&event, now_ns, &action);
            expect_same_head(&event);
            buffer_clear(&event);
            event_write_task_completed(&event, now_ns, ids[i], value);
            expect_same_head(&event);
            buffer_clear(&event);
            event_write_task_completed(&event, now_ns, ids[i], MAYBE_NONE);
            expect_same_head(&event);
            buffer_clear(&event);
            event_write_child_completed(&event, now_ns, ids[i], value);
            expect_same_head(&event);
            buffer_clear(&event);
            event_write_child_failed(&event, now_ns, ids[i], value.value);
            expect_same_head(&event);
            buffer_clear(&event);
            event_write_raised(&event, now_ns, BYTES_LITERAL("name"), value);
            expect_same_head(&event);
        }
    }
    buffer_release(&event);
    mem_release(&mem);
}

/* What only looks like one of ours: where a field comes twice, the last one counts. */
TEST(odd_events_are_read_field_by_field)
{
    struct event_head head;

    /* TaskCompleted (7): the id of the task, its result, and the id again */
    EXPECT_STATUS(OK, event_peek(test_hex("08ffffffffffffffffff0112003a06080112000805"), &head));
    EXPECT_EQ(EVENT_TASK_COMPLETED, head.kind);
    EXPECT_EQ(-1, head.id);
    EXPECT_EQ(5, head.ref);
    /* an event of kind 18, then TaskCompleted */
    EXPECT_STATUS(OK, event_peek(test_hex("08ffffffffffffffffff011200920100"
                                          "3a020803"),
                                 &head));
    EXPECT_EQ(EVENT_TASK_COMPLETED, head.kind);
    EXPECT_EQ(3, head.ref);
    EXPECT_EQ(EVENT_TASK_COMPLETED,
              event_kind_of(test_hex("08ffffffffffffffffff0112009201003a020803")));
    /* an id of nine bytes, whose low half is -1 as well */
    EXPECT_STATUS(OK, event_peek(test_hex("08ffffffffffffffff7f1200920100"), &head));
    EXPECT_EQ(-1, head.id);
    EXPECT_EQ(EVENT_GENERIC, head.kind);
    EXPECT_EQ(0, head.stamp.len);
    /* a body that is longer than the event */
    EXPECT_STATUS(E_INVALID, event_peek(test_hex("08ffffffffffffffffff0112003a050803"), &head));
}

/* Every byte of an execution's id has its two digits, and comes back. */
TEST(execution_ids_round_trip)
{
    static const char digits[] = "0123456789abcdef";
    for (unsigned n = 0; n < 256; n++) {
        uint8_t id[EXECUTION_ID_SIZE];
        uint8_t back[EXECUTION_ID_SIZE] = {0};
        char text[EXECUTION_TEXT_SIZE];
        for (unsigned i = 0; i < EXECUTION_ID_SIZE; i++) id[i] = (uint8_t)(n + 37 * i);
        execution_id_text(id, text);
        for (unsigned i = 0; i < EXECUTION_ID_SIZE; i++) {
            EXPECT_EQ(digits[id[i] >> 4], text[2 * i]);
            EXPECT_EQ(digits[id[i] & 15], text[2 * i + 1]);
        }
        EXPECT(execution_id_parse(bytes_make(text, sizeof text), back));
        EXPECT_BYTES(bytes_make(id, sizeof id), bytes_make(back, sizeof back));
    }
}
