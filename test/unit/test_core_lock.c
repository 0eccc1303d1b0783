/* SPDX-License-Identifier: Apache-2.0
 *
 * Critical sections: granted when all entities are held, exclusive while they are, and never longer
 * than the execution that asked for them, whatever the order of messages.
 */
#include "test/lib/entity_kit.h"
#include "test/lib/test.h"

#include <stdio.h>

static void start(struct kit *k, const char *key, const char *name)
{
    EXPECT_STATUS(OK, kit_start(k, key, name, NULL));
}

static const char *fresh_of(struct kit *k, const char *name)
{
    return kit_fresh(k, kit_must(kit_take_turn(k, name)));
}

/* All of the set belong to one, the request was sorted on its way, and everybody can see it. */
TEST(a_set_is_granted_when_all_are_held)
{
    for (uint32_t n = 1; n <= 4; n++) {
        struct kit *k = kit_new(n, 1);
        start(k, "hub/o", "owner");
        KIT_TURN(k, "owner", act_lock(1, "cs", "@c@3 @A@1 @b@2 @a@1"));
        EXPECT_TEXT("state (none), locked by o", kit_entity(k, "hub/@a@1"));
        EXPECT_TEXT("state (none), locked by o", kit_entity(k, "hub/@b@2"));
        EXPECT_TEXT("state (none), locked by o", kit_entity(k, "hub/@c@3"));
        EXPECT_TEXT("1 OrchestratorStarted\n2 EntityLockGranted cs\n", fresh_of(k, "owner"));
        EXPECT_TEXT("1 OrchestratorStarted\n2 ExecutionStarted owner\n"
                    "3 EntityLockRequested #1 cs @c@3 @A@1 @b@2 @a@1\n",
                    kit_history(k, "hub/o"));
        kit_free(k);
    }
}

/* Only calls of the holder; everything else in order, afterwards. */
TEST(while_locked_only_calls_of_the_holder_are_given)
{
    struct kit *k = kit_new(2, 1);
    start(k, "hub/o", "owner");
    start(k, "hub/p", "other");
    KIT_TURN(k, "owner", act_lock(1, "cs", "@a@1"));
    kit_signal(k, "hub/@a@1", "signal", NULL);
    KIT_TURN(k, "other", act_call(1, "@a@1", "r-1", "foreign"));
    EXPECT(kit_take_entity(k, "a") == NULL);
    KIT_TURN(k, "owner", act_signal(2, "@a@1", "s-1", "own signal", 0),
             act_call(3, "@a@1", "r-2", "own"));
    const struct effect_work *work = kit_must(kit_take_entity(k, "a"));
    EXPECT_TEXT("own ", kit_operations(k, work));
    EXPECT_TEXT("state (none), locked by o, backlog 4", kit_entity(k, "hub/@a@1"));
    EXPECT_TEXT("entity without state: 1 operations run on worker 1; locked by o, 3 others wait",
                kit_why(k, "hub/@a@1"));
    KIT_DONE(k, work, "s", "r");
    EXPECT(kit_take_entity(k, "a") == NULL);
    KIT_TURN(k, "owner", act_unlock(4, "cs", "@A@1"));
    EXPECT_TEXT("signal foreign own signal ", kit_operations(k, kit_must(kit_take_entity(k, "a"))));
    kit_free(k);
}

/* A batch that is out is finished before the lock is given. */
TEST(a_lock_waits_for_what_came_before)
{
    struct kit *k = kit_new(1, 1);
    start(k, "hub/o", "owner");
    kit_signal(k, "hub/@a@1", "one", NULL);
    const struct effect_work *work = kit_must(kit_take_entity(k, "a"));
    KIT_TURN(k, "owner", act_lock(1, "cs", "@a@1"));
    kit_signal(k, "hub/@a@1", "two", NULL);
    EXPECT(kit_take_turn(k, "owner") == NULL);
    EXPECT_TEXT("RUNNING: waits for the locks of critical section cs", kit_why(k, "hub/o"));
    KIT_DONE(k, work, "s", "");
    EXPECT(kit_take_turn(k, "owner") != NULL);
    EXPECT(kit_take_entity(k, "a") == NULL);
    kit_free(k);
}

