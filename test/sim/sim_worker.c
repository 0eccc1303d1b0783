/* SPDX-License-Identifier: Apache-2.0
 *
 * A worker has a stream to each shard, on which it is given items of work; it answers by ordinary
 * requests, as the protocol has it. An item has two sides: the server's end of the stream keeps it
 * until it is answered (so that it can be given back when the stream is lost), the worker keeps it
 * until it has an answer to its answer. It is freed when neither has it.
 *
 *      stream:  OPENING ──> OPEN ──broken──> LOST ──after a grace──> CLOSING ──> freed
 *      item:    arriving ──> (fetching history) ──> working ──> answering ──> done
 */
#include "test/sim/sim_worker.h"

#include "base/assert.h"
#include "base/map.h"
#include "base/mem.h"
#include "core/replies.h"
#include "host/host.h"
#include "test/sim/sim_check.h"
#include "test/sim/sim_client.h"
#include "test/sim/sim_entity.h"
#include "test/sim/sim_network.h"
#include "test/sim/sim_node.h"
#include "test/sim/sim_programs.h"
#include "test/sim/sim_remote.h"
#include "test/sim/sim_reply.h"

#include <string.h>

#define CREDIT_TURNS 8
#define CREDIT_TASKS 16
#define CREDIT_ENTITIES 4
#define PATIENCE_NS (30 * NS_PER_S)

struct stream {
    struct worker worker; /* the dispatcher's view */
    struct list node;     /* in fleet->streams */
    struct pawn *pawn;
    struct node *to;
    struct list items; /* not answered yet */
    bool is_attached;
    bool is_lost;
    uint64_t abandoning; /* number of the item that is being given back */
    uint32_t posts_n;    /* private requests under way */
    uint32_t turns_owed; /* credit to give back */
    uint32_t tasks_owed;
    uint32_t entities_owed;
    struct moment grace; /* closes it, or tries again what the host's queue did not take */
};

/* One worker process. */
struct pawn {
    struct fleet *fleet;
    struct world *w;
    uint32_t index;
    struct bytes hub;
    struct remote *remote; /* over gRPC, and nothing below but is_up; NULL: to the hosts */
    bool is_up;
    bool
        is_hot; /* keeps executions in memory instead of asking for their history with every turn */
    struct stream *streams[SHARDS_MAX];
    struct moment connect[SHARDS_MAX];
    struct moment revive;
    struct list items; /* in hand */
    struct map memories;
    struct list memories_list;
};

struct fleet {
    struct world *w;
    struct pawn pawns[WORKERS_MAX + 1]; /* the last one tells who asked to be told */
    uint32_t n;
    struct list streams; /* all, also lost ones */
    uint64_t numbers;
};

/* What a hot worker remembers of an execution. */
struct memory {
    struct map_node node;
    struct list list;
    uint8_t execution_id[EXECUTION_ID_SIZE];
    uint64_t history_n;
    int32_t scheduled_upto;
    struct buffer events;
    size_t key_size;
    uint8_t key[];
};

enum item_phase { ITEM_WORKING, ITEM_FETCHING, ITEM_ABANDONING, ITEM_ANSWERING };

struct item {
    struct world *w;
    uint64_t number; /* how an answer finds it at the server: the completion token */
    enum item_phase phase;
    struct stream *stream; /* NULL: the server has forgotten it */
    struct list of_stream;
    struct pawn *pawn; /* NULL: the worker has */
    struct list of_pawn;
    struct node *to;
    struct arena arena;
    struct work_ref ref;
    struct bytes name;
    struct bytes past;
    bool has_past;
    struct bytes fresh;
    uint64_t history_n;
    struct bytes scheduled;
    struct maybe state;     /* of an entity */
    int32_t scheduled_upto; /* from the worker's memory */
    struct port port;
    struct moment moment;
    /* After the answer: what the execution is then. */
    uint64_t history_after_n;
    int32_t scheduled_after;
    bool is_finished;
};

/* ---- memories of hot workers ---- */

static struct memory *memory_find(struct pawn *pawn, struct bytes key)
{
    struct map_node *node = map_find(&pawn->memories, key);

    return node == NULL ? NULL : container_of(node, struct memory, node);
}

