/* SPDX-License-Identifier: Apache-2.0
 *
 * See stream_desk.h.
 */
#include "rest/stream_desk.h"

#include "base/log.h"
#include "base/queue.h"
#include "host/engine.h"
#include "rest/stream_starter.h"
#include "stream/threads.h"

#include <stdatomic.h>
#include <stdio.h>

#define PATH_SIZE 4096
#define ANSWER_SIZE_MAX ((size_t)16 << 20)
#define ARENA_CHUNK_SIZE 512

struct stream_desk {
    struct mem *mem; /* of the network's thread */
    struct streams_threads *threads;
    struct streams *streams;
    struct rest_starter *starter; /* NULL without engine */
    struct queue answered;
    atomic_bool is_bell_owed;
    size_t errands_n;
    size_t errands_n_max;
    void (*wake)(void *user);
    void *wake_user;
};

/* ---- the streams' thread ---- */

static void on_turned(void *user)
{
    struct stream_desk *d = user;

    /* Once for all that this turn did. */
    if (d->starter != NULL) rest_starter_turned(d->starter);
    bool is_owed = atomic_exchange(&d->is_bell_owed, false);
    /* Who waits for the end is told too. */
    if (is_owed || streams_threads_is_over(d->threads)) d->wake(d->wake_user);
}

static void on_answered(struct stream_request *request)
{
    struct stream_errand *errand = container_of(request, struct stream_errand, request);
    struct stream_desk *d = errand->desk;

    bool is_pushed = queue_push_quietly(&d->answered, &errand->node);
    assert(is_pushed);
    atomic_store(&d->is_bell_owed, true);
}

/* ---- life ---- */

static void discard(struct stream_desk *d)
{
    if (d->threads != NULL) streams_threads_close(d->threads);
    if (d->starter != NULL) rest_starter_free(d->starter);
    queue_release(&d->answered);
    mem_give(d->mem, d, sizeof *d);
}

static enum status open_streams(struct stream_desk *d, const struct front_options *options)
{
    char path[PATH_SIZE];
    char damage[STREAMS_DAMAGE_SIZE] = "";
    struct streams_threads_options threads = {
        .mem = d->mem,
        .directory = path,
        .journal_segment_size = options->journal_segment_size,
        .turned = on_turned,
        .user = d,
    };

    int len = snprintf(path, sizeof path, "%s/streams", options->directory);
    if (len < 0 || (size_t)len >= sizeof path) return E_INVALID;
    streams_options_init(&threads.streams);
    threads.streams.disk_free_min = options->disk_free_min;
    if (d->starter != NULL) threads.streams.starter = rest_starter_interface(d->starter);
    enum status status = streams_threads_open(&threads, damage, &d->threads);
    if (status == OK) d->streams = streams_threads_streams(d->threads);
    if (status != OK) {
        log_error("%s cannot be opened: %s%s%s", path, status_text(status),
                  damage[0] == '\0' ? "" : ": ", damage);
    }
    return status;
}

enum status stream_desk_new(const struct front_options *options, struct stream_desk **out)
{
    struct stream_desk *d = mem_take_zero(options->mem, sizeof *d);
    if (d == NULL) return E_NOMEM;
    d->mem = options->mem;
    d->wake = options->wake;
    d->wake_user = options->wake_user;
    d->errands_n_max = options->errands_n_max;
    queue_init(&d->answered, SIZE_MAX);
    enum status status = OK;
    if (options->engine != NULL) {
        status = rest_starter_new(d->mem, options->engine, &d->starter);
    }
    if (status == OK) status = open_streams(d, options);
    if (status != OK) {
        discard(d);
        return status;
    }
    *out = d;
    return OK;
}

void stream_desk_stop(struct stream_desk *d) { streams_threads_stop(d->threads); }

bool stream_desk_is_over(const struct stream_desk *d)
{
    return streams_threads_is_over(d->threads);
}

void stream_desk_join(struct stream_desk *d) { streams_threads_join(d->threads); }

void stream_desk_free(struct stream_desk *d)
{
    stream_desk_join(d);
    stream_desk_collect(d);
    assert(d->errands_n == 0);
    discard(d);
}

