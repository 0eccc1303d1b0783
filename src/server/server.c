/* SPDX-License-Identifier: Apache-2.0
 *
 * See server.h. This file only connects: the loop's events go to service, pages and vitals, and
 * their wishes (a bell, a time to be called) to the loop. Everything here runs on the loop's
 * thread, except ring(), which any thread may call, and close_engine().
 */
#define _GNU_SOURCE /* pthread_setname_np */
#include "server/server.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "net/loop.h"
#include "server/address.h"
#include "server/notify.h"
#include "server/pages.h"
#include "server/startup.h"
#include "server/vitals.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sysexits.h>
#include <unistd.h>

/* How late a tick may be after something came; also how often the service is ticked under load. */
#define TICK_DELAY_MS 20
/* Of the drain's time: then connections that are still there do not matter any more. */
#define CONNECTIONS_PART 2
#define LISTEN_TEXT_SIZE 200

enum phase { PHASE_RUNNING, PHASE_DRAINING, PHASE_CLOSING, PHASE_OVER };

struct server {
    const struct server_options *options;
    struct mem mem;             /* of the loop's thread */
    uint32_t connections_n_max; /* as many as there may be files open for */
    struct engine *engine;
    struct replier *replier;
    struct desk_engine desk_engine;
    atomic_bool is_bell_owed; /* something came for the loop's thread, which was not woken yet */
    struct service *service;
    struct grpc_service grpc; /* sets the service's clock, then calls it */
    struct vitals *vitals;
    struct pages *pages;
    void *front;              /* of options->front; NULL = there is none */
    struct feed *feed;        /* for the front; NULL = nobody would read it */
    struct http_service http; /* sets the front's clock, then calls it */
    struct loop *loop;
    _Atomic(struct loop *) loop_to_wake; /* the same, for other threads; NULL before it is there */
    enum phase phase;
    bool are_connections_gone;
    struct loop_timer *tick;
    int64_t tick_at_ns; /* INT64_MAX = not set */
    struct loop_timer *drain;
    int64_t drain_end_ns;
    struct loop_timer *watchdog;
    int64_t watchdog_ms;
    struct vitals_asker watchdog_asker;
    bool is_watchdog_asking;
    struct vitals_asker dump_asker;
    bool is_dump_asking;
    pthread_t closer;
    struct queue closed; /* from the closer: `closed_node` when the engine is closed */
    struct list closed_node;
};

/* ---- the engine, as the service sees it ---- */

static bool is_engine_open(const struct server *s)
{
    return s->phase == PHASE_RUNNING || s->phase == PHASE_DRAINING;
}

static bool post(void *user, struct request *request)
{
    struct server *s = user;

    return is_engine_open(s) && engine_post_quietly(s->engine, request);
}

static bool post_to(void *user, uint32_t shard, struct request *request)
{
    struct server *s = user;

    return is_engine_open(s) && engine_post_to_quietly(s->engine, shard, request);
}

/* The two threads wake each other once for a turn's worth, not for each request and answer: a wake
 * costs as much as the work, and who is woken for one thing sleeps again before the next comes. */
static void on_turned(void *user)
{
    struct server *s = user;

    if (is_engine_open(s)) engine_wake(s->engine);
}

static void ring(void *user)
{
    struct server *s = user;

    atomic_store(&s->is_bell_owed, true);
}

/* On a host's thread. */
static void on_told(void *user)
{
    struct server *s = user;

    if (atomic_load(&s->is_bell_owed) && atomic_exchange(&s->is_bell_owed, false))
        loop_ring(s->loop);
}

/* ---- time ---- */

static void advance(struct server *s);

static void tick_not_later(struct server *s, int64_t at_ns)
{
    int64_t now_ns = loop_now_ns(s->loop);

    if (at_ns >= s->tick_at_ns || s->phase == PHASE_OVER) return;
    s->tick_at_ns = at_ns;
    int64_t after_ms = at_ns <= now_ns ? 0 : (at_ns - now_ns + NS_PER_MS - 1) / NS_PER_MS;
    loop_timer_set(s->tick, after_ms);
}

/* Something came: what there is to do by time may have changed. */
static void tick_soon(struct server *s)
{
    tick_not_later(s, loop_now_ns(s->loop) + TICK_DELAY_MS * NS_PER_MS);
}

