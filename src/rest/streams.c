/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams: making, looking, appending, reading, and which partitions are a node's.
 */
#include "rest/stream_json.h"

#include "stream/info.h"

#define YEARS_MS (INT64_C(1000) * 365 * 24 * 3600 * 1000)

/* ---- settings and info ---- */

static void write_duration_of(struct json *j, const char *key, int64_t ms)
{
    char text[UNITS_SIZE];

    duration_format(ms, text);
    json_key(j, key);
    json_text(j, text);
}

static void write_settings(struct json *j, const struct stream_settings *s)
{
    write_number_of(j, "partitions", s->partitions_n);
    if (s->retention_ms > 0) write_duration_of(j, "retention", s->retention_ms);
    if (s->retention_size > 0) write_number_of(j, "retentionBytes", s->retention_size);
    write_number_of(j, "maxDeliveries", s->deliveries_max);
    write_duration_of(j, "lock", s->lock_ms);
    if (s->workflow[0] == '\0') return;
    write_text_of(j, "workflow", bytes_of_text(s->workflow));
    write_text_of(j, "hub", bytes_of_text(s->hub));
}

/* One group of one partition. */
static void write_position(struct json *j, struct bytes group, uint64_t position, uint64_t next)
{
    json_key_bytes(j, group);
    json_object_begin(j);
    write_number_of(j, "position", position);
    write_number_of(j, "lag", next > position ? next - position : 0);
    json_object_end(j);
}

static void write_partition(struct json *j, const struct stream_info *info, uint32_t index,
                            const struct stream_partition_info *p)
{
    struct stream_info again = *info; /* its groups are read once for each partition */
    struct stream_group_info group;

    json_object_begin(j);
    write_number_of(j, "partition", index);
    write_number_of(j, "first", p->first);
    write_number_of(j, "next", p->next);
    write_number_of(j, "bytes", p->size);
    json_key(j, "groups");
    json_object_begin(j);
    while (stream_info_next_group(&again, &group)) {
        uint64_t position = 0;
        for (uint32_t i = 0; i <= index; i++) position = reader_varint(&group.positions);
        write_position(j, group.name, position, p->next);
    }
    if (p->has_queue) {
        json_key(j, "queue");
        json_object_begin(j);
        write_number_of(j, "position", p->queue_position);
        write_number_of(j, "lag", p->next - p->queue_position);
        write_number_of(j, "locked", p->queue_locked_n);
        write_number_of(j, "waiting", p->queue_waiting_n);
        json_object_end(j);
    }
    json_object_end(j);
    json_object_end(j);
}

static void write_stream(struct json *j, struct stream_info *info, bool is_short)
{
    struct stream_partition_info p;
    uint64_t messages_n = 0;
    uint64_t size = 0;
    struct stream_info totals = *info;

    while (stream_info_next_partition(&totals, &p)) {
        messages_n += p.next - p.first;
        size += p.size;
    }
    json_object_begin(j);
    write_text_of(j, "name", info->name);
    write_settings(j, &info->settings);
    write_number_of(j, "messages", messages_n);
    write_number_of(j, "bytes", size);
    if (!is_short) {
        struct stream_info parts = *info;
        write_number_of(j, "deadLetters", info->letters_n);
        json_key(j, "items");
        json_array_begin(j);
        for (uint32_t i = 0; stream_info_next_partition(&parts, &p); i++) {
            write_partition(j, info, i, &p);
        }
        json_array_end(j);
    }
    json_object_end(j);
}

static void on_info(struct stream_errand *errand)
{
    struct json j;
    struct stream_info info;

    if (!stream_errand_is_good(errand)) return;
    struct reader at = reader_make(buffer_view(&errand->request.answer));
    json_init(&j, &errand->ask->text);
    if (errand->request.stream.len > 0) {
        bool is_there = stream_info_next(&at, &info);
        assert(is_there);
        write_stream(&j, &info, false);
    } else {
        json_object_begin(&j);
        json_key(&j, "items");
        json_array_begin(&j);
        while (stream_info_next(&at, &info)) write_stream(&j, &info, true);
        json_array_end(&j);
        json_object_end(&j);
    }
    stream_errand_json(errand, 200);
}

