/* SPDX-License-Identifier: Apache-2.0
 *
 * A program that was changed while its instances run is found out at replay, with a sentence that
 * says where.
 */
#include "lib_world.h"

#include "base/clock.h"
#include "lib/worker.h"

static const char *program;

static norn_status echo(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                        void *user)
{
    (void)user;
    *output = joined(ctx, "", input);
    return NORN_OK;
}

/* One letter is one step: what follows W is done after the event. */
static norn_status interpret(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                             void *user)
{
    norn_status status = NORN_OK;
    norn_task *task;
    (void)input;
    (void)output;
    (void)user;
    for (const char *step = program; *step != '\0' && status == NORN_OK; step++) {
        switch (*step) {
        case 'A': status = norn_call(ctx, "a", NORN_NONE, NULL, NULL); break;
        case 'B': status = norn_call(ctx, "b", NORN_NONE, NULL, NULL); break;
        case 'a': status = norn_begin_call(ctx, NORN_ACTIVITY, "a", NORN_NONE, NULL, &task); break;
        case 'T': status = norn_sleep(ctx, 1); break;
        case 'C': status = norn_call_child(ctx, "child", NORN_NONE, NULL, NULL); break;
        case 'S': status = norn_send_event(ctx, "other", "hi", NORN_NONE); break;
        case 's': status = norn_send_event(ctx, "another", "hi", NORN_NONE); break;
        case 'E': status = norn_call_entity(ctx, "@e@1", "get", NORN_NONE, NULL); break;
        case 'e': status = norn_call_entity(ctx, "@e@2", "get", NORN_NONE, NULL); break;
        case 'W': status = norn_wait_event(ctx, "go", -1, NULL); break;
        default: return NORN_E_INVALID;
        }
    }
    return status;
}

static norn_status nothing(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                           void *user)
{
    (void)ctx;
    (void)input;
    (void)output;
    (void)user;
    return NORN_OK;
}

static norn_status entity(norn_context *ctx, const char *operation, struct norn_bytes input,
                          struct norn_bytes *output, void *user)
{
    (void)ctx;
    (void)operation;
    (void)input;
    (void)output;
    (void)user;
    return NORN_OK;
}

static void open_worker(struct world *w)
{
    EXPECT_NORN(NORN_OK, norn_orchestrator(w->worker, "main", NULL, interpret, NULL));
    EXPECT_NORN(NORN_OK, norn_orchestrator(w->worker, "child", NULL, nothing, NULL));
    EXPECT_NORN(NORN_OK, norn_activity_add(w->worker, "a", 0, echo, NULL));
    EXPECT_NORN(NORN_OK, norn_activity_add(w->worker, "b", 0, echo, NULL));
    EXPECT_NORN(NORN_OK, norn_entity_add(w->worker, "e", entity, NULL));
    world_start(w);
}

static void run_until_it_waits(struct world *w, const char *id, const char *what)
{
    struct norn_start_options start = NORN_START_OPTIONS;
    start.id = id;
    start.version = "7";
    program = what;
    EXPECT_NORN(NORN_OK, norn_start(w->client, "main", NORN_NONE, &start, NULL));
    for (int n = 0; n < 4; n++) {
        EXPECT_NORN(NORN_E_TIMEOUT, norn_get(w->client, id, 20, NULL));
    }
}

struct difference {
    const char *before, *after, *sentence; /* NULL: none */
};
static const struct difference differences[] = {
    {"AWB", "AWB", NULL},
    {"AWB", "AWA", NULL}, /* not done yet: may change */
    {"AWB", "BWB",
     "expected TaskScheduled 'a', got TaskScheduled 'b', at event 3 of the history; orchestrator "
     "'main', version 7"},
    {"AWB", "TWB",
     "expected TaskScheduled 'a', got TimerCreated, at event 3 of the history; orchestrator "
     "'main', version 7"},
    {"TW", "AW",
     "expected TimerCreated, got TaskScheduled 'a', at event 3 of the history; orchestrator "
     "'main', version 7"},
    {"CW", "AW",
     "expected SubOrchestrationInstanceCreated 'child', got TaskScheduled 'a', at event 3 of the "
     "history; orchestrator 'main', version 7"},
    {"SW", "sW",
     "expected EventSent 'hi' for other, got EventSent 'hi' for another, at event 3 of the "
     "history; orchestrator 'main', version 7"},
    {"EW", "eW",
     "expected EntityOperationCalled 'get' for @e@1, got EntityOperationCalled 'get' for @e@2, at "
     "event 3 of the history; orchestrator 'main', version 7"},
    {"AW", "WA",
     "expected TaskScheduled 'a', got nothing, at event 3 of the history; orchestrator 'main', "
     "version 7"},
    {"AW", "",
     "expected TaskScheduled 'a', got the end of the orchestrator, at event 3 of the history; "
     "orchestrator 'main', version 7"},
    {"aW", "aaW",
     "expected nothing, got TaskScheduled 'a', at event 5 of the history; orchestrator 'main', "
     "version 7"},
    {"AW", "A",
     "expected nothing, got the end of the orchestrator, at event 5 of the history; orchestrator "
     "'main', version 7"},
};
#define DIFFERENCES_N (sizeof differences / sizeof *differences)

