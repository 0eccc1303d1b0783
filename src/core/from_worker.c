/* SPDX-License-Identifier: Apache-2.0
 *
 * Workers take work and answer it. An answer counts only for the dispatch it names: the same
 * execution, the same attempt and, for a turn, the same base. Everything else is answered OK and
 * dropped: the worker can do nothing about it. After a restart of the engine an answer to a
 * dispatch of the previous owner is still good, as long as the work has not been given to anybody
 * since.
 */
#include "core/limits.h"
#include "core/state.h"

#include "base/planted.h"

/* ---- take ---- */

static struct effect_work *work_new(struct core *c, enum work_kind kind, const struct instance *i)
{
    assert(c->in->kind == INPUT_WORKER_TAKE);
    assert(i->core == c);
    struct effect *e = effect_new(c, EFFECT_WORK);
    e->work.worker = c->in->take.worker;
    e->work.ref.kind = kind;
    e->work.ref.partition = c->options.partition;
    e->work.ref.epoch = c->options.epoch;
    e->work.ref.key = copy_must(c->out->arena, i->key);
    return &e->work;
}

/* Some SDKs fail on events that are for the engine and for people only. */
static bool is_for_workers(enum event_kind kind)
{
    return kind != EVENT_UNKNOWN && kind != EVENT_GENERIC && kind != EVENT_EXECUTION_REWOUND &&
           kind != EVENT_EXECUTION_COMPLETED && kind != EVENT_CONTINUE_AS_NEW &&
           kind != EVENT_HISTORY_STATE;
}

static size_t packed_size(const struct event *e, uint32_t n)
{
    size_t size = 0;
    for (; e != NULL && n > 0; e = e->next, n--) {
        if (is_for_workers(e->kind)) size += varint_size(e->len) + e->len;
    }
    return size;
}

static uint8_t *pack(uint8_t *at, struct bytes event)
{
    uint64_t len = event.len;
    while (len >= 0x80) {
        *at++ = (uint8_t)(len | 0x80);
        len >>= 7;
    }
    *at++ = (uint8_t)len;
    memcpy(at, event.ptr, event.len);
    return at + event.len;
}

struct bytes pack_events(struct core *c, struct bytes before, const struct event *e, uint32_t n)
{
    size_t size = packed_size(e, n) + (before.len > 0 ? varint_size(before.len) + before.len : 0);
    uint8_t *packed = arena_alloc(c->out->arena, size > 0 ? size : 1);
    assert(packed != NULL);
    uint8_t *at = packed;
    if (before.len > 0) at = pack(at, before);
    for (; e != NULL && n > 0; e = e->next, n--) {
        if (is_for_workers(e->kind)) at = pack(at, event_bytes(e));
    }
    assert((size_t)(at - packed) == size);
    return bytes_make(packed, size);
}

static void take_turn(struct core *c, struct instance *i)
{
    assert(i->queue != NULL);
    assert(!i->is_leased);
    assert(!i->is_suspended);
    assert(!instance_is_terminal(i));
    assert(i->inbox.n > 0 || i->needs_turn);
    assert(!i->is_entity);
    assert(!i->is_poisoned);
    queue_remove_turn(i);
    i->is_leased = true;
    i->worker = c->in->take.worker;
    i->lease_inbox_n = i->inbox.n;
    i->lease_started_ns = c->now_ns;

    struct effect_work *work = work_new(c, WORK_TURN, i);
    memcpy(work->ref.execution_id, i->execution_id, EXECUTION_ID_SIZE);
    work->ref.attempt = i->failures;
    work->ref.base = i->turns;
    work->ref.inbox_n = i->lease_inbox_n;
    work->ref.started_ns = i->lease_started_ns;
    work->name = copy_must(c->out->arena, i->name);
    work->version = i->version;
    if (i->version.has) work->version.value = copy_must(c->out->arena, i->version.value);
    work->history_n = i->history.n;
    if (i->trace.has) work->trace = maybe_some(copy_must(c->out->arena, i->trace.value));
    if (c->in->take.want_history) {
        work->past = pack_events(c, BYTES_NONE, i->history.first, i->history.n);
        work->has_past = true;
    }
    buffer_clear(&c->scratch);
    event_write_orchestrator_started(&c->scratch, c->now_ns);
    assert(!c->scratch.failed);
    work->fresh = pack_events(c, buffer_view(&c->scratch), i->inbox.first, i->inbox.n);
    instance_sort(i);
    assert(!list_is_linked(&i->idle)); /* the archiver must not let it go while it is leased */
}