static void get_stream(struct ask *ask)
{
    struct stream_errand *errand = ask_stream_errand(ask, STREAM_REQUEST_INFO);

    if (errand == NULL) return;
    errand->done = on_info;
    (void)stream_errand_post(errand);
}

static void list_streams(struct ask *ask)
{
    struct stream_errand *errand = stream_errand_new(ask->rest, ask, STREAM_REQUEST_INFO);

    if (errand == NULL) return;
    errand->done = on_info;
    (void)stream_errand_post(errand);
}

/* ---- making and deleting ---- */

static void on_set(struct stream_errand *errand)
{
    struct json j;

    if (!stream_errand_is_good(errand)) return;
    json_init(&j, &errand->ask->text);
    json_object_begin(&j);
    write_text_of(&j, "name", errand->request.stream);
    write_settings(&j, &errand->request.set.settings);
    json_object_end(&j);
    stream_errand_json(errand, errand->request.set.is_new ? 201 : 200);
}

/* False: answered. */
static bool read_text_setting(struct ask *ask, const char *name, struct bytes text, char *to,
                              size_t size)
{
    if (text.len >= size || (text.len > 0 && memchr(text.ptr, 0, text.len) != NULL)) {
        ask_problem(ask, PROBLEM_BAD_REQUEST, NULL, "'%s' is at most %zu bytes", name, size - 1);
        return false;
    }
    if (text.len > 0) memcpy(to, text.ptr, text.len);
    to[text.len] = '\0';
    return true;
}

static bool read_settings(struct ask *ask, struct stream_settings *s, uint32_t *mask)
{
    static const struct body_field fields[] = {
        {"partitions", BODY_NUMBER},     {"retention", BODY_TEXT},
        {"retentionBytes", BODY_NUMBER}, {"workflow", BODY_TEXT},
        {"maxDeliveries", BODY_NUMBER},  {"lock", BODY_TEXT},
    };
    struct body_value v[6];
    int64_t partitions_n = 1, retention_size = 0, deliveries_max = 1;

    if (!body_read(ask, ask_body(ask), &ask->arena, fields, 6, v)) return false;
    if (!body_count(ask, "partitions", &v[0], 1, STREAM_PARTITIONS_N_MAX, &partitions_n) ||
        !field_duration_ms(ask, "retention", &v[1], YEARS_MS, &s->retention_ms) ||
        !body_count(ask, "retentionBytes", &v[2], 0, INT64_MAX, &retention_size) ||
        !body_count(ask, "maxDeliveries", &v[4], 1, STREAM_DELIVERIES_MAX, &deliveries_max) ||
        !field_duration_ms(ask, "lock", &v[5], STREAM_LOCK_MS_MAX, &s->lock_ms)) {
        return false;
    }
    s->partitions_n = (uint32_t)partitions_n;
    s->retention_size = (uint64_t)retention_size;
    s->deliveries_max = (uint32_t)deliveries_max;
    if (v[3].has) {
        if (!read_text_setting(ask, "workflow", v[3].text, s->workflow, sizeof s->workflow) ||
            !read_text_setting(ask, "hub", ask->hub, s->hub, sizeof s->hub)) {
            return false;
        }
        *mask |= STREAM_SET_WORKFLOW | STREAM_SET_HUB;
    }
    if (v[0].has) *mask |= STREAM_SET_PARTITIONS;
    if (v[1].has) *mask |= STREAM_SET_RETENTION;
    if (v[2].has) *mask |= STREAM_SET_RETENTION_SIZE;
    if (v[4].has) *mask |= STREAM_SET_DELIVERIES;
    if (v[5].has) *mask |= STREAM_SET_LOCK;
    return true;
}

static void put_stream(struct ask *ask)
{
    struct stream_settings settings = {0};
    uint32_t mask = 0;

    if (!read_settings(ask, &settings, &mask)) return;
    struct stream_errand *errand = ask_stream_errand(ask, STREAM_REQUEST_SET);
    if (errand == NULL) return;
    errand->request.set.settings = settings;
    errand->request.set.mask = mask;
    errand->done = on_set;
    (void)stream_errand_post(errand);
}

