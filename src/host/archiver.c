/* SPDX-License-Identifier: Apache-2.0
 *
 * See archiver.h. What a round brings is decided by the cores (core_archive_pick); here is when,
 * how much, and what follows: the filter, the position, eviction, trimming of the journal.
 */
#include "host/archiver.h"

#include "base/log.h"
#include "base/planted.h"
#include "host/rows.h"
#include "host/state.h"

#define PICK_N 64u                        /* keys taken from a core at once */
#define IDLE_N 256u                       /* idle ones looked at per core and round */
#define ROUND_SIZE_MAX ((size_t)32 << 20) /* of snapshots */
#define SNAPSHOTS_KEEP ((size_t)16 << 20) /* of the buffer, from round to round */
#define RETRY_FIRST_NS (200 * NS_PER_MS)  /* doubles with each failure */
#define RETRY_LAST_NS (60 * NS_PER_S)
#define LASTING_N 10u /* failures in a row, and over so long, that are no hiccup */
#define LASTING_NS (30 * NS_PER_S)
#define MAINTAIN_NS (10 * NS_PER_S) /* when there was nothing to do */
#define PROBE_NS NS_PER_S
#define HELD_NS NS_PER_S /* how often to look whether it still is */
/* Of archive_lag_max, from which on what stays in memory is archived too: ordinarily, and on a disk
 * that is nearly full. */
#define LAG_PART 4
#define LOW_DISK_PART 64
#define ARENA_CHUNK_SIZE ((size_t)64 << 10)

static void run_round(struct job *job);
static void done_round(struct job *job);
static void run_maintain(struct job *job);
static void done_maintain(struct job *job);
static void run_trim(struct job *job);
static void done_trim(struct job *job);

enum status archiver_init(struct host *h)
{
    struct archiver *a = &h->archiver;

    a->archive = h->archive;
    a->journal = h->journal;
    a->job = (struct job){.run = run_round, .done = done_round};
    a->maintain_job = (struct job){.run = run_maintain, .done = done_maintain};
    a->trim_job = (struct job){.run = run_trim, .done = done_trim};
    arena_init(&a->arena, &h->own, ARENA_CHUNK_SIZE);
    buffer_init(&a->snapshots, &h->own);
    a->entries_max = h->options.archive_batch_n;
    assert(a->entries_max > 0);
    a->entries = mem_take(&h->own, a->entries_max * sizeof *a->entries);
    a->puts = mem_take(&h->own, a->entries_max * sizeof *a->puts);
    a->removes = mem_take(&h->own, a->entries_max * sizeof *a->removes);
    a->partitions = mem_take(&h->own, h->cores_n * sizeof *a->partitions);
    bool is_done =
        a->entries != NULL && a->puts != NULL && a->removes != NULL && a->partitions != NULL;
    return is_done ? OK : E_NOMEM;
}

void archiver_release(struct host *h)
{
    struct archiver *a = &h->archiver;

    mem_give(&h->own, a->entries, a->entries_max * sizeof *a->entries);
    mem_give(&h->own, a->puts, a->entries_max * sizeof *a->puts);
    mem_give(&h->own, a->removes, a->entries_max * sizeof *a->removes);
    mem_give(&h->own, a->partitions, h->cores_n * sizeof *a->partitions);
    buffer_release(&a->snapshots);
    arena_release(&a->arena);
}

/* ---- how far behind ---- */

void archiver_frame(struct host *h, uint64_t lsn, size_t size)
{
    struct archiver *a = &h->archiver;
    uint64_t spacing = h->options.archive_lag_max / (LAG_MARKS_N / 2);

    a->bytes += size;
    if (a->marks_n == LAG_MARKS_N)
        return; /* far behind anyhow: the last mark counts for what follows */
    uint32_t last = (a->marks_first + a->marks_n - 1) % LAG_MARKS_N;
    if (a->marks_n > 0 && a->bytes - a->marks[last].bytes < spacing) return;
    a->marks[(a->marks_first + a->marks_n) % LAG_MARKS_N] = (struct lag_mark){lsn, a->bytes};
    a->marks_n++;
}

/* Marks that the archive has passed are forgotten, but for the last of them. */
static void forget_marks(struct host *h)
{
    struct archiver *a = &h->archiver;

    while (a->marks_n > 1) {
        uint32_t second = (a->marks_first + 1) % LAG_MARKS_N;
        if (a->marks[second].lsn > h->lsn_applied) return;
        a->marks_first = second;
        a->marks_n--;
    }
}

