/* SPDX-License-Identifier: Apache-2.0
 *
 * See flows.h.
 */
#include "test/torture/flows.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "wire/pb.h"

#include <stdio.h>
#include <stdlib.h>

#define TIMER_MS 40
#define TEXT_SIZE 256

static const char *const names[FLOWS_N] = {
#define X(name) #name,
    FLOWS(X)
#undef X
};

const char *flow_name(enum flow flow) { return names[flow]; }

void flow_entity_id(uint64_t number, char out[FLOW_ID_SIZE])
{
    (void)snprintf(out, FLOW_ID_SIZE, "@keeper@%llu",
                   (unsigned long long)(number % FLOW_ENTITIES_N));
}

void flow_request_id(uint64_t number, char out[FLOW_ID_SIZE])
{
    (void)snprintf(out, FLOW_ID_SIZE, "00000000-0000-4000-8000-%012llx",
                   (unsigned long long)number);
}

void flow_output(struct buffer *out, enum flow flow, struct bytes id, uint32_t n)
{
    buffer_format(out, "\"%s %.*s", flow_name(flow), (int)id.len, (const char *)id.ptr);
    if (flow == FLOW_collect)
        buffer_format(out, ":");
    else
        buffer_format(out, " %u\"", n);
}

/* ---- replay ---- */

#define TASKS_MAX 64

struct replay {
    const struct item *item;
    struct bytes name;
    uint64_t k;
    uint32_t n;
    uint32_t actions_n; /* scheduled so far */
    uint32_t ordered_n; /* activities */
    uint32_t done_n;
    uint64_t done_ids; /* bits */
    bool has_child;
    bool has_called;
    struct bytes answer; /* of the child or the entity */
    bool is_answered;
    uint32_t timers_n;
    uint32_t fired_n;
    struct buffer events; /* " 3 5": inputs of the events taken */
    bool is_stopped;
    char wrong[TEXT_SIZE]; /* what does not fit; "" = nothing */
};

static void note_wrong(struct replay *p, const char *what, struct bytes text)
{
    int len = text.ptr == NULL ? 0 : (int)(text.len < 150 ? text.len : 150);

    (void)snprintf(p->wrong, sizeof p->wrong, "%s %.*s", what, len,
                   len > 0 ? (const char *)text.ptr : "");
}

static void read_input(struct replay *p, struct bytes input)
{
    char text[TEXT_SIZE];
    char *end;

    size_t len = input.len < sizeof text ? input.len : sizeof text - 1;
    memcpy(text, input.ptr, len);
    text[len] = '\0';
    p->k = strtoull(text, &end, 10);
    p->n = (uint32_t)strtoul(end, NULL, 10);
}

static void task_result(const struct item *item, int32_t task_id, char out[TEXT_SIZE])
{
    (void)snprintf(out, TEXT_SIZE, "\"%.*s/%.*s/%d\"", (int)item->id.len,
                   (const char *)item->id.ptr, (int)item->execution_id.len,
                   (const char *)item->execution_id.ptr, task_id);
}

/* Fields 1 (a number or a text), and the StringValue with this number. */
static void read_pair(struct bytes event, uint32_t value_number, struct pb_field *first,
                      struct bytes *value)
{
    struct pb_reader r = pb_reader_make(event);
    struct pb_field f;

    *first = (struct pb_field){0};
    *value = BYTES_NONE;
    while (pb_next(&r, &f)) {
        if (f.number == 1) *first = f;
        if (f.number == value_number) (void)pb_get_string_value(&f, value);
    }
}

static void replay_task_done(struct replay *p, struct bytes event)
{
    struct pb_field id;
    struct bytes result;
    char expected[TEXT_SIZE];

    read_pair(event, 2, &id, &result);
    p->done_n++;
    if (id.value == 0 || id.value >= TASKS_MAX || (p->done_ids >> id.value & 1) != 0) {
        note_wrong(p, "a task is done twice or was not ordered:", result);
        return;
    }
    p->done_ids |= UINT64_C(1) << id.value;
    task_result(p->item, pb_int32(&id), expected);
    if (!bytes_equal(bytes_of_text(expected), result))
        note_wrong(p, "the result of another task:", result);
}

static void replay_answer(struct replay *p, struct bytes event)
{
    struct pb_field id;

    if (p->is_answered) note_wrong(p, "answered twice", BYTES_NONE);
    p->is_answered = true;
    read_pair(event, 2, &id, &p->answer);
}

static void replay_raised(struct replay *p, struct bytes event)
{
    struct pb_field name;
    struct bytes input;

    read_pair(event, 2, &name, &input);
    if (p->is_stopped) return;
    if (bytes_equal(name.bytes, BYTES_LITERAL("stop")))
        p->is_stopped = true;
    else
        buffer_format(&p->events, " %.*s", (int)input.len, (const char *)input.ptr);
}

static void replay_started(struct replay *p, struct bytes event)
{
    struct pb_field name;
    struct bytes input;

    read_pair(event, 3, &name, &input);
    p->name = name.bytes;
    read_input(p, input);
}

