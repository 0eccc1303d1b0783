/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts that wait: put off, brought in when their turn has come, carried forward when the segment
 * of the journal that holds them gets old. The host reads the record back; whether it still waits
 * is decided here, by its order, so that one that was read twice is admitted once.
 */
#include "core/limits.h"
#include "core/state.h"

#include "base/planted.h"

void backlog_defer(struct core *c, struct bytes key, struct event_started *started)
{
    assert(c->backlog != NULL);
    assert(instance_find(c, key) == NULL);
    assert(!started->has_scheduled);
    struct record record = {
        .kind = RECORD_QUEUED,
        .key = key,
        .name = started->name,
        .order = backlog_new_order(c->backlog, c->now_ns),
    };
    memcpy(record.execution_id, started->execution_id, EXECUTION_ID_SIZE);
    buffer_clear(&c->scratch);
    event_started_write(&c->scratch, (int64_t)record.order, started);
    assert(!c->scratch.failed);
    record.event = buffer_view(&c->scratch);
    emit(c, &record);
    assert(backlog_n(c->backlog) > 0);
    reply_waiting(c, &record);
}

void reply_waiting(struct core *c, const struct record *queued)
{
    assert(queued->kind == RECORD_QUEUED);
    if (c->in->request == 0) return;
    struct effect *e = effect_new(c, EFFECT_REPLY);
    e->reply.request = c->in->request;
    e->reply.status = OK;
    e->reply.text = "";
    e->reply.key = copy_must(c->out->arena, queued->key);
    memcpy(e->reply.execution_id, queued->execution_id, EXECUTION_ID_SIZE);
}

void queued_apply(struct core *c, const struct record *record)
{
    assert(c->backlog != NULL);
    struct queued waiting = {
        .order = record->order,
        .lsn = c->place.lsn,
        .offset = c->place.offset,
        .size = c->place.size,
        .partition = c->options.partition,
    };
    backlog_add(c->backlog, backlog_hash(c->backlog, record->key), &waiting, record->name);
}

void admitted_apply(struct core *c, const struct record *record)
{
    assert(c->backlog != NULL);
    (void)backlog_remove(c->backlog, backlog_hash(c->backlog, record->key), record->order);
}

/* The record, when its start still waits. */
static bool still_waits(const struct core *c, struct bytes bytes, struct record *out)
{
    struct reader r = reader_make(bytes);
    struct queued waiting;
    assert(c->backlog != NULL);
    if (record_decode(&r, out) != OK || !reader_is_done(&r)) return false;
    if (out->kind != RECORD_QUEUED) return false;
    return backlog_get(c->backlog, backlog_hash(c->backlog, out->key), out->order, &waiting) &&
           waiting.partition == c->options.partition;
}

struct instance *waiting_admit(struct core *c, const struct record *queued)
{
    assert(instance_find_live(c, queued->key) == NULL); /* who asks for it, admits it first */
    struct record record = {
        .kind = RECORD_ADMITTED,
        .key = queued->key,
        .order = queued->order,
        .event = queued->event,
    };
    memcpy(record.execution_id, queued->execution_id, EXECUTION_ID_SIZE);
    emit(c, &record);
    struct instance *i = instance_find_live(c, queued->key);
    assert(i != NULL);
    assert(i->status == STATUS_PENDING);
    return i;
}

bool waiting_read(const struct core *c, const struct input *in, struct record *out)
{
    if (in->waiting.len == 0) return false;
    bool waits = still_waits(c, in->waiting, out);
    assert(waits); /* the host has looked, and nothing was stepped since */
    return waits;
}

void on_backlog_admit(struct core *c, const struct input *in)
{
    struct record queued;
    if (still_waits(c, in->record, &queued)) (void)waiting_admit(c, &queued);
}

void on_backlog_carry(struct core *c, const struct input *in)
{
    struct record queued;
    if (!still_waits(c, in->record, &queued)) return;
    emit(c, &queued); /* the same, with its old order, in a new place */
    if (planted("carry_forgets"))
        (void)backlog_remove(c->backlog, backlog_hash(c->backlog, queued.key), queued.order);
}
