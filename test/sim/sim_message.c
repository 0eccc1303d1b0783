/* SPDX-License-Identifier: Apache-2.0
 *
 * See sim_message.h. Field numbers are those of durable_task.proto.
 */
#include "test/sim/sim_message.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"
#include "test/sim/sim_programs.h"
#include "wire/pb.h"

#include <string.h>

#define SERVICE "/TaskHubSidecarService/"

static void put_maybe(struct buffer *out, uint32_t number, struct maybe value)
{
    pb_put_string_value(out, number, value.value, value.has);
}

static void put_strings(struct buffer *out, uint32_t number, struct bytes packed)
{
    struct reader r = reader_make(packed);
    struct bytes one;

    while (strings_next(&r, &one)) pb_put_bytes(out, number, one);
}

static struct maybe get_maybe(const struct pb_field *f)
{
    struct maybe value = {.has = true};

    return pb_get_string_value(f, &value.value) ? value : MAYBE_NONE;
}

static int64_t get_time_ns(const struct pb_field *f)
{
    int64_t seconds = 0;
    int32_t nanos = 0;

    return pb_get_timestamp(f, &seconds, &nanos) ? pb_timestamp_ns(seconds, nanos) : 0;
}

/* ---- requests ---- */

static void write_start(struct buffer *out, const struct request *r)
{
    const struct input_start *start = &r->start;

    pb_put_plain_bytes(out, 1, key_id(r->key));
    pb_put_plain_bytes(out, 2, start->name);
    put_maybe(out, 4, start->input);
    if (start->has_scheduled) pb_put_timestamp(out, 5, start->scheduled_ms * NS_PER_MS);
    put_strings(out, 8, start->tags);
    if (start->reuse == REUSE_DEFAULT) return;
    struct pb_mark mark = pb_begin(out, 6, 32); /* never: nothing may be replaced */
    for (uint32_t i = 0; i < 8 && start->reuse != REUSE_NEVER; i++) {
        if (start->reuse_mask & (1u << i)) pb_put_varint(out, 1, i);
    }
    if (start->reuse == REUSE_IGNORE) pb_put_varint(out, 2, 1);
    if (start->reuse == REUSE_TERMINATE) pb_put_varint(out, 2, 2);
    pb_end(out, mark);
}

static void write_signal(struct buffer *out, const struct request *r)
{
    const struct input_signal *signal = &r->signal;

    pb_put_plain_bytes(out, 1, key_id(r->key));
    pb_put_plain_bytes(out, 2, signal->operation);
    put_maybe(out, 3, signal->input);
    if (signal->has_scheduled) pb_put_timestamp(out, 5, signal->scheduled_ms * NS_PER_MS);
}

static const char *write_query(struct buffer *out, const struct request *r)
{
    const struct request_query *q = &r->query;
    bool is_list = q->terminal_only;

    if (is_list) {
        pb_put_int32(out, 4, (int32_t)q->limit);
        pb_put_string_value(out, 5, q->after_id, q->has_after);
        return SERVICE "ListInstanceIds";
    }
    struct pb_mark mark = pb_begin(out, 1, 64);
    pb_put_int32(out, 5, (int32_t)q->limit);
    pb_put_string_value(out, 6, q->after_id, q->has_after);
    pb_put_string_value(out, 7, q->id_prefix, true);
    pb_end(out, mark);
    return SERVICE "QueryInstances";
}

/* Id, text, and what else some of them have. */
static void write_steer(struct buffer *out, const struct request *r)
{
    pb_put_plain_bytes(out, 1, key_id(r->key));
    put_maybe(out, 2, r->client.data);
}