static void memory_forget(struct pawn *pawn, struct memory *m)
{
    map_remove(&pawn->memories, &m->node);
    list_remove(&m->list);
    buffer_release(&m->events);
    mem_give(mem_process(), m, sizeof *m + m->key_size);
}

static void memory_forget_all(struct pawn *pawn)
{
    struct list *at = NULL;

    while ((at = list_first(&pawn->memories_list)) != NULL) {
        memory_forget(pawn, container_of(at, struct memory, list));
    }
}

static struct memory *memory_make(struct pawn *pawn, struct bytes key)
{
    struct memory *m = mem_take_zero(mem_process(), sizeof *m + key.len);

    assert(m != NULL);
    memcpy(m->key, key.ptr, key.len);
    m->key_size = key.len;
    m->node.key = bytes_make(m->key, key.len);
    buffer_init(&m->events, mem_process());
    map_insert(&pawn->memories, &m->node);
    list_push_back(&pawn->memories_list, &m->list);
    return m;
}

/* Its past, when this worker knows exactly the execution and as much of it as the engine has. */
static bool memory_recall(struct item *item)
{
    struct memory *m = memory_find(item->pawn, item->ref.key);

    if (m == NULL) return false;
    if (memcmp(m->execution_id, item->ref.execution_id, EXECUTION_ID_SIZE) != 0 ||
        m->history_n != item->history_n) {
        memory_forget(item->pawn, m);
        return false;
    }
    item->past = arena_copy(&item->arena, buffer_view(&m->events));
    item->scheduled_upto = m->scheduled_upto;
    return true;
}

/* The answer was taken: the execution is what this worker made of it. */
static void memory_keep(struct item *item)
{
    struct memory *m = memory_find(item->pawn, item->ref.key);

    if (item->is_finished) {
        if (m != NULL) memory_forget(item->pawn, m);
        return;
    }
    if (m == NULL) m = memory_make(item->pawn, item->ref.key);
    memcpy(m->execution_id, item->ref.execution_id, EXECUTION_ID_SIZE);
    m->history_n = item->history_after_n;
    m->scheduled_upto = item->scheduled_after;
    buffer_clear(&m->events);
    buffer_append_bytes(&m->events, item->past);
    buffer_append_bytes(&m->events, item->fresh);
}

/* ---- items ---- */

static void item_release(struct item *item)
{
    if (item->stream != NULL || item->pawn != NULL) return;
    port_cancel(&item->port);
    moment_cancel(item->w, &item->moment);
    arena_release(&item->arena);
    mem_give(mem_process(), item, sizeof *item);
}

static void item_leave_stream(struct item *item)
{
    if (item->stream == NULL) return;
    list_remove(&item->of_stream);
    item->stream = NULL;
    item_release(item);
}

static void item_leave_pawn(struct item *item)
{
    if (item->pawn == NULL) return;
    list_remove(&item->of_pawn);
    item->pawn = NULL;
    port_cancel(&item->port);
    moment_cancel(item->w, &item->moment);
    item_release(item);
}

static void ref_copy(struct work_ref *to, const struct work_ref *from, struct arena *arena)
{
    *to = *from;
    to->key = arena_copy(arena, from->key);
}

/* ---- streams ---- */

static void stream_close(struct stream *s);

static void stream_free(struct stream *s)
{
    struct list *at = NULL;

    assert(s->posts_n == 0);
    while ((at = list_first(&s->items)) != NULL) {
        item_leave_stream(container_of(at, struct item, of_stream));
    }
    moment_cancel(s->pawn->w, &s->grace);
    if (s->pawn->streams[node_shard(s->to)] == s) s->pawn->streams[node_shard(s->to)] = NULL;
    list_remove(&s->node);
    mem_give(mem_process(), s, sizeof *s);
}

/* Tries again later what the host did not take. */
static void stream_retry(struct stream *s)
{
    if (!moment_is_set(&s->grace)) moment_after(s->pawn->w, &s->grace, 100 * NS_PER_MS);
}

/* The item may have been answered meanwhile. */
static void stream_forget(struct stream *s, uint64_t number)
{
    for (struct list *at = list_first(&s->items); at != NULL; at = list_next(&s->items, at)) {
        struct item *item = container_of(at, struct item, of_stream);
        if (item->number != number) continue;
        item_leave_stream(item);
        return;
    }
}

