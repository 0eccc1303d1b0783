/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine in this process, for workers. A port has a seat at every shard. A seat's pieces of
 * work are made when it is: as many as there can be credit for, so that what the engine gives can
 * always at least be given back, without memory too. They are taken and returned on the host's
 * thread alone, in deliver() and in the done() of their answers, so their pool needs no lock.
 */
#include "lib/link_engine.h"

#include "base/clock.h"
#include "base/prefetch.h"
#include "lib/memory.h"
#include "lib/running.h"

#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

/* So much memory may be held by a piece of work that is not out. */
#define UNUSED_SIZE_MAX ((size_t)64 << 10)
/* The part of a piece of work that is written when it is delivered. */
#define FILLED_SIZE offsetof(struct link_work, answer)

struct seat;

struct engine_work {
    struct link_work work; /* first */
    struct list unused;    /* in seat.unused */
    struct seat *seat;
    struct work_ref ref;
    struct request request;
    uint8_t key[LIMIT_HUB_SIZE + 1 + LIMIT_ID_SIZE];
    char execution[EXECUTION_TEXT_SIZE];
    char reason[LIMIT_REASON_SIZE];
};

/* All but the atomics belongs to the shard's thread. */
struct seat {
    struct engine_port *port;
    uint32_t shard;
    struct worker worker;
    struct engine_work *works; /* works_n; the first made_n are initialised */
    size_t works_n;
    size_t made_n;
    struct list unused;
    struct request credit;
    bool is_crediting;
    uint32_t back[WORK_KINDS_N];         /* credits that are to be given back */
    _Atomic uint32_t more[WORK_KINDS_N]; /* credits that link_credit() added */
    _Atomic bool has_delivered;
    _Atomic size_t out_n;      /* pieces of work that are not in the pool */
    _Atomic size_t fetching_n; /* of these, whose history is being fetched */
};

struct engine_port {
    struct link_port port; /* first */
    struct mem mem;        /* of the thread that attaches and frees */
    struct engine_link *link;
    struct list node; /* in bell.ports */
    struct worker_filter *filters[WORK_KINDS_N];
    struct seat *seats;
    uint32_t seats_n;
};

static struct engine_port *port_of(struct link_port *port)
{
    return container_of(port, struct engine_port, port);
}

static struct engine_work *engine_work_of(struct link_work *work)
{
    return container_of(work, struct engine_work, work);
}

static void sleep_ms(long ms)
{
    struct timespec time = {.tv_nsec = ms * NS_PER_MS};

    (void)nanosleep(&time, NULL);
}

/* ---- being told ---- */

void engine_port_told(struct list *node)
{
    struct engine_port *p = container_of(node, struct engine_port, node);
    bool has_delivered = false;

    for (uint32_t n = 0; n < p->seats_n; n++) {
        if (atomic_exchange(&p->seats[n].has_delivered, false)) has_delivered = true;
    }
    if (has_delivered) p->port.worker->delivered(p->port.worker->user);
}

/* ---- credit: on the shard's thread ---- */

static uint32_t *credit_of(struct worker *worker, enum work_kind kind)
{
    switch (kind) {
    case WORK_TURN: return &worker->turns_credit;
    case WORK_TASK: return &worker->tasks_credit;
    case WORK_ENTITY: return &worker->entities_credit;
    }
    unreachable("no such kind of work");
}

static void credit_done(struct request *request);

static void credit_post(struct seat *seat)
{
    if (seat->is_crediting) return;
    for (size_t kind = 0; kind < WORK_KINDS_N; kind++) {
        seat->back[kind] += atomic_exchange(&seat->more[kind], 0);
    }
    if (seat->back[WORK_TURN] + seat->back[WORK_TASK] + seat->back[WORK_ENTITY] == 0) return;
    seat->credit =
        (struct request){.kind = REQUEST_WORKER_CREDIT, .done = credit_done, .user = seat};
    seat->credit.worker.worker = &seat->worker;
    seat->credit.worker.turns = seat->back[WORK_TURN];
    seat->credit.worker.tasks = seat->back[WORK_TASK];
    seat->credit.worker.entities = seat->back[WORK_ENTITY];
    if (!engine_post_to(seat->port->link->engine, seat->shard, &seat->credit)) return;
    seat->is_crediting = true;
    memset(seat->back, 0, sizeof seat->back);
}