const char *message_write_request(struct buffer *out, const struct request *r)
{
    switch (r->kind) {
    case REQUEST_START: write_start(out, r); return SERVICE "StartInstance";
    case REQUEST_RAISE:
        pb_put_plain_bytes(out, 1, key_id(r->key));
        pb_put_plain_bytes(out, 2, r->client.name);
        put_maybe(out, 3, r->client.data);
        return SERVICE "RaiseEvent";
    case REQUEST_TERMINATE:
        write_steer(out, r);
        pb_put_plain_varint(out, 3, r->client.recurse);
        return SERVICE "TerminateInstance";
    case REQUEST_SUSPEND: write_steer(out, r); return SERVICE "SuspendInstance";
    case REQUEST_RESUME: write_steer(out, r); return SERVICE "ResumeInstance";
    case REQUEST_REWIND: write_steer(out, r); return SERVICE "RewindInstance";
    case REQUEST_RESTART:
        pb_put_plain_bytes(out, 1, key_id(r->key));
        return SERVICE "RestartInstance";
    case REQUEST_PURGE:
        pb_put_plain_bytes(out, 1, key_id(r->key));
        pb_put_plain_varint(out, 3, r->client.recurse);
        return SERVICE "PurgeInstances";
    case REQUEST_SIGNAL: write_signal(out, r); return SERVICE "SignalEntity";
    case REQUEST_GET:
    case REQUEST_WAIT:
        pb_put_plain_bytes(out, 1, key_id(r->key));
        pb_put_varint(out, 2, 1);
        if (r->kind == REQUEST_GET) return SERVICE "GetInstance";
        return r->wait.until_finished ? SERVICE "WaitForInstanceCompletion"
                                      : SERVICE "WaitForInstanceStart";
    case REQUEST_HISTORY:
        pb_put_plain_bytes(out, 1, key_id(r->key));
        return SERVICE "StreamInstanceHistory";
    case REQUEST_QUERY: return write_query(out, r);
    case REQUEST_RESUBMIT:
    case REQUEST_IMPORT:
    case REQUEST_TURN_DONE:
    case REQUEST_TASK_DONE:
    case REQUEST_ENTITY_DONE:
    case REQUEST_ABANDON:
    case REQUEST_RENEW:
    case REQUEST_MESSAGE:
    case REQUEST_ACK:
    case REQUEST_CHILDREN:
    case REQUEST_WHY:
    case REQUEST_ALERTS:
    case REQUEST_CANCEL:
    case REQUEST_PURGE_WHERE:
    case REQUEST_WORKER_ATTACH:
    case REQUEST_WORKER_CREDIT:
    case REQUEST_WORKER_DETACH:
    case REQUEST_STATS:
    case REQUEST_POSITION:
    case REQUEST_SOURCE:
    case REQUEST_BACKLOG: return NULL;
    }
    unreachable("no such request");
}

/* ---- answers ---- */

static struct bytes make_key(struct arena *arena, struct bytes hub, struct bytes id)
{
    return text_make(arena, "%.*s/%.*s", (int)hub.len, (const char *)hub.ptr, (int)id.len,
                     (const char *)id.ptr);
}

static uint8_t hex_digit(uint8_t c) { return (uint8_t)(c <= '9' ? c - '0' : c - 'a' + 10); }

static void read_execution_id(struct bytes text, uint8_t out[EXECUTION_ID_SIZE])
{
    if (text.len != EXECUTION_TEXT_SIZE) return;
    for (size_t i = 0; i < EXECUTION_ID_SIZE; i++) {
        out[i] = (uint8_t)(hex_digit(text.ptr[2 * i]) << 4 | hex_digit(text.ptr[2 * i + 1]));
    }
}

static bool read_state(struct bytes message, struct bytes hub, struct arena *arena,
                       struct instance_view *view)
{
    struct pb_reader r = pb_reader_make(message);
    struct pb_field f;

    *view = (struct instance_view){0};
    while (pb_next(&r, &f)) {
        switch (f.number) {
        case 1: view->key = make_key(arena, hub, f.bytes); break;
        case 2: view->name = f.bytes; break;
        case 4: view->status = (enum orchestration_status)f.value; break;
        case 6: view->created_ns = get_time_ns(&f); break;
        case 8: view->input = get_maybe(&f); break;
        case 9: view->output = get_maybe(&f); break;
        case 10: view->custom_status = get_maybe(&f); break;
        case 11: view->failure = maybe_some(f.bytes); break;
        case 12: read_execution_id(get_maybe(&f).value, view->execution_id); break;
        case 13:
            view->is_terminal = true;
            view->completed_ns = get_time_ns(&f);
            break;
        default: break;
        }
    }
    return !r.failed && view->key.len > 0;
}

