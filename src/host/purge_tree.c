/* SPDX-License-Identifier: Apache-2.0
 *
 * A tree over several shards: see purger.h. Its instances are a list that grows while it is walked,
 * children behind their parents and so sorted by depth; it is purged from its end, level by level.
 */
#include "host/purger.h"

#include "base/assert.h"
#include "base/map.h"
#include "base/random.h"
#include "host/purge.h"
#include "host/rows.h"

#include <stdio.h>

struct tree_node {
    struct map_node node; /* key in the arena */
    struct tree_node *next;
    struct tree_node *previous;
    uint32_t depth;
    bool is_there;
};

struct tree {
    struct purger *purger;
    struct request *request; /* the root's */
    struct mem mem;          /* of whichever thread has the chain */
    struct arena arena;
    struct map seen;
    struct tree_node *last;
    struct tree_node *at; /* being walked; then the next to purge */
    uint32_t n;
    struct request look;
    struct wave wave;
};

static void look_done(struct request *request);

static void finish(struct tree *t, enum status status, const char *text)
{
    struct request *request = t->request;

    atomic_fetch_sub(&t->purger->trees_n, 1);
    request->status = status;
    (void)snprintf(request->text, sizeof request->text, "%s", text);
    map_release(&t->seen);
    arena_release(&t->arena);
    struct mem mem = t->mem;
    wave_release(&t->wave, &mem);
    mem_give(&mem, t, sizeof *t);
    mem_release(&mem);
    request->done(request);
}

/* E_NOMEM, E_LIMIT. A key that is there already is not added again. */
static enum status add_node(struct tree *t, struct bytes hub, struct bytes id, uint32_t depth)
{
    struct tree_node *node = arena_alloc_zero(&t->arena, sizeof *node);
    if (node == NULL) return E_NOMEM;
    node->node.key = row_key(hub, id, &t->arena);
    if (node->node.key.ptr == NULL) return E_NOMEM;
    if (map_find(&t->seen, node->node.key) != NULL) return OK;
    if (t->n >= PURGE_N_MAX) return E_LIMIT;
    map_insert(&t->seen, &node->node);
    node->depth = depth;
    node->previous = t->last;
    assert(t->last == NULL || t->last->depth <= depth);
    if (t->last != NULL) t->last->next = node;
    t->last = node;
    t->n++;
    return OK;
}

/* ---- purging ---- */

static void purge_on(struct tree *t)
{
    while (t->at != NULL && !t->at->is_there) t->at = t->at->previous;
    if (t->at == NULL) {
        finish(t, OK, "");
        return;
    }
    uint32_t depth = t->at->depth;
    while (t->at != NULL && t->at->depth == depth && t->wave.n < t->wave.slots_n) {
        if (t->at->is_there) {
            wave_add(&t->wave, t->at->node.key, false, t->request->client.is_forced);
        }
        t->at = t->at->previous;
    }
    wave_run(&t->wave, t->purger);
}

static void wave_done(struct wave *wave)
{
    struct tree *t = container_of(wave, struct tree, wave);
    char text[sizeof t->request->text] = "";

    enum status status = wave_take(wave, &t->request->purged_n, text, sizeof text);
    if (status == OK)
        purge_on(t);
    else
        finish(t, status, text);
}

/* ---- walking ---- */

static void ask_children(struct tree *t)
{
    t->look = (struct request){.kind = REQUEST_CHILDREN, .done = look_done, .key = t->at->node.key};
    if (!t->purger->post(t->purger, &t->look)) finish(t, E_UNAVAILABLE, PURGE_TEXT_BUSY);
}

static enum status add_children(struct tree *t, struct bytes ids)
{
    struct reader r = reader_make(ids);
    struct bytes id;
    enum status status = OK;

    while (status == OK && strings_next(&r, &id)) {
        if (id.len > 0) status = add_node(t, key_hub(t->at->node.key), id, t->at->depth + 1);
    }
    return status;
}

static void look_done(struct request *request)
{
    struct tree *t = container_of(request, struct tree, look);
    enum status status = request->status;
    const char *text = request->text;

    if (status == OK && request->view == NULL && t->at->depth == 0) {
        status = E_NOT_FOUND;
        text = "there is no such instance";
    } else if (status == OK && request->view != NULL) {
        t->at->is_there = true;
        if (!request->view->is_terminal && !t->request->client.is_forced) {
            status = E_PRECONDITION;
            text = PURGE_TEXT_RUNNING;
        } else {
            status = add_children(t, request->events);
            if (status == E_LIMIT) text = PURGE_TEXT_MANY;
        }
    }
    if (status != OK) {
        finish(t, status, text);
        return;
    }
    t->at = t->at->next;
    if (t->at != NULL) {
        ask_children(t);
        return;
    }
    t->at = t->last;
    purge_on(t);
}

enum status purge_tree(struct purger *p, struct request *request)
{
    struct mem mem;
    uint64_t seed[2];

    assert(request->kind == REQUEST_PURGE);
    assert(key_is_complete(request->key));
    if (atomic_fetch_add(&p->trees_n, 1) >= PURGES_TREE_MAX) {
        atomic_fetch_sub(&p->trees_n, 1);
        return E_UNAVAILABLE;
    }
    mem_init(&mem, SIZE_MAX);
    struct tree *t = mem_take_zero(&mem, sizeof *t);
    if (t == NULL || wave_init(&t->wave, &mem, WAVE_TREE_N) != OK) {
        if (t != NULL) mem_give(&mem, t, sizeof *t);
        atomic_fetch_sub(&p->trees_n, 1);
        return E_NOMEM;
    }
    t->purger = p;
    t->request = request;
    t->mem = mem;
    t->wave.done = wave_done;
    arena_init(&t->arena, &t->mem, 1024);
    random_fill(seed, sizeof seed);
    map_init(&t->seen, &t->mem, seed[0], seed[1]);
    request->purged_n = 0;
    if (add_node(t, key_hub(request->key), key_id(request->key), 0) != OK) {
        finish(t, E_NOMEM, "out of memory");
        return OK;
    }
    t->at = t->last;
    ask_children(t);
    return OK;
}
