/* SPDX-License-Identifier: Apache-2.0
 *
 * A scenario with a crash at every turn. What a crash takes from an orchestrator is its memory: the
 * engine has the rest, and gives it back as a history. So a crash is that memory thrown away, and
 * each run must tell the same story as the first: the same calls, and the same ends.
 */
#include "lib/kit.h"

#include "wire/pb.h"

#include <stdio.h>

/* What is compared. */
struct story {
    norn_status status; /* of the scenario */
    struct buffer ends; /* a line for each instance */
    struct buffer calls;
};

static void put_text(struct buffer *out, const char *text)
{
    buffer_append_bytes(out, bytes_of_text(text));
}

static void put_failure(struct buffer *out, struct bytes failure)
{
    struct pb_reader r = pb_reader_make(failure);
    struct pb_field f;

    while (pb_next(&r, &f)) {
        if (f.number != 1 && f.number != 2) continue;
        put_text(out, f.number == 1 ? " " : ": ");
        buffer_append_bytes(out, f.bytes);
    }
}

static enum status put_end(void *user, const struct instance_view *view)
{
    struct buffer *out = user;

    buffer_append_bytes(out, key_id(view->key));
    put_text(out, view->is_purged ? " purged" : view->is_entity ? " has" : " is ");
    if (!view->is_purged && !view->is_entity) {
        put_text(out, orchestration_status_name(view->status));
    }
    struct maybe value = view->is_entity ? view->entity_state : view->output;
    if (value.has) {
        put_text(out, " ");
        buffer_append_bytes(out, value.value);
    }
    if (view->failure.has) put_failure(out, view->failure.value);
    if (view->custom_status.has) {
        put_text(out, " with status ");
        buffer_append_bytes(out, view->custom_status.value);
    }
    put_text(out, "\n");
    return out->failed ? E_NOMEM : OK;
}

static void story_init(struct story *s, struct norn_test *t)
{
    buffer_init(&s->ends, &t->mem);
    buffer_init(&s->calls, &t->mem);
}

static void story_release(struct story *s)
{
    buffer_release(&s->ends);
    buffer_release(&s->calls);
}

/* One run, from the beginning. E_NOMEM. */
static enum status tell(struct norn_test *t, uint64_t crash_at, norn_test_scenario_fn *scenario,
                        void *user, struct story *out)
{
    enum status status = kit_reset(t);

    if (status != OK) return status;
    t->crash_at = crash_at;
    out->status = scenario(t, user);
    t->crash_at = KIT_CRASH_NEVER;
    buffer_clear(&out->ends);
    buffer_clear(&out->calls);
    buffer_append_bytes(&out->calls, buffer_view(&t->calls));
    status = core_each(t->core, put_end, &out->ends);
    return status == OK && out->calls.failed ? E_NOMEM : status;
}

/* ---- comparing ---- */

static struct bytes next_line(struct bytes *text)
{
    if (text->len == 0) return BYTES_LITERAL("nothing");
    const uint8_t *end = memchr(text->ptr, '\n', text->len);
    size_t len = end == NULL ? text->len : (size_t)(end - text->ptr);
    struct bytes line = bytes_make(text->ptr, len);
    size_t used = end == NULL ? len : len + 1;
    *text = bytes_make(text->ptr + used, text->len - used);
    return line;
}

/* Says what is different, if anything is. */
static bool texts_are_equal(struct norn_test *t, const char *when, struct buffer *expected,
                            struct buffer *got)
{
    struct bytes a = buffer_view(expected);
    struct bytes b = buffer_view(got);

    while (a.len > 0 || b.len > 0) {
        struct bytes line_a = next_line(&a);
        struct bytes line_b = next_line(&b);
        if (bytes_equal(line_a, line_b)) continue;
        kit_say(t, "%s: expected \"%.*s\", got \"%.*s\"", when, (int)line_a.len,
                (const char *)line_a.ptr, (int)line_b.len, (const char *)line_b.ptr);
        return false;
    }
    return true;
}

static bool stories_are_equal(struct norn_test *t, const char *when, struct story *expected,
                              struct story *got)
{
    if (!texts_are_equal(t, when, &expected->ends, &got->ends)) return false;
    if (!texts_are_equal(t, when, &expected->calls, &got->calls)) return false;
    if (expected->status == got->status) return true;
    kit_say(t, "%s: the scenario answers %s instead of %s", when, user_status_name(got->status),
            user_status_name(expected->status));
    return false;
}

static norn_status again(struct norn_test *t, uint64_t crash_at, const char *when,
                         norn_test_scenario_fn *scenario, void *user, struct story *expected)
{
    struct story got;

    story_init(&got, t);
    norn_status status = status_for_user(tell(t, crash_at, scenario, user, &got));
    if (status == NORN_OK && !stories_are_equal(t, when, expected, &got)) status = NORN_E_FAILED;
    story_release(&got);
    return status;
}

/* ---- all of them ---- */

static norn_status crash_everywhere(struct norn_test *t, norn_test_scenario_fn *scenario,
                                    void *user, struct story *first)
{
    char when[80];
    norn_status status = status_for_user(tell(t, KIT_CRASH_NEVER, scenario, user, first));
    uint64_t turns_n = t->turns_n;

    if (status == NORN_OK) status = first->status;
    if (status != NORN_OK) return status;
    /* else a scenario that never tells the same story twice would be blamed on a crash */
    status = again(t, KIT_CRASH_NEVER, "without any crash, the second time", scenario, user, first);
    for (uint64_t n = 1; status == NORN_OK && n <= turns_n; n++) {
        (void)snprintf(when, sizeof when, "after a crash before turn %llu of %llu",
                       (unsigned long long)n, (unsigned long long)turns_n);
        status = again(t, n, when, scenario, user, first);
    }
    if (status != NORN_OK) return status;
    return again(t, KIT_CRASH_ALWAYS, "after a crash before every turn", scenario, user, first);
}

static void drop_line(void *user, const char *line)
{
    (void)user;
    (void)line;
}

norn_status norn_test_crash_everywhere(norn_test *test, norn_test_scenario_fn *scenario, void *user)
{
    struct journal_lines lines;
    struct story first;

    if (test == NULL || scenario == NULL) return NORN_E_INVALID;
    if (test->is_settling) return NORN_E_PRECONDITION;
    test->error[0] = '\0';
    lines = test->lines;
    test->lines = (struct journal_lines){.log = drop_line}; /* each would come as often */
    story_init(&first, test);
    norn_status status = crash_everywhere(test, scenario, user, &first);
    story_release(&first);
    test->lines = lines;
    if (status != NORN_OK && test->error[0] == '\0') {
        kit_say(test, "%s", norn_status_text(status));
    }
    return status;
}
