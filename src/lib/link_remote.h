/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of the remote backend share. One thread per link, the loop, owns the connection
 * and everything below that does not say otherwise; the others hand it their wishes through two
 * queues and ring.
 *
 *      asker ──remote_call──> asks  ──┐                       ┌── calls: wait for a connection, or
 *      worker ──remote_work──> works ─┤ loop: link_remote.c ──┤          are under way
 *                                     │ (one connection)      └── ports: a work stream each
 *      asker <──its own queue─────────┘
 *
 * link_remote.c        the loop: connects, connects again, begins and repeats calls
 * link_remote_calls.c  clients' verbs: a message out, a message back, on the asker's thread
 * link_remote_view.c   an instance as the server describes it -> struct instance_view
 * link_remote_port.c   a port: its work stream, credits, answers
 * link_remote_item.c   WorkItem -> struct link_work
 * link_remote_answer.c struct link_work -> the answer's message
 */
#ifndef LIB_LINK_REMOTE_H
#define LIB_LINK_REMOTE_H

#include "base/queue.h"
#include "base/rng.h"
#include "core/limits.h"
#include "lib/link.h"
#include "net/client_socket.h"

#include <stdatomic.h>

#define REMOTE_ADDRESS_SIZE 256
/* Calls that wait or are under way, of all threads; E_LIMIT beyond. */
#define REMOTE_CALLS_N_MAX ((size_t)4096)
/* Without connection a call is given up after this; one that only waits (for an instance to end)
 * and had a connection before, after the longer one. */
#define REMOTE_PATIENCE_NS (5 * NS_PER_S)
#define REMOTE_WAIT_PATIENCE_NS (60 * NS_PER_S)
/* What the server could not do now is asked again after this. */
#define REMOTE_RETRY_NS (100 * NS_PER_MS)
/* Pieces of work kept for the next ones, with their memory. */
#define REMOTE_SPARE_N_MAX 256u

enum remote_ask {
    ASK_CALL,   /* a client's verb */
    ASK_ATTACH, /* of a port, as below */
    ASK_DETACH,
    ASK_FREE,
};

/* Something a thread wants of the loop, on the asker's stack. It comes back through `done`. */
struct remote_call {
    struct list node;
    struct queue done;
    enum remote_ask ask;
    struct remote_port *port; /* all but ASK_CALL */

    /* ---- ASK_CALL ---- */
    struct mem mem; /* of the two buffers: the asker's, and the loop's meanwhile */
    const char *path;
    struct buffer request;
    /* The message; of a stream all of them, one after the other, which in this encoding is one with
     * all their repeated fields. */
    struct buffer answer;
    bool is_repeatable;     /* asked again when the connection is lost meanwhile */
    bool is_wait;           /* patient */
    int64_t deadline_ns;    /* INT64_MAX = none */
    int64_t patience_ns;    /* when it is given up without connection */
    int64_t due_ns;         /* not before */
    struct client_call *io; /* under way */
    struct remote *remote;
    uint32_t begun_n; /* how often it was begun */
    enum status status;
    char *why; /* LINK_WHY_SIZE */
};

enum remote_work_state {
    WORK_IS_FETCHING, /* its past events are on their way */
    WORK_IS_HELD,     /* waits for credit */
    WORK_IS_OUT,      /* the worker's */
    WORK_IS_BACK,     /* its answer waits for a connection */
    WORK_IS_SENT,     /* its answer is under way */
};

/* One piece of work, from its arrival until its answer was taken. */
/* A server takes messages of 16 MiB, and answers in parts of up to 64 MiB in all. What fits into
 * one message is not divided: there are servers that know no parts. */
#define REMOTE_PARTS_MAX 32u
#define REMOTE_PART_SIZE ((size_t)12 << 20)

struct remote_work {
    struct link_work work; /* its node: in works, or in one of its port's lists */
    struct mem own;        /* of this object alone */
    enum remote_work_state state;
    struct bytes token;   /* in the arena */
    struct bytes give_up; /* in the arena: the message that abandons it, ready when memory is not */
    struct buffer message; /* the answer, from the worker's mem */
    const char *path;      /* of the answer */
    /* Where the parts of the answer end that are sent one after the other; parts_n is 0 while there
     * is none, and 1 unless it is large. */
    size_t part_ends[REMOTE_PARTS_MAX];
    uint32_t parts_n;
    uint32_t part;      /* the one to be sent now */
    struct buffer past; /* WORK_IS_FETCHING: HistoryChunks */
    bool was_out;       /* it has been delivered: link_fetch() */
    bool wants_past;    /* in works: link_fetch() */
    struct client_call *io;
    int64_t due_ns; /* not before */
};

struct remote_port {
    struct link_port port;
    struct mem own;   /* of this object alone */
    struct list node; /* in remote.ports */
    struct remote *remote;
    _Atomic int64_t credits[WORK_KINDS_N]; /* so much may be out */

    /* ---- the loop's ---- */
    int64_t out_n[WORK_KINDS_N];
    struct list held[WORK_KINDS_N]; /* works */
    struct list fetching;
    struct list back; /* works whose answer waits for a connection */
    struct list sent; /* works whose answer is under way */
    struct list spare;
    uint32_t spare_n;
    uint32_t works_n;         /* all but the spare ones */
    struct client_call *io;   /* the work stream */
    int64_t stream_due_ns;    /* when to open it again */
    uint32_t stream_failed_n; /* since its last message */
    bool is_detached;
    bool has_delivered;        /* since delivered() was called */
    struct remote_call *leave; /* ASK_FREE, that waits */
    int64_t leave_by_ns;       /* without connection it does not wait longer */
};

