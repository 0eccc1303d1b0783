/* SPDX-License-Identifier: Apache-2.0
 *
 * A host in a small deterministic world: time stands still until the test moves it, jobs run when
 * the world is pumped (unless their lane is held), and one worker inside the world answers every
 * piece of work at once (unless it is told to hold it back). The store outlives the host, so that a
 * test can crash it.
 */
#ifndef TEST_UNIT_HOST_WORLD_H
#define TEST_UNIT_HOST_WORLD_H

#include "base/mem.h"
#include "base/rng.h"
#include "host/host.h"
#include "store/store_fault.h"
#include "store/store_mem.h"
#include "test/lib/test.h"
#include "test/unit/host_programs.h"

#include <stdio.h>

#define WORLD_START_NS (INT64_C(1700000000) * NS_PER_S)

struct world {
    /* the machine */
    struct mem machine_mem;
    struct store_mem *store;
    int64_t now_ns;
    struct rng rng;
    enum status append_status; /* of the journal, from now on */
    bool has_spare;
    uint64_t disk_free; /* bytes */

    /* the process */
    struct env env;
    struct list lanes[LANES_N];
    bool is_held[LANES_N];
    uint32_t jobs_run_n;
    bool was_fatal;
    struct host_options options;
    struct mem mem;
    struct mem tool_mem;
    struct archive *archive; /* fails as told by archive_fault_at() */
    struct host *host;
    struct worker worker;
    bool holds_work;     /* the worker keeps what it is given until it is told to answer */
    struct list errands; /* of the worker, not posted yet */
    uint32_t delivered_n;
    uint32_t order;       /* counts answers: in which order they came */
    int64_t turn_wait_ns; /* what the last turn answered */
};

/* ---- a journal whose append can be made to fail ---- */

struct world_journal {
    struct journal journal;
    struct journal *inner;
    struct world *world;
};

static inline struct world_journal *world_journal_of(struct journal *j)
{
    return container_of(j, struct world_journal, journal);
}
static inline enum status world_replay(struct journal *j, uint64_t after_lsn, journal_replay_fn *fn,
                                       void *user, struct journal_report *report)
{
    return journal_replay(world_journal_of(j)->inner, after_lsn, fn, user, report);
}
static inline enum status world_append(struct journal *j, const struct journal_frame *frame)
{
    struct world_journal *w = world_journal_of(j);

    if (w->world->append_status != OK) return w->world->append_status;
    return journal_append(w->inner, frame);
}
static inline enum status world_trim(struct journal *j, uint64_t upto_lsn)
{
    return journal_trim(world_journal_of(j)->inner, upto_lsn);
}
static inline void world_usage(struct journal *j, uint64_t *bytes, bool *has_spare)
{
    struct world_journal *w = world_journal_of(j);

    journal_usage(w->inner, bytes, has_spare);
    *has_spare = w->world->has_spare;
}
static inline uint64_t world_space(struct journal *j)
{
    return world_journal_of(j)->world->disk_free;
}
static inline enum status world_open_reader(struct journal *j, struct mem *mem,
                                            struct journal_reader **out)
{
    return journal_open_reader(world_journal_of(j)->inner, mem, out);
}
static inline void world_journal_close(struct journal *j)
{
    struct world_journal *w = world_journal_of(j);

    journal_close(w->inner);
    mem_give(&w->world->machine_mem, w, sizeof *w);
}
static const struct journal_ops world_journal_ops = {
    .name = "world",
    .replay = world_replay,
    .append = world_append,
    .trim = world_trim,
    .usage = world_usage,
    .space = world_space,
    .open_reader = world_open_reader,
    .close = world_journal_close,
};

/* ---- env ---- */

static inline struct world *world_of(struct env *env)
{
    return container_of(env, struct world, env);
}
static inline int64_t world_clock(struct env *env) { return world_of(env)->now_ns; }
static inline void world_random(struct env *env, void *ptr, size_t len)
{
    rng_fill(&world_of(env)->rng, ptr, len);
}
static inline void world_submit(struct env *env, enum env_lane lane, struct job *job)
{
    list_node_init(&job->node);
    list_push_back(&world_of(env)->lanes[lane], &job->node);
}
static inline void world_fatal(struct env *env, enum status status, const char *what)
{
    (void)status;
    (void)what;
    world_of(env)->was_fatal = true;
}
static const struct env_ops world_env_ops = {
    .wall_ns = world_clock,
    .mono_ns = world_clock,
    .random = world_random,
    .submit = world_submit,
    .fatal = world_fatal,
};

/* ---- the worker ---- */

struct errand {
    struct request request;
    struct world *world;
    struct list held;
    struct arena arena;
    struct orchestrator_answer answer;
    struct entity_answer entity;
};

static const enum request_kind errand_kinds[] = {
    [WORK_TURN] = REQUEST_TURN_DONE,
    [WORK_TASK] = REQUEST_TASK_DONE,
    [WORK_ENTITY] = REQUEST_ENTITY_DONE,
};

