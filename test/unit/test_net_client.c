/* SPDX-License-Identifier: Apache-2.0
 *
 * The gRPC client against our own connection, both in memory, with bytes in arbitrary pieces; and
 * over a socket against our own loop.
 */
#include "base/clock.h"
#include "base/list.h"
#include "base/mem.h"
#include "base/rng.h"
#include "net/client.h"
#include "net/client_socket.h"
#include "net/conn.h"
#include "net/loop.h"
#include "test/lib/test.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#define S NS_PER_S

/* ---- a service: the path says what it does ---- */

struct service {
    struct grpc_call *held[512]; /* "/hold": until the test finishes them */
    size_t held_n;
    unsigned calls;
    unsigned closed;
    char hub[64];
    char worker_id[64];
    char user_agent[64];
    int64_t deadline_ns;
};

static void keep(char *out, size_t size, struct bytes value)
{
    snprintf(out, size, "%.*s", (int)value.len, (const char *)value.ptr);
}

static void on_call(void *user, struct grpc_call *call, struct bytes message)
{
    struct service *s = user;
    struct bytes path = grpc_path(call);
    s->calls++;
    keep(s->hub, sizeof s->hub, grpc_header(call, "taskhub"));
    keep(s->worker_id, sizeof s->worker_id, grpc_header(call, "workerid"));
    keep(s->user_agent, sizeof s->user_agent, grpc_header(call, "user-agent"));
    s->deadline_ns = grpc_deadline_ns(call);
    if (bytes_equal(path, BYTES_LITERAL("/t/echo"))) {
        grpc_answer(call, message);
    } else if (bytes_equal(path, BYTES_LITERAL("/t/fail"))) {
        grpc_finish(call, GRPC_NOT_FOUND, "no \"x\": 100% gone, caf\xc3\xa9\n%41");
    } else if (bytes_equal(path, BYTES_LITERAL("/t/stream"))) {
        /* the message, then nothing, then the message, then OK */
        EXPECT_STATUS(OK, grpc_send(call, message));
        EXPECT_STATUS(OK, grpc_send(call, BYTES_NONE));
        EXPECT_STATUS(OK, grpc_send(call, message));
        grpc_finish(call, GRPC_OK, NULL);
    } else {
        EXPECT(s->held_n < 512);
        s->held[s->held_n++] = call;
    }
}

static void on_oversize(void *user, const struct grpc_call *call, uint64_t size, struct bytes start)
{
    (void)user;
    (void)call;
    (void)size;
    (void)start;
}

static void on_writable(void *user, struct grpc_call *call)
{
    (void)user;
    (void)call;
}

static void on_closed(void *user, struct grpc_call *call)
{
    struct service *s = user;
    s->closed++;
    for (size_t n = 0; n < s->held_n; n++) {
        if (s->held[n] == call) s->held[n] = NULL;
    }
    grpc_finish(call, GRPC_CANCELLED, NULL);
}

static void on_request(void *user, struct http_exchange *exchange)
{
    (void)user;
    http_answer(exchange, 200, "text/plain", BYTES_LITERAL("hello\n"));
}

static void on_http_closed(void *user, struct http_exchange *exchange)
{
    (void)user;
    http_answer(exchange, 200, "text/plain", BYTES_NONE);
}

/* ---- the two ends ---- */

struct world {
    struct mem client_mem;
    struct mem server_mem;
    struct service service;
    struct grpc_service grpc;
    struct http_service http;
    struct conn_limits limits;
    struct net_counters counters;
    struct client_options options;
    struct client *client;
    struct conn *conn;
    struct rng rng;
    size_t piece_max; /* 0 = all at once */
    int64_t now_ns;
};

/* What a call told. */
struct outcome {
    struct world *world;
    struct client_call *call;
    unsigned messages;
    size_t bytes;
    unsigned ends;
    enum grpc_code code;
    char text[CLIENT_TEXT_SIZE];
    struct bytes expected; /* each message that is not empty must be this */
    bool is_cancelling;    /* itself, in its first message */
    unsigned chain;        /* begin so many more, one after the other */
};

static void world_init(struct world *w)
{
    *w = (struct world){.now_ns = 1000 * S};
    mem_init(&w->client_mem, SIZE_MAX);
    mem_init(&w->server_mem, SIZE_MAX);
    rng_init(&w->rng, 7);
    conn_limits_init(&w->limits);
    w->grpc = (struct grpc_service){.user = &w->service,
                                    .call = on_call,
                                    .oversize = on_oversize,
                                    .writable = on_writable,
                                    .closed = on_closed};
    w->http = (struct http_service){.user = w, .request = on_request, .closed = on_http_closed};
    client_options_init(&w->options, &w->client_mem);
}

