/* SPDX-License-Identifier: Apache-2.0
 *
 * Round robin three times over: queues of one kind take turns, within a queue its partitions, and
 * among the fitting workers those that have waited longest. A queue that nobody can serve now is
 * set aside until somebody who fits gets credit, so that a name without workers costs nothing.
 */
#include "host/dispatcher.h"

#include "base/assert.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

#define EMPTY_QUEUES_MAX 1024 /* kept for the next work of that name */

enum queue_place { PLACE_EMPTY, PLACE_OFFERED, PLACE_STARVED, PLACE_UNSERVED };

/* A ring. Ids apart from the names, because they are searched. */
struct workers_gone {
    uint32_t ids[WORKERS_GONE_N]; /* 0: empty */
    uint32_t next;
    uint8_t lens[WORKERS_GONE_N];
    char names[WORKERS_GONE_N][WORKER_NAME_SIZE_MAX];
};
_Static_assert(WORKER_NAME_SIZE_MAX <= UINT8_MAX, "of lens");

/* What was announced of one queue of work. */
struct work_queue_ready {
    struct map_node node;
    struct list place_node;
    enum queue_place place; /* set by queue_move() only */
    enum work_kind kind;
    struct bytes hub; /* these three in the key behind the struct */
    struct bytes name;
    struct bytes version;
    size_t size;             /* of the allocation */
    uint64_t announced_n;    /* sum of by_partition */
    uint32_t partition_next; /* whose turn it is */
    uint32_t worker_id;      /* who was found to fit; 0 = nobody yet */
    uint32_t by_partition[];
};

bool queue_key_read(struct bytes key, enum work_kind *kind, struct bytes *hub, struct bytes *name,
                    struct bytes *version)
{
    struct reader r = reader_make(key);

    uint8_t kind_byte = reader_u8(&r);
    *hub = reader_bytes(&r);
    *name = reader_bytes(&r);
    *version = reader_bytes(&r);
    *kind = (enum work_kind)kind_byte;
    return reader_is_done(&r) && kind_byte < WORK_KINDS_N;
}

void dispatcher_init(struct dispatcher *d, struct mem *mem, uint32_t partitions_n,
                     const uint64_t seed[2])
{
    assert(partitions_n > 0);
    *d = (struct dispatcher){.mem = mem, .partitions_n = partitions_n};
    list_init(&d->workers);
    list_init(&d->empty);
    for (int kind = 0; kind < WORK_KINDS_N; kind++) {
        list_init(&d->hungry[kind]);
        list_init(&d->offered[kind]);
        list_init(&d->starved[kind]);
        list_init(&d->unserved[kind]);
    }
    map_init(&d->workers_map, mem, seed[0], seed[1]);
    map_init(&d->queues, mem, seed[0], seed[1]);
}

static void queue_free(struct dispatcher *d, struct work_queue_ready *q)
{
    list_remove(&q->place_node);
    map_remove(&d->queues, &q->node);
    mem_give(d->mem, q, q->size);
}

static void queues_free(struct dispatcher *d, struct list *queues)
{
    while (!list_is_empty(queues)) {
        queue_free(d, container_of(list_first(queues), struct work_queue_ready, place_node));
    }
}

static void detach(struct dispatcher *d, struct worker *worker)
{
    assert(worker->is_attached);
    worker->is_attached = false;
    if (d->found == worker) d->found = NULL;
    list_remove(&worker->node);
    map_remove(&d->workers_map, &worker->by_id);
    for (int kind = 0; kind < WORK_KINDS_N; kind++) {
        if (list_is_linked(&worker->hungry[kind])) list_remove(&worker->hungry[kind]);
    }
}

void dispatcher_release(struct dispatcher *d)
{
    queues_free(d, &d->empty);
    for (int kind = 0; kind < WORK_KINDS_N; kind++) {
        queues_free(d, &d->offered[kind]);
        queues_free(d, &d->starved[kind]);
        queues_free(d, &d->unserved[kind]);
    }
    while (!list_is_empty(&d->workers)) {
        detach(d, container_of(list_first(&d->workers), struct worker, node));
    }
    map_release(&d->queues);
    map_release(&d->workers_map);
    if (d->gone != NULL) mem_give(d->mem, d->gone, sizeof *d->gone);
    d->gone = NULL;
}

/* ---- names ---- */

static struct bytes cut_name(struct bytes name)
{
    return bytes_make(name.ptr, name.len < WORKER_NAME_SIZE_MAX ? name.len : WORKER_NAME_SIZE_MAX);
}

