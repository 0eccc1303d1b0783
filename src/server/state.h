/* SPDX-License-Identifier: Apache-2.0
 *
 * The service from inside. Private to server/.
 */
#ifndef SERVER_STATE_H
#define SERVER_STATE_H

#include "base/list.h"
#include "base/map.h"
#include "base/rng.h"
#include "core/core.h"
#include "server/service.h"
#include "server/workers.h"
#include "wire/message.h"
#include "wire/pb.h"

/* name in the protocol, handler. In the order of the protocol's service. */
#define RPCS(X)                                                                                    \
    X(Hello, rpc_hello)                                                                            \
    X(StartInstance, rpc_start)                                                                    \
    X(GetInstance, rpc_get)                                                                        \
    X(RewindInstance, rpc_rewind)                                                                  \
    X(RestartInstance, rpc_restart)                                                                \
    X(WaitForInstanceStart, rpc_wait_start)                                                        \
    X(WaitForInstanceCompletion, rpc_wait_completion)                                              \
    X(RaiseEvent, rpc_raise)                                                                       \
    X(TerminateInstance, rpc_terminate)                                                            \
    X(SuspendInstance, rpc_suspend)                                                                \
    X(ResumeInstance, rpc_resume)                                                                  \
    X(QueryInstances, rpc_query)                                                                   \
    X(ListInstanceIds, rpc_list_ids)                                                               \
    X(PurgeInstances, rpc_purge)                                                                   \
    X(GetWorkItems, rpc_get_work_items)                                                            \
    X(CompleteActivityTask, rpc_complete_activity)                                                 \
    X(CompleteOrchestratorTask, rpc_complete_orchestrator)                                         \
    X(CompleteEntityTask, rpc_complete_entity)                                                     \
    X(StreamInstanceHistory, rpc_stream_history)                                                   \
    X(CreateTaskHub, rpc_create_hub)                                                               \
    X(DeleteTaskHub, rpc_delete_hub)                                                               \
    X(SignalEntity, rpc_signal_entity)                                                             \
    X(GetEntity, rpc_get_entity)                                                                   \
    X(QueryEntities, rpc_query_entities)                                                           \
    X(CleanEntityStorage, rpc_clean_entities)                                                      \
    X(AbandonTaskActivityWorkItem, rpc_abandon_activity)                                           \
    X(AbandonTaskOrchestratorWorkItem, rpc_abandon_orchestrator)                                   \
    X(AbandonTaskEntityWorkItem, rpc_abandon_entity)                                               \
    X(SkipGracefulOrchestrationTerminations, rpc_skip_graceful)
/* Those of our own service, wire/norn.proto; their numbers come after the others'. */
#define OWN_RPCS(X)                                                                                \
    X(ListSteps, rpc_list_steps)                                                                   \
    X(ResubmitStep, rpc_resubmit_step)                                                             \
    X(RenewTask, rpc_renew_task)
#define RPCS_N 32

/* The message is borrowed during the call; a handler that goes on later has copied what it
 * needs. */
typedef void rpc_fn(struct service *s, struct grpc_call *call, struct bytes message);
#define X(name, handler) rpc_fn handler;
RPCS(X)
OWN_RPCS(X)
#undef X

struct service {
    struct service_options options;
    struct mem *mem;
    struct desk *desk;
    struct grpc_service grpc;
    int64_t now_ns;
    bool is_draining;
    uint8_t rpc_slots[64]; /* by hash of the path: 1 + number of the RPC, 0 = free */
    struct rng rng;
    struct buffer scratch;   /* for the length of one call */
    struct list waiting;     /* errands of WaitForInstance*, oldest first: by of_user */
    struct list uncancelled; /* those whose CANCEL the engine did not take: tried again */
    struct list histories;   /* struct history: open StreamInstanceHistory calls */
    struct list batches;     /* struct batch: calls that name many instances */
    struct workers workers;
    struct service_stats stats;
};

