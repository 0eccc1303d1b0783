/* SPDX-License-Identifier: Apache-2.0
 *
 * What a host is given as its store: the production journal on the simulated disk and the reference
 * archive, each behind a wrapper that tells the shadow what became durable and checks what it sees.
 * The archive's wrapper fails now and then; the journal's does not, because its disk does.
 */
#include "test/sim/sim_node.h"

#include "base/assert.h"
#include "test/sim/sim_trace.h"

#include <stdio.h>

/* ---- journal ---- */

struct sim_journal {
    struct journal base;
    struct journal *inner;
    struct node *node;
};

static struct sim_journal *journal_of(struct journal *j)
{
    return container_of(j, struct sim_journal, base);
}

struct replay {
    struct sim_journal *journal;
    journal_replay_fn *fn;
    void *user;
};

static enum status on_frame(void *user, const struct journal_frame *frame)
{
    struct replay *r = user;

    shadow_frame(r->journal->node->shadow, frame->lsn, frame->payload);
    return r->fn(r->user, frame);
}

static enum status sim_replay(struct journal *j, uint64_t after_lsn, journal_replay_fn *fn,
                              void *user, struct journal_report *report)
{
    struct sim_journal *s = journal_of(j);
    struct replay replay = {s, fn, user};
    enum status status = journal_replay(s->inner, after_lsn, on_frame, &replay, report);

    if (status == OK) shadow_replayed(s->node->shadow, report->last_lsn);
    if (status == E_CORRUPT || status == E_VERSION) {
        sim_fail(s->node->w, "S2 prefix", "shard %u refuses its journal: %s", s->node->shard,
                 report->damage);
    }
    return status;
}

static enum status sim_append(struct journal *j, const struct journal_frame *frame)
{
    struct sim_journal *s = journal_of(j);
    struct node *n = s->node;

    shadow_attempt(n->shadow, frame->lsn, frame->payload);
    enum status status = journal_append(s->inner, frame);
    if (status != OK) return status;
    shadow_frame(n->shadow, frame->lsn, frame->payload);
    return OK;
}

static enum status sim_trim(struct journal *j, uint64_t upto_lsn)
{
    struct sim_journal *s = journal_of(j);
    uint64_t applied = 0;

    /* What the journal forgets must be in the archive already. */
    if (archive_applied_lsn(s->node->archive, &applied) == OK && upto_lsn > applied) {
        sim_fail(s->node->w, "S30 trim", "shard %u trims its journal to %llu, archived is %llu",
                 s->node->shard, (unsigned long long)upto_lsn, (unsigned long long)applied);
    }
    return journal_trim(s->inner, upto_lsn);
}

static void sim_usage(struct journal *j, uint64_t *bytes, bool *has_spare)
{
    journal_usage(journal_of(j)->inner, bytes, has_spare);
}

static uint64_t sim_space(struct journal *j) { return journal_space(journal_of(j)->inner); }

static enum status sim_open_reader(struct journal *j, struct mem *mem, struct journal_reader **out)
{
    return journal_open_reader(journal_of(j)->inner, mem, out);
}

static void sim_journal_close(struct journal *j)
{
    struct sim_journal *s = journal_of(j);

    journal_close(s->inner);
    mem_give(mem_process(), s, sizeof *s);
}

static const struct journal_ops sim_journal_ops = {
    .name = "simulated",
    .replay = sim_replay,
    .append = sim_append,
    .trim = sim_trim,
    .usage = sim_usage,
    .space = sim_space,
    .open_reader = sim_open_reader,
    .close = sim_journal_close,
};

struct journal *sim_journal_new(struct node *n, struct journal *inner)
{
    struct sim_journal *s = mem_take_zero(mem_process(), sizeof *s);

    assert(s != NULL);
    s->base.ops = &sim_journal_ops;
    s->inner = inner;
    s->node = n;
    return &s->base;
}

/* ---- archive ---- */

struct sim_archive {
    struct archive base;
    struct archive *inner;
    struct node *node;
};

static struct sim_archive *archive_of(struct archive *a)
{
    return container_of(a, struct sim_archive, base);
}

