/* SPDX-License-Identifier: Apache-2.0
 *
 * Work for agents that speak plain HTTP: they poll for steps of one name, and answer each by its
 * token. A poll is a worker at the engine for as long as it waits.
 *
 *      WAITING ──first work, time over, peer gone, drain──> DETACHING ──> LEASING ──> answered
 *                                                              │             │
 *      the engine may give more until it is detached           │             └ each gets its lease
 *                                                              └ peer gone: all goes back, unsent
 *
 * An agent is told of work only after its lease was set at the engine (RENEW): from then on the
 * Supervisor gives the work to somebody else when the agent is silent for too long, whatever
 * happens to the connection, the agent or this server. What never reached an agent goes back at
 * once and counts as no failure.
 */
#ifndef REST_AGENTS_H
#define REST_AGENTS_H

#include "rest/state.h"

#define POLLS_N_MAX 10000u /* at once; 503 beyond */
#define LEASE_MS_DEFAULT 60000
#define LEASE_MS_MAX ((int64_t)24 * 3600 * 1000)

struct agents;

/* E_NOMEM. */
enum status agents_new(struct rest *r, struct agents **out);
/* The engine is closed. */
void agents_free(struct agents *a);
/* Work for a poll. */
void agents_parcel(struct agents *a, struct parcel *parcel);
/* What the engine did not take is tried again; false when something is left. */
bool agents_retry(struct agents *a);
/* No poll is at the engine any more. */
bool agents_are_quiet(const struct agents *a);

/* One poll that waits, for the list of workers. */
struct agent_view {
    uint32_t id; /* of its worker in the first shard; 0 before it is attached */
    struct bytes hub;
    struct bytes name;
    struct bytes worker; /* as it calls itself, and its address; may be empty */
    int64_t since_ns;    /* monotonic */
};
typedef void agent_fn(void *user, const struct agent_view *view);
void agents_each(const struct agents *a, agent_fn *fn, void *user);

#endif
