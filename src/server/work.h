/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of workers.h: streams, leases, chunked answers, and giving work back. Private to
 * server/. Everything on the network's thread but what says otherwise.
 *
 * How much of a kind one stream has at any time:
 *
 *      limit  >=  in flight (leases)  +  credit that its shards have and did not use yet
 *
 * Credit cannot be taken back. So when less than one piece for each shard is left of the limit,
 * every shard still gets one, because the work may be in any of them; what comes beyond the limit
 * is returned unsent.
 */
#ifndef SERVER_WORK_H
#define SERVER_WORK_H

#include "host/dispatcher.h"
#include "server/state.h"
#include "server/work_item.h"

struct work_chunks;
struct work_stream;

/* What could not be done is tried again after this. */
#define WORK_RETRY_NS ((int64_t)20 * 1000 * 1000)
/* How long an answer that the engine could not take waits here before its worker is told. */
#define WORK_ANSWER_NS ((int64_t)5000 * 1000 * 1000)
/* Memory of ended leases that is kept for the next. */
#define LEASES_WAITING_SIZE ((size_t)256 << 10)
/* Work of lost streams given back by one tick; the next one goes on. */
#define WORK_LOST_N_MAX 256u

/* ---- leases.c ---- */

struct lease {
    struct map_node node;       /* in workers.leases when it is the newest of its key */
    struct lease *older;        /* of the same kind, task id and key: given before this one */
    struct list of_owner;       /* in the stream's leases, or in workers.orphans */
    struct work_stream *stream; /* NULL = an orphan */
    struct work_ref ref;        /* key in bytes */
    uint64_t history_n;         /* WORK_TURN: events that came before */
    int64_t due_ns;             /* of an orphan: when it is given back */
    struct work_chunks *chunks; /* of its answer; NULL = none came */
    bool is_complete;           /* all chunks came, and are on their way to the engine */
    bool is_claimed;            /* an answer without token was taken for it, likewise */
    uint8_t bytes[];
};

/* Not in a stream's list yet. NULL without memory. */
struct lease *lease_new(struct service *s, const struct work_ref *ref, uint64_t history_n);
/* Forgets it: answered, or given back. Its stream can take more. */
void lease_end(struct service *s, struct lease *lease);
/* The newest; NULL when there is none. task_id: 0 unless WORK_TASK. */
struct lease *lease_find(const struct workers *w, enum work_kind kind, struct bytes key,
                         int32_t task_id);
/* Of exactly this dispatch. */
struct lease *lease_of(const struct workers *w, const struct work_ref *ref);
/* The same for who looks for it more than once, and keeps the hash. */
uint64_t lease_hash(const struct workers *w, const struct work_ref *ref);
struct lease *lease_of_hashed(const struct workers *w, const struct work_ref *ref, uint64_t hash);

/* ---- give_back.c ---- */

enum give_back {
    GIVE_UNSENT,    /* it never reached the worker */
    GIVE_LOST,      /* the worker is gone */
    GIVE_ABANDONED, /* the worker refuses, or cannot be understood */
    GIVE_PARKED,    /* no worker can do it: an operator has to look */
};
/* An ABANDON that is sure to be posted, now or later. False without memory: try again. */
bool work_give_back(struct service *s, const struct work_ref *ref, enum give_back how,
                    const char *reason);
/* The same for a lease, which ends; without memory it becomes an orphan that is due
 * soon. */
void lease_give_back(struct service *s, struct lease *lease, enum give_back how,
                     const char *reason);
/* Its answer was refused: the worker may send it again, but most only log that. So the work is
 * given back after the grace delay, as that of a lost stream. */
void lease_orphan(struct service *s, struct lease *lease);
/* Posts it, or keeps it in workers.untaken. */
void work_post(struct service *s, struct errand *errand);
/* The engine could not do it now: it is posted again at a later tick. */
void work_post_later(struct service *s, struct errand *errand);
/* True for statuses that pass by themselves. */
bool work_status_passes(enum status status);
/* Something waits for the next tick. */
void work_retry_soon(struct service *s);
void untaken_retry(struct service *s);
/* The engine is gone: everything that waited for it is answered E_CLOSED. */
void untaken_drop(struct workers *w);

/* ---- work_stream.c ---- */

enum shard_state {
    SHARD_NEW,      /* nothing was posted */
    SHARD_ATTACHED, /* ATTACH was posted */
    SHARD_GONE,     /* detached, or never attached */
};

/* One shard's end of a work stream. */
struct work_shard {
    struct worker worker; /* the host's from ATTACH until DETACH is done */
    struct work_stream *stream;
    uint32_t number;
    enum shard_state state;
    uint32_t id;                   /* of the worker, once it is attached; 0 before */
    bool is_asking;                /* one of its requests is under way */
    uint32_t credit[WORK_KINDS_N]; /* given to the host and not used */
};

struct work_stream {
    struct call_user user;   /* first: see state.h */
    struct list node;        /* in workers.streams */
    struct list quiet;       /* in workers.quiet */
    struct list stuck;       /* in workers.stuck */
    struct service *service; /* these three are read on hosts' threads, and never change */
    struct desk *desk;
    struct work_recipe recipe;
    struct grpc_call *call; /* NULL: closing */
    struct arena arena;     /* hub, filters */
    struct list leases;
    uint32_t limit[WORK_KINDS_N];
    uint32_t in_flight[WORK_KINDS_N];
    size_t average_size; /* of its messages, a running one */
    int64_t sent_ns;     /* when the last message was */
    int64_t opened_ns;
    uint32_t shards_n;
    struct work_shard shards[];
};

/* Takes the lease's place in in_flight. */
void stream_lend(struct work_stream *stream, struct lease *lease);
/* Gives the engine credit for what the stream can take. */
void stream_top_up(struct work_stream *stream);
/* Its call is finished by the caller. Leases become orphans, shards are detached, and then it is
 * freed. */
void stream_close(struct work_stream *stream);
/* What its shards need next. May free a stream that is closing. */
void stream_ask(struct work_stream *stream);
void stream_ping(struct work_stream *stream);
void stream_parcel(struct work_shard *shard, struct parcel *parcel);
/* Parcels for which there was no memory. */
void unpacked_retry(struct service *s);
void work_stream_free(struct work_stream *stream);

/* ---- chunks.c ---- */

/* All parts of one answer together, and of all answers. RESOURCE_EXHAUSTED beyond. */
#define CHUNKS_SIZE_MAX ((size_t)64 << 20)
#define CHUNKS_SIZE_ALL_MAX ((size_t)512 << 20)

/* Parts of an OrchestratorResponse, one after the other: as the protocol says, that is the message
 * with all their actions. */
struct work_chunks {
    struct buffer bytes;
    size_t size_counted; /* in workers.chunks_size */
    int32_t next;        /* index of the part that must come */
    size_t last_size;    /* of the last part */
};

/* Adds the part with this index. E_EXISTS: it is there already, nothing happened. E_INVALID: one
 * before it is missing. E_LIMIT: together they are too large. E_BUSY: all answers together are.
 * E_NOMEM. */
enum status chunks_add(struct service *s, struct lease *lease, int32_t index, struct bytes part);
/* The whole answer is there: it leaves the lease. */
struct work_chunks *chunks_take(struct lease *lease);
/* The whole answer could not be used: without its last part it goes back, so that the worker can
 * send that again. */
void chunks_return(struct service *s, struct lease *lease, struct work_chunks *chunks);
/* NULL is fine. */
void chunks_free(struct service *s, struct work_chunks *chunks);

#endif
