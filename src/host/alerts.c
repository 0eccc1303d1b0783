/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of what waits for an operator, longest waiting first. All of it is in memory (see
 * core/parked.c), so a page is made by looking at each and keeping the first ones.
 */
#include "host/state.h"

#include <stdlib.h>

struct page {
    const struct request_alerts *wanted;
    struct parked_view *items;
    size_t n;
    size_t n_max;
    size_t wanted_n; /* one more than the limit: it tells whether there is a next page */
};

static int compare(const struct parked_view *x, const struct parked_view *y)
{
    if (x->since_ms != y->since_ms) return x->since_ms < y->since_ms ? -1 : 1;
    int order = bytes_compare(x->key, y->key);
    if (order != 0) return order;
    return (x->task_id > y->task_id) - (x->task_id < y->task_id);
}

static int compare_items(const void *a, const void *b) { return compare(a, b); }

static void page_sort(struct page *p)
{
    if (p->n > 1) qsort(p->items, p->n, sizeof *p->items, compare_items);
    if (p->n > p->wanted_n) p->n = p->wanted_n;
}

static enum status page_add(void *user, const struct parked_view *view)
{
    struct page *p = user;
    const struct request_alerts *wanted = p->wanted;
    struct parked_view after = {
        .key = wanted->after_key,
        .task_id = wanted->after_task_id,
        .since_ms = wanted->after_ms,
    };

    if (wanted->hub.len > 0 && !bytes_equal(key_hub(view->key), wanted->hub)) return OK;
    if (wanted->has_after && compare(view, &after) <= 0) return OK;
    if (p->n == p->n_max) page_sort(p);
    p->items[p->n++] = *view;
    return OK;
}

static enum status page_keep(struct page *p, struct arena *arena)
{
    for (size_t n = 0; n < p->n; n++) {
        struct parked_view *view = &p->items[n];
        struct bytes *texts[] = {&view->key, &view->name, &view->text};
        for (size_t i = 0; i < 3; i++) {
            size_t len = texts[i]->len;
            *texts[i] = arena_copy(arena, *texts[i]);
            if (texts[i]->len != len) return E_NOMEM;
        }
    }
    return OK;
}

void alerts_run(struct host *h, struct request *request)
{
    struct arena *arena = &h->open->arena;
    uint32_t limit =
        request->alerts.limit < QUERY_LIMIT_MAX ? request->alerts.limit : QUERY_LIMIT_MAX;
    if (limit == 0) limit = 1;
    struct page page = {.wanted = &request->alerts, .wanted_n = (size_t)limit + 1};
    page.n_max = 2 * page.wanted_n;
    page.items = arena_alloc(arena, page.n_max * sizeof *page.items);

    enum status status = page.items == NULL ? E_NOMEM : OK;
    for (uint32_t i = 0; i < h->cores_n && status == OK; i++) {
        status = core_parked(h->cores[i], page_add, &page);
    }
    page_sort(&page);
    bool has_more = page.n > limit;
    if (has_more) page.n = limit;
    if (status == OK) status = page_keep(&page, arena);
    if (status != OK) {
        request_refuse(h, request, status, "the list could not be made: ask again");
        return;
    }
    request->status = OK;
    request->parked = page.items;
    request->parked_n = page.n;
    request->has_more = has_more;
    request_answer(h, request);
}
