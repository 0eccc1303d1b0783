/* SPDX-License-Identifier: Apache-2.0
 *
 * From a request to an input, or to an answer. What an input names must be in memory or certainly
 * nowhere; else the request is parked with the loader and comes here again.
 */
#include "host/rows.h"
#include "host/state.h"

#include "core/entity_id.h"
#include "core/limits.h"

#include <stdarg.h>
#include <stdio.h>

void request_answer(struct host *h, struct request *request)
{
    list_push_back(&h->open->replies, &request->node);
}

void request_refuse(struct host *h, struct request *request, enum status status, const char *format,
                    ...)
{
    va_list arguments;

    assert(status != OK);
    request->status = status;
    va_start(arguments, format);
    int n = vsnprintf(request->text, sizeof request->text, format, arguments);
    va_end(arguments);
    assert(n >= 0);
    list_push_back(&h->refused, &request->node);
}

/* Done at once, and nothing durable to wait for. */
static void answer_now(struct host *h, struct request *request, enum status status)
{
    request->status = status;
    list_push_back(&h->refused, &request->node);
}

/* ---- back-pressure ---- */

/* Signals that a worker will read may use the reserve. */
static size_t hot_max_for(const struct host *h, const struct request *request)
{
    size_t hot_max = h->options.hot_bytes_max;

    if (request->kind != REQUEST_SIGNAL || host_hot_bytes(h) <= hot_max) return hot_max;
    struct bytes name = entity_id_name(key_id(request->key));
    bool is_served = dispatcher_serves(&h->dispatcher, WORK_ENTITY, name);
    return is_served ? host_hot_reserve_max(h) : hot_max;
}

/* What makes the engine grow is refused when it is full; everything that makes it shrink goes on.
 * True when it was refused. */
static bool refuse_growth(struct host *h, struct request *request, uint32_t index)
{
    if (request->kind != REQUEST_START && request->kind != REQUEST_RAISE &&
        request->kind != REQUEST_SIGNAL && request->kind != REQUEST_IMPORT) {
        return false;
    }
    if (host_is_disk_low(h)) {
        request_refuse(h, request, E_NOSPACE,
                       "the disk is full: free space, or purge finished instances, then try again");
        return true;
    }
    if (request->kind == REQUEST_RAISE) return false;
    if (request->kind == REQUEST_START && !core_has(h->cores[index], request->key))
        return false; /* it waits in the journal when there is no room */
    if (archiver_lag(h) > h->options.archive_lag_max) {
        request_refuse(h, request, E_LIMIT,
                       "the archive is too far behind (store.archive_lag_max): try again later");
        return true;
    }
    if (host_hot_bytes(h) <= hot_max_for(h, request)) return false;
    request_refuse(h, request, E_LIMIT,
                   "the memory for instances is used up (store.hot_memory_max): try again later");
    return true;
}

/* ---- inputs ---- */

static enum input_kind client_kind(enum request_kind kind)
{
    if (kind == REQUEST_RAISE) return INPUT_CLIENT_RAISE;
    if (kind == REQUEST_TERMINATE) return INPUT_CLIENT_TERMINATE;
    if (kind == REQUEST_SUSPEND) return INPUT_CLIENT_SUSPEND;
    if (kind == REQUEST_RESUME) return INPUT_CLIENT_RESUME;
    if (kind == REQUEST_REWIND) return INPUT_CLIENT_REWIND;
    if (kind == REQUEST_RESTART) return INPUT_CLIENT_RESTART;
    if (kind == REQUEST_PURGE) return INPUT_CLIENT_PURGE;
    if (kind == REQUEST_IMPORT) return INPUT_CLIENT_IMPORT;
    assert(kind == REQUEST_RESUBMIT);
    return INPUT_CLIENT_RESUBMIT;
}

