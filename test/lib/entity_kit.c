/* SPDX-License-Identifier: Apache-2.0
 *
 * See entity_kit.h.
 */
#include "test/lib/entity_kit.h"

#include "base/assert.h"
#include "base/text.h"
#include "wire/pb.h"

/* ---- clients ---- */

enum status kit_signal(struct kit *k, const char *key, const char *operation, const char *input)
{
    struct input in = {.kind = INPUT_CLIENT_SIGNAL};
    in.signal.key = bytes_of_text(key);
    in.signal.operation = bytes_of_text(operation);
    in.signal.input = maybe_text(input);
    return kit_step_for(k, in.signal.key, &in);
}

enum status kit_signal_at(struct kit *k, const char *key, const char *operation, int64_t at_ms)
{
    struct input in = {.kind = INPUT_CLIENT_SIGNAL};
    in.signal.key = bytes_of_text(key);
    in.signal.operation = bytes_of_text(operation);
    in.signal.has_scheduled = true;
    in.signal.scheduled_ms = at_ms;
    return kit_step_for(k, in.signal.key, &in);
}

/* ---- workers ---- */

const struct effect_work *kit_take_entity(struct kit *k, const char *name)
{
    return kit_take(k, WORK_ENTITY, name);
}

enum status kit_entity_answer(struct kit *k, const struct effect_work *work, bool has_ref,
                              const struct entity_answer *answer)
{
    struct input in = {.kind = INPUT_WORKER_ENTITY_DONE};
    in.done.has_ref = has_ref;
    if (has_ref) in.done.ref = work->ref;
    in.done.key = work->ref.key;
    in.done.entity = answer;
    return kit_step_for(k, work->ref.key, &in);
}

enum status kit_entity_done(struct kit *k, const struct effect_work *work, const char *state,
                            const char *const *results, uint32_t results_n)
{
    struct buffer failures[8];
    struct entity_result made[128] = {{0}};
    uint32_t failures_n = 0;
    assert(results_n <= 128);
    for (uint32_t n = 0; n < results_n; n++) {
        if (results[n][0] != '!') {
            made[n].output = maybe_text(results[n]);
            continue;
        }
        assert(failures_n < 8);
        struct buffer *failure = &failures[failures_n++];
        buffer_init(failure, &k->mem);
        failure_write(failure, "TestError", bytes_of_text(results[n] + 1), false);
        made[n].is_failure = true;
        made[n].failure = buffer_view(failure);
    }
    struct entity_answer answer = {
        .results = made, .results_n = results_n, .state = maybe_text(state)};
    enum status status = kit_entity_answer(k, work, true, &answer);
    while (failures_n > 0) buffer_release(&failures[--failures_n]);
    return status;
}

const char *kit_operations(struct kit *k, const struct effect_work *work)
{
    struct reader r = reader_make(work->fresh);
    struct bytes one;
    struct buffer text;
    buffer_init(&text, &k->mem);
    while (strings_next(&r, &one)) {
        struct event_entity entity;
        enum status status = event_entity_decode(one, &k->arena, &entity);
        assert(status == OK);
        buffer_append_bytes(&text, entity.operation);
        buffer_u8(&text, ' ');
    }
    assert(!r.failed);
    const char *kept = kit_bytes(k, buffer_view(&text));
    buffer_release(&text);
    return kept;
}

/* ---- actions ---- */

#define BODIES_N 64
#define BODY_SIZE 4096

/* The next place of static memory for a body. */
static struct bytes body_keep(struct buffer *body)
{
    static uint8_t bodies[BODIES_N][BODY_SIZE];
    static unsigned next;
    assert(!body->failed);
    assert(body->len <= BODY_SIZE);
    uint8_t *at = bodies[next++ % BODIES_N];
    memcpy(at, body->ptr, body->len);
    struct bytes kept = bytes_make(at, body->len);
    buffer_release(body);
    return kept;
}

static struct action entity_action(int32_t id, enum event_kind kind, struct buffer *body)
{
    return (struct action){.kind = ACTION_SEND_ENTITY_MESSAGE,
                           .id = id,
                           .entity_event = kind,
                           .entity_body = body_keep(body)};
}

struct action act_signal(int32_t id, const char *target, const char *request, const char *operation,
                         int64_t at_ms)
{
    struct buffer b;
    buffer_init(&b, mem_process());
    pb_put_plain_bytes(&b, 1, bytes_of_text(request));
    pb_put_plain_bytes(&b, 2, bytes_of_text(operation));
    if (at_ms != 0) pb_put_timestamp_parts(&b, 3, at_ms / 1000, (int32_t)(at_ms % 1000) * 1000000);
    pb_put_string_value(&b, 5, bytes_of_text(target), true);
    return entity_action(id, EVENT_ENTITY_SIGNALED, &b);
}

struct action act_call(int32_t id, const char *target, const char *request, const char *operation)
{
    struct buffer b;
    buffer_init(&b, mem_process());
    pb_put_plain_bytes(&b, 1, bytes_of_text(request));
    pb_put_plain_bytes(&b, 2, bytes_of_text(operation));
    pb_put_string_value(&b, 7, bytes_of_text(target), true);
    return entity_action(id, EVENT_ENTITY_CALLED, &b);
}

struct action act_lock(int32_t id, const char *section, const char *targets)
{
    struct buffer b;
    buffer_init(&b, mem_process());
    pb_put_plain_bytes(&b, 1, bytes_of_text(section));
    while (*targets != '\0') {
        size_t len = strcspn(targets, " ");
        pb_put_bytes(&b, 2, bytes_make(targets, len));
        targets += len;
        while (*targets == ' ') targets++;
    }
    return entity_action(id, EVENT_ENTITY_LOCK_REQUESTED, &b);
}

struct action act_unlock(int32_t id, const char *section, const char *target)
{
    struct buffer b;
    buffer_init(&b, mem_process());
    pb_put_plain_bytes(&b, 1, bytes_of_text(section));
    pb_put_string_value(&b, 3, bytes_of_text(target), true);
    return entity_action(id, EVENT_ENTITY_UNLOCK_SENT, &b);
}

/* ---- looking ---- */

const char *kit_entity(struct kit *k, const char *key)
{
    struct instance_view view;
    struct buffer text;
    if (!kit_view(k, key, &view) || view.is_purged) return "none";
    assert(view.is_entity);
    buffer_init(&text, &k->mem);
    buffer_format(&text, "state %s", kit_maybe(k, view.entity_state));
    if (view.locked_by.len > 0)
        buffer_format(&text, ", locked by %s", kit_bytes(k, view.locked_by));
    if (view.backlog_n > 0) buffer_format(&text, ", backlog %u", view.backlog_n);
    const char *kept = kit_bytes(k, buffer_view(&text));
    buffer_release(&text);
    return kept;
}
