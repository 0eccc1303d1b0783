/* SPDX-License-Identifier: Apache-2.0
 *
 * See queries.h. What memory has counts only up to the last row that was read from the archive,
 * because the archive may have something in between: it is on the next page. So a page may be
 * shorter than its limit; when it would be empty, the archive is read on.
 */
#include "host/queries.h"

#include "host/rows.h"
#include "host/state.h"

#include <stdlib.h>

#define QUERY_CHUNK_SIZE ((size_t)16 << 10)
#define LEFT_SIZE_MAX ((size_t)64 << 20)
/* Bytes of instances that are unpacked for one page; what is kept of them is less. It ends there,
 * with more behind it. */
#define READ_SIZE_MAX ((size_t)64 << 20)

void queries_init(struct host *h)
{
    struct query *q = &h->queries.query;

    list_init(&h->queries.waiting);
    mem_init(&q->read_mem, SIZE_MAX);
    arena_init(&q->read_arena, &q->read_mem, QUERY_CHUNK_SIZE);
    arena_init(&q->arena, &h->own, QUERY_CHUNK_SIZE);
    buffer_init(&q->position, &h->own);
}

void queries_release(struct host *h)
{
    struct query *q = &h->queries.query;

    if (q->waiting != NULL) mem_give(&h->own, q->waiting, QUERY_WAITING_N * sizeof *q->waiting);
    arena_release(&q->read_arena);
    mem_release(&q->read_mem);
    arena_release(&q->arena);
    buffer_release(&q->position);
}

void queries_add(struct host *h, struct request *request)
{
    if (request->query.hub.len == 0) {
        request_refuse(h, request, E_INVALID, "a list needs the name of a hub");
        return;
    }
    list_push_back(&h->queries.waiting, &request->node);
}

/* ---- reading the archive ---- */

static uint32_t limit_of(const struct request_query *query)
{
    if (query->limit == 0) return 1;
    return query->limit < QUERY_LIMIT_MAX ? query->limit : QUERY_LIMIT_MAX;
}

/* Forgets what was read and kept. */
static void query_clear(struct query *q)
{
    q->waiting_rows = NULL;
    q->waiting_n = 0;
    q->is_waiting_cut = false;
    q->rows = NULL;
    q->row_last = NULL;
    q->rows_n = 0;
    q->left = NULL;
    q->is_void = false;
    q->is_cut = false;
    arena_reset(&q->read_arena);
    arena_reset(&q->arena);
}

static void query_open(struct query *q, struct request *request)
{
    const struct request_query *wanted = &request->query;

    q->request = request;
    q->limit = limit_of(wanted);
    q->want_payloads = wanted->want_payloads;
    q->archive_query = (struct archive_query){
        .hub = wanted->hub,
        .status_mask = wanted->status_mask,
        .terminal_only = wanted->terminal_only,
        .by_completion = wanted->by_completion && !wanted->entities,
        .from_ms = wanted->from_ms,
        .to_ms = wanted->to_ms,
        .id_prefix = wanted->id_prefix,
        .name = wanted->name,
        .tag = wanted->tag,
        .error_part = wanted->error_part,
        .newest_first = wanted->newest_first && !wanted->entities,
        .has_after = wanted->has_after,
        .after_ms = wanted->after_ms,
        .after_id = wanted->after_id,
        .limit = q->limit + 1, /* one more tells whether there is a next page */
        .entities = wanted->entities,
        .want_transient = wanted->want_transient,
        /* of an entity the row alone says too little */
        .want_snapshot = !wanted->want_keys || wanted->entities,
    };
}

/* A start that waits is pending, and nothing else. */
static bool may_wait(const struct archive_query *query)
{
    if (query->entities || query->terminal_only || query->by_completion) return false;
    return query->status_mask == 0 || (query->status_mask >> STATUS_PENDING & 1) != 0;
}

/* As many as are on the page for sure, all of a millisecond: their order is by id there. */
static void waiting_cut(struct query *q, size_t n, size_t wanted_n)
{
    size_t kept_n = wanted_n < n ? wanted_n : n;

    while (kept_n < n &&
           q->waiting[kept_n].order / NS_PER_MS == q->waiting[kept_n - 1].order / NS_PER_MS) {
        kept_n++;
    }
    q->is_waiting_cut = kept_n < n;
    if (q->is_waiting_cut) q->waiting_bound_ms = (int64_t)(q->waiting[kept_n].order / NS_PER_MS);
    q->waiting_n = kept_n;
}

