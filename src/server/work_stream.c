/* SPDX-License-Identifier: Apache-2.0
 *
 * One GetWorkItems call: a worker attached to every shard of the engine. Work comes as parcels and
 * goes out as messages; what the peer does not read stays small, because the engine gets credit
 * for a window of pieces at a time, and for none while the call is full.
 *
 * Each shard has one request to the engine under way at most: ATTACH, then CREDIT as often as
 * half of its window is used, then DETACH.
 */
#include "server/work.h"
#include "server/work_wish.h"

#include "base/log.h"
#include "base/planted.h"

#include <stdio.h>
#include <stdlib.h>

/* What may come at once, of each kind: so many pieces, or so many bytes together. */
#define WINDOW_N_MAX ((size_t)64)
#define WINDOW_SIZE ((size_t)256 << 10)
/* Before the first message was seen. */
#define AVERAGE_SIZE_FIRST ((size_t)1 << 10)

/* ---- on a host's thread ---- */

static void deliver(struct worker *worker, const struct effect_work *work)
{
    const struct work_shard *shard = worker->user;
    const struct work_stream *stream = shard->stream;
    struct parcel *parcel = work_item_pack(&stream->recipe, worker, work);

    if (parcel == NULL) {
        /* Nobody would ever know that it was given. After a restart it is offered again. */
        log_error("there is no memory to hand out work: stopping, a restart gives it out again");
        abort();
    }
    desk_put(stream->desk, parcel);
}

/* ---- credit ---- */

static size_t window_n(const struct work_stream *stream)
{
    size_t n = WINDOW_SIZE / WORK_KINDS_N / stream->average_size;

    if (n > WINDOW_N_MAX) return WINDOW_N_MAX;
    return n > 0 ? n : 1;
}

/* How much credit each shard should have. */
static uint32_t share(const struct work_stream *stream, enum work_kind kind)
{
    uint32_t limit = stream->limit[kind];
    uint32_t in_flight = stream->in_flight[kind];
    uint32_t window = (uint32_t)window_n(stream);

    if (planted("ignore_work_limit")) return window;
    if (in_flight >= limit) return 0;
    uint32_t n = limit - in_flight < window ? limit - in_flight : window;
    return n >= stream->shards_n ? n / stream->shards_n : 1;
}

/* How much more a shard gets now: nothing before half of its share is used, so that one request
 * serves many pieces. Counted as given. */
static uint32_t shard_credit(struct work_shard *shard, enum work_kind kind)
{
    uint32_t wanted = share(shard->stream, kind);
    uint32_t has = shard->credit[kind];

    if (has >= wanted || has > wanted / 2) return 0;
    shard->credit[kind] = wanted;
    return wanted - has;
}

static void shard_ask(struct work_shard *shard);
static void settle(struct work_stream *stream);

static void shard_asked(struct errand *errand)
{
    struct work_shard *shard = errand->user;
    struct work_stream *stream = shard->stream;
    enum request_kind kind = errand->request.kind;
    enum status status = errand->request.status;

    errand_free(errand);
    shard->is_asking = false;
    if (kind == REQUEST_WORKER_ATTACH && status == OK) shard->id = shard->worker.id;
    if (kind == REQUEST_WORKER_DETACH) {
        shard->state = SHARD_GONE;
    } else if (status != OK && kind == REQUEST_WORKER_ATTACH) {
        shard->state = SHARD_GONE;
        if (stream->call != NULL) {
            call_fail(stream->service, stream->call, GRPC_UNAVAILABLE,
                      "the engine takes no worker now: try again in a moment");
            stream->call = NULL;
            stream_close(stream);
            return;
        }
    }
    shard_ask(shard);
    settle(stream);
}

static void post(struct work_shard *shard, struct errand *errand)
{
    struct work_stream *stream = shard->stream;
    struct service *s = stream->service;

    errand->request.worker.worker = &shard->worker;
    errand->done = shard_asked;
    errand->user = shard;
    shard->is_asking = true;
    if (!s->workers.is_stopped && errand_post(errand, (int)shard->number)) return;
    errand_free(errand);
    shard->is_asking = false;
    if (list_is_linked(&stream->stuck)) return;
    list_push_back(&s->workers.stuck, &stream->stuck);
    work_retry_soon(s);
}

