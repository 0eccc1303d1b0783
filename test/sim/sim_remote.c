/* SPDX-License-Identifier: Apache-2.0
 *
 * See sim_remote.h. One job is one WorkItem:
 *
 *      working ──> (fetching its history) ──> sending ──OK──> (sending again) ──> done
 *                                               ^  └─ unknown: later, perhaps on another connection
 *                                               └────────┘
 *
 * A job of a worker without tokens ends with its stream.
 */
#include "test/sim/sim_remote.h"

#include "base/assert.h"
#include "base/mem.h"
#include "test/sim/sim_client.h"
#include "test/sim/sim_entity.h"
#include "test/sim/sim_front.h"
#include "test/sim/sim_link.h"
#include "test/sim/sim_message.h"
#include "test/sim/sim_programs.h"

#define SERVICE "/TaskHubSidecarService/"
#define TIMEOUT_MS 30000
#define LIMIT_MAX 8

enum job_phase { JOB_WORKING, JOB_FETCHING, JOB_SENDING, JOB_SENDING_AGAIN };

struct job {
    struct list node; /* in remote->jobs */
    struct remote *remote;
    struct arena arena;
    enum job_phase phase;
    struct work_item item; /* in the arena */
    struct work_ref ref;   /* what its token says; workers cannot read it */
    struct bytes key;
    struct buffer history;
    uint64_t stream;    /* number of the stream it came on */
    bool is_sent;       /* an answer has left, whatever became of it */
    bool is_zombie;     /* what is sent again is another answer */
    bool is_abandoning; /* what is sent gives it back */
    struct link *link;  /* of the call that is open */
    struct client_call *call;
    struct moment moment;
};

struct remote {
    struct world *w;
    uint32_t index;
    struct bytes hub;
    bool is_up;
    bool has_tokens;
    bool has_two; /* answers go over a connection of their own */
    struct work_limits limits;
    struct link *stream_link;
    struct link *answer_link; /* when has_two */
    struct client_call *stream;
    uint64_t streams_n;
    struct list jobs;
    struct moment connect;
};

/* ---- jobs ---- */

static void job_free(struct job *job)
{
    if (job->call != NULL) {
        struct remote *r = job->remote;
        bool is_open = job->link == r->stream_link || job->link == r->answer_link;
        link_cancel(is_open ? job->link : NULL, job->call);
    }
    moment_cancel(job->remote->w, &job->moment);
    list_remove(&job->node);
    buffer_release(&job->history);
    arena_release(&job->arena);
    mem_give(mem_process(), job, sizeof *job);
}

static void jobs_free(struct remote *r)
{
    struct list *at = NULL;

    while ((at = list_first(&r->jobs)) != NULL) job_free(container_of(at, struct job, node));
}

static void job_later(struct job *job)
{
    struct world *w = job->remote->w;

    moment_after(w, &job->moment, rng_between(&w->rng, 1, 1000) * NS_PER_MS);
}

static void job_say(const struct job *job, const char *what, int code)
{
    sim_say(job->remote->w, SIM_LOG_FULL, "worker", "%u %s %.*s kind %d task %d attempt %u: %d",
            job->remote->index, what, (int)job->key.len, (const char *)job->key.ptr,
            (int)job->item.kind, job->item.task_id, job->ref.attempt, code);
}

/* ---- connections ---- */

static void connect_later(struct remote *r)
{
    struct world *w = r->w;
    int64_t span_ms = w->is_healed ? 10 : rng_between(&w->rng, 1, 2000);

    if (r->is_up && !moment_is_set(&r->connect)) moment_after(w, &r->connect, span_ms * NS_PER_MS);
}

/* Without tokens nobody could tell an answer to this from one to what is given out next. */
static void drop_nameless(struct remote *r)
{
    struct list *next = NULL;

    if (r->has_tokens) return;
    for (struct list *at = list_first(&r->jobs); at != NULL; at = next) {
        next = list_next(&r->jobs, at);
        job_free(container_of(at, struct job, node));
    }
}

static void close_stream(struct remote *r)
{
    struct link *link = r->stream_link;

    r->stream_link = NULL;
    r->stream = NULL;
    drop_nameless(r);
    if (link != NULL) link_close(link);
    connect_later(r);
}

static void close_answers(struct remote *r)
{
    struct link *link = r->answer_link;

    r->answer_link = NULL;
    if (link != NULL) link_close(link);
}

