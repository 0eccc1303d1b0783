/* SPDX-License-Identifier: Apache-2.0
 *
 * Instances in memory: found by key, listed in the order they came, and sorted into the lists that
 * the archiver works through (dirty, finished, idle).
 */
#include "core/state.h"

#include "base/mem.h"
#include "base/prefetch.h"

struct bytes key_hub(struct bytes key)
{
    const uint8_t *slash = memchr(key.ptr, '/', key.len);
    assert(slash != NULL);
    return bytes_make(key.ptr, (size_t)(slash - key.ptr));
}

struct bytes key_id(struct bytes key)
{
    struct bytes hub = key_hub(key);
    return bytes_make(key.ptr + hub.len + 1, key.len - hub.len - 1);
}

struct instance *instance_find(const struct core *c, struct bytes key)
{
    struct map_node *node = map_find(&c->instances, key);
    if (node == NULL) return NULL;
    struct instance *i = container_of(node, struct instance, node);
    assert(i->core == c);
    assert(i->key.len == key.len);
    return i;
}

bool core_has(const struct core *c, struct bytes key) { return instance_find(c, key) != NULL; }

uint64_t core_hash(const struct core *c, struct bytes key)
{
    uint64_t hash = map_hash(&c->instances, key);
    map_prefetch(&c->instances, hash);
    return hash;
}

/* What every step looks at, and the key. */
void core_prefetch(const struct core *c, uint64_t hash)
{
    const struct map_node *node = map_likely(&c->instances, hash);
    if (node == NULL) return;
    const struct instance *i = container_of(node, struct instance, node);
    prefetch(i, offsetof(struct instance, created_ns));
    __builtin_prefetch(i + 1);
}

void core_expect(const struct core *c, uint64_t hash, struct bytes key)
{
    (void)map_find_hashed(&c->instances, hash, key); /* which it remembers */
}

struct instance *instance_find_live(const struct core *c, struct bytes key)
{
    struct instance *i = instance_find(c, key);
    return i == NULL || i->is_purged ? NULL : i;
}

struct instance *instance_new(struct core *c, struct bytes key)
{
    assert(key.len > 0);
    assert(instance_find(c, key) == NULL);
    struct instance *i = mem_take_zero(c->mem, sizeof *i + key.len);
    assert(i != NULL);
    memcpy(i + 1, key.ptr, key.len);
    i->key = bytes_make(i + 1, key.len);
    i->core = c;
    i->number = ++c->numbers;
    i->id_max = -1;
    i->node.key = i->key;
    arena_init(&i->arena, c->mem, 512);
    list_init(&i->items);
    list_init(&i->items_free);
    heap_node_init(&i->due.node);
    map_insert(&c->instances, &i->node);
    list_push_back(&c->all, &i->all);
    c->instances_n++;
    assert(c->instances_n == c->instances.n);
    return i;
}

void instance_clear(struct instance *i)
{
    struct core *c = i->core;
    items_end(i, true);
    queue_remove_turn(i);
    due_clear(c, &i->due);
    assert(i->queue == NULL);
    assert(!i->due.node.is_linked);
    assert(i->items_n == 0);
    assert(i->busy_n == 0);
    assert(i->parked_n == 0);
    assert(list_is_empty(&i->items));
    arena_release(&i->arena);

    struct instance kept = *i;
    struct instance cleared = {
        .node = kept.node,
        .all = kept.all,
        .dirty = kept.dirty,
        .idle = kept.idle,
        .parked = kept.parked,
        .core = kept.core,
        .number = kept.number,
        .key = kept.key,
        .arena = kept.arena,
        .seq = kept.seq,
        .id_max = -1,
        .dirty_lsn = kept.dirty_lsn,
        .is_in_finished = kept.is_in_finished,
        .is_archived = kept.is_archived,
        .archived_seq = kept.archived_seq,
        .touched_ms = kept.touched_ms,
        .counted_as = kept.counted_as,
        .active = kept.active,
    };
    *i = cleared;
    list_init(&i->items);
    list_init(&i->items_free);
    heap_node_init(&i->due.node);
}

/* Out of the list `dirty` is in. */
static void leave_dirty(struct instance *i)
{
    struct core *c = i->core;
    assert(i->dirty_lsn != 0);
    assert(list_is_linked(&i->dirty));
    list_remove(&i->dirty);
    if (!i->is_in_finished) return;
    assert(c->finished_n > 0);
    c->finished_n--;
}