static void on_posted(struct call *call)
{
    struct stream *s = call->user;
    const struct request *r = &call->request;

    assert(s->posts_n > 0);
    s->posts_n--;
    if (!s->to->is_up || s->to->is_ending) return; /* fleet_node_gone() frees it */
    if (r->status != OK) {
        stream_retry(s);
        return;
    }
    if (r->kind == REQUEST_WORKER_ATTACH) s->is_attached = true;
    if (r->kind == REQUEST_WORKER_DETACH) s->is_attached = false;
    if (r->kind == REQUEST_ABANDON) stream_forget(s, s->abandoning);
    if (s->is_lost && r->kind != REQUEST_WORKER_ATTACH && r->kind != REQUEST_WORKER_CREDIT) {
        stream_close(s);
    }
}

static void stream_post(struct stream *s, struct call *call)
{
    call->seen = on_posted;
    call->user = s;
    s->posts_n++;
    if (network_post(call, s->to)) return;
    s->posts_n--;
    stream_retry(s);
}

static struct call *worker_call(struct stream *s, enum request_kind kind)
{
    struct call *call = call_make(s->pawn->w, kind);

    call->request.worker.worker = &s->worker;
    return call;
}

static void stream_flush(struct stream *s)
{
    if (!s->is_attached || s->is_lost) return;
    if (s->turns_owed + s->tasks_owed + s->entities_owed == 0) return;
    struct call *call = worker_call(s, REQUEST_WORKER_CREDIT);
    call->request.worker.turns = s->turns_owed;
    call->request.worker.tasks = s->tasks_owed;
    call->request.worker.entities = s->entities_owed;
    s->turns_owed = s->tasks_owed = s->entities_owed = 0;
    stream_post(s, call);
}

/* The next thing to do for a lost stream: detach the worker, then give back what it held, one by
 * one. In this order, because until the detach is done more may be delivered to it. */
static void stream_close(struct stream *s)
{
    if (s->posts_n > 0) {
        stream_retry(s);
        return;
    }
    if (s->is_attached) {
        stream_post(s, worker_call(s, REQUEST_WORKER_DETACH));
        return;
    }
    if (list_is_empty(&s->items)) {
        stream_free(s);
        return;
    }
    struct item *item = container_of(list_first(&s->items), struct item, of_stream);
    struct call *call = call_make(s->pawn->w, REQUEST_ABANDON);
    ref_copy(&call->request.lease.ref, &item->ref, &call->parcel->arena);
    call->request.key = call->request.lease.ref.key;
    call->request.lease.is_lost = true;
    s->abandoning = item->number;
    stream_post(s, call);
}

static void on_grace(struct moment *m)
{
    struct stream *s = container_of(m, struct stream, grace);

    if (!s->to->is_up || s->to->is_ending) return;
    if (s->is_lost)
        stream_close(s);
    else if (!s->is_attached && s->posts_n == 0)
        stream_post(s, worker_call(s, REQUEST_WORKER_ATTACH));
    else
        stream_flush(s);
}

/* The worker's end is gone; the server will notice. */
static void stream_lose(struct stream *s)
{
    struct world *w = s->pawn->w;

    if (s->is_lost) return;
    s->is_lost = true;
    s->pawn->streams[node_shard(s->to)] = NULL;
    int64_t grace_ms = w->is_healed ? 10 : rng_between(&w->rng, 1, 10000);
    moment_after(w, &s->grace, grace_ms * NS_PER_MS);
}

static void connect_later(struct pawn *pawn, uint32_t shard)
{
    struct world *w = pawn->w;
    int64_t span_ms = w->is_healed ? 10 : rng_between(&w->rng, 1, 2000);

    if (pawn->is_up && pawn->remote == NULL) {
        moment_after(w, &pawn->connect[shard], span_ms * NS_PER_MS);
    }
}

static void on_item(struct moment *m);
static void on_item_answer(struct port *port, const struct answer *answer);

static void item_fill(struct item *item, const struct effect_work *work)
{
    struct arena *arena = &item->arena;

    ref_copy(&item->ref, &work->ref, arena);
    item->name = arena_copy(arena, work->name);
    item->past = arena_copy(arena, work->past);
    item->has_past = work->has_past;
    item->fresh = arena_copy(arena, work->fresh);
    item->history_n = work->history_n;
    item->scheduled = arena_copy(arena, work->scheduled);
    item->state = (struct maybe){arena_copy(arena, work->state.value), work->state.has};
}

