/* SPDX-License-Identifier: Apache-2.0
 *
 * See reply.h: the thread, and its way to the engine and back.
 *
 *      host's thread                                    replier's thread
 *      deliver(): job_new() ──inbox──> take_job() ──> receivers ──> posts ──> answer()
 *      answered(): asks for the next one <──────────────── engine_post(TURN_DONE)
 *      credited() ──inbox──> job_free()
 *
 * A job belongs to one of the two threads at a time, and with it its memory.
 */
#define _GNU_SOURCE /* pthread_setname_np */
#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/queue.h"
#include "base/random.h"
#include "base/rng.h"
#include "core/limits.h"
#include "core/replies.h"
#include "host/engine.h"
#include "reply/post.h"
#include "reply/receiver.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

/* Replies at once, over all shards: what is beyond waits in the engine. */
#define JOBS_MAX 1024u
#define WAIT_MS 1000
#define WAIT_UNPOSTED_MS 50

/* The replier as a worker of one shard. */
struct shard {
    struct worker worker;
    struct replier *replier;
    uint32_t number;
    /* of the host's thread: a turn that could not even be kept is given back with this */
    struct request abandon;
    bool is_abandoning;
    uint8_t abandon_key[LIMIT_HUB_SIZE + 1 + LIMIT_ID_SIZE];
};

struct replier {
    struct mem mem; /* of the replier's thread, and of who opens and frees it */
    struct reply_options options;
    struct worker_filter filter;
    struct shard *shards;
    uint32_t shards_n;
    uint32_t attached_n;
    struct queue inbox; /* jobs: new ones, and those whose request is done */
    /* NULL until the first job: libcurl and its TLS need some megabytes of their own */
    struct posts *_Atomic posts;
    struct receivers receivers;
    struct rng rng;
    struct list unposted; /* answers that the engine did not take yet */
    struct list active;   /* under way in posts */
    _Atomic bool is_stopping;
    bool is_running;
    pthread_t thread;
    _Atomic uint64_t heard;
    _Atomic uint64_t unheard;
    _Atomic uint64_t given_up;
};

void reply_options_init(struct reply_options *options)
{
    *options = (struct reply_options){
        .ca_file = REPLY_CA_SYSTEM,
        .timeout_ms = 10000,
        .delay_ms = 1000,
        .delay_ms_max = 600000,
        .give_up_ms = 86400000,
    };
}

/* ---- on the host's thread ---- */

/* Cannot fail: the queue takes as many as there are credits. */
static void to_thread(struct replier *r, struct reply_job *job)
{
    bool is_pushed = queue_push(&r->inbox, &job->node);
    assert(is_pushed);
    if (r->posts != NULL) posts_wake(r->posts);
}

static void credited(struct request *request)
{
    struct reply_job *job = request->user;
    struct shard *shard = container_of(request->worker.worker, struct shard, worker);
    job->is_done = true;
    to_thread(shard->replier, job);
}

static void answered(struct request *request)
{
    struct reply_job *job = request->user;
    struct shard *shard = job->worker->user;
    job->request = (struct request){.kind = REQUEST_WORKER_CREDIT, .done = credited, .user = job};
    job->request.worker.worker = job->worker;
    job->request.worker.turns = 1;
    /* while the engine closes there is nothing more to be had */
    if (!engine_post_to(shard->replier->options.engine, shard->number, &job->request))
        credited(&job->request);
}

static void abandoned(struct request *request)
{
    struct shard *shard = request->user;
    shard->is_abandoning = false;
}

static void give_back(struct shard *shard, const struct effect_work *work)
{
    log_warn("no memory for a reply: it will be tried again");
    if (shard->is_abandoning || work->ref.key.len > sizeof shard->abandon_key) return;
    memcpy(shard->abandon_key, work->ref.key.ptr, work->ref.key.len);
    shard->abandon = (struct request){.kind = REQUEST_ABANDON, .done = abandoned, .user = shard};
    shard->abandon.key = bytes_make(shard->abandon_key, work->ref.key.len);
    shard->abandon.lease.ref = work->ref;
    shard->abandon.lease.ref.key = shard->abandon.key;
    shard->is_abandoning =
        engine_post_to(shard->replier->options.engine, shard->number, &shard->abandon);
}

static void deliver(struct worker *worker, const struct effect_work *work)
{
    struct shard *shard = worker->user;
    struct reply_job *job = job_new(work, worker);
    if (job == NULL) {
        give_back(shard, work);
        return;
    }
    to_thread(shard->replier, job);
}

/* ---- on the replier's thread ---- */

static void post_answer(struct replier *r, struct reply_job *job)
{
    job->request.done = answered;
    if (!engine_post(r->options.engine, &job->request)) list_push_back(&r->unposted, &job->node);
}