static void world_connect(struct world *w)
{
    struct conn_options options = {
        .mem = &w->server_mem,
        .limits = &w->limits,
        .counters = &w->counters,
        .grpc = &w->grpc,
        .http = &w->http,
        .is_trusted = true,
    };
    EXPECT_STATUS(OK, conn_new(&options, w->now_ns, &w->conn));
    EXPECT_STATUS(OK, client_new(&w->options, w->now_ns, &w->client));
}

static void world_open(struct world *w)
{
    world_init(w);
    world_connect(w);
}

static void world_close(struct world *w)
{
    client_free(w->client);
    if (w->conn != NULL) conn_free(w->conn, w->now_ns);
    for (size_t n = 0; n < w->service.held_n; n++) EXPECT(w->service.held[n] == NULL);
    EXPECT_EQ(0, w->client_mem.used);
    mem_release(&w->client_mem);
    mem_release(&w->server_mem);
}

static size_t next_piece(struct world *w, size_t left)
{
    if (w->piece_max == 0) return left;
    size_t size = 1 + (size_t)rng_below(&w->rng, w->piece_max);
    return size < left ? size : left;
}

/* Carries bytes both ways until nothing moves. */
static void pump(struct world *w)
{
    struct buffer bytes;
    buffer_init(&bytes, mem_process());
    for (bool has_moved = true; has_moved;) {
        buffer_clear(&bytes);
        has_moved = client_pull(w->client, &bytes, 65536);
        for (size_t n = 0; n < bytes.len && w->conn != NULL;) {
            size_t size = next_piece(w, bytes.len - n);
            (void)conn_feed(w->conn, w->now_ns, bytes_make(bytes.ptr + n, size));
            n += size;
        }
        buffer_clear(&bytes);
        if (w->conn != NULL && conn_pull(w->conn, w->now_ns, &bytes, 65536)) has_moved = true;
        if (w->conn != NULL) conn_sent(w->conn, w->now_ns, bytes.len);
        for (size_t n = 0; n < bytes.len;) {
            size_t size = next_piece(w, bytes.len - n);
            (void)client_feed(w->client, w->now_ns, bytes_make(bytes.ptr + n, size));
            n += size;
        }
    }
    buffer_release(&bytes);
}

static void on_message(void *user, struct client_call *call, struct bytes message)
{
    struct outcome *o = user;
    EXPECT_EQ(0, o->ends);
    o->messages++;
    o->bytes += message.len;
    if (message.len > 0 && o->expected.len > 0) EXPECT(bytes_equal(o->expected, message));
    if (o->is_cancelling) client_cancel(call);
}

static void on_end(void *user, struct client_call *call, enum grpc_code code, const char *text);

static enum status try_begin(struct world *w, const char *path, struct bytes message,
                             struct outcome *o)
{
    struct client_request request = {
        .path = path, .message = message, .on_message = on_message, .on_end = on_end, .user = o};
    o->world = w;
    return client_begin(w->client, w->now_ns, &request, &o->call);
}

static void begin(struct world *w, const char *path, struct bytes message, struct outcome *o)
{
    EXPECT_STATUS(OK, try_begin(w, path, message, o));
}

static void on_end(void *user, struct client_call *call, enum grpc_code code, const char *text)
{
    struct outcome *o = user;
    EXPECT(client_of(call) == o->world->client);
    o->code = code;
    snprintf(o->text, sizeof o->text, "%s", text);
    if (o->chain > 0) {
        o->chain--;
        begin(o->world, "/t/echo", BYTES_LITERAL("again"), o);
    } else {
        o->ends++;
    }
}

/* n bytes that tell their place. */
static struct bytes pattern(uint8_t *out, size_t n)
{
    for (size_t i = 0; i < n; i++) out[i] = (uint8_t)(i * 7 + i / 251);
    return bytes_make(out, n);
}

/* ---- calls ---- */

static const size_t pieces[] = {0, 1, 2, 3, 9, 100, 5000};
#define EACH_PIECE(i) (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++)

/* A transport cuts where it likes. */
TEST(a_unary_call_is_the_same_in_any_pieces)
{
    for
        EACH_PIECE(i)
        {
            struct world w;
            struct outcome o = {.expected = BYTES_LITERAL("hello")};
            test_note("pieces up to %zu", pieces[i]);
            world_open(&w);
            w.piece_max = pieces[i];
            begin(&w, "/t/echo", BYTES_LITERAL("hello"), &o);
            pump(&w);
            EXPECT_EQ(1, o.messages);
            EXPECT_EQ(1, o.ends);
            EXPECT_EQ(GRPC_OK, o.code);
            EXPECT_TEXT("", o.text);
            EXPECT_EQ(0, client_calls_n(w.client));
            world_close(&w);
        }
}

