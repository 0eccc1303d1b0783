/* SPDX-License-Identifier: Apache-2.0
 *
 * How much memory a step may take, which is set aside before it changes anything: so a step happens
 * completely or not at all. The sizes are upper bounds of what the handlers copy, not more than
 * that: a small message to an instance with a large history needs little. test_core_memory fails
 * every allocation to prove them.
 */
#include "base/mem.h"
#include "core/limits.h"
#include "core/replies.h"
#include "core/state.h"

/* Records, effects and small objects of any step. */
#define STEP_SIZE ((size_t)128 << 10)
/* What came with an input is copied at most so often: into an event, a record, its apply, a
 * message, effects. */
#define COPIES_N ((size_t)8)
/* An open item with its queue, lists and effects; a message with its keys. */
#define ITEM_SIZE ((size_t)1024)
#define LETTER_SIZE ((size_t)2048)
/* An event that is imported, beside its bytes: while it is checked, and in its history. */
#define IMPORTED_SIZE ((size_t)512)
/* One thing that falls due: a record, an event and a few effects, with keys and names. */
#define DUE_SIZE ((size_t)4096)

_Static_assert(sizeof(struct instance) + LIMIT_HUB_SIZE + LIMIT_ID_SIZE < STEP_SIZE / 8,
               "a new instance is a small part of a step");
_Static_assert(sizeof(struct item) + sizeof(struct work_queue) + sizeof(struct effect) < ITEM_SIZE,
               "an open item, its queue and an effect");
_Static_assert(sizeof(struct letter) + sizeof(struct effect) +
                       2 * (LIMIT_HUB_SIZE + LIMIT_ID_SIZE) <
                   LETTER_SIZE,
               "a message, its effect and the keys of both ends");

static size_t start_size(const struct input_start *start)
{
    return start->key.len + start->name.len + start->version.value.len + start->input.value.len +
           start->trace.value.len + start->tags.len + start->at.source.len;
}

static size_t answer_size(const struct orchestrator_answer *answer)
{
    assert(answer->actions != NULL || answer->actions_n == 0);
    size_t size = answer->custom_status.value.len + answer->trace.value.len;
    for (uint32_t n = 0; n < answer->actions_n; n++) {
        const struct action *a = &answer->actions[n];
        size += a->name.len + a->version.value.len + a->input.value.len + a->trace.value.len +
                a->instance_id.len + a->tags.len + a->failure.value.len + a->carryover.len +
                a->new_version.value.len + a->entity_body.len;
    }
    return size;
}

static size_t signal_size(const struct input_signal *signal)
{
    return signal->key.len + signal->operation.len + signal->input.value.len +
           signal->request_id.len + signal->trace.value.len;
}

static size_t entity_answer_size(const struct entity_answer *answer)
{
    size_t size = answer->state.value.len + answer->failure.value.len;
    for (uint32_t n = 0; n < answer->results_n; n++) {
        size += answer->results[n].output.value.len + answer->results[n].failure.len;
    }
    for (uint32_t n = 0; n < answer->actions_n; n++) {
        const struct entity_action *a = &answer->actions[n];
        size += a->instance_id.len + a->name.len + a->version.value.len + a->input.value.len +
                a->trace.value.len;
    }
    return size;
}

/* What came with the input. */
static size_t given_size(const struct input *in)
{
    switch (in->kind) {
    case INPUT_CLIENT_START: return start_size(&in->start);
    case INPUT_CLIENT_SIGNAL: return signal_size(&in->signal);
    case INPUT_WORKER_ENTITY_DONE: return entity_answer_size(in->done.entity);
    case INPUT_CLIENT_RAISE:
    case INPUT_CLIENT_TERMINATE:
    case INPUT_CLIENT_SUSPEND:
    case INPUT_CLIENT_RESUME:
    case INPUT_CLIENT_REWIND:
    case INPUT_CLIENT_RESTART:
    case INPUT_CLIENT_PURGE:
    case INPUT_CLIENT_RESUBMIT:
    case INPUT_CLIENT_IMPORT:
        return in->client.key.len + in->client.name.len + in->client.data.value.len;
    case INPUT_WORKER_TURN_DONE: return answer_size(in->done.answer);
    case INPUT_WORKER_TASK_DONE: return in->done.result.value.len + in->done.failure.value.len;
    case INPUT_WORKER_ABANDON:
    case INPUT_WORKER_RENEW: return in->lease.reason.len;
    case INPUT_PARTITION_MESSAGE: return in->message.target.len + in->message.event.len;
    case INPUT_WORKER_TAKE:
    case INPUT_CLOCK_TICK:
    case INPUT_PARTITION_ACK: return 0;
    case INPUT_BACKLOG_ADMIT:
    case INPUT_BACKLOG_CARRY: return in->record.len;
    case INPUT_SOURCE_POSITION: return in->position.source.len;
    }
    unreachable("no such input");
}