static bool read_instance(struct bytes message, struct bytes hub, struct arena *arena,
                          struct message_answer *out)
{
    struct pb_reader r = pb_reader_make(message);
    struct pb_field f;
    bool is_good = true;

    while (pb_next(&r, &f)) {
        if (f.number == 1) out->has_view = pb_bool(&f);
        if (f.number == 2) is_good = read_state(f.bytes, hub, arena, &out->view);
    }
    return is_good && !r.failed;
}

static bool read_list(const struct request *request, struct bytes message, struct bytes hub,
                      struct arena *arena, struct message_answer *out)
{
    struct pb_reader r = pb_reader_make(message);
    struct pb_field f;
    bool is_good = true;

    while (pb_next(&r, &f)) out->rows_n += f.number == 1 ? 1 : 0;
    if (out->rows_n > 0) {
        out->rows = arena_alloc_zero(arena, out->rows_n * sizeof *out->rows);
        assert(out->rows != NULL);
    }
    out->rows_n = 0;
    r = pb_reader_make(message);
    while (pb_next(&r, &f)) {
        if (f.number == 2) out->token = get_maybe(&f).value;
        if (f.number != 1) continue;
        struct instance_view *row = &out->rows[out->rows_n++];
        if (request->query.terminal_only)
            row->key = make_key(arena, hub, f.bytes);
        else
            is_good = read_state(f.bytes, hub, arena, row) && is_good;
    }
    return is_good && !r.failed;
}

static bool read_chunks(struct bytes messages, struct arena *arena, struct message_answer *out)
{
    struct pb_reader r = pb_reader_make(messages);
    struct pb_field f;
    struct buffer events;

    buffer_init(&events, mem_process());
    while (pb_next(&r, &f)) {
        if (f.number == 1) strings_add(&events, f.bytes);
    }
    out->events = arena_copy(arena, buffer_view(&events));
    buffer_release(&events);
    return !r.failed;
}

bool message_read_answer(const struct request *request, struct bytes hub, struct bytes messages,
                         struct arena *arena, struct message_answer *out)
{
    struct pb_reader r = pb_reader_make(messages);
    struct pb_field f;

    *out = (struct message_answer){0};
    if (request->kind == REQUEST_GET || request->kind == REQUEST_WAIT)
        return read_instance(messages, hub, arena, out);
    if (request->kind == REQUEST_QUERY) return read_list(request, messages, hub, arena, out);
    if (request->kind == REQUEST_HISTORY) return read_chunks(messages, arena, out);
    while (pb_next(&r, &f)) {
        if (f.number == 1 && request->kind == REQUEST_PURGE) out->purged_n = (uint32_t)f.value;
        bool names_itself = request->kind == REQUEST_START || request->kind == REQUEST_RESTART;
        if (f.number == 1 && names_itself && !bytes_equal(f.bytes, key_id(request->key)))
            return false;
    }
    return !r.failed;
}

/* ---- work ---- */

static void put_filter(struct buffer *out, uint32_t number, const char *name)
{
    struct pb_mark mark = pb_begin(out, number, 16);

    pb_put_bytes(out, 1, bytes_of_text(name));
    pb_end(out, mark);
}

void message_write_wish(struct buffer *out, const struct work_limits *limits)
{
    static const char *const tasks[] = {PROGRAM_TASKS};

    for (uint32_t kind = 0; kind < WORK_KINDS_N; kind++) {
        pb_put_plain_varint(out, kind + 1, limits->n[kind]);
    }
    if (limits->can_stream) pb_put_varint(out, 10, 1);
    if (!limits->has_filters) return;
    struct pb_mark mark = pb_begin(out, 11, 400);
    for (uint32_t i = 0; i < PROGRAMS_N; i++) put_filter(out, 1, program_name((enum program)i));
    for (size_t i = 0; i < sizeof tasks / sizeof tasks[0]; i++) put_filter(out, 2, tasks[i]);
    put_filter(out, 3, "log");
    put_filter(out, 3, "brief");
    pb_end(out, mark);
}

static struct bytes pack(struct bytes message, uint32_t number, struct arena *arena)
{
    struct pb_reader r = pb_reader_make(message);
    struct pb_field f;
    struct buffer strings;

