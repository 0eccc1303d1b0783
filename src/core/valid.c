/* SPDX-License-Identifier: Apache-2.0
 *
 * What comes from the disk is checked before it is folded, however good its checksum is: the folds
 * assert what they rely on, and a damaged or foreign record must be E_CORRUPT, not a crash after
 * every restart.
 */
#include "core/state.h"

/* What an orchestration sends to entities. */
static bool is_for_entity(enum event_kind kind)
{
    return kind == EVENT_ENTITY_SIGNALED || kind == EVENT_ENTITY_CALLED ||
           kind == EVENT_ENTITY_LOCK_REQUESTED || kind == EVENT_ENTITY_UNLOCK_SENT;
}

/* Everything that will be decoded from this event can be. */
static bool event_is_sound(struct core *c, struct bytes event, struct event_head *head)
{
    struct event_started started;
    struct event_scheduled scheduled;
    struct event_completed completed;
    struct event_entity entity;
    int64_t fire_at_ms = 0;

    if (event.len > UINT32_MAX || event_head_decode(event, head) != OK) return false;
    if (head->kind == EVENT_EXECUTION_STARTED) {
        return event_started_decode(event, &c->temporary, &started) == OK;
    }
    if (head->kind == EVENT_TASK_SCHEDULED || head->kind == EVENT_CHILD_CREATED) {
        return event_scheduled_decode(event, &c->temporary, &scheduled) == OK;
    }
    if (head->kind == EVENT_TIMER_CREATED) return event_fire_at_decode(event, &fire_at_ms) == OK;
    if (head->kind == EVENT_EXECUTION_COMPLETED) {
        return event_completed_decode(event, &completed) == OK && status_is_end(completed.status);
    }
    if (is_for_entity(head->kind)) return event_entity_decode(event, &c->temporary, &entity) == OK;
    return true;
}

static bool opens_item(enum event_kind kind)
{
    return kind == EVENT_TASK_SCHEDULED || kind == EVENT_TIMER_CREATED ||
           kind == EVENT_CHILD_CREATED;
}

/* What may come into an inbox after its ExecutionStarted. */
static bool is_message(enum event_kind kind)
{
    return kind == EVENT_TASK_COMPLETED || kind == EVENT_TASK_FAILED || kind == EVENT_TIMER_FIRED ||
           kind == EVENT_CHILD_COMPLETED || kind == EVENT_CHILD_FAILED ||
           kind == EVENT_EVENT_RAISED || kind == EVENT_EXECUTION_SUSPENDED ||
           kind == EVENT_EXECUTION_RESUMED || kind == EVENT_ENTITY_COMPLETED ||
           kind == EVENT_ENTITY_FAILED || kind == EVENT_ENTITY_LOCK_GRANTED;
}

/* What a turn adds to the history besides what it consumes. */
static bool is_of_turn(enum event_kind kind)
{
    return opens_item(kind) || is_for_entity(kind) || kind == EVENT_EVENT_SENT ||
           kind == EVENT_EXECUTION_SUSPENDED || kind == EVENT_EXECUTION_TERMINATED ||
           kind == EVENT_EXECUTION_COMPLETED;
}

/* No id is used twice at once; as in from_worker.c, searched only where they do not grow. */
static bool ids_are_free(const struct instance *i, uint32_t consumed_n, struct bytes events)
{
    struct reader r = reader_make(events);
    struct bytes one;
    struct event_head head;
    struct id_set set;
    ids_in_use(i, consumed_n, strings_count(events), &set);
    while (strings_next(&r, &one)) {
        if (event_peek(one, &head) != OK) return false;
        if (!opens_item(head.kind)) continue;
        if (head.id < 0 || !id_set_add(&set, head.id)) return false;
    }
    return true;
}

static bool turn_is_valid(struct core *c, const struct instance *i, uint32_t consumed_n,
                          struct bytes events)
{
    struct reader r = reader_make(events);
    struct bytes one;
    struct event_head head;
    int32_t id_last = i->id_max;
    assert(consumed_n <= i->inbox.n);
    assert(!instance_is_terminal(i));
    bool is_over = false;
    bool is_growing = true;
    while (strings_next(&r, &one)) {
        if (is_over || !event_is_sound(c, one, &head) || !is_of_turn(head.kind)) return false;
        is_over = head.kind == EVENT_EXECUTION_COMPLETED;
        if (!opens_item(head.kind)) continue;
        if (head.id <= id_last) is_growing = false;
        id_last = head.id;
    }
    return !r.failed && (is_growing || ids_are_free(i, consumed_n, events));
}

