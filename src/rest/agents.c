/* SPDX-License-Identifier: Apache-2.0
 *
 * See agents.h. A poll outlives its exchange until every shard has let go of its worker, so it is
 * not in the ask's memory.
 */
#include "rest/agents.h"

#include "base/log.h"
#include "base/siphash.h"
#include "host/dispatcher.h"

#include <stdlib.h>

#define MAX_N_DEFAULT 1
#define MAX_N_MAX 100
#define WAIT_MS_DEFAULT 30000
#define WAIT_MS_MAX 60000
/* After the first piece: who wants several waits a moment for more. */
#define GATHER_NS ((int64_t)5 * 1000 * 1000)
/* Enough for one answer: no more is gathered. */
#define GATHER_SIZE ((size_t)1 << 20)
#define WORKER_NAME_SIZE 100

struct agents {
    struct rest *rest;
    struct list polls;
    unsigned polls_n;
    struct list
        untaken;   /* errands that the engine did not take, by of_user: given back, detached */
    bool is_short; /* of memory: some poll could not be detached */
};

enum shard_state { SHARD_ATTACHED, SHARD_DETACHING, SHARD_GONE };

struct poll_shard {
    struct worker worker; /* the host's from ATTACH until DETACH is done */
    struct poll *poll;
    uint32_t id;
    enum shard_state state;
    bool is_attaching;
};

struct poll {
    struct list node; /* in agents.polls */
    struct agents *agents;
    struct ask *ask; /* NULL: nobody waits any more */
    struct arena arena;
    struct bytes hub;
    struct bytes name;
    struct bytes worker_name; /* for people: what it calls itself, and its address */
    struct worker_filter filter;
    struct desk *desk;       /* these two are read on hosts' threads, and never change */
    const uint64_t *mac_key; /* of tokens */
    uint32_t max_n;
    bool has_lease;
    int64_t lease_ms;
    int64_t opened_ns;
    int64_t end_ns; /* of its wait */
    bool is_ending; /* it is being detached */
    bool is_known;  /* some shard has attached it */
    struct list parcels;
    uint32_t parcels_n;
    size_t parcels_size;
    uint32_t leasing_n; /* leases that are being set */
    uint32_t shards_n;
    size_t size; /* of the allocation */
    struct poll_shard shards[];
};

/* What a parcel's message is: when the policy wants it, and the item's JSON without its end. */
#define MESSAGE_HEAD_SIZE 8

/* ---- on a host's thread ---- */

/* The same for every attempt of a step, and for no other step of any execution. */
static void write_idempotency_key(struct json *j, const struct work_ref *ref)
{
    static const uint64_t key[2] = {0};
    uint8_t hash[EXECUTION_ID_SIZE];
    char text[EXECUTION_TEXT_SIZE];
    uint8_t bytes[EXECUTION_ID_SIZE + 4];

    memcpy(bytes, ref->execution_id, EXECUTION_ID_SIZE);
    store_u32(bytes + EXECUTION_ID_SIZE, (uint32_t)ref->task_id);
    siphash128(key, ref->key, hash);
    const uint64_t second[2] = {load_u64(hash), load_u64(hash + 8)};
    siphash128(second, bytes_make(bytes, sizeof bytes), hash);
    execution_id_text(hash, text);
    json_key(j, "idempotencyKey");
    json_bytes(j, bytes_make(text, sizeof text));
}

static void write_item(const struct poll *poll, struct parcel *parcel,
                       const struct effect_work *work)
{
    struct buffer *out = &parcel->message;
    struct event_scheduled scheduled = {0};
    struct buffer token;
    uint8_t head[MESSAGE_HEAD_SIZE];
    struct json j;

    store_u64(head, (uint64_t)work->complete_by_ms);
    buffer_append(out, head, sizeof head);
    buffer_init(&token, &parcel->mem);
    token_write(&token, poll->mac_key, &work->ref);
    (void)event_scheduled_decode(work->scheduled, &parcel->arena, &scheduled);
    json_init(&j, out);
    json_object_begin(&j);
    json_key(&j, "token");
    json_bytes(&j, buffer_view(&token));
    json_key(&j, "name");
    json_bytes(&j, work->name);
    write_maybe_of(&j, "version", work->version);
    json_key(&j, "instanceId");
    json_bytes(&j, key_id(work->ref.key));
    json_key(&j, "taskId");
    json_int64(&j, work->ref.task_id);
    write_payload_of(&j, "input", scheduled.input);
    json_key(&j, "attempt");
    json_uint64(&j, (uint64_t)work->ref.attempt + 1);
    write_idempotency_key(&j, &work->ref);
    if (token.failed) out->failed = true;
    buffer_release(&token);
}