    buffer_init(&strings, mem_process());
    while (pb_next(&r, &f)) {
        if (f.number == number) strings_add(&strings, f.bytes);
    }
    struct bytes packed = arena_copy(arena, buffer_view(&strings));
    buffer_release(&strings);
    return packed;
}

static bool read_turn(struct bytes message, struct arena *arena, struct work_item *item)
{
    struct pb_reader r = pb_reader_make(message);
    struct pb_field f;

    while (pb_next(&r, &f)) {
        if (f.number == 1) item->instance_id = f.bytes;
        if (f.number == 2) item->execution_id = get_maybe(&f).value;
        if (f.number == 6) item->is_streamed = pb_bool(&f);
    }
    item->past = pack(message, 3, arena);
    item->fresh = pack(message, 4, arena);
    return !r.failed;
}

static bool read_task(struct bytes message, struct work_item *item)
{
    struct pb_reader r = pb_reader_make(message);
    struct pb_field f;
    struct pb_field part;

    while (pb_next(&r, &f)) {
        if (f.number == 1) item->name = f.bytes;
        if (f.number == 3) item->input = get_maybe(&f);
        if (f.number == 5) item->task_id = pb_int32(&f);
        if (f.number != 4) continue;
        struct pb_reader sub = pb_sub(&f);
        while (pb_next(&sub, &part)) {
            if (part.number == 1) item->instance_id = part.bytes;
        }
    }
    return !r.failed;
}

static bool read_entity(struct bytes message, struct arena *arena, struct work_item *item)
{
    struct pb_reader r = pb_reader_make(message);
    struct pb_field f;

    while (pb_next(&r, &f)) {
        if (f.number == 1) item->instance_id = f.bytes;
        if (f.number == 3) item->state = get_maybe(&f);
    }
    item->fresh = pack(message, 4, arena);
    return !r.failed;
}

bool message_read_item(struct bytes message, struct arena *arena, struct work_item *out)
{
    struct pb_reader r = pb_reader_make(message);
    struct pb_field f;
    bool is_good = false;

    *out = (struct work_item){0};
    while (pb_next(&r, &f)) {
        if (f.number == 10) out->token = f.bytes;
        if (f.number == 1) {
            out->kind = WORK_TURN;
            is_good = read_turn(f.bytes, arena, out);
        } else if (f.number == 2) {
            out->kind = WORK_TASK;
            is_good = read_task(f.bytes, out);
        } else if (f.number == 5) {
            out->kind = WORK_ENTITY;
            is_good = read_entity(f.bytes, arena, out);
        } else if (f.number == 4) {
            out->is_ping = true;
            is_good = true;
        }
    }
    return is_good && !r.failed;
}

void message_write_fetch(struct buffer *out, struct bytes id, struct bytes execution_id)
{
    pb_put_plain_bytes(out, 1, id);
    pb_put_string_value(out, 2, execution_id, execution_id.len > 0);
    pb_put_varint(out, 3, 1);
}

/* ---- what workers answer ---- */

void message_write_abandon(struct buffer *out, struct bytes token)
{
    pb_put_plain_bytes(out, 1, token);
}

static void put_complete(struct buffer *out, const struct action *a)
{
    pb_put_plain_varint(out, 1, (uint64_t)a->status);
    put_maybe(out, 2, a->input);
    put_maybe(out, 4, a->new_version);
    put_strings(out, 5, a->carryover);
    if (a->failure.has) pb_put_bytes(out, 6, a->failure.value);
}

static uint32_t entity_field(enum event_kind kind)
{
    if (kind == EVENT_ENTITY_SIGNALED) return 1;
    if (kind == EVENT_ENTITY_CALLED) return 2;
    return kind == EVENT_ENTITY_LOCK_REQUESTED ? 3 : 4;
}

