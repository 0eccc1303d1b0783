/* SPDX-License-Identifier: Apache-2.0
 *
 * See replies.h: decides what is to be told, and sends it on its way in the step it tells of.
 */
#include "core/replies.h"

#include "core/limits.h"
#include "core/state.h"

#include "base/planted.h"

/* The parts of a reply without its output, with all that escaping can make of them, as often as
 * they are copied: note, event, record, letter, effect. */
#define REPLY_COPIES_N ((size_t)8)
#define ESCAPED(size) ((size_t)6 * (size)) /* "\u0000" */
#define REPLY_SIZE                                                                                 \
    (ESCAPED(LIMIT_HUB_SIZE + LIMIT_ID_SIZE + 2 * LIMIT_NAME_SIZE + REPLY_CORRELATION_SIZE_MAX +   \
             REPLY_MESSAGE_SIZE_MAX) +                                                             \
     REPLY_URL_SIZE_MAX + 1024)

/* Of an execution, until the end of the step. */
static struct bytes reply_id(struct core *c, const uint8_t *execution_id, const char *event)
{
    size_t event_len = strlen(event);
    size_t size = EXECUTION_TEXT_SIZE + 1 + event_len;
    assert(size <= LIMIT_ID_SIZE);
    char *id = arena_alloc(&c->temporary, size);
    assert(id != NULL);
    execution_id_text(execution_id, id);
    id[EXECUTION_TEXT_SIZE] = '-';
    memcpy(id + EXECUTION_TEXT_SIZE + 1, event, event_len);
    return bytes_make(id, size);
}

static void send_note(struct core *c, const uint8_t *execution_id, struct bytes url,
                      const struct reply_note *note)
{
    struct buffer tags;
    assert(url.len > 0);
    assert(url.len <= REPLY_URL_SIZE_MAX);
    struct event_started started = {
        .name = BYTES_LITERAL(REPLY_NAME),
        .instance_id = reply_id(c, execution_id, note->event),
    };
    buffer_init(&tags, c->mem);
    tags_add(&tags, &c->scratch, BYTES_LITERAL(REPLY_URL_TAG), url);
    buffer_clear(&c->events);
    reply_note_write(&c->events, note);
    assert(!tags.failed);
    assert(!c->events.failed);
    started.tags = buffer_view(&tags);
    started.input = maybe_some(buffer_view(&c->events));
    new_execution_id(c, started.execution_id);
    buffer_clear(&c->scratch);
    event_started_write(&c->scratch, c->now_ns, &started);
    assert(!c->scratch.failed);
    buffer_release(&tags);
    struct bytes target = sibling_key(c, BYTES_LITERAL(REPLY_HUB "/"), started.instance_id);
    outbox_send(c, MESSAGE_START, target, BYTES_NONE, buffer_view(&c->scratch));
}

/* event, status and what came of it are filled in. */
static void tell(struct core *c, struct bytes key, const struct event_started *started,
                 struct reply_note *note)
{
    assert(!started->has_parent); /* what a child does is its parent's business */
    assert(note->event != NULL);
    struct maybe url = tags_find(started->tags, BYTES_LITERAL(REPLY_TO_TAG));
    if (url.value.len == 0 || url.value.len > REPLY_URL_SIZE_MAX) return;
    note->hub = key_hub(key);
    note->id = key_id(key);
    note->name = started->name;
    note->correlation_id = tags_find(started->tags, BYTES_LITERAL(REPLY_CORRELATION_TAG));
    note->time_ns = c->now_ns;
    send_note(c, started->execution_id, url.value, note);
}

void replies_received(struct core *c, struct bytes key, const struct event_started *started)
{
    if (started->tags.len == 0) return;
    struct reply_note note = {.event = "received", .status = STATUS_PENDING};
    tell(c, key, started, &note);
}

bool instance_is_reply(const struct instance *i)
{
    return bytes_equal(i->name, BYTES_LITERAL(REPLY_NAME)) &&
           bytes_equal(key_hub(i->key), BYTES_LITERAL(REPLY_HUB));
}

static const char *end_name(const struct instance *i, enum orchestration_status status)
{
    if (bytes_equal(i->custom_status.value, BYTES_LITERAL(REPLY_COMPENSATED))) return "compensated";
    return status == STATUS_COMPLETED ? "completed" : "failed";
}

void replies_ended(struct instance *i)
{
    assert(instance_is_terminal(i));
    assert(!i->is_purged);
    if (i->status == STATUS_COMPLETED && instance_is_reply(i)) {
        /* it was heard, and has nothing more to say to anybody */
        struct record record = {.kind = RECORD_PURGED, .key = i->key};
        emit(i->core, &record);
        assert(i->is_purged);
        return;
    }
    if (!i->has_reply || (planted("reply_skipped") && i->status == STATUS_TERMINATED)) return;
    struct event_completed completed;
    struct event_started started;
    struct core *c = i->core;
    enum status status = event_completed_decode(event_bytes(i->completed), &completed);
    assert(status == OK);
    assert(i->status == completed.status);
    status = event_started_decode(event_bytes(i->started), &c->temporary, &started);
    assert(status == OK);
    /* the one that clients are shown */
    memcpy(started.execution_id, i->execution_id, EXECUTION_ID_SIZE);
    struct reply_note note = {
        .event = end_name(i, completed.status),
        .status = completed.status,
        .output = completed.result,
        .failure = completed.failure,
    };
    tell(c, i->key, &started, &note);
}

size_t replies_size(size_t output_size)
{
    if (output_size > REPLY_OUTPUT_SIZE_MAX) output_size = REPLY_OUTPUT_SIZE_MAX;
    return REPLY_COPIES_N * (REPLY_SIZE + ESCAPED(output_size));
}
