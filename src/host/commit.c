/* SPDX-License-Identifier: Apache-2.0
 *
 * The way of a batch: its frame to the journal, and then its effects to the world. release() is the
 * only place where anything leaves the host that stands on a step, and it asserts that the step is
 * durable (A1).
 */
#include "host/state.h"

#include "base/log.h"
#include "base/planted.h"

#define DISK_FULL_RETRY_NS (200 * NS_PER_MS)

/* In the lane. */
static void run(struct job *job)
{
    struct commit *c = container_of(job, struct commit, job);

    c->status = journal_append(c->journal, &c->frame);
    journal_usage(c->journal, &c->bytes, &c->has_spare);
    c->disk_free = journal_space(c->journal);
}

static void done(struct job *job) { container_of(job, struct commit, job)->is_done = true; }

void commit_begin(struct host *h, uint64_t lsn)
{
    h->commit.job = (struct job){.run = run, .done = done};
    h->commit.journal = h->journal;
    journal_usage(h->journal, &h->journal_bytes, &h->has_spare);
    h->disk_free = journal_space(h->journal);
    h->lsn_durable = lsn;
    h->order_durable = backlog_last_order(h->backlog);
    h->open = &h->batches[0];
    batch_reset(h->open, lsn + 1);
}

uint64_t commit_newest_lsn(const struct host *h)
{
    return batch_has_records(h->open) ? h->open->lsn : h->open->lsn - 1;
}

/* ---- release ---- */

static void deliver_work(struct host *h, uint32_t index, const struct effect_work *work)
{
    struct worker *worker = dispatcher_find(&h->dispatcher, work->worker);

    if (worker != NULL) {
        worker->deliver(worker, work);
        return;
    }
    struct input in = {
        .kind = INPUT_WORKER_ABANDON,
        .lease = {.ref = work->ref,
                  .is_unsent = true,
                  .reason = BYTES_LITERAL("the worker has left")},
    };
    if (host_step(h, index, &in, NULL) != OK) {
        host_fatal(h, E_NOMEM, "there is no memory to take back the work of a lost worker");
    }
}

/* To a partition of this host it is stepped now, within the open batch; to others it is handed
 * over. */
static void send(struct host *h, uint32_t from, const struct effect *effect)
{
    bool is_ack = effect->kind == EFFECT_ACK;
    uint32_t to = is_ack ? effect->ack.to : effect->send.to;

    if (!host_has_partition(h, to)) {
        assert(h->options.send != NULL);
        (void)h->options.send(h->options.user, to, effect,
                              from); /* refused: the core tries again */
        return;
    }
    if (is_ack) {
        struct input in = {
            .kind = INPUT_PARTITION_ACK,
            .ack = {.from = from, .seq = effect->ack.seq},
        };
        (void)host_step(h, host_index(h, to), &in, NULL); /* without memory: it comes again */
        return;
    }
    struct message message = {
        .from = from,
        .seq = effect->send.seq,
        .kind = effect->send.kind,
        .target = effect->send.target,
        .execution = effect->send.execution,
        .event = effect->send.event,
    };
    messages_arrive(h, host_index(h, to), &message);
}

static void release_effect(struct host *h, uint32_t index, const struct effect *effect)
{
    switch (effect->kind) {
    case EFFECT_WORK: deliver_work(h, index, &effect->work); return;
    case EFFECT_SEND:
    case EFFECT_ACK: send(h, host_partition(h, index), effect); return;
    case EFFECT_ALERT: feed_alert(h, effect); return;
    case EFFECT_STATUS: feed_status(h, effect); return;
    case EFFECT_REPLY:
    case EFFECT_READY: break;
    }
    unreachable("used when it was made");
}

/* Requests come from other cores and were stepped a while ago: while one is answered, the next but
 * one is fetched, and what the next one's maker has of it. */
static void fetch_after(const struct list *replies, const struct list *node)
{
    const struct list *next = list_next(replies, node);
    if (next == NULL) return;
    __builtin_prefetch(next->next);
    __builtin_prefetch(container_of(next, struct request, node)->user);
}

