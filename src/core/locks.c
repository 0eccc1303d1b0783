/* SPDX-License-Identifier: Apache-2.0
 *
 * Critical sections. An orchestration asks for a set of entities at once; the request travels from
 * one to the next in the order of their ids, and each that it reaches belongs to the orchestration
 * from then on. The last one says so. Since all travel in the same order there is no deadlock.
 *
 *      orchestration ──request──> @a@1 ──request──> @b@2 ──request──> @c@3
 *            ^                                                          │
 *            └───────────────────────── granted ────────────────────────┘
 *
 * No lock outlives its holder. When an execution ends, whatever the reason, it sends a release to
 * every entity that it has asked for and not unlocked: that frees what is locked. A request that
 * was on its way at that moment may lock entities afterwards; it comes to the end of its chain in
 * due time, and the grant finds that its execution is gone: then everything is released again.
 * Hence a grant carries the whole set, and a request never ends on its way: one that a release
 * finds waiting does not lock that entity any more, but goes on to the next.
 *
 * A lock belongs to an execution, not to an id: releases and grants of an earlier one do not touch
 * those of the present.
 */
#include "core/limits.h"
#include "core/state.h"

#include "base/planted.h"

/* ---- the set ---- */

bool lock_set_normal(struct core *c, struct bytes set, struct buffer *out)
{
    uint32_t n = strings_count(set);
    if (n == 0 || n > LIMIT_LOCK_SET_N) return false;
    struct bytes *ids = arena_alloc(&c->temporary, n * sizeof *ids);
    assert(ids != NULL);
    struct reader r = reader_make(set);
    struct bytes one;
    uint32_t sorted_n = 0;
    while (strings_next(&r, &one)) {
        if (entity_id_problem(one, LIMIT_ID_SIZE) != NULL) return false;
        one = entity_id_normal(one, &c->temporary);
        uint32_t at = sorted_n;
        while (at > 0 && bytes_compare(ids[at - 1], one) > 0) at--;
        if (at > 0 && bytes_equal(ids[at - 1], one)) continue;
        memmove(ids + at + 1, ids + at, (sorted_n - at) * sizeof *ids);
        ids[at] = one;
        sorted_n++;
    }
    assert(sorted_n > 0);
    assert(sorted_n <= n);
    for (uint32_t k = 0; k < sorted_n; k++) strings_add(out, ids[k]);
    assert(!out->failed);
    return true;
}

bool lock_set_next(struct bytes set, struct bytes id, struct bytes *next)
{
    struct reader r = reader_make(set);
    struct bytes one;
    while (strings_next(&r, &one)) {
        if (!bytes_equal(one, id)) continue;
        *next = BYTES_NONE;
        (void)strings_next(&r, next);
        return true;
    }
    return false;
}

/* ---- the chain ---- */

void locks_ask(struct instance *i, struct bytes section, struct bytes set)
{
    struct core *c = i->core;
    struct bytes first = BYTES_NONE;
    buffer_clear(&c->events);
    bool is_sound = lock_set_normal(c, set, &c->events);
    assert(is_sound); /* action_problem() has seen it */
    assert(!i->is_entity);
    set = copy_must(&c->temporary, buffer_view(&c->events));
    struct reader r = reader_make(set);
    (void)strings_next(&r, &first);
    assert(first.len > 0);
    buffer_clear(&c->scratch);
    event_write_lock_request(&c->scratch, c->now_ns, section, set, key_id(i->key), i->execution_id);
    assert(!c->scratch.failed);
    outbox_send(c, MESSAGE_ENTITY, sibling_key(c, i->key, first), BYTES_NONE,
                buffer_view(&c->scratch));
}

