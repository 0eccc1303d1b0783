/* SPDX-License-Identifier: Apache-2.0
 *
 * The fold of all durable frames, kept up to date frame by frame, and the comparison of a host with
 * it. Snapshots are compared byte by byte: the core promises that equal durable state gives equal
 * bytes.
 */
#include "test/sim/sim_shadow.h"

#include "base/assert.h"
#include "base/mem.h"
#include "core/backlog.h"
#include "core/record.h"
#include "host/batch.h"
#include "host/host.h"
#include "test/sim/sim_check.h"
#include "test/sim/sim_feed.h"
#include "test/sim/sim_import.h"
#include "test/sim/sim_reply.h"
#include "test/sim/sim_trace.h"

struct shadow {
    struct world *w;
    uint32_t shard;
    struct mem mem;
    struct core *cores[PARTITIONS_MAX]; /* those of this shard; else NULL */
    struct backlog *backlog;            /* of all of them */
    uint64_t lsn;                       /* of the last durable frame */
    struct buffer hashes;               /* of the payload of every frame, 8 bytes each */
    uint64_t attempt_lsn;
    uint64_t attempt_hash;
    struct buffer left; /* scratch */
    struct buffer right;
};

static struct core *core_of(struct shadow *s, struct bytes key)
{
    return s->cores[partition_of(key, s->w->options.partitions_n)];
}

struct shadow *shadow_new(struct world *w, uint32_t shard)
{
    struct shadow *s = mem_take_zero(mem_process(), sizeof *s);

    assert(s != NULL);
    s->w = w;
    s->shard = shard;
    mem_init(&s->mem, SIZE_MAX);
    struct backlog_options backlog_options = {
        .mem = &s->mem,
        .partitions_n = w->options.partitions_n,
        .seed = {w->options.seed, 1},
        .waiting_max = UINT64_MAX,
        .size_max = UINT64_MAX,
    };
    enum status made = backlog_new(&backlog_options, &s->backlog);
    assert(made == OK);
    for (uint32_t p = shard; p < w->options.partitions_n; p += w->options.shards_n) {
        struct core_options options = {
            .partition = p,
            .partitions_n = w->options.partitions_n,
            .mem = &s->mem,
            .map_seed = {w->options.seed, p},
            .policy = check_policy,
            .resend_ms = 1000,
            .backlog = s->backlog,
        };
        enum status status = core_new(&options, &s->cores[p]);
        assert(status == OK);
    }
    buffer_init(&s->hashes, mem_process());
    buffer_init(&s->left, mem_process());
    buffer_init(&s->right, mem_process());
    return s;
}

void shadow_free(struct shadow *s)
{
    for (uint32_t p = 0; p < PARTITIONS_MAX; p++) {
        if (s->cores[p] != NULL) core_free(s->cores[p]);
    }
    backlog_free(s->backlog);
    mem_release(&s->mem);
    buffer_release(&s->hashes);
    buffer_release(&s->left);
    buffer_release(&s->right);
    mem_give(mem_process(), s, sizeof *s);
}

uint64_t shadow_lsn(const struct shadow *s) { return s->lsn; }

void shadow_attempt(struct shadow *s, uint64_t lsn, struct bytes payload)
{
    s->attempt_lsn = lsn;
    s->attempt_hash = bytes_hash(payload);
}

/* ---- applying ---- */

/* A start that was put off is there once, and is admitted once. */
static void check_waiting(struct shadow *s, const struct record *record, bool is_there)
{
    struct queued waiting;
    uint64_t hash = backlog_hash(s->backlog, record->key);

    if (record->kind == RECORD_QUEUED) {
        bool is_carried = backlog_get(s->backlog, hash, record->order, &waiting);
        bool is_double = !is_carried && backlog_find(s->backlog, hash, 0, &waiting);
        if (!is_there && !is_double) return;
        sim_fail(s->w, "S14 one", "%.*s is put off, and %s", (int)record->key.len,
                 (const char *)record->key.ptr, is_there ? "is there" : "waits already");
    }
    if (record->kind == RECORD_CREATED && backlog_find(s->backlog, hash, 0, &waiting)) {
        sim_fail(s->w, "S14 one", "%.*s is created, and waits", (int)record->key.len,
                 (const char *)record->key.ptr);
    }
    if (record->kind != RECORD_ADMITTED) return;
    if (!is_there && backlog_get(s->backlog, hash, record->order, &waiting)) return;
    sim_fail(s->w, "S14 one", "%.*s is admitted, and %s", (int)record->key.len,
             (const char *)record->key.ptr, is_there ? "is there" : "does not wait");
}

/* An execution begins with it, or is put off for the first time. */
static bool is_start(struct shadow *s, const struct record *record)
{
    struct queued waiting;

    if (record->kind == RECORD_CREATED) return true;
    return record->kind == RECORD_QUEUED &&
           !backlog_get(s->backlog, backlog_hash(s->backlog, record->key), record->order, &waiting);
}

