/* SPDX-License-Identifier: Apache-2.0
 *
 * The rules of server_load.h:
 *
 *  - an instance whose start was acknowledged is there, until its purge was told;
 *  - after an acknowledged purge it is never there again;
 *  - what was seen to have ended never changes;
 *  - it ends as its flow must end, or, when its termination was told, terminated;
 *  - a collect has every event that was acknowledged before its stop was told, no event twice, none
 *    that was not told, and all in the order they were told in;
 *  - an entity has every number that was acknowledged, or belongs to an instance that completed,
 *    once; and none twice or that was never sent.
 */
#include "base/assert.h"
#include "base/mem.h"
#include "test/torture/server_load.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

struct account *ledger_add(struct load *l)
{
    if (l->accounts_n == l->accounts_size) {
        l->accounts_size = l->accounts_size * 2 + 64;
        l->accounts = realloc(l->accounts, l->accounts_size * sizeof(struct account *));
        assert(l->accounts != NULL);
    }
    struct account *a = calloc(1, sizeof *a);
    assert(a != NULL);
    l->accounts[l->accounts_n++] = a;
    return a;
}

struct signal_sent *ledger_add_signal(struct load *l)
{
    if (l->signals_n == l->signals_size) {
        l->signals_size = l->signals_size * 2 + 64;
        l->signals = realloc(l->signals, l->signals_size * sizeof *l->signals);
        assert(l->signals != NULL);
    }
    l->signals[l->signals_n] = (struct signal_sent){.number = ++l->serial};
    return &l->signals[l->signals_n++];
}

/* Ids are "t-<index>". */
struct account *ledger_find(struct load *l, struct bytes id)
{
    char text[FLOW_ID_SIZE];
    char *end;

    if (id.len >= sizeof text || id.len < 3) return NULL;
    memcpy(text, id.ptr, id.len);
    text[id.len] = '\0';
    size_t index = strtoull(text + 2, &end, 10);
    if (*end != '\0' || index >= l->accounts_n || strcmp(l->accounts[index]->id, text) != 0)
        return NULL;
    return l->accounts[index];
}

void ledger_wrong(struct load *l, const char *format, ...)
{
    va_list arguments;

    if (l->wrong[0] != '\0') return;
    va_start(arguments, format);
    (void)vsnprintf(l->wrong, sizeof l->wrong, format, arguments);
    va_end(arguments);
}

/* ---- outputs ---- */

/* The numbers after the ':' of a collect. */
static void check_events(struct load *l, const struct account *a, const char *numbers)
{
    uint32_t next = 0;
    char *end;

    while (*numbers == ' ') {
        uint32_t event = (uint32_t)strtoul(numbers, &end, 10);
        if (end == numbers) break;
        numbers = end;
        if (event >= a->events_n || event < next) {
            ledger_wrong(l, "%s: event %u of %u was never told, came twice or in another order",
                         a->id, event, a->events_n);
            return;
        }
        for (; next < event; next++) {
            if (a->events[next] != WORD_ACKNOWLEDGED) continue;
            ledger_wrong(l, "%s: the acknowledged event %u is not there", a->id, next);
            return;
        }
        next = event + 1;
    }
    for (; next < a->events_n; next++) {
        if (a->events[next] == WORD_ACKNOWLEDGED)
            ledger_wrong(l, "%s: the acknowledged event %u is not there", a->id, next);
    }
    if (strcmp(numbers, "\"") != 0) ledger_wrong(l, "%s: '%s' at its end", a->id, numbers);
}

static void check_end(struct load *l, const struct account *a)
{
    struct buffer expected;
    struct bytes got = bytes_of_text(a->output);

    if (a->status == STATUS_TERMINATED) {
        if (a->flow == FLOW_collect || a->end == WORD_NONE)
            ledger_wrong(l, "%s: terminated, but not by us", a->id);
        if (strcmp(a->output, "\"over\"") != 0)
            ledger_wrong(l, "%s: terminated with %s", a->id, a->output);
        return;
    }
    if (a->status != STATUS_COMPLETED || a->flow == FLOW_endless) {
        ledger_wrong(l, "%s: a %s ended with status %d: %s", a->id, flow_name(a->flow), a->status,
                     a->output);
        return;
    }
    buffer_init(&expected, mem_process());
    flow_output(&expected, a->flow, bytes_of_text(a->id), a->n);
    bool is_right = a->flow == FLOW_collect ? bytes_start_with(got, buffer_view(&expected))
                                            : bytes_equal(got, buffer_view(&expected));
    if (!is_right)
        ledger_wrong(l, "%s: the output of a %s of %u is %s", a->id, flow_name(a->flow), a->n,
                     a->output);
    else if (a->flow == FLOW_collect)
        check_events(l, a, a->output + expected.len);
    buffer_release(&expected);
}

