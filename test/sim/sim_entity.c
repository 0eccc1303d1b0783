/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of a log is three lines: who is inside a critical section ("-" for nobody), the values,
 * and the last number of each sender. The engine gives a batch together with the state that it
 * applies to, so whatever does not fit the state is a fault of the engine, whoever runs it.
 */
#include "test/sim/sim_entity.h"

#include "base/assert.h"
#include "base/mem.h"
#include "test/sim/sim_client.h"
#include "test/sim/sim_node.h"
#include "test/sim/sim_programs.h"
#include "test/sim/sim_shadow.h"
#include "wire/pb.h"

#include <string.h>

#define NOTES_MAX 2048
#define VALUES_MAX (2 * NOTES_MAX)
#define SENDERS_MAX 4096
#define ACTIONS_MAX 128

struct ledger {
    struct world *w;
    struct note notes[NOTES_MAX];
    uint32_t notes_n;
};

struct sender {
    uint32_t name;
    int64_t last;
};

/* A state, taken apart. */
struct log {
    struct bytes inside;
    int64_t values[VALUES_MAX];
    uint32_t values_n;
    struct sender senders[SENDERS_MAX];
    uint32_t senders_n;
};

/* ---- the ledger ---- */

struct ledger *ledger_new(struct world *w)
{
    struct ledger *l = mem_take_zero(mem_process(), sizeof *l);

    assert(l != NULL);
    l->w = w;
    return l;
}

void ledger_free(struct ledger *l) { mem_give(mem_process(), l, sizeof *l); }

struct note *ledger_note(struct ledger *l, uint32_t client, uint32_t hub)
{
    if (l->notes_n == NOTES_MAX) return NULL;
    struct note *note = &l->notes[l->notes_n++];
    *note = (struct note){.value = l->notes_n, .client = client, .hub = hub};
    return note;
}

/* ---- states ---- */

static struct bytes line_next(struct bytes *text)
{
    const uint8_t *end = text->len == 0 ? NULL : memchr(text->ptr, '\n', text->len);
    size_t len = end == NULL ? text->len : (size_t)(end - text->ptr);
    struct bytes line = bytes_make(text->ptr, len);

    *text = end == NULL ? BYTES_NONE : bytes_make(end + 1, text->len - len - 1);
    return line;
}

static void log_read(struct log *log, struct maybe state)
{
    struct bytes text = state.value;
    int64_t name = 0;

    log->values_n = 0;
    log->senders_n = 0;
    log->inside = BYTES_LITERAL("-");
    if (!state.has) return;
    log->inside = line_next(&text);
    struct bytes values = line_next(&text);
    while (log->values_n < VALUES_MAX && number_next(&values, &log->values[log->values_n])) {
        log->values_n++;
    }
    while (log->senders_n < SENDERS_MAX && number_next(&text, &name)) {
        struct sender *sender = &log->senders[log->senders_n++];
        sender->name = (uint32_t)name;
        bool is_read = number_next(&text, &sender->last);
        assert(is_read);
    }
}

