/* SPDX-License-Identifier: Apache-2.0
 *
 * Waiting, timers, and the small things an orchestrator can ask: the time, chance, its status.
 */
#include "lib/checks.h"
#include "lib/orchestration.h"

#include "base/clock.h"
#include "base/random.h"

#include <stdio.h>

/* ---- waiting ---- */

/* The marks are on the tasks and not in a list here: while the coroutine waits, nobody may look at
 * its stack, where the list of the caller is. */
static void wait_marked(struct orchestration *o, norn_task *const *tasks, size_t n, uint32_t most)
{
    uint32_t open_n = 0;

    for (size_t i = 0; i < n; i++) {
        if (tasks[i]->is_ended || tasks[i]->is_waited_for) continue;
        tasks[i]->is_waited_for = true;
        open_n++;
    }
    o->waits_n = open_n < most ? open_n : most;
    while (o->waits_n > 0) coroutine_suspend(&o->coroutine);
    for (size_t i = 0; i < n; i++) tasks[i]->is_waited_for = false;
}

void wait_all(struct orchestration *o, norn_task *const *tasks, size_t n)
{
    wait_marked(o, tasks, n, UINT32_MAX);
}

void wait_any(struct orchestration *o, norn_task *const *tasks, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (tasks[i]->is_ended) return;
    }
    wait_marked(o, tasks, n, 1);
}

norn_status task_result(struct orchestration *o, const norn_task *task, struct norn_bytes *output)
{
    assert(task->is_ended);
    if (task->status == NORN_E_FAILED) o->context.error = task->failure;
    if (task->status == NORN_OK && output != NULL) *output = bytes_for_user(task->output);
    return task->status;
}

/* They are tasks of this orchestrator. */
static norn_status check_tasks(norn_context *ctx, norn_task *const *tasks, size_t n)
{
    norn_status status = orchestration_check(ctx);

    if (status != NORN_OK) return status;
    if (tasks == NULL && n > 0) return NORN_E_INVALID;
    for (size_t i = 0; i < n; i++) {
        if (tasks[i] == NULL || tasks[i]->owner != orchestration_of(ctx)) return NORN_E_INVALID;
    }
    return NORN_OK;
}

norn_status norn_await(norn_context *ctx, norn_task *task, struct norn_bytes *output)
{
    norn_status status = check_tasks(ctx, &task, 1);

    if (status != NORN_OK) return status;
    struct orchestration *o = orchestration_of(ctx);
    if (!task->is_ended) wait_all(o, &task, 1);
    return task_result(o, task, output);
}

norn_status norn_when_all(norn_context *ctx, norn_task *const *tasks, size_t n)
{
    norn_status status = check_tasks(ctx, tasks, n);

    if (status != NORN_OK) return status;
    struct orchestration *o = orchestration_of(ctx);
    wait_all(o, tasks, n);
    for (size_t i = 0; i < n && status == NORN_OK; i++) status = task_result(o, tasks[i], NULL);
    return status;
}

norn_status norn_when_any(norn_context *ctx, norn_task *const *tasks, size_t n, size_t *index)
{
    norn_status status = check_tasks(ctx, tasks, n);

    if (status != NORN_OK) return status;
    if (n == 0) return NORN_E_INVALID;
    wait_any(orchestration_of(ctx), tasks, n);
    size_t first = n;
    for (size_t i = 0; i < n; i++) {
        if (!tasks[i]->is_ended) continue;
        if (first == n || tasks[i]->ended_n < tasks[first]->ended_n) first = i;
    }
    assert(first < n);
    if (index != NULL) *index = first;
    return NORN_OK;
}

norn_status norn_cancel(norn_context *ctx, norn_task *task)
{
    norn_status status = check_tasks(ctx, &task, 1);

    if (status != NORN_OK) return status;
    if (task->kind != TASK_TIMER && task->kind != TASK_EVENT) return NORN_E_UNSUPPORTED;
    if (task->is_ended) return NORN_OK;
    if (list_is_linked(&task->awaiting)) list_remove(&task->awaiting);
    task_end(orchestration_of(ctx), task, NORN_E_CANCELLED);
    return NORN_OK;
}

/* ---- timers ---- */

