/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts that wait: what is put off, in which order it comes in, and that nothing of it is lost or
 * done twice, whatever crashes. The kit compares live, recovered and reloaded state after each
 * step.
 */
#include "test/lib/partition.h"
#include "test/lib/test.h"

#include <stdio.h>

static const struct backlog_options SMALL = {
    .active_max = 4, .active_max_by_name = 2, .waiting_max = 100, .size_max = 1 << 20};

static struct backlog *backlog_of(struct kit *k) { return k->partitions[0].live_backlog; }

static struct kit *small_kit(struct backlog_options limits)
{
    struct kit *k = kit_new(1, 7);
    kit_limits(k, limits);
    return k;
}

static void start_n(struct kit *k, const char *name, int from, int n)
{
    for (int i = from; i < from + n; i++) {
        char key[64];
        (void)snprintf(key, sizeof key, "hub/%s-%d", name, i);
        EXPECT_STATUS(OK, kit_start(k, key, name, "\"in\""));
    }
}

static const char *status_of(struct kit *k, const char *name, int i)
{
    char key[64];
    (void)snprintf(key, sizeof key, "hub/%s-%d", name, i);
    return kit_status(k, key);
}

/* Beyond the limit of its name a start is acknowledged and takes no memory as an instance. */
TEST(a_start_beyond_the_limit_is_acknowledged_and_waits)
{
    struct kit *k = small_kit(SMALL);
    start_n(k, "a", 0, 3);
    EXPECT_TEXT("PENDING", status_of(k, "a", 1));
    EXPECT_TEXT("none", status_of(k, "a", 2));
    EXPECT(backlog_n(backlog_of(k)) == 1);
    EXPECT(backlog_active_n(backlog_of(k)) == 2);
    bool has_id = false;
    for (int n = 0; n < EXECUTION_ID_SIZE; n++) has_id = has_id || k->execution_id[n] != 0;
    EXPECT(has_id);                       /* the one it will have */
    EXPECT(kit_admit(k, "hub/a-2") == 0); /* no room */
    kit_free(k);
}

/* The instance is the one that was acknowledged: id of the execution, time of creation, input. */
TEST(an_admitted_start_is_what_was_asked_for)
{
    struct kit *k = small_kit(SMALL);
    struct instance_view view;
    start_n(k, "a", 0, 3);
    uint8_t id[EXECUTION_ID_SIZE];
    memcpy(id, k->execution_id, sizeof id);
    int64_t asked_ns = k->now_ns;
    kit_tick_by(k, 5000);
    KIT_TURN(k, "a", act_complete(1, "\"done\""));
    EXPECT(kit_admit(k, "hub/a-2") == 1);
    EXPECT(kit_view(k, "hub/a-2", &view));
    EXPECT(memcmp(view.execution_id, id, sizeof id) == 0);
    EXPECT(view.created_ns >= asked_ns);
    EXPECT(view.created_ns < asked_ns + 1000);
    EXPECT_TEXT("\"in\"", kit_maybe(k, view.input));
    EXPECT(backlog_n(backlog_of(k)) == 0);
    kit_free(k);
}

/* First come, first served: a start does not pass one of its name that waits, although there is
 * room again. */
TEST(a_new_start_does_not_pass_those_that_wait)
{
    struct kit *k = small_kit(SMALL);
    start_n(k, "a", 0, 4);
    KIT_TURN(k, "a", act_complete(1, NULL));
    KIT_TURN(k, "a", act_complete(1, NULL));
    start_n(k, "a", 4, 1);
    EXPECT_TEXT("none", status_of(k, "a", 4));
    EXPECT(kit_admit(k, "hub/a-2") == 2);
    EXPECT_TEXT("PENDING", status_of(k, "a", 2));
    EXPECT_TEXT("PENDING", status_of(k, "a", 3));
    EXPECT_TEXT("none", status_of(k, "a", 4));
    kit_free(k);
}

/* I8: a name whose limit is reached does not hold back others. */
TEST(a_slow_name_does_not_stop_another)
{
    struct kit *k = small_kit(SMALL);
    start_n(k, "slow", 0, 10);
    start_n(k, "fast", 0, 2);
    EXPECT_TEXT("PENDING", status_of(k, "fast", 1));
    start_n(k, "fast", 2, 3);
    KIT_TURN(k, "fast", act_complete(1, NULL));
    KIT_TURN(k, "fast", act_complete(1, NULL));
    EXPECT(kit_admit(k, "hub/fast-2") == 2);
    EXPECT_TEXT("PENDING", status_of(k, "fast", 3));
    EXPECT_TEXT("none", status_of(k, "slow", 2));
    kit_free(k);
}