/* Two sections with a common entity follow each other. */
TEST(two_sections_exclude_each_other)
{
    struct kit *k = kit_new(3, 1);
    start(k, "hub/o", "first");
    start(k, "hub/p", "second");
    KIT_TURN(k, "first", act_lock(1, "x", "@b@2 @a@1"));
    KIT_TURN(k, "second", act_lock(1, "y", "@b@2 @c@3"));
    EXPECT(kit_take_turn(k, "second") == NULL);
    KIT_TURN(k, "first", act_unlock(2, "x", "@b@2"), act_unlock(2, "x", "@a@1"));
    EXPECT_TEXT("1 OrchestratorStarted\n2 EntityLockGranted y\n", fresh_of(k, "second"));
    EXPECT_TEXT("none", kit_entity(k, "hub/@a@1"));
    EXPECT_TEXT("state (none), locked by p", kit_entity(k, "hub/@b@2"));
    kit_free(k);
}

static void expect_free(struct kit *k)
{
    EXPECT_TEXT("none", kit_entity(k, "hub/@a@1"));
    EXPECT_TEXT("none", kit_entity(k, "hub/@b@2"));
}

/* User code that throws, forgets, is terminated or begins again: nothing stays locked. */
TEST(every_end_releases_the_locks)
{
    for (int end = 0; end < 4; end++) {
        struct kit *k = kit_new(2, 1);
        start(k, "hub/o", "owner");
        KIT_TURN(k, "owner", act_lock(1, "cs", "@a@1 @b@2"));
        if (end == 0) KIT_TURN(k, "owner", act_complete(2, NULL));
        if (end == 1) KIT_TURN(k, "owner", act_fail(2, "no"));
        if (end == 2) kit_terminate(k, "hub/o", NULL, false);
        if (end == 3) KIT_TURN(k, "owner", act_continue(2, NULL));
        expect_free(k);
        kit_free(k);
    }
}

/* A request that waits goes with who made it. */
TEST(every_end_cancels_what_was_asked_for)
{
    struct kit *k = kit_new(2, 1);
    start(k, "hub/o", "owner");
    start(k, "hub/p", "other");
    KIT_TURN(k, "owner", act_lock(1, "cs", "@b@2"));
    KIT_TURN(k, "other", act_lock(1, "cs", "@a@1 @b@2"));
    EXPECT_TEXT("state (none), locked by p", kit_entity(k, "hub/@a@1"));
    kit_terminate(k, "hub/p", NULL, false);
    EXPECT_TEXT("none", kit_entity(k, "hub/@a@1"));
    EXPECT_TEXT("state (none), locked by o", kit_entity(k, "hub/@b@2"));
    kit_terminate(k, "hub/o", NULL, false);
    expect_free(k);
    kit_free(k);
}

/* The end overtakes the request: the grant finds nobody, and releases the whole set. */
TEST(a_grant_that_finds_nobody_is_given_back)
{
    for (int end = 0; end < 3; end++) {
        struct kit *k = kit_new(4, 1);
        start(k, "hub/o", "owner");
        const struct effect_work *turn = kit_must(kit_take_turn(k, "owner"));
        k->is_held = true;
        KIT_ANSWER(k, turn, act_lock(1, "cs", "@a@1 @b@2"));
        kit_deliver_at(k, 0); /* to @a@1, which passes it on */
        if (end == 0) kit_terminate(k, "hub/o", NULL, false);
        if (end == 1) kit_terminate(k, "hub/o", NULL, false), kit_purge(k, "hub/o");
        if (end == 2) {
            kit_terminate(k, "hub/o", NULL, false);
            kit_restart(k, "hub/o");
        }
        /* whatever is newest comes first */
        uint32_t n = 0;
        while (kit_parcels_n(k) > 0 && n++ < 200) kit_deliver_at(k, kit_parcels_n(k) - 1);
        kit_tick_by(k, 10 * KIT_RESEND_MS);
        k->is_held = false;
        kit_deliver(k);
        kit_tick_by(k, 10 * KIT_RESEND_MS);
        expect_free(k);
        kit_free(k);
    }
}

