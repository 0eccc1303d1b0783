/* SPDX-License-Identifier: Apache-2.0
 *
 * GET /v1/instances/{id}/events: its history as it grows, as server-sent events.
 *
 *      READING ──part──> sent ──there is more──> READING
 *         ^                └──that was all──> WAITING ──time, or its status changed──> READING
 *         └─────────────────────────────────────┘      (ended: event "end")
 *
 * The engine is asked for parts; nothing is kept here but the number of events that were given and
 * the execution they are of. An instance that continued as new begins again with the events of its
 * new execution. How often it is asked doubles up to POLL_NS_MAX while nothing happens: one that
 * sleeps in the archive is read from the disk each time. Of those who follow the same instance only
 * the first asks in this way, and tells the others when there was something.
 */
#include "rest/changes.h"
#include "rest/sse.h"

#include <stdio.h>

#define PART_SIZE ((size_t)256 << 10)
#define POLL_NS_MIN ((int64_t)500 * 1000 * 1000)
#define POLL_NS_MAX ((int64_t)8 * 1000 * 1000 * 1000)

struct follow {
    struct watcher_of_changes watcher; /* to hear of its end at once */
    struct ask *ask;
    struct bytes key; /* in the ask's arena */
    uint32_t skip_n;  /* events that were given */
    /* The last one given is read again at the beginning: perhaps it was the end. */
    bool is_resumed;
    bool has_execution;
    char execution[EXECUTION_TEXT_SIZE]; /* of the events that were given */
    bool is_reading;                     /* an errand is under way */
    bool is_stale;                       /* there was news meanwhile: it may have come too early */
    bool is_over;                        /* the end was given */
    bool has_joined;
    int64_t poll_ns;
    int64_t poll_at_ns;
    int64_t comment_at_ns;
};

/* ---- on the host's thread ---- */

/* Between two line breaks: a payload may have some, which JSON does not mind. */
static void write_lines(struct buffer *out, struct bytes text)
{
    size_t from = 0;

    for (size_t n = 0; n <= text.len; n++) {
        if (n < text.len && text.ptr[n] != '\n' && text.ptr[n] != '\r') continue;
        buffer_append_bytes(out, BYTES_LITERAL("data: "));
        buffer_append_bytes(out, bytes_make(text.ptr + from, n - from));
        buffer_append_bytes(out, BYTES_LITERAL("\n"));
        from = n + 1;
    }
}

/* What an errand is about, in its arena. */
struct part {
    uint32_t hidden_n; /* events at its front that were given before */
    uint32_t given_n;  /* all of them, the hidden ones too */
    bool has_execution;
    char execution[EXECUTION_TEXT_SIZE];
    bool is_end;
};

static void note(struct errand *errand, struct part *part, struct bytes event)
{
    struct event_head head;
    struct event_started started;

    if (event_peek(event, &head) != OK) return;
    if (head.kind == EVENT_EXECUTION_COMPLETED) part->is_end = true;
    if (head.kind != EVENT_EXECUTION_STARTED) return;
    if (event_started_decode(event, &errand->arena, &started) != OK) return;
    execution_id_text(started.execution_id, part->execution);
    part->has_execution = true;
}

static void write_one(struct errand *errand, const struct part *part, uint32_t number,
                      struct bytes event, struct buffer *scratch)
{
    char id[24];
    struct json j;

    (void)snprintf(id, sizeof id, "id: %u", number);
    buffer_append_bytes(&errand->reply, bytes_of_text(id));
    if (part->has_execution) {
        buffer_append_bytes(&errand->reply, BYTES_LITERAL("."));
        buffer_append(&errand->reply, part->execution, EXECUTION_TEXT_SIZE);
    }
    buffer_append_bytes(&errand->reply, BYTES_LITERAL("\nevent: history\n"));
    buffer_clear(scratch);
    json_init(&j, scratch);
    write_event(&j, event);
    write_lines(&errand->reply, buffer_view(scratch));
    buffer_append_bytes(&errand->reply, BYTES_LITERAL("\n"));
    if (scratch->failed) errand->reply.failed = true;
}

static void encode_part(struct errand *errand)
{
    struct part *part = (struct part *)(uintptr_t)errand->hash;
    struct reader r = reader_make(errand->request.events);
    struct buffer scratch;
    struct bytes event;

    if (errand->request.status != OK) return;
    buffer_init(&scratch, &errand->mem);
    while (strings_next(&r, &event)) {
        note(errand, part, event);
        part->given_n++;
        if (part->given_n <= part->hidden_n) continue;
        write_one(errand, part, errand->request.history.skip_n + part->given_n, event, &scratch);
    }
    buffer_release(&scratch);
}

/* ---- reading ---- */

/* Nothing happens to it any more; the ask is still to be answered. */
static void leave(struct follow *f)
{
    f->is_over = true;
    f->ask->ops = NULL;
    if (f->has_joined) changes_unwatch(f->ask->rest->changes, &f->watcher);
    f->has_joined = false;
}

