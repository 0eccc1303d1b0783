/* SPDX-License-Identifier: Apache-2.0
 *
 * Dead letters: looking at them, editing, trying again, discarding.
 */
#include "rest/stream_json.h"

#include "stream/letter.h"

#include <stdio.h>

static void write_letter(struct json *j, struct bytes stream, const struct stream_message *message,
                         const struct stream_letter_content *letter, bool with_value)
{
    char id[24];

    json_object_begin(j);
    (void)snprintf(id, sizeof id, "%llu", (unsigned long long)letter->id);
    write_text_of(j, "id", bytes_of_text(id));
    write_text_of(j, "stream", stream);
    write_number_of(j, "partition", letter->partition);
    write_number_of(j, "offset", letter->offset);
    if (message->has_key) {
        json_key(j, "key");
        json_bytes(j, message->key);
    }
    json_key(j, "reason");
    json_bytes(j, letter->reason);
    write_time_of(j, "time", message->time_ns);
    write_number_of(j, "deliveries", letter->deliveries);
    write_number_of(j, "size", letter->value.len);
    if (with_value) write_message_value(j, letter->kind, letter->value);
    json_object_end(j);
}

/* ---- looking ---- */

static void on_letters(struct stream_errand *errand)
{
    struct json j;
    struct stream_message message;
    struct stream_letter_content letter;
    struct bytes stream;
    uint64_t last = 0;

    if (!stream_errand_is_good(errand)) return;
    struct reader at = reader_make(buffer_view(&errand->request.answer));
    json_init(&j, &errand->ask->text);
    json_object_begin(&j);
    json_key(&j, "items");
    json_array_begin(&j);
    while (stream_answer_next_letter(&at, &stream, &message)) {
        if (!stream_letter_read(message.value, &letter)) continue;
        write_letter(&j, stream, &message, &letter, false);
        last = letter.id;
    }
    json_array_end(&j);
    if (errand->request.has_more) {
        char cursor[24];
        (void)snprintf(cursor, sizeof cursor, "%llu", (unsigned long long)last);
        write_text_of(&j, "next", bytes_of_text(cursor));
    }
    json_object_end(&j);
    stream_errand_json(errand, 200);
}

static void list_letters(struct ask *ask)
{
    struct maybe stream = ask_parameter(ask, "stream");
    struct maybe cursor = ask_parameter(ask, "cursor");
    int64_t limit = 100, after = 0;

    if (!ask_read_number(ask, "limit", 1, STREAM_READ_N_MAX, &limit) ||
        !ask_read_number(ask, "cursor", 0, INT64_MAX, &after)) {
        return;
    }
    struct stream_errand *errand = stream_errand_new(ask->rest, ask, STREAM_REQUEST_LETTERS);
    if (errand == NULL) return;
    errand->request.stream = stream.has ? stream_errand_copy(errand, stream.value) : BYTES_NONE;
    errand->request.letter.limit = (uint32_t)limit;
    errand->request.letter.has_after = cursor.has;
    errand->request.letter.id = (uint64_t)after;
    errand->done = on_letters;
    (void)stream_errand_post(errand);
}

static void on_letter(struct stream_errand *errand)
{
    struct json j;
    struct stream_message message;
    struct stream_letter_content letter;
    struct bytes stream;

    if (!stream_errand_is_good(errand)) return;
    struct reader at = reader_make(buffer_view(&errand->request.answer));
    if (!stream_answer_next_letter(&at, &stream, &message) ||
        !stream_letter_read(message.value, &letter)) {
        ask_problem(errand->ask, PROBLEM_MESSAGE_NOT_FOUND, NULL, "there is no such dead letter");
        stream_errand_end(errand);
        return;
    }
    json_init(&j, &errand->ask->text);
    write_letter(&j, stream, &message, &letter, true);
    stream_errand_json(errand, 200);
}

/* With the id of the path. NULL: answered. */
static struct stream_errand *letter_errand(struct ask *ask, enum stream_request_kind kind)
{
    uint64_t id;

    if (!ask_path_number(ask, 0, "id", INT64_MAX, &id)) return NULL;
    struct stream_errand *errand = stream_errand_new(ask->rest, ask, kind);
    if (errand != NULL) errand->request.letter.id = id;
    return errand;
}

static void get_letter(struct ask *ask)
{
    struct stream_errand *errand = letter_errand(ask, STREAM_REQUEST_LETTER);

    if (errand == NULL) return;
    errand->done = on_letter;
    (void)stream_errand_post(errand);
}

/* ---- changing ---- */

static void on_changed(struct stream_errand *errand)
{
    struct json j;
    char id[24];

    if (!stream_errand_is_good(errand)) return;
    json_init(&j, &errand->ask->text);
    json_object_begin(&j);
    (void)snprintf(id, sizeof id, "%llu", (unsigned long long)errand->request.letter.id);
    write_text_of(&j, "id", bytes_of_text(id));
    if (errand->request.kind == STREAM_REQUEST_LETTER_RESUBMIT) {
        write_number_of(&j, "partition", errand->request.partition);
        write_number_of(&j, "offset", errand->request.offset);
    }
    json_object_end(&j);
    stream_errand_json(errand, 200);
}

static void edit_letter(struct ask *ask)
{
    static const struct body_field fields[] = {{"key", BODY_TEXT}, {"value", BODY_ANY}};
    struct body_value v[2];

    if (!body_read(ask, ask_body(ask), &ask->arena, fields, 2, v)) return;
    if (!v[0].has && !v[1].has) {
        ask_problem(ask, PROBLEM_BAD_REQUEST, NULL, "give 'key' or 'value', or both");
        return;
    }
    struct stream_errand *errand = letter_errand(ask, STREAM_REQUEST_LETTER_EDIT);
    if (errand == NULL) return;
    /* The body stays until the answer. */
    errand->request.letter.has_new_key = errand->request.letter.has_key = v[0].has;
    errand->request.letter.key = v[0].text;
    errand->request.letter.has_value = v[1].has;
    errand->request.letter.kind = STREAM_VALUE_JSON;
    errand->request.letter.value = v[1].raw;
    errand->done = on_changed;
    (void)stream_errand_post(errand);
}

static void change_letter(struct ask *ask, enum stream_request_kind kind)
{
    if (!body_is_empty(ask)) return;
    struct stream_errand *errand = letter_errand(ask, kind);
    if (errand == NULL) return;
    errand->done = on_changed;
    (void)stream_errand_post(errand);
}

static void resubmit_letter(struct ask *ask) { change_letter(ask, STREAM_REQUEST_LETTER_RESUBMIT); }
static void discard_letter(struct ask *ask) { change_letter(ask, STREAM_REQUEST_LETTER_DISCARD); }

const struct route routes_letters[] = {
    {"GET", "/v1/dead-letters", list_letters, "stream limit cursor", ROUTE_PLAIN,
     "listDeadLetters"},
    {"GET", "/v1/dead-letters/{id}", get_letter, NULL, ROUTE_PLAIN, "getDeadLetter"},
    {"PUT", "/v1/dead-letters/{id}", edit_letter, NULL, ROUTE_PLAIN, "editDeadLetter"},
    {"DELETE", "/v1/dead-letters/{id}", discard_letter, NULL, ROUTE_PLAIN, "discardDeadLetter"},
    {"POST", "/v1/dead-letters/{id}/resubmit", resubmit_letter, NULL, ROUTE_PLAIN,
     "resubmitDeadLetter"},
    {0},
};
