/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of activities and children, and their repetition. A retry is what a person would write by
 * hand: a timer and another call, both in the history. It goes on while the orchestrator waits for
 * something else, because it is driven by the events and not by the coroutine.
 */
#include "lib/checks.h"
#include "lib/options.h"
#include "lib/orchestration.h"

#include "base/clock.h"
#include "wire/pb.h"

#include <stdio.h>

#define DELAY_MS_MAX 1e13 /* 300 years: longer than the clock goes, and sums stay within 64 bits */

/* ---- attempts ---- */

static bool put_tag(struct buffer *tags, struct buffer *entry, const char *name, uint32_t value)
{
    char text[16];

    (void)snprintf(text, sizeof text, "%u", value);
    buffer_clear(entry);
    pb_put_bytes(entry, 1, bytes_of_text(name));
    pb_put_bytes(entry, 2, bytes_of_text(text));
    if (entry->failed) return false;
    strings_add(tags, buffer_view(entry));
    return !tags->failed;
}

/* From the second attempt on the activity is told which call this is, and how often it was tried.
 * What undoes is marked, because an instance that did cannot be rewound. False without memory. */
static bool tag_attempt(struct orchestration *o, const struct call *call, struct action *action)
{
    struct buffer tags, entry;

    if (call->attempt == 1 && !o->is_undoing) return true;
    buffer_init(&tags, o->env->mem);
    buffer_init(&entry, o->env->mem);
    bool is_put = true;
    if (call->attempt > 1) {
        is_put = put_tag(&tags, &entry, "norn.attempt", call->attempt) &&
                 put_tag(&tags, &entry, "norn.call", (uint32_t)call->first_id);
    }
    if (is_put && o->is_undoing) is_put = put_tag(&tags, &entry, TAG_UNDO, 1);
    if (is_put) {
        action->tags = arena_copy(&o->arena, buffer_view(&tags));
        is_put = action->tags.len > 0;
    }
    buffer_release(&tags);
    buffer_release(&entry);
    return is_put;
}

static bool attempt(struct orchestration *o, struct norn_task *task)
{
    struct call *call = task->call;
    bool is_child = call->callee == NORN_CHILD;
    struct action *action = decide(o, is_child ? ACTION_CREATE_CHILD : ACTION_SCHEDULE_TASK, task);

    if (action == NULL) return false;
    call->attempt++;
    if (call->attempt == 1) call->first_id = action->id;
    action->name = call->name;
    action->version = call->version;
    action->input = call->input;
    action->instance_id = call->id;
    if (is_child || tag_attempt(o, call, action)) return true;
    o->context.is_out_of_memory = true;
    return false;
}

/* ---- answers ---- */

void call_completed(struct orchestration *o, struct norn_task *task, struct maybe result)
{
    if (task->call->is_delayed) return; /* of an attempt that was given up */
    if (context_copy(&o->context, result, &task->output)) task_end(o, task, NORN_OK);
}

static bool is_final(const struct call *call, const struct norn_failure *failure)
{
    if (failure->is_final) return true;
    const char *const *type = call->retry.final_types;
    for (; type != NULL && *type != NULL; type++) {
        if (strcmp(*type, failure->type) == 0) return true;
    }
    return false;
}

/* Before the attempt after this one. */
static int64_t delay_ms(struct orchestration *o, const struct call *call)
{
    const struct norn_retry *retry = &call->retry;
    double factor = retry->factor > 0 ? retry->factor : 1;
    double most = retry->max_delay_ms > 0 ? (double)retry->max_delay_ms : DELAY_MS_MAX;
    double delay = (double)retry->first_delay_ms;

    if (most > DELAY_MS_MAX) most = DELAY_MS_MAX;
    for (uint32_t n = 1; n < call->attempt && delay < most && delay > 0; n++) delay *= factor;
    if (!(delay < most)) delay = most; /* what is no number is too much, too */
    if (retry->jitter > 0) {
        double part = retry->jitter < 1 ? retry->jitter : 1;
        double chance = (double)(rng_u64(&o->rng) >> 11) / 9007199254740992.0; /* 0 to 1 */
        delay -= delay * part * chance;
    }
    return delay > 0 ? (int64_t)delay : 0;
}

static bool begin_delay(struct orchestration *o, struct norn_task *task, int64_t ms)
{
    struct action *timer = decide(o, ACTION_CREATE_TIMER, task);

    if (timer == NULL) return false;
    timer_set(o, timer, ms);
    task->call->is_delayed = true;
    return true;
}

void call_failed(struct orchestration *o, struct norn_task *task, struct bytes raw)
{
    struct call *call = task->call;
    int64_t now_ms = o->now_ns / NS_PER_MS;
    struct norn_failure failure;

    if (call->is_delayed || !failure_read(&o->context, raw, &failure)) return;
    bool is_last = call->attempt >= call->retry.attempts || is_final(call, &failure);
    int64_t delay = is_last ? 0 : delay_ms(o, call);
    if (call->retry.total_ms > 0 && now_ms + delay - call->begun_ms > call->retry.total_ms) {
        is_last = true;
    }
    if (is_last) {
        task->failure = failure;
        task_end(o, task, NORN_E_FAILED);
    } else if (delay > 0) {
        (void)begin_delay(o, task, delay);
    } else {
        (void)attempt(o, task);
    }
}