static void release_replies(struct list *replies)
{
    struct list *node;

    while ((node = list_first(replies)) != NULL) {
        struct request *request = container_of(node, struct request, node);
        fetch_after(replies, node);
        list_remove(node);
        request->done(request); /* the request is its maker's again: it may be gone now */
    }
}

/* b is not the open batch: what is released may step. */
static void release(struct host *h, struct batch *b)
{
    uint64_t needs_lsn = batch_has_records(b) ? b->lsn : b->lsn - 1;

    assert(b != h->open);
    assert(needs_lsn <= h->lsn_durable); /* A1 */
    release_replies(&b->replies);
    for (uint32_t index = 0; index < h->cores_n; index++) {
        for (const struct effect *e = b->effects[index].first; e != NULL; e = e->next) {
            release_effect(h, index, e);
        }
    }
    feed_flush(h);
    batch_reset(b, 0);
}

void commit_release_refused(struct host *h) { release_replies(&h->refused); }

/* ---- the frame ---- */

static void submit(struct host *h)
{
    h->commit.retry_ns = 0;
    h->commit.is_done = false;
    h->env->ops->submit(h->env, LANE_COMMIT, &h->commit.job);
}

/* The batch stays as it is and is tried again: nothing was written. */
static void wait_for_space(struct host *h)
{
    if (!h->is_disk_full) {
        log_error("%s: nothing can be acknowledged until there is %s again",
                  status_text(h->commit.status),
                  h->commit.status == E_NOSPACE ? "space" : "memory");
    }
    h->is_disk_full = true;
    h->commit.retry_ns = h->now_ns + DISK_FULL_RETRY_NS;
}

void commit_finish(struct host *h)
{
    struct commit *c = &h->commit;

    if (!c->is_done) return;
    c->is_done = false;
    h->journal_bytes = c->bytes;
    h->has_spare = c->has_spare;
    h->disk_free = c->disk_free;
    if (c->status == E_NOSPACE || c->status == E_NOMEM) {
        wait_for_space(h);
        return;
    }
    if (c->status != OK) {
        host_fatal(h, c->status, "the journal cannot be written");
        return;
    }
    if (h->is_disk_full) log_info("what is acknowledged can be written again");
    h->is_disk_full = false;
    assert(c->frame.lsn == h->lsn_durable + 1);
    h->lsn_durable = c->frame.lsn;
    h->order_durable = c->order;
    int64_t latency_ns = h->env->ops->mono_ns(h->env) - c->submitted_ns;
    histogram_add(&c->latency_ns, latency_ns > 0 ? (uint64_t)latency_ns : 0);
    histogram_add(&c->frame_size, c->frame.payload.len);
    h->frames++;
    h->frame_bytes += c->frame.payload.len;
    archiver_frame(h, c->frame.lsn, c->frame.payload.len);
    admission_frame(h, c->frame.lsn, c->frame.payload.len);
    struct batch *b = c->batch;
    c->batch = NULL;
    release(h, b);
}

bool commit_turn(struct host *h)
{
    struct commit *c = &h->commit;

    if (c->batch != NULL) {
        if (c->retry_ns != 0 && h->now_ns >= c->retry_ns) submit(h);
        return false;
    }
    struct batch *b = h->open;
    if (batch_is_empty(b)) {
        /* Effects that were used at once may have filled it all the same. */
        if (host_is_full(h)) batch_reset(b, b->lsn);
        return false;
    }
    h->open = b == &h->batches[0] ? &h->batches[1] : &h->batches[0];
    if (!batch_has_records(b)) {
        batch_reset(h->open, b->lsn);
        release(h, b);
        return true;
    }
    batch_reset(h->open, b->lsn + 1);
    batch_seal(b);
    if (planted("ack_before_durable")) release_replies(&b->replies);
    c->batch = b;
    c->frame = (struct journal_frame){
        .lsn = b->lsn,
        .epoch = h->epoch,
        .time_ns = h->now_ns,
        .payload = buffer_view(&b->payload),
    };
    c->order = backlog_last_order(h->backlog);
    c->submitted_ns = h->env->ops->mono_ns(h->env);
    submit(h);
    return false;
}
