/* SPDX-License-Identifier: Apache-2.0
 *
 * What the engine knows as JSON. Runs on the host's thread too, while a view is there: everything
 * goes straight into the buffer.
 */
#include "rest/state.h"

#include "wire/pb.h"

#define INNER_FAILURES_MAX 10

static const struct {
    const char *word;
    enum orchestration_status status;
} statuses[] = {
    {"pending", STATUS_PENDING},     {"running", STATUS_RUNNING},
    {"suspended", STATUS_SUSPENDED}, {"completed", STATUS_COMPLETED},
    {"failed", STATUS_FAILED},       {"terminated", STATUS_TERMINATED},
    {"canceled", STATUS_CANCELED},   {"continuedAsNew", STATUS_CONTINUED_AS_NEW},
};

const char *status_word(enum orchestration_status status)
{
    for (size_t n = 0; n < sizeof statuses / sizeof statuses[0]; n++) {
        if (statuses[n].status == status) return statuses[n].word;
    }
    return "unknown";
}

bool status_of_word(struct bytes word, enum orchestration_status *out)
{
    for (size_t n = 0; n < sizeof statuses / sizeof statuses[0]; n++) {
        if (!bytes_equal(word, bytes_of_text(statuses[n].word))) continue;
        *out = statuses[n].status;
        return *out != STATUS_CONTINUED_AS_NEW; /* no instance stays in it */
    }
    return false;
}

/* ---- parts ---- */

void write_payload(struct json *j, struct bytes payload)
{
    struct bytes raw;
    size_t offset;

    if (json_check(payload, &raw, &offset) == NULL)
        json_raw(j, raw);
    else
        json_bytes(j, payload);
}

void write_payload_of(struct json *j, const char *key, struct maybe payload)
{
    if (!payload.has) return;
    json_key(j, key);
    write_payload(j, payload.value);
}

void write_text_of(struct json *j, const char *key, struct bytes text)
{
    if (text.len == 0) return;
    json_key(j, key);
    json_bytes(j, text);
}

void write_maybe_of(struct json *j, const char *key, struct maybe text)
{
    if (!text.has) return;
    json_key(j, key);
    json_bytes(j, text.value);
}

void write_time(struct json *j, int64_t ns)
{
    char text[MOMENT_SIZE];

    json_bytes(j, bytes_make(text, time_format(ns, text)));
}

void write_time_of(struct json *j, const char *key, int64_t ns)
{
    json_key(j, key);
    write_time(j, ns);
}

void write_accepted(struct errand *errand)
{
    struct json j;

    json_init(&j, &errand->reply);
    json_object_begin(&j);
    json_key(&j, "id");
    json_bytes(&j, key_id(errand->request.key));
    json_object_end(&j);
    errand->number = 202;
}

/* ---- failures ---- */

static void write_failure_at(struct json *j, struct bytes details, unsigned level)
{
    struct pb_reader r = pb_reader_make(details);
    struct pb_field field;
    struct bytes inner = BYTES_NONE;
    struct bytes text;
    struct bytes type = BYTES_NONE, message = BYTES_NONE, stack = BYTES_NONE;
    bool is_final = false;

    while (pb_next(&r, &field)) {
        if (field.number == 1) type = field.bytes;
        if (field.number == 2) message = field.bytes;
        if (field.number == 3 && pb_get_string_value(&field, &text)) stack = text;
        if (field.number == 4) inner = field.bytes;
        if (field.number == 5) is_final = pb_bool(&field);
    }
    json_object_begin(j);
    json_key(j, "type");
    json_bytes(j, type);
    json_key(j, "message");
    json_bytes(j, message);
    write_text_of(j, "stackTrace", stack);
    if (is_final) {
        json_key(j, "isNonRetriable");
        json_bool(j, true);
    }
    if (inner.len > 0 && level < INNER_FAILURES_MAX) {
        json_key(j, "inner");
        write_failure_at(j, inner, level + 1);
    }
    json_object_end(j);
}

void write_failure(struct json *j, struct bytes details) { write_failure_at(j, details, 0); }

/* ---- instances ---- */

/* Entry of a map: key and value. */
static void read_tag(struct bytes entry, struct bytes *key, struct bytes *value)
{
    struct pb_reader r = pb_reader_make(entry);
    struct pb_field field;

    *key = *value = BYTES_NONE;
    while (pb_next(&r, &field)) {
        if (field.number == 1) *key = field.bytes;
        if (field.number == 2) *value = field.bytes;
    }
}

/* Our own tags are fields of the instance. */
static const char *own_tag(struct bytes key)
{
    if (bytes_equal(key, BYTES_LITERAL(TAG_REPLY_TO))) return "replyTo";
    return bytes_equal(key, BYTES_LITERAL(TAG_CORRELATION)) ? "correlationId" : NULL;
}

static void write_tags(struct json *j, struct bytes tags)
{
    struct reader r = reader_make(tags);
    struct bytes entry, key, value;
    bool is_open = false;

    while (strings_next(&r, &entry)) {
        read_tag(entry, &key, &value);
        if (own_tag(key) != NULL) continue;
        if (!is_open) json_key(j, "tags");
        if (!is_open) json_object_begin(j);
        is_open = true;
        json_key_bytes(j, key);
        json_bytes(j, value);
    }
    if (is_open) json_object_end(j);
    r = reader_make(tags);
    while (strings_next(&r, &entry)) {
        read_tag(entry, &key, &value);
        if (own_tag(key) != NULL) write_text_of(j, own_tag(key), value);
    }
}

static void write_execution_id(struct json *j, const uint8_t *id)
{
    static const uint8_t none[EXECUTION_ID_SIZE] = {0};
    char text[EXECUTION_TEXT_SIZE];

    if (memcmp(id, none, sizeof none) == 0) return; /* a list of keys does not know it */
    execution_id_text(id, text);
    write_text_of(j, "executionId", bytes_make(text, sizeof text));
}

/* In milliseconds, since it may be a time after 2262 (it came over gRPC or from C); beyond the year
 * 9999 it has no text, and is left out. */
static void write_scheduled(struct json *j, int64_t ms)
{
    char text[MOMENT_SIZE];
    size_t len = moment_format(moment_of_ms(ms), MOMENT_SHORTEST, text);

    if (ms != 0 && len > 0) write_text_of(j, "scheduledAt", bytes_make(text, len));
}

void write_instance(struct json *j, const struct instance_view *view, bool with_payloads)
{
    json_object_begin(j);
    write_text_of(j, "id", key_id(view->key));
    write_text_of(j, "hub", key_hub(view->key));
    write_text_of(j, "name", view->name);
    write_maybe_of(j, "version", view->version);
    json_key(j, "status");
    json_text(j, status_word(view->status));
    write_execution_id(j, view->execution_id);
    write_time_of(j, "createdAt", view->created_ns);
    write_time_of(j, "updatedAt", view->updated_ns);
    if (view->is_terminal) write_time_of(j, "completedAt", view->completed_ns);
    write_scheduled(j, view->scheduled_ms);
    write_text_of(j, "parentId", view->parent_id);
    if (with_payloads) {
        write_payload_of(j, "input", view->input);
        write_payload_of(j, "output", view->output);
        write_payload_of(j, "customStatus", view->custom_status);
    }
    if (view->failure.has) {
        json_key(j, "failure");
        write_failure(j, view->failure.value);
    }
    write_tags(j, view->tags);
    if (view->history_n > 0) {
        json_key(j, "historyEvents");
        json_uint64(j, view->history_n);
        json_key(j, "historyBytes");
        json_uint64(j, view->history_size);
    }
    json_object_end(j);
}
