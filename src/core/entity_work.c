/* SPDX-License-Identifier: Apache-2.0
 *
 * A batch of operations is taken by a worker and answered: results to the callers, the new state,
 * and what the operations asked for (signals, new orchestrations), all in one step or not at all.
 */
#include "core/limits.h"
#include "core/state.h"

#include "base/planted.h"

void entity_take(struct instance *i, struct effect_work *work)
{
    struct core *c = i->core;
    uint32_t n = entity_batch_n(i);
    assert(i->queue != NULL);
    assert(!i->is_leased);
    assert(n > 0);
    queue_remove_turn(i);
    i->is_leased = true;
    i->worker = c->in->take.worker;
    i->lease_inbox_n = n;
    i->lease_started_ns = c->now_ns;

    memcpy(work->ref.execution_id, i->execution_id, EXECUTION_ID_SIZE);
    work->ref.attempt = i->failures;
    work->ref.base = i->turns;
    work->ref.inbox_n = n;
    work->ref.started_ns = c->now_ns;
    work->name = copy_must(c->out->arena, entity_id_name(key_id(i->key)));
    assert(work->name.len > 0);
    work->state = i->state;
    if (i->state.has) work->state.value = copy_must(c->out->arena, i->state.value);
    work->fresh = pack_events(c, BYTES_NONE, entity_operations(i)->first, n);
    entity_schedule(i);
    instance_sort(i);
    assert(!list_is_linked(&i->idle)); /* the archiver must not let it go while it is leased */
}

bool entity_matches(const struct instance *i, const struct work_ref *ref)
{
    const struct core *c = i->core;
    if (!i->is_entity || i->is_poisoned) return false;
    if (memcmp(ref->execution_id, i->execution_id, EXECUTION_ID_SIZE) != 0) return false;
    if (ref->inbox_n > entity_operations((struct instance *)i)->n) return false;
    if (planted("skip_batch_check")) return i->is_leased;
    if (ref->base != i->turns || ref->attempt != i->failures) return false;
    return i->is_leased ? ref->epoch == c->options.epoch : ref->epoch < c->options.epoch;
}

static struct work_ref lease_of(const struct instance *i)
{
    assert(i->is_leased);
    struct work_ref ref = {
        .kind = WORK_ENTITY,
        .epoch = i->core->options.epoch,
        .attempt = i->failures,
        .base = i->turns,
        .inbox_n = i->lease_inbox_n,
    };
    memcpy(ref.execution_id, i->execution_id, EXECUTION_ID_SIZE);
    return ref;
}

/* ---- checking ---- */

static const char *action_problem(const struct entity_action *a)
{
    if (a->input.value.len > LIMIT_PAYLOAD_SIZE) return "an action has an input over 16 MiB";
    if (a->name.len > LIMIT_NAME_SIZE || !bytes_is_utf8(a->name))
        return "an action has a name of more than 256 bytes or not UTF-8";
    if (a->kind == ENTITY_ACTION_SIGNAL) return entity_id_problem(a->instance_id, LIMIT_ID_SIZE);
    if (a->name.len == 0) return "an action starts an orchestration without a name";
    if (a->instance_id.len > LIMIT_ID_SIZE || !bytes_is_utf8(a->instance_id))
        return "an action starts an orchestration with an id over 256 bytes or not UTF-8";
    if (id_is_entity(a->instance_id)) return "an action starts an orchestration that begins with @";
    return NULL;
}

/* Why the batch counts as failed; NULL when it does not. */
static struct bytes answer_problem(const struct entity_answer *answer)
{
    if (answer->failure.has) {
        struct bytes message = failure_message(answer->failure.value);
        return message.len > 0 ? message : BYTES_LITERAL("the worker failed the batch");
    }
    if (answer->requires_state) return BYTES_LITERAL("the worker asks for the state again");
    if (answer->results_n == 0) return BYTES_LITERAL("the worker's answer has no results");
    if (answer->state.has && answer->state.value.len > LIMIT_PAYLOAD_SIZE)
        return BYTES_LITERAL("the entity's state is larger than 16 MiB");
    for (uint32_t n = 0; n < answer->results_n; n++) {
        const struct entity_result *r = &answer->results[n];
        if (r->output.value.len + r->failure.len > LIMIT_PAYLOAD_SIZE)
            return BYTES_LITERAL("a result is larger than 16 MiB");
    }
    for (uint32_t n = 0; n < answer->actions_n; n++) {
        const char *problem = action_problem(&answer->actions[n]);
        if (problem != NULL) return bytes_of_text(problem);
    }
    return BYTES_NONE;
}

/* ---- telling ---- */

