/* SPDX-License-Identifier: Apache-2.0
 *
 * A script is one run of a program over its events. Each call that begins something takes the next
 * action id; whether that id is in the history already decides if an action is emitted. Waits
 * answer false when the program cannot go on: the program returns, and the next turn runs it again.
 *
 * Choices are stable under replay because they look at positions in the history, which never
 * change.
 */
#include "test/sim/sim_programs.h"

#include "base/assert.h"
#include "core/event_entity.h"
#include "core/replies.h"
#include "wire/pb.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define SLOTS_MAX 96
#define RAISED_MAX 128
#define ACTIONS_MAX 96
#define MODULUS 1000003

const char *program_name(enum program program)
{
    static const char *const names[] = {
#define X(name, weight, text) #name,
        PROGRAMS(X)
#undef X
    };
    return names[program];
}

enum program program_draw(struct rng *rng)
{
    static const uint32_t weights[] = {
#define X(name, weight, text) weight,
        PROGRAMS(X)
#undef X
    };
    uint64_t total = 0;
    for (int i = 0; i < PROGRAMS_N; i++) total += weights[i];
    uint64_t at = rng_below(rng, total);
    int i = 0;
    while (at >= weights[i]) at -= weights[i++];
    return (enum program)i;
}

/* ---- texts ---- */

struct bytes text_make(struct arena *arena, const char *format, ...)
{
    char text[400];
    va_list args;

    va_start(args, format);
    int len = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    assert(len >= 0 && (size_t)len < sizeof text);
    struct bytes copy = arena_copy(arena, bytes_make(text, (size_t)len));
    assert(copy.len == (size_t)len);
    return copy;
}

bool text_has(struct bytes text, struct bytes part)
{
    assert(part.len > 0);
    while (text.len >= part.len) {
        const uint8_t *at = memchr(text.ptr, part.ptr[0], text.len - part.len + 1);
        if (at == NULL) return false;
        if (memcmp(at, part.ptr, part.len) == 0) return true;
        text = bytes_make(at + 1, text.len - (size_t)(at + 1 - text.ptr));
    }
    return false;
}

bool number_next(struct bytes *text, int64_t *out)
{
    size_t at = 0;
    int64_t value = 0;

    while (at < text->len && text->ptr[at] == ' ') at++;
    size_t start = at;
    while (at < text->len && text->ptr[at] >= '0' && text->ptr[at] <= '9') {
        value = value * 10 + (text->ptr[at++] - '0');
    }
    if (at == start) return false;
    *text = bytes_make(text->ptr + at, text->len - at);
    *out = value;
    return true;
}

static int64_t number(struct bytes text)
{
    int64_t value = -1;

    return number_next(&text, &value) ? value : -1;
}

struct plan plan_read(struct bytes input)
{
    struct plan plan = {.rest = input};

    if (number_next(&plan.rest, &plan.n) && number_next(&plan.rest, &plan.x) && plan.rest.len > 0) {
        plan.rest = bytes_make(plan.rest.ptr + 1, plan.rest.len - 1);
    }
    return plan;
}

/* ---- events ---- */

static bool body_field(const struct event_head *head, uint32_t number, struct pb_field *out)
{
    struct pb_reader r = pb_reader_make(head->body);

    while (pb_next(&r, out)) {
        if (out->number == number) return true;
    }
    return false;
}

struct maybe event_value(const struct event_head *head)
{
    struct pb_field field;
    struct bytes value;

    if (!body_field(head, 2, &field) || !pb_get_string_value(&field, &value)) return MAYBE_NONE;
    return maybe_some(value);
}

struct bytes event_raised_name(const struct event_head *head)
{
    struct pb_field field;

    return body_field(head, 1, &field) ? field.bytes : BYTES_NONE;
}

/* ---- scripts ---- */

struct slot {
    enum event_kind begun; /* 0: not in the history */
    bool is_done;
    bool is_failed;
    struct bytes value;
    uint32_t at; /* position of the end in the history */
};

struct raised {
    struct bytes name;
    struct bytes value;
    struct bytes event; /* all of it */
    uint32_t at;
    bool is_taken;
};

