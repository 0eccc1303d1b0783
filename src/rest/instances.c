/* SPDX-License-Identifier: Apache-2.0
 *
 * One instance: look at it, steer it, remove it. What an id or a state allows is decided by the
 * engine; here is only what the API means.
 */
#define _GNU_SOURCE /* memmem */
#include "rest/start.h"

#include <stdio.h>

/* ---- looking ---- */

void encode_instance(struct errand *errand)
{
    const struct instance_view *view = errand->request.view;
    struct json j;

    if (errand->request.status != OK) return;
    if (view == NULL || view->is_entity) {
        errand->request.status = E_NOT_FOUND;
        return;
    }
    memcpy(errand->request.execution_id, view->execution_id, EXECUTION_ID_SIZE);
    errand->hash = view->seq;
    json_init(&j, &errand->reply);
    write_instance(&j, view, errand->flag);
}

#define ETAG_SIZE (EXECUTION_TEXT_SIZE + 24)

/* Which execution, as of which change, with payloads or without. */
static struct bytes etag_write(const struct errand *errand, char out[ETAG_SIZE])
{
    char execution[EXECUTION_TEXT_SIZE];

    execution_id_text(errand->request.execution_id, execution);
    int n = snprintf(out, ETAG_SIZE, "\"%.*s-%llx%s\"", EXECUTION_TEXT_SIZE, execution,
                     (unsigned long long)errand->hash, errand->flag ? "" : "s");
    return bytes_make(out, (size_t)n);
}

/* If-None-Match: one of a list, or '*'. Weak ones compare as others do. */
static bool is_known(const struct ask *ask, struct bytes etag)
{
    struct bytes rest = http_header(ask->exchange, "if-none-match");

    if (rest.len == 1 && rest.ptr[0] == '*') return true;
    return rest.len >= etag.len && memmem(rest.ptr, rest.len, etag.ptr, etag.len) != NULL;
}

void errand_answer_instance(struct errand *errand)
{
    struct ask *ask = errand_ask(errand);
    char text[ETAG_SIZE];

    if (ask->is_answered || errand->request.status != OK || errand->reply.failed) {
        errand_answer_json(errand);
        return;
    }
    struct bytes etag = etag_write(errand, text);
    ask_add_header(ask, "etag", etag);
    if (errand->number == 0 && is_known(ask, etag)) {
        ask_answer(ask, 304, NULL, BYTES_NONE);
        errand_end(errand);
        return;
    }
    errand_answer_json(errand);
}

static void get_instance(struct ask *ask)
{
    unsigned wait_s = ask_prefers_wait(ask);
    bool with_payloads = true;

    if (!ask_read_bool(ask, "payloads", &with_payloads)) return;
    if (wait_s > 0) {
        wait_for_end(ask, ask->path[0], wait_s, 0, 0);
        return;
    }
    struct errand *errand = ask_errand(ask, REQUEST_GET);
    if (errand == NULL) return;
    errand->flag = with_payloads;
    errand->encode = encode_instance;
    errand->done = errand_answer_instance;
    (void)ask_post(errand, ask->path[0]);
}

static void encode_children(struct errand *errand)
{
    struct reader r = reader_make(errand->request.events);
    struct bytes id;
    struct json j;

    if (errand->request.status == OK && errand->request.view == NULL) {
        errand->request.status = E_NOT_FOUND;
    }
    if (errand->request.status != OK) return;
    json_init(&j, &errand->reply);
    json_object_begin(&j);
    json_key(&j, "items");
    json_array_begin(&j);
    while (strings_next(&r, &id)) json_bytes(&j, id);
    json_array_end(&j);
    json_object_end(&j);
}

static void get_children(struct ask *ask)
{
    struct errand *errand = ask_errand(ask, REQUEST_CHILDREN);

    if (errand == NULL) return;
    errand->encode = encode_children;
    (void)ask_post(errand, ask->path[0]);
}

/* ---- steering ---- */

/* {"id":...}: what was asked for is durable. */
static void on_steered(struct errand *errand)
{
    struct ask *ask = errand_ask(errand);

    if (errand->request.status == OK) {
        write_accepted(errand);
    } else if (errand->request.status == E_LIMIT && !ask->is_answered) {
        static const struct problem_map map = {PROBLEM_INSTANCE_NOT_FOUND, PROBLEM_INSTANCE_EXISTS,
                                               PROBLEM_INBOX_FULL};
        ask_problem_of(ask, &map, &errand->request);
    }
    errand_answer_json(errand);
}

