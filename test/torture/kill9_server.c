/* SPDX-License-Identifier: Apache-2.0
 *
 * kill -9 of a real `norn server`, seen from outside: clients and workers over real connections,
 * which they open again. After every few deaths a life without new load must bring everything to
 * its end, and every rule of server_ledger.c must hold.
 *
 * TORTURE_CYCLES says how often, TORTURE_SEED from which seed. The moment of death does not follow
 * from the seed.
 */
#include "base/clock.h"
#include "test/lib/test.h"
#include "test/torture/server_load.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define LIVES_BETWEEN_HEALS 6
#define STOP_MS 20000

/* Small segments and quick archiving, so that a short life sees all of it; a short grace, so that
 * work of the workers that die is offered again soon. */
static const char *const flags[] = {
    "--store-journal-segment-size",
    "256KiB",
    "--store-archive-every",
    "50ms",
    "--store-idle-evict",
    "300ms",
    "--work-grace",
    "300ms",
    "--drain-timeout",
    "3s",
    NULL,
};

static const struct flow_manner manners[] = {
    {0},                                                   /* at once */
    {.limit = 4, .delay_ms_max = 20},                      /* takes little at a time */
    {.is_tokenless = true, .delay_ms_max = 10},            /* an older SDK */
    {.crash_per_mille = 50, .delay_ms_max = 30},           /* dies with work in hand */
    {.delay_ms_max = 900, .keeps_work = true, .limit = 6}, /* slow: answers the next life, too */
};

static uint64_t number_of(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);

    return text == NULL ? otherwise : strtoull(text, NULL, 10);
}

/* Mostly kill -9, most of these right after it has acknowledged something; sometimes in order. */
static void end_life(struct load *l)
{
    if (rng_chance(&l->rng, 170)) {
        real_server_stop(&l->server, STOP_MS);
    } else {
        if (rng_chance(&l->rng, 600)) load_run_to_answer(l, 200);
        real_server_kill(&l->server);
    }
    load_lose(l);
}

static void die_while_starting(struct load *l, const char *data)
{
    struct timespec pause = {.tv_nsec = (long)rng_below(&l->rng, 150) * 1000000};

    real_server_spawn(&l->server, data, flags);
    (void)nanosleep(&pause, NULL);
    real_server_kill(&l->server);
}

/* What was acknowledged over the wire before a kill -9 is there after it, and everything that has
 * begun comes to its right end. */
TEST(kill_a_server_at_any_moment)
{
    char data[PATH_MAX];
    uint64_t cycles = number_of("TORTURE_CYCLES", 18);
    uint64_t seed = number_of("TORTURE_SEED", 1);
    struct load *l = load_new(seed);

    (void)snprintf(data, sizeof data, "%s/data", test_directory());
    for (unsigned n = 0; n < sizeof manners / sizeof manners[0]; n++)
        load_add_worker(l, &manners[n]);
    for (uint64_t cycle = 1; cycle <= cycles; cycle++) {
        test_note("TORTURE_SEED=%llu, cycle %llu", (unsigned long long)seed,
                  (unsigned long long)cycle);
        if (cycle > 1 && rng_chance(&l->rng, 150)) die_while_starting(l, data);
        real_server_start(&l->server, data, flags);
        load_run(l, rng_between(&l->rng, 20, 700), false);
        if (cycle % LIVES_BETWEEN_HEALS == 0 || cycle == cycles) load_heal(l);
        if (cycle < cycles) end_life(l);
    }
    char *before = load_list(l);
    real_server_stop(&l->server, STOP_MS);
    load_lose(l);
    real_server_start(&l->server, data, flags);
    char *after = load_list(l);
    EXPECT_TEXT(before, after);
    free(before);
    free(after);
    load_report(l);
    EXPECT(l->acknowledged.starts > cycles);
    EXPECT(l->acknowledged.signals > cycles);
    EXPECT(l->acknowledged.waits > cycles);
    real_server_kill(&l->server);
    load_free(l);
}
