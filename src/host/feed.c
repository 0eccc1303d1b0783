/* SPDX-License-Identifier: Apache-2.0
 *
 * Changes of instances, for who watches them. An effect STATUS is used up when it is made, unless
 * somebody watches: then it waits in its batch like all that leaves the process, and is told when
 * it is durable. Alerts wait there always, because they are logged too; a thousand of them at once
 * say no more in a log than the first few and a number.
 */
#include "base/log.h"
#include "host/state.h"

#define ALERT_LOGS_N 20u
#define ALERT_LOGS_NS (10 * NS_PER_S)

static bool is_watched(const struct host *h)
{
    const struct host_options *o = &h->options;

    return o->is_watched != NULL && atomic_load_explicit(o->is_watched, memory_order_relaxed);
}

bool feed_wants(struct host *h, uint32_t index, struct effect *effect)
{
    struct instance_view view;

    assert(effect->kind == EFFECT_STATUS);
    if (!is_watched(h)) return false;
    if (host_view(h, index, effect->status.key, &view)) {
        effect->status.name = arena_copy(&h->open->arena, view.name); /* empty without memory */
    }
    effect->status.time_ns = h->now_ns;
    return true;
}

static void tell(struct host *h, const struct host_change *change)
{
    h->has_told = true;
    h->options.changed(h->options.changed_user, h->options.shard, change);
}

void feed_status(struct host *h, const struct effect *effect)
{
    struct host_change change = {
        .key = effect->status.key,
        .time_ns = effect->status.time_ns,
        .status = effect->status.status,
        .name = effect->status.name,
    };

    if (is_watched(h)) tell(h, &change);
}

static void log_alert(struct host *h, const struct effect *effect)
{
    if (h->now_ns - h->alert_period_ns >= ALERT_LOGS_NS) {
        if (h->alerts_unlogged_n > 0) {
            log_warn("%llu more alerts were not logged: GET /v1/alerts lists what waits",
                     (unsigned long long)h->alerts_unlogged_n);
        }
        h->alert_period_ns = h->now_ns;
        h->alerts_logged_n = 0;
        h->alerts_unlogged_n = 0;
    }
    if (h->alerts_logged_n == ALERT_LOGS_N) {
        h->alerts_unlogged_n++;
        return;
    }
    h->alerts_logged_n++;
    log_warn("alert: %.*s: %s", (int)effect->alert.key.len, (const char *)effect->alert.key.ptr,
             effect->alert.text);
}

void feed_alert(struct host *h, const struct effect *effect)
{
    struct host_change change = {
        .key = effect->alert.key,
        .time_ns = h->now_ns,
        .is_alert = true,
        .text = effect->alert.text,
    };

    log_alert(h, effect);
    if (is_watched(h)) tell(h, &change);
}

void feed_flush(struct host *h)
{
    if (!h->has_told) return;
    h->has_told = false;
    h->options.changed(h->options.changed_user, h->options.shard, NULL);
}
