/* SPDX-License-Identifier: Apache-2.0
 *
 * Starting one instance: PUT /v1/instances/{id} and POST /v1/instances. This is the path that
 * thousands take at once: the body is copied once, into the errand, read in one pass there, and the
 * engine borrows its pieces.
 *
 *      PUT ──START, never again──> 201
 *                 │ exists
 *                 └─GET, compared on the host's thread──> 200 the same, 409 another
 *                                    │ gone meanwhile
 *                                    └─START again, a few times
 */
#include "rest/start.h"

#include "core/limits.h"
#include "wire/pb.h"

#include <stdio.h>

#define TAGS_N_MAX 100u
#define REPLY_TO_SIZE_MAX 2000u
#define CORRELATION_SIZE_MAX 256u
#define PUT_TRIES_MAX 3u
#define NS_PER_MS 1000000

/* name, type */
#define START_FIELDS(X)                                                                            \
    X(id, BODY_TEXT)                                                                               \
    X(name, BODY_TEXT)                                                                             \
    X(version, BODY_TEXT)                                                                          \
    X(input, BODY_ANY)                                                                             \
    X(tags, BODY_OBJECT)                                                                           \
    X(scheduledAt, BODY_TEXT)                                                                      \
    X(replyTo, BODY_TEXT)                                                                          \
    X(correlationId, BODY_TEXT)                                                                    \
    X(reuse, BODY_TEXT)

enum start_field {
#define X(name, type) FIELD_##name,
    START_FIELDS(X)
#undef X
        START_FIELDS_N
};
static const struct body_field fields[START_FIELDS_N] = {
#define X(name, type) {#name, type},
    START_FIELDS(X)
#undef X
};

/* ---- reading ---- */

static bool refuse(struct body_error *error, enum problem problem, const char *detail)
{
    error->problem = problem;
    (void)snprintf(error->detail, sizeof error->detail, "%s", detail);
    return false;
}

/* One entry of the protocol's map, as a string of `out`. */
static void put_tag(struct buffer *out, struct bytes key, struct bytes value)
{
    size_t key_size = 1 + varint_size(key.len) + key.len;
    size_t value_size = 1 + varint_size(value.len) + value.len;

    buffer_varint(out, key_size + value_size);
    pb_put_bytes(out, 1, key);
    pb_put_bytes(out, 2, value);
}

static bool has_tag(struct bytes packed, struct bytes key)
{
    struct reader r = reader_make(packed);
    struct bytes entry;

    while (strings_next(&r, &entry)) {
        struct pb_reader fields_of = pb_reader_make(entry);
        struct pb_field field;
        if (pb_next(&fields_of, &field) && bytes_equal(field.bytes, key)) return true;
    }
    return false;
}

static bool read_tags(struct errand *errand, struct bytes raw, struct body_error *error)
{
    struct bytes key, value;
    unsigned n = 0;

    error->detail[0] = '\0';
    while (body_next_text(&raw, &errand->arena, &key, &value, error)) {
        if (bytes_start_with(key, BYTES_LITERAL(TAG_PREFIX))) {
            return refuse(error, PROBLEM_BAD_JSON, "tags that begin with 'norn.' are the server's");
        }
        if (key.len == 0) return refuse(error, PROBLEM_BAD_JSON, "a tag has an empty name");
        if (has_tag(buffer_view(&errand->reply), key)) {
            return refuse(error, PROBLEM_BAD_JSON, "a tag is there twice");
        }
        if (++n > TAGS_N_MAX)
            return refuse(error, PROBLEM_TOO_LARGE, "there are more than 100 tags");
        put_tag(&errand->reply, key, value);
    }
    return error->detail[0] == '\0';
}

static bool is_url(struct bytes url)
{
    size_t prefix = bytes_start_with(url, BYTES_LITERAL("https://"))  ? 8
                    : bytes_start_with(url, BYTES_LITERAL("http://")) ? 7
                                                                      : 0;

    if (prefix == 0 || url.len == prefix || url.ptr[prefix] == '/') return false;
    for (size_t n = 0; n < url.len; n++) {
        if (url.ptr[n] <= ' ' || url.ptr[n] >= 0x7f) return false;
    }
    /* A password would stand in every history and list; the replier takes none either. */
    for (size_t n = prefix; n < url.len && memchr("/?#", url.ptr[n], 3) == NULL; n++) {
        if (url.ptr[n] == '@') return false;
    }
    return true;
}

