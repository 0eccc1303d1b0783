/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine with real files and threads: what the other tests prove of one host must hold when its
 * lanes really run beside each other. No test here depends on how long anything takes.
 */
#include "host/engine.h"

#include "base/mem.h"
#include "base/queue.h"
#include "host/backup.h"
#include "test/lib/test.h"
#include "test/unit/host_programs.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <time.h>
#include <unistd.h>

/* ---- a worker with a thread of its own ---- */

struct agent {
    struct engine *engine;
    uint32_t shard;
    struct worker worker;
    struct queue work; /* of errands; the host's thread pushes, ours takes */
    pthread_t thread;
};

/* A piece of work, copied; it becomes the request that answers it. */
struct errand {
    struct request request;
    struct list node;
    struct agent *agent;
    struct effect_work work;
    struct mem mem;
    struct arena arena;
    struct orchestrator_answer answer;
};

static void errand_done(struct request *request)
{
    struct errand *e = container_of(request, struct errand, request);

    arena_release(&e->arena);
    mem_release(&e->mem);
    free(e);
}

static void agent_deliver(struct worker *worker, const struct effect_work *work)
{
    struct agent *a = worker->user;
    struct errand *e = calloc(1, sizeof *e);

    assert(e != NULL);
    e->agent = a;
    e->work = *work;
    mem_init(&e->mem, SIZE_MAX);
    arena_init(&e->arena, &e->mem, 1024);
    e->work.ref.key = arena_copy(&e->arena, work->ref.key);
    e->work.name = arena_copy(&e->arena, work->name);
    e->work.past = arena_copy(&e->arena, work->past);
    e->work.fresh = arena_copy(&e->arena, work->fresh);
    if (!queue_push(&a->work, &e->node)) errand_done(&e->request);
}

static void agent_answer(struct errand *e)
{
    bool is_turn = e->work.ref.kind == WORK_TURN;

    e->request.kind = is_turn ? REQUEST_TURN_DONE : REQUEST_TASK_DONE;
    e->request.done = errand_done;
    e->request.key = e->work.ref.key;
    e->request.worker_done.has_ref = true;
    e->request.worker_done.ref = e->work.ref;
    if (is_turn) {
        program_answer(&e->work, &e->arena, &e->answer);
        e->request.worker_done.answer = &e->answer;
    } else {
        e->request.worker_done.result = maybe_some(BYTES_LITERAL("\"ok\""));
    }
    if (!engine_post_to(e->agent->engine, e->agent->shard, &e->request)) errand_done(&e->request);
}

static void *agent_main(void *user)
{
    struct agent *a = user;
    struct list taken;
    struct list *node;

    list_init(&taken);
    while (queue_take_all(&a->work, &taken, -1) > 0 || !queue_is_closed(&a->work)) {
        while ((node = list_pop_front(&taken)) != NULL) {
            agent_answer(container_of(node, struct errand, node));
        }
    }
    return NULL;
}

static void agent_start(struct agent *a, struct engine *engine, uint32_t shard)
{
    *a = (struct agent){.engine = engine, .shard = shard};
    queue_init(&a->work, 100000);
    a->worker = (struct worker){
        .hub = BYTES_LITERAL("h"),
        .deliver = agent_deliver,
        .user = a,
        .wants_history = true,
        .turns_credit = UINT32_MAX,
        .tasks_credit = UINT32_MAX,
    };
    int failed = pthread_create(&a->thread, NULL, agent_main, a);
    assert(failed == 0);
    struct request attach = {.kind = REQUEST_WORKER_ATTACH};
    attach.worker.worker = &a->worker;
    EXPECT_STATUS(OK, engine_call_to(engine, shard, &attach));
}

/* Before the engine is closed: nobody may post any more then. What is still delivered goes back. */
static void agent_stop(struct agent *a)
{
    queue_close(&a->work);
    int failed = pthread_join(a->thread, NULL);
    assert(failed == 0);
}

/* After it: the worker's struct and queue are the engine's until then. */
static void agent_release(struct agent *a) { queue_release(&a->work); }

