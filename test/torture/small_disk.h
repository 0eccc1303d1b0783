/* SPDX-License-Identifier: Apache-2.0
 *
 * A disk that is really full: a file system of 64 MiB in memory, with a ballast file of 40 MiB to
 * free space again. One at a time. Needs the right to mount one.
 */
#ifndef TEST_TORTURE_SMALL_DISK_H
#define TEST_TORTURE_SMALL_DISK_H

/* out (PATH_MAX): where it is. Skips the test when it cannot be had. */
void small_disk_mount(char *out);
/* Also done at the end of the process: a failed test does not come to its own end. */
void small_disk_unmount(void);
void small_disk_add_ballast(const char *path);

#endif
