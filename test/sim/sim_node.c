/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of a shard's process: recovery, turns, and every way to end.
 */
#include "test/sim/sim_node.h"

#include "base/assert.h"
#include "test/sim/sim_check.h"
#include "test/sim/sim_front.h"
#include "test/sim/sim_network.h"
#include "test/sim/sim_worker.h"

#include <stdio.h>

#define WALL_START_NS (INT64_C(1750000000) * NS_PER_S)
#define TURN_MIN_NS INT64_C(1000)

uint32_t node_shard(const struct node *n) { return n->shard; }

struct mem *node_running_mem(struct world *w)
{
    return w->running == NULL ? NULL : &w->running->mem;
}

struct node *node_of_key(struct world *w, struct bytes key)
{
    return w->nodes[partition_of(key, w->options.partitions_n) % w->options.shards_n];
}

/* ---- turns ---- */

void node_wake(struct node *n)
{
    int64_t at_ns = n->w->now_ns + TURN_MIN_NS;

    if (!n->is_up) return;
    if (moment_is_set(&n->turn) && n->turn.node.key <= at_ns) return;
    moment_after(n->w, &n->turn, TURN_MIN_NS);
}

static void on_turn(struct moment *m)
{
    struct node *n = container_of(m, struct node, turn);
    struct world *w = n->w;

    if (n->paused_until_ns > w->now_ns && !n->is_ending) {
        moment_after(w, m, n->paused_until_ns - w->now_ns);
        return;
    }
    int64_t wait_ns = INT64_MAX;
    if (!n->is_ending) {
        w->running = n;
        wait_ns = host_turn(n->host);
        w->running = NULL;
    }
    if (n->is_ending) {
        node_crash(n, "stopped by a failed disk");
        return;
    }
    if (wait_ns == INT64_MAX || moment_is_set(m)) return;
    moment_after(w, m, wait_ns < TURN_MIN_NS ? TURN_MIN_NS : wait_ns);
}

/* ---- a process begins ---- */

static void restart_later(struct node *n)
{
    int64_t span_ms = n->w->is_healed ? 100 : rng_between(&n->w->rng, 1, 2000);

    moment_after(n->w, &n->restart, span_ms * NS_PER_MS);
}

static void fill_options(struct node *n, struct host_options *out)
{
    const struct sim_options *o = &n->w->options;

    host_options_init(out);
    out->partitions_n = o->partitions_n;
    out->shard = n->shard;
    out->shards_n = o->shards_n;
    out->mac_key[0] = o->seed;
    out->mac_key[1] = 1;
    out->mem = &n->mem;
    out->policy = check_policy;
    out->send = o->shards_n > 1 ? network_message : NULL;
    out->user = n;
    out->hot_bytes_max = (size_t)o->hot_bytes_max;
    out->batch_bytes_max = (size_t)o->batch_bytes_max;
    out->idle_evict_ms = o->idle_evict_ms;
    out->archive_every_ms = o->archive_every_ms;
    out->archive_batch_n = (size_t)o->archive_batch_n;
    out->horizon_ms = o->horizon_ms;
    out->resend_ms = o->resend_ms;
    out->check_every_step = o->check_every_step;
    out->active_max = o->active_max;
    out->active_max_by_name = o->active_max_by_name;
    out->rate_by_name = o->rate_by_name;
    out->backlog_n_max = o->backlog_n_max;
    out->carry_size_min = o->carry_size_min;
    out->backlog_hash_mask = o->backlog_hash_mask;
    out->disk_free_min = 1;
}

/* Opens the store and hands it to the host; both are gone when this is not OK. */
static enum status process_open(struct node *n, char *damage)
{
    struct journal_file_options journal_options = {
        .directory = "journal", .segment_size = n->w->options.segment_size, .mem = &n->journal_mem};
    struct host_options options;
    struct journal *journal = NULL;
    struct archive *archive = NULL;

    enum status status = journal_file_open(disk_io(n->disk), &journal_options, &journal);
    if (status != OK) return status;
    status = archive_mem_open(n->archive_store, &archive);
    assert(status == OK);
    n->archive = sim_archive_new(n, archive);
    fill_options(n, &options);
    return host_open(&n->env, sim_journal_new(n, journal), n->archive, &options, damage, &n->host);
}

