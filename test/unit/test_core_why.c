/* SPDX-License-Identifier: Apache-2.0
 *
 * "Why is it where it is?", in one line, for every state an instance can be in.
 */
#include "test/lib/partition.h"
#include "test/lib/test.h"

TEST(why_before_the_first_turn)
{
    struct kit *k = kit_new(1, 1);
    struct input_start start = {.key = BYTES_LITERAL("hub/a"),
                                .name = BYTES_LITERAL("o"),
                                .has_scheduled = true,
                                .scheduled_ms = KIT_START_MS + 1000};
    EXPECT_TEXT("", kit_why(k, "hub/a"));
    kit_start_with(k, start);
    EXPECT_TEXT("PENDING: starts at 2023-11-14T22:13:21.500Z", kit_why(k, "hub/a"));
    kit_tick_by(k, 1000);
    EXPECT_TEXT("PENDING: 1 new events wait for a worker of \"o\"", kit_why(k, "hub/a"));
    k->worker = 9;
    const struct effect_work *turn = kit_must(kit_take_turn(k, "o"));
    EXPECT_TEXT("PENDING: its orchestrator runs on worker 9 with 1 new events",
                kit_why(k, "hub/a"));
    kit_abandon(k, turn, "no");
    EXPECT_TEXT("PENDING: its turn failed 1 times and is tried again at 2023-11-14T22:13:21.700Z",
                kit_why(k, "hub/a"));
    kit_suspend(k, "hub/a", NULL);
    EXPECT_TEXT("SUSPENDED: suspended with 2 messages waiting; resume it to go on",
                kit_why(k, "hub/a"));
    kit_terminate(k, "hub/a", NULL, false);
    EXPECT_TEXT("TERMINATED: it has ended; 1 messages were left unread", kit_why(k, "hub/a"));
    kit_free(k);
}

TEST(why_while_it_waits)
{
    struct kit *k = kit_new(1, 1);
    kit_start(k, "hub/a", "o", NULL);
    kit_answer(k, kit_must(kit_take_turn(k, "o")), NULL, 0);
    EXPECT_TEXT("RUNNING: waits for an external event: nothing is under way", kit_why(k, "hub/a"));
    kit_raise(k, "hub/a", "e", NULL);
    KIT_TURN(k, "o", act_timer(1, KIT_START_MS + 5000), act_child(2, "c", "b", NULL));
    EXPECT_TEXT("RUNNING: waits for 0 activities, 1 timers, 1 sub-orchestrations; next timer at "
                "2023-11-14T22:13:25.501Z",
                kit_why(k, "hub/a"));
    kit_raise(k, "hub/a", "e", NULL);
    KIT_TURN(k, "o", act_task(3, "t", NULL));
    EXPECT_TEXT("RUNNING: waits for 1 activities, 1 timers, 1 sub-orchestrations; next timer at "
                "2023-11-14T22:13:25.501Z",
                kit_why(k, "hub/a"));
    EXPECT_TEXT("timer 1 5001\nchild 2 b\n", kit_waits(k, "hub/a"));
    kit_free(k);
}

