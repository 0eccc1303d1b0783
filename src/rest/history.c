/* SPDX-License-Identifier: Apache-2.0
 *
 * GET /v1/instances/{id}/history: a page of events. The cursor has the number of events before it
 * and the execution they are of: the history of one execution only grows, so pages fit together.
 */
#include "rest/cursor.h"

#include <stdio.h>

#define PAGE_N_DEFAULT 100
#define PAGE_N_MAX 1000

static void note_execution(struct errand *errand, struct bytes event)
{
    struct event_head head;
    struct event_started started;

    if (event_peek(event, &head) != OK || head.kind != EVENT_EXECUTION_STARTED) return;
    if (event_started_decode(event, &errand->arena, &started) != OK) return;
    memcpy(errand->request.execution_id, started.execution_id, EXECUTION_ID_SIZE);
    errand->flag = true;
}

/* "17.5b1f...", when there are more; without the execution when none is known. */
static void write_next(struct json *j, const struct errand *errand, uint32_t skip_n)
{
    const struct maybe *asked = &errand->request.history.execution_id;
    char text[16 + EXECUTION_TEXT_SIZE];
    char execution[EXECUTION_TEXT_SIZE];

    int len = snprintf(text, sizeof text, "%u.", skip_n);
    if (errand->flag) {
        execution_id_text(errand->request.execution_id, execution);
        memcpy(text + len, execution, sizeof execution);
        len += (int)sizeof execution;
    } else if (asked->has && asked->value.len == EXECUTION_TEXT_SIZE) {
        memcpy(text + len, asked->value.ptr, asked->value.len);
        len += (int)asked->value.len;
    }
    write_text_of(j, "next", bytes_make(text, (size_t)len));
}

/* On the host's thread. errand->number is the limit. */
static void encode_events(struct errand *errand)
{
    const struct request *request = &errand->request;
    struct reader r = reader_make(request->events);
    struct bytes event;
    uint32_t n = 0;
    struct json j;

    if (request->status != OK) return;
    json_init(&j, &errand->reply);
    json_object_begin(&j);
    json_key(&j, "items");
    json_array_begin(&j);
    while (n < errand->number && strings_next(&r, &event)) {
        note_execution(errand, event);
        write_event(&j, event);
        n++;
    }
    json_array_end(&j);
    if (request->has_more || reader_left(&r) > 0) {
        write_next(&j, errand, request->history.skip_n + n);
    }
    json_object_end(&j);
    errand->number = 0;
}

/* The rest of the list is of an execution that is gone. */
static void on_events(struct errand *errand)
{
    struct ask *ask = errand_ask(errand);

    if (errand->request.status == E_NOT_FOUND && errand->request.history.execution_id.has) {
        ask_problem(ask, PROBLEM_INSTANCE_NOT_FOUND, "begin again without a cursor",
                    "the instance was purged, or began again while its history was read");
    }
    errand_answer_json(errand);
}

/* False: answered. */
static bool read_cursor(struct errand *errand, struct maybe cursor)
{
    struct request *request = &errand->request;
    size_t n = 0;
    uint64_t skip_n = 0;

    if (!cursor.has || cursor.value.len == 0) return true;
    struct bytes text = cursor.value;
    for (; n < text.len && n < 9 && text.ptr[n] >= '0' && text.ptr[n] <= '9'; n++) {
        skip_n = skip_n * 10 + (uint64_t)(text.ptr[n] - '0');
    }
    size_t left = text.len - n;
    if (n == 0 || left == 0 || text.ptr[n] != '.' ||
        (left != 1 && left != 1 + EXECUTION_TEXT_SIZE)) {
        ask_bad_parameter(errand_ask(errand), "cursor",
                          "is not one that this server gave: begin again without one");
        return false;
    }
    request->history.skip_n = (uint32_t)skip_n;
    if (left == 1) return true;
    struct bytes execution = errand_copy(errand, bytes_make(text.ptr + n + 1, left - 1));
    request->history.execution_id = maybe_some(execution);
    if (execution.len == left - 1) return true;
    ask_busy(errand_ask(errand));
    return false;
}

static void get_history(struct ask *ask)
{
    struct errand *errand = ask_errand(ask, REQUEST_HISTORY);
    int64_t limit = PAGE_N_DEFAULT;

    if (errand == NULL) return;
    if (!ask_read_number(ask, "limit", 1, PAGE_N_MAX, &limit) ||
        !read_cursor(errand, ask_parameter(ask, "cursor"))) {
        errand_end(errand);
        return;
    }
    errand->number = (uint64_t)limit;
    errand->request.history.size_max = PAGE_SIZE_MAX;
    errand->encode = encode_events;
    errand->done = on_events;
    (void)ask_post(errand, ask->path[0]);
}

const struct route routes_history[] = {
    {"GET", "/v1/instances/{id}/history", get_history, "limit cursor", ROUTE_PLAIN, "getHistory"},
    {0},
};
