/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of a host and its turn. Everything that happens, happens in host_turn(), in one order:
 * what has been done elsewhere, what was asked, what is due; then the frame, the archive, the
 * answers.
 */
#include "core/limits.h"
#include "host/rows.h"
#include "host/state.h"

#define RELEASES_N_MAX                                                                             \
    64u /* batches without records that one turn releases; the next one goes on */
#define PAUSE_NS (100 * NS_PER_MS) /* at most so long without a look, while paused */
#define RETRY_JITTER_PERCENT 20
#define DAMAGE_SIZE 400 /* as promised in host.h */

void host_options_init(struct host_options *options)
{
    *options = (struct host_options){
        .partitions_n = 32,
        .shards_n = 1,
        .queue_n_max = 100000,
        .hot_bytes_max = (size_t)192 << 20,
        .archive_lag_max = (size_t)256 << 20,
        .batch_bytes_max = (size_t)512 << 10,
        .idle_evict_ms = 10000,
        .archive_every_ms = 500,
        .archive_batch_n = 4096,
        .horizon_ms = 60000,
        .resend_ms = 1000,
        .active_max = 20000,
        .active_max_by_name = 10000,
        .backlog_n_max = 2000000,
        .backlog_size_max = (uint64_t)4 << 30,
        .carry_size_min = (uint64_t)256 << 20,
        .disk_free_min = (uint64_t)256 << 20,
    };
}

uint32_t partition_of(struct bytes key, uint32_t partitions_n)
{
    return (uint32_t)(bytes_hash(key) % partitions_n);
}

size_t host_hot_bytes(const struct host *h)
{
    size_t not_hot = sizeof *h + batch_memory(&h->batches[0]) + batch_memory(&h->batches[1]) +
                     backlog_memory(h->backlog) + h->scratch_size;

    return h->options.mem->used > not_hot ? h->options.mem->used - not_hot : 0;
}

bool host_is_disk_low(const struct host *h)
{
    return h->is_disk_full || !h->has_spare || h->disk_free < h->options.disk_free_min;
}

bool host_is_full(const struct host *h)
{
    return batch_is_full(h->open, h->options.batch_bytes_max);
}

void host_fatal(struct host *h, enum status status, const char *what)
{
    h->is_dead = true;
    h->env->ops->fatal(h->env, status, what);
}

/* ---- purges of many ---- */

/* Behind what was taken already. Its own requests are not counted against the queue: they are few,
 * and who made them waits for them. */
static bool post_within(struct purger *p, struct request *request)
{
    struct host *h = container_of(p, struct host, purger);

    if (h->is_stopping || h->is_dead) return false;
    list_push_back(&h->taken, &request->node);
    return true;
}

static int64_t purger_now_ns(struct purger *p)
{
    return container_of(p, struct host, purger)->now_ns;
}

/* ---- open ---- */

static bool is_served(void *user, struct bytes name)
{
    const struct host *h = user;

    return dispatcher_serves(&h->dispatcher, WORK_TURN, name);
}

static enum status backlog_init(struct host *h)
{
    const struct host_options *o = &h->options;
    struct backlog_options options = {
        .mem = o->mem,
        .partitions_n = o->partitions_n,
        .seed = {h->seed[0], h->seed[1]},
        .active_max = o->active_max,
        .active_max_by_name = o->active_max_by_name,
        .rate_by_name = o->rate_by_name,
        .waiting_max = o->backlog_n_max,
        .size_max = o->backlog_size_max,
        .rules = o->backlog_rules,
        .rules_n = o->backlog_rules_n,
        .is_served = is_served,
        .user = h,
        .hash_mask = o->backlog_hash_mask,
    };
    return backlog_new(&options, &h->backlog);
}

static enum status cores_init(struct host *h)
{
    const struct host_options *o = &h->options;

