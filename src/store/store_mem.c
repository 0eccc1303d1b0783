/* SPDX-License-Identifier: Apache-2.0
 *
 * Journal and archive in memory: as plain as possible, because the others are compared with it.
 *
 * The frames are a list; trim removes all but the newest, as a file journal keeps its last segment.
 * The rows are an array sorted by hub and id, each row one block of memory with all its bytes; a
 * query looks at every row. A batch is copied completely before the first change, so that it is
 * applied as a whole or not at all. One lock makes readers beside the one writer possible.
 */
#define _GNU_SOURCE /* memmem */
#include "store/store_mem.h"

#include "base/assert.h"
#include "base/list.h"
#include "base/mem.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct mem_frame {
    struct list node;
    struct journal_frame frame; /* payload behind the struct */
};

struct mem_row {
    struct archive_row row; /* its bytes behind the struct */
    size_t size;            /* of the whole block */
};

struct mem_partition {
    struct archive_partition partition; /* state behind the struct */
};

struct store_mem {
    struct mem *mem;
    struct list frames; /* of mem_frame, oldest first */
    uint64_t frame_bytes;

    pthread_mutex_t
        lock; /* over all that follows; recursive, for readers that read in a callback */
    struct mem_row **rows; /* by hub and id */
    size_t rows_n;
    size_t rows_capacity;
    struct mem_partition **partitions; /* by number */
    size_t partitions_n;
    size_t partitions_capacity;
    uint64_t applied_lsn;
};

/* What holds of the rows and partitions whenever the lock is free. */
static void check(const struct store_mem *store)
{
    assert(store->rows_n <= store->rows_capacity);
    assert((store->rows != NULL) == (store->rows_capacity > 0));
    assert(store->partitions_n <= store->partitions_capacity);
    assert((store->partitions != NULL) == (store->partitions_capacity > 0));
}

static void row_free(struct mem *mem, struct mem_row *row)
{
    assert(row == NULL || row->size > sizeof *row); /* a row has a key */
    if (row != NULL) mem_give(mem, row, row->size);
}

static void partition_free(struct mem *mem, struct mem_partition *p)
{
    if (p != NULL) mem_give(mem, p, sizeof *p + p->partition.state.len);
}

enum status store_mem_new(struct mem *mem, struct store_mem **out)
{
    assert(mem != NULL);
    struct store_mem *store = mem_take_zero(mem, sizeof *store);
    if (store == NULL) return E_NOMEM;
    store->mem = mem;
    list_init(&store->frames);

    pthread_mutexattr_t attributes;
    int error = pthread_mutexattr_init(&attributes);
    if (error == 0) error = pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    if (error == 0) error = pthread_mutex_init(&store->lock, &attributes);
    assert(error == 0); /* fails only for wrong arguments */
    (void)pthread_mutexattr_destroy(&attributes);
    *out = store;
    return OK;
}

static void frame_free(struct store_mem *store, struct mem_frame *frame)
{
    size_t size = sizeof *frame + frame->frame.payload.len;
    assert(store->frame_bytes >= size);
    assert(list_is_linked(&frame->node));
    store->frame_bytes -= size;
    list_remove(&frame->node);
    mem_give(store->mem, frame, size);
}

void store_mem_free(struct store_mem *store)
{
    while (!list_is_empty(&store->frames)) {
        frame_free(store, container_of(list_first(&store->frames), struct mem_frame, node));
    }
    assert(store->frame_bytes == 0);
    check(store);
    for (size_t i = 0; i < store->rows_n; i++) row_free(store->mem, store->rows[i]);
    for (size_t i = 0; i < store->partitions_n; i++) {
        partition_free(store->mem, store->partitions[i]);
    }
    mem_give(store->mem, store->rows, store->rows_capacity * sizeof *store->rows);
    mem_give(store->mem, store->partitions, store->partitions_capacity * sizeof *store->partitions);
    (void)pthread_mutex_destroy(&store->lock);
    mem_give(store->mem, store, sizeof *store);
}

static void lock(struct store_mem *store)
{
    int error = pthread_mutex_lock(&store->lock);
    assert(error == 0);
    check(store);
}

static void unlock(struct store_mem *store)
{
    check(store);
    int error = pthread_mutex_unlock(&store->lock);
    assert(error == 0);
}

/* ---- journal ---- */

