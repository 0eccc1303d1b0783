/* SPDX-License-Identifier: Apache-2.0
 *
 * Orchestrators for tests of the host, as small as can be. The name says what to do:
 *
 *      seqN     N steps, one after the other, then completes with "done"
 *      nap      a timer of one hour, then completes with "woken"
 *      parent   a child "<own id>-c" that is a seq1, then completes with "child done"
 *      lonely   the same with a child that waits
 *      keeper   the same as parent, but then it waits for ever
 *      outer    the same with a child that is a keeper
 *      wait     an event named "go", then completes with "went"
 *      fail     fails with "no luck"
 *
 * and an entity, of whatever name: it counts its operations, and the operation "forget" deletes it.
 *
 * Deterministic: what comes next follows from the history alone, which every turn must carry.
 */
#ifndef TEST_UNIT_HOST_PROGRAMS_H
#define TEST_UNIT_HOST_PROGRAMS_H

#include "base/assert.h"
#include "base/clock.h"
#include "core/core.h"

#include <stdio.h>
#include <stdlib.h>

#define NAP_MS INT64_C(3600000)

/* What a turn has been told, past and fresh. */
struct program_seen {
    uint32_t counts[32]; /* by event kind */
    int64_t started_ns;  /* of this turn */
};

static inline void program_look(struct program_seen *seen, struct bytes events)
{
    struct reader r = reader_make(events);
    struct bytes one;

    while (strings_next(&r, &one)) {
        struct event_head head;
        enum status status = event_head_decode(one, &head);
        assert(status == OK);
        seen->counts[head.kind]++;
        if (head.kind == EVENT_ORCHESTRATOR_STARTED) seen->started_ns = head.time_ns;
    }
}

static inline void program_complete(struct action *a, const char *result)
{
    a->kind = ACTION_COMPLETE;
    a->status = STATUS_COMPLETED;
    a->input = maybe_some(bytes_of_text(result));
}

static inline bool program_seq(const struct effect_work *work, const struct program_seen *seen,
                               struct action *a)
{
    uint32_t steps_n = (uint32_t)(work->name.ptr[3] - '0');
    uint32_t done_n = seen->counts[EVENT_TASK_COMPLETED];

    if (seen->counts[EVENT_TASK_SCHEDULED] > done_n) return false;
    if (done_n < steps_n) {
        a->kind = ACTION_SCHEDULE_TASK;
        a->id = (int32_t)done_n;
        a->name = BYTES_LITERAL("step");
    } else {
        a->id = (int32_t)steps_n;
        program_complete(a, "done");
    }
    return true;
}

static inline bool program_nap(const struct program_seen *seen, struct action *a)
{
    if (seen->counts[EVENT_TIMER_FIRED] > 0) {
        a->id = 1;
        program_complete(a, "woken");
        return true;
    }
    if (seen->counts[EVENT_TIMER_CREATED] > 0) return false;
    int64_t fire_ns = seen->started_ns + NAP_MS * NS_PER_MS;
    a->kind = ACTION_CREATE_TIMER;
    a->fire_at_s = fire_ns / NS_PER_S;
    a->fire_at_ns = (int32_t)(fire_ns % NS_PER_S);
    return true;
}

static inline struct bytes program_child(struct bytes name)
{
    if (bytes_equal(name, BYTES_LITERAL("lonely"))) return BYTES_LITERAL("wait");
    if (bytes_equal(name, BYTES_LITERAL("outer"))) return BYTES_LITERAL("keeper");
    return BYTES_LITERAL("seq1");
}

static inline bool program_is_parent(struct bytes name)
{
    return bytes_equal(name, BYTES_LITERAL("parent")) ||
           bytes_equal(name, BYTES_LITERAL("lonely")) ||
           bytes_equal(name, BYTES_LITERAL("keeper")) || bytes_equal(name, BYTES_LITERAL("outer"));
}

static inline bool program_parent(const struct effect_work *work, const struct program_seen *seen,
                                  struct arena *arena, struct action *a)
{
    if (seen->counts[EVENT_CHILD_COMPLETED] > 0) {
        if (bytes_equal(work->name, BYTES_LITERAL("keeper"))) return false;
        a->id = 1;
        program_complete(a, "child done");
        return true;
    }
    if (seen->counts[EVENT_CHILD_CREATED] > 0) return false;
    struct bytes id = key_id(work->ref.key);
    uint8_t *child = arena_alloc(arena, id.len + 2);
    assert(child != NULL);
    memcpy(child, id.ptr, id.len);
    memcpy(child + id.len, "-c", 2);
    a->kind = ACTION_CREATE_CHILD;
    a->name = program_child(work->name);
    a->instance_id = bytes_make(child, id.len + 2);
    return true;
}

static inline bool program_other(const struct effect_work *work, const struct program_seen *seen,
                                 struct arena *arena, struct action *a)
{
    if (bytes_equal(work->name, BYTES_LITERAL("wait"))) {
        if (seen->counts[EVENT_EVENT_RAISED] == 0) return false;
        program_complete(a, "went");
        return true;
    }
    assert(bytes_equal(work->name, BYTES_LITERAL("fail")));
    struct buffer failure;
    buffer_init(&failure, arena->mem);
    failure_write(&failure, "Unlucky", BYTES_LITERAL("no luck"), true);
    a->kind = ACTION_COMPLETE;
    a->status = STATUS_FAILED;
    a->failure = maybe_some(arena_copy(arena, buffer_view(&failure)));
    buffer_release(&failure);
    return true;
}

/* The answer to a turn; everything in arena. */
static inline void program_answer(const struct effect_work *work, struct arena *arena,
                                  struct orchestrator_answer *out)
{
    struct program_seen seen = {0};
    struct action *a = arena_alloc_zero(arena, sizeof *a);
    bool has_action = false;

    assert(a != NULL);
    assert(work->has_past);
    program_look(&seen, work->past);
    program_look(&seen, work->fresh);
    if (bytes_start_with(work->name, BYTES_LITERAL("seq"))) {
        has_action = program_seq(work, &seen, a);
    } else if (bytes_equal(work->name, BYTES_LITERAL("nap"))) {
        has_action = program_nap(&seen, a);
    } else if (program_is_parent(work->name)) {
        has_action = program_parent(work, &seen, arena, a);
    } else {
        has_action = program_other(work, &seen, arena, a);
    }
    *out = (struct orchestrator_answer){.actions = a, .actions_n = has_action ? 1 : 0};
}

static inline void program_entity(const struct effect_work *work, struct arena *arena,
                                  struct entity_answer *out)
{
    uint32_t n = strings_count(work->fresh);
    struct entity_result *results = arena_alloc_zero(arena, n * sizeof *results);
    char *state = arena_alloc(arena, 16);
    struct reader r = reader_make(work->fresh);
    struct bytes one;
    bool is_deleted = false;

    assert(results != NULL);
    assert(state != NULL);
    while (strings_next(&r, &one)) {
        struct event_entity entity;
        enum status status = event_entity_decode(one, arena, &entity);
        assert(status == OK);
        is_deleted = bytes_equal(entity.operation, BYTES_LITERAL("forget"));
    }
    char before[16] = "";
    memcpy(before, work->state.has ? work->state.value.ptr : (const uint8_t *)"",
           work->state.value.len);
    (void)snprintf(state, 16, "%ld", strtol(before, NULL, 10) + (long)n);
    *out = (struct entity_answer){.results = results, .results_n = n};
    if (!is_deleted) out->state = maybe_some(bytes_of_text(state));
}

#endif
