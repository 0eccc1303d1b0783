/* SPDX-License-Identifier: Apache-2.0
 *
 * The orchestrations of kill9_server, written as a worker that speaks the protocol itself: replay
 * is counting. Pure: from a work item to the bytes of its answer.
 *
 * A result names what it belongs to, and who receives it checks that: an activity's says instance,
 * execution and task, a child's is what a child of this name gives. What does not fit makes the
 * output begin with "WRONG", which no oracle expects.
 *
 * The input is "k n": n is how much there is to do, k how many generations have ended (loop), or
 * the number that the entity is to keep (keeper).
 */
#ifndef TEST_TORTURE_FLOWS_H
#define TEST_TORTURE_FLOWS_H

#include "test/lib/caller.h"

/* name */
#define FLOWS(X)                                                                                   \
    X(sequence) /* n activities, one after the other */                                            \
    X(fan)      /* n activities at once */                                                         \
    X(parent)   /* a child that is a sequence of n */                                              \
    X(timers)   /* n timers, one after the other */                                                \
    X(loop)     /* n generations with an activity each */                                          \
    X(collect)  /* events, until one is named "stop" */                                            \
    X(keeper)   /* calls an entity with k, once */                                                 \
    X(endless)  /* waits until it is terminated */

enum flow {
#define X(name) FLOW_##name,
    FLOWS(X)
#undef X
        FLOWS_N,
};
const char *flow_name(enum flow flow);

/* Entities are "@keeper@<0..>": the state is the list of all numbers it was given, in their order.
 */
#define FLOW_ENTITIES_N 4u
#define FLOW_ID_SIZE 64
void flow_entity_id(uint64_t number, char out[FLOW_ID_SIZE]);
/* The id under which a number is sent. */
void flow_request_id(uint64_t number, char out[FLOW_ID_SIZE]);

/* Appends the output that an instance with this id must have, as JSON text; of collect only the
 * beginning: the numbers of its events follow. */
void flow_output(struct buffer *out, enum flow flow, struct bytes id, uint32_t n);

/* Appends an OrchestratorResponse, ActivityResponse or EntityBatchResult. False when the item is
 * not of these flows. */
bool flow_answer(const struct item *item, bool has_token, struct buffer *out);

#endif