/* The tags of the user and ours, packed; errand->reply is where they grow. */
static bool take_tags(struct errand *errand, const struct body_value *values,
                      struct body_error *error)
{
    struct bytes reply_to = values[FIELD_replyTo].text;
    struct bytes correlation = values[FIELD_correlationId].text;

    if (values[FIELD_tags].has && !read_tags(errand, values[FIELD_tags].raw, error)) return false;
    if (values[FIELD_replyTo].has) {
        if (reply_to.len > REPLY_TO_SIZE_MAX || !is_url(reply_to)) {
            return refuse(error, PROBLEM_BAD_JSON,
                          "the field 'replyTo' must be an absolute http or https URL of up to "
                          "2,000 bytes, without user and password");
        }
        put_tag(&errand->reply, BYTES_LITERAL(TAG_REPLY_TO), reply_to);
    }
    if (values[FIELD_correlationId].has) {
        if (correlation.len > CORRELATION_SIZE_MAX) {
            return refuse(error, PROBLEM_BAD_JSON,
                          "the field 'correlationId' has more than 256 bytes");
        }
        put_tag(&errand->reply, BYTES_LITERAL(TAG_CORRELATION), correlation);
    }
    if (errand->reply.len == 0) return true;
    struct bytes packed = arena_copy(&errand->arena, buffer_view(&errand->reply));
    bool has_failed = errand->reply.failed || packed.len != errand->reply.len;
    buffer_clear(&errand->reply);
    if (has_failed) return refuse(error, PROBLEM_TOO_BUSY, "memory is short");
    errand->request.start.tags = packed;
    return true;
}

static bool take_schedule(struct errand *errand, const struct body_value *value,
                          struct body_error *error)
{
    struct input_start *start = &errand->request.start;
    int64_t ns;

    if (!value->has) return true;
    if (!time_parse(value->text, &ns)) {
        return refuse(error, PROBLEM_BAD_JSON,
                      "the field 'scheduledAt' must be a time like 2026-11-16T08:00:00Z");
    }
    start->has_scheduled = true;
    start->scheduled_ms = ns / NS_PER_MS + (ns % NS_PER_MS > 0 ? 1 : 0); /* never early */
    if (start->scheduled_ms > INT64_MAX / NS_PER_MS) { /* times are kept in nanoseconds elsewhere */
        return refuse(error, PROBLEM_BAD_JSON,
                      "the field 'scheduledAt' must not be after 2262-04-11T23:47:16.854Z");
    }
    return true;
}

static bool take_reuse(struct start *wish, struct input_start *start,
                       const struct body_value *value, struct body_error *error)
{
    struct bytes word = value->text;

    start->reuse = wish->is_put ? REUSE_NEVER : REUSE_DEFAULT;
    if (!value->has) return true;
    if (wish->is_put) {
        return refuse(error, PROBLEM_BAD_JSON,
                      "the field 'reuse' is for POST: a PUT never replaces anything");
    }
    if (bytes_equal(word, BYTES_LITERAL("ended"))) return true;
    wish->is_ignoring = bytes_equal(word, BYTES_LITERAL("ignore"));
    if (wish->is_ignoring || bytes_equal(word, BYTES_LITERAL("never"))) {
        start->reuse = REUSE_NEVER;
        return true;
    }
    if (!bytes_equal(word, BYTES_LITERAL("always"))) {
        return refuse(error, PROBLEM_BAD_JSON,
                      "the field 'reuse' must be ended, never, always or ignore");
    }
    start->reuse = REUSE_REPLACE;
    start->reuse_mask = UINT32_MAX;
    return true;
}

static bool take_id(struct start *wish, struct rest *r, struct errand *errand,
                    const struct body_value *value, struct body_error *error)
{
    if (wish->is_put) {
        if (!value->has || bytes_equal(value->text, wish->id)) return true;
        return refuse(error, PROBLEM_BAD_JSON, "the id of the body is not that of the path");
    }
    wish->id = value->text;
    if (value->has) return true;
    char *fresh = arena_alloc(&errand->arena, FRESH_ID_SIZE);
    if (fresh == NULL) return refuse(error, PROBLEM_TOO_BUSY, "memory is short");
    rest_fresh_id(r, fresh);
    wish->id = bytes_make(fresh, FRESH_ID_SIZE);
    return true;
}