    h->cores_n = (o->partitions_n - o->shard + o->shards_n - 1) / o->shards_n;
    h->cores = mem_take_zero(&h->own, h->cores_n * sizeof(struct core *));
    if (h->cores == NULL) return E_NOMEM;
    for (uint32_t index = 0; index < h->cores_n; index++) {
        struct core_options options = {
            .partition = host_partition(h, index),
            .partitions_n = o->partitions_n,
            .mem = o->mem,
            .map_seed = {h->seed[0], h->seed[1]},
            .policy = o->policy,
            .policy_user = o->policy_user,
            .jitter_percent = RETRY_JITTER_PERCENT,
            .resend_ms = o->resend_ms,
            .horizon_ms = o->horizon_ms,
            .parked_n_max = (LIMIT_PARKED_N + h->cores_n - 1) / h->cores_n,
            .backlog = h->backlog,
        };
        enum status status = core_new(&options, &h->cores[index]);
        if (status != OK) return status;
    }
    return OK;
}

/* Every part, before anything is read. What fails leaves the rest zeroed, which can be released. */
static enum status parts_init(struct host *h)
{
    filter_init(&h->filter, &h->own);
    waiters_init(&h->waiters, &h->own, h->seed);
    queries_init(h);
    enum status status = loader_init(h);
    if (status == OK) status = admission_init(h);
    if (status == OK) status = backlog_init(h);
    if (status == OK) status = cores_init(h);
    if (status != OK) return status;
    dispatcher_init(&h->dispatcher, &h->own, h->cores_n, h->seed);
    for (int i = 0; i < 2 && status == OK; i++) {
        status = batch_init(&h->batches[i], h->options.mem, &h->own, h->cores_n);
    }
    if (status == OK) status = messages_init(h);
    if (status == OK) status = archiver_init(h);
    return status;
}

static void parts_release(struct host *h)
{
    if (h->dispatcher.mem != NULL) dispatcher_release(&h->dispatcher);
    archiver_release(h);
    queries_release(h);
    loader_release(h);
    messages_release(h);
    waiters_release(&h->waiters);
    filter_release(&h->filter);
    for (int i = 0; i < 2; i++) batch_release(&h->batches[i], &h->own);
    for (uint32_t i = 0; h->cores != NULL && i < h->cores_n; i++) {
        if (h->cores[i] != NULL) core_free(h->cores[i]);
    }
    mem_give(&h->own, h->cores, h->cores_n * sizeof(struct core *));
    if (h->backlog != NULL) backlog_free(h->backlog);
    admission_release(h);
    queue_release(&h->posted);
    hold_release(&h->hold);
}

static void host_free(struct host *h)
{
    struct mem *mem = h->options.mem;

    parts_release(h);
    journal_close(h->journal);
    archive_close(h->archive);
    mem_release(&h->own);
    mem_give(mem, h, sizeof *h);
}

enum status host_open(struct env *env, struct journal *journal, struct archive *archive,
                      const struct host_options *options, char *damage, struct host **out)
{
    assert(options->partitions_n > 0);
    assert(options->shard < options->shards_n);
    assert(options->shards_n <= options->partitions_n);
    assert(options->mem != NULL);
    damage[0] = '\0';
    struct host *h = mem_take_zero(options->mem, sizeof *h);
    if (h == NULL) {
        journal_close(journal);
        archive_close(archive);
        return E_NOMEM;
    }
    h->env = env;
    h->journal = journal;
    h->archive = archive;
    h->options = *options;
    mem_init(&h->own, SIZE_MAX);
    env->ops->random(env, h->seed, sizeof h->seed);
    env->ops->random(env, &h->rng, sizeof h->rng); /* all of its state, not only a seed */
    queue_init(&h->posted, options->queue_n_max);
    hold_init(&h->hold, options->wake, options->user);
    list_init(&h->taken);
    list_init(&h->refused);
    h->purger.post = post_within;
    h->purger.now_ns = purger_now_ns;
    enum status status = parts_init(h);
    if (status == OK) status = recovery_run(h, damage, DAMAGE_SIZE);
    if (status != OK) {
        host_free(h);
        return status;
    }
    *out = h;
    return OK;
}

/* ---- close ---- */

static void answer_closed(struct host *h, struct list *requests)
{
    struct list *node;

    while ((node = list_pop_front(requests)) != NULL) {
        struct request *request = container_of(node, struct request, node);
        if (request->kind == REQUEST_PURGE) purge_give_up(h, request);
        request->status = E_CLOSED;
        request->text[0] = '\0';
        request->view = NULL;
        request->rows = NULL;
        request->rows_n = 0;
        request->why = NULL;
        request->parked = NULL;
        request->parked_n = 0;
        request->done(request);
    }
}