void lock_pass_on(struct instance *i, struct bytes event)
{
    struct core *c = i->core;
    struct event_entity request;
    struct bytes next = BYTES_NONE;
    assert(i->is_entity);
    enum status status = event_entity_decode(event, &c->temporary, &request);
    assert(status == OK);
    assert(request.has_parent_execution);
    bool is_member = lock_set_next(request.lock_set, key_id(i->key), &next);
    assert(is_member); /* checked when it came */
    if (next.len > 0) {
        outbox_send(c, MESSAGE_ENTITY, sibling_key(c, i->key, next), BYTES_NONE, event);
    } else {
        outbox_send(c, MESSAGE_LOCK_GRANTED, sibling_key(c, i->key, request.parent),
                    bytes_make(request.parent_execution, EXECUTION_ID_SIZE), event);
    }
}

void entity_settle(struct instance *i)
{
    struct core *c = i->core;
    assert(i->is_entity);
    if (entity_lock_is_due(i)) {
        struct record record = {.kind = RECORD_ENTITY_LOCKED, .key = i->key};
        emit(c, &record);
        assert(i->lock != NULL);
        assert(!i->is_leased);
        lock_pass_on(i, event_bytes(i->lock));
    }
    if (entity_is_empty(i) && !i->is_leased) {
        struct record record = {.kind = RECORD_PURGED, .key = i->key};
        emit(c, &record);
        assert(i->is_purged);
        return;
    }
    assert(!entity_lock_is_due(i));
}

/* ---- releases ---- */

static void send_release(struct core *c, struct bytes key, struct bytes section,
                         struct bytes target, const uint8_t execution[EXECUTION_ID_SIZE])
{
    buffer_clear(&c->scratch);
    event_write_unlock(&c->scratch, c->now_ns, section, target, key_id(key), execution);
    assert(!c->scratch.failed);
    outbox_send(c, MESSAGE_ENTITY, sibling_key(c, key, target), BYTES_NONE,
                buffer_view(&c->scratch));
}

void locks_unlock(struct instance *i, struct bytes section, struct bytes target)
{
    struct bytes id = entity_id_normal(target, &i->core->temporary);
    send_release(i->core, i->key, section, id, i->execution_id);
}

/* The orchestration has sent the unlock itself. */
static bool is_unlocked(const struct instance *i, struct bytes section, struct bytes id)
{
    struct core *c = i->core;
    for (const struct event *e = i->history.first; e != NULL; e = e->next) {
        struct event_entity unlock;
        if (e->kind != EVENT_ENTITY_UNLOCK_SENT) continue;
        enum status status = event_entity_decode(event_bytes(e), &c->temporary, &unlock);
        assert(status == OK);
        if (bytes_equal(unlock.section, section) &&
            bytes_equal(entity_id_normal(unlock.target, &c->temporary), id)) {
            return true;
        }
    }
    return false;
}

/* To every member of the set that is (not) unlocked in the history of i; NULL: to all. */
static void release_set(struct core *c, struct bytes key, const struct instance *i,
                        bool is_of_unlocked, const struct event_entity *request,
                        const uint8_t execution[EXECUTION_ID_SIZE])
{
    buffer_clear(&c->events);
    if (!lock_set_normal(c, request->lock_set, &c->events)) return;
    struct reader r = reader_make(copy_must(&c->temporary, buffer_view(&c->events)));
    struct bytes id;
    while (strings_next(&r, &id)) {
        if (i != NULL && is_unlocked(i, request->section, id) != is_of_unlocked) continue;
        send_release(c, key, request->section, id, execution);
    }
}

void locks_release(struct instance *i)
{
    struct core *c = i->core;
    assert(!i->is_entity);
    if (i->locks_n == 0 || planted("keep_locks")) return;
    for (const struct event *e = i->history.first; e != NULL; e = e->next) {
        struct event_entity request;
        if (e->kind != EVENT_ENTITY_LOCK_REQUESTED) continue;
        enum status status = event_entity_decode(event_bytes(e), &c->temporary, &request);
        assert(status == OK);
        release_set(c, i->key, i, false, &request, i->execution_id);
    }
}

