/* SPDX-License-Identifier: Apache-2.0
 *
 * The desk stands between the network's thread and the engine's. Errands go in, and come back with
 * their answer; parcels (work for workers) come out.
 *
 *      network's thread                         host's thread
 *      errand_post() ──────────────────────────> request … done(): errand->encode()
 *      errand->done() <── desk_collect() <── bell <──┘
 *      desk->parcel() <── desk_collect() <── bell <── worker's deliver(): parcel_new(), desk_put()
 *
 * What is borrowed in an answer lives only during the engine's done(): encode() turns it into bytes
 * of the errand's own there, on the host's thread. Nothing else of the server runs on that thread.
 * In the simulator all of it is one thread, and the bell an event.
 */
#ifndef SERVER_DESK_H
#define SERVER_DESK_H

#include "base/arena.h"
#include "base/mem.h"
#include "base/queue.h"
#include "host/request.h"

struct desk;
struct errand;
struct grpc_call;
struct parcel_shelf;

/* The engine, or what the simulator has in its place. */
struct desk_engine {
    void *user;
    bool (*post)(void *user, struct request *request);
    bool (*post_to)(void *user, uint32_t shard, struct request *request);
    uint32_t shards_n;
    const uint64_t *mac_key; /* of completion tokens */
    void (*ring)(void *user);
};

/* What goes through the desk's queue, in one order for both kinds. */
struct desk_item {
    struct list node;
    bool is_parcel;
};

/* One request to the engine with all it needs. Made and ended on the network's thread. */
struct errand {
    struct request request;
    struct desk_item item; /* the desk's */
    struct desk *desk;
    struct mem mem;      /* of arena and reply: they change threads with the errand */
    struct arena arena;  /* what the request borrows */
    struct buffer reply; /* what encode() wrote: bytes of one protobuf message */
    /* On the host's thread, whatever the status; NULL: nothing to keep but status and text. Fills
     * in reply. What the answer borrows (view, rows, events) is gone after it. */
    void (*encode)(struct errand *errand);
    /* On the network's thread. Ends with errand_free(). */
    void (*done)(struct errand *errand);
    struct grpc_call *call; /* who asked; NULL = nobody */
    struct list of_user;    /* in a list of the network's thread */
    void *user;
    uint64_t number; /* for the user */
    uint64_t hash;   /* likewise */
    bool flag;       /* likewise */
};

/* A piece of work on its way to a worker's stream. */
struct parcel {
    struct desk_item item;      /* the desk's */
    struct list node;           /* its receiver's */
    struct mem mem;             /* of all below */
    struct parcel_shelf *shelf; /* where it is used again; NULL = nowhere */
    struct worker *worker;
    struct work_ref ref; /* bytes in `bytes` */
    struct arena arena;
    struct buffer message; /* the WorkItem, encoded */
    uint64_t history_n;    /* WORK_TURN: committed events */
    bool is_streamed;      /* its past events are to be fetched (StreamInstanceHistory) */
    uint64_t size_full;    /* of the message with its past events */
};

struct desk_options {
    struct mem *mem; /* of the network's thread */
    struct desk_engine engine;
    size_t errands_n_max; /* under way; beyond: errand_new() answers NULL */
    void (*parcel)(void *user, struct parcel *parcel); /* network's thread; it is the user's now */
    void *user;
};

enum status desk_new(const struct desk_options *options, struct desk **out);
/* No errand or parcel may be under way any more: the engine is closed and desk_collect was
 * called. */
void desk_free(struct desk *d);
/* After the bell: calls done() of errands that came back, parcel() of parcels. */
void desk_collect(struct desk *d);
/* Made and not freed. */
size_t desk_errands_n(const struct desk *d);
/* Of the options. */
void *desk_user(const struct desk *d);

/* Zeroed, with arena and reply ready. NULL: too many, or no memory; the asker is to be answered
 * UNAVAILABLE. The limit is for calls: what nobody asked for (call NULL) belongs to something that
 * has a limit itself, and must be possible when everything is full. */
struct errand *errand_new(struct desk *d, enum request_kind kind, struct grpc_call *call);
/* The same for somebody who asks in another way than by a gRPC call: within the limit too. */
struct errand *errand_new_asked(struct desk *d, enum request_kind kind);
/* To the shard of its key (shard < 0), or to one. False: the engine does not take it now (the
 * errand stays the caller's). One that came back may be posted again. */
bool errand_post(struct errand *errand, int shard);
void errand_free(struct errand *errand);
/* Asks the engine to give up a wait that is under way; its errand comes back. False: not now. The
 * engine only compares the pointer of what is cancelled, and sees the CANCEL before anything that
 * is posted later: an errand that was answered meanwhile and is used for another wait is safe. */
bool errand_cancel(struct errand *errand);

/* hub '/' id, in the arena; empty without memory. */
struct bytes key_make(struct arena *arena, struct bytes hub, struct bytes id);
/* What an instance was started with, for another one to be started in the same way: copies in the
 * arena. False, and *out untouched, without memory. */
bool start_of_view(struct arena *arena, const struct instance_view *view, struct input_start *out);

/* For work of this partition, on the thread of its host; NULL without memory. d: where it is used
 * again, with its memory, after parcel_free(); NULL = nowhere. */
struct parcel *parcel_new(struct desk *d, uint32_t partition);
/* On the host's thread: hands it over. */
void desk_put(struct desk *d, struct parcel *parcel);
/* On the network's thread. */
void parcel_free(struct parcel *parcel);

const struct desk_engine *desk_engine(const struct desk *d);

#endif