/* NULL, and tried again later, without memory. */
static struct errand *request_new(struct work_stream *stream, enum request_kind kind)
{
    struct service *s = stream->service;
    struct errand *errand = errand_new(s->desk, kind, NULL);

    if (errand == NULL && !list_is_linked(&stream->stuck)) {
        list_push_back(&s->workers.stuck, &stream->stuck);
        work_retry_soon(s);
    }
    return errand;
}

static void shard_attach(struct work_shard *shard)
{
    struct errand *errand = request_new(shard->stream, REQUEST_WORKER_ATTACH);

    if (errand == NULL) return;
    shard->worker.turns_credit = shard->credit[WORK_TURN] = share(shard->stream, WORK_TURN);
    shard->worker.tasks_credit = shard->credit[WORK_TASK] = share(shard->stream, WORK_TASK);
    shard->worker.entities_credit = shard->credit[WORK_ENTITY] = share(shard->stream, WORK_ENTITY);
    post(shard, errand);
    if (shard->is_asking) shard->state = SHARD_ATTACHED;
}

static void shard_more(struct work_shard *shard)
{
    struct work_stream *stream = shard->stream;

    if (grpc_is_full(stream->call)) return; /* workers_writable() comes back here */
    uint32_t had[WORK_KINDS_N];
    memcpy(had, shard->credit, sizeof had);
    uint32_t turns = shard_credit(shard, WORK_TURN);
    uint32_t tasks = shard_credit(shard, WORK_TASK);
    uint32_t entities = shard_credit(shard, WORK_ENTITY);
    if (turns + tasks + entities == 0) return;
    struct errand *errand = request_new(stream, REQUEST_WORKER_CREDIT);
    if (errand != NULL) {
        errand->request.worker.turns = turns;
        errand->request.worker.tasks = tasks;
        errand->request.worker.entities = entities;
        post(shard, errand);
    }
    if (!shard->is_asking) memcpy(shard->credit, had, sizeof had);
}

/* Frees a stream that is closed and detached from all shards. */
static void settle(struct work_stream *stream)
{
    if (stream->call != NULL) return;
    for (uint32_t n = 0; n < stream->shards_n; n++) {
        if (stream->shards[n].state != SHARD_GONE) return;
    }
    work_stream_free(stream);
}

/* What this shard needs next. */
static void shard_ask(struct work_shard *shard)
{
    struct work_stream *stream = shard->stream;

    if (shard->is_asking) return;
    if (stream->call != NULL) {
        if (shard->state == SHARD_NEW)
            shard_attach(shard);
        else if (shard->state == SHARD_ATTACHED)
            shard_more(shard);
        return;
    }
    if (shard->state == SHARD_NEW) shard->state = SHARD_GONE;
    if (shard->state == SHARD_ATTACHED) {
        struct errand *errand = request_new(stream, REQUEST_WORKER_DETACH);
        if (errand != NULL) post(shard, errand);
    }
}

/* May free a stream that is closing. */
void stream_ask(struct work_stream *stream)
{
    for (uint32_t n = 0; n < stream->shards_n; n++) shard_ask(&stream->shards[n]);
    settle(stream);
}

void stream_top_up(struct work_stream *stream)
{
    if (stream->call != NULL) stream_ask(stream);
}

/* ---- work ---- */

static void touch(struct work_stream *stream)
{
    stream->sent_ns = stream->service->now_ns;
    list_remove(&stream->quiet);
    list_push_back(&stream->service->workers.quiet, &stream->quiet);
}

void stream_lend(struct work_stream *stream, struct lease *lease)
{
    lease->stream = stream;
    list_push_back(&stream->leases, &lease->of_owner);
    stream->in_flight[lease->ref.kind]++;
}

static enum status send(struct work_stream *stream, const struct parcel *parcel)
{
    struct service *s = stream->service;
    struct lease *lease = lease_new(s, &parcel->ref, parcel->history_n);

    if (lease == NULL) return E_NOMEM;
    enum status status = grpc_send(stream->call, buffer_view(&parcel->message));
    if (status != OK) {
        lease_end(s, lease);
        return status;
    }
    stream_lend(stream, lease);
    touch(stream);
    stream->average_size = (7 * stream->average_size + parcel->message.len) / 8 + 1;
    s->stats.work_items++;
    if (parcel->is_streamed) s->stats.work_streamed++;
    return OK;
}

