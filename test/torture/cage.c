/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* pipe2 */

#include "test/torture/cage.h"

#include "base/assert.h"
#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

void cage_effects_path(const char *directory, char *out)
{
    (void)snprintf(out, PATH_MAX, "%s.effects", directory);
}

void cage_log_path(const char *directory, char *out)
{
    (void)snprintf(out, PATH_MAX, "%s.log", directory);
}

static char newest_directory[PATH_MAX]; /* of the victim started last */

void cage_keep(void)
{
    const char *to = getenv("TORTURE_KEEP");

    if (to != NULL && rename(newest_directory, to) == 0) printf("# its data is in %s\n", to);
}

static _Noreturn void become_victim(const struct cage_plan *plan, int in_fd, int out_fd)
{
    const char *words[CAGE_WORDS_MAX + 5];
    char effects[PATH_MAX], log[PATH_MAX], segment[16];
    size_t n = 0;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    cage_effects_path(plan->directory, effects);
    cage_log_path(plan->directory, log);
    (void)snprintf(segment, sizeof segment, "%u", plan->segment_kib);
    for (size_t i = 0; plan->before[i] != NULL; i++) words[n++] = plan->before[i];
    words[n++] = VICTIM_PATH;
    words[n++] = plan->directory;
    words[n++] = effects;
    words[n++] = segment;
    words[n] = NULL;
    for (size_t i = 0; plan->environment[i] != NULL; i++)
        (void)putenv((char *)plan->environment[i]);
    int log_fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    (void)dup2(in_fd, STDIN_FILENO);
    (void)dup2(out_fd, STDOUT_FILENO);
    (void)dup2(log_fd, STDERR_FILENO);
    (void)execvp(words[0], (char *const *)words);
    (void)dprintf(STDERR_FILENO, "%s cannot be run: %s\n", words[0], strerror(errno));
    _exit(127);
}

void cage_open(struct cage *c, const struct cage_plan *plan)
{
    int to[2], from[2];

    *c = (struct cage){0};
    (void)snprintf(newest_directory, sizeof newest_directory, "%s", plan->directory);
    (void)signal(SIGPIPE, SIG_IGN); /* telling a dead victim something is no error */
    int failed = pipe2(to, O_CLOEXEC) | pipe2(from, O_CLOEXEC);
    assert(failed == 0);
    (void)fflush(stdout);
    c->pid = fork();
    assert(c->pid >= 0);
    if (c->pid == 0) become_victim(plan, to[0], from[1]);
    (void)close(to[0]);
    (void)close(from[1]);
    c->to_fd = to[1];
    c->from_fd = from[0];
}

void cage_tell(struct cage *c, const char *format, ...)
{
    char line[VICTIM_LINE_MAX];
    va_list arguments;

    va_start(arguments, format);
    int len = vsnprintf(line, sizeof line - 1, format, arguments);
    va_end(arguments);
    assert(len > 0 && (size_t)len < sizeof line - 1);
    line[len] = '\n';
    /* Shorter than what a pipe takes at once; what the driver has under way at a time fits into the
     * pipe. */
    ssize_t written = write(c->to_fd, line, (size_t)len + 1);
    assert(written == len + 1 || errno == EPIPE);
}

/* Takes a line out of what was heard. */
static bool take_line(struct cage *c, char *line)
{
    char *end = memchr(c->heard, '\n', c->heard_n);
    if (end == NULL) return false;
    size_t len = (size_t)(end - c->heard);
    assert(len < VICTIM_LINE_MAX);
    memcpy(line, c->heard, len);
    line[len] = '\0';
    c->heard_n -= len + 1;
    memmove(c->heard, end + 1, c->heard_n);
    return true;
}

static void hear_more(struct cage *c, int timeout_ms)
{
    struct pollfd poll_fd = {.fd = c->from_fd, .events = POLLIN};

    if (poll(&poll_fd, 1, timeout_ms) <= 0) return;
    ssize_t n = read(c->from_fd, c->heard + c->heard_n, sizeof c->heard - c->heard_n);
    if (n < 0 && errno == EINTR) return;
    if (n <= 0)
        c->has_ended = true;
    else
        c->heard_n += (size_t)n;
}

bool cage_hear(struct cage *c, int timeout_ms, char *line)
{
    int64_t end_ns = clock_mono_ns() + timeout_ms * NS_PER_MS;

    for (;;) {
        while (take_line(c, line)) {
            char *at = line;
            uint64_t pid = 0;
            if (strncmp(line, "ready ", 6) != 0) return true;
            (void)word_next(&at);
            if (word_number(at, &pid)) c->victim_pid = (pid_t)pid;
        }
        if (c->has_ended) return false;
        int64_t left_ns = end_ns - clock_mono_ns();
        hear_more(c, left_ns <= 0 ? 0 : (int)((left_ns + NS_PER_MS - 1) / NS_PER_MS));
        if (left_ns <= 0 && memchr(c->heard, '\n', c->heard_n) == NULL) return false;
    }
}

void cage_signal(struct cage *c, int number)
{
    (void)kill(c->victim_pid != 0 ? c->victim_pid : c->pid, number);
}

void cage_let_go(struct cage *c)
{
    if (c->to_fd >= 0) (void)close(c->to_fd);
    c->to_fd = -1;
}

int cage_close(struct cage *c)
{
    int how = 0;

    cage_let_go(c);
    while (waitpid(c->pid, &how, 0) < 0 && errno == EINTR) {
    }
    (void)close(c->from_fd);
    c->pid = 0;
    return how;
}
