/* SPDX-License-Identifier: Apache-2.0
 *
 * A saved history against today's code. All turns but the last are replayed as after a crash. The
 * last one is run as if it came now, because how a turn ends is not part of a past: what the
 * orchestrator decides in it is compared with what the history has behind that turn's beginning,
 * and its end with the end there.
 */
#include "lib/kit.h"

#include "wire/event_json.h"
#include "wire/json_read.h"
#include "wire/pb.h"

#include <stdio.h>

struct saved {
    struct mem *mem;
    struct buffer past;  /* strings: events of all turns but the last */
    struct buffer fresh; /* of the last */
    uint32_t past_n;
    uint32_t events_n;
    struct buffer started; /* ExecutionStarted; empty: there was none */
    bool has_end;
    struct buffer end; /* ExecutionCompleted */
};

/* ---- reading ---- */

static void saved_init(struct saved *s, struct mem *mem)
{
    *s = (struct saved){.mem = mem};
    buffer_init(&s->past, mem);
    buffer_init(&s->fresh, mem);
    buffer_init(&s->started, mem);
    buffer_init(&s->end, mem);
}

static void saved_release(struct saved *s)
{
    buffer_release(&s->past);
    buffer_release(&s->fresh);
    buffer_release(&s->started);
    buffer_release(&s->end);
}

/* A turn begins: the one before it was not the last. */
static void saved_turn_begins(struct saved *s)
{
    buffer_append_bytes(&s->past, buffer_view(&s->fresh));
    buffer_clear(&s->fresh);
    s->past_n = s->events_n;
}

static enum status saved_add(struct saved *s, struct bytes event)
{
    struct event_head head;
    enum status status = event_peek(event, &head);

    if (status != OK) return status;
    if (head.kind == EVENT_ORCHESTRATOR_STARTED) saved_turn_begins(s);
    if (head.kind == EVENT_EXECUTION_STARTED && s->started.len == 0) {
        buffer_append_bytes(&s->started, event);
    }
    if (head.kind == EVENT_EXECUTION_COMPLETED) {
        s->has_end = true;
        buffer_clear(&s->end);
        buffer_append_bytes(&s->end, event);
    }
    strings_add(&s->fresh, event);
    s->events_n++;
    bool is_full = s->past.failed || s->fresh.failed || s->started.failed || s->end.failed;
    return is_full ? E_NOMEM : OK;
}

/* Lines, or an array: what stands between the events is not looked at. */
static void skip_between(struct json_reader *r)
{
    while (r->at < r->end && memchr(" \t\r\n,[]", *r->at, 8) != NULL) r->at++;
}

static enum status saved_read(struct norn_test *t, struct saved *s, struct bytes history)
{
    struct json_reader r = json_reader_make(history);
    struct buffer event;
    enum status status = OK;

    buffer_init(&event, s->mem);
    for (skip_between(&r); status == OK && r.at < r.end; skip_between(&r)) {
        buffer_clear(&event);
        status = event_json_read(&r, &event);
        if (status == OK) status = saved_add(s, buffer_view(&event));
    }
    buffer_release(&event);
    if (status == E_INVALID || status == E_LIMIT) {
        kit_say(t, "event %u is not an event of a history", s->events_n + 1);
        return E_INVALID;
    }
    if (status == OK && s->started.len == 0) {
        kit_say(t, "the history has no ExecutionStarted");
        return E_INVALID;
    }
    return status;
}

/* ---- comparing ---- */

static void say_different(struct norn_test *t, const struct orchestration *o, const char *expected,
                          const char *got)
{
    const struct norn_here *here = &o->context.here;

    kit_say(t, "expected %s, got %s, at the end of the history; orchestrator '%s', version %s",
            expected, got, here->name, here->version != NULL ? here->version : "none");
}

static void describe_end(char *out, size_t size, enum orchestration_status status,
                         struct maybe result, struct maybe failure)
{
    struct pb_reader r = pb_reader_make(failure.value);
    struct pb_field f;
    struct bytes text = result.value;

    while (failure.has && pb_next(&r, &f)) {
        if (f.number == 1) text = f.bytes;
    }
    (void)snprintf(out, size, "the end %s%s%.*s", orchestration_status_name(status),
                   text.len > 0 ? " " : "", (int)(text.len < 300 ? text.len : 300),
                   (const char *)text.ptr);
}

/* Failures are the same when their types are: messages are for people. */
static struct bytes failure_type(struct maybe failure)
{
    struct pb_reader r = pb_reader_make(failure.value);
    struct pb_field f;
    struct bytes type = BYTES_NONE;

    while (failure.has && pb_next(&r, &f)) {
        if (f.number == 1) type = f.bytes;
    }
    return type;
}

