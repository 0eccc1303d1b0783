/* SPDX-License-Identifier: Apache-2.0
 *
 * See target.h.
 */
#define _GNU_SOURCE /* pipe2 */

#include "test/e2e/attacks/target.h"

#include "base/clock.h"
#include "test/lib/test.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WORDS_N_MAX 16
#define READY_MS 20000
#define STOP_MS 20000
#define PAGE_SIZE_MAX (256 * 1024)

static struct {
    pid_t pid; /* 0 = none */
    uint16_t port;
    char log_path[PATH_MAX];
} target;

/* ---- the process ---- */

static void kill_old(void)
{
    if (target.pid == 0) return;
    (void)kill(target.pid, SIGKILL);
    (void)waitpid(target.pid, NULL, 0);
    target.pid = 0;
}

static _Noreturn void become(const char *const *words, int out_fd, int err_fd)
{
    char *argv[WORDS_N_MAX + 4] = {(char *)(uintptr_t)NORN_PATH, (char *)(uintptr_t) "server"};
    size_t n = 2;

    /* Memory that was freed is given back soon, so that growth is growth. */
    (void)setenv("ASAN_OPTIONS", "quarantine_size_mb=4:detect_leaks=1", 1);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (; *words != NULL && n < WORDS_N_MAX; words++) argv[n++] = (char *)(uintptr_t)*words;
    (void)dup2(out_fd, STDOUT_FILENO);
    (void)dup2(err_fd, STDERR_FILENO);
    (void)execv(NORN_PATH, argv);
    _exit(127);
}

/* Waits for the line that says where it listens. */
static void wait_ready(int fd)
{
    char line[512];
    size_t n = 0;
    int64_t end_ns = clock_mono_ns() + READY_MS * NS_PER_MS;

    while (n < sizeof line - 1 && (n == 0 || line[n - 1] != '\n')) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int left_ms = (int)((end_ns - clock_mono_ns()) / NS_PER_MS);
        if (left_ms <= 0 || poll(&p, 1, left_ms) != 1 || read(fd, line + n, 1) != 1) break;
        n++;
    }
    line[n] = 0;
    const char *at = strstr(line, "127.0.0.1:");
    if (at == NULL) test_fail(__FILE__, __LINE__, "the server is not ready: \"%s\"", line);
    target.port = (uint16_t)strtoul(at + strlen("127.0.0.1:"), NULL, 10);
}