/* ---- what else is copied, from the instance ---- */

static size_t started_size(const struct instance *i)
{
    return i->started == NULL ? 0 : COPIES_N * i->started->len;
}

/* What the end of an execution sends to the entities of its critical sections: to each a message,
 * and each is compared with each unlock. */
static size_t locks_size(const struct instance *i)
{
    size_t unlocks_size = 0;
    size_t size = 0;
    if (i->locks_n == 0) return 0;
    for (const struct event *e = i->history.first; e != NULL; e = e->next) {
        if (e->kind == EVENT_ENTITY_UNLOCK_SENT) unlocks_size += 2 * (size_t)e->len + 64;
    }
    for (const struct event *e = i->history.first; e != NULL; e = e->next) {
        if (e->kind != EVENT_ENTITY_LOCK_REQUESTED) continue;
        /* an id with its frame has at least six bytes */
        size_t members = e->len / 6 + 1;
        size += COPIES_N * e->len + members * (LETTER_SIZE + 512 + unlocks_size);
    }
    assert(size > 0); /* locks_n counts what was just looked for */
    return size;
}

/* What the end of an execution tells, with an output of this size: to entities, and to who wanted
 * to be told. */
static size_t end_size(const struct instance *i, size_t output_size)
{
    if (!i->has_reply) return locks_size(i);
    assert(i->started != NULL); /* which asks for it */
    return locks_size(i) + replies_size(output_size) + 2 * (size_t)i->started->len;
}

/* A lock that is granted: the set is read, and released when nobody wants it any more. */
static size_t grant_size(const struct instance *i, size_t event_len)
{
    size_t members = event_len / 6 + 1;
    return COPIES_N * event_len + members * (LETTER_SIZE + 512) + (i == NULL ? 0 : locks_size(i));
}

/* A message for each child, which says this much. */
static size_t children_size(const struct instance *i, size_t say_size)
{
    size_t size = 0;
    for (const struct event *e = i->history.first; e != NULL; e = e->next) {
        if (e->kind == EVENT_CHILD_CREATED) size += 4 * say_size + LETTER_SIZE;
    }
    return size;
}

/* The history again, its items opened, and the start of each child. */
static size_t rewind_size(const struct instance *i)
{
    size_t size = started_size(i) + 2 * i->history.size + (size_t)i->history.n * 128;
    for (const struct event *e = i->history.first; e != NULL; e = e->next) {
        if (e->kind == EVENT_TASK_SCHEDULED || e->kind == EVENT_TIMER_CREATED) size += ITEM_SIZE;
        if (e->kind == EVENT_CHILD_CREATED) size += ITEM_SIZE + 4 * (size_t)e->len + LETTER_SIZE;
        if (e->kind == EVENT_ENTITY_CALLED) size += ITEM_SIZE + 2 * (size_t)e->len;
    }
    return size + 4 * locks_size(i);
}

/* The unread messages, the start and the tasks that still run go along into a new generation. */
static size_t generation_size(const struct instance *i)
{
    size_t size = started_size(i) + 2 * i->inbox.size + (size_t)i->inbox.n * 128;
    uint32_t items_n = 0;
    for (struct list *n = list_first(&i->items); n != NULL; n = list_next(&i->items, n)) {
        const struct item *item = container_of(n, struct item, of_instance);
        size += ITEM_SIZE + 2 * (size_t)item->created->len;
        items_n++;
    }
    assert(items_n == i->items_n);
    return size;
}

/* The set of ids, where they do not grow: see id_set.h. */
static size_t ids_size(const struct instance *i, size_t more_n)
{
    return 256 + 32 * (i->history.n + i->inbox.n + more_n);
}

/* All that may change in an entity at once: what lives moves to another arena, calls and lock
 * requests are read, a request goes on to the next. */
static size_t entity_size(const struct instance *i)
{
    size_t size = entity_move_size(i) + 2 * i->state.value.len + 4096;
    size_t longest = 0;
    for (const struct event *e = i->inbox.first; e != NULL; e = e->next) {
        if (e->kind != EVENT_ENTITY_LOCK_REQUESTED) continue;
        size += COPIES_N * e->len;
        if (e->len > longest) longest = e->len;
    }
    if (i->lock != NULL) size += COPIES_N * i->lock->len;
    /* two may go on: one that is cancelled, and the next that has the lock */
    return size + 2 * (COPIES_N * longest + LETTER_SIZE);
}

