/* SPDX-License-Identifier: Apache-2.0
 *
 * The service manager's protocols, with a socket and an environment of the test's own.
 */
#define _GNU_SOURCE /* SOCK_CLOEXEC */
#include "server/notify.h"

#include "test/lib/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Listens at the name, abstract when it begins with '@'; answers the socket. */
static int listen_at(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t len = strlen(name);

    EXPECT(len < sizeof address.sun_path);
    memcpy(address.sun_path, name, len);
    if (name[0] == '@') address.sun_path[0] = '\0';
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    EXPECT(fd >= 0);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
    EXPECT_EQ(0, bind(fd, (const struct sockaddr *)(const void *)&address, size));
    return fd;
}

static void expect_told(int fd, const char *expected)
{
    char text[256];

    ssize_t len = recv(fd, text, sizeof text - 1, 0);
    EXPECT(len >= 0);
    text[len] = '\0';
    EXPECT_TEXT(expected, text);
}

TEST(nobody_is_told_when_nobody_listens)
{
    EXPECT_EQ(0, unsetenv("NOTIFY_SOCKET"));
    EXPECT(!notify_send("READY=1"));
    EXPECT_EQ(0, setenv("NOTIFY_SOCKET", "relative/path", 1));
    EXPECT(!notify_send("READY=1"));
    EXPECT_EQ(0, setenv("NOTIFY_SOCKET", "/nowhere/at/all", 1));
    EXPECT(!notify_send("READY=1"));
    char name[300];
    memset(name, 'x', sizeof name - 1);
    name[0] = '/';
    name[sizeof name - 1] = '\0';
    EXPECT_EQ(0, setenv("NOTIFY_SOCKET", name, 1));
    EXPECT(!notify_send("READY=1"));
}

TEST(both_kinds_of_sockets_are_told)
{
    char path[100], abstract[64];

    (void)snprintf(path, sizeof path, "%s/s", test_directory());
    (void)snprintf(abstract, sizeof abstract, "@norn-test-%d", (int)getpid());
    const char *const names[] = {path, abstract};
    for (int i = 0; i < 2; i++) {
        test_note("%s", names[i]);
        int fd = listen_at(names[i]);
        EXPECT_EQ(0, setenv("NOTIFY_SOCKET", names[i], 1));
        EXPECT(notify_send("READY=1\nSTATUS=x"));
        expect_told(fd, "READY=1\nSTATUS=x");
        (void)close(fd);
    }
}

static int64_t watchdog(const char *interval, const char *pid)
{
    (void)unsetenv("WATCHDOG_USEC");
    (void)unsetenv("WATCHDOG_PID");
    if (interval != NULL) (void)setenv("WATCHDOG_USEC", interval, 1);
    if (pid != NULL) (void)setenv("WATCHDOG_PID", pid, 1);
    return notify_watchdog_ms();
}

TEST(the_watchdog_is_for_the_process_it_names)
{
    char own[32];

    (void)snprintf(own, sizeof own, "%d", (int)getpid());
    EXPECT_EQ(0, watchdog(NULL, NULL));
    EXPECT_EQ(30000, watchdog("30000000", NULL));
    EXPECT_EQ(30000, watchdog("30000000", own));
    EXPECT_EQ(0, watchdog("30000000", "1"));
    EXPECT_EQ(0, watchdog("soon", own));
    EXPECT_EQ(1, watchdog("5", own));
    EXPECT_EQ(0, watchdog("0", own));
}

TEST(sockets_are_taken_once_and_only_by_the_process_they_are_for)
{
    char own[32];

    (void)snprintf(own, sizeof own, "%d", (int)getpid());
    EXPECT_EQ(0, notify_listen_fds());
    (void)setenv("LISTEN_FDS", "2", 1);
    EXPECT_EQ(0, notify_listen_fds());
    (void)setenv("LISTEN_PID", "1", 1);
    EXPECT_EQ(0, notify_listen_fds());
    (void)setenv("LISTEN_PID", own, 1);
    EXPECT_EQ(2, notify_listen_fds());
    EXPECT_EQ(0, notify_listen_fds());
    EXPECT(getenv("LISTEN_FDS") == NULL);
}
