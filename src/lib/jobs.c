/* SPDX-License-Identifier: Apache-2.0
 *
 * The public verbs for many instances at once. However many there are, what a call has of them in
 * memory is bounded: it deals with LINK_JOBS_MAX at a time.
 */
#include "lib/client.h"

#include "base/clock.h"
#include "lib/checks.h"
#include "lib/memory.h"

/* What the link is asked for, and what that borrows. */
struct part {
    struct mem mem;
    struct buffer tags, entry;
    struct link_job *jobs;
    size_t n_max;
    struct norn_job *picked[LINK_JOBS_MAX]; /* whose they are */
    size_t tags_end[LINK_JOBS_MAX];
};

static bool part_init(struct part *p, size_t n)
{
    p->n_max = n < LINK_JOBS_MAX ? n : LINK_JOBS_MAX;
    memory_init(&p->mem);
    buffer_init(&p->tags, &p->mem);
    buffer_init(&p->entry, &p->mem);
    p->jobs = mem_take(&p->mem, p->n_max * sizeof *p->jobs);
    return p->jobs != NULL;
}

static void part_release(struct part *p)
{
    buffer_release(&p->tags);
    buffer_release(&p->entry);
    mem_give(&p->mem, p->jobs, p->n_max * sizeof *p->jobs);
    mem_release(&p->mem);
}

/* The first status that is not OK stays the answer of the call. */
static void part_answer(const struct part *p, size_t n, enum status *first)
{
    for (size_t i = 0; i < n; i++) {
        enum status status = p->jobs[i].status;
        p->picked[i]->status = status_for_user(status);
        if (*first == OK) *first = status;
    }
}

/* The buffer of tags moves while it grows: they are pointed to when all are there. */
static void read_jobs(struct part *p, struct norn_job *jobs, size_t n)
{
    size_t at = 0;

    buffer_clear(&p->tags);
    for (size_t i = 0; i < n; i++) {
        struct link_job *job = &p->jobs[i];
        p->picked[i] = &jobs[i];
        *job = (struct link_job){.id = jobs[i].id, .status = E_INVALID};
        if (jobs[i].name != NULL && payload_check(jobs[i].input) != NORN_E_INVALID) {
            job->start.name = bytes_of_text(jobs[i].name);
            job->start.input = maybe_of(jobs[i].input);
            job->status = client_read_start(jobs[i].options, &p->tags, &p->entry, &job->start);
        }
        p->tags_end[i] = p->tags.len;
    }
    for (size_t i = 0; i < n; i++) {
        p->jobs[i].start.tags = bytes_make(p->tags.ptr + at, p->tags_end[i] - at);
        if (p->tags_end[i] == at) p->jobs[i].start.tags = BYTES_NONE;
        at = p->tags_end[i];
    }
}

norn_status norn_start_many(norn_client *client, struct norn_job *jobs, size_t n)
{
    enum status first = OK;
    struct part p;

    if (client == NULL) return NORN_E_INVALID;
    if (jobs == NULL && n > 0) return client_refuse(client, "jobs is NULL, n is not 0");
    if (n == 0) return client_answer(client, OK, NULL);
    if (!part_init(&p, n)) {
        for (size_t i = 0; i < n; i++) jobs[i].status = NORN_E_NOMEM;
        first = E_NOMEM;
        n = 0;
    }
    for (size_t at = 0; at < n; at += p.n_max) {
        size_t part_n = n - at < p.n_max ? n - at : p.n_max;
        read_jobs(&p, jobs + at, part_n);
        link_start_many(client->link, p.jobs, part_n);
        part_answer(&p, part_n, &first);
    }
    part_release(&p);
    return client_answer(client, first, NULL);
}

static int64_t time_left_ms(int64_t timeout_ms, int64_t began_ns)
{
    if (timeout_ms < 0) return -1;
    int64_t passed_ms = (clock_mono_ns() - began_ns) / NS_PER_MS;
    return passed_ms < timeout_ms ? timeout_ms - passed_ms : 0;
}

/* Of those that were not started nothing is asked. Answers how many are. */
static size_t pick_started(struct part *p, struct norn_job *jobs, size_t n)
{
    size_t picked_n = 0;

    for (size_t i = 0; i < n; i++) {
        if (jobs[i].status != NORN_OK) continue;
        p->picked[picked_n] = &jobs[i];
        p->jobs[picked_n++] = (struct link_job){.id = jobs[i].id, .status = OK};
    }
    return picked_n;
}

norn_status norn_wait_many(norn_client *client, struct norn_job *jobs, size_t n, int64_t timeout_ms)
{
    int64_t began_ns = clock_mono_ns();
    enum status first = OK;
    struct part p;

    if (client == NULL) return NORN_E_INVALID;
    if (jobs == NULL && n > 0) return client_refuse(client, "jobs is NULL, n is not 0");
    if (n == 0) return client_answer(client, OK, NULL);
    if (!part_init(&p, n)) {
        first = E_NOMEM; /* nothing is known of any: their statuses stay */
        n = 0;
    }
    for (size_t at = 0; at < n; at += p.n_max) {
        size_t part_n = pick_started(&p, jobs + at, n - at < p.n_max ? n - at : p.n_max);
        link_wait_many(client->link, p.jobs, part_n, time_left_ms(timeout_ms, began_ns));
        part_answer(&p, part_n, &first);
    }
    part_release(&p);
    return client_answer(client, first, NULL);
}
