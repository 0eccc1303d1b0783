/* SPDX-License-Identifier: Apache-2.0
 *
 * See bench_grpc.h: the server process and its figures.
 */
#define _GNU_SOURCE /* pipe2 */
#include "cmd/bench_grpc.h"

#include "base/clock.h"
#include "cmd/bench.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define READY_MS 30000
#define STOP_MS 20000

/* In the child: never returns. program NULL: this one. */
_Noreturn static void become_server(const char *program, const char *data, int ready_fd)
{
    char log[600];
    char directory[600];
    char *arguments[] = {"norn", "server", "--data", directory, "--listen", "127.0.0.1:0", NULL};
    snprintf(directory, sizeof directory, "%s", data);
    snprintf(log, sizeof log, "%s.log", data);
    int log_fd = open(log, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* a benchmark that was killed leaves nobody behind */
    if (log_fd < 0 || dup2(log_fd, STDERR_FILENO) < 0 || dup2(ready_fd, STDOUT_FILENO) < 0)
        _exit(127);
    if (program == NULL) execv("/proc/self/exe", arguments);
    arguments[1] = "bench";
    if (program != NULL) execv(program, arguments + 1);
    _exit(127);
}

/* "... ready on ADDRESS, ..." */
static bool find_address(const char *line, char *out, size_t size)
{
    static const char word[] = " ready on ";
    const char *start = strstr(line, word);
    if (start == NULL) return false;
    start += sizeof word - 1;
    size_t len = strcspn(start, ", \n");
    if (start[len] == '\0' || len == 0 || len >= size) return false; /* the rest is to come */
    snprintf(out, size, "%.*s", (int)len, start);
    return true;
}

static bool read_ready(struct bench_server *server)
{
    char text[1024];
    size_t len = 0;
    int64_t end_ns = clock_mono_ns() + READY_MS * NS_PER_MS;
    while (len + 1 < sizeof text && clock_mono_ns() < end_ns) {
        struct pollfd poller = {.fd = server->ready_fd, .events = POLLIN};
        if (poll(&poller, 1, 100) <= 0) continue;
        ssize_t size = read(server->ready_fd, text + len, sizeof text - 1 - len);
        if (size <= 0) return false;
        len += (size_t)size;
        text[len] = '\0';
        if (find_address(text, server->address, sizeof server->address)) return true;
    }
    return false;
}

/* The directory may be removed before anybody could read the log. */
static void print_log(const char *data)
{
    char path[600];
    char line[512];
    snprintf(path, sizeof path, "%s.log", data);
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) fputs(line, stderr);
    if (file != NULL) fclose(file);
}

bool bench_server_start(struct bench_server *server, const char *data)
{
    return bench_server_start_other(server, NULL, data);
}

bool bench_server_start_other(struct bench_server *server, const char *program, const char *data)
{
    int pipe_fd[2];
    if (pipe2(pipe_fd, O_CLOEXEC) != 0) {
        fprintf(stderr, "norn bench: %s\n", strerror(errno));
        return false;
    }
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) become_server(program, data, pipe_fd[1]);
    close(pipe_fd[1]);
    *server = (struct bench_server){.pid = pid, .ready_fd = pipe_fd[0]};
    if (pid > 0 && read_ready(server)) return true;
    fprintf(stderr, "norn bench: the server did not start; its log:\n");
    print_log(data);
    if (pid > 0) {
        kill(pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);
    }
    close(pipe_fd[0]);
    server->pid = 0;
    return false;
}

bool bench_server_stop(struct bench_server *server)
{
    if (server->pid == 0) return true;
    int code = 0;
    pid_t ended = 0;
    int64_t end_ns = clock_mono_ns() + STOP_MS * NS_PER_MS;
    kill(server->pid, SIGTERM);
    while ((ended = waitpid(server->pid, &code, WNOHANG)) == 0 && clock_mono_ns() < end_ns) {
        bench_sleep_ms(10);
    }
    if (ended == 0) {
        fprintf(stderr, "norn bench: the server did not end within %d s of SIGTERM\n",
                STOP_MS / 1000);
        kill(server->pid, SIGKILL);
        (void)waitpid(server->pid, &code, 0);
    } else if (!WIFEXITED(code) || WEXITSTATUS(code) != 0) {
        fprintf(stderr, "norn bench: the server ended with %s %d\n",
                WIFEXITED(code) ? "exit code" : "signal",
                WIFEXITED(code) ? WEXITSTATUS(code) : WTERMSIG(code));
    }
    close(server->ready_fd);
    server->pid = 0;
    return ended != 0 && WIFEXITED(code) && WEXITSTATUS(code) == 0;
}

int64_t bench_server_cpu_ns(const struct bench_server *server)
{
    clockid_t clock_id;
    struct timespec time;
    if (server->pid == 0 || clock_getcpuclockid(server->pid, &clock_id) != 0 ||
        clock_gettime(clock_id, &time) != 0)
        return 0;
    return time.tv_sec * NS_PER_S + time.tv_nsec;
}

uint64_t bench_server_rss_bytes(const struct bench_server *server)
{
    return server->pid == 0 ? 0 : bench_rss_bytes(server->pid);
}
