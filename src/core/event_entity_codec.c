/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of the codec that is about entities; see event_codec.c for the rest, whose rules hold
 * here too.
 */
#include "base/arena.h"
#include "base/assert.h"
#include "base/clock.h"
#include "core/event_entity.h"
#include "core/limits.h"
#include "wire/pb.h"

/* Our own field of EntityLockRequested and EntityUnlockSent: executionId of the orchestration, as
 * StringValue. Far above the protocol's, and never sent to a worker. */
#define FIELD_EXECUTION 100

static bool get_text(const struct pb_field *f, struct bytes *out)
{
    if (f->wire != PB_LEN) return false;
    *out = f->bytes;
    return true;
}

static bool get_maybe(const struct pb_field *f, struct maybe *out)
{
    if (!pb_get_string_value(f, &out->value)) return false;
    out->has = true;
    return true;
}

static bool get_time(const struct pb_field *f, bool *has, int64_t *ms)
{
    int64_t seconds = 0;
    int32_t nanos = 0;
    if (!pb_get_timestamp(f, &seconds, &nanos)) return false;
    *has = true;
    *ms = event_timestamp_ms(seconds, nanos);
    assert(*ms < INT64_MAX);
    return true;
}

/* An execution that is not ours to read is none: the answer then goes to whichever runs. */
static bool get_execution(const struct pb_field *f, struct event_entity *out)
{
    struct bytes text = BYTES_NONE;
    if (!pb_get_string_value(f, &text)) return false;
    out->has_parent_execution = execution_id_parse(text, out->parent_execution);
    return true;
}

/* ---- messages to entities ---- */

static bool signaled_field(const struct pb_field *f, struct event_entity *out)
{
    switch (f->number) {
    case 1: return get_text(f, &out->request_id);
    case 2: return get_text(f, &out->operation);
    case 3: return get_time(f, &out->has_scheduled, &out->scheduled_ms);
    case 5: return pb_get_string_value(f, &out->target);
    default: return true;
    }
}

static bool called_field(const struct pb_field *f, struct event_entity *out)
{
    switch (f->number) {
    case 1: return get_text(f, &out->request_id);
    case 2: return get_text(f, &out->operation);
    case 5: return pb_get_string_value(f, &out->parent);
    case 6: return get_execution(f, out);
    case 7: return pb_get_string_value(f, &out->target);
    default: return true;
    }
}

static bool lock_field(const struct pb_field *f, struct event_entity *out)
{
    switch (f->number) {
    case 1: return get_text(f, &out->section);
    case 4: return pb_get_string_value(f, &out->parent);
    case FIELD_EXECUTION: return get_execution(f, out);
    default: return true;
    }
}

static bool unlock_field(const struct pb_field *f, struct event_entity *out)
{
    switch (f->number) {
    case 1: return get_text(f, &out->section);
    case 2: return pb_get_string_value(f, &out->parent);
    case 3: return pb_get_string_value(f, &out->target);
    case FIELD_EXECUTION: return get_execution(f, out);
    default: return true;
    }
}

static bool entity_field(const struct pb_field *f, struct event_entity *out)
{
    if (out->kind == EVENT_ENTITY_SIGNALED) return signaled_field(f, out);
    if (out->kind == EVENT_ENTITY_CALLED) return called_field(f, out);
    if (out->kind == EVENT_ENTITY_LOCK_REQUESTED) return lock_field(f, out);
    assert(out->kind == EVENT_ENTITY_UNLOCK_SENT);
    return unlock_field(f, out);
}

enum status entity_body_decode(enum event_kind kind, struct bytes body, struct arena *arena,
                               struct event_entity *out)
{
    if (kind != EVENT_ENTITY_SIGNALED && kind != EVENT_ENTITY_CALLED &&
        kind != EVENT_ENTITY_LOCK_REQUESTED && kind != EVENT_ENTITY_UNLOCK_SENT) {
        return E_INVALID;
    }
    struct event_entity entity = {.kind = kind};
    struct pb_reader r = pb_reader_make(body);
    struct pb_field f;
    struct buffer set;
    bool ok = true;

