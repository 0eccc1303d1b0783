/* SPDX-License-Identifier: Apache-2.0
 *
 * The reference the engine is compared with, as far as it needs no memory of its own: what may
 * stand in a history, and what may follow on what.
 */
#include "test/sim/sim_check.h"

#include "base/assert.h"
#include "base/mem.h"
#include "host/request.h"
#include "test/sim/sim_client.h"
#include "test/sim/sim_entity.h"
#include "test/sim/sim_node.h"
#include "test/sim/sim_programs.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define IDS_MAX 256

/* ---- policies ---- */

#define PATIENT 1000000u /* thresholds that only a hanging run reaches */

static const struct policy patient = {
    .first_threshold = PATIENT,
    .second_threshold = PATIENT,
    .retry_delay_ms = 50,
    .retry_delay_max_ms = 2000,
    .last_resort = RESORT_FAIL,
};
static const struct policy retrying = {
    .first_threshold = 2,
    .retry_delay_ms = 20,
    .retry_delay_max_ms = 1000,
    .second_threshold = PATIENT,
    .extended_ms = 3000,
    .last_resort = RESORT_FAIL,
    .retries_failures = true,
};
static const struct policy punctual = {
    .complete_by_ms = 1500,
    .first_threshold = 1,
    .retry_delay_ms = 100,
    .retry_delay_max_ms = 1000,
    .second_threshold = 3,
    .extended_ms = 5000,
    .last_resort = RESORT_FAIL,
};
static const struct policy parking = {
    .first_threshold = 1,
    .retry_delay_ms = 50,
    .retry_delay_max_ms = 1000,
    .second_threshold = 1,
    .last_resort = RESORT_PARK,
    .retries_failures = true,
};

const struct policy *check_policy(void *user, struct bytes name)
{
    (void)user;
    if (bytes_equal(name, BYTES_LITERAL("flaky"))) return &retrying;
    if (bytes_equal(name, BYTES_LITERAL("late"))) return &punctual;
    if (bytes_equal(name, BYTES_LITERAL("park"))) return &parking;
    return &patient;
}

/* ---- histories ---- */

struct reading {
    struct world *w;
    struct bytes key;
    uint32_t n;
    int64_t turn_ns; /* of the last OrchestratorStarted */
    bool is_started;
    bool is_suspended;
    bool is_over;
    struct event_completed completed;
    struct event_started started;
    enum event_kind begun[IDS_MAX];
    bool ended[IDS_MAX];
    uint64_t called[IDS_MAX]; /* request ids of calls, as hashes; 0 once it was answered */
    uint32_t called_n;
    int64_t fire_at_ms[IDS_MAX];
};

_Noreturn __attribute__((format(printf, 3, 4))) static void history_fail(const struct reading *r,
                                                                         const char *invariant,
                                                                         const char *format, ...)
{
    char what[200];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(what, sizeof what, format, args);
    va_end(args);
    sim_fail(r->w, invariant, "%.*s event %u: %s", (int)r->key.len, (const char *)r->key.ptr, r->n,
             what);
}

static bool has_zombie(struct bytes b) { return text_has(b, BYTES_LITERAL(ZOMBIE)); }

static void read_begun(struct reading *r, const struct event_head *head, struct bytes event)
{
    if (head->id < 0 || head->id >= IDS_MAX) return; /* garbage that was accepted */
    if (r->is_suspended) history_fail(r, "S23 suspended", "an action while suspended");
    if (r->started.has_scheduled && r->turn_ns < r->started.scheduled_ms * NS_PER_MS) {
        history_fail(r, "S7 start", "an action before the scheduled start");
    }
    if (head->kind == EVENT_EVENT_SENT) return;
    if (r->begun[head->id] != EVENT_UNKNOWN) history_fail(r, "S4 ids", "id %d twice", head->id);
    r->begun[head->id] = head->kind;
    if (head->kind == EVENT_TIMER_CREATED &&
        event_fire_at_decode(event, &r->fire_at_ms[head->id]) != OK) {
        history_fail(r, "S7 timer", "no time");
    }
}

