/* SPDX-License-Identifier: Apache-2.0
 *
 * An instance as bytes, for the archive, and back. Only what cannot be folded from the events
 * stands beside them: counters, times, and how far a task that was tried before has come.
 */
#include "core/limits.h"
#include "core/state.h"

#include "base/planted.h"

/* Orchestrations are written in version 1, entities in version 2, which a program that knows none
 * refuses. */
#define SNAPSHOT_VERSION 1
#define SNAPSHOT_VERSION_ENTITY 2

#define FLAG_NEEDS_TURN 1u
#define FLAG_STATUS_CARRIED 2u
#define FLAG_POISONED 4u
#define FLAG_SUSPENDED 8u
_Static_assert((FLAG_NEEDS_TURN ^ FLAG_STATUS_CARRIED ^ FLAG_POISONED ^ FLAG_SUSPENDED) == 15u,
               "the flags are different bits");

static void put_maybe(struct buffer *b, struct maybe value)
{
    buffer_u8(b, value.has ? 1 : 0);
    if (value.has) buffer_bytes(b, value.value);
}

static struct maybe get_maybe(struct reader *r)
{
    if (reader_u8(r) == 0) return MAYBE_NONE;
    return maybe_some(reader_bytes(r));
}

static void put_events(struct buffer *out, const struct event_list *list)
{
    size_t size = 0;
    for (const struct event *e = list->first; e != NULL; e = e->next) {
        size += varint_size(e->len) + e->len;
    }
    buffer_varint(out, size);
    size_t start = out->len;
    for (const struct event *e = list->first; e != NULL; e = e->next) {
        strings_add(out, event_bytes(e));
    }
    assert(out->failed || out->len - start == size);
}

/* A lease does not survive: what is leased now is queued after a load. */
static bool is_remarkable(const struct item *item)
{
    return item->kind == ITEM_TASK &&
           (item->is_detached || item->failures > 0 || item->state == TASK_STATE_PARKED);
}

static void put_items(struct buffer *out, const struct instance *i)
{
    uint32_t n = 0;
    for (struct list *m = list_first(&i->items); m != NULL; m = list_next(&i->items, m)) {
        if (is_remarkable(container_of(m, struct item, of_instance))) n++;
    }
    buffer_varint(out, n);
    for (struct list *m = list_first(&i->items); m != NULL; m = list_next(&i->items, m)) {
        const struct item *item = container_of(m, struct item, of_instance);
        if (!is_remarkable(item)) continue;
        assert(n > 0);
        n--;
        buffer_signed(out, item->id);
        buffer_u8(out, (uint8_t)((item->is_detached ? 1 : 0) |
                                 (item->state == TASK_STATE_PARKED ? 2 : 0)));
        buffer_varint(out, item->failures);
        buffer_signed(out, item->retry_at_ms);
        if (!item->is_detached) continue;
        buffer_append(out, item->execution_id, EXECUTION_ID_SIZE);
        buffer_bytes(out, event_bytes(item->created));
    }
    assert(n == 0); /* as many as announced */
}

static void put_late(struct buffer *out, const struct instance *i)
{
    assert(i->late_n <= LIMIT_LATE_N); /* or load_late() would refuse it */
    uint32_t n = 0;
    buffer_varint(out, i->late_n);
    for (const struct late *l = i->late_first; l != NULL; l = l->next, n++) {
        buffer_signed(out, l->task_id);
        buffer_varint(out, l->attempt);
        buffer_signed(out, l->time_ns);
        buffer_u8(out, l->is_success ? 1 : 0);
        buffer_bytes(out, l->answer);
    }
    assert(n == i->late_n);
}

static uint8_t flags_of(const struct instance *i)
{
    return (uint8_t)((i->needs_turn ? FLAG_NEEDS_TURN : 0) |
                     (i->is_status_carried ? FLAG_STATUS_CARRIED : 0) |
                     (i->is_poisoned ? FLAG_POISONED : 0) | (i->is_suspended ? FLAG_SUSPENDED : 0));
}

/* What an entity has instead of items and late answers. */
static void put_entity(struct buffer *out, const struct instance *i)
{
    uint32_t n = 0;
    assert(i->is_entity);
    assert(i->lock != NULL || i->held.n == 0); /* or loaded_entity_is_valid() would refuse it */
    put_maybe(out, i->state);
    put_events(out, &i->held);
    buffer_bytes(out, i->lock == NULL ? BYTES_NONE : event_bytes(i->lock));
    buffer_varint(out, i->delayed_n);
    for (const struct delayed *d = i->delayed; d != NULL; d = d->next) {
        buffer_signed(out, d->at_ms);
        buffer_bytes(out, event_bytes(d->event));
        n++;
    }
    assert(n == i->delayed_n);
}