static void on_tick(void *user)
{
    struct server *s = user;

    s->tick_at_ns = INT64_MAX;
    service_set_now(s->service, loop_now_ns(s->loop));
    int64_t service_at_ns = is_engine_open(s) ? service_tick(s->service) : INT64_MAX;
    int64_t vitals_at_ns = vitals_tick(s->vitals, loop_now_ns(s->loop));
    int64_t at_ns = service_at_ns < vitals_at_ns ? service_at_ns : vitals_at_ns;
    if (s->front != NULL && is_engine_open(s)) {
        s->options->front->set_now(s->front, loop_now_ns(s->loop));
        int64_t front_at_ns = s->options->front->tick(s->front);
        if (front_at_ns < at_ns) at_ns = front_at_ns;
    }
    if (at_ns != INT64_MAX) tick_not_later(s, at_ns);
    advance(s);
}

/* ---- calls: the service has no clock of its own ---- */

static const struct grpc_service *inner(struct server *s)
{
    service_set_now(s->service, loop_now_ns(s->loop));
    tick_soon(s);
    return service_grpc(s->service);
}

static void on_call(void *user, struct grpc_call *call, struct bytes message)
{
    const struct grpc_service *grpc = inner(user);

    grpc->call(grpc->user, call, message);
}

static void on_oversize(void *user, const struct grpc_call *call, uint64_t size, struct bytes start)
{
    const struct grpc_service *grpc = inner(user);

    grpc->oversize(grpc->user, call, size, start);
}

static void on_writable(void *user, struct grpc_call *call)
{
    const struct grpc_service *grpc = inner(user);

    grpc->writable(grpc->user, call);
}

static void on_closed(void *user, struct grpc_call *call)
{
    const struct grpc_service *grpc = inner(user);

    grpc->closed(grpc->user, call);
}

/* ---- HTTP: the front has none either ---- */

static void front_set_now(struct server *s)
{
    if (s->front != NULL) s->options->front->set_now(s->front, loop_now_ns(s->loop));
}

static const struct http_service *inner_http(struct server *s)
{
    front_set_now(s);
    tick_soon(s);
    return s->options->front->http(s->front);
}

static void on_request(void *user, struct http_exchange *exchange)
{
    const struct http_service *http = inner_http(user);

    http->request(http->user, exchange);
}

static void on_http_writable(void *user, struct http_exchange *exchange)
{
    const struct http_service *http = inner_http(user);

    http->writable(http->user, exchange);
}

static void on_http_closed(void *user, struct http_exchange *exchange)
{
    const struct http_service *http = inner_http(user);

    http->closed(http->user, exchange);
}

static void on_http_half_closed(void *user, struct http_exchange *exchange)
{
    const struct http_service *http = inner_http(user);

    http->half_closed(http->user, exchange);
}

/* These two only look: they need no clock. */

static bool is_http_beside(void *user, const struct http_exchange *before,
                           const struct http_exchange *next)
{
    const struct server *s = user;
    const struct http_service *http = s->options->front->http(s->front);

    return http->is_beside(http->user, before, next);
}

static const char *on_http_refusal(void *user, enum http_refusal why, struct buffer *body)
{
    const struct server *s = user;
    const struct http_service *http = s->options->front->http(s->front);

    return http->refusal(http->user, why, body);
}

/* ---- the end ---- */

/* Nothing is lost: it is what a crash would do, and recovery is made for that. */
static _Noreturn void stop_at_once(const char *why)
{
    log_warn("stopped at once: %s; whatever was acknowledged is on disk", why);
    _exit(EX_OK);
}

static void *close_engine(void *user)
{
    struct server *s = user;

    replier_close(s->replier);
    engine_close(s->engine);
    bool is_pushed = queue_push(&s->closed, &s->closed_node);
    assert(is_pushed);
    loop_ring(s->loop);
    return NULL;
}

/* Closing may take as long as archiving what has finished: the loop goes on, for the second signal
 * and for the answers of what was still inside. */
static void begin_closing(struct server *s)
{
    s->phase = PHASE_CLOSING;
    if (pthread_create(&s->closer, NULL, close_engine, s) != 0) stop_at_once("no thread to close");
    (void)pthread_setname_np(s->closer, "closer");
}

static bool is_quiet(const struct server *s)
{
    return service_is_quiet(s->service) &&
           (s->front == NULL || s->options->front->is_quiet(s->front));
}

/* After everything that can end the present phase. */
static void advance(struct server *s)
{
    struct list closed;

    if (s->phase == PHASE_DRAINING && is_quiet(s) && s->are_connections_gone) begin_closing(s);
    if (s->phase != PHASE_CLOSING) return;
    list_init(&closed);
    if (queue_take_all(&s->closed, &closed, 0) == 0) return;
    list_remove(&s->closed_node);
    (void)pthread_join(s->closer, NULL);
    s->phase = PHASE_OVER;
    loop_stop(s->loop);
}

