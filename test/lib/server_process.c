/* SPDX-License-Identifier: Apache-2.0
 *
 * See server_process.h. The server dies with the test, also when that crashes.
 */
#include "test/lib/server_process.h"

#include "test/lib/test.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define READY_MS 30000

static void run(const struct server_process *s, const char *norn, int out)
{
    char listen_on[64];
    const char *words[16] = {norn, "server", "--data", s->directory, "--listen", listen_on};
    size_t n = 6;

    (void)snprintf(listen_on, sizeof listen_on, "127.0.0.1:%u", (unsigned)s->port);
    words[n++] = "--log-level";
    words[n++] = "error";
    for (size_t i = 0; i < 4 && s->more[i] != NULL; i++) words[n++] = s->more[i];
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)dup2(out, STDOUT_FILENO);
    execv(norn, (char **)(uintptr_t)words);
    _exit(127);
}

/* "... ready on 127.0.0.1:4001, ..." */
static void read_port(struct server_process *s, int in)
{
    char text[1024];
    size_t len = 0;
    struct pollfd poller = {.fd = in, .events = POLLIN};

    while (memchr(text, '\n', len) == NULL) {
        EXPECT(poll(&poller, 1, READY_MS) == 1);
        ssize_t size = read(in, text + len, sizeof text - 1 - len);
        if (size <= 0) test_fail(__FILE__, __LINE__, "the server ended before it was ready");
        len += (size_t)size;
    }
    text[len] = '\0';
    const char *ready = strstr(text, " ready on ");
    EXPECT(ready != NULL);
    const char *colon = strchr(ready, ':');
    EXPECT(colon != NULL);
    s->port = (uint16_t)strtoul(colon + 1, NULL, 10);
}

void server_process_start(struct server_process *s)
{
    const char *norn = getenv("NORN");
    int ends[2];

    if (norn == NULL) test_skip("NORN does not say where the program is");
    if (s->directory[0] == '\0')
        (void)snprintf(s->directory, sizeof s->directory, "%s/data", test_directory());
    EXPECT(s->pid == 0);
    EXPECT(pipe(ends) == 0);
    for (int n = 0; n < 2; n++) (void)fcntl(ends[n], F_SETFD, FD_CLOEXEC);
    s->pid = fork();
    EXPECT(s->pid >= 0);
    if (s->pid == 0) run(s, norn, ends[1]);
    close(ends[1]);
    read_port(s, ends[0]);
    close(ends[0]);
    (void)snprintf(s->address, sizeof s->address, "127.0.0.1:%u", (unsigned)s->port);
}

static int end(struct server_process *s, int number)
{
    int code = 0;

    if (s->pid == 0) return 0;
    (void)kill(s->pid, number);
    (void)waitpid(s->pid, &code, 0);
    s->pid = 0;
    return WIFEXITED(code) ? WEXITSTATUS(code) : -1;
}

void server_process_kill(struct server_process *s) { (void)end(s, SIGKILL); }
int server_process_stop(struct server_process *s) { return end(s, SIGTERM); }
