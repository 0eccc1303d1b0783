/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine in this process, for clients: each verb is a request on the stack of its asker, who
 * waits. Nothing is encoded; what an answer borrows is read during done(), on the host's thread.
 */
#include "lib/link_engine.h"

#include "base/clock.h"
#include "base/random.h"
#include "core/entity_id.h"
#include "lib/memory.h"

#include <stdio.h>

#define HISTORY_PART_SIZE ((size_t)4 << 20)

bool engine_key_make(const struct engine_link *l, struct bytes id, struct link_key *key)
{
    if (id.len > LIMIT_ID_SIZE) return false;
    memcpy(key->bytes, l->hub, l->hub_len);
    key->bytes[l->hub_len] = '/';
    memcpy(key->bytes + l->hub_len + 1, id.ptr, id.len);
    key->len = l->hub_len + 1 + id.len;
    if (id_is_entity(id)) entity_id_lower(key->bytes + l->hub_len + 1, id.len);
    return true;
}

/* A request somebody waits for. */
struct asking {
    struct request request;
    struct engine_asker asker;
    struct engine_bell *bell;
    request_done_fn *read; /* on the host's thread, while the answer's bytes are there; or NULL */
};

static void asking_done(struct request *request)
{
    struct asking *a = container_of(request, struct asking, request);

    if (a->read != NULL) a->read(request);
    engine_bell_answered(a->bell, &a->asker);
}

static bool asking_post(struct engine_link *l, struct asking *a)
{
    engine_asker_init(&a->asker);
    a->bell = l->bell;
    a->request.done = asking_done;
    a->request.status = E_UNAVAILABLE;
    return engine_post(l->engine, &a->request);
}

static enum status ask(struct engine_link *l, struct asking *a, char *why)
{
    if (asking_post(l, a)) engine_asker_wait(&a->asker);
    engine_asker_release(&a->asker);
    if (a->request.status != OK) (void)snprintf(why, LINK_WHY_SIZE, "%s", a->request.text);
    return a->request.status;
}

/* ---- start ---- */

static void make_id(char *id)
{
    static const char digits[] = "0123456789abcdef";
    uint8_t random[16];

    random_fill(random, sizeof random);
    for (size_t n = 0; n < sizeof random; n++) {
        id[2 * n] = digits[random[n] >> 4];
        id[2 * n + 1] = digits[random[n] & 15];
    }
    id[2 * sizeof random] = '\0';
}

void engine_start_id(const struct link_start *start, char *made)
{
    if (start->id.len == 0) {
        make_id(made);
        return;
    }
    memcpy(made, start->id.ptr, start->id.len);
    made[start->id.len] = '\0';
}

struct input_start engine_start_input(const struct link_start *start)
{
    return (struct input_start){
        .name = start->name,
        .version = start->version,
        .input = start->input,
        .tags = start->tags,
        .has_scheduled = start->start_at_ms != 0,
        .scheduled_ms = start->start_at_ms,
        .reuse = start->reuse,
        .reuse_mask = start->reuse == REUSE_IGNORE ? UINT32_MAX : 0,
    };
}

static enum status start(struct link *link, const struct link_start *start, char *id, char *why)
{
    struct engine_link *l = engine_link_of(link);
    struct link_key key;
    char made[LINK_ID_SIZE];

    engine_start_id(start, made);
    if (!engine_key_make(l, bytes_of_text(made), &key)) return E_INVALID;
    struct asking a = {.request = {.kind = REQUEST_START, .key = engine_key_view(&key)}};
    a.request.start = engine_start_input(start);
    enum status status = ask(l, &a, why);
    if (status == OK) (void)snprintf(id, LINK_ID_SIZE, "%s", made);
    return status;
}

/* ---- get and wait ---- */

struct looking {
    struct asking asking; /* first */
    link_view_fn *fn;
    void *user;
    enum status status;
};

static void read_view(struct request *request)
{
    struct looking *look = container_of(request, struct looking, asking.request);

    look->status = request->status;
    if (look->status != OK) return;
    if (request->view == NULL) {
        look->status = E_NOT_FOUND;
    } else if (look->fn != NULL) {
        look->status = look->fn(look->user, request->view);
    }
}

static void cancel(struct engine_link *l, struct asking *a)
{
    for (;;) {
        struct asking own = {.request = {.kind = REQUEST_CANCEL, .key = a->request.key}};
        char why[LINK_WHY_SIZE];
        own.request.cancelled = &a->request;
        if (ask(l, &own, why) != E_UNAVAILABLE) break;
        if (engine_asker_wait_for(&a->asker, 10)) return; /* the engine's queue was full */
    }
    engine_asker_wait(&a->asker);
}

