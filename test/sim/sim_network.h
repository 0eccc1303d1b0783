/* SPDX-License-Identifier: Apache-2.0
 *
 * The network between clients, workers and shards. A call is one request on its way: it may be
 * lost, delayed, doubled or overtaken, and so may its answer; the sender only knows when its
 * patience ends.
 *
 *      port_send() ──way there──> host_post() ──> done() ──way back──> on_answer()
 *            └──────────────── time-out ──────────────────────────────> on_answer(unknown)
 */
#ifndef TEST_SIM_SIM_NETWORK_H
#define TEST_SIM_SIM_NETWORK_H

#include "base/arena.h"
#include "host/request.h"
#include "test/sim/sim_world.h"

struct client_call;
struct node;
struct port;
struct wire;

/* What the sender learns. Borrowed during on_answer(). */
enum outcome {
    OUTCOME_ANSWER,  /* status and the rest are the host's */
    OUTCOME_REFUSED, /* certainly not done: nobody there, or the queue was full */
    OUTCOME_UNKNOWN, /* perhaps done, perhaps still to be done */
};

struct answer {
    enum outcome outcome;
    enum status status;
    const char *text;
    bool has_view;
    struct instance_view view;        /* GET, WAIT */
    struct bytes events;              /* HISTORY */
    const struct instance_view *rows; /* QUERY */
    size_t rows_n;
    bool has_more;
    struct bytes token; /* QUERY over gRPC: where the list goes on */
    uint32_t purged_n;
    const uint64_t *positions; /* SOURCE: by partition */
    bool was_doubled;          /* the request was sent twice by the network */
};

typedef void port_answer_fn(struct port *port, const struct answer *answer);

/* A sender with at most one exchange at a time. */
struct port {
    struct world *w;
    port_answer_fn *on_answer;
    uint64_t exchange; /* number of the present one; an answer to an older one is ignored */
    bool is_waiting;
    bool was_doubled;
    uint32_t calls_n; /* on their way that know this port */
    struct moment patience;
    struct wire *wire; /* over gRPC, where there is an RPC for it; NULL: straight to the host */
};

/* The bytes of a request, shared by its doubles. */
struct parcel {
    uint32_t refs;
    struct arena arena;
};

struct call;
typedef void call_seen_fn(struct call *call);

struct call {
    struct list node;     /* in node->calls while the host has it */
    struct list of_world; /* in w->calls */
    struct moment moment;
    struct world *w;
    struct node *to;
    struct request request;
    struct parcel *parcel;
    struct port *port; /* NULL: nobody waits */
    uint64_t exchange;
    bool is_inside;  /* the host has it */
    bool is_private; /* does not travel: no loss, no delay */
    /* At the server, when the host answers (also E_CLOSED at its end); may be NULL. */
    call_seen_fn *seen;
    void *user;
    struct answer answer;
    /* over gRPC: see sim_wire.c */
    struct wire *wire;
    struct client_call *remote; /* NULL: it has ended */
    struct buffer got;          /* messages of the answer */
};

void port_init(struct port *port, struct world *w, port_answer_fn *on_answer);
/* Before the port goes: no call knows it afterwards. */
void port_cancel(struct port *port);

/* With a zeroed request of this kind and an arena for its bytes. */
struct call *call_make(struct world *w, enum request_kind kind);
struct bytes call_copy(struct call *call, struct bytes b);
void call_set_key(struct call *call, struct bytes key);
/* Sends it; on_answer() comes exactly once. */
void port_send(struct port *port, struct call *call, struct node *to, int64_t patience_ns);
/* Sends it after a delay, and nobody waits for the answer. */
void network_send(struct call *call, struct node *to, int64_t delay_ns);
/* Its answer is known and travels for so long; for sim_wire.c. */
void call_return(struct call *call, int64_t delay_ns);
/* Without the network: from something inside the same process. False (and freed): not taken. */
bool network_post(struct call *call, struct node *to);
/* The process is gone: everything inside was answered by host_close(). */
void network_node_gone(struct node *n);
/* The world ends: frees what is still on its way. */
void network_free(struct world *w);
/* host_options.send: a message to another shard. */
bool network_message(void *user, uint32_t to_partition, const struct effect *effect,
                     uint32_t from_partition);

#endif