    buffer_init(&set, arena->mem);
    while (ok && pb_next(&r, &f)) {
        if (kind == EVENT_ENTITY_LOCK_REQUESTED && f.number == 2) {
            ok = f.wire == PB_LEN;
            if (ok) strings_add(&set, f.bytes);
        } else {
            ok = entity_field(&f, &entity);
        }
    }
    assert(kind == EVENT_ENTITY_LOCK_REQUESTED || set.len == 0); /* the others lock nothing */
    ok = ok && !r.failed && !set.failed;
    if (ok) entity.lock_set = arena_copy(arena, buffer_view(&set));
    ok = ok && entity.lock_set.len == set.len;
    buffer_release(&set);
    if (!ok) return E_INVALID;
    *out = entity;
    return OK;
}

enum status event_entity_decode(struct bytes event, struct arena *arena, struct event_entity *out)
{
    struct event_head head;
    if (event_peek(event, &head) != OK) return E_INVALID;
    return entity_body_decode(head.kind, head.body, arena, out);
}

static bool is_about_entities(enum event_kind kind)
{
    return kind >= EVENT_ENTITY_SIGNALED && kind <= EVENT_ENTITY_UNLOCK_SENT;
}
_Static_assert(EVENT_ENTITY_UNLOCK_SENT - EVENT_ENTITY_SIGNALED == 6, "seven kinds in a row");

struct bytes event_entity_id(struct bytes event)
{
    struct event_head head;
    struct pb_field f;
    struct bytes id = BYTES_NONE;
    if (event_peek(event, &head) != OK || !is_about_entities(head.kind)) return BYTES_NONE;
    struct pb_reader r = pb_reader_make(head.body);
    while (pb_next(&r, &f)) {
        if (f.number == 1 && f.wire == PB_LEN) id = f.bytes;
    }
    return id;
}

/* ---- writing ---- */

static struct pb_mark event_begin(struct buffer *out, int64_t now_ns, int32_t id,
                                  enum event_kind kind, size_t hint)
{
    assert(is_about_entities(kind));
    pb_put_plain_int32(out, 1, id);
    pb_put_timestamp(out, 2, now_ns);
    return pb_begin(out, (uint32_t)kind, hint);
}

static void put_execution(struct buffer *out, uint32_t number,
                          const uint8_t execution[EXECUTION_ID_SIZE])
{
    char text[EXECUTION_TEXT_SIZE];
    execution_id_text(execution, text);
    pb_put_string_value(out, number, bytes_make(text, sizeof text), true);
}

void event_write_entity(struct buffer *out, int64_t now_ns, int32_t id, enum event_kind kind,
                        struct bytes body)
{
    struct pb_mark m = event_begin(out, now_ns, id, kind, body.len);
    buffer_append_bytes(out, body);
    pb_end(out, m);
}

/* A field that comes again replaces the one before: that is how protobuf merges messages. */
void event_write_operation(struct buffer *out, int64_t now_ns, enum event_kind kind,
                           struct bytes body, struct bytes parent,
                           const uint8_t execution[EXECUTION_ID_SIZE])
{
    assert((kind == EVENT_ENTITY_CALLED) == (execution != NULL));
    assert(kind == EVENT_ENTITY_CALLED || kind == EVENT_ENTITY_SIGNALED);
    struct pb_mark m = event_begin(out, now_ns, -1, kind, body.len + parent.len + 60);
    buffer_append_bytes(out, body);
    if (execution != NULL) {
        pb_put_string_value(out, 5, parent, true);
        put_execution(out, 6, execution);
    }
    pb_end(out, m);
}

void event_write_signal(struct buffer *out, int64_t now_ns, const struct signal *s)
{
    struct pb_mark m =
        event_begin(out, now_ns, -1, EVENT_ENTITY_SIGNALED,
                    s->request_id.len + s->operation.len + s->input.value.len + s->target.len + 40);
    pb_put_plain_bytes(out, 1, s->request_id);
    pb_put_plain_bytes(out, 2, s->operation);
    if (s->has_scheduled) {
        int64_t seconds = s->scheduled_ms / 1000;
        int64_t ms = s->scheduled_ms % 1000;
        if (ms < 0) {
            ms += 1000;
            seconds--;
        }
        pb_put_timestamp_parts(out, 3, seconds, (int32_t)(ms * NS_PER_MS));
    }
    pb_put_string_value(out, 4, s->input.value, s->input.has);
    pb_put_string_value(out, 5, s->target, true);
    pb_end(out, m);
}

