/* SPDX-License-Identifier: Apache-2.0
 *
 * kill -9 of a real process, at random moments and at the nth system call, and a disk that refuses
 * to sync. After every few deaths a life without load must bring everything to its end, and the
 * ledger must agree with all of it.
 *
 * TORTURE_CYCLES says how often, TORTURE_SEED from which seed.
 */
#include "test/lib/test.h"
#include "test/torture/client.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#define SEGMENT_KIB 256
#define LIVES_BETWEEN_HEALS 8
#define NTH_MAX 30
#define NTH_LIFE_MS 3000

/* What was acknowledged before a kill -9 is there after it, whatever the process was doing. */
TEST(kill_at_any_moment)
{
    char directory[PATH_MAX];
    uint64_t cycles = torture_number("TORTURE_CYCLES", 25);
    uint64_t seed = torture_number("TORTURE_SEED", 1);
    struct client *c = client_new(seed);

    torture_directory(directory);
    struct cage_plan plan = {.directory = directory, .segment_kib = SEGMENT_KIB};
    for (uint64_t cycle = 1; cycle <= cycles; cycle++) {
        test_note("TORTURE_SEED=%llu, cycle %llu", (unsigned long long)seed,
                  (unsigned long long)cycle);
        client_begin(c, &plan);
        if (!client_load(c, rng_between(&c->rng, 5, 400))) client_expect_alive(c, &plan);
        client_kill(c);
        if (cycle % LIVES_BETWEEN_HEALS == 0 || cycle == cycles) client_heal(c, &plan);
    }
    client_report(c);
    EXPECT(c->ledger.counts.ended > cycles);
    EXPECT(c->ledger.counts.histories > cycles);
    client_free(c);
}

/* Two processes on one directory would each be right and both be wrong: the second is refused. */
TEST(a_second_process_is_refused)
{
    char directory[PATH_MAX];
    char line[VICTIM_LINE_MAX];
    struct cage first, second;

    torture_directory(directory);
    struct cage_plan plan = {.directory = directory, .segment_kib = SEGMENT_KIB};
    cage_open(&first, &plan);
    while (first.victim_pid == 0 && !first.has_ended) (void)cage_hear(&first, 10, line);
    EXPECT(!first.has_ended);
    cage_open(&second, &plan);
    EXPECT(cage_hear(&second, 10000, line));
    EXPECT(strstr(line, "E_BUSY") != NULL);
    int how = cage_close(&second);
    EXPECT(WIFEXITED(how) && WEXITSTATUS(how) == 1);
    how = cage_close(&first);
    EXPECT(WIFEXITED(how) && WEXITSTATUS(how) == 0);
}

/* ---- the nth system call ---- */

static bool can_trace(void)
{
    const char *attempt = "strace -f -qq -o /dev/null -e trace=fdatasync "
                          "-e inject=fdatasync:error=EIO:when=1 true 2>/dev/null";

    return system(attempt) == 0;
}

/* One life on a fresh directory that meets `inject` at its nth call, then a look at what is left.
 * Answers how the victim ended, or -1 when it did not get that far. */
static int live_until(const char *call, const char *inject, uint32_t nth)
{
    char directory[PATH_MAX], trace[64], injection[64];
    struct client *c = client_new(nth);
    int how = -1;

    torture_directory(directory);
    (void)snprintf(trace, sizeof trace, "trace=%s", call);
    (void)snprintf(injection, sizeof injection, "inject=%s:%s:when=%u", call, inject, nth);
    test_note("%s", injection);
    struct cage_plan plan = {
        .directory = directory,
        .segment_kib = SEGMENT_KIB,
        .before = {"strace", "-f", "-qq", "-o", "/dev/null", "-e", trace, "-e", injection},
        /* the leak checker is a tracer too, and there can be only one */
        .environment = {"ASAN_OPTIONS=detect_leaks=0"},
    };
    client_begin(c, &plan);
    if (client_load(c, NTH_LIFE_MS))
        client_kill(c);
    else
        how = client_end(c);
    struct cage_plan healthy = {.directory = directory, .segment_kib = SEGMENT_KIB};
    client_heal(c, &healthy);
    client_free(c);
    return how;
}

/* From the first to the nth, so that the making of the directory is hurt as well. */
static void live_until_each(const char *call, const char *inject, bool (*is_right)(int how))
{
    uint64_t cycles = torture_number("TORTURE_CYCLES", 25);
    uint32_t step = cycles >= 100 ? 1 : 4;
    uint32_t ended_n = 0;

    if (!can_trace())
        test_skip("strace cannot trace here (not installed, or ptrace is not allowed)");
    for (uint32_t nth = 1; nth <= NTH_MAX; nth += step) {
        int how = live_until(call, inject, nth);
        if (how == -1) break; /* it does all there is to do with fewer calls */
        if (!is_right(how))
            test_fail(__FILE__, __LINE__, "it ended in another way: %x", (unsigned)how);
        ended_n++;
    }
    printf("# %u of the victims met the end that was prepared\n", ended_n);
    EXPECT(ended_n > 0);
}

/* The tracer ends as its victim did. */
static bool was_killed(int how) { return WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL; }
static bool has_stopped(int how) { return WIFEXITED(how) && WEXITSTATUS(how) != 0; }

/* A process that dies instead of its nth sync has acknowledged nothing that stood on it. */
TEST(kill_at_the_nth_sync) { live_until_each("fdatasync", "signal=KILL", was_killed); }

/* A process that dies instead of its nth write leaves parts: of an archive, of a new file. */
TEST(kill_at_the_nth_write) { live_until_each("pwrite64", "signal=KILL", was_killed); }

/* Between the parts of an atomic replacement of a file, too. */
TEST(kill_at_the_nth_rename) { live_until_each("renameat", "signal=KILL", was_killed); }

/* After a failed sync nobody knows what is on the disk: the process stops by itself. */
TEST(stop_at_a_failed_sync) { live_until_each("fdatasync", "error=EIO", has_stopped); }