static void input_of_client(const struct request *request, struct input *in)
{
    in->kind = client_kind(request->kind);
    in->client.key = request->key;
    in->client.name = request->client.name;
    in->client.data = request->client.data;
    in->client.recurse = request->client.recurse;
    in->client.is_forced = request->client.is_forced;
    in->client.task_id = request->client.task_id;
}

static void input_of_lease(const struct request *request, struct input *in)
{
    in->kind = request->kind == REQUEST_RENEW ? INPUT_WORKER_RENEW : INPUT_WORKER_ABANDON;
    in->lease.ref = request->lease.ref;
    in->lease.is_lost = request->lease.is_lost;
    in->lease.is_unsent = request->lease.is_unsent;
    in->lease.is_parked = request->lease.is_parked;
    in->lease.reason = request->lease.reason;
    in->lease.extend_ms = request->lease.extend_ms;
    in->lease.is_limit = request->lease.is_limit;
}

static void input_of(const struct request *request, struct input *in)
{
    if (request->kind == REQUEST_START) {
        in->kind = INPUT_CLIENT_START;
        in->start = request->start;
        in->start.key = request->key;
    } else if (request->kind == REQUEST_SIGNAL) {
        in->kind = INPUT_CLIENT_SIGNAL;
        in->signal = request->signal;
        in->signal.key = request->key;
    } else if (request->kind == REQUEST_TURN_DONE || request->kind == REQUEST_TASK_DONE ||
               request->kind == REQUEST_ENTITY_DONE) {
        in->kind = request->kind == REQUEST_TURN_DONE   ? INPUT_WORKER_TURN_DONE
                   : request->kind == REQUEST_TASK_DONE ? INPUT_WORKER_TASK_DONE
                                                        : INPUT_WORKER_ENTITY_DONE;
        in->done = request->worker_done;
        in->done.key = request->key;
    } else if (request->kind == REQUEST_ABANDON || request->kind == REQUEST_RENEW) {
        input_of_lease(request, in);
    } else {
        input_of_client(request, in);
    }
}

/* When the start of its instance waits, the record says all that is asked: it waits on. */
static bool is_told_by_record(const struct request *request)
{
    if (request->kind == REQUEST_PURGE) return !request->client.is_forced;
    return request->kind == REQUEST_START || request->kind == REQUEST_RESUME ||
           request->kind == REQUEST_REWIND || request->kind == REQUEST_RESTART ||
           request->kind == REQUEST_RESUBMIT || request->kind == REQUEST_IMPORT;
}

/* Its instance is not at hand. */
static void run_later(struct host *h, struct request *request, uint32_t index)
{
    bool may_wait = loader_may_wait(h, index, request->key);

    if (may_wait && is_told_by_record(request)) {
        loader_look(h, request);
        return;
    }
    if (may_wait && request->kind == REQUEST_RAISE && admission_held_by(h) != NULL) {
        request_refuse(h, request, E_LIMIT,
                       "the instance's start waits to be admitted, and there is no room for it "
                       "now (%s): try again later",
                       admission_held_by(h));
        return;
    }
    enum status status = loader_load(h, index, request->key, request);
    if (status != OK) request_refuse(h, request, status, "too much waits for the archive");
}

/* waiting: the record of its start, when that waits; else empty. */
static void step(struct host *h, struct request *request, uint32_t index, struct bytes waiting)
{
    struct input in = {0};

    if (refuse_growth(h, request, index)) return;
    input_of(request, &in);
    in.waiting = waiting;
    if (host_step(h, index, &in, request) != OK) {
        request_refuse(h, request, E_NOMEM, "out of memory: try again later");
        return;
    }
    if (request->kind == REQUEST_PURGE && request->status == OK) request->purged_n = 1;
    if (request->is_untold)
        request->done(request);
    else
        request_answer(h, request);
}

static void run_step(struct host *h, struct request *request, uint32_t index)
{
    if (loader_is_at_hand(h, index, request->key))
        step(h, request, index, BYTES_NONE);
    else
        run_later(h, request, index);
}

/* ---- what other shards send ---- */