static void on_drained(void *user)
{
    struct server *s = user;

    s->are_connections_gone = true;
    advance(s);
}

/* Twice: peers that do not read keep the rest waiting for a part of the time only. */
static void on_drain_time(void *user)
{
    struct server *s = user;

    if (loop_now_ns(s->loop) >= s->drain_end_ns) stop_at_once("the drain's time is over");
    s->are_connections_gone = true;
    advance(s);
    loop_timer_set(s->drain, (s->drain_end_ns - loop_now_ns(s->loop)) / NS_PER_MS + 1);
}

static void begin_draining(struct server *s, const char *signal_name)
{
    int64_t drain_ms = s->options->drain_ms;

    log_info("%s: draining, at most %lld ms; a second signal stops at once", signal_name,
             (long long)drain_ms);
    (void)notify_send("STOPPING=1\nSTATUS=draining");
    s->phase = PHASE_DRAINING;
    s->drain_end_ns = loop_now_ns(s->loop) + drain_ms * NS_PER_MS;
    loop_timer_set(s->drain, drain_ms / CONNECTIONS_PART);
    service_set_now(s->service, loop_now_ns(s->loop));
    service_drain(s->service);
    front_set_now(s);
    if (s->front != NULL) s->options->front->drain(s->front);
    tick_soon(s);
    loop_drain(s->loop, on_drained);
    advance(s);
}

static void on_stop_signal(void *user, int signal, unsigned count)
{
    struct server *s = user;
    const char *name = signal == SIGINT ? "SIGINT" : "SIGTERM";

    if (count > 1 || s->phase != PHASE_RUNNING) stop_at_once(name);
    begin_draining(s, name);
}

/* ---- signals, watchdog, bell ---- */

static void on_reload_signal(void *user)
{
    struct server *s = user;
    char state[96];

    (void)snprintf(state, sizeof state, "RELOADING=1\nMONOTONIC_USEC=%lld",
                   (long long)(clock_mono_ns() / 1000));
    (void)notify_send(state);
    s->options->reload(s->options->user);
    (void)notify_send("READY=1");
}

static void on_dump_answer(struct vitals_asker *asker, const struct host_stats *h)
{
    struct server *s = container_of(asker, struct server, dump_asker);
    struct service_stats service;

    s->is_dump_asking = false;
    service_stats(s->service, &service);
    log_info("state: %u connections, %u workers, %u work items in flight, %u calls waiting, %llu "
             "calls, %llu failed",
             loop_connections_n(s->loop), service.workers_n, service.leases_n, service.waiting_n,
             (unsigned long long)service.calls, (unsigned long long)service.failed);
    if (h == NULL) {
        log_warn("state: the engine does not answer");
        return;
    }
    log_info("state: %llu instances in memory, %llu archived, %llu started, %llu finished; memory "
             "%llu bytes, journal %llu bytes, durable up to %llu, archived up to %llu%s",
             (unsigned long long)h->instances_hot, (unsigned long long)h->instances_archived,
             (unsigned long long)h->core.started, (unsigned long long)h->core.finished,
             (unsigned long long)h->mem_used, (unsigned long long)h->journal_bytes,
             (unsigned long long)h->lsn_durable, (unsigned long long)h->lsn_applied,
             h->is_disk_full ? "; the disk is full" : "");
}

static void on_dump_signal(void *user)
{
    struct server *s = user;

    if (s->is_dump_asking) return;
    s->is_dump_asking = true;
    vitals_ask(s->vitals, loop_now_ns(s->loop), &s->dump_asker);
    tick_soon(s);
}

/* An engine that does not answer is not reported alive: the service manager restarts us. */
static void on_watchdog_answer(struct vitals_asker *asker, const struct host_stats *stats)
{
    struct server *s = container_of(asker, struct server, watchdog_asker);

    s->is_watchdog_asking = false;
    if (stats != NULL) (void)notify_send("WATCHDOG=1");
}

static void on_watchdog(void *user)
{
    struct server *s = user;

    loop_timer_set(s->watchdog, s->watchdog_ms / 2);
    /* While it drains or closes there is a time limit of our own. */
    if (s->phase != PHASE_RUNNING) (void)notify_send("WATCHDOG=1");
    if (s->phase != PHASE_RUNNING || s->is_watchdog_asking) return;
    s->is_watchdog_asking = true;
    vitals_ask(s->vitals, loop_now_ns(s->loop), &s->watchdog_asker);
    tick_soon(s);
}

