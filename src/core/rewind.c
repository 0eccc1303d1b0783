/* SPDX-License-Identifier: Apache-2.0
 *
 * What a rewind takes out of a history: the failures that ended the instance, and nothing that the
 * orchestrator went on from. A history without a failure that was retried or handled could not be
 * replayed: what was decided because of it would stand there without a reason.
 *
 *      turn 1   TaskScheduled #1
 *      turn 2   TaskFailed #1      kept: this turn decided something (a timer, another step)
 *               TimerCreated #2
 *      turn 3   TimerFired #2
 *               TaskScheduled #3   taken out with its failure: it is done again
 *      turn 4   TaskFailed #3      taken out: the turn that ended the instance
 *               EventSent #4       taken out: decided after that failure
 *               ExecutionCompleted
 */
#include "core/state.h"

static bool is_decision(const struct event *e)
{
    return e->kind == EVENT_TASK_SCHEDULED || e->kind == EVENT_CHILD_CREATED ||
           e->kind == EVENT_TIMER_CREATED || e->kind == EVENT_EVENT_SENT ||
           e->kind == EVENT_ENTITY_SIGNALED || e->kind == EVENT_ENTITY_CALLED ||
           e->kind == EVENT_ENTITY_LOCK_REQUESTED || e->kind == EVENT_ENTITY_UNLOCK_SENT;
}

static bool is_failure(const struct event *e)
{
    return e->kind == EVENT_TASK_FAILED || e->kind == EVENT_CHILD_FAILED ||
           e->kind == EVENT_ENTITY_FAILED;
}

/* The orchestrator itself has tried again, under the same id, after e: its failure was no end. */
static bool is_tried_again(const struct event *e)
{
    enum event_kind created =
        e->kind == EVENT_TASK_FAILED ? EVENT_TASK_SCHEDULED : EVENT_CHILD_CREATED;
    int32_t id = e->ref;
    assert(is_failure(e));
    if (e->kind == EVENT_ENTITY_FAILED) return false;
    for (e = e->next; e != NULL; e = e->next) {
        if (e->kind == created && e->id == id) return true;
    }
    return false;
}

static bool is_of_last_turn(const struct rewind *r, const struct event *e)
{
    for (const struct event *of_last = r->last_turn; of_last != NULL; of_last = of_last->next) {
        if (of_last == e) return true;
    }
    return false;
}

/* A failure of the turn that ended the instance, or one after which nothing was decided. Where
 * branches run side by side another one may have gone on meanwhile: then it is the failure that the
 * end names. */
static bool takes_failure(const struct rewind *r, const struct event *e)
{
    bool is_own_turn = true;
    assert(is_failure(e));
    assert(r->last_turn == NULL || r->last_turn->kind == EVENT_ORCHESTRATOR_STARTED);
    assert(r->cause == NULL || is_failure(r->cause));
    if (is_tried_again(e)) return false;
    if (is_of_last_turn(r, e)) return true;
    for (const struct event *later = e->next; later != r->last_turn; later = later->next) {
        if (later->kind == EVENT_ORCHESTRATOR_STARTED) is_own_turn = false;
        if (is_decision(later) && (is_own_turn || e != r->cause)) return false;
    }
    return true;
}

/* The last failure whose message is that of the end; SDKs write words of their own before it. */
static const struct event *cause_of_end(const struct event_list *history)
{
    const struct event *cause = NULL;
    struct event_completed end;
    assert(history->last != NULL);
    if (history->last->kind != EVENT_EXECUTION_COMPLETED) return NULL;
    enum status status = event_completed_decode(event_bytes(history->last), &end);
    assert(status == OK);
    if (!end.failure.has) return NULL;
    struct bytes whole = failure_message(end.failure.value);
    for (const struct event *e = history->first; e != NULL; e = e->next) {
        if (!is_failure(e)) continue;
        struct bytes part = event_failure_message(event_bytes(e));
        if (part.len == 0 || part.len > whole.len) continue;
        const uint8_t *tail = (const uint8_t *)whole.ptr + (whole.len - part.len);
        if (memcmp(tail, part.ptr, part.len) == 0) cause = e;
    }
    return cause;
}

struct rewind rewind_make(const struct event_list *history, const struct event_list *inbox)
{
    struct rewind r = {.history = history, .inbox = inbox, .cause = cause_of_end(history)};
    for (const struct event *e = history->first; e != NULL; e = e->next) {
        if (e->kind == EVENT_ORCHESTRATOR_STARTED) r.last_turn = e;
    }
    for (const struct event *e = history->first; e != NULL; e = e->next) {
        if (!is_failure(e) || !takes_failure(&r, e)) continue;
        if (r.taken_n < REWIND_TAKEN_N) r.taken[r.taken_n] = e;
        r.taken_n++;
    }
    return r;
}

/* False: no failure of this task is taken. */
static bool may_take(const struct rewind *r, const struct event *scheduled)
{
    if (r->taken_n > REWIND_TAKEN_N) return true; /* who knows */
    for (uint32_t n = 0; n < r->taken_n; n++) {
        if (event_answers(r->taken[n], scheduled)) return true;
    }
    return false;
}

/* A task whose failure is taken: its schedule goes too, so that the orchestrator makes it again. */
static bool takes_task(const struct rewind *r, const struct event *scheduled)
{
    const struct event *failed = NULL;
    assert(scheduled->kind == EVENT_TASK_SCHEDULED);
    if (!may_take(r, scheduled)) return false;
    for (const struct event *e = scheduled->next; e != NULL; e = e->next) {
        if (e->kind == EVENT_TASK_SCHEDULED && e->id == scheduled->id) return false;
        if (e->kind == EVENT_TASK_FAILED && event_answers(e, scheduled)) failed = e;
    }
    return failed != NULL && takes_failure(r, failed);
}

/* The event of this kind about the same call or critical section. */
static const struct event *answer_of(const struct event_list *list, const struct event *e,
                                     enum event_kind kind)
{
    struct bytes id = event_entity_id(event_bytes(e));
    for (const struct event *other = list->first; other != NULL; other = other->next) {
        if (other->kind == kind && bytes_equal(event_entity_id(event_bytes(other)), id)) {
            return other;
        }
    }
    return NULL;
}

static bool is_answered(const struct rewind *r, const struct event *e, enum event_kind kind)
{
    return answer_of(r->history, e, kind) != NULL || answer_of(r->inbox, e, kind) != NULL;
}

bool rewind_keeps(struct rewind *r, const struct event *e)
{
    if (e == r->last_turn) r->is_last_turn = true;
    if (e->kind == EVENT_EXECUTION_COMPLETED) return false;
    if (is_failure(e)) return !takes_failure(r, e);
    if (is_decision(e) && r->taken_n > 0 && r->is_last_turn) return false;
    if (e->kind == EVENT_TASK_SCHEDULED) return !takes_task(r, e);
    if (e->kind == EVENT_ENTITY_CALLED) {
        const struct event *failed = answer_of(r->history, e, EVENT_ENTITY_FAILED);
        return is_answered(r, e, EVENT_ENTITY_COMPLETED) ||
               answer_of(r->inbox, e, EVENT_ENTITY_FAILED) != NULL ||
               (failed != NULL && !takes_failure(r, failed));
    }
    if (e->kind == EVENT_ENTITY_LOCK_REQUESTED || e->kind == EVENT_ENTITY_UNLOCK_SENT) {
        return is_answered(r, e, EVENT_ENTITY_LOCK_GRANTED);
    }
    return true;
}