static void run_message(struct host *h, struct request *request)
{
    uint32_t to = request->message.to;

    if (to >= h->options.partitions_n || !host_has_partition(h, to)) {
        request_refuse(h, request, E_INVALID, "partition %u is not here", to);
        return;
    }
    uint32_t index = host_index(h, to);
    if (request->kind == REQUEST_ACK) {
        struct input in = {
            .kind = INPUT_PARTITION_ACK,
            .ack = {.from = request->message.from, .seq = request->message.seq},
        };
        (void)host_step(h, index, &in, NULL); /* without memory: it comes again */
    } else {
        struct message message = {
            .from = request->message.from,
            .seq = request->message.seq,
            .kind = request->message.kind,
            .target = request->key,
            .execution = request->message.execution,
            .event = request->message.event,
        };
        messages_arrive(h, index, &message);
    }
    /* The sender's core waits for an acknowledgement of its own, which comes after durability. */
    answer_now(h, request, OK);
}

/* ---- reads ---- */

static bool is_waiting_over(const struct request *request, const struct instance_view *view)
{
    return request->wait.until_finished ? view->is_terminal : view->status != STATUS_PENDING;
}

/* With a copy of the view in the batch: what it shows may not be durable yet. */
static void answer_view(struct host *h, struct request *request, const struct instance_view *view)
{
    struct arena *arena = &h->open->arena;
    struct instance_view *copy = arena_alloc(arena, sizeof *copy);

    if (copy == NULL || view_copy(view, true, arena, copy) != OK) {
        request_refuse(h, request, E_NOMEM, "out of memory: try again later");
        return;
    }
    request->status = OK;
    request->view = copy;
    request_answer(h, request);
}

static void answer_unknown(struct host *h, struct request *request)
{
    request->view = NULL;
    request->events = BYTES_NONE;
    request->status = request->kind == REQUEST_HISTORY ? E_NOT_FOUND : OK;
    request_answer(h, request);
}

static void wait_on(struct host *h, struct request *request)
{
    enum status status = waiters_add(&h->waiters, request);

    if (status != OK) request_refuse(h, request, status, "too many requests wait for instances");
}

static void see_hot(struct host *h, struct request *request, uint32_t index,
                    const struct instance_view *view)
{
    if (request->kind == REQUEST_HISTORY) {
        history_see_hot(h, request, index, view);
    } else if (request->kind == REQUEST_CHILDREN) {
        children_see_hot(h, request, index, view);
    } else if (request->kind == REQUEST_WAIT && !is_waiting_over(request, view)) {
        wait_on(h, request);
    } else {
        answer_view(h, request, view);
    }
}

static void run_read(struct host *h, struct request *request, uint32_t index)
{
    struct instance_view view;

    if (core_view(h->cores[index], request->key, &view)) {
        if (view.is_purged)
            answer_unknown(h, request);
        else
            see_hot(h, request, index, &view);
    } else if (!loader_may_have(h, request->key)) {
        answer_unknown(h, request);
    } else {
        loader_look(h, request);
    }
}

void request_see(struct host *h, struct request *request, struct bytes snapshot)
{
    struct arena *arena = &h->open->arena;
    struct instance_view view;

    if (snapshot.len == 0) {
        answer_unknown(h, request);
        return;
    }
    if (request->kind == REQUEST_HISTORY) {
        history_see_archived(h, request, snapshot);
        return;
    }
    enum status status = snapshot_view(snapshot, arena, &view);
    if (status != OK) {
        request_refuse(h, request, status, "the archived instance cannot be read");
    } else if (request->kind == REQUEST_CHILDREN) {
        children_see_archived(h, request, snapshot, &view);
    } else if (request->kind == REQUEST_WAIT && !is_waiting_over(request, &view)) {
        wait_on(h, request); /* it sleeps; it is loaded before it goes on */
    } else {
        answer_view(h, request, &view);
    }
}

