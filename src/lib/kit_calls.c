/* SPDX-License-Identifier: Apache-2.0
 *
 * What orchestrators ask for, as lines of text: so that a test compares a whole story with one
 * comparison of texts, and a failure shows it. The lines are described in norn_test.h.
 */
#include "lib/kit.h"

#include "base/clock.h"
#include "core/event_entity.h"
#include "wire/pb.h"

#include <stdio.h>

static void put_text(struct buffer *out, const char *text)
{
    buffer_append_bytes(out, bytes_of_text(text));
}

static void put_word(struct buffer *out, struct bytes word)
{
    buffer_u8(out, ' ');
    buffer_append_bytes(out, word);
}

static void put_maybe(struct buffer *out, struct maybe word)
{
    if (word.has) put_word(out, word.value);
}

static void put_timer(struct norn_test *t, const struct action *action)
{
    char text[40];
    int64_t at_ms = event_timestamp_ms(action->fire_at_s, action->fire_at_ns);

    (void)snprintf(text, sizeof text, "timer %lld", (long long)(at_ms - t->now_ms));
    put_text(&t->calls, text);
}

/* Of a signal or call; not among what the core reads of it. */
#define ENTITY_INPUT_FIELD 4

static struct maybe entity_input(struct bytes body)
{
    struct pb_reader r = pb_reader_make(body);
    struct pb_field f;
    struct maybe input = MAYBE_NONE;

    while (pb_next(&r, &f)) {
        if (f.number == ENTITY_INPUT_FIELD) input.has = pb_get_string_value(&f, &input.value);
    }
    return input;
}

static void put_entity(struct norn_test *t, const struct action *action, struct arena *arena)
{
    struct event_entity message;
    struct buffer *out = &t->calls;
    struct bytes id;

    if (entity_body_decode(action->entity_event, action->entity_body, arena, &message) != OK) {
        return;
    }
    if (message.kind == EVENT_ENTITY_LOCK_REQUESTED) {
        struct reader r = reader_make(message.lock_set);
        put_text(out, "lock");
        while (strings_next(&r, &id)) put_word(out, id);
        return;
    }
    put_text(out, message.kind == EVENT_ENTITY_UNLOCK_SENT ? "unlock"
                  : message.kind == EVENT_ENTITY_CALLED    ? "ask"
                                                           : "signal");
    put_word(out, message.target);
    if (message.kind == EVENT_ENTITY_UNLOCK_SENT) return;
    put_word(out, message.operation);
    put_maybe(out, entity_input(action->entity_body));
}

static void put_named(struct norn_test *t, const char *verb, const struct action *action)
{
    put_text(&t->calls, verb);
    if (action->kind == ACTION_SEND_EVENT) put_word(&t->calls, action->instance_id);
    put_word(&t->calls, action->name);
    put_maybe(&t->calls, action->input);
}

static void put_action(struct norn_test *t, const struct action *action, struct arena *arena)
{
    switch (action->kind) {
    case ACTION_SCHEDULE_TASK: put_named(t, "call", action); break;
    case ACTION_CREATE_CHILD: put_named(t, "child", action); break;
    case ACTION_SEND_EVENT: put_named(t, "send", action); break;
    case ACTION_CREATE_TIMER: put_timer(t, action); break;
    case ACTION_SEND_ENTITY_MESSAGE: put_entity(t, action, arena); break;
    case ACTION_COMPLETE:
        if (action->status != STATUS_CONTINUED_AS_NEW) return; /* info tells how it ended */
        put_text(&t->calls, "continue");
        put_maybe(&t->calls, action->input);
        break;
    case ACTION_TERMINATE:
    case ACTION_REWIND: unreachable("the library does not decide this");
    }
    buffer_u8(&t->calls, '\n');
}

enum status kit_calls_add(struct norn_test *t, const struct orchestrator_answer *answer)
{
    struct arena arena;

    arena_init(&arena, &t->mem, 512);
    for (uint32_t n = 0; n < answer->actions_n; n++) put_action(t, &answer->actions[n], &arena);
    arena_release(&arena);
    return t->calls.failed ? E_NOMEM : OK;
}