/* The order that those that wait are listed after. */
static uint64_t order_after(const struct archive_query *query, uint64_t order_durable)
{
    int64_t from_ms = query->from_ms;
    int64_t to_ms = query->to_ms == 0 ? INT64_MAX : query->to_ms;

    if (!query->newest_first) {
        if (query->has_after && query->after_ms > from_ms) from_ms = query->after_ms;
        return from_ms > 0 ? (uint64_t)from_ms * NS_PER_MS - 1 : 0;
    }
    /* All of the position's own millisecond: the id decides. */
    if (query->has_after && query->after_ms < to_ms) to_ms = query->after_ms + 1;
    uint64_t order = to_ms < 0                       ? 0
                     : to_ms > INT64_MAX / NS_PER_MS ? UINT64_MAX
                                                     : (uint64_t)to_ms * NS_PER_MS;
    return order <= order_durable ? order : order_durable + 1;
}

/* Which of those that wait may be on the page. False: one is on its way to another place in the
 * journal, and can be read when it is there. */
static bool waiting_pick(struct host *h, struct query *q)
{
    const struct archive_query *query = &q->archive_query;
    size_t n = 0;

    q->waiting_n = 0;
    q->is_waiting_cut = false;
    if (q->request->query.want_parked || !may_wait(query) || backlog_n(h->backlog) == 0)
        return true;
    if (q->waiting == NULL) q->waiting = mem_take(&h->own, QUERY_WAITING_N * sizeof *q->waiting);
    enum status status =
        q->waiting == NULL
            ? E_NOMEM
            : backlog_list(h->backlog, order_after(query, h->order_durable), query->newest_first,
                           query->name, q->waiting, QUERY_WAITING_N, &n);
    if (status != OK) {
        q->is_void = true; /* could not be read: ask again */
        return true;
    }
    /* Nobody was told of the newest: they do not count. */
    while (n > 0 && q->waiting[n - 1].order > h->order_durable) n--;
    size_t wanted_n = q->limit + 1 > QUERY_WAITING_LEAST_N ? q->limit + 1 : QUERY_WAITING_LEAST_N;
    waiting_cut(q, n, wanted_n);
    for (size_t i = 0; i < q->waiting_n; i++) {
        if (q->waiting[i].lsn > h->lsn_durable) return false;
    }
    return true;
}

struct query *queries_begin(struct host *h)
{
    struct query *q = &h->queries.query;

    if (q->request == NULL) {
        struct list *node = list_pop_front(&h->queries.waiting);
        if (node == NULL) return NULL;
        query_open(q, container_of(node, struct request, node));
    }
    return waiting_pick(h, q) ? q : NULL;
}

static enum status keep_row(void *user, const struct archive_row *row)
{
    struct query *q = user;
    struct arena *arena = &q->read_arena;
    struct candidate *c = arena_alloc_zero(arena, sizeof *c);
    struct instance_view view;
    if (c == NULL) return E_NOMEM;

    enum status status = row->snapshot.len > 0 ? snapshot_view(row->snapshot, arena, &view)
                                               : view_of_row(row, arena, &view);
    if (status == OK) {
        view.wake_ms = row->wake_ms; /* a snapshot does not say */
        status = view_copy(&view, q->want_payloads, arena, &c->view);
    }
    if (status != OK) return status;
    c->time_ms = q->archive_query.by_completion ? row->completed_ms : row->created_ms;
    c->id = key_id(c->view.key);
    c->next = q->rows;
    q->rows = c;
    q->row_last = c;
    q->rows_n++;
    q->read_size += row->snapshot.len;
    q->is_cut = q->read_size > READ_SIZE_MAX;
    return q->is_cut ? E_LIMIT : OK; /* stops */
}

static enum status keep_waiting(struct query *q, const struct queued *waiting,
                                struct frames *frames)
{
    struct bytes record;
    struct instance_view view;
    struct arena *arena = &q->read_arena;

    enum status status = frames_get(frames, waiting, &record);
    if (status == OK) status = queued_view(record, arena, &view);
    if (status != OK) return status;
    if (!view_matches(&view, &q->archive_query)) return OK;
    struct candidate *c = arena_alloc_zero(arena, sizeof *c);
    if (c == NULL) return E_NOMEM;
    status = view_copy(&view, q->want_payloads, arena, &c->view);
    if (status != OK) return status;
    c->order = waiting->order;
    c->time_ms = view_time_ms(&view, false);
    c->id = key_id(c->view.key);
    c->next = q->waiting_rows;
    q->waiting_rows = c;
    return OK;
}