uint64_t archiver_lag(const struct host *h)
{
    const struct archiver *a = &h->archiver;

    if (h->lsn_applied == h->lsn_durable || a->marks_n == 0) return 0;
    const struct lag_mark *mark = &a->marks[a->marks_first];
    return mark->lsn <= h->lsn_applied ? a->bytes - mark->bytes : a->bytes;
}

bool archiver_is_tight(const struct host *h)
{
    return host_hot_bytes(h) > h->options.hot_bytes_max / 4 * 3;
}

static size_t finished_n(const struct host *h)
{
    size_t n = 0;

    for (uint32_t i = 0; i < h->cores_n; i++) n += core_finished_n(h->cores[i]);
    return n;
}

/* ---- building a round ---- */

/* Everything that a round needs to know of an instance, as it is now. False without memory. */
static bool add_entry(struct host *h, uint32_t index, struct bytes key, bool is_tight)
{
    struct archiver *a = &h->archiver;
    struct instance_view view;

    bool is_there = core_view(h->cores[index], key, &view);
    assert(is_there); /* it was picked */
    int64_t idle_since_ns = h->now_ns - h->options.idle_evict_ms * NS_PER_MS;
    struct round_entry entry = {
        .index = index,
        .key = arena_copy(&a->arena, key),
        .hash = key_hash(key),
        .seq = view.seq,
        .is_purged = view.is_purged,
        .had_row = view.is_archived,
        .may_evict = is_tight || view.updated_ns <= idle_since_ns,
    };
    if (entry.key.len != key.len) return false;
    a->entries[a->entries_n++] = entry;
    if (view.is_purged) {
        if (planted("purge_in_memory")) return true;
        a->removes[a->batch.removes_n++] =
            (struct archive_key){key_hub(entry.key), key_id(entry.key)};
        return true;
    }
    struct archive_put *put = &a->puts[a->batch.puts_n++];
    view.key = entry.key;
    if (row_of_view(&view, host_partition(h, index), &a->arena, &put->row) != OK) return false;
    put->is_new = !view.is_archived;
    size_t at = a->snapshots.len;
    (void)core_snapshot(h->cores[index], key, &a->snapshots);
    put->row.snapshot = bytes_make(NULL, a->snapshots.len - at); /* where: when all are there */
    return !a->snapshots.failed;
}

static bool is_round_full(const struct archiver *a)
{
    return a->entries_n == a->entries_max || a->snapshots.len >= ROUND_SIZE_MAX;
}

static bool pick_of_core(struct host *h, uint32_t index, uint64_t upto_lsn, size_t idle_n,
                         bool is_tight)
{
    struct archiver *a = &h->archiver;
    struct bytes keys[PICK_N];
    int64_t now_ms = h->now_ns / NS_PER_MS;
    int64_t idle_ms = is_tight ? now_ms : now_ms - h->options.idle_evict_ms;

    while (!is_round_full(a)) {
        size_t room = a->entries_max - a->entries_n;
        size_t before_n = core_instances_n(h->cores[index]);
        size_t n = core_archive_pick(h->cores[index], upto_lsn, idle_n, idle_ms, keys,
                                     room < PICK_N ? room : PICK_N);
        size_t gone_n = before_n - core_instances_n(h->cores[index]);
        a->evicted += gone_n;
        for (size_t i = 0; i < n; i++) {
            if (!add_entry(h, index, keys[i], is_tight)) return false;
        }
        if (n < PICK_N) return true;
        idle_n = idle_n > PICK_N ? idle_n - PICK_N : 0; /* so many were looked at */
    }
    return true;
}

/* Dirty since this frame or before: must come along, to let the journal be trimmed. On a disk that
 * is nearly full the journal itself may be what fills it. */
static uint64_t upto_lsn(const struct host *h)
{
    size_t lag_max = h->options.archive_lag_max / (host_is_disk_low(h) ? LOW_DISK_PART : LAG_PART);
    if (archiver_lag(h) < lag_max) return 0;
    return h->lsn_applied + (h->lsn_durable - h->lsn_applied + 1) / 2;
}

