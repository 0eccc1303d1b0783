/* SPDX-License-Identifier: Apache-2.0
 *
 * What an agent says about a piece of work, by its token: complete, fail, renew, abandon. The token
 * names the instance, its hub, the step and the attempt, and is signed; what it is worth, the
 * engine decides. It outlives this process: after a restart an answer still counts, when nobody
 * else has the work by then.
 */
#include "rest/agents.h"

/* An errand about the work of the token in the path. NULL: answered. */
static struct errand *work_errand(struct ask *ask, enum request_kind kind, struct work_ref *ref)
{
    struct errand *errand = ask_errand(ask, kind);

    if (errand == NULL) return NULL;
    enum status status =
        token_read(ask->path[0], desk_engine(ask->rest->desk)->mac_key, &errand->arena, ref);
    if (status == OK && ref->kind == WORK_TASK) {
        errand->request.key = ref->key;
        return errand;
    }
    if (status == E_NOMEM)
        ask_busy(ask);
    else
        ask_problem(ask, PROBLEM_BAD_REQUEST, "use the token as the poll gave it",
                    "this is not a token of this server");
    errand_end(errand);
    return NULL;
}

static void lost(struct ask *ask)
{
    ask_problem(ask, PROBLEM_LEASE_LOST, "stop this work: it will not count",
                "somebody else has this work now, or it is done, or its instance has ended");
}

static void on_answered(struct errand *errand)
{
    struct ask *ask = errand_ask(errand);
    const struct request *request = &errand->request;

    if (!ask->is_answered && (request->is_stale || request->status == E_STALE))
        lost(ask);
    else if (!ask->is_answered && request->status == OK && errand->reply.len == 0)
        buffer_append_bytes(&errand->reply, BYTES_LITERAL("{}"));
    errand_answer_json(errand);
}

/* ---- complete and fail ---- */

static void complete(struct ask *ask)
{
    struct bytes body = ask_body(ask);
    struct bytes raw = BYTES_NONE;
    struct work_ref ref;
    size_t offset;

    const char *problem = body.len == 0 ? NULL : json_check(body, &raw, &offset);
    if (problem != NULL) {
        ask_problem(ask, PROBLEM_BAD_JSON, NULL, "the result is not JSON: %s (at byte %zu)",
                    problem, offset);
        return;
    }
    struct errand *errand = work_errand(ask, REQUEST_TASK_DONE, &ref);
    if (errand == NULL) return;
    struct bytes result = errand_copy(errand, raw);
    if (result.len != raw.len) {
        ask_busy(ask);
        errand_end(errand);
        return;
    }
    errand->request.worker_done = (struct input_worker_done){.has_ref = true, .ref = ref};
    if (body.len > 0) errand->request.worker_done.result = maybe_some(result);
    errand->done = on_answered;
    (void)ask_post_as_is(errand);
}

enum fail_field { FAIL_TYPE, FAIL_MESSAGE, FAIL_RETRYABLE, FAIL_FIELDS_N };

static void fail(struct ask *ask)
{
    static const struct body_field fields[FAIL_FIELDS_N] = {
        {"type", BODY_TEXT}, {"message", BODY_TEXT}, {"retryable", BODY_BOOL}};
    struct body_value values[FAIL_FIELDS_N];
    struct work_ref ref;
    struct buffer failure;
    char type[200] = "Error";

    if (!body_read(ask, ask_body(ask), &ask->arena, fields, FAIL_FIELDS_N, values)) return;
    struct bytes given = values[FAIL_TYPE].text;
    if (given.len >= sizeof type || (given.len > 0 && memchr(given.ptr, 0, given.len) != NULL)) {
        ask_problem(ask, PROBLEM_BAD_JSON, NULL, "type must be a text of at most 199 bytes");
        return;
    }
    if (given.len > 0) {
        memcpy(type, given.ptr, given.len);
        type[given.len] = '\0';
    }
    struct errand *errand = work_errand(ask, REQUEST_TASK_DONE, &ref);
    if (errand == NULL) return;
    buffer_init(&failure, ask->rest->mem);
    failure_write(&failure, type, values[FAIL_MESSAGE].text,
                  values[FAIL_RETRYABLE].has && !values[FAIL_RETRYABLE].flag);
    struct bytes details = errand_copy(errand, buffer_view(&failure));
    bool is_kept = !failure.failed && details.len == failure.len;
    buffer_release(&failure);
    if (!is_kept) {
        ask_busy(ask);
        errand_end(errand);
        return;
    }
    errand->request.worker_done = (struct input_worker_done){
        .has_ref = true,
        .ref = ref,
        .failure = maybe_some(details),
    };
    errand->done = on_answered;
    (void)ask_post_as_is(errand);
}

/* ---- renew and abandon ---- */

static void on_renewed(struct errand *errand)
{
    struct json j;

    if (errand->request.status == OK) {
        json_init(&j, &errand->reply);
        json_object_begin(&j);
        write_time_of(&j, "completeBy", rest_wall_ns() + errand->request.lease.extend_ms * 1000000);
        json_object_end(&j);
    }
    on_answered(errand);
}

static void renew(struct ask *ask)
{
    static const struct body_field fields[] = {{"lease", BODY_TEXT}};
    struct body_value value;
    int64_t lease_ms = LEASE_MS_DEFAULT;
    struct work_ref ref;

    if (!body_read(ask, ask_body(ask), &ask->arena, fields, 1, &value)) return;
    if (value.has &&
        (!duration_parse(value.text, &lease_ms) || lease_ms < 1 || lease_ms > LEASE_MS_MAX)) {
        ask_problem(ask, PROBLEM_BAD_JSON, NULL,
                    "lease must be a duration like 30s or 5m, at most 24h");
        return;
    }
    struct errand *errand = work_errand(ask, REQUEST_RENEW, &ref);
    if (errand == NULL) return;
    errand->request.lease.ref = ref;
    errand->request.lease.extend_ms = lease_ms;
    errand->request.lease.is_limit = true;
    errand->done = on_renewed;
    (void)ask_post_as_is(errand);
}

static void abandon(struct ask *ask)
{
    static const struct body_field fields[] = {{"reason", BODY_TEXT}};
    struct body_value value;
    struct work_ref ref;

    if (!body_read(ask, ask_body(ask), &ask->arena, fields, 1, &value)) return;
    struct errand *errand = work_errand(ask, REQUEST_ABANDON, &ref);
    if (errand == NULL) return;
    errand->request.lease.ref = ref;
    errand->request.lease.reason = errand_copy(errand, value.text);
    errand->done = on_answered;
    (void)ask_post_as_is(errand);
}

#define TOKEN "/v1/work/{token}"
const struct route routes_work[] = {
    {"POST", TOKEN "/complete", complete, NULL, ROUTE_WHILE_DRAINING, "completeWork"},
    {"POST", TOKEN "/fail", fail, NULL, ROUTE_WHILE_DRAINING, "failWork"},
    {"POST", TOKEN "/renew", renew, NULL, ROUTE_WHILE_DRAINING, "renewWork"},
    {"POST", TOKEN "/abandon", abandon, NULL, ROUTE_WHILE_DRAINING, "abandonWork"},
    {0},
};
