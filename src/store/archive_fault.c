/* SPDX-License-Identifier: Apache-2.0
 *
 * An archive that passes every call on to another until its turn to fail has come.
 */
#include "store/store_fault.h"

#include "base/assert.h"
#include "base/list.h"
#include "base/mem.h"

struct archive_fault {
    struct archive archive;
    struct archive *inner;
    uint64_t at; /* 1 = the next call fails; 0 = none */
    enum status status;
    bool for_ever;
};

static const struct archive_ops fault_ops;

static struct archive_fault *fault_of(struct archive *a)
{
    assert(a->ops == &fault_ops);
    return container_of(a, struct archive_fault, archive);
}

/* OK, or what this call has to answer. */
static enum status turn(struct archive *a)
{
    struct archive_fault *f = fault_of(a);
    if (f->at == 0) return OK;
    if (f->at > 1) {
        f->at--;
        return OK;
    }
    if (!f->for_ever) f->at = 0;
    assert(f->status != OK);
    return f->status;
}

static enum status fault_apply(struct archive *a, const struct archive_batch *batch)
{
    enum status status = turn(a);
    return status != OK ? status : archive_apply(fault_of(a)->inner, batch);
}

static enum status fault_maintain(struct archive *a, bool *did_something)
{
    enum status status = turn(a);
    return status != OK ? status : archive_maintain(fault_of(a)->inner, did_something);
}

static enum status fault_applied_lsn(struct archive *a, uint64_t *out)
{
    enum status status = turn(a);
    return status != OK ? status : archive_applied_lsn(fault_of(a)->inner, out);
}

static enum status fault_partitions(struct archive *a, archive_partition_fn *fn, void *user)
{
    enum status status = turn(a);
    return status != OK ? status : archive_partitions(fault_of(a)->inner, fn, user);
}

static enum status fault_hashes(struct archive *a, archive_hash_fn *fn, void *user)
{
    enum status status = turn(a);
    return status != OK ? status : archive_hashes(fault_of(a)->inner, fn, user);
}

static enum status fault_get(struct archive *a, struct archive_key key, bool want_snapshot,
                             struct arena *arena, struct archive_row *out)
{
    enum status status = turn(a);
    return status != OK ? status : archive_get(fault_of(a)->inner, key, want_snapshot, arena, out);
}

static enum status fault_query(struct archive *a, const struct archive_query *query,
                               archive_row_fn *fn, void *user)
{
    enum status status = turn(a);
    return status != OK ? status : archive_query(fault_of(a)->inner, query, fn, user);
}

static enum status fault_due(struct archive *a, int64_t before_ms, const struct archive_row *after,
                             uint32_t limit, archive_row_fn *fn, void *user)
{
    enum status status = turn(a);
    return status != OK ? status
                        : archive_due(fault_of(a)->inner, before_ms, after, limit, fn, user);
}

static enum status fault_stats(struct archive *a, struct archive_stats *out)
{
    enum status status = turn(a);
    return status != OK ? status : archive_stats(fault_of(a)->inner, out);
}

static void fault_close(struct archive *a)
{
    struct archive_fault *f = fault_of(a);
    archive_close(f->inner);
    mem_give(mem_process(), f, sizeof *f);
}

static const struct archive_ops fault_ops = {
    .name = "fault",
    .apply = fault_apply,
    .maintain = fault_maintain,
    .applied_lsn = fault_applied_lsn,
    .partitions = fault_partitions,
    .hashes = fault_hashes,
    .get = fault_get,
    .query = fault_query,
    .due = fault_due,
    .stats = fault_stats,
    .close = fault_close,
};

enum status archive_fault_open(struct archive *inner, struct archive **out)
{
    assert(inner != NULL);
    assert(inner->ops != NULL);
    struct archive_fault *f = mem_take_zero(mem_process(), sizeof *f);
    if (f == NULL) return E_NOMEM;
    f->archive.ops = &fault_ops;
    f->inner = inner;
    *out = &f->archive;
    return OK;
}

void archive_fault_at(struct archive *a, uint64_t nth_call, enum status status, bool for_ever)
{
    struct archive_fault *f = fault_of(a);
    assert(nth_call == 0 || status != OK);
    f->at = nth_call;
    f->status = status;
    f->for_ever = for_ever;
}
