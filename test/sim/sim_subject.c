/* SPDX-License-Identifier: Apache-2.0
 *
 * What a client may conclude from what it has sent and seen.
 */
#include "test/sim/sim_subject.h"

#include "base/assert.h"
#include "base/mem.h"

#include <string.h>

struct subject *subject_new(struct world *w, struct bytes key, enum program program,
                            struct bytes input)
{
    struct subject *s = mem_take_zero(mem_process(), sizeof *s);

    assert(s != NULL);
    s->w = w;
    arena_init(&s->arena, mem_process(), 512);
    s->key = arena_copy(&s->arena, key);
    s->by_key.key = s->key;
    s->program = program;
    s->input = arena_copy(&s->arena, input);
    s->expected = program_expect(program, s->input, &s->arena);
    return s;
}

void subject_free(struct subject *s)
{
    arena_release(&s->arena);
    mem_give(mem_process(), s, sizeof *s);
}

bool subject_is_disturbed(const struct subject *s)
{
    return s->was_terminated || s->was_purged || s->was_rewound || s->was_restarted ||
           s->is_tainted;
}

bool subject_wants_events(const struct subject *s)
{
    return s->program == PROGRAM_collect || s->program == PROGRAM_collect_loop ||
           s->program == PROGRAM_either;
}

#define SUBJECT_FAIL(s, invariant, what)                                                           \
    sim_fail((s)->w, invariant, "%.*s (%s): %s", (int)(s)->key.len, (const char *)(s)->key.ptr,    \
             program_name((s)->program), what)

/* ---- S9: events ---- */

static struct raise *raise_of(struct subject *s, int64_t value, uint32_t *index)
{
    for (*index = 0; *index < s->raises_n; (*index)++) {
        if (s->raises[*index].value == value) return &s->raises[*index];
    }
    return NULL;
}

/* The network doubled it, or the instance that sends it was run again. */
static bool may_come_twice(const struct raise *r)
{
    return r->is_doubled || (r->relay != NULL && subject_is_disturbed(r->relay));
}

/* The list that a collector ended with: nothing invented, nothing twice, nothing out of order,
 * and nothing left out that came before something that is there. */
static void check_events(struct subject *s, struct bytes list)
{
    uint8_t seen[RAISES_MAX] = {0};
    int64_t value = 0;
    uint32_t last = 0; /* index + 1 of the last acknowledged one */

    while (number_next(&list, &value)) {
        uint32_t i = 0;
        struct raise *r = raise_of(s, value, &i);
        if (r == NULL || r->is_refused) SUBJECT_FAIL(s, "S9 events", "an event nobody sent");
        if (seen[i]++ > 0 && !may_come_twice(r)) SUBJECT_FAIL(s, "S9 events", "an event twice");
        if (!r->is_acked || r->is_doubled || r->is_relayed) continue;
        if (i + 1 <= last) SUBJECT_FAIL(s, "S9 order", "events overtook each other");
        last = i + 1;
    }
    for (uint32_t i = 0; i + 1 < last; i++) {
        const struct raise *r = &s->raises[i];
        if (r->is_acked && !r->is_relayed && seen[i] == 0)
            SUBJECT_FAIL(s, "S9 events", "an event is lost");
    }
}

static void check_either(struct subject *s, struct bytes output)
{
    uint32_t i = 0;
    int64_t value = 0;

    if (bytes_equal(output, BYTES_LITERAL("timer"))) return;
    if (!bytes_start_with(output, BYTES_LITERAL("event "))) SUBJECT_FAIL(s, "S1 result", "wrong");
    struct bytes rest = bytes_make(output.ptr + 6, output.len - 6);
    struct raise *r = number_next(&rest, &value) ? raise_of(s, value, &i) : NULL;
    if (r == NULL || r->is_refused) SUBJECT_FAIL(s, "S9 events", "an event nobody sent");
}

/* ---- the end ---- */

