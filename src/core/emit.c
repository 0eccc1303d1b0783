/* SPDX-License-Identifier: Apache-2.0
 *
 * The records and effects of a step. A record is applied to memory and written to the batch in one
 * place, so that memory and journal cannot disagree.
 */
#include "core/limits.h"
#include "core/state.h"

#include "base/siphash.h"
#include "base/text.h"

void output_init(struct output *out, struct buffer *records, struct arena *arena)
{
    *out = (struct output){.records = records, .arena = arena};
    out->last = &out->first;
}

int64_t now_ms(const struct core *c) { return c->now_ns / 1000000; }

void emit(struct core *c, struct record *record)
{
    assert(c->out != NULL);
    assert(c->in != NULL); /* only an input decides something */
    assert(!c->is_recovering);
    record->seq = c->seq + 1;
    record->now_ns = c->now_ns;
    size_t offset = c->out->records->len;
    record_encode(c->out->records, record);
    c->place = (struct place){c->lsn, (uint32_t)offset, (uint32_t)(c->out->records->len - offset)};
    assert(!c->out->records->failed); /* reserved before the step */
    c->out->records_n++;
    apply(c, record);
    assert(c->seq == record->seq);
}

#define EFFECT_SIZE(member) (offsetof(struct effect, member) + sizeof(((struct effect *)0)->member))

/* Only what its kind needs: there are many, and most are small. */
static size_t effect_size(enum effect_kind kind)
{
    switch (kind) {
    case EFFECT_REPLY: return EFFECT_SIZE(reply);
    case EFFECT_READY: return EFFECT_SIZE(ready);
    case EFFECT_WORK: return EFFECT_SIZE(work);
    case EFFECT_SEND: return EFFECT_SIZE(send);
    case EFFECT_ACK: return EFFECT_SIZE(ack);
    case EFFECT_STATUS: return EFFECT_SIZE(status);
    case EFFECT_ALERT: return EFFECT_SIZE(alert);
    }
    unreachable("no such effect");
}

struct effect *effect_new(struct core *c, enum effect_kind kind)
{
    assert(c->out != NULL);
    assert(!c->is_recovering); /* core_resume() says all at the end */
    assert(*c->out->last == NULL);
    struct effect *effect = arena_alloc_zero(c->out->arena, effect_size(kind));
    assert(effect != NULL);
    effect->kind = kind;
    *c->out->last = effect;
    c->out->last = &effect->next;
    return effect;
}

void reply(struct core *c, enum status status, const char *text)
{
    assert(c->in != NULL);
    assert(text != NULL);
    if (c->in->request == 0) return;
    struct effect *e = effect_new(c, EFFECT_REPLY);
    e->reply.request = c->in->request;
    e->reply.status = status;
    e->reply.text = text;
}

void reply_too_late(struct core *c, const char *text)
{
    reply(c, OK, text);
    if (c->in->request == 0) return;
    struct effect *e = container_of(c->out->last, struct effect, next);
    assert(e->kind == EFFECT_REPLY);
    e->reply.is_stale = true;
}

void reply_instance(struct core *c, const struct instance *i)
{
    assert(c->in != NULL);
    assert(i->core == c);
    assert(!i->is_purged);
    if (c->in->request == 0) return;
    struct effect *e = effect_new(c, EFFECT_REPLY);
    e->reply.request = c->in->request;
    e->reply.status = OK;
    e->reply.text = "";
    e->reply.key = copy_must(c->out->arena, i->key);
    memcpy(e->reply.execution_id, i->execution_id, EXECUTION_ID_SIZE);
}

struct bytes text_cut(struct bytes text, size_t size_max)
{
    struct bytes left = text;
    size_t size = bytes_character_size(left);
    while (size > 0 && text.len - left.len + size <= size_max) {
        left = bytes_make(left.ptr + size, left.len - size);
        size = bytes_character_size(left);
    }
    assert(left.len <= text.len);
    assert(text.len - left.len <= size_max);
    return bytes_make(text.ptr, text.len - left.len);
}

const char *step_text(struct core *c, const char *format, ...)
{
    assert(c->out != NULL);
    va_list arguments;
    va_start(arguments, format);
    char *text = arena_format(c->out->arena, format, arguments);
    va_end(arguments);
    assert(text != NULL);
    return text;
}

