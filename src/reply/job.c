/* SPDX-License-Identifier: Apache-2.0
 *
 * See job.h. The state of a reply is its history: each TimerCreated is a try that was not heard.
 */
#include "reply/job.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/planted.h"
#include "core/replies.h"

#define ARENA_CHUNK_SIZE 1024
#define DOUBLINGS_MAX 30u

/* ---- from the work ---- */

static const char *copy_text(struct arena *arena, struct bytes text)
{
    char *copy = arena_alloc(arena, text.len + 1);
    if (copy == NULL) return NULL;
    if (text.len > 0) memcpy(copy, text.ptr, text.len);
    copy[text.len] = '\0';
    return copy;
}

static bool read_started(struct reply_job *job, struct bytes event, int64_t time_ns)
{
    struct event_started started;
    if (event_started_decode(event, &job->arena, &started) != OK) return true; /* no URL: over */
    struct maybe url = tags_find(started.tags, BYTES_LITERAL(REPLY_URL_TAG));
    struct bytes body = arena_copy(&job->arena, started.input.value);
    job->url = copy_text(&job->arena, url.value);
    job->body = body;
    job->created_ns = time_ns;
    return job->url != NULL && (body.ptr != NULL || started.input.value.len == 0);
}

static bool read_events(struct reply_job *job, struct bytes events, uint32_t *timers_n)
{
    struct reader r = reader_make(events);
    struct bytes event;
    while (strings_next(&r, &event)) {
        struct event_head head;
        if (event_head_decode(event, &head) != OK) continue;
        if (head.kind == EVENT_EXECUTION_STARTED && !read_started(job, event, head.time_ns))
            return false;
        if (head.kind == EVENT_TIMER_CREATED) job->tries_n++;
        if (head.kind == EVENT_TIMER_FIRED) (*timers_n)++;
    }
    return true;
}

struct reply_job *job_new(const struct effect_work *work, struct worker *worker)
{
    struct mem mem;
    mem_init(&mem, SIZE_MAX);
    struct reply_job *job = mem_take_zero(&mem, sizeof *job);
    if (job == NULL) return NULL;
    job->mem = mem;
    job->worker = worker;
    job->ref = work->ref;
    arena_init(&job->arena, &job->mem, ARENA_CHUNK_SIZE);
    buffer_init(&job->failure, &job->mem);
    uint32_t fired_n = 0;
    job->ref.key = arena_copy(&job->arena, work->ref.key);
    job->id = copy_text(&job->arena, key_id(work->ref.key));
    if (job->ref.key.ptr == NULL || job->id == NULL || !read_events(job, work->past, &fired_n) ||
        !read_events(job, work->fresh, &fired_n)) {
        job_free(job);
        return NULL;
    }
    job->is_waiting = job->tries_n > fired_n;
    return job;
}

void job_free(struct reply_job *job)
{
    buffer_release(&job->failure);
    arena_release(&job->arena);
    struct mem mem = job->mem;
    mem_give(&mem, job, sizeof *job);
    mem_release(&mem);
}

/* ---- the answer ---- */

int64_t job_delay_ms(uint32_t tries_n, uint64_t random, const struct reply_options *options)
{
    unsigned doublings = tries_n < DOUBLINGS_MAX ? tries_n : DOUBLINGS_MAX;
    int64_t delay_ms = options->delay_ms;
    while (doublings-- > 0 && delay_ms < options->delay_ms_max) delay_ms *= 2;
    if (delay_ms > options->delay_ms_max) delay_ms = options->delay_ms_max;
    /* three to five quarters */
    return delay_ms - delay_ms / 4 + (int64_t)(random % ((uint64_t)delay_ms / 2 + 1));
}

enum job_end job_decide(const struct reply_job *job, bool is_heard, bool is_final, int64_t now_ns,
                        const struct reply_options *options)
{
    if (is_heard || planted("reply_unheard")) return JOB_HEARD;
    if (is_final || now_ns - job->created_ns >= options->give_up_ms * NS_PER_MS) return JOB_OVER;
    return JOB_AGAIN;
}

void job_answer(struct reply_job *job, enum job_end end, int64_t now_ns, uint64_t random,
                const struct reply_options *options)
{
    job->action = (struct action){.kind = ACTION_COMPLETE, .id = (int32_t)job->tries_n + 1};
    job->answer = (struct orchestrator_answer){.actions = &job->action, .actions_n = 1};
    int64_t at_ms = 0;
    switch (end) {
    case JOB_HEARD: job->action.status = STATUS_COMPLETED; break;
    case JOB_AGAIN:
        at_ms = now_ns / NS_PER_MS + job_delay_ms(job->tries_n, random, options);
        job->action.kind = ACTION_CREATE_TIMER;
        job->action.fire_at_s = at_ms / 1000;
        job->action.fire_at_ns = (int32_t)(at_ms % 1000 * NS_PER_MS);
        break;
    case JOB_OVER:
        job->action.status = STATUS_FAILED;
        failure_write(&job->failure, "ReplyNotHeard", bytes_of_text(job->text), true);
        if (!job->failure.failed) job->action.failure = maybe_some(buffer_view(&job->failure));
        break;
    case JOB_IDLE: job->answer.actions_n = 0; break;
    }
    job->request = (struct request){.kind = REQUEST_TURN_DONE, .key = job->ref.key, .user = job};
    job->request.worker_done = (struct input_worker_done){
        .has_ref = true,
        .ref = job->ref,
        .answer = &job->answer,
    };
}
