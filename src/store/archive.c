/* SPDX-License-Identifier: Apache-2.0
 *
 * What is common to all archives: what a caller may ask for, and the hash that stands for a key.
 */
#include "store/archive.h"

#include "base/assert.h"

static void check_key(struct archive_key key)
{
    assert(key.hub.len > 0);
    assert(key.id.len > 0);
}

static void check_row(const struct archive_row *row)
{
    check_key((struct archive_key){row->hub, row->id});
    assert(row->status >= 0);
    assert(row->status < 32); /* archive_query.status_mask has a bit for each */
    assert(row->is_terminal == (row->completed_ms != ARCHIVE_NO_TIME));
}

enum status archive_apply(struct archive *a, const struct archive_batch *batch)
{
    assert(batch->puts != NULL || batch->puts_n == 0);
    assert(batch->removes != NULL || batch->removes_n == 0);
    assert(batch->partitions != NULL || batch->partitions_n == 0);
    assert(batch->applied_lsn <= INT64_MAX); /* it has to fit a column */
    for (size_t i = 0; i < batch->puts_n; i++) check_row(&batch->puts[i].row);
    for (size_t i = 0; i < batch->removes_n; i++) check_key(batch->removes[i]);
    return a->ops->apply(a, batch);
}

enum status archive_maintain(struct archive *a, bool *did_something)
{
    assert(did_something != NULL);
    return a->ops->maintain(a, did_something);
}

enum status archive_applied_lsn(struct archive *a, uint64_t *out)
{
    assert(out != NULL);
    return a->ops->applied_lsn(a, out);
}

enum status archive_partitions(struct archive *a, archive_partition_fn *fn, void *user)
{
    assert(fn != NULL);
    return a->ops->partitions(a, fn, user);
}

enum status archive_hashes(struct archive *a, archive_hash_fn *fn, void *user)
{
    assert(fn != NULL);
    return a->ops->hashes(a, fn, user);
}

enum status archive_get(struct archive *a, struct archive_key key, bool want_snapshot,
                        struct arena *arena, struct archive_row *out)
{
    assert(arena != NULL);
    assert(out != NULL);
    return a->ops->get(a, key, want_snapshot, arena, out);
}

enum status archive_query(struct archive *a, const struct archive_query *query, archive_row_fn *fn,
                          void *user)
{
    assert(fn != NULL);
    assert(query->limit > 0);
    assert(!query->entities || !query->by_completion); /* an entity never ends */
    assert(!query->entities || !query->newest_first);
    return a->ops->query(a, query, fn, user);
}

enum status archive_due(struct archive *a, int64_t before_ms, const struct archive_row *after,
                        uint32_t limit, archive_row_fn *fn, void *user)
{
    assert(fn != NULL);
    assert(limit > 0);
    return a->ops->due(a, before_ms, after, limit, fn, user);
}

enum status archive_stats(struct archive *a, struct archive_stats *out)
{
    assert(out != NULL);
    return a->ops->stats(a, out);
}

void archive_close(struct archive *a)
{
    assert(a->ops != NULL);
    a->ops->close(a);
}

/* The hash of the two hashes: as good as one of the text, and needs no memory to put it
 * together. */
uint64_t archive_key_hash(struct archive_key key)
{
    uint8_t both[16];
    store_u64(both, bytes_hash(key.hub));
    store_u64(both + 8, bytes_hash(key.id));
    return bytes_hash(bytes_make(both, sizeof both));
}

bool archive_tag_is(struct bytes tag, struct bytes wanted)
{
    assert(wanted.len > 0);
    if (tag.len <= wanted.len || memchr(wanted.ptr, '=', wanted.len) != NULL)
        return bytes_equal(tag, wanted);
    return bytes_start_with(tag, wanted) && tag.ptr[wanted.len] == '=';
}
