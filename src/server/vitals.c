/* SPDX-License-Identifier: Apache-2.0
 *
 * See vitals.h. One round of requests at a time: who asks during a round gets its answer, which is
 * at most one turn of the engine old. A request cannot be taken back, so a round that is late stays
 * under way, and no other begins before it has ended.
 */
#include "server/vitals.h"

#include "base/assert.h"
#include "base/clock.h"
#include "host/host.h"

struct round_part {
    struct request request;
    struct host_stats stats;
    struct vitals *vitals;
};

struct vitals {
    struct mem *mem;
    struct desk_engine engine;
    struct queue answered; /* requests, from the shards' threads */
    struct list askers;    /* oldest first, which is by deadline */
    uint32_t under_way_n;  /* shards that have not answered */
    bool is_refused;       /* a shard did not take its request, or failed it */
    struct round_part parts[];
};

static size_t vitals_size(uint32_t shards_n)
{
    return sizeof(struct vitals) + shards_n * sizeof(struct round_part);
}

enum status vitals_new(struct mem *mem, const struct desk_engine *engine, struct vitals **out)
{
    assert(engine->shards_n > 0);
    struct vitals *v = mem_take_zero(mem, vitals_size(engine->shards_n));
    if (v == NULL) return E_NOMEM;
    v->mem = mem;
    v->engine = *engine;
    queue_init(&v->answered, engine->shards_n);
    list_init(&v->askers);
    *out = v;
    return OK;
}

static void answer_all(struct vitals *v, const struct host_stats *stats)
{
    struct list ready;
    struct list *node;

    list_init(&ready);
    list_splice_back(&ready, &v->askers);
    while ((node = list_pop_front(&ready)) != NULL) {
        struct vitals_asker *asker = container_of(node, struct vitals_asker, node);
        asker->answer(asker, stats);
    }
}

void vitals_free(struct vitals *v)
{
    vitals_bell(v);
    assert(v->under_way_n == 0);
    answer_all(v, NULL);
    assert(list_is_empty(&v->askers));
    queue_release(&v->answered);
    mem_give(v->mem, v, vitals_size(v->engine.shards_n));
}

/* On the shard's thread. */
static void part_done(struct request *request)
{
    struct vitals *v = container_of(request, struct round_part, request)->vitals;

    bool is_pushed = queue_push(&v->answered, &request->node);
    assert(is_pushed);
    v->engine.ring(v->engine.user);
}

static void begin_round(struct vitals *v)
{
    assert(v->under_way_n == 0);
    v->is_refused = false;
    for (uint32_t i = 0; i < v->engine.shards_n; i++) {
        struct round_part *part = &v->parts[i];
        *part = (struct round_part){.vitals = v};
        part->request.kind = REQUEST_STATS;
        part->request.stats = &part->stats;
        part->request.done = part_done;
        if (v->engine.post_to(v->engine.user, i, &part->request))
            v->under_way_n++;
        else
            v->is_refused = true;
    }
}

void vitals_ask(struct vitals *v, int64_t now_ns, struct vitals_asker *asker)
{
    asker->deadline_ns = now_ns + VITALS_TIMEOUT_MS * NS_PER_MS;
    list_push_back(&v->askers, &asker->node);
    if (v->under_way_n == 0) begin_round(v);
    /* With no shard to wait for it is answered by the next tick. */
    if (v->under_way_n == 0) asker->deadline_ns = now_ns;
}

static void end_round(struct vitals *v)
{
    struct host_stats sum = HOST_STATS_NONE;

    for (uint32_t i = 0; i < v->engine.shards_n; i++) host_stats_add(&sum, &v->parts[i].stats);
    answer_all(v, v->is_refused ? NULL : &sum);
}

void vitals_bell(struct vitals *v)
{
    struct list answered;
    struct list *node;

    list_init(&answered);
    size_t n = queue_take_all(&v->answered, &answered, 0);
    if (n == 0) return;
    assert(n <= v->under_way_n);
    v->under_way_n -= (uint32_t)n;
    while ((node = list_pop_front(&answered)) != NULL) {
        if (container_of(node, struct request, node)->status != OK) v->is_refused = true;
    }
    if (v->under_way_n == 0) end_round(v);
}

int64_t vitals_tick(struct vitals *v, int64_t now_ns)
{
    while (!list_is_empty(&v->askers)) {
        struct vitals_asker *asker =
            container_of(list_first(&v->askers), struct vitals_asker, node);
        if (asker->deadline_ns > now_ns) return asker->deadline_ns;
        list_remove(&asker->node);
        asker->answer(asker, NULL);
    }
    return INT64_MAX;
}