static void on_stream_lost(void *user)
{
    struct remote *r = user;

    r->stream_link = NULL;
    close_stream(r);
}

static void on_answers_lost(void *user) { ((struct remote *)user)->answer_link = NULL; }

/* Where an answer goes now; NULL: nowhere. */
static struct link *answer_link(struct remote *r)
{
    if (!r->has_two) {
        if (r->stream_link != NULL && link_is_closing(r->stream_link)) return NULL;
        return r->stream_link;
    }
    if (r->answer_link != NULL && link_is_closing(r->answer_link)) close_answers(r);
    if (r->answer_link == NULL) r->answer_link = link_open(r->w, r->hub, on_answers_lost, r);
    return r->answer_link;
}

/* ---- work comes ---- */

static void on_job(struct moment *m);

/* W1: what was received and is not answered is never more than was asked for. What another worker
 * has answered meanwhile does not count: it may have had it before. */
static void check_limit(const struct job *job)
{
    const struct remote *r = job->remote;
    uint32_t n = 0;

    for (struct list *at = list_first(&r->jobs); at != NULL; at = list_next(&r->jobs, at)) {
        const struct job *other = container_of(at, struct job, node);
        bool counts = other->item.kind == job->item.kind && other->stream == job->stream;
        if (counts && !other->is_sent && front_has_lease(r->w->front, &other->ref)) n++;
    }
    if (n > r->limits.n[job->item.kind]) {
        sim_fail(r->w, "W1 limit", "worker %u has %u pieces of work, its limit is %u", r->index, n,
                 r->limits.n[job->item.kind]);
    }
}

static void read_token(struct job *job)
{
    const struct front *front = job->remote->w->front;

    if (token_read(job->item.token, front_mac_key(front), &job->arena, &job->ref) != OK) {
        sim_fail(job->remote->w, "W4 item", "a token that its own server cannot read");
    }
    if (!bytes_equal(job->ref.key, job->key)) {
        sim_fail(job->remote->w, "W4 item", "a token of another instance");
    }
}

static void on_item(void *user, struct client_call *call, struct bytes message)
{
    struct remote *r = user;
    struct world *w = r->w;
    struct job *job = mem_take_zero(mem_process(), sizeof *job);

    (void)call;
    assert(job != NULL);
    job->remote = r;
    job->stream = r->streams_n;
    arena_init(&job->arena, mem_process(), 1024);
    buffer_init(&job->history, mem_process());
    moment_init(&job->moment, on_job);
    list_push_back(&r->jobs, &job->node);
    if (!message_read_item(arena_copy(&job->arena, message), &job->arena, &job->item)) {
        sim_fail(w, "W4 item", "a WorkItem that cannot be read");
    }
    if (job->item.is_ping) {
        job_free(job);
        return;
    }
    struct bytes id = job->item.instance_id;
    job->key = text_make(&job->arena, "%.*s/%.*s", (int)r->hub.len, (const char *)r->hub.ptr,
                         (int)id.len, (const char *)id.ptr);
    read_token(job);
    job_say(job, "is given", 0);
    check_limit(job);
    int64_t span_us = chance_span(&w->rng, w->options.work_us);
    if (fault_hits(w, FAULT_KIND_WORKER_SLOW)) span_us += rng_between(&w->rng, 1, 300) * 1000000;
    moment_after(w, &job->moment, span_us * 1000);
}

static void on_stream_end(void *user, struct client_call *call, enum grpc_code code,
                          const char *text)
{
    struct remote *r = user;

    (void)call;
    (void)text;
    r->stream = NULL;
    if (code == GRPC_INVALID_ARGUMENT || code == GRPC_UNIMPLEMENTED || code == GRPC_INTERNAL) {
        sim_fail(r->w, "W4 stream", "GetWorkItems is refused with %d: %s", (int)code, text);
    }
    close_stream(r); /* reconnects, as the SDKs do */
}

static void on_connect(struct moment *m)
{
    struct remote *r = container_of(m, struct remote, connect);
    struct buffer wish;

    if (!r->is_up || r->stream != NULL) return;
    if (r->stream_link == NULL) r->stream_link = link_open(r->w, r->hub, on_stream_lost, r);
    if (r->stream_link == NULL) {
        connect_later(r);
        return;
    }
    buffer_init(&wish, mem_process());
    message_write_wish(&wish, &r->limits);
    struct client_request request = {
        .path = SERVICE "GetWorkItems",
        .message = buffer_view(&wish),
        .on_message = on_item,
        .on_end = on_stream_end,
        .user = r,
    };
    r->streams_n++;
    enum status status = link_begin(r->stream_link, &request, &r->stream);
    buffer_release(&wish);
    if (status != OK) close_stream(r);
}