struct remote {
    struct link link; /* first */
    struct mem own;   /* of this object alone */
    char address[REMOTE_ADDRESS_SIZE];
    char hub[LIMIT_HUB_SIZE + 1];
    pthread_t thread;
    int bell; /* eventfd */
    atomic_bool is_rung;
    atomic_bool is_closing;
    atomic_bool is_connected;
    struct queue asks;  /* remote_call */
    struct queue works; /* remote_work, by work.node; bounded by the credits */

    /* ---- the loop's ---- */
    struct mem mem;
    struct client_sockets *sockets;
    struct client *client; /* NULL = none */
    int64_t now_ns;
    int64_t connect_at_ns;
    uint32_t connect_failed_n; /* in a row */
    int64_t connected_ns;      /* since when there is one */
    int64_t goodbye_ns;        /* since when it takes no more calls; 0 = it does */
    char lost_why[CLIENT_SOCKET_TEXT_SIZE];
    struct rng rng;
    struct list calls; /* that wait for a connection */
    struct list begun; /* that are under way */
    size_t calls_n;    /* both */
    struct list ports;
};

static inline struct remote *remote_of(struct link *link)
{
    return container_of(link, struct remote, link);
}
static inline struct remote_port *remote_port_of(struct link_port *port)
{
    return container_of(port, struct remote_port, port);
}
static inline struct remote_work *remote_work_of(struct link_work *work)
{
    return container_of(work, struct remote_work, work);
}

/* ---- link_remote.c ---- */

/* Any thread. The loop looks at its queues soon. */
void remote_ring(struct remote *r);
/* Hands it to the loop and waits. E_LIMIT; otherwise call->status. */
enum status remote_ask(struct remote *r, struct remote_call *call);
/* The loop: it is done. */
void remote_answer(struct remote_call *call, enum status status);
/* 50 ms, doubled with every failure up to 5 s, less up to half of it by chance. */
int64_t remote_backoff_ns(struct remote *r, uint32_t failed_n);
enum status remote_status(enum grpc_code code);
static inline int64_t remote_earlier(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- link_remote_calls.c: the entries of struct link_ops ---- */

enum status remote_start(struct link *link, const struct link_start *start, char *id, char *why);
enum status remote_get(struct link *link, struct bytes id, int64_t wait_ms, link_view_fn *fn,
                       void *user, char *why);
enum status remote_raise(struct link *link, struct bytes id, struct bytes event, struct maybe data,
                         char *why);
enum status remote_control(struct link *link, struct bytes id, enum link_verb verb,
                           struct maybe data, char *why);
enum status remote_history(struct link *link, struct bytes id, link_events_fn *fn, void *user,
                           char *why);
enum status remote_steps(struct link *link, struct bytes id, link_step_fn *fn, void *user,
                         char *why);
enum status remote_list(struct link *link, const struct request_query *query, struct buffer *cursor,
                        link_view_fn *fn, void *user, char *why);

enum status remote_renew(struct link_work *work, int64_t extend_ms);

/* ---- link_remote_view.c ---- */

/* Step of norn.proto; the name borrowed. E_INVALID. */
enum status remote_read_step(struct bytes message, struct task_view *out);

/* OrchestrationState, EntityMetadata. All but the key (in the arena) and the tags (likewise)
 * borrowed from the message. E_INVALID, E_NOMEM. */
enum status remote_read_state(struct bytes message, struct arena *arena, struct instance_view *out);
enum status remote_read_entity(struct bytes message, struct arena *arena,
                               struct instance_view *out);
typedef bool remote_wanted_fn(struct bytes value);
/* The fields of this number as strings (all, or those that are wanted), in the arena. E_INVALID,
 * E_NOMEM. */
enum status remote_pack(struct bytes message, uint32_t number, remote_wanted_fn *is_wanted,
                        struct arena *arena, struct bytes *out);
/* One string at this place, which has room; where the next one goes. */
uint8_t *remote_pack_one(uint8_t *at, struct bytes value);

/* ---- link_remote_port.c ---- */

enum status remote_attach(struct link *link, const struct link_worker *worker,
                          struct link_port **port);
void remote_credit(struct link_port *port, enum work_kind kind, uint32_t n);
void remote_detach(struct link_port *port);
void remote_free_port(struct link_port *port);
void remote_answer_work(struct link_work *work);
void remote_abandon(struct link_work *work, bool is_unsent, const char *reason);
void remote_fetch(struct link_work *work);
void remote_flush(struct link_port *port);

/* ---- link_remote_port.c, on the loop ---- */

void port_ask(struct remote_call *call);
void port_work_back(struct remote_work *work);
/* Begins what is due. When there is more to do, as now_ns; INT64_MAX = not before something
 * comes. */
int64_t port_turn(struct remote_port *port);
/* After a turn of the sockets. */
void port_tell(struct remote_port *port);

/* ---- link_remote_item.c ---- */

/* Fills in an initialised piece of work from a WorkItem. *is_streamed: a turn whose past events
 * have to be fetched; then its name is not known yet. E_NOT_FOUND: it is no work (a health ping),
 * E_INVALID, E_NOMEM. */
enum status remote_read_item(struct bytes message, struct remote_work *work, bool *is_streamed);
/* chunks: what StreamInstanceHistory gave. E_INVALID, E_NOMEM. */
enum status remote_read_past(struct bytes chunks, struct remote_work *work);

/* ---- link_remote_answer.c ---- */

/* The answer into work->message, and its path. */
void remote_write_answer(struct remote_work *work);
/* The path by which work of this kind is given back. */
const char *remote_give_up_path(enum work_kind kind);
/* StreamInstanceHistoryRequest */
void remote_write_fetch(struct buffer *b, const struct link_work *work);
/* GetWorkItemsRequest */
void remote_write_wish(struct buffer *b, const struct link_worker *worker);

#endif
