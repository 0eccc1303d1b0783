/* SPDX-License-Identifier: Apache-2.0
 *
 * The driver's client: makes load from a seed, keeps the ledger of it over all lives of the victim,
 * and heals and checks in between.
 */
#ifndef TEST_TORTURE_CLIENT_H
#define TEST_TORTURE_CLIENT_H

#include "test/torture/cage.h"
#include "test/torture/ledger.h"

enum verb {
    VERB_START,
    VERB_RAISE,
    VERB_TERMINATE,
    VERB_PURGE,
    VERB_WAIT,
    VERB_HISTORY,
    VERB_LIST
};

#define SLOTS_N 8192u

/* A command that the present victim has not answered. */
struct slot {
    bool is_used;
    enum verb verb;
    struct account *account;
    uint32_t number; /* of an event */
};

struct client {
    struct client *next; /* an older one */
    struct ledger ledger;
    struct rng rng;
    struct cage cage;
    struct slot slots[SLOTS_N];
    uint32_t slots_free[SLOTS_N];
    uint32_t slots_free_n;
    uint32_t changes_n;    /* commands under way that change something */
    uint32_t waits_n;      /* waits under way */
    struct account **live; /* may exist */
    size_t live_n;
    size_t live_size;
    uint64_t lives;       /* of the victim */
    uint64_t starts;      /* in all */
    uint32_t starts_left; /* in this life */
    char closed[256];     /* why this life could not begin; "" = it could */
    enum status refused;  /* the last refusal of a start; OK = none yet */
    uint32_t blob_size;   /* larger than 0: starts are echoes of this size, to fill the disk */
};

/* On the heap: give it to client_free(), the newest first. */
struct client *client_new(uint64_t seed);
void client_free(struct client *c);

/* A new life. */
void client_begin(struct client *c, const struct cage_plan *plan);
/* Load for so long, or until the victim's end; false when that has come. */
bool client_load(struct client *c, int64_t for_ms);
/* When its death is certain: hears what it still says, and answers how it ended (waitpid). */
int client_end(struct client *c);
/* SIGKILL and client_end(). */
void client_kill(struct client *c);

/* A life without load: everything must end, and everything must be as the ledger says; a fresh
 * instance completes. Then most of what is proven is purged, and the victim closes. Fails the test
 * otherwise. */
void client_heal(struct client *c, const struct cage_plan *plan);

/* Fails the test with the end of the victim's log. */
_Noreturn void client_fail(const struct cage_plan *plan, const char *what);
/* The victim must not have ended by itself: fails the test with its log. */
void client_expect_alive(const struct client *c, const struct cage_plan *plan);

/* ---- for the test programs ---- */

/* A number in the environment. */
uint64_t torture_number(const char *name, uint64_t otherwise);
/* A data directory within the test's own, so that what lies beside it is removed too. out:
 * PATH_MAX. */
void torture_directory(char *out);
/* How much was done and checked, as a comment. */
void client_report(const struct client *c);

#endif
