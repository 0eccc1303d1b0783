/* SPDX-License-Identifier: Apache-2.0
 *
 * Open steps of an instance for a client. They are copied while the engine's thread shows them, and
 * shown to the user on its own.
 */
#include "lib/client.h"
#include "lib/context.h"
#include "lib/memory.h"

struct step_row {
    struct list node;
    struct norn_step step;
};

struct step_rows {
    struct mem mem;
    struct arena arena;
    struct list rows;
};

static enum norn_process process_of(enum task_process process)
{
    switch (process) {
    case TASK_PENDING: return NORN_STEP_PENDING;
    case TASK_PROCESSING: return NORN_STEP_PROCESSING;
    case TASK_WAITING: return NORN_STEP_WAITING;
    case TASK_ERROR: return NORN_STEP_ERROR;
    }
    unreachable("no such state of a step");
}

static enum status keep_step(void *user, const struct task_view *view)
{
    struct step_rows *kept = user;
    struct step_row *row = arena_alloc_zero(&kept->arena, sizeof *row);
    const char *name = arena_text(&kept->arena, view->name);

    if (row == NULL || name == NULL) return E_NOMEM;
    row->step = (struct norn_step){
        .name = name,
        .process = process_of(view->process),
        .locked_by = view->locked_by,
        .complete_by_ms = view->complete_by_ms,
        .failures = view->failures,
        .retry_at_ms = view->retry_at_ms,
    };
    list_push_back(&kept->rows, &row->node);
    return OK;
}

norn_status norn_steps(norn_client *client, const char *id, norn_steps_fn *fn, void *user)
{
    struct step_rows kept;
    char why[LINK_WHY_SIZE];
    norn_status shown = NORN_OK;

    if (client == NULL) return NORN_E_INVALID;
    if (id == NULL || fn == NULL) return client_refuse(client, "the id or the function is NULL");
    memory_init(&kept.mem);
    arena_init(&kept.arena, &kept.mem, 512);
    list_init(&kept.rows);
    enum status status = link_steps(client->link, bytes_of_text(id), keep_step, &kept, why);
    norn_status answered = client_answer(client, status, why);
    for (struct list *n = list_first(&kept.rows); status == OK && shown == NORN_OK && n != NULL;
         n = list_next(&kept.rows, n)) {
        shown = fn(user, &container_of(n, struct step_row, node)->step);
    }
    arena_release(&kept.arena);
    mem_release(&kept.mem);
    return status == OK ? shown : answered;
}