/* Name and effective version, as the queue knows them. */
static void name_work(struct core *c, const struct work_queue *q, struct effect_work *work)
{
    assert(q->kind == work->ref.kind);
    work->name = copy_must(c->out->arena, q->name);
    work->version.value = copy_must(c->out->arena, q->version);
    work->version.has = work->version.value.len > 0;
}

/* Tells a step from an earlier one that had the same id. */
static int64_t scheduled_ns(struct item *item)
{
    struct event_head head;
    if (item->scheduled_ns != 0) return item->scheduled_ns;
    enum status status = event_head_decode(event_bytes(item->created), &head);
    assert(status == OK); /* it has been folded */
    item->scheduled_ns = head.time_ns;
    return head.time_ns;
}

static void take_task(struct core *c, struct item *item)
{
    struct instance *i = item->instance;
    const struct policy *policy = policy_of(item);
    struct effect_work *work = work_new(c, WORK_TASK, i);
    assert(item->state == TASK_STATE_QUEUED);
    assert(item->queue != NULL);

    name_work(c, item->queue, work);
    item_unqueue(item);
    assert(item->queue == NULL);
    assert(!item->due.node.is_linked);
    task_set_state(item, TASK_STATE_LEASED);
    item->worker = c->in->take.worker;
    if (policy->complete_by_ms > 0) {
        item->complete_by_ms = now_ms(c) + policy->complete_by_ms;
        due_set(c, &item->due, DUE_COMPLETE_BY, item->complete_by_ms);
    }
    memcpy(work->ref.execution_id, item->execution_id, EXECUTION_ID_SIZE);
    work->ref.task_id = item->id;
    work->ref.attempt = item->failures;
    work->ref.started_ns = scheduled_ns(item);
    work->complete_by_ms = item->complete_by_ms;
    work->scheduled = copy_must(c->out->arena, event_bytes(item->created));
}

void on_worker_take(struct core *c, const struct input *in)
{
    struct work_queue *q = queue_find(c, in->take.kind, in->take.queue);
    if (q == NULL || q->n == 0) return; /* nothing left: somebody was faster, or it has ended */
    struct list *first = list_first(&q->members);
    assert(first != NULL);
    assert(q->kind == in->take.kind);
    if (q->kind == WORK_TASK) {
        take_task(c, container_of(first, struct item, queued));
        return;
    }
    struct instance *i = container_of(first, struct instance, queued);
    if (q->kind == WORK_ENTITY)
        entity_take(i, work_new(c, WORK_ENTITY, i));
    else
        take_turn(c, i);
}

/* ---- answers ---- */

void reply_stale(struct core *c)
{
    c->stats.stale_answers++;
    reply_too_late(c, "this work was answered or given up before: nothing was changed");
}

/* The dispatch that a turn's answer is for; false when it is not the present one. */
static bool turn_matches(const struct instance *i, const struct work_ref *ref)
{
    const struct core *c = i->core;
    bool is_held = i->is_suspended && !planted("suspended_goes_on");
    if (i->is_entity || instance_is_terminal(i) || i->is_poisoned || is_held) return false;
    if (memcmp(ref->execution_id, i->execution_id, EXECUTION_ID_SIZE) != 0) return false;
    if (planted("skip_base_check")) return i->is_leased && ref->inbox_n <= i->inbox.n;
    if (ref->base != i->turns || ref->attempt != i->failures) return false;
    if (ref->inbox_n > i->inbox.n) return false;
    /* given by an owner whose clock, never durable, was ahead of ours: the orchestrator's time
     * would go back */
    if (ref->started_ns > c->now_ns) return false;
    return i->is_leased ? ref->epoch == c->options.epoch : ref->epoch < c->options.epoch;
}

