/* SPDX-License-Identifier: Apache-2.0
 *
 * Work across the end of a process, over real connections: of the server's, and of a worker's.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "test/lib/caller.h"
#include "test/lib/real_server.h"
#include "test/lib/test.h"
#include "wire/pb.h"

#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define SOON_MS 20000
#define CALLERS_MAX 8
#define GRACE_MS 500
/* The server asks a silent connection after 30 s, and gives it 20 s to answer. */
#define PULLED_MS 50000

static const char *const flags[] = {"--work-grace", "500ms", NULL};
static struct real_server server;
static struct client_sockets *sockets;
static char data[PATH_MAX];

/* Those of the present test: closed with the world. */
static struct caller *callers[CALLERS_MAX];
static unsigned callers_n;

static void open_world(void)
{
    server = (struct real_server){0};
    callers_n = 0;
    (void)snprintf(data, sizeof data, "%s/data", test_directory());
    real_server_start(&server, data, flags);
    EXPECT_STATUS(OK, client_sockets_open(mem_process(), 64, &sockets));
}

static void close_world(void)
{
    while (callers_n > 0) caller_close(callers[--callers_n]);
    client_sockets_close(sockets);
    real_server_stop(&server, SOON_MS);
}

static void open_caller(struct caller *c, const char *hub)
{
    EXPECT(caller_open(c, sockets, server.address, hub));
    EXPECT(callers_n < CALLERS_MAX);
    callers[callers_n++] = c;
}

static struct taken *await(struct basket *b, uint32_t n)
{
    struct taken *t = basket_await(b, n, SOON_MS);

    if (t == NULL)
        test_fail(__FILE__, __LINE__, "%u of %u pieces of work in %d ms", b->taken_n, n, SOON_MS);
    return t;
}

static void expect_end(struct caller *c, const char *id, const char *output)
{
    struct seen seen;

    EXPECT_EQ(GRPC_OK, caller_wait(c, id, SOON_MS, &seen));
    EXPECT_EQ(STATUS_COMPLETED, seen.status);
    EXPECT_BYTES(bytes_of_text(output), seen.output);
}

/* A worker that finishes a turn while the server is down hands it to the next life of the server:
 * what it has done need not be done again. */
TEST(a_turn_taken_before_a_crash_is_answered_after_it)
{
    struct caller c;
    struct basket b;

    open_world();
    open_caller(&c, "");
    EXPECT_EQ(GRPC_OK, caller_start(&c, "a", "flow", BYTES_LITERAL("1")));
    basket_open(&b, &c, BYTES_NONE);
    struct taken *turn = await(&b, 1);
    real_server_kill(&server);
    caller_close(&c);
    real_server_start(&server, data, flags);
    open_caller(&c, "");
    EXPECT_EQ(GRPC_OK, caller_end_turn(&c, &turn->item, BYTES_LITERAL("\"kept\"")));
    expect_end(&c, "a", "\"kept\"");
    basket_close(&b);
    close_world();
}

/* The same with an activity, and its result is in the history of the next turn. */
TEST(an_activity_taken_before_a_crash_is_answered_after_it)
{
    struct caller c;
    struct basket b;

    open_world();
    open_caller(&c, "");
    EXPECT_EQ(GRPC_OK, caller_start(&c, "a", "flow", BYTES_LITERAL("1")));
    basket_open(&b, &c, BYTES_NONE);
    struct taken *turn = await(&b, 1);
    EXPECT_EQ(GRPC_OK, caller_order_task(&c, &turn->item, 1, "step", BYTES_LITERAL("2")));
    struct taken *task = await(&b, 2);
    EXPECT_EQ(WORK_TASK, task->item.kind);
    real_server_kill(&server);
    caller_close(&c);
    real_server_start(&server, data, flags);
    open_caller(&c, "");
    EXPECT_EQ(GRPC_OK, caller_end_task(&c, &task->item, BYTES_LITERAL("\"3\"")));
    basket_close(&b);
    basket_open(&b, &c, BYTES_NONE);
    turn = await(&b, 1);
    EXPECT_EQ(WORK_TURN, turn->item.kind); /* the activity itself is not offered again */
    EXPECT_EQ(3, turn->item.past_n);  /* OrchestratorStarted, ExecutionStarted, TaskScheduled */
    EXPECT_EQ(2, turn->item.fresh_n); /* OrchestratorStarted, TaskCompleted */
    EXPECT_EQ(GRPC_OK, caller_end_turn(&c, &turn->item, BYTES_LITERAL("\"4\"")));
    expect_end(&c, "a", "\"4\"");
    EXPECT_EQ(2, b.taken_n + 1);
    basket_close(&b);
    close_world();
}

/* An answer to a dispatch of the life before, after the work was given to somebody else, is taken
 * without a word and changes nothing. */
TEST(an_answer_from_before_a_crash_loses_to_who_has_the_work_now)
{
    struct caller c;
    struct basket before;
    struct basket now;

    open_world();
    open_caller(&c, "");
    EXPECT_EQ(GRPC_OK, caller_start(&c, "a", "flow", BYTES_LITERAL("1")));
    basket_open(&before, &c, BYTES_NONE);
    struct taken *old = await(&before, 1);
    real_server_kill(&server);
    caller_close(&c);
    real_server_start(&server, data, flags);
    open_caller(&c, "");
    basket_open(&now, &c, BYTES_NONE);
    struct taken *turn = await(&now, 1);
    EXPECT_EQ(GRPC_OK, caller_end_turn(&c, &old->item, BYTES_LITERAL("\"old\"")));
    EXPECT_EQ(GRPC_OK, caller_end_turn(&c, &turn->item, BYTES_LITERAL("\"new\"")));
    expect_end(&c, "a", "\"new\"");
    basket_close(&before);
    basket_close(&now);
    close_world();
}