/* Messages within a frame are handed out uncopied, longer ones are put together; both ways give the
 * same, also for an empty message in between. */
TEST(a_stream_delivers_small_and_large_messages_in_order)
{
    static uint8_t large[300000];
    const size_t sizes[] = {1, 100, 16379, 16380, 65536, sizeof large};
    for
        EACH_PIECE(i)
        {
            for (size_t k = 0; k < 6; k++) {
                struct world w;
                struct outcome o = {.expected = pattern(large, sizes[k])};
                test_note("pieces up to %zu, messages of %zu", pieces[i], sizes[k]);
                world_open(&w);
                w.piece_max = pieces[i];
                begin(&w, "/t/stream", o.expected, &o);
                pump(&w);
                EXPECT_EQ(3, o.messages);
                EXPECT_EQ(2 * sizes[k], o.bytes);
                EXPECT_EQ(1, o.ends);
                EXPECT_EQ(GRPC_OK, o.code);
                world_close(&w);
            }
        }
}

TEST(a_failure_brings_its_code_and_its_text)
{
    struct world w;
    struct outcome o = {0};
    world_open(&w);
    begin(&w, "/t/fail", BYTES_NONE, &o);
    pump(&w);
    EXPECT_EQ(0, o.messages);
    EXPECT_EQ(1, o.ends);
    EXPECT_EQ(GRPC_NOT_FOUND, o.code);
    EXPECT_TEXT("no \"x\": 100% gone, caf\xc3\xa9\n%41", o.text);
    world_close(&w);
}

TEST(headers_of_the_client_and_of_the_call_arrive)
{
    struct world w;
    struct outcome o = {0};
    world_init(&w);
    w.options.hub = BYTES_LITERAL("blue");
    w.options.worker_id = BYTES_LITERAL("w-1");
    world_connect(&w);
    begin(&w, "/t/echo", BYTES_NONE, &o);
    pump(&w);
    EXPECT_TEXT("blue", w.service.hub);
    EXPECT_TEXT("w-1", w.service.worker_id);
    EXPECT(strncmp(w.service.user_agent, "norn-c/", 7) == 0);
    EXPECT(w.service.deadline_ns == INT64_MAX);

    struct client_request request = {.path = "/t/echo", .hub = BYTES_LITERAL("green")};
    EXPECT_STATUS(OK, client_begin(w.client, w.now_ns, &request, NULL));
    pump(&w);
    EXPECT_TEXT("green", w.service.hub);
    EXPECT_EQ(2, w.service.calls);
    world_close(&w);
}

TEST(headers_beyond_the_limit_are_refused)
{
    struct world w;
    uint8_t text[256] = {0};
    memset(text, 'x', sizeof text);
    world_open(&w);
    struct client_request request = {.path = "/t/echo", .hub = bytes_make(text, 256)};
    EXPECT_STATUS(E_INVALID, client_begin(w.client, w.now_ns, &request, NULL));
    request = (struct client_request){.path = "/t/echo", .timeout_ms = -1};
    EXPECT_STATUS(E_INVALID, client_begin(w.client, w.now_ns, &request, NULL));
    struct client *other = NULL;
    w.options.worker_id = bytes_make(text, 256);
    EXPECT_STATUS(E_INVALID, client_new(&w.options, w.now_ns, &other));
    w.options.worker_id = bytes_make(text, 255);
    EXPECT_STATUS(OK, client_new(&w.options, w.now_ns, &other));
    client_free(other);
    world_close(&w);
}

/* Whoever waits for a call that never ends would wait for ever without it. */
TEST(a_deadline_ends_the_call_here_and_at_the_peer)
{
    struct world w;
    struct outcome o = {.world = &w};
    world_open(&w);
    struct client_request request = {
        .path = "/t/hold", .timeout_ms = 1500, .on_end = on_end, .user = &o};
    EXPECT_STATUS(OK, client_begin(w.client, w.now_ns, &request, NULL));
    pump(&w);
    EXPECT_EQ(w.now_ns + 1500 * NS_PER_MS, w.service.deadline_ns);
    EXPECT_EQ(w.now_ns + 1500 * NS_PER_MS, client_tick(w.client, w.now_ns));
    w.now_ns += 1500 * NS_PER_MS - 1;
    (void)client_tick(w.client, w.now_ns);
    EXPECT_EQ(0, o.ends);
    w.now_ns += 1;
    (void)client_tick(w.client, w.now_ns);
    EXPECT_EQ(1, o.ends);
    EXPECT_EQ(GRPC_DEADLINE_EXCEEDED, o.code);
    pump(&w);
    EXPECT_EQ(1, w.service.closed);
    EXPECT_EQ(1, o.ends);
    world_close(&w);
}

