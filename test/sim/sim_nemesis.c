/* SPDX-License-Identifier: Apache-2.0
 *
 * One blow at a time, drawn by the weights of those that are switched on.
 */
#include "test/sim/sim_nemesis.h"

#include "base/assert.h"
#include "base/mem.h"
#include "test/sim/sim_disk.h"
#include "test/sim/sim_front.h"
#include "test/sim/sim_link.h"
#include "test/sim/sim_node.h"
#include "test/sim/sim_worker.h"

struct nemesis {
    struct world *w;
    struct moment moment;
};

static const enum sim_fault blows[] = {
    FAULT_KIND_DISK_FULL,      FAULT_KIND_KILL,        FAULT_KIND_KILL_ALL,
    FAULT_KIND_KILL_IN_COMMIT, FAULT_KIND_PAUSE,       FAULT_KIND_NETWORK_CUT,
    FAULT_KIND_WORKER_CRASH,   FAULT_KIND_STREAM_CUT,  FAULT_KIND_CLOCK_BACK,
    FAULT_KIND_CLOCK_FORWARD,  FAULT_KIND_CLOCK_DRIFT, FAULT_KIND_READER_DEAF,
    FAULT_KIND_SERVER_DRAIN,
};
#define BLOWS_N (sizeof blows / sizeof blows[0])

static enum sim_fault draw(struct world *w, uint64_t total)
{
    uint64_t at = rng_below(&w->rng, total);

    for (size_t i = 0; i < BLOWS_N; i++) {
        uint32_t weight = w->options.fault_rate[blows[i]];
        if (at < weight) return blows[i];
        at -= weight;
    }
    unreachable("weights sum to total");
}

static void clock_blow(struct world *w, struct node *node, enum sim_fault kind)
{
    int64_t span_ns = rng_between(&w->rng, 1, 1 << rng_below(&w->rng, 22)) * NS_PER_MS;

    if (kind == FAULT_KIND_CLOCK_DRIFT) {
        node_set_drift(node, rng_between(&w->rng, -200000, 200000));
    } else {
        node_step_clock(node, kind == FAULT_KIND_CLOCK_BACK ? -span_ns : span_ns);
    }
}

static void strike(struct world *w, enum sim_fault kind)
{
    struct node *node = w->nodes[rng_below(&w->rng, w->options.shards_n)];
    int64_t span_ns = rng_between(&w->rng, 1, 20000) * NS_PER_MS;

    fault_count(w, kind);
    sim_say(w, SIM_LOG_SHORT, "nemesis", "%s shard %u", sim_fault_name(kind), node_shard(node));
    if (kind == FAULT_KIND_KILL) {
        node_crash(node, "killed");
    } else if (kind == FAULT_KIND_KILL_ALL) {
        for (uint32_t i = 0; i < w->options.shards_n; i++) node_crash(w->nodes[i], "power loss");
    } else if (kind == FAULT_KIND_KILL_IN_COMMIT) {
        node_kill_in_commit(node);
    } else if (kind == FAULT_KIND_DISK_FULL) {
        node_fill_disk(node, span_ns);
    } else if (kind == FAULT_KIND_PAUSE) {
        node_pause(node, span_ns);
    } else if (kind == FAULT_KIND_NETWORK_CUT) {
        node_cut(node, span_ns);
    } else if (kind == FAULT_KIND_WORKER_CRASH) {
        fleet_crash_one(w->fleet);
    } else if (kind == FAULT_KIND_STREAM_CUT) {
        fleet_cut_one(w->fleet);
    } else if (kind == FAULT_KIND_READER_DEAF) {
        links_deafen_one(w, 3 * span_ns);
    } else if (kind == FAULT_KIND_SERVER_DRAIN) {
        front_drain(w->front);
    } else {
        clock_blow(w, node, kind);
    }
}

static void on_moment(struct moment *m)
{
    struct nemesis *n = container_of(m, struct nemesis, moment);
    struct world *w = n->w;
    uint64_t total = 0;

    for (size_t i = 0; i < BLOWS_N; i++) total += w->options.fault_rate[blows[i]];
    if (total == 0) return;
    strike(w, draw(w, total));
    moment_after(w, &n->moment, chance_span(&w->rng, w->options.blow_ms) * NS_PER_MS);
}

struct nemesis *nemesis_new(struct world *w)
{
    struct nemesis *n = mem_take_zero(mem_process(), sizeof *n);

    assert(n != NULL);
    n->w = w;
    moment_init(&n->moment, on_moment);
    return n;
}

void nemesis_free(struct nemesis *n)
{
    moment_cancel(n->w, &n->moment);
    mem_give(mem_process(), n, sizeof *n);
}

void nemesis_start(struct nemesis *n)
{
    moment_after(n->w, &n->moment, chance_span(&n->w->rng, n->w->options.blow_ms) * NS_PER_MS);
}

void nemesis_heal(struct nemesis *n) { moment_cancel(n->w, &n->moment); }