/* ---- the engine ---- */

static void options_init(struct engine_options *options, const char *directory)
{
    engine_options_init(options);
    options->directory = directory;
    options->journal_segment_size = (uint64_t)1 << 20;
    options->archive_segment_size = (uint64_t)1 << 20;
    options->host.partitions_n = 8;
    options->host.archive_every_ms = 20;
}

static struct engine *open_engine(const struct engine_options *options)
{
    char damage[ENGINE_DAMAGE_SIZE];
    struct engine *engine = NULL;

    enum status status = engine_open(options, damage, &engine);
    test_note("%s", damage);
    EXPECT_STATUS(OK, status);
    return engine;
}

static enum status start(struct engine *e, const char *key, const char *name)
{
    struct request r = {.kind = REQUEST_START, .key = bytes_of_text(key)};

    r.start.name = bytes_of_text(name);
    return engine_call(e, &r);
}

static void expect_output(struct request *r)
{
    const char *expected = r->user;

    if (r->status != OK || r->view == NULL || r->view->status != STATUS_COMPLETED ||
        !bytes_equal(r->view->output.value, bytes_of_text(expected))) {
        r->purged_n = 1; /* told to the test's thread, where a test may fail */
    }
}

/* Waits until it has finished, and expects it to have completed with this. */
static void expect_completed(struct engine *e, const char *key, const char *output)
{
    struct request r = {.kind = REQUEST_WAIT, .key = bytes_of_text(key), .done = expect_output};

    r.wait.until_finished = true;
    r.user = (void *)(uintptr_t)output;
    test_note("%s", key);
    EXPECT_STATUS(OK, engine_call(e, &r));
    EXPECT_EQ(0, r.purged_n);
}

/* Several hundred orchestrations through real threads and files all complete; after a clean end and
 * a restart all are still there, and the journal has nothing left to replay. */
TEST(hundreds_complete_and_survive_a_restart)
{
    enum { N = 400 };
    struct engine_options options;
    struct agent agent;
    struct host_stats stats;
    char key[32];
    options_init(&options, test_directory());
    struct engine *e = open_engine(&options);
    agent_start(&agent, e, 0);
    for (int i = 0; i < N; i++) {
        (void)snprintf(key, sizeof key, "h/o%d", i);
        EXPECT_STATUS(OK, start(e, key, i % 8 == 0 ? "parent" : "seq3"));
    }
    for (int i = 0; i < N; i++) {
        (void)snprintf(key, sizeof key, "h/o%d", i);
        expect_completed(e, key, i % 8 == 0 ? "child done" : "done");
    }
    EXPECT_STATUS(OK, engine_stats(e, &stats));
    EXPECT_EQ(N + N / 8, stats.core.finished);
    agent_stop(&agent);
    engine_close(e);
    agent_release(&agent);

    e = open_engine(&options);
    EXPECT_STATUS(OK, engine_stats(e, &stats));
    EXPECT_EQ(N + N / 8, stats.instances_archived);
    EXPECT_EQ(0, stats.instances_hot);
    EXPECT_EQ(0, stats.recovered_frames);
    for (int i = 0; i < N; i++) {
        (void)snprintf(key, sizeof key, "h/o%d", i);
        expect_completed(e, key, i % 8 == 0 ? "child done" : "done");
    }
    engine_close(e);
}

/* What was under way at the end goes on after the next start. */
TEST(unfinished_work_goes_on_after_a_restart)
{
    struct engine_options options;
    struct agent agent;
    options_init(&options, test_directory());
    struct engine *e = open_engine(&options);
    EXPECT_STATUS(OK, start(e, "h/a", "seq2")); /* there is no worker yet */
    engine_close(e);
    e = open_engine(&options);
    agent_start(&agent, e, 0);
    expect_completed(e, "h/a", "done");
    agent_stop(&agent);
    engine_close(e);
    agent_release(&agent);
}