struct script {
    struct arena *arena;
    struct bytes instance_id;
    struct bytes input;
    uint8_t execution_id[EXECUTION_ID_SIZE];
    int64_t now_ns;
    uint32_t events_n;
    int32_t scheduled_upto;
    struct slot slots[SLOTS_MAX];
    struct raised raised[RAISED_MAX];
    uint32_t raised_n;

    int32_t next_id;
    struct action actions[ACTIONS_MAX];
    uint32_t actions_n;
    struct maybe custom_status;
    bool is_finished;
    bool is_suspended;
    const char *mismatch;
};

/* Ids that no program uses (garbage has) share the last slot, which none of them looks at. */
static struct slot *slot_of(struct script *s, int32_t id)
{
    if (id < 0 || id >= SLOTS_MAX) {
        s->mismatch = "an id that no program uses";
        id = SLOTS_MAX - 1;
    }
    return &s->slots[id];
}

static void note_end(struct script *s, const struct event_head *head, bool is_failed)
{
    struct slot *slot = slot_of(s, head->ref);

    if (slot->is_done) s->mismatch = "ended twice";
    slot->is_done = true;
    slot->is_failed = is_failed;
    slot->value = is_failed ? BYTES_NONE : event_value(head).value;
    slot->at = s->events_n;
}

/* Calls and locks are answered by the id that the action gave them: a letter and its number. */
static void note_answer(struct script *s, struct bytes event, const struct event_head *head)
{
    struct bytes id = event_entity_id(event);
    struct event_head numbered = *head;

    numbered.ref = id.len < 2 ? -1 : (int32_t)number(bytes_make(id.ptr + 1, id.len - 1));
    note_end(s, &numbered, head->kind == EVENT_ENTITY_FAILED);
}

static void note_raised(struct script *s, struct bytes event, const struct event_head *head)
{
    assert(s->raised_n < RAISED_MAX);
    s->raised[s->raised_n++] = (struct raised){.name = event_raised_name(head),
                                               .value = event_value(head).value,
                                               .event = event,
                                               .at = s->events_n};
}

static void note_event(struct script *s, struct bytes event)
{
    struct event_head head;
    struct event_started started;

    if (event_head_decode(event, &head) != OK) {
        s->mismatch = "not an event";
        return;
    }
    s->events_n++;
    /* Only a few of the kinds say something to a program. */
    if (head.kind == EVENT_ORCHESTRATOR_STARTED) {
        s->now_ns = head.time_ns;
    } else if (head.kind == EVENT_EXECUTION_STARTED) {
        if (event_started_decode(event, s->arena, &started) != OK)
            s->mismatch = "damaged start";
        else
            memcpy(s->execution_id, started.execution_id, EXECUTION_ID_SIZE);
        s->input = started.input.value;
    } else if (head.kind == EVENT_TASK_SCHEDULED || head.kind == EVENT_CHILD_CREATED ||
               head.kind == EVENT_TIMER_CREATED || head.kind == EVENT_EVENT_SENT ||
               head.kind == EVENT_ENTITY_SIGNALED || head.kind == EVENT_ENTITY_CALLED ||
               head.kind == EVENT_ENTITY_LOCK_REQUESTED || head.kind == EVENT_ENTITY_UNLOCK_SENT) {
        slot_of(s, head.id)->begun = head.kind;
    } else if (head.kind == EVENT_TASK_COMPLETED || head.kind == EVENT_CHILD_COMPLETED ||
               head.kind == EVENT_TIMER_FIRED) {
        note_end(s, &head, false);
    } else if (head.kind == EVENT_TASK_FAILED || head.kind == EVENT_CHILD_FAILED) {
        note_end(s, &head, true);
    } else if (head.kind == EVENT_ENTITY_COMPLETED || head.kind == EVENT_ENTITY_FAILED ||
               head.kind == EVENT_ENTITY_LOCK_GRANTED) {
        note_answer(s, event, &head);
    } else if (head.kind == EVENT_EVENT_RAISED) {
        note_raised(s, event, &head);
    } else if (head.kind == EVENT_EXECUTION_SUSPENDED || head.kind == EVENT_EXECUTION_RESUMED) {
        s->is_suspended = head.kind == EVENT_EXECUTION_SUSPENDED;
    }
}