static void apply_record(struct shadow *s, uint32_t partition, struct place place,
                         const struct record *record)
{
    struct core *c = s->cores[partition];
    bool is_of_instance = record->kind < RECORD_PARTITION_FIRST;
    struct instance_view before = {0};
    bool was_there = is_of_instance && core_view(c, record->key, &before);
    bool was_terminal = was_there && (before.is_terminal || before.is_purged);

    check_record(s->w, c, record, was_there ? &before : NULL);
    check_waiting(s, record, was_there && !before.is_purged);
    bool begins = is_start(s, record);
    feeds_see_record(s->w->feeds, partition, record, begins);
    mover_see_record(s->w->mover, record);
    enum status status = core_apply(c, place, record);
    if (status != OK) {
        sim_fail(s->w, "S2 apply", "a durable record %s of %.*s cannot be applied: %s",
                 record_name(record->kind), (int)record->key.len, (const char *)record->key.ptr,
                 status_name(status));
    }
    struct instance_view after;
    bool has_ended = is_of_instance && !was_terminal && core_view(c, record->key, &after) &&
                     after.is_terminal && !after.is_purged;
    receiver_see_record(s->w->receiver, record, begins, has_ended, &after);
    if (!has_ended) return;
    buffer_clear(&s->left);
    if (core_history(c, record->key, &s->left)) {
        check_history(s->w, record->key, &after, buffer_view(&s->left));
    }
}

static void apply_payload(struct shadow *s, uint64_t lsn, struct bytes payload)
{
    struct reader frame = reader_make(payload);
    uint32_t partition = 0;
    struct bytes section;

    while (frame_next_section(&frame, &partition, &section)) {
        struct reader records = reader_make(section);
        if (partition >= PARTITIONS_MAX || s->cores[partition] == NULL) {
            sim_fail(s->w, "S2 frame", "a frame of shard %u is for partition %u", s->shard,
                     partition);
        }
        while (reader_left(&records) > 0) {
            struct record record;
            const uint8_t *at = records.at;
            if (record_decode(&records, &record) != OK) {
                sim_fail(s->w, "S2 record", "a durable record of shard %u is damaged", s->shard);
            }
            struct place place = {lsn, (uint32_t)(at - payload.ptr), (uint32_t)(records.at - at)};
            apply_record(s, partition, place, &record);
        }
    }
    if (frame.failed) sim_fail(s->w, "S2 frame", "a frame of shard %u is damaged", s->shard);
    feeds_see_frame_end(s->w->feeds);
    receiver_see_frame_end(s->w->receiver);
}

void shadow_frame(struct shadow *s, uint64_t lsn, struct bytes payload)
{
    uint64_t hash = bytes_hash(payload);

    if (lsn <= s->lsn) {
        if (load_u64(s->hashes.ptr + (lsn - 1) * 8) == hash) return;
        sim_fail(s->w, "S2 prefix", "frame %llu of shard %u has changed", (unsigned long long)lsn,
                 s->shard);
    }
    if (lsn != s->lsn + 1 || lsn != s->attempt_lsn || hash != s->attempt_hash) {
        sim_fail(s->w, "S2 prefix", "frame %llu of shard %u was never written so (last is %llu)",
                 (unsigned long long)lsn, s->shard, (unsigned long long)s->lsn);
    }
    s->lsn = lsn;
    buffer_u64(&s->hashes, hash);
    assert(!s->hashes.failed);
    trace_frame(s->w, s->shard, lsn, hash);
    apply_payload(s, lsn, payload);
}

void shadow_replayed(struct shadow *s, uint64_t last_lsn)
{
    if (last_lsn == s->lsn) return;
    sim_fail(s->w, "S2 prefix", "shard %u recovered frames up to %llu, durable were %llu", s->shard,
             (unsigned long long)last_lsn, (unsigned long long)s->lsn);
}

/* ---- asking ---- */

bool shadow_view(struct shadow *s, struct bytes key, struct instance_view *out)
{
    return core_view(core_of(s, key), key, out) && !out->is_purged;
}

bool shadow_waits(struct shadow *s, struct bytes key)
{
    struct queued waiting;

    return backlog_find(s->backlog, backlog_hash(s->backlog, key), 0, &waiting);
}

uint64_t shadow_waiting_n(const struct shadow *s) { return backlog_n(s->backlog); }

bool shadow_knows(struct shadow *s, struct bytes key)
{
    struct instance_view view;

    return core_view(core_of(s, key), key, &view) || shadow_waits(s, key);
}

uint64_t shadow_position(const struct shadow *s, uint32_t partition, struct bytes source)
{
    return core_source_position(s->cores[partition], source);
}

bool shadow_history(struct shadow *s, struct bytes key, struct buffer *out)
{
    return core_history(core_of(s, key), key, out);
}