bool locks_is_granted(const struct instance *i, struct bytes section)
{
    const struct event_list *lists[] = {&i->history, &i->inbox};
    for (size_t n = 0; n < 2; n++) {
        for (const struct event *e = lists[n]->first; e != NULL; e = e->next) {
            if (e->kind == EVENT_ENTITY_LOCK_GRANTED &&
                bytes_equal(event_entity_id(event_bytes(e)), section)) {
                return true;
            }
        }
    }
    return false;
}

static bool is_asked(const struct instance *i, struct bytes section)
{
    assert(i->locks_n > 0);
    for (const struct event *e = i->history.first; e != NULL; e = e->next) {
        if (e->kind == EVENT_ENTITY_LOCK_REQUESTED &&
            bytes_equal(event_entity_id(event_bytes(e)), section)) {
            return true;
        }
    }
    return false;
}

void on_lock_granted(struct core *c, const struct input *in)
{
    struct event_entity request;
    struct instance *i = instance_find_live(c, in->message.target);
    if (event_entity_decode(in->message.event, &c->temporary, &request) != OK ||
        request.kind != EVENT_ENTITY_LOCK_REQUESTED || !request.has_parent_execution) {
        c->stats.dropped_messages++;
        return;
    }
    bool is_wanted = i != NULL && !i->is_entity && !instance_is_terminal(i) && i->locks_n > 0 &&
                     memcmp(i->execution_id, request.parent_execution, EXECUTION_ID_SIZE) == 0 &&
                     is_asked(i, request.section);
    if (!is_wanted) {
        c->stats.dropped_messages++;
        if (planted("keep_late_grant")) return;
        release_set(c, in->message.target, NULL, false, &request, request.parent_execution);
        return;
    }
    /* unlocked before it was granted: the unlock may have come before the request */
    release_set(c, i->key, i, true, &request, request.parent_execution);
    if (locks_is_granted(i, request.section)) { /* asked for again after a rewind */
        struct record record = {.kind = RECORD_WOKEN, .key = i->key};
        emit(c, &record);
        return;
    }
    buffer_clear(&c->scratch);
    event_write_lock_granted(&c->scratch, c->now_ns, request.section);
    assert(!c->scratch.failed);
    message_add(i, buffer_view(&c->scratch));
}

/* The members of the request that are not unlocked, as strings; appended. */
static void held_of(const struct instance *i, const struct event *e, struct buffer *out,
                    struct bytes *section)
{
    struct core *c = i->core;
    struct event_entity request;
    struct bytes id;
    enum status status = event_entity_decode(event_bytes(e), &c->temporary, &request);
    assert(status == OK);
    assert(request.kind == EVENT_ENTITY_LOCK_REQUESTED);
    struct reader r = reader_make(request.lock_set);
    while (strings_next(&r, &id)) {
        struct bytes normal = entity_id_normal(id, &c->temporary);
        if (!is_unlocked(i, request.section, normal)) strings_add(out, normal);
    }
    assert(!out->failed);
    *section = request.section;
}

bool locks_are_held(const struct instance *i)
{
    struct buffer held;
    struct bytes section;
    buffer_init(&held, i->core->mem);
    for (const struct event *e = i->history.first; e != NULL && held.len == 0; e = e->next) {
        if (e->kind == EVENT_ENTITY_LOCK_REQUESTED) held_of(i, e, &held, &section);
    }
    bool are_held = held.len > 0;
    buffer_release(&held);
    return are_held;
}

void locks_ask_again(struct instance *i)
{
    assert(!instance_is_terminal(i));
    if (i->locks_n == 0) return;
    for (const struct event *e = i->history.first; e != NULL; e = e->next) {
        struct buffer held;
        struct bytes section;
        if (e->kind != EVENT_ENTITY_LOCK_REQUESTED) continue;
        buffer_init(&held, i->core->mem);
        held_of(i, e, &held, &section);
        if (held.len > 0) locks_ask(i, section, buffer_view(&held));
        buffer_release(&held);
    }
}
