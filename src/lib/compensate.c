/* SPDX-License-Identifier: Apache-2.0
 *
 * Undoing. What norn_compensate() registers is part of the program's state and durable in the same
 * way: replay registers it again. When the function fails, the registered activities are called in
 * the reverse order, one after the other, on the same coroutine, so that every one of them is in
 * the history. One that fails for good is reported and does not stop the others; the failure of the
 * instance stays the one that began it. (S19)
 */
#include "core/replies.h"
#include "lib/checks.h"
#include "lib/orchestration.h"

struct compensation {
    struct list node;
    const char *activity;
    struct maybe input;
    struct norn_call_options options;
    struct norn_retry retry;
};

/* Of what was read, what it points to. */
static bool copy_options(norn_context *ctx, struct compensation *c)
{
    if (c->options.version != NULL) {
        c->options.version = context_text(ctx, bytes_of_text(c->options.version));
        if (c->options.version == NULL) return false;
    }
    c->options.retry = &c->retry;
    size_t n = 0;
    while (c->retry.final_types != NULL && c->retry.final_types[n] != NULL) n++;
    if (n == 0) return true;
    const char **types = norn_alloc(ctx, (n + 1) * sizeof *types);
    if (types == NULL) return false;
    for (size_t i = 0; i < n; i++) {
        types[i] = context_text(ctx, bytes_of_text(c->retry.final_types[i]));
        if (types[i] == NULL) return false;
    }
    c->retry.final_types = types;
    return true;
}

norn_status norn_compensate(norn_context *ctx, const char *activity, struct norn_bytes input,
                            const struct norn_call_options *options)
{
    norn_status status = orchestration_check(ctx);

    if (status != NORN_OK) return status;
    if (!name_is_valid(activity)) return NORN_E_INVALID;
    if ((status = payload_check(input)) != NORN_OK) return status;
    struct compensation *c = norn_alloc(ctx, sizeof *c);
    if (c == NULL) return NORN_E_NOMEM;
    if (!call_options_read(options, &c->options, &c->retry)) return NORN_E_INVALID;
    c->options.size = sizeof c->options;
    c->retry.size = sizeof c->retry;
    c->activity = context_text(ctx, bytes_of_text(activity));
    if (c->activity == NULL || !context_copy(ctx, maybe_of(input), &c->input) ||
        !copy_options(ctx, c)) {
        return NORN_E_NOMEM;
    }
    list_push_front(&orchestration_of(ctx)->compensations, &c->node);
    return NORN_OK;
}

void compensate(struct orchestration *o)
{
    norn_context *ctx = &o->context;
    struct norn_failure original = ctx->error;
    struct list *node;
    bool is_undone = !list_is_empty(&o->compensations);

    o->is_undoing = true;
    while ((node = list_pop_front(&o->compensations)) != NULL) {
        const struct compensation *c = container_of(node, struct compensation, node);
        norn_status status =
            norn_call(ctx, c->activity, bytes_for_user(c->input), &c->options, NULL);
        if (status != NORN_OK) is_undone = false;
        if (status == NORN_OK || o->is_replaying) continue;
        struct norn_failure failure = context_failure(ctx, status);
        lines_write(ctx->lines, "instance %s: compensation '%s' failed: %s: %s", ctx->here.id,
                    c->activity, failure.type, failure.message);
    }
    ctx->error = original;
    /* said in the way that SDKs in every language can: the reply channel looks for it */
    if (is_undone) o->custom_status = maybe_some(BYTES_LITERAL(REPLY_COMPENSATED));
}
