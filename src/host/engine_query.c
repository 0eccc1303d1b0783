/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts are answered on the threads of their shards; the last one to answer merges. Rows beyond
 * the end of a page that has more behind it do not count: another row of that shard may come before
 * them.
 */
#include "host/engine_query.h"

#include "base/assert.h"
#include "base/mem.h"
#include "host/rows.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

struct part {
    struct request request;
    struct gather *gather;
    struct mem mem; /* of the thread that answers, then of the one that merges */
    struct arena arena;
    struct instance_view *rows;
    size_t rows_n;
};

struct gather {
    struct request *request;
    struct mem mem;
    size_t size;
    atomic_uint pending_n;
    uint32_t parts_n;
    struct part parts[];
};

static void gather_free(struct gather *g)
{
    struct mem mem = g->mem;

    for (uint32_t i = 0; i < g->parts_n; i++) {
        arena_release(&g->parts[i].arena);
        mem_release(&g->parts[i].mem);
    }
    mem_give(&mem, g, g->size);
    mem_release(&mem);
}

static bool comes_first(const struct instance_view *a, const struct instance_view *b,
                        const struct request_query *query)
{
    bool by_completion = query->by_completion && !query->entities;
    int64_t a_ms = view_time_ms(a, by_completion);
    int64_t b_ms = view_time_ms(b, by_completion);
    int order = bytes_compare(key_id(a->key), key_id(b->key));

    if (a_ms != b_ms) order = a_ms < b_ms ? -1 : 1;
    return query->newest_first ? order > 0 : order < 0;
}

/* The part whose next row comes first; NULL when a part with more behind it has run out, or all
 * have. */
static struct part *next_part(struct gather *g, const size_t *taken)
{
    struct part *first = NULL;

    for (uint32_t i = 0; i < g->parts_n; i++) {
        struct part *p = &g->parts[i];
        if (taken[i] == p->rows_n && p->request.has_more) return NULL;
        if (taken[i] == p->rows_n) continue;
        if (first == NULL || comes_first(&p->rows[taken[i]], &first->rows[taken[first - g->parts]],
                                         &g->request->query)) {
            first = p;
        }
    }
    return first;
}

static enum status merge(struct gather *g, struct arena *arena)
{
    struct request *request = g->request;
    size_t limit = request->query.limit < QUERY_LIMIT_MAX ? request->query.limit : QUERY_LIMIT_MAX;
    if (limit == 0) limit = 1;

    size_t *taken = arena_alloc_zero(arena, g->parts_n * sizeof *taken);
    struct instance_view *rows = arena_alloc(arena, limit * sizeof *rows);
    if (taken == NULL || rows == NULL) return E_NOMEM;
    size_t n = 0;
    struct part *p = NULL;
    while (n < limit && (p = next_part(g, taken)) != NULL) {
        rows[n++] = p->rows[taken[p - g->parts]++];
    }
    request->rows = rows;
    request->rows_n = n;
    request->has_more = false;
    for (uint32_t i = 0; i < g->parts_n; i++) {
        if (taken[i] < g->parts[i].rows_n || g->parts[i].request.has_more) request->has_more = true;
    }
    return OK;
}

static void answer(struct gather *g)
{
    struct request *request = g->request;

    request->status = OK;
    for (uint32_t i = 0; i < g->parts_n && request->status == OK; i++) {
        request->status = g->parts[i].request.status;
        (void)snprintf(request->text, sizeof request->text, "%s", g->parts[i].request.text);
    }
    if (request->status == OK) request->status = merge(g, &g->parts[0].arena);
    request->done(request);
    gather_free(g);
}

static void part_done(struct request *r)
{
    struct part *p = container_of(r, struct part, request);

    if (r->status == OK && r->rows_n > 0) {
        p->rows = arena_alloc(&p->arena, r->rows_n * sizeof *p->rows);
        if (p->rows == NULL) r->status = E_NOMEM;
        for (size_t i = 0; i < r->rows_n && r->status == OK; i++) {
            r->status = view_copy(&r->rows[i], true, &p->arena, &p->rows[i]);
        }
        p->rows_n = r->rows_n;
    }
    if (atomic_fetch_sub(&p->gather->pending_n, 1) == 1) answer(p->gather);
}

static struct gather *gather_new(struct request *request, uint32_t parts_n)
{
    struct mem mem;
    size_t size = sizeof(struct gather) + parts_n * sizeof(struct part);

    mem_init(&mem, SIZE_MAX);
    struct gather *g = mem_take_zero(&mem, size);
    if (g == NULL) return NULL;
    g->mem = mem;
    g->size = size;
    g->request = request;
    g->parts_n = parts_n;
    atomic_init(&g->pending_n, parts_n);
    for (uint32_t i = 0; i < parts_n; i++) {
        struct part *p = &g->parts[i];
        p->gather = g;
        p->request.kind = REQUEST_QUERY;
        p->request.query = request->query;
        p->request.done = part_done;
        mem_init(&p->mem, SIZE_MAX);
        arena_init(&p->arena, &p->mem, 4096);
    }
    return g;
}

bool engine_query(struct engine *e, struct request *request)
{
    struct gather *g = gather_new(request, engine_shards_n(e));
    if (g == NULL) return false;
    if (!engine_post_to(e, 0, &g->parts[0].request)) {
        gather_free(g);
        return false;
    }
    for (uint32_t i = 1; i < engine_shards_n(e); i++) {
        struct request *part = &g->parts[i].request;
        if (engine_post_to(e, i, part)) continue;
        part->status = E_UNAVAILABLE;
        part_done(part);
    }
    return true;
}