/* After a crash the line is as it was, also where records were carried forward and stand in another
 * order than the starts came. */
TEST(a_crash_keeps_the_order)
{
    struct kit *k = small_kit(SMALL);
    struct queued old[2];
    start_n(k, "a", 0, 6); /* 2 to 5 wait */
    EXPECT(backlog_oldest(backlog_of(k), UINT64_MAX, old, 2) == 2);
    kit_bring(k, INPUT_BACKLOG_CARRY, &old[0]);
    kit_bring(k, INPUT_BACKLOG_CARRY, &old[1]);
    EXPECT(backlog_n(backlog_of(k)) == 4);
    kit_crash(k, 0);
    EXPECT(backlog_n(backlog_of(k)) == 4);
    KIT_TURN(k, "a", act_complete(1, NULL));
    KIT_TURN(k, "a", act_complete(1, NULL));
    EXPECT(kit_admit(k, "hub/a-2") == 2);
    EXPECT_TEXT("PENDING", status_of(k, "a", 2));
    EXPECT_TEXT("PENDING", status_of(k, "a", 3));
    kit_crash(k, 0);
    EXPECT(backlog_n(backlog_of(k)) == 2);
    EXPECT_TEXT("PENDING", status_of(k, "a", 3));
    kit_free(k);
}

/* What was carried forward does not need its old record any more. */
TEST(a_carried_start_lets_the_journal_go)
{
    struct kit *k = small_kit(SMALL);
    struct queued old;
    start_n(k, "a", 0, 3);
    uint64_t before = backlog_lsn(backlog_of(k));
    EXPECT(backlog_oldest(backlog_of(k), UINT64_MAX, &old, 1) == 1);
    kit_bring(k, INPUT_BACKLOG_CARRY, &old);
    EXPECT(backlog_lsn(backlog_of(k)) > before);
    EXPECT(backlog_oldest(backlog_of(k), UINT64_MAX, &old, 1) == 1);
    KIT_TURN(k, "a", act_complete(1, NULL));
    EXPECT(kit_admit(k, "hub/a-2") == 1);
    EXPECT(backlog_lsn(backlog_of(k)) == UINT64_MAX);
    kit_free(k);
}

/* A record that was read twice, or carried meanwhile, admits once. */
TEST(a_start_is_admitted_once)
{
    struct kit *k = small_kit(SMALL);
    struct queued old;
    start_n(k, "a", 0, 3);
    EXPECT(backlog_oldest(backlog_of(k), UINT64_MAX, &old, 1) == 1);
    kit_bring(k, INPUT_BACKLOG_CARRY, &old);
    kit_bring(k, INPUT_BACKLOG_ADMIT, &old); /* by its old record: the same start */
    EXPECT_TEXT("PENDING", status_of(k, "a", 2));
    kit_bring(k, INPUT_BACKLOG_ADMIT, &old);
    EXPECT(k->records_n == 0);
    kit_bring(k, INPUT_BACKLOG_CARRY, &old);
    EXPECT(k->records_n == 0);
    kit_free(k);
}

/* At the limit the client hears so, in words; what was acknowledged stays. */
TEST(a_full_backlog_refuses)
{
    struct backlog_options limits = SMALL;
    limits.waiting_max = 2;
    struct kit *k = small_kit(limits);
    start_n(k, "a", 0, 4);
    EXPECT_STATUS(E_LIMIT, kit_start(k, "hub/a-4", "a", NULL));
    EXPECT(strstr(k->text, "the backlog is full") != NULL);
    EXPECT(backlog_n(backlog_of(k)) == 2);
    EXPECT_STATUS(OK, kit_start(k, "hub/b-1", "b", NULL)); /* has room */
    kit_free(k);

    limits = SMALL;
    limits.size_max = 500;
    k = small_kit(limits);
    char large[600];
    memset(large, 'x', sizeof large);
    large[sizeof large - 1] = '\0';
    start_n(k, "a", 0, 3);
    EXPECT_STATUS(E_LIMIT, kit_start(k, "hub/a-3", "a", large));
    kit_free(k);
}

/* A rate lets so many through in a second, and no more than a tenth of that at once. */
TEST(a_rate_by_name_holds)
{
    static const struct backlog_rule rules[] = {
        {.name = {(const uint8_t *)"paced", 5}, .has_rate = true, .rate = 20}};
    struct kit *k = small_kit((struct backlog_options){
        .waiting_max = 1000, .size_max = 1 << 20, .rules = rules, .rules_n = 1});
    start_n(k, "paced", 0, 50);
    start_n(k, "free", 0, 5);
    EXPECT_TEXT("PENDING", status_of(k, "free", 4));
    uint64_t waiting_n = backlog_n(backlog_of(k));
    EXPECT(waiting_n >= 46);
    for (int n = 0; n < 10; n++) {
        kit_tick_by(k, 100);
        (void)kit_admit(k, "hub/paced-1");
    }
    uint64_t admitted_n = waiting_n - backlog_n(backlog_of(k));
    EXPECT(admitted_n >= 19);
    EXPECT(admitted_n <= 21);
    kit_free(k);
}

