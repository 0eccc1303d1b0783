/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of leases: what is found by a token, by name, and when the same work was given twice.
 */
#include "base/mem.h"
#include "server/work.h"
#include "test/lib/test.h"

static struct mem mem;
static struct service service;

static void setup(void)
{
    mem_init(&mem, SIZE_MAX);
    service = (struct service){.mem = &mem};
    EXPECT_STATUS(OK, workers_init(&service.workers, &service));
}

static void teardown(void)
{
    EXPECT_EQ(0, service.stats.leases_n);
    workers_stop(&service.workers);
    workers_release(&service.workers);
    EXPECT_EQ(0, mem.used);
    mem_release(&mem);
}

static struct work_ref ref_of(enum work_kind kind, const char *key, int32_t task_id,
                              uint32_t attempt)
{
    return (struct work_ref){
        .kind = kind, .key = bytes_of_text(key), .task_id = task_id, .attempt = attempt};
}

static struct lease *give(enum work_kind kind, const char *key, int32_t task_id, uint32_t attempt)
{
    struct work_ref ref = ref_of(kind, key, task_id, attempt);
    struct lease *lease = lease_new(&service, &ref, 7);

    EXPECT(lease != NULL);
    return lease;
}

static struct lease *find(enum work_kind kind, const char *key, int32_t task_id)
{
    return lease_find(&service.workers, kind, bytes_of_text(key), task_id);
}

static struct lease *of(enum work_kind kind, const char *key, int32_t task_id, uint32_t attempt)
{
    struct work_ref ref = ref_of(kind, key, task_id, attempt);

    return lease_of(&service.workers, &ref);
}

TEST(kind_key_and_task_tell_leases_apart)
{
    setup();
    struct lease *turn = give(WORK_TURN, "h/a", 0, 0);
    struct lease *entity = give(WORK_ENTITY, "h/a", 0, 0);
    struct lease *zero = give(WORK_TASK, "h/a", 0, 0);
    struct lease *one = give(WORK_TASK, "h/a", 1, 0);
    struct lease *other = give(WORK_TASK, "i/a", 1, 0);
    EXPECT(find(WORK_TURN, "h/a", 0) == turn);
    EXPECT(find(WORK_TURN, "h/a", 5) == turn); /* a turn has no task id */
    EXPECT(find(WORK_ENTITY, "h/a", 0) == entity);
    EXPECT(find(WORK_TASK, "h/a", 0) == zero);
    EXPECT(find(WORK_TASK, "h/a", 1) == one);
    EXPECT(find(WORK_TASK, "i/a", 1) == other);
    EXPECT(find(WORK_TASK, "h/a", 2) == NULL);
    EXPECT(find(WORK_TASK, "h/", 1) == NULL);
    uint64_t history_n = 0;
    EXPECT(workers_history_n(&service, BYTES_LITERAL("h/a"), &history_n));
    EXPECT_EQ(7, history_n);
    EXPECT(!workers_history_n(&service, BYTES_LITERAL("i/a"), &history_n));
    lease_end(&service, turn);
    EXPECT(find(WORK_TURN, "h/a", 0) == NULL);
    lease_end(&service, zero);
    lease_end(&service, one);
    lease_end(&service, entity);
    lease_end(&service, other);
    teardown();
}

/* A name of no instance that could exist finds nothing, however long it is. */
TEST(a_long_name_finds_nothing)
{
    static uint8_t name[100000];

    setup();
    memset(name, 'x', sizeof name);
    EXPECT(lease_find(&service.workers, WORK_TURN, bytes_make(name, sizeof name), 0) == NULL);
    EXPECT(lease_find(&service.workers, WORK_TURN, bytes_make(name, 322), 0) == NULL);
    teardown();
}

/* Without a token the last one counts; with one, exactly its own. Whichever ends first, the others
 * are still found. */
TEST(the_same_work_given_three_times_is_three_leases)
{
    static const unsigned orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                          {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};

    for (unsigned n = 0; n < 6; n++) {
        struct lease *leases[3];
        bool is_there[3] = {true, true, true};
        test_note("order %u", n);
        setup();
        for (uint32_t attempt = 0; attempt < 3; attempt++)
            leases[attempt] = give(WORK_TASK, "h/a", 1, attempt);
        EXPECT_EQ(3, service.stats.leases_n);
        for (unsigned step = 0; step < 3; step++) {
            struct lease *newest = NULL;
            for (uint32_t attempt = 0; attempt < 3; attempt++) {
                struct lease *expected = is_there[attempt] ? leases[attempt] : NULL;
                EXPECT(of(WORK_TASK, "h/a", 1, attempt) == expected);
                if (is_there[attempt]) newest = leases[attempt];
            }
            EXPECT(find(WORK_TASK, "h/a", 1) == newest);
            lease_end(&service, leases[orders[n][step]]);
            is_there[orders[n][step]] = false;
        }
        EXPECT(find(WORK_TASK, "h/a", 1) == NULL);
        teardown();
    }
}

/* Every part of a dispatch tells it from another one. */
TEST(a_lease_is_of_one_dispatch)
{
    setup();
    struct lease *lease = give(WORK_TURN, "h/a", 0, 1);
    struct work_ref ref = ref_of(WORK_TURN, "h/a", 0, 1);
    EXPECT(lease_of(&service.workers, &ref) == lease);
    struct work_ref wrong = ref;
    wrong.epoch = 1;
    EXPECT(lease_of(&service.workers, &wrong) == NULL);
    wrong = ref;
    wrong.base = 1;
    EXPECT(lease_of(&service.workers, &wrong) == NULL);
    wrong = ref;
    wrong.execution_id[15] = 1;
    EXPECT(lease_of(&service.workers, &wrong) == NULL);
    wrong = ref;
    wrong.inbox_n = 1;
    EXPECT(lease_of(&service.workers, &wrong) == NULL);
    wrong = ref;
    wrong.started_ns = 1;
    EXPECT(lease_of(&service.workers, &wrong) == NULL);
    lease_end(&service, lease);
    teardown();
}