static void process_start(struct node *n)
{
    char damage[400] = "";
    struct world *w = n->w;

    assert(!n->is_up);
    n->incarnation++;
    n->is_ending = false;
    n->kill_in_commit = false;
    n->paused_until_ns = 0;
    mem_init(&n->mem, SIZE_MAX);
    mem_init(&n->journal_mem, SIZE_MAX);
    bool is_doomed = n->incarnation > 1 && fault_hits(w, FAULT_KIND_KILL_IN_RECOVERY);
    if (is_doomed) disk_gone_at(n->disk, 1 + rng_below(&w->rng, 40));
    disk_set_recovering(n->disk, true);
    enum status status = process_open(n, damage);
    disk_set_recovering(n->disk, false);
    disk_gone_at(n->disk, 0);
    if (status != OK || disk_is_gone(n->disk) || n->is_ending) {
        bool is_explained =
            disk_is_gone(n->disk) || disk_has_failed(n->disk) || disk_is_full(n->disk);
        if (!is_explained) {
            sim_fail(w, "S2 open", "shard %u does not start: %s %s", n->shard, status_name(status),
                     damage);
        }
        sim_say(w, SIM_LOG_SHORT, n->name, "does not start: %s %s", status_name(status), damage);
        n->is_up = status == OK;
        if (n->is_up) {
            node_crash(n, "killed in recovery");
            return;
        }
        w->crashes_n++;
        env_drop_jobs(n);
        mem_release(&n->mem);
        mem_release(&n->journal_mem);
        disk_set_gone(n->disk);
        disk_restart(n->disk);
        restart_later(n);
        return;
    }
    n->is_up = true;
    sim_say(w, SIM_LOG_SHORT, n->name, "up, process %u, LSN %llu", n->incarnation,
            (unsigned long long)shadow_lsn(n->shadow));
    /* Read faults are off outside is_up only; the comparison must see the archive as it is. */
    n->is_up = false;
    shadow_compare(n->shadow, n->host, n->archive);
    n->is_up = true;
    node_wake(n);
    fleet_node_up(w->fleet, n);
    front_node_up(w->front);
}

static void on_restart(struct moment *m) { process_start(container_of(m, struct node, restart)); }

/* ---- a process ends ---- */

static void stats_keep(struct node *n)
{
    struct host_stats stats;

    host_stats(n->host, &stats);
    n->dead_stats.evicted += stats.evicted;
    if (n->w->options.fault_rate[FAULT_KIND_TINY_MEMORY] != 0) {
        n->w->faults_n[FAULT_KIND_TINY_MEMORY] += stats.evicted;
    }
    n->dead_stats.loaded += stats.loaded;
    n->dead_stats.deferred += stats.deferred;
    n->dead_stats.admitted += stats.admitted;
    n->dead_stats.carried += stats.carried;
    n->dead_stats.core.stale_answers += stats.core.stale_answers;
    n->dead_stats.core.late_answers += stats.core.late_answers;
    n->dead_stats.core.duplicate_messages += stats.core.duplicate_messages;
    n->dead_stats.core.dropped_messages += stats.core.dropped_messages;
}

static void process_end(struct node *n)
{
    stats_keep(n);
    n->is_up = false;
    moment_cancel(n->w, &n->turn);
    env_drop_jobs(n);
    disk_set_gone(n->disk); /* before host_close(): nothing it does may reach the disk */
    host_close(n->host);
    n->host = NULL;
    network_node_gone(n);
    fleet_node_gone(n->w->fleet, n);
    mem_release(&n->mem);
    mem_release(&n->journal_mem);
}

static void node_end(struct node *n, const char *why)
{
    sim_say(n->w, SIM_LOG_SHORT, n->name, "%s", why);
    process_end(n);
    disk_restart(n->disk);
    restart_later(n);
}

void node_crash(struct node *n, const char *why)
{
    if (!n->is_up) return;
    assert(n->w->running == NULL);
    n->w->crashes_n++;
    if (!front_crash(n->w->front)) {
        node_end(n, why);
        return;
    }
    /* one process has them all */
    for (uint32_t i = 0; i < n->w->options.shards_n; i++) {
        if (n->w->nodes[i]->is_up) node_end(n->w->nodes[i], why);
    }
    front_put_away(n->w->front);
}