static void note_events(struct script *s, struct bytes packed)
{
    struct reader r = reader_make(packed);
    struct bytes event;

    while (strings_next(&r, &event)) note_event(s, event);
}

/* Takes the next id; gives the action to fill in, or NULL when it was answered before. */
static struct action *begin(struct script *s, enum event_kind as, enum action_kind kind)
{
    int32_t id = s->next_id++;
    struct slot *slot = slot_of(s, id);

    if (slot->begun != EVENT_UNKNOWN) {
        if (slot->begun != as) s->mismatch = "another action has this id";
        return NULL;
    }
    if (id <= s->scheduled_upto) return NULL;
    assert(s->actions_n < ACTIONS_MAX);
    struct action *action = &s->actions[s->actions_n++];
    *action = (struct action){.kind = kind, .id = id};
    return action;
}

static int32_t begin_task(struct script *s, const char *name, struct bytes input)
{
    struct action *action = begin(s, EVENT_TASK_SCHEDULED, ACTION_SCHEDULE_TASK);

    if (action != NULL) {
        action->name = bytes_of_text(name);
        action->input = maybe_some(input);
    }
    return s->next_id - 1;
}

static int32_t begin_child(struct script *s, const char *name, struct bytes id, struct bytes input)
{
    struct action *action = begin(s, EVENT_CHILD_CREATED, ACTION_CREATE_CHILD);

    if (action != NULL) {
        action->name = bytes_of_text(name);
        action->instance_id = id;
        action->input = maybe_some(input);
    }
    return s->next_id - 1;
}

static int32_t begin_timer(struct script *s, int64_t span_ms)
{
    struct action *action = begin(s, EVENT_TIMER_CREATED, ACTION_CREATE_TIMER);

    if (action != NULL) {
        int64_t at_ns = s->now_ns + span_ms * 1000000;
        action->fire_at_s = at_ns / 1000000000;
        action->fire_at_ns = (int32_t)(at_ns % 1000000000);
    }
    return s->next_id - 1;
}

static void send_event(struct script *s, struct bytes to, const char *name, struct bytes value)
{
    struct action *action = begin(s, EVENT_EVENT_SENT, ACTION_SEND_EVENT);

    if (action == NULL) return;
    action->instance_id = to;
    action->name = bytes_of_text(name);
    action->input = maybe_some(value);
}

/* ---- entities ---- */

static struct bytes body_keep(struct script *s, struct buffer *body)
{
    struct bytes copy = arena_copy(s->arena, buffer_view(body));

    assert(copy.len == body->len);
    buffer_release(body);
    return copy;
}

static struct bytes entity_name(struct script *s, int64_t which)
{
    return text_make(s->arena, "@Log@%lld", (long long)(which % 4));
}

/* An operation; the answer to a call ends the slot of its id. */
static int32_t begin_operation(struct script *s, bool is_call, int64_t which, const char *operation,
                               struct bytes input, int64_t delay_ms)
{
    enum event_kind kind = is_call ? EVENT_ENTITY_CALLED : EVENT_ENTITY_SIGNALED;
    struct action *action = begin(s, kind, ACTION_SEND_ENTITY_MESSAGE);

    if (action != NULL) {
        struct buffer b;
        buffer_init(&b, s->arena->mem);
        pb_put_plain_bytes(&b, 1, text_make(s->arena, "r%d", action->id));
        pb_put_plain_bytes(&b, 2, bytes_of_text(operation));
        if (delay_ms > 0) pb_put_timestamp(&b, 3, s->now_ns + delay_ms * 1000000);
        pb_put_string_value(&b, 4, input, true);
        pb_put_string_value(&b, is_call ? 7 : 5, entity_name(s, which), true);
        action->entity_event = kind;
        action->entity_body = body_keep(s, &b);
    }
    return s->next_id - 1;
}

