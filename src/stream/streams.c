/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of the streams and their turn. Everything that happens, happens in streams_turn(), in
 * one order: what was done elsewhere, what was asked, what is due; then the frame and the segments.
 */
#include "stream/state.h"

#include "base/log.h"

#define RELEASES_N_MAX 64u /* batches without records that one turn releases */
#define HELD_NS NS_PER_S   /* how often to look whether it still is */
#define TAKEN_N_MAX 4096u  /* requests of one turn */

void streams_options_init(struct streams_options *options)
{
    *options = (struct streams_options){
        .queue_n_max = 20000,
        .in_flight_max = (size_t)64 << 20,
        .waiting_n_max = 10000,
        .batch_size_max = (size_t)1 << 20,
        .flush_size = (size_t)16 << 20,
        .chunks_size_max = (size_t)96 << 20,
        .snapshot_every_size = (uint64_t)64 << 20,
        .segment_size = (uint64_t)16 << 20,
        .disk_free_min = (uint64_t)64 << 20,
        .retention_every_ms = 5000,
        .bound_window_n = 256,
        .checkpoint_n = 1000,
        .checkpoint_ms = 1000,
    };
}

void streams_fatal(struct streams *s, enum status status, const char *what)
{
    s->is_dead = true;
    s->env->ops->fatal(s->env, status, what);
}

/* ---- open and close ---- */

static void wake(struct streams *s)
{
    if (s->options.wake != NULL) s->options.wake(s->options.wake_user);
}

static void bury_done(struct stream_request *request)
{
    struct streams *s = request->user;

    s->is_burying = false;
    if (request->status == OK) s->is_full_told = false;
    if (request->status == OK || request->status == E_STALE || request->status == E_NOT_FOUND) {
        return;
    }
    if (request->status == E_LIMIT && !s->is_full_told) {
        log_error("alert: streams: %s; a queue's messages wait for room there", request->text);
        s->is_full_told = true;
    }
    s->bury_ns = s->now_ns + NS_PER_S;
}

static void streams_free(struct streams *s)
{
    struct mem *mem = s->options.mem;

    streams_binder_release(s);
    stream_request_release(&s->bury);
    streams_mover_release(s);
    streams_reads_release(s);
    for (uint32_t i = 0; i < s->core.streams_n; i++) {
        for (uint32_t p = 0; p < s->core.streams[i]->settings.partitions_n; p++) {
            struct stream_partition *partition = s->core.streams[i]->partitions[p];
            if (partition->segments != NULL) stream_segments_free(partition->segments);
        }
    }
    for (struct list *at = list_first(&s->core.gone); at != NULL;
         at = list_next(&s->core.gone, at)) {
        struct stream *stream = container_of(at, struct stream, node);
        for (uint32_t p = 0; p < stream->settings.partitions_n; p++) {
            struct stream_partition *partition = stream->partitions[p];
            if (partition->segments != NULL) stream_segments_free(partition->segments);
        }
    }
    if (s->core.mem != NULL) stream_core_release(&s->core);
    buffer_release(&s->batches[0].payload);
    buffer_release(&s->batches[1].payload);
    queue_release(&s->posted);
    pthread_mutex_destroy(&s->stats_mutex);
    hold_release(&s->hold);
    journal_close(s->journal);
    mem_release(&s->own);
    mem_give(mem, s, sizeof *s);
}

static enum status parts_init(struct streams *s)
{
    uint64_t seed[2];

    s->env->ops->random(s->env, seed, sizeof seed);
    enum status status = stream_core_init(&s->core, &s->own, seed);
    if (status == OK) status = streams_reads_init(s);
    if (status == OK) status = streams_binder_init(s);
    return status;
}

/* The first records of a new journal. */
static enum status be_born(struct streams *s)
{
    uint64_t secret[2];

    if (s->core.has_secret) return OK;
    s->env->ops->random(s->env, secret, sizeof secret);
    return stream_core_born(&s->core, secret, &s->open->payload);
}

