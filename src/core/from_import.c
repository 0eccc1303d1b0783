/* SPDX-License-Identifier: Apache-2.0
 *
 * An instance that has ended elsewhere, with its whole history. It comes from outside: all that a
 * recovery would check is checked here, and what does not hold is refused with words.
 */
#include "core/limits.h"
#include "core/state.h"

#include "base/planted.h"

static const char *start_of_import_problem(const struct event_started *started)
{
    const char *problem = client_name_problem(started->name);
    if (problem != NULL) return problem;
    if (started->version.has && started->version.value.len > LIMIT_NAME_SIZE)
        return "the version is longer than 256 bytes";
    return NULL;
}

/* The events, with ExecutionStarted naming the id that the instance has here. */
static struct bytes events_of(struct core *c, struct bytes key, struct bytes events,
                              const struct imported *imported)
{
    struct event_started started = imported->started;
    struct reader r = reader_make(events);
    struct bytes one;

    assert(imported->has_start);
    if (bytes_equal(started.instance_id, key_id(key))) return events;
    started.instance_id = key_id(key);
    if (planted("import_untagged")) started.tags = BYTES_NONE;
    buffer_clear(&c->scratch);
    event_started_write(&c->scratch, imported->created_ns, &started);
    buffer_clear(&c->events);
    while (strings_next(&r, &one)) {
        bool is_start = event_kind_of(one) == EVENT_EXECUTION_STARTED;
        if (event_kind_of(one) == EVENT_TASK_COMPLETED && planted("import_drops")) continue;
        strings_add(&c->events, is_start ? buffer_view(&c->scratch) : one);
    }
    assert(!c->scratch.failed); /* reserved before the step */
    assert(!c->events.failed);
    return buffer_view(&c->events);
}

void on_client_import(struct core *c, const struct input *in)
{
    struct bytes key = in->client.key;
    struct bytes events = in->client.data.value;
    struct imported imported;

    const char *problem = client_id_problem(key_id(key));
    if (problem == NULL && events.len == 0) problem = "the history has no events";
    if (problem != NULL) {
        reply(c, E_INVALID, problem);
        return;
    }
    if (events.len > LIMIT_HISTORY_SIZE || strings_count(events) > LIMIT_HISTORY_N) {
        reply(c, E_LIMIT, "the history has more than 200,000 events or 128 MiB");
        return;
    }
    problem = import_problem(c, events, &imported);
    if (problem == NULL) problem = start_of_import_problem(&imported.started);
    if (problem != NULL) {
        reply(c, E_INVALID, problem);
        return;
    }
    if (!imported.has_end) {
        reply(c, E_PRECONDITION,
              "the instance had not ended when it was exported: only ended ones are imported");
        return;
    }
    struct record queued;
    if (instance_find_live(c, key) != NULL || waiting_read(c, in, &queued)) {
        reply(c, E_EXISTS,
              "an orchestration instance already exists with this id: purge it first, or choose "
              "another id");
        return;
    }
    struct record record = {
        .kind = RECORD_IMPORTED,
        .key = key,
        .events = events_of(c, key, events, &imported),
    };
    emit(c, &record);
    const struct instance *i = instance_find_live(c, key);
    assert(i != NULL);
    assert(instance_is_terminal(i));
    assert(!instance_has_work(i)); /* all that it did, it did elsewhere */
    assert(i->inbox.n == 0);
    reply_instance(c, i);
}