static struct work_ref turn_lease(const struct instance *i)
{
    assert(i->is_leased);
    assert(i->lease_inbox_n <= i->inbox.n);
    struct work_ref ref = {
        .kind = WORK_TURN,
        .epoch = i->core->options.epoch,
        .attempt = i->failures,
        .base = i->turns,
        .inbox_n = i->lease_inbox_n,
        .started_ns = i->lease_started_ns,
    };
    memcpy(ref.execution_id, i->execution_id, EXECUTION_ID_SIZE);
    return ref;
}

/* ---- actions ---- */

static bool opens_item(const struct action *a)
{
    return a->kind == ACTION_SCHEDULE_TASK || a->kind == ACTION_CREATE_TIMER ||
           a->kind == ACTION_CREATE_CHILD;
}

/* A message for an entity. */
static const char *entity_problem(struct core *c, const struct action *a)
{
    struct event_entity entity;
    if (a->entity_body.len > LIMIT_PAYLOAD_SIZE) {
        return step_text(c, "action %d has a payload of more than 16 MiB", a->id);
    }
    if (entity_body_decode(a->entity_event, a->entity_body, &c->temporary, &entity) != OK) {
        return step_text(c, "action %d is no message for an entity", a->id);
    }
    if (entity.section.len + entity.request_id.len > LIMIT_NAME_SIZE) {
        return step_text(c, "action %d has an id of more than 256 bytes", a->id);
    }
    if (entity.kind == EVENT_ENTITY_LOCK_REQUESTED) {
        buffer_clear(&c->events);
        if (lock_set_normal(c, entity.lock_set, &c->events)) return NULL;
        return step_text(c, "action %d locks none or more than 256 entities, or a wrong id", a->id);
    }
    const char *problem = entity_id_problem(entity.target, LIMIT_ID_SIZE);
    return problem == NULL ? NULL : step_text(c, "action %d: %s", a->id, problem);
}

static const char *action_problem(struct core *c, const struct action *a)
{
    if (a->input.value.len + a->tags.len + a->failure.value.len > LIMIT_PAYLOAD_SIZE) {
        return step_text(c, "action %d has a payload of more than 16 MiB", a->id);
    }
    if (opens_item(a) && a->id < 0) return step_text(c, "action %d has a negative id", a->id);
    if ((a->kind == ACTION_SCHEDULE_TASK || a->kind == ACTION_CREATE_CHILD) &&
        (a->name.len == 0 || a->name.len > LIMIT_NAME_SIZE || !bytes_is_utf8(a->name))) {
        return step_text(c, "action %d has no valid name (1 to 256 bytes of UTF-8)", a->id);
    }
    if ((a->kind == ACTION_CREATE_CHILD || a->kind == ACTION_SEND_EVENT ||
         a->kind == ACTION_TERMINATE) &&
        (a->instance_id.len > LIMIT_ID_SIZE || !bytes_is_utf8(a->instance_id))) {
        return step_text(c, "action %d has an instance id of more than 256 bytes or not UTF-8",
                         a->id);
    }
    if (a->kind == ACTION_COMPLETE && !status_is_end(a->status) &&
        a->status != STATUS_CONTINUED_AS_NEW) {
        return step_text(c, "action %d completes with status %d, which is no end", a->id,
                         (int)a->status);
    }
    if (a->kind == ACTION_CREATE_CHILD && id_is_entity(a->instance_id)) {
        return step_text(c, "action %d gives a child an id that begins with '@'", a->id);
    }
    return a->kind == ACTION_SEND_ENTITY_MESSAGE ? entity_problem(c, a) : NULL;
}

/* Ids usually grow, and then none is used twice; only an answer where they do not is searched. An
 * id is free again when the orchestrator has been given the answer: some SDKs try a step or a child
 * again under the id it had before. */
static bool ids_grow(const struct instance *i, const struct orchestrator_answer *answer)
{
    int32_t id_last = i->id_max;
    for (uint32_t n = 0; n < answer->actions_n; n++) {
        const struct action *a = &answer->actions[n];
        if (!opens_item(a)) continue;
        if (a->id <= id_last) return false;
        id_last = a->id;
    }
    return true;
}