/* ---- reply.c: answers and refusals ---- */
/* The code that a status of the engine becomes, in the one place where that is decided. */
enum grpc_code grpc_code_of(enum status status);
/* Finishes the call with another code than OK; a call that is NULL is nobody's. */
void call_fail(struct service *s, struct grpc_call *call, enum grpc_code code, const char *format,
               ...) __attribute__((format(printf, 4, 5)));
/* Status and text of the engine's answer, with the sentence of the status when it has no text. */
void call_fail_request(struct service *s, struct grpc_call *call, const struct request *request);
/* UNAVAILABLE: too much is under way. */
void call_fail_busy(struct service *s, struct grpc_call *call);
/* Finishes with the errand's reply, or with what its request's status says; frees the errand. The
 * usual errand->done. */
void errand_answer(struct errand *errand);
/* The service of an errand. */
struct service *errand_service(const struct errand *errand);

/* ---- hub.c ---- */
/* The hub that the call's `taskhub` names, "default" without. False, and finished
 * INVALID_ARGUMENT, when it is not a name: 1 to 64 of letters, digits, '-', '_', '.'. */
bool call_hub(struct service *s, struct grpc_call *call, struct bytes *hub);

/* ---- ask.c: what the handlers of client calls begin and end with ---- */
/* The message is one of this type, its texts are UTF-8; else finished and false. */
bool call_check(struct service *s, struct grpc_call *call, const ProtobufCMessageDescriptor *type,
                struct bytes message);
/* Checks the message and makes an errand; message and hub become copies in its arena. done is
 * errand_answer. NULL: finished. */
struct errand *call_begin(struct service *s, struct grpc_call *call, enum request_kind kind,
                          const ProtobufCMessageDescriptor *type, struct bytes *message,
                          struct bytes *hub);
/* The same for a GetInstanceRequest, whose answer is a GetInstanceResponse; entities are no
 * instances here. hub and id are in the errand's arena. NULL: finished. */
struct errand *call_begin_get(struct service *s, struct grpc_call *call, enum request_kind kind,
                              struct bytes message, struct bytes *hub, struct bytes *id);
/* Sets the key and posts the errand, or finishes the call and frees the errand. */
void call_post(struct errand *errand, struct bytes hub, struct bytes id);
/* The same for a request that has no instance, or has its key already. */
void call_post_as_is(struct errand *errand);
/* Ids of entities begin with '@': none of them is an orchestration. */
static inline bool is_entity_id(struct bytes id) { return id.len > 0 && id.ptr[0] == '@'; }
/* The text of a StringValue. */
struct maybe read_maybe(const struct pb_field *field);
/* A Timestamp in ms, rounded down or up. False: not a time. */
bool read_time_ms(const struct pb_field *field, bool is_rounded_up, int64_t *ms);
/* One or many statuses of a repeated field, added to the mask. False: not a status. */
bool read_statuses(const struct pb_field *field, uint32_t *mask);
/* The bounds of a list: from (inclusive) and to (exclusive, 0 = none) as struct request_query has
 * them. False: not a time. */
bool read_from(const struct pb_field *field, struct request_query *query);
bool read_to(const struct pb_field *field, struct request_query *query);
/* A fresh id of 32 hex digits. */
#define FRESH_ID_SIZE 32
void fresh_id(struct service *s, char out[FRESH_ID_SIZE]);

/* ---- view.c ---- */
/* An OrchestrationState as field `number`, appended. Without payloads: no input, output and custom
 * status. */
void view_write_state(struct buffer *out, uint32_t number, const struct instance_view *view,
                      bool with_payloads);
/* An EntityMetadata. */
void view_write_entity(struct buffer *out, uint32_t number, const struct instance_view *view,
                       bool with_state);
/* GetInstanceResponse of request.view into errand->reply: an errand->encode; payloads when
 * errand->flag. */
void encode_get_instance(struct errand *errand);

