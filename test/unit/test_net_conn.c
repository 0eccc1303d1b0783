/* SPDX-License-Identifier: Apache-2.0
 *
 * A connection as a whole: which protocol it speaks, draining, and pieces of any size.
 */
#include "base/rng.h"
#include "net/flood.h"
#include "net/listen.h"
#include "net/pool.h"
#include "test/unit/net_world.h"

static struct world w;

/* Each byte on its own. */
TEST(the_first_bytes_tell_the_protocol)
{
    world_init(&w);
    world_connect(&w, true);
    put_greeting(&w.in);
    put_request(&w.in, 1, "/t/echo", "hello");
    for (size_t i = 0; i < w.in.len; i++)
        EXPECT_STATUS(OK, conn_feed(w.conn, w.now_ns, bytes_make(w.in.ptr + i, 1)));
    EXPECT_EQ(1, w.calls_n);
    EXPECT_EQ(w.in.len, w.counters.bytes_in);
    world_read(&w);
    EXPECT(strstr(world_trace(&w), "1 end grpc-status=0") != NULL);
    world_release(&w);

    world_init(&w);
    world_connect(&w, true);
    const char *page = "PRINT / HTTP/1.1\r\nHost: x\r\n\r\n"; /* begins like the other */
    for (size_t i = 0; page[i] != 0; i++)
        EXPECT_STATUS(OK, conn_feed(w.conn, w.now_ns, bytes_make(page + i, 1)));
    EXPECT_EQ(1, w.pages_n);
    world_release(&w);
}

/* A stream of calls cut at random gives the same calls. */
TEST(pieces_make_no_difference)
{
    uint64_t digest = 0;
    for (uint64_t seed = 0; seed < 50; seed++) {
        struct rng rng;
        test_note("seed %llu", (unsigned long long)seed);
        rng_init(&rng, seed);
        world_init(&w);
        world_connect(&w, true);
        put_greeting(&w.in);
        for (uint32_t i = 0; i < 90; i++)
            put_request(&w.in, 2 * i + 1, i % 3 == 0 ? "/t/hold" : "/t/echo",
                        i % 2 ? "a" : "bcdef");
        for (size_t at = 0; at < w.in.len;) {
            size_t n = seed == 0 ? w.in.len : 1 + rng_below(&rng, seed * 4);
            if (n > w.in.len - at) n = w.in.len - at;
            EXPECT_STATUS(OK, conn_feed(w.conn, w.now_ns, bytes_make(w.in.ptr + at, n)));
            at += n;
        }
        EXPECT_EQ(90, w.calls_n);
        if (seed == 0) digest = w.digest;
        EXPECT(digest == w.digest);
        world_release(&w);
    }
}

/* GOAWAY, present calls go on, new ones are not taken, then it is over. */
TEST(draining_ends_when_the_calls_have_ended)
{
    world_init(&w);
    world_greet(&w);
    put_request(&w.in, 1, "/t/hold", "x");
    EXPECT_STATUS(OK, world_say(&w));
    conn_drain(w.conn, w.now_ns);
    world_read(&w);
    EXPECT_TEXT("goaway 0\n", world_trace(&w));
    put_request(&w.in, 3, "/t/echo", "x");
    EXPECT_STATUS(OK, world_say(&w));
    EXPECT_EQ(1, w.calls_n);
    EXPECT(!conn_is_over(w.conn));
    world_finish_held(&w);
    EXPECT(!conn_is_over(w.conn));
    world_read(&w);
    EXPECT_TEXT("1 end :status=200 content-type=application/grpc grpc-status=0\n", world_trace(&w));
    EXPECT(conn_is_over(w.conn));
    world_release(&w);
}

TEST(an_idle_connection_drains_at_once)
{
    world_init(&w);
    world_greet(&w);
    conn_drain(w.conn, w.now_ns);
    EXPECT(!conn_is_over(w.conn));
    world_read(&w);
    EXPECT_EQ(1, w.goaways_n);
    EXPECT(conn_is_over(w.conn));
    world_release(&w);

    world_init(&w);
    world_connect(&w, true); /* has said nothing yet */
    conn_drain(w.conn, w.now_ns);
    EXPECT(conn_is_over(w.conn));
    world_release(&w);
}