static void deliver(struct worker *worker, const struct effect_work *work)
{
    struct stream *s = container_of(worker, struct stream, worker);
    struct world *w = s->pawn->w;

    if (s->to->is_ending) return;
    check_delivery(s->to, work);
    struct item *item = mem_take_zero(mem_process(), sizeof *item);
    assert(item != NULL);
    item->w = w;
    item->number = ++w->fleet->numbers;
    item->to = s->to;
    arena_init(&item->arena, mem_process(), 1024);
    item_fill(item, work);
    port_init(&item->port, w, on_item_answer);
    moment_init(&item->moment, on_item);
    item->stream = s;
    list_push_back(&s->items, &item->of_stream);
    if (node_is_cut(s->to) && !s->is_lost) { /* TCP gives up */
        stream_lose(s);
        connect_later(s->pawn, node_shard(s->to));
    }
    if (s->is_lost) return; /* written to a dead connection */
    item->pawn = s->pawn;
    list_push_back(&s->pawn->items, &item->of_pawn);
    int64_t span_us =
        chance_span(&w->rng, w->options.network_us) + chance_span(&w->rng, w->options.work_us);
    if (fault_hits(w, FAULT_KIND_WORKER_SLOW)) span_us += rng_between(&w->rng, 1, 300) * 1000000;
    moment_after(w, &item->moment, span_us * 1000);
}

static void stream_open(struct pawn *pawn, struct node *to)
{
    struct world *w = pawn->w;
    struct stream *s = mem_take_zero(mem_process(), sizeof *s);

    assert(s != NULL);
    s->pawn = pawn;
    s->to = to;
    list_init(&s->items);
    list_push_back(&pawn->fleet->streams, &s->node);
    moment_init(&s->grace, on_grace);
    s->worker.hub = pawn->hub;
    s->worker.deliver = deliver;
    s->worker.user = s;
    s->worker.wants_history = !pawn->is_hot;
    s->worker.turns_credit = 1 + (uint32_t)rng_below(&w->rng, CREDIT_TURNS);
    s->worker.tasks_credit = 1 + (uint32_t)rng_below(&w->rng, CREDIT_TASKS);
    s->worker.entities_credit = 1 + (uint32_t)rng_below(&w->rng, CREDIT_ENTITIES);
    pawn->streams[node_shard(to)] = s;
    stream_post(s, worker_call(s, REQUEST_WORKER_ATTACH));
}

/* ---- working ---- */

static void *number_pointer(uint64_t number) { return (void *)(uintptr_t)number; }

static struct item *item_at(struct node *to, void *number)
{
    const struct list *streams = &to->w->fleet->streams;

    for (struct list *at = list_first(streams); at != NULL; at = list_next(streams, at)) {
        struct stream *s = container_of(at, struct stream, node);
        if (s->to != to) continue;
        for (struct list *i = list_first(&s->items); i != NULL; i = list_next(&s->items, i)) {
            struct item *item = container_of(i, struct item, of_stream);
            if (number_pointer(item->number) == number) return item;
        }
    }
    return NULL;
}

/* At the server: the stream's end learns that the item is answered. */
static void on_answered(struct call *call)
{
    if (!call->to->is_up || call->to->is_ending || call->request.status != OK) return;
    struct item *item = item_at(call->to, call->user);
    if (item == NULL) return;
    struct stream *s = item->stream;
    if (item->ref.kind == WORK_TURN)
        s->turns_owed++;
    else if (item->ref.kind == WORK_ENTITY)
        s->entities_owed++;
    else
        s->tasks_owed++;
    item_leave_stream(item);
    stream_flush(s);
}

static struct bytes sim_key_id(const struct item *item) { return key_id(item->ref.key); }

static struct call *done_call(const struct item *item)
{
    static const enum request_kind kinds[] = {
        [WORK_TURN] = REQUEST_TURN_DONE,
        [WORK_TASK] = REQUEST_TASK_DONE,
        [WORK_ENTITY] = REQUEST_ENTITY_DONE,
    };
    struct call *call = call_make(item->w, kinds[item->ref.kind]);
    struct input_worker_done *done = &call->request.worker_done;