/* The ids of entities begin so: none of them is an instance. */
static bool is_instance_id(struct ask *ask)
{
    if (ask->path[0].ptr[0] != '@') return true;
    ask_problem(ask, PROBLEM_INSTANCE_NOT_FOUND, "see /v1/entities",
                "ids that begin with '@' are entities");
    return false;
}

enum steer_field { STEER_REASON, STEER_RECURSE };

static void steer(struct ask *ask, enum request_kind kind)
{
    static const struct body_field fields[] = {{"reason", BODY_TEXT}, {"recurse", BODY_BOOL}};
    static const struct body_field terminate_fields[] = {{"reason", BODY_ANY},
                                                         {"recurse", BODY_BOOL}};
    bool is_terminate = kind == REQUEST_TERMINATE;
    struct body_value values[2] = {0};

    if (!is_instance_id(ask)) return;
    struct errand *errand = ask_errand(ask, kind);
    if (errand == NULL) return;
    struct bytes body = errand_copy(errand, ask_body(ask));
    if (body.len != ask_body(ask).len) {
        ask_busy(ask);
        errand_end(errand);
        return;
    }
    if (!body_read(ask, body, &errand->arena, is_terminate ? terminate_fields : fields,
                   is_terminate ? 2 : 1, values)) {
        errand_end(errand);
        return;
    }
    struct bytes reason = is_terminate ? values[STEER_REASON].raw : values[STEER_REASON].text;
    if (values[STEER_REASON].has) errand->request.client.data = maybe_some(reason);
    errand->request.client.recurse = values[STEER_RECURSE].flag;
    errand->done = on_steered;
    (void)ask_post(errand, ask->path[0]);
}

static void suspend(struct ask *ask) { steer(ask, REQUEST_SUSPEND); }
static void resume(struct ask *ask) { steer(ask, REQUEST_RESUME); }
static void rewind_instance(struct ask *ask) { steer(ask, REQUEST_REWIND); }
static void terminate(struct ask *ask) { steer(ask, REQUEST_TERMINATE); }

/* An event that nobody will read was not taken: it is not durable, and who sent it should know. */
static void on_raised(struct errand *errand)
{
    if (errand->request.status == OK && errand->request.text[0] != '\0') {
        errand->request.status = E_PRECONDITION;
    }
    on_steered(errand);
}

static void raise_event(struct ask *ask)
{
    struct bytes body = ask_body(ask);
    struct bytes raw = BYTES_NONE;
    size_t offset;

    if (!is_instance_id(ask)) return;
    const char *problem = body.len == 0 ? NULL : json_check(body, &raw, &offset);
    if (problem != NULL) {
        ask_problem(ask, PROBLEM_BAD_JSON, NULL, "this is not JSON: %s (at byte %zu)", problem,
                    offset);
        return;
    }
    struct errand *errand = ask_errand(ask, REQUEST_RAISE);
    if (errand == NULL) return;
    struct bytes data = errand_copy(errand, raw);
    struct bytes name = errand_copy(errand, ask->path[1]);
    if (data.len != raw.len || name.len == 0) {
        ask_busy(ask);
        errand_end(errand);
        return;
    }
    errand->request.client.name = name;
    if (body.len > 0) errand->request.client.data = maybe_some(data);
    errand->done = on_raised;
    (void)ask_post(errand, ask->path[0]);
}

/* "3", or "-" for the turn. */
static bool task_id_read(struct bytes text, int32_t *out)
{
    uint64_t value;

    *out = -1;
    if (bytes_equal(text, BYTES_LITERAL("-"))) return true;
    if (!decimal_parse(text, INT32_MAX, &value)) return false;
    *out = (int32_t)value;
    return true;
}

static void resubmit(struct ask *ask)
{
    int32_t task_id;

    if (!task_id_read(ask->path[1], &task_id)) {
        ask_problem(ask, PROBLEM_BAD_REQUEST, NULL,
                    "the number of the task must be 0 or more, or '-' for the turn");
        return;
    }
    struct errand *errand = ask_errand(ask, REQUEST_RESUBMIT);
    if (errand == NULL) return;
    errand->request.client.task_id = task_id;
    errand->done = on_steered;
    (void)ask_post(errand, ask->path[0]);
}

