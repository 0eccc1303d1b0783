/* SPDX-License-Identifier: Apache-2.0
 *
 * A real server on a disk that is really full, with clients and workers who do not know it: what
 * was acknowledged stays, and when there is space again all goes on by itself.
 */
#include "base/clock.h"
#include "test/lib/test.h"
#include "test/torture/server_load.h"
#include "test/torture/small_disk.h"

#include <stdio.h>
#include <unistd.h>

#define FILL_MS 60000
#define FULL_MS 2500
#define BLOB_SIZE (200u << 10)
#define STOP_MS 20000

static const char *const flags[] = {
    "--store-journal-segment-size",
    "1MiB",
    "--store-archive-segment-size",
    "1MiB",
    "--store-disk-free-min",
    "0B",
    "--store-archive-every",
    "50ms",
    "--work-grace",
    "300ms",
    NULL,
};

static char disk[PATH_MAX], data[PATH_MAX], ballast[PATH_MAX];

static struct load *live_until_full(void)
{
    struct load *l = load_new(1);
    struct flow_manner at_once = {0};
    struct flow_manner slow = {.delay_ms_max = 100, .limit = 10};

    small_disk_mount(disk);
    (void)snprintf(data, sizeof data, "%.*s/data", PATH_MAX - 16, disk);
    (void)snprintf(ballast, sizeof ballast, "%.*s/ballast", PATH_MAX - 16, disk);
    small_disk_add_ballast(ballast);
    load_add_worker(l, &at_once);
    load_add_worker(l, &slow);
    real_server_start(&l->server, data, flags);
    l->blob_size = BLOB_SIZE;
    l->may_refuse = true;
    int64_t end_ns = clock_mono_ns() + FILL_MS * NS_PER_MS;
    while (l->refused_n == 0 && clock_mono_ns() < end_ns) load_run(l, 100, false);
    EXPECT(l->refused_n > 0);
    printf("# full after %llu starts\n", (unsigned long long)l->acknowledged.starts);
    load_run(l, FULL_MS, false); /* workers and clients go on asking */
    l->blob_size = 0;
    return l;
}

static void expect_recovery(struct load *l)
{
    int64_t end_ns = clock_mono_ns() + FILL_MS * NS_PER_MS;
    uint64_t before = l->acknowledged.starts;

    while (l->acknowledged.starts < before + 10 && clock_mono_ns() < end_ns)
        load_run(l, 100, false);
    EXPECT(l->acknowledged.starts >= before + 10);
    l->may_refuse = false;
    load_run(l, 500, false);
    load_heal(l);
    load_report(l);
}

/* The server stays up, refuses what would grow, and goes on by itself when there is space. */
TEST(a_server_on_a_full_disk_recovers)
{
    struct load *l = live_until_full();

    EXPECT_EQ(0, unlink(ballast));
    expect_recovery(l);
    real_server_stop(&l->server, STOP_MS);
    load_lose(l);
    load_free(l);
    small_disk_unmount();
}

/* One that is killed on a full disk comes up on it, or says that it cannot; with space it has
 * everything. */
TEST(a_server_killed_on_a_full_disk_has_everything)
{
    struct load *l = live_until_full();

    real_server_kill(&l->server);
    load_lose(l);
    real_server_spawn(&l->server, data, flags);
    bool is_up = real_server_await(&l->server);
    printf("# on the full disk it %s\n", is_up ? "comes up" : "does not come up");
    if (is_up) load_run(l, 500, true);
    EXPECT(is_up || real_server_has_logged(&l->server, "space") ||
           real_server_has_logged(&l->server, "full"));
    EXPECT_EQ(0, unlink(ballast));
    if (is_up) real_server_kill(&l->server);
    load_lose(l);
    real_server_start(&l->server, data, flags);
    expect_recovery(l);
    real_server_kill(&l->server);
    load_free(l);
    small_disk_unmount();
}
