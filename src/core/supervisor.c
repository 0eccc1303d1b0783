/* SPDX-License-Identifier: Apache-2.0
 *
 * The Supervisor: what happens to a step whose worker is late, lost, refuses, or fails. It knows no
 * business logic; it counts failures and walks down a ladder that is chosen by the step's name:
 *
 *      failures <= first threshold    again, after a delay that doubles
 *      failures <= second threshold   again, after the extended wait
 *      beyond                         the last resort: the step fails, or waits for an operator
 *
 * Every decision is a record, so that counts and waits survive; the times are decided once.
 */
#include "core/limits.h"
#include "core/state.h"

#include "base/planted.h"

const struct policy policy_default = {
    .first_threshold = 19,
    .second_threshold = 19,
    .retry_delay_ms = 200,
    .retry_delay_max_ms = 60000,
    .last_resort = RESORT_FAIL,
};

/* Turns have no name to choose a policy by: they are the orchestrator itself. */
#define TURN_FAILURES_MAX 20u

const struct policy *policy_of_event(const struct core *c, const struct event *event)
{
    struct event_scheduled scheduled;
    assert(event->kind == EVENT_TASK_SCHEDULED);
    if (c->options.policy == NULL) return &policy_default;
    enum status status =
        event_scheduled_decode(event_bytes(event), (struct arena *)&c->temporary, &scheduled);
    assert(status == OK);
    const struct policy *policy = c->options.policy(c->options.policy_user, scheduled.name);
    assert(policy != NULL);
    return policy;
}

const struct policy *policy_of(const struct item *item)
{
    assert(item->kind == ITEM_TASK);
    return policy_of_event(item->instance->core, item->created);
}

static int64_t delay_ms(const struct policy *policy, uint32_t failures)
{
    int64_t delay = policy->retry_delay_ms;
    for (uint32_t n = 1; n < failures && delay < policy->retry_delay_max_ms; n++) delay *= 2;
    return delay < policy->retry_delay_max_ms ? delay : policy->retry_delay_max_ms;
}

static void fail_step(struct item *item, const char *type, struct bytes why, uint32_t failures)
{
    struct instance *i = item->instance;
    struct core *c = i->core;
    struct buffer failure;
    if (item->is_detached) {
        struct record record = {.kind = RECORD_TASK_CLOSED, .key = i->key, .task_id = item->id};
        memcpy(record.execution_id, item->execution_id, EXECUTION_ID_SIZE);
        emit(c, &record);
        return;
    }
    const char *text = step_text(c, "given up after %u attempts: %.*s", failures, (int)why.len,
                                 (const char *)why.ptr);
    buffer_init(&failure, c->mem);
    failure_write(&failure, type, bytes_of_text(text), true);
    assert(!failure.failed);
    buffer_clear(&c->scratch);
    event_write_task_failed(&c->scratch, c->now_ns, item->id, buffer_view(&failure));
    buffer_release(&failure);
    message_add(i, buffer_view(&c->scratch));
}

void supervise(struct item *item, const char *type, struct bytes why, bool is_final)
{
    struct instance *i = item->instance;
    struct core *c = i->core;
    const struct policy *policy = policy_of(item);
    uint32_t failures = item->failures + 1;
    assert(item->state != TASK_STATE_PARKED);
    struct record record = {
        .kind = RECORD_TASK_TRIED,
        .key = i->key,
        .task_id = item->id,
        .failures = failures,
        .reason = text_cut(why, LIMIT_REASON_SIZE),
    };
    memcpy(record.execution_id, item->execution_id, EXECUTION_ID_SIZE);

    uint32_t last = policy->second_threshold + (planted("ladder_off_by_one") ? 1u : 0u);
    if (!is_final && failures <= policy->first_threshold) {
        record.next = TASK_NEXT_RETRY;
        record.retry_at_ms = now_ms(c) + delay_ms(policy, failures);
    } else if (!is_final && failures <= last) {
        record.next = TASK_NEXT_EXTENDED;
        record.retry_at_ms = now_ms(c) + policy->extended_ms;
    } else if (policy->last_resort == RESORT_PARK && !item->is_detached) {
        record.next = TASK_NEXT_PARKED;
    } else {
        fail_step(item, type, record.reason, failures);
        return;
    }
    emit(c, &record);
    assert(item->failures == failures);
    assert((item->state == TASK_STATE_PARKED) == (record.next == TASK_NEXT_PARKED));
    if (record.next == TASK_NEXT_PARKED) {
        alert(c, i,
              step_text(c, "step %d waits for an operator after %u failures: %.*s", item->id,
                        failures, (int)record.reason.len, (const char *)record.reason.ptr));
    }
}

void supervise_turn(struct instance *i, struct bytes why)
{
    struct core *c = i->core;
    uint32_t failures = i->failures + 1;
    assert(i->is_leased);
    assert(!instance_is_terminal(i));
    struct record record = {
        .key = i->key, .failures = failures, .reason = text_cut(why, LIMIT_REASON_SIZE)};

    if (failures < TURN_FAILURES_MAX) {
        record.kind = RECORD_TURN_FAILED;
        record.retry_at_ms = now_ms(c) + delay_ms(&policy_default, failures);
        emit(c, &record);
        assert(!i->is_leased);
        return;
    }
    record.kind = RECORD_PARKED;
    emit(c, &record);
    assert(i->is_poisoned);
    assert(!i->is_leased);
    alert(c, i,
          step_text(c, "parked after %u turns that no worker finished: %.*s", failures,
                    (int)record.reason.len, (const char *)record.reason.ptr));
}
