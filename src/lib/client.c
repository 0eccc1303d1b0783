/* SPDX-License-Identifier: Apache-2.0
 *
 * The public verbs of engines and clients. A status that is not OK leaves its sentence with the
 * thread, for norn_client_error().
 */
#include "lib/client.h"

#include "base/clock.h"
#include "host/engine.h"
#include "lib/checks.h"
#include "lib/context.h"
#include "lib/memory.h"
#include "lib/options.h"

#include "wire/event_json.h"
#include "wire/pb.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define PAGE_N 200u
#define PARTITIONS_MAX 4096u
/* With less the engine itself would be too much, and nothing would ever be admitted. */
#define MEMORY_MIN ((size_t)1 << 20)

/* Of this thread: what its last call answered. */
static _Thread_local char last_text[ENGINE_DAMAGE_SIZE];
static _Thread_local const struct norn_client *last_client;

void client_misuse(const char *what)
{
    (void)fprintf(stderr, "norn: %s\n", what);
    abort();
}

norn_status client_answer(const struct norn_client *client, enum status status, const char *why)
{
    last_client = client;
    last_text[0] = '\0';
    if (status != OK) {
        const char *text = why != NULL && why[0] != '\0' ? why : status_text(status);
        (void)snprintf(last_text, sizeof last_text, "%s", text);
    }
    return status_for_user(status);
}

norn_status client_refuse(const struct norn_client *client, const char *why)
{
    return client_answer(client, E_INVALID, why);
}

const char *norn_client_error(norn_client *client)
{
    return last_client == client && client != NULL ? last_text : "";
}

/* ---- engine ---- */

/* NULL, or what is wrong with them. */
static const char *engine_options_problem(const struct norn_engine_options *own)
{
    if (own->directory == NULL || own->directory[0] == '\0') return "no directory is named";
    if (own->partitions > PARTITIONS_MAX) return "more than 4096 partitions are asked for";
    if (own->policies == NULL && own->policies_n > 0)
        return "policies is NULL, policies_n is not 0";
    return NULL;
}

/* Of what the user gave, the options of the engine; policies are copied into e. *why: what is wrong
 * with them. */
static enum status read_engine_options(const struct norn_engine_options *given,
                                       struct norn_engine *e, struct engine_options *options,
                                       const char **why)
{
    struct norn_engine_options own = NORN_ENGINE_OPTIONS;

    *why = OPTIONS_WITHOUT_SIZE;
    if (!options_read(&own, sizeof own, given)) return E_INVALID;
    *why = engine_options_problem(&own);
    if (*why != NULL) return E_INVALID;
    engine_options_init(options);
    options->directory = own.directory;
    if (own.memory_max > 0) options->host.hot_bytes_max = own.memory_max;
    if (options->host.hot_bytes_max < MEMORY_MIN) options->host.hot_bytes_max = MEMORY_MIN;
    if (own.partitions > 0) options->host.partitions_n = own.partitions;
    if (own.policies_n == 0) return OK;
    options->host.policy = policies_find;
    options->host.policy_user = &e->policies;
    return policies_init(&e->policies, &e->mem, own.policies, own.policies_n, why);
}

static void engine_free(struct norn_engine *e)
{
    policies_release(&e->policies, &e->mem);
    memory_free(e, sizeof *e, offsetof(struct norn_engine, mem));
}

/* The sentence is in last_text when it is not OK. */
static enum status open_engine(struct norn_engine *e, struct engine_options *options)
{
    enum status status = engine_bell_init(&e->bell);

    if (status != OK) {
        (void)client_answer(NULL, status, NULL);
        return status;
    }
    options->host.told = engine_bell_ring;
    options->host.told_user = &e->bell;
    status = engine_open(options, last_text, &e->engine);
    if (status != OK) {
        engine_bell_release(&e->bell);
        return status;
    }
    running_open(&e->running, &e->mem, options->directory);
    e->bell.running = &e->running;
    return OK;
}