/* Nobody depends on it: without memory the name is not known. */
static void remember_name(struct dispatcher *d, const struct worker *worker)
{
    struct bytes name = cut_name(worker->name);

    if (name.len == 0 || !worker->has_taken) return;
    if (d->gone == NULL) {
        d->gone = mem_take_optional(d->mem, sizeof *d->gone);
        if (d->gone == NULL) return;
        memset(d->gone, 0, sizeof *d->gone);
    }
    struct workers_gone *gone = d->gone;
    gone->ids[gone->next] = worker->id;
    gone->lens[gone->next] = (uint8_t)name.len;
    memcpy(gone->names[gone->next], name.ptr, name.len);
    gone->next = (gone->next + 1) % WORKERS_GONE_N;
}

struct bytes dispatcher_name(const struct dispatcher *d, uint32_t id)
{
    struct map_node *node = map_find(&d->workers_map, bytes_make(&id, sizeof id));

    if (node != NULL) return cut_name(container_of(node, struct worker, by_id)->name);
    for (uint32_t n = 0; d->gone != NULL && id != 0 && n < WORKERS_GONE_N; n++) {
        if (d->gone->ids[n] == id) return bytes_make(d->gone->names[n], d->gone->lens[n]);
    }
    return BYTES_NONE;
}

struct bytes worker_name_make(struct arena *arena, struct bytes own_name, const char *address)
{
    char text[2 * WORKER_NAME_SIZE_MAX];
    /* The address is the end that must not be cut off. */
    size_t address_len = strnlen(address, WORKER_NAME_SIZE_MAX / 2);
    size_t room = WORKER_NAME_SIZE_MAX - address_len - (address_len > 0 ? 4 : 0);
    size_t own_len = own_name.len < room ? own_name.len : room;
    bool has_both = own_len > 0 && address_len > 0;

    int len = snprintf(text, sizeof text, "%.*s%s%.*s", (int)own_len,
                       own_len == 0 ? "" : (const char *)own_name.ptr, has_both ? " at " : "",
                       (int)address_len, address);
    assert(len >= 0);
    assert((size_t)len <= WORKER_NAME_SIZE_MAX);
    return arena_copy(arena, bytes_make(text, (size_t)len));
}

/* ---- what fits ---- */

static bool has_version(const struct worker_filter *filter, struct bytes version)
{
    if (filter->versions_n == 0) return true;
    for (size_t i = 0; i < filter->versions_n; i++) {
        if (bytes_equal(filter->versions[i], version)) return true;
    }
    return false;
}

static const struct worker_filter *filters_of(const struct worker *w, enum work_kind kind,
                                              size_t *n)
{
    switch (kind) {
    case WORK_TURN: *n = w->turn_filters_n; return w->turn_filters;
    case WORK_TASK: *n = w->task_filters_n; return w->task_filters;
    case WORK_ENTITY: *n = w->entity_filters_n; return w->entity_filters;
    }
    unreachable("no such work");
}

static bool fits(const struct worker *w, const struct work_queue_ready *q)
{
    if (!bytes_equal(w->hub, q->hub)) return false;
    if (!w->has_filters) return true;

    size_t n = 0;
    const struct worker_filter *filters = filters_of(w, q->kind, &n);
    for (size_t i = 0; i < n; i++) {
        if (!bytes_equal(filters[i].name, q->name)) continue;
        if (q->kind == WORK_ENTITY || has_version(&filters[i], q->version)) return true;
    }
    return false;
}

static bool anybody_fits(const struct dispatcher *d, const struct work_queue_ready *q)
{
    for (struct list *n = list_first(&d->workers); n != NULL; n = list_next(&d->workers, n)) {
        if (fits(container_of(n, struct worker, node), q)) return true;
    }
    return false;
}

/* Usually the one it was last time: ids are never used twice, and filters do not change. */
static struct worker *hungry_for(const struct dispatcher *d, struct work_queue_ready *q)
{
    const struct list *hungry = &d->hungry[q->kind];

    for (struct list *n = list_first(hungry); n != NULL; n = list_next(hungry, n)) {
        struct worker *w = container_of(n, struct worker, hungry[q->kind]);
        if (w->id != q->worker_id && !fits(w, q)) continue;
        q->worker_id = w->id;
        return w;
    }
    return NULL;
}

/* ---- queues ---- */

static struct list *place_list(struct dispatcher *d, enum queue_place place, enum work_kind kind)
{
    switch (place) {
    case PLACE_EMPTY: return &d->empty;
    case PLACE_OFFERED: return &d->offered[kind];
    case PLACE_STARVED: return &d->starved[kind];
    case PLACE_UNSERVED: return &d->unserved[kind];
    }
    unreachable("no such place");
}

