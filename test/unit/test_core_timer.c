/* SPDX-License-Identifier: Apache-2.0
 *
 * Durable timers: of any length, never early, never twice.
 */
#include "base/clock.h"
#include "test/lib/partition.h"
#include "test/lib/test.h"

#include <stdio.h>

static struct kit *kit_with_timer(struct action timer)
{
    struct kit *k = kit_new(1, 1);
    kit_start(k, "hub/a", "o", NULL);
    EXPECT_STATUS(OK, KIT_TURN(k, "o", timer));
    return k;
}

static bool has_fired(struct kit *k)
{
    struct instance_view view;
    EXPECT(kit_view(k, "hub/a", &view));
    return view.inbox_n == 1;
}

/* A timer fires once, in the millisecond after its time, and says its time again. D6 S7 */
TEST(a_timer_fires_at_its_time)
{
    struct kit *k = kit_with_timer(act_timer(4, KIT_START_MS + 3000));
    EXPECT_EQ(KIT_START_MS + 3001, core_wake_at_ms(kit_core(k, "hub/a")));
    kit_tick_to(k, KIT_START_MS + 3000);
    EXPECT(!has_fired(k));
    kit_tick_to(k, KIT_START_MS + 3001);
    EXPECT(has_fired(k));
    kit_tick_to(k, KIT_START_MS + 9000);
    EXPECT_TEXT("1 OrchestratorStarted\n2 TimerFired of #4 at 1700000003500\n",
                kit_fresh(k, kit_must(kit_take_turn(k, "o"))));
    EXPECT_EQ(1, core_stats(kit_core(k, "hub/a"))->timers_fired);
    EXPECT_EQ(INT64_MAX, core_wake_at_ms(kit_core(k, "hub/a")));
    kit_free(k);
}

/* Losing the process between a timer's creation and its time neither loses it nor fires it twice.
 * D6 S10 */
TEST(a_timer_survives_crashes)
{
    struct kit *k = kit_with_timer(act_timer(1, KIT_START_MS + 3000));
    kit_crash(k, 0);
    kit_tick_to(k, KIT_START_MS + 3000);
    kit_crash(k, 0);
    EXPECT(!has_fired(k));
    kit_tick_to(k, KIT_START_MS + 3001);
    EXPECT(has_fired(k));
    kit_crash(k, 0);
    kit_tick_by(k, 10000);
    EXPECT(has_fired(k));
    kit_free(k);
}

/* What is due already fires with the next tick: zero, the past, and the beginning of time. */
TEST(past_timers_fire_at_once)
{
    const int64_t seconds[] = {
        0, -1, 1, KIT_START_MS / 1000, INT64_MIN, INT64_MIN / 1000, INT64_MIN + 1};
    for (size_t n = 0; n < sizeof seconds / sizeof seconds[0]; n++) {
        struct action timer = {.kind = ACTION_CREATE_TIMER, .id = 1, .fire_at_s = seconds[n]};
        struct kit *k = kit_with_timer(timer);
        test_note("case %zu", n);
        EXPECT(!has_fired(k));
        kit_evict(k, "hub/a"); /* whatever it answers: it must not overflow */
        EXPECT(core_wake_at_ms(kit_core(k, "hub/a")) <= kit_now_ms(k));
        kit_tick_by(k, 0);
        EXPECT(has_fired(k));
        kit_free(k);
    }
}

/* "Never" stays in the future: beyond what milliseconds can hold, the year 9999, the end of
 * time. */
TEST(far_timers_do_not_overflow)
{
    const int64_t seconds[] = {INT64_MAX, INT64_MAX - 1, INT64_MAX / 1000, INT64_MAX / 1000 + 1,
                               INT64_C(253402300799)};
    for (size_t n = 0; n < sizeof seconds / sizeof seconds[0]; n++) {
        struct action timer = {
            .kind = ACTION_CREATE_TIMER, .id = 1, .fire_at_s = seconds[n], .fire_at_ns = 999999999};
        struct kit *k = kit_with_timer(timer);
        test_note("case %zu", n);
        kit_tick_once(k, INT64_C(9000000000000000000)); /* the year 2255 */
        EXPECT(!has_fired(k));
        EXPECT(kit_evict(k, "hub/a"));
        EXPECT(core_wake_at_ms(kit_core(k, "hub/a")) > kit_now_ms(k));
        EXPECT(core_wake_at_ms(kit_core(k, "hub/a")) < INT64_MAX);
        kit_free(k);
    }
}

/* 2^31 ms is where 32-bit timers go wrong: 24.8 days are nothing special here. */
TEST(timers_around_two_to_the_31)
{
    for (int64_t off = -1; off <= 1; off++) {
        int64_t at_ms = KIT_START_MS + (INT64_C(1) << 31) + off;
        struct kit *k = kit_with_timer(act_timer(1, at_ms));
        kit_tick_to(k, at_ms);
        EXPECT(!has_fired(k));
        kit_tick_to(k, at_ms + 1);
        EXPECT(has_fired(k));
        kit_free(k);
    }
}

