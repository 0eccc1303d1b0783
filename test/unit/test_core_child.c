/* SPDX-License-Identifier: Apache-2.0
 *
 * Sub-orchestrations, in the parent's partition and in another: started once, answered once,
 * whatever the network between the partitions does. S8
 */
#include "test/lib/partition.h"
#include "test/lib/test.h"

#include <stdio.h>

/* An id whose instance lives in another partition than hub/p (or in the same one). */
static const char *child_id(struct kit *k, bool is_elsewhere)
{
    static char id[16];
    for (int n = 0; n < 100; n++) {
        char key[32];
        (void)snprintf(id, sizeof id, "c%d", n);
        (void)snprintf(key, sizeof key, "hub/%s", id);
        bool is_other =
            kit_partition_of(k, bytes_of_text(key)) != kit_partition_of(k, BYTES_LITERAL("hub/p"));
        if (is_other == is_elsewhere) return id;
    }
    test_fail(__FILE__, __LINE__, "no such id");
}

static const char *key_of(const char *id)
{
    static char key[64];
    (void)snprintf(key, sizeof key, "hub/%s", id);
    return key;
}

static struct kit *kit_with_child(const char **id, uint32_t partitions_n)
{
    struct kit *k = kit_new(partitions_n, 1);
    *id = child_id(k, partitions_n > 1);
    kit_start(k, "hub/p", "parent", NULL);
    EXPECT_STATUS(OK, KIT_TURN(k, "parent", act_child(3, "child", *id, "arg")));
    return k;
}

static const char *parent_fresh(struct kit *k)
{
    return kit_fresh(k, kit_must(kit_take_turn(k, "parent")));
}

/* The child knows its parent, and its result is the parent's next event. D7 */
TEST(a_child_answers_its_parent)
{
    for (uint32_t n = 1; n <= 2; n++) {
        const char *id = NULL;
        struct kit *k = kit_with_child(&id, n);
        struct instance_view view;
        EXPECT(kit_view(k, key_of(id), &view));
        EXPECT_TEXT("p", kit_bytes(k, view.parent_id));
        EXPECT_TEXT("arg", kit_maybe(k, view.input));
        struct buffer children;
        buffer_init(&children, &k->mem);
        EXPECT(core_children(kit_core(k, "hub/p"), BYTES_LITERAL("hub/p"), &children));
        struct reader r = reader_make(buffer_view(&children));
        struct bytes one;
        EXPECT(strings_next(&r, &one));
        EXPECT_TEXT(id, kit_bytes(k, one));
        EXPECT(!strings_next(&r, &one));
        EXPECT(!core_children(kit_core(k, "hub/p"), BYTES_LITERAL("hub/nobody"), &children));
        buffer_release(&children);
        KIT_TURN(k, "child", act_complete(1, "res"));
        EXPECT_TEXT("1 OrchestratorStarted\n2 SubOrchestrationInstanceCompleted of #3 res\n",
                    parent_fresh(k));
        kit_free(k);
    }
}

/* The child's ExecutionStarted names the parent with its execution, task, name and version. */
TEST(a_child_is_told_who_its_parent_is)
{
    struct kit *k = kit_new(1, 1);
    struct input_start start = {
        .key = BYTES_LITERAL("hub/p"), .name = BYTES_LITERAL("parent"), .version = maybe_text("3")};
    struct action child = act_child(0, "child", "c", NULL);
    struct event_started started;
    struct instance_view parent;
    struct bytes event = BYTES_NONE;
    child.version = maybe_text("4");
    child.trace = maybe_some(BYTES_LITERAL("\x0a\x01t"));
    kit_start_with(k, start);
    KIT_TURN(k, "parent", child);
    EXPECT(kit_view(k, "hub/p", &parent));
    struct reader r = reader_make(kit_must(kit_take_turn(k, "child"))->fresh);
    EXPECT(strings_next(&r, &event));
    EXPECT(strings_next(&r, &event));
    EXPECT_STATUS(OK, event_started_decode(event, &k->arena, &started));
    EXPECT(started.has_parent);
    EXPECT_TEXT("p", kit_bytes(k, started.parent.instance_id));
    EXPECT(started.parent.has_execution_id);
    EXPECT_BYTES(bytes_make(parent.execution_id, EXECUTION_ID_SIZE),
                 bytes_make(started.parent.execution_id, EXECUTION_ID_SIZE));
    EXPECT_EQ(0, started.parent.task_id);
    EXPECT_TEXT("parent", kit_maybe(k, started.parent.name));
    EXPECT_TEXT("3", kit_maybe(k, started.parent.version));
    EXPECT_TEXT("4", kit_maybe(k, started.version));
    EXPECT_BYTES(BYTES_LITERAL("\x0a\x01t"), started.trace.value);
    kit_free(k);
}

