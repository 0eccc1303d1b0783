/* SPDX-License-Identifier: Apache-2.0
 *
 * Every limit of the core, with the answer at it. Sizes in bytes.
 */
#ifndef CORE_LIMITS_H
#define CORE_LIMITS_H

#include <stddef.h>
#include <stdint.h>

/* E_INVALID beyond. Clients may choose ids of up to LIMIT_CLIENT_ID_SIZE: the rest is room for the
 * suffixes of children. */
#define LIMIT_HUB_SIZE ((size_t)64)
#define LIMIT_ID_SIZE ((size_t)256)
#define LIMIT_CLIENT_ID_SIZE ((size_t)100)
#define LIMIT_NAME_SIZE ((size_t)256)
_Static_assert(LIMIT_CLIENT_ID_SIZE < LIMIT_ID_SIZE, "children need room for their suffixes");

/* E_LIMIT at the edge; a worker's answer fails the instance. */
#define LIMIT_PAYLOAD_SIZE ((size_t)16 << 20)

/* E_LIMIT for clients; messages of others are dropped and counted. */
#define LIMIT_INBOX_N 10000u
#define LIMIT_INBOX_SIZE ((size_t)32 << 20)
_Static_assert(LIMIT_PAYLOAD_SIZE < LIMIT_INBOX_SIZE, "an empty inbox takes every message");

/* The instance fails with the reason. */
#define LIMIT_ACTIONS_N 100000u
#define LIMIT_HISTORY_N 200000u
#define LIMIT_HISTORY_SIZE ((size_t)128 << 20)
_Static_assert(LIMIT_INBOX_N + LIMIT_ACTIONS_N < LIMIT_HISTORY_N, "a first turn fits");
_Static_assert(LIMIT_INBOX_SIZE < LIMIT_HISTORY_SIZE, "what was taken in can be read");

/* One batch of operations of an entity; the rest comes with the next. */
#define LIMIT_BATCH_N 100u
#define LIMIT_BATCH_SIZE ((size_t)1 << 20)
/* Entities in one critical section: the instance fails with the reason. */
#define LIMIT_LOCK_SET_N 256u

/* Instances that wait for an operator and are kept in memory so that they can be listed, in all
 * partitions of a host together; more than these may leave, and are found by id or in the log. */
#define LIMIT_PARKED_N 10000u
/* What messages come from, per partition: E_LIMIT. */
#define LIMIT_SOURCES_N 1024u
#define LIMIT_SOURCE_NAME_SIZE ((size_t)64)

/* A worker asks for more time, ms; cut by who takes the wish from outside. */
#define LIMIT_EXTEND_MS ((int64_t)366 * 24 * 3600 * 1000)
#define LIMIT_LATE_N 16u                /* late answers kept per instance; the oldest go */
#define LIMIT_REASON_SIZE ((size_t)256) /* cut */
#define LIMIT_TICK_N 256u               /* due things handled by one tick; the next one goes on */

#endif
