/* SPDX-License-Identifier: Apache-2.0
 *
 * How the server asks its engine how it is: without waiting, once for all who ask, and with an
 * answer for everybody whatever the engine does. The engine here is a list of what was posted.
 */
#include "server/vitals.h"

#include "base/clock.h"
#include "host/host.h"
#include "test/lib/test.h"

#define SHARDS_N 3

static struct request *posted[16];
static unsigned posted_n;
static unsigned rings_n;
static uint32_t refusing_shard; /* SHARDS_N = none */
static struct vitals *vitals;

struct asker {
    struct vitals_asker asker;
    unsigned answers_n;
    uint64_t started; /* of the stats; UINT64_MAX = NULL was given */
    uint64_t disk_free;
    bool asks_again;
};

static bool post(void *user, struct request *request)
{
    (void)user;
    (void)request;
    test_fail(__FILE__, __LINE__, "STATS are for one shard");
}

static bool post_to(void *user, uint32_t shard, struct request *request)
{
    (void)user;
    EXPECT(shard < SHARDS_N);
    if (shard == refusing_shard) return false;
    EXPECT_EQ(REQUEST_STATS, request->kind);
    posted[posted_n++] = request;
    return true;
}

static void ring(void *user)
{
    (void)user;
    rings_n++;
}

static void on_answer(struct vitals_asker *asker, const struct host_stats *stats)
{
    struct asker *a = container_of(asker, struct asker, asker);

    a->answers_n++;
    a->started = stats == NULL ? UINT64_MAX : stats->core.started;
    a->disk_free = stats == NULL ? 0 : stats->disk_free;
    if (!a->asks_again) return;
    a->asks_again = false;
    vitals_ask(vitals, 0, asker);
}

static void begin(void)
{
    static const uint64_t mac_key[2] = {1, 2};
    struct desk_engine engine = {
        .post = post, .post_to = post_to, .shards_n = SHARDS_N, .mac_key = mac_key, .ring = ring};

    posted_n = 0;
    rings_n = 0;
    refusing_shard = SHARDS_N;
    EXPECT_STATUS(OK, vitals_new(mem_process(), &engine, &vitals));
}

static void ask(struct asker *a, int64_t now_ns)
{
    *a = (struct asker){.asker = {.answer = on_answer}};
    vitals_ask(vitals, now_ns, &a->asker);
}

/* As the shard's thread does. */
static void answer(unsigned n, uint64_t started, enum status status)
{
    posted[n]->stats->core.started = started;
    posted[n]->stats->disk_free = 1000 + started;
    posted[n]->status = status;
    posted[n]->done(posted[n]);
}

TEST(the_shards_are_summed_when_the_last_has_answered)
{
    struct asker a;

    begin();
    ask(&a, 0);
    EXPECT_EQ(SHARDS_N, posted_n);
    answer(1, 20, OK);
    answer(0, 1, OK);
    EXPECT_EQ(2, rings_n);
    vitals_bell(vitals);
    EXPECT_EQ(0, a.answers_n);
    answer(2, 300, OK);
    vitals_bell(vitals);
    EXPECT_EQ(1, a.answers_n);
    EXPECT_EQ(321, a.started);
    EXPECT_EQ(1001, a.disk_free); /* the least */
    EXPECT_EQ(INT64_MAX, vitals_tick(vitals, INT64_MAX - 1));
    vitals_free(vitals);
}

/* However many ask, the engine has one request per shard to answer. */
TEST(who_asks_meanwhile_gets_the_same_answer)
{
    struct asker a, b;

    begin();
    ask(&a, 0);
    answer(0, 1, OK);
    vitals_bell(vitals);
    ask(&b, 5);
    EXPECT_EQ(SHARDS_N, posted_n);
    answer(1, 1, OK);
    answer(2, 1, OK);
    vitals_bell(vitals);
    EXPECT_EQ(3, a.started);
    EXPECT_EQ(3, b.started);
    vitals_free(vitals);
}

/* A probe of a sick engine is answered too; what comes late is for nobody, and ends the round. */
TEST(an_engine_that_does_not_answer_is_told_as_such)
{
    struct asker a, b;
    int64_t due_ns = VITALS_TIMEOUT_MS * NS_PER_MS;

    begin();
    ask(&a, 0);
    EXPECT_EQ(due_ns, vitals_tick(vitals, due_ns - 1));
    EXPECT_EQ(0, a.answers_n);
    EXPECT_EQ(INT64_MAX, vitals_tick(vitals, due_ns));
    EXPECT_EQ(1, a.answers_n);
    EXPECT(a.started == UINT64_MAX);
    ask(&b, due_ns);
    EXPECT_EQ(SHARDS_N, posted_n); /* the late round is still under way */
    for (unsigned i = 0; i < SHARDS_N; i++) answer(i, 2, OK);
    vitals_bell(vitals);
    EXPECT_EQ(6, b.started);
    EXPECT_EQ(1, a.answers_n);
    vitals_free(vitals);
}

TEST(a_shard_that_refuses_or_fails_makes_no_sum)
{
    struct asker a;

    begin();
    refusing_shard = 1;
    ask(&a, 0);
    EXPECT_EQ(SHARDS_N - 1, posted_n);
    answer(0, 1, OK);
    answer(1, 1, OK);
    vitals_bell(vitals);
    EXPECT_EQ(1, a.answers_n);
    EXPECT(a.started == UINT64_MAX);

    refusing_shard = SHARDS_N;
    posted_n = 0;
    ask(&a, 0);
    answer(0, 1, OK);
    answer(1, 1, E_CLOSED);
    answer(2, 1, OK);
    vitals_bell(vitals);
    EXPECT(a.started == UINT64_MAX);
    vitals_free(vitals);
}

/* The watchdog asks again from within its answer. */
TEST(an_asker_may_ask_again_at_once)
{
    struct asker a;

    begin();
    ask(&a, 0);
    a.asks_again = true;
    for (unsigned i = 0; i < SHARDS_N; i++) answer(i, 1, OK);
    vitals_bell(vitals);
    EXPECT_EQ(1, a.answers_n);
    EXPECT_EQ(2 * SHARDS_N, posted_n);
    for (unsigned i = SHARDS_N; i < 2 * SHARDS_N; i++) answer(i, 5, OK);
    vitals_bell(vitals);
    EXPECT_EQ(2, a.answers_n);
    EXPECT_EQ(15, a.started);
    vitals_free(vitals);
}

/* At the end the engine has answered everything (E_CLOSED), and nobody is left waiting. */
TEST(the_end_answers_who_still_waits)
{
    struct asker a;

    begin();
    ask(&a, 0);
    for (unsigned i = 0; i < SHARDS_N; i++) answer(i, 1, E_CLOSED);
    vitals_free(vitals);
    EXPECT_EQ(1, a.answers_n);
    EXPECT(a.started == UINT64_MAX);
}