static void count_rows(struct request *r)
{
    uint32_t *rows_n = r->user;

    *rows_n += (uint32_t)r->rows_n;
    for (size_t i = 1; i < r->rows_n; i++) {
        if (r->rows[i - 1].created_ns / NS_PER_MS > r->rows[i].created_ns / NS_PER_MS)
            *rows_n = 9999;
    }
}

struct seen_rows {
    uint32_t n;
    int64_t last_ms;
    char last_id[64];
    bool is_unordered;
};

static void see_rows(struct request *r)
{
    struct seen_rows *seen = r->user;

    for (size_t i = 0; i < r->rows_n; i++) {
        int64_t ms = r->rows[i].created_ns / NS_PER_MS;
        struct bytes id = key_id(r->rows[i].key);
        int order = bytes_compare(id, bytes_of_text(seen->last_id));
        if (ms != seen->last_ms) order = ms < seen->last_ms ? -1 : 1;
        bool is_right = r->query.newest_first ? order < 0 : order > 0;
        if (seen->n++ > 0 && !is_right) seen->is_unordered = true;
        seen->last_ms = ms;
        (void)snprintf(seen->last_id, sizeof seen->last_id, "%.*s", (int)id.len,
                       (const char *)id.ptr);
    }
}

/* How many there are, page by page over all shards; each is behind the one before it. */
static uint32_t walk(struct engine *e, bool newest_first, uint32_t limit)
{
    struct seen_rows seen = {0};
    bool has_more = true;

    while (has_more) {
        struct request list = {.kind = REQUEST_QUERY, .done = see_rows, .user = &seen};
        char after[64];
        memcpy(after, seen.last_id, sizeof after);
        list.query.hub = BYTES_LITERAL("h");
        list.query.limit = limit;
        list.query.newest_first = newest_first;
        list.query.has_after = seen.n > 0;
        list.query.after_ms = seen.last_ms;
        list.query.after_id = bytes_of_text(after);
        EXPECT_STATUS(OK, engine_call(e, &list));
        has_more = list.has_more;
    }
    EXPECT(!seen.is_unordered);
    return seen.n;
}

/* With several shards, messages cross between them, and a list is one list. */
TEST(shards_work_together)
{
    enum { N = 60 };
    struct engine_options options;
    struct agent agents[3];
    char key[32];
    uint32_t rows_n = 0;
    options_init(&options, test_directory());
    options.host.shards_n = 3;
    struct engine *e = open_engine(&options);
    EXPECT_EQ(3, engine_shards_n(e));
    for (uint32_t i = 0; i < 3; i++) agent_start(&agents[i], e, i);
    for (int i = 0; i < N; i++) {
        (void)snprintf(key, sizeof key, "h/p%d", i);
        EXPECT_STATUS(OK, start(e, key, "parent"));
    }
    for (int i = 0; i < N; i++) {
        (void)snprintf(key, sizeof key, "h/p%d", i);
        expect_completed(e, key, "child done");
    }
    struct request list = {.kind = REQUEST_QUERY, .done = count_rows, .user = &rows_n};
    list.query.hub = BYTES_LITERAL("h");
    list.query.limit = 1000;
    EXPECT_STATUS(OK, engine_call(e, &list));
    EXPECT(!list.has_more);
    EXPECT_EQ(2 * N, rows_n);
    rows_n = 0;
    list.query.limit = 7;
    EXPECT_STATUS(OK, engine_call(e, &list));
    EXPECT(list.has_more);
    EXPECT(rows_n > 0 && rows_n <= 7);
    EXPECT_EQ(2 * N, walk(e, false, 7));
    EXPECT_EQ(2 * N, walk(e, true, 7));
    EXPECT_EQ(2 * N, walk(e, true, 1000));
    for (uint32_t i = 0; i < 3; i++) agent_stop(&agents[i]);
    engine_close(e);
    for (uint32_t i = 0; i < 3; i++) agent_release(&agents[i]);
}

/* ---- purges over several shards ---- */

