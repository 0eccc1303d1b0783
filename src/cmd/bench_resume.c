/* SPDX-License-Identifier: Apache-2.0
 *
 * See bench_resume.h.
 */
#include "cmd/bench_resume.h"

#include "base/clock.h"
#include "lib/hot.h"
#include "lib/memory.h"

#include <stdio.h>

#define HOT_N 1000
#define ROUNDS_N 100
#define CALLS_N 3333 /* of three events each */
#define REPLAYS_N 7

struct stage {
    struct mem mem;
    struct orchestration_env env;
    struct hot hot;
    struct link link;
    struct link_port port;
    struct link_work work;
    struct buffer events; /* strings */
    struct buffer one;
    struct bytes result;
    char ids[HOT_N][12];
};

/* Something of its own is on its stack, as it is with everybody. */
static norn_status call_for_ever(norn_context *ctx, struct norn_bytes input,
                                 struct norn_bytes *output, void *user)
{
    volatile char own[512];
    norn_status status = NORN_OK;

    (void)input, (void)output, (void)user;
    own[0] = 1;
    while (status == NORN_OK && own[0] == 1) status = norn_call(ctx, "step", NORN_NONE, NULL, NULL);
    return status;
}

static const struct orchestrator code = {.name = "resume", .fn = call_for_ever};
static const struct journal_lines lines;

/* ---- events ---- */

static void add_event(struct stage *s)
{
    strings_add(&s->events, buffer_view(&s->one));
    buffer_clear(&s->one);
}

static void add_begin(struct stage *s)
{
    event_write_orchestrator_started(&s->one, clock_wall_ns());
    add_event(s);
}

static void add_started(struct stage *s)
{
    struct event_started started = {.name = BYTES_LITERAL("resume"),
                                    .instance_id = BYTES_LITERAL("i")};

    event_started_write(&s->one, clock_wall_ns(), &started);
    add_event(s);
}

static void add_completed(struct stage *s, int32_t id)
{
    event_write_task_completed(&s->one, clock_wall_ns(), id, maybe_some(s->result));
    add_event(s);
}

static void add_scheduled(struct stage *s, int32_t id)
{
    struct action action = {.kind = ACTION_SCHEDULE_TASK, .id = id, .name = BYTES_LITERAL("step")};

    event_write_task_scheduled(&s->one, clock_wall_ns(), &action);
    add_event(s);
}

/* ---- turns ---- */

static void set_work(struct stage *s, const char *id, uint64_t base)
{
    link_work_reset(&s->work);
    s->work.port = &s->port;
    s->work.kind = WORK_TURN;
    s->work.id = bytes_of_text(id);
    s->work.name = BYTES_LITERAL("resume");
    s->work.base = base;
    s->work.fresh = buffer_view(&s->events);
}

static bool run_turn(struct stage *s, struct orchestration *o)
{
    uint64_t events_n = 0;
    bool has_ended = false;

    if (o == NULL) return false;
    if (orchestration_turn(o, &s->work, &events_n, &has_ended) != OK || has_ended) {
        orchestration_free(o);
        return false;
    }
    hot_put(&s->hot, o, link_next_base(&s->work, events_n));
    return true;
}

static bool begin_all(struct stage *s)
{
    buffer_clear(&s->events);
    add_begin(s);
    add_started(s);
    for (int n = 0; n < HOT_N; n++) {
        (void)snprintf(s->ids[n], sizeof s->ids[n], "i-%d", n);
        set_work(s, s->ids[n], 0);
        if (!run_turn(s, orchestration_new(&s->env, &code, &s->work))) return false;
    }
    return true;
}

static bool measure_resume(struct stage *s, struct bench_resume *out)
{
    int64_t took_ns = 0;

    if (!begin_all(s)) return false;
    for (int round = 0; round < ROUNDS_N; round++) {
        buffer_clear(&s->events);
        add_begin(s);
        add_completed(s, round);
        int64_t began_ns = clock_thread_cpu_ns();
        for (int n = 0; n < HOT_N; n++) {
            set_work(s, s->ids[n], (uint64_t)round + 1);
            if (!run_turn(s, hot_take(&s->hot, &s->work))) return false;
        }
        took_ns += clock_thread_cpu_ns() - began_ns;
    }
    out->resume_us = (double)took_ns / 1000 / (HOT_N * ROUNDS_N);
    return true;
}

static bool measure_replay(struct stage *s, struct bench_resume *out)
{
    buffer_clear(&s->events);
    add_begin(s);
    add_started(s);
    add_scheduled(s, 0);
    for (int32_t n = 0; n < CALLS_N; n++) {
        add_begin(s);
        add_completed(s, n);
        add_scheduled(s, n + 1);
    }
    if (s->events.failed) return false;
    out->replay_10k_ms = 0;
    for (int n = 0; n < REPLAYS_N; n++) {
        set_work(s, "long", 1);
        s->work.fresh = BYTES_NONE;
        s->work.past = buffer_view(&s->events);
        s->work.has_past = true;
        s->work.history_n = 3 + 3 * CALLS_N;
        int64_t began_ns = clock_thread_cpu_ns();
        struct orchestration *o = orchestration_new(&s->env, &code, &s->work);
        if (o == NULL || !run_turn(s, o)) return false;
        double ms = (double)(clock_thread_cpu_ns() - began_ns) / NS_PER_MS;
        if (n == 0 || ms < out->replay_10k_ms) out->replay_10k_ms = ms;
        o = hot_take(&s->hot, &s->work); /* of another base: it is freed */
        if (o != NULL) orchestration_free(o);
    }
    return true;
}

bool bench_resume_measure(struct bench_resume *out)
{
    static struct stage s;
    struct coroutine_stack *stack;

    memory_init(&s.mem);
    if (coroutine_stack_open(&s.mem, COROUTINE_STACK_SIZE_MIN, &stack) != OK) return false;
    s.env = (struct orchestration_env){.mem = &s.mem, .stack = stack, .lines = &lines};
    s.port = (struct link_port){.link = &s.link};
    s.result = BYTES_LITERAL("\"a result\"");
    hot_init(&s.hot, &s.mem, 2 * HOT_N);
    link_work_init(&s.work);
    buffer_init(&s.events, &s.mem);
    buffer_init(&s.one, &s.mem);
    bool is_measured = measure_resume(&s, out) && measure_replay(&s, out);
    buffer_release(&s.events);
    buffer_release(&s.one);
    link_work_release(&s.work);
    hot_release(&s.hot);
    orchestration_env_release(&s.env);
    coroutine_stack_close(stack);
    mem_release(&s.mem);
    return is_measured;
}
