/* SPDX-License-Identifier: Apache-2.0
 *
 * See process.h. Reads /proc, which is memory: nothing here waits.
 */
#include "server/process.h"

#include "base/clock.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

static int64_t started_s;

void process_start(void) { started_s = clock_wall_ns() / NS_PER_S; }

static uint64_t resident_bytes(void)
{
    char text[128];
    unsigned long long total = 0, resident = 0;

    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    ssize_t len = read(fd, text, sizeof text - 1);
    (void)close(fd);
    if (len <= 0) return 0;
    text[len] = '\0';
    if (sscanf(text, "%llu %llu", &total, &resident) != 2) return 0;
    return (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint64_t fds_n(void)
{
    DIR *directory = opendir("/proc/self/fd");
    uint64_t n = 0;

    if (directory == NULL) return 0;
    while (readdir(directory) != NULL) n++;
    (void)closedir(directory);
    return n < 3 ? 0 : n - 3; /* ".", ".." and the directory itself */
}

void process_stats(struct process_stats *out)
{
    struct rlimit limit = {0};

    (void)getrlimit(RLIMIT_NOFILE, &limit);
    *out = (struct process_stats){
        .resident_bytes = resident_bytes(),
        .cpu_ns = (uint64_t)clock_cpu_ns(),
        .fds_n = fds_n(),
        .fds_n_max = limit.rlim_cur,
        .started_s = started_s,
    };
}