/* A handler whose stream was reset still keeps a draining connection: it may hold work. */
TEST(draining_waits_for_handlers)
{
    world_init(&w);
    w.is_finish_in_closed = false;
    world_greet(&w);
    put_request(&w.in, 1, "/t/hold", "x");
    put_frame_u32(&w.in, NGHTTP2_RST_STREAM, 1, NGHTTP2_CANCEL);
    EXPECT_STATUS(OK, world_say(&w));
    conn_drain(w.conn, w.now_ns);
    world_read(&w);
    EXPECT(!conn_is_over(w.conn));
    world_finish_held(&w);
    world_read(&w);
    EXPECT(conn_is_over(w.conn));
    world_release(&w);
}

/* A client that has as many calls open as it was told it may have is no flood, even when all of
 * them are answered before it reads the first answer, as after one commit of the engine. */
TEST(many_answers_at_once_are_no_flood)
{
    world_init(&w);
    w.limits.calls_n_max = 4000;
    world_greet(&w);
    for (uint32_t i = 0; i < 4000; i++) {
        put_request(&w.in, 2 * i + 1, "/t/echo", "x");
        if (i % 10 != 9) continue;
        EXPECT_STATUS(OK, conn_feed(w.conn, w.now_ns, buffer_view(&w.in)));
        buffer_clear(&w.in);
    }
    EXPECT_EQ(4000, w.calls_n);
    EXPECT_EQ(0, w.counters.provoked_flood);
    EXPECT(!conn_is_over(w.conn));
    world_release(&w);
}

/* A pull is bounded, and what is left comes with the next. */
TEST(a_pull_is_bounded)
{
    static uint8_t block[60000];
    world_init(&w);
    world_greet(&w);
    put_request(&w.in, 1, "/t/hold", "x");
    put_frame_u32(&w.in, NGHTTP2_WINDOW_UPDATE, 0, 1 << 20);
    EXPECT_STATUS(OK, world_say(&w));
    EXPECT_STATUS(OK, grpc_send(w.held[0], bytes_make(block, sizeof block)));
    size_t pulls_n = 0;
    for (size_t before = 0; conn_pull(w.conn, w.now_ns, &w.out, 1000); before = w.out.len) {
        EXPECT(w.out.len - before < 1000 + 2 * (16384 + 9));
        pulls_n++;
    }
    EXPECT(pulls_n >= 4);
    conn_sent(w.conn, w.now_ns, w.out.len);
    EXPECT(w.out.len > sizeof block);
    world_read(&w);
    world_release(&w);
}

static unsigned wakes_n;
static void on_wake(void *user, struct conn *c)
{
    (void)user;
    (void)c;
    wakes_n++;
}

/* Whoever sends outside of a feed wakes the loop, and so does a time-out. */
TEST(an_answer_wakes)
{
    world_init(&w);
    world_greet(&w);
    put_request(&w.in, 1, "/t/hold", "x");
    EXPECT_STATUS(OK, world_say(&w));
    conn_on_wake(w.conn, on_wake, NULL);
    wakes_n = 0;
    EXPECT_STATUS(OK, grpc_send(w.held[0], BYTES_LITERAL("x")));
    EXPECT_EQ(1, wakes_n);
    world_finish_held(&w);
    EXPECT_EQ(2, wakes_n);
    world_read(&w);
    put_request(&w.in, 3, "/t/hold", "x");
    EXPECT_STATUS(OK, world_say(&w));
    wakes_n = 0;
    world_wait_ms(&w, 30 * 1000);
    EXPECT_EQ(1, wakes_n); /* our PING */
    world_release(&w);
}

/* ---- the parts ---- */

/* A bucket gives its burst, then its rate, and never more than its burst. */
TEST(a_bucket_gives_burst_and_rate)
{
    struct flood f;
    int64_t now_ns = NS_PER_S;
    unsigned n = 0;
    flood_init(&f, 50, 10, now_ns);
    while (flood_take(&f, FLOOD_RESET, now_ns)) n++;
    EXPECT_EQ(50, n);
    now_ns += 99 * NS_PER_MS;
    EXPECT(!flood_take(&f, FLOOD_RESET, now_ns));
    now_ns += NS_PER_MS;
    EXPECT(flood_take(&f, FLOOD_RESET, now_ns));
    EXPECT(!flood_take(&f, FLOOD_RESET, now_ns));
    flood_earn(&f, FLOOD_RESET);
    EXPECT(flood_take(&f, FLOOD_RESET, now_ns));
    now_ns += 1000 * NS_PER_S;
    for (n = 0; flood_take(&f, FLOOD_RESET, now_ns);) n++;
    EXPECT_EQ(50, n);
    /* Small steps of time lose nothing. */
    for (int i = 0; i < 1000; i++) {
        now_ns += NS_PER_MS;
        n += flood_take(&f, FLOOD_RESET, now_ns) ? 1 : 0;
    }
    EXPECT_EQ(60, n);
}