static uint32_t count_hub(struct engine *e)
{
    uint32_t rows_n = 0;
    struct request list = {.kind = REQUEST_QUERY, .done = count_rows, .user = &rows_n};

    list.query.hub = BYTES_LITERAL("h");
    list.query.limit = 1000;
    EXPECT_STATUS(OK, engine_call(e, &list));
    EXPECT(!list.has_more);
    return rows_n;
}

static struct request purge(struct engine *e, const char *key, bool is_forced)
{
    struct request r = {.kind = REQUEST_PURGE, .key = bytes_of_text(key)};

    r.client.recurse = true;
    r.client.is_forced = is_forced;
    (void)engine_call(e, &r);
    return r;
}

static void start_parents(struct engine *e, int n)
{
    char key[32];

    for (int i = 0; i < n; i++) {
        (void)snprintf(key, sizeof key, "h/p%d", i);
        EXPECT_STATUS(OK, start(e, key, "parent"));
    }
    for (int i = 0; i < n; i++) {
        (void)snprintf(key, sizeof key, "h/p%d", i);
        expect_completed(e, key, "child done");
    }
}

static void wait_until_started(struct engine *e, const char *key)
{
    struct request r = {.kind = REQUEST_WAIT, .key = bytes_of_text(key)};

    EXPECT_STATUS(OK, engine_call(e, &r));
}

static void see_whether_there(struct request *r)
{
    bool *is_there = r->user;

    *is_there = r->view != NULL;
}

/* The same of one that somebody else starts, perhaps not yet. */
static void wait_for(struct engine *e, const char *key, bool until_finished)
{
    bool is_there = false;

    while (!is_there) {
        struct request r = {.kind = REQUEST_WAIT, .key = bytes_of_text(key)};
        r.done = see_whether_there;
        r.user = &is_there;
        r.wait.until_finished = until_finished;
        EXPECT_STATUS(OK, engine_call(e, &r));
    }
}

/* A tree goes as a whole though its instances are in different shards; one that is missing is no
 * reason to stop, one that runs keeps all of them. */
TEST(trees_are_purged_over_shards)
{
    enum { N = 12 };
    struct engine_options options;
    struct agent agents[3];
    char key[32];
    options_init(&options, test_directory());
    options.host.shards_n = 3;
    struct engine *e = open_engine(&options);
    for (uint32_t i = 0; i < 3; i++) agent_start(&agents[i], e, i);
    start_parents(e, N);
    struct request lone = {.kind = REQUEST_PURGE, .key = BYTES_LITERAL("h/p0-c")};
    EXPECT_STATUS(OK, engine_call(e, &lone));
    for (int i = 0; i < N; i++) {
        (void)snprintf(key, sizeof key, "h/p%d", i);
        struct request done = purge(e, key, false);
        test_note("%s: %s", key, done.text);
        EXPECT_STATUS(OK, done.status);
        EXPECT_EQ(i == 0 ? 1 : 2, done.purged_n);
    }
    EXPECT_EQ(0, count_hub(e));
    EXPECT_STATUS(E_NOT_FOUND, purge(e, "h/p0", false).status);
    EXPECT_STATUS(E_INVALID, purge(e, "h/", false).status);
    for (uint32_t i = 0; i < 3; i++) agent_stop(&agents[i]);
    engine_close(e);
    for (uint32_t i = 0; i < 3; i++) agent_release(&agents[i]);
}

