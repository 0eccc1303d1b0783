/* SPDX-License-Identifier: Apache-2.0
 *
 * Entities: lists, one of them, signals. An entity's id is "@name@key"; names are lower case
 * however they are written, keys as given.
 */
#include "rest/cursor.h"

#include "core/entity_id.h"
#include "core/limits.h"

#define PAGE_N_DEFAULT 100
#define NS_PER_MS 1000000

static const struct problem_map map = {
    .missing = PROBLEM_ENTITY_NOT_FOUND,
    .exists = PROBLEM_WRONG_STATE,
    .full = PROBLEM_INBOX_FULL,
};

/* "@name@key" of the path in the errand's arena. Empty: answered, the errand ended. */
static struct bytes entity_id(struct errand *errand)
{
    struct ask *ask = errand_ask(errand);
    struct bytes name = ask->path[0];
    struct bytes key = ask->path[1];
    size_t len = name.len + key.len + 2;
    uint8_t *id = arena_alloc(&errand->arena, len);

    if (id == NULL) {
        ask_busy(ask);
        errand_end(errand);
        return BYTES_NONE;
    }
    id[0] = '@';
    memcpy(id + 1, name.ptr, name.len);
    id[name.len + 1] = '@';
    if (key.len > 0) memcpy(id + name.len + 2, key.ptr, key.len);
    entity_id_lower(id, len);
    const char *problem = entity_id_problem(bytes_make(id, len), LIMIT_CLIENT_ID_SIZE);
    if (problem == NULL && memchr(name.ptr, '@', name.len) != NULL) {
        problem = "the name of an entity has no '@'";
    }
    if (problem == NULL) return bytes_make(id, len);
    ask_problem(ask, PROBLEM_BAD_REQUEST, NULL, "%s", problem);
    errand_end(errand);
    return BYTES_NONE;
}

static void write_entity(struct json *j, const struct instance_view *view, bool with_state)
{
    struct bytes id = key_id(view->key);
    struct bytes name = entity_id_name(id);
    size_t key_at = name.len + 2;

    json_object_begin(j);
    write_text_of(j, "id", id);
    write_text_of(j, "name", name);
    json_key(j, "key");
    json_bytes(j, key_at <= id.len ? bytes_make(id.ptr + key_at, id.len - key_at) : BYTES_NONE);
    write_text_of(j, "hub", key_hub(view->key));
    write_time_of(j, "createdAt", view->created_ns);
    write_time_of(j, "updatedAt", view->updated_ns);
    if (with_state) write_payload_of(j, "state", view->entity_state);
    write_text_of(j, "lockedBy", view->locked_by);
    json_key(j, "backlog");
    json_uint64(j, view->backlog_n);
    json_object_end(j);
}

/* ---- one ---- */

static void encode_entity(struct errand *errand)
{
    const struct instance_view *view = errand->request.view;
    struct json j;

    /* An entity without state does not exist, whatever waits for it. */
    if (errand->request.status == OK && (view == NULL || !view->entity_state.has)) {
        errand->request.status = E_NOT_FOUND;
    }
    if (errand->request.status != OK) return;
    json_init(&j, &errand->reply);
    write_entity(&j, view, true);
}

static void on_entity(struct errand *errand)
{
    if (errand->request.status != OK) ask_problem_of(errand_ask(errand), &map, &errand->request);
    errand_answer_json(errand);
}

static void get_entity(struct ask *ask)
{
    struct errand *errand = ask_errand(ask, REQUEST_GET);

    if (errand == NULL) return;
    struct bytes id = entity_id(errand);
    if (id.len == 0) return;
    errand->encode = encode_entity;
    errand->done = on_entity;
    (void)ask_post(errand, id);
}

/* ---- signals ---- */

static void on_signaled(struct errand *errand)
{
    if (errand->request.status == OK) write_accepted(errand);
    on_entity(errand);
}

