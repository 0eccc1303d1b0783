/* SPDX-License-Identifier: Apache-2.0
 *
 * The host's environment: clocks that the nemesis sets, random numbers of the seed, and lanes of
 * jobs. A job waits for its turn in the lane, runs in one instant and is reported a little later;
 * between the two the process may end, and then what it did is durable and nobody knows.
 */
#include "test/sim/sim_node.h"

#include "base/assert.h"

static struct node *node_of(struct env *env) { return container_of(env, struct node, env); }

static int64_t wall_ns(struct env *env)
{
    struct node *n = node_of(env);
    int64_t passed_ns = n->w->now_ns - n->since_ns;

    return n->wall_base_ns + passed_ns + passed_ns / 1000000 * n->drift_ppm;
}

static int64_t mono_ns(struct env *env)
{
    return node_of(env)->w->now_ns + NS_PER_S; /* a machine is up for a while before */
}

static void fill_random(struct env *env, void *ptr, size_t len)
{
    rng_fill(&node_of(env)->env_rng, ptr, len);
}

static int64_t job_span_ns(struct node *n, enum env_lane kind)
{
    struct world *w = n->w;

    if (kind == LANE_COMMIT) {
        if (fault_hits(w, FAULT_KIND_SLOW_IO)) return rng_between(&w->rng, 100, 10000) * NS_PER_MS;
        return chance_span(&w->rng, w->options.commit_us) * 1000;
    }
    if (fault_hits(w, FAULT_KIND_ARCHIVE_SLOW)) return rng_between(&w->rng, 1, 60) * NS_PER_S;
    return chance_span(&w->rng, kind == LANE_READ ? 300 : 3000) * 1000;
}

static void lane_next(struct lane *lane)
{
    lane->is_run = false;
    if (!list_is_empty(&lane->jobs)) {
        moment_after(lane->node->w, &lane->moment, job_span_ns(lane->node, lane->kind));
    }
}

/* Runs the job; false when the process did not survive it. */
static bool lane_run(struct lane *lane, struct job *job)
{
    struct node *n = lane->node;

    if (lane->kind == LANE_COMMIT && n->kill_in_commit) {
        n->kill_in_commit = false;
        disk_gone_at(n->disk, 1 + rng_below(&n->w->rng, 6));
    }
    job->run(job);
    if (disk_is_gone(n->disk)) {
        node_crash(n, "killed inside a commit");
        return false;
    }
    disk_gone_at(n->disk, 0);
    return true;
}

static void on_lane(struct moment *m)
{
    struct lane *lane = container_of(m, struct lane, moment);
    struct node *n = lane->node;
    struct job *job = container_of(list_first(&lane->jobs), struct job, node);

    if (n->paused_until_ns > n->w->now_ns) { /* no thread of a stopped process runs */
        moment_after(n->w, m, n->paused_until_ns - n->w->now_ns);
        return;
    }
    if (!lane->is_run) {
        if (!lane_run(lane, job)) return;
        lane->is_run = true;
        moment_after(n->w, m, chance_span(&n->w->rng, 20) * 1000);
        return;
    }
    list_remove(&job->node);
    lane_next(lane);
    n->w->running = n;
    job->done(job);
    n->w->running = NULL;
    node_wake(n);
}

static void submit(struct env *env, enum env_lane kind, struct job *job)
{
    struct lane *lane = &node_of(env)->lanes[kind];
    bool was_idle = list_is_empty(&lane->jobs);

    list_node_init(&job->node);
    list_push_back(&lane->jobs, &job->node);
    if (was_idle) lane_next(lane);
}

static void fatal(struct env *env, enum status status, const char *what)
{
    struct node *n = node_of(env);

    /* In production this call does not return. Here it must, and whatever the host still does in
     * this turn is not seen by anybody: calls and streams look at is_ending. */
    sim_say(n->w, SIM_LOG_SHORT, n->name, "fatal: %s (%s)", what, status_name(status));
    bool is_no_memory = status == E_NOMEM && n->w->options.fault_rate[FAULT_KIND_NO_MEMORY] != 0;
    if (!disk_has_failed(n->disk) && !is_no_memory) {
        sim_fail(n->w, "S2 fatal", "the host of shard %u gave up (%s: %s) on a healthy disk",
                 n->shard, what, status_name(status));
    }
    n->is_ending = true;
    node_wake(n);
}

static const struct env_ops sim_env_ops = {
    .wall_ns = wall_ns,
    .mono_ns = mono_ns,
    .random = fill_random,
    .submit = submit,
    .fatal = fatal,
};

void env_init(struct node *n)
{
    n->env.ops = &sim_env_ops;
    for (int i = 0; i < LANES_N; i++) {
        struct lane *lane = &n->lanes[i];
        lane->node = n;
        lane->kind = (enum env_lane)i;
        lane->is_run = false;
        list_init(&lane->jobs);
        moment_init(&lane->moment, on_lane);
    }
}

void env_drop_jobs(struct node *n)
{
    for (int i = 0; i < LANES_N; i++) {
        struct lane *lane = &n->lanes[i];
        moment_cancel(n->w, &lane->moment);
        while (list_pop_front(&lane->jobs) != NULL) continue;
        lane->is_run = false;
    }
}

bool env_is_idle(const struct node *n)
{
    for (int i = 0; i < LANES_N; i++) {
        if (!list_is_empty(&n->lanes[i].jobs)) return false;
    }
    return true;
}
