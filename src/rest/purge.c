/* SPDX-License-Identifier: Apache-2.0
 *
 * POST /v1/instances:purge: removes what has ended and matches. Without a filter it would be
 * everything, which nobody means.
 */
#include "rest/filters.h"

#define TIMEOUT_MAX_MS INT64_C(3600000)
#define TIMEOUT_DEFAULT_MS INT64_C(30000)
#define MATCHES_MAX 1000000

enum purge_field { PURGE_RECURSE = FILTERS_N, PURGE_TIMEOUT, PURGE_DRY_RUN, PURGE_FIELDS_N };

static const struct body_field fields[PURGE_FIELDS_N] = {
#define X(name) [FILTER_##name] = {#name, BODY_TEXT},
    FILTERS(X)
#undef X
        [PURGE_RECURSE] = {"recurse", BODY_BOOL},
    [PURGE_TIMEOUT] = {"timeout", BODY_TEXT},
    [PURGE_DRY_RUN] = {"dryRun", BODY_BOOL},
};

/* ---- trying it ---- */

static void on_counted(struct errand *errand, struct counting *counting)
{
    struct reader r = reader_make(buffer_view(&counting->sample));
    struct bytes id;
    struct json j;

    json_init(&j, &errand->reply);
    json_object_begin(&j);
    json_key(&j, "matches");
    json_uint64(&j, counting->n);
    json_key(&j, "isExact");
    json_bool(&j, counting->is_exact);
    json_key(&j, "sample");
    json_array_begin(&j);
    while (strings_next(&r, &id)) json_bytes(&j, id);
    json_array_end(&j);
    json_object_end(&j);
    buffer_release(&counting->sample);
    errand_answer_json(errand);
}

/* ---- doing it ---- */

static void on_purged(struct errand *errand)
{
    struct json j;

    /* What was purged before something went wrong is told, and that there may be more. */
    bool is_complete = errand->request.status == OK && !errand->request.has_more;
    if (errand->request.purged_n > 0) errand->request.status = OK;
    json_init(&j, &errand->reply);
    json_object_begin(&j);
    json_key(&j, "purged");
    json_uint64(&j, errand->request.purged_n);
    json_key(&j, "isComplete");
    json_bool(&j, is_complete);
    json_object_end(&j);
    errand_answer_json(errand);
}

/* ---- the route ---- */

/* False: answered. */
static bool read_filters(struct errand *errand, const struct body_value *values,
                         struct request_query *query)
{
    struct maybe texts[FILTERS_N];
    bool has_filter = false;

    for (enum filter n = 0; n < FILTERS_N; n++) {
        texts[n] = (struct maybe){values[n].text, values[n].has};
        has_filter = has_filter || (values[n].has && values[n].text.len > 0);
    }
    if (!has_filter) {
        ask_problem(errand_ask(errand), PROBLEM_BAD_REQUEST,
                    "give at least one of status, name, idPrefix, from, to, completedFrom, "
                    "completedTo, tag, error",
                    "a purge without any filter would remove everything that has ended");
        return false;
    }
    if (!filters_read(errand, texts, query)) return false;
    query->terminal_only = true;
    return true;
}

/* False: answered. */
static bool read_timeout(struct ask *ask, const struct body_value *value, int64_t *ms)
{
    *ms = TIMEOUT_DEFAULT_MS;
    if (!value->has) return true;
    if (duration_parse(value->text, ms) && *ms > 0 && *ms <= TIMEOUT_MAX_MS) return true;
    ask_problem(ask, PROBLEM_BAD_JSON, NULL,
                "the field 'timeout' must be a duration like 30s, of up to an hour");
    return false;
}

static void purge_matches(struct ask *ask)
{
    struct body_value values[PURGE_FIELDS_N];
    int64_t timeout_ms;

    if (!body_read(ask, ask_body(ask), &ask->arena, fields, PURGE_FIELDS_N, values)) return;
    if (!read_timeout(ask, &values[PURGE_TIMEOUT], &timeout_ms)) return;
    bool is_dry = values[PURGE_DRY_RUN].flag;
    struct errand *errand = ask_errand(ask, is_dry ? REQUEST_QUERY : REQUEST_PURGE_WHERE);
    if (errand == NULL) return;
    struct request_query *query = is_dry ? &errand->request.query : &errand->request.purge.query;
    if (!read_filters(errand, values, query)) {
        errand_end(errand);
        return;
    }
    if (is_dry) {
        count_matches(errand, MATCHES_MAX, true, on_counted);
        return;
    }
    errand->request.purge.timeout_ms = timeout_ms;
    errand->request.purge.recurse = values[PURGE_RECURSE].flag;
    errand->done = on_purged;
    (void)ask_post_as_is(errand);
}

const struct route routes_purge[] = {
    {"POST", "/v1/instances:purge", purge_matches, NULL, ROUTE_PLAIN, "purgeInstances"},
    {0},
};
