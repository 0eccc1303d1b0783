/* SPDX-License-Identifier: Apache-2.0
 *
 * See partition.h: what there is to see, as text.
 */
#include "test/lib/partition_parts.h"

#include "base/assert.h"
#include "base/text.h"
#include "test/lib/history_text.h"

#include <stdio.h>

static const char *text_of(struct kit *k, struct buffer *b)
{
    const char *text = (const char *)kit_keep(k, buffer_view(b)).ptr;
    assert(!b->failed);
    buffer_release(b);
    return text;
}

bool kit_view(struct kit *k, const char *key, struct instance_view *out)
{
    return core_view(kit_core(k, key), bytes_of_text(key), out) && !out->is_purged;
}

const char *kit_status(struct kit *k, const char *key)
{
    struct instance_view view;
    return kit_view(k, key, &view) ? orchestration_status_name(view.status) : "none";
}

const char *kit_why(struct kit *k, const char *key)
{
    struct buffer text;
    buffer_init(&text, &k->mem);
    bool is_there = core_why(kit_core(k, key), bytes_of_text(key), &text);
    assert(is_there == (text.len > 0));
    return text_of(k, &text);
}

const char *kit_bytes(struct kit *k, struct bytes value)
{
    return (const char *)kit_keep(k, value).ptr;
}

const char *kit_maybe(struct kit *k, struct maybe value)
{
    return value.has ? kit_bytes(k, value.value) : "(none)";
}

static const char *events_text(struct kit *k, struct bytes packed)
{
    struct buffer text;
    buffer_init(&text, &k->mem);
    history_text(&text, packed);
    return text_of(k, &text);
}

const char *kit_history(struct kit *k, const char *key)
{
    struct buffer events;
    buffer_init(&events, &k->mem);
    core_history(kit_core(k, key), bytes_of_text(key), &events);
    const char *text = events_text(k, buffer_view(&events));
    buffer_release(&events);
    return text;
}

const char *kit_fresh(struct kit *k, const struct effect_work *work)
{
    return events_text(k, work->fresh);
}

const char *kit_past(struct kit *k, const struct effect_work *work)
{
    return events_text(k, work->past);
}

static enum status task_line(void *user, const struct task_view *view)
{
    static const char *const names[] = {"PENDING", "PROCESSING", "WAITING", "ERROR"};
    char line[128];
    int n = snprintf(line, sizeof line, "%d %.*s %s %u\n", view->task_id, (int)view->name.len,
                     (const char *)view->name.ptr, names[view->process], view->failures);
    assert(n > 0);
    assert((size_t)n < sizeof line);
    buffer_append(user, line, (size_t)n);
    return OK;
}

const char *kit_tasks(struct kit *k, const char *key)
{
    struct buffer text;
    buffer_init(&text, &k->mem);
    enum status status = core_tasks(kit_core(k, key), bytes_of_text(key), task_line, &text);
    assert(status == OK);
    return text_of(k, &text);
}

static enum status parked_line(void *user, const struct parked_view *view)
{
    buffer_append_bytes(user, view->key);
    buffer_format(user, " %d ", view->task_id);
    buffer_append_bytes(user, view->name);
    buffer_format(user, " %lld ", (long long)(view->since_ms - KIT_START_MS));
    buffer_append_bytes(user, view->text);
    buffer_append(user, "\n", 1);
    return OK;
}

const char *kit_parked(struct kit *k, uint32_t partition)
{
    struct buffer text;
    buffer_init(&text, &k->mem);
    enum status status = core_parked(k->partitions[partition].live, parked_line, &text);
    assert(status == OK);
    return text_of(k, &text);
}

static enum status wait_line(void *user, const struct wait_view *view)
{
    static const char *const names[] = {"timer", "child", "entity"};
    buffer_format(user, "%s %d ", names[view->kind], view->id);
    buffer_append_bytes(user, view->instance);
    if (view->kind == WAIT_TIMER)
        buffer_format(user, "%lld", (long long)(view->fire_at_ms - KIT_START_MS));
    buffer_append(user, "\n", 1);
    return OK;
}

const char *kit_waits(struct kit *k, const char *key)
{
    struct buffer text;
    buffer_init(&text, &k->mem);
    enum status status = core_waits(kit_core(k, key), bytes_of_text(key), wait_line, &text);
    assert(status == OK);
    return text_of(k, &text);
}

const char *kit_last_error(struct kit *k, const char *key)
{
    return kit_bytes(k, core_last_error(kit_core(k, key), bytes_of_text(key)));
}
