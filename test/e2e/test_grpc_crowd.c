/* SPDX-License-Identifier: Apache-2.0
 *
 * Many at once, over real connections: what each of them costs the server, and that all are served.
 * A sanitized build is slower and larger: there are fewer then, and its memory is not measured.
 */
#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"
#include "test/lib/caller.h"
#include "test/lib/real_server.h"
#include "test/lib/test.h"
#include "wire/pb.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#define SOON_MS 60000
#define KIB 1024u
#define MIB (1024.0 * 1024.0)

static struct real_server server;
static struct client_sockets *sockets;
static bool is_sanitized;

/* Of the present test. */
static struct {
    uint32_t done_n;
    uint32_t right_n;
    char text[CLIENT_TEXT_SIZE]; /* of the last refusal */
} counts;

static void open_world(uint32_t connections_n)
{
    char data[PATH_MAX];
    struct rlimit files;

    /* as many files as this process may have: the server raises its own limit */
    EXPECT_EQ(0, getrlimit(RLIMIT_NOFILE, &files));
    files.rlim_cur = files.rlim_max;
    EXPECT_EQ(0, setrlimit(RLIMIT_NOFILE, &files));
    if (files.rlim_max < connections_n + 100) test_skip("too few open files are allowed here");
    is_sanitized = real_server_is_sanitized();
    server = (struct real_server){0};
    (void)snprintf(data, sizeof data, "%s/data", test_directory());
    real_server_start(&server, data, NULL);
    EXPECT_STATUS(OK, client_sockets_open(mem_process(), connections_n, &sockets));
    counts.done_n = counts.right_n = 0;
}

static void close_world(void)
{
    client_sockets_close(sockets);
    real_server_stop(&server, SOON_MS);
}

static double rss_mib(void) { return (double)real_server_rss_bytes(&server) / MIB; }

static void count_end(void *user, struct client_call *call, enum grpc_code code, const char *text)
{
    (void)user;
    (void)call;
    counts.done_n++;
    if (code == GRPC_OK)
        counts.right_n++;
    else
        (void)snprintf(counts.text, sizeof counts.text, "%s %.900s", grpc_code_name(code), text);
}

static void begin(struct caller *c, const char *path, client_message_fn *on_message)
{
    struct client_request request = {
        .path = path,
        .message = buffer_view(&c->message),
        .on_message = on_message,
        .on_end = count_end,
    };

    EXPECT_STATUS(OK, client_begin(c->client, client_sockets_now_ns(c->sockets), &request, NULL));
}

static void until_done(uint32_t n)
{
    int64_t end_ns = clock_mono_ns() + SOON_MS * NS_PER_MS;

    while (counts.done_n < n) {
        client_sockets_turn(sockets, 10);
        real_server_expect_alive(&server);
        if (clock_mono_ns() > end_ns)
            test_fail(__FILE__, __LINE__, "%u of %u calls were answered in time", counts.done_n, n);
    }
}

/* Instances "i-0", "i-1", ...: all at once, over one connection. */
static void start_all(struct caller *c, uint32_t n, struct bytes input)
{
    char id[32];

    counts.done_n = counts.right_n = 0;
    for (uint32_t i = 0; i < n; i++) {
        (void)snprintf(id, sizeof id, "i-%u", i);
        buffer_clear(&c->message);
        pb_put_bytes(&c->message, 1, bytes_of_text(id));
        pb_put_bytes(&c->message, 2, BYTES_LITERAL("flow"));
        pb_put_string_value(&c->message, 4, input, true);
        begin(c, "/TaskHubSidecarService/StartInstance", NULL);
        if (i % 1000 == 999) client_sockets_turn(sockets, 0);
    }
    until_done(n);
    if (counts.right_n != n) test_fail(__FILE__, __LINE__, "a start was refused: %s", counts.text);
}

/* A worker that has nothing to do costs next to nothing, and is there when there is. */
TEST(a_thousand_idle_workers)
{
    uint32_t n = 1000;
    struct caller client;
    uint32_t taken_n = 0;

    open_world(n + 1);
    struct caller *callers = calloc(n, sizeof *callers);
    struct basket *baskets = calloc(n, sizeof *baskets);
    assert(callers != NULL && baskets != NULL);
    for (uint32_t i = 0; i < n; i++) {
        EXPECT(caller_open(&callers[i], sockets, server.address, ""));
        basket_open(&baskets[i], &callers[i], BYTES_NONE);
    }
    EXPECT(caller_open(&client, sockets, server.address, ""));
    while (real_server_metric(&server, "norn_workers") < n) client_sockets_turn(sockets, 10);
    double rss = rss_mib();
    printf("# %u idle workers: %.1f MiB\n", n, rss);
    if (!is_sanitized) EXPECT(rss < 100);
    EXPECT_EQ(GRPC_OK, caller_start(&client, "a", "flow", BYTES_LITERAL("1")));
    int64_t end_ns = clock_mono_ns() + SOON_MS * NS_PER_MS;
    while (taken_n == 0 && clock_mono_ns() < end_ns) {
        client_sockets_turn(sockets, 10);
        for (uint32_t i = 0; i < n; i++) taken_n += baskets[i].taken_n;
    }
    EXPECT_EQ(1, taken_n);
    for (uint32_t i = 0; i < n; i++) {
        basket_close(&baskets[i]);
        caller_close(&callers[i]);
    }
    caller_close(&client);
    free(callers);
    free(baskets);
    close_world();
}

