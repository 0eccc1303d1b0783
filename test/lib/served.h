/* SPDX-License-Identifier: Apache-2.0
 *
 * A whole server in one process, without sockets: a real engine on its threads, the service, and
 * connections whose bytes go from hand to hand. Tests ask through real gRPC clients.
 *
 * It has a worker of its own, straight at the engine (so that tests of client calls do not depend
 * on work streams). What it does is the orchestrator's name:
 *
 *      "done"    completes with "\"result\"", custom status "\"fine\""
 *      "fail"    fails
 *      "wait"    goes on for ever, whatever is raised
 *      "parent"  starts the child "wait" with its own input as id, and waits
 *
 * Other names are nobody's: their instances stay PENDING.
 */
#ifndef TEST_LIB_SERVED_H
#define TEST_LIB_SERVED_H

#include "base/mem.h"
#include "host/engine.h"
#include "net/client.h"
#include "net/conn.h"
#include "server/feed.h"
#include "server/service.h"

#define SERVED_LINKS_MAX 64
#define SERVED_SHARDS_MAX 4

/* One connection, both ends. */
struct link {
    struct served *served;
    struct client *client;
    struct conn *conn;
    struct buffer bytes;
    bool is_deaf; /* the client reads nothing */
};

struct served {
    struct mem mem; /* of the server's side */
    struct mem client_mem;
    struct engine *engine;
    struct service *service;
    struct service_options options;
    struct conn_limits limits;
    struct net_counters counters;
    struct http_service http;
    struct link links[SERVED_LINKS_MAX];
    unsigned links_n;
    int bell_fd;
    struct feed *feed; /* of the hosts' changes, when it was set before open; NULL = none */
    int64_t ahead_ns;  /* what was added to the clock */
    struct worker workers[SERVED_SHARDS_MAX];
    struct worker_filter names[4];
    uint32_t shards_n;
    bool has_worker;
    /* Every nth request is not taken, as by an engine that is full; 0 = all are. */
    unsigned refuse_every;
    unsigned posted_n;
};

/* What a call told. */
struct answer {
    struct link *link;
    struct client_call *call;
    bool is_over;
    enum grpc_code code;
    char text[CLIENT_TEXT_SIZE];
    unsigned messages_n;
    struct buffer message; /* all messages, one after the other */
    struct buffer last;    /* the last one */
};

/* Options may be changed between init and open. */
void served_init(struct served *s);
void served_open(struct served *s, const char *directory, uint32_t shards_n, bool has_worker);
/* Connections, then the engine, then the service; expects that no memory is left. */
void served_close(struct served *s);
/* A new connection; hub may be NULL. */
struct link *served_link(struct served *s, const char *hub);
void served_unlink(struct link *link);
/* Moves bytes and answers until nothing moves. */
void served_turn(struct served *s);
int64_t served_now_ns(const struct served *s);
/* Moves the clock of connections and service; the engine's own goes on. */
void served_advance_ms(struct served *s, int64_t ms);

void answer_init(struct answer *a);
void answer_release(struct answer *a);
/* Begins a call; rpc is its name, or the path of another service's. timeout_ms 0 = none. */
void served_begin(struct link *link, const char *rpc, struct bytes message, int64_t timeout_ms,
                  struct answer *a);
/* Until it is over; the test fails after 20 s. */
void served_await(struct answer *a);
/* Both. The answer is released first when it was used. */
void served_ask(struct link *link, const char *rpc, struct bytes message, struct answer *a);

#endif