static void answer(struct replier *r, struct reply_job *job, enum job_end end)
{
    if (end == JOB_HEARD) r->heard++;
    if (end == JOB_AGAIN) {
        r->unheard++;
        log_debug("reply %s, try %u: %s", job->id, job->tries_n + 1, job->text);
    }
    if (end == JOB_OVER) {
        r->given_up++;
        log_error("reply %s was given up after %u tries: %s; norn rewind --hub " REPLY_HUB
                  " tries it again",
                  job->id, job->tries_n + 1, job->text);
    }
    job_answer(job, end, clock_wall_ns(), rng_u64(&r->rng), &r->options);
    post_answer(r, job);
}

static void finish(struct replier *r, struct reply_job *job, bool is_heard, bool is_final)
{
    answer(r, job, job_decide(job, is_heard, is_final, clock_wall_ns(), &r->options));
}

static void refuse(struct replier *r, struct reply_job *job, const char *why)
{
    (void)snprintf(job->text, sizeof job->text, "%.120s: %s", job->url, why);
    finish(r, job, false, false);
}

/* Once for each change: a receiver that is gone fails every reply to it. */
static void tell_change(const struct receiver *receiver, const struct reply_job *job, bool is_heard)
{
    if (receiver->has_failed == !is_heard) return;
    if (is_heard)
        log_info("replies to %s are heard again", receiver->name);
    else
        log_warn("replies to %s are not heard: %s; they are tried again", receiver->name,
                 job->text);
}

/* What was under way to a receiver has ended. */
static void receiver_done(struct replier *r, struct reply_job *job, bool is_heard)
{
    struct list refused;
    list_init(&refused);
    bool is_refused = job->is_refused; /* given up, and told so */
    if (!is_refused) tell_change(job->receiver, job, is_heard);
    receivers_done(&r->receivers, job, is_heard, &refused);
    finish(r, job, is_heard, is_refused);
    for (struct list *n = list_pop_front(&refused); n != NULL; n = list_pop_front(&refused)) {
        refuse(r, container_of(n, struct reply_job, node), "another request to it has just failed");
    }
}

static void begin_post(struct replier *r, struct reply_job *job)
{
    if (posts_begin(r->posts, job) == OK) {
        list_push_back(&r->active, &job->node);
        return;
    }
    (void)snprintf(job->text, sizeof job->text, "%s", status_text(E_NOMEM));
    receiver_done(r, job, false);
}

static void take_job(struct replier *r, struct reply_job *job)
{
    char name[RECEIVER_NAME_SIZE];
    if (job->is_done) {
        job_free(job);
        return;
    }
    if (job->is_waiting) {
        answer(r, job, JOB_IDLE);
        return;
    }
    if (!post_receiver(job, name, sizeof name)) {
        finish(r, job, false, true);
        return;
    }
    switch (receivers_add(&r->receivers, job, name)) {
    case RECEIVER_GO: begin_post(r, job); return;
    case RECEIVER_WAIT: return;
    case RECEIVER_LATER: refuse(r, job, "too much is under way to it"); return;
    }
}

static void take_news(struct replier *r)
{
    bool is_heard = false;
    for (struct reply_job *job = posts_next(r->posts, &is_heard); job != NULL;
         job = posts_next(r->posts, &is_heard)) {
        list_remove(&job->node);
        receiver_done(r, job, is_heard);
    }
    for (struct reply_job *job = receivers_next(&r->receivers); job != NULL;
         job = receivers_next(&r->receivers)) {
        begin_post(r, job);
    }
}

static void post_again(struct replier *r)
{
    struct list again;
    list_init(&again);
    list_splice_back(&again, &r->unposted);
    for (struct list *n = list_pop_front(&again); n != NULL; n = list_pop_front(&again)) {
        post_answer(r, container_of(n, struct reply_job, node));
    }
}

/* Waits for the first job. Whoever pushes after the posts are there, wakes them; what was pushed
 * before is taken in the first turn. */
static void open_posts(struct replier *r, struct list *taken)
{
    while (!r->is_stopping && r->posts == NULL) {
        struct posts *posts = NULL;
        if (list_is_empty(taken)) queue_take_all(&r->inbox, taken, -1);
        if (list_is_empty(taken)) continue;
        if (posts_open(&r->options, &posts) == OK)
            r->posts = posts;
        else
            queue_take_all(&r->inbox, taken, WAIT_MS * NS_PER_MS); /* no memory now */
    }
}

