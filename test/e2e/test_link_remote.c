/* SPDX-License-Identifier: Apache-2.0
 *
 * The library's link to a server, against a real one: every verb of a client, and what must survive
 * when the server is killed, stopped or was never there, or only the connection goes.
 */
#include "test/e2e/link_kit.h"

#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- clients' verbs ---- */

/* What was started is there as it was said, and an id is used once. */
TEST(an_instance_is_started_and_seen)
{
    struct seen seen = {0};
    char id[LINK_ID_SIZE];
    uint8_t tag_bytes[] = {0x0a, 1, 'k', 0x12, 1, 'v'};
    uint8_t tags[1 + sizeof tag_bytes] = {sizeof tag_bytes};
    struct link_start start = {
        .name = TEXT("nobody"), .input = SOME("\"in\""), .version = SOME("2")};

    world_begin(NULL, NULL);
    memcpy(tags + 1, tag_bytes, sizeof tag_bytes);
    start.tags = bytes_make(tags, sizeof tags);
    EXPECT_STATUS(OK, link_start(world.link, &start, id, why));
    EXPECT_STATUS(OK, link_get(world.link, TEXT(id), 0, on_view, &seen, why));
    EXPECT_TEXT(id, seen.id);
    EXPECT_TEXT("nobody", seen.name);
    EXPECT_TEXT("2", seen.version);
    EXPECT_TEXT("\"in\"", seen.input);
    EXPECT_EQ(STATUS_PENDING, seen.status);
    EXPECT_BYTES(bytes_make(tag_bytes, sizeof tag_bytes), seen.tag);
    EXPECT(seen.created_ns > 0);

    start.id = TEXT(id);
    EXPECT_STATUS(E_EXISTS, link_start(world.link, &start, NULL, why));
    EXPECT(strstr(why, "exists") != NULL);
    start.reuse = REUSE_IGNORE;
    EXPECT_STATUS(OK, link_start(world.link, &start, NULL, why));
    EXPECT_STATUS(OK, link_control(world.link, TEXT(id), LINK_TERMINATE, SOME("\"out\""), why));
    start.reuse = REUSE_NEVER;
    EXPECT_STATUS(E_EXISTS, link_start(world.link, &start, NULL, why));
    start.reuse = REUSE_IGNORE;
    EXPECT_STATUS(OK, link_start(world.link, &start, NULL, why));
    EXPECT_STATUS(OK, link_get(world.link, TEXT(id), 0, on_view, &seen, why));
    EXPECT_EQ(STATUS_TERMINATED, seen.status);
    EXPECT_TEXT("\"out\"", seen.output);
    EXPECT(seen.is_terminal);
    start.reuse = REUSE_DEFAULT;
    EXPECT_STATUS(OK, link_start(world.link, &start, NULL, why));
    world_end();
}

/* Each refusal has its own status, so that a program can tell them apart. */
TEST(what_cannot_be_is_refused_with_its_reason)
{
    struct link *link;
    struct bytes none = TEXT("none");

    world_begin(NULL, NULL);
    link = world.link;
    EXPECT_STATUS(E_NOT_FOUND, link_get(link, none, 0, NULL, NULL, why));
    EXPECT_STATUS(E_NOT_FOUND, link_get(link, TEXT("@counter@a"), 0, NULL, NULL, why));
    EXPECT_STATUS(E_INVALID, link_get(link, TEXT("@counter@a"), 10, NULL, NULL, why));
    EXPECT_STATUS(E_NOT_FOUND, link_raise(link, none, TEXT("e"), MAYBE_NONE, why));
    EXPECT_STATUS(E_NOT_FOUND, link_control(link, none, LINK_TERMINATE, MAYBE_NONE, why));
    EXPECT_STATUS(E_NOT_FOUND, link_control(link, none, LINK_PURGE, MAYBE_NONE, why));
    EXPECT_STATUS(E_NOT_FOUND, link_history(link, none, NULL, NULL, why));
    EXPECT_STATUS(E_NOT_FOUND, link_control(link, none, LINK_RESUBMIT, MAYBE_NONE, why));
    EXPECT_STATUS(E_NOT_FOUND, link_steps(link, none, NULL, NULL, why));
    EXPECT_STATUS(E_INVALID, link_remote_open("nowhere", BYTES_NONE, &link));

    struct link_start start = {.name = TEXT("nobody"), .id = TEXT("a")};
    EXPECT_STATUS(OK, link_start(link, &start, NULL, why));
    EXPECT_STATUS(E_PRECONDITION, link_control(link, TEXT("a"), LINK_PURGE, MAYBE_NONE, why));
    EXPECT_STATUS(E_PRECONDITION, link_control(link, TEXT("a"), LINK_REWIND, MAYBE_NONE, why));
    EXPECT_STATUS(E_PRECONDITION, link_control(link, TEXT("a"), LINK_RESUBMIT, MAYBE_NONE, why));
    int64_t began_ns = clock_mono_ns();
    EXPECT_STATUS(E_TIMEOUT, link_get(link, TEXT("a"), 200, NULL, NULL, why));
    EXPECT(clock_mono_ns() - began_ns >= 200 * NS_PER_MS);
    EXPECT(clock_mono_ns() - began_ns < 5 * NS_PER_S);
    world_end();
}