void timer_set(const struct orchestration *o, struct action *timer, int64_t ms)
{
    int64_t left_ms = (INT64_MAX - o->now_ns) / NS_PER_MS;
    int64_t at_ns = o->now_ns + (ms < left_ms ? ms : left_ms) * NS_PER_MS;

    timer->fire_at_s = at_ns / NS_PER_S;
    timer->fire_at_ns = (int32_t)(at_ns % NS_PER_S);
}

norn_status norn_begin_timer(norn_context *ctx, int64_t ms, norn_task **task)
{
    norn_status status = orchestration_check(ctx);

    if (status != NORN_OK) return status;
    if (ms < 0 || task == NULL) return NORN_E_INVALID;
    struct orchestration *o = orchestration_of(ctx);
    struct norn_task *made = task_new(o, TASK_TIMER);
    if (made == NULL) return NORN_E_NOMEM;
    struct action *action = decide(o, ACTION_CREATE_TIMER, made);
    if (action == NULL) return NORN_E_NOMEM;
    timer_set(o, action, ms);
    *task = made;
    return NORN_OK;
}

norn_status norn_sleep(norn_context *ctx, int64_t ms)
{
    norn_task *timer;
    norn_status status = norn_begin_timer(ctx, ms, &timer);

    return status == NORN_OK ? norn_await(ctx, timer, NULL) : status;
}

/* ---- the rest ---- */

norn_status norn_continue_as_new(norn_context *ctx, struct norn_bytes input)
{
    norn_status status = orchestration_check(ctx);

    if (status != NORN_OK) return status;
    if ((status = payload_check(input)) != NORN_OK) return status;
    struct orchestration *o = orchestration_of(ctx);
    if (!context_copy(ctx, maybe_of(input), &o->next_input)) return NORN_E_NOMEM;
    o->continues = true;
    return NORN_OK;
}

norn_status norn_set_status(norn_context *ctx, struct norn_bytes custom_status)
{
    norn_status status = orchestration_check(ctx);

    if (status != NORN_OK) return status;
    if ((status = payload_check(custom_status)) != NORN_OK) return status;
    struct maybe copy;
    if (!context_copy(ctx, maybe_of(custom_status), &copy)) return NORN_E_NOMEM;
    orchestration_of(ctx)->custom_status = copy;
    return NORN_OK;
}

int64_t norn_now(norn_context *ctx)
{
    if (ctx->now_ms != 0) return ctx->now_ms;
    if (ctx->kind != CONTEXT_ORCHESTRATOR) return clock_wall_ns() / NS_PER_MS;
    return orchestration_of(ctx)->now_ns / NS_PER_MS;
}

/* Activities and entities are not replayed. Theirs is the system's, every time: identifiers are
 * made of it, which must be different in all threads, processes and children of fork(). */
uint64_t norn_random(norn_context *ctx)
{
    uint64_t value;

    if (ctx->kind == CONTEXT_ORCHESTRATOR) return rng_u64(&orchestration_of(ctx)->rng);
    random_fill(&value, sizeof value);
    return value;
}

void norn_uuid(norn_context *ctx, char uuid[NORN_UUID_SIZE])
{
    uint64_t high = norn_random(ctx);
    uint64_t low = norn_random(ctx);

    high = (high & ~UINT64_C(0xf000)) | 0x4000; /* version 4, as of chance */
    low = (low & ~(UINT64_C(3) << 62)) | UINT64_C(2) << 62;
    (void)snprintf(uuid, NORN_UUID_SIZE, "%08x-%04x-%04x-%04x-%012llx", (unsigned)(high >> 32),
                   (unsigned)(high >> 16 & 0xffff), (unsigned)(high & 0xffff),
                   (unsigned)(low >> 48), (unsigned long long)(low & 0xffffffffffff));
}

const struct norn_here *norn_here(norn_context *ctx)
{
    struct norn_here *here = &ctx->here;

    here->failure = ctx->error;
    if (here->failure.type == NULL) here->failure.type = "";
    if (here->failure.message == NULL) here->failure.message = "";
    if (ctx->kind == CONTEXT_ORCHESTRATOR) {
        const struct orchestration *o = orchestration_of(ctx);
        here->stack_used_max = coroutine_stack_used_max(o->env->stack);
        here->is_replaying = o->is_replaying;
    }
    if (ctx->kind == CONTEXT_ENTITY) here->state = entity_state(ctx);
    return here;
}