static void credit_done(struct request *request)
{
    struct seat *seat = request->user;

    seat->is_crediting = false;
    credit_post(seat);
}

/* A worker that has credit left is among the hungry anyway: it is enough to count. */
static void credit_back(struct seat *seat, enum work_kind kind)
{
    uint32_t *credit = credit_of(&seat->worker, kind);

    if (*credit > 0) {
        (*credit)++;
        return;
    }
    seat->back[kind]++;
    credit_post(seat);
}

/* ---- work: on the shard's thread ---- */

/* Only this thread changes it: no need for an instruction that locks the bus. */
static void out_n_set(struct seat *seat, size_t n)
{
    atomic_store_explicit(&seat->out_n, n, memory_order_release);
}

static size_t out_n_get(const struct seat *seat)
{
    return atomic_load_explicit(&seat->out_n, memory_order_relaxed);
}

static struct engine_work *work_take(struct seat *seat)
{
    struct list *node = list_pop_front(&seat->unused);

    out_n_set(seat, out_n_get(seat) + 1);
    if (node != NULL) return container_of(node, struct engine_work, unused);
    assert(seat->made_n < seat->works_n); /* no more than there is credit for */
    struct engine_work *w = &seat->works[seat->made_n++];
    link_work_init(&w->work);
    list_node_init(&w->unused);
    w->request = (struct request){0};
    w->seat = seat;
    return w;
}

/* The answer was taken, whatever came of it, durable or not. The work is cleared when it is used
 * again: most of it was last written by another core, and to fetch it for writing here would cost
 * more than all the rest. Only what holds much memory lets it go. */
static void work_done(struct request *request)
{
    struct engine_work *w = request->user;
    struct seat *seat = w->seat;

    if (w->work.arena.size > UNUSED_SIZE_MAX) link_work_reset(&w->work);
    list_push_front(&seat->unused, &w->unused);
    if (!w->work.is_credit_kept) credit_back(seat, w->ref.kind);
    out_n_set(seat, out_n_get(seat) - 1);
}

static bool copy(struct arena *arena, struct bytes value, struct bytes *out)
{
    *out = arena_copy(arena, value);
    return out->len == value.len;
}

static bool copy_maybe(struct arena *arena, struct maybe value, struct maybe *out)
{
    out->has = value.has;
    return copy(arena, value.value, &out->value);
}

static enum status fill_task(struct link_work *work, const struct effect_work *given)
{
    work->task_id = given->ref.task_id;
    work->failures = given->ref.attempt;
    work->input = MAYBE_NONE; /* of what had this memory before, as the others */
    work->tags = BYTES_NONE;
    work->complete_by_ms = given->complete_by_ms;
    work->result = MAYBE_NONE;
    work->failure = MAYBE_NONE;
    return copy(&work->arena, given->scheduled, &work->scheduled) ? OK : E_NOMEM;
}

static enum status fill_turn(struct link_work *work, const struct effect_work *given)
{
    work->has_past = given->history_n == 0;
    work->past = BYTES_NONE;
    work->is_past_filtered = false;
    work->history_n = given->history_n;
    work->base = given->ref.base;
    return copy(&work->arena, given->fresh, &work->fresh) ? OK : E_NOMEM;
}

static enum status fill_entity(struct link_work *work, const struct effect_work *given)
{
    work->entity = (struct entity_answer){0};
    if (!copy(&work->arena, given->fresh, &work->fresh)) return E_NOMEM;
    return copy_maybe(&work->arena, given->state, &work->state) ? OK : E_NOMEM;
}

/* All that work of its kind has is set, and nothing else: see work_done(). */
static enum status fill(struct link_work *work, const struct effect_work *given)
{
    struct arena *arena = &work->arena;

    arena_reset(arena);
    work->kind = given->ref.kind;
    work->now_ms = 0;
    work->is_credit_kept = false;
    memcpy(work->execution_id, given->ref.execution_id, EXECUTION_ID_SIZE);
    if (!copy(arena, given->name, &work->name)) return E_NOMEM;
    if (!copy_maybe(arena, given->version, &work->version)) return E_NOMEM;
    switch (given->ref.kind) {
    case WORK_TURN: return fill_turn(work, given);
    case WORK_TASK: return fill_task(work, given);
    case WORK_ENTITY: return fill_entity(work, given);
    }
    unreachable("no such kind of work");
}

