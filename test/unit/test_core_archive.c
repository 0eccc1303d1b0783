/* SPDX-License-Identifier: Apache-2.0
 *
 * Between memory and archive: what must be kept in the journal, what is taken, what may leave, and
 * that it comes back as it was. D3 S17 S30
 */
#include "test/lib/partition.h"
#include "test/lib/test.h"

#include <stdio.h>

#define KEYS_MAX 16

struct picked {
    struct bytes keys[KEYS_MAX];
    size_t n;
};

static struct picked pick(struct kit *k, uint64_t upto_lsn, size_t idle_n, int64_t idle_ms)
{
    struct picked p;
    p.n = core_archive_pick(k->partitions[0].live, upto_lsn, idle_n, idle_ms, p.keys, KEYS_MAX);
    core_check(k->partitions[0].live);
    return p;
}

static uint64_t seq_of(struct kit *k, const char *key)
{
    struct instance_view view;
    EXPECT(core_view(k->partitions[0].live, bytes_of_text(key), &view));
    return view.seq;
}

static bool archived(struct kit *k, const char *key, uint64_t seq, bool may_evict)
{
    bool has_left = core_archived(k->partitions[0].live, bytes_of_text(key), seq, false, may_evict);
    core_check(k->partitions[0].live);
    return has_left;
}

/* The round took a tombstone: the archive has removed the row. */
static bool removed(struct kit *k, const char *key, uint64_t seq)
{
    bool has_left = core_archived(k->partitions[0].live, bytes_of_text(key), seq, true, false);
    core_check(k->partitions[0].live);
    return has_left;
}

/* Instance n, which has slept since `lsn` on a timer this far away. */
static void put_to_sleep(struct kit *k, const char *key, int64_t for_ms)
{
    kit_start(k, key, "o", NULL);
    KIT_TURN(k, "o", act_timer(1, kit_now_ms(k) + for_ms));
}

/* The journal is needed from the first batch on that is not in the archive, and no further. */
TEST(the_oldest_dirty_batch_is_known)
{
    struct kit *k = kit_new(1, 1);
    struct core *c = kit_core(k, "hub/a");
    EXPECT_EQ(UINT64_MAX, core_dirty_lsn(c));
    kit_start(k, "hub/a", "o", NULL); /* batch 1 */
    uint64_t first = k->lsn;
    kit_start(k, "hub/b", "o", NULL);
    uint64_t second = k->lsn;
    kit_raise(k, "hub/a", "e", NULL);
    EXPECT_EQ(first, core_dirty_lsn(c)); /* a change does not make an old debt younger */
    struct picked p = pick(k, first, 0, 0);
    EXPECT_EQ(1, p.n);
    EXPECT_TEXT("hub/a", kit_bytes(k, p.keys[0]));
    EXPECT_EQ(second, core_dirty_lsn(c));
    EXPECT_EQ(1, pick(k, UINT64_MAX, 0, 0).n);
    EXPECT_EQ(UINT64_MAX, core_dirty_lsn(c));
    kit_free(k);
}

/* Messages between instances are the partition's own state: it is dirty until its snapshot is
 * taken. */
TEST(the_partitions_own_state_is_dirty_too)
{
    struct kit *k = kit_new(1, 1);
    struct core *c = kit_core(k, "hub/a");
    struct buffer snapshot;
    buffer_init(&snapshot, &k->mem);
    EXPECT(!core_partition_is_dirty(c));
    k->is_held = true;
    kit_start(k, "hub/a", "o", NULL);
    KIT_TURN(k, "o", act_event(1, "b", "e", NULL));
    uint64_t lsn = k->lsn;
    pick(k, UINT64_MAX, 0, 0);
    EXPECT_EQ(lsn, core_dirty_lsn(c));
    EXPECT(core_partition_is_dirty(c));
    core_partition_snapshot(c, &snapshot);
    EXPECT_EQ(UINT64_MAX, core_dirty_lsn(c));
    EXPECT(!core_partition_is_dirty(c));
    kit_deliver(k);
    EXPECT(core_partition_is_dirty(c));
    buffer_release(&snapshot);
    kit_free(k);
}

