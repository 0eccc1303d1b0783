/* SPDX-License-Identifier: Apache-2.0
 *
 * PURGE_WHERE: a page of the list, a wave of purges for its rows, the next page behind it, until
 * there is none or the time is over. A hub that ends is listed twice: its orchestrations, then its
 * entities.
 *
 * What does not want to go (it runs again, or a descendant does) stays and is passed over; it is
 * not counted.
 */
#include "host/purger.h"

#include "base/assert.h"
#include "base/clock.h"
#include "core/limits.h"
#include "host/purge.h"
#include "host/rows.h"

#include <stdio.h>

#define LIST_ATTEMPTS_MAX 3u /* of one page: too much may have happened while it was read */

struct where {
    struct purger *purger;
    struct request *request; /* whose filters are borrowed */
    struct mem mem;          /* of whichever thread has the chain */
    struct arena arena;      /* keys of the page */
    struct request list;
    struct wave wave;
    uint8_t after_id[LIMIT_ID_SIZE];
    int64_t deadline_ns; /* INT64_MAX = none */
    uint32_t attempts_n;
    bool has_more; /* behind this page */
};

static void list_done(struct request *request);
static void wave_done(struct wave *wave);

/* The request's answer is complete but for status and text. */
static void finish(struct where *w, enum status status, const char *text)
{
    struct request *request = w->request;

    atomic_fetch_sub(&w->purger->wheres_n, 1);
    request->status = status;
    (void)snprintf(request->text, sizeof request->text, "%s", text);
    arena_release(&w->arena);
    struct mem mem = w->mem;
    wave_release(&w->wave, &mem);
    mem_give(&mem, w, sizeof *w);
    mem_release(&mem);
    request->done(request);
}

static void ask_list(struct where *w)
{
    if (!w->purger->post(w->purger, &w->list)) finish(w, E_UNAVAILABLE, PURGE_TEXT_BUSY);
}

static void begin_pass(struct where *w, bool of_entities)
{
    bool is_forced = w->request->purge.is_forced;

    w->list = (struct request){.kind = REQUEST_QUERY, .done = list_done};
    w->list.query = w->request->purge.query;
    w->list.query.has_after = false;
    w->list.query.limit = WAVE_WHERE_N;
    w->list.query.want_payloads = false;
    w->list.query.want_keys = true;
    if (!is_forced) w->list.query.terminal_only = true;
    if (of_entities) {
        w->list.query.entities = true;
        w->list.query.want_transient = true;
    }
    w->attempts_n = 0;
    ask_list(w);
}

/* The next page, or the entities after the orchestrations of a hub that ends, or the end. */
static void go_on(struct where *w)
{
    bool is_late = w->purger->now_ns(w->purger) >= w->deadline_ns;
    bool wants_entities = w->request->purge.is_forced && !w->list.query.entities;

    w->request->has_more = is_late && (w->has_more || wants_entities);
    if (is_late || (!w->has_more && !wants_entities)) {
        finish(w, OK, "");
    } else if (w->has_more) {
        ask_list(w);
    } else {
        begin_pass(w, true);
    }
}

/* Keys and position of the page, which is borrowed. False without memory. */
static bool keep_page(struct where *w, const struct request *list)
{
    arena_reset(&w->arena);
    for (size_t i = 0; i < list->rows_n; i++) {
        struct bytes key = arena_copy(&w->arena, list->rows[i].key);
        if (key.len != list->rows[i].key.len) return false;
        wave_add(&w->wave, key, w->request->purge.recurse, w->request->purge.is_forced);
    }
    const struct instance_view *last = &list->rows[list->rows_n - 1];
    struct bytes id = key_id(last->key);
    assert(id.len <= sizeof w->after_id);
    memcpy(w->after_id, id.ptr, id.len);
    w->list.query.has_after = true;
    w->list.query.after_id = bytes_make(w->after_id, id.len);
    w->list.query.after_ms = view_time_ms(last, w->list.query.by_completion);
    return true;
}

static void list_done(struct request *request)
{
    struct where *w = container_of(request, struct where, list);

    if (request->status == E_UNAVAILABLE && ++w->attempts_n < LIST_ATTEMPTS_MAX) {
        ask_list(w);
        return;
    }
    if (request->status != OK) {
        finish(w, request->status, request->text);
        return;
    }
    w->attempts_n = 0;
    w->has_more = request->has_more;
    if (request->rows_n == 0) {
        go_on(w);
    } else if (!keep_page(w, request)) {
        finish(w, E_NOMEM, "out of memory: try again later");
    } else {
        wave_run(&w->wave, w->purger);
    }
}

static void wave_done(struct wave *wave)
{
    struct where *w = container_of(wave, struct where, wave);
    char text[sizeof w->request->text] = "";

    enum status status = wave_take(wave, &w->request->purged_n, text, sizeof text);
    if (status == OK || status == E_PRECONDITION || status == E_LIMIT)
        go_on(w);
    else
        finish(w, status, text);
}

enum status purge_where(struct purger *p, struct request *request)
{
    struct mem mem;

    assert(request->kind == REQUEST_PURGE_WHERE);
    if (atomic_fetch_add(&p->wheres_n, 1) >= PURGES_WHERE_MAX) {
        atomic_fetch_sub(&p->wheres_n, 1);
        return E_UNAVAILABLE;
    }
    mem_init(&mem, SIZE_MAX);
    struct where *w = mem_take_zero(&mem, sizeof *w);
    if (w == NULL || wave_init(&w->wave, &mem, WAVE_WHERE_N) != OK) {
        if (w != NULL) mem_give(&mem, w, sizeof *w);
        atomic_fetch_sub(&p->wheres_n, 1);
        return E_NOMEM;
    }
    w->purger = p;
    w->request = request;
    w->mem = mem;
    w->wave.done = wave_done;
    arena_init(&w->arena, &w->mem, 4096);
    w->deadline_ns = INT64_MAX;
    int64_t timeout_ms = request->purge.timeout_ms;
    if (timeout_ms > 0 && timeout_ms < INT64_MAX / 2 / NS_PER_MS) {
        w->deadline_ns = p->now_ns(p) + timeout_ms * NS_PER_MS;
    }
    request->purged_n = 0;
    request->has_more = false;
    begin_pass(w, request->purge.query.entities);
    return OK;
}