/* The slot of its id ends when all are granted. */
static int32_t begin_lock(struct script *s, int64_t first, int64_t n)
{
    struct action *action = begin(s, EVENT_ENTITY_LOCK_REQUESTED, ACTION_SEND_ENTITY_MESSAGE);

    if (action != NULL) {
        struct buffer b;
        buffer_init(&b, s->arena->mem);
        pb_put_plain_bytes(&b, 1, text_make(s->arena, "s%d", action->id));
        for (int64_t i = n - 1; i >= 0; i--) pb_put_bytes(&b, 2, entity_name(s, first + i));
        action->entity_event = EVENT_ENTITY_LOCK_REQUESTED;
        action->entity_body = body_keep(s, &b);
    }
    return s->next_id - 1;
}

static void unlock(struct script *s, int32_t lock, int64_t which)
{
    struct action *action = begin(s, EVENT_ENTITY_UNLOCK_SENT, ACTION_SEND_ENTITY_MESSAGE);

    if (action == NULL) return;
    struct buffer b;
    buffer_init(&b, s->arena->mem);
    pb_put_plain_bytes(&b, 1, text_make(s->arena, "s%d", lock));
    pb_put_string_value(&b, 3, entity_name(s, which), true);
    action->entity_event = EVENT_ENTITY_UNLOCK_SENT;
    action->entity_body = body_keep(s, &b);
}

/* The next event of this name that is not taken yet; NULL when there is none. */
static struct raised *peek_event(struct script *s, const char *name)
{
    for (uint32_t i = 0; i < s->raised_n; i++) {
        struct raised *r = &s->raised[i];
        if (!r->is_taken && bytes_equal(r->name, bytes_of_text(name))) return r;
    }
    return NULL;
}

static struct action *complete(struct script *s, enum orchestration_status status)
{
    s->is_finished = true;
    struct action *action = &s->actions[s->actions_n++];
    *action = (struct action){.kind = ACTION_COMPLETE, .id = s->next_id++, .status = status};
    return action;
}

static void finish(struct script *s, struct bytes output)
{
    complete(s, STATUS_COMPLETED)->input = maybe_some(output);
}

static struct bytes failure_make(struct arena *arena, const char *type, const char *message)
{
    struct buffer b;

    buffer_init(&b, arena->mem);
    failure_write(&b, type, bytes_of_text(message), false);
    struct bytes copy = arena_copy(arena, buffer_view(&b));
    buffer_release(&b);
    return copy;
}

static void fail(struct script *s, const char *message)
{
    complete(s, STATUS_FAILED)->failure = maybe_some(failure_make(s->arena, "SimError", message));
}

/* The events that were not taken go on to the next generation. */
static void continue_as_new(struct script *s, struct bytes input)
{
    struct buffer carry;

    buffer_init(&carry, s->arena->mem);
    for (uint32_t i = 0; i < s->raised_n; i++) {
        if (!s->raised[i].is_taken) strings_add(&carry, s->raised[i].event);
    }
    struct action *action = complete(s, STATUS_CONTINUED_AS_NEW);
    action->input = maybe_some(input);
    action->carryover = arena_copy(s->arena, buffer_view(&carry));
    buffer_release(&carry);
}

/* ---- the programs ---- */

static int64_t doubled(int64_t x) { return (2 * x + 1) % MODULUS; }

static struct bytes text_of(struct script *s, int64_t value)
{
    return text_make(s->arena, "%lld", (long long)value);
}

static void run_sequence(struct script *s)
{
    struct plan p = plan_read(s->input);
    int64_t x = p.x;

    for (int64_t i = 0; i < p.n; i++) {
        struct slot *slot = slot_of(s, begin_task(s, "double", text_of(s, x)));
        s->custom_status = maybe_some(text_make(s->arena, "step %lld", (long long)i));
        if (!slot->is_done) return;
        x = number(slot->value);
    }
    finish(s, text_of(s, x));
}

static void run_fan(struct script *s)
{
    struct plan p = plan_read(s->input);
    int32_t first = s->next_id;
    int64_t sum = 0;

    for (int64_t i = 0; i < p.n; i++) (void)begin_task(s, "double", text_of(s, p.x + i));
    for (int64_t i = 0; i < p.n; i++) {
        struct slot *slot = slot_of(s, first + (int32_t)i);
        if (!slot->is_done) return;
        sum += number(slot->value);
    }
    finish(s, text_of(s, sum));
}