void node_stop(struct node *n)
{
    moment_cancel(n->w, &n->restart);
    moment_cancel(n->w, &n->disk_emptied);
    if (n->is_up) process_end(n);
}

/* ---- what the nemesis does ---- */

void node_kill_in_commit(struct node *n) { n->kill_in_commit = n->is_up; }
void node_pause(struct node *n, int64_t span_ns) { n->paused_until_ns = n->w->now_ns + span_ns; }
void node_cut(struct node *n, int64_t span_ns) { n->cut_until_ns = n->w->now_ns + span_ns; }
bool node_is_cut(const struct node *n) { return n->cut_until_ns > n->w->now_ns; }

static void on_disk_emptied(struct moment *m)
{
    struct node *n = container_of(m, struct node, disk_emptied);

    disk_set_full(n->disk, false);
    node_wake(n);
}

void node_fill_disk(struct node *n, int64_t span_ns)
{
    disk_set_full(n->disk, true);
    moment_after(n->w, &n->disk_emptied, span_ns);
}

static void clock_rebase(struct node *n)
{
    n->wall_base_ns = n->env.ops->wall_ns(&n->env);
    n->since_ns = n->w->now_ns;
}

void node_step_clock(struct node *n, int64_t by_ns)
{
    clock_rebase(n);
    n->wall_base_ns += by_ns;
}

void node_set_drift(struct node *n, int64_t ppm)
{
    clock_rebase(n);
    n->drift_ppm = ppm;
}

void node_heal(struct node *n)
{
    clock_rebase(n);
    n->drift_ppm = 0;
    n->cut_until_ns = 0;
    n->kill_in_commit = false;
    n->paused_until_ns = 0;
    disk_set_full(n->disk, false);
    moment_cancel(n->w, &n->disk_emptied);
    if (moment_is_set(&n->restart)) moment_after(n->w, &n->restart, NS_PER_MS);
    node_wake(n);
}

/* ---- the end of the run ---- */

bool node_is_quiet(struct node *n)
{
    bool has_turn = moment_is_set(&n->turn) && n->turn.node.key <= n->w->now_ns + TURN_MIN_NS;

    return n->is_up && !n->is_ending && env_is_idle(n) && list_is_empty(&n->calls) && !has_turn;
}

void node_check_end(struct node *n)
{
    host_check(n->host);
    shadow_compare(n->shadow, n->host, n->archive);
    if (shadow_waiting_n(n->shadow) > 0) {
        sim_fail(n->w, "L11 admission", "shard %u: %llu starts are never admitted", n->shard,
                 (unsigned long long)shadow_waiting_n(n->shadow));
    }
    check_all_views(n);
    /* And once more from the disk alone. */
    process_end(n);
    disk_restart(n->disk);
    process_start(n);
    if (!n->is_up)
        sim_fail(n->w, "L10 restart", "shard %u does not start on a healed disk", n->shard);
    check_all_views(n);
}

struct node *node_new(struct world *w, uint32_t shard)
{
    struct node *n = mem_take_zero(mem_process(), sizeof *n);

    assert(n != NULL);
    n->w = w;
    n->shard = shard;
    (void)snprintf(n->name, sizeof n->name, "shard %u", shard);
    n->disk = disk_new(w);
    mem_init(&n->store_memory, SIZE_MAX);
    enum status status = store_mem_new(&n->store_memory, &n->archive_store);
    assert(status == OK);
    n->shadow = shadow_new(w, shard);
    n->wall_base_ns = WALL_START_NS;
    rng_init(&n->env_rng, w->options.seed ^ (shard + 77));
    env_init(n);
    list_init(&n->calls);
    moment_init(&n->turn, on_turn);
    moment_init(&n->restart, on_restart);
    moment_init(&n->disk_emptied, on_disk_emptied);
    return n;
}

void node_start(struct node *n) { process_start(n); }

void node_free(struct node *n)
{
    assert(!n->is_up);
    shadow_free(n->shadow);
    store_mem_free(n->archive_store);
    mem_release(&n->store_memory);
    disk_free(n->disk);
    mem_give(mem_process(), n, sizeof *n);
}