/* What the next delivery will write: it comes soon, and is with another core now. */
static void look_ahead(const struct seat *seat)
{
    const struct list *node = list_first(&seat->unused);

    if (node == NULL) return;
    prefetch(container_of(node, struct engine_work, unused), FILLED_SIZE);
}

static void deliver(struct worker *worker, const struct effect_work *given)
{
    struct seat *seat = worker->user;
    struct engine_work *w = work_take(seat);
    const struct link_worker *to = seat->port->port.worker;

    assert(given->ref.key.len <= sizeof w->key);
    memcpy(w->key, given->ref.key.ptr, given->ref.key.len);
    w->ref = given->ref;
    w->ref.key = bytes_make(w->key, given->ref.key.len);
    w->work.port = &seat->port->port;
    w->work.id = key_id(w->ref.key);
    w->work.status = fill(&w->work, given);
    look_ahead(seat);
    w->work.running = seat->port->link->bell->running;
    w->work.ref = &w->ref;
    w->work.was_lost = w->work.running != NULL && running_was_lost(w->work.running, &w->ref);
    to->deliver(to->user, &w->work);
    atomic_store_explicit(&seat->has_delivered, true, memory_order_release);
}

/* ---- what the worker answers: any thread ---- */

/* The engine's queue is full of what clients ask: this has the right of way, as soon as there is
 * any. */
static void post(struct engine_work *w)
{
    while (!engine_post_to_quietly(w->seat->port->link->engine, w->seat->shard, &w->request)) {
        sleep_ms(1);
    }
}

static void request_begin(struct engine_work *w, enum request_kind kind, request_done_fn *done)
{
    struct request *request = &w->request;

    /* only what is asked: clearing all of it would cost more than the rest */
    request->kind = kind;
    request->is_untold = done == work_done; /* which looks at nothing of the answer */
    request->done = done;
    request->user = w;
    request->key = w->ref.key;
    request->status = OK;
    request->text[0] = '\0';
}

void engine_work_answer(struct link_work *work)
{
    static const enum request_kind kinds[] = {
        [WORK_TURN] = REQUEST_TURN_DONE,
        [WORK_TASK] = REQUEST_TASK_DONE,
        [WORK_ENTITY] = REQUEST_ENTITY_DONE,
    };
    struct engine_work *w = engine_work_of(work);

    request_begin(w, kinds[w->ref.kind], work_done);
    w->request.worker_done = (struct input_worker_done){.has_ref = true, .ref = w->ref};
    switch (w->ref.kind) {
    case WORK_TURN: w->request.worker_done.answer = &work->answer; break;
    case WORK_TASK:
        w->request.worker_done.result = work->result;
        w->request.worker_done.failure = work->failure;
        break;
    case WORK_ENTITY: w->request.worker_done.entity = &work->entity; break;
    }
    post(w);
}

void engine_work_abandon(struct link_work *work, bool is_unsent, const char *reason)
{
    struct engine_work *w = engine_work_of(work);

    request_begin(w, REQUEST_ABANDON, work_done);
    (void)snprintf(w->reason, sizeof w->reason, "%s", reason);
    memset(&w->request.lease, 0, sizeof w->request.lease); /* an earlier answer was there */
    w->request.lease.ref = w->ref;
    w->request.lease.is_unsent = is_unsent;
    w->request.lease.reason = bytes_of_text(w->reason);
    post(w);
}

static void fetched(struct request *request)
{
    struct engine_work *w = request->user;
    struct link_work *work = &w->work;
    const struct link_worker *to = work->port->worker;

    work->status = request->status;
    if (request->status == OK && !copy(&work->arena, request->events, &work->past)) {
        work->status = E_NOMEM;
    }
    work->has_past = work->status == OK;
    to->deliver(to->user, work);
    atomic_store(&w->seat->has_delivered, true);
    atomic_fetch_sub(&w->seat->fetching_n, 1);
}

void engine_work_fetch(struct link_work *work)
{
    struct engine_work *w = engine_work_of(work);

    atomic_fetch_add(&w->seat->fetching_n, 1);
    request_begin(w, REQUEST_HISTORY, fetched);
    execution_id_text(w->ref.execution_id, w->execution);
    memset(&w->request.history, 0, sizeof w->request.history); /* likewise */
    w->request.history.execution_id = maybe_some(bytes_make(w->execution, sizeof w->execution));
    post(w);
}