enum status streams_open(struct env *env, struct io *io, struct journal *journal,
                         const struct streams_options *options, char *damage, struct streams **out)
{
    assert(options->mem != NULL);
    assert(options->segment_size > 0);
    damage[0] = '\0';
    struct streams *s = mem_take_zero(options->mem, sizeof *s);
    if (s == NULL) {
        journal_close(journal);
        return E_NOMEM;
    }
    s->env = env;
    s->io = io;
    s->journal = journal;
    s->options = *options;
    mem_init(&s->own, SIZE_MAX);
    s->own.fail_any_at = options->mem->fail_any_at;
    queue_init(&s->posted, options->queue_n_max);
    pthread_mutex_init(&s->stats_mutex, NULL);
    hold_init(&s->hold, options->wake, options->wake_user);
    list_init(&s->taken);
    list_init(&s->dirty);
    heap_init(&s->waiting);
    for (int i = 0; i < 2; i++) {
        buffer_init(&s->batches[i].payload, &s->own);
        list_init(&s->batches[i].replies);
    }
    stream_request_init(&s->bury, STREAM_REQUEST_BURY, 4 * STREAM_VALUE_SIZE_MAX);
    s->bury.done = bury_done;
    s->bury.user = s;
    streams_mover_init(s);
    enum status status = parts_init(s);
    if (status == OK) status = streams_recover(s, damage);
    if (status == OK) status = be_born(s);
    if (status != OK) {
        streams_free(s);
        return status;
    }
    streams_tell_stats(s);
    *out = s;
    return OK;
}

static void answer_closed(struct streams *s, struct list *requests)
{
    struct list *node;

    while ((node = list_pop_front(requests)) != NULL) {
        struct stream_request *request = container_of(node, struct stream_request, node);
        request->status = E_CLOSED;
        streams_done(s, request);
    }
}

void streams_refuse_posted(struct streams *s)
{
    struct list posted;

    list_init(&posted);
    s->under_way_n += queue_take_all(&s->posted, &posted, 0);
    answer_closed(s, &posted);
}

void streams_close(struct streams *s)
{
    streams_stop(s);
    streams_refuse_posted(s);
    struct stream_request *request = s->reading.request;
    s->reading.request = NULL;
    if (request != NULL) list_push_back(&s->reading.queue, &request->node);
    answer_closed(s, &s->reading.queue);
    streams_waits_expire(s, true);
    answer_closed(s, &s->taken);
    for (int i = 0; i < 2; i++) answer_closed(s, &s->batches[i].replies);
    streams_free(s);
}

void streams_stop(struct streams *s)
{
    if (s->is_stopping) return;
    s->is_stopping = true;
    atomic_store(&s->is_refusing, true);
    streams_binder_stop(s);
}

bool streams_is_quiet(const struct streams *s)
{
    if (s->is_dead) return true;
    return s->under_way_n == 0 && list_is_empty(&s->taken) && s->commit.batch == NULL &&
           s->open->payload.len == 0 && list_is_empty(&s->open->replies) &&
           s->mover.state != STREAM_MOVER_BUSY && !s->mover.is_trimming &&
           s->reading.request == NULL && streams_binder_is_quiet(s);
}

/* ---- requests ---- */

static size_t size_of(const struct stream_request *request)
{
    size_t size = 0;

    if (request->kind != STREAM_REQUEST_APPEND) return 0;
    for (uint32_t i = 0; i < request->append.n; i++) {
        size += request->append.items[i].key.len + request->append.items[i].value.len;
    }
    return size;
}

bool streams_post(struct streams *s, struct stream_request *request)
{
    if (atomic_load(&s->is_refusing)) return false;
    request->size = size_of(request);
    size_t before = atomic_fetch_add(&s->in_flight_size, request->size);
    bool is_posted = before <= s->options.in_flight_max && queue_push(&s->posted, &request->node);
    if (!is_posted) {
        atomic_fetch_sub(&s->in_flight_size, request->size);
        return false;
    }
    wake(s);
    return true;
}

void streams_done(struct streams *s, struct stream_request *request)
{
    assert(s->under_way_n > 0);
    s->under_way_n--;
    if (request->size > 0) atomic_fetch_sub(&s->in_flight_size, request->size);
    request->size = 0;
    if (request->status == OK) {
        switch (request->kind) {
        case STREAM_REQUEST_READ:
        case STREAM_REQUEST_GROUP_READ: s->counts.read_n += request->items_n; break;
        case STREAM_REQUEST_RECEIVE: s->counts.delivered_n += request->items_n; break;
        case STREAM_REQUEST_COMPLETE: s->counts.completed_n++; break;
        case STREAM_REQUEST_APPEND: s->counts.appended_n += request->append.n; break;
        case STREAM_REQUEST_SET:
        case STREAM_REQUEST_DELETE:
        case STREAM_REQUEST_INFO:
        case STREAM_REQUEST_CHECKPOINT:
        case STREAM_REQUEST_SEEK:
        case STREAM_REQUEST_GROUP_DELETE:
        case STREAM_REQUEST_ABANDON:
        case STREAM_REQUEST_RENEW:
        case STREAM_REQUEST_DEAD_LETTER:
        case STREAM_REQUEST_LETTERS:
        case STREAM_REQUEST_LETTER:
        case STREAM_REQUEST_LETTER_EDIT:
        case STREAM_REQUEST_LETTER_RESUBMIT:
        case STREAM_REQUEST_LETTER_DISCARD:
        case STREAM_REQUEST_CANCEL:
        case STREAM_REQUEST_STATS:
        case STREAM_REQUEST_BURY: break;
        }
    }
    request->done(request); /* it is its maker's again, and may be gone now */
}