static bool pick(struct host *h)
{
    bool is_tight = archiver_is_tight(h);
    uint64_t upto = upto_lsn(h);
    /* Clean ones leave while they are looked at; not while the archive is being read (see
     * loader.h). */
    size_t idle_n = h->loader.is_under_way || h->is_stopping ? 0 : IDLE_N;

    for (uint32_t index = 0; index < h->cores_n; index++) {
        if (!pick_of_core(h, index, upto, idle_n, is_tight)) return false;
    }
    return true;
}

/* Always all that changed: the position must not pass a count that is nowhere else. */
static bool add_partitions(struct host *h)
{
    struct archiver *a = &h->archiver;

    for (uint32_t index = 0; index < h->cores_n; index++) {
        if (!core_partition_is_dirty(h->cores[index])) continue;
        size_t at = a->snapshots.len;
        core_partition_snapshot(h->cores[index], &a->snapshots);
        a->partitions[a->batch.partitions_n++] = (struct archive_partition){
            host_partition(h, index), bytes_make(NULL, a->snapshots.len - at)};
    }
    return !a->snapshots.failed;
}

/* The buffer does not move any more. */
static void set_snapshots(struct archiver *a)
{
    const uint8_t *at = a->snapshots.ptr;

    if (a->snapshots.len == 0) return;
    for (size_t i = 0; i < a->batch.puts_n; i++) {
        a->puts[i].row.snapshot.ptr = at;
        at += a->puts[i].row.snapshot.len;
    }
    for (size_t i = 0; i < a->batch.partitions_n; i++) {
        a->partitions[i].state.ptr = at;
        at += a->partitions[i].state.len;
    }
    assert(at == a->snapshots.ptr + a->snapshots.len);
}

/* Everything before this frame is in the archive when the round is. */
static uint64_t applied_after(const struct host *h)
{
    uint64_t least = UINT64_MAX;

    for (uint32_t i = 0; i < h->cores_n; i++) {
        uint64_t lsn = core_dirty_lsn(h->cores[i]);
        if (lsn < least) least = lsn;
    }
    /* The open batch may still grow: what comes into it after the pick would be passed. */
    uint64_t newest = h->open->lsn - 1;
    uint64_t applied = least <= newest ? least - 1 : newest;
    assert(applied >= h->lsn_applied);
    return applied;
}

/* The same with what waits: the partitions' state that comes along says from where on recovery
 * reads it, so nothing after that may go. */
static uint64_t kept_after(const struct host *h, uint64_t applied_lsn)
{
    uint64_t oldest = backlog_lsn(h->backlog);
    bool is_kept = oldest <= applied_lsn && !planted("trim_waiting");
    uint64_t kept = is_kept ? oldest - 1 : applied_lsn;
    assert(kept >= h->lsn_kept);
    return kept;
}

static void build(struct host *h)
{
    struct archiver *a = &h->archiver;

    a->entries_n = 0;
    a->batch =
        (struct archive_batch){.puts = a->puts, .removes = a->removes, .partitions = a->partitions};
    arena_reset(&a->arena);
    buffer_clear(&a->snapshots);
    if (!pick(h)) {
        /* What was picked is in nobody's list any more; after a restart it is dirty again. */
        host_fatal(h, E_NOMEM, "there is no memory to archive what has finished");
        return;
    }
    a->was_full = is_round_full(a);
    a->batch.applied_lsn = applied_after(h);
    a->needs_lsn = commit_newest_lsn(h);
    a->kept_lsn = kept_after(h, a->batch.applied_lsn);
    uint64_t gain = a->batch.applied_lsn - h->lsn_applied;
    gain += a->kept_lsn - h->lsn_kept;
    bool is_worth_it =
        a->entries_n > 0 ||
        (gain > 0 && (h->is_stopping || archiver_lag(h) > h->options.archive_lag_max / 8 ||
                      admission_pinned(h) > h->options.archive_lag_max / 8));
    if (!is_worth_it) return;
    if (!add_partitions(h)) {
        host_fatal(h, E_NOMEM, "there is no memory to archive the state of the partitions");
        return;
    }
    set_snapshots(a);
    a->state = ROUND_BUILT;
    a->retry_ns = 0;
    a->failures_n = 0;
}

/* ---- running it ---- */

static void run_round(struct job *job)
{
    struct archiver *a = container_of(job, struct archiver, job);

    a->status = archive_apply(a->archive, &a->batch);
}

