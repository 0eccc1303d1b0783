/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages of other instances, through their partition. Each has a number; what has arrived before
 * is acknowledged again and dropped, what comes out of turn is dropped without (it will be sent
 * again).
 */
#include "core/limits.h"
#include "core/replies.h"
#include "core/state.h"

#include "base/planted.h"

static void drop(struct core *c) { c->stats.dropped_messages++; }

static bool is_execution(const uint8_t id[EXECUTION_ID_SIZE], struct bytes wanted)
{
    return bytes_equal(bytes_make(id, EXECUTION_ID_SIZE), wanted);
}

/* Messages come from other processes too: nothing else may pass as what it claims to be. */
static bool is_event(const struct input *in, enum event_kind kind)
{
    struct event_head head;
    return event_head_decode(in->message.event, &head) == OK && head.kind == kind;
}

static void on_event(struct core *c, const struct input *in)
{
    struct instance *i = instance_find_live(c, in->message.target);
    if (i == NULL || i->is_entity || instance_is_terminal(i) || !is_event(in, EVENT_EVENT_RAISED) ||
        i->inbox.n >= LIMIT_INBOX_N || i->inbox.size + in->message.event.len > LIMIT_INBOX_SIZE) {
        drop(c);
        return;
    }
    message_add(i, in->message.event);
}

static void on_child_done(struct core *c, const struct input *in)
{
    struct instance *i = instance_find_live(c, in->message.target);
    struct event_head head;
    bool is_for_us = i != NULL && !i->is_entity && !instance_is_terminal(i) &&
                     (is_event(in, EVENT_CHILD_COMPLETED) || is_event(in, EVENT_CHILD_FAILED)) &&
                     event_head_decode(in->message.event, &head) == OK;
    if (is_for_us && in->message.execution.len > 0 && !planted("skip_execution_check")) {
        is_for_us = is_execution(i->execution_id, in->message.execution);
    }
    if (!is_for_us || item_find(i, head.ref, ITEM_CHILD) == NULL) {
        drop(c);
        return;
    }
    message_add(i, in->message.event);
}

static void create_child(struct core *c, const struct input *in,
                         const struct event_started *started)
{
    struct record record = {
        .kind = RECORD_CREATED,
        .key = in->message.target,
        .event = in->message.event,
    };
    memcpy(record.execution_id, started->execution_id, EXECUTION_ID_SIZE);
    emit(c, &record);
    const struct instance *i = instance_find_live(c, record.key);
    assert(i != NULL);
    assert(i->status == STATUS_PENDING);
}

/* The parent must know, and must not wait for what does not come. */
static void fail_child(struct core *c, const struct input *in, const struct event_started *started,
                       const char *type, const char *text, bool is_final)
{
    struct buffer failure;
    buffer_init(&failure, c->mem);
    failure_write(&failure, type, bytes_of_text(text), is_final);
    assert(!failure.failed);
    buffer_clear(&c->scratch);
    event_write_child_failed(&c->scratch, c->now_ns, started->parent.task_id,
                             buffer_view(&failure));
    assert(!c->scratch.failed);
    buffer_release(&failure);

    outbox_send(
        c, MESSAGE_CHILD_DONE, sibling_key(c, in->message.target, started->parent.instance_id),
        bytes_make(started->parent.execution_id, EXECUTION_ID_SIZE), buffer_view(&c->scratch));
}

/* The id is taken by somebody else's orchestration. */
static void refuse_child(struct core *c, const struct input *in,
                         const struct event_started *started)
{
    fail_child(c, in, started, "OrchestrationAlreadyExists",
               "an orchestration with the id of this child is already running", false);
}

/* What begins with '@' is for entities. */
static bool may_be_started(const struct input *in, const struct instance *i)
{
    if (id_is_entity(key_id(in->message.target))) return false;
    assert(i == NULL || !i->is_entity);
    return i == NULL || instance_is_terminal(i);
}

static void on_start_child(struct core *c, const struct input *in)
{
    struct event_started started;
    if (event_started_decode(in->message.event, &c->temporary, &started) != OK) {
        drop(c);
        return;
    }
    const struct instance *i = instance_find_live(c, in->message.target);
    if (may_be_started(in, i))
        create_child(c, in, &started);
    else
        refuse_child(c, in, &started);
}

/* Started by an entity: nobody waits for it, so nobody is told that its id was taken. */
static void on_start(struct core *c, const struct input *in)
{
    struct event_started started;
    if (event_started_decode(in->message.event, &c->temporary, &started) != OK ||
        started.has_parent || !may_be_started(in, instance_find_live(c, in->message.target))) {
        drop(c);
        return;
    }
    struct record record = {
        .kind = RECORD_CREATED,
        .key = in->message.target,
        .event = in->message.event,
        .start_at_ms = started.has_scheduled ? started.scheduled_ms : 0,
    };
    memcpy(record.execution_id, started.execution_id, EXECUTION_ID_SIZE);
    emit(c, &record);
    assert(instance_find_live(c, record.key) != NULL);
    replies_received(c, in->message.target, &started);
}