    done->has_ref = true;
    ref_copy(&done->ref, &item->ref, &call->parcel->arena);
    done->key = done->ref.key;
    done->task_id = item->ref.task_id;
    call->request.key = done->key;
    return call;
}

static bool makes_event(enum action_kind kind)
{
    return kind == ACTION_SCHEDULE_TASK || kind == ACTION_CREATE_CHILD ||
           kind == ACTION_CREATE_TIMER || kind == ACTION_SEND_EVENT ||
           kind == ACTION_SEND_ENTITY_MESSAGE;
}

static void answer_turn(struct item *item, struct call *call)
{
    struct arena *arena = &call->parcel->arena;
    struct turn turn = {
        .name = item->name,
        .instance_id = arena_copy(arena, sim_key_id(item)),
        .past = arena_copy(arena, item->past),
        .fresh = arena_copy(arena, item->fresh),
        .scheduled_upto = item->scheduled_upto,
    };
    struct turn_result result;

    program_turn(&turn, arena, &result);
    if (result.mismatch != NULL && !crowd_is_tainted(item->w->crowd, item->ref.key)) {
        sim_fail(item->w, "S13 replay", "%.*s (%.*s): %s", (int)item->ref.key.len,
                 (const char *)item->ref.key.ptr, (int)item->name.len, (const char *)item->name.ptr,
                 result.mismatch);
    }
    struct orchestrator_answer *answer = arena_alloc(arena, sizeof *answer);
    assert(answer != NULL);
    *answer = result.answer;
    call->request.worker_done.answer = answer;
    item->is_finished = result.is_finished;
    item->scheduled_after = result.scheduled_upto;
    item->history_after_n = item->history_n + strings_count(item->fresh);
    for (uint32_t i = 0; i < answer->actions_n; i++) {
        if (makes_event(answer->actions[i].kind)) item->history_after_n++;
    }
}

static void answer_reply(struct item *item, struct call *call)
{
    struct arena *arena = &call->parcel->arena;
    struct orchestrator_answer *answer = arena_alloc(arena, sizeof *answer);
    struct effect_work work = {.ref = item->ref, .past = item->past, .fresh = item->fresh};
    struct env *env = &item->to->env;

    assert(answer != NULL);
    receiver_turn(item->w->receiver, &work, env->ops->wall_ns(env), arena, answer);
    call->request.worker_done.answer = answer;
}

static void answer_task(struct item *item, struct call *call)
{
    struct arena *arena = &call->parcel->arena;
    struct event_scheduled scheduled;
    struct task_result result;

    enum status status = event_scheduled_decode(item->scheduled, arena, &scheduled);
    assert(status == OK);
    program_task(scheduled.name, scheduled.input.value, item->ref.attempt, item->w->is_healed,
                 arena, &result);
    call->request.worker_done.result = result.result;
    call->request.worker_done.failure = result.failure;
}

static void answer_entity(struct item *item, struct call *call)
{
    struct arena *arena = &call->parcel->arena;
    struct entity_answer *answer = arena_alloc(arena, sizeof *answer);
    struct maybe state = {arena_copy(arena, item->state.value), item->state.has};

    assert(answer != NULL);
    entity_run(item->w, item->ref.key, state, arena_copy(arena, item->fresh), arena, answer);
    call->request.worker_done.entity = answer;
}

static void answer_work(struct item *item, struct call *call)
{
    if (is_reply(item->ref.key)) {
        answer_reply(item, call);
        return;
    }
    switch (item->ref.kind) {
    case WORK_TURN: answer_turn(item, call); return;
    case WORK_TASK: answer_task(item, call); return;
    case WORK_ENTITY: answer_entity(item, call); return;
    }
}