void alert(struct core *c, const struct instance *i, const char *text)
{
    assert(i->core == c);
    assert(text != NULL);
    c->stats.alerts++;
    struct effect *e = effect_new(c, EFFECT_ALERT);
    e->alert.key = copy_must(c->out->arena, i->key);
    e->alert.text = text;
}

_Static_assert(EXECUTION_ID_SIZE == 16, "siphash128() fills an execution id");

/* As many as a step needs from the randomness of its input. */
void new_execution_id(struct core *c, uint8_t out[EXECUTION_ID_SIZE])
{
    uint8_t count[4];
    assert(c->in != NULL);
    store_u32(count, c->ids_made++);
    siphash128(c->in->random, bytes_make(count, sizeof count), out);
}

uint64_t step_random(struct core *c)
{
    uint8_t bytes[EXECUTION_ID_SIZE];
    new_execution_id(c, bytes);
    struct reader r = reader_make(bytes_make(bytes, sizeof bytes));
    return reader_u64(&r);
}

static void apply_created(struct core *c, struct instance *i, const struct record *record)
{
    if (i == NULL)
        i = instance_new(c, record->key);
    else
        instance_clear(i);
    assert(i->history.n == 0); /* nothing of an earlier execution is left */
    assert(i->inbox.n == 0);
    assert(i->items_n == 0);
    memcpy(i->execution_id, record->execution_id, EXECUTION_ID_SIZE);
    i->status = STATUS_PENDING;
    i->start_at_ms = record->start_at_ms;
    i->created_ns = record->kind == RECORD_ADMITTED ? (int64_t)record->order : record->now_ns;
    struct event *event = event_must(i, record->event);
    bool is_read = instance_set_started(i, event);
    assert(is_read);
    event_list_add(&i->inbox, event);
    assert(!instance_has_started(i));
    c->stats.started++;
}

/* Absent and raw empty mean: none. A generation that has not set one keeps its predecessor's. */
static void apply_custom_status(struct instance *i, struct maybe status)
{
    bool is_set = status.has && status.value.len > 0;
    if (!is_set && i->is_status_carried) return;
    i->is_status_carried = false;
    if (!is_set) {
        i->custom_status = MAYBE_NONE;
    } else if (!i->custom_status.has || !bytes_equal(i->custom_status.value, status.value)) {
        i->custom_status = maybe_some(copy_must(&i->arena, status.value));
    }
    assert(i->custom_status.has == is_set);
}

static void apply_turn(struct core *c, struct instance *i, const struct record *record)
{
    buffer_clear(&c->scratch2);
    event_write_orchestrator_started(&c->scratch2, record->started_ns);
    assert(!c->scratch2.failed);
    fold_history(i, event_must(i, buffer_view(&c->scratch2)));
    fold_consume(i, record->consumed_n);
    if (i->status == STATUS_PENDING && instance_has_started(i)) i->status = STATUS_RUNNING;
    if (!record->is_engine) apply_custom_status(i, record->custom_status);
    if (record->trace.has) i->trace = maybe_some(copy_must(&i->arena, record->trace.value));

    struct reader r = reader_make(record->events);
    struct bytes one;
    while (strings_next(&r, &one)) fold_history(i, event_must(i, one));
    assert(!r.failed); /* of our own making, or checked */
    i->turns++;
    i->is_leased = false;
    i->worker = 0;
    i->failures = 0;
    i->retry_at_ms = 0;
    if (!record->is_engine) i->needs_turn = false;
    c->stats.turns++;
    if (i->completed != NULL) {
        assert(i->completed == i->history.last);
        i->completed_ns = record->now_ns;
        c->stats.finished++;
        assert(c->stats.finished <= c->stats.turns);
    }
}

static void apply_task_tried(struct instance *i, const struct record *record)
{
    struct item *item = task_find(i, record->execution_id, record->task_id);
    assert(item != NULL);
    item_unqueue(item);
    if (record->failures > item->failures) instance_set_error(i, record->reason);
    item->failures = record->failures;
    item->retry_at_ms = record->retry_at_ms;
    if (record->next == TASK_NEXT_PARKED) {
        task_set_state(item, TASK_STATE_PARKED);
        item->retry_at_ms = record->now_ns / 1000000;
    } else if (record->retry_at_ms > now_ms(i->core)) {
        task_set_state(item, TASK_STATE_WAITING);
        due_set(i->core, &item->due, DUE_TASK_RETRY, record->retry_at_ms);
    } else {
        queue_add_item(item);
    }
    assert(item->state != TASK_STATE_LEASED); /* whoever had it, has it no more */
}

