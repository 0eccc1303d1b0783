/* SPDX-License-Identifier: Apache-2.0
 *
 * POST /v1/instances:import: an instance that has ended elsewhere, as `norn export` writes it: its
 * events one by one, in lines or in an array. What a history must be is decided by the engine; here
 * is only whether each is an event.
 */
#include "rest/start.h"

#include "base/mem.h"
#include "wire/event_json.h"
#include "wire/json_read.h"

/* What stands between the events: line ends, or the commas of an array. */
static void skip_between(struct json_reader *r)
{
    while (r->at < r->end && memchr(" \t\r\n,[]", *r->at, 7) != NULL) r->at++;
}

/* The id that the history itself names; untouched when it names none. */
static void note_id(struct errand *errand, struct bytes event, struct bytes *id)
{
    struct event_started started;

    if (event_kind_of(event) != EVENT_EXECUTION_STARTED) return;
    if (event_started_decode(event, &errand->arena, &started) != OK) return;
    struct bytes copy = arena_copy(&errand->arena, started.instance_id);
    if (copy.len > 0) *id = copy;
}

/* The events, packed, in errand->reply. False: answered. */
static bool read_events(struct ask *ask, struct errand *errand, struct bytes *id)
{
    struct bytes body = ask_body(ask);
    struct json_reader r = json_reader_make(body);
    struct buffer event;
    enum status status = OK;
    unsigned long n = 0;

    buffer_init(&event, ask->rest->mem);
    for (skip_between(&r); status == OK && r.at < r.end; skip_between(&r)) {
        buffer_clear(&event);
        status = event_json_read(&r, &event);
        if (status != OK) break;
        note_id(errand, buffer_view(&event), id);
        strings_add(&errand->reply, buffer_view(&event));
        if (errand->reply.failed) status = E_NOMEM;
        n++;
    }
    buffer_release(&event);
    if (status == E_NOMEM) {
        ask_busy(ask);
    } else if (status != OK) {
        ask_problem(ask, PROBLEM_BAD_JSON, "send what norn export has written",
                    "event %lu is not an event of a history (at byte %zu)", n + 1,
                    (size_t)(r.at - body.ptr));
    } else if (n == 0) {
        ask_problem(ask, PROBLEM_BAD_JSON, "send what norn export has written",
                    "there is no event in the body");
        status = E_INVALID;
    }
    return status == OK;
}

static void on_imported(struct errand *errand)
{
    if (errand->request.status != OK)
        ask_problem_of(errand_ask(errand), &problems_of_instances, &errand->request);
    else
        answer_started(errand_ask(errand), 201, &errand->request);
    errand_end(errand);
}

static void import_instance(struct ask *ask)
{
    struct errand *errand = ask_errand(ask, REQUEST_IMPORT);
    struct maybe wanted = ask_parameter(ask, "id");
    struct bytes id = BYTES_NONE;

    if (errand == NULL) return;
    if (!read_events(ask, errand, &id)) {
        errand_end(errand);
        return;
    }
    if (wanted.has) id = wanted.value;
    if (id.len == 0) {
        ask_problem(ask, PROBLEM_BAD_REQUEST, "give one with ?id=",
                    wanted.has ? "the instance id is empty" : "the history names no instance");
        errand_end(errand);
        return;
    }
    struct bytes events = errand_copy(errand, buffer_view(&errand->reply));
    bool is_copied = events.len == errand->reply.len;
    buffer_clear(&errand->reply);
    if (!is_copied) {
        ask_busy(ask);
        errand_end(errand);
        return;
    }
    errand->request.client.data = maybe_some(events);
    errand->done = on_imported;
    (void)ask_post(errand, id);
}

const struct route routes_import[] = {
    {"POST", "/v1/instances:import", import_instance, "id", ROUTE_ANY_TYPE, "importInstance"},
    {0},
};