static void on_bell(void *user)
{
    struct server *s = user;

    /* Quiet since it closes: nothing of the service is inside the engine any more. */
    if (is_engine_open(s)) {
        service_set_now(s->service, loop_now_ns(s->loop));
        service_bell(s->service);
        front_set_now(s);
        if (s->front != NULL) s->options->front->bell(s->front);
    }
    vitals_bell(s->vitals);
    tick_soon(s);
    advance(s);
}

/* ---- what the pages ask ---- */

static int64_t pages_now(void *user)
{
    struct server *s = user;

    tick_soon(s); /* they are about to ask the vitals */
    return loop_now_ns(s->loop);
}

static void pages_metrics(void *user, struct metrics *out)
{
    struct server *s = user;

    *out = (struct metrics){
        .net = loop_counters(s->loop),
        .connections_n = loop_connections_n(s->loop),
        .is_draining = s->phase != PHASE_RUNNING,
    };
    service_stats(s->service, &out->service);
    if (s->front != NULL) s->options->front->stats(s->front, &out->front);
    if (s->replier != NULL) replier_stats(s->replier, &out->reply);
    process_stats(&out->process);
}

/* ---- the beginning ---- */

/* From any thread. */
static void wake_front(void *user)
{
    struct server *s = user;
    struct loop *loop = atomic_load(&s->loop_to_wake);

    if (loop != NULL) loop_ring(loop);
}

static enum status make_front(struct server *s)
{
    struct front_options options = {
        .mem = &s->mem,
        .desk_engine = s->desk_engine,
        .engine = s->engine,
        .service = s->service,
        .vitals = s->vitals,
        .feed = s->feed,
        .pages = pages_http(s->pages),
        .directory = s->options->engine.directory,
        .journal_segment_size = s->options->engine.journal_segment_size,
        .disk_free_min = s->options->engine.host.disk_free_min,
        .errands_n_max = s->options->service.errands_n_max,
        .message_size_max = s->options->limits.message_size_max,
        .is_insecure = s->options->is_insecure,
        .wake = wake_front,
        .wake_user = s,
    };

    s->http = (struct http_service){
        .user = s,
        .request = on_request,
        .writable = on_http_writable,
        .closed = on_http_closed,
        .half_closed = on_http_half_closed,
        .is_beside = is_http_beside,
        .refusal = on_http_refusal,
    };
    return s->options->front->make(&options, clock_mono_ns(), &s->front);
}

static enum status make_service(struct server *s)
{
    struct service_options options = s->options->service;

    s->desk_engine = (struct desk_engine){
        .user = s,
        .post = post,
        .post_to = post_to,
        .shards_n = engine_shards_n(s->engine),
        .mac_key = engine_mac_key(s->engine),
        .ring = ring,
    };
    options.mem = &s->mem;
    options.engine = s->desk_engine;
    enum status status = service_new(&options, clock_mono_ns(), &s->service);
    if (status != OK) return status;
    s->grpc = (struct grpc_service){
        .user = s,
        .call = on_call,
        .oversize = on_oversize,
        .writable = on_writable,
        .closed = on_closed,
    };
    status = vitals_new(&s->mem, &s->desk_engine, &s->vitals);
    if (status != OK) return status;
    struct pages_options pages = {
        .mem = &s->mem,
        .vitals = s->vitals,
        .source = {.user = s, .now_ns = pages_now, .metrics = pages_metrics},
    };
    status = pages_new(&pages, &s->pages);
    if (status != OK || s->options->front == NULL) return status;
    return make_front(s);
}

static enum status make_replier(struct server *s)
{
    struct reply_options options = s->options->reply;

    options.engine = s->engine;
    return replier_open(&options, &s->replier);
}

static enum status make_loop(struct server *s)
{
    struct loop_options options = {
        .mem = &s->mem,
        .limits = &s->options->limits,
        .grpc = &s->grpc,
        .http = s->front == NULL ? pages_http(s->pages) : &s->http,
        .connections_n_max = s->connections_n_max,
        .bell = on_bell,
        .turned = on_turned,
        .stop_signal = on_stop_signal,
        .reload_signal = on_reload_signal,
        .dump_signal = on_dump_signal,
        .user = s,
    };

    enum status status = loop_new(&options, &s->loop);
    if (status == OK) status = loop_timer_new(s->loop, on_tick, s, &s->tick);
    if (status == OK) status = loop_timer_new(s->loop, on_drain_time, s, &s->drain);
    if (status == OK) status = loop_timer_new(s->loop, on_watchdog, s, &s->watchdog);
    /* What was said before there was somebody to hear it. */
    if (status == OK) atomic_store(&s->loop_to_wake, s->loop);
    if (status == OK) loop_ring(s->loop);
    return status;
}