/* A descendant that has not ended keeps its whole family, until it is done by force. */
TEST(a_running_tree_is_spared_over_shards)
{
    struct engine_options options;
    struct agent agents[3];
    options_init(&options, test_directory());
    options.host.shards_n = 3;
    struct engine *e = open_engine(&options);
    for (uint32_t i = 0; i < 3; i++) agent_start(&agents[i], e, i);
    EXPECT_STATUS(OK,
                  start(e, "h/p", "outer")); /* its child waits for ever, but has ended its own */
    wait_until_started(e, "h/p");
    wait_for(e, "h/p-c", false);
    wait_for(e, "h/p-c-c", true);
    EXPECT_STATUS(E_PRECONDITION, purge(e, "h/p", false).status);
    struct request terminate = {.kind = REQUEST_TERMINATE, .key = BYTES_LITERAL("h/p")};
    EXPECT_STATUS(OK, engine_call(e, &terminate));
    struct request spared = purge(e, "h/p", false);
    EXPECT_STATUS(E_PRECONDITION, spared.status);
    EXPECT_EQ(0, spared.purged_n);
    EXPECT(strstr(spared.text, "terminate it") != NULL);
    EXPECT_EQ(3, count_hub(e));
    struct request forced = purge(e, "h/p", true);
    EXPECT_STATUS(OK, forced.status);
    EXPECT_EQ(3, forced.purged_n);
    EXPECT_EQ(0, count_hub(e));
    for (uint32_t i = 0; i < 3; i++) agent_stop(&agents[i]);
    engine_close(e);
    for (uint32_t i = 0; i < 3; i++) agent_release(&agents[i]);
}

/* A purge by filter reaches every shard, alone or with descendants. */
TEST(purge_where_reaches_every_shard)
{
    enum { N = 100 };
    struct engine_options options;
    struct agent agents[3];
    options_init(&options, test_directory());
    options.host.shards_n = 3;
    struct engine *e = open_engine(&options);
    for (uint32_t i = 0; i < 3; i++) agent_start(&agents[i], e, i);
    EXPECT_STATUS(OK, start(e, "h/w", "wait"));
    wait_until_started(e, "h/w");
    for (int round = 0; round < 2; round++) {
        test_note("recursive: %d", round);
        start_parents(e, N);
        EXPECT_EQ(2 * N + 1, count_hub(e));
        struct request where = {.kind = REQUEST_PURGE_WHERE};
        where.purge.query.hub = BYTES_LITERAL("h");
        where.purge.recurse = round == 1;
        where.purge.timeout_ms = 60000;
        EXPECT_STATUS(OK, engine_call(e, &where));
        EXPECT(!where.has_more);
        EXPECT_EQ(2 * N, where.purged_n);
        EXPECT_EQ(1, count_hub(e));
    }
    struct request end = {.kind = REQUEST_PURGE_WHERE};
    end.purge.query.hub = BYTES_LITERAL("h");
    end.purge.is_forced = true;
    EXPECT_STATUS(OK, engine_call(e, &end));
    EXPECT_EQ(1, end.purged_n);
    EXPECT_EQ(0, count_hub(e));
    for (uint32_t i = 0; i < 3; i++) agent_stop(&agents[i]);
    engine_close(e);
    for (uint32_t i = 0; i < 3; i++) agent_release(&agents[i]);
}

static atomic_uint ended_n;
static void count_end(struct request *r)
{
    (void)r;
    atomic_fetch_add(&ended_n, 1);
}

/* The engine is closed while purges are under way: each is answered, once, and nothing of them
 * reaches a shard that is gone. */
TEST(closing_ends_purges)
{
    for (int round = 0; round < 6; round++) {
        struct engine_options options;
        struct agent agents[3];
        struct request where[3], tree[3];
        char keys[3][16];
        test_note("round %d", round);
        options_init(&options, test_directory());
        options.host.shards_n = 3;
        struct engine *e = open_engine(&options);
        for (uint32_t i = 0; i < 3; i++) agent_start(&agents[i], e, i);
        if (round == 0) start_parents(e, 60);
        for (uint32_t i = 0; i < 3; i++) agent_stop(&agents[i]);
        atomic_store(&ended_n, 0);
        uint32_t posted_n = 0;
        for (int i = 0; i < 3; i++) {
            where[i] = (struct request){.kind = REQUEST_PURGE_WHERE, .done = count_end};
            where[i].purge.query.hub = BYTES_LITERAL("h");
            where[i].purge.recurse = i == 1;
            (void)snprintf(keys[i], sizeof keys[i], "h/p%d", i + 10 * round);
            tree[i] = (struct request){.kind = REQUEST_PURGE, .done = count_end};
            tree[i].key = bytes_of_text(keys[i]);
            tree[i].client.recurse = true;
            if (engine_post(e, &tree[i])) posted_n++;
            if (engine_post(e, &where[i])) posted_n++;
        }
        engine_close(e);
        EXPECT_EQ(posted_n, atomic_load(&ended_n));
        for (uint32_t i = 0; i < 3; i++) agent_release(&agents[i]);
    }
}