static const char *id_problem(struct core *c, const struct instance *i, uint32_t consumed_n,
                              const struct orchestrator_answer *answer)
{
    struct id_set set;
    if (ids_grow(i, answer)) return NULL;
    ids_in_use(i, consumed_n, answer->actions_n, &set);
    for (uint32_t n = 0; n < answer->actions_n; n++) {
        const struct action *a = &answer->actions[n];
        if (!opens_item(a) || id_set_add(&set, a->id)) continue;
        return step_text(c,
                         "action %d has an id that is still in use: the orchestrator is not "
                         "deterministic, or the worker is broken",
                         a->id);
    }
    return NULL;
}

static const char *answer_problem(struct core *c, const struct instance *i, uint32_t consumed_n,
                                  const struct orchestrator_answer *answer)
{
    if (answer->actions_n > LIMIT_ACTIONS_N) return "more than 100,000 actions in one turn";
    for (uint32_t n = 0; n < answer->actions_n; n++) {
        const char *problem = action_problem(c, &answer->actions[n]);
        if (problem != NULL) return problem;
    }
    return id_problem(c, i, consumed_n, answer);
}

/* A child without an id gets one that no other generation has used, in `own`; all other actions are
 * as they are. */
static const struct action *with_child_id(struct core *c, const struct instance *i,
                                          const struct action *a, struct action *own)
{
    static const char digits[] = "0123456789abcdef";
    if (a->kind != ACTION_CREATE_CHILD || a->instance_id.len > 0) return a;
    assert(a->id >= 0); /* action_problem() has seen it */
    size_t size = EXECUTION_TEXT_SIZE + 9;
    char *id = arena_alloc(&c->temporary, size);
    assert(id != NULL);
    execution_id_text(i->execution_id, id);
    id[EXECUTION_TEXT_SIZE] = ':';
    size_t len = EXECUTION_TEXT_SIZE + 1;
    unsigned places = (uint32_t)a->id > 0xffff ? 8 : 4;
    while (places-- > 0) id[len++] = digits[(uint32_t)a->id >> (4 * places) & 15];
    assert(len <= size);
    *own = *a;
    own->instance_id = bytes_make(id, len);
    return own;
}

/* Appends the events of all actions but the completion, which is the answer (NULL: goes on). */
static const struct action *write_action_events(struct core *c, const struct instance *i,
                                                const struct orchestrator_answer *answer)
{
    const struct action *complete = NULL;
    struct action own;
    for (uint32_t n = 0; n < answer->actions_n; n++) {
        const struct action *action = with_child_id(c, i, &answer->actions[n], &own);
        buffer_clear(&c->scratch);
        switch (action->kind) {
        case ACTION_SCHEDULE_TASK:
            event_write_task_scheduled(&c->scratch, c->now_ns, action);
            break;
        case ACTION_CREATE_CHILD: event_write_child_created(&c->scratch, c->now_ns, action); break;
        case ACTION_CREATE_TIMER: event_write_timer_created(&c->scratch, c->now_ns, action); break;
        case ACTION_SEND_EVENT: event_write_event_sent(&c->scratch, c->now_ns, action); break;
        case ACTION_COMPLETE:
            if (complete == NULL) complete = &answer->actions[n];
            continue;
        case ACTION_SEND_ENTITY_MESSAGE:
            event_write_entity(&c->scratch, c->now_ns, action->id, action->entity_event,
                               action->entity_body);
            break;
        case ACTION_TERMINATE:
        case ACTION_REWIND: continue;
        }
        assert(!c->scratch.failed);
        strings_add(&c->events, buffer_view(&c->scratch));
    }
    assert(!c->events.failed);
    return complete;
}

static void send_to_child(struct core *c, const struct instance *i, const struct action *a)
{
    struct event_scheduled child = {
        .name = a->name,
        .version = a->version,
        .input = a->input,
        .instance_id = a->instance_id,
        .trace = a->trace,
        .tags = a->tags,
    };
    assert(a->kind == ACTION_CREATE_CHILD);
    assert(a->instance_id.len > 0); /* with_child_id() */
    child_started_write(&c->scratch, i, &child, a->id);
    assert(!c->scratch.failed);
    outbox_send(c, MESSAGE_START_CHILD, sibling_key(c, i->key, a->instance_id), BYTES_NONE,
                buffer_view(&c->scratch));
}

