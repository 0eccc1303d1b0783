/* SPDX-License-Identifier: Apache-2.0
 *
 * GET /v1/instances/{id}/why: why an instance is where it is. S8
 */
#include "rest/state.h"

#include <stdio.h>

#define NS_PER_MS_OF(ms) ((ms) > INT64_MAX / 1000000 ? INT64_MAX : (ms)*1000000)

static const char *state_word(enum task_process process)
{
    switch (process) {
    case TASK_PENDING:
    case TASK_WAITING: return "Pending";
    case TASK_PROCESSING: return "Processing";
    case TASK_ERROR: return "Error";
    }
    unreachable("no such state");
}

/* null where there is none. */
static void write_time_or_null(struct json *j, const char *key, int64_t ms)
{
    json_key(j, key);
    if (ms > 0)
        write_time(j, NS_PER_MS_OF(ms));
    else
        json_null(j);
}

static void write_task(struct json *j, const struct why_task *why)
{
    const struct task_view *task = &why->task;
    char text[16];

    json_object_begin(j);
    json_key(j, "taskId");
    json_int64(j, task->task_id);
    json_key(j, "name");
    json_bytes(j, task->name);
    json_key(j, "state");
    json_text(j, state_word(task->process));
    bool is_locked = task->process == TASK_PROCESSING;
    (void)snprintf(text, sizeof text, "%u", task->locked_by);
    json_key(j, "lockedBy");
    if (is_locked)
        json_bytes(j, why->locked_by.len > 0 ? why->locked_by : bytes_of_text(text));
    else
        json_null(j);
    json_key(j, "workerId"); /* 0: it was given before the server started */
    if (is_locked && task->locked_by != 0)
        json_uint64(j, task->locked_by);
    else
        json_null(j);
    write_time_or_null(j, "completeBy",
                       task->process == TASK_PROCESSING ? task->complete_by_ms : 0);
    json_key(j, "failureCount");
    json_uint64(j, task->failures);
    write_time_or_null(j, "retryAt", task->retry_at_ms);
    json_key(j, "attempts");
    json_uint64(j, task->attempts_n);
    json_object_end(j);
}

static void write_timers(struct json *j, const struct why *why)
{
    json_key(j, "timers");
    json_array_begin(j);
    for (size_t n = 0; n < why->waits_n; n++) {
        const struct wait_view *wait = &why->waits[n];
        if (wait->kind != WAIT_TIMER) continue;
        json_object_begin(j);
        json_key(j, "timerId");
        json_int64(j, wait->id);
        write_time_or_null(j, "fireAt", wait->fire_at_ms);
        json_object_end(j);
    }
    json_array_end(j);
}

static void write_ids(struct json *j, const char *key, const struct why *why, enum wait_kind kind)
{
    json_key(j, key);
    json_array_begin(j);
    for (size_t n = 0; n < why->waits_n; n++) {
        if (why->waits[n].kind == kind) json_bytes(j, why->waits[n].instance);
    }
    json_array_end(j);
}

/* On the host's thread. */
static void encode_why(struct errand *errand)
{
    const struct instance_view *view = errand->request.view;
    const struct why *why = errand->request.why;
    struct json j;

    if (errand->request.status == OK && (view == NULL || why == NULL))
        errand->request.status = E_NOT_FOUND;
    if (errand->request.status != OK) return;
    json_init(&j, &errand->reply);
    json_object_begin(&j);
    json_key(&j, "id");
    json_bytes(&j, key_id(view->key));
    json_key(&j, "hub");
    json_bytes(&j, key_hub(view->key));
    if (!view->is_entity) {
        json_key(&j, "status");
        json_text(&j, status_word(view->status));
    }
    write_text_of(&j, "reason", why->reason);
    json_key(&j, "isParked");
    json_bool(&j, why->is_parked);
    if (why->last_error.len > 0) write_text_of(&j, "lastError", why->last_error);
    json_key(&j, "tasks");
    json_array_begin(&j);
    for (size_t n = 0; n < why->tasks_n; n++) write_task(&j, &why->tasks[n]);
    json_array_end(&j);
    json_key(&j, "waitsFor");
    json_object_begin(&j);
    write_timers(&j, why);
    write_ids(&j, "children", why, WAIT_CHILD);
    write_ids(&j, "entities", why, WAIT_ENTITY);
    if (why->worker_name.len > 0) write_text_of(&j, "worker", why->worker_name);
    json_object_end(&j);
    json_key(&j, "hasMore");
    json_bool(&j, why->has_more);
    json_object_end(&j);
}

static void get_why(struct ask *ask)
{
    struct errand *errand = ask_errand(ask, REQUEST_WHY);

    if (errand == NULL) return;
    errand->encode = encode_why;
    (void)ask_post(errand, ask->path[0]);
}

const struct route routes_why[] = {
    {"GET", "/v1/instances/{id}/why", get_why, NULL, ROUTE_PLAIN, "explainInstance"},
    {0},
};
