/* SPDX-License-Identifier: Apache-2.0
 *
 * A disk that is really full: a small file system in memory, with a ballast file to free space again. Needs the right
 * to mount one; skipped without.
 */
#include "base/assert.h"
#include "base/clock.h"
#include "test/lib/test.h"
#include "test/torture/client.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define DISK_OPTIONS "size=64m"
#define BALLAST_SIZE (40 << 20)
#define BLOB_SIZE (100 << 10)
#define SEGMENT_KIB 1024
#define FILL_MS 60000

static char mounted[PATH_MAX];

static void unmount(void)
{
    if (mounted[0] != '\0') (void)umount2(mounted, MNT_DETACH);
}

/* out: where it is. Skips the test when it cannot be had. */
static void mount_small_disk(char *out)
{
    (void)snprintf(out, PATH_MAX, "%s/disk", test_directory());
    int failed = mkdir(out, 0700);
    assert(failed == 0);
    if (geteuid() != 0) test_skip("only root may mount a small file system to fill");
    if (mount("none", out, "tmpfs", 0, DISK_OPTIONS) != 0) {
        test_skip("a small file system to fill cannot be mounted here");
    }
    (void)snprintf(mounted, sizeof mounted, "%s", out);
}

static void add_ballast(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    EXPECT(fd >= 0);
    EXPECT_EQ(0, posix_fallocate(fd, 0, BALLAST_SIZE));
    (void)close(fd);
}

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

/* A full disk refuses what would grow, loses nothing, and when there is space again all goes on by itself. */
TEST(full_disk_refuses_and_recovers)
{
    char disk[PATH_MAX], directory[PATH_MAX], ballast[PATH_MAX];
    struct client *c = client_new(1);

    mount_small_disk(disk);
    (void)snprintf(directory, sizeof directory, "%.*s/data", PATH_MAX - 16, disk);
    (void)snprintf(ballast, sizeof ballast, "%.*s/ballast", PATH_MAX - 16, disk);
    add_ballast(ballast);
    struct cage_plan plan = {.directory = directory, .segment_kib = SEGMENT_KIB};

    client_begin(c, &plan);
    c->blob_size = BLOB_SIZE;
    load_until_refused(c, &plan);
    c->blob_size = 0;
    EXPECT_EQ(0, unlink(ballast));
    load_until_accepted(c, &plan);
    client_kill(c);
    client_heal(c, &plan);
    client_report(c);
    client_free(c);
    unmount();
}