static void send_to_entity(struct core *c, struct instance *i, const struct action *a)
{
    struct event_entity entity;
    enum status status =
        entity_body_decode(a->entity_event, a->entity_body, &c->temporary, &entity);
    assert(status == OK); /* entity_problem() */
    if (entity.kind == EVENT_ENTITY_LOCK_REQUESTED) {
        locks_ask(i, entity.section, entity.lock_set);
        return;
    }
    if (entity.kind == EVENT_ENTITY_UNLOCK_SENT) {
        locks_unlock(i, entity.section, entity.target);
        return;
    }
    bool is_call = entity.kind == EVENT_ENTITY_CALLED;
    assert(is_call || entity.kind == EVENT_ENTITY_SIGNALED);
    event_write_operation(&c->scratch, c->now_ns, entity.kind, a->entity_body, key_id(i->key),
                          is_call ? i->execution_id : NULL);
    assert(!c->scratch.failed);
    struct bytes target = entity_id_normal(entity.target, &c->temporary);
    outbox_send(c, MESSAGE_ENTITY, sibling_key(c, i->key, target), BYTES_NONE,
                buffer_view(&c->scratch));
}

static void send_messages(struct core *c, struct instance *i,
                          const struct orchestrator_answer *answer)
{
    struct action own;
    for (uint32_t n = 0; n < answer->actions_n; n++) {
        const struct action *action = with_child_id(c, i, &answer->actions[n], &own);
        buffer_clear(&c->scratch);
        if (action->kind == ACTION_CREATE_CHILD) {
            send_to_child(c, i, action);
        } else if (action->kind == ACTION_SEND_ENTITY_MESSAGE) {
            send_to_entity(c, i, action);
        } else if (action->kind == ACTION_SEND_EVENT && action->instance_id.len > 0) {
            event_write_raised(&c->scratch, c->now_ns, action->name, action->input);
            assert(!c->scratch.failed);
            outbox_send(c, MESSAGE_EVENT, sibling_key(c, i->key, action->instance_id), BYTES_NONE,
                        buffer_view(&c->scratch));
        } else if (action->kind == ACTION_TERMINATE && action->instance_id.len > 0) {
            event_write_terminated(&c->scratch, c->now_ns, action->input, action->recurse);
            assert(!c->scratch.failed);
            outbox_send(c, MESSAGE_TERMINATE, sibling_key(c, i->key, action->instance_id),
                        BYTES_NONE, buffer_view(&c->scratch));
        }
    }
}

/* Only external events are carried: completions belong to the generation that asked for them. */
static struct bytes carried_events(struct core *c, struct bytes carryover)
{
    struct reader r = reader_make(carryover);
    struct bytes one;
    buffer_clear(&c->events);
    if (planted("drop_carried_event")) (void)strings_next(&r, &one);
    while (strings_next(&r, &one)) {
        struct event_head head;
        if (event_head_decode(one, &head) != OK || head.kind != EVENT_EVENT_RAISED) continue;
        strings_add(&c->events, one);
    }
    assert(!c->events.failed);
    return buffer_view(&c->events);
}

static void continue_as_new(struct core *c, struct instance *i, const struct action *complete)
{
    struct event_started started;
    struct record record = {.kind = RECORD_CONTINUED, .key = i->key};
    assert(complete->status == STATUS_CONTINUED_AS_NEW);
    enum status status = event_started_decode(event_bytes(i->started), &c->temporary, &started);
    assert(status == OK);
    started.input = complete->input;
    started.has_scheduled = false;
    if (complete->new_version.has) started.version = complete->new_version;
    new_execution_id(c, started.execution_id);
    memcpy(record.execution_id, started.execution_id, EXECUTION_ID_SIZE);
    buffer_clear(&c->scratch);
    event_started_write(&c->scratch, c->now_ns, &started);
    assert(!c->scratch.failed);
    record.event = buffer_view(&c->scratch);
    record.events = carried_events(c, complete->carryover);
    emit(c, &record);
    assert(!instance_is_terminal(i));
    assert(!instance_has_started(i)); /* the start of the new generation is unread */
    assert(memcmp(i->execution_id, record.execution_id, EXECUTION_ID_SIZE) == 0);
}