static void deliver(struct worker *worker, const struct effect_work *work)
{
    const struct poll_shard *shard = worker->user;
    const struct poll *poll = shard->poll;
    struct parcel *parcel = parcel_new(poll->desk, work->ref.partition);

    if (parcel != NULL) {
        parcel->worker = worker;
        parcel->ref = work->ref;
        parcel->ref.key = arena_copy(&parcel->arena, work->ref.key);
    }
    if (parcel == NULL || parcel->ref.key.len != work->ref.key.len) {
        /* Nobody would ever know that it was given. After a restart it is offered again. */
        log_error("there is no memory to hand out work: stopping, a restart gives it out again");
        abort();
    }
    write_item(poll, parcel, work);
    desk_put(poll->desk, parcel);
}

/* ---- giving back ---- */

static void post_surely(struct agents *a, struct errand *errand, int shard)
{
    errand->number = (uint64_t)(int64_t)shard;
    if (!errand_post(errand, shard)) list_push_back(&a->untaken, &errand->of_user);
}

static bool post_untaken(struct agents *a)
{
    struct list *node;

    while ((node = list_first(&a->untaken)) != NULL) {
        struct errand *errand = container_of(node, struct errand, of_user);
        if (!errand_post(errand, (int)(int64_t)errand->number)) return false;
        list_remove(node);
    }
    return true;
}

static bool passes(enum status status)
{
    return status == E_NOMEM || status == E_LIMIT || status == E_UNAVAILABLE || status == E_BUSY ||
           status == E_NOSPACE;
}

static void on_given_back(struct errand *errand)
{
    struct agents *a = errand->user;

    if (passes(errand->request.status)) {
        list_push_back(&a->untaken, &errand->of_user);
        return;
    }
    errand_free(errand);
}

/* It never reached an agent. While the server stops it stays with the engine, which offers it again
 * after the restart. */
static void give_back(struct agents *a, struct parcel *parcel)
{
    struct errand *errand =
        a->rest->is_draining ? NULL : errand_new(a->rest->desk, REQUEST_ABANDON, NULL);

    if (errand != NULL) {
        errand->request.key = errand_copy(errand, parcel->ref.key);
        errand->request.lease.ref = parcel->ref;
        errand->request.lease.ref.key = errand->request.key;
        errand->request.lease.is_unsent = true;
        errand->user = a;
        errand->done = on_given_back;
        if (errand->request.key.len == parcel->ref.key.len)
            post_surely(a, errand, -1);
        else
            errand_free(errand);
    }
    parcel_free(parcel);
}

/* ---- the end of a poll ---- */

static void poll_free(struct poll *poll)
{
    struct agents *a = poll->agents;

    assert(poll->ask == NULL);
    assert(list_is_empty(&poll->parcels));
    list_remove(&poll->node);
    a->polls_n--;
    arena_release(&poll->arena);
    mem_give(a->rest->mem, poll, poll->size);
}

static bool is_detached(const struct poll *poll)
{
    for (uint32_t n = 0; n < poll->shards_n; n++) {
        if (poll->shards[n].state != SHARD_GONE) return false;
    }
    return true;
}

static void give_all_back(struct poll *poll)
{
    struct list *node;

    while ((node = list_pop_front(&poll->parcels)) != NULL) {
        give_back(poll->agents, container_of(node, struct parcel, node));
    }
    poll->parcels_n = 0;
}