void stream_desk_collect(struct stream_desk *d)
{
    struct list answered;
    struct list *node;

    /* Also those that came when the thread had just ended. */
    if (streams_threads_is_over(d->threads)) streams_threads_join(d->threads);
    list_init(&answered);
    (void)queue_take_all(&d->answered, &answered, 0);
    while ((node = list_pop_front(&answered)) != NULL) {
        struct stream_errand *errand = container_of(node, struct stream_errand, node);
        errand->done(errand);
    }
}

struct streams *stream_desk_streams(struct stream_desk *d) { return d->streams; }

size_t stream_desk_errands_n(const struct stream_desk *d) { return d->errands_n; }

void stream_desk_stats(struct stream_desk *d, struct front_stream_stats *out)
{
    struct stream_stats s;

    streams_stats(d->streams, &s);
    *out = (struct front_stream_stats){
        .is_there = true,
        .streams_n = s.streams_n,
        .appended_n = s.appended_n,
        .appended_size = s.appended_size,
        .read_n = s.read_n,
        .delivered_n = s.delivered_n,
        .completed_n = s.completed_n,
        .started_n = s.started_n,
        .frames_n = s.frames_n,
        .letters_n = s.letters_n,
        .waiting_n = s.waiting_n,
        .memory_size = s.memory_size,
        .journal_size = s.journal_size,
        .segments_size = s.segments_size,
        .is_disk_low = s.is_disk_low,
    };
}

/* ---- errands ---- */

struct stream_errand *stream_errand_new(struct rest *r, struct ask *ask,
                                        enum stream_request_kind kind)
{
    struct stream_desk *d = r->streams;

    if (d == NULL) {
        if (ask != NULL) ask_problem(ask, PROBLEM_UNSUPPORTED, NULL, "there are no streams here");
        return NULL;
    }
    struct stream_errand *errand = NULL;
    if (d->errands_n < d->errands_n_max) errand = mem_take(d->mem, sizeof *errand);
    if (errand == NULL) {
        if (ask != NULL) ask_busy(ask);
        return NULL;
    }
    stream_request_init(&errand->request, kind, ANSWER_SIZE_MAX);
    errand->request.done = on_answered;
    errand->desk = d;
    errand->ask = ask;
    errand->done = stream_errand_end;
    errand->user = NULL;
    list_node_init(&errand->node);
    arena_init(&errand->arena, d->mem, ARENA_CHUNK_SIZE);
    d->errands_n++;
    if (ask != NULL) ask_hold(ask);
    return errand;
}

void stream_errand_end(struct stream_errand *errand)
{
    struct stream_desk *d = errand->desk;
    struct ask *ask = errand->ask;

    stream_request_release(&errand->request);
    arena_release(&errand->arena);
    mem_give(d->mem, errand, sizeof *errand);
    d->errands_n--;
    if (ask != NULL) ask_unhold(ask);
}

bool stream_errand_post(struct stream_errand *errand)
{
    if (streams_post(errand->desk->streams, &errand->request)) return true;
    if (errand->ask != NULL && !errand->ask->is_answered) ask_busy(errand->ask);
    stream_errand_end(errand);
    return false;
}

struct bytes stream_errand_copy(struct stream_errand *errand, struct bytes text)
{
    return arena_copy(&errand->arena, text);
}

/* ---- answers ---- */

static enum problem missing_of(enum stream_request_kind kind)
{
    switch (kind) {
    case STREAM_REQUEST_GROUP_DELETE: return PROBLEM_GROUP_NOT_FOUND;
    case STREAM_REQUEST_LETTER:
    case STREAM_REQUEST_LETTER_EDIT:
    case STREAM_REQUEST_LETTER_RESUBMIT:
    case STREAM_REQUEST_LETTER_DISCARD: return PROBLEM_MESSAGE_NOT_FOUND;
    case STREAM_REQUEST_SET:
    case STREAM_REQUEST_DELETE:
    case STREAM_REQUEST_INFO:
    case STREAM_REQUEST_APPEND:
    case STREAM_REQUEST_READ:
    case STREAM_REQUEST_GROUP_READ:
    case STREAM_REQUEST_CHECKPOINT:
    case STREAM_REQUEST_SEEK:
    case STREAM_REQUEST_RECEIVE:
    case STREAM_REQUEST_COMPLETE:
    case STREAM_REQUEST_ABANDON:
    case STREAM_REQUEST_RENEW:
    case STREAM_REQUEST_DEAD_LETTER:
    case STREAM_REQUEST_LETTERS:
    case STREAM_REQUEST_CANCEL:
    case STREAM_REQUEST_STATS:
    case STREAM_REQUEST_BURY: return PROBLEM_STREAM_NOT_FOUND;
    }
    return PROBLEM_STREAM_NOT_FOUND;
}