static void done_round(struct job *job)
{
    container_of(job, struct archiver, job)->state = ROUND_DONE;
}

static void fail_round(struct host *h)
{
    struct archiver *a = &h->archiver;
    int64_t delay_ns = RETRY_FIRST_NS;

    if (a->failures_n == 0) {
        a->failing_since_ns = h->now_ns;
        log_error("the archive cannot be written, the journal keeps everything meanwhile: %s",
                  status_text(a->status));
    }
    for (uint32_t i = 0; i < a->failures_n && delay_ns < RETRY_LAST_NS; i++) delay_ns *= 2;
    a->failures_n++;
    a->retry_ns = h->now_ns + (delay_ns < RETRY_LAST_NS ? delay_ns : RETRY_LAST_NS);
    a->state = ROUND_BUILT;
    if (h->is_stopping) {
        a->is_given_up = true;
    } else if (a->status == E_IO && a->failures_n >= LASTING_N &&
               h->now_ns - a->failing_since_ns >= LASTING_NS) {
        host_fatal(h, E_IO, "the archive cannot be written");
    }
}

static void finish_entry(struct host *h, const struct round_entry *entry)
{
    struct core *c = h->cores[entry->index];
    struct instance_view view;

    if (entry->is_purged && entry->had_row) filter_remove(&h->filter, entry->hash);
    bool is_noted = !planted("no_filter");
    if (!entry->is_purged && !entry->had_row && is_noted) filter_add(&h->filter, entry->hash);
    struct candidate *kept = NULL;
    if (h->loader.job.query != NULL && core_view(c, entry->key, &view))
        kept = queries_keep(h, &view);
    if (core_archived(c, entry->key, entry->seq, entry->is_purged, entry->may_evict)) {
        h->archiver.evicted++;
        loader_left(h, entry->hash);
    } else {
        queries_keep_not(h, kept);
    }
}

void archiver_finish(struct host *h)
{
    struct archiver *a = &h->archiver;

    if (a->state != ROUND_DONE) return;
    if (a->status != OK) {
        fail_round(h);
        return;
    }
    if (!host_tell_time(h)) return; /* the next turn tries again */
    if (a->failures_n > 0) log_info("the archive can be written again");
    for (size_t i = 0; i < a->entries_n; i++) finish_entry(h, &a->entries[i]);
    h->loader.absent_n = 0; /* the archive has new rows */
    h->lsn_applied = a->batch.applied_lsn;
    h->lsn_kept = a->kept_lsn;
    forget_marks(h);
    if (a->snapshots.size > SNAPSHOTS_KEEP) buffer_release(&a->snapshots);
    a->state = ROUND_IDLE;
    a->maintain_ns = a->maintain_ns == 0 ? h->now_ns : a->maintain_ns;
}

/* ---- the rest of its work ---- */

static void run_maintain(struct job *job)
{
    struct archiver *a = container_of(job, struct archiver, maintain_job);

    a->maintain_status = archive_maintain(a->archive, &a->did_something);
}

static void done_maintain(struct job *job)
{
    container_of(job, struct archiver, maintain_job)->is_maintaining = false;
}

/* Not before the first round: there is nothing to give back. */
static bool may_maintain(const struct host *h)
{
    const struct archiver *a = &h->archiver;

    return a->maintain_ns != 0 && !a->is_maintaining && !h->is_stopping;
}

static void maintain(struct host *h)
{
    struct archiver *a = &h->archiver;

    if (!may_maintain(h) || h->now_ns < a->maintain_ns) return;
    bool goes_on = a->did_something && a->maintain_status == OK;
    a->maintain_ns = h->now_ns + (goes_on ? h->options.archive_every_ms * NS_PER_MS : MAINTAIN_NS);
    a->did_something = false;
    a->is_maintaining = true;
    h->env->ops->submit(h->env, LANE_ARCHIVE, &a->maintain_job);
}

static void run_trim(struct job *job)
{
    struct archiver *a = container_of(job, struct archiver, trim_job);

    /* A failure only keeps segments longer; a broken journal is noticed by the next append. */
    (void)journal_trim(a->journal, a->trim_lsn);
    journal_usage(a->journal, &a->trim_bytes, &a->trim_has_spare);
    a->trim_disk_free = journal_space(a->journal);
}

