/* SPDX-License-Identifier: Apache-2.0
 *
 * The other side of a real server: connections over which tests ask as the SDKs' clients do, and
 * take work as their workers do. Built on net/client_socket.h: one loop, one thread.
 */
#ifndef TEST_LIB_CALLER_H
#define TEST_LIB_CALLER_H

#include "core/input.h"
#include "net/client_socket.h"

/* ---- work items ---- */

/* A WorkItem; everything borrowed from its message. */
struct item {
    enum work_kind kind;
    bool is_ping;
    struct bytes body;  /* OrchestratorRequest, ActivityRequest or EntityRequest */
    struct bytes token; /* completionToken */
    struct bytes id;    /* of the instance or entity */
    struct bytes execution_id;
    struct bytes name;  /* of an activity */
    struct bytes input; /* of an activity */
    int32_t task_id;    /* of an activity */
    uint32_t past_n;    /* of a turn */
    uint32_t fresh_n;   /* of a turn */
    bool is_streamed;   /* of a turn: the past is to be fetched */
};
/* False when it is not a WorkItem. */
bool item_read(struct bytes message, struct item *out);

/* ---- asking ---- */

/* It has ended: nothing of it changes any more. */
static inline bool status_is_final(int status)
{
    return status == STATUS_COMPLETED || status == STATUS_FAILED || status == STATUS_TERMINATED;
}

/* An OrchestrationState, or that there is none; everything borrowed. */
struct seen {
    bool exists;
    int status; /* enum orchestration_status */
    struct bytes id;
    struct bytes output;
    struct bytes custom_status;
    struct bytes failure; /* TaskFailureDetails.errorMessage */
};
/* A GetInstanceResponse. False when it cannot be read. */
bool seen_read(struct bytes response, struct seen *out);
/* An OrchestrationState. */
bool seen_read_state(struct bytes state, struct seen *out);

struct caller {
    struct client_sockets *sockets;
    struct client *client;       /* NULL: closed */
    struct buffer message;       /* the request that is being written */
    struct buffer answer;        /* the last one */
    char text[CLIENT_TEXT_SIZE]; /* of the last refusal */
};

/* False when nobody listens there. hub: "" = the default one. */
bool caller_open(struct caller *c, struct client_sockets *sockets, const char *address,
                 const char *hub);
/* The socket is closed without a word, as by a process that dies. Again is fine. */
void caller_close(struct caller *c);

/* Asks with `message` and waits; the answer is in `answer`. UNAVAILABLE also when the connection
 * cannot be used. */
enum grpc_code caller_ask(struct caller *c, const char *rpc, struct bytes message);
/* The same with a time limit, as gRPC clients have. */
enum grpc_code caller_ask_within(struct caller *c, const char *rpc, struct bytes message,
                                 int64_t timeout_ms);

/* These write and ask. */
enum grpc_code caller_start(struct caller *c, const char *id, const char *name, struct bytes input);
enum grpc_code caller_raise(struct caller *c, const char *id, const char *name, const char *input);
enum grpc_code caller_get(struct caller *c, const char *id, struct seen *out);
enum grpc_code caller_wait(struct caller *c, const char *id, int64_t timeout_ms, struct seen *out);

/* ---- workers that only take ---- */

/* An item that was taken, with a copy of its message. */
struct taken {
    struct item item;
    struct bytes message;
    struct taken *next;
};

/* A work stream whose items are kept. */
struct basket {
    struct caller *caller;
    struct client_call *stream; /* NULL: over */
    enum grpc_code code;        /* how it ended */
    struct taken *first, *last;
    uint32_t taken_n;
    uint32_t pings_n;
};

/* request: a GetWorkItemsRequest. */
void basket_open(struct basket *b, struct caller *c, struct bytes request);
/* Cancels the stream and forgets what was taken. */
void basket_close(struct basket *b);
/* The nth item (from 1) when it has come, within timeout_ms; NULL when not. */
struct taken *basket_await(struct basket *b, uint32_t n, int64_t timeout_ms);

/* ---- answers ---- */

/* Actions of an OrchestratorResponse. */
void put_task_action(struct buffer *response, int32_t id, const char *name, struct bytes input);
void put_end_action(struct buffer *response, int32_t id, int status, struct bytes result);

/* Complete the item; token: with the item's token. */
enum grpc_code caller_end_turn(struct caller *c, const struct item *item, struct bytes result);
enum grpc_code caller_order_task(struct caller *c, const struct item *item, int32_t id,
                                 const char *name, struct bytes input);
enum grpc_code caller_end_task(struct caller *c, const struct item *item, struct bytes result);

#endif