/* Suspended, resumed, ended, begun again, forgotten. */
TEST(an_instance_is_steered)
{
    struct seen seen = {0};
    struct link_start start = {.name = TEXT("nobody"), .id = TEXT("a")};
    struct bytes id = TEXT("a");

    world_begin(NULL, NULL);
    EXPECT_STATUS(OK, link_start(world.link, &start, NULL, why));
    EXPECT_STATUS(OK, link_control(world.link, id, LINK_SUSPEND, SOME("wait"), why));
    EXPECT_STATUS(OK, link_get(world.link, id, 0, on_view, &seen, why));
    EXPECT_EQ(STATUS_SUSPENDED, seen.status);
    EXPECT_STATUS(OK, link_control(world.link, id, LINK_RESUME, MAYBE_NONE, why));
    EXPECT_STATUS(OK, link_get(world.link, id, 0, on_view, &seen, why));
    EXPECT_EQ(STATUS_PENDING, seen.status);
    EXPECT_STATUS(OK, link_control(world.link, id, LINK_TERMINATE, MAYBE_NONE, why));
    EXPECT_STATUS(OK, link_control(world.link, id, LINK_RESTART, MAYBE_NONE, why));
    EXPECT_STATUS(OK, link_get(world.link, id, 0, on_view, &seen, why));
    EXPECT_EQ(STATUS_PENDING, seen.status);
    EXPECT_STATUS(OK, link_control(world.link, id, LINK_TERMINATE, MAYBE_NONE, why));
    EXPECT_STATUS(OK, link_control(world.link, id, LINK_PURGE, MAYBE_NONE, why));
    EXPECT_STATUS(E_NOT_FOUND, link_get(world.link, id, 0, NULL, NULL, why));
    world_end();
}

/* A list comes in pages, and names are filtered here, because the protocol cannot. */
TEST(instances_are_listed_in_pages)
{
    struct mem mem;
    struct buffer cursor;
    struct seen seen = {0};
    char id[16];

    world_begin(NULL, NULL);
    for (int n = 0; n < 5; n++) {
        (void)snprintf(id, sizeof id, "i%d", n);
        struct link_start start = {.name = TEXT(n == 2 ? "other" : "nobody"), .id = TEXT(id)};
        EXPECT_STATUS(OK, link_start(world.link, &start, NULL, why));
    }
    EXPECT_STATUS(OK, link_raise(world.link, TEXT("@none@k"), TEXT("add"), SOME("1"), why));
    mem_init(&mem, SIZE_MAX);
    buffer_init(&cursor, &mem);
    struct request_query query = {.limit = 2, .to_ms = INT64_MAX, .name = TEXT("nobody")};
    int pages_n = 0;
    do {
        EXPECT_STATUS(OK, link_list(world.link, &query, &cursor, on_view, &seen, why));
        pages_n++;
    } while (cursor.len > 0);
    EXPECT_EQ(4, seen.n);
    EXPECT_EQ(3, pages_n);
    EXPECT_TEXT("i4", seen.id); /* in the order of their creation */
    query = (struct request_query){
        .limit = 10, .to_ms = INT64_MAX, .entities = true, .want_transient = true};
    seen.n = 0;
    EXPECT_STATUS(OK, link_list(world.link, &query, &cursor, on_view, &seen, why));
    EXPECT_EQ(1, seen.n);
    EXPECT_TEXT("@none@k", seen.id);
    query = (struct request_query){
        .limit = 10, .to_ms = INT64_MAX, .status_mask = 1u << STATUS_COMPLETED};
    seen.n = 0;
    EXPECT_STATUS(OK, link_list(world.link, &query, &cursor, on_view, &seen, why));
    EXPECT_EQ(0, seen.n);
    buffer_release(&cursor);
    mem_release(&mem);
    world_end();
}