void target_start(const char *const *extra)
{
    /* The last --listen counts: a test may have its own. */
    const char *words[WORDS_N_MAX] = {"--listen", "127.0.0.1:0", "--data"};
    char data[PATH_MAX];
    int out[2];
    size_t n = 3;

    kill_old();
    const char *directory = test_directory();
    (void)snprintf(data, sizeof data, "%s/data", directory);
    (void)snprintf(target.log_path, sizeof target.log_path, "%s/log", directory);
    words[n++] = data;
    for (; extra != NULL && *extra != NULL && n < WORDS_N_MAX - 1; extra++) words[n++] = *extra;
    int log_fd = open(target.log_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    EXPECT(log_fd >= 0);
    EXPECT_EQ(0, pipe2(out, O_CLOEXEC));
    target.pid = fork();
    EXPECT(target.pid >= 0);
    if (target.pid == 0) become(words, out[1], log_fd);
    close(out[1]);
    close(log_fd);
    wait_ready(out[0]);
    /* Kept open: the server may write to it at its end. */
    (void)fcntl(out[0], F_SETFL, O_NONBLOCK);
    static int kept_fd = -1;
    if (kept_fd >= 0) close(kept_fd);
    kept_fd = out[0];
}

/* Its exit code; -1 and dead when it did not end. */
static int await_exit(pid_t pid, int64_t within_ms)
{
    int status = 0;
    int64_t end_ns = clock_mono_ns() + within_ms * NS_PER_MS;

    while (waitpid(pid, &status, WNOHANG) == 0) {
        const struct timespec pause = {0, 5 * NS_PER_MS};
        nanosleep(&pause, NULL);
        if (clock_mono_ns() < end_ns) continue;
        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, &status, 0);
        return -1;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void print_log(void)
{
    char line[2048];
    FILE *file = fopen(target.log_path, "r");

    if (file == NULL) return;
    for (int i = 0; i < 60 && fgets(line, sizeof line, file) != NULL; i++)
        printf("# log: %s", line);
    (void)fclose(file);
}

void target_stop(void)
{
    pid_t pid = target.pid;

    EXPECT(pid > 0);
    (void)kill(pid, SIGTERM);
    int code = await_exit(pid, STOP_MS);
    target.pid = 0;
    if (code != 0) print_log();
    EXPECT_EQ(0, code);
}

int target_run(const char *const *words, char *err, size_t err_size)
{
    char path[PATH_MAX];

    (void)snprintf(path, sizeof path, "%s/refusal", test_directory());
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    EXPECT(fd >= 0);
    pid_t pid = fork();
    EXPECT(pid >= 0);
    if (pid == 0) become(words, fd, fd);
    int code = await_exit(pid, 10000);
    ssize_t n = pread(fd, err, err_size - 1, 0);
    err[n < 0 ? 0 : n] = 0;
    close(fd);
    return code;
}

/* ---- what is seen of it ---- */

uint16_t target_port(void) { return target.port; }

int64_t target_cpu_ns(void)
{
    clockid_t id;
    struct timespec t;

    EXPECT_EQ(0, clock_getcpuclockid(target.pid, &id));
    EXPECT_EQ(0, clock_gettime(id, &t));
    return t.tv_sec * NS_PER_S + t.tv_nsec;
}

int64_t target_rss(void)
{
    char path[64];
    long long whole = 0;
    long long resident = 0;

    (void)snprintf(path, sizeof path, "/proc/%d/statm", (int)target.pid);
    FILE *file = fopen(path, "r");
    EXPECT(file != NULL);
    int n = fscanf(file, "%lld %lld", &whole, &resident);
    (void)fclose(file);
    EXPECT_EQ(2, n);
    return resident * sysconf(_SC_PAGESIZE);
}

int target_dial(int receive_size)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(target.port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    EXPECT(fd >= 0);
    if (receive_size > 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_size, sizeof receive_size);
    EXPECT_EQ(0, connect(fd, (struct sockaddr *)&address, sizeof address));
    return fd;
}

static const char *metrics_page(void)
{
    static char page[PAGE_SIZE_MAX];
    const char *request = "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    size_t n = 0;
    ssize_t more;
    int fd = target_dial(0);

    EXPECT_EQ(strlen(request), send(fd, request, strlen(request), MSG_NOSIGNAL));
    while ((more = recv(fd, page + n, sizeof page - 1 - n, 0)) > 0) n += (size_t)more;
    close(fd);
    page[n] = 0;
    EXPECT(strstr(page, "HTTP/1.1 200") == page);
    return page;
}

uint64_t target_sample(const char *name)
{
    const char *page = metrics_page();
    char start[128];

    (void)snprintf(start, sizeof start, "\n%s ", name);
    const char *at = strstr(page, start);
    if (at == NULL) test_fail(__FILE__, __LINE__, "/metrics has no %s", name);
    return strtoull(at + strlen(start), NULL, 10);
}

uint64_t target_counter(const char *name)
{
    char whole[128];

    (void)snprintf(whole, sizeof whole, "norn_net_%s_total", name);
    return target_sample(whole);
}

unsigned target_log_lines(const char *text)
{
    char line[4096];
    unsigned n = 0;
    FILE *file = fopen(target.log_path, "r");

    EXPECT(file != NULL);
    while (fgets(line, sizeof line, file) != NULL) {
        if (strstr(line, text) != NULL) n++;
    }
    (void)fclose(file);
    return n;
}
