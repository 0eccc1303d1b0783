/* SPDX-License-Identifier: Apache-2.0
 *
 * What an orchestration answers to a turn: its decisions, and its end. All bytes are copied into
 * the work's memory, because the orchestration may be gone before the engine has read them.
 */
#include "lib/orchestration.h"

#include "base/mem.h"

static bool copy(struct arena *arena, struct bytes *value)
{
    struct bytes copied = arena_copy(arena, *value);

    if (copied.len != value->len) return false;
    *value = copied;
    return true;
}

static bool copy_action(struct arena *arena, struct action *action)
{
    return copy(arena, &action->name) && copy(arena, &action->version.value) &&
           copy(arena, &action->input.value) && copy(arena, &action->instance_id) &&
           copy(arena, &action->tags) && copy(arena, &action->entity_body) &&
           copy(arena, &action->failure.value) && copy(arena, &action->carryover);
}

/* Events that nobody waited for go with it into the next execution. */
static void put_carryover(const struct orchestration *o, struct buffer *out)
{
    for (struct list *n = list_first(&o->unread); n != NULL; n = list_next(&o->unread, n)) {
        strings_add(out, container_of(n, struct unread_event, node)->event);
    }
}

static void complete(struct orchestration *o, struct buffer *bytes, struct action *action)
{
    *action = (struct action){.kind = ACTION_COMPLETE, .id = o->id_next};
    if (o->is_different || o->status != NORN_OK) {
        struct norn_failure failure =
            context_failure(&o->context, o->is_different ? NORN_E_FAILED : o->status);
        action->status = STATUS_FAILED;
        failure_put(bytes, &failure);
        action->failure = maybe_some(buffer_view(bytes));
    } else if (o->continues) {
        action->status = STATUS_CONTINUED_AS_NEW;
        action->input = o->next_input;
        put_carryover(o, bytes);
        action->carryover = buffer_view(bytes);
    } else {
        action->status = STATUS_COMPLETED;
        action->input = maybe_of(o->output);
    }
}

static enum status put_actions(struct orchestration *o, struct link_work *work, bool has_ended)
{
    uint32_t n = o->is_different ? 0 : o->actions_n;
    struct action *actions = NULL;
    uint32_t at = 0;

    if (n + has_ended == 0) return OK;
    actions = arena_alloc(&work->arena, (n + has_ended) * sizeof *actions);
    if (actions == NULL) return E_NOMEM;
    for (struct list *node = list_first(&o->actions); node != NULL && at < n;
         node = list_next(&o->actions, node)) {
        actions[at] = container_of(node, struct decision, node)->action;
        if (!copy_action(&work->arena, &actions[at++])) return E_NOMEM;
    }
    assert(at == n);
    if (has_ended) {
        struct buffer bytes;
        buffer_init(&bytes, &work->mem);
        complete(o, &bytes, &actions[at]);
        bool is_done = !bytes.failed && copy_action(&work->arena, &actions[at]);
        buffer_release(&bytes);
        if (!is_done) return E_NOMEM;
    }
    work->answer.actions = actions;
    work->answer.actions_n = n + has_ended;
    return OK;
}

enum status answer_write(struct orchestration *o, struct link_work *work, bool *has_ended)
{
    bool is_over = o->is_ended || o->is_different;

    work->answer = (struct orchestrator_answer){.custom_status = o->custom_status};
    if (!copy(&work->arena, &work->answer.custom_status.value)) return E_NOMEM;
    enum status status = put_actions(o, work, is_over);
    if (status != OK) return status;
    list_init(&o->actions);
    o->actions_n = 0;
    *has_ended = is_over;
    return OK;
}
