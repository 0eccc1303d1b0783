/* SPDX-License-Identifier: Apache-2.0
 *
 * Workers for tests, as the SDKs are: a GetWorkItems call over a real gRPC client, its work items
 * read, and the answers to them.
 */
#ifndef TEST_LIB_HANDS_H
#define TEST_LIB_HANDS_H

#include "core/input.h"
#include "test/lib/served.h"

/* One work item; its texts are in `message`. */
struct work {
    struct hand *hand;
    enum work_kind kind;
    struct bytes message;
    struct bytes id;
    struct bytes execution_id;
    struct bytes token;
    struct bytes name;    /* of activities */
    struct maybe version; /* of activities */
    struct maybe input;   /* of activities; state of entities */
    struct bytes tags;    /* of activities: all entries */
    int32_t task_id;
    unsigned past_n;
    unsigned fresh_n;
    bool is_streamed;
    bool has_entity_parameters;
};

#define HAND_WORK_MAX 20000

struct hand {
    struct link *link;
    struct client_call *call; /* NULL: over */
    enum grpc_code code;
    char text[CLIENT_TEXT_SIZE];
    struct arena arena; /* of all work */
    struct work **work;
    unsigned work_n;
    unsigned pings_n;
};

/* A server of one shard in the test's own directory, and a client of it. */
struct link *served_start(struct served *s);
struct service_stats served_stats(struct served *s);

/* message: a GetWorkItemsRequest. */
void hand_open(struct hand *hand, struct link *link, struct bytes message);
/* Cancels it when it is open, and frees what it has seen. */
void hand_close(struct hand *hand);
/* Cancels it; what it has seen stays. */
void hand_cancel(struct hand *hand);
/* Until it has got n pieces of work in all; answers the last of them. Fails after 20 s. */
struct work *hand_await(struct hand *hand, unsigned n);
/* Turns the world for so long, in real time. */
void served_linger_ms(struct served *s, int64_t ms);
/* Until the condition holds. Fails after 20 s. */
#define HAND_UNTIL(served, condition)                                                              \
    do {                                                                                           \
        int64_t until_ns_ = served_now_ns(served) + INT64_C(20000000000);                          \
        while (!(condition)) {                                                                     \
            served_linger_ms(served, 2);                                                           \
            if (served_now_ns(served) > until_ns_)                                                 \
                test_fail(__FILE__, __LINE__, "not in 20 s: %s", #condition);                      \
        }                                                                                          \
    } while (0)

/* Starts an instance; expects OK. */
void link_start(struct link *link, const char *id, const char *name, struct bytes input);
/* Its OrchestrationStatus; -1 when it does not exist. */
int link_status(struct link *link, const char *id);

/* Appends an action to an OrchestratorResponse. */
void put_schedule(struct buffer *response, int32_t id, const char *name, const char *version,
                  struct bytes input);
void put_finish(struct buffer *response, int32_t id, struct bytes result);

/* Answers; each gives the code that came back. is_tokenless: as workers that know no tokens. */
enum grpc_code hand_schedule(struct link *link, const struct work *turn, int32_t id,
                             const char *name, bool is_tokenless);
enum grpc_code hand_finish(struct link *link, const struct work *turn, bool is_tokenless);
enum grpc_code hand_finish_task(struct link *link, const struct work *task, bool is_tokenless);
enum grpc_code hand_abandon(struct link *link, const struct work *work);
/* With a token of the test's choice. */
enum grpc_code hand_finish_with_token(struct link *link, const char *id, struct bytes token);
/* Any call; the text of a refusal in text (may be NULL, CLIENT_TEXT_SIZE). */
enum grpc_code link_ask(struct link *link, const char *rpc, struct bytes message, char *text);

#endif
