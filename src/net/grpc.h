/* SPDX-License-Identifier: Apache-2.0
 *
 * gRPC calls as a service sees them: one request message, any number of answer messages, a code.
 *
 *      begun ──> service->call() ──> grpc_send()* ──> grpc_finish()
 *                     │
 *                     └─ service->closed(): the peer cancelled, its deadline has passed or its
 *                        connection is gone. Nothing that is sent reaches anybody any more; the
 *                        handler still has to call grpc_finish(), which frees its slot.
 *
 * Everything on the connection's thread. A call lives until grpc_finish().
 */
#ifndef NET_GRPC_H
#define NET_GRPC_H

#include "base/bytes.h"
#include "base/status.h"

struct grpc_call;

/* Numbers of the protocol. */
enum grpc_code {
    GRPC_OK = 0,
    GRPC_CANCELLED = 1,
    GRPC_UNKNOWN = 2,
    GRPC_INVALID_ARGUMENT = 3,
    GRPC_DEADLINE_EXCEEDED = 4,
    GRPC_NOT_FOUND = 5,
    GRPC_ALREADY_EXISTS = 6,
    GRPC_PERMISSION_DENIED = 7,
    GRPC_RESOURCE_EXHAUSTED = 8,
    GRPC_FAILED_PRECONDITION = 9,
    GRPC_ABORTED = 10,
    GRPC_OUT_OF_RANGE = 11,
    GRPC_UNIMPLEMENTED = 12,
    GRPC_INTERNAL = 13,
    GRPC_UNAVAILABLE = 14,
    GRPC_DATA_LOSS = 15,
    GRPC_UNAUTHENTICATED = 16,
};

struct grpc_service {
    void *user;
    /* The request is complete; message is borrowed during the call. May finish at once. */
    void (*call)(void *user, struct grpc_call *call, struct bytes message);
    /* The request's message is larger than the limit: the call is answered RESOURCE_EXHAUSTED by
     * the layer itself and is not to be used. start: its first bytes, up to 512, or what came. */
    void (*oversize)(void *user, const struct grpc_call *call, uint64_t size, struct bytes start);
    /* It was full (grpc_is_full) and has room again. */
    void (*writable)(void *user, struct grpc_call *call);
    void (*closed)(void *user, struct grpc_call *call);
};

/* "/TaskHubSidecarService/Hello"; valid while the call lives, as all below. */
struct bytes grpc_path(const struct grpc_call *call);
/* A header of the request by its lower-case name; empty when it was not sent. Kept are: taskhub,
 * user-agent, x-user-agent, workerid, authorization, traceparent. */
struct bytes grpc_header(const struct grpc_call *call, const char *name);
/* The address of the peer, "127.0.0.1:40112"; "" when it is not known, or the peer is gone. */
const char *grpc_peer(const struct grpc_call *call);
/* When the peer stops waiting (now_ns of the connection); INT64_MAX = never. The layer itself
 * answers DEADLINE_EXCEEDED then, and calls closed(). */
int64_t grpc_deadline_ns(const struct grpc_call *call);
/* For the service's own use; NULL at first. */
void grpc_set_user(struct grpc_call *call, void *user);
void *grpc_user(const struct grpc_call *call);

/* One answer message, copied. E_CLOSED: the peer is gone (nothing happened). E_NOMEM. It is queued
 * even when the call is full: who streams asks first. */
enum status grpc_send(struct grpc_call *call, struct bytes message);
/* More waits for the peer than one call, or its connection, may keep: wait for writable(), which
 * comes to every call that was told so. */
bool grpc_is_full(struct grpc_call *call);
/* Bytes that wait for this peer. */
size_t grpc_queued(const struct grpc_call *call);
/* Whether both came over the same connection, which is still there. */
bool grpc_is_beside(const struct grpc_call *call, const struct grpc_call *other);
/* closed() was called. */
bool grpc_is_closed(const struct grpc_call *call);
/* The end of the handler; the call is gone for it. text: for people, "" or NULL = none. */
void grpc_finish(struct grpc_call *call, enum grpc_code code, const char *text);
/* An answer of one message, and OK. */
void grpc_answer(struct grpc_call *call, struct bytes message);

/* "NOT_FOUND"; static. */
const char *grpc_code_name(enum grpc_code code);

#endif