TEST(a_long_deadline_is_sent_in_seconds)
{
    struct world w;
    world_open(&w);
    struct client_request request = {.path = "/t/echo", .timeout_ms = INT64_C(200000000000)};
    EXPECT_STATUS(OK, client_begin(w.client, w.now_ns, &request, NULL));
    pump(&w);
    EXPECT_EQ(1, w.service.calls);
    EXPECT(w.service.deadline_ns > w.now_ns + INT64_C(90000000) * S);
    world_close(&w);
}

TEST(a_cancelled_call_is_closed_at_the_peer_and_silent_here)
{
    struct world w;
    struct outcome o = {0};
    world_open(&w);
    begin(&w, "/t/hold", BYTES_LITERAL("x"), &o);
    pump(&w);
    EXPECT_EQ(1, w.service.held_n);
    client_cancel(o.call);
    EXPECT_EQ(0, client_calls_n(w.client));
    pump(&w);
    EXPECT_EQ(1, w.service.closed);
    EXPECT_EQ(0, o.ends);
    EXPECT_EQ(0, o.messages);
    world_close(&w);
}

/* Cancelled before a byte of it was sent: the peer may see it or not, the client goes on. */
TEST(a_call_cancelled_before_it_was_sent_disturbs_nobody)
{
    struct world w;
    struct outcome cancelled = {0};
    struct outcome o = {0};
    world_open(&w);
    begin(&w, "/t/hold", BYTES_LITERAL("x"), &cancelled);
    client_cancel(cancelled.call);
    begin(&w, "/t/echo", BYTES_LITERAL("y"), &o);
    pump(&w);
    EXPECT_EQ(1, o.ends);
    EXPECT_EQ(GRPC_OK, o.code);
    EXPECT_EQ(0, cancelled.ends);
    world_close(&w);
}

TEST(a_call_may_cancel_itself_in_its_message)
{
    for
        EACH_PIECE(i)
        {
            struct world w;
            struct outcome o = {.is_cancelling = true};
            test_note("pieces up to %zu", pieces[i]);
            world_open(&w);
            w.piece_max = pieces[i];
            begin(&w, "/t/stream", BYTES_LITERAL("one"), &o);
            pump(&w);
            EXPECT_EQ(1, o.messages);
            EXPECT_EQ(0, o.ends);
            EXPECT_EQ(0, client_calls_n(w.client));
            world_close(&w);
        }
}

TEST(a_call_may_begin_another_at_its_end)
{
    struct world w;
    struct outcome o = {.chain = 50};
    world_open(&w);
    begin(&w, "/t/echo", BYTES_LITERAL("again"), &o);
    pump(&w);
    EXPECT_EQ(1, o.ends);
    EXPECT_EQ(51, o.messages);
    world_close(&w);
}

/* ---- limits ---- */

/* The peer announces 100 at once; the rest waits here and none is refused. */
TEST(calls_beyond_the_peers_number_wait_their_turn)
{
    static struct outcome outcomes[500];
    struct world w;
    world_open(&w);
    pump(&w); /* the peer's settings are known */
    for (size_t n = 0; n < 500; n++) {
        outcomes[n] = (struct outcome){0};
        begin(&w, n < 400 ? "/t/hold" : "/t/echo", BYTES_LITERAL("x"), &outcomes[n]);
    }
    pump(&w);
    EXPECT_EQ(w.limits.calls_n_max, w.service.held_n);
    client_cancel(outcomes[399].call); /* one that waits */
    for (size_t n = 0; n < w.service.held_n; n++) {
        if (w.service.held[n] == NULL) continue;
        grpc_answer(w.service.held[n], BYTES_LITERAL("done"));
        w.service.held[n] = NULL;
        if (n % 100 == 99) pump(&w);
    }
    pump(&w);
    EXPECT_EQ(399, w.service.held_n);
    for (size_t n = 0; n < 500; n++) {
        EXPECT_EQ(n == 399 ? 0 : 1, outcomes[n].ends);
        EXPECT_EQ(GRPC_OK, outcomes[n].code);
    }
    world_close(&w);
}