bool start_read(struct rest *r, struct errand *errand, struct bytes text, struct start *wish,
                struct body_error *error)
{
    struct input_start *start = &errand->request.start;
    struct body_value values[START_FIELDS_N];
    struct bytes copy = arena_copy(&errand->arena, text);

    if (copy.len != text.len) return refuse(error, PROBLEM_TOO_BUSY, "memory is short");
    if (text.len == 0) {
        return refuse(error, PROBLEM_BAD_JSON,
                      "there is no body: at least {\"name\":...} is needed");
    }
    if (!body_parse(copy, &errand->arena, fields, START_FIELDS_N, values, error)) return false;
    if (!values[FIELD_name].has || values[FIELD_name].text.len == 0) {
        return refuse(error, PROBLEM_BAD_JSON, "the field 'name' is missing");
    }
    start->name = values[FIELD_name].text;
    if (values[FIELD_version].has) start->version = maybe_some(values[FIELD_version].text);
    if (values[FIELD_input].has) start->input = maybe_some(values[FIELD_input].raw);
    if (!take_id(wish, r, errand, &values[FIELD_id], error) ||
        !take_reuse(wish, start, &values[FIELD_reuse], error) ||
        !take_schedule(errand, &values[FIELD_scheduledAt], error) ||
        !take_tags(errand, values, error)) {
        return false;
    }
    if (start->input.value.len + start->tags.len <= LIMIT_PAYLOAD_SIZE) return true;
    return refuse(error, PROBLEM_TOO_LARGE,
                  "the input is larger than 16 MiB: pass a reference to it instead");
}

/* ---- the answer ---- */

const struct problem_map problems_of_starts = {
    .missing = PROBLEM_INSTANCE_NOT_FOUND,
    .exists = PROBLEM_INSTANCE_EXISTS,
    .full = PROBLEM_BACKLOG_FULL,
};

void location_write(struct buffer *out, struct bytes hub, struct bytes id)
{
    static const char digits[] = "0123456789ABCDEF";

    buffer_append_bytes(out, BYTES_LITERAL("/v1/instances/"));
    for (size_t n = 0; n < id.len; n++) {
        uint8_t c = id.ptr[n];
        bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (is_letter || (c >= '0' && c <= '9') || memchr("-._~:@!$'()*,", c, 13) != NULL) {
            buffer_u8(out, c);
            continue;
        }
        buffer_u8(out, '%');
        buffer_u8(out, (uint8_t)digits[c >> 4]);
        buffer_u8(out, (uint8_t)digits[c & 15]);
    }
    if (bytes_equal(hub, BYTES_LITERAL("default"))) return;
    buffer_append_bytes(out, BYTES_LITERAL("?hub="));
    buffer_append_bytes(out, hub);
}

/* {"id":...,"executionId":...} */
void answer_started(struct ask *ask, unsigned status, const struct request *request)
{
    struct bytes id = key_id(request->key);
    char execution[EXECUTION_TEXT_SIZE];
    struct json j;

    if (status == 202) {
        buffer_clear(&ask->text);
        location_write(&ask->text, ask->hub, id);
        if (!ask->text.failed) ask_add_header(ask, "location", buffer_view(&ask->text));
    }
    buffer_clear(&ask->text);
    execution_id_text(request->execution_id, execution);
    json_init(&j, &ask->text);
    json_object_begin(&j);
    json_key(&j, "id");
    json_bytes(&j, id);
    json_key(&j, "executionId");
    json_bytes(&j, bytes_make(execution, sizeof execution));
    json_object_end(&j);
    if (ask->text.failed) {
        ask_busy(ask); /* it is started all the same: a PUT again finds it */
        return;
    }
    ask_json(ask, status, buffer_view(&ask->text));
}

/* What the ask keeps while it starts. */
struct starting {
    struct start wish;
    struct input_start input; /* what a PUT is compared with */
    unsigned tries_n;
    unsigned wait_s;
};

static void finish(struct errand *errand, unsigned status)
{
    struct ask *ask = errand_ask(errand);
    const struct starting *starting = ask->user;

    if (starting->wait_s > 0) {
        /* It has ended in time: its answer is a look at it. */
        wait_for_end(ask, key_id(errand->request.key), starting->wait_s,
                     status == 202 ? 200 : status, 202);
    } else {
        answer_started(ask, status, &errand->request);
    }
    errand_end(errand);
}

