/* SPDX-License-Identifier: Apache-2.0
 *
 * See filters.h.
 */
#include "rest/filters.h"

#include "core/limits.h"
#include "host/rows.h"

#include <stdio.h>

#define NS_PER_MS 1000000

static const char *const names[FILTERS_N] = {
#define X(name) #name,
    FILTERS(X)
#undef X
};

const char *filter_name(enum filter filter) { return names[filter]; }

/* ---- reading ---- */

static bool refuse(struct errand *errand, enum filter filter, const char *what)
{
    ask_bad_parameter(errand_ask(errand), names[filter], what);
    return false;
}

/* "failed,terminated" */
static bool read_statuses(struct errand *errand, struct bytes list, uint32_t *mask)
{
    while (list.len > 0) {
        const uint8_t *comma = memchr(list.ptr, ',', list.len);
        size_t len = comma == NULL ? list.len : (size_t)(comma - list.ptr);
        size_t over = comma == NULL ? len : len + 1;
        enum orchestration_status status;
        if (!status_of_word(bytes_make(list.ptr, len), &status)) {
            return refuse(errand, FILTER_status,
                          "must be some of pending, running, suspended, completed, failed, "
                          "terminated, canceled, with commas between them");
        }
        *mask |= 1u << status;
        list = bytes_make(list.ptr + over, list.len - over);
    }
    return true;
}

static int64_t to_ms(int64_t ns, bool is_rounded_up)
{
    int64_t ms = ns / NS_PER_MS;
    int64_t rest = ns % NS_PER_MS;

    if (is_rounded_up && rest > 0) ms++;
    if (!is_rounded_up && rest < 0) ms--;
    return ms;
}

/* from is inclusive, to is exclusive; 0 is no bound. */
static bool read_bounds(struct errand *errand, const struct maybe *values, enum filter from,
                        enum filter to, struct request_query *query)
{
    int64_t wall_ns = rest_wall_ns();
    int64_t ns;

    if (values[from].has) {
        if (!time_or_ago_read(values[from].value, wall_ns, &ns))
            return refuse(errand, from, "must be a time like 2026-11-16T08:00:00Z, or like 2h");
        query->from_ms = to_ms(ns, false);
    }
    if (values[to].has) {
        if (!time_or_ago_read(values[to].value, wall_ns, &ns))
            return refuse(errand, to, "must be a time like 2026-11-16T08:00:00Z, or like 2h");
        query->to_ms = to_ms(ns, true);
        if (query->to_ms < 1) query->to_ms = 1; /* nothing is that old */
    }
    return true;
}

static bool copy_text(struct errand *errand, struct maybe value, struct bytes *out)
{
    if (!value.has || value.value.len == 0) return true;
    *out = errand_copy(errand, value.value);
    if (out->len == value.value.len) return true;
    ask_busy(errand_ask(errand));
    return false;
}

bool filters_read(struct errand *errand, const struct maybe values[FILTERS_N],
                  struct request_query *query)
{
    struct ask *ask = errand_ask(errand);
    bool by_completion = values[FILTER_completedFrom].has || values[FILTER_completedTo].has;

    if (by_completion && (values[FILTER_from].has || values[FILTER_to].has)) {
        ask_problem(ask, PROBLEM_BAD_PARAMETER, NULL,
                    "bounds are either of the creation (from, to) or of the completion "
                    "(completedFrom, completedTo), not of both");
        return false;
    }
    query->by_completion = by_completion;
    if (by_completion) query->terminal_only = true;
    if (values[FILTER_status].has &&
        !read_statuses(errand, values[FILTER_status].value, &query->status_mask)) {
        return false;
    }
    if (values[FILTER_parked].has) {
        query->want_parked = bytes_equal(values[FILTER_parked].value, BYTES_LITERAL("true"));
        if (!query->want_parked) return refuse(errand, FILTER_parked, "can only be true");
    }
    return read_bounds(errand, values, by_completion ? FILTER_completedFrom : FILTER_from,
                       by_completion ? FILTER_completedTo : FILTER_to, query) &&
           copy_text(errand, maybe_some(ask->hub), &query->hub) &&
           copy_text(errand, values[FILTER_name], &query->name) &&
           copy_text(errand, values[FILTER_idPrefix], &query->id_prefix) &&
           copy_text(errand, values[FILTER_tag], &query->tag) &&
           copy_text(errand, values[FILTER_error], &query->error_part);
}

