/* SPDX-License-Identifier: Apache-2.0
 *
 * What clients ask: start, raise, terminate, suspend, resume, rewind, restart, purge, resubmit.
 * Input is checked here, once; every answer says what to do.
 */
#include "core/limits.h"
#include "core/state.h"

#include "base/planted.h"

/* ---- start ---- */

static bool has_control_characters(struct bytes text)
{
    for (size_t n = 0; n < text.len; n++) {
        if (text.ptr[n] < 0x20 || text.ptr[n] == 0x7f) return true;
    }
    return false;
}

/* The rules of the protocol's own service for ids, so that an id is good everywhere. NULL when
 * valid. */
const char *client_id_problem(struct bytes id)
{
    if (id.len == 0) return "the instance id is empty";
    if (id.len > LIMIT_CLIENT_ID_SIZE) return "the instance id has a length of more than 100 bytes";
    if (id.ptr[0] == '@') return "an instance id must not begin with '@': that is for entities";
    if (!bytes_is_utf8(id)) return "the instance id is not UTF-8";
    if (has_control_characters(id)) return "the instance id has control characters";
    for (size_t n = 0; n < id.len; n++) {
        uint8_t c = id.ptr[n];
        if (c == '/' || c == '\\' || c == '#' || c == '?')
            return "an instance id must not have any of / \\ # ?";
    }
    return NULL;
}

const char *client_name_problem(struct bytes name)
{
    if (name.len == 0) return "the name of the orchestrator is empty";
    if (name.len > LIMIT_NAME_SIZE) return "the name is longer than 256 bytes";
    return bytes_is_utf8(name) ? NULL : "the name is not UTF-8";
}

#define MASK(status) (1u << (status))
_Static_assert(STATUS_SUSPENDED < 32, "every status is a bit of the mask");
#define MASK_RUNNING (MASK(STATUS_RUNNING) | MASK(STATUS_PENDING) | MASK(STATUS_SUSPENDED))

/* i: the one that is there, NULL when its start waits. OK: create (over an existing one). E_EXISTS,
 * E_INVALID: refuse. E_PRECONDITION: leave what is there, and answer as if it had been created. */
static enum status reuse_decide(const struct instance *i, enum reuse reuse, uint32_t mask)
{
    assert(i == NULL || !i->is_purged);
    bool is_in_mask = (mask & MASK(i == NULL ? STATUS_PENDING : instance_status(i))) != 0;
    switch (reuse) {
    case REUSE_DEFAULT: return i != NULL && instance_is_terminal(i) ? OK : E_EXISTS;
    case REUSE_REPLACE:
    case REUSE_TERMINATE: return is_in_mask ? OK : E_EXISTS;
    case REUSE_IGNORE: return is_in_mask ? E_PRECONDITION : E_EXISTS;
    case REUSE_NEVER: return E_EXISTS;
    }
    return E_INVALID;
}

static const struct instance *create(struct core *c, struct bytes key,
                                     const struct event_started *started, int64_t start_at_ms)
{
    assert(!started->has_parent); /* nobody waits for what a client starts */
    assert(started->has_scheduled || start_at_ms == 0);
    struct record record = {
        .kind = RECORD_CREATED,
        .key = key,
        .start_at_ms = start_at_ms,
    };
    memcpy(record.execution_id, started->execution_id, EXECUTION_ID_SIZE);
    buffer_clear(&c->scratch);
    event_started_write(&c->scratch, c->now_ns, started);
    assert(!c->scratch.failed);
    record.event = buffer_view(&c->scratch);
    emit(c, &record);
    const struct instance *i = instance_find(c, key);
    assert(i != NULL);
    assert(i->status == STATUS_PENDING);
    assert(i->inbox.n == 1); /* its start, and nothing of an earlier one */
    assert(memcmp(i->execution_id, started->execution_id, EXECUTION_ID_SIZE) == 0);
    replies_received(c, key, started);
    return i;
}

