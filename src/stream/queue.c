/* SPDX-License-Identifier: Apache-2.0
 *
 * A ring of entries by offset. It grows twofold with what is under way, up to the window, and
 * shrinks when the queue is through with everything.
 */
#include "stream/queue.h"

#include "base/assert.h"
#include "base/mem.h"
#include "stream/limits.h"

#define RING_N_MIN 64u

enum status stream_queue_new(struct mem *mem, struct stream_partition *partition, uint64_t base,
                             struct stream_queue **out)
{
    struct stream_queue *q = mem_take_zero(mem, sizeof *q);
    if (q == NULL) return E_NOMEM;
    q->partition = partition;
    q->mem = mem;
    q->base = q->high = q->available_from = base;
    heap_node_init(&q->expiry);
    list_node_init(&q->dying);
    *out = q;
    return OK;
}

void stream_queue_free(struct stream_queue *q)
{
    assert(!q->expiry.is_linked);
    assert(!list_is_linked(&q->dying));
    mem_give(q->mem, q->ring, q->ring_n * sizeof *q->ring);
    mem_give(q->mem, q, sizeof *q);
}

static struct stream_entry *entry_at(const struct stream_queue *q, uint64_t offset)
{
    assert(q->ring_n > 0);
    return &q->ring[offset & (q->ring_n - 1)];
}

struct stream_entry *stream_queue_entry(const struct stream_queue *q, uint64_t offset)
{
    return offset < q->base || offset >= q->high ? NULL : entry_at(q, offset);
}

bool stream_queue_lowest(struct stream_queue *q, enum stream_entry_state state, uint64_t *out)
{
    if (q->counts[state] == 0) return false;
    bool is_available = state == STREAM_ENTRY_AVAILABLE;
    uint64_t from = is_available && q->available_from > q->base ? q->available_from : q->base;
    for (uint64_t offset = from; offset < q->high; offset++) {
        if (entry_at(q, offset)->state != state) continue;
        if (is_available) q->available_from = offset;
        *out = offset;
        return true;
    }
    unreachable("one was counted");
}

static enum status ring_resize(struct stream_queue *q, uint32_t n)
{
    struct stream_entry *ring = mem_take(q->mem, n * sizeof *ring);
    if (ring == NULL) return E_NOMEM;
    assert(q->high - q->base <= n);
    for (uint64_t offset = q->base; offset < q->high; offset++) {
        ring[offset & (n - 1)] = *entry_at(q, offset);
    }
    mem_give(q->mem, q->ring, q->ring_n * sizeof *ring);
    q->ring = ring;
    q->ring_n = n;
    return OK;
}

enum status stream_queue_make_room(struct stream_queue *q)
{
    uint64_t n = q->high - q->base;

    if (n >= STREAM_QUEUE_WINDOW) return E_LIMIT;
    if (n < q->ring_n) return OK;
    return ring_resize(q, q->ring_n == 0 ? RING_N_MIN : q->ring_n * 2);
}

void stream_queue_push(struct stream_queue *q)
{
    assert(q->high - q->base < q->ring_n);
    *entry_at(q, q->high) = (struct stream_entry){.state = STREAM_ENTRY_AVAILABLE};
    if (q->counts[STREAM_ENTRY_AVAILABLE]++ == 0) q->available_from = q->high;
    q->high++;
}

void stream_queue_set(struct stream_queue *q, uint64_t offset, enum stream_entry_state state)
{
    struct stream_entry *entry = stream_queue_entry(q, offset);

    assert(entry != NULL);
    assert(q->counts[entry->state] > 0);
    q->counts[entry->state]--;
    q->counts[state]++;
    entry->state = state;
    if (state == STREAM_ENTRY_AVAILABLE && offset < q->available_from) q->available_from = offset;
    while (q->base < q->high && entry_at(q, q->base)->state == STREAM_ENTRY_DONE) {
        q->counts[STREAM_ENTRY_DONE]--;
        q->base++;
    }
    if (q->base == q->high && q->ring_n > RING_N_MIN) (void)ring_resize(q, RING_N_MIN);
}

int64_t stream_queue_first_expiry(const struct stream_queue *q)
{
    int64_t first = INT64_MAX;

    if (q->counts[STREAM_ENTRY_LOCKED] == 0) return first;
    for (uint64_t offset = q->base; offset < q->high; offset++) {
        const struct stream_entry *entry = entry_at(q, offset);
        if (entry->state == STREAM_ENTRY_LOCKED && entry->until_ns < first) {
            first = entry->until_ns;
        }
    }
    return first;
}
