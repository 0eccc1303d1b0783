/* SPDX-License-Identifier: Apache-2.0
 *
 * The oracle: what the driver intended, what was acknowledged, what it has seen since, and which of
 * it may be true together. One account for each instance that it ever meant to start. A line of the
 * victim that contradicts its account fails the running test.
 *
 * An outcome is UNKNOWN from the moment the command is told: the victim may die before it answers,
 * with the deed done or not. The next look at the victim's data (ledger_looked) turns it into one
 * or the other, and then it must stay so.
 *
 *      NEVER ──told──> UNKNOWN ──OK──> DONE
 *        ^                │ refused, or a look that does not find it
 *        └────────────────┘
 */
#ifndef TEST_TORTURE_LEDGER_H
#define TEST_TORTURE_LEDGER_H

#include "base/list.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/status.h"
#include "test/sim/sim_programs.h"
#include "test/torture/victim_text.h"

enum outcome { NEVER, UNKNOWN, DONE };

/* A collect of so many events ends by termination only. */
#define ENDLESS_N 1000
#define RAISED_MAX 64 /* numbers of events: bits of a word */

struct account {
    struct map_node node;
    struct list all;
    char id[48];
    enum program program;
    char input[32];
    uint32_t size; /* the input is filled up to */

    enum outcome start;
    bool is_retried;      /* the start: E_EXISTS is an answer */
    uint64_t raised_told; /* bit n: event n was told and not refused */
    uint64_t raised_done; /* bit n: acknowledged */
    uint32_t raised_n;    /* numbers used */
    enum outcome terminate;
    enum outcome purge;

    bool is_ended; /* seen so, with this */
    char state[256];
    bool is_proven; /* its history was looked at */
    uint64_t look;  /* the last one that found it */

    /* The client's, while the victim lives. */
    bool is_busy; /* a command that changes it is under way */
    bool is_waited;
};

struct ledger {
    struct mem mem;
    struct map accounts; /* by id */
    struct list all;
    struct map effects; /* lines that activities left */
    struct list effect_lines;
    long effects_at; /* read so far */
    uint64_t looks;
    uint32_t unfinished_n; /* rows of the present look that have not ended */
    /* How much was checked: a run that proves nothing must not look like a success. */
    struct {
        uint64_t started, ended, raised, terminated, purged, histories;
    } counts;
};

void ledger_init(struct ledger *l);
void ledger_release(struct ledger *l);

/* A new account, told to nobody yet. id must be new. */
struct account *ledger_add(struct ledger *l, const char *id, enum program program,
                           const char *input, uint32_t size);
/* Whether it may be there, as far as is known. */
bool account_may_exist(const struct account *a);
/* Waits for events. */
bool account_collects(const struct account *a);
bool account_is_endless(const struct account *a);
/* The output that it is terminated with. out: BRIEF_SIZE. */
void account_last_words(const struct account *a, char *out);

/* ---- what was told; before it is ---- */

void ledger_tell_start(struct account *a);
/* Answers the number of the event. */
uint32_t ledger_tell_raise(struct account *a);
void ledger_tell_terminate(struct account *a);
void ledger_tell_purge(struct account *a);

/* ---- what was answered ---- */

void ledger_hear_start(struct ledger *l, struct account *a, enum status status);
void ledger_hear_raise(struct ledger *l, struct account *a, uint32_t number, enum status status);
void ledger_hear_terminate(struct ledger *l, struct account *a, enum status status);
void ledger_hear_purge(struct ledger *l, struct account *a, enum status status);
/* state: "gone", or execution, status and output. */
void ledger_hear_wait(struct ledger *l, struct account *a, const char *state);

/* ---- a look at everything that is there: begin, rows, end ---- */

void ledger_look(struct ledger *l);
/* A row: "<id> <parent> <execution> <status> <output>". */
void ledger_hear_row(struct ledger *l, char *row);
void ledger_looked(struct ledger *l);
/* Of an instance that has ended: "<kind>:<id>:<ref> …"; after ledger_read_effects(). */
void ledger_hear_history(struct ledger *l, struct account *a, char *history);
/* What activities have left since the last call. */
void ledger_read_effects(struct ledger *l, const char *path);

#endif
