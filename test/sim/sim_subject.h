/* SPDX-License-Identifier: Apache-2.0
 *
 * A subject: one instance as its client remembers it. Every request that was sent leaves a mark,
 * also when its fate is unknown; the checks are as strict as the marks allow.
 */
#ifndef TEST_SIM_SIM_SUBJECT_H
#define TEST_SIM_SIM_SUBJECT_H

#include "base/arena.h"
#include "base/map.h"
#include "core/core.h"
#include "test/sim/sim_programs.h"
#include "test/sim/sim_world.h"

#define RAISES_MAX 60

struct subject;

struct raise {
    int64_t value;
    bool is_acked;   /* and not dropped: the instance was alive */
    bool is_refused; /* certainly never arrived */
    bool is_dropped; /* the server said so; over gRPC its client is not told */
    bool is_doubled;
    bool is_relayed;             /* sent by another instance */
    const struct subject *relay; /* that one; NULL before it is started */
};

struct subject {
    struct map_node by_key;
    struct world *w;
    struct arena arena;
    struct bytes key;
    enum program program;
    struct bytes input;
    struct bytes tags; /* of its start */
    struct expectation expected;
    bool is_remote; /* its client uses gRPC, and does not see how long its history is */

    /* What was sent. A loose request may still arrive: its fate is unknown, or the network
     * doubled it. */
    bool is_acked; /* a start: it exists, until something below */
    uint32_t starts_loose;
    uint32_t controls_loose;
    bool was_terminated; /* sent, as all of these */
    bool was_purged;
    bool was_rewound;
    bool was_restarted;
    bool was_suspended;
    bool is_tainted;
    bool is_gone; /* purge acknowledged, nothing sent since */
    struct raise raises[RAISES_MAX];
    uint32_t raises_n;

    /* What was seen. */
    bool is_finished;
    uint64_t digest;
    bool is_settled;  /* phase 2: nothing more to do */
    bool is_standing; /* suspended, with so many events */
    uint32_t standing_n;
    uint8_t execution_id[EXECUTION_ID_SIZE];
    uint32_t history_n;
    uint64_t history_hash;
    uint64_t scan;
    uint32_t scan_seen_n;
    uint32_t visits_n; /* phase 2 */
    int64_t visit_ns;  /* the next one */
};

struct subject *subject_new(struct world *w, struct bytes key, enum program program,
                            struct bytes input);
void subject_free(struct subject *s);

/* Something was sent that may end it otherwise than its program would. */
bool subject_is_disturbed(const struct subject *s);
bool subject_wants_events(const struct subject *s);
/* A read has shown this; NULL: no such instance. */
void subject_see(struct subject *s, const struct instance_view *view);
/* A read has shown this history of the execution that is in it. */
void subject_see_history(struct subject *s, struct bytes events);
/* The durable truth, at the end of the run. */
void subject_check_end(struct subject *s, const struct instance_view *view);

#endif
