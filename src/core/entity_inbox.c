/* SPDX-License-Identifier: Apache-2.0
 *
 * What comes to an entity: signals of clients, and signals, calls, lock requests and unlocks of
 * orchestrations and other entities. The first one makes the entity.
 *
 * Full is full for clients (E_LIMIT) and for signals (dropped and counted); a call is answered with
 * a failure, since somebody waits for it. Lock requests always find room: nothing could be answered
 * to them, and there are never more than orchestrations that wait.
 */
#include "core/limits.h"
#include "core/state.h"

static struct instance *obtain(struct core *c, struct bytes key)
{
    struct instance *i = instance_find_live(c, key);
    if (i != NULL) return i;
    struct record record = {.kind = RECORD_ENTITY_CREATED, .key = key};
    new_execution_id(c, record.execution_id);
    emit(c, &record);
    i = instance_find_live(c, key);
    assert(i != NULL);
    assert(entity_is_empty(i));
    assert(i->is_entity);
    return i;
}

static void add(struct core *c, struct bytes key, const struct event_entity *entity,
                struct bytes event)
{
    struct instance *i = obtain(c, key);
    assert(i->is_entity);
    assert(entity->kind != EVENT_ENTITY_UNLOCK_SENT); /* which never waits */
    bool is_later = entity->kind == EVENT_ENTITY_SIGNALED && entity->has_scheduled &&
                    entity->scheduled_ms > now_ms(c);
    struct record record = {
        .kind = RECORD_ENTITY_MESSAGE,
        .key = i->key,
        .event = event,
        .start_at_ms = is_later ? entity->scheduled_ms : 0,
    };
    emit(c, &record);
    entity_settle(i);
}

static bool is_full(const struct instance *i, size_t more_size)
{
    assert(i == NULL || i->is_entity);
    return i != NULL && (entity_backlog_n(i) >= LIMIT_INBOX_N ||
                         entity_backlog_size(i) + more_size > LIMIT_INBOX_SIZE);
}

/* ---- clients ---- */

static const char *signal_problem(const struct input_signal *signal)
{
    const char *problem = entity_id_problem(key_id(signal->key), LIMIT_CLIENT_ID_SIZE);
    if (problem != NULL) return problem;
    if (!entity_id_is_lower(key_id(signal->key))) return "the entity's name is not in lower case";
    if (signal->operation.len > LIMIT_NAME_SIZE || !bytes_is_utf8(signal->operation))
        return "the operation's name is longer than 256 bytes or not UTF-8";
    if (signal->request_id.len > LIMIT_NAME_SIZE || !bytes_is_utf8(signal->request_id))
        return "the request id is longer than 256 bytes or not UTF-8";
    return NULL;
}

struct bytes new_request_id(struct core *c)
{
    static const uint8_t dashes[] = {8, 12, 16, 20};
    uint8_t id[EXECUTION_ID_SIZE];
    char hex[EXECUTION_TEXT_SIZE];
    size_t size = EXECUTION_TEXT_SIZE + sizeof dashes;
    char *text = arena_alloc(&c->temporary, size);
    assert(text != NULL);
    new_execution_id(c, id);
    execution_id_text(id, hex);
    size_t len = 0;
    size_t dash = 0;
    for (size_t n = 0; n < sizeof hex; n++) {
        if (dash < sizeof dashes && n == dashes[dash]) {
            text[len++] = '-';
            dash++;
        }
        text[len++] = hex[n];
    }
    assert(len == size);
    return bytes_make(text, len);
}

void on_client_signal(struct core *c, const struct input *in)
{
    const struct input_signal *asked = &in->signal;
    const char *problem = signal_problem(asked);
    if (problem != NULL) {
        reply(c, E_INVALID, problem);
        return;
    }
    const struct instance *old = instance_find_live(c, asked->key);
    if (old != NULL && !old->is_entity) {
        reply(c, E_INVALID, "there is an orchestration with this id");
        return;
    }
    if (asked->input.value.len > LIMIT_PAYLOAD_SIZE) {
        reply(c, E_LIMIT, "the input is larger than 16 MiB: pass a reference to it instead");
        return;
    }
    if (is_full(old, asked->input.value.len)) {
        reply(c, E_LIMIT, "too many operations wait in this entity: try again later");
        return;
    }
    struct signal signal = {
        .request_id = asked->request_id.len > 0 ? asked->request_id : new_request_id(c),
        .operation = asked->operation,
        .input = asked->input,
        .target = key_id(asked->key),
        .has_scheduled = asked->has_scheduled,
        .scheduled_ms = asked->scheduled_ms,
    };
    buffer_clear(&c->scratch);
    assert(signal.request_id.len > 0);
    event_write_signal(&c->scratch, c->now_ns, &signal);
    assert(!c->scratch.failed);
    struct event_entity entity = {
        .kind = EVENT_ENTITY_SIGNALED,
        .has_scheduled = signal.has_scheduled,
        .scheduled_ms = signal.scheduled_ms,
    };
    add(c, asked->key, &entity, copy_must(&c->temporary, buffer_view(&c->scratch)));
    reply(c, OK, "");
}

/* ---- other instances ---- */

