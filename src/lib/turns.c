/* SPDX-License-Identifier: Apache-2.0
 *
 * See turns.h.
 */
#define _GNU_SOURCE /* pthread_setname_np */
#include "lib/turns.h"

#include "base/clock.h"
#include "base/prefetch.h"
#include "lib/blocked.h"
#include "lib/memory.h"
#include "lib/running.h"

#include <stdatomic.h>

/* So many answers wait for each other at most. */
#define FLUSH_N 256

static void give_back(struct link_work *work, const char *reason)
{
    link_abandon(work, false, reason);
}

/* The orchestration that this turn goes on with; NULL: the work has been dealt with. */
static struct orchestration *find_or_make(struct turns *t, struct link_work *work)
{
    struct orchestration *o = hot_take(&t->hot, work);

    if (o != NULL) return o;
    if (work->history_n > 0 && !work->has_past) {
        link_fetch(work);
        return NULL;
    }
    const struct function *f = registry_find(t->registry, WORK_TURN, work->name, work->version);
    if (f == NULL) {
        give_back(work, "this worker has no orchestrator of that name and version");
        return NULL;
    }
    o = orchestration_new(&t->env, &f->code, work);
    if (o == NULL) give_back(work, "the worker is out of memory");
    if (o != NULL && work->history_n > 0) atomic_fetch_add(&t->replays_n, 1);
    return o;
}

/* The turn comes again at once, perhaps many times: one line a second is enough. */
static void tell_no_memory(struct turns *t, const struct orchestration *o, int64_t now_ns)
{
    if (t->no_memory_ns != 0 && now_ns - t->no_memory_ns < NS_PER_S) return;
    t->no_memory_ns = now_ns;
    lines_write(&t->lines, "instance %s: no memory for a turn of '%s'; it is tried again",
                o->context.here.id, o->code->name);
}

/* An orchestrator that needs more than there is ends the process: better to hear of it before. */
static void watch_stack(struct turns *t)
{
    size_t size = coroutine_stack_size(t->stack);
    size_t used = coroutine_stack_used_max(t->stack);

    if (t->is_stack_told || used < size / 4 * 3) return;
    t->is_stack_told = true;
    lines_write(&t->lines,
                "orchestrators have used %zu of the %zu bytes of their stack: "
                "norn_worker_options.stack_size can be more",
                used, size);
}

/* What the next turns need is fetched while this one runs: their works come from another core, and
 * the orchestrations were last used a while ago. Of the third the work, of the second what that
 * points to, of the first its orchestration. */
static void look_ahead(struct turns *t, const struct list *taken)
{
    const struct list *node = list_first(taken);

    if (node == NULL) return;
    hot_expect(&t->hot, container_of(node, struct link_work, node));
    node = list_next(taken, node);
    if (node == NULL) return;
    const struct link_work *work = container_of(node, struct link_work, node);
    __builtin_prefetch(work->id.ptr);
    __builtin_prefetch(work->fresh.ptr);
    node = list_next(taken, node);
    if (node == NULL) return;
    prefetch(container_of(node, struct link_work, node), sizeof *work);
}

/* `taken`: the works that come after it. */
static void run_turn(struct turns *t, struct link_work *work, const struct list *taken,
                     struct blocked_probe *probe)
{
    uint64_t events_n = 0;
    bool has_ended = false;

