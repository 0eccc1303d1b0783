/* SPDX-License-Identifier: Apache-2.0
 *
 * What test_power_loss_shim.c watches under the shim: files in the directory given, each changed in
 * another way after it was synced. Then the power goes.
 */
#include "base/assert.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SIZE 8192

static void put(int fd, char letter, off_t offset, size_t size)
{
    char data[SIZE];

    assert(size <= sizeof data);
    memset(data, letter, size);
    ssize_t n = pwrite(fd, data, size, offset);
    assert(n == (ssize_t)size);
}

/* A file of SIZE letters 'a', durable. */
static int synced_file(const char *name)
{
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);

    assert(fd >= 0);
    put(fd, 'a', 0, SIZE);
    int failed = fdatasync(fd);
    assert(failed == 0);
    return fd;
}

int main(int argc, char **argv)
{
    assert(argc == 2);
    int failed = chdir(argv[1]);
    assert(failed == 0);
    int synced = synced_file("synced");
    put(synced, 'b', 0, SIZE / 2);
    failed = fsync(synced);
    assert(failed == 0);

    put(synced_file("overwritten"), 'b', 0, SIZE);
    put(synced_file("inside"), 'b', 100, 10); /* the rest of its sector is as it was */
    put(synced_file("grown"), 'b', SIZE, SIZE);
    failed = ftruncate(synced_file("cut"), 1000);
    assert(failed == 0);
    (void)synced_file("replaced");
    int fresh = open("new", O_RDWR | O_CREAT | O_EXCL, 0600);
    assert(fresh >= 0);
    put(fresh, 'b', 0, SIZE);
    failed = rename("new", "replaced"); /* the classic mistake: renamed before it was synced */
    assert(failed == 0);

    int failing = open("failing", O_RDWR | O_CREAT | O_EXCL, 0600);
    put(failing, 'b', 0, SIZE);
    failed =
        fdatasync(failing); /* the eighth sync, for which the test may have ordered a failure */
    assert(failed == 0 || errno == EIO);

    (void)kill(getpid(), SIGUSR2);
    for (;;) (void)pause();
}