/* What its own messages to entities need, and the release of all locks at its end. */
static size_t turn_locks_size(const struct instance *i, const struct orchestrator_answer *answer)
{
    size_t size = 0;
    bool has_locks = i->locks_n > 0;
    for (uint32_t n = 0; n < answer->actions_n; n++) {
        const struct action *a = &answer->actions[n];
        if (a->kind != ACTION_SEND_ENTITY_MESSAGE) continue;
        size += ITEM_SIZE + 2 * a->entity_body.len;
        if (a->entity_event != EVENT_ENTITY_LOCK_REQUESTED) continue;
        has_locks = true;
        size += (a->entity_body.len / 6 + 1) * (LETTER_SIZE + 512);
    }
    if (!has_locks) return size;
    size_t unlocks_size = 0;
    size_t members = 0;
    for (uint32_t n = 0; n < answer->actions_n; n++) {
        const struct action *a = &answer->actions[n];
        if (a->entity_event == EVENT_ENTITY_UNLOCK_SENT)
            unlocks_size += 2 * a->entity_body.len + 64;
        if (a->entity_event == EVENT_ENTITY_LOCK_REQUESTED) members += a->entity_body.len / 6 + 1;
    }
    for (const struct event *e = i->history.first; e != NULL; e = e->next) {
        if (e->kind == EVENT_ENTITY_LOCK_REQUESTED) members += e->len / 6 + 1;
        if (e->kind == EVENT_ENTITY_UNLOCK_SENT) unlocks_size += 2 * (size_t)e->len + 64;
    }
    return size + locks_size(i) + members * unlocks_size;
}

static size_t turn_size(const struct core *c, const struct input_worker_done *done)
{
    const struct instance *i = instance_find(c, done->has_ref ? done->ref.key : done->key);
    size_t size = 0;
    size_t output_size = 0;
    if (i == NULL) return 0;
    for (uint32_t n = 0; n < done->answer->actions_n; n++) {
        const struct action *a = &done->answer->actions[n];
        if (a->kind == ACTION_COMPLETE) output_size = REPLY_OUTPUT_SIZE_MAX;
        bool is_continuing = a->kind == ACTION_COMPLETE && a->status == STATUS_CONTINUED_AS_NEW;
        size +=
            is_continuing ? generation_size(i) : LETTER_SIZE; /* the larger of item and letter */
    }
    assert(!i->has_reply || i->started != NULL);
    if (i->has_reply) size += replies_size(output_size) + 2 * (size_t)i->started->len;
    return size + ids_size(i, done->answer->actions_n) + turn_locks_size(i, done->answer);
}

static size_t entity_done_size(const struct core *c, const struct input_worker_done *done)
{
    const struct instance *i = instance_find(c, done->has_ref ? done->ref.key : done->key);
    if (i == NULL || !i->is_entity) return 0;
    size_t n = (size_t)done->entity->results_n + done->entity->actions_n;
    size_t size = n * LETTER_SIZE + entity_size(i);
    const struct event *e = entity_operations((struct instance *)i)->first;
    for (uint32_t k = 0; k < done->entity->results_n && e != NULL; k++, e = e->next) {
        size += 2 * (size_t)e->len;
    }
    return size;
}

static size_t take_size(const struct core *c, const struct input *in)
{
    const struct work_queue *q = queue_find(c, in->take.kind, in->take.queue);
    if (q == NULL || q->n == 0) return 0;
    const struct list *first = list_first(&q->members);
    assert(first != NULL);
    if (q->kind == WORK_TASK) {
        return COPIES_N * container_of(first, struct item, queued)->created->len;
    }
    const struct instance *i = container_of(first, struct instance, queued);
    assert(i->queue == q);
    assert(!i->is_leased);
    if (q->kind == WORK_ENTITY) {
        assert(entity_batch_n(i) > 0); /* or it would not be in a queue */
        size_t first_size = entity_operations((struct instance *)i)->first->len;
        size_t packed_size = first_size > LIMIT_BATCH_SIZE ? first_size : LIMIT_BATCH_SIZE;
        if (packed_size > entity_backlog_size(i)) packed_size = entity_backlog_size(i);
        return 2 * (packed_size + LIMIT_BATCH_N * 8 + i->state.value.len);
    }
    size_t size = i->inbox.size + i->inbox.n * (size_t)8;
    if (in->take.want_history) size += i->history.size + i->history.n * (size_t)8;
    return 2 * size;
}

static size_t message_size(const struct core *c, const struct input *in)
{
    const struct instance *i = instance_find(c, in->message.target);
    if (in->message.kind == MESSAGE_LOCK_GRANTED) return grant_size(i, in->message.event.len);
    /* started by an entity, with the wish to be told */
    if (in->message.kind == MESSAGE_START) return replies_size(0);
    if (i == NULL) return 0;
    if (i->is_entity) return entity_size(i);
    if (in->message.kind == MESSAGE_TERMINATE)
        return children_size(i, in->message.event.len) + end_size(i, in->message.event.len);
    if (in->message.kind != MESSAGE_REWIND_CHILD) return 0;
    /* it begins again, or says its result once more */
    return rewind_size(i) + (i->completed == NULL ? 0 : COPIES_N * i->completed->len);
}