static void apply_late(struct core *c, struct instance *i, const struct record *record)
{
    assert(i->late_n <= LIMIT_LATE_N);
    struct late *late = arena_alloc_zero(&i->arena, sizeof *late);
    assert(late != NULL);
    late->task_id = record->task_id;
    late->attempt = record->failures;
    late->time_ns = record->now_ns;
    late->is_success = record->is_success;
    late->answer = copy_must(&i->arena, record->event);
    struct late **at = &i->late_first;
    while (*at != NULL) at = &(*at)->next;
    *at = late;
    i->late_n++;
    if (i->late_n > LIMIT_LATE_N) {
        assert(i->late_first != late);
        i->late_first = i->late_first->next;
        i->late_n--;
    }
    c->stats.late_answers++;
}

static void apply_turn_failed(struct instance *i, const struct record *record)
{
    i->is_leased = false;
    i->worker = 0;
    i->failures = record->failures;
    i->retry_at_ms = record->retry_at_ms;
    instance_set_error(i, record->reason);
}

static void apply_purged(struct instance *i)
{
    instance_clear(i);
    assert(i->started == NULL);
    assert(i->items_n == 0);
    assert(i->inbox.n == 0);
    i->is_purged = true;
}

static void apply_task_closed(struct instance *i, const struct record *record)
{
    struct item *item = task_find(i, record->execution_id, record->task_id);
    assert(item != NULL);
    item_close(item);
}

static struct instance *apply_entity_created(struct core *c, struct instance *i,
                                             const struct record *record)
{
    if (i == NULL)
        i = instance_new(c, record->key);
    else
        instance_clear(i);
    entity_create(i, record);
    assert(entity_is_empty(i));
    return i;
}

/* Nothing of it is open: it has ended elsewhere, and is what it was there. */
static struct instance *apply_imported(struct core *c, struct instance *i,
                                       const struct record *record)
{
    struct reader r = reader_make(record->events);
    struct bytes one;
    struct event_started started;
    struct event_completed completed;
    struct event_head first;
    struct event_head last;

    if (i == NULL)
        i = instance_new(c, record->key);
    else
        instance_clear(i);
    while (strings_next(&r, &one)) {
        struct event *event = event_must(i, one);
        event_list_add(&i->history, event);
        if (event->kind != EVENT_EXECUTION_STARTED) continue;
        bool is_read = instance_set_started(i, event);
        assert(is_read);
    }
    assert(i->started != NULL); /* import_problem() has seen it, as all below */
    enum status status = event_started_decode(event_bytes(i->started), &c->temporary, &started);
    assert(status == OK);
    status = event_head_decode(event_bytes(i->started), &first);
    assert(status == OK);
    i->completed = i->history.last;
    status = event_head_decode(event_bytes(i->completed), &last);
    assert(status == OK);
    status = event_completed_decode(event_bytes(i->completed), &completed);
    assert(status == OK);
    assert(status_is_end(completed.status));
    memcpy(i->execution_id, started.execution_id, EXECUTION_ID_SIZE);
    i->status = completed.status;
    i->created_ns = first.time_ns;
    i->completed_ns = last.time_ns;
    i->updated_ns = last.time_ns;
    fold_reopen(i);
    assert(i->items_n == 0);
    return i;
}

static void apply_to_entity(struct instance *i, const struct record *record)
{
    assert(i->is_entity);
    if (record->kind == RECORD_ENTITY_MESSAGE) entity_message(i, record);
    if (record->kind == RECORD_ENTITY_BATCH) entity_batch(i, record);
    if (record->kind == RECORD_ENTITY_LOCKED) entity_lock(i);
    if (record->kind == RECORD_ENTITY_UNLOCKED) entity_unlock(i, record);
    if (record->kind == RECORD_ENTITY_DUE) entity_due(i, record->consumed_n);
}