static bool history_is_full(const struct core *c, const struct instance *i, uint32_t more_n)
{
    return i->history.n + i->inbox.n + more_n > LIMIT_HISTORY_N ||
           i->history.size + i->inbox.size + c->events.len > LIMIT_HISTORY_SIZE;
}

static void commit_turn(struct core *c, struct instance *i, const struct work_ref *ref,
                        const struct orchestrator_answer *answer)
{
    assert(ref->inbox_n <= i->inbox.n); /* turn_matches() */
    assert(!i->is_suspended);
    assert(!i->is_poisoned);
    assert(!instance_is_terminal(i));
    uint64_t turns = i->turns;
    buffer_clear(&c->events);
    const struct action *complete = write_action_events(c, i, answer);
    bool goes_on = complete == NULL || complete->status == STATUS_CONTINUED_AS_NEW;
    if (complete == NULL && history_is_full(c, i, answer->actions_n)) {
        ending_fail(i, "HistoryLimitExceeded",
                    "the history has more than 200,000 events or 128 MiB: use continue-as-new");
        return;
    }
    if (!goes_on) {
        assert(status_is_end(complete->status));
        struct event_completed completed = {
            .status = complete->status,
            .result = complete->input,
            .failure = complete->failure,
        };
        buffer_clear(&c->scratch);
        event_write_execution_completed(&c->scratch, c->now_ns, complete->id, &completed);
        strings_add(&c->events, buffer_view(&c->scratch));
    }
    assert(!c->events.failed);
    struct record record = {
        .kind = RECORD_TURN,
        .key = i->key,
        .started_ns = ref->started_ns,
        .consumed_n = ref->inbox_n,
        .events = buffer_view(&c->events),
        .custom_status = answer->custom_status,
        .trace = answer->trace,
    };
    emit(c, &record);
    assert(!i->is_leased);
    assert(instance_is_terminal(i) == !goes_on);
    assert(i->turns > turns); /* the next answer to this turn is stale */
    send_messages(c, i, answer);
    if (!goes_on) {
        ending_finish(i);
    } else if (complete != NULL) {
        locks_release(i); /* they belong to the generation that asked for them */
        continue_as_new(c, i, complete);
    }
}

void on_worker_turn_done(struct core *c, const struct input *in)
{
    struct instance *i = instance_find_live(c, in->done.has_ref ? in->done.ref.key : in->done.key);
    if (i == NULL || i->is_entity || (!in->done.has_ref && !i->is_leased)) {
        reply_stale(c);
        return;
    }
    struct work_ref ref = in->done.has_ref ? in->done.ref : turn_lease(i);
    if (!turn_matches(i, &ref)) {
        reply_stale(c);
        return;
    }
    const char *problem = answer_problem(c, i, ref.inbox_n, in->done.answer);
    if (problem != NULL)
        ending_fail(i, "InvalidAnswer", problem);
    else
        commit_turn(c, i, &ref, in->done.answer);
    reply(c, OK, "");
}

/* ---- activities ---- */

static bool task_matches(struct item *item, const struct work_ref *ref)
{
    uint32_t epoch = item->instance->core->options.epoch;
    assert(item->kind == ITEM_TASK);
    assert(item->state != TASK_STATE_NONE);
    if (planted("skip_attempt_check")) return item->state != TASK_STATE_PARKED;
    if (ref->attempt != item->failures || item->state == TASK_STATE_PARKED) return false;
    if (ref->started_ns != scheduled_ns(item)) return false;
    return item->state == TASK_STATE_LEASED ? ref->epoch == epoch : ref->epoch < epoch;
}