static inline void errand_done(struct request *request)
{
    struct errand *e = container_of(request, struct errand, request);

    arena_release(&e->arena);
    mem_give(&e->world->tool_mem, e, sizeof *e);
}

static inline void errand_post(struct errand *e)
{
    if (!host_post(e->world->host, &e->request)) errand_done(&e->request);
}

static inline void world_deliver(struct worker *worker, const struct effect_work *work)
{
    struct world *w = worker->user;
    struct errand *e = mem_take_zero(&w->tool_mem, sizeof *e);

    assert(e != NULL);
    w->delivered_n++;
    e->world = w;
    arena_init(&e->arena, &w->tool_mem, 1024);
    e->request.done = errand_done;
    e->request.kind = errand_kinds[work->ref.kind];
    e->request.worker_done.has_ref = true;
    e->request.worker_done.ref = work->ref;
    e->request.worker_done.ref.key = arena_copy(&e->arena, work->ref.key);
    e->request.key = e->request.worker_done.ref.key;
    if (work->ref.kind == WORK_TURN) {
        program_answer(work, &e->arena, &e->answer);
        e->request.worker_done.answer = &e->answer;
    } else if (work->ref.kind == WORK_ENTITY) {
        program_entity(work, &e->arena, &e->entity);
        e->request.worker_done.entity = &e->entity;
    } else {
        e->request.worker_done.result = maybe_some(BYTES_LITERAL("\"ok\""));
    }
    if (w->holds_work)
        list_push_back(&w->errands, &e->held);
    else
        errand_post(e);
}

/* ---- requests ---- */

/* One request of the test and what it was answered. */
struct ask {
    struct request request;
    struct world *world;
    char key[64];
    bool is_done;
    uint32_t order; /* 1 = the first answer in this world */
    bool has_view;
    enum orchestration_status status; /* of the view */
    char output[64];
    uint32_t counts[32]; /* HISTORY: events by kind */
    char rows[4000];     /* QUERY: ids, each with a space behind it */
};

static inline void ask_done(struct request *r)
{
    struct ask *a = container_of(r, struct ask, request);

    EXPECT(!a->is_done);
    a->is_done = true;
    a->order = ++a->world->order;
    a->has_view = r->view != NULL;
    if (r->view != NULL) {
        a->status = r->view->status;
        (void)snprintf(a->output, sizeof a->output, "%.*s", (int)r->view->output.value.len,
                       (const char *)r->view->output.value.ptr);
    }
    struct program_seen seen = {0};
    program_look(&seen, r->events);
    memcpy(a->counts, seen.counts, sizeof seen.counts);
    for (size_t i = 0, at = 0; i < r->rows_n; i++) {
        struct bytes id = key_id(r->rows[i].key);
        at += (size_t)snprintf(a->rows + at, sizeof a->rows - at, "%.*s ", (int)id.len,
                               (const char *)id.ptr);
    }
}

/* Zeroed but for who asks and for which instance of hub "h". */
static inline void ask_init(struct ask *a, struct world *w, enum request_kind kind, const char *id)
{
    *a = (struct ask){.world = w};
    (void)snprintf(a->key, sizeof a->key, "h/%s", id);
    a->request.kind = kind;
    a->request.done = ask_done;
    a->request.key = bytes_of_text(a->key);
}

static inline void ask_post(struct ask *a) { EXPECT(host_post(a->world->host, &a->request)); }

/* ---- the world ---- */

static inline void world_attach(struct world *w)
{
    struct ask attach;

    w->worker = (struct worker){
        .hub = BYTES_LITERAL("h"),
        .deliver = world_deliver,
        .user = w,
        .wants_history = true,
        .turns_credit = UINT32_MAX,
        .tasks_credit = UINT32_MAX,
        .entities_credit = UINT32_MAX,
    };
    ask_init(&attach, w, REQUEST_WORKER_ATTACH, "worker");
    attach.request.worker.worker = &w->worker;
    ask_post(&attach);
    (void)host_turn(w->host);
    EXPECT(attach.is_done);
    EXPECT_STATUS(OK, attach.request.status);
}

/* Opens a host on what the store has. */
static inline enum status world_try_open(struct world *w, char *damage)
{
    struct world_journal *journal = mem_take_zero(&w->machine_mem, sizeof *journal);
    struct archive *inner;

    assert(journal != NULL);
    journal->journal.ops = &world_journal_ops;
    journal->world = w;
    EXPECT_STATUS(OK, journal_mem_open(w->store, &journal->inner));
    EXPECT_STATUS(OK, archive_mem_open(w->store, &inner));
    EXPECT_STATUS(OK, archive_fault_open(inner, &w->archive));
    w->options.mem = &w->mem;
    w->was_fatal = false;
    w->order = 0;
    for (int lane = 0; lane < LANES_N; lane++) {
        list_init(&w->lanes[lane]);
        w->is_held[lane] = false;
    }
    return host_open(&w->env, &journal->journal, w->archive, &w->options, damage, &w->host);
}

