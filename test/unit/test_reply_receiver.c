/* SPDX-License-Identifier: Apache-2.0
 *
 * Who may go now, and when to come again: no receiver holds up another.
 */
#include "base/clock.h"
#include "reply/receiver.h"
#include "test/lib/test.h"

#include <stdio.h>

#define JOBS_MAX 1500

static struct reply_job jobs[JOBS_MAX];

static struct receivers *fresh(void)
{
    static struct receivers r;
    memset(jobs, 0, sizeof jobs);
    receivers_init(&r, mem_process());
    return &r;
}

static void end(struct receivers *r)
{
    struct list left;
    list_init(&left);
    receivers_clear(r, &left);
    for (size_t n = 0; n < JOBS_MAX; n++) {
        if (jobs[n].receiver != NULL) jobs[n].receiver->active_n = 0;
    }
    receivers_release(r);
}

/* So many that go, of n for this receiver, from job number `from` on. */
static uint32_t add_many(struct receivers *r, const char *name, size_t from, size_t n,
                         enum receiver_turn wanted)
{
    uint32_t count = 0;
    for (size_t k = from; k < from + n; k++) count += receivers_add(r, &jobs[k], name) == wanted;
    return count;
}

TEST(a_receiver_has_a_few_under_way_and_a_short_queue)
{
    struct receivers *r = fresh();
    EXPECT_EQ(RECEIVER_ACTIVE_MAX, add_many(r, "a:80", 0, RECEIVER_ACTIVE_MAX, RECEIVER_GO));
    EXPECT_EQ(RECEIVER_WAITING_MAX, add_many(r, "a:80", 100, RECEIVER_WAITING_MAX, RECEIVER_WAIT));
    EXPECT_EQ(RECEIVER_LATER, receivers_add(r, &jobs[500], "a:80"));
    EXPECT_EQ(RECEIVER_GO, receivers_add(r, &jobs[501], "b:80")); /* the others do not notice */
    EXPECT(receivers_next(r) == NULL);
    end(r);
}

TEST(those_that_wait_go_in_their_order)
{
    struct receivers *r = fresh();
    struct list refused;
    list_init(&refused);
    add_many(r, "a:80", 0, RECEIVER_ACTIVE_MAX + 2, RECEIVER_GO);
    receivers_done(r, &jobs[3], true, &refused);
    EXPECT(receivers_next(r) == &jobs[RECEIVER_ACTIVE_MAX]);
    EXPECT(receivers_next(r) == NULL);
    receivers_done(r, &jobs[4], true, &refused);
    EXPECT(receivers_next(r) == &jobs[RECEIVER_ACTIVE_MAX + 1]);
    EXPECT(list_is_empty(&refused));
    end(r);
}

/* One that fails gets one at a time, and nobody waits for it, until it hears again. */
TEST(a_receiver_that_fails_holds_nobody)
{
    struct receivers *r = fresh();
    struct list refused;
    list_init(&refused);
    add_many(r, "a:80", 0, RECEIVER_ACTIVE_MAX + 2, RECEIVER_GO);
    receivers_done(r, &jobs[0], false, &refused);
    EXPECT(list_pop_front(&refused) == &jobs[RECEIVER_ACTIVE_MAX].node);
    EXPECT(list_pop_front(&refused) == &jobs[RECEIVER_ACTIVE_MAX + 1].node);
    EXPECT_EQ(RECEIVER_LATER, receivers_add(r, &jobs[50], "a:80"));
    for (size_t n = 1; n < RECEIVER_ACTIVE_MAX; n++) receivers_done(r, &jobs[n], false, &refused);
    EXPECT_EQ(RECEIVER_GO, receivers_add(r, &jobs[51], "a:80"));
    EXPECT_EQ(RECEIVER_LATER, receivers_add(r, &jobs[52], "a:80"));
    receivers_done(r, &jobs[51], true, &refused);
    EXPECT_EQ(2, add_many(r, "a:80", 60, 2, RECEIVER_GO));
    end(r);
}

TEST(there_is_a_limit_over_all)
{
    struct receivers *r = fresh();
    struct list refused;
    char name[32];
    list_init(&refused);
    uint32_t going = 0;
    for (size_t n = 0; n < RECEIVERS_ACTIVE_MAX + 10; n++) {
        snprintf(name, sizeof name, "r%zu:80", n);
        going += receivers_add(r, &jobs[n], name) == RECEIVER_GO;
    }
    EXPECT_EQ(RECEIVERS_ACTIVE_MAX, going);
    EXPECT(receivers_next(r) == NULL);
    receivers_done(r, &jobs[0], true, &refused);
    EXPECT(receivers_next(r) == &jobs[RECEIVERS_ACTIVE_MAX]);
    end(r);
}

/* Idle receivers are forgotten when there are too many to know. */
TEST(only_so_many_receivers_are_known)
{
    struct receivers *r = fresh();
    struct list refused;
    char name[32];
    list_init(&refused);
    EXPECT_EQ(RECEIVER_GO, receivers_add(r, &jobs[0], "busy:80"));
    for (size_t n = 1; n < RECEIVERS_MAX + 50; n++) {
        snprintf(name, sizeof name, "r%zu:80", n);
        EXPECT_EQ(RECEIVER_GO, receivers_add(r, &jobs[n], name));
        receivers_done(r, &jobs[n], true, &refused);
    }
    EXPECT_EQ(RECEIVERS_MAX, r->all_n);
    EXPECT_TEXT("busy:80", jobs[0].receiver->name);
    end(r);
}

/* ---- when to come again ---- */

TEST(delays_double_up_to_their_limit)
{
    struct reply_options options;
    reply_options_init(&options);
    static const int64_t expected_ms[] = {1000,  2000,   4000,   8000,   16000,  32000,
                                          64000, 128000, 256000, 512000, 600000, 600000};
    for (uint32_t n = 0; n < sizeof expected_ms / sizeof *expected_ms; n++) {
        int64_t least = INT64_MAX;
        int64_t most = 0;
        for (uint64_t random = 0; random < 1000000; random += 997) {
            int64_t delay_ms = job_delay_ms(n, random, &options);
            if (delay_ms < least) least = delay_ms;
            if (delay_ms > most) most = delay_ms;
        }
        test_note("try %u: %lld to %lld", n, (long long)least, (long long)most);
        EXPECT(least >= expected_ms[n] * 3 / 4);
        EXPECT(most <= expected_ms[n] * 5 / 4);
        EXPECT(most - least > expected_ms[n] / 3); /* spread */
    }
    EXPECT(job_delay_ms(UINT32_MAX, 0, &options) >= 450000);
}

TEST(a_day_is_enough)
{
    struct reply_options options;
    reply_options_init(&options);
    struct reply_job job = {.created_ns = NS_PER_S};
    int64_t day_ns = 86400 * NS_PER_S;
    EXPECT_EQ(JOB_HEARD, job_decide(&job, true, false, 2 * NS_PER_S, &options));
    EXPECT_EQ(JOB_HEARD, job_decide(&job, true, false, 9 * day_ns, &options));
    EXPECT_EQ(JOB_AGAIN, job_decide(&job, false, false, day_ns, &options));
    EXPECT_EQ(JOB_OVER, job_decide(&job, false, false, day_ns + NS_PER_S, &options));
    EXPECT_EQ(JOB_OVER, job_decide(&job, false, true, 2 * NS_PER_S, &options));
}