norn_status norn_engine_open(const struct norn_engine_options *options, norn_engine **engine,
                             const char **why)
{
    struct engine_options own;
    const char *problem;

    last_text[0] = '\0';
    if (why != NULL) *why = last_text;
    if (options == NULL || engine == NULL) return client_refuse(NULL, "an argument is NULL");
    struct norn_engine *e = memory_new(sizeof *e, offsetof(struct norn_engine, mem));
    if (e == NULL) return client_answer(NULL, E_NOMEM, NULL);
    enum status status = read_engine_options(options, e, &own, &problem);
    if (status != OK) {
        (void)client_answer(NULL, status, problem);
    } else {
        status = open_engine(e, &own);
    }
    if (status == OK) {
        *engine = e;
        return NORN_OK;
    }
    engine_free(e);
    return status_for_user(status);
}

void norn_engine_close(norn_engine *engine)
{
    if (engine == NULL) return;
    if (atomic_load(&engine->workers_n) > 0) {
        client_misuse("norn_engine_close() with open workers: close them first, then the clients");
    }
    engine_close(engine->engine);
    engine_bell_ring(&engine->bell); /* who still waits learns that it is closed */
    engine_bell_release(&engine->bell);
    running_close(&engine->running);
    engine_free(engine);
}

/* ---- client ---- */

norn_status norn_client_open(const struct norn_client_options *options, norn_client **client)
{
    struct norn_client_options own = NORN_CLIENT_OPTIONS;

    if (options == NULL || client == NULL) return NORN_E_INVALID;
    if (!options_read(&own, sizeof own, options)) return NORN_E_INVALID;
    if ((own.engine == NULL) == (own.address == NULL)) return NORN_E_INVALID; /* one of the two */
    struct norn_client *c = memory_new(sizeof *c, offsetof(struct norn_client, mem));
    if (c == NULL) return NORN_E_NOMEM;
    struct bytes hub = bytes_of_text(own.hub != NULL ? own.hub : "default");
    enum status status =
        own.engine != NULL ? link_engine_open(own.engine->engine, &own.engine->bell, hub, &c->link)
                           : link_remote_open(own.address, hub, &c->link);
    if (status == OK) {
        c->engine = own.engine;
        *client = c;
        return NORN_OK;
    }
    memory_free(c, sizeof *c, offsetof(struct norn_client, mem));
    return status_for_user(status);
}

void norn_client_close(norn_client *client)
{
    if (client == NULL) return;
    if (atomic_load(&client->workers_n) > 0) {
        client_misuse("norn_client_close() with open workers: close them first");
    }
    link_close(client->link);
    memory_free(client, sizeof *client, offsetof(struct norn_client, mem));
}

static bool is_utf8(struct norn_bytes payload) { return payload_check(payload) != NORN_E_INVALID; }

/* Pairs of name and value as raw map entries. */
static enum status put_tags(struct buffer *out, struct buffer *entry, const char *const *tags)
{
    for (; tags != NULL && tags[0] != NULL; tags += 2) {
        if (tags[1] == NULL) return E_INVALID;
        buffer_clear(entry);
        pb_put_bytes(entry, 1, bytes_of_text(tags[0]));
        pb_put_bytes(entry, 2, bytes_of_text(tags[1]));
        if (entry->failed) return E_NOMEM;
        strings_add(out, buffer_view(entry));
    }
    return out->failed ? E_NOMEM : OK;
}

static enum reuse reuse_of(enum norn_reuse reuse)
{
    switch (reuse) {
    case NORN_REUSE_ENDED: return REUSE_DEFAULT;
    case NORN_REUSE_NEVER: return REUSE_NEVER;
    case NORN_REUSE_KEEP: return REUSE_IGNORE;
    }
    return REUSE_DEFAULT;
}

enum status client_read_start(const struct norn_start_options *given, struct buffer *tags,
                              struct buffer *entry, struct link_start *start)
{
    struct norn_start_options options = NORN_START_OPTIONS;

