/* SPDX-License-Identifier: Apache-2.0
 *
 * See served.h.
 */
#include "test/lib/served.h"

#include "base/assert.h"
#include "base/clock.h"
#include "test/lib/test.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define PATIENCE_NS ((int64_t)20 * NS_PER_S)

/* ---- the engine's worker ---- */

struct turn {
    struct request request;
    struct orchestrator_answer answer;
    struct action action;
    char id[256];
    uint8_t key[512];
};

static void on_turn_done(struct request *request)
{
    free(container_of(request, struct turn, request));
}

static struct maybe text(const char *value) { return maybe_some(bytes_of_text(value)); }

/* ExecutionStarted is among the fresh events of a first turn only. */
static bool find_started(const struct effect_work *work, struct arena *arena,
                         struct event_started *started)
{
    struct reader r = reader_make(work->fresh);
    struct bytes event;
    struct event_head head;

    while (strings_next(&r, &event)) {
        if (event_peek(event, &head) == OK && head.kind == EVENT_EXECUTION_STARTED)
            return event_started_decode(event, arena, started) == OK;
    }
    return false;
}

static void decide(struct turn *turn, const struct effect_work *work)
{
    struct event_started started;
    struct arena arena;
    struct action *action = &turn->action;

    turn->answer.actions = action;
    action->id = 1;
    if (bytes_equal(work->name, BYTES_LITERAL("done"))) {
        turn->answer.actions_n = 1;
        turn->answer.custom_status = text("\"fine\"");
        action->kind = ACTION_COMPLETE;
        action->status = STATUS_COMPLETED;
        action->input = text("\"result\"");
    } else if (bytes_equal(work->name, BYTES_LITERAL("fail"))) {
        turn->answer.actions_n = 1;
        action->kind = ACTION_COMPLETE;
        action->status = STATUS_FAILED;
        action->failure = text("\x0a\x03"
                               "Bad\x12\x07it went"); /* a TaskFailureDetails */
    } else if (bytes_equal(work->name, BYTES_LITERAL("parent"))) {
        arena_init(&arena, mem_process(), 512);
        if (find_started(work, &arena, &started)) {
            turn->answer.actions_n = 1;
            action->kind = ACTION_CREATE_CHILD;
            action->name = BYTES_LITERAL("wait");
            (void)snprintf(turn->id, sizeof turn->id, "%.*s", (int)started.input.value.len,
                           (const char *)started.input.value.ptr);
            action->instance_id = bytes_of_text(turn->id);
        }
        arena_release(&arena);
    }
}

static void deliver(struct worker *worker, const struct effect_work *work)
{
    struct served *s = worker->user;
    struct turn *turn = calloc(1, sizeof *turn);

    assert(turn != NULL);
    assert(work->ref.kind == WORK_TURN);
    assert(work->ref.key.len <= sizeof turn->key);
    memcpy(turn->key, work->ref.key.ptr, work->ref.key.len);
    turn->request = (struct request){.kind = REQUEST_TURN_DONE, .done = on_turn_done};
    turn->request.key = bytes_make(turn->key, work->ref.key.len);
    turn->request.worker_done = (struct input_worker_done){.has_ref = true, .ref = work->ref};
    turn->request.worker_done.ref.key = turn->request.key;
    turn->request.worker_done.answer = &turn->answer;
    worker->turns_credit++;
    decide(turn, work);
    if (!engine_post(s->engine, &turn->request)) free(turn);
}

static void worker_attach(struct served *s, uint32_t shard)
{
    struct worker *worker = &s->workers[shard];
    struct request attach = {.kind = REQUEST_WORKER_ATTACH};

    s->names[0].name = BYTES_LITERAL("done");
    s->names[1].name = BYTES_LITERAL("fail");
    s->names[2].name = BYTES_LITERAL("wait");
    s->names[3].name = BYTES_LITERAL("parent");
    *worker = (struct worker){
        .hub = BYTES_LITERAL("default"),
        .deliver = deliver,
        .user = s,
        .has_filters = true,
        .turn_filters = s->names,
        .turn_filters_n = sizeof s->names / sizeof s->names[0],
        .turns_credit = 1000000,
    };
    attach.worker.worker = worker;
    EXPECT_STATUS(OK, engine_call_to(s->engine, shard, &attach));
}