void instance_drop(struct instance *i)
{
    struct core *c = i->core;
    instance_clear(i);
    if (list_is_linked(&i->dirty)) leave_dirty(i);
    if (list_is_linked(&i->idle)) list_remove(&i->idle);
    parked_sort(i); /* cleared, it is not parked any more */
    assert(!list_is_linked(&i->parked));
    list_remove(&i->all);
    if (i->counted_as != GAUGE_NONE) {
        assert(c->gauges[i->counted_as] > 0);
        c->gauges[i->counted_as]--;
    }
    if (i->active != NULL) backlog_leave(c->backlog, i->active);
    map_remove(&c->instances, &i->node);
    assert(c->instances_n > 0);
    c->instances_n--;
    assert(c->instances_n == c->instances.n);
    mem_give(c->mem, i, sizeof *i + i->key.len);
}

bool instance_is_terminal(const struct instance *i) { return i->completed != NULL; }

bool status_is_end(enum orchestration_status status)
{
    return status == STATUS_COMPLETED || status == STATUS_FAILED || status == STATUS_CANCELED ||
           status == STATUS_TERMINATED;
}

bool instance_has_started(const struct instance *i)
{
    return i->started != NULL && i->started != i->inbox.first;
}

enum orchestration_status instance_status(const struct instance *i)
{
    if (i->completed == NULL && i->is_suspended) return STATUS_SUSPENDED;
    return i->status;
}

bool instance_has_work(const struct instance *i)
{
    assert(i->queue == NULL || !i->is_leased);
    return i->queue != NULL || i->is_leased || i->busy_n > 0;
}

int64_t instance_wake_ms(const struct instance *i)
{
    if (instance_has_work(i) || list_is_linked(&i->parked)) return 0;
    int64_t wake_ms = i->due.node.is_linked ? i->due.node.key : INT64_MAX;
    for (struct list *n = list_first(&i->items); n != NULL; n = list_next(&i->items, n)) {
        const struct item *item = container_of(n, struct item, of_instance);
        if (item->due.node.is_linked && item->due.node.key < wake_ms) wake_ms = item->due.node.key;
    }
    return wake_ms;
}

/* The list is sorted by dirty_lsn; only an instance that begins again may belong further ahead. */
static void dirty_insert(struct core *c, struct instance *i)
{
    struct list *where = &c->dirty;
    assert(i->dirty_lsn != 0);
    assert(!i->is_in_finished);
    while (where->prev != &c->dirty) {
        const struct instance *other = container_of(where->prev, struct instance, dirty);
        if (other->dirty_lsn <= i->dirty_lsn) break;
        where = where->prev;
    }
    list_insert_before(&i->dirty, where);
}

enum gauge instance_gauge(const struct instance *i)
{
    if (i->is_purged) return GAUGE_PURGED;
    if (i->is_entity) return GAUGE_ENTITY;
    if (instance_is_terminal(i)) return GAUGE_ENDED;
    if (i->is_suspended) return GAUGE_SUSPENDED;
    return i->status == STATUS_PENDING ? GAUGE_PENDING : GAUGE_RUNNING;
}

bool instance_is_active(const struct instance *i)
{
    bool may_go_on = i->counted_as == GAUGE_PENDING || i->counted_as == GAUGE_RUNNING;
    return may_go_on && instance_has_work(i) && !instance_is_reply(i);
}

/* For the limits of the backlog. An instance that begins again may have another name. */
static void count_active(struct instance *i)
{
    struct backlog *b = i->core->backlog;
    if (b == NULL) return;
    bool is_active = instance_is_active(i);
    if (i->active != NULL && (!is_active || !bytes_equal(i->active->name, i->name))) {
        backlog_leave(b, i->active);
        i->active = NULL;
    }
    if (is_active && i->active == NULL) i->active = backlog_enter(b, i->name);
    assert((i->active != NULL) == is_active);
}

static void count(struct instance *i)
{
    struct core *c = i->core;
    enum gauge now = instance_gauge(i);
    if (i->counted_as != now) {
        if (i->counted_as != GAUGE_NONE) {
            assert(c->gauges[i->counted_as] > 0);
            c->gauges[i->counted_as]--;
        }
        i->counted_as = now;
        c->gauges[now]++;
    }
    assert(i->counted_as != GAUGE_NONE);
    assert(c->gauges[i->counted_as] <= c->instances_n);
    count_active(i);
}

void core_gauges(const struct core *c, struct core_gauges *out)
{
    *out = (struct core_gauges){
        .pending = c->gauges[GAUGE_PENDING],
        .running = c->gauges[GAUGE_RUNNING],
        .suspended = c->gauges[GAUGE_SUSPENDED],
        .ended = c->gauges[GAUGE_ENDED],
        .purged = c->gauges[GAUGE_PURGED],
        .entities = c->gauges[GAUGE_ENTITY],
        .parked = c->parked_n,
    };
    assert(out->pending + out->running + out->suspended + out->ended + out->purged +
               out->entities ==
           c->instances_n);
    for (struct list *n = list_first(&c->all_queues); n != NULL; n = list_next(&c->all_queues, n)) {
        const struct work_queue *q = container_of(n, struct work_queue, all);
        assert((unsigned)q->kind < WORK_KINDS_N);
        out->ready[q->kind] += q->n;
    }
}

