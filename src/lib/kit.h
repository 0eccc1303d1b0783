/* SPDX-License-Identifier: Apache-2.0
 *
 * What is behind norn_test.h: an engine for one thread. It is the core itself, one partition in
 * memory, whose clock and chance come from here; nothing is made durable, because nothing of it
 * outlives the test. The run time above it is the real one, called directly instead of by threads:
 *
 *      kit_link.c     the verbs of a client (a third backend of link.h, without workers)
 *      kit_engine.c   steps of the core, messages to itself, what is ready, the clock
 *      kit_work.c     a piece of work is done: turn, activity or entity
 *      kit_calls.c    the list of what orchestrators asked for
 *      kit_crash.c    a scenario again and again
 *      kit_replay.c   a saved history
 *      kit.c          the public functions
 */
#ifndef LIB_KIT_H
#define LIB_KIT_H

#include "base/rng.h"
#include "core/limits.h"
#include "lib/client.h"
#include "lib/hot.h"
#include "lib/policies.h"
#include "lib/worker.h"

#include <norn_test.h>

/* 2026-01-01 00:00 UTC: where every test begins. */
#define KIT_START_MS INT64_C(1767225600000)
/* The clock stops here, in the year 2225. */
#define KIT_END_MS INT64_C(8046950400000)
/* So many steps at one time of the clock, then it is E_LIMIT: more than a wide fan-out takes. */
#define KIT_STEPS_MAX 200000u
#define KIT_ERROR_SIZE 2000
#define KIT_HUB "default"
/* of norn_test.crash_at */
#define KIT_CRASH_NEVER 0u
#define KIT_CRASH_ALWAYS UINT64_MAX

/* How an activity answers. In norn_test.arena, as all of it. */
struct kit_script {
    struct kit_script *next;
    struct bytes name;
    struct norn_test_reply *replies;
    size_t replies_n;
    size_t asked_n;
};

/* A piece of work from its dispatch to its answer. */
struct kit_work {
    struct list node; /* in norn_test.late */
    struct link_work work;
    struct work_ref ref;
    uint8_t key[LIMIT_HUB_SIZE + 1 + LIMIT_ID_SIZE];
    int64_t answer_at_ms;
};

struct norn_test {
    struct mem mem; /* of it and of all below */
    struct norn_client client;
    struct link link;
    struct link_port port; /* nobody's: it only names the link */
    norn_worker *worker;   /* never started: a registry */
    struct journal_lines lines;
    struct arena arena; /* until it is freed */
    struct kit_script *scripts;
    struct policies policies; /* of the engine */

    /* ---- made anew by kit_reset() ---- */
    struct mem core_mem; /* of the core and its outputs: what it reserves is not for others */
    struct core *core;
    struct arena effects; /* of one step */
    struct buffer records;
    struct rng rng;
    uint64_t lsn;
    int64_t now_ms;
    struct list parcels; /* messages to the partition, which is its own only neighbour */
    struct list ready;   /* announced work, oldest first */
    struct list late;    /* struct kit_work whose answer has its time, soonest first */
    struct coroutine_stack *stack;
    struct orchestration_env env;
    struct hot hot;
    uint64_t turns_n;
    uint32_t started_n;
    struct buffer calls;

    /* of the last step */
    bool has_reply;
    enum status reply;
    char reply_text[LINK_WHY_SIZE];
    struct kit_work *work; /* that the step gave; who takes it frees it */
    bool has_more;

    bool is_settling;      /* a function of the user's may be running */
    uint32_t steps_n;      /* since the clock moved, or the public function began */
    uint64_t crash_at;     /* everything in memory is dropped before this turn, 1 = first */
    char id[LINK_ID_SIZE]; /* of the last norn_test_run(); "" = none */
    struct norn_info *info;
    char error[KIT_ERROR_SIZE];
};

/* ---- kit.c ---- */

/* As new, but for what is registered and how activities answer. E_NOMEM. */
enum status kit_reset(struct norn_test *t);
__attribute__((format(printf, 2, 3))) void kit_say(struct norn_test *t, const char *format, ...);

/* ---- kit_engine.c ---- */

enum status kit_engine_open(struct norn_test *t);
void kit_engine_close(struct norn_test *t);
/* One step of the core. Time, chance and so on are filled in here. OK: t->reply has the answer.
 * E_NOMEM. */
enum status kit_step(struct norn_test *t, struct input *in);
/* Everything that can happen now. E_NOT_FOUND, E_LIMIT, E_NOMEM, as norn_test_run(). From within a
 * function of the user's it does nothing: who called that goes on. */
enum status kit_settle(struct norn_test *t);
/* Settles, and then at every time up to this one at which something is due. Stops early when
 * is_over (may be NULL) says so; else the clock stands there, or a millisecond later when a timer
 * was due then. */
enum status kit_go_to(struct norn_test *t, int64_t at_ms, bool (*is_over)(void *user), void *user);

/* ---- kit_work.c ---- */

/* Of the effect; NULL without memory. */
struct kit_work *kit_work_new(struct norn_test *t, const struct effect_work *given);
void kit_work_free(struct norn_test *t, struct kit_work *w);
/* Does it and answers it, now or (in t->late) later; w is gone. E_NOT_FOUND, E_NOMEM. */
enum status kit_work_run(struct norn_test *t, struct kit_work *w);
/* The answer goes to the engine. */
enum status kit_work_answer(struct norn_test *t, struct kit_work *w);

/* ---- kit_link.c ---- */

extern const struct link_ops kit_link_ops;
/* hub '/' id. False: too long. */
struct kit_key {
    uint8_t bytes[LIMIT_HUB_SIZE + 1 + LIMIT_ID_SIZE];
    size_t len;
};
bool kit_key_make(struct bytes id, struct kit_key *key);

/* ---- kit_calls.c ---- */

/* What an orchestrator has decided; appended to t->calls. E_NOMEM. */
enum status kit_calls_add(struct norn_test *t, const struct orchestrator_answer *answer);

#endif