/* Finished ones are taken first, whatever batch they are of, and leave when the archive has
 * them. */
TEST(finished_instances_leave)
{
    struct kit *k = kit_new(1, 1);
    struct core *c = kit_core(k, "hub/a");
    kit_start(k, "hub/alive", "x", NULL);
    kit_start(k, "hub/a", "o", NULL);
    KIT_TURN(k, "o", act_complete(1, NULL));
    EXPECT_EQ(1, core_finished_n(c));
    struct picked p = pick(k, 0, 0, 0);
    EXPECT_EQ(1, p.n);
    EXPECT_TEXT("hub/a", kit_bytes(k, p.keys[0]));
    EXPECT_EQ(0, core_finished_n(c));
    EXPECT(archived(k, "hub/a", seq_of(k, "hub/a"), false));
    EXPECT_EQ(1, core_instances_n(c));
    EXPECT_TEXT("none", kit_status(k, "hub/a"));
    kit_free(k);
}

/* No more are taken than there is room for; the rest comes with the next call. */
TEST(picking_is_bounded)
{
    struct kit *k = kit_new(1, 1);
    char key[32];
    k->is_thorough = false;
    for (int n = 0; n < 40; n++) {
        (void)snprintf(key, sizeof key, "hub/%d", n);
        kit_start(k, key, "o", NULL);
        if (n < 20) KIT_TURN(k, "o", act_complete(1, NULL));
    }
    EXPECT_EQ(16, pick(k, UINT64_MAX, 0, 0).n);
    EXPECT_EQ(16, pick(k, UINT64_MAX, 0, 0).n);
    EXPECT_EQ(8, pick(k, UINT64_MAX, 0, 0).n);
    EXPECT_EQ(0, pick(k, UINT64_MAX, 0, 0).n);
    kit_free(k);
}

/* What changes while it is on its way to the archive stays, is dirty again, and goes a second
 * time. */
TEST(changed_while_being_archived)
{
    struct kit *k = kit_new(1, 1);
    struct core *c = kit_core(k, "hub/a");
    struct instance_view view;
    put_to_sleep(k, "hub/a", 1000000);
    pick(k, UINT64_MAX, 0, 0);
    uint64_t taken = seq_of(k, "hub/a");
    kit_raise(k, "hub/a", "e", NULL);
    uint64_t lsn = k->lsn;
    EXPECT(!archived(k, "hub/a", taken, true));
    EXPECT(kit_view(k, "hub/a", &view));
    EXPECT(view.is_archived);
    EXPECT_EQ(lsn, core_dirty_lsn(c));
    EXPECT_EQ(1, pick(k, UINT64_MAX, 0, 0).n);
    EXPECT(!archived(k, "hub/a", seq_of(k, "hub/a"), true)); /* it has a turn to do */
    kit_answer(k, kit_must(kit_take_turn(k, "o")), NULL, 0);
    pick(k, UINT64_MAX, 0, 0);
    EXPECT(archived(k, "hub/a", seq_of(k, "hub/a"), true));
    kit_free(k);
}

/* Finished while on its way: it is taken again as a finished one. */
TEST(finished_while_being_archived)
{
    struct kit *k = kit_new(1, 1);
    put_to_sleep(k, "hub/a", 1000000);
    pick(k, UINT64_MAX, 0, 0);
    uint64_t taken = seq_of(k, "hub/a");
    kit_terminate(k, "hub/a", NULL, false);
    EXPECT(!archived(k, "hub/a", taken, true));
    EXPECT_EQ(1, core_finished_n(kit_core(k, "hub/a")));
    EXPECT_EQ(1, pick(k, 0, 0, 0).n);
    EXPECT(archived(k, "hub/a", seq_of(k, "hub/a"), false));
    kit_free(k);
}

