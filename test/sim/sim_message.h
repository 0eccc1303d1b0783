/* SPDX-License-Identifier: Apache-2.0
 *
 * The protocol's messages as the simulated clients and workers write and read them: the other side
 * of src/server, written apart from it.
 */
#ifndef TEST_SIM_SIM_MESSAGE_H
#define TEST_SIM_SIM_MESSAGE_H

#include "base/arena.h"
#include "core/core.h"
#include "core/event_entity.h"
#include "host/request.h"

/* ---- clients ---- */

/* The RPC of a request, and its message appended; NULL when it has none. */
const char *message_write_request(struct buffer *out, const struct request *request);

/* What an answer said. Everything in the arena. */
struct message_answer {
    bool has_view;
    struct instance_view view;
    struct bytes events;
    struct instance_view *rows;
    size_t rows_n;
    struct bytes token; /* where the list goes on; empty = at its end */
    uint32_t purged_n;
};
/* Of the messages of one answer, one after the other (more than one: chunks of a history). False:
 * not an answer to that. */
bool message_read_answer(const struct request *request, struct bytes hub, struct bytes messages,
                         struct arena *arena, struct message_answer *out);

/* ---- workers ---- */

struct work_limits {
    uint32_t n[WORK_KINDS_N];
    bool can_stream;
    bool has_filters; /* which name everything */
};
void message_write_wish(struct buffer *out, const struct work_limits *limits);

/* A WorkItem. Bytes borrowed from the message, strings in the arena. */
struct work_item {
    bool is_ping;
    enum work_kind kind;
    struct bytes instance_id;
    struct bytes execution_id;
    struct bytes token;
    struct bytes past;  /* strings */
    struct bytes fresh; /* strings */
    bool is_streamed;
    struct bytes name;
    struct maybe input;
    int32_t task_id;
    struct maybe state;
};
bool message_read_item(struct bytes message, struct arena *arena, struct work_item *out);

/* StreamInstanceHistory of a worker that fetches past events. */
void message_write_fetch(struct buffer *out, struct bytes id, struct bytes execution_id);
void message_write_abandon(struct buffer *out, struct bytes token);
/* An empty token is not written. */
void message_write_turn(struct buffer *out, struct bytes id, struct bytes token,
                        const struct orchestrator_answer *answer);
void message_write_task(struct buffer *out, struct bytes id, int32_t task_id, struct bytes token,
                        struct maybe result, struct maybe failure);
void message_write_entity(struct buffer *out, struct bytes token,
                          const struct entity_answer *answer);

#endif
