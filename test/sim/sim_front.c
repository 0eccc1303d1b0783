/* SPDX-License-Identifier: Apache-2.0
 *
 * See sim_front.h. Everything that passes between the service and a host is looked at on the way:
 * answers and work as those of the direct senders are (S1, S10).
 */
#include "test/sim/sim_front.h"

#include "base/assert.h"
#include "host/purger.h"
#include "net/conn.h"
#include "server/work.h"
#include "test/sim/sim_check.h"
#include "test/sim/sim_client.h"
#include "test/sim/sim_link.h"
#include "test/sim/sim_node.h"

#include <stdio.h>

#define BELL_NS INT64_C(5000)
#define TICK_NS NS_PER_MS /* the service is asked for its next time at most so often */
#define DRAIN_POLL_NS (10 * NS_PER_MS)
#define DRAIN_PATIENCE_NS (10 * NS_PER_S)
/* W3: what a stream has beyond its queue when its last credit comes all at once (WINDOW_SIZE of
 * work_stream.c, and its largest message). */
#define WINDOW_SIZE_MAX ((size_t)512 << 10)
/* W2: what the server keeps for a connection that does nothing, and for itself: spare errands. */
#define REST_SIZE ((size_t)1 << 20)
#define REST_LINK_SIZE ((size_t)384 << 10)

struct front {
    struct world *w;
    struct mem mem; /* of the network's thread */
    struct service *service;
    struct conn_limits limits;
    struct net_counters counters;
    struct http_service http;
    struct purger purger; /* of all shards together */
    uint64_t mac_key[2];
    struct list links;
    uint32_t links_n;
    struct moment bell;
    struct moment tick;
    struct moment drain_poll;
    int64_t drain_until_ns;
    bool is_up;
    bool is_gone; /* crashed: nothing may be posted */
    bool is_draining;
    bool is_last; /* the end of the run: no other one comes */
    uint32_t incarnation;
    request_done_fn *desk_done; /* the desk's, called behind ours */
    void (*deliver)(struct worker *worker, const struct effect_work *work);
};

static struct front *current(void) { return sim_current->front; }

/* ---- between the desk and the hosts ---- */

static struct node *node_of(struct front *f, const struct request *request)
{
    if (f->w->options.shards_n == 1) return f->w->nodes[0];
    return node_of_key(f->w, request->key);
}

static void on_done(struct request *request)
{
    struct front *f = current();
    bool has_key = request->key.len > 0;
    struct node *n = has_key ? node_of(f, request) : NULL;

    if (n != NULL && n->is_up && !n->is_ending) {
        check_answer(n, request);
        if (request->kind == REQUEST_RAISE && request->status == OK && request->text[0] != '\0') {
            crowd_drop(f->w->crowd, request->key, request->client.data.value);
        }
    }
    f->desk_done(request);
}

static void on_deliver(struct worker *worker, const struct effect_work *work)
{
    struct front *f = current();
    const struct work_shard *shard = container_of(worker, struct work_shard, worker);
    struct node *n = f->w->nodes[shard->number];

    if (n->is_ending) return;
    check_delivery(n, work);
    f->deliver(worker, work);
}

static bool post_raw(struct front *f, struct node *n, struct request *request)
{
    if (f->is_gone || !n->is_up || n->is_ending) return false;
    if (!host_post(n->host, request)) return false;
    node_wake(n);
    return true;
}

static bool post_of_purger(struct purger *p, struct request *request)
{
    struct front *f = container_of(p, struct front, purger);

    return post_raw(f, node_of(f, request), request);
}

static int64_t purger_now_ns(struct purger *p)
{
    return link_now_ns(container_of(p, struct front, purger)->w);
}

static void interpose(struct front *f, struct request *request)
{
    if (request->done != on_done) f->desk_done = request->done;
    request->done = on_done;
    if (request->kind != REQUEST_WORKER_ATTACH) return;
    struct worker *worker = request->worker.worker;
    if (worker->deliver != on_deliver) f->deliver = worker->deliver;
    worker->deliver = on_deliver;
}