void host_close(struct host *h)
{
    struct list inside;

    list_init(&inside);
    h->is_stopping = true; /* nothing new from inside either */
    queue_close(&h->posted);
    (void)queue_take_all(&h->posted, &h->taken, 0);
    for (int i = 0; i < 2; i++) list_splice_back(&inside, &h->batches[i].replies);
    list_splice_back(&inside, &h->refused);
    list_splice_back(&inside, &h->taken);
    loader_give_up(h, &inside);
    queries_give_up(h, &inside);
    waiters_take_all(&h->waiters, &inside);
    answer_closed(h, &inside);
    host_free(h);
}

void host_stop(struct host *h)
{
    h->is_stopping = true;
    queue_close(&h->posted);
    host_wake(h); /* what was posted quietly is seen now */
}

bool host_is_quiet(const struct host *h)
{
    if (h->is_dead) return true;
    if (!h->is_stopping || !list_is_empty(&h->taken)) return false;
    if (atomic_load(&h->is_wake_pending) || atomic_load(&h->is_wake_owed)) return false;
    /* On a full disk, or without memory, nothing more can be acknowledged: who still waits hears
     * that it is closed. */
    if (h->commit.retry_ns != 0) return !h->loader.is_under_way && admission_is_quiet(h);
    return h->commit.batch == NULL && batch_is_empty(h->open) && loader_is_quiet(h) &&
           queries_is_quiet(h) && archiver_is_quiet(h) && admission_is_quiet(h);
}

/* ---- posting ---- */

/* Only who finds the flag down wakes: one wake for all that is posted until the next take. */
static void wake(struct host *h)
{
    if (!atomic_exchange(&h->is_wake_pending, true) && h->options.wake != NULL) {
        h->options.wake(h->options.user);
    }
}

bool host_post(struct host *h, struct request *request)
{
    if (!queue_push(&h->posted, &request->node)) return false;
    wake(h);
    return true;
}

bool host_post_quietly(struct host *h, struct request *request)
{
    if (!queue_push_hidden(&h->posted, &request->node)) return false;
    atomic_store(&h->is_wake_owed, true);
    return true;
}

void host_wake(struct host *h)
{
    if (!atomic_load(&h->is_wake_owed) || !atomic_exchange(&h->is_wake_owed, false)) return;
    queue_show(&h->posted);
    wake(h);
}

/* ---- the turn ---- */

static void run_requests(struct host *h)
{
    if (list_is_empty(&h->taken) && !host_is_full(h)) {
        /* Before taking: what is posted from now on wakes again. */
        atomic_store(&h->is_wake_pending, false);
        (void)queue_take_all(&h->posted, &h->taken, 0);
    }
    while (!host_is_full(h)) {
        struct list *node = list_pop_front(&h->taken);
        if (node == NULL) return;
        h->requests_n++;
        struct request *request = container_of(node, struct request, node);
        ahead_begin(h);
        request_run(h, request);
        ahead_go_on(h);
        host_dispatch(h); /* at once: the instance that has new work is still in the cache */
    }
}

/* When the next turn is due by itself, in ns from now. */
static int64_t next_turn_ns(const struct host *h)
{
    int64_t at_ns = INT64_MAX;

    if (!host_is_full(h)) {
        if (!list_is_empty(&h->taken) || atomic_load(&h->is_wake_pending)) return 0;
        for (uint32_t i = 0; i < h->cores_n; i++) {
            int64_t wake_ms = core_wake_at_ms(h->cores[i]);
            if (wake_ms < at_ns / NS_PER_MS) at_ns = wake_ms * NS_PER_MS;
        }
        if (at_ns < h->tick_retry_ns) at_ns = h->tick_retry_ns;
    }
    if (h->commit.retry_ns != 0 && h->commit.retry_ns < at_ns) at_ns = h->commit.retry_ns;
    int64_t archiver_ns = archiver_wake_ns(h);
    if (archiver_ns < at_ns) at_ns = archiver_ns;
    int64_t loader_ns = loader_wake_ns(h);
    if (loader_ns < at_ns) at_ns = loader_ns;
    int64_t admission_ns = admission_wake_ns(h);
    if (admission_ns < at_ns) at_ns = admission_ns;
    if (at_ns == INT64_MAX) return INT64_MAX;
    return at_ns > h->now_ns ? at_ns - h->now_ns : 0;
}

