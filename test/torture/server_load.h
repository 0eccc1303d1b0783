/* SPDX-License-Identifier: Apache-2.0
 *
 * Clients of a real server that dies and comes back, and the ledger of what it acknowledged.
 *
 * A call that was answered OK has happened, whatever comes after; one that was not answered may
 * have happened, once. The rules that follow from it are in server_ledger.c; load_heal() brings
 * everything to its end and checks all of them.
 */
#ifndef TEST_TORTURE_SERVER_LOAD_H
#define TEST_TORTURE_SERVER_LOAD_H

#include "test/lib/real_server.h"
#include "test/torture/flow_worker.h"

#define LOAD_CLIENTS_N 3
#define LOAD_WORKERS_MAX 8
#define LOAD_OPS_N 48
#define EVENTS_MAX 40

/* What is known of something that was asked for. */
enum word {
    WORD_NONE,         /* never told */
    WORD_UNDER_WAY,    /* told, and its answer may still come */
    WORD_UNKNOWN,      /* told, and its answer will not come any more */
    WORD_ACKNOWLEDGED, /* answered OK */
};

struct account {
    char id[FLOW_ID_SIZE];
    enum flow flow;
    uint32_t n;
    uint64_t number;              /* keeper: what the entity is to keep */
    enum word start, end, purge;  /* end: the stop of a collect, a termination of others */
    enum word events[EVENTS_MAX]; /* of a collect, in order, told one after the other */
    uint32_t events_n;
    bool is_busy;      /* a call that changes it is under way */
    bool is_waited;    /* one that waits for its end */
    bool is_absent;    /* its start was not acknowledged and it is not there: it never will be */
    bool has_ended;    /* seen: this never changes */
    uint64_t ended_at; /* moments: what was asked before may be answered later, and knows less */
    uint64_t purged_at;
    int status;
    char *output;
    bool is_listed; /* by the last list */
};

/* A number that was sent to an entity. */
struct signal_sent {
    uint64_t number;
    enum word word;
    const struct account *account; /* of a call; NULL = of a signal */
    bool is_kept;                  /* by the last look at the state */
};

struct op;

struct load {
    struct real_server server;
    struct client_sockets *sockets;
    struct rng rng;
    struct caller clients[LOAD_CLIENTS_N];
    int64_t connect_ns;
    struct flow_worker workers[LOAD_WORKERS_MAX];
    unsigned workers_n;
    struct op *ops;
    unsigned ops_n; /* under way */
    struct account **accounts;
    size_t accounts_n, accounts_size;
    struct signal_sent *signals;
    size_t signals_n, signals_size;
    uint64_t serial;
    uint64_t moment;    /* counts calls begun */
    size_t blob_size;   /* that is added to the input of each new instance */
    bool has_blobs;     /* some have */
    bool may_refuse;    /* the server has a reason to answer RESOURCE_EXHAUSTED */
    uint64_t refused_n; /* so many times it did */
    char wrong[2048];   /* the first broken rule; "" = none */
    struct {
        uint64_t starts, events, signals, ends, purges, waits, lists;
    } acknowledged;
};

struct load *load_new(uint64_t seed);
void load_free(struct load *l);
void load_add_worker(struct load *l, const struct flow_manner *manner);

/* Runs clients and workers for so long. is_quiet: no new instances and signals. */
void load_run(struct load *l, int64_t ms, bool is_quiet);
/* Runs clients until a change is acknowledged, at most so long: a moment at which the server has
 * just promised something. */
void load_run_to_answer(struct load *l, int64_t ms);
/* The server is gone: what was under way will not be answered any more. */
void load_lose(struct load *l);
/* With a healthy server: until everything has ended and every rule was checked. Then removes most
 * of what there is. */
void load_heal(struct load *l);
/* All instances and entities as text, sorted by id: the same before and after a clean restart.
 * The caller frees it. */
char *load_list(struct load *l);
/* Fails the test when a rule is broken, a worker met something odd, or the server has ended. */
void load_check(struct load *l);
void load_report(const struct load *l);

/* ---- server_ledger.c ---- */

struct account *ledger_add(struct load *l);
struct signal_sent *ledger_add_signal(struct load *l);
struct account *ledger_find(struct load *l, struct bytes id);
/* The first broken rule is kept. */
__attribute__((format(printf, 2, 3))) void ledger_wrong(struct load *l, const char *format, ...);
/* An answer about this instance, from a call that was begun at this moment. */
void ledger_see(struct load *l, struct account *a, const struct seen *seen, uint64_t moment);
/* The state of an entity, now; is_final: everything has ended. False when something is still
 * missing (and is_final makes that a broken rule). */
bool ledger_see_entity(struct load *l, const char *id, struct bytes state, bool is_final);

#endif
