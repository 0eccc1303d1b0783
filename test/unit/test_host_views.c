/* SPDX-License-Identifier: Apache-2.0
 *
 * What an operator asks a host: why an instance is where it is, what waits for somebody, and what
 * changes. S8 S13 S20
 */
#include "base/text.h"
#include "test/lib/test.h"
#include "test/unit/host_world.h"

#define MINUTE_MS INT64_C(60000)

/* ---- asking ---- */

static void put(struct buffer *b, struct bytes text) { buffer_append_bytes(b, text); }

static void put_why(struct buffer *b, const struct request *r)
{
    static const char *const states[] = {"pending", "processing", "waiting", "error"};
    static const char *const kinds[] = {"timer", "child", "entity"};
    const struct why *w = r->why;

    put(b, w->reason);
    buffer_format(b, "%s\n", w->is_parked ? " [parked]" : "");
    if (w->last_error.len > 0) {
        put(b, BYTES_LITERAL("error "));
        put(b, w->last_error);
        put(b, BYTES_LITERAL("\n"));
    }
    for (size_t n = 0; n < w->tasks_n; n++) {
        const struct task_view *t = &w->tasks[n].task;
        buffer_format(b, "task %d %.*s %s by %u failed %u of %u%s\n", t->task_id, (int)t->name.len,
                      (const char *)t->name.ptr, states[t->process], t->locked_by, t->failures,
                      t->attempts_n, w->tasks[n].is_unserved ? " unserved" : "");
    }
    for (size_t n = 0; n < w->waits_n; n++) {
        const struct wait_view *v = &w->waits[n];
        buffer_format(b, "%s %d %.*s\n", kinds[v->kind], v->id, (int)v->instance.len,
                      (const char *)v->instance.ptr);
    }
    if (w->worker_name.len > 0) {
        put(b, BYTES_LITERAL("no worker for "));
        put(b, w->worker_name);
        put(b, BYTES_LITERAL("\n"));
    }
}

static void put_parked(struct buffer *b, const struct request *r)
{
    for (size_t n = 0; n < r->parked_n; n++) {
        const struct parked_view *p = &r->parked[n];
        put(b, p->key);
        buffer_format(b, " %d %.*s %lld ", p->task_id, (int)p->name.len, (const char *)p->name.ptr,
                      (long long)(p->since_ms - WORLD_START_NS / NS_PER_MS));
        put(b, p->text);
        put(b, BYTES_LITERAL("\n"));
    }
    if (r->has_more) put(b, BYTES_LITERAL("more\n"));
}

/* The answer as text: it is borrowed until done() returns. */
static void see_done(struct request *r)
{
    struct ask *a = container_of(r, struct ask, request);
    struct buffer b;

    a->is_done = true;
    a->has_view = r->view != NULL;
    buffer_init(&b, mem_process());
    if (r->why != NULL) put_why(&b, r);
    if (r->parked != NULL) put_parked(&b, r);
    (void)snprintf(a->rows, sizeof a->rows, "%.*s", (int)b.len, (const char *)b.ptr);
    buffer_release(&b);
}

static const char *why(struct world *w, const char *id)
{
    static struct ask a;

    ask_init(&a, w, REQUEST_WHY, id);
    a.request.done = see_done;
    ask_run(&a);
    EXPECT(a.is_done);
    EXPECT_STATUS(OK, a.request.status);
    EXPECT_EQ(a.has_view, a.request.why != NULL);
    return a.rows;
}

static const char *alerts(struct world *w, const char *hub, uint32_t limit)
{
    static struct ask a;

    ask_init(&a, w, REQUEST_ALERTS, "");
    a.request.done = see_done;
    a.request.alerts.hub = bytes_of_text(hub);
    a.request.alerts.limit = limit;
    ask_run(&a);
    EXPECT(a.is_done);
    EXPECT_STATUS(OK, a.request.status);
    return a.rows;
}

