/* SPDX-License-Identifier: Apache-2.0
 *
 * A reply as JSON. It is made here and not when it is sent, because it tells how things were when
 * it was written down.
 */
#include "core/replies.h"

#include "base/moment.h"
#include "core/limits.h"
#include "core/state.h"
#include "wire/json.h"
#include "wire/json_read.h"
#include "wire/pb.h"

static bool is_json(struct bytes text)
{
    struct json_reader r = json_reader_make(text);
    if (!bytes_is_utf8(text) || !json_skip(&r)) return false;
    return json_peek(&r) == JSON_NONE && r.at == r.end;
}

/* Payloads are JSON as they are; what only an SDK of another mind can have stored is a string. */
static void put_output(struct json *j, struct bytes output)
{
    if (output.len > REPLY_OUTPUT_SIZE_MAX) {
        json_key(j, "outputSize");
        json_uint64(j, output.len);
        return;
    }
    json_key(j, "output");
    if (is_json(output))
        json_raw(j, output);
    else
        json_bytes(j, output);
}

static void put_failure(struct json *j, struct bytes failure)
{
    struct pb_field f;
    struct bytes type = BYTES_NONE;
    struct pb_reader r = pb_reader_make(failure);
    while (pb_next(&r, &f)) {
        if (f.number == 1 && f.wire == PB_LEN) type = f.bytes;
    }
    json_key(j, "failure");
    json_object_begin(j);
    json_key(j, "type");
    json_bytes(j, text_cut(type, LIMIT_NAME_SIZE));
    json_key(j, "message");
    json_bytes(j, text_cut(failure_message(failure), REPLY_MESSAGE_SIZE_MAX));
    json_object_end(j);
}

/* "completed" for COMPLETED. */
static void put_status(struct json *j, enum orchestration_status status)
{
    char text[32];
    const char *name = orchestration_status_name(status);
    size_t n = 0;
    for (; name[n] != '\0' && n + 1 < sizeof text; n++) {
        text[n] = (char)(name[n] >= 'A' && name[n] <= 'Z' ? name[n] - 'A' + 'a' : name[n]);
    }
    assert(name[n] == '\0'); /* it is not cut */
    json_key(j, "status");
    json_bytes(j, bytes_make(text, n));
}

void reply_note_write(struct buffer *out, const struct reply_note *note)
{
    struct json j;
    char time[MOMENT_SIZE];
    json_init(&j, out);
    json_object_begin(&j);
    json_key(&j, "event");
    json_text(&j, note->event);
    json_key(&j, "id");
    json_bytes(&j, note->id);
    json_key(&j, "hub");
    json_bytes(&j, note->hub);
    json_key(&j, "name");
    json_bytes(&j, note->name);
    if (note->correlation_id.has) {
        json_key(&j, "correlationId");
        json_bytes(&j, text_cut(note->correlation_id.value, REPLY_CORRELATION_SIZE_MAX));
    }
    put_status(&j, note->status);
    json_key(&j, "time");
    json_bytes(&j, bytes_make(time, moment_format(moment_of_ns(note->time_ns), 9, time)));
    if (note->output.has) put_output(&j, note->output.value);
    if (note->failure.has) put_failure(&j, note->failure.value);
    json_object_end(&j);
}

struct maybe tags_find(struct bytes tags, struct bytes name)
{
    struct reader entries = reader_make(tags);
    struct bytes entry;
    struct maybe found = MAYBE_NONE;
    while (strings_next(&entries, &entry)) {
        struct pb_field f;
        struct bytes key = BYTES_NONE;
        struct bytes value = BYTES_NONE;
        struct pb_reader r = pb_reader_make(entry);
        while (pb_next(&r, &f)) {
            if (f.number == 1 && f.wire == PB_LEN) key = f.bytes;
            if (f.number == 2 && f.wire == PB_LEN) value = f.bytes;
        }
        if (!r.failed && bytes_equal(key, name))
            found = maybe_some(value); /* the last one counts */
    }
    return found;
}

void tags_add(struct buffer *tags, struct buffer *temporary, struct bytes name, struct bytes value)
{
    assert(tags != temporary);
    assert(name.len > 0);
    buffer_clear(temporary);
    pb_put_bytes(temporary, 1, name);
    pb_put_bytes(temporary, 2, value);
    strings_add(tags, buffer_view(temporary));
}