static int listen_inherited(struct server *s, unsigned fds_n)
{
    for (unsigned i = 0; i < fds_n; i++) {
        int fd = (int)(NOTIFY_FIRST_FD + i);
        if (!s->options->is_insecure && !startup_is_loopback(fd)) {
            log_error("the inherited socket %d can be reached from other machines, and there is no "
                      "TLS and no authentication yet: say --insecure if the network is trusted",
                      fd);
            return EX_CONFIG;
        }
        enum status status = loop_listen_fd(s->loop, fd);
        if (status == OK) continue;
        log_error("the inherited socket %d cannot be used: %s", fd, status_text(status));
        return EX_UNAVAILABLE;
    }
    log_info("listening on %u inherited sockets, not on %s", fds_n, s->options->listen);
    return EX_OK;
}

static int listen_all(struct server *s)
{
    const char *list = s->options->listen;
    char address[ADDRESS_SIZE], text[LISTEN_TEXT_SIZE] = "";

    unsigned inherited_n = notify_listen_fds();
    if (inherited_n > 0) return listen_inherited(s, inherited_n);
    while (address_next(&list, address)) {
        if (!address_is_loopback(address))
            log_warn("%s can be reached from other machines, without TLS and authentication",
                     address);
        enum status status = loop_listen(s->loop, address, text);
        if (status == OK) continue;
        if (text[0] != '\0')
            log_error("%s", text); /* names the address */
        else
            log_error("cannot listen on %s: %s", address, status_text(status));
        return startup_exit_code_listen(status);
    }
    return EX_OK;
}

/* Also of what is only half made. The engine is closed. */
static void release(struct server *s)
{
    if (s->front != NULL) s->options->front->close(s->front);
    if (s->vitals != NULL) vitals_free(s->vitals);
    loop_timer_free(s->tick);
    loop_timer_free(s->drain);
    loop_timer_free(s->watchdog);
    if (s->loop != NULL) loop_free(s->loop);
    if (s->front != NULL) s->options->front->free(s->front);
    if (s->feed != NULL) feed_free(s->feed);
    if (s->pages != NULL) pages_free(s->pages);
    if (s->service != NULL) service_free(s->service);
    replier_free(s->replier);
    queue_release(&s->closed);
    mem_release(&s->mem);
}

static int open_all(struct server *s)
{
    struct engine_options engine_options = s->options->engine;

    engine_options.host.told = on_told;
    engine_options.host.told_user = s;
    if (s->options->front != NULL) {
        enum status status = feed_new(&s->mem, ring, s, &s->feed);
        if (status != OK) return EX_OSERR;
        engine_options.host.is_watched = feed_is_watched(s->feed);
        engine_options.host.changed = feed_changed;
        engine_options.host.changed_user = s->feed;
    }
    int code = startup_open_engine(&engine_options, &s->engine);
    if (code != EX_OK) return code;

    enum status status = make_service(s);
    code = startup_exit_code_engine(status); /* the front has data of its own */
    if (status == OK) {
        status = make_loop(s);
        if (status == OK) status = make_replier(s);
        if (status != OK) code = EX_OSERR;
    }
    if (status == OK) return listen_all(s);
    log_error("cannot start: %s", status_text(status));
    return code;
}

int server_run(const struct server_options *options)
{
    struct server s = {
        .options = options,
        .tick_at_ns = INT64_MAX,
        .watchdog_ms = notify_watchdog_ms(),
        .watchdog_asker = {.answer = on_watchdog_answer},
        .dump_asker = {.answer = on_dump_answer},
    };

    mem_init(&s.mem, SIZE_MAX);
    queue_init(&s.closed, 1);
    s.connections_n_max = startup_prepare_process(options->connections_n_max);
    int code = open_all(&s);
    if (code == EX_OK) {
        startup_tell_ready(s.engine, options->engine.directory, loop_address(s.loop),
                           options->begun_ns);
        if (s.watchdog_ms > 0) loop_timer_set(s.watchdog, s.watchdog_ms / 2);
        loop_run(s.loop);
        log_info("stopped");
    } else if (s.engine != NULL) {
        if (s.front != NULL) options->front->close(s.front); /* it posts to the engine */
        replier_close(s.replier);
        engine_close(s.engine);
    }
    s.phase = PHASE_OVER;
    release(&s);
    return code;
}