static const char *start_problem(const struct input_start *start)
{
    const char *problem = client_id_problem(key_id(start->key));
    if (problem == NULL) problem = client_name_problem(start->name);
    if (problem != NULL) return problem;
    if (start->version.has && start->version.value.len > LIMIT_NAME_SIZE) {
        return "the version is longer than 256 bytes";
    }
    if (start->reuse == REUSE_REPLACE && (start->reuse_mask & MASK_RUNNING) != 0 &&
        (start->reuse_mask & MASK(STATUS_TERMINATED)) == 0) {
        return "Invalid reusable statuses: cannot exclude 'Terminated' while also allowing reuse "
               "of running instances";
    }
    return NULL;
}

/* There is no room for it now. What replaces something else, and what is for later, never waits:
 * the first changes only what is there, the second waits elsewhere. */
static bool must_wait(const struct core *c, const struct input_start *start, bool is_later)
{
    if (c->backlog == NULL || is_later || instance_find(c, start->key) != NULL) return false;
    return !backlog_admits(c->backlog, start->name, c->now_ns);
}

/* About. */
static size_t start_size_on_disk(const struct input_start *start)
{
    return start->key.len + start->name.len + start->version.value.len + start->input.value.len +
           start->trace.value.len + start->tags.len;
}

void on_client_start(struct core *c, const struct input *in)
{
    const struct input_start *start = &in->start;
    const char *problem = start_problem(start);
    if (problem != NULL) {
        reply(c, E_INVALID, problem);
        return;
    }
    if (start->input.value.len + start->tags.len > LIMIT_PAYLOAD_SIZE) {
        reply(c, E_LIMIT, "the input is larger than 16 MiB: pass a reference to it instead");
        return;
    }
    if (!source_admits(c, &start->at)) return;
    struct instance *old = instance_find_live(c, start->key);
    assert(old == NULL || !old->is_entity); /* whose ids begin with '@' */
    struct record queued;
    bool is_waiting = old == NULL && waiting_read(c, in, &queued);
    if (old != NULL || is_waiting) {
        enum status status = reuse_decide(old, start->reuse, start->reuse_mask);
        if (status == E_PRECONDITION) {
            source_take(c, &start->at);
            if (is_waiting)
                reply_waiting(c, &queued);
            else
                reply_instance(c, old);
            return;
        }
        if (status != OK) {
            reply(c, status,
                  "an orchestration instance already exists with this id: choose "
                  "another id, or a reuse policy that allows to replace it");
            return;
        }
        if (is_waiting) old = waiting_admit(c, &queued);
        if (!instance_is_terminal(old)) ending_terminate(old, MAYBE_NONE, false);
    }
    assert(old == NULL || instance_is_terminal(old));
    bool is_later = start->has_scheduled && start->scheduled_ms > now_ms(c);
    struct event_started started = {
        .name = start->name,
        .version = start->version,
        .input = start->input,
        .instance_id = key_id(start->key),
        .has_scheduled = is_later,
        .scheduled_ms = is_later ? start->scheduled_ms : 0,
        .trace = start->trace,
        .tags = start->tags,
    };
    new_execution_id(c, started.execution_id);
    if (must_wait(c, start, is_later)) {
        const char *full = backlog_problem(c->backlog, start->name, start_size_on_disk(start));
        if (full != NULL) {
            if (planted("source_alone")) source_take(c, &start->at);
            if (planted("reply_of_refused")) replies_received(c, start->key, &started);
            reply(c, E_LIMIT, full);
            return;
        }
        source_take(c, &start->at);
        backlog_defer(c, start->key, &started);
        replies_received(c, start->key, &started);
        return;
    }
    source_take(c, &start->at);
    if (c->backlog != NULL) backlog_took(c->backlog, start->name, c->now_ns);
    reply_instance(c, create(c, start->key, &started, started.scheduled_ms));
}

/* Its start waits: it is pending, and stays so. */
static bool waits(const struct core *c, const struct input *in)
{
    struct record queued;
    return waiting_read(c, in, &queued);
}