static void replay_event(struct replay *p, struct bytes event)
{
    struct pb_reader r = pb_reader_make(event);
    struct pb_field f;

    while (pb_next(&r, &f)) {
        switch (f.number) {
        case 3: replay_started(p, f.bytes); break;
        case 6: p->actions_n++, p->ordered_n++; break;
        case 7: replay_task_done(p, f.bytes); break;
        case 8: note_wrong(p, "a task has failed", BYTES_NONE); break;
        case 9: p->actions_n++, p->has_child = true; break;
        case 10: replay_answer(p, f.bytes); break;
        case 11: note_wrong(p, "the child has failed", BYTES_NONE); break;
        case 12: p->actions_n++, p->timers_n++; break;
        case 13: p->fired_n++; break;
        case 17: replay_raised(p, f.bytes); break;
        case 24: p->actions_n++, p->has_called = true; break;
        case 25: replay_answer(p, f.bytes); break;
        case 26: note_wrong(p, "the entity has failed", BYTES_NONE); break;
        default: break;
        }
    }
}

/* ---- actions ---- */

static int32_t next_id(struct replay *p) { return (int32_t)++p->actions_n; }

static void order_task(struct replay *p, struct buffer *out)
{
    put_task_action(out, next_id(p), "step", BYTES_LITERAL("\"in\""));
}

static void order_child(struct replay *p, struct buffer *out)
{
    char text[TEXT_SIZE];

    struct pb_mark action = pb_begin(out, 2, 80);
    pb_put_int32(out, 1, next_id(p));
    struct pb_mark child = pb_begin(out, 3, 70);
    (void)snprintf(text, sizeof text, "%.*s:child", (int)p->item->id.len,
                   (const char *)p->item->id.ptr);
    pb_put_bytes(out, 1, bytes_of_text(text));
    pb_put_bytes(out, 2, BYTES_LITERAL("sequence"));
    (void)snprintf(text, sizeof text, "0 %u", p->n);
    pb_put_string_value(out, 4, bytes_of_text(text), true);
    pb_end(out, child);
    pb_end(out, action);
}

static void order_timer(struct replay *p, struct buffer *out)
{
    struct pb_mark action = pb_begin(out, 2, 20);
    pb_put_int32(out, 1, next_id(p));
    struct pb_mark timer = pb_begin(out, 4, 14);
    pb_put_timestamp(out, 1, clock_wall_ns() + TIMER_MS * NS_PER_MS);
    pb_end(out, timer);
    pb_end(out, action);
}

static void call_entity(struct replay *p, struct buffer *out)
{
    char text[FLOW_ID_SIZE];

    struct pb_mark action = pb_begin(out, 2, 100);
    pb_put_int32(out, 1, next_id(p));
    struct pb_mark message = pb_begin(out, 8, 90);
    struct pb_mark call = pb_begin(out, 2, 85);
    flow_request_id(p->k, text);
    pb_put_bytes(out, 1, bytes_of_text(text));
    pb_put_bytes(out, 2, BYTES_LITERAL("keep"));
    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)p->k);
    pb_put_string_value(out, 4, bytes_of_text(text), true);
    flow_entity_id(p->k, text);
    pb_put_string_value(out, 7, bytes_of_text(text), true);
    pb_end(out, call);
    pb_end(out, message);
    pb_end(out, action);
}

static void finish(struct replay *p, enum flow flow, struct buffer *out)
{
    struct buffer output;

    buffer_init(&output, mem_process());
    if (p->wrong[0] != '\0')
        buffer_format(&output, "\"WRONG %s\"", p->wrong);
    else
        flow_output(&output, flow, p->item->id, p->n);
    if (flow == FLOW_collect) {
        buffer_append_bytes(&output, buffer_view(&p->events));
        buffer_append_bytes(&output, BYTES_LITERAL("\""));
    }
    put_end_action(out, next_id(p), STATUS_COMPLETED, buffer_view(&output));
    buffer_release(&output);
}

static void check_child(struct replay *p)
{
    struct buffer expected;
    char id[TEXT_SIZE];

    buffer_init(&expected, mem_process());
    (void)snprintf(id, sizeof id, "%.*s:child", (int)p->item->id.len,
                   (const char *)p->item->id.ptr);
    flow_output(&expected, FLOW_sequence, bytes_of_text(id), p->n);
    if (!bytes_equal(buffer_view(&expected), p->answer))
        note_wrong(p, "the result of another child:", p->answer);
    buffer_release(&expected);
}

static void check_entity(struct replay *p)
{
    char expected[FLOW_ID_SIZE];

    (void)snprintf(expected, sizeof expected, "%llu", (unsigned long long)p->k);
    if (!bytes_equal(bytes_of_text(expected), p->answer))
        note_wrong(p, "the answer to another call:", p->answer);
}

static void run_loop(struct replay *p, struct buffer *out)
{
    char input[TEXT_SIZE];

    if (p->ordered_n == 0) {
        order_task(p, out);
    } else if (p->done_n == 1 && p->k + 1 < p->n && p->wrong[0] == '\0') {
        (void)snprintf(input, sizeof input, "%llu %u", (unsigned long long)p->k + 1, p->n);
        put_end_action(out, next_id(p), STATUS_CONTINUED_AS_NEW, bytes_of_text(input));
    } else if (p->done_n == 1) {
        finish(p, FLOW_loop, out);
    }
}