static void done_trim(struct job *job)
{
    struct archiver *a = container_of(job, struct archiver, trim_job);

    struct host *h = container_of(a, struct host, archiver);

    a->is_trimming = false;
    a->trimmed_lsn = a->trim_lsn;
    h->journal_bytes = a->trim_bytes;
    h->has_spare = a->trim_has_spare;
    h->disk_free = a->trim_disk_free;
}

/* Also tries for a spare segment, and looks at the disk: while it is nearly full, starts are
 * refused, and perhaps nothing else comes that would make the journal try. */
static void trim(struct host *h)
{
    struct archiver *a = &h->archiver;
    bool wants_spare = host_is_disk_low(h) && h->now_ns >= a->probe_ns;

    if (a->is_trimming || (a->trimmed_lsn >= h->lsn_kept && !wants_spare)) return;
    a->probe_ns = h->now_ns + PROBE_NS;
    a->trim_lsn = h->lsn_kept;
    a->is_trimming = true;
    h->env->ops->submit(h->env, LANE_COMMIT, &a->trim_job);
}

/* ---- when ---- */

static bool is_time(const struct host *h)
{
    const struct archiver *a = &h->archiver;

    if (h->is_stopping || a->was_full || h->now_ns >= a->next_ns) return true;
    return finished_n(h) >= h->options.archive_batch_n;
}

static void begin_round(struct host *h)
{
    struct archiver *a = &h->archiver;

    a->waits_for_loader = false;
    if (!is_time(h)) return;
    /* Under pressure idle ones must be able to leave: lets the read job end, and holds back the
     * next. */
    a->waits_for_loader = h->loader.is_under_way && archiver_is_tight(h) && !h->is_stopping;
    if (a->waits_for_loader || !host_tell_time(h)) return;
    a->next_ns = h->now_ns + h->options.archive_every_ms * NS_PER_MS;
    build(h);
}

void archiver_turn(struct host *h)
{
    struct archiver *a = &h->archiver;

    if (hold_phase(&h->hold) != HOLD_NONE) return;
    if (a->state == ROUND_IDLE) begin_round(h);
    if (a->state == ROUND_BUILT && !h->is_dead && !a->is_given_up &&
        (h->lsn_durable >= a->needs_lsn || planted("archive_ahead")) && h->now_ns >= a->retry_ns) {
        a->state = ROUND_RUNNING;
        h->env->ops->submit(h->env, LANE_ARCHIVE, &a->job);
    }
    if (a->state == ROUND_IDLE) maintain(h);
    trim(h);
}

static int64_t earlier(int64_t a, int64_t b) { return a < b ? a : b; }

/* Something in memory may finish, get old or idle. */
static bool has_instances(const struct host *h)
{
    for (uint32_t i = 0; i < h->cores_n; i++) {
        if (core_instances_n(h->cores[i]) > 0) return true;
    }
    return false;
}

int64_t archiver_wake_ns(const struct host *h)
{
    const struct archiver *a = &h->archiver;
    int64_t at_ns = !host_is_disk_low(h) || a->is_trimming ? INT64_MAX : a->probe_ns;

    if (hold_phase(&h->hold) != HOLD_NONE) return h->now_ns + HELD_NS;
    switch (a->state) {
    case ROUND_RUNNING: return at_ns;
    case ROUND_BUILT:
        return a->failures_n > 0 && !a->is_given_up ? earlier(at_ns, a->retry_ns) : at_ns;
    case ROUND_DONE: return earlier(at_ns, h->now_ns + RETRY_FIRST_NS); /* memory was short */
    case ROUND_IDLE: break;
    }
    if (may_maintain(h)) at_ns = earlier(at_ns, a->maintain_ns);
    if (!a->waits_for_loader && has_instances(h)) at_ns = earlier(at_ns, a->next_ns);
    return at_ns;
}

bool archiver_is_still(const struct host *h)
{
    const struct archiver *a = &h->archiver;

    return (a->state == ROUND_IDLE || a->state == ROUND_BUILT) && !a->is_maintaining &&
           !a->is_trimming;
}

bool archiver_is_quiet(const struct host *h)
{
    const struct archiver *a = &h->archiver;

    if (a->is_maintaining || a->is_trimming) return false;
    if (a->is_given_up) return a->state != ROUND_RUNNING && a->state != ROUND_DONE;
    return a->state == ROUND_IDLE && finished_n(h) == 0;
}