static bool post(void *user, struct request *request)
{
    struct front *f = user;

    if (f->is_gone) return false;
    interpose(f, request);
    if (f->w->options.shards_n > 1 && request->kind == REQUEST_PURGE && request->client.recurse) {
        return purge_tree(&f->purger, request) == OK;
    }
    return post_raw(f, node_of(f, request), request);
}

static bool post_to(void *user, uint32_t shard, struct request *request)
{
    struct front *f = user;

    interpose(f, request);
    return post_raw(f, f->w->nodes[shard], request);
}

static void ring(void *user)
{
    struct front *f = user;

    if (!f->is_gone && !moment_is_set(&f->bell)) moment_after(f->w, &f->bell, BELL_NS);
}

/* ---- what must hold at all times ---- */

static void check_stream(struct front *f, const struct work_stream *stream)
{
    for (int kind = 0; kind < WORK_KINDS_N; kind++) {
        if (stream->in_flight[kind] <= stream->limit[kind]) continue;
        sim_fail(f->w, "W1 limit", "a stream has %u pieces of work, its limit is %u",
                 stream->in_flight[kind], stream->limit[kind]);
    }
    if (stream->call == NULL) return;
    size_t queued = grpc_queued(stream->call);
    if (queued > f->limits.stream_queue_size + WINDOW_SIZE_MAX) {
        sim_fail(f->w, "W3 bounded", "%zu bytes wait for a worker that does not read", queued);
    }
}

static void front_check(struct front *f)
{
    const struct list *streams = &f->service->workers.streams;

    for (struct list *at = list_first(streams); at != NULL; at = list_next(streams, at)) {
        check_stream(f, container_of(at, struct work_stream, node));
    }
    size_t size_max = REST_SIZE + (f->links_n + 1) * (REST_LINK_SIZE + f->limits.conn_queue_size +
                                                      WINDOW_SIZE_MAX);
    if (f->mem.used > size_max) {
        sim_fail(f->w, "W3 bounded", "%zu bytes for %u connections", f->mem.used, f->links_n);
    }
}

/* ---- moments ---- */

void front_set_now(struct front *f) { service_set_now(f->service, link_now_ns(f->w)); }

void front_touch(struct front *f)
{
    if (f->is_gone) return;
    if (moment_is_set(&f->tick) && f->tick.node.key <= f->w->now_ns + TICK_NS) return;
    moment_after(f->w, &f->tick, TICK_NS);
}

static void on_bell(struct moment *m)
{
    struct front *f = container_of(m, struct front, bell);

    front_set_now(f);
    service_bell(f->service);
    front_check(f);
    front_touch(f);
}

static void on_tick(struct moment *m)
{
    struct front *f = container_of(m, struct front, tick);

    front_set_now(f);
    int64_t next_ns = service_tick(f->service);
    int64_t now_ns = link_now_ns(f->w);
    if (next_ns == INT64_MAX || moment_is_set(m)) return;
    moment_after(f->w, m, next_ns > now_ns + TICK_NS ? next_ns - now_ns : TICK_NS);
}

/* ---- from birth to death ---- */

static void on_page(void *user, struct http_exchange *exchange)
{
    (void)user;
    http_answer(exchange, 404, "text/plain", BYTES_NONE);
}

static void draw_limits(struct front *f, struct service_options *service)
{
    const struct sim_options *o = &f->w->options;

    conn_limits_init(&f->limits);
    f->limits.ping_ms = o->ping_ms;
    f->limits.idle_ms = 10 * o->ping_ms;
    f->limits.stream_queue_size = (size_t)o->queue_size;
    f->limits.conn_queue_size = 4 * (size_t)o->queue_size;
    service_options_init(service);
    service->ping_ms = o->ping_ms;
    service->grace_ms = o->grace_ms;
    service->history_size_max = (size_t)o->history_size_max;
    service->errands_n_max = (size_t)o->errands_n_max;
    service->seed = o->seed + ++f->incarnation;
}