/* Children, starts for later and restarts are part of what was admitted already: they never
 * wait. */
TEST(what_was_admitted_can_finish)
{
    struct kit *k = small_kit((struct backlog_options){
        .active_max = 1, .active_max_by_name = 1, .waiting_max = 9, .size_max = 9999});
    start_n(k, "parent", 0, 1);
    KIT_TURN(k, "parent", act_child(1, "parent", "kid", NULL));
    EXPECT_TEXT("PENDING", kit_status(k, "hub/kid"));
    struct input_start later = {.key = bytes_of_text("hub/later"),
                                .name = bytes_of_text("parent"),
                                .has_scheduled = true,
                                .scheduled_ms = kit_now_ms(k) + 10000};
    EXPECT_STATUS(OK, kit_start_with(k, later));
    EXPECT_TEXT("PENDING", kit_status(k, "hub/later"));
    EXPECT(backlog_n(backlog_of(k)) == 0);
    kit_free(k);
}

/* What is suspended, ended or waits for something makes room; what is resumed counts again. */
TEST(only_what_is_at_work_counts)
{
    struct kit *k = small_kit(SMALL);
    start_n(k, "a", 0, 2);
    EXPECT_STATUS(OK, kit_suspend(k, "hub/a-0", NULL));
    EXPECT(backlog_active_n(backlog_of(k)) == 1);
    start_n(k, "a", 2, 1);
    EXPECT_TEXT("PENDING", status_of(k, "a", 2));
    EXPECT_STATUS(OK, kit_resume(k, "hub/a-0", NULL));
    EXPECT(backlog_active_n(backlog_of(k)) == 3);
    EXPECT_STATUS(OK, kit_terminate(k, "hub/a-0", NULL, false));
    EXPECT_STATUS(OK, kit_purge(k, "hub/a-0"));
    EXPECT(backlog_active_n(backlog_of(k)) == 2);
    /* begins again under another name */
    EXPECT_STATUS(OK, kit_start(k, "hub/a-0", "b", NULL));
    EXPECT(backlog_active_n(backlog_of(k)) == 3);
    KIT_TURN(k, "a", act_timer(1, kit_now_ms(k) + 1000000)); /* one sleeps */
    EXPECT(backlog_active_n(backlog_of(k)) == 2);
    KIT_TURN(k, "a", act_task(1, "t", NULL)); /* one has a step to be done */
    EXPECT(backlog_active_n(backlog_of(k)) == 2);
    kit_free(k);
}

/* While memory is full everything waits, and comes in when it is not. */
TEST(a_held_backlog_lets_nothing_in)
{
    struct kit *k = small_kit(SMALL);
    backlog_hold(backlog_of(k), BACKLOG_ALL);
    start_n(k, "a", 0, 1);
    EXPECT_TEXT("none", status_of(k, "a", 0));
    EXPECT(kit_admit(k, "hub/a-0") == 0);
    backlog_hold(backlog_of(k), BACKLOG_FREE);
    EXPECT(kit_admit(k, "hub/a-0") == 1);
    EXPECT_TEXT("PENDING", status_of(k, "a", 0));
    kit_free(k);
}

static bool serves(void *user, struct bytes name)
{
    return bytes_equal(name, bytes_of_text(*(const char **)user));
}

/* While memory is full a few of what somebody serves come in, and nothing of what nobody does. */
TEST(a_held_backlog_lets_in_a_few_of_what_is_served)
{
    const char *served = "a";
    struct backlog_options limits = SMALL;
    limits.active_max = 0;
    limits.active_max_by_name = 0;
    limits.is_served = serves;
    limits.user = &served;
    struct kit *k = small_kit(limits);
    backlog_hold(backlog_of(k), BACKLOG_SERVED);
    start_n(k, "a", 0, 20);
    start_n(k, "b", 0, 20);
    EXPECT(backlog_active_n(backlog_of(k)) == 16);
    EXPECT(backlog_n(backlog_of(k)) == 24);
    EXPECT(kit_admit(k, "hub/a-0") == 0);
    backlog_hold(backlog_of(k), BACKLOG_SINGLE);
    served = "b";
    EXPECT(kit_admit(k, "hub/a-0") == 0); /* nobody has said so */
    backlog_workers_changed(backlog_of(k));
    EXPECT(kit_admit(k, "hub/a-0") == 1);
    EXPECT_TEXT("PENDING", status_of(k, "b", 0));
    EXPECT(kit_admit(k, "hub/a-0") == 0);
    backlog_hold(backlog_of(k), BACKLOG_SERVED);
    EXPECT(kit_admit(k, "hub/a-0") == 15);
    backlog_hold(backlog_of(k), BACKLOG_FREE);
    EXPECT(kit_admit(k, "hub/a-0") == 8);
    kit_free(k);
}