/* A purged one stays as a tombstone until the archive has removed it. S22 */
TEST(tombstones_leave_when_the_archive_has_removed_them)
{
    struct kit *k = kit_new(1, 1);
    struct core *c = kit_core(k, "hub/a");
    struct instance_view view;
    kit_start(k, "hub/a", "o", NULL);
    KIT_TURN(k, "o", act_complete(1, NULL));
    pick(k, 0, 0, 0);
    uint64_t taken = seq_of(k, "hub/a");
    kit_purge(k, "hub/a");
    EXPECT(!archived(k, "hub/a", taken, false)); /* the archive has the row now: it must go */
    EXPECT(core_view(c, BYTES_LITERAL("hub/a"), &view));
    EXPECT(view.is_purged);
    EXPECT(view.is_archived);
    EXPECT_EQ(1, core_finished_n(c));
    EXPECT_EQ(1, pick(k, 0, 0, 0).n);
    struct buffer none;
    buffer_init(&none, &k->mem);
    EXPECT(!core_snapshot(c, BYTES_LITERAL("hub/a"), &none));
    EXPECT(removed(k, "hub/a", seq_of(k, "hub/a")));
    EXPECT_EQ(0, core_instances_n(c));
    buffer_release(&none);
    kit_free(k);
}

/* Purged, begun again and purged again while the first tombstone was on its way: there is no row
 * any more. */
TEST(purged_again_while_its_tombstone_is_archived)
{
    struct kit *k = kit_new(1, 1);
    struct instance_view view;
    uint64_t taken = 0;
    for (int n = 0; n < 2; n++) {
        kit_start(k, "hub/a", "o", NULL);
        kit_terminate(k, "hub/a", NULL, false);
        kit_purge(k, "hub/a");
        if (n == 1) break;
        pick(k, 0, 0, 0);
        taken = seq_of(k, "hub/a");
    }
    EXPECT(!removed(k, "hub/a", taken));
    EXPECT(core_view(kit_core(k, "hub/a"), BYTES_LITERAL("hub/a"), &view));
    EXPECT(view.is_purged);
    EXPECT(!view.is_archived);
    kit_free(k);
}

/* An id that began again while its tombstone was on the way stays. */
TEST(recreated_while_its_tombstone_is_archived)
{
    struct kit *k = kit_new(1, 1);
    kit_start(k, "hub/a", "o", "old");
    kit_terminate(k, "hub/a", NULL, false);
    kit_purge(k, "hub/a");
    pick(k, 0, 0, 0);
    uint64_t taken = seq_of(k, "hub/a");
    kit_start(k, "hub/a", "o", "new");
    EXPECT(!removed(k, "hub/a", taken));
    struct instance_view view;
    EXPECT(kit_view(k, "hub/a", &view));
    EXPECT_TEXT("new", kit_maybe(k, view.input));
    EXPECT(!view.is_archived);
    EXPECT_EQ(0, core_finished_n(kit_core(k, "hub/a")));
    EXPECT_EQ(1, pick(k, UINT64_MAX, 0, 0).n);
    kit_free(k);
}

/* Sleepers leave when they are archived and need not wake soon. */
TEST(sleepers_leave_beyond_the_horizon)
{
    struct kit *k = kit_new(1, 1);
    put_to_sleep(k, "hub/near", KIT_HORIZON_MS - 1); /* it wakes a millisecond later */
    put_to_sleep(k, "hub/far", KIT_HORIZON_MS);
    EXPECT_EQ(2, pick(k, UINT64_MAX, 0, 0).n);
    EXPECT(!archived(k, "hub/near", seq_of(k, "hub/near"), true));
    EXPECT(!archived(k, "hub/far", seq_of(k, "hub/far"), false)); /* not asked to leave */
    EXPECT(archived(k, "hub/far", seq_of(k, "hub/far"), true));
    kit_free(k);
}