/* ---- when things go wrong ---- */

/* Nobody there: no call hangs, and each says why. */
TEST(without_a_server_calls_are_given_up)
{
    struct link *link;
    struct link_start start = {.name = TEXT("flow"), .id = TEXT("a")};

    EXPECT_STATUS(OK, link_remote_open("127.0.0.1:1", BYTES_NONE, &link));
    int64_t began_ns = clock_mono_ns();
    EXPECT_STATUS(E_UNAVAILABLE, link_start(link, &start, NULL, why));
    int64_t took_ns = clock_mono_ns() - began_ns;
    EXPECT(took_ns > 4 * NS_PER_S);
    EXPECT(took_ns < 8 * NS_PER_S);
    EXPECT(strstr(why, "nobody listens") != NULL);
    EXPECT_STATUS(E_UNAVAILABLE,
                  link_get(link, TEXT("a"), 100, NULL, NULL, why)); /* it may have ended */
    link_close(link);
}

/* A server that comes late is found. */
TEST(a_call_waits_for_a_server_that_starts)
{
    struct seen seen = {0};

    world_begin(NULL, NULL);
    start_flow(world.link, "a");
    server_process_kill(&world.server);
    pid_t later = fork();
    EXPECT(later >= 0);
    if (later == 0) { /* the server outlives this child only by a moment: so it stays */
        usleep(500000);
        server_process_start(&world.server);
        for (;;) pause();
    }
    /* a busy machine takes longer for a start than a call has patience */
    enum status status = E_UNAVAILABLE;
    for (int n = 0; n < 4 && status == E_UNAVAILABLE; n++) {
        status = link_get(world.link, TEXT("a"), 0, on_view, &seen, why);
    }
    EXPECT_STATUS(OK, status);
    EXPECT_TEXT("flow", seen.name);
    (void)kill(later, SIGKILL);
    (void)waitpid(later, NULL, 0);
    world_end();
}

struct waiter {
    pthread_t thread;
    enum status status;
    struct seen seen;
    char why[LINK_WHY_SIZE];
};

static void *wait_for_a(void *user)
{
    struct waiter *waiter = user;

    waiter->status = link_get(world.link, TEXT("a"), -1, on_view, &waiter->seen, waiter->why);
    return NULL;
}

/* The server dies while a worker has its work and a client waits. After its restart the answer
 * that was given meanwhile counts or is dropped; the instance ends once, and its waiter knows. */