struct journal_mem {
    struct journal journal;
    struct store_mem *store;
};

static const struct journal_ops journal_mem_ops;

static struct store_mem *store_of_journal(struct journal *j)
{
    assert(j->ops == &journal_mem_ops);
    struct store_mem *store = container_of(j, struct journal_mem, journal)->store;
    assert((store->frame_bytes > 0) == !list_is_empty(&store->frames));
    return store;
}

/* NULL when there is none. */
static const struct journal_frame *last_frame(const struct store_mem *store)
{
    const struct list *node = list_last(&store->frames);
    return node == NULL ? NULL : &container_of(node, struct mem_frame, node)->frame;
}

static enum status mem_replay(struct journal *j, uint64_t after_lsn, journal_replay_fn *fn,
                              void *user, struct journal_report *report)
{
    struct store_mem *store = store_of_journal(j);
    struct list *node = list_first(&store->frames);
    uint64_t first_lsn = 1;
    uint64_t last_lsn = 0;
    if (node != NULL) {
        first_lsn = container_of(node, struct mem_frame, node)->frame.lsn;
        last_lsn = last_frame(store)->lsn;
        report->first_lsn = first_lsn;
    }
    assert(first_lsn <= last_lsn + 1);
    if (first_lsn > after_lsn + 1 || last_lsn < after_lsn) {
        (void)snprintf(report->damage, sizeof report->damage,
                       "memory: frames after %llu are needed, there are %llu to %llu",
                       (unsigned long long)after_lsn, (unsigned long long)first_lsn,
                       (unsigned long long)last_lsn);
        return E_CORRUPT;
    }
    for (; node != NULL; node = list_next(&store->frames, node)) {
        const struct journal_frame *frame = &container_of(node, struct mem_frame, node)->frame;
        assert(report->last_lsn == 0 || frame->lsn == report->last_lsn + 1);
        assert(frame->epoch >= report->last_epoch);
        assert(frame->time_ns >= report->last_time_ns);
        report->last_lsn = frame->lsn;
        report->last_epoch = frame->epoch;
        report->last_time_ns = frame->time_ns;
        if (frame->lsn <= after_lsn) continue;
        report->frames_n++;
        enum status status = fn(user, frame);
        if (status != OK) return status;
    }
    assert(report->last_lsn == last_lsn);
    assert(report->frames_n == last_lsn - after_lsn);
    return OK;
}

static enum status mem_append(struct journal *j, const struct journal_frame *frame)
{
    struct store_mem *store = store_of_journal(j);
    const struct journal_frame *last = last_frame(store);
    assert(last == NULL || frame->lsn == last->lsn + 1);
    assert(last == NULL || frame->epoch >= last->epoch);
    assert(last == NULL || frame->time_ns >= last->time_ns);
    size_t size = sizeof(struct mem_frame) + frame->payload.len;
    struct mem_frame *copy = mem_take(store->mem, size);
    if (copy == NULL) return E_NOMEM;
    copy->frame = *frame;
    copy->frame.payload.ptr = (uint8_t *)(copy + 1);
    if (frame->payload.len > 0) memcpy(copy + 1, frame->payload.ptr, frame->payload.len);
    list_node_init(&copy->node);
    lock(store); /* readers look at the list from another thread */
    list_push_back(&store->frames, &copy->node);
    unlock(store);
    store->frame_bytes += size;
    return OK;
}

static enum status mem_trim(struct journal *j, uint64_t upto_lsn)
{
    struct store_mem *store = store_of_journal(j);
    assert(list_is_empty(&store->frames) || upto_lsn <= last_frame(store)->lsn);
    for (;;) {
        struct list *node = list_first(&store->frames);
        if (node == NULL || node == list_last(&store->frames)) return OK;
        struct mem_frame *frame = container_of(node, struct mem_frame, node);
        if (frame->frame.lsn > upto_lsn) return OK;
        lock(store);
        frame_free(store, frame);
        unlock(store);
    }
}

static void mem_usage(struct journal *j, uint64_t *bytes, bool *has_spare)
{
    *bytes = store_of_journal(j)->frame_bytes;
    *has_spare = true;
}

static void mem_close(struct journal *j)
{
    assert(j->ops == &journal_mem_ops);
    struct journal_mem *m = container_of(j, struct journal_mem, journal);
    mem_give(m->store->mem, m, sizeof *m);
}

