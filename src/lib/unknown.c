/* SPDX-License-Identifier: Apache-2.0
 *
 * See unknown.h.
 */
#include "lib/unknown.h"

#include "base/nearest.h"

static bool was_told(const struct unknown *u, struct bytes name)
{
    for (size_t n = 0; n < u->n; n++) {
        if (bytes_equal(bytes_of_text(u->told[n]), name)) return true;
    }
    return false;
}

static void tell(struct unknown *u, const struct registry *registry, enum work_kind kind,
                 const struct journal_lines *lines, struct bytes name)
{
    struct nearest nearest;

    if (u->n == UNKNOWN_N_MAX || name.len > LIMIT_NAME_SIZE || was_told(u, name)) return;
    memcpy(u->told[u->n++], name.ptr, name.len);
    nearest_init(&nearest, name);
    for (size_t n = 0; n < registry->names_n[kind]; n++) {
        nearest_offer(&nearest, registry->names[kind][n].name);
    }
    lines_write(
        lines,
        "%s '%.*s' is called, and this worker has none: it waits for a worker that has%s%.*s%s",
        kind == WORK_TASK ? "activity" : "orchestrator", (int)name.len, (const char *)name.ptr,
        nearest.best.len > 0 ? " (did you mean '" : "", (int)nearest.best.len,
        (const char *)nearest.best.ptr, nearest.best.len > 0 ? "'?)" : "");
}

void unknown_look(struct unknown *u, const struct registry *registry,
                  const struct journal_lines *lines, const struct orchestrator_answer *answer)
{
    for (uint32_t n = 0; n < answer->actions_n; n++) {
        const struct action *action = &answer->actions[n];
        if (action->kind != ACTION_SCHEDULE_TASK && action->kind != ACTION_CREATE_CHILD) continue;
        enum work_kind kind = action->kind == ACTION_SCHEDULE_TASK ? WORK_TASK : WORK_TURN;
        if (registry->names_n[kind] == 0) continue;
        if (registry_find(registry, kind, action->name, action->version) == NULL) {
            tell(u, registry, kind, lines, action->name);
        }
    }
}