/* A wait is cancelled in the shard that has it; metrics are those of all. */
TEST(waits_are_cancelled_in_their_shard)
{
    enum { N = 9 };
    struct engine_options options;
    struct agent agents[3];
    struct request waits[N];
    struct host_stats stats;
    char keys[N][16];
    options_init(&options, test_directory());
    options.host.shards_n = 3;
    struct engine *e = open_engine(&options);
    for (uint32_t i = 0; i < 3; i++) agent_start(&agents[i], e, i);
    atomic_store(&ended_n, 0);
    for (int i = 0; i < N; i++) {
        (void)snprintf(keys[i], sizeof keys[i], "h/w%d", i);
        EXPECT_STATUS(OK, start(e, keys[i], "wait"));
        wait_until_started(e, keys[i]);
        waits[i] = (struct request){.kind = REQUEST_WAIT, .done = count_end};
        waits[i].key = bytes_of_text(keys[i]);
        waits[i].wait.until_finished = true;
        EXPECT(engine_post(e, &waits[i]));
    }
    EXPECT_STATUS(OK, engine_stats(e, &stats));
    EXPECT_EQ(N, stats.waiters);
    EXPECT(stats.disk_free > 0);
    EXPECT_EQ(3, stats.workers);
    EXPECT_EQ(N, stats.gauges.running);
    EXPECT_EQ(stats.frames, stats.commit_ns.n);
    EXPECT_EQ(stats.frames, stats.frame_size.n);
    EXPECT_EQ(stats.frame_bytes, stats.frame_size.sum);
    EXPECT(stats.commit_ns.max > 0);
    for (int i = 0; i < N; i++) {
        struct request cancel = {.kind = REQUEST_CANCEL, .key = bytes_of_text(keys[i])};
        cancel.cancelled = &waits[i];
        EXPECT_STATUS(OK, engine_call(e, &cancel));
        EXPECT_EQ(i + 1, atomic_load(&ended_n));
        EXPECT_STATUS(E_TIMEOUT, waits[i].status);
    }
    for (uint32_t i = 0; i < 3; i++) agent_stop(&agents[i]);
    engine_close(e);
    for (uint32_t i = 0; i < 3; i++) agent_release(&agents[i]);
}

/* One data directory, one process: a second one is told who has it, and the first is not
 * disturbed. */
TEST(locked_directory_is_refused)
{
    struct engine_options options;
    struct engine *second = NULL;
    char damage[ENGINE_DAMAGE_SIZE];
    options_init(&options, test_directory());
    struct engine *e = open_engine(&options);
    EXPECT_STATUS(E_BUSY, engine_open(&options, damage, &second));
    EXPECT(strstr(damage, options.directory) != NULL);
    EXPECT_STATUS(OK, start(e, "h/a", "seq1"));
    engine_close(e);
    e = open_engine(&options);
    engine_close(e);
}

static void write_format(const char *directory, const char *text)
{
    char path[512];

    (void)snprintf(path, sizeof path, "%s/format", directory);
    FILE *file = fopen(path, "w");
    EXPECT(file != NULL);
    EXPECT(fputs(text, file) >= 0);
    EXPECT(fclose(file) == 0);
}

/* An older program must not touch what a newer one has written: it does not know what it would
 * break. */