    if (!options_read(&options, sizeof options, given)) return E_INVALID;
    if ((unsigned)options.reuse > NORN_REUSE_KEEP) return E_INVALID;
    if (options.start_at_ms < 0 || options.start_at_ms > INT64_MAX / NS_PER_MS) return E_INVALID;
    start->id = options.id != NULL ? bytes_of_text(options.id) : BYTES_NONE;
    start->start_at_ms = options.start_at_ms;
    start->reuse = reuse_of(options.reuse);
    if (options.version != NULL) start->version = maybe_some(bytes_of_text(options.version));
    return put_tags(tags, entry, options.tags);
}

norn_status norn_start(norn_client *client, const char *name, struct norn_bytes input,
                       const struct norn_start_options *options, char *id)
{
    char why[LINK_WHY_SIZE];
    struct mem mem;
    struct buffer tags, entry;

    if (client == NULL) return NORN_E_INVALID;
    if (name == NULL) return client_refuse(client, "the name is NULL");
    if (!is_utf8(input)) return client_refuse(client, "the input is not UTF-8");
    memory_init(&mem);
    buffer_init(&tags, &mem);
    buffer_init(&entry, &mem);
    why[0] = '\0';
    struct link_start start = {.name = bytes_of_text(name), .input = maybe_of(input)};
    enum status status = client_read_start(options, &tags, &entry, &start);
    start.tags = buffer_view(&tags);
    if (status == E_INVALID) (void)snprintf(why, sizeof why, "%s", START_OPTIONS_INVALID);
    if (status == OK) status = link_start(client->link, &start, id, why);
    buffer_release(&tags);
    buffer_release(&entry);
    mem_release(&mem);
    return client_answer(client, status, why);
}

static enum status keep_view(void *user, const struct instance_view *view)
{
    struct norn_info **info = user;

    *info = info_new(view);
    return *info != NULL ? OK : E_NOMEM;
}

norn_status norn_get(norn_client *client, const char *id, int64_t wait_ms, struct norn_info **info)
{
    char why[LINK_WHY_SIZE];
    struct norn_info *made = NULL;

    if (client == NULL) return NORN_E_INVALID;
    if (id == NULL) return client_refuse(client, "the id is NULL");
    enum status status = link_get(client->link, bytes_of_text(id), wait_ms,
                                  info != NULL ? keep_view : NULL, &made, why);
    if (status == OK && info != NULL) *info = made;
    return client_answer(client, status, why);
}

norn_status norn_raise(norn_client *client, const char *id, const char *event,
                       struct norn_bytes data)
{
    char why[LINK_WHY_SIZE];

    if (client == NULL) return NORN_E_INVALID;
    if (id == NULL || event == NULL) return client_refuse(client, "the id or the event is NULL");
    if (!is_utf8(data)) return client_refuse(client, "the data is not UTF-8");
    enum status status =
        link_raise(client->link, bytes_of_text(id), bytes_of_text(event), maybe_of(data), why);
    return client_answer(client, status, why);
}

norn_status norn_control(norn_client *client, const char *id, enum norn_verb verb,
                         struct norn_bytes data)
{
    static const enum link_verb verbs[] = {
        [NORN_TERMINATE] = LINK_TERMINATE, [NORN_SUSPEND] = LINK_SUSPEND,
        [NORN_RESUME] = LINK_RESUME,       [NORN_REWIND] = LINK_REWIND,
        [NORN_RESTART] = LINK_RESTART,     [NORN_PURGE] = LINK_PURGE,
        [NORN_RESUBMIT] = LINK_RESUBMIT,
    };
    char why[LINK_WHY_SIZE];

    if (client == NULL) return NORN_E_INVALID;
    if (id == NULL) return client_refuse(client, "the id is NULL");
    if ((size_t)verb >= sizeof verbs / sizeof *verbs) return client_refuse(client, "no such verb");
    if (!is_utf8(data)) return client_refuse(client, "the data is not UTF-8");
    if (payload_check(data) != NORN_OK) {
        return client_answer(client, E_LIMIT, "the data has more than 16 MiB");
    }
    enum status status =
        link_control(client->link, bytes_of_text(id), verbs[verb], maybe_of(data), why);
    return client_answer(client, status, why);
}

/* ---- history ---- */

