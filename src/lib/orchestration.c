/* SPDX-License-Identifier: Apache-2.0
 *
 * Life of an orchestration and its events. See orchestration.h.
 */
#include "lib/checks.h"
#include "lib/orchestration.h"

#include "base/clock.h"
#include "core/event_entity.h"
#include "wire/pb.h"

#define ARENA_SIZE 1024
#define TASKS_SIZE_FIRST 8
/* What is kept of those that have ended: 64 at most, of 16 KiB each. */
#define SPARE_N_MAX 64u
#define SPARE_SIZE_MAX ((size_t)16 << 10)
#define SPARE_TASKS_MAX 64u

/* ---- life ---- */

static void run(void *user)
{
    struct orchestration *o = user;
    struct norn_bytes output = NORN_NONE;

    norn_status status = o->code->fn(&o->context, bytes_for_user(o->input), &output, o->code->user);
    if (status == NORN_OK) status = result_check(&o->context, output);
    o->status = status;
    o->output = output;
    if (status != NORN_OK) compensate(o);
    o->is_ended = true;
}

static bool name_here(struct orchestration *o, const struct link_work *work)
{
    struct norn_context *ctx = &o->context;
    struct norn_here *here = &ctx->here;

    here->id = context_text(ctx, work->id);
    here->name = o->code->name;
    if (work->version.has) here->version = context_text(ctx, work->version.value);
    here->idempotency_key = "";
    return here->id != NULL && (here->version != NULL || !work->version.has);
}

/* Cleared, with an arena and perhaps with room for tasks. NULL without memory. */
static struct orchestration *spare_take(struct orchestration_env *env)
{
    struct orchestration *o = env->spare;

    if (o == NULL) {
        o = mem_take_zero(env->mem, sizeof *o);
        if (o != NULL) arena_init(&o->arena, env->mem, ARENA_SIZE);
        return o;
    }
    env->spare = o->spare_next;
    env->spare_n--;
    struct arena arena = o->arena;
    struct norn_task **tasks = o->tasks;
    size_t tasks_size = o->tasks_size;
    *o = (struct orchestration){.arena = arena, .tasks = tasks, .tasks_size = tasks_size};
    if (tasks_size > 0) memset(tasks, 0, tasks_size * sizeof(struct norn_task *));
    return o;
}

/* False: it is too large to be kept, or there are enough. */
static bool spare_keep(struct orchestration *o)
{
    struct orchestration_env *env = o->env;

    if (env->spare_n >= SPARE_N_MAX || o->arena.size > SPARE_SIZE_MAX ||
        o->tasks_size > SPARE_TASKS_MAX) {
        return false;
    }
    arena_reset(&o->arena);
    o->spare_next = env->spare;
    env->spare = o;
    env->spare_n++;
    return true;
}

struct orchestration *orchestration_new(struct orchestration_env *env,
                                        const struct orchestrator *code,
                                        const struct link_work *work)
{
    struct orchestration *o = spare_take(env);

    if (o == NULL) return NULL;
    o->env = env;
    o->code = code;
    o->context.kind = CONTEXT_ORCHESTRATOR;
    o->context.arena = &o->arena;
    o->context.lines = env->lines;
    memcpy(o->execution_id, work->execution_id, EXECUTION_ID_SIZE);
    rng_init(&o->rng, load_u64(work->execution_id) ^ load_u64(work->execution_id + 8));
    coroutine_init(&o->coroutine, env->stack, env->mem, run, o);
    list_init(&o->actions);
    list_init(&o->event_waits);
    list_init(&o->unread);
    list_init(&o->compensations);
    if (name_here(o, work)) {
        o->by_id.key = bytes_of_text(o->context.here.id);
        return o;
    }
    orchestration_free(o);
    return NULL;
}

static void give(struct orchestration *o)
{
    struct mem *mem = o->env->mem;

    mem_give(mem, o->tasks, o->tasks_size * sizeof(struct norn_task *));
    arena_release(&o->arena);
    mem_give(mem, o, sizeof *o);
}

void orchestration_free(struct orchestration *o)
{
    coroutine_release(&o->coroutine);
    if (!spare_keep(o)) give(o);
}

void orchestration_env_release(struct orchestration_env *env)
{
    while (env->spare != NULL) {
        struct orchestration *o = env->spare;
        env->spare = o->spare_next;
        env->spare_n--;
        give(o);
    }
}

struct orchestration *orchestration_of(norn_context *ctx)
{
    return container_of(ctx, struct orchestration, context);
}

