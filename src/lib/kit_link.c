/* SPDX-License-Identifier: Apache-2.0
 *
 * The verbs of a client of the test's engine. Each is a step of the core, and all that follows from
 * it has happened when it returns. There are no ports: the test does the work itself. See kit.h.
 */
#include "lib/kit.h"

#include "core/entity_id.h"

#include <stdio.h>

static struct norn_test *test_of(struct link *link)
{
    return container_of(link, struct norn_test, link);
}

bool kit_key_make(struct bytes id, struct kit_key *key)
{
    const size_t hub_len = sizeof KIT_HUB - 1;

    if (id.len > LIMIT_ID_SIZE) return false;
    memcpy(key->bytes, KIT_HUB "/", hub_len + 1);
    memcpy(key->bytes + hub_len + 1, id.ptr, id.len);
    key->len = hub_len + 1 + id.len;
    if (id_is_entity(id)) entity_id_lower(key->bytes + hub_len + 1, id.len);
    return true;
}

static struct bytes key_view(const struct kit_key *key) { return bytes_make(key->bytes, key->len); }

/* A step, its answer, and what follows. */
static enum status ask(struct norn_test *t, struct input *in, char *why)
{
    enum status status = kit_step(t, in);

    if (status != OK) return status;
    status = t->reply;
    (void)snprintf(why, LINK_WHY_SIZE, "%s", status == OK ? "" : t->reply_text);
    if (!t->is_settling) t->steps_n = 0;
    enum status settled = kit_settle(t);
    if (status != OK || settled == OK) return status;
    (void)snprintf(why, LINK_WHY_SIZE, "%.*s", LINK_WHY_SIZE - 1, t->error);
    return settled;
}

/* ---- start, get, events and verbs ---- */

static enum status start(struct link *link, const struct link_start *given, char *id, char *why)
{
    struct norn_test *t = test_of(link);
    struct input in = {.kind = INPUT_CLIENT_START};
    struct kit_key key;

    if (given->id.len == 0) {
        (void)snprintf(id, LINK_ID_SIZE, "start-%u", ++t->started_n);
    } else {
        memmove(id, given->id.ptr, given->id.len);
        id[given->id.len] = '\0';
    }
    if (!kit_key_make(bytes_of_text(id), &key)) return E_INVALID;
    in.start = (struct input_start){
        .key = key_view(&key),
        .name = given->name,
        .version = given->version,
        .input = given->input,
        .tags = given->tags,
        .has_scheduled = given->start_at_ms != 0,
        .scheduled_ms = given->start_at_ms,
        .reuse = given->reuse,
        .reuse_mask = given->reuse == REUSE_IGNORE ? UINT32_MAX : 0,
    };
    return ask(t, &in, why);
}

struct waiting {
    struct norn_test *test;
    struct bytes key;
};

static bool has_ended(void *user)
{
    const struct waiting *w = user;
    struct instance_view view;

    return !core_view(w->test->core, w->key, &view) || view.is_terminal || view.is_purged;
}

static enum status get(struct link *link, struct bytes id, int64_t wait_ms, link_view_fn *fn,
                       void *user, char *why)
{
    struct norn_test *t = test_of(link);
    struct kit_key key;
    struct instance_view view;
    enum status status = OK;

    if (!kit_key_make(id, &key)) return E_NOT_FOUND;
    struct waiting waiting = {.test = t, .key = key_view(&key)};
    if (wait_ms != 0) {
        if (id_is_entity(id)) return E_INVALID;
        if (t->is_settling) return E_PRECONDITION; /* nothing goes on while this function waits */
        t->steps_n = 0;
        int64_t most_ms = KIT_END_MS - t->now_ms;
        status = kit_go_to(t, t->now_ms + (wait_ms < 0 || wait_ms > most_ms ? most_ms : wait_ms),
                           has_ended, &waiting);
    }
    if (status != OK) {
        (void)snprintf(why, LINK_WHY_SIZE, "%.*s", LINK_WHY_SIZE - 1, t->error);
        return status;
    }
    if (!core_view(t->core, waiting.key, &view) || view.is_purged) return E_NOT_FOUND;
    if (wait_ms != 0 && !view.is_terminal) return E_TIMEOUT;
    return fn != NULL ? fn(user, &view) : OK;
}

static enum status raise_event(struct link *link, struct bytes id, struct bytes event,
                               struct maybe data, char *why)
{
    struct input in = {.kind = INPUT_CLIENT_RAISE};
    struct kit_key key;

    if (!kit_key_make(id, &key)) return E_INVALID;
    if (id_is_entity(id)) {
        in.kind = INPUT_CLIENT_SIGNAL;
        in.signal = (struct input_signal){.key = key_view(&key), .operation = event, .input = data};
    } else {
        in.client.key = key_view(&key);
        in.client.name = event;
        in.client.data = data;
    }
    return ask(test_of(link), &in, why);
}

static enum status steps(struct link *link, struct bytes id, link_step_fn *fn, void *user,
                         char *why)
{
    struct norn_test *t = test_of(link);
    struct instance_view view;
    struct kit_key key;

    (void)why;
    if (!kit_key_make(id, &key) || !core_view(t->core, key_view(&key), &view)) return E_NOT_FOUND;
    return core_tasks(t->core, key_view(&key), fn, user);
}

static enum status note_task(void *user, const struct task_view *view)
{
    struct buffer *ids = user;

    buffer_u32(ids, (uint32_t)view->task_id);
    return ids->failed ? E_NOMEM : OK;
}

/* Which step is parked the caller does not say: all that are open are asked. */
static enum status resubmit(struct norn_test *t, struct input *in, char *why)
{
    struct buffer ids;