static enum problem problem_of(const struct stream_request *request)
{
    bool is_append = request->kind == STREAM_REQUEST_APPEND;

    switch (request->status) {
    case E_INVALID: return PROBLEM_BAD_REQUEST;
    case E_NOT_FOUND: return missing_of(request->kind);
    case E_EXISTS:
    case E_PRECONDITION: return PROBLEM_WRONG_STATE;
    case E_STALE: return PROBLEM_LEASE_LOST;
    case E_LIMIT:
        return is_append || request->kind == STREAM_REQUEST_LETTER_EDIT ? PROBLEM_TOO_LARGE
                                                                        : PROBLEM_WRONG_STATE;
    case E_NOSPACE: return PROBLEM_DISK_LOW;
    case E_CLOSED: return PROBLEM_DRAINING;
    case E_NOMEM:
    case E_BUSY:
    case E_TIMEOUT:
    case E_UNAVAILABLE: return PROBLEM_TOO_BUSY;
    case OK:
    case E_IO:
    case E_CORRUPT:
    case E_VERSION:
    case E_UNSUPPORTED: return PROBLEM_INTERNAL;
    }
    return PROBLEM_INTERNAL;
}

bool stream_errand_is_good(struct stream_errand *errand)
{
    const struct stream_request *request = &errand->request;
    struct ask *ask = errand->ask;

    ask->ops = NULL;
    if (ask->is_answered) {
        stream_errand_end(errand);
        return false;
    }
    if (request->status != OK) {
        const char *text = request->text[0] != '\0' ? request->text : status_text(request->status);
        enum problem problem = problem_of(request);
        bool is_stream = problem == PROBLEM_STREAM_NOT_FOUND && request->number == 0;
        const char *hint = is_stream ? "PUT /v1/streams/NAME makes one" : NULL;
        ask_problem(ask, problem, hint, "%s", text);
        stream_errand_end(errand);
        return false;
    }
    buffer_clear(&ask->text);
    return true;
}

void stream_errand_json(struct stream_errand *errand, unsigned status)
{
    struct ask *ask = errand->ask;

    if (ask->text.failed)
        ask_busy(ask);
    else
        ask_json(ask, status, buffer_view(&ask->text));
    stream_errand_end(errand);
}

/* ---- waiting ---- */

/* The streams only compare the pointer. One that they do not take does no harm: the errand comes
 * back when its time is over. */
static void cancel(struct stream_errand *errand)
{
    struct stream_errand *other = stream_errand_new(errand->ask->rest, NULL, STREAM_REQUEST_CANCEL);

    if (other == NULL) return;
    other->request.cancel.request = &errand->request;
    other->request.stream = stream_errand_copy(other, errand->request.stream);
    (void)stream_errand_post(other);
}

static void on_closed(struct ask *ask)
{
    struct stream_errand *errand = ask->user;

    ask->ops = NULL;
    cancel(errand);
    ask_answer(ask, 503, NULL, BYTES_NONE); /* nobody reads it */
}

/* A message that is handed to nobody would wait for the end of its lock. */
static void on_half_closed(struct ask *ask)
{
    struct stream_errand *errand = ask->user;

    if (errand->request.kind == STREAM_REQUEST_RECEIVE) cancel(errand);
}

static void on_nothing(struct ask *ask) { (void)ask; }

static const struct ask_ops waiting_ops = {
    .closed = on_closed,
    .writable = on_nothing,
    .time = on_nothing,
    .drain = on_nothing, /* the streams answer all that waits when they stop */
    .half_closed = on_half_closed,
};

void stream_errand_waits(struct stream_errand *errand)
{
    struct ask *ask = errand->ask;

    if (!stream_errand_post(errand)) return;
    ask->user = errand;
    ask->ops = &waiting_ops;
    if (ask->is_closed) on_closed(ask);
}