TEST(newer_format_is_refused_untouched)
{
    struct engine_options options;
    struct engine *e = NULL;
    struct stat found;
    char damage[ENGINE_DAMAGE_SIZE], path[512];
    options_init(&options, test_directory());
    write_format(options.directory, "norn 2\nsomething new\n");
    EXPECT_STATUS(E_VERSION, engine_open(&options, damage, &e));
    EXPECT(strstr(damage, "newer") != NULL);
    (void)snprintf(path, sizeof path, "%s/shard-0", options.directory);
    EXPECT(stat(path, &found) != 0);

    write_format(options.directory, "norn 1\npartitions x\n");
    EXPECT_STATUS(E_CORRUPT, engine_open(&options, damage, &e));
}

/* A directory whose format was lost is not a new one: it was made in its own way. */
TEST(data_without_its_format_is_refused_untouched)
{
    static const char *const names[] = {"shard-1", "streams"};
    struct engine_options options;
    struct engine *e = NULL;
    struct stat found;
    char damage[ENGINE_DAMAGE_SIZE] = "", path[512], format[512];
    options_init(&options, test_directory());
    (void)snprintf(format, sizeof format, "%s/format", options.directory);
    for (int i = 0; i < 2; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", options.directory, names[i]);
        EXPECT(mkdir(path, 0700) == 0);
        EXPECT_STATUS(E_CORRUPT, engine_open(&options, damage, &e));
        EXPECT(strstr(damage, "format") != NULL);
        EXPECT(stat(format, &found) != 0);
        EXPECT(rmdir(path) == 0);
    }
    e = open_engine(&options);
    engine_close(e);
}

/* The number of partitions decides where an instance lives: it cannot change under a data
 * directory. */
TEST(changed_partitions_are_refused)
{
    struct engine_options options;
    struct engine *e = NULL;
    struct stat found;
    char damage[ENGINE_DAMAGE_SIZE];
    options_init(&options, test_directory());
    engine_close(open_engine(&options));
    EXPECT(stat(options.directory, &found) == 0);
    EXPECT_EQ(0, found.st_mode & 077); /* nobody else may read it */

    options.host.partitions_n = 16;
    EXPECT_STATUS(E_INVALID, engine_open(&options, damage, &e));
    EXPECT(strstr(damage, "8 partitions") != NULL);
    options.host.partitions_n = 8;
    options.host.shards_n = 2;
    EXPECT_STATUS(E_INVALID, engine_open(&options, damage, &e));
    options.host.partitions_n = 0; /* whatever it was made with */
    options.host.shards_n = 0;
    e = open_engine(&options);
    EXPECT_EQ(8, engine_partitions_n(e));
    engine_close(e);
}

/* Completion tokens of before a restart must be good after it: the key stays. */
TEST(mac_key_stays)
{
    struct engine_options options;
    uint64_t key[2];
    options_init(&options, test_directory());
    struct engine *e = open_engine(&options);
    memcpy(key, engine_mac_key(e), sizeof key);
    EXPECT(key[0] != 0 || key[1] != 0);
    engine_close(e);
    e = open_engine(&options);
    EXPECT(memcmp(key, engine_mac_key(e), sizeof key) == 0);
    engine_close(e);
}

/* ---- backups ---- */

static const atomic_bool never_cancelled;
static char backup_path[512];

static struct backup backup_of(struct engine *e, const char *directory)
{
    (void)snprintf(backup_path, sizeof backup_path, "%s/copy", directory);
    return (struct backup){
        .engine = e,
        .directory = directory,
        .path = backup_path,
        .is_cancelled = &never_cancelled,
    };
}

static bool is_there(const char *suffix)
{
    char path[600];
    struct stat found;

    (void)snprintf(path, sizeof path, "%s%s", backup_path, suffix);
    return lstat(path, &found) == 0;
}

/* Parents and children are on different shards: each waits for messages of the other. A copy of a
 * moment in the middle of it goes on where it was, so none waits for a message that is lost. */