    if (work->status != OK) {
        hot_expect_none(&t->hot);
        give_back(work, work->status == E_NOT_FOUND ? "the instance has moved on"
                                                    : status_text(work->status));
        return;
    }
    if (work->was_lost) {
        give_back(work, RUNNING_LOST);
        return;
    }
    struct orchestration *o = find_or_make(t, work);
    look_ahead(t, taken);
    if (o == NULL) return;
    struct running_slot *slot = running_begin(work->running, work->ref);
    int64_t began_ns = clock_mono_ns();
    atomic_store_explicit(&t->began_ns, began_ns, memory_order_relaxed);
    atomic_store_explicit(&t->code_now, o->code, memory_order_release);
    enum status status = orchestration_turn(o, work, &events_n, &has_ended);
    atomic_store_explicit(&t->code_now, NULL, memory_order_release);
    running_end(slot);
    blocked_end(probe, o, began_ns);
    hot_fetch(&t->hot);
    atomic_fetch_add_explicit(&t->turns_n, 1, memory_order_relaxed);
    watch_stack(t);
    uint64_t base_next = link_next_base(work, events_n);
    if (status != OK) {
        tell_no_memory(t, o, began_ns);
        give_back(work, "the worker is out of memory");
    } else {
        unknown_look(&t->unknown, t->registry, &t->lines, &work->answer);
        link_answer(work);
    }
    if (status == OK && !has_ended)
        hot_put(&t->hot, o, base_next);
    else
        orchestration_free(o);
}

static void *run(void *user)
{
    struct turns *t = user;
    struct blocked_probe probe;
    struct list taken;

    (void)pthread_setname_np(pthread_self(), "norn-turns");
    list_init(&taken);
    while (!atomic_load(&t->is_halting)) {
        struct link_port *port = NULL;
        struct list *node;
        unsigned n = 0;
        queue_take_all(&t->queue, &taken, -1);
        if (atomic_load(&t->is_halting)) break;
        blocked_begin(&probe); /* once for many turns: what a few short ones add does not matter */
        while ((node = list_pop_front(&taken)) != NULL) {
            struct link_work *work = container_of(node, struct link_work, node);
            port = work->port;
            run_turn(t, work, &taken, &probe);
            if (++n % FLUSH_N == 0) link_flush(port);
        }
        if (port != NULL) link_flush(port);
    }
    struct list *node;
    while ((node = list_pop_front(&taken)) != NULL) {
        link_abandon(container_of(node, struct link_work, node), true, "the worker is closing");
    }
    hot_release(&t->hot);
    orchestration_env_release(&t->env);
    return NULL;
}

enum status turns_start(struct turns *t, const struct registry *registry,
                        const struct journal_lines *lines, size_t stack_size, size_t hot_max)
{
    t->registry = registry;
    t->lines = *lines;
    memory_init(&t->mem);
    enum status status = coroutine_stack_open(&t->mem, stack_size, &t->stack);
    if (status != OK) return status;
    t->env = (struct orchestration_env){.mem = &t->mem, .stack = t->stack, .lines = &t->lines};
    hot_init(&t->hot, &t->mem, hot_max);
    queue_init(&t->queue, SIZE_MAX); /* no more than there is credit for */
    if (pthread_create(&t->thread, NULL, run, t) == 0) {
        t->is_running = true;
        return OK;
    }
    queue_release(&t->queue);
    hot_release(&t->hot);
    coroutine_stack_close(t->stack);
    return E_UNAVAILABLE;
}

void turns_halt(struct turns *t)
{
    if (!t->is_running) return;
    atomic_store(&t->is_halting, true);
    queue_wake(&t->queue);
    (void)pthread_join(t->thread, NULL);
}

void turns_stop(struct turns *t)
{
    struct list left;
    struct list *node;

    if (!t->is_running) return;
    assert(atomic_load(&t->is_halting));
    list_init(&left);
    queue_take_all(&t->queue, &left, 0);
    while ((node = list_pop_front(&left)) != NULL) {
        link_abandon(container_of(node, struct link_work, node), true, "the worker is closing");
    }
    queue_release(&t->queue);
    coroutine_stack_close(t->stack);
    mem_release(&t->mem);
    t->is_running = false;
}

/* No more than there is credit for, and nothing is delivered to a worker that has gone. */
void turns_push(struct turns *t, struct link_work *work)
{
    bool is_taken = queue_push_quietly(&t->queue, &work->node);
    assert(is_taken);
}

void turns_wake(struct turns *t) { queue_wake(&t->queue); }