struct reader_mem {
    struct journal_reader reader;
    struct store_mem *store;
    struct mem *mem;
};

static const struct journal_reader_ops reader_mem_ops;

static struct reader_mem *reader_of(struct journal_reader *r)
{
    assert(r->ops == &reader_mem_ops);
    return container_of(r, struct reader_mem, reader);
}

/* What waits is old: it is found from the oldest on. */
static enum status mem_read(struct journal_reader *r, uint64_t lsn, struct buffer *out)
{
    struct store_mem *store = reader_of(r)->store;
    enum status status = E_NOT_FOUND;
    lock(store);
    struct list *node = list_first(&store->frames);
    for (; node != NULL && status == E_NOT_FOUND; node = list_next(&store->frames, node)) {
        const struct journal_frame *frame = &container_of(node, struct mem_frame, node)->frame;
        if (frame->lsn != lsn) continue;
        buffer_append_bytes(out, frame->payload);
        status = OK;
    }
    unlock(store);
    return status;
}

static void mem_reader_close(struct journal_reader *r)
{
    struct reader_mem *m = reader_of(r);
    mem_give(m->mem, m, sizeof *m);
}

static const struct journal_reader_ops reader_mem_ops = {
    .read = mem_read,
    .close = mem_reader_close,
};

static uint64_t mem_space(struct journal *j)
{
    (void)j;
    return UINT64_MAX;
}

static enum status mem_open_reader(struct journal *j, struct mem *mem, struct journal_reader **out)
{
    struct reader_mem *m = mem_take_zero(mem, sizeof *m);
    if (m == NULL) return E_NOMEM;
    m->reader.ops = &reader_mem_ops;
    m->store = store_of_journal(j);
    m->mem = mem;
    *out = &m->reader;
    return OK;
}

static const struct journal_ops journal_mem_ops = {
    .name = "mem",
    .replay = mem_replay,
    .append = mem_append,
    .trim = mem_trim,
    .usage = mem_usage,
    .space = mem_space,
    .open_reader = mem_open_reader,
    .close = mem_close,
};

enum status journal_mem_open(struct store_mem *store, struct journal **out)
{
    struct journal_mem *m = mem_take_zero(store->mem, sizeof *m);
    if (m == NULL) return E_NOMEM;
    m->journal.ops = &journal_mem_ops;
    m->store = store;
    *out = &m->journal;
    return OK;
}

/* ---- archive: rows ---- */

struct archive_mem {
    struct archive archive;
    struct store_mem *store;
};

static const struct archive_ops archive_mem_ops;

static struct store_mem *store_of(struct archive *a)
{
    assert(a->ops == &archive_mem_ops);
    return container_of(a, struct archive_mem, archive)->store;
}

/* The bytes of a row, in one order for copying and counting. */
#define ROW_BYTES(X) X(hub) X(id) X(name) X(tags) X(parent_id) X(error) X(snapshot)

static struct mem_row *row_copy(struct mem *mem, const struct archive_row *row)
{
    size_t size = sizeof(struct mem_row);
#define X(field) size += row->field.len;
    ROW_BYTES(X)
#undef X
    assert(row->id.len > 0);
    struct mem_row *copy = mem_take(mem, size);
    if (copy == NULL) return NULL;
    copy->row = *row;
    copy->size = size;
    uint8_t *at = (uint8_t *)(copy + 1);
#define X(field)                                                                                   \
    if (row->field.len > 0) memcpy(at, row->field.ptr, row->field.len);                            \
    copy->row.field.ptr = at;                                                                      \
    at += row->field.len;
    ROW_BYTES(X)
#undef X
    assert(at == (uint8_t *)copy + size);
    return copy;
}

static int compare_keys(struct bytes hub_a, struct bytes id_a, struct bytes hub_b,
                        struct bytes id_b)
{
    int order = bytes_compare(hub_a, hub_b);
    return order != 0 ? order : bytes_compare(id_a, id_b);
}