static void end(struct ask *ask, bool is_whole)
{
    leave(ask->user);
    if (!ask->is_begun && ask->is_closed)
        ask_answer(ask, 503, NULL, BYTES_NONE); /* nobody reads it */
    else if (!ask->is_begun)
        ask_busy(ask);
    else
        ask_finish(ask, is_whole);
}

static void set_time(struct follow *f)
{
    int64_t at_ns = f->comment_at_ns;

    if (!f->is_reading && f->poll_at_ns < at_ns) at_ns = f->poll_at_ns;
    ask_set_time(f->ask, at_ns);
}

static void on_part(struct errand *errand);

/* Asks for the next part. */
static void read_on(struct follow *f)
{
    struct ask *ask = f->ask;
    bool is_again = f->is_resumed;

    if (f->is_reading || f->is_over) return;
    struct errand *errand = errand_new_asked(ask->rest->desk, REQUEST_HISTORY);
    struct part *part = errand == NULL ? NULL : arena_alloc_zero(&errand->arena, sizeof *part);
    if (part == NULL) {
        if (errand != NULL) errand_free(errand);
        f->poll_at_ns = rest_now(ask) + POLL_NS_MIN; /* the engine is busy */
        return;
    }
    errand->user = ask;
    ask->errands_n++;
    errand->request.key = errand_copy(errand, f->key);
    errand->request.history.skip_n = is_again ? f->skip_n - 1 : f->skip_n;
    errand->request.history.size_max = PART_SIZE;
    part->hidden_n = is_again ? 1 : 0;
    if (f->has_execution) {
        struct bytes execution = errand_copy(errand, bytes_make(f->execution, sizeof f->execution));
        errand->request.history.execution_id = maybe_some(execution);
        part->has_execution = true;
        memcpy(part->execution, f->execution, sizeof part->execution);
    }
    errand->hash = (uint64_t)(uintptr_t)part;
    errand->encode = encode_part;
    errand->done = on_part;
    f->is_reading = true;
    if (errand->request.key.len == f->key.len && errand_post(errand, -1)) return;
    f->is_reading = false;
    f->poll_at_ns = rest_now(ask) + POLL_NS_MIN;
    errand_end(errand);
}

/* It has another execution now, or is gone. */
static void begin_again(struct follow *f)
{
    f->has_execution = false;
    f->is_resumed = false;
    f->skip_n = 0;
    read_on(f);
}

static void send_end(struct ask *ask, const char *text)
{
    (void)http_send(ask->exchange, bytes_of_text(text));
    end(ask, true);
}

static bool begin(struct follow *f)
{
    struct ask *ask = f->ask;

    if (ask->is_begun) return true;
    sse_begin(ask);
    f->comment_at_ns = rest_now(ask) + SSE_COMMENT_NS;
    return http_send(ask->exchange, BYTES_LITERAL(":\n\n")) != E_NOMEM;
}

static void on_missing(struct ask *ask, const struct errand *errand)
{
    struct follow *f = ask->user;

    if (f->has_execution)
        begin_again(f);
    else if (ask->is_begun)
        send_end(ask, "event: end\ndata: {\"reason\":\"purged\"}\n\n");
    else {
        leave(f);
        ask_problem_of(ask, &problems_of_instances, &errand->request);
    }
}

static void on_events(struct follow *f, const struct errand *errand)
{
    struct ask *ask = f->ask;
    const struct part *part = (const struct part *)(uintptr_t)errand->hash;
    bool is_new = part->given_n > part->hidden_n;

    if (errand->reply.failed || !begin(f)) {
        end(ask, false);
        return;
    }
    if (part->given_n < part->hidden_n) { /* it never had so many */
        begin_again(f);
        return;
    }
    f->skip_n = errand->request.history.skip_n + part->given_n;
    f->is_resumed = false;
    f->has_execution = part->has_execution;
    memcpy(f->execution, part->execution, sizeof f->execution);
    if (is_new) {
        if (http_send(ask->exchange, buffer_view(&errand->reply)) == E_NOMEM) {
            end(ask, false);
            return;
        }
        f->comment_at_ns = rest_now(ask) + SSE_COMMENT_NS;
    }
    if (part->is_end && !errand->request.has_more) {
        send_end(ask, "event: end\ndata: {\"reason\":\"ended\"}\n\n");
        return;
    }
    f->poll_ns = is_new ? POLL_NS_MIN : f->poll_ns * 2 < POLL_NS_MAX ? f->poll_ns * 2 : POLL_NS_MAX;
    f->poll_at_ns = changes_is_first(&f->watcher) ? rest_now(ask) + f->poll_ns : INT64_MAX;
    if (is_new && changes_is_first(&f->watcher)) changes_tell_others(&f->watcher);
    if (f->is_stale) f->poll_at_ns = rest_now(ask);
    f->is_stale = false;
    if (errand->request.has_more) f->poll_at_ns = rest_now(ask);
    if (errand->request.has_more && !http_is_full(ask->exchange)) read_on(f);
}