static void parcel_give_back(struct service *s, struct parcel *parcel)
{
    bool is_given;

    if (parcel->message.failed) {
        is_given = work_give_back(s, &parcel->ref, GIVE_ABANDONED,
                                  "there was no memory for the message of this work");
    } else if (parcel->message.len > 0) {
        is_given = work_give_back(s, &parcel->ref, GIVE_UNSENT, "");
    } else {
        char reason[160];
        (void)snprintf(reason, sizeof reason,
                       "the message of this work has %llu bytes, more than the limit of %zu",
                       (unsigned long long)parcel->size_full, s->options.message_size_max);
        is_given = work_give_back(s, &parcel->ref, GIVE_PARKED, reason);
    }
    if (is_given) {
        parcel_free(parcel);
        return;
    }
    list_push_back(&s->workers.unpacked, &parcel->node);
    work_retry_soon(s);
}

void unpacked_retry(struct service *s)
{
    struct list again;
    struct list *node;

    list_init(&again);
    list_splice_back(&again, &s->workers.unpacked);
    while ((node = list_pop_front(&again)) != NULL) {
        parcel_give_back(s, container_of(node, struct parcel, node));
    }
}

void stream_parcel(struct work_shard *shard, struct parcel *parcel)
{
    struct work_stream *stream = shard->stream;
    enum work_kind kind = parcel->ref.kind;
    enum status status = E_LIMIT;

    assert(shard->credit[kind] > 0);
    shard->credit[kind]--;
    parcel->worker = NULL; /* the parcel may stay longer than its stream */
    bool has_room = stream->call != NULL &&
                    (stream->in_flight[kind] < stream->limit[kind] || planted("ignore_work_limit"));
    if (has_room && !parcel->message.failed && parcel->message.len > 0) {
        status = send(stream, parcel);
    }
    if (status == E_NOMEM) parcel->message.failed = true;
    if (status == OK)
        parcel_free(parcel);
    else
        parcel_give_back(stream->service, parcel);
    if (stream->call != NULL) shard_ask(shard);
}

void stream_ping(struct work_stream *stream)
{
    static const uint8_t ping[] = {0x22, 0x00}; /* WorkItem {4 healthPing {}} */

    touch(stream);
    if (grpc_is_full(stream->call)) return; /* it has something to read */
    if (grpc_send(stream->call, bytes_make(ping, sizeof ping)) == OK) {
        stream->service->stats.health_pings++;
    }
}

/* ---- from birth to death ---- */

void work_stream_free(struct work_stream *stream)
{
    struct service *s = stream->service;

    assert(list_is_empty(&stream->leases));
    assert(!list_is_linked(&stream->quiet));
    if (list_is_linked(&stream->stuck)) list_remove(&stream->stuck);
    list_remove(&stream->node);
    arena_release(&stream->arena);
    mem_give(s->mem, stream, sizeof *stream + stream->shards_n * sizeof stream->shards[0]);
}

/* Whoever has them may still answer. */
static void orphan_leases(struct work_stream *stream)
{
    struct service *s = stream->service;
    int64_t due_ns = s->now_ns + s->options.grace_ms * 1000000;
    struct list *node;

    while ((node = list_pop_front(&stream->leases)) != NULL) {
        struct lease *lease = container_of(node, struct lease, of_owner);
        lease->stream = NULL;
        if (planted("forget_lost_work")) {
            lease_end(s, lease);
            continue;
        }
        lease->due_ns = due_ns;
        list_push_back(&s->workers.orphans, &lease->of_owner);
    }
}

void stream_close(struct work_stream *stream)
{
    struct workers *w = &stream->service->workers;

    stream->call = NULL;
    list_remove(&stream->quiet);
    w->open_n--;
    stream->service->stats.workers_n = w->open_n;
    orphan_leases(stream);
    stream_ask(stream);
}

static struct work_stream *stream_new(struct service *s, struct grpc_call *call)
{
    const struct desk_engine *engine = desk_engine(s->desk);
    uint32_t shards_n = engine->shards_n;
    struct work_stream *stream =
        mem_take_zero(s->mem, sizeof *stream + shards_n * sizeof stream->shards[0]);

