/* SPDX-License-Identifier: Apache-2.0
 *
 * The front: the gRPC side of the server's process, as `norn serve` has it, in the same world as
 * the hosts of its shards. Connections (sim_link.h), the service and its desk are the production
 * code; the bell is a moment.
 *
 * In a world with a front all shards are one process: when one ends, all do, and the front with
 * them. It is there again when all shards are up.
 *
 *      down ──all shards up──> listening ──drain──> draining ──> down
 *                                  └─────────crash──────┴─────────^
 */
#ifndef TEST_SIM_SIM_FRONT_H
#define TEST_SIM_SIM_FRONT_H

#include "test/sim/sim_world.h"

struct conn;
struct front;
struct node;

struct front *front_new(struct world *w);
void front_free(struct front *f);
/* A shard is up: perhaps the last one that was missing. NULL is no front, here and below. */
void front_node_up(struct front *f);
/* The process ends: every connection is gone, nothing of the front reaches a host any more. False:
 * it was down. The hosts are closed between this and front_put_away(). */
bool front_crash(struct front *f);
void front_put_away(struct front *f);
/* A stop as an operator does it: GOAWAY, waiting calls answered, streams ended; then the process
 * ends, and another one comes. */
void front_drain(struct front *f);
/* The same at the end of the run, and no other one comes; over when front_is_stopped(). The hosts
 * go on. */
void front_stop(struct front *f);
bool front_is_stopped(const struct front *f);
/* Nothing is held for anybody: no request, no waiting call, no work. */
bool front_is_quiet(const struct front *f);
_Noreturn void front_report(const struct front *f);
/* W2: memory at rest. */
void front_check_rest(struct front *f);

bool front_is_listening(const struct front *f);
/* A connection, in the front's list by node. */
struct conn *front_accept(struct front *f, struct list *node);
void front_forget(struct front *f, struct list *node);
/* Before anything of a connection is called, and after. */
void front_set_now(struct front *f);
void front_touch(struct front *f);
/* Some open stream has this piece of work, and nobody has answered it. */
struct work_ref;
bool front_has_lease(const struct front *f, const struct work_ref *ref);
const uint64_t *front_mac_key(const struct front *f);

#endif