static void write_items(struct poll *poll, struct buffer *out)
{
    int64_t wall_ms = rest_wall_ns() / 1000000;

    buffer_append_bytes(out, BYTES_LITERAL("{\"items\":["));
    for (struct list *n = list_first(&poll->parcels); n != NULL; n = list_next(&poll->parcels, n)) {
        const struct parcel *parcel = container_of(n, struct parcel, node);
        struct bytes message = buffer_view(&parcel->message);
        int64_t complete_by_ms = (int64_t)load_u64(message.ptr);
        char time[MOMENT_SIZE];
        if (complete_by_ms == 0 || poll->has_lease) complete_by_ms = wall_ms + poll->lease_ms;
        if (n != list_first(&poll->parcels)) buffer_append_bytes(out, BYTES_LITERAL(","));
        buffer_append(out, message.ptr + MESSAGE_HEAD_SIZE, message.len - MESSAGE_HEAD_SIZE);
        buffer_append_bytes(out, BYTES_LITERAL(",\"completeBy\":\""));
        buffer_append(out, time,
                      moment_format(moment_of_ms(complete_by_ms), MOMENT_SHORTEST, time));
        buffer_append_bytes(out, BYTES_LITERAL("\"}"));
    }
    buffer_append_bytes(out, BYTES_LITERAL("]}"));
}

static void answer(struct poll *poll)
{
    struct ask *ask = poll->ask;
    struct list *node;

    ask->ops = NULL;
    poll->ask = NULL;
    buffer_clear(&ask->text);
    write_items(poll, &ask->text);
    if (ask->text.failed || !poll->is_known) { /* or it would ask again at once, and again */
        give_all_back(poll);
        ask_busy(ask);
        return;
    }
    while ((node = list_pop_front(&poll->parcels)) != NULL) {
        parcel_free(container_of(node, struct parcel, node));
    }
    ask_json(ask, 200, buffer_view(&ask->text));
}

/* Detached, and every piece has its lease or went back. */
static void settle(struct poll *poll)
{
    if (!poll->is_ending || poll->leasing_n > 0 || !is_detached(poll)) return;
    if (poll->ask != NULL)
        answer(poll);
    else
        give_all_back(poll);
    poll_free(poll);
}

/* ---- leases ---- */

struct leasing {
    struct poll *poll;
    struct parcel *parcel;
};

static void on_leased(struct errand *errand)
{
    struct leasing *leasing = errand->user;
    struct poll *poll = leasing->poll;

    poll->leasing_n--;
    if (errand->request.status != OK) {
        list_remove(&leasing->parcel->node);
        poll->parcels_n--;
        if (errand->request.status == E_STALE)
            parcel_free(leasing->parcel); /* it ended meanwhile */
        else
            give_back(poll->agents, leasing->parcel);
    }
    errand_free(errand);
    settle(poll);
}

/* Without memory the parcel goes back. */
static void lease(struct poll *poll, struct parcel *parcel)
{
    struct errand *errand = errand_new(poll->desk, REQUEST_RENEW, NULL);
    struct leasing *leasing =
        errand == NULL ? NULL : arena_alloc_zero(&errand->arena, sizeof *leasing);
    struct bytes key = leasing == NULL ? BYTES_NONE : errand_copy(errand, parcel->ref.key);

    if (key.len != parcel->ref.key.len) {
        if (errand != NULL) errand_free(errand);
        list_remove(&parcel->node);
        poll->parcels_n--;
        give_back(poll->agents, parcel);
        return;
    }
    *leasing = (struct leasing){poll, parcel};
    errand->request.key = key;
    errand->request.lease.ref = parcel->ref;
    errand->request.lease.ref.key = key;
    errand->request.lease.extend_ms = poll->lease_ms;
    errand->request.lease.is_limit = true;
    errand->user = leasing;
    errand->done = on_leased;
    poll->leasing_n++;
    post_surely(poll->agents, errand, -1);
}

static bool needs_lease(const struct poll *poll, const struct parcel *parcel)
{
    return poll->has_lease || load_u64(parcel->message.ptr) == 0;
}