enum status engine_work_renew(struct link_work *work, int64_t extend_ms)
{
    struct engine_work *w = engine_work_of(work);
    struct request request = {.kind = REQUEST_RENEW, .key = w->ref.key};

    request.lease.ref = w->ref;
    request.lease.extend_ms = extend_ms;
    return engine_call_to(w->seat->port->link->engine, w->seat->shard, &request);
}

/* ---- ports ---- */

void engine_port_flush(struct link_port *port) { engine_wake(port_of(port)->link->engine); }

/* Picked up by the shard's own request that gives credit; a wake of it that has nothing else to do
 * is a request without effect. */
struct nudge {
    struct request request;
    struct mem mem;
    struct seat *seat;
};

static void nudged(struct request *request)
{
    struct nudge *nudge = container_of(request, struct nudge, request);

    credit_post(nudge->seat);
    memory_free(nudge, sizeof *nudge, offsetof(struct nudge, mem));
}

/* On all shards alike. Without memory for the nudge they get it with the next answer. */
void engine_port_credit(struct link_port *port, enum work_kind kind, uint32_t n)
{
    struct engine_port *p = port_of(port);

    for (uint32_t i = 0; i < p->seats_n; i++) {
        struct seat *seat = &p->seats[i];
        atomic_fetch_add(&seat->more[kind], n);
        struct nudge *nudge = memory_new(sizeof *nudge, offsetof(struct nudge, mem));
        if (nudge == NULL) continue;
        nudge->seat = seat;
        nudge->request = (struct request){.kind = REQUEST_WORKER_CREDIT, .done = nudged};
        nudge->request.worker.worker = &seat->worker;
        if (engine_post_to(p->link->engine, seat->shard, &nudge->request)) continue;
        memory_free(nudge, sizeof *nudge, offsetof(struct nudge, mem));
    }
}

static size_t works_n_of(const struct link_worker *worker)
{
    size_t n = 0;

    for (size_t kind = 0; kind < WORK_KINDS_N; kind++) n += worker->credits_max[kind];
    return n;
}

static bool make_filters(struct engine_port *p, const struct link_worker *worker)
{
    for (size_t kind = 0; kind < WORK_KINDS_N; kind++) {
        size_t n = worker->names_n[kind];
        if (n == 0) continue;
        p->filters[kind] = mem_take_zero(&p->mem, n * sizeof *p->filters[kind]);
        if (p->filters[kind] == NULL) return false;
        for (size_t i = 0; i < n; i++) {
            const struct link_name *name = &worker->names[kind][i];
            p->filters[kind][i] = (struct worker_filter){
                .name = name->name,
                .versions = name->versions,
                .versions_n = name->versions_n,
            };
        }
    }
    return true;
}

static bool seat_init(struct engine_port *p, struct seat *seat, uint32_t shard)
{
    const struct link_worker *worker = p->port.worker;

    seat->port = p;
    seat->shard = shard;
    list_init(&seat->unused);
    seat->works_n = works_n_of(worker);
    seat->works = mem_take(&p->mem, seat->works_n * sizeof *seat->works);
    seat->worker = (struct worker){
        .hub = bytes_make(p->link->hub, p->link->hub_len),
        .name = BYTES_LITERAL("this process"),
        .deliver = deliver,
        .user = seat,
        .has_filters = true,
        .turn_filters = p->filters[WORK_TURN],
        .turn_filters_n = worker->names_n[WORK_TURN],
        .task_filters = p->filters[WORK_TASK],
        .task_filters_n = worker->names_n[WORK_TASK],
        .entity_filters = p->filters[WORK_ENTITY],
        .entity_filters_n = worker->names_n[WORK_ENTITY],
        .turns_credit = worker->credits[WORK_TURN],
        .tasks_credit = worker->credits[WORK_TASK],
        .entities_credit = worker->credits[WORK_ENTITY],
    };
    return seat->works != NULL;
}