/* What has work for a worker does not leave: nobody would find the work. */
TEST(work_keeps_in_memory)
{
    struct kit *k = kit_new(1, 1);
    kit_start(k, "hub/a", "o", NULL);
    pick(k, UINT64_MAX, 0, 0);
    EXPECT(!archived(k, "hub/a", seq_of(k, "hub/a"), true)); /* a turn is offered */
    const struct effect_work *turn = kit_must(kit_take_turn(k, "o"));
    EXPECT(!archived(k, "hub/a", seq_of(k, "hub/a"), true)); /* with a worker */
    KIT_ANSWER(k, turn, act_task(1, "t", NULL));
    pick(k, UINT64_MAX, 0, 0);
    EXPECT(!archived(k, "hub/a", seq_of(k, "hub/a"), true)); /* a task */
    kit_abandon(k, kit_must(kit_take_task(k, "t")), "no");
    pick(k, UINT64_MAX, 0, 0);
    EXPECT(!archived(k, "hub/a", seq_of(k, "hub/a"), true)); /* a task that waits for its retry */
    kit_free(k);
}

/* The idle ones are looked through, oldest first: archived ones leave at once, others are taken. */
TEST(idle_instances_leave_or_are_taken)
{
    struct kit *k = kit_new(1, 1);
    struct core *c = kit_core(k, "hub/a");
    int64_t begin_ms = kit_now_ms(k);
    put_to_sleep(k, "hub/a", 1000000);
    put_to_sleep(k, "hub/b", 1000000);
    pick(k, UINT64_MAX, 0, 0);
    EXPECT(!archived(k, "hub/a", seq_of(k, "hub/a"), false));
    kit_tick_by(k, 10);
    put_to_sleep(k, "hub/young", 1000000);
    put_to_sleep(k, "hub/soon", 100);
    EXPECT_EQ(0, pick(k, 0, 10, begin_ms - 1).n); /* nobody is idle for that long */
    EXPECT_EQ(4, core_instances_n(c));
    EXPECT_EQ(0,
              pick(k, 0, 10, begin_ms).n); /* a is there as it is, b was taken and is on its way */
    EXPECT_TEXT("none", kit_status(k, "hub/a"));
    EXPECT_EQ(3, core_instances_n(c));
    struct picked p = pick(k, 0, 10, kit_now_ms(k));
    EXPECT_EQ(2, p.n);
    EXPECT_TEXT("hub/young", kit_bytes(k, p.keys[0]));
    EXPECT_TEXT("hub/soon", kit_bytes(k, p.keys[1]));
    EXPECT(archived(k, "hub/b", seq_of(k, "hub/b"), true));
    EXPECT(archived(k, "hub/young", seq_of(k, "hub/young"), true));
    EXPECT(!archived(k, "hub/soon", seq_of(k, "hub/soon"), true));
    EXPECT_EQ(1, core_instances_n(c));
    kit_free(k);
}

/* Everything an instance can have, out of memory and back, goes on as if it had never been away. */
TEST(a_reloaded_instance_goes_on)
{
    struct kit *k = kit_new(1, 1);
    kit_start(k, "hub/a", "o", "in");
    KIT_TURN(k, "o", act_timer(1, kit_now_ms(k) + 1000000), act_child(2, "c", "b", NULL));
    EXPECT(kit_evict(k, "hub/a"));
    KIT_TURN(k, "c", act_complete(1, "r"));
    kit_answer(k, kit_must(kit_take_turn(k, "o")), NULL, 0);
    EXPECT(kit_evict(k, "hub/a"));
    kit_tick_by(k, 1000001);
    EXPECT_TEXT("1 OrchestratorStarted\n2 TimerFired of #1 at 1700001000500\n",
                kit_fresh(k, kit_must(kit_take_turn(k, "o"))));
    kit_free(k);
}