/* Any order of messages, losses, doubles and crashes in between: in the end nothing is locked. */
TEST(no_lock_outlives_its_holder_in_any_order)
{
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct kit *k = kit_new(4, seed);
        struct rng rng;
        rng_init(&rng, seed);
        k->is_thorough = seed % 8 == 0;
        k->is_held = true;
        for (int n = 0; n < 6; n++) {
            char key[16];
            char section[16];
            (void)snprintf(key, sizeof key, "hub/o%d", n);
            (void)snprintf(section, sizeof section, "cs%d", n % 2);
            kit_start(k, key, "owner", NULL);
            const struct effect_work *turn = kit_take_turn(k, "owner");
            if (turn == NULL) continue;
            kit_answer(k, turn,
                       (struct action[]){
                           act_lock(1, section, n % 3 == 0 ? "@a@1 @b@2 @c@3" : "@c@3 @b@2")},
                       1);
        }
        for (int step = 0; step < 400; step++) {
            uint32_t parcels = kit_parcels_n(k);
            uint64_t what = rng_below(&rng, 100);
            char key[16];
            (void)snprintf(key, sizeof key, "hub/o%d", (int)rng_below(&rng, 6));
            if (parcels > 0 && what < 70) {
                kit_deliver_at(k, (uint32_t)rng_below(&rng, parcels));
            } else if (parcels > 0 && what < 74) {
                kit_drop_at(k, (uint32_t)rng_below(&rng, parcels));
            } else if (parcels > 0 && what < 78) {
                kit_duplicate_at(k, (uint32_t)rng_below(&rng, parcels));
            } else if (what < 82) {
                kit_terminate(k, key, NULL, false);
            } else if (what < 84) {
                kit_purge(k, key);
            } else if (what < 86) {
                kit_crash(k, (uint32_t)rng_below(&rng, 4));
            } else if (what < 93) {
                const struct effect_work *turn = kit_take_turn(k, "owner");
                if (turn == NULL) continue;
                kit_answer(
                    k, turn,
                    (struct action[]){what < 90 ? act_complete(9, NULL) : act_continue(9, NULL)},
                    1);
            } else {
                kit_tick_by(k, KIT_RESEND_MS);
            }
        }
        k->is_held = false;
        for (int n = 0; n < 6; n++) {
            char key[16];
            (void)snprintf(key, sizeof key, "hub/o%d", n);
            kit_terminate(k, key, NULL, false);
        }
        for (int n = 0; n < 20; n++) kit_tick_by(k, KIT_RESEND_MS);
        EXPECT_TEXT("none", kit_entity(k, "hub/@a@1"));
        EXPECT_TEXT("none", kit_entity(k, "hub/@b@2"));
        EXPECT_TEXT("none", kit_entity(k, "hub/@c@3"));
        kit_free(k);
    }
}

/* The owner ends while its request is on the way to an entity that somebody else has. A release may
 * come to @b@2 before the request does, and to @c@3 while the request waits there: it must not end
 * the chain, or @b@2 would stay locked for ever. */
TEST(a_cancelled_request_leaves_nothing_locked)
{
    for (uint64_t seed = 1; seed <= 100; seed++) {
        struct kit *k = kit_new(4, seed);
        struct rng rng;
        rng_init(&rng, seed);
        k->is_thorough = seed % 16 == 0;
        start(k, "hub/p", "other");
        KIT_TURN(k, "other", act_lock(1, "cs", "@c@3"));
        start(k, "hub/o", "owner");
        const struct effect_work *turn = kit_must(kit_take_turn(k, "owner"));
        k->is_held = true;
        KIT_ANSWER(k, turn, act_lock(1, "cs", "@a@1 @b@2 @c@3"), act_complete(2, NULL));
        while (kit_parcels_n(k) > 0) {
            kit_deliver_at(k, (uint32_t)rng_below(&rng, kit_parcels_n(k)));
        }
        k->is_held = false;
        for (int n = 0; n < 5; n++) kit_tick_by(k, KIT_RESEND_MS);
        kit_terminate(k, "hub/p", NULL, false);
        for (int n = 0; n < 5; n++) kit_tick_by(k, KIT_RESEND_MS);
        EXPECT_TEXT("none", kit_entity(k, "hub/@a@1"));
        EXPECT_TEXT("none", kit_entity(k, "hub/@b@2"));
        EXPECT_TEXT("none", kit_entity(k, "hub/@c@3"));
        kit_free(k);
    }
}