static void run_parent(struct replay *p, struct buffer *out)
{
    if (!p->has_child) order_child(p, out);
    if (!p->is_answered) return;
    check_child(p);
    finish(p, FLOW_parent, out);
}

static void run_keeper(struct replay *p, struct buffer *out)
{
    if (!p->has_called) call_entity(p, out);
    if (!p->is_answered) return;
    check_entity(p);
    finish(p, FLOW_keeper, out);
}

static void run_fan(struct replay *p, struct buffer *out)
{
    if (p->ordered_n == 0) {
        for (uint32_t i = 0; i < p->n; i++) order_task(p, out);
    } else if (p->done_n == p->n) {
        finish(p, FLOW_fan, out);
    }
}

static void run_sequence(struct replay *p, struct buffer *out)
{
    if (p->done_n != p->ordered_n) return;
    if (p->done_n < p->n)
        order_task(p, out);
    else
        finish(p, FLOW_sequence, out);
}

static void run_timers(struct replay *p, struct buffer *out)
{
    if (p->fired_n != p->timers_n) return;
    if (p->fired_n < p->n)
        order_timer(p, out);
    else
        finish(p, FLOW_timers, out);
}

static void run(struct replay *p, enum flow flow, struct buffer *out)
{
    switch (flow) {
    case FLOW_sequence: run_sequence(p, out); break;
    case FLOW_fan: run_fan(p, out); break;
    case FLOW_parent: run_parent(p, out); break;
    case FLOW_timers: run_timers(p, out); break;
    case FLOW_loop: run_loop(p, out); break;
    case FLOW_collect:
        if (p->is_stopped) finish(p, flow, out);
        break;
    case FLOW_keeper: run_keeper(p, out); break;
    case FLOW_endless: break;
    case FLOWS_N: break;
    }
}

static bool answer_turn(const struct item *item, bool has_token, struct buffer *out)
{
    struct replay p = {.item = item};
    struct pb_reader r = pb_reader_make(item->body);
    struct pb_field f;
    enum flow flow = 0;

    buffer_init(&p.events, mem_process());
    while (pb_next(&r, &f)) {
        if (f.number == 3 || f.number == 4) replay_event(&p, f.bytes);
    }
    while (flow < FLOWS_N && !bytes_equal(p.name, bytes_of_text(flow_name(flow)))) flow++;
    pb_put_bytes(out, 1, item->id);
    run(&p, flow, out);
    if (has_token) pb_put_bytes(out, 4, item->token);
    buffer_release(&p.events);
    return flow < FLOWS_N;
}

/* ---- activities and entities ---- */

static bool answer_task(const struct item *item, bool has_token, struct buffer *out)
{
    char result[TEXT_SIZE];

    task_result(item, item->task_id, result);
    pb_put_bytes(out, 1, item->id);
    pb_put_plain_int32(out, 2, item->task_id);
    pb_put_string_value(out, 3, bytes_of_text(result), true);
    if (has_token) pb_put_bytes(out, 5, item->token);
    return true;
}

/* One operation: appends its number to the state and its result to the answer. */
static void operate(struct bytes event, struct buffer *state, struct buffer *out)
{
    struct pb_reader r = pb_reader_make(event);
    struct pb_field f;
    struct pb_field id;
    struct bytes input = BYTES_NONE;
    bool is_operation = false;

    while (pb_next(&r, &f)) {
        if (f.number != 23 && f.number != 24) continue;
        is_operation = true;
        read_pair(f.bytes, 4, &id, &input);
    }
    if (!is_operation) return;
    if (state->len > 0) buffer_u8(state, ' ');
    buffer_append_bytes(state, input);
    struct pb_mark result = pb_begin(out, 1, 30);
    struct pb_mark success = pb_begin(out, 1, 25);
    pb_put_string_value(out, 1, input, true);
    pb_end(out, success);
    pb_end(out, result);
}

static bool answer_entity(const struct item *item, struct buffer *out)
{
    struct pb_reader r = pb_reader_make(item->body);
    struct pb_field f;
    struct buffer state;
    struct bytes before;

    buffer_init(&state, mem_process());
    while (pb_next(&r, &f)) {
        if (f.number == 3 && pb_get_string_value(&f, &before)) buffer_append_bytes(&state, before);
        if (f.number == 4) operate(f.bytes, &state, out);
    }
    pb_put_string_value(out, 3, buffer_view(&state), true);
    pb_put_bytes(out, 5, item->token);
    buffer_release(&state);
    return true;
}

bool flow_answer(const struct item *item, bool has_token, struct buffer *out)
{
    switch (item->kind) {
    case WORK_TURN: return answer_turn(item, has_token, out);
    case WORK_TASK: return answer_task(item, has_token, out);
    case WORK_ENTITY: return answer_entity(item, out);
    }
    return false;
}
