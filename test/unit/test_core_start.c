/* SPDX-License-Identifier: Apache-2.0
 *
 * Starting: what is refused, when it begins, and what happens when the id exists.
 */
#include "test/lib/partition.h"
#include "test/lib/test.h"

#include <stdio.h>

static struct input_start start_of(const char *key)
{
    return (struct input_start){.key = bytes_of_text(key), .name = BYTES_LITERAL("o")};
}

/* A start is acknowledged with the id, and the instance is pending until its first turn. D11 */
TEST(a_started_instance_is_pending)
{
    struct kit *k = kit_new(1, 1);
    struct instance_view view;
    EXPECT_STATUS(OK, kit_start(k, "hub/a", "o", "{}"));
    EXPECT(kit_view(k, "hub/a", &view));
    EXPECT_EQ(STATUS_PENDING, view.status);
    EXPECT_BYTES(bytes_make(view.execution_id, EXECUTION_ID_SIZE),
                 bytes_make(k->execution_id, EXECUTION_ID_SIZE));
    EXPECT_TEXT("{}", kit_maybe(k, view.input));
    EXPECT_EQ(k->now_ns, view.created_ns);
    EXPECT_EQ(0, view.history_n);
    EXPECT_EQ(1, core_stats(kit_core(k, "hub/a"))->started);
    EXPECT_TEXT("hub/a PENDING\n", kit_bytes(k, buffer_view(&k->statuses)));
    kit_free(k);
}

/* Absent and empty input are two things, and both come back as they were given. */
TEST(null_and_empty_input_stay_apart)
{
    struct kit *k = kit_new(1, 1);
    struct instance_view view;
    kit_start(k, "hub/a", "o", NULL);
    kit_start(k, "hub/b", "o", "");
    EXPECT(kit_view(k, "hub/a", &view));
    EXPECT_TEXT("(none)", kit_maybe(k, view.input));
    EXPECT(kit_view(k, "hub/b", &view));
    EXPECT_TEXT("", kit_maybe(k, view.input));
    kit_free(k);
}

/* Name, version, tags, trace and input reach the worker's ExecutionStarted as they were given.
 * D11 */
TEST(everything_of_a_start_reaches_the_worker)
{
    struct kit *k = kit_new(1, 1);
    struct input_start start = start_of("hub/a");
    struct event_started started;
    struct buffer tags;
    buffer_init(&tags, &k->mem);
    strings_add(&tags, BYTES_LITERAL("\x0a\x01k\x12\x01v"));
    strings_add(&tags, BYTES_LITERAL("\x0a\x01q\x12\x01w"));
    start.version = maybe_text("2.1");
    start.input = maybe_text("in");
    start.trace = maybe_some(BYTES_LITERAL("\x0a\x03"
                                           "abc"));
    start.tags = buffer_view(&tags);
    EXPECT_STATUS(OK, kit_start_with(k, start));

    const struct effect_work *work = kit_must(kit_take_turn(k, "o"));
    EXPECT_TEXT("2.1", kit_maybe(k, work->version));
    struct reader r = reader_make(work->fresh);
    struct bytes event;
    EXPECT(strings_next(&r, &event));
    EXPECT(strings_next(&r, &event));
    EXPECT_STATUS(OK, event_started_decode(event, &k->arena, &started));
    EXPECT_TEXT("o", kit_bytes(k, started.name));
    EXPECT_TEXT("2.1", kit_maybe(k, started.version));
    EXPECT_TEXT("in", kit_maybe(k, started.input));
    EXPECT_TEXT("a", kit_bytes(k, started.instance_id));
    EXPECT_BYTES(BYTES_LITERAL("\x0a\x03"
                               "abc"),
                 started.trace.value);
    EXPECT_BYTES(buffer_view(&tags), started.tags);
    EXPECT_BYTES(bytes_make(work->ref.execution_id, EXECUTION_ID_SIZE),
                 bytes_make(started.execution_id, EXECUTION_ID_SIZE));
    EXPECT(!started.has_parent);
    struct instance_view view;
    EXPECT(kit_view(k, "hub/a", &view));
    EXPECT_BYTES(buffer_view(&tags), view.tags);
    buffer_release(&tags);
    kit_free(k);
}

struct bad_start {
    const char *id;
    const char *name;
    const char *says;
};