norn_status orchestration_check(norn_context *ctx)
{
    if (ctx->kind != CONTEXT_ORCHESTRATOR) return NORN_E_UNSUPPORTED;
    return coroutine_is_running(&orchestration_of(ctx)->coroutine) ? NORN_OK : NORN_E_INVALID;
}

/* ---- decisions and tasks ---- */

static bool tasks_make_room(struct orchestration *o, size_t n)
{
    if (n <= o->tasks_size) return true;
    size_t size = o->tasks_size > 0 ? 2 * o->tasks_size : TASKS_SIZE_FIRST;
    if (size < n) size = n;
    struct norn_task **tasks =
        mem_resize(o->env->mem, o->tasks, o->tasks_size * sizeof *tasks, size * sizeof *tasks);
    if (tasks == NULL) return false;
    memset(tasks + o->tasks_size, 0, (size - o->tasks_size) * sizeof *tasks);
    o->tasks = tasks;
    o->tasks_size = size;
    return true;
}

struct action *decide(struct orchestration *o, enum action_kind kind, struct norn_task *task)
{
    struct decision *decision = arena_alloc_zero(&o->arena, sizeof *decision);

    if (decision == NULL || !tasks_make_room(o, (size_t)o->id_next + 1)) {
        o->context.is_out_of_memory = true;
        return NULL;
    }
    decision->action.kind = kind;
    decision->action.id = o->id_next++;
    o->tasks[decision->action.id] = task;
    list_push_back(&o->actions, &decision->node);
    o->actions_n++;
    return &decision->action;
}

struct norn_task *task_new(struct orchestration *o, enum task_kind kind)
{
    struct norn_task *task = arena_alloc_zero(&o->arena, sizeof *task);

    if (task == NULL)
        o->context.is_out_of_memory = true;
    else
        *task = (struct norn_task){.owner = o, .kind = kind};
    return task;
}

void task_end(struct orchestration *o, struct norn_task *task, norn_status status)
{
    assert(!task->is_ended);
    task->is_ended = true;
    task->ended_n = ++o->ended_n;
    task->status = status;
    if (!task->is_waited_for) return;
    task->is_waited_for = false;
    if (o->waits_n > 0) o->waits_n--;
}

/* NULL: nobody waits for it, or not any more. */
static struct norn_task *task_find(const struct orchestration *o, int32_t id)
{
    if (id < 0 || id >= o->id_next) return NULL;
    struct norn_task *task = o->tasks[id];
    return task == NULL || task->is_ended ? NULL : task;
}

bool is_awake(const struct orchestration *o)
{
    return o->coroutine.is_started && !o->is_ended && !o->is_different && o->waits_n == 0;
}

/* ---- events ---- */

static void apply_started(struct orchestration *o, struct bytes event)
{
    struct event_started started;

    if (o->coroutine.is_started) return;
    if (event_started_decode(event, &o->arena, &started) != OK) return;
    if (!context_copy(&o->context, started.input, &o->input)) return;
    coroutine_resume(&o->coroutine);
}

/* Field `number` of an answer: a result, or failure details. */
static struct pb_field body_field(struct bytes body, uint32_t number)
{
    struct pb_reader r = pb_reader_make(body);
    struct pb_field f;
    struct pb_field found = {0};

    while (pb_next_inline(&r, &f)) {
        if (f.number == number) found = f;
    }
    return found;
}

static struct maybe body_text(struct bytes body, uint32_t number)
{
    struct pb_field f = body_field(body, number);
    struct bytes value = BYTES_NONE;

    if (f.number == 0 || !pb_get_string_value(&f, &value)) return MAYBE_NONE;
    return maybe_some(value);
}

static void apply_completed(struct orchestration *o, const struct event_head *head)
{
    struct norn_task *task = task_find(o, head->ref);

    if (task != NULL && task->kind == TASK_CALL) call_completed(o, task, body_text(head->body, 2));
}

static void apply_failed(struct orchestration *o, const struct event_head *head)
{
    struct norn_task *task = task_find(o, head->ref);

    if (task == NULL || task->kind != TASK_CALL) return;
    call_failed(o, task, body_field(head->body, 2).bytes);
}

static void apply_fired(struct orchestration *o, const struct event_head *head)
{
    struct norn_task *task = task_find(o, head->ref);

    if (task == NULL) return;
    if (task->kind == TASK_TIMER) task_end(o, task, NORN_OK);
    if (task->kind == TASK_CALL) call_delay_is_over(o, task);
}