static void signal_entity(struct ask *ask)
{
    struct bytes body = ask_body(ask);
    struct bytes raw = BYTES_NONE;
    size_t offset;

    const char *problem = body.len == 0 ? NULL : json_check(body, &raw, &offset);
    if (problem != NULL) {
        ask_problem(ask, PROBLEM_BAD_JSON, NULL, "this is not JSON: %s (at byte %zu)", problem,
                    offset);
        return;
    }
    struct errand *errand = ask_errand(ask, REQUEST_SIGNAL);
    if (errand == NULL) return;
    struct bytes id = entity_id(errand);
    if (id.len == 0) return;
    struct input_signal *signal = &errand->request.signal;
    signal->operation = errand_copy(errand, ask->path[2]);
    signal->input = (struct maybe){errand_copy(errand, raw), body.len > 0};
    if (signal->operation.len == 0 || signal->input.value.len != raw.len) {
        ask_busy(ask);
        errand_end(errand);
        return;
    }
    errand->done = on_signaled;
    (void)ask_post(errand, id);
}

/* ---- lists ---- */

static void encode_entities(struct errand *errand) { write_rows(errand, write_entity); }

static bool read_time(struct ask *ask, const char *name, bool is_rounded_up, int64_t *ms)
{
    struct maybe text = ask_parameter(ask, name);
    int64_t ns;

    if (!text.has) return true;
    if (!time_or_ago_read(text.value, rest_wall_ns(), &ns)) {
        ask_bad_parameter(ask, name, "must be a time like 2026-11-16T08:00:00Z, or like 2h");
        return false;
    }
    *ms = ns / NS_PER_MS + (is_rounded_up && ns % NS_PER_MS > 0 ? 1 : 0);
    if (is_rounded_up && *ms < 1) *ms = 1; /* 0 is no bound */
    return true;
}

/* "@name@", or "@" for all. Empty: no memory. */
static struct bytes name_prefix(struct errand *errand, struct maybe name)
{
    if (!name.has || name.value.len == 0) return BYTES_LITERAL("@");
    uint8_t *prefix = arena_alloc(&errand->arena, name.value.len + 2);
    if (prefix == NULL) return BYTES_NONE;
    prefix[0] = '@';
    memcpy(prefix + 1, name.value.ptr, name.value.len);
    prefix[name.value.len + 1] = '@';
    entity_id_lower(prefix, name.value.len + 2);
    return bytes_make(prefix, name.value.len + 2);
}

static void list_entities(struct ask *ask)
{
    struct errand *errand = ask_errand(ask, REQUEST_QUERY);
    int64_t limit = PAGE_N_DEFAULT;

    if (errand == NULL) return;
    struct request_query *query = &errand->request.query;
    if (!read_time(ask, "from", false, &query->from_ms) ||
        !read_time(ask, "to", true, &query->to_ms) ||
        !ask_read_number(ask, "limit", 1, QUERY_LIMIT_MAX, &limit) ||
        !ask_read_bool(ask, "payloads", &query->want_payloads) ||
        !cursor_read_rows(errand, ask_parameter(ask, "cursor"), query)) {
        errand_end(errand);
        return;
    }
    query->hub = errand_copy(errand, ask->hub);
    query->id_prefix = name_prefix(errand, ask_parameter(ask, "name"));
    if (query->hub.len == 0 || query->id_prefix.len == 0) {
        ask_busy(ask);
        errand_end(errand);
        return;
    }
    query->entities = true;
    query->limit = (uint32_t)limit;
    errand->flag = query->want_payloads;
    errand->encode = encode_entities;
    (void)ask_post_as_is(errand);
}

const struct route routes_entities[] = {
    {"GET", "/v1/entities", list_entities, "name from to limit cursor payloads", ROUTE_PLAIN,
     "listEntities"},
    {"GET", "/v1/entities/{name}/{key}", get_entity, NULL, ROUTE_PLAIN, "getEntity"},
    {"POST", "/v1/entities/{name}/{key}/{operation}", signal_entity, NULL, ROUTE_PLAIN,
     "signalEntity"},
    {0},
};
