/* SPDX-License-Identifier: Apache-2.0
 *
 * Trying again what is parked. The engine is asked about one step at a time; which are open is in
 * the history, whatever their number.
 */
#include "lib/link.h"
#include "lib/memory.h"

/* The ids of steps that were begun and have not ended. */
struct open_steps {
    struct buffer ids;
    struct mem mem;
};

#define STEP_ENDED UINT32_MAX

static enum status note_steps(void *user, struct bytes events)
{
    struct open_steps *open = user;
    struct reader r = reader_make(events);
    struct event_head head;
    struct bytes event;

    while (strings_next(&r, &event)) {
        if (event_peek(event, &head) != OK) continue;
        if (head.kind == EVENT_TASK_SCHEDULED) buffer_u32(&open->ids, (uint32_t)head.id);
        if (head.kind != EVENT_TASK_COMPLETED && head.kind != EVENT_TASK_FAILED) continue;
        for (size_t at = 0; at + 4 <= open->ids.len; at += 4) {
            if (load_u32(open->ids.ptr + at) == (uint32_t)head.ref) {
                store_u32(open->ids.ptr + at, STEP_ENDED);
            }
        }
    }
    return open->ids.failed ? E_NOMEM : OK;
}

enum status link_resubmit(struct link *link, struct bytes id, link_resubmit_fn *one, void *user,
                          char *why)
{
    struct open_steps open;
    char ignored[LINK_WHY_SIZE];

    enum status answer = one(link, user, -1, why);
    if (answer != E_PRECONDITION) return answer;
    memory_init(&open.mem);
    buffer_init(&open.ids, &open.mem);
    enum status status = link->ops->history(link, id, note_steps, &open, ignored);
    for (size_t at = 0; status == OK && at + 4 <= open.ids.len; at += 4) {
        uint32_t task_id = load_u32(open.ids.ptr + at);
        if (task_id == STEP_ENDED) continue;
        ignored[0] = '\0';
        if (one(link, user, (int32_t)task_id, ignored) == OK) answer = OK;
    }
    buffer_release(&open.ids);
    mem_release(&open.mem);
    return status == OK ? answer : status;
}