static bool all_are_raised(struct core *c, struct bytes events)
{
    struct reader r = reader_make(events);
    struct bytes one;
    struct event_head head;
    while (strings_next(&r, &one)) {
        if (!event_is_sound(c, one, &head) || head.kind != EVENT_EVENT_RAISED) return false;
    }
    return !r.failed;
}

static bool is_event_of_kind(struct core *c, struct bytes event, enum event_kind kind)
{
    struct event_head head;
    return event_is_sound(c, event, &head) && head.kind == kind;
}

static bool partition_record_is_valid(const struct core *c, const struct record *record)
{
    assert(record->kind >= RECORD_PARTITION_FIRST);
    if (record->kind == RECORD_SOURCE) return source_record_is_valid(c, record);
    if (record->peer >= c->options.partitions_n) return false;
    const struct peer *peer = &c->peers[record->peer];
    if (record->kind == RECORD_SEND) {
        return record->message_seq == peer->sent_seq + 1 && key_is_valid(record->target);
    }
    if (record->kind == RECORD_RECEIVED) return record->message_seq == peer->received_seq + 1;
    return true;
}

bool key_is_valid(struct bytes key) { return key.len > 0 && memchr(key.ptr, '/', key.len) != NULL; }

/* Comes to its inbox, now or later. */
static bool is_entity_message(struct core *c, const struct instance *i, struct bytes event,
                              bool is_later)
{
    struct event_head head;
    struct event_entity entity;
    assert(i->is_entity);
    if (!event_is_sound(c, event, &head) ||
        !entity_event_is_sound(c, key_id(i->key), event, &entity)) {
        return false;
    }
    if (is_later) return entity.kind == EVENT_ENTITY_SIGNALED;
    return entity.kind != EVENT_ENTITY_UNLOCK_SENT;
}

/* A batch ends before a lock request. */
static bool has_operations(const struct instance *i, uint32_t n)
{
    const struct event *e = entity_operations((struct instance *)i)->first;
    for (; n > 0 && e != NULL && e->kind != EVENT_ENTITY_LOCK_REQUESTED; n--) e = e->next;
    return n == 0;
}

static bool entity_record_is_valid(struct core *c, const struct instance *i,
                                   const struct record *record)
{
    struct event_entity entity;
    assert(!i->is_leased); /* nothing is, in a recovery */
    if (record->kind == RECORD_ENTITY_MESSAGE)
        return is_entity_message(c, i, record->event, record->start_at_ms != 0);
    if (record->kind == RECORD_ENTITY_BATCH) return has_operations(i, record->consumed_n);
    if (record->kind == RECORD_ENTITY_LOCKED) {
        return i->lock == NULL && i->inbox.first != NULL &&
               i->inbox.first->kind == EVENT_ENTITY_LOCK_REQUESTED;
    }
    if (record->kind == RECORD_ENTITY_UNLOCKED) {
        return event_entity_decode(record->event, &c->temporary, &entity) == OK &&
               entity.kind == EVENT_ENTITY_UNLOCK_SENT;
    }
    if (record->kind == RECORD_ENTITY_DUE) return record->consumed_n <= i->delayed_n;
    return record->kind == RECORD_TURN_FAILED || record->kind == RECORD_PARKED ||
           record->kind == RECORD_UNPARKED || record->kind == RECORD_PURGED;
}