void streams_reply(struct streams *s, struct stream_request *request)
{
    list_push_back(&s->open->replies, &request->node);
}

bool streams_is_disk_low(const struct streams *s)
{
    /* What is in memory is in the journal, and is written once more to segments; a snapshot comes
     * with it. */
    uint64_t to_come = s->core.chunks_size + s->mover.snapshot_size;

    return s->is_disk_full || !s->has_spare || s->disk_free < s->options.disk_free_min + to_come;
}

/* Whether it writes something that grows, and there is no room for it. */
static enum status check_room(struct streams *s, struct stream_request *request)
{
    bool grows = request->kind == STREAM_REQUEST_APPEND || request->kind == STREAM_REQUEST_SET ||
                 request->kind == STREAM_REQUEST_LETTER_EDIT ||
                 request->kind == STREAM_REQUEST_LETTER_RESUBMIT;

    if (!grows) return OK;
    if (streams_is_disk_low(s)) return E_NOSPACE;
    if (request->kind == STREAM_REQUEST_APPEND &&
        s->core.chunks_size > s->options.chunks_size_max) {
        return E_UNAVAILABLE;
    }
    return OK;
}

static void after_step(struct streams *s, const struct stream_request *request)
{
    if (request->status != OK) return;
    switch (request->kind) {
    case STREAM_REQUEST_APPEND:
        s->counts.appended_size += request->size;
        streams_mark_dirty(s, request->number);
        return;
    case STREAM_REQUEST_LETTER_RESUBMIT:
    case STREAM_REQUEST_ABANDON: streams_mark_dirty(s, request->number); return;
    case STREAM_REQUEST_COMPLETE:
    case STREAM_REQUEST_DEAD_LETTER:
        /* The window may have moved. */
        streams_mark_dirty(s, request->number);
        return;
    case STREAM_REQUEST_DELETE: {
        struct list *last = list_last(&s->core.gone);
        assert(last != NULL);
        struct stream *stream = container_of(last, struct stream, node);
        if (list_is_linked(&stream->dirty)) list_remove(&stream->dirty);
        streams_waits_forget(s, stream);
        streams_binder_forget(s, stream->number);
        return;
    }
    case STREAM_REQUEST_SET:
    case STREAM_REQUEST_INFO:
    case STREAM_REQUEST_READ:
    case STREAM_REQUEST_GROUP_READ:
    case STREAM_REQUEST_CHECKPOINT:
    case STREAM_REQUEST_SEEK:
    case STREAM_REQUEST_GROUP_DELETE:
    case STREAM_REQUEST_RECEIVE:
    case STREAM_REQUEST_RENEW:
    case STREAM_REQUEST_LETTERS:
    case STREAM_REQUEST_LETTER:
    case STREAM_REQUEST_LETTER_EDIT:
    case STREAM_REQUEST_LETTER_DISCARD:
    case STREAM_REQUEST_CANCEL:
    case STREAM_REQUEST_STATS:
    case STREAM_REQUEST_BURY: return;
    }
}

void streams_run(struct streams *s, struct stream_request *request)
{
    if (request->kind == STREAM_REQUEST_INFO) {
        streams_info(s, request);
        streams_reply(s, request);
        return;
    }
    if (request->kind == STREAM_REQUEST_CANCEL) {
        streams_cancel(s, request);
        streams_reply(s, request);
        return;
    }
    if (request->kind == STREAM_REQUEST_STATS) {
        streams_reply(s, request);
        return;
    }
    request->status = check_room(s, request);
    if (request->status != OK) {
        streams_reply(s, request);
        return;
    }
    buffer_clear(&request->wants);
    request->want_at = 0;
    if (stream_core_prepare(&s->core, request, s->now_ns)) {
        request->is_preparing = request->status == OK;
        /* What it stands on may not be durable yet: through the batch in either case. */
        streams_reply(s, request);
        return;
    }
    bool is_answered = stream_core_step(&s->core, request, s->now_ns, &s->open->payload);
    after_step(s, request);
    if (is_answered)
        streams_reply(s, request);
    else
        streams_wait(s, request);
}