void on_client_restart(struct core *c, const struct input *in)
{
    struct instance *i = instance_find_live(c, in->client.key);
    struct event_started started;
    bool is_waiting = waits(c, in);
    if (i == NULL && !is_waiting) {
        reply(c, E_NOT_FOUND, "there is no such instance");
        return;
    }
    if (is_waiting || i->is_entity || !instance_is_terminal(i)) {
        reply(c, E_PRECONDITION,
              "the instance is still running: terminate it first, or restart it "
              "with a new id");
        return;
    }
    /* a copy: the instance's own bytes go when it begins again */
    assert(i->started != NULL);
    struct bytes event = copy_must(&c->temporary, event_bytes(i->started));
    enum status status = event_started_decode(event, &c->temporary, &started);
    assert(status == OK);
    started.has_parent = false;
    started.has_scheduled = false;
    new_execution_id(c, started.execution_id);
    reply_instance(c, create(c, in->client.key, &started, 0));
}

/* ---- control ---- */

/* NULL, and the client has its answer, when there is no such instance. */
static struct instance *find_any_or_reply(struct core *c, struct bytes key)
{
    struct instance *i = instance_find_live(c, key);
    if (i == NULL) reply(c, E_NOT_FOUND, "there is no such instance");
    return i;
}

/* The same for what entities do not understand. */
static struct instance *find_or_reply(struct core *c, struct bytes key)
{
    struct instance *i = find_any_or_reply(c, key);
    if (i == NULL || !i->is_entity) return i;
    reply(c, E_INVALID, "this is an entity, not an orchestration");
    return NULL;
}

void on_client_raise(struct core *c, const struct input *in)
{
    struct instance *i = find_or_reply(c, in->client.key);
    if (i == NULL) return;
    if (in->client.name.len == 0 || in->client.name.len > LIMIT_NAME_SIZE) {
        reply(c, E_INVALID, "the event's name must have 1 to 256 bytes");
        return;
    }
    if (instance_is_terminal(i)) {
        c->stats.dropped_messages++;
        reply(c, OK, "the instance has ended: the event was dropped");
        return;
    }
    if (i->inbox.n >= LIMIT_INBOX_N ||
        i->inbox.size + in->client.data.value.len > LIMIT_INBOX_SIZE) {
        reply(c, E_LIMIT,
              "too many unread events wait in this instance: try again when it has read "
              "some");
        return;
    }
    buffer_clear(&c->scratch);
    event_write_raised(&c->scratch, c->now_ns, in->client.name, in->client.data);
    assert(!c->scratch.failed);
    message_add(i, buffer_view(&c->scratch));
    reply(c, OK, "");
}

void on_client_terminate(struct core *c, const struct input *in)
{
    struct instance *i = find_or_reply(c, in->client.key);
    if (i == NULL) return;
    if (!instance_is_terminal(i))
        ending_terminate(i, in->client.data, in->client.recurse);
    else if (in->client.recurse)
        ending_terminate_children(i, in->client.data);
    assert(instance_is_terminal(i));
    reply(c, OK, "");
}

/* Unread resumes keep their place: a suspend after them must be read after them. */
static bool has_unread_control(const struct instance *i)
{
    for (const struct event *e = i->inbox.first; e != NULL; e = e->next) {
        if (e->kind == EVENT_EXECUTION_RESUMED || e->kind == EVENT_EXECUTION_SUSPENDED) return true;
    }
    return false;
}

void on_client_suspend(struct core *c, const struct input *in)
{
    struct instance *i = find_or_reply(c, in->client.key);
    if (i == NULL) return;
    if (instance_is_terminal(i) || i->is_suspended) {
        reply(c, OK, "");
        return;
    }
    if (instance_has_started(i) && !has_unread_control(i)) {
        ending_suspend(i, in->client.data);
    } else {
        buffer_clear(&c->scratch);
        event_write_suspended(&c->scratch, c->now_ns, in->client.data);
        assert(!c->scratch.failed);
        message_add(i, buffer_view(&c->scratch));
    }
    assert(i->is_suspended);
    assert(i->queue == NULL); /* its turn is not offered while it is */
    assert(!i->is_leased);
    reply(c, OK, "");
}

/* Turns are offered again. True when they were not. */
static bool unpark(struct core *c, struct instance *i)
{
    if (!i->is_poisoned || instance_is_terminal(i)) return false;
    struct record record = {.kind = RECORD_UNPARKED, .key = i->key};
    emit(c, &record);
    assert(!i->is_poisoned);
    return true;
}