/* The work that the worker holds is refused for good. */
static void park_held(struct world *w, const char *reason)
{
    struct list *node;

    while ((node = list_pop_front(&w->errands)) != NULL) {
        struct errand *e = container_of(node, struct errand, held);
        struct ask park;
        ask_init(&park, w, REQUEST_ABANDON, "x");
        park.request.key = e->request.key;
        park.request.lease.ref = e->request.worker_done.ref;
        park.request.lease.is_parked = true;
        park.request.lease.reason = bytes_of_text(reason);
        ask_run(&park);
        EXPECT_STATUS(OK, park.request.status);
        errand_done(&e->request);
    }
}

/* ---- why ---- */

/* Who has it, which attempt of how many, what else it waits for. */
TEST(why_of_an_instance_in_memory)
{
    struct world w;
    world_init(&w);
    world_open(&w);
    EXPECT_TEXT("", why(&w, "none"));
    w.holds_work = true;
    EXPECT_STATUS(OK, world_start(&w, "a", "seq1"));
    EXPECT_TEXT("PENDING: its orchestrator runs on worker 1 with 1 new events\n", why(&w, "a"));
    world_answer_turns(&w);
    EXPECT_TEXT("RUNNING: waits for step 0 \"step\": attempt 1 of 20 runs on worker 1\n"
                "task 0 step processing by 1 failed 0 of 20\n",
                why(&w, "a"));
    park_held(&w, "larger than a message");
    EXPECT_TEXT("RUNNING: step 0 waits for an operator: larger than a message; resubmit it when "
                "the cause is mended [parked]\n"
                "error larger than a message\n"
                "task 0 step error by 0 failed 1 of 20\n",
                why(&w, "a"));
    w.holds_work = false;
    EXPECT_STATUS(OK, world_start(&w, "p", "lonely"));
    EXPECT_TEXT("RUNNING: waits for 0 activities, 0 timers, 1 sub-orchestrations\nchild 0 p-c\n",
                why(&w, "p"));
    world_release(&w);
}

/* Work that no attached worker takes is told by its name. */
TEST(why_says_that_no_worker_takes_it)
{
    const struct worker_filter turns[] = {{.name = BYTES_LITERAL("seq1")}};
    struct world w;
    struct ask ask;
    world_init(&w);
    world_open(&w);
    ask_init(&ask, &w, REQUEST_WORKER_DETACH, "worker");
    ask.request.worker.worker = &w.worker;
    ask_run(&ask);
    EXPECT_STATUS(OK, world_start(&w, "a", "seq1"));
    EXPECT_TEXT("PENDING: 1 new events wait for a worker of \"seq1\"\nno worker for seq1\n",
                why(&w, "a"));
    w.worker.has_filters = true; /* turns, but no steps */
    w.worker.turn_filters = turns;
    w.worker.turn_filters_n = 1;
    ask_init(&ask, &w, REQUEST_WORKER_ATTACH, "worker");
    ask.request.worker.worker = &w.worker;
    ask_run(&ask);
    EXPECT_TEXT("RUNNING: waits for step 0 \"step\": attempt 1 of 20 waits for a worker\n"
                "task 0 step pending by 0 failed 0 of 20 unserved\nno worker for step\n",
                why(&w, "a"));
    world_release(&w);
}

/* A sleeper is looked at as if it had never left, and sleeps on. */
TEST(why_of_a_sleeper)
{
    struct world w;
    world_init(&w);
    world_open(&w);
    EXPECT_STATUS(OK, world_start(&w, "a", "nap"));
    world_advance_ms(&w, MINUTE_MS);
    EXPECT_EQ(0, world_stats(&w).instances_hot);
    EXPECT_TEXT("RUNNING: waits for 0 activities, 1 timers, 0 sub-orchestrations; next timer at "
                "2023-11-14T23:13:20.001Z\ntimer 0 \n",
                why(&w, "a"));
    world_advance_ms(&w, MINUTE_MS);
    EXPECT_EQ(0, world_stats(&w).instances_hot);
    EXPECT_STATUS(OK, world_start(&w, "b", "fail"));
    world_advance_ms(&w, MINUTE_MS);
    EXPECT_TEXT("FAILED: it has ended; 0 messages were left unread\nerror no luck\n", why(&w, "b"));
    world_release(&w);
}