static void wait_message(void *user, struct client_call *call, struct bytes message)
{
    struct seen seen;

    (void)user;
    (void)call;
    EXPECT(seen_read(message, &seen));
    EXPECT_EQ(STATUS_COMPLETED, seen.status);
}

/* Everybody who waits for an instance is told when it ends, however many they are. */
TEST(ten_thousand_waiting_clients)
{
    uint32_t connections_n = 100;
    uint32_t waits_n = 10000;
    uint32_t instances_n = 1000;
    struct caller worker;
    struct basket basket;
    char id[32];

    open_world(connections_n + 1);
    struct caller *callers = calloc(connections_n, sizeof *callers);
    assert(callers != NULL);
    EXPECT(caller_open(&worker, sockets, server.address, ""));
    start_all(&worker, instances_n, BYTES_LITERAL("1"));
    double before = rss_mib();
    counts.done_n = counts.right_n = 0;
    for (uint32_t i = 0; i < connections_n; i++)
        EXPECT(caller_open(&callers[i], sockets, server.address, ""));
    for (uint32_t i = 0; i < waits_n; i++) {
        struct caller *c = &callers[i % connections_n];
        (void)snprintf(id, sizeof id, "i-%u", i % instances_n);
        buffer_clear(&c->message);
        pb_put_bytes(&c->message, 1, bytes_of_text(id));
        begin(c, "/TaskHubSidecarService/WaitForInstanceCompletion", wait_message);
    }
    const char *calls = "norn_calls_total{method=\"WaitForInstanceCompletion\"}";
    while (real_server_metric(&server, calls) < waits_n) client_sockets_turn(sockets, 10);
    printf("# %u waiting clients on %u connections: %.1f MiB, %.1f before\n", waits_n,
           connections_n, rss_mib(), before);
    if (!is_sanitized) EXPECT(rss_mib() - before < 100);
    EXPECT_EQ(0, counts.done_n);
    basket_open(&basket, &worker, BYTES_NONE);
    for (uint32_t i = 0; i < instances_n; i++) {
        struct taken *turn = basket_await(&basket, 1, SOON_MS);
        EXPECT(turn != NULL);
        EXPECT_EQ(GRPC_OK, caller_end_turn(&worker, &turn->item, BYTES_LITERAL("1")));
        basket.first = turn->next;
        if (basket.last == turn) basket.last = NULL;
        basket.taken_n--;
        free(turn);
    }
    until_done(waits_n);
    EXPECT_EQ(waits_n, counts.right_n);
    basket_close(&basket);
    for (uint32_t i = 0; i < connections_n; i++) caller_close(&callers[i]);
    caller_close(&worker);
    free(callers);
    close_world();
}

/* A worker that asks for everything and then does not read is not a place to keep it: what waits
 * for it is bounded, and comes when it reads again. */
TEST(a_worker_that_does_not_read)
{
    uint32_t n = real_server_is_sanitized() ? 3000 : 10000;
    struct client_sockets *slow;
    struct caller client, reader;
    struct basket basket;
    struct buffer input;

    open_world(2);
    EXPECT_STATUS(OK, client_sockets_open(mem_process(), 1, &slow));
    buffer_init(&input, mem_process());
    EXPECT(buffer_reserve(&input, 4 * KIB));
    memset(input.ptr, 'x', 4 * KIB);
    input.len = 4 * KIB;
    input.ptr[0] = input.ptr[input.len - 1] = '"';
    EXPECT(caller_open(&client, sockets, server.address, ""));
    start_all(&client, n, buffer_view(&input));
    double before = rss_mib();
    EXPECT(caller_open(&reader, slow, server.address, ""));
    basket_open(&basket, &reader, BYTES_NONE); /* and nobody turns its loop */
    double most = before;
    int64_t end_ns = clock_mono_ns() + 3000 * NS_PER_MS;
    while (clock_mono_ns() < end_ns) {
        client_sockets_turn(sockets, 50);
        if (rss_mib() > most) most = rss_mib();
    }
    printf("# %u items of 4 KiB that nobody reads: %.1f MiB, %.1f before\n", n, most, before);
    if (!is_sanitized) EXPECT(most - before < 24);
    struct seen seen;
    EXPECT_EQ(GRPC_OK, caller_get(&client, "i-0", &seen)); /* others are served */
    if (basket_await(&basket, n, SOON_MS) == NULL)
        test_fail(__FILE__, __LINE__, "%u of %u items came", basket.taken_n, n);
    EXPECT_EQ(n, basket.taken_n);
    basket_close(&basket);
    caller_close(&reader);
    caller_close(&client);
    client_sockets_close(slow);
    buffer_release(&input);
    close_world();
}