/* ---- again ---- */

static void on_restarted(struct errand *errand)
{
    if (errand->request.status != OK) {
        ask_problem_of(errand_ask(errand), &problems_of_starts, &errand->request);
    } else {
        answer_started(errand_ask(errand), 202, &errand->request);
    }
    errand_end(errand);
}

/* With a new id it is a start with what the old one was started with, which may be running. On the
 * host's thread. */
static void encode_origin(struct errand *errand)
{
    const struct instance_view *view = errand->request.view;

    if (errand->request.status == OK && (view == NULL || view->is_entity)) {
        errand->request.status = E_NOT_FOUND;
    }
    if (errand->request.status != OK) return;
    if (!start_of_view(&errand->arena, view, &errand->request.start))
        errand->request.status = E_NOMEM;
}

static void on_origin(struct errand *errand)
{
    char fresh[FRESH_ID_SIZE];

    if (errand->request.status != OK) {
        ask_problem_of(errand_ask(errand), &problems_of_instances, &errand->request);
        errand_end(errand);
        return;
    }
    rest_fresh_id(errand_ask(errand)->rest, fresh);
    errand->request.kind = REQUEST_START;
    errand->encode = NULL;
    errand->done = on_restarted;
    (void)ask_post(errand, bytes_make(fresh, sizeof fresh));
}

static void restart(struct ask *ask)
{
    static const struct body_field fields[] = {{"newId", BODY_BOOL}};
    struct body_value is_new;

    if (!is_instance_id(ask)) return;
    if (!body_read(ask, ask_body(ask), &ask->arena, fields, 1, &is_new)) return;
    struct errand *errand = ask_errand(ask, is_new.flag ? REQUEST_GET : REQUEST_RESTART);
    if (errand == NULL) return;
    errand->encode = is_new.flag ? encode_origin : NULL;
    errand->done = is_new.flag ? on_origin : on_restarted;
    (void)ask_post(errand, ask->path[0]);
}

/* ---- removing ---- */

static void on_purged(struct errand *errand)
{
    struct json j;

    json_init(&j, &errand->reply);
    json_object_begin(&j);
    json_key(&j, "purged");
    json_uint64(&j, errand->request.purged_n);
    json_object_end(&j);
    errand_answer_json(errand);
}

static void purge_instance(struct ask *ask)
{
    bool recurse = false;
    bool is_forced = false;

    if (!ask_read_bool(ask, "recurse", &recurse)) return;
    if (!ask_read_bool(ask, "force", &is_forced)) return;
    struct errand *errand = ask_errand(ask, REQUEST_PURGE);
    if (errand == NULL) return;
    errand->request.client.recurse = recurse;
    errand->request.client.is_forced = is_forced;
    errand->done = on_purged;
    (void)ask_post(errand, ask->path[0]);
}

#define ID "/v1/instances/{id}"
const struct route routes_instances[] = {
    {"GET", ID, get_instance, "payloads", ROUTE_PLAIN, "getInstance"},
    {"GET", ID "/children", get_children, NULL, ROUTE_PLAIN, "listChildren"},
    {"POST", ID "/events/{name}", raise_event, NULL, ROUTE_PLAIN, "raiseEvent"},
    {"POST", ID "/suspend", suspend, NULL, ROUTE_PLAIN, "suspendInstance"},
    {"POST", ID "/resume", resume, NULL, ROUTE_PLAIN, "resumeInstance"},
    {"POST", ID "/rewind", rewind_instance, NULL, ROUTE_PLAIN, "rewindInstance"},
    {"POST", ID "/terminate", terminate, NULL, ROUTE_PLAIN, "terminateInstance"},
    {"POST", ID "/restart", restart, NULL, ROUTE_PLAIN, "restartInstance"},
    {"POST", ID "/tasks/{taskId}/resubmit", resubmit, NULL, ROUTE_PLAIN, "resubmitTask"},
    {"DELETE", ID, purge_instance, "recurse force", ROUTE_PLAIN, "purgeInstance"},
    {0},
};