TEST(calls_beyond_our_own_number_are_refused)
{
    struct world w;
    struct outcome o[3] = {0};
    world_init(&w);
    w.options.calls_n_max = 2;
    world_connect(&w);
    begin(&w, "/t/echo", BYTES_NONE, &o[0]);
    begin(&w, "/t/echo", BYTES_NONE, &o[1]);
    EXPECT_STATUS(E_LIMIT, try_begin(&w, "/t/echo", BYTES_NONE, &o[2]));
    pump(&w);
    begin(&w, "/t/echo", BYTES_NONE, &o[2]);
    pump(&w);
    EXPECT_EQ(1, o[2].ends);
    world_close(&w);
}

/* A length is a promise of the peer: it must not cost memory before it is kept. */
TEST(an_answer_that_is_too_large_ends_its_call_alone)
{
    static uint8_t large[5001];
    struct world w;
    struct outcome o = {0};
    struct outcome other = {.expected = pattern(large, 5000)};
    world_init(&w);
    w.options.message_size_max = 5000;
    world_connect(&w);
    begin(&w, "/t/echo", pattern(large, 5001), &o);
    begin(&w, "/t/echo", other.expected, &other);
    pump(&w);
    EXPECT_EQ(1, o.ends);
    EXPECT_EQ(0, o.messages);
    EXPECT_EQ(GRPC_RESOURCE_EXHAUSTED, o.code);
    EXPECT_EQ(1, other.messages);
    EXPECT_EQ(GRPC_OK, other.code);
    world_close(&w);
}

/* ---- the end of a connection ---- */

TEST(a_draining_peer_lets_open_calls_finish_and_takes_no_new_ones)
{
    struct world w;
    struct outcome o = {0};
    struct outcome late = {0};
    world_open(&w);
    begin(&w, "/t/hold", BYTES_NONE, &o);
    pump(&w);
    EXPECT(!client_is_closing(w.client));
    conn_drain(w.conn, w.now_ns);
    pump(&w);
    EXPECT(client_is_closing(w.client));
    EXPECT(!client_is_over(w.client));
    EXPECT_STATUS(E_CLOSED, try_begin(&w, "/t/echo", BYTES_NONE, &late));
    grpc_answer(w.service.held[0], BYTES_LITERAL("x"));
    w.service.held[0] = NULL;
    pump(&w);
    EXPECT_EQ(1, o.ends);
    EXPECT_EQ(GRPC_OK, o.code);
    EXPECT(client_is_over(w.client));
    EXPECT_EQ(0, late.ends);
    world_close(&w);
}

static void on_end_begin(void *user, struct client_call *call, enum grpc_code code,
                         const char *text)
{
    struct outcome *o = user;
    struct client_request request = {.path = "/t/echo"};
    EXPECT_STATUS(E_CLOSED, client_begin(client_of(call), 0, &request, NULL));
    o->ends++;
    o->code = code;
    snprintf(o->text, sizeof o->text, "%s", text);
}

TEST(a_lost_connection_ends_every_call_once)
{
    struct world w;
    struct outcome o[3] = {0};
    world_open(&w);
    for (size_t n = 0; n < 3; n++) {
        struct client_request request = {
            .path = "/t/hold", .on_end = on_end_begin, .user = &o[n], .timeout_ms = 100};
        EXPECT_STATUS(OK, client_begin(w.client, w.now_ns, &request, NULL));
        if (n == 1) pump(&w);
    }
    client_lose(w.client, "the cable");
    for (size_t n = 0; n < 3; n++) {
        EXPECT_EQ(1, o[n].ends);
        EXPECT_EQ(GRPC_UNAVAILABLE, o[n].code);
        EXPECT_TEXT("the cable", o[n].text);
    }
    EXPECT(client_is_over(w.client));
    EXPECT_EQ(INT64_MAX, client_tick(w.client, w.now_ns + S));
    EXPECT_STATUS(E_CLOSED, client_feed(w.client, w.now_ns, BYTES_LITERAL("x")));
    world_close(&w);
}

TEST(freeing_the_client_ends_its_calls)
{
    struct world w;
    struct outcome o = {0};
    world_open(&w);
    begin(&w, "/t/hold", BYTES_NONE, &o);
    pump(&w);
    client_free(w.client);
    w.client = NULL;
    EXPECT_EQ(1, o.ends);
    EXPECT_EQ(GRPC_CANCELLED, o.code);
    world_close(&w);
}