static bool port_init(struct engine_port *p)
{
    const struct link_worker *worker = p->port.worker;

    p->seats_n = engine_shards_n(p->link->engine);
    p->seats = mem_take_zero(&p->mem, p->seats_n * sizeof *p->seats);
    if (p->seats == NULL || !make_filters(p, worker)) return false;
    for (uint32_t n = 0; n < p->seats_n; n++) {
        if (!seat_init(p, &p->seats[n], n)) return false;
    }
    return true;
}

static void port_release(struct engine_port *p)
{
    for (uint32_t n = 0; p->seats != NULL && n < p->seats_n; n++) {
        struct seat *seat = &p->seats[n];
        for (size_t i = 0; i < seat->made_n; i++) link_work_release(&seat->works[i].work);
        mem_give(&p->mem, seat->works, seat->works_n * sizeof *seat->works);
    }
    for (size_t kind = 0; kind < WORK_KINDS_N; kind++) {
        mem_give(&p->mem, p->filters[kind],
                 p->port.worker->names_n[kind] * sizeof *p->filters[kind]);
    }
    mem_give(&p->mem, p->seats, p->seats_n * sizeof *p->seats);
    memory_free(p, sizeof *p, offsetof(struct engine_port, mem));
}

static void bell_add(struct engine_port *p)
{
    (void)pthread_mutex_lock(&p->link->bell->mutex);
    list_push_back(&p->link->bell->ports, &p->node);
    (void)pthread_mutex_unlock(&p->link->bell->mutex);
}

static void bell_remove(struct engine_port *p)
{
    (void)pthread_mutex_lock(&p->link->bell->mutex);
    list_remove(&p->node);
    (void)pthread_mutex_unlock(&p->link->bell->mutex);
}

static void detach_first(struct engine_port *p, uint32_t seats_n)
{
    for (uint32_t n = 0; n < seats_n; n++) {
        struct request request = {.kind = REQUEST_WORKER_DETACH};
        request.worker.worker = &p->seats[n].worker;
        while (engine_call_to(p->link->engine, n, &request) == E_UNAVAILABLE) sleep_ms(1);
    }
}

enum status engine_port_attach(struct link *link, const struct link_worker *worker,
                               struct link_port **port)
{
    struct engine_port *p =
        memory_new(sizeof(struct engine_port), offsetof(struct engine_port, mem));
    enum status status = E_NOMEM;

    if (p == NULL) return E_NOMEM;
    p->port = (struct link_port){.link = link, .worker = worker};
    p->link = engine_link_of(link);
    if (!port_init(p)) {
        port_release(p);
        return E_NOMEM;
    }
    *port = &p->port; /* deliveries may come before this returns */
    bell_add(p);
    for (uint32_t n = 0; n < p->seats_n; n++) {
        struct request request = {.kind = REQUEST_WORKER_ATTACH};
        request.worker.worker = &p->seats[n].worker;
        status = engine_call_to(p->link->engine, n, &request);
        if (status == OK) continue;
        detach_first(p, n);
        bell_remove(p);
        *port = NULL;
        port_release(p);
        return status;
    }
    return OK;
}

void engine_port_detach(struct link_port *port)
{
    struct engine_port *p = port_of(port);

    detach_first(p, p->seats_n);
    engine_wake(p->link->engine);
    for (uint32_t n = 0; n < p->seats_n; n++) {
        while (atomic_load(&p->seats[n].fetching_n) > 0) sleep_ms(1);
    }
    bell_remove(p);
}

static void seat_call(const struct seat *seat, struct request *request)
{
    while (engine_call_to(seat->port->link->engine, seat->shard, request) == E_UNAVAILABLE) {
        sleep_ms(1);
    }
}

/* Credit that is still on its way to a seat must have arrived before the seat goes, and what it has
 * answered is durable then: a question about the backlog is answered after all before it. */
static void seat_settle(struct seat *seat)
{
    struct request request = {.kind = REQUEST_STATS};
    struct request barrier = {.kind = REQUEST_BACKLOG};
    struct host_stats stats;

    while (atomic_load(&seat->out_n) > 0) sleep_ms(1);
    request.stats = &stats;
    seat_call(seat, &barrier);
    for (int n = 0; n < 2; n++) seat_call(seat, &request);
}

void engine_port_free(struct link_port *port)
{
    struct engine_port *p = port_of(port);

    engine_wake(p->link->engine);
    for (uint32_t n = 0; n < p->seats_n; n++) seat_settle(&p->seats[n]);
    port_release(p);
}
