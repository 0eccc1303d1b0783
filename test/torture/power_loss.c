/* SPDX-License-Identifier: Apache-2.0
 *
 * The same oracle as kill9.c, with a victim whose disk forgets what was not synced
 * (power_loss_shim.c). The healing lives run on the disk as it was left, without the shim.
 *
 * TORTURE_CYCLES says how often, TORTURE_SEED from which seed.
 */
#include "test/lib/test.h"
#include "test/torture/client.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#define SEGMENT_KIB 256
#define LIVES_BETWEEN_HEALS 3
#define EXIT_LOST 137 /* the shim's */

/* The environment of a victim under the shim. */
struct weather {
    char preload[PATH_MAX];
    char directory[PATH_MAX];
    char seed[64];
    char at[64];
};

/* at: "POWER_LOSS_AT", or "POWER_LOSS_EIO_AT"; n 0 = not so. */
static struct cage_plan plan_under_shim(struct weather *w, const char *directory, uint64_t seed,
                                        const char *at, uint64_t n)
{
    (void)snprintf(w->preload, sizeof w->preload, "LD_PRELOAD=%s", SHIM_PATH);
    (void)snprintf(w->directory, sizeof w->directory, "POWER_LOSS_DIRECTORY=%s", directory);
    (void)snprintf(w->seed, sizeof w->seed, "POWER_LOSS_SEED=%llu", (unsigned long long)seed);
    (void)snprintf(w->at, sizeof w->at, "%s=%llu", at, (unsigned long long)n);
    return (struct cage_plan){
        .directory = directory,
        .segment_kib = SEGMENT_KIB,
        /* the sanitizer's library comes after the shim, which calls the kernel itself and does not
           mind */
        .environment = {w->preload, w->directory, w->seed, w->at,
                        "ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0"},
    };
}

static bool has_lost_power(int how)
{
    bool is_too_early =
        WIFSIGNALED(how) && WTERMSIG(how) == SIGUSR2; /* the shim was not loaded yet */

    return is_too_early || (WIFEXITED(how) && WEXITSTATUS(how) == EXIT_LOST);
}

/* One life that ends by a power loss: when it is told to, or at the nth change of a file. */
static void live_until_loss(struct client *c, const char *directory)
{
    struct weather weather;
    bool is_counted = rng_chance(&c->rng, 500);
    uint64_t at = is_counted ? rng_below(&c->rng, 600) + 1 : 0;
    struct cage_plan plan =
        plan_under_shim(&weather, directory, rng_u64(&c->rng), "POWER_LOSS_AT", at);

    client_begin(c, &plan);
    (void)client_load(c, rng_between(&c->rng, 5, 400));
    cage_signal(&c->cage, SIGUSR2);
    int how = client_end(c);
    if (!has_lost_power(how)) client_expect_alive(c, &plan);
}

/* What was acknowledged before the power went is there when it is back. */
TEST(power_loss_at_any_moment)
{
    char directory[PATH_MAX];
    uint64_t cycles = torture_number("TORTURE_CYCLES", 15);
    uint64_t seed = torture_number("TORTURE_SEED", 1);
    struct client *c = client_new(seed);

    torture_directory(directory);
    struct cage_plan healthy = {.directory = directory, .segment_kib = SEGMENT_KIB};
    for (uint64_t cycle = 1; cycle <= cycles; cycle++) {
        test_note("TORTURE_SEED=%llu, cycle %llu", (unsigned long long)seed,
                  (unsigned long long)cycle);
        live_until_loss(c, directory);
        if (cycle % LIVES_BETWEEN_HEALS == 0 || cycle == cycles) client_heal(c, &healthy);
    }
    client_report(c);
    EXPECT(c->ledger.counts.ended > cycles);
    client_free(c);
}

/* The making of a data directory can be interrupted at every change, too. */
TEST(power_loss_at_the_nth_change_of_a_new_directory)
{
    uint64_t cycles = torture_number("TORTURE_CYCLES", 15);
    uint64_t step = cycles >= 100 ? 1 : 7;

    for (uint64_t nth = 1; nth <= 60; nth += step) {
        char directory[PATH_MAX];
        struct weather weather;
        struct client *c = client_new(nth);
        torture_directory(directory);
        test_note("POWER_LOSS_AT=%llu", (unsigned long long)nth);
        struct cage_plan plan = plan_under_shim(&weather, directory, nth, "POWER_LOSS_AT", nth);
        client_begin(c, &plan);
        EXPECT(!client_load(c, 10000));
        int how = client_end(c);
        if (!has_lost_power(how)) client_expect_alive(c, &plan);
        struct cage_plan healthy = {.directory = directory, .segment_kib = SEGMENT_KIB};
        client_heal(c, &healthy);
        client_free(c);
    }
}

/* After a sync that failed and lost what it should have saved, nothing that stood on it is ever
 * acknowledged: of the journal, the process stops; of the archive, the journal still has it. */
TEST(a_failed_sync_loses_nothing_acknowledged)
{
    uint64_t cycles = torture_number("TORTURE_CYCLES", 15);
    uint64_t runs_n = cycles >= 100 ? 60 : 8;
    uint64_t stopped_n = 0;

    for (uint64_t run = 1; run <= runs_n; run++) {
        char directory[PATH_MAX];
        struct weather weather;
        struct client *c = client_new(run);
        uint64_t nth = rng_below(&c->rng, 80) + 1;
        torture_directory(directory);
        test_note("run %llu, POWER_LOSS_EIO_AT=%llu", (unsigned long long)run,
                  (unsigned long long)nth);
        struct cage_plan plan = plan_under_shim(&weather, directory, run, "POWER_LOSS_EIO_AT", nth);
        client_begin(c, &plan);
        if (!client_load(c, 700)) stopped_n++;
        cage_signal(&c->cage, SIGUSR2);
        int how = client_end(c);
        EXPECT(!WIFEXITED(how) || WEXITSTATUS(how) != 0); /* it does not pretend that all is well */
        struct cage_plan healthy = {.directory = directory, .segment_kib = SEGMENT_KIB};
        client_heal(c, &healthy);
        client_free(c);
    }
    printf("# %llu of %llu stopped by themselves\n", (unsigned long long)stopped_n,
           (unsigned long long)runs_n);
    EXPECT(stopped_n > 0);
}