void shadow_check_row(struct shadow *s, struct bytes key, const struct archive_row *row)
{
    struct instance_view view;

    if (!core_view(core_of(s, key), key, &view) || view.seq < row->version) {
        sim_fail(s->w, "S30 ahead", "the archive is given %.*s at %llu before that is durable",
                 (int)key.len, (const char *)key.ptr, (unsigned long long)row->version);
    }
    if (view.seq != row->version || view.is_purged) return;
    buffer_clear(&s->left);
    (void)core_snapshot(core_of(s, key), key, &s->left);
    if (!bytes_equal(buffer_view(&s->left), row->snapshot)) {
        sim_fail(s->w, "S30 row", "the archive is given another %.*s than the journal has",
                 (int)key.len, (const char *)key.ptr);
    }
}

void shadow_each(struct shadow *s, core_view_fn *fn, void *user)
{
    for (uint32_t p = 0; p < PARTITIONS_MAX; p++) {
        if (s->cores[p] != NULL) (void)core_each(s->cores[p], fn, user);
    }
}

/* ---- comparing ---- */

struct comparison {
    struct shadow *shadow;
    struct core *durable;
    struct core *live;
    struct archive *archive;
};

static _Noreturn void differs(struct shadow *s, struct bytes key, const char *what)
{
    sim_fail(s->w, "S30 recovery", "shard %u: %.*s %s", s->shard, (int)key.len,
             (const char *)key.ptr, what);
}

/* The archive's snapshot of a key into s->right; false when it has none. */
static bool archived_snapshot(struct shadow *s, struct archive *a, struct bytes key)
{
    struct arena arena;
    struct archive_row row;

    arena_init(&arena, mem_process(), 4096);
    struct archive_key archive_key = {key_hub(key), key_id(key)};
    enum status status = archive_get(a, archive_key, true, &arena, &row);
    buffer_clear(&s->right);
    if (status == OK) buffer_append_bytes(&s->right, row.snapshot);
    arena_release(&arena);
    return status == OK;
}

static enum status compare_one(void *user, const struct instance_view *view)
{
    struct comparison *c = user;
    struct shadow *s = c->shadow;
    struct instance_view live;
    bool is_live = core_view(c->live, view->key, &live);

    if (view->is_purged) {
        if (is_live && !live.is_purged) differs(s, view->key, "is purged and in memory");
        if (!is_live && archived_snapshot(s, c->archive, view->key)) {
            differs(s, view->key, "is purged and in the archive");
        }
        return OK;
    }
    buffer_clear(&s->left);
    (void)core_snapshot(c->durable, view->key, &s->left);
    buffer_clear(&s->right);
    if (is_live) {
        if (live.is_purged) differs(s, view->key, "is purged in memory only");
        (void)core_snapshot(c->live, view->key, &s->right);
    } else if (!archived_snapshot(s, c->archive, view->key)) {
        differs(s, view->key, "is neither in memory nor in the archive");
    }
    if (!bytes_equal(buffer_view(&s->left), buffer_view(&s->right))) {
        differs(s, view->key,
                is_live ? "in memory is not what its records say"
                        : "in the archive is not what its records say");
    }
    return OK;
}

static enum status compare_live(void *user, const struct instance_view *view)
{
    struct comparison *c = user;
    struct instance_view durable;

    if (!core_view(c->durable, view->key, &durable)) {
        differs(c->shadow, view->key, "is in memory and has no records");
    }
    return OK;
}

struct summing {
    struct core *core;
    struct buffer *scratch;
    uint64_t sum;
};

static enum status add_instance(void *user, const struct instance_view *view)
{
    struct summing *sum = user;

    buffer_clear(sum->scratch);
    if (view->is_purged)
        buffer_bytes(sum->scratch, view->key);
    else
        (void)core_snapshot(sum->core, view->key, sum->scratch);
    sum->sum += bytes_hash(buffer_view(sum->scratch));
    return OK;
}

/* The digest of what belongs to no instance: numbers and outbox. The digest of a core is a sum,
 * so that of the instances (which are compared one by one, and may be in the archive) can be
 * taken away again. */
static uint64_t own_digest(struct shadow *s, struct core *c)
{
    struct summing sum = {.core = c, .scratch = &s->left};

    (void)core_each(c, add_instance, &sum);
    return core_digest(c) - sum.sum;
}

void shadow_compare(struct shadow *s, struct host *h, struct archive *a)
{
    s->w->checks_n++;
    for (uint32_t p = 0; p < s->w->options.partitions_n; p++) {
        if (s->cores[p] == NULL) continue;
        struct comparison c = {s, s->cores[p], host_core(h, p), a};
        (void)core_each(c.durable, compare_one, &c);
        (void)core_each(c.live, compare_live, &c);
        if (own_digest(s, c.durable) != own_digest(s, c.live)) {
            sim_fail(s->w, "S30 recovery",
                     "partition %u: its own state is not what its records say", p);
        }
    }
}
