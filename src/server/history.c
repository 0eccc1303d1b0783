/* SPDX-License-Identifier: Apache-2.0
 *
 * StreamInstanceHistory. The engine gives the history in parts; on its thread each becomes chunks,
 * which are sent while the peer reads. So a slow reader costs one part, however long the history.
 *
 *      FETCHING: the engine has the errand ──part──> SENDING: chunks of it wait for room
 *          ^                                            │ all sent
 *          └──────────── there is more ─────────────────┴──> finished
 *
 * Parts fit together because the history of one execution only grows, and the second part is asked
 * for the execution of the first.
 */
#include "server/state.h"

#include <stdio.h>

#define PART_SIZE ((size_t)4 << 20)
#define CHUNK_SIZE ((size_t)256 << 10)
#define CHUNK_N 100u

/* Behind grpc_user(); in the errand's arena. */
struct history {
    struct call_user user;
    struct list node; /* in service.histories */
    struct errand *errand;
    struct grpc_call *call; /* NULL: finished, the errand is still with the engine */
    bool is_fetching;
    struct bytes unsent; /* of errand->reply: fields 1, each a chunk */
    bool has_more;
    /* Of a worker that fetches its past events: so many, and everything as it is stored. */
    bool is_for_work;
    uint64_t left_n;
    /* Of encode(), on the host's thread. */
    bool has_execution;
    char execution[EXECUTION_TEXT_SIZE];
};

/* ---- on the host's thread ---- */

static bool is_shown(const struct history *history, struct bytes event)
{
    struct event_head head;

    if (history->is_for_work || event_peek(event, &head) != OK) return true;
    return head.kind != EVENT_ORCHESTRATOR_COMPLETED;
}

static void note_execution(struct history *history, struct bytes event)
{
    struct event_head head;
    struct event_started started;

    if (history->has_execution || event_peek(event, &head) != OK) return;
    if (head.kind != EVENT_EXECUTION_STARTED) return;
    if (event_started_decode(event, &history->errand->arena, &started) != OK) return;
    execution_id_text(started.execution_id, history->execution);
    history->has_execution = true;
}

/* How many events from r on are one chunk, and their size. */
static uint32_t chunk_measure(struct reader r, uint64_t n_max, size_t *size)
{
    struct bytes event;
    uint32_t n = 0;

    *size = 0;
    while (n < n_max && n < CHUNK_N && strings_next(&r, &event)) {
        if (n > 0 && *size + event.len > CHUNK_SIZE) break;
        *size += event.len + 6;
        n++;
    }
    return n;
}

static void encode_chunks(struct errand *errand)
{
    struct history *history = errand->user;
    struct reader r = reader_make(errand->request.events);
    struct bytes event;
    uint64_t seen_n = 0;
    size_t size;
    uint32_t n;

    buffer_clear(&errand->reply);
    if (errand->request.status != OK) return;
    while ((n = chunk_measure(r, history->left_n - seen_n, &size)) > 0) {
        struct pb_mark mark = pb_begin(&errand->reply, 1, size);
        for (uint32_t i = 0; i < n && strings_next(&r, &event); i++) {
            note_execution(history, event);
            if (is_shown(history, event)) pb_put_bytes(&errand->reply, 1, event);
        }
        pb_end(&errand->reply, mark);
        seen_n += n;
    }
    errand->number = seen_n;
}

/* ---- on the network's thread ---- */

static void history_free(struct history *history)
{
    list_remove(&history->node);
    errand_free(history->errand); /* and with it the history */
}

/* Takes the call away, to be finished by the caller. */
static struct grpc_call *history_end(struct history *history)
{
    struct grpc_call *call = history->call;

    grpc_set_user(call, NULL);
    history->call = NULL;
    if (!history->is_fetching) history_free(history);
    return call;
}

static void history_fail(struct history *history, enum grpc_code code, const char *text)
{
    struct service *s = errand_service(history->errand);
    char words[sizeof history->errand->request.text];

    (void)snprintf(words, sizeof words, "%s", text); /* it may stand in the errand that goes now */
    call_fail(s, history_end(history), code, "%s", words);
}

static void history_fetch(struct history *history)
{
    struct errand *errand = history->errand;

    errand->request.history.size_max = PART_SIZE;
    history->is_fetching = errand_post(errand, -1);
    if (!history->is_fetching) {
        history_fail(history, GRPC_UNAVAILABLE, "the server is busy: try again in a moment");
    }
}

