/* SPDX-License-Identifier: Apache-2.0
 *
 * Queues: the messages of a stream with competing consumers.
 */
#include "rest/stream_json.h"

/* ---- receive ---- */

static void on_received(struct stream_errand *errand)
{
    struct json j;
    struct stream_delivery delivery;

    /* It waits no longer, because its peer has ended its side: nothing was taken. */
    if (errand->request.status == E_TIMEOUT) errand->request.status = OK;
    if (!stream_errand_is_good(errand)) return;
    struct reader at = reader_make(buffer_view(&errand->request.answer));
    json_init(&j, &errand->ask->text);
    json_object_begin(&j);
    json_key(&j, "items");
    json_array_begin(&j);
    while (stream_answer_next_delivery(&at, &delivery)) {
        char token[STREAM_TOKEN_TEXT_SIZE];
        stream_token_text(&delivery.token, token);
        json_object_begin(&j);
        write_text_of(&j, "token", bytes_make(token, sizeof token));
        write_number_of(&j, "partition", delivery.token.partition);
        write_message_fields(&j, &delivery.message);
        write_number_of(&j, "delivery", delivery.delivery);
        write_time_of(&j, "lockedUntil", delivery.until_ns);
        json_object_end(&j);
    }
    json_array_end(&j);
    json_object_end(&j);
    stream_errand_json(errand, 200);
}

/* Without one it is the stream's; none at all would be no lock. False: answered. */
static bool read_lock(struct ask *ask, const struct body_value *value, int64_t *lock_ms)
{
    if (!field_duration_ms(ask, "lock", value, STREAM_LOCK_MS_MAX, lock_ms)) return false;
    if (!value->has || *lock_ms > 0) return true;
    ask_problem(ask, PROBLEM_BAD_REQUEST, NULL, "a lock is 1ms to 24h");
    return false;
}

static void receive(struct ask *ask)
{
    static const struct body_field fields[] = {
        {"max", BODY_NUMBER}, {"wait", BODY_TEXT}, {"lock", BODY_TEXT}, {"consumer", BODY_TEXT}};
    struct body_value v[4];
    int64_t limit = 1, wait_ms = 0, lock_ms = 0;

    if (!body_read(ask, ask_body(ask), &ask->arena, fields, 4, v) ||
        !body_count(ask, "max", &v[0], 1, STREAM_READ_N_MAX, &limit) ||
        !field_duration_ms(ask, "wait", &v[1], STREAM_WAIT_MS_MAX, &wait_ms) ||
        !read_lock(ask, &v[2], &lock_ms)) {
        return;
    }
    struct stream_errand *errand = ask_stream_errand(ask, STREAM_REQUEST_RECEIVE);
    if (errand == NULL) return;
    errand->request.receive.limit = (uint32_t)limit;
    errand->request.receive.wait_ms = wait_ms;
    errand->request.receive.lock_ms = lock_ms;
    errand->done = on_received;
    stream_errand_waits(errand);
}

/* ---- answers of consumers ---- */

static void on_lock(struct stream_errand *errand)
{
    struct json j;

    if (!stream_errand_is_good(errand)) return;
    json_init(&j, &errand->ask->text);
    json_object_begin(&j);
    write_number_of(&j, "partition", errand->request.lock.token.partition);
    write_number_of(&j, "offset", errand->request.lock.token.offset);
    if (errand->request.kind == STREAM_REQUEST_RENEW) {
        write_time_of(&j, "lockedUntil", errand->request.lock.until_ns);
    }
    json_object_end(&j);
    stream_errand_json(errand, 200);
}

static void answer(struct ask *ask, enum stream_request_kind kind, int64_t lock_ms,
                   struct bytes reason)
{
    struct stream_token token;

    if (!stream_token_parse(ask->path[1], &token)) {
        ask_problem(ask, PROBLEM_MESSAGE_NOT_FOUND, "use the token as receive gave it",
                    "this is no token of a message");
        return;
    }
    struct stream_errand *errand = ask_stream_errand(ask, kind);
    if (errand == NULL) return;
    errand->request.lock.token = token;
    errand->request.lock.lock_ms = lock_ms;
    errand->request.lock.reason = stream_errand_copy(errand, reason);
    errand->done = on_lock;
    (void)stream_errand_post(errand);
}

static void complete(struct ask *ask)
{
    if (body_is_empty(ask)) answer(ask, STREAM_REQUEST_COMPLETE, 0, BYTES_NONE);
}

static void abandon(struct ask *ask)
{
    if (body_is_empty(ask)) answer(ask, STREAM_REQUEST_ABANDON, 0, BYTES_NONE);
}

static void renew(struct ask *ask)
{
    static const struct body_field fields[] = {{"lock", BODY_TEXT}};
    struct body_value v[1];
    int64_t lock_ms = 0;

    if (!body_read(ask, ask_body(ask), &ask->arena, fields, 1, v) ||
        !read_lock(ask, &v[0], &lock_ms)) {
        return;
    }
    answer(ask, STREAM_REQUEST_RENEW, lock_ms, BYTES_NONE);
}

static void dead_letter(struct ask *ask)
{
    static const struct body_field fields[] = {{"reason", BODY_TEXT}};
    struct body_value v[1];

    if (!body_read(ask, ask_body(ask), &ask->arena, fields, 1, v)) return;
    answer(ask, STREAM_REQUEST_DEAD_LETTER, 0, v[0].has ? v[0].text : BYTES_NONE);
}

const struct route routes_queues[] = {
    {"POST", "/v1/queues/{name}/receive", receive, NULL, ROUTE_PLAIN, "receiveMessages"},
    {"POST", "/v1/queues/{name}/messages/{token}/complete", complete, NULL, ROUTE_PLAIN,
     "completeMessage"},
    {"POST", "/v1/queues/{name}/messages/{token}/abandon", abandon, NULL, ROUTE_PLAIN,
     "abandonMessage"},
    {"POST", "/v1/queues/{name}/messages/{token}/renew", renew, NULL, ROUTE_PLAIN, "renewMessage"},
    {"POST", "/v1/queues/{name}/messages/{token}/dead-letter", dead_letter, NULL, ROUTE_PLAIN,
     "deadLetterMessage"},
    {0},
};
