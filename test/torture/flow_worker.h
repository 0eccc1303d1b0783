/* SPDX-License-Identifier: Apache-2.0
 *
 * A worker for flows.h over a real connection, which it opens again whenever it is lost.
 */
#ifndef TEST_TORTURE_FLOW_WORKER_H
#define TEST_TORTURE_FLOW_WORKER_H

#include "base/rng.h"
#include "test/torture/flows.h"

/* How it works. */
struct flow_manner {
    bool is_tokenless;        /* answers without tokens, as older SDKs; orders no entities */
    uint32_t delay_ms_max;    /* answers after up to so long */
    uint32_t crash_per_mille; /* dies with its work in hand, at so many of 1,000 items */
    bool keeps_work;          /* answers after it has connected again, too */
    uint32_t limit;           /* of every kind at once; 0 = none given */
};

struct held;

struct flow_worker {
    struct flow_manner manner;
    struct client_sockets *sockets;
    struct caller caller;
    struct rng *rng;
    struct client_call *stream;
    struct held *held; /* work that is not answered yet */
    int64_t connect_ns;
    bool is_dead; /* its connection is to be closed */
    struct buffer answer;
    uint64_t items_n, answered_n, acknowledged_n, crashes_n;
    char odd[CLIENT_TEXT_SIZE]; /* what should never happen to a worker; "" = nothing */
};

void flow_worker_open(struct flow_worker *w, struct client_sockets *sockets, struct rng *rng,
                      const struct flow_manner *manner);
void flow_worker_close(struct flow_worker *w);
/* Connects when it is not connected, answers what is due. address: NULL = there is no server now.
 */
void flow_worker_tick(struct flow_worker *w, const char *address);

#endif
