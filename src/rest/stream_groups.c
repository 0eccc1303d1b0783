/* SPDX-License-Identifier: Apache-2.0
 *
 * Consumer groups: reading where they stand, checkpoints, seeking.
 */
#include "rest/stream_json.h"

#include "stream/info.h"

#define HOUR_MS (INT64_C(3600) * 1000)

/* With the group's name. NULL: answered. */
static struct stream_errand *group_errand(struct ask *ask, enum stream_request_kind kind)
{
    struct stream_errand *errand = ask_stream_errand(ask, kind);

    if (errand == NULL) return NULL;
    errand->request.read.group = stream_errand_copy(errand, ask->path[1]);
    return errand;
}

/* ---- read ---- */

/* "checkpointEvery":{"messages":n,"time":"5s"}. False: answered. */
static bool read_every(struct ask *ask, const struct body_value *value,
                       struct stream_request *request)
{
    static const struct body_field fields[] = {{"messages", BODY_NUMBER}, {"time", BODY_TEXT}};
    struct body_value v[2];
    int64_t every_n = 0;

    if (!value->has) return true;
    if (!body_read(ask, value->raw, &ask->arena, fields, 2, v)) return false;
    if (!body_count(ask, "messages", &v[0], 1, 1000000, &every_n) ||
        !field_duration_ms(ask, "time", &v[1], HOUR_MS, &request->read.every_ms)) {
        return false;
    }
    request->read.every_n = (uint32_t)every_n;
    if (every_n > 0 || request->read.every_ms > 0) return true;
    ask_problem(ask, PROBLEM_BAD_REQUEST, NULL, "'checkpointEvery' needs 'messages' or 'time'");
    return false;
}

static bool read_group_body(struct ask *ask, struct stream_request *request)
{
    static const struct body_field fields[] = {
        {"partition", BODY_NUMBER},       {"max", BODY_NUMBER}, {"wait", BODY_TEXT},
        {"checkpointEvery", BODY_OBJECT}, {"again", BODY_BOOL},
    };
    struct body_value v[5];
    int64_t partition = 0, limit = 100;

    if (!body_read(ask, ask_body(ask), &ask->arena, fields, 5, v) ||
        !body_count(ask, "partition", &v[0], 0, UINT32_MAX, &partition) ||
        !body_count(ask, "max", &v[1], 1, STREAM_READ_N_MAX, &limit) ||
        !field_duration_ms(ask, "wait", &v[2], STREAM_WAIT_MS_MAX, &request->read.wait_ms) ||
        !read_every(ask, &v[3], request)) {
        return false;
    }
    request->read.partition = (uint32_t)partition;
    request->read.limit = (uint32_t)limit;
    request->read.is_again = v[4].has && v[4].flag;
    return true;
}

static void read_group(struct ask *ask)
{
    struct stream_errand *errand = group_errand(ask, STREAM_REQUEST_GROUP_READ);

    if (errand == NULL) return;
    if (!read_group_body(ask, &errand->request)) {
        stream_errand_end(errand);
        return;
    }
    errand->done = stream_errand_read_done;
    stream_errand_waits(errand);
}

/* ---- checkpoint and seek ---- */

static void on_position(struct stream_errand *errand)
{
    struct json j;

    if (!stream_errand_is_good(errand)) return;
    json_init(&j, &errand->ask->text);
    json_object_begin(&j);
    write_number_of(&j, "partition", errand->request.read.partition);
    write_number_of(&j, "position", errand->request.position);
    json_object_end(&j);
    stream_errand_json(errand, 200);
}

static void checkpoint(struct ask *ask)
{
    static const struct body_field fields[] = {{"partition", BODY_NUMBER}, {"offset", BODY_NUMBER}};
    struct body_value v[2];
    int64_t partition = 0, offset = 0;

    if (!body_read(ask, ask_body(ask), &ask->arena, fields, 2, v) ||
        !body_count(ask, "partition", &v[0], 0, UINT32_MAX, &partition) ||
        !body_count(ask, "offset", &v[1], 0, INT64_MAX, &offset)) {
        return;
    }
    if (!v[1].has) {
        ask_problem(ask, PROBLEM_BAD_REQUEST, NULL, "'offset' is missing");
        return;
    }
    struct stream_errand *errand = group_errand(ask, STREAM_REQUEST_CHECKPOINT);
    if (errand == NULL) return;
    errand->request.read.partition = (uint32_t)partition;
    errand->request.read.offset = (uint64_t)offset;
    errand->done = on_position;
    (void)stream_errand_post(errand);
}

/* "first", "next", a time, or an offset as a number. False: answered. */
static bool read_to(struct ask *ask, const struct body_value *to, struct stream_request *request)
{
    struct bytes raw = to->raw;

    if (to->has && raw.len > 2 && raw.ptr[0] == '"') {
        struct bytes text = bytes_make(raw.ptr + 1, raw.len - 2);
        request->read.from_kind = STREAM_FROM_FIRST;
        if (bytes_equal(text, BYTES_LITERAL("first"))) return true;
        request->read.from_kind = STREAM_FROM_NEXT;
        if (bytes_equal(text, BYTES_LITERAL("next"))) return true;
        request->read.from_kind = STREAM_FROM_TIME;
        if (time_or_ago_read(text, rest_wall_ns(), &request->read.time_ns)) return true;
    }
    request->read.from_kind = STREAM_FROM_OFFSET;
    if (to->has && decimal_parse(raw, INT64_MAX, &request->read.offset)) return true;
    ask_problem(ask, PROBLEM_BAD_REQUEST, NULL,
                "'to' must be \"first\", \"next\", an offset or a time");
    return false;
}