static void instance_snapshot(const struct instance *i, struct buffer *out)
{
    assert(!i->is_purged);
    assert(i->is_entity == (i->started == NULL));
    assert(i->seq > 0); /* or head_read() would refuse it, as all that follows */
    assert(i->seq <= RECORD_SEQ_MAX);
    assert(i->is_entity || status_is_end(i->status) == (i->completed != NULL));
    assert(!i->is_entity || i->history.n == 0);
    buffer_u8(out, i->is_entity ? SNAPSHOT_VERSION_ENTITY : SNAPSHOT_VERSION);
    buffer_bytes(out, i->key);
    buffer_u8(out, flags_of(i));
    buffer_u8(out, (uint8_t)i->status);
    buffer_append(out, i->execution_id, EXECUTION_ID_SIZE);
    buffer_varint(out, i->seq);
    buffer_signed(out, i->created_ns);
    buffer_signed(out, i->updated_ns);
    buffer_signed(out, i->completed_ns);
    buffer_signed(out, i->start_at_ms);
    buffer_varint(out, i->turns);
    buffer_varint(out, i->failures);
    buffer_signed(out, i->retry_at_ms);
    put_maybe(out, i->custom_status);
    put_maybe(out, i->trace);
    buffer_bytes(out, i->last_error);
    put_events(out, &i->history);
    put_events(out, &i->inbox);
    if (i->is_entity) {
        put_entity(out, i);
        return;
    }
    put_items(out, i);
    put_late(out, i);
}

bool core_snapshot(const struct core *c, struct bytes key, struct buffer *out)
{
    const struct instance *i = instance_find_live(c, key);
    if (i == NULL) return false;
    instance_snapshot(i, out);
    return true;
}

/* ---- reading ---- */

struct snapshot_head {
    bool is_entity;
    struct bytes key;
    uint8_t flags;
    enum orchestration_status status;
    struct bytes execution_id;
    uint64_t seq;
    int64_t created_ns;
    int64_t updated_ns;
    int64_t completed_ns;
    int64_t start_at_ms;
    uint64_t turns;
    uint32_t failures;
    int64_t retry_at_ms;
    struct maybe custom_status;
    struct maybe trace;
    struct bytes last_error;
    struct bytes history;
    struct bytes inbox;
};

/* Leaves r at the items, or at the rest of an entity. */
static enum status head_read(struct reader *r, struct snapshot_head *out)
{
    uint8_t version = reader_u8(r);
    if (r->failed) return E_CORRUPT;
    if (version > SNAPSHOT_VERSION_ENTITY) return E_VERSION;
    if (version < SNAPSHOT_VERSION) return E_CORRUPT;
    out->is_entity = version == SNAPSHOT_VERSION_ENTITY;
    out->key = reader_bytes(r);
    out->flags = reader_u8(r);
    out->status = (enum orchestration_status)reader_u8(r);
    out->execution_id = reader_take(r, EXECUTION_ID_SIZE);
    out->seq = reader_varint(r);
    out->created_ns = reader_signed(r);
    out->updated_ns = reader_signed(r);
    out->completed_ns = reader_signed(r);
    out->start_at_ms = reader_signed(r);
    out->turns = reader_varint(r);
    out->failures = (uint32_t)reader_varint(r);
    out->retry_at_ms = reader_signed(r);
    out->custom_status = get_maybe(r);
    out->trace = get_maybe(r);
    out->last_error = reader_bytes(r);
    out->history = reader_bytes(r);
    out->inbox = reader_bytes(r);
    if (r->failed || out->seq == 0 || out->seq > RECORD_SEQ_MAX) return E_CORRUPT;
    if (out->execution_id.len != EXECUTION_ID_SIZE) return E_CORRUPT;
    if (!key_is_valid(out->key)) return E_CORRUPT;
    return OK;
}

/* The rest of an entity; the lists as strings. */
struct snapshot_entity {
    struct maybe state;
    struct bytes held;
    struct bytes lock;
    uint64_t delayed_n;
};

/* Leaves r at the signals that wait for their time. */
static bool entity_read(struct reader *r, struct snapshot_entity *out)
{
    out->state = get_maybe(r);
    out->held = reader_bytes(r);
    out->lock = reader_bytes(r);
    out->delayed_n = reader_varint(r);
    return !r->failed;
}