static void run_either(struct script *s)
{
    struct plan p = plan_read(s->input);
    struct slot *timer = slot_of(s, begin_timer(s, p.n));
    struct raised *event = peek_event(s, "n");
    bool is_event = event != NULL && (!timer->is_done || event->at < timer->at);

    if (is_event) {
        finish(s, text_make(s->arena, "event %.*s", (int)event->value.len, event->value.ptr));
    } else if (timer->is_done) {
        finish(s, BYTES_LITERAL("timer"));
    }
}

/* Appends events to the list until it has n numbers, or this generation has taken max. False:
 * waits. */
static bool take_events(struct script *s, struct buffer *list, int64_t *have, int64_t n,
                        int64_t max)
{
    for (int64_t taken = 0; *have < n && taken < max; taken++) {
        struct raised *event = peek_event(s, "n");
        if (event == NULL) return false;
        event->is_taken = true;
        if (list->len > 0) buffer_u8(list, ' ');
        buffer_append_bytes(list, event->value);
        (*have)++;
    }
    return true;
}

static void run_collect(struct script *s)
{
    struct plan p = plan_read(s->input);
    struct buffer list;
    int64_t have = 0;

    buffer_init(&list, s->arena->mem);
    if (take_events(s, &list, &have, p.n, p.n)) finish(s, arena_copy(s->arena, buffer_view(&list)));
    buffer_release(&list);
}

static void run_collect_loop(struct script *s)
{
    struct plan p = plan_read(s->input);
    struct bytes rest = p.rest;
    struct buffer list;
    int64_t have = 0;
    int64_t value = 0;

    while (number_next(&rest, &value)) have++;
    buffer_init(&list, s->arena->mem);
    buffer_append_bytes(&list, p.rest);
    if (take_events(s, &list, &have, p.n, p.x)) {
        struct bytes all = arena_copy(s->arena, buffer_view(&list));
        if (have == p.n)
            finish(s, all);
        else {
            buffer_clear(&list);
            buffer_append_bytes(&list,
                                text_make(s->arena, "%lld %lld ", (long long)p.n, (long long)p.x));
            buffer_append_bytes(&list, all);
            continue_as_new(s, arena_copy(s->arena, buffer_view(&list)));
        }
    }
    buffer_release(&list);
}

/* Every third one is long: x of its milliseconds, which the client chooses up to days. */
static int64_t timer_ms(const struct plan *p, int64_t i)
{
    return i % 3 == 2 ? p->x : (p->x * (i + 1)) % 3000;
}

static void run_timers(struct script *s)
{
    struct plan p = plan_read(s->input);
    int32_t first = s->next_id;

    for (int64_t i = 0; i < p.n; i++) (void)begin_timer(s, timer_ms(&p, i));
    for (int64_t i = 0; i < p.n; i++) {
        if (!slot_of(s, first + (int32_t)i)->is_done) return;
    }
    finish(s, text_of(s, p.n));
}

static int64_t family_size(int64_t n, int64_t depth)
{
    int64_t size = 1;

    for (; depth > 0; depth--) size = 1 + n * size;
    return size;
}

static void run_family(struct script *s)
{
    struct plan p = plan_read(s->input);
    int64_t sum = 1;

    for (int64_t i = 0; p.x > 0 && i < p.n; i++) {
        /* Alternately an id of our own and one that the engine chooses. */
        struct bytes id = i % 2 == 0 ? text_make(s->arena, "%.*s.%lld", (int)s->instance_id.len,
                                                 (const char *)s->instance_id.ptr, (long long)i)
                                     : BYTES_NONE;
        struct bytes input = text_make(s->arena, "%lld %lld", (long long)p.n, (long long)(p.x - 1));
        struct slot *slot = slot_of(s, begin_child(s, "family", id, input));
        if (!slot->is_done) return;
        if (slot->is_failed) {
            fail(s, "a child failed");
            return;
        }
        sum += number(slot->value);
    }
    finish(s, text_of(s, sum));
}