/* ---- what is answered ---- */

static struct bytes program_of(struct job *job)
{
    struct bytes events[] = {job->item.past, job->item.fresh};
    struct event_started started;
    struct event_head head;
    struct bytes event;

    for (int i = 0; i < 2; i++) {
        struct reader r = reader_make(events[i]);
        while (strings_next(&r, &event)) {
            if (event_peek(event, &head) != OK || head.kind != EVENT_EXECUTION_STARTED) continue;
            if (event_started_decode(event, &job->arena, &started) == OK) return started.name;
        }
    }
    return BYTES_NONE;
}

/* False: the history is not that of this turn (another one is there by now). */
static bool run_turn(struct job *job, struct arena *arena, struct turn_result *result)
{
    struct world *w = job->remote->w;
    struct turn turn = {
        .name = program_of(job),
        .instance_id = job->item.instance_id,
        .past = job->item.past,
        .fresh = job->item.fresh,
    };

    if (turn.name.len == 0) {
        if (job->item.is_streamed) return false;
        sim_fail(w, "W4 item", "%.*s: a turn without its start", (int)job->key.len,
                 (const char *)job->key.ptr);
    }
    program_turn(&turn, arena, result);
    if (result->mismatch == NULL) return true;
    if (job->item.is_streamed) return false;
    if (!crowd_is_tainted(w->crowd, job->key)) {
        sim_fail(w, "S13 replay", "%.*s (%.*s): %s", (int)job->key.len, (const char *)job->key.ptr,
                 (int)turn.name.len, (const char *)turn.name.ptr, result->mismatch);
    }
    return true;
}

static void write_zombie(const struct job *job, struct bytes token, struct buffer *out)
{
    struct maybe marker = maybe_some(BYTES_LITERAL(ZOMBIE));
    struct action action = {
        .kind = ACTION_COMPLETE, .id = 90, .status = STATUS_COMPLETED, .input = marker};
    struct orchestrator_answer turn = {.actions = &action, .actions_n = 1};
    struct entity_result result = {.output = marker};
    struct entity_answer entity = {.results = &result, .results_n = 1, .state = marker};

    switch (job->item.kind) {
    case WORK_TURN: message_write_turn(out, job->item.instance_id, token, &turn); return;
    case WORK_TASK:
        message_write_task(out, job->item.instance_id, job->item.task_id, token, marker,
                           MAYBE_NONE);
        return;
    case WORK_ENTITY: message_write_entity(out, token, &entity); return;
    }
}

/* False: it cannot be answered. */
static bool write_answer(struct job *job, struct bytes token, struct buffer *out)
{
    struct world *w = job->remote->w;
    const struct work_item *item = &job->item;
    struct arena arena;
    struct turn_result turn;
    struct task_result task;
    struct entity_answer entity;
    bool is_good = true;

    arena_init(&arena, mem_process(), 1024);
    switch (item->kind) {
    case WORK_TURN:
        is_good = run_turn(job, &arena, &turn);
        if (is_good) message_write_turn(out, item->instance_id, token, &turn.answer);
        break;
    case WORK_TASK:
        program_task(item->name, item->input.value, job->ref.attempt, w->is_healed, &arena, &task);
        message_write_task(out, item->instance_id, item->task_id, token, task.result, task.failure);
        break;
    case WORK_ENTITY:
        entity_run(w, job->key, item->state, item->fresh, &arena, &entity);
        message_write_entity(out, token, &entity);
        break;
    }
    arena_release(&arena);
    return is_good;
}

/* ---- sending it ---- */

static void on_answered(void *user, struct client_call *call, enum grpc_code code,
                        const char *text);

static const char *complete_path(enum work_kind kind)
{
    switch (kind) {
    case WORK_TURN: return SERVICE "CompleteOrchestratorTask";
    case WORK_TASK: return SERVICE "CompleteActivityTask";
    case WORK_ENTITY: return SERVICE "CompleteEntityTask";
    }
    unreachable("no such kind of work");
}

