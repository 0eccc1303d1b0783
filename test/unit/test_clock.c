/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include "test/lib/test.h"

#define HOUR_NS (3600 * NS_PER_S)
#define YEAR_NS (8766 * HOUR_NS)
#define START_NS (INT64_C(1700000000) * NS_PER_S)

/* A machine whose wall clock can be set; the monotonic clock only goes on. */
struct machine {
    int64_t wall_ns;
    int64_t mono_ns;
    struct clock clock;
};

static void machine_init(struct machine *m)
{
    m->wall_ns = START_NS;
    m->mono_ns = 5 * NS_PER_S;
    clock_init(&m->clock, 0, m->wall_ns, m->mono_ns);
}

/* Lets time pass and asks the engine's clock, which must not have gone back. */
static int64_t machine_run(struct machine *m, int64_t passed_ns)
{
    int64_t before_ns = m->clock.now_ns;

    m->wall_ns += passed_ns;
    m->mono_ns += passed_ns;
    int64_t now_ns = clock_advance(&m->clock, m->wall_ns, m->mono_ns);
    EXPECT(now_ns >= before_ns);
    return now_ns;
}

/* In ordinary times the engine's clock is the wall clock, to the nanosecond. */
TEST(follows_the_wall_clock)
{
    struct machine m;

    machine_init(&m);
    EXPECT_EQ(START_NS, m.clock.now_ns);
    for (int i = 1; i <= 100; i++) {
        int64_t now_ns = machine_run(&m, i);
        EXPECT_EQ(m.wall_ns, now_ns);
    }
}

/* A clock set forward is believed at once: what is due by it is due. */
TEST(a_step_forward_is_followed_at_once)
{
    const int64_t steps_ns[] = {NS_PER_S, HOUR_NS, YEAR_NS};

    for (size_t i = 0; i < 3; i++) {
        struct machine m;
        test_note("step %zu", i);
        machine_init(&m);
        m.wall_ns += steps_ns[i];
        EXPECT_EQ(START_NS + steps_ns[i] + NS_PER_MS, machine_run(&m, NS_PER_MS));
    }
}

/* After a step back, time neither repeats nor stands still: a timer of 9 s fires after 10 s. */
TEST(after_a_step_back_time_goes_on_at_nine_tenths)
{
    const int64_t steps_ns[] = {NS_PER_S, HOUR_NS, YEAR_NS};

    for (size_t i = 0; i < 3; i++) {
        struct machine m;
        test_note("step %zu", i);
        machine_init(&m);
        m.wall_ns -= steps_ns[i];
        for (int ms = 0; ms < 9999; ms++) machine_run(&m, NS_PER_MS);
        EXPECT_EQ(START_NS + 9 * NS_PER_S, machine_run(&m, NS_PER_MS));
    }
}

/* The difference shrinks by a tenth of the time that passes, to nothing, and then both are one. */
TEST(converges_after_a_step_back)
{
    const int64_t steps_ns[] = {NS_PER_S, HOUR_NS, YEAR_NS};

    for (size_t i = 0; i < 3; i++) {
        struct machine m;
        test_note("step %zu", i);
        machine_init(&m);
        m.wall_ns -= steps_ns[i];
        for (int part = 0; part < 999; part++) machine_run(&m, steps_ns[i] / 100);
        EXPECT(m.clock.now_ns > m.wall_ns);
        int64_t now_ns = machine_run(&m, steps_ns[i] / 100);
        EXPECT_EQ(m.wall_ns, now_ns);
        now_ns = machine_run(&m, NS_PER_MS);
        EXPECT_EQ(m.wall_ns, now_ns);
    }
}

/* A long pause (suspended laptop) while the clock is behind must not overshoot the wall clock. */
TEST(one_long_turn_ends_at_the_wall_clock)
{
    struct machine m;

    machine_init(&m);
    m.wall_ns -= HOUR_NS;
    machine_run(&m, NS_PER_S);
    int64_t now_ns = machine_run(&m, YEAR_NS);
    EXPECT_EQ(m.wall_ns, now_ns);
}

/* Whatever the wall clock does, no answer is before an earlier one (machine_run expects it). */
TEST(never_goes_back_when_the_wall_clock_jumps_to_and_fro)
{
    const int64_t jumps_ns[] = {-NS_PER_S, HOUR_NS, -YEAR_NS, NS_PER_S, -HOUR_NS, YEAR_NS, -1, 1};
    struct machine m;

    machine_init(&m);
    for (int i = 0; i < 800; i++) {
        int64_t before_ns = m.clock.now_ns;
        test_note("jump %d", i);
        m.wall_ns += jumps_ns[i % 8];
        machine_run(&m, NS_PER_MS);
        EXPECT(m.clock.now_ns > before_ns);
    }
}

/* A monotonic clock that goes back is a fault of the machine: no time passes, none is taken
 * back. */
TEST(a_monotonic_clock_that_goes_back_changes_nothing)
{
    struct machine m;

    machine_init(&m);
    m.wall_ns -= HOUR_NS;
    int64_t now_ns = machine_run(&m, 10 * NS_PER_S);
    EXPECT_EQ(now_ns, clock_advance(&m.clock, m.wall_ns, m.mono_ns - NS_PER_S));
    EXPECT_EQ(now_ns, clock_advance(&m.clock, m.wall_ns, m.mono_ns));
}

/* After a restart with the wall clock set back, events must not be older than those on disk. */
TEST(starts_no_earlier_than_durable_data)
{
    struct clock c;

    clock_init(&c, START_NS + HOUR_NS, START_NS, 7);
    EXPECT_EQ(START_NS + HOUR_NS, c.now_ns);
    EXPECT_EQ(START_NS + HOUR_NS + 9, clock_advance(&c, START_NS + 10, 17));
    clock_init(&c, START_NS, START_NS + HOUR_NS, 7);
    EXPECT_EQ(START_NS + HOUR_NS, c.now_ns);
}

/* The system's clocks are read in nanoseconds, since 1970 for the wall clock (here: after 2023). */
TEST(the_system_clocks_go_on)
{
    int64_t mono_ns = clock_mono_ns();
    int64_t cpu_ns = clock_cpu_ns();

    EXPECT(clock_wall_ns() > START_NS);
    EXPECT(clock_mono_ns() >= mono_ns);
    EXPECT(cpu_ns > 0);
    EXPECT(clock_cpu_ns() >= cpu_ns);
}
