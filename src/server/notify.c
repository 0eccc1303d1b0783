/* SPDX-License-Identifier: Apache-2.0
 *
 * See notify.h.
 */
#define _GNU_SOURCE /* SOCK_CLOEXEC */
#include "server/notify.h"

#include "base/units.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define LISTEN_FDS_MAX 64

bool notify_send(const char *state)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    if (path == NULL || (path[0] != '/' && path[0] != '@')) return false;
    size_t len = strlen(path);
    if (len >= sizeof address.sun_path) return false;
    memcpy(address.sun_path, path, len);
    /* A name outside of the file system begins with a zero byte and has no final one. */
    if (path[0] == '@') address.sun_path[0] = '\0';

    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return false;
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
    ssize_t sent = sendto(fd, state, strlen(state), MSG_NOSIGNAL,
                          (const struct sockaddr *)(const void *)&address, size);
    (void)close(fd);
    return sent >= 0;
}

/* False when the variable is not there or not a number. */
static bool variable_read(const char *name, uint64_t *out)
{
    const char *text = getenv(name);

    return text != NULL && count_parse(bytes_of_text(text), out);
}

/* A number in this variable is the process that the others are meant for. */
static bool is_for_us(const char *name)
{
    uint64_t pid;

    return variable_read(name, &pid) && pid == (uint64_t)getpid();
}

int64_t notify_watchdog_ms(void)
{
    uint64_t interval_us;

    if (!variable_read("WATCHDOG_USEC", &interval_us)) return 0;
    if (getenv("WATCHDOG_PID") != NULL && !is_for_us("WATCHDOG_PID")) return 0;
    if (interval_us > INT64_MAX) return 0;
    int64_t ms = (int64_t)(interval_us / 1000);
    return ms == 0 && interval_us > 0 ? 1 : ms;
}

unsigned notify_listen_fds(void)
{
    uint64_t n = 0;

    if (!is_for_us("LISTEN_PID") || !variable_read("LISTEN_FDS", &n)) return 0;
    if (n > LISTEN_FDS_MAX) n = LISTEN_FDS_MAX;
    for (unsigned i = 0; i < n; i++) (void)fcntl((int)(NOTIFY_FIRST_FD + i), F_SETFD, FD_CLOEXEC);
    (void)unsetenv("LISTEN_PID");
    (void)unsetenv("LISTEN_FDS");
    (void)unsetenv("LISTEN_FDNAMES");
    return (unsigned)n;
}