/* A section of an earlier generation is not that of the present, though both have the same id. */
TEST(locks_belong_to_an_execution)
{
    struct kit *k = kit_new(2, 1);
    start(k, "hub/o", "owner");
    KIT_TURN(k, "owner", act_lock(1, "cs", "@a@1"), act_continue(2, NULL));
    KIT_TURN(k, "owner", act_lock(1, "cs", "@a@1"));
    EXPECT_TEXT("state (none), locked by o", kit_entity(k, "hub/@a@1"));
    EXPECT_TEXT("1 OrchestratorStarted\n2 EntityLockGranted cs\n", fresh_of(k, "owner"));
    kit_free(k);
}

/* Some number is the next one: the others are taken for doubles, or for too early. */
static void send_release(struct kit *k, const char *section, const char *parent,
                         const uint8_t execution[EXECUTION_ID_SIZE])
{
    struct buffer event;
    struct bytes key = BYTES_LITERAL("hub/@a@1");
    buffer_init(&event, &k->mem);
    event_write_unlock(&event, k->now_ns, bytes_of_text(section), BYTES_LITERAL("@a@1"),
                       bytes_of_text(parent), execution);
    for (uint64_t seq = 1; seq < 30; seq++) {
        struct input in = {.kind = INPUT_PARTITION_MESSAGE};
        in.message.seq = seq;
        in.message.kind = MESSAGE_ENTITY;
        in.message.target = key;
        in.message.event = buffer_view(&event);
        kit_step(k, 0, &in);
    }
    buffer_release(&event);
}

/* A release counts only for the section, the instance and the execution that it names. */
TEST(a_release_of_somebody_else_changes_nothing)
{
    for (int wrong = 0; wrong < 4; wrong++) {
        struct kit *k = kit_new(1, 1);
        struct instance_view view;
        start(k, "hub/o", "owner");
        start(k, "hub/p", "other");
        KIT_TURN(k, "owner", act_lock(1, "cs", "@a@1"));
        KIT_TURN(k, "other", act_lock(1, "cs", "@a@1"));
        EXPECT(kit_view(k, "hub/o", &view));
        if (wrong == 1) view.execution_id[0] ^= 1;
        send_release(k, wrong == 2 ? "other" : "cs", wrong == 3 ? "nobody" : "o",
                     view.execution_id);
        EXPECT_TEXT(wrong == 0 ? "state (none), locked by p"
                               : "state (none), locked by o, backlog 1",
                    kit_entity(k, "hub/@a@1"));
        kit_free(k);
    }
}

/* The same for a request that waits. */
TEST(a_release_cancels_only_its_own_request)
{
    for (int wrong = 0; wrong < 2; wrong++) {
        struct kit *k = kit_new(1, 1);
        struct instance_view view;
        start(k, "hub/o", "owner");
        start(k, "hub/p", "other");
        KIT_TURN(k, "owner", act_lock(1, "cs", "@a@1"));
        KIT_TURN(k, "other", act_lock(1, "cs", "@a@1"));
        EXPECT(kit_view(k, "hub/p", &view));
        if (wrong == 1) view.execution_id[0] ^= 1;
        send_release(k, "cs", "p", view.execution_id);
        EXPECT_TEXT(wrong == 0 ? "state (none), locked by o"
                               : "state (none), locked by o, backlog 1",
                    kit_entity(k, "hub/@a@1"));
        kit_free(k);
    }
}

/* An unlock may overtake the request that it is about: the grant brings it to light. */
TEST(what_was_unlocked_before_it_was_granted_is_released)
{
    struct kit *k = kit_new(4, 1);
    start(k, "hub/o", "owner");
    KIT_TURN(k, "owner", act_lock(1, "cs", "@a@1 @b@2"), act_unlock(2, "cs", "@b@2"),
             act_unlock(3, "cs", "@a@1"));
    EXPECT_TEXT("RUNNING", kit_status(k, "hub/o"));
    expect_free(k);
    kit_free(k);
}