/* The answer of an entity, or a grant. */
static void apply_entity(struct orchestration *o, const struct event_head *head)
{
    struct norn_task *task = task_find(o, request_id_read(body_field(head->body, 1).bytes));

    if (task == NULL) return;
    if (head->kind == EVENT_ENTITY_LOCK_GRANTED && task->kind == TASK_LOCK) {
        task_end(o, task, NORN_OK);
    } else if (head->kind == EVENT_ENTITY_COMPLETED && task->kind == TASK_ENTITY) {
        if (context_copy(&o->context, body_text(head->body, 2), &task->output))
            task_end(o, task, NORN_OK);
    } else if (head->kind == EVENT_ENTITY_FAILED && task->kind == TASK_ENTITY) {
        if (failure_read(&o->context, body_field(head->body, 2).bytes, &task->failure))
            task_end(o, task, NORN_E_FAILED);
    }
}

static void apply_clock(struct orchestration *o, struct event_head *head)
{
    if (event_stamp_decode(head) == OK) o->now_ns = head->time_ns;
}

static void apply(struct orchestration *o, struct bytes event)
{
    struct event_head head;

    if (event_peek(event, &head) != OK) return;
    switch (head.kind) {
    case EVENT_ORCHESTRATOR_STARTED: apply_clock(o, &head); break;
    case EVENT_EXECUTION_STARTED: apply_started(o, event); break;
    case EVENT_TASK_SCHEDULED:
    case EVENT_CHILD_CREATED:
    case EVENT_TIMER_CREATED:
    case EVENT_EVENT_SENT:
    case EVENT_ENTITY_SIGNALED:
    case EVENT_ENTITY_CALLED:
    case EVENT_ENTITY_LOCK_REQUESTED:
    case EVENT_ENTITY_UNLOCK_SENT: replay_compare(o, &head); break;
    case EVENT_TASK_COMPLETED:
    case EVENT_CHILD_COMPLETED: apply_completed(o, &head); break;
    case EVENT_TASK_FAILED:
    case EVENT_CHILD_FAILED: apply_failed(o, &head); break;
    case EVENT_TIMER_FIRED: apply_fired(o, &head); break;
    case EVENT_EVENT_RAISED: event_arrived(o, event, head.body); break;
    case EVENT_ENTITY_COMPLETED:
    case EVENT_ENTITY_FAILED:
    case EVENT_ENTITY_LOCK_GRANTED: apply_entity(o, &head); break;
    case EVENT_EXECUTION_REWOUND: o->is_rewound = true; break;
    /* The engine acts on these itself: a suspended instance gets no turns, an ended one neither. */
    case EVENT_EXECUTION_SUSPENDED:
    case EVENT_EXECUTION_RESUMED:
    case EVENT_EXECUTION_COMPLETED:
    case EVENT_EXECUTION_TERMINATED:
    case EVENT_CONTINUE_AS_NEW:
    case EVENT_ORCHESTRATOR_COMPLETED:
    case EVENT_GENERIC:
    case EVENT_HISTORY_STATE:
    case EVENT_UNKNOWN: break;
    }
    if (is_awake(o) && !o->context.is_out_of_memory) coroutine_resume(&o->coroutine);
}

/* At most n of them. How many there were. */
static uint64_t apply_all(struct orchestration *o, struct bytes events, uint64_t n_max)
{
    struct reader r = reader_make(events);
    struct bytes event;
    uint64_t n = 0;

    while (n < n_max && strings_next(&r, &event)) {
        n++;
        if (o->context.is_out_of_memory || o->is_different) continue;
        o->event_n++;
        apply(o, event);
    }
    return n;
}

static void replay(struct orchestration *o, const struct link_work *work)
{
    o->is_replaying = true;
    if (work->is_past_filtered) o->is_rewound = true; /* it may have been */
    (void)apply_all(o, work->past, work->history_n);
    if (!o->context.is_out_of_memory) replay_finish(o);
    o->is_replaying = false;
}

enum status orchestration_turn(struct orchestration *o, struct link_work *work, uint64_t *events_n,
                               bool *has_ended)
{
    bool is_new = !o->coroutine.is_started;

    if (is_new && work->history_n > 0) replay(o, work);
    *events_n = apply_all(o, work->fresh, UINT64_MAX);
    if (o->context.is_out_of_memory) return E_NOMEM;
    *events_n += o->actions_n;
    enum status status = answer_write(o, work, has_ended);
    if (status == OK && !*has_ended) status = coroutine_park(&o->coroutine);
    return status;
}