/* The step is not open any more: its TaskScheduled, when the engine itself had given it up. */
static const struct event *given_up(const struct instance *i, int32_t task_id)
{
    const struct event *scheduled = NULL;
    bool is_given_up = false;
    const struct event_list *lists[] = {&i->history, &i->inbox};
    for (size_t n = 0; n < 2; n++) {
        for (const struct event *e = lists[n]->first; e != NULL; e = e->next) {
            if (e->kind == EVENT_TASK_SCHEDULED && e->id == task_id) scheduled = e;
            if (e->kind != EVENT_TASK_FAILED || e->ref != task_id) continue;
            struct bytes type = event_failure_type(event_bytes(e));
            is_given_up = bytes_equal(type, BYTES_LITERAL(GIVEN_UP_LATE)) ||
                          bytes_equal(type, BYTES_LITERAL(GIVEN_UP_ABANDONED));
        }
    }
    return is_given_up ? scheduled : NULL;
}

/* The TaskScheduled that a late answer is for; NULL when it tells nothing new to anybody. */
static const struct event *late_for(const struct instance *i, const struct item *item,
                                    const struct work_ref *ref)
{
    if (memcmp(ref->execution_id, i->execution_id, EXECUTION_ID_SIZE) != 0) return NULL;
    for (const struct late *l = i->late_first; l != NULL; l = l->next) {
        if (l->task_id == ref->task_id && l->attempt == ref->attempt) return NULL;
    }
    if (item == NULL) return given_up(i, ref->task_id);
    return item->is_detached || ref->attempt >= item->failures ? NULL : item->created;
}

/* A late answer of a step with a complete-by time is kept: somebody may have to undo what it did
 * (S5). item NULL: the step has been given up. */
static void late(struct core *c, const struct item *item, const struct input_worker_done *done)
{
    assert(done->has_ref);
    const struct instance *i = instance_find_live(c, done->ref.key);
    assert(item == NULL || item->instance == i);
    const struct event *scheduled = i == NULL ? NULL : late_for(i, item, &done->ref);
    if (scheduled != NULL && policy_of_event(c, scheduled)->complete_by_ms > 0) {
        struct bytes answer = done->failure.has ? done->failure.value : done->result.value;
        struct record record = {
            .kind = RECORD_LATE,
            .key = i->key,
            .task_id = done->ref.task_id,
            .failures = done->ref.attempt,
            .is_success = !done->failure.has,
            .event = bytes_make(answer.ptr, answer.len < 4096 ? answer.len : 4096),
        };
        emit(c, &record);
    }
    reply_stale(c);
}

static void finish_task(struct core *c, struct item *item, const struct input_worker_done *done)
{
    struct instance *i = item->instance;
    assert(item->kind == ITEM_TASK);
    assert(item->state != TASK_STATE_PARKED); /* an operator decides, not a late answer */
    if (item->is_detached) {
        struct record record = {.kind = RECORD_TASK_CLOSED, .key = i->key, .task_id = item->id};
        memcpy(record.execution_id, item->execution_id, EXECUTION_ID_SIZE);
        emit(c, &record);
        return;
    }
    if (done->failure.has && policy_of(item)->retries_failures) {
        supervise(item, "StepFailed", failure_message(done->failure.value),
                  failure_is_final(done->failure.value));
        return;
    }
    buffer_clear(&c->scratch);
    if (done->failure.has) {
        event_write_task_failed(&c->scratch, c->now_ns, item->id, done->failure.value);
    } else {
        event_write_task_completed(&c->scratch, c->now_ns, item->id, done->result);
    }
    assert(!c->scratch.failed);
    message_add(i, buffer_view(&c->scratch));
}

/* More than may be stored: the step fails with the reason, as if the worker had said so. */
static const char *result_problem(const struct input_worker_done *done)
{
    size_t size = done->failure.has ? done->failure.value.len : done->result.value.len;
    return size > LIMIT_PAYLOAD_SIZE ? "the result is larger than 16 MiB" : NULL;
}

static void fail_task(struct core *c, struct item *item, const char *problem)
{
    struct buffer failure;
    buffer_init(&failure, c->mem);
    failure_write(&failure, "ResultTooLarge", bytes_of_text(problem), true);
    assert(!failure.failed);
    struct input_worker_done done = {.failure = maybe_some(buffer_view(&failure))};
    finish_task(c, item, &done);
    buffer_release(&failure);
}

