/* SPDX-License-Identifier: Apache-2.0
 *
 * See hot.h.
 */
#include "lib/hot.h"

#include "base/prefetch.h"
#include "base/random.h"

#define FETCH_MAX ((size_t)1024) /* of a stack: what returns first is at its beginning */

void hot_init(struct hot *hot, struct mem *mem, size_t n_max)
{
    uint64_t seed[2];

    random_fill(seed, sizeof seed);
    map_init(&hot->by_id, mem, seed[0], seed[1]);
    list_init(&hot->used);
    hot->n_max = n_max;
    hot->expected = NULL;
}

static void take_out(struct hot *hot, struct orchestration *o)
{
    map_remove(&hot->by_id, &o->by_id);
    list_remove(&o->used);
}

static void evict_oldest(struct hot *hot)
{
    struct orchestration *o = container_of(list_last(&hot->used), struct orchestration, used);

    take_out(hot, o);
    orchestration_free(o);
}

void hot_release(struct hot *hot)
{
    while (!list_is_empty(&hot->used)) evict_oldest(hot);
    map_release(&hot->by_id);
}

/* The engine itself writes the turn that suspends an instance, and drops an answer that comes
 * meanwhile: then the base is that of the next turn though ours was never written. Such a turn can
 * be told by the resumption that comes with it. */
static bool is_resumption(const struct link_work *work)
{
    struct reader r = reader_make(work->fresh);
    struct bytes event;

    while (strings_next(&r, &event)) {
        if (event_kind_of(event) == EVENT_EXECUTION_RESUMED) return true;
    }
    return false;
}

/* May be another one whose hash is near. */
static const struct orchestration *likely(const struct hot *hot)
{
    const struct map_node *node = map_likely(&hot->by_id, hot->expected_hash);
    return node == NULL ? NULL : container_of(node, struct orchestration, by_id);
}

void hot_expect(struct hot *hot, const struct link_work *work)
{
    hot->expected = work;
    hot->expected_hash = map_hash(&hot->by_id, work->id);
    const struct orchestration *o = likely(hot);
    if (o != NULL) prefetch(o, sizeof *o);
}

void hot_expect_none(struct hot *hot) { hot->expected = NULL; }

void hot_fetch(const struct hot *hot)
{
    if (hot->expected == NULL) return;
    const struct orchestration *o = likely(hot);
    if (o == NULL) return;
    __builtin_prefetch(o->arena.at, 1);
    prefetch(o->coroutine.saved,
             o->coroutine.saved_len < FETCH_MAX ? o->coroutine.saved_len : FETCH_MAX);
}

struct orchestration *hot_take(struct hot *hot, const struct link_work *work)
{
    uint64_t hash = hot->expected == work ? hot->expected_hash : map_hash(&hot->by_id, work->id);
    struct map_node *node = map_find_hashed(&hot->by_id, hash, work->id);

    hot->expected = NULL; /* its memory may be another's soon */

    if (node == NULL) return NULL;
    struct orchestration *o = container_of(node, struct orchestration, by_id);
    take_out(hot, o);
    if (memcmp(o->execution_id, work->execution_id, EXECUTION_ID_SIZE) == 0 &&
        o->base_next == work->base && !is_resumption(work)) {
        return o;
    }
    orchestration_free(o);
    return NULL;
}

void hot_put(struct hot *hot, struct orchestration *o, uint64_t base_next)
{
    o->base_next = base_next;
    /* its hash is known since it was here last */
    if (o->by_id.hash == 0) o->by_id.hash = map_hash(&hot->by_id, o->by_id.key);
    map_insert_hashed(&hot->by_id, o->by_id.hash, &o->by_id);
    list_push_front(&hot->used, &o->used);
    while (hot->by_id.n > hot->n_max) evict_oldest(hot);
}

size_t hot_n(const struct hot *hot) { return hot->by_id.n; }