static void read_ended(struct reading *r, const struct event_head *head, enum event_kind begun,
                       const char *invariant)
{
    if (head->ref < 0 || head->ref >= IDS_MAX || r->begun[head->ref] != begun) {
        history_fail(r, invariant, "the end of %d, which was not begun", head->ref);
    }
    if (r->ended[head->ref]) history_fail(r, invariant, "%d ends twice", head->ref);
    r->ended[head->ref] = true;
    if (head->kind == EVENT_TIMER_FIRED && head->time_ns < r->fire_at_ms[head->ref] * NS_PER_MS) {
        history_fail(r, "S7 timer", "timer %d fired %lld us early", head->ref,
                     (long long)(r->fire_at_ms[head->ref] * 1000 - head->time_ns / 1000));
    }
}

/* S33: the answer to a call stands behind it, and once. */
static void read_call(struct reading *r, struct bytes event)
{
    if (r->called_n < IDS_MAX) r->called[r->called_n++] = bytes_hash(event_entity_id(event));
}

static void read_call_answer(struct reading *r, struct bytes event)
{
    uint64_t hash = bytes_hash(event_entity_id(event));

    for (uint32_t i = 0; i < r->called_n; i++) {
        if (r->called[i] != hash) continue;
        r->called[i] = 0;
        return;
    }
    history_fail(r, "S33 call", "the answer to no open call");
}

static void read_turn(struct reading *r, const struct event_head *head)
{
    if (head->time_ns < r->turn_ns) history_fail(r, "S4 time", "a turn before the previous one");
    r->turn_ns = head->time_ns;
}

static void read_started(struct reading *r, struct bytes event, struct arena *arena)
{
    if (r->is_started) history_fail(r, "S5 start", "started twice");
    r->is_started = true;
    if (event_started_decode(event, arena, &r->started) != OK) {
        history_fail(r, "S5 start", "cannot be read");
    }
}

static void read_event(struct reading *r, struct bytes event, struct arena *arena)
{
    struct event_head head;

    if (event_head_decode(event, &head) != OK) history_fail(r, "S4 event", "cannot be read");
    if (r->is_over) history_fail(r, "S5 end", "%s after the end", event_name(head.kind));
    if (!r->is_started && head.kind != EVENT_EXECUTION_STARTED &&
        head.kind != EVENT_ORCHESTRATOR_STARTED) {
        history_fail(r, "S5 start", "%s before the start", event_name(head.kind));
    }
    if (has_zombie(event)) history_fail(r, "S12 stale", "the answer of a zombie");
    if (head.kind == EVENT_ORCHESTRATOR_STARTED) read_turn(r, &head);
    if (head.kind == EVENT_EXECUTION_STARTED) read_started(r, event, arena);
    if (head.kind == EVENT_TASK_SCHEDULED || head.kind == EVENT_TIMER_CREATED ||
        head.kind == EVENT_CHILD_CREATED || head.kind == EVENT_EVENT_SENT) {
        read_begun(r, &head, event);
    }
    if (head.kind == EVENT_TASK_COMPLETED || head.kind == EVENT_TASK_FAILED) {
        read_ended(r, &head, EVENT_TASK_SCHEDULED, "S6 task");
    }
    if (head.kind == EVENT_TIMER_FIRED) read_ended(r, &head, EVENT_TIMER_CREATED, "S7 timer");
    if (head.kind == EVENT_CHILD_COMPLETED || head.kind == EVENT_CHILD_FAILED) {
        read_ended(r, &head, EVENT_CHILD_CREATED, "S8 child");
    }
    if (head.kind == EVENT_ENTITY_CALLED) read_call(r, event);
    if (head.kind == EVENT_ENTITY_COMPLETED || head.kind == EVENT_ENTITY_FAILED)
        read_call_answer(r, event);
    if (head.kind == EVENT_EXECUTION_SUSPENDED) r->is_suspended = true;
    if (head.kind == EVENT_EXECUTION_RESUMED) r->is_suspended = false;
    if (head.kind == EVENT_EXECUTION_COMPLETED) {
        r->is_over = true;
        if (event_completed_decode(event, &r->completed) != OK) {
            history_fail(r, "S5 end", "cannot be read");
        }
    }
}