/* ---- position.c: where a list goes on ---- */
/* Text for the client; appended. */
void position_write(struct buffer *out, int64_t time_ms, struct bytes id);
/* id borrowed from text. False: not written by position_write(). */
bool position_read(struct bytes text, int64_t *time_ms, struct bytes *id);

/* ---- rpc_query.c: what lists have in common ---- */
/* Rows per page; 100 when none (<= 0) was asked for. */
void query_set_limit(struct request_query *query, int32_t wish);
/* From a StringValue with a continuation token; "" is the beginning. False: not one of ours. */
bool query_set_position(struct request_query *query, const struct pb_field *field);
/* What does not fit a page any more begins the next one. */
#define PAGE_SIZE_MAX ((size_t)3 << 20)
/* The token, when there is more behind the first n rows, as field 2 of the reply. In encode(). */
void query_put_position(struct errand *errand, size_t n);
/* The rows of the answer, as many as a page has room for, and its position. On the host's
 * thread. */
typedef void view_write_fn(struct buffer *out, uint32_t number, const struct instance_view *view,
                           bool with_payloads);
void query_encode_rows(struct errand *errand, view_write_fn *write);
/* INVALID_ARGUMENT, and frees the errand. */
void errand_refuse(struct errand *errand, const char *problem);
extern const char query_bad_token[];
extern const char query_bad_time[];

/* ---- waits.c ---- */
/* The caller of a WaitForInstance* is gone. */
void wait_closed(struct service *s, struct grpc_call *call);
/* Every waiting call is answered UNAVAILABLE. */
void waits_drain(struct service *s);
/* Tries again what the engine did not take; false when something is left. */
bool waits_retry(struct service *s);

/* ---- history.c ---- */
/* A stream of history chunks has room again, or its peer is gone. */
void history_writable(struct service *s, struct grpc_call *call);
void history_closed(struct service *s, struct grpc_call *call);
void histories_drain(struct service *s);

/* ---- batch.c: calls that name many instances ---- */
/* One request of `kind` for each id, some of them at once. prepare() fills in each request, one()
 * sees its answer and says what it makes of it, end() finishes the call: with success unless
 * batch->status says otherwise. All on the network's thread. */
struct batch;
struct batch_ops {
    enum request_kind kind;
    void (*prepare)(struct batch *batch, struct request *request);
    enum status (*one)(struct batch *batch, const struct request *request, struct bytes id);
    void (*end)(struct batch *batch);
};
struct batch {
    struct list node; /* in service.batches */
    struct service *service;
    struct grpc_call *call;
    const struct batch_ops *ops;
    struct mem *mem;
    struct arena arena;
    struct bytes hub;     /* in the arena */
    struct bytes message; /* a copy in the arena */
    struct buffer ids;    /* strings */
    size_t next;          /* offset of the next one in ids */
    uint32_t pending_n;
    bool is_stuck;      /* the engine took none: tried again at the next tick */
    enum status status; /* the first of one() that was not OK; nothing is asked after it */
    char text[200];
    struct buffer reply;
    uint32_t counted_n; /* for the user */
    bool flag;          /* likewise */
    struct maybe data;  /* likewise */
};
/* For a message that was checked. NULL: finished. The caller adds the ids of batch->message, sets
 * data and flag, and runs it. */
struct batch *batch_new(struct service *s, struct grpc_call *call, const struct batch_ops *ops,
                        struct bytes message);
/* All ids of an InstanceBatch. */
void batch_add(struct batch *batch, const struct pb_field *instance_batch);
void batch_run(struct batch *batch);
/* False when something is left to be tried again. */
bool batches_retry(struct service *s);

/* What a call is used for while it is open, behind grpc_user(): the first member of each user.
 * NULL: an ordinary one, whose errand finds out when it comes back. */
enum call_kind { CALL_WAIT, CALL_HISTORY, CALL_WORK };
struct call_user {
    enum call_kind kind;
};

#endif
