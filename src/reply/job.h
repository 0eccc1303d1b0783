/* SPDX-License-Identifier: Apache-2.0
 *
 * One turn of a reply, from the engine and back: what is to be posted, how often it was tried, and
 * the answer. It has its memory with it, because it changes threads.
 */
#ifndef REPLY_JOB_H
#define REPLY_JOB_H

#include "base/arena.h"
#include "base/mem.h"
#include "host/dispatcher.h"
#include "host/request.h"
#include "reply/reply.h"

#define JOB_TEXT_SIZE 400
#define JOB_REASON_SIZE 256

struct reply_job {
    struct list node; /* of whoever has it */
    struct mem mem;
    struct arena arena;    /* of all bytes below */
    struct worker *worker; /* of the shard that it came from */
    struct work_ref ref;
    /* from the history */
    const char *url;
    const char *id; /* of the reply */
    struct bytes body;
    int64_t created_ns; /* when it was written down */
    uint32_t tries_n;   /* before this one */
    bool is_waiting;    /* its timer has not fired: somebody else woke it */
    /* the POST */
    struct posts *posts;
    void *handle; /* libcurl's, as the next one */
    void *headers;
    struct receiver *receiver;
    size_t answer_size;
    bool is_refused;              /* by the allow list */
    char reason[JOB_REASON_SIZE]; /* in libcurl's words; "" = none */
    char text[JOB_TEXT_SIZE];     /* why it failed */
    /* the answer */
    struct request request;
    struct orchestrator_answer answer;
    struct action action;
    struct buffer failure;
    bool is_done; /* the engine has it: nothing is left but to free the job */
};

/* A copy of the work, which must be a turn of a reply. NULL without memory. */
struct reply_job *job_new(const struct effect_work *work, struct worker *worker);
void job_free(struct reply_job *job);

/* How the turn ends; fills in job->answer. */
enum job_end {
    JOB_HEARD,
    JOB_AGAIN, /* later */
    JOB_OVER,  /* never */
    JOB_IDLE,  /* nothing to do in this turn */
};
/* is_final: another try would give the same. */
enum job_end job_decide(const struct reply_job *job, bool is_heard, bool is_final, int64_t now_ns,
                        const struct reply_options *options);
/* random: for the jitter. */
void job_answer(struct reply_job *job, enum job_end end, int64_t now_ns, uint64_t random,
                const struct reply_options *options);
/* Until the next try, for one that was tried so often before: doubles up to the limit, and is
 * spread over the half around it, so that those who failed together do not come back together. */
int64_t job_delay_ms(uint32_t tries_n, uint64_t random, const struct reply_options *options);

#endif