static void front_start(struct front *f)
{
    struct service_options options;

    mem_init(&f->mem, SIZE_MAX);
    draw_limits(f, &options);
    options.mem = &f->mem;
    options.engine = (struct desk_engine){
        .user = f,
        .post = post,
        .post_to = post_to,
        .shards_n = f->w->options.shards_n,
        .mac_key = f->mac_key,
        .ring = ring,
    };
    f->http = (struct http_service){.request = on_page, .closed = on_page};
    f->is_gone = false;
    f->is_draining = false;
    enum status status = service_new(&options, link_now_ns(f->w), &f->service);
    assert(status == OK);
    f->is_up = true;
    sim_say(f->w, SIM_LOG_SHORT, "front", "up");
}

void front_node_up(struct front *f)
{
    if (f == NULL || f->is_up || f->is_last) return;
    for (uint32_t i = 0; i < f->w->options.shards_n; i++) {
        if (!f->w->nodes[i]->is_up) return;
    }
    front_start(f);
}

bool front_crash(struct front *f)
{
    struct list *at = NULL;

    if (f == NULL || !f->is_up) return false;
    f->is_up = false;
    f->is_gone = true;
    moment_cancel(f->w, &f->bell);
    moment_cancel(f->w, &f->tick);
    moment_cancel(f->w, &f->drain_poll);
    while ((at = list_first(&f->links)) != NULL) link_server_gone(link_of_front(at));
    return true;
}

void front_put_away(struct front *f)
{
    assert(f->is_gone);
    service_free(f->service);
    f->service = NULL;
    mem_release(&f->mem); /* asserts that everything was given back */
}

bool front_is_listening(const struct front *f) { return f != NULL && f->is_up && !f->is_draining; }

struct conn *front_accept(struct front *f, struct list *node)
{
    struct conn *conn = NULL;
    struct conn_options options = {
        .mem = &f->mem,
        .limits = &f->limits,
        .counters = &f->counters,
        .grpc = service_grpc(f->service),
        .http = &f->http,
        .is_trusted = true,
    };

    front_set_now(f);
    enum status status = conn_new(&options, link_now_ns(f->w), &conn);
    assert(status == OK);
    list_push_back(&f->links, node);
    f->links_n++;
    return conn;
}

void front_forget(struct front *f, struct list *node)
{
    list_remove(node);
    f->links_n--;
}

/* ---- an orderly end ---- */

static bool is_drained(const struct front *f)
{
    return service_is_quiet(f->service) || f->w->now_ns >= f->drain_until_ns;
}

static void on_drain_poll(struct moment *m)
{
    struct front *f = container_of(m, struct front, drain_poll);

    if (!is_drained(f)) {
        moment_after(f->w, m, DRAIN_POLL_NS);
        return;
    }
    if (!f->is_last) {
        node_crash(f->w->nodes[0], "drained");
        return;
    }
    if (!service_is_quiet(f->service)) {
        sim_fail(f->w, "W2 drain", "the service does not come to its end");
    }
    (void)front_crash(f);
    front_put_away(f);
}

void front_drain(struct front *f)
{
    if (f == NULL || !f->is_up || f->is_draining) return;
    sim_say(f->w, SIM_LOG_SHORT, "front", "drains");
    f->is_draining = true;
    f->drain_until_ns = f->w->now_ns + DRAIN_PATIENCE_NS;
    front_set_now(f);
    for (struct list *at = list_first(&f->links); at != NULL; at = list_next(&f->links, at)) {
        struct link *l = link_of_front(at);
        conn_drain(link_conn(l), link_now_ns(f->w));
        link_wake_server(l);
    }
    service_drain(f->service);
    front_touch(f);
    moment_after(f->w, &f->drain_poll, DRAIN_POLL_NS);
}

void front_stop(struct front *f)
{
    if (f == NULL) return;
    f->is_last = true;
    front_drain(f);
}

bool front_is_stopped(const struct front *f) { return f == NULL || !f->is_up; }