/* A dead peer on a quiet connection shows by nothing else. */
TEST(a_silent_peer_is_given_up_after_an_unanswered_ping)
{
    struct world w;
    struct outcome o = {0};
    world_open(&w);
    begin(&w, "/t/hold", BYTES_NONE, &o);
    pump(&w);
    EXPECT_EQ(w.now_ns + 30 * S, client_tick(w.client, w.now_ns));
    w.now_ns += 30 * S;
    EXPECT_EQ(w.now_ns + 20 * S, client_tick(w.client, w.now_ns));
    pump(&w); /* answered */
    EXPECT_EQ(w.now_ns + 30 * S, client_tick(w.client, w.now_ns));
    w.now_ns += 30 * S;
    (void)client_tick(w.client, w.now_ns);
    w.now_ns += 20 * S - 1;
    (void)client_tick(w.client, w.now_ns);
    EXPECT_EQ(0, o.ends);
    w.now_ns += 1;
    (void)client_tick(w.client, w.now_ns);
    EXPECT_EQ(1, o.ends);
    EXPECT_EQ(GRPC_UNAVAILABLE, o.code);
    world_close(&w);
}

/* ---- a peer of another kind, by hand ---- */

/* SETTINGS, then HEADERS for stream 1 with one indexed field, END_STREAM or not. */
static enum grpc_code answer_by_hand(struct world *w, const char *frames, struct outcome *o)
{
    struct buffer sink;
    buffer_init(&sink, mem_process());
    world_open(w);
    begin(w, "/t/hold", BYTES_NONE, o);
    (void)client_pull(w->client, &sink, 65536);
    (void)client_feed(w->client, w->now_ns, test_hex("000000040000000000")); /* SETTINGS */
    (void)client_feed(w->client, w->now_ns, test_hex(frames));
    (void)client_pull(w->client, &sink, 65536);
    buffer_release(&sink);
    EXPECT_EQ(1, o->ends);
    enum grpc_code code = o->code;
    world_close(w);
    return code;
}

TEST(answers_without_a_grpc_status_get_the_code_of_what_came)
{
    /* frames: length, type, flags, stream; then HPACK or data */
    static const struct {
        const char *frames;
        enum grpc_code code;
    } cases[] = {
        {"0000010105000000018d", GRPC_UNIMPLEMENTED},            /* :status 404 */
        {"0000010105000000018c", GRPC_INTERNAL},                 /* :status 400 */
        {"0000010105000000018e", GRPC_UNKNOWN},                  /* :status 500 */
        {"00000501050000000108033530 33", GRPC_UNAVAILABLE},     /* :status 503, literal */
        {"00000101050000000188", GRPC_INTERNAL},                 /* :status 200 and nothing else */
        {"00000403000000000100000007", GRPC_UNAVAILABLE},        /* RST_STREAM REFUSED_STREAM */
        {"00000403000000000100000008", GRPC_CANCELLED},          /* CANCEL */
        {"0000040300000000010000000b", GRPC_RESOURCE_EXHAUSTED}, /* ENHANCE_YOUR_CALM */
        {"00000403000000000100000002", GRPC_INTERNAL},           /* INTERNAL_ERROR */
        /* GOAWAY, last stream 0: this one was never looked at */
        {"00000807000000000000000000 00000000", GRPC_UNAVAILABLE},
        /* a compressed message; then a message that is cut short before grpc-status 0 */
        {"00000101040000000188 000006000000000001 010000000141", GRPC_INTERNAL},
        {"00000101040000000188 000006000000000001 000000000241"
         "00000f01050000000100 0b677270632d737461747573 0130",
         GRPC_INTERNAL},
        /* whole, and grpc-status 0; then grpc-status 99 */
        {"00000101040000000188 000006000000000001 000000000141"
         "00000f01050000000100 0b677270632d737461747573 0130",
         GRPC_OK},
        {"00000101040000000188"
         "00001001050000000100 0b677270632d737461747573 023939",
         GRPC_UNKNOWN},
        /* :status 404 and a page, "<html>" */
        {"0000010104000000018d 000006000100000001 3c68746d6c3e", GRPC_UNIMPLEMENTED},
        {"ffffffffffffffffffff", GRPC_UNAVAILABLE}, /* not HTTP/2 */
    };
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        struct world w;
        struct outcome o = {0};
        char frames[256];
        size_t len = 0;
        test_note("case %zu", n);
        for (const char *at = cases[n].frames; *at != '\0'; at++) {
            if (*at != ' ') frames[len++] = *at;
        }
        frames[len] = '\0';
        EXPECT_EQ(cases[n].code, answer_by_hand(&w, frames, &o));
    }
}

/* ---- memory ---- */