static void put_number(struct buffer *b, int64_t value)
{
    char digits[24];
    size_t n = sizeof digits;

    do {
        digits[--n] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    buffer_append(b, digits + n, sizeof digits - n);
    buffer_u8(b, ' ');
}

static struct maybe log_write(const struct log *log, struct arena *arena)
{
    struct buffer b;

    buffer_init(&b, mem_process());
    buffer_append_bytes(&b, log->inside);
    buffer_u8(&b, '\n');
    for (uint32_t i = 0; i < log->values_n; i++) put_number(&b, log->values[i]);
    buffer_u8(&b, '\n');
    for (uint32_t i = 0; i < log->senders_n; i++) {
        put_number(&b, log->senders[i].name);
        put_number(&b, log->senders[i].last);
    }
    struct bytes copy = arena_copy(arena, buffer_view(&b));
    assert(copy.len == b.len);
    buffer_release(&b);
    return maybe_some(copy);
}

/* ---- operations ---- */

struct run {
    struct world *w;
    struct bytes key;
    struct log *log;
    struct arena *arena;
    struct entity_action *actions;
    uint32_t actions_n;
};

_Noreturn static void run_fail(const struct run *run, const char *invariant, struct bytes operation,
                               struct bytes input, const char *what)
{
    sim_fail(run->w, invariant, "%.*s %.*s %.*s: %s", (int)run->key.len, (const char *)run->key.ptr,
             (int)operation.len, (const char *)operation.ptr, (int)input.len,
             input.len == 0 ? "" : (const char *)input.ptr, what);
}

/* Its execution still runs, and holds what it locked. One that was rewound goes on with a history
 * that says so, while it waits for its locks again. */
static bool is_alive(const struct run *run, struct bytes who)
{
    const uint8_t *colon = memchr(who.ptr, ':', who.len);
    struct instance_view view;

    if (colon == NULL) return false;
    struct bytes hub = key_hub(run->key);
    struct bytes key = text_make(run->arena, "%.*s/%.*s", (int)hub.len, (const char *)hub.ptr,
                                 (int)(colon - who.ptr), (const char *)who.ptr);
    if (!shadow_view(node_of_key(run->w, key)->shadow, key, &view) || view.is_terminal)
        return false;
    struct bytes execution =
        text_make(run->arena, "%02x%02x%02x%02x", view.execution_id[0], view.execution_id[1],
                  view.execution_id[2], view.execution_id[3]);
    struct bytes rest = bytes_make(colon + 1, who.len - (size_t)(colon + 1 - who.ptr));
    return bytes_equal(execution, rest) && !crowd_was_rewound(run->w->crowd, key);
}

static void run_add(struct run *run, struct bytes operation, struct bytes input)
{
    struct log *log = run->log;
    struct bytes rest = input;
    int64_t name = 0;
    int64_t n = 0;
    uint32_t at = 0;

    if (!number_next(&rest, &name) || !number_next(&rest, &n)) return;
    while (at < log->senders_n && log->senders[at].name != (uint32_t)name) at++;
    if (at == log->senders_n) {
        if (at == SENDERS_MAX) return;
        log->senders[log->senders_n++] = (struct sender){(uint32_t)name, n};
        return;
    }
    if (n <= log->senders[at].last) run_fail(run, "S31 once", operation, input, "comes again");
    if (n > log->senders[at].last + 1)
        run_fail(run, "S31 order", operation, input, "something before it is missing");
    log->senders[at].last = n;
}

static void run_pass(struct run *run, struct bytes input)
{
    struct bytes id = key_id(run->key);
    unsigned next = (unsigned)(id.ptr[id.len - 1] - '0' + 1) % LOGS_N;

    if (run->actions_n == ACTIONS_MAX) return;
    run->actions[run->actions_n++] = (struct entity_action){
        .kind = ENTITY_ACTION_SIGNAL,
        .instance_id = text_make(run->arena, "@Log@%u", next),
        .name = BYTES_LITERAL("note"),
        .input = maybe_some(input),
    };
}

static void run_section(struct run *run, struct bytes operation, struct bytes input, bool is_enter)
{
    struct log *log = run->log;
    bool is_empty = bytes_equal(log->inside, BYTES_LITERAL("-"));

    if (!is_empty && !bytes_equal(log->inside, input) && is_alive(run, log->inside))
        run_fail(run, "S32 exclusive", operation, input, "somebody else is inside");
    log->inside = is_enter ? input : BYTES_LITERAL("-");
}

/* Signals must wait while somebody is inside. */
static void check_outside(const struct run *run, struct bytes operation, struct bytes input)
{
    if (bytes_equal(run->log->inside, BYTES_LITERAL("-"))) return;
    if (is_alive(run, run->log->inside))
        run_fail(run, "S32 exclusive", operation, input, "comes into a critical section");
}

static struct bytes operation_input(struct bytes event)
{
    struct event_head head;
    struct pb_field f;
    struct bytes input = BYTES_NONE;

    if (event_head_decode(event, &head) != OK) return BYTES_NONE;
    struct pb_reader r = pb_reader_make(head.body);
    while (pb_next(&r, &f)) {
        if (f.number == 4) (void)pb_get_string_value(&f, &input);
    }
    return input;
}

static void run_one(struct run *run, struct bytes event)
{
    struct event_entity entity;
    struct bytes input = operation_input(event);

    enum status status = event_entity_decode(event, run->arena, &entity);
    if (status != OK) sim_fail(run->w, "S31 event", "a worker is given no operation");
    struct bytes operation = entity.operation;
    if (bytes_equal(operation, BYTES_LITERAL("enter"))) {
        run_section(run, operation, input, true);
        return;
    }
    if (bytes_equal(operation, BYTES_LITERAL("leave"))) {
        run_section(run, operation, input, false);
        return;
    }
    check_outside(run, operation, input);
    if (bytes_equal(operation, BYTES_LITERAL("add"))) run_add(run, operation, input);
    if (bytes_equal(operation, BYTES_LITERAL("pass"))) run_pass(run, input);
    int64_t value = 0;
    if (bytes_equal(operation, BYTES_LITERAL("note")) && number_next(&input, &value) &&
        run->log->values_n < VALUES_MAX) {
        run->log->values[run->log->values_n++] = value;
    }
}

void entity_run(struct world *w, struct bytes key, struct maybe state, struct bytes operations,
                struct arena *arena, struct entity_answer *out)
{
    uint32_t n = strings_count(operations);
    struct entity_result *results = arena_alloc_zero(arena, (n + 1) * sizeof *results);
    struct run run = {.w = w, .key = key, .arena = arena};
    struct reader r = reader_make(operations);
    struct bytes event;

    run.log = mem_take_zero(mem_process(), sizeof *run.log);
    run.actions = arena_alloc_zero(arena, ACTIONS_MAX * sizeof *run.actions);
    assert(results != NULL);
    assert(run.log != NULL);
    assert(run.actions != NULL);
    bool is_brief = bytes_start_with(key_id(key), BYTES_LITERAL("@brief@"));
    /* a worker that is told to stop answers what it has done */
    if (n > 1 && !w->is_healed && rng_chance(&w->rng, 50)) n = 1 + (uint32_t)rng_below(&w->rng, n);
    log_read(run.log, state);
    for (uint32_t i = 0; i < n && strings_next(&r, &event); i++) {
        if (!is_brief) run_one(&run, event);
        results[i].output = maybe_some(BYTES_LITERAL("ok"));
    }
    *out = (struct entity_answer){
        .results = results,
        .results_n = n,
        .actions = run.actions,
        .actions_n = run.actions_n,
        .state = is_brief ? MAYBE_NONE : log_write(run.log, arena),
    };
    mem_give(mem_process(), run.log, sizeof *run.log);
}

bool entity_is_busy(const struct instance_view *view)
{
    return view->backlog_n > 0 || view->locked_by.len > 0;
}

/* ---- the end ---- */

/* How often the value is in the logs of its hub; *at: where, in the order of its log. */
static uint32_t count_value(const struct ledger *l, const struct note *note, const struct log *logs,
                            uint32_t *at)
{
    uint32_t n = 0;

    (void)l;
    for (uint32_t k = 0; k < LOGS_N; k++) {
        const struct log *log = &logs[note->hub * LOGS_N + k];
        for (uint32_t i = 0; i < log->values_n; i++) {
            if (log->values[i] != note->value) continue;
            *at = k * VALUES_MAX + i;
            n++;
        }
    }
    return n;
}

static void check_note(struct ledger *l, const struct note *note, uint32_t n)
{
    const char *what = NULL;

    if (note->is_acked && n == 0) what = "is acknowledged and lost";
    if (note->is_refused && n > 0) what = "is refused and there";
    if (!note->is_doubled && n > 1) what = "is there twice";
    if (n > 2) what = "is there more than twice";
    if (what != NULL)
        sim_fail(l->w, "S31 once", "the signal %lld of client %u %s", (long long)note->value,
                 note->client, what);
}

void ledger_check_end(struct ledger *l)
{
    size_t size = sizeof(struct log) * LOGS_N * HUBS_MAX;
    struct log *logs = mem_take_zero(mem_process(), size);
    uint32_t last[CLIENTS_MAX][LOGS_N] = {{0}};
    struct arena arena;

    assert(logs != NULL);
    arena_init(&arena, mem_process(), 1024);
    for (uint32_t i = 0; i < HUBS_MAX * LOGS_N; i++) {
        struct bytes hub = crowd_hub(i / LOGS_N);
        struct bytes key =
            text_make(&arena, "%.*s/@log@%u", (int)hub.len, (const char *)hub.ptr, i % LOGS_N);
        struct instance_view view = {0};
        (void)shadow_view(node_of_key(l->w, key)->shadow, key, &view);
        log_read(&logs[i], view.entity_state);
        if (logs[i].values_n == 0) continue;
    }
    for (uint32_t i = 0; i < l->notes_n; i++) {
        const struct note *note = &l->notes[i];
        uint32_t at = 0;
        uint32_t n = count_value(l, note, logs, &at);
        check_note(l, note, n);
        if (!note->is_acked || note->is_doubled || note->is_delayed || n != 1) continue;
        uint32_t *before = &last[note->client][at / VALUES_MAX];
        if (at % VALUES_MAX < *before)
            sim_fail(l->w, "S31 order", "the signal %lld of client %u comes before an earlier one",
                     (long long)note->value, note->client);
        *before = at % VALUES_MAX;
    }
    arena_release(&arena);
    mem_give(mem_process(), logs, size);
}