static bool maybe_equal(struct maybe a, struct maybe b)
{
    return a.has == b.has && (!a.has || bytes_equal(a.value, b.value));
}

static void compare_view(struct reading *r, const struct instance_view *view)
{
    if (view->history_n != r->n) history_fail(r, "S17 view", "says %u events", view->history_n);
    if (view->is_terminal != r->is_over) history_fail(r, "S17 view", "differs about the end");
    if (!r->is_started) return; /* its start is still unread */
    if (!bytes_equal(view->name, r->started.name)) history_fail(r, "S17 view", "another name");
    if (!maybe_equal(view->input, r->started.input)) history_fail(r, "S17 view", "another input");
    if (memcmp(view->execution_id, r->started.execution_id, EXECUTION_ID_SIZE) != 0) {
        history_fail(r, "S17 view", "another execution");
    }
    if (!r->is_over) {
        /* A suspend or resume may still be unread; what is read is not forgotten. */
        if (r->is_suspended && view->inbox_n == 0 && view->status != STATUS_SUSPENDED) {
            history_fail(r, "S17 view", "is not suspended");
        }
        return;
    }
    if (view->status != r->completed.status) history_fail(r, "S17 view", "another status");
    if (!maybe_equal(view->output, r->completed.result))
        history_fail(r, "S17 view", "another output");
    if (!maybe_equal(view->failure, r->completed.failure)) {
        history_fail(r, "S17 view", "another failure");
    }
}

void check_history(struct world *w, struct bytes key, const struct instance_view *view,
                   struct bytes events)
{
    struct reading r = {.w = w, .key = key};
    struct reader packed = reader_make(events);
    struct bytes event;
    struct arena arena;

    arena_init(&arena, mem_process(), 1024);
    while (strings_next(&packed, &event)) {
        read_event(&r, event, &arena);
        r.n++;
    }
    compare_view(&r, view);
    arena_release(&arena);
}

/* ---- records ---- */

_Noreturn __attribute__((format(printf, 4, 5))) static void record_fail(struct world *w,
                                                                        const char *invariant,
                                                                        const struct record *record,
                                                                        const char *format, ...)
{
    char what[200];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(what, sizeof what, format, args);
    va_end(args);
    sim_fail(w, invariant, "%s of %.*s: %s", record_name(record->kind), (int)record->key.len,
             (const char *)record->key.ptr, what);
}

struct task_search {
    int32_t task_id;
    uint32_t found_n;
    struct task_view view;
};

static enum status find_task(void *user, const struct task_view *view)
{
    struct task_search *search = user;

    if (view->task_id == search->task_id) {
        search->found_n++;
        search->view = *view;
    }
    return OK;
}

/* S20: failures are counted one by one, and never past the end of the ladder. */
static void check_tried(struct world *w, const struct core *c, const struct record *record,
                        const struct instance_view *before)
{
    struct task_search search = {.task_id = record->task_id};

    if (memcmp(record->execution_id, before->execution_id, EXECUTION_ID_SIZE) != 0) return;
    (void)core_tasks(c, record->key, find_task, &search);
    if (search.found_n != 1) return; /* one of an ended execution has the same id */
    const struct policy *policy = check_policy(NULL, search.view.name);
    bool is_resubmitted = record->failures <= search.view.failures;
    if (!is_resubmitted && record->failures != search.view.failures + 1) {
        record_fail(w, "S20 count", record, "failures from %u to %u", search.view.failures,
                    record->failures);
    }
    if (is_resubmitted || record->next == TASK_NEXT_PARKED) return;
    if (record->failures > policy->second_threshold) {
        record_fail(w, "S20 ladder", record, "tried again after %u failures", record->failures);
    }
    if (record->next == TASK_NEXT_EXTENDED && record->failures <= policy->first_threshold) {
        record_fail(w, "S20 ladder", record, "extended wait after %u failures", record->failures);
    }
    if (record->next == TASK_NEXT_RETRY && record->failures > policy->first_threshold) {
        record_fail(w, "S20 ladder", record, "short wait after %u failures", record->failures);
    }
}

