/* SPDX-License-Identifier: Apache-2.0
 *
 * GET /v1/alerts: what waits for an operator, longest waiting first. Each shard is asked for a
 * page, and the pages are merged by time, instance and step, which is also what the cursor has.
 *
 * Where the pages come together: an item of a shard's reply is its sort key and its JSON.
 */
#include "rest/state.h"

#include "core/limits.h"

#define PAGE_N_DEFAULT 100
#define CURSOR_LETTER 'a'
#define TIME_DIGITS 16
#define TASK_DIGITS 8
#define HEAD_DIGITS (1 + TIME_DIGITS + TASK_DIGITS)
#define KEY_SIZE_MAX (LIMIT_HUB_SIZE + 1 + LIMIT_ID_SIZE)

/* One list, in the ask's arena. */
struct alerts {
    uint32_t limit;
    uint32_t pending_n;
    bool has_more;
    struct errand **parts;
    uint32_t parts_n;
    enum status status;
};

/* ---- on a host's thread ---- */

static void write_item(struct json *j, const struct parked_view *view)
{
    json_object_begin(j);
    json_key(j, "id");
    json_bytes(j, key_id(view->key));
    json_key(j, "hub");
    json_bytes(j, key_hub(view->key));
    json_key(j, "taskId");
    if (view->task_id == PARKED_TURN)
        json_null(j);
    else
        json_int64(j, view->task_id);
    json_key(j, "name");
    json_bytes(j, view->name);
    json_key(j, "text");
    json_bytes(j, view->text);
    write_time_of(j, "since", view->since_ms * 1000000);
    json_object_end(j);
}

static void encode_alerts(struct errand *errand)
{
    const struct request *request = &errand->request;
    struct buffer item;

    if (request->status != OK) return;
    buffer_init(&item, &errand->mem);
    for (size_t n = 0; n < request->parked_n; n++) {
        const struct parked_view *view = &request->parked[n];
        struct json j;
        buffer_clear(&item);
        json_init(&j, &item);
        write_item(&j, view);
        buffer_signed(&errand->reply, view->since_ms);
        buffer_signed(&errand->reply, view->task_id);
        buffer_bytes(&errand->reply, view->key);
        buffer_bytes(&errand->reply, buffer_view(&item));
        if (item.failed) errand->reply.failed = true;
    }
    buffer_release(&item);
}

/* ---- merging ---- */

struct item {
    int64_t since_ms;
    int32_t task_id;
    struct bytes key;
    struct bytes json;
};

static bool item_next(struct reader *r, struct item *out)
{
    if (reader_left(r) == 0) return false;
    out->since_ms = reader_signed(r);
    out->task_id = (int32_t)reader_signed(r);
    out->key = reader_bytes(r);
    out->json = reader_bytes(r);
    return !r->failed;
}

static bool is_before(const struct item *a, const struct item *b)
{
    if (a->since_ms != b->since_ms) return a->since_ms < b->since_ms;
    int order = bytes_compare(a->key, b->key);
    return order != 0 ? order < 0 : a->task_id < b->task_id;
}

static const char digits[] = "0123456789abcdef";

static void write_cursor(struct json *j, const struct item *last)
{
    char text[HEAD_DIGITS + 2 * KEY_SIZE_MAX];
    size_t len = 0;
    uint64_t since = (uint64_t)last->since_ms;
    uint32_t task = (uint32_t)last->task_id;

    if (last->key.len > KEY_SIZE_MAX) return;
    text[len++] = CURSOR_LETTER;
    for (int shift = 60; shift >= 0; shift -= 4) text[len++] = digits[since >> shift & 15];
    for (int shift = 28; shift >= 0; shift -= 4) text[len++] = digits[task >> shift & 15];
    for (size_t n = 0; n < last->key.len; n++) {
        text[len++] = digits[last->key.ptr[n] >> 4];
        text[len++] = digits[last->key.ptr[n] & 15];
    }
    write_text_of(j, "next", bytes_make(text, len));
}

/* The heads of all parts; the smallest is next. */
static void merge(const struct alerts *a, struct arena *arena, struct json *j)
{
    struct reader *readers = arena_alloc_zero(arena, a->parts_n * sizeof *readers);
    struct item *heads = arena_alloc_zero(arena, a->parts_n * sizeof *heads);
    bool *is_there = arena_alloc_zero(arena, a->parts_n * sizeof *is_there);
    struct item last = {0};
    bool has_more = a->has_more;
    uint32_t n = 0;

    if (readers == NULL || heads == NULL || is_there == NULL) {
        j->out->failed = true;
        return;
    }
    for (uint32_t i = 0; i < a->parts_n; i++) {
        readers[i] = reader_make(buffer_view(&a->parts[i]->reply));
        is_there[i] = item_next(&readers[i], &heads[i]);
    }
    json_object_begin(j);
    json_key(j, "items");
    json_array_begin(j);
    for (;;) {
        uint32_t best = a->parts_n;
        for (uint32_t i = 0; i < a->parts_n; i++) {
            if (!is_there[i]) continue;
            if (best == a->parts_n || is_before(&heads[i], &heads[best])) best = i;
        }
        if (best == a->parts_n) break;
        if (n == a->limit) {
            has_more = true;
            break;
        }
        last = heads[best];
        json_raw(j, last.json);
        n++;
        is_there[best] = item_next(&readers[best], &heads[best]);
    }
    json_array_end(j);
    if (has_more && n > 0) write_cursor(j, &last);
    json_object_end(j);
}