/* An answer that must not be taken: its result is a marker that no history may contain. */
static void answer_zombie(const struct item *item, struct call *call)
{
    struct arena *arena = &call->parcel->arena;
    struct input_worker_done *done = &call->request.worker_done;

    done->result = maybe_some(BYTES_LITERAL(ZOMBIE));
    if (item->ref.kind == WORK_TASK) return;
    if (item->ref.kind == WORK_ENTITY) {
        struct entity_answer *entity = arena_alloc_zero(arena, sizeof *entity);
        struct entity_result *result = arena_alloc_zero(arena, sizeof *result);
        assert(entity != NULL);
        assert(result != NULL);
        result->output = done->result;
        *entity = (struct entity_answer){
            .results = result, .results_n = 1, .state = maybe_some(BYTES_LITERAL(ZOMBIE))};
        done->entity = entity;
        return;
    }
    struct orchestrator_answer *answer = arena_alloc_zero(arena, sizeof *answer);
    struct action *action = arena_alloc_zero(arena, sizeof *action);
    assert(answer != NULL);
    assert(action != NULL);
    *action = (struct action){.kind = ACTION_COMPLETE,
                              .id = 90,
                              .status = STATUS_COMPLETED,
                              .input = maybe_some(BYTES_LITERAL(ZOMBIE))};
    *answer = (struct orchestrator_answer){.actions = action, .actions_n = 1};
    done->answer = answer;
}

/* A reference that nobody was ever given. */
static void send_forged(const struct item *item)
{
    struct world *w = item->w;
    struct call *call = done_call(item);
    struct work_ref *ref = &call->request.worker_done.ref;

    answer_zombie(item, call);
    switch (rng_below(&w->rng, 5)) {
    case 0: ref->execution_id[0] ^= 1; break;
    case 1: ref->attempt += 1000; break;
    case 2: ref->epoch += 1000; break;
    case 3:
        ref->task_id += 1000;
        ref->base += 1000;
        break;
    default:
        ref->base += 1;
        ref->attempt += 1;
        break;
    }
    network_send(call, item->to, 0);
}

/* Nonsense with a good reference: the instance may fail, the engine may not. */
static void answer_garbage(const struct item *item, struct call *call)
{
    struct arena *arena = &call->parcel->arena;
    struct orchestrator_answer *answer = arena_alloc_zero(arena, sizeof *answer);
    struct action *actions = arena_alloc_zero(arena, 3 * sizeof *actions);

    assert(answer != NULL);
    assert(actions != NULL);
    answer->actions = actions;
    answer->actions_n = 1 + (uint32_t)rng_below(&item->w->rng, 3);
    for (uint32_t i = 0; i < 3; i++) {
        actions[i].kind =
            (enum action_kind)rng_between(&item->w->rng, ACTION_SCHEDULE_TASK, ACTION_REWIND);
        actions[i].id = (int32_t)rng_between(&item->w->rng, -2, 4);
        actions[i].status = (enum orchestration_status)rng_below(&item->w->rng, 8);
        if (rng_chance(&item->w->rng, 500)) actions[i].name = BYTES_LITERAL("double");
    }
    call->request.worker_done.answer = answer;
    crowd_taint(item->w->crowd, item->ref.key);
}

static void send_abandon(struct item *item)
{
    struct call *call = call_make(item->w, REQUEST_ABANDON);

    item->phase = ITEM_ABANDONING;
    ref_copy(&call->request.lease.ref, &item->ref, &call->parcel->arena);
    call->request.key = call->request.lease.ref.key;
    if (item->ref.kind == WORK_TURN && rng_chance(&item->w->rng, 250)) {
        call->request.lease.is_parked = true; /* the crowd's doctor finds it */
        call->request.lease.reason = BYTES_LITERAL("it cannot be sent");
    }
    call->seen = on_answered;
    call->user = number_pointer(item->number);
    port_send(&item->port, call, item->to, PATIENCE_NS);
}

/* The same answer as before, or another one, although the first was taken. */
static void send_again(struct item *item, bool is_zombie)
{
    struct call *call = done_call(item);

    if (is_zombie)
        answer_zombie(item, call);
    else
        answer_work(item, call);
    network_send(call, item->to, chance_span(&item->w->rng, 2000) * NS_PER_MS);
}

static void send_answer(struct item *item)
{
    struct world *w = item->w;
    struct call *call = done_call(item);
    bool is_turn = item->ref.kind == WORK_TURN && !is_reply(item->ref.key);

    item->phase = ITEM_ANSWERING;
    answer_work(item, call);
    if (is_turn && fault_hits(w, FAULT_KIND_ANSWER_GARBAGE)) {
        answer_garbage(item, call);
        item->is_finished = true; /* nothing to remember of that */
    }
    if (fault_hits(w, FAULT_KIND_ANSWER_FORGED)) send_forged(item);
    call->seen = on_answered;
    call->user = number_pointer(item->number);
    port_send(&item->port, call, item->to, PATIENCE_NS);
}