bool filters_read_parameters(struct errand *errand, struct request_query *query)
{
    struct maybe values[FILTERS_N];

    for (enum filter n = 0; n < FILTERS_N; n++) {
        values[n] = ask_parameter(errand_ask(errand), names[n]);
    }
    return filters_read(errand, values, query);
}

/* ---- counting ---- */

static struct counting *counting_of(struct errand *errand) { return errand_ask(errand)->user; }

/* On the host's thread: notes how many, and where the next page begins. */
static void encode_page(struct errand *errand)
{
    const struct request *request = &errand->request;
    struct counting *counting = counting_of(errand);

    if (request->status != OK) return;
    counting->has_more = request->has_more && request->rows_n > 0;
    for (size_t n = 0; n < request->rows_n && counting->wants_sample; n++) {
        if (strings_count(buffer_view(&counting->sample)) >= COUNT_SAMPLE_N) break;
        strings_add(&counting->sample, key_id(request->rows[n].key));
    }
    counting->n += request->rows_n;
    if (!counting->has_more) return;
    const struct instance_view *last = &request->rows[request->rows_n - 1];
    struct bytes id = key_id(last->key);
    assert(id.len <= sizeof counting->after_id);
    memcpy(counting->after_id, id.ptr, id.len);
    counting->after_size = id.len;
    counting->after_ms = view_time_ms(last, request->query.by_completion);
}

static void count_page(struct errand *errand);

static void on_page(struct errand *errand)
{
    struct counting *counting = counting_of(errand);
    struct ask *ask = errand_ask(errand);

    if (errand->request.status != OK || ask->is_closed) {
        if (errand->request.status == OK) errand->request.status = E_CLOSED;
        ask_problem_of(ask, &problems_of_instances, &errand->request);
        buffer_release(&counting->sample);
        errand_end(errand);
        return;
    }
    if (counting->has_more && counting->n < counting->limit) {
        count_page(errand);
        return;
    }
    counting->is_exact = !counting->has_more;
    counting->counted(errand, counting);
}

static void count_page(struct errand *errand)
{
    struct counting *counting = counting_of(errand);
    struct request_query *query = &errand->request.query;
    uint64_t left = counting->limit - counting->n;

    query->limit = left > QUERY_LIMIT_MAX ? QUERY_LIMIT_MAX : (uint32_t)left;
    query->has_after = counting->after_size > 0;
    query->after_id = bytes_make(counting->after_id, counting->after_size);
    query->after_ms = counting->after_ms;
    if (errand_post(errand, -1)) return;
    ask_busy(errand_ask(errand));
    buffer_release(&counting->sample);
    errand_end(errand);
}

void count_matches(struct errand *errand, uint64_t limit, bool wants_sample,
                   void (*counted)(struct errand *errand, struct counting *counting))
{
    struct ask *ask = errand_ask(errand);
    struct counting *counting = arena_alloc_zero(&ask->arena, sizeof *counting);

    if (counting == NULL) {
        ask_busy(ask);
        errand_end(errand);
        return;
    }
    counting->limit = limit;
    counting->wants_sample = wants_sample;
    counting->counted = counted;
    buffer_init(&counting->sample, &errand->mem);
    ask->user = counting;
    errand->request.query.want_keys = true;
    errand->encode = encode_page;
    errand->done = on_page;
    count_page(errand);
}
_Static_assert(LIMIT_ID_SIZE <= sizeof((struct counting *)0)->after_id, "every id fits");