/* A wrong request is refused in words and leaves nothing behind. */
TEST(wrong_ids_and_names_are_refused)
{
    static char long_id[102];
    static char long_name[258];
    memset(long_id, 'x', 101);
    memset(long_name, 'n', 257);
    const struct bad_start cases[] = {
        {"", "o", "the instance id is empty"},
        {long_id, "o", "length"},
        {"@e@k", "o", "'@'"},
        {"a/b", "o", "must not have"},
        {"a\\b", "o", "must not have"},
        {"a#b", "o", "must not have"},
        {"a?b", "o", "must not have"},
        {"a\x01", "o", "control"},
        {"a\x7f", "o", "control"},
        {"a\xff", "o", "UTF-8"},
        {"a", "", "name of the orchestrator is empty"},
        {"a", long_name, "longer"},
        {"a", "\xc0\x80", "UTF-8"},
    };
    struct kit *k = kit_new(1, 1);
    for (size_t n = 0; n < sizeof cases / sizeof cases[0]; n++) {
        char key[128];
        (void)snprintf(key, sizeof key, "hub/%s", cases[n].id);
        test_note("case %zu", n);
        EXPECT_STATUS(E_INVALID, kit_start(k, key, cases[n].name, NULL));
        EXPECT(strstr(k->text, cases[n].says) != NULL);
        EXPECT_EQ(0, k->records_n);
    }
    long_id[100] = '\0'; /* a hundred are allowed */
    char key[128];
    (void)snprintf(key, sizeof key, "hub/%s", long_id);
    EXPECT_STATUS(OK, kit_start(k, key, "o", NULL));
    long_name[256] = '\0';
    EXPECT_STATUS(OK, kit_start(k, "hub/n", long_name, NULL));
    struct input_start start = start_of("hub/v");
    long_name[256] = 'n';
    start.version = maybe_text(long_name);
    EXPECT_STATUS(E_INVALID, kit_start_with(k, start));
    EXPECT_EQ(2, core_instances_n(kit_core(k, "hub/n")));
    kit_free(k);
}

/* What cannot be stored is refused at the door, with what to do instead. */
TEST(an_input_beyond_the_limit_is_refused)
{
    struct kit *k = kit_new(1, 1);
    struct input_start start = start_of("hub/a");
    size_t size = ((size_t)16 << 20) + 1;
    char *input = mem_take_zero(&k->mem, size);
    start.input = maybe_some(bytes_make(input, size));
    EXPECT_STATUS(E_LIMIT, kit_start_with(k, start));
    EXPECT_EQ(0, k->records_n);
    mem_give(&k->mem, input, size);
    kit_free(k);
}

/* Before its time a scheduled instance is offered to nobody; at it, to the first who asks. D11 */
TEST(a_scheduled_start_waits_for_its_time)
{
    struct kit *k = kit_new(1, 1);
    struct input_start start = start_of("hub/a");
    start.has_scheduled = true;
    start.scheduled_ms = KIT_START_MS + 5000;
    EXPECT_STATUS(OK, kit_start_with(k, start));
    EXPECT_TEXT("PENDING", kit_status(k, "hub/a"));
    EXPECT(kit_take_turn(k, "o") == NULL);
    kit_tick_to(k, KIT_START_MS + 4999);
    EXPECT(kit_take_turn(k, "o") == NULL);
    kit_crash(k, 0);
    EXPECT(kit_take_turn(k, "o") == NULL);
    kit_tick_to(k, KIT_START_MS + 5000);
    EXPECT(kit_take_turn(k, "o") != NULL);
    struct instance_view view;
    EXPECT(kit_view(k, "hub/a", &view));
    EXPECT_EQ(KIT_START_MS + 5000, view.scheduled_ms);
    kit_free(k);
}

/* Some SDKs always send a start time, zero when the user gave none: past and zero mean now. */
TEST(a_scheduled_start_in_the_past_is_now)
{
    const int64_t times[] = {0, 1, KIT_START_MS, KIT_START_MS - 1, -1, INT64_MIN};
    for (size_t n = 0; n < sizeof times / sizeof times[0]; n++) {
        struct kit *k = kit_new(1, 1);
        struct input_start start = start_of("hub/a");
        start.has_scheduled = true;
        start.scheduled_ms = times[n];
        test_note("case %zu", n);
        EXPECT_STATUS(OK, kit_start_with(k, start));
        EXPECT(kit_take_turn(k, "o") != NULL);
        kit_free(k);
    }
}

/* "Never" is a legal start time: it does not overflow into "now". */
TEST(a_start_in_the_farthest_future_never_comes)
{
    struct kit *k = kit_new(1, 1);
    struct input_start start = start_of("hub/a");
    start.has_scheduled = true;
    start.scheduled_ms = INT64_MAX;
    EXPECT_STATUS(OK, kit_start_with(k, start));
    kit_tick_once(k, INT64_C(9000000000000000000));
    EXPECT(kit_take_turn(k, "o") == NULL);
    EXPECT_STATUS(OK, kit_terminate(k, "hub/a", "never mind", false));
    EXPECT_TEXT("TERMINATED", kit_status(k, "hub/a"));
    kit_free(k);
}