void event_write_lock_request(struct buffer *out, int64_t now_ns, struct bytes section,
                              struct bytes lock_set, struct bytes parent,
                              const uint8_t execution[EXECUTION_ID_SIZE])
{
    struct reader r = reader_make(lock_set);
    struct bytes one;
    struct pb_mark m = event_begin(out, now_ns, -1, EVENT_ENTITY_LOCK_REQUESTED,
                                   section.len + 2 * lock_set.len + parent.len + 60);
    pb_put_plain_bytes(out, 1, section);
    while (strings_next(&r, &one)) pb_put_bytes(out, 2, one);
    assert(!r.failed); /* of our own making */
    pb_put_string_value(out, 4, parent, true);
    put_execution(out, FIELD_EXECUTION, execution);
    pb_end(out, m);
}

void event_write_unlock(struct buffer *out, int64_t now_ns, struct bytes section,
                        struct bytes target, struct bytes parent,
                        const uint8_t execution[EXECUTION_ID_SIZE])
{
    struct pb_mark m = event_begin(out, now_ns, -1, EVENT_ENTITY_UNLOCK_SENT,
                                   section.len + target.len + parent.len + 60);
    pb_put_plain_bytes(out, 1, section);
    pb_put_string_value(out, 2, parent, true);
    pb_put_string_value(out, 3, target, true);
    put_execution(out, FIELD_EXECUTION, execution);
    pb_end(out, m);
}

void event_write_operation_completed(struct buffer *out, int64_t now_ns, struct bytes request_id,
                                     struct maybe output)
{
    struct pb_mark m = event_begin(out, now_ns, -1, EVENT_ENTITY_COMPLETED,
                                   request_id.len + output.value.len + 12);
    pb_put_plain_bytes(out, 1, request_id);
    pb_put_string_value(out, 2, output.value, output.has);
    pb_end(out, m);
}

void event_write_operation_failed(struct buffer *out, int64_t now_ns, struct bytes request_id,
                                  struct bytes failure)
{
    struct pb_mark m =
        event_begin(out, now_ns, -1, EVENT_ENTITY_FAILED, request_id.len + failure.len + 12);
    pb_put_plain_bytes(out, 1, request_id);
    pb_put_bytes(out, 2, failure);
    pb_end(out, m);
}

void event_write_lock_granted(struct buffer *out, int64_t now_ns, struct bytes section)
{
    struct pb_mark m = event_begin(out, now_ns, -1, EVENT_ENTITY_LOCK_GRANTED, section.len + 4);
    pb_put_plain_bytes(out, 1, section);
    pb_end(out, m);
}

/* ---- answers of workers ---- */

/* OperationResult {1 success {1 result}, 2 failure {1 failureDetails}} */
static bool result_decode(struct bytes message, struct entity_result *out)
{
    struct pb_reader r = pb_reader_make(message);
    struct pb_field f;
    struct bytes body = BYTES_NONE;
    bool ok = true;

    *out = (struct entity_result){0};
    while (pb_next(&r, &f)) {
        if ((f.number != 1 && f.number != 2) || f.wire != PB_LEN) continue;
        out->is_failure = f.number == 2;
        body = f.bytes;
    }
    if (r.failed) return false;
    r = pb_reader_make(body);
    while (ok && pb_next(&r, &f)) {
        if (f.number != 1) continue;
        ok = out->is_failure ? get_text(&f, &out->failure) : get_maybe(&f, &out->output);
    }
    return ok && !r.failed;
}