static void seek(struct ask *ask)
{
    static const struct body_field fields[] = {{"partition", BODY_NUMBER}, {"to", BODY_ANY}};
    struct body_value v[2];
    int64_t partition = 0;

    if (!body_read(ask, ask_body(ask), &ask->arena, fields, 2, v) ||
        !body_count(ask, "partition", &v[0], 0, UINT32_MAX, &partition)) {
        return;
    }
    struct stream_errand *errand = group_errand(ask, STREAM_REQUEST_SEEK);
    if (errand == NULL) return;
    if (!read_to(ask, &v[1], &errand->request)) {
        stream_errand_end(errand);
        return;
    }
    errand->request.read.partition = (uint32_t)partition;
    errand->done = on_position;
    (void)stream_errand_post(errand);
}

/* ---- looking and deleting ---- */

static void write_queue_of(struct json *j, struct stream_info *info)
{
    struct stream_partition_info p;

    for (uint32_t i = 0; stream_info_next_partition(info, &p); i++) {
        uint64_t position = p.has_queue ? p.queue_position : p.first;
        json_object_begin(j);
        write_number_of(j, "partition", i);
        write_number_of(j, "position", position);
        write_number_of(j, "lag", p.next - position);
        json_object_end(j);
    }
}

static void write_group_of(struct json *j, struct stream_info *info, struct reader positions)
{
    struct stream_partition_info p;

    for (uint32_t i = 0; stream_info_next_partition(info, &p); i++) {
        uint64_t position = reader_varint(&positions);
        json_object_begin(j);
        write_number_of(j, "partition", i);
        write_number_of(j, "position", position);
        write_number_of(j, "lag", p.next > position ? p.next - position : 0);
        json_object_end(j);
    }
}

static void on_group(struct stream_errand *errand)
{
    struct json j;
    struct stream_info info;
    struct stream_group_info group;
    struct bytes name = bytes_of_text(errand->user);
    bool is_queue = bytes_equal(name, BYTES_LITERAL("queue"));
    bool is_found = is_queue;

    if (!stream_errand_is_good(errand)) return;
    struct reader at = reader_make(buffer_view(&errand->request.answer));
    bool is_there = stream_info_next(&at, &info);
    assert(is_there);
    struct stream_info groups = info;
    while (!is_found && stream_info_next_group(&groups, &group)) {
        is_found = bytes_equal(group.name, name);
    }
    if (!is_found) {
        ask_problem(errand->ask, PROBLEM_GROUP_NOT_FOUND,
                    "a group is there from its first checkpoint on", "there is no group '%s'",
                    (const char *)errand->user);
        stream_errand_end(errand);
        return;
    }
    json_init(&j, &errand->ask->text);
    json_object_begin(&j);
    write_text_of(&j, "name", name);
    json_key(&j, "items");
    json_array_begin(&j);
    if (is_queue)
        write_queue_of(&j, &info);
    else
        write_group_of(&j, &info, group.positions);
    json_array_end(&j);
    json_object_end(&j);
    stream_errand_json(errand, 200);
}

static void get_group(struct ask *ask)
{
    struct stream_errand *errand = ask_stream_errand(ask, STREAM_REQUEST_INFO);

    if (errand == NULL) return;
    errand->user = arena_text(&errand->arena, ask->path[1]);
    if (errand->user == NULL) {
        ask_busy(ask);
        stream_errand_end(errand);
        return;
    }
    errand->done = on_group;
    (void)stream_errand_post(errand);
}

static void on_deleted(struct stream_errand *errand)
{
    struct json j;

    if (!stream_errand_is_good(errand)) return;
    json_init(&j, &errand->ask->text);
    json_object_begin(&j);
    write_text_of(&j, "deleted", errand->request.read.group);
    json_object_end(&j);
    stream_errand_json(errand, 200);
}

static void delete_group(struct ask *ask)
{
    struct stream_errand *errand = group_errand(ask, STREAM_REQUEST_GROUP_DELETE);

    if (errand == NULL) return;
    errand->done = on_deleted;
    (void)stream_errand_post(errand);
}

const struct route routes_groups[] = {
    {"GET", "/v1/streams/{name}/groups/{group}", get_group, NULL, ROUTE_PLAIN, "getGroup"},
    {"DELETE", "/v1/streams/{name}/groups/{group}", delete_group, NULL, ROUTE_PLAIN, "deleteGroup"},
    {"POST", "/v1/streams/{name}/groups/{group}/read", read_group, NULL, ROUTE_PLAIN, "readGroup"},
    {"POST", "/v1/streams/{name}/groups/{group}/checkpoint", checkpoint, NULL, ROUTE_PLAIN,
     "checkpointGroup"},
    {"POST", "/v1/streams/{name}/groups/{group}/seek", seek, NULL, ROUTE_PLAIN, "seekGroup"},
    {0},
};
