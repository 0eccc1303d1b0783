/* SPDX-License-Identifier: Apache-2.0
 *
 * Competing consumers: receiving, and what they say of what they have received.
 */
#include "stream/core_state.h"

#include "base/clock.h"

#define RECEIVE_N_DEFAULT 1u
#define TICK_N_MAX 1000u
/* A scan finds all locks that have run out; the next one is not worth it before. */
#define TICK_LEAST_NS (20 * NS_PER_MS)

/* ---- apply ---- */

void stream_queue_relink(struct stream_core *core, struct stream_queue *q)
{
    if (q->counts[STREAM_ENTRY_LOCKED] == 0 && q->expiry.is_linked) {
        heap_remove(&core->expiry, &q->expiry);
    }
    if (q->counts[STREAM_ENTRY_DYING] == 0) {
        if (list_is_linked(&q->dying)) list_remove(&q->dying);
    } else if (!list_is_linked(&q->dying)) {
        list_push_back(&core->dying, &q->dying);
    }
}

/* The key is when the first lock may run out: never later than it does. */
static void expect_expiry(struct stream_core *core, struct stream_queue *q, int64_t until_ns)
{
    if (q->expiry.is_linked) {
        if (q->expiry.key <= until_ns) return;
        heap_remove(&core->expiry, &q->expiry);
    }
    q->expiry.key = until_ns;
    q->expiry.order = (uint64_t)q->partition->stream->number << 32 | (uint64_t)q->partition->index;
    heap_push(&core->expiry, &q->expiry);
}

static enum status apply_delivered(struct stream_core *core, struct stream_partition *partition,
                                   const struct stream_record *record)
{
    struct stream_queue *q = partition->queue;

    if (record->offset >= partition->next) return E_CORRUPT;
    if (q == NULL) {
        enum status status = stream_queue_new(core->mem, partition, record->offset, &q);
        if (status != OK) return status;
        status = stream_queue_make_room(q);
        if (status != OK) {
            stream_queue_free(q);
            return status;
        }
        partition->queue = q;
    }
    if (record->offset == q->high) {
        enum status status = stream_queue_make_room(q);
        if (status != OK) return status == E_LIMIT ? E_CORRUPT : status;
        stream_queue_push(q);
    }
    struct stream_entry *entry = stream_queue_entry(q, record->offset);
    if (entry == NULL || entry->state != STREAM_ENTRY_AVAILABLE) return E_CORRUPT;
    entry->deliveries++;
    entry->until_ns = record->until_ns;
    stream_queue_set(q, record->offset, STREAM_ENTRY_LOCKED);
    expect_expiry(core, q, record->until_ns);
    return OK;
}

enum status stream_apply_queue(struct stream_core *core, const struct stream_record *record)
{
    struct stream_partition *partition =
        stream_core_partition(core, record->stream, record->partition);

    if (partition == NULL) return E_CORRUPT;
    if (record->kind == STREAM_RECORD_DELIVERED) return apply_delivered(core, partition, record);
    struct stream_queue *q = partition->queue;
    struct stream_entry *entry = q == NULL ? NULL : stream_queue_entry(q, record->offset);
    if (entry == NULL) return E_CORRUPT;
    if (record->kind == STREAM_RECORD_DONE && entry->state == STREAM_ENTRY_DYING) {
        stream_queue_set(q, record->offset, STREAM_ENTRY_DONE);
        stream_queue_relink(core, q);
        return OK;
    }
    if (entry->state != STREAM_ENTRY_LOCKED) return E_CORRUPT;
    enum stream_entry_state state = STREAM_ENTRY_LOCKED;
    if (record->kind == STREAM_RECORD_RETURNED) entry->deliveries--;
    if (record->kind == STREAM_RECORD_RELEASED || record->kind == STREAM_RECORD_RETURNED) {
        state = STREAM_ENTRY_AVAILABLE;
    }
    if (record->kind == STREAM_RECORD_DYING) state = STREAM_ENTRY_DYING;
    if (record->kind == STREAM_RECORD_DONE) state = STREAM_ENTRY_DONE;
    if (state == STREAM_ENTRY_LOCKED) {
        entry->until_ns = record->until_ns;
        expect_expiry(core, q, record->until_ns);
        return OK;
    }
    stream_queue_set(q, record->offset, state);
    stream_queue_relink(core, q);
    return OK;
}