void on_client_resume(struct core *c, const struct input *in)
{
    if (waits(c, in)) {
        reply(c, OK, ""); /* it is neither suspended nor parked */
        return;
    }
    struct instance *i = find_any_or_reply(c, in->client.key);
    if (i == NULL) return;
    (void)unpark(c, i);
    if (i->is_suspended && !instance_is_terminal(i)) {
        buffer_clear(&c->scratch);
        event_write_resumed(&c->scratch, c->now_ns, in->client.data);
        assert(!c->scratch.failed);
        message_add(i, buffer_view(&c->scratch));
        assert(!i->is_suspended);
    }
    reply(c, OK, "");
}

void on_client_rewind(struct core *c, const struct input *in)
{
    bool is_waiting = waits(c, in);
    struct instance *i = is_waiting ? NULL : find_or_reply(c, in->client.key);
    if (i == NULL && !is_waiting) return;
    if (is_waiting || !instance_is_terminal(i) || i->status != STATUS_FAILED) {
        reply(
            c, E_PRECONDITION,
            step_text(c,
                      "precondition: only a failed instance can be rewound; this one is %s, "
                      "which does not allow it",
                      orchestration_status_name(is_waiting ? STATUS_PENDING : instance_status(i))));
        return;
    }
    if (ending_has_undone(i)) {
        reply(c, E_PRECONDITION,
              "precondition: its compensations have run, so there is nothing to go on from; "
              "restart it instead");
        return;
    }
    struct bytes parent = BYTES_NONE;
    if (i->has_parent && i->parent.has_execution_id) {
        parent = copy_must(&c->temporary, bytes_make(i->parent.execution_id, EXECUTION_ID_SIZE));
    }
    ending_rewind(i, in->client.data, parent);
    assert(!instance_is_terminal(i));
    assert(i->status == STATUS_RUNNING);
    reply(c, OK, "");
}

void on_client_purge(struct core *c, const struct input *in)
{
    bool is_waiting = waits(c, in);
    assert(!is_waiting || !in->client.is_forced);
    struct instance *i = is_waiting ? NULL : find_any_or_reply(c, in->client.key);
    if (i == NULL && !is_waiting) return;
    if (is_waiting || (!instance_is_terminal(i) && !in->client.is_forced)) {
        reply(c, E_PRECONDITION, "the instance has not ended: terminate it before purging it");
        return;
    }
    /* Ended in the ordinary way first: its parent and whoever waits for it hear of it. */
    if (!i->is_entity && !instance_is_terminal(i)) ending_terminate(i, MAYBE_NONE, false);
    assert(i->is_entity || instance_is_terminal(i));
    struct record record = {.kind = RECORD_PURGED, .key = i->key};
    emit(c, &record);
    assert(i->is_purged);
    assert(i->items_n == 0);
    reply(c, OK, "");
}

/* An operator has mended the cause: the step is tried again from its first failure on (S13), and so
 * is the turn, when it is the orchestrator itself that was parked. */
void on_client_resubmit(struct core *c, const struct input *in)
{
    bool is_waiting = waits(c, in);
    struct instance *i = is_waiting ? NULL : find_any_or_reply(c, in->client.key);
    if (i == NULL && !is_waiting) return;
    bool is_unparked = !is_waiting && unpark(c, i);
    struct item *item = is_waiting ? NULL : item_find(i, in->client.task_id, ITEM_TASK);
    if (item == NULL || (item->state != TASK_STATE_PARKED && item->state != TASK_STATE_WAITING)) {
        if (is_unparked)
            reply(c, OK, "");
        else
            reply(c, E_PRECONDITION, "this step does not wait for an operator or for a retry");
        return;
    }
    assert(item->kind == ITEM_TASK);
    assert(!item->is_detached);
    struct record record = {
        .kind = RECORD_TASK_TRIED,
        .key = i->key,
        .task_id = item->id,
        .failures = item->failures,
        .next = TASK_NEXT_RETRY,
        .retry_at_ms = now_ms(c),
        .reason = BYTES_LITERAL("resubmitted by an operator"),
    };
    memcpy(record.execution_id, item->execution_id, EXECUTION_ID_SIZE);
    emit(c, &record);
    assert(item->state == TASK_STATE_QUEUED);
    reply(c, OK, "");
}
