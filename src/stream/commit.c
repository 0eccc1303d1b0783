/* SPDX-License-Identifier: Apache-2.0
 *
 * The way of a batch: its frame to the journal, then its answers to the world.
 */
#include "stream/state.h"

#include "base/log.h"

#define DISK_FULL_RETRY_NS (200 * NS_PER_MS)
#define PAYLOAD_KEPT_SIZE ((size_t)8 << 20) /* what one large append took is given back */

/* In the lane. */
static void run(struct job *job)
{
    struct stream_commit *c = container_of(job, struct stream_commit, job);

    c->status = journal_append(c->journal, &c->frame);
    journal_usage(c->journal, &c->journal_size, &c->has_spare);
    c->disk_free = journal_space(c->journal);
}

static void done(struct job *job) { container_of(job, struct stream_commit, job)->is_done = true; }

static void batch_reset(struct stream_batch *b, uint64_t lsn)
{
    assert(list_is_empty(&b->replies));
    if (b->payload.size > PAYLOAD_KEPT_SIZE) buffer_release(&b->payload);
    buffer_clear(&b->payload);
    b->lsn = lsn;
}

void streams_commit_begin(struct streams *s, uint64_t lsn)
{
    s->commit.job = (struct job){.run = run, .done = done};
    s->commit.journal = s->journal;
    journal_usage(s->journal, &s->journal_size, &s->has_spare);
    s->disk_free = journal_space(s->journal);
    s->lsn_durable = lsn;
    s->open = &s->batches[0];
    batch_reset(s->open, lsn + 1);
}

uint64_t streams_newest_lsn(const struct streams *s)
{
    return s->open->payload.len > 0 ? s->open->lsn : s->open->lsn - 1;
}

static void release(struct streams *s, struct stream_batch *b)
{
    struct list *node;

    assert(b != s->open);
    assert((b->payload.len > 0 ? b->lsn : b->lsn - 1) <= s->lsn_durable);
    while ((node = list_pop_front(&b->replies)) != NULL) {
        struct stream_request *request = container_of(node, struct stream_request, node);
        if (request->status == OK && request->wants.len > 0)
            streams_read(s, request);
        else
            streams_done(s, request);
    }
    batch_reset(b, 0);
}

static void submit(struct streams *s)
{
    s->commit.retry_ns = 0;
    s->commit.is_done = false;
    s->env->ops->submit(s->env, LANE_COMMIT, &s->commit.job);
}

void streams_commit_finish(struct streams *s)
{
    struct stream_commit *c = &s->commit;

    if (!c->is_done) return;
    c->is_done = false;
    s->journal_size = c->journal_size;
    s->has_spare = c->has_spare;
    s->disk_free = c->disk_free;
    if (c->status == E_NOSPACE || c->status == E_NOMEM) {
        if (!s->is_disk_full) {
            log_error("streams: %s: nothing can be acknowledged", status_text(c->status));
        }
        s->is_disk_full = true;
        c->retry_ns = s->now_ns + DISK_FULL_RETRY_NS;
        return;
    }
    if (c->status != OK) {
        streams_fatal(s, c->status, "the journal of the streams cannot be written");
        return;
    }
    if (s->is_disk_full) log_info("streams: what is acknowledged can be written again");
    s->is_disk_full = false;
    assert(c->frame.lsn == s->lsn_durable + 1);
    s->lsn_durable = c->frame.lsn;
    s->counts.frames_n++;
    struct stream_batch *b = c->batch;
    c->batch = NULL;
    release(s, b);
}

bool streams_commit_turn(struct streams *s)
{
    struct stream_commit *c = &s->commit;

    if (c->batch != NULL) {
        if (c->retry_ns != 0 && s->now_ns >= c->retry_ns) submit(s);
        return false;
    }
    struct stream_batch *b = s->open;
    if (b->payload.len == 0 && list_is_empty(&b->replies)) return false;
    s->open = b == &s->batches[0] ? &s->batches[1] : &s->batches[0];
    if (b->payload.len == 0) {
        batch_reset(s->open, b->lsn);
        release(s, b);
        return true;
    }
    batch_reset(s->open, b->lsn + 1);
    streams_mover_sealed(s, b->lsn, b->payload.len);
    c->batch = b;
    c->frame = (struct journal_frame){
        .lsn = b->lsn,
        .epoch = s->epoch,
        .time_ns = s->now_ns,
        .payload = buffer_view(&b->payload),
    };
    submit(s);
    return false;
}