/* ---- instances ---- */

static char *text_of(struct bytes b)
{
    char *text = calloc(1, b.len + 1);

    assert(text != NULL);
    if (b.len > 0) memcpy(text, b.ptr, b.len);
    return text;
}

void ledger_see(struct load *l, struct account *a, const struct seen *seen, uint64_t moment)
{
    bool is_late = a->has_ended && moment <= a->ended_at;

    if (!seen->exists) {
        if (a->start == WORD_ACKNOWLEDGED && a->purge == WORD_NONE)
            ledger_wrong(l, "%s: its start was acknowledged and it is not there", a->id);
        if (a->has_ended && a->purge == WORD_NONE)
            ledger_wrong(l, "%s: it had ended and is not there", a->id);
        return;
    }
    if (a->start == WORD_NONE) ledger_wrong(l, "%s: it is there without a start", a->id);
    if (a->is_absent) ledger_wrong(l, "%s: it was not there, and now it is", a->id);
    if (a->purge == WORD_ACKNOWLEDGED && moment > a->purged_at)
        ledger_wrong(l, "%s: its purge was acknowledged and it is there", a->id);
    if (!bytes_equal(seen->id, bytes_of_text(a->id)))
        ledger_wrong(l, "%s: the answer is about %.*s", a->id, (int)seen->id.len,
                     (const char *)seen->id.ptr);
    if (!status_is_final(seen->status)) {
        if (a->has_ended && !is_late) ledger_wrong(l, "%s: it had ended and runs again", a->id);
        return;
    }
    if (a->has_ended) {
        if (a->status != seen->status || !bytes_equal(bytes_of_text(a->output), seen->output))
            ledger_wrong(l, "%s: it had ended with %d %s, now with %d %.*s", a->id, a->status,
                         a->output, seen->status, (int)seen->output.len,
                         (const char *)seen->output.ptr);
        return;
    }
    a->has_ended = true;
    a->ended_at = l->moment;
    a->status = seen->status;
    a->output = text_of(seen->output);
    check_end(l, a);
}

/* ---- entities ---- */

static struct signal_sent *signal_find(struct load *l, uint64_t number)
{
    for (size_t i = 0; i < l->signals_n; i++) {
        if (l->signals[i].number == number) return &l->signals[i];
    }
    return NULL;
}

/* Must it be there when nothing is under way any more? */
static bool is_due(const struct signal_sent *s)
{
    if (s->account == NULL) return s->word == WORD_ACKNOWLEDGED;
    return s->account->has_ended && s->account->status == STATUS_COMPLETED;
}

bool ledger_see_entity(struct load *l, const char *id, struct bytes state, bool is_final)
{
    char *text = text_of(state);
    char target[FLOW_ID_SIZE];
    bool is_complete = true;

    for (size_t i = 0; i < l->signals_n; i++) l->signals[i].is_kept = false;
    for (char *at = text, *end; *at != '\0'; at = end) {
        uint64_t number = strtoull(at, &end, 10);
        struct signal_sent *s = end == at ? NULL : signal_find(l, number);
        if (s == NULL) {
            ledger_wrong(l, "%s: it keeps '%.20s', which was never sent", id, at);
            break;
        }
        flow_entity_id(s->number, target);
        if (s->is_kept || strcmp(target, id) != 0)
            ledger_wrong(l, "%s: it keeps %llu twice, or instead of another", id,
                         (unsigned long long)s->number);
        s->is_kept = true;
    }
    for (size_t i = 0; i < l->signals_n; i++) {
        struct signal_sent *s = &l->signals[i];
        flow_entity_id(s->number, target);
        if (strcmp(target, id) != 0 || s->is_kept || !is_due(s)) continue;
        is_complete = false;
        if (is_final)
            ledger_wrong(l, "%s: the acknowledged %s %llu is not there", id,
                         s->account == NULL ? "signal" : "call", (unsigned long long)s->number);
    }
    free(text);
    return is_complete;
}