static bool load_events(struct instance *i, struct bytes packed, struct event_list *list)
{
    struct reader r = reader_make(packed);
    struct bytes one;
    assert(list->n == 0);
    while (strings_next(&r, &one)) {
        struct event *event = event_new(i, one);
        if (event == NULL) return false;
        if (event->kind == EVENT_EXECUTION_STARTED && !instance_set_started(i, event)) return false;
        if (event->kind == EVENT_EXECUTION_COMPLETED) {
            struct event_completed completed;
            if (event_completed_decode(event_bytes(event), &completed) != OK) return false;
            i->completed = event;
        }
        event_list_add(list, event);
    }
    return !r.failed;
}

/* One that was tried before, or was left behind by an ended execution. */
static bool load_item(struct instance *i, struct reader *r)
{
    int32_t id = (int32_t)reader_signed(r);
    uint8_t flags = reader_u8(r);
    uint32_t failures = (uint32_t)reader_varint(r);
    int64_t retry_at_ms = reader_signed(r);
    struct item *item = NULL;

    if (flags & 1) {
        struct bytes execution = reader_take(r, EXECUTION_ID_SIZE);
        struct bytes bytes = reader_bytes(r);
        if (r->failed) return false;
        struct event *event = event_new(i, bytes);
        if (event == NULL || !task_event_is_valid(i->core, bytes)) return false;
        assert(execution.len == EXECUTION_ID_SIZE);
        item = item_open_detached(i, event, execution.ptr);
    } else {
        item = item_find(i, id, ITEM_TASK);
    }
    if (item == NULL || r->failed) return false;
    assert(item->kind == ITEM_TASK);
    item->failures = failures;
    item->retry_at_ms = retry_at_ms;
    item_unqueue(item);
    if (flags & 2) {
        task_set_state(item, TASK_STATE_PARKED);
    } else if (retry_at_ms > now_ms(i->core)) {
        task_set_state(item, TASK_STATE_WAITING);
        due_set(i->core, &item->due, DUE_TASK_RETRY, retry_at_ms);
    } else {
        queue_add_item(item);
    }
    assert(item->state != TASK_STATE_NONE);
    assert(item->state != TASK_STATE_LEASED); /* which is not durable */
    return true;
}

static bool load_late(struct instance *i, struct reader *r)
{
    uint64_t n = reader_varint(r);
    struct late **at = &i->late_first;
    assert(i->late_n == 0);
    if (n > LIMIT_LATE_N) return false;
    for (; n > 0 && !r->failed; n--) {
        struct late *late = arena_alloc_zero(&i->arena, sizeof *late);
        assert(late != NULL);
        late->task_id = (int32_t)reader_signed(r);
        late->attempt = (uint32_t)reader_varint(r);
        late->time_ns = reader_signed(r);
        late->is_success = reader_u8(r) != 0;
        late->answer = copy_must(&i->arena, reader_bytes(r));
        *at = late;
        at = &late->next;
        i->late_n++;
    }
    assert(i->late_n <= LIMIT_LATE_N);
    return !r->failed;
}

static void load_head(struct instance *i, const struct snapshot_head *head)
{
    assert(head->execution_id.len == EXECUTION_ID_SIZE); /* head_read() has seen to it */
    assert(head->seq > 0);
    memcpy(i->execution_id, head->execution_id.ptr, EXECUTION_ID_SIZE);
    i->seq = head->seq;
    i->status = head->status;
    i->needs_turn = (head->flags & FLAG_NEEDS_TURN) != 0;
    i->is_status_carried = (head->flags & FLAG_STATUS_CARRIED) != 0;
    i->is_poisoned = (head->flags & FLAG_POISONED) != 0;
    i->is_suspended = (head->flags & FLAG_SUSPENDED) != 0;
    i->created_ns = head->created_ns;
    i->updated_ns = head->updated_ns;
    i->completed_ns = head->completed_ns;
    i->start_at_ms = head->start_at_ms;
    i->turns = head->turns;
    i->failures = head->failures;
    i->retry_at_ms = head->retry_at_ms;
    i->last_error = copy_must(&i->arena, head->last_error);
    if (head->custom_status.has) {
        i->custom_status = maybe_some(copy_must(&i->arena, head->custom_status.value));
    }
    if (head->trace.has) i->trace = maybe_some(copy_must(&i->arena, head->trace.value));
}

static bool load_delayed(struct instance *i, struct reader *r, uint64_t n)
{
    assert(i->delayed_n == 0);
    for (; n > 0; n--) {
        int64_t at_ms = reader_signed(r);
        struct bytes bytes = reader_bytes(r);
        if (r->failed) return false;
        struct event *event = event_new(i, bytes);
        if (event == NULL) return false;
        entity_delay(i, event, at_ms);
    }
    return true;
}