static bool changes_execution(enum record_kind kind)
{
    return kind == RECORD_MESSAGE || kind == RECORD_TURN || kind == RECORD_CONTINUED ||
           kind == RECORD_TURN_FAILED || kind == RECORD_PARKED || kind == RECORD_UNPARKED;
}

/* S22: an entity goes only when nothing of it is left. */
static bool may_be_purged(const struct instance_view *before)
{
    if (!before->is_entity) return before->is_terminal;
    return !before->entity_state.has && !entity_is_busy(before);
}

void check_record(struct world *w, const struct core *c, const struct record *record,
                  const struct instance_view *before)
{
    if (record->kind >= RECORD_PARTITION_FIRST || record->kind == RECORD_QUEUED ||
        record->kind == RECORD_ADMITTED) {
        return; /* see check_waiting() for the last two */
    }
    bool is_there = before != NULL && !before->is_purged;
    if (record->kind == RECORD_CREATED) {
        if (is_there && !before->is_terminal) record_fail(w, "S14 one", record, "one is running");
        return;
    }
    if (record->kind == RECORD_ENTITY_CREATED || record->kind == RECORD_IMPORTED) {
        if (is_there) record_fail(w, "S14 one", record, "it is there");
        return;
    }
    if (!is_there) record_fail(w, "S22 purge", record, "there is no such instance");
    if (before->is_terminal && changes_execution(record->kind)) {
        record_fail(w, "S18 final", record, "it has ended");
    }
    if (record->kind == RECORD_PURGED && !may_be_purged(before)) {
        record_fail(w, "S22 purge", record, "it has not ended");
    }
    if (record->kind == RECORD_PARKED) crowd_park(w->crowd, record->key, true);
    if (record->kind == RECORD_UNPARKED) crowd_park(w->crowd, record->key, false);
    if (record->kind == RECORD_TASK_TRIED) check_tried(w, c, record, before);
    if (record->kind == RECORD_LATE) return; /* late answers are kept, whatever they say */
    if (has_zombie(record->event) || has_zombie(record->events) ||
        has_zombie(record->custom_status.value)) {
        record_fail(w, "S12 stale", record, "the answer of a zombie");
    }
}

/* ---- what leaves ---- */

void check_answer(struct node *n, const struct request *request)
{
    struct instance_view view;

    if (request->status != OK) return;
    /* Purged is durable too: the same frame may have started and purged it. */
    if (request->kind == REQUEST_START && !shadow_knows(n->shadow, request->key)) {
        sim_fail(n->w, "S1 durable", "the start of %.*s is acknowledged and not durable",
                 (int)request->key.len, (const char *)request->key.ptr);
    }
    if ((request->kind == REQUEST_GET || request->kind == REQUEST_WAIT) && request->view != NULL &&
        shadow_view(n->shadow, request->key, &view) && view.seq < request->view->seq) {
        sim_fail(n->w, "S1 durable", "a client sees %.*s as it is not durable yet",
                 (int)request->key.len, (const char *)request->key.ptr);
    }
}

void check_delivery(struct node *n, const struct effect_work *work)
{
    struct instance_view view;
    struct bytes key = work->ref.key;

    if (!shadow_view(n->shadow, key, &view)) {
        /* purged in the same frame that gave it out */
        return;
    }
    if (work->ref.kind != WORK_TURN) return;
    if (memcmp(view.execution_id, work->ref.execution_id, EXECUTION_ID_SIZE) != 0) return;
    if (view.history_n < work->history_n) {
        sim_fail(n->w, "S10 effect", "a turn of %.*s leaves before its history is durable",
                 (int)key.len, (const char *)key.ptr);
    }
}

/* ---- everything ---- */

static enum status check_view(void *user, const struct instance_view *view)
{
    struct node *n = user;
    struct buffer history;

    if (view->is_purged) return OK;
    buffer_init(&history, mem_process());
    if (shadow_history(n->shadow, view->key, &history)) {
        check_history(n->w, view->key, view, buffer_view(&history));
    }
    buffer_release(&history);
    return OK;
}

void check_all_views(struct node *n) { shadow_each(n->shadow, check_view, n); }