static void run_crowd(struct script *s)
{
    struct plan p = plan_read(s->input);
    int32_t first = s->next_id;
    int64_t sum = 0;

    for (int64_t i = 0; i < p.n; i++) {
        (void)begin_child(s, "sequence", BYTES_NONE,
                          text_make(s->arena, "1 %lld", (long long)(p.x + i)));
    }
    for (int64_t i = 0; i < p.n; i++) {
        struct slot *slot = slot_of(s, first + (int32_t)i);
        if (!slot->is_done) return;
        if (slot->is_failed) {
            fail(s, "a child failed");
            return;
        }
        sum += number(slot->value);
    }
    finish(s, text_of(s, sum));
}

static void run_loop(struct script *s)
{
    struct plan p = plan_read(s->input);
    struct slot *slot = slot_of(s, begin_task(s, "double", text_of(s, p.x)));

    if (!slot->is_done) return;
    int64_t x = number(slot->value);
    if (p.n == 0)
        finish(s, text_of(s, x));
    else
        continue_as_new(s, text_make(s->arena, "%lld %lld", (long long)(p.n - 1), (long long)x));
}

/* Every generation begins a step and a child with the same ids; only those of the last one may
 * answer it. */
static void run_restless(struct script *s)
{
    struct plan p = plan_read(s->input);
    struct slot *task = slot_of(s, begin_task(s, "double", text_of(s, p.x)));
    struct bytes child_input = text_make(s->arena, "1 %lld", (long long)p.x);
    struct slot *child = slot_of(s, begin_child(s, "sequence", BYTES_NONE, child_input));

    if (p.n > 0) {
        continue_as_new(
            s, text_make(s->arena, "%lld %lld", (long long)(p.n - 1), (long long)(p.x + 1)));
        return;
    }
    if (!task->is_done || !child->is_done) return;
    if (child->is_failed)
        fail(s, "a child failed");
    else
        finish(s, text_of(s, number(task->value) + number(child->value)));
}

static void run_caught(struct script *s)
{
    struct slot *bad = slot_of(s, begin_task(s, "fail", s->input));

    if (!bad->is_done) return;
    struct slot *good = slot_of(s, begin_task(s, "double", s->input));
    if (!good->is_done) return;
    finish(s, bad->is_failed ? BYTES_LITERAL("caught") : BYTES_LITERAL("not failed"));
}

static void run_uncaught(struct script *s)
{
    struct slot *bad = slot_of(s, begin_task(s, "fail", s->input));

    if (bad->is_done) fail(s, "uncaught");
}

/* Both are begun at once: a rewind takes away the one that failed, and what stands behind it
 * stays. */
static void run_undone(struct script *s)
{
    struct slot *bad = slot_of(s, begin_task(s, "fail", s->input));
    struct slot *undo = slot_of(s, begin_task(s, "double", s->input));

    if (!bad->is_done || !undo->is_done) return;
    s->custom_status = maybe_some(BYTES_LITERAL(REPLY_COMPENSATED));
    fail(s, "undone");
}

static void run_bereaved(struct script *s)
{
    struct slot *child = slot_of(s, begin_child(s, "uncaught", BYTES_NONE, s->input));

    if (!child->is_done) return;
    finish(s, child->is_failed ? BYTES_LITERAL("bereaved") : BYTES_LITERAL("not failed"));
}

static void run_self(struct script *s)
{
    struct plan p = plan_read(s->input);
    int64_t sum = 0;

    for (int64_t i = 0; i < p.n; i++) {
        send_event(s, s->instance_id, "self", text_of(s, p.x + i));
        struct raised *event = peek_event(s, "self");
        if (event == NULL) return;
        event->is_taken = true;
        sum += number(event->value);
    }
    finish(s, text_of(s, sum));
}

static void run_relay(struct script *s)
{
    struct plan p = plan_read(s->input);

    send_event(s, p.rest, "n", text_of(s, p.x));
    finish(s, BYTES_LITERAL("sent"));
}

static void run_flaky(struct script *s)
{
    struct slot *slot = slot_of(s, begin_task(s, "flaky", s->input));

    if (slot->is_done) finish(s, slot->is_failed ? BYTES_LITERAL("failed") : slot->value);
}