void queries_read(struct query *q, struct archive *archive, struct frames *frames)
{
    q->rows_n = 0;
    q->read_size = 0;
    q->is_cut = false;
    q->waiting_rows = NULL;
    q->status = OK;
    if (q->request->query.want_parked) return; /* these are in memory */
    for (size_t i = 0; i < q->waiting_n; i++) {
        q->status = keep_waiting(q, &q->waiting[i], frames);
        if (q->status != OK) return;
    }
    q->status = archive_query(archive, &q->archive_query, keep_row, q);
    if (q->is_cut) q->status = OK;
}

/* ---- merging ---- */

static bool is_wanted(const struct query *q, const struct instance_view *view)
{
    if (q->request->query.want_parked && !view->is_parked) return false;
    return view_matches(view, &q->archive_query);
}

/* Candidates in order. Holds not much more than a page needs, by sorting and cutting when it is
 * full. */
struct page {
    const struct candidate **items;
    size_t n;
    size_t n_max;
    size_t wanted_n;
    const struct query *query;
    struct arena *arena;
};

static int compare(const struct candidate *x, const struct candidate *y)
{
    if (x->time_ms != y->time_ms) return x->time_ms < y->time_ms ? -1 : 1;
    return bytes_compare(x->id, y->id);
}

static int compare_oldest(const void *a, const void *b)
{
    return compare(*(const struct candidate *const *)a, *(const struct candidate *const *)b);
}

static int compare_newest(const void *a, const void *b) { return compare_oldest(b, a); }

static void page_sort(struct page *p)
{
    bool newest_first = p->query->archive_query.newest_first;

    if (p->n > 1)
        qsort(p->items, p->n, sizeof *p->items, newest_first ? compare_newest : compare_oldest);
    if (p->n > p->wanted_n) p->n = p->wanted_n;
}

/* The archive has rows beyond the last one that was read. */
static bool has_unread(const struct query *q) { return q->is_cut || q->rows_n > q->limit; }

/* Of the bound of those that wait, or behind it in the order of the list. */
static bool is_bound(const struct query *q, int64_t time_ms)
{
    if (!q->is_waiting_cut) return false;
    return q->archive_query.newest_first ? time_ms <= q->waiting_bound_ms
                                         : time_ms >= q->waiting_bound_ms;
}

static void page_add(struct page *p, const struct candidate *c)
{
    const struct query *q = p->query;
    if (has_unread(q)) {
        int order = compare(c, q->row_last);
        if (q->archive_query.newest_first ? order < 0 : order > 0) return; /* not on this page */
    }
    if (is_bound(q, c->time_ms)) return;
    if (p->n == p->n_max) page_sort(p);
    p->items[p->n++] = c;
}

/* A core's views are borrowed until the next step: there is none before the page is answered. */
static enum status add_hot(void *user, const struct instance_view *view)
{
    struct page *p = user;

    if (!is_wanted(p->query, view)) return OK;
    struct candidate *c = arena_alloc_zero(p->arena, sizeof *c);
    if (c == NULL) return E_NOMEM;
    c->view = *view;
    c->time_ms = view_time_ms(view, p->query->archive_query.by_completion);
    c->id = key_id(view->key);
    page_add(p, c);
    return OK;
}

static bool is_hot(const struct host *h, struct bytes key)
{
    struct instance_view view;

    return core_view(h->cores[host_index_of(h, key)], key, &view);
}

/* Else it was admitted meanwhile: then memory has it, or it has left. */
static bool still_waits(const struct host *h, const struct candidate *c)
{
    struct queued waiting;

    return backlog_get(h->backlog, backlog_hash(h->backlog, c->view.key), c->order, &waiting);
}

static enum status page_fill(struct host *h, struct page *p)
{
    struct query *q = &h->queries.query;
    enum status status = OK;

    for (uint32_t i = 0; i < h->cores_n && status == OK; i++) {
        status = core_each(h->cores[i], add_hot, p);
    }
    for (const struct candidate *c = q->left; c != NULL; c = c->next) {
        if (!is_hot(h, c->view.key)) page_add(p, c);
    }
    for (const struct candidate *c = q->waiting_rows; c != NULL; c = c->next) {
        if (still_waits(h, c)) page_add(p, c);
    }
    for (const struct candidate *c = q->rows; c != NULL; c = c->next) {
        bool has_left = filter_has(&h->loader.left, key_hash(c->view.key));
        if (!has_left && !is_hot(h, c->view.key)) page_add(p, c);
    }
    page_sort(p);
    return status;
}