/* What it shows may not be durable yet: the answer waits for it. A1 */
TEST(why_waits_for_durability)
{
    struct world w;
    struct ask a;
    world_init(&w);
    world_open(&w);
    w.is_held[LANE_COMMIT] = true;
    ask_init(&a, &w, REQUEST_START, "a");
    a.request.start.name = BYTES_LITERAL("wait");
    struct ask see;
    ask_init(&see, &w, REQUEST_WHY, "a");
    see.request.done = see_done;
    ask_post(&a);
    ask_run(&see);
    EXPECT(!see.is_done);
    w.is_held[LANE_COMMIT] = false;
    world_pump(&w);
    EXPECT(see.is_done);
    world_release(&w);
}

/* ---- alerts ---- */

/* Longest waiting first, page by page, and neither idleness nor a crash loses one. */
TEST(alerts_are_found_until_somebody_helps)
{
    struct world w;
    world_init(&w);
    world_open(&w);
    EXPECT_TEXT("", alerts(&w, "", 10));
    w.holds_work = true;
    EXPECT_STATUS(OK, world_start(&w, "b", "seq1"));
    park_held(&w, "too large");
    world_advance_ms(&w, 1000);
    EXPECT_STATUS(OK, world_start(&w, "a", "seq1"));
    world_answer_turns(&w);
    park_held(&w, "no printer");
    const char *both = "h/b -1 seq1 0 too large\nh/a 0 step 1000 no printer\n";
    EXPECT_TEXT(both, alerts(&w, "", 10));
    EXPECT_TEXT(both, alerts(&w, "h", 2));
    EXPECT_TEXT("", alerts(&w, "other", 10));
    EXPECT_TEXT("h/b -1 seq1 0 too large\nmore\n", alerts(&w, "h", 1));
    EXPECT_EQ(2, world_stats(&w).gauges.parked);

    struct ask a;
    ask_init(&a, &w, REQUEST_ALERTS, "");
    a.request.done = see_done;
    a.request.alerts = (struct request_alerts){.has_after = true,
                                               .after_ms = WORLD_START_NS / NS_PER_MS,
                                               .after_key = BYTES_LITERAL("h/b"),
                                               .after_task_id = PARKED_TURN,
                                               .limit = 1};
    ask_run(&a);
    EXPECT_TEXT("h/a 0 step 1000 no printer\n", a.rows);

    world_advance_ms(&w, 10 * MINUTE_MS); /* archived, and journal and memory would be let go */
    EXPECT_TEXT(both, alerts(&w, "", 10));
    world_crash(&w);
    world_open(&w);
    EXPECT_TEXT(both, alerts(&w, "", 10));

    w.holds_work = false;
    ask_init(&a, &w, REQUEST_RESUBMIT, "a");
    ask_run(&a);
    EXPECT_STATUS(OK, a.request.status);
    EXPECT_TEXT("h/b -1 seq1 0 too large\n", alerts(&w, "", 10));
    EXPECT_EQ(STATUS_COMPLETED, world_get(&w, "a").status);
    world_advance_ms(&w, 10 * MINUTE_MS);
    EXPECT_EQ(1, world_stats(&w).instances_hot); /* the parked one */
    world_release(&w);
}