struct history_reader {
    norn_history_fn *fn;
    void *user;
    norn_status stopped; /* what fn answered */
    struct mem mem;
    struct buffer json;
};

static enum status read_events(void *user, struct bytes events)
{
    struct history_reader *h = user;
    struct reader r = reader_make(events);
    struct bytes event;

    while (strings_next(&r, &event)) {
        buffer_clear(&h->json);
        enum status status = event_json_write(event, &h->json);
        if (status != OK) return status;
        buffer_append(&h->json, "", 1); /* the NUL that follows every payload */
        if (h->json.failed) return E_NOMEM;
        h->stopped = h->fn(h->user, (struct norn_bytes){h->json.ptr, h->json.len - 1});
        if (h->stopped != NORN_OK) return E_CLOSED;
    }
    return OK;
}

norn_status norn_history(norn_client *client, const char *id, norn_history_fn *fn, void *user)
{
    struct history_reader h = {.fn = fn, .user = user};
    char why[LINK_WHY_SIZE];

    if (client == NULL) return NORN_E_INVALID;
    if (id == NULL || fn == NULL) return client_refuse(client, "the id or the function is NULL");
    memory_init(&h.mem);
    buffer_init(&h.json, &h.mem);
    enum status status = link_history(client->link, bytes_of_text(id), read_events, &h, why);
    buffer_release(&h.json);
    mem_release(&h.mem);
    if (h.stopped != NORN_OK) {
        (void)client_answer(client, OK, NULL);
        return h.stopped;
    }
    return client_answer(client, status, why);
}

/* ---- lists ---- */

/* The rows of a page are copied on the engine's thread, and shown on the caller's. */
static enum status keep_row(void *user, const struct instance_view *view)
{
    struct list *rows = user;
    struct norn_info *info = info_new(view);

    if (info == NULL) return E_NOMEM;
    list_push_back(rows, info_node(info));
    return OK;
}

static norn_status show_rows(struct list *rows, norn_query_fn *fn, void *user, uint32_t *left)
{
    norn_status status = NORN_OK;
    struct list *node;

    while ((node = list_pop_front(rows)) != NULL) {
        struct norn_info *info = info_of_node(node);
        if (status == NORN_OK && fn != NULL && *left > 0) {
            (*left)--;
            status = fn(user, info);
        }
        norn_info_free(info);
    }
    return status;
}

static struct request_query query_of(const struct norn_query *q)
{
    struct request_query query = {
        .status_mask = q->states,
        .want_payloads = true,
    };
    if (q->id_prefix != NULL) query.id_prefix = bytes_of_text(q->id_prefix);
    if (q->name != NULL) query.name = bytes_of_text(q->name);
    query.entities = q->id_prefix != NULL && q->id_prefix[0] == '@';
    return query;
}

norn_status norn_list(norn_client *client, const struct norn_query *given, norn_query_fn *fn,
                      void *user)
{
    struct norn_query own = NORN_QUERY;
    char why[LINK_WHY_SIZE];
    struct mem mem;
    struct buffer cursor;
    struct list rows;
    enum status status;
    norn_status shown = NORN_OK;

    if (client == NULL) return NORN_E_INVALID;
    if (fn == NULL) return client_refuse(client, "the function is NULL");
    if (!options_read(&own, sizeof own, given)) return client_refuse(client, OPTIONS_WITHOUT_SIZE);
    struct request_query query = query_of(&own);
    uint32_t left = own.limit > 0 ? own.limit : UINT32_MAX;
    memory_init(&mem);
    buffer_init(&cursor, &mem);
    list_init(&rows);
    do {
        query.limit = left < PAGE_N ? left : PAGE_N;
        status = link_list(client->link, &query, &cursor, keep_row, &rows, why);
        shown = show_rows(&rows, status == OK ? fn : NULL, user, &left);
    } while (status == OK && shown == NORN_OK && left > 0 && cursor.len > 0);
    buffer_release(&cursor);
    mem_release(&mem);
    norn_status answered = client_answer(client, status, why);
    return status == OK ? shown : answered;
}