/* To the end of the list of that place, also when it is there already. */
static void queue_move(struct dispatcher *d, struct work_queue_ready *q, enum queue_place place)
{
    assert((q->announced_n == 0) == (place == PLACE_EMPTY));
    if (list_is_linked(&q->place_node)) list_remove(&q->place_node);
    q->place = place;
    list_push_back(place_list(d, place, q->kind), &q->place_node);
}

static struct work_queue_ready *queue_obtain(struct dispatcher *d, struct bytes key)
{
    struct map_node *node = map_find(&d->queues, key);
    if (node != NULL) return container_of(node, struct work_queue_ready, node);

    size_t head_size = sizeof(struct work_queue_ready) + d->partitions_n * sizeof(uint32_t);
    struct work_queue_ready *q = mem_take_zero(d->mem, head_size + key.len);
    if (q == NULL) return NULL;
    q->size = head_size + key.len;
    uint8_t *copy = (uint8_t *)q + head_size;
    memcpy(copy, key.ptr, key.len);
    q->node.key = bytes_make(copy, key.len);
    bool is_key = queue_key_read(q->node.key, &q->kind, &q->hub, &q->name, &q->version);
    assert(is_key); /* the core wrote it */
    map_insert(&d->queues, &q->node);
    queue_move(d, q, PLACE_EMPTY);
    return q;
}

bool dispatcher_ready(struct dispatcher *d, uint32_t partition, enum work_kind kind,
                      struct bytes queue_key)
{
    assert(partition < d->partitions_n);
    struct work_queue_ready *q = queue_obtain(d, queue_key);
    if (q == NULL) return false;
    assert(q->kind == kind);

    /* the only one that has work is the next: found without a search */
    if (q->announced_n == 0) q->partition_next = partition;
    q->by_partition[partition]++;
    q->announced_n++;
    if (q->place == PLACE_EMPTY) queue_move(d, q, PLACE_OFFERED);
    return true;
}

/* Queues that this worker can serve are offered again. */
static void offer_again(struct dispatcher *d, struct list *aside, const struct worker *w)
{
    struct list *n = list_first(aside);

    while (n != NULL) {
        struct work_queue_ready *q = container_of(n, struct work_queue_ready, place_node);
        n = list_next(aside, n);
        if (fits(w, q)) queue_move(d, q, PLACE_OFFERED);
    }
}

/* ---- workers ---- */

static uint32_t *credit_of(struct worker *w, enum work_kind kind)
{
    switch (kind) {
    case WORK_TURN: return &w->turns_credit;
    case WORK_TASK: return &w->tasks_credit;
    case WORK_ENTITY: return &w->entities_credit;
    }
    unreachable("no such work");
}

static void add_credit(struct dispatcher *d, struct worker *w, enum work_kind kind, uint32_t more)
{
    uint32_t *credit = credit_of(w, kind);

    *credit = more > UINT32_MAX - *credit ? UINT32_MAX : *credit + more;
    if (*credit == 0 || list_is_linked(&w->hungry[kind])) return;
    list_push_back(&d->hungry[kind], &w->hungry[kind]);
    offer_again(d, &d->starved[kind], w);
}

enum status dispatcher_attach(struct dispatcher *d, struct worker *worker)
{
    if (worker->is_attached) return E_EXISTS;
    assert(worker->deliver != NULL);

    worker->is_attached = true;
    worker->id = ++d->ids;
    assert(worker->id != 0);
    list_node_init(&worker->node);
    list_push_back(&d->workers, &worker->node);
    worker->by_id = (struct map_node){.key = bytes_make(&worker->id, sizeof worker->id)};
    map_insert(&d->workers_map, &worker->by_id);
    for (int kind = 0; kind < WORK_KINDS_N; kind++) {
        list_node_init(&worker->hungry[kind]);
        offer_again(d, &d->unserved[kind], worker);
        add_credit(d, worker, (enum work_kind)kind, 0);
    }
    return OK;
}

enum status dispatcher_detach(struct dispatcher *d, struct worker *worker)
{
    if (!worker->is_attached) return E_NOT_FOUND;
    remember_name(d, worker);
    detach(d, worker);
    return OK;
}

