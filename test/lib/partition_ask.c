/* SPDX-License-Identifier: Apache-2.0
 *
 * See partition.h: what clients and workers ask of it.
 */
#include "test/lib/partition_parts.h"

#include "base/assert.h"
#include "base/clock.h"

/* ---- clients ---- */

struct maybe maybe_text(const char *text)
{
    return text == NULL ? MAYBE_NONE : maybe_some(bytes_of_text(text));
}

enum status kit_start_with(struct kit *k, struct input_start start)
{
    struct input in = {.kind = INPUT_CLIENT_START, .start = start};
    return kit_step_for(k, start.key, &in);
}

enum status kit_start(struct kit *k, const char *key, const char *name, const char *input)
{
    struct input_start start = {
        .key = bytes_of_text(key), .name = bytes_of_text(name), .input = maybe_text(input)};
    return kit_start_with(k, start);
}

static enum status control(struct kit *k, enum input_kind kind, const char *key, const char *data)
{
    struct input in = {.kind = kind};
    in.client.key = bytes_of_text(key);
    in.client.data = maybe_text(data);
    return kit_step_for(k, in.client.key, &in);
}

enum status kit_raise(struct kit *k, const char *key, const char *name, const char *data)
{
    struct input in = {.kind = INPUT_CLIENT_RAISE};
    in.client.key = bytes_of_text(key);
    in.client.name = bytes_of_text(name);
    in.client.data = maybe_text(data);
    return kit_step_for(k, in.client.key, &in);
}

enum status kit_terminate(struct kit *k, const char *key, const char *output, bool recurse)
{
    struct input in = {.kind = INPUT_CLIENT_TERMINATE};
    in.client.key = bytes_of_text(key);
    in.client.data = maybe_text(output);
    in.client.recurse = recurse;
    return kit_step_for(k, in.client.key, &in);
}

enum status kit_suspend(struct kit *k, const char *key, const char *reason)
{
    return control(k, INPUT_CLIENT_SUSPEND, key, reason);
}

enum status kit_resume(struct kit *k, const char *key, const char *reason)
{
    return control(k, INPUT_CLIENT_RESUME, key, reason);
}

enum status kit_rewind(struct kit *k, const char *key, const char *reason)
{
    return control(k, INPUT_CLIENT_REWIND, key, reason);
}

enum status kit_restart(struct kit *k, const char *key)
{
    return control(k, INPUT_CLIENT_RESTART, key, NULL);
}

enum status kit_purge(struct kit *k, const char *key)
{
    return control(k, INPUT_CLIENT_PURGE, key, NULL);
}

enum status kit_purge_forced(struct kit *k, const char *key)
{
    struct input in = {.kind = INPUT_CLIENT_PURGE};
    in.client.key = bytes_of_text(key);
    in.client.is_forced = true;
    return kit_step_for(k, in.client.key, &in);
}

enum status kit_resubmit(struct kit *k, const char *key, int32_t task_id)
{
    struct input in = {.kind = INPUT_CLIENT_RESUBMIT};
    in.client.key = bytes_of_text(key);
    in.client.task_id = task_id;
    return kit_step_for(k, in.client.key, &in);
}

/* ---- workers ---- */

static bool is_of_name(struct bytes queue, const char *name)
{
    struct reader r = reader_make(queue);
    (void)reader_u8(&r);
    (void)reader_bytes(&r); /* hub */
    return bytes_equal(reader_bytes(&r), bytes_of_text(name));
}

/* READY announces one piece of work, which may be gone when it is asked for. */
const struct effect_work *kit_take(struct kit *k, enum work_kind kind, const char *name)
{
    struct kit_ready **at = &k->ready;
    while (*at != NULL) {
        const struct kit_ready *ready = *at;
        if (ready->kind != kind || !is_of_name(ready->queue, name)) {
            at = &(*at)->next;
            continue;
        }
        *at = ready->next;
        struct input in = {.kind = INPUT_WORKER_TAKE};
        in.take.kind = kind;
        in.take.queue = ready->queue;
        in.take.worker = k->worker;
        in.take.want_history = !k->is_without_past;
        kit_step(k, ready->partition, &in);
        if (k->work != NULL) return k->work;
    }
    return NULL;
}

const struct effect_work *kit_take_turn(struct kit *k, const char *name)
{
    return kit_take(k, WORK_TURN, name);
}

const struct effect_work *kit_take_task(struct kit *k, const char *name)
{
    return kit_take(k, WORK_TASK, name);
}

const struct effect_work *kit_must(const struct effect_work *work)
{
    assert(work != NULL); /* the test expects that there is work */
    return work;
}

enum status kit_answer_with(struct kit *k, const struct effect_work *work,
                            const struct orchestrator_answer *answer)
{
    struct input in = {.kind = INPUT_WORKER_TURN_DONE};
    in.done.has_ref = true;
    in.done.ref = work->ref;
    in.done.answer = answer;
    return kit_step_for(k, work->ref.key, &in);
}

static struct orchestrator_answer answer_of(struct kit *k, const struct action *actions, uint32_t n)
{
    struct orchestrator_answer answer = {.actions_n = n};
    if (n == 0) return answer;
    answer.actions = kit_keep_object(k, n * sizeof *actions);
    memcpy(answer.actions, actions, n * sizeof *actions);
    return answer;
}

enum status kit_answer(struct kit *k, const struct effect_work *work, const struct action *actions,
                       uint32_t actions_n)
{
    struct orchestrator_answer answer = answer_of(k, actions, actions_n);
    return kit_answer_with(k, work, &answer);
}

