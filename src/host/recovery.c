/* SPDX-License-Identifier: Apache-2.0
 *
 * From the disk to where the host was: the partitions' own state and the filter from the archive,
 * then the frames that the archive may not have, record by record, then the sleepers whose time is
 * near.
 *
 * The archive may be newer than its position says, for some instances: records that a row already
 * has are skipped by their number. A row is read at most twice: first without its snapshot, to
 * learn its number; and completely, when a record is newer. A record of an instance that neither
 * memory nor archive has belongs to one that was purged, and removed from the archive, before the
 * journal forgot it: skipped too, unless it is the one that creates it.
 */
#include "base/log.h"
#include "base/planted.h"
#include "host/rows.h"
#include "host/state.h"

#include <stdio.h>

#define DUE_PAGE_N 500u

/* What the archive has of a key that is not in memory. In the arena. */
struct known {
    struct map_node node;
    bool is_there;
    uint64_t version;
};

struct recovery {
    struct host *h;
    struct arena arena; /* of known; as long as the replay */
    struct map known;
    struct arena row_arena; /* of one row */
    char *damage;
    size_t damage_size;
    uint64_t lsn;
    /* one page of sleepers */
    uint32_t due_n;
    struct archive_row due_last; /* hub and id in due_key */
    struct buffer due_key;
};

static enum status damaged(struct recovery *r, const char *what)
{
    (void)snprintf(
        r->damage, r->damage_size,
        "journal frame %llu is intact and %s: it was written by a program with an error, "
        "or by another version; keep the data directory and restore a backup",
        (unsigned long long)r->lsn, what);
    return E_CORRUPT;
}

/* ---- from the archive ---- */

static enum status load_partition(void *user, const struct archive_partition *partition)
{
    struct recovery *r = user;
    struct host *h = r->h;

    if (partition->partition >= h->options.partitions_n ||
        !host_has_partition(h, partition->partition)) {
        (void)snprintf(r->damage, r->damage_size, "the archive has partition %u, which is not ours",
                       partition->partition);
        return E_CORRUPT;
    }
    enum status status =
        core_partition_load(h->cores[host_index(h, partition->partition)], partition->state);
    if (status != OK) {
        (void)snprintf(r->damage, r->damage_size, "the archived state of partition %u: %s",
                       partition->partition, status_text(status));
    }
    return status;
}

static enum status add_hash(void *user, uint64_t hash)
{
    struct recovery *r = user;

    filter_add(&r->h->filter, hash);
    return OK;
}

static enum status read_archive(struct recovery *r)
{
    struct host *h = r->h;

    enum status status = archive_applied_lsn(h->archive, &h->lsn_applied);
    if (status == OK) status = archive_partitions(h->archive, load_partition, r);
    if (status == OK) status = archive_hashes(h->archive, add_hash, r);
    if (status != OK && r->damage[0] == '\0') {
        (void)snprintf(r->damage, r->damage_size, "the archive cannot be read: %s",
                       status_text(status));
    }
    return status;
}

/* ---- from the journal ---- */

static enum status get_row(struct recovery *r, struct bytes key, bool want_snapshot,
                           struct archive_row *out)
{
    arena_reset(&r->row_arena);
    struct archive_key archive_key = {key_hub(key), key_id(key)};
    return archive_get(r->h->archive, archive_key, want_snapshot, &r->row_arena, out);
}

/* What the archive has of it; asked once. */
static enum status look_up(struct recovery *r, struct bytes key, struct known **out)
{
    struct map_node *node = map_find(&r->known, key);
    struct archive_row row;
    if (node != NULL) {
        *out = container_of(node, struct known, node);
        return OK;
    }
    struct known *known = arena_alloc_zero(&r->arena, sizeof *known);
    if (known == NULL) return E_NOMEM;
    known->node.key = arena_copy(&r->arena, key);
    if (known->node.key.ptr == NULL) return E_NOMEM;

    enum status status = E_NOT_FOUND;
    if (filter_has(&r->h->filter, key_hash(key))) status = get_row(r, key, false, &row);
    if (status != OK && status != E_NOT_FOUND) return status;
    known->is_there = status == OK;
    if (known->is_there) known->version = row.version;
    map_insert(&r->known, &known->node);
    *out = known;
    return OK;
}

