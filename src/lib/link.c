/* SPDX-License-Identifier: Apache-2.0
 *
 * What is the same for both backends: a call is checked here once, then handed on.
 */
#include "lib/link.h"

#include "base/clock.h"
#include "lib/memory.h"

#define WORK_ARENA_SIZE 512

static bool is_text(struct bytes text) { return text.len > 0 && bytes_is_utf8(text); }

enum status link_start(struct link *link, const struct link_start *start, char *id, char *why)
{
    char own[LINK_ID_SIZE];

    why[0] = '\0';
    if (!is_text(start->name) || start->id.len >= LINK_ID_SIZE) return E_INVALID;
    return link->ops->start(link, start, id != NULL ? id : own, why);
}

void link_start_many(struct link *link, struct link_job *jobs, size_t n)
{
    assert(n <= LINK_JOBS_MAX);
    for (size_t i = 0; i < n; i++) {
        const struct link_start *start = &jobs[i].start;
        if (jobs[i].status != OK) continue;
        if (!is_text(start->name) || start->id.len >= LINK_ID_SIZE) jobs[i].status = E_INVALID;
    }
    link->ops->start_many(link, jobs, n);
}

void link_wait_many(struct link *link, struct link_job *jobs, size_t n, int64_t wait_ms)
{
    assert(n <= LINK_JOBS_MAX);
    for (size_t i = 0; i < n; i++) {
        if (jobs[i].status == OK && !is_text(bytes_of_text(jobs[i].id))) jobs[i].status = E_INVALID;
    }
    link->ops->wait_many(link, jobs, n, wait_ms);
}

void link_start_each(struct link *link, struct link_job *jobs, size_t n)
{
    char why[LINK_WHY_SIZE];

    for (size_t i = 0; i < n; i++) {
        if (jobs[i].status != OK) continue;
        jobs[i].status = link_start(link, &jobs[i].start, jobs[i].id, why);
    }
}

static enum status check_ended(void *user, const struct instance_view *view)
{
    (void)user;
    return view->is_terminal ? OK : E_TIMEOUT;
}

void link_wait_each(struct link *link, struct link_job *jobs, size_t n, int64_t wait_ms)
{
    int64_t end_ms = clock_mono_ns() / NS_PER_MS + wait_ms;
    char why[LINK_WHY_SIZE];

    for (size_t i = 0; i < n; i++) {
        if (jobs[i].status != OK) continue;
        /* one that used up the time takes nothing from those after it: they are looked at */
        int64_t left_ms = wait_ms < 0 ? -1 : end_ms - clock_mono_ns() / NS_PER_MS;
        if (wait_ms >= 0 && left_ms < 0) left_ms = 0;
        jobs[i].status = link_get(link, bytes_of_text(jobs[i].id), left_ms, check_ended, NULL, why);
    }
}

enum status link_get(struct link *link, struct bytes id, int64_t wait_ms, link_view_fn *fn,
                     void *user, char *why)
{
    why[0] = '\0';
    if (!is_text(id)) return E_INVALID;
    return link->ops->get(link, id, wait_ms, fn, user, why);
}

enum status link_raise(struct link *link, struct bytes id, struct bytes event, struct maybe data,
                       char *why)
{
    why[0] = '\0';
    if (!is_text(id) || !is_text(event)) return E_INVALID;
    return link->ops->raise(link, id, event, data, why);
}

enum status link_control(struct link *link, struct bytes id, enum link_verb verb, struct maybe data,
                         char *why)
{
    why[0] = '\0';
    if (!is_text(id)) return E_INVALID;
    return link->ops->control(link, id, verb, data, why);
}

enum status link_history(struct link *link, struct bytes id, link_events_fn *fn, void *user,
                         char *why)
{
    why[0] = '\0';
    if (!is_text(id)) return E_INVALID;
    return link->ops->history(link, id, fn, user, why);
}

enum status link_steps(struct link *link, struct bytes id, link_step_fn *fn, void *user, char *why)
{
    why[0] = '\0';
    if (!is_text(id)) return E_INVALID;
    return link->ops->steps(link, id, fn, user, why);
}

enum status link_list(struct link *link, const struct request_query *query, struct buffer *cursor,
                      link_view_fn *fn, void *user, char *why)
{
    why[0] = '\0';
    return link->ops->list(link, query, cursor, fn, user, why);
}

void link_close(struct link *link) { link->ops->close(link); }

enum status link_attach(struct link *link, const struct link_worker *worker,
                        struct link_port **port)
{
    for (size_t kind = 0; kind < WORK_KINDS_N; kind++) {
        assert(worker->credits[kind] <= worker->credits_max[kind]);
    }
    enum status status = link->ops->attach(link, worker, port);
    if (status == OK) {
        assert((*port)->link == link);
        assert((*port)->worker == worker);
    }
    return status;
}

void link_detach(struct link_port *port) { port->link->ops->detach(port); }
void link_port_free(struct link_port *port) { port->link->ops->free_port(port); }

void link_credit(struct link_port *port, enum work_kind kind, uint32_t n)
{
    if (n > 0) port->link->ops->credit(port, kind, n);
}

void link_answer(struct link_work *work)
{
    assert(!list_is_linked(&work->node));
    work->port->link->ops->answer(work);
}

void link_abandon(struct link_work *work, bool is_unsent, const char *reason)
{
    assert(!list_is_linked(&work->node));
    work->port->link->ops->abandon(work, is_unsent, reason);
}

void link_fetch(struct link_work *work)
{
    assert(!list_is_linked(&work->node));
    assert(work->kind == WORK_TURN);
    assert(!work->has_past);
    assert(work->history_n > 0);
    work->port->link->ops->fetch(work);
}

void link_flush(struct link_port *port) { port->link->ops->flush(port); }

enum status link_renew(struct link_work *work, int64_t extend_ms)
{
    assert(work->kind == WORK_TASK);
    return work->port->link->ops->renew(work, extend_ms);
}

void link_work_init(struct link_work *work)
{
    *work = (struct link_work){0};
    memory_init(&work->mem);
    arena_init(&work->arena, &work->mem, WORK_ARENA_SIZE);
}

void link_work_release(struct link_work *work)
{
    arena_release(&work->arena);
    mem_release(&work->mem);
}

void link_work_reset(struct link_work *work)
{
    arena_reset(&work->arena); /* first: it may give memory back */
    struct mem mem = work->mem;
    struct arena arena = work->arena;
    *work = (struct link_work){.mem = mem, .arena = arena};
    work->arena.mem = &work->mem;
}