static enum status get(struct link *link, struct bytes id, int64_t wait_ms, link_view_fn *fn,
                       void *user, char *why)
{
    struct engine_link *l = engine_link_of(link);
    struct link_key key;
    struct looking look = {.asking = {.read = read_view}, .fn = fn, .user = user};
    struct asking *a = &look.asking;

    if (!engine_key_make(l, id, &key)) return E_NOT_FOUND;
    if (wait_ms != 0 && id_is_entity(id)) return E_INVALID;
    a->request.kind = wait_ms == 0 ? REQUEST_GET : REQUEST_WAIT;
    a->request.key = engine_key_view(&key);
    a->request.wait.until_finished = true;
    look.status = E_UNAVAILABLE;
    if (asking_post(l, a)) {
        if (wait_ms <= 0)
            engine_asker_wait(&a->asker);
        else if (!engine_asker_wait_for(&a->asker, wait_ms))
            cancel(l, a);
        if (look.status != OK) (void)snprintf(why, LINK_WHY_SIZE, "%s", a->request.text);
    }
    engine_asker_release(&a->asker);
    return look.status;
}

/* ---- events and verbs ---- */

static enum status raise_event(struct link *link, struct bytes id, struct bytes event,
                               struct maybe data, char *why)
{
    struct engine_link *l = engine_link_of(link);
    struct link_key key;

    if (!engine_key_make(l, id, &key)) return E_INVALID;
    struct asking a = {.request = {.kind = REQUEST_RAISE, .key = engine_key_view(&key)}};
    if (id_is_entity(id)) {
        a.request.kind = REQUEST_SIGNAL;
        a.request.signal = (struct input_signal){.operation = event, .input = data};
    } else {
        a.request.client.name = event;
        a.request.client.data = data;
    }
    return ask(l, &a, why);
}

/* user: struct asking. */
static enum status resubmit_one(struct link *link, void *user, int32_t task_id, char *why)
{
    struct asking *a = user;

    a->request.client.task_id = task_id;
    return ask(engine_link_of(link), a, why);
}

static enum status control(struct link *link, struct bytes id, enum link_verb verb,
                           struct maybe data, char *why)
{
    static const enum request_kind kinds[] = {
        [LINK_TERMINATE] = REQUEST_TERMINATE, [LINK_SUSPEND] = REQUEST_SUSPEND,
        [LINK_RESUME] = REQUEST_RESUME,       [LINK_REWIND] = REQUEST_REWIND,
        [LINK_RESTART] = REQUEST_RESTART,     [LINK_PURGE] = REQUEST_PURGE,
        [LINK_RESUBMIT] = REQUEST_RESUBMIT,
    };
    struct engine_link *l = engine_link_of(link);
    struct link_key key;

    if (!engine_key_make(l, id, &key)) return E_NOT_FOUND;
    struct asking a = {.request = {.kind = kinds[verb], .key = engine_key_view(&key)}};
    a.request.client.data = data;
    if (verb == LINK_RESUBMIT) return link_resubmit(link, id, resubmit_one, &a, why);
    return ask(l, &a, why);
}

/* ---- history ---- */

struct part {
    struct asking asking;
    struct mem mem;
    struct buffer events; /* a copy */
};

static void part_done(struct request *request)
{
    struct part *part = container_of(request, struct part, asking.request);

    buffer_clear(&part->events);
    if (request->status == OK) buffer_append_bytes(&part->events, request->events);
}

static enum status history(struct link *link, struct bytes id, link_events_fn *fn, void *user,
                           char *why)
{
    struct engine_link *l = engine_link_of(link);
    struct link_key key;
    struct part part = {.asking = {.request = {.kind = REQUEST_HISTORY}, .read = part_done}};
    struct request *request = &part.asking.request;
    enum status status;

    if (!engine_key_make(l, id, &key)) return E_NOT_FOUND;
    memory_init(&part.mem);
    buffer_init(&part.events, &part.mem);
    request->key = engine_key_view(&key);
    request->history.size_max = HISTORY_PART_SIZE;
    do {
        status = ask(l, &part.asking, why);
        if (status == OK && part.events.failed) status = E_NOMEM;
        if (status != OK) break;
        request->history.skip_n += strings_count(buffer_view(&part.events));
        status = fn(user, buffer_view(&part.events));
    } while (status == OK && request->has_more);
    buffer_release(&part.events);
    mem_release(&part.mem);
    return status;
}