static void worker_detach(struct served *s, uint32_t shard)
{
    struct request detach = {.kind = REQUEST_WORKER_DETACH};

    detach.worker.worker = &s->workers[shard];
    EXPECT_STATUS(OK, engine_call_to(s->engine, shard, &detach));
}

/* ---- open and close ---- */

static bool is_refused(struct served *s)
{
    return s->refuse_every > 0 && ++s->posted_n % s->refuse_every == 0;
}

static bool post(void *user, struct request *request)
{
    struct served *s = user;

    return !is_refused(s) && engine_post(s->engine, request);
}

static bool post_to(void *user, uint32_t shard, struct request *request)
{
    struct served *s = user;

    return !is_refused(s) && engine_post_to(s->engine, shard, request);
}

static void ring(void *user)
{
    uint64_t one = 1;

    (void)!write(((struct served *)user)->bell_fd, &one, sizeof one);
}

static void on_request(void *user, struct http_exchange *exchange)
{
    (void)user;
    http_answer(exchange, 404, "text/plain", BYTES_NONE);
}

static void on_http_closed(void *user, struct http_exchange *exchange)
{
    (void)user;
    http_answer(exchange, 404, "text/plain", BYTES_NONE);
}

void served_init(struct served *s)
{
    *s = (struct served){0};
    mem_init(&s->mem, SIZE_MAX);
    mem_init(&s->client_mem, SIZE_MAX);
    service_options_init(&s->options);
    s->options.mem = &s->mem;
    s->options.seed = 1;
    conn_limits_init(&s->limits);
    s->http = (struct http_service){.request = on_request, .closed = on_http_closed};
}

void served_open(struct served *s, const char *directory, uint32_t shards_n, bool has_worker)
{
    char damage[ENGINE_DAMAGE_SIZE] = "";
    struct engine_options options;

    engine_options_init(&options);
    options.directory = directory;
    options.host.shards_n = shards_n;
    options.host.partitions_n = 4;
    options.host.check_every_step = true;
    if (s->feed != NULL) {
        options.host.is_watched = feed_is_watched(s->feed);
        options.host.changed = feed_changed;
        options.host.changed_user = s->feed;
    }
    s->bell_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    EXPECT(s->bell_fd >= 0);
    EXPECT_STATUS(OK, engine_open(&options, damage, &s->engine));
    s->options.engine = (struct desk_engine){
        .user = s,
        .post = post,
        .post_to = post_to,
        .shards_n = shards_n,
        .mac_key = engine_mac_key(s->engine),
        .ring = ring,
    };
    EXPECT_STATUS(OK, service_new(&s->options, served_now_ns(s), &s->service));
    s->shards_n = shards_n;
    s->has_worker = has_worker;
    for (uint32_t n = 0; has_worker && n < shards_n; n++) worker_attach(s, n);
}

void served_close(struct served *s)
{
    for (unsigned n = 0; n < s->links_n; n++) served_unlink(&s->links[n]);
    service_drain(s->service);
    for (uint32_t n = 0; s->has_worker && n < s->shards_n; n++) worker_detach(s, n);
    engine_close(s->engine);
    service_free(s->service);
    close(s->bell_fd);
    EXPECT_EQ(0, s->mem.used);
    EXPECT_EQ(0, s->client_mem.used);
    mem_release(&s->mem);
    mem_release(&s->client_mem);
}

/* ---- connections ---- */

int64_t served_now_ns(const struct served *s) { return clock_mono_ns() + s->ahead_ns; }

void served_advance_ms(struct served *s, int64_t ms)
{
    s->ahead_ns += ms * 1000000;
    served_turn(s);
}

struct link *served_link(struct served *s, const char *hub)
{
    struct client_options options;
    struct link *link = &s->links[s->links_n++];

    EXPECT(s->links_n <= SERVED_LINKS_MAX);
    *link = (struct link){.served = s};
    buffer_init(&link->bytes, &s->client_mem);
    client_options_init(&options, &s->client_mem);
    options.authority = BYTES_LITERAL("localhost");
    options.ping_ms = 0;
    if (hub != NULL) options.hub = bytes_of_text(hub);
    EXPECT_STATUS(OK, client_new(&options, served_now_ns(s), &link->client));
    struct conn_options conn = {
        .mem = &s->mem,
        .limits = &s->limits,
        .counters = &s->counters,
        .grpc = service_grpc(s->service),
        .http = &s->http,
        .is_trusted = true,
    };
    EXPECT_STATUS(OK, conn_new(&conn, served_now_ns(s), &link->conn));
    return link;
}

