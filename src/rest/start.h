/* SPDX-License-Identifier: Apache-2.0
 *
 * What the routes that start instances share.
 */
#ifndef REST_START_H
#define REST_START_H

#include "rest/state.h"

struct start {
    bool is_put;      /* the id is that of the path; nothing is replaced */
    bool is_ignoring; /* reuse "ignore": one that exists is as good */
    struct bytes id;  /* out: borrowed from path or errand, or made here */
};

/* Reads the body of a start into the errand's request; text is copied. False: error says why. */
bool start_read(struct rest *r, struct errand *errand, struct bytes text, struct start *wish,
                struct body_error *error);
extern const struct problem_map problems_of_starts;
/* "/v1/instances/order-7?hub=x", appended. */
void location_write(struct buffer *out, struct bytes hub, struct bytes id);
/* id and execution id; with 202 the Location too. */
void answer_started(struct ask *ask, unsigned status, const struct request *request);

#endif