static void on_part(struct errand *errand)
{
    struct ask *ask = errand_ask(errand);
    struct follow *f = ask->user;
    enum status status = errand->request.status;

    f->is_reading = false;
    if (ask->is_answered) {
        errand_end(errand);
        return;
    }
    if (status == OK)
        on_events(f, errand);
    else if (status == E_NOT_FOUND || status == E_INVALID)
        on_missing(ask, errand);
    else if (status == E_CLOSED)
        end(ask, false);
    else
        f->poll_at_ns = rest_now(ask) + POLL_NS_MAX; /* the engine is busy */
    if (!ask->is_answered) set_time(f);
    errand_end(errand);
}

/* ---- what else happens ---- */

static void on_news(struct watcher_of_changes *watcher)
{
    struct follow *f = container_of(watcher, struct follow, watcher);

    if (f->is_over || f->ask->rest->is_draining) return;
    f->is_stale = f->is_reading;
    f->poll_ns = POLL_NS_MIN;
    f->poll_at_ns = rest_now(f->ask);
    if (f->ask->is_begun && http_is_full(f->ask->exchange)) return;
    read_on(f);
    set_time(f);
}

static void on_first(struct watcher_of_changes *watcher)
{
    struct follow *f = container_of(watcher, struct follow, watcher);
    int64_t at_ns = rest_now(f->ask) + POLL_NS_MIN;

    f->poll_ns = POLL_NS_MIN;
    if (at_ns < f->poll_at_ns) f->poll_at_ns = at_ns;
    set_time(f);
}

static void on_writable(struct ask *ask)
{
    struct follow *f = ask->user;

    if (f->poll_at_ns <= rest_now(ask)) read_on(f);
    set_time(f);
}

static void on_time(struct ask *ask)
{
    struct follow *f = ask->user;
    bool is_full = ask->is_begun && http_is_full(ask->exchange);

    if (f->comment_at_ns <= rest_now(ask)) {
        if (ask->is_begun) sse_comment(ask);
        f->comment_at_ns = rest_now(ask) + SSE_COMMENT_NS;
    }
    if (!f->is_reading && f->poll_at_ns <= rest_now(ask)) {
        if (is_full) {
            f->poll_at_ns = rest_now(ask) + POLL_NS_MAX; /* writable() comes before */
            changes_step_back(&f->watcher);              /* the others do not wait for it */
        } else {
            read_on(f);
        }
    }
    set_time(f);
}

static void on_closed(struct ask *ask) { end(ask, false); }

static void on_drain(struct ask *ask) { end(ask, true); }

static const struct ask_ops ops = {
    .closed = on_closed,
    .writable = on_writable,
    .time = on_time,
    .drain = on_drain,
    .half_closed = ask_goes_on,
};

/* ---- the request ---- */

/* "17" or "17.5b1f...". What is none of these is as if it was not there. */
static void read_last_id(struct follow *f, struct bytes id)
{
    uint32_t number = 0;
    size_t n = 0;
    uint8_t execution[EXECUTION_ID_SIZE];

    for (; n < id.len && n < 9 && id.ptr[n] >= '0' && id.ptr[n] <= '9'; n++) {
        number = number * 10 + (uint32_t)(id.ptr[n] - '0');
    }
    if (n == 0 || number == 0) return;
    if (n < id.len) {
        struct bytes text = bytes_make(id.ptr + n + 1, id.len - n - 1);
        if (id.ptr[n] != '.' || !execution_id_parse(text, execution)) return;
        f->has_execution = true;
        execution_id_text(execution, f->execution);
    }
    f->skip_n = number;
    f->is_resumed = true;
}

static void get_instance_events(struct ask *ask)
{
    struct follow *f = arena_alloc_zero(&ask->arena, sizeof *f);

    if (f == NULL) {
        ask_busy(ask);
        return;
    }
    if (sse_is_look(ask)) {
        sse_answer_look(ask);
        return;
    }
    f->ask = ask;
    f->watcher.news = on_news;
    f->watcher.is_first = on_first;
    f->poll_ns = POLL_NS_MIN;
    f->poll_at_ns = rest_now(ask);
    f->comment_at_ns = rest_now(ask) + SSE_COMMENT_NS;
    f->key = key_make(&ask->arena, ask->hub, ask->path[0]);
    if (f->key.ptr == NULL) {
        ask_busy(ask);
        return;
    }
    if (!changes_watch(ask->rest->changes, &f->watcher, f->key)) {
        sse_refuse(ask);
        return;
    }
    f->has_joined = true;
    read_last_id(f, http_header(ask->exchange, "last-event-id"));
    ask->user = f;
    ask->ops = &ops;
    read_on(f);
    set_time(f);
}

const struct route routes_follow[] = {
    {"GET", "/v1/instances/{id}/events", get_instance_events, NULL, ROUTE_PLAIN,
     "streamInstanceEvents"},
    {0},
};