    if (stream == NULL) return NULL;
    stream->user.kind = CALL_WORK;
    stream->service = s;
    stream->desk = s->desk;
    stream->call = call;
    stream->recipe = (struct work_recipe){
        .mac_key = engine->mac_key,
        .desk = s->desk,
        .message_size_max = s->options.message_size_max,
        .history_size_max = s->options.history_size_max,
    };
    stream->average_size = AVERAGE_SIZE_FIRST;
    stream->sent_ns = s->now_ns;
    stream->opened_ns = s->now_ns;
    stream->shards_n = shards_n;
    arena_init(&stream->arena, s->mem, 256);
    list_init(&stream->leases);
    list_push_back(&s->workers.streams, &stream->node);
    return stream;
}

/* What it calls itself, or its SDK does, and where it is. */
static struct bytes name_of(struct work_stream *stream, const struct grpc_call *call)
{
    static const char *const headers[] = {"workerid", "x-user-agent", "user-agent"};
    struct bytes own_name = BYTES_NONE;

    for (size_t n = 0; n < sizeof headers / sizeof *headers && own_name.len == 0; n++) {
        own_name = grpc_header(call, headers[n]);
    }
    return worker_name_make(&stream->arena, own_name, grpc_peer(call));
}

static void stream_wish(struct work_stream *stream, struct bytes hub, struct bytes name,
                        const struct work_wish *wish)
{
    uint32_t most = stream->service->options.in_flight_n_max;

    stream->recipe.can_stream = wish->can_stream;
    stream->recipe.is_own = wish->is_own;
    for (size_t kind = 0; kind < WORK_KINDS_N; kind++) {
        uint32_t limit = wish->limit[kind];
        stream->limit[kind] = limit == 0 || limit > most ? most : limit;
    }
    for (uint32_t n = 0; n < stream->shards_n; n++) {
        struct work_shard *shard = &stream->shards[n];
        shard->stream = stream;
        shard->number = n;
        shard->worker = (struct worker){
            .hub = hub,
            .name = name,
            .deliver = deliver,
            .user = shard,
            .has_filters = wish->has_filters,
            .turn_filters = wish->filters[WORK_TURN],
            .turn_filters_n = wish->filters_n[WORK_TURN],
            .task_filters = wish->filters[WORK_TASK],
            .task_filters_n = wish->filters_n[WORK_TASK],
            .entity_filters = wish->filters[WORK_ENTITY],
            .entity_filters_n = wish->filters_n[WORK_ENTITY],
            .wants_history = true,
        };
    }
}

/* Fills in a stream that nobody knows yet. */
static enum status stream_prepare(struct work_stream *stream, const struct grpc_call *call,
                                  struct bytes hub, struct bytes message)
{
    struct work_wish wish;
    struct bytes own_hub = arena_copy(&stream->arena, hub);

    if (own_hub.len != hub.len) return E_NOMEM;
    enum status status = work_wish_read(message, &stream->arena, &wish);
    if (status == OK) stream_wish(stream, own_hub, name_of(stream, call), &wish);
    return status;
}

void rpc_get_work_items(struct service *s, struct grpc_call *call, struct bytes message)
{
    struct workers *w = &s->workers;
    struct bytes hub;

    if (!call_check(s, call, &get_work_items_request__descriptor, message)) return;
    if (!call_hub(s, call, &hub)) return;
    if (w->open_n >= s->options.workers_n_max) {
        call_fail(s, call, GRPC_RESOURCE_EXHAUSTED,
                  "there are %u work streams already, the limit (workers_n_max)", w->open_n);
        return;
    }
    struct work_stream *stream = stream_new(s, call);
    if (stream == NULL) {
        call_fail_busy(s, call);
        return;
    }
    enum status status = stream_prepare(stream, call, hub, message);
    if (status != OK) {
        work_stream_free(stream);
        if (status == E_LIMIT)
            call_fail(s, call, GRPC_INVALID_ARGUMENT,
                      "the filters have more than %u names and versions", WISH_FILTERS_N_MAX);
        else
            call_fail_busy(s, call);
        return;
    }
    grpc_set_user(call, &stream->user);
    list_push_back(&w->quiet, &stream->quiet);
    w->open_n++;
    s->stats.workers_n = w->open_n;
    stream_ask(stream);
}