static void run_late(struct script *s)
{
    struct slot *slot = slot_of(s, begin_task(s, "late", s->input));

    if (slot->is_done) finish(s, slot->is_failed ? BYTES_LITERAL("failed") : slot->value);
}

static void run_parked(struct script *s)
{
    struct slot *slot = slot_of(s, begin_task(s, "park", s->input));

    if (slot->is_done) finish(s, slot->is_failed ? BYTES_LITERAL("failed") : slot->value);
}

/* A sender is an execution: one that begins again counts again. */
static struct bytes counted(struct script *s, int64_t n)
{
    uint64_t name =
        bytes_hash(s->instance_id) ^ bytes_hash(bytes_make(s->execution_id, EXECUTION_ID_SIZE));

    return text_make(s->arena, "%u %lld", (unsigned)(uint32_t)name, (long long)n);
}

static void run_teller(struct script *s)
{
    struct plan p = plan_read(s->input);

    for (int64_t i = 1; i <= p.n; i++) {
        (void)begin_operation(s, false, p.x, "add", counted(s, i), 0);
        if (i % 3 == 0) (void)begin_operation(s, false, p.x + 1, "other", s->input, 10 * p.x + 1);
    }
    for (int64_t i = 1; i <= p.n; i++) {
        struct slot *slot =
            slot_of(s, begin_operation(s, true, p.x, "add", counted(s, p.n + i), 0));
        if (!slot->is_done) return;
        if (!bytes_equal(slot->value, BYTES_LITERAL("ok"))) s->mismatch = "another answer";
    }
    finish(s, text_of(s, p.n));
}

/* Calls this operation of each entity of the section, at once. False: waits. */
static bool call_all(struct script *s, const char *operation, int64_t first, int64_t n)
{
    struct bytes who = text_make(s->arena, "%.*s:%02x%02x%02x%02x", (int)s->instance_id.len,
                                 (const char *)s->instance_id.ptr, s->execution_id[0],
                                 s->execution_id[1], s->execution_id[2], s->execution_id[3]);
    bool is_done = true;

    for (int64_t i = 0; i < n; i++) {
        int32_t id = begin_operation(s, true, first + i, operation, who, 0);
        if (!slot_of(s, id)->is_done) is_done = false;
    }
    return is_done;
}

static void run_critical(struct script *s)
{
    struct plan p = plan_read(s->input);
    int64_t n = p.n % 3 + 1;
    int32_t lock = begin_lock(s, p.x, n);

    if (p.x % 5 == 0) { /* ends before it has what it asked for */
        finish(s, BYTES_LITERAL("left"));
        return;
    }
    if (!slot_of(s, lock)->is_done) return;
    if (!call_all(s, "enter", p.x, n)) return;
    if (!slot_of(s, begin_task(s, "double", text_of(s, p.x)))->is_done) return;
    if (!call_all(s, "leave", p.x, n)) return;
    /* who forgets to unlock ends soon */
    for (int64_t i = 0; i < n && p.x % 2 == 0; i++) unlock(s, lock, p.x + i);
    if (p.x % 3 == 0 && !slot_of(s, begin_task(s, "double", text_of(s, p.x)))->is_done) return;
    finish(s, BYTES_LITERAL("left"));
}

static void run_echo(struct script *s) { finish(s, s->input); }

static void (*const runs[])(struct script *) = {
#define X(name, weight, text) run_##name,
    PROGRAMS(X)
#undef X
};