/* ---- receiving ---- */

/* The next message of this partition that somebody may have; false: none now. */
static bool next_of(struct stream_partition *partition, uint64_t *out)
{
    struct stream_queue *q = partition->queue;

    if (q == NULL) {
        *out = partition->first;
        return partition->first < partition->next;
    }
    if (stream_queue_lowest(q, STREAM_ENTRY_AVAILABLE, out)) return true;
    *out = q->high;
    return q->high < partition->next && q->high - q->base < STREAM_QUEUE_WINDOW;
}

/* False: no memory for more. */
static bool deliver(struct stream_core *core, struct stream_request *request,
                    struct stream_partition *partition, uint64_t offset, int64_t until_ns)
{
    struct stream_want want = {
        .stream = partition->stream->number,
        .partition = partition->index,
        .from = offset,
        .end = offset + 1,
        .until_ns = until_ns,
    };

    if (stream_want(request, &want) != OK) return false;
    enum status status =
        stream_emit_about(core, STREAM_RECORD_DELIVERED, partition, offset, until_ns);
    if (status != OK) {
        request->wants.len -= sizeof want;
        request->status = status;
        return false;
    }
    struct stream_want *last =
        (struct stream_want *)(void *)(request->wants.ptr + request->wants.len) - 1;
    last->delivery = stream_queue_entry(partition->queue, offset)->deliveries;
    return true;
}

bool stream_on_receive(struct stream_core *core, struct stream_request *request)
{
    struct stream *stream = stream_of_request(core, request);
    if (stream == NULL) return true;
    uint32_t limit = request->receive.limit == 0 ? RECEIVE_N_DEFAULT : request->receive.limit;
    if (limit > STREAM_READ_N_MAX) limit = STREAM_READ_N_MAX;
    int64_t lock_ms =
        request->receive.lock_ms == 0 ? stream->settings.lock_ms : request->receive.lock_ms;
    if (lock_ms < 1 || lock_ms > STREAM_LOCK_MS_MAX) {
        (void)stream_refuse(request, E_INVALID, "a lock is 1ms to 24h");
        return true;
    }

    int64_t until_ns = core->now_ns + lock_ms * NS_PER_MS;
    uint32_t n = stream->settings.partitions_n;
    uint32_t got_n = 0;
    bool has_memory = true;
    /* One of each partition in turn, so that none waits for another. */
    for (uint32_t idle_n = 0; idle_n < n && got_n < limit && has_memory;) {
        struct stream_partition *partition = stream->partitions[stream->receive_at++ % n];
        uint64_t offset;
        if (!next_of(partition, &offset)) {
            idle_n++;
            continue;
        }
        idle_n = 0;
        has_memory = deliver(core, request, partition, offset, until_ns);
        if (has_memory) got_n++;
    }
    stream->receive_at %= n;
    if (got_n > 0) request->status = OK; /* some, if not all */
    return got_n > 0 || request->status != OK;
}

/* ---- answers of consumers ---- */

struct stream_partition *stream_lock_of_request(struct stream_core *core,
                                                struct stream_request *request)
{
    const struct stream_token *token = &request->lock.token;
    static const char lost[] = "the lock has run out, or the message is done";

    if (!stream_token_is_signed(token, core->secret)) {
        (void)stream_refuse(request, E_INVALID, "this token was not made here");
        return NULL;
    }
    struct stream_partition *partition =
        stream_core_partition(core, token->stream, token->partition);
    if (partition != NULL && request->stream.len > 0 &&
        !bytes_equal(bytes_of_text(partition->stream->name), request->stream)) {
        (void)stream_refuse(request, E_INVALID, "this token is of another queue");
        return NULL;
    }
    struct stream_entry *entry = NULL;
    if (partition != NULL && partition->queue != NULL) {
        entry = stream_queue_entry(partition->queue, token->offset);
    }
    if (entry == NULL || entry->state != STREAM_ENTRY_LOCKED ||
        entry->deliveries != token->delivery || entry->until_ns <= core->now_ns) {
        (void)stream_refuse(request, E_STALE, "%s", lost);
        return NULL;
    }
    request->number = token->stream;
    return partition;
}

