/* SPDX-License-Identifier: Apache-2.0
 *
 * POST /v1/instances:batch: a start per line, an answer per line, in the same order. Some of the
 * starts are under way at once; what is answered waits in its place until those before it are.
 *
 *      line ──> errand in the ring ──START──> its outcome as a line in errand->reply
 *                    ^ head: the oldest that was not sent          │
 *                    └───── sent in order while the peer reads <───┘
 *
 * Every line is tried, whatever happens to the others: also when the peer goes away, because it has
 * seen none, some or all of the answers and must not guess which.
 */
#include "rest/start.h"

#define LINES_N_MAX 10000u
#define WINDOW_N 1000u
#define SEND_SIZE 16384u
#define RETRY_NS ((int64_t)10 * 1000 * 1000)

struct batch_line {
    struct errand *errand;
    uint32_t number; /* in the body, from 1 on; empty ones count, as in an editor */
    bool is_done;
};

struct batch {
    struct ask *ask;
    struct bytes rest;   /* of the body: lines that were not begun */
    uint32_t begun_n;    /* lines with something in them */
    uint32_t line_n;     /* lines before rest, all of them */
    uint32_t sent_n;     /* answers; begun_n - sent_n are in the ring */
    bool is_filling;     /* batch_fill() is running: answers inside of it are seen by it */
    bool is_stuck;       /* the engine took none: tried again by time */
    struct buffer lines; /* answers to be sent at once */
    struct batch_line ring[WINDOW_N];
};

static struct batch *batch_of(const struct ask *ask) { return ask->user; }
static struct batch_line *line_at(struct batch *b, uint32_t n) { return &b->ring[n % WINDOW_N]; }

/* ---- the outcome of a line ---- */

static void outcome_begin(struct json *j, struct errand *errand)
{
    buffer_clear(&errand->reply);
    json_init(j, &errand->reply);
    json_object_begin(j);
    json_key(j, "line");
    json_uint64(j, line_at(batch_of(errand_ask(errand)), (uint32_t)errand->number)->number);
}

static void outcome_end(struct json *j, struct errand *errand)
{
    struct batch *b = batch_of(errand_ask(errand));

    json_object_end(j);
    buffer_u8(&errand->reply, '\n');
    line_at(b, (uint32_t)errand->number)->is_done = true;
}

static void write_problem(struct errand *errand, struct bytes id, enum problem problem,
                          const char *detail)
{
    struct json j;

    outcome_begin(&j, errand);
    write_text_of(&j, "id", id);
    json_key(&j, "problem");
    problem_write(&j, problem, detail, NULL);
    outcome_end(&j, errand);
}

static void write_started(struct errand *errand, unsigned status)
{
    struct json j;

    outcome_begin(&j, errand);
    write_text_of(&j, "id", key_id(errand->request.key));
    json_key(&j, "status");
    json_uint64(&j, status);
    outcome_end(&j, errand);
}

static void batch_fill(struct batch *b);

static void on_started(struct errand *errand)
{
    const struct request *request = &errand->request;
    struct batch *b = batch_of(errand_ask(errand));

    if (request->status == OK)
        write_started(errand, 202);
    else if (request->status == E_EXISTS && errand->flag) /* reuse "ignore" */
        write_started(errand, 200);
    else
        write_problem(errand, key_id(request->key), problem_of_status(&problems_of_starts, request),
                      request->text[0] != '\0' ? request->text : status_text(request->status));
    batch_fill(b);
}

/* ---- beginning lines ---- */

/* False: the engine takes nothing now; the line is to be begun again. */
static bool line_begin(struct batch *b, struct bytes line, uint32_t number)
{
    struct ask *ask = b->ask;
    struct start wish = {.is_put = false};
    struct body_error error;
    struct errand *errand = errand_new_asked(ask->rest->desk, REQUEST_START);

    if (errand == NULL) return false;
    errand->user = ask;
    errand->done = on_started;
    errand->number = b->begun_n;
    if (!start_read(ask->rest, errand, line, &wish, &error)) {
        if (error.problem == PROBLEM_TOO_BUSY) {
            errand_free(errand);
            return false;
        }
        ask->errands_n++;
        *line_at(b, b->begun_n++) = (struct batch_line){.errand = errand, .number = number};
        write_problem(errand, BYTES_NONE, error.problem, error.detail);
        return true;
    }
    errand->flag = wish.is_ignoring;
    struct bytes key = key_make(&errand->arena, ask->hub, wish.id);
    errand->request.key = key;
    if (key.ptr == NULL || !errand_post(errand, -1)) {
        errand_free(errand);
        return false;
    }
    ask->errands_n++;
    *line_at(b, b->begun_n++) = (struct batch_line){.errand = errand, .number = number};
    return true;
}