void program_turn(const struct turn *turn, struct arena *arena, struct turn_result *out)
{
    struct script *s = arena_alloc_zero(arena, sizeof *s);

    assert(s != NULL);
    s->arena = arena;
    s->instance_id = turn->instance_id;
    s->scheduled_upto = turn->scheduled_upto;
    s->next_id = 1;
    note_events(s, turn->past);
    note_events(s, turn->fresh);
    /* A suspended orchestrator does nothing; the turn with the resume finds everything again. */
    if (s->mismatch == NULL && !s->is_suspended) {
        int i = 0;
        while (i < PROGRAMS_N &&
               !bytes_equal(turn->name, bytes_of_text(program_name((enum program)i))))
            i++;
        if (i < PROGRAMS_N)
            runs[i](s);
        else
            fail(s, "no such program"); /* a child that garbage has asked for */
    }
    for (int32_t id = s->next_id; id < SLOTS_MAX && !s->is_suspended; id++) {
        if (s->slots[id].begun != EVENT_UNKNOWN) s->mismatch = "it began what the program did not";
    }
    if (s->mismatch != NULL) {
        s->actions_n = 0;
        fail(s, "not deterministic");
    }
    *out = (struct turn_result){
        .answer = {.actions = s->actions,
                   .actions_n = s->actions_n,
                   .custom_status = s->custom_status},
        .scheduled_upto = s->is_suspended ? turn->scheduled_upto : s->next_id - 1,
        .is_finished = s->is_finished,
        .mismatch = s->mismatch,
    };
}

/* ---- activities ---- */

void program_task(struct bytes name, struct bytes input, uint32_t attempt, bool is_mended,
                  struct arena *arena, struct task_result *out)
{
    struct plan p = plan_read(input);
    bool fails = bytes_equal(name, BYTES_LITERAL("fail")) ||
                 (bytes_equal(name, BYTES_LITERAL("flaky")) && attempt < p.n) ||
                 (bytes_equal(name, BYTES_LITERAL("park")) && !is_mended);

    *out = (struct task_result){0};
    if (fails) {
        out->failure = maybe_some(failure_make(arena, "TaskError", "as it was told"));
    } else {
        int64_t x = bytes_equal(name, BYTES_LITERAL("double")) ? p.n : p.x;
        out->result = maybe_some(text_make(arena, "%lld", (long long)doubled(x)));
    }
}

/* ---- what must come out ---- */

static struct expectation exactly(struct bytes output)
{
    return (struct expectation){STATUS_COMPLETED, true, output};
}

struct expectation program_expect(enum program program, struct bytes input, struct arena *arena)
{
    struct plan p = plan_read(input);
    struct expectation any = {STATUS_COMPLETED, false, BYTES_NONE};
    int64_t x = p.x;
    int64_t sum = 0;

    switch (program) {
    case PROGRAM_sequence:
        for (int64_t i = 0; i < p.n; i++) x = doubled(x);
        return exactly(text_make(arena, "%lld", (long long)x));
    case PROGRAM_fan:
    case PROGRAM_crowd:
        for (int64_t i = 0; i < p.n; i++) sum += doubled(p.x + i);
        return exactly(text_make(arena, "%lld", (long long)sum));
    case PROGRAM_timers: return exactly(text_make(arena, "%lld", (long long)p.n));
    case PROGRAM_family: return exactly(text_make(arena, "%lld", (long long)family_size(p.n, p.x)));
    case PROGRAM_loop:
        for (int64_t i = 0; i <= p.n; i++) x = doubled(x);
        return exactly(text_make(arena, "%lld", (long long)x));
    case PROGRAM_restless:
        return exactly(text_make(arena, "%lld", (long long)(2 * doubled(p.x + p.n))));
    case PROGRAM_caught: return exactly(BYTES_LITERAL("caught"));
    case PROGRAM_undone:
    case PROGRAM_uncaught: return (struct expectation){STATUS_FAILED, false, BYTES_NONE};
    case PROGRAM_bereaved: return exactly(BYTES_LITERAL("bereaved"));
    case PROGRAM_self:
        for (int64_t i = 0; i < p.n; i++) sum += p.x + i;
        return exactly(text_make(arena, "%lld", (long long)sum));
    case PROGRAM_relay: return exactly(BYTES_LITERAL("sent"));
    case PROGRAM_teller: return exactly(text_make(arena, "%lld", (long long)p.n));
    case PROGRAM_critical: return exactly(BYTES_LITERAL("left"));
    case PROGRAM_flaky:
    case PROGRAM_parked: return exactly(text_make(arena, "%lld", (long long)doubled(p.x)));
    case PROGRAM_echo: return exactly(input);
    case PROGRAM_either:
    case PROGRAM_collect:
    case PROGRAM_collect_loop:
    case PROGRAM_late: return any;
    case PROGRAMS_N: break;
    }
    unreachable("every program has an expectation");
}
