/* SPDX-License-Identifier: Apache-2.0
 *
 * The orchestrators and activities that the simulated workers run, and what each must answer. An
 * orchestrator is a function of its events alone: it is run from the start at every turn, asks for
 * what it has begun, and stops where an answer is missing. What it has to answer in the end follows
 * from its input.
 *
 * To add one: a line in PROGRAMS, a function run_<name> in sim_programs.c, and a line in
 * program_expect().
 */
#ifndef TEST_SIM_SIM_PROGRAMS_H
#define TEST_SIM_SIM_PROGRAMS_H

#include "base/arena.h"
#include "base/rng.h"
#include "core/event.h"
#include "core/input.h"

/* name, weight among the starts of clients, what it does; its input is numbers: n x ... */
#define PROGRAMS(X)                                                                                \
    X(sequence, 20, "n activities, one after the other")                                           \
    X(fan, 12, "n activities at once, and their sum")                                              \
    X(either, 8, "an event or a timer, whichever is first")                                        \
    X(collect, 10, "n events, in the order they came")                                             \
    X(timers, 8, "n timers at once, every third one x ms long: up to days")                        \
    X(family, 8, "n children of its own kind, x levels deep, one after the other")                 \
    X(crowd, 6, "n children at once")                                                              \
    X(loop, 6, "continues as new n times, an activity in each")                                    \
    X(restless, 6, "continues as new n times without waiting for what it began, then waits")       \
    X(collect_loop, 10, "n events, and continues as new after every x of them")                    \
    X(caught, 4, "an activity fails, and it goes on")                                              \
    X(uncaught, 4, "an activity fails, and so does it")                                            \
    X(undone, 4, "the same, and says that what it did was undone")                                 \
    X(bereaved, 4, "a child fails, and it goes on")                                                \
    X(self, 4, "sends n events to itself")                                                         \
    X(relay, 6, "sends the event x to the instance named in its input")                            \
    X(flaky, 6, "an activity that fails n times before it succeeds, retried by the Supervisor")    \
    X(late, 4, "an activity with a complete-by time")                                              \
    X(parked, 2, "an activity that the Supervisor parks: waits for the operator")                  \
    X(echo, 4, "answers its input, byte for byte")                                                 \
    X(teller, 10, "n signals to an entity, some of them later, and n calls, one after the other")  \
    X(critical, 10, "n + 1 entities in a critical section: enters all, works, leaves all")

enum program {
#define X(name, weight, text) PROGRAM_##name,
    PROGRAMS(X)
#undef X
        PROGRAMS_N,
};
const char *program_name(enum program program);
/* By weight. */
enum program program_draw(struct rng *rng);

/* Numbers in the input of a program. */
struct plan {
    int64_t n;
    int64_t x;
    struct bytes rest; /* after the two numbers and a space */
};
struct plan plan_read(struct bytes input);

struct expectation {
    enum orchestration_status status;
    bool is_exact;       /* the output is known to the byte */
    struct bytes output; /* then; in the arena */
};
/* What an instance that nobody disturbs ends with. */
struct expectation program_expect(enum program program, struct bytes input, struct arena *arena);

/* One turn, as a worker sees it. */
struct turn {
    struct bytes name;
    struct bytes instance_id;
    struct bytes past;      /* strings of events */
    struct bytes fresh;     /* strings of events */
    int32_t scheduled_upto; /* actions up to this id were answered, though past may not show it */
};
struct turn_result {
    struct orchestrator_answer answer;
    int32_t scheduled_upto;
    bool is_finished;
    const char
        *mismatch; /* the history is not one this program could have (S13): the answer says so */
};
/* Everything in arena, or borrowed from the turn. */
void program_turn(const struct turn *turn, struct arena *arena, struct turn_result *out);

/* The names of all activities. */
#define PROGRAM_TASKS "double", "fail", "flaky", "late", "park"

/* One activity. attempt: failures before. is_mended: the cause that parked a step is gone. */
struct task_result {
    struct maybe result;
    struct maybe failure; /* raw TaskFailureDetails */
};
void program_task(struct bytes name, struct bytes input, uint32_t attempt, bool is_mended,
                  struct arena *arena, struct task_result *out);

/* The value of TaskCompleted, SubOrchestrationInstanceCompleted; name and value of EventRaised. */
struct maybe event_value(const struct event_head *head);
struct bytes event_raised_name(const struct event_head *head);

/* "12 34 …" */
bool number_next(struct bytes *text, int64_t *out);
/* part stands somewhere in it. */
bool text_has(struct bytes text, struct bytes part);
/* Text in arena. */
__attribute__((format(printf, 2, 3))) struct bytes text_make(struct arena *arena,
                                                             const char *format, ...);

/* A result that only an answer nobody may accept carries: must never be in any history. */
#define ZOMBIE "ZOMBIE"

#endif
