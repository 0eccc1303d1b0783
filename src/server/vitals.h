/* SPDX-License-Identifier: Apache-2.0
 *
 * Asks the engine how it is, without ever waiting for it: one STATS request to each shard, the
 * answers summed up for everybody who asked meanwhile.
 *
 *      vitals_ask() ──> STATS to every shard ──> done() on their threads ──> queue, bell
 *      asker->answer() <── vitals_bell(): all shards have answered
 *                      <── vitals_tick(): too late, NULL
 *
 * Everything on the network's thread, except what is marked in vitals.c.
 */
#ifndef SERVER_VITALS_H
#define SERVER_VITALS_H

#include "base/list.h"
#include "server/desk.h"

struct vitals;
struct host_stats;

/* The asker's; untouched by it until answered. */
struct vitals_asker {
    struct list node;
    int64_t deadline_ns;
    /* stats: borrowed during the call; NULL = the engine did not answer in time. May ask again. */
    void (*answer)(struct vitals_asker *asker, const struct host_stats *stats);
};

/* An engine that takes longer is not well. */
#define VITALS_TIMEOUT_MS 2000

/* engine: ring is called on the shards' threads. E_NOMEM. */
enum status vitals_new(struct mem *mem, const struct desk_engine *engine, struct vitals **out);
/* The engine is closed, and its answers were collected (vitals_bell). Who still waits is answered
 * NULL. */
void vitals_free(struct vitals *v);

void vitals_ask(struct vitals *v, int64_t now_ns, struct vitals_asker *asker);
/* After the bell. */
void vitals_bell(struct vitals *v);
/* Answers those whose time is over; when to call again, INT64_MAX = not before something comes. */
int64_t vitals_tick(struct vitals *v, int64_t now_ns);

#endif