/* ---- the id exists ---- */

/* Brings hub/a into a status. */
static void put_into(struct kit *k, enum orchestration_status status)
{
    struct action canceled = act_complete(1, NULL);
    canceled.status = STATUS_CANCELED;
    EXPECT_STATUS(OK, kit_start(k, "hub/a", "o", "old"));
    switch (status) {
    case STATUS_PENDING: break;
    case STATUS_RUNNING: KIT_TURN(k, "o", act_timer(1, KIT_START_MS + 1000000)); break;
    case STATUS_COMPLETED: KIT_TURN(k, "o", act_complete(1, "r")); break;
    case STATUS_FAILED: KIT_TURN(k, "o", act_fail(1, "f")); break;
    case STATUS_CANCELED: KIT_TURN(k, "o", canceled); break;
    case STATUS_TERMINATED: kit_terminate(k, "hub/a", NULL, false); break;
    case STATUS_SUSPENDED:
        KIT_TURN(k, "o", act_timer(1, KIT_START_MS + 1000000));
        kit_suspend(k, "hub/a", NULL);
        break;
    case STATUS_CONTINUED_AS_NEW: break;
    }
    struct instance_view view;
    EXPECT(kit_view(k, "hub/a", &view));
    EXPECT_EQ(status, view.status);
}

enum outcome { REPLACED, KEPT, REFUSED };

static void expect_outcome(enum orchestration_status status, enum reuse reuse, uint32_t mask,
                           enum outcome expected)
{
    struct kit *k = kit_new(1, 1);
    struct instance_view before;
    struct instance_view after;
    test_note("status %s, reuse %d, mask %x", orchestration_status_name(status), (int)reuse, mask);
    put_into(k, status);
    EXPECT(kit_view(k, "hub/a", &before));
    struct input_start start = start_of("hub/a");
    start.input = maybe_text("new");
    start.reuse = reuse;
    start.reuse_mask = mask;
    enum status answer = kit_start_with(k, start);
    EXPECT(kit_view(k, "hub/a", &after));
    bool is_same = memcmp(before.execution_id, after.execution_id, EXECUTION_ID_SIZE) == 0;
    EXPECT_EQ(expected == REPLACED, !is_same);
    if (expected == REFUSED) {
        EXPECT_STATUS(E_EXISTS, answer);
        EXPECT(strstr(k->text, "orchestration instance already exists") != NULL);
        EXPECT_EQ(0, k->records_n);
    } else {
        EXPECT_STATUS(OK, answer);
        EXPECT_BYTES(bytes_make(after.execution_id, EXECUTION_ID_SIZE),
                     bytes_make(k->execution_id, EXECUTION_ID_SIZE));
    }
    if (expected == REPLACED) {
        EXPECT_EQ(STATUS_PENDING, after.status);
        EXPECT_TEXT("new", kit_maybe(k, after.input));
        EXPECT_EQ(0, after.history_n);
        /* nothing of the old one fires into the new one */
        kit_tick_by(k, 2000000);
        EXPECT(kit_view(k, "hub/a", &after));
        EXPECT_EQ(1, after.inbox_n);
    } else {
        EXPECT_EQ(status, after.status);
    }
    kit_free(k);
}

#define MASK(status) (1u << STATUS_##status)
static const enum orchestration_status all_statuses[] = {
    STATUS_PENDING, STATUS_RUNNING,  STATUS_SUSPENDED, STATUS_COMPLETED,
    STATUS_FAILED,  STATUS_CANCELED, STATUS_TERMINATED};
#define ALL_N (sizeof all_statuses / sizeof all_statuses[0])

static bool is_end(enum orchestration_status s)
{
    return s == STATUS_COMPLETED || s == STATUS_FAILED || s == STATUS_CANCELED ||
           s == STATUS_TERMINATED;
}

/* Without a policy, a finished instance is replaced and a living one is not. */
TEST(by_default_only_finished_instances_are_replaced)
{
    for (size_t n = 0; n < ALL_N; n++) {
        expect_outcome(all_statuses[n], REUSE_DEFAULT, 0,
                       is_end(all_statuses[n]) ? REPLACED : REFUSED);
    }
}

/* Replaceable statuses, the newer meaning: exactly those in the list, a running one is terminated
 * first. */
TEST(a_replace_policy_replaces_exactly_its_statuses)
{
    for (size_t n = 0; n < ALL_N; n++) {
        for (size_t m = 0; m < ALL_N; m++) {
            uint32_t mask = 1u << all_statuses[m] | MASK(TERMINATED);
            bool is_in = (mask >> all_statuses[n] & 1) != 0;
            expect_outcome(all_statuses[n], REUSE_REPLACE, mask, is_in ? REPLACED : REFUSED);
        }
        expect_outcome(all_statuses[n], REUSE_REPLACE, 0, REFUSED);
    }
}