static size_t client_size(const struct core *c, const struct input *in)
{
    const struct instance *i = instance_find(c, in->client.key);
    if (i == NULL) return 0;
    if (in->kind == INPUT_CLIENT_TERMINATE)
        return children_size(i, in->client.data.value.len) + end_size(i, in->client.data.value.len);
    if (in->kind == INPUT_CLIENT_REWIND) return rewind_size(i);
    return in->kind == INPUT_CLIENT_RESTART ? started_size(i) + replies_size(0) : 0;
}

static size_t tick_size(const struct core *c)
{
    size_t n = c->due.n < LIMIT_TICK_N ? (size_t)c->due.n : LIMIT_TICK_N;
    return n * DUE_SIZE + outbox_resend_size(c);
}

static size_t copied_size(const struct core *c, const struct input *in)
{
    const struct instance *i;

    switch (in->kind) {
    case INPUT_CLIENT_TERMINATE:
    case INPUT_CLIENT_REWIND:
    case INPUT_CLIENT_RESTART: return client_size(c, in);
    case INPUT_WORKER_TAKE: return take_size(c, in);
    case INPUT_WORKER_TURN_DONE: return turn_size(c, &in->done);
    case INPUT_CLOCK_TICK: return tick_size(c);
    case INPUT_PARTITION_MESSAGE: return message_size(c, in);
    case INPUT_WORKER_ENTITY_DONE: return entity_done_size(c, &in->done);
    case INPUT_CLIENT_SIGNAL: return 0;
    case INPUT_CLIENT_IMPORT: return IMPORTED_SIZE * strings_count(in->client.data.value);
    case INPUT_CLIENT_START:
        i = instance_find(c, in->start.key); /* it may be replaced */
        return (in->start.tags.len == 0 ? 0 : replies_size(0)) +
               (in->waiting.len == 0 ? 0 : replies_size(0)) + (i == NULL ? 0 : end_size(i, 0));
    case INPUT_CLIENT_PURGE:
        i = instance_find(c, in->client.key); /* by force */
        return i == NULL ? 0 : end_size(i, 0);
    case INPUT_CLIENT_RAISE:
    case INPUT_CLIENT_SUSPEND:
    case INPUT_CLIENT_RESUME:
    case INPUT_CLIENT_RESUBMIT:
    case INPUT_WORKER_TASK_DONE:
    case INPUT_WORKER_ABANDON:
    case INPUT_WORKER_RENEW:
    case INPUT_BACKLOG_ADMIT:
    case INPUT_BACKLOG_CARRY:
    case INPUT_SOURCE_POSITION:
    case INPUT_PARTITION_ACK: return 0;
    }
    unreachable("no such input");
}

bool reserve_step(struct core *c, const struct input *in, struct output *out)
{
    assert(out->records_n == 0 || out->records->len > 0);
    size_t size = STEP_SIZE + COPIES_N * (given_size(in) + in->waiting.len) + copied_size(c, in);
    assert(size >= STEP_SIZE); /* the sum has not wrapped */
    if (in->kind == INPUT_CLIENT_START && c->backlog != NULL && !backlog_reserve(c->backlog)) {
        return false;
    }
    if (!buffer_reserve(out->records, size / 2)) {
        out->records->failed = false; /* only the room was missing: nothing is lost */
        return false;
    }
    return mem_reserve(c->mem, size);
}

bool reserve_apply(struct core *c, const struct record *record)
{
    size_t given = record->key.len + record->event.len + record->events.len +
                   record->custom_status.value.len + record->trace.value.len + record->reason.len +
                   record->target.len + record->peer_execution.len + record->source.len;
    if (record->kind == RECORD_QUEUED && !backlog_reserve(c->backlog)) return false;
    size_t size = STEP_SIZE + COPIES_N * given + ITEM_SIZE * strings_count(record->events);
    assert(size >= STEP_SIZE);
    const struct instance *i = instance_find(c, record->key);
    if (i != NULL && record->kind == RECORD_TURN)
        size += ids_size(i, strings_count(record->events));
    if (i != NULL && record->kind == RECORD_CONTINUED) size += generation_size(i);
    if (i != NULL && record->kind == RECORD_REWOUND) size += rewind_size(i);
    if (i != NULL && record->kind == RECORD_RELINKED) size += started_size(i);
    if (i != NULL && i->is_entity) size += entity_size(i);
    return mem_reserve(c->mem, size);
}

bool reserve_load(struct core *c, size_t snapshot_size)
{
    return mem_reserve(c->mem, STEP_SIZE + snapshot_size);
}