static bool load_entity(struct instance *i, const struct snapshot_head *head, struct reader *r)
{
    struct snapshot_entity entity;
    assert(head->is_entity);
    load_head(i, head);
    i->is_entity = true;
    if (!entity_read(r, &entity) || head->history.len > 0) return false;
    if (entity.state.has) i->state = maybe_some(copy_must(&i->arena, entity.state.value));
    bool is_forgotten = planted("forget_inbox");
    if (!is_forgotten && !load_events(i, head->inbox, &i->inbox)) return false;
    if (!load_events(i, entity.held, &i->held)) return false;
    if (entity.lock.len > 0) {
        struct event *lock = event_new(i, entity.lock);
        if (lock == NULL || !entity_lock_set(i, lock)) return false;
    }
    return load_delayed(i, r, entity.delayed_n) && reader_is_done(r) &&
           loaded_entity_is_valid(i->core, i);
}

static bool load_body(struct instance *i, const struct snapshot_head *head, struct reader *r)
{
    if (head->is_entity) return load_entity(i, head, r);
    load_head(i, head);
    if (!load_events(i, head->history, &i->history)) return false;
    bool is_forgotten = planted("forget_inbox") && i->started != NULL;
    if (!is_forgotten && !load_events(i, head->inbox, &i->inbox)) return false;
    if (!loaded_is_valid(i->core, i)) return false;
    assert(i->started != NULL); /* loaded_is_valid() has counted the starts */
    fold_reopen(i);
    assert(i->completed == NULL || i->items_n == 0);
    uint64_t items_n = reader_varint(r);
    for (; items_n > 0; items_n--) {
        if (!load_item(i, r)) return false;
    }
    return load_late(i, r) && reader_is_done(r);
}

enum status core_load(struct core *c, struct bytes snapshot, struct output *out)
{
    struct snapshot_head head;
    struct reader r = reader_make(snapshot);
    assert(c->in == NULL); /* not from inside a step */
    assert(c->out == NULL);
    assert(out == NULL || !c->is_recovering);
    enum status status = head_read(&r, &head);
    if (status != OK) return status;
    if (instance_find(c, head.key) != NULL) return E_EXISTS;
    /* small events and items are larger in memory than in the snapshot */
    size_t events_n = (size_t)strings_count(head.history) + strings_count(head.inbox);
    size_t size = 4 * snapshot.len + 640 * events_n + 64 * reader_left(&r);
    if (!reserve_load(c, size)) return E_NOMEM;

    arena_reset(&c->temporary);
    c->out = out;
    struct instance *i = instance_new(c, head.key);
    if (load_body(i, &head, &r)) {
        i->is_archived = true;
        i->archived_seq = i->seq;
        assert(i->seq == head.seq);
        assert(i->is_entity == head.is_entity);
        if (i->seq > c->seq) c->seq = i->seq;
        turn_schedule(i);
        instance_sort(i);
        assert(i->dirty_lsn == 0); /* the archive has it */
        instance_check(i);
    } else {
        instance_drop(i);
        status = E_CORRUPT;
    }
    c->out = NULL;
    return status;
}

static void view_event(struct bytes bytes, struct arena *arena, struct instance_view *out)
{
    struct event_head head;
    struct event_started started;
    struct event_completed completed;
    if (event_head_decode(bytes, &head) != OK) return;
    if (head.kind == EVENT_EXECUTION_STARTED &&
        event_started_decode(bytes, arena, &started) == OK) {
        out->name = started.name;
        out->version = started.version;
        out->input = started.input;
        out->tags = started.tags;
        if (started.has_parent) out->parent_id = started.parent.instance_id;
    }
    if (head.kind == EVENT_EXECUTION_COMPLETED && event_completed_decode(bytes, &completed) == OK) {
        out->is_terminal = true;
        out->output = completed.result;
        out->failure = completed.failure;
    }
}

static enum status view_entity(struct reader *r, const struct snapshot_head *head,
                               struct arena *arena, struct instance_view *out)
{
    struct snapshot_entity entity;
    struct event_entity lock;
    if (!entity_read(r, &entity)) return E_CORRUPT;
    out->is_entity = true;
    out->entity_state = entity.state;
    out->backlog_n =
        strings_count(head->inbox) + strings_count(entity.held) + (uint32_t)entity.delayed_n;
    if (entity.lock.len == 0) return OK;
    if (event_entity_decode(entity.lock, arena, &lock) != OK) return E_CORRUPT;
    out->locked_by = lock.parent;
    return OK;
}

