/* SPDX-License-Identifier: Apache-2.0
 *
 * A batch of operations of one entity, on a thread of the pool, one after the other. What an
 * operation changes counts when it succeeds: state and signals of one that fails are undone.
 */
#include "lib/checks.h"
#include "lib/context.h"
#include "lib/pool.h"

#include "core/entity_id.h"
#include "core/limits.h"
#include "wire/pb.h"

struct signal_node {
    struct list node;
    struct entity_action action;
};

struct entity_batch {
    struct norn_context context; /* first */
    struct link_work *work;
    struct maybe state;
    struct list signals;
    uint32_t signals_n;
};

static struct entity_batch *batch_of(norn_context *ctx)
{
    return container_of(ctx, struct entity_batch, context);
}

/* ---- what an operation may do ---- */

struct norn_bytes entity_state(const struct norn_context *ctx)
{
    return bytes_for_user(container_of(ctx, const struct entity_batch, context)->state);
}

norn_status norn_set_state(norn_context *ctx, struct norn_bytes state)
{
    if (ctx->kind != CONTEXT_ENTITY) return NORN_E_UNSUPPORTED;
    norn_status status = payload_check(state);
    if (status != NORN_OK) return status;
    struct maybe copy;
    if (!context_copy(ctx, maybe_of(state), &copy)) return NORN_E_NOMEM;
    batch_of(ctx)->state = copy;
    return NORN_OK;
}

/* Entities have no way to raise an event of an instance in the protocol. */
static norn_status send_signal(struct entity_batch *b, const char *id, const char *event,
                               struct norn_bytes data)
{
    struct norn_context *ctx = &b->context;

    if (id[0] != '@') return NORN_E_UNSUPPORTED;
    if (entity_id_problem(bytes_of_text(id), LIMIT_ID_SIZE) != NULL) return NORN_E_INVALID;
    struct signal_node *signal = norn_alloc(ctx, sizeof *signal);
    char *id_copy = context_text(ctx, bytes_of_text(id));
    char *event_copy = context_text(ctx, bytes_of_text(event));
    if (signal == NULL || id_copy == NULL || event_copy == NULL) return NORN_E_NOMEM;
    signal->action.kind = ENTITY_ACTION_SIGNAL;
    signal->action.instance_id = bytes_of_text(id_copy);
    signal->action.name = bytes_of_text(event_copy);
    if (!context_copy(ctx, maybe_of(data), &signal->action.input)) return NORN_E_NOMEM;
    list_push_back(&b->signals, &signal->node);
    b->signals_n++;
    return NORN_OK;
}

norn_status norn_send_event(norn_context *ctx, const char *id, const char *event,
                            struct norn_bytes data)
{
    if (ctx->kind == CONTEXT_ACTIVITY) return NORN_E_UNSUPPORTED;
    if (!id_is_valid(id) || !name_is_valid(event)) return NORN_E_INVALID;
    norn_status status = payload_check(data);
    if (status != NORN_OK) return status;
    if (ctx->kind == CONTEXT_ENTITY) return send_signal(batch_of(ctx), id, event, data);
    status = orchestration_check(ctx);
    return status == NORN_OK ? orchestration_send(orchestration_of(ctx), id, event, data) : status;
}

/* ---- operations ---- */

/* EntityOperationSignaled and EntityOperationCalled: 2 operation, 4 input. */
static void read_operation(struct bytes event, struct bytes *operation, struct maybe *input)
{
    struct event_head head;
    struct pb_field f;

    if (event_peek(event, &head) != OK) return;
    struct pb_reader r = pb_reader_make(head.body);
    while (pb_next(&r, &f)) {
        if (f.number == 2) *operation = f.bytes;
        if (f.number == 4) input->has = pb_get_string_value(&f, &input->value);
    }
}

static bool put_failure(struct entity_batch *b, norn_status status, struct entity_result *result)
{
    struct norn_failure failure = context_failure(&b->context, status);
    struct buffer bytes;
    struct maybe copy;

    buffer_init(&bytes, &b->work->mem);
    failure_put(&bytes, &failure);
    bool is_put =
        !bytes.failed && context_copy(&b->context, maybe_some(buffer_view(&bytes)), &copy);
    buffer_release(&bytes);
    if (!is_put) return false;
    result->is_failure = true;
    result->failure = copy.value;
    return true;
}

static void undo(struct entity_batch *b, struct maybe state, uint32_t signals_n)
{
    b->state = state;
    while (b->signals_n > signals_n) {
        list_remove(list_last(&b->signals));
        b->signals_n--;
    }
}

static bool run_operation(struct entity_batch *b, const struct function *f, struct bytes event,
                          struct entity_result *result)
{
    struct bytes operation = BYTES_NONE;
    struct maybe input = MAYBE_NONE;
    struct maybe before = b->state;
    uint32_t signals_n = b->signals_n;
    struct norn_bytes output = NORN_NONE;

    read_operation(event, &operation, &input);
    const char *name = context_text(&b->context, operation);
    if (name == NULL || !context_copy(&b->context, input, &input)) return false;
    b->context.error = (struct norn_failure){0};
    norn_status status = f->entity(&b->context, name, bytes_for_user(input), &output, f->user);
    if (status == NORN_OK) status = result_check(&b->context, output);
    if (status == NORN_OK) return context_copy(&b->context, maybe_of(output), &result->output);
    undo(b, before, signals_n);
    return put_failure(b, status, result);
}

static bool put_signals(struct entity_batch *b, struct entity_answer *answer)
{
    if (b->signals_n == 0) return true;
    struct entity_action *actions = norn_alloc(&b->context, b->signals_n * sizeof *actions);
    uint32_t n = 0;
    if (actions == NULL) return false;
    for (struct list *node = list_first(&b->signals); node != NULL;
         node = list_next(&b->signals, node)) {
        actions[n++] = container_of(node, struct signal_node, node)->action;
    }
    answer->actions = actions;
    answer->actions_n = n;
    return true;
}

static bool begin(struct entity_batch *b, const struct function *f, struct link_work *work,
                  const struct journal_lines *lines)
{
    *b = (struct entity_batch){.work = work, .state = work->state};
    list_init(&b->signals);
    b->context.kind = CONTEXT_ENTITY;
    b->context.arena = &work->arena;
    b->context.lines = lines;
    b->context.now_ms = work->now_ms;
    b->context.here.id = context_text(&b->context, work->id);
    b->context.here.name = f->code.name;
    b->context.here.idempotency_key = "";
    return b->context.here.id != NULL && context_copy(&b->context, work->state, &b->state);
}

bool entity_run(const struct function *f, struct link_work *work, const struct journal_lines *lines)
{
    struct entity_batch batch;
    struct reader r = reader_make(work->fresh);
    struct bytes event;
    uint32_t operations_n = strings_count(work->fresh);
    uint32_t n = 0;

    if (!begin(&batch, f, work, lines)) return false;
    struct entity_result *results =
        norn_alloc(&batch.context, (operations_n + 1) * sizeof *results);
    if (results == NULL) return false;
    while (n < operations_n && strings_next(&r, &event)) {
        if (!run_operation(&batch, f, event, &results[n++])) return false;
    }
    work->entity = (struct entity_answer){
        .results = results,
        .results_n = n,
        .state = batch.state,
    };
    return put_signals(&batch, &work->entity);
}