bool front_is_quiet(const struct front *f)
{
    struct service_stats stats;

    if (f == NULL) return true;
    if (!f->is_up) return false;
    service_stats(f->service, &stats);
    return desk_errands_n(f->service->desk) == 0 && stats.leases_n == 0 && stats.waiting_n == 0;
}

static void say_leases(const struct front *f, const struct list *leases, const char *who)
{
    for (struct list *n = list_first(leases); n != NULL; n = list_next(leases, n)) {
        const struct work_ref *ref = &container_of(n, struct lease, of_owner)->ref;
        sim_say(f->w, SIM_LOG_NONE, who, "holds %.*s kind %d task %d epoch %u attempt %u base %llu",
                (int)ref->key.len, (const char *)ref->key.ptr, (int)ref->kind, ref->task_id,
                ref->epoch, ref->attempt, (unsigned long long)ref->base);
    }
}

_Noreturn void front_report(const struct front *f)
{
    struct service_stats stats = {0};

    if (!f->is_up) sim_fail(f->w, "W2 rest", "the front is not up");
    service_stats(f->service, &stats);
    const struct list *streams = &f->service->workers.streams;
    for (struct list *at = list_first(streams); at != NULL; at = list_next(streams, at)) {
        say_leases(f, &container_of(at, struct work_stream, node)->leases, "stream");
    }
    say_leases(f, &f->service->workers.orphans, "nobody");
    sim_fail(f->w, "W2 rest", "%zu requests, %u pieces of work and %u waiting calls are held",
             desk_errands_n(f->service->desk), stats.leases_n, stats.waiting_n);
}

void front_check_rest(struct front *f)
{
    if (f == NULL) return;
    const struct list *streams = &f->service->workers.streams;
    for (struct list *at = list_first(streams); at != NULL; at = list_next(streams, at)) {
        const struct work_stream *stream = container_of(at, struct work_stream, node);
        for (int kind = 0; kind < WORK_KINDS_N; kind++) {
            if (stream->in_flight[kind] == 0) continue;
            sim_fail(f->w, "W2 rest", "a stream without work counts %u pieces",
                     stream->in_flight[kind]);
        }
    }
    if (f->mem.used > REST_SIZE + f->links_n * REST_LINK_SIZE) {
        sim_fail(f->w, "W2 rest", "%zu bytes are kept for %u idle connections", f->mem.used,
                 f->links_n);
    }
}

static bool is_same(const struct work_ref *a, const struct work_ref *b)
{
    return a->kind == b->kind && a->epoch == b->epoch && a->attempt == b->attempt &&
           a->base == b->base && a->task_id == b->task_id && bytes_equal(a->key, b->key) &&
           bytes_equal(bytes_make(a->execution_id, EXECUTION_ID_SIZE),
                       bytes_make(b->execution_id, EXECUTION_ID_SIZE));
}

bool front_has_lease(const struct front *f, const struct work_ref *ref)
{
    if (!f->is_up) return false;
    const struct list *streams = &f->service->workers.streams;
    for (struct list *at = list_first(streams); at != NULL; at = list_next(streams, at)) {
        const struct list *leases = &container_of(at, struct work_stream, node)->leases;
        for (struct list *n = list_first(leases); n != NULL; n = list_next(leases, n)) {
            if (is_same(&container_of(n, struct lease, of_owner)->ref, ref)) return true;
        }
    }
    return false;
}

const uint64_t *front_mac_key(const struct front *f) { return f->mac_key; }

struct front *front_new(struct world *w)
{
    struct front *f = mem_take_zero(mem_process(), sizeof *f);

    assert(f != NULL);
    f->w = w;
    f->mac_key[0] = w->options.seed;
    f->mac_key[1] = 1;
    f->purger.post = post_of_purger;
    f->purger.now_ns = purger_now_ns;
    list_init(&f->links);
    moment_init(&f->bell, on_bell);
    moment_init(&f->tick, on_tick);
    moment_init(&f->drain_poll, on_drain_poll);
    return f;
}

void front_free(struct front *f)
{
    if (f == NULL) return;
    assert(!f->is_up);
    mem_give(mem_process(), f, sizeof *f);
}