void call_delay_is_over(struct orchestration *o, struct norn_task *task)
{
    if (!task->call->is_delayed) return;
    task->call->is_delayed = false;
    (void)attempt(o, task);
}

/* ---- beginning ---- */

static bool copy_types(norn_context *ctx, struct norn_retry *retry)
{
    size_t n = 0;

    if (retry->final_types == NULL) return true;
    while (retry->final_types[n] != NULL) n++;
    const char **copy = norn_alloc(ctx, (n + 1) * sizeof *copy);
    if (copy == NULL) return false;
    for (size_t i = 0; i < n; i++) {
        copy[i] = context_text(ctx, bytes_of_text(retry->final_types[i]));
        if (copy[i] == NULL) return false;
    }
    retry->final_types = copy;
    return true;
}

static bool copy_text(norn_context *ctx, const char *text, struct bytes *out)
{
    if (text == NULL) return true;
    char *copy = context_text(ctx, bytes_of_text(text));
    if (copy == NULL) return false;
    *out = bytes_of_text(copy);
    return true;
}

bool call_options_read(const struct norn_call_options *given, struct norn_call_options *options,
                       struct norn_retry *retry)
{
    *options = (struct norn_call_options)NORN_CALL_OPTIONS;
    *retry = (struct norn_retry)NORN_RETRY;
    return options_read(options, sizeof *options, given) &&
           options_read(retry, sizeof *retry, options->retry);
}

static bool options_are_valid(const struct norn_call_options *options)
{
    if (options->version != NULL && options->version[0] != '\0' &&
        !name_is_valid(options->version)) {
        return false;
    }
    return options->id == NULL || options->id[0] == '\0' ||
           (options->id[0] != '@' && id_is_valid(options->id));
}

static struct call *call_new(norn_context *ctx, enum norn_callee callee, const char *name,
                             struct norn_bytes input, const struct norn_call_options *options,
                             const struct norn_retry *retry)
{
    struct call *call = norn_alloc(ctx, sizeof *call);

    if (call == NULL) return NULL;
    call->callee = callee;
    call->begun_ms = norn_now(ctx);
    call->retry = *retry;
    const char *version = options->version;
    if (version == NULL && callee == NORN_CHILD) version = ctx->here.version;
    call->version.has = version != NULL;
    bool is_copied =
        copy_text(ctx, name, &call->name) && copy_text(ctx, version, &call->version.value) &&
        copy_text(ctx, options->id, &call->id) &&
        context_copy(ctx, maybe_of(input), &call->input) && copy_types(ctx, &call->retry);
    return is_copied ? call : NULL;
}

norn_status norn_begin_call(norn_context *ctx, enum norn_callee callee, const char *name,
                            struct norn_bytes input, const struct norn_call_options *options,
                            norn_task **task)
{
    norn_status status = orchestration_check(ctx);
    struct norn_call_options own;
    struct norn_retry retry;

    if (status != NORN_OK) return status;
    if (!name_is_valid(name) || task == NULL) return NORN_E_INVALID;
    if (!call_options_read(options, &own, &retry) || !options_are_valid(&own)) {
        return NORN_E_INVALID;
    }
    if ((status = payload_check(input)) != NORN_OK) return status;
    if (callee != NORN_ACTIVITY && callee != NORN_CHILD) return NORN_E_INVALID;
    struct orchestration *o = orchestration_of(ctx);
    struct norn_task *made = task_new(o, TASK_CALL);
    if (made == NULL) return NORN_E_NOMEM;
    made->call = call_new(ctx, callee, name, input, &own, &retry);
    if (made->call == NULL || !attempt(o, made)) return NORN_E_NOMEM;
    *task = made;
    return NORN_OK;
}

static norn_status call_and_wait(norn_context *ctx, enum norn_callee callee, const char *name,
                                 struct norn_bytes input, const struct norn_call_options *options,
                                 struct norn_bytes *output)
{
    norn_task *task;
    norn_status status = norn_begin_call(ctx, callee, name, input, options, &task);

    return status == NORN_OK ? norn_await(ctx, task, output) : status;
}

norn_status norn_call(norn_context *ctx, const char *activity, struct norn_bytes input,
                      const struct norn_call_options *options, struct norn_bytes *output)
{
    return call_and_wait(ctx, NORN_ACTIVITY, activity, input, options, output);
}

norn_status norn_call_child(norn_context *ctx, const char *name, struct norn_bytes input,
                            const struct norn_call_options *options, struct norn_bytes *output)
{
    return call_and_wait(ctx, NORN_CHILD, name, input, options, output);
}