void request_see_waiting(struct host *h, struct request *request, struct bytes record)
{
    struct instance_view view;

    if (is_told_by_record(request)) {
        step(h, request, host_index_of(h, request->key), record);
        return;
    }
    enum status status = queued_view(record, &h->open->arena, &view);
    if (status != OK) {
        request_refuse(h, request, status, "the instance cannot be read from the journal");
    } else if (request->kind == REQUEST_HISTORY || request->kind == REQUEST_CHILDREN) {
        history_see_waiting(h, request, &view);
    } else if (request->kind == REQUEST_WAIT) {
        wait_on(h, request);
    } else if (request->kind == REQUEST_WHY) {
        why_see_waiting(h, request, &view);
    } else {
        answer_view(h, request, &view);
    }
}

/* Nothing durable is told: both answers go out in this turn, in this order. */
static void run_cancel(struct host *h, struct request *request)
{
    const struct request *wait = request->cancelled;

    if (waiters_remove(&h->waiters, request->key, wait)) {
        request_refuse(h, (struct request *)(uintptr_t)wait, E_TIMEOUT, WAIT_OVER);
    } else if (!loader_cancel(h, wait)) {
        answer_now(h, request, E_NOT_FOUND);
        return;
    }
    answer_now(h, request, OK);
}

void requests_notify(struct host *h, uint32_t index, struct bytes key)
{
    struct list over;
    struct instance_view view;

    if (!waiters_has(&h->waiters, key)) return;
    bool is_there = host_view(h, index, key, &view);
    if (is_there && view.status == STATUS_PENDING) return;
    list_init(&over);
    waiters_take(&h->waiters, key, !is_there || view.is_terminal, &over);
    struct list *node;
    while ((node = list_pop_front(&over)) != NULL) {
        struct request *request = container_of(node, struct request, node);
        if (is_there)
            answer_view(h, request, &view);
        else
            answer_unknown(h, request);
    }
}

/* ---- purges of many ---- */

static void run_purge_where(struct host *h, struct request *request)
{
    if (request->purge.query.hub.len == 0) {
        request_refuse(h, request, E_INVALID, "a purge needs the name of a hub");
        return;
    }
    enum status status = purge_where(&h->purger, request);
    if (status != OK) request_refuse(h, request, status, "too many purges are under way");
}

/* ---- workers ---- */

static void run_worker(struct host *h, struct request *request)
{
    struct worker *worker = request->worker.worker;
    enum status status;

    if (request->kind == REQUEST_WORKER_ATTACH) {
        status = dispatcher_attach(&h->dispatcher, worker);
    } else if (request->kind == REQUEST_WORKER_DETACH) {
        status = dispatcher_detach(&h->dispatcher, worker);
    } else {
        status = dispatcher_credit(&h->dispatcher, worker, request->worker.turns,
                                   request->worker.tasks, request->worker.entities);
    }
    if (request->kind != REQUEST_WORKER_CREDIT) backlog_workers_changed(h->backlog);
    answer_now(h, request, status);
}

/* ---- sources and the backlog ---- */

static void run_position(struct host *h, struct request *request)
{
    uint32_t partition = request->position.partition;
    struct input in = {.kind = INPUT_SOURCE_POSITION, .position = request->position.at};

    if (partition >= h->options.partitions_n || !host_has_partition(h, partition)) {
        request_refuse(h, request, E_INVALID, "partition %u is not here", partition);
    } else if (host_step(h, host_index(h, partition), &in, request) != OK) {
        request_refuse(h, request, E_NOMEM, "out of memory: try again later");
    } else {
        request_answer(h, request);
    }
}

/* Answered with the batch: what memory has is durable then. */
static void run_source(struct host *h, struct request *request)
{
    for (uint32_t i = 0; i < h->cores_n; i++) {
        request->source.positions[host_partition(h, i)] =
            core_source_position(h->cores[i], request->source.name);
    }
    request->status = OK;
    request_answer(h, request);
}