static struct item *task_of(const struct core *c, const struct input_worker_done *done)
{
    struct instance *i = instance_find_live(c, done->has_ref ? done->ref.key : done->key);
    if (i == NULL) return NULL;
    if (done->has_ref) return task_find(i, done->ref.execution_id, done->ref.task_id);
    return item_find(i, done->task_id, ITEM_TASK);
}

void on_worker_task_done(struct core *c, const struct input *in)
{
    struct item *item = task_of(c, &in->done);
    if (in->done.has_ref && (item == NULL || !task_matches(item, &in->done.ref))) {
        late(c, item, &in->done);
        return;
    }
    if (item == NULL || (!in->done.has_ref && item->state != TASK_STATE_LEASED)) {
        reply_stale(c);
        return;
    }
    c->stats.tasks_done++;
    const char *problem = result_problem(&in->done);
    if (problem != NULL)
        fail_task(c, item, problem);
    else
        finish_task(c, item, &in->done);
    reply(c, OK, "");
}

/* ---- leases ---- */

/* As if it had never been taken: a lease is not durable, and neither is its end. */
static void return_turn(struct instance *i)
{
    assert(i->is_leased);
    assert(i->queue == NULL);
    i->is_leased = false;
    turn_schedule(i);
    instance_sort(i);
    assert(i->queue != NULL || i->due.node.is_linked); /* it is offered again */
}

/* The turn of an orchestration, or the batch of an entity. */
static void give_turn_back(struct instance *i, const struct input *in, struct bytes why)
{
    assert(i->is_leased);
    if (in->lease.is_unsent)
        return_turn(i);
    else if (in->lease.is_parked)
        park_turn(i, why);
    else
        supervise_turn(i, why);
    assert(!i->is_leased);
}

void on_worker_abandon(struct core *c, const struct input *in)
{
    const struct work_ref *ref = &in->lease.ref;
    struct instance *i = instance_find_live(c, ref->key);
    struct bytes why = in->lease.reason;
    if (why.len == 0 && in->lease.is_lost) why = BYTES_LITERAL("the worker was lost");
    if (why.len == 0) why = BYTES_LITERAL("the worker gave the work back");
    bool is_ours = true;

    if (i != NULL && ref->kind == WORK_TURN && i->is_leased && turn_matches(i, ref)) {
        give_turn_back(i, in, why);
    } else if (i != NULL && ref->kind == WORK_ENTITY && i->is_leased && entity_matches(i, ref)) {
        give_turn_back(i, in, why);
    } else if (i != NULL && ref->kind == WORK_TASK) {
        struct item *item = task_find(i, ref->execution_id, ref->task_id);
        if (item != NULL && item->state == TASK_STATE_LEASED && task_matches(item, ref)) {
            if (in->lease.is_unsent)
                item_queue(item);
            else if (in->lease.is_parked)
                park_task(item, GIVEN_UP_ABANDONED, why);
            else
                supervise(item, GIVEN_UP_ABANDONED, why, false);
        } else {
            is_ours = false;
        }
    } else {
        is_ours = false;
    }
    if (is_ours)
        reply(c, OK, "");
    else
        reply_too_late(c, "");
}

void on_worker_renew(struct core *c, const struct input *in)
{
    const struct work_ref *ref = &in->lease.ref;
    struct instance *i = instance_find_live(c, ref->key);
    struct item *item = NULL;
    if (i != NULL && ref->kind == WORK_TASK) item = task_find(i, ref->execution_id, ref->task_id);
    if (item == NULL || item->state != TASK_STATE_LEASED || !task_matches(item, ref)) {
        reply(c, E_STALE, "the lease is lost: stop this work, its answer will not count");
        return;
    }
    if (item->complete_by_ms > 0 || in->lease.is_limit) {
        assert(item->complete_by_ms == 0 || item->due.node.is_linked);
        item->complete_by_ms = now_ms(c) + in->lease.extend_ms;
        due_set(c, &item->due, DUE_COMPLETE_BY, item->complete_by_ms);
        assert(item->due.node.is_linked);
    }
    reply(c, OK, "");
}