/* SendSignalAction {1 instanceId, 2 name, 3 input, 4 scheduledTime, 6 trace} */
static bool send_signal_field(const struct pb_field *f, struct entity_action *a)
{
    switch (f->number) {
    case 1: return get_text(f, &a->instance_id);
    case 2: return get_text(f, &a->name);
    case 3: return get_maybe(f, &a->input);
    case 4: return get_time(f, &a->has_scheduled, &a->scheduled_ms);
    case 6: a->trace = (struct maybe){f->bytes, f->wire == PB_LEN}; return true;
    default: return true;
    }
}

/* StartNewOrchestrationAction {1 instanceId, 2 name, 3 version, 4 input, 5 scheduledTime,
 * 7 trace} */
static bool start_field(const struct pb_field *f, struct entity_action *a)
{
    switch (f->number) {
    case 1: return get_text(f, &a->instance_id);
    case 2: return get_text(f, &a->name);
    case 3: return get_maybe(f, &a->version);
    case 4: return get_maybe(f, &a->input);
    case 5: return get_time(f, &a->has_scheduled, &a->scheduled_ms);
    case 7: a->trace = (struct maybe){f->bytes, f->wire == PB_LEN}; return true;
    default: return true;
    }
}

/* OperationAction {1 id, 2 sendSignal, 3 startNewOrchestration} */
static bool entity_action_decode(struct bytes message, struct entity_action *out)
{
    struct pb_reader r = pb_reader_make(message);
    struct pb_field f;
    struct bytes body = BYTES_NONE;
    bool ok = true;

    *out = (struct entity_action){0};
    while (pb_next(&r, &f)) {
        if ((f.number != ENTITY_ACTION_SIGNAL && f.number != ENTITY_ACTION_START) ||
            f.wire != PB_LEN) {
            continue;
        }
        out->kind = (enum entity_action_kind)f.number;
        body = f.bytes;
    }
    if (r.failed || (int)out->kind == 0) return false;
    r = pb_reader_make(body);
    while (ok && pb_next(&r, &f)) {
        ok = out->kind == ENTITY_ACTION_SIGNAL ? send_signal_field(&f, out) : start_field(&f, out);
    }
    return ok && !r.failed;
}

/* EntityBatchResult: 1 results, 2 actions, 3 entityState, 4 failureDetails, 7 requiresState. Counts
 * first: the arrays are of one piece. */
static bool answer_fields(struct bytes result, struct entity_answer *out)
{
    struct pb_reader r = pb_reader_make(result);
    struct pb_field f;
    bool ok = true;

    while (ok && pb_next(&r, &f)) {
        switch (f.number) {
        case 1: out->results_n++; break;
        case 2: out->actions_n++; break;
        case 3: ok = get_maybe(&f, &out->state); break;
        case 4: out->failure = (struct maybe){f.bytes, f.wire == PB_LEN}; break;
        case 7: out->requires_state = pb_bool(&f); break;
        }
    }
    return ok && !r.failed;
}

enum status entity_answer_decode(struct bytes result, struct arena *arena,
                                 const struct entity_answer **out)
{
    struct entity_answer *answer = arena_alloc_zero(arena, sizeof *answer);
    if (answer == NULL) return E_NOMEM;
    if (!answer_fields(result, answer)) return E_INVALID;
    if (answer->results_n > LIMIT_ACTIONS_N || answer->actions_n > LIMIT_ACTIONS_N) return E_LIMIT;
    struct entity_result *results = arena_alloc(arena, (answer->results_n + 1) * sizeof *results);
    struct entity_action *actions = arena_alloc(arena, (answer->actions_n + 1) * sizeof *actions);
    if (results == NULL || actions == NULL) return E_NOMEM;
    answer->results = results;
    answer->actions = actions;

    struct pb_reader r = pb_reader_make(result);
    struct pb_field f;
    bool ok = true;
    while (ok && pb_next(&r, &f)) {
        if (f.number == 1) ok = f.wire == PB_LEN && result_decode(f.bytes, results++);
        if (f.number == 2) ok = f.wire == PB_LEN && entity_action_decode(f.bytes, actions++);
    }
    if (!ok) return E_INVALID;
    assert(results == answer->results + answer->results_n);
    assert(actions == answer->actions + answer->actions_n);
    *out = answer;
    return OK;
}
