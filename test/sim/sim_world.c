/* SPDX-License-Identifier: Apache-2.0
 *
 * Time, chance, the two phases, and how a run ends.
 */
#include "test/sim/sim_world.h"

#include "base/assert.h"
#include "base/mem.h"
#include "test/sim/sim_client.h"
#include "test/sim/sim_entity.h"
#include "test/sim/sim_feed.h"
#include "test/sim/sim_front.h"
#include "test/sim/sim_import.h"
#include "test/sim/sim_link.h"
#include "test/sim/sim_nemesis.h"
#include "test/sim/sim_network.h"
#include "test/sim/sim_node.h"
#include "test/sim/sim_reply.h"
#include "test/sim/sim_worker.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* Phase 2 ends when all is quiet. A run that is not quiet by then hangs; one that makes that
 * many moments spins. The longest timers of the programs are days. */
#define HEAL_MS_MAX (INT64_C(10) * 24 * 3600 * 1000)
#define MOMENTS_MAX UINT64_C(200000000)

struct world *sim_current;

const char *sim_fault_name(enum sim_fault kind)
{
    static const char *const names[] = {
#define X(fault, name, rate, text) name,
        SIM_FAULTS(X)
#undef X
    };
    return names[kind];
}

/* ---- options ---- */

static int64_t pick(struct rng *rng, const int64_t *values, size_t n)
{
    return values[rng_below(rng, n)];
}
#define PICK(rng, ...)                                                                             \
    pick(rng, (const int64_t[]){__VA_ARGS__}, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

static void draw_faults(struct sim_options *o, struct rng *rng)
{
    static const uint32_t rate_max[] = {
#define X(kind, name, rate, text) rate,
        SIM_FAULTS(X)
#undef X
    };
    /* Swarm: how many of the faults are on is drawn first, so that some runs see one kind alone. */
    uint32_t share = (uint32_t)PICK(rng, 0, 100, 250, 500, 500, 750, 1000);

    for (int i = 0; i < SIM_FAULTS_N; i++) {
        bool is_on = rng_chance(rng, share);
        uint32_t rate = 1 + (uint32_t)rng_below(rng, rate_max[i]);
        o->fault_rate[i] = is_on ? rate : 0;
    }
    if (o->shards_n == 1) {
        o->fault_rate[FAULT_KIND_MESSAGE_LOST] = 0;
        o->fault_rate[FAULT_KIND_MESSAGE_DUPLICATED] = 0;
        o->fault_rate[FAULT_KIND_MESSAGE_REORDERED] = 0;
    }
}

/* By a source of its own, so that what is drawn above stays what it is. */
static void draw_wire(struct sim_options *o, bool is_calm)
{
    struct rng rng;

    rng_init(&rng, o->seed ^ UINT64_C(0x77697265));
    o->wire_share = (uint32_t)PICK(&rng, 0, 500, 500, 1000);
    o->piece_size_max = (uint64_t)PICK(&rng, 50, 300, 1500, 65536);
    o->grace_ms = PICK(&rng, 100, 1000, 5000);
    o->queue_size = (uint64_t)PICK(&rng, 4 << 10, 32 << 10, 256 << 10);
    o->history_size_max = (uint64_t)PICK(&rng, 100, 1000, 1 << 20);
    o->errands_n_max = (uint64_t)PICK(&rng, 24, 200, 100000);
    o->ping_ms = PICK(&rng, 2000, 10000, 30000);
    /* Days of silence would be spent with pings. */
    if (o->timer_ms_max > 60000) o->ping_ms = 600000;
    if (o->wire_share > 0 && !is_calm) return;
    for (int i = FAULT_KIND_LINK_RESET; i <= FAULT_KIND_SERVER_DRAIN; i++) o->fault_rate[i] = 0;
}

/* In half of the seeds most starts wait. Of its own chance, so that the rest of a seed stays. */
static void draw_backlog(struct sim_options *o)
{
    struct rng rng;

    rng_init(&rng, o->seed ^ UINT64_C(0x6261636b6c6f67));
    o->active_max = 20000;
    o->active_max_by_name = 10000;
    o->backlog_n_max = 2000000;
    o->carry_size_min = (uint64_t)256 << 20;
    if (rng_chance(&rng, 500)) return;
    o->active_max = (uint32_t)PICK(&rng, 1, 3, 10, 50);
    o->active_max_by_name = (uint32_t)PICK(&rng, 1, 2, 10);
    o->rate_by_name = (uint32_t)PICK(&rng, 0, 0, 20, 200);
    o->backlog_n_max = (uint64_t)PICK(&rng, 5, 50, 2000000, 2000000);
    o->carry_size_min = (uint64_t)PICK(&rng, 0, 2 << 10, 64 << 10);
    o->backlog_hash_mask = (uint64_t)PICK(&rng, 0, 0, 3, 255);
}

/* What comes from elsewhere and what goes there. Of its own chance too. */
static void draw_elsewhere(struct sim_options *o)
{
    struct rng rng;

    rng_init(&rng, o->seed ^ UINT64_C(0x656c736577686572));
    o->feeds_n = (uint32_t)PICK(&rng, 0, 1, 2, 3);
    o->feed_messages_max = (uint32_t)PICK(&rng, 20, 100, 400);
    o->feed_ms = PICK(&rng, 5, 50, 500);
    o->import_ms = PICK(&rng, 0, 100, 1000);
    o->reply_share = (uint32_t)PICK(&rng, 0, 50, 300);
}

void sim_options_draw(struct sim_options *o, uint64_t seed, int64_t load_ms, bool is_calm)
{
    struct rng rng;

    rng_init(&rng, seed ^ UINT64_C(0x6f7074696f6e73));
    *o = (struct sim_options){.seed = seed, .load_ms = load_ms};
    o->shards_n = (uint32_t)PICK(&rng, 1, 1, 2);
    o->partitions_n = (uint32_t)PICK(&rng, 1, 2, 4, 8);
    if (o->partitions_n < o->shards_n) o->partitions_n = o->shards_n;
    o->hubs_n = (uint32_t)PICK(&rng, 1, 1, 2);
    o->clients_n = (uint32_t)rng_between(&rng, 1, CLIENTS_MAX);
    o->workers_n = (uint32_t)rng_between(&rng, 1, WORKERS_MAX);
    if (o->workers_n < o->hubs_n) o->workers_n = o->hubs_n;
    o->subjects_max = (uint32_t)PICK(&rng, 10, 60, 200, 400);
    o->think_ms = PICK(&rng, 1, 5, 20, 100);
    o->blow_ms = PICK(&rng, 200, 500, 2000, 5000);
    o->disturb_rate = (uint32_t)PICK(&rng, 0, 20, 100, 300);
    o->segment_size = (uint64_t)PICK(&rng, 8 << 10, 32 << 10, 128 << 10, 1 << 20);
    o->batch_bytes_max = (uint64_t)PICK(&rng, 1 << 10, 16 << 10, 4 << 20);
    o->idle_evict_ms = PICK(&rng, 10, 500, 10000, 600000);
    o->archive_every_ms = PICK(&rng, 50, 200, 2000);
    o->archive_batch_n = (uint64_t)PICK(&rng, 1, 8, 100, 1000);
    o->horizon_ms = PICK(&rng, 5000, 60000, 600000);
    o->resend_ms = PICK(&rng, 50, 500, 5000);
    o->commit_us = PICK(&rng, 50, 500, 3000, 20000);
    o->network_us = PICK(&rng, 50, 500, 5000);
    o->work_us = PICK(&rng, 100, 2000, 20000);
    o->timer_ms_max = PICK(&rng, 5000, 60000, INT64_C(72) * 3600 * 1000);
    /* A host that looks for sleepers every few seconds, for days, would spend the run with that. */
    if (o->timer_ms_max > 60000) o->horizon_ms = 600000;
    o->hot_workers = (uint32_t)PICK(&rng, 0, 500, 1000);
    o->check_every_step = rng_chance(&rng, 100);
    draw_faults(o, &rng);
    if (is_calm) {
        for (int i = 0; i < SIM_FAULTS_N; i++) o->fault_rate[i] = 0;
    }
    o->hot_bytes_max = (uint64_t)32 << 20;
    if (o->fault_rate[FAULT_KIND_TINY_MEMORY] != 0) {
        /* Beside what the partitions need themselves, room for a few dozen instances. */
        o->hot_bytes_max = (uint64_t)PICK(&rng, 300 << 10, 500 << 10, 1 << 20);
        o->hot_bytes_max += (uint64_t)o->partitions_n * (100 << 10);
    }
    draw_wire(o, is_calm);
    draw_backlog(o);
    draw_elsewhere(o);
}

void sim_options_print(const struct sim_options *o)
{
    printf("seed=%llu load_ms=%lld shards=%u partitions=%u hubs=%u clients=%u workers=%u "
           "subjects=%u think_ms=%lld blow_ms=%lld disturb=%u segment=%llu hot_bytes=%llu "
           "batch_bytes=%llu idle_evict_ms=%lld archive_every_ms=%lld archive_batch=%llu "
           "horizon_ms=%lld resend_ms=%lld commit_us=%lld network_us=%lld work_us=%lld "
           "timer_ms_max=%lld hot_workers=%u check_every_step=%d active=%u by_name=%u rate=%u "
           "backlog=%llu carry=%llu hash_mask=%llx\n",
           (unsigned long long)o->seed, (long long)o->load_ms, o->shards_n, o->partitions_n,
           o->hubs_n, o->clients_n, o->workers_n, o->subjects_max, (long long)o->think_ms,
           (long long)o->blow_ms, o->disturb_rate, (unsigned long long)o->segment_size,
           (unsigned long long)o->hot_bytes_max, (unsigned long long)o->batch_bytes_max,
           (long long)o->idle_evict_ms, (long long)o->archive_every_ms,
           (unsigned long long)o->archive_batch_n, (long long)o->horizon_ms,
           (long long)o->resend_ms, (long long)o->commit_us, (long long)o->network_us,
           (long long)o->work_us, (long long)o->timer_ms_max, o->hot_workers, o->check_every_step,
           o->active_max, o->active_max_by_name, o->rate_by_name,
           (unsigned long long)o->backlog_n_max, (unsigned long long)o->carry_size_min,
           (unsigned long long)o->backlog_hash_mask);
    printf("wire_share=%u piece_size=%llu ping_ms=%lld grace_ms=%lld queue_size=%llu "
           "history_size=%llu errands=%llu\n",
           o->wire_share, (unsigned long long)o->piece_size_max, (long long)o->ping_ms,
           (long long)o->grace_ms, (unsigned long long)o->queue_size,
           (unsigned long long)o->history_size_max, (unsigned long long)o->errands_n_max);
    printf("feeds=%u feed_messages=%u feed_ms=%lld import_ms=%lld reply_share=%u\n", o->feeds_n,
           o->feed_messages_max, (long long)o->feed_ms, (long long)o->import_ms, o->reply_share);
    printf("faults:");
    for (int i = 0; i < SIM_FAULTS_N; i++) {
        if (o->fault_rate[i] != 0) {
            printf(" %s=%u", sim_fault_name((enum sim_fault)i), o->fault_rate[i]);
        }
    }
    printf("\n");
}

/* ---- time and chance ---- */

void moment_init(struct moment *m, moment_fn *fn)
{
    heap_node_init(&m->node);
    m->fn = fn;
}

void moment_after(struct world *w, struct moment *m, int64_t delay_ns)
{
    assert(delay_ns >= 0);
    moment_cancel(w, m);
    m->node.key = w->now_ns + delay_ns;
    m->node.order = ++w->order;
    heap_push(&w->moments, &m->node);
}

void moment_cancel(struct world *w, struct moment *m)
{
    if (m->node.is_linked) heap_remove(&w->moments, &m->node);
}

void fault_count(struct world *w, enum sim_fault kind) { w->faults_n[kind]++; }

bool fault_hits(struct world *w, enum sim_fault kind)
{
    uint32_t rate = w->options.fault_rate[kind];

    if (rate == 0 || w->is_healed) return false;
    if (rng_below(&w->rng, 1000000) >= rate) return false;
    fault_count(w, kind);
    return true;
}

int64_t chance_span(struct rng *rng, int64_t mean)
{
    /* Mostly uniform around the mean; one in 64 is a straggler. */
    int64_t span = rng_between(rng, 1, 2 * mean + 1);

    return rng_below(rng, 64) == 0 ? span * 20 : span;
}

/* ---- how a run ends ---- */

_Noreturn void sim_fail(struct world *w, const char *invariant, const char *format, ...)
{
    char what[512];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(what, sizeof what, format, args);
    va_end(args);
    printf("FAIL %s seed=%llu tick=%llu time=%.6f %s : make sim SEED=%llu SECONDS=%lld\n",
           invariant, (unsigned long long)w->options.seed, (unsigned long long)w->moments_n,
           (double)w->now_ns / 1e9, what, (unsigned long long)w->options.seed,
           (long long)(w->options.load_ms / 1000));
    (void)fflush(stdout);
    _Exit(invariant[0] == 'L'   ? SIM_EXIT_LIVENESS
          : invariant[0] == 'B' ? SIM_EXIT_BUDGET
                                : SIM_EXIT_SAFETY);
}

void sim_say(struct world *w, enum sim_log level, const char *who, const char *format, ...)
{
    va_list args;

    if (w->log < level) return;
    printf("%14.6f %-10s ", (double)w->now_ns / 1e9, who);
    va_start(args, format);
    (void)vprintf(format, args);
    va_end(args);
    printf("\n");
}

/* ---- the run ---- */

struct world *world_new(const struct sim_options *options, enum sim_log log)
{
    struct world *w = mem_take_zero(mem_process(), sizeof *w);

    assert(w != NULL);
    w->options = *options;
    w->log = log;
    rng_init(&w->rng, options->seed);
    heap_init(&w->moments);
    list_init(&w->calls);
    list_init(&w->links);
    sim_current = w;
    for (uint32_t i = 0; i < options->shards_n; i++) w->nodes[i] = node_new(w, i);
    if (options->wire_share > 0) w->front = front_new(w);
    w->fleet = fleet_new(w);
    w->crowd = crowd_new(w);
    w->ledger = ledger_new(w);
    w->feeds = feeds_new(w);
    w->mover = mover_new(w);
    w->receiver = receiver_new(w);
    w->nemesis = nemesis_new(w);
    return w;
}

void world_free(struct world *w)
{
    nemesis_free(w->nemesis);
    bool has_front = front_crash(w->front);
    links_free(w);
    for (uint32_t i = 0; i < w->options.shards_n; i++) node_stop(w->nodes[i]);
    if (has_front) front_put_away(w->front);
    network_free(w);
    crowd_free(w->crowd);
    ledger_free(w->ledger);
    feeds_free(w->feeds);
    mover_free(w->mover);
    receiver_free(w->receiver);
    fleet_free(w->fleet);
    for (uint32_t i = 0; i < w->options.shards_n; i++) node_free(w->nodes[i]);
    front_free(w->front);
    sim_current = NULL;
    mem_give(mem_process(), w, sizeof *w);
}

/* Moments until `end_ns`, or until is_over() says so. */
static void run_until(struct world *w, int64_t end_ns, bool (*is_over)(struct world *))
{
    while (is_over == NULL || !is_over(w)) {
        struct heap_node *min = heap_min(&w->moments);
        if (min == NULL || min->key > end_ns) break;
        (void)heap_pop(&w->moments);
        assert(min->key >= w->now_ns);
        w->now_ns = min->key;
        if (++w->moments_n > MOMENTS_MAX) sim_fail(w, "BUDGET", "too many moments");
        struct moment *m = container_of(min, struct moment, node);
        m->fn(m);
    }
}

static bool is_finished(struct world *w) { return crowd_is_finished(w->crowd); }

/* Every shard up, nothing being made durable, nothing on its way. */
static bool is_quiet(struct world *w)
{
    for (uint32_t i = 0; i < w->options.shards_n; i++) {
        if (!node_is_quiet(w->nodes[i])) return false;
    }
    return front_is_quiet(w->front);
}

static bool is_stopped(struct world *w) { return front_is_stopped(w->front); }

void world_run(struct world *w)
{
    for (uint32_t i = 0; i < w->options.shards_n; i++) node_start(w->nodes[i]);
    fleet_start(w->fleet);
    crowd_start(w->crowd);
    feeds_start(w->feeds);
    mover_start(w->mover);
    nemesis_start(w->nemesis);
    run_until(w, w->options.load_ms * NS_PER_MS, NULL);
    w->now_ns = w->options.load_ms * NS_PER_MS;

    sim_say(w, SIM_LOG_SHORT, "world", "healed");
    w->is_healed = true;
    nemesis_heal(w->nemesis);
    for (uint32_t i = 0; i < w->options.shards_n; i++) node_heal(w->nodes[i]);
    links_heal(w);
    fleet_heal(w->fleet);
    crowd_drain(w->crowd);
    feeds_drain(w->feeds);
    mover_drain(w->mover);
    int64_t deadline_ns = w->now_ns + HEAL_MS_MAX * NS_PER_MS;
    run_until(w, deadline_ns, is_finished);
    if (!feeds_are_finished(w->feeds)) feeds_report_unfinished(w->feeds);
    if (!mover_is_finished(w->mover)) sim_fail(w, "L1 finish", "an import has no end");
    if (!is_finished(w)) crowd_report_unfinished(w->crowd);
    run_until(w, deadline_ns, is_quiet);
    if (!front_is_quiet(w->front)) front_report(w->front);
    if (!is_quiet(w)) sim_fail(w, "L1 quiet", "a shard does not come to rest");
    front_check_rest(w->front);
    front_stop(w->front);
    run_until(w, INT64_MAX, is_stopped);
    crowd_check_end(w->crowd);
    ledger_check_end(w->ledger);
    feeds_check_end(w->feeds);
    mover_check_end(w->mover);
    receiver_check_end(w->receiver);
    for (uint32_t i = 0; i < w->options.shards_n; i++) node_check_end(w->nodes[i]);
}