static void *replier_main(void *user)
{
    struct replier *r = user;
    struct list taken;
    list_init(&taken);
    open_posts(r, &taken);
    while (!r->is_stopping) {
        queue_take_all(&r->inbox, &taken, 0);
        for (struct list *n = list_pop_front(&taken); n != NULL; n = list_pop_front(&taken)) {
            take_job(r, container_of(n, struct reply_job, node));
        }
        take_news(r);
        post_again(r);
        posts_wait(r->posts, list_is_empty(&r->unposted) ? WAIT_MS : WAIT_UNPOSTED_MS);
    }
    list_splice_back(&r->unposted, &taken); /* freed with the rest */
    return NULL;
}

/* ---- from beginning to end ---- */

static enum status attach(struct replier *r, struct shard *shard, uint32_t number)
{
    *shard = (struct shard){.replier = r, .number = number};
    shard->worker = (struct worker){
        .hub = BYTES_LITERAL(REPLY_HUB),
        .name = BYTES_LITERAL("reply channel"),
        .deliver = deliver,
        .user = shard,
        .has_filters = true,
        .turn_filters = &r->filter,
        .turn_filters_n = 1,
        .wants_history = true,
        .turns_credit = JOBS_MAX / r->shards_n > 0 ? JOBS_MAX / r->shards_n : 1,
    };
    struct request request = {.kind = REQUEST_WORKER_ATTACH};
    request.worker.worker = &shard->worker;
    return engine_call_to(r->options.engine, number, &request);
}

enum status replier_open(const struct reply_options *options, struct replier **out)
{
    struct mem mem;
    uint64_t seed = 0;
    mem_init(&mem, SIZE_MAX);
    struct replier *r = mem_take_zero(&mem, sizeof *r);
    if (r == NULL) return E_NOMEM;
    r->mem = mem;
    r->options = *options;
    r->filter = (struct worker_filter){.name = BYTES_LITERAL(REPLY_NAME)};
    r->shards_n = engine_shards_n(options->engine);
    r->shards = mem_take_zero(&r->mem, r->shards_n * sizeof *r->shards);
    queue_init(&r->inbox, SIZE_MAX); /* bounded by the credits of the workers */
    list_init(&r->unposted);
    list_init(&r->active);
    random_fill(&seed, sizeof seed);
    rng_init(&r->rng, seed);
    receivers_init(&r->receivers, &r->mem);
    enum status status = r->shards == NULL ? E_NOMEM : OK;
    if (status == OK) {
        r->is_running = pthread_create(&r->thread, NULL, replier_main, r) == 0;
        if (!r->is_running) status = E_NOMEM;
        if (r->is_running) (void)pthread_setname_np(r->thread, "reply");
    }
    for (; status == OK && r->attached_n < r->shards_n; r->attached_n++) {
        status = attach(r, &r->shards[r->attached_n], r->attached_n);
        if (status != OK) break;
    }
    *out = r; /* also one that is half made: closed and freed in the same way */
    return status;
}

void replier_close(struct replier *r)
{
    if (r == NULL) return;
    for (; r->attached_n > 0; r->attached_n--) {
        struct shard *shard = &r->shards[r->attached_n - 1];
        struct request request = {.kind = REQUEST_WORKER_DETACH};
        request.worker.worker = &shard->worker;
        (void)engine_call_to(r->options.engine, shard->number, &request);
    }
    r->is_stopping = true;
    if (!r->is_running) return;
    queue_wake(&r->inbox);
    if (r->posts != NULL) posts_wake(r->posts);
    (void)pthread_join(r->thread, NULL);
    r->is_running = false;
}

static void free_all(struct list *jobs)
{
    for (struct list *n = list_pop_front(jobs); n != NULL; n = list_pop_front(jobs)) {
        job_free(container_of(n, struct reply_job, node));
    }
}

void replier_free(struct replier *r)
{
    struct list left;
    if (r == NULL) return;
    assert(!r->is_running);
    list_init(&left);
    for (struct list *n = list_pop_front(&r->active); n != NULL; n = list_pop_front(&r->active)) {
        posts_drop(r->posts, container_of(n, struct reply_job, node));
        list_push_back(&left, n);
    }
    queue_take_all(&r->inbox, &left, 0);
    receivers_clear(&r->receivers, &left);
    list_splice_back(&left, &r->unposted);
    free_all(&left);
    for (struct list *n = list_first(&r->receivers.all); n != NULL;
         n = list_next(&r->receivers.all, n)) {
        container_of(n, struct receiver, node)->active_n = 0; /* their jobs are gone */
    }
    receivers_release(&r->receivers);
    if (r->posts != NULL) posts_close(r->posts);
    queue_release(&r->inbox);
    struct mem mem = r->mem;
    mem_give(&mem, r->shards, r->shards_n * sizeof *r->shards);
    mem_give(&mem, r, sizeof *r);
    mem_release(&mem);
}

void replier_stats(struct replier *r, struct reply_stats *out)
{
    *out = (struct reply_stats){.heard = r->heard, .unheard = r->unheard, .given_up = r->given_up};
}