TEST(a_backup_of_several_shards_goes_on_where_it_was)
{
    enum { N = 150, SHARDS_N = 3 };
    struct engine_options options;
    struct agent agents[SHARDS_N];
    char key[32];

    options_init(&options, test_directory());
    options.host.shards_n = SHARDS_N;
    struct engine *e = open_engine(&options);
    for (uint32_t n = 0; n < SHARDS_N; n++) agent_start(&agents[n], e, n);
    for (int i = 0; i < N; i++) {
        (void)snprintf(key, sizeof key, "h/o%d", i);
        EXPECT_STATUS(OK, start(e, key, "parent"));
    }
    struct backup backup = backup_of(e, options.directory);
    enum status status = backup_make(&backup);
    test_note("%s", backup.text);
    EXPECT_STATUS(OK, status);
    for (uint32_t n = 0; n < SHARDS_N; n++) agent_stop(&agents[n]);
    engine_close(e);
    for (uint32_t n = 0; n < SHARDS_N; n++) agent_release(&agents[n]);

    options.directory = backup_path;
    e = open_engine(&options);
    for (uint32_t n = 0; n < SHARDS_N; n++) agent_start(&agents[n], e, n);
    for (int i = 0; i < N; i++) {
        (void)snprintf(key, sizeof key, "h/o%d", i);
        expect_completed(e, key, "child done");
    }
    for (uint32_t n = 0; n < SHARDS_N; n++) agent_stop(&agents[n]);
    engine_close(e);
    for (uint32_t n = 0; n < SHARDS_N; n++) agent_release(&agents[n]);
}

static void note_answered(struct request *r) { atomic_store((atomic_bool *)r->user, true); }

/* Between still and going on nothing may happen in any shard, or the copies would not fit. */
TEST(what_is_held_still_steps_nothing)
{
    struct engine_options options;
    atomic_bool is_answered = false;

    options_init(&options, test_directory());
    options.host.shards_n = 2;
    struct engine *e = open_engine(&options);
    struct hold *holds[2] = {engine_hold(e, 0), engine_hold(e, 1)};
    EXPECT_STATUS(OK, hold_all(holds, 2));
    EXPECT_STATUS(E_BUSY, hold_all(holds, 2));
    struct request r = {.kind = REQUEST_START, .key = BYTES_LITERAL("h/a"), .done = note_answered};
    r.start.name = BYTES_LITERAL("nobody");
    r.user = &is_answered;
    EXPECT(engine_post(e, &r));
    struct timespec moment = {.tv_nsec = 300000000};
    (void)nanosleep(&moment, NULL); /* long enough for one that does not wait */
    EXPECT(!atomic_load(&is_answered));
    hold_go_on(holds, 2);
    EXPECT_STATUS(E_EXISTS, start(e, "h/a", "nobody")); /* after it, in the same queue */
    EXPECT(atomic_load(&is_answered));
    EXPECT(hold_end(holds[0]));
    EXPECT(hold_end(holds[1]));
    engine_close(e);
}

TEST(a_backup_that_fails_leaves_nothing)
{
    struct engine_options options;
    static const atomic_bool is_cancelled = true;

    options_init(&options, test_directory());
    struct engine *e = open_engine(&options);
    EXPECT_STATUS(OK, start(e, "h/a", "nobody"));
    struct hold *hold = engine_hold(e, 0);
    EXPECT_STATUS(OK, hold_all(&hold, 1));
    hold_go_on(&hold, 1);
    struct backup backup = backup_of(e, options.directory);
    EXPECT_STATUS(E_BUSY, backup_make(&backup));
    EXPECT(hold_end(hold));
    backup.is_cancelled = &is_cancelled;
    EXPECT_STATUS(E_CLOSED, backup_make(&backup));
    EXPECT(!is_there(""));
    EXPECT(!is_there(".partial"));
    EXPECT_EQ(HOLD_NONE, hold_phase(hold));
    backup.is_cancelled = &never_cancelled;
    EXPECT_STATUS(OK, backup_make(&backup));
    EXPECT(is_there(""));
    EXPECT(!is_there(".partial"));
    EXPECT_STATUS(E_EXISTS, backup_make(&backup));
    engine_close(e);
    options.directory = backup_path;
    e = open_engine(&options);
    EXPECT_STATUS(E_EXISTS, start(e, "h/a", "nobody")); /* its frame was the last */
    engine_close(e);
}