/* Whichever allocation fails, each call that was begun ends once and nothing is kept. */
TEST(a_failed_allocation_ends_calls_and_leaks_nothing)
{
    static uint8_t large[40000];
    bool has_failed = true;
    for (uint64_t nth = 1; has_failed; nth++) {
        struct world w;
        struct outcome o[2] = {0};
        enum status begun[2] = {E_NOMEM, E_NOMEM};
        test_note("allocation %llu", (unsigned long long)nth);
        world_open(&w);
        client_free(w.client);
        w.client = NULL;
        w.client_mem.fail_at = nth;
        if (client_new(&w.options, w.now_ns, &w.client) == OK) {
            begun[0] = try_begin(&w, "/t/stream", pattern(large, sizeof large), &o[0]);
            begun[1] = try_begin(&w, "/t/fail", BYTES_NONE, &o[1]);
            pump(&w);
            has_failed = w.client_mem.fail_at == 0;
            client_free(w.client);
            w.client = NULL;
            for (size_t n = 0; n < 2; n++) EXPECT_EQ(begun[n] == OK ? 1 : 0, o[n].ends);
            if (!has_failed) EXPECT_EQ(GRPC_OK, o[0].code);
        }
        w.client_mem.fail_at = 0;
        world_close(&w);
    }
}

/* ---- sockets ---- */

static void *run_loop(void *user)
{
    loop_run(user);
    return NULL;
}

static void nothing(void *user) { (void)user; }

static void bell(void *user) { loop_stop(*(struct loop **)user); }

static void no_signal(void *user, int number, unsigned count)
{
    (void)user;
    (void)number;
    (void)count;
}

/* A loop in a thread of its own, and one client loop here. */
struct network {
    struct world world;
    struct mem mem;
    struct mem loop_mem;
    struct loop *loop;
    struct client_options options;
    struct client_sockets *sockets;
    pthread_t thread;
};

static void network_open(struct network *net)
{
    char text[CLIENT_TEXT_SIZE] = "";
    world_init(&net->world);
    mem_init(&net->mem, SIZE_MAX);
    mem_init(&net->loop_mem, SIZE_MAX);
    net->loop = NULL;
    net->world.limits.stream_window = 16 << 20; /* more than a socket holds */
    net->world.limits.conn_window = 16 << 20;
    struct loop_options options = {
        .mem = &net->loop_mem,
        .limits = &net->world.limits,
        .grpc = &net->world.grpc,
        .http = &net->world.http,
        .connections_n_max = 10,
        .bell = bell,
        .stop_signal = no_signal,
        .reload_signal = nothing,
        .dump_signal = nothing,
        .user = &net->loop,
    };
    EXPECT_STATUS(OK, loop_new(&options, &net->loop));
    EXPECT_STATUS(OK, loop_listen(net->loop, "127.0.0.1:0", text));
    EXPECT_EQ(0, pthread_create(&net->thread, NULL, run_loop, net->loop));
    client_options_init(&net->options, &net->mem);
    EXPECT_STATUS(OK, client_sockets_open(&net->mem, 3, &net->sockets));
}

static enum status network_connect(struct network *net, const char *address, struct client **out)
{
    char text[CLIENT_SOCKET_TEXT_SIZE] = "";
    return client_sockets_connect(net->sockets, &net->options, address, 5000, out, text);
}

static void network_stop(struct network *net)
{
    loop_ring(net->loop);
    EXPECT_EQ(0, pthread_join(net->thread, NULL));
    loop_free(net->loop);
    net->loop = NULL;
}

static void network_close(struct network *net)
{
    if (net->loop != NULL) network_stop(net);
    client_sockets_close(net->sockets);
    mem_release(&net->mem);
    mem_release(&net->loop_mem);
    mem_release(&net->world.client_mem);
    mem_release(&net->world.server_mem);
}

/* Asks and expects this code and so many bytes. */
static void expect_answer(struct network *net, struct client *client,
                          const struct client_request *request, enum grpc_code code, size_t size)
{
    char text[CLIENT_TEXT_SIZE] = "";
    struct buffer answer;
    enum grpc_code got = GRPC_UNKNOWN;
    buffer_init(&answer, &net->mem);
    EXPECT_STATUS(OK, client_sockets_ask(net->sockets, client, request, &answer, &got, text));
    EXPECT_EQ(code, got);
    EXPECT_EQ(size, answer.len);
    if (code == GRPC_OK && size == request->message.len)
        EXPECT_BYTES(request->message, buffer_view(&answer));
    buffer_release(&answer);
}

TEST(calls_over_several_sockets)
{
    struct network net;
    struct client *clients[3] = {0};
    struct client *none = NULL;
    network_open(&net);
    for (size_t n = 0; n < 3; n++) {
        EXPECT_STATUS(OK, network_connect(&net, loop_address(net.loop), &clients[n]));
    }
    EXPECT_STATUS(E_LIMIT, network_connect(&net, loop_address(net.loop), &none));
    struct client_request request = {.path = "/t/echo", .message = BYTES_LITERAL("over TCP")};
    for (size_t n = 0; n < 30; n++) {
        expect_answer(&net, clients[n % 3], &request, GRPC_OK, request.message.len);
    }
    client_sockets_disconnect(net.sockets, clients[1]);
    EXPECT_STATUS(OK, network_connect(&net, loop_address(net.loop), &clients[1]));
    expect_answer(&net, clients[1], &request, GRPC_OK, request.message.len);
    network_close(&net);
}