enum status kit_answer_plain(struct kit *k, const char *key, const struct action *actions,
                             uint32_t actions_n)
{
    struct orchestrator_answer answer = answer_of(k, actions, actions_n);
    struct input in = {.kind = INPUT_WORKER_TURN_DONE};
    in.done.key = bytes_of_text(key);
    in.done.answer = &answer;
    return kit_step_for(k, in.done.key, &in);
}

enum status kit_task_done(struct kit *k, const struct effect_work *work, const char *result)
{
    struct input in = {.kind = INPUT_WORKER_TASK_DONE};
    in.done.has_ref = true;
    in.done.ref = work->ref;
    in.done.result = maybe_text(result);
    return kit_step_for(k, work->ref.key, &in);
}

enum status kit_task_failed(struct kit *k, const struct effect_work *work, const char *message,
                            bool is_final)
{
    struct buffer failure;
    struct input in = {.kind = INPUT_WORKER_TASK_DONE};
    buffer_init(&failure, &k->mem);
    failure_write(&failure, "TestError", bytes_of_text(message), is_final);
    in.done.has_ref = true;
    in.done.ref = work->ref;
    in.done.failure = maybe_some(buffer_view(&failure));
    enum status status = kit_step_for(k, work->ref.key, &in);
    buffer_release(&failure);
    return status;
}

enum status kit_task_done_plain(struct kit *k, const char *key, int32_t task_id, const char *result)
{
    struct input in = {.kind = INPUT_WORKER_TASK_DONE};
    in.done.key = bytes_of_text(key);
    in.done.task_id = task_id;
    in.done.result = maybe_text(result);
    return kit_step_for(k, in.done.key, &in);
}

enum status kit_abandon(struct kit *k, const struct effect_work *work, const char *reason)
{
    struct input in = {.kind = INPUT_WORKER_ABANDON};
    in.lease.ref = work->ref;
    in.lease.is_lost = reason == NULL;
    in.lease.reason = maybe_text(reason).value;
    return kit_step_for(k, work->ref.key, &in);
}

enum status kit_return(struct kit *k, const struct effect_work *work)
{
    struct input in = {.kind = INPUT_WORKER_ABANDON};
    in.lease.ref = work->ref;
    in.lease.is_unsent = true;
    return kit_step_for(k, work->ref.key, &in);
}

enum status kit_park(struct kit *k, const struct effect_work *work, const char *reason)
{
    struct input in = {.kind = INPUT_WORKER_ABANDON};
    in.lease.ref = work->ref;
    in.lease.is_parked = true;
    in.lease.reason = bytes_of_text(reason);
    return kit_step_for(k, work->ref.key, &in);
}

enum status kit_renew(struct kit *k, const struct effect_work *work, int64_t extend_ms)
{
    struct input in = {.kind = INPUT_WORKER_RENEW};
    in.lease.ref = work->ref;
    in.lease.extend_ms = extend_ms;
    return kit_step_for(k, work->ref.key, &in);
}

enum status kit_renew_limit(struct kit *k, const struct effect_work *work, int64_t extend_ms)
{
    struct input in = {.kind = INPUT_WORKER_RENEW};
    in.lease.ref = work->ref;
    in.lease.extend_ms = extend_ms;
    in.lease.is_limit = true;
    return kit_step_for(k, work->ref.key, &in);
}

/* ---- actions ---- */

struct action act_task(int32_t id, const char *name, const char *input)
{
    return (struct action){.kind = ACTION_SCHEDULE_TASK,
                           .id = id,
                           .name = bytes_of_text(name),
                           .input = maybe_text(input)};
}

struct action act_timer(int32_t id, int64_t fire_at_ms)
{
    int64_t ms = fire_at_ms % 1000;
    if (ms < 0) ms += 1000;
    return (struct action){.kind = ACTION_CREATE_TIMER,
                           .id = id,
                           .fire_at_s = (fire_at_ms - ms) / 1000,
                           .fire_at_ns = (int32_t)(ms * NS_PER_MS)};
}

struct action act_child(int32_t id, const char *name, const char *instance_id, const char *input)
{
    return (struct action){.kind = ACTION_CREATE_CHILD,
                           .id = id,
                           .name = bytes_of_text(name),
                           .instance_id = maybe_text(instance_id).value,
                           .input = maybe_text(input)};
}

struct action act_event(int32_t id, const char *target, const char *name, const char *input)
{
    return (struct action){.kind = ACTION_SEND_EVENT,
                           .id = id,
                           .name = bytes_of_text(name),
                           .instance_id = bytes_of_text(target),
                           .input = maybe_text(input)};
}

struct action act_complete(int32_t id, const char *result)
{
    return (struct action){
        .kind = ACTION_COMPLETE, .id = id, .status = STATUS_COMPLETED, .input = maybe_text(result)};
}

/* The bytes of TaskFailureDetails {1 errorType: "E", 2 errorMessage: message} in static memory,
 * which is enough for one answer. */
struct action act_fail(int32_t id, const char *message)
{
    static uint8_t details[128];
    size_t len = strlen(message);
    assert(len < 100);
    memcpy(details, "\x0a\x01\x45\x12", 4);
    details[4] = (uint8_t)len;
    memcpy(details + 5, message, len);
    return (struct action){.kind = ACTION_COMPLETE,
                           .id = id,
                           .status = STATUS_FAILED,
                           .failure = maybe_some(bytes_make(details, 5 + len))};
}

struct action act_continue(int32_t id, const char *input)
{
    return (struct action){.kind = ACTION_COMPLETE,
                           .id = id,
                           .status = STATUS_CONTINUED_AS_NEW,
                           .input = maybe_text(input)};
}

struct action act_terminate(int32_t id, const char *target, const char *reason, bool recurse)
{
    return (struct action){.kind = ACTION_TERMINATE,
                           .id = id,
                           .instance_id = bytes_of_text(target),
                           .input = maybe_text(reason),
                           .recurse = recurse};
}