static void part_is_sent(struct history *history)
{
    struct errand *errand = history->errand;

    if (history->left_n == 0 || (!history->has_more && !history->is_for_work)) {
        grpc_finish(history_end(history), GRPC_OK, NULL);
        return;
    }
    if (!history->has_more) {
        history_fail(history, GRPC_ABORTED,
                     "the history is shorter than the work item says: its turn is over");
        return;
    }
    if (history->has_execution) {
        struct bytes execution = bytes_make(history->execution, sizeof history->execution);
        errand->request.history.execution_id = maybe_some(execution);
    }
    history_fetch(history);
}

static void history_send(struct history *history)
{
    struct pb_reader r = pb_reader_make(history->unsent);
    struct pb_field field;

    while (!grpc_is_full(history->call) && pb_next(&r, &field)) {
        history->unsent = bytes_make(r.at, (size_t)(r.end - r.at));
        if (field.bytes.len == 0) continue; /* nothing of it is shown */
        enum status status = grpc_send(history->call, field.bytes);
        if (status != OK) {
            history_fail(history, grpc_code_of(status), status_text(status));
            return;
        }
    }
    if (history->unsent.len == 0) part_is_sent(history);
}

static void on_part(struct errand *errand)
{
    struct history *history = errand->user;
    const struct request *request = &errand->request;
    bool is_first = request->history.skip_n == 0;

    history->is_fetching = false;
    if (history->call == NULL) {
        history_free(history);
    } else if (request->status == E_NOT_FOUND && is_first) {
        history_fail(history, GRPC_NOT_FOUND,
                     "there is no such instance, or it has another execution id now");
    } else if (request->status == E_NOT_FOUND) {
        history_fail(history, GRPC_ABORTED,
                     "the instance was purged or began again while its history was read: ask "
                     "again");
    } else if (request->status != OK) {
        history_fail(history, grpc_code_of(request->status),
                     request->text[0] != '\0' ? request->text : status_text(request->status));
    } else if (errand->reply.failed) {
        history_fail(history, GRPC_UNAVAILABLE, "out of memory: try again later");
    } else {
        history->unsent = buffer_view(&errand->reply);
        history->has_more = request->has_more && errand->number > 0;
        history->left_n -= errand->number;
        errand->request.history.skip_n += (uint32_t)errand->number;
        history_send(history);
    }
}

void history_writable(struct service *s, struct grpc_call *call)
{
    struct history *history = grpc_user(call);

    (void)s;
    if (!history->is_fetching) history_send(history);
}

void history_closed(struct service *s, struct grpc_call *call)
{
    (void)s;
    grpc_finish(history_end(grpc_user(call)), GRPC_CANCELLED, NULL);
}

void histories_drain(struct service *s)
{
    struct list *next;

    for (struct list *node = list_first(&s->histories); node != NULL; node = next) {
        struct history *history = container_of(node, struct history, node);
        next = list_next(&s->histories, node);
        if (history->call == NULL) continue;
        history_fail(history, GRPC_UNAVAILABLE, "the server is shutting down: ask again");
    }
}

/* ---- the call ---- */

/* NULL when it can begin. */
static const char *read_request(struct service *s, struct history *history, struct bytes message,
                                struct bytes hub)
{
    struct request *request = &history->errand->request;
    struct pb_reader r = pb_reader_make(message);
    struct pb_field field;
    struct bytes id = BYTES_NONE;

    while (pb_next(&r, &field)) {
        if (field.number == 1) id = field.bytes;
        if (field.number == 2) request->history.execution_id = read_maybe(&field);
        if (field.number == 3) history->is_for_work = pb_bool(&field);
    }
    if (request->history.execution_id.value.len == 0) request->history.execution_id = MAYBE_NONE;
    request->key = key_make(&history->errand->arena, hub, id);
    if (request->key.ptr == NULL) return "out of memory: try again later";
    history->left_n = UINT64_MAX;
    if (history->is_for_work && !workers_history_n(s, request->key, &history->left_n)) {
        return "no worker holds a turn of this instance: its history is not wanted any more";
    }
    return NULL;
}

void rpc_stream_history(struct service *s, struct grpc_call *call, struct bytes message)
{
    struct bytes hub;
    struct errand *errand = call_begin(
        s, call, REQUEST_HISTORY, &stream_instance_history_request__descriptor, &message, &hub);

    if (errand == NULL) return;
    struct history *history = arena_alloc_zero(&errand->arena, sizeof *history);
    if (history == NULL) {
        call_fail_busy(s, call);
        errand_free(errand);
        return;
    }
    history->user.kind = CALL_HISTORY;
    history->errand = errand;
    history->call = call;
    errand->user = history;
    errand->encode = encode_chunks;
    errand->done = on_part;
    grpc_set_user(call, history);
    list_push_back(&s->histories, &history->node);
    const char *problem = read_request(s, history, message, hub);
    if (problem != NULL)
        history_fail(history, GRPC_FAILED_PRECONDITION, problem);
    else
        history_fetch(history);
}