/* Older clients: "ignore" keeps what is there and answers as if it had been started. */
TEST(an_ignore_policy_keeps_what_is_there)
{
    for (size_t n = 0; n < ALL_N; n++) {
        for (size_t m = 0; m < ALL_N; m++) {
            uint32_t mask = 1u << all_statuses[m];
            expect_outcome(all_statuses[n], REUSE_IGNORE, mask, n == m ? KEPT : REFUSED);
        }
    }
}

/* Older clients: "terminate" replaces the statuses it names, and need not name TERMINATED for
 * it. */
TEST(a_terminate_policy_of_older_clients_replaces_its_statuses)
{
    for (size_t n = 0; n < ALL_N; n++) {
        for (size_t m = 0; m < ALL_N; m++) {
            uint32_t mask = 1u << all_statuses[m];
            expect_outcome(all_statuses[n], REUSE_TERMINATE, mask, n == m ? REPLACED : REFUSED);
        }
    }
}

TEST(a_never_policy_replaces_nothing)
{
    for (size_t n = 0; n < ALL_N; n++) {
        expect_outcome(all_statuses[n], REUSE_NEVER, UINT32_MAX, REFUSED);
    }
}

/* To replace a running instance means to terminate it: a policy that allows the one and not the
 * other is refused with the words that the SDKs' tests look for, whether the id exists or not. */
TEST(replacing_running_instances_needs_terminated)
{
    struct kit *k = kit_new(1, 1);
    const enum orchestration_status alive[] = {STATUS_RUNNING, STATUS_PENDING, STATUS_SUSPENDED};
    for (size_t n = 0; n < 3; n++) {
        struct input_start start = start_of("hub/a");
        start.reuse = REUSE_REPLACE;
        start.reuse_mask = 1u << alive[n] | MASK(COMPLETED);
        EXPECT_STATUS(E_INVALID, kit_start_with(k, start));
        EXPECT_TEXT(
            "Invalid reusable statuses: cannot exclude 'Terminated' while also allowing reuse "
            "of running instances",
            k->text);
    }
    kit_free(k);
}

/* A replaced child tells its parent that it is gone: the parent must not wait for ever. L0 */
TEST(a_replaced_child_fails_for_its_parent)
{
    struct kit *k = kit_new(1, 1);
    kit_start(k, "hub/p", "parent", NULL);
    KIT_TURN(k, "parent", act_child(1, "o", "c", NULL));
    struct input_start start = start_of("hub/c");
    start.reuse = REUSE_REPLACE;
    start.reuse_mask = MASK(PENDING) | MASK(TERMINATED);
    EXPECT_STATUS(OK, kit_start_with(k, start));
    const struct effect_work *turn = kit_must(kit_take_turn(k, "parent"));
    EXPECT_TEXT("1 OrchestratorStarted\n"
                "2 SubOrchestrationInstanceFailed of #1 SubOrchestrationTerminated the "
                "sub-orchestration was terminated\n",
                kit_fresh(k, turn));
    kit_free(k);
}

/* Two hubs may use the same ids: they see nothing of each other. S24 */
TEST(hubs_do_not_share_ids)
{
    struct kit *k = kit_new(1, 1);
    EXPECT_STATUS(OK, kit_start(k, "one/a", "o", "1"));
    EXPECT_STATUS(OK, kit_start(k, "two/a", "o", "2"));
    kit_terminate(k, "one/a", NULL, false);
    EXPECT_TEXT("TERMINATED", kit_status(k, "one/a"));
    EXPECT_TEXT("PENDING", kit_status(k, "two/a"));
    kit_free(k);
}

/* Every execution has an id of its own, whatever started it. */
TEST(execution_ids_are_fresh)
{
    struct kit *k = kit_new(1, 1);
    uint8_t seen[4][EXECUTION_ID_SIZE];
    struct instance_view view;
    kit_start(k, "hub/a", "o", NULL);
    for (size_t n = 0; n < 4; n++) {
        EXPECT(kit_view(k, "hub/a", &view));
        memcpy(seen[n], view.execution_id, EXECUTION_ID_SIZE);
        for (size_t m = 0; m < n; m++) EXPECT(memcmp(seen[n], seen[m], EXECUTION_ID_SIZE) != 0);
        if (n == 0) KIT_TURN(k, "o", act_continue(1, NULL));
        if (n == 1) KIT_TURN(k, "o", act_complete(1, NULL));
        if (n == 1) kit_restart(k, "hub/a");
        if (n == 2) KIT_TURN(k, "o", act_complete(1, NULL));
        if (n == 2) kit_start(k, "hub/a", "o", NULL);
    }
    kit_free(k);
}
