/* SPDX-License-Identifier: Apache-2.0
 *
 * One execution of an orchestrator, as a program in memory: its coroutine, its tasks, and what it
 * has decided. It is made from its history alone, and its history is made by it:
 *
 *      events of the past ──> the same calls, compared with what the history says (replay)
 *      fresh events       ──> new calls, which become the actions of the answer
 *
 * Events are applied one after the other; each that ends what the coroutine waits for resumes it at
 * once. So the order of the events decides everything, and a program that was kept from its last
 * turn (hot) is in the same state as one that was made again from its history.
 *
 * Everything here belongs to the thread of turns.
 */
#ifndef LIB_ORCHESTRATION_H
#define LIB_ORCHESTRATION_H

#include "base/list.h"
#include "base/map.h"
#include "base/rng.h"
#include "lib/context.h"
#include "lib/coroutine.h"
#include "lib/link.h"

/* The user's function. */
struct orchestrator {
    const char *name;
    const char *version; /* NULL = none */
    norn_orchestrator_fn *fn;
    void *user;
};

struct orchestration;

/* What all executions of a thread share. */
struct orchestration_env {
    struct mem *mem;
    struct coroutine_stack *stack;
    const struct journal_lines *lines;
    /* Of executions that have ended, for the next: with most of the memory that it will need, which
     * is in the cache. */
    struct orchestration *spare;
    uint32_t spare_n;
};

/* One call with what repeating it needs; in the arena. */
struct call {
    enum norn_callee callee;
    struct bytes name;
    struct maybe version;
    struct maybe input;
    struct bytes id; /* of a child; empty: made by the engine */
    struct norn_retry retry;
    uint32_t attempt; /* the present one, 1 = first */
    int32_t first_id; /* of the first attempt */
    int64_t begun_ms;
    bool is_delayed; /* its timer runs, then comes the next attempt */
};

enum task_kind { TASK_CALL, TASK_TIMER, TASK_EVENT, TASK_ENTITY, TASK_LOCK };

/* In the arena: lives as long as the execution. */
struct norn_task {
    const struct orchestration *owner;
    enum task_kind kind;
    bool is_ended;
    bool is_waited_for;
    uint32_t ended_n; /* its place in the order in which tasks ended */
    norn_status status;
    struct maybe output;
    struct norn_failure failure;
    struct call *call;    /* TASK_CALL */
    struct bytes event;   /* TASK_EVENT: its name */
    struct list awaiting; /* TASK_EVENT: in orchestration.event_waits */
    int32_t id;           /* TASK_ENTITY, TASK_LOCK: of its action */
};

struct orchestration {
    struct norn_context context; /* first */
    struct orchestration_env *env;
    struct orchestration *spare_next; /* in env->spare */
    /* of hot.c */
    struct map_node by_id;
    struct list used;
    uint64_t base_next;

    const struct orchestrator *code;
    uint8_t execution_id[EXECUTION_ID_SIZE];
    struct arena arena;
    struct coroutine coroutine;
    struct maybe input;
    bool is_replaying;
    uint32_t event_n; /* of the event that is being applied, 1 = first */
    int64_t now_ns;
    struct rng rng;

    /* What it began. */
    int32_t id_next;
    struct list actions; /* decided and not in the history yet, oldest first */
    uint32_t actions_n;
    struct norn_task **tasks; /* by id of the action; NULL where nobody waits */
    size_t tasks_size;
    uint32_t ended_n; /* tasks that have ended */
    uint32_t waits_n; /* tasks that must still end before the coroutine goes on */

    struct list event_waits; /* tasks, oldest first */
    struct list unread;      /* events that nobody has waited for yet, oldest first */

    struct list compensations; /* newest first */
    bool is_undoing;           /* they run: its calls are marked (TAG_UNDO) */
    struct maybe custom_status;
    bool has_section; /* a critical section */
    char section[NORN_UUID_SIZE];
    struct bytes locked; /* strings: ids of entities */

    bool is_rewound;   /* parts of its history were taken away: what misses there is done again */
    bool is_different; /* it does not do what its history says; the failure is in context.error */
    bool continues;
    struct maybe next_input;
    bool is_ended; /* the function has returned */
    norn_status status;
    struct norn_bytes output;
};

