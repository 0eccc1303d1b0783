/* SPDX-License-Identifier: Apache-2.0
 *
 * The Supervisor: what happens to a step whose worker is late, lost, refuses, or fails. It knows no
 * business logic; it counts failures and walks down a ladder that is chosen by the step's name:
 *
 *      failures <= first threshold    again, after a delay that doubles
 *      failures <= second threshold   again, after the extended wait
 *      beyond                         the last resort: the step fails, or waits for an operator
 *
 * The doubling delay has a jitter (core_options), so that thousands of steps that failed together,
 * because a service was down, do not come back together. Every decision is a record, so that counts
 * and waits survive; the times are decided once.
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

static int64_t delay_ms(struct core *c, const struct policy *policy, uint32_t failures)
{
    int64_t delay = policy->retry_delay_ms;
    for (uint32_t n = 1; n < failures && delay < policy->retry_delay_max_ms; n++) delay *= 2;
    if (delay > policy->retry_delay_max_ms) delay = policy->retry_delay_max_ms;
    int64_t percent = c->options.jitter_percent;
    int64_t spread = delay / 100 * percent + delay % 100 * percent / 100;
    if (spread <= 0) return delay;
    return delay - spread + (int64_t)(step_random(c) % (uint64_t)(2 * spread + 1));
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
    assert(!c->scratch.failed);
    buffer_release(&failure);
    message_add(i, buffer_view(&c->scratch));
}

/* One failure more than it had; what comes next is the caller's to say. */
static struct record tried(const struct item *item, struct bytes why)
{
    assert(item->kind == ITEM_TASK);
    assert(item->state != TASK_STATE_PARKED);
    struct record record = {
        .kind = RECORD_TASK_TRIED,
        .key = item->instance->key,
        .task_id = item->id,
        .failures = item->failures + 1,
        .reason = text_cut(why, LIMIT_REASON_SIZE),
    };
    memcpy(record.execution_id, item->execution_id, EXECUTION_ID_SIZE);
    return record;
}

void park_task(struct item *item, const char *type, struct bytes why)
{
    struct instance *i = item->instance;
    struct core *c = i->core;
    struct record record = tried(item, why);
    if (item->is_detached) {
        fail_step(item, type, record.reason, record.failures);
        return;
    }
    record.next = TASK_NEXT_PARKED;
    emit(c, &record);
    assert(item->failures == record.failures);
    assert(item->state == TASK_STATE_PARKED);
    alert(c, i,
          step_text(c, "step %d waits for an operator after %u failures: %.*s", item->id,
                    record.failures, (int)record.reason.len, (const char *)record.reason.ptr));
}

void supervise(struct item *item, const char *type, struct bytes why, bool is_final)
{
    struct core *c = item->instance->core;
    const struct policy *policy = policy_of(item);
    struct record record = tried(item, why);
    uint32_t failures = record.failures;

    uint32_t last = policy->second_threshold + (planted("ladder_off_by_one") ? 1u : 0u);
    if (!is_final && failures <= policy->first_threshold) {
        record.next = TASK_NEXT_RETRY;
        record.retry_at_ms = now_ms(c) + delay_ms(c, policy, failures);
    } else if (!is_final && failures <= last) {
        record.next = TASK_NEXT_EXTENDED;
        record.retry_at_ms = now_ms(c) + policy->extended_ms;
    } else if (policy->last_resort == RESORT_PARK) {
        park_task(item, type, why);
        return;
    } else {
        fail_step(item, type, record.reason, failures);
        return;
    }
    emit(c, &record);
    assert(item->failures == failures);
    assert(item->state == TASK_STATE_WAITING || item->state == TASK_STATE_QUEUED);
}

void supervise_turn(struct instance *i, struct bytes why)
{
    struct core *c = i->core;
    uint32_t failures = i->failures + 1;
    assert(i->is_leased);
    assert(!instance_is_terminal(i));
    if (failures >= TURN_FAILURES_MAX) {
        park_turn(i, why);
        return;
    }
    struct record record = {
        .kind = RECORD_TURN_FAILED,
        .key = i->key,
        .failures = failures,
        .retry_at_ms = now_ms(c) + delay_ms(c, &policy_default, failures),
        .reason = text_cut(why, LIMIT_REASON_SIZE),
    };
    emit(c, &record);
    assert(!i->is_leased);
}

void park_turn(struct instance *i, struct bytes why)
{
    struct core *c = i->core;
    uint32_t failures = i->failures + 1;
    assert(i->is_leased);
    assert(!instance_is_terminal(i));
    struct record record = {
        .kind = RECORD_PARKED,
        .key = i->key,
        .failures = failures,
        .reason = text_cut(why, LIMIT_REASON_SIZE),
    };
    emit(c, &record);
    assert(i->is_poisoned);
    assert(!i->is_leased);
    alert(c, i,
          step_text(c, "parked after %u turns that no worker finished: %.*s", failures,
                    (int)record.reason.len, (const char *)record.reason.ptr));
}