/* The clock has nanoseconds, due times have milliseconds: whatever the rounding, a timer is never
 * early. S7 */
TEST(timers_are_never_early_by_rounding)
{
    const int32_t nanos[] = {0,       1,         499999,    999999,   1000000,
                             1000001, 999000000, 999000001, 999999999};
    int64_t second = KIT_START_MS / 1000 + 10;
    for (size_t n = 0; n < sizeof nanos / sizeof nanos[0]; n++) {
        struct action timer = {
            .kind = ACTION_CREATE_TIMER, .id = 1, .fire_at_s = second, .fire_at_ns = nanos[n]};
        struct kit *k = kit_with_timer(timer);
        int64_t fire_at_ns = second * NS_PER_S + nanos[n];
        test_note("nanos %d", nanos[n]);
        kit_tick_once(k, fire_at_ns - 1);
        EXPECT(!has_fired(k));
        kit_tick_once(k, fire_at_ns + NS_PER_MS); /* at most a millisecond late */
        EXPECT(has_fired(k));
        kit_free(k);
    }
}

/* Equal times fire in the order they were set, also after a restart. */
TEST(equal_times_keep_their_order)
{
    for (int is_crashing = 0; is_crashing < 2; is_crashing++) {
        struct kit *k = kit_new(1, 1);
        int64_t at_ms = KIT_START_MS + 1000;
        kit_start(k, "hub/a", "o", NULL);
        KIT_TURN(k, "o", act_timer(3, at_ms), act_timer(1, at_ms), act_timer(2, at_ms - 1));
        if (is_crashing) kit_crash(k, 0);
        kit_tick_to(k, at_ms + 1);
        EXPECT_TEXT("1 OrchestratorStarted\n2 TimerFired of #2 at 1700000001499\n"
                    "3 TimerFired of #3 at 1700000001500\n4 TimerFired of #1 at 1700000001500\n",
                    kit_fresh(k, kit_must(kit_take_turn(k, "o"))));
        kit_free(k);
    }
}

/* Thousands that are due together do not hold up everything else: a tick takes a bounded part, says
 * that there is more, and in the end every one has fired exactly once. */
TEST(thousands_of_timers_fire_in_bounded_ticks)
{
    enum { N = 3000 };
    struct kit *k = kit_new(1, 1);
    static struct action timers[N];
    struct instance_view view;
    k->is_thorough = false;
    kit_start(k, "hub/a", "o", NULL);
    for (int32_t n = 0; n < N; n++) timers[n] = act_timer(n, KIT_START_MS + 1000);
    kit_answer(k, kit_must(kit_take_turn(k, "o")), timers, N);
    int ticks = 0;
    int64_t at_ns = (KIT_START_MS + 1001) * NS_PER_MS;
    do {
        kit_tick_once(k, at_ns);
        ticks++;
        EXPECT(kit_view(k, "hub/a", &view));
        EXPECT(view.inbox_n <= 256u * (uint32_t)ticks);
    } while (k->has_more);
    EXPECT_EQ(N, view.inbox_n);
    EXPECT_EQ((N + 255) / 256, ticks);
    EXPECT_EQ(N, core_stats(kit_core(k, "hub/a"))->timers_fired);
    kit_free(k);
}

/* The same over many instances, each of which is woken. */
TEST(many_sleepers_wake)
{
    enum { N = 300 };
    struct kit *k = kit_new(1, 1);
    char key[32];
    k->is_thorough = false;
    for (int n = 0; n < N; n++) {
        (void)snprintf(key, sizeof key, "hub/%d", n);
        kit_start(k, key, "o", NULL);
        KIT_TURN(k, "o", act_timer(1, KIT_START_MS + 60000));
    }
    kit_tick_to(k, KIT_START_MS + 60001);
    for (int n = 0; n < N; n++) KIT_TURN(k, "o", act_complete(2, NULL));
    EXPECT_EQ(N, core_stats(kit_core(k, "hub/0"))->finished);
    kit_free(k);
}

/* Timers of an execution that has ended are forgotten. S18 */
TEST(timers_end_with_their_execution)
{
    struct kit *k = kit_new(1, 1);
    kit_start(k, "hub/a", "o", NULL);
    KIT_TURN(k, "o", act_timer(1, KIT_START_MS + 1000), act_continue(2, NULL));
    EXPECT_EQ(INT64_MAX, core_wake_at_ms(kit_core(k, "hub/a")));
    KIT_TURN(k, "o", act_timer(1, KIT_START_MS + 1000), act_complete(2, NULL));
    EXPECT_EQ(INT64_MAX, core_wake_at_ms(kit_core(k, "hub/a")));
    kit_tick_by(k, 5000);
    EXPECT_EQ(0, core_stats(kit_core(k, "hub/a"))->timers_fired);
    kit_free(k);
}