/* Different keys with one hash are different starts. */
TEST(a_hash_that_is_shared_harms_nobody)
{
    struct backlog_options limits = SMALL;
    limits.hash_mask = 1;
    struct kit *k = small_kit(limits);
    start_n(k, "a", 0, 12);
    EXPECT(backlog_n(backlog_of(k)) == 10);
    for (int done = 0; done < 12; done += 2) {
        KIT_TURN(k, "a", act_complete(1, NULL));
        KIT_TURN(k, "a", act_complete(1, NULL));
        (void)kit_admit(k, "hub/a-0");
        kit_crash(k, 0);
    }
    EXPECT(backlog_n(backlog_of(k)) == 0);
    EXPECT_TEXT("COMPLETED", status_of(k, "a", 11));
    kit_free(k);
}

/* The list is in the order of creation over all names, and goes on where it ended. */
TEST(a_list_of_what_waits_is_in_order)
{
    struct kit *k = small_kit((struct backlog_options){
        .active_max = 1, .active_max_by_name = 1, .waiting_max = 99, .size_max = 99999});
    struct queued page[4];
    uint64_t after = 0;
    uint32_t seen = 0;
    for (int n = 0; n < 10; n++) start_n(k, n % 3 == 0 ? "x" : "y", n, 1);
    for (;;) {
        size_t n = 0;
        EXPECT_STATUS(OK, backlog_list(backlog_of(k), after, false, BYTES_NONE, page, 4, &n));
        for (size_t i = 0; i < n; i++) {
            EXPECT(page[i].order > after);
            after = page[i].order;
            seen++;
        }
        if (n < 4) break;
    }
    EXPECT(seen == 9);
    for (after = UINT64_MAX; seen > 0;) { /* and back */
        size_t n = 0;
        EXPECT_STATUS(OK, backlog_list(backlog_of(k), after, true, BYTES_NONE, page, 4, &n));
        EXPECT(n == 4 || n == seen);
        for (size_t i = 0; i < n; i++) {
            EXPECT(page[i].order < after);
            after = page[i].order;
            seen--;
        }
    }
    struct backlog_name_view names[2];
    EXPECT(backlog_names(backlog_of(k), names, 2) == 2);
    EXPECT(names[0].waiting_n == 6);
    EXPECT(names[1].waiting_n == 3);
    kit_free(k);
}

/* D4: a step that finds no memory changes nothing; the kit fails every allocation in turn. */
TEST(no_memory_puts_nothing_off_halfway)
{
    for (uint64_t at = 1; at < 40; at++) {
        struct kit *k = small_kit(SMALL);
        k->fail_at = at;
        start_n(k, "a", 0, 4);
        KIT_TURN(k, "a", act_complete(1, NULL));
        (void)kit_admit(k, "hub/a-0");
        kit_free(k);
    }
}

/* Recovery meets what was carried forward behind what came later: the line is by order again. */
TEST(lines_are_put_into_their_order)
{
    struct backlog_options options = SMALL;
    struct backlog *b = NULL;
    struct queued page[1000];
    size_t n = 0;
    options.mem = mem_process();
    options.partitions_n = 1;
    options.active_max = options.active_max_by_name = 0;
    EXPECT_STATUS(OK, backlog_new(&options, &b));
    for (uint32_t i = 0; i < 1000; i++) {
        uint64_t order = 1 + i * UINT64_C(7919) % 1009; /* each once, in no order */
        struct queued queued = {.order = order, .lsn = i + 1, .size = 10};
        EXPECT(backlog_reserve(b));
        backlog_add(b, order, &queued, BYTES_LITERAL("o"));
    }
    backlog_sort(b);
    backlog_check(b);
    EXPECT_EQ(1000, backlog_pick(b, 1, UINT64_MAX, page, 1000));
    for (size_t i = 1; i < 1000; i++) EXPECT(page[i - 1].order < page[i].order);
    EXPECT_STATUS(OK, backlog_list(b, page[499].order, false, BYTES_NONE, page, 1000, &n));
    EXPECT_EQ(500, n);
    EXPECT_EQ(1, backlog_lsn(b)); /* by age it is as it came */
    backlog_drop(b, 0);
    EXPECT_EQ(0, backlog_n(b));
    backlog_free(b);
}