static void apply_to_instance(struct core *c, struct instance *i, const struct record *record)
{
    assert(!i->is_purged); /* as record_is_valid() has it */
    assert(i->is_entity || i->started != NULL);
    switch (record->kind) {
    case RECORD_MESSAGE: fold_message(i, event_must(i, record->event)); break;
    case RECORD_TURN: apply_turn(c, i, record); break;
    case RECORD_CONTINUED: instance_continue(i, record); break;
    case RECORD_TURN_FAILED: apply_turn_failed(i, record); break;
    case RECORD_TASK_TRIED: apply_task_tried(i, record); break;
    case RECORD_TASK_CLOSED: apply_task_closed(i, record); break;
    case RECORD_LATE: apply_late(c, i, record); break;
    case RECORD_REWOUND:
        instance_rewind(i, record);
        i->turns++;
        break;
    case RECORD_PARKED:
        i->is_poisoned = true;
        i->is_leased = false;
        i->retry_at_ms = record->now_ns / 1000000;
        instance_set_error(i, record->reason);
        break;
    case RECORD_UNPARKED:
        i->turns++; /* failures begin again at 0: no earlier dispatch may be taken for a new one */
        i->is_poisoned = false;
        i->failures = 0;
        i->retry_at_ms = 0;
        i->last_error.len = 0;
        break;
    case RECORD_PURGED: apply_purged(i); break;
    case RECORD_RELINKED: instance_relink(i, record); break;
    case RECORD_WOKEN: i->needs_turn = true; break;
    case RECORD_ENTITY_MESSAGE:
    case RECORD_ENTITY_BATCH:
    case RECORD_ENTITY_LOCKED:
    case RECORD_ENTITY_UNLOCKED:
    case RECORD_ENTITY_DUE: apply_to_entity(i, record); break;
    case RECORD_ENTITY_CREATED:
    case RECORD_CREATED:
    case RECORD_QUEUED:
    case RECORD_ADMITTED:
    case RECORD_IMPORTED:
    case RECORD_SEND:
    case RECORD_SENT:
    case RECORD_SOURCE:
    case RECORD_RECEIVED: unreachable("not a change of one existing instance");
    }
}

/* Whoever waits for the instance learns of a change that they could wait for. */
static void tell_status(struct core *c, const struct instance *i, enum orchestration_status before)
{
    enum orchestration_status now = instance_status(i);
    if (c->out == NULL || i->is_purged || i->is_entity || now == before) return;
    struct effect *e = effect_new(c, EFFECT_STATUS);
    e->status.key = copy_must(c->out->arena, i->key);
    e->status.status = now;
}

void apply(struct core *c, const struct record *record)
{
    assert(record->seq > 0);
    if (record->seq > c->seq) c->seq = record->seq;
    if (record->now_ns > c->now_ns) c->now_ns = record->now_ns;
    if (record->kind >= RECORD_PARTITION_FIRST) {
        if (record->kind == RECORD_SOURCE)
            source_apply(c, record);
        else
            outbox_apply(c, record);
        c->partition_seq = record->seq;
        if (c->partition_dirty_lsn == 0) c->partition_dirty_lsn = c->lsn;
        return;
    }
    if (record->kind == RECORD_QUEUED) {
        queued_apply(c, record);
        return;
    }
    struct instance *i = instance_find(c, record->key);
    enum orchestration_status before = i == NULL ? STATUS_CONTINUED_AS_NEW : instance_status(i);
    bool had_ended = i != NULL && instance_is_terminal(i);
    if (record->kind == RECORD_CREATED || record->kind == RECORD_ADMITTED) {
        if (record->kind == RECORD_ADMITTED) admitted_apply(c, record);
        apply_created(c, i, record);
        i = instance_find(c, record->key);
    } else if (record->kind == RECORD_ENTITY_CREATED) {
        i = apply_entity_created(c, i, record);
    } else if (record->kind == RECORD_IMPORTED) {
        i = apply_imported(c, i, record);
    } else {
        assert(i != NULL);
        assert(record->seq > i->seq);
        apply_to_instance(c, i, record);
    }
    assert(status_is_end(i->status) == instance_is_terminal(i));
    i->seq = record->seq;
    /* A late answer is kept beside an ended instance, which is what it was (A5). */
    bool is_changed = !had_ended || !instance_is_terminal(i);
    if (is_changed && record->kind != RECORD_IMPORTED) i->updated_ns = record->now_ns;
    turn_schedule(i);
    instance_touched(i);
    tell_status(c, i, before);
}