enum status snapshot_view(struct bytes snapshot, struct arena *arena, struct instance_view *out)
{
    struct snapshot_head head;
    struct reader r = reader_make(snapshot);
    enum status status = head_read(&r, &head);
    if (status != OK) return status;

    *out = (struct instance_view){
        .key = head.key,
        .seq = head.seq,
        .status = head.status,
        .custom_status = head.custom_status,
        .created_ns = head.created_ns,
        .updated_ns = head.updated_ns,
        .completed_ns = head.completed_ns,
        .scheduled_ms = head.start_at_ms,
        .history_n = strings_count(head.history),
        .history_size = head.history.len,
        .inbox_n = strings_count(head.inbox),
        .wake_ms = INT64_MAX,
        .is_archived = true,
        .is_parked = (head.flags & FLAG_POISONED) != 0,
    };
    assert(head.execution_id.len == EXECUTION_ID_SIZE);
    memcpy(out->execution_id, head.execution_id.ptr, EXECUTION_ID_SIZE);
    struct bytes lists[] = {head.history, head.inbox};
    for (size_t n = 0; n < 2; n++) {
        struct reader events = reader_make(lists[n]);
        struct bytes one;
        while (strings_next(&events, &one)) view_event(one, arena, out);
    }
    if (!out->is_terminal && (head.flags & FLAG_SUSPENDED)) out->status = STATUS_SUSPENDED;
    if (out->is_terminal) out->is_parked = false;
    return head.is_entity ? view_entity(&r, &head, arena, out) : OK;
}

enum status snapshot_history(struct bytes snapshot, struct bytes *events)
{
    struct snapshot_head head;
    struct reader r = reader_make(snapshot);
    enum status status = head_read(&r, &head);
    if (status == OK) *events = head.history;
    return status;
}

enum status snapshot_execution(struct bytes snapshot, uint8_t out[EXECUTION_ID_SIZE])
{
    struct snapshot_head head;
    struct reader r = reader_make(snapshot);
    enum status status = head_read(&r, &head);
    if (status != OK) return status;
    memcpy(out, head.execution_id.ptr, EXECUTION_ID_SIZE);
    return OK;
}

enum status snapshot_children(struct bytes snapshot, struct arena *arena, struct buffer *out)
{
    struct bytes events, one;
    enum status status = snapshot_history(snapshot, &events);
    if (status != OK) return status;
    struct reader r = reader_make(events);
    while (strings_next(&r, &one)) {
        struct event_head head;
        struct event_scheduled child;
        if (event_head_decode(one, &head) != OK || head.kind != EVENT_CHILD_CREATED) continue;
        if (event_scheduled_decode(one, arena, &child) == OK) strings_add(out, child.instance_id);
    }
    if (r.failed) return E_CORRUPT;
    return out->failed ? E_NOMEM : OK;
}

enum status queued_view(struct bytes bytes, struct arena *arena, struct instance_view *out)
{
    struct reader r = reader_make(bytes);
    struct record record;
    if (record_decode(&r, &record) != OK || !reader_is_done(&r)) return E_CORRUPT;
    if (record.kind != RECORD_QUEUED) return E_CORRUPT;
    *out = (struct instance_view){
        .key = record.key,
        .seq = record.seq,
        .status = STATUS_PENDING,
        .created_ns = (int64_t)record.order,
        .updated_ns = (int64_t)record.order,
        .inbox_n = 1,
    };
    memcpy(out->execution_id, record.execution_id, EXECUTION_ID_SIZE);
    view_event(record.event, arena, out);
    return out->name.len > 0 ? OK : E_CORRUPT;
}

/* A lease is volatile: live and reloaded states have the same digest. */
uint64_t core_digest(const struct core *c)
{
    uint64_t digest = c->seq;
    struct buffer bytes;
    buffer_init(&bytes, c->mem);
    for (struct list *n = list_first(&c->all); n != NULL; n = list_next(&c->all, n)) {
        const struct instance *i = container_of(n, struct instance, all);
        buffer_clear(&bytes);
        if (i->is_purged)
            buffer_bytes(&bytes, i->key);
        else
            instance_snapshot(i, &bytes);
        assert(!bytes.failed);
        digest += bytes_hash(buffer_view(&bytes));
    }
    buffer_clear(&bytes);
    outbox_snapshot(c, &bytes);
    sources_snapshot(c, &bytes);
    assert(!bytes.failed);
    digest += bytes_hash(buffer_view(&bytes));
    if (c->backlog != NULL) digest += backlog_digest(c->backlog, c->options.partition);
    buffer_release(&bytes);
    return digest;
}