/* Loading announces the work that is ready; what is in memory is not loaded over. */
TEST(loading)
{
    struct kit *k = kit_new(1, 1);
    struct buffer snapshot;
    struct core *c = kit_core(k, "hub/a");
    kit_start(k, "hub/a", "o", NULL);
    buffer_init(&snapshot, &k->mem);
    EXPECT(core_snapshot(c, BYTES_LITERAL("hub/a"), &snapshot));
    EXPECT_STATUS(E_EXISTS, core_load(c, buffer_view(&snapshot), NULL));

    struct kit *other = kit_new(1, 2);
    struct output out;
    output_init(&out, &other->records, &other->output);
    c = other->partitions[0].live;
    EXPECT_STATUS(OK, core_load(c, buffer_view(&snapshot), &out));
    EXPECT(out.first != NULL);
    EXPECT_EQ(EFFECT_READY, out.first->kind);
    EXPECT_EQ(seq_of(k, "hub/a"), core_seq(c));
    struct bytes events;
    EXPECT_STATUS(OK, snapshot_history(buffer_view(&snapshot), &events));
    EXPECT_EQ(0, events.len);
    snapshot.ptr[0] = 99;
    struct instance_view view;
    EXPECT_STATUS(E_VERSION, core_load(kit_core(k, "hub/z"), buffer_view(&snapshot), NULL));
    EXPECT_STATUS(E_VERSION, snapshot_view(buffer_view(&snapshot), &k->arena, &view));
    EXPECT_STATUS(E_VERSION, snapshot_history(buffer_view(&snapshot), &events));
    kit_free(other);
    buffer_release(&snapshot);
    kit_free(k);
}

/* The snapshot's own history is what the core says it is. */
TEST(the_history_of_a_snapshot)
{
    struct kit *k = kit_new(1, 1);
    struct buffer snapshot;
    struct buffer history;
    struct bytes events;
    kit_start(k, "hub/a", "o", NULL);
    KIT_TURN(k, "o", act_complete(1, "x"));
    buffer_init(&snapshot, &k->mem);
    buffer_init(&history, &k->mem);
    EXPECT(core_snapshot(kit_core(k, "hub/a"), BYTES_LITERAL("hub/a"), &snapshot));
    EXPECT(core_history(kit_core(k, "hub/a"), BYTES_LITERAL("hub/a"), &history));
    EXPECT_STATUS(OK, snapshot_history(buffer_view(&snapshot), &events));
    EXPECT_BYTES(buffer_view(&history), events);
    buffer_release(&history);
    buffer_release(&snapshot);
    kit_free(k);
}

/* Recovery from snapshots of different ages and the whole journal: what a snapshot has is skipped,
 * what it lacks is applied, each family by its own guard. S30 */
TEST(snapshots_and_journal_fold_to_the_same_state)
{
    for (int cut = 0; cut < 8; cut++) {
        struct kit *k = kit_new(1, 1);
        struct buffer instance;
        struct buffer partition;
        buffer_init(&instance, &k->mem);
        buffer_init(&partition, &k->mem);
        kit_start(k, "hub/a", "o", NULL);
        kit_start(k, "hub/b", "p", NULL);
        for (int32_t n = 0; n < 8; n++) {
            if (n == cut) core_snapshot(kit_core(k, "hub/a"), BYTES_LITERAL("hub/a"), &instance);
            if (n == (cut * 3) % 8) core_partition_snapshot(kit_core(k, "hub/a"), &partition);
            KIT_TURN(k, "o", act_event(2 * n, "a", "me", NULL),
                     act_event(2 * n + 1, "b", "you", NULL), act_task(100 + n, "t", NULL));
        }
        struct kit *other = kit_new(1, 1);
        struct core *c = other->partitions[0].live;
        EXPECT_STATUS(OK, core_partition_load(c, buffer_view(&partition)));
        EXPECT_STATUS(OK, core_load(c, buffer_view(&instance), NULL));
        struct reader r = reader_make(buffer_view(&k->partitions[0].journal));
        while (reader_left(&r) > 0) {
            struct record record;
            EXPECT_STATUS(OK, record_decode(&r, &record));
            EXPECT_STATUS(OK, core_apply(c, (struct place){.lsn = 1}, &record));
        }
        core_check(c);
        test_note("cut %d", cut);
        EXPECT(core_digest(c) == core_digest(k->partitions[0].live));
        kit_free(other);
        buffer_release(&partition);
        buffer_release(&instance);
        kit_free(k);
    }
}