static void die_and_go_on(bool is_killed)
{
    struct hand *hand = &world.hand;
    struct waiter waiter = {0};

    world_begin(NULL, NULL);
    start_flow(world.link, "a");
    EXPECT(pthread_create(&waiter.thread, NULL, wait_for_a, &waiter) == 0);
    answer_one(hand, hand_take(hand, WORK_TURN), task_action(1, "\"you\""));
    struct link_work *work = hand_take(hand, WORK_TASK);
    if (is_killed)
        server_process_kill(&world.server);
    else
        EXPECT_EQ(0, server_process_stop(&world.server));
    usleep(100000);
    EXPECT_STATUS(E_UNAVAILABLE, link_renew(work, 1000));
    work->result = SOME("\"hello you\"");
    answer(hand, work); /* into the void */
    usleep(100000);
    server_process_start(&world.server);
    for (;;) {
        work = hand_take_within(hand, SOON_NS);
        EXPECT(work != NULL);
        if (work->kind == WORK_TURN) break;
        work->result = SOME("\"hello you\"");
        answer(hand, work);
    }
    EXPECT_EQ(1, count(work->fresh, EVENT_TASK_COMPLETED));
    EXPECT_EQ(1, count(work->past, EVENT_TASK_SCHEDULED));
    answer_one(hand, work, complete_action(2, "\"done\""));
    EXPECT(pthread_join(waiter.thread, NULL) == 0);
    EXPECT_STATUS(OK, waiter.status);
    EXPECT_TEXT("\"done\"", waiter.seen.output);
    world_end();
}

TEST(work_and_waits_survive_a_killed_server) { die_and_go_on(true); }
TEST(work_and_waits_survive_a_stopped_server) { die_and_go_on(false); }

/* A port can be left while the server is gone, with answers that nobody took. */
TEST(a_port_is_left_without_a_server)
{
    struct hand *hand = &world.hand;

    world_begin(NULL, NULL);
    start_flow(world.link, "a");
    struct link_work *work = hand_take(hand, WORK_TURN);
    server_process_kill(&world.server);
    answer_one(hand, work, complete_action(1, "1"));
    int64_t began_ns = clock_mono_ns();
    world_end();
    EXPECT(clock_mono_ns() - began_ns < 8 * NS_PER_S);
}

/* ---- steps ---- */

static enum status on_step(void *user, const struct task_view *step)
{
    *(struct task_view *)user = *step;
    ((struct task_view *)user)->name = BYTES_NONE;
    return OK;
}

/* What is parked at a server is seen, and goes on when an operator says so. */
TEST(a_parked_step_is_tried_again)
{
    static char large[100 << 10];
    struct hand *hand = &world.hand;
    struct task_view step = {.process = TASK_PENDING};

    world_begin("--message-size-max", "64KiB");
    start_flow(world.link, "a");
    struct link_work *work = hand_take(hand, WORK_TURN);
    struct action *actions = actions_of(work, 2);
    actions[0] = task_action(1, "1");
    actions[1] = (struct action){.kind = ACTION_SCHEDULE_TASK, .id = 2, .name = TEXT("nobody")};
    answer(hand, work);
    work = hand_take(hand, WORK_TASK);
    memset(large, '1', sizeof large);
    work->result = maybe_some(bytes_make(large, sizeof large));
    answer(hand, work); /* more than this server takes */
    work = NULL;
    for (int64_t end_ns = clock_mono_ns() + SOON_NS; work == NULL && clock_mono_ns() < end_ns;) {
        EXPECT_STATUS(OK, link_steps(world.link, TEXT("a"), on_step, &step, why));
        EXPECT_EQ(2, step.task_id); /* the last one, which nobody takes */
        EXPECT_EQ(TASK_PENDING, step.process);
        (void)link_control(world.link, TEXT("a"), LINK_RESUBMIT, MAYBE_NONE, why);
        work = hand_take_within(hand, 10 * NS_PER_MS);
    }
    EXPECT(work != NULL);
    EXPECT_EQ(WORK_TASK, work->kind);
    EXPECT_EQ(1, work->task_id);
    work->result = SOME("1");
    answer(hand, work);
    work = hand_take(hand, WORK_TURN);
    answer_one(hand, work, complete_action(3, "1"));
    expect_output(world.link, "a", "1");
    world_end();
}

/* Of what a client sent: a frame of kind HEADERS, which begins a call, is there. */
static bool has_call(const uint8_t *bytes, size_t size)
{
    for (size_t at = 24; at + 9 <= size;) { /* after the preface */
        if (bytes[at + 3] == 1) return true;
        at += 9 + ((size_t)bytes[at] << 16 | (size_t)bytes[at + 1] << 8 | bytes[at + 2]);
    }
    return false;
}