/* decided: ACTION_COMPLETE, or NULL when the orchestrator waits. */
static bool end_is_equal(struct norn_test *t, const struct orchestration *o,
                         const struct event_completed *end, const struct action *decided)
{
    char expected[400];
    char got[400];

    /* that one came from today's mistake, if it was one: now it goes on */
    if (bytes_equal(failure_type(end->failure), BYTES_LITERAL("NonDeterminism"))) return true;
    describe_end(expected, sizeof expected, end->status, end->result, end->failure);
    if (decided == NULL) {
        say_different(t, o, expected, "an orchestrator that waits");
        return false;
    }
    bool is_equal = decided->status == end->status &&
                    (end->status == STATUS_FAILED
                         ? bytes_equal(failure_type(decided->failure), failure_type(end->failure))
                         : decided->input.has == end->result.has &&
                               bytes_equal(decided->input.value, end->result.value));
    if (is_equal) return true;
    describe_end(got, sizeof got, decided->status,
                 decided->failure.has ? MAYBE_NONE : decided->input, decided->failure);
    say_different(t, o, expected, got);
    return false;
}

static bool is_equal(struct norn_test *t, const struct orchestration *o, const struct saved *s,
                     const struct link_work *work, bool has_ended)
{
    struct event_completed end = {.status = STATUS_RUNNING};
    uint32_t left_n = work->answer.actions_n - has_ended;
    char got[300];

    if (o->is_different) {
        kit_say(t, "%s", o->context.error.message);
        return false;
    }
    if (s->has_end && event_completed_decode(buffer_view(&s->end), &end) != OK) return false;
    if (end.status == STATUS_TERMINATED) return true; /* by somebody else, wherever it was */
    if (left_n > 0 && !o->is_rewound) { /* what was taken out of a rewound one is done again */
        replay_describe(&work->answer.actions[0], got, sizeof got);
        say_different(t, o, "nothing", got);
        return false;
    }
    const struct action *decided = has_ended ? &work->answer.actions[left_n] : NULL;
    if (s->has_end) return end_is_equal(t, o, &end, decided);
    if (!has_ended) return true;
    say_different(t, o, "nothing", "the end of the orchestrator");
    return false;
}

/* ---- running ---- */

static enum status run(struct norn_test *t, const struct saved *s, struct link_work *work,
                       const struct event_started *started, bool *is_same)
{
    uint64_t events_n = 0;
    bool has_ended = false;
    const struct function *f =
        registry_find(&t->worker->registry, WORK_TURN, started->name, started->version);

    if (f == NULL) {
        kit_say(t, "orchestrator '%.*s' is not registered", (int)started->name.len,
                (const char *)started->name.ptr);
        return E_NOT_FOUND;
    }
    work->port = &t->port;
    work->kind = WORK_TURN;
    work->id = started->instance_id;
    memcpy(work->execution_id, started->execution_id, EXECUTION_ID_SIZE);
    work->name = started->name;
    work->version = started->version;
    work->has_past = true;
    work->past = buffer_view(&s->past);
    work->history_n = s->past_n;
    work->fresh = buffer_view(&s->fresh);
    struct orchestration *o = orchestration_new(&t->env, &f->code, work);
    if (o == NULL) return E_NOMEM;
    enum status status = orchestration_turn(o, work, &events_n, &has_ended);
    if (status == OK) *is_same = is_equal(t, o, s, work, has_ended);
    orchestration_free(o);
    return status;
}

static void drop_line(void *user, const char *line)
{
    (void)user;
    (void)line;
}

static norn_status replay(struct norn_test *t, const struct saved *s)
{
    struct journal_lines lines = t->lines;
    struct event_started started;
    struct link_work work;
    bool is_same = false;

    link_work_init(&work);
    enum status status = event_started_decode(buffer_view(&s->started), &work.arena, &started);
    t->lines = (struct journal_lines){.log = drop_line}; /* the difference is in the error */
    t->is_settling = true;
    if (status == OK) status = run(t, s, &work, &started, &is_same);
    t->is_settling = false;
    t->lines = lines;
    link_work_release(&work);
    if (status != OK) return status_for_user(status);
    return is_same ? NORN_OK : NORN_E_FAILED;
}

norn_status norn_test_replay(norn_test *test, struct norn_bytes history)
{
    struct saved saved;

    if (test == NULL || history.ptr == NULL) return NORN_E_INVALID;
    if (test->is_settling) return NORN_E_PRECONDITION;
    test->error[0] = '\0';
    saved_init(&saved, &test->mem);
    norn_status status =
        status_for_user(saved_read(test, &saved, bytes_make(history.ptr, history.len)));
    if (status == NORN_OK) status = replay(test, &saved);
    saved_release(&saved);
    if (status != NORN_OK && test->error[0] == '\0') {
        kit_say(test, "%s", norn_status_text(status));
    }
    return status;
}
