/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs of the library as workers of a server, while server and workers die: what was started
 * ends, with what it would have answered in quiet.
 */
#include "base/clock.h"
#include "test/lib/server_process.h"
#include "test/lib/test.h"

#include <norn.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define WAIT_MS 60000
#define FAN_N 8

#define EXPECT_NORN(expected, got)                                                                 \
    do {                                                                                           \
        norn_status got_status = (got);                                                            \
        if (got_status != (expected))                                                              \
            test_fail(__FILE__, __LINE__, "expected %s, got %s: %s", norn_status_text(expected),   \
                      norn_status_text(got_status), norn_client_error(client));                    \
    } while (0)

static struct server_process server;
static norn_client *client;
static norn_worker *worker;

/* ---- the program ---- */

static norn_status text_of(norn_context *ctx, long number, struct norn_bytes *output)
{
    char *text = norn_alloc(ctx, 32);

    if (text == NULL) return NORN_E_NOMEM;
    (void)snprintf(text, 32, "%ld", number);
    *output = norn_text(text);
    return NORN_OK;
}

static long number_of(struct norn_bytes bytes)
{
    char text[32] = "";

    (void)snprintf(text, sizeof text, "%.*s", (int)bytes.len, (const char *)bytes.ptr);
    return strtol(text, NULL, 10);
}

static norn_status square(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                          void *user)
{
    long n = number_of(input);

    (void)user;
    usleep(30000);
    return text_of(ctx, n * n, output);
}

static norn_status squares(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                           void *user)
{
    norn_task *tasks[FAN_N];
    struct norn_bytes one;
    long sum = 0;

    (void)input;
    (void)user;
    for (long n = 0; n < FAN_N; n++) {
        norn_status status = text_of(ctx, n, &one);
        if (status == NORN_OK)
            status = norn_begin_call(ctx, NORN_ACTIVITY, "square", one, NULL, &tasks[n]);
        if (status != NORN_OK) return status;
    }
    norn_status status = norn_when_all(ctx, tasks, FAN_N);
    for (int n = 0; status == NORN_OK && n < FAN_N; n++) {
        status = norn_await(ctx, tasks[n], &one);
        if (status == NORN_OK) sum += number_of(one);
    }
    return status == NORN_OK ? text_of(ctx, sum, output) : status;
}

/* add: keeps a sum. */
static norn_status counter(norn_context *ctx, const char *operation, struct norn_bytes input,
                           struct norn_bytes *output, void *user)
{
    struct norn_bytes sum;

    (void)user;
    long before = norn_here(ctx)->state.ptr == NULL ? 0 : number_of(norn_here(ctx)->state);
    long more = strcmp(operation, "add") == 0 ? number_of(input) : 0;
    norn_status status = text_of(ctx, before + more, &sum);
    if (status == NORN_OK) status = norn_set_state(ctx, sum);
    *output = sum;
    return status;
}

/* Fan out in a child, a timer, an event, an entity, and all of it twice by continue-as-new. */
static norn_status everything(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                              void *user)
{
    struct norn_bytes sum;
    struct norn_bytes word;
    char id[64];

    (void)user;
    norn_status status = norn_call_child(ctx, "squares", NORN_NONE, NULL, &sum);
    if (status == NORN_OK) status = norn_sleep(ctx, 50);
    if (status == NORN_OK) status = norn_wait_event(ctx, "go", -1, &word);
    (void)snprintf(id, sizeof id, "@counter@%s", norn_here(ctx)->id);
    if (status == NORN_OK) status = norn_call_entity(ctx, id, "add", sum, &sum);
    if (status != NORN_OK) return status;
    if (number_of(input) > 1) return norn_continue_as_new(ctx, norn_text("1"));
    *output = sum;
    return NORN_OK;
}

static void open_client(void)
{
    struct norn_client_options options = NORN_CLIENT_OPTIONS;

    options.address = server.address;
    EXPECT_NORN(NORN_OK, norn_client_open(&options, &client));
}

static void open_worker(void)
{
    EXPECT_NORN(NORN_OK, norn_worker_open(client, NULL, &worker));
    EXPECT_NORN(NORN_OK, norn_orchestrator(worker, "squares", NULL, squares, NULL));
    EXPECT_NORN(NORN_OK, norn_orchestrator(worker, "everything", NULL, everything, NULL));
    EXPECT_NORN(NORN_OK, norn_activity_add(worker, "square", 0, square, NULL));
    EXPECT_NORN(NORN_OK, norn_entity_add(worker, "counter", counter, NULL));
    EXPECT_NORN(NORN_OK, norn_worker_start(worker));
}