bool record_is_valid(struct core *c, const struct instance *i, const struct record *record)
{
    struct event_head head;
    assert(c->is_recovering); /* the handlers decide nothing that is not */
    assert(i == NULL || bytes_equal(i->key, record->key));
    if (record->kind >= RECORD_PARTITION_FIRST) return partition_record_is_valid(c, record);
    if (!key_is_valid(record->key)) return false;
    if (record->kind == RECORD_QUEUED) {
        return record->order > 0 && record->order <= INT64_MAX && record->name.len > 0 &&
               is_event_of_kind(c, record->event, EVENT_EXECUTION_STARTED);
    }
    if (record->kind == RECORD_ADMITTED && record->order > INT64_MAX) return false;
    if (record->kind == RECORD_CREATED || record->kind == RECORD_ADMITTED) {
        return (i == NULL || !i->is_entity) &&
               is_event_of_kind(c, record->event, EVENT_EXECUTION_STARTED);
    }
    if (record->kind == RECORD_ENTITY_CREATED) {
        return entity_id_name(key_id(record->key)).len > 0 && (i == NULL || i->is_purged);
    }
    if (record->kind == RECORD_IMPORTED) {
        struct imported imported;
        return (i == NULL || i->is_purged) &&
               import_problem(c, record->events, &imported) == NULL && imported.has_end;
    }
    if (i != NULL && i->is_entity) return entity_record_is_valid(c, i, record);
    if (i == NULL || i->started == NULL) return false;
    switch (record->kind) {
    case RECORD_MESSAGE:
        return !instance_is_terminal(i) && event_is_sound(c, record->event, &head) &&
               is_message(head.kind);
    case RECORD_TURN:
        return !instance_is_terminal(i) && record->consumed_n <= i->inbox.n &&
               turn_is_valid(c, i, record->consumed_n, record->events);
    case RECORD_CONTINUED:
        return !instance_is_terminal(i) &&
               is_event_of_kind(c, record->event, EVENT_EXECUTION_STARTED) &&
               all_are_raised(c, record->events);
    case RECORD_TASK_TRIED:
    case RECORD_TASK_CLOSED: return task_find(i, record->execution_id, record->task_id) != NULL;
    case RECORD_REWOUND:
        return instance_is_terminal(i) &&
               is_event_of_kind(c, record->event, EVENT_EXECUTION_REWOUND);
    case RECORD_WOKEN: return !instance_is_terminal(i);
    case RECORD_TURN_FAILED:
    case RECORD_LATE:
    case RECORD_PARKED:
    case RECORD_UNPARKED:
    case RECORD_PURGED:
    case RECORD_RELINKED: return true;
    case RECORD_ENTITY_CREATED:
    case RECORD_ENTITY_MESSAGE:
    case RECORD_ENTITY_BATCH:
    case RECORD_ENTITY_LOCKED:
    case RECORD_ENTITY_UNLOCKED:
    case RECORD_ENTITY_DUE:
    case RECORD_CREATED:
    case RECORD_QUEUED:
    case RECORD_ADMITTED:
    case RECORD_IMPORTED:
    case RECORD_SEND:
    case RECORD_SENT:
    case RECORD_SOURCE:
    case RECORD_RECEIVED: break;
    }
    return false;
}

/* ---- snapshots ---- */

static bool history_is_valid(struct core *c, const struct event_list *history, uint32_t *starts_n)
{
    struct event_head head;
    if (history->first != NULL && history->first->kind != EVENT_ORCHESTRATOR_STARTED) return false;
    for (const struct event *e = history->first; e != NULL; e = e->next) {
        if (!event_is_sound(c, event_bytes(e), &head)) return false;
        if (e->kind == EVENT_EXECUTION_STARTED) ++*starts_n;
        if (e->kind == EVENT_EXECUTION_COMPLETED && e->next != NULL) return false;
    }
    return true;
}

static bool inbox_is_valid(struct core *c, const struct event_list *inbox, uint32_t *starts_n)
{
    struct event_head head;
    for (const struct event *e = inbox->first; e != NULL; e = e->next) {
        if (!event_is_sound(c, event_bytes(e), &head)) return false;
        bool is_start = e == inbox->first && e->kind == EVENT_EXECUTION_STARTED;
        if (is_start) ++*starts_n;
        if (!is_start && !is_message(e->kind)) return false;
    }
    return true;
}

/* Something with the id of e was begun before it and is not answered yet. */
static bool is_id_in_use(const struct event_list *history, const struct event *e)
{
    const struct event *open = NULL;
    assert(opens_item(e->kind));
    for (const struct event *b = history->first; b != e; b = b->next) {
        if (opens_item(b->kind) && b->id == e->id) open = b;
        if (open != NULL && event_answers(b, open)) open = NULL;
    }
    return open != NULL;
}

/* Ids grow in nearly every history; only what does not is searched. */
static bool items_are_distinct(const struct event_list *history)
{
    int32_t id_last = INT32_MIN;
    for (const struct event *e = history->first; e != NULL; e = e->next) {
        if (!opens_item(e->kind)) continue;
        if (e->id < 0) return false;
        if (e->id <= id_last && is_id_in_use(history, e)) return false;
        if (e->id > id_last) id_last = e->id;
    }
    return true;
}

static bool status_is_valid(const struct instance *i)
{
    struct event_completed completed;
    if (i->completed == NULL) return i->status == STATUS_PENDING || i->status == STATUS_RUNNING;
    if (i->completed != i->history.last) return false;
    return event_completed_decode(event_bytes(i->completed), &completed) == OK &&
           completed.status == i->status;
}

bool loaded_is_valid(struct core *c, const struct instance *i)
{
    uint32_t starts_n = 0;
    assert(i->items_n == 0); /* nothing has been folded yet */
    assert(!i->is_entity);
    return history_is_valid(c, &i->history, &starts_n) && inbox_is_valid(c, &i->inbox, &starts_n) &&
           starts_n == 1 && items_are_distinct(&i->history) && status_is_valid(i);
}

