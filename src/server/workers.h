/* SPDX-License-Identifier: Apache-2.0
 *
 * Workers as the server sees them: one for each open GetWorkItems call, and the leases of what was
 * given to them.
 *
 *      GetWorkItems ──> ATTACHED ──work──> leases ──Complete*, Abandon*──> answered
 *                          │ stream gone          │
 *                          v                      └─ stream gone: after the grace delay given back
 *                      DETACHING ──> freed           to the engine (ABANDON, is_lost)
 *
 * A lease is a note of who has what; what an answer is worth, the engine decides. So an answer
 * without a lease is passed on all the same: after a restart of the server its work may still be
 * unanswered.
 *
 * The parts are in work.h.
 */
#ifndef SERVER_WORKERS_H
#define SERVER_WORKERS_H

#include "base/list.h"
#include "base/map.h"
#include "base/status.h"
#include "net/pool.h"

struct grpc_call;
struct mem;
struct parcel;
struct service;

struct workers {
    struct mem *mem;
    struct list streams; /* of struct work_stream, oldest first; closing ones too */
    struct list quiet;   /* open ones, longest without a message first */
    uint32_t open_n;     /* work streams that are open */
    struct map leases;   /* by kind, task id, key */
    struct pool pool;    /* of leases: they come and go by the hundred */
    struct list orphans; /* leases without a worker that goes on, by the time they are given back */
    /* What could not be done at once (the engine is full, or there is no memory): tried again at
     * every tick. Bounded by the work and the calls it belongs to. */
    struct list untaken;  /* errands, by of_user */
    struct list unpacked; /* parcels, by node */
    struct list stuck;    /* work streams */
    int64_t retry_ns;     /* when; INT64_MAX = nothing waits */
    size_t chunks_size;   /* of all chunked answers that are not complete */
    bool is_stopped;      /* the engine is gone: nothing may be posted any more */
};

enum status workers_init(struct workers *w, struct service *s);
/* The engine is closed: what still comes back is only put away. */
void workers_stop(struct workers *w);
void workers_release(struct workers *w);
void workers_parcel(struct service *s, struct parcel *parcel);
void workers_writable(struct service *s, struct grpc_call *call);
void workers_closed(struct service *s, struct grpc_call *call);
/* The request of this call is too large to be read; its first bytes. */
void workers_oversize(struct service *s, const struct grpc_call *call, uint64_t size,
                      struct bytes start);
/* Health pings, work of lost streams, and what is tried again. When to call again, as now_ns. */
int64_t workers_tick(struct service *s);
/* Ends every work stream with UNAVAILABLE. Their work stays theirs: they may still answer it, and
 * after a restart the engine offers it again by itself. Giving it back would count a failure that
 * the work had no part in. */
void workers_drain(struct service *s);
/* Every work stream is detached from the engine. */
bool workers_are_quiet(const struct service *s);
/* For StreamInstanceHistory with forWorkItemProcessing: how many events the worker that holds the
 * turn of this key was promised; false when nobody holds it. */
bool workers_history_n(const struct service *s, struct bytes key, uint64_t *history_n);

#endif