static void check_result(struct subject *s, const struct instance_view *view)
{
    struct bytes output = view->output.value;

    if (view->status != s->expected.status) SUBJECT_FAIL(s, "S1 result", "another status");
    /* Without token an answer for an execution before this one is taken for one to the step that
     * has the same number now. */
    bool is_open = s->w->has_nameless && s->program == PROGRAM_restless;
    if (s->expected.is_exact && !is_open && !bytes_equal(output, s->expected.output)) {
        SUBJECT_FAIL(s, "S1 result", "another output");
    }
    if (s->program == PROGRAM_collect || s->program == PROGRAM_collect_loop)
        check_events(s, output);
    if (s->program == PROGRAM_either) check_either(s, output);
}

static uint64_t view_digest(const struct subject *s, const struct instance_view *view)
{
    uint64_t digest = bytes_hash(view->output.value) + (uint64_t)view->status;

    digest = digest * 31 + bytes_hash(view->failure.value);
    if (!s->is_remote) digest = digest * 31 + view->history_n;
    digest = digest * 31 + (uint64_t)view->completed_ns;
    return digest * 31 + bytes_hash(bytes_make(view->execution_id, EXECUTION_ID_SIZE));
}

static void see_terminal(struct subject *s, const struct instance_view *view)
{
    uint64_t digest = view_digest(s, view);

    if (s->is_finished && s->starts_loose == 0 && digest != s->digest) {
        SUBJECT_FAIL(s, "S18 final", "changed after its end");
    }
    s->is_finished = true;
    s->digest = digest;
    if (!subject_is_disturbed(s)) check_result(s, view);
    bool ended_by_us = view->status == STATUS_TERMINATED;
    if (ended_by_us && !s->was_terminated && !s->is_tainted) {
        SUBJECT_FAIL(s, "S1 result", "terminated, and nobody asked for it");
    }
}

void subject_see(struct subject *s, const struct instance_view *view)
{
    if (view == NULL) {
        if (s->is_acked && !s->was_purged)
            SUBJECT_FAIL(s, "S1 lost", "acknowledged, and not there");
        return;
    }
    if (!s->is_acked && s->starts_loose == 0) SUBJECT_FAIL(s, "S1 refused", "refused, and there");
    if (s->is_gone && s->starts_loose == 0) SUBJECT_FAIL(s, "S22 purge", "purged, and there again");
    if (!bytes_equal(view->key, s->key)) SUBJECT_FAIL(s, "S24 key", "another instance was read");
    if (view->is_terminal) {
        see_terminal(s, view);
        return;
    }
    if (s->is_finished && s->starts_loose == 0) SUBJECT_FAIL(s, "S18 final", "runs after its end");
    bool is_standing = view->status == STATUS_SUSPENDED;
    if (is_standing && !s->was_suspended) SUBJECT_FAIL(s, "S23 suspended", "nobody asked for it");
    if (is_standing && s->is_standing && !s->is_remote && s->controls_loose == 0 &&
        s->starts_loose == 0 && view->history_n != s->standing_n) {
        SUBJECT_FAIL(s, "S23 suspended", "went on while suspended");
    }
    s->is_standing = is_standing;
    s->standing_n = view->history_n;
}

/* S3: what was there is still there, as long as it is the same execution. */
void subject_see_history(struct subject *s, struct bytes events)
{
    struct reader r = reader_make(events);
    struct bytes event;
    uint64_t hash = 0;
    uint32_t n = 0;
    uint64_t hash_then = 0;
    struct event_started started = {0};

    while (strings_next(&r, &event)) {
        struct event_head head;
        hash = hash * 31 + bytes_hash(event);
        if (++n == s->history_n) hash_then = hash;
        if (event_head_decode(event, &head) == OK && head.kind == EVENT_EXECUTION_STARTED) {
            (void)event_started_decode(event, &s->arena, &started);
        }
    }
    bool is_same = n > 0 && s->history_n > 0 &&
                   memcmp(started.execution_id, s->execution_id, EXECUTION_ID_SIZE) == 0;
    if (is_same && hash_then != s->history_hash) {
        SUBJECT_FAIL(s, "S3 append", "its history was rewritten");
    }
    memcpy(s->execution_id, started.execution_id, EXECUTION_ID_SIZE);
    s->history_n = n;
    s->history_hash = hash;
}

void subject_check_end(struct subject *s, const struct instance_view *view)
{
    subject_see(s, view);
    if (view != NULL && !view->is_terminal) SUBJECT_FAIL(s, "L1 finish", "still runs");
}