/* Of a step that is tried again: which attempt, of how many, and when. S8 */
TEST(why_while_a_step_is_tried_again)
{
    struct kit *k = kit_new(1, 1);
    struct policy policy = policy_default;
    policy.complete_by_ms = 1000;
    kit_policy(k, "t", policy);
    kit_start(k, "hub/a", "o", NULL);
    KIT_TURN(k, "o", act_task(1, "t", NULL));
    EXPECT_TEXT("RUNNING: waits for step 1 \"t\": attempt 1 of 20 waits for a worker",
                kit_why(k, "hub/a"));
    EXPECT_TEXT("", kit_last_error(k, "hub/a"));
    k->worker = 7;
    const struct effect_work *task = kit_must(kit_take_task(k, "t"));
    EXPECT_TEXT("RUNNING: waits for step 1 \"t\": attempt 1 of 20 runs on worker 7 until "
                "2023-11-14T22:13:21.500Z",
                kit_why(k, "hub/a"));
    kit_abandon(k, task, "the disk of the printer is full");
    EXPECT_TEXT("RUNNING: waits for step 1 \"t\": attempt 2 of 20, next try at "
                "2023-11-14T22:13:20.700Z",
                kit_why(k, "hub/a"));
    EXPECT_TEXT("the disk of the printer is full", kit_last_error(k, "hub/a"));
    kit_crash(k, 0);
    EXPECT_TEXT("the disk of the printer is full", kit_last_error(k, "hub/a"));
    kit_tick_by(k, 1000);
    EXPECT_STATUS(OK, kit_task_failed(k, kit_must(kit_take_task(k, "t")), "out of stock", false));
    EXPECT_TEXT("out of stock", kit_last_error(k, "hub/a")); /* the orchestrator is about to hear */
    KIT_TURN(k, "o", act_task(2, "u", NULL));
    EXPECT_TEXT("out of stock", kit_last_error(k, "hub/a"));
    kit_raise(k, "hub/a", "e", NULL);
    KIT_TURN(k, "o", act_fail(3, "no more"));
    EXPECT_TEXT("no more", kit_last_error(k, "hub/a"));
    EXPECT_TEXT("", kit_last_error(k, "hub/none"));
    kit_free(k);
}

static enum status refuse(void *user, const struct task_view *view)
{
    (void)view;
    ++*(int *)user;
    return E_CLOSED;
}

static enum status refuse_instance(void *user, const struct instance_view *view)
{
    (void)view;
    ++*(int *)user;
    return E_CLOSED;
}

/* Who looks may stop looking; who asks for what is not there is told. */
TEST(looking_can_be_stopped)
{
    struct kit *k = kit_new(1, 1);
    int calls = 0;
    kit_start(k, "hub/a", "o", NULL);
    kit_start(k, "hub/b", "o", NULL);
    KIT_TURN(k, "o", act_task(1, "t", NULL), act_task(2, "t", NULL), act_timer(3, INT64_MAX));
    struct core *c = kit_core(k, "hub/a");
    EXPECT_STATUS(E_CLOSED, core_tasks(c, BYTES_LITERAL("hub/a"), refuse, &calls));
    EXPECT_EQ(1, calls);
    EXPECT_STATUS(E_NOT_FOUND, core_tasks(c, BYTES_LITERAL("hub/x"), refuse, &calls));
    EXPECT_EQ(1, calls);
    EXPECT_STATUS(E_CLOSED, core_each(c, refuse_instance, &calls));
    EXPECT_EQ(2, calls);
    EXPECT_EQ(2, core_instances_n(c));
    EXPECT_EQ(k->now_ns, core_now_ns(c));
    kit_free(k);
}

/* Every kind has a name for logs; a number that is none does not crash the log. */
TEST(names)
{
    EXPECT_TEXT("CLIENT_START", input_name(INPUT_CLIENT_START));
    EXPECT_TEXT("PARTITION_ACK", input_name(INPUT_PARTITION_ACK));
    EXPECT_TEXT("unknown", input_name((enum input_kind)999));
    EXPECT_TEXT("created", record_name(RECORD_CREATED));
    EXPECT_TEXT("received", record_name(RECORD_RECEIVED));
    EXPECT_TEXT("unknown", record_name((enum record_kind)31));
    EXPECT_TEXT("TaskScheduled", event_name(EVENT_TASK_SCHEDULED));
    EXPECT_TEXT("Unknown", event_name(EVENT_UNKNOWN));
    EXPECT_TEXT("Unknown", event_name((enum event_kind)99));
    const char *const statuses[] = {"RUNNING", "COMPLETED", "CONTINUED_AS_NEW",
                                    "FAILED",  "CANCELED",  "TERMINATED",
                                    "PENDING", "SUSPENDED", "UNKNOWN"};
    for (int n = 0; n < 9; n++) {
        EXPECT_TEXT(statuses[n], orchestration_status_name((enum orchestration_status)n));
    }
}