static void on_terminate(struct core *c, const struct input *in)
{
    struct instance *i = instance_find_live(c, in->message.target);
    if (i == NULL || i->is_entity || !is_event(in, EVENT_EXECUTION_TERMINATED)) {
        drop(c);
        return;
    }
    /* from a parent: only while it is still that parent's child */
    if (in->message.execution.len > 0 &&
        (!i->has_parent || !is_execution(i->parent.execution_id, in->message.execution))) {
        drop(c);
        return;
    }
    struct maybe output = MAYBE_NONE;
    bool recurse = false;
    event_terminated_decode(in->message.event, &output, &recurse);
    if (!instance_is_terminal(i))
        ending_terminate(i, output, recurse);
    else if (recurse)
        ending_terminate_children(i, output);
    assert(instance_is_terminal(i));
}

/* A failed child that has undone what it did cannot go on. When nothing is left of it, it does it
 * again from its beginning; what is half undone is for people. */
static void rewind_undone_child(struct core *c, const struct input *in, const struct instance *i,
                                const struct event_started *started)
{
    if (bytes_equal(i->custom_status.value, BYTES_LITERAL(REPLY_COMPENSATED))) {
        create_child(c, in, started);
        return;
    }
    fail_child(c, in, started, "HalfUndone",
               "this child was not rewound: not all of its compensations worked; see to what they "
               "left, purge it, and rewind its parent again",
               true);
}

/* The parent begins again: so does its failed child; one that is gone starts anew; one that runs,
 * or has ended otherwise, learns of the parent's new execution and answers (again). */
static void on_rewind_child(struct core *c, const struct input *in)
{
    struct event_started started;
    if (event_started_decode(in->message.event, &c->temporary, &started) != OK) {
        drop(c);
        return;
    }
    struct bytes parent = bytes_make(started.parent.execution_id, EXECUTION_ID_SIZE);
    struct instance *i = instance_find_live(c, in->message.target);
    if (i == NULL && may_be_started(in, i)) {
        create_child(c, in, &started);
    } else if (i == NULL || !i->has_parent ||
               !bytes_equal(i->parent.instance_id, started.parent.instance_id)) {
        refuse_child(c, in, &started);
    } else if (instance_is_terminal(i) && i->status == STATUS_FAILED) {
        if (ending_has_undone(i))
            rewind_undone_child(c, in, i, &started);
        else
            ending_rewind(i, MAYBE_NONE, parent);
    } else {
        struct record record = {.kind = RECORD_RELINKED, .key = i->key, .peer_execution = parent};
        emit(c, &record);
        if (instance_is_terminal(i)) ending_tell_parent(i);
    }
}

static void on_new_message(struct core *c, const struct input *in)
{
    if (!key_is_valid(in->message.target)) {
        drop(c);
        return;
    }
    switch (in->message.kind) {
    case MESSAGE_START_CHILD: on_start_child(c, in); return;
    case MESSAGE_CHILD_DONE: on_child_done(c, in); return;
    case MESSAGE_EVENT: on_event(c, in); return;
    case MESSAGE_TERMINATE: on_terminate(c, in); return;
    case MESSAGE_REWIND_CHILD: on_rewind_child(c, in); return;
    case MESSAGE_ENTITY: on_entity_message(c, in); return;
    case MESSAGE_ENTITY_ANSWER: on_entity_answer(c, in); return;
    case MESSAGE_LOCK_GRANTED: on_lock_granted(c, in); return;
    case MESSAGE_START: on_start(c, in); return;
    }
    drop(c); /* of a kind that a newer program sends */
}

void on_partition_message(struct core *c, const struct input *in)
{
    assert(in->message.from < c->options.partitions_n);
    struct peer *peer = &c->peers[in->message.from];
    if (in->message.seq > peer->received_seq + 1) return;
    if (in->message.seq <= peer->received_seq && !planted("skip_dedup")) {
        c->stats.duplicate_messages++;
    } else {
        struct record record = {
            .kind = RECORD_RECEIVED,
            .peer = in->message.from,
            .message_seq = in->message.seq,
        };
        on_new_message(c, in);
        emit(c, &record);
        assert(peer->received_seq == in->message.seq);
    }
    struct effect *e = effect_new(c, EFFECT_ACK);
    e->ack.to = in->message.from;
    e->ack.seq = peer->received_seq;
}

void on_partition_ack(struct core *c, const struct input *in)
{
    assert(in->ack.from < c->options.partitions_n);
    struct peer *peer = &c->peers[in->ack.from];
    /* acknowledged before, or more than was sent: an acknowledgement that went astray */
    if (peer->first == NULL || in->ack.seq < peer->first->seq || in->ack.seq > peer->sent_seq)
        return;
    assert(peer->first->seq <= peer->last->seq);
    assert(peer->last->seq <= peer->sent_seq);
    struct record record = {
        .kind = RECORD_SENT,
        .peer = in->ack.from,
        .message_seq = in->ack.seq,
    };
    emit(c, &record);
    assert(peer->first == NULL || peer->first->seq > in->ack.seq);
    assert((peer->first == NULL) == (peer->last == NULL));
}
