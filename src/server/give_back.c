/* SPDX-License-Identifier: Apache-2.0
 *
 * Work goes back to the engine by an ABANDON. The engine knows of no time limit while a worker has
 * something, so work that is not given back is lost until the next restart: an ABANDON that the
 * engine does not take is tried again until it does.
 */
#include "server/work.h"

#include "base/log.h"

bool work_status_passes(enum status status)
{
    return status == E_NOMEM || status == E_LIMIT || status == E_UNAVAILABLE || status == E_BUSY ||
           status == E_NOSPACE;
}

void work_retry_soon(struct service *s)
{
    int64_t at_ns = s->now_ns + WORK_RETRY_NS;

    if (at_ns < s->workers.retry_ns) s->workers.retry_ns = at_ns;
}

void work_post_later(struct service *s, struct errand *errand)
{
    list_push_back(&s->workers.untaken, &errand->of_user);
    work_retry_soon(s);
}

void work_post(struct service *s, struct errand *errand)
{
    if (s->workers.is_stopped || !errand_post(errand, -1)) work_post_later(s, errand);
}

/* Answers of workers that have waited too long are told so; the worker still has the work. */
static bool is_too_late(const struct service *s, const struct errand *errand)
{
    return errand->call != NULL && (int64_t)errand->number <= s->now_ns;
}

void untaken_retry(struct service *s)
{
    struct list again;
    struct list *node;

    list_init(&again);
    list_splice_back(&again, &s->workers.untaken);
    while ((node = list_pop_front(&again)) != NULL) {
        struct errand *errand = container_of(node, struct errand, of_user);
        if (!is_too_late(s, errand)) {
            work_post(s, errand);
            continue;
        }
        if (errand->request.status == OK) errand->request.status = E_UNAVAILABLE;
        errand->done(errand);
    }
}

void untaken_drop(struct workers *w)
{
    struct list *node;

    assert(w->is_stopped);
    while ((node = list_pop_front(&w->untaken)) != NULL) {
        struct errand *errand = container_of(node, struct errand, of_user);
        errand->request.status = E_CLOSED;
        errand->done(errand);
    }
}

static void give_back_done(struct errand *errand)
{
    struct service *s = errand_service(errand);
    const struct request *request = &errand->request;

    if (work_status_passes(request->status) && !s->workers.is_stopped) {
        work_post_later(s, errand);
        return;
    }
    if (request->status != OK && request->status != E_CLOSED) {
        log_error("work of %.*s could not be given back: %s %s", (int)request->key.len,
                  (const char *)request->key.ptr, status_name(request->status), request->text);
    }
    errand_free(errand);
}

bool work_give_back(struct service *s, const struct work_ref *ref, enum give_back how,
                    const char *reason)
{
    struct errand *errand = errand_new(s->desk, REQUEST_ABANDON, NULL);

    if (errand == NULL) return false;
    struct request *request = &errand->request;
    request->key = arena_copy(&errand->arena, ref->key);
    if (request->key.len != ref->key.len) {
        errand_free(errand);
        return false;
    }
    request->lease.ref = *ref;
    request->lease.ref.key = request->key;
    request->lease.is_unsent = how == GIVE_UNSENT;
    request->lease.is_lost = how == GIVE_LOST;
    request->lease.is_parked = how == GIVE_PARKED;
    request->lease.reason = arena_copy(&errand->arena, bytes_of_text(reason));
    errand->done = give_back_done;
    if (how == GIVE_PARKED) {
        s->stats.work_parked++;
        log_warn("work of %.*s waits for an operator: %s", (int)ref->key.len,
                 (const char *)ref->key.ptr, reason);
    }
    if (how == GIVE_LOST) s->stats.work_lost++;
    work_post(s, errand);
    return true;
}

void lease_orphan(struct service *s, struct lease *lease)
{
    struct work_stream *stream = lease->stream;

    if (stream == NULL || s->workers.is_stopped) return;
    assert(stream->in_flight[lease->ref.kind] > 0);
    list_remove(&lease->of_owner);
    lease->stream = NULL;
    lease->due_ns = s->now_ns + s->options.grace_ms * 1000000;
    list_push_back(&s->workers.orphans, &lease->of_owner);
    stream->in_flight[lease->ref.kind]--;
    stream_top_up(stream);
}

void lease_give_back(struct service *s, struct lease *lease, enum give_back how, const char *reason)
{
    if (work_give_back(s, &lease->ref, how, reason)) {
        lease_end(s, lease);
        return;
    }
    struct work_stream *stream = lease->stream;
    list_remove(&lease->of_owner);
    lease->stream = NULL;
    lease->due_ns = s->now_ns + WORK_RETRY_NS;
    list_push_front(&s->workers.orphans, &lease->of_owner);
    if (stream != NULL) stream->in_flight[lease->ref.kind]--;
}