/* Says of the first call that there is no such method, as a server of somebody else. */
static void *be_foreign(void *user)
{
    static const uint8_t hello[] = {0, 0, 0, 4, 0, 0, 0, 0, 0};
    static const uint8_t no_such[] = {0, 0, 1, 1, 5, 0, 0, 0, 1, 0x8d}; /* 404 on stream 1 */
    uint8_t bytes[4096];
    size_t size = 0;
    int fd = accept(*(int *)user, NULL, NULL);

    (void)send(fd, hello, sizeof hello, MSG_NOSIGNAL);
    while (!has_call(bytes, size) && size < sizeof bytes) {
        ssize_t more = recv(fd, bytes + size, sizeof bytes - size, 0);
        if (more <= 0) break;
        size += (size_t)more;
    }
    (void)send(fd, no_such, sizeof no_such, MSG_NOSIGNAL);
    while (recv(fd, bytes, sizeof bytes, 0) > 0) continue;
    close(fd);
    return NULL;
}

static int listen_anywhere(char address[64])
{
    struct sockaddr_in name = {.sin_family = AF_INET};
    socklen_t size = sizeof name;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT(bind(fd, (struct sockaddr *)&name, sizeof name) == 0);
    EXPECT(listen(fd, 16) == 0);
    EXPECT(getsockname(fd, (struct sockaddr *)&name, &size) == 0);
    (void)snprintf(address, 64, "127.0.0.1:%u", ntohs(name.sin_port));
    return fd;
}

/* A server that has never heard of norn is no reason to fail without a word. */
TEST(a_server_of_somebody_else_has_no_steps)
{
    char address[64];
    int fd = listen_anywhere(address);
    pthread_t thread;
    struct link *link;

    EXPECT(pthread_create(&thread, NULL, be_foreign, &fd) == 0);
    EXPECT_STATUS(OK, link_remote_open(address, BYTES_NONE, &link));
    EXPECT_STATUS(E_UNSUPPORTED, link_steps(link, TEXT("a"), on_step, NULL, why));
    EXPECT_TEXT("this server has no list of steps: it is not norn, or too old", why);
    link_close(link);
    EXPECT(pthread_join(thread, NULL) == 0);
    close(fd);
}

/* ---- when only the connection goes ---- */

/* Between link and server; for one connection after the other. */
struct proxy {
    int listener;
    uint16_t to;
    char address[64];
    pthread_t thread;
    atomic_bool is_cut;  /* whatever is open is closed, and nothing is let in */
    atomic_bool is_deaf; /* what the server says gets lost */
    atomic_bool is_over;
    atomic_uint accepted_n;
};