static enum status page_init(struct host *h, struct page *p)
{
    struct query *q = &h->queries.query;

    *p = (struct page){.query = q, .arena = &q->arena, .wanted_n = (size_t)q->limit + 1};
    p->n_max = 2 * p->wanted_n;
    p->items = arena_alloc(&q->arena, p->n_max * sizeof *p->items);
    return p->items == NULL ? E_NOMEM : OK;
}

/* The answer lives in the batch, with which it is released. */
static enum status page_answer(struct host *h, const struct page *p)
{
    struct request *request = p->query->request;
    struct arena *arena = &h->open->arena;
    size_t n = p->n < p->query->limit ? p->n : p->query->limit;

    struct instance_view *rows = arena_alloc(arena, n * sizeof *rows);
    if (rows == NULL) return E_NOMEM;
    for (size_t i = 0; i < n; i++) {
        enum status status =
            view_copy(&p->items[i]->view, request->query.want_payloads, arena, &rows[i]);
        if (status != OK) return status;
    }
    request->rows = rows;
    request->rows_n = n;
    request->has_more = p->n > n || has_unread(p->query) || p->query->is_waiting_cut;
    return OK;
}

/* Nothing up to the last row that was read is on the page: goes on behind it. */
static enum status query_go_on(struct query *q)
{
    struct archive_query *query = &q->archive_query;
    bool is_waiting_first =
        q->is_waiting_cut && (!has_unread(q) || is_bound(q, q->row_last->time_ms));

    buffer_clear(&q->position);
    if (!is_waiting_first) buffer_append_bytes(&q->position, q->row_last->id);
    if (q->position.failed) return E_NOMEM;
    query->has_after = true;
    query->after_ms = q->row_last == NULL ? 0 : q->row_last->time_ms;
    /* Before everything of that millisecond: no id is empty. */
    if (is_waiting_first) query->after_ms = q->waiting_bound_ms + (query->newest_first ? 1 : 0);
    query->after_id = buffer_view(&q->position);
    query_clear(q);
    return OK;
}

void queries_merge(struct host *h)
{
    struct query *q = &h->queries.query;
    struct request *request = q->request;
    struct page page = {0};
    enum status status = q->status;

    if (status == OK && (q->is_void || h->loader.left.is_blind)) status = E_UNAVAILABLE;
    if (status == OK) status = page_init(h, &page);
    if (status == OK) status = page_fill(h, &page);
    if (status == OK && page.n == 0 && (has_unread(q) || q->is_waiting_cut)) {
        status = query_go_on(q);
        if (status == OK) return;
    }
    if (status == OK) status = page_answer(h, &page);
    query_clear(q);
    q->request = NULL;
    request->status = status;
    if (status == OK) {
        request_answer(h, request);
    } else {
        request_refuse(h, request, status, "the list could not be read: ask again");
    }
}

/* ---- what leaves memory meanwhile ---- */

struct candidate *queries_keep(struct host *h, const struct instance_view *view)
{
    struct query *q = &h->queries.query;

    if (!h->loader.is_under_way || h->loader.job.query == NULL || q->is_void) return NULL;
    if (!is_wanted(q, view)) return NULL;
    struct candidate *c = arena_alloc_zero(&q->arena, sizeof *c);
    if (c == NULL || q->arena.size > LEFT_SIZE_MAX ||
        view_copy(view, q->request->query.want_payloads, &q->arena, &c->view) != OK) {
        q->is_void = true;
        return NULL;
    }
    c->time_ms = view_time_ms(view, q->archive_query.by_completion);
    c->id = key_id(c->view.key);
    c->next = q->left;
    q->left = c;
    return c;
}

void queries_keep_not(struct host *h, struct candidate *kept)
{
    struct query *q = &h->queries.query;

    if (kept == NULL) return;
    assert(q->left == kept);
    q->left = kept->next;
}

bool queries_is_quiet(const struct host *h)
{
    return h->queries.query.request == NULL && list_is_empty(&h->queries.waiting);
}

void queries_give_up(struct host *h, struct list *to)
{
    struct query *q = &h->queries.query;

    if (q->request != NULL) list_push_back(to, &q->request->node);
    q->request = NULL;
    list_splice_back(to, &h->queries.waiting);
}