/* The past of a turn, when it was not sent along. False: it has to be asked for first. */
static bool has_past(struct item *item)
{
    if (item->ref.kind != WORK_TURN || item->has_past || item->history_n == 0) return true;
    if (item->past.len > 0 || memory_recall(item)) return true;
    item->phase = ITEM_FETCHING;
    struct call *call = call_make(item->w, REQUEST_HISTORY);
    call_set_key(call, item->ref.key);
    port_send(&item->port, call, item->to, PATIENCE_NS);
    return false;
}

static void on_item(struct moment *m)
{
    struct item *item = container_of(m, struct item, moment);

    if (!has_past(item)) return;
    if (fault_hits(item->w, FAULT_KIND_WORKER_ABANDON))
        send_abandon(item);
    else
        send_answer(item);
}

/* ---- answers to the worker ---- */

/* The first history_n events, when they are of the execution that the item is about. */
static bool take_history(struct item *item, struct bytes events)
{
    struct reader r = reader_make(events);
    struct bytes event;
    struct buffer past;
    uint64_t n = 0;
    bool is_same = false;

    buffer_init(&past, mem_process());
    while (n < item->history_n && strings_next(&r, &event)) {
        struct event_head head;
        struct event_started started;
        n++;
        strings_add(&past, event);
        if (event_head_decode(event, &head) != OK || head.kind != EVENT_EXECUTION_STARTED) continue;
        if (event_started_decode(event, &item->arena, &started) != OK) continue;
        is_same = memcmp(started.execution_id, item->ref.execution_id, EXECUTION_ID_SIZE) == 0;
    }
    if (is_same && n < item->history_n) {
        sim_fail(item->w, "S1 read", "%.*s has %llu events, a worker was promised %llu",
                 (int)item->ref.key.len, (const char *)item->ref.key.ptr, (unsigned long long)n,
                 (unsigned long long)item->history_n);
    }
    item->past = arena_copy(&item->arena, buffer_view(&past));
    buffer_release(&past);
    return is_same;
}

static void item_later(struct item *item)
{
    moment_after(item->w, &item->moment, rng_between(&item->w->rng, 1, 1000) * NS_PER_MS);
}

static void on_item_answer(struct port *port, const struct answer *answer)
{
    struct item *item = container_of(port, struct item, port);
    struct world *w = item->w;

    if (answer->outcome != OUTCOME_ANSWER || answer->status != OK) {
        bool is_gone = answer->outcome == OUTCOME_ANSWER && answer->status == E_NOT_FOUND;
        if (is_gone)
            item_leave_pawn(item);
        else
            item_later(item);
        return;
    }
    if (item->phase == ITEM_FETCHING) {
        if (take_history(item, answer->events))
            on_item(&item->moment);
        else
            send_abandon(item); /* of an execution that has ended */
        return;
    }
    if (item->phase == ITEM_ANSWERING) {
        bool is_taken = answer->text[0] == '\0';
        if (fault_hits(w, FAULT_KIND_ANSWER_TWICE)) send_again(item, false);
        if (fault_hits(w, FAULT_KIND_ANSWER_LATE)) send_again(item, true);
        if (is_taken && item->pawn->is_hot && item->ref.kind == WORK_TURN) memory_keep(item);
    }
    item_leave_pawn(item);
}

/* ---- pawns ---- */

static void pawn_connect(struct pawn *pawn, struct node *to)
{
    if (pawn->is_up && pawn->streams[node_shard(to)] == NULL && to->is_up) stream_open(pawn, to);
}

static void on_connect(struct moment *m)
{
    /* Which of the array it is tells the shard. */
    struct fleet *f = sim_current->fleet;
    for (uint32_t i = 0; i < f->n; i++) {
        for (uint32_t shard = 0; shard < SHARDS_MAX; shard++) {
            if (&f->pawns[i].connect[shard] == m) pawn_connect(&f->pawns[i], f->w->nodes[shard]);
        }
    }
}

static void pawn_drop_items(struct pawn *pawn)
{
    struct list *at = NULL;

    while ((at = list_first(&pawn->items)) != NULL) {
        item_leave_pawn(container_of(at, struct item, of_pawn));
    }
}

