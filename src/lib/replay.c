/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether an orchestrator does again what its history says it did. Compared are the kind of each
 * decision, its place in the order, and whom it is for: name, entity or instance. Inputs are not:
 * they may hold what a newer program writes another way, and the engine keeps the old ones.
 */
#include "lib/orchestration.h"

#include "core/event_entity.h"
#include "wire/pb.h"

#include <stdio.h>

#define SENTENCE_SIZE 700

/* What the history or the orchestrator says about one step. */
struct step {
    enum event_kind kind;
    struct bytes name;   /* of the activity, child, event or operation; empty = none */
    struct bytes target; /* entity or instance; empty = none, or not to be compared */
};

static enum event_kind kind_of(const struct action *action)
{
    switch (action->kind) {
    case ACTION_SCHEDULE_TASK: return EVENT_TASK_SCHEDULED;
    case ACTION_CREATE_CHILD: return EVENT_CHILD_CREATED;
    case ACTION_CREATE_TIMER: return EVENT_TIMER_CREATED;
    case ACTION_SEND_EVENT: return EVENT_EVENT_SENT;
    case ACTION_SEND_ENTITY_MESSAGE: return action->entity_event;
    case ACTION_COMPLETE:
    case ACTION_TERMINATE:
    case ACTION_REWIND: break;
    }
    unreachable("the library does not decide this");
}

static void read_entity(enum event_kind kind, struct bytes body, struct step *out)
{
    struct pb_reader r = pb_reader_make(body);
    struct pb_field f;
    uint32_t target = kind == EVENT_ENTITY_SIGNALED ? 5 : kind == EVENT_ENTITY_CALLED ? 7 : 3;

    if (kind == EVENT_ENTITY_LOCK_REQUESTED) return;
    while (pb_next(&r, &f)) {
        if (f.number == 2 && kind != EVENT_ENTITY_UNLOCK_SENT) out->name = f.bytes;
        if (f.number == target) (void)pb_get_string_value(&f, &out->target);
    }
}

/* Field numbers of the name and of the target; 0 = none. */
static void read_plain(struct bytes body, uint32_t name, uint32_t target, struct step *out)
{
    struct pb_reader r = pb_reader_make(body);
    struct pb_field f;

    while (pb_next(&r, &f)) {
        if (f.number == name) out->name = f.bytes;
        if (f.number == target) out->target = f.bytes;
    }
}

static struct step step_of_event(const struct event_head *head)
{
    struct step step = {.kind = head->kind};

    if (head->kind == EVENT_TASK_SCHEDULED)
        read_plain(head->body, 1, 0, &step);
    else if (head->kind == EVENT_CHILD_CREATED)
        read_plain(head->body, 2, 0, &step);
    else if (head->kind == EVENT_EVENT_SENT)
        read_plain(head->body, 2, 1, &step);
    else if (head->kind != EVENT_TIMER_CREATED)
        read_entity(head->kind, head->body, &step);
    return step;
}

static struct step step_of_action(const struct action *action)
{
    struct step step = {.kind = kind_of(action), .name = action->name};

    if (action->kind == ACTION_SEND_EVENT) step.target = action->instance_id;
    if (action->kind == ACTION_SEND_ENTITY_MESSAGE) {
        read_entity(step.kind, action->entity_body, &step);
    }
    return step;
}

static bool step_equals(const struct step *a, const struct step *b)
{
    return a->kind == b->kind && bytes_equal(a->name, b->name) && bytes_equal(a->target, b->target);
}

static void step_write(char *out, size_t size, const struct step *step)
{
    if (step == NULL) {
        (void)snprintf(out, size, "nothing");
    } else if (step->name.len == 0) {
        (void)snprintf(out, size, "%s", event_name(step->kind));
    } else {
        (void)snprintf(out, size, "%s '%.*s'%s%.*s", event_name(step->kind),
                       (int)(step->name.len < 100 ? step->name.len : 100),
                       (const char *)step->name.ptr, step->target.len > 0 ? " for " : "",
                       (int)(step->target.len < 100 ? step->target.len : 100),
                       (const char *)step->target.ptr);
    }
}

static void differ(struct orchestration *o, const struct step *expected, const char *got)
{
    const struct norn_here *here = &o->context.here;
    char wanted[260];
    char sentence[SENTENCE_SIZE];

    step_write(wanted, sizeof wanted, expected);
    (void)snprintf(sentence, sizeof sentence,
                   "expected %s, got %s, at event %u of the history; orchestrator '%s', version %s",
                   wanted, got, o->event_n, here->name,
                   here->version != NULL ? here->version : "none");
    if (norn_fail(&o->context, "NonDeterminism", sentence, true) != NORN_E_FAILED) return;
    o->is_different = true;
    lines_write(o->env->lines, "instance %s: NonDeterminism: %s", here->id, sentence);
}

void replay_compare(struct orchestration *o, const struct event_head *head)
{
    struct list *first = list_first(&o->actions);
    struct step expected = step_of_event(head);
    char got[260];

    if (first == NULL) {
        differ(o, &expected, o->is_ended ? "the end of the orchestrator" : "nothing");
        return;
    }
    struct decision *decision = container_of(first, struct decision, node);
    struct step step = step_of_action(&decision->action);
    if (decision->action.id == head->id && step_equals(&expected, &step)) {
        list_remove(first);
        o->actions_n--;
        return;
    }
    /* a step that was taken out of a rewound history is done again */
    if (o->is_rewound && decision->action.id < head->id) {
        struct list *node = list_next(&o->actions, first);
        for (; node != NULL; node = list_next(&o->actions, node)) {
            decision = container_of(node, struct decision, node);
            step = step_of_action(&decision->action);
            if (decision->action.id != head->id || !step_equals(&expected, &step)) continue;
            list_remove(node);
            o->actions_n--;
            return;
        }
    }
    step_write(got, sizeof got, &step);
    if (step_equals(&expected, &step)) { /* then it is its place that is another */
        size_t len = strlen(got);
        (void)snprintf(got + len, sizeof got - len, " as number %d instead of %d",
                       decision->action.id, head->id);
    }
    differ(o, &expected, got);
}

void replay_finish(struct orchestration *o)
{
    char got[260];

    if (o->is_rewound || o->is_different) return;
    struct list *first = list_first(&o->actions);
    if (first != NULL) {
        struct step step = step_of_action(&container_of(first, struct decision, node)->action);
        step_write(got, sizeof got, &step);
        differ(o, NULL, got);
    } else if (o->is_ended) {
        differ(o, NULL, "the end of the orchestrator");
    }
}

void replay_describe(const struct action *action, char *out, size_t size)
{
    struct step step = step_of_action(action);

    step_write(out, size, &step);
}