enum status dispatcher_credit(struct dispatcher *d, struct worker *worker, uint32_t turns,
                              uint32_t tasks, uint32_t entities)
{
    if (!worker->is_attached) return E_NOT_FOUND;
    add_credit(d, worker, WORK_TURN, turns);
    add_credit(d, worker, WORK_TASK, tasks);
    add_credit(d, worker, WORK_ENTITY, entities);
    return OK;
}

bool dispatcher_is_served(const struct dispatcher *d, struct bytes queue_key)
{
    struct work_queue_ready q = {0};

    if (!queue_key_read(queue_key, &q.kind, &q.hub, &q.name, &q.version)) return false;
    return anybody_fits(d, &q);
}

static bool takes(const struct worker *w, enum work_kind kind, struct bytes name)
{
    size_t n = 0;
    const struct worker_filter *filters = filters_of(w, kind, &n);

    if (!w->has_filters) return true;
    for (size_t i = 0; i < n; i++) {
        if (bytes_equal(filters[i].name, name)) return true;
    }
    return false;
}

bool dispatcher_serves(const struct dispatcher *d, enum work_kind kind, struct bytes name)
{
    for (struct list *n = list_first(&d->workers); n != NULL; n = list_next(&d->workers, n)) {
        if (takes(container_of(n, struct worker, node), kind, name)) return true;
    }
    return false;
}

size_t dispatcher_workers_n(const struct dispatcher *d) { return d->workers_map.n; }

struct worker *dispatcher_find(struct dispatcher *d, uint32_t id)
{
    if (d->found != NULL && d->found->id == id) return d->found;
    struct map_node *node = map_find(&d->workers_map, bytes_make(&id, sizeof id));
    if (node == NULL) return NULL;
    d->found = container_of(node, struct worker, by_id);
    return d->found;
}

/* ---- takes ---- */

/* Without a division: it is asked for dozens of times for each piece of work. */
static uint32_t partition_after(const struct dispatcher *d, uint32_t partition)
{
    return partition + 1 == d->partitions_n ? 0 : partition + 1;
}

static uint32_t next_partition(const struct dispatcher *d, const struct work_queue_ready *q)
{
    uint32_t partition = q->partition_next;

    assert(q->announced_n > 0);
    while (q->by_partition[partition] == 0) partition = partition_after(d, partition);
    return partition;
}

static bool next_of_kind(struct dispatcher *d, enum work_kind kind, struct dispatch *out)
{
    while (!list_is_empty(&d->offered[kind])) {
        struct list *first = list_first(&d->offered[kind]);
        struct work_queue_ready *q = container_of(first, struct work_queue_ready, place_node);
        struct worker *worker = hungry_for(d, q);
        if (worker != NULL) {
            *out = (struct dispatch){worker, q, next_partition(d, q), kind, q->node.key};
            return true;
        }
        queue_move(d, q, anybody_fits(d, q) ? PLACE_STARVED : PLACE_UNSERVED);
    }
    return false;
}

/* Asked after every request, and mostly there is nothing. */
static inline bool has_any(const struct dispatcher *d, enum work_kind kind)
{
    return !list_is_empty(&d->offered[kind]) && !list_is_empty(&d->hungry[kind]);
}

bool dispatcher_next(struct dispatcher *d, struct dispatch *out)
{
    return (has_any(d, WORK_TURN) && next_of_kind(d, WORK_TURN, out)) ||
           (has_any(d, WORK_ENTITY) && next_of_kind(d, WORK_ENTITY, out)) ||
           (has_any(d, WORK_TASK) && next_of_kind(d, WORK_TASK, out));
}

static void charge(struct dispatcher *d, struct worker *w, enum work_kind kind)
{
    uint32_t *credit = credit_of(w, kind);

    assert(*credit > 0);
    (*credit)--;
    list_remove(&w->hungry[kind]);
    if (*credit > 0) list_push_back(&d->hungry[kind], &w->hungry[kind]);
}

void dispatcher_taken(struct dispatcher *d, const struct dispatch *dispatch, bool got)
{
    struct work_queue_ready *q = dispatch->queue;
    uint32_t *announced = &q->by_partition[dispatch->partition];

    assert(*announced > 0);
    uint32_t gone = got ? 1 : *announced;
    *announced -= gone;
    q->announced_n -= gone;
    q->partition_next = partition_after(d, dispatch->partition);
    if (got) dispatch->worker->has_taken = true;
    if (got) charge(d, dispatch->worker, dispatch->kind);

    queue_move(d, q, q->announced_n == 0 ? PLACE_EMPTY : PLACE_OFFERED);
    if (q->announced_n == 0 && d->queues.n > EMPTY_QUEUES_MAX) queue_free(d, q);
}