void served_unlink(struct link *link)
{
    if (link->conn == NULL) return;
    service_set_now(link->served->service, served_now_ns(link->served));
    conn_free(link->conn, served_now_ns(link->served));
    client_free(link->client);
    buffer_release(&link->bytes);
    link->conn = NULL;
}

/* False when nothing moved. */
static bool link_turn(struct link *link)
{
    int64_t now_ns = served_now_ns(link->served);
    bool has_moved = false;

    (void)client_tick(link->client, now_ns);
    buffer_clear(&link->bytes);
    if (client_pull(link->client, &link->bytes, (size_t)1 << 20)) {
        (void)conn_feed(link->conn, now_ns, buffer_view(&link->bytes));
        has_moved = true;
    }
    (void)conn_tick(link->conn, now_ns);
    if (link->is_deaf) return has_moved;
    buffer_clear(&link->bytes);
    if (conn_pull(link->conn, now_ns, &link->bytes, (size_t)1 << 20)) {
        conn_sent(link->conn, now_ns, link->bytes.len);
        (void)client_feed(link->client, now_ns, buffer_view(&link->bytes));
        has_moved = true;
    } else if (conn_is_over(link->conn)) {
        client_lose(link->client, "the server closed the connection");
    }
    return has_moved;
}

void served_turn(struct served *s)
{
    uint64_t rings;
    bool has_moved = true;

    while (has_moved) {
        has_moved = false;
        service_set_now(s->service, served_now_ns(s));
        if (read(s->bell_fd, &rings, sizeof rings) == sizeof rings) {
            service_bell(s->service);
            has_moved = true;
        }
        (void)service_tick(s->service);
        for (unsigned n = 0; n < s->links_n; n++) {
            if (s->links[n].conn != NULL && link_turn(&s->links[n])) has_moved = true;
        }
    }
}

/* ---- calls ---- */

void answer_init(struct answer *a)
{
    *a = (struct answer){0};
    buffer_init(&a->message, mem_process());
    buffer_init(&a->last, mem_process());
}

void answer_release(struct answer *a)
{
    buffer_release(&a->message);
    buffer_release(&a->last);
}

static void on_message(void *user, struct client_call *call, struct bytes message)
{
    struct answer *a = user;

    (void)call;
    a->messages_n++;
    buffer_append_bytes(&a->message, message);
    buffer_clear(&a->last);
    buffer_append_bytes(&a->last, message);
}

static void on_end(void *user, struct client_call *call, enum grpc_code code, const char *said)
{
    struct answer *a = user;

    (void)call;
    a->is_over = true;
    a->code = code;
    a->call = NULL;
    (void)snprintf(a->text, sizeof a->text, "%s", said);
}

void served_begin(struct link *link, const char *rpc, struct bytes message, int64_t timeout_ms,
                  struct answer *a)
{
    static char paths[64][80];
    static unsigned paths_n;
    unsigned n = 0;

    char path[80];
    (void)snprintf(path, sizeof path, "%s%s", rpc[0] == '/' ? "" : "/TaskHubSidecarService/", rpc);
    while (n < paths_n && strcmp(paths[n], path) != 0) n++;
    if (n == paths_n) {
        EXPECT(n < 64);
        memcpy(paths[paths_n++], path, sizeof path);
    }
    a->link = link;
    a->is_over = false;
    struct client_request request = {
        .path = paths[n],
        .message = message,
        .timeout_ms = timeout_ms,
        .on_message = on_message,
        .on_end = on_end,
        .user = a,
    };
    EXPECT_STATUS(OK, client_begin(link->client, served_now_ns(link->served), &request, &a->call));
}

void served_await(struct answer *a)
{
    struct served *s = a->link->served;
    int64_t until_ns = clock_mono_ns() + PATIENCE_NS;

    served_turn(s);
    while (!a->is_over) {
        struct pollfd wait = {.fd = s->bell_fd, .events = POLLIN};
        (void)poll(&wait, 1, 5);
        served_turn(s);
        if (clock_mono_ns() > until_ns) test_fail(__FILE__, __LINE__, "no answer in 20 s");
    }
}

void served_ask(struct link *link, const char *rpc, struct bytes message, struct answer *a)
{
    answer_release(a);
    answer_init(a);
    served_begin(link, rpc, message, 0, a);
    served_await(a);
}