/* Brings what the record changes into memory. *is_skipped: the record changes nothing any more. */
static enum status prepare(struct recovery *r, uint32_t index, const struct record *record,
                           bool *is_skipped)
{
    struct instance_view view;
    struct known *known = NULL;
    struct archive_row row;

    *is_skipped = false;
    if (record->kind >= RECORD_PARTITION_FIRST) return OK;
    if (!key_is_complete(record->key)) return damaged(r, "names an instance without a hub");
    if (core_view(r->h->cores[index], record->key, &view)) return OK;
    enum status status = look_up(r, record->key, &known);
    if (status != OK) return status;
    if (!known->is_there) {
        *is_skipped = record->kind != RECORD_CREATED && record->kind != RECORD_ADMITTED &&
                      record->kind != RECORD_ENTITY_CREATED && record->kind != RECORD_IMPORTED;
        return OK;
    }
    *is_skipped = record->seq <= known->version;
    if (*is_skipped) return OK;
    status = get_row(r, record->key, true, &row);
    if (status != OK) return status;
    return core_load(r->h->cores[index], row.snapshot, NULL);
}

/* Of a frame that the archive has, only what waits counts. */
static enum status apply_record(struct recovery *r, uint32_t index, struct place place,
                                const struct record *record)
{
    struct core *c = r->h->cores[index];
    bool is_skipped = place.lsn <= r->h->lsn_applied;
    enum status status = OK;

    if (record->kind == RECORD_QUEUED && planted("forget_waiting")) return OK;
    if (!is_skipped && record->kind != RECORD_QUEUED)
        status = prepare(r, index, record, &is_skipped);
    if (status != OK) return status;
    return is_skipped ? core_apply_waiting(c, place, record) : core_apply(c, place, record);
}

static enum status apply_records(struct recovery *r, uint32_t partition, const uint8_t *payload,
                                 struct bytes records)
{
    struct host *h = r->h;
    struct reader in = reader_make(records);

    if (partition >= h->options.partitions_n || !host_has_partition(h, partition)) {
        return damaged(r, "has records of a partition that is not ours");
    }
    uint32_t index = host_index(h, partition);
    while (reader_left(&in) > 0) {
        struct record record;
        const uint8_t *at = in.at;
        if (record_decode(&in, &record) != OK) return damaged(r, "has a record that is not one");
        struct place place = {r->lsn, (uint32_t)(at - payload), (uint32_t)(in.at - at)};
        enum status status = apply_record(r, index, place, &record);
        if (status == E_CORRUPT) return damaged(r, "has a record that does not fit");
        if (status != OK) return status;
    }
    return OK;
}

static enum status replay_frame(void *user, const struct journal_frame *frame)
{
    struct recovery *r = user;
    struct reader in = reader_make(frame->payload);
    uint32_t partition;
    struct bytes records;

    r->lsn = frame->lsn;
    while (frame_next_section(&in, &partition, &records)) {
        enum status status = apply_records(r, partition, frame->payload.ptr, records);
        if (status != OK) return status;
    }
    if (in.failed) return damaged(r, "has a section that is not one");
    if (frame->lsn > r->h->lsn_applied) archiver_frame(r->h, frame->lsn, frame->payload.len);
    admission_frame(r->h, frame->lsn, frame->payload.len);
    return OK;
}

/* ---- sleepers ---- */

static enum status load_sleeper(void *user, const struct archive_row *row)
{
    struct recovery *r = user;
    struct host *h = r->h;

    if (row->partition >= h->options.partitions_n || !host_has_partition(h, row->partition)) {
        return E_CORRUPT;
    }
    r->due_n++;
    buffer_clear(&r->due_key);
    buffer_append_bytes(&r->due_key, row->hub);
    buffer_append_bytes(&r->due_key, row->id);
    if (r->due_key.failed) return E_NOMEM;
    r->due_last = (struct archive_row){.wake_ms = row->wake_ms};
    r->due_last.hub = bytes_make(r->due_key.ptr, row->hub.len);
    r->due_last.id = bytes_make(r->due_key.ptr + row->hub.len, row->id.len);

    enum status status = core_load(h->cores[host_index(h, row->partition)], row->snapshot, NULL);
    return status == E_EXISTS ? OK : status; /* the replay has brought it */
}

/* Those whose time is near; when memory gets tight, only those whose time has come. */
static enum status load_sleepers(struct recovery *r)
{
    struct host *h = r->h;
    int64_t now_ms = h->now_ns / NS_PER_MS;
    int64_t covered_ms = now_ms + h->options.horizon_ms;
    bool is_first = true;

