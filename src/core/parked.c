/* SPDX-License-Identifier: Apache-2.0
 *
 * What waits for an operator: turns that no worker finishes, and tasks beyond the last threshold.
 *
 * A parked instance stays in memory, where it can be listed without searching the archive. It costs
 * nothing but its memory: nothing of it is due, and few are parked at once unless something is
 * broken, when an operator wants to see them. It says that it must wake at once (instance_wake_ms),
 * and that is also what its row in the archive says: so recovery, which loads all sleepers whose
 * time has come, brings it back without an index of its own. Beyond core_options.parked_n_max they
 * may leave memory like others; then they are found by id only.
 */
#include "core/limits.h"
#include "core/state.h"

bool instance_is_parked(const struct instance *i)
{
    if (i->is_purged || instance_is_terminal(i)) return false;
    return i->is_poisoned || i->parked_n > 0;
}

void parked_sort(struct instance *i)
{
    struct core *c = i->core;
    bool is_parked = instance_is_parked(i);
    bool is_listed = list_is_linked(&i->parked);
    if (is_parked == is_listed) return;
    if (is_listed) {
        assert(c->parked_n > 0);
        list_remove(&i->parked);
        c->parked_n--;
    } else if (c->parked_n < c->options.parked_n_max) {
        list_push_back(&c->parked, &i->parked);
        c->parked_n++;
    }
    assert((c->parked_n == 0) == list_is_empty(&c->parked));
    assert(c->parked_n <= c->options.parked_n_max);
}

/* In one place of the arena, however often it fails. */
void instance_set_error(struct instance *i, struct bytes reason)
{
    struct bytes text = text_cut(reason, LIMIT_REASON_SIZE);
    assert(text.len <= LIMIT_REASON_SIZE);
    if (i->error_room == NULL) i->error_room = arena_alloc(&i->arena, LIMIT_REASON_SIZE);
    assert(i->error_room != NULL); /* reserved before the step */
    if (text.len > 0) memmove(i->error_room, text.ptr, text.len);
    i->last_error = bytes_make(i->error_room, text.len);
}

static int64_t since_ms(const struct instance *i, int64_t parked_ms)
{
    return parked_ms != 0 ? parked_ms : i->updated_ns / 1000000;
}

static enum status tell_turn(const struct instance *i, core_parked_fn *fn, void *user)
{
    struct parked_view view = {
        .key = i->key,
        .task_id = PARKED_TURN,
        .name = i->is_entity ? entity_id_name(key_id(i->key)) : i->name,
        .text = i->last_error,
        .since_ms = since_ms(i, i->retry_at_ms),
    };
    assert(i->is_poisoned);
    assert(!i->is_leased);
    return fn(user, &view);
}

static enum status tell_task(const struct item *item, core_parked_fn *fn, void *user)
{
    const struct instance *i = item->instance;
    struct event_scheduled scheduled;
    assert(item->state == TASK_STATE_PARKED);
    enum status status =
        event_scheduled_decode(event_bytes(item->created), &i->core->temporary, &scheduled);
    if (status != OK) return status;
    struct parked_view view = {
        .key = i->key,
        .task_id = item->id,
        .name = scheduled.name,
        .text = i->last_error,
        .since_ms = since_ms(i, item->retry_at_ms),
    };
    return fn(user, &view);
}

static enum status tell(const struct instance *i, core_parked_fn *fn, void *user)
{
    assert(instance_is_parked(i));
    enum status status = i->is_poisoned ? tell_turn(i, fn, user) : OK;
    if (i->parked_n == 0) return status;
    for (struct list *m = list_first(&i->items); m != NULL && status == OK;
         m = list_next(&i->items, m)) {
        const struct item *item = container_of(m, struct item, of_instance);
        if (item->state == TASK_STATE_PARKED) status = tell_task(item, fn, user);
    }
    return status;
}

enum status core_parked(const struct core *c, core_parked_fn *fn, void *user)
{
    enum status status = OK;
    uint64_t told_n = 0;
    for (struct list *n = list_first(&c->parked); n != NULL && status == OK;
         n = list_next(&c->parked, n)) {
        status = tell(container_of(n, struct instance, parked), fn, user);
        told_n++;
    }
    assert(told_n <= c->parked_n);
    assert(status != OK || told_n == c->parked_n);
    return status;
}