static void put_action_body(struct buffer *out, const struct action *a)
{
    struct pb_mark mark;

    switch (a->kind) {
    case ACTION_SCHEDULE_TASK:
        pb_put_plain_bytes(out, 1, a->name);
        put_maybe(out, 2, a->version);
        put_maybe(out, 3, a->input);
        put_strings(out, 4, a->tags);
        return;
    case ACTION_CREATE_CHILD:
        pb_put_plain_bytes(out, 1, a->instance_id);
        pb_put_plain_bytes(out, 2, a->name);
        put_maybe(out, 3, a->version);
        put_maybe(out, 4, a->input);
        put_strings(out, 6, a->tags);
        return;
    case ACTION_CREATE_TIMER: pb_put_timestamp_parts(out, 1, a->fire_at_s, a->fire_at_ns); return;
    case ACTION_SEND_EVENT:
        mark = pb_begin(out, 1, 32);
        pb_put_plain_bytes(out, 1, a->instance_id);
        pb_end(out, mark);
        pb_put_plain_bytes(out, 2, a->name);
        put_maybe(out, 3, a->input);
        return;
    case ACTION_COMPLETE: put_complete(out, a); return;
    case ACTION_TERMINATE:
        pb_put_plain_bytes(out, 1, a->instance_id);
        put_maybe(out, 2, a->input);
        pb_put_plain_varint(out, 3, a->recurse);
        return;
    case ACTION_SEND_ENTITY_MESSAGE:
        pb_put_bytes(out, entity_field(a->entity_event), a->entity_body);
        return;
    case ACTION_REWIND: return;
    }
    unreachable("no such action");
}

void message_write_turn(struct buffer *out, struct bytes id, struct bytes token,
                        const struct orchestrator_answer *answer)
{
    pb_put_plain_bytes(out, 1, id);
    for (uint32_t i = 0; i < answer->actions_n; i++) {
        const struct action *a = &answer->actions[i];
        struct pb_mark action = pb_begin(out, 2, 64);
        pb_put_plain_int32(out, 1, a->id);
        struct pb_mark body = pb_begin(out, (uint32_t)a->kind, 64);
        put_action_body(out, a);
        pb_end(out, body);
        pb_end(out, action);
    }
    put_maybe(out, 3, answer->custom_status);
    pb_put_plain_bytes(out, 4, token);
}

void message_write_task(struct buffer *out, struct bytes id, int32_t task_id, struct bytes token,
                        struct maybe result, struct maybe failure)
{
    pb_put_plain_bytes(out, 1, id);
    pb_put_plain_int32(out, 2, task_id);
    put_maybe(out, 3, result);
    if (failure.has) pb_put_bytes(out, 4, failure.value);
    pb_put_plain_bytes(out, 5, token);
}

static void put_entity_result(struct buffer *out, const struct entity_result *result)
{
    struct pb_mark one = pb_begin(out, 1, 32);
    struct pb_mark body = pb_begin(out, result->is_failure ? 2 : 1, 32);

    if (result->is_failure)
        pb_put_bytes(out, 1, result->failure);
    else
        put_maybe(out, 1, result->output);
    pb_end(out, body);
    pb_end(out, one);
}

static void put_entity_action(struct buffer *out, int32_t id, const struct entity_action *a)
{
    bool is_start = a->kind == ENTITY_ACTION_START;
    struct pb_mark one = pb_begin(out, 2, 64);

    pb_put_plain_int32(out, 1, id);
    struct pb_mark body = pb_begin(out, (uint32_t)a->kind, 64);
    pb_put_plain_bytes(out, 1, a->instance_id);
    pb_put_plain_bytes(out, 2, a->name);
    if (is_start) put_maybe(out, 3, a->version);
    put_maybe(out, is_start ? 4 : 3, a->input);
    if (a->has_scheduled) pb_put_timestamp(out, is_start ? 5 : 4, a->scheduled_ms * NS_PER_MS);
    pb_end(out, body);
    pb_end(out, one);
}

void message_write_entity(struct buffer *out, struct bytes token,
                          const struct entity_answer *answer)
{
    for (uint32_t i = 0; i < answer->results_n; i++) put_entity_result(out, &answer->results[i]);
    for (uint32_t i = 0; i < answer->actions_n; i++) {
        put_entity_action(out, (int32_t)i, &answer->actions[i]);
    }
    put_maybe(out, 3, answer->state);
    if (answer->failure.has) pb_put_bytes(out, 4, answer->failure.value);
    pb_put_plain_bytes(out, 5, token);
}
