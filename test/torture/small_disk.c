/* SPDX-License-Identifier: Apache-2.0
 *
 * See small_disk.h.
 */
#include "test/torture/small_disk.h"

#include "base/assert.h"
#include "test/lib/test.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define DISK_OPTIONS "size=64m"
#define BALLAST_SIZE (40 << 20)

static char mounted[PATH_MAX];

void small_disk_unmount(void)
{
    if (mounted[0] != '\0') (void)umount2(mounted, MNT_DETACH);
    mounted[0] = '\0';
}

void small_disk_mount(char *out)
{
    small_disk_unmount(); /* what a failed test has left */
    (void)snprintf(out, PATH_MAX, "%s/disk", test_directory());
    int failed = mkdir(out, 0700);
    assert(failed == 0);
    if (geteuid() != 0) test_skip("only root may mount a small file system to fill");
    if (mount("none", out, "tmpfs", 0, DISK_OPTIONS) != 0) {
        test_skip("a small file system to fill cannot be mounted here");
    }
    (void)snprintf(mounted, sizeof mounted, "%s", out);
    (void)atexit(small_disk_unmount);
}

void small_disk_add_ballast(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    EXPECT(fd >= 0);
    EXPECT_EQ(0, posix_fallocate(fd, 0, BALLAST_SIZE));
    (void)close(fd);
}