/* The list of instances can be asked for the parked ones only. */
TEST(lists_of_parked_instances)
{
    struct world w;
    struct ask a;
    world_init(&w);
    world_open(&w);
    EXPECT_STATUS(OK, world_start(&w, "done", "seq1"));
    w.holds_work = true;
    EXPECT_STATUS(OK, world_start(&w, "b", "seq1"));
    world_advance_ms(&w, 1);
    EXPECT_STATUS(OK, world_start(&w, "a", "wait"));
    park_held(&w, "too large");
    EXPECT_STATUS(OK, world_start(&w, "c", "wait"));
    world_advance_ms(&w, MINUTE_MS);
    ask_init(&a, &w, REQUEST_QUERY, "");
    a.request.query =
        (struct request_query){.hub = BYTES_LITERAL("h"), .limit = 10, .want_parked = true};
    ask_run(&a);
    EXPECT_STATUS(OK, a.request.status);
    EXPECT_TEXT("b a ", a.rows);
    ask_init(&a, &w, REQUEST_QUERY, "");
    a.request.query = (struct request_query){
        .hub = BYTES_LITERAL("h"), .limit = 10, .want_parked = true, .name = BYTES_LITERAL("wait")};
    ask_run(&a);
    EXPECT_TEXT("a ", a.rows);
    world_release(&w);
}

/* ---- the feed ---- */

struct ear {
    struct world *w;
    atomic_bool is_open;
    char heard[1000];
};

static void hear(void *user, uint32_t shard, const struct host_change *change)
{
    struct ear *ear = user;
    size_t at = strlen(ear->heard);

    EXPECT_EQ(0, shard);
    if (change == NULL) {
        (void)snprintf(ear->heard + at, sizeof ear->heard - at, ".\n");
    } else if (change->is_alert) {
        (void)snprintf(ear->heard + at, sizeof ear->heard - at, "%.*s ! %s\n", (int)change->key.len,
                       (const char *)change->key.ptr, change->text);
    } else {
        (void)snprintf(ear->heard + at, sizeof ear->heard - at, "%.*s %.*s %s %lld\n",
                       (int)change->key.len, (const char *)change->key.ptr, (int)change->name.len,
                       (const char *)change->name.ptr, orchestration_status_name(change->status),
                       (long long)((change->time_ns - WORLD_START_NS) / NS_PER_MS));
    }
}

/* Who listens hears every change once, after it is durable; who does not costs nothing. A1 */
TEST(changes_are_told_to_who_listens)
{
    struct world w;
    struct ear ear = {.w = &w};
    struct ask a;
    world_init(&w);
    w.options.is_watched = &ear.is_open;
    w.options.changed = hear;
    w.options.changed_user = &ear;
    world_open(&w);
    EXPECT_STATUS(OK, world_start(&w, "unheard", "seq1"));
    EXPECT_TEXT("", ear.heard);
    atomic_store(&ear.is_open, true);
    w.is_held[LANE_COMMIT] = true;
    ask_init(&a, &w, REQUEST_START, "a");
    a.request.start.name = BYTES_LITERAL("seq1");
    ask_run(&a);
    EXPECT_TEXT("", ear.heard); /* not durable */
    w.now_ns += 3 * NS_PER_MS;
    w.is_held[LANE_COMMIT] = false;
    world_pump(&w);
    EXPECT_TEXT("h/a seq1 PENDING 0\n.\nh/a seq1 RUNNING 3\n.\nh/a seq1 COMPLETED 3\n.\n",
                ear.heard);

    ear.heard[0] = '\0';
    w.holds_work = true;
    EXPECT_STATUS(OK, world_start(&w, "b", "seq1"));
    park_held(&w, "too large");
    EXPECT_TEXT("h/b seq1 PENDING 3\n.\n"
                "h/b ! parked after 1 turns that no worker finished: too large\n.\n",
                ear.heard);
    ear.heard[0] = '\0';
    atomic_store(&ear.is_open, false);
    w.holds_work = false;
    EXPECT_STATUS(OK, world_start(&w, "c", "seq1"));
    EXPECT_TEXT("", ear.heard);
    world_release(&w);
}
