/* SPDX-License-Identifier: Apache-2.0
 *
 * A disk that is really full: a small file system in memory, with a ballast file to free space
 * again. Needs the right to mount one; skipped without.
 */
#include "base/clock.h"
#include "test/lib/test.h"
#include "test/torture/client.h"
#include "test/torture/small_disk.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define BLOB_SIZE (100 << 10)
#define SEGMENT_KIB 1024
#define FILL_MS 60000
#define RESTART_MS 1500

/* Load until a start is refused; in portions, so that the purges of a heal do not count. */
static void load_until_refused(struct client *c, const struct cage_plan *plan)
{
    int64_t end_ns = clock_mono_ns() + FILL_MS * NS_PER_MS;

    c->refused = OK;
    while (c->refused == OK && clock_mono_ns() < end_ns) {
        c->starts_left = UINT32_MAX;
        (void)client_load(c, 100);
        client_expect_alive(c, plan);
    }
    if (c->refused != E_NOSPACE && c->refused != E_LIMIT) {
        test_fail(__FILE__, __LINE__, "refused with %s", status_name(c->refused));
    }
    printf("# refused with %s after %llu starts\n", status_name(c->refused),
           (unsigned long long)c->ledger.counts.started);
}

/* Until a start that is told now is acknowledged. */
static void load_until_accepted(struct client *c, const struct cage_plan *plan)
{
    int64_t end_ns = clock_mono_ns() + FILL_MS * NS_PER_MS;
    uint64_t before = c->ledger.counts.started;

    while (c->ledger.counts.started < before + 10) {
        if (clock_mono_ns() > end_ns)
            client_fail(plan, "no start is accepted although there is space");
        c->starts_left = 100;
        (void)client_load(c, 100);
        client_expect_alive(c, plan);
    }
}

struct full_disk {
    char disk[PATH_MAX];
    char directory[PATH_MAX];
    char ballast[PATH_MAX];
};

/* A life on a small disk, until a start is refused. */
static struct client *live_until_full(struct full_disk *d, struct cage_plan *plan)
{
    small_disk_mount(d->disk);
    (void)snprintf(d->directory, PATH_MAX, "%.*s/data", PATH_MAX - 16, d->disk);
    (void)snprintf(d->ballast, PATH_MAX, "%.*s/ballast", PATH_MAX - 16, d->disk);
    small_disk_add_ballast(d->ballast);
    *plan = (struct cage_plan){.directory = d->directory, .segment_kib = SEGMENT_KIB};

    struct client *c = client_new(1);
    client_begin(c, plan);
    c->blob_size = BLOB_SIZE;
    load_until_refused(c, plan);
    c->blob_size = 0;
    return c;
}

/* A full disk refuses what would grow, loses nothing, and when there is space again all goes on by
 * itself. */
TEST(full_disk_refuses_and_recovers)
{
    struct full_disk d;
    struct cage_plan plan;
    struct client *c = live_until_full(&d, &plan);

    EXPECT_EQ(0, unlink(d.ballast));
    load_until_accepted(c, &plan);
    client_kill(c);
    client_heal(c, &plan);
    client_report(c);
    client_free(c);
    small_disk_unmount();
}

/* A process that died on a full disk comes up on it, or says that it cannot and why; with space it
 * has everything. */
TEST(restart_on_a_full_disk)
{
    struct full_disk d;
    struct cage_plan plan;
    struct client *c = live_until_full(&d, &plan);

    client_kill(c);
    client_begin(c, &plan);
    bool is_up = client_load(c, RESTART_MS);
    client_kill(c);
    EXPECT(is_up || strstr(c->closed, "E_NOSPACE") != NULL);
    EXPECT_EQ(0, unlink(d.ballast));
    client_heal(c, &plan);
    client_report(c);
    client_free(c);
    small_disk_unmount();
}