void instance_sort(struct instance *i)
{
    struct core *c = i->core;
    count(i);
    parked_sort(i);
    bool is_idle = !i->is_purged && !instance_has_work(i);
    if (list_is_linked(&i->idle)) list_remove(&i->idle);
    if (!is_idle) return;
    i->touched_ms = now_ms(c);
    list_push_back(&c->idle, &i->idle);
}

void instance_touched(struct instance *i)
{
    struct core *c = i->core;
    bool is_finished = instance_is_terminal(i) || i->is_purged;
    assert((i->dirty_lsn != 0) == list_is_linked(&i->dirty));
    assert(c->lsn > 0);
    if (i->dirty_lsn == 0) i->dirty_lsn = c->lsn;
    if (i->is_in_finished != is_finished || !list_is_linked(&i->dirty)) {
        if (list_is_linked(&i->dirty)) leave_dirty(i);
        i->is_in_finished = is_finished;
        if (is_finished) {
            list_push_back(&c->finished, &i->dirty);
            c->finished_n++;
        } else {
            dirty_insert(c, i);
        }
    }
    instance_sort(i);
}

void instance_view(const struct instance *i, struct arena *arena, struct instance_view *out)
{
    *out = (struct instance_view){
        .key = i->key,
        .seq = i->seq,
        .status = instance_status(i),
        .is_terminal = instance_is_terminal(i),
        .is_purged = i->is_purged,
        .name = i->name,
        .version = i->version,
        .input = i->input,
        .custom_status = i->custom_status,
        .created_ns = i->created_ns,
        .updated_ns = i->updated_ns,
        .completed_ns = i->completed_ns,
        .scheduled_ms = i->start_at_ms,
        .history_n = i->history.n,
        .history_size = i->history.size,
        .inbox_n = i->inbox.n,
        .wake_ms = instance_wake_ms(i),
        .is_archived = i->is_archived,
        .is_parked = instance_is_parked(i),
    };
    assert(out->is_terminal == status_is_end(out->status));
    assert(!out->is_parked || !out->is_terminal);
    assert(!i->is_entity || !out->is_terminal);
    memcpy(out->execution_id, i->execution_id, EXECUTION_ID_SIZE);
    if (i->is_entity) {
        out->is_entity = true;
        out->entity_state = i->state;
        out->locked_by = i->lock_parent;
        out->backlog_n = entity_backlog_n(i);
    }
    if (i->has_parent) out->parent_id = i->parent.instance_id;
    if (i->completed != NULL) {
        struct event_completed completed;
        enum status status = event_completed_decode(event_bytes(i->completed), &completed);
        assert(status == OK);
        out->output = completed.result;
        out->failure = completed.failure;
    }
    struct event_started started;
    if (i->has_tags && /* to read them costs more than all the rest */
        event_started_decode(event_bytes(i->started), arena, &started) == OK) {
        out->tags = started.tags;
    }
}

bool core_view(const struct core *c, struct bytes key, struct instance_view *out)
{
    const struct instance *i = instance_find(c, key);
    if (i == NULL) return false;
    /* the arena only holds the tags, until the next step */
    instance_view(i, (struct arena *)&c->temporary, out);
    return true;
}

enum status core_each(const struct core *c, core_view_fn *fn, void *user)
{
    size_t told_n = 0;
    for (struct list *n = list_first(&c->all); n != NULL; n = list_next(&c->all, n)) {
        struct instance_view view;
        instance_view(container_of(n, struct instance, all), (struct arena *)&c->temporary, &view);
        enum status status = fn(user, &view);
        if (status != OK) return status;
        told_n++;
    }
    assert(told_n == c->instances_n);
    return OK;
}

size_t core_instances_n(const struct core *c) { return c->instances_n; }

static void events_add_to(const struct event_list *list, struct buffer *out)
{
    for (const struct event *e = list->first; e != NULL; e = e->next) {
        strings_add(out, event_bytes(e));
    }
}

bool core_history(const struct core *c, struct bytes key, struct buffer *out)
{
    const struct instance *i = instance_find_live(c, key);
    if (i == NULL) return false;
    events_add_to(&i->history, out);
    return true;
}

bool core_history_part(const struct core *c, struct bytes key, uint32_t skip_n, size_t size_max,
                       struct buffer *out, bool *has_more)
{
    const struct instance *i = instance_find_live(c, key);
    if (i == NULL) return false;
    const struct event *e = i->history.first;
    for (; e != NULL && skip_n > 0; skip_n--) e = e->next;
    size_t start = out->len;
    for (; e != NULL; e = e->next) {
        size_t size = out->len - start + varint_size(e->len) + e->len;
        if (size_max > 0 && size > size_max && out->len > start) break;
        strings_add(out, event_bytes(e));
    }
    *has_more = e != NULL;
    assert(!*has_more || size_max > 0); /* only a limit leaves some behind */
    return true;
}