/* Two letters before and after; the number of the event is that of the history. */
TEST(a_changed_program_is_found_at_replay)
{
    struct world w;
    for (size_t n = 0; n < DIFFERENCES_N; n++) {
        const struct difference *d = &differences[n];
        test_note("row %zu", n);
        world_open(&w);
        open_worker(&w);
        run_until_it_waits(&w, "i", d->before);
        world_close_worker(&w);
        program = d->after;
        world_open_worker(&w);
        open_worker(&w);
        EXPECT_NORN(NORN_OK, norn_raise(w.client, "i", "go", NORN_NONE));
        if (d->sentence != NULL) {
            world_expect_failure(&w, "i", "NonDeterminism", d->sentence);
            EXPECT(world_has_line(&w, d->sentence));
        } else {
            struct norn_info *info = world_wait(&w, "i");
            EXPECT_EQ(NORN_COMPLETED, info->state);
            norn_info_free(info);
        }
        world_close(&w);
    }
}

/* The whole engine is opened again: memory, worker and all. */
TEST(an_instance_goes_on_after_the_process_was_restarted)
{
    struct world w;
    world_open(&w);
    open_worker(&w);
    run_until_it_waits(&w, "i", "ATEWB");
    world_close(&w);
    char directory[300];
    snprintf(directory, sizeof directory, "%s", w.directory);
    w = (struct world){.options = NORN_WORKER_OPTIONS};
    pthread_mutex_init(&w.mutex, NULL);
    snprintf(w.directory, sizeof w.directory, "%s", directory);
    world_open_engine(&w);
    world_open_worker(&w);
    open_worker(&w);
    EXPECT_NORN(NORN_OK, norn_raise(w.client, "i", "go", NORN_NONE));
    struct norn_info *info = world_wait(&w, "i");
    EXPECT_EQ(NORN_COMPLETED, info->state);
    EXPECT_TEXT("7", info->version);
    norn_info_free(info);
    world_close(&w);
}

static norn_status declines_once(norn_context *ctx, struct norn_bytes input,
                                 struct norn_bytes *output, void *user)
{
    bool *is_mended = user;
    (void)input;
    if (!*is_mended) return norn_fail(ctx, "Declined", "no", true);
    *output = norn_text("yes");
    return NORN_OK;
}

static norn_status asks(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                        void *user)
{
    (void)input;
    (void)user;
    norn_status status = norn_call(ctx, "a", NORN_NONE, NULL, NULL);
    return status == NORN_OK ? norn_call(ctx, "ask", NORN_NONE, NULL, output) : status;
}

/* The failed step is taken out of the history: the program does it again, and that is no
 * difference. */
TEST(a_rewound_instance_does_the_failed_step_again)
{
    struct world w;
    bool is_mended = false;
    world_open(&w);
    EXPECT_NORN(NORN_OK, norn_orchestrator(w.worker, "asks", NULL, asks, NULL));
    EXPECT_NORN(NORN_OK, norn_activity_add(w.worker, "ask", 0, declines_once, &is_mended));
    open_worker(&w);
    world_begin(&w, "asks", "i", NULL);
    world_expect_failure(&w, "i", "Declined", "no");
    is_mended = true;
    EXPECT_NORN(NORN_OK, norn_control(w.client, "i", NORN_REWIND, norn_text("mended")));
    world_expect_output(&w, "i", "yes");
    world_close(&w);
}

static norn_status undoes(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                          void *user)
{
    (void)input;
    (void)user;
    norn_status status = norn_call(ctx, "a", NORN_NONE, NULL, NULL);
    if (status == NORN_OK) status = norn_compensate(ctx, "b", NORN_NONE, NULL);
    return status == NORN_OK ? norn_call(ctx, "ask", NORN_NONE, NULL, output) : status;
}