/* What it was given; settle() follows. */
static void lease_all(struct poll *poll)
{
    struct list *next = NULL;

    for (struct list *n = list_first(&poll->parcels); n != NULL; n = next) {
        struct parcel *parcel = container_of(n, struct parcel, node);
        next = list_next(&poll->parcels, n);
        if (needs_lease(poll, parcel)) lease(poll, parcel);
    }
}

/* ---- attaching and detaching ---- */

static void on_detached(struct errand *errand)
{
    struct poll_shard *shard = errand->user;
    struct poll *poll = shard->poll;

    if (passes(errand->request.status)) {
        list_push_back(&poll->agents->untaken, &errand->of_user);
        return;
    }
    errand_free(errand);
    shard->state = SHARD_GONE;
    if (!is_detached(poll)) return;
    if (poll->ask != NULL) lease_all(poll);
    settle(poll);
}

/* Without memory the next tick tries again. */
static void detach(struct poll_shard *shard)
{
    struct poll *poll = shard->poll;
    struct errand *errand;

    if (shard->is_attaching || shard->state != SHARD_ATTACHED) return;
    errand = errand_new(poll->desk, REQUEST_WORKER_DETACH, NULL);
    poll->agents->is_short = poll->agents->is_short || errand == NULL;
    if (errand == NULL) return;
    errand->request.worker.worker = &shard->worker;
    errand->user = shard;
    errand->done = on_detached;
    shard->state = SHARD_DETACHING;
    post_surely(poll->agents, errand, (int)(shard - poll->shards));
}

bool agents_retry(struct agents *a)
{
    if (a->is_short) {
        a->is_short = false;
        for (struct list *n = list_first(&a->polls); n != NULL; n = list_next(&a->polls, n)) {
            struct poll *poll = container_of(n, struct poll, node);
            for (uint32_t i = 0; poll->is_ending && i < poll->shards_n; i++) {
                detach(&poll->shards[i]);
            }
        }
    }
    return post_untaken(a) && !a->is_short;
}

/* Its wait is over, one way or another. May free it. */
static void poll_end(struct poll *poll)
{
    poll->is_ending = true;
    if (poll->ask != NULL) ask_set_time(poll->ask, HEAP_NEVER);
    for (uint32_t n = 0; n < poll->shards_n; n++) detach(&poll->shards[n]);
    settle(poll);
}

static void on_attached(struct errand *errand)
{
    struct poll_shard *shard = errand->user;
    struct poll *poll = shard->poll;
    enum status status = errand->request.status;

    errand_free(errand);
    shard->is_attaching = false;
    if (status == OK)
        shard->id = shard->worker.id;
    else
        shard->state = SHARD_GONE;
    poll->is_known = poll->is_known || status == OK;
    if (poll->is_ending) {
        detach(shard);
        settle(poll);
    } else if (is_detached(poll)) {
        poll_end(poll); /* the engine takes no worker */
    }
}

static void attach(struct poll_shard *shard)
{
    struct poll *poll = shard->poll;
    struct errand *errand = errand_new(poll->desk, REQUEST_WORKER_ATTACH, NULL);

    shard->state = SHARD_GONE;
    if (errand == NULL) return;
    errand->request.worker.worker = &shard->worker;
    errand->user = shard;
    errand->done = on_attached;
    if (!errand_post(errand, (int)(shard - poll->shards))) {
        errand_free(errand);
        return;
    }
    shard->state = SHARD_ATTACHED;
    shard->is_attaching = true;
}

/* ---- work ---- */

void agents_parcel(struct agents *a, struct parcel *parcel)
{
    struct poll_shard *shard = container_of(parcel->worker, struct poll_shard, worker);
    struct poll *poll = shard->poll;

    if (poll->ask == NULL || poll->parcels_n == poll->max_n || parcel->message.failed) {
        give_back(a, parcel);
        return;
    }
    list_push_back(&poll->parcels, &parcel->node);
    poll->parcels_n++;
    poll->parcels_size += parcel->message.len;
    if (poll->is_ending) return;
    if (poll->parcels_n == poll->max_n || poll->parcels_size >= GATHER_SIZE) {
        poll_end(poll);
    } else if (poll->parcels_n == 1) {
        int64_t at_ns = rest_now(poll->ask) + GATHER_NS;
        ask_set_time(poll->ask, at_ns < poll->end_ns ? at_ns : poll->end_ns);
    }
}