static bool operations_are_valid(struct core *c, const struct instance *i,
                                 const struct event_list *list)
{
    for (const struct event *e = list->first; e != NULL; e = e->next) {
        if (!is_entity_message(c, i, event_bytes(e), false)) return false;
    }
    return true;
}

bool loaded_entity_is_valid(struct core *c, const struct instance *i)
{
    struct event_entity lock;
    assert(i->is_entity);
    if (entity_id_name(key_id(i->key)).len == 0 || i->status != STATUS_RUNNING) return false;
    if (i->completed != NULL || i->started != NULL || i->is_suspended || i->needs_turn)
        return false;
    if (!operations_are_valid(c, i, &i->inbox) || !operations_are_valid(c, i, &i->held))
        return false;
    for (const struct event *e = i->held.first; e != NULL; e = e->next) {
        if (i->lock == NULL || e->kind != EVENT_ENTITY_CALLED) return false;
    }
    if (i->lock != NULL && !entity_event_is_sound(c, key_id(i->key), event_bytes(i->lock), &lock)) {
        return false;
    }
    for (const struct delayed *d = i->delayed; d != NULL; d = d->next) {
        if (!is_entity_message(c, i, event_bytes(d->event), true)) return false;
    }
    return true;
}

bool task_event_is_valid(struct core *c, struct bytes event)
{
    return is_event_of_kind(c, event, EVENT_TASK_SCHEDULED);
}

/* ---- imports ---- */

/* Steps that searches for ids which do not grow may take together: histories that an engine wrote
 * need few, and others must not hold up the partition. */
#define IMPORT_SEARCH_N_MAX ((uint64_t)20 << 20)

/* What this event says of the whole, as far as it was read. */
static const char *import_event(struct core *c, struct bytes event, const struct event_head *head,
                                struct imported *out)
{
    struct event_completed completed;

    if (out->has_end) return "events follow after its ExecutionCompleted";
    if (head->kind == EVENT_EXECUTION_STARTED) {
        if (out->has_start) return "the history has a second ExecutionStarted";
        if (head->time_ns <= 0) return "its ExecutionStarted has no time";
        enum status status = event_started_decode(event, &c->temporary, &out->started);
        assert(status == OK); /* it is sound */
        out->has_start = true;
        out->created_ns = head->time_ns;
    }
    if (head->kind == EVENT_EXECUTION_COMPLETED) {
        if (head->time_ns <= 0) return "its ExecutionCompleted has no time";
        enum status status = event_completed_decode(event, &completed);
        assert(status == OK);
        out->has_end = true;
        out->completed_ns = head->time_ns;
        out->status = completed.status;
    }
    return NULL;
}

/* Its events without their bytes: what items_are_distinct() looks at. */
static const char *import_list(struct core *c, struct bytes events, struct event_list *list,
                               struct imported *out)
{
    struct reader r = reader_make(events);
    struct bytes one;
    struct event_head head;

    while (strings_next(&r, &one)) {
        if (!event_is_sound(c, one, &head)) return "one of its events is damaged";
        if (list->n == 0 && head.kind != EVENT_ORCHESTRATOR_STARTED)
            return "the history does not begin with OrchestratorStarted";
        const char *problem = import_event(c, one, &head, out);
        if (problem != NULL) return problem;
        struct event *event = arena_alloc_zero(&c->temporary, sizeof *event);
        assert(event != NULL); /* reserved */
        event->kind = head.kind;
        event->id = head.id;
        event->ref = head.ref;
        event_list_add(list, event);
    }
    return r.failed ? "its events are cut off" : NULL;
}

static bool is_search_short(const struct event_list *list)
{
    uint64_t search_n = 0;
    int32_t id_last = INT32_MIN;
    for (const struct event *e = list->first; e != NULL; e = e->next) {
        if (!opens_item(e->kind)) continue;
        if (e->id <= id_last) search_n += list->n;
        if (e->id > id_last) id_last = e->id;
    }
    return search_n <= IMPORT_SEARCH_N_MAX;
}

const char *import_problem(struct core *c, struct bytes events, struct imported *out)
{
    struct event_list list = {0};

    *out = (struct imported){0};
    const char *problem = import_list(c, events, &list, out);
    if (problem != NULL) return problem;
    if (!out->has_start) return "the history has no ExecutionStarted";
    if (out->started.instance_id.len == 0) return "its ExecutionStarted names no instance";
    if (!is_search_short(&list)) return "too many of its steps have ids that do not grow";
    if (!items_are_distinct(&list)) return "two of its open steps have the same id";
    return NULL;
}