/* A rewound orchestration has again what it had when it failed. */
TEST(a_rewind_locks_again)
{
    struct kit *k = kit_new(2, 1);
    start(k, "hub/o", "owner");
    KIT_TURN(k, "owner", act_lock(1, "cs", "@a@1 @b@2"));
    KIT_TURN(k, "owner", act_unlock(2, "cs", "@b@2"), act_fail(3, "no"));
    expect_free(k);
    EXPECT_STATUS(OK, kit_rewind(k, "hub/o", NULL));
    EXPECT_TEXT("state (none), locked by o", kit_entity(k, "hub/@a@1"));
    EXPECT_TEXT("none", kit_entity(k, "hub/@b@2"));
    EXPECT_TEXT("1 OrchestratorStarted\n", fresh_of(k, "owner")); /* granted once */
    kit_terminate(k, "hub/o", NULL, false);
    expect_free(k);
    kit_free(k);
}

/* It must not go on in its section while somebody else is in it. */
TEST(a_rewound_owner_waits_for_its_locks)
{
    struct kit *k = kit_new(2, 1);
    start(k, "hub/o", "owner");
    start(k, "hub/p", "other");
    KIT_TURN(k, "owner", act_lock(1, "cs", "@a@1 @b@2"));
    KIT_TURN(k, "owner", act_fail(2, "no"));
    KIT_TURN(k, "other", act_lock(1, "x", "@b@2"));
    EXPECT_STATUS(OK, kit_rewind(k, "hub/o", NULL));
    EXPECT(kit_take_turn(k, "owner") == NULL);
    kit_crash(k, 0);
    kit_crash(k, 1);
    EXPECT(kit_take_turn(k, "owner") == NULL);
    kit_terminate(k, "hub/p", NULL, false);
    EXPECT_TEXT("1 OrchestratorStarted\n", fresh_of(k, "owner"));
    kit_terminate(k, "hub/o", NULL, false);
    expect_free(k);
    kit_free(k);
}

/* The holder's calls are out when its end comes: they are finished before anybody else's. */
TEST(an_unlock_while_a_batch_is_out_keeps_its_place)
{
    struct kit *k = kit_new(1, 1);
    start(k, "hub/o", "owner");
    KIT_TURN(k, "owner", act_lock(1, "cs", "@a@1"));
    kit_signal(k, "hub/@a@1", "foreign", NULL);
    KIT_TURN(k, "owner", act_call(2, "@a@1", "r-1", "one"), act_call(3, "@a@1", "r-2", "two"));
    const struct effect_work *work = kit_must(kit_take_entity(k, "a"));
    EXPECT_TEXT("one two ", kit_operations(k, work));
    kit_terminate(k, "hub/o", NULL, false);
    EXPECT_TEXT("state (none), backlog 3", kit_entity(k, "hub/@a@1"));
    EXPECT(kit_take_entity(k, "a") == NULL);
    KIT_DONE(k, work, "s", "");
    EXPECT_TEXT("two foreign ", kit_operations(k, kit_must(kit_take_entity(k, "a"))));
    kit_free(k);
}

/* What is locked survives the archive and a crash. */
TEST(a_lock_survives_eviction_and_crash)
{
    struct kit *k = kit_new(1, 1);
    start(k, "hub/o", "owner");
    start(k, "hub/p", "other");
    KIT_TURN(k, "owner", act_lock(1, "cs", "@a@1"));
    KIT_TURN(k, "other", act_lock(1, "cs", "@a@1"));
    EXPECT(kit_evict(k, "hub/@a@1"));
    kit_crash(k, 0);
    EXPECT_TEXT("state (none), locked by o, backlog 1", kit_entity(k, "hub/@a@1"));
    kit_terminate(k, "hub/o", NULL, false);
    EXPECT_TEXT("state (none), locked by p", kit_entity(k, "hub/@a@1"));
    kit_free(k);
}

/* A set that cannot be is the orchestrator's mistake, and is told. */
TEST(a_wrong_set_fails_the_instance)
{
    struct kit *k = kit_new(1, 1);
    start(k, "hub/o", "owner");
    KIT_TURN(k, "owner", act_lock(1, "cs", "@a@1 nobody"));
    EXPECT_TEXT("FAILED", kit_status(k, "hub/o"));
    start(k, "hub/p", "owner");
    KIT_TURN(k, "owner", act_lock(1, "cs", ""));
    EXPECT_TEXT("FAILED", kit_status(k, "hub/p"));
    EXPECT_TEXT("none", kit_entity(k, "hub/@a@1"));
    kit_free(k);
}