/* ---- sending ---- */

static bool is_over(const struct batch *b) { return b->rest.len == 0 && b->sent_n == b->begun_n; }

/* What is done and next in order; as much as the peer takes. */
static void batch_send(struct batch *b)
{
    struct ask *ask = b->ask;

    buffer_clear(&b->lines);
    while (b->sent_n < b->begun_n && line_at(b, b->sent_n)->is_done) {
        if (!ask->is_closed && http_is_full(ask->exchange)) break;
        struct errand *errand = line_at(b, b->sent_n)->errand;
        if (!errand->reply.failed) buffer_append_bytes(&b->lines, buffer_view(&errand->reply));
        *line_at(b, b->sent_n++) = (struct batch_line){0};
        errand_end(errand);
        if (b->lines.len < SEND_SIZE) continue;
        (void)http_send(ask->exchange, buffer_view(&b->lines));
        buffer_clear(&b->lines);
    }
    if (b->lines.len > 0) (void)http_send(ask->exchange, buffer_view(&b->lines));
}

static void batch_end(struct batch *b)
{
    struct ask *ask = b->ask;
    struct rest *r = ask->rest;

    bool is_whole = !b->lines.failed;
    buffer_release(&b->lines);
    mem_give(r->mem, b, sizeof *b);
    ask->ops = NULL;
    ask_finish(ask, is_whole);
}

static uint32_t lines_between(const uint8_t *from, const uint8_t *to)
{
    uint32_t n = 0;

    for (; from < to; from++) n += *from == '\n';
    return n;
}

/* Begins lines while there is room for their answers. */
static void batch_begin(struct batch *b)
{
    struct bytes line;

    while (!b->is_stuck && b->begun_n - b->sent_n < WINDOW_N) {
        struct bytes before = b->rest;
        if (!body_next_line(&b->rest, &line)) break;
        uint32_t number = b->line_n + lines_between(before.ptr, line.ptr) + 1;
        b->is_stuck = !line_begin(b, line, number);
        if (b->is_stuck)
            b->rest = before;
        else
            b->line_n = number;
    }
}

/* Begins what there is room for, sends what is done, ends when that was all. */
static void batch_fill(struct batch *b)
{
    if (b->is_filling) return;
    b->is_filling = true;
    b->is_stuck = false;
    do {
        batch_begin(b);
        batch_send(b);
    } while (!b->is_stuck && b->rest.len > 0 && b->begun_n - b->sent_n < WINDOW_N);
    b->is_filling = false;
    if (is_over(b)) {
        batch_end(b);
    } else if (b->is_stuck && b->begun_n == b->sent_n) {
        /* Nothing of ours comes back to go on with: by time. */
        ask_set_time(b->ask, rest_now(b->ask) + RETRY_NS);
    }
}

static void on_event(struct ask *ask) { batch_fill(batch_of(ask)); }

/* What was sent is answered, also when the server stops: nobody could say which lines were. */
static const struct ask_ops ops = {
    .closed = on_event,
    .writable = on_event,
    .time = on_event,
    .drain = on_event,
    .half_closed = ask_goes_on,
};

/* ---- the route ---- */

static uint32_t count_lines(struct bytes rest)
{
    struct bytes line;
    uint32_t n = 0;

    while (body_next_line(&rest, &line)) n++;
    return n;
}

static void start_batch(struct ask *ask)
{
    struct bytes body = ask_body(ask);
    struct bytes type = http_header(ask->exchange, "content-type");

    if (type.len > 0 && !type_is(type, "application/x-ndjson") &&
        !type_is(type, "application/ndjson") && !type_is(type, "application/jsonl") &&
        !type_is(type, "application/json")) {
        ask_problem(ask, PROBLEM_NOT_JSON, "send it with Content-Type: application/x-ndjson",
                    "the body must be NDJSON: a start per line");
        return;
    }
    uint32_t lines_n = count_lines(body);
    if (lines_n == 0 || lines_n > LINES_N_MAX) {
        ask_problem(ask, lines_n == 0 ? PROBLEM_BAD_REQUEST : PROBLEM_TOO_LARGE, NULL,
                    "a batch has 1 to 10,000 lines, not %u", lines_n);
        return;
    }
    struct batch *b = mem_take_zero(ask->rest->mem, sizeof *b);
    if (b == NULL) {
        ask_busy(ask);
        return;
    }
    b->ask = ask;
    b->rest = body;
    buffer_init(&b->lines, ask->rest->mem);
    ask->user = b;
    ask->ops = &ops;
    ask_begin(ask, 200, "application/x-ndjson");
    batch_fill(b);
}

const struct route routes_batch[] = {
    {"POST", "/v1/instances:batch", start_batch, NULL, ROUTE_ANY_TYPE, "startInstances"},
    {0},
};