/* ---- what else happens ---- */

static void on_time(struct ask *ask) { poll_end(ask->user); }
static void on_writable(struct ask *ask) { (void)ask; /* one answer */ }

static void on_closed(struct ask *ask)
{
    struct poll *poll = ask->user;

    poll->ask = NULL;
    ask->ops = NULL;
    ask_answer(ask, 503, NULL, BYTES_NONE); /* nobody reads it */
    poll_end(poll);
}

static const struct ask_ops ops = {
    .closed = on_closed,
    .writable = on_writable,
    .time = on_time,
    .drain = on_time,
    .half_closed = on_time,
};

/* ---- the request ---- */

enum poll_field { POLL_MAX, POLL_WAIT, POLL_LEASE, POLL_WORKER, POLL_FIELDS_N };

static bool bad_field(struct ask *ask, const char *what)
{
    ask_problem(ask, PROBLEM_BAD_JSON, NULL, "%s", what);
    return false;
}

/* Untouched when it is absent. False: answered. */
static bool read_duration(struct ask *ask, const struct body_value *value, int64_t max_ms,
                          const char *what, int64_t *out)
{
    int64_t ms;

    if (!value->has) return true;
    if (!duration_parse(value->text, &ms) || ms > max_ms) return bad_field(ask, what);
    *out = ms;
    return true;
}

/* What it calls itself, else its program, and where it is. */
static void poll_set_name(struct poll *poll, const struct ask *ask, struct bytes own_name)
{
    if (own_name.len == 0) own_name = http_header(ask->exchange, "user-agent");
    poll->worker_name = worker_name_make(&poll->arena, own_name, http_peer(ask->exchange));
    for (uint32_t n = 0; n < poll->shards_n; n++) {
        poll->shards[n].worker.name = poll->worker_name;
    }
}

static bool read_wishes(struct ask *ask, struct poll *poll, int64_t *wait_ms)
{
    static const struct body_field fields[POLL_FIELDS_N] = {
        {"max", BODY_NUMBER},
        {"wait", BODY_TEXT},
        {"lease", BODY_TEXT},
        {"worker", BODY_TEXT},
    };
    struct body_value values[POLL_FIELDS_N];

    if (!body_read(ask, ask_body(ask), &ask->arena, fields, POLL_FIELDS_N, values)) return false;
    if (values[POLL_MAX].has) {
        if (values[POLL_MAX].number < 1 || values[POLL_MAX].number > MAX_N_MAX)
            return bad_field(ask, "max must be a number from 1 to 100");
        poll->max_n = (uint32_t)values[POLL_MAX].number;
    }
    if (!read_duration(ask, &values[POLL_WAIT], WAIT_MS_MAX,
                       "wait must be a duration like 500ms or 30s, at most 60s", wait_ms) ||
        !read_duration(ask, &values[POLL_LEASE], LEASE_MS_MAX,
                       "lease must be a duration like 30s or 5m, at most 24h", &poll->lease_ms)) {
        return false;
    }
    if (values[POLL_LEASE].has && poll->lease_ms < 1)
        return bad_field(ask, "lease must be longer than nothing");
    poll->has_lease = values[POLL_LEASE].has;
    if (values[POLL_WORKER].text.len > WORKER_NAME_SIZE)
        return bad_field(ask, "worker must not be longer than 100 bytes");
    poll_set_name(poll, ask, values[POLL_WORKER].text);
    return true;
}

static struct poll *poll_new(struct agents *a, struct ask *ask)
{
    uint32_t shards_n = desk_engine(a->rest->desk)->shards_n;
    size_t size = sizeof(struct poll) + shards_n * sizeof(struct poll_shard);
    struct poll *poll = mem_take_zero(a->rest->mem, size);