static int connect_to(uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* False: one of them is at its end. */
static bool carry(int from, int to, bool is_lost)
{
    uint8_t bytes[65536];
    ssize_t size = recv(from, bytes, sizeof bytes, 0);

    for (ssize_t at = 0; at < size && !is_lost;) {
        ssize_t sent = send(to, bytes + at, (size_t)(size - at), MSG_NOSIGNAL);
        if (sent <= 0) return false;
        at += sent;
    }
    return size > 0;
}

static void serve_one(struct proxy *p, int near)
{
    int far = connect_to(p->to);
    struct pollfd polls[] = {{.fd = near, .events = POLLIN}, {.fd = far, .events = POLLIN}};
    bool is_open = far >= 0;

    while (is_open && !atomic_load(&p->is_cut) && !atomic_load(&p->is_over)) {
        (void)poll(polls, 2, 10);
        if (polls[0].revents != 0) is_open = carry(near, far, false);
        if (is_open && polls[1].revents != 0) is_open = carry(far, near, atomic_load(&p->is_deaf));
    }
    if (far >= 0) close(far);
}

static void *proxy_run(void *user)
{
    struct proxy *p = user;
    struct pollfd poller = {.fd = p->listener, .events = POLLIN};

    while (!atomic_load(&p->is_over)) {
        if (poll(&poller, 1, 10) != 1) continue;
        int near = accept(p->listener, NULL, NULL);
        if (!atomic_load(&p->is_cut)) {
            (void)atomic_fetch_add(&p->accepted_n, 1);
            serve_one(p, near);
        }
        close(near);
    }
    return NULL;
}

static void proxy_open(struct proxy *p, uint16_t to)
{
    *p = (struct proxy){.to = to};
    p->listener = listen_anywhere(p->address);
    EXPECT(pthread_create(&p->thread, NULL, proxy_run, p) == 0);
}

static void proxy_close(struct proxy *p)
{
    atomic_store(&p->is_over, true);
    EXPECT(pthread_join(p->thread, NULL) == 0);
    close(p->listener);
}

/* Cuts it; the caller mends it. */
static void proxy_cut(struct proxy *p)
{
    atomic_store(&p->is_cut, true);
    usleep(100000);
}

static void proxy_mend(struct proxy *p)
{
    atomic_store(&p->is_deaf, false);
    atomic_store(&p->is_cut, false);
}

static struct proxy proxy;
static struct link *direct; /* to the same server, without the proxy */

/* Lost work is offered again only after a while: what comes before was not lost. */
#define GRACE_NS (4 * NS_PER_S)
static void proxied_begin(void)
{
    server_process_kill(&world.server);
    world = (struct world){.server = {.more = {"--work-grace", "4s"}}};
    server_process_start(&world.server);
    proxy_open(&proxy, world.server.port);
    EXPECT_STATUS(OK, link_remote_open(proxy.address, BYTES_NONE, &world.link));
    EXPECT_STATUS(OK, link_remote_open(world.server.address, BYTES_NONE, &direct));
    hand_attach(&world.hand, world.link, 4, 4);
}

static void proxied_end(void)
{
    link_close(direct);
    world_end();
    proxy_close(&proxy);
}

/* An answer that could not be sent is sent later, by the next connection: nobody does it twice. */
TEST(an_answer_is_repeated_until_it_is_taken)
{
    struct hand *hand = &world.hand;

    proxied_begin();
    start_flow(direct, "a");
    struct link_work *work = hand_take(hand, WORK_TURN);
    proxy_cut(&proxy);
    answer_one(hand, work, task_action(1, "1"));
    usleep(200000);
    proxy_mend(&proxy);
    work = hand_take_within(hand, GRACE_NS / 2);
    EXPECT(work != NULL);
    EXPECT_EQ(WORK_TASK, work->kind);
    /* this answer reaches the server, but what the server says to it is lost; that it comes again
     * does no harm */
    atomic_store(&proxy.is_deaf, true);
    work->result = SOME("1");
    answer(hand, work);
    usleep(200000);
    proxy_cut(&proxy);
    proxy_mend(&proxy);
    work = hand_take(hand, WORK_TURN);
    EXPECT_EQ(1, count(work->fresh, EVENT_TASK_COMPLETED));
    answer_one(hand, work, complete_action(2, "1"));
    expect_output(direct, "a", "1");
    proxied_end();
}

struct starter {
    pthread_t thread;
    struct link *link;
    enum status status;
    bool is_raise;
    char id[LINK_ID_SIZE];
    char why[LINK_WHY_SIZE];
};

static void *start_one(void *user)
{
    struct starter *s = user;
    struct link_start start = {.name = TEXT("nobody")};

    s->status = s->is_raise ? link_raise(s->link, TEXT("a"), TEXT("e"), MAYBE_NONE, s->why)
                            : link_start(s->link, &start, s->id, s->why);
    return NULL;
}

/* The call reaches the server, its answer does not come back. */
static void ask_into_the_void(struct starter *s)
{
    EXPECT_STATUS(E_NOT_FOUND, link_get(world.link, TEXT("none"), 0, NULL, NULL, why));
    atomic_store(&proxy.is_deaf, true);
    s->link = world.link;
    EXPECT(pthread_create(&s->thread, NULL, start_one, s) == 0);
    usleep(300000);
    proxy_cut(&proxy);
    proxy_mend(&proxy);
    EXPECT(pthread_join(s->thread, NULL) == 0);
}

/* A start under an id of our own is asked again, and found to be done; there is one instance. */
TEST(a_start_is_repeated_and_done_once)
{
    struct starter starter = {0};
    struct seen seen = {0};
    struct mem mem;
    struct buffer cursor;
    struct request_query query = {.limit = 10, .to_ms = INT64_MAX};

    proxied_begin();
    ask_into_the_void(&starter);
    EXPECT_STATUS(OK, starter.status);
    mem_init(&mem, SIZE_MAX);
    buffer_init(&cursor, &mem);
    EXPECT_STATUS(OK, link_list(direct, &query, &cursor, on_view, &seen, why));
    EXPECT_EQ(1, seen.n);
    EXPECT_TEXT(starter.id, seen.id);
    buffer_release(&cursor);
    mem_release(&mem);
    proxied_end();
}

/* An event must not come twice because a connection broke: who raised it is told. */
TEST(an_event_is_not_repeated)
{
    struct starter starter = {.is_raise = true};
    struct hand *hand = &world.hand;

    proxied_begin();
    start_flow(direct, "a");
    struct link_work *work = hand_take(hand, WORK_TURN);
    ask_into_the_void(&starter);
    EXPECT_STATUS(E_UNAVAILABLE, starter.status);
    (void)actions_of(work, 0);
    answer(hand, work);
    work = hand_take(hand, WORK_TURN);
    EXPECT_EQ(1, count(work->fresh, EVENT_EVENT_RAISED));
    answer_one(hand, work, complete_action(1, "1"));
    proxied_end();
}

/* A server that lets nobody in is not asked more often than the back-off says. */
TEST(connecting_again_is_not_hurried)
{
    proxied_begin();
    EXPECT_STATUS(E_NOT_FOUND, link_get(world.link, TEXT("none"), 0, NULL, NULL, why));
    uint32_t before_n = atomic_load(&proxy.accepted_n);
    for (int n = 0; n < 20; n++) { /* let in, and thrown out */
        atomic_store(&proxy.is_cut, true);
        usleep(50000);
        atomic_store(&proxy.is_cut, false);
        usleep(50000);
    }
    uint32_t n = atomic_load(&proxy.accepted_n) - before_n;
    EXPECT(n <= 12);
    EXPECT_STATUS(E_NOT_FOUND, link_get(world.link, TEXT("none"), 0, NULL, NULL, why));
    proxied_end();
}

/* Without memory a call answers so, and work is not lost: the nth failure, for every n. */
TEST(memory_may_run_out_anywhere)
{
    struct hand *hand = &world.hand;
    char id[LINK_ID_SIZE];

    world_begin(NULL, NULL);
    for (uint64_t n = 1; n < 60; n++) {
        struct link_start start = {.name = TEXT("flow"), .input = SOME("\"in\"")};
        struct seen seen = {0};
        test_note("n %llu", (unsigned long long)n);
        atomic_store(&memory_fail_at, n);
        enum status status = link_start(world.link, &start, id, why);
        if (status == OK) {
            struct link_work *work = hand_take(hand, WORK_TURN);
            struct action *action = arena_alloc_zero(&work->arena, sizeof *action);
            atomic_store(&memory_fail_at, action == NULL ? 0 : n);
            if (action == NULL) {
                link_abandon(work, false, "");
                link_flush(hand->port);
                work = hand_take(hand, WORK_TURN);
                action = arena_alloc_zero(&work->arena, sizeof *action);
            }
            *action = complete_action(1, "1");
            work->answer.actions = action;
            work->answer.actions_n = 1;
            answer(hand, work);
            while ((status = link_get(world.link, TEXT(id), 50, on_view, &seen, why)) != OK) {
                /* unavailable: the connection was lost for want of memory, and comes again */
                EXPECT(status == E_NOMEM || status == E_TIMEOUT || status == E_UNAVAILABLE);
                if (status == E_NOMEM) continue;
                work = hand_take_within(hand, 1); /* the answer had no memory: it came again */
                if (work == NULL) continue;
                *actions_of(work, 1) = complete_action(1, "1");
                answer(hand, work);
            }
            EXPECT_TEXT("1", seen.output);
        } else {
            EXPECT(status == E_NOMEM);
        }
        atomic_store(&memory_fail_at, 0);
    }
    world_end();
}
