/* SPDX-License-Identifier: Apache-2.0
 *
 * The tree is a list of keys that grows while it is walked: children are appended behind their
 * parent. While one must be loaded the request is parked with it, and goes on here afterwards.
 */
#include "host/purge.h"

#include "host/rows.h"
#include "host/state.h"

#define PURGE_ATTEMPTS_MAX 5u /* walks, when instances leave memory again before the end */

struct purge_key {
    struct map_node node; /* key in the arena */
    struct purge_key *next;
};

struct purge {
    struct arena arena;
    struct map seen;
    struct purge_key *first;
    struct purge_key *last;
    struct purge_key *at; /* next one to look at */
    uint32_t n;
    uint32_t attempts_n;
    struct buffer children;
};

void purge_give_up(struct host *h, struct request *request)
{
    struct purge *p = request->host_state;

    if (p == NULL) return;
    request->host_state = NULL;
    map_release(&p->seen);
    buffer_release(&p->children);
    arena_release(&p->arena);
    mem_give(&h->own, p, sizeof *p);
}

static void fail(struct host *h, struct request *request, enum status status, const char *text)
{
    purge_give_up(h, request);
    request_refuse(h, request, status, "%s", text);
}

/* E_NOMEM, E_LIMIT. A key that is there already is not added again. */
static enum status add_key(struct purge *p, struct bytes hub, struct bytes id)
{
    struct purge_key *k = arena_alloc_zero(&p->arena, sizeof *k);
    if (k == NULL) return E_NOMEM;
    k->node.key = row_key(hub, id, &p->arena);
    if (k->node.key.ptr == NULL) return E_NOMEM;
    if (map_find(&p->seen, k->node.key) != NULL) return OK;
    if (p->n >= PURGE_N_MAX) return E_LIMIT;
    map_insert(&p->seen, &k->node);
    if (p->last == NULL)
        p->first = p->at = k;
    else
        p->last->next = k;
    if (p->at == NULL) p->at = k;
    p->last = k;
    p->n++;
    return OK;
}

static enum status add_children(struct host *h, struct purge *p, struct bytes key)
{
    struct bytes id;
    enum status status = OK;

    buffer_clear(&p->children);
    (void)core_children(h->cores[host_index_of(h, key)], key, &p->children);
    if (p->children.failed) return E_NOMEM;
    struct reader r = reader_make(buffer_view(&p->children));
    while (status == OK && strings_next(&r, &id)) {
        if (id.len > 0) status = add_key(p, key_hub(key), id);
    }
    return status;
}

/* Walks on. OK: all of the tree was in memory when it was looked at. E_BUSY: the request is
 * parked. */
static enum status walk(struct host *h, struct request *request, struct purge *p)
{
    struct instance_view view;

    for (; p->at != NULL; p->at = p->at->next) {
        struct bytes key = p->at->node.key;
        uint32_t index = host_index_of(h, key);
        if (!loader_is_at_hand(h, index, key)) {
            enum status status = loader_load(h, index, key, request);
            return status == OK ? E_BUSY : status;
        }
        if (!host_view(h, index, key, &view)) continue; /* there is none */
        if (!view.is_terminal && !request->client.is_forced) return E_PRECONDITION;
        enum status status = add_children(h, p, key);
        if (status != OK) return status;
    }
    return OK;
}

/* Whether everything that was walked is still at hand: only then it is purged as a whole. */
static bool is_all_at_hand(struct host *h, const struct purge *p)
{
    for (const struct purge_key *k = p->first; k != NULL; k = k->next) {
        if (!loader_is_at_hand(h, host_index_of(h, k->node.key), k->node.key)) return false;
    }
    return true;
}

/* Children first; the root is the last, and its answer is the answer. */
static void purge_all(struct host *h, struct request *request, struct purge *p)
{
    struct instance_view view;
    uint32_t purged_n = 0;
    enum status status = OK;

    /* Reversed: a child stands behind its parent. */
    struct purge_key *reversed = NULL;
    for (struct purge_key *k = p->first, *next = NULL; k != NULL; k = next) {
        next = k->next;
        k->next = reversed;
        reversed = k;
    }
    for (const struct purge_key *k = reversed; k != NULL && status == OK; k = k->next) {
        uint32_t index = host_index_of(h, k->node.key);
        bool is_root = k->next == NULL;
        bool is_there = host_view(h, index, k->node.key, &view);
        if (!is_there && !is_root) continue;
        struct input in = {
            .kind = INPUT_CLIENT_PURGE,
            .client = {.key = k->node.key, .is_forced = request->client.is_forced},
        };
        status = host_step(h, index, &in, is_root ? request : NULL);
        if (status == OK && is_there) purged_n++;
    }
    purge_give_up(h, request);
    if (status != OK) {
        /* What was purged before memory ran out stays purged: whoever asks again purges the
         * rest. */
        request_refuse(h, request, status, "out of memory");
        return;
    }
    request->purged_n = purged_n;
    request_answer(h, request);
}

static struct purge *purge_new(struct host *h, struct request *request)
{
    struct purge *p = mem_take_zero(&h->own, sizeof *p);
    if (p == NULL) return NULL;
    arena_init(&p->arena, &h->own, 1024);
    map_init(&p->seen, &h->own, h->seed[0], h->seed[1]);
    buffer_init(&p->children, &h->own);
    request->host_state = p;
    if (add_key(p, key_hub(request->key), key_id(request->key)) != OK) {
        purge_give_up(h, request);
        return NULL;
    }
    return p;
}

void purge_run(struct host *h, struct request *request)
{
    struct purge *p = request->host_state;

    if (h->options.shards_n > 1) {
        request_refuse(h, request, E_UNSUPPORTED,
                       "a recursive purge over several shards is the engine's to do");
        return;
    }
    if (p == NULL) p = purge_new(h, request);
    if (p == NULL) {
        request_refuse(h, request, E_NOMEM, "out of memory");
        return;
    }
    enum status status = walk(h, request, p);
    while (status == OK && !is_all_at_hand(h, p) && p->attempts_n++ < PURGE_ATTEMPTS_MAX) {
        p->at = p->first;
        status = walk(h, request, p);
    }
    if (status == E_BUSY) return;
    if (status == OK && p->attempts_n > PURGE_ATTEMPTS_MAX) status = E_UNAVAILABLE;
    if (status == OK) {
        purge_all(h, request, p);
    } else if (status == E_PRECONDITION) {
        fail(h, request, status, PURGE_TEXT_RUNNING);
    } else if (status == E_LIMIT) {
        fail(h, request, status, PURGE_TEXT_MANY);
    } else {
        fail(h, request, status, "the purge could not be done now: try again");
    }
}