bool core_children(const struct core *c, struct bytes key, struct buffer *out)
{
    const struct instance *i = instance_find_live(c, key);
    if (i == NULL) return false;
    for (const struct event *e = i->history.first; e != NULL; e = e->next) {
        struct event_scheduled child;
        if (e->kind != EVENT_CHILD_CREATED) continue;
        if (event_scheduled_decode(event_bytes(e), (struct arena *)&c->temporary, &child) != OK)
            continue;
        strings_add(out, child.instance_id);
    }
    return true;
}

/* ---- archiving ---- */

uint64_t core_dirty_lsn(const struct core *c)
{
    uint64_t least = c->partition_dirty_lsn == 0 ? UINT64_MAX : c->partition_dirty_lsn;
    const struct list *first = list_first(&c->dirty);
    if (first != NULL) {
        uint64_t lsn = container_of(first, struct instance, dirty)->dirty_lsn;
        if (lsn < least) least = lsn;
    }
    for (struct list *n = list_first(&c->finished); n != NULL; n = list_next(&c->finished, n)) {
        uint64_t lsn = container_of(n, struct instance, dirty)->dirty_lsn;
        if (lsn < least) least = lsn;
    }
    assert(least > 0);
    return least;
}

size_t core_finished_n(const struct core *c)
{
    assert((c->finished_n == 0) == list_is_empty(&c->finished));
    return c->finished_n;
}

static void take_for_archiving(struct instance *i)
{
    assert(list_is_linked(&i->dirty));
    assert(i->is_in_finished == (instance_is_terminal(i) || i->is_purged));
    leave_dirty(i);
    i->dirty_lsn = 0;
    assert(!list_is_linked(&i->dirty));
}

static bool may_leave(const struct instance *i)
{
    if (i->dirty_lsn != 0 || instance_has_work(i)) return false;
    if (instance_is_terminal(i) || i->is_purged) return true;
    int64_t wake_ms = instance_wake_ms(i);
    int64_t at_ms = now_ms(i->core); /* a wake time may be anything, the far past too */
    if (wake_ms == INT64_MAX) return true;
    return wake_ms > at_ms && wake_ms - at_ms > i->core->options.horizon_ms;
}

/* Leaves, when the archive has it as it is; else is taken for archiving. True when taken. */
static bool idle_take(struct instance *i)
{
    assert(list_is_linked(&i->idle));
    assert(!instance_has_work(i));
    assert(!i->is_purged);
    if (i->dirty_lsn != 0) {
        take_for_archiving(i);
        list_remove(&i->idle);
        list_push_back(&i->core->idle, &i->idle);
        return true;
    }
    if (i->is_archived && i->archived_seq == i->seq && may_leave(i)) {
        instance_drop(i);
    } else {
        list_remove(&i->idle);
        list_push_back(&i->core->idle, &i->idle);
    }
    return false;
}

size_t core_archive_pick(struct core *c, uint64_t upto_lsn, size_t idle_n, int64_t idle_ms,
                         struct bytes *keys, size_t n_max)
{
    size_t n = 0;
    assert(c->out == NULL);
    while (n < n_max && !list_is_empty(&c->finished)) {
        struct instance *i = container_of(list_first(&c->finished), struct instance, dirty);
        take_for_archiving(i);
        keys[n++] = i->key;
    }
    while (n < n_max && !list_is_empty(&c->dirty)) {
        struct instance *i = container_of(list_first(&c->dirty), struct instance, dirty);
        if (i->dirty_lsn > upto_lsn) break;
        take_for_archiving(i);
        keys[n++] = i->key;
    }
    /* each idle one is looked at once */
    for (size_t looked = 0; looked < idle_n && n < n_max && !list_is_empty(&c->idle); looked++) {
        struct instance *i = container_of(list_first(&c->idle), struct instance, idle);
        if (i->touched_ms > idle_ms) break;
        if (idle_take(i)) keys[n++] = i->key;
    }
    assert(n <= n_max);
    return n;
}

bool core_archived(struct core *c, struct bytes key, uint64_t seq, bool is_removed, bool may_evict)
{
    struct instance *i = instance_find(c, key);
    assert(i != NULL); /* what was taken for archiving stays until it is there */
    assert(seq > 0);
    assert(seq <= i->seq);        /* it was taken from here */
    i->is_archived = !is_removed; /* it may have been purged or begun again since, even both */
    i->archived_seq = seq;
    if (i->seq != seq || !may_leave(i)) return false;
    if (!may_evict && !instance_is_terminal(i) && !i->is_purged) return false;
    instance_drop(i);
    return true;
}