/* ---- lists ---- */

struct page {
    struct asking asking;
    link_view_fn *fn;
    void *user;
    struct buffer *cursor; /* time of the last row, then its id */
    enum status status;
};

static void page_done(struct request *request)
{
    struct page *page = container_of(request, struct page, asking.request);

    page->status = OK;
    if (request->status != OK) return;
    for (size_t n = 0; n < request->rows_n && page->status == OK; n++) {
        page->status = page->fn(page->user, &request->rows[n]);
    }
    buffer_clear(page->cursor);
    if (!request->has_more || request->rows_n == 0) return;
    const struct instance_view *last = &request->rows[request->rows_n - 1];
    buffer_u64(page->cursor, (uint64_t)(last->created_ns / NS_PER_MS));
    buffer_append_bytes(page->cursor, key_id(last->key));
}

static enum status list_page(struct link *link, const struct request_query *query,
                             struct buffer *cursor, link_view_fn *fn, void *user, char *why)
{
    struct engine_link *l = engine_link_of(link);
    struct page page = {.fn = fn, .user = user, .cursor = cursor};
    uint8_t after[8 + LIMIT_ID_SIZE];

    page.asking.read = page_done;
    page.asking.request.kind = REQUEST_QUERY;
    struct request_query *own = &page.asking.request.query;
    *own = *query;
    own->hub = bytes_make(l->hub, l->hub_len);
    if (cursor->len > 8 && cursor->len <= sizeof after) {
        memcpy(after, cursor->ptr, cursor->len);
        own->has_after = true;
        own->after_ms = (int64_t)load_u64(after);
        own->after_id = bytes_make(after + 8, cursor->len - 8);
    }
    enum status status = ask(l, &page.asking, why);
    if (status == OK) status = page.status;
    if (status == OK && cursor->failed) status = E_NOMEM;
    return status;
}

/* ---- steps ---- */

struct step_look {
    struct asking asking; /* first */
    link_step_fn *fn;
    void *user;
    enum status status;
};

static void read_steps(struct request *request)
{
    struct step_look *look = container_of(request, struct step_look, asking.request);

    look->status = request->status;
    if (look->status == OK && request->why == NULL) look->status = E_NOT_FOUND;
    for (size_t n = 0; look->status == OK && n < request->why->tasks_n; n++) {
        look->status = look->fn(look->user, &request->why->tasks[n].task);
    }
}

static enum status steps(struct link *link, struct bytes id, link_step_fn *fn, void *user,
                         char *why)
{
    struct engine_link *l = engine_link_of(link);
    struct link_key key;
    struct step_look look = {.asking = {.read = read_steps}, .fn = fn, .user = user};

    if (!engine_key_make(l, id, &key)) return E_NOT_FOUND;
    look.asking.request.kind = REQUEST_WHY;
    look.asking.request.key = engine_key_view(&key);
    enum status status = ask(l, &look.asking, why);
    return status == OK ? look.status : status;
}

/* ---- the link ---- */

static void close_link(struct link *link)
{
    memory_free(engine_link_of(link), sizeof(struct engine_link),
                offsetof(struct engine_link, mem));
}

static const struct link_ops engine_ops = {
    .name = "engine",
    .close = close_link,
    .start = start,
    .start_many = engine_start_many,
    .get = get,
    .wait_many = engine_wait_many,
    .raise = raise_event,
    .control = control,
    .history = history,
    .steps = steps,
    .list = list_page,
    .attach = engine_port_attach,
    .credit = engine_port_credit,
    .detach = engine_port_detach,
    .free_port = engine_port_free,
    .answer = engine_work_answer,
    .abandon = engine_work_abandon,
    .fetch = engine_work_fetch,
    .renew = engine_work_renew,
    .flush = engine_port_flush,
};

enum status link_engine_open(struct engine *engine, struct engine_bell *bell, struct bytes hub,
                             struct link **out)
{
    if (hub.len == 0 || hub.len > LIMIT_HUB_SIZE || memchr(hub.ptr, '/', hub.len) != NULL) {
        return E_INVALID;
    }
    struct engine_link *l =
        memory_new(sizeof(struct engine_link), offsetof(struct engine_link, mem));
    if (l == NULL) return E_NOMEM;
    l->link.ops = &engine_ops;
    l->engine = engine;
    l->bell = bell;
    memcpy(l->hub, hub.ptr, hub.len);
    l->hub_len = hub.len;
    *out = &l->link;
    return OK;
}