static void tell(const struct host *h)
{
    if (h->options.told != NULL) h->options.told(h->options.told_user);
}

struct hold *host_hold(struct host *h) { return &h->hold; }

/* Answers who wants to copy our files. True: nothing may be stepped now. */
static bool is_pausing(struct host *h)
{
    if (hold_phase(&h->hold) == HOLD_NONE) return false;
    hold_watch(&h->hold, h->is_stopping, h->env->ops->mono_ns(h->env));
    enum hold_phase phase = hold_phase(&h->hold);
    if (phase == HOLD_ASKED && archiver_is_still(h)) hold_ready(&h->hold);
    if (phase == HOLD_PAUSING && h->commit.batch == NULL && batch_is_empty(h->open))
        hold_still(&h->hold, h->lsn_durable);
    return phase == HOLD_PAUSING || phase == HOLD_STILL;
}

/* A turn in which nothing is begun: what was stepped becomes durable and is told. */
static int64_t pausing_turn(struct host *h)
{
    for (uint32_t n = 0; n < RELEASES_N_MAX && !h->is_dead; n++) {
        if (!commit_turn(h)) break;
    }
    commit_release_refused(h);
    tell(h);
    if (h->is_dead) return INT64_MAX;
    bool is_still = !is_pausing(h) || hold_phase(&h->hold) == HOLD_STILL;
    /* Who holds us wakes us; what is posted meanwhile waits. */
    return is_still || h->commit.batch != NULL ? PAUSE_NS : 0;
}

int64_t host_turn(struct host *h)
{
    if (h->is_dead) return INT64_MAX;
    h->now_ns =
        clock_advance(&h->clock, h->env->ops->wall_ns(h->env), h->env->ops->mono_ns(h->env));
    commit_finish(h);
    tell(h); /* before the next batch is made */
    if (!h->is_dead && is_pausing(h)) return pausing_turn(h);
    if (!h->is_dead) archiver_finish(h);
    admission_begin(h);
    if (!h->is_dead) loader_finish(h);
    if (!h->is_dead) admission_finish(h);
    if (!h->is_dead) run_requests(h);
    if (!h->is_dead) host_tick(h);
    for (uint32_t n = 0; n < RELEASES_N_MAX && !h->is_dead; n++) {
        host_dispatch(h);
        if (h->is_dead || !commit_turn(h)) break;
    }
    if (!h->is_dead) archiver_turn(h);
    if (!h->is_dead) loader_turn(h);
    if (!h->is_dead) admission_turn(h);
    commit_release_refused(h);
    tell(h);
    return h->is_dead ? INT64_MAX : next_turn_ns(h);
}

/* ---- looking inside ---- */

static void add_core_stats(struct core_stats *sum, const struct core_stats *one)
{
    sum->started += one->started;
    sum->finished += one->finished;
    sum->turns += one->turns;
    sum->tasks_done += one->tasks_done;
    sum->timers_fired += one->timers_fired;
    sum->stale_answers += one->stale_answers;
    sum->late_answers += one->late_answers;
    sum->dropped_messages += one->dropped_messages;
    sum->duplicate_messages += one->duplicate_messages;
    sum->alerts += one->alerts;
}

static void add_gauges(struct core_gauges *sum, const struct core_gauges *one)
{
    sum->pending += one->pending;
    sum->running += one->running;
    sum->entities += one->entities;
    sum->parked += one->parked;
    sum->suspended += one->suspended;
    sum->ended += one->ended;
    sum->purged += one->purged;
    for (int kind = 0; kind < WORK_KINDS_N; kind++) sum->ready[kind] += one->ready[kind];
}