    do {
        if (archiver_is_tight(h)) covered_ms = now_ms;
        r->due_n = 0;
        enum status status = archive_due(h->archive, covered_ms, is_first ? NULL : &r->due_last,
                                         DUE_PAGE_N, load_sleeper, r);
        if (status != OK) {
            (void)snprintf(r->damage, r->damage_size, "a sleeping instance cannot be loaded: %s",
                           status_text(status));
            return status;
        }
        is_first = false;
    } while (r->due_n == DUE_PAGE_N);
    h->loader.covered_ms = covered_ms;
    return OK;
}

/* ---- the new owner ---- */

static void start_clock(struct host *h, int64_t last_ns)
{
    for (uint32_t i = 0; i < h->cores_n; i++) {
        int64_t core_ns = core_now_ns(h->cores[i]);
        if (core_ns > last_ns) last_ns = core_ns;
    }
    clock_init(&h->clock, last_ns, h->env->ops->wall_ns(h->env), h->env->ops->mono_ns(h->env));
    h->now_ns = h->clock.now_ns;
}

/* From now on nobody with an older epoch can append. */
static enum status claim_epoch(struct recovery *r, const struct journal_report *report)
{
    struct host *h = r->h;

    if (report->last_epoch == UINT32_MAX) return E_LIMIT;
    h->epoch = report->last_epoch + 1;
    struct journal_frame frame = {
        .lsn = report->last_lsn + 1,
        .epoch = h->epoch,
        .time_ns = h->now_ns,
    };
    enum status status = journal_append(h->journal, &frame);
    if (status != OK) {
        (void)snprintf(r->damage, r->damage_size, "the journal cannot be written: %s",
                       status_text(status));
        return status;
    }
    archiver_frame(h, frame.lsn, 0);
    admission_frame(h, frame.lsn, 0);
    commit_begin(h, frame.lsn);
    return OK;
}

static void resume(struct host *h)
{
    for (uint32_t i = 0; i < h->cores_n; i++) {
        core_set_epoch(h->cores[i], h->epoch);
        core_resume(h->cores[i], h->now_ns, &h->open->out);
        host_collect(h, i, NULL);
        if (h->options.check_every_step) core_check(h->cores[i]);
    }
}

/* Where what waits begins, when that is older than what the archive has not. */
static uint64_t kept_lsn(const struct host *h)
{
    uint64_t kept = h->lsn_applied;

    for (uint32_t i = 0; i < h->cores_n; i++) {
        uint64_t lsn = core_waiting_lsn(h->cores[i]);
        if (lsn <= kept) kept = lsn - 1;
    }
    return kept;
}

static enum status recover(struct recovery *r)
{
    struct host *h = r->h;
    struct journal_report report;

    enum status status = read_archive(r);
    if (status != OK) return status;
    h->lsn_kept = kept_lsn(h);
    status = journal_replay(h->journal, h->lsn_kept, replay_frame, r, &report);
    if (status == OK && report.last_lsn < h->lsn_applied) {
        (void)snprintf(r->damage, r->damage_size,
                       "the journal ends at frame %llu, and the archive has %llu",
                       (unsigned long long)report.last_lsn, (unsigned long long)h->lsn_applied);
        status = E_CORRUPT;
    }
    if (status != OK) {
        if (r->damage[0] == '\0') {
            (void)snprintf(r->damage, r->damage_size, "%s",
                           report.damage[0] != '\0' ? report.damage : status_text(status));
        }
        return status;
    }
    h->recovered_frames = report.frames_n;
    backlog_sort(h->backlog);
    start_clock(h, report.last_time_ns);
    status = load_sleepers(r);
    if (status != OK) return status;
    status = claim_epoch(r, &report);
    if (status == OK) resume(h);
    return status;
}

enum status recovery_run(struct host *h, char *damage, size_t damage_size)
{
    struct recovery r = {.h = h, .damage = damage, .damage_size = damage_size};

    int64_t start_ns = h->env->ops->mono_ns(h->env);
    damage[0] = '\0';
    arena_init(&r.arena, &h->own, 4096);
    arena_init(&r.row_arena, &h->own, 4096);
    map_init(&r.known, &h->own, h->seed[0], h->seed[1]);
    buffer_init(&r.due_key, &h->own);
    enum status status = recover(&r);
    buffer_release(&r.due_key);
    map_release(&r.known);
    arena_release(&r.row_arena);
    arena_release(&r.arena);
    h->recovery_ns = h->env->ops->mono_ns(h->env) - start_ns;
    return status;
}
