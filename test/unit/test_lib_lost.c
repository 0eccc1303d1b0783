/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes that die in the user's code, each a child of the test: what they ran is counted by the
 * next one, so that a crash loop ends. And those that close things in the wrong order, which are
 * told so.
 */
#include "lib_world.h"

#include <sys/wait.h>
#include <unistd.h>

#define DIED 40       /* + the attempt */
#define HAS_FAILED 50 /* the instance, as it should */
#define IS_OTHERWISE 51

static norn_status die(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                       void *user)
{
    (void)input, (void)output, (void)user;
    _exit(DIED + (int)norn_here(ctx)->attempt);
}

static norn_status calls_die(norn_context *ctx, struct norn_bytes input, struct norn_bytes *output,
                             void *user)
{
    (void)user;
    return norn_call(ctx, "Die", input, NULL, output);
}

/* One life of the program. */
static _Noreturn void live(const char *directory, const struct norn_policy *policy)
{
    struct norn_start_options start = NORN_START_OPTIONS;
    struct norn_info *info = NULL;
    struct world w = {.options = NORN_WORKER_OPTIONS, .policies = policy, .policies_n = 1};
    pthread_mutex_init(&w.mutex, NULL);
    snprintf(w.directory, sizeof w.directory, "%s/data", directory);
    world_open_engine(&w);
    world_open_worker(&w);
    (void)norn_orchestrator(w.worker, "Calls", NULL, calls_die, NULL);
    (void)norn_activity_add(w.worker, "Die", 0, die, NULL);
    (void)norn_worker_start(w.worker);
    start.id = "i";
    start.reuse = NORN_REUSE_KEEP;
    (void)norn_start(w.client, "Calls", NORN_NONE, &start, NULL);
    norn_status status = norn_get(w.client, "i", WAIT_MS, &info);
    bool is_right = status == NORN_OK && info->state == NORN_FAILED &&
                    strstr(info->failure.message, "the process ended while it ran") != NULL;
    _exit(is_right ? HAS_FAILED : IS_OTHERWISE);
}

static int wait_for(pid_t pid)
{
    int how = 0;
    EXPECT_EQ(pid, waitpid(pid, &how, 0));
    return WIFEXITED(how) ? WEXITSTATUS(how) : -WTERMSIG(how);
}

TEST(an_activity_that_ends_the_process_is_counted)
{
    static const int expected[] = {DIED + 1, DIED + 2, DIED + 3, HAS_FAILED, HAS_FAILED};
    struct norn_policy policy = NORN_POLICY;
    if (getenv("NORN") != NULL) return; /* a server counts the workers that it loses */
    policy.first_threshold = 2;
    policy.second_threshold = 2;
    policy.retry_delay_ms = 1;
    const char *directory = test_directory();
    for (size_t n = 0; n < sizeof expected / sizeof *expected; n++) {
        pid_t pid = fork();
        if (pid == 0) live(directory, &policy);
        test_note("life %zu", n);
        EXPECT_EQ(expected[n], wait_for(pid));
    }
    test_note("%s", "");
}

/* ---- the wrong order ---- */

static struct world misused;

static void close_engine_first(void) { norn_engine_close(misused.engine); }
static void close_client_first(void) { norn_client_close(misused.client); }

TEST(what_a_worker_uses_is_not_closed_before_it)
{
    world_open(&misused);
    if (misused.engine != NULL) {
        EXPECT_ABORT("norn_engine_close() with open workers: close them first", close_engine_first);
    }
    EXPECT_ABORT("norn_client_close() with open workers: close them first", close_client_first);
    world_close(&misused);
}