static inline void world_open(struct world *w)
{
    char damage[400];

    enum status status = world_try_open(w, damage);
    test_note("%s", damage);
    EXPECT_STATUS(OK, status);
    world_attach(w);
}

static inline void world_init(struct world *w)
{
    *w = (struct world){.now_ns = WORLD_START_NS, .has_spare = true, .disk_free = UINT64_MAX};
    mem_init(&w->machine_mem, SIZE_MAX);
    mem_init(&w->mem, SIZE_MAX);
    mem_init(&w->tool_mem, SIZE_MAX);
    EXPECT_STATUS(OK, store_mem_new(&w->machine_mem, &w->store));
    rng_init(&w->rng, 42);
    w->env.ops = &world_env_ops;
    list_init(&w->errands);
    host_options_init(&w->options);
    w->options.partitions_n = 4;
    w->options.check_every_step = true;
}

/* The process is gone: what has not run never will. Requests inside are answered E_CLOSED. */
static inline void world_crash(struct world *w)
{
    struct list *node;

    host_close(w->host);
    w->host = NULL;
    while ((node = list_pop_front(&w->errands)) != NULL) {
        errand_done(&container_of(node, struct errand, held)->request);
    }
}

static inline void world_release(struct world *w)
{
    if (w->host != NULL) {
        host_check(w->host);
        world_crash(w);
    }
    store_mem_free(w->store);
    mem_release(&w->mem);
    mem_release(&w->tool_mem);
    mem_release(&w->machine_mem);
}

static inline bool world_run_job(struct world *w)
{
    for (int lane = 0; lane < LANES_N; lane++) {
        if (w->is_held[lane]) continue;
        struct list *node = list_pop_front(&w->lanes[lane]);
        if (node == NULL) continue;
        struct job *job = container_of(node, struct job, node);
        job->run(job);
        job->done(job);
        w->jobs_run_n++;
        return true;
    }
    return false;
}

/* Until nothing more happens at this time. */
static inline void world_pump(struct world *w)
{
    for (int n = 0; n < 100000; n++) {
        w->turn_wait_ns = host_turn(w->host);
        if (!world_run_job(w) && (w->turn_wait_ns > 0 || w->was_fatal)) return;
    }
    test_fail(__FILE__, __LINE__, "the host does not come to rest");
}

/* Lets time pass in small steps, as a loop that sleeps as long as the host says would. */
static inline void world_advance_ms(struct world *w, int64_t ms)
{
    int64_t end_ns = w->now_ns + ms * NS_PER_MS;

    world_pump(w);
    while (w->now_ns < end_ns) {
        int64_t left_ns = end_ns - w->now_ns;
        w->now_ns += w->turn_wait_ns < left_ns ? w->turn_wait_ns : left_ns;
        world_pump(w);
    }
}

/* The worker answers what it held back, and again what follows from it, unless it holds on. */
static inline void world_answer(struct world *w)
{
    struct list *node;

    while ((node = list_pop_front(&w->errands)) != NULL) {
        errand_post(container_of(node, struct errand, held));
    }
    world_pump(w);
}

/* The same, but steps are held back still. */
static inline void world_answer_turns(struct world *w)
{
    struct list steps;
    struct list *node;

    list_init(&steps);
    while ((node = list_pop_front(&w->errands)) != NULL) {
        struct errand *e = container_of(node, struct errand, held);
        if (e->request.kind == REQUEST_TURN_DONE)
            errand_post(e);
        else
            list_push_back(&steps, node);
    }
    list_splice_back(&w->errands, &steps);
    world_pump(w);
}

static inline void ask_run(struct ask *a)
{
    ask_post(a);
    world_pump(a->world);
}

static inline enum status world_start(struct world *w, const char *id, const char *name)
{
    struct ask a;

    ask_init(&a, w, REQUEST_START, id);
    a.request.start.name = bytes_of_text(name);
    ask_run(&a);
    EXPECT(a.is_done);
    return a.request.status;
}

static inline struct ask world_get(struct world *w, const char *id)
{
    struct ask a;

    ask_init(&a, w, REQUEST_GET, id);
    ask_run(&a);
    EXPECT(a.is_done);
    EXPECT_STATUS(OK, a.request.status);
    return a;
}

static inline struct host_stats world_stats(struct world *w)
{
    struct host_stats stats;

    host_stats(w->host, &stats);
    return stats;
}

static inline void expect_completed(struct world *w, const char *id, const char *output)
{
    struct ask got = world_get(w, id);

    EXPECT(got.has_view);
    EXPECT_EQ(STATUS_COMPLETED, got.status);
    EXPECT_TEXT(output, got.output);
}

#endif