static const char *abandon_path(enum work_kind kind)
{
    switch (kind) {
    case WORK_TURN: return SERVICE "AbandonTaskOrchestratorWorkItem";
    case WORK_TASK: return SERVICE "AbandonTaskActivityWorkItem";
    case WORK_ENTITY: return SERVICE "AbandonTaskEntityWorkItem";
    }
    unreachable("no such kind of work");
}

/* E_CLOSED: there is no connection. */
static enum status job_call(struct job *job, const char *path, struct bytes message,
                            client_message_fn *on_message, client_end_fn *on_end)
{
    struct client_request request = {
        .path = path,
        .message = message,
        .timeout_ms = TIMEOUT_MS,
        .on_message = on_message,
        .on_end = on_end,
        .user = job,
    };

    job->link = answer_link(job->remote);
    if (job->link == NULL) return E_CLOSED;
    return link_begin(job->link, &request, &job->call);
}

/* Somebody else's, or nobody's: a reference that was never given out. */
static void send_forged(struct job *job)
{
    struct world *w = job->remote->w;
    struct link *link = answer_link(job->remote);
    struct work_ref ref = job->ref;
    struct buffer token;
    struct buffer message;

    if (link == NULL || !job->remote->has_tokens) return;
    buffer_init(&token, mem_process());
    buffer_init(&message, mem_process());
    switch (rng_below(&w->rng, 4)) {
    case 0: ref.execution_id[0] ^= 1; break;
    case 1: ref.attempt += 1000; break;
    case 2: ref.epoch += 1000; break;
    default:
        ref.base += 1;
        ref.attempt += 1;
        break;
    }
    token_write(&token, front_mac_key(w->front), &ref);
    if (rng_chance(&w->rng, 300)) token.ptr[token.len / 2] ^= 1;
    write_zombie(job, buffer_view(&token), &message);
    struct client_request request = {
        .path = complete_path(job->item.kind),
        .message = buffer_view(&message),
        .timeout_ms = TIMEOUT_MS,
    };
    (void)link_begin(link, &request, NULL);
    buffer_release(&token);
    buffer_release(&message);
}

static void job_send(struct job *job)
{
    struct remote *r = job->remote;
    struct buffer message;
    /* without one an entity's answer would name nothing */
    bool has_token = r->has_tokens || job->item.kind == WORK_ENTITY;
    struct bytes token = has_token ? job->item.token : BYTES_NONE;

    buffer_init(&message, mem_process());
    if (job->is_zombie)
        write_zombie(job, token, &message);
    else if (!job->is_abandoning && !write_answer(job, token, &message))
        job->is_abandoning = true;
    const char *path = complete_path(job->item.kind);
    if (job->is_abandoning) {
        buffer_clear(&message);
        message_write_abandon(&message, job->item.token);
        path = abandon_path(job->item.kind);
    }
    enum status status = job_call(job, path, buffer_view(&message), NULL, on_answered);
    buffer_release(&message);
    job_say(job, job->is_abandoning ? "gives back" : "sends", (int)status);
    if (status == OK) {
        job->is_sent = true;
    } else if (job->phase == JOB_SENDING_AGAIN) {
        job_free(job);
    } else if (!r->has_tokens) {
        close_stream(r); /* and with it this job */
    } else {
        job_later(job);
    }
}

static void on_answered(void *user, struct client_call *call, enum grpc_code code, const char *text)
{
    struct job *job = user;
    struct remote *r = job->remote;
    struct world *w = r->w;

    (void)call;
    job->call = NULL;
    job_say(job, "is answered", (int)code);
    bool can_read = w->options.fault_rate[FAULT_KIND_ARCHIVE_READ_FAIL] == 0;
    if (code == GRPC_INVALID_ARGUMENT || code == GRPC_UNIMPLEMENTED ||
        (code == GRPC_INTERNAL && can_read)) {
        sim_fail(w, "W4 answer", "an answer for %.*s is refused with %d: %s", (int)job->key.len,
                 (const char *)job->key.ptr, (int)code, text);
    }
    bool is_over = code == GRPC_OK || code == GRPC_NOT_FOUND || code == GRPC_FAILED_PRECONDITION;
    if (job->phase == JOB_SENDING_AGAIN) {
        job_free(job);
    } else if (!is_over) {
        /* nobody knows whether it was taken, or it could not be taken now */
        if (r->has_tokens)
            job_later(job);
        else
            close_stream(r);
    } else if (code == GRPC_OK && r->has_tokens && !job->is_abandoning &&
               (fault_hits(w, FAULT_KIND_ANSWER_TWICE) ||
                (job->is_zombie = fault_hits(w, FAULT_KIND_ANSWER_LATE)))) {
        job->phase = JOB_SENDING_AGAIN;
        moment_after(w, &job->moment, chance_span(&w->rng, 2000) * NS_PER_MS);
    } else {
        job_free(job);
    }
}

