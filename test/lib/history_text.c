/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the events with the wire's reader, not with the core's codec, so that the two check each
 * other.
 */
#include "test/lib/history_text.h"

#include "base/assert.h"
#include "core/event.h"
#include "wire/pb.h"

#include <stdarg.h>
#include <stdio.h>

__attribute__((format(printf, 2, 3))) static void say(struct buffer *out, const char *format, ...)
{
    char line[256];
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    assert(n >= 0);
    assert((size_t)n < sizeof line);
    buffer_append(out, line, (size_t)n);
}

static void say_bytes(struct buffer *out, struct bytes text)
{
    say(out, " ");
    if (text.len == 0) say(out, "''");
    buffer_append_bytes(out, text);
}

/* What to print of a field of an event's body. */
enum shape {
    SHAPE_TEXT = 1, /* a plain string */
    SHAPE_VALUE,    /* a StringValue */
    SHAPE_TIME,     /* a Timestamp, in ms */
    SHAPE_FAILURE,  /* TaskFailureDetails */
    SHAPE_STATUS,   /* OrchestrationStatus */
    SHAPE_RECURSE,  /* a bool */
};

struct field_shape {
    enum event_kind kind;
    uint32_t number;
    enum shape shape;
};

static const struct field_shape shapes[] = {
    {EVENT_EXECUTION_STARTED, 1, SHAPE_TEXT},
    {EVENT_EXECUTION_STARTED, 3, SHAPE_VALUE},
    {EVENT_EXECUTION_COMPLETED, 1, SHAPE_STATUS},
    {EVENT_EXECUTION_COMPLETED, 2, SHAPE_VALUE},
    {EVENT_EXECUTION_COMPLETED, 3, SHAPE_FAILURE},
    {EVENT_EXECUTION_TERMINATED, 1, SHAPE_VALUE},
    {EVENT_EXECUTION_TERMINATED, 2, SHAPE_RECURSE},
    {EVENT_TASK_SCHEDULED, 1, SHAPE_TEXT},
    {EVENT_TASK_SCHEDULED, 3, SHAPE_VALUE},
    {EVENT_TASK_COMPLETED, 2, SHAPE_VALUE},
    {EVENT_TASK_FAILED, 2, SHAPE_FAILURE},
    {EVENT_CHILD_CREATED, 1, SHAPE_TEXT},
    {EVENT_CHILD_CREATED, 2, SHAPE_TEXT},
    {EVENT_CHILD_CREATED, 4, SHAPE_VALUE},
    {EVENT_CHILD_COMPLETED, 2, SHAPE_VALUE},
    {EVENT_CHILD_FAILED, 2, SHAPE_FAILURE},
    {EVENT_TIMER_CREATED, 1, SHAPE_TIME},
    {EVENT_TIMER_FIRED, 1, SHAPE_TIME},
    {EVENT_EVENT_SENT, 1, SHAPE_TEXT},
    {EVENT_EVENT_SENT, 2, SHAPE_TEXT},
    {EVENT_EVENT_SENT, 3, SHAPE_VALUE},
    {EVENT_EVENT_RAISED, 1, SHAPE_TEXT},
    {EVENT_EVENT_RAISED, 2, SHAPE_VALUE},
    {EVENT_EXECUTION_SUSPENDED, 1, SHAPE_VALUE},
    {EVENT_EXECUTION_RESUMED, 1, SHAPE_VALUE},
    {EVENT_EXECUTION_REWOUND, 1, SHAPE_VALUE},
    {EVENT_ENTITY_SIGNALED, 1, SHAPE_TEXT},
    {EVENT_ENTITY_SIGNALED, 2, SHAPE_TEXT},
    {EVENT_ENTITY_SIGNALED, 3, SHAPE_TIME},
    {EVENT_ENTITY_SIGNALED, 4, SHAPE_VALUE},
    {EVENT_ENTITY_SIGNALED, 5, SHAPE_VALUE},
    {EVENT_ENTITY_CALLED, 1, SHAPE_TEXT},
    {EVENT_ENTITY_CALLED, 2, SHAPE_TEXT},
    {EVENT_ENTITY_CALLED, 4, SHAPE_VALUE},
    {EVENT_ENTITY_CALLED, 5, SHAPE_VALUE},
    {EVENT_ENTITY_CALLED, 7, SHAPE_VALUE},
    {EVENT_ENTITY_COMPLETED, 1, SHAPE_TEXT},
    {EVENT_ENTITY_COMPLETED, 2, SHAPE_VALUE},
    {EVENT_ENTITY_FAILED, 1, SHAPE_TEXT},
    {EVENT_ENTITY_FAILED, 2, SHAPE_FAILURE},
    {EVENT_ENTITY_LOCK_REQUESTED, 1, SHAPE_TEXT},
    {EVENT_ENTITY_LOCK_REQUESTED, 2, SHAPE_TEXT},
    {EVENT_ENTITY_LOCK_GRANTED, 1, SHAPE_TEXT},
    {EVENT_ENTITY_UNLOCK_SENT, 1, SHAPE_TEXT},
    {EVENT_ENTITY_UNLOCK_SENT, 3, SHAPE_VALUE},
};

static void say_failure(struct buffer *out, struct bytes failure)
{
    struct pb_reader r = pb_reader_make(failure);
    struct pb_field f;
    while (pb_next(&r, &f)) {
        if (f.number == 1 || f.number == 2) say_bytes(out, f.bytes);
        if (f.number == 5 && pb_bool(&f)) say(out, " (final)");
    }
    assert(!r.failed);
}

static void say_field(struct buffer *out, enum shape shape, const struct pb_field *f)
{
    struct bytes text = BYTES_NONE;
    int64_t seconds = 0;
    int32_t nanos = 0;
    switch (shape) {
    case SHAPE_TEXT: say_bytes(out, f->bytes); break;
    case SHAPE_VALUE:
        assert(pb_get_string_value(f, &text));
        say_bytes(out, text);
        break;
    case SHAPE_TIME:
        assert(pb_get_timestamp(f, &seconds, &nanos));
        if (nanos % 1000000 == 0)
            say(out, " at %lld%03d", (long long)seconds, nanos / 1000000);
        else
            say(out, " at %lld.%09d s", (long long)seconds, nanos);
        break;
    case SHAPE_FAILURE: say_failure(out, f->bytes); break;
    case SHAPE_STATUS:
        say(out, " %s", orchestration_status_name((enum orchestration_status)pb_int32(f)));
        break;
    case SHAPE_RECURSE: say(out, " recursively"); break;
    }
}

static void say_body(struct buffer *out, enum event_kind kind, struct bytes body)
{
    struct pb_reader r = pb_reader_make(body);
    struct pb_field f;
    while (pb_next(&r, &f)) {
        for (size_t n = 0; n < sizeof shapes / sizeof shapes[0]; n++) {
            if (shapes[n].kind == kind && shapes[n].number == f.number) {
                say_field(out, shapes[n].shape, &f);
            }
        }
    }
    assert(!r.failed);
}

void history_text(struct buffer *out, struct bytes packed)
{
    struct reader r = reader_make(packed);
    struct bytes one;
    unsigned row = 0;

    while (strings_next(&r, &one)) {
        struct event_head head;
        enum status status = event_head_decode(one, &head);
        assert(status == OK);
        say(out, "%u %s", ++row, event_name(head.kind));
        if (head.id >= 0) say(out, " #%d", head.id);
        if (head.ref >= 0) say(out, " of #%d", head.ref);
        say_body(out, head.kind, head.body);
        say(out, "\n");
    }
    assert(!r.failed);
}