static void on_deleted(struct stream_errand *errand)
{
    struct json j;

    if (!stream_errand_is_good(errand)) return;
    json_init(&j, &errand->ask->text);
    json_object_begin(&j);
    write_text_of(&j, "deleted", errand->request.stream);
    json_object_end(&j);
    stream_errand_json(errand, 200);
}

static void delete_stream(struct ask *ask)
{
    struct stream_errand *errand = ask_stream_errand(ask, STREAM_REQUEST_DELETE);

    if (errand == NULL) return;
    errand->done = on_deleted;
    (void)stream_errand_post(errand);
}

/* ---- appending ---- */

static void on_appended(struct stream_errand *errand)
{
    const struct stream_append *item = errand->request.append.items;
    struct json j;

    if (!stream_errand_is_good(errand)) return;
    json_init(&j, &errand->ask->text);
    json_object_begin(&j);
    write_number_of(&j, "partition", item->at_partition);
    write_number_of(&j, "offset", item->at_offset);
    json_object_end(&j);
    stream_errand_json(errand, 201);
}

/* Of each partition the first offset and how many. */
static void on_appended_many(struct stream_errand *errand)
{
    struct json j;
    uint64_t first[STREAM_PARTITIONS_N_MAX];
    uint32_t count[STREAM_PARTITIONS_N_MAX] = {0};

    if (!stream_errand_is_good(errand)) return;
    for (uint32_t i = 0; i < errand->request.append.n; i++) {
        const struct stream_append *item = &errand->request.append.items[i];
        if (count[item->at_partition]++ == 0) first[item->at_partition] = item->at_offset;
    }
    json_init(&j, &errand->ask->text);
    json_object_begin(&j);
    write_number_of(&j, "appended", errand->request.append.n);
    json_key(&j, "first");
    json_array_begin(&j);
    for (uint32_t p = 0; p < STREAM_PARTITIONS_N_MAX; p++) {
        if (count[p] == 0) continue;
        json_object_begin(&j);
        write_number_of(&j, "partition", p);
        write_number_of(&j, "offset", first[p]);
        write_number_of(&j, "count", count[p]);
        json_object_end(&j);
    }
    json_array_end(&j);
    json_object_end(&j);
    stream_errand_json(errand, 201);
}

static void append_one(struct ask *ask, bool is_json)
{
    struct bytes value = ask_body(ask);
    struct maybe key = ask_parameter(ask, "key");
    int64_t partition = -1;

    if (!ask_read_number(ask, "partition", 0, STREAM_PARTITIONS_N_MAX - 1, &partition)) return;
    if (is_json) {
        size_t offset;
        struct bytes raw = BYTES_NONE;
        const char *problem = json_check(value, &raw, &offset);
        if (problem != NULL) {
            ask_problem(ask, PROBLEM_BAD_JSON,
                        "send other bytes with content-type application/octet-stream",
                        "this is not JSON: %s (at byte %zu)", problem, offset);
            return;
        }
        value = raw;
    }
    struct stream_errand *errand = ask_stream_errand(ask, STREAM_REQUEST_APPEND);
    if (errand == NULL) return;
    struct stream_append *item = arena_alloc_zero(&errand->arena, sizeof *item);
    if (item == NULL) {
        ask_busy(ask);
        stream_errand_end(errand);
        return;
    }
    /* Key and value stay as long as the exchange does: until the answer. */
    *item = (struct stream_append){
        .has_key = key.has,
        .key = key.value,
        .kind = is_json ? STREAM_VALUE_JSON : STREAM_VALUE_BYTES,
        .value = value,
        .partition = partition,
    };
    errand->request.append.items = item;
    errand->request.append.n = 1;
    errand->done = on_appended;
    (void)stream_errand_post(errand);
}

/* {"key":"k","value":...,"partition":0}. False: answered. */
static bool read_line(struct ask *ask, struct arena *arena, struct bytes line, uint32_t number,
                      struct stream_append *item)
{
    static const struct body_field fields[] = {
        {"key", BODY_TEXT}, {"value", BODY_ANY}, {"partition", BODY_NUMBER}};
    struct body_value v[3];
    struct body_error error;

