/* SPDX-License-Identifier: Apache-2.0
 *
 * GET /v1/instances and its count. A page ends after as many rows as were asked for, or when it is
 * about to become large; the cursor says where the next one begins.
 */
#include "rest/cursor.h"
#include "rest/filters.h"

#define PAGE_N_DEFAULT 100
#define COUNT_LIMIT_DEFAULT 100000
#define COUNT_LIMIT_MAX 100000000

void write_rows(struct errand *errand, write_row_fn *write)
{
    const struct request *request = &errand->request;
    size_t n = 0;
    struct json j;

    if (request->status != OK) return;
    json_init(&j, &errand->reply);
    json_object_begin(&j);
    json_key(&j, "items");
    json_array_begin(&j);
    for (; n < request->rows_n && (n == 0 || errand->reply.len < PAGE_SIZE_MAX); n++) {
        write(&j, &request->rows[n], errand->flag);
    }
    json_array_end(&j);
    cursor_write_rows(&j, request, n);
    json_object_end(&j);
}

/* On the host's thread. */
static void encode_rows(struct errand *errand) { write_rows(errand, write_instance); }

static bool read_order(struct ask *ask, bool *newest_first)
{
    struct maybe order = ask_parameter(ask, "order");

    if (!order.has) return true;
    *newest_first = bytes_equal(order.value, BYTES_LITERAL("newest"));
    if (*newest_first || bytes_equal(order.value, BYTES_LITERAL("oldest"))) return true;
    ask_bad_parameter(ask, "order", "must be newest or oldest: which comes first");
    return false;
}

static void list_instances(struct ask *ask)
{
    struct errand *errand = ask_errand(ask, REQUEST_QUERY);
    int64_t limit = PAGE_N_DEFAULT;

    if (errand == NULL) return;
    struct request_query *query = &errand->request.query;
    if (!filters_read_parameters(errand, query) ||
        !ask_read_number(ask, "limit", 1, QUERY_LIMIT_MAX, &limit) ||
        !ask_read_bool(ask, "payloads", &query->want_payloads) ||
        !read_order(ask, &query->newest_first) ||
        !cursor_read_rows(errand, ask_parameter(ask, "cursor"), query)) {
        errand_end(errand);
        return;
    }
    query->limit = (uint32_t)limit;
    errand->flag = query->want_payloads;
    errand->encode = encode_rows;
    (void)ask_post_as_is(errand);
}

static void on_counted(struct errand *errand, struct counting *counting)
{
    struct json j;

    json_init(&j, &errand->reply);
    json_object_begin(&j);
    json_key(&j, "count");
    json_uint64(&j, counting->n);
    json_key(&j, "isExact");
    json_bool(&j, counting->is_exact);
    json_object_end(&j);
    buffer_release(&counting->sample);
    errand_answer_json(errand);
}

static void count_instances(struct ask *ask)
{
    struct errand *errand = ask_errand(ask, REQUEST_QUERY);
    int64_t limit = COUNT_LIMIT_DEFAULT;

    if (errand == NULL) return;
    if (!filters_read_parameters(errand, &errand->request.query) ||
        !ask_read_number(ask, "limit", 1, COUNT_LIMIT_MAX, &limit)) {
        errand_end(errand);
        return;
    }
    count_matches(errand, (uint64_t)limit, false, on_counted);
}

const struct route routes_lists[] = {
    {"GET", "/v1/instances", list_instances, FILTER_PARAMETERS "limit cursor payloads order",
     ROUTE_PLAIN, "listInstances"},
    {"GET", "/v1/instances:count", count_instances, FILTER_PARAMETERS "limit", ROUTE_PLAIN,
     "countInstances"},
    {0},
};