static void on_revive(struct moment *m)
{
    struct pawn *pawn = container_of(m, struct pawn, revive);

    pawn->is_up = true;
    if (pawn->remote != NULL) {
        remote_start(pawn->remote);
        return;
    }
    for (uint32_t i = 0; i < pawn->w->options.shards_n; i++) pawn_connect(pawn, pawn->w->nodes[i]);
}

static void pawn_lose_streams(struct pawn *pawn)
{
    for (uint32_t i = 0; i < SHARDS_MAX; i++) {
        if (pawn->streams[i] != NULL) stream_lose(pawn->streams[i]);
    }
}

void fleet_crash_one(struct fleet *f)
{
    struct pawn *pawn = &f->pawns[rng_below(&f->w->rng, f->n)];

    if (!pawn->is_up) return;
    pawn->is_up = false;
    if (pawn->remote != NULL) remote_crash(pawn->remote);
    pawn_lose_streams(pawn);
    pawn_drop_items(pawn);
    memory_forget_all(pawn);
    moment_after(f->w, &pawn->revive, rng_between(&f->w->rng, 1, 10000) * NS_PER_MS);
}

void fleet_cut_one(struct fleet *f)
{
    struct pawn *pawn = &f->pawns[rng_below(&f->w->rng, f->n)];

    if (pawn->remote != NULL) remote_cut(pawn->remote);
    pawn_lose_streams(pawn);
    for (uint32_t i = 0; i < f->w->options.shards_n; i++) connect_later(pawn, i);
}

/* ---- the fleet ---- */

struct fleet *fleet_new(struct world *w)
{
    struct fleet *f = mem_take_zero(mem_process(), sizeof *f);

    assert(f != NULL);
    f->w = w;
    f->n = w->options.workers_n + 1;
    list_init(&f->streams);
    for (uint32_t i = 0; i < f->n; i++) {
        struct pawn *pawn = &f->pawns[i];
        pawn->fleet = f;
        pawn->w = w;
        pawn->index = i;
        pawn->hub = crowd_hub(i % w->options.hubs_n);
        pawn->is_hot = rng_chance(&w->rng, w->options.hot_workers);
        if (i == w->options.workers_n) { /* a worker of the server's own */
            pawn->hub = BYTES_LITERAL(REPLY_HUB);
            pawn->is_hot = false;
        } else if (rng_chance(&w->rng, w->options.wire_share)) {
            pawn->remote = remote_new(w, i, pawn->hub);
        }
        list_init(&pawn->items);
        list_init(&pawn->memories_list);
        map_init(&pawn->memories, mem_process(), 1, 2);
        moment_init(&pawn->revive, on_revive);
        for (uint32_t s = 0; s < SHARDS_MAX; s++) moment_init(&pawn->connect[s], on_connect);
    }
    return f;
}

void fleet_start(struct fleet *f)
{
    for (uint32_t i = 0; i < f->n; i++) on_revive(&f->pawns[i].revive);
}

void fleet_heal(struct fleet *f)
{
    for (uint32_t i = 0; i < f->n; i++) {
        struct pawn *pawn = &f->pawns[i];
        moment_cancel(f->w, &pawn->revive);
        on_revive(&pawn->revive);
    }
}

void fleet_node_up(struct fleet *f, struct node *n)
{
    if (f == NULL) return;
    for (uint32_t i = 0; i < f->n; i++) connect_later(&f->pawns[i], node_shard(n));
}

void fleet_node_gone(struct fleet *f, struct node *n)
{
    struct list *next = NULL;

    for (struct list *at = list_first(&f->streams); at != NULL; at = next) {
        struct stream *s = container_of(at, struct stream, node);
        next = list_next(&f->streams, at);
        if (s->to == n) stream_free(s);
    }
}

void fleet_free(struct fleet *f)
{
    assert(list_is_empty(&f->streams)); /* every node has ended */
    for (uint32_t i = 0; i < f->n; i++) {
        struct pawn *pawn = &f->pawns[i];
        pawn_drop_items(pawn);
        remote_free(pawn->remote);
        memory_forget_all(pawn);
        map_release(&pawn->memories);
        moment_cancel(f->w, &pawn->revive);
        for (uint32_t s = 0; s < SHARDS_MAX; s++) moment_cancel(f->w, &pawn->connect[s]);
    }
    mem_give(mem_process(), f, sizeof *f);
}