/* What it would go on from has been undone: to go on would be to ship what was paid back. */
TEST(an_instance_that_has_undone_cannot_be_rewound)
{
    struct world w;
    bool is_mended = false;
    world_open(&w);
    EXPECT_NORN(NORN_OK, norn_orchestrator(w.worker, "undoes", NULL, undoes, NULL));
    EXPECT_NORN(NORN_OK, norn_activity_add(w.worker, "ask", 0, declines_once, &is_mended));
    open_worker(&w);
    world_begin(&w, "undoes", "i", NULL);
    world_expect_failure(&w, "i", "Declined", "no");
    is_mended = true;
    EXPECT_NORN(NORN_E_PRECONDITION, norn_control(w.client, "i", NORN_REWIND, norn_text("mended")));
    EXPECT(strstr(norn_client_error(w.client), "its compensations have run") != NULL);
    world_expect_failure(&w, "i", "Declined", "no");
    EXPECT_NORN(NORN_OK, norn_control(w.client, "i", NORN_RESTART, NORN_NONE));
    world_close(&w);
}

static norn_status parent_of_undoes(norn_context *ctx, struct norn_bytes input,
                                    struct norn_bytes *output, void *user)
{
    (void)input;
    (void)user;
    norn_status status = norn_call(ctx, "a", NORN_NONE, NULL, NULL);
    return status == NORN_OK ? norn_call_child(ctx, "undoes", NORN_NONE, NULL, output) : status;
}

/* The child has left nothing behind: with its parent it begins anew, and gets through. */
TEST(a_child_that_has_undone_begins_anew_with_its_parent)
{
    struct world w;
    bool is_mended = false;
    world_open(&w);
    EXPECT_NORN(NORN_OK, norn_orchestrator(w.worker, "undoes", NULL, undoes, NULL));
    EXPECT_NORN(NORN_OK, norn_orchestrator(w.worker, "parent", NULL, parent_of_undoes, NULL));
    EXPECT_NORN(NORN_OK, norn_activity_add(w.worker, "ask", 0, declines_once, &is_mended));
    open_worker(&w);
    world_begin(&w, "parent", "i", NULL);
    struct norn_info *info = world_wait(&w, "i");
    EXPECT_EQ(NORN_FAILED, info->state);
    norn_info_free(info);
    is_mended = true;
    EXPECT_NORN(NORN_OK, norn_control(w.client, "i", NORN_REWIND, norn_text("mended")));
    world_expect_output(&w, "i", "yes");
    world_close(&w);
}

/* 5,000 calls are some 10,000 events and as many turns. Printed, not judged: sanitizers take their
 * time; a release build needs a few milliseconds. */
static norn_status long_one(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                            void *user)
{
    norn_task *tasks[50];
    norn_status status = NORN_OK;
    (void)input;
    (void)output;
    for (int round = 0; round < 100 && status == NORN_OK; round++) {
        for (int n = 0; n < 50 && status == NORN_OK; n++)
            status = norn_begin_call(ctx, NORN_ACTIVITY, "a", norn_text("x"), NULL, &tasks[n]);
        if (status == NORN_OK) status = norn_when_all(ctx, tasks, 50);
    }
    int64_t *waited_at_ns = user;
    *waited_at_ns = clock_mono_ns();
    if (status == NORN_OK) status = norn_wait_event(ctx, "go", -1, NULL);
    return status;
}

TEST(a_long_history_is_replayed_in_time)
{
    struct world w;
    int64_t waited_at_ns = 0;
    world_open(&w);
    EXPECT_NORN(NORN_OK, norn_orchestrator(w.worker, "long", NULL, long_one, &waited_at_ns));
    open_worker(&w);
    world_begin(&w, "long", "i", NULL);
    struct norn_info *info = NULL;
    for (int n = 0; n < 400; n++) {
        world_pause();
        EXPECT_NORN(NORN_OK, norn_get(w.client, "i", 0, &info));
        int64_t updated_ms = info->updated_ms;
        norn_info_free(info);
        if (norn_get(w.client, "i", 100, NULL) != NORN_E_TIMEOUT) break;
        EXPECT_NORN(NORN_OK, norn_get(w.client, "i", 0, &info));
        bool is_waiting = info->updated_ms == updated_ms;
        norn_info_free(info);
        if (is_waiting) break;
    }
    world_close_worker(&w);
    world_open_worker(&w);
    EXPECT_NORN(NORN_OK, norn_orchestrator(w.worker, "long", NULL, long_one, &waited_at_ns));
    open_worker(&w);
    EXPECT_NORN(NORN_OK, norn_raise(w.client, "i", "go", NORN_NONE));
    info = world_wait(&w, "i");
    EXPECT_EQ(NORN_COMPLETED, info->state);
    norn_info_free(info);
    EXPECT_EQ(1, w.worker->turns.replays_n);
    printf("# %.1f ms for the turn that replayed 10,000 events\n",
           (double)(waited_at_ns - w.worker->turns.began_ns) / 1e6);
    world_close(&w);
}