static void open_server(const char *grace)
{
    server_process_kill(&server);
    server = (struct server_process){.more = {"--work-grace", grace}};
    server_process_start(&server);
}

/* A signal, an answer of whom is lost with the server, may have arrived: so the event is sent
 * until it was acknowledged, and an instance that has ended does not mind. */
static void raise_surely(const char *id)
{
    norn_status status;

    do {
        status = norn_raise(client, id, "go", norn_text("1"));
    } while (status == NORN_E_UNAVAILABLE);
    EXPECT(status == NORN_OK || status == NORN_E_NOT_FOUND);
}

static void begin(int n, char id[16])
{
    struct norn_start_options start = NORN_START_OPTIONS;
    norn_status status;

    (void)snprintf(id, 16, "i%d", n);
    start.id = id;
    start.reuse = NORN_REUSE_KEEP;
    do {
        status = norn_start(client, "everything", norn_text("2"), &start, NULL);
    } while (status == NORN_E_UNAVAILABLE);
    EXPECT_NORN(NORN_OK, status);
    raise_surely(id);
    raise_surely(id);
}

static void expect_end(const char *id)
{
    struct norn_info *info = NULL;

    EXPECT_NORN(NORN_OK, norn_get(client, id, WAIT_MS, &info));
    if (info->state != NORN_COMPLETED)
        test_fail(__FILE__, __LINE__, "%s: %s: %s", id, info->failure.type, info->failure.message);
    EXPECT_TEXT("280", (const char *)info->output.ptr); /* twice 0 + 1 + 4 + ... + 49 */
    norn_info_free(info);
}

static void close_all(void)
{
    norn_worker_close(worker);
    norn_client_close(client);
    server_process_kill(&server);
}

/* ---- tests ---- */

/* Killed in the middle of everything, five times, the server loses nothing it acknowledged. */
TEST(programs_go_on_when_the_server_is_killed)
{
    char ids[20][16];

    open_server("200ms");
    open_client();
    open_worker();
    for (int n = 0; n < 20; n++) begin(n, ids[n]);
    for (int n = 0; n < 5; n++) {
        usleep(100000 + 37000 * (useconds_t)n);
        server_process_kill(&server);
        usleep(20000);
        server_process_start(&server);
    }
    for (int n = 0; n < 20; n++) expect_end(ids[n]);
    close_all();
}

/* Stopped politely and started again, likewise. */
TEST(programs_go_on_when_the_server_is_restarted)
{
    char ids[10][16];

    open_server("200ms");
    open_client();
    open_worker();
    for (int n = 0; n < 10; n++) begin(n, ids[n]);
    EXPECT_EQ(0, server_process_stop(&server));
    server_process_start(&server);
    for (int n = 0; n < 10; n++) expect_end(ids[n]);
    close_all();
}

/* The next worker has nothing in memory, and replays. */
TEST(programs_go_on_with_another_worker)
{
    char ids[10][16];

    open_server("200ms");
    open_client();
    open_worker();
    for (int n = 0; n < 10; n++) begin(n, ids[n]);
    for (int n = 0; n < 3; n++) {
        usleep(60000);
        norn_worker_close(worker);
        open_worker();
    }
    for (int n = 0; n < 10; n++) expect_end(ids[n]);
    close_all();
}

static pid_t fork_worker(void)
{
    pid_t pid = fork();

    EXPECT(pid >= 0);
    if (pid > 0) return pid;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    open_client();
    open_worker();
    for (;;) pause();
}

/* Workers are processes, and die without a word. */
TEST(programs_go_on_when_workers_are_killed)
{
    char ids[10][16];

    open_server("200ms");
    pid_t pid = fork_worker();
    open_client();
    for (int n = 0; n < 10; n++) begin(n, ids[n]);
    for (int n = 0; n < 3; n++) {
        usleep(150000);
        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);
        norn_client_close(client); /* no threads while a process is made */
        pid = fork_worker();
        open_client();
    }
    for (int n = 0; n < 10; n++) expect_end(ids[n]);
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
    norn_client_close(client);
    server_process_kill(&server);
}
