/* SPDX-License-Identifier: Apache-2.0
 *
 * What waits for an operator can be listed, for as long as it waits. S13 S20
 */
#include "test/lib/partition.h"
#include "test/lib/test.h"

static void park_turn_of(struct kit *k, const char *key)
{
    kit_start(k, key, "o", NULL);
    EXPECT_STATUS(OK, kit_park(k, kit_must(kit_take_turn(k, "o")), "too large"));
}

/* With what it is, why, and since when; which a crash does not change. */
TEST(parked_turns_and_steps_are_listed)
{
    struct kit *k = kit_new(1, 1);
    EXPECT_TEXT("", kit_parked(k, 0));
    park_turn_of(k, "hub/a");
    kit_tick_by(k, 1000);
    kit_start(k, "hub/b", "p", NULL);
    KIT_TURN(k, "p", act_task(1, "t", NULL), act_task(2, "u", NULL), act_timer(3, KIT_START_MS));
    EXPECT_STATUS(OK, kit_park(k, kit_must(kit_take_task(k, "t")), "cannot be sent"));
    const char *both = "hub/a -1 o 0 too large\nhub/b 1 t 1000 cannot be sent\n";
    EXPECT_TEXT(both, kit_parked(k, 0));
    struct core_gauges gauges;
    core_gauges(kit_core(k, "hub/a"), &gauges);
    EXPECT_EQ(2, gauges.parked);
    struct instance_view view;
    EXPECT(kit_view(k, "hub/a", &view) && view.is_parked);
    EXPECT_EQ(0, view.wake_ms);

    kit_tick_by(k, 1000);
    kit_raise(k, "hub/a", "e", NULL); /* changes it, and does not help */
    kit_raise(k, "hub/b", "e", NULL);
    EXPECT_TEXT(both, kit_parked(k, 0));
    kit_crash(k, 0);
    EXPECT_TEXT(both, kit_parked(k, 0));

    EXPECT_STATUS(OK, kit_resubmit(k, "hub/b", 1));
    EXPECT_TEXT("hub/a -1 o 0 too large\n", kit_parked(k, 0));
    EXPECT_STATUS(OK, kit_resume(k, "hub/a", NULL));
    EXPECT_TEXT("", kit_parked(k, 0));
    kit_free(k);
}

/* However it ends, nobody waits for the operator any more. */
TEST(an_end_unlists)
{
    struct kit *k = kit_new(1, 1);
    park_turn_of(k, "hub/a");
    park_turn_of(k, "hub/b");
    park_turn_of(k, "hub/c");
    kit_terminate(k, "hub/a", NULL, false);
    EXPECT_STATUS(OK, kit_purge_forced(k, "hub/b"));
    EXPECT_TEXT("hub/c -1 o 0 too large\n", kit_parked(k, 0));
    EXPECT_STATUS(OK, kit_start_with(k, (struct input_start){.key = BYTES_LITERAL("hub/c"),
                                                             .name = BYTES_LITERAL("o"),
                                                             .reuse = REUSE_TERMINATE,
                                                             .reuse_mask = 1u << STATUS_PENDING}));
    EXPECT_TEXT("", kit_parked(k, 0));
    struct instance_view view;
    EXPECT(kit_view(k, "hub/a", &view) && !view.is_parked);
    kit_free(k);
}

/* A parked one stays in memory, up to the limit; beyond, it leaves and comes back like others. */
TEST(the_list_has_a_limit)
{
    struct kit *k = kit_new(1, 1);
    k->parked_n_max = 1;
    kit_crash(k, 0);
    park_turn_of(k, "hub/a");
    park_turn_of(k, "hub/b");
    EXPECT_TEXT("hub/a -1 o 0 too large\n", kit_parked(k, 0));
    EXPECT(!kit_evict(k, "hub/a"));
    EXPECT(kit_evict(k, "hub/b"));
    EXPECT(strstr(kit_why(k, "hub/b"), "parked: too large") != NULL);
    kit_resume(k, "hub/a", NULL);
    EXPECT_TEXT("", kit_parked(k, 0));
    kit_raise(k, "hub/b", "e", NULL); /* there is room now */
    EXPECT_TEXT("hub/b -1 o 0 too large\n", kit_parked(k, 0));
    kit_free(k);
}

/* A step that fails a thousand times takes no more memory than one that fails twice. */
TEST(errors_do_not_pile_up)
{
    struct kit *k = kit_new(1, 1);
    struct policy policy = policy_default;
    policy.first_threshold = 2000;
    policy.retry_delay_max_ms = 1;
    policy.retry_delay_ms = 1;
    kit_policy(k, "t", policy);
    kit_start(k, "hub/a", "o", NULL);
    KIT_TURN(k, "o", act_task(1, "t", NULL));
    size_t used = 0;
    for (int n = 0; n < 1000; n++) {
        kit_abandon(k, kit_must(kit_take_task(k, "t")), n % 2 ? "short" : "a longer sentence");
        kit_tick_by(k, 1);
        if (n == 10) used = k->live_mem.used;
    }
    EXPECT_EQ(used, k->live_mem.used);
    EXPECT_TEXT("short", kit_last_error(k, "hub/a"));
    kit_free(k);
}