/* Failed and terminated children are failures for the parent, with details also for termination. */
TEST(a_childs_failure_reaches_the_parent)
{
    const char *id = NULL;
    struct kit *k = kit_with_child(&id, 2);
    KIT_TURN(k, "child", act_fail(1, "broken"));
    EXPECT_TEXT("1 OrchestratorStarted\n2 SubOrchestrationInstanceFailed of #3 E broken\n",
                parent_fresh(k));
    kit_free(k);

    k = kit_with_child(&id, 2);
    kit_terminate(k, key_of(id), "stop", false);
    EXPECT_TEXT("1 OrchestratorStarted\n2 SubOrchestrationInstanceFailed of #3 "
                "SubOrchestrationTerminated the sub-orchestration was terminated\n",
                parent_fresh(k));
    kit_free(k);
}

/* The id belongs to somebody else who is running: the parent is told, and the other one is left
 * alone. */
TEST(a_taken_id_fails_the_child_and_nothing_else)
{
    struct kit *k = kit_new(1, 1);
    kit_start(k, "hub/c", "other", "mine");
    kit_start(k, "hub/p", "parent", NULL);
    KIT_TURN(k, "parent", act_child(3, "child", "c", "arg"));
    EXPECT_TEXT("1 OrchestratorStarted\n2 SubOrchestrationInstanceFailed of #3 "
                "OrchestrationAlreadyExists an orchestration with the id of this child is already "
                "running\n",
                parent_fresh(k));
    struct instance_view view;
    EXPECT(kit_view(k, "hub/c", &view));
    EXPECT_TEXT("mine", kit_maybe(k, view.input));
    kit_free(k);
}

/* Two children of one turn with the same id: one runs, the other fails. */
TEST(the_same_id_twice_in_a_turn)
{
    struct kit *k = kit_new(1, 1);
    kit_start(k, "hub/p", "parent", NULL);
    KIT_TURN(k, "parent", act_child(1, "child", "c", "1"), act_child(2, "child", "c", "2"));
    const struct effect_work *turn = kit_must(kit_take_turn(k, "parent"));
    EXPECT(strstr(kit_fresh(k, turn), "2 SubOrchestrationInstanceFailed of #2") != NULL);
    kit_answer(k, turn, NULL, 0);
    KIT_TURN(k, "child", act_complete(1, "r"));
    EXPECT_TEXT("1 OrchestratorStarted\n2 SubOrchestrationInstanceCompleted of #1 r\n",
                parent_fresh(k));
    kit_free(k);
}

/* A child without an id gets `<execution id>:<4 hex>`, which no other generation has. */
TEST(a_child_without_id_gets_one)
{
    struct kit *k = kit_new(1, 1);
    struct instance_view view;
    char id[80];
    char text[EXECUTION_TEXT_SIZE + 1] = {0};
    kit_start(k, "hub/p", "parent", NULL);
    EXPECT(kit_view(k, "hub/p", &view));
    execution_id_text(view.execution_id, text);
    KIT_TURN(k, "parent", act_child(0x2a, "child", NULL, NULL),
             act_child(0x12345, "child", NULL, NULL));
    (void)snprintf(id, sizeof id, "hub/%s:002a", text);
    EXPECT_TEXT("PENDING", kit_status(k, id));
    (void)snprintf(id, sizeof id, "hub/%s:00012345", text);
    EXPECT_TEXT("PENDING", kit_status(k, id));
    kit_free(k);
}

/* SDKs retry a failed child under the same id: the finished one is replaced. */
TEST(a_retried_child_replaces_its_predecessor)
{
    const char *id = NULL;
    struct kit *k = kit_with_child(&id, 2);
    KIT_TURN(k, "child", act_fail(1, "once"));
    KIT_TURN(k, "parent", act_child(4, "child", id, "again"));
    KIT_TURN(k, "child", act_complete(1, "good"));
    EXPECT_TEXT("1 OrchestratorStarted\n2 SubOrchestrationInstanceCompleted of #4 good\n",
                parent_fresh(k));
    kit_free(k);
}

/* A parent that has begun a new generation does not hear of the children of the old one. S15 */
TEST(a_continued_parent_ignores_old_children)
{
    const char *id = NULL;
    struct kit *k = kit_with_child(&id, 2);
    kit_raise(k, "hub/p", "e", NULL);
    KIT_TURN(k, "parent", act_continue(9, NULL));
    KIT_TURN(k, "parent", act_timer(3, KIT_START_MS + 100000)); /* the same id, another thing */
    KIT_TURN(k, "child", act_complete(1, "old"));
    EXPECT(kit_take_turn(k, "parent") == NULL);
    EXPECT_TEXT("COMPLETED", kit_status(k, key_of(id)));
    EXPECT_EQ(1, core_stats(kit_core(k, "hub/p"))->dropped_messages);
    kit_free(k);
}