/* Given back: to the next consumer, or, after too many of them, to the dead letters. */
static enum status give_back(struct stream_core *core, struct stream_partition *partition,
                             uint64_t offset)
{
    const struct stream_entry *entry = stream_queue_entry(partition->queue, offset);
    bool is_dying = entry->deliveries >= partition->stream->settings.deliveries_max;

    return stream_emit_about(core, is_dying ? STREAM_RECORD_DYING : STREAM_RECORD_RELEASED,
                             partition, offset, 0);
}

void stream_on_lock(struct stream_core *core, struct stream_request *request)
{
    struct stream_partition *partition = stream_lock_of_request(core, request);
    if (partition == NULL) return;
    uint64_t offset = request->lock.token.offset;
    if (request->kind == STREAM_REQUEST_COMPLETE) {
        request->status = stream_emit_about(core, STREAM_RECORD_DONE, partition, offset, 0);
        return;
    }
    if (request->kind == STREAM_REQUEST_ABANDON) {
        request->status = give_back(core, partition, offset);
        return;
    }
    assert(request->kind == STREAM_REQUEST_RENEW);
    int64_t lock_ms =
        request->lock.lock_ms == 0 ? partition->stream->settings.lock_ms : request->lock.lock_ms;
    if (lock_ms < 1 || lock_ms > STREAM_LOCK_MS_MAX) {
        (void)stream_refuse(request, E_INVALID, "a lock is 1ms to 24h");
        return;
    }
    request->lock.until_ns = core->now_ns + lock_ms * NS_PER_MS;
    request->status =
        stream_emit_about(core, STREAM_RECORD_RENEWED, partition, offset, request->lock.until_ns);
}

void stream_core_return(struct stream_core *core, const struct stream_want *want,
                        struct buffer *out)
{
    struct stream_partition *partition = stream_core_partition(core, want->stream, want->partition);

    core->out = out;
    if (partition == NULL || partition->queue == NULL) return;
    const struct stream_entry *entry = stream_queue_entry(partition->queue, want->from);
    if (entry == NULL || entry->state != STREAM_ENTRY_LOCKED) return;
    if (entry->deliveries != want->delivery) return;
    /* Without memory its lock runs out by itself. */
    (void)stream_emit_about(core, STREAM_RECORD_RETURNED, partition, want->from, 0);
}

/* ---- the clock ---- */

/* Answers how many were given back; *status tells when it could not go on. */
static uint32_t expire(struct stream_core *core, struct stream_queue *q, uint32_t limit,
                       enum status *status)
{
    uint32_t n = 0;

    for (uint64_t offset = q->base; offset < q->high && n < limit; offset++) {
        const struct stream_entry *entry = stream_queue_entry(q, offset);
        if (entry->state != STREAM_ENTRY_LOCKED || entry->until_ns > core->now_ns) continue;
        *status = give_back(core, q->partition, offset);
        if (*status != OK) return n;
        n++;
    }
    return n;
}

bool stream_core_tick(struct stream_core *core, int64_t now_ns, struct buffer *out)
{
    uint32_t n = 0;

    assert(now_ns >= core->now_ns);
    core->now_ns = now_ns;
    core->out = out;
    while (n < TICK_N_MAX) {
        struct heap_node *node = heap_min(&core->expiry);
        if (node == NULL || node->key > now_ns) return false;
        struct stream_queue *q = container_of(node, struct stream_queue, expiry);
        enum status status = OK;
        n += expire(core, q, TICK_N_MAX - n, &status);
        if (q->expiry.is_linked) heap_remove(&core->expiry, &q->expiry);
        int64_t first_ns = stream_queue_first_expiry(q);
        if (first_ns == INT64_MAX) continue;
        bool is_cut = first_ns <= now_ns && status == OK;
        int64_t least_ns = is_cut ? now_ns : now_ns + TICK_LEAST_NS;
        q->expiry.key = first_ns > least_ns ? first_ns : least_ns;
        heap_push(&core->expiry, &q->expiry);
        if (status != OK) return false; /* no memory: later */
    }
    return true;
}