static void run_backlog(struct host *h, struct request *request)
{
    struct backlog_name_view *names = request->backlog.names;
    size_t n_max = request->backlog.n_max;

    if (n_max > BACKLOG_NAMES_N_MAX) n_max = BACKLOG_NAMES_N_MAX;
    request->backlog.n = backlog_names(h->backlog, names, n_max);
    for (size_t i = 0; i < request->backlog.n; i++) {
        struct bytes copy = arena_copy(&h->open->arena, names[i].name);
        if (copy.len != names[i].name.len) {
            request_refuse(h, request, E_NOMEM, "out of memory: try again later");
            return;
        }
        names[i].name = copy;
    }
    request->status = OK;
    request_answer(h, request);
}

/* ---- all of them ---- */

bool key_fits(struct bytes key)
{
    return key_is_complete(key) && key.len <= LIMIT_HUB_SIZE + 1 + LIMIT_ID_SIZE;
}

/* The index of its instance's partition. False, and refused, when it names none that could be
 * here. */
static bool find_index(struct host *h, struct request *request, uint32_t *index)
{
    if (ahead_index(h, request, index)) return true;
    if (!key_fits(request->key)) {
        request_refuse(h, request, E_INVALID,
                       "no instance has such an id: it has 1 to 100 bytes (those of children up to "
                       "256), its hub 1 to 64");
        return false;
    }
    uint32_t partition = partition_of(request->key, h->options.partitions_n);
    if (!host_has_partition(h, partition)) {
        request_refuse(h, request, E_INVALID, "the instance belongs to another shard");
        return false;
    }
    *index = host_index(h, partition);
    return true;
}

void request_run(struct host *h, struct request *request)
{
    uint32_t index;

    switch (request->kind) {
    case REQUEST_PURGE:
        if (!find_index(h, request, &index)) return;
        if (request->client.recurse &&
            (request->client.is_forced || !loader_may_wait(h, index, request->key)))
            purge_run(h, request);
        else
            run_step(h, request, index);
        return;
    case REQUEST_START:
    case REQUEST_RAISE:
    case REQUEST_TERMINATE:
    case REQUEST_SUSPEND:
    case REQUEST_RESUME:
    case REQUEST_REWIND:
    case REQUEST_RESTART:
    case REQUEST_RESUBMIT:
    case REQUEST_SIGNAL:
    case REQUEST_IMPORT:
    case REQUEST_TURN_DONE:
    case REQUEST_TASK_DONE:
    case REQUEST_ENTITY_DONE:
    case REQUEST_ABANDON:
    case REQUEST_RENEW:
        if (find_index(h, request, &index)) run_step(h, request, index);
        return;
    case REQUEST_WHY:
        if (find_index(h, request, &index)) why_run(h, request, index);
        return;
    case REQUEST_ALERTS: alerts_run(h, request); return;
    case REQUEST_GET:
    case REQUEST_HISTORY:
    case REQUEST_CHILDREN:
    case REQUEST_WAIT:
        if (find_index(h, request, &index)) run_read(h, request, index);
        return;
    case REQUEST_CANCEL:
        if (find_index(h, request, &index)) run_cancel(h, request);
        return;
    case REQUEST_MESSAGE:
        if (find_index(h, request, &index)) run_message(h, request);
        return;
    case REQUEST_ACK: run_message(h, request); return;
    case REQUEST_QUERY: queries_add(h, request); return;
    case REQUEST_PURGE_WHERE: run_purge_where(h, request); return;
    case REQUEST_WORKER_ATTACH:
    case REQUEST_WORKER_CREDIT:
    case REQUEST_WORKER_DETACH: run_worker(h, request); return;
    case REQUEST_POSITION: run_position(h, request); return;
    case REQUEST_SOURCE: run_source(h, request); return;
    case REQUEST_BACKLOG: run_backlog(h, request); return;
    case REQUEST_STATS:
        host_stats(h, request->stats);
        answer_now(h, request, OK);
        return;
    }
    unreachable("no such request");
}