/* Blocks wait for their next use up to a limit, and keep their contents when they grow. */
TEST(a_pool_keeps_a_bounded_number)
{
    struct mem mem;
    struct pool pool;
    void *blocks[100];
    mem_init(&mem, SIZE_MAX);
    pool_init(&pool, &mem, 1024);
    for (size_t i = 0; i < 100; i++) blocks[i] = pool_take(&pool, 100);
    for (size_t i = 0; i < 100; i++) pool_give(&pool, blocks[i]);
    EXPECT(mem.used > 0);
    EXPECT(mem.used <= 1024);
    size_t before = mem.used;
    char *text = pool_take(&pool, 100);
    EXPECT_EQ(before, mem.used);
    memcpy(text, "hello", 6);
    for (size_t size = 100; size < 100000; size *= 3) text = pool_resize(&pool, text, size);
    EXPECT_TEXT("hello", text);
    pool_give(&pool, text);
    EXPECT(pool_take(&pool, SIZE_MAX - 8) == NULL);
    pool_release(&pool);
    EXPECT_EQ(0, mem.used);
    mem_release(&mem);
}

struct kept_thing {
    struct list node;
    struct mem *mem;
};

static void free_thing(struct list *node)
{
    struct kept_thing *thing = container_of(node, struct kept_thing, node);
    mem_give(thing->mem, thing, sizeof *thing);
}

/* Objects that are put away come back, the last one first; beyond the limit they stay with who has
 * them; what is left goes with the pool. */
TEST(a_pool_keeps_objects_up_to_a_limit)
{
    struct mem mem;
    struct pool pool;
    struct kept_thing *last = NULL;
    mem_init(&mem, SIZE_MAX);
    pool_init(&pool, &mem, 1024);
    EXPECT(pool_take_kept(&pool) == NULL);
    for (int i = 0; i < POOL_KEPT_N_MAX; i++) {
        last = mem_take_zero(&mem, sizeof *last);
        last->mem = &mem;
        EXPECT(pool_keep(&pool, &last->node, free_thing));
    }
    struct kept_thing *more = mem_take_zero(&mem, sizeof *more);
    more->mem = &mem;
    EXPECT(!pool_keep(&pool, &more->node, free_thing));
    EXPECT(pool_take_kept(&pool) == &last->node);
    EXPECT(pool_keep(&pool, &more->node, free_thing));
    free_thing(&last->node);
    pool_release(&pool);
    EXPECT_EQ(0, mem.used);
    mem_release(&mem);
}

TEST(addresses_of_listeners)
{
    static const struct {
        const char *text;
        const char *first; /* NULL: not an address */
    } cases[] = {{"127.0.0.1:4001", "127.0.0.1:4001"},
                 {"[::1]:4001", "[::1]:4001"},
                 {"localhost:80", "127.0.0.1:80"},
                 {"0.0.0.0:0", "0.0.0.0:0"},
                 {"127.0.0.1", NULL},
                 {"127.0.0.1:", NULL},
                 {"127.0.0.1:65536", NULL},
                 {"127.0.0.1:-1", NULL},
                 {"::1:4001", NULL},
                 {"[127.0.0.1]:1", NULL},
                 {":4001", NULL},
                 {"", NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sockaddr_storage addresses[LISTEN_ADDRESSES_N_MAX];
        char text[LISTEN_TEXT_SIZE] = "";
        size_t n = 0;
        test_note("%s", cases[i].text);
        enum status status = listen_resolve(cases[i].text, addresses, &n, text);
        EXPECT_STATUS(cases[i].first == NULL ? E_INVALID : OK, status);
        if (cases[i].first == NULL) {
            EXPECT(text[0] != 0);
            continue;
        }
        char first[LISTEN_ADDRESS_SIZE];
        listen_text(&addresses[0], first);
        EXPECT_TEXT(cases[i].first, first);
        EXPECT_EQ(cases[i].text[0] != '0', listen_is_local(&addresses[0]));
    }
}
