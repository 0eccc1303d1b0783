/* SPDX-License-Identifier: Apache-2.0
 *
 * What a step wants done: records to make durable, and effects to release once they are. Effects
 * live in the output's arena until the host resets it.
 */
#ifndef CORE_OUTPUT_H
#define CORE_OUTPUT_H

#include "base/arena.h"
#include "core/input.h"

enum effect_kind {
    EFFECT_REPLY, /* to a client or worker */
    EFFECT_READY, /* there is one more piece of work in this queue; the only one that may be used at
                     once: it never leaves the process */
    EFFECT_WORK,  /* to a worker */
    EFFECT_SEND,  /* a message to an instance, through its partition */
    EFFECT_ACK,   /* messages of a partition have arrived durably */
    EFFECT_STATUS, /* an instance's status changed: wake who waits for it */
    EFFECT_ALERT,  /* an operator should look */
};

struct effect_work {
    struct work_ref ref; /* bytes in the arena, as all below */
    uint32_t worker;
    struct bytes name;
    struct maybe version; /* WORK_TASK: the effective one, its own or the orchestration's */
    struct bytes past;    /* WORK_TURN: strings of events, when wanted */
    bool has_past;
    struct bytes fresh;     /* WORK_TURN: strings of events; OrchestratorStarted first. WORK_ENTITY:
                               strings of EntityOperationSignaled and EntityOperationCalled */
    struct maybe trace;     /* WORK_TURN: raw OrchestrationTraceContext */
    uint64_t history_n;     /* WORK_TURN: committed events */
    struct bytes scheduled; /* WORK_TASK: the TaskScheduled event */
    struct maybe state;     /* WORK_ENTITY; its operations are in `fresh` */
    int64_t complete_by_ms; /* WORK_TASK: 0 = none */
};

struct effect {
    enum effect_kind kind;
    struct effect *next;
    union {
        struct {
            uint64_t request;
            enum status status;
            const char *text; /* static or in the arena; "" when there is nothing to add */
            bool is_stale;    /* to a worker: it was too late, and nothing was changed */
            struct bytes key; /* CLIENT_START, CLIENT_RESTART, CLIENT_IMPORT: of the instance */
            uint8_t execution_id[EXECUTION_ID_SIZE];
        } reply;
        struct {
            enum work_kind kind;
            struct bytes queue; /* hub, kind, name, version: see queue_key() */
        } ready;
        struct effect_work work;
        struct {
            uint32_t to;
            uint64_t seq;
            enum message_kind kind;
            struct bytes target;
            struct bytes execution;
            struct bytes event;
        } send;
        struct {
            uint32_t to;
            uint64_t seq;
        } ack;
        struct {
            struct bytes key;
            enum orchestration_status status;
            /* set by the host, when somebody watches: */
            struct bytes name; /* of the orchestrator */
            int64_t time_ns;
        } status;
        struct {
            struct bytes key;
            const char *text;
        } alert;
    };
};

struct output {
    struct buffer *records; /* appended to */
    uint32_t records_n;
    struct arena *arena;
    struct effect *first;
    struct effect **last;
    bool has_more; /* CLOCK_TICK: more is due already; tick again */
};

void output_init(struct output *out, struct buffer *records, struct arena *arena);

#endif