    if (!body_parse(line, arena, fields, 3, v, &error)) {
        ask_problem(ask, error.problem, "nothing was appended", "line %u: %s", number,
                    error.detail);
        return false;
    }
    if (!v[1].has) {
        ask_problem(ask, PROBLEM_BAD_JSON, "nothing was appended", "line %u has no 'value'",
                    number);
        return false;
    }
    if (v[2].has && (v[2].number < 0 || v[2].number >= STREAM_PARTITIONS_N_MAX)) {
        ask_problem(ask, PROBLEM_BAD_REQUEST, "nothing was appended",
                    "line %u: no stream has partition %lld", number, (long long)v[2].number);
        return false;
    }
    *item = (struct stream_append){
        .has_key = v[0].has,
        .key = v[0].text,
        .kind = STREAM_VALUE_JSON,
        .value = v[1].raw,
        .partition = v[2].has ? v[2].number : -1,
    };
    return true;
}

static void append_many(struct ask *ask)
{
    struct bytes rest = ask_body(ask);
    struct bytes line;
    uint32_t n = 0;

    for (struct bytes at = rest; body_next_line(&at, &line);) n++;
    if (n == 0 || n > STREAM_APPEND_N_MAX) {
        ask_problem(ask, PROBLEM_BAD_REQUEST, NULL, "an append has 1 to %u lines, this has %u",
                    STREAM_APPEND_N_MAX, n);
        return;
    }
    struct stream_errand *errand = ask_stream_errand(ask, STREAM_REQUEST_APPEND);
    if (errand == NULL) return;
    struct stream_append *items = arena_alloc_zero(&errand->arena, n * sizeof *items);
    if (items == NULL) {
        ask_busy(ask);
        stream_errand_end(errand);
        return;
    }
    for (uint32_t i = 0; i < n && body_next_line(&rest, &line); i++) {
        if (read_line(ask, &errand->arena, line, i + 1, &items[i])) continue;
        stream_errand_end(errand);
        return;
    }
    errand->request.append.items = items;
    errand->request.append.n = n;
    errand->done = on_appended_many;
    (void)stream_errand_post(errand);
}

static void append(struct ask *ask)
{
    struct bytes type = http_header(ask->exchange, "content-type");

    if (type_is(type, "application/x-ndjson"))
        append_many(ask);
    else
        append_one(ask, type.len == 0 || type_is(type, "application/json"));
}

/* ---- reading ---- */

/* "first", "next" or an offset. False: answered. */
static bool read_from(struct ask *ask, struct stream_request *request)
{
    struct maybe from = ask_parameter(ask, "from");

    request->read.from_kind = STREAM_FROM_FIRST;
    if (!from.has || bytes_equal(from.value, BYTES_LITERAL("first"))) return true;
    request->read.from_kind = STREAM_FROM_NEXT;
    if (bytes_equal(from.value, BYTES_LITERAL("next"))) return true;
    if (time_or_ago_read(from.value, rest_wall_ns(), &request->read.time_ns)) {
        request->read.from_kind = STREAM_FROM_TIME;
        return true;
    }
    request->read.from_kind = STREAM_FROM_OFFSET;
    if (decimal_parse(from.value, INT64_MAX, &request->read.offset)) return true;
    ask_bad_parameter(ask, "from", "must be first, next, an offset or a time");
    return false;
}

static void read_partition(struct ask *ask)
{
    uint64_t partition;
    int64_t limit = 100, of = 1, reader = 0, wait_ms = 0;

    if (!ask_path_number(ask, 1, "partition", UINT32_MAX, &partition) ||
        !ask_read_number(ask, "limit", 1, STREAM_READ_N_MAX, &limit) ||
        !ask_read_number(ask, "of", 1, 1024, &of) ||
        !ask_read_number(ask, "reader", 0, of - 1, &reader) ||
        !ask_read_duration_ms(ask, "wait", STREAM_WAIT_MS_MAX, &wait_ms)) {
        return;
    }
    if (of > 1 && !ask_parameter(ask, "reader").has) {
        ask_bad_parameter(ask, "reader", "is needed with 'of': which of them reads, from 0 on");
        return;
    }
    struct stream_errand *errand = ask_stream_errand(ask, STREAM_REQUEST_READ);
    if (errand == NULL) return;
    if (!read_from(ask, &errand->request)) {
        stream_errand_end(errand);
        return;
    }
    errand->request.read.partition = (uint32_t)partition;
    errand->request.read.limit = (uint32_t)limit;
    errand->request.read.of = (uint32_t)of;
    errand->request.read.reader = (uint32_t)reader;
    errand->request.read.wait_ms = wait_ms;
    errand->done = stream_errand_read_done;
    stream_errand_waits(errand);
}