    in->client.task_id = -1; /* the orchestrator itself */
    enum status answer = ask(t, in, why);
    if (answer != E_PRECONDITION) return answer;
    buffer_init(&ids, &t->mem);
    enum status status = core_tasks(t->core, in->client.key, note_task, &ids);
    for (size_t at = 0; status == OK && at < ids.len; at += 4) {
        in->client.task_id = (int32_t)load_u32(ids.ptr + at);
        if (ask(t, in, why) == OK) answer = OK;
    }
    buffer_release(&ids);
    return status == OK ? answer : status;
}

static enum status control(struct link *link, struct bytes id, enum link_verb verb,
                           struct maybe data, char *why)
{
    static const enum input_kind kinds[] = {
        [LINK_TERMINATE] = INPUT_CLIENT_TERMINATE, [LINK_SUSPEND] = INPUT_CLIENT_SUSPEND,
        [LINK_RESUME] = INPUT_CLIENT_RESUME,       [LINK_REWIND] = INPUT_CLIENT_REWIND,
        [LINK_RESTART] = INPUT_CLIENT_RESTART,     [LINK_PURGE] = INPUT_CLIENT_PURGE,
        [LINK_RESUBMIT] = INPUT_CLIENT_RESUBMIT,
    };
    struct input in = {.kind = kinds[verb]};
    struct kit_key key;

    if (!kit_key_make(id, &key)) return E_NOT_FOUND;
    in.client.key = key_view(&key);
    in.client.data = data;
    if (verb == LINK_RESUBMIT) return resubmit(test_of(link), &in, why);
    return ask(test_of(link), &in, why);
}

/* ---- histories and lists ---- */

static enum status history(struct link *link, struct bytes id, link_events_fn *fn, void *user,
                           char *why)
{
    struct norn_test *t = test_of(link);
    struct instance_view view;
    struct kit_key key;
    struct buffer events;

    (void)why;
    if (!kit_key_make(id, &key)) return E_NOT_FOUND;
    if (!core_view(t->core, key_view(&key), &view) || view.is_purged) return E_NOT_FOUND;
    buffer_init(&events, &t->mem);
    (void)core_history(t->core, key_view(&key), &events);
    enum status status = events.failed ? E_NOMEM : fn(user, buffer_view(&events));
    buffer_release(&events);
    return status;
}

struct listing {
    const struct request_query *query;
    struct buffer views;
};

static enum status note_view(void *user, const struct instance_view *view)
{
    struct listing *l = user;
    const struct request_query *q = l->query;

    if (view->is_purged || view->is_entity != q->entities) return OK;
    if (!bytes_start_with(key_id(view->key), q->id_prefix)) return OK;
    if (!view->is_entity) {
        if (q->status_mask != 0 && (q->status_mask >> view->status & 1) == 0) return OK;
        if (q->name.len > 0 && !bytes_equal(q->name, view->name)) return OK;
    } else if (!view->entity_state.has) {
        return OK;
    }
    buffer_append(&l->views, view, sizeof *view);
    return l->views.failed ? E_NOMEM : OK;
}

/* All of them are one page. */
static enum status list_page(struct link *link, const struct request_query *query,
                             struct buffer *cursor, link_view_fn *fn, void *user, char *why)
{
    struct norn_test *t = test_of(link);
    struct listing l = {.query = query};
    struct instance_view view;

    (void)why;
    buffer_clear(cursor);
    buffer_init(&l.views, &t->mem);
    enum status status = core_each(t->core, note_view, &l);
    for (size_t at = l.views.len; status == OK && at > 0; at -= sizeof view) {
        memcpy(&view, l.views.ptr + at - sizeof view, sizeof view);
        status = fn(user, &view);
    }
    buffer_release(&l.views);
    return status;
}

/* ---- no workers ---- */

/* It is the test's own part, and goes with it. */
static void close_link(struct link *link) { (void)link; }

static enum status attach(struct link *link, const struct link_worker *worker,
                          struct link_port **port)
{
    (void)link;
    (void)worker;
    (void)port;
    return E_UNSUPPORTED;
}

static void credit(struct link_port *port, enum work_kind kind, uint32_t n)
{
    (void)port;
    (void)kind;
    (void)n;
    unreachable("a test has no ports");
}

static void no_port(struct link_port *port)
{
    (void)port;
    unreachable("a test has no ports");
}

static void no_work(struct link_work *work)
{
    (void)work;
    unreachable("the work of a test does not go through its link");
}

static void abandon(struct link_work *work, bool is_unsent, const char *reason)
{
    (void)is_unsent;
    (void)reason;
    no_work(work);
}

/* The one thing that an activity asks of the link, from within its function. */
static enum status renew(struct link_work *work, int64_t extend_ms)
{
    struct norn_test *t = test_of(work->port->link);
    struct input in = {.kind = INPUT_WORKER_RENEW};

    in.lease.ref = container_of(work, struct kit_work, work)->ref;
    in.lease.extend_ms = extend_ms;
    enum status status = kit_step(t, &in);
    return status == OK ? t->reply : status;
}

const struct link_ops kit_link_ops = {
    .name = "test",
    .close = close_link,
    .start = start,
    .get = get,
    .raise = raise_event,
    .control = control,
    .history = history,
    .steps = steps,
    .list = list_page,
    .attach = attach,
    .credit = credit,
    .detach = no_port,
    .free_port = no_port,
    .answer = no_work,
    .abandon = abandon,
    .fetch = no_work,
    .renew = renew,
    .flush = no_port,
};