struct decision {
    struct list node;
    struct action action;
};

/* An event that has come and that nobody has waited for yet; in the arena. */
struct unread_event {
    struct list node;
    struct bytes name;
    struct maybe data;
    struct bytes event; /* all of it, for the next execution */
};

/* id, execution and name are copied from work. NULL without memory. */
struct orchestration *orchestration_new(struct orchestration_env *env,
                                        const struct orchestrator *code,
                                        const struct link_work *work);
void orchestration_free(struct orchestration *o);
/* Frees what was kept for others; all orchestrations have been freed. */
void orchestration_env_release(struct orchestration_env *env);

/* Applies the events of the turn (of a new one the past first) and fills in work->answer, in the
 * work's memory. *events_n: what it adds to the history. OK; E_NOMEM: the turn is to be given back
 * and the orchestration dropped. After the end of the execution (*has_ended), too. */
enum status orchestration_turn(struct orchestration *o, struct link_work *work, uint64_t *events_n,
                               bool *has_ended);

/* ---- shared by its files ---- */

struct orchestration *orchestration_of(norn_context *ctx);
/* NORN_OK when ctx is that of the orchestrator that runs now. NORN_E_UNSUPPORTED: it is no
 * orchestrator's; NORN_E_INVALID: it is that of another instance. */
norn_status orchestration_check(norn_context *ctx);
/* Due so many ms from now, or at the end of time. */
void timer_set(const struct orchestration *o, struct action *timer, int64_t ms);

/* A new action of that kind with the next id; task: who waits for it, or NULL. Name, input and so
 * on are filled in by the caller, with bytes that live as long as o. NULL without memory. */
struct action *decide(struct orchestration *o, enum action_kind kind, struct norn_task *task);
struct norn_task *task_new(struct orchestration *o, enum task_kind kind);
/* It has ended; resumes nothing. */
void task_end(struct orchestration *o, struct norn_task *task, norn_status status);
/* Whether the coroutine can go on. */
bool is_awake(const struct orchestration *o);
/* From within the coroutine: until all of them, or one, has ended. */
void wait_all(struct orchestration *o, norn_task *const *tasks, size_t n);
void wait_any(struct orchestration *o, norn_task *const *tasks, size_t n);
/* What a task that has ended answers. */
norn_status task_result(struct orchestration *o, const norn_task *task, struct norn_bytes *output);

/* calls.c: the answer to an attempt, or the end of the delay before the next one. failure: raw
 * TaskFailureDetails. */
void call_completed(struct orchestration *o, struct norn_task *task, struct maybe result);
void call_failed(struct orchestration *o, struct norn_task *task, struct bytes failure);
void call_delay_is_over(struct orchestration *o, struct norn_task *task);
/* What the user gave (NULL: nothing); options->retry is not to be used. False without a size. */
bool call_options_read(const struct norn_call_options *given, struct norn_call_options *options,
                       struct norn_retry *retry);
/* compensate.c: from within the coroutine, after the function failed. */
void compensate(struct orchestration *o);
/* events.c */
void event_arrived(struct orchestration *o, struct bytes event, struct bytes body);
/* entity_calls.c: GUID of an action, and back; -1 when it is none. */
void request_id_write(const struct orchestration *o, int32_t id, char out[NORN_UUID_SIZE]);
int32_t request_id_read(struct bytes text);

/* An event to an instance, or a signal to an entity. */
norn_status orchestration_send(struct orchestration *o, const char *id, const char *event,
                               struct norn_bytes data);

/* replay.c: the next event of the past says what was decided; it must be the oldest decision. */
void replay_compare(struct orchestration *o, const struct event_head *head);
/* The past is over: nothing may have been decided that is not in it. */
void replay_finish(struct orchestration *o);
/* A decision in the words of these sentences: "TaskScheduled 'Charge'". */
void replay_describe(const struct action *action, char *out, size_t size);

/* answer.c */
enum status answer_write(struct orchestration *o, struct link_work *work, bool *has_ended);

#endif