/* ---- the turn ---- */

static bool is_full(const struct streams *s)
{
    return s->open->payload.len >= s->options.batch_size_max;
}

static void run_taken(struct streams *s)
{
    struct list arrived;
    struct list *node;

    list_init(&arrived);
    if (list_is_empty(&s->taken)) s->under_way_n += queue_take_all(&s->posted, &arrived, 0);
    list_splice_back(&s->taken, &arrived);
    for (uint32_t n = 0; n < TAKEN_N_MAX && !is_full(s); n++) {
        node = list_pop_front(&s->taken);
        if (node == NULL) return;
        streams_run(s, container_of(node, struct stream_request, node));
    }
}

static bool tick(struct streams *s)
{
    size_t len = s->open->payload.len;
    bool has_more = stream_core_tick(&s->core, s->now_ns, &s->open->payload);

    if (s->open->payload.len > len) {
        for (uint32_t i = 1; i < s->core.streams_n; i++) {
            if (!list_is_empty(&s->core.streams[i]->waiting)) {
                streams_mark_dirty(s, s->core.streams[i]->number);
            }
        }
    }
    return has_more;
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* When something is due without anybody asking; INT64_MAX: never. */
static int64_t next_due_ns(const struct streams *s)
{
    int64_t due_ns = INT64_MAX;
    struct heap_node *node = heap_min(&s->core.expiry);

    if (node != NULL) due_ns = least(due_ns, node->key);
    node = heap_min(&s->waiting);
    if (node != NULL) due_ns = least(due_ns, node->key);
    if (s->commit.batch != NULL && s->commit.retry_ns != 0) {
        due_ns = least(due_ns, s->commit.retry_ns);
    }
    bool is_held = hold_phase(&s->hold) != HOLD_NONE;
    if (is_held) due_ns = least(due_ns, s->now_ns + HELD_NS);
    if (s->mover.state == STREAM_MOVER_RETRY && !is_held) {
        due_ns = least(due_ns, s->mover.retry_ns);
    }
    if (!list_is_empty(&s->core.dying) && !s->is_burying) due_ns = least(due_ns, s->bury_ns);
    due_ns = least(due_ns, streams_binder_next_ns(s));
    if (!s->is_stopping) due_ns = least(due_ns, s->retention_ns);
    bool is_probing = !s->is_stopping && !s->mover.is_trimming && !is_held;
    if (is_probing && streams_is_disk_low(s)) due_ns = least(due_ns, s->probe_ns);
    return due_ns;
}

struct hold *streams_hold(struct streams *s) { return &s->hold; }

/* Answers who wants to copy our files. */
static void hold_turn(struct streams *s)
{
    if (hold_phase(&s->hold) == HOLD_NONE) return;
    hold_watch(&s->hold, s->is_stopping, s->env->ops->mono_ns(s->env));
    bool is_still = s->mover.state != STREAM_MOVER_BUSY && !s->mover.is_trimming;
    if (is_still && !streams_binder_has_sent(s)) hold_ready(&s->hold);
    /* Only the binder has to do with others; the rest goes on, in frames behind this one. */
    hold_still(&s->hold, s->lsn_durable);
}

int64_t streams_turn(struct streams *s)
{
    if (s->is_dead) return INT64_MAX;
    s->now_ns =
        clock_advance(&s->clock, s->env->ops->wall_ns(s->env), s->env->ops->mono_ns(s->env));
    streams_commit_finish(s);
    if (s->is_dead) return INT64_MAX;
    streams_reads_turn(s);
    run_taken(s);
    bool is_busy = !list_is_empty(&s->taken) || tick(s);
    streams_waits_expire(s, s->is_stopping);
    streams_wake_dirty(s);
    if (!s->is_stopping) {
        streams_bury_turn(s);
        streams_retention_turn(s);
    }
    streams_binder_turn(s);
    for (uint32_t n = 0; n < RELEASES_N_MAX && streams_commit_turn(s); n++) is_busy = true;
    streams_mover_turn(s);
    hold_turn(s);
    streams_tell_stats(s);
    if (s->is_dead) return INT64_MAX;
    if (is_busy && s->commit.batch == NULL) return 0;
    if (!list_is_empty(&s->taken) && !is_full(s)) return 0;
    int64_t due_ns = next_due_ns(s);
    if (due_ns == INT64_MAX) return INT64_MAX;
    return due_ns > s->now_ns ? due_ns - s->now_ns : 0;
}

enum status streams_digest(struct streams *s, uint64_t *out)
{
    return stream_core_digest(&s->core, out);
}