static void answer(struct ask *ask, struct alerts *a)
{
    struct json j;

    if (ask->is_answered) return;
    for (uint32_t i = 0; i < a->parts_n; i++) {
        if (a->parts[i]->request.status != OK) {
            ask_problem_of(ask, &problems_of_instances, &a->parts[i]->request);
            return;
        }
        a->has_more = a->has_more || a->parts[i]->request.has_more;
        ask->text.failed = ask->text.failed || a->parts[i]->reply.failed;
    }
    json_init(&j, &ask->text);
    if (!ask->text.failed) merge(a, &ask->arena, &j);
    if (ask->text.failed)
        ask_busy(ask);
    else
        ask_json(ask, 200, buffer_view(&ask->text));
}

static void on_part(struct errand *errand)
{
    struct ask *ask = errand_ask(errand);
    struct alerts *a = ask->user;

    if (--a->pending_n > 0) return; /* its reply is needed until the last one is there */
    answer(ask, a);
    uint32_t parts_n = a->parts_n;
    struct errand **parts = a->parts;
    for (uint32_t i = 0; i < parts_n; i++) errand_end(parts[i]);
}

/* ---- the request ---- */

static int digit_value(uint8_t c)
{
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool number_read(const uint8_t *text, size_t len, uint64_t *out)
{
    *out = 0;
    for (size_t n = 0; n < len; n++) {
        int digit = digit_value(text[n]);
        if (digit < 0) return false;
        *out = *out << 4 | (uint64_t)digit;
    }
    return true;
}

/* Into arena. */
static bool cursor_read(struct bytes text, struct arena *arena, struct request_alerts *out)
{
    uint64_t since, task, byte;

    if (text.len <= HEAD_DIGITS || (text.len - HEAD_DIGITS) % 2 != 0) return false;
    if (text.len > HEAD_DIGITS + 2 * KEY_SIZE_MAX || text.ptr[0] != CURSOR_LETTER) return false;
    if (!number_read(text.ptr + 1, TIME_DIGITS, &since)) return false;
    if (!number_read(text.ptr + 1 + TIME_DIGITS, TASK_DIGITS, &task)) return false;
    size_t len = (text.len - HEAD_DIGITS) / 2;
    uint8_t *key = arena_alloc(arena, len);
    if (key == NULL) return false;
    for (size_t n = 0; n < len; n++) {
        if (!number_read(text.ptr + HEAD_DIGITS + 2 * n, 2, &byte)) return false;
        key[n] = (uint8_t)byte;
    }
    out->has_after = true;
    out->after_ms = (int64_t)since;
    out->after_task_id = (int32_t)(uint32_t)task;
    out->after_key = bytes_make(key, len);
    return true;
}

/* One errand for each shard, posted together. All is gone when the engine takes none of them. */
static void post_all(struct alerts *a, const struct request_alerts *wanted)
{
    uint32_t parts_n = a->parts_n;

    a->pending_n = parts_n;
    for (uint32_t n = 0; n < parts_n; n++) {
        struct errand *errand = a->parts[n];
        errand->request.alerts = *wanted;
        errand->request.alerts.hub = errand_copy(errand, wanted->hub);
        errand->request.alerts.after_key = errand_copy(errand, wanted->after_key);
        errand->encode = encode_alerts;
        errand->done = on_part;
        if (errand_post(errand, (int)n)) continue;
        errand->request.status = E_UNAVAILABLE;
        if (a->pending_n == 1) {
            assert(n + 1 == parts_n);
            on_part(errand);
            return;
        }
        a->pending_n--;
    }
}

static void get_alerts(struct ask *ask)
{
    struct request_alerts wanted = {.hub = ask->hub};
    struct maybe cursor = ask_parameter(ask, "cursor");
    int64_t limit = PAGE_N_DEFAULT;

    if (!ask_read_number(ask, "limit", 1, QUERY_LIMIT_MAX, &limit)) return;
    if (cursor.has && cursor.value.len > 0 && !cursor_read(cursor.value, &ask->arena, &wanted)) {
        ask_bad_parameter(ask, "cursor",
                          "is not one that this server gave: begin again without one");
        return;
    }
    wanted.limit = (uint32_t)limit;
    uint32_t shards_n = desk_engine(ask->rest->desk)->shards_n;
    struct alerts *a = arena_alloc_zero(&ask->arena, sizeof *a);
    if (a != NULL) a->parts = arena_alloc_zero(&ask->arena, shards_n * sizeof *a->parts);
    if (a == NULL || a->parts == NULL) {
        ask_busy(ask);
        return;
    }
    a->limit = (uint32_t)limit;
    ask->user = a;
    for (; a->parts_n < shards_n; a->parts_n++) {
        struct errand *errand = ask_errand(ask, REQUEST_ALERTS);
        if (errand == NULL) break;
        a->parts[a->parts_n] = errand;
    }
    if (a->parts_n == shards_n) {
        post_all(a, &wanted);
        return;
    }
    struct errand **parts = a->parts;
    for (uint32_t n = a->parts_n; n > 0; n--) errand_end(parts[n - 1]); /* answered too-busy */
}

const struct route routes_alerts[] = {
    {"GET", "/v1/alerts", get_alerts, "limit cursor", ROUTE_PLAIN, "listAlerts"},
    {0},
};