/* ---- PUT of what exists ---- */

static bool is_equal(struct maybe a, struct maybe b)
{
    return a.has == b.has && (!a.has || bytes_equal(a.value, b.value));
}

enum compared { COMPARED_GONE, COMPARED_SAME, COMPARED_OTHER };

/* On the host's thread. */
static void encode_compared(struct errand *errand)
{
    const struct instance_view *view = errand->request.view;
    const struct starting *starting = errand_ask(errand)->user;
    const struct input_start *input = &starting->input;

    errand->number = COMPARED_GONE;
    if (errand->request.status != OK || view == NULL) return;
    bool is_same = starting->wish.is_ignoring ||
                   (bytes_equal(view->name, input->name) &&
                    is_equal(view->version, input->version) && is_equal(view->input, input->input));
    errand->number = is_same ? COMPARED_SAME : COMPARED_OTHER;
    memcpy(errand->request.execution_id, view->execution_id, EXECUTION_ID_SIZE);
}

static void on_started(struct errand *errand);

static void on_compared(struct errand *errand)
{
    struct ask *ask = errand_ask(errand);
    struct starting *starting = ask->user;

    if (errand->request.status != OK && errand->request.status != E_NOT_FOUND) {
        ask_problem_of(ask, &problems_of_starts, &errand->request);
        errand_end(errand);
        return;
    }
    switch ((enum compared)errand->number) {
    case COMPARED_SAME: finish(errand, 200); return;
    case COMPARED_OTHER:
        ask_problem(ask, PROBLEM_INSTANCE_DIFFERS, "choose another id, or purge the old one first",
                    "an instance with this id was started with another name, version or input");
        errand_end(errand);
        return;
    case COMPARED_GONE: break;
    }
    /* Purged between the two: its id is free again. */
    if (starting->tries_n >= PUT_TRIES_MAX) {
        ask_busy(ask);
        errand_end(errand);
        return;
    }
    errand->request.kind = REQUEST_START;
    errand->request.start = starting->input;
    errand->encode = NULL;
    errand->done = on_started;
    (void)ask_post_as_is(errand);
}

static void compare(struct errand *errand)
{
    struct starting *starting = errand_ask(errand)->user;

    starting->input = errand->request.start;
    starting->tries_n++;
    errand->request.kind = REQUEST_GET;
    errand->encode = encode_compared;
    errand->done = on_compared;
    (void)ask_post_as_is(errand);
}

static void on_started(struct errand *errand)
{
    struct ask *ask = errand_ask(errand);
    const struct starting *starting = ask->user;
    bool is_put = starting->wish.is_put;

    if (errand->request.status == OK) {
        finish(errand, is_put ? 201 : 202);
    } else if (errand->request.status == E_EXISTS && (is_put || starting->wish.is_ignoring)) {
        compare(errand);
    } else {
        ask_problem_of(ask, &problems_of_starts, &errand->request);
        errand_end(errand);
    }
}

/* ---- the routes ---- */

static void start(struct ask *ask, bool is_put)
{
    struct body_error error;
    struct starting *starting = arena_alloc_zero(&ask->arena, sizeof *starting);
    struct errand *errand = starting == NULL ? NULL : ask_errand(ask, REQUEST_START);

    if (errand == NULL) {
        if (starting == NULL) ask_busy(ask);
        return;
    }
    ask->user = starting;
    starting->wish.is_put = is_put;
    starting->wish.id = ask->path[0];
    starting->wait_s = ask_prefers_wait(ask);
    if (!start_read(ask->rest, errand, ask_body(ask), &starting->wish, &error)) {
        ask_problem(ask, error.problem, NULL, "%s", error.detail);
        errand_end(errand);
        return;
    }
    errand->done = on_started;
    (void)ask_post(errand, starting->wish.id);
}

static void start_put(struct ask *ask) { start(ask, true); }
static void start_post(struct ask *ask) { start(ask, false); }

const struct route routes_start[] = {
    {"PUT", "/v1/instances/{id}", start_put, NULL, ROUTE_PLAIN, "putInstance"},
    {"POST", "/v1/instances", start_post, NULL, ROUTE_PLAIN, "startInstance"},
    {0},
};