/* The same id in two hubs is two instances, before and after a restart. */
TEST(hubs_are_apart)
{
    struct caller red, blue;
    struct basket b;
    struct seen seen;

    open_world();
    open_caller(&red, "red");
    open_caller(&blue, "blue");
    EXPECT_EQ(GRPC_OK, caller_start(&red, "a", "flow", BYTES_LITERAL("1")));
    EXPECT_EQ(GRPC_OK, caller_start(&blue, "a", "flow", BYTES_LITERAL("1")));
    basket_open(&b, &red, BYTES_NONE);
    struct taken *turn = await(&b, 1);
    /* over the other hub's connection it is nobody's */
    EXPECT_EQ(GRPC_OK, caller_end_turn(&blue, &turn->item, BYTES_LITERAL("\"blue\"")));
    EXPECT_EQ(GRPC_OK, caller_end_turn(&red, &turn->item, BYTES_LITERAL("\"red\"")));
    expect_end(&red, "a", "\"red\"");
    EXPECT_EQ(1, b.taken_n);
    basket_close(&b);
    real_server_kill(&server);
    caller_close(&red);
    caller_close(&blue);
    real_server_start(&server, data, flags);
    open_caller(&red, "red");
    open_caller(&blue, "blue");
    expect_end(&red, "a", "\"red\"");
    EXPECT_EQ(GRPC_OK, caller_get(&blue, "a", &seen));
    EXPECT(seen.exists);
    EXPECT(!status_is_final(seen.status));
    basket_open(&b, &blue, BYTES_NONE);
    turn = await(&b, 1);
    EXPECT_EQ(GRPC_OK, caller_end_turn(&blue, &turn->item, BYTES_LITERAL("\"blue\"")));
    expect_end(&blue, "a", "\"blue\"");
    basket_close(&b);
    close_world();
}

/* ---- a worker in a process of its own ---- */

/* In the child: takes one piece of work, says so on the pipe, and does nothing more. */
_Noreturn static void be_worker(int fd)
{
    struct client_sockets *own;
    struct caller c;
    struct basket b;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (client_sockets_open(mem_process(), 2, &own) != OK) _exit(1);
    if (!caller_open(&c, own, server.address, "")) _exit(1);
    basket_open(&b, &c, BYTES_NONE);
    if (basket_await(&b, 1, SOON_MS) == NULL) _exit(2);
    if (write(fd, "!", 1) != 1) _exit(3);
    for (;;) client_sockets_turn(own, 1000);
}

/* A worker process that has taken the only piece of work there is. */
static pid_t start_worker(void)
{
    int fds[2];
    char word;

    EXPECT_EQ(0, pipe(fds));
    (void)fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) be_worker(fds[1]);
    EXPECT(pid > 0);
    (void)close(fds[1]);
    EXPECT_EQ(1, read(fds[0], &word, 1));
    (void)close(fds[0]);
    return pid;
}

/* Work in the hands of a worker that was killed is offered to others, after the grace delay and not
 * before it. */
TEST(work_of_a_killed_worker_is_offered_again)
{
    struct caller c;
    struct basket b;

    open_world();
    open_caller(&c, "");
    EXPECT_EQ(GRPC_OK, caller_start(&c, "a", "flow", BYTES_LITERAL("1")));
    pid_t pid = start_worker();
    basket_open(&b, &c, BYTES_NONE);
    EXPECT(basket_await(&b, 1, 2 * GRACE_MS) == NULL); /* it lives, and has the work */
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
    int64_t killed_ns = clock_mono_ns();
    struct taken *turn = await(&b, 1);
    int64_t waited_ms = (clock_mono_ns() - killed_ns) / NS_PER_MS;
    printf("# offered again after %lld ms\n", (long long)waited_ms);
    EXPECT(waited_ms >= GRACE_MS);
    EXPECT(waited_ms < SOON_MS);
    EXPECT_EQ(GRPC_OK, caller_end_turn(&c, &turn->item, BYTES_LITERAL("\"second\"")));
    expect_end(&c, "a", "\"second\"");
    basket_close(&b);
    close_world();
}

/* A worker whose machine is gone says nothing, and no packet comes back: here its process is
 * stopped. The server asks it, hears nothing, and gives its work to others. */
TEST(work_of_a_silent_worker_is_offered_again)
{
    struct caller c;
    struct basket b;

    open_world();
    open_caller(&c, "");
    EXPECT_EQ(GRPC_OK, caller_start(&c, "a", "flow", BYTES_LITERAL("1")));
    pid_t pid = start_worker();
    basket_open(&b, &c, BYTES_NONE);
    (void)kill(pid, SIGSTOP);
    struct taken *turn = basket_await(&b, 1, PULLED_MS + GRACE_MS + SOON_MS);
    EXPECT(turn != NULL);
    EXPECT_EQ(GRPC_OK, caller_end_turn(&c, &turn->item, BYTES_LITERAL("\"second\"")));
    expect_end(&c, "a", "\"second\"");
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
    basket_close(&b);
    close_world();
}