static void drop(struct core *c) { c->stats.dropped_messages++; }

static void refuse_call(struct core *c, const struct input *in, const struct event_entity *call)
{
    struct buffer failure;
    assert(call->kind == EVENT_ENTITY_CALLED);
    if (call->parent.len == 0) return;
    buffer_init(&failure, c->mem);
    failure_write(&failure, "EntityBacklogFull",
                  BYTES_LITERAL("too many operations wait in this entity"), false);
    assert(!failure.failed);
    buffer_clear(&c->scratch);
    event_write_operation_failed(&c->scratch, c->now_ns, call->request_id, buffer_view(&failure));
    assert(!c->scratch.failed);
    buffer_release(&failure);
    struct bytes execution = BYTES_NONE;
    if (call->has_parent_execution)
        execution = bytes_make(call->parent_execution, EXECUTION_ID_SIZE);
    outbox_send(c, MESSAGE_ENTITY_ANSWER, sibling_key(c, in->message.target, call->parent),
                execution, buffer_view(&c->scratch));
}

static void on_unlock(struct core *c, struct instance *i, const struct event_entity *unlock,
                      struct bytes event)
{
    const struct event *waiting = i == NULL ? NULL : entity_request_of(i, unlock);
    assert(unlock->kind == EVENT_ENTITY_UNLOCK_SENT);
    assert(waiting == NULL || waiting->kind == EVENT_ENTITY_LOCK_REQUESTED);
    if (i == NULL || (!entity_is_locked_by(i, unlock) && waiting == NULL)) {
        drop(c); /* unlocked before, or never locked */
        return;
    }
    struct bytes request = BYTES_NONE;
    if (waiting != NULL) request = copy_must(&c->temporary, event_bytes(waiting));
    struct record record = {.kind = RECORD_ENTITY_UNLOCKED, .key = i->key, .event = event};
    emit(c, &record);
    assert(!entity_is_locked_by(i, unlock));
    if (waiting != NULL) lock_pass_on(i, request);
    entity_settle(i);
}

bool entity_event_is_sound(struct core *c, struct bytes id, struct bytes event,
                           struct event_entity *out)
{
    if (event_entity_decode(event, &c->temporary, out) != OK) return false;
    if (out->kind != EVENT_ENTITY_LOCK_REQUESTED) return true;
    struct reader r = reader_make(out->lock_set);
    struct bytes before = BYTES_NONE;
    struct bytes one;
    bool is_member = false;
    while (strings_next(&r, &one)) {
        if (bytes_compare(before, one) >= 0)
            return false; /* two orders could wait for each other */
        before = one;
        if (bytes_equal(one, id)) is_member = true;
    }
    return is_member && out->has_parent_execution && out->parent.len > 0;
}

void on_entity_message(struct core *c, const struct input *in)
{
    struct event_entity entity;
    struct bytes id = key_id(in->message.target);
    struct instance *i = instance_find_live(c, in->message.target);
    if (entity_id_problem(id, LIMIT_ID_SIZE) != NULL || !entity_id_is_lower(id) ||
        (i != NULL && !i->is_entity) || !entity_event_is_sound(c, id, in->message.event, &entity)) {
        drop(c);
    } else if (entity.kind == EVENT_ENTITY_UNLOCK_SENT) {
        on_unlock(c, i, &entity, in->message.event);
    } else if (entity.kind != EVENT_ENTITY_LOCK_REQUESTED && is_full(i, in->message.event.len)) {
        drop(c);
        if (entity.kind == EVENT_ENTITY_CALLED) refuse_call(c, in, &entity);
    } else {
        add(c, in->message.target, &entity, in->message.event);
    }
}

/* The answer to a call. Only one that is open in this execution: everything else is of a call that
 * was answered, or of an execution that has ended. */
void on_entity_answer(struct core *c, const struct input *in)
{
    struct instance *i = instance_find_live(c, in->message.target);
    struct event_head head;
    bool is_for_us = i != NULL && !i->is_entity && !instance_is_terminal(i) &&
                     event_head_decode(in->message.event, &head) == OK &&
                     (head.kind == EVENT_ENTITY_COMPLETED || head.kind == EVENT_ENTITY_FAILED);
    if (is_for_us && in->message.execution.len > 0) {
        is_for_us =
            bytes_equal(bytes_make(i->execution_id, EXECUTION_ID_SIZE), in->message.execution);
    }
    if (!is_for_us || call_find(i, event_entity_id(in->message.event)) == NULL) {
        drop(c);
        return;
    }
    message_add(i, in->message.event);
}

void on_entity_due(struct instance *i)
{
    struct core *c = i->core;
    uint32_t n = 0;
    assert(i->is_entity);
    for (const struct delayed *d = i->delayed; d != NULL && d->at_ms <= now_ms(c); d = d->next) {
        n++;
        if (n == LIMIT_BATCH_N) break; /* the rest is due again at once */
    }
    if (n > 0) {
        struct record record = {.kind = RECORD_ENTITY_DUE, .key = i->key, .consumed_n = n};
        emit(c, &record);
    } else {
        entity_schedule(i); /* its next try */
        instance_sort(i);
    }
    entity_settle(i);
}