/* A parent that has ended does not hear either. */
TEST(an_ended_parent_ignores_its_child)
{
    const char *id = NULL;
    struct kit *k = kit_with_child(&id, 1);
    kit_terminate(k, "hub/p", NULL, false);
    KIT_TURN(k, "child", act_complete(1, "late"));
    EXPECT_TEXT("TERMINATED", kit_status(k, "hub/p"));
    EXPECT_TEXT("COMPLETED", kit_status(k, key_of(id)));
    kit_free(k);
}

/* ---- the network ---- */

/* A lost message is sent again; the receiver takes it once, however often it comes. */
TEST(a_lost_message_is_sent_again)
{
    struct kit *k = kit_new(2, 1);
    const char *id = child_id(k, true);
    k->is_held = true;
    kit_start(k, "hub/p", "parent", NULL);
    KIT_TURN(k, "parent", act_child(3, "child", id, NULL));
    EXPECT_EQ(1, kit_parcels_n(k));
    kit_drop_at(k, 0);
    kit_tick_by(k, KIT_RESEND_MS - 1);
    EXPECT_EQ(0, kit_parcels_n(k));
    kit_tick_by(k, 1);
    EXPECT_EQ(1, kit_parcels_n(k));
    kit_duplicate_at(k, 0);
    kit_deliver(k);
    EXPECT_TEXT("PENDING", kit_status(k, key_of(id)));
    EXPECT_EQ(1, core_stats(kit_core(k, key_of(id)))->duplicate_messages);
    EXPECT_EQ(1, core_stats(kit_core(k, key_of(id)))->started);
    EXPECT_EQ(INT64_MAX, core_wake_at_ms(kit_core(k, "hub/p"))); /* acknowledged */
    kit_free(k);
}

/* A lost acknowledgement only causes a repetition. */
TEST(a_lost_acknowledgement_is_harmless)
{
    struct kit *k = kit_new(2, 1);
    const char *id = child_id(k, true);
    k->is_held = true;
    kit_start(k, "hub/p", "parent", NULL);
    KIT_TURN(k, "parent", act_child(3, "child", id, NULL));
    kit_deliver_at(k, 0);
    EXPECT_EQ(1, kit_parcels_n(k)); /* the acknowledgement */
    kit_drop_at(k, 0);
    KIT_TURN(k, "child", act_complete(1, "r"));
    kit_deliver(k);
    kit_tick_by(k, KIT_RESEND_MS);
    kit_deliver(k);
    EXPECT_TEXT("1 OrchestratorStarted\n2 SubOrchestrationInstanceCompleted of #3 r\n",
                parent_fresh(k));
    EXPECT_EQ(1, core_stats(kit_core(k, key_of(id)))->started);
    kit_free(k);
}

/* Messages that overtake each other are put back into their order. */
TEST(reordered_messages_arrive_in_order)
{
    struct kit *k = kit_new(2, 1);
    const char *id = child_id(k, true);
    k->is_held = true;
    kit_start(k, "hub/p", "parent", NULL);
    KIT_TURN(k, "parent", act_child(1, "child", id, NULL), act_event(2, id, "e", "1"),
             act_event(3, id, "e", "2"));
    EXPECT_EQ(3, kit_parcels_n(k));
    kit_deliver_at(k, 2); /* too early: not taken, not acknowledged */
    EXPECT_EQ(0, k->records_n);
    kit_deliver_at(k, 1);
    EXPECT_EQ(0, k->records_n);
    kit_deliver(k);
    kit_tick_by(k, KIT_RESEND_MS);
    kit_deliver(k);
    EXPECT_TEXT(
        "1 OrchestratorStarted\n2 ExecutionStarted child\n3 EventRaised e 1\n4 EventRaised e 2\n",
        kit_fresh(k, kit_must(kit_take_turn(k, "child"))));
    kit_free(k);
}

/* A crash of the sender, the receiver or both loses no message. S10 */
TEST(messages_survive_crashes)
{
    for (unsigned who = 1; who < 4; who++) {
        struct kit *k = kit_new(2, 1);
        const char *id = child_id(k, true);
        k->is_held = true;
        kit_start(k, "hub/p", "parent", NULL);
        KIT_TURN(k, "parent", act_child(1, "child", id, NULL));
        kit_drop_at(k, 0);
        for (uint32_t p = 0; p < 2; p++) {
            if (who & 1u << p) kit_crash(k, p);
        }
        kit_tick_by(k, KIT_RESEND_MS);
        kit_deliver(k);
        KIT_TURN(k, "child", act_complete(1, "r"));
        for (uint32_t p = 0; p < 2; p++) {
            if (who & 1u << p) kit_crash(k, p);
        }
        kit_deliver(k);
        EXPECT_TEXT("1 OrchestratorStarted\n2 SubOrchestrationInstanceCompleted of #1 r\n",
                    parent_fresh(k));
        kit_free(k);
    }
}