/* ---- which partitions are a node's ---- */

/* The number that a host's name ends with, as those of replicas do; -1: none. */
static int64_t ordinal_of(struct bytes name)
{
    int64_t ordinal = 0;
    size_t at = name.len;

    while (at > 0 && name.len - at < 9 && name.ptr[at - 1] >= '0' && name.ptr[at - 1] <= '9') at--;
    if (at == name.len) return -1;
    for (size_t i = at; i < name.len; i++) ordinal = ordinal * 10 + (name.ptr[i] - '0');
    return ordinal;
}

static void on_assignment(struct stream_errand *errand)
{
    struct json j;
    struct stream_info info;
    const int64_t *node = errand->user; /* nodes, ordinal */

    if (!stream_errand_is_good(errand)) return;
    struct reader at = reader_make(buffer_view(&errand->request.answer));
    bool is_there = stream_info_next(&at, &info);
    assert(is_there);
    json_init(&j, &errand->ask->text);
    json_object_begin(&j);
    write_number_of(&j, "ordinal", (uint64_t)node[1]);
    write_number_of(&j, "nodes", (uint64_t)node[0]);
    json_key(&j, "partitions");
    json_array_begin(&j);
    for (uint32_t p = 0; p < info.settings.partitions_n; p++) {
        if (p % (uint64_t)node[0] == (uint64_t)node[1]) json_uint64(&j, p);
    }
    json_array_end(&j);
    json_object_end(&j);
    stream_errand_json(errand, 200);
}

static void get_assignment(struct ask *ask)
{
    struct maybe name = ask_parameter(ask, "node");
    int64_t nodes_n = 1;

    if (!ask_read_number(ask, "nodes", 1, STREAM_PARTITIONS_N_MAX, &nodes_n)) return;
    if (!name.has &&
        nodes_n > 1) { /* two that forget it would share a part, and nobody has the rest */
        ask_bad_parameter(ask, "node", "is needed with 'nodes': which of them asks, as in host-3");
        return;
    }
    int64_t ordinal = name.has ? ordinal_of(name.value) : 0;
    if (ordinal < 0 || ordinal >= nodes_n) {
        ask_bad_parameter(ask, "node", "must end with a number below 'nodes', as in host-3");
        return;
    }
    struct stream_errand *errand = ask_stream_errand(ask, STREAM_REQUEST_INFO);
    if (errand == NULL) return;
    int64_t *node = arena_alloc(&errand->arena, 2 * sizeof *node);
    if (node == NULL) {
        ask_busy(ask);
        stream_errand_end(errand);
        return;
    }
    node[0] = nodes_n;
    node[1] = ordinal;
    errand->user = node;
    errand->done = on_assignment;
    (void)stream_errand_post(errand);
}

const struct route routes_streams[] = {
    {"GET", "/v1/streams", list_streams, NULL, ROUTE_PLAIN, "listStreams"},
    {"PUT", "/v1/streams/{name}", put_stream, NULL, ROUTE_PLAIN, "putStream"},
    {"GET", "/v1/streams/{name}", get_stream, NULL, ROUTE_PLAIN, "getStream"},
    {"DELETE", "/v1/streams/{name}", delete_stream, NULL, ROUTE_PLAIN, "deleteStream"},
    {"POST", "/v1/streams/{name}", append, "key partition", ROUTE_ANY_TYPE, "appendMessages"},
    {"GET", "/v1/streams/{name}/partitions/{partition}", read_partition,
     "from limit wait of reader", ROUTE_PLAIN, "readPartition"},
    {"GET", "/v1/streams/{name}/assignment", get_assignment, "nodes node", ROUTE_PLAIN,
     "getAssignment"},
    {0},
};