void host_stats(const struct host *h, struct host_stats *out)
{
    *out = (struct host_stats){
        .lsn_durable = h->lsn_durable,
        .lsn_applied = h->lsn_applied,
        .frames = h->frames,
        .frame_bytes = h->frame_bytes,
        .requests = h->requests_n,
        .instances_archived = h->filter.n,
        .evicted = h->archiver.evicted,
        .loaded = h->loader.loaded,
        .mem_used = h->options.mem->used + h->own.used,
        .journal_bytes = h->journal_bytes,
        .is_disk_full = host_is_disk_low(h),
        .disk_free = h->disk_free,
        .active = backlog_active_n(h->backlog),
        .backlog = backlog_n(h->backlog),
        .backlog_size = backlog_size(h->backlog),
        .deferred = backlog_deferred_n(h->backlog),
        .admitted = backlog_admitted_n(h->backlog),
        .carried = h->admission.carried_n,
        .is_held = h->hold_reason != HOLD_REASON_NONE,
        .held_by = admission_held_by(h),
        .recovery_ns = h->recovery_ns,
        .recovered_frames = h->recovered_frames,
        .waiters = h->waiters.n,
        .parked = h->loader.parked_n,
        .workers = dispatcher_workers_n(&h->dispatcher),
        .commit_ns = h->commit.latency_ns,
        .frame_size = h->commit.frame_size,
    };
    uint64_t oldest = backlog_oldest_order(h->backlog);
    if (oldest > 0 && (int64_t)oldest < h->now_ns)
        out->backlog_age_ms = ((uint64_t)h->now_ns - oldest) / NS_PER_MS;
    for (uint32_t i = 0; i < h->cores_n; i++) {
        struct core_gauges gauges;
        core_gauges(h->cores[i], &gauges);
        add_gauges(&out->gauges, &gauges);
        add_core_stats(&out->core, core_stats(h->cores[i]));
        out->instances_hot += core_instances_n(h->cores[i]);
    }
}

void host_stats_add(struct host_stats *sum, const struct host_stats *one)
{
    add_core_stats(&sum->core, &one->core);
    add_gauges(&sum->gauges, &one->gauges);
    sum->waiters += one->waiters;
    sum->parked += one->parked;
    sum->workers += one->workers;
    histogram_merge(&sum->commit_ns, &one->commit_ns);
    histogram_merge(&sum->frame_size, &one->frame_size);
    if (sum->lsn_durable == 0) {
        sum->lsn_durable = one->lsn_durable;
        sum->lsn_applied = one->lsn_applied;
    }
    sum->frames += one->frames;
    sum->frame_bytes += one->frame_bytes;
    sum->requests += one->requests;
    sum->instances_hot += one->instances_hot;
    sum->instances_archived += one->instances_archived;
    sum->evicted += one->evicted;
    sum->loaded += one->loaded;
    sum->mem_used += one->mem_used;
    sum->journal_bytes += one->journal_bytes;
    sum->is_disk_full = sum->is_disk_full || one->is_disk_full;
    if (one->disk_free < sum->disk_free) sum->disk_free = one->disk_free;
    sum->active += one->active;
    sum->backlog += one->backlog;
    sum->backlog_size += one->backlog_size;
    if (one->backlog_age_ms > sum->backlog_age_ms) sum->backlog_age_ms = one->backlog_age_ms;
    sum->deferred += one->deferred;
    sum->admitted += one->admitted;
    sum->carried += one->carried;
    sum->is_held = sum->is_held || one->is_held;
    if (one->held_by != NULL) sum->held_by = one->held_by;
    if (one->recovery_ns > sum->recovery_ns) sum->recovery_ns = one->recovery_ns;
    sum->recovered_frames += one->recovered_frames;
}

struct core *host_core(struct host *h, uint32_t partition)
{
    return h->cores[host_index(h, partition)];
}

/* What the archive has a row of, by the core's account, the filter must know. */
static enum status check_instance(void *user, const struct instance_view *view)
{
    const struct host *h = user;

    assert(host_has_partition(h, partition_of(view->key, h->options.partitions_n)));
    if (view->is_archived) assert(filter_has(&h->filter, key_hash(view->key)));
    return OK;
}

void host_check(const struct host *h)
{
    for (uint32_t i = 0; i < h->cores_n; i++) {
        core_check(h->cores[i]);
        enum status status = core_each(h->cores[i], check_instance, (void *)(uintptr_t)h);
        assert(status == OK);
    }
    backlog_check(h->backlog);
    assert(h->lsn_kept <= h->lsn_applied);
    assert(h->lsn_kept < backlog_lsn(h->backlog)); /* what waits can be read */
    assert(h->lsn_applied <= h->lsn_durable);
    assert(h->open->lsn == h->lsn_durable + (h->commit.batch == NULL ? 1 : 2));
    assert(h->open != h->commit.batch);
}
