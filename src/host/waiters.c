/* SPDX-License-Identifier: Apache-2.0
 *
 * One entry for each instance that somebody waits for. Its key is borrowed from its first request,
 * which stays as it is until it is answered; when that one leaves before the others, the key is
 * theirs.
 */
#include "host/waiters.h"

#include "base/mem.h"

struct waited_key {
    struct map_node node;
    struct list all;      /* or in the pool */
    struct list requests; /* by node; never empty while in the map */
};

void waiters_init(struct waiters *w, struct mem *mem, const uint64_t seed[2])
{
    *w = (struct waiters){.mem = mem};
    map_init(&w->keys, mem, seed[0], seed[1]);
    filter_init(&w->addresses, mem);
    list_init(&w->all);
    list_init(&w->pool);
}

void waiters_release(struct waiters *w)
{
    assert(w->n == 0);
    assert(list_is_empty(&w->all));
    struct list *node;
    while ((node = list_pop_front(&w->pool)) != NULL) {
        mem_give(w->mem, container_of(node, struct waited_key, all), sizeof(struct waited_key));
    }
    map_release(&w->keys);
    filter_release(&w->addresses);
}

static uint64_t address_of(const struct request *request) { return (uint64_t)(uintptr_t)request; }

static struct waited_key *find(const struct waiters *w, struct bytes key)
{
    struct map_node *node = map_find(&w->keys, key);

    return node == NULL ? NULL : container_of(node, struct waited_key, node);
}

static struct waited_key *obtain(struct waiters *w, struct bytes key)
{
    struct waited_key *k = find(w, key);
    if (k != NULL) return k;

    struct list *unused = list_pop_front(&w->pool);
    if (unused != NULL) {
        k = container_of(unused, struct waited_key, all);
    } else {
        k = mem_take_zero(w->mem, sizeof *k);
        if (k == NULL) return NULL;
    }
    list_init(&k->requests);
    k->node = (struct map_node){.key = key};
    map_insert(&w->keys, &k->node);
    list_push_back(&w->all, &k->all);
    return k;
}

enum status waiters_add(struct waiters *w, struct request *request)
{
    assert(request->kind == REQUEST_WAIT);
    if (w->n >= WAITERS_MAX) return E_LIMIT;
    struct waited_key *k = obtain(w, request->key);
    if (k == NULL) return E_NOMEM;
    list_push_back(&k->requests, &request->node);
    w->n++;
    filter_add(&w->addresses, address_of(request));
    return OK;
}

/* After it was taken out of its list. */
static void uncount(struct waiters *w, const struct request *request)
{
    assert(w->n > 0);
    w->n--;
    filter_remove(&w->addresses, address_of(request));
    if (w->n == 0) filter_clear(&w->addresses); /* it sees again, if it was blind */
}

static void forget(struct waiters *w, struct waited_key *k)
{
    map_remove(&w->keys, &k->node);
    list_remove(&k->all);
    list_push_back(&w->pool, &k->all);
}

/* Some have left: their key may have been the entry's. */
static void settle(struct waiters *w, struct waited_key *k)
{
    if (list_is_empty(&k->requests))
        forget(w, k);
    else
        k->node.key = container_of(list_first(&k->requests), struct request, node)->key;
}

bool waiters_has(const struct waiters *w, struct bytes key) { return find(w, key) != NULL; }

void waiters_take(struct waiters *w, struct bytes key, bool is_finished, struct list *to)
{
    if (w->n == 0) return;
    struct waited_key *k = find(w, key);
    if (k == NULL) return;

    struct list *n = list_first(&k->requests);
    while (n != NULL) {
        struct request *request = container_of(n, struct request, node);
        n = list_next(&k->requests, n);
        if (request->wait.until_finished && !is_finished) continue;
        list_remove(&request->node);
        list_push_back(to, &request->node);
        uncount(w, request);
    }
    settle(w, k);
}

/* Among those of the key: only needed while the addresses could not be kept. */
static bool is_listed(const struct waited_key *k, const struct request *request)
{
    for (struct list *n = list_first(&k->requests); n != NULL; n = list_next(&k->requests, n)) {
        if (n == &request->node) return true;
    }
    return false;
}

bool waiters_remove(struct waiters *w, struct bytes key, const struct request *request)
{
    if (w->n == 0 || !filter_has(&w->addresses, address_of(request))) return false;
    struct waited_key *k = find(w, key);
    if (k == NULL) return false;
    if (w->addresses.is_blind && !is_listed(k, request)) return false;

    struct request *known = (struct request *)(uintptr_t)request; /* it is ours: it waits here */
    if (!bytes_equal(known->key, key)) return false;
    list_remove(&known->node);
    uncount(w, known);
    settle(w, k);
    return true;
}

void waiters_take_all(struct waiters *w, struct list *to)
{
    while (!list_is_empty(&w->all)) {
        struct waited_key *k = container_of(list_first(&w->all), struct waited_key, all);
        list_splice_back(to, &k->requests);
        forget(w, k);
    }
    w->n = 0;
    filter_clear(&w->addresses);
}