static void check_rows(struct node *n, const struct archive_batch *batch)
{
    char key[512];

    if (batch->applied_lsn > shadow_lsn(n->shadow)) {
        sim_fail(n->w, "S30 ahead", "the archive of shard %u is at LSN %llu, the journal at %llu",
                 n->shard, (unsigned long long)batch->applied_lsn,
                 (unsigned long long)shadow_lsn(n->shadow));
    }
    for (size_t i = 0; i < batch->puts_n; i++) {
        const struct archive_row *row = &batch->puts[i].row;
        int len = snprintf(key, sizeof key, "%.*s/%.*s", (int)row->hub.len,
                           (const char *)row->hub.ptr, (int)row->id.len, (const char *)row->id.ptr);
        shadow_check_row(n->shadow, bytes_make(key, (size_t)len), row);
    }
}

static enum status sim_apply(struct archive *a, const struct archive_batch *batch)
{
    struct sim_archive *s = archive_of(a);

    check_rows(s->node, batch);
    if (fault_hits(s->node->w, FAULT_KIND_ARCHIVE_FAIL)) return E_IO;
    if (fault_hits(s->node->w, FAULT_KIND_ARCHIVE_FULL)) return E_NOSPACE;
    return archive_apply(s->inner, batch);
}

static enum status sim_maintain(struct archive *a, bool *did_something)
{
    return archive_maintain(archive_of(a)->inner, did_something);
}

static enum status sim_applied_lsn(struct archive *a, uint64_t *out)
{
    return archive_applied_lsn(archive_of(a)->inner, out);
}

static enum status sim_partitions(struct archive *a, archive_partition_fn *fn, void *user)
{
    return archive_partitions(archive_of(a)->inner, fn, user);
}

static enum status sim_hashes(struct archive *a, archive_hash_fn *fn, void *user)
{
    return archive_hashes(archive_of(a)->inner, fn, user);
}

/* Reads fail only while the process is up: a recovery that cannot read its archive ends the
 * process, which READ_EIO of the disk does often enough. */
static bool read_fails(struct sim_archive *s)
{
    return s->node->is_up && fault_hits(s->node->w, FAULT_KIND_ARCHIVE_READ_FAIL);
}

static enum status sim_get(struct archive *a, struct archive_key key, bool want_snapshot,
                           struct arena *arena, struct archive_row *out)
{
    if (read_fails(archive_of(a))) return E_IO;
    return archive_get(archive_of(a)->inner, key, want_snapshot, arena, out);
}

static enum status sim_query(struct archive *a, const struct archive_query *query,
                             archive_row_fn *fn, void *user)
{
    if (read_fails(archive_of(a))) return E_IO;
    return archive_query(archive_of(a)->inner, query, fn, user);
}

static enum status sim_due(struct archive *a, int64_t before_ms, const struct archive_row *after,
                           uint32_t limit, archive_row_fn *fn, void *user)
{
    if (read_fails(archive_of(a))) return E_IO;
    return archive_due(archive_of(a)->inner, before_ms, after, limit, fn, user);
}

static enum status sim_stats(struct archive *a, struct archive_stats *out)
{
    return archive_stats(archive_of(a)->inner, out);
}

static void sim_archive_close(struct archive *a)
{
    struct sim_archive *s = archive_of(a);

    archive_close(s->inner);
    s->node->archive = NULL;
    mem_give(mem_process(), s, sizeof *s);
}

static const struct archive_ops sim_archive_ops = {
    .name = "simulated",
    .apply = sim_apply,
    .maintain = sim_maintain,
    .applied_lsn = sim_applied_lsn,
    .partitions = sim_partitions,
    .hashes = sim_hashes,
    .get = sim_get,
    .query = sim_query,
    .due = sim_due,
    .stats = sim_stats,
    .close = sim_archive_close,
};

struct archive *sim_archive_new(struct node *n, struct archive *inner)
{
    struct sim_archive *s = mem_take_zero(mem_process(), sizeof *s);

    assert(s != NULL);
    s->base.ops = &sim_archive_ops;
    s->inner = inner;
    s->node = n;
    return &s->base;
}