static void tell_caller(struct instance *i, const struct event *operation,
                        const struct entity_result *result)
{
    struct core *c = i->core;
    struct event_entity call;
    if (operation->kind != EVENT_ENTITY_CALLED) return; /* nobody waits for a signal */
    enum status status = event_entity_decode(event_bytes(operation), &c->temporary, &call);
    assert(status == OK);
    if (call.parent.len == 0) return;
    buffer_clear(&c->scratch);
    if (result->is_failure)
        event_write_operation_failed(&c->scratch, c->now_ns, call.request_id, result->failure);
    else
        event_write_operation_completed(&c->scratch, c->now_ns, call.request_id, result->output);
    assert(!c->scratch.failed);
    struct bytes execution = BYTES_NONE;
    if (call.has_parent_execution) execution = bytes_make(call.parent_execution, EXECUTION_ID_SIZE);
    outbox_send(c, MESSAGE_ENTITY_ANSWER, sibling_key(c, i->key, call.parent), execution,
                buffer_view(&c->scratch));
}

static void send_signal(struct instance *i, const struct entity_action *a)
{
    struct core *c = i->core;
    assert(a->kind == ENTITY_ACTION_SIGNAL);
    assert(entity_id_name(a->instance_id).len > 0); /* checked with the answer */
    struct signal signal = {
        .request_id = new_request_id(c),
        .operation = a->name,
        .input = a->input,
        .target = entity_id_normal(a->instance_id, &c->temporary),
        .has_scheduled = a->has_scheduled,
        .scheduled_ms = a->scheduled_ms,
    };
    buffer_clear(&c->scratch);
    event_write_signal(&c->scratch, c->now_ns, &signal);
    assert(!c->scratch.failed);
    outbox_send(c, MESSAGE_ENTITY, sibling_key(c, i->key, signal.target), BYTES_NONE,
                buffer_view(&c->scratch));
}

static void start(struct instance *i, const struct entity_action *a)
{
    struct core *c = i->core;
    char id[EXECUTION_TEXT_SIZE];
    assert(a->kind == ENTITY_ACTION_START);
    assert(!id_is_entity(a->instance_id)); /* checked with the answer */
    bool is_later = a->has_scheduled && a->scheduled_ms > now_ms(c);
    struct event_started started = {
        .name = a->name,
        .version = a->version,
        .input = a->input,
        .instance_id = a->instance_id,
        .has_scheduled = is_later,
        .scheduled_ms = is_later ? a->scheduled_ms : 0,
        .trace = a->trace,
    };
    if (a->instance_id.len == 0) {
        new_execution_id(c, started.execution_id);
        execution_id_text(started.execution_id, id);
        started.instance_id = bytes_make(id, sizeof id);
    }
    new_execution_id(c, started.execution_id);
    buffer_clear(&c->scratch);
    event_started_write(&c->scratch, c->now_ns, &started);
    assert(!c->scratch.failed);
    outbox_send(c, MESSAGE_START, sibling_key(c, i->key, started.instance_id), BYTES_NONE,
                buffer_view(&c->scratch));
}

static void commit_batch(struct instance *i, const struct work_ref *ref,
                         const struct entity_answer *answer)
{
    struct core *c = i->core;
    uint32_t n = answer->results_n < ref->inbox_n ? answer->results_n : ref->inbox_n;
    const struct event *operation = entity_operations(i)->first;
    uint64_t batches = i->turns;
    assert(n > 0);
    assert(n <= entity_operations(i)->n);
    for (uint32_t k = 0; k < n; k++, operation = operation->next) {
        assert(operation != NULL); /* entity_matches() has counted them */
        tell_caller(i, operation, &answer->results[k]);
    }
    for (uint32_t k = 0; k < answer->actions_n; k++) {
        const struct entity_action *a = &answer->actions[k];
        if (a->kind == ENTITY_ACTION_SIGNAL)
            send_signal(i, a);
        else
            start(i, a);
    }
    struct record record = {
        .kind = RECORD_ENTITY_BATCH,
        .key = i->key,
        .consumed_n = planted("repeat_operation") && n > 1 ? n - 1 : n,
        .custom_status = answer->state,
    };
    emit(c, &record);
    assert(!i->is_leased);
    assert(i->turns == batches + 1); /* the next answer to this batch is stale */
    entity_settle(i);
}

void on_worker_entity_done(struct core *c, const struct input *in)
{
    struct instance *i = instance_find_live(c, in->done.has_ref ? in->done.ref.key : in->done.key);
    if (i == NULL || !i->is_entity || (!in->done.has_ref && !i->is_leased)) {
        reply_stale(c);
        return;
    }
    struct work_ref ref = in->done.has_ref ? in->done.ref : lease_of(i);
    if (ref.inbox_n == 0 || !entity_matches(i, &ref)) {
        reply_stale(c);
        return;
    }
    struct bytes problem = answer_problem(in->done.entity);
    if (problem.len == 0)
        commit_batch(i, &ref, in->done.entity);
    else if (i->is_leased) /* else it is offered again anyhow */
        supervise_turn(i, problem);
    reply(c, OK, "");
}