/* An acknowledgement of what was never sent, or was acknowledged before, changes nothing. */
TEST(stray_acknowledgements_are_ignored)
{
    struct kit *k = kit_new(2, 1);
    for (uint64_t seq = 0; seq < 3; seq++) {
        struct input ack = {.kind = INPUT_PARTITION_ACK};
        ack.ack.from = 1;
        ack.ack.seq = seq;
        kit_step(k, 0, &ack);
        EXPECT_EQ(0, k->records_n);
    }
    kit_free(k);
}

/* What another partition sends is checked, not believed: senseless messages are counted,
 * acknowledged (they would come again for ever) and dropped. */
TEST(senseless_messages_are_dropped)
{
    struct kit *k = kit_new(1, 1);
    struct buffer event;
    buffer_init(&event, &k->mem);
    kit_start(k, "hub/a", "o", NULL);
    KIT_TURN(k, "o", act_child(1, "c", "x", NULL));
    uint64_t seq = 1; /* the child's start was message 1 */
    struct {
        enum message_kind kind;
        const char *target;
        int what;
    } cases[] = {
        {MESSAGE_EVENT, "hub/a", 0},        {MESSAGE_EVENT, "hub/a", 1},
        {MESSAGE_EVENT, "hub/a", 2},        {MESSAGE_CHILD_DONE, "hub/a", 0},
        {MESSAGE_CHILD_DONE, "hub/a", 1},   {MESSAGE_CHILD_DONE, "hub/a", 2},
        {MESSAGE_TERMINATE, "hub/a", 0},    {MESSAGE_TERMINATE, "hub/a", 1},
        {MESSAGE_START_CHILD, "hub/z", 0},  {MESSAGE_START_CHILD, "hub/z", 1},
        {MESSAGE_REWIND_CHILD, "hub/a", 0}, {MESSAGE_REWIND_CHILD, "hub/a", 1},
        {MESSAGE_START_CHILD, "nohub", 3},  {(enum message_kind)99, "hub/a", 1},
    };
    for (size_t n = 0; n < sizeof cases / sizeof cases[0]; n++) {
        struct input in = {.kind = INPUT_PARTITION_MESSAGE};
        struct event_started started = {.name = BYTES_LITERAL("o"),
                                        .instance_id = BYTES_LITERAL("z")};
        buffer_clear(&event);
        if (cases[n].what == 0) buffer_append(&event, "\xff\xff", 2);
        if (cases[n].what == 1) event_write_timer_fired(&event, 0, 1, BYTES_LITERAL("\x62\x00"));
        if (cases[n].what == 2) event_started_write(&event, 0, &started);
        if (cases[n].what == 3) event_started_write(&event, 0, &started);
        in.message.seq = ++seq;
        in.message.kind = cases[n].kind;
        in.message.target = bytes_of_text(cases[n].target);
        in.message.event = buffer_view(&event);
        test_note("case %zu", n);
        kit_step(k, 0, &in);
        EXPECT_EQ(1, k->records_n);
        EXPECT_EQ(n + 1, core_stats(kit_core(k, "hub/a"))->dropped_messages);
    }
    buffer_release(&event);
    kit_free(k);
}

/* More waits than one repetition may carry: the rest follows, nothing is skipped. */
TEST(a_long_outbox_is_sent_in_parts)
{
    enum { N = 200 };
    struct kit *k = kit_new(2, 1);
    static struct action events[N];
    struct instance_view view;
    const char *id = child_id(k, true);
    k->is_held = true;
    k->is_thorough = false;
    kit_start(k, "hub/p", "parent", NULL);
    kit_start(k, key_of(id), "o", NULL);
    for (int32_t n = 0; n < N; n++) events[n] = act_event(n, id, "e", NULL);
    kit_answer(k, kit_must(kit_take_turn(k, "parent")), events, N);
    EXPECT_EQ(N, kit_parcels_n(k));
    while (k->parcels != NULL) kit_drop_at(k, 0);
    for (int n = 0; n < 4; n++) {
        kit_tick_by(k, KIT_RESEND_MS);
        EXPECT(kit_parcels_n(k) <= 64);
        kit_deliver(k);
    }
    EXPECT(kit_view(k, key_of(id), &view));
    EXPECT_EQ(N + 1, view.inbox_n);
    kit_free(k);
}
