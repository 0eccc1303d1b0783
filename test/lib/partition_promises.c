/* SPDX-License-Identifier: Apache-2.0
 *
 * What every step of every test must keep: records read back as they were, a second core that only
 * applies them is the same, and so is one made of snapshots.
 */
#include "test/lib/partition_parts.h"

#include "base/assert.h"

#include <stdio.h>

/* The records of a step, whose places are remembered. */
static void apply_step(struct core *c, uint64_t lsn, struct bytes records, struct buffer *places,
                       uint32_t *n)
{
    struct reader r = reader_make(records);
    while (reader_left(&r) > 0) {
        struct record record;
        const uint8_t *at = r.at;
        enum status status = record_decode(&r, &record);
        assert(status == OK);
        struct place place = {lsn, (uint32_t)(at - records.ptr), (uint32_t)(r.at - at)};
        status = core_apply(c, place, &record);
        assert(status == OK);
        buffer_append(places, &place, sizeof place);
        (*n)++;
    }
}

/* All there were, as recovery does it; only_waiting: only what they say of starts that wait, from
 * this frame on. */
void kit_apply_journal(struct core *c, const struct kit_partition *part, bool only_waiting,
                       uint64_t from_lsn)
{
    struct reader r = reader_make(buffer_view(&part->journal));
    const uint8_t *at = part->places.ptr;
    for (; reader_left(&r) > 0; at += sizeof(struct place)) {
        struct record record;
        struct place place;
        memcpy(&place, at, sizeof place);
        enum status status = record_decode(&r, &record);
        assert(status == OK);
        if (!only_waiting) status = core_apply(c, place, &record);
        if (only_waiting && place.lsn >= from_lsn) status = core_apply_waiting(c, place, &record);
        assert(status == OK);
    }
}

static void check_encoding(struct kit *k, struct bytes records)
{
    struct reader r = reader_make(records);
    struct buffer again;
    buffer_init(&again, &k->mem);
    while (reader_left(&r) > 0) {
        const uint8_t *start = r.at;
        struct record record;
        enum status status = record_decode(&r, &record);
        assert(status == OK);
        buffer_clear(&again);
        record_encode(&again, &record);
        assert(bytes_equal(buffer_view(&again), bytes_make(start, (size_t)(r.at - start))));
    }
    buffer_release(&again);
}

static void expect_same_view(const struct instance_view *a, const struct instance_view *b)
{
    assert(bytes_equal(a->key, b->key));
    assert(memcmp(a->execution_id, b->execution_id, EXECUTION_ID_SIZE) == 0);
    assert(a->seq == b->seq);
    assert(a->status == b->status);
    assert(a->is_terminal == b->is_terminal);
    assert(bytes_equal(a->name, b->name));
    assert(a->version.has == b->version.has);
    assert(bytes_equal(a->version.value, b->version.value));
    assert(a->input.has == b->input.has);
    assert(bytes_equal(a->input.value, b->input.value));
    assert(a->output.has == b->output.has);
    assert(bytes_equal(a->output.value, b->output.value));
    assert(a->failure.has == b->failure.has);
    assert(bytes_equal(a->failure.value, b->failure.value));
    assert(a->custom_status.has == b->custom_status.has);
    assert(bytes_equal(a->custom_status.value, b->custom_status.value));
    assert(bytes_equal(a->parent_id, b->parent_id));
    assert(bytes_equal(a->tags, b->tags));
    assert(a->created_ns == b->created_ns);
    assert(a->completed_ns == b->completed_ns);
    assert(a->scheduled_ms == b->scheduled_ms);
    assert(a->history_n == b->history_n);
    assert(a->inbox_n == b->inbox_n);
    assert(a->is_entity == b->is_entity);
    assert(a->entity_state.has == b->entity_state.has);
    assert(bytes_equal(a->entity_state.value, b->entity_state.value));
    assert(bytes_equal(a->locked_by, b->locked_by));
    assert(a->backlog_n == b->backlog_n);
}

struct round_trip {
    struct kit *k;
    struct core *from;
    struct core *third;
    uint32_t from_p;
    bool has_tombstones;
};

static enum status round_trip_one(void *user, const struct instance_view *view)
{
    struct round_trip *trip = user;
    struct buffer first;
    struct buffer second;
    struct instance_view other;
    struct arena arena;

    if (view->is_purged) {
        trip->has_tombstones = true;
        return OK;
    }
    buffer_init(&first, &trip->k->mem);
    buffer_init(&second, &trip->k->mem);
    arena_init(&arena, &trip->k->mem, 512);
    assert(core_snapshot(trip->from, view->key, &first));
    enum status status = core_load(trip->third, buffer_view(&first), NULL);
    assert(status == OK);
    assert(core_snapshot(trip->third, view->key, &second));
    assert(bytes_equal(buffer_view(&first), buffer_view(&second)));
    status = snapshot_view(buffer_view(&first), &arena, &other);
    assert(status == OK);
    expect_same_view(view, &other);
    assert(core_view(trip->third, view->key, &other));
    expect_same_view(view, &other);
    /* what was due already may be queued after a load, what is not due yet may not differ */
    bool is_limited = trip->k->parked_n_max != 0 && view->is_parked;
    if (!is_limited && view->wake_ms > kit_now_ms(trip->k)) assert(view->wake_ms == other.wake_ms);
    if (other.wake_ms > kit_now_ms(trip->k)) assert(view->wake_ms == other.wake_ms);
    arena_release(&arena);
    buffer_release(&second);
    buffer_release(&first);
    return OK;
}

/* Through snapshots into a third core. The live one's partition snapshot would mark it clean, so
 * the shadow's is taken: it is the same. */
static void check_snapshots(struct kit *k, uint32_t p)
{
    struct kit_partition *part = &k->partitions[p];
    struct round_trip trip = {.k = k, .from = part->live, .from_p = p};
    struct backlog *backlog = kit_backlog_make(k, &k->mem);
    struct buffer partition;

    trip.third = kit_core_make(k, p, &k->mem, backlog);

    buffer_init(&partition, &k->mem);
    core_partition_snapshot(part->shadow, &partition);
    enum status status = core_partition_load(trip.third, buffer_view(&partition));
    assert(status == OK);
    buffer_release(&partition);
    if (backlog != NULL) kit_apply_journal(trip.third, part, true, core_waiting_lsn(trip.third));
    if (backlog != NULL) backlog_sort(backlog);
    status = core_each(part->live, round_trip_one, &trip);
    assert(status == OK);
    core_check(trip.third);
    if (!trip.has_tombstones) assert(core_digest(trip.third) == core_digest(part->live));
    core_free(trip.third);
    if (backlog != NULL) backlog_free(backlog);
}

void kit_check_step(struct kit *k, uint32_t p, uint32_t records_n)
{
    struct kit_partition *part = &k->partitions[p];
    uint32_t n = 0;
    core_check(part->live);
    check_encoding(k, buffer_view(&k->records));
    apply_step(part->shadow, k->lsn, buffer_view(&k->records), &part->places, &n);
    assert(n == records_n);
    core_check(part->shadow);
    assert(core_digest(part->live) == core_digest(part->shadow));
    buffer_append_bytes(&part->journal, buffer_view(&k->records));
    assert(!part->journal.failed);
    if (k->is_thorough) check_snapshots(k, p);
}