    if (poll == NULL) return NULL;
    poll->agents = a;
    poll->size = size;
    poll->shards_n = shards_n;
    poll->desk = a->rest->desk;
    poll->mac_key = desk_engine(a->rest->desk)->mac_key;
    poll->max_n = MAX_N_DEFAULT;
    poll->lease_ms = LEASE_MS_DEFAULT;
    poll->opened_ns = rest_now(ask);
    list_init(&poll->parcels);
    arena_init(&poll->arena, a->rest->mem, 256);
    poll->hub = arena_copy(&poll->arena, ask->hub);
    poll->name = arena_copy(&poll->arena, ask->path[0]);
    poll->filter.name = poll->name;
    list_push_back(&a->polls, &poll->node);
    a->polls_n++;
    for (uint32_t n = 0; n < shards_n; n++) {
        struct poll_shard *shard = &poll->shards[n];
        shard->poll = poll;
        shard->state = SHARD_GONE;
        shard->worker = (struct worker){
            .hub = poll->hub,
            .deliver = deliver,
            .user = shard,
            .has_filters = true,
            .task_filters = &poll->filter,
            .task_filters_n = 1,
        };
    }
    return poll;
}

static void poll_work(struct ask *ask)
{
    struct agents *a = ask->rest->agents;
    int64_t wait_ms = WAIT_MS_DEFAULT;

    if (a->polls_n >= POLLS_N_MAX) {
        ask_problem(ask, PROBLEM_TOO_BUSY, "ask again in a moment",
                    "there are %u polls already, the limit", POLLS_N_MAX);
        return;
    }
    struct poll *poll = poll_new(a, ask);
    if (poll == NULL || poll->hub.len != ask->hub.len || poll->name.len != ask->path[0].len) {
        if (poll != NULL) poll_free(poll);
        ask_busy(ask);
        return;
    }
    if (!read_wishes(ask, poll, &wait_ms)) {
        poll_free(poll);
        return;
    }
    poll->ask = ask;
    poll->end_ns = rest_now(ask) + wait_ms * 1000000;
    ask->user = poll;
    ask->ops = &ops;
    ask_set_time(ask, poll->end_ns);
    uint32_t share = poll->max_n / poll->shards_n;
    for (uint32_t n = 0; n < poll->shards_n; n++) {
        poll->shards[n].worker.tasks_credit = share > 0 ? share : 1;
        attach(&poll->shards[n]);
    }
    if (is_detached(poll)) poll_end(poll);
}

/* ---- all of them ---- */

enum status agents_new(struct rest *r, struct agents **out)
{
    struct agents *a = mem_take_zero(r->mem, sizeof *a);

    if (a == NULL) return E_NOMEM;
    a->rest = r;
    list_init(&a->polls);
    list_init(&a->untaken);
    *out = a;
    return OK;
}

void agents_free(struct agents *a)
{
    struct list *node;

    a->rest->is_draining = true; /* nothing goes back any more */
    /* What the engine never took is over with it; some of it ends a poll. */
    while ((node = list_pop_front(&a->untaken)) != NULL) {
        struct errand *errand = container_of(node, struct errand, of_user);
        errand->request.status = E_CLOSED;
        errand->done(errand);
    }
    while ((node = list_first(&a->polls)) != NULL) {
        struct poll *poll = container_of(node, struct poll, node);
        give_all_back(poll);
        poll_free(poll);
    }
    mem_give(a->rest->mem, a, sizeof *a);
}

bool agents_are_quiet(const struct agents *a) { return list_is_empty(&a->polls); }

void agents_each(const struct agents *a, agent_fn *fn, void *user)
{
    for (struct list *n = list_first(&a->polls); n != NULL; n = list_next(&a->polls, n)) {
        const struct poll *poll = container_of(n, struct poll, node);
        struct agent_view view = {
            .id = poll->shards[0].id,
            .hub = poll->hub,
            .name = poll->name,
            .worker = poll->worker_name,
            .since_ns = poll->opened_ns,
        };
        if (!poll->is_ending) fn(user, &view);
    }
}

const struct route routes_agents[] = {
    {"POST", "/v1/agents/{name}/poll", poll_work, NULL, ROUTE_PLAIN, "pollWork"},
    {0},
};