/* What a socket does not take waits and is not lost. */
TEST(a_message_larger_than_a_socket_holds_arrives_whole)
{
    static uint8_t large[12 << 20];
    struct network net;
    struct client *client = NULL;
    network_open(&net);
    EXPECT_STATUS(OK, network_connect(&net, loop_address(net.loop), &client));
    struct client_request request = {.path = "/t/echo", .message = pattern(large, sizeof large)};
    expect_answer(&net, client, &request, GRPC_OK, sizeof large);
    request.path = "/t/stream";
    expect_answer(&net, client, &request, GRPC_OK, 2 * sizeof large);
    network_close(&net);
}

TEST(addresses_that_lead_nowhere_are_told_apart)
{
    struct network net;
    struct client *none = NULL;
    network_open(&net);
    static const char *const wrong[] = {
        "127.0.0.1", ":1", "127.0.0.1:", "::1:80", "[::1:80", "localhost:http", "[]:1", ""};
    for (size_t n = 0; n < sizeof wrong / sizeof *wrong; n++) {
        test_note("\"%s\"", wrong[n]);
        EXPECT_STATUS(E_INVALID, network_connect(&net, wrong[n], &none));
    }
    test_note("%s", "");
    EXPECT_STATUS(E_UNAVAILABLE, network_connect(&net, "127.0.0.1:1", &none));
    network_close(&net);
}

TEST(a_server_that_goes_away_ends_calls_and_connection)
{
    struct network net;
    struct outcome o = {.world = &net.world};
    network_open(&net);
    EXPECT_STATUS(OK, network_connect(&net, loop_address(net.loop), &net.world.client));
    net.world.now_ns = client_sockets_now_ns(net.sockets);
    begin(&net.world, "/t/hold", BYTES_NONE, &o);
    client_sockets_turn(net.sockets, 0);
    network_stop(&net);
    for (int n = 0; n < 100 && o.ends == 0; n++) client_sockets_turn(net.sockets, 100);
    EXPECT_EQ(1, o.ends);
    EXPECT_EQ(GRPC_UNAVAILABLE, o.code);
    EXPECT(client_is_over(net.world.client));
    network_close(&net);
}

/* A peer by hand: listens, and says only what the test says. */
static int listen_by_hand(char *address, size_t address_size)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof name;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    EXPECT_EQ(0, bind(fd, (struct sockaddr *)&name, size));
    EXPECT_EQ(0, listen(fd, 1));
    EXPECT_EQ(0, getsockname(fd, (struct sockaddr *)&name, &size));
    snprintf(address, address_size, "127.0.0.1:%u", ntohs(name.sin_port));
    return fd;
}

/* Only our own clock ends the wait. */
TEST(a_deadline_ends_the_wait_for_a_silent_peer)
{
    struct network net;
    struct client *client = NULL;
    char address[32];
    int fd = listen_by_hand(address, sizeof address);
    network_open(&net);
    EXPECT_STATUS(OK, network_connect(&net, address, &client));
    struct client_request request = {.path = "/t/echo", .timeout_ms = 20};
    int64_t start_ns = clock_mono_ns();
    expect_answer(&net, client, &request, GRPC_DEADLINE_EXCEEDED, 0);
    EXPECT(clock_mono_ns() - start_ns >= 20 * NS_PER_MS);
    EXPECT(clock_mono_ns() - start_ns < 30 * S);
    close(fd);
    network_close(&net);
}

/* It could still read, but nothing can come from it any more. */
TEST(a_peer_that_has_stopped_sending_is_a_lost_one)
{
    struct network net;
    struct client *client = NULL;
    char address[32];
    int fd = listen_by_hand(address, sizeof address);
    network_open(&net);
    EXPECT_STATUS(OK, network_connect(&net, address, &client));
    int peer_fd = accept(fd, NULL, NULL);
    EXPECT(peer_fd >= 0);
    EXPECT_EQ(0, shutdown(peer_fd, SHUT_WR));
    struct client_request request = {.path = "/t/echo", .timeout_ms = 20000};
    expect_answer(&net, client, &request, GRPC_UNAVAILABLE, 0);
    EXPECT(client_is_over(client));
    close(peer_fd);
    close(fd);
    network_close(&net);
}