/* Index of the row, or of where it belongs. */
static size_t find_row(const struct store_mem *store, struct bytes hub, struct bytes id,
                       bool *is_found)
{
    size_t low = 0;
    size_t high = store->rows_n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct archive_row *row = &store->rows[middle]->row;
        if (compare_keys(row->hub, row->id, hub, id) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    assert(low == high);
    assert(low <= store->rows_n);
    *is_found = low < store->rows_n &&
                compare_keys(store->rows[low]->row.hub, store->rows[low]->row.id, hub, id) == 0;
    return low;
}

/* The neighbours of this row are on their sides of it: sorted, and no key twice. */
static void check_place(const struct store_mem *store, size_t at)
{
    assert(at < store->rows_n);
    const struct archive_row *row = &store->rows[at]->row;
    if (at > 0) {
        const struct archive_row *before = &store->rows[at - 1]->row;
        assert(compare_keys(before->hub, before->id, row->hub, row->id) < 0);
    }
    if (at + 1 < store->rows_n) {
        const struct archive_row *behind = &store->rows[at + 1]->row;
        assert(compare_keys(row->hub, row->id, behind->hub, behind->id) < 0);
    }
}

static void put_row(struct store_mem *store, struct mem_row *row, bool is_new)
{
    bool is_found;
    size_t at = find_row(store, row->row.hub, row->row.id, &is_found);
    assert(!is_new || !is_found);
    if (is_found) {
        row_free(store->mem, store->rows[at]);
    } else {
        assert(store->rows_n < store->rows_capacity);
        memmove(store->rows + at + 1, store->rows + at, (store->rows_n - at) * sizeof *store->rows);
        store->rows_n++;
    }
    store->rows[at] = row;
    check_place(store, at);
}

static void remove_row(struct store_mem *store, struct archive_key key)
{
    bool is_found;
    size_t at = find_row(store, key.hub, key.id, &is_found);
    if (!is_found) return;
    check_place(store, at);
    row_free(store->mem, store->rows[at]);
    assert(store->rows_n > 0);
    store->rows_n--;
    assert(at <= store->rows_n);
    memmove(store->rows + at, store->rows + at + 1, (store->rows_n - at) * sizeof *store->rows);
}

/* ---- archive: apply ---- */

static struct mem_partition *partition_copy(struct mem *mem, const struct archive_partition *p)
{
    assert(p->state.ptr != NULL || p->state.len == 0);
    struct mem_partition *copy = mem_take(mem, sizeof *copy + p->state.len);
    if (copy == NULL) return NULL;
    copy->partition = *p;
    copy->partition.state.ptr = (uint8_t *)(copy + 1);
    if (p->state.len > 0) memcpy(copy + 1, p->state.ptr, p->state.len);
    return copy;
}

static void put_partition(struct store_mem *store, struct mem_partition *p)
{
    size_t at = 0;
    while (at < store->partitions_n &&
           store->partitions[at]->partition.partition < p->partition.partition) {
        at++;
    }
    if (at < store->partitions_n &&
        store->partitions[at]->partition.partition == p->partition.partition) {
        partition_free(store->mem, store->partitions[at]);
    } else {
        assert(store->partitions_n < store->partitions_capacity);
        memmove(store->partitions + at + 1, store->partitions + at,
                (store->partitions_n - at) * sizeof *store->partitions);
        store->partitions_n++;
    }
    store->partitions[at] = p;
    assert(at < store->partitions_n);
    assert(at == 0 || store->partitions[at - 1]->partition.partition < p->partition.partition);
    assert(at + 1 == store->partitions_n ||
           store->partitions[at + 1]->partition.partition > p->partition.partition);
}

/* Room for `more` pointers beyond n. */
static bool reserve_pointers(struct mem *mem, void **array, size_t *capacity, size_t n, size_t more)
{
    assert(n <= *capacity);
    if (more <= *capacity - n) return true;
    size_t wanted = (n + more) * 2;
    void *larger = mem_resize(mem, *array, *capacity * sizeof(void *), wanted * sizeof(void *));
    if (larger == NULL) return false;
    *array = larger;
    *capacity = wanted;
    assert(more <= *capacity - n);
    return true;
}

static bool reserve_rows(struct store_mem *store, size_t more)
{
    void *array = store->rows;
    bool ok = reserve_pointers(store->mem, &array, &store->rows_capacity, store->rows_n, more);
    store->rows = array;
    assert(!ok || store->rows_capacity - store->rows_n >= more);
    return ok;
}

static bool reserve_partitions(struct store_mem *store, size_t more)
{
    void *array = store->partitions;
    bool ok = reserve_pointers(store->mem, &array, &store->partitions_capacity, store->partitions_n,
                               more);
    store->partitions = array;
    assert(!ok || store->partitions_capacity - store->partitions_n >= more);
    return ok;
}

/* A batch copied, before any of it is visible. */
struct prepared {
    struct mem_row **rows;
    struct mem_partition **partitions;
};

static void prepared_release(struct mem *mem, struct prepared *p, const struct archive_batch *batch,
                             bool with_contents)
{
    for (size_t i = 0; with_contents && p->rows != NULL && i < batch->puts_n; i++) {
        row_free(mem, p->rows[i]);
    }
    for (size_t i = 0; with_contents && p->partitions != NULL && i < batch->partitions_n; i++) {
        partition_free(mem, p->partitions[i]);
    }
    mem_give(mem, p->rows, batch->puts_n * sizeof *p->rows);
    mem_give(mem, p->partitions, batch->partitions_n * sizeof *p->partitions);
}

static bool prepare(struct store_mem *store, const struct archive_batch *batch, struct prepared *p)
{
    assert(p->rows == NULL);
    assert(p->partitions == NULL);
    if (!reserve_rows(store, batch->puts_n)) return false;
    if (!reserve_partitions(store, batch->partitions_n)) return false;
    if (batch->puts_n > 0) {
        p->rows = mem_take_zero(store->mem, batch->puts_n * sizeof *p->rows);
        if (p->rows == NULL) return false;
    }
    if (batch->partitions_n > 0) {
        p->partitions = mem_take_zero(store->mem, batch->partitions_n * sizeof *p->partitions);
        if (p->partitions == NULL) return false;
    }
    for (size_t i = 0; i < batch->puts_n; i++) {
        p->rows[i] = row_copy(store->mem, &batch->puts[i].row);
        if (p->rows[i] == NULL) return false;
    }
    for (size_t i = 0; i < batch->partitions_n; i++) {
        p->partitions[i] = partition_copy(store->mem, &batch->partitions[i]);
        if (p->partitions[i] == NULL) return false;
    }
    return true;
}

static enum status mem_apply(struct archive *a, const struct archive_batch *batch)
{
    struct store_mem *store = store_of(a);
    struct prepared p = {0};
    lock(store);
    assert(batch->applied_lsn >= store->applied_lsn);
    bool is_prepared = prepare(store, batch, &p);
    if (is_prepared) {
        for (size_t i = 0; i < batch->puts_n; i++) put_row(store, p.rows[i], batch->puts[i].is_new);
        for (size_t i = 0; i < batch->removes_n; i++) remove_row(store, batch->removes[i]);
        for (size_t i = 0; i < batch->partitions_n; i++) put_partition(store, p.partitions[i]);
        store->applied_lsn = batch->applied_lsn;
    }
    prepared_release(store->mem, &p, batch, !is_prepared);
    unlock(store);
    return is_prepared ? OK : E_NOMEM;
}

/* ---- archive: reading ---- */

static enum status mem_maintain(struct archive *a, bool *did_something)
{
    assert(store_of(a) != NULL);
    *did_something = false; /* removed rows are gone at once */
    return OK;
}

static enum status mem_applied_lsn(struct archive *a, uint64_t *out)
{
    struct store_mem *store = store_of(a);
    lock(store);
    *out = store->applied_lsn;
    unlock(store);
    return OK;
}

static enum status mem_partitions(struct archive *a, archive_partition_fn *fn, void *user)
{
    struct store_mem *store = store_of(a);
    enum status status = OK;
    lock(store);
    for (size_t i = 0; i < store->partitions_n && status == OK; i++) {
        assert(i == 0 || store->partitions[i - 1]->partition.partition <
                             store->partitions[i]->partition.partition);
        status = fn(user, &store->partitions[i]->partition);
    }
    unlock(store);
    return status;
}

static enum status mem_hashes(struct archive *a, archive_hash_fn *fn, void *user)
{
    struct store_mem *store = store_of(a);
    enum status status = OK;
    lock(store);
    for (size_t i = 0; i < store->rows_n && status == OK; i++) {
        const struct archive_row *row = &store->rows[i]->row;
        status = fn(user, archive_key_hash((struct archive_key){row->hub, row->id}));
    }
    unlock(store);
    return status;
}

/* Into the arena; false without memory. */
static bool copy_to_arena(struct arena *arena, const struct archive_row *row, bool want_snapshot,
                          struct archive_row *out)
{
    struct archive_row copy = *row;
    if (!want_snapshot) copy.snapshot = BYTES_NONE;
#define X(field)                                                                                   \
    copy.field = arena_copy(arena, copy.field);                                                    \
    if (copy.field.ptr == NULL && copy.field.len > 0) return false;
    ROW_BYTES(X)
#undef X
    assert(copy.id.len == row->id.len);
    assert(want_snapshot || copy.snapshot.len == 0);
    *out = copy;
    return true;
}

static enum status mem_get(struct archive *a, struct archive_key key, bool want_snapshot,
                           struct arena *arena, struct archive_row *out)
{
    struct store_mem *store = store_of(a);
    enum status status = E_NOT_FOUND;
    lock(store);
    bool is_found;
    size_t at = find_row(store, key.hub, key.id, &is_found);
    if (is_found) {
        const struct archive_row *row = &store->rows[at]->row;
        status = copy_to_arena(arena, row, want_snapshot, out) ? OK : E_NOMEM;
    }
    unlock(store);
    return status;
}

/* One whole line of "key=value\n..." */
static bool has_tag(struct bytes tags, struct bytes tag)
{
    assert(tag.len > 0);
    const uint8_t *at = tags.ptr;
    const uint8_t *end = tags.ptr + tags.len;
    while (at < end) {
        const uint8_t *stop = memchr(at, '\n', (size_t)(end - at));
        if (stop == NULL) stop = end;
        if (archive_tag_is(bytes_make(at, (size_t)(stop - at)), tag)) return true;
        at = stop + 1;
    }
    return false;
}

static bool contains(struct bytes whole, struct bytes part)
{
    if (part.len == 0) return true;
    if (whole.len == 0) return false;
    return memmem(whole.ptr, whole.len, part.ptr, part.len) != NULL;
}

static int64_t ordering_time(const struct archive_query *query, const struct archive_row *row)
{
    assert(!query->by_completion || row->is_terminal);
    return query->by_completion ? row->completed_ms : row->created_ms;
}

static bool is_after(const struct archive_query *query, const struct archive_row *row)
{
    if (!query->has_after) return true;
    int64_t time_ms = ordering_time(query, row);
    int order = bytes_compare(row->id, query->after_id);
    if (time_ms != query->after_ms) order = time_ms < query->after_ms ? -1 : 1;
    return query->newest_first ? order < 0 : order > 0;
}

static bool entity_matches(const struct archive_query *query, const struct archive_row *row)
{
    assert(query->entities);
    assert(row->id.ptr[0] == '@');
    if (!query->want_transient && row->status == ARCHIVE_STATUS_TRANSIENT) return false;
    if (row->updated_ms < query->from_ms) return false;
    if (query->to_ms != 0 && row->updated_ms >= query->to_ms) return false;
    return bytes_start_with(row->id, query->id_prefix) && is_after(query, row);
}

static bool matches(const struct archive_query *query, const struct archive_row *row)
{
    assert(row->status >= 0);
    assert(row->status < 32); /* for the shift below */
    if (!bytes_equal(row->hub, query->hub)) return false;
    assert(row->id.len > 0);
    if ((row->id.ptr[0] == '@') != query->entities) return false;
    if (query->entities) return entity_matches(query, row);
    if ((query->terminal_only || query->by_completion) && !row->is_terminal) return false;
    if (query->status_mask != 0 && (query->status_mask >> row->status & 1) == 0) return false;
    int64_t time_ms = ordering_time(query, row);
    if (time_ms < query->from_ms) return false;
    if (query->to_ms != 0 && time_ms >= query->to_ms) return false;
    if (!bytes_start_with(row->id, query->id_prefix)) return false;
    if (query->name.len > 0 && !bytes_equal(row->name, query->name)) return false;
    if (query->tag.len > 0 && !has_tag(row->tags, query->tag)) return false;
    return contains(row->error, query->error_part) && is_after(query, row);
}

/* A row with the time that its order is by. */
struct found {
    int64_t time_ms;
    const struct archive_row *row;
};

static int compare_found(const void *a, const void *b)
{
    const struct found *x = a;
    const struct found *y = b;
    if (x->time_ms != y->time_ms) return x->time_ms < y->time_ms ? -1 : 1;
    return compare_keys(x->row->hub, x->row->id, y->row->hub, y->row->id);
}

static enum status give_found(struct found *found, size_t n, uint32_t limit, bool is_backwards,
                              bool want_snapshot, archive_row_fn *fn, void *user)
{
    assert(limit > 0);
    if (n > 1) qsort(found, n, sizeof *found, compare_found);
    for (size_t i = 0; i < n && i < limit; i++) {
        assert(i == 0 || compare_found(&found[i - 1], &found[i]) < 0);
        struct archive_row row = *found[is_backwards ? n - 1 - i : i].row;
        if (!want_snapshot) row.snapshot = BYTES_NONE;
        enum status status = fn(user, &row);
        if (status != OK) return status;
    }
    return OK;
}

static enum status mem_query(struct archive *a, const struct archive_query *query,
                             archive_row_fn *fn, void *user)
{
    struct store_mem *store = store_of(a);
    enum status status = E_NOMEM;
    lock(store);
    size_t capacity = store->rows_n + 1;
    size_t n = 0;
    struct found *found = mem_take(store->mem, capacity * sizeof *found);
    if (found == NULL) goto out;
    for (size_t i = 0; i < store->rows_n; i++) {
        const struct archive_row *row = &store->rows[i]->row;
        if (matches(query, row)) found[n++] = (struct found){ordering_time(query, row), row};
    }
    assert(n < capacity);
    status =
        give_found(found, n, query->limit, query->newest_first, query->want_snapshot, fn, user);
out:
    mem_give(store->mem, found, capacity * sizeof *found);
    unlock(store);
    return status;
}

static enum status mem_due(struct archive *a, int64_t before_ms, const struct archive_row *after,
                           uint32_t limit, archive_row_fn *fn, void *user)
{
    struct store_mem *store = store_of(a);
    enum status status = E_NOMEM;
    lock(store);
    size_t capacity = store->rows_n + 1;
    size_t n = 0;
    struct found *found = mem_take(store->mem, capacity * sizeof *found);
    if (found == NULL) goto out;
    for (size_t i = 0; i < store->rows_n; i++) {
        const struct archive_row *row = &store->rows[i]->row;
        struct found this = {row->wake_ms, row};
        if (row->wake_ms == ARCHIVE_NO_TIME || row->wake_ms > before_ms) continue;
        if (after != NULL && compare_found(&this, &(struct found){after->wake_ms, after}) <= 0) {
            continue;
        }
        found[n++] = this;
    }
    assert(n < capacity);
    status = give_found(found, n, limit, false, true, fn, user);
out:
    mem_give(store->mem, found, capacity * sizeof *found);
    unlock(store);
    return status;
}

static enum status mem_stats(struct archive *a, struct archive_stats *out)
{
    struct store_mem *store = store_of(a);
    struct archive_stats stats = {0};
    lock(store);
    stats.rows = store->rows_n;
    for (size_t i = 0; i < store->rows_n; i++) {
        if (store->rows[i]->row.is_terminal) stats.rows_terminal++;
        stats.bytes += store->rows[i]->size;
        stats.blob_bytes += store->rows[i]->row.snapshot.len;
    }
    unlock(store);
    stats.blob_live = stats.blob_bytes;
    assert(stats.rows_terminal <= stats.rows);
    assert(stats.blob_bytes <= stats.bytes);
    *out = stats;
    return OK;
}

static void archive_mem_close(struct archive *a)
{
    assert(a->ops == &archive_mem_ops);
    struct archive_mem *m = container_of(a, struct archive_mem, archive);
    mem_give(m->store->mem, m, sizeof *m);
}

static const struct archive_ops archive_mem_ops = {
    .name = "mem",
    .apply = mem_apply,
    .maintain = mem_maintain,
    .applied_lsn = mem_applied_lsn,
    .partitions = mem_partitions,
    .hashes = mem_hashes,
    .get = mem_get,
    .query = mem_query,
    .due = mem_due,
    .stats = mem_stats,
    .close = archive_mem_close,
};

enum status archive_mem_open(struct store_mem *store, struct archive **out)
{
    struct archive_mem *m = mem_take_zero(store->mem, sizeof *m);
    if (m == NULL) return E_NOMEM;
    m->archive.ops = &archive_mem_ops;
    m->store = store;
    *out = &m->archive;
    return OK;
}