/* ---- past events that did not fit ---- */

static void on_chunk(void *user, struct client_call *call, struct bytes message)
{
    struct job *job = user;

    (void)call;
    buffer_append_bytes(&job->history, message);
}

static void on_history(void *user, struct client_call *call, enum grpc_code code, const char *text)
{
    struct job *job = user;
    struct request request = {.kind = REQUEST_HISTORY};
    struct message_answer answer;

    (void)call;
    (void)text;
    job->call = NULL;
    job->phase = JOB_WORKING;
    if (code != GRPC_OK) {
        /* its execution has ended, or somebody else has the turn: nobody waits for an answer */
        bool is_gone =
            code == GRPC_NOT_FOUND || code == GRPC_ABORTED || code == GRPC_FAILED_PRECONDITION;
        job->is_abandoning = is_gone;
        job_later(job);
        return;
    }
    if (!message_read_answer(&request, job->remote->hub, buffer_view(&job->history), &job->arena,
                             &answer)) {
        sim_fail(job->remote->w, "W4 answer", "a history that cannot be read");
    }
    job->item.past = answer.events;
    moment_after(job->remote->w, &job->moment, 1);
}

static void job_fetch(struct job *job)
{
    struct buffer message;

    job->phase = JOB_FETCHING;
    buffer_clear(&job->history);
    buffer_init(&message, mem_process());
    message_write_fetch(&message, job->item.instance_id, job->item.execution_id);
    enum status status =
        job_call(job, SERVICE "StreamInstanceHistory", buffer_view(&message), on_chunk, on_history);
    buffer_release(&message);
    if (status == OK) return;
    job->phase = JOB_WORKING;
    job_later(job);
}

static void on_job(struct moment *m)
{
    struct job *job = container_of(m, struct job, moment);
    struct remote *r = job->remote;
    struct world *w = r->w;

    if (job->phase == JOB_SENDING_AGAIN || job->is_abandoning) {
        job_send(job);
        return;
    }
    if (job->item.is_streamed && job->item.past.len == 0) {
        job_fetch(job);
        return;
    }
    job->phase = JOB_SENDING;
    job->is_abandoning = r->has_tokens && fault_hits(w, FAULT_KIND_WORKER_ABANDON);
    if (fault_hits(w, FAULT_KIND_ANSWER_FORGED)) send_forged(job);
    job_send(job);
}

/* ---- the worker ---- */

struct remote *remote_new(struct world *w, uint32_t index, struct bytes hub)
{
    struct remote *r = mem_take_zero(mem_process(), sizeof *r);

    assert(r != NULL);
    r->w = w;
    r->index = index;
    r->hub = hub;
    r->has_tokens = rng_chance(&w->rng, 750);
    if (!r->has_tokens) w->has_nameless = true;
    r->has_two = r->has_tokens && rng_chance(&w->rng, 400);
    for (int kind = 0; kind < WORK_KINDS_N; kind++) {
        r->limits.n[kind] = 1 + (uint32_t)rng_below(&w->rng, LIMIT_MAX);
    }
    r->limits.can_stream = r->has_tokens && rng_chance(&w->rng, 500);
    r->limits.has_filters = rng_chance(&w->rng, 500);
    list_init(&r->jobs);
    moment_init(&r->connect, on_connect);
    return r;
}

void remote_free(struct remote *r)
{
    if (r == NULL) return;
    r->is_up = false;
    jobs_free(r);
    moment_cancel(r->w, &r->connect);
    mem_give(mem_process(), r, sizeof *r);
}

void remote_start(struct remote *r)
{
    r->is_up = true;
    if (r->stream == NULL) connect_later(r);
}

void remote_cut(struct remote *r)
{
    close_answers(r);
    if (r->stream_link != NULL) close_stream(r);
}

void remote_crash(struct remote *r)
{
    r->is_up = false;
    jobs_free(r);
    moment_cancel(r->w, &r->connect);
    remote_cut(r);
}
